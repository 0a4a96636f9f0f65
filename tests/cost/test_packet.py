"""The time of one copy: equations 9 and 10, their limits, names of links, and reads in flight."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.cost import packet
from turnbuckle.cost.loggp import loggp_seconds
from turnbuckle.cost.nvlink import Nvlink
from turnbuckle.cost.packet import (
    PAGEABLE_THRESHOLD,
    Link,
    copy_seconds,
    on_device_seconds,
    pageable_log_sd,
    read_limited,
)
from turnbuckle.cost.pcie import Pcie
from turnbuckle.cost.wire import WAYS, Way
from turnbuckle.machine import load, names

plain = settings(max_examples=100)
links: st.SearchStrategy[Link] = st.sampled_from(
    [Pcie(3, 16), Pcie(6, 4, mps=128), Pcie(2, legacy_headers=True), Nvlink(2, 2), Nvlink(5, 18)]
)
ways, sizes, latencies = st.sampled_from(WAYS), st.integers(0, 1 << 32), st.floats(0, 1e-3)


# --- time -----------------------------------------------------------------------------------------


@plain
@given(links, ways, st.integers(1, 1 << 32), latencies)
def test_pinned_is_equation_10(link: Link, way: Way, n: int, latency: float) -> None:
    wanted = latency + n / float(link.bandwidth(n, way))
    assert float(copy_seconds(n, link, way, latency=latency)) == pytest.approx(wanted, rel=1e-12)


@plain
@given(links, ways, st.integers(1, 1 << 32), st.floats(1e9, 1e12))
def test_pageable_is_equation_9(link: Link, way: Way, n: int, memory: float) -> None:
    pinned = float(copy_seconds(n, link, way, latency=2e-6))
    everywhere = float(
        copy_seconds(n, link, way, latency=2e-6, host_memory_bandwidth=memory, pageable_threshold=0)
    )
    assert everywhere == pytest.approx(pinned + 2 * n / memory, rel=1e-9)
    stepwise = float(copy_seconds(n, link, way, latency=2e-6, host_memory_bandwidth=memory))
    assert stepwise == (everywhere if n >= PAGEABLE_THRESHOLD else pinned)


@plain
@given(links, ways, sizes, st.integers(1, 1 << 30), latencies)
def test_longer_copies_take_longer(link: Link, way: Way, n: int, more: int, latency: float) -> None:
    for memory in (None, 50e9):
        short, long = copy_seconds(
            [n, n + more], link, way, latency=latency, host_memory_bandwidth=memory
        )
        assert latency <= short <= long


def test_an_empty_copy_takes_the_latency() -> None:
    for link in (Pcie(4), Nvlink(2, 2)):
        for memory in (None, 50e9):
            assert (
                float(
                    copy_seconds(
                        0,
                        link,
                        "read",
                        latency=3e-6,
                        host_memory_bandwidth=memory,
                        pageable_threshold=0,
                    )
                )
                == 3e-6
            )


def test_millions_at_once_are_one_by_one() -> None:
    n = np.random.default_rng(1).integers(0, 1 << 26, 100_000)
    found = copy_seconds(n, Pcie(4), "both", latency=2e-6, host_memory_bandwidth=1e11)
    for k in (0, 16383, 16384, 77777, 99_999):
        assert found[k] == float(
            copy_seconds(int(n[k]), Pcie(4), "both", latency=2e-6, host_memory_bandwidth=1e11)
        )


def test_on_the_device() -> None:
    n = np.array([0.0, 9e6, 9e8])
    assert on_device_seconds(n, 900e9, latency=2e-6) == pytest.approx(loggp_seconds(n, 2e-6, 900e9))


@pytest.mark.parametrize(
    ("file", "way", "within", "peak"), [("h2d", "read", 9.0, 20.0), ("d2h", "write", 2.0, 15.0)]
)
def test_copies_of_a_v100_as_measured(
    shared: Path, file: str, way: Way, within: float, peak: float
) -> None:
    """81 sizes on PCIe 3 x16, nothing fitted but the latency of the smallest: weighted error [%] of
    this law, and of peak bandwidth.
    """
    text = (
        shared / "traces" / "measured" / "superbench_v100_pcie_copy" / f"cuda_memory_{file}_bw.log"
    ).read_text(encoding="utf-8")
    found = re.findall(r"Bandwidth = ([0-9.]+) GB/s.*Size = ([0-9]+) bytes", text)
    n, rate = np.array([float(s) for _, s in found]), np.array([float(b) * 1e9 for b, _ in found])
    link, seconds = Pcie(3, 16), n / rate
    latency = float(seconds[0] - link.wire_seconds(n[0], way))

    def error(priced: np.ndarray) -> float:
        return 100 * float(np.abs(priced - seconds).sum() / seconds.sum())

    assert len(n) == 81 and error(copy_seconds(n, link, way, latency=latency)) < within
    assert error(loggp_seconds(n, latency, link.raw_bandwidth)) > peak


# --- pageable error -------------------------------------------------------------------------------


def test_the_error_is_wide_below_the_threshold_only() -> None:
    n = [0, 1024, 2**18, 2**19 - 1, 2**19, 2**24]
    found = pageable_log_sd(n, Pcie(3), "read", latency=2e-6, host_memory_bandwidth=50e9)
    assert found[0] == 0 and (np.diff(found[:4]) > 0).all() and found[4:].tolist() == [0, 0]
    inside = copy_seconds(2**18, Pcie(3), "read", latency=2e-6, host_memory_bandwidth=50e9)
    staged = copy_seconds(
        2**18, Pcie(3), "read", latency=2e-6, host_memory_bandwidth=50e9, pageable_threshold=0
    )
    assert math.log(float(staged / inside)) == pytest.approx(float(found[2])), (
        "a standard deviation up lies equation 9"
    )
    later = pageable_log_sd(
        n, Pcie(3), "read", latency=2e-6, host_memory_bandwidth=50e9, pageable_threshold=2**20
    )
    assert later[4] > 0 and later[5] == 0
    without = pageable_log_sd([0, 1], Pcie(3), "read", latency=0, host_memory_bandwidth=50e9)
    assert without[0] == 0 and np.isfinite(without).all(), (
        "no bytes and no latency: nothing to be wrong about"
    )


# --- reads in flight ------------------------------------------------------------------------------


def test_tags_limit_reads_as_little_has_it() -> None:
    """models.md 3.3: 256 tags of 512 B."""
    trips = (1.2e-6, 5.2e-6, 101e-6)
    found = [
        float(read_limited(2**30, Pcie(5), "read", tags=256, round_trip=r)) / 1e9 for r in trips
    ]
    assert found == pytest.approx([52.73, 25.2, 1.298], rel=1e-3)
    assert float(
        read_limited(2**30, Nvlink(2, 2), "read", tags=100, round_trip=1e-6)
    ) == pytest.approx(25.6e9)


@plain
@given(links, sizes, st.integers(1, 2048), st.floats(1e-7, 1e-3), st.floats(1, 10))
def test_limits_only_limit_reads(link: Link, n: int, tags: int, trip: float, longer: float) -> None:
    assert float(read_limited(n, link, "write", tags=tags, round_trip=trip)) == float(
        link.bandwidth(n, "write")
    )
    near, far = (
        float(read_limited(n, link, "read", tags=tags, round_trip=t)) for t in (trip, trip * longer)
    )
    assert 0 < far <= near <= float(link.bandwidth(n, "read"))
    assert float(read_limited(n, link, "both", tags=tags, round_trip=trip)) <= float(
        link.bandwidth(n, "both")
    )


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["PCIe4x16", "pcie4x16", "PCIe 4 x16", "pcie_4_x16", "pcie4_x16", "PCIe 4.0 x16", "PCIe4-x16"],
)
def test_a_link_has_one_name(text: str) -> None:
    assert packet.link(" pcie4-x16 ") == Pcie(4, 16)
    assert "called pcie4-x16" in refused("A016", packet.link, text).fix


def test_a_link_is_called_as_the_machine_that_has_it() -> None:
    linked = [name for name in names() if packet.is_link(name)]
    assert linked == sorted(
        f"pcie{generation}-x{lanes}" for generation in range(1, 7) for lanes in (1, 4, 8, 16)
    )
    for name in linked:
        one = packet.link(name)
        changed = {c.parameter: c.set.value for c in load(name).changes if c.set is not None}
        assert one.name == name and changed["link.h2d.bandwidth"] == pytest.approx(
            one.raw_bandwidth, rel=1e-3
        )


def test_names_come_back() -> None:
    for one in (Pcie(1, 1), Pcie(7, 32), Pcie(3, 12), Nvlink(2, 2), Nvlink(4, 18)):
        assert packet.link(one.name) == one


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("pci4x16", "pcie4-x16"),
        ("nvlnk2x2", "nvlink2-x2"),
        ("pcie4", "lanes, as in pcie4-x16"),
        ("nvlink3", "links, as in nvlink3-x2"),
        ("nvlink-c2c", "not published"),
        ("", "pcie4-x16"),
        ("pcie4-x6", "one of 1, 2, 4"),
        ("pcie9-x16", "one of 1, 2, 3"),
        ("nvlink2-x7", "one of 1, 2"),
        ("pcie4-x16" * 100, "pcie4-x16"),
        ("pcie\u0664x16", "x16"),
        ("\x1b[31mpcie4x16", "pcie4-x16"),
    ],
)
def test_names_that_are_none(text: str, hint: str) -> None:
    e = refused("A016", packet.link, text)
    assert hint in e.fix and e.found.isprintable() and len(e.found) <= 42


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"latency": -1e-6},
        {"latency": math.nan},
        {"latency": math.inf},
        {"latency": 1e300},
        {"host_memory_bandwidth": 1e-300},
        {"host_memory_bandwidth": 0.0},
        {"host_memory_bandwidth": -1.0},
        {"host_memory_bandwidth": math.inf},
        {"host_memory_bandwidth": 1e9, "pageable_threshold": -1.0},
        {"way": "sideways"},
    ],
)
def test_values_out_of_range(given: dict[str, Any]) -> None:
    way = given.pop("way", "read")
    assert refused("A017", copy_seconds, 1, Pcie(4), way, **{"latency": 1e-6, **given}).fix


def test_reads_and_memory_out_of_range() -> None:
    for tags, trip in ((0, 1e-6), (-1, 1e-6), (256, 0.0), (256, math.nan), (256, 1e300)):
        refused("A017", read_limited, 1, Pcie(4), "read", tags=tags, round_trip=trip)
    refused("A017", on_device_seconds, 1, 0.0, latency=0)
    refused("A018", copy_seconds, [1, -1], Pcie(4), "read", latency=0)
