"""Exact arithmetic on sets of half-open time intervals ``[start, end)`` in integer nanoseconds.

Kernel time summed exceeds busy time as soon as two streams run at once; a union does not.  Every
function takes arrays of shape (n,) and is exact for times within 2^53 ns either side of zero (which
`turnbuckle.trace.bounds.sound` guarantees).  An interval whose end is not after its start covers
nothing.
"""

from __future__ import annotations

import numpy as np

from turnbuckle.foundation.arrays import Int


def union_ns(start: Int, end: Int) -> int:
    """Return the length of the union of the intervals [ns], in any order.

    >>> union_ns(np.array([0, 5, 20]), np.array([10, 12, 21]))
    13
    """
    starts, ends = merge(start, end)
    return int((ends - starts).sum())


def merge(start: Int, end: Int) -> tuple[Int, Int]:
    """Return the same set of times as disjoint, non-touching intervals in time order: (start, end),
    each of shape (m,), m <= n.
    """
    start, end = _int64(start), _int64(end)
    non_empty = end > start
    if not non_empty.all():
        start, end = start[non_empty], end[non_empty]
    if start.size == 0:
        return start.copy(), end.copy()
    if not _in_order(start):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    cut = np.flatnonzero(start[1:] > reach[:-1])
    return start[np.concatenate(([0], cut + 1))], reach[np.concatenate((cut, [start.size - 1]))]


def covered_ns(start: Int, end: Int, merged_start: Int, merged_end: Int) -> Int:
    """Return, for each interval, how much of it the merged set covers [ns], shape (n,).

    ``merged_start`` and ``merged_end``, shape (m,), must come from `merge`; the intervals may have
    any order and overlap.
    """
    start, end = _int64(start), _int64(end)
    if merged_start.size == 0:
        return np.zeros(start.size, np.int64)
    merged_start, merged_end = _int64(merged_start), _int64(merged_end)
    before = np.concatenate(([0], np.cumsum(merged_end - merged_start)))

    def up_to(time: Int) -> Int:
        """Return the length of the merged set before each time."""
        entered = np.searchsorted(merged_start, time, side="right")
        last = np.maximum(entered - 1, 0)
        inside = np.minimum(time, merged_end[last]) - merged_start[last]
        return np.where(entered > 0, before[last] + inside, 0)

    covered: Int = np.maximum(up_to(end) - up_to(start), 0)
    return covered


def new_cover_ns(start: Int, end: Int) -> Int:
    """Return, for each interval, the part that no earlier one covers [ns], shape (n,); the sum is
    `union_ns`.

    Earlier means an earlier start, or the same start and an earlier place in the array.  Intervals
    sorted by start (as the tables of a `Trace` are) need no sort here.
    """
    start, end = _int64(start), _int64(end)
    if start.size == 0:
        return np.zeros(0, np.int64)
    if not _in_order(start):
        order = np.argsort(start, kind="stable")
        out = np.empty(start.size, np.int64)
        out[order] = new_cover_ns(start[order], end[order])
        return out
    reach = np.maximum.accumulate(end)
    fresh_from = start.copy()
    np.maximum(start[1:], reach[:-1], out=fresh_from[1:])
    fresh: Int = np.maximum(end - fresh_from, 0)
    return fresh


def _in_order(start: Int) -> bool:
    return bool((start[1:] >= start[:-1]).all())


def _int64(values: Int) -> Int:
    return np.ascontiguousarray(values, dtype=np.int64)
