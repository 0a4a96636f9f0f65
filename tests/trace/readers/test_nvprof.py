"""SQLite files of nvprof: small ones built here, old ones, clocks that lie apart, and real ones
against their truth.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from build_nvprof import (
    COPY,
    EPOCH,
    LAUNCH,
    PID,
    WAIT,
    Row,
    call,
    copy,
    kernel,
    make,
    on_device,
    thread_object,
    turns,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import codes

from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.foundation.schema import tables as schema_tables
from turnbuckle.papers.models.node.question import closer
from turnbuckle.profile.dependencies.dependencies import dependencies
from turnbuckle.profile.profile import build
from turnbuckle.projection.run import Run
from turnbuckle.trace.readers.nvprof import reader as nvprof
from turnbuckle.trace.readers.nvprof.clocks import CONTEXT, STREAM, Waits, Work, apart
from turnbuckle.trace.readers.nvprof.source import call_names
from turnbuckle.trace.trace import dtypes


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write a file as nvprof does."""
    return lambda tables, **more: make(tmp_path / "run.nvvp", tables, **more)


# --- what becomes what ----------------------------------------------------------------------------


def test_calls_kernels_and_copies(written: Callable[..., Path]) -> None:
    path = written(
        {
            "RUNTIME": [
                call(LAUNCH, 5_000, 4_000, 11),
                call(COPY, 50_000, 9_000, 12, thread=-1516981632),
            ],
            "DRIVER": [call(307, 0, 100, 10)],
            "CONCURRENT_KERNEL": [
                kernel(60_000, 10_000, 11),
                kernel(20_000, 30_000, 11, name=2, graphNodeId=5, graphId=3),
            ],
            "KERNEL": [kernel(90_000, 1_000, 0)],
            "MEMCPY": [copy(70_000, 3_000, 12), copy(75_000, 3_000, 12, kind=2, memories=(3, 1))],
            "MEMCPY2": [
                copy(80_000, 1_000, 12, kind=8, memories=(3, 3), srcDeviceId=1, dstDeviceId=0)
            ],
            "MEMSET": [on_device(85_000, 500, 13, bytes=64, memoryKind=3)],
        },
        texts=("_Z5scaleIfEvPT_i", "cupy_fill"),
    )
    trace = nvprof.read(path)
    for name in trace.has:
        assert dict(trace.table(name).schema) == dtypes(name), name
        assert list(trace.table(name).columns) == [c.name for c in schema_tables("trace")[name]]
        starts = trace.table(name).get_column("start_ns")
        assert starts.is_sorted() and starts.min() >= 1000
    assert trace.text(trace.api).to_list() == [
        "cuLaunchKernel",
        "cudaLaunchKernel",
        "cudaMemcpyAsync",
    ]
    assert trace.api["level"].to_list() == [1, 0, 0] and trace.api["start_ns"].to_list() == [
        1000,
        6000,
        51_000,
    ]
    assert trace.api["thread"].to_list() == [PID << 24 | 7, PID << 24 | 7, PID << 24 | 0xFFFFFF]
    assert set(trace.api["process"]) == set(trace.kernels["process"]) == {PID << 24}
    assert trace.text(trace.kernels).to_list() == [
        "cupy_fill",
        "void scale<float>(float*, int)",
        "void scale<float>(float*, int)",
    ]
    assert trace.text(trace.kernels, "short_name").to_list() == ["cupy_fill", "scale", "scale"]
    first = trace.kernels.row(0, named=True)
    assert (first["start_ns"], first["end_ns"], first["blocks"], first["threads"]) == (
        21_000,
        51_000,
        8,
        128,
    )
    assert (first["registers"], first["shared_bytes"], first["graph_node"], first["graph"]) == (
        31,
        528,
        5,
        3,
    )
    assert (first["device"], first["context"], first["stream"], first["correlation"]) == (
        1,
        1,
        7,
        11,
    )
    assert trace.kernels["graph_node"].to_list()[1:] == [None, None] and trace.kernels[
        "correlation"
    ].to_list() == [11, 11, None]
    shown = trace.copies.select(
        "direction",
        "source_memory",
        "target_memory",
        "source_device",
        "target_device",
        "size_bytes",
    ).rows()
    assert shown == [
        (1, 2, 3, None, None, 4096),
        (2, 3, 1, None, None, 4096),
        (4, 3, 3, 1, 0, 4096),
    ]
    assert trace.memsets.select("size_bytes", "memory").rows() == [(64, 3)]
    facts = trace.facts
    assert (
        facts["session_start_utc_ns"] == EPOCH - 1000
        and facts["format"] == "nvprof"
        and facts["schema_version"] == "22"
    )
    assert len(facts["sha256"]) == 64 and facts["tables"]["CUPTI_ACTIVITY_KIND_RUNTIME"] == 2
    assert codes(trace) == {"P114": 1, "P123": 1}


