"""Interval arithmetic against a bitmap with one cell a nanosecond."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.trace.intervals import covered_ns, merge, new_cover_ns, union_ns

LOW, HIGH = -20, 40  # the bitmap's range [ns]

# Few distinct values, so that equal, touching, nested and zero-length intervals are common.
interval = st.tuples(st.integers(LOW, HIGH), st.integers(LOW, HIGH)).map(sorted)
intervals = st.lists(interval, max_size=12).map(
    lambda rows: np.array(rows, np.int64).reshape(-1, 2).T
)


def bitmap(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    cells = np.zeros(HIGH - LOW, bool)
    for a, b in zip(start, end, strict=True):
        cells[a - LOW : max(a, b) - LOW] = True
    return cells


@given(intervals)
def test_union_counts_each_nanosecond_once(rows: np.ndarray) -> None:
    assert union_ns(*rows) == bitmap(*rows).sum()


@given(intervals)
def test_merge_is_the_same_set_disjoint_and_in_order(rows: np.ndarray) -> None:
    start, end = merge(*rows)
    assert (bitmap(start, end) == bitmap(*rows)).all()
    assert (end > start).all()
    assert (start[1:] > end[:-1]).all()
    assert start.dtype == end.dtype == np.int64


@given(intervals, intervals)
def test_covered_is_the_overlap_with_the_set(rows: np.ndarray, other: np.ndarray) -> None:
    cells = bitmap(*other)
    expected = [cells[a - LOW : b - LOW].sum() for a, b in rows.T]
    assert covered_ns(*rows, *merge(*other)).tolist() == expected


@given(intervals)
def test_new_cover_gives_each_nanosecond_to_the_first_interval(rows: np.ndarray) -> None:
    seen = np.zeros(HIGH - LOW, bool)
    expected = np.zeros(rows.shape[1], np.int64)
    for i in np.argsort(rows[0], kind="stable"):
        mine = bitmap(rows[0, i : i + 1], rows[1, i : i + 1])
        expected[i] = (mine & ~seen).sum()
        seen |= mine
    fresh = new_cover_ns(*rows)
    assert fresh.tolist() == expected.tolist()
    assert fresh.sum() == union_ns(*rows)


@given(intervals)
def test_an_interval_that_ends_before_it_starts_covers_nothing(rows: np.ndarray) -> None:
    start, end = np.append(rows[0], 30), np.append(rows[1], -10)
    assert union_ns(start, end) == union_ns(*rows)
    assert new_cover_ns(start, end).sum() == union_ns(*rows)
    assert covered_ns(np.array([30]), np.array([-10]), *merge(*rows)).tolist() == [0]


def test_two_streams_at_once_sum_to_more_than_their_union() -> None:
    """Trap 10: a sum of kernel times is not the time the device was busy."""
    start, end = np.array([0, 5, 20]), np.array([10, 15, 25])
    assert (end - start).sum() == 25
    assert union_ns(start, end) == 20
    assert new_cover_ns(start, end).tolist() == [10, 5, 5]


def test_large_times_stay_exact() -> None:
    base = 2**53 - 10
    assert union_ns(np.array([-base, base]), np.array([base + 1, base + 3])) == 2 * base + 3
    assert covered_ns(
        np.array([base]), np.array([base + 3]), np.array([-base]), np.array([base + 1])
    ).tolist() == [1]


@pytest.mark.parametrize("function", [union_ns, merge, new_cover_ns])
def test_nothing_is_not_an_error(function: object) -> None:
    empty = np.zeros(0, np.int64)
    assert np.sum(function(empty, empty)) == 0  # type: ignore[operator]
