"""Alignment of the ranks' clocks, where each rank recorded its own.

A message is received after its send began.  A barrier (or an allreduce, allgather or alltoall that
moves bytes) returns on each rank after it began on every other.  Both bound the difference of two
clocks.  Where the recorded times contradict a bound, each rank is shifted by a constant: the middle
of the interval that all bounds leave it, found by shortest paths.  Clocks that drift leave no
interval; all bounds are then loosened by the least of 1024, 4096, 16384 ns and so on that leaves
one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.trace.ids import rank_of
from turnbuckle.trace.readers.parts.mpi_tables import COLLECTIVE, MESSAGE, REQUEST

_FAR: Final = 2**61
#: Largest number of collectives of a communicator that are used, evenly spread.
_USED: Final = 64
_ROUNDS: Final = 1000
_MEETS: Final = r"^(barrier|allreduce|allgatherv?|alltoall)$"
_STREAM: Final = ["communicator", "source", "target", "tag"]


@dataclass(frozen=True)
class Shifts:
    """Shift of each rank's clock."""

    #: time to add to each rank's clock, shape (ranks,) [ns]; all 0 where nothing contradicts the
    #: recorded times
    by: Int
    moved: int
    loose: int  #: number of ranks to be shifted that are bound from one side only, or from none
    within: int  #: half of the widest interval of the ranks bound from both sides [ns]
    messages: int
    collectives: int
    #: left, late: number of messages that still arrive before they are sent, and by how much at
    #: most [ns]
    left: int
    late: int


def shifts(mpi: pl.DataFrame, members: pl.DataFrame, names: pl.Series, ranks: int) -> Shifts:
    """Return the shifts of the ranks' clocks.

    Parameters
    ----------
    mpi, members : tables ``mpi`` and ``mpi_communicators``; times on each rank's own clock.
    """
    does = names.str.to_lowercase().str.strip_prefix("mpi_")
    calls = mpi.with_columns(rank=rank_of(pl.col("thread"))).join(
        members.select("rank", "communicator", me="local_rank"),
        on=["rank", "communicator"],
        how="left",
        maintain_order="left",
    )
    pairs = _messages(calls, does)
    met = _collectives(calls, does)
    # An edge from v to u of weight w bounds the shift of u by that of v plus w.
    send, receive, slack = (pairs[c].to_numpy() for c in ("sender", "receiver", "slack"))
    node = ranks + met["meeting"].to_numpy()
    rank, begin, end = (met[c].to_numpy() for c in ("rank", "start_ns", "end_ns"))
    latest = (
        met.group_by("meeting").agg(late=(pl.col("start_ns").max() - pl.col("end_ns").min()))[
            "late"
        ]
        if met.height
        else pl.Series([0])
    )
    nothing = np.zeros(ranks, dtype=np.int64)
    collectives = met["meeting"].n_unique()
    if (slack.min(initial=0) >= 0) and int(latest.max() or 0) <= 0:  # type: ignore[arg-type]
        return Shifts(nothing, 0, 0, 0, pairs.height, collectives, 0, 0)
    # Only the tightest bound from one rank to another matters.
    least = pairs.group_by("sender", "receiver").agg(pl.col("slack").min())
    senders, receivers, tightest = (least[c].to_numpy() for c in ("sender", "receiver", "slack"))
    tails = np.concatenate([receivers, node, rank])
    heads = np.concatenate([senders, rank, node])
    # Times are relative to a meeting's first begin, so that sums stay small.
    zero = np.zeros(collectives + 1, dtype=np.int64)
    if met.height:
        zero[:collectives] = begin[np.unique(met["meeting"].to_numpy(), return_index=True)[1]]
    meeting_zero = zero[met["meeting"].to_numpy()] if met.height else begin
    weight = np.concatenate([tightest, meeting_zero - begin, end - meeting_zero])
    slackened = np.concatenate(
        [
            np.ones(len(tightest), np.bool_),
            np.ones(len(begin), np.bool_),
            np.zeros(len(begin), np.bool_),
        ]
    )
    nodes = ranks + collectives
    extra = 0
    while True:
        loosened = weight + extra * slackened
        high, low = _reach(tails, heads, loosened, nodes), _reach(heads, tails, loosened, nodes)
        if (high is not None and low is not None) or extra >= _FAR >> 4:
            break
        extra = max(4 * extra, 1024)
    if high is None or low is None:
        return Shifts(
            nothing,
            0,
            ranks,
            0,
            pairs.height,
            collectives,
            int((slack < 0).sum()),
            int(-slack.min(initial=0)),
        )
    upper, lower = high[:ranks], -low[:ranks]
    above, below = upper < _FAR // 2, lower > -_FAR // 2
    bound = above & below
    by = np.where(
        bound,
        lower + (upper - lower) // 2,
        np.where(above, np.minimum(upper, 0), np.where(below, np.maximum(lower, 0), 0)),
    )
    after = slack + by[receive] - by[send]
    within = int((upper - lower)[bound].max(initial=0)) // 2
    return Shifts(
        by,
        int((by != 0).sum()),
        int((~bound).sum()),
        within,
        pairs.height,
        collectives,
        int((after < 0).sum()),
        int(-after.min(initial=0)),
    )


