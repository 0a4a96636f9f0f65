"""Figures of the answer: verdict strip, breakdown, what changes, what the interval is made of."""

from __future__ import annotations

from typing import Any

from turnbuckle.projection import PARTS
from turnbuckle.report.figure import Figure
from turnbuckle.report.look import ADDED, FAINT, FULL, HALF, INK, PARTS as PART_COLOURS, RECORDED, SAVED, SOFT, ZONES
from turnbuckle.report.text import clean, number, percent, shorten, signed
from turnbuckle.report.unknowns import unknown_label
from turnbuckle.report.verdict import LINE, Verdict

Spec = dict[str, Any]

#: Slowdowns drawn on a plain axis; beyond, the axis is logarithmic on both sides of zero.
PLAIN = 0.30
#: Room for names left of a figure [px].
NAMES = 168
PART_WORDS = {"kernel": "kernels", "copy": "copies, exposed", "launch": "launches", "other": "everything else"}


def layer(*layers: Spec, data: list[dict[str, Any]] | None = None, width: int = FULL, height: int | Spec = 200, **more: Any) -> Spec:
    """A layered view of given size."""
    out: Spec = {"width": width, "height": height, "layer": list(layers), **more}
    return out if data is None else {"data": {"values": data}, **out}


def quantitative(field: str, **more: Any) -> Spec:
    """A continuous position channel."""
    return {"field": field, "type": "quantitative", **more}


def nominal(field: str, **more: Any) -> Spec:
    """A discrete channel."""
    return {"field": field, "type": "nominal", **more}


def verdict_strip(found: list[Verdict]) -> Figure:
    """One row a target: dot, middle half and 90 % interval of the change in run time, over zones of slowdown."""
    rows = [
        {
            "row": i, "name": v.name, "colour": v.colour, "change": v.change, "low": v.low, "high": v.high, "half_low": v.half_low, "half_high": v.half_high,
            "figures": f"{signed(v.change)}  {v.interval}", "words": v.words,
            "tip": f"{v.name}: {signed(v.change)} {v.interval}, {v.words}",
        }
        for i, v in enumerate(found)
    ]  # fmt: skip
    low, high = min([-0.01, *(r["low"] for r in rows)]), max([0.105, *(r["high"] for r in rows)])
    pad = 0.03 * (high - low)
    low, high = low - pad, high + pad
    plain = max(-low, high) <= PLAIN
    scale: Spec = {"domain": [low, high], "nice": False} if plain else {"type": "symlog", "constant": 0.02, "domain": [low, high], "nice": False}
    marks = [m for m in (-0.9, -0.5, -0.2, -0.1, -0.05, -0.02, 0, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000) if low <= m <= high]
    ticks: Spec = {"tickCount": 9} if plain else {"values": marks}
    axis: Spec = {"orient": "bottom", "format": "+.0%", "grid": False, "title": "change of run time against the recorded run", **ticks}
    height = 44 * len(rows)
    plot = FULL - NAMES - 232
    zones = [
        {"from": max(a, low), "to": min(b, high), "colour": colour, "label": label}
        for a, b, colour, label in ZONES
        if min(b, high) > max(a, low)
    ]  # fmt: skip
    y: Spec = {"field": "row", "type": "ordinal", "axis": None, "scale": {"domain": list(range(len(rows)))}}
    own: Spec = nominal("colour", scale=None, legend=None)
    x = quantitative("change", scale=scale, axis=axis)
    spec = layer(
        {"data": {"values": zones}, "mark": {"type": "rect"}, "encoding": {"x": quantitative("from", scale=scale, axis=axis), "x2": {"field": "to"}, "color": own}},
        {
            "data": {"values": [z for z in zones if z["label"] not in ("1 %", "2 %")] if not _roomy(low, high, plot) else zones},
            "mark": {"type": "text", "align": "right", "baseline": "bottom", "dx": -3, "y": -4, "color": SOFT, "fontSize": 10},
            "encoding": {"x": quantitative("to", scale=scale), "text": {"field": "label"}},
        },
        {"data": {"values": [{"at": 0.0}]}, "mark": {"type": "rule", "color": INK, "strokeWidth": 1}, "encoding": {"x": quantitative("at", scale=scale)}},
        {"data": {"values": [{"at": LINE}]}, "mark": {"type": "rule", "color": INK, "strokeDash": [4, 3], "strokeWidth": 1}, "encoding": {"x": quantitative("at", scale=scale)}},
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {"x": quantitative("low", scale=scale), "x2": {"field": "high"}, "y": y, "color": own}},
        {"mark": {"type": "rule", "strokeWidth": 7, "strokeCap": "round", "opacity": 0.55}, "encoding": {"x": quantitative("half_low", scale=scale), "x2": {"field": "half_high"}, "y": y, "color": own}},
        {
            "mark": {"type": "point", "filled": True, "size": 95, "stroke": "white", "strokeWidth": 1.5, "opacity": 1, "aria": True},
            "encoding": {"x": x, "y": y, "fill": nominal("colour", scale=None, legend=None), "description": {"field": "tip"}},
        },
        {"mark": {"type": "text", "align": "right", "x": -12, "fontWeight": "bold", "fontSize": 12, "limit": NAMES - 16}, "encoding": {"y": y, "text": {"field": "name"}}},
        {"mark": {"type": "text", "align": "left", "x": plot + 14, "dy": -7, "fontSize": 12, "fontWeight": "bold"}, "encoding": {"y": y, "text": {"field": "figures"}}},
        {"mark": {"type": "text", "align": "left", "x": plot + 14, "dy": 8, "color": SOFT, "limit": 216}, "encoding": {"y": y, "text": {"field": "words"}}},
        data=rows, width=plot, height=height, padding={"left": 4, "right": 224, "top": 20, "bottom": 4},
    )  # fmt: skip
    alt = "Change of run time by target. " + " ".join(f"{v.name}: {signed(v.change)} {v.interval}, {v.words}." for v in found)
    told = [{"target": v.projection.target, "change": v.change, "low": v.low, "high": v.high, "quarter_low": v.half_low, "quarter_high": v.half_high, "probability_inside": v.inside} for v in found]
    caption = "Dot: at the stated values. Thick line: the middle half of the draws; thin line: 90 %. The dashed line is the decision line, 5 % slower."
    if not plain:
        caption += " The axis is logarithmic away from zero."
    return Figure("verdict-strip", "Change of run time by target", alt, spec, told, caption)


