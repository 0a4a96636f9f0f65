"""Reading of Parquet files that may be damaged: they are checked first, and messages of the
library's threads on stderr are suppressed.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import polars as pl

from turnbuckle.foundation.files import opened
from turnbuckle.trace.cache.parquet_pages import check

_Value = TypeVar("_Value")
#: The standard error stream belongs to the process: one read at a time redirects it.
_ONE: Final = threading.Lock()
_STDERR: Final = 2
_PANIC: Final = b"panicked at"
_MOST: Final = 1 << 20


def loaded(path: Path) -> pl.DataFrame:
    """Return the table of a Parquet file.  Raises `ValueError` where it contradicts itself, and
    what `quietly` raises.
    """
    check(path)
    with named(path) as name:
        return quietly(lambda: pl.read_parquet(name, glob=False, hive_partitioning=False))


@contextmanager
def named(path: Path) -> Iterator[str]:
    """Yield a path by which Polars opens a file: its own, or, where that is not UTF-8, the path of
    its open file descriptor.
    """
    if not any("\udc80" <= letter <= "\udcff" for letter in os.fspath(path)):
        yield os.fspath(path)
        return
    with opened(path) as file:
        yield f"/proc/self/fd/{file.fileno()}"


def quietly(work: Callable[[], _Value]) -> _Value:
    """Return the result of `work` on a Parquet file.  Raises `ValueError` where the library panics,
    and what `work` raises.
    """
    try:
        with _held_back():
            return work()
    except pl.exceptions.PanicException as error:  # derives from BaseException
        raise ValueError(str(error).strip() or "no Parquet") from error


@contextmanager
def _held_back() -> Iterator[None]:
    """Hold back stderr meanwhile, and print it at the end unless a thread panicked, because the
    panic hook cannot be replaced.
    """
    with _ONE:
        try:
            stderr = os.dup(_STDERR)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            yield  # stderr is closed, so nothing can be printed
            return
        try:
            buffer = os.memfd_create("stderr")
            try:
                os.dup2(buffer, _STDERR)
                try:
                    yield
                finally:
                    os.dup2(stderr, _STDERR)
                    text = os.pread(buffer, _MOST, 0)
                    if text and _PANIC not in text:
                        os.write(_STDERR, text)
            finally:
                os.close(buffer)
        finally:
            os.close(stderr)
