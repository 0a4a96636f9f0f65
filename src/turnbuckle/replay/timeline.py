"""The timeline: activities in their recorded dependencies, replayed as a longest path.

Every instant of the run happens when the last of what it waits for has happened (`turnbuckle.profile.dependencies`).
Prices change the lags of edges; waiting is never priced, it is what comes out.  At the identity every recorded instant
comes back, exactly; in between, the run time is convex and piecewise linear in every parameter.

What it cannot know: order on a track stays as recorded, and work that shares a resource without an edge (copies on one
engine, kernels side by side) is not slowed by it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from turnbuckle._native import Timeline
from turnbuckle.profile.dependencies import EDGE, Graph
from turnbuckle.profile.pieces import Pieces

Float = NDArray[np.float64]
Int = NDArray[np.int64]

_NONE = np.uint32(0xFFFFFFFF)


@dataclass(frozen=True)
class Change:
    """What a target changes; arrays may have draws along leading axes.

    Attributes
    ----------
    ratio : per piece, new over measured duration, shape (..., pieces).
    call_seconds : per piece, time added to each host call, shape (..., pieces) [s].
    delivery_seconds : time added between a launch and the start of its kernel, shape (..., 1) or scalar [s].
    return_seconds : time added between the end of work and the return of a wait, shape (..., 1) or scalar [s].
    """

    ratio: Float
    call_seconds: Float
    delivery_seconds: Float
    return_seconds: Float


@dataclass(frozen=True)
class TimelineReplay:
    """A graph compiled for many replays; parameters are the ratio and the added seconds of every piece, delivery, and return."""

    graph: Graph
    run: Pieces
    piece: Int
    native: Timeline

    @classmethod
    def compiled(cls, graph: Graph, run: Pieces, piece_of_row: Int) -> TimelineReplay:
        """Give every edge its terms.

        Parameters
        ----------
        graph : instants and edges of a profile.
        run, piece_of_row : its pieces, and the piece of every row of its activities.
        """
        piece = piece_of_row[graph.activity] if len(graph.activity) else np.zeros(0, dtype=np.int64)
        count, owner = len(run), graph.owner
        of = piece[owner] if len(owner) else np.zeros(0, dtype=np.int64)
        priced = np.isin(graph.kind, [EDGE["run"], EDGE["call"]])
        call = graph.kind == EDGE["call"]
        # copies pay their latency inside their own duration; only launches have a delivery of their own
        launched = np.zeros(len(owner), dtype=np.bool_)
        delivering = graph.kind == EDGE["deliver"]
        launched[delivering] = run.kind[piece[(graph.source[delivering] - 1) // 2]] == "launch"
        waits = graph.kind == EDGE["sync"]
        if waits.any():
            waits[waits] = run.kind[of[waits]] == "sync"
        # a delay of a call comes after its waiting, so it stands on every edge that leads to its return
        returning = np.isin(graph.kind, [EDGE["sync"], EDGE["queue"]])
        first = np.where(priced, of, np.where(returning, count + of, -1))
        second = np.where(call, count + of, np.where(launched, 2 * count, np.where(waits, 2 * count + 1, -1)))
        native = Timeline(
            len(graph.time_ns),
            graph.source.astype(np.uint32),
            graph.target.astype(np.uint32),
            np.ascontiguousarray(graph.lag_ns),
            np.where(first < 0, _NONE, first).astype(np.uint32),
            np.where(priced, graph.lag_ns, 1e9).astype(np.float64),
            np.where(second < 0, _NONE, second).astype(np.uint32),
            np.full(len(second), 1e9),
            np.ascontiguousarray(graph.residual_ns),
            2 * count + 2,
        )
        return cls(graph, run, piece, native)

    def recorded_ns(self) -> Int:
        """Every instant of the unchanged run [ns]; equal to the recording."""
        return np.frombuffer(self.native.recorded(), dtype=np.int64)

    def seconds(self, change: Change, threads: int | None = None) -> Float:
        """Run time after a change [s], shape of the change's leading axes."""
        values = self._values(change)
        flat = np.ascontiguousarray(values.reshape(-1, values.shape[-1]))
        last = np.frombuffer(self.native.last(flat, threads=threads or os.cpu_count() or 1), dtype=np.float64)
        return last.reshape(values.shape[:-1]) * 1e-9

    def path(self, change: Change) -> tuple[Float, Int]:
        """Every instant after one change [s], and the edges of the critical path, last first."""
        instants, path = self.native.replayed(np.ascontiguousarray(self._values(change)))
        return np.frombuffer(instants, dtype=np.float64) * 1e-9, np.frombuffer(path, dtype=np.uint32).astype(np.int64)

    def budget(self, change: Change) -> tuple[Float, Float]:
        """All savings and all delays of all edges added up [s]: what the change could do at most, each way (shape of the draws)."""
        scaled = (change.ratio - 1.0) * self._busy
        delays = change.call_seconds * self._calls
        launches = change.delivery_seconds[..., 0] * self._launches
        returns = change.return_seconds[..., 0] * self._returns

        def total(low: bool) -> Float:
            pick = np.minimum if low else np.maximum
            return np.asarray(pick(scaled, 0.0).sum(-1) + pick(delays, 0.0).sum(-1) + pick(launches, 0.0) + pick(returns, 0.0))

        return total(True), total(False)

    def parts(self, change: Change, part_of_category: dict[str, str], beyond: float) -> dict[str, float]:
        """Where the critical path spends its time [s]: launch, kernel, copy, other (with `beyond`, run time outside the graph)."""
        instants, path = self.path(change)
        graph = self.graph
        source, target, kind = graph.source[path], graph.target[path], graph.kind[path]
        spent = instants[target] - instants[source]
        owner = self.piece[(target - 1) // 2]
        begun_by = self.piece[np.maximum(source - 1, 0) // 2]
        category = self.run.category[owner]
        part = np.full(len(path), "other", dtype=object)
        works = kind == EDGE["run"]
        part[works] = [part_of_category[c] for c in category[works]]
        launching = ((kind == EDGE["call"]) & (self.run.kind[owner] == "launch")) | (
            (kind == EDGE["deliver"]) & (self.run.kind[begun_by] == "launch")
        )
        part[launching] = "launch"
        found = {name: float(spent[part == name].sum()) for name in ("launch", "kernel", "copy", "other")}
        return {**found, "other": found["other"] + beyond}

    @cached_property
    def _busy(self) -> Float:
        """Recorded lag of the edges that scale, per piece [s]."""
        scales = np.isin(self.graph.kind, [EDGE["run"], EDGE["call"]])
        return np.bincount(self._of[scales], weights=self.graph.lag_ns[scales] * 1e-9, minlength=len(self.run)).astype(np.float64)

    @cached_property
    def _calls(self) -> Float:
        return np.bincount(self._of[self.graph.kind == EDGE["call"]], minlength=len(self.run)).astype(np.float64)

    @cached_property
    def _launches(self) -> int:
        begun = self.graph.source[self.graph.kind == EDGE["deliver"]]
        return int((self.run.kind[self.piece[(begun - 1) // 2]] == "launch").sum()) if len(begun) else 0

    @cached_property
    def _returns(self) -> int:
        return int((self.run.kind[self._of[self.graph.kind == EDGE["sync"]]] == "sync").sum())

    @cached_property
    def _of(self) -> Int:
        """Per edge, the piece of the activity it leads to."""
        return self.piece[self.graph.owner] if len(self.piece) else np.zeros(0, dtype=np.int64)

    def explained(self) -> float:
        """Share of the recorded critical path that rules explain; the rest is residual no edge accounts for."""
        _, path = self.path(no_change(len(self.run)))
        last = float(self.graph.time_ns.max())
        if not last:
            return 1.0
        target, kind = self.graph.target[path], self.graph.kind[path]
        unexplained = float(self.graph.residual_ns[target].sum() + self.graph.lag_ns[path][kind == EDGE["origin"]].sum())
        return 1.0 - unexplained / last

    def _values(self, change: Change) -> Float:
        count = len(self.run)
        lead = np.broadcast_shapes(
            change.ratio.shape[:-1],
            change.call_seconds.shape[:-1],
            np.shape(change.delivery_seconds)[:-1],
            np.shape(change.return_seconds)[:-1],
        )
        values = np.empty((*lead, 2 * count + 2))
        values[..., :count] = change.ratio - 1.0
        values[..., count : 2 * count] = change.call_seconds
        values[..., 2 * count : 2 * count + 1] = change.delivery_seconds
        values[..., 2 * count + 1 :] = change.return_seconds
        return values


def no_change(pieces: int) -> Change:
    """The change that leaves everything as recorded."""
    return Change(np.ones(pieces), np.zeros(pieces), np.zeros(1), np.zeros(1))
