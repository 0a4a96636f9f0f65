"""Operations of threads, ordered by one sort, so that making a program of ten million messages
takes little more memory than the program.

An operation belongs to a call, and to a slot of that call.  Call and slot, as one number, are its
key.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Float, Whole
from turnbuckle.replay.contention.contention import Op

#: A sort key that native integers hold, and how many are dealt with at a time.
_KEY_BITS: Final = 64
_BLOCK: Final = 1 << 18


class Slot(IntEnum):
    """Slots of a call: compute before it, posted receives, sends, awaited messages, buffers, the
    steps of a collective.
    """

    GAP = 0
    POST = 1
    SEND = 2
    AWAIT = 3
    SENT = 4
    ROUND = 5


def as_one(values: Float) -> Float:
    """Return a broadcast single value where all values are equal, to save memory.

    >>> as_one(np.array([2.0, 2.0])).strides, as_one(np.array([2.0, 3.0])).strides
    ((0,), (8,))
    """
    alike = len(values) > 0 and bool((values == values[0]).all())
    return np.broadcast_to(values[0].copy(), values.shape) if alike else values


@dataclass
class _Part:
    """Group of operations as they are added: the key of each operation, or of `many` in a row."""

    key: NDArray[np.uint64]
    code: NDArray[np.uint8] | int
    arg: NDArray[np.uint32]
    many: NDArray[np.uint8] | None


class Operations:
    """Operations of all threads, added in any order; those of one slot of a call keep the order in
    which they are added.

    Slots of a call, in order: compute, posted receives, sends, awaited messages, buffers,
    collective steps (four each), kept durations.
    """

    def __init__(self, thread: NDArray[np.uint32], steps: int) -> None:
        by_thread = np.argsort(thread, kind="stable")
        self.place = np.empty(len(thread), dtype=np.uint32)
        self.place[by_thread] = np.arange(len(thread), dtype=np.uint32)
        self.calls = np.bincount(thread)
        self.kept = Slot.ROUND + 4 * steps
        self.slot_bits = np.uint64(self.kept.bit_length())
        self.parts: list[_Part] = []
        self.work: list[Float] = []
        self.works = 0

    def add(
        self,
        call: Whole,
        slot: Whole | int,
        code: NDArray[np.uint8] | int,
        arg: Whole,
        many: NDArray[np.uint8] | None = None,
    ) -> None:
        """Add an operation for each call, or `many` in a row for each; `code` and `arg` list them
        one call after the other.
        """
        key = self.place[call].astype(np.uint64)
        key <<= self.slot_bits
        key |= np.asarray(slot).astype(np.uint64)
        self.parts.append(_Part(key, code, arg.astype(np.uint32, copy=False), many))

    def add_work(self, call: Whole, slot: int, seconds: Float) -> None:
        """Add work where it takes any time."""
        some = np.flatnonzero(seconds > 0)
        self.add(call[some], slot, Op.WORK, self.worked(seconds[some]))

    def worked(self, seconds: Float) -> NDArray[np.uint32]:
        """Add pieces of work and return their numbers."""
        first = self.works
        self.work.append(as_one(seconds))
        self.works += len(seconds)
        return np.arange(first, self.works, dtype=np.uint32)

    def ordered(self) -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint32]]:
        """Return the first operation of each thread, operations, arguments."""
        count = sum(len(part.key) for part in self.parts)
        # the number of each in the low bits: sorting in place keeps what is alike in the order in
        # which it was added
        bits = np.uint64(count.bit_length())
        packed = (len(self.place).bit_length() + int(self.slot_bits) + int(bits)) <= _KEY_BITS
        keys, many = np.empty(count, dtype=np.uint64), np.ones(count, dtype=np.uint8)
        begins = np.append(0, np.cumsum(self.calls)).astype(np.uint64) << self.slot_bits
        begin = 0
        for part in self.parts:
            places = slice(begin, begin + len(part.key))
            keys[places] = part.key
            if part.many is not None:
                many[places] = part.many
            part.key = np.zeros(0, dtype=np.uint64)
            begin = places.stop
        if packed:
            keys <<= bits
            for begin in range(0, count, _BLOCK):
                keys[begin : begin + _BLOCK] |= np.arange(
                    begin, min(begin + _BLOCK, count), dtype=np.uint64
                )
            keys.sort()
            group = np.searchsorted(keys, begins << bits)
            keys &= (np.uint64(1) << bits) - np.uint64(1)
            order = keys.view(np.int64)
        else:
            order = np.argsort(keys, kind="stable")
            group = np.searchsorted(keys[order], begins)
        # where the operations of each begin
        ends = np.cumsum(many[order], dtype=np.uint32)
        total = int(ends[-1]) if count else 0
        first = np.append(np.uint32(0), ends)[group]
        starts = np.empty(count, dtype=np.uint32)
        ends -= many[order]
        starts[order] = ends
        del keys, order, ends
        return first, *self._laid(starts, many, total)

    def _laid(
        self, starts: NDArray[np.uint32], many: NDArray[np.uint8], total: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
        """Write operations and arguments to their places and free each part once written."""
        code, arg = np.empty(total, dtype=np.uint8), np.empty(total, dtype=np.uint32)
        begin = 0
        self.parts.reverse()
        while self.parts:
            part = self.parts.pop()
            groups = len(part.arg) if part.many is None else len(part.many)
            done = 0
            for block in range(0, groups, _BLOCK):
                members = slice(begin + block, begin + min(block + _BLOCK, groups))
                where = starts[members]
                if part.many is not None:
                    each = many[members]
                    behind = np.cumsum(each, dtype=np.uint32)
                    where = np.repeat(where + each - behind, each) + np.arange(
                        int(behind[-1]), dtype=np.uint32
                    )
                values = slice(done, done + len(where))
                code[where] = part.code if isinstance(part.code, int) else part.code[values]
                arg[where] = part.arg[values]
                done = values.stop
            begin += groups
        return code, arg
