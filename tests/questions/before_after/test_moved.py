"""Before and after: nothing moves at home, every move has its parts, and the chosen stretch stands
for the run.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from refusals import refused
from runs import run_of
from strategies import (
    D2H,
    DEVICE,
    FEWER,
    FULL,
    LAW,
    NAMES,
    PINNED,
    gpu_traces,
    machine,
    soups,
    trace_of,
    traces,
)

from turnbuckle.examples import sample
from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.machine import Machine, load
from turnbuckle.profile.profile import Profile, build
from turnbuckle.projection.model import Model, nething
from turnbuckle.questions.before_after.question import REASONS, Moved, moved, window
from turnbuckle.trace.trace import Trace

HERE = machine(FULL)
FLOP, HOLD = nething("flop"), nething("hold")
US = 1_000
PROCESS, THREAD = 1000 << 24, 1000 << 24 | 1


def trusted(profile: Profile, target: Machine, model: Model, **more: Any) -> Moved:
    """`moved`, for drawn runs: those whose order is refused say nothing here."""
    try:
        return moved(profile, HERE, target, model, **more)
    except CannotAnswer as e:
        assert e.code == "A122"
        reject()


def ns(seconds: pl.Series) -> list[int]:
    return [int(x) for x in np.rint(seconds.to_numpy() * 1e9)]


def unmoved(run: Moved) -> None:
    table = run.table
    assert ns(table["projected_start"]) == table["start_ns"].to_list()
    assert ns(table["projected_end"]) == table["end_ns"].to_list()
    for column in ("moved", "longer", "added", "handed"):
        assert (table[column] == 0).all(), column
    assert (table["reason"] == "still").all()
    assert table["critical_before"].to_list() == table["critical_after"].to_list()
    assert run.path_before.equals(run.path_after)


def consistent(run: Moved) -> None:
    """The parts of every move add up, and the paths are unbroken."""
    table = run.table
    parts = table["handed"] + table["added"] - table["absorbed"]
    assert np.allclose(table["moved"], parts, rtol=0, atol=2e-11)
    assert np.allclose(
        table["projected_start"], table["start_ns"] * 1e-9 + table["moved"], rtol=0, atol=2e-11
    )
    lasts = (table["end_ns"] - table["start_ns"]) * 1e-9 + table["longer"]
    assert np.allclose(table["projected_end"] - table["projected_start"], lasts, rtol=0, atol=2e-11)
    assert (table["projected_end"] >= table["projected_start"]).all() and (
        table["absorbed"] >= 0
    ).all()
    for path, total in (
        (run.path_before, run.projection.measured_seconds),
        (run.path_after, run.projection.seconds),
    ):
        if path.height:
            assert path["start"][1:].to_list() == path["end"][:-1].to_list()
            assert path["start"][0] == 0
            assert path["end"][-1] == pytest.approx(total, abs=1e-11)


@LAW
@given(traces() | soups())
def test_at_home_nothing_moves(trace: Trace) -> None:
    profile = build(trace)
    run = moved(profile, HERE, HERE, FLOP)
    unmoved(run)
    consistent(run)
    assert run.table.height == run.activities


@FEWER
@given(
    gpu_traces(),
    st.sampled_from(
        ["launch.latency", "sync.return", "slack.call", "link.h2d.latency", "gpu.fp64"]
    ),
    st.floats(0.2, 5),
)
def test_every_move_is_the_sum_of_its_parts(trace: Trace, name: str, factor: float) -> None:
    value = FULL[name] * factor if FULL[name] else factor * 1e-6
    run = trusted(build(trace), machine({**FULL, name: value}, "there"), FLOP)
    consistent(run)
    assert set(run.table["reason"].unique()) <= set(REASONS)
    by_number = {row["number"]: row for row in run.table.iter_rows(named=True)}
    for row in by_number.values():
        if row["held_by_number"] is not None:  # what it waited for had happened by then
            waited = by_number[row["held_by_number"]]
            assert (
                min(waited["projected_start"], waited["projected_end"])
                <= row["projected_start"] + 1e-11
            )
        if row["reason"] == "still":
            assert abs(row["moved"]) < 1e-9 and abs(row["longer"]) < 1e-9


def program(*steps: tuple[str, int, int], gap: int = 5 * US) -> Profile:
    """A thread that launches kernels (name, delay, work) or waits; times in ns, one stream."""
    rows: dict[str, list[dict[str, Any]]] = {"api": [], "kernels": [], "copies": []}
    clock, free = 1_000, 0
    for number, (name, delay, work) in enumerate(steps, 1):
        call = {
            "process": PROCESS,
            "thread": THREAD,
            "correlation": number,
            "result": 0,
            "level": 0,
            "start_ns": clock,
        }
        place = {"process": PROCESS, "device": 0, "context": 1, "stream": 7, "correlation": number}
        if name in ("cudaDeviceSynchronize", "cudaMalloc"):
            end = (max(clock, free) if name == "cudaDeviceSynchronize" else clock) + delay
            rows["api"].append({**call, "end_ns": end, "name": NAMES.index(name)})
        else:
            end = clock + 3 * US
            begin = max(clock + delay, free)
            free = begin + work
            if name == "copy":
                kinds = {
                    "direction": D2H,
                    "source_memory": DEVICE,
                    "target_memory": PINNED,
                    "size_bytes": 4096,
                }
                rows["copies"].append({**place, "start_ns": begin, "end_ns": free, **kinds})
                rows["api"].append({**call, "end_ns": end, "name": NAMES.index("cudaMemcpyAsync")})
            else:
                rows["kernels"].append(
                    {**place, "start_ns": begin, "end_ns": free, "name": NAMES.index(name)}
                )
                rows["api"].append({**call, "end_ns": end, "name": NAMES.index("cudaLaunchKernel")})
        clock = end + gap
    return build(trace_of({table: found for table, found in rows.items() if found}))


def kinds(run: Moved, *columns: str) -> list[tuple[Any, ...]]:
    return run.table.select("kind", *columns).rows()


def test_what_moved_it() -> None:
    profile = program(
        ("kernel_a", 6 * US, 40 * US),
        ("kernel_b", 6 * US, 40 * US),
        ("cudaDeviceSynchronize", 3 * US, 0),
    )
    later = moved(
        profile,
        HERE,
        machine({**FULL, "launch.latency": FULL["launch.latency"] + 2e-6}, "later"),
        HOLD,
    )
    assert kinds(later, "reason", "held_by") == [
        ("launch", "still", "origin"),
        ("kernel", "lag", "deliver"),
        ("launch", "still", "host"),
        ("sync", "waits", "host"),
        ("kernel", "follows", "stream"),
    ]
    assert later.table.filter(pl.col("kind") == "kernel")["moved"].to_list() == pytest.approx(
        [2e-6, 2e-6]
    )
    assert later.table["absorbed"].to_list() == [0.0] * 5
    faster = moved(profile, HERE, machine(FULL, "faster"), nething(2.0))
    assert [r[1] for r in kinds(faster, "reason") if r[0] == "kernel"] == ["own", "own"]
    assert faster.table.filter(pl.col("kind") == "sync")["ended_by"].to_list() == ["sync"]
    assert faster.table.filter(pl.col("kind") == "sync")["longer"][0] == pytest.approx(
        -40e-6, abs=1e-9
    )


def test_what_was_waited_for_in_vain_is_absorbed() -> None:
    """The second kernel's delivery was long over when the first one ended; with that one gone it is
    the delivery that holds it.
    """
    profile = program(("kernel_a", 6 * US, 40 * US), ("kernel_b", 6 * US, 40 * US))
    run = moved(profile, HERE, machine(FULL, "fast"), nething(100.0))
    second = run.table.filter(pl.col("kind") == "kernel").row(1, named=True)
    assert second["held_by"] == "deliver" and second["absorbed"] == pytest.approx(32e-6, abs=1e-9)
    assert (
        second["moved"] == pytest.approx(-32e-6, abs=1e-9)
        and second["handed"] == second["added"] == 0.0
    )


def test_callers_and_correlation() -> None:
    run = moved(
        program(
            ("kernel_a", 6 * US, 9 * US),
            ("copy", 6 * US, 9 * US),
            ("cudaDeviceSynchronize", 3 * US, 0),
        ),
        HERE,
        HERE,
        FLOP,
    )
    rows = {row["number"]: row for row in run.table.iter_rows(named=True)}
    found = [
        (r["kind"], rows[r["caller"]]["kind"], r["correlation"])
        for r in rows.values()
        if r["caller"] is not None
    ]
    assert sorted(found) == [("copy_d2h", "api", 2), ("kernel", "launch", 1)]
    assert [r["correlation"] for r in rows.values() if r["category"] == "api"] == [1, 2, 3]
    assert run.table.filter(pl.col("kind") == "copy_d2h")["size_bytes"].to_list() == [4096]


def test_nothing_to_say_of_a_run_without_a_device() -> None:
    call = {
        "process": PROCESS,
        "thread": THREAD,
        "correlation": 1,
        "result": 0,
        "level": 0,
        "start_ns": 1,
        "end_ns": 5,
        "name": 11,
    }
    profile = build(trace_of({"api": [call]}))
    refused("A121", moved, profile, HERE, machine(FULL, "there"), FLOP)
    unmoved(moved(profile, HERE, HERE, FLOP))
    empty = moved(build(trace_of({})), HERE, HERE, FLOP)
    assert empty.table.height == empty.path_after.height == 0
    assert window(empty).chosen == "whole" and len(window(empty).rows) == 0


def test_a_short_run_is_shown_whole() -> None:
    run = moved(
        program(("kernel_a", 6 * US, 9 * US), ("cudaDeviceSynchronize", 3 * US, 0)),
        HERE,
        HERE,
        FLOP,
    )
    found = window(run)
    assert (found.chosen, found.first_ns, len(found.rows)) == ("whole", 0, 3)
    assert found.last_ns > run.table["end_ns"].max()


def test_an_iteration_stands_for_a_run_that_repeats() -> None:
    one = [
        ("kernel_a", 6 * US, 20 * US),
        ("kernel_b", 6 * US, 4 * US),
        ("copy", 6 * US, 3 * US),
        ("cudaDeviceSynchronize", 3 * US, 0),
    ]
    odd = [
        ("kernel_b", 6 * US, 2 * US),
        ("kernel_b", 6 * US, 700 * US),
        ("cudaDeviceSynchronize", 3 * US, 0),
    ]
    run = moved(
        program(*odd, *one * 40, *odd), HERE, machine({**FULL, "sync.return": 9e-6}, "there"), HOLD
    )
    found = window(run, 60)
    assert (found.chosen, found.period, found.iterations) == ("iterations", 3, 3)
    rows = run.table[found.rows]
    assert 3 * 7 <= rows.height <= 3 * 7 + 2
    assert rows["kind"][0] == "launch" and rows.filter(pl.col("kind") == "kernel").height == 6
    assert found.first_ns == rows["start_ns"][0] and found.projected_first == pytest.approx(
        rows["projected_start"][0]
    )
    assert window(run, 10).iterations == 1 and len(window(run, 10).rows) <= 10
    assert window(run, 4).chosen == "change" and len(window(run, 4).rows) <= 4


def test_where_nothing_repeats_most_of_the_change_is_shown() -> None:
    rng = np.random.default_rng(5)
    calm = [
        (("kernel_a", "kernel_b")[int(k)], 6 * US, int(w))
        for k, w in zip(rng.integers(0, 2, 150), rng.integers(500, 900, 150), strict=True)
    ]
    allocations = [("cudaMalloc", 3 * US, 0)] * 30
    run = moved(
        program(*calm, *allocations, *calm),
        HERE,
        machine({**FULL, "alloc.call": 190e-6}, "there"),
        HOLD,
    )
    found = window(run, 50)
    rows = run.table[found.rows]
    assert found.chosen == "change" and len(found.rows) <= 50
    assert rows.filter(pl.col("kind") == "alloc").height == 30
    at_home = window(moved(program(*calm, *allocations, *calm), HERE, HERE, HOLD), 50)
    assert len(at_home.rows) <= 50 and at_home.first_ns > 0


@FEWER
@given(gpu_traces(), st.integers(1, 30))
def test_a_window_keeps_its_promise(trace: Trace, most: int) -> None:
    run = trusted(build(trace), machine({**FULL, "sync.return": 9e-6}, "there"), FLOP)
    found = window(run, most)
    table = run.table[found.rows]
    assert 0 < len(found.rows) <= most
    assert ((table["start_ns"] < found.last_ns) & (table["end_ns"] >= found.first_ns)).all()
    assert sorted(found.rows.tolist()) == found.rows.tolist()


def test_the_sample_far_away() -> None:
    with sample() as path:
        seen = run_of(path)
    run = moved(
        seen.profile,
        seen.source,
        load("cdi-row-link"),
        replace(FLOP, replay="sum"),
        ready=seen.ordered,
    )
    consistent(run)
    assert run.projection.replay == "timeline" and run.projection.target == "cdi-row-link"
    assert 0.5 < run.explained <= 1
    launched = run.table.filter(pl.col("caller").is_not_null())
    ids = dict(run.table.select("number", "correlation").iter_rows())
    assert launched.height > 1_000
    assert all(ids[c] == i for c, i in launched.select("caller", "correlation").iter_rows())


@pytest.mark.shared
def test_real_runs(shared: Path) -> None:
    shown = {}
    for name in ("jacobi_gh200", "cloverleaf_a100_perlmutter", "extrap_concurrent_s4"):
        (file,) = (shared / "traces/nsys" / name).glob("*.sqlite")
        seen = run_of(file)
        unmoved(moved(seen.profile, seen.source, seen.source, FLOP, ready=seen.ordered))
        far = moved(seen.profile, seen.source, load("cdi-row-link"), FLOP, ready=seen.ordered)
        consistent(far)
        shown[name] = window(far)
    assert (shown["jacobi_gh200"].chosen, shown["jacobi_gh200"].period) == ("iterations", 5)
    assert all(0 < len(found.rows) <= 400 for found in shown.values())


@pytest.mark.shared
def test_a_stretch_shows_the_change_and_not_what_other_work_hides(shared: Path) -> None:
    """The host of this run is milliseconds ahead of its GPU: most calls begin late on the target,
    and few delay anything.
    """
    file = (
        shared
        / "traces/kineto/tracelens_h100_models/google_owlv2-large-patch14-ensemble__1016001.json.gz"
    )
    seen = run_of(file)
    run = moved(seen.profile, seen.source, load("cdi-row-api"), nething("hold"), ready=seen.ordered)
    shown = window(run, 100)
    rows = run.table[shown.rows].filter("critical_after")
    late = rows["projected_end"].to_numpy() - rows["end_ns"].to_numpy() * 1e-9
    whole = run.projection.seconds - run.projection.measured_seconds
    assert shown.chosen == "change" and whole > 0
    assert late[-1] - late[0] > 0.1 * whole
    assert len(shown.rows) < 0.01 * run.table.height
