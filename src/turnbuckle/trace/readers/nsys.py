"""Nsight Systems SQLite exports, every schema from the nameless ones of 2019 to 3.25.  The work is in the native core."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from turnbuckle._native import read_nsys
from turnbuckle.trace.readers.native import native_trace
from turnbuckle.trace.readers.sqlite_tables import MAGIC
from turnbuckle.trace.trace import Trace


def sniff(head: bytes, path: Path) -> bool:
    """Whether the file may be an export: any SQLite file is tried, so that the error can name what its tables are."""
    return head.startswith(MAGIC)


def read(path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None) -> Trace:
    """Read an export.  Raises `ProfileError` (P003 to P010)."""
    return native_trace(path, lambda: read_nsys(path, threads=threads, progress=progress))
