"""Small Nsight Systems exports for tests: the real column lists of several schemas, rows as dicts.

>>> import tempfile, pathlib
>>> path = make(pathlib.Path(tempfile.mkdtemp()) / "a.sqlite", NVTX_EVENTS=[{"start": 1, "end": 2, "eventType": 59, "text": "step"}])
>>> sqlite3.connect(path).execute("SELECT count(*) FROM NVTX_EVENTS").fetchone()
(1,)
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

VM = 1 << 48
PID, OTHER_PID = 4242, 4243
PROCESS, OTHER_PROCESS = VM | PID << 24, VM | OTHER_PID << 24
THREAD, OTHER_THREAD = PROCESS | PID, OTHER_PROCESS | OTHER_PID
NONE = 0xFFFF_FFFF

STRINGS = {
    0: "cudaLaunchKernel_v7000",
    1: "cudaMemcpyAsync_v3020",
    2: "void saxpy<float>(int, float, float const*, float*)",
    3: "saxpy",
    4: "MPI_Send",
    5: "registered",
    6: "poll",
    900_000: "far away",
}

_DEVICE = "start end deviceId contextId greenContextId streamId correlationId globalPid"
_NVTX = (
    "start end eventType rangeId category color text globalTid endGlobalTid textId domainId "
    "uint64Value int64Value doubleValue"
)
# Column lists of schema 3.24; `_ABSENT` says which of them older schemas lack.
COLUMNS: dict[str, str] = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue callchainId",
    "CUPTI_ACTIVITY_KIND_KERNEL": f"{_DEVICE} demangledName shortName mangledName launchType cacheConfig registersPerThread "
    "gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory "
    "localMemoryPerThread localMemoryTotal gridId "
    "sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig qmdBulkReleaseDone qmdPreexitDone "
    "qmdLastCtaDone graphId "
    "clusterX clusterY clusterZ",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_DEVICE} bytes copyKind deprecatedSrcId srcKind dstKind srcDeviceId srcContextId "
    "dstDeviceId dstContextId migrationCause graphNodeId virtualAddress copyCount",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{_DEVICE} value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"{_DEVICE} deprecatedSyncType syncType eventId eventSyncId",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": (
        "timestamp deviceId contextId greenContextId streamId correlationId globalPid eventId "
        "eventSyncId"
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{_DEVICE} graphId graphExecId",
    "CUDA_GRAPH_NODE_EVENTS": "start end nameId eventClass globalTid graphNodeId originalGraphNodeId",
    "CUDA_GRAPH_EVENTS": "start end nameId eventClass globalTid graphNodeId originalGraphNodeId",
    "NVTX_EVENTS": f"{_NVTX} uint32Value int32Value floatValue jsonTextId jsonText binaryData",
    "MPI_P2P_EVENTS": "start end globalTid textId commHandle tag remoteRank size requestHandle",
    "MPI_COLLECTIVES_EVENTS": "start end globalTid textId commHandle rootRank size recvSize requestHandle",
    "MPI_START_WAIT_EVENTS": "start end globalTid textId requestHandle",
    "MPI_OTHER_EVENTS": "start end globalTid textId",
    "MPI_RANKS": "globalTid rank",
    "MPI_COMMUNICATORS": "rank timestamp commHandle parentHandle localRank size groupRoot groupRootUid members",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": (
        "start globalPid deviceId contextId address pc bytes memKind memoryOperationType name "
        "correlationId"
    ),
    "CUDA_UM_GPU_PAGE_FAULT_EVENTS": "start end globalPid deviceId address numberOfPageFaults faultAccessType",
    "CUDA_UM_CPU_PAGE_FAULT_EVENTS": "start globalPid address CpuInstruction",
    "OSRT_API": "start end eventClass globalTid nameId returnValue nestingLevel callchainId",
    "SCHED_EVENTS": "start cpu isSchedIn globalTid threadState threadBlock",
    "PROFILER_OVERHEAD": "start end globalTid nameId overheadType",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "start end eventClass globalTid correlationId nameId overheadType",
    "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text globalPid",
    "TARGET_INFO_GPU": "vmId id name busLocation isDiscrete l2CacheSize totalMemory memoryBandwidth clockRate "
    "smCount pwGpuId "
    "uuid luid chipName cuDevice asyncEngines computeMajor computeMinor",
    "TARGET_INFO_CUDA_GPU": "vmId name globalMemoryBandwidth globalMemorySize coreClockRate numMemcpyEngines "
    "numMultiprocessors "
    "deviceId pid computeCapabilityMajor computeCapabilityMinor",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid",
    "TARGET_INFO_CUDA_STREAM": "streamId hwId vmId processId contextId priority flag",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime localTime",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName name nameEnum value",
    "ANALYSIS_DETAILS": "globalVid duration startTime stopTime",
    "META_DATA_CAPTURE": "name value",
    "META_DATA_EXPORT": "name value",
    "EXPORT_META_DATA": "name value",
    "PROCESSES": "globalPid pid name",
    "ThreadNames": "nameId priority globalTid",
    "ENUM_CUDA_MEM_KIND": "id name label",
    "SAMPLING_CALLCHAINS": "id symbol module stackDepth",
}

_LATE_KERNEL = {
    "qmdBulkReleaseDone",
    "qmdPreexitDone",
    "qmdLastCtaDone",
    "graphId",
    "clusterX",
    "clusterY",
    "clusterZ",
}
_LATE = {
    *_LATE_KERNEL,
    "copyCount",
    "eventSyncId",
    "deprecatedSyncType",
    "binaryData",
    "overheadType",
}
_ABSENT: dict[str, set[str]] = {
    "3.24": set(),
    "3.7": _LATE,
    "3.0": {*_LATE, "greenContextId"},
    "none": {*_LATE, "greenContextId", "mangledName", "virtualAddress", "migrationCause"},
}
_TEXT = {
    "text",
    "jsonText",
    "binaryData",
    "name",
    "label",
    "value",
    "busLocation",
    "uuid",
    "chipName",
    "utcTime",
    "localTime",
    "devStateName",
    "members",
}

_WORDS = (
    "PAGEABLE",
    "PINNED",
    "DEVICE",
    "ARRAY",
    "MANAGED",
    "DEVICE_STATIC",
    "MANAGED_STATIC",
    "UNKNOWN",
)
MEM_KINDS = [
    {"id": i, "name": f"CUDA_MEMOPR_MEMORY_KIND_{w}", "label": w.replace("_", " ").title()}
    for i, w in enumerate(_WORDS)
]
GPU = {
    "vmId": VM,
    "id": 0,
    "name": "NVIDIA Test GPU",
    "busLocation": "0000:01:00.0",
    "isDiscrete": 1,
    "chipName": "GH100",
    "cuDevice": 0,
}
GPU |= {
    "totalMemory": 80 << 30,
    "memoryBandwidth": 3_352_000_000_000,
    "clockRate": 1_980_000_000,
    "smCount": 132,
}
GPU |= {"asyncEngines": 3, "computeMajor": 9, "computeMinor": 0}


def call(start: int, end: int, correlation: int | None, **other: Any) -> dict[str, Any]:
    """A row of the runtime table."""
    return {
        "start": start,
        "end": end,
        "eventClass": 0,
        "globalTid": THREAD,
        "correlationId": correlation,
        "nameId": 0,
        "returnValue": 0,
        **other,
    }


def _on_device(start: Any, end: Any, correlation: int | None) -> dict[str, Any]:
    return {
        "start": start,
        "end": end,
        "deviceId": 0,
        "contextId": 1,
        "streamId": 7,
        "correlationId": correlation,
        "globalPid": PROCESS,
    }


def kernel(start: Any, end: Any, correlation: int | None, **other: Any) -> dict[str, Any]:
    """A row of the kernel table."""
    shape = {
        "gridX": 4,
        "gridY": 2,
        "gridZ": 1,
        "blockX": 128,
        "blockY": 1,
        "blockZ": 1,
        "staticSharedMemory": 16,
        "dynamicSharedMemory": 1024,
    }
    return {
        **_on_device(start, end, correlation),
        "demangledName": 2,
        "shortName": 3,
        "registersPerThread": 32,
        **shape,
        **other,
    }


def copy(
    start: Any,
    end: Any,
    correlation: int | None,
    kind: Any = 1,
    source: Any = 1,
    target: Any = 2,
    size: Any = 4096,
    **other: Any,
) -> dict[str, Any]:
    """A row of the copy table; kinds in the profiler's own numbering."""
    return {
        **_on_device(start, end, correlation),
        "bytes": size,
        "copyKind": kind,
        "srcKind": source,
        "dstKind": target,
        **other,
    }


