"""Small recordings of AMD's profilers, and how tests read them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from turnbuckle.foundation.errors import ProfileError
from turnbuckle.trace import Trace
from turnbuckle.trace.check import launch_pairs
from turnbuckle.trace.readers.rocprof import csv_sets as rocprof_csv
from turnbuckle.trace.readers.rocprof import reader as rocprof
from turnbuckle.trace.trace import dtypes

START = 63_857_982_000_000
Record = dict[str, Any]


def open_with_reader(path: Path) -> Trace:
    """As the door does: the first reader that knows the file."""
    with path.open("rb") as file:
        head = file.read(512)
    readers = [r for r in (rocprof, rocprof_csv) if r.sniff(head, path)]
    assert len(readers) == 1
    trace: Trace = readers[0].read(path)
    assert all(dict(f.schema) == dtypes(t) for t, f in trace.tables.items())
    for name, frame in trace.tables.items():
        times = [c for c in ("start_ns", "time_ns") if c in frame.columns]
        assert all(frame[c].drop_nulls().is_sorted() for c in times), name
    return trace


def refused(path: Path) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        open_with_reader(path)
    error = caught.value
    assert error.where.startswith(str(path.parent)) and error.found and error.cause and error.fix
    return error


# --- rocprofv3 ---

KINDS = [
    ("NONE", []),
    ("HSA_CORE_API", ["hsa_init", "hsa_queue_create"]),
    ("HIP_RUNTIME_API", ["hipMalloc", "hipMemcpyAsync", "hipLaunchKernel", "hipGraphLaunch"]),
    ("MARKER_CORE_RANGE_API", ["roctxMarkA", "roctxThreadRangeA", "roctxGetThreadId"]),
    (
        "MEMORY_COPY",
        [
            "MEMORY_COPY_NONE",
            "MEMORY_COPY_HOST_TO_HOST",
            "MEMORY_COPY_HOST_TO_DEVICE",
            "MEMORY_COPY_DEVICE_TO_HOST",
        ],
    ),
    (
        "MEMORY_ALLOCATION",
        [f"MEMORY_ALLOCATION_{does}" for does in ("NONE", "ALLOCATE", "VMEM_ALLOCATE", "FREE")],
    ),
]
HSA, HIP, MARKER, COPY, ALLOCATION = range(1, 6)


def agent(handle: int, kind: int, number: int, **more: Any) -> Record:
    return {
        "size": 312,
        "id": {"handle": handle},
        "type": kind,
        "logical_node_type_id": number,
        "name": "gfx950",
        "product_name": "MI350X",
    } | more


def record(at: int, lasts: int, correlation: int, kind: int, operation: int, **more: Any) -> Record:
    times = {"start_timestamp": START + at, "end_timestamp": START + at + lasts}
    ids = {"thread_id": 910, "correlation_id": {"internal": correlation, "external": 0}}
    return {"size": 64, "kind": kind, "operation": operation, **ids, **times, **more}


def dispatch(
    at: int, lasts: int, correlation: int, kernel: int = 8, stream: int = 5, **info: Any
) -> Record:
    told = {
        "agent_id": {"handle": 702},
        "queue_id": {"handle": 1},
        "kernel_id": kernel,
        "dispatch_id": correlation,
    }
    told |= {
        "group_segment_size": 64,
        "workgroup_size": {"x": 256, "y": 1, "z": 1},
        "grid_size": {"x": 1000, "y": 2, "z": 1},
    }
    return record(
        at, lasts, correlation, 9, 2, dispatch_info=told | info, stream_id={"handle": stream}
    )


def v3(
    records: dict[str, list[Record]],
    *,
    callback: list[Record] | None = None,
    pid: int = 908,
    **more: Any,
) -> Record:
    return {
        "metadata": {
            "pid": pid,
            "init_time": 1,
            "command": ["./run", "--token=secret"],
            "config": {"output_path": "/home/secret"},
        },
        "agents": [
            agent(700, 1, 0),
            agent(702, 2, 0, mem_banks=[{"heap_type": 1, "size_in_bytes": 1 << 38}], cu_count=256),
            agent(703, 2, 1),
        ],
        "counters": [],
        "strings": {
            "callback_records": [],
            "buffer_records": [{"kind": k, "operations": o} for k, o in KINDS],
            "marker_api": [{"key": 50, "value": "step"}, {"key": 51, "value": "here"}],
        },
        "code_objects": [],
        "kernel_symbols": [
            {
                "kernel_id": 8,
                "formatted_kernel_name": "void a::scale<float, 4>(float*, int)",
                "arch_vgpr_count": 16,
                "accum_vgpr_count": 8,
            },
            {
                "kernel_id": 9,
                "formatted_kernel_name": "__amd_rocclr_copyBuffer",
                "kernel_name": "__amd_rocclr_copyBuffer.kd",
            },
        ],
        "host_functions": [{"size": 1}],
        "callback_records": {"counter_collection": callback or []},
        "buffer_records": {"kernel_dispatch": [], "hip_api": []} | records,
        **more,
    }


def turns(count: int = 3) -> dict[str, list[Record]]:
    out: dict[str, list[Record]] = {"kernel_dispatch": [], "hip_api": [], "memory_copy": []}
    for k in range(count):
        at = 1000 + 100_000 * k
        ends = {"src_agent_id": {"handle": 700}, "dst_agent_id": {"handle": 702}}
        out["hip_api"].append(record(at, 6000, 2 * k + 1, HIP, 1))
        out["memory_copy"].append(
            record(at + 9000, 4000, 2 * k + 1, COPY, 2, bytes=4096, stream_id={"handle": 5}, **ends)
        )
        out["hip_api"].append(record(at + 30_000, 5000, 2 * k + 2, HIP, 2))
        out["kernel_dispatch"].append(dispatch(at + 40_000, 20_000, 2 * k + 2))
    return out


# --- rocprof ---

V1 = {
    "rocTX": "BeginNs, EndNs, pid, tid, Name, Index_",
    "HIP": "BeginNs, EndNs, pid, tid, Name, args, Index_, Data, DurationNs",
    "OPS": (
        'BeginNs, EndNs, "dev-id", "queue-id", Name, pid, tid, Index_, "proc-id", Data, DurationNs'
    ),
}
HIP_ROWS = [
    (
        START + 1000,
        START + 9000,
        2,
        910,
        "hipMemcpy",
        "( dst(0x1500) src(0x7f00) sizeBytes(4096) kind(1))",
        1,
    ),
    (
        START + 20_000,
        START + 25_000,
        2,
        910,
        "hipLaunchKernel",
        "( kernel(scale(float*)) stream(1))",
        2,
    ),
    (START + 60_000, START + 61_000, 2, 910, "hipMalloc", "( ptr(0x1500) size(8192))", 3),
    (START + 62_000, START + 63_000, 2, 910, "hipFree", "( ptr(0x1500))", 4),
    (
        START + 64_000,
        START + 70_000,
        2,
        910,
        "hipMemset",
        "( dst(0x1500) value(0) sizeBytes(20))",
        5,
    ),
]


def v1_database(path: Path) -> None:
    tables = V1 | {"COPY": V1["OPS"]}
    with closing(sqlite3.connect(path)) as db, db:
        for table, columns in tables.items():
            db.execute(
                f"CREATE TABLE {table} ({columns.replace('Index_', chr(34) + 'Index' + chr(34))})"
            )
        db.executemany("INSERT INTO HIP VALUES (?, ?, ?, ?, ?, ?, ?, '', 0)", HIP_ROWS)
        db.execute(
            "INSERT INTO OPS VALUES (?, ?, 1, 0, 'scale(float*)', 7, 3, 2, 909, '', 0)",
            (START + 30_000, START + 50_000),
        )
        db.execute(
            "INSERT INTO OPS VALUES (?, ?, 1, 0, 'Unknown command type', 7, 3, 2, 909, '', 0)",
            (START + 50_000, START + 50_000),
        )
        db.execute(
            "INSERT INTO COPY VALUES (?, ?, 1, 0, 'CopyHostToDevice', 1, 3, 1, 909, '', 0)",
            (START + 3000, START + 8000),
        )
        for at in (65_000, 67_000):
            db.execute(
                "INSERT INTO COPY VALUES (?, ?, 1, 0, 'FillBuffer', 1, 3, 5, 909, '', 0)",
                (START + at, START + at + 1000),
            )
        db.execute(
            "INSERT INTO rocTX VALUES (?, ?, 0, 910, '\"step\"', 0)", (START + 500, START + 80_000)
        )
        db.execute(
            "INSERT INTO rocTX VALUES (?, ?, 0, 910, '\"mark\"', 1)", (START + 600, START + 601)
        )
    db.close()


def v1_json() -> str:
    """The same run as rocprof's JSON: every value a text, calls and work joined by arrows in
    microseconds.
    """
    lanes = {0: "Markers and Ranges", 2: "CPU HIP API", 1: "COPY", 7: "GPU1"}
    out: list[Any] = [
        {},
        *(
            {"ph": "M", "pid": n, "name": "process_name", "args": {"name": w}}
            for n, w in lanes.items()
        ),
    ]

    def event(lane: int, tid: int, begin: int, end: int, name: str, **more: Any) -> None:
        args = {
            "BeginNs": str(begin),
            "EndNs": str(end),
            "pid": str(lane),
            "tid": str(tid),
            "Name": name,
            **more,
        }
        times = {"ts": str((begin - START) // 1000), "dur": str((end - begin) // 1000)}
        out.append(
            {"ph": "X", "name": name, "pid": str(lane), "tid": str(tid), **times, "args": args}
        )

    for begin, end, lane, tid, name, args, _ in HIP_ROWS:
        event(lane, tid, begin, end, name, args=args)
    where = {"dev-id": "1", "queue-id": "0", "proc-id": "909"}
    works = (
        (7, 30_000, 50_000, "scale(float*)"),
        (7, 50_000, 50_000, "Unknown command type"),
        (1, 3000, 8000, "CopyHostToDevice"),
    )
    for lane, begin, end, name in (
        *works,
        (1, 65_000, 66_000, "FillBuffer"),
        (1, 67_000, 68_000, "FillBuffer"),
    ):
        event(lane, 3, START + begin, START + end, name, **where)
    event(0, 910, START + 500, START + 80_000, "step")
    event(0, 910, START + 600, START + 601, "mark")
    for number, (tail, lane, head) in enumerate(((3, 1, 3), (22, 7, 30), (67, 1, 67))):
        out.append(
            {
                "ts": tail,
                "ph": "s",
                "cat": "DataFlow",
                "id": number,
                "pid": 2,
                "tid": 910,
                "name": "dep",
            }
        )
        out.append(
            {
                "ts": head,
                "ph": "t",
                "cat": "DataFlow",
                "id": number,
                "pid": lane,
                "tid": 3,
                "name": "dep",
            }
        )
    about = {
        "CMD": "./run --token=secret",
        "Agent1.DeviceType": "CPU",
        "Agent2.Name": "gfx906",
        "Agent2.DeviceType": "GPU",
    }
    about |= {"Agent2.PoolInfo.Pool1.Size": "33538048(0x1ffc000)KB", "Agent2.ComputeUnit": "64"}
    return json.dumps({"traceEvents": out, "otherData": about})


def equal_but_for_numbering(a: Trace, b: Trace) -> None:
    """The same tables; ids of calls and order of names are each format's own."""
    assert set(a.tables) - {"devices"} == set(b.tables) - {"devices"}
    for name in set(a.tables) - {"devices"}:
        x, y = a.table(name), b.table(name)
        own = {"name", "short_name", "correlation"}
        assert x.drop(own & set(x.columns)).equals(y.drop(own & set(y.columns))), name
        if "name" in x.columns:
            assert a.text(x).to_list() == b.text(y).to_list()
    assert launch_pairs(a.tables).equals(launch_pairs(b.tables))
