"""Figures of `turnbuckle validate`: predicted against measured by kind of question, and predicted
over measured on one axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from turnbuckle.questions.validate.card import MODEL_TITLES, TITLES
from turnbuckle.questions.validate.question import Validation
from turnbuckle.questions.validate.rows import KINDS, Row
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FAINT, FULL, RULE, SOFT
from turnbuckle.show.figures.marks import Rows, Spec, of, plot, quantity, row_axis, stated
from turnbuckle.show.text import NARROW, clean, number, percent

#: Models that share a colour tell their story by their panel; the rest differ.
COLOURS: Final = {
    "projection": "#882255",
    "projection, kernels by memory": "#cc6677",
    "projection, kernels by flop": "#882255",
    "peak": "#b5bcc4",
    "mean": "#b5bcc4",
    "datasheet": "#1f4e79",
    "machine": "#e08214",
    "rate": "#e08214",
    "line": "#35978f",
    "timeline": "#332288",
    "sum": "#88ccee",
    "equation 4": "#e7298a",
    "equation 4, waits once": "#f4a6c9",
    "additive": "#c51b8a",
    "ssi": "#a6761d",
    "ssi, added": "#d9b26f",
    "agochart": "#66a61e",
    "counts": "#999933",
    "repeat": "#8a94a0",
    "nothing": "#b5bcc4",
    "constant": "#c7a76c",
    "logp": "#117733",
    "count": "#ddcc77",
    "shared": "#44aa99",
    "turns": "#aa4499",
    "api": "#b3450b",
    "link": "#6699cc",
}
#: Guides: how far off, and how dark.
_GUIDES: Final = ((0.5, "#f0f3f6"), (0.1, "#dbe3ea"))
_PANEL, _COLUMNS, _GAP = 196, 3, 18
#: No tick is nearer to an end of its axis than this factor: its label would stick out of the panel.
_EDGE: Final = 1.15
_LABELS: Final = {
    "s": "datum.value >= 0.999 ? format(datum.value, '.3~g') + ' s' : "
    "datum.value >= 0.999e-3 ? format(datum.value * 1e3, '.3~g') + ' ms' : format(datum.value * "
    "1e6, '.3~g') + ' µs'",
    "B/s": (
        "datum.value >= 0.999e12 ? format(datum.value / 1e12, '.3~g') + ' TB/s' : "
        "format(datum.value / 1e9, '.3~g') + ' GB/s'"
    ),
}
#: Ratios beyond these are drawn at the edge of the strip, as arrows would be.
_LEAST, _MOST = 0.15, 6.0


#: A quantity whose interval misses it is an open dot.
_DOTS: Final[dict[bool, Spec]] = {
    False: {"filled": True, "size": 46, "stroke": "white", "strokeWidth": 0.7, "opacity": 0.85},
    True: {"filled": False, "fill": "white", "size": 40, "strokeWidth": 1.7, "opacity": 1.0},
}


def figures(validation: Validation) -> list[Figure]:
    """Return the strip and the scatter; nothing where nothing was compared."""
    drawn = [r for r in validation.rows if r.predicted and r.measured]
    return [ratios(drawn), scatter(drawn)] if drawn else []


def _tip(row: Row) -> str:
    value, measured = (
        number(v, row.unit) if row.unit else f"{v:.3g}"
        for v in (row.predicted or 0.0, row.measured or 0.0)
    )
    by = MODEL_TITLES.get(row.model, row.model)
    return (
        f"{clean(row.case)}, {clean(row.quantity)} ({by}): predicted {value}, measured {measured}"
    )


def _legend(rows: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    present = {r.model for r in rows}
    named: dict[str, str] = {}
    for model, colour in COLOURS.items():
        if model in present:
            named.setdefault(MODEL_TITLES[model], colour)
    return tuple(named.items())


def scatter(rows: Sequence[Row]) -> Figure:
    """Draw predicted against measured, both logarithmic, one panel a kind of question."""
    kinds = [k for k in KINDS if any(r.kind == k for r in rows)]
    # a panel is no wider than its title may be
    panels = [_panel(TITLES[kind], [r for r in rows if r.kind == kind]) for kind in kinds]
    around = dict.fromkeys(("left", "right", "top", "bottom"), 2)
    spec: Spec = {
        "concat": panels,
        "columns": _COLUMNS,
        "spacing": {"row": 26, "column": _GAP},
        "padding": around,
        "autosize": {"type": "pad"},
    }
    stated = [r.covered for r in rows if r.covered is not None]
    inside = [sum((r.off or 0.0) <= share for r in rows) for share in (0.1, 0.5)]
    alt = (
        f"Predicted against measured for {len(rows)} quantities: {inside[0]} within 10 percent, "
        f"{inside[1]} within 50 percent. By "
        "kind, how many and how many within 50 percent: "
        + "; ".join(
            (
                f"{TITLES[k]} {sum(r.kind == k for r in rows)}, "
                f"{sum(r.kind == k and (r.off or 0.0) <= 0.5 for r in rows)}"
            )
            for k in kinds
        )
    )
    caption = (
        f"On the line a prediction is right. Dark band: within 10{NARROW}%; light band: within "
        f"50{NARROW}%. Vertical lines: the "
        f"90{NARROW}% ranges that the predictions state"
        + (
            (
                f"; {sum(stated)} of {len(stated)} contain the measured value, and the dots of "
                "the others are open."
            )
            if stated
            else "."
        )
    )
    return Figure(
        "accuracy-scatter",
        "Predicted against measured",
        alt,
        spec,
        [_as_row(r) for r in rows],
        caption,
        legend=_legend(rows),
    )


def _panel(title: str, rows: Sequence[Row]) -> Spec:
    values = [v for r in rows for v in (r.predicted, r.measured, r.low, r.high) if v]
    low, high = min(values) / 1.6, max(values) * 1.6
    if high / low < 30.0:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(30.0), middle * math.sqrt(30.0)
    axis: Spec = {
        "values": _ticks(low, high),
        "labelExpr": _LABELS.get(rows[0].unit, "datum.value"),
        "grid": False,
    }
    axis |= {"labelFontSize": 10, "titleFontSize": 10, "titlePadding": 4, "labelOverlap": False}
    x = quantity("measured", [low, high], log=10, title="measured", **axis)
    y = quantity("predicted", [low, high], log=10, title="predicted", **axis)
    layers: list[Spec] = []
    for share, colour in _GUIDES:
        guide = [
            {"measured": m, "from": max(m * (1 - share), low), "to": min(m * (1 + share), high)}
            for m in _along(low, high)
        ]
        layers.append(marks.band(guide, x, y, "from", "to", color=colour, opacity=1))
    layers.append(
        marks.line([{"measured": v, "predicted": v} for v in (low, high)], x, y, 1, color=SOFT)
    )
    points: Rows = [
        {
            **{end: getattr(r, end) or 0.0 for end in ("measured", "predicted", "low", "high")},
            **{"colour": COLOURS[r.model], "tip": _tip(r)},
        }
        for r in rows
    ]
    intervals = [p for p, r in zip(points, rows, strict=True) if r.low is not None]
    layers.append(marks.rules(intervals, x, of(y, "low"), 1.4, y2="high", opacity=0.7))
    for missed, look in _DOTS.items():
        if dots := [p for p, r in zip(points, rows, strict=True) if (r.covered is False) == missed]:
            layers.append(marks.mark("point", dots, x, y, tip=True, **look))
    heading = {"text": title, "fontSize": 11, "fontWeight": 600, "offset": 6, "limit": _PANEL + 40}
    return {"title": heading, "width": _PANEL, "height": _PANEL, "layer": layers}


def _along(low: float, high: float) -> list[float]:
    """Return points of a logarithmic axis, so that a band follows the line."""
    return [low * (high / low) ** (k / 40) for k in range(41)]


def _ticks(low: float, high: float) -> list[float]:
    """Return three to five round values of a logarithmic axis."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    if last - first < 2:
        steps = (1, 2, 5) if high / low < 40.0 else (1, 3)
        ticks = [m * 10.0**k for k in range(first - 1, last + 1) for m in steps]
    else:
        ticks = [10.0**k for k in range(first, last + 1, max(-(-(last - first) // 4), 1))]
    return [v for v in ticks if low * _EDGE <= v <= high / _EDGE]


def ratios(rows: Sequence[Row]) -> Figure:
    """Draw predicted over measured, one line a kind and model: every quantity a dot, the median a
    bar.
    """
    groups = list(
        dict.fromkeys((r.kind, r.model) for r in sorted(rows, key=lambda r: KINDS.index(r.kind)))
    )
    dots, medians, heads = _lines(groups, rows)
    y = row_axis(len(groups))
    labels: Spec = {
        "labelExpr": "datum.value == 1 ? 'right' : datum.value + '×'",
        "labelOverlap": False,
        "grid": False,
    }
    title = "predicted over measured, logarithmic"
    x = quantity(
        "ratio", [_LEAST, _MOST], log=10, title=title, values=[0.2, 0.5, 1, 2, 5], **labels
    )
    zones: Rows = [
        {"from": 1 - share, "to": 1 + share, "colour": colour} for share, colour in _GUIDES
    ]
    left, right = 428, 62
    end = FULL - left - right + 10
    text: Spec = {"align": "left", "baseline": "middle", "fontSize": 11}
    count: Spec = {**text, "align": "right", "color": FAINT}
    layers = [
        marks.cells(zones, of(x, "from"), None, x2="to"),
        marks.rules(
            [h for h in heads[1:] if h["kind"]],
            4 - left,
            y,
            x2=FULL - left - 4,
            color=RULE,
            yOffset=-11,
        ),
        marks.rules([{"ratio": 1}], x, color=SOFT),
        marks.points(dots, x, y, 44, 0.6, tip=True, opacity=0.7, encode={"shape": stated("shape")}),
        marks.labels(medians, end, y, "words", color=SOFT, **text),
        marks.labels(heads, 4 - left, y, "kind", limit=268, **text),
        marks.labels(heads, 280 - left, y, "model", color=SOFT, limit=130, **text),
        marks.labels(heads, -10, y, "count", **count),
        marks.words("n", -10, -8, **count),
        marks.words("median error", end, -8, color=FAINT, **text),
    ]
    spec = plot(layers, 23 * len(groups), (left, right, 20, 44))
    alt = "Predicted over measured. " + " ".join(
        f"{TITLES[k]}, {MODEL_TITLES[m]}: {row['words']} off in the median."
        for (k, m), row in zip(groups, medians, strict=True)
    )
    caption = (
        f"Every dot is one quantity. Dark: within 10{NARROW}%; light: within 50{NARROW}%. "
        "Triangles lie beyond the edge. Median: of the "
        "errors without sign (copies: WMAPE). The last line is not a model: it compares one run "
        "with another of the same configuration."
    )
    return Figure(
        "accuracy-by-kind",
        "How far off the predictions are",
        alt,
        spec,
        [_as_row(r) for r in rows],
        caption,
    )


def _lines(groups: list[tuple[str, str]], rows: Sequence[Row]) -> tuple[Rows, Rows, Rows]:
    """Return the dots, the median and the label of each line; each kind is named once."""
    dots: Rows = []
    medians: Rows = []
    heads: Rows = []
    last = ""
    for row, (kind, model) in enumerate(groups):
        quantities = [r for r in rows if (r.kind, r.model) == (kind, model)]
        off = sorted(r.off or 0.0 for r in quantities)
        middle = (off[(len(off) - 1) // 2] + off[len(off) // 2]) / 2
        for r in quantities:
            value = (r.predicted or 0.0) / (r.measured or 1.0)
            far = not _LEAST <= value <= _MOST
            shape = ("triangle-right" if value > 1 else "triangle-left") if far else "circle"
            ratio = min(max(value, _LEAST), _MOST)
            dots.append(
                {
                    "row": row,
                    "ratio": ratio,
                    "colour": COLOURS[model],
                    "tip": _tip(r),
                    "shape": shape,
                }
            )
        medians.append({"row": row, "words": percent(middle)})
        heads.append(
            {
                "row": row,
                "kind": TITLES[kind] if kind != last else "",
                "model": MODEL_TITLES[model],
                "count": f"{len(quantities)}",
            }
        )
        last = kind
    return dots, medians, heads


def _as_row(row: Row) -> dict[str, Any]:
    """Return the numbers of a comparison."""
    words = {
        "case": clean(row.case),
        "kind": TITLES[row.kind],
        "model": MODEL_TITLES[row.model],
        "quantity": clean(row.quantity),
    }
    numbers = {
        name: getattr(row, name)
        for name in ("unit", "measured", "predicted", "low", "high", "covered")
    }
    return {**words, **numbers, "off_percent": None if row.off is None else round(100 * row.off, 2)}
