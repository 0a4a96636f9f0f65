"""The same messages on several topologies."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.mpi.networks.limppy import Protocol
from turnbuckle.mpi.networks.message_graphs import MessageGraph, ping_pong, shift, sweep
from turnbuckle.mpi.questions.network.question import (
    LIMPPY,
    USUAL,
    networks,
    of_graph,
    of_run,
    topology,
)
from turnbuckle.mpi.replay.messages import recorded
from turnbuckle.projection.run import Run
from turnbuckle.replay.contention.network import Dragonfly, FatTree, Torus


@given(st.integers(2, 3000), st.sampled_from(USUAL))
@settings(max_examples=150)
def test_the_usual_shapes_have_room_and_read_back(nodes: int, name: str) -> None:
    full, shape = topology(name, nodes)
    assert topology(full, nodes) == (full, shape)
    if isinstance(shape, FatTree):
        room = math.prod(shape.down)
        assert shape.up[1] == shape.down[0], "no taper"
    elif isinstance(shape, Torus):
        room = math.prod(shape.dims)
        assert max(shape.dims) <= 2 * min(shape.dims) + 1 or nodes < 12
    elif isinstance(shape, Dragonfly):
        room = shape.groups * shape.routers * shape.cards
        assert (
            shape.groups == shape.routers * shape.channels + 1 and shape.routers == 2 * shape.cards
        )
    else:
        room = nodes
    assert room >= nodes


NO_TORUS = ("torus:", "torus:0", "torus:4xx4", "torus:2x2", "torus:4x4:2", "torus:9999999")
NO_TREE = ("fat-tree:4x4", "fat-tree:4x4:2", "fat-tree:4x4:0x2")


@pytest.mark.parametrize(
    "text",
    ["", "mesh", "switch:4", *NO_TORUS, *NO_TREE, "dragonfly:2x2", "dragonfly:40x2x2x1", "[red]"],
)
def test_topologies_that_cannot_be(text: str) -> None:
    refused("A090", networks, of_graph(shift(16, 1, 8.0), LIMPPY), [text])


def test_a_shift_is_free_where_there_are_as_many_ways() -> None:
    """All nodes send at once: a switch and a tree without taper carry it as one message, a
    dragonfly's one channel does not.
    """
    found = networks(of_graph(shift(16, 4, 1e6), LIMPPY))
    rows = {r.topology.split(":")[0]: r for r in found.rows}
    assert rows["switch"].seconds == pytest.approx(rows["switch"].alone_seconds, rel=1e-12)
    assert rows["fat-tree"].seconds == pytest.approx(rows["fat-tree"].alone_seconds, rel=1e-12)
    assert rows["dragonfly"].seconds > 3 * rows["dragonfly"].alone_seconds
    assert found.best.topology == "switch" and found.worst.topology == rows["dragonfly"].topology
    assert rows["dragonfly"].busiest.startswith("group ") and rows["dragonfly"].busiest_share > 0.9
    tapered = networks(of_graph(shift(16, 4, 1e6), LIMPPY), ["fat-tree:4x4:1x2"]).rows[0]
    assert 1.5 < tapered.seconds / rows["fat-tree"].seconds < 2.5, (
        "half of the ways up, twice as long"
    )


@pytest.mark.parametrize("size", [100.0, 20_000.0, 1e6])
def test_flows_and_packets_agree_where_nothing_is_shared(size: float) -> None:
    """One message at a time: flows leave out what a packet's hold of a switch adds (90 or 100 ns of
    each packet) and rounding.
    """
    packets, flow = (
        networks(of_graph(ping_pong(size, 3), LIMPPY), ["switch", "torus:2x2x2"], fidelity=f).rows
        for f in ("limppy", "flow")
    )
    many = math.ceil(size / 4096)
    for one, other in zip(packets, flow, strict=True):
        held = 6 * (many - 1) * 90e-9
        assert one.seconds - other.seconds == pytest.approx(held, abs=6 * (30e-9 + many * 1e-9))
        assert math.isnan(other.alone_seconds) and other.packets == 0 and one.packets >= many


@pytest.mark.parametrize("on", ["switch", "torus:4"])
@pytest.mark.parametrize("size", [1000.0, 4096.0, 16384.0, 40960.0])
def test_queues_store_and_forward(size: float, on: str) -> None:
    """One message alone: all its packets over the first link, the last over each link after it,
    behind its last byte.
    """
    p, links = LIMPPY, 2 if on == "switch" else 3
    found = networks(of_graph(shift(4, 1, size), p), [on], fidelity="packet").rows[0]

    def over(data: float, whole: float) -> float:
        last = data - (math.ceil(data / p.packet_bytes) - 1) * p.packet_bytes if data else 0.0
        return (
            whole + (links - 1) * (last + p.header_bytes)
        ) / p.remote_bandwidth + links * p.eager_switch_seconds

    whole = size + math.ceil(size / p.packet_bytes) * p.header_bytes
    node = p.eager_node_seconds - p.eager_switch_seconds / 2
    if size <= p.eager_bytes:
        # bytes come to the first link at the bandwidth of a processor
        last = size - (math.ceil(size / p.packet_bytes) - 1) * p.packet_bytes
        expected = 2 * node + size / p.eager_bandwidth + over(last, last + p.header_bytes)
    else:
        word = 2 * node + over(0.0, p.header_bytes)
        remote = p.remote_node_seconds + p.remote_switch_seconds - 2 * p.eager_switch_seconds
        expected = 3 * word + remote + over(size, whole)
    assert found.seconds == pytest.approx(expected, abs=1e-10)
    assert found.packets == 4 * (
        math.ceil(size / p.packet_bytes) + (3 if size > p.eager_bytes else 0)
    )


def test_queues_have_room_for_two_packets_of_any_size() -> None:
    large = networks(
        of_graph(shift(4, 1, 1e6), Protocol(packet_bytes=1 << 20)), ["switch"], fidelity="packet"
    ).rows[0]
    assert large.packets == 16 and large.busiest_share < 1


def test_legacy_headers_cost_what_they_weigh() -> None:
    plain, legacy = (
        networks(of_graph(ping_pong(1e6, 3), p), ["switch"]).rows[0].seconds
        for p in (LIMPPY, replace(LIMPPY, legacy_headers=True))
    )
    assert 1.015 < legacy / plain < 1.03, (
        "98 B more on packets of 4194 B, and the switch's time as before"
    )
    flows = [
        networks(of_graph(ping_pong(1e6, 3), p), ["switch"], fidelity="flow").rows[0].seconds
        for p in (LIMPPY, replace(LIMPPY, legacy_headers=True))
    ]
    assert 1.015 < flows[1] / flows[0] < 1.03


def test_an_acknowledgement_is_a_packet_back() -> None:
    plain, known = (
        networks(of_graph(ping_pong(8.0, 3), p), ["switch"]).rows[0].seconds
        for p in (LIMPPY, replace(LIMPPY, acknowledged=True))
    )
    assert (known - plain) * 1e9 == pytest.approx(6 * (650 + 100 + 650 + 28), abs=1e-3)


def test_a_recorded_run(shared: Path) -> None:
    """Stencil of 32 ranks: 512 messages of 131072 B (truth.json), a request, a reply, 32 packets of
    data and a fin each.
    """
    traffic = recorded(
        Run.read(shared / "traces" / "otf2" / "stencil4d_32rank" / "traces.otf2").profile
    )
    bare = networks(of_run(traffic, LIMPPY, 0.0), ["switch", "torus"])
    small = bare.rows[0].packets - 512 * (32 + 3)
    assert bare.nodes == 32 and 0 <= small < 2000, "the rest is three collectives"
    assert bare.rows[0].seconds < bare.rows[1].seconds
    whole = networks(of_run(traffic, LIMPPY, 1.0), ["switch"])
    assert whole.recorded_seconds == traffic.seconds
    assert whole.rows[0].seconds >= float(traffic.compute_seconds.max())
    assert whole.rows[0].seconds < traffic.seconds, (
        "32 ranks of this recording waited for cores too"
    )
    flow = networks(of_run(traffic, LIMPPY, 0.0), ["switch"], fidelity="flow")
    assert 0.5 < flow.rows[0].seconds / bare.rows[0].seconds < 1.1


def test_questions_that_cannot_be() -> None:
    graph = of_graph(sweep(2, 2, 8.0), LIMPPY)
    for messages, topologies in (
        (graph, []),
        (replace(graph, nodes=1), ["switch"]),
        (replace(graph, nodes=1 << 30), ["switch"]),
    ):
        refused("A090", networks, messages, topologies)
    nothing = np.zeros(0, dtype=np.int64)
    refused("A089", of_graph, MessageGraph(nothing, nothing, np.zeros(0), nothing, nothing), LIMPPY)


@pytest.mark.parametrize("compute", [-1.0, float("nan"), float("inf")])
def test_a_factor_that_cannot_be(shared: Path, compute: float) -> None:
    traffic = recorded(
        Run.read(shared / "traces" / "otf2" / "pingpong_2rank" / "traces.otf2").profile
    )
    refused("A090", of_run, traffic, LIMPPY, compute)