def _roomy(low: float, high: float, width: float) -> bool:
    """Whether the zone labels of 1 and 2 % have room on a plain axis."""
    return 0.01 / (high - low) * width > 22


def breakdown(found: list[Verdict]) -> Figure:
    """Exposed time by part: the recorded run and every target (Groves et al. 2022, Fig 10)."""
    first = found[0].projection
    bars: list[tuple[str, dict[str, float], float, str]] = [("recorded", first.measured_breakdown, first.measured_seconds, "")]
    bars += [(v.name, v.projection.breakdown, v.projection.seconds, signed(v.change)) for v in found if v.kind != "self"]
    scale, unit = time_unit(max(b[2] for b in bars))
    longest = max(b[2] for b in bars)
    rows: list[dict[str, Any]] = []
    for i, (name, parts, _, _) in enumerate(bars):
        at = 0.0
        for part in PARTS:
            width = parts[part]
            rows.append(
                {
                    "row": i, "name": name, "part": PART_WORDS[part], "from": at / scale, "to": (at + width) / scale, "middle": (at + width / 2) / scale,
                    "label": number(width, "s", 2) if width > 0.085 * longest else "", "ink": "#ffffff" if part in ("kernel", "launch") else INK,
                    "tip": f"{name}: {PART_WORDS[part]} {number(width, 's')}, {percent(width / parts_sum(parts))}",
                }
            )  # fmt: skip
            at += width
    ends = [{"row": i, "name": name, "at": parts_sum(parts) / scale, "label": f"{number(seconds, 's', 4)}  {change}"} for i, (name, parts, seconds, change) in enumerate(bars)]
    order = [PART_WORDS[p] for p in PARTS]
    y: Spec = {"field": "row", "type": "ordinal", "axis": None, "scale": {"paddingInner": 0.28, "paddingOuter": 0.1}}
    plot = FULL - NAMES - 130
    x = {"title": f"time [{unit}]", "grid": True, "tickCount": 6}
    spec = layer(
        {
            "mark": {"type": "bar", "aria": True},
            "encoding": {
                "x": quantitative("from", axis=x, scale={"nice": False}), "x2": {"field": "to"}, "y": y, "description": {"field": "tip"},
                "color": nominal("part", sort=order, scale={"domain": order, "range": [PART_COLOURS[p] for p in PARTS]}, legend={"title": None, "symbolSize": 130}),
            },
        },
        {"mark": {"type": "text", "limit": 120}, "encoding": {"x": quantitative("middle"), "y": y, "text": {"field": "label"}, "color": nominal("ink", scale=None)}},
        {"data": {"values": ends}, "mark": {"type": "text", "align": "left", "dx": 6, "fontWeight": "bold"}, "encoding": {"x": quantitative("at"), "y": y, "text": {"field": "label"}}},
        {"data": {"values": ends}, "mark": {"type": "text", "align": "right", "x": -10, "fontWeight": "bold", "limit": NAMES - 14}, "encoding": {"y": y, "text": {"field": "name"}}},
        data=rows, width=plot, height={"step": 32}, padding={"left": 4, "right": 126, "top": 4, "bottom": 4},
    )  # fmt: skip
    told = [{"target": name, **{f"{p}_seconds": parts[p] for p in PARTS}, "total_seconds": seconds} for name, parts, seconds, _ in bars]
    alt = "Run time by part. " + " ".join(f"{n}: {', '.join(f'{PART_WORDS[k]} {number(v, chr(115))}' for k, v in parts.items())}." for n, parts, _, _ in bars)
    caption = "Exposed time only: a copy behind a kernel costs nothing here. Everything else is MPI, other calls of the GPU runtime and the application's own work on the host."
    return Figure("breakdown", "What the run time is made of", alt, spec, told, caption)


