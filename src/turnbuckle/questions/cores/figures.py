"""Figures of cores per GPU: run time against cores with the laws and the answer on them, and performance against ranks on one GPU."""

from __future__ import annotations

import math
import re
from typing import Final

import numpy as np

from turnbuckle.questions.cores import laws
from turnbuckle.questions.cores.answer import Candidate, Cores, percent, span
from turnbuckle.questions.cores.fits import Axes, axes
from turnbuckle.questions.cores.oversubscription import Curve
from turnbuckle.questions.cores.runs import Runs
from turnbuckle.questions.distance.figures import digits
from turnbuckle.show.figures.charts import Rows, Spec, layer, own_colour, quantitative, time_unit
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FAINT, FULL, INK, MODES, RECORDED, SOFT, TARGET_COLOURS, ZONES
from turnbuckle.show.text import NARROW, clean

_POINTS: Final = 121
_HEIGHT: Final = 300
#: A node is drawn up to this multiple of the most cores measured or answered.
_ROOM: Final = 3.0
_WORDS: Final = {"hybrid": "hybrid (eq 5)", "exponential": "exponential", "usl": "contention"}
_CHOSEN, _OTHER = MODES["link"], FAINT
_BAND: Final = ZONES[1][2]
#: Labels of an axis; a format of its own would write 200 as 2e+2.
_PLAIN: Final = "format(datum.value, ',~r')"
#: Threads of a rank, one line each; more of them are left out.
_MOST_LINES: Final = 6


def figures(found: list[Cores]) -> list[Figure]:
    """Two figures a program where there is something to draw: run time against cores, performance against ranks."""
    out = []
    for k, c in enumerate(found):
        name = re.sub(r"[^a-z0-9]+", "-", c.runs.program.lower())[:40].strip("-")
        tail = "" if len(found) == 1 else f"-{k + 1}" + (f"-{name}" if name else "")
        if c.chosen is not None:
            out.append(cores_figure(c, f"cores{tail}"))
        if c.shared:
            out.append(sharing_figure(c, f"ranks{tail}"))
    return out


