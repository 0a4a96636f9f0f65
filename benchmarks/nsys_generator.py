"""Write a schema-faithful Nsight Systems SQLite file of any size, fast.

    python benchmarks/nsys_generator.py --rows 5000000 --out big.sqlite [--schema 3.0|3.7|3.24] [--seed 1] [--shuffle]

The rows are as wide as the exporter's, since wide rows are what makes reading slow; constant
columns are literals of the INSERT so that writing is not. The run it describes: one host thread,
iterations of 20 kernels on two streams, two copies each way, one memset, one stream wait and one
NVTX range. A device row starts after its call; work of one stream follows in order: kernels, copies
of either direction and sets have streams of their own. The times are random and stand for no
machine. `--shuffle` writes the rows of every table out of time order, as exports since 2025.6 may.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import nsys_tables as nsys

Ints = NDArray[np.int64]
Columns = dict[str, "Ints | int | None"]

PROCESS = 4242
GLOBAL_PROCESS = (1 << 48) | (PROCESS << 24)
THREAD = GLOBAL_PROCESS | PROCESS
KERNELS_EACH, COPIES_EACH = 20, 4
CALLS_EACH = KERNELS_EACH + COPIES_EACH + 2  # a memset and a wait
# kernels, copies, memset, sync with their calls, and one range
ROWS_EACH = 2 * KERNELS_EACH + 2 * COPIES_EACH + 5
STREAMS, IN_STREAM, OUT_STREAM, SET_STREAM = (7, 13), 14, 15, 16
API = (
    "cudaLaunchKernel_v7000",
    "cudaMemcpyAsync_v3020",
    "cudaMemsetAsync_v3020",
    "cudaStreamSynchronize_v3020",
)
SLICE = 100_000  # rows handed to SQLite at a time
PRODUCT = "synthetic (Turnbuckle nsys_generator)"


def _names(count: int) -> list[tuple[str, str]]:
    """Short and demangled names as long as real ones."""
    parts = ("gemm", "stencil", "reduce", "scatter", "axpy", "transpose", "softmax", "halo_pack")
    out = []
    for i in range(count):
        short = f"{parts[i % len(parts)]}_kernel_{i}"
        out.append(
            (
                short,
                (
                    f"void solver::detail::{short}<double, solver::Tile<{64 + i}, 32>, "
                    f"(int){i % 7}>(double const*, double*, int)"
                ),
            )
        )
    return out


def _in_order(release: Ints, seconds: Ints) -> Ints:
    """Ends of activities that run one after another, none before its `release`."""
    total = np.cumsum(seconds)
    return total + np.maximum.accumulate(release - (total - seconds))


class Generator:
    """Draws the columns of every event table for a number of iterations."""

    def __init__(self, iterations: int, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.iterations = iterations
        self.names = _names(160)
        self.strings = [*API, "step", *(text for pair in self.names for text in pair)]

    def tables(self) -> dict[str, Columns]:
        """Columns of every event table; a number or None is one value for all rows."""
        draw, many = self.random, self.iterations
        # positions of one iteration's calls: copies in, kernels, memset, copies out, wait
        kinds = np.array([1] * 2 + [0] * KERNELS_EACH + [2] + [1] * 2 + [3], dtype=np.int64)
        kind = np.tile(kinds, many)
        calls = len(kind)
        length = np.array([4_300, 3_700, 3_200, 180_000], dtype=np.int64)[kind] + draw.integers(
            0, 900, calls
        )
        start = 1_000_000_000 + np.cumsum(length + draw.integers(300, 1_500, calls)) - length
        correlation = np.arange(1, calls + 1, dtype=np.int64)
        of = {number: np.flatnonzero(kind == number) for number in range(4)}
        end = start + length
        common: Columns = {
            "deviceId": 0,
            "contextId": 1,
            "greenContextId": 0,
            "globalPid": GLOBAL_PROCESS,
        }
        return {
            "CUPTI_ACTIVITY_KIND_RUNTIME": {
                "start": start,
                "end": end,
                "eventClass": 0,
                "globalTid": THREAD,
                "correlationId": correlation,
                "nameId": kind + 1,
                "returnValue": 0,
                "callchainId": None,
            },
            "CUPTI_ACTIVITY_KIND_KERNEL": {
                **common,
                **self._kernels(end[of[0]], correlation[of[0]]),
            },
            "CUPTI_ACTIVITY_KIND_MEMCPY": {
                **common,
                **self._copies(end[of[1]], correlation[of[1]]),
            },
            "CUPTI_ACTIVITY_KIND_MEMSET": {
                **common,
                "start": end[of[2]] + 1_900,
                "end": end[of[2]] + 3_500,
                "streamId": SET_STREAM,
                "correlationId": correlation[of[2]],
                "value": 0,
                "bytes": 4096,
                "graphNodeId": None,
                "memKind": nsys.DEVICE,
            },
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": {
                **common,
                "start": start[of[3]] + 200,
                "end": end[of[3]] - 150,
                "streamId": STREAMS[0],
                "correlationId": correlation[of[3]],
                "deprecatedSyncType": 3,
                "syncType": nsys.SYNC_STREAM,
                "eventId": nsys.NO_ID,
                "eventSyncId": None,
            },
            "NVTX_EVENTS": {
                "start": start[::CALLS_EACH] - 100,
                "end": end[of[3]] + 100,
                "eventType": nsys.NVTX_PUSH_POP,
                "globalTid": THREAD,
                "textId": len(API) + 1,
                "domainId": 0,
            },
        }

    def _kernels(self, released: Ints, correlation: Ints) -> Columns:
        draw, count = self.random, len(released)
        which = draw.integers(0, len(self.names), count)
        seconds = 3_000 + 37 * which + draw.integers(0, 400, count)
        stream = np.where(np.arange(count) % 4 == 3, STREAMS[1], STREAMS[0])
        end = np.empty(count, dtype=np.int64)
        for number in STREAMS:
            own = np.flatnonzero(stream == number)
            end[own] = _in_order(released[own] + 1_900, seconds[own])
        shape: Columns = {
            "gridX": 64 + 16 * which,
            "gridY": 1 + which % 3,
            "gridZ": 1,
            "blockX": 128,
            "blockY": 1 + which % 2,
            "blockZ": 1,
        }
        memory: Columns = {
            "staticSharedMemory": 1024 * (which % 5),
            "dynamicSharedMemory": 0,
            "localMemoryPerThread": 0,
            "localMemoryTotal": 127401984,
            "sharedMemoryExecuted": 32768,
            "sharedMemoryLimitConfig": 0,
        }
        newer: Columns = {
            "qmdBulkReleaseDone": None,
            "qmdPreexitDone": None,
            "qmdLastCtaDone": None,
            "graphId": 0,
            "clusterX": 0,
            "clusterY": 0,
            "clusterZ": 0,
            "clusterSchedulingPolicy": 0,
            "maxPotentialClusterSize": 0,
            "maxActiveClusters": 0,
        }
        name = len(API) + 2 + 2 * which
        return {
            "start": end - seconds,
            "end": end,
            "streamId": stream,
            "correlationId": correlation,
            "demangledName": name + 1,
            "shortName": name,
            "mangledName": name,
            "launchType": 1,
            "cacheConfig": 0,
            "registersPerThread": 24 + which % 100,
            **shape,
            **memory,
            **newer,
            "gridId": np.arange(1, count + 1, dtype=np.int64),
            "graphNodeId": None,
        }

    def _copies(self, released: Ints, correlation: Ints) -> Columns:
        draw, count = self.random, len(released)
        inward = np.arange(count) % COPIES_EACH < 2
        size = np.int64(1) << draw.integers(3, 20, count)
        seconds = np.where(inward, 2_000 + size // 26, 2_200 + size // 26) + draw.integers(
            0, 90, count
        )
        end = np.empty(count, dtype=np.int64)
        for own in (np.flatnonzero(inward), np.flatnonzero(~inward)):
            end[own] = _in_order(released[own] + 1_700, seconds[own])
        host = np.where(np.arange(count) % COPIES_EACH == 1, nsys.PAGEABLE, nsys.PINNED)
        return {
            "start": end - seconds,
            "end": end,
            "streamId": np.where(inward, IN_STREAM, OUT_STREAM),
            "correlationId": correlation,
            "bytes": size,
            "copyKind": np.where(inward, nsys.H2D, nsys.D2H),
            "srcKind": np.where(inward, host, nsys.DEVICE),
            "dstKind": np.where(inward, nsys.DEVICE, host),
            "copyCount": 1,
        }


def _insert(
    database: sqlite3.Connection, table: str, schema: str, columns: Columns, order: Ints | None
) -> int:
    """Write one table; columns the schema does not have are left out. Returns the rows written."""
    varying: list[Ints] = []
    places = []
    for name in nsys.columns(table, schema):
        value: Any = columns.get(name)
        if isinstance(value, np.ndarray):
            varying.append(value if order is None else value[order])
            places.append("?")
        else:
            places.append("NULL" if value is None else str(int(value)))
    statement = f"INSERT INTO {table} VALUES ({','.join(places)})"
    count = len(varying[0])
    for first in range(0, count, SLICE):
        database.executemany(
            statement,
            zip(*[column[first : first + SLICE].tolist() for column in varying], strict=True),
        )
    return count


def _describe(database: sqlite3.Connection, generator: Generator, last_ns: int) -> None:
    """The small tables: strings, process, device, streams, session."""
    rows: dict[str, list[dict[str, object]]] = {
        "StringIds": [
            {"id": i, "value": text} for i, text in enumerate(generator.strings, start=1)
        ],
        "PROCESSES": [{"globalPid": GLOBAL_PROCESS, "pid": PROCESS, "name": "synthetic"}],
        "ANALYSIS_DETAILS": [
            {"globalVid": 1 << 48, "duration": last_ns, "startTime": 0, "stopTime": last_ns}
        ],
        "TARGET_INFO_SESSION_START_TIME": [
            {"utcEpochNs": 0, "utcTime": "1970-01-01T00:00:00", "localTime": "1970-01-01T00:00:00"}
        ],
        "TARGET_INFO_GPU": [
            {
                "vmId": 1 << 48,
                "id": 0,
                "name": "Synthetic GPU",
                "isDiscrete": 1,
                "smCount": 100,
                "asyncEngines": 2,
            }
        ],
        "TARGET_INFO_CUDA_STREAM": [
            {
                "streamId": stream,
                "hwId": 0,
                "vmId": 1,
                "processId": PROCESS,
                "contextId": 1,
                "priority": 0,
                "flag": 2,
            }
            for stream in (*STREAMS, IN_STREAM, OUT_STREAM, SET_STREAM)
        ],
    }
    for table, records in rows.items():
        names = list(records[0])
        statement = f"INSERT INTO {table} ({','.join(names)}) VALUES ({','.join('?' * len(names))})"
        database.executemany(statement, [tuple(record.values()) for record in records])


def generate(
    path: Path, rows: int, schema: str = "3.7", seed: int = 1, shuffle: bool = False
) -> dict[str, int]:
    """Write a file of about `rows` event rows (whole iterations, at least one) to `path`; returns
    the rows of every event table.
    """
    generator = Generator(max(1, round(rows / ROWS_EACH)), seed)
    tables = generator.tables()
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path, isolation_level=None)
    try:
        for pragma in (
            "page_size=4096",
            "journal_mode=OFF",
            "synchronous=OFF",
            "locking_mode=EXCLUSIVE",
            "cache_size=-65536",
        ):
            database.execute(f"PRAGMA {pragma}")
        database.execute("BEGIN")
        nsys.create(database, schema, PRODUCT)
        counts = {}
        for table, columns in tables.items():
            order = None
            if shuffle:
                start = columns["start"]
                assert isinstance(start, np.ndarray)
                order = generator.random.permutation(len(start)).astype(np.int64)
            counts[table] = _insert(database, table, schema, columns, order)
        end = tables["CUPTI_ACTIVITY_KIND_RUNTIME"]["end"]
        assert isinstance(end, np.ndarray)
        _describe(database, generator, int(end[-1]) + 1_000_000)
        database.execute("COMMIT")
    finally:
        database.close()
    return counts


def main() -> None:
    """Write one file and print what it holds as JSON."""
    parser = argparse.ArgumentParser(
        description="write a synthetic Nsight Systems SQLite file of any size"
    )
    parser.add_argument(
        "--rows", type=int, default=5_000_000, help="event rows of all tables together"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--schema", choices=sorted(nsys.VERSIONS), default="3.7")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shuffle", action="store_true", help="rows out of time order")
    chosen = parser.parse_args()
    began = time.perf_counter()
    counts = generate(chosen.out, chosen.rows, chosen.schema, chosen.seed, chosen.shuffle)
    facts = {
        "rows": counts,
        "total": sum(counts.values()),
        "bytes": chosen.out.stat().st_size,
        "seconds": time.perf_counter() - began,
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
