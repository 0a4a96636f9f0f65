"""Figures of a sparse triangular solve: run time over the number of GPUs, and the parts of its
longest path.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from turnbuckle.papers.models.dag.question import Solves
from turnbuckle.papers.models.dag.tasks import Run, What
from turnbuckle.papers.models.dag.tiers import TIERS
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FAINT, FULL, INK, RECORDED, SOFT
from turnbuckle.show.figures.marks import (
    SECONDS,
    Rows,
    Spec,
    digits,
    log_share,
    of,
    plot,
    quantity,
    stack,
)
from turnbuckle.show.text import NARROW, clean, factor, number, percent, seconds, shorten

COLOURS: Final[dict[What, str]] = {
    "as is": RECORDED,
    "integrated": "#117733",
    "disaggregated": "#b3450b",
    "super-GPU": "#332288",
}
_DASHES: Final[dict[What, list[int]]] = {
    "as is": [1, 0],
    "integrated": [7, 3],
    "disaggregated": [2, 2],
    "super-GPU": [8, 3, 2, 3],
}
#: Parts of a path: computing, then messages by tier, the farther the warmer.
PARTS: Final = {
    "computing": "#1f4e79",
    "dependency": "#8a94a0",
    "socket": "#7fb3c8",
    "node": "#c9971c",
    "network": "#bf4f22",
}
_LEFT: Final = 66
#: Room right of the lines for their names, and the height of one [px].
_NAMES: Final = 214
_LINE: Final = 15
#: Room for the number of GPUs below an axis [px], and bars that have it above them.
_TICK: Final = 24
_MOST_NUMBERED: Final = 36
_WORDS: Final = {
    "computing": "computing",
    "dependency": "waits inside a GPU",
    "socket": "messages in a socket",
    "node": "messages in a node",
    "network": "messages between nodes",
}


def figures(solves: Solves) -> list[Figure]:
    """Return both figures."""
    return [run_times(solves), path_parts(solves)]


def run_times(solves: Solves) -> Figure:
    """Draw run time over the number of GPUs, one line for each variant, with the sweet spots."""
    height = 300
    counts = sorted({run.gpus for run in solves.runs})
    times = [run.seconds for run in solves.runs if run.seconds > 0] or [1.0]
    ends = [counts[0] * 0.93, max(counts[-1], 2) * 1.08]
    x = quantity(
        "gpus",
        ends,
        log=2,
        title="GPUs",
        values=_ticks(counts),
        grid=False,
        labelOverlap="greedy",
        format="~r",
    )
    domain = [min(times) / 1.25, max(times) * 1.25]
    y = quantity(
        "seconds", domain, log=10, title="run time", labelExpr=SECONDS, values=_steps(*domain)
    )
    lines: list[Spec] = []
    for variant in solves.variants:
        rows = [
            {"gpus": run.gpus, "seconds": digits(run.seconds)}
            for run in solves.of(variant.what)
            if run.seconds > 0
        ]
        look: Spec = {"color": COLOURS[variant.what], "strokeDash": _DASHES[variant.what]}
        lines.append(marks.line(rows, x, y, 2.4, strokeJoin="round", clip=True, **look))
    layers = [
        *_nodes(solves, counts, x),
        *lines[::-1],
        *_spots(solves, x, y),
        *_names(solves, domain, height),
    ]
    spec = plot(layers, height, (_LEFT, _NAMES, 20, 42))
    table = [{**run.as_dict(), "matrix": clean(solves.name)} for run in solves.runs]
    best = {v.what: solves.best(v.what) for v in solves.variants}
    alt = "Run time over the number of GPUs. " + " ".join(
        f"{name}: fastest on {_gpus(run)}, {number(run.seconds, 's')}."
        for name, run in best.items()
    )
    name = shorten(clean(solves.name), 40)
    caption = (
        f"{name} on {clean(solves.fabric.title)}. Dots: the fastest count of each line. Both "
        "axes are logarithmic. "
    ) + " ".join(f"{v.what[:1].upper()}{v.what[1:]}: {v.words}." for v in solves.variants[1:])
    return Figure("solve-run-time", "Run time over the number of GPUs", alt, spec, table, caption)


def _ticks(counts: list[int]) -> list[int]:
    """Return the counts that have room on a logarithmic axis."""
    out: list[int] = []
    apart = max(counts[-1] / counts[0], 2.0) ** (_TICK / (FULL - _LEFT - _NAMES))
    for count in counts:
        if not out or count >= out[-1] * apart:
            out.append(count)
    return out


def _steps(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten on an axis, or powers alone where there are many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    each = (1, 2, 5) if high < 1e3 * low else (1,)
    return [digits(m * 10.0**k) for k in decades for m in each if low <= m * 10.0**k <= high]


def _nodes(solves: Solves, counts: list[int], x: Spec) -> list[Spec]:
    node = solves.fabric.gpus_per_node
    if not counts[0] <= node < counts[-1]:
        return []
    rows: Rows = [{"gpus": node, "label": f"one node: {node}"}]
    name = marks.labels(rows, x, -9, align="center", fontSize=10, color=SOFT)
    return [marks.rules(rows, x, color=FAINT, strokeDash=[3, 3]), name]


def _spots(solves: Solves, x: Spec, y: Spec) -> list[Spec]:
    rows: Rows = []
    for variant in solves.variants:
        run = solves.best(variant.what)
        if run.seconds > 0:
            tip = f"{variant.what}: fastest on {_gpus(run)}, {number(run.seconds, 's')}"
            rows.append(
                {
                    "gpus": run.gpus,
                    "seconds": digits(run.seconds),
                    "colour": COLOURS[variant.what],
                    "tip": tip,
                }
            )
    return [marks.points(rows[::-1], x, y, 70, 1.3, tip=True)]


def _names(solves: Solves, domain: list[float], height: float) -> list[Spec]:
    """Write names at the right ends of the lines, in the lines' order, apart from each other."""
    ends: Rows = []
    for variant in solves.variants:
        last, best = solves.of(variant.what)[-1], solves.best(variant.what)
        share = log_share(max(last.seconds, domain[0]), *domain)
        label = f"{variant.what}: best {number(best.seconds, 's')} on {best.gpus}"
        ends.append({"y": height * (1.0 - share), "label": label, "colour": COLOURS[variant.what]})
    ends.sort(key=lambda row: row["y"])
    for above, row in pairwise(ends):
        row["y"] = max(row["y"], above["y"] + _LINE)
    for row, below in pairwise(ends[::-1]):
        row["y"] = min(row["y"], height)
        below["y"] = min(below["y"], row["y"] - _LINE)
    look: Spec = {"align": "left", "baseline": "middle", "fontSize": 11, "fontWeight": "bold"}
    return [
        marks.words(row["label"], FULL - _LEFT - _NAMES + 10, row["y"], color=row["colour"], **look)
        for row in ends
    ]