def cores_figure(found: Cores, name: str) -> Figure:
    """Measured runs, the fitted laws, and the cores for the efficiency with their interval."""
    assert found.chosen is not None
    runs, chosen = found.runs, found.chosen
    most = max(float(runs.cores.max()), min(chosen.cores, 1e6), _node(found)) * 1.06
    fitted = [c for c in found.candidates if not c.fit.missing]
    t_mpi = float(runs.mpi_seconds.mean())
    least = min(1.0, float(runs.cores.min()))
    divisor, unit = time_unit(float(runs.seconds.max()))
    lines: Rows = []
    for c in fitted:
        for n in np.linspace(least, most, _POINTS).tolist():
            seconds = _along(c, n, axes(runs)) + t_mpi
            lines.append({"cores": digits(n), "seconds": digits(seconds), "time": digits(seconds / divisor), "law": c.fit.law.name})
    points = [{**row, "time": digits(row["seconds"] / divisor)} for row in _measured(runs)]
    floor, line = chosen.limit_seconds / divisor, chosen.limit_seconds / found.efficiency / divisor
    top = max(float(runs.seconds.max()) / divisor, line) * 1.06
    low = max(0.0, floor - (top - floor) * 0.14)
    x0 = least - (most - least) * 0.02
    x: Spec = {"scale": {"domain": [x0, most], "nice": False}}
    y: Spec = {"scale": {"domain": [low, top], "nice": False}}
    xaxis: Spec = {"title": "CPU cores per GPU", "grid": False, "tickMinStep": 1, "labelExpr": _PLAIN}
    title = f"{'time of a unit of work' if runs.throughput else 'run time'} [{unit}]"
    yaxis: Spec = {"title": title, "labelExpr": _PLAIN}
    at_x, at_y = quantitative("cores", axis=xaxis, **x), quantitative("time", axis=yaxis, **y)
    band = [{"cores": digits(max(found.low, least)), "to": digits(min(found.high, most))}]
    words = f"{span(found.cores, found.low, found.high)} cores for {percent(found.efficiency)}"
    # the answer's words stand on the side that has more room
    right = found.cores < least + (most - least) * 0.55
    pixels = (FULL - 78) / (most - x0)
    rising = _along(chosen, most, axes(runs)) > _along(chosen, least, axes(runs))
    legend_ends = (max(found.low, least) - x0) * pixels - 12 if not right else (found.cores - x0) * pixels + 216 if rising else FULL - 78
    side: Spec = {"align": "left", "dx": 8} if right else {"align": "right", "dx": -8}
    spec = layer(
        {
            "data": {"values": band},
            "mark": {"type": "rect", "color": _BAND},
            "encoding": {"x": at_x, "x2": {"field": "to"}},
        },
        *_law_layers(lines, fitted, chosen, at_x, at_y),
        {
            "data": {"values": [{"cores": digits(found.cores)}]},
            "mark": {"type": "rule", "color": INK, "strokeDash": [4, 3], "strokeWidth": 1.3},
            "encoding": {"x": at_x},
        },
        {
            "data": {"values": [{"cores": digits(found.cores), "words": words}]},
            "mark": {"type": "text", "y": 10, "fontSize": 12, "fontWeight": "bold", "color": INK, **side},
            "encoding": {"x": at_x, "text": {"field": "words"}},
        },
        {
            "data": {"values": points},
            "mark": {"type": "point", "filled": True, "size": 42, "color": RECORDED, "opacity": 0.85, "stroke": "white", "aria": True},
            "encoding": {"x": at_x, "y": at_y, "description": {"field": "tip"}},
        },
        *_node_layers(found, at_x),
        # names in front of what would cross them
        _level(line, f"{percent(found.efficiency)} efficiency", at_y, most, x, -7),
        _level(floor, "shortest by the law", at_y, most, x, 9),
        *_legend_layers(fitted, chosen, legend_ends, 0 if legend_ends == FULL - 78 else 1),
        height=_HEIGHT,
        left=64,
        right=14,
        top=20,
        bottom=44,
    )
    told = [{"cores_per_gpu": r["cores"], "seconds": r["seconds"], "what": "measured"} for r in points]
    told += [{"cores_per_gpu": r["cores"], "seconds": r["seconds"], "what": r["law"]} for r in lines]
    answer = clean(found.sentence()).replace(" %", f"{NARROW}%")
    split = "; with ranks and threads, the best split of so many cores" if any(c.ranks is not None for c in found.counts) else ""
    caption = f"{answer}. Dots: runs. Thick line: the law behind the answer{split}. Shaded: 90{NARROW}% interval."
    return Figure(name, "Run time against CPU cores per GPU", answer, spec, told, caption)


def _along(c: Candidate, cores: float, varies: Axes) -> float:
    """Run time without MPI by a law; eq 5 with its best split."""
    values = c.fit.values
    ranks = varies.ranks[0]
    if c.fit.law.name == "hybrid":
        ranks = float(laws.best_ranks(cores, values[0, 1], values[0, 2], varies.ranks, varies.threads))
    return float(c.fit.law.seconds(values, np.asarray(ranks), np.asarray(cores / ranks)).ravel()[0])


def _measured(runs: Runs) -> Rows:
    return [
        {
            "cores": digits(float(n)),
            "seconds": digits(float(s), 6),
            "tip": clean(f"{label}: {s:.4g} s" + (f" with {r:g} ranks x {t:g} threads" if runs.split else f" with {n:g} cores")),
        }
        for n, s, r, t, label in zip(runs.cores, runs.seconds, runs.ranks, runs.threads, runs.labels, strict=True)
    ]


def _node(found: Cores) -> float:
    """Cores per GPU of the node asked about, where the figure has room for it; else 0."""
    near = found.have is not None and found.have.cores <= _ROOM * max(float(found.runs.cores.max()), found.cores)
    return found.have.cores if found.have is not None and near else 0.0


