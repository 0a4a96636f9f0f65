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
from refusals import refused

from turnbuckle.foundation.errors import UsageError
from turnbuckle.profile.dependencies.sides import activities
from turnbuckle.profile.messages.exchange_numbers import exchange_numbers
from turnbuckle.profile.messages.mpi_calls import exchanges
from turnbuckle.profile.profile import build
from turnbuckle.profile.summary.start_up import start_up
from turnbuckle.profile.summary.summary import kernel_window_ns
from turnbuckle.projection.run import Run, part_of
from turnbuckle.trace.bounds import sound
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
    assert part.copies.select("start_ns", "end_ns", "size_bytes").rows() == [
        (210, 220, 8),
        (240, 250, None),
    ]
    assert [(f.code, f.count, f.detail) for f in part.findings] == [("P197", 2, "2 cut at an edge")]
    profile = build(part)
    assert (profile.first_ns, profile.run_time_ns) == (200, 50)


def test_marks_stay_marks_and_host_ranges_are_no_activities() -> None:
    ranges: list[dict[str, Any]] = [
        {"start_ns": 0, "end_ns": 900, "name": 1},
        {"start_ns": 220, "end_ns": None, "name": 1, "kind": 34},
    ]
    part = cut(
        made(kernels=[kernel(0, 100), kernel(210, 240), kernel(400, 500)], ranges=ranges),
        Part((200, 250)),
    )
    assert part.ranges.select("start_ns", "end_ns").rows() == [(200, 250), (220, None)]
    assert not part.findings


def test_rows_without_a_time_have_no_say_in_where_the_run_begins() -> None:
    hours = 10**13
    lost = [kernel(0, 0), kernel(0, hours)]
    trace = made(
        kernels=[*lost, *(kernel(hours + 100 * k, hours + 100 * k + 50) for k in range(10))]
    )
    part = cut(trace, Part((100, 300)))
    assert (
        part.facts["part"]["bounds_ns"] == [hours + 100, hours + 300]
        and part.facts["part"]["of_ns"] == 950
    )
    assert {f.code: f.count for f in build(part).findings}["P102"] == 2


def test_an_instant_on_an_edge_is_in_one_part() -> None:
    trace = made(kernels=[kernel(0, 100), kernel(200, 200), kernel(300, 400), kernel(400, 400)])
    parts = [
        cut(trace, Part(window)).kernels["start_ns"].to_list() for window in ((0, 200), (200, 400))
    ]
    assert parts == [[0], [200, 300, 400]]


def test_work_whose_call_lies_before_is_not_joined_to_a_later_call_of_its_id() -> None:
    calls = [
        kernel(0, 10, correlation=1),
        kernel(210, 220, correlation=1),
        kernel(240, 250, correlation=2),
    ]
    trace = made(
        api=calls, kernels=[kernel(180, 260, correlation=1), kernel(320, 330, correlation=2)]
    )
    part = cut(trace, Part((100, 300)))
    assert part.kernels["correlation"].to_list() == [None]
    assert [(f.code, f.count) for f in part.findings] == [
        ("P197", 1)
    ] and "call lies before" in part.findings[0].detail
    assert part.facts["part"]["launched_before"] == {"kernels": 1} and "P109" not in {
        f.code for f in build(part).findings
    }


def test_a_graph_launch_whose_work_lies_behind_the_window_was_recorded() -> None:
    names = pl.Series("name", ["cudaGraphLaunch", "k"], dtype=pl.String)
    rows = tables(
        api=[kernel(0, 10, correlation=1), kernel(100, 110, correlation=2)],
        kernels=[kernel(20, 30, correlation=1), kernel(150, 160, correlation=2)],
    )
    trace = Trace({n: f for n, f in rows.items() if f.height}, names, {"tables": {}})
    for bounds in ((0, 120), (0, 160)):
        assert "P115" not in {f.code for f in build(cut(trace, Part(bounds))).findings}


def test_how_things_are_is_kept() -> None:
    nodes = [{"time_ns": 5, "graph_node": 1}, {"time_ns": 7, "graph_node": 2}]
    switches = [
        {"time_ns": 0, "thread": THREAD, "cpu": 3, "running": 1},
        {"time_ns": 900, "thread": THREAD, "cpu": 3, "running": 0},
        {"time_ns": 10, "thread": THREAD + 1, "cpu": 4, "running": 1},
        {"time_ns": 150, "thread": THREAD + 1, "cpu": 4, "running": 0},
    ]
    part = cut(
        made(kernels=[kernel(0, 1000)], graph_nodes=nodes, scheduling=switches), Part((200, 500))
    )
    assert part.graph_nodes.height == 2
    assert part.scheduling.select("time_ns", "thread", "running").rows() == [
        (200, THREAD, 1),
        (500, THREAD, 0),
    ]


