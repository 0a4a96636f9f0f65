"""Parts of a recording: what is in them, what an edge does, and that parts make up the whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import strategies
from frames import OTHER_PROCESS, PROCESS, THREAD, tables
from hypothesis import assume, given
from hypothesis import strategies as st

import turnbuckle as tb
from turnbuckle.errors import UsageError
from turnbuckle.profile.profile import build
from turnbuckle.study.study import inspect_profile
from turnbuckle.trace.check import sound
from turnbuckle.trace.read import read
from turnbuckle.trace.trace import Trace
from turnbuckle.trace.window import Part, cut, run_ns


def made(**rows: list[dict[str, Any]]) -> Trace:
    names = pl.Series("name", ["cudaLaunchKernel", "step"], dtype=pl.String)
    return Trace({n: f for n, f in tables(**rows).items() if f.height}, names, {"tables": {}})


def kernel(start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"start_ns": start, "end_ns": end, **more}


def test_what_straddles_an_edge_is_cut_there_and_a_copy_loses_its_size() -> None:
    trace = made(
        kernels=[kernel(0, 100), kernel(150, 260), kernel(400, 500)],
        copies=[kernel(240, 300, size_bytes=64), kernel(210, 220, size_bytes=8)],
    )
    part = cut(trace, Part((200, 250)))
    assert part.kernels.select("start_ns", "end_ns").rows() == [(200, 250)]
    assert part.copies.select("start_ns", "end_ns", "size_bytes").rows() == [(210, 220, 8), (240, 250, None)]
    assert [(f.code, f.count) for f in part.findings] == [("P197", 2)]
    profile = build(part)
    assert (profile.first_ns, profile.run_time_ns) == (200, 50)


def test_an_idle_edge_belongs_to_the_part() -> None:
    profile = build(cut(made(kernels=[kernel(0, 10), kernel(500, 600), kernel(900, 1000)]), Part((100, 700))))
    assert profile.run_time_ns == 600 and profile.activities["exposed_ns"].sum() == 600


def test_memory_held_before_is_held_in_the_part() -> None:
    def memory(time: int, operation: int, address: int) -> dict[str, Any]:
        return {"time_ns": time, "operation": operation, "address": address, "size_bytes": 100}

    trace = made(
        kernels=[kernel(0, 1000)],
        allocations=[memory(10, 0, 1), memory(20, 0, 2), memory(30, 1, 1), memory(300, 0, 3), memory(900, 0, 4)],
    )
    part = cut(trace, Part((200, 500)))
    assert part.allocations.select("time_ns", "address").rows() == [(200, 2), (300, 3)]


def test_ranges_by_name_and_number() -> None:
    def step(start: int, end: int, thread: int = THREAD) -> dict[str, Any]:
        return {"start_ns": start, "end_ns": end, "name": 1, "thread": thread}

    other = OTHER_PROCESS | 7
    trace = made(
        kernels=[kernel(0, 1000)], ranges=[step(100, 200), step(300, 400), step(500, 600), step(310, 450, other), step(110, 190, other)]
    )

    def of(name: str) -> tuple[int, int]:
        begin, end = cut(trace, Part(span=name)).facts["part"]["bounds_ns"]
        return begin, end

    assert of("step#1") == (100, 200) and of("step#2") == (300, 450) and of("step#2-3") == (300, 600) and of("step#1-9") == (100, 600)
    assert cut(trace, Part((10, 20), span="step#3")).facts["part"]["bounds_ns"] == [510, 520]
    for name, code in (("step", "A422"), ("stop", "A421"), ("step#9", "A421"), ("step#3-2", "A421"), ("", "A421")):
        with pytest.raises(UsageError) as refused:
            cut(trace, Part(span=name))
        assert refused.value.code == code
    with pytest.raises(UsageError) as refused:
        cut(trace, Part((2000, 3000)))
    assert refused.value.code == "A070"


def test_a_rank_is_its_processes() -> None:
    trace = made(
        kernels=[kernel(0, 10), kernel(20, 30, process=OTHER_PROCESS), kernel(40, 50, process=None)],
        ranges=[{"start_ns": 5, "end_ns": 25, "thread": OTHER_PROCESS | 3, "name": 1}],
        mpi_ranks=[{"thread": THREAD, "rank": 0}, {"thread": OTHER_PROCESS | 1, "rank": 1}],
    )
    one = cut(trace, Part(rank=1))
    assert one.kernels["start_ns"].to_list() == [20] and one.ranges.height == 1 and one.mpi_ranks["rank"].to_list() == [1]
    assert [(f.code, f.count) for f in one.findings] == [("P198", 1)]
    with pytest.raises(UsageError) as refused:
        cut(trace, Part(rank=2))
    assert refused.value.code == "A423" and refused.value.found == "ranks 0, 1"
    with pytest.raises(UsageError) as refused:
        cut(made(kernels=[kernel(0, 1, process=PROCESS)]), Part(rank=0))
    assert refused.value.code == "A423"


@given(strategies.gpu_traces(), st.floats(0.1, 0.9))
def test_two_parts_make_up_the_run(trace: Trace, share: float) -> None:
    """Busy times add up, run times add up, and the whole as a part is the whole."""
    kept, _ = sound(trace.tables, trace.facts)
    trace = replace(trace, tables={n: f for n, f in kept.items() if f.height})
    first, last = run_ns(trace)
    at = round((last - first) * share)
    assume(0 < at < last - first)
    whole, parts = build(trace), []
    for bounds in ((0, at), (at, last - first)):
        try:
            parts.append(build(cut(trace, Part(bounds))))
        except UsageError:
            assume(False)
    assert sum(p.run_time_ns for p in parts) == whole.run_time_ns
    for table in ("kernels", "copies", "memsets", "api"):
        spent = [int((f["end_ns"] - f["start_ns"]).sum()) for f in (whole.trace.table(table), *(p.trace.table(table) for p in parts))]
        assert spent[0] == spent[1] + spent[2]
    same = build(cut(trace, Part((0, last - first))))
    assert same.activities.equals(whole.activities) and same.run_time_ns == whole.run_time_ns


def test_parts_of_real_runs_project_onto_themselves(shared: Path) -> None:
    traces = shared / "traces" / "nsys"
    for folder, bounds in (("mfu_2gpu_before", (50_000_000, 150_000_000)), ("jacobi_gh200", (1_000_000_000, 1_300_000_000))):
        trace = read(next((traces / folder).glob("*.sqlite")))
        profile = build(cut(trace, Part(bounds)))
        assert profile.run_time_ns == bounds[1] - bounds[0]
        (found,) = tb.ask(inspect_profile(profile), ["self"], draws=0).projections
        assert found.penalty == 1.0 and found.measured_seconds == pytest.approx(profile.seconds)
