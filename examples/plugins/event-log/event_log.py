"""Reader of event logs: the text that a program writes of its own GPU events.

The first line is ``# event-log 1``, the second names the columns, each further line is an
activity::

    # event-log 1
    kind,name,id,start_ns,end_ns,stream,bytes
    call,cudaMemcpyAsync,1,1000,1900,,
    h2d,,1,2500,9000,7,65536
    call,cudaLaunchKernel,2,2000,2600,,
    kernel,solve,2,9000,51000,7,

``kind`` is ``call`` (on the host), ``kernel``, ``h2d`` or ``d2h``.  ``id`` joins device work to the
call that started it.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import polars as pl

from turnbuckle.foundation import schema
from turnbuckle.foundation.errors import ProfileError
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.findings import finding
from turnbuckle.trace.trace import Trace, completed

MARK = b"# event-log 1"
COLUMNS = ("kind", "name", "id", "start_ns", "end_ns", "stream", "bytes")
#: The log is small: a cached copy of its tables would save nothing.
CACHED = False


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the first bytes of a file are those of an event log."""
    return head.startswith(MARK)


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read an event log.  Raises `ProfileError` EVENTLOG1 where a column is missing or nothing ran
    on a GPU.

    A row without a number where one belongs, or of a kind that is none, is left out and counted
    (P162).
    """
    with opened(path) as file:
        text = file.read().partition(b"\n")[2]
    try:
        cells = pl.read_csv(io.BytesIO(text), infer_schema=False, truncate_ragged_lines=True)
    except pl.exceptions.PolarsError:
        cells = pl.DataFrame()
    if missing := [name for name in COLUMNS if name not in cells.columns]:
        raise ProfileError(
            "EVENTLOG1",
            "The event log lacks columns",
            where=path.name,
            found=f"no {', '.join(missing)}",
        )
    numbers = (
        pl.col(name).cast(pl.Int64, strict=False)
        for name in ("id", "start_ns", "end_ns", "stream", "bytes")
    )
    rows = cells.select("kind", pl.col("name").fill_null(""), *numbers)
    sound = rows.filter(
        pl.col("kind").is_in(["call", "kernel", "h2d", "d2h"]),
        pl.all_horizontal(pl.col("id", "start_ns", "end_ns").is_not_null()),
        pl.col("end_ns") >= pl.col("start_ns"),
        (pl.col("kind") == "call") | pl.col("stream").is_not_null(),
        ~pl.col("kind").is_in(["h2d", "d2h"]) | pl.col("bytes").is_not_null(),
    ).sort("start_ns", maintain_order=True)
    if sound.filter(pl.col("kind") != "call").is_empty():
        raise ProfileError(
            "EVENTLOG1",
            "The event log holds no work of a GPU",
            where=path.name,
            found=f"{rows.height} rows",
        )
    lost = rows.height - sound.height
    names = sound["name"].unique(maintain_order=True)
    numbered = sound.with_columns(
        name=pl.col("name").replace_strict(names, pl.Series(range(len(names)), dtype=pl.Int32)),
        correlation="id",
        process=1,
        thread=1,
        device=0,
    )
    return Trace(
        {name: completed(name, frame) for name, frame in _tables(numbered).items() if frame.height},
        names,
        {"format": "event-log", "schema_version": "1", "tables": {"rows": rows.height}},
        [finding("P162", lost, f"{lost:,} of {rows.height:,} rows of the event log")]
        if lost
        else [],
        path.name,
    )


def _tables(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return Turnbuckle's tables: host calls, kernels, copies between pinned host memory and the
    device.
    """
    ways, memories = schema.words("directions"), schema.words("memories")
    codes = {way: ways.index(way) for way in ("h2d", "d2h")}
    ends = {"h2d": ("pinned", "device"), "d2h": ("device", "pinned")}
    copies = [
        rows.filter(pl.col("kind") == way).with_columns(
            size_bytes="bytes",
            direction=code,
            source_memory=memories.index(ends[way][0]),
            target_memory=memories.index(ends[way][1]),
        )
        for way, code in codes.items()
    ]
    return {
        "api": rows.filter(pl.col("kind") == "call").with_columns(result=0, level=0),
        "kernels": rows.filter(pl.col("kind") == "kernel"),
        "copies": pl.concat(copies).sort("start_ns", maintain_order=True),
    }
