"""Figures of the answer: verdict strip, breakdown, steps from the recorded run to a target, what an interval is made of."""

from __future__ import annotations

import math
from typing import Any

from turnbuckle.projection.projection import PARTS
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import ADDED, FAINT, FULL, HALF, INK, RECORDED, SAVED, SOFT, ZONES
from turnbuckle.show.figures.look import PARTS as PART_COLOURS
from turnbuckle.show.text import NARROW, clean, number, percent, seconds, shorten, signed
from turnbuckle.show.unknowns import unknown_label
from turnbuckle.show.verdict import LINE, Verdict, on_timeline

Spec = dict[str, Any]
Rows = list[dict[str, Any]]

#: Slowdowns drawn on a plain axis; beyond, the axis is logarithmic on both sides of zero.
PLAIN = 0.30
#: Room for names left of a figure [px].
NAMES = 150
PART_WORDS = {"kernel": "kernels", "copy": "copies, exposed", "launch": "launches", "other": "everything else"}
#: Vega labels of a change: a sign, no sign on zero.
CHANGE = "datum.value == 0 ? '0 %' : replace(format(datum.value, '+.3~p'), '%', ' %')"


def layer(
    *layers: Spec,
    data: Rows | None = None,
    width: int = FULL,
    height: int = 200,
    left: int = 4,
    right: int = 4,
    top: int = 4,
    bottom: int = 4,
    **more: Any,
) -> Spec:
    """A layered view of exactly `width` px, margins included, so that the plots of a column of figures stand in line."""
    out: Spec = {
        "width": width - left - right,
        "height": height,
        "padding": {"left": left, "right": right, "top": top, "bottom": bottom},
        "autosize": {"type": "none"},
        "layer": list(layers),
        **more,
    }
    return out if data is None else {"data": {"values": data}, **out}


def quantitative(field: str, **more: Any) -> Spec:
    """A continuous channel."""
    return {"field": field, "type": "quantitative", **more}


def nominal(field: str, **more: Any) -> Spec:
    """A discrete channel."""
    return {"field": field, "type": "nominal", **more}


def own_colour(field: str = "colour") -> Spec:
    """The colour a row states itself."""
    return nominal(field, scale=None, legend=None)


