"""Nsight Systems SQLite exports, every schema from the nameless ones of 2019 to 3.25.  The work is in the native core."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl

from turnbuckle._native import read_nsys
from turnbuckle.errors import ProfileError
from turnbuckle.findings import finding
from turnbuckle.trace.trace import Trace

MAGIC = b"SQLite format 3\x00"


def sniff(head: bytes, path: Path) -> bool:
    """Whether the file may be an export: any SQLite file is tried, so that the error can name what its tables are."""
    return head.startswith(MAGIC)


def read(path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None) -> Trace:
    """Read an export.  Raises `ProfileError` (P003 to P010)."""
    try:
        raw = read_nsys(path, threads=threads, progress=progress)
    except ProfileError as error:
        error.where = str(path)
        raise
    tables = {name: pl.DataFrame(table) for name, table in raw["tables"].items() if len(table)}
    findings = [finding(code, count, detail) for code, count, detail in raw["findings"]]
    return Trace(tables, pl.DataFrame(raw["names"])["name"], raw["facts"], findings, path.name)
