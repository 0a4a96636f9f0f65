"""Small `Trace` tables for tests: rows as dicts in, typed frames of ``schema/trace.csv`` out."""

from __future__ import annotations

from functools import cache
from typing import Any

import polars as pl

from turnbuckle.foundation.schema import tables as schema_tables

PROCESS = 19725 << 24  # a global process id: process bits, thread bits 0
OTHER_PROCESS = 19726 << 24
THREAD = PROCESS | 19725

TYPES = {"int8": pl.Int8, "int32": pl.Int32, "int64": pl.Int64, "text": pl.String}

# what a row says unless the test says otherwise
_DEVICE_ROW = {"process": PROCESS, "device": 0, "context": 1, "stream": 7}
_USUAL: dict[str, dict[str, Any]] = {
    "api": {"process": PROCESS, "thread": THREAD, "name": 0, "result": 0, "level": 0},
    "kernels": {**_DEVICE_ROW, "name": 0},
    "copies": {
        **_DEVICE_ROW,
        "size_bytes": 4096,
        "direction": 1,
        "source_memory": 2,
        "target_memory": 3,
    },
    "memsets": {**_DEVICE_ROW, "size_bytes": 64, "memory": 3},
    "graphs": _DEVICE_ROW,
    "mpi": {"thread": THREAD, "kind": 0},
    "os_calls": {"thread": THREAD},
    "ranges": {"thread": THREAD, "kind": 59},
    "overheads": {"thread": THREAD, "kind": 3},
    "allocations": {"process": PROCESS, "device": 0, "memory": 3},
}


def tables(**rows: list[dict[str, Any]]) -> dict[str, pl.DataFrame]:
    """Every table of the schema, in time order; `rows` gives the rows of some.

    >>> tables(kernels=[{"start_ns": 5, "end_ns": 9}])["kernels"]["stream"].to_list()
    [7]
    """
    unknown = set(rows) - set(schema_tables())
    assert not unknown, unknown
    return {
        name: frame(name, rows[name]) if rows.get(name) else _empty(name)
        for name in schema_tables()
    }


@cache
def _empty(name: str) -> pl.DataFrame:
    return frame(name, [])


def frame(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """One table of the schema; columns that a row does not name take the usual value or are
    missing.
    """
    columns = schema_tables()[name]
    strange = {key for row in rows for key in row} - {c.name for c in columns}
    assert not strange, (name, strange)
    usual = _USUAL.get(name, {})
    data = {c.name: [row.get(c.name, usual.get(c.name)) for row in rows] for c in columns}
    out = pl.DataFrame(data, schema={c.name: TYPES[c.type] for c in columns})
    order = next((c for c in ("start_ns", "time_ns") if c in out.columns), None)
    return out.sort(order, maintain_order=True) if order else out


def launched(count: int, gap_ns: int = 10_000, **kernel: Any) -> dict[str, list[dict[str, Any]]]:
    """Rows of a plain run: `count` launches, each with its kernel."""
    api = [
        {"start_ns": 1_000 + i * gap_ns, "end_ns": 3_000 + i * gap_ns, "correlation": i + 1}
        for i in range(count)
    ]
    kernels = [
        {
            "start_ns": 5_000 + i * gap_ns,
            "end_ns": 9_000 + i * gap_ns,
            "correlation": i + 1,
            **kernel,
        }
        for i in range(count)
    ]
    return {"api": api, "kernels": kernels}
