"""Run time against one kind of speed, exactly, and against added latency and link bandwidth at once, with an error bound.

A speed enters as its inverse, the cost of a unit of work: 2 is twice as slow, 0.5 twice as fast.  Along a cost the run time is
convex and piecewise linear, and it is found with every breakpoint.  Over two costs it is a convex surface: planes that touch it
bound it from below, straight lines between known points from above, and the two together bound the error of what is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from turnbuckle.anchor import anchored
from turnbuckle.order import timeline_change
from turnbuckle.replay.timeline import Change, no_change
from turnbuckle.study.sensitivity import Curve, along
from turnbuckle.study.slack import FARTHEST, MODEL, THRESHOLDS, Distance, Mode
from turnbuckle.study.study import SCHEMA_VERSION, Answer
from turnbuckle.study.uncertainty import DrawnMachine

Float = NDArray[np.float64]
Over = Literal["bandwidth", "launch", "kernel", "cpu"]

OVER: Final[tuple[Over, ...]] = get_args(Over)
WORDS: Final[dict[Over, str]] = {
    "bandwidth": "time of a byte on the link",
    "launch": "delivery of a launch to an idle device, and the launch call",
    "kernel": "time of every kernel",
    "cpu": "time of the application's own host work and of its runtime calls",
}
#: Cost of a unit of work, relative to the recorded run.
CHEAPEST, DEAREST = 0.1, 10.0
#: Grid points times instants up to which a surface has a longest path at each of its points.
_WORK: Final = 50_000_000
SHOWN: Final = (0.1, 0.2, 0.5, 0.8, 0.9, 1.0, 1.1, 1.25, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Sweep:
    """Run time along one cost.

    Attributes
    ----------
    over : which speed.
    curve : run time [s] against the cost relative to the recorded run (1), from `CHEAPEST` to `DEAREST`.
    tolerances : per threshold of `turnbuckle.study.slack.THRESHOLDS` the cost that lengthens the run by as much; None beyond `DEAREST`.
    elasticity : per cent of run time for one per cent of cost, going up and going down.
    """

    answer: Answer
    over: Over
    measured: float
    curve: Curve
    tolerances: tuple[float | None, ...]
    elasticity: tuple[float, float]

    def as_dict(self) -> dict[str, Any]:
        """The JSON contract of ``slack --over``."""
        curve = self.curve
        return {
            "schema_version": SCHEMA_VERSION,
            "over": self.over,
            "cost_of": WORDS[self.over],
            "measured_seconds": self.measured,
            "curve": [{"cost": c, "seconds": float(curve(c)), "penalty": float(curve(c)) / self.measured} for c in SHOWN],
            "breakpoints": [{"cost": float(s), "seconds": float(t)} for s, t in zip(curve.at[1:-1], curve.seconds[1:-1], strict=True)],
            "curve_error_seconds": curve.gap,
            "tolerance": {f"{share:.0%}": cost for share, cost in zip(THRESHOLDS, self.tolerances, strict=True)},
            "elasticity": {"up": self.elasticity[0], "down": self.elasticity[1]},
            "findings": [f.as_dict() for f in self.answer.findings],
            "provenance": self.answer.provenance(),
        }


def sweep(seen: Answer, over: Over) -> Sweep:
    """Run time of an inspected profile against one kind of speed."""
    ready = Distance.of(seen, "link")
    measured = seen.profile.seconds
    curve = along(ready.replay, cost_change(ready, over), [CHEAPEST, 1.0, DEAREST], _beyond(ready, measured))
    curve = replace(curve, seconds=curve.seconds + (measured - float(curve(1.0))))
    left = curve.slopes[np.searchsorted(curve.at, 1.0) - 1]
    right = curve.slopes[np.searchsorted(curve.at, 1.0, side="right") - 1]
    tolerances = tuple(curve.reaches(measured * (1 + share)) for share in THRESHOLDS)
    return Sweep(seen, over, measured, curve, tolerances, (float(right) / measured, float(left) / measured) if measured else (0.0, 0.0))


def cost_change(ready: Distance, over: Over) -> Callable[[Float], Change]:
    """What a cost of shape (points, 1) changes; linear in the cost."""
    run, source = ready.ready.run, ready.source
    none = no_change(len(run))

    def bandwidth(cost: Float) -> Change:
        here = _plain(ready)
        rates = {n: v / cost for n, v in here.values.items() if n in ("link.h2d.bandwidth", "link.d2h.bandwidth")}
        # a link of another speed is another link: its reads in flight are not this one's
        unlimited = {n: v for n, v in here.values.items() if n != "link.tags"}
        return timeline_change(anchored(run, DrawnMachine(unlimited, False), DrawnMachine({**unlimited, **rates}, False), MODEL))

    def launch(cost: Float) -> Change:
        latency, call = source.value("launch.latency") or 0.0, source.value("launch.call") or 0.0
        mine = run.kind == "launch"
        return replace(none, delivery=(cost - 1.0) * latency * mine, added=(cost - 1.0) * call * mine)

    def kernel(cost: Float) -> Change:
        return replace(none, ratio=1.0 + (cost - 1.0) * (run.category == "kernel"))

    def cpu(cost: Float) -> Change:
        return replace(none, ratio=1.0 + (cost - 1.0) * (run.category == "api"), host=cost)

    return {"bandwidth": bandwidth, "launch": launch, "kernel": kernel, "cpu": cpu}[over]


@dataclass(frozen=True)
class Surface:
    """Run time over added one-way latency and link bandwidth.

    Attributes
    ----------
    slack : added one-way latencies [s], shape (m,).
    bandwidth : link bandwidth relative to the recorded one, shape (n,).
    seconds : run time [s], shape (m, n): midway between the bounds.
    bound : how far it may be off either way, as a share of the recorded run time; the largest over the surface.
    evaluations : longest paths it took.
    """

    answer: Answer
    mode: Mode
    measured: float
    slack: Float
    bandwidth: Float
    seconds: Float
    bound: float
    evaluations: int

    def rows(self) -> list[dict[str, float]]:
        """One row a point: added latency [s], bandwidth relative to now, run time [s], penalty."""
        return [
            {"slack_s": float(s), "bandwidth": float(b), "seconds": float(t), "penalty": float(t) / self.measured}
            for s, times in zip(self.slack, self.seconds, strict=True)
            for b, t in zip(self.bandwidth, times, strict=True)
        ]

    def as_dict(self) -> dict[str, Any]:
        """The JSON contract of ``slack --over both``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "over": "both",
            "mode": self.mode,
            "measured_seconds": self.measured,
            "points": self.rows(),
            "error_bound": self.bound,
            "longest_paths": self.evaluations,
            "findings": [f.as_dict() for f in self.answer.findings],
            "provenance": self.answer.provenance(),
        }


