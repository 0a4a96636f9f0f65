"""The per-function table: totals against the other questions about a profile, and rows that are
known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from runs import recorded_profile
from strategies import (
    D2D,
    D2H,
    DEVICE,
    H2D,
    LAW,
    MIGRATION_H2D,
    NAMES,
    P2P,
    PINNED,
    gpu_traces,
    soups,
    trace_of,
    traces,
)

from turnbuckle.cost.ratio import AdditiveTotals
from turnbuckle.papers.models.node.functions import CLASSES, HOST_CODE, NESTED, Functions, functions
from turnbuckle.profile.profile import build
from turnbuckle.profile.summary import summary
from turnbuckle.trace.trace import Trace

PROCESS = 1000 << 24
Row = dict[str, Any]


def call(
    start: int,
    end: int,
    name: str,
    correlation: int | None = None,
    process: int = PROCESS,
    **more: Any,
) -> Row:
    about = {
        "process": process,
        "thread": process | 1,
        "correlation": correlation,
        "name": NAMES.index(name),
        "result": 0,
        "level": 0,
    }
    return {"start_ns": start, "end_ns": end, **about, **more}


def on_device(start: int, end: int, correlation: int | None = None, **more: Any) -> Row:
    about = {
        "process": PROCESS,
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": correlation,
        "name": 0,
    }
    return {"start_ns": start, "end_ns": end, **about, **more}


def copy(start: int, end: int, direction: int) -> Row:
    return on_device(
        start, end, direction=direction, size_bytes=64, source_memory=PINNED, target_memory=DEVICE
    )


def table(**rows: list[Row]) -> Functions:
    return functions(build(trace_of(rows)))


def by_name(found: Functions) -> dict[str, Row]:
    return {row["function"]: row for row in found.table().to_dicts()}


def test_a_wait_counts_beside_what_it_waits_for() -> None:
    """Tables 3 to 5 in small: launch, kernel, the wait for it, and the host's own time."""
    found = table(
        api=[call(0, 1_000, "cudaLaunchKernel", 1), call(2_000, 9_000, "cudaDeviceSynchronize")],
        kernels=[on_device(1_000, 8_000, 1)],
    )
    rows = by_name(found)
    assert (
        rows["kernel_a"]["class"],
        rows["kernel_a"]["time_ns"],
        rows["kernel_a"]["exposed_ns"],
    ) == ("gpu", 7_000, 7_000)
    wait = rows["cudaDeviceSynchronize"]
    assert (
        wait["class"],
        wait["call_class"],
        wait["time_ns"],
        wait["waited_ns"],
        wait["exposed_ns"],
    ) == (
        "control",
        "sync",
        7_000,
        7_000,
        1_000,
    )
    assert rows[HOST_CODE]["time_ns"] == 1_000 and rows[HOST_CODE]["exposed_ns"] == 0
    assert found.run_time_ns == 9_000 and found.closure_defect_ns == -7_000, (
        "the kernel's time, once more"
    )
    assert found.exposed_defect_ns == 0
    assert rows["kernel_a"]["share"] == pytest.approx(7 / 9) and rows["kernel_a"][
        "mean_seconds"
    ] == pytest.approx(7e-6)
    assert found.waits_ns == 7_000 and found.call_classes_ns == {"launch": 1_000}
    terms = found.terms()
    once = AdditiveTotals.by_difference(**terms, without_waits=True)
    assert once.closure_defect == pytest.approx(0, abs=1e-15) and once.cpu == pytest.approx(1e-6)


def test_copies_by_direction() -> None:
    moves = [
        copy(k * 10, k * 10 + 4, d) for k, d in enumerate((H2D, H2D, D2H, D2D, P2P, MIGRATION_H2D))
    ]
    found = table(copies=moves, memsets=[on_device(100, 107, memory=DEVICE)])
    rows = by_name(found)
    assert {
        n: (r["class"], r["calls"], r["time_ns"]) for n, r in rows.items() if n != HOST_CODE
    } == {
        "[CUDA memcpy HtoD]": ("data", 2, 8),
        "[CUDA memcpy DtoH]": ("data", 1, 4),
        "[CUDA memcpy DtoD]": ("gpu", 1, 4),
        "[CUDA memcpy PtoP]": ("gpu", 1, 4),
        "[Unified Memory HtoD]": ("data", 1, 4),
        "[CUDA memset]": ("gpu", 1, 7),
    }
    assert found.time_ns("data") == 16 and found.time_ns("gpu") == 15


