"""Small nvprof files for tests: rows as dicts, times from `EPOCH`; only the columns that the rows
name.

>>> import tempfile, pathlib
>>> path = make(pathlib.Path(tempfile.mkdtemp()) / "a.nvvp", {"RUNTIME": [call(LAUNCH, 0, 5, 1)]})
>>> sqlite3.connect(path).execute("SELECT cbid FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()
(211,)
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

Row = dict[str, Any]
EPOCH = 1_722_324_337_000_000_000
PID = 4242
LAUNCH, COPY, WAIT = 211, 41, 131


def thread_object(pid: int = PID, thread: int = 7) -> bytes:
    return struct.pack("<Iii", pid, thread, 0)


def call(cbid: int, at: int, lasts: int, correlation: int, thread: int = 7, pid: int = PID) -> Row:
    times = {"start": EPOCH + at, "end": EPOCH + at + lasts}
    return {
        "cbid": cbid,
        **times,
        "processId": pid,
        "threadId": thread,
        "correlationId": correlation,
        "returnValue": 0,
    }


def on_device(at: int, lasts: int, correlation: int, ahead: int = 0, **more: Any) -> Row:
    times = {"start": EPOCH + at + ahead, "end": EPOCH + at + lasts + ahead}
    return {
        **times,
        "deviceId": 1,
        "contextId": 1,
        "streamId": 7,
        "correlationId": correlation,
        **more,
    }


def kernel(at: int, lasts: int, correlation: int, name: int = 1, **more: Any) -> Row:
    shape = {
        "gridX": 4,
        "gridY": 2,
        "gridZ": 1,
        "blockX": 64,
        "blockY": 2,
        "blockZ": 1,
        "registersPerThread": 31,
    }
    shared = {"staticSharedMemory": 512, "dynamicSharedMemory": 16, "graphNodeId": 0, "graphId": 0}
    return on_device(at, lasts, correlation, **(shape | shared | {"name": name} | more))


def copy(
    at: int,
    lasts: int,
    correlation: int,
    kind: int = 1,
    memories: tuple[int, int] = (2, 3),
    **more: Any,
) -> Row:
    return on_device(
        at,
        lasts,
        correlation,
        **(
            {
                "bytes": 4096,
                "copyKind": kind,
                "srcKind": memories[0],
                "dstKind": memories[1],
                "flags": 1,
            }
            | more
        ),
    )


def turns(count: int, ahead: Callable[[int], int] = lambda _: 0) -> dict[str, list[dict[str, Any]]]:
    """Turns of a launch, its kernel and a wait for it: 100 us each; `ahead` is how far the device's
    clock is at a time.
    """
    runtime, kernels, waits = [], [], []
    for k in range(count):
        at = 100_000 * k
        runtime += [call(LAUNCH, at, 5_000, 2 * k + 1), call(WAIT, at + 10_000, 60_000, 2 * k + 2)]
        kernels.append(kernel(at + 20_000, 30_000, 2 * k + 1, ahead=ahead(at)))
        waits.append(on_device(at + 11_000, 58_000, 2 * k + 2, type=3, cudaEventId=-1))
    return {"RUNTIME": runtime, "CONCURRENT_KERNEL": kernels, "SYNCHRONIZATION": waits}


def make(
    path: Path, tables: Mapping[str, Sequence[Row]], texts: Sequence[object] = ("_Z5scaleIfEvPT_i",)
) -> Path:
    """Write a file as nvprof does: a table with ``_id_`` for each kind, a string table, a
    version.
    """
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(
            "CREATE TABLE StringTable(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT "
            "NULL UNIQUE)"
        )
        file.execute("CREATE TABLE Version(version INTEGER)")
        file.execute("INSERT INTO Version VALUES (22)")
        file.executemany("INSERT INTO StringTable VALUES (?, ?)", enumerate(["-- null --", *texts]))
        for kind, rows in tables.items():
            columns = list(dict.fromkeys(c for row in rows for c in row)) or ["start", "end"]
            spec = ", ".join(f'"{c}" {"BLOB" if c == "objectId" else "INT"}' for c in columns)
            file.execute(
                f"CREATE TABLE CUPTI_ACTIVITY_KIND_{kind}(_id_ INTEGER PRIMARY KEY "
                f"AUTOINCREMENT, {spec})"
            )
            marks = ", ".join("?" * len(columns))
            listed = ", ".join(f'"{c}"' for c in columns)
            query = f"INSERT INTO CUPTI_ACTIVITY_KIND_{kind}({listed}) VALUES ({marks})"
            file.executemany(query, [[row.get(c) for c in columns] for row in rows])
    file.close()
    return path