def test_waits_events_overheads_and_places(written: Callable[..., Path]) -> None:
    wait = on_device(100, 50, 4, type=3, cudaEventId=-1)
    device = {
        "id": 0,
        "globalMemoryBandwidth": 732160000,
        "globalMemorySize": 1 << 34,
        "coreClockRate": 1328500,
        "numMemcpyEngines": 2,
    }
    device |= {
        "numMultiprocessors": 56,
        "computeCapabilityMajor": 6,
        "computeCapabilityMinor": 0,
        "name": 1,
    }
    path = written(
        {
            "RUNTIME": [call(WAIT, 90, 80, 4)],
            "SYNCHRONIZATION": [wait, {**wait, "type": 2, "streamId": -1, "cudaEventId": 13}],
            "CUDA_EVENT": [{"correlationId": 9, "contextId": 1, "streamId": 22, "eventId": 13}],
            "OVERHEAD": [
                {
                    "overheadKind": kind,
                    "objectKind": 2,
                    "objectId": thread_object(),
                    "start": EPOCH + 5,
                    "end": EPOCH + 9,
                }
                for kind in (1, 1 << 16, 4 << 16, 0)
            ],
            "DEVICE": [device],
            "STREAM": [
                {"contextId": 1, "streamId": 13, "priority": -5, "flag": 2, "correlationId": 1}
            ],
            "CONTEXT": [{"contextId": 1, "deviceId": 0, "computeApiKind": 1, "nullStreamId": 7}],
            "MEMORY2": [
                {
                    "memoryOperationType": 1,
                    "bytes": 8,
                    "timestamp": EPOCH + 3,
                    "processId": PID,
                    "memoryKind": 3,
                    "address": 64,
                }
            ],
            "NAME": [{"objectKind": 1, "objectId": thread_object(), "name": 1}],
            "PC_SAMPLING": [{"samples": 3}],
        },
        texts=("Tesla P100",),
    )
    trace = nvprof.read(path)
    assert trace.syncs.select("sync_type", "stream", "event").rows() == [
        (3, 7, None),
        (2, None, 13),
    ]
    assert trace.events.select("stream", "event", "correlation").rows() == [(22, 13, 9)]
    assert trace.overheads["kind"].to_list() == [2, 3, 6, None] and set(
        trace.overheads["thread"]
    ) == {PID << 24 | 7}
    shown = trace.devices.row(0, named=True)
    assert (shown["name"], shown["memory_bandwidth"], shown["clock_hz"]) == (
        "Tesla P100",
        732_160_000_000,
        1_328_500_000,
    )
    assert shown["discrete"] is None and shown["copy_engines"] == 2
    assert trace.streams.select("stream", "priority", "kind").rows() == [(13, -5, 2), (7, None, 3)]
    assert trace.allocations.select("operation", "size_bytes", "memory", "address").rows() == [
        (0, 8, 3, 64)
    ]
    assert codes(trace) == {"P119": 1, "P120": 1}
    assert not any("Tesla" in str(text) for text in trace.names)


