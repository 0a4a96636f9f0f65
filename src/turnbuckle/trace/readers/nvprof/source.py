"""Conversion of nvprof's activity records to rows of the tables of ``schema/trace.csv``.

Enumerations are CUPTI's (``cupti_activity.h``): copy kinds 0 to 10, memory kinds 0 to 7 (the
numbers of the vocabulary), kinds of synchronisation 1 to 4, flags of streams 1 to 3, causes of
migrations 1 to 5, and counters of unified memory 1 to 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import numpy as np
import polars as pl

from turnbuckle._native import demangle
from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.findings import finding
from turnbuckle.foundation.schema import table_rows
from turnbuckle.trace.ids import MOST_THREADS, id_of, process_of, thread_number
from turnbuckle.trace.readers.nvprof.names import short
from turnbuckle.trace.readers.nvprof.rows import Rows
from turnbuckle.trace.readers.nvprof.tables import KIND, MISSING, Database, numbered

Columns = dict[str, Int]

#: Direction by CUPTI's copy kind: unknown, h2d, d2h, host to array, array to host, four inside a
#: device, h2h, p2p.
_DIRECTIONS: Final = np.array([0, 1, 2, 1, 2, 3, 3, 3, 3, 5, 4])
_P2P: Final = 4
#: Direction of a migration by counter, and the counters of faults.
_MIGRATED: Final = {1: 6, 2: 7, 8: 8}
_CPU_FAULTS, _GPU_FAULTS = 3, 4
_MANAGED: Final = 5
#: What CUPTI writes for "no such device, stream or event", signed and unsigned.
_NONE: Final = (-1, 0xFFFFFFFF)
_THREAD: Final = 2
_MARK, _BEGINS, _ENDS = 1, 2, 4
_MOST_THREADS: Final = 1 << 20

_NAMES: Final = ("StringTable", "Version", "sqlite_sequence")
_DEVICE_WORK: Final = (
    "CONCURRENT_KERNEL",
    "KERNEL",
    "MEMCPY",
    "MEMCPY2",
    "MEMSET",
    "GRAPH_TRACE",
    "UNIFIED_MEMORY_COUNTER",
)
_OF_HOST: Final = (
    "RUNTIME",
    "DRIVER",
    "SYNCHRONIZATION",
    "CUDA_EVENT",
    "MARKER",
    "MARKER_DATA",
    "OVERHEAD",
    "MEMORY",
    "MEMORY2",
)
_DESCRIBED: Final = ("DEVICE", "CONTEXT", "STREAM", "NAME")
#: Tables of the file that become rows, and NAME, which holds the command and is never read.
READ: Final = frozenset((*_NAMES, *(f"{KIND}{t}" for t in (*_DEVICE_WORK, *_OF_HOST, *_DESCRIBED))))


@cache
def call_names() -> dict[tuple[int, int], str]:
    """Return the name of a host call by level (0 runtime, 1 driver) and CUPTI's number of it
    (cbid).

    Numbers and names are the enumerations of ``cupti_runtime_cbid.h`` and ``cupti_driver_cbid.h``
    of CUDA 11.8, 12.9 and 13.5: one number has one meaning in all of them, and later versions add
    numbers.
    """
    return {
        (int(row["level"]), int(row["cbid"])): row["name"]
        for row in table_rows("trace/readers/nvprof/calls.csv")
    }


def gather(database: Database, counts: Mapping[str, int]) -> Rows:
    """Read every table that becomes rows."""
    rows = Rows()
    source = _Source(database, counts, rows)
    source.host_calls()
    source.kernels()
    source.copies()
    source.memsets()
    source.waits_and_events()
    source.graphs()
    source.markers()
    source.overheads()
    source.unified_memory()
    source.allocations()
    source.devices_and_streams()
    if total := sum(rows.too_large.values()):
        where = ", ".join(f"{k} {n}" for k, n in rows.too_large.items() if n)
        rows.findings.append(finding("P106", total, where))
    return rows


class _Source:
    """Tables of the file, converted one after the other."""

    def __init__(self, database: Database, counts: Mapping[str, int], rows: Rows) -> None:
        self.database, self.counts, self.rows = database, counts, rows

    def take(self, table: str, needed: Sequence[str], wished: Sequence[str] = ()) -> Columns | None:
        """Return columns of a table that has rows: the needed ones, and those of the others that
        exist.
        """
        name = KIND + table
        rows = self.counts.get(name, 0)
        if not rows:
            return None
        has = self.database.columns[name]
        if missing := [c for c in needed if c not in has]:
            raise error_of(
                "P040", where=str(self.database.path), found=f"{name} without {', '.join(missing)}"
            )
        return self.database.integers(name, [*needed, *(c for c in wished if c in has)], rows)

    # --- the host ---

    def host_calls(self) -> None:
        """Add runtime and driver calls."""
        levels = []
        for level, table in enumerate(("RUNTIME", "DRIVER")):
            taken = self.take(
                table,
                ["cbid", "start", "end"],
                ["processId", "threadId", "correlationId", "returnValue"],
            )
            if taken:
                levels.append((level, taken))
        pids = {
            pid
            for _, taken in levels
            if "processId" in taken
            for (pid,) in numbered(taken["processId"])[0]
        }
        if len(pids) == 1:
            (pid,) = pids
            self.rows.process = id_of(pid) if 0 < pid < 1 << 38 else 0
        self._callers(levels)
        unknown: Counter[str] = Counter()
        while levels:
            level, taken = levels.pop(0)
            numbers, back = numbered(taken["cbid"])
            texts = [call_names().get((level, n)) for (n,) in numbers]
            index = np.array(
                [MISSING if t is None else self.rows.name(t) for t in texts], dtype=np.int64
            )
            name = index[back]
            missing = int((name == MISSING).sum())
            if missing:
                examples = [
                    str(n)
                    for (n,), t in zip(numbers, texts, strict=True)
                    if t is None and n != MISSING
                ][:8]
                unknown[f"{('runtime', 'driver')[level]} {', '.join(examples)}"] += missing
            process, thread = self._places(taken.get("processId"), taken.get("threadId"), len(name))
            call = {
                "name": name,
                "result": taken.get("returnValue"),
                "level": np.full(len(name), level),
            }
            where = {
                "process": process,
                "thread": thread,
                "correlation": _none(taken.get("correlationId"), 0),
            }
            self.rows.add(
                "api", len(name), start_ns=taken["start"], end_ns=taken["end"], **where, **call
            )
        if unknown:
            self.rows.findings.append(finding("P170", sum(unknown.values()), "; ".join(unknown)))

    def _callers(self, levels: Sequence[tuple[int, Columns]]) -> None:
        """Number the threads: a thread's own number where it fits 24 bits, else counted down from
        the largest, as in every trace.
        """
        for _, taken in levels:
            if "processId" in taken and "threadId" in taken:
                distinct, _ = numbered(taken["processId"], taken["threadId"])
                self.number([(p, t) for p, t in distinct[:_MOST_THREADS]])

    def number(self, callers: Sequence[tuple[int, int]]) -> None:
        """Give an id to threads that have none yet."""
        taken: dict[int, set[int]] = {}
        for (process, _), place in self.rows.threads.items():
            taken.setdefault(process, set()).add(thread_number(place))
        fresh = sorted(c for c in set(callers) if c not in self.rows.threads)
        for process, thread in fresh:
            if 0 < thread < MOST_THREADS:
                taken.setdefault(process, set()).add(thread)
        following: dict[int, int] = {}
        for process, thread in fresh:
            number = thread
            if not 0 < thread < MOST_THREADS:
                number = following.get(process, MOST_THREADS - 1)
                while number in taken.setdefault(process, set()):
                    number -= 1
                following[process] = number - 1
                taken[process].add(number)
            self.rows.threads[process, thread] = id_of(max(process, 0) & ((1 << 38) - 1), number)

    def _places(self, process: Int | None, thread: Int | None, rows: int) -> tuple[Int, Int]:
        """Return ids of the processes and threads of calls; calls that name none belong to thread 1
        of process 0.
        """
        if process is None or thread is None:
            return np.zeros(rows, np.int64), np.ones(rows, np.int64)
        distinct, back = numbered(process, thread)
        threads = np.array([self.rows.threads.get((p, t), 1) for p, t in distinct], dtype=np.int64)[
            back
        ]
        return process_of(threads), threads

    def _process(self, rows: int) -> Int:
        """Return the process of device records: that of all calls, or missing where the file holds
        several.
        """
        return np.full(rows, MISSING if self.rows.process is None else self.rows.process)

    # --- the device ---

    def _where(self, taken: Columns) -> dict[str, Int | None]:
        """Return the columns that all device records have."""
        rows = len(taken["start"])
        correlation = taken.get("correlationId")
        if correlation is not None and "runtimeCorrelationId" in taken:
            # before CUDA 6 one id is of the driver call, the other of the runtime call around it,
            # which is the outer one
            correlation = np.where(
                taken["runtimeCorrelationId"] > 0, taken["runtimeCorrelationId"], correlation
            )
        of_command = {
            "correlation": _none(correlation, 0),
            "graph_node": _none(taken.get("graphNodeId"), 0),
        }
        place = _ids(taken, device="deviceId", context="contextId", stream="streamId")
        return {
            "start_ns": taken["start"],
            "end_ns": taken["end"],
            "process": self._process(rows),
            **place,
            **of_command,
        }

    _PLACE: Final = (
        "deviceId",
        "contextId",
        "streamId",
        "correlationId",
        "runtimeCorrelationId",
        "graphNodeId",
    )

    def kernels(self) -> None:
        """Add kernels of both tables: concurrent ones, and those that the profiler serialised."""
        shape = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
        more = ("registersPerThread", "staticSharedMemory", "dynamicSharedMemory", "graphId")
        for table in ("CONCURRENT_KERNEL", "KERNEL"):
            taken = self.take(table, ["start", "end"], [*self._PLACE, "name", *shape, *more])
            if taken is None:
                continue
            rows = len(taken["start"])
            full, brief = self._texts(taken.get("name"), kernel=True)
            size = {
                "blocks": _product(taken, shape[:3]),
                "threads": _product(taken, shape[3:]),
                "shared_bytes": _sum(taken, more[1:3]),
            }
            what = {
                "name": full,
                "short_name": brief,
                "registers": taken.get(more[0]),
                "graph": _none(taken.get("graphId"), 0),
            }
            self.rows.add("kernels", rows, **self._where(taken), **what, **size)

    def _texts(self, ids: Int | None, kernel: bool = False) -> tuple[Int | None, Int | None]:
        """Return indices of texts, and of the short names of kernels; ids that the string table
        does not hold are P128.
        """
        if ids is None:
            return None, None
        distinct, back = numbered(ids)
        ids_read = [i for (i,) in distinct]
        texts = self.database.texts([i for i in ids_read if i > 0])
        lost = np.array([i not in texts and i not in (0, MISSING) for i in ids_read])[back]
        if lost.any():
            self.rows.findings.append(finding("P128", int(lost.sum())))
        full = dict(zip(texts, demangle(list(texts.values())), strict=True)) if kernel else texts
        names = np.array(
            [self.rows.name(full[i]) if i in full else MISSING for i in ids_read], dtype=np.int64
        )
        brief = np.array(
            [self.rows.name(short(full[i])) if i in full else MISSING for i in ids_read]
            if kernel
            else names
        )
        return names[back], brief[back]

    def copies(self) -> None:
        """Add copies, and copies between devices; numbers of memory kinds are the vocabulary's."""
        kinds = ("srcKind", "dstKind", "srcDeviceId", "dstDeviceId")
        strange = 0
        for table in ("MEMCPY", "MEMCPY2"):
            taken = self.take(table, ["start", "end", "bytes", "copyKind"], [*self._PLACE, *kinds])
            if taken is None:
                continue
            rows = len(taken["start"])
            valid = (taken["copyKind"] > 0) & (taken["copyKind"] < len(_DIRECTIONS))
            strange += int((~valid).sum())
            direction = np.where(valid, _DIRECTIONS[np.where(valid, taken["copyKind"], 0)], 0)
            if table == "MEMCPY2" and {"srcDeviceId", "dstDeviceId"} <= taken.keys():
                direction = np.where(taken["srcDeviceId"] != taken["dstDeviceId"], _P2P, direction)
            ends = _ids(taken, source_device="srcDeviceId", target_device="dstDeviceId")
            ends |= {
                end: _memory(taken.get(c), rows)
                for end, c in (("source_memory", "srcKind"), ("target_memory", "dstKind"))
            }
            self.rows.add(
                "copies",
                rows,
                **self._where(taken),
                size_bytes=taken["bytes"],
                direction=direction,
                **ends,
            )
        if strange:
            self.rows.findings.append(finding("P127", strange))

    def memsets(self) -> None:
        """Add memory sets."""
        taken = self.take("MEMSET", ["start", "end"], [*self._PLACE, "bytes", "memoryKind"])
        if taken:
            rows, memory = (
                len(taken["start"]),
                _memory(taken.get("memoryKind"), len(taken["start"])),
            )
            self.rows.add(
                "memsets", rows, **self._where(taken), size_bytes=taken.get("bytes"), memory=memory
            )

    def graphs(self) -> None:
        """Add graphs recorded whole."""
        taken = self.take("GRAPH_TRACE", ["start", "end"], [*self._PLACE, "graphId"])
        if taken:
            where = {
                **self._where(taken),
                "graph_node": None,
                "graph": _none(taken.get("graphId"), 0),
            }
            self.rows.add("graphs", len(taken["start"]), **where)

    def waits_and_events(self) -> None:
        """Add waits with what each waits for, and events."""
        taken = self.take(
            "SYNCHRONIZATION", ["start", "end"], ["type", *self._PLACE[1:4], "cudaEventId"]
        )
        if taken:
            waits = {
                "sync_type": _none(taken.get("type"), 0),
                "event": _none(taken.get("cudaEventId")),
            }
            self.rows.add("syncs", len(taken["start"]), **self._where(taken), **waits)
        events = self.take("CUDA_EVENT", ["eventId"], ["correlationId", "contextId", "streamId"])
        if events:
            rows = len(events["eventId"])
            where = _ids(events, context="contextId", stream="streamId", event="eventId")
            self.rows.add(
                "events",
                rows,
                process=self._process(rows),
                correlation=_none(events.get("correlationId"), 0),
                **where,
            )

    # --- ranges and overhead ---

    def _threads(self, table: str, rows: int, kind: Int | None) -> Int:
        """Return the thread of each row by its ``objectId``, process and thread as two 32-bit
        words; missing for other objects.
        """
        if not rows or not self.database.has(KIND + table, "objectId"):
            return np.full(rows, MISSING)
        codes, objects = self.database.objects(KIND + table, rows)
        callers = [
            (int.from_bytes(o[:4], "little"), int.from_bytes(o[4:8], "little", signed=True))
            for o in objects
        ]
        self.number(
            [c for c, o in zip(callers, objects, strict=True) if len(o) >= 8][:_MOST_THREADS]
        )
        ids = [
            self.rows.threads.get(c, MISSING) if len(o) >= 8 else MISSING
            for c, o in zip(callers, objects, strict=True)
        ]
        thread = np.array(ids, dtype=np.int64)[codes] if ids else np.full(rows, MISSING)
        thread = np.concatenate([thread, np.full(rows - len(thread), MISSING)])
        return thread if kind is None else np.where(kind == _THREAD, thread, MISSING)

    def markers(self) -> None:
        """Add NVTX ranges and marks: a range is a row where it begins, with its name, and a row
        with the same id where it ends.
        """
        taken = self.take("MARKER", ["flags", "timestamp", "id"], ["objectKind", "name", "domain"])
        if taken is None:
            return
        rows = len(taken["id"])
        name, _ = self._texts(taken.get("name"))
        marked = {"at": taken["timestamp"], "flags": taken["flags"], "range": taken["id"]}
        marked["thread"] = self._threads("MARKER", rows, taken.get("objectKind"))
        marked["name"] = np.full(rows, MISSING) if name is None else name
        marked["domain"] = taken.get("domain", np.zeros(rows, np.int64))
        frame = pl.DataFrame(marked).join(
            self._categories(), on="range", how="left", maintain_order="left"
        )
        marks = frame.filter(pl.col("flags") & _MARK != 0)
        # profilers reuse ids, so the n-th begin of an id belongs to its n-th end
        turn = pl.int_range(pl.len()).over("range").alias("turn")
        begins = frame.filter(pl.col("flags") & (_MARK | _BEGINS) == _BEGINS).with_columns(turn)
        ends = frame.filter(pl.col("flags") & (_MARK | _BEGINS | _ENDS) == _ENDS).with_columns(turn)
        ends_of = ends.select("range", "turn", end_ns="at", ended_by="thread")
        ranges = begins.join(ends_of, on=["range", "turn"], how="left", maintain_order="left")
        same_thread = (pl.col("thread") != MISSING) & (
            pl.col("ended_by").is_null() | (pl.col("thread") == pl.col("ended_by"))
        )
        ranges = ranges.with_columns(kind=pl.when(same_thread).then(59).otherwise(60))
        open_ranges = ranges["end_ns"].null_count()
        alone = ends.height - (ranges.height - open_ranges)
        nothing = rows - marks.height - begins.height - ends.height
        if open_ranges or alone or nothing:
            parts = {
                "begin without end": open_ranges,
                "end without begin": alone,
                "of other kinds": nothing,
            }
            self.rows.findings.append(
                finding(
                    "P173",
                    open_ranges + alone + nothing,
                    ", ".join(f"{n} {what}" for what, n in parts.items() if n),
                )
            )
        marks = marks.with_columns(kind=pl.lit(34), end_ns=pl.lit(None, dtype=pl.Int64))
        shown = ["at", "end_ns", "thread", "kind", "name", "domain", "category", "range"]
        every = pl.concat([ranges.select(shown), marks.select(shown)], how="vertical_relaxed")
        columns = {c: _nothing(every[c]) for c in ("end_ns", "thread", "name", "domain", "range")}
        columns |= {
            "start_ns": _nothing(every["at"]),
            "kind": every["kind"],
            "category": every["category"],
        }
        self.rows.add("ranges", every.height, **columns)

    def _categories(self) -> pl.DataFrame:
        """Return the category of markers by their id; 0 stands for none."""
        taken = self.take("MARKER_DATA", ["id"], ["category"])
        if taken is None or "category" not in taken:
            return pl.DataFrame(schema={"range": pl.Int64, "category": pl.Int64})
        frame = pl.DataFrame({"range": taken["id"], "category": taken["category"]})
        return frame.filter(~pl.col("category").is_in([0, MISSING])).unique(
            "range", keep="first", maintain_order=True
        )

    def overheads(self) -> None:
        """Add overhead of profiler and driver; kinds above the compiler are numbered in the upper
        16 bits.
        """
        taken = self.take("OVERHEAD", ["start", "end"], ["overheadKind", "objectKind"])
        if taken is None:
            return
        rows = len(taken["start"])
        kind = taken.get("overheadKind", np.zeros(rows, np.int64))
        high = kind >> 16
        kind = np.where(kind == 1, 2, np.where((high > 0) & (high < 1 << 8), high + 2, MISSING))
        thread = self._threads("OVERHEAD", rows, taken.get("objectKind"))
        self.rows.add(
            "overheads",
            rows,
            start_ns=taken["start"],
            end_ns=taken["end"],
            thread=thread,
            kind=kind,
        )

    # --- memory ---

    def unified_memory(self) -> None:
        """Add migrations and page faults; other counters, and those of CUDA 6 that have no begin,
        are P174.
        """
        if not self.counts.get(f"{KIND}UNIFIED_MEMORY_COUNTER"):
            return
        taken = self.take(
            "UNIFIED_MEMORY_COUNTER",
            ["counterKind", "value"],
            ["start", "end", "srcId", "dstId", "processId", "flags"],
        )
        assert taken is not None
        kind, rows = taken["counterKind"], len(taken["value"])
        if not {"start", "end"} <= taken.keys():
            self.rows.findings.append(
                finding("P174", rows, "counters with one time stamp (CUDA 6)")
            )
            return
        source, target = (_none(taken.get(c)) for c in ("srcId", "dstId"))
        process = self._owners(taken.get("processId"), rows)
        for counter, direction in _MIGRATED.items():
            of_counter = kind == counter
            on_device = source if counter == 2 else target
            cause = _between(taken.get("flags"), 1, 5)
            between = {"source_device": source, "target_device": target} if counter == 8 else {}
            columns = {"device": on_device, "cause": cause, **between}
            count = int(of_counter.sum())
            count, managed = int(of_counter.sum()), np.full(int(of_counter.sum()), _MANAGED)
            columns |= {
                "start_ns": taken["start"],
                "end_ns": taken["end"],
                "process": process,
                "size_bytes": taken["value"],
            }
            moved = {k: v[of_counter] for k, v in columns.items() if v is not None}
            direct = np.full(count, direction)
            self.rows.add(
                "copies",
                count,
                **moved,
                direction=direct,
                source_memory=managed,
                target_memory=managed,
            )
        for counter in (_CPU_FAULTS, _GPU_FAULTS):
            of_counter = kind == counter
            end = np.where(taken["end"] > 0, taken["end"], MISSING)
            device = (
                {} if counter == _CPU_FAULTS or source is None else {"device": source[of_counter]}
            )
            ended = {} if counter == _CPU_FAULTS else {"end_ns": end[of_counter]}
            faults = {
                "process": process[of_counter],
                "count": np.maximum(taken["value"][of_counter], 1),
                **device,
                **ended,
            }
            self.rows.add(
                "page_faults", int(of_counter.sum()), start_ns=taken["start"][of_counter], **faults
            )
        counters = (*_MIGRATED, _CPU_FAULTS, _GPU_FAULTS)
        if others := int((~np.isin(kind, counters)).sum()):
            self.rows.findings.append(
                finding("P174", others, "thrashing, throttling, remote mappings or unknown")
            )

    def _owners(self, process: Int | None, rows: int) -> Int:
        if process is None:
            return self._process(rows)
        return np.where((process > 0) & (process < 1 << 38), id_of(process), self._process(rows))

    def allocations(self) -> None:
        """Add allocations and releases of device memory: one row each (CUDA 11), or one row for
        both (before).
        """
        wished = ["processId", "deviceId", "contextId", "correlationId", "memoryKind", "address"]
        taken = self.take("MEMORY2", ["memoryOperationType", "bytes", "timestamp"], wished)
        if taken:
            self._allocated(taken, taken["timestamp"], taken["memoryOperationType"] - 1)
        taken = self.take("MEMORY", ["bytes", "start", "end"], wished)
        if taken:
            self._allocated(taken, taken["start"], np.zeros_like(taken["start"]))
            freed = {name: values[taken["end"] > 0] for name, values in taken.items()}
            self._allocated(freed, freed["end"], np.ones_like(freed["end"]))

    def _allocated(self, taken: Columns, time: Int, operation: Int) -> None:
        rows = len(time)
        where = _ids(taken, device="deviceId", context="contextId")
        where |= {
            "process": self._owners(taken.get("processId"), rows),
            "correlation": _none(taken.get("correlationId"), 0),
        }
        what = {
            "operation": np.where((operation == 0) | (operation == 1), operation, MISSING),
            "size_bytes": taken["bytes"],
        }
        memory = _memory(taken.get("memoryKind"), rows)
        self.rows.add(
            "allocations",
            rows,
            time_ns=time,
            memory=memory,
            address=taken.get("address"),
            **what,
            **where,
        )

    # --- descriptions ---

    def devices_and_streams(self) -> None:
        """Add every device of the node, used or not, and the streams."""
        thousands = {"memory_bandwidth": "globalMemoryBandwidth", "clock_hz": "coreClockRate"}
        counts = {
            "memory_bytes": "globalMemorySize",
            "multiprocessors": "numMultiprocessors",
            "copy_engines": "numMemcpyEngines",
        }
        counts |= {
            "compute_major": "computeCapabilityMajor",
            "compute_minor": "computeCapabilityMinor",
        }
        wished = ["id", "name", *thousands.values(), *counts.values()]
        taken = self.take("DEVICE", [], wished)
        if taken and "id" in taken:
            texts = self.database.texts(taken["name"].tolist()) if "name" in taken else {}
            names = pl.Series(
                [
                    texts.get(i)
                    for i in taken.get("name", np.zeros(len(taken["id"]), np.int64)).tolist()
                ],
                dtype=pl.String,
            )
            figures = {column: _thousand(taken.get(c)) for column, c in thousands.items()}
            figures |= {column: taken.get(c) for column, c in counts.items()}
            self.rows.add("devices", len(taken["id"]), device=taken["id"], name=names, **figures)
        else:
            self.rows.findings.append(finding("P123"))
        self._streams()

    def _streams(self) -> None:
        taken = self.take("STREAM", ["contextId", "streamId"], ["priority", "flag"])
        listed: set[tuple[int, int]] = set()
        if taken:
            rows = len(taken["streamId"])
            listed = set(zip(taken["contextId"].tolist(), taken["streamId"].tolist(), strict=True))
            kind = _between(taken["flag"] & 0xFFFF, 1, 3) if "flag" in taken else None
            about = {
                "context": taken["contextId"],
                "stream": taken["streamId"],
                "priority": taken.get("priority"),
                "kind": kind,
            }
            self.rows.add("streams", rows, process=self._process(rows), **about)
        contexts = self.take("CONTEXT", ["contextId"], ["nullStreamId"])
        if contexts and "nullStreamId" in contexts:
            pairs = sorted(
                set(
                    zip(
                        contexts["contextId"].tolist(),
                        contexts["nullStreamId"].tolist(),
                        strict=True,
                    )
                )
                - listed
            )
            pairs = [(c, s) for c, s in pairs if MISSING not in (c, s) and s not in _NONE]
            if pairs:
                context, stream = np.array(pairs, dtype=np.int64).T
                self.rows.add(
                    "streams",
                    len(pairs),
                    process=self._process(len(pairs)),
                    context=context,
                    stream=stream,
                    kind=np.full(len(pairs), 3),
                )