def _usual(schema: str) -> dict[str, list[dict[str, Any]]]:
    meta = "EXPORT_META_DATA" if schema == "3.0" else "META_DATA_EXPORT"
    version = {"3.24": "3.24.14", "3.7": "3.7.2", "3.0": "3.0.0", "none": ""}[schema]
    named = {
        "PRODUCT_NAME": "NVIDIA Nsight Systems",
        "PRODUCT_VERSION": "2023.4.4.54",
        "SCHEMA_VERSION": version,
    }
    named |= {
        "HOST": "SECRET-host",
        "USER": "SECRET-user",
        "PARAM_INPUT_PATH": "/home/SECRET-user/run.nsys-rep",
    }
    named = {f"EXPORT_{name}": value for name, value in named.items()}
    out: dict[str, list[dict[str, Any]]] = {
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            call(1_000, 2_000, 1),
            call(3_000, 4_000, 2),
            call(6_000, 9_000, 3, nameId=1),
        ],
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(2_500, 4_500, 1), kernel(4_600, 5_600, 2)],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [copy(7_000, 8_000, 3)],
        "TARGET_INFO_GPU": [GPU],
        "TARGET_INFO_CUDA_STREAM": [
            {
                "streamId": 7,
                "hwId": 0,
                "vmId": 1,
                "processId": PID,
                "contextId": 1,
                "priority": 4_294_967_291,
                "flag": 3,
            }
        ],
        "TARGET_INFO_SESSION_START_TIME": [
            {"utcEpochNs": 1_780_000_000_000_000_000, "utcTime": "", "localTime": ""}
        ],
        "ANALYSIS_DETAILS": [
            {"globalVid": VM, "duration": 10_000, "startTime": 0, "stopTime": 10_000}
        ],
        "PROCESSES": [{"globalPid": PROCESS, "pid": PID, "name": "/home/SECRET-user/bin/app"}],
    }
    if schema != "none":
        out[meta] = [{"name": k, "value": v} for k, v in named.items()]
        out["ENUM_CUDA_MEM_KIND"] = MEM_KINDS
        out["META_DATA_CAPTURE"] = [{"name": "ENVIRONMENT_VARIABLE:TOKEN", "value": "SECRET-token"}]
        out["TARGET_INFO_SYSTEM_ENV"] = [
            {
                "globalVid": VM,
                "devStateName": "Local",
                "name": "Hostname",
                "nameEnum": 1,
                "value": "SECRET-host",
            }
        ]
    return out


