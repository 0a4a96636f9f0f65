"""The routes from one Nsight Systems SQLite file to typed columns that `read_nsys` compares.

A route is a function that imports what it needs and returns two functions: `read(path)` does the
work that is timed; `tell(result)` says how many bytes the columns take, how many rows there are,
and for each table a sum that must be the same for all routes. A route whose package is missing
raises ImportError or the package's own error.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

_WORK = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
_SHAPE = (
    "gridX",
    "gridY",
    "gridZ",
    "blockX",
    "blockY",
    "blockZ",
    "staticSharedMemory",
    "dynamicSharedMemory",
)
COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        *_WORK,
        "demangledName",
        "shortName",
        "registersPerThread",
        *_SHAPE,
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (*_WORK, "bytes", "copyKind", "srcKind", "dstKind"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start",
        "end",
        "eventClass",
        "globalTid",
        "correlationId",
        "nameId",
        "returnValue",
    ),
}
QUERIES = {
    table: f"SELECT {', '.join(names)} FROM {table}".replace(" end", ' "end"')
    for table, names in COLUMNS.items()
}

# bytes of the columns, rows read, and for each table rows and the sum of (end - start)
Told = tuple[int, int, dict[str, tuple[int, int]]]
Reader = Callable[[str], Any]
Teller = Callable[[Any], Told]


def _tell(
    tables: dict[str, Any], size: Callable[[Any], int], total: Callable[[Any, str], int]
) -> Told:
    checks = {
        name: (len(table), total(table, "end") - total(table, "start"))
        for name, table in tables.items()
    }
    return (
        sum(size(table) for table in tables.values()),
        sum(rows for rows, _ in checks.values()),
        checks,
    )


def _arrow_tell(tables: Any) -> Told:
    import pyarrow.compute as pc

    return _tell(tables, lambda t: int(t.nbytes), lambda t, column: int(pc.sum(t[column]).as_py()))


def adbc() -> tuple[Reader, Teller]:
    """ADBC's SQLite driver straight to Arrow."""
    import pyarrow.compute  # noqa: F401
    from adbc_driver_sqlite import dbapi

    def read(path: str) -> Any:
        out = {}
        with dbapi.connect(f"file:{path}?mode=ro") as connection, connection.cursor() as cursor:
            for table, query in QUERIES.items():
                cursor.execute(query)
                out[table] = cursor.fetch_arrow_table()
        return out

    return read, _arrow_tell


def polars_adbc() -> tuple[Reader, Teller]:
    """polars.read_database_uri(engine="adbc")."""
    import adbc_driver_sqlite.dbapi  # noqa: F401
    import polars as pl
    import pyarrow  # noqa: F401

    def read(path: str) -> Any:
        return {
            table: pl.read_database_uri(query, f"sqlite:///{path}", engine="adbc")
            for table, query in QUERIES.items()
        }

    return read, lambda tables: _tell(
        tables, lambda t: int(t.estimated_size()), lambda t, column: int(t[column].sum())
    )


def connectorx(partitions: int | None = None) -> tuple[Reader, Teller]:
    """connectorx to Arrow; with `partitions`, that many queries side by side."""
    import connectorx as cx
    import pyarrow.compute  # noqa: F401

    split: dict[str, Any] = (
        {} if partitions is None else {"partition_on": "correlationId", "partition_num": partitions}
    )

    def read(path: str) -> Any:
        return {
            table: cx.read_sql(f"sqlite://{path}", query, return_type="arrow", **split)
            for table, query in QUERIES.items()
        }

    return read, _arrow_tell


def duckdb_scanner() -> tuple[Reader, Teller]:
    """DuckDB's SQLite scanner to Arrow, from an installed or a pip-packaged extension; never
    downloads.
    """
    import duckdb
    import pyarrow.compute  # noqa: F401

    connection = duckdb.connect(
        config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    )
    connection.execute(f"LOAD '{_duckdb_extension() or 'sqlite_scanner'}'")

    def read(path: str) -> Any:
        quoted = path.replace("'", "''")
        out = {}
        for table, names in COLUMNS.items():
            listed = ", ".join(f'"{name}"' for name in names)
            result: Any = connection.execute(
                f"SELECT {listed} FROM sqlite_scan('{quoted}', '{table}')"
            )
            out[table] = result.to_arrow_table()
        return out

    return read, _arrow_tell


