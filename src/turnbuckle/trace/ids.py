"""Packed ids of processes and threads.  No other file knows how they are packed.

A process has the id ``number << 24``.  A thread has the id of its process with its own number in
the low 24 bits.  This is how Nsight Systems packs them; readers of other formats follow.  The
functions take whole numbers, NumPy arrays and Polars expressions or series alike.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

Ids = TypeVar("Ids", int, NDArray[np.int64], pl.Series, pl.Expr)

BITS: Final = 24
#: A thread's number lies below this.
MOST_THREADS: Final = 1 << BITS
_LOW: Final = MOST_THREADS - 1


def process_of(thread: Ids) -> Ids:
    """Return the id of the process that a thread belongs to; a process's own id stays.

    >>> process_of(id_of(7, 3)) == id_of(7)
    True
    """
    return thread & ~_LOW


def thread_number(thread: Ids) -> Ids:
    """Return the number of a thread within its process."""
    return thread & _LOW


def process_number(thread: Ids) -> Ids:
    """Return the number of the process of a thread, or of a process.

    >>> process_number(id_of(7, 3))
    7
    """
    return thread // MOST_THREADS


def id_of(process: Ids, thread: Any = 0) -> Ids:
    """Return the id of a thread from the number of its process and its own; of the process itself
    without one.
    """
    id: Ids = process * MOST_THREADS | thread
    return id


def of_rank(rank: Ids) -> Ids:
    """Return the id of the main thread of an MPI rank, where a format knows ranks and no processes.

    >>> process_number(of_rank(0)), thread_number(of_rank(0))
    (1, 1)
    """
    return id_of(rank + 1, 1)


def rank_of(thread: Ids) -> Ids:
    """Return the rank that `of_rank` gave this thread's process."""
    return process_number(thread) - 1
