"""NVLink: the paper's figures, and the law against flits counted one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.cost.nvlink import (
    FLIT,
    PAYLOAD,
    VERSIONS,
    Nvlink,
    efficiency,
    link_bandwidth,
    read_bytes,
    write_bytes,
)
from turnbuckle.cost.wire import WAYS, Way

plain = settings(max_examples=100)
links = st.builds(
    Nvlink, st.sampled_from(sorted(VERSIONS)), st.integers(1, 4), st.booleans(), st.booleans()
)
ways, sizes = st.sampled_from(WAYS), st.integers(1, 1 << 22)


def test_as_published() -> None:
    """Two links of version 2 carry 50 GB/s, of which 256 in 272 bytes are data: 94.1 %."""
    link = Nvlink(2, 2)
    assert link.raw_bandwidth == link.packet_bandwidth == 50e9
    for way in ("read", "write"):
        assert float(efficiency(2**30, link, way)) == pytest.approx(256 / 272, abs=1e-7)
    assert [float(write_bytes(n)) for n in (1.0, 256.0, 257.0)] == [17, 272, 289]
    assert [float(read_bytes(n)) for n in (1.0, 256.0, 257.0)] == [33, 288, 305]


def test_bandwidth_of_the_versions() -> None:
    """20, 25, 25, 25 and 50 GB/s a link, one way."""
    assert [Nvlink(v).raw_bandwidth / 1e9 for v in sorted(VERSIONS)] == [20, 25, 25, 25, 50]
    assert [Nvlink(v, most).raw_bandwidth / 1e9 for v, (_, _, most) in VERSIONS.items()] == [
        80,
        150,
        300,
        450,
        900,
    ]
    assert link_bandwidth(8, 3.125e9, 2) == 50e9


@plain
@given(links, ways, sizes)
def test_as_many_bytes_as_packets_counted(link: Nvlink, way: Way, n: int) -> None:
    writes = answers = 0
    for left in range(n, 0, -PAYLOAD):
        data = min(left, PAYLOAD)
        writes += FLIT * (1 + link.address_extension + link.byte_enable) + data
        answers += FLIT + data
    request = FLIT * (1 + link.address_extension)
    wanted = {
        "write": (writes, 0),
        "read": (request, request + answers),
        "both": (request + writes, request + answers),
    }[way]
    assert tuple(map(float, link.wire_bytes(n, way))) == wanted
    assert float(link.wire_seconds(n, way)) == pytest.approx(
        max(wanted) / link.raw_bandwidth, rel=1e-12
    )


@plain
@given(links, ways, st.integers(0, 1 << 40))
def test_efficiency_is_a_share(link: Nvlink, way: Way, n: int) -> None:
    assert 0 < float(link.efficiency(n, way)) < 1
    assert float(link.bandwidth(n, way)) == pytest.approx(
        float(link.efficiency(n, way)) * link.raw_bandwidth
    )


@plain
@given(links, ways, st.integers(1, 4000))
def test_monotone_at_full_packets_with_a_sawtooth_between(link: Nvlink, way: Way, k: int) -> None:
    full, over, later = link.efficiency([k * PAYLOAD, k * PAYLOAD + 1, 2 * k * PAYLOAD], way)
    assert over < full <= later + 1e-12


@plain
@given(sizes, ways)
def test_optional_flits_cost(n: int, way: Way) -> None:
    plain_link, extended = Nvlink(2, 1), Nvlink(2, 1, address_extension=True, byte_enable=True)
    assert float(extended.bandwidth(n, way)) < float(plain_link.bandwidth(n, way))


def test_no_bytes_take_no_time() -> None:
    assert [float(Nvlink(3, 4).wire_seconds(0, way)) for way in WAYS] == [0, 0, 0]


@pytest.mark.parametrize(
    "given",
    [
        {"version": 6},
        {"version": 0},
        {"version": 2, "links": 7},
        {"version": 2, "links": 0},
        {"version": "2"},
    ],
)
def test_links_that_do_not_exist(given: dict[str, Any]) -> None:
    assert refused("A016", Nvlink, **given).fix