def parts_sum(parts: dict[str, float]) -> float:
    """Sum of a breakdown [s], never zero."""
    return sum(parts.values()) or 1e-30


def time_unit(longest: float) -> tuple[float, str]:
    """Divisor and name of the unit in which `longest` seconds reads well.

    >>> time_unit(0.5), time_unit(12.0)
    ((0.001, 'ms'), (1.0, 's'))
    """
    for divisor, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if longest >= divisor:
            return divisor, name
    return 1e-9, "ns"


def steps(v: Verdict) -> Figure:
    """From the recorded run to one target, part by part."""
    p = v.projection
    deltas = {part: p.breakdown[part] - p.measured_breakdown[part] for part in PARTS}
    scale, unit = time_unit(p.measured_seconds or 1.0)
    if max(abs(d) for d in deltas.values()) < 0.02 * p.measured_seconds:
        scale, unit = time_unit(max([*(abs(d) for d in deltas.values()), 1e-9]))
    rows: list[dict[str, Any]] = [{"step": "recorded", "from": 0.0, "to": 0.0, "label": number(p.measured_seconds, "s", 4), "colour": RECORDED, "end": 0.0}]
    at = 0.0
    for part in PARTS:
        d = deltas[part]
        text = "0" if abs(d) < 1e-12 else ("+" if d > 0 else "−") + number(abs(d), "s", 2)
        rows.append(
            {"step": PART_WORDS[part], "from": at / scale, "to": (at + d) / scale, "label": text, "colour": ADDED if d > 0 else SAVED, "end": max(at, at + d) / scale,
             "tip": f"{v.name}: {PART_WORDS[part]} {text}, {signed(d / (p.measured_seconds or 1.0))} of the run"}
        )  # fmt: skip
        at += d
    rows.append({"step": "projected", "from": at / scale, "to": at / scale, "label": f"{number(p.seconds, 's', 4)}, {signed(v.change)}", "colour": v.colour, "end": at / scale})
    order = [r["step"] for r in rows]
    y: Spec = nominal("step", sort=order, axis={"title": None, "ticks": False, "domain": False, "labelPadding": 6}, scale={"paddingInner": 0.3})
    ends = [r["end"] for r in rows] + [r["from"] for r in rows]
    span = (max(ends) - min(ends)) or 1.0
    left, right = min(ends) - 0.04 * span, max(ends) + 0.55 * span
    x = quantitative("from", scale={"domain": [left, right], "nice": False}, axis={"title": f"against the recorded run [{unit}]", "tickCount": 4, "grid": True, "format": "+~g"})
    own: Spec = nominal("colour", scale=None)
    spec = layer(
        {"data": {"values": [{"from": 0.0}]}, "mark": {"type": "rule", "color": FAINT}, "encoding": {"x": x}},
        {"transform": [{"filter": "datum.from != datum.to"}], "mark": {"type": "bar", "aria": True}, "encoding": {"x": x, "x2": {"field": "to"}, "y": y, "color": own, "description": {"field": "tip"}}},
        {"transform": [{"filter": "datum.step == 'recorded' || datum.step == 'projected'"}], "mark": {"type": "tick", "thickness": 4, "size": 17}, "encoding": {"x": x, "y": y, "color": own}},
        {"mark": {"type": "text", "align": "left", "dx": 6}, "encoding": {"x": quantitative("end"), "y": y, "text": {"field": "label"}, "fontWeight": {"condition": {"test": "datum.step == 'projected'", "value": "bold"}, "value": "normal"}}},
        data=rows, width=HALF - 118, height={"step": 22}, padding={"left": 4, "right": 6, "top": 4, "bottom": 4},
    )  # fmt: skip
    told = [{"step": "recorded", "seconds": p.measured_seconds}, *({"step": k, "seconds": d} for k, d in deltas.items()), {"step": "projected", "seconds": p.seconds}]
    alt = f"{v.name}: recorded {number(p.measured_seconds, 's', 4)}, " + ", ".join(f"{PART_WORDS[k]} {number(d, 's', 2)}" for k, d in deltas.items()) + f", projected {number(p.seconds, 's', 4)}"
    return Figure("steps", v.name, alt, spec, told, half=True)


