"""Figures of cores per GPU: run time against cores with the laws and the answer on them, and
performance against ranks on one GPU.
"""

from __future__ import annotations

import math
import re
from typing import Final

import numpy as np

from turnbuckle.questions.cores import laws
from turnbuckle.questions.cores.answer import Candidate, Cores, apart, between, percent, span
from turnbuckle.questions.cores.fits import Axes, axes
from turnbuckle.questions.cores.oversubscription import Curve
from turnbuckle.questions.cores.replayed import Replayed
from turnbuckle.questions.cores.runs import Runs
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import (
    FAINT,
    FULL,
    INK,
    MODES,
    RECORDED,
    SOFT,
    TARGET_COLOURS,
    ZONES,
)
from turnbuckle.show.figures.marks import PLAIN, Rows, Spec, digits, of, plot, quantity, time_unit
from turnbuckle.show.text import NARROW, clean

_POINTS: Final = 121
_HEIGHT: Final = 300
#: A node is drawn up to this multiple of the most cores measured or answered.
_ROOM: Final = 3.0
_WORDS: Final = {
    "hybrid": "hybrid (eq 5)",
    "exponential": "exponential",
    "usl": "contention",
    "floor": "floor",
}
_DASHES: Final = {
    "hybrid": [7, 3],
    "exponential": [2, 2],
    "usl": [7, 3, 2, 3],
    "floor": [4, 2, 1, 2],
}
_CHOSEN, _OTHER = MODES["link"], FAINT
_BAND: Final = ZONES[1][2]

#: Threads of a rank, one line each; more of them are left out.
_MOST_LINES: Final = 6


def figures(result: list[Cores]) -> list[Figure]:
    """Return two figures a program where there is something to draw: run time against cores,
    performance against ranks.
    """
    out = []
    for k, c in enumerate(result):
        name = re.sub(r"[^a-z0-9]+", "-", c.runs.program.lower())[:40].strip("-")
        tail = "" if len(result) == 1 else f"-{k + 1}" + (f"-{name}" if name else "")
        if c.chosen is not None:
            out.append(cores_figure(c, f"cores{tail}"))
        if c.shared:
            out.append(sharing_figure(c, f"ranks{tail}"))
    return out


