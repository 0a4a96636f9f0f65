"""Laws of run time against cores: limits, order, and the fewest cores by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from turnbuckle.questions.cores import laws

times = st.floats(0.01, 1000)
shares = st.floats(0.55, 0.99)


@given(times, times, st.floats(0.01, 5), shares)
def test_exponential_cores_reach_the_efficiency(
    alpha: float, beta: float, rate: float, share: float
) -> None:
    cores = float(laws.exponential_cores(alpha, beta, rate, share))
    assert alpha / float(laws.exponential_seconds(cores, alpha, beta, rate)) == pytest.approx(
        share, rel=1e-9
    )


def test_exponential_edges() -> None:
    assert float(laws.exponential_cores(0.0, 1.0, 1.0)) == math.inf
    assert float(laws.exponential_cores(1.0, 0.0, 1.0)) == -math.inf
    assert laws.exponential_cores(
        np.array([121.89, 9.38]), np.array([137.99, 45.81]), np.array([0.766, 0.627])
    ).round(2).tolist() == [
        3.03,
        6.03,
    ]


@given(times, st.floats(0, 1), st.just(0.0) | st.floats(1e-9, 0.2), st.floats(0.001, 50), shares)
def test_usl_cores_are_the_fewest_within_an_efficiency_of_the_best(
    s: float, sigma: float, kappa: float, t_mpi: float, share: float
) -> None:
    cores = float(laws.usl_cores(t_mpi, s, sigma, kappa, share))
    best = float(laws.usl_limit(t_mpi, s, sigma, kappa))
    assume(1 < cores < 1e6 and best > 0)
    assert best / (t_mpi + float(laws.usl_seconds(cores, s, sigma, kappa))) == pytest.approx(
        share, rel=1e-6
    )
    assert best / (t_mpi + float(laws.usl_seconds(cores * 0.98, s, sigma, kappa))) < share
    assert cores <= float(laws.usl_fastest_cores(sigma, kappa)) * (1 + 1e-9)


def test_usl_cores_below_one_reach_the_efficiency_too() -> None:
    cores = float(laws.usl_cores(0.0, 100.0, 0.9, 0.01, 0.5))
    best = float(laws.usl_limit(0.0, 100.0, 0.9, 0.01))
    assert cores < 1
    assert best / float(laws.usl_seconds(cores, 100.0, 0.9, 0.01)) == pytest.approx(0.5, rel=1e-12)


@given(st.floats(0, 1), st.floats(1e-4, 0.5))
def test_usl_is_slower_on_both_sides_of_its_fastest(sigma: float, kappa: float) -> None:
    n = float(laws.usl_fastest_cores(sigma, kappa))
    at = float(laws.usl_seconds(n, 1.0, sigma, kappa))
    assert float(laws.usl_seconds(n * 1.5, 1.0, sigma, kappa)) >= at
    assert n == 1.0 or float(laws.usl_seconds(n / 1.5, 1.0, sigma, kappa)) >= at
    assert float(laws.usl_limit(0.0, 1.0, sigma, kappa)) == pytest.approx(at)


def test_usl_without_coherency_is_amdahl() -> None:
    assert float(laws.usl_limit(0.0, 100.0, 0.2, 0.0)) == pytest.approx(20.0)
    assert float(laws.usl_cores(0.0, 100.0, 0.0, 0.0)) == math.inf, "nothing is serial: no floor"
    one = float(laws.usl_cores(0.0, 100.0, 0.2, 0.0))
    assert one == pytest.approx(
        float(laws.hybrid_cores(0.0, 20.0, 0.0, 80.0, 0.0, ranks=(1, 1))), rel=1e-9
    )


@given(times, times, times, times, times)
def test_hybrid_falls_to_its_limit(
    t_mpi: float, c_seq: float, c_mpi: float, c_omp: float, c_hyb: float
) -> None:
    n = np.array([1.0, 2.0, 8.0, 64.0, 1e12])
    seconds = t_mpi + laws.hybrid_seconds(n, n, c_seq, c_mpi, c_omp, c_hyb)
    assert (np.diff(seconds) < 0).all()
    assert seconds[-1] == pytest.approx(float(laws.hybrid_limit(t_mpi, c_seq)), rel=1e-6)


@given(times, times, times, times, st.floats(0.6, 0.95))
def test_equation_six_by_brute_force(
    c_seq: float, c_mpi: float, c_omp: float, c_hyb: float, share: float
) -> None:
    real = float(laws.hybrid_cores(0.0, c_seq, c_mpi, c_omp, c_hyb, share))
    assume(real < 400)
    n, m = np.meshgrid(np.linspace(1, 60, 237), np.linspace(1, 60, 237))
    enough = c_seq >= share * laws.hybrid_seconds(n, m, c_seq, c_mpi, c_omp, c_hyb)
    assume(enough.any())
    grid = float((n * m)[enough].min())
    assert real <= grid * (1 + 1e-9), "no point of a grid does with fewer"
    ranks = float(laws.best_ranks(real, c_mpi, c_omp))
    assert c_seq >= share * float(
        laws.hybrid_seconds(ranks, real / ranks, c_seq, c_mpi, c_omp, c_hyb)
    ) * (1 - 1e-9), "and it is enough"


def test_equation_six_with_one_rank_is_nine_times_the_openmp_share() -> None:
    assert float(laws.hybrid_cores(2.0, 98.0, 0.0, 38.9, 0.0, ranks=(1, 1))) == pytest.approx(
        9 * 0.389
    )
    assert float(laws.hybrid_cores(0.0, 100.0, 0.0, 0.0, 0.0)) == 1.0, "one core is the least"
    assert float(laws.hybrid_cores(0.0, 0.0, 0.0, 1.0, 0.0)) == math.inf
    assert float(laws.hybrid_cores(0.0, 100.0, 0.0, 8.0, 0.0, threads=(2, math.inf))) == 2.0, (
        "Sigma's bound: two threads or more"
    )


def test_ranks_that_are_held_cannot_help() -> None:
    free = float(laws.hybrid_cores(0.0, 100.0, 30.0, 10.0, 10.0))
    held = float(laws.hybrid_cores(0.0, 100.0, 30.0, 10.0, 10.0, ranks=(4.0, 4.0)))
    assert free <= held < math.inf
    assert float(laws.hybrid_cores(0.0, 100.0, 30.0, 10.0, 10.0, ranks=(1.0, 1.0))) == math.inf


@pytest.mark.parametrize("cores", [1, 2, 6, 7, 12, 30])
def test_the_best_split(cores: int) -> None:
    found = laws.split_cores(cores, 20.0, 10.0, 40.0, (1, 8), (1, 8))
    fits = [(n, m) for n in range(1, 9) for m in range(1, 9) if n * m == cores]
    if not fits:
        assert found is None
    else:
        assert found in fits
        assert 20 / found[0] + 10 / found[1] == min(20 / n + 10 / m for n, m in fits)
