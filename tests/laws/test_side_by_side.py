"""Law 6: two runs beside each other in one recording are two runs.  Counts double, what a call or a
copy takes stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    FEWER,
    FULL,
    Where,
    gpu_traces,
    machine,
    run_toy,
    soups,
    steps,
    trace_of,
    traces,
)

from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.machine import Pair
from turnbuckle.papers.models.node.functions import functions
from turnbuckle.profile.profile import Profile, build
from turnbuckle.profile.summary import summary
from turnbuckle.profile.summary.coverage import coverage
from turnbuckle.projection.model import nething
from turnbuckle.projection.project import project
from turnbuckle.trace.trace import Trace, dtypes
from turnbuckle.trace.window import of_rank

PROCESS = ~0xFFFFFF
TWIN = 4_000 << 24
TIMES = ("start_ns", "end_ns", "time_ns")


def processes(trace: Trace) -> list[int]:
    """All processes of a recording."""
    columns = [f[c] for f in trace.tables.values() for c in ("process", "thread") if c in f.columns]
    return sorted(
        {number & PROCESS for column in columns for number in column.drop_nulls().to_list()}
    )


def ranks(trace: Trace, count: int) -> pl.DataFrame:
    """The table of a merge's processes: those of `trace` as rank 0, their twins as rank 1."""
    types = dtypes("processes")
    about = dict.fromkeys(("name", "offset_ns", "shift_ns", "drift_ns_per_s"), 0)
    rows = [
        {**about, "process": p + rank * TWIN, "rank": rank, "file": rank}
        for rank in range(count)
        for p in processes(trace)
    ]
    return pl.DataFrame({c: [row.get(c) for row in rows] for c in types}, schema=types)


def once(trace: Trace) -> Trace:
    """The run as a rank of a merge: devices of two processes are two."""
    return replace(trace, tables={**trace.tables, "processes": ranks(trace, 1)})


def twice(trace: Trace, shift: int = 0) -> Trace:
    """The run, and the same run by other processes `shift` ns later, as a merge of two recordings
    writes them; ranks 0 and 1.
    """
    tables = {}
    for name, frame in trace.tables.items():
        later = frame.with_columns(
            pl.col(c) + (shift if c in TIMES else TWIN)
            for c in frame.columns
            if c in (*TIMES, "process", "thread")
        )
        both = pl.concat([frame, later]) if name != "devices" else frame
        order = next((c for c in ("start_ns", "time_ns") if c in both.columns), None)
        tables[name] = both.sort(order, maintain_order=True) if order else both
    return replace(trace, tables={**tables, "processes": ranks(trace, 2)})


def on_two_devices(trace: Trace, shift: int = 0) -> Trace:
    """A run of one process, and the same by other threads of it on other devices `shift` ns
    later.
    """
    more = {
        "thread": 100,
        "device": 10,
        "context": 10,
        "stream": 10,
        "correlation": 100_000,
        **dict.fromkeys(TIMES, shift),
    }
    tables = {}
    for name, frame in trace.tables.items():
        both = (
            pl.concat(
                [frame, frame.with_columns(pl.col(c) + more[c] for c in frame.columns if c in more)]
            )
            if name != "devices"
            else frame
        )
        order = next((c for c in ("start_ns", "time_ns") if c in both.columns), None)
        tables[name] = both.sort(order, maintain_order=True) if order else both
    return replace(trace, tables=tables)


def counted(profile: Profile) -> dict[str, Any]:
    """Figures that are sums over what happened."""
    hidden = summary.overlap(profile)
    seen = functions(profile)
    return {
        "copies": summary.copies(profile),
        "kernels": {k: v for k, v in summary.kernels(profile).items() if k != "union_ns"},
        "launches": {k: v for k, v in summary.launch(profile).items() if k.endswith("count")},
        "coverage": {
            k: v and {n: c for n, c in v.items() if "share" not in n}
            for k, v in coverage(profile).items()
        },
        "overlap": {k: hidden[k] for k in ("copy_union_ns", "copy_hidden_ns")},
        "functions": {
            f"{r['class']} {r['call_class']}": r["time_ns"]
            for r in seen.classes().to_dicts()
            if r["class"] != "cpu"
        },
        "activities": profile.activities.filter(pl.col("kind") != "gap").height,
    }


