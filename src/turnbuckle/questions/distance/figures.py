"""Figures of distance: run time against added latency, and how much better used a pooled GPU must
be to pay for it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from turnbuckle.machine.hops import fibre_metres, hops
from turnbuckle.projection.projection import break_even_utilisation
from turnbuckle.questions.distance.distance import FARTHEST, NEAREST
from turnbuckle.questions.distance.question import Slack
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FAINT, FULL, HALF, INK, MODES, SOFT, ZONES
from turnbuckle.show.figures.marks import (
    CHANGE,
    SECONDS,
    TIMES,
    Rows,
    Spec,
    digits,
    of,
    plot,
    quantity,
)
from turnbuckle.show.text import NARROW, count, factor, number, percent, seconds, terms

MODE_WORDS: Final = terms("mode")
#: What the fabric adds to the cost of a GPU, as stated assumptions.
ADDERS: Final = (0.0, 0.10, 0.25)
#: Lengthening of the run shown, lowest and highest.
LOWEST, HIGHEST = 1e-3, 10.0
#: The line that is labelled.
DECISION: Final = 0.05
#: Distances that a small figure has room to name.
_NAMED: Final = ("rack", "row", "data centre")
#: Points of a curve a decade.
_PER_DECADE: Final = 14
_CHARACTER: Final = 5.4
#: Link trips nearer to each other than this share one name [px].
_TOGETHER: Final = 12
#: Classes that are one more trip over a link, not a distance among machines.
TRIPS: Final = frozenset({"package", "C2C", "PCIe"})
_TICKS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
#: Vega labels of the length of fibre that delays as much.
_FIBRE: Final = (
    "(datum.value < 4e-6 ? format(datum.value / 5e-9, ',~r') + ' m' : replace(format(datum.value "
    "/ 5e-6, ',~r'), ',', ' ') + ' km')"
)


def fibre(one_way: float) -> str:
    """Return the length of fibre that delays as much.

    >>> fibre(1e-6), fibre(30e-6)
    ('200\\xa0m', '6\\xa0km')
    """
    metres = fibre_metres(one_way)
    if metres < 1e3:
        return f"{float(number(metres, '1', 2)):g}{NARROW}m"
    return f"{count(float(f'{metres:.1e}') / 1e3) if metres >= 1e4 else number(metres / 1e3, '1', 2)}{NARROW}km"


def slack_curve(answers: list[Slack]) -> Figure:
    """Draw lengthening of the run against added one-way latency, both ways to be far away, over
    zones of slowdown.
    """
    left, right = 72, 22
    hop_names, rows = _hop_labels(FULL - left - right)
    title = (
        "added one-way latency; below it, the length of glass fibre that delays a signal as much"
    )
    values, fibre_below = [10.0**k for k in range(-7, 0)], f"[{SECONDS}, {_FIBRE}]"
    bare: Spec = {"log": 10, "grid": False, "labelOverlap": False}
    x = quantity(
        "at", [NEAREST, FARTHEST], title=title, values=values, labelExpr=fibre_below, **bare
    )
    y = quantity(
        "change",
        [LOWEST, HIGHEST],
        title="run takes longer by",
        values=list(_TICKS),
        labelExpr=CHANGE,
        **bare,
    )
    zones = [
        {"low": max(low, LOWEST), "high": min(high, HIGHEST), "colour": colour}
        for low, high, colour, _ in ZONES
        if high > LOWEST
    ]
    layers = [
        marks.cells(zones, None, of(y, "low"), y2="high"),
        marks.rules([{"change": DECISION}], None, y, color=INK, strokeDash=[4, 3]),
        *_hop_layers(hop_names, x),
        *_curve_layers(answers, x, y),
    ]
    spec = plot(layers, 300, (left, right, 13 * rows + 8, 58))
    table: Rows = [
        {
            "mode": s.mode,
            "added_one_way_seconds": float(latency),
            "run_seconds": float(s.curve(latency)),
            "lower_seconds": None if s.band is None else s.band(float(latency))[0],
            "upper_seconds": None if s.band is None else s.band(float(latency))[1],
            "penalty": s.penalty(float(latency)),
        }
        for s in answers
        for latency in s.shown()
    ]
    alt = "Lengthening of the run against added one-way latency. " + " ".join(
        f"{MODE_WORDS[s.mode]}: "
        + ", ".join(f"{percent(t.share)} at {reach(t.slack)}" for t in s.tolerances)
        + "."
        for s in answers
    )
    return Figure(
        "slack",
        "How much longer the run takes with distance",
        alt,
        spec,
        table,
        _curve_caption(answers),
        legend=_legend(answers),
    )


def reach(slack: float | None) -> str:
    """Return a tolerated latency in words."""
    return (
        f"more than {seconds(FARTHEST)}"
        if slack is None
        else number(slack, "s", 2, all_digits=True)
    )


def _legend(answers: list[Slack]) -> tuple[tuple[str, str], ...]:
    words = {
        "link": "longer link (solid): asynchronous calls stay asynchronous",
        "api": "every crossing call blocks (dashed)",
        "remoting": "calls through a remoting layer, at its bandwidths and with its software",
        "network": "every message between nodes takes longer",
    }
    return tuple((words[s.mode], MODES[s.mode]) for s in answers)


def _curve_caption(answers: list[Slack]) -> str:
    exact = all(not s.curve.gap for s in answers)
    breaks = " and ".join(f"{len(s.curve.breakpoints)} ({MODE_WORDS[s.mode]})" for s in answers)
    caption = (
        "Both axes are logarithmic; a run that takes longer by less than 0.1"
        + NARROW
        + "% lies on the lower edge. Dots: where the run "
        f"is 1, 2, 5 and 10{NARROW}% longer. Upright lines: the latency of well-known distances; "
        "dotted: one more trip over a link. "
    )
    if any(_banded(s) for s in answers):
        caption += f"Shaded along a line: 90{NARROW}% of the draws of all that is uncertain. "
    if exact:
        return caption + (
            "The curves are exact: the search found every point at which the critical path "
            f"changes, {breaks}."
        )
    return (
        caption
        + (
            f"The search stopped at its limit ({breaks} points at which the critical path "
            "changes): elsewhere off by "
        )
        + ", ".join(
            f"{seconds(s.curve.gap)} at most ({MODE_WORDS[s.mode]})" for s in answers if s.curve.gap
        )
        + "."
    )


def _banded(slack: Slack) -> bool:
    return slack.measured > 0 and any(
        interval_matters(t.slack, t.low, t.high) for t in slack.tolerances
    )


def interval_matters(slack: float | None, low: float | None, high: float | None) -> bool:
    """Return whether an interval would print as anything but the value itself."""
    return slack is not None and (
        number(low, "s", 2) != number(slack, "s", 2)
        or number(high, "s", 2) != number(slack, "s", 2)
    )


def _hop_labels(plot: float) -> tuple[Rows, int]:
    """Return the names of the classes of distance, in lines such that no stalk runs through a name;
    and how many lines.
    """
    rows: Rows = []
    per_decade = plot / np.log10(FARTHEST / NEAREST)
    for hop in hops():
        start = float(np.log10(hop.one_way / NEAREST) * per_decade)
        trip = hop.name in TRIPS
        tip = f"{hop.name}: {number(hop.one_way, 's', 2)}, {hop.what}"
        together = trip and rows and rows[-1]["trip"] and start - rows[-1]["start"] < _TOGETHER
        if together:
            rows[-1] |= {
                "label": f"{rows[-1]['label']}, {hop.name}",
                "tip": f"{rows[-1]['tip']}; {tip}",
            }
        rows.append(
            {
                "at": hop.one_way,
                "label": "" if together else hop.name,
                "trip": trip,
                "tip": tip,
                "start": start,
            }
        )
    for k in range(len(rows) - 1, -1, -1):
        end = rows[k]["start"] + _CHARACTER * len(rows[k]["label"]) + 10
        under = [r["line"] for r in rows[k + 1 :] if r["start"] < end and r["label"]]
        rows[k]["line"] = 1 + max(under, default=-1) if rows[k]["label"] else -1
    return rows, 1 + max(r["line"] for r in rows)


def _hop_layers(names: Rows, x: Spec) -> list[Spec]:
    """Draw a line a class of distance, dotted for one more trip over a link, each with a stalk up
    to its name.
    """
    out: list[Spec] = []
    for row in names:
        look: Spec = (
            {"color": SOFT, "opacity": 0.55, "strokeDash": [2, 3]}
            if row["trip"]
            else {"color": INK, "opacity": 0.55}
        )
        height = -13 * row["line"] - 13
        place: Rows = [{"at": row["at"]}]
        out.append(marks.rules(place, x, **look))
        if row["label"]:
            out.append(marks.rules(place, x, 0, y2=height, **look))
            written: Spec = {"align": "left", "baseline": "middle", "dx": 4, "fontSize": 10}
            out.append(marks.labels([row], x, height + 6, tip=True, color=look["color"], **written))
    return out


def _curve_layers(answers: list[Slack], x: Spec, y: Spec) -> list[Spec]:
    """Draw the curves with their bands, and dots on them."""
    grid = np.geomspace(NEAREST, FARTHEST, round(np.log10(FARTHEST / NEAREST) * _PER_DECADE) + 1)
    out: list[Spec] = []
    for s in answers:
        colour = MODES[s.mode]
        if s.band is not None and _banded(s):
            ends = ((float(a), s.band(float(a))) for a in grid)
            band: Rows = [
                {
                    "at": digits(a),
                    "low": digits(max(low / s.measured - 1.0, LOWEST)),
                    "high": digits(max(high / s.measured - 1.0, LOWEST)),
                }
                for a, (low, high) in ends
            ]
            out.append(
                marks.mark(
                    "area", band, x, of(y, "low"), y2="high", color=colour, opacity=0.2, clip=True
                )
            )
        knots = s.curve.breakpoints
        latencies = np.union1d(
            grid, knots[(knots > NEAREST) & (knots < FARTHEST)][:: max(1, len(knots) // 40)]
        )
        curve = [
            {"at": digits(a), "change": digits(max(s.penalty(a) - 1.0, LOWEST / 2))}
            for a in latencies.tolist()
        ]
        dash = {"strokeDash": [7, 4]} if s.mode == "api" else {}
        out.append(
            marks.line(
                _to_edges(curve), x, y, 2.6, color=colour, clip=True, strokeJoin="round", **dash
            )
        )
    return [*out, *_dots(answers, x, y)]


def _to_edges(line: Rows) -> Rows:
    """Return the points inside the figure, and one more on either side of its lower and upper
    edge.
    """
    inside = [i for i, r in enumerate(line) if LOWEST <= r["change"] <= HIGHEST]
    if not inside:
        return line[:1] + line[-1:]
    return line[max(inside[0] - 1, 0) : inside[-1] + 2]


def _dots(answers: list[Slack], x: Spec, y: Spec) -> list[Spec]:
    """Draw a dot at each tolerated latency, and its name where it decides."""
    dots: Rows = []
    for s in answers:
        for t in s.tolerances:
            if t.slack is not None and NEAREST <= t.slack <= FARTHEST:
                tip = (
                    f"{MODE_WORDS[s.mode]}: {percent(t.share)} longer at {reach(t.slack)} "
                    f"({fibre(t.slack)} of fibre)"
                )
                dots.append(
                    {
                        "at": digits(t.slack),
                        "change": t.share,
                        "colour": MODES[s.mode],
                        "tip": tip,
                        "label": reach(t.slack),
                    }
                )
    decided = sorted((d for d in dots if d["change"] == DECISION), key=lambda d: d["at"])
    out = [marks.points(dots, x, y, 62, 1.3, tip=True)]
    for k, d in enumerate(decided):
        # the nearer to the left of its dot, the farther to the right: neither meets a curve
        side: Spec = (
            {"align": "right", "dx": -9, "dy": -8}
            if k == 0 and len(decided) > 1
            else {"align": "left", "dx": 9, "dy": 9}
        )
        name = marks.labels(
            [d],
            x,
            y,
            fontWeight="bold",
            fontSize=11.5,
            baseline="middle",
            color=d["colour"],
            **side,
        )
        out += marks.haloed(name, opacity=0.85)
    return out


def break_even(slack: Slack, farthest: float = 1e-2) -> Figure:
    """Draw how much better used a pooled GPU must be than a local one, against added latency, for
    what the fabric may cost.
    """
    height, highest = 190, 2.0
    grid = np.geomspace(NEAREST, farthest, 61)
    penalty = np.array([slack.penalty(a) for a in grid.tolist()])
    rows: Rows = []
    starts: Rows = []
    for k, adder in enumerate(ADDERS):
        use = break_even_utilisation(1.0, adder) * penalty
        shown = slice(0, int(np.searchsorted(use, highest)) + 1)
        rows += [
            {"at": digits(a), "use": digits(u), "adder": k}
            for a, u in zip(grid[shown].tolist(), use[shown].tolist(), strict=True)
        ]
        words = "fabric at no cost" if not adder else f"fabric adds {percent(adder)}"
        starts.append({"at": NEAREST, "use": digits(float(use[0])), "label": words})
    values = [t for k in range(-7, 0) if (t := 10.0**k) <= farthest * 1.001]
    x = quantity(
        "at",
        [NEAREST, farthest],
        log=10,
        title="added one-way latency",
        values=values,
        labelExpr=SECONDS,
        grid=False,
    )
    y = quantity(
        "use",
        [0.95, highest],
        title="use of a pooled GPU over a local one",
        values=[1, 1.25, 1.5, 1.75, 2],
        labelExpr=TIMES,
    )
    away: Rows = [{"at": h.one_way, "label": h.name} for h in hops() if h.name in _NAMED]
    dashes: Spec = {
        "field": "adder",
        "type": "nominal",
        "legend": None,
        "scale": {"range": [[1, 0], [6, 3], [2, 2]]},
    }
    layers = [
        marks.rules(away, x, color=FAINT),
        *(
            marks.labels([h], x, -7, color=SOFT, fontSize=10, align=side)
            for h, side in zip(away, ("center", "right", "left"), strict=True)
        ),
        marks.line(
            None, x, y, 2.2, color=MODES[slack.mode], clip=True, encode={"strokeDash": dashes}
        ),
        *marks.haloed(
            marks.labels(starts, x, y, align="left", dx=5, dy=-7, fontSize=10.5, color=INK)
        ),
    ]
    spec = plot(layers, height, (56, 10, 18, 42), rows, HALF)
    uses = {f"use_factor_at_{f:.0%}": 1 + f for f in ADDERS}
    table: Rows = [
        {
            "mode": slack.mode,
            "added_one_way_seconds": float(a),
            "penalty": float(p),
            **{k: p * f for k, f in uses.items()},
        }
        for a, p in zip(grid[::3].tolist(), penalty[::3].tolist(), strict=True)
    ]
    alt = f"{MODE_WORDS[slack.mode]}: " + "; ".join(
        (
            f"at a {h['label']}'s distance "
            f"{factor(break_even_utilisation(slack.penalty(h['at'])))} as well used"
        )
        for h in away
    )
    title = MODE_WORDS[slack.mode][:1].upper() + MODE_WORDS[slack.mode][1:]
    return Figure(f"break-even-{slack.mode}", title, alt, spec, table, half=True)


def figures(answer: Slack) -> list[Figure]:
    """Return run time against added latency, and what pooling must gain to pay for the distance."""
    one_way = answer.one_way()
    return [slack_curve([one_way]), break_even(one_way)]