def _declared(column: str) -> str:
    name, _, kind = column.partition(":")
    usual = (
        "REAL" if name in ("doubleValue", "floatValue") else "TEXT" if name in _TEXT else "INTEGER"
    )
    return f"{name} {kind or usual}"


def make(
    path: Path,
    schema: str = "3.7",
    *,
    strings: dict[int, Any] | None = None,
    columns: dict[str, str] | None = None,
    sql: Iterable[str | tuple[str, Sequence[Any]]] = (),
    page_size: int = 4096,
    **tables: list[dict[str, Any]] | None,
) -> Path:
    """Write an export of `schema` (``none``, ``3.0``, ``3.7``, ``3.24``) to `path`.

    `tables` replaces the rows of single tables; ``None`` leaves a table out, an empty list writes
    it empty.  `columns` replaces the column list of single tables (``name`` or ``name:TYPE``).
    `sql` runs at the end: a statement, or a statement and its values.
    """
    path.unlink(missing_ok=True)
    rows = {**_usual(schema), **tables}
    with closing(sqlite3.connect(path, isolation_level=None)) as db, db:
        db.executescript(
            f"PRAGMA page_size={page_size}; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN"
        )
        db.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
        db.executemany("INSERT INTO StringIds VALUES (?,?)", (strings or STRINGS).items())
        for table, entries in rows.items():
            if entries is None:
                continue
            listed = [
                c
                for c in (columns or {}).get(table, COLUMNS[table]).split()
                if c not in _ABSENT[schema] or table in (columns or {})
            ]
            names = [c.partition(":")[0] for c in listed]
            db.execute(f"CREATE TABLE {table} ({', '.join(map(_declared, listed))})")
            marks = ",".join("?" * len(names))
            db.executemany(
                f"INSERT INTO {table} VALUES ({marks})",
                [[entry.get(c) for c in names] for entry in entries],
            )
        db.execute("COMMIT")
        for statement in sql:
            db.execute(statement) if isinstance(statement, str) else db.execute(*statement)
    db.close()
    return path