def drivers(v: Verdict, most: int = 6) -> Figure:
    """Which unknown numbers the interval of one target comes from."""
    shares = list(v.projection.drivers.items())[:most]
    rest = max(0.0, 1.0 - sum(s for _, s in shares))
    rows: list[dict[str, Any]] = [{"name": shorten(unknown_label(n), 46), "share": s, "label": percent(s, 2), "tip": f"{unknown_label(n)}: {percent(s)} of the variance"} for n, s in shares]
    if rest > 0.005:
        rows.append({"name": "all others", "share": rest, "label": percent(rest, 2), "tip": f"all others: {percent(rest)} of the variance"})
    names = list(dict.fromkeys(r["name"] for r in rows))
    y: Spec = nominal("name", sort=names, axis=None, scale={"paddingInner": 0.62, "paddingOuter": 0.5})
    x = quantitative("share", scale={"domain": [0, 1]}, axis={"format": "%", "title": None, "tickCount": 4, "grid": True})
    spec = layer(
        {"mark": {"type": "bar", "color": v.colour, "aria": True}, "encoding": {"x": x, "y": y, "description": {"field": "tip"}}},
        {"mark": {"type": "text", "align": "left", "x": 0, "dy": -13, "limit": HALF - 60}, "encoding": {"y": y, "text": {"field": "name"}}},
        {"mark": {"type": "text", "align": "left", "dx": 5, "fontWeight": "bold"}, "encoding": {"x": quantitative("share"), "y": y, "text": {"field": "label"}}},
        data=rows, width=HALF - 50, height={"step": 34}, padding={"left": 4, "right": 44, "top": 2, "bottom": 4},
    )  # fmt: skip
    told = [{"target": v.projection.target, "unknown": clean(n), "share_of_variance": s} for n, s in v.projection.drivers.items()]
    alt = f"{v.name}: " + ", ".join(f"{r['name']} {r['label']}" for r in rows)
    return Figure("drivers", v.name, alt, spec, told, half=True)
