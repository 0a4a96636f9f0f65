"""Tables and columns of an Nsight Systems SQLite export, for files written here (the sample, the
benchmarks).

Column names and their order were read from public exports of schema 3.0, 3.6-3.17 and 3.25 and from
the manuals of Nsight Systems 2022.4 and 2023.4. Only tables that Turnbuckle's own files fill are
listed. `create` makes them in one database.
"""

from __future__ import annotations

import sqlite3

VERSIONS = {"3.0": "3.0.0", "3.7": "3.7.2", "3.24": "3.24.14"}

# name, then "!" = NOT NULL, ":TEXT" or ":REAL" = type, "@3.7" = first version that has the column,
# "=key" = primary key
_CUPTI = "start! end! deviceId! contextId! greenContextId@3.7 streamId! correlationId globalPid"
_TABLES: dict[str, str] = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start! end! eventClass! globalTid correlationId nameId! returnValue! callchainId",
    "CUPTI_ACTIVITY_KIND_KERNEL": f"""{_CUPTI} demangledName! shortName! mangledName launchType cacheConfig registersPerThread!
        gridX! gridY! gridZ! blockX! blockY! blockZ! staticSharedMemory! dynamicSharedMemory! localMemoryPerThread! localMemoryTotal!
        gridId! sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig qmdBulkReleaseDone@3.24 qmdPreexitDone@3.24
        qmdLastCtaDone@3.24 graphId@3.24 clusterX@3.24 clusterY@3.24 clusterZ@3.24 clusterSchedulingPolicy@3.24
        maxPotentialClusterSize@3.24 maxActiveClusters@3.24""",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"""{_CUPTI} bytes! copyKind! deprecatedSrcId srcKind dstKind srcDeviceId srcContextId dstDeviceId
        dstContextId migrationCause graphNodeId virtualAddress copyCount@3.24""",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{_CUPTI} value! bytes! graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"{_CUPTI} deprecatedSyncType@3.24 syncType! eventId! eventSyncId@3.24",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": """timestamp@3.24 deviceId! contextId! greenContextId@3.7 streamId! correlationId globalPid
        eventId! eventSyncId@3.24""",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": """start! globalPid! deviceId! contextId! address! pc! bytes! memKind! memoryOperationType!
        name:TEXT correlationId streamId localMemoryPoolAddress localMemoryPoolReleaseThreshold localMemoryPoolSize
        localMemoryPoolUtilizedSize importedMemoryPoolAddress importedMemoryPoolProcessId""",
    "NVTX_EVENTS": """start! end eventType! rangeId category color text:TEXT globalTid endGlobalTid textId domainId uint64Value
        int64Value doubleValue:REAL uint32Value int32Value floatValue:REAL jsonTextId jsonText:TEXT binaryData:TEXT@3.24""",
    "MPI_P2P_EVENTS": "start!@3.7 end globalTid textId commHandle tag remoteRank size requestHandle",
    "MPI_COLLECTIVES_EVENTS": "start!@3.7 end globalTid textId commHandle rootRank size recvSize requestHandle",
    "MPI_START_WAIT_EVENTS": "start!@3.7 end globalTid textId requestHandle",
    "MPI_OTHER_EVENTS": "start!@3.7 end globalTid textId",
    "MPI_RANKS": "globalTid!@3.7 rank!",
    "MPI_COMMUNICATORS": (
        "rank@3.7 timestamp commHandle parentHandle localRank size groupRoot groupRootUid "
        "members:TEXT"
    ),
    "OSRT_API": "start! end! eventClass! globalTid nameId! returnValue! nestingLevel callchainId!",
    "PROCESSES": "globalPid pid name:TEXT",
    "ThreadNames": "nameId! priority globalTid",
    "StringIds": "id!=key value!:TEXT",
    "ANALYSIS_DETAILS": "globalVid! duration! startTime! stopTime!",
    "TARGET_INFO_GPU": """vmId! id! name:TEXT busLocation:TEXT isDiscrete l2CacheSize totalMemory memoryBandwidth clockRate smCount pwGpuId
        uuid:TEXT luid chipName:TEXT cuDevice ctxswDevPath:TEXT ctrlDevPath:TEXT revision nodeMask constantMemory maxIPC
        maxRegistersPerBlock maxShmemPerBlock maxShmemPerBlockOptin maxShmemPerSm maxRegistersPerSm threadsPerWarp asyncEngines
        maxWarpsPerSm maxBlocksPerSm maxThreadsPerBlock maxBlockDimX maxBlockDimY maxBlockDimZ maxGridDimX maxGridDimY maxGridDimZ
        computeMajor computeMinor smMajor smMinor""",
    "TARGET_INFO_CUDA_STREAM": "streamId! hwId! vmId! processId! contextId! priority! flag!",
    "TARGET_INFO_CUDA_CONTEXT_INFO": (
        "nullStreamId!@3.7 hwId! vmId! processId! deviceId! contextId! parentContextId "
        "isGreenContext"
    ),
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime:TEXT localTime:TEXT",
}

# numbers and names as the exporter writes them; the label is the last column
_ENUMS: dict[str, tuple[str, str]] = {
    "ENUM_CUDA_DEV_MEM_EVENT_OPER": (
        "CUDA_DEV_MEM_EVENT_OPR_",
        "0 ALLOCATION Allocation;1 DEALLOCATION Deallocation",
    ),
    "ENUM_CUDA_FUNC_CACHE_CONFIG": (
        "CU_FUNC_CACHE_PREFER_",
        "0 NONE None;1 SHARED Shared;2 L1 L1;3 EQUAL Equal",
    ),
    "ENUM_CUDA_KERNEL_LAUNCH_TYPE": (
        "CUDA_KERNEL_LAUNCH_TYPE_",
        (
            "0 UNKNOWN Unknown;1 REGULAR Regular;2 COOPERATIVE_SINGLE_DEVICE Coop Single "
            "Device;3 COOPERATIVE_MULTI_DEVICE Coop Multi Device"
        ),
    ),
    "ENUM_CUDA_MEMCPY_OPER": (
        "CUDA_MEMCPY_KIND_",
        "0 UNKNOWN Unknown;1 HTOD Host-to-Device;2 DTOH Device-to-Host;3 HTOA Host-to-Array;4 "
        "ATOH Array-to-Host;5 ATOA Array-to-Array;"
        "6 ATOD Array-to-Device;7 DTOA Device-to-Array;8 DTOD Device-to-Device;9 HTOH "
        "Host-to-Host;10 PTOP Peer-to-Peer;"
        "11 UVM_HTOD Unified Host-to-Device;12 UVM_DTOH Unified Device-to-Host;13 UVM_DTOD "
        "Unified Device-to-Device",
    ),
    "ENUM_CUDA_MEM_KIND": (
        "CUDA_MEMOPR_MEMORY_KIND_",
        "0 PAGEABLE Pageable;1 PINNED Pinned;2 DEVICE Device;3 ARRAY Array;4 MANAGED Managed;5 "
        "DEVICE_STATIC Device Static;"
        "6 MANAGED_STATIC Managed Static;7 UNKNOWN Unknown",
    ),
    "ENUM_CUPTI_STREAM_TYPE": (
        "CUPTI_ACTIVITY_STREAM_CREATE_FLAG_",
        (
            "0 UNKNOWN Unknown stream type;1 DEFAULT Default stream;2 NON_BLOCKING Non-blocking "
            "stream;3 NULL Null stream"
        ),
    ),
    "ENUM_CUPTI_SYNC_TYPE": (
        "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_",
        "0 UNKNOWN Unknown;1 EVENT_SYNCHRONIZE Event sync;2 STREAM_WAIT_EVENT Stream wait sync;3 "
        "STREAM_SYNCHRONIZE Stream sync;"
        "4 CONTEXT_SYNCHRONIZE Context sync",
    ),
    "ENUM_NSYS_EVENT_CLASS": (
        "TRACE_PROCESS_EVENT_",
        "0 CUDA_RUNTIME CUDA runtime;1 CUDA_DRIVER CUDA driver;27 OS_RUNTIME OSRT runtime",
    ),
    "ENUM_NSYS_EVENT_TYPE": (
        "Nvtx",
        "33 Category NvtxCategory;34 Mark NvtxMark;39 Thread NvtxThread;59 PushPopRange "
        "NvtxPushPopRange;"
        "60 StartEndRange NvtxStartEndRange;75 DomainCreate NvtxDomainCreate;76 DomainDestroy "
        "NvtxDomainDestroy",
    ),
}

# enum, memory and copy numbers used by the writers
PAGEABLE, PINNED, DEVICE = 0, 1, 2
H2D, D2H = 1, 2
SYNC_WAIT_EVENT, SYNC_STREAM, SYNC_CONTEXT = 2, 3, 4
NVTX_MARK, NVTX_PUSH_POP, NVTX_DOMAIN = 34, 59, 75
NO_ID = 4294967295  # CUPTI's "invalid" stream or event


def _since(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def columns(table: str, schema: str) -> list[str]:
    """Column names of `table` in `schema` (``3.0``, ``3.7`` or ``3.24``), in the exporter's order;
    empty where the table is unknown.
    """
    return [name for name, _ in _columns(table, schema)]


def _columns(table: str, schema: str) -> list[tuple[str, str]]:
    out = []
    for position, word in enumerate(_TABLES[table].split()):
        word, _, since = word.partition("@")
        if since and _since(since) > _since(schema):
            if position == 0 and table.startswith(("MPI_", "TARGET_INFO_CUDA_CONTEXT")):
                return []
            continue
        word, _, key = word.partition("=")
        word, _, kind = word.partition(":")
        name = word.rstrip("!")
        out.append(
            (
                name,
                f"{kind or 'INTEGER'}{' NOT NULL' if word.endswith('!') else ''}{' PRIMARY KEY' if key else ''}",
            )
        )
    return out


def tables(schema: str) -> list[str]:
    """Names of the tables that exist in `schema`."""
    return [table for table in _TABLES if _columns(table, schema)]


def create(database: sqlite3.Connection, schema: str, product: str) -> None:
    """Make every table of `schema`, fill the enumerations and the export's own description
    (`product` is its product version).
    """
    for table in tables(schema):
        database.execute(
            f"CREATE TABLE {table} "
            f"({', '.join(f'{name} {kind}' for name, kind in _columns(table, schema))})"
        )
    for enum, (prefix, rows) in _ENUMS.items():
        if schema == "3.0" and enum == "ENUM_CUDA_KERNEL_LAUNCH_TYPE":
            enum = "ENUM_CUDA_KRENEL_LAUNCH_TYPE"  # spelled so by the 2022.4 exporter
        database.execute(
            f"CREATE TABLE {enum} (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)"
        )
        split = [row.split(" ", 2) for row in rows.split(";")]
        database.executemany(
            f"INSERT INTO {enum} VALUES (?,?,?)",
            [(int(i), prefix + name, label) for i, name, label in split],
        )
    meta = "EXPORT_META_DATA" if schema == "3.0" else "META_DATA_EXPORT"
    full = VERSIONS[schema]
    database.execute(f"CREATE TABLE {meta} (name TEXT NOT NULL, value TEXT)")
    facts = {
        "EXPORT_PRODUCT_NAME": "synthetic file in the layout of NVIDIA Nsight Systems",
        "EXPORT_PRODUCT_VERSION": product,
        "EXPORT_SCHEMA_VERSION": full,
        **dict(
            zip(
                [f"EXPORT_SCHEMA_VERSION_{part}" for part in ("MAJOR", "MINOR", "MICRO")],
                full.split("."),
                strict=True,
            )
        ),
    }
    database.executemany(f"INSERT INTO {meta} VALUES (?,?)", list(facts.items()))