def _node_layers(found: Cores, at_x: Spec) -> list[Spec]:
    """The ratio that a node has."""
    if not (cores := _node(found)):
        return []
    row = {"data": {"values": [{"cores": digits(cores), "words": f"this node: {cores:.3g}"}]}}
    text: Spec = {"type": "text", "y": _HEIGHT - 8, "align": "right", "dx": -6, "fontSize": 11, "color": RECORDED}
    return [
        {
            **row,
            "mark": {"type": "rule", "color": RECORDED, "strokeWidth": 1.6},
            "encoding": {"x": at_x, "y": {"value": 26}, "y2": {"value": _HEIGHT}},
        },
        {**row, "mark": {**text, "stroke": "white", "strokeWidth": 3}, "encoding": {"x": at_x, "text": {"field": "words"}}},
        {**row, "mark": text, "encoding": {"x": at_x, "text": {"field": "words"}}},
    ]


def _level(time: float, words: str, at_y: Spec, most: float, x: Spec, below: int) -> Spec:
    """A level line with its name at the right end, `below` it by so many pixels."""
    row = [{"time": digits(time, 6), "cores": digits(most), "words": words}]
    text: Spec = {"type": "text", "align": "right", "dy": below, "fontSize": 10}
    at = {"x": quantitative("cores", **x), "y": at_y, "text": {"field": "words"}}
    return {
        "data": {"values": row},
        "layer": [
            {"mark": {"type": "rule", "color": SOFT, "strokeWidth": 0.8, "strokeDash": [1, 3]}, "encoding": {"y": at_y}},
            {"mark": {**text, "stroke": "white", "strokeWidth": 3, "strokeJoin": "round"}, "encoding": at},
            {"mark": {**text, "color": SOFT}, "encoding": at},
        ],
    }


def _law_layers(lines: Rows, fitted: list[Candidate], chosen: Candidate, at_x: Spec, at_y: Spec) -> list[Spec]:
    out: list[Spec] = []
    for c in sorted(fitted, key=lambda c: c is chosen):
        mine = c is chosen
        colour, width = (_CHOSEN, 2.6) if mine else (_OTHER, 1.2)
        dash = {} if mine else {"strokeDash": _dash(c)}
        out.append(
            {
                "data": {"values": [r for r in lines if r["law"] == c.fit.law.name]},
                "mark": {"type": "line", "color": colour, "strokeWidth": width, "clip": True, **dash},
                "encoding": {"x": at_x, "y": at_y},
            }
        )
    return out


def _dash(c: Candidate) -> list[int]:
    return {"hybrid": [7, 3], "exponential": [2, 2], "usl": [7, 3, 2, 3]}[c.fit.law.name]


def _legend_layers(fitted: list[Candidate], chosen: Candidate, right: float, line: int) -> list[Spec]:
    """The laws by name, with their distance from the best, left of a pixel and below so many lines."""
    out: list[Spec] = []
    for k, c in enumerate(fitted):
        mine = c is chosen
        apart = "lowest AICc" if not c.above else f"AICc +{c.above:.1f}"
        y = 34 + 16 * (k + line)
        colour = _CHOSEN if mine else _OTHER
        dash = {} if mine else {"strokeDash": _dash(c)}
        row = {"data": {"values": [{"words": f"{_WORDS[c.fit.law.name]}: {apart}"}]}}
        rule: Spec = {"type": "rule", "color": colour, "strokeWidth": 2.6 if mine else 1.2, **dash}
        out.append({**row, "mark": rule, "encoding": {"x": {"value": right - 208}, "x2": {"value": right - 180}, "y": {"value": y}}})
        text: Spec = {"type": "text", "x": right - 172, "y": y, "align": "left", "fontSize": 11, "color": INK if mine else SOFT}
        out.append({**row, "mark": text, "encoding": {"text": {"field": "words"}}})
    return out


