"""Copies that go on to the network card keep its rate on every target (decision D24)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from rows import call, copy, on_device, profile_of
from strategies import D2H, FULL, H2D, LAW, gpu_traces, machine

from turnbuckle.machine import Pair, load
from turnbuckle.profile.profile import Profile, build
from turnbuckle.projection.model import nething
from turnbuckle.projection.order import prepared
from turnbuckle.projection.project import answered
from turnbuckle.projection.run import Run
from turnbuckle.trace.trace import Trace


def copied(h2d: int, d2h: int) -> Profile:
    """A run whose copies take 1 us a kB: bytes to the device and to the host."""
    rows = [copy(10_000, 10_000 + h2d, H2D, h2d), copy(10_000_000, 10_000_000 + d2h, D2H, d2h)]
    return profile_of(
        api=[call(1_000, 2_000, 1)], kernels=[on_device(3_000, 4_000, 1)], copies=rows
    )


def test_what_goes_on_to_the_card_keeps_its_time() -> None:
    """On an APU all other copies vanish; those that the network reads do not."""
    spread, packed = Run.of(copied(1_000_000, 1_000_000)), Run.of(copied(10_000, 1_000_000))
    without, bound = (
        spread.project(["mi300a"], draws=50, minus=minus).projections[0] for minus in (None, packed)
    )
    assert without.copies is not None and without.copies.seconds == 0 and without.nic_bound == {}
    assert bound.copies is not None and bound.nic_bound == {"h2d": pytest.approx(0.99), "d2h": 0.0}
    assert (
        bound.copies.seconds == pytest.approx(0.99e-3)
        and bound.copies.low <= bound.copies.seconds <= bound.copies.high
    )
    assert "A370" in {f.code for f in bound.findings} and "A370" not in {
        f.code for f in without.findings
    }
    assert spread.project(["self"], minus=packed).projections[0].seconds == spread.seconds


def test_a_packed_run_that_copies_more_is_another_program() -> None:
    error = refused(
        "A158", Run.of(copied(1_000, 1_000)).project, ["gh200"], minus=Run.of(copied(2_000, 1_000))
    )
    assert "h2d" in error.found


@LAW
@given(gpu_traces(), st.floats(0, 1), st.floats(0, 1))
def test_copies_lie_between_the_target_and_the_recording(
    trace: Trace, h2d: float, d2h: float
) -> None:
    profile, model = build(trace), nething("hold")
    ready = prepared(profile, model)
    pair = Pair(machine(FULL), load("mi300a"))
    plain, bound, all_of_it = (
        answered(profile, replace(ready, nic_bound=shares), pair, model).seconds
        for shares in ({}, {"h2d": h2d, "d2h": d2h}, {"h2d": 1.0, "d2h": 1.0})
    )
    room = 1e-12 * max(profile.seconds, 1e-9)
    assert min(plain, all_of_it) - room <= bound <= max(plain, all_of_it) + room