def verdict_strip(found: list[Verdict]) -> Figure:
    """One row a target: dot, middle half and 90 % interval of the change in run time, over zones of slowdown."""
    rows: Rows = [
        {
            "row": i,
            "name": shorten(v.name, 24),
            "colour": v.colour,
            "change": v.change,
            "low": v.low,
            "high": v.high,
            "half_low": v.half_low,
            "half_high": v.half_high,
            "figures": f"{signed(v.change)}{NARROW}{NARROW}{v.interval}",
            "words": v.words,
            "tip": f"{v.name}: {signed(v.change)} {v.interval}, {v.words}",
        }
        for i, v in enumerate(found)
    ]
    low, high = min([-0.01, *(r["low"] for r in rows)]), max([0.1, *(r["high"] for r in rows)])
    low, high = low - 0.03 * (high - low), high + (0.03 * (high - low) if high > 0.1 else 0.0)
    plain = max(-low, high) <= PLAIN
    scale, axis = _change_axis(low, high, plain)
    right, height = 206, 44 * len(rows)
    plot = FULL - NAMES - right
    zones, labels = _zones(low, high, plain, plot)
    y: Spec = {"field": "row", "type": "ordinal", "axis": None, "scale": {"domain": list(range(len(rows)))}}

    def at(field: str) -> Spec:
        return quantitative(field, scale=scale, axis=axis)

    spec = layer(
        {"data": {"values": zones}, "mark": "rect", "encoding": {"x": at("from"), "x2": {"field": "to"}, "color": own_colour()}},
        {
            "data": {"values": labels},
            "mark": {"type": "text", "align": "right", "baseline": "bottom", "dx": -3, "y": -5, "color": SOFT, "fontSize": 10},
            "encoding": {"x": at("to"), "text": {"field": "label"}},
        },
        {"data": {"values": [{"at": 0.0}]}, "mark": {"type": "rule", "color": INK, "strokeWidth": 1}, "encoding": {"x": at("at")}},
        {
            "data": {"values": [{"at": LINE}]},
            "mark": {"type": "rule", "color": INK, "strokeDash": [4, 3], "strokeWidth": 1},
            "encoding": {"x": at("at")},
        },
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {"x": at("low"), "x2": {"field": "high"}, "y": y, "color": own_colour()}},
        {
            "mark": {"type": "rule", "strokeWidth": 7, "strokeCap": "round", "opacity": 0.55},
            "encoding": {"x": at("half_low"), "x2": {"field": "half_high"}, "y": y, "color": own_colour()},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 95, "stroke": "white", "strokeWidth": 1.5, "opacity": 1, "aria": True},
            "encoding": {"x": at("change"), "y": y, "fill": own_colour(), "description": {"field": "tip"}},
        },
        {
            "mark": {"type": "text", "align": "right", "x": -12, "fontWeight": "bold", "fontSize": 12, "limit": NAMES - 14},
            "encoding": {"y": y, "text": {"field": "name"}},
        },
        {
            "mark": {"type": "text", "align": "left", "x": plot + 14, "dy": -7, "fontSize": 12, "fontWeight": "bold"},
            "encoding": {"y": y, "text": {"field": "figures"}},
        },
        {
            "mark": {"type": "text", "align": "left", "x": plot + 14, "dy": 8, "color": SOFT, "limit": right - 16},
            "encoding": {"y": y, "text": {"field": "words"}},
        },
        data=rows,
        height=height,
        left=NAMES,
        right=right,
        top=20,
        bottom=44,
    )
    alt = "Change of run time by target. " + " ".join(f"{v.name}: {signed(v.change)} {v.interval}, {v.words}." for v in found)
    told = [
        {
            "target": clean(v.projection.target),
            "change": v.change,
            "low": v.low,
            "high": v.high,
            "quarter_low": v.half_low,
            "quarter_high": v.half_high,
            "probability_inside": v.inside,
        }
        for v in found
    ]
    caption = (
        f"Dot: at the stated values. Thick line: the middle half of the draws; thin line: 90{NARROW}% of them. The dashed "
        f"line is the decision line, {percent(LINE)} slower."
    )
    if not plain:
        caption += " The axis is logarithmic away from zero."
    return Figure("verdict-strip", "Change of run time by target", alt, spec, told, caption)


def _change_axis(low: float, high: float, plain: bool) -> tuple[Spec, Spec]:
    """Scale and axis of the change: plain, or logarithmic on both sides of zero."""
    scale: Spec = {"domain": [low, high], "nice": False} | ({} if plain else {"type": "symlog", "constant": 0.02})
    steps_ = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000, 10000]
    ticks: Spec = {"tickCount": 7} if plain else {"values": [m for m in [*(-s for s in steps_[:5]), 0, *steps_] if low <= m <= high]}
    return scale, {"grid": False, "title": "change of run time against the recorded run", "labelExpr": CHANGE, **ticks}


def _zones(low: float, high: float, plain: bool, plot: float) -> tuple[Rows, Rows]:
    """Zones of slowdown between the ends of the axis, and those that `plot` pixels leave room to name."""
    zones: Rows = [
        {"from": max(a, low), "to": min(b, high), "colour": colour, "label": label}
        for a, b, colour, label in ZONES
        if min(b, high) > max(a, low)
    ]

    def along(value: float) -> float:
        return value if plain else math.copysign(math.log1p(abs(value) / 0.02), value)

    pixel = plot / (along(high) - along(low))
    return zones, [z for z in zones if (along(z["to"]) - along(z["from"])) * pixel > 5.5 * len(z["label"]) + 4]


def part_words(replay: str) -> dict[str, str]:
    """Parts of a breakdown: over exposed time for the sum, along the critical path for the timeline."""
    return {**PART_WORDS, "copy": "copies"} if replay == "timeline" else PART_WORDS


