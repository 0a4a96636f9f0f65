"""Graphs of instants: what happens when, and what must have happened before; edges as the rules
find them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.profile.dependencies.sides import NEVER

#: Instants and activities are numbered in 32 bits: the native core takes no more than a quarter of
#: 2^32 instants.
Index = NDArray[np.int32]
Numbers = TypeVar("Numbers", Int, Index)

_SYSTEM: Final = ("host", "call", "deliver", "stream", "engine", "run", "barrier")
EDGES: Final = (*_SYSTEM, "event", "graph", "fault", "sync", "queue", "meet", "origin")
#: Codes of the kinds; ``order`` edges come from several runs of one program
#: (`turnbuckle.questions.order.poset`), not from a rule.
EDGE: Final = {word: code for code, word in enumerate((*EDGES, "order"))}
#: Kinds that follow from one thread, one stream, or a call and its work.
_OWN_ORDER: Final = ("host", "call", "deliver", "stream", "run")
#: Kinds by which work of one stream holds work of another.
_ACROSS: Final = ("engine", "barrier", "event", "graph")


@dataclass(frozen=True)
class Graph:
    """A profile's instants and edges; all arrays of one group have one length.

    Attributes
    ----------
    time_ns : recorded time of every instant after the run's start; 0 is the start, 2i+1 and 2i+2
        begin and end of activity i.
    activity : row of each activity i in ``profile.activities``.
    source, target, lag_ns, kind : the edges; `kind` indexes `EDGES`.
    residual_ns : per instant, what no edge explains.
    paid : per edge, the activity whose price its lag is, where that is not plain from its ends (see
        `payer`); -1 elsewhere.  An edge of a stream that has one leads from the begin of a kernel
        to that of the next, which was launched to overlap it.
    clipped_ns : per instant, by how much its edges had to be shortened because the recording is
        faster than they allow.
    dropped : edges left out because the recording contradicts them.
    overlapping, early : device activities that overlap the one before them on their stream and were
        not launched to do so; that start before their call.
    asleep_ns : by how much loops that sleep between two queries might have returned earlier, and
        later, after the same end of work.
    unmatched : MPI calls and NCCL kernels whose other side should be in the profile and was not
        found.
    unmatched_calls : the first MPI calls among them, in words: rank, call, time.
    """

    time_ns: Int
    activity: Int
    source: Index
    target: Index
    lag_ns: Int
    kind: NDArray[np.int8]
    residual_ns: Int
    clipped_ns: Int
    dropped: int
    overlapping: int = 0
    early: int = 0
    unmatched: int = 0
    unmatched_calls: str = ""
    paid: Index | None = None
    asleep_ns: tuple[int, int] = (0, 0)

    @property
    def owner(self) -> Index:
        """Return per edge the activity whose instant it leads to (index into `activity`)."""
        owner: Index = (self.target - 1) // 2
        return owner

    def kept(self, edges: Bool) -> Graph:
        """Return the same instants with only some of the edges."""
        per_edge = {n: getattr(self, n)[edges] for n in ("source", "target", "lag_ns", "kind")}
        return replace(self, **per_edge, paid=None if self.paid is None else self.paid[edges])

    @property
    def begun_within(self) -> Bool:
        """Return which edges lead from the begin of a kernel to that of another that begins while
        it runs: launched to, or in its tail.
        """
        within = np.isin(self.kind, (EDGE["stream"], EDGE["engine"]))
        return (
            np.zeros(len(self.kind), dtype=np.bool_)
            if self.paid is None
            else within & (self.paid >= 0)
        )

    @property
    def payer(self) -> Index:
        """Return per edge the activity whose price its lag is: the call of a delivery, the kernel
        between its faults, else `owner`.
        """
        return self.payers(slice(None))

    def payers(self, edges: Int | slice) -> Index:
        """Return `payer` of some edges."""
        source, target = self.source[edges], self.target[edges]
        payer = np.where(self.kind[edges] == EDGE["deliver"], (source - 1) // 2, (target - 1) // 2)
        return (
            payer if self.paid is None else np.where(self.paid[edges] >= 0, self.paid[edges], payer)
        )


@dataclass
class Edges:
    """Edges as the rules find them: source, target, lag, payer and kind of each group."""

    parts: list[tuple[str, tuple[Index, Index, Int, Index, NDArray[np.int8]]]] = field(
        default_factory=list
    )

    def add(
        self, source: Int, target: Int, lag: Int | int, kind: str, paid: Int | int = -1
    ) -> None:
        if not len(source):
            return
        before, after = (np.asarray(ends, dtype=np.int32) for ends in (source, target))
        lags = np.broadcast_to(np.asarray(lag, dtype=np.int64), before.shape)
        payers = np.broadcast_to(np.asarray(paid, dtype=np.int32), before.shape)
        self.parts.append(
            (
                kind,
                (before, after, lags, payers, np.broadcast_to(np.int8(EDGE[kind]), before.shape)),
            )
        )

    def held_until(self, ends: Int) -> Int:
        """Return when the last work of another stream ended that each activity waits for; `NEVER`
        for none.
        """
        out = np.full(len(ends), NEVER, dtype=np.int64)
        for kind, (source, target, *_) in self.parts:
            if kind in _ACROSS:
                np.maximum.at(out, (target - 1) // 2, ends[(source - 1) // 2])
        return out


def begin(activity: Numbers) -> Numbers:
    """Return the index in `Graph.time_ns` of the begin of each activity, by index in
    `Graph.activity`.
    """
    return 2 * activity + 1


def finish(activity: Numbers) -> Numbers:
    """Return the index in `Graph.time_ns` of the end of each activity, by index in
    `Graph.activity`.
    """
    return 2 * activity + 2


def settled(activity: Int, starts: Int, ends: Int, edges: Edges) -> Graph:
    """Return all edges as arrays; none may put an instant later than recorded, and an instant that
    waits for nothing has its origin.
    """
    time = np.zeros(2 * len(activity) + 1, dtype=np.int64)
    time[1::2], time[2::2] = starts, ends
    lasts = ends > starts
    waits = np.zeros(len(time), dtype=np.bool_)
    waits[0] = True
    kept, dropped = [], 0
    for word, part in edges.parts:
        source, target = part[:2]
        room = time[target] - time[source]
        dropped += int((room < 0).sum())
        # a thread's and a stream's own order cannot close a ring; the other rules cannot either if
        # they lead strictly forward in time, or to the begin of work that takes time
        least = (
            np.where((target % 2 == 1) & lasts[(target - 1) // 2], 0, 1)
            if word in _ACROSS
            else int(word not in _OWN_ORDER)
        )
        agrees = room >= least
        kept.append(tuple(values[agrees] for values in part))
        waits[target[agrees]] = True
    # groups are larger than the graph they make: each goes before the next array is joined
    edges.parts.clear()
    lonely = np.flatnonzero(~waits).astype(np.int32)
    origin = np.full(len(lonely), EDGE["origin"], dtype=np.int8)
    kept.append((np.zeros_like(lonely), lonely, time[lonely], np.full_like(lonely, -1), origin))
    source, target, lag, paid, kind = (np.concatenate(group) for group in zip(*kept, strict=True))
    kept.clear()
    room = time[target] - time[source]
    # few edges are shortened: pages that nothing is written to take no memory
    clipped = np.zeros(len(time), dtype=np.int64)
    over = np.flatnonzero(lag > room)
    np.maximum.at(clipped, target[over], (lag - room)[over])
    lag = np.minimum(lag, room)
    latest = np.zeros(len(time), dtype=np.int64)
    np.maximum.at(latest, target, time[source] + lag)
    return Graph(
        time, activity, source, target, lag, kind, time - latest, clipped, dropped, paid=paid
    )