def cores_figure(result: Cores, name: str) -> Figure:
    """Draw measured runs, the fitted laws, and the cores for the efficiency with their interval."""
    assert result.chosen is not None
    runs, chosen = result.runs, result.chosen
    most = max(float(runs.cores.max()), min(chosen.cores, 1e6), _node(result)) * 1.06
    fitted = [c for c in result.candidates if not c.fit.missing]
    t_mpi = float(runs.mpi_seconds.mean())
    least = min(1.0, float(runs.cores.min()))
    divisor, unit = time_unit(float(runs.seconds.max()))
    curves: Rows = []
    for c in fitted:
        for n in np.linspace(least, most, _POINTS).tolist():
            seconds = _along(c, n, axes(runs)) + t_mpi
            curves.append(
                {
                    "cores": digits(n),
                    "seconds": digits(seconds),
                    "time": digits(seconds / divisor),
                    "law": c.fit.law.name,
                }
            )
    dots = [{**row, "time": digits(row["seconds"] / divisor)} for row in _measured(runs)]
    floor, wanted = (
        chosen.limit_seconds / divisor,
        chosen.limit_seconds / result.efficiency / divisor,
    )
    top = max(float(runs.seconds.max()) / divisor, wanted) * 1.06
    low = max(0.0, floor - (top - floor) * 0.14)
    x0 = least - (most - least) * 0.02
    x = quantity(
        "cores", [x0, most], title="CPU cores per GPU", grid=False, tickMinStep=1, labelExpr=PLAIN
    )
    title = f"{'time of a unit of work' if runs.throughput else 'run time'} [{unit}]"
    y = quantity("time", [low, top], title=title, labelExpr=PLAIN)
    interval: Rows = [
        {"cores": digits(max(result.low, least)), "to": digits(min(result.high, most))}
    ]
    answered = span(result.cores, result.low, result.high)
    if result.few or result.missed:
        answered = between(result.low, result.high, most)
    sentence = f"{answered} cores for {percent(result.efficiency)}"
    place: Rows = [{"cores": digits(result.cores), "label": sentence}]
    # the answer's words stand on the side that has more room
    right = result.cores < least + (most - least) * 0.55
    pixels = (FULL - 78) / (most - x0)
    rising = _along(chosen, most, axes(runs)) > _along(chosen, least, axes(runs))
    legend_ends = (
        (max(result.low, least) - x0) * pixels - 12
        if not right
        else (result.cores - x0) * pixels + 216
        if rising
        else FULL - 78
    )
    side: Spec = {"align": "left", "dx": 8} if right else {"align": "right", "dx": -8}
    layers = [
        marks.cells(interval, x, None, x2="to", color=_BAND),
        *_law_layers(curves, fitted, chosen, x, y),
        marks.rules(place, x, width=1.3, color=INK, strokeDash=[4, 3]),
        marks.labels(place, x, 10, fontSize=12, fontWeight="bold", color=INK, **side),
        marks.points(dots, x, y, 42, edge=2, tip=True, color=RECORDED, opacity=0.85),
        *_node_layers(result, x),
        # names in front of what would cross them
        *_level(wanted, f"{percent(result.efficiency)} efficiency", x, y, most, -7),
        *_level(floor, "shortest by the law", x, y, most, 9),
        *_legend_layers(fitted, chosen, legend_ends, 0 if legend_ends == FULL - 78 else 1),
    ]
    spec = plot(layers, _HEIGHT, (64, 14, 20, 44))
    table = [
        {"cores_per_gpu": r["cores"], "seconds": r["seconds"], "what": "measured"} for r in dots
    ]
    table += [
        {"cores_per_gpu": r["cores"], "seconds": r["seconds"], "what": r["law"]} for r in curves
    ]
    answer = clean(result.sentence()).replace(" %", f"{NARROW}%")
    split = (
        "; with ranks and threads, the best split of so many cores"
        if any(c.ranks is not None for c in result.counts)
        else ""
    )
    caption = (
        f"{answer}. Dots: runs. Thick line: the law behind the answer{split}. Shaded: 90{NARROW}% "
        "interval."
    )
    return Figure(name, "Run time against CPU cores per GPU", answer, spec, table, caption)


def _along(c: Candidate, cores: float, varies: Axes) -> float:
    """Return run time without MPI by a law; eq 5 with its best split."""
    values = c.fit.values
    ranks = varies.ranks[0]
    if c.fit.law.name == "hybrid":
        ranks = float(
            laws.best_ranks(cores, values[0, 1], values[0, 2], varies.ranks, varies.threads)
        )
    return float(c.fit.law.seconds(values, np.asarray(ranks), np.asarray(cores / ranks)).ravel()[0])


def _measured(runs: Runs) -> Rows:
    return [
        {
            "cores": digits(float(n)),
            "seconds": digits(float(s), 6),
            "tip": clean(
                f"{label}: {s:.4g} s"
                + (f" with {r:g} ranks x {t:g} threads" if runs.split else f" with {n:g} cores")
            ),
        }
        for n, s, r, t, label in zip(
            runs.cores, runs.seconds, runs.ranks, runs.threads, runs.labels, strict=True
        )
    ]


def _node(result: Cores) -> float:
    """Return the cores per GPU of the node asked about, where the figure has room for it; else
    0.
    """
    near = result.have is not None and result.have.cores <= _ROOM * max(
        float(result.runs.cores.max()), result.cores
    )
    return result.have.cores if result.have is not None and near else 0.0


def _node_layers(result: Cores, x: Spec) -> list[Spec]:
    """Draw the ratio that a node has."""
    if not (cores := _node(result)):
        return []
    rows: Rows = [{"cores": digits(cores), "label": f"this node: {cores:.3g}"}]
    name = marks.labels(rows, x, _HEIGHT - 8, align="right", dx=-6, fontSize=11, color=RECORDED)
    return [marks.rules(rows, x, 26, 1.6, y2=_HEIGHT, color=RECORDED), *marks.haloed(name)]


def _level(time: float, label: str, x: Spec, y: Spec, most: float, below: int) -> list[Spec]:
    """Draw a level line with its name at the right end, `below` it by so many pixels."""
    rows: Rows = [{"time": digits(time, 6), "cores": digits(most), "label": label}]
    name = marks.labels(rows, x, y, align="right", dy=below, fontSize=10, color=SOFT)
    return [marks.rules(rows, None, y, 0.8, color=SOFT, strokeDash=[1, 3]), *marks.haloed(name)]


