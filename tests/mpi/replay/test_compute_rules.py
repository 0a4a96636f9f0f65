"""Factors on parts of the recorded compute: by region, by kernel, by rank."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpi_rows import call, recorded, thread
from refusals import refused

import turnbuckle as tb
from turnbuckle.mpi.questions.messages.question import replayed
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.mpi.replay import messages
from turnbuckle.mpi.replay.compute_rules import with_rules
from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.profile.profile import build

US = 1000


@cache
def traffic() -> Traffic:
    """Two ranks compute for 100 us, exchange, compute for 50 us, and exchange again; rank 0 sends
    both times.

    In the first stretch of rank 0: region solve from 20 to 80 us, in it region inner from 40 to 60
    us; kernel gemm from 50 to 90 us on one stream and from 70 to 95 us on another.  Rank 1 has
    region solve from 110 to 140 us, partly in a call.
    """
    calls = [
        call(0, "Barrier", 0, 1),
        call(1, "Barrier", 0, 1),
        call(0, "Send", 100 * US, 110 * US, partner=1, tag=1, size_bytes=8),
        call(1, "Recv", 100 * US, 120 * US, partner=0, tag=1, size_bytes=8),
        call(0, "Send", 160 * US, 170 * US, partner=1, tag=2, size_bytes=8),
        call(1, "Recv", 170 * US, 180 * US, partner=0, tag=2, size_bytes=8),
    ]

    def region(rank: int, name: str, begin: int, end: int) -> dict[str, object]:
        return {
            "thread": thread(rank),
            "start_ns": begin * US,
            "end_ns": end * US,
            "kind": 59,
            "name": name,
        }

    def kernel(rank: int, begin: int, end: int, stream: int) -> dict[str, object]:
        about = {
            "process": thread(rank) - 1,
            "device": 0,
            "context": 1,
            "stream": stream,
            "name": "gemm<float>(int)",
        }
        return {"start_ns": begin * US, "end_ns": end * US, **about}

    regions = [region(0, "solve", 20, 80), region(0, "inner", 40, 60), region(1, "solve", 110, 140)]
    return messages.recorded(
        build(
            recorded(*calls, ranges=regions, kernels=[kernel(0, 50, 90, 7), kernel(0, 70, 95, 8)])
        )
    )


@pytest.mark.parametrize(
    # compute of rank 0 before each of its sends, and of rank 1 before each of its receives
    (
        "rules",
        "left_us",
    ),
    [
        ("0 if region solve", (40, 50, 100, 30)),
        ("0 if region s?l*", (40, 50, 100, 30)),
        ("0.5 if region inner", (90, 50, 100, 50)),
        ("2 if region inner; 0 if region solve", (40 + 2 * 20, 50, 100, 30)),
        ("0 if region solve; 2 if region inner", (40, 50, 100, 30)),
        ("0 if kernel gemm*", (55, 50, 100, 50)),
        ("0 if kernel gemm*; 0 if region solve", (25, 50, 100, 30)),
        ("0.1 if rank 1", (100, 50, 10, 5)),
        ("1 if region solve; 0 if rank 0", (60, 0, 100, 50)),
        ("3 if rank 0-1", (300, 150, 300, 150)),
    ],
)
def test_the_first_rule_that_fits_decides(rules: str, left_us: tuple[int, ...]) -> None:
    changed = with_rules(traffic(), rules)
    names = [changed.calls[k] for k in changed.call]
    got = [
        1e6 * gap
        for rank in (0, 1)
        for gap, r, name in zip(changed.gap_seconds, changed.rank, names, strict=True)
        if r == rank and name != "barrier"
    ]
    assert got == pytest.approx(left_us, abs=5e-3)


def test_without_rules_traffic_is_itself() -> None:
    one = traffic()
    assert with_rules(one, "") is one
    same = with_rules(one, "1 if region solve; 1 if kernel gemm*; 1 if rank 0-1")
    assert np.array_equal(same.gap_seconds, one.gap_seconds) and np.array_equal(
        same.tail_seconds, one.tail_seconds
    )


@given(st.floats(0, 8))
def test_a_factor_of_all_ranks_is_compute(factor: float) -> None:
    """One answer: a rule for all ranks gives what `compute` gives, with and without it beside."""
    one, setup = traffic(), Setup(path="host")
    by_rule = replayed(one, replace(setup, compute_of=f"{factor!r} if rank 0-1"))
    whole = replayed(one, replace(setup, compute=factor))
    assert by_rule.row.seconds == pytest.approx(whole.row.seconds, rel=1e-12, abs=1e-12)
    assert by_rule.row.compute_seconds == pytest.approx(
        whole.row.compute_seconds, rel=1e-12, abs=1e-12
    )


NO_NUMBERS = ("half", "0.5", "-1 if rank 0", "nan if rank 0", "inf if rank 0")
WRONG = (
    *NO_NUMBERS,
    "1 if rank 2",
    "1 if region nothing",
    "1 if kernel solve",
    "1 if rank 0; ",
    "1 if size 3",
)


@pytest.mark.parametrize("rules", WRONG)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    refused("A099", with_rules, traffic(), rules)


def test_a_schedule_takes_factors_of_ranks_only() -> None:
    one = replace(traffic(), recording=None)
    assert with_rules(one, "0 if rank 0").gap_seconds.sum() < one.gap_seconds.sum()
    assert refused("A099", with_rules, one, "0 if region solve").what.startswith("a schedule")


def test_more_ranks_repeat_the_changed_compute(shared: Path) -> None:
    """The stencil of 32 ranks at 1, 0.5, 0.1 and 0 of its loop: each run is no longer than the one
    before, and so when it is repeated.
    """
    path = next((shared / "traces/otf2/stencil4d_32rank").glob("*.otf2"))
    recorded_run = messages.recorded(tb.read(path).profile)
    for ranks in (0, 64):
        setup = Setup(path="host", ranks=ranks)
        seconds = [
            replayed(
                recorded_run, replace(setup, compute_of=f"{f} if region TRACER_Loop")
            ).row.seconds
            for f in (1, 0.5, 0.1, 0)
        ]
        assert seconds == sorted(seconds, reverse=True) and seconds[0] > seconds[-1]
        assert seconds[0] == pytest.approx(replayed(recorded_run, setup).row.seconds, rel=1e-9)
