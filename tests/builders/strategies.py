"""Runs made up by hypothesis: a small program is drawn, executed on a toy clock, and written down
as a `Trace`.

The toy has processes with threads, devices with streams, a host clock a thread and a device clock a
stream; every record is consistent with that execution (a stream runs one thing at a time, a wait
ends after what it waits for).  What a real recording can hold besides is drawn too: nested driver
calls, graphs, migrations, records without a call, lost time stamps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
from hypothesis import settings
from hypothesis import strategies as st

from turnbuckle.machine import Machine, Parameter, schema
from turnbuckle.trace.trace import Trace, dtypes

#: Settings of the property tests of whole runs.
LAW = settings(max_examples=40)
#: The same for tests that build many profiles an example.
FEWER = settings(LAW, max_examples=25)

H2D, D2H, D2D, P2P, H2H = 1, 2, 3, 4, 5
MIGRATION_H2D, MIGRATION_D2H = 6, 7
PAGEABLE, PINNED, DEVICE, MANAGED = 1, 2, 3, 5

RUNTIME_NAMES = (
    "Memcpy",
    "MemcpyAsync",
    "Memset",
    "DeviceSynchronize",
    "StreamSynchronize",
    "Malloc",
    "Free",
    "EventRecord",
    "EventQuery",
)
CUDA_NAMES = (
    "cudaLaunchKernel",
    "cuLaunchKernel",
    *(f"cuda{name}" for name in (*RUNTIME_NAMES, "StreamCreate")),
    "cuModuleLoadData",
)
NAMES = (
    "kernel_a",
    "kernel_b",
    *CUDA_NAMES,
    "cuInit",
    "cudaGraphLaunch",
    "MPI_Send",
    "MPI_Allreduce",
)
TABLES = ("api", "kernels", "copies", "memsets", "graphs", "mpi")
"""Tables whose every sound row is one activity."""


@dataclass(frozen=True)
class Where:
    """How many of each the toy has."""

    processes: int = 1
    threads: int = 1
    devices: int = 1
    streams: int = 1


@dataclass
class Toy:
    """The clocks and the rows written so far."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    host: dict[int, int] = field(default_factory=dict)
    stream: dict[tuple[int, int, int], int] = field(default_factory=dict)
    correlation: dict[int, int] = field(default_factory=dict)

    def write(self, table: str, **row: Any) -> None:
        self.rows.setdefault(table, []).append(row)


@dataclass(frozen=True)
class Step:
    """One step of one thread of the toy program; times in ns, what each number means depends on
    `what`.
    """

    what: str
    thread: int
    device: int
    stream: int
    gap: int
    call: int
    delay: int
    work: int
    size: int
    flag: bool


COPYING = ("copy_in", "copy_in", "copy_out", "copy_other", "memset")
OTHERS = ("alloc", "small", "graph", "graph_nodes", "migrate", "mpi", "orphan", "work")
WHAT = ("launch", "launch", "launch", *COPYING, "wait", "wait", *OTHERS)


def steps(most: int = 14) -> st.SearchStrategy[list[Step]]:
    """A toy program."""
    # ties are the interesting part
    times = st.sampled_from([0, 10, 1_000, 3_000]) | st.integers(0, 40) | st.integers(0, 20_000)
    step = st.builds(
        Step,
        what=st.sampled_from(WHAT),
        thread=st.integers(0, 3),
        device=st.integers(0, 1),
        stream=st.integers(0, 1),
        gap=times,
        call=times,
        delay=times,
        work=times,
        size=st.sampled_from([0, 1, 8, 4096, 4097, 65_536, 1_000_003, 2**24]),
        flag=st.booleans(),
    )
    return st.lists(step, min_size=1, max_size=most)


