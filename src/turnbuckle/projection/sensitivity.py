"""Run time along a line of change, and which numbers drive its width: every breakpoint, both
derivatives, shares of the variance.

Without contention the run time is a maximum of linear functions of every time parameter, so along
any line it is convex and piecewise linear.  A line is found exactly, not sampled: where two known
pieces cross, either the run time lies on both and there is a breakpoint, or a new piece is found
(slope-intersection recursion, `turnbuckle._native.Timeline.line`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float, Text
from turnbuckle.profile.dependencies.graph import EDGE
from turnbuckle.profile.pieces import Pieces
from turnbuckle.projection.elsewhere.priors import normals
from turnbuckle.replay.timeline import Change, TimelineReplay, no_change, parameters

#: Breakpoints looked for along one line, at most; beyond it `Curve.gap` says how far the curve may
#: be off.
MOST = 4096
#: Degree of the polynomials that shares of the variance are fitted by, and draws a coefficient from
#: which that is done.
_DEGREE: Final = 3
_LEAST_ROWS: Final = 4
#: Draws of each number alone, for its share of the variance where there are fewer.
DRIVER_DRAWS = 200


@dataclass(frozen=True)
class Curve:
    """Run time along a line: convex, nondecreasing, piecewise linear.

    Attributes
    ----------
    at : where the pieces meet, and both ends; shape (knots,).
    seconds : run time there [s].
    slopes : change of run time with `at` on each piece, shape (knots - 1,).
    gap : largest error [s] if the search stopped at its limit; 0 where every breakpoint was found.
    """

    at: Float
    seconds: Float
    slopes: Float
    gap: float

    def __call__(self, at: Float | float) -> Float:
        """Return the run time [s] at any points between the ends."""
        return np.asarray(np.interp(at, self.at, self.seconds))

    def reaches(self, seconds: float) -> float | None:
        """Return the largest point at which the run takes no longer than `seconds`; None if it
        never does take longer.
        """
        above = np.flatnonzero(self.seconds > seconds)
        if not len(above):
            return None
        k = int(above[0])
        if k == 0:
            return float(self.at[0])
        rise = self.seconds[k] - self.seconds[k - 1]
        return float(
            self.at[k - 1] + (seconds - self.seconds[k - 1]) * (self.at[k] - self.at[k - 1]) / rise
        )

    @property
    def breakpoints(self) -> Float:
        """Return the inner knots, where the critical path changes."""
        return self.at[1:-1]


def along(
    replay: TimelineReplay,
    change: Callable[[Float], Change],
    ends: Sequence[float],
    offset: float = 0.0,
    most: int = MOST,
) -> Curve:
    """Compute the run time along a line.

    Parameters
    ----------
    replay : the compiled run.
    change : what changes at points of the line, shape (points, 1); between neighbouring `ends` it
        must be linear.
    ends : first and last point, and between them the points where `change` has a kink.
    offset : run time outside the graph [s].
    most : breakpoints looked for on each stretch.
    """
    points = np.array(sorted(set(ends)), dtype=np.float64)
    values = np.broadcast_to(
        change(points[:, None]).values, (len(points), parameters(len(replay.run)))
    )
    threads = os.cpu_count() or 1
    positions: list[Float] = [points[:1]]
    seconds: list[Float] = []
    slopes: list[Float] = []
    gap = 0.0
    for k in range(len(points) - 1):
        length = points[k + 1] - points[k]
        start, direction = (
            np.ascontiguousarray(values[k]),
            np.ascontiguousarray((values[k + 1] - values[k]) / length),
        )
        raw = replay.native.line(start, direction, 0.0, float(length), limit=most, threads=threads)
        knots, times, slope = (np.frombuffer(b, dtype=np.float64) for b in raw[:3])
        if not seconds:
            seconds.append(times[:1])
        positions.append(points[k] + knots[1:])
        seconds.append(times[1:])
        slopes.append(slope)
        gap = max(gap, raw[3])
    knots, times, slope = np.concatenate(positions), np.concatenate(seconds), np.concatenate(slopes)
    # where two stretches meet there is a corner only if the slope changes
    bends = np.concatenate(
        [[True], np.abs(np.diff(slope)) > 1e-12 * np.abs(slope).max(initial=0.0), [True]]
    )
    return Curve(knots[bends], times[bends] * 1e-9 + offset, slope[bends[:-1]] * 1e-9, gap * 1e-9)


@dataclass(frozen=True)
class Share:
    """What the critical path is made of.

    Attributes
    ----------
    what : words for a class of time.
    seconds : time of that class on the critical path of the recorded run [s]; all classes add up to
        the run time.
    left, right : change of run time per unit of relative change, when the class gets faster and
        slower [s]; they differ where another path is as long.
    """

    what: str
    seconds: float
    left: float
    right: float

    def elasticity(self, run_time: float) -> float:
        """Return per cent of run time for one per cent more of this class."""
        return self.right / run_time if run_time else 0.0


HOST_WORK, DELIVERIES, RETURNS, REST = (
    "application's own host work",
    "deliveries to the device",
    "returns of waits",
    "not explained",
)
_CALLS: Final = {
    "launch": "launch calls",
    "copy": "copy calls",
    "sync": "synchronising calls",
    "alloc": "allocation calls",
}
_COPIES: Final = {
    "h2d": "copies to the device",
    "d2h": "copies to the host",
    "migration_h2d": "pages to the device",
    "migration_d2h": "pages to the host",
}


def classes(run: Pieces) -> Text:
    """Return the class of time of each piece, in words; each class can be scaled."""
    words = []
    for category, call_class, direction in zip(
        run.category, run.call_class, run.direction, strict=True
    ):
        if category == "api":
            words.append(_CALLS.get(call_class, "other runtime calls"))
        elif category == "copy":
            words.append(_COPIES.get(direction, "other copies"))
        else:
            words.append({"kernel": "kernels", "mpi": "MPI", "cpu": HOST_WORK}[category])
    return np.array(words, dtype=object)


def shares(replay: TimelineReplay, beyond: float = 0.0) -> list[Share]:
    """Attribute the recorded run time, largest first: T = sum of theta dT/dtheta over all classes,
    plus what no rule explains.

    Parameters
    ----------
    replay : the compiled run.
    beyond : run time outside the graph [s]; counted as not explained.
    """
    count = len(replay.run)
    of = classes(replay.run)
    names = [*dict.fromkeys(of.tolist()), *({HOST_WORK} - set(of.tolist()))]
    names.append(DELIVERIES)
    rows = np.zeros((len(names), parameters(count)))
    for row, name in zip(rows, names, strict=True):
        row[:count] = of == name
        row[4 * count] = name == HOST_WORK
        row[4 * count + 1 : 5 * count + 1] = name == DELIVERIES
    raw = replay.native.slopes(no_change(count).values, rows, threads=os.cpu_count() or 1)
    derivatives = np.frombuffer(raw, dtype=np.float64).reshape(-1, 3) * 1e-9
    on_path = _on_critical_path(replay, of)
    on_path[REST] = on_path.get(REST, 0.0) + beyond
    attribution = [
        Share(n, on_path.get(n, 0.0), float(d[1]), float(d[2]))
        for n, d in zip(names, derivatives, strict=True)
    ]
    attribution += [
        Share(n, on_path.get(n, 0.0), on_path.get(n, 0.0), on_path.get(n, 0.0))
        for n in (RETURNS, REST)
    ]
    return sorted((s for s in attribution if s.right > 0 or s.seconds > 0), key=lambda s: -s.right)


def _on_critical_path(replay: TimelineReplay, of: Text) -> dict[str, float]:
    """Return the seconds of every class on the recorded critical path."""
    graph = replay.graph
    _, path = replay.unchanged_path
    kind, target, lag = graph.kind[path], graph.target[path], graph.lag_ns[path] * 1e-9
    if not len(path):
        return {}
    names = [*dict.fromkeys([*of.tolist(), REST, HOST_WORK, DELIVERIES, RETURNS, "kernels"])]
    of_piece = np.array([names.index(name) for name in of.tolist()])
    by_piece = np.isin(kind, [EDGE[w] for w in ("run", "call", "meet")])
    named = np.where(by_piece, of_piece[replay.piece[(target - 1) // 2]], names.index(REST))
    for word, name in (
        ("host", HOST_WORK),
        ("deliver", DELIVERIES),
        ("sync", RETURNS),
        ("queue", RETURNS),
        ("fault", "kernels"),
    ):
        named[kind == EDGE[word]] = names.index(name)
    spent = {
        names[n]: float(lag[named == n].sum())
        for n in np.flatnonzero(np.bincount(named, minlength=len(names)))
    }
    spent[REST] = spent.get(REST, 0.0) + float(graph.residual_ns[target].sum()) * 1e-9
    return spent


def _few(draws: int) -> int:
    return min(draws, DRIVER_DRAWS, max(draws // 5, 30))


def variance_shares(
    sample: Float,
    names: Sequence[str],
    seed: int,
    drawn_alone: Callable[[int, tuple[str, ...]], Float],
    most: int,
) -> dict[str, float]:
    """Return the share of variance of each number, the largest first; the smallest are left out.

    Parameters
    ----------
    sample : draws of an answer with every number drawn, shape (draws,).
    names : of the numbers, each with normal draws of its own.
    seed : of the draws.
    drawn_alone : draws so many of the answer with each of some numbers alone, one after the other,
        shape (draws x numbers,); asked where `sample` is too small to tell the numbers apart.
    most : draws asked for at once.
    """
    if len(sample) >= _LEAST_ROWS * (_DEGREE * len(names) + 1):
        alone = _main_effects(
            sample,
            np.array([normals(name, len(sample), seed) for name in names]).reshape(len(names), -1),
        )
        effects = dict(zip(names, alone.tolist(), strict=True))
    else:
        few = _few(len(sample))
        at_once = max(most // few, 1)
        parts = [tuple(names[k : k + at_once]) for k in range(0, len(names), at_once)]
        alone = np.concatenate(
            [drawn_alone(few, part).reshape(len(part), few).var(axis=1) for part in parts]
        )
        effects = dict(zip(names, alone.tolist(), strict=True))
    total = sum(effects.values())
    ranked = sorted(effects.items(), key=lambda kv: -kv[1])
    return {n: v / total for n, v in ranked[:12] if total > 0 and v / total > 0.005}


def _main_effects(sample: Float, z: Float) -> Float:
    """Return the variance of an answer that each number causes alone, from draws of all of them
    together.

    The answer is fitted by Hermite polynomials of each number's normal draws, which are
    orthonormal: the squares of a number's coefficients add up to its variance.  What chance alone
    would give each coefficient is taken off.

    >>> z = np.random.default_rng(1).standard_normal((3, 4000))
    >>> (_main_effects(2 * z[0] + np.exp(0.5 * z[1]), z) / 4).round(2).tolist()
    [1.0, 0.09, 0.0]
    """
    square = z * z
    features = np.concatenate(
        [np.ones((1, z.shape[1])), z, (square - 1) / np.sqrt(2.0), (square - 3) * z / np.sqrt(6.0)]
    ).T
    scale = float(np.std(sample)) or 1.0
    y = (sample - np.mean(sample)) / scale
    inverse = np.linalg.inv(features.T @ features)
    coefficients = inverse @ (features.T @ y)
    noise = float(np.sum((y - features @ coefficients) ** 2)) / max(len(y) - features.shape[1], 1)
    squares = np.maximum(coefficients**2 - noise * np.diag(inverse), 0.0)[1:]
    return np.asarray(squares.reshape(_DEGREE, -1).sum(axis=0) * scale**2)
