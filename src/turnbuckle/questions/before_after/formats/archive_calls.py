"""Calls of a recording as an OTF2 archive takes them: nested, with the records that stand inside
each, and a count of what has no place.

A location of an archive enters and leaves regions, and a region that was entered inside another is
left before it.  Calls of a thread that overlap without nesting are put on a further location of its
process, and so is work of a stream.  Ranges and calls of the operating system give way instead:
those that overlap a call of a runtime are left out, and counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from turnbuckle.foundation.schema import words
from turnbuckle.trace.bounds import DEVICE_TABLES
from turnbuckle.trace.trace import Trace

#: An event behind its method of the library's event writer, without its time.
Record = tuple[Any, ...]
_DIRECTIONS: Final = words("directions")
#: Copies that the format has records for: who reads or writes whose memory.
_ACCESSES: Final[dict[str, tuple[str, str | int | None]]] = {
    "h2d": ("rma_get", "host"),
    "d2h": ("rma_put", "host"),
    "d2d": ("rma_get", "own"),
    "p2p": ("rma_get", None),
}
_COPY_NAMES: Final = {
    "h2d": "memcpy host to device",
    "d2h": "memcpy device to host",
    "d2d": "memcpy inside a device",
    "p2p": "memcpy between devices",
    "h2h": "memcpy host to host",
    "migration_h2d": "migration host to device",
    "migration_d2h": "migration device to host",
    "migration_d2d": "migration between devices",
    "unknown": "memcpy of unknown direction",
}
#: Tables of a recording for which an archive that a tracer would write has no records.
_NO_PLACE: Final = {
    "syncs": "which stream each wait is for",
    "events": "events of streams",
    "graph_nodes": "nodes of graphs",
    "allocations": "allocations",
    "page_faults": "page faults",
    "scheduling": "changes of cores",
    "collectives": "sizes of collectives of GPUs",
    "devices": "products and clocks of devices",
    "streams": "priorities of streams",
    "diagnostics": "messages of the profiler",
    "processes": "how the clocks of merged files were shifted",
}
#: Kind of range that is pushed and popped, and of the overhead that is a flush of the tracer's
#: buffer.
_PUSHED, _FLUSH = 59, 3


class RegionKey(NamedTuple):
    """Region of code: its name, and the names of its paradigm and role in the library."""

    name: str
    paradigm: str
    role: str = "FUNCTION"


class Stream(NamedTuple):
    """A stream of a device as the recording numbers it."""

    process: int
    device: int
    context: int
    stream: int


@dataclass
class Call:
    """A region that is entered and left.

    Attributes
    ----------
    start, end : times on the recording's clock [ns].
    region : what is entered.
    first, last : records right behind the enter, and right before the leave.
    optional : it gives way where it overlaps another call.
    """

    start: int
    end: int
    region: RegionKey
    first: list[Record] = field(default_factory=list)
    last: list[Record] = field(default_factory=list)
    optional: bool = False


@dataclass
class Lanes:
    """Calls of one thread or stream, nested: one list of calls for each location, in the order in
    which they are entered.
    """

    lanes: list[list[Call]] = field(default_factory=lambda: [[]])

    @classmethod
    def of(cls, calls: Iterable[Call], lost: Counter[str]) -> Lanes:
        """Nest the calls; those that cannot nest go to further lanes, or are left out where they
        are optional.
        """
        out = cls()
        stacks: list[list[Call]] = [[]]
        dropped: set[int] = set()
        for call in sorted(calls, key=lambda c: (c.start, -c.end)):
            for lane in range(len(stacks) + 1):
                if lane == len(stacks):
                    stacks.append([])
                    out.lanes.append([])
                    lost["calls on a location of their own, as they overlap others"] += 0
                stack = stacks[lane]
                while stack and (
                    stack[-1].end <= call.start
                    or (stack[-1].end < call.end and stack[-1].optional and not call.optional)
                ):
                    if (over := stack.pop()).end > call.start:
                        dropped.add(id(over))
                if not stack or stack[-1].end >= call.end:
                    stack.append(call)
                    out.lanes[lane].append(call)
                    lost["calls on a location of their own, as they overlap others"] += lane > 0
                    break
                if call.optional:
                    lost["ranges and calls of the operating system that overlap calls"] += 1
                    break
        lost["ranges and calls of the operating system that overlap calls"] += len(dropped)
        out.lanes = [[call for call in lane if id(call) not in dropped] for lane in out.lanes]
        return out


def events(
    calls: Iterable[Call], points: Iterable[tuple[int, Record]] = ()
) -> list[tuple[int, Record]]:
    """Return the events of one location in the order of time; `calls` are nested and in the order
    in which they are entered.
    """
    out: list[tuple[int, Record]] = []
    stack: list[Call] = []

    def leave(until: float) -> None:
        while stack and stack[-1].end <= until:
            call = stack.pop()
            out.extend((call.end, record) for record in call.last)
            out.append((call.end, ("leave", call.region)))

    for call in calls:
        leave(call.start)
        out.append((call.start, ("enter", call.region)))
        out.extend((call.start, record) for record in call.first)
        stack.append(call)
    leave(math.inf)
    more = sorted(points, key=lambda p: p[0])
    return sorted([*out, *more], key=lambda event: event[0]) if more else out


def host_calls(trace: Trace, sites: dict[int, int], lost: Counter[str]) -> dict[int, list[Call]]:
    """Return the calls of each thread that are none of MPI: of runtimes, of the operating system,
    and ranges.

    `sites` holds the number of each call that started one piece of work on a device, by its row of
    the table ``api``.
    """
    out: dict[int, list[Call]] = {}
    spans = ["start_ns", "end_ns", "thread"]
    api = zip(trace.api.select(spans).iter_rows(), trace.text(trace.api).to_list(), strict=True)
    for row, ((start, end, thread), name) in enumerate(api):
        name = _spelt(name)
        call = Call(start, end, RegionKey(name, _paradigm(name)))
        if row in sites:
            call.first.append(("site", sites[row]))
        out.setdefault(thread, []).append(call)
    for (start, end, thread), name in zip(
        trace.os_calls.select(spans).iter_rows(), trace.text(trace.os_calls).to_list(), strict=True
    ):
        name = _spelt(name)
        kind = ("PTHREAD", "FUNCTION") if name.startswith("pthread") else ("NONE", "FILE_IO")
        out.setdefault(thread, []).append(Call(start, end, RegionKey(name, *kind), optional=True))
    ranges = trace.ranges.select(*spans, "kind")
    for (start, end, thread, kind), name in zip(
        ranges.iter_rows(), trace.text(trace.ranges).to_list(), strict=True
    ):
        if end is None or thread is None:
            lost["marks and ranges without an end or a thread"] += 1
        elif (name := _spelt(name)).lower().removeprefix("p").startswith("mpi_"):
            lost["ranges that are named as calls of MPI"] += 1
        else:
            lost["kinds of ranges other than pushed and popped"] += kind != _PUSHED
            out.setdefault(thread, []).append(
                Call(start, end, RegionKey(name, "USER"), optional=True)
            )
    return out


def flushes(trace: Trace, lost: Counter[str]) -> dict[int, list[tuple[int, Record]]]:
    """Return when the tracer wrote its buffer, by thread."""
    out: dict[int, list[tuple[int, Record]]] = {}
    for start, end, thread, kind in trace.overheads.select(
        "start_ns", "end_ns", "thread", "kind"
    ).iter_rows():
        if kind == _FLUSH and thread is not None:
            out.setdefault(thread, []).append((start, ("buffer_flush", end)))
        else:
            lost["overheads of the profiler other than flushes"] += 1
    return out


def device_work(
    trace: Trace, first_process: int, lost: Counter[str]
) -> tuple[dict[Stream, list[Call]], dict[int, int]]:
    """Return the work of each stream, and the number that each call has in common with the one
    piece of work that it started.

    A copy is a region with the role of a transfer around an access to remote memory, as Score-P's
    adapter writes it: a get from the host, a put to it, a get from the device's own stream.  A
    memory set is a put to the own stream.  The remote side is "host", "own" or the number of the
    other device.
    """
    site_of, sites = _sites(trace, lost)
    out: dict[Stream, list[Call]] = {}

    def add(row: dict[str, Any], table: str, number: int, region: RegionKey) -> Call:
        stream = Stream(
            _process(row, first_process),
            *(-1 if row[c] is None else row[c] for c in ("device", "context", "stream")),
        )
        call = Call(row["start_ns"], row["end_ns"], region)
        if (table, number) in site_of:
            call.first.append(("site", site_of[table, number]))
        out.setdefault(stream, []).append(call)
        return call

    for table, fallback in (("kernels", "(unnamed kernel)"), ("graphs", "(graph)")):
        frame = trace.table(table)
        texts = trace.text(frame).to_list() if "name" in frame.columns else [None] * frame.height
        for number, (row, text) in enumerate(zip(frame.iter_rows(named=True), texts, strict=True)):
            name = _spelt(text, fallback)
            add(row, table, number, RegionKey(name, "CUDA", "KERNEL"))
    lost["launch shapes of kernels"] += trace.kernels["blocks"].count()
    lost["graphs that are written as kernels"] += trace.graphs.height
    accesses = 0
    places = (trace.table(name).select("process", "device").unique() for name in DEVICE_TABLES)
    devices = {
        (_process(row, first_process), row["device"])
        for frame in places
        for row in frame.iter_rows(named=True)
    }

    def access(call: Call, method: str, remote: object, size: int | None) -> None:
        nonlocal accesses
        accesses += 1
        lost["sizes of copies that are not recorded: written as 0 bytes"] += size is None
        call.first.append((method, remote, size or 0, accesses))
        call.last.append(("rma_op_complete_blocking", accesses))

    for number, row in enumerate(trace.memsets.iter_rows(named=True)):
        access(
            add(row, "memsets", number, RegionKey("memset", "CUDA", "DATA_TRANSFER")),
            "rma_put",
            "own",
            row["size_bytes"],
        )
    for number, row in enumerate(trace.copies.iter_rows(named=True)):
        direction = _DIRECTIONS[row["direction"]]
        call = add(
            row, "copies", number, RegionKey(_COPY_NAMES[direction], "CUDA", "DATA_TRANSFER")
        )
        if direction not in _ACCESSES:
            lost[f"shown as regions, not as copies: {_COPY_NAMES[direction]}"] += 1
            continue
        method, remote = _ACCESSES[direction]
        if direction == "p2p":
            # a stream of one end reads from, or writes to, the other
            reads = row["source_device"] != row["device"]
            method, remote = (
                ("rma_get", row["source_device"]) if reads else ("rma_put", row["target_device"])
            )
            if (
                remote in (None, row["device"])
                or (_process(row, first_process), remote) not in devices
            ):
                lost[
                    (
                        "copies between devices of which only one is recorded: written as copies "
                        "inside it"
                    )
                ] += 1
                method, remote = "rma_get", "own"
        access(call, method, remote, row["size_bytes"])
    host = np.isin(
        trace.copies["direction"].to_numpy(), [_DIRECTIONS.index("h2d"), _DIRECTIONS.index("d2h")]
    )
    lost["whether the host's memory of a copy is pinned"] += int(host.sum())
    for name, what in _NO_PLACE.items():
        lost[what] += trace.table(name).height
    return out, sites


def _process(row: dict[str, Any], first_process: int) -> int:
    """Return the process of a row on a device, the run's first where the recording names none."""
    return first_process if row["process"] is None else int(row["process"])


