"""The exclusive time line against a drawing of it, one cell a nanosecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import LAW

from turnbuckle.profile.exposure import between, exposed

Interval = tuple[int, int, int, int, int]

# start, length, level, felt after the start, tie
intervals = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.integers(0, 15),
        st.integers(0, 4),
        st.integers(0, 20),
        st.integers(0, 2),
    ),
    max_size=14,
)


def drawn(rows: list[Interval]) -> tuple[list[int], list[bool], list[int]]:
    """Paint the intervals in order of priority; a cell keeps the first colour it gets."""
    owner: dict[int, int] = {}
    order = sorted(
        range(len(rows)), key=lambda i: (rows[i][2], rows[i][0], -rows[i][1], rows[i][4])
    )
    for i in order:
        start, length, *_ = rows[i]
        for ns in range(start, start + length):
            owner.setdefault(ns, i)
    share = [sum(o == i for o in owner.values()) for i in range(len(rows))]
    felt = [owner.get(start + after - 1) == i for i, (start, _, _, after, _) in enumerate(rows)]
    by_level = [
        sum(rows[o][2] == level for o in owner.values())
        for level in range(max((r[2] for r in rows), default=-1) + 1)
    ]
    return share, felt, by_level


@LAW
@given(intervals)
def test_like_the_drawing(rows: list[Interval]) -> None:
    # two that tie in everything are one thing in two rows: which of them owns the cells means
    # nothing
    rows = list(
        {(s, n, level, tie): (s, n, level, f, tie) for s, n, level, f, tie in rows}.values()
    )
    start, length, level, after, tie = (
        np.array([r[c] for r in rows], dtype=np.int64) for c in range(5)
    )
    share, felt, by_level = exposed(
        start, start + length, level.astype(np.int8), start + after, lambda: tie
    )
    want_share, want_felt, want_levels = drawn(rows)
    assert share.tolist() == want_share
    assert felt.tolist() == want_felt
    assert by_level.tolist() == want_levels
    assert share.sum() == len({ns for s, n, *_ in rows for ns in range(s, s + n)})


@LAW
@given(intervals)
def test_a_delay_is_felt_at_the_end_unless_said_otherwise(rows: list[Interval]) -> None:
    start, length, level = (np.array([r[c] for r in rows], dtype=np.int64) for c in range(3))
    by_default = exposed(start, start + length, level.astype(np.int8))
    at_end = exposed(start, start + length, level.astype(np.int8), start + length)
    assert all(np.array_equal(a, b) for a, b in zip(by_default, at_end, strict=True))


@LAW
@given(
    st.lists(st.tuples(st.integers(-10, 40), st.integers(0, 12)), max_size=10),
    st.integers(0, 20),
    st.integers(0, 25),
)
def test_between_is_the_complement(rows: list[tuple[int, int]], first: int, span: int) -> None:
    inside = [(max(s, first), min(s + n, first + span)) for s, n in rows]
    inside = [(s, e) for s, e in inside if e >= s]
    starts, ends = between([s for s, _ in inside], [e for _, e in inside], first, first + span)
    covered = {ns for s, e in inside for ns in range(s, e)}
    free = [ns for s, e in zip(starts.tolist(), ends.tolist(), strict=True) for ns in range(s, e)]
    assert free == [ns for ns in range(first, first + span) if ns not in covered]
    assert (ends > starts).all() and (starts[1:] > ends[:-1]).all()


def test_priority_and_ties_by_hand() -> None:
    """A kernel over a copy over a call: each instant once."""
    start, end, level = (
        np.array([0, 4, 2]),
        np.array([10, 8, 20]),
        np.array([1, 0, 4], dtype=np.int8),
    )
    share, felt, by_level = exposed(start, end, level)
    assert (
        share.tolist() == [6, 4, 10]
        and felt.tolist() == [True, True, True]
        and by_level.tolist() == [4, 6, 0, 0, 10]
    )
    share, felt, _ = exposed(np.array([0, 0]), np.array([5, 9]), np.array([0, 0], dtype=np.int8))
    assert share.tolist() == [0, 9] and felt.tolist() == [False, True]


def test_nothing() -> None:
    empty = np.empty(0, np.int64)
    share, felt, by_level = exposed(empty, empty, empty.astype(np.int8))
    assert not len(share) and not len(felt) and not len(by_level)
    starts, ends = between([], [], 3, 9)
    assert (starts.tolist(), ends.tolist()) == ([3], [9])
    assert not len(between([], [], 3, 3)[0])
