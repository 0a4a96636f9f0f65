"""Figures of `turnbuckle transfers`: errors of three approaches as boxes, and which sizes make the transfers and their time.

After Figs 11 and 1 of AHEAD (Abdelhafez et al.).  A legend stands inside each drawing: it is read alone.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.questions.transfers.datasheet import APPROACHES, Projected, Study, percentage_errors, wmape
from turnbuckle.questions.transfers.question import distribution
from turnbuckle.show.figures.charts import Rows, Spec, layer, own_colour, quantitative
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import INK, RULE, SOFT
from turnbuckle.show.text import NARROW, clean, number, shorten

Float = NDArray[np.float64]

#: Approaches: words and colour.
WORDS: Final = {"projected": "packets of the link", "peak": "peak bandwidth", "envelope": "back of the envelope"}
_COLOURS: Final = {"projected": "#1f4e79", "peak": "#e08214", "envelope": "#8a94a0"}
#: Decades of size, small to large: light to dark.
_SHADES: Final = ("#ffffd9", "#edf8b1", "#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#253494", "#081d58", "#03092b")
#: Errors beyond this [%] make the axis logarithmic.
_PLAIN: Final = 150.0
_NAMES, _ROW, _LEGEND = 190, 22, 30


def figures(found: Study) -> list[Figure]:
    """The box plot, where times on the other node are known, and the two distributions."""
    judged = [p for p in found.projected if p.judged.height]
    return [*([boxes(judged)] if judged else []), shares(found, "count"), shares(found, "time")]


def boxes(judged: list[Projected]) -> Figure:
    """Absolute percentage errors of every application by approach: quartiles, whiskers of 1.5 times their distance, and WMAPE."""
    rows: Rows = []
    at = 0.0
    heads: Rows = []
    for projected in judged:
        heads.append({"y": at + _ROW * len(APPROACHES) / 2, "name": _called(projected), "top": at})
        for approach in APPROACHES:
            rows.append({"y": at + _ROW / 2, "colour": _COLOURS[approach], **_box(projected, approach)})
            at += _ROW
        at += 12
    height = at - 12
    largest = max(r["high"] for r in rows) if rows else 1.0
    largest = max(largest, max(r["wmape"] for r in rows))
    plain = largest <= _PLAIN
    scale: Spec = (
        {"domain": [0, largest * 1.04 or 1.0], "nice": False}
        if plain
        else {"type": "symlog", "constant": 10, "domain": [0, largest * 1.1], "nice": False}
    )
    ticks = [0, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 100000]
    axis: Spec = {"title": "absolute percentage error of a transfer [%]" + ("" if plain else ", logarithmic beyond 10"), "grid": True}
    axis |= {"tickCount": 8} if plain else {"values": [t for t in ticks if t <= largest * 1.1]}
    y: Spec = {"field": "y", "type": "quantitative", "axis": None, "scale": {"domain": [0, height], "reverse": True, "nice": False}}

    def x(field: str) -> Spec:
        return quantitative(field, scale=scale, axis=axis)

    spec = layer(
        *_legend([(WORDS[a], _COLOURS[a]) for a in APPROACHES] + [("WMAPE", "")]),
        {
            "data": {"values": heads[1:]},
            "mark": {"type": "rule", "color": RULE},
            "encoding": {"y": {**y, "field": "top"}},
        },
        {"mark": {"type": "rule", "strokeWidth": 1.4}, "encoding": {"x": x("low"), "x2": {"field": "high"}, "y": y, "color": own_colour()}},
        {
            "mark": {"type": "bar", "height": 12, "aria": True, "opacity": 0.85},
            "encoding": {"x": x("first"), "x2": {"field": "third"}, "y": y, "color": own_colour(), "description": {"field": "tip"}},
        },
        {"mark": {"type": "tick", "thickness": 4, "size": 12, "opacity": 1}, "encoding": {"x": x("median"), "y": y, "color": own_colour()}},
        {"mark": {"type": "tick", "color": "white", "thickness": 1.5, "size": 12}, "encoding": {"x": x("median"), "y": y}},
        {
            "mark": {"type": "point", "shape": "diamond", "filled": True, "size": 75, "stroke": "white", "strokeWidth": 1.2, "opacity": 1,
                     "color": INK},
            "encoding": {"x": x("wmape"), "y": y},
        },
        {
            "data": {"values": heads},
            "mark": {"type": "text", "align": "right", "x": -12, "fontWeight": "bold", "limit": _NAMES - 14, "lineBreak": "\n"},
            "encoding": {"y": y, "text": {"field": "name"}},
        },
        data=rows,
        height=int(height),
        left=_NAMES,
        right=16,
        top=_LEGEND,
        bottom=44,
    )  # fmt: skip
    told = [{k: v for k, v in row.items() if k in _TOLD} for row in rows]
    alt = "Absolute percentage errors. " + " ".join(f"{r['tip']}." for r in rows)
    caption = (
        f"Box: the middle half of the transfers, each counted once; line: the median; whiskers: 1.5{NARROW}times the box, no farther than "
        "the data. Diamond: WMAPE, in which a transfer weighs as much as the time it took."
    )
    return Figure("transfer-errors", "How far off each approach is", alt, spec, told, caption)


_TOLD: Final = ("application", "target", "approach", "count", "low", "first", "median", "third", "high", "wmape")


def _called(projected: Projected) -> str:
    return f"{shorten(clean(projected.application), 26)}\n{shorten(clean(projected.target), 26)}"


def _box(projected: Projected, approach: str) -> dict[str, Any]:
    actual, predicted = projected.judged["actual"].to_numpy(), projected.judged[approach].to_numpy()
    errors = percentage_errors(actual, predicted)
    first, median, third = (float(q) for q in np.quantile(errors, [0.25, 0.5, 0.75]))
    reach = 1.5 * (third - first)
    low = float(errors[errors >= first - reach].min())
    high = float(errors[errors <= third + reach].max())
    weighted = wmape(actual, predicted)
    name = clean(projected.application)
    return {
        "application": name, "target": clean(projected.target), "approach": WORDS[approach], "count": len(errors),
        "low": low, "first": first,
        "median": median, "third": third, "high": high, "wmape": weighted,
        "tip": f"{name}, {WORDS[approach]}: median {median:.1f}{NARROW}%, middle half {first:.1f} to {third:.1f}{NARROW}%, "
               f"WMAPE {weighted:.1f}{NARROW}%",
    }  # fmt: skip


def shares(found: Study, of: str) -> Figure:
    """A bar an application: shares of its transfers (``count``) or of their time (``time``) by decade of size."""
    rows: Rows = []
    heads: Rows = []
    decades = sorted({row["low_bytes"] for s in found.subjects for row in distribution(s)})
    shade = {d: _shade(d) for d in decades}
    for k, subject in enumerate(found.subjects):
        at = 0.0
        heads.append({"row": k, "name": shorten(clean(subject.name), 28)})
        for row in distribution(subject):
            share = row[f"{of}_share"]
            words = _decade(row["low_bytes"])
            rows.append(
                {
                    "row": k, "from": at, "to": at + share, "middle": at + share / 2, "colour": shade[row["low_bytes"]],
                    "label": words if share > 0.13 else "", "ink": "white" if _dark(row["low_bytes"]) else INK,
                    "tip": f"{clean(subject.name)}: {words}, {100 * share:.1f}{NARROW}%", "application": clean(subject.name),
                    "low_bytes": row["low_bytes"], "high_bytes": row["high_bytes"], "share": share,
                }
            )  # fmt: skip
            at += share
    y: Spec = {
        "field": "row",
        "type": "ordinal",
        "axis": None,
        "scale": {"domain": list(range(len(found.subjects))), "paddingInner": 0.28, "paddingOuter": 0.1},
    }
    title = "share of the transfers" if of == "count" else "share of the time of the transfers"
    axis: Spec = {"title": title, "format": "%", "tickCount": 5}
    x = quantitative("from", axis=axis, scale={"nice": False, "domain": [0, 1]})
    spec = layer(
        *_legend([(_decade(d), shade[d]) for d in decades], -_NAMES + 20.0),
        {
            "mark": {"type": "bar", "aria": True, "stroke": "white", "strokeWidth": 0.6},
            "encoding": {"x": x, "x2": {"field": "to"}, "y": y, "description": {"field": "tip"}, "color": own_colour()},
        },
        {
            "mark": {"type": "text", "limit": 120, "fontSize": 10},
            "encoding": {"x": quantitative("middle"), "y": y, "text": {"field": "label"}, "color": own_colour("ink")},
        },
        {
            "data": {"values": heads},
            "mark": {"type": "text", "align": "right", "x": -12, "fontWeight": "bold", "limit": _NAMES - 14},
            "encoding": {"y": y, "text": {"field": "name"}},
        },
        data=rows,
        height=32 * len(found.subjects),
        left=_NAMES,
        right=16,
        top=_LEGEND,
        bottom=44,
    )
    told = [
        {"application": r["application"], "low_bytes": r["low_bytes"], "high_bytes": r["high_bytes"], "share": r["share"]} for r in rows
    ]
    alt = f"{title.capitalize()} by size. " + " ".join(f"{r['tip']}." for r in rows if r["share"] >= 0.01)
    name = "transfers-by-size" if of == "count" else "transfer-time-by-size"
    heading = "Transfers by size" if of == "count" else "Time of the transfers by size"
    return Figure(name, heading, alt, spec, told)


def _decade(low: float) -> str:
    """Words of the decade that begins at `low` bytes.

    >>> _decade(1e4)
    '10–100\\xa0kB'
    """
    unit, divisor = next((u, d) for u, d in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)) if low >= d or d == 1.0)
    if low * 10 < 1000 * divisor:
        return f"{low / divisor:g}–{low * 10 / divisor:g}{NARROW}{unit}"
    return f"{low / divisor:g}{NARROW}{unit}–{number(low * 10, 'B', 2)}"


def _shade(low: float) -> str:
    return _SHADES[min(max(round(math.log10(low)), 0), len(_SHADES) - 1)]


def _dark(low: float) -> bool:
    return round(math.log10(low)) >= 5


def _legend(words: list[tuple[str, str]], at: float = 0.0) -> list[Spec]:
    """Swatches and words above the plot, `at` px from its left edge; a word without a colour gets the diamond."""
    out: list[Spec] = []
    for text, colour in words:
        mark: Spec = {"type": "rect", "x": at, "x2": at + 11, "y": -19, "y2": -8, "color": colour, "stroke": SOFT, "strokeWidth": 0.4}
        if not colour:
            mark = {"type": "point", "shape": "diamond", "filled": True, "size": 75, "opacity": 1, "color": INK, "x": at + 5, "y": -13.5}
        out.append({"data": {"values": [{}]}, "mark": mark})
        said: Spec = {"type": "text", "align": "left", "baseline": "middle", "x": at + 15, "y": -13, "fontSize": 10.5, "color": SOFT}
        out.append({"data": {"values": [{}]}, "mark": {**said, "text": text}})
        at += 5.5 * len(text) + 26
    return out