def test_ranges_are_put_together(written: Callable[..., Path]) -> None:
    def marker(flags: int, at: int, number: int, name: int = 0, thread: int = 7) -> Row:
        where = {"objectKind": 2, "objectId": thread_object(thread=thread)}
        return {
            "flags": flags,
            "timestamp": EPOCH + at,
            "id": number,
            **where,
            "name": name,
            "domain": 3,
        }

    rows = [
        marker(2, 0, 1, 1),
        marker(2, 10, 2, 2),
        marker(4, 20, 2),
        marker(4, 30, 1),
        marker(1, 40, 3, 2),
        marker(2, 50, 4, 1),
    ]
    rows += [
        marker(4, 60, 4, thread=9),
        marker(2, 70, 5, 1),
        marker(4, 80, 6),
        marker(2, 90, 2, 1),
        marker(4, 99, 2),
    ]
    path = written(
        {
            "MARKER": rows,
            "MARKER_DATA": [{"id": 2, "category": 8}, {"id": 1, "category": 0}],
            "RUNTIME": [call(WAIT, 0, 1, 1)],
        },
        texts=("step", "halo", "NCCL"),
    )
    trace = nvprof.read(path)
    assert trace.text(trace.ranges).to_list() == ["step", "halo", "halo", "step", "step", "step"]
    shown = trace.ranges.select("start_ns", "end_ns", "kind", "range", "category").rows()
    assert shown == [
        (1000, 1030, 59, 1, None),
        (1010, 1020, 59, 2, 8),
        (1040, None, 34, 3, None),
        (1050, 1060, 60, 4, None),
        (1070, None, 59, 5, None),
        (1090, 1099, 59, 2, 8),
    ]
    assert set(trace.ranges["domain"]) == {3} and set(trace.ranges["thread"]) == {PID << 24 | 7}
    (found,) = [f for f in trace.findings if f.code == "P173"]
    assert found.count == 2 and found.detail == "1 begin without end, 1 end without begin"


def test_unified_memory(written: Callable[..., Path]) -> None:
    def counter(
        kind: int, at: int, lasts: int, value: int, source: int, target: int, flags: int = 0
    ) -> Row:
        where = {"srcId": source, "dstId": target, "processId": PID, "flags": flags, "address": 64}
        return {
            "counterKind": kind,
            "value": value,
            "start": EPOCH + at,
            "end": EPOCH + at + lasts if lasts else 0,
            **where,
        }

    host = 0xFFFFFFFF
    rows = [
        counter(1, 0, 90, 65536, host, 1, 2),
        counter(2, 100, 50, 4096, 1, host, 4),
        counter(8, 200, 10, 512, 0, 1, 9),
    ]
    rows += [
        counter(3, 300, 0, 3, host, host),
        counter(4, 400, 70, 12, 1, host),
        counter(6, 500, 5, 1, 1, host),
    ]
    trace = nvprof.read(
        written({"UNIFIED_MEMORY_COUNTER": rows, "RUNTIME": [call(LAUNCH, 0, 5, 1)]})
    )
    shown = trace.copies.select(
        "direction", "size_bytes", "device", "cause", "source_device", "target_device", "stream"
    ).rows()
    assert shown == [
        (6, 65536, 1, 2, None, None, None),
        (7, 4096, 1, 4, None, None, None),
        (8, 512, 1, None, 0, 1, None),
    ]
    assert trace.page_faults.select("device", "count", "end_ns").rows() == [
        (None, 3, None),
        (1, 12, 1470),
    ]
    assert codes(trace) == {"P123": 1, "P174": 1}
    old = {
        "counterKind": 1,
        "scope": 1,
        "deviceId": 0,
        "value": 8,
        "timestamp": EPOCH,
        "processId": PID,
    }
    trace = nvprof.read(
        written({"UNIFIED_MEMORY_COUNTER": [old], "RUNTIME": [call(LAUNCH, 0, 5, 1)]})
    )
    assert "copies" not in trace.has and codes(trace)["P174"] == 1


