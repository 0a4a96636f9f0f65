"""The sum: what is exposed changes the run, what is hidden does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.replay.sum import SumResult
from turnbuckle.replay.sum import replay_sum as replay_both

Piece = tuple[float, float, float, bool, float]
# seconds, share, tail, adds, new
piece = st.tuples(
    st.floats(0, 10), st.floats(0, 1), st.floats(0, 1), st.booleans(), st.floats(0, 30)
)
plain = settings(max_examples=150)


def replay_sum(
    measured: float,
    seconds: np.ndarray,
    exposed: np.ndarray,
    tail: np.ndarray,
    adds: np.ndarray,
    new: np.ndarray,
) -> SumResult:
    """Each piece either scales or is delayed."""
    return replay_both(
        measured,
        seconds,
        exposed,
        tail,
        np.where(adds, seconds, new),
        np.where(adds, new - seconds, 0.0),
    )


def replayed(
    pieces: list[Piece], new: np.ndarray | None = None, rest: float = 1.0
) -> tuple[float, SumResult]:
    seconds, share, tail, adds, durations = (
        np.array([p[i] for p in pieces], dtype=float) for i in range(5)
    )
    measured = float((seconds * share).sum()) + rest
    after = durations if new is None else new
    return measured, replay_sum(measured, seconds, seconds * share, tail, adds.astype(bool), after)


@plain
@given(st.lists(piece, max_size=8))
def test_no_change_is_no_change(pieces: list[Piece]) -> None:
    measured, out = replayed(pieces, np.array([p[0] for p in pieces]))
    assert float(out.seconds) == float(out.lower) == float(out.upper) == measured
    assert out.exposed_seconds.tolist() == [p[0] * p[1] for p in pieces]


@plain
@given(st.lists(piece, min_size=1, max_size=8))
def test_between_all_savings_and_all_delays(pieces: list[Piece]) -> None:
    measured, out = replayed(pieces)
    eps = 1e-12 * float(out.upper)
    assert (
        float(out.lower) - 0 >= 0
        and float(out.lower) - eps <= float(out.seconds) <= float(out.upper) + eps
    )
    assert float(out.lower) <= measured + eps and float(out.upper) >= measured - eps
    assert (out.exposed_seconds >= 0).all()
    change = out.exposed_seconds.sum() - sum(p[0] * p[1] for p in pieces)
    assert float(out.seconds) == pytest.approx(measured + change)


@plain
@given(st.lists(piece, min_size=1, max_size=6), st.integers(0, 5))
def test_monotone_and_convex_in_every_duration(pieces: list[Piece], which: int) -> None:
    at = which % len(pieces)
    new = np.tile([p[4] for p in pieces], (9, 1))
    new[:, at] = np.linspace(0, 25, 9)
    run = replayed(pieces, new)[1].seconds
    assert (np.diff(run) >= -1e-12).all() and (np.diff(run, 2) >= -1e-9).all()


def test_weights_by_hand() -> None:
    """Ten seconds, of which a hidden copy, a half exposed kernel, a wait whose end is exposed and
    one whose end is not.
    """
    seconds, exposed = np.array([4.0, 6.0, 2.0, 2.0]), np.array([0.0, 3.0, 2.0, 1.0])
    tail, adds = np.array([0.0, 0.0, 1.0, 0.0]), np.array([False, False, True, True])

    def run(*new: float) -> float:
        return float(replay_sum(10.0, seconds, exposed, tail, adds, np.array(new)).seconds)

    assert run(40, 6, 2, 2) == 10.0, "a hidden copy may last: nobody sees it in this replay"
    assert run(4, 12, 2, 2) == 13.0 and run(4, 0, 2, 2) == 7.0
    assert run(4, 6, 5, 2) == 13.0 and run(4, 6, 2, 9) == 10.0
    out = replay_sum(10.0, seconds, exposed, tail, adds, np.array([40.0, 0.0, 5.0, 9.0]))
    assert (float(out.lower), float(out.upper)) == (4.0, 56.0)


def test_a_saving_takes_no_more_than_was_exposed() -> None:
    out = replay_sum(
        5.0, np.array([3.0]), np.array([1.0]), np.array([1.0]), np.array([True]), np.array([0.0])
    )
    assert float(out.seconds) == 4.0 and out.exposed_seconds.tolist() == [0.0]


def test_nothing_lasts_less_than_nothing_and_zero_durations_weigh_nothing() -> None:
    out = replay_sum(
        1.0, np.array([0.0]), np.array([0.0]), np.array([0.0]), np.array([False]), np.array([7.0])
    )
    assert float(out.seconds) == 1.0 and float(out.upper) == 8.0
    none = replay_sum(2.0, np.empty(0), np.empty(0), np.empty(0), np.empty(0, bool), np.empty(0))
    assert (float(none.seconds), float(none.lower), float(none.upper)) == (2.0, 2.0, 2.0)


def test_draws_are_the_first_axis() -> None:
    seconds, exposed = np.array([1.0, 2.0]), np.array([1.0, 2.0])
    draws = np.array([[1.0, 2.0], [2.0, 2.0], [1.0, 5.0]])
    out = replay_sum(3.0, seconds, exposed, np.zeros(2), np.zeros(2, bool), draws)
    assert (
        out.seconds.tolist() == [3.0, 4.0, 6.0]
        and out.exposed_seconds.shape == (3, 2)
        and out.upper.tolist() == [3.0, 4.0, 6.0]
    )
    for row in range(3):
        assert (
            float(
                replay_sum(
                    3.0, seconds, exposed, np.zeros(2), np.zeros(2, bool), draws[row]
                ).seconds
            )
            == out.seconds[row]
        )


def test_a_piece_may_scale_and_be_delayed() -> None:
    """Half of four seconds is exposed, and the end of one activity in four: twice as long and 8 s
    of delays cost 2 s + 2 s.
    """
    out = replay_both(
        10.0, np.array([4.0]), np.array([2.0]), np.array([0.25]), np.array([8.0]), np.array([8.0])
    )
    assert (float(out.seconds), float(out.upper)) == (14.0, 22.0)