def _look(c: Candidate, chosen: Candidate) -> tuple[float, Spec]:
    """Return width, colour and dashes of a law's line."""
    if c is chosen:
        return 2.6, {"color": _CHOSEN}
    return 1.2, {"color": _OTHER, "strokeDash": _DASHES[c.fit.law.name]}


def _law_layers(
    curves: Rows, fitted: list[Candidate], chosen: Candidate, x: Spec, y: Spec
) -> list[Spec]:
    """Draw the laws, the one behind the answer in front."""
    out: list[Spec] = []
    for c in sorted(fitted, key=lambda c: c is chosen):
        width, look = _look(c, chosen)
        out.append(
            marks.line(
                [r for r in curves if r["law"] == c.fit.law.name], x, y, width, clip=True, **look
            )
        )
    return out


def _legend_layers(
    fitted: list[Candidate], chosen: Candidate, right: float, row: int
) -> list[Spec]:
    """Name the laws, with their distance from the best, left of a pixel and below so many rows."""
    out: list[Spec] = []
    for k, c in enumerate(fitted):
        y = 34 + 16 * (k + row)
        width, look = _look(c, chosen)
        out.append(marks.rules([{}], right - 208, y, width, x2=right - 180, **look))
        label = f"{_WORDS[c.fit.law.name]}: {apart(c)} AICc"
        out.append(
            marks.words(
                label, right - 172, y, align="left", fontSize=11, color=INK if c is chosen else SOFT
            )
        )
    return out


def sharing_figure(result: Cores, name: str) -> Figure:
    """Draw performance against ranks on one GPU, one line for each number of threads, ringed where
    one more stops paying.
    """
    shown = result.shared[:_MOST_LINES]
    most = max(s.ranks for c in shown for s in c.steps)
    least = min(c.steps[0].ranks for c in shown)
    rows: Rows = []
    ends: Rows = []
    ringed: Rows = []
    dots: Rows = []
    for k, c in enumerate(shown):
        colour = TARGET_COLOURS[k]
        rows += [
            {"ranks": s.ranks, "performance": digits(s.performance), "colour": colour}
            for s in c.steps
        ]
        ringed += [
            {**r, "tip": clean(_ring(c))} for r in rows[-len(c.steps) :] if r["ranks"] == c.ranks
        ]
        ends.append({**rows[-1], "label": _ring(c)})
        dots += _runs_of(result.runs, c, colour)
    low, high = (edge(r["performance"] for r in dots) for edge in (min, max))
    _apart(ends, high - low)
    room = max(high - low, 0.05) * 0.12
    counts = sorted({s.ranks for c in shown for s in c.steps})
    x = quantity(
        "ranks",
        [least / 1.06, most * 1.06],
        log=2,
        title="MPI ranks on one GPU",
        values=counts,
        labelExpr=PLAIN,
        grid=False,
    )
    title, times = "performance against the fewest ranks", "format(datum.value, '.3~r') + '×'"
    y = quantity(
        "performance",
        [low - room, high + room],
        scale={"zero": False},
        title=title,
        labelExpr=times,
    )
    layers = [marks.mark("point", dots, x, y, filled=True, size=22, opacity=0.4)]
    for colour in TARGET_COLOURS[: len(shown)]:
        dotted = {"filled": True, "size": 34, "color": colour}
        layers.append(
            marks.line(
                [r for r in rows if r["colour"] == colour], x, y, 2.2, color=colour, point=dotted
            )
        )
    layers.append(marks.rings(ringed, x, y, 190, 2, tip=True, opacity=0.7))
    layers.append(marks.labels(ends, x, of(y, "at"), align="left", dx=14, fontSize=11, color=INK))
    spec = plot(layers, _HEIGHT, (64, 270, 20, 44))
    columns = ("seconds", "performance", "gain", "low", "high")
    table = [
        {
            "threads": c.threads,
            "ranks_per_gpu": s.ranks,
            **{name: getattr(s, name) for name in columns},
        }
        for c in result.shared
        for s in c.steps
    ]
    alt = "; ".join(_ring(c) for c in shown)
    whose = f"{clean(result.runs.program)}. " if result.runs.program else ""
    left_out = (
        f" {len(result.shared) - len(shown)} more numbers of threads are in the CSV file."
        if len(result.shared) > len(shown)
        else ""
    )
    worth = percent(shown[0].worth)
    caption = (
        f"{whose}Ringed: the last step that gains {worth} or more. Dots: runs. Lines: their "
        f"geometric means.{left_out}"
    )
    return Figure(name, "Performance against ranks on one GPU", alt, spec, table, caption)


