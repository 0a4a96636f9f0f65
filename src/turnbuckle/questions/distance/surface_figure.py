"""The map of latency and bandwidth: how much longer the run takes, with lines of equal loss, and
where real machines lie on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.machine import Machine, Pair
from turnbuckle.machine.parameter_names import HOST_WAYS, link_parameter
from turnbuckle.projection.projection import Projection
from turnbuckle.questions.distance.speeds import Surface
from turnbuckle.show.figures import marks
from turnbuckle.show.figures.figure import Figure
from turnbuckle.show.figures.look import FULL, INK, RECORDED, change_colour, change_legend
from turnbuckle.show.figures.marks import (
    SECONDS,
    TIMES,
    Rows,
    Spec,
    digits,
    log_share,
    of,
    plot,
    quantity,
    stated,
)
from turnbuckle.show.text import NARROW, clean, factor, number, percent, shorten, signed

#: Lengthening of the run along the lines.
LEVELS: Final = (0.01, 0.02, 0.05, 0.10, 0.50)
#: No added latency has a column of its own, left of the shortest one shown: its edges and its
#: middle, relative to that.
_BAND: Final = (0.42, 0.8)
_ZERO: Final = 0.58
#: A machine lies on the map only if the map gives its projection to within this share of the run
#: time.
AGREES: Final = 0.002

#: Shades for a factor of e, and steps between points of the grid for the lines.
_STEPS: Final = 10.0
_FINER: Final = 5


@dataclass(frozen=True)
class Placed:
    """A machine on the map: added latency [s], bandwidth relative to the recorded link, and how the
    lines there agree.
    """

    name: str
    colour: str
    slack: float
    bandwidth: float
    change: float


def placed(surface: Surface, answers: list[tuple[Machine, Projection, str]]) -> list[Placed]:
    """Return the targets that the map can speak for: they change latency and link bandwidth alone,
    and the map gives their projection.

    Parameters
    ----------
    surface : the map.
    answers : target as declared, its projection through the timeline, its colour.
    """
    source = surface.run.source
    out = []
    for declared, projection, colour in answers:
        target = Pair(source, declared).target
        rates = [
            _ratio(
                target.value(link_parameter(direction, "bandwidth")),
                source.value(link_parameter(direction, "bandwidth")),
            )
            for direction in HOST_WAYS
        ]
        slack = float(target.value("slack.link") or 0.0) - float(source.value("slack.link") or 0.0)
        called = all(
            target.value(n) == source.value(n) for n in ("slack.call", "remoting.round_trip")
        )
        called &= target.copies_vanish == source.copies_vanish
        if (
            target is source
            or None in rates
            or slack < 0
            or not called
            or projection.alpha not in (None, 1.0)
        ):
            continue
        bandwidth = math.sqrt(math.prod(r for r in rates if r is not None))
        if (
            not surface.bandwidth[0] <= bandwidth <= surface.bandwidth[-1]
            or slack > surface.slack[-1]
        ):
            continue
        penalty = penalty_at(surface, slack, bandwidth)
        if abs(penalty - projection.penalty) <= AGREES + surface.bound:
            out.append(
                Placed(
                    shorten(clean(projection.target), 24),
                    colour,
                    slack,
                    bandwidth,
                    projection.penalty - 1.0,
                )
            )
    return out


def _ratio(target: float | None, source: float | None) -> float | None:
    return target / source if target and source else None


def penalty_at(surface: Surface, slack: float, bandwidth: float) -> float:
    """Return the penalty at one point of the map, by straight lines in latency and in the cost of a
    byte.
    """
    along = [float(np.interp(slack, surface.slack, column)) for column in surface.seconds.T]
    return (
        float(np.interp(1.0 / bandwidth, 1.0 / surface.bandwidth[::-1], along[::-1]))
        / surface.measured
    )


def surface_map(surface: Surface, machines: list[Placed]) -> Figure:
    """Draw the change of run time over added latency and bandwidth, with lines of equal loss."""
    left, right, height = 66, 14, 320
    width = FULL - left - right
    first, last = float(surface.slack[1]), float(surface.slack[-1])
    domain_x, domain_y = (
        [first * _BAND[0], last],
        [float(surface.bandwidth[0]), float(surface.bandwidth[-1])],
    )
    x, y = _axes(first, domain_x, domain_y)
    columns = [
        (digits(domain_x[0]), digits(first * _BAND[1])),
        *pairwise(_edges(surface.slack[1:])),
    ]
    lines = {level: _iso(surface, level) for level in LEVELS}
    thick: Spec = {"condition": {"test": "datum.level == 0.05", "value": 2.4}, "value": 1.1}
    layers = [
        marks.cells(
            _cells(surface, columns),
            of(x, "a"),
            of(y, "c"),
            x2="b",
            y2="d",
            strokeWidth=0.6,
            encode={"stroke": stated()},
        ),
        marks.path(
            _points(surface, lines, columns[0]),
            x,
            y,
            series="line",
            color=INK,
            clip=True,
            encode={"strokeWidth": thick},
        ),
        *_line_labels(lines, width, height, x, y),
        *_machines(surface, machines, x, y),
    ]
    spec = plot(layers, height, (left, right, 10, 44))
    table: Rows = [{k: digits(v, 6) for k, v in row.items()} for row in surface.rows()]
    caption, legend = _caption(surface, machines), _legend(surface.seconds / surface.measured - 1.0)
    return Figure(
        "surface",
        "Latency and bandwidth together",
        _alt(surface, lines),
        spec,
        table,
        caption,
        legend=legend,
    )


def _axes(first: float, domain_x: list[float], domain_y: list[float]) -> tuple[Spec, Spec]:
    """Return both channels; left of the first latency stands the column of no latency at all."""
    values = [
        first * _ZERO,
        *(t for k in range(-7, 0) if first <= (t := 10.0**k) <= domain_x[1] * 1.001),
    ]
    zero = f"datum.value < {first * 0.99} ? '0' : {SECONDS}"
    x = quantity(
        "at",
        domain_x,
        log=10,
        title="added one-way latency",
        values=values,
        labelExpr=zero,
        grid=False,
        labelOverlap=False,
    )
    title, ratio = (
        "link bandwidth against the recorded link",
        f"datum.value < 1 ? '1/' + format(1 / datum.value, '~r') + '×' : {TIMES}",
    )
    y = quantity(
        "bandwidth",
        domain_y,
        log=2,
        title=title,
        values=[0.125, 0.25, 0.5, 1, 2, 4, 8],
        labelExpr=ratio,
        grid=False,
    )
    return x, y


def _cells(surface: Surface, columns: list[tuple[float, float]]) -> Rows:
    """Return the cells of the map; adjacent cells of one colour in a column are one."""
    change = surface.seconds / surface.measured - 1.0
    edges = _edges(surface.bandwidth)
    out: Rows = []
    for i, (a, b) in enumerate(columns):
        for j in range(len(surface.bandwidth)):
            colour = change_colour(float(change[i, j]), _STEPS)
            if out and out[-1]["colour"] == colour and out[-1]["a"] == a and j:
                out[-1]["d"] = edges[j + 1]
            else:
                out.append({"a": a, "b": b, "c": edges[j], "d": edges[j + 1], "colour": colour})
    return out


def _points(
    surface: Surface, lines: dict[float, list[tuple[float, float]]], none: tuple[float, float]
) -> Rows:
    """Return the points of the lines of equal loss, extended level into the column of no
    latency.
    """
    out: Rows = []
    for level, line in lines.items():
        out += [
            {"at": digits(s), "bandwidth": digits(b), "level": level, "line": f"{level}", "i": k}
            for k, (s, b) in enumerate(line)
        ]
        cost = _crosses(
            surface.seconds[0], 1.0 / surface.bandwidth, surface.measured * (1.0 + level)
        )
        if cost is not None:
            out += [
                {
                    "at": a,
                    "bandwidth": digits(1.0 / cost),
                    "level": level,
                    "line": f"{level} none",
                    "i": k,
                }
                for k, a in enumerate(none)
            ]
    return out


def _alt(surface: Surface, lines: dict[float, list[tuple[float, float]]]) -> str:
    sentences = []
    for level, line in lines.items():
        crossing = [s for s, b in line if abs(b - 1.0) < 1e-6]
        sentences.append(
            f"{percent(level)} longer at {number(crossing[0], 's', 2)}"
            if crossing
            else f"{percent(level)} not reached on the map"
        )
    return (
        "Change of run time over added latency and link bandwidth. At the recorded bandwidth: "
        + ", ".join(sentences)
        + "."
    )


def _caption(surface: Surface, machines: list[Placed]) -> str:
    off = (
        f"Each of the {surface.evaluations} points is a replay, so the map has no error of its own."
        if surface.bound < 1e-9
        else f"Between {surface.evaluations} longest paths the map lies midway between its bounds: "
        f"off by at most {percent(surface.bound)} of the run time."
    )
    drawn = (
        "Lines: the run is 1, 2, 5 (thick), 10 and 50"
        + NARROW
        + "% longer. Ring: the recorded machine. "
    )
    if machines:
        drawn += (
            "Dots: targets that change only latency and bandwidth. "
            f"For them the map agrees with their projection to within {percent(AGREES)} of the "
            "run time. "
        )
    return drawn + off


def _legend(change: Float) -> tuple[tuple[str, str], ...]:
    low, high = float(change.min()) - 0.02, max(float(change.max()), 0.06)
    return change_legend(
        [v for v in (-0.3, -0.1, -0.02, 0.0, 0.05, 0.1, 0.5, 2.0, 10.0) if low <= v <= high]
    )


def _edges(values: Float) -> list[float]:
    middle = np.sqrt(values[1:] * values[:-1])
    return [digits(v) for v in (float(values[0]), *middle.tolist(), float(values[-1]))]


def _iso(surface: Surface, level: float) -> list[tuple[float, float]]:
    """Return the added latencies and bandwidths at which the run is longer by `level`.

    The run never gets faster with latency, nor slower with bandwidth.
    """
    wanted = surface.measured * (1.0 + level)
    steps = len(surface.bandwidth) - 1
    fine = np.geomspace(surface.bandwidth[0], surface.bandwidth[-1], steps * _FINER + 1)
    cost, known_cost = 1.0 / fine, 1.0 / surface.bandwidth
    seconds = np.stack(
        [np.interp(cost, known_cost[::-1], row[::-1]) for row in surface.seconds[1:]]
    )
    slack = surface.slack[1:]
    line: list[tuple[float, float]] = []
    for j, bandwidth in enumerate(fine.tolist()):
        column = seconds[:, j]
        if column[0] <= wanted < column[-1]:
            i = int(np.searchsorted(column, wanted, side="right"))
            rise = column[i] - column[i - 1]
            line.append(
                (
                    float(
                        slack[i - 1] + (wanted - column[i - 1]) / rise * (slack[i] - slack[i - 1])
                    ),
                    bandwidth,
                )
            )
    ends = [(slack[edge], _crosses(seconds[edge], cost, wanted)) for edge in (0, -1)]
    line += [(float(s), 1.0 / c) for s, c in ends if c is not None]
    return sorted(line, key=lambda p: (p[1], p[0]))


def _crosses(row: Float, cost: Float, wanted: float) -> float | None:
    """Return the cost of a byte at which one row of the map, slowest link first, reaches a run
    time.
    """
    if not row[-1] <= wanted < row[0]:
        return None
    return float(np.interp(wanted, row[::-1], cost[::-1]))


def _line_labels(
    lines: dict[float, list[tuple[float, float]]], width: float, height: float, x: Spec, y: Spec
) -> list[Spec]:
    """Write the loss along each line on it, where no other label stands."""

    def pixel(point: tuple[float, float]) -> tuple[float, float]:
        return log_share(point[0], *x["scale"]["domain"]) * width, height - log_share(
            point[1], *y["scale"]["domain"]
        ) * height

    taken: list[tuple[float, float]] = []
    rows: Rows = []
    for level, line in lines.items():
        inside = [
            p for p in line if 20 < pixel(p)[0] < width - 20 and 14 < pixel(p)[1] < height - 14
        ]
        # two thirds up the map if it can be, else as near to it as the line comes
        for point in sorted(inside, key=lambda p: abs(pixel(p)[1] - height * 0.22)):
            px, py = pixel(point)
            if all(abs(px - a) > 27 or abs(py - b) > 14 for a, b in taken):
                taken.append((px, py))
                rows.append({"at": point[0], "bandwidth": point[1], "label": percent(level)})
                break
    return marks.haloed(
        marks.labels(rows, x, y, fontWeight="bold", fontSize=11, color=INK), 4, opacity=0.9
    )


def _machines(surface: Surface, machines: list[Placed], x: Spec, y: Spec) -> list[Spec]:
    """Draw the recorded machine as a ring, the others as dots with their names."""
    nothing = float(surface.slack[1] * _ZERO)
    rows: Rows = [
        dict(at=max(m.slack, nothing), bandwidth=m.bandwidth, colour=m.colour, label=m.name)
        | {
            "tip": (
                f"{m.name}: {number(m.slack, 's', 2)} added, bandwidth {factor(m.bandwidth)}, "
                f"{signed(m.change)}"
            )
        }
        for m in machines
    ]
    recorded: Rows = [
        {
            "at": nothing,
            "bandwidth": 1.0,
            "tip": "the recorded machine: nothing added, bandwidth as observed",
        }
    ]
    out = [
        marks.rings(recorded, x, y, 230, 2.4, tip=True, color=RECORDED),
        marks.points(rows, x, y, 85, 1.5, tip=True),
    ]
    for k, row in enumerate(sorted(rows, key=lambda r: (r["bandwidth"], r["at"]))):
        low = row["bandwidth"] < 1.4 * surface.bandwidth[0]
        near = [r for r in rows if abs(math.log2(r["bandwidth"] / row["bandwidth"])) < 0.25]
        dy = (
            0
            if len(near) == 1
            else (-12, -25, -38, -51)[k % 4]
            if low
            else (-12, 15, -25, 28, -38, 41)[k % 6]
        )
        name = marks.labels(
            [row],
            x,
            y,
            align="left",
            dx=8 if len(near) == 1 else 2,
            dy=dy,
            fontSize=10.5,
            color=INK,
        )
        out += marks.haloed(name, opacity=0.85)
    return out


def figures(answer: Surface) -> list[Figure]:
    """Return the map of latency and bandwidth."""
    return [surface_map(answer, [])]
