"""Figures of `turnbuckle validate`: predicted against measured by kind of question, and predicted over measured on one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from turnbuckle.questions.validate.question import MODEL_TITLES, TITLES, Validation
from turnbuckle.questions.validate.rows import KINDS, Row
from turnbuckle.show.figures.charts import Rows, Spec, layer, own_colour, quantitative
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FAINT, FULL, RULE, SOFT
from turnbuckle.show.text import NARROW, clean, number, percent

#: Models that share a colour tell their story by their panel; the rest differ.
COLOURS: Final = {
    "projection": "#882255",
    "projection, kernels by memory": "#cc6677",
    "datasheet": "#1f4e79",
    "machine": "#e08214",
    "rate": "#e08214",
    "line": "#35978f",
    "timeline": "#332288",
    "sum": "#88ccee",
    "counts": "#999933",
    "repeat": "#8a94a0",
    "nothing": "#b5bcc4",
    "logp": "#117733",
    "count": "#ddcc77",
    "shared": "#44aa99",
    "turns": "#aa4499",
}
#: Guides: how far off, and how dark.
_GUIDES: Final = ((0.5, "#f0f3f6"), (0.1, "#dbe3ea"))
_PANEL, _COLUMNS, _GAP = 196, 3, 18
#: No tick is nearer to an end of its axis than this factor: its label would stick out of the panel.
_EDGE: Final = 1.15
_LABELS: Final = {
    "s": "datum.value >= 0.999 ? format(datum.value, '.3~g') + ' s' : "
    "datum.value >= 0.999e-3 ? format(datum.value * 1e3, '.3~g') + ' ms' : format(datum.value * 1e6, '.3~g') + ' µs'",
    "B/s": "datum.value >= 0.999e12 ? format(datum.value / 1e12, '.3~g') + ' TB/s' : format(datum.value / 1e9, '.3~g') + ' GB/s'",
}
#: Ratios beyond these are drawn at the edge of the strip, as arrows would be.
_LEAST, _MOST = 0.15, 6.0


#: A quantity whose interval misses it is an open dot.
_MARKS: Final[dict[bool, Spec]] = {
    False: {"filled": True, "size": 46, "stroke": "white", "strokeWidth": 0.7},
    True: {"filled": False, "fill": "white", "size": 40, "strokeWidth": 1.7},
}


def figures(found: Validation) -> list[Figure]:
    """The strip and the scatter; nothing where nothing was compared."""
    drawn = [r for r in found.rows if r.predicted and r.measured]
    return [ratios(drawn), scatter(drawn)] if drawn else []


def _tip(row: Row) -> str:
    value, measured = (number(v, row.unit) if row.unit else f"{v:.3g}" for v in (row.predicted or 0.0, row.measured or 0.0))
    by = MODEL_TITLES.get(row.model, row.model)
    return f"{clean(row.case)}, {clean(row.quantity)} ({by}): predicted {value}, measured {measured}"


def _legend(rows: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    present = {r.model for r in rows}
    named: dict[str, str] = {}
    for model, colour in COLOURS.items():
        if model in present:
            named.setdefault(MODEL_TITLES[model], colour)
    return tuple(named.items())


def scatter(rows: Sequence[Row]) -> Figure:
    """Predicted against measured, both logarithmic, one panel a kind of question."""
    kinds = [k for k in KINDS if any(r.kind == k for r in rows)]
    # a panel is no wider than its title may be
    panels = [_panel(TITLES[kind], [r for r in rows if r.kind == kind]) for kind in kinds]
    spec: Spec = {
        "concat": panels, "columns": _COLUMNS, "spacing": {"row": 26, "column": _GAP},
        "padding": {"left": 2, "right": 2, "top": 2, "bottom": 2},
        "autosize": {"type": "pad"},
    }  # fmt: skip
    told = [_told(r) for r in rows]
    stated = [r.covered for r in rows if r.covered is not None]
    inside = [sum((r.off or 0.0) <= share for r in rows) for share in (0.1, 0.5)]
    alt = (
        f"Predicted against measured for {len(rows)} quantities: {inside[0]} within 10 percent, {inside[1]} within 50 percent. By "
        "kind, how many and how many within 50 percent: "
        + "; ".join(
            f"{TITLES[k]} {sum(r.kind == k for r in rows)}, {sum(r.kind == k and (r.off or 0.0) <= 0.5 for r in rows)}" for k in kinds
        )
    )
    caption = (
        f"On the line a prediction is right; dark band: within 10{NARROW}%, light band: within 50{NARROW}%. Vertical lines are the "
        f"90{NARROW}% intervals that the predictions state"
        + (f"; {sum(stated)} of {len(stated)} hold the measured value, open dots are those that do not." if stated else ".")
    )
    return Figure("accuracy-scatter", "Predicted against measured", alt, spec, told, caption, legend=_legend(rows))


def _panel(title: str, rows: Sequence[Row]) -> Spec:
    values = [v for r in rows for v in (r.predicted, r.measured, r.low, r.high) if v]
    low, high = min(values) / 1.6, max(values) * 1.6
    if high / low < 30.0:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(30.0), middle * math.sqrt(30.0)
    scale: Spec = {"type": "log", "domain": [low, high], "nice": False}
    axis: Spec = {
        "values": _ticks(low, high), "labelExpr": _LABELS.get(rows[0].unit, "datum.value"), "grid": False, "labelFontSize": 10,
        "titleFontSize": 10, "titlePadding": 4, "labelOverlap": False,
    }  # fmt: skip

    def channel(field: str, name: str) -> Spec:
        return quantitative(field, scale=scale, axis={**axis, "title": name})

    x, y = channel("measured", "measured"), channel("predicted", "predicted")
    ends = [low, high]
    bands = [
        {
            "data": {
                "values": [{"measured": m, "from": max(m * (1 - share), low), "to": min(m * (1 + share), high)} for m in _along(*ends)]
            },
            "mark": {"type": "area", "color": colour, "opacity": 1},
            "encoding": {"x": x, "y": {**y, "field": "from"}, "y2": {"field": "to"}},
        }
        for share, colour in _GUIDES
    ]
    points: Rows = [
        {
            "measured": (r.measured or 0.0), "predicted": (r.predicted or 0.0), "low": (r.low or 0.0),
            "high": (r.high or 0.0), "colour": COLOURS[r.model], "tip": _tip(r),
        }
        for r in rows
    ]  # fmt: skip
    return {
        "title": {"text": title, "fontSize": 11, "fontWeight": 600, "offset": 6, "limit": _PANEL + 40},
        "width": _PANEL, "height": _PANEL,
        "layer": [
            *bands,
            {
                "data": {"values": [{"measured": v, "predicted": v} for v in ends]},
                "mark": {"type": "line", "color": SOFT, "strokeWidth": 1},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": [p for p, r in zip(points, rows, strict=True) if r.low is not None]},
                "mark": {"type": "rule", "strokeWidth": 1.4, "opacity": 0.7},
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": own_colour()},
            },
            *(
                {
                    "data": {"values": [p for p, r in zip(points, rows, strict=True) if (r.covered is False) == missed]},
                    "mark": {"type": "point", "opacity": 1.0 if missed else 0.85, "aria": True, **_MARKS[missed]},
                    "encoding": {"x": x, "y": y, "color": own_colour(), "description": {"field": "tip", "type": "nominal"}},
                }
                for missed in (False, True)
                if any((r.covered is False) == missed for r in rows)
            ),
        ],
    }  # fmt: skip


def _along(low: float, high: float) -> list[float]:
    """Points of a logarithmic axis, so that a band follows the line."""
    return [low * (high / low) ** (k / 40) for k in range(41)]


def _ticks(low: float, high: float) -> list[float]:
    """Three to five round values of a logarithmic axis."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    if last - first < 2:
        steps = (1, 2, 5) if high / low < 40.0 else (1, 3)
        found = [m * 10.0**k for k in range(first - 1, last + 1) for m in steps]
    else:
        found = [10.0**k for k in range(first, last + 1, max(-(-(last - first) // 4), 1))]
    return [v for v in found if low * _EDGE <= v <= high / _EDGE]


def ratios(rows: Sequence[Row]) -> Figure:
    """Predicted over measured, one line a kind and model: every quantity a dot, the median a bar."""
    groups = list(dict.fromkeys((r.kind, r.model) for r in sorted(rows, key=lambda r: KINDS.index(r.kind))))
    dots, medians, heads = _lines(groups, rows)
    height = 23 * len(groups)
    y: Spec = {"field": "row", "type": "ordinal", "axis": None, "scale": {"domain": list(range(len(groups)))}}
    ticks = [0.2, 0.5, 1, 2, 5]
    labels = "datum.value == 1 ? 'right' : datum.value + '×'"
    x = quantitative(
        "ratio", scale={"type": "log", "domain": [_LEAST, _MOST], "nice": False},
        axis={"title": "predicted over measured, logarithmic", "values": ticks, "labelExpr": labels, "grid": False, "labelOverlap": False},
    )  # fmt: skip
    zones: Rows = [{"from": 1 - share, "to": 1 + share, "colour": colour} for share, colour in _GUIDES]
    left, right = 428, 62
    text: Spec = {"type": "text", "align": "left", "baseline": "middle", "fontSize": 11}
    spec = layer(
        {
            "data": {"values": zones},
            "mark": {"type": "rect"},
            "encoding": {"x": {**x, "field": "from"}, "x2": {"field": "to"}, "color": own_colour()},
        },
        {
            "data": {"values": [h for h in heads[1:] if h["kind"]]},
            "mark": {"type": "rule", "color": RULE, "x": -left + 4, "x2": FULL - left - 4, "yOffset": -11},
            "encoding": {"y": y},
        },
        {"data": {"values": [{"ratio": 1}]}, "mark": {"type": "rule", "color": SOFT}, "encoding": {"x": x}},
        {
            "data": {"values": dots},
            "mark": {"type": "point", "filled": True, "size": 44, "opacity": 0.7, "stroke": "white", "strokeWidth": 0.6, "aria": True},
            "encoding": {
                "x": x, "y": y, "color": own_colour(), "description": {"field": "tip", "type": "nominal"},
                "shape": {"field": "shape", "type": "nominal", "scale": None, "legend": None},
            },
        },
        {
            "data": {"values": medians},
            "mark": {**text, "x": FULL - left - right + 10, "color": SOFT},
            "encoding": {"y": y, "text": {"field": "words"}},
        },
        *(
            {"data": {"values": heads}, "mark": {**text, **where}, "encoding": {"y": y, "text": {"field": field}}}
            for field, where in (
                ("kind", {"x": 4 - left, "limit": 268}),
                ("model", {"x": 280 - left, "color": SOFT, "limit": 130}),
                ("count", {"x": -10, "align": "right", "color": FAINT}),
            )
        ),
        {
            "data": {"values": [{"t": "n"}]},
            "mark": {**text, "x": -10, "y": -8, "align": "right", "color": FAINT},
            "encoding": {"text": {"field": "t"}},
        },
        {
            "data": {"values": [{"t": "median off"}]},
            "mark": {**text, "x": FULL - left - right + 10, "y": -8, "color": FAINT},
            "encoding": {"text": {"field": "t"}},
        },
        height=height,
        left=left,
        right=right,
        top=20,
        bottom=44,
    )  # fmt: skip
    alt = "Predicted over measured. " + " ".join(
        f"{TITLES[k]}, {MODEL_TITLES[m]}: {row['words']} off in the median." for (k, m), row in zip(groups, medians, strict=True)
    )
    caption = (
        f"Every dot is one quantity. Dark: within 10{NARROW}%, light: within 50{NARROW}%. Triangles lie beyond the "
        "edge; the median is that of how far off, without sign (copies: WMAPE). "
        "The last line is no model: it is one run against another of the same configuration."
    )
    return Figure("accuracy-by-kind", "How far off the predictions are", alt, spec, [_told(r) for r in rows], caption)


def _lines(groups: list[tuple[str, str]], rows: Sequence[Row]) -> tuple[Rows, Rows, Rows]:
    """Of each line its dots, its median, and what stands before it; a kind is named once."""
    dots: Rows = []
    medians: Rows = []
    heads: Rows = []
    last = ""
    for at, (kind, model) in enumerate(groups):
        mine = [r for r in rows if (r.kind, r.model) == (kind, model)]
        off = sorted(r.off or 0.0 for r in mine)
        middle = (off[(len(off) - 1) // 2] + off[len(off) // 2]) / 2
        for r in mine:
            value = (r.predicted or 0.0) / (r.measured or 1.0)
            far = not _LEAST <= value <= _MOST
            dots.append(
                {
                    "row": at,
                    "ratio": min(max(value, _LEAST), _MOST),
                    "colour": COLOURS[model],
                    "tip": _tip(r),
                    "shape": ("triangle-right" if value > 1 else "triangle-left") if far else "circle",
                }
            )
        medians.append({"row": at, "words": percent(middle)})
        heads.append({"row": at, "kind": TITLES[kind] if kind != last else "", "model": MODEL_TITLES[model], "count": f"{len(mine)}"})
        last = kind
    return dots, medians, heads


def _told(row: Row) -> dict[str, Any]:
    return {
        "case": clean(row.case), "kind": TITLES[row.kind], "model": MODEL_TITLES[row.model], "quantity": clean(row.quantity),
        "unit": row.unit,
        "measured": row.measured, "predicted": row.predicted, "low": row.low, "high": row.high,
        "off_percent": None if row.off is None else round(100 * row.off, 2), "covered": row.covered,
    }  # fmt: skip
