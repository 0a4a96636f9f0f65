"""Parquet files that may be damaged: checked first, and read without what the library's threads print on stderr."""

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
    """The table of a Parquet file.  Raises `ValueError` where it contradicts itself or the library panics, and what the library raises."""
    check(path)
    with named(path) as name:
        return quietly(lambda: pl.read_parquet(name, glob=False, hive_partitioning=False))


@contextmanager
def named(path: Path) -> Iterator[str]:
    """Give a name by which Polars opens a file: its own, or, where that is not UTF-8, the number under which this process has it open."""
    if not any("\udc80" <= letter <= "\udcff" for letter in os.fspath(path)):
        yield os.fspath(path)
        return
    with opened(path) as file:
        yield f"/proc/self/fd/{file.fileno()}"


def quietly(work: Callable[[], _Value]) -> _Value:
    """What `work` makes of a Parquet file.  Raises `ValueError` where the library panics, and what `work` raises."""
    try:
        with _held_back():
            return work()
    except pl.exceptions.PanicException as error:  # not an Exception
        raise ValueError(str(error).strip() or "no Parquet") from None


@contextmanager
def _held_back() -> Iterator[None]:
    """Keep what is written to stderr meanwhile, and hand it on at the end, unless a thread panicked: its hook cannot be reached."""
    with _ONE:
        try:
            real = os.dup(_STDERR)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            yield  # closed: nothing can be printed
            return
        try:
            kept = os.memfd_create("stderr")
            try:
                os.dup2(kept, _STDERR)
                try:
                    yield
                finally:
                    os.dup2(real, _STDERR)
                    text = os.pread(kept, _MOST, 0)
                    if text and _PANIC not in text:
                        os.write(_STDERR, text)
            finally:
                os.close(kept)
        finally:
            os.close(real)
