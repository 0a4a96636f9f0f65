"""Ranks that meet: which MPI calls and NCCL kernels of one profile cannot end before which others
have begun.

A receive waits for its send; a synchronous send, or one too large to leave early, for its receive;
a collective for those whose data it needs (`turnbuckle.profile.messages.mpi_calls`).  NCCL kernels
of one operation wait for each other (`turnbuckle.profile.messages.nccl`).  What cannot be told is
left alone and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.profile.messages.mpi_calls import FROM_ROOT, PREFIX, TO_ROOT, exchanges
from turnbuckle.profile.messages.nccl import kernels_that_meet
from turnbuckle.trace.trace import Trace

#: So many sends must be seen to wait: the first message between two ranks is slow for other
#: reasons.
_WITNESSES: Final = 3


@dataclass(frozen=True)
class Meetings:
    """Pairs of activities: ``waits[i]`` cannot end before ``first[i]`` has begun.

    Attributes
    ----------
    first, waits : activities, shape (pairs,); the recording agrees with every pair.
    unmatched : calls and kernels whose other side the profile should have and does not show, and
        pairs it contradicts.
    alone : the MPI calls among them, as in `turnbuckle.profile.messages.mpi_calls.Exchanges`; None
        where there is none.
    """

    first: Int
    waits: Int
    unmatched: int
    alone: pl.DataFrame | None = None


def meetings(rows: pl.DataFrame, starts: Int, ends: Int, trace: Trace) -> Meetings:
    """Return the pairs of activities of which one cannot end before the other has begun: messages,
    collectives and NCCL kernels.

    Pairs that the recorded times contradict are left out and counted.

    Parameters
    ----------
    rows : activities with kind, category, name, row, process, device and stream.
    starts, ends : when each begins and ends [ns], shape (``rows.height``,).
    trace : the recording the activities come from.
    """
    parts = [_mpi(rows, trace), Meetings(*kernels_that_meet(rows, starts, ends, trace))]
    first, waits = (
        np.concatenate([getattr(p, side) for p in parts]) for side in ("first", "waits")
    )
    there = (first >= 0) & (waits >= 0) & (first != waits)
    pair = np.sort(first[there] * rows.height + waits[there])
    first, waits = np.divmod(pair[np.diff(pair, prepend=-1) != 0], max(rows.height, 1))
    # strictly before: no ring of meetings at one instant
    held = starts[first] < ends[waits]
    return Meetings(
        first[held],
        waits[held],
        sum(p.unmatched for p in parts) + int((~held).sum()),
        parts[0].alone,
    )


def _nothing(unmatched: int = 0) -> Meetings:
    return Meetings(np.zeros(0, np.int64), np.zeros(0, np.int64), unmatched)


def _mpi(rows: pl.DataFrame, trace: Trace) -> Meetings:
    exchanged = exchanges(rows, trace)
    if exchanged is None:
        return _nothing()
    first, then = (
        np.concatenate(sides)
        for sides in zip(
            _of_rounds(exchanged.rounds), _of_messages(exchanged.messages), strict=True
        )
    )
    return Meetings(
        first, then, exchanged.unmatched, exchanged.alone if exchanged.unmatched else None
    )


def _of_messages(pairs: pl.DataFrame) -> tuple[Int, Int]:
    """Pair each receive with its send's begin, and each send that cannot leave early with its
    receive.
    """
    waits = pairs.filter(rendezvous(pairs))
    first = np.concatenate([pairs["activity"].to_numpy(), waits["activity_r"].to_numpy()])
    return first, np.concatenate([pairs["done_r"].to_numpy(), waits["done"].to_numpy()])


def rendezvous(pairs: pl.DataFrame) -> pl.Series:
    """Return which messages cannot leave before their receive is posted: of synchronous sends, and
    those too large to leave early.
    """
    return _too_large(pairs) | pairs["does"].str.contains(r"^i?ssend(_init)?$").fill_null(False)


def _too_large(pairs: pl.DataFrame) -> pl.Series:
    """Return which plain sends wait for their receive: of the size at which that has been seen
    `_WITNESSES` times, or larger.

    It is seen where a blocking send has not returned when its receive begins, though a send of its
    size (within a factor of two) that finds its receive waiting takes less time than that.  It
    counts only above the largest size that left early: that was done before its receive began.
    """
    size, late, lasts = (
        pl.col("size_bytes"),
        pl.col("start_ns_r") - pl.col("start_ns"),
        pl.col("done_until") - pl.col("start_ns"),
    )
    plain = pl.col("does").str.contains(r"^(i?send(_init)?|i?sendrecv(_replace)?)$")
    eager = pairs.filter(plain, pl.col("done") >= 0, pl.col("done_until") <= pl.col("start_ns_r"))[
        "size_bytes"
    ].max()
    blocking = pairs.filter(pl.col("does") == "send").with_columns(
        octave=size.clip(1).log(2).floor()
    )
    alone = pl.when((late <= 0) | (late >= lasts)).then(lasts)
    blocking = blocking.with_columns(
        alone=pl.coalesce(alone.median().over("octave"), alone.median(), 0)
    )
    above = pl.lit(True) if eager is None else size > eager
    held = (
        blocking.filter(above, late > pl.col("alone"), late < lasts)["size_bytes"]
        .drop_nulls()
        .sort()
    )
    if len(held) < _WITNESSES:
        return pl.repeat(False, pairs.height, eager=True, dtype=pl.Boolean)
    return pairs.select((plain & (size >= held[_WITNESSES - 1])).fill_null(False)).to_series()


def _of_rounds(good: pl.DataFrame) -> tuple[Int, Int]:
    """Pair the members of a collective: all wait for all, for the root, the root for all, or each
    for those before it.
    """
    group = ["comm", "k"]
    first = good.select(*group, "activity", a="me")
    then = good.filter(pl.col("done") >= 0).select(*group, "done", "does", "root", b="me")
    of_root = pl.when(pl.col("does").is_in(FROM_ROOT)).then(pl.col("a") == pl.col("root"))
    to_root = of_root.when(pl.col("does").is_in(TO_ROOT)).then(pl.col("b") == pl.col("root"))
    needed = (
        to_root.when(pl.col("does").is_in(PREFIX)).then(pl.col("a") < pl.col("b")).otherwise(True)
    )
    pairs = first.join(then, on=group).filter(needed & (pl.col("a") != pl.col("b")))
    return pairs["activity"].to_numpy(), pairs["done"].to_numpy()
