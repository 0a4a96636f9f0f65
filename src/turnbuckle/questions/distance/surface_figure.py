"""The map of latency and bandwidth: how much longer the run takes, with lines of equal loss, and where real machines lie on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.machine import Machine, Pair
from turnbuckle.projection.projection import Projection
from turnbuckle.questions.distance.figures import SECONDS, digits
from turnbuckle.questions.distance.speeds import Surface
from turnbuckle.show.figures.charts import Rows, Spec, layer, own_colour, quantitative
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FULL, INK, RECORDED
from turnbuckle.show.text import NARROW, clean, factor, number, percent, shorten, signed

Float = NDArray[np.float64]

#: Lengthening of the run along the lines.
LEVELS: Final = (0.01, 0.02, 0.05, 0.10, 0.50)
#: No added latency has a column of its own, left of the shortest one shown: its edges and its middle, relative to that.
_BAND: Final = (0.42, 0.8)
_ZERO: Final = 0.58
#: A machine lies on the map only if the map gives its projection to within this share of the run time.
AGREES: Final = 0.002
#: Change of run time and its colour: blue is faster, towards brown is slower; lightness alone tells them apart on each side.
_COLOURS: Final = (
    (-0.8, "#0b3c68"), (-0.3, "#2f79b5"), (-0.1, "#82b8dc"), (-0.02, "#d3e5f2"), (0.0, "#f6f6f1"), (0.01, "#fdf2d2"), (0.05, "#fddda0"),
    (0.1, "#fbbf74"), (0.5, "#e88642"), (2.0, "#bf4f22"), (10.0, "#75260f"),
)  # fmt: skip
#: Shades for a factor of e, and steps between points of the grid for the lines.
_STEPS: Final = 10.0
_FINER: Final = 5


@dataclass(frozen=True)
class Placed:
    """A machine on the map: added latency [s], bandwidth relative to the recorded link, and how the lines there agree."""

    name: str
    colour: str
    slack: float
    bandwidth: float
    change: float


def placed(found: Surface, answers: list[tuple[Machine, Projection, str]]) -> list[Placed]:
    """The targets that the map can speak for: they change added latency and link bandwidth alone, and the map gives their projection.

    Parameters
    ----------
    found : the map.
    answers : target as declared, its projection through the timeline, its colour.
    """
    source = found.run.source
    out = []
    for declared, projection, colour in answers:
        target = Pair(source, declared).target
        rates = [_ratio(target.value(f"link.{way}.bandwidth"), source.value(f"link.{way}.bandwidth")) for way in ("h2d", "d2h")]
        slack = float(target.value("slack.link") or 0.0) - float(source.value("slack.link") or 0.0)
        called = target.value("slack.call") == source.value("slack.call") and target.copies_vanish == source.copies_vanish
        if target is source or None in rates or slack < 0 or not called or projection.alpha not in (None, 1.0):
            continue
        bandwidth = math.sqrt(math.prod(r for r in rates if r is not None))
        if not found.bandwidth[0] <= bandwidth <= found.bandwidth[-1] or slack > found.slack[-1]:
            continue
        told = at(found, slack, bandwidth)
        if abs(told - projection.penalty) <= AGREES + found.bound:
            out.append(Placed(shorten(clean(projection.target), 24), colour, slack, bandwidth, projection.penalty - 1.0))
    return out


def _ratio(there: float | None, here: float | None) -> float | None:
    return there / here if there and here else None


def at(found: Surface, slack: float, bandwidth: float) -> float:
    """Penalty at one point of the map, by straight lines in latency and in the cost of a byte."""
    along = [float(np.interp(slack, found.slack, column)) for column in found.seconds.T]
    return float(np.interp(1.0 / bandwidth, 1.0 / found.bandwidth[::-1], along[::-1])) / found.measured


def surface_map(found: Surface, marks: list[Placed]) -> Figure:
    """Change of run time over added latency and bandwidth, with lines of equal loss."""
    left, right, height = 66, 14, 320
    plot = FULL - left - right
    first, last = float(found.slack[1]), float(found.slack[-1])
    domain_x, domain_y = [first * _BAND[0], last], [float(found.bandwidth[0]), float(found.bandwidth[-1])]
    x, y = _axes(first, domain_x, domain_y)
    bounds = _edges(found.slack[1:])
    columns = [(digits(domain_x[0]), digits(first * _BAND[1])), *pairwise(bounds)]
    lines = {level: _iso(found, level) for level in LEVELS}
    at_x, at_y = quantitative("at", **x), quantitative("bandwidth", **y)
    thick = {"condition": {"test": "datum.level == 0.05", "value": 2.4}, "value": 1.1}
    spec = layer(
        {
            "data": {"values": _cells(found, columns)},
            "mark": {"type": "rect", "strokeWidth": 0.6},
            "encoding": {
                "x": quantitative("a", **x),
                "x2": {"field": "b"},
                "y": quantitative("c", **y),
                "y2": {"field": "d"},
                "fill": own_colour(),
                "stroke": own_colour(),
            },
        },
        {
            "data": {"values": _points(found, lines, columns[0])},
            "mark": {"type": "line", "color": INK, "clip": True},
            "encoding": {
                "x": at_x,
                "y": at_y,
                "detail": {"field": "line", "type": "nominal"},
                "order": {"field": "i", "type": "quantitative"},
                "strokeWidth": thick,
            },
        },
        *_line_labels(lines, domain_x, domain_y, plot, height, at_x, at_y),
        *_marks(found, marks, at_x, at_y),
        height=height,
        left=left,
        right=right,
        top=10,
        bottom=44,
    )
    legend = _legend(found.seconds / found.measured - 1.0)
    return Figure(
        "surface", "Latency and bandwidth together", _alt(found, lines), spec, _told(found), _caption(found, marks), legend=legend
    )


def _axes(first: float, domain_x: list[float], domain_y: list[float]) -> tuple[Spec, Spec]:
    """Scales and axes; left of the first latency stands the column of no latency at all."""
    values = [first * _ZERO, *(t for k in range(-7, 0) if first <= (t := 10.0**k) <= domain_x[1] * 1.001)]
    x: Spec = {
        "scale": {"type": "log", "domain": domain_x, "nice": False},
        "axis": {
            "title": "added one-way latency",
            "grid": False,
            "labelOverlap": False,
            "values": values,
            "labelExpr": f"datum.value < {first * 0.99} ? '0' : {SECONDS}",
        },
    }
    y: Spec = {
        "scale": {"type": "log", "base": 2, "domain": domain_y, "nice": False},
        "axis": {
            "title": "link bandwidth against the recorded link",
            "values": [0.125, 0.25, 0.5, 1, 2, 4, 8],
            "grid": False,
            "labelExpr": "datum.value < 1 ? '1/' + format(1 / datum.value, '~r') + '×' : format(datum.value, '~r') + '×'",
        },
    }
    return x, y


def _cells(found: Surface, columns: list[tuple[float, float]]) -> Rows:
    """Cells of the map, those of one colour that follow each other upwards as one."""
    change = found.seconds / found.measured - 1.0
    edges = _edges(found.bandwidth)
    out: Rows = []
    for i, (a, b) in enumerate(columns):
        for j in range(len(found.bandwidth)):
            colour = colour_of(float(change[i, j]), _STEPS)
            if out and out[-1]["colour"] == colour and out[-1]["a"] == a and j:
                out[-1]["d"] = edges[j + 1]
            else:
                out.append({"a": a, "b": b, "c": edges[j], "d": edges[j + 1], "colour": colour})
    return out


def _points(found: Surface, lines: dict[float, list[tuple[float, float]]], none: tuple[float, float]) -> Rows:
    """Points of the lines of equal loss; in the column of none each goes on, level."""
    out: Rows = []
    for level, line in lines.items():
        out += [{"at": digits(s), "bandwidth": digits(b), "level": level, "line": f"{level}", "i": k} for k, (s, b) in enumerate(line)]
        cost = _crosses(found.seconds[0], 1.0 / found.bandwidth, found.measured * (1.0 + level))
        if cost is not None:
            out += [{"at": a, "bandwidth": digits(1.0 / cost), "level": level, "line": f"{level} none", "i": k} for k, a in enumerate(none)]
    return out


def _told(found: Surface) -> Rows:
    return [{k: digits(v, 6) for k, v in row.items()} for row in found.rows()]


def _alt(found: Surface, lines: dict[float, list[tuple[float, float]]]) -> str:
    said = []
    for level, line in lines.items():
        here = [s for s, b in line if abs(b - 1.0) < 1e-6]
        said.append(f"{percent(level)} longer at {number(here[0], 's', 2)}" if here else f"{percent(level)} not reached on the map")
    return "Change of run time over added latency and link bandwidth. At the recorded bandwidth: " + ", ".join(said) + "."


def _caption(found: Surface, marks: list[Placed]) -> str:
    off = (
        f"A longest path was found at each of its {found.evaluations} points, so the map has no error of its own."
        if found.bound < 1e-9
        else f"Between {found.evaluations} longest paths the map lies midway between its bounds: off by {percent(found.bound)} of the run "
        "time at most."
    )
    told = "Lines: the run is 1, 2, 5 (thick), 10 and 50" + NARROW + "% longer. Ring: the recorded machine. "
    if marks:
        told += (
            "Dots: targets that change nothing but added latency and bandwidth, so that the map can speak for them; "
            f"it gives their projection to within {percent(AGREES)} of the run time. "
        )
    return told + off


def _legend(change: Float) -> tuple[tuple[str, str], ...]:
    wanted = [
        v for v in (-0.3, -0.1, -0.02, 0.0, 0.05, 0.1, 0.5, 2.0, 10.0) if float(change.min()) - 0.02 <= v <= max(float(change.max()), 0.06)
    ]
    words = {0.0: "as recorded", 2.0: f"{factor(3.0, 1)} the time", 10.0: f"{factor(11.0, 2)} the time"}
    return tuple((words.get(v, signed(v)), colour_of(v)) for v in wanted)


def colour_of(change: float, steps: float = 0.0) -> str:
    """Colour of a change of run time; with `steps`, one of so many shades for a factor of e.

    >>> colour_of(0.0), colour_of(99.0)
    ('#f6f6f1', '#75260f')
    """
    known = [_spread(v) for v, _ in _COLOURS]
    rgb = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for _, c in _COLOURS], dtype=np.float64)
    shade = round(_spread(change) * steps) / steps if steps else _spread(change)
    mixed = [round(float(np.interp(shade, known, rgb[:, k]))) for k in range(3)]
    return "#" + "".join(f"{v:02x}" for v in mixed)


def _spread(change: float) -> float:
    return math.copysign(math.log1p(abs(change) / 0.02), change)


def _edges(values: Float) -> list[float]:
    middle = np.sqrt(values[1:] * values[:-1])
    return [digits(v) for v in (float(values[0]), *middle.tolist(), float(values[-1]))]


def _iso(found: Surface, level: float) -> list[tuple[float, float]]:
    """Added latency and bandwidth at which the run is longer by `level`: it never gets faster with latency, nor slower with bandwidth."""
    wanted = found.measured * (1.0 + level)
    steps = len(found.bandwidth) - 1
    fine = np.geomspace(found.bandwidth[0], found.bandwidth[-1], steps * _FINER + 1)
    cost, known = 1.0 / fine, 1.0 / found.bandwidth
    seconds = np.stack([np.interp(cost, known[::-1], row[::-1]) for row in found.seconds[1:]])
    slack = found.slack[1:]
    line: list[tuple[float, float]] = []
    for j, bandwidth in enumerate(fine.tolist()):
        column = seconds[:, j]
        if column[0] <= wanted < column[-1]:
            i = int(np.searchsorted(column, wanted, side="right"))
            rise = column[i] - column[i - 1]
            line.append((float(slack[i - 1] + (wanted - column[i - 1]) / rise * (slack[i] - slack[i - 1])), bandwidth))
    ends = [(slack[edge], _crosses(seconds[edge], cost, wanted)) for edge in (0, -1)]
    line += [(float(s), 1.0 / c) for s, c in ends if c is not None]
    return sorted(line, key=lambda p: (p[1], p[0]))


def _crosses(row: Float, cost: Float, wanted: float) -> float | None:
    """Cost of a byte at which one row of the map, slowest link first, reaches a run time."""
    if not row[-1] <= wanted < row[0]:
        return None
    return float(np.interp(wanted, row[::-1], cost[::-1]))


def _line_labels(
    lines: dict[float, list[tuple[float, float]]],
    domain_x: list[float],
    domain_y: list[float],
    plot: float,
    height: float,
    at_x: Spec,
    at_y: Spec,
) -> list[Spec]:
    """The loss along each line, written on it where no other label stands."""

    def pixel(point: tuple[float, float]) -> tuple[float, float]:
        return (
            math.log(point[0] / domain_x[0]) / math.log(domain_x[1] / domain_x[0]) * plot,
            height - math.log(point[1] / domain_y[0]) / math.log(domain_y[1] / domain_y[0]) * height,
        )

    taken: list[tuple[float, float]] = []
    rows: Rows = []
    for level, line in lines.items():
        inside = [p for p in line if 20 < pixel(p)[0] < plot - 20 and 14 < pixel(p)[1] < height - 14]
        # two thirds up the map if it can be, else as near to it as the line comes
        for point in sorted(inside, key=lambda p: abs(pixel(p)[1] - height * 0.22)):
            px, py = pixel(point)
            if all(abs(px - a) > 27 or abs(py - b) > 14 for a, b in taken):
                taken.append((px, py))
                rows.append({"at": point[0], "bandwidth": point[1], "label": percent(level)})
                break
    text = {"type": "text", "fontWeight": "bold", "fontSize": 11, "color": INK}
    halo = {"stroke": "white", "strokeWidth": 4, "strokeJoin": "round", "opacity": 0.9}
    return [
        {"data": {"values": rows}, "mark": {**text, **extra}, "encoding": {"x": at_x, "y": at_y, "text": {"field": "label"}}}
        for extra in (halo, {})
    ]


def _marks(found: Surface, marks: list[Placed], at_x: Spec, at_y: Spec) -> list[Spec]:
    nothing = float(found.slack[1] * _ZERO)
    rows: Rows = [
        {
            "at": max(m.slack, nothing), "bandwidth": m.bandwidth, "colour": m.colour, "label": m.name,
            "tip": f"{m.name}: {number(m.slack, 's', 2)} added, bandwidth {factor(m.bandwidth)}, {signed(m.change)}",
        }
        for m in marks
    ]  # fmt: skip
    here: Rows = [{"at": nothing, "bandwidth": 1.0, "tip": "the recorded machine: nothing added, bandwidth as observed"}]
    point = {"type": "point", "filled": True, "size": 85, "stroke": "white", "strokeWidth": 1.5, "opacity": 1, "aria": True}
    ring = {"type": "point", "filled": False, "size": 230, "stroke": RECORDED, "strokeWidth": 2.4, "opacity": 1, "aria": True}
    out: list[Spec] = [
        {"data": {"values": here}, "mark": ring, "encoding": {"x": at_x, "y": at_y, "description": {"field": "tip"}}},
        {
            "data": {"values": rows},
            "mark": point,
            "encoding": {"x": at_x, "y": at_y, "fill": own_colour(), "description": {"field": "tip"}},
        },
    ]
    for k, row in enumerate(sorted(rows, key=lambda r: (r["bandwidth"], r["at"]))):
        low = row["bandwidth"] < 1.4 * found.bandwidth[0]
        near = [r for r in rows if abs(math.log2(r["bandwidth"] / row["bandwidth"])) < 0.25]
        text: Spec = {
            "type": "text", "align": "left", "dx": 8 if len(near) == 1 else 2, "fontSize": 10.5, "color": INK,
            "dy": 0 if len(near) == 1 else (-12, -25, -38, -51)[k % 4] if low else (-12, 15, -25, 28, -38, 41)[k % 6],
        }  # fmt: skip
        for extra in ({"stroke": "white", "strokeWidth": 3, "strokeJoin": "round", "opacity": 0.85}, {}):
            out.append(
                {"data": {"values": [row]}, "mark": {**text, **extra}, "encoding": {"x": at_x, "y": at_y, "text": {"field": "label"}}}
            )
    return out


def figures(found: Surface) -> list[Figure]:
    """Return the map of latency and bandwidth."""
    return [surface_map(found, [])]
