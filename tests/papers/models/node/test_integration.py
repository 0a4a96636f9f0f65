"""GPUs closer to each other: the equations at their limits, as laws, and against what the report
prints.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.papers.models.node.cost import (
    Staged,
    all_on_node,
    fraction_speedup,
    gain,
    path_ratio,
    staged_share,
    tree_stages,
)

plain = settings(max_examples=100)
shares, ratios = st.floats(0, 1), st.floats(0.01, 1e6)


# --- fractions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "c", "p", "o", "recomputed"),
    [
        ("R.T12.Castro", 0.078, 0.36, 0.12, 1.00297),
        ("R.T12.MFIX", 0.75, 0.99, 0.29, 1.23378),
        ("R.T12.PeleC", 0.10, 0.80, 0.25, 1.01792),
        ("R.T12.WarpX", 0.40, 0.98, 0.22, 1.08212),
    ],
)
def test_table_12(row: str, c: float, p: float, o: float, recomputed: float) -> None:
    assert float(fraction_speedup(c, p, o, 8 * 25 / 24)) == pytest.approx(recomputed, rel=5e-6), row


@plain
@given(shares, shares, shares, ratios, st.floats(1, 100))
def test_fractions_are_monotone(c: float, p: float, o: float, k: float, more: float) -> None:
    once, twice = float(fraction_speedup(c, p, o, k)), float(fraction_speedup(c, p, o, k * more))
    assert twice >= once * (1 - 1e-12), "a faster path never slows a run"
    moved = c * p * o
    bound = 1 / (1 - moved) if moved < 1 else math.inf
    assert min(1.0, k) * (1 - 1e-9) <= once <= max(1.0, min(k, bound)) * (1 + 1e-9)
    assert float(fraction_speedup(c * 0.5, p, o, k)) == pytest.approx(
        1 / (1 - 0.5 * moved * (1 - 1 / k))
    )


def test_fractions_at_their_limits() -> None:
    assert float(fraction_speedup(0.5, 0.5, 0.5, 1)) == 1, "the same path"
    assert (
        float(fraction_speedup(0, 1, 1, 1e9))
        == float(fraction_speedup(1, 0, 1, 1e9))
        == float(fraction_speedup(1, 1, 0, 1e9))
        == 1
    )
    assert float(fraction_speedup(0.5, 1, 1, math.inf)) == 2, "all of it for nothing"
    assert float(fraction_speedup(1, 1, 1, 7)) == pytest.approx(7)
    assert fraction_speedup(np.array([0.1, 0.2]), 1, 1, np.array([[2.0], [4.0]])).shape == (2, 2)


# --- latencies ------------------------------------------------------------------------------------


@plain
@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=20), st.floats(1, 10), st.floats(1, 100))
def test_a_path_is_between_its_latency_and_its_bandwidth(
    sizes: list[float], latency: float, bandwidth: float
) -> None:
    k = path_ratio(np.array(sizes), 2e-6, 24e9, 2e-6 / latency, 24e9 * bandwidth)
    assert min(latency, bandwidth) * (1 - 1e-9) <= k <= max(latency, bandwidth) * (1 + 1e-9)


def test_paths_at_their_limits() -> None:
    assert path_ratio(np.array([]), 2e-6, 24e9, 1e-6, 200e9) == 1, "no message"
    assert path_ratio(np.array([0.0]), 2e-6, 24e9, 1e-6, 200e9) == pytest.approx(2), "latency alone"
    assert path_ratio(np.array([1e15]), 2e-6, 24e9, 1e-6, 200e9) == pytest.approx(200 / 24), (
        "bandwidth alone"
    )
    assert path_ratio(np.array([8.0]), 2e-6, 24e9, 0.0, math.inf) == math.inf


# --- stages ---------------------------------------------------------------------------------------

EPSILON = [(0.058, 3, 4), (0.014, 1, 1)]


def test_section_8_2() -> None:
    then = staged_share(EPSILON, 2)
    assert 100 * then == pytest.approx(97.125), "R.8.2.eps"
    assert 100 * float(gain(1, then)) == pytest.approx(2.9601, rel=1e-4), "R.8.2.boost"
    whole = staged_share(all_on_node(EPSILON), 2)
    assert 100 * float(gain(then, whole)) == pytest.approx(0.752075, rel=1e-5), "R.8.2.add"
    assert float(gain(1, whole)) + 1 == pytest.approx(1.03734, rel=1e-5), "R.T13.eps"
    sigma = staged_share([(0.16, 3, 3), (0.05, 1, 1)], 2)
    assert 100 * float(gain(1, sigma)) == pytest.approx(11.7318, rel=1e-5), "R.8.2.sig"


parts = st.lists(
    st.tuples(st.floats(0, 0.2), st.integers(0, 5), st.integers(1, 5)).filter(
        lambda p: p[1] <= p[2]
    ),
    max_size=5,
)


@plain
@given(parts, st.floats(1, 1e3), st.floats(1, 10))
def test_stages_are_monotone(
    some: list[tuple[float, int, int]], factor: float, more: float
) -> None:
    then, further = staged_share(some, factor), staged_share(some, factor * more)
    whole = staged_share(all_on_node(some), factor)
    assert whole <= then + 1e-12 and further <= then + 1e-12 and then <= 1
    assert whole == pytest.approx(
        1 / float(fraction_speedup(sum(s for s, _, _ in some), 1, 1, factor))
    )
    assert staged_share(some, 1) == 1
    assert staged_share(some, math.inf) == pytest.approx(1 - sum(s * a / b for s, a, b in some))


@given(st.integers(1, 100_000), st.integers(1, 1_000))
@plain
def test_stages_of_a_tree(ranks: int, per_node: int) -> None:
    on_node, stages = tree_stages(ranks, per_node)
    assert (
        0 <= on_node <= stages and 2 ** (stages - 1) < ranks <= 2**stages
        if ranks > 1
        else stages == 0
    )
    assert tree_stages(ranks, ranks) == (stages, stages), "one node holds every stage"
    assert tree_stages(ranks, 1) == (0, stages), "alone on a node, none"
    assert tree_stages(ranks, per_node + 1)[0] >= on_node


def test_the_tree_of_the_report() -> None:
    assert (
        tree_stages(16, 8) == (3, 4)
        and tree_stages(8, 8) == (3, 3)
        and tree_stages(27_648, 6) == (2, 15)
    )
    assert all_on_node([Staged(0.1, 0, 3)]) == [Staged(0.1, 3, 3)]
