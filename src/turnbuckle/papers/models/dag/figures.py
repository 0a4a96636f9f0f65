"""Figures of a sparse triangular solve: run time over the number of GPUs, and the parts of its longest path."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from turnbuckle.papers.models.dag.question import Solves
from turnbuckle.papers.models.dag.tasks import Run, What
from turnbuckle.papers.models.dag.tiers import TIERS
from turnbuckle.questions.distance.figures import SECONDS, digits
from turnbuckle.show.figures.charts import Rows, Spec, layer, own_colour, quantitative
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FAINT, FULL, INK, RECORDED, SOFT
from turnbuckle.show.text import NARROW, clean, factor, number, percent, seconds, shorten

COLOURS: Final[dict[What, str]] = {"as is": RECORDED, "integrated": "#117733", "disaggregated": "#b3450b", "super-GPU": "#332288"}
_DASHES: Final[dict[What, list[int]]] = {"as is": [1, 0], "integrated": [7, 3], "disaggregated": [2, 2], "super-GPU": [8, 3, 2, 3]}
#: Colours of the parts of a path: computing, then messages by tier, warmer with distance.
PARTS: Final = {"computing": "#1f4e79", "dependency": "#8a94a0", "socket": "#7fb3c8", "node": "#c9971c", "network": "#bf4f22"}
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
    """Draw the run time over the number of GPUs, one line per variant, with the sweet spots."""
    height = 300
    counts = sorted({run.gpus for run in solves.runs})
    times = [run.seconds for run in solves.runs if run.seconds > 0] or [1.0]
    x: Spec = {
        "scale": {"type": "log", "base": 2, "domain": [counts[0] * 0.93, max(counts[-1], 2) * 1.08], "nice": False},
        "axis": {"title": "GPUs", "values": _ticks(counts), "grid": False, "labelOverlap": "greedy", "format": "~r"},
    }
    domain = [min(times) / 1.25, max(times) * 1.25]
    y: Spec = {
        "scale": {"type": "log", "domain": domain, "nice": False},
        "axis": {"title": "run time", "labelExpr": SECONDS, "values": _steps(*domain)},
    }
    at_x, at_y = quantitative("gpus", **x), quantitative("seconds", **y)
    lines: list[Spec] = []
    for variant in solves.variants:
        runs = [run for run in solves.of(variant.what) if run.seconds > 0]
        colour, dash = COLOURS[variant.what], _DASHES[variant.what]
        mark = {"type": "line", "color": colour, "strokeWidth": 2.4, "strokeDash": dash, "strokeJoin": "round", "clip": True}
        rows = [{"gpus": run.gpus, "seconds": digits(run.seconds)} for run in runs]
        lines.append({"data": {"values": rows}, "mark": mark, "encoding": {"x": at_x, "y": at_y}})
    drawn = [*_nodes(solves, counts, at_x), *lines[::-1], *_spots(solves, at_x, at_y), *_names(solves, domain, height)]
    spec = layer(*drawn, height=height, left=_LEFT, right=_NAMES, top=20, bottom=42)
    records = [{**run.as_dict(), "matrix": clean(solves.supernodes.triangle.name)} for run in solves.runs]
    best = {v.what: solves.best(v.what) for v in solves.variants}
    alt = "Run time of a sparse triangular solve over the number of GPUs. " + " ".join(
        f"{name}: fastest on {_gpus(run)}, {number(run.seconds, 's')}." for name, run in best.items()
    )
    name = shorten(clean(solves.supernodes.triangle.name), 40)
    caption = f"{name} on {clean(solves.fabric.title)}. Dots: the fastest count of each line. Both axes are logarithmic. " + " ".join(
        f"{v.what[:1].upper()}{v.what[1:]}: {v.words}." for v in solves.variants[1:]
    )
    return Figure("solve-run-time", "Run time over the number of GPUs", alt, spec, records, caption)


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
    multiples = (1, 2, 5) if high < 1e3 * low else (1,)
    return [digits(m * 10.0**k) for k in decades for m in multiples if low <= m * 10.0**k <= high]


def _nodes(solves: Solves, counts: list[int], at_x: Spec) -> list[Spec]:
    """Mark where one node ends."""
    node = solves.fabric.gpus_per_node
    if not counts[0] <= node < counts[-1]:
        return []
    data = {"values": [{"gpus": node, "label": f"one node: {node}"}]}
    text = {"type": "text", "align": "center", "y": -9, "fontSize": 10, "color": SOFT}
    return [
        {"data": data, "mark": {"type": "rule", "color": FAINT, "strokeDash": [3, 3], "strokeWidth": 1}, "encoding": {"x": at_x}},
        {"data": data, "mark": text, "encoding": {"x": at_x, "text": {"field": "label"}}},
    ]


def _spots(solves: Solves, at_x: Spec, at_y: Spec) -> list[Spec]:
    """Mark the lowest point of each line."""
    rows: Rows = []
    for variant in solves.variants:
        run = solves.best(variant.what)
        if run.seconds > 0:
            tip = f"{variant.what}: fastest on {_gpus(run)}, {number(run.seconds, 's')}"
            rows.append({"gpus": run.gpus, "seconds": digits(run.seconds), "colour": COLOURS[variant.what], "tip": tip})
    point = {"type": "point", "filled": True, "size": 70, "stroke": "white", "strokeWidth": 1.3, "opacity": 1, "aria": True}
    encoding = {"x": at_x, "y": at_y, "fill": own_colour(), "description": {"field": "tip"}}
    return [{"data": {"values": rows[::-1]}, "mark": point, "encoding": encoding}]


def _names(solves: Solves, domain: list[float], height: float) -> list[Spec]:
    """Write the names at the right ends of the lines, in the order of the lines, apart from each other."""
    ends: Rows = []
    for variant in solves.variants:
        last, best = solves.of(variant.what)[-1], solves.best(variant.what)
        share = math.log(max(last.seconds, domain[0]) / domain[0]) / math.log(domain[1] / domain[0])
        words = f"{variant.what}: best {number(best.seconds, 's')} on {best.gpus}"
        ends.append({"y": height * (1.0 - share), "label": words, "colour": COLOURS[variant.what]})
    ends.sort(key=lambda row: row["y"])
    for above, row in pairwise(ends):
        row["y"] = max(row["y"], above["y"] + _LINE)
    for row, below in pairwise(ends[::-1]):
        row["y"] = min(row["y"], height)
        below["y"] = min(below["y"], row["y"] - _LINE)
    text = {"type": "text", "align": "left", "baseline": "middle", "fontSize": 11, "fontWeight": "bold"}
    return [
        {
            "data": {"values": [row]},
            "mark": {**text, "x": FULL - _LEFT - _NAMES + 10, "y": row["y"], "color": row["colour"]},
            "encoding": {"text": {"field": "label"}},
        }
        for row in ends
    ]


def path_parts(solves: Solves, what: What = "as is") -> Figure:
    """Draw the parts of the longest path at each number of GPUs."""
    left, right, height = _LEFT, 22, 220
    runs = solves.of(what)
    parts: Rows = []
    for run in runs:
        below = 0.0
        for name, spent in _parts(run).items():
            tip = f"{_gpus(run)}: {_WORDS[name]} {number(spent, 's')}"
            parts.append({"gpus": str(run.gpus), "low": below, "high": below + spent, "colour": PARTS[name], "tip": tip})
            below += spent
    x: Spec = {
        "field": "gpus",
        "type": "ordinal",
        "sort": None,
        "axis": {"title": "GPUs", "labelAngle": 0, "labelOverlap": "parity", "labelSeparation": 4, "grid": False},
    }
    y: Spec = {"axis": {"title": "longest path", "labelExpr": SECONDS, "tickCount": 5}, "scale": {"nice": False, "zero": True}}
    numbered = runs if len(runs) <= _MOST_NUMBERED else []
    labels: Rows = [{"gpus": str(run.gpus), "high": run.path_seconds, "label": f"{run.path_messages:,}"} for run in numbered]
    spec = layer(
        {
            "data": {"values": parts},
            "mark": {"type": "bar", "aria": True, "width": {"band": min(1.0, len(runs) / 8)}},
            "encoding": {
                "x": x,
                "y": quantitative("low", **y),
                "y2": {"field": "high"},
                "fill": own_colour(),
                "description": {"field": "tip"},
            },
        },
        {
            "data": {"values": labels},
            "mark": {"type": "text", "dy": -7, "fontSize": 10, "color": INK},
            "encoding": {"x": x, "y": quantitative("high", **y), "text": {"field": "label"}},
        },
        height=height,
        left=left,
        right=right,
        top=20,
        bottom=42,
    )
    records = [{"variant": run.what, "gpus": run.gpus, **{f"{k}_seconds": v for k, v in _parts(run).items()}} for run in runs]
    alt = "What the longest path of the solve is made of. " + " ".join(
        f"{_gpus(run)}: {seconds(run.path_seconds)}, {percent(_share(run))} of it messages." for run in runs
    )
    slowest, best = max(runs, key=lambda run: run.path_seconds), solves.best(what)
    machine = "On the machine as it is" if what == "as is" else f"On the machine {what}"
    caption = f"{machine}." + (" Above each bar: messages on the path." if numbered else "")
    if slowest.path_seconds > best.path_seconds > 0:
        caption += f" On {_gpus(slowest)} the path is longest, {factor(slowest.path_seconds / best.path_seconds)} that of the sweet spot."
    legend = tuple((_WORDS[name], colour) for name, colour in PARTS.items() if any(_parts(run)[name] for run in runs))
    return Figure("solve-path", "What the longest path is made of", alt, spec, records, caption, legend=legend)


def _parts(run: Run) -> dict[str, float]:
    messages = {name: run.message_seconds[name] for name in TIERS[1:]}
    return {"computing": run.compute_seconds, "dependency": run.dependency_seconds, **messages}


def _gpus(run: Run) -> str:
    return f"{run.gpus}{NARROW}GPU{'s' * (run.gpus > 1)}"


def _share(run: Run) -> float:
    return sum(run.message_seconds.values()) / run.path_seconds if run.path_seconds else 0.0