def test_the_oldest_files(written: Callable[..., Path]) -> None:
    """CUDA 5: driver and runtime ids side by side, serialised kernels, no waits, no processes of
    device records.
    """
    old = {
        k: v
        for k, v in kernel(20_000, 5_000, 1).items()
        if k not in ("graphNodeId", "graphId", "deviceId")
    }
    path = written(
        {
            "RUNTIME": [call(13, 0, 9_000, 2)],
            "DRIVER": [call(116, 1_000, 5_000, 1)],
            "KERNEL": [{**old, "runtimeCorrelationId": 2}],
            "CONCURRENT_KERNEL": [],
        }
    )
    trace = nvprof.read(path)
    assert trace.kernels.select("correlation", "device", "graph").rows() == [(2, None, None)]
    assert trace.text(trace.api).to_list() == ["cudaLaunch", "cuLaunchGrid"]
    assert build(trace).activities.height


def test_numbers_without_a_name(written: Callable[..., Path]) -> None:
    path = written(
        {
            "RUNTIME": [call(9999, 0, 5, 1), call(LAUNCH, 10, 5, 2), call(-3, 20, 5, 3)],
            "CONCURRENT_KERNEL": [kernel(30, 5, 2, 77)],
        }
    )
    trace = nvprof.read(path)
    assert trace.text(trace.api).to_list() == [None, "cudaLaunchKernel", None] and trace.text(
        trace.kernels
    ).to_list() == [None]
    (unknown,) = [f for f in trace.findings if f.code == "P170"]
    assert unknown.count == 2 and unknown.detail == "runtime -3, 9999" and codes(trace)["P128"] == 1
    names = call_names()
    assert (
        names[0, 211] == "cudaLaunchKernel"
        and names[1, 120] == "cuEventQuery"
        and len(names) > 1400
    )


def test_several_processes(written: Callable[..., Path]) -> None:
    """Device records of such a file name no process, and their ids may be of any."""
    path = written(
        {
            "RUNTIME": [call(LAUNCH, 0, 5, 1), call(LAUNCH, 1, 5, 1, pid=PID + 1)],
            "CONCURRENT_KERNEL": [kernel(30, 5, 1)],
        }
    )
    trace = nvprof.read(path)
    assert trace.kernels["process"].to_list() == [None] and trace.api["process"].n_unique() == 2
    assert "P109" in codes(build(trace))


# --- clocks ---------------------------------------------------------------------------------------

DAY = 86_400_000_000_000


def test_a_device_clock_days_ahead(written: Callable[..., Path]) -> None:
    plain = nvprof.read(written(turns(40)))
    assert not {"P171", "P172"} & set(codes(plain))
    trace = nvprof.read(written(turns(40, lambda _: DAY)))
    (found,) = [f for f in trace.findings if f.code == "P171"]
    assert found.count == 40 and "86,400.0" in found.detail and "P172" not in codes(trace)
    # a launch comes 20 us before its kernel, a wait ends 19 us after it: the middle is half a
    # microsecond off
    assert (trace.kernels["start_ns"] - plain.kernels["start_ns"]).unique().to_list() == [-500]
    assert (
        trace.api.equals(plain.api)
        and trace.facts["session_start_utc_ns"] == plain.facts["session_start_utc_ns"]
    )
    assert "P111" not in codes(build(trace))