# --- values ---------------------------------------------------------------------------------------


def _ids(taken: Columns, **names: str) -> dict[str, Int | None]:
    """Return columns of ids by the names of the file, with `MISSING` for values that mean none."""
    return {column: _none(taken.get(name)) for column, name in names.items()}


def _none(values: Int | None, *nothing: int) -> Int | None:
    """Return ids with `MISSING` for values that mean none."""
    if values is None:
        return None
    out: Int = np.where(np.isin(values, nothing or _NONE), MISSING, values)
    return out


def _between(values: Int | None, low: int, high: int) -> Int | None:
    return None if values is None else np.where((values >= low) & (values <= high), values, MISSING)


def _nothing(values: pl.Series) -> pl.Series:
    return values.set(values == MISSING, None)


def _memory(kind: Int | None, rows: int) -> Int:
    """Return the kind of memory; 0 (unknown) where it is not recorded or not in the vocabulary."""
    return (
        np.zeros(rows, np.int64) if kind is None else np.where((kind >= 0) & (kind <= 7), kind, 0)
    )


def _thousand(values: Int | None) -> Int | None:
    """Convert kB/s to B/s, or kHz to Hz."""
    return (
        None
        if values is None
        else np.where((values > 0) & (values < 1 << 40), values * 1000, MISSING)
    )


def _product(taken: Columns, names: Sequence[str]) -> Int | None:
    if any(n not in taken for n in names):
        return None
    a, b, c = (taken[n] for n in names)
    sound: Bool = np.all([(v > 0) & (v < 1 << 31) for v in (a, b, c)], axis=0) & (
        a.astype(np.float64) * b * c < 2.0**62
    )
    return np.where(sound, a * b * c, MISSING)


def _sum(taken: Columns, names: Sequence[str]) -> Int | None:
    if any(n not in taken for n in names):
        return None
    parts = [taken[n] for n in names]
    sound: Bool = np.all([(v >= 0) & (v < 1 << 40) for v in parts], axis=0)
    return np.where(sound, parts[0] + parts[1], MISSING)