def two_ranks(rounds: int) -> Trace:
    """Rank 0 sends to rank 1 and both meet in a Bcast from rank 0, which leaves it early; rank 1 is
    half a round behind.
    """
    other = OTHER_PROCESS | 1
    mpi: list[dict[str, Any]] = []
    for k in range(rounds):
        told = {"communicator": 9, "size_bytes": k}
        for at, thread, name, partner in ((1000 * k, THREAD, 0, 1), (1000 * k + 500, other, 1, 0)):
            mpi.append(
                kernel(
                    at, at + 50, thread=thread, kind=0, name=name, partner=partner, tag=0, **told
                )
            )
            mpi.append(kernel(at + 60, at + 90, thread=thread, kind=1, name=2, root=0, **told))
    worlds = [
        {"rank": r, "time_ns": 0, "communicator": 9, "parent": 0, "local_rank": r, "size": 2}
        for r in (0, 1)
    ]
    ranks = [{"thread": THREAD, "rank": 0}, {"thread": other, "rank": 1}]
    rows = tables(mpi=mpi, mpi_ranks=ranks, mpi_communicators=worlds)
    names = pl.Series("name", ["MPI_Send", "MPI_Recv", "MPI_Bcast"], dtype=pl.String)
    return Trace({n: f for n, f in rows.items() if f.height}, names, {"tables": {}})


def test_half_of_an_exchange_is_not_taken_for_half_of_the_next() -> None:
    trace = two_ranks(8)
    numbers = exchange_numbers(trace)
    assert (numbers >= 0).any(axis=1).all()
    part = cut(trace, Part((1400, 5200)), exchange_numbers)
    profile = build(part)
    found = exchanges(activities(profile), profile.trace)
    assert found is not None
    # messages 2 to 4: the receive of 1 has lost its send, the send of 5 its receive
    assert sorted(found.messages.select("size_bytes", "size_bytes_r").rows()) == [
        (k, k) for k in (2, 3, 4)
    ]
    assert (
        sorted(found.rounds.filter(pl.col("me") == 0)["size_bytes"].to_list()) == [2, 3, 4]
        and found.rounds.height == 6
    )
    assert (
        found.unmatched == 4
        and "4 MPI calls whose other side"
        in next(f for f in part.findings if f.code == "P197").detail
    )


def test_an_idle_edge_belongs_to_the_part() -> None:
    profile = build(
        cut(made(kernels=[kernel(0, 10), kernel(500, 600), kernel(900, 1000)]), Part((100, 700)))
    )
    assert profile.run_time_ns == 600 and profile.activities["exposed_ns"].sum() == 600


def test_memory_held_before_is_held_in_the_part() -> None:
    def memory(time: int, operation: int, address: int) -> dict[str, Any]:
        return {"time_ns": time, "operation": operation, "address": address, "size_bytes": 100}

    trace = made(
        kernels=[kernel(0, 1000)],
        allocations=[
            memory(10, 0, 1),
            memory(20, 0, 2),
            memory(30, 1, 1),
            memory(300, 0, 3),
            memory(900, 0, 4),
        ],
    )
    part = cut(trace, Part((200, 500)))
    assert part.allocations.select("time_ns", "address").rows() == [(200, 2), (300, 3)]


def test_ranges_that_name_no_thread_are_ranges() -> None:
    trace = made(
        kernels=[kernel(0, 1000)], ranges=[{"start_ns": 5, "end_ns": 9, "name": 1, "thread": None}]
    )
    assert cut(trace, Part(span="step")).facts["part"]["bounds_ns"] == [5, 9]


