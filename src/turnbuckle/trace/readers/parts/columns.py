"""Tables of whole numbers that grow while a recording is read."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Columns:
    """Rows of whole numbers, each column in as few bytes as it needs."""

    def __init__(self, **kinds: str) -> None:
        self._held = {name: array(kind) for name, kind in kinds.items()}

    def __len__(self) -> int:
        return len(next(iter(self._held.values())))

    def add(self, *block: NDArray[Any]) -> None:
        """Rows behind those that are there."""
        for held, column in zip(self._held.values(), block, strict=True):
            held.frombytes(np.ascontiguousarray(column, dtype=held.typecode).view(np.uint8).data)

    def append(self, *row: int) -> None:
        """One row."""
        for held, value in zip(self._held.values(), row, strict=True):
            held.append(value)

    def clear(self) -> None:
        """Forget all rows."""
        self._held = {name: array(held.typecode) for name, held in self._held.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column; nothing can be added while it is in use."""
        held = self._held[name]
        return np.frombuffer(held, dtype=held.typecode) if len(held) else np.zeros(0, held.typecode)


def sorted_by(keys: NDArray[Any]) -> NDArray[np.int64]:
    """Order of whole numbers from 0 on; equal ones stay in theirs."""
    # numpy sorts numbers of 16 bits by their digits, which is many times as fast
    small = len(keys) and int(keys.max()) < 1 << 16
    return np.argsort(keys.astype(np.uint16) if small else keys, kind="stable")


def by_two(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.int64]:
    """Order by two columns of whole numbers from 0 on; what is equal stays in its order."""
    low, many = int(first.min(initial=0)), int(second.max(initial=0)) + 1
    if (int(first.max(initial=0)) - low + 1) * many < 1 << 63:
        # one sort of what is almost in order takes less than two
        return np.argsort((first - low) * many + second, kind="stable")
    return np.lexsort((second, first))
