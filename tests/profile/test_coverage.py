"""What a recording leaves out: launches without rows on a device, and rows without their call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from runs import recorded_profile
from strategies import trace_of

from turnbuckle.profile.profile import build
from turnbuckle.profile.source import observed_machine
from turnbuckle.profile.summary.coverage import coverage
from turnbuckle.profile.summary.describe import describe

NAMES = pl.Series(
    "name", ["cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync", "k"]
)
PROCESS = 7 << 24
ON_DEVICE = {"process": PROCESS, "device": 0, "context": 1, "stream": 7}


def covered(**rows: list[dict[str, Any]]) -> dict[str, Any]:
    return coverage(build(replace(trace_of(rows), names=NAMES)))


def call(at: int, name: int, correlation: int, **more: Any) -> dict[str, Any]:
    where = {"process": PROCESS, "thread": PROCESS | 1, "result": 0, "level": 0}
    return {
        "start_ns": at,
        "end_ns": at + 50,
        "name": name,
        "correlation": correlation,
        **where,
        **more,
    }


def kernel(at: int, correlation: int | None, **more: Any) -> dict[str, Any]:
    return {
        "start_ns": at,
        "end_ns": at + 100,
        "name": 4,
        "correlation": correlation,
        **ON_DEVICE,
        **more,
    }


def copy(at: int, correlation: int | None, direction: int = 1) -> dict[str, Any]:
    what = {"direction": direction, "source_memory": 2, "target_memory": 3, "size_bytes": 64}
    return {"start_ns": at, "end_ns": at + 100, "correlation": correlation, **ON_DEVICE, **what}


def test_launches_and_rows() -> None:
    found = covered(
        api=[
            call(1_000, 0, 1),
            call(1_010, 1, 2, end_ns=1_040, level=1),
            call(2_000, 0, 3),
            call(3_000, 2, 4),
            call(4_000, 2, 5),
            call(5_000, 0, 6, result=2),
            call(6_000, 3, 7),
        ],
        kernels=[
            kernel(1_100, 2),
            kernel(3_100, 4, graph_node=1),
            kernel(3_300, 4, graph_node=2),
            kernel(9_000, None),
        ],
        copies=[copy(6_100, 7), copy(7_000, None, direction=6)],
    )
    assert found["launches"] == {"count": 4, "with_rows": 2, "share": 0.5}, (
        "the driver's call is the runtime's; a failed one is none"
    )
    assert found["graph_launches"] == {"count": 2, "with_rows": 1, "share": 0.5}
    assert found["device_rows"] == {"count": 5, "with_call": 4, "time_share": 0.8}, (
        "no call moves unified memory"
    )


def test_a_graph_recorded_as_one_row_is_covered() -> None:
    found = covered(
        api=[call(1_000, 2, 1)],
        graphs=[{"start_ns": 1_100, "end_ns": 1_900, "correlation": 1, **ON_DEVICE}],
    )
    assert found["graph_launches"] == {"count": 1, "with_rows": 1, "share": 1.0}


def test_what_is_not_recorded_is_none() -> None:
    found = covered(kernels=[kernel(100, 1)])
    assert (
        found["launches"] is found["graph_launches"] is None
        and found["device_rows"]["time_share"] == 0.0
    )
    found = covered(api=[call(100, 3, 1)])
    assert (
        found["launches"] == {"count": 0, "with_rows": 0, "share": None}
        and found["device_rows"] is None
    )


@pytest.mark.parametrize(
    ("name", "graphs", "rows"),
    [
        ("kineto/vllm_decode_graph/graph_execution.json.gz", (1, 1), 434),
        ("kineto/hta_a100_80_rank0of16/rank0.json.gz", (70, 70), 7747),
    ],
)
def test_graphs_of_real_recordings(
    shared: Path, name: str, graphs: tuple[int, int], rows: int
) -> None:
    found = coverage(recorded_profile(shared / "traces" / name))
    assert (found["graph_launches"]["count"], found["graph_launches"]["with_rows"]) == graphs
    assert found["device_rows"]["count"] == rows


def test_what_was_not_recorded_has_no_time_not_none_of_it() -> None:
    kernel = {"start_ns": 100, "end_ns": 300, "name": 4, "correlation": 9, **ON_DEVICE}
    alone, called = (
        build(replace(trace_of(rows), names=NAMES))
        for rows in ({"kernels": [kernel]}, {"api": [call(0, 0, 9)]})
    )
    shares = [
        describe(p, observed_machine(p)[0], {}, None)["categories_ns"] for p in (alone, called)
    ]
    assert shares[0] == {"kernel": 200, "copy": 0, "mpi": 0, "api": None, "cpu": 0}
    assert shares[1] == {"kernel": None, "copy": None, "mpi": 0, "api": 50, "cpu": 0}
