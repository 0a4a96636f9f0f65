"""Steps of a run as a simulator takes them: instants, what each waits for and how long, and the
process that each belongs to.

    Run -> graph of instants, lags in whole nanoseconds -> Steps

The run is taken as recorded, or as projected on another machine.  Lags of a projected run are
rounded to the nanosecond, and its instants are those of the rounded lags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.machine import Machine
from turnbuckle.profile.dependencies.graph import EDGE, Graph
from turnbuckle.profile.dependencies.sides import activities
from turnbuckle.profile.messages.mpi_calls import exchanges
from turnbuckle.profile.profile import Profile
from turnbuckle.projection.elsewhere.network import OnNetwork
from turnbuckle.projection.model import Model, nething
from turnbuckle.projection.order import Prepared
from turnbuckle.projection.run import Run
from turnbuckle.questions.before_after.question import lags_ns, on_both
from turnbuckle.questions.whatif.question import edited
from turnbuckle.replay.timeline import TimelineReplay
from turnbuckle.trace.ids import process_of, thread_number

#: Least size of a message: the first byte is free in LogGP, and LogGOPSim takes a message without
#: bytes for a very long one.
_LEAST_BYTES: Final = 1


@dataclass(frozen=True)
class Steps:
    """A run as instants and waits.

    Attributes
    ----------
    profile : the recording.
    graph : instants and edges; `Graph.lag_ns` are the lags of the run that is written.
    time_ns : when each instant happens [ns after the run's start], shape (instants,).
    run_time_ns : run time [ns]; it may end later than the last instant, where something ends that
        is no activity of the graph.
    projected_on : machine, network and changes that the times are projected for; empty for those of
        the recording.
    """

    profile: Profile
    graph: Graph
    time_ns: Int
    run_time_ns: int
    projected_on: str = ""

    @cached_property
    def rows(self) -> pl.DataFrame:
        """Return the activities of the graph: kind, category, direction, memory, size_bytes, name,
        track, process, row and label.
        """
        columns = ["kind", "category", "direction", "memory", "size_bytes", "name", "track", "row"]
        rows = self.profile.activities[self.graph.activity].select(columns)
        return rows.join(
            self.profile.tracks, on="track", how="left", maintain_order="left"
        ).with_columns(label=self.profile.trace.text(rows))

    @cached_property
    def rank(self) -> Int:
        """Return the rank of each activity: its process by its rank in the world where all are
        recorded, else by its number.
        """
        process = self.rows["process"].fill_null(-1).to_numpy()
        processes = np.unique(process[process >= 0])
        in_world = {
            process_of(thread): rank
            for thread, rank in self.profile.trace.mpi_ranks.select("thread", "rank").iter_rows()
        }
        ranks = [in_world.get(int(p), -1) for p in processes]
        if len(set(ranks)) == len(ranks) and all(rank >= 0 for rank in ranks):
            processes = processes[np.argsort(ranks)]
        numbers = {int(p): k for k, p in enumerate(processes)}
        # what names no process belongs to the first
        return np.array([numbers.get(int(p), 0) for p in process], dtype=np.int64)

    @property
    def ranks(self) -> int:
        """Return the number of ranks, 1 at least."""
        return int(self.rank.max(initial=0)) + 1

    @cached_property
    def rank_of_instant(self) -> Int:
        """Return the rank of each instant; -1 of the run's start, which is every rank's."""
        return np.concatenate([[-1], np.repeat(self.rank, 2)])

    @cached_property
    def waits(self) -> Int:
        """Return the number of edges to each instant that do not come from the run's start without
        a lag.
        """
        graph = self.graph
        counts: Int = np.bincount(graph.target[~self.idle], minlength=len(self.time_ns)).astype(
            np.int64
        )
        return counts

    @cached_property
    def idle(self) -> Bool:
        """Return which edges hold nothing up: from the run's start, without a lag."""
        return np.asarray((self.graph.source == 0) & (self.graph.lag_ns == 0))

    @cached_property
    def crosses(self) -> Bool:
        """Return which edges lead from one rank to another."""
        before, after = (
            self.rank_of_instant[self.graph.source],
            self.rank_of_instant[self.graph.target],
        )
        return np.asarray((before >= 0) & (before != after))

    @cached_property
    def message_bytes(self) -> Int:
        """Return the size of the MPI message behind each edge [B]; 1 for edges that carry none, or
        one of unknown size.
        """
        graph = self.graph
        out: Int = np.full(len(graph.kind), _LEAST_BYTES, dtype=np.int64)
        exchanged = (
            exchanges(activities(self.profile), self.profile.trace)
            if self.profile.trace.mpi.height
            else None
        )
        if exchanged is None or not exchanged.messages.height:
            return out
        pairs = exchanged.messages.select(
            first="activity", then="done_r", size="size_bytes"
        ).drop_nulls()
        sizes = pairs.group_by("first", "then").agg(pl.col("size").sum())
        meets = np.flatnonzero(graph.kind == EDGE["meet"])
        edges = pl.DataFrame(
            {
                "edge": meets,
                "first": (graph.source[meets] - 1) // 2,
                "then": (graph.target[meets] - 1) // 2,
            }
        )
        edges = edges.with_columns(pl.col("first", "then").cast(pl.Int64))
        carried = edges.join(
            sizes.with_columns(pl.col("first", "then").cast(pl.Int64)), on=["first", "then"]
        )
        out[carried["edge"].to_numpy()] = np.maximum(carried["size"].to_numpy(), _LEAST_BYTES)
        return out

    @property
    def beyond_ns(self) -> int:
        """Return the run time after the last instant [ns]."""
        return max(self.run_time_ns - int(self.time_ns.max()), 0)

    def track_name(self, track: int) -> str:
        """Return a track in words: a host thread, or a stream of a GPU."""
        row = self.profile.tracks.row(by_predicate=pl.col("track") == track, named=True)
        if row["what"] == "stream":
            return f"GPU {row['device']} stream {row['stream']}"
        return (
            f"host thread {thread_number(row['thread'])}"
            if row["what"] == "thread" and row["thread"] is not None
            else "host"
        )


def steps(
    run: Run,
    target: Machine | None = None,
    model: Model | None = None,
    network: OnNetwork | None = None,
    apply: Sequence[str] = (),
) -> Steps:
    """Return the steps of a run: as recorded, or on a target, over another network, or with changes
    to the program.

    Raises
    ------
    CannotAnswer : A121, A122, of a run on another machine.
    UsageError : A440, both changes and a network.
    """
    if target is None and network is None and not apply:
        timeline = run.ordered.timeline
        assert timeline is not None
        graph = timeline.graph
        return Steps(run.profile, graph, graph.time_ns, run.profile.run_time_ns)
    priced = replace(model or nething(), replay="timeline")
    changes = changes_of(run, apply, priced, network)
    ready = run.prepared(priced)
    both = on_both(
        run.profile,
        run.source,
        target or run.source,
        priced,
        ready=ready,
        network=network,
        edited=changes,
    )
    lags = np.rint(lags_ns(both.timeline, both.change)).astype(np.int64)
    rounded = TimelineReplay.compiled(
        replace(both.timeline.graph, lag_ns=lags), both.timeline.run, _pieces(both.timeline)
    )
    time_ns = rounded.recorded_ns()
    beyond = run.profile.run_time_ns - int(both.recorded.graph.time_ns.max())
    machine = "" if target is None or target is run.source else target.name
    projected_on = ", ".join(filter(None, [machine, network.name if network else "", *apply]))
    return Steps(run.profile, rounded.graph, time_ns, int(time_ns.max()) + beyond, projected_on)


def changes_of(
    run: Run, apply: Sequence[str], model: Model, network: OnNetwork | None
) -> tuple[Prepared, tuple[str, ...]] | None:
    """Return a run with changes to the program by the end of most gain, and their names; None
    without changes.  Raises A440.
    """
    if apply and network is not None:
        raise error_of("A440")
    return (edited(run, apply, model), tuple(dict.fromkeys(apply))) if apply else None


def _pieces(timeline: TimelineReplay) -> Int:
    """Return the piece of every row of the profile, as far as its activities are in the graph."""
    graph = timeline.graph
    pieces = np.zeros(int(graph.activity.max(initial=-1)) + 1, dtype=np.int64)
    pieces[graph.activity] = timeline.piece
    return pieces
