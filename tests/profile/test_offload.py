"""The offload rule of the paper, the copies charged to kernels, and the lines of the map."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import copy, on_device, profile_of
from strategies import D2H, H2D, LAW, gpu_traces

from turnbuckle.profile.profile import build
from turnbuckle.profile.summary.offload import (
    disaggregation_penalty,
    map_lines,
    offload_map,
    offload_ratio_limit,
)
from turnbuckle.trace.trace import Trace


@LAW
@given(st.floats(1e-6, 10), st.floats(1e-6, 10), st.floats(1e-6, 10), st.floats(1.01, 100))
def test_the_rule_is_the_comparison_it_stands_for(
    bring: float, back: float, host: float, alpha: float
) -> None:
    """(T_beta + T_gamma) / T_c < (alpha - 1) / alpha exactly where T_beta + T_gamma + T_c / alpha <
    T_c.
    """
    offloaded = bring + back + host / alpha
    if abs(offloaded / host - 1) > 1e-9:
        assert ((bring + back) / host < offload_ratio_limit(alpha)) == (offloaded < host)


def test_printed_limits() -> None:
    """N.3.a2 and N.3.a5 of the published numbers."""
    assert offload_ratio_limit(2.0) == 0.5 and offload_ratio_limit(5.0) == 0.8
    assert np.allclose(offload_ratio_limit(np.array([1.0, 8.0])), [0.0, 0.875])


def test_penalties_of_distance() -> None:
    """2 dL / T for one copy in and one out, 3 dL / T with the launch; DGEMM of 1024 and up stays
    below 1 % (N.F9.dgemm).
    """
    assert disaggregation_penalty(2e-6, 80e-6) == pytest.approx(0.05)
    assert disaggregation_penalty(2e-6, 80e-6, launch=True) == pytest.approx(0.075)
    n = 1024
    compute, transfer = 2 * n**3 / 20e12, 3 * 8 * n**2 / (0.85 * 31.5e9)
    assert disaggregation_penalty(2e-6, compute + transfer + 4.5e-6, launch=True) < 0.01
    # four transfers each and the launch, 2 us each (N.F9.milc)
    milc_launches, window = (
        81_472,
        32.0,
    )
    assert milc_launches * 5 * 2e-6 / window < 0.05
    assert milc_launches * 5 * 2e-6 / window == pytest.approx(0.025, rel=0.05)


def test_copies_are_charged_to_the_kernel_they_serve() -> None:
    seen = profile_of(
        kernels=[
            on_device(10_000, 14_000),
            on_device(20_000, 30_000, name=1),
            on_device(40_000, 44_000),
            on_device(1_000, 2_000, device=1, name=1),
        ],
        copies=[
            copy(5_000, 8_000, H2D),
            copy(15_000, 16_000, H2D),
            copy(17_000, 18_000, D2H),
            copy(31_000, 33_000, D2H),
            copy(50_000, 51_000, H2D),
        ],
    )
    rows = {r["kernel"]: r for r in offload_map(seen, launch_s=1e-6, alpha=8.0).to_dicts()}
    a, b = rows["kernel_a"], rows["kernel_b"]
    assert (a["count"], b["count"]) == (2, 2)
    assert a["kernel_s"] == pytest.approx(4e-6) and b["kernel_s"] == pytest.approx(5.5e-6)
    assert a["transfer_s"] == pytest.approx((3e-6 + 1e-6) / 2), (
        "3 us before the first, 1 us after it; nothing follows the last copy"
    )
    assert b["transfer_s"] == pytest.approx((1e-6 + 2e-6) / 2), (
        "the other device's kernel is charged nothing"
    )
    assert (
        a["ratio"] == pytest.approx((2e-6 + 1e-6) / (8 * 4e-6))
        and a["limit"] == 0.875
        and a["pays"] == "yes"
    )
    assert a["total_s"] == pytest.approx(2 * (4e-6 + 2e-6 + 1e-6))
    assert list(rows) == ["kernel_b", "kernel_a"], "longest first"


def test_a_copy_serves_the_kernel_that_begins_as_it_ends() -> None:
    seen = profile_of(
        kernels=[on_device(10_000, 14_000), on_device(20_000, 30_000, name=1)],
        copies=[copy(8_000, 10_000, H2D), copy(30_000, 31_000, D2H), copy(14_000, 15_000, D2H)],
    )
    rows = {r["kernel"]: r["transfer_s"] for r in offload_map(seen, launch_s=0.0).to_dicts()}
    assert rows == pytest.approx({"kernel_a": 3e-6, "kernel_b": 1e-6})


def test_words_of_the_verdict() -> None:
    hidden = profile_of(
        kernels=[on_device(0, 40_000, stream=9, name=1), on_device(41_000, 42_000)],
        copies=[copy(10_000, 39_000, H2D), copy(90_000, 91_000, H2D)],
    )
    rows = {r["kernel"]: r for r in offload_map(hidden, launch_s=1.1e-6, alpha=2.0).to_dicts()}
    assert rows["kernel_a"]["pays"] == "no", (
        "29 us of copies for 1 us of work; the launch alone is more than half of the 2 us on "
        "the host"
    )
    rows = {r["kernel"]: r for r in offload_map(hidden, launch_s=0.0, alpha=2.0).to_dicts()}
    assert rows["kernel_a"]["pays"] == "with overlap only", (
        "hidden behind the other kernel, the copy costs nothing"
    )
    assert rows["kernel_a"]["exposed_transfer_s"] == 0.0 and rows["kernel_a"][
        "transfer_s"
    ] == pytest.approx(29e-6)


def test_without_kernels() -> None:
    table = offload_map(profile_of(copies=[copy(1, 2)]), 1e-6)
    assert table.height == 0 and {"kernel", "ratio", "limit", "pays", "total_s"} <= set(
        table.columns
    )


@LAW
@given(gpu_traces(), st.floats(1.1, 50))
def test_no_copy_is_charged_twice(trace: Trace, alpha: float) -> None:
    seen = build(trace)
    table = offload_map(seen, 2e-6, alpha)
    charged = (table["transfer_s"] * table["count"]).sum()
    assert charged <= seen.of("copy_h2d", "copy_d2h")["seconds"].sum() * (1 + 1e-9) + 1e-18
    assert (table["exposed_transfer_s"] <= table["transfer_s"] + 1e-15).all()
    assert table["count"].sum() == seen.of("kernel").height


@LAW
@given(st.floats(1e-7, 1e-4), st.floats(1.1, 50), st.floats(1e-7, 1e-4), st.floats(0, 1e-2))
def test_lines_of_the_map(launch: float, alpha: float, added: float, transfer: float) -> None:
    lines = map_lines(launch, alpha, added, np.array([transfer]))
    even = float(lines["break_even"][0])
    assert alpha * even == pytest.approx(transfer + launch + even), (
        "on the line the host is as fast"
    )
    for percent in (1, 5, 20):
        kernel = float(lines[f"penalty_{percent}"][0])
        assert kernel >= 0
        if kernel > 1e-9:
            assert disaggregation_penalty(
                added, kernel + transfer + launch, launch=True
            ) == pytest.approx(percent / 100)


def test_means_do_not_hang_on_the_order_of_a_sum() -> None:
    """The mean of 2,000 kernels is the sum of their nanoseconds over their number, to the bit:
    seconds add up by their order.
    """
    lengths = [1_000 + 7 * i * i % 90_001 for i in range(2_000)]
    starts = np.concatenate([[0], np.cumsum(lengths[:-1])]).tolist()
    seen = profile_of(
        kernels=[
            on_device(start, start + length) for start, length in zip(starts, lengths, strict=True)
        ]
    )
    (row,) = offload_map(seen, launch_s=1e-6).to_dicts()
    assert row["kernel_s"] == sum(lengths) / 1e9 / 2_000
