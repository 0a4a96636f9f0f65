"""Nodes: laws that all of them keep."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import one_message

from turnbuckle.mpi.questions.fabric.question import routes
from turnbuckle.mpi.replay.node_layout import laid_out
from turnbuckle.replay.contention.contention import replay
from turnbuckle.replay.contention.network import Network, Node, Wire
from turnbuckle.replay.contention.nodes import both_ways, gpu_node, graph, pool, reached, shared

BANDWIDTH = st.sampled_from([16e9, 25e9, 32e9, 100e9])
SECONDS = st.sampled_from([0.0, 1e-7, 3e-7])


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    kind = draw(st.sampled_from(["gpus", "pool", "graph"]))
    if kind == "gpus":
        return gpu_node(
            draw(st.integers(1, 8)),
            hosts=draw(st.integers(1, 3)),
            link=draw(BANDWIDTH),
            link_seconds=draw(SECONDS),
            between_hosts=draw(st.none() | BANDWIDTH),
            peer=draw(st.none() | BANDWIDTH),
            peer_seconds=draw(SECONDS),
            joined=draw(st.sampled_from(["mesh", "switch"])),
            cards=draw(st.sampled_from(["node", "host", "gpu"])),
            per_switch=draw(st.integers(1, 4)),
            switch_cards=draw(st.integers(1, 2)),
        )
    if kind == "pool":
        return pool(
            draw(st.integers(1, 4)),
            draw(st.integers(1, 9)),
            link=draw(BANDWIDTH),
            link_seconds=draw(SECONDS),
            host_link=draw(st.none() | BANDWIDTH),
            switch_seconds=draw(SECONDS),
            uplinks=draw(st.integers(1, 4)),
            per_switch=draw(st.integers(1, 4)),
        )
    count = draw(st.integers(2, 7))
    tree = [(draw(st.integers(0, k - 1)), k, draw(BANDWIDTH)) for k in range(1, count)]
    return graph(count, tree, seconds=draw(SECONDS), cards=draw(st.integers(1, count)))


@given(nodes())
@settings(max_examples=60)
def test_hosts_gpus_and_cards_are_joined_by_ways_as_long_there_as_back(node: Node) -> None:
    """No wire twice on a way, each way in one piece, through parts that let pass only."""
    ends = [
        *node.parts_of("host"),
        *node.parts_of("gpu"),
        *dict.fromkeys(c for c in node.cards if not node.parts[c].startswith(("host", "gpu"))),
    ]
    pairs = [(a, b) for a in ends for b in ends if a != b]
    seconds = {}
    for (a, b), lanes in zip(pairs, routes(node, pairs), strict=True):
        assert lanes and b in reached(node, a)
        wires = [node.wires[int(w)] for w in lanes]
        leaves = {w.source: w for w in wires}
        assert len(leaves) == len(wires)
        way, at = [], a
        while at != b:
            way.append(leaves[at])
            at = way[-1].target
        assert len(way) == len(wires) and all(one.target in node.passes for one, _ in pairwise(way))
        seconds[a, b] = sum(w.seconds for w in wires)
    for a, b in pairs:
        assert seconds[a, b] == pytest.approx(seconds[b, a])


@given(nodes())
@settings(max_examples=30)
def test_a_way_takes_its_latency_and_then_its_narrowest_wire(node: Node) -> None:
    """What the ways say is what the replay does: one message alone, from the first part to the last
    GPU.
    """
    start, end = 0, (node.parts_of("gpu") or (0,))[-1]
    (lanes,) = routes(node, [(start, end)])
    wires = [node.wires[int(w)] for w in lanes]
    size = 1e6
    alone = replay(one_message(start, end, size), Network(1, 1e9, 0.0, node=node)).seconds
    wire = size / min((w.bandwidth for w in wires), default=np.inf)
    assert alone == pytest.approx(wire + sum(w.seconds for w in wires), abs=1e-11)


@given(nodes(), st.integers(1, 9))
@settings(max_examples=40)
def test_ranks_stand_on_gpus_in_turn_and_share_their_time(node: Node, ranks: int) -> None:
    place = laid_out(np.zeros(ranks, dtype=np.int64), node)
    gpus = node.parts_of("gpu")
    assert place.device.tolist() == [gpus[k % len(gpus)] for k in range(ranks)]
    if shares := node.parts_of("share"):
        assert place.share.tolist() == [shares[k % len(gpus)] for k in range(ranks)]
        assert all(reached(node, s) == {s} for s in shares)


def test_gpus_of_a_switch_share_its_link_and_its_cards() -> None:
    """Four GPUs, two a switch, with two cards each: both cards are used, and one link up."""
    node = gpu_node(4, hosts=2, link=32e9, cards="gpu", per_switch=2, switch_cards=2)
    gpus = node.parts_of("gpu")
    assert [node.parts[c] for c in node.cards] == ["switch 0", "switch 0", "switch 1", "switch 1"]
    out = [
        next(w for w in way if isinstance(w, str) and w.endswith("out"))
        for way in routes(node, [(g, g) for g in gpus], apart=True)
    ]
    assert sorted(out) == [f"card {k} out" for k in range(4)]
    up = routes(node, [(g, node.parts_of("host")[k // 2]) for k, g in enumerate(gpus)])
    assert up[0][-1] != up[2][-1] and set(up[0]) & set(up[1]) and set(up[2]) & set(up[3])


def test_a_pool_pays_for_every_switch_on_the_way() -> None:
    node = pool(
        2,
        4,
        per_switch=2,
        link=32e9,
        link_seconds=1e-6,
        switch_seconds=0.1e-6,
        host_link=16e9,
        uplinks=2,
    )
    host, (a, b, c, _) = node.parts_of("host")[0], node.parts_of("gpu")
    for (one, other), seconds, width in (
        ((host, a), 1.2e-6, 16e9),
        ((a, b), 0.1e-6, 32e9),
        ((a, c), 0.3e-6, 32e9),
        ((host, 1), 2.1e-6, 16e9),
    ):
        for pair in ((one, other), (other, one)):
            wires = [node.wires[int(w)] for w in routes(node, [pair])[0]]
            assert (
                sum(w.seconds for w in wires) == pytest.approx(seconds)
                and min(w.bandwidth for w in wires) == width
            )


def test_what_lets_nothing_pass_is_no_way_through() -> None:
    row = (*both_ways(0, 1, 1e9), *both_ways(1, 2, 1e9))
    assert reached(Node(("gpu 0", "gpu 1", "gpu 2"), row, (0,), ()), 0) == {0, 1}
    assert reached(Node(("gpu 0", "gpu 1", "gpu 2"), row, (0,), (1,)), 0) == {0, 1, 2}
    one_way = Node(("gpu 0", "gpu 1"), (Wire(0, 1, 1e9),), (0,), ())
    assert reached(one_way, 0) == {0, 1} and reached(one_way, 1) == {1}
    both = Node(("gpu 0", "gpu 1"), (Wire(0, 1, 1e9, shared=True),), (0,), ())
    assert reached(both, 1) == {0, 1} and shared(both).parts_of("share") == (2, 3)


@st.composite
def random_nodes(draw: st.DrawFn) -> Node:
    """Any parts, wires both ways or one way, any of them letting pass."""
    count = draw(st.integers(2, 7))
    some = st.integers(0, count - 1)
    wires = draw(
        st.lists(
            st.builds(
                Wire, some, some, st.sampled_from([1e9, 2e9, 3e9]), st.just(0.0), st.booleans()
            ),
            max_size=16,
        )
    )
    return Node(
        tuple(f"gpu {k}" for k in range(count)),
        tuple(wires),
        tuple(draw(st.sets(some, min_size=1))),
        tuple(draw(st.sets(some))),
    )


@given(random_nodes())
@settings(max_examples=150)
def test_ways_have_the_fewest_wires_and_of_these_are_the_widest(node: Node) -> None:
    """Against all ways tried, one wire longer each time; where there is none, nothing is reached;
    the card is the nearest.
    """
    count = len(node.parts)
    best = {a: _best(node, a) for a in range(count)}
    pairs = [(a, b) for a in range(count) for b in best[a] if a != b]
    assert all(set(best[a]) == reached(node, a) for a in range(count))
    for (a, b), lanes in zip(pairs, routes(node, pairs), strict=True):
        assert (len(lanes), min(node.wires[int(w)].bandwidth for w in lanes)) == best[a][b]
    # which card is nearest is asked there and back; one way need not exist
    if all(c in best[a] and a in best[c] for a in range(count) for c in node.cards):

        def far(a: int, card: int) -> tuple[int, float]:
            (out, wide), (back, broad) = best[a][card], best[card][a]
            return out + back, -min(wide, broad)

        for a, way in zip(
            range(count), routes(node, [(a, a) for a in range(count)], apart=True), strict=True
        ):
            (out,) = [int(w.split()[1]) for w in way if isinstance(w, str) and w.endswith(" out")]
            assert far(a, node.cards[out]) == min(far(a, c) for c in node.cards)


def _best(node: Node, start: int) -> dict[int, tuple[int, float]]:
    """Fewest wires to each part, and the widest that the narrowest of so few can be."""
    found = {start: (0, float("inf"))}
    wave = {start: float("inf")}
    for wires in range(1, len(node.parts) + 1):
        further: dict[int, float] = {}
        for part, width in wave.items():
            if part != start and part not in node.passes:
                continue
            for wire in node.wires:
                for a, b in ((wire.source, wire.target), (wire.target, wire.source))[
                    : 1 + wire.shared
                ]:
                    if a == part and b not in found:
                        further[b] = max(further.get(b, 0.0), min(width, wire.bandwidth))
        found |= {part: (wires, width) for part, width in further.items()}
        wave = further
    return found
