"""Recordings freed of what recording cost: a planted cost is found again, and nothing but calls and
flushes changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from frames import THREAD, tables
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from refusals import refused
from strategies import gpu_traces

import turnbuckle as tb
from turnbuckle.foundation.errors import CannotAnswer, UsageError
from turnbuckle.profile.profile import Profile, build
from turnbuckle.projection.clean import cleaned
from turnbuckle.projection.run import Run
from turnbuckle.trace.trace import Trace
from turnbuckle.trace.window import Part, cut


def chain(calls: int, cost: int, flush: int = 0) -> Profile:
    """Launches of 5 us and a wait, 1 us between them; recording makes each call `cost` longer and
    writes `flush` away in one gap [ns].
    """
    api: list[dict[str, Any]] = []
    kernels: list[dict[str, Any]] = []
    overheads: list[dict[str, Any]] = []
    at, free = 0, 0
    for k in range(calls):
        api.append({"start_ns": at, "end_ns": at + 5_000 + cost, "name": 0, "correlation": k + 1})
        begin = max(free, at + 6_000)
        free = begin + 2_000
        kernels.append({"start_ns": begin, "end_ns": free, "name": 2, "correlation": k + 1})
        at += 6_000 + cost
        if flush and k == calls // 2:
            overheads.append({"start_ns": at, "end_ns": at + flush, "thread": THREAD, "kind": 3})
            at += flush
    done = max(at + 3_000, free + 1_000)
    api.append({"start_ns": at, "end_ns": done + cost, "name": 1, "correlation": calls + 1})
    rows = {"api": api, "kernels": kernels, **({"overheads": overheads} if overheads else {})}
    names = pl.Series(
        "name", ["cudaLaunchKernel", "cudaDeviceSynchronize", "kernel"], dtype=pl.String
    )
    return build(
        Trace({n: f for n, f in tables(**rows).items() if f.height}, names, {"tables": {}})
    )


@pytest.mark.parametrize(("cost", "flush"), [(700, 0), (40, 0), (0, 90_000), (700, 90_000)])
def test_a_planted_cost_is_found_again(cost: int, flush: int) -> None:
    plain, recorded = chain(200, 0), chain(200, cost, flush)
    found = cleaned(recorded, plain.seconds)
    assert found.run_time_ns == pytest.approx(plain.run_time_ns, abs=2)
    lengths = (found.trace.api["end_ns"] - found.trace.api["start_ns"])[:200]
    assert (lengths - 5_000).abs().max() <= 0.02 * cost + 1  # type: ignore[operator]
    assert (found.trace.kernels["end_ns"] - found.trace.kernels["start_ns"]).unique().to_list() == [
        2_000
    ]
    note = next(f.detail for f in found.findings if f.code == "P199")
    assert f"{flush * 1e-6:.4g} ms that the profiler wrote" in note


def test_flushes_are_taken_out_first_and_only_as_far_as_needed() -> None:
    recorded = chain(50, 0, 100_000)
    found = cleaned(recorded, recorded.seconds - 40e-6)
    assert found.run_time_ns == pytest.approx(recorded.run_time_ns - 40_000, abs=2)
    assert (found.trace.api["end_ns"] - found.trace.api["start_ns"])[:50].unique().to_list() == [
        5_000
    ]


def test_refusals() -> None:
    recorded = chain(20, 100)
    assert cleaned(recorded, recorded.seconds) is recorded
    for seconds, code, kind in (
        (0.0, "A424", UsageError),
        (1.0, "A424", UsageError),
        (1e-6, "A198", CannotAnswer),
    ):
        with pytest.raises(kind, match=code):
            cleaned(recorded, seconds)
    with pytest.raises(UsageError):
        cleaned(recorded, float("nan"))


def test_a_time_is_met_to_the_nanosecond_it_is_given_in() -> None:
    recorded = chain(30, 100)
    for given_seconds in (
        recorded.run_time_ns * 1e-9,
        float(f"{recorded.run_time_ns / 1e9:.9f}"),
        np.nextafter(recorded.seconds, 1.0),
    ):
        assert cleaned(recorded, float(given_seconds)) is recorded


def with_kernel(profile: Profile, start: int, end: int) -> Trace:
    """The recording with one more kernel, whose call is not in it."""
    one = tables(kernels=[{"start_ns": start, "end_ns": end, "name": 2}])["kernels"]
    trace = profile.trace
    return Trace(
        {**trace.tables, "kernels": pl.concat([trace.kernels, one])}, trace.names, {"tables": {}}
    )


def test_an_idle_end_of_a_part_stays_idle() -> None:
    recorded = chain(50, 500)
    end = recorded.run_time_ns
    part = build(
        cut(with_kernel(recorded, end + 2_000_000, end + 2_000_010), Part((0, end + 1_000_000)))
    )
    assert part.run_time_ns == end + 1_000_000
    found = cleaned(part, part.seconds - 10e-6)
    assert found.run_time_ns == pytest.approx(part.run_time_ns - 10_000, abs=2)
    last = max(recorded.trace.api["end_ns"].to_list())
    assert max(found.trace.api["end_ns"].to_list()) == pytest.approx(last - 10_000, abs=2)
    with pytest.raises(CannotAnswer):
        cleaned(part, 1_000_500e-9)


def test_a_recording_without_calls_is_refused() -> None:
    rows = tables(ranges=[{"start_ns": 0, "end_ns": 1000, "name": 0}])
    profile = build(
        Trace(
            {n: f for n, f in rows.items() if f.height}, pl.Series("name", ["step"]), {"tables": {}}
        )
    )
    assert "no host calls" in refused("A198", cleaned, profile, 900e-9).found


def test_what_was_set_aside_stays_counted() -> None:
    recorded = chain(50, 500)
    profile = build(with_kernel(recorded, 500, 300))
    assert {f.code: f.count for f in profile.findings}["P101"] == 1
    found = {
        f.code: (f.count, f.detail) for f in cleaned(profile, profile.seconds - 10e-6).findings
    }
    assert found["P101"] == (1, "kernels 1") and "P199" in found


@settings(max_examples=45)
@given(gpu_traces(), st.floats(0.9, 1.0))
def test_drawn_runs_come_to_the_time_asked(trace: Trace, share: float) -> None:
    profile = build(trace)
    assume(profile.run_time_ns > 0)
    try:
        found = cleaned(profile, profile.seconds * share)
    except CannotAnswer as error:
        assert error.code in ("A198", "A122")
        return
    assert found.run_time_ns == pytest.approx(
        profile.run_time_ns * share, abs=2 * profile.trace.api.height + 2
    )
    for table in ("kernels", "copies", "memsets"):
        before, after = (p.trace.table(table) for p in (profile, found))
        assert sorted(after["end_ns"] - after["start_ns"]) == sorted(
            before["end_ns"] - before["start_ns"]
        )
        assert after.height == before.height


def test_real_runs_lose_what_is_asked_and_project_onto_themselves(shared: Path) -> None:
    for folder, share in (
        ("jacobi_gh200", 0.98),
        ("balinski_gomory_r16", 0.99),
        ("mfu_2gpu_before", 0.99),
    ):
        profile = tb.read(next((shared / "traces" / "nsys" / folder).glob("*.sqlite"))).profile
        found = cleaned(profile, profile.seconds * share)
        assert found.seconds == pytest.approx(profile.seconds * share, abs=1e-7)
        (itself,) = Run.of(found).project(["self"], draws=0).projections
        assert itself.penalty == 1.0
