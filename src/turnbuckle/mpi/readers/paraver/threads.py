"""Threads of a Paraver trace, coded as one number from application, task and thread, and checked
against the header.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Int

_BITS: Final = 24
_NOWHERE: Final = -(1 << 62)


class Threads:
    """Threads that appear in events.

    A key holds the index of the task among those of all applications, and the number of the thread
    in the task.  An end of a message may refer to a thread that the header does not have.  Its code
    is then minus the application where the task is unknown, and `_NOWHERE` where the application
    is; a thread number that is out of range is coded as 0.
    """

    def __init__(self, tasks: list[int]) -> None:
        self.tasks = tasks
        self._tasks = np.array(tasks, dtype=np.int64)
        self._before = np.cumsum(self._tasks) - self._tasks
        #: sorted keys, and the index of each in the order of first appearance
        self._keys, self._places = np.zeros(0, np.int64), np.zeros(0, np.int32)
        #: keys from lines that were parsed one by one, until the next `add`
        self._late: set[int] = set()

    def __len__(self) -> int:
        return len(self._keys) + len(self._late)

    def holds(self, application: Int, task: Int, number: Int) -> Bool:
        """Return a mask of the threads that the header has, or could have."""
        mask: Bool = self._has_task(application, task) & (number > 0) & (number < 1 << _BITS)
        return mask

    def _has_task(self, application: Int, task: Int) -> Bool:
        """Return a mask of the tasks that the header has."""
        has_application = (application > 0) & (application <= len(self.tasks))
        tasks = (
            self._tasks[np.where(has_application, application - 1, 0)]
            if len(self.tasks)
            else np.zeros(len(application), np.int64)
        )
        return has_application & (task > 0) & (task <= tasks)

    def key(self, application: Int, task: Int, number: Int) -> Int:
        """Return the unique key of each (application, task, thread); the header must have the
        task.
        """
        return self._before[application - 1] + task - 1 << _BITS | number

    def end(self, application: Int, task: Int, number: Int) -> Int:
        """Return the code of each end of a message."""
        has_application = (application > 0) & (application <= len(self.tasks))
        has_task = self._has_task(application, task)
        first = np.ones(1, dtype=np.int64)
        key = self.key(
            np.where(has_task, application, first),
            np.where(has_task, task, first),
            np.where(number < 1 << _BITS, number, 0),
        )
        return np.where(has_task, key, np.where(has_application, -application, _NOWHERE))

    def end_of(self, application: int, task: int, number: int) -> int:
        """Return the code of one end of a message, for numbers of any size."""
        if not 0 < application <= len(self.tasks):
            return _NOWHERE
        if not 0 < task <= self.tasks[application - 1]:
            return -application
        return (int(self._before[application - 1]) + task - 1) << _BITS | (
            number if 0 < number < 1 << _BITS else 0
        )

    def register(self, application: int, task: int, number: int, most: int) -> int | None:
        """Return the key of one thread and register it; None where the header has no such thread,
        or `most` are registered already.
        """
        key = self.end_of(application, task, number)
        if key < 0 or not 0 < number < 1 << _BITS:
            return None
        position = int(np.searchsorted(self._keys, key))
        if key not in self._late and (position == len(self._keys) or self._keys[position] != key):
            if len(self) >= most:
                return None
            self._late.add(key)
        return key

    def held_with(self, key: Int) -> int:
        """Return how many threads there would be with the given ones."""
        return len(self) + len(self._new(key))

    def add(self, key: Int) -> None:
        """Register the given threads, and those that were registered one by one."""
        new = self._new(np.concatenate([key, np.array(sorted(self._late), dtype=np.int64)]))
        self._late.clear()
        if len(new):
            keys = np.concatenate([self._keys, new])
            places = np.concatenate([self._places, np.arange(len(self), len(keys), dtype=np.int32)])
            order = np.argsort(keys)
            self._keys, self._places = keys[order], places[order]

    def _new(self, key: Int) -> Int:
        """Return the distinct keys that are not registered."""
        if not len(self._keys):
            return np.unique(key)
        position = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        return np.unique(key[self._keys[position] != key])

    def place(self, key: Int) -> Int:
        """Return the index of each registered key in the order of first appearance."""
        return self._places[np.searchsorted(self._keys, key)].astype(np.int64)

    def by_place(self) -> Int:
        """Return all keys in the order of first appearance."""
        out = np.zeros(len(self._keys), dtype=np.int64)
        out[self._places] = self._keys
        return out

    def application(self, end: Int) -> Int:
        """Return the application of keys and of ends of messages; below 1 where the header does not
        have it.
        """
        inside = np.searchsorted(self._before, np.maximum(end, 0) >> _BITS, side="right")
        return np.where(end >= 0, inside, -end)

    def task_and_number(self, application: int, key: Int) -> tuple[Int, Int]:
        """Return the task of each key, counted from 0 in its application, and the number of the
        thread in the task.
        """
        return (key >> _BITS) - self._before[application - 1], key & (1 << _BITS) - 1
