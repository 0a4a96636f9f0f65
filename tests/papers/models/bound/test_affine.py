"""Run time that is affine or convex in a delay: the laws, against random longest paths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.cost.ratio import AdditiveTotals, tied_penalty
from turnbuckle.papers.models.bound.affine import (
    bound_on,
    farthest,
    least_penalty,
    most_benefit,
    possible_on,
    reach,
)

plain = settings(max_examples=90)


@st.composite
def runs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Paths of one run: their time without delay [s], and how many delays lie on each.  Its run
    time is their longest.
    """
    paths = draw(st.integers(1, 6))
    seconds = draw(st.lists(st.floats(1e-3, 10), min_size=paths, max_size=paths))
    delays = draw(st.lists(st.integers(0, 100_000), min_size=paths, max_size=paths))
    return np.array(seconds), np.array(delays, dtype=float)


delays = st.tuples(st.floats(1e-7, 1e-4), st.floats(1.01, 100), st.floats(1.01, 100)).map(
    lambda d: (d[0], d[0] * d[1], d[0] * d[1] * d[2])
)


def seconds(run: tuple[np.ndarray, np.ndarray], delay: float) -> float:
    """The longest path: convex and piecewise linear in the delay."""
    return float((run[0] + run[1] * delay).max())


@plain
@given(runs(), delays)
def test_the_bound_holds_for_every_longest_path(
    run: tuple[np.ndarray, np.ndarray], at: tuple[float, float, float]
) -> None:
    near, now, far = at
    benefit = seconds(run, now) / seconds(run, near)
    penalty = seconds(run, far) / seconds(run, now)
    assert penalty >= float(least_penalty(benefit, near, now, far)) * (1 - 1e-9)
    assert benefit <= float(most_benefit(penalty, near, now, far)) * (1 + 1e-9)
    if benefit > 1 + 1e-9:
        assert float(farthest(benefit, penalty, near, now)) >= far * (1 - 1e-6), (
            "the delay it happened at is one at which it can"
        )
    for x in (0.0, near / 2, near, (near + now) / 2, now, far):
        least, most = (float(end) for end in possible_on(x, near, now, benefit))
        assert least * (1 - 1e-9) <= seconds(run, x) / seconds(run, now) <= most * (1 + 1e-9)
    for x in (near / 2, near, now, far, 3 * far):
        assert seconds(run, x) >= seconds(run, now) * float(bound_on(x, near, now, benefit)) * (
            1 - 1e-9
        )
    inside = (near + now) / 2
    assert seconds(run, inside) <= seconds(run, now) * float(
        bound_on(inside, near, now, benefit)
    ) * (1 + 1e-9)


@plain
@given(st.floats(1e-3, 10), st.integers(1, 100_000), delays)
def test_one_path_reaches_the_bound(
    at_rest: float, count: int, at: tuple[float, float, float]
) -> None:
    """No overlap, no slack: the run is affine, and the bound is the answer."""
    near, now, far = at
    run = lambda x: at_rest + count * x  # noqa: E731
    benefit, penalty = run(now) / run(near), run(far) / run(now)
    assert float(least_penalty(benefit, near, now, far)) == pytest.approx(penalty, rel=1e-6)
    if benefit > 1 + 1e-6:
        assert float(farthest(benefit, penalty, near, now)) == pytest.approx(far, rel=1e-3)
    alone = run(now) / run(0.0)
    assert float(bound_on(far, 0.0, now, alone)) == pytest.approx(penalty, rel=1e-6)


@plain
@given(st.floats(1.0, 50.0), st.floats(1.1, 1000.0))
def test_affine_both_ways(benefit: float, stretch: float) -> None:
    penalty = float(bound_on(stretch, 0.0, 1.0, benefit))
    assert 1 - 1e-12 <= penalty <= stretch
    assert penalty == pytest.approx((1 + (benefit - 1) * stretch) / benefit, rel=1e-12), (
        "the law as SSI's pairs follow it"
    )
    assert float(most_benefit(penalty, 0.0, 1.0, stretch)) == pytest.approx(benefit, rel=1e-6)


@plain
@given(
    st.lists(st.floats(0.0, 100.0), min_size=5, max_size=5).filter(lambda v: sum(v) > 1),
    st.floats(1.5, 100.0),
)
def test_equation_4_is_tied_by_the_same_line(terms: list[float], improvement: float) -> None:
    """Benefit and penalty of the additive model, with lambda and 1/lambda, are one number: a line
    whose reach is lambda.
    """
    totals = AdditiveTotals(*terms)
    benefit = totals.summed / totals.projected(improvement, improvement)
    penalty = totals.projected(1 / improvement, 1 / improvement) / totals.summed
    assert penalty == pytest.approx(float(tied_penalty(benefit, improvement)), rel=1e-9)
    near, now, far = 1 / improvement, 1.0, improvement
    assert float(reach(near, now, far)) == pytest.approx(improvement)
    assert penalty == pytest.approx(float(least_penalty(benefit, near, now, far)), rel=1e-9)


def test_limits() -> None:
    assert float(least_penalty(1.0, 1, 10, 1e9)) == 1.0, "no gain says nothing"
    assert float(least_penalty(0.99, 1, 10, 100)) == 1.0, "no delay makes a run shorter"
    assert float(least_penalty(1e12, 1, 10, 100)) == pytest.approx(11.0), "nothing but delay"
    assert (
        float(most_benefit(11.0, 1, 10, 100)) == np.inf
        and float(most_benefit(12.0, 1, 10, 100)) == np.inf
    )
    assert float(most_benefit(1.0, 1, 10, 100)) == 1.0, (
        "who loses nothing farther away gains nothing nearer"
    )
    assert float(farthest(1.0, 2.0, 1, 10)) == np.inf and float(farthest(2.0, 1.0, 1, 10)) == 10.0
    assert (
        float(most_benefit(16.0, 0, 1, 16.0)) == np.inf
        and float(most_benefit(1.0, 0, 1, 16.0)) == 1.0
    )
    assert float(bound_on(0.0, 9.0, 10.0, 5.0)) == 0.0, "no run takes less than no time"


def test_arrays_broadcast() -> None:
    gains, far = np.array([[1.05], [1.21], [2.98]]), np.array([200e-6, 1e-3])
    assert least_penalty(gains, 10e-6, 100e-6, far).shape == (3, 2)
    assert farthest(gains[:, 0], 2.0, 10e-6, 100e-6).shape == (3,)
    assert most_benefit(np.array([2.0, 16.0]), 0, 1, 16.0).tolist() == [15 / 14, np.inf]
    assert (np.diff(least_penalty(gains, 10e-6, 100e-6, far), axis=0) > 0).all()