def _duckdb_extension() -> str | None:
    """Path of a scanner that came as a Python package for this very version of DuckDB."""
    import duckdb

    for package in ("duckdb_extension_sqlite_scanner", "duckdb_ext_sqlite"):
        found = importlib.util.find_spec(package)
        for folder in found.submodule_search_locations or () if found else ():
            for path in sorted(Path(folder).rglob("sqlite_scanner.duckdb_extension")):
                if f"v{duckdb.__version__}" in path.parts:
                    return str(path)
    return None


def pandas_read_sql() -> tuple[Reader, Teller]:
    """pandas.read_sql over the standard library's sqlite3."""
    import sqlite3
    from contextlib import closing

    import pandas as pd

    def read(path: str) -> Any:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return {table: pd.read_sql(query, connection) for table, query in QUERIES.items()}

    return read, lambda tables: _tell(
        tables,
        lambda t: int(t.memory_usage(index=False).sum()),
        lambda t, column: int(t[column].sum()),
    )


def sqlite3_numpy() -> tuple[Reader, Teller]:
    """sqlite3.fetchmany into NumPy columns of int64, 50,000 rows at a time."""
    import sqlite3
    from contextlib import closing

    import numpy as np

    def read(path: str) -> Any:
        out = {}
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            for table, query in QUERIES.items():
                cursor, parts = connection.execute(query), []
                while rows := cursor.fetchmany(50_000):
                    parts.append(np.array(rows, dtype=np.int64).T)
                out[table] = np.concatenate(parts, axis=1)
        return out

    def tell(tables: Any) -> Told:
        checks = {}
        for table, block in tables.items():
            names = COLUMNS[table]
            checks[table] = (
                block.shape[1],
                int(block[names.index("end")].sum() - block[names.index("start")].sum()),
            )
        return (
            sum(int(block.nbytes) for block in tables.values()),
            sum(rows for rows, _ in checks.values()),
            checks,
        )

    return read, tell


_OURS = {
    "kernels": "CUPTI_ACTIVITY_KIND_KERNEL",
    "copies": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "api": "CUPTI_ACTIVITY_KIND_RUNTIME",
}


def _trace_tell(tables: Any) -> Told:
    checks = {
        _OURS[n]: (t.height, int(t["end_ns"].sum()) - int(t["start_ns"].sum()))
        for n, t in tables.items()
        if n in _OURS
    }
    return (
        sum(int(t.estimated_size()) for t in tables.values()),
        sum(t.height for t in tables.values()),
        checks,
    )


def turnbuckle(use_cache: bool = False) -> tuple[Reader, Teller]:
    """turnbuckle.trace.read.read: every table of the file, checked."""
    from turnbuckle.trace.read import read as read_trace

    def read(path: str) -> Any:
        return read_trace(path, use_cache=use_cache)

    return read, lambda trace: _trace_tell(trace.tables)


def turnbuckle_native() -> tuple[Reader, Teller]:
    """The native reader alone, before Python sees the columns."""
    import polars as pl

    from turnbuckle import _native

    def read(path: str) -> Any:
        return _native.read_nsys(Path(path))

    def tell(raw: Any) -> Told:
        frames = {name: pl.DataFrame(table) for name, table in raw["tables"].items() if len(table)}
        return _trace_tell(frames)

    return read, tell


TURNBUCKLE = "turnbuckle"
ROUTES: dict[str, Callable[[], tuple[Reader, Teller]]] = {
    TURNBUCKLE: turnbuckle,
    "turnbuckle, native call": turnbuckle_native,
    "polars + ADBC": polars_adbc,
    "ADBC to Arrow": adbc,
    "connectorx": connectorx,
    "connectorx, 2 queries": lambda: connectorx(2),
    "DuckDB sqlite scanner": duckdb_scanner,
    "pandas.read_sql": pandas_read_sql,
    "sqlite3 to NumPy": sqlite3_numpy,
}
CACHED = "turnbuckle, cache on"
"""Not one of the routes in turn: its first run in an empty cache folder fills the cache, the second reads it."""
