"""Types of arrays by their elements; numbers for members of groups and for words; the normal
distribution; freed memory returned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
#: Whole numbers of any width.
Whole = NDArray[np.integer[Any]]
Text = NDArray[np.object_]


def filled(column: pl.Series, value: int) -> NDArray[Any]:
    """Return the values of a column of whole numbers or truths, with `value` where it is null; a
    query is made only where some are.
    """
    missing = column.null_count()
    if missing and missing == len(column):
        return np.full(missing, value, dtype=column.clear().to_numpy().dtype)
    return (column.fill_null(value) if missing else column).to_numpy()


def runs(counts: Int) -> tuple[Int, Int]:
    """Return, for groups of `counts` members, the group of each member and its place in the group.

    >>> [column.tolist() for column in runs(np.array([2, 0, 3]))]
    [[0, 0, 2, 2, 2], [0, 1, 0, 1, 2]]
    """
    group = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    first = np.cumsum(counts) - counts
    return group, np.arange(len(group), dtype=np.int64) - first[group]


def turns(group: Int) -> Int:
    """Return how many members of the same group come before each.

    >>> turns(np.array([7, 3, 7, 7, 3])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(group, kind="stable")
    out = np.empty(len(group), dtype=np.int64)
    out[order] = runs(np.unique(group, return_counts=True)[1])[1]
    return out


def numbered(words: Iterable[str]) -> tuple[list[str], Int]:
    """Return the distinct words in alphabetical order, and for each word its place among them; the
    length of a word does not matter.

    >>> words, place = numbered(["b", "a", "b"])
    >>> words, place.tolist()
    (['a', 'b'], [1, 0, 1])
    """
    words = list(words)
    distinct = sorted(set(words))
    place = {word: k for k, word in enumerate(distinct)}
    return distinct, np.fromiter(map(place.__getitem__, words), np.int64, len(words))


#: From this many rows on, a step frees some ten megabytes, and trimming the heap pays.
_MANY: Final = 500_000


def returned(rows: int) -> None:
    """Return freed memory to the system after a step over so many rows, where the C library can
    (glibc); do nothing for few.
    """
    if rows >= _MANY and (trim := _trim()) is not None:
        trim(0)


@cache
def _trim() -> Any:
    import ctypes  # of no use to a small recording

    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None


def or_zero(value: Float | float | None) -> Float | float:
    """Return a value; 0 for none."""
    return 0.0 if value is None else value


_ROOT_HALF: Final = math.sqrt(0.5)
_upper = np.frompyfunc(math.erfc, 1, 1)


def below(z: Float | float) -> Float:
    """Return the share of a standard normal distribution that lies below `z`.

    >>> below(np.array([-1.0, 0.0, 1.0])).round(4).tolist()
    [0.1587, 0.5, 0.8413]
    """
    return np.asarray(_upper(np.negative(z) * _ROOT_HALF), dtype=np.float64) * 0.5


def quantile(share: Float | float) -> Float:
    """Return the value below which a share of a standard normal distribution lies; the inverse of
    `below`, shares between 0 and 1.

    >>> quantile(np.array([0.5, 0.95])).round(3).tolist()
    [0.0, 1.645]
    """
    return np.asarray(np.frompyfunc(_inverse(), 1, 1)(share), dtype=np.float64)


@cache
def _inverse() -> Any:
    # SciPy has both as well, and takes longer to load than a small recording takes to project
    from statistics import NormalDist

    return NormalDist().inv_cdf
