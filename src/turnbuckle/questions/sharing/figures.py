"""Maps of latency and bandwidth for runs that share a link: one panel a number of GPUs, one row a
way to put them together.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from turnbuckle.questions.sharing.question import Form
from turnbuckle.questions.sharing.surface import SharingSurface
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FULL, INK, RECORDED, change_colour, change_legend
from turnbuckle.show.figures.marks import (
    SECONDS,
    Rows,
    Spec,
    below,
    beside,
    digits,
    few,
    of,
    quantity,
)
from turnbuckle.show.text import NARROW, factor, number, percent

#: Panels beside each other, at most.
MOST: Final = 4
_GAP, _LEFT, _CELL, _WIDEST = 18, 62, 21, 230
#: Shades for a factor of e, as on the map of slack.
_STEPS: Final = 10.0
#: Cells narrower than this have no room for a number [px].
_ROOM: Final = 21
_RATE: Final = "format(datum.value / 1e9, '~r')"


def shown(surface: SharingSurface) -> list[list[tuple[Form, int]]]:
    """Return the panels by row: one form each, with all its numbers of runs, or the first, the last
    and some between.

    All panels share one row if they fit. One run alone is the same in every form and stands in the
    first row only.
    """
    out: list[list[tuple[Form, int]]] = []
    for form in surface.forms:
        runs = few([k for k in surface.runs if k > 1 or form == surface.forms[0]], MOST)
        if runs:
            out.append([(form, k) for k in runs])
    flat = [panel for row in out for panel in row]
    return [flat] if len(flat) <= MOST else out


def sharing_figure(surface: SharingSurface) -> Figure:
    """Draw the run time of each run over the recorded one, at every point."""
    panels = shown(surface)
    columns = max(len(row) for row in panels)
    width = min((FULL - _LEFT - _GAP * (columns - 1)) / columns, _WIDEST)
    rows = []
    for n, row in enumerate(panels):
        # an axis has its title under the last panel of a column
        last = [all(i >= len(lower) for lower in panels[n + 1 :]) for i in range(len(row))]
        views = [
            _panel(surface, form, k, width, first=i == 0, bottom=last[i])
            for i, (form, k) in enumerate(row)
        ]
        rows.append(beside(views, _GAP))
    spec = below(rows, 16, padding={"left": 4, "right": 8, "top": 4, "bottom": 4})
    changes = [p.shared.penalty - 1.0 for p in surface.points]
    table, legend = [p.as_dict() for p in surface.points], _legend(min(changes), max(changes))
    name = "Runs that share: latency, bandwidth and number of GPUs"
    return Figure("sharing", name, _alt(surface), spec, table, _caption(surface), legend=legend)


def title(form: Form, runs: int, devices: int = 1) -> tuple[str, str]:
    """Return what a panel shows: how many runs, on which GPUs."""
    if runs == 1:
        return "one run", "alone on its link" if devices == 1 else f"its {devices} GPUs on one link"
    return {
        "loose": (
            f"{runs} runs",
            "a GPU each, one link" if devices == 1 else f"{devices} GPUs each, one link",
        ),
        "tight": ("one run", f"GPU {runs}× as large" if devices == 1 else f"GPUs {runs}× as large"),
        "pooled": (
            f"{runs} runs",
            f"one GPU {runs}× as large" if devices == 1 else f"{devices} GPUs {runs}× as large",
        ),
        "shared": (
            f"{runs} runs",
            "one GPU as recorded" if devices == 1 else f"{devices} GPUs as recorded",
        ),
    }[form]


def edges(values: tuple[float, ...]) -> list[float]:
    """Return the edges of an axis's cells: geometric means, since both axes are logarithmic.

    The two outer edges lie half a cell beyond the first and the last value.

    >>> edges((1.0, 4.0))
    [0.5, 2.0, 8.0]
    """
    if len(values) == 1:
        return [values[0] / 2, values[0] * 2]
    middle = [math.sqrt(a * b) for a, b in pairwise(values)]
    return [digits(v) for v in (values[0] ** 2 / middle[0], *middle, values[-1] ** 2 / middle[-1])]


def _panel(
    surface: SharingSurface, form: Form, runs: int, width: float, *, first: bool, bottom: bool
) -> Spec:
    # no latency at all has no place on a logarithmic axis: it is drawn a cell below the shortest
    latencies = tuple(v or _below(surface.latencies) for v in surface.latencies)
    across, up = edges(surface.bandwidths), edges(latencies)
    height = _CELL * len(latencies)
    title_x = f"bandwidth [GB/s]{NARROW}" if bottom else None
    x = quantity(
        "at",
        [across[0], across[-1]],
        log=10,
        title=title_x,
        values=list(surface.bandwidths),
        labelExpr=_RATE,
        grid=False,
    )
    none = (
        f"datum.value < {latencies[0] * 1.01} ? '0' : {SECONDS}"
        if surface.latencies[0] == 0
        else SECONDS
    )
    side: Spec = {
        "title": "latency" if first else None,
        "labels": first,
        "ticks": first,
        "domain": first,
        "labelOverlap": False,
    }
    y = quantity(
        "up", [up[0], up[-1]], log=10, values=list(latencies), labelExpr=none, grid=False, **side
    )
    points: Rows = []
    for p in (p for p in surface.points if (p.shared.form, p.shared.runs) == (form, runs)):
        i, j = surface.bandwidths.index(p.bandwidth), surface.latencies.index(p.latency)
        change = p.shared.penalty - 1.0
        cell = dict(
            a=across[i], b=across[i + 1], c=up[j], d=up[j + 1], at=p.bandwidth, up=latencies[j]
        )
        ink = "#ffffff" if change > 1.2 or change < -0.21 else INK
        tip = (
            f"{number(p.latency, 's')}, {number(p.bandwidth, 'B/s')}: "
            f"{factor(p.shared.penalty, 4)} the recorded run time"
        )
        points.append(
            {
                **cell,
                "colour": change_colour(change, _STEPS),
                "ink": ink,
                "label": _short(p.shared.penalty),
                "tip": tip,
            }
        )
    layers = [
        marks.cells(
            points,
            of(x, "a"),
            of(y, "c"),
            x2="b",
            y2="d",
            tip=True,
            stroke="white",
            strokeWidth=0.8,
        )
    ]
    column = width / len(surface.bandwidths)
    if column >= _ROOM:
        layers.append(marks.labels(points, x, y, hue="ink", fontSize=9.5 if column < 26 else 10.5))
    recorded = surface.run.recorded_bandwidth, surface.run.recorded_latency
    if runs == 1 and across[0] <= recorded[0] <= across[-1] and up[0] <= recorded[1] <= up[-1]:
        layers.append(
            marks.rings([{"at": recorded[0], "up": recorded[1]}], x, y, 190, 2.2, color=RECORDED)
        )
    text, subtitle = title(form, runs, surface.run.devices)
    return {
        "width": width,
        "height": height,
        "title": {"text": text, "subtitle": subtitle},
        "layer": layers,
    }


def _below(latencies: tuple[float, ...]) -> float:
    some = [v for v in latencies if v > 0]
    if len(some) < 2:
        return some[0] / 10 if some else 1e-9
    return some[0] ** 2 / some[1]


def _short(penalty: float) -> str:
    """Format a factor in three or four characters."""
    return (
        f"{penalty:.2f}"
        if penalty < 9.995
        else f"{penalty:.1f}"
        if penalty < 99.95
        else f"{penalty:.0f}"
    )


def _legend(low: float, high: float) -> tuple[tuple[str, str], ...]:
    return change_legend(
        [
            v
            for v in (-0.8, -0.5, -0.3, -0.1, 0.0, 0.05, 0.1, 0.5, 2.0, 10.0)
            if low - 0.05 <= v <= max(high, 0.06)
        ]
    )


def _alt(surface: SharingSurface) -> str:
    ranges = []
    for form in surface.forms:
        worst = max(
            (p for p in surface.points if p.shared.form == form), key=lambda p: p.shared.penalty
        )
        best = min(
            (p for p in surface.points if p.shared.form == form), key=lambda p: p.shared.penalty
        )
        ranges.append(
            f"{form}: from {factor(best.shared.penalty, 3)} to "
            f"{factor(worst.shared.penalty, 3)} the recorded run time"
        )
    return "Run time over latency and bandwidth. " + "; ".join(ranges) + "."


def _caption(surface: SharingSurface) -> str:
    run = surface.run
    anchored = (
        (
            "The cost of a copy beyond its link, and of a delivery beyond the latency, stays as "
            "recorded."
        )
        if surface.law == "anchored"
        else (
            "A copy takes its bytes over the bandwidth, and each delivery the latency, as in "
            "AgoChart."
        )
    )
    axes = (
        f"Run time of each run over the recorded one, {number(run.measured, 's', 4)}. Latency: "
        "from a call to what it starts. "
        f"Ring: the recorded machine, {number(run.recorded_latency, 's')} and "
        f"{number(run.recorded_bandwidth, 'B/s')} ({run.link_from}). "
    )
    limit = ""
    if set(surface.forms) - {"loose"}:
        fewer = (
            " A kernel gains if each multiprocessor gets fewer of its blocks, or fewer rounds of "
            "resident blocks;"
        )
        limit = {
            "full": " Every kernel is assumed to fill the larger GPU, which is the best case.",
            "blocks": (
                f"{fewer} the larger gain is taken. {percent(run.unfilled)} of kernel time has "
                "too few blocks to gain."
            ),
            "rounds": f"{fewer} the smaller gain is taken.",
        }[surface.gain]
        if not run.blocks_known:
            limit = (
                " Thread blocks are unknown: every kernel is assumed to fill the larger GPU, "
                "which is the best case."
            )
    settings = (
        f" {number(surface.hop_seconds, 's')} are added to each copy."
        if surface.hop_seconds
        else ""
    )
    settings += (
        f" A multiprocessor is {surface.speed:g} times as fast as recorded."
        if surface.speed != 1.0
        else ""
    )
    return axes + anchored + settings + limit


def figures(surface: SharingSurface) -> list[Figure]:
    """Return the maps of latency and bandwidth for runs that share a link."""
    return [sharing_figure(surface)]
