"""What threads do, put in order by one sort: so that a program of ten million messages is made in little more memory than it has.

An operation belongs to a call, and to a slot of that call.  Call and slot, as one number, are its key.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.replay.contention import Op

Float = NDArray[np.float64]
Whole = NDArray[np.integer[Any]]

#: A sort key that native integers hold, and how many are dealt with at a time.
_KEY_BITS: Final = 64
_BLOCK: Final = 1 << 20


class Slot(IntEnum):
    """Slots of a call: compute before it, room for what comes, what is sent, what is awaited, buffers, the steps of a collective."""

    GAP = 0
    POST = 1
    SEND = 2
    AWAIT = 3
    SENT = 4
    ROUND = 5


class Operations:
    """Operations of all threads, in any order but that of one slot of a call, which is the order in which they are added.

    Slots of a call, in order: compute, room for what comes, what is sent, what is awaited, buffers, the steps of a collective (as many
    times four), and what is kept.
    """

    def __init__(self, thread: NDArray[np.uint32], steps: int) -> None:
        by_thread = np.argsort(thread, kind="stable")
        self.place = np.empty(len(thread), dtype=np.uint32)
        self.place[by_thread] = np.arange(len(thread), dtype=np.uint32)
        self.calls = np.bincount(thread)
        self.kept = Slot.ROUND + 4 * steps
        self.slot_bits = np.uint64(self.kept.bit_length())
        self.parts: list[tuple[NDArray[np.uint64], NDArray[np.uint8] | int, NDArray[np.uint32]]] = []
        self.work: list[Float] = []
        self.works = 0

    def add(self, call: Whole, slot: Whole | int, code: NDArray[np.uint8] | int, arg: Whole) -> None:
        """An operation for each call."""
        key = self.place[call].astype(np.uint64)
        key <<= self.slot_bits
        key |= np.asarray(slot).astype(np.uint64)
        self.parts.append((key, code, arg.astype(np.uint32, copy=False)))

    def add_work(self, call: Whole, slot: int, seconds: Float) -> None:
        """Work, where it takes any time."""
        some = np.flatnonzero(seconds > 0)
        self.add(call[some], slot, Op.WORK, self.worked(seconds[some]))

    def worked(self, seconds: Float) -> NDArray[np.uint32]:
        """Numbers of pieces of work."""
        first = self.works
        self.work.append(seconds)
        self.works += len(seconds)
        return np.arange(first, self.works, dtype=np.uint32)

    def ordered(self) -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint32]]:
        """First operation of each thread, operations, arguments."""
        count = sum(len(key) for key, _, _ in self.parts)
        # the number of each in the low bits: sorting in place keeps what is alike in the order in which it was added
        bits = np.uint64(count.bit_length())
        packed = (len(self.place).bit_length() + int(self.slot_bits) + int(bits)) <= _KEY_BITS
        keys, codes, args = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.uint8), np.empty(count, dtype=np.uint32)
        begins = np.append(0, np.cumsum(self.calls)).astype(np.uint64) << self.slot_bits
        at = 0
        for key, code, arg in self.parts:
            here = slice(at, at + len(key))
            keys[here], codes[here], args[here] = key, code, arg
            at += len(key)
        self.parts.clear()
        if packed:
            keys <<= bits
            for at in range(0, count, _BLOCK):
                keys[at : at + _BLOCK] |= np.arange(at, min(at + _BLOCK, count), dtype=np.uint64)
            keys.sort()
            first = np.searchsorted(keys, begins << bits)
            keys &= (np.uint64(1) << bits) - np.uint64(1)
            order = keys.view(np.int64)
        else:
            order = np.argsort(keys, kind="stable")
            first = np.searchsorted(keys[order], begins)
        return first.astype(np.uint32), codes[order], args[order]
