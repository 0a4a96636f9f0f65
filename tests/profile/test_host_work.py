"""Host work by range: each instant is named once, and what no range names stays."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import strategies
from frames import OTHER_PROCESS, THREAD, tables
from hypothesis import given
from hypothesis import strategies as st
from runs import recorded_profile

from turnbuckle.profile.profile import build
from turnbuckle.profile.summary.host_work import described, host_work
from turnbuckle.profile.summary.summary import categories_ns, kernels
from turnbuckle.trace.trace import Trace

NAMES = [
    "kernel",
    "forward",
    "aten::mul, seq = 3, op_id = 7",
    "ProfilerStep#4",
    "ncclDevKernel_AllReduce_Sum_f32(ncclDevKernelArgs)",
    "loader",
    "train.py(7): main",
]
OTHER = OTHER_PROCESS | 3


def made(
    ranges: list[tuple[int, ...]], kernels: list[tuple[int, int, int]], **more: list[dict[str, Any]]
) -> Trace:
    columns = ("start_ns", "end_ns", "name", "thread", "kind")
    rows = [dict(zip(columns, row, strict=False)) for row in sorted(ranges)]
    work = [{"start_ns": start, "end_ns": end, "name": name} for start, end, name in kernels]
    frames = tables(kernels=work, ranges=rows, **more)
    return Trace(
        {n: f for n, f in frames.items() if f.height},
        pl.Series("name", NAMES, dtype=pl.String),
        {"tables": {}},
    )


def spent(trace: Trace) -> dict[str | None, int]:
    return {name: round(seconds * 1e9) for name, _, seconds in host_work(build(trace)).iter_rows()}


def test_the_innermost_range_names_host_work() -> None:
    trace = made(
        [(0, 900, 1, THREAD), (200, 500, 2, THREAD), (0, 1000, 3, THREAD)],
        [(0, 100, 0), (400, 450, 0), (950, 1000, 0)],
    )
    # inside aten::mul 200 to 400 and 450 to 500; around it 100 to 200 and 500 to 900; a step names
    # nothing
    assert spent(trace) == {"forward": 500, "aten::mul": 250, None: 50}
    (gap,) = (f for f in build(trace).findings if f.code == "P205")
    assert (gap.count, gap.detail) == (1, "5.0% of run time")


def test_an_annotation_names_what_its_operators_do() -> None:
    # forward runs an operator and the operator a Python function; the loader's function lies
    # outside of all annotations
    trace = made(
        [
            (100, 800, 1, THREAD, 59),
            (200, 600, 2, THREAD, 1),
            (300, 400, 6, THREAD, 2),
            (850, 900, 6, OTHER, 2),
        ],
        [(0, 100, 0), (950, 1000, 0)],
    )
    assert spent(trace) == {"forward": 300, "aten::mul": 300, "train.py(7): main": 150, None: 100}
    found = described(build(trace))
    assert found is not None and found["annotations"]["ranges"] == [
        {"name": "forward", "count": 1, "seconds": pytest.approx(700e-9)}
    ]
    assert found["annotations"]["unnamed_s"] == pytest.approx(150e-9)
    for kind in (59, 1):  # one level alone
        found = described(build(made([(100, 800, 1, THREAD, kind)], [(0, 100, 0), (950, 1000, 0)])))
        assert (
            found is not None
            and found["annotations"] is None
            and found["named_s"] == pytest.approx(700e-9)
        )


def test_of_several_threads_the_range_that_began_last() -> None:
    trace = made([(0, 600, 1, THREAD), (300, 800, 5, OTHER)], [(0, 100, 0), (900, 1000, 0)])
    assert spent(trace) == {"forward": 200, "loader": 500, None: 100}


def test_without_ranges_nothing_is_said() -> None:
    assert described(build(made([], [(0, 100, 0), (900, 1000, 0)]))) is None
    assert described(build(made([(0, 1000, 3, THREAD)], [(0, 100, 0), (900, 1000, 0)]))) is None


@strategies.LAW
@given(
    strategies.gpu_traces(),
    st.lists(
        st.tuples(st.integers(0, 200_000), st.integers(1, 90_000), st.integers(0, 5)), max_size=12
    ),
)
def test_host_work_adds_up_and_matches_a_count_by_instants(
    trace: Trace, ranges: list[tuple[int, int, int]]
) -> None:
    rows = sorted((at, at + lasts, name) for at, lasts, name in ranges)
    frame = tables(
        ranges=[{"start_ns": a, "end_ns": b, "name": n, "thread": THREAD} for a, b, n in rows]
    )["ranges"]
    names = pl.Series(
        "name", [f"range {n}" for n in range(max(len(trace.names), 6))], dtype=pl.String
    )
    profile = build(
        Trace({**trace.tables, **({"ranges": frame} if frame.height else {})}, names, trace.facts)
    )
    found = host_work(profile)
    assert sum(round(s * 1e9) for s in found["seconds"]) == categories_ns(profile)["cpu"]
    recorded = profile.activities.filter(pl.col("kind") != "gap")
    reach = recorded.select(pl.max_horizontal("end_ns", "delivered_ns")).to_series().to_numpy()
    instants = [
        *(t for a, b, _ in rows for t in (a, b)),
        *recorded["start_ns"].to_list(),
        *reach.tolist(),
        profile.first_ns,
        profile.last_ns,
    ]
    slow: dict[str | None, int] = {}
    points = sorted({t for t in instants if profile.first_ns <= t <= profile.last_ns})
    starts = recorded["start_ns"].to_numpy()
    for first, last in pairwise(points):
        if ((starts <= first) & (reach >= last)).any():
            continue
        inside = [(a, i) for i, (a, b, _) in enumerate(rows) if a <= first and b >= last]
        name = names[rows[max(inside)[1]][2]] if inside else None
        slow[name] = slow.get(name, 0) + last - first
    assert {n: round(s * 1e9) for n, s in zip(found["name"], found["seconds"], strict=True)} == slow


def test_kernels_of_nccl_are_counted_apart() -> None:
    trace = made([], [(0, 100, 0), (50, 250, 4), (300, 400, 4)])
    assert kernels(build(trace))["collective"] == {
        "count": 2,
        "busy_ns": 300,
        "union_ns": 300,
        "alone_ns": 250,
    }
    assert kernels(build(made([], [(0, 100, 0)])))["collective"] is None


def test_annotations_of_pytorch_name_its_host_work(shared: Path) -> None:
    (file,) = (shared / "traces" / "kineto" / "hta_a100_nccl_rank0of2").glob("*.json.gz")
    profile = recorded_profile(file)
    every = described(profile)
    assert (
        every is not None
        and every["ranges"][0]["name"] == "aten::empty"
        and every["ranges"][0]["count"] == 1590
    )
    found = every["annotations"]
    assert (
        found["ranges"][0]["name"] == "DistributedDataParallel.forward"
        and found["ranges"][0]["count"] == 3
    )
    for told in (every, found):
        assert told["named_s"] + told["unnamed_s"] == pytest.approx(
            categories_ns(profile)["cpu"] * 1e-9
        )
        assert told["named_s"] > 0.9 * (told["named_s"] + told["unnamed_s"])
    among = kernels(profile)["collective"]
    assert among["count"] == 21 and 0 < among["alone_ns"] < among["union_ns"] <= among["busy_ns"]