def breakdown(found: list[Verdict]) -> Figure:
    """Exposed time by part: the recorded run and every target (Groves et al. 2022, Fig 10)."""
    first = found[0].projection
    words = part_words(first.replay)
    bars = [("recorded", first.measured_breakdown, first.measured_seconds, "")]
    bars += [(v.name, v.projection.breakdown, v.projection.seconds, signed(v.change)) for v in found if v.kind != "self"]
    longest = max([*(_sum(b[1]) for b in bars), 1e-12])
    divisor, unit = time_unit(longest)
    rows: Rows = []
    ends: Rows = []
    for i, (name, parts, total, change) in enumerate(bars):
        at = 0.0
        for part in PARTS:
            width = parts[part]
            rows.append(
                {
                    "row": i,
                    "part": words[part],
                    "from": at / divisor,
                    "to": (at + width) / divisor,
                    "middle": (at + width / 2) / divisor,
                    "colour": PART_COLOURS[part],
                    "label": number(width, "s", 2) if width > 0.09 * longest else "",
                    "ink": "#ffffff" if part in ("kernel", "launch") else INK,
                    "tip": f"{name}: {words[part]} {number(width, 's')}, {percent(width / (_sum(parts) or 1.0))}",
                }
            )
            at += width
        ends.append({"row": i, "name": shorten(name, 24), "at": at / divisor, "label": f"{seconds(total)}{', ' if change else ''}{change}"})
    y: Spec = {
        "field": "row",
        "type": "ordinal",
        "axis": None,
        "scale": {"domain": list(range(len(bars))), "paddingInner": 0.28, "paddingOuter": 0.1},
    }
    x = quantitative("from", axis={"title": f"time [{unit}]", "tickCount": 6}, scale={"nice": False, "domain": [0, longest / divisor]})
    spec = layer(
        {
            "mark": {"type": "bar", "aria": True},
            "encoding": {"x": x, "x2": {"field": "to"}, "y": y, "description": {"field": "tip"}, "color": own_colour()},
        },
        {
            "mark": {"type": "text", "limit": 120},
            "encoding": {"x": quantitative("middle"), "y": y, "text": {"field": "label"}, "color": own_colour("ink")},
        },
        {
            "data": {"values": ends},
            "mark": {"type": "text", "align": "left", "dx": 7, "fontWeight": "bold"},
            "encoding": {"x": quantitative("at"), "y": y, "text": {"field": "label"}},
        },
        {
            "data": {"values": ends},
            "mark": {"type": "text", "align": "right", "x": -12, "fontWeight": "bold", "fontSize": 12, "limit": NAMES - 14},
            "encoding": {"y": y, "text": {"field": "name"}},
        },
        data=rows,
        height=32 * len(bars),
        left=NAMES,
        right=118,
        top=2,
        bottom=42,
    )
    told = [{"target": name, **{f"{p}_seconds": parts[p] for p in PARTS}, "total_seconds": total} for name, parts, total, _ in bars]
    alt = "Run time by part. " + " ".join(
        f"{n}: {', '.join(f'{words[k]} {number(v, chr(115))}' for k, v in parts.items())}." for n, parts, _, _ in bars
    )
    only = "Time on the critical path only: a copy nobody waits for" if on_timeline(found) else "Exposed time only: a copy behind a kernel"
    caption = (
        f"{only} costs nothing here. Everything else is MPI, other calls of the GPU runtime and the application's own work on the host."
    )
    return Figure(
        "breakdown",
        "Run time by part, recorded and projected",
        alt,
        spec,
        told,
        caption,
        legend=tuple((words[p], PART_COLOURS[p]) for p in PARTS),
    )


def _sum(parts: dict[str, float]) -> float:
    return sum(parts.values())


def time_unit(longest: float) -> tuple[float, str]:
    """Divisor and name of the unit in which `longest` seconds reads well.

    >>> time_unit(0.5), time_unit(12.0)
    ((0.001, 'ms'), (1.0, 's'))
    """
    for divisor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if longest >= divisor:
            return divisor, name
    return 1e-9, "ns"


