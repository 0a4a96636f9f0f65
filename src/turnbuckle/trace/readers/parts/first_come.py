"""First-in first-out queues, solved for whole recordings at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int, runs


class FirstCome:
    """Queues of items that come one by one and are fetched one or more at a time; a fetch gets no
    more items than are waiting.

    Parameters
    ----------
    span : the queue of each event, from 0 on, ascending; events of one queue are in their order.
    """

    def __init__(self, span: Int, comes: Bool, asks: NDArray[Any]) -> None:
        self._span, self._comes = span, comes
        self._first = np.flatnonzero(np.diff(span, prepend=-1))
        came = np.cumsum(comes.astype(np.int64))
        # no event can fetch more than ever came; the limit keeps the sums below small
        asked = np.minimum(asks, came)
        step = comes - asked
        level = np.cumsum(step)
        level -= (level - step)[self._first][span]
        # shifting each queue far below the one before makes one running minimum serve all queues
        reach = np.add.reduceat(comes + asked, self._first) + 1 if len(span) else span
        far = (2 * np.cumsum(reach) - reach)[span]
        lowest = np.minimum.accumulate(level - far) + far
        # a new lowest level below 0 means that this many requests found an empty queue
        self.waiting: Int = level - np.minimum(lowest, 0)
        before = np.zeros(len(span), dtype=np.int64)
        before[1:] = self.waiting[:-1]
        before[self._first] = 0
        self.served: Int = before + comes - self.waiting

    def fetched(self) -> Int:
        """Return the places, among all items, of those that are fetched, in the order of the events
        that fetch them.
        """
        event, place = runs(self.served)
        before = np.cumsum(self.served) - self.served
        inside = before - before[self._first][self._span]
        return (self._before() + inside)[event] + place

    def left(self) -> tuple[Int, Int]:
        """Return the places, among all items, of those that are never fetched, and the queue of
        each.
        """
        if not len(self._span):
            return self._span, self._span
        out = np.add.reduceat(self.served, self._first)
        queue = self._span[self._comes]
        inside = np.arange(len(queue)) - self._before()[self._comes]
        stays = inside >= out[queue]
        return np.flatnonzero(stays), queue[stays]

    def _before(self) -> Int:
        """Return how many items came to earlier queues than each event's."""
        return (np.cumsum(self._comes) - self._comes)[self._first][self._span]
