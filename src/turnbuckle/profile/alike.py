"""Rows of one kind among many: combinations of values, numbered by the native core."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnbuckle import _native
from turnbuckle.foundation.arrays import Int


def alike(*columns: NDArray[Any]) -> tuple[Int, Int]:
    """Return which rows have the same values in some columns of whole numbers or truths.

    Returns
    -------
    Number of each row's combination of values, in the order in which they first occur; the row at
    which each first occurs.

    >>> [found.tolist() for found in alike(np.array([7, 3, 7]), np.array([1, 2, 2]))]
    [[0, 1, 2], [0, 1, 2]]
    """
    number, first = _native.numbered(
        [np.ascontiguousarray(column, dtype=np.int64) for column in columns]
    )
    return np.frombuffer(number, dtype=np.uint32).astype(np.int64), np.frombuffer(
        first, dtype=np.uint32
    ).astype(np.int64)