def test_a_clock_that_wanders(written: Callable[..., Path]) -> None:
    """Steps of milliseconds in days: durations and order on the device stay, host times follow, no
    call comes after its work.
    """
    trace = nvprof.read(
        written(turns(3000, lambda at: DAY + (3_000_000 if at > 150_000_000 else 0) + at // 5000))
    )
    assert codes(trace)["P171"] == 3000 and codes(trace)["P172"] == 9000
    recorded = nvprof.read(written(turns(3000)))
    assert (trace.kernels["end_ns"] - trace.kernels["start_ns"]).unique().to_list() == [30_000]
    window = trace.kernels["end_ns"].max() - trace.kernels["start_ns"].min()
    assert (
        window
        == recorded.kernels["end_ns"].max()
        - recorded.kernels["start_ns"].min()
        + 3_000_000
        + 299_900_000 // 5000
    )
    assert (
        trace.api["start_ns"].is_sorted() and (trace.api["end_ns"] >= trace.api["start_ns"]).all()
    )
    early = codes(build(trace)).get("P111", 0)
    assert early < 3000 // 20
    graph = dependencies(build(trace))
    assert graph.early == early


def test_each_device_has_a_clock_of_its_own(written: Callable[..., Path]) -> None:
    one, other = turns(40, lambda _: DAY), turns(40, lambda _: -3 * DAY)
    for rows in other.values():
        for row in rows:
            row |= {k: v for k, v in (("deviceId", 0), ("contextId", 2)) if k in row}
            row |= {"correlationId": row["correlationId"] + 1000}
    trace = nvprof.read(written({kind: one[kind] + other[kind] for kind in one}))
    assert codes(trace)["P171"] == 80 and "P172" not in codes(trace)
    for device in (0, 1):
        mine = trace.kernels.filter(pl.col("device") == device)
        assert mine["start_ns"].to_list() == [1000 + 20_000 - 500 + 100_000 * k for k in range(40)]


def test_a_clock_that_nothing_bounds_from_below(written: Callable[..., Path]) -> None:
    tables = turns(20, lambda _: -DAY)
    del tables["SYNCHRONIZATION"]
    trace = nvprof.read(written(tables))
    assert {"P171", "P172"} <= set(codes(trace))
    assert (
        trace.kernels["start_ns"] - trace.api.filter(pl.col("correlation") % 2 == 1)["start_ns"]
    ).min() == 0


@settings(max_examples=60)
@given(
    st.integers(-(10**15), 10**15),
    st.lists(
        st.tuples(
            st.integers(1, 200_000),
            st.integers(0, 90_000),
            st.integers(1, 500_000),
            st.integers(0, 90_000),
        ),
        min_size=3,
    ),
    st.sampled_from([STREAM, CONTEXT]),
)
def test_any_constant_is_found_within_what_the_bounds_leave(
    ahead: int, steps: list[tuple[int, int, int, int]], kind: int
) -> None:
    """Calls before their work and waits after it, on clocks that lie apart by a constant: it is
    found, to half of what is left.
    """
    called, start, end, waited, returned, at = [], [], [], [], [], 10**18
    for gap, latency, lasts, late in steps:
        at += gap
        called.append(at)
        start.append(at + latency)
        end.append(start[-1] + lasts)
        waited.append(at + 1)
        returned.append(end[-1] + late)
        at = returned[-1]
    ones = np.ones(len(called), np.int64)
    work = Work(
        np.array(called), np.array(start) + ahead, np.array(end) + ahead, ones * 0, ones, ones
    )
    found = apart(work, Waits(np.array(waited), np.array(returned), ones * kind, ones, ones))
    if found is None:
        assert abs(ahead) <= 1_000_000 + 500_000 + 180_000
        return
    latency, late = (min(step[k] for step in steps) for k in (1, 3))
    assert found.knots is None and found.ahead_ns[0] - ahead == (latency - late) // 2
    assert found.contradicted_ns == -latency - late


# --- real files -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(shared: Path) -> dict[str, Run]:
    return {
        path.name: Run.of(build(nvprof.read(path)))
        for path in sorted((shared / "traces" / "nvprof").glob("*/*.nvvp"))
    }


def test_real_files_agree_with_their_truth(real: dict[str, Run], shared: Path) -> None:
    truth = json.loads((shared / "traces" / "truth.json").read_text())
    told = {
        n: t
        for k, s in truth.items()
        if k.startswith("nvprof/")
        for n, t in s["files"].items()
        if n.endswith(".nvvp")
    }
    assert set(told) == set(real) and len(real) == 4
    for name, expected in told.items():
        trace = real[name].trace
        rows = trace.facts["tables"]
        for kind in (
            "CONCURRENT_KERNEL",
            "MEMCPY",
            "MEMSET",
            "RUNTIME",
            "DRIVER",
            "SYNCHRONIZATION",
        ):
            assert rows[f"CUPTI_ACTIVITY_KIND_{kind}"] == expected[f"rows_{kind}"]
        assert trace.api.height == expected["rows_RUNTIME"] + expected["rows_DRIVER"]
        assert (trace.memsets.height, trace.syncs.height) == (
            expected["rows_MEMSET"],
            expected["rows_SYNCHRONIZATION"],
        )
        shown = real[name].as_dict()["profile"]
        assert shown["kernels"]["count"] == expected["rows_CONCURRENT_KERNEL"]
        assert shown["kernels"]["busy_ns"] == expected["kernel_busy_ns"]
        assert shown["kernel_window_ns"] == expected["kernel_span_ns"]
        for kind, direction in (("1", "h2d"), ("2", "d2h"), ("8", "d2d")):
            assert shown["copies"][direction] == expected["memcpy_by_copyKind"][kind], (
                name,
                direction,
            )
        assert trace.kernels["stream"].n_unique() == expected["streams"]
        assert trace.devices["name"].to_list() == expected["devices_named"]
        named = trace.text(trace.ranges).value_counts().rows() if trace.ranges.height else []
        assert dict(named) == {
            k: v for k, v in expected["markers_by_name"].items() if k != "-- null --"
        }
        # what is not recorded is null
        assert (
            shown["mpi"] is None
            and shown["memory"] is None
            and shown["devices"][0]["discrete"] is None
        )


def test_real_files_on_one_clock(real: dict[str, Run]) -> None:
    """All four were written with the device's clock one or two days ahead of the host's, wandering
    by up to 5 ms.
    """
    for number, seen in enumerate(real.values()):
        trace, profile = seen.trace, seen.profile
        assert {"P171", "P172"} <= set(codes(profile))
        assert (
            min(trace.table(n)["start_ns"].min() for n in ("api", "kernels", "copies", "memsets"))
            >= 1000
        ), "after the clock's begin"
        assert codes(profile).get("P111", 0) < 0.001 * trace.kernels.height
        assert profile.run_time_ns < 90_000_000_000 and (
            number % 2 or dependencies(profile).dropped < 10
        )
        assert all(name and not name.startswith("_Z") for name in trace.text(trace.kernels))
        assert not {"P170", "P105", "P106", "P173"} & set(codes(profile))


def test_real_files_project_onto_themselves(real: dict[str, Run]) -> None:
    for seen in list(real.values())[::2]:
        (found,) = seen.project(["self"], draws=0).projections
        assert found.seconds == found.measured_seconds == seen.profile.run_time_ns * 1e-9
        with pytest.raises(CannotAnswer, match="MPI"):
            closer(seen.profile, ranks_per_node=1, bandwidth_ratio=2.0)


def test_both_ranks_keep_what_a_merge_needs(real: dict[str, Run]) -> None:
    """Other processes, and starts that lie as far apart as the host's clock says."""
    traces = [seen.trace for seen in real.values()]
    for first, second in (traces[:2], traces[2:]):
        assert first.api["process"].unique().to_list() != second.api["process"].unique().to_list()
        apart_ns = second.facts["session_start_utc_ns"] - first.facts["session_start_utc_ns"]
        assert abs(apart_ns) < 1_000_000_000 and "rank" not in first.facts