def _reach(tails: Int, heads: Int, weight: Int, nodes: int) -> Int | None:
    """Return the length of the shortest path from node 0 to each node, shape (nodes,); `_FAR` where
    there is none.

    Returns None where a cycle has a negative length.
    """
    length = np.full(nodes, _FAR, dtype=np.int64)
    length[0] = 0
    for _ in range(min(nodes + 1, _ROUNDS)):
        before = length.copy()
        reached = length[tails] < _FAR
        np.minimum.at(length, heads[reached], length[tails[reached]] + weight[reached])
        if length[0] < 0:
            return None
        if np.array_equal(before, length):
            return length
    return None


def _messages(calls: pl.DataFrame, does: pl.Series) -> pl.DataFrame:
    """Return the least slack between the begin of a send and the end of its receive [ns]: columns
    sender, receiver (ranks of the world), slack.

    The k-th send of a stream matches its k-th receive; streams with unequal numbers are left out.
    Each message has one row.
    """
    sends, receives = (
        does.str.contains(pattern).arg_true().implode()
        for pattern in (r"^i?[bsr]?send$", r"^i?recv$")
    )
    number = pl.col("name").cast(pl.UInt32)
    described = calls.filter(
        pl.col("kind") == MESSAGE,
        pl.col("partner") >= 0,
        pl.col("tag").is_not_null(),
        pl.col("me").is_not_null(),
    )
    waits = calls.filter(pl.col("kind") == REQUEST, pl.col("request").is_not_null()).select(
        "thread", "request", "start_ns", done_ns="end_ns"
    )
    waits = waits.sort("start_ns", maintain_order=True)
    sent = described.filter(number.is_in(sends)).select(
        "communicator", source="me", target="partner", tag="tag", sent="start_ns", sender="rank"
    )
    received = described.filter(number.is_in(receives)).sort("start_ns", maintain_order=True)
    done = pl.when(pl.col("request").is_null()).then("end_ns").otherwise("done_ns")
    received = received.join_asof(
        waits, on="start_ns", by=["thread", "request"], strategy="forward", check_sortedness=False
    )
    received = received.select(
        "communicator", source="partner", target="me", tag="tag", receiver="rank", done=done
    )
    sides = [
        f.with_columns(k=pl.int_range(pl.len()).over(_STREAM), of=pl.len().over(_STREAM))
        for f in (sent, received)
    ]
    pairs = (
        sides[0]
        .join(sides[1], on=[*_STREAM, "k", "of"])
        .with_columns(slack=pl.col("done") - pl.col("sent"))
    )
    return (
        pairs.filter(pl.col("sender") != pl.col("receiver"))
        .drop_nulls("slack")
        .select("sender", "receiver", "slack")
    )


def _collectives(calls: pl.DataFrame, does: pl.Series) -> pl.DataFrame:
    """Return the calls that all members of a communicator made alike: columns meeting (number),
    rank, start_ns, end_ns.
    """
    wanted = does.str.contains(_MEETS).arg_true().implode()
    barriers = does.eq("barrier").arg_true().implode()
    number = pl.col("name").cast(pl.UInt32)
    all_of = calls.filter(pl.col("kind") == COLLECTIVE, pl.col("me").is_not_null()).with_columns(
        k=pl.int_range(pl.len()).over("communicator", "rank"),
        n=pl.len().over("communicator", "rank"),
    )
    instance = ["communicator", "k"]
    alike = (pl.col("n").n_unique() == 1).over("communicator") & (
        pl.col("name").n_unique() == 1
    ).over(instance)
    sized = number.is_in(barriers) | (pl.col("size_bytes") > 0)
    kept = all_of.filter(alike, (pl.len() > 1).over(instance), number.is_in(wanted), sized)
    # The collectives used are evenly spread, with the first and the last among them, so that they
    # cover the whole run.
    kept = kept.with_columns(
        at=pl.col("k").rank("dense").over("communicator"),
        of=pl.col("k").n_unique().over("communicator"),
    )
    step = (pl.col("of") // _USED).clip(1)
    kept = kept.filter(
        (pl.col("at") % step == 0) | (pl.col("at") == 1) | (pl.col("at") == pl.col("of"))
    )
    return kept.with_columns(meeting=pl.struct(instance).rank("dense").cast(pl.Int64) - 1).select(
        "meeting", "rank", "start_ns", "end_ns"
    )
