"""Durations that scale: shares of run time, and five numbers with waits and classes of calls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.cost.ratio import (
    AdditiveTotals,
    cpu_by_difference,
    fraction_benefit,
    fraction_penalty,
    tied_penalty,
)

plain = settings(max_examples=100)
TEN, TENTH = {"data": 10.0, "control": 10.0}, {"data": 0.1, "control": 0.1}
times = st.floats(0, 1e3)


@pytest.mark.parametrize(
    ("row", "got", "recomputed"),
    [
        ("R.T2.MFiX", fraction_benefit(0.18, 10), 1.19332),
        ("R.T2.WarpX", fraction_benefit(0.294, 10), 1.3598),
        ("R.T2.PeleC", fraction_benefit(0.53, 10), 1.91205),
        ("R.T11.PeleC", fraction_penalty(0.5305, 10), 5.7745),
        ("R.T11.MFiX", fraction_penalty(0.2208, 10), 2.9872),
        ("R.T11.WarpX", fraction_penalty(0.3101, 10), 3.7909),
        ("R.7.3.lat", 100 * (float(fraction_penalty(22104 * 1e-5 / 121.63, 100)) - 1), 17.9914),
    ],
)
def test_shares_of_run_time(row: str, got: float, recomputed: float) -> None:
    assert float(got) == pytest.approx(recomputed, rel=5e-6), row


@plain
@given(st.floats(0, 1), st.floats(1.0, 1e3), st.floats(1.0, 10))
def test_shares_are_monotone_and_tied(share: float, improvement: float, more: float) -> None:
    """P9: the same share, so many times better or worse, is one number twice."""
    benefit, penalty = (
        float(fraction_benefit(share, improvement)),
        float(fraction_penalty(share, improvement)),
    )
    assert 1 <= benefit <= improvement * (1 + 1e-9) and 1 <= penalty <= improvement * (1 + 1e-9)
    assert float(tied_penalty(benefit, improvement)) == pytest.approx(penalty, rel=1e-9)
    assert float(fraction_benefit(share, improvement * more)) >= benefit * (1 - 1e-12)
    assert float(fraction_penalty(share, improvement * more)) >= penalty * (1 - 1e-12)
    assert float(fraction_penalty(share, 1 / improvement)) == pytest.approx(1 / benefit), (
        "worse by a tenth is better by ten"
    )


def test_shares_at_their_limits() -> None:
    assert float(fraction_benefit(0.3, 1)) == float(fraction_penalty(0.3, 1)) == 1
    assert float(fraction_benefit(0.75, math.inf)) == 4
    assert (
        float(fraction_benefit(1.0, 7)) == pytest.approx(7) and float(fraction_benefit(0.0, 7)) == 1
    )
    assert fraction_benefit(np.array([0.1, 0.2]), np.array([[2.0], [3.0]])).shape == (2, 2)


# --- five numbers ---------------------------------------------------------------------------------


def test_cpu_time_by_its_definition() -> None:
    assert cpu_by_difference(50.5, 16.79, 22.10, 5.05, 0.66) == pytest.approx(5.9), "R.T3.tcpu"
    assert cpu_by_difference(1.0, 2.0, 0, 0, 0) == -1


def test_over_the_sum_and_over_the_total() -> None:
    epsilon = AdditiveTotals(gpu=16.79, control=22.10, data=5.05, cpu=6.54, mpi=0.66, total=50.5)
    assert epsilon.benefit(TEN) == pytest.approx(1.915, rel=5e-6), "R.T3.int2"
    assert epsilon.benefit(TEN, "stated") == pytest.approx(1.93746, rel=5e-6), "R.T3.int"
    assert epsilon.penalty(TENTH) == pytest.approx(5.77806, rel=5e-6), "R.T3.dis2"
    assert epsilon.penalty(TENTH, "stated") == pytest.approx(5.83861, rel=5e-6), "R.T3.dis"
    assert epsilon.benefit({"data": 10}, "stated") == pytest.approx(1.0989011), "R.T3.data"
    assert math.isnan(AdditiveTotals(1, 1, 1, 1, 1).benefit(TEN, "stated")), (
        "no total, no ratio over it"
    )
    assert math.isnan(AdditiveTotals(0, 0, 0, 0, 0).benefit(TEN)) and math.isnan(
        AdditiveTotals(0, 0, 0, 0, 0).penalty(TEN)
    )
    twice = AdditiveTotals(gpu=0, control=8, data=0, cpu=0, mpi=0, total=4)
    assert twice.benefit({"control": 4}, "stated") == math.inf, "more saved than there is"


def test_waits_have_no_lambda() -> None:
    """GTC-P: control and allocation are waits for work that stands in the other terms; without them
    the terms close.
    """
    gtcp = AdditiveTotals(
        gpu=33.05, control=83.43, data=21.41, cpu=42.52, mpi=24.65, total=121.63, waits=83.43
    )
    assert gtcp.summed == pytest.approx(205.06) and gtcp.counted == pytest.approx(121.63), (
        "R.T5.eq3, R.T5.add"
    )
    assert gtcp.closure_defect == pytest.approx(-83.43)
    assert gtcp.penalty(TENTH) == pytest.approx(2.58423, rel=5e-6), "R.7.3.bw"
    assert gtcp.benefit({"control": 1e9}) == pytest.approx(1)


def test_classes_of_calls() -> None:
    totals = AdditiveTotals(gpu=4, control=10, data=2, cpu=1, mpi=1, waits=3, calls={"launch": 5})
    assert totals.projected_by({}) == totals.counted == 15
    assert totals.projected_by({"launch": 5}) == 11
    assert totals.projected_by({"control": 2}) == 4 + 1 + 1 + 2 + 1 + 2.5, (
        "a class without a lambda of its own follows control"
    )
    assert totals.projected_by({"control": 2, "launch": 1}) == 4 + 1 + 1 + 2 + 1 + 5
    assert totals.projected_by({"kernel": 4}) == 12
    assert totals.projected(2, 1) == 14


@plain
@given(times, times, times, times, st.floats(0.1, 1e3), st.floats(0, 1), st.floats(1, 100))
def test_five_numbers_are_monotone(
    gpu: float, control: float, data: float, mpi: float, cpu: float, waiting: float, better: float
) -> None:
    totals = AdditiveTotals(
        gpu,
        control,
        data,
        cpu,
        mpi,
        waits=waiting * control,
        calls={"launch": (1 - waiting) * control * 0.5},
    )
    b = totals.benefit({"data": better, "control": better})
    p = totals.penalty({"data": 1 / better, "control": 1 / better})
    assert 1 - 1e-9 <= b <= better * (1 + 1e-9) and 1 - 1e-9 <= p <= better * (1 + 1e-9)
    assert p == pytest.approx(float(tied_penalty(b, better)), rel=1e-9), "P9"
    scaled = (totals.counted - gpu - cpu - mpi) / totals.counted
    assert b == pytest.approx(float(fraction_benefit(scaled, better)), rel=1e-9), (
        "a run of shares is the same run"
    )
    assert (
        totals.penalty({"data": 0.5}) >= 1 - 1e-12 and totals.penalty({"control": 0.5}) >= 1 - 1e-12
    )


def test_by_difference() -> None:
    given = {
        "gpu": 6.0,
        "control": 5.0,
        "data": 1.0,
        "mpi": 0.5,
        "total": 10.0,
        "waits": 4.0,
        "calls": {"launch": 1.0},
    }
    report, once = (
        AdditiveTotals.by_difference(**given),
        AdditiveTotals.by_difference(**given, without_waits=True),
    )  # type: ignore[arg-type]
    assert report.cpu == 0 and report.closure_defect == pytest.approx(-2.5), (
        "more than the run time: waits stand twice"
    )
    assert once.cpu == pytest.approx(1.5) and once.closure_defect == pytest.approx(0)
    assert report.projected_by({"control": 5}) == pytest.approx(6 + 1 + 0.5 + 1), (
        "the report scales waits like the rest"
    )
