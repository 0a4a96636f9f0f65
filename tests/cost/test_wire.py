"""Sizes in pieces: the same as at once, and checked in every piece."""

from __future__ import annotations

import numpy as np
import pytest

from turnbuckle.cost.wire import (
    LARGEST,
    PIECE,
    carried_bytes,
    effective_bandwidth,
    in_pieces,
    packets,
)
from turnbuckle.foundation.errors import UsageError


@pytest.mark.parametrize("count", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5])
def test_pieces_join(count: int) -> None:
    sizes = np.arange(count)
    longest = []

    def law(n: np.ndarray) -> np.ndarray:
        longest.append(len(n))
        return carried_bytes(n, 256, 24)

    assert in_pieces(law, sizes).tolist() == carried_bytes(sizes.astype(float), 256, 24).tolist()
    assert max(longest, default=0) <= PIECE


@pytest.mark.parametrize("at", [0, PIECE, 2 * PIECE + 1])
@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, 2 * LARGEST])
def test_a_bad_size_is_found_anywhere(at: int, bad: float) -> None:
    sizes = np.ones(2 * PIECE + 2)
    sizes[at] = bad
    with pytest.raises(UsageError) as e:
        in_pieces(lambda n: n, sizes)
    assert e.value.code == "A018" and f"{bad:g}" in e.value.found


def test_what_is_given_is_not_changed() -> None:
    sizes = np.array([1.0, 300.0])
    in_pieces(lambda n: packets(n, 256), sizes)
    assert sizes.tolist() == [1.0, 300.0]


def test_effective_bandwidth() -> None:
    assert effective_bandwidth(
        np.array([100.0, 300.0]), np.array([200.0, 400.0]), 8.0
    ).tolist() == [4.0, 6.0]