def test_operators_are_looked_at_where_the_program_marks_nothing_of_that_name() -> None:
    def noted(start: int, name: int, kind: int) -> dict[str, Any]:
        return {
            "start_ns": start,
            "end_ns": start + 50,
            "name": name,
            "thread": THREAD,
            "kind": kind,
        }

    operators = [noted(100 * k, name, 1) for k in range(8) for name in (0, 1)]
    trace = made(kernels=[kernel(0, 1000)], ranges=[*operators, noted(850, 1, 59)])
    assert cut(trace, Part(span="step")).facts["part"]["bounds_ns"] == [850, 900]
    assert cut(trace, Part(span=f"{trace.names[0]}#3")).facts["part"]["bounds_ns"] == [200, 250]
    assert "there are step" in str(refused("A421", cut, trace, Part(span="nothing")).found)
    assert cut(made(kernels=[kernel(0, 1000)], ranges=operators[:2]), Part(span="step")).facts[
        "part"
    ]["bounds_ns"] == [0, 50]


def test_ranges_by_name_and_number() -> None:
    def step(start: int, end: int, thread: int = THREAD) -> dict[str, Any]:
        return {"start_ns": start, "end_ns": end, "name": 1, "thread": thread}

    other = OTHER_PROCESS | 7
    trace = made(
        kernels=[kernel(0, 1000)],
        ranges=[
            step(100, 200),
            step(300, 400),
            step(500, 600),
            step(310, 450, other),
            step(110, 190, other),
        ],
    )

    def of(name: str) -> tuple[int, int]:
        begin, end = cut(trace, Part(span=name)).facts["part"]["bounds_ns"]
        return begin, end

    assert (
        of("step#1") == (100, 200)
        and of("step#2") == (300, 450)
        and of("step#2-3") == (300, 600)
        and of("step#1-9") == (100, 600)
    )
    assert cut(trace, Part((10, 20), span="step#3")).facts["part"]["bounds_ns"] == [510, 520]
    refusals = {
        "step": "A422",
        "stop": "A421",
        "step#9": "A421",
        "step#3-2": "A421",
        "step#0": "A421",
        "step#0-2": "A421",
        "": "A421",
    }
    for name, code in refusals.items():
        refused(code, cut, trace, Part(span=name))
    refused("A070", cut, trace, Part((2000, 3000)))


def test_a_rank_is_its_processes() -> None:
    trace = made(
        kernels=[
            kernel(0, 10),
            kernel(20, 30, process=OTHER_PROCESS),
            kernel(40, 50, process=None),
        ],
        memsets=[kernel(60, 70, process=5 << 24)],
        ranges=[{"start_ns": 5, "end_ns": 25, "thread": OTHER_PROCESS | 3, "name": 1}],
        mpi_ranks=[{"thread": THREAD, "rank": 0}, {"thread": OTHER_PROCESS | 1, "rank": 1}],
    )
    one = cut(trace, Part(rank=1))
    assert (
        one.kernels["start_ns"].to_list() == [20]
        and one.ranges.height == 1
        and one.mpi_ranks["rank"].to_list() == [1]
    )
    assert [(f.code, f.count) for f in one.findings] == [("P198", 2)]
    assert refused("A423", cut, trace, Part(rank=2)).found == "ranks 0, 1"
    refused("A423", cut, made(kernels=[kernel(0, 1, process=PROCESS)]), Part(rank=0))


@strategies.FEWER
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
        spent = [
            int((f["end_ns"] - f["start_ns"]).sum())
            for f in (whole.trace.table(table), *(p.trace.table(table) for p in parts))
        ]
        assert spent[0] == spent[1] + spent[2]
    same = build(cut(trace, Part((0, last - first))))
    assert same.activities.equals(whole.activities) and same.run_time_ns == whole.run_time_ns


def test_a_part_has_one_name_and_whole_is_no_part() -> None:
    for name in ("auto", "whole"):
        assert (
            not Part.parse(name)
            and Part.parse(name).is_all
            and Part.parse(name, rank=3) == Part(rank=3, of=name)
        )
    assert Part.parse("1ms..2.5 ms") == Part((1_000_000, 2_500_000)) and Part.parse(
        "nvtx=a=b..c"
    ) == Part(span="a=b..c")
    assert Part.parse("step=7") == Part(steps=(7, 7))
    for text in (
        "",
        "Steady",
        "1s",
        "1s..",
        "..1s",
        "2s..1s",
        "1s..1s",
        "-1s..1s",
        "step=",
        "step=5-",
        "step=5-4",
        "step=-1",
        "steps=3",
        "part",
    ):
        assert refused("A070", Part.parse, text).found == text
    for text, code in (("1..2", "U001"), ("1GB..2GB", "U003"), ("a..b", "U004")):
        assert refused(code, Part.parse, text).where == "--part"


