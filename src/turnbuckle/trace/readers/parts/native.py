"""Conversion of the native readers' results (Arrow tables, names, facts and findings) to a
`Trace`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from turnbuckle.foundation.errors import ProfileError
from turnbuckle.foundation.findings import finding
from turnbuckle.trace.trace import Trace


def native_trace(path: Path, read: Callable[[], dict[str, Any]]) -> Trace:
    """Call a reader of the native core and return its result as a trace.  Raises the reader's
    `ProfileError`, with the path.
    """
    try:
        raw = read()
    except ProfileError as error:
        error.where = str(path)
        raise
    tables = {name: pl.DataFrame(table) for name, table in raw["tables"].items() if len(table)}
    findings = [finding(code, count, detail) for code, count, detail in raw["findings"]]
    return Trace(tables, pl.DataFrame(raw["names"])["name"], raw["facts"], findings, path.name)