def stacked_bars(rows: Rows, heads: Rows, longest: float, width: int, height: float, title: str) -> Spec:
    """Bars of times side by side, a part each, from ``a`` to ``b`` [s], between ``y`` and ``y2`` [px]; names and shapes stand left of them.

    Parameters
    ----------
    rows : the parts, with their ``colour`` and ``tip``; those without length are not drawn.
    heads : ``name`` and ``shape`` at the height ``y`` [px]; empty for none.
    longest : the longest bar [s].
    title : of the axis, without the unit.
    """
    divisor, unit = time_unit(longest or 1e-9)
    y: Spec = {"type": "quantitative", "axis": None, "scale": {"domain": [-4, height], "reverse": True, "nice": False}}
    axis: Spec = {"title": f"{title} [{unit}]", "tickCount": 5, "grid": True}
    x: Spec = {"axis": axis, "scale": {"domain": [0, longest / divisor * 1.03 or 1.0], "nice": False}}
    drawn = [{**r, "a": r["a"] / divisor, "b": r["b"] / divisor} for r in rows if r["b"] > r["a"]]
    layers: list[Spec] = [
        {
            "data": {"values": drawn},
            "mark": {"type": "rect", "aria": True},
            "encoding": {
                "x": quantitative("a", **x), "x2": {"field": "b"}, "y": {"field": "y", **y}, "y2": {"field": "y2"}, "color": own_colour(),
                "description": {"field": "tip"},
            },
        }
    ]  # fmt: skip
    if heads:
        far = 18 + max(len(h["name"]) for h in heads) * 5.6
        for field, at, extra in (("name", -8.0, {"color": SOFT}), ("shape", -far, {"fontWeight": "bold"})):
            mark: Spec = {"type": "text", "align": "right", "baseline": "middle", "fontSize": 10.5, "x": at, **extra}
            layers.append({"data": {"values": heads}, "mark": mark, "encoding": {"y": {"field": "y", **y}, "text": {"field": field}}})
    return {"width": width, "height": int(height), "layer": layers}


def steps(v: Verdict) -> Figure:
    """From the recorded run to one target, part by part."""
    p = v.projection
    words = part_words(p.replay)
    deltas = {part: p.breakdown[part] - p.measured_breakdown[part] for part in PARTS}
    divisor, unit = time_unit(max([*(abs(d) for d in deltas.values()), 1e-9]))
    rows: Rows = [{"step": "recorded", "from": 0.0, "to": 0.0, "label": seconds(p.measured_seconds), "colour": RECORDED, "end": 0.0}]
    at = 0.0
    for part, d in deltas.items():
        text = "0" if abs(d) < 5e-13 else ("+" if d > 0 else "−") + number(abs(d), "s", 2)
        rows.append(
            {
                "step": words[part],
                "from": at / divisor,
                "to": (at + d) / divisor,
                "label": text,
                "colour": ADDED if d > 0 else SAVED,
                "end": max(at, at + d) / divisor,
                "tip": f"{v.name}: {words[part]} {text}, {signed(d / (p.measured_seconds or 1.0))} of the run",
            }
        )
        at += d
    rows.append(
        {
            "step": "projected",
            "from": at / divisor,
            "to": at / divisor,
            "label": f"{seconds(p.seconds)}, {signed(v.change)}",
            "colour": v.colour,
            "end": at / divisor,
        }
    )
    y: Spec = nominal(
        "step",
        sort=[r["step"] for r in rows],
        axis={"title": None, "ticks": False, "domain": False, "labelPadding": 8},
        scale={"paddingInner": 0.3},
    )
    ends = [r[k] for r in rows for k in ("end", "from", "to")]
    span = (max(ends) - min(ends)) or 1.0
    axis = {
        "title": f"against the recorded run [{unit}]",
        "tickCount": 4,
        "labelExpr": "datum.value == 0 ? '0' : format(datum.value, '+,~r')",
    }
    x = quantitative("from", scale={"domain": [min(ends) - 0.04 * span, max(ends) + 0.75 * span], "nice": False}, axis=axis)
    spec = layer(
        {"data": {"values": [{"from": 0.0}]}, "mark": {"type": "rule", "color": FAINT}, "encoding": {"x": x}},
        {
            "transform": [{"filter": "datum.from != datum.to"}],
            "mark": {"type": "bar", "aria": True},
            "encoding": {"x": x, "x2": {"field": "to"}, "y": y, "color": own_colour(), "description": {"field": "tip"}},
        },
        {
            "transform": [{"filter": "datum.step == 'recorded' || datum.step == 'projected'"}],
            "mark": {"type": "tick", "thickness": 4, "size": 17, "opacity": 1},
            "encoding": {"x": x, "y": y, "color": own_colour()},
        },
        {
            "transform": [{"filter": "datum.step != 'projected'"}],
            "mark": {"type": "text", "align": "left", "dx": 6},
            "encoding": {"x": quantitative("end"), "y": y, "text": {"field": "label"}},
        },
        {
            "transform": [{"filter": "datum.step == 'projected'"}],
            "mark": {"type": "text", "align": "left", "dx": 6, "fontWeight": "bold"},
            "encoding": {"x": quantitative("end"), "y": y, "text": {"field": "label"}},
        },
        data=rows,
        width=HALF,
        height=22 * len(rows),
        left=104,
        right=8,
        top=2,
        bottom=42,
    )
    told: Rows = [
        {"step": "recorded", "seconds": p.measured_seconds},
        *({"step": k, "seconds": d} for k, d in deltas.items()),
        {"step": "projected", "seconds": p.seconds},
    ]
    alt = (
        f"{v.name}: recorded {seconds(p.measured_seconds)}, "
        + ", ".join(f"{words[k]} {number(d, 's', 2)}" for k, d in deltas.items())
        + f", projected {seconds(p.seconds)}"
    )
    return Figure("steps", v.name, alt, spec, told, half=True)


