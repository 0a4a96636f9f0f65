"""Exclusive time line of a run, on which each instant belongs to one activity.

Categories have the order kernel > copy > MPI > API > CPU (decision D1): an instant in which a
kernel runs belongs to kernels whatever else happens, and so on.  Inside a category an instant
belongs to the activity that began first, and of two that began together to the longer one.  All
arithmetic is on integer nanoseconds, so that the shares add up to the run time exactly.  The native
core does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from turnbuckle import _native
from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.trace.intervals import merge


def exposed(
    start_ns: Int,
    end_ns: Int,
    level: NDArray[np.int8],
    felt_ns: Int | None = None,
    tie: Callable[[], Int] | None = None,
) -> tuple[Int, Bool, Int]:
    """Return the share of the time line that belongs to each interval.

    Parameters
    ----------
    start_ns, end_ns : intervals, any order, ``end >= start``.
    level : priority of each interval, 0 first.
    felt_ns : instant of each interval at which a delay of it takes effect; its end by default.
    tie : gives the order of intervals with the same level, start and end, so that the order of rows
        does not matter; asked where there are any.

    Returns
    -------
    exposed_ns : time of each interval that no interval of higher priority covers, nor an earlier
    one of the same priority. tail_exposed : whether the nanosecond before `felt_ns` belongs to the
    interval on the time line. by_level : exposed time of each level; the sum is the length of the
    union of all intervals.
    """
    felt_ns = end_ns if felt_ns is None else felt_ns
    start, end, felt = (np.ascontiguousarray(column) for column in (start_ns, end_ns, felt_ns))
    level = np.ascontiguousarray(level)
    exposed_ns, tail, by_level, tied = _native.exposed(
        start, end, level, felt, np.zeros(0, dtype=np.int64)
    )
    if tied and tie is not None:
        exposed_ns, tail, by_level, _ = _native.exposed(
            start, end, level, felt, np.ascontiguousarray(tie())
        )
    return (
        np.frombuffer(exposed_ns, dtype=np.int64),
        np.frombuffer(tail, dtype=np.bool_),
        np.array(by_level, dtype=np.int64),
    )


def between(
    starts: Sequence[int] | Int, ends: Sequence[int] | Int, first: int, last: int
) -> tuple[Int, Int]:
    """Return the complement of a set of intervals inside [first, last]: starts and ends of the
    uncovered time.
    """
    start, end = merge(np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64))
    left = np.concatenate([[first], end]).astype(np.int64)
    right = np.concatenate([start, [last]]).astype(np.int64)
    keep = right > left
    return left[keep], right[keep]
