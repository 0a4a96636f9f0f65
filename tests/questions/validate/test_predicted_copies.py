"""Copies predicted by the line of others: the interval holds what was predicted, and grows with
what is not known.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.profile.transfers import LinkFit, size_bins
from turnbuckle.projection.elsewhere.priors import DEVICE, LINK, PEER, STAGED
from turnbuckle.questions.validate.copies import _line_interval


def line(latency: float, bandwidth: float | None, error: float, spread: float) -> LinkFit:
    line = (
        latency,
        error * latency,
        bandwidth,
        None if bandwidth is None else error * bandwidth,
        1.0,
        spread,
    )
    return LinkFit(
        "h2d",
        "pinned",
        9,
        9 << 20,
        *line,
        8,
        1 << 20,
        True,
        size_bins(np.array([8.0]), np.array([1e-6])),
    )


@given(
    st.floats(1e-7, 1e-4),
    st.floats(1e8, 1e12) | st.none(),
    st.sampled_from([0.0, 0.02, 0.5]),
    st.sampled_from([0.0, 0.05, 0.7]),
    st.sampled_from(["", DEVICE, PEER, LINK, STAGED]),
    st.lists(st.floats(1.0, 1e9), min_size=1, max_size=5),
)
def test_the_interval_holds_the_prediction(
    latency: float,
    bandwidth: float | None,
    error: float,
    spread: float,
    carried: str,
    sizes: list[float],
) -> None:
    fit, size = line(latency, bandwidth, error, spread), np.array(sizes)
    decade = np.floor(np.log10(size)).astype(int)
    count, moved = (
        np.bincount(decade, weights=w, minlength=32) for w in (np.ones(len(size)), size)
    )
    low, high = _line_interval(fit, count, moved, carried)
    predicted = float(fit.seconds(size).sum())
    assert low <= predicted * (1 + 1e-9) and predicted <= high * (1 + 1e-9)
    if not (error or spread or carried):
        assert [low, high] == pytest.approx([predicted, predicted])
