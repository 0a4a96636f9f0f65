"""Equation 8: limits, order of the two overlaps, and what grows with what."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.cost.roofline import OVERLAPS, Costs, Work, roofline_parts, roofline_seconds

drawn = settings(max_examples=100)
amounts = st.lists(st.floats(0, 1e15), min_size=5, max_size=5)
prices = st.lists(st.floats(1e-15, 1e-6), min_size=5, max_size=5)


def test_the_printed_form() -> None:
    work, costs = Work(2.0, 3.0, 5.0, 7.0, 11.0), Costs(13.0, 1.0, 2.0, 3.0, 4.0)
    assert float(roofline_seconds(work, costs)) == max(26.0, 3 + 10 + 21 + 44)
    assert float(roofline_seconds(work, costs, "none")) == max(26.0, 13) + 65


@drawn
@given(amounts, prices)
def test_copies_beside_are_never_faster_than_copies_behind(n: list[float], t: list[float]) -> None:
    full, none = (float(roofline_seconds(Work(*n), Costs(*t), o)) for o in OVERLAPS)
    assert none >= full * (1 - 1e-12)
    arithmetic, memory, copies = (float(x) for x in roofline_parts(Work(*n), Costs(*t)))
    assert none <= 2 * full * (1 + 1e-12) and full >= max(arithmetic, memory, copies) * (1 - 1e-12)


@drawn
@given(amounts, prices, st.integers(0, 4), st.floats(1, 100))
def test_more_work_or_dearer_work_is_never_faster(
    n: list[float], t: list[float], which: int, factor: float
) -> None:
    for overlap in OVERLAPS:
        here = float(roofline_seconds(Work(*n), Costs(*t), overlap))
        more, dearer = list(n), list(t)
        more[which], dearer[which] = n[which] * factor, t[which] * factor
        assert float(roofline_seconds(Work(*more), Costs(*t), overlap)) >= here * (1 - 1e-12)
        assert float(roofline_seconds(Work(*n), Costs(*dearer), overlap)) >= here * (1 - 1e-12)


@drawn
@given(amounts, prices, st.floats(1e-3, 1e3))
def test_all_costs_times_k_is_time_times_k(n: list[float], t: list[float], k: float) -> None:
    for overlap in OVERLAPS:
        here = float(roofline_seconds(Work(*n), Costs(*t), overlap))
        assert float(
            roofline_seconds(Work(*n), Costs(*(c * k for c in t)), overlap)
        ) == pytest.approx(here * k)


def test_limits() -> None:
    work = Work(1e12, 1e9, h2d_bytes=1e9)
    assert float(roofline_seconds(work, Costs(0.0, 1e-9, h2d=0.0))) == 1.0
    assert float(roofline_seconds(work, Costs(1e-12, 0.0, h2d=0.0))) == 1.0


def test_what_is_not_used_need_not_be_known() -> None:
    assert (
        float(roofline_seconds(Work(0.0, 1e9), Costs(math.nan, 1e-9, math.nan, math.inf, math.inf)))
        == 1.0
    )
    assert math.isnan(float(roofline_seconds(Work(1.0, 1e9), Costs(math.nan, 1e-9))))


def test_it_broadcasts() -> None:
    found = roofline_seconds(
        Work(np.zeros(3), np.array([1.0, 2.0, 3.0])), Costs(1.0, np.array([[1.0], [10.0]]))
    )
    assert found.tolist() == [[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]