def sharing_figure(found: Cores, name: str) -> Figure:
    """Performance against ranks on one GPU, one line for each number of threads, ringed where one more stops paying."""
    shown = found.shared[:_MOST_LINES]
    most = max(s.ranks for c in shown for s in c.steps)
    least = min(c.steps[0].ranks for c in shown)
    rows: Rows = []
    ends: Rows = []
    rings: Rows = []
    dots: Rows = []
    for k, c in enumerate(shown):
        colour = TARGET_COLOURS[k]
        rows += [{"ranks": s.ranks, "performance": digits(s.performance), "colour": colour} for s in c.steps]
        rings += [{**r, "tip": clean(_ring(c))} for r in rows[-len(c.steps) :] if r["ranks"] == c.ranks]
        ends.append({**rows[-1], "words": _ring(c)})
        dots += _runs_of(found.runs, c, colour)
    low, high = (edge(r["performance"] for r in dots) for edge in (min, max))
    _apart(ends, high - low)
    room = max(high - low, 0.05) * 0.12
    counts = sorted({s.ranks for c in shown for s in c.steps})
    x = quantitative(
        "ranks",
        scale={"type": "log", "base": 2, "domain": [least / 1.06, most * 1.06], "nice": False},
        axis={"title": "MPI ranks on one GPU", "values": counts, "labelExpr": _PLAIN, "grid": False},
    )
    y = quantitative(
        "performance",
        scale={"domain": [low - room, high + room], "nice": False, "zero": False},
        axis={"title": "performance against the fewest ranks", "labelExpr": "format(datum.value, '.3~r') + '×'"},
    )
    spec = layer(
        {
            "data": {"values": dots},
            "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.4},
            "encoding": {"x": x, "y": y, "color": own_colour()},
        },
        *(
            {
                "data": {"values": [r for r in rows if r["colour"] == TARGET_COLOURS[k]]},
                "mark": {
                    "type": "line",
                    "color": TARGET_COLOURS[k],
                    "strokeWidth": 2.2,
                    "point": {"filled": True, "size": 34, "color": TARGET_COLOURS[k]},
                },
                "encoding": {"x": x, "y": y},
            }
            for k in range(len(shown))
        ),
        {
            "data": {"values": rings},
            "mark": {"type": "point", "filled": False, "size": 190, "strokeWidth": 2, "aria": True},
            "encoding": {"x": x, "y": y, "color": own_colour(), "description": {"field": "tip"}},
        },
        {
            "data": {"values": ends},
            "mark": {"type": "text", "align": "left", "dx": 14, "fontSize": 11, "color": INK},
            "encoding": {"x": x, "y": quantitative("at", scale=y["scale"]), "text": {"field": "words"}},
        },
        height=_HEIGHT,
        left=64,
        right=270,
        top=20,
        bottom=44,
    )
    columns = ("seconds", "performance", "gain", "low", "high")
    told = [
        {"threads": c.threads, "ranks_per_gpu": s.ranks, **{name: getattr(s, name) for name in columns}}
        for c in found.shared
        for s in c.steps
    ]
    alt = "; ".join(_ring(c) for c in shown)
    whose = f"{clean(found.runs.program)}. " if found.runs.program else ""
    left_out = f" {len(found.shared) - len(shown)} more numbers of threads are in the CSV file." if len(found.shared) > len(shown) else ""
    worth = percent(shown[0].worth)
    caption = f"{whose}Ringed: the last step that gains {worth} or more. Dots: runs. Lines: their geometric means.{left_out}"
    return Figure(name, "Performance against ranks on one GPU", alt, spec, told, caption)


def _ring(c: Curve) -> str:
    each = f"{c.threads:g} thread{'' if c.threads == 1 else 's'} a rank: "
    doubt = "" if c.low is None or c.low == c.high else f" ({c.low:g} to {c.high:g})"
    last = ", most measured" if c.ranks == c.steps[-1].ranks else ""
    return each + (f"up to {c.ranks:g}{last}{doubt}" if c.ranks != c.steps[0].ranks else f"does not pay{doubt}")


def _runs_of(runs: Runs, c: Curve, colour: str) -> Rows:
    some = runs.threads == c.threads
    start = c.steps[0].seconds
    return [
        {"ranks": digits(float(r)), "performance": digits(start / float(s)), "colour": colour}
        for r, s in zip(runs.ranks[some], runs.seconds[some], strict=True)
    ]


def _apart(ends: Rows, reach: float) -> None:
    """Names at the ends of lines, moved apart until none stands on another."""
    gap = max(reach, 0.05) * 0.062
    under = -math.inf
    for row in sorted(ends, key=lambda r: r["performance"]):
        row["at"] = under = max(row["performance"], under + gap)


def of_one(found: Cores) -> list[Figure]:
    """Return the figures of one program."""
    return figures([found])
