"""LiMPPy's packets: closed forms, and a SimPy model of the same written apart from it, from the
description alone.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import simpy
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from programs import program
from refusals import refused

from turnbuckle.mpi.networks.limppy import Packed, Protocol, packed, sound, spoken
from turnbuckle.mpi.networks.message_graphs import MessageGraph, as_program, ping_pong, shift, sweep
from turnbuckle.mpi.networks.routes import route
from turnbuckle.replay.contention.contention import Leaves, Op, replay
from turnbuckle.replay.contention.network import Dragonfly, FatTree, Network, Node, Torus, Wire

PLAIN, LEGACY = Protocol(), Protocol(legacy_headers=True, acknowledged=True)
SWITCH = Network(8, 12.5e9, 0.0)
NETWORKS = [
    SWITCH,
    Network(8, 12.5e9, 0.0, FatTree((2, 4), (1, 2), (1, 1))),
    Network(8, 12.5e9, 0.0, Torus((2, 4))),
    Network(8, 12.5e9, 0.0, Dragonfly(4, 2, 1, 2)),
]


def simulated(graph: MessageGraph, network: Network, p: Protocol) -> tuple[float, bool]:
    """The same in SimPy [s]: whole picoseconds, a resource for every link, a process for every
    packet, an event for every message.

    And whether two messages asked for one link in one picosecond: who waited has the odd
    picoseconds of whom it waited for.
    """

    def ps(seconds: float) -> int:
        return round(1e12 * seconds)

    env = simpy.Environment()
    links = [simpy.Resource(env, 1) for _ in network.links()]
    complete = [env.event() for _ in graph.source]
    headers = 2 if p.legacy_headers else 1
    asked: dict[tuple[int, int], int] = {}
    ties: list[int] = []

    def holding(link: int, mine: Any, time: int) -> Generator[Any, Any, None]:
        yield env.timeout(time)
        links[link].release(mine)

    def packet(
        m: int, source: int, target: int, payload: float, remote: bool
    ) -> Generator[Any, Any, None]:
        node, switch = (
            (p.remote_node_seconds, p.remote_switch_seconds)
            if remote
            else (p.eager_node_seconds, p.eager_switch_seconds)
        )
        bandwidth = p.remote_bandwidth if remote else p.eager_bandwidth
        time = 1000 * math.ceil((payload + headers * p.header_bytes) / bandwidth * 1e9)
        way = route(network, source, target)
        for k, link in enumerate(way):
            yield env.timeout(ps(switch if k else node))
            if asked.setdefault((link, env.now), m) != m:
                ties.append(link)
            mine = links[link].request()
            yield mine
            env.process(holding(link, mine, time + (ps(switch) if k < len(way) - 1 else 0)))
        if not remote:
            yield env.timeout(ps(node))
        yield env.timeout(time)

    def message(m: int) -> Generator[Any, Any, None]:
        yield simpy.AllOf(env, [complete[b] for b in graph.before[graph.after == m]])
        if len(graph.delay_seconds):
            yield env.timeout(ps(graph.delay_seconds[m]))
        source, target, size = int(graph.source[m]), int(graph.target[m]), graph.size_bytes[m]
        remote = size > p.eager_bytes
        if remote:
            yield env.process(packet(m, source, target, 0, False))
            yield env.process(packet(m, target, source, 0, False))
        whole, rest = divmod(size, p.packet_bytes)
        parts = [p.packet_bytes] * int(whole) + ([rest] if rest or not whole else [])
        yield simpy.AllOf(
            env, [env.process(packet(m, source, target, part, remote)) for part in parts]
        )
        if remote:
            yield env.process(packet(m, target, source, 0, False))
        if p.acknowledged:
            yield env.process(packet(m, target, source, 0, False))
        complete[m].succeed()

    for m in range(len(graph.source)):
        env.process(message(m))
    env.run()
    return env.now * 1e-12, bool(ties)


def as_packets(graph: MessageGraph, network: Network, p: Protocol = PLAIN) -> Packed:
    return packed(
        spoken(as_program(graph, p.eager_bytes, acknowledged=p.acknowledged), p), network, p
    )


def seconds(graph: MessageGraph, network: Network, p: Protocol = PLAIN) -> float:
    return replay(as_packets(graph, network, p).program, network).seconds


@st.composite
def graphs(draw: st.DrawFn) -> MessageGraph:
    """Messages among 8 nodes that wait for earlier ones; delays of odd picoseconds, so that few
    packets meet at one instant.
    """
    count = draw(st.integers(1, 10))
    source = np.array(draw(st.lists(st.integers(0, 7), min_size=count, max_size=count)))
    by = np.array(draw(st.lists(st.integers(1, 7), min_size=count, max_size=count)))
    size = np.array(
        draw(
            st.lists(
                st.one_of(st.integers(0, 9000), st.sampled_from([16384, 16385, 40960, 50000])),
                min_size=count,
                max_size=count,
            )
        )
    )
    pairs = (
        draw(
            st.lists(
                st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(
                    lambda p: p[0] < p[1]
                ),
                unique=True,
                max_size=12,
            )
        )
        if count > 1
        else []
    )
    before, after = (np.array([p[k] for p in pairs], dtype=np.int64) for k in range(2))
    delay = (
        np.array(draw(st.lists(st.integers(0, 2000), min_size=count, max_size=count))) * 1e-9
        + (2.0 ** np.arange(count)) * 1e-12
    )
    return MessageGraph(source, (source + by) % 8, size.astype(np.float64), before, after, delay)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: type(n.shape).__name__)
def test_it_is_what_simpy_says(network: Network) -> None:
    @given(graphs(), st.sampled_from([PLAIN, LEGACY]))
    @settings(max_examples=30)
    def same(graph: MessageGraph, p: Protocol) -> None:
        expected, tied = simulated(graph, network, p)
        assume(not tied)
        assert seconds(graph, network, p) == pytest.approx(expected, abs=2e-12)

    same()


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: type(n.shape).__name__)
@pytest.mark.parametrize(
    "graph",
    [
        shift(8, 1, 1e5),
        shift(8, 4, 5000.0),
        sweep(2, 4, 30000.0),
        sweep(2, 4, 3000.0),
        ping_pong(1e5, 3),
    ],
    ids=str,
)
def test_packets_of_one_instant_come_in_the_same_order(
    network: Network, graph: MessageGraph
) -> None:
    assert seconds(graph, network, LEGACY) == pytest.approx(
        simulated(graph, network, LEGACY)[0], abs=2e-12
    )


@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 16384, 16385, 100_000])
@pytest.mark.parametrize("headers", [False, True])
def test_a_message_alone_is_its_closed_form(size: int, headers: bool) -> None:
    """One way over one switch: latencies, what the first link serves, and the tail."""
    p, h = replace(PLAIN, legacy_headers=headers), 2 * 98 if headers else 98
    graph = MessageGraph(
        np.array([0]),
        np.array([1]),
        np.array([float(size)]),
        np.zeros(0, dtype=np.int64),
        np.zeros(0, dtype=np.int64),
    )
    many = max(-(-size // 4096), 1)
    last = size - 4096 * (many - 1)
    if size <= 16384:
        full, tail = math.ceil((4096 + h) / 3.5), math.ceil((last + h) / 3.5)
        expected = 650 + (many - 1) * (full + 100) + 100 + 650 + tail
    else:
        full, tail, word = (
            math.ceil((4096 + h) / 12.5),
            math.ceil((last + h) / 12.5),
            650 + 100 + 650 + math.ceil(h / 3.5),
        )
        expected = word + word + 750 + (many - 1) * (full + 90) + 90 + tail + word
    assert seconds(graph, SWITCH, p) * 1e9 == pytest.approx(expected, abs=1e-3)
    made = spoken(as_program(graph, p.eager_bytes), p)
    assert replay(
        packed(made, SWITCH, p, alone=True).program, SWITCH
    ).seconds * 1e9 == pytest.approx(expected, abs=1e-3)


@given(graphs(), st.sampled_from(NETWORKS))
@settings(max_examples=30)
def test_every_packet_is_on_every_link_of_its_route_once(
    graph: MessageGraph, network: Network
) -> None:
    made = as_packets(graph, network)
    expected = np.zeros(len(network.links()))
    for source, target, size in zip(graph.source, graph.target, graph.size_bytes, strict=True):
        there, back = (
            route(network, int(source), int(target)),
            route(network, int(target), int(source)),
        )
        remote = size > PLAIN.eager_bytes
        says = [(there, 0.0, False), (back, 0.0, False), (back, 0.0, False)] if remote else []
        whole, rest = divmod(size, 4096)
        for way, payload, far in [
            *says,
            *[(there, 4096.0, remote)] * int(whole),
            *([(there, rest, remote)] if rest or not whole else []),
        ]:
            time = float(PLAIN.packet_seconds(np.array([payload]), np.array([far]))[0])
            expected[way] += time
            expected[way[:-1]] += PLAIN.remote_switch_seconds if far else PLAIN.eager_switch_seconds
    busy = np.zeros(len(expected))
    busy[made.link] = made.busy_seconds
    assert busy == pytest.approx(expected, rel=1e-9)


def test_a_message_waits_for_its_receiver() -> None:
    """The original answers a request at once; a receiver that says when it is ready is waited
    for.
    """
    lists = [[(Op.SEND, 0), (Op.SENT, 0)], [(Op.WORK, 0), (Op.POST, 0), (Op.AWAIT, 0)]]
    one = program(lists, [(0, 1, 1e5, Leaves.READY)], [1e-3])
    done = replay(packed(spoken(one, PLAIN), SWITCH, PLAIN).program, SWITCH)
    word, data = 650 + 100 + 650 + 28, 750 + 24 * (336 + 90) + 90 + 144
    assert done.ends[:2] * 1e9 == pytest.approx(
        [1e6 + word + data + word, 1e6 + word + data], abs=1e-3
    )


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: type(n.shape).__name__)
def test_a_message_of_a_rank_to_itself_takes_no_link(network: Network) -> None:
    """Its packets pass side by side: two latencies of the node, and the tail of a full packet."""
    sends = [(Op.SEND, 0), (Op.SEND, 1), (Op.AWAIT, 0)]
    one = program(
        [sends, [(Op.AWAIT, 1)]], [(0, 0, 16384.0, Leaves.EAGER), (0, 1, 0.0, Leaves.EAGER)]
    )
    packets = packed(spoken(one, PLAIN), network, PLAIN)
    assert sorted(packets.link.tolist()) == sorted(route(network, 0, 1))
    done = replay(packets.program, network)
    full = math.ceil((4096 + 98) / 3.5)
    assert done.ends[0] * 1e9 == pytest.approx(650 + 650 + full, abs=1e-3)


def test_a_program_without_messages_stays_as_it_is() -> None:
    one = program([[(Op.WORK, 1), (Op.WORK, 0)]], work=[1e-3, 2e-3])
    made = packed(spoken(one, PLAIN), SWITCH, PLAIN)
    assert replay(made.program, SWITCH).seconds == pytest.approx(3e-3) and made.packets == 0


@pytest.mark.parametrize(
    "name",
    [
        "packet_bytes",
        "eager_bandwidth",
        "remote_bandwidth",
        "eager_node_seconds",
        "remote_switch_seconds",
    ],
)
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_parameters_that_cannot_be(name: str, value: float) -> None:
    refused("A090", sound, replace(PLAIN, **{name: value}))


def test_too_many_packets_are_refused() -> None:
    refused("A090", as_packets, ping_pong(1e10, 10), SWITCH)


def test_nodes_of_parts_are_refused() -> None:
    node = Node(("host", "gpu"), (Wire(0, 1, 1e9, shared=True),), (0,), (0,))
    refused("A090", as_packets, ping_pong(10.0, 1), replace(SWITCH, node=node))
