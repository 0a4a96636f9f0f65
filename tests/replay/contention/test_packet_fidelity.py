"""The contention replay by packets: closed forms, what links can carry, and beside the other
fidelities.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import program
from refusals import refused

from turnbuckle.foundation.errors import UsageError
from turnbuckle.replay.contention.contention import Leaves, Op, Program, replay
from turnbuckle.replay.contention.network import Dragonfly, FatTree, Network, Node, Torus, Wire

EMPTY = np.zeros(0, dtype=np.int64)
TREE = FatTree((4, 4), (1, 4), (1, 1))
WIDE = Network(
    hosts=16,
    bandwidth=12.5e9,
    hop_seconds=0.25e-6,
    shape=TREE,
    latency=1e-6,
    seconds_per_byte=8e-11,
)
#: Seconds of a full packet on a link.
PACKET = 8192 / 12.5e9


def sent(
    messages: list[tuple[int, int, float]],
    hosts: int,
    leaves: Leaves = Leaves.EAGER,
    rate_limit: list[float] | None = None,
) -> Program:
    """All messages at once, each rank its own in order; then everybody waits for all."""
    lists: list[list[tuple[Op, int]]] = [[] for _ in range(hosts)]
    for op in (Op.POST, Op.SEND, Op.AWAIT):
        for k, (one, other, _) in enumerate(messages):
            lists[one if op == Op.SEND else other].append((op, k))
    limits = {"rate_limit": np.array(rate_limit)} if rate_limit else {}
    return program(
        lists, [(source, target, size, leaves) for source, target, size in messages], **limits
    )


@pytest.mark.parametrize(("target", "hops"), [(1, 2), (5, 4)])
@pytest.mark.parametrize("size", [0, 1, 8192, 8193, 1_000_000])
@pytest.mark.parametrize("leaves", [Leaves.EAGER, Leaves.READY])
def test_one_message_is_its_closed_form(target: int, hops: int, size: int, leaves: Leaves) -> None:
    """All latencies, all bytes once, and the first packet once more for every switch on the way."""
    network = replace(WIDE, send_overhead=3e-7, receive_overhead=2e-7)
    found = replay(sent([(0, target, size)], 16, leaves), network, "packet")
    known = 3e-7 + hops * 0.25e-6 + (size + (hops - 1) * min(size, 8192)) / 12.5e9 + 2e-7
    assert found.seconds == pytest.approx(known, abs=2e-12)
    assert found.carried_bytes.sum() == hops * size


def test_headers_are_carried_too() -> None:
    network = replace(WIDE, packet_bytes=1000, header_bytes=50)
    found = replay(sent([(0, 1, 2500.0)], 16), network, "packet")
    assert found.carried_bytes.sum() == 2 * 2650
    assert found.seconds == pytest.approx(0.5e-6 + (2650 + 1050) / 12.5e9, abs=2e-12)


def test_within_a_host_there_is_one_link() -> None:
    network = replace(WIDE, inside_bandwidth=1e11, inside_seconds=1e-7)
    assert replay(sent([(3, 3, 1e6)], 16), network, "packet").seconds == pytest.approx(
        1e-7 + 1e-5, abs=1e-10
    )


def test_many_into_one_end_when_its_link_has_carried_all() -> None:
    size = 1e6
    found = replay(sent([(k, 0, size) for k in range(1, 16)], 16), WIDE, "packet", traced=True)
    # the last packet of each; the first packet crosses three links before the last one
    assert found.seconds == pytest.approx(15 * size / 12.5e9 + 1e-6, abs=4 * PACKET)
    assert found.seconds >= 15 * size / 12.5e9
    flow = replay(sent([(k, 0, size) for k in range(1, 16)], 16), WIDE, "flow")
    assert found.seconds == pytest.approx(flow.seconds, abs=4 * PACKET)


@pytest.mark.parametrize("shift", [1, 4, 7, 15])
def test_a_full_tree_carries_a_shift_at_full_rate(shift: int) -> None:
    size = 1e6
    found = replay(sent([(k, (k + shift) % 16, size) for k in range(16)], 16), WIDE, "packet")
    assert found.seconds <= 1e-6 + size / 12.5e9 + 3 * PACKET + 1e-10


def test_room_for_one_packet_ends_and_is_slower() -> None:
    one = sent([(k, (k * 5 + 3) % 16, 3e5) for k in range(16)], 16)
    tight, usual = (
        replay(one, replace(WIDE, buffer_bytes=room), "packet").seconds
        for room in (8192.0, 65536.0)
    )
    # no packet comes in while one goes out: half the rate at best
    assert tight >= 2 * 3e5 / 12.5e9
    assert tight > usual


def test_who_has_come_to_a_group_has_lanes_of_its_own() -> None:
    """On a dragonfly what has come over a crowded channel is not held up by what still waits for
    one: close to fair shares.
    """
    network = replace(WIDE, hosts=64, shape=Dragonfly(9, 4, 2, 2))
    one = sent([(k, (k + 8) % 64, 1e6) for k in range(64)], 64)
    assert replay(one, network, "packet").seconds == pytest.approx(
        replay(one, network, "flow").seconds, rel=0.05
    )


@pytest.mark.parametrize(
    "shape", [Torus((16,)), Torus((4, 4)), Torus((2, 2, 2), 2), Dragonfly(4, 2, 2, 2)]
)
@pytest.mark.parametrize("room", [1, 2])
def test_rings_that_are_full_go_on(shape: Torus | Dragonfly, room: int) -> None:
    """Every link holds packets for links beyond: with one lane each they would wait for each other
    for ever.
    """
    network = replace(WIDE, shape=shape, buffer_bytes=room * 8192.0)
    for shift in (3, 6, 7, 10):
        found = replay(sent([(k, (k + shift) % 16, 2e5) for k in range(16)], 16), network, "packet")
        assert found.seconds >= replay(sent([(0, shift, 2e5)], 16), network, "packet").seconds
        assert found.seconds < 16 * 16 * 2e5 / 12.5e9


def test_parts_of_nodes_have_links_of_their_own_speed() -> None:
    """The first packet takes every link: wire, network, wire; the rest the narrowest."""
    node = Node(("gpu", "card"), (Wire(0, 1, 25e9, 1e-7), Wire(1, 0, 5e9, 2e-7)), (1,), ())
    network = Network(2, 12.5e9, 0.25e-6, node=node)
    one = replace(sent([(0, 1, 819_200)], 2), host=np.array([0, 2]))
    known = 1e-7 + 2 * 0.25e-6 + 2e-7 + 8192 * (1 / 25e9 + 2 / 12.5e9) + 819_200 / 5e9
    assert replay(one, network, "packet").seconds == pytest.approx(known, abs=1e-10)


def test_from_a_part_to_itself_there_may_be_no_link() -> None:
    node = Node(("gpu", "card"), (Wire(0, 1, 25e9, 1e-7, shared=True),), (1,), ())
    one = replace(sent([(0, 1, 1e6)], 2), host=np.array([0, 0]))
    assert replay(one, Network(1, 12.5e9, 0.0, node=node), "packet").seconds == 0
    limited = replace(one, rate_limit=np.array([1e9]))
    assert replay(limited, Network(1, 12.5e9, 0.0, node=node), "packet").seconds == pytest.approx(
        1e-3
    )


def test_a_full_queue_holds_up_who_wants_elsewhere() -> None:
    """Hosts 4 to 6 and 12 to 15 crowd host 0; a message of host 7 goes up the same cable, to host
    8. Fair shares do not see that.
    """
    crowd = [(k, 0, 1e6) for k in (4, 5, 6, 12, 13, 14, 15)]
    arrived = {}
    for one in ((7, 8, 1e5), (9, 1, 1e5), (4, 1, 1e5)):
        for fidelity in ("packet", "flow"):
            arrived[one[:2], fidelity] = replay(
                sent([*crowd, one], 16), WIDE, fidelity, traced=True
            ).arrived[-1]
    assert arrived[(7, 8), "packet"] > 1.5 * arrived[(7, 8), "flow"]
    assert arrived[(9, 1), "packet"] == pytest.approx(arrived[(9, 1), "flow"], abs=4 * PACKET), (
        "a way of its own"
    )
    assert arrived[(4, 1), "packet"] < 1.5 * arrived[(4, 1), "flow"], (
        "in memory nobody holds up another"
    )


def test_small_packets_come_to_fair_shares() -> None:
    one = sent([(k, (k * 3 + 1) % 16, 1e5 * (1 + k % 3)) for k in range(16)], 16)
    flow = replay(one, WIDE, "flow").seconds
    found = [
        replay(one, replace(WIDE, packet_bytes=size), "packet").seconds
        for size in (8192.0, 1024.0, 128.0)
    ]
    off = [abs(seconds - flow) for seconds in found]
    assert off[2] < off[0]
    assert off[2] < 0.02 * flow


def test_a_limit_holds() -> None:
    found = replay(
        sent([(0, 5, 1e6), (0, 9, 4e6)], 16, rate_limit=[1e9, 1e12]), WIDE, "packet", traced=True
    )
    assert found.arrived[0] == pytest.approx(1e-3, rel=0.01)
    assert found.arrived[0] > 1e-3
    # the other takes what is left
    assert found.arrived[1] == pytest.approx(4e6 / 11.5e9, rel=0.01)


@st.composite
def traffic(draw: st.DrawFn) -> tuple[Program, Network]:
    hosts = draw(st.integers(2, 8))
    rank = st.integers(0, hosts - 1)
    messages = draw(
        st.lists(st.tuples(rank, rank, st.integers(0, 200_000).map(float)), min_size=1, max_size=20)
    )
    trees = [
        FatTree((2, 4), (1, 2), (1, 1)),
        FatTree((4, 2), (1, 1), (1, 2)),
        FatTree((2, 2, 2), (1, 2, 2), (1, 1, 1)),
    ]
    tree = draw(
        st.sampled_from(
            [None, *trees, Torus((8,)), Torus((4, 2)), Torus((3, 3)), Dragonfly(4, 2, 1, 2)]
        )
    )
    payload, header, room = (
        draw(st.sampled_from([512, 4096, 8192, 300_000])),
        draw(st.sampled_from([0, 64])),
        draw(st.integers(1, 4)),
    )
    network = Network(
        hosts,
        draw(st.sampled_from([1e9, 12.5e9, 7.77e9])),
        draw(st.sampled_from([0.0, 0.25e-6])),
        tree,
        send_overhead=2e-7,
        receive_overhead=1e-7,
        packet_bytes=payload,
        header_bytes=header,
        buffer_bytes=room * (payload + header),
    )
    limit = draw(st.sampled_from([None, [2e9] * len(messages)]))
    return sent(
        messages, hosts, draw(st.sampled_from([Leaves.EAGER, Leaves.READY])), limit
    ), network


@settings(max_examples=120)
@given(traffic())
def test_laws(case: tuple[Program, Network]) -> None:
    one, network = case
    found = replay(one, network, "packet", traced=True)
    again = replay(one, network, "packet", traced=True)
    assert found.arrived.tolist() == again.arrived.tolist()
    packets = np.maximum(np.ceil(one.size_bytes / network.packet_bytes), 1)
    wire = one.size_bytes + packets * network.header_bytes
    within = one.source == one.target
    links = len(found.carried_bytes) - network.hosts
    assert found.carried_bytes[links:].sum() == wire[within].sum()
    assert found.carried_bytes[:links].sum() >= 2 * wire[~within].sum()
    # a picosecond and a half for each packet is what rounding may give
    slack = 1e-12 * (packets.sum() + 2)
    assert (found.carried_bytes[:links] <= network.bandwidth * (found.seconds + slack)).all()
    between = (found.arrived - found.began)[~within]
    assert (between >= wire[~within] / network.bandwidth + 2 * network.hop_seconds - slack).all()
    if len(one.rate_limit):
        assert (found.arrived - found.began >= one.size_bytes / 2e9 - slack).all()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"packet_bytes": 0.0}, "packet_bytes of 0"),
        ({"packet_bytes": 0.5}, "packet_bytes of 0.5"),
        ({"packet_bytes": float("nan")}, "packet_bytes of nan"),
        ({"packet_bytes": float("inf")}, "packet_bytes of inf"),
        ({"header_bytes": -1.0}, "header_bytes of -1"),
        ({"buffer_bytes": 1e12}, "buffer_bytes of 1e+12"),
        ({"buffer_bytes": 8191.0}, "8192 bytes does not fit"),
        ({"packet_bytes": 65536.0, "header_bytes": 1.0}, "65537 bytes does not fit"),
    ],
)
def test_packets_that_cannot_be_are_refused(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        replay(sent([(0, 1, 1.0)], 16), replace(WIDE, **wrong), "packet")  # type: ignore[arg-type]
    assert caught.value.code == "A072"
    assert said in (caught.value.found or "")


def test_a_time_beyond_what_is_counted_in_is_refused() -> None:
    refused("A072", replay, sent([(0, 1, 8192.0)], 16), replace(WIDE, bandwidth=1e-6), "packet")
