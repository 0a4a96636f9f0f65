"""A GPU, its streams and the threads that use it, event by event: what small programs take on any
machine.

The rules are those of CUDA, said once and slowly: a stream keeps its order, a kernel begins when
its share of the device is free, a direction has one copy engine, a blocking call returns one return
after what it waits for.  `recorded` writes down what a profiler would.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import polars as pl
import simpy
from rows import PROCESS, copy, on_device
from strategies import D2H, H2D, NAMES, trace_of

from turnbuckle.trace.trace import Trace

Program = Generator[Any, Any, None]

#: A share of the device is so many parts of it.
WHOLE: Final = 108 * 8
#: Launches that take a share: blocks of 256 threads on 108 multiprocessors, each of which holds 8
#: of them.
THREADS: Final = 256
GPU: Final = {"device": 0, "multiprocessors": 108, "compute_major": 8, "compute_minor": 0}
_NON_BLOCKING: Final = 2
#: Calls that drawn runs do not make.
MORE: Final = ("cudaStreamWaitEvent", "cudaEventSynchronize")


@dataclass(frozen=True)
class Where:
    """A machine, in nanoseconds and factors.

    Attributes
    ----------
    call, delivery, back : what a call takes, from its begin to that of its kernel, from the end of
        work to the return of who waits for it.
    copy_delivery : from the begin of a call to that of its copy.
    kernels, copies : how many times as long kernels and copies take as written.
    host : how many times as long the program's own work takes.
    """

    call: int = 2_000
    delivery: int = 5_000
    copy_delivery: int = 5_000
    back: int = 3_000
    kernels: float = 1.0
    copies: float = 1.0
    host: float = 1.0


@dataclass
class Gpu:
    """One device on one clock, and the rows that a profiler writes of it."""

    at: Where = field(default_factory=Where)

    def __post_init__(self) -> None:
        self.clock = simpy.Environment(initial_time=1_000)
        self.room = simpy.Container(self.clock, WHOLE, init=WHOLE)
        self.engines = {direction: simpy.Resource(self.clock) for direction in (H2D, D2H)}
        self.last: dict[tuple[int, int], Any] = {}
        self.rows: dict[str, list[dict[str, Any]]] = {
            "api": [],
            "kernels": [],
            "copies": [],
            "devices": [GPU],
            "syncs": [],
            "events": [],
        }
        self.held: dict[tuple[int, int], list[Any]] = {}
        self.count = 0
        self.end = 0

    def thread(self, number: int, process: int = 0) -> Thread:
        """Return a thread of a process."""
        return Thread(self, number, process)

    def run(self, *programs: Program) -> Gpu:
        """Let threads run to their end."""
        for program in programs:
            self.clock.process(program)
        self.clock.run()
        return self

    @property
    def seconds(self) -> float:
        """Return the first begin to the last end [s]."""
        rows = [row for table in ("api", "kernels", "copies") for row in self.rows[table]]
        return (max(r["end_ns"] for r in rows) - min(r["start_ns"] for r in rows)) * 1e-9

    def trace(self) -> Trace:
        """Return what a profiler would have written."""
        streams = sorted(
            {
                (r["process"], r["stream"])
                for table in ("kernels", "copies")
                for r in self.rows[table]
            }
        )
        self.rows["streams"] = [
            {"process": p, "context": 1, "stream": s, "kind": _NON_BLOCKING} for p, s in streams
        ]
        made = trace_of({name: rows for name, rows in self.rows.items() if rows})
        return replace(made, names=pl.Series("name", [*NAMES, *MORE], dtype=pl.String))


@dataclass
class Thread:
    """One thread of a program; every call is a generator, to be asked for with ``yield from``."""

    gpu: Gpu
    number: int
    owner: int = 0

    @property
    def process(self) -> int:
        return PROCESS + (self.owner << 24)

    def work(self, ns: int) -> Program:
        """Do the program's own work."""
        yield self.gpu.clock.timeout(round(ns * self.gpu.at.host))

    def launch(
        self, stream: int, ns: int, share: float = 1.0, after: Iterable[Any] = (), **more: Any
    ) -> Generator[Any, Any, Any]:
        """Launch a kernel that takes so long on so much of the device; return what is done when it
        is.
        """
        return (yield from self._put("cudaLaunchKernel", "kernels", stream, ns, share, after, more))

    def copy(
        self,
        stream: int,
        ns: int,
        direction: int = H2D,
        blocking: bool = False,
        after: Iterable[Any] = (),
        **more: Any,
    ) -> Generator[Any, Any, Any]:
        """Copy between pinned memory and the device."""
        name = "cudaMemcpy" if blocking else "cudaMemcpyAsync"
        return (
            yield from self._put(
                name, "copies", stream, ns, direction, after, {"blocking": blocking, **more}
            )
        )

    def wait(self, *works: Any, name: str = "cudaDeviceSynchronize") -> Program:
        """Wait for work; return one return after the last of it."""
        clock, at = self.gpu.clock, self.gpu.at
        begin = clock.now
        pending = [w for w in works if not w.processed]
        if pending:
            yield simpy.AllOf(clock, pending)
            yield clock.timeout(at.back)
        if clock.now - begin < at.call:
            yield clock.timeout(begin + at.call - clock.now)
        self.called(begin, name)

    def wait_stream(self, stream: int) -> Program:
        """Wait for a stream, which the call's row names."""
        last = self.gpu.last.get((self.process, stream))
        begin = self.gpu.clock.now
        yield from self.wait(*([] if last is None else [last]), name="cudaStreamSynchronize")
        self._waited(begin, {"stream": stream, "sync_type": 3})

    def record(self, stream: int) -> Generator[Any, Any, tuple[int, Any]]:
        """Record an event on a stream; return its number, and what it is recorded behind."""
        begin, number = self.gpu.clock.now, self.numbered()
        behind = self.gpu.last.get((self.process, stream))
        yield self.gpu.clock.timeout(self.gpu.at.call)
        self.called(begin, "cudaEventRecord", number)
        about = {
            "process": self.process,
            "context": 1,
            "stream": stream,
            "event": number,
            "event_record": number,
            "correlation": number,
        }
        self.gpu.rows["events"].append(about)
        return number, behind

    def stream_waits(self, stream: int, event: tuple[int, Any]) -> Program:
        """Make a stream wait for an event."""
        begin = self.gpu.clock.now
        number, behind = event
        if behind is not None:
            self.gpu.held.setdefault((self.process, stream), []).append(behind)
        yield self.gpu.clock.timeout(self.gpu.at.call)
        self.called(begin, "cudaStreamWaitEvent")
        self._waited(
            begin, {"stream": stream, "sync_type": 2, "event": number, "event_record": number}
        )

    def _waited(self, begin: int, about: dict[str, Any]) -> None:
        row = self.gpu.rows["api"][-1]
        times = {"start_ns": begin, "end_ns": row["end_ns"], "correlation": row["correlation"]}
        self.gpu.rows["syncs"].append({**times, "process": self.process, "context": 1, **about})

    def _put(
        self,
        name: str,
        table: str,
        stream: int,
        ns: int,
        what: Any,
        after: Iterable[Any],
        more: dict[str, Any],
    ) -> Generator[Any, Any, Any]:
        clock, at = self.gpu.clock, self.gpu.at
        begin, number = clock.now, self.numbered()
        blocking = more.pop("blocking", False)
        place = self.process, stream
        before = [
            *after,
            *self.gpu.held.pop(place, []),
            *([self.gpu.last[place]] if place in self.gpu.last else []),
        ]
        earliest = begin + (at.delivery if table == "kernels" else at.copy_delivery)
        done = clock.process(self._done(table, stream, ns, what, before, earliest, number, more))
        self.gpu.last[place] = done
        if blocking:
            yield done
            yield clock.timeout(at.back)
        else:
            yield clock.timeout(at.call)
        self.called(begin, name, number)
        return done

    def _done(
        self,
        table: str,
        stream: int,
        ns: int,
        what: Any,
        before: list[Any],
        earliest: int,
        number: int,
        more: dict[str, Any],
    ) -> Program:
        clock, at, gpu = self.gpu.clock, self.gpu.at, self.gpu
        if pending := [w for w in before if not w.processed]:
            yield simpy.AllOf(clock, pending)
        if clock.now < earliest:
            yield clock.timeout(earliest - clock.now)
        place = {"process": self.process, "stream": stream, **more}
        if table == "kernels":
            parts = max(round(what * WHOLE), 1)
            yield gpu.room.get(parts)
            start = clock.now
            yield clock.timeout(round(ns * at.kernels))
            yield gpu.room.put(parts)
            gpu.rows[table].append(
                on_device(
                    start, clock.now, number, **{"blocks": parts, "threads": THREADS, **place}
                )
            )
            return
        with gpu.engines[what].request() as turn:
            yield turn
            start = clock.now
            yield clock.timeout(round(ns * at.copies))
        gpu.rows[table].append(copy(start, clock.now, what, ns * 10, number, **place))

    def graph(
        self, nodes: Iterable[tuple[int, int]], share: float, after: Iterable[Any]
    ) -> Generator[Any, Any, list[Any]]:
        """Launch a graph of kernels (stream, length) beside each other; return what is done when
        they are.
        """
        begin, number = self.gpu.clock.now, self.numbered()
        works = []
        for node, (stream, ns) in enumerate(nodes, 1):
            about = {"graph_node": node, "graph": 5}
            earliest = begin + self.gpu.at.delivery
            works.append(
                self.gpu.clock.process(
                    self._done("kernels", stream, ns, share, list(after), earliest, number, about)
                )
            )
        yield self.gpu.clock.timeout(self.gpu.at.call)
        self.called(begin, "cudaGraphLaunch", number)
        return works

    def numbered(self) -> int:
        """Return the next number of a call."""
        self.gpu.count += 1
        return self.gpu.count

    def called(self, begin: int, name: str, number: int | None = None, result: int = 0) -> None:
        """Write down a call that returns now."""
        number = self.numbered() if number is None else number
        who = {
            "thread": self.process | self.number,
            "process": self.process,
            "level": 0,
            "result": result,
        }
        named = [*NAMES, *MORE].index(name)
        self.gpu.rows["api"].append(
            {
                "start_ns": begin,
                "end_ns": self.gpu.clock.now,
                "correlation": number,
                "name": named,
                **who,
            }
        )
