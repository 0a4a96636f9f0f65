"""PCI Express: published bandwidths, and the vectorised law against packets counted one by one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.cost.pcie import (
    BOUNDARIES,
    LANES,
    PAYLOADS,
    RATE,
    Pcie,
    acknowledgement_interval,
    efficiency,
    published_read_bytes,
)
from turnbuckle.cost.wire import WAYS, Way

plain = settings(max_examples=150)
links = st.builds(
    lambda rcb, **given: Pcie(rcb=min(rcb, given["mps"]), **given),
    rcb=st.sampled_from(BOUNDARIES),
    generation=st.sampled_from(sorted(RATE)),
    lanes=st.sampled_from(LANES),
    mps=st.sampled_from(PAYLOADS),
    mrrs=st.sampled_from(PAYLOADS),
    completion=st.sampled_from(("mps", "rcb")),
    address_bits=st.sampled_from((32, 64)),
    ecrc=st.booleans(),
    interval=st.sampled_from(("bytes", "symbols")),
    legacy_headers=st.booleans(),
)
ways, sizes = st.sampled_from(WAYS), st.integers(1, 1 << 22)


def counted(link: Pcie, n: int, way: Way) -> tuple[int, int]:
    """Bytes each way, packet by packet."""

    def packets(payload: int, header: int, data: bool) -> int:
        left, total = n, 0
        while left > 0:
            total += header + (min(left, payload) if data else 0)
            left -= payload
        return total

    writes = packets(link.mps, link.request_header, True)
    requests = packets(link.mrrs, link.request_header, False)
    answers = packets(link.completion_bytes, link.completion_header, True)
    if link.legacy_headers and way == "read":
        return 0, (link.request_header + answers if n else 0)
    return {
        "write": (writes, 0),
        "read": (requests, answers),
        "both": (writes + requests, answers),
    }[way]


# --- published ------------------------------------------------------------------------------------


def test_generation_3_as_published() -> None:
    """models.md 3.1, of pcie-model: 14.21 GB/s for packets on 16 lanes; 13.18, 12.99, 12.46 at
    length; 10.83, 10.34, 8.12 at 64 B.
    """
    link = Pcie(3, 16, mps=256, mrrs=512)
    assert link.packet_bandwidth / 1e9 == pytest.approx(14.21, abs=0.005)
    for size, wanted in ((2**30, (13.18, 12.99, 12.46)), (64, (10.83, 10.34, 8.12))):
        assert [
            float(link.bandwidth(size, way)) / 1e9 for way in ("read", "write", "both")
        ] == pytest.approx(wanted, abs=0.005)


def test_rates_of_the_generations() -> None:
    """16 lanes after the line code: 4, 8, 15.75, 31.5, 63 and 121 GB/s (models.md 6)."""
    assert [Pcie(g, 16).raw_bandwidth / 1e9 for g in range(1, 8)] == pytest.approx(
        [4, 8, 15.754, 31.508, 63.015, 121, 242], abs=1e-3
    )


@pytest.mark.parametrize(
    ("generation", "lanes", "wanted"),
    [
        (1, 1, [237, 416, 559, 1071, 2095, 4143]),
        (1, 4, [73, 118, 154, 282, 538, 1050]),
        (1, 32, [33, 45, 52, 84, 148, 276]),
        (2, 2, [179, 268, 340, 596, 1108, 2132]),
        (2, 8, [118, 158, 137, 201, 329, 585]),
        (3, 8, [163, 203, 182, 246, 374, 630]),
        (5, 16, [144, 168, 182, 246, 374, 630]),
    ],
)
def test_acknowledgement_intervals_of_the_specification(
    generation: int, lanes: int, wanted: list[int]
) -> None:
    assert [acknowledgement_interval(generation, lanes, mps) for mps in PAYLOADS] == wanted


def test_headers() -> None:
    """20 or 24 bytes, 20 for completions, 4 more with an ECRC; 8 or 12 as the paper has them
    (D5).
    """
    assert [
        (Pcie(3, address_bits=b).request_header, Pcie(3, address_bits=b).completion_header)
        for b in (32, 64)
    ] == [(20, 20), (24, 20)]
    assert (Pcie(3, ecrc=True).request_header, Pcie(3, ecrc=True).completion_header) == (28, 24)
    legacy = [Pcie(3, address_bits=b, legacy_headers=True) for b in (32, 64)]
    assert [(one.request_header, one.completion_header) for one in legacy] == [(8, 8), (12, 12)]


@pytest.mark.parametrize(
    ("legacy", "read", "write"),
    [(False, (0.762, 0.865, 0.928), (0.842, 0.914)), (True, (0.842, 0.914, 0.955), (0.914, 0.955))],
)
def test_efficiencies_at_length(
    legacy: bool, read: tuple[float, ...], write: tuple[float, ...]
) -> None:
    """models.md 1.11, headers full and as printed."""
    link = Pcie(3, completion="rcb", legacy_headers=legacy)
    assert [
        float(efficiency(2**30, replace(link, rcb=rcb), "read")) for rcb in (64, 128, 256)
    ] == pytest.approx(read, abs=6e-4)
    assert [
        float(efficiency(2**30, replace(link, mps=mps, rcb=64), "write")) for mps in (128, 256)
    ] == pytest.approx(write, abs=6e-4)


def test_the_printed_request_carries_data() -> None:
    printed = Pcie(3, completion="rcb", legacy_headers=True, legacy_mrrs=True)
    assert [float(n) for n in printed.wire_bytes([0, 1], "read")[1]] == [0, 537]
    assert float(replace(printed, legacy_mrrs=False).wire_bytes(1, "read")[1]) == 25
    assert float(published_read_bytes(0.0, 12, 64, 12)) == 12


def test_legacy_headers_take_no_link_layer() -> None:
    link = Pcie(3, 16, legacy_headers=True)
    assert link.share == 1.0 and link.packet_bandwidth == link.raw_bandwidth
    assert float(link.bandwidth(2**30, "write")) > float(Pcie(3, 16).bandwidth(2**30, "write"))


def test_counting_in_symbols_leaves_more() -> None:
    """A symbol time carries a byte on every lane: the same interval is 16 times as many bytes."""
    link, other = Pcie(3, 16), Pcie(3, 16, interval="symbols")
    assert 1 - other.share - 4 / 1538 == pytest.approx((1 - link.share - 4 / 1538) / 16)
    assert Pcie(3, 1).share == Pcie(3, 1, interval="symbols").share


# --- laws -----------------------------------------------------------------------------------------


@plain
@given(links, ways, sizes)
def test_as_many_bytes_as_packets_counted(link: Pcie, way: Way, n: int) -> None:
    sent, received = counted(link, n, way)
    assert tuple(map(float, link.wire_bytes(n, way))) == (sent, received)
    assert float(link.wire_seconds(n, way)) == pytest.approx(
        max(sent, received) / link.packet_bandwidth, rel=1e-12
    )
    assert float(link.bandwidth(n, way)) == pytest.approx(
        n * link.packet_bandwidth / max(sent, received), rel=1e-12
    )


@plain
@given(links, ways, st.lists(st.integers(0, 1 << 40), min_size=1, max_size=20))
def test_efficiency_and_share_are_shares(link: Pcie, way: Way, n: list[int]) -> None:
    found = efficiency(n, link, way)
    assert ((found > 0) & (found < 1)).all() and 0.4 < link.share <= 1
    assert (link.bandwidth(n, way) < link.raw_bandwidth).all()


@plain
@given(links, ways, sizes, sizes)
def test_more_bytes_never_take_less_time(link: Pcie, way: Way, n: int, more: int) -> None:
    short, long = link.wire_seconds([n, n + more], way)
    assert 0 < short < long


@plain
@given(links, ways, st.integers(1, 1000), st.integers(1, 1000))
def test_full_packets_are_best(link: Pcie, way: Way, k: int, n: int) -> None:
    """At multiples of all packet sizes the efficiency does not fall, and no size has a better
    one.
    """
    whole = math.lcm(link.mps, link.mrrs, link.completion_bytes)
    at, later, any_size = link.efficiency([k * whole, 2 * k * whole, n], way)
    assert later >= at - 1e-12
    assert any_size <= float(link.efficiency(1 << 45, way)) + 1e-9


@plain
@given(links, st.integers(1, 5000))
def test_the_sawtooth_is_kept(link: Pcie, k: int) -> None:
    """One byte more than full packets costs a packet: nothing is smoothed."""
    full, over = link.wire_bytes([k * link.mps, k * link.mps + 1], "write")[0]
    assert over - full == link.request_header + 1
    before, after = link.efficiency([k * link.mps, k * link.mps + 1], "write")
    assert after < before


@plain
@given(links, ways, sizes)
def test_full_headers_cost_more_than_legacy(link: Pcie, way: Way, n: int) -> None:
    full, legacy = replace(link, legacy_headers=False), replace(link, legacy_headers=True)
    sent, of_legacy = sum(full.wire_bytes(n, way)), sum(legacy.wire_bytes(n, way))
    assert sent > of_legacy


@plain
@given(links, ways, sizes)
def test_generations_scale_and_lanes_add(link: Pcie, way: Way, n: int) -> None:
    """Bytes do not know how fast they travel; double the rate at the same line code is double the
    bandwidth.
    """
    other = replace(link, generation=4), replace(link, generation=5)
    assert [float(b) for b in other[0].wire_bytes(n, way)] == [
        float(b) for b in link.wire_bytes(n, way)
    ]
    assert float(other[1].bandwidth(n, way)) == pytest.approx(2 * float(other[0].bandwidth(n, way)))
    assert replace(link, lanes=8).raw_bandwidth == pytest.approx(
        8 * replace(link, lanes=1).raw_bandwidth
    )


@plain
@given(links, sizes)
def test_both_ways_is_no_faster_than_either(link: Pcie, n: int) -> None:
    one = replace(link, legacy_headers=False)
    read, write, both = (float(one.bandwidth(n, way)) for way in WAYS)
    assert both <= min(read, write)


def test_no_bytes_take_no_time() -> None:
    for way in WAYS:
        assert float(Pcie(4).wire_seconds(0, way)) == 0
        assert float(Pcie(4).bandwidth(0, way)) == float(Pcie(4).bandwidth(1, way)) > 0


def test_shapes_are_kept() -> None:
    sizes_of = np.arange(1, 100_001).reshape(100, 1000)
    found = Pcie(4).bandwidth(sizes_of, "read")
    assert found.shape == (100, 1000)
    assert (
        found[99, 999] == float(Pcie(4).bandwidth(100_000, "read"))
        and Pcie(4).bandwidth(7, "read").shape == ()
    )
    assert Pcie(4).bandwidth([], "read").shape == (0,)


# --- refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "given"),
    [
        ("A016", {"generation": 8}),
        ("A016", {"generation": 0}),
        ("A016", {"generation": True}),
        ("A016", {"generation": "4"}),
        ("A016", {"generation": 4.0}),
        ("A016", {"generation": [4]}),
        ("A016", {"lanes": 3}),
        ("A016", {"lanes": -16}),
        ("A017", {"mps": 100}),
        ("A017", {"mps": 64}),
        ("A017", {"mps": 8192}),
        ("A017", {"mrrs": 0}),
        ("A017", {"rcb": 32}),
        ("A017", {"rcb": 256, "mps": 128}),
        ("A017", {"completion": "mrrs"}),
        ("A017", {"address_bits": 48}),
        ("A017", {"interval": "nanoseconds"}),
        ("A017", {"legacy_mrrs": True}),
    ],
)
def test_links_that_do_not_exist(code: str, given: dict[str, Any]) -> None:
    assert refused(code, Pcie, **{"generation": 4, **given}).fix


@pytest.mark.parametrize(
    "size", [-1, math.nan, math.inf, 2.0**54, [1, 2, -3], "many", None, [[1], [2, 3]]]
)
def test_sizes_that_are_none(size: Any) -> None:
    refused("A018", Pcie(4).bandwidth, size, "read")


@pytest.mark.parametrize("way", ["reads", "", "up", None])
def test_ways_that_are_none(way: Any) -> None:
    for ask in (Pcie(4).bandwidth, Pcie(4).wire_bytes, Pcie(4).wire_seconds, Pcie(4).efficiency):
        assert refused("A017", ask, 1, way).fix
