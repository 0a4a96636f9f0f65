"""Reader of rocprofv3's JSON (``--output-format json``): one object per process, agents and names
before the records.

Lists of records are read element by element, so that a file of any size fits into memory.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import polars as pl

from turnbuckle.trace.readers.parts.json_pieces import Cut, Json
from turnbuckle.trace.readers.parts.mpi_tables import LARGEST, NO
from turnbuckle.trace.readers.rocprof.parts import Agents, add_allocation, add_marker
from turnbuckle.trace.readers.rocprof.rows import DRIVER, RUNTIME, Rows, blocks_of, kernel_name

TOP: Final = "rocprofiler-sdk-tool"
_CPU, _GPU = 1, 2
#: Types of memory banks on the GPU itself: visible to the host, and not.
_FRAME_BUFFERS: Final = (1, 2)
#: Kinds of records that no table holds.
_SIDES: Final = (
    "scratch_memory",
    "rccl_api",
    "rocdecode_api",
    "rocjpeg_api",
    "ompt",
    "pc_sample_host_trap",
    "pc_sample_stochastic",
)
_MOST_SHAPES: Final = 1 << 16
#: Keys of private data of the process and its machine.
_PRIVATE: Final = ("command", "node", "config")
Record = dict[str, Any]


def handle(value: object) -> object:
    """Return a number that may stand in an object of its own: ``{"handle": 7}``."""
    return value.get("handle", value.get("value")) if isinstance(value, dict) else value


def agent_facts(agent: Record, rows: Rows) -> dict[str, int]:
    """Return memory [B], clock [Hz], compute units and copy engines of an agent; 0 for what its
    description does not hold.
    """
    banks = agent.get("mem_banks")
    on_gpu = [
        b
        for b in (banks if isinstance(banks, list) else ())
        if isinstance(b, dict) and b.get("heap_type") in _FRAME_BUFFERS
    ]
    memory = [rows.number(b.get("size_in_bytes")) for b in on_gpu]
    figures = {
        "multiprocessors": "cu_count",
        "copy_engines": "num_sdma_engines",
        "clock_hz": "max_engine_clk_fcompute",
    }
    out = {column: max(rows.number(agent.get(key)), 0) for column, key in figures.items()}
    # the file gives the clock in MHz
    return out | {
        "clock_hz": 1_000_000 * min(out["clock_hz"], 1_000_000),
        "memory_bytes": min(sum(m for m in memory if m > 0), LARGEST),
    }


def read(text: Json, rows: Rows) -> tuple[pl.DataFrame, dict[str, int], bool]:
    """Read all processes of a file into `rows`.

    Returns the table ``devices``, the number of records of each kind, and whether the end of the
    file was reached.
    """
    seen: Counter[str] = Counter()
    agents: list[Agents] = []
    whole = True
    try:
        for key in text.members():
            if key != TOP or text.peek() != "[":
                text.skip()
                continue
            for _ in text.entries():
                process = _Process(text, rows, seen)
                agents.append(process.agents)
                process.read()
    except (Cut, ValueError):
        whole = False
    return (
        pl.concat([Agents().table(), *(a.table() for a in agents)])
        .unique("device", keep="first")
        .sort("device"),
        dict(seen),
        whole,
    )


class _Process:
    """Records of one process."""

    def __init__(self, text: Json, rows: Rows, seen: Counter[str]) -> None:
        self.text, self.rows, self.seen = text, rows, seen
        self.pid = NO
        self.agents = Agents()
        #: names of the records' kinds, and of each kind's operations
        self.kinds: list[tuple[str, list[Any]]] = []
        #: name and registers of a kernel by its number
        self.kernels: dict[int, tuple[int, int]] = {}
        self.messages: dict[int, str] = {}
        self.shapes: dict[tuple[Any, ...], tuple[int, int]] = {}
        #: kernels that are recorded only by the counters collected on them
        self.counted = Rows()
        self.dispatches = 0

    def read(self) -> None:
        """Read everything in the process's object."""
        try:
            for key in self.text.members():
                self._member(key)
        finally:
            if not self.dispatches:
                counted = self.counted.table("kernels")
                self.rows.frame("kernels", counted)
                self.rows.flaws["P181"] += counted.height

    def _member(self, key: str) -> None:
        if key == "metadata":
            self._metadata()
        elif key == "agents":
            for agent in self.text.elements():
                self._agent(agent)
        elif key == "strings":
            self._strings()
        elif key == "kernel_symbols":
            for symbol in self.text.elements():
                self._symbol(symbol)
        elif key in ("buffer_records", "callback_records") and self.text.peek() == "{":
            for kind in self.text.members():
                self._records(kind)
        else:
            self.text.skip()

    def _metadata(self) -> None:
        # host, command and settings are private, and skipped
        if self.text.peek() != "{":
            self.text.skip()
            return
        for key in self.text.members():
            if key == "pid":
                self.pid = self.rows.number(self.text.value())
                continue
            if key in _PRIVATE:
                self.rows.flaws["P119"] = 1
                self.rows.details["P119"] = "command line, host name, paths"
            self.text.skip()

    def _agent(self, agent: object) -> None:
        if not isinstance(agent, dict):
            return
        number = self.rows.number
        id, kind = number(handle(agent.get("id"))), agent.get("type")
        word = {_CPU: "CPU", _GPU: "GPU"}.get(kind if isinstance(kind, int) else 0, "")
        description = {
            "name": agent.get("product_name"),
            "chip": agent.get("name"),
            **agent_facts(agent, self.rows),
        }
        self.agents.add(
            id,
            word,
            number(agent.get("logical_node_type_id")),
            number(agent.get("cpu_cores_count")) > 0,
            **description,
        )

    def _strings(self) -> None:
        if self.text.peek() != "{":
            self.text.skip()
            return
        for key in self.text.members():
            if key == "buffer_records":
                for kind in self.text.elements():
                    named = kind if isinstance(kind, dict) else {}
                    operations = named.get("operations")
                    self.kinds.append(
                        (
                            str(named.get("kind", "")),
                            operations if isinstance(operations, list) else [],
                        )
                    )
            elif key == "marker_api":
                for entry in self.text.elements():
                    if isinstance(entry, dict) and isinstance(entry.get("value"), str):
                        self.messages[self.rows.number(entry.get("key"))] = entry["value"]
            else:
                self.text.skip()

    def _symbol(self, symbol: object) -> None:
        if not isinstance(symbol, dict):
            return
        names = (
            symbol.get(k) for k in ("formatted_kernel_name", "demangled_kernel_name", "kernel_name")
        )
        name = next((n for n in names if isinstance(n, str) and n), "")
        vectors = [self.rows.number(symbol.get(k)) for k in ("arch_vgpr_count", "accum_vgpr_count")]
        registers = sum(v for v in vectors if v >= 0) if vectors[0] > 0 else NO
        self.kernels[self.rows.number(symbol.get("kernel_id"))] = (
            self.rows.name(kernel_name(name)),
            registers,
        )

    def _records(self, kind: str) -> None:
        reading = {
            "kernel_dispatch": self._dispatch,
            "memory_copy": self._copy,
            "memory_allocation": self._allocation,
        }
        reading |= {
            "hip_api": self._call,
            "hsa_api": self._call,
            "marker_api": self._marker,
            "counter_collection": self._counted,
        }
        read = reading.get(kind)
        word = kind if read is not None or kind in _SIDES else "other records"
        for record in self.text.elements():
            self.seen[word] += 1
            self.dispatches += kind == "kernel_dispatch"
            if read is None:
                self.rows.unread[word] += 1
            elif isinstance(record, dict):
                read(record)
            else:
                self.rows.flaws["P162"] += 1

    # --- records ----------------------------------------------------------------------------------

    def _times(self, record: Record) -> tuple[int, int]:
        return self.rows.number(record.get("start_timestamp")), self.rows.number(
            record.get("end_timestamp")
        )

    def _correlation(self, record: Record) -> tuple[int, int]:
        """Return the record's id and that of the call around it; `NO` where the file says 0 or
        nothing.
        """
        ids = record.get("correlation_id")
        internal, ancestor = (
            (ids.get("internal"), ids.get("ancestor")) if isinstance(ids, dict) else (ids, None)
        )
        id, outer = self.rows.number(internal), self.rows.number(ancestor)
        return id or NO, outer if outer not in (0, id) else NO

    def _operation(self, record: Record) -> tuple[str, str]:
        kind, operation = record.get("kind"), record.get("operation")
        if isinstance(kind, int) and 0 <= kind < len(self.kinds):
            named, operations = self.kinds[kind]
            if (
                isinstance(operation, int)
                and 0 <= operation < len(operations)
                and isinstance(operations[operation], str)
            ):
                return named, operations[operation]
            return named, ""
        return "", ""

    def _dispatch(self, record: Record) -> None:
        info = record.get("dispatch_info")
        if isinstance(info, dict):
            self._kernel(self.rows, record, info, record)
        else:
            self.rows.flaws["P162"] += 1

    def _counted(self, record: Record) -> None:
        held = record.get("dispatch_data")
        info = held.get("dispatch_info") if isinstance(held, dict) else None
        if isinstance(held, dict) and isinstance(info, dict):
            self._kernel(self.counted, held, info, record)
        else:
            self.rows.flaws["P162"] += 1

    def _kernel(self, into: Rows, record: Record, info: Record, outer: Record) -> None:
        number = self.rows.number
        blocks, threads = self._shape(info.get("grid_size"), info.get("workgroup_size"))
        name, registers = self.kernels.get(number(info.get("kernel_id")), (NO, NO))
        self.rows.flaws["P128"] += name == NO
        device, stream = (
            self.agents.gpu(number(handle(info.get("agent_id")))),
            number(handle(outer.get("stream_id"))),
        )
        place = (
            *self._times(record),
            self.pid,
            device,
            stream,
            number(handle(info.get("queue_id"))),
            self._correlation(record)[0],
        )
        into.add(
            "kernels",
            (*place, name, blocks, threads, registers, number(info.get("group_segment_size"))),
        )

    def _shape(self, grid: Any, group: Any) -> tuple[int, int]:
        """Return the number of blocks and of threads per block; few shapes repeat, so they are
        kept.
        """
        try:
            key = grid["x"], grid["y"], grid["z"], group["x"], group["y"], group["z"]
            shape = self.shapes.get(key)
        except (TypeError, KeyError):
            return blocks_of(self._extent(grid), self._extent(group))
        if shape is None:
            shape = blocks_of(self._extent(grid), self._extent(group))
            if len(self.shapes) < _MOST_SHAPES:
                self.shapes[key] = shape
        return shape

    def _extent(self, size: object) -> tuple[int, ...]:
        return (
            tuple(self.rows.number(size.get(k)) for k in "xyz")
            if isinstance(size, dict)
            else (NO, NO, NO)
        )

    def _call(self, record: Record) -> None:
        kind, name = self._operation(record)
        place = (
            *self._times(record),
            self.pid,
            self.rows.number(record.get("thread_id")),
            *self._correlation(record),
        )
        self.rows.add(
            "api",
            (
                *place,
                self.rows.name(name or None),
                DRIVER if kind.startswith("HSA") else RUNTIME,
                NO,
            ),
        )

    def _copy(self, record: Record) -> None:
        number = self.rows.number
        source, target = (number(handle(record.get(k))) for k in ("src_agent_id", "dst_agent_id"))
        direction, device, source_device, target_device = self.agents.copy(
            self._operation(record)[1], source, target
        )
        place = (
            *self._times(record),
            self.pid,
            device,
            number(handle(record.get("stream_id"))),
            NO,
            self._correlation(record)[0],
        )
        self.rows.add(
            "copies", (*place, number(record.get("bytes")), direction, source_device, target_device)
        )

    def _allocation(self, record: Record) -> None:
        number = self.rows.number
        amounts = (
            self._correlation(record)[0],
            number(record.get("allocation_size")),
            number(handle(record.get("address"))),
        )
        agent = number(handle(record.get("agent_id")))
        add_allocation(
            self.rows,
            self._operation(record)[1],
            self._times(record)[0],
            self.pid,
            self.agents,
            agent,
            amounts,
        )

    def _marker(self, record: Record) -> None:
        message = self.messages.get(self._correlation(record)[0])
        start, end = self._times(record)
        add_marker(
            self.rows,
            self._operation(record)[1],
            message,
            start,
            end,
            self.pid,
            self.rows.number(record.get("thread_id")),
        )
