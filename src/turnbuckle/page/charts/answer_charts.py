"""Figures of the answer: verdict strip, breakdown, steps from the recorded run to a target, drivers
of an interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.projection import PARTS
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import ADDED, FAINT, FULL, HALF, INK, RECORDED, SAVED, SOFT, ZONES
from turnbuckle.show.figures.look import PARTS as PART_COLOURS
from turnbuckle.show.figures.marks import (
    CHANGE,
    Rows,
    Spec,
    of,
    plot,
    quantity,
    row_axis,
    stack,
    time_unit,
)
from turnbuckle.show.text import (
    NARROW,
    clean,
    folded,
    number,
    percent,
    seconds,
    shorten,
    signed,
    terms,
)
from turnbuckle.show.unknowns import unknown_label
from turnbuckle.show.verdict import LINE, Verdict, capital, on_timeline, which
from turnbuckle.show.verdict import verdicts as judged

#: Slowdowns drawn on a plain axis; beyond, the axis is logarithmic on both sides of zero.
PLAIN_CHANGE = 0.30
#: Room for names left of a figure [px].
NAMES = 168
PART_WORDS = terms("part of a run")
_TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000, 10000)


def figures(answer: Answer) -> list[Figure]:
    """Return the figures of an answer, as the report has them; none for one without targets."""
    targets = judged(answer.projections)
    return [verdict_strip(targets), breakdown(targets)] if targets else []


def _ends(v: Verdict) -> dict[str, float]:
    return {"change": v.change, "low": v.low, "high": v.high}


def verdict_strip(verdicts: list[Verdict]) -> Figure:
    """Draw one row a target: dot, middle half and 90 % interval of the change in run time, over
    zones of slowdown.
    """
    told, verdicts = which(verdicts), [v for v in verdicts if v.kind != "unknown"]
    rows: Rows = [
        dict(
            row=i,
            name=folded(v.name, 20),
            colour=v.colour,
            words=v.words,
            **_ends(v),
            half_low=v.half_low,
            half_high=v.half_high,
        )
        | {
            "figures": f"{signed(v.change)}{NARROW}{NARROW}{v.interval}",
            "tip": f"{v.name}: {signed(v.change)} {v.interval}, {v.words}",
        }
        for i, v in enumerate(verdicts)
    ]
    low, high = min([-0.01, *(r["low"] for r in rows)]), max([0.1, *(r["high"] for r in rows)])
    low, high = low - 0.03 * (high - low), high + (0.03 * (high - low) if high > 0.1 else 0.0)
    plain = max(-low, high) <= PLAIN_CHANGE
    right = 206
    width = FULL - NAMES - right
    zones, named_zones = _zones(low, high, plain, width)
    x, y = _change_axis(low, high, plain), row_axis(len(rows))
    layers = [
        marks.cells(zones, of(x, "from"), None, x2="to"),
        marks.labels(
            named_zones,
            of(x, "to"),
            -5,
            align="right",
            baseline="bottom",
            dx=-3,
            color=SOFT,
            fontSize=10,
        ),
        marks.rules([{"change": 0.0}], x, color=INK),
        marks.rules([{"change": LINE}], x, color=INK, strokeDash=[4, 3]),
        marks.rules(None, of(x, "low"), y, 2, x2="high"),
        marks.rules(None, of(x, "half_low"), y, 7, x2="half_high", strokeCap="round", opacity=0.55),
        marks.points(None, x, y, 95, 1.5, tip=True),
        marks.row_names(None, y, NAMES, fontSize=12, lineBreak="\n"),
        marks.labels(
            None, width + 14, y, "figures", align="left", dy=-7, fontSize=12, fontWeight="bold"
        ),
        marks.labels(
            None, width + 14, y, "words", align="left", dy=8, color=SOFT, limit=right - 16
        ),
    ]
    spec = plot(layers, 44 * len(rows), (NAMES, right, 20, 44), rows)
    alt = "Change of run time by target. " + " ".join(
        f"{v.name}: {signed(v.change)} {v.interval}, {v.words}." for v in verdicts
    )
    table: Rows = [
        dict(
            target=clean(v.projection.target),
            **_ends(v),
            quarter_low=v.half_low,
            quarter_high=v.half_high,
            probability_inside=v.inside,
        )
        for v in verdicts
    ]
    caption = (
        "Dot: at the stated values. Thick line: the middle half of the draws; thin line: "
        f"90{NARROW}% of them. The dashed "
        f"line is the decision line, {percent(LINE)} slower. {capital(told)}."
    )
    caption += "" if plain else " The axis is logarithmic away from zero."
    return Figure("verdict-strip", "Change of run time by target", alt, spec, table, caption)


def _change_axis(low: float, high: float, plain: bool) -> Spec:
    """Return the channel of the change: plain, or logarithmic on both sides of zero."""
    values = [m for m in (*(-s for s in _TICKS[:5]), 0, *_TICKS) if low <= m <= high]
    ticks: Spec = {"tickCount": 7} if plain else {"values": values}
    scale: Spec = {} if plain else {"type": "symlog", "constant": 0.02}
    title = "change of run time against the recorded run"
    return quantity(
        "change", [low, high], scale=scale, grid=False, title=title, labelExpr=CHANGE, **ticks
    )


def _zones(low: float, high: float, plain: bool, width: float) -> tuple[Rows, Rows]:
    """Return the zones of slowdown between the ends of the axis, and those that `width` pixels
    leave room to name.
    """
    zones: Rows = [
        {"from": max(a, low), "to": min(b, high), "colour": colour, "label": label}
        for a, b, colour, label in ZONES
        if min(b, high) > max(a, low)
    ]

    def along(value: float) -> float:
        return value if plain else math.copysign(math.log1p(abs(value) / 0.02), value)

    pixel = width / (along(high) - along(low))
    return zones, [
        z for z in zones if (along(z["to"]) - along(z["from"])) * pixel > 5.5 * len(z["label"]) + 4
    ]


def part_words(replay: str) -> Mapping[str, str]:
    """Return the parts of a breakdown in words: over exposed time for the sum, along the critical
    path for the timeline.
    """
    return {**PART_WORDS, "copy": "copies"} if replay == "timeline" else PART_WORDS


def breakdown(verdicts: list[Verdict]) -> Figure:
    """Draw the recorded run by part, and with what changes on every target (Groves et al. 2022, Fig
    10).
    """
    told, verdicts = which(verdicts), [v for v in verdicts if v.kind != "unknown"] or verdicts
    first = verdicts[0].projection
    words = part_words(first.replay)
    runs = [("recorded", first.measured_breakdown, first.measured_seconds, "")]
    projected = [v for v in verdicts if v.kind not in ("self", "unknown")]
    runs += [
        (v.name, v.projection.breakdown, v.projection.seconds, signed(v.change)) for v in projected
    ]
    windows = [
        first.measured_kernel_window_seconds,
        *(v.projection.kernel_window_seconds for v in projected),
    ]
    longest = max([*(sum(parts.values()) for _, parts, _, _ in runs), 1e-12])
    divisor, unit = time_unit(longest)
    rows: Rows = []
    ends: Rows = []
    for i, (name, parts, total, change) in enumerate(runs):
        part_sum = sum(parts.values())
        for part in stack((parts[p], {"part": p}) for p in PARTS):
            kind, length = part["part"], parts[part["part"]]
            ends_of = {end: part[end] / divisor for end in ("from", "to", "middle")}
            look = {
                "colour": PART_COLOURS[kind],
                "ink": "#ffffff" if kind in ("kernel", "launch") else INK,
            }
            label = number(length, "s", 2) if length > 0.09 * longest else ""
            tip = (
                f"{name}: {words[kind]} {number(length, 's')}, "
                f"{percent(length / (part_sum or 1.0))}"
            )
            rows.append(
                {"row": i, "part": words[kind], **ends_of, **look, "label": label, "tip": tip}
            )
        label = f"{seconds(total)}{', ' if change else ''}{change}"
        ends.append({"row": i, "name": folded(name, 20), "to": rows[-1]["to"], "label": label})
    x, y = (
        quantity("from", [0, longest / divisor], title=f"time [{unit}]", tickCount=6),
        row_axis(len(runs), inner=0.28, outer=0.1),
    )
    layers = [
        marks.bars(None, x, y, x2="to", tip=True),
        marks.labels(None, quantity("middle"), y, hue="ink", limit=120),
        marks.labels(ends, quantity("to"), y, align="left", dx=7, fontWeight="bold"),
        marks.row_names(ends, y, NAMES, fontSize=12, lineBreak="\n"),
    ]
    diamonds: Rows = [
        {"row": i, "to": value / divisor} for i, value in enumerate(windows) if value is not None
    ]
    if diamonds:
        layers.append(marks.points(diamonds, quantity("to"), y, 60, shape="diamond", color=INK))
    spec = plot(layers, 32 * len(runs), (NAMES, 118, 2, 42), rows)
    asked_by = ["recorded", *(clean(v.projection.target) for v in projected)]
    table: Rows = [
        {
            "target": target,
            **{f"{p}_seconds": parts[p] for p in PARTS},
            "total_seconds": total,
            "kernel_window_seconds": window,
        }
        for target, (_, parts, total, _), window in zip(asked_by, runs, windows, strict=True)
    ]
    alt = "Run time by part. " + " ".join(
        f"{name}: {_in_words(words, parts)}." for name, parts, _, _ in runs
    )
    path = on_timeline(verdicts)
    only = (
        "Time on the critical path only: a copy nobody waits for"
        if path
        else "Exposed time only: a copy behind a kernel"
    )
    caption = (
        f"{only} costs nothing here. A projected bar is the recorded one plus what changes. "
        "Everything else is MPI, other calls of the GPU "
        f"runtime and the application's own work on the host. {capital(told)}."
        + (
            (
                " The diamond stands at the kernel window: the time from the first kernel's "
                "start to the last kernel's end."
            )
            if diamonds
            else ""
        )
    )
    legend = tuple((words[p], PART_COLOURS[p]) for p in PARTS)
    return Figure(
        "breakdown",
        "Run time by part, recorded and projected",
        alt,
        spec,
        table,
        caption,
        legend=legend,
    )


def _in_words(words: Mapping[str, str], parts: dict[str, float]) -> str:
    """Return times by part in words."""
    return ", ".join(f"{words[part]} {number(value, 's')}" for part, value in parts.items())


def steps(v: Verdict) -> Figure:
    """Draw the way from the recorded run to one target, part by part."""
    p = v.projection
    words = part_words(p.replay)
    deltas = {part: p.change[part] for part in PARTS}
    divisor, unit = time_unit(max([*(abs(d) for d in deltas.values()), 1e-9]))
    rows: Rows = [
        {
            "step": "recorded",
            "label": seconds(p.measured_seconds),
            "colour": RECORDED,
            "from": 0.0,
            "to": 0.0,
            "end": 0.0,
        }
    ]
    reached = 0.0
    for part, d in deltas.items():
        text = "0" if abs(d) < 5e-13 else ("+" if d > 0 else "−") + number(abs(d), "s", 2)
        tip = (
            f"{v.name}: {words[part]} {text}, {signed(d / (p.measured_seconds or 1.0))} of the run"
        )
        ends = {
            "from": reached / divisor,
            "to": (reached + d) / divisor,
            "end": max(reached, reached + d) / divisor,
        }
        rows.append(
            {
                "step": words[part],
                "label": text,
                "colour": ADDED if d > 0 else SAVED,
                "tip": tip,
                **ends,
            }
        )
        reached += d
    last = reached / divisor
    label = f"{seconds(p.seconds)}, {signed(v.change)}"
    rows.append(
        {
            "step": "projected",
            "label": label,
            "colour": v.colour,
            "from": last,
            "to": last,
            "end": last,
        }
    )
    axis = {"title": None, "ticks": False, "domain": False, "labelPadding": 8}
    y: Spec = {
        "field": "step",
        "type": "nominal",
        "sort": [r["step"] for r in rows],
        "scale": {"paddingInner": 0.3},
        "axis": axis,
    }
    places = [r[k] for r in rows for k in ("end", "from", "to")]
    span = (max(places) - min(places)) or 1.0
    title, signs = (
        f"against the recorded run [{unit}]",
        "datum.value == 0 ? '0' : format(datum.value, '+,~r')",
    )
    x = quantity(
        "from",
        [min(places) - 0.04 * span, max(places) + 0.75 * span],
        title=title,
        tickCount=4,
        labelExpr=signs,
    )
    projected, end = "datum.step == 'projected'", quantity("end")
    layers = [
        marks.rules([{"from": 0.0}], x, color=FAINT),
        marks.bars(None, x, y, x2="to", tip=True, where="datum.from != datum.to"),
        marks.mark(
            "tick",
            None,
            x,
            y,
            where=f"datum.step == 'recorded' || {projected}",
            thickness=4,
            size=17,
            opacity=1,
        ),
        marks.labels(None, end, y, where=f"!({projected})", align="left", dx=6),
        marks.labels(None, end, y, where=projected, align="left", dx=6, fontWeight="bold"),
    ]
    spec = plot(layers, 22 * len(rows), (104, 8, 2, 42), rows, HALF)
    moves = [("recorded", p.measured_seconds), *deltas.items(), ("projected", p.seconds)]
    alt = (
        f"{v.name}: recorded {seconds(p.measured_seconds)}, "
        + ", ".join(f"{words[k]} {number(d, 's', 2)}" for k, d in deltas.items())
        + f", projected {seconds(p.seconds)}"
    )
    return Figure(
        "steps",
        v.label.rstrip(","),
        alt,
        spec,
        [{"step": k, "seconds": d} for k, d in moves],
        half=True,
    )


def drivers(v: Verdict, most: int = 6) -> Figure:
    """Draw which unknown numbers the interval of one target comes from."""
    shares = list(v.projection.drivers.items())[:most]
    rest = max(0.0, 1.0 - sum(s for _, s in shares))
    named = [(unknown_label(n), s) for n, s in shares] + (
        [("all others", rest)] if rest > 0.005 else []
    )
    rows: Rows = [
        {
            "row": i,
            "name": shorten(n, 60),
            "share": s,
            "label": percent(s, 2),
            "tip": f"{n}: {percent(s)} of the variance",
        }
        for i, (n, s) in enumerate(named)
    ]
    y = row_axis(len(rows), inner=0.68, outer=0.5)
    axis: Spec = {
        "labelExpr": "format(datum.value * 100, '~r') + ' %'",
        "title": None,
        "values": [0, 0.25, 0.5, 0.75, 1],
    }
    layers = [
        marks.bars(
            None, quantity("share", scale={"domain": [0, 1]}, **axis), y, color=v.colour, tip=True
        ),
        marks.labels(None, 1, y, "name", align="left", dy=-13, limit=HALF - 20),
        marks.labels(
            None, quantity("share"), y, align="left", dx=5, fontWeight="bold", fontSize=10.5
        ),
    ]
    spec = plot(layers, 33 * len(rows), (6, 46, 2, 22), rows, HALF)
    target = clean(v.projection.target)
    table: Rows = [
        {"target": target, "unknown": clean(n), "share_of_variance": s}
        for n, s in v.projection.drivers.items()
    ]
    alt = f"{v.name}: " + ", ".join(f"{r['name']} {r['label']}" for r in rows)
    return Figure("drivers", v.label.rstrip(","), alt, spec, table, half=True)
