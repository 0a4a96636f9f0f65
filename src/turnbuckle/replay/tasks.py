"""Declared task graphs, replayed by the native timeline: the dependencies are given, not recorded.

Tasks take fixed times.  A task begins when the last task it waits for has ended (plus the lag of
that edge) and when the task before it on its own track has ended: a track does one task at a time,
in the order in which the tasks are declared.

    end[v] = seconds[v] + max(0, end[u] + lag(u -> v) over its edges, end[previous task on its track])

`replay_tasks` gives every start and end and the critical path of one graph; `run_times` the run
times of many rows of durations and lags; `compile_tasks` a graph whose times are linear in a few
parameters, for very many of them.

The native timeline counts in whole numbers.  Their unit here is not a nanosecond but at most 2^-60
of the sum of all times, so that only the rounding of float64 remains: at most 2^-53 of the run time
for each step of the path.

Errors:

    A025  tasks wait for each other in a circle
    A026  arrays that do not fit, a time that is negative or no number, an edge to a task that does not exist
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnbuckle._native import Timeline
from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.errors import error_of

_NONE: Final = 0xFFFFFFFF
_BITS: Final = 60
#: Tasks up to which a circle is named task by task.
_NAMED: Final = 100_000
#: Values that rows handed to one native call may hold: 128 MiB.
_AT_ONCE: Final = 1 << 24


@dataclass(frozen=True)
class Tasks:
    """Task graph as arrays.

    Attributes
    ----------
    seconds : duration of each task, shape (tasks,) [s].
    track : exclusive track of each task, shape (tasks,), -1 for none; None where no task has one.
        Tasks of one track follow each other in the order of the arrays.
    source, target : edges, shape (edges,): `target` begins no earlier than `source` ends, plus its
        lag.
    lag_seconds : lag of each edge, shape (edges,) [s].

    Raises
    ------
    UsageError : A026.
    """

    seconds: Float
    track: Int | None
    source: Int
    target: Int
    lag_seconds: Float

    def __post_init__(self) -> None:
        for name, what in (
            ("seconds", "the durations of tasks"),
            ("lag_seconds", "the lags of edges"),
        ):
            times = _times(getattr(self, name), what)
            if times.ndim != 1:
                raise error_of("A026.row", found=f"shape {times.shape}", subject=what)
            object.__setattr__(self, name, times)
        for name in ("source", "target"):
            ends = _whole(getattr(self, name), f"the {name}s of edges")
            if ends.shape != self.lag_seconds.shape:
                raise error_of("A026.edges", ends=len(ends), name=name, lags=len(self.lag_seconds))
            if wrong := np.flatnonzero((ends < 0) | (ends >= len(self))).tolist():
                problem = (
                    f"edge {wrong[0]}: {name} {ends[wrong[0]]} of {len(self)} tasks, counted from 0"
                )
                raise error_of("A026.edge", found=problem)
            object.__setattr__(self, name, ends)
        if self.track is not None:
            track = _whole(self.track, "the tracks of tasks")
            if track.shape != self.seconds.shape:
                raise error_of("A026.tracks", tracks=len(track), tasks=len(self))
            object.__setattr__(self, "track", track)

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def on_tracks(self) -> tuple[Int, Int]:
        """Return the edges from each task to the next one on its track, shapes (edges,)."""
        if self.track is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        on_track = np.flatnonzero(self.track >= 0)
        order = on_track[np.argsort(self.track[on_track], kind="stable")]
        follows = self.track[order[1:]] == self.track[order[:-1]]
        return order[:-1][follows], order[1:][follows]


@dataclass(frozen=True)
class Replayed:
    """Result of a replayed task graph.

    Attributes
    ----------
    start_seconds, end_seconds : begin and end of every task, shape (tasks,) [s].
    seconds : run time [s]: the last end.
    path : tasks of one critical path, first to last.
    """

    start_seconds: Float
    end_seconds: Float
    seconds: float
    path: Int


@dataclass(frozen=True)
class Terms:
    """Linear terms of times in a few parameters: seconds + amount x value, lag + amount x value (of
    up to two parameters).

    Attributes
    ----------
    count : number of parameters.
    task_parameter, task_amount : parameter of each task, -1 for none, and seconds for each unit of
        it, shape (tasks,).
    edge_parameter, edge_amount : the same for lags, shape (edges,) or (2, edges).
    """

    count: int
    task_parameter: Int
    task_amount: Float
    edge_parameter: Int
    edge_amount: Float


def replay_tasks(tasks: Tasks) -> Replayed:
    """Replay a task graph.

    Raises
    ------
    UsageError : A025 where tasks wait for each other; the order on a track counts.

    >>> two = Tasks(np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]), np.array([0]), np.array([2]), np.array([0.5]))
    >>> found = replay_tasks(two)
    >>> found.start_seconds.tolist(), found.seconds, found.path.tolist()
    ([0.0, 1.0, 1.5], 5.5, [0, 2])
    """
    if not len(tasks):
        nothing = np.zeros(0)
        return Replayed(nothing, nothing, 0.0, np.zeros(0, dtype=np.int64))
    shift = _shift(tasks)
    lasts, lags = _ticks(tasks.seconds, shift), _ticks(tasks.lag_seconds, shift)
    source, target = _edges(tasks)
    none = np.full(len(source), _NONE, dtype=np.uint32)
    nothing = np.zeros(len(source))
    lag = np.concatenate([lags, np.zeros(len(source) - len(lags), dtype=np.int64)])
    # an instant is the end of a task; what it takes is what no wait explains
    native = _native(
        tasks, len(tasks), source, target, lag, [(none, nothing), (none, nothing)], lasts, 0
    )
    instants, edges = native.replayed(np.zeros(0))
    ends = np.frombuffer(instants, dtype=np.float64)
    starts = np.maximum(ends - lasts, 0.0)
    edge = np.frombuffer(edges, dtype=np.uint32).astype(np.int64)[::-1]
    # no edge on the path: it is a task alone, one that waits for nothing
    alone = np.flatnonzero((starts == 0) & (ends == ends.max()))[:1]
    path = np.append(source[edge], target[edge[-1]]) if len(edge) else alone
    seconds = np.ldexp(ends, -shift)
    return Replayed(np.ldexp(starts, -shift), seconds, float(seconds.max()), path)


def run_times(
    tasks: Tasks,
    seconds: ArrayLike,
    lag_seconds: ArrayLike | None = None,
    *,
    threads: int | None = None,
) -> Float:
    """Return the run times of one structure with many durations and lags [s], shape (rows,); tasks
    are ordered once.

    Parameters
    ----------
    tasks : structure of the graph, and its default lags.
    seconds : durations, shape (rows, tasks) or (tasks,) for all rows [s].
    lag_seconds : lags, shape (rows, edges) or (edges,) for all rows [s].

    >>> chain = Tasks(np.array([1.0, 2.0]), None, np.array([0]), np.array([1]), np.array([0.5]))
    >>> run_times(chain, [[1.0, 2.0], [3.0, 2.0]]).tolist()
    [3.5, 5.5]
    """
    took = np.atleast_2d(_times(seconds, "the durations of tasks"))
    lags = np.atleast_2d(
        tasks.lag_seconds if lag_seconds is None else _times(lag_seconds, "the lags of edges")
    )
    fits = (
        took.shape[1:] == (len(tasks),)
        and lags.shape[1:] == (len(tasks.source),)
        and len({1, len(took), len(lags)}) <= 2
    )
    if not fits:
        shapes = (
            f"durations {took.shape}, lags {lags.shape} for {len(tasks)} tasks and "
            f"{len(tasks.source)} edges"
        )
        raise error_of("A026.times", found=shapes)
    rows = max(len(took), len(lags))
    if not len(tasks):
        return np.zeros(rows)
    count, edges = len(tasks), len(tasks.source)
    terms = Terms(
        count + edges, np.arange(count), np.ones(count), count + np.arange(edges), np.ones(edges)
    )
    still = Tasks(np.zeros(count), tasks.track, tasks.source, tasks.target, np.zeros(edges))
    compiled = compile_tasks(still, terms)
    out = np.empty(rows)
    step = max(1, _AT_ONCE // (count + edges))
    for first in range(0, rows, step):
        part = slice(first, min(first + step, rows))
        values = np.empty((part.stop - first, count + edges))
        values[:, :count] = took if len(took) == 1 else took[part]
        values[:, count:] = lags if len(lags) == 1 else lags[part]
        out[part] = compiled.run_times(values, threads=threads)
    return out


@dataclass(frozen=True)
class Compiled:
    """A task graph compiled for many values of its parameters."""

    tasks: Tasks
    native: Timeline
    shift: int

    def run_times(self, values: Float, *, threads: int | None = None) -> Float:
        """Return the run times [s] at rows of parameters, shape (rows, parameters) -> (rows,); a
        time that falls below 0 counts as 0.
        """
        rows = np.ascontiguousarray(np.atleast_2d(values), dtype=np.float64)
        if not np.isfinite(rows).all():
            raise error_of("A026.values")
        try:
            last = self.native.last(rows, threads=threads or os.cpu_count() or 1)
        except ValueError:
            raise error_of("A026.parameters", found=f"{rows.shape[-1]} values a row") from None
        return np.ldexp(np.frombuffer(last, dtype=np.float64), -self.shift)


def compile_tasks(tasks: Tasks, terms: Terms) -> Compiled:
    """Compile a task graph with at least one parameter.

    Raises
    ------
    UsageError : A025, A026.

    >>> one = Tasks(np.array([1.0, 2.0]), None, np.array([0]), np.array([1]), np.array([0.5]))
    >>> faster = Terms(1, np.array([0, -1]), np.array([1.0, 0.0]), np.array([-1]), np.array([0.0]))
    >>> compile_tasks(one, faster).run_times(np.array([[0.0], [2.0]])).tolist()
    [3.5, 5.5]
    """
    count, edges = len(tasks), len(tasks.source)
    parameter, amount = np.atleast_2d(terms.edge_parameter), np.atleast_2d(terms.edge_amount)
    shapes = (
        np.shape(terms.task_parameter),
        np.shape(terms.task_amount),
        parameter.shape,
        amount.shape,
    )
    if (
        terms.count < 1
        or shapes[:2] != ((count,), (count,))
        or shapes[2] != shapes[3]
        or shapes[2] not in ((1, edges), (2, edges))
    ):
        raise error_of("A026.terms", found=f"shapes {shapes} for {count} tasks and {edges} edges")
    if max(parameter.max(initial=-1), np.max(terms.task_parameter, initial=-1)) >= terms.count:
        raise error_of("A026.parameter", found=f"{terms.count} parameters")
    shift = _shift(tasks)
    source, target = _edges(tasks)
    more = len(source) - edges
    # instants 2 v and 2 v + 1 are start and end of task v; tasks first, then edges, then the order
    # on tracks
    task = np.arange(count)
    starts, ends = (
        np.concatenate([2 * task, 2 * source + 1]),
        np.concatenate([2 * task + 1, 2 * target]),
    )
    lag = np.concatenate(
        [
            _ticks(tasks.seconds, shift),
            _ticks(tasks.lag_seconds, shift),
            np.zeros(more, dtype=np.int64),
        ]
    )
    columns = []
    for which in range(2):
        has = which < len(parameter)
        of_task = terms.task_parameter if which == 0 else np.full(count, -1)
        names = np.concatenate(
            [of_task, parameter[which] if has else np.full(edges, -1), np.full(more, -1)]
        )
        worth = np.concatenate(
            [terms.task_amount, amount[which] if has else np.zeros(edges), np.zeros(more)]
        )
        columns.append(
            (np.where(names < 0, _NONE, names).astype(np.uint32), np.ldexp(worth, shift))
        )
    native = _native(
        tasks,
        2 * count,
        starts,
        ends,
        lag,
        columns,
        np.zeros(2 * count, dtype=np.int64),
        terms.count,
    )
    return Compiled(tasks, native, shift)


def _native(
    tasks: Tasks,
    instants: int,
    source: Int,
    target: Int,
    lag: Int,
    terms: list[tuple[NDArray[np.uint32], Float]],
    residual: Int,
    parameters: int,
) -> Timeline:
    """Build the graph in the native core; the error names the tasks of a circle."""
    (first, unit), (second, other) = terms
    ends = source.astype(np.uint32), target.astype(np.uint32)
    try:
        return Timeline(
            instants,
            *ends,
            lag,
            first,
            np.ascontiguousarray(unit),
            second,
            np.ascontiguousarray(other),
            residual,
            parameters,
        )
    except ValueError as error:
        message, shown = str(error), ""
        if len(tasks) <= _NAMED:
            shown = " -> ".join(map(str, circle(*_edges(tasks))[:9]))
        raise error_of("A025", found=f"task {shown}" if shown else message) from None


def circle(before: Int, after: Int) -> list[int]:
    """Return a circle of edges as its nodes in turn, the first again at the end; an empty list
    where there is none.

    >>> circle(np.array([0, 2, 1]), np.array([1, 1, 2]))
    [1, 2, 1]
    """
    if (before < after).all():
        return []
    graph: dict[int, list[int]] = {}
    for earlier, later in zip(before.tolist(), after.tolist(), strict=True):
        graph.setdefault(later, []).append(earlier)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        nodes: list[int] = error.args[1]
        return nodes
    return []


def _edges(tasks: Tasks) -> tuple[Int, Int]:
    """Return the declared edges, then those along tracks."""
    before, after = tasks.on_tracks
    return np.concatenate([tasks.source, before]), np.concatenate([tasks.target, after])


def _shift(tasks: Tasks) -> int:
    """Return the number of times that a second is halved so that the sum of all times is at most
    2^60 units.
    """
    with np.errstate(over="ignore"):
        total = float(tasks.seconds.sum() + tasks.lag_seconds.sum())
    if not math.isfinite(total):
        raise error_of("A026.overflow")
    return _BITS - math.frexp(total)[1] if total > 0 else 0


def _ticks(seconds: Float, shift: int) -> Int:
    return np.rint(np.ldexp(seconds, shift)).astype(np.int64)


def _times(values: ArrayLike, what: str) -> Float:
    try:
        times = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise error_of("A026.numbers", subject=what) from None
    if wrong := np.flatnonzero(~((times >= 0) & (times < np.inf))).tolist():
        problem = f"{times.ravel()[wrong[0]]:g} s at {wrong[0]}"
        raise error_of("A026.negative", found=problem, subject=what)
    return times


def _whole(values: ArrayLike, what: str) -> Int:
    given = np.asarray(values)
    if given.size and given.dtype.kind not in "iu":
        raise error_of("A026.counts", found=str(given.dtype), subject=what)
    return given.astype(np.int64)