def _ring(c: Curve) -> str:
    each = f"{c.threads:g} thread{'' if c.threads == 1 else 's'} per rank: "
    doubt = "" if c.low is None or c.low == c.high else f" ({c.low:g} to {c.high:g})"
    last = ", most measured" if c.ranks == c.steps[-1].ranks else ""
    return each + (
        f"up to {c.ranks:g}{last}{doubt}" if c.ranks != c.steps[0].ranks else f"does not pay{doubt}"
    )


def _runs_of(runs: Runs, c: Curve, colour: str) -> Rows:
    some = runs.threads == c.threads
    start = c.steps[0].seconds
    return [
        {"ranks": digits(float(r)), "performance": digits(start / float(s)), "colour": colour}
        for r, s in zip(runs.ranks[some], runs.seconds[some], strict=True)
    ]


def _apart(ends: Rows, reach: float) -> None:
    """Move names at the ends of lines apart until none stands on another."""
    gap = max(reach, 0.05) * 0.062
    under = -math.inf
    for row in sorted(ends, key=lambda r: r["performance"]):
        row["at"] = under = max(row["performance"], under + gap)


def bounds_figure(answer: Replayed) -> Figure:
    """Draw the two bounds of one recording's run time over the number of cores, and the speed that
    is to be kept.
    """
    rows: Rows = []
    for c in answer.counts:
        low, high = c.least_seconds / answer.seconds, c.most_seconds / answer.seconds
        tip = (
            f"{c.cores} core{'s' * (c.cores != 1)}: {low:.3f} to {high:.3f} times the recorded "
            "run time"
        )
        rows.append({"cores": c.cores, "least": digits(low), "most": digits(high), "tip": tip})
    allowed, last = 1 / answer.efficiency, answer.counts[-1].cores
    top, bottom = max(allowed, *(r["most"] for r in rows)), min(1.0, *(r["least"] for r in rows))
    room = 0.06 * max(top - bottom, 0.1)
    side = 0.03 * max(last - 1, 1)
    x = quantity(
        "cores",
        [1 - side, last + side],
        title="CPU cores",
        grid=False,
        tickMinStep=1,
        labelExpr=PLAIN,
    )
    y = quantity(
        "time", [bottom - room, top + room], title="run time over the recorded one", labelExpr=PLAIN
    )
    kept = [{"cores": n} for n in dict.fromkeys((answer.fewest, answer.enough)) if n is not None]
    layers = [
        marks.band(rows, x, y, "least", "most", color=_CHOSEN, opacity=0.2),
        *(marks.rules(kept, x, width=1.0, color=INK, strokeDash=[4, 3]) for _ in kept[:1]),
        *(marks.line(rows, x, of(y, end), 2.2, color=_CHOSEN) for end in ("least", "most")),
        *(
            marks.points(rows, x, of(y, end), 30, tip=True, color=_CHOSEN)
            for end in ("least", "most")
        ),
        *_level(allowed, f"{percent(answer.efficiency)} of the recorded speed", x, y, last, -7),
    ]
    caption = (
        "Lower line: no thread ever waits for a core that is free. Upper line: while threads "
        "share cores, all stands still, the GPU as "
        "well. It lies between them. Dashed: the fewest cores with which the speed can be kept, "
        "and with which it surely is."
    )
    table = [{**c.as_dict(), "recorded_seconds": answer.seconds} for c in answer.counts]
    title = answer.headline().removeprefix("Cores: ")
    alt = f"{title}. " + " ".join(f"{r['tip']}." for r in rows[:60])
    return Figure(
        "cores",
        title[:1].upper() + title[1:],
        alt,
        plot(layers, _HEIGHT, (64, 14, 20, 44)),
        table,
        caption,
    )


def of_one(answer: Cores) -> list[Figure]:
    """Return the figures of one program."""
    return figures([answer])