def path_parts(solves: Solves) -> Figure:
    """Draw the parts of the longest path at each number of GPUs."""
    runs = solves.of("as is")
    parts: Rows = []
    for run in runs:
        for part in stack((spent, {"name": name}) for name, spent in _parts(run).items()):
            name = part["name"]
            tip = f"{_gpus(run)}: {_WORDS[name]} {number(_parts(run)[name], 's')}"
            parts.append(
                {
                    "gpus": str(run.gpus),
                    "low": part["from"],
                    "high": part["to"],
                    "colour": PARTS[name],
                    "tip": tip,
                }
            )
    axis = {
        "title": "GPUs",
        "labelAngle": 0,
        "labelOverlap": "parity",
        "labelSeparation": 4,
        "grid": False,
    }
    x: Spec = {"field": "gpus", "type": "ordinal", "sort": None, "axis": axis}
    y = quantity(
        "low",
        scale={"nice": False, "zero": True},
        title="longest path",
        labelExpr=SECONDS,
        tickCount=5,
    )
    numbered = runs if len(runs) <= _MOST_NUMBERED else []
    counts: Rows = [
        {"gpus": str(run.gpus), "high": run.path_seconds, "label": f"{run.path_messages:,}"}
        for run in numbered
    ]
    layers = [
        marks.bars(parts, x, y, y2="high", tip=True, width={"band": min(1.0, len(runs) / 8)}),
        marks.labels(counts, x, of(y, "high"), dy=-7, fontSize=10, color=INK),
    ]
    spec = plot(layers, 220, (_LEFT, 22, 20, 42))
    table = [
        {
            "variant": run.what,
            "gpus": run.gpus,
            **{f"{k}_seconds": v for k, v in _parts(run).items()},
        }
        for run in runs
    ]
    alt = "What the longest path of the solve is made of. " + " ".join(
        f"{_gpus(run)}: {seconds(run.path_seconds)}, {percent(_share(run))} of it messages."
        for run in runs
    )
    slowest, best = max(runs, key=lambda run: run.path_seconds), solves.best("as is")
    caption = "On the machine as it is." + (
        " Above each bar: messages on the path." if numbered else ""
    )
    if slowest.path_seconds > best.path_seconds > 0:
        caption += (
            f" On {_gpus(slowest)} the path is longest, "
            f"{factor(slowest.path_seconds / best.path_seconds)} that of the sweet spot."
        )
    legend = tuple(
        (_WORDS[name], colour)
        for name, colour in PARTS.items()
        if any(_parts(run)[name] for run in runs)
    )
    return Figure(
        "solve-path", "What the longest path is made of", alt, spec, table, caption, legend=legend
    )


def _parts(run: Run) -> dict[str, float]:
    messages = {name: run.message_seconds[name] for name in TIERS[1:]}
    return {"computing": run.compute_seconds, "dependency": run.dependency_seconds, **messages}


def _gpus(run: Run) -> str:
    return f"{run.gpus}{NARROW}GPU{'s' * (run.gpus > 1)}"


def _share(run: Run) -> float:
    return sum(run.message_seconds.values()) / run.path_seconds if run.path_seconds else 0.0
