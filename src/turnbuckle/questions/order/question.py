"""Order of a program from several of its runs: dependencies, the share of false ones, concurrency.

`turnbuckle.questions.order.poset` holds the order itself.  Here it is judged: each run in turn is
left out, and what the others hold for a dependency is looked up in it.  With two orders equally
likely for independent instants, half of the false dependencies of R - 1 runs survive the R-th; that
gives how many are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.profile.dependencies.dependencies import dependencies
from turnbuckle.profile.dependencies.graph import Graph
from turnbuckle.profile.profile import Profile
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.distance import Distance, Mode
from turnbuckle.questions.order.at_once import AtOnce, at_once, kernel_seconds
from turnbuckle.questions.order.poset import Runs, clocks, covers, matched, ordered, ranks
from turnbuckle.replay.tasks import Tasks, replay_tasks

#: Instants up to which the rules' own order is worked out, to see which of the found dependencies
#: they explain.
_MOST_EXPLAINED = 400_000
#: Passes over the edges until nothing more follows; edges of no length may stand in any order.
_ROUNDS = 4


def survival(first_share: Float | float, runs: int) -> Float:
    """Return the share of independent pairs still taken for dependent after some runs: q^R +
    (1-q)^R (poger; models.md 3.6).

    Parameters
    ----------
    first_share : q, how often one of the two comes first.

    >>> survival(0.5, 4).item()
    0.125
    """
    q = np.asarray(first_share, dtype=np.float64)
    return np.asarray(q**runs + (1 - q) ** runs)


def false_share(refuted: Float | float, first_share: Float | float, runs: int) -> Float:
    """Return the share of the dependencies of `runs` runs that are false.

    Parameters
    ----------
    refuted : share of the dependencies of one run fewer that the last run refutes.
    first_share : q of independent pairs; 0.5 where nothing prefers one order.

    >>> round(false_share(0.25, 0.5, 5).item(), 3)
    0.333
    """
    kept = survival(first_share, runs) / survival(first_share, runs - 1)
    refuted = np.minimum(np.asarray(refuted, dtype=np.float64), 1.0 - kept)
    out: Float = np.divide(
        refuted * kept,
        (1.0 - kept) * (1.0 - refuted),
        out=np.zeros_like(refuted * kept),
        where=refuted > 0,
    )
    return np.minimum(out, 1.0)


@dataclass(frozen=True, repr=False)
class Order(Shown):
    """The order that several runs have in common.

    Attributes
    ----------
    runs : activities and times.
    clock : how many instants of each track precede an instant, shape (instants, tracks).
    source, target : dependencies across tracks that no other instant stands between (instants: 2i
        begins, 2i+1 ends activity i).
    refuted : share of the other runs' dependencies that each run refutes, shape (runs,).
    profiles : the recordings.
    """

    question: ClassVar[str] = "order"

    runs: Runs
    clock: Int
    source: Int
    target: Int
    refuted: Float
    first_share: float
    profiles: tuple[Profile, ...]

    @property
    def false(self) -> tuple[float, float] | None:
        """Return the share of the dependencies that are false: if both orders are equally likely,
        and with the preference seen.

        The answer is None if no recording refutes another, because nothing was seen then.
        """
        if not self.refuted.any():
            return None
        mean, runs = float(self.refuted.mean()), len(self.refuted)
        shares = [float(false_share(mean, q, runs)) for q in (0.5, min(self.first_share, 0.95))]
        return min(shares), max(shares)

    def headline(self) -> str:
        """Return the order in one line."""
        tracks = len(self.runs.tracks)
        return (
            f"Order: {len(self.source):,} dependencies across {tracks} threads and streams hold "
            f"in all {len(self.refuted)} recordings"
        )

    @cached_property
    def levels(self) -> Int:
        """Return the number of activities of each level, shape (levels,).

        A level holds the activities whose longest chain of predecessors is equally long.
        """
        return np.bincount(self._level)

    @cached_property
    def _level(self) -> Int:
        return np.round(self._begins(np.ones(len(self.runs)))).astype(np.int64)

    @cached_property
    def at_once(self) -> AtOnce:
        """Return the kernels that may run at once, and whether a second device would be used."""
        seconds = kernel_seconds(self.runs)
        chain = float((self._begins(seconds) + seconds).max(initial=0.0)) if len(self.runs) else 0.0
        return at_once(self.runs, self.clock, self._level, chain)

    def _begins(self, seconds: Float) -> Float:
        """Return when each activity begins if each takes its `seconds` and waits only for those
        before it.
        """
        count = len(self.runs)
        begins, track = 2 * np.arange(count), self.runs.track
        first = np.flatnonzero(np.diff(track, prepend=-1))
        number = np.cumsum(np.diff(track, prepend=-1) != 0) - 1
        source, target = [], []
        for column in range(self.clock.shape[1]):
            # whole activities of the track that have ended
            ended = self.clock[begins, column] // 2
            preceded = (ended > 0) & (number != column)
            source.append(first[column] + ended[preceded] - 1)
            target.append(np.flatnonzero(preceded))
        begin, end = np.concatenate(source), np.concatenate(target)
        out: Float = replay_tasks(
            Tasks(seconds, track, begin, end, np.zeros(len(begin)))
        ).start_seconds
        return out

    @cached_property
    def explained(self) -> Bool | None:
        """Return a mask of the dependencies that follow from the rules on the first recording; None
        where that would take too long.
        """
        graph = dependencies(self.profiles[0])
        if len(graph.time_ns) > _MOST_EXPLAINED:
            return None
        return _follows(graph, self.runs, self.source, self.target)

    def graph(self, run: int = 0) -> Graph:
        """Return the graph of one recording with the dependencies found across tracks, for the
        timeline replay.
        """
        return ordered(dependencies(self.profiles[run]), self.runs, self.source, self.target, run)

    @property
    def explained_share(self) -> float | None:
        """Return the share of the dependencies that follow from the rules; None without any, or
        where that would take too long.
        """
        explained = self.explained
        return None if explained is None or not len(explained) else float(explained.mean())

    @property
    def widest_level(self) -> int:
        """Return the most activities of one level."""
        return int(self.levels.max(initial=0))

    @property
    def mean_level(self) -> float:
        """Return the mean number of activities of a level; 0 without any."""
        return float(self.levels.mean()) if len(self.levels) else 0.0

    def table(self) -> pl.DataFrame:
        """Return the dependencies across tracks, one row each.

        first_track, first, first_instant, then_track, then, then_instant: what precedes what;
        gap_ns: the least time between over the runs; rule: whether it follows from the rules, null
        where that was not worked out.
        """
        runs = self.runs
        gap = (runs.time_ns[:, self.target] - runs.time_ns[:, self.source]).min(0)
        explained = self.explained
        columns: dict[str, object] = {}
        for word, instants in (("first", self.source), ("then", self.target)):
            activity = instants // 2
            columns |= {
                f"{word}_track": [runs.tracks[t] for t in runs.track[activity].tolist()],
                word: [runs.names[i] for i in activity.tolist()],
                f"{word}_instant": np.where(instants % 2 == 0, "begin", "end").tolist(),
            }
        columns["gap_ns"] = np.maximum(gap, 0)
        columns["rule"] = [None] * len(self.source) if explained is None else explained
        return pl.DataFrame(columns, schema_overrides={"rule": pl.Boolean})


def order(profiles: Sequence[Profile]) -> Order:
    """Return the order that several recordings of one program have in common.

    Raises
    ------
    CannotAnswer : A162, A163 (`turnbuckle.questions.order.poset.matched`).
    """
    runs = matched(profiles)
    placed, chain = ranks(runs), runs.chain
    clock = clocks(chain, placed)
    source, target = covers(chain, clock)
    refuted, commoner = [], []
    everyone = np.arange(len(placed))
    for out in everyone.tolist():
        other_runs = placed[everyone != out]
        first, then = covers(chain, clocks(chain, other_runs))
        wrong = placed[out, first] > placed[out, then]
        refuted.append(float(wrong.mean()) if len(first) else 0.0)
        before = (placed[:, first[wrong]] < placed[:, then[wrong]]).mean(0)
        commoner.append(np.maximum(before, 1 - before))
    seen = np.concatenate(commoner)
    share = float(seen.mean()) if len(seen) else 0.5
    return Order(runs, clock, source, target, np.array(refuted), share, tuple(profiles))


def of_runs(runs: Sequence[Run]) -> Order:
    """Return the order that several recordings of one program have in common, as `order` finds
    it.
    """
    return order([run.profile for run in runs])


def at_distance(
    seen: Run, order_found: Order, slack_seconds: float, mode: Mode = "link"
) -> tuple[float, float]:
    """Return the run time of the first recording with added one-way latency [s], by the rules alone
    and with the order found.

    Parameters
    ----------
    seen : the first recording, inspected.
    slack_seconds : added latency [s].

    Raises
    ------
    CannotAnswer : A122, its recorded order cannot be trusted.
    """
    distance = Distance.of(seen, mode)
    beyond = seen.profile.seconds - float(distance.replay.graph.time_ns.max()) * 1e-9
    change = distance.change(np.array([[slack_seconds]]))
    rules, with_order = (
        float(r.seconds(change)[0]) + beyond
        for r in (distance.replay, distance.replay.on(order_found.graph()))
    )
    return rules, with_order


def _follows(graph: Graph, runs: Runs, source: Int, target: Int) -> Bool:
    """Return a mask of the pairs of instants that follow from the edges of a graph.

    Each instant has a clock, which is passed on along the edges.
    """
    instant = 2 * np.repeat(runs.rows[0], 2) + 1 + np.tile([0, 1], len(runs))
    chain, tracks = runs.chain, len(runs.tracks)
    place = (
        np.arange(len(chain))
        - np.flatnonzero(np.diff(chain, prepend=-1))[np.cumsum(np.diff(chain, prepend=-1) != 0) - 1]
    )
    clock = np.zeros((len(graph.time_ns), tracks), dtype=np.int64)
    column = np.full(len(graph.time_ns), -1, dtype=np.int64)
    number = np.cumsum(np.diff(chain, prepend=-1) != 0) - 1
    column[instant] = number
    clock[instant, number] = place + 1
    # edges lead forward in time, and those without delay follow the order of a thread or a stream
    order = np.lexsort((graph.target, graph.source, graph.time_ns[graph.target]))
    for _ in range(_ROUNDS):
        before = clock.sum()
        for begin, end in zip(
            graph.source[order].tolist(), graph.target[order].tolist(), strict=True
        ):
            np.maximum(clock[end], clock[begin], out=clock[end])
        if clock.sum() == before:
            break
    first = clock[instant[source], number[source]]
    held: Bool = clock[instant[target], number[source]] >= first
    return held
