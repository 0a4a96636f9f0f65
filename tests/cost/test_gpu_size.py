"""Kernels on a larger GPU gain what their blocks allow, and no more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.cost.gpu_size import gpu_ratio, resident_at_most, spread_speedup, unit_share

BLOCKS, UNITS = st.integers(0, 100_000), st.integers(0, 200)


def test_the_speed_of_a_gpu_is_units_times_clock_times_efficiency() -> None:
    """AgoChart's target of 1,024 units at 1.8 GHz over one of half the units at the same clock,
    less efficient.
    """
    assert gpu_ratio(512, 1.8e9, 0.8, 1024, 1.8e9, 1.0) == pytest.approx(2.5)


ROUNDS = [
    (1, 80, 64, 1.0),
    (80, 80, 2, 1.0),
    (81, 80, 2, 2.0),
    (160, 80, 2, 2.0),
    (161, 80, 2, 1.5),
    (8_000, 80, 4, 4.0),
]
ROUNDS += [(100, 0, 3, 3.0), (80, 80, 1.5, 1.0), (240, 80, 1.5, 1.5), (246, 82, 3, 3.0)]


@pytest.mark.parametrize(("blocks", "units", "times", "expected"), ROUNDS)
def test_rounds_of_blocks(blocks: int, units: int, times: float, expected: float) -> None:
    assert float(spread_speedup(blocks, units, times)) == pytest.approx(expected, rel=1e-12)


@given(BLOCKS, UNITS, st.integers(1, 256))
def test_never_slower_and_never_faster_than_the_gpu_is_large(
    blocks: int, units: int, times: int
) -> None:
    found = spread_speedup(blocks, units, np.array([1, times, times + 1]))
    assert found[0] == 1.0 and 1.0 <= found[1] <= times and found[1] <= found[2]
    if 0 < blocks <= units:
        assert found[1] == 1.0, "what does not fill the GPU gains nothing"


@given(BLOCKS, UNITS, st.integers(1, 64))
def test_nobody_needs_more_than_there_is(blocks: int, units: int, times: int) -> None:
    share = float(unit_share(blocks, units))
    assert 0 < share <= 1
    assert share * float(spread_speedup(blocks, units, times)) <= times * (1 + 1e-12), (
        "at its fastest a kernel fits on the larger GPU"
    )


@given(BLOCKS, st.integers(1, 200), st.integers(1, 64), st.integers(0, 1024), st.integers(0, 255))
def test_saved_rounds_of_one_wave_are_none(
    blocks: int, units: int, times: int, threads: int, registers: int
) -> None:
    together = float(resident_at_most(threads, registers))
    assert 1 <= together <= 32 and together * max(threads, 1) <= 2048
    found = float(spread_speedup(blocks, units * together, times))
    assert 1.0 <= found <= times
    if 0 < blocks <= units * together:
        assert found == 1.0, "all blocks were resident at once: there is no round to save"
