"""Run time against one kind of speed, exactly, and against added latency and link bandwidth at
once, with an error bound.

A speed enters as its inverse, the cost of a unit of work: 2 is twice as slow, 0.5 twice as fast.
Along a cost the run time is convex and piecewise linear, and it is found with every breakpoint.
Over two costs it is a convex surface: planes that touch it bound it from below, straight lines
between known points from above, and the two together bound the error of what is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice, product
from typing import Any, ClassVar, Final, Literal, cast, get_args

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import CannotAnswer, error_of
from turnbuckle.foundation.findings import Finding
from turnbuckle.machine.parameter_names import HOST_WAYS, ParameterName, link_parameter
from turnbuckle.profile.kernels import COLLECTIVE
from turnbuckle.profile.pieces import Pieces
from turnbuckle.projection.anchor import anchored
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.elsewhere.drawn import DrawnMachine
from turnbuckle.projection.elsewhere.network import Carried, OnNetwork
from turnbuckle.projection.order import Prepared, timeline_change
from turnbuckle.projection.run import Run
from turnbuckle.projection.sensitivity import Curve, along
from turnbuckle.projection.uncertainty import SEED
from turnbuckle.questions.distance.distance import FARTHEST, MODEL, Distance, Mode
from turnbuckle.questions.distance.network import bandwidth_curve, tolerate_network
from turnbuckle.questions.distance.question import THRESHOLDS, Slack, tolerate
from turnbuckle.replay.timeline import Change, TimelineReplay, no_change, parameters
from turnbuckle.show.text import terms

Over = Literal["bandwidth", "copies", "launch", "kernel", "cpu", "communication"]

OVER: Final[tuple[Over, ...]] = get_args(Over)
WORDS: Final = terms("speed")
#: Cost of a unit of work, relative to the recorded run.
CHEAPEST, DEAREST = 0.1, 10.0
#: Grid points times instants up to which a surface is replayed at each of its points.
_WORK: Final = 2_000_000_000
SHOWN: Final = (0.1, 0.2, 0.5, 0.8, 0.9, 1.0, 1.1, 1.25, 2.0, 5.0, 10.0)


@dataclass(frozen=True, repr=False)
class Sweep(Shown):
    """Run time along the cost of one kind of work.

    Attributes
    ----------
    curve : run time [s] against the cost relative to the recorded run (1), from `CHEAPEST` to
        `DEAREST`.
    network : the networks, where the cost is that of a byte on one; else None.
    tolerances : for each of `questions.distance.question.THRESHOLDS` the cost that lengthens the
        run by as much; None beyond `DEAREST`.
    """

    run: Run
    over: Over
    measured: float
    curve: Curve
    tolerances: tuple[float | None, ...]
    elasticity: tuple[float, float]
    findings: tuple[Finding, ...] = ()
    network: Carried | None = None

    question: ClassVar[str] = "speeds"

    def table(self) -> pl.DataFrame:
        """Return the curve: cost, run time [s], penalty."""
        return pl.DataFrame(self.points())

    def headline(self) -> str:
        """Return what a cost of twice as much does, in one line."""
        return (
            f"Speed of the {self.cost_of}: twice as dear, the run takes {self.penalty(2.0):.3f}x "
            f"its recorded {self.measured:.6g} s"
        )

    def penalty(self, cost: float) -> float:
        """Return the run time at a cost, relative to the recorded run time."""
        return float(self.curve(cost)) / self.measured if self.measured else 1.0

    def points(self) -> list[dict[str, float]]:
        """Return run time [s] and penalty at the costs `SHOWN`, a row each."""
        return [
            {"cost": c, "seconds": float(self.curve(c)), "penalty": self.penalty(c)} for c in SHOWN
        ]

    def breakpoints(self) -> list[dict[str, float]]:
        """Return cost and run time [s] at every corner of the curve between its ends."""
        curve = self.curve
        return [
            {"cost": float(c), "seconds": float(t)}
            for c, t in zip(curve.at[1:-1], curve.seconds[1:-1], strict=True)
        ]

    def tolerance(self) -> dict[str, float | None]:
        """Return the cost that lengthens the run by each of `THRESHOLDS`, by that share in per
        cent; None beyond `DEAREST`.
        """
        return {
            f"{share:.0%}": cost for share, cost in zip(THRESHOLDS, self.tolerances, strict=True)
        }

    @property
    def cost_of(self) -> str:
        """Return in words what gets dearer."""
        return (
            WORDS[self.over]
            if self.network is None
            else f"NICs of network {self.network.target.name}"
        )

    @property
    def all_findings(self) -> list[Finding]:
        """Return the findings of the run, then those of this answer."""
        return [*self.run.findings, *self.findings]


def sweep(seen: Run, over: Over) -> Sweep:
    """Return the run time of an inspected profile against one kind of speed.

    Raises
    ------
    CannotAnswer : A121, A122.
    """
    ready = Distance.of(seen, "link")
    unpriced = tuple(ready.unpriced()) if over == "bandwidth" else ()
    measured = seen.profile.seconds
    curve = along(
        ready.replay, cost_change(ready, over), [CHEAPEST, 1.0, DEAREST], _beyond(ready, measured)
    )
    curve = replace(curve, seconds=curve.seconds + (measured - float(curve(1.0))))
    return Sweep(
        seen,
        over,
        measured,
        curve,
        _reached(curve, measured),
        _elasticity(curve, measured),
        unpriced,
    )


def at_cost(seen: Run, over: Over, cost: float) -> float:
    """Return the run time [s] at one cost: a point of the curve of `sweep`.

    Raises
    ------
    CannotAnswer : A121, A122.
    """
    ready = Distance.of(seen, "link")
    change = cost_change(ready, over)
    here, there = (
        float(np.ravel(ready.replay.seconds(change(np.array([[c]]))))[0]) for c in (1.0, cost)
    )
    return seen.profile.seconds + there - here


#: The layer that stands beside a longer link where none is named.
LAYER: Final = "cdi-row-api"
#: What a tenth less and a tenth more work is.
TENTH: Final = (0.9, 1.1)


def beside_each_other(
    seen: Run, draws: int | None = None, seed: int = SEED
) -> tuple[list[Slack | str], list[tuple[str, float, float]]]:
    """Return what a run tolerates of a longer link and of remoted calls, or why that cannot be
    told; and each kind of work, with the change of run time by a tenth less and a tenth more of it.

    Raises
    ------
    CannotAnswer : A121, A122.
    """
    link = tolerate(seen, "link", draws=draws, seed=seed)
    try:
        layer: Slack | str = tolerate(seen, "remoting", machine=LAYER, draws=draws, seed=seed)
    except CannotAnswer as error:
        layer = error.what
    run = seen.judged
    costs: list[tuple[str, float, float]] = []
    for over in OVER:
        less, more = (at_cost(run, over, cost) / run.seconds - 1.0 for cost in TENTH)
        costs.append((over, less, more))
    return [link, layer], costs


def network_bandwidth(seen: Run, network: OnNetwork | str | None = None) -> Sweep:
    """Return the run time of an inspected profile against the cost of a byte on the NICs of a
    network.

    At a cost c it is that of `turnbuckle project --network` on the same network with the bandwidth
    of its NICs divided by c.

    Raises
    ------
    CannotAnswer : A122, A164, A193, A195.  UsageError : A050, A074, A081, A091, A092, A570.
    """
    curve, carried = bandwidth_curve(seen, network, [CHEAPEST, 1.0, DEAREST])
    measured = seen.profile.seconds
    return Sweep(
        seen,
        "bandwidth",
        measured,
        curve,
        _reached(curve, measured),
        _elasticity(curve, measured),
        tuple(carried.findings),
        carried,
    )


def _reached(curve: Curve, measured: float) -> tuple[float | None, ...]:
    return tuple(curve.reaches(measured * (1 + share)) for share in THRESHOLDS)


def _elasticity(curve: Curve, measured: float) -> tuple[float, float]:
    """Return the slopes at the cost of now, dearer and cheaper, relative to the run."""
    left = curve.slopes[np.searchsorted(curve.at, 1.0) - 1]
    right = curve.slopes[np.searchsorted(curve.at, 1.0, side="right") - 1]
    return (float(right) / measured, float(left) / measured) if measured else (0.0, 0.0)


def cost_change(ready: Distance, over: Over) -> Callable[[Float], Change]:
    """Return the function from a cost of shape (points, 1) to the change it makes; it is linear in
    the cost.
    """
    run = ready.ready.run
    none = no_change(len(run))

    def bandwidth(cost: Float) -> Change:
        source = ready.plain()
        rates: dict[ParameterName, Float] = {
            n: source.values[n] / cost
            for direction in HOST_WAYS
            if (n := link_parameter(direction, "bandwidth")) in source.values
        }
        # the limit on reads in flight is that of the recorded link, not of a link of another speed
        unlimited: dict[ParameterName, Float] = {
            n: v for n, v in source.values.items() if n != "link.tags"
        }
        return timeline_change(
            anchored(
                run,
                DrawnMachine(unlimited, False),
                DrawnMachine({**unlimited, **rates}, False),
                MODEL,
            )
        )

    def launch(cost: Float) -> Change:
        dearer = 1.0 + (cost - 1.0) * (run.kind == "launch")
        return replace(none, ratio=dearer, delivery_ratio=dearer)

    def kernel(cost: Float) -> Change:
        return replace(none, ratio=1.0 + (cost - 1.0) * (run.category == "kernel"))

    def copies(cost: Float) -> Change:
        return replace(none, ratio=1.0 + (cost - 1.0) * (run.category == "copy"))

    def communication(cost: Float) -> Change:
        between = np.array([k is not None and k.name == COLLECTIVE for k in run.kernel])
        return replace(none, ratio=1.0 + (cost - 1.0) * ((run.category == "mpi") | between))

    def cpu(cost: Float) -> Change:
        return host_change(run, cost)

    changes = (bandwidth, copies, launch, kernel, cpu, communication)
    return {change.__name__: change for change in changes}[over]


def host_change(run: Pieces, cost: Float) -> Change:
    """Return the change by a host on which its own work and its runtime calls cost so many times as
    much, shape (points, 1).
    """
    return replace(
        no_change(len(run)), ratio=1.0 + (cost - 1.0) * (run.category == "api"), host=cost
    )


@dataclass(frozen=True, repr=False)
class Surface(Shown):
    """Run time over added one-way latency and link bandwidth.

    Attributes
    ----------
    slack : added one-way latencies [s], shape (m,).
    bandwidth : link bandwidth relative to the recorded one, shape (n,).
    seconds : run time [s], shape (m, n): midway between the bounds.
    """

    run: Run
    mode: Mode
    measured: float
    slack: Float
    bandwidth: Float
    seconds: Float
    bound: float
    evaluations: int

    @property
    def penalties(self) -> Float:
        """Return the run time relative to the recorded one, shape (m, n)."""
        return self.seconds / self.measured if self.measured else np.ones_like(self.seconds)

    question: ClassVar[str] = "surface"
    over: ClassVar[str] = "both"

    def table(self) -> pl.DataFrame:
        """Return every point: added latency [s], bandwidth, run time [s], penalty."""
        return pl.DataFrame(self.rows())

    def headline(self) -> str:
        """Return the worst corner in one line."""
        return (
            f"Latency and bandwidth ({self.mode}): up to {float(self.penalties.max()):.3f}x the "
            f"recorded {self.measured:.6g} s"
        )

    def rows(self) -> list[dict[str, float]]:
        """Return added latency [s], bandwidth relative to the recorded one, run time [s] and
        penalty of each point.
        """
        return [
            {
                "slack_s": float(s),
                "bandwidth": float(b),
                "seconds": float(self.seconds[i, j]),
                "penalty": float(self.penalties[i, j]),
            }
            for i, s in enumerate(self.slack)
            for j, b in enumerate(self.bandwidth)
        ]


def surface(
    seen: Run,
    mode: Mode = "link",
    slack: Float | None = None,
    bandwidth: Float | None = None,
    every: int | None = None,
    ready: Prepared | None = None,
) -> Surface:
    """Return the run time over added latency and link bandwidth.

    Parameters
    ----------
    every : a longest path with both slopes is found at every so many points of the grid, and the
        rest lies between bounds; None replays every point (no error at all) unless the run is too
        large for that, and then every third.
    slack, bandwidth : the grid; None is 100 ns to 10 ms by 0 first, and an eighth to eight times
        the bandwidth.
    ready : the profile, compiled already.
    """
    distance = Distance.of(seen, mode, ready)
    measured = seen.profile.seconds
    slack = (
        np.concatenate([[0.0], np.geomspace(1e-7, FARTHEST / 10, 21)])
        if slack is None
        else np.asarray(slack, dtype=np.float64)
    )
    bandwidth = (
        np.geomspace(1 / 8, 8, 19) if bandwidth is None else np.asarray(bandwidth, dtype=np.float64)
    )
    cost = 1.0 / bandwidth
    (link, reads), beyond = _branches(distance, measured)
    if every is None and len(slack) * len(cost) * len(distance.replay.graph.time_ns) <= _WORK:
        # one latency at a time: the parameters of all points together would be larger than the run
        rows = (
            np.array([np.maximum(link.values_at(s, c), reads.values_at(s, c)) for c in cost])
            for s in slack
        )
        seconds = np.stack([distance.replay.seconds_at(row) for row in rows]) + beyond
        return Surface(seen, mode, measured, slack, bandwidth, seconds, 0.0, seconds.size)
    low, high, count = _bounds(distance, link, reads, slack, cost, every or 3)
    bound = float((high - low).max() / 2 / measured) if measured else 0.0
    return Surface(seen, mode, measured, slack, bandwidth, (low + high) / 2 + beyond, bound, count)


def _bounds(
    distance: Distance, link: _Branch, reads: _Branch, slack: Float, cost: Float, every: int
) -> tuple[Float, Float, int]:
    """Return the run time [s] between planes below and straight lines above, and the number of
    longest paths replayed.

    Both bounds have shape (slack, cost).
    """
    rows, columns = _every(len(slack), every), _every(len(cost), every)
    points = [(slack[i], cost[j]) for i in rows for j in columns]
    replayed, slopes = _touching(distance, link, reads, points)
    grid = np.stack(np.meshgrid(slack, cost, indexing="ij"), axis=-1)
    planes = replayed[:, None, None] + np.einsum(
        "pk,pijk->pij", slopes, grid[None] - np.array(points)[:, None, None]
    )
    replayed = replayed.reshape(len(rows), len(columns))
    high = _between(_between(replayed, slack[rows], slack), cost[columns][::-1], cost, flip=True)
    # straight lines between known points are above in any case; a plane may be off by rounding
    return np.minimum(planes.max(axis=0), high), high, len(points)


def _every(count: int, step: int) -> list[int]:
    return sorted({*range(0, count, step), count - 1})


@dataclass(frozen=True)
class _Branch:
    """Replay parameters as a plane over (added latency, cost of a byte): value = base + slack x
    later + cost x dearer.
    """

    base: Float
    later: Float
    dearer: Float

    @classmethod
    def of(cls, ready: Distance, price: Callable[[float, float], Change]) -> _Branch:
        """Fit the plane from three corners; `price` must be linear."""

        def values(slack: float, cost: float) -> Float:
            return price(slack, cost).values.reshape(-1)[-parameters(len(ready.replay.run)) :]

        corner = values(0.0, 1.0)
        later, dearer = (values(1.0, 1.0) - corner), values(0.0, 2.0) - corner
        return cls(corner - dearer, later, dearer)

    def values_at(self, slack: float, cost: float) -> Float:
        """Return the parameters at one point."""
        return self.base + slack * self.later + cost * self.dearer


def _touching(
    distance: Distance, link: _Branch, reads: _Branch, points: list[tuple[float, float]]
) -> tuple[Float, Float]:
    """Return the run time [s] at points (slack, cost of a byte), and the slopes of a plane that
    touches it there.

    The shapes are (points,) and (points, 2). A read of host memory takes the slower of the link and
    the reads in flight. Each of these two branches is linear, and the run time is convex in both.
    The slopes come from one longest path on the branch that decides at the point.
    """
    rows, directions = [], []
    for slack, cost in points:
        link_values, read_values = link.values_at(slack, cost), reads.values_at(slack, cost)
        branch = link if (link_values >= read_values).all() else reads
        rows.append(np.maximum(link_values, read_values))
        directions.append(np.stack([branch.later, branch.dearer]))
    seconds, slopes = distance.replay.tangents(np.stack(rows))
    return seconds, np.stack(
        [direction @ slope for direction, slope in zip(directions, slopes, strict=True)]
    )


def _branches(distance: Distance, measured: float) -> tuple[tuple[_Branch, _Branch], float]:
    """Return both branches, and the run time outside the graph [s] that makes the recorded run
    exact, to the last bit.
    """
    link, reads = (_Branch.of(distance, _priced(distance, reads=reads)) for reads in (False, True))
    beyond = measured - float(
        distance.replay.seconds_at(
            np.maximum(link.values_at(0.0, 1.0), reads.values_at(0.0, 1.0)), 1
        )
    )
    return (link, reads), beyond


@dataclass(frozen=True)
class Levers:
    """Numbers that a slider moves, as parameters of the compiled graph, each of shape
    (parameters,).

    The parameters are the larger of two: `link` where the link decides, `reads` where its reads in
    flight do; to both is added what launches, kernels and the host cost beyond the recorded run.
    Moved alone, each gives the run time of its own `sweep` or `surface`.

    Attributes
    ----------
    link, reads : parameters without latency and at no cost of a byte, per second of added latency,
        and per cost of a byte.
    dearer : for each of ``launch``, ``kernel`` and ``cpu`` the parameters per unit of cost above 1.
    beyond : run time outside the graph [s].
    """

    link: tuple[Float, Float, Float]
    reads: tuple[Float, Float, Float]
    dearer: dict[Over, Float]
    beyond: float

    def values_at(self, slack: float = 0.0, byte: float = 1.0, **costs: float) -> Float:
        """Return the parameters at an added latency [s], a cost of a byte, and costs of launches,
        kernels and the host.
        """
        base, later, dearer = (np.stack(pair) for pair in zip(self.link, self.reads, strict=True))
        values: Float = (base + slack * later + byte * dearer).max(axis=0)
        for name, per_unit in self.dearer.items():
            values = values + (costs.get(name, 1.0) - 1.0) * per_unit
        return values


def levers(seen: Run, ready: Prepared | None = None) -> tuple[TimelineReplay, Levers]:
    """Return the compiled graph of a run and what can be moved by hand in it.  Raises A121, A122 as
    `surface`.
    """
    distance = Distance.of(seen, "link", ready)
    (link, reads), beyond = _branches(distance, seen.profile.seconds)
    unchanged = no_change(len(distance.replay.run)).values
    names: tuple[Over, ...] = ("launch", "kernel", "cpu")
    per_unit = {
        name: (cost_change(distance, name)(np.full((1, 1), 2.0)).values - unchanged).reshape(-1)[
            -len(link.base) :
        ]
        for name in names
    }
    as_rows = [(b.base, b.later, b.dearer) for b in (link, reads)]
    return distance.replay, Levers(as_rows[0], as_rows[1], per_unit, beyond)


#: What can be moved, in the order of a point.
AXES: Final = ("latency", "byte", "launch", "kernel", "host")
#: Least change of run time with any parameter: below, it is not the rounding of a number that stays
#: as it is.
_FALLS: Final = -1e-12


@dataclass(frozen=True)
class Planes:
    """Run time over everything that can be moved by hand, as known points, each with a plane that
    touches it there.

    The run time is convex in all five at once and never falls where one of them rises. So every
    plane bounds it from below everywhere, and a mean of known points that lies at or above a place
    in all five bounds it from above there. At a known point both are one number.

    Attributes
    ----------
    points : added latency [s], and the costs of a byte, of launches, kernels and the host relative
        to the recorded run, shape (n, 5); the first is the recorded run, the second is the largest
        in all five.
    seconds : run time [s] there, shape (n,).
    slopes : change of the run time [s] per unit of each, shape (n, 5).
    """

    points: Float
    seconds: Float
    slopes: Float

    def least(self, point: Float) -> float:
        """Return the lower bound of the run time [s] at a point, shape (5,)."""
        return float((self.seconds + ((point - self.points) * self.slopes).sum(axis=1)).max())


def planes(replay: TimelineReplay, levers: Levers, axes: list[Float], most: int) -> Planes | None:
    """Replay a run at up to `most` points, and return what bounds it between them; None if a cost
    of its makes it faster.

    Parameters
    ----------
    axes : for each of `AXES` the values that it may take, rising, and its recorded value among
        them.
    """
    rows = (*levers.link[1:], *levers.reads[1:], *levers.dearer.values())
    if min(float(row.min(initial=0.0)) for row in rows) < _FALLS:
        return None
    points = list(islice(dict.fromkeys(_wanted(axes)), most))
    values = np.stack(
        [
            levers.values_at(latency, byte, launch=launch, kernel=kernel, cpu=host)
            for latency, byte, launch, kernel, host in points
        ]
    )
    seconds, slopes = replay.tangents(values)
    along = [
        _directions(levers, *point[:2]) @ slope for point, slope in zip(points, slopes, strict=True)
    ]
    return Planes(np.array(points), seconds + levers.beyond, np.stack(along))


def _wanted(axes: list[Float]) -> Iterator[tuple[float, ...]]:
    """Return points, those first without which the others bound little: the recorded run, the ends,
    then finer and finer.
    """
    recorded = (0.0, 1.0, 1.0, 1.0, 1.0)
    yield recorded
    yield tuple(float(axis[-1]) for axis in axes)

    def moved(changes: dict[int, float]) -> tuple[float, ...]:
        return tuple(changes.get(k, value) for k, value in enumerate(recorded))

    for step in (0.5, 0.25):
        for k, axis in enumerate(axes):
            yield from (moved({k: value}) for value in _spread(axis, step))
    yield from (
        tuple(map(float, corner)) for corner in product(*((axis[0], axis[-1]) for axis in axes))
    )
    for step in (0.5, 0.25):
        for (k, first_axis), (n, other) in combinations(enumerate(axes), 2):
            yield from (
                moved({k: a, n: b}) for a in _spread(first_axis, step) for b in _spread(other, step)
            )
        yield from (
            tuple(map(float, middle))
            for middle in product(*((axis[len(axis) // 4], axis[-len(axis) // 4]) for axis in axes))
        )
        for k, axis in enumerate(axes):
            yield from (moved({k: float(value)}) for value in axis)


def _spread(axis: Float, step: float) -> list[float]:
    """Return the values of an axis at every `step` of its length."""
    return [
        float(axis[round(share * (len(axis) - 1))])
        for share in np.arange(0.0, 1.0 + step / 2, step)
    ]


def _directions(levers: Levers, latency: float, byte: float) -> Float:
    """Return how the parameters change along each axis at a point, shape (5, parameters)."""
    link, reads = (
        base + latency * later + byte * dearer
        for base, later, dearer in (levers.link, levers.reads)
    )
    directions = [
        np.where(link >= reads, a, b)
        for a, b in zip(levers.link[1:], levers.reads[1:], strict=True)
    ]
    return np.stack([*directions, *(levers.dearer[name] for name in ("launch", "kernel", "cpu"))])


def _priced(ready: Distance, reads: bool) -> Callable[[float, float], Change]:
    """Return the change for added latency and another bandwidth at once.

    The link decides if `reads` is False, the reads in flight if it is True.
    """
    source = ready.plain()
    latency: ParameterName = "slack.link" if ready.mode == "link" else "slack.call"

    def change(slack: float, cost: float) -> Change:
        values = {**source.values, latency: np.full((1, 1), slack)}
        for direction in HOST_WAYS:
            name = link_parameter(direction, "bandwidth")
            if name in values:
                values[name] = values[name] / cost
        if reads and "link.h2d.bandwidth" in values:
            values["link.h2d.bandwidth"] = np.full((1, 1), np.inf)
        if not reads:
            values.pop("link.tags", None)
        return timeline_change(
            anchored(ready.ready.run, source, DrawnMachine(values, source.copies_vanish), MODEL)
        )

    return change


def _between(values: Float, nodes: Float, wanted: Float, flip: bool = False) -> Float:
    """Interpolate linearly between nodes along one axis (the last one if `flip`)."""
    if flip:
        return np.stack([np.interp(wanted, nodes, row[::-1]) for row in values])
    return np.stack([np.interp(wanted, nodes, column) for column in values.T], axis=1)


def _beyond(ready: Distance, measured: float) -> float:
    return measured - float(ready.replay.graph.time_ns.max()) * 1e-9


def asked(
    run: Run, mode: Mode = "link", over: str = "latency", **settings: Any
) -> Slack | Sweep | Surface:
    """Return what distance does to a run, over latency, another kind of speed, or latency and
    bandwidth at once.
    """
    run = run.judged
    if over == "latency":
        return (
            tolerate_network(run, **settings)
            if mode == "network"
            else tolerate(run, mode, **settings)
        )
    if mode == "network" and over == "bandwidth":
        return network_bandwidth(run, **settings)
    if settings or over not in (*get_args(Over), "both"):
        raise error_of("A015.over", found=f"over={over!r}", over=", ".join(get_args(Over)))
    return surface(run, mode) if over == "both" else sweep(run, cast("Over", over))
