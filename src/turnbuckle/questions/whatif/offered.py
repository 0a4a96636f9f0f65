"""Edits, and the view of a run that they share: calls and device work in order, and the first
instant that needs each piece of work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Int, Text
from turnbuckle.foundation.schema import table_rows
from turnbuckle.machine import Machine
from turnbuckle.profile.dependencies.graph import EDGE, Graph
from turnbuckle.profile.profile import Profile, naming_ranges
from turnbuckle.profile.summary.host_work import SERIAL
from turnbuckle.projection.model import Model
from turnbuckle.projection.order import Prepared
from turnbuckle.trace.window import numbered_steps

#: Classes of call that neither start work nor wait for it, and may stand between two calls that are
#: merged.
_BESIDE: Final = ("query", "event", "module", "other", "stream", "")
_LONG_AFTER: Final = np.iinfo(np.int64).max


_Make = Callable[[Prepared], Prepared]
_NONE: Final = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Edit:
    """A change to the program.

    Attributes
    ----------
    name : by which it is asked for.
    title : what is done, in words.
    count : calls or copies that it changes.
    seconds : what they take together as recorded, waiting included [s].
    needs : what must hold for the program to stay right, as far as the graph cannot show it.
    rests : on what the two ends of its gain rest.
    remedy : how it is written in CUDA and in frameworks.
    least, most : the run with the edit, by the two ends; `least` is None where that is the run as
        it is.
    activities : those of the graph that it changes; their places are shown.
    """

    name: str
    title: str
    count: int
    seconds: float
    needs: str
    rests: str
    most: Callable[[Prepared], Prepared] = field(repr=False)
    least: Callable[[Prepared], Prepared] | None = field(default=None, repr=False)
    activities: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    remedy: str = ""

    @classmethod
    def worded(
        cls,
        kind: str,
        count: int,
        seconds: float,
        most: _Make,
        least: _Make | None = None,
        activities: Int = _NONE,
        name: str = "",
        **words: Any,
    ) -> Edit:
        """Return an edit with the words of its kind in ``edits.csv``, where braces take `words`;
        its name is its kind if left out.
        """
        title, needs, rests = (
            _texts()[kind][part].format(**words) for part in ("title", "needs", "rests")
        )
        return cls(
            name or kind, title, count, seconds, needs, rests, most, least, activities, remedy(kind)
        )


def remedy(kind: str) -> str:
    """Return how a kind of edit is written in CUDA and in frameworks."""
    return _texts()[kind]["remedy"]


@cache
def _texts() -> dict[str, dict[str, str]]:
    return {row["edit"]: row for row in table_rows("questions/whatif/edits.csv")}


@dataclass(frozen=True)
class Seen:
    """A run as edits see it; arrays have one entry for each activity of the graph unless said
    otherwise.

    Attributes
    ----------
    profile, ready : the run, and the same with its order.
    source, model : machine of the recording, and the price list by which work of other sizes is
        priced.
    steady_from_ns : end of the start-up after the run's first instant [ns]; 0 where the recording
        shows none.
    """

    profile: Profile
    ready: Prepared
    source: Machine
    model: Model
    steady_from_ns: int

    @property
    def graph(self) -> Graph:
        """Return the recorded graph."""
        assert self.ready.timeline is not None
        return self.ready.timeline.graph

    @cached_property
    def piece(self) -> Int:
        """Return the piece of each activity."""
        assert self.ready.timeline is not None
        return self.ready.timeline.piece.astype(np.int64)

    @cached_property
    def kind(self) -> Text:
        """Return the kind of each activity."""
        return self.ready.run.kind[self.piece]

    @cached_property
    def direction(self) -> Text:
        """Return the direction of each copy and migration; empty for what is none."""
        return self.ready.run.direction[self.piece]

    @cached_property
    def call_class(self) -> Text:
        """Return the class of each call; empty for work."""
        return self.ready.run.call_class[self.piece]

    @cached_property
    def begins(self) -> Int:
        """Return when each activity began [ns after the run's start]."""
        return self.graph.time_ns[1::2]

    @cached_property
    def ends(self) -> Int:
        """Return when each activity ended [ns after the run's start]."""
        return self.graph.time_ns[2::2]

    @cached_property
    def steady(self) -> Bool:
        """Return which activities began after the start-up."""
        return self.begins >= self.steady_from_ns

    @cached_property
    def name(self) -> Text:
        """Return the name of each activity; empty where it has none."""
        named = self.profile.trace.text(self.profile.activities[self.graph.activity])
        return np.asarray(named.fill_null("").to_list(), dtype=object)

    @cached_property
    def ranges(self) -> pl.DataFrame:
        """Return the ranges that name host work."""
        return naming_ranges(self.profile.trace)

    @cached_property
    def range_words(self) -> list[str]:
        """Return the names of `ranges`."""
        return self.profile.trace.text(self.ranges).str.replace(SERIAL, "").to_list()

    @cached_property
    def steps(self) -> pl.DataFrame:
        """Return the ranges that number a step, in the order of their begins."""
        return numbered_steps(self.profile.trace).sort("start_ns")

    @cached_property
    def track(self) -> Int:
        """Return the host thread or device stream of each activity, as its number in
        ``profile.tracks``.
        """
        return self.profile.activities["track"].gather(self.graph.activity).cast(int).to_numpy()

    @cached_property
    def caller(self) -> Int:
        """Return the call that started each piece of work; -1 where none did."""
        out = np.full(len(self.graph.activity), -1, dtype=np.int64)
        delivers = self.graph.kind == EDGE["deliver"]
        out[self.graph.owner[delivers]] = (self.graph.source[delivers] - 1) // 2
        return out

    @cached_property
    def calls(self) -> Int:
        """Return all calls, thread by thread in the order of their begins."""
        calls = np.flatnonzero(np.isin(self.ready.run.category[self.piece], ("api", "mpi")))
        return calls[np.lexsort((self.begins[calls], self.track[calls]))]

    @cached_property
    def between(self) -> Int:
        """Return per call how many calls of its thread up to it start work, wait or communicate."""
        acts = ~np.isin(self.call_class[self.calls], _BESIDE) | (self.kind[self.calls] == "sync")
        out = np.zeros(len(self.kind), dtype=np.int64)
        out[self.calls] = np.cumsum(acts)
        return out

    @cached_property
    def work(self) -> Int:
        """Return all device work, stream by stream in the order of its begins."""
        work = np.flatnonzero(~np.isin(self.ready.run.category[self.piece], ("api", "mpi")))
        return work[np.lexsort((self.begins[work], self.track[work]))]

    @cached_property
    def kernels(self) -> tuple[Int, Int, Int]:
        """Return per activity the kernel that it starts, and those behind and ahead of it on its
        stream; -1 where there is none.
        """
        work, count = self.work, len(self.kind)
        kernel = self.kind[work] == "kernel"
        place = np.arange(len(work))
        behind = np.full(count, -1, dtype=np.int64)
        ahead = np.full(count, -1, dtype=np.int64)
        if len(work):
            last = np.maximum.accumulate(np.where(kernel, place, -1))
            following = np.minimum.accumulate(np.where(kernel, place, len(work))[::-1])[::-1]
            behind[work] = np.where(last >= 0, work[np.maximum(last, 0)], -1)
            ahead[work] = np.where(
                following < len(work), work[np.minimum(following, len(work) - 1)], -1
            )
            behind[work[(behind[work] >= 0) & (self.track[behind[work]] != self.track[work])]] = -1
            ahead[work[(ahead[work] >= 0) & (self.track[ahead[work]] != self.track[work])]] = -1
        started = np.full(count, -1, dtype=np.int64)
        kernels = work[kernel & (self.caller[work] >= 0)]
        started[self.caller[kernels]] = kernels
        return started, behind, ahead

    @cached_property
    def needed_ns(self) -> Int:
        """Return when the first instant was that needs each piece of work; its call and its
        followers on stream and engine apart.
        """
        out = np.full(len(self.kind), _LONG_AFTER, dtype=np.int64)
        graph = self.graph
        leaves = (
            (graph.source > 0)
            & (graph.source % 2 == 0)
            & ~np.isin(graph.kind, [EDGE["stream"], EDGE["engine"]])
        )
        before, after = graph.source[leaves] // 2 - 1, graph.owner[leaves]
        returns = self.caller[before] == after
        np.minimum.at(out, before[~returns], graph.time_ns[graph.target[leaves][~returns]])
        return out

    @cached_property
    def own_ns(self) -> Int:
        """Return what each call takes besides waiting; 0 for work."""
        out = np.zeros(len(self.kind), dtype=np.int64)
        calls = self.graph.kind == EDGE["call"]
        np.maximum.at(out, self.graph.owner[calls], self.graph.lag_ns[calls])
        return out

    def loops(self, gone: Bool) -> Bool:
        """Return the edges of host time that may go with calls: the loop around them, as far as the
        recording cannot tell it from work.

        Host time beside a call is taken for the loop if it is no longer than the call itself takes.
        Of the pauses around calls that follow each other the longest stays, since the neighbours
        keep one.
        """
        graph, place = self.graph, np.full(len(self.kind), -1, dtype=np.int64)
        place[self.calls] = np.arange(len(self.calls))
        before, after = (np.maximum(ends - 1, 0) // 2 for ends in (graph.source, graph.target))
        pause = (
            (graph.kind == EDGE["host"])
            & (graph.source > 0)
            & (graph.source % 2 == 0)
            & (graph.target % 2 == 1)
        )
        pause &= (
            (place[after] == place[before] + 1)
            & (self.track[after] == self.track[before])
            & (gone[before] | gone[after])
        )
        edges = np.flatnonzero(pause)
        edges = edges[np.argsort(place[after[edges]], kind="stable")]
        out = np.zeros(len(graph.kind), dtype=np.bool_)
        if not len(edges):
            return out
        # two pauses belong together if the call between them goes
        left, right = before[edges], after[edges]
        same = np.concatenate([[False], (right[:-1] == left[1:]) & gone[left[1:]]])
        stretch = np.cumsum(~same) - 1
        longest = np.lexsort((-graph.lag_ns[edges], stretch))[
            np.unique(stretch, return_index=True)[1]
        ]
        limit = np.maximum(
            np.where(gone[left], self.own_ns[left], 0), np.where(gone[right], self.own_ns[right], 0)
        )
        goes = graph.lag_ns[edges] <= limit
        goes[longest] = False
        out[edges[goes]] = True
        return out

    def groups(self, wanted: Bool, joined: Callable[[Int, Int], Bool]) -> list[Int]:
        """Return groups of work that follow each other on a stream, as their calls do, where
        nothing needs the first before the last.

        Parameters
        ----------
        wanted : which work may be in a group.
        joined : whether two neighbours may be in one, of arrays of the first and of the second.
        """
        work = self.work
        before, after = work[:-1], work[1:]
        first, then = self.caller[before], self.caller[after]
        near = (
            wanted[before]
            & wanted[after]
            & (self.track[before] == self.track[after])
            & (first >= 0)
            & (then >= 0)
        )
        near &= (self.ends[before] <= self.begins[after]) & (self.begins[first] < self.begins[then])
        near &= (self.track[first] == self.track[then]) & (
            self.between[then] - self.between[first] == 1
        )
        near[near] = joined(before[near], after[near])
        out: list[Int] = []
        group: list[int] = []
        limit = _LONG_AFTER
        begins, needed = self.begins.tolist(), self.needed_ns
        for place in np.flatnonzero(near).tolist():
            left, right = int(before[place]), int(after[place])
            if not group or group[-1] != left:
                group, limit = [left], _LONG_AFTER
                out.append(group)  # type: ignore[arg-type]
            limit = min(limit, int(needed[left]))
            if begins[right] > limit:
                group, limit = [right], _LONG_AFTER
                out.append(group)  # type: ignore[arg-type]
            else:
                group.append(right)
        return [np.array(members, dtype=np.int64) for members in out if len(members) > 1]