def _sites(trace: Trace, lost: Counter[str]) -> tuple[dict[tuple[str, int], int], dict[int, int]]:
    """Number the calls that started one piece of device work each: by table and row of the work,
    and by row of the call.
    """
    pairs = trace.launch_pairs.sort("api_row", maintain_order=True)
    work: dict[tuple[str, int], int] = {}
    calls: dict[int, int] = {}
    counts: Counter[int] = Counter(pairs["api_row"].to_list())
    starts = {
        name: trace.table(name)["start_ns"].to_list() for name in pairs["table"].unique().to_list()
    }
    for table, row, call, begun in pairs.select(
        "table", "row", "api_row", "call_start_ns"
    ).iter_rows():
        if counts[call] > 1:
            lost["work of a call that started several pieces: which call it was"] += 1
        elif starts[table][row] < begun:
            lost["work that began before its call: which call it was"] += 1
        else:
            work[table, row] = calls[call] = len(calls) + 1
    return work, calls


def _spelt(name: object, fallback: str = "(unnamed)") -> str:
    """Return a name as the library takes it: a text of C ends at its first zero byte."""
    return str(name).replace("\0", "\N{REPLACEMENT CHARACTER}") if name else fallback


def _paradigm(name: str) -> str:
    """Return the paradigm of a runtime by the name of its call."""
    return (
        "HIP" if name.startswith(("hip", "hsa")) else "OPENCL" if name.startswith("cl") else "CUDA"
    )
