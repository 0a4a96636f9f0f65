"""Exclusive time line of a run, on which each instant belongs to one activity.

Categories have the order kernel > copy > MPI > API > CPU (decision D1): an instant in which a kernel runs belongs to kernels whatever
else happens, and so on.  Inside a category an instant belongs to the activity that began first, and of two that began together to the
longer one.  All arithmetic is on integer nanoseconds, so that the shares add up to the run time exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.trace.intervals import covered_ns, merge, new_cover_ns


def exposed(
    start_ns: Int, end_ns: Int, level: NDArray[np.int8], felt_ns: Int | None = None, tie: Int | None = None
) -> tuple[Int, Bool, Int]:
    """Return the share of the time line that belongs to each interval.

    Parameters
    ----------
    start_ns, end_ns : intervals, any order, ``end >= start``.
    level : priority of each interval, 0 first.
    felt_ns : instant of each interval at which a delay of it takes effect; its end by default.
    tie : order of intervals with the same level, start and end, so that the order of rows does not matter.

    Returns
    -------
    exposed_ns : time of each interval that no interval of higher priority covers, nor an earlier one of the same priority.
    tail_exposed : whether the nanosecond before `felt_ns` belongs to the interval on the time line.
    by_level : exposed time of each level; the sum is the length of the union of all intervals.
    """
    felt_ns = end_ns if felt_ns is None else felt_ns
    tie = np.zeros(len(start_ns), dtype=np.int64) if tie is None else tie
    exposed_ns = np.zeros(len(start_ns), dtype=np.int64)
    tail = np.zeros(len(start_ns), dtype=np.bool_)
    levels = int(level.max()) + 1 if len(level) else 0
    by_level = np.zeros(levels, dtype=np.int64)
    higher: tuple[Int, Int] = (np.empty(0, np.int64), np.empty(0, np.int64))
    for this in range(levels):
        rows = np.flatnonzero(level == this)
        if not len(rows):
            continue
        # of two that begin together, the longer holds the other
        rows = rows[np.lexsort((tie[rows], -end_ns[rows], start_ns[rows]))]
        start, end, felt = start_ns[rows], end_ns[rows], felt_ns[rows]
        new = new_cover_ns(start, end)
        exposed_ns[rows] = new - covered_ns(end - new, end, *higher)
        tail[rows] = (felt > end - new) & (felt <= end) & (new > 0) & (covered_ns(felt - 1, felt, *higher) == 0)
        by_level[this] = exposed_ns[rows].sum()
        higher = merge(np.concatenate([higher[0], start]), np.concatenate([higher[1], end]))
    return exposed_ns, tail, by_level


def between(starts: Sequence[int] | Int, ends: Sequence[int] | Int, first: int, last: int) -> tuple[Int, Int]:
    """Return the complement of a set of intervals inside [first, last]: starts and ends of the uncovered time."""
    start, end = merge(np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64))
    left = np.concatenate([[first], end]).astype(np.int64)
    right = np.concatenate([start, [last]]).astype(np.int64)
    keep = right > left
    return left[keep], right[keep]
