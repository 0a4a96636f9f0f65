"""MPI calls that a recording holds as ranges: time in MPI whatever tool wrote them, and no work of
the host.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import build_nsys as b
import build_nvprof as nvprof
import build_rocprof as rocprof
import pytest

from turnbuckle.profile.profile import build
from turnbuckle.profile.summary import summary
from turnbuckle.projection.run import Run
from turnbuckle.trace import Trace, read

DOMAIN = {"start": 1, "eventType": 75, "text": "MPI", "domainId": 3, "globalTid": b.THREAD}


def ranged(name: str, start: int, end: int | None, **more: Any) -> dict[str, Any]:
    return {
        "start": start,
        "end": end,
        "eventType": 59,
        "text": name,
        "domainId": 0,
        "globalTid": b.THREAD,
        **more,
    }


def named(trace: Trace) -> list[tuple[str, int, int, int]]:
    """Name, kind, begin and end of each MPI call."""
    return list(
        zip(
            trace.text(trace.mpi),
            *(trace.mpi[c] for c in ("kind", "start_ns", "end_ns")),
            strict=True,
        )
    )


def test_ranges_of_the_domain_and_of_the_names_are_calls(tmp_path: Path) -> None:
    ranges = [
        ranged("MPI_Init", 10, 500),
        ranged("PMPI_Isend (dest=1)", 600, 700),
        ranged("MPI_Allreduce", 10_000, 20_000, domainId=3),
        # the call that the wrapper makes is no second one
        ranged("PMPI_Allreduce", 11_000, 19_000),
        ranged("MPI_Waitall", 21_000, 22_000, eventType=60),
        ranged("Barrier", 23_000, 24_000, domainId=3),
        # the application's own words are the application's own work
        ranged("MPI_halo_exchange", 25_000, 26_000),
        ranged("Barrier", 27_000, 28_000),
        ranged("MPI_Comm_rank", 28_500, None),
        ranged("MPI_Finalize", 29_000, 40_000, eventType=34),  # a mark
    ]
    trace = read(b.make(tmp_path / "a.sqlite", NVTX_EVENTS=[DOMAIN, *ranges]))
    assert named(trace) == [
        ("MPI_Init", 3, 10, 500),
        ("PMPI_Isend", 0, 600, 700),
        ("MPI_Allreduce", 1, 10_000, 20_000),
        ("MPI_Waitall", 2, 21_000, 22_000),
        ("MPI_Barrier", 1, 23_000, 24_000),
    ]
    assert [f.count for f in trace.findings if f.code == "P131"] == [5]
    assert trace.ranges.height == len(ranges) + 1, "they stay ranges too, for --nvtx"


def test_recorded_calls_are_not_doubled(tmp_path: Path) -> None:
    recorded = [{"start": 10_000, "end": 20_000, "globalTid": b.THREAD, "textId": 4}]
    other = ranged("MPI_Send", 12_000, 13_000, globalTid=b.OTHER_THREAD)
    ranges = [DOMAIN, ranged("MPI_Send", 10_000, 20_000), other]
    trace = read(b.make(tmp_path / "a.sqlite", NVTX_EVENTS=ranges, MPI_OTHER_EVENTS=recorded))
    assert trace.mpi["thread"].to_list() == [b.THREAD, b.OTHER_THREAD]


def rocprof_marked(path: Path) -> Path:
    """Write turns of a rocprofv3 run with an MPI call as a roctx range between the first and the
    second.
    """
    marks = [rocprof.record(70_000, 20_000, 50, rocprof.MARKER, 1)]
    content = rocprof.v3(rocprof.turns() | {"marker_api": marks})
    content["strings"]["marker_api"][0]["value"] = "MPI_Allreduce"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [content]}))
    return path


def nvprof_marked(path: Path) -> Path:
    """Write turns of an nvprof run with an MPI call as an NVTX range in each."""
    object_ = nvprof.thread_object()
    marks = []
    for k in range(3):
        ends = ((2, 75_000, 2), (4, 95_000, 0))
        marks += [
            {
                "flags": f,
                "timestamp": nvprof.EPOCH + 100_000 * k + at,
                "id": k,
                "objectKind": 2,
                "objectId": object_,
                "name": n,
                "domain": 0,
            }
            for f, at, n in ends
        ]
    nvprof.make(path, nvprof.turns(3) | {"MARKER": marks}, ("_Z5scaleIfEvPT_i", "MPI_Allreduce"))
    return path


def kineto_marked(path: Path) -> Path:
    """Write a launch, an annotated MPI call and a second launch of PyTorch."""
    host = {"pid": 4000, "tid": 4001}
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "user_annotation", "name": "MPI_Allreduce", "ts": 70, "dur": 20, **host}
    ]
    for number, at in ((1, 0), (2, 100)):
        call = {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "ts": at,
            "dur": 5,
            "args": {"correlation": number},
        }
        where = {"device": 0, "context": 1, "stream": 7, "correlation": number}
        events += [
            call | host,
            {
                "ph": "X",
                "cat": "kernel",
                "name": "k",
                "pid": 0,
                "tid": 7,
                "ts": at + 10,
                "dur": 20,
                "args": where,
            },
        ]
    path.write_text(
        json.dumps(
            {
                "schemaVersion": 1,
                "deviceProperties": [{"id": 0, "name": "GPU"}],
                "traceEvents": events,
            }
        )
    )
    return path


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (rocprof_marked, "run_results.json"),
        (nvprof_marked, "run.nvvp"),
        (kineto_marked, "run.json"),
    ],
)
def test_other_tools_markers_are_calls(tmp_path: Path, made: Any, name: str) -> None:
    trace = read(made(tmp_path / name))
    assert {text for text, *_ in named(trace)} == {"MPI_Allreduce"}
    assert all(kind == 1 and end - start == 20_000 for _, kind, start, end in named(trace))
    profile = build(trace)
    assert summary.categories_ns(profile)["mpi"] == sum(
        end - start for _, _, start, end in named(trace)
    )
    assert summary.closure_defect_ns(profile) == 0


def test_no_advice_moves_an_mpi_call_as_host_work(tmp_path: Path) -> None:
    """Of a run that waits in MPI for most of its time, no host work can be run beside the
    device.
    """
    turns = 40
    calls, kernels, ranges = [], [], []
    for k in range(turns):
        at = 100_000 * k
        calls += [
            b.call(at, at + 5_000, 2 * k + 1),
            b.call(at + 6_000, at + 30_000, 2 * k + 2, nameId=7),
        ]
        kernels.append(b.kernel(at + 8_000, at + 28_000, 2 * k + 1))
        ranges.append(ranged("MPI_Sendrecv", at + 31_000, at + 99_000))
    strings = {**b.STRINGS, 7: "cudaDeviceSynchronize_v3020"}
    kinds = ("RUNTIME", "KERNEL", "MEMCPY")
    tables: dict[str, Any] = {
        f"CUPTI_ACTIVITY_KIND_{kind}": rows
        for kind, rows in zip(kinds, (calls, kernels, None), strict=True)
    }
    path = b.make(tmp_path / "a.sqlite", strings=strings, NVTX_EVENTS=ranges, **tables)
    run = Run.read(path)
    shares = summary.categories_ns(run.profile)
    assert (
        shares["mpi"]
        > 0.6 * run.profile.run_time_ns
        > 0.1 * run.profile.run_time_ns
        > shares["cpu"]
    )
    beside = {
        edit["name"]: edit["recorded_seconds"]
        for edit in run.whatif().as_dict()["edits"]
        if edit["name"].startswith("beside")
    }
    assert beside and all(seconds < 0.1 * run.seconds for seconds in beside.values()), beside