def drivers(v: Verdict, most: int = 6) -> Figure:
    """Which unknown numbers the interval of one target comes from."""
    shares = list(v.projection.drivers.items())[:most]
    rest = max(0.0, 1.0 - sum(s for _, s in shares))
    named = [(unknown_label(n), s) for n, s in shares] + ([("all others", rest)] if rest > 0.005 else [])
    rows: Rows = [
        {"row": i, "name": shorten(n, 60), "share": s, "label": percent(s, 2), "tip": f"{n}: {percent(s)} of the variance"}
        for i, (n, s) in enumerate(named)
    ]
    y: Spec = {
        "field": "row",
        "type": "ordinal",
        "axis": None,
        "scale": {"domain": list(range(len(rows))), "paddingInner": 0.68, "paddingOuter": 0.5},
    }
    x = quantitative(
        "share",
        scale={"domain": [0, 1]},
        axis={"labelExpr": "format(datum.value * 100, '~r') + ' %'", "title": None, "values": [0, 0.25, 0.5, 0.75, 1]},
    )
    spec = layer(
        {"mark": {"type": "bar", "color": v.colour, "aria": True}, "encoding": {"x": x, "y": y, "description": {"field": "tip"}}},
        {"mark": {"type": "text", "align": "left", "x": 1, "dy": -13, "limit": HALF - 20}, "encoding": {"y": y, "text": {"field": "name"}}},
        {
            "mark": {"type": "text", "align": "left", "dx": 5, "fontWeight": "bold", "fontSize": 10.5},
            "encoding": {"x": quantitative("share"), "y": y, "text": {"field": "label"}},
        },
        data=rows,
        width=HALF,
        height=33 * len(rows),
        left=6,
        right=46,
        top=2,
        bottom=22,
    )
    told = [{"target": clean(v.projection.target), "unknown": clean(n), "share_of_variance": s} for n, s in v.projection.drivers.items()]
    alt = f"{v.name}: " + ", ".join(f"{r['name']} {r['label']}" for r in rows)
    return Figure("drivers", v.name, alt, spec, told, half=True)


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values on a logarithmic axis: powers of ten, with 2 and 5 between them where there is room.

    >>> log_ticks(3e-6, 4e-3)
    [1e-05, 0.0001, 0.001]
    >>> log_ticks(90.0, 240.0)
    [100.0, 150.0, 200.0]
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))

    def inside(steps_: tuple[float, ...]) -> list[float]:
        # a power with a negative exponent by division, which rounds to the number as written
        values = [s * 10.0**k if k >= 0 else s / 10.0**-k for k in range(first, last + 1) for s in steps_]
        return [v for v in values if low <= v <= high]

    for choice in ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0)):
        if 2 <= len(found := inside(choice)) <= most:
            return found
    decades = inside((1.0,))
    return decades[:: math.ceil(len(decades) / most)] if decades else inside((1.0, 2.0, 5.0))
