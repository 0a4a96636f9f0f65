"""Each equation on arrays, at its limits, and against the numbers its paper prints."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.cost.loggp import loggp_seconds, on_other_link, read_limited_bandwidth
from turnbuckle.cost.ratio import AdditiveTotals, scaled_seconds
from turnbuckle.cost.slack import slack_seconds

plain = settings(max_examples=100)
latencies, bandwidths, sizes = st.floats(1e-8, 1e-2), st.floats(1e6, 1e13), st.floats(0, 1e12)


# --- LogGP ----------------------------------------------------------------------------------------


@plain
@given(latencies, bandwidths, sizes, sizes)
def test_loggp_is_a_line(latency: float, bandwidth: float, n: float, more: float) -> None:
    one, two = loggp_seconds(np.array([n, n + more]), latency, bandwidth)
    assert one >= latency and two >= one
    assert two - one == pytest.approx(more / bandwidth, rel=1e-6, abs=1e-6 * float(two))
    assert float(loggp_seconds(np.array([0.0]), latency, bandwidth)[0]) == latency, (
        "an empty copy costs o + L"
    )


def test_loggp_limits() -> None:
    n = np.array([0.0, 1.0, 1e6, 1e12])
    assert loggp_seconds(n, 0.0, np.inf).tolist() == [0, 0, 0, 0], "a perfect link costs nothing"
    assert loggp_seconds(n, 2e-6, np.inf).tolist() == [2e-6] * 4
    assert n[-1] / loggp_seconds(n, 2e-6, 25e9)[-1] == pytest.approx(25e9, rel=1e-6), (
        "long messages tend to the bandwidth"
    )
    half = 2e-6 * 25e9
    assert half / loggp_seconds(np.array([half]), 2e-6, 25e9)[0] == pytest.approx(12.5e9), (
        "half of it at n = (o + L) BW"
    )


def test_loggp_takes_draws() -> None:
    latency, bandwidth = np.array([[1e-6], [2e-6], [3e-6]]), np.array([[1e9], [2e9], [4e9]])
    out = loggp_seconds(np.array([0.0, 8e9]), latency, bandwidth)
    assert out.shape == (3, 2)
    assert out == pytest.approx(np.array([[1e-6, 8 + 1e-6], [2e-6, 4 + 2e-6], [3e-6, 2 + 3e-6]]))


def test_reads_in_flight_limit_the_bandwidth() -> None:
    """models.md 3.3: 256 tags of 512 B leave 109, 25 and 1.3 GB/s after 1.2, 5.2 and 101 us."""
    trips = np.array([1.2e-6, 5.2e-6, 101e-6])
    assert read_limited_bandwidth(200e9, 256, 512, trips) == pytest.approx(
        [109.2e9, 25.2e9, 1.298e9], rel=1e-3
    )
    assert read_limited_bandwidth(25e9, 256, 512, 1.2e-6) == 25e9, "a slow link does not notice"
    assert read_limited_bandwidth(25e9, np.inf, 512, 1.0) == 25e9
    waits = 1 / read_limited_bandwidth(200e9, 256, 512, np.linspace(0.1e-6, 10e-6, 50))
    assert (np.diff(waits) >= 0).all() and (np.diff(waits, 2) >= -1e-24).all(), (
        "seconds a byte are convex in the round trip"
    )


@plain
@given(st.floats(0, 1e-3), st.floats(1e-9, 1e-3), st.floats(0, 1e-3), st.floats(0, 1e-3))
def test_a_class_on_another_link(own: float, source: float, target: float, further: float) -> None:
    """On its own link a class costs what it cost; it never gets cheaper by a dearer link; its extra
    cost stays.
    """
    assert float(on_other_link(own, source, source)) == pytest.approx(own, rel=1e-12)
    near, far = (
        float(on_other_link(own, source, target)),
        float(on_other_link(own, source, target + further)),
    )
    assert 0 <= near <= far * (1 + 1e-12) + 1e-18
    if own >= source:
        assert near - target == pytest.approx(own - source, abs=1e-15)
        assert float(on_other_link(own, source, 0.0)) == pytest.approx(own - source, abs=1e-18)
    else:
        assert near == pytest.approx(target * own / source, rel=1e-9, abs=1e-300)
    convex = [float(on_other_link(own, source, target + further * k / 4)) for k in range(5)]
    assert (np.diff(convex, 2) >= -1e-15).all()


def test_a_link_that_costs_nothing_here_tells_nothing_of_a_ratio() -> None:
    assert float(on_other_link(0.0, 0.0, 3.0)) == 3.0
    assert float(on_other_link(2.0, 0.0, 3.0)) == 5.0
    assert on_other_link(np.array([1.0, 5.0]), np.array([[2.0], [2.0]]), 3.0).shape == (2, 2)


# --- slack and ratios -----------------------------------------------------------------------------


def test_slack_on_calls_that_cross() -> None:
    crosses = np.array([True, False, True])
    assert slack_seconds(crosses, 1e-6).tolist() == [1e-6, 0.0, 1e-6]
    assert slack_seconds(crosses, 0.0).tolist() == [0.0, 0.0, 0.0]
    assert slack_seconds(crosses, np.array([[1e-6], [2e-6]])).tolist() == [
        [1e-6, 0.0, 1e-6],
        [2e-6, 0.0, 2e-6],
    ]


@plain
@given(st.floats(0, 1e3), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_scaling_twice_is_scaling_once(seconds: float, first: float, second: float) -> None:
    once = float(scaled_seconds(np.array([seconds]), first * second)[0])
    twice = float(scaled_seconds(scaled_seconds(np.array([seconds]), first), second)[0])
    assert once == pytest.approx(twice, rel=1e-12)
    assert float(scaled_seconds(np.array([seconds]), 1.0)[0]) == seconds


# --- the additive model on printed totals ---------------------------------------------------------

EPSILON = AdditiveTotals(gpu=16.79, control=22.10, data=5.05, cpu=6.54, mpi=0.66, total=50.5)
SIGMA = AdditiveTotals(gpu=12.48, control=13.52, data=0.90, cpu=0.19, mpi=0.12, total=27.21)
GTCP = AdditiveTotals(
    gpu=33.05, control=68.88 + 14.55, data=21.41, cpu=42.52, mpi=24.65, total=121.63
)
#: The identity by which GTC-P's printed total closes: control and allocation are waits inside the
#: rest (R.T5.add).
GTCP_CLOSED = AdditiveTotals(gpu=33.05, control=0.0, data=21.41, cpu=42.52, mpi=24.65, total=121.63)


def benefit(totals: AdditiveTotals, data: float = 10, control: float = 10) -> float:
    return totals.summed / totals.projected(data, control)


def penalty(totals: AdditiveTotals, data: float = 0.1, control: float = 0.1) -> float:
    return totals.projected(data, control) / totals.summed


@pytest.mark.parametrize(
    ("row", "got", "recomputed"),
    [
        ("R.T3.sum", EPSILON.summed, 51.14),
        ("R.T3.int2", benefit(EPSILON), 1.915),
        ("R.T3.dis2", penalty(EPSILON), 5.77806),
        ("R.T4.sum", SIGMA.summed, 27.21),
        ("R.T4.int", benefit(SIGMA), 1.91189),
        ("R.T4.dis", penalty(SIGMA), 5.76957),
        ("R.T5.add", GTCP_CLOSED.summed, 121.63),
        ("R.T5.eq3", GTCP.summed, 205.06),
        ("R.T13.GTCP", penalty(GTCP_CLOSED), 2.58423),
    ],
)
def test_printed_rows(row: str, got: float, recomputed: float) -> None:
    assert got == pytest.approx(recomputed, rel=2e-6), row


def test_over_the_stated_total() -> None:
    """R.T3.int, R.T3.dis and R.T3.data: the report divides its stated total instead of the sum of
    its terms.
    """
    stated = 50.5
    cpu = stated - (EPSILON.summed - EPSILON.cpu)
    closed = AdditiveTotals(EPSILON.gpu, EPSILON.control, EPSILON.data, cpu, EPSILON.mpi, stated)
    assert closed.closure_defect == pytest.approx(0.0, abs=1e-12)
    assert benefit(closed) == pytest.approx(1.93746, rel=1e-5)
    assert penalty(closed) == pytest.approx(5.83861, rel=1e-5)
    assert benefit(closed, control=1) - 1 == pytest.approx(0.0989011, rel=1e-5)


def test_closure_defects() -> None:
    assert EPSILON.closure_defect == pytest.approx(-0.64), "t_CPU forgot to subtract t_MPI"
    assert SIGMA.closure_defect == pytest.approx(0.0, abs=1e-12)
    assert GTCP.closure_defect == pytest.approx(-83.43), "waits counted twice"
    assert GTCP_CLOSED.closure_defect == pytest.approx(0.0, abs=1e-9)
    assert AdditiveTotals(1, 1, 1, 1, 1).closure_defect is None


@plain
@given(*[st.floats(0, 100)] * 4, st.floats(0.1, 100))
def test_benefit_and_penalty_are_one_number(
    gpu: float, control: float, data: float, mpi: float, cpu: float
) -> None:
    """For ten and a tenth on the same terms p = 1 + 10 (1 - 1/b), so neither can reach ten."""
    totals = AdditiveTotals(gpu, control, data, cpu, mpi)
    b, p = benefit(totals), penalty(totals)
    assert p == pytest.approx(1 + 10 * (1 - 1 / b), rel=1e-9)
    assert 1 <= b < 10 and 1 <= p < 10
    assert totals.projected(1, 1) == pytest.approx(totals.summed)


@pytest.mark.parametrize(
    ("row", "fraction", "recomputed"),
    [
        ("R.T2.MFiX", 0.18, 1.19332),
        ("R.T2.WarpX", 0.294, 1.3598),
        ("R.T2.PeleC", 0.53, 1.91205),
        ("R.T2.Castro", 0.0027, 1.00244),
    ],
)
def test_fractions_of_run_time(row: str, fraction: float, recomputed: float) -> None:
    """AMReX gives fractions only: b = 1 / (1 - 0.9 f), p = 1 + 9 f."""
    totals = AdditiveTotals(gpu=0.0, control=fraction, data=0.0, cpu=1 - fraction, mpi=0.0)
    assert benefit(totals) == pytest.approx(recomputed, rel=5e-6), row
    assert penalty(totals) == pytest.approx(1 + 9 * fraction)
