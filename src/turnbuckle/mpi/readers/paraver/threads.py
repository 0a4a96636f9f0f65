"""Threads of a Paraver trace: application, task and number, held against the header, as one number."""

from __future__ import annotations

from typing import Final

import numpy as np

from turnbuckle.trace.readers.parts.text_numbers import Int, Mask

_BITS: Final = 24
_NOWHERE: Final = -(1 << 62)


class Threads:
    """Threads that events name.

    A key is the task among those of all applications, and the number in the task.  Of an end of a message whose task the header does not
    have it is the application below 0; of one whose application it does not have, `_NOWHERE`; of one whose number cannot be, that is 0.
    """

    def __init__(self, tasks: list[int]) -> None:
        self.tasks = tasks
        self._tasks = np.array(tasks, dtype=np.int64)
        self._before = np.cumsum(self._tasks) - self._tasks
        #: keys in their order, and the place of each among all, in which they came
        self._known, self._places = np.zeros(0, np.int64), np.zeros(0, np.int32)
        #: keys of lines that were read alone, until others are added
        self._late: set[int] = set()

    def __len__(self) -> int:
        return len(self._known) + len(self._late)

    def holds(self, application: Int, task: Int, number: Int) -> Mask:
        """Whether the header has such a thread, or could."""
        found: Mask = self._has_task(application, task) & (number > 0) & (number < 1 << _BITS)
        return found

    def _has_task(self, application: Int, task: Int) -> Mask:
        there = (application > 0) & (application <= len(self.tasks))
        most = self._tasks[np.where(there, application - 1, 0)] if len(self.tasks) else np.zeros(len(application), np.int64)
        return there & (task > 0) & (task <= most)

    def key(self, application: Int, task: Int, number: Int) -> Int:
        """Of threads that the header has."""
        return self._before[application - 1] + task - 1 << _BITS | number

    def end(self, application: Int, task: Int, number: Int) -> Int:
        """Of ends of messages."""
        there = (application > 0) & (application <= len(self.tasks))
        known = self._has_task(application, task)
        one = np.ones(1, dtype=np.int64)
        key = self.key(np.where(known, application, one), np.where(known, task, one), np.where(number < 1 << _BITS, number, 0))
        return np.where(known, key, np.where(there, -application, _NOWHERE))

    def end_of(self, application: int, task: int, number: int) -> int:
        """Of one end, whatever its numbers are."""
        if not 0 < application <= len(self.tasks):
            return _NOWHERE
        if not 0 < task <= self.tasks[application - 1]:
            return -application
        return (int(self._before[application - 1]) + task - 1) << _BITS | (number if 0 < number < 1 << _BITS else 0)

    def one(self, application: int, task: int, number: int, most: int) -> int | None:
        """Key of one thread, which is known from now on; None where the header has none such, or `most` are known already."""
        key = self.end_of(application, task, number)
        if key < 0 or not 0 < number < 1 << _BITS:
            return None
        at = int(np.searchsorted(self._known, key))
        if key not in self._late and (at == len(self._known) or self._known[at] != key):
            if len(self) >= most:
                return None
            self._late.add(key)
        return key

    def held_with(self, key: Int) -> int:
        """How many there would be with these."""
        return len(self) + len(self._new(key))

    def add(self, key: Int) -> None:
        """Know these from now on."""
        new = self._new(np.concatenate([key, np.array(sorted(self._late), dtype=np.int64)]))
        self._late.clear()
        if len(new):
            known = np.concatenate([self._known, new])
            places = np.concatenate([self._places, np.arange(len(self), len(known), dtype=np.int32)])
            order = np.argsort(known)
            self._known, self._places = known[order], places[order]

    def _new(self, key: Int) -> Int:
        if not len(self._known):
            return np.unique(key)
        at = np.minimum(np.searchsorted(self._known, key), len(self._known) - 1)
        return np.unique(key[self._known[at] != key])

    def place(self, key: Int) -> Int:
        """Of known ones: where they came among all."""
        return self._places[np.searchsorted(self._known, key)].astype(np.int64)

    def by_place(self) -> Int:
        """Keys of all, in the order in which they came."""
        out = np.zeros(len(self._known), dtype=np.int64)
        out[self._places] = self._known
        return out

    def application(self, end: Int) -> Int:
        """Of keys and ends of messages; below 1 where it is none of the header's."""
        inside = np.searchsorted(self._before, np.maximum(end, 0) >> _BITS, side="right")
        return np.where(end >= 0, inside, -end)

    def task_and_number(self, application: int, key: Int) -> tuple[Int, Int]:
        """Task of an application from 0 on, and number in it."""
        return (key >> _BITS) - self._before[application - 1], key & (1 << _BITS) - 1