def surface(
    seen: Answer, mode: Mode = "link", slack: Float | None = None, bandwidth: Float | None = None, every: int | None = None
) -> Surface:
    """Run time over latency and bandwidth.

    Parameters
    ----------
    every : a longest path with both slopes is found at every so many points of the grid, the rest lies between bounds; None is every
        point (no error at all) for small runs, and every third for large ones.
    slack, bandwidth : the grid; None is 100 ns to 10 ms by 0 first, and an eighth to eight times the bandwidth.
    """
    ready = Distance.of(seen, mode)
    measured = seen.profile.seconds
    slack = np.concatenate([[0.0], np.geomspace(1e-7, FARTHEST / 10, 21)]) if slack is None else np.asarray(slack, dtype=np.float64)
    bandwidth = np.geomspace(1 / 8, 8, 19) if bandwidth is None else np.asarray(bandwidth, dtype=np.float64)
    cost = 1.0 / bandwidth
    if every is None:
        every = 1 if len(slack) * len(cost) * len(ready.replay.graph.time_ns) <= _WORK else 3
    rows, columns = _every(len(slack), every), _every(len(cost), every)
    at = [(slack[i], cost[j]) for i in rows for j in columns]
    known, slopes = _touching(ready, at)
    known = known.reshape(len(rows), len(columns))
    points = np.array(at)
    grid = np.stack(np.meshgrid(slack, cost, indexing="ij"), axis=-1)
    planes = known.reshape(-1)[:, None, None] + np.einsum("pk,pijk->pij", slopes, grid[None] - points[:, None, None])
    low = planes.max(axis=0)
    high = _between(_between(known, slack[rows], slack), cost[columns][::-1], cost, flip=True)
    low, high = low + (offset := _beyond(ready, measured)), np.maximum(high, low) + offset
    bound = float((high - low).max() / 2 / measured) if measured else 0.0
    return Surface(seen, mode, measured, slack, bandwidth, (low + high) / 2, bound, len(at))


def _every(count: int, step: int) -> list[int]:
    return sorted({*range(0, count, step), count - 1})


def _touching(ready: Distance, at: list[tuple[float, float]]) -> tuple[Float, Float]:
    """Run time [s] at points (slack, cost of a byte), and the slopes of a plane that touches it there, shape (points,) and (points, 2).

    Both slopes come from one longest path and one branch of the price: upwards in latency and downwards in cost, which is the branch
    of the reads in flight where link and reads are equally slow.
    """
    step = 1e-3
    slack, cost = np.array([s for s, _ in at]), np.array([c for _, c in at])
    base = _both(ready, slack, cost).values
    later = (_both(ready, slack + step * 1e-6, cost).values - base) / (step * 1e-6)
    dearer = (base - _both(ready, slack, cost * (1 - step)).values) / (cost * step)[:, None]
    seconds, slopes = [], []
    for value, *directions in zip(base, later, dearer, strict=True):
        instants, path = ready.replay.replayed(value)
        seconds.append(float(instants.max()))
        slopes.append([float(ready.replay.slopes(path, d).sum()) for d in directions])
    return np.array(seconds), np.array(slopes)


def _both(ready: Distance, slack: Float, cost: Float) -> Change:
    """Added latency and another bandwidth at once; a byte costs what the slower of link and reads in flight allows."""
    here = _plain(ready)
    rates = {n: v / cost[:, None] for n, v in here.values.items() if n in ("link.h2d.bandwidth", "link.d2h.bandwidth")}
    there = {**here.values, **rates, "slack.link" if ready.mode == "link" else "slack.call": slack[:, None]}
    return timeline_change(anchored(ready.ready.run, here, DrawnMachine(there, here.copies_vanish), MODEL))


def _between(values: Float, known: Float, wanted: Float, flip: bool = False) -> Float:
    """Straight lines between known points along one axis (the last with `flip`)."""
    if flip:
        return np.stack([np.interp(wanted, known, row[::-1]) for row in values])
    return np.stack([np.interp(wanted, known, column) for column in values.T], axis=1)


def _plain(ready: Distance) -> DrawnMachine:
    return DrawnMachine({n: np.full((1, 1), p.value) for n, p in ready.source.parameters.items()}, ready.source.copies_vanish)


def _beyond(ready: Distance, measured: float) -> float:
    return measured - float(ready.replay.graph.time_ns.max()) * 1e-9
