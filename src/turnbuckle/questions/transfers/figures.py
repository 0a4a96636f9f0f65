"""Figures of `turnbuckle transfers`: errors of three approaches as boxes, and which sizes make the
transfers and their time.

After Figs 11 and 1 of AHEAD (Abdelhafez et al.).  A legend stands inside each drawing: it is read
alone.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.questions.transfers.datasheet import (
    APPROACHES,
    Projected,
    Study,
    percentage_errors,
    wmape,
)
from turnbuckle.questions.transfers.question import distribution
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import INK, RULE, SOFT
from turnbuckle.show.figures.marks import Rows, Spec, of, plot, quantity, row_axis, stack
from turnbuckle.show.text import NARROW, clean, number, shorten

#: Approaches: words and colour.
WORDS: Final = {
    "projected": "projected",
    "packets": "packets of the link",
    "peak": "peak bandwidth",
    "envelope": "back of the envelope",
}
_COLOURS: Final = {
    "projected": "#1f4e79",
    "packets": "#1b9e77",
    "peak": "#e08214",
    "envelope": "#8a94a0",
}
#: Decades of size, small to large: light to dark.
_SHADES: Final = (
    "#ffffd9",
    "#edf8b1",
    "#c7e9b4",
    "#7fcdbb",
    "#41b6c4",
    "#1d91c0",
    "#225ea8",
    "#253494",
    "#081d58",
    "#03092b",
)
#: Errors beyond this [%] make the axis logarithmic.
_PLAIN: Final = 150.0
_NAMES, _ROW, _LEGEND = 190, 22, 30


def figures(study: Study) -> list[Figure]:
    """Return the box plot, where times on the other node are known, and the two distributions."""
    judged = [p for p in study.projected if p.judged.height]
    return [*([boxes(judged)] if judged else []), shares(study, "count"), shares(study, "time")]


def boxes(judged: list[Projected]) -> Figure:
    """Draw absolute percentage errors of every application by approach: quartiles, whiskers of 1.5
    times their distance, and WMAPE.
    """
    rows: Rows = []
    top = 0.0
    heads: Rows = []
    for projected in judged:
        priced = [a for a in APPROACHES if projected.judged[a].drop_nulls().drop_nans().len()]
        heads.append({"y": top + _ROW * len(priced) / 2, "name": _called(projected), "top": top})
        for approach in priced:
            rows.append(
                {"y": top + _ROW / 2, "colour": _COLOURS[approach], **_box(projected, approach)}
            )
            top += _ROW
        top += 12
    height = top - 12
    largest = max(r["high"] for r in rows) if rows else 1.0
    largest = max(largest, max(r["wmape"] for r in rows))
    plain = largest <= _PLAIN
    ticks = [0, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 100000]
    axis: Spec = {
        "title": "absolute percentage error of a transfer [%]"
        + ("" if plain else ", logarithmic beyond 10"),
        "grid": True,
    }
    axis |= {"tickCount": 8} if plain else {"values": [t for t in ticks if t <= largest * 1.1]}
    end, scale = (
        (largest * 1.04 or 1.0, {})
        if plain
        else (largest * 1.1, {"type": "symlog", "constant": 10})
    )
    x = quantity("median", [0, end], scale=scale, **axis)
    y = quantity("y", [0, height], scale={"reverse": True}, no_axis=True)
    layers = [
        *_legend([(WORDS[a], _COLOURS[a]) for a in APPROACHES] + [("WMAPE", "")]),
        marks.rules(heads[1:], None, of(y, "top"), color=RULE),
        marks.rules(None, of(x, "low"), y, 1.4, x2="high"),
        marks.bars(None, of(x, "first"), y, x2="third", tip=True, height=12, opacity=0.85),
        marks.mark("tick", None, x, y, thickness=4, size=12, opacity=1),
        marks.mark("tick", None, x, y, color="white", thickness=1.5, size=12),
        marks.points(None, of(x, "wmape"), y, 75, 1.2, shape="diamond", color=INK),
        marks.row_names(heads, y, _NAMES, lineBreak="\n"),
    ]
    spec = plot(layers, int(height), (_NAMES, 16, _LEGEND, 44), rows)
    table = [{k: v for k, v in row.items() if k in _COLUMNS} for row in rows]
    alt = "Absolute percentage errors. " + " ".join(f"{r['tip']}." for r in rows)
    caption = (
        "Box: the middle half of the transfers, each counted once; line: the median; whiskers: "
        f"1.5{NARROW}times the box, no farther than "
        "the data. Diamond: WMAPE, in which a transfer weighs as much as the time it took."
    )
    return Figure("transfer-errors", "How far off each approach is", alt, spec, table, caption)


_COLUMNS: Final = (
    "application",
    "target",
    "approach",
    "count",
    "low",
    "first",
    "median",
    "third",
    "high",
    "wmape",
)


def _called(projected: Projected) -> str:
    return f"{shorten(clean(projected.application), 26)}\n{shorten(clean(projected.target), 26)}"


def _box(projected: Projected, approach: str) -> dict[str, Any]:
    timed = projected.judged.filter(pl.col(approach).is_not_null() & pl.col(approach).is_not_nan())
    actual, predicted = timed["actual"].to_numpy(), timed[approach].to_numpy()
    errors = percentage_errors(actual, predicted)
    first, median, third = (float(q) for q in np.quantile(errors, [0.25, 0.5, 0.75]))
    reach = 1.5 * (third - first)
    low = float(errors[errors >= first - reach].min())
    high = float(errors[errors <= third + reach].max())
    weighted = wmape(actual, predicted)
    name = clean(projected.application)
    box = dict(low=low, first=first, median=median, third=third, high=high, wmape=weighted)
    half = f"median {median:.1f}{NARROW}%, middle half {first:.1f} to {third:.1f}{NARROW}%"
    tip = f"{name}, {WORDS[approach]}: {half}, WMAPE {weighted:.1f}{NARROW}%"
    return dict(
        application=name,
        target=clean(projected.target),
        approach=WORDS[approach],
        count=len(errors),
        **box,
        tip=tip,
    )


def shares(study: Study, of_what: str) -> Figure:
    """Draw a bar an application: shares of its transfers (``count``) or of their time (``time``) by
    decade of size.
    """
    rows: Rows = []
    heads: Rows = []
    decades = sorted({row["low_bytes"] for s in study.subjects for row in distribution(s)})
    for k, subject in enumerate(study.subjects):
        name = clean(subject.name)
        heads.append({"row": k, "name": shorten(name, 28)})
        parts = []
        for row in distribution(subject):
            low, share = row["low_bytes"], row[f"{of_what}_share"]
            ends = {
                "application": name,
                "low_bytes": low,
                "high_bytes": row["high_bytes"],
                "share": share,
            }
            label, tip = (
                _decade(low) if share > 0.13 else "",
                f"{name}: {_decade(low)}, {100 * share:.1f}{NARROW}%",
            )
            look = {"colour": _shade(low), "ink": "white" if round(math.log10(low)) >= 5 else INK}
            parts.append((share, {"row": k, "label": label, "tip": tip, **look, **ends}))
        rows += stack(parts)
    y = row_axis(len(study.subjects), inner=0.28, outer=0.1)
    title = "share of the transfers" if of_what == "count" else "share of the time of the transfers"
    x = quantity("from", [0, 1], title=title, format="%", tickCount=5)
    layers = [
        *_legend([(_decade(d), _shade(d)) for d in decades], -_NAMES + 20.0),
        marks.bars(None, x, y, x2="to", tip=True, stroke="white", strokeWidth=0.6),
        marks.labels(None, quantity("middle"), y, hue="ink", limit=120, fontSize=10),
        marks.row_names(heads, y, _NAMES),
    ]
    spec = plot(layers, 32 * len(study.subjects), (_NAMES, 16, _LEGEND, 44), rows)
    table = [{k: r[k] for k in ("application", "low_bytes", "high_bytes", "share")} for r in rows]
    alt = f"{title.capitalize()} by size. " + " ".join(
        f"{r['tip']}." for r in rows if r["share"] >= 0.01
    )
    name = "transfers-by-size" if of_what == "count" else "transfer-time-by-size"
    heading = "Transfers by size" if of_what == "count" else "Time of the transfers by size"
    return Figure(name, heading, alt, spec, table)


def _decade(low: float) -> str:
    """Return the words of the decade that begins at `low` bytes.

    >>> _decade(1e4)
    '10–100\\xa0kB'
    """
    unit, divisor = next(
        (u, d)
        for u, d in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
        if low >= d or d == 1.0
    )
    if low * 10 < 1000 * divisor:
        return f"{low / divisor:g}–{low * 10 / divisor:g}{NARROW}{unit}"
    return f"{low / divisor:g}{NARROW}{unit}–{number(low * 10, 'B', 2)}"


def _shade(low: float) -> str:
    return _SHADES[min(max(round(math.log10(low)), 0), len(_SHADES) - 1)]


def _legend(entries: list[tuple[str, str]], across: float = 0.0) -> list[Spec]:
    """Draw swatches and words above the plot, from `across` px on; a word without a colour gets the
    diamond.
    """
    out: list[Spec] = []
    for text, colour in entries:
        if colour:
            out.append(
                marks.cells(
                    [{}],
                    across,
                    -19,
                    x2=across + 11,
                    y2=-8,
                    color=colour,
                    stroke=SOFT,
                    strokeWidth=0.4,
                )
            )
        else:
            out.append(
                marks.mark(
                    "point",
                    [{}],
                    across + 5,
                    -13.5,
                    shape="diamond",
                    filled=True,
                    size=75,
                    opacity=1,
                    color=INK,
                )
            )
        out.append(
            marks.words(
                text, across + 15, -13, align="left", baseline="middle", fontSize=10.5, color=SOFT
            )
        )
        across += 5.5 * len(text) + 26
    return out
