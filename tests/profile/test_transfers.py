"""Latency and bandwidth of copies: against another solver, against known truths, and against the
sample's own truth file.
"""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import least_squares
from strategies import FULL, H2D, LAW, PAGEABLE, PINNED, machine, trace_of

import turnbuckle as tb
from turnbuckle.examples import sample
from turnbuckle.machine import load
from turnbuckle.profile.profile import build
from turnbuckle.profile.source import observed_machine
from turnbuckle.profile.summary.describe import links
from turnbuckle.profile.transfers import (
    LinkFit,
    fit_class,
    fit_line,
    fit_links,
    known_links,
    link_findings,
    looks_like,
    reference_fit,
    size_bins,
)
from turnbuckle.trace.read import read
from turnbuckle.trace.trace import dtypes

SIZES = 2.0 ** np.arange(3, 27)


def copies(
    latency: float, bandwidth: float, noise: float, count: int, seed: int, outliers: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Sizes [B] and times [s] of copies on a line, with relative noise and a share of copies that
    took two to five times as long.
    """
    chance = np.random.default_rng(seed)
    size = chance.choice(SIZES, count)
    seconds = (latency + size / bandwidth) * np.exp(noise * chance.standard_normal(count))
    late = chance.random(count) < outliers
    return size, np.where(late, seconds * chance.uniform(2, 5, count), seconds)


@LAW
@given(
    st.floats(0.5e-6, 50e-6),
    st.floats(1e9, 500e9),
    st.floats(0.002, 0.2),
    st.integers(0, 10_000),
    st.sampled_from([0.0, 0.08]),
)
def test_same_line_as_scipys_huber(
    latency: float, bandwidth: float, noise: float, seed: int, outliers: float
) -> None:
    size, seconds = copies(latency, bandwidth, noise, 120, seed, outliers)
    (a, b), _, r2 = fit_line(size, seconds, rounds=200)
    spread = 1.4826 * np.median(np.abs(1.0 - (a + b * size) / seconds))
    unit = np.array([latency, 1.0 / bandwidth])

    def off(x: np.ndarray) -> np.ndarray:
        return np.asarray(1.0 - (x[0] * unit[0] + x[1] * unit[1] * size) / seconds)

    solved = least_squares(
        off,
        [1.0, 1.0],
        loss="huber",
        f_scale=1.345 * spread,
        bounds=(0.0, np.inf),
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
    )
    assert np.array([a, b]) / unit == pytest.approx(solved.x, rel=2e-4)
    assert r2 > 0.3, "the line tells sizes apart in the worst noise that is drawn"


@LAW
@given(st.floats(0.2e-6, 100e-6), st.floats(0.5e9, 900e9))
def test_exact_data_give_the_exact_line(latency: float, bandwidth: float) -> None:
    (a, b), covariance, r2 = fit_line(SIZES, latency + SIZES / bandwidth)
    assert a == pytest.approx(latency, rel=1e-8) and 1 / b == pytest.approx(bandwidth, rel=1e-8)
    assert r2 == pytest.approx(1.0, abs=1e-9)
    assert np.sqrt(covariance[0, 0]) < 1e-6 * latency and np.sqrt(covariance[1, 1]) < 1e-6 * b


@pytest.mark.parametrize("outliers", [0.0, 0.1])
def test_known_parameters_come_back(outliers: float) -> None:
    for seed in range(20):
        size, seconds = copies(2.0e-6, 26.8e9, 0.03, 400, seed, outliers)
        fit = fit_class("h2d", "pinned", size, seconds)
        assert fit.fitted and fit.bandwidth is not None
        assert fit.latency_s == pytest.approx(2.0e-6, rel=0.03) and fit.bandwidth == pytest.approx(
            26.8e9, rel=0.03
        )
        assert fit.residual_spread < (0.03 if not outliers else 0.15)
    plain = np.polyfit(size, seconds, 1)
    assert not outliers or abs(plain[1] / 2.0e-6 - 1) > 0.2, (
        "an ordinary least squares line is lost among the outliers"
    )


@pytest.mark.parametrize(("count", "outliers"), [(80, 0.0), (400, 0.0), (200, 0.1)])
def test_stated_errors_cover_the_truth(count: int, outliers: float) -> None:
    """Of many fits of one truth, 90 % intervals from the stated standard errors hold it about 90 %
    of the time.
    """
    inside = np.zeros(2)
    runs = 300
    for seed in range(runs):
        size, seconds = copies(3e-6, 12e9, 0.01, count, seed, outliers)
        (a, b), covariance, _ = fit_line(size, seconds)
        error = 1.645 * np.sqrt(np.diag(covariance))
        inside += np.abs([a - 3e-6, b - 1 / 12e9]) <= error
    assert (inside / runs >= 0.84).all() and (inside / runs <= 0.965).all()


def test_neither_part_is_negative() -> None:
    (a, b), _, _ = fit_line(SIZES, np.maximum(SIZES / 10e9 - 1e-6, 1e-9))
    assert a >= 0 and b > 0
    (a, b), _, _ = fit_line(SIZES, 5e-6 / (1 + SIZES / 1e9))
    assert a > 0 and b == 0


def test_too_little_to_tell_apart_is_read_off() -> None:
    """Few sizes, a narrow span, or times that do not grow: the smallest copies give latency, the
    largest bandwidth.
    """
    few = fit_class("h2d", "pinned", np.array([8.0, 8.0, 1e6]), np.array([2e-6, 4e-6, 103e-6]))
    assert not few.fitted and few.r2 is None and few.residual_spread > 0
    assert few.latency_s == pytest.approx(3e-6) and few.bandwidth == pytest.approx(1e10)
    small = fit_class("d2h", "pinned", np.full(9, 64.0), np.full(9, 2e-6))
    assert (small.latency_s, small.bandwidth, small.fitted) == (2e-6, None, False)
    assert small.seconds(np.array([1e9])).tolist() == [2e-6]
    large = fit_class("d2h", "pinned", np.full(9, 2.0**20), np.full(9, 40e-6))
    assert large.latency_s == 0.0 and large.bandwidth == pytest.approx(2.0**20 / 40e-6)
    flat = fit_class("h2d", "pinned", SIZES, 5e-6 / (1 + SIZES / 1e9))
    assert not flat.fitted
    nothing = fit_class("h2d", "pinned", np.array([8.0, 1e6]), np.zeros(2))
    assert (nothing.count, nothing.bandwidth, nothing.latency_s) == (2, None, 0.0)


def test_zero_durations_and_sizes_do_not_spoil_a_fit() -> None:
    size, seconds = copies(2e-6, 25e9, 0.02, 300, 1)
    spoilt = fit_class(
        "h2d", "pinned", np.append(size, [0.0, 4096.0]), np.append(seconds, [0.0, 0.0])
    )
    clean = fit_class("h2d", "pinned", size, seconds)
    assert (spoilt.latency_s, spoilt.bandwidth) == (clean.latency_s, clean.bandwidth)
    assert spoilt.count == clean.count + 2
    with_empty = fit_class(
        "h2d", "pinned", np.append(size, np.zeros(20)), np.append(seconds, np.full(20, 2e-6))
    )
    assert with_empty.latency_s == pytest.approx(2e-6, rel=0.03)


def test_bins_hold_every_copy() -> None:
    size, seconds = copies(2e-6, 25e9, 0.02, 500, 3)
    bins = size_bins(np.append(size, 0.0), np.append(seconds, 1e-6))
    assert bins["count"].sum() == 501 and bins["total_bytes"].sum() == size.sum()
    assert bins["octave"].to_list() == sorted(set(bins["octave"].to_list()))
    rates = bins["bandwidth"].to_numpy()
    assert (np.diff(rates[-8:]) > -0.1 * rates[-8:-1]).all(), "large copies reach more of the link"


def test_many_copies_are_thinned_evenly() -> None:
    size, seconds = copies(2e-6, 25e9, 0.02, 300_000, 5)
    fit = fit_class("h2d", "pinned", size, seconds)
    assert fit.count == 300_000 and fit.size_bytes == int(size.sum())
    assert fit.latency_s == pytest.approx(2e-6, rel=0.005) and fit.bandwidth == pytest.approx(
        25e9, rel=0.005
    )


def test_links_by_their_rate() -> None:
    assert [n.name for n in looks_like(24.1e9)] == ["PCIe 4 x16", "PCIe 5 x8"]
    assert [n.name for n in looks_like(12.3e9)] == ["PCIe 3 x16", "PCIe 4 x8"]
    assert [n.name for n in looks_like(55e9)] == ["PCIe 5 x16"]
    assert [n.name for n in looks_like(374e9, ["NVIDIA GH200 480GB"])] == ["NVLink-C2C"]
    assert [n.name for n in looks_like(31.5e9 * 1.019)] == ["PCIe 4 x16", "PCIe 5 x8"], (
        "2 % for rounding"
    )
    assert looks_like(460e9, ["NVIDIA GH200 480GB"]) == ()
    assert all(n.source for n in known_links())
    for link in known_links():
        found = looks_like(link.bandwidth, sorted(link.gpus))
        assert found and all(
            0.97 * link.bandwidth <= n.bandwidth <= link.bandwidth for n in found
        ), link.name


@pytest.mark.parametrize(
    ("devices", "coupling", "named"),
    [
        ([], "pcie", ["PCIe 5 x16"]),
        (["NVIDIA GeForce RTX 5090"], "pcie", ["PCIe 5 x16"]),
        (["AMD Instinct MI300X VF"], "pcie", ["PCIe 5 x16"]),
        (["AMD Instinct MI250X"], "pcie", ["Infinity Fabric CPU to GCD"]),
        (["Tesla V100-SXM2-16GB"], "pcie", ["NVLink 2 x2 (Summit)"]),
        ([], "nvlink", ["NVLink 2 x2 (Summit)"]),
        (["NVIDIA GH200 480GB"], "c2c", ["NVLink-C2C"]),
        (["NVIDIA GH200 144G HBM3e"], "pcie", ["NVLink-C2C"]),
        (["AMD Instinct MI300A"], "apu", []),
    ],
)
def test_a_link_is_named_only_for_a_machine_that_has_it(
    devices: list[str], coupling: str, named: list[str]
) -> None:
    assert [n.name for n in looks_like(34e9, devices, coupling)] == named


@pytest.mark.parametrize(
    ("device", "nominal", "coupling"),
    [
        ("GeForce RTX 5070", 63e9, "pcie"),
        ("MI250X of another name", 36e9, "xgmi"),
        ("", 63e9, "pcie"),
    ],
)
def test_an_unknown_machine_has_the_link_that_its_device_can_have(
    device: str, nominal: float, coupling: str
) -> None:
    with sample() as path:
        profile = build(read(path, use_cache=False))
    untold = [
        pl.lit(None, kind).alias(column)
        for column, kind in dtypes("devices").items()
        if column != "device"
    ]
    named = profile.trace.devices.with_columns(untold).with_columns(
        name=pl.lit(device or None, pl.String)
    )
    tables = {**profile.trace.tables, "devices": named}
    faster = profile.activities.with_columns(seconds=pl.col("seconds") * 26.5 / 34)
    other = replace(profile, trace=replace(profile.trace, tables=tables), activities=faster)
    source, fits, found = observed_machine(other)
    assert source.coupling == coupling and source.value("link.h2d.bandwidth") == nominal
    assert [f.severity for f in found if f.code == "M101"] == ["warning"]
    assert links(source, fits)["h2d"]["looks_like"] == [n.name for n in looks_like(34e9, [device])]


def test_the_reference_class_shows_the_link() -> None:
    def fit(memory: str, size_bytes: int, bandwidth: float | None = 1e9) -> LinkFit:
        size, seconds = copies(2e-6, 25e9, 0.0, 50, 0)
        plain = fit_class("h2d", memory, size, seconds)
        return LinkFit(**{**plain.__dict__, "size_bytes": size_bytes, "bandwidth": bandwidth})

    fits = {
        ("h2d", m): fit(m, n)
        for m, n in (("pageable", 900), ("pinned", 10), ("managed", 500), ("unknown", 700))
    }
    assert reference_fit(fits, "h2d") is fits["h2d", "pinned"], "pinned copies, however few"
    assert reference_fit(fits, "d2h") is None
    del fits["h2d", "pinned"]
    assert reference_fit(fits, "h2d") is fits["h2d", "unknown"], "else whichever moved most"
    assert reference_fit({("h2d", "pageable"): fits["h2d", "pageable"]}, "h2d") is None, (
        "never what the driver stages"
    )
    assert reference_fit({("h2d", "pinned"): fit("pinned", 10, None)}, "h2d") is None


def test_findings_of_links() -> None:
    size, seconds = copies(2e-6, 12e9, 0.0, 50, 0)
    slow = {("h2d", "pinned"): fit_class("h2d", "pinned", size, seconds)}
    assert [f.code for f in link_findings(slow, {"h2d": 31.5e9})] == ["P201"]
    assert [f.code for f in link_findings(slow, {"h2d": 15.75e9})] == []
    assert [f.code for f in link_findings({}, {})] == ["P203"]
    staged = {("h2d", "pageable"): fit_class("h2d", "pageable", np.full(5, 8.0), np.full(5, 2e-6))}
    assert sorted(f.code for f in link_findings(staged, {})) == ["P202", "P206"]


@pytest.mark.parametrize("name", ["milc-like-synthetic", "dgemm-like-synthetic"])
def test_the_sample_gives_its_truth_back(name: str) -> None:
    """The fits of the shipped recordings hold the parameters they were written with, within the
    stated spread.
    """
    folder = files("turnbuckle") / "examples"
    truth = json.loads((folder / f"{name}.truth.json").read_text(encoding="utf-8"))
    with sample() as path:
        profile = build(read(path.with_name(f"{name}.sqlite"), use_cache=False))
    fits = fit_links(profile)
    assert fits, "the sample moves data"
    for (direction, memory), fit in fits.items():
        if direction not in ("h2d", "d2h"):
            continue
        wanted = truth["copies"][f"{direction}_{memory}"]
        line = fit.seconds(np.array([fit.smallest_bytes, fit.largest_bytes], dtype=float))
        drawn = (
            wanted["latency_seconds"]
            + np.array([fit.smallest_bytes, fit.largest_bytes]) / wanted["bandwidth"]
        )
        assert line == pytest.approx(drawn, rel=2.5 * wanted["relative_spread"]), (
            direction,
            memory,
        )
        if fit.fitted:
            assert fit.bandwidth == pytest.approx(
                wanted["bandwidth"], rel=wanted["relative_spread"]
            )
            assert fit.latency_s == pytest.approx(
                wanted["latency_seconds"],
                rel=3 * wanted["relative_spread"],
                abs=4 * fit.latency_error,
            )
    source, _, _ = observed_machine(profile)
    nominal = source.value("link.h2d.bandwidth")
    assert nominal is not None and nominal == pytest.approx(truth["link_peak_bandwidth"], rel=1e-3)
    assert source.value("link.h2d.efficiency") == pytest.approx(
        truth["copies"]["h2d_pinned"]["bandwidth"] / nominal, rel=0.025
    )
    call = source.value("launch.call")
    assert call == pytest.approx(truth["launch_call_seconds"], rel=0.1)
    assert source.value("launch.latency") == pytest.approx(
        truth["launch_call_seconds"] + truth["launch_to_start_seconds"], rel=0.1
    )


def test_a_named_source_keeps_what_the_run_does_not_show() -> None:
    with sample() as path:
        profile = build(read(path, use_cache=False))
    named = machine({**FULL, "link.h2d.bandwidth": 63e9, "gpu.fp64_matrix": 67e12}, "named")
    source, fits, _ = observed_machine(profile, named)
    assert source.name == "named" and source.value("gpu.fp64_matrix") == 67e12
    assert source.value("link.h2d.bandwidth") == 63e9, (
        "a stated link that could have carried it stands"
    )
    reached = (source.value("link.h2d.bandwidth") or 0) * (source.value("link.h2d.efficiency") or 0)
    assert reached == pytest.approx(fits["h2d", "pinned"].bandwidth)
    slower, _, _ = observed_machine(profile, machine({**FULL, "link.h2d.bandwidth": 10e9}, "named"))
    assert slower.value("link.h2d.bandwidth") == 31.5e9, (
        "a stated link that could not have carried it gives way"
    )


@LAW
@given(
    st.lists(st.integers(1, 4096), min_size=4, max_size=60, unique=True),
    st.integers(200, 5_000),
    st.integers(1, 3),
)
def test_times_that_do_not_depend_on_size_tell_no_bandwidth(
    sizes: list[int], ns: int, copies: int
) -> None:
    """Not one of 1e25 B/s either, which the rounding of a slope of nothing would be."""
    n = np.array(sizes * copies, dtype=np.float64)
    found = fit_class("d2h", "pageable", n, np.full(len(n), ns * 1e-9))
    assert found.bandwidth is None and not found.fitted
    assert found.latency_s == pytest.approx(ns * 1e-9)


@LAW
@given(st.integers(0, 2**32 - 1), st.integers(8, 60))
def test_a_bandwidth_within_its_own_error_is_not_stated(seed: int, count: int) -> None:
    chance = np.random.default_rng(seed)
    n = np.geomspace(8, 4096, count)
    found = fit_class("d2h", "pageable", n, 2e-6 * chance.lognormal(0.0, 0.3, count))
    assert found.bandwidth is None or (
        found.bandwidth_error is not None and found.bandwidth_error < found.bandwidth
    )


@LAW
@given(
    st.sampled_from([5_120.0, 40_000.0, 1e6, 1e8]),
    st.floats(1e-6, 1e-5),
    st.floats(1e9, 1e12),
    st.floats(-0.2, 0.3),
)
def test_what_is_read_off_is_worth_its_error(
    largest: float, latency: float, bandwidth: float, off: float
) -> None:
    """A large copy that takes hardly longer than a small one tells no bandwidth; another tells it
    as well as the latency.
    """
    few = np.array([8.0, largest, largest])
    found = fit_class(
        "h2d", "pageable", few, np.append(latency * (1 + off), latency + few[1:] / bandwidth)
    )
    least = largest / bandwidth - latency * off
    assert (found.bandwidth is not None) == (least > 0.35 * latency * (1 + off))
    if found.bandwidth is not None and found.bandwidth_error is not None:
        assert (
            abs(1 / found.bandwidth - 1 / bandwidth)
            <= 1.01 * found.bandwidth_error / found.bandwidth**2
        )


def test_a_large_copy_faster_than_the_small_ones_is_no_link() -> None:
    """2 us for 5 kB where 4 B take 4 us: not 51 GB/s."""
    found = fit_class(
        "h2d", "pageable", np.array([4.0] * 8 + [5_120.0] * 8), np.array([4e-6] * 8 + [2e-6] * 8)
    )
    assert (
        found.latency_s == pytest.approx(4e-6)
        and found.bandwidth is None
        and found.bandwidth_error is None
    )


def test_a_class_beside_the_link_is_as_sure_as_its_own_slope() -> None:
    """Scattered copies of a few sizes: the line's form hides most of what is not known of its
    slope.
    """
    chance = np.random.default_rng(7)
    size = np.array([8.0, 512.0, 4_000.0, 11_856.0] * 4)
    seconds = (2e-6 + size / 8e9) * chance.lognormal(0.0, 0.3, len(size))
    times = [
        *zip(
            [1 << k for k in range(8, 24)],
            [2e-6 + 2.0**k / 24e9 for k in range(8, 24)],
            [PINNED] * 16,
            strict=True,
        )
    ]
    times += zip(size.astype(int).tolist(), seconds.tolist(), [PAGEABLE] * len(size), strict=True)
    rows, now = [], 1_000
    for n, took, memory in times:
        place = {"process": 1 << 24, "device": 0, "context": 1, "stream": 7, "direction": H2D}
        rows.append(
            {
                **place,
                "start_ns": now,
                "end_ns": now + round(took * 1e9),
                "size_bytes": n,
                "source_memory": memory,
            }
        )
        now += round(took * 1e9) + 1_000
    machine, fits, _ = observed_machine(build(trace_of({"copies": rows})))
    fit, stated = fits["h2d", "pageable"], machine.get("observed.h2d.pageable.bandwidth")
    assert fit.fitted and fit.bandwidth and fit.bandwidth_error and stated is not None
    assert stated.error == pytest.approx(
        min(max(fit.bandwidth_error / fit.bandwidth, fit.residual_spread), 0.5)
    )
    assert stated.error > fit.residual_spread, "else this run would not tell"


def test_regions_that_are_there_at_once_are_no_link() -> None:
    """A device of the host's own memory maps 75 KiB in 140 ns: no link reaches 547 GB/s, and the
    stated one stays.
    """
    case = Path(__file__).parents[2] / "validation" / "cases" / "distance_opencv_filters"
    machine_file = str(case / "machine.toml")
    stated, seen = load(machine_file), tb.read(case / "recording", source=machine_file)
    fit = fit_links(seen.profile)["h2d", "unknown"]
    assert fit.bandwidth is not None and fit.bandwidth > 5e11, "the case still shows it"
    for direction in ("h2d", "d2h"):
        assert (
            seen.source.parameters[f"link.{direction}.bandwidth"].value
            == stated.parameters[f"link.{direction}.bandwidth"].value
        )
