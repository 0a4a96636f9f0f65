"""Queues: what came first is fetched first, whole recordings at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnbuckle.trace.readers.parts.text_numbers import Int, Mask, runs


class FirstCome:
    """Queues of things that come one by one and are fetched one or more at a time; who finds too few gets what is there.

    Parameters
    ----------
    span : the queue that each event is of, from 0 on, ascending; events of one queue are in their order.
    comes : at which events something comes.
    asks : how many are asked for at each.

    Attributes
    ----------
    served : how many are fetched at each event.
    waiting : how many are in the queue after each.
    """

    def __init__(self, span: Int, comes: Mask, asks: NDArray[Any]) -> None:
        self._span, self._comes = span, comes
        self._first = np.flatnonzero(np.diff(span, prepend=-1))
        came = np.cumsum(comes.astype(np.int64))
        # more than ever came cannot be fetched
        asked = np.minimum(asks, came)
        step = comes - asked
        level = np.cumsum(step)
        level -= (level - step)[self._first][span]
        # each queue far below the one before it, so that the lowest level so far is its own
        reach = np.add.reduceat(comes + asked, self._first) + 1 if len(span) else span
        far = (2 * np.cumsum(reach) - reach)[span]
        lowest = np.minimum.accumulate(level - far) + far
        # where the level falls below all before it, nothing was there to be fetched
        self.waiting: Int = level - np.minimum(lowest, 0)
        before = np.zeros(len(span), dtype=np.int64)
        before[1:] = self.waiting[:-1]
        before[self._first] = 0
        self.served: Int = before + comes - self.waiting

    def fetched(self) -> Int:
        """Places, among all that come, of those that are fetched, in the order of the events that fetch them."""
        event, place = runs(self.served)
        before = np.cumsum(self.served) - self.served
        inside = before - before[self._first][self._span]
        return (self._before() + inside)[event] + place

    def left(self) -> tuple[Int, Int]:
        """Places, among all that come, of those that are never fetched, and the queue of each."""
        if not len(self._span):
            return self._span, self._span
        out = np.add.reduceat(self.served, self._first)
        queue = self._span[self._comes]
        inside = np.arange(len(queue)) - self._before()[self._comes]
        stays = inside >= out[queue]
        return np.flatnonzero(stays), queue[stays]

    def _before(self) -> Int:
        """How many came to the queues before each event's."""
        return (np.cumsum(self._comes) - self._comes)[self._first][self._span]
