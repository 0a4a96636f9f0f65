"""Reader of Nsight Systems SQLite exports, every schema from those of 2019 without a version to
3.25.  The work is in the native core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import polars as pl

from turnbuckle._native import read_nsys
from turnbuckle.foundation.errors import clipped
from turnbuckle.trace.ids import process_number, thread_number
from turnbuckle.trace.readers.parts.native import native_trace
from turnbuckle.trace.readers.parts.sqlite_tables import (
    ERRORS,
    MAGIC,
    columns,
    connected,
    names,
    text,
)
from turnbuckle.trace.trace import Trace


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the file is an export: SQLite with its table of texts, which neither nvprof
    nor rocprof writes.
    """
    return (
        head.startswith(MAGIC)
        and "StringIds" in (tables := names(path))
        and not any(table.startswith("rocpd_") for table in tables)
    )


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read an export.  Raises `ProfileError` (P003 to P010)."""
    trace = native_trace(path, lambda: read_nsys(path, threads=threads, progress=progress))
    numbers = trace.facts.pop("own_device_numbers", None)
    if processor := _processor(path):
        trace = replace(trace, facts={**trace.facts, "processor": processor})
    return trace if numbers is None else _of_the_machine(trace, numbers)


def _processor(path: Path) -> str:
    """Return the host's processor as the profiler names it; empty where the file does not say, or
    says several.
    """
    wanted = (
        f"SELECT {text('value')} FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'CpuDescription' LIMIT "
        f"{_MOST_HOSTS}"
    )
    with suppress(*ERRORS, OSError), connected(path, immutable=True, wait=False) as connection:
        if "value" in columns(connection).get("TARGET_INFO_SYSTEM_ENV", ()):
            named = {value.strip() for (value,) in connection.execute(wanted) if value}
            return clipped(named.pop(), 100) if len(named) == 1 else ""
    return ""


_MOST_HOSTS: Final = 1000
_DEVICES: Final = ("device", "source_device", "target_device")


def _of_the_machine(trace: Trace, numbers: Mapping[str, int]) -> Trace:
    """Replace the devices' numbers of each process by those of the machine: ranks that see one GPU
    each all call it 0.

    A device whose number the file does not resolve becomes null: it may be any.
    """
    rows = [(*map(int, key.split("/")), gpu) for key, gpu in numbers.items()]
    machine_numbers = pl.DataFrame(
        rows, schema={"pid": pl.Int64, "device": pl.Int32, "gpu": pl.Int32}, orient="row"
    )
    machine_numbers = machine_numbers.unique(["pid", "device"], keep="first", maintain_order=True)
    tables = {}
    for name, frame in trace.tables.items():
        columns = [c for c in _DEVICES if c in frame.columns] if "process" in frame.columns else []
        tables[name] = frame
        for column in columns:
            pid = thread_number(process_number(pl.col("process")))
            process_numbers = tables[name].select(pid=pid, device=pl.col(column).cast(pl.Int32))
            numbered = process_numbers.join(
                machine_numbers, on=["pid", "device"], how="left", maintain_order="left"
            )["gpu"]
            tables[name] = tables[name].with_columns(numbered.alias(column))
    return replace(trace, tables=tables)
