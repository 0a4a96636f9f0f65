"""Ranks on one GPU: where sharing stops paying, and how sure that is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_ind

from turnbuckle.questions.cores.oversubscription import Curve, curves
from turnbuckle.questions.cores.runs import Runs


def curve(ranks: list[float], seconds: list[float], worth: float = 0.05) -> Curve:
    n = len(ranks)
    (found,) = curves(
        Runs(
            "", np.array(ranks), np.ones(n), np.array(seconds), np.zeros(n), True, False, ("",) * n
        ),
        worth,
    )
    return found


def test_it_stops_where_it_stops_paying() -> None:
    found = curve([1, 2, 4, 8], [100, 80, 74, 73])
    assert found.ranks == 4 and (found.low, found.high) == (None, None)
    assert [s.gain for s in found.steps] == [
        None,
        pytest.approx(0.25),
        pytest.approx(80 / 74 - 1),
        pytest.approx(74 / 73 - 1),
    ]
    assert [s.pays for s in found.steps] == [
        "",
        "yes, of single runs",
        "yes, of single runs",
        "no, of single runs",
    ]
    assert found.gain == pytest.approx(100 / 74 - 1)


def test_a_step_after_one_that_does_not_pay_does_not_count() -> None:
    assert curve([1, 2, 4], [100, 120, 60]).ranks == 1


def test_published_runs() -> None:
    """OpenMM on one A100, ns/day of one run and of two together (openmm issue 3082): MPS pays, MIG
    does not.
    """
    assert curve([1, 2], [1 / 203.198, 1 / 256.53]).ranks == 2
    assert curve([1, 2], [1 / 203.198, 1 / 198.8284]).ranks == 1


def test_repeats_give_an_interval_that_is_students() -> None:
    one, two = [100.0, 101.0, 99.0], [94.0, 95.5, 93.5]
    found = curve([1, 1, 1, 2, 2, 2], [*one, *two])
    step = found.steps[1]
    assert step.low is not None and step.high is not None and step.gain is not None
    theirs = ttest_ind(np.log(one), np.log(two)).confidence_interval(0.9)
    assert (step.low, step.high) == pytest.approx((np.expm1(theirs.low), np.expm1(theirs.high)))
    assert step.pays == "undecided" and step.gain > 0.05
    assert (found.ranks, found.low, found.high) == (2, 1, 2)


def test_clear_steps_have_no_doubt() -> None:
    found = curve([1, 1, 2, 2, 4, 4], [100, 100.2, 70, 70.1, 69.9, 70])
    assert [s.pays for s in found.steps] == ["", "yes", "no"] and (
        found.ranks,
        found.low,
        found.high,
    ) == (2, 2, 2)
    same = curve([1, 1, 2, 2], [100, 100, 50, 50])
    assert (same.ranks, same.low, same.high) == (2, 2, 2)


def test_the_interval_covers_the_planted_count() -> None:
    """Steps of 30, 12 and 5 %, threshold 8 %: the count before the last is right; 3 repeats of 3 %
    noise.
    """
    times, hits, sets = (
        np.array([100.0, 100 / 1.3, 100 / 1.3 / 1.12, 100 / 1.3 / 1.12 / 1.05]),
        0,
        200,
    )
    for seed in range(sets):
        noisy = np.repeat(times, 3) * (1 + 0.03 * np.random.default_rng(seed).standard_normal(12))
        found = curve(np.repeat([1.0, 2.0, 4.0, 8.0], 3).tolist(), noisy.tolist(), worth=0.08)
        assert (
            found.low is not None
            and found.high is not None
            and found.low <= found.ranks <= found.high
        )
        hits += found.low <= 4 <= found.high
    assert hits / sets >= 0.85


def test_one_curve_for_each_number_of_threads() -> None:
    ranks, threads = np.array([1.0, 2.0, 1.0, 2.0, 4.0]), np.array([1.0, 1.0, 4.0, 4.0, 8.0])
    found = curves(
        Runs("", ranks, threads, np.array([10, 8, 6, 5.9, 5]), np.zeros(5), True, False, ("",) * 5)
    )
    assert [(c.threads, c.ranks) for c in found] == [(1.0, 2.0), (4.0, 1.0)]


def test_cores_alone_say_nothing_of_ranks() -> None:
    assert (
        curves(
            Runs(
                "",
                np.ones(3),
                np.array([1.0, 2.0, 4.0]),
                np.ones(3),
                np.zeros(3),
                False,
                False,
                ("",) * 3,
            )
        )
        == []
    )
