"""The product study: the paper's figure, both modes of kernel time, and where moving pays."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import turnbuckle as tb
from turnbuckle.papers.models.dgemm.figures import dgemm_figure, panels
from turnbuckle.papers.models.dgemm.question import (
    break_even_bandwidth,
    by_alpha,
    copy_seconds,
    host_seconds,
    measured,
    operations,
    read_times,
    recorded,
    study,
)
from turnbuckle.profile.summary.offload import offload_ratio_limit
from turnbuckle.show.figures.figure import draw

drawn = settings(max_examples=60)
SAMPLE = Path(tb.__file__).parent / "examples" / "dgemm-like-synthetic.sqlite"
sizes, rates, alphas = st.integers(16, 20000), st.floats(1e11, 1e14), st.floats(1.01, 100)


@pytest.fixture(scope="module")
def profile() -> tb.Profile:
    return tb.read(SAMPLE).profile


def test_the_papers_figure() -> None:
    """Alpha 8 over 2.5 TFLOP/s: near 7 for 4096 at 400 GB/s, 5.04 for 1024, twice the host from 78
    GB/s.
    """
    found = study(by_alpha(8.0))
    small, _, large = found.products
    assert large.speedup[0, -1] == pytest.approx(6.97785, rel=1e-4)
    assert small.speedup[0, -1] == pytest.approx(5.0443, rel=1e-4)
    assert break_even_bandwidth(1024, 2.5e12, small.kernel_seconds, speedup=2) == pytest.approx(
        78.1e9, rel=1e-3
    )
    assert float(operations(1024)) == 2 * 1024**3
    assert found.times.mode == "alpha" and "host time / 8" in found.times.source


@drawn
@given(sizes, rates, alphas, st.floats(1e8, 1e13), st.floats(0, 1e-3))
def test_moving_pays_exactly_where_the_rule_says(
    n: int, host_rate: float, alpha: float, bandwidth: float, launch: float
) -> None:
    host, copies = float(host_seconds(n, host_rate)), float(copy_seconds(n, bandwidth))
    kernel = float(by_alpha(alpha, host_rate).seconds_of(n))
    ratio, limit = (launch + copies) / host, float(offload_ratio_limit(alpha))
    if abs(ratio - limit) > 1e-9:
        assert (launch + copies + kernel < host) == (ratio < limit)


@drawn
@given(sizes, rates, alphas, st.floats(1, 10), st.floats(0, 1e-3))
def test_break_even_is_where_both_take_the_same_time(
    n: int, host_rate: float, alpha: float, speedup: float, launch: float
) -> None:
    kernel = float(by_alpha(alpha, host_rate).seconds_of(n))
    needed = break_even_bandwidth(n, host_rate, kernel, launch, speedup, latency=1e-6)
    if math.isinf(needed):
        assert float(host_seconds(n, host_rate)) / speedup <= launch + kernel + 3e-6
    else:
        spent = launch + float(copy_seconds(n, needed, 1e-6)) + kernel
        assert spent * speedup == pytest.approx(float(host_seconds(n, host_rate)), rel=1e-6)


@drawn
@given(alphas, st.floats(1e-7, 1e-3), st.floats(1e9, 1e12))
def test_the_smallest_size_that_pays_is_the_smallest(
    alpha: float, launch: float, bandwidth: float
) -> None:
    (found,) = study(by_alpha(alpha), launches=[launch], bandwidths=[bandwidth]).pays_from.ravel()

    def pays(n: float) -> bool:
        times = by_alpha(alpha)
        return launch + float(copy_seconds(n, bandwidth) + times.seconds_of(n)) < float(
            host_seconds(n, 2.5e12)
        )

    if math.isnan(found):
        assert not pays(10_000_000)
    else:
        assert pays(found) and (found == 1 or not pays(found - 1))


def test_bandwidth_helps_and_launches_cost() -> None:
    for p in study(by_alpha(8.0)).products:
        assert (np.diff(p.speedup, axis=1) > 0).all() and (np.diff(p.speedup, axis=0) < 0).all()
        assert (p.speedup < p.alpha).all() and (np.diff(p.needed) > 0).all()
    widest = study(by_alpha(8.0), bandwidths=[1e18], launches=[0.0]).products
    assert [float(p.speedup[0, 0]) for p in widest] == pytest.approx([8.0] * 3, rel=1e-6)


def test_sizes_of_a_recording_are_read_off_its_copies(profile: tb.Profile) -> None:
    times, left_out = recorded(profile)
    assert times.mode == "measured" and left_out == 0
    assert (
        times.sizes.tolist() == [144, 256, 512, 1024, 2048, 4096, 8192]
        and times.counts.tolist() == [5] * 7
    )
    # the times it was made from, within their spread
    assert times.seconds_of(np.array([1024.0, 8192.0])) == pytest.approx(
        [203.9e-6, 66.3e-3], rel=0.05
    )
    found = study(times)
    assert all(
        p.kernel_ends is not None and p.kernel_ends[0] < p.kernel_seconds < p.kernel_ends[1]
        for p in found.products
    )
    assert all((p.low <= p.speedup).all() and (p.speedup <= p.high).all() for p in found.products)


def test_the_recording_pays_from_where_it_says(profile: tb.Profile) -> None:
    times, _ = recorded(profile)
    found = study(times, launches=[4.5e-6], bandwidths=[25e9])
    (n,) = found.pays_from.ravel()
    pays = [
        4.5e-6 + float(copy_seconds(m, 25e9) + times.seconds_of(m)) < float(host_seconds(m, 2.5e12))
        for m in (n - 1, n)
    ]
    assert pays == [False, True]


def test_one_size_for_all_and_other_elements(profile: tb.Profile) -> None:
    times, _ = recorded(profile, size=100)
    assert times.sizes.tolist() == [100] and times.counts.tolist() == [35]
    refused("A160", recorded, profile, element_bytes=7)
    refused("A160", recorded, profile, "no such kernel")


def test_a_size_without_copies_is_refused(shared: Path) -> None:
    (path,) = (shared / "traces" / "nsys" / "nvfuser_matmul_h100").glob("*.sqlite")
    run = tb.read(path).profile
    assert "--size" in refused("A160", recorded, run, "nvjet", element_bytes=2).fix
    times, _ = recorded(run, "nvjet", size=2048)
    assert float(times.seconds_of(2048)) == pytest.approx(90.239e-6)


def test_measured_products_of_azure(shared: Path, tmp_path: Path) -> None:
    """Half precision on an A100: 1024 is worth its copies over PCIe 4 at 2.5 TFLOP/s, though the
    link takes 2/3 of the time.
    """
    import re

    text = (shared / "traces/measured/azure_nd_a100_h100/ND_A100_v4_results.md").read_text(
        encoding="utf-8"
    )
    rows = re.findall(r"^\| (\d+)\s+\| (\d+)\s+\| (\d+)\s+\| ([\d.]+)", text, re.MULTILINE)
    path = tmp_path / "a100.csv"
    path.write_text(
        "size, rate [TFLOP/s]\n" + "".join(f"{m}, {r}\n" for m, n, k, r in rows if m == n == k),
        encoding="utf-8",
    )
    times = read_times(path)
    assert times.sizes.tolist() == [1024, 2048, 4096, 8192, 16384]
    assert float(times.seconds_of(4096)) == pytest.approx(2 * 4096**3 / 228e12)
    found = study(times, bandwidths=[26.28e9], launches=[4.5e-6], latency=2e-6, element_bytes=2)
    assert [float(p.speedup[0, 0]) for p in found.products] == pytest.approx(
        [3.21, 6.57, 12.37, 22.36, 36.81], rel=2e-3
    )


def test_measured_times_go_through_the_points_and_not_beyond() -> None:
    times = measured([1000, 2000, 1000], [1e-3, 8e-3, 3e-3], "here")
    assert times.seconds_of(np.array([1000.0, 2000.0])) == pytest.approx([2e-3, 8e-3])
    assert 2e-3 < float(times.seconds_of(1500)) < 8e-3
    for beyond in (999.0, 2001.0):
        refused("A160", times.seconds_of, beyond)
    refused("A160", study, times, sizes=[4096])
    never = study(measured([100, 200], [1.0, 1.0], "slow"))
    assert np.isnan(never.pays_from).all() and all(
        p.ratio_limit == 0.0 and np.isinf(p.needed).all() for p in never.products
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("size, time\n1024, 1 ms\n2048,\n", "A063 A047"),
        ("size, time, rate\n1024, 1 ms, 1 TFLOP/s\n", "A047"),
        ("size\n1024\n", "A047"),
        ("size, time\n", "A047"),
        ("size, time\n0, 1 ms\n", "A063"),
        ("size, time\n1024, 1\n", "U001"),
    ],
)
def test_bad_tables(tmp_path: Path, text: str, code: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(tb.TurnbuckleError) as caught:
        read_times(path)
    assert caught.value.code in code.split()


@pytest.mark.parametrize(
    "wrong",
    [
        {"sizes": [0]},
        {"host_rate": 0.0},
        {"launches": [-1e-6]},
        {"bandwidths": [0.0]},
        {"latency": math.nan},
        {"element_bytes": 0},
        {"launches": [math.nan]},
    ],
)
def test_numbers_that_cannot_be(wrong: dict[str, object]) -> None:
    refused("A047", study, by_alpha(8.0), **wrong)


@pytest.mark.parametrize("alpha", [1.0, 0.0, -8.0, math.nan, math.inf])
def test_alpha_is_a_speedup(alpha: float) -> None:
    refused("A047", by_alpha, alpha)


def test_the_figure(profile: tb.Profile) -> None:
    times, _ = recorded(profile)
    bandwidths = np.geomspace(12.5e9, 400e9, 9)
    many = study(times, bandwidths=bandwidths)
    assert [p.size for p in panels(many)] == [144, 1024, 8192]
    (figure,) = draw([dgemm_figure(many)])
    assert (
        all(
            f"N = {n}" in figure.svg
            for n in ("144", "1\N{NARROW NO-BREAK SPACE}024", "8\N{NARROW NO-BREAK SPACE}192")
        )
        and "launch time" in figure.svg
        and "measured" in figure.caption
    )
    assert len(figure.rows) == 7 * 6 * 9
    (one,) = draw(
        [dgemm_figure(study(by_alpha(8.0), sizes=[1024], launches=[0.0], bandwidths=bandwidths))]
    )
    assert (
        one.svg.count("kernel alone") == figure.svg.count("kernel alone") // 3
        and "Nobody measured" in one.caption
    )
    steep = dgemm_figure(study(by_alpha(500.0), bandwidths=bandwidths))
    (_, row) = steep.spec["vconcat"]
    scales = {
        layer["encoding"]["y"]["scale"].get("type")
        for panel in row["hconcat"]
        for layer in panel["layer"]
    }
    assert scales == {"log"}, "small products are not left on the floor"


def test_a_slow_link_only_needs_a_larger_product() -> None:
    """By hand: 24 N^2 / BW < 7/8 2 N^3 / F, so N > 24 8 F / (7 2 BW)."""
    found = study(by_alpha(8.0), launches=[0.0], bandwidths=[1e8, 1e3])
    assert math.isnan(found.pays_from[0, 0]), "not up to the largest size that may be asked for"
    assert found.pays_from[0, 1] == math.floor(24 * 8 * 2.5e12 / (7 * 2 * 1e8)) + 1


def test_launches_and_bandwidths_ascend() -> None:
    found = study(by_alpha(8.0), launches=[5e-4, 0.0, 5e-4], bandwidths=[4e11, 1e10])
    assert found.launches.tolist() == [0.0, 5e-4] and found.bandwidths.tolist() == [1e10, 4e11]
    assert (np.diff(found.products[0].speedup, axis=1) > 0).all()