def test_steps_are_ranges_that_a_number_names() -> None:
    names = pl.Series(
        "name",
        [
            "ProfilerStep#5",
            "ProfilerStep#6",
            "step 5",
            "ProfilerStep#7x",
            "warm 5",
            "Iteration: 12",
        ],
        dtype=pl.String,
    )

    def trace(*numbered: tuple[int, int, int]) -> Trace:
        rows = [
            {"start_ns": start, "end_ns": end, "name": name, "thread": THREAD}
            for start, end, name in numbered
        ]
        return Trace(
            {n: f for n, f in tables(kernels=[kernel(0, 1000)], ranges=rows).items() if f.height},
            names,
            {"tables": {}},
        )

    def of(seen: Trace, first: int, last: int) -> list[int]:
        bounds: list[int] = cut(seen, Part(steps=(first, last))).facts["part"]["bounds_ns"]
        return bounds

    both = trace((100, 200, 0), (200, 300, 1), (0, 900, 2), (300, 400, 3), (500, 600, 4))
    assert (
        of(both, 5, 5) == [100, 200]
        and of(both, 5, 6) == [100, 300]
        and of(both, 6, 99) == [200, 300]
    )
    assert of(trace((0, 900, 2)), 5, 5) == [0, 900] and of(trace((10, 90, 5)), 12, 12) == [10, 90]
    assert cut(both, Part(steps=(5, 6))).facts["part"]["steps"] == [5, 6]
    for seen, step in ((both, 7), (trace((500, 600, 4)), 5), (trace(), 5)):
        refused("A421", of, seen, step, step)


def test_the_kernels_are_the_kernel_window() -> None:
    trace = made(
        kernels=[kernel(300, 400), kernel(500, 900)],
        copies=[kernel(0, 50, size_bytes=8), kernel(920, 990, size_bytes=8)],
    )
    part = cut(trace, Part.parse("kernels"))
    assert (
        part.facts["part"]["bounds_ns"] == [300, 900]
        and build(part).run_time_ns == kernel_window_ns(build(trace)) == 600
    )
    assert not part.copies.height
    refused("A421", cut, made(copies=[kernel(0, 50, size_bytes=8)]), Part(of="kernels"))


@strategies.FEWER
@given(strategies.gpu_traces())
def test_start_up_and_the_steady_part_make_up_the_run(trace: Trace) -> None:
    """What start-up is made of adds up to it, the steady part is the rest, the kernels lie in the
    run, and the whole is the run itself.
    """
    whole = build(trace)
    assert part_of(trace, "whole") is trace and part_of(trace, None) is trace
    try:
        inner = build(part_of(trace, "kernels"))
        assert whole.first_ns <= inner.first_ns <= inner.last_ns <= whole.last_ns
        assert (
            inner.trace.kernels.height <= whole.trace.kernels.height
            and inner.trace.api.height <= whole.trace.api.height
        )
    except UsageError as error:
        assert error.code in ("A421", "A070")
    begun = start_up(whole)
    if begun is None:
        assert not trace.kernels.height and not trace.graphs.height
        return
    assert (
        sum(begun.made_of.values()) == pytest.approx(begun.seconds, abs=1e-12)
        and min(begun.made_of.values()) >= 0
    )
    assert 0 <= begun.share <= 1 and 0 <= begun.call_share <= 1
    assume(begun.end_ns < whole.last_ns)
    steady = build(part_of(trace, "steady"))
    assert (
        steady.trace.kernels.height <= whole.trace.kernels.height
        and steady.trace.api.height <= whole.trace.api.height
    )
    assert round(begun.seconds * 1e9) + steady.run_time_ns == whole.run_time_ns
    kernels = steady.trace.kernels["start_ns"]
    assert not kernels.len() or kernels.min() >= begun.end_ns  # type: ignore[operator]
    assert start_up(steady) is None, "the begin of a stretch is no start of a run"


def test_parts_of_real_runs_project_onto_themselves(shared: Path) -> None:
    traces = shared / "traces" / "nsys"
    for folder, bounds in (
        ("mfu_2gpu_before", (50_000_000, 150_000_000)),
        ("jacobi_gh200", (1_000_000_000, 1_300_000_000)),
    ):
        trace = read(next((traces / folder).glob("*.sqlite")))
        profile = build(cut(trace, Part(bounds)))
        assert profile.run_time_ns == bounds[1] - bounds[0]
        (found,) = Run.of(profile).project(["self"], draws=0).projections
        assert found.penalty == 1.0 and found.measured_seconds == pytest.approx(profile.seconds)