def run_toy(program: list[Step], where: Where = Where()) -> Toy:
    """Execute a toy program."""
    toy = Toy()
    for step in program:
        index = step.thread % (where.processes * where.threads)
        process = (1000 + index // where.threads) << 24
        thread = process | (1 + index % where.threads)
        begin = toy.host.get(thread, 1_000) + step.gap
        stream = step.stream % where.streams
        _STEPS[step.what](toy, step, begin, process, thread, step.device % where.devices, stream)
        # the same graph on the other device
        if step.what == "graph_nodes" and step.flag and where.devices > 1:
            number = toy.correlation[process]
            _on_device(
                toy,
                "kernels",
                begin + step.call,
                step.work,
                process,
                1 - step.device,
                stream,
                correlation=number,
                name=1,
                graph_node=9,
            )
    return toy


def _call(toy: Toy, step: Step, name: str, begin: int, end: int, process: int, thread: int) -> int:
    toy.correlation[process] = number = toy.correlation.get(process, 0) + 1
    known = NAMES.index(name) if name else None
    toy.write(
        "api",
        start_ns=begin,
        end_ns=end,
        process=process,
        thread=thread,
        correlation=number,
        name=known,
        result=0,
        level=0,
    )
    toy.host[thread] = end
    return number


def _on_device(
    toy: Toy, table: str, ready: int, work: int, process: int, device: int, stream: int, **more: Any
) -> int:
    """Run something after everything before it on its stream -> when it ends."""
    key = (process, device, stream)
    start = max(ready, toy.stream.get(key, 0))
    toy.stream[key] = end = start + work
    toy.write(
        table,
        start_ns=start,
        end_ns=end,
        process=process,
        device=device,
        context=1,
        stream=stream,
        **more,
    )
    return end


def _launch(
    toy: Toy, step: Step, begin: int, process: int, thread: int, device: int, stream: int
) -> None:
    number = _call(toy, step, "cudaLaunchKernel", begin, begin + step.call, process, thread)
    if step.flag and step.call > 2:  # the driver call inside the runtime call, with the same id
        inner = {
            "process": process,
            "thread": thread,
            "correlation": number,
            "name": NAMES.index("cuLaunchKernel"),
            "result": 0,
            "level": 1,
        }
        toy.write("api", start_ns=begin + 1, end_ns=begin + step.call - 1, **inner)
    _on_device(
        toy,
        "kernels",
        begin + step.delay,
        step.work,
        process,
        device,
        stream,
        correlation=number,
        name=step.size % 2,
    )


def _copy(direction: int) -> Callable[..., None]:
    def copy(
        toy: Toy, step: Step, begin: int, process: int, thread: int, device: int, stream: int
    ) -> None:
        memory = (PINNED, PAGEABLE, PINNED, MANAGED, 0)[step.delay % 5]
        ends = {H2D: (memory, DEVICE), D2H: (DEVICE, memory)}.get(direction, (DEVICE, DEVICE))
        name = "cudaMemcpy" if step.flag else "cudaMemcpyAsync"
        number = _call(toy, step, name, begin, begin + step.call, process, thread)
        which = direction or (D2D, P2P, H2H, 0)[step.work % 4]
        kinds = {
            "direction": which,
            "source_memory": ends[0],
            "target_memory": ends[1],
            "size_bytes": step.size,
        }
        end = _on_device(
            toy,
            "copies",
            begin + step.delay,
            step.work,
            process,
            device,
            stream,
            correlation=number,
            **kinds,
        )
        if step.flag:  # a blocking copy returns after its end
            toy.host[thread] = toy.rows["api"][-1]["end_ns"] = max(
                begin + step.call, end + step.gap % 50
            )

    return copy


def _memset(
    toy: Toy, step: Step, begin: int, process: int, thread: int, device: int, stream: int
) -> None:
    number = _call(toy, step, "cudaMemset", begin, begin + step.call, process, thread)
    more = {"correlation": number, "size_bytes": step.size, "memory": DEVICE}
    _on_device(toy, "memsets", begin + step.delay, step.work, process, device, stream, **more)


def _wait(
    toy: Toy, step: Step, begin: int, process: int, thread: int, device: int, stream: int
) -> None:
    busy = toy.stream.get((process, device, stream), 0)
    _call(
        toy,
        step,
        "cudaStreamSynchronize" if step.flag else "cudaDeviceSynchronize",
        begin,
        max(begin, busy) + step.call % 3_000,
        process,
        thread,
    )


def _alloc(
    toy: Toy, step: Step, begin: int, process: int, thread: int, device: int, stream: int
) -> None:
    number = _call(
        toy,
        step,
        "cudaMalloc" if step.flag else "cudaFree",
        begin,
        begin + step.call,
        process,
        thread,
    )
    common = {
        "process": process,
        "device": device,
        "context": 1,
        "correlation": number,
        "memory": DEVICE,
        "size_bytes": step.size,
    }
    toy.write(
        "allocations",
        time_ns=begin + step.call,
        operation=0 if step.flag else 1,
        address=step.work % 3,
        **common,
    )


def _small(
    toy: Toy, step: Step, begin: int, process: int, thread: int, device: int, stream: int
) -> None:
    names = (
        "cudaEventRecord",
        "cudaEventQuery",
        "cudaStreamCreate",
        "cuModuleLoadData",
        "cuInit",
        "",
    )
    _call(toy, step, names[step.work % len(names)], begin, begin + step.call, process, thread)


def _graph(
    toy: Toy, step: Step, begin: int, process: int, thread: int, device: int, stream: int
) -> None:
    number = _call(toy, step, "cudaGraphLaunch", begin, begin + step.call, process, thread)
    _on_device(
        toy,
        "graphs",
        begin + step.delay,
        step.work,
        process,
        device,
        stream,
        correlation=number,
        graph=1,
        graph_exec=2,
    )


def _graph_nodes(
    toy: Toy, step: Step, begin: int, process: int, thread: int, device: int, stream: int
) -> None:
    number = _call(toy, step, "cudaGraphLaunch", begin, begin + step.call, process, thread)
    kinds = {
        "direction": H2D,
        "source_memory": PINNED,
        "target_memory": DEVICE,
        "size_bytes": step.size,
    }
    _on_device(
        toy,
        "copies",
        begin + step.delay,
        step.gap,
        process,
        device,
        stream,
        correlation=number,
        graph_node=1,
        **kinds,
    )
    for node in range(1 + step.flag):
        more = {"correlation": number, "name": node, "graph": 1, "graph_node": node + 2}
        _on_device(toy, "kernels", begin + step.delay, step.work, process, device, stream, **more)


def _migrate(
    toy: Toy, step: Step, begin: int, process: int, thread: int, device: int, stream: int
) -> None:
    kinds = {
        "direction": MIGRATION_H2D if step.flag else MIGRATION_D2H,
        "source_memory": MANAGED,
        "target_memory": MANAGED,
    }
    end = begin + step.delay + step.work
    toy.write(
        "copies",
        start_ns=begin + step.delay,
        end_ns=end,
        process=process,
        device=device,
        size_bytes=step.size,
        cause=2,
        **kinds,
    )


def _mpi(
    toy: Toy, step: Step, begin: int, process: int, thread: int, device: int, stream: int
) -> None:
    name = NAMES.index("MPI_Send" if step.flag else "MPI_Allreduce")
    toy.write(
        "mpi",
        start_ns=begin,
        end_ns=begin + step.call,
        thread=thread,
        kind=0 if step.flag else 1,
        name=name,
        size_bytes=step.size,
    )
    toy.host[thread] = begin + step.call


def _orphan(
    toy: Toy, step: Step, begin: int, process: int, thread: int, device: int, stream: int
) -> None:
    _on_device(toy, "kernels", begin + step.delay, step.work, process, device, stream, name=0)


def _work(
    toy: Toy, step: Step, begin: int, process: int, thread: int, device: int, stream: int
) -> None:
    toy.host[thread] = begin + step.work


COPIES = {
    "copy_in": _copy(H2D),
    "copy_out": _copy(D2H),
    "copy_other": _copy(0),
    "memset": _memset,
    "migrate": _migrate,
}
KERNELS = {
    "launch": _launch,
    "graph": _graph,
    "graph_nodes": _graph_nodes,
    "orphan": _orphan,
    "work": _work,
}
_STEPS: dict[str, Callable[..., None]] = {
    **COPIES,
    **KERNELS,
    "wait": _wait,
    "alloc": _alloc,
    "small": _small,
    "mpi": _mpi,
}


def trace_of(rows: Mapping[str, list[dict[str, Any]]], device_names: tuple[str, ...] = ()) -> Trace:
    """Rows as a `Trace`: typed columns, time order, the facts a reader gives."""
    tables = {}
    for name, table in rows.items():
        types = dtypes(name)
        frame = pl.DataFrame({c: [row.get(c) for row in table] for c in types}, schema=types)
        order = next((c for c in ("start_ns", "time_ns") if c in types), None)
        tables[name] = frame.sort(order, maintain_order=True) if order else frame
    if device_names:
        devices = [
            {"device": i, "name": n, "discrete": 1, "memory_bytes": 40 << 30}
            for i, n in enumerate(device_names)
        ]
        tables["devices"] = pl.DataFrame(
            {c: [d.get(c) for d in devices] for c in dtypes("devices")}, schema=dtypes("devices")
        )
    recorded = {
        f"CUPTI_ACTIVITY_KIND_{n.upper()}": t.height for n, t in tables.items() if n in TABLES
    }
    facts = {"format": "toy", "tables": recorded, "sha256": "0" * 64, "size_bytes": 0}
    return Trace(tables, pl.Series("name", NAMES, dtype=pl.String), facts, [], "toy.sqlite")


WHERE = st.builds(
    Where,
    processes=st.integers(1, 2),
    threads=st.integers(1, 2),
    devices=st.integers(1, 2),
    streams=st.integers(1, 2),
)


def traces(most: int = 14) -> st.SearchStrategy[Trace]:
    """Consistent recordings."""
    names = st.sampled_from([(), ("NVIDIA A100-SXM4-40GB",), ("Something Else",)])
    return st.builds(
        lambda program, where, known: trace_of(run_toy(program, where).rows, known),
        steps(most),
        WHERE,
        names,
    )


def gpu_traces(most: int = 14) -> st.SearchStrategy[Trace]:
    """Consistent recordings with a kernel in them, so that a projection has something to say."""
    first = steps(1).map(lambda program: [replace(program[0], what="launch")])
    return st.builds(
        lambda a, b, where: trace_of(run_toy([*a, *b], where).rows), first, steps(most), WHERE
    )


def soups(most: int = 10) -> st.SearchStrategy[Trace]:
    """Recordings without sense: any rows in a few dozen nanoseconds, so that ties, nesting and odd
    joins are common.
    """
    start, lasts = st.integers(1_000, 1_020), st.integers(0, 6)
    process, index = st.sampled_from([1000 << 24, 1001 << 24]), st.integers(0, 1)
    times = st.tuples(start, lasts).map(lambda t: {"start_ns": t[0], "end_ns": t[0] + t[1]})
    number = st.integers(0, 5)
    calls = st.sampled_from([NAMES.index(n) for n in NAMES if n.startswith("cu")])

    def table(size: int = most, **columns: Any) -> st.SearchStrategy[list[dict[str, Any]]]:
        more = st.fixed_dictionaries(columns)
        row = st.builds(
            lambda t, m: (
                {**t, **m, "thread": m["process"] | m["thread"]} if "thread" in m else {**t, **m}
            ),
            times,
            more,
        )
        # which of two calls of one process with one begin and one end holds the other, nobody can
        # tell
        alone = (
            (lambda r: (r["process"], r["start_ns"], r["end_ns"])) if "thread" in columns else None
        )
        return st.lists(row, max_size=size, unique_by=alone)

    host = {"process": process, "thread": st.integers(1, 2)}
    device = {
        "process": process,
        "device": index,
        "stream": index,
        "context": st.just(1),
        "correlation": number,
    }
    memory = st.sampled_from([0, PAGEABLE, PINNED, DEVICE, MANAGED])
    call = {
        "start_ns": 1_000,
        "end_ns": 1_001,
        "process": 1000 << 24,
        "thread": (1000 << 24) | 1,
        "name": 2,
        "result": 0,
    }
    return st.fixed_dictionaries(
        {
            "api": table(
                **host, correlation=number, name=calls, result=st.just(0), level=index
            ).map(lambda rows: rows or [call]),
            "kernels": table(2, **device, name=index).map(
                lambda rows: rows or [{"start_ns": 1_000, "end_ns": 1_005, "process": 1000 << 24}]
            ),
            "copies": table(
                **device,
                direction=st.integers(0, 8),
                source_memory=memory,
                target_memory=memory,
                size_bytes=st.sampled_from([0, 1, 4096, 2**20]),
            ),
            "memsets": table(2, **device, memory=memory, size_bytes=number),
            "graphs": table(1, **device),
            "mpi": table(3, **host, kind=index).map(
                lambda rows: [{k: v for k, v in row.items() if k != "process"} for row in rows]
            ),
        }
    ).map(trace_of)


def flawed_traces(most: int = 10) -> st.SearchStrategy[Trace]:
    """Recordings some rows of which cannot be trusted: backwards, without a time, or beyond any
    clock.
    """
    flaw = st.tuples(
        st.sampled_from(TABLES), st.integers(0, 50), st.sampled_from(["backwards", "lost", "wild"])
    )
    return st.builds(_spoilt, traces(most), st.lists(flaw, max_size=4))


def _spoilt(trace: Trace, flaws: list[tuple[str, int, str]]) -> Trace:
    tables = dict(trace.tables)
    for name, where, what in flaws:
        frame = tables.get(name)
        if frame is None or not frame.height:
            continue
        row = where % frame.height
        start, end = frame["start_ns"].to_list(), frame["end_ns"].to_list()
        if what == "backwards":
            start[row], end[row] = end[row] + 5, start[row] + 1
        elif what == "lost":
            start[row], end[row] = 0, 0
        else:
            end[row] = 2**62
        tables[name] = frame.with_columns(
            start_ns=pl.Series(start, dtype=pl.Int64), end_ns=pl.Series(end, dtype=pl.Int64)
        )
    return replace(trace, tables=tables)


def with_columns(trace: Trace, change: Callable[[str, pl.DataFrame], pl.DataFrame]) -> Trace:
    """The trace with every table changed."""
    return replace(
        trace, tables={name: change(name, frame) for name, frame in trace.tables.items()}
    )


# --- machines -------------------------------------------------------------------------------------

FULL: dict[str, float] = {
    **{"link.h2d.bandwidth": 31.5e9, "link.h2d.efficiency": 0.85, "link.h2d.latency": 2.0e-6},
    **{"link.d2h.bandwidth": 31.5e9, "link.d2h.efficiency": 0.83, "link.d2h.latency": 2.2e-6},
    **{"link.p2p.bandwidth": 100e9, "link.p2p.efficiency": 0.95, "link.p2p.latency": 10e-6},
    **{
        "launch.call": 4e-6,
        "launch.latency": 6e-6,
        "sync.return": 3e-6,
        "alloc.call": 90e-6,
        "slack.call": 0.0,
    },
    **{
        "gpu.fp64": 9.7e12,
        "gpu.fp64_matrix": 19.5e12,
        "gpu.memory_bandwidth": 1.555e12,
        "gpu.memory_size": 40e9,
    },
    **{"observed.h2d.pageable.bandwidth": 9.4e9, "observed.h2d.pageable.latency": 5.5e-6},
    **{"observed.d2h.pageable.bandwidth": 8.1e9, "observed.d2h.pageable.latency": 6.0e-6},
    **{"observed.h2d.managed.bandwidth": 20e9, "observed.h2d.managed.latency": 1.5e-6},
    **{"observed.h2d.migration.bandwidth": 3e9, "observed.h2d.migration.latency": 20e-6},
    **{"observed.d2h.migration.bandwidth": 4e9, "observed.d2h.migration.latency": 15e-6},
}
"""A machine with every number a model can read."""

TIMES = tuple(n for n in FULL if schema()[n].unit == "s")
RATES = tuple(n for n in FULL if schema()[n].unit in ("B/s", "FLOP/s"))


def parameter(name: str, value: float, error: float = 0.0, **more: Any) -> Parameter:
    """A number for a test."""
    return Parameter(value, error, schema()[name].unit, "assumption", "a test", **more)


def machine(
    values: Mapping[str, float], name: str = "here", error: float = 0.0, **more: Any
) -> Machine:
    """A machine that stands alone."""
    about: dict[str, Any] = {
        "title": name,
        "summary": "for a test",
        "year": 2022,
        "coupling": "pcie",
        **more,
    }
    return Machine(
        name=name, parameters={n: parameter(n, v, error) for n, v in values.items()}, **about
    )