def test_a_call_inside_a_call_counts_once() -> None:
    found = table(
        api=[call(0, 1_000, "cudaLaunchKernel", 1), call(100, 900, "cuLaunchKernel", 1, level=1)],
        kernels=[on_device(2_000, 3_000, 1)],
    )
    rows = by_name(found)
    assert (
        rows["cuLaunchKernel"]["call_class"] == NESTED and rows["cuLaunchKernel"]["time_ns"] == 800
    )
    assert found.time_ns("control") == 1_000
    assert found.classes().filter(pl.col("call_class") == NESTED)["time_ns"].to_list() == [800], (
        "shown, and in no sum"
    )


def test_processes_share_the_run() -> None:
    other = PROCESS + (1 << 24)
    found = table(api=[call(0, 10_000, "cudaMalloc"), call(0, 5_000, "cudaMalloc", process=other)])
    assert found.processes == 2 and found.time_ns("control") == 15_000
    assert by_name(found)["cudaMalloc"]["share"] == pytest.approx(0.75), (
        "of the run time of a mean process"
    )
    assert found.terms()["control"] == pytest.approx(7.5e-6)
    assert found.time_ns("cpu") == 5_000 and found.closure_defect_ns == 0


def test_a_waitall_is_one_call() -> None:
    names = list(NAMES)
    row = {"thread": PROCESS | 1, "kind": 2, "name": names.index("MPI_Send")}
    rows = [{**row, "start_ns": 0, "end_ns": 100, "request": r} for r in (1, 2, 3)]
    rows.append({**row, "kind": 0, "start_ns": 200, "end_ns": 250})
    found = table(mpi=rows)
    assert by_name(found)["MPI_Send"]["calls"] == 2 and found.time_ns("mpi") == 150


def test_an_empty_run() -> None:
    found = table()
    assert (
        found.rows.height == 0
        and found.time_ns(*CLASSES) == 0
        and found.share(5) == 0
        and found.exposed_share(5) == 0
    )
    assert found.classes().filter(pl.col("call_class").is_null())["class"].to_list() == list(
        CLASSES
    )


@LAW
@given(gpu_traces() | traces() | soups())
def test_totals_agree_with_every_other_question(trace: Trace) -> None:
    profile = build(trace)
    found = functions(profile)
    rows = found.rows
    assert found.exposed_defect_ns == 0, "the exclusive time line closes to the nanosecond"
    assert (
        rows.select(
            (pl.col(c) >= 0).all() for c in ("time_ns", "waited_ns", "calls", "exposed_ns")
        ).row(0)
        == (True,) * 4
    )
    assert (rows["waited_ns"] <= rows["time_ns"]).all()
    assert rows.select("class", "call_class", "function").is_unique().all()
    copies = summary.copies(profile)
    moved = ("h2d", "d2h", "migration_h2d", "migration_d2h")
    assert found.time_ns("data") == sum(copies[d]["busy_ns"] for d in moved)
    control = rows.filter(pl.col("class") == "control")
    calls = summary.calls(profile)
    assert control["calls"].sum() == calls["count"].sum() == profile.trace.api.height
    assert set(control["function"]) == set(calls["call"])
    shares = summary.categories_ns(profile)
    whole = {
        r["class"]: r["exposed_ns"]
        for r in found.classes().filter(pl.col("call_class").is_null()).to_dicts()
    }
    assert (
        whole["control"] == shares["api"]
        and whole["cpu"] == shares["cpu"]
        and whole["mpi"] == shares["mpi"]
    )
    assert whole["gpu"] + whole["data"] == shares["kernel"] + shares["copy"]
    kernels = rows.filter(
        (pl.col("class") == "gpu") & ~pl.col("function").str.contains(r"^\[(CUDA mem|Unified)")
    )
    assert kernels["calls"].sum() == summary.kernel_table(profile)["count"].sum()
    waits = found.waits_ns
    assert sum(found.call_classes_ns.values()) + waits == found.time_ns("control")
    assert found.closure_defect_ns == found.run_time_ns * found.processes - sum(
        found.time_ns(c) for c in CLASSES
    )


@pytest.mark.shared
def test_known_recordings(shared: Path) -> None:
    jacobi = functions(recorded_profile(shared / "traces/nsys/jacobi_gh200/jacobi_report.sqlite"))
    rows = by_name(jacobi)
    assert (
        rows["[CUDA memcpy DtoH]"]["calls"] == 1001 and rows["[CUDA memcpy DtoD]"]["calls"] == 2000
    )
    kernels = [r for n, r in rows.items() if r["class"] == "gpu" and not n.startswith("[")]
    assert (
        sum(r["calls"] for r in kernels) == 1001
        and sum(r["time_ns"] for r in kernels) == 2_071_933_547
    )
    assert sum(r["calls"] for r in rows.values() if r["class"] == "control") == 6017
    halo = functions(recorded_profile(shared / "traces/nsys-local/halo-py-4r.sqlite"))
    assert by_name(halo)["MPI_Waitall"]["calls"] == 400, "3200 rows"
    assert halo.processes == 4 and halo.closure_defect_ns == 0
