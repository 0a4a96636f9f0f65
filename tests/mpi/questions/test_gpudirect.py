"""Host copies against GPUDirect: which is faster where."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.mpi.questions.gpudirect.cost import (
    PHYSICS,
    SEED_G,
    Paths,
    break_even_bytes,
    gpudirect_seconds,
    hostcopy_seconds,
    largest_gain,
)

paths = st.builds(
    Paths,
    copies=st.integers(0, 3),
    pins=st.integers(0, 3),
    copy_latency=st.floats(0, 1e-4),
    copy_per_byte=st.floats(0, 1e-9),
    pin_seconds=st.floats(0, 1e-4),
)


@given(paths, st.floats(1.0, 1e9))
def test_break_even_divides_the_sizes(charged: Paths, size: float) -> None:
    edge = break_even_bytes(charged)
    host, direct = hostcopy_seconds(size, 0.0, charged), gpudirect_seconds(size, 0.0, charged)
    if size > edge * (1 + 1e-9):
        assert direct <= host * (1 + 1e-12)
    if size < edge * (1 - 1e-9):
        assert host <= direct * (1 + 1e-12)


@given(paths, st.floats(1e9, 1e12))
def test_the_gain_of_long_messages_tends_to_the_limit_from_either_side(
    charged: Paths, bandwidth: float
) -> None:
    size = 1e15
    wire = size / bandwidth
    gain = hostcopy_seconds(size, wire, charged) / gpudirect_seconds(size, wire, charged) - 1
    assert math.isclose(gain, largest_gain(bandwidth, charged), rel_tol=1e-3, abs_tol=1e-3)


def test_the_table_of_the_specification() -> None:
    """Message sizes on 12.5 GB/s, one and two copies, one pin: hand-computed."""
    size = np.array([1024, 65536, 8 << 20])
    wire = size / 12.5e9
    assert np.round(hostcopy_seconds(size, wire) * 1e6, 2).tolist() == [2.15, 11.83, 1260.29]
    assert np.round(gpudirect_seconds(size, wire) * 1e6, 2).tolist() == [4.08, 9.24, 675.09]
    assert np.round(hostcopy_seconds(size, wire, PHYSICS) * 1e6, 2).tolist() == [
        4.23,
        18.42,
        1849.49,
    ]


def test_memory_that_stays_pinned_always_wins() -> None:
    assert break_even_bytes(PHYSICS) == 0.0
    assert (
        break_even_bytes(Paths(copies=0, pins=1, copy_latency=0, copy_per_byte=0, pin_seconds=1e-6))
        == math.inf
    )
    assert break_even_bytes(SEED_G) == 2e-6 / 0.07e-9
