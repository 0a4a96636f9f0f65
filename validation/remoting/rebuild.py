"""Recordings rebuilt from logs of CUDA calls that others published: the order and the bytes of each
call, on a clock of host times.

The logs have no clock.  Host times come from the log of the native run where it has them.  What is
left of the measured native time is the start of the program, in its first call (whole programs), or
is spread over the launches (one inference).  No log holds the length of a kernel: kernels end where
the read behind them ends, and where nothing waits for them they are as long as the calls that
launch them.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from turnbuckle.trace.trace import Trace, dtypes

#: Library calls that start work on the device; all other library calls set up descriptors, which
#: profilers of CUDA do not record.
OPERATIONS = (
    "cudnnConvolutionForward",
    "cudnnBatchNormalizationForwardInference",
    "cublasLtMatmul",
    "cublasSgemm_v2",
)
LAUNCH_CALLS = ("cudaLaunchKernel", "cuLaunchKernel")
WAIT_CALLS = ("cudaStreamSynchronize", "cudaThreadSynchronize", "cudaDeviceSynchronize")
NAMES = (
    "cudaLaunchKernel",
    "cudaMemcpy",
    "cudaMemcpyAsync",
    "cudaStreamSynchronize",
    "cudaMalloc",
    "kernel",
)
TO_DEVICE, FROM_DEVICE = 1, 2
PAGEABLE, DEVICE = 1, 3
#: Host time of a call where the native log tells none, and what a small read takes that waits for
#: nothing [ns].
HOST_NS = {"launch": 8_000, "copy": 4_000, "wait": 2_000, "alloc": 5_000}
SMALL_READ_NS = 6_000
#: Rate of copies of pageable memory where nothing tells their time [B/ns].
PAGEABLE_RATE = 8.0
PROCESS = 1 << 24


@dataclass(frozen=True)
class Call:
    """One call of a log: what it is, its bytes, the way of its copy, and its time on the host [ns]
    where the log tells it.
    """

    what: str
    size: int = 0
    way: int = 0
    host_ns: int | None = None
    blocks: bool = False


def calls(path: Path) -> Iterator[Call]:
    """Yield the calls of a log, native (`calls/`) or of the client (`recorded/`); descriptors and
    queries are left out.
    """
    with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name, size = row["name"], int(row["bytes"] or 0)
            host = int(float(row["host_us"]) * 1_000) if row.get("host_us") else None
            if name.startswith("cudaMemcpy"):
                way = TO_DEVICE if row["direction"] == "to device" else FROM_DEVICE
                yield Call("copy", size, way, host, blocks="Async" not in name)
            elif name in LAUNCH_CALLS or name in OPERATIONS:
                yield Call("launch", host_ns=host)
            elif name in WAIT_CALLS:
                yield Call("wait", host_ns=host)
            elif name == "cudaMalloc":
                yield Call("alloc", size, host_ns=host)


def unrecorded(path: Path) -> int:
    """Return how many commands a client sends for its library that a profiler of CUDA calls does
    not record.
    """
    with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
        names = [row["name"] for row in csv.DictReader(file)]
    return sum(name.startswith(("cudnn", "cublas")) and name not in OPERATIONS for name in names)


@dataclass
class Clock:
    """The clocks of one thread and one stream, and the rows written so far."""

    scale: float = 1.0
    host: int = 0
    stream: int = 0
    number: int = 0
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    pending: list[dict[str, Any]] = field(default_factory=list)

    def call(self, name: str, lasts: int, correlation: int | None = None) -> dict[str, Any]:
        """Write a host call; return its row."""
        row = {
            "start_ns": self.host,
            "end_ns": self.host + max(lasts, 2),
            "name": NAMES.index(name),
            "correlation": correlation,
        }
        row |= {"process": PROCESS, "thread": PROCESS | 1, "result": 0, "level": 0}
        self.rows.setdefault("api", []).append(row)
        self.host = int(row["end_ns"])
        return row

    def started(self, table: str, begin: int, lasts: int, **more: Any) -> dict[str, Any]:
        """Write work on the device; return its row."""
        begin = max(begin, self.stream)
        row = {
            "start_ns": begin,
            "end_ns": begin + max(lasts, 1),
            "process": PROCESS,
            "device": 0,
            "context": 1,
            "stream": 7,
        }
        self.rows.setdefault(table, []).append(row | more)
        self.stream = int(row["end_ns"])
        return self.rows[table][-1]

    def launch(self, lasts: int) -> None:
        """Launch a kernel as long as its call, that ends behind it: one that ends inside looks like
        a launch that waits.
        """
        self.number += 1
        row = self.call("cudaLaunchKernel", lasts, self.number)
        kernel = self.started(
            "kernels",
            row["start_ns"] + lasts // 2,
            lasts,
            correlation=self.number,
            name=NAMES.index("kernel"),
        )
        self.pending.append(kernel)

    def stretch(self, end: int) -> None:
        """Let the kernels since the last wait end at a time, each equally long."""
        if not self.pending or end <= self.stream:
            return
        begin = int(self.pending[0]["start_ns"])
        each = (end - begin) // len(self.pending)
        for kernel in self.pending:
            kernel["start_ns"] = max(begin, int(kernel["start_ns"]))
            begin = kernel["end_ns"] = int(kernel["start_ns"]) + max(each, 1)
        self.stream = begin

    def wait(self, lasts: int) -> None:
        """Wait for all work."""
        began = self.host
        self.stretch(began + lasts - HOST_NS["wait"])
        row = self.call("cudaStreamSynchronize", lasts)
        self.host = row["end_ns"] = max(self.host, self.stream + 1_000)
        self.pending = []

    def copy(self, one: Call, lasts: int) -> None:
        """Copy pageable memory, by a call that blocks or not."""
        self.number += 1
        if one.way == FROM_DEVICE:
            self.stretch(self.host + lasts - SMALL_READ_NS - int(one.size / PAGEABLE_RATE))
            self.pending = []
        row = self.call("cudaMemcpy" if one.blocks else "cudaMemcpyAsync", lasts, self.number)
        ends = (PAGEABLE, DEVICE) if one.way == TO_DEVICE else (DEVICE, PAGEABLE)
        more = {
            "size_bytes": one.size,
            "direction": one.way,
            "source_memory": ends[0],
            "target_memory": ends[1],
        }
        moving = (
            max(lasts // 2, 500) if one.way == TO_DEVICE else 1_000 + int(one.size / PAGEABLE_RATE)
        )
        self.started("copies", int(row["start_ns"]) + 500, moving, correlation=self.number, **more)
        if one.blocks:
            self.host = row["end_ns"] = max(self.host, self.stream + 500)

    def trace(self, name: str) -> Trace:
        """Return what was written as a recording."""
        tables = {}
        for table, rows in self.rows.items():
            types = dtypes(table)
            frame = pl.DataFrame({c: [row.get(c) for row in rows] for c in types}, schema=types)
            tables[table] = frame.sort("start_ns", maintain_order=True)
        facts = {
            "format": "rebuilt from a log of calls",
            "tables": {},
            "sha256": "0" * 64,
            "size_bytes": 0,
        }
        return Trace(tables, pl.Series("name", NAMES, dtype=pl.String), facts, [], name)


def _lasts(one: Call) -> int:
    """Return the host time of a call that is not scaled yet [ns]."""
    if one.host_ns is not None:
        return one.host_ns
    moving = int(one.size / PAGEABLE_RATE) if one.what == "copy" else 0
    return HOST_NS[one.what] + moving


def rebuilt(name: str, log: Iterable[Call], seconds: float, start_share: float | None) -> Trace:
    """Return a recording as long as was measured [s].

    Parameters
    ----------
    start_share : the share of the run that the start of the program takes at least, a call before
        those of the log; None is a stretch without a start, whose calls are lengthened to the time
        measured.
    """
    log = list(log)
    own = sum(map(_lasts, log))
    room = int(seconds * 1e9)
    for _ in range(12):  # waits make the run longer than the sum of its calls: settle
        least = 0 if start_share is None else int(start_share * seconds * 1e9)
        scale = room / own if start_share is None else min(1.0, max(room - least, 1) / own)
        clock = Clock()
        if start_share is not None:
            clock.call("cudaMalloc", int(seconds * 1e9) - int(own * scale))
        _play(clock, log, scale)
        over = max(clock.host, clock.stream) - int(seconds * 1e9)
        if abs(over) <= 1e-4 * seconds * 1e9:
            break
        room -= over
        own += over if start_share is not None and scale == 1.0 else 0
    return clock.trace(name)


def _play(clock: Clock, log: list[Call], scale: float) -> None:
    """Write the calls of a log, each as long as it was times `scale`."""
    for one in log:
        lasts = max(int(_lasts(one) * scale), 2)
        match one.what:
            case "launch":
                clock.launch(lasts)
            case "copy":
                clock.copy(one, lasts)
            case "wait":
                clock.wait(lasts)
            case _:
                clock.call("cudaMalloc", lasts)


def inference(log: list[Call], image: int) -> list[Call]:
    """Return one inference of a program that copies its weights first: its image, the calls after
    the weights, without allocations.
    """
    last = max(i for i, one in enumerate(log) if one.way == TO_DEVICE)
    body = [one for one in log[last + 1 :] if one.what == "launch"]
    return [Call("copy", image, TO_DEVICE), Call("wait"), *body]
