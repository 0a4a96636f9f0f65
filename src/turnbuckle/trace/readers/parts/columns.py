"""Tables of integers that grow while a recording is read."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Int


class Columns:
    """Rows of integers, each column in as few bytes as it needs."""

    def __init__(self, **kinds: str) -> None:
        self._arrays = {name: array(kind) for name, kind in kinds.items()}

    def __len__(self) -> int:
        return len(next(iter(self._arrays.values())))

    def add(self, *block: NDArray[Any]) -> None:
        """Append rows, one array per column."""
        for held, column in zip(self._arrays.values(), block, strict=True):
            held.frombytes(np.ascontiguousarray(column, dtype=held.typecode).view(np.uint8).data)

    def append(self, *row: int) -> None:
        """Append one row."""
        for held, value in zip(self._arrays.values(), row, strict=True):
            held.append(value)

    def clear(self) -> None:
        """Remove all rows."""
        self._arrays = {name: array(column.typecode) for name, column in self._arrays.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column; no row can be added while the column is in use."""
        held = self._arrays[name]
        return np.frombuffer(held, dtype=held.typecode) if len(held) else np.zeros(0, held.typecode)


def sorted_by(keys: NDArray[Any]) -> Int:
    """Return the order of integers from 0 on; equal ones keep their order."""
    # numpy sorts 16-bit integers by radix sort, which is many times as fast
    small = len(keys) and int(keys.max()) < 1 << 16
    return np.argsort(keys.astype(np.uint16) if small else keys, kind="stable")


def by_two(first: NDArray[Any], second: NDArray[Any]) -> Int:
    """Return the order by two columns of integers from 0 on; equal rows keep their order."""
    low, many = int(first.min(initial=0)), int(second.max(initial=0)) + 1
    if (int(first.max(initial=0)) - low + 1) * many < 1 << 63:
        # one sort of keys that are almost in order takes less time than two sorts
        return np.argsort((first - low) * many + second, kind="stable")
    return np.lexsort((second, first))
