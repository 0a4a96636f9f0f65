"""Finite differences: right where there is a derivative, honest where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import program

from turnbuckle.foundation.errors import UsageError
from turnbuckle.questions.sharing.differences import differences, scattered
from turnbuckle.replay.contention.contention import Leaves, Op, Program, replay
from turnbuckle.replay.contention.network import Network

EMPTY = np.zeros(0, dtype=np.int64)


@given(st.floats(0.1, 10), st.floats(-5, 5))
def test_a_parabola_has_its_derivative(at: float, bend: float) -> None:
    found = differences(lambda x: 3.0 + bend * x**2, at)
    assert found.central == pytest.approx(
        np.full(found.central.shape, 2 * bend * at), rel=1e-6, abs=1e-6
    )
    low, high = found.interval
    assert low - 1e-9 <= found.slope <= high + 1e-9
    if abs(bend) > 0.1:
        assert found.sign == ("rises" if bend > 0 else "falls")
        assert found.elasticity == pytest.approx(2 * bend * at**2 / (3.0 + bend * at**2), rel=1e-4)


def test_a_kink_is_seen_from_both_sides() -> None:
    found = differences(lambda x: max(x, 1.0), 1.0)
    assert (
        found.interval == pytest.approx((0.0, 1.0))
        and found.slope == pytest.approx(0.5)
        and found.sign == "rises"
    )
    assert differences(lambda x: abs(x - 1.0) + 1.0, 1.0).sign == "not stable"
    assert differences(lambda x: 5.0, 1.0).sign == "no change"


def test_what_cannot_be_below_is_asked_above_only() -> None:
    found = differences(lambda x: 1.0 + 2.0 * x, 0.0, unit=1e-3)
    assert np.isnan(found.backward).all() and np.isnan(found.central).all()
    assert (
        found.slope == pytest.approx(2.0) and found.sign == "rises" and math.isnan(found.elasticity)
    )


def test_rounding_is_no_change() -> None:
    """Times are whole picoseconds: a run of a second that ends a few of them later has not
    changed.
    """
    assert differences(lambda x: 1.0 + (3e-12 if x > 1.0 else 0.0), 1.0).sign == "no change"


@pytest.mark.parametrize(
    ("at", "steps", "least"),
    [
        (0.0, (0.1,), 0.0),
        (1.0, (), 0.0),
        (1.0, (-0.1,), 0.0),
        (1.0, (0.1,), 2.0),
        (math.nan, (0.1,), 0.0),
    ],
)
def test_steps_that_are_none(at: float, steps: tuple[float, ...], least: float) -> None:
    with pytest.raises(UsageError, match="A095"):
        differences(lambda x: x, at, steps, least=least)


def queue(work: float) -> Program:
    """Two processes before one resource: the one that works first takes 10 of it, the other 3 and
    has 10 to do after.
    """
    lists = [[(Op.WORK, 0), (Op.USE, 0)], [(Op.WORK, 1), (Op.USE, 1), (Op.WORK, 2)]]
    return program(
        lists, work=[work, 2.0, 10.0], host=[0, 0], uses=[(0, 10.0), (0, 3.0)], capacity=[1]
    )


def seconds(program: Program, bandwidth: float = 1e9) -> float:
    return replay(program, Network(max(program.host.max() + 1, 1), bandwidth, 0.0), "flow").seconds


def test_first_come_first_served_can_go_wrong() -> None:
    """A job that is ready sooner takes the resource from one that matters more (Graham 1969)."""
    assert (seconds(queue(3.0)), seconds(queue(1.0))) == (15.0, 24.0)
    found = differences(lambda work: seconds(queue(work)), 1.9, (0.01, 0.1))
    assert found.sign == "not stable" and found.interval[0] < 0 < found.interval[1], (
        "the order turns at 2"
    )
    assert differences(lambda work: seconds(queue(work)), 1.0).sign == "rises", (
        "far from the turn it is a slope like any other"
    )


def fluid() -> Program:
    """Models.md P6: a message that comes earlier on a wider link competes with one that matters
    more.
    """
    lists = [
        [(Op.AWAIT, 0), (Op.SEND, 2), (Op.WORK, 1), (Op.AWAIT, 3)],
        [(Op.SEND, 0), (Op.WORK, 0), (Op.SEND, 1), (Op.AWAIT, 2), (Op.SEND, 3)],
        [(Op.AWAIT, 1), (Op.WORK, 2)],
    ]
    eager = Leaves.EAGER
    return program(
        lists,
        [(1, 0, 8e6, eager), (1, 2, 4e6, eager), (0, 1, 8e6, eager), (1, 0, 4e6, eager)],
        [10e-3, 3e-3, 9e-3],
    )


def test_a_wider_link_that_lengthens_a_run_is_not_called_a_gain() -> None:
    found = differences(lambda bandwidth: seconds(fluid(), bandwidth), 1e9, (0.05, 0.5))
    assert found.forward[0, 1] > 0 > found.backward[0, 0], (
        "half as much again lengthens the run, a little less does too"
    )
    assert found.sign == "not stable"


def test_runs_a_little_different_are_the_same_on_both_sides() -> None:
    one = queue(3.0)
    assert scattered(one, 0) is one
    first, again, other = (scattered(one, seed).work_seconds for seed in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()
    assert (first != one.work_seconds).all() and first == pytest.approx(one.work_seconds, rel=0.1)
    # what the parameter does not touch is no noise of the difference, however much the runs differ
    found = differences(
        [lambda x, s=s: x + scattered(one, s, 0.5).work_seconds.sum() for s in range(5)], 1.0
    )  # type: ignore[misc]
    assert found.one_sided == pytest.approx(np.ones(30)) and found.as_dict()["runs"] == 5