def typical(profile: Profile) -> dict[str, Any]:
    """Figures that belong to one call, copy or launch."""
    return {
        "launch": {k: v for k, v in summary.launch(profile).items() if "median" in k},
        "alloc": summary.alloc_call_s(profile),
        "sync": summary.sync_return_s(profile),
        "shares": {
            k: v and v.get("share", v.get("time_share")) for k, v in coverage(profile).items()
        },
    }


def doubled(value: Any) -> Any:
    """Every number in `value` twice as large."""
    return (
        {k: doubled(v) for k, v in value.items()}
        if isinstance(value, Mapping)
        else value
        if value is None
        else 2 * value
    )


def close(value: Any) -> Any:
    """The same numbers, but for rounding."""
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


@FEWER
@given(traces() | soups(), st.sampled_from([0, 7, 1_000, 30_000, 10**9]))
def test_counts_double_and_medians_stay(trace: Trace, shift: int) -> None:
    one, two = build(once(trace)), build(twice(trace, shift))
    assert counted(two) == doubled(counted(one))
    alone, both = typical(one), typical(two)
    assert both["launch"] == pytest.approx(alone["launch"])
    for figure in ("alloc", "sync"):
        assert both[figure] == close(alone[figure]), figure
    assert both["shares"] == alone["shares"]


@FEWER
@given(gpu_traces() | soups(), st.sampled_from(["sum", "timeline"]))
def test_runs_in_step_take_as_long_as_one(trace: Trace, replay: str) -> None:
    there = machine(
        {
            **FULL,
            "link.h2d.latency": 4e-6,
            "launch.latency": 9e-6,
            "sync.return": 5e-6,
            "slack.call": 1e-6,
        },
        "there",
    )
    model = replace(nething("hold"), replay=replay)  # type: ignore[arg-type]
    pair = Pair(machine(FULL), there)
    try:
        one = project(build(once(trace)), pair, model)
    except CannotAnswer as refused:
        with pytest.raises(CannotAnswer, match=refused.code):
            project(build(twice(trace)), pair, model)
        return
    two = project(build(twice(trace)), pair, model)
    assert two.measured_seconds == one.measured_seconds
    assert two.seconds == pytest.approx(one.seconds, rel=1e-12)


@FEWER
@given(gpu_traces() | soups(), st.sampled_from([0, 7, 30_000]))
def test_a_rank_of_two_is_the_run_itself(trace: Trace, shift: int) -> None:
    def figures(profile: Profile) -> tuple[Any, ...]:
        return (
            counted(profile),
            typical(profile),
            summary.categories_ns(profile),
            profile.run_time_ns,
        )

    expected, both = figures(build(once(trace))), twice(trace, shift)
    for rank in (0, 1):
        assert figures(build(of_rank(both, rank))) == expected


ALONE = st.builds(
    lambda program, where: trace_of(
        run_toy([replace(program[0], what="launch"), *program], where).rows
    ),
    steps(12).map(
        lambda program: [
            replace(step, what="work" if step.what == "mpi" else step.what) for step in program
        ]
    ),
    st.builds(
        Where,
        processes=st.just(1),
        threads=st.integers(1, 2),
        devices=st.integers(1, 2),
        streams=st.integers(1, 2),
    ),
)


@FEWER
@given(ALONE, st.sampled_from([0, 7, 30_000]))
def test_devices_of_one_process_are_as_many(trace: Trace, shift: int) -> None:
    one, two = build(trace), build(on_two_devices(trace, shift))
    assert counted(two) == doubled(counted(one))
    alone, both = typical(one), typical(two)
    assert both["launch"] == pytest.approx(alone["launch"]) and both["shares"] == alone["shares"]
    if not shift:
        there = machine(
            {
                **FULL,
                "link.h2d.latency": 4e-6,
                "launch.latency": 9e-6,
                "sync.return": 5e-6,
                "slack.link": 2e-6,
            }
        )
        found = [
            project(run, Pair(machine(FULL), there), nething("hold")).seconds for run in (one, two)
        ]
        assert found[1] == pytest.approx(found[0], rel=1e-12)
