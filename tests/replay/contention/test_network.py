"""The names of links: what a message between two places carries stands under the names of its
way.
"""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from programs import program
from refusals import refused

from turnbuckle.mpi.replay.node_layout import seated
from turnbuckle.replay.contention.contention import Fidelity, Leaves, Op, replay
from turnbuckle.replay.contention.network import Backbone, Dragonfly, FatTree, Network, Node, Torus
from turnbuckle.replay.contention.nodes import gpu_node, graph, pool

SIZE = 1000.0


def way(network: Network, start: int, end: int) -> set[str]:
    """Names of the links that carried a single message."""
    one = program(
        [[(Op.SEND, 0)], [(Op.POST, 0), (Op.AWAIT, 0)]],
        [(0, 1, SIZE, Leaves.EAGER)],
        host=[start, end],
    )
    carried, names, capacity = (
        replay(one, network, "flow").carried_bytes,
        network.links(),
        network.capacities(),
    )
    assert len(names) == len(set(names)) == len(carried) == len(capacity)
    assert set(carried[carried > 0].tolist()) <= {SIZE}
    narrowest = min((capacity[k] for k in np.flatnonzero(carried)), default=math.inf)
    took = replay(one, network, "flow").seconds
    assert took == pytest.approx(SIZE / narrowest, rel=1e-6)
    return {names[k] for k in np.flatnonzero(carried)}


def pairs(count: int, most: int = 40) -> list[tuple[int, int]]:
    every = list(itertools.permutations(range(count), 2))
    return every[:: max(1, len(every) // most)]


def numbers(name: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", name)]


def test_one_switch() -> None:
    for a, b in pairs(5):
        assert way(Network(5, 1e9, 0.0), a, b) == {f"card {a} out", f"card {b} in"}


def test_a_backbone_that_all_messages_share() -> None:
    for bandwidth in (5e8, 2e9):
        for a, b in pairs(4):
            assert way(Network(4, 1e9, 0.0, backbone=Backbone(bandwidth)), a, b) == {
                f"card {a} out",
                "backbone",
                f"card {b} in",
            }
    for flawed in (Backbone(0.0), Backbone(math.inf), Backbone(1e9, -1.0), Backbone(math.nan)):
        refused("A072", way, Network(2, 1e9, 0.0, backbone=flawed), 0, 1)
    refused("A072", way, Network(2, 1e9, 0.0, Torus((2,)), backbone=Backbone(1e9)), 0, 1)


@pytest.mark.parametrize("fidelity", ["flow", "packet"])
def test_messages_there_and_back_share_the_backbone(fidelity: Fidelity) -> None:
    """Two at once take twice as long as one alone, whichever way they go; a latency is paid for
    each of the three links.
    """
    size = 1e6

    def seconds(ends: list[tuple[int, int]]) -> float:
        count = len(ends)
        lists = [[(Op.SEND, k)] for k in range(count)] + [
            [(Op.POST, k), (Op.AWAIT, k)] for k in range(count)
        ]
        places = [a for a, _ in ends] + [b for _, b in ends]
        made = program(
            lists, [(k, count + k, size, Leaves.EAGER) for k in range(count)], host=places
        )
        network = Network(
            4, 1e9, 1e-6, backbone=Backbone(1e9, 5e-6), packet_bytes=1000, buffer_bytes=1e6
        )
        return float(replay(made, network, fidelity).seconds)

    alone = seconds([(0, 1)])
    assert alone == pytest.approx(7e-6 + size / 1e9, rel=3e-3)
    for ends in ([(0, 1), (1, 0)], [(0, 1), (2, 3)]):
        assert seconds(ends) == pytest.approx(7e-6 + 2 * size / 1e9, rel=3e-3)


@pytest.mark.parametrize(
    "tree",
    [
        FatTree((2, 3), (1, 2), (1, 1)),
        FatTree((2, 2, 2), (1, 2, 2), (1, 2, 1)),
        FatTree((3, 2), (2, 1), (1, 3)),
    ],
)
def test_fat_trees(tree: FatTree) -> None:
    """Up to where both ends have a switch in common, and down as far: each switch stands above its
    end.
    """
    cards = math.prod(tree.down)
    for a, b in pairs(cards):
        found = way(Network(cards, 1e9, 0.0, tree), a, b)
        below, wide, levels = 1, 1, 0
        for level, (down, up) in enumerate(zip(tree.down, tree.up, strict=True)):
            if a // below == b // below:
                break
            what = "card" if level == 0 else f"level {level} switch"
            ups, downs = (
                [n for n in found if re.match(rf"{what} \d+ {w}\b", n)] for w in ("up", "down")
            )
            (rising,), (falling,) = ups, downs
            at = [numbers(n)[0 if level == 0 else 1] for n in (rising, falling)]
            assert [n // wide for n in at] == [a // below, b // below]
            below, wide, levels = below * down, wide * up, levels + 1
        assert len(found) == 2 * levels


@pytest.mark.parametrize("torus", [Torus((4,)), Torus((3, 4)), Torus((2, 3, 4)), Torus((2, 2), 2)])
def test_tori(torus: Torus) -> None:
    """From router to router the shorter way round, the first dimension first."""
    cards = math.prod(torus.dims) * torus.cards
    for a, b in pairs(cards):
        left = way(Network(cards, 1e9, 0.0, torus), a, b) - {f"card {a} out", f"card {b} in"}
        at = list(np.unravel_index(a // torus.cards, torus.dims[::-1]))[::-1]
        goal = list(np.unravel_index(b // torus.cards, torus.dims[::-1]))[::-1]
        for axis, size in enumerate(torus.dims):
            away = int(goal[axis] - at[axis]) % size
            for _ in range(min(away, size - away)):
                here = int(np.ravel_multi_index(at[::-1], torus.dims[::-1]))
                (taken,) = [n for n in left if re.fullmatch(rf"router {here} [+-]{'xyz'[axis]}", n)]
                left.remove(taken)
                at[axis] = (at[axis] + (1 if "+" in taken else -1)) % size
        assert not left and at == goal


@pytest.mark.parametrize(
    "shape", [Dragonfly(3, 2, 2, 1), Dragonfly(5, 4, 1, 1), Dragonfly(3, 2, 1, 4)]
)
def test_dragonflies(shape: Dragonfly) -> None:
    """A local link to the router of the channel, the channel of its own group, and a local link to
    the end.
    """
    cards = shape.groups * shape.routers * shape.cards
    for a, b in pairs(cards):
        found = way(Network(cards, 1e9, 0.0, shape), a, b)
        here, there = a // shape.cards, b // shape.cards
        local = {tuple(numbers(n)) for n in found if n.startswith("router")}
        crossed = [numbers(n) for n in found if n.startswith("group")]
        if here // shape.routers == there // shape.routers:
            assert not crossed and local == ({(here, there)} if here != there else set())
            continue
        ((group, channel),) = crossed
        assert group == here // shape.routers
        leaves = group * shape.routers + channel // shape.channels
        before = {(here, leaves)} if here != leaves else set()
        assert before <= local and len(local - before) <= 1
        assert all(
            end == there and start // shape.routers == there // shape.routers
            for start, end in local - before
        )


@pytest.mark.parametrize(
    "node",
    [
        gpu_node(3, link=2e9, memory=5e9),
        gpu_node(4, hosts=2, link=2e9, peer=3e9, cards="host"),
        gpu_node(2, link=2e9, cards="gpu"),
        seated(gpu_node(2, link=2e9, cards="gpu")),
        pool(2, 4, link=1e9, per_switch=2),
        graph(4, [(0, 1, 1e9), (1, 2, 2e9), (2, 3, 1e9)]),
    ],
)
def test_wires_of_nodes(node: Node) -> None:
    """Each wire of a way begins where another ends, from the start to a card, and from a card to
    the end.
    """
    network, parts = Network(2, 0.5e9, 0.0, node=node), len(node.parts)
    at_card: dict[int, int] = {}
    for a, b in pairs(2 * parts, 60):
        if any(node.parts[p % parts].startswith("share") for p in (a, b)):
            continue
        found = way(network, a, b)
        for at, place in ((a // parts, a), (b // parts, b)):
            steps = [
                re.split(r" -> | - ", n.split(": ")[1])
                for n in found
                if n.startswith(f"node {at}: ")
            ]
            touched = [part for step in steps for part in (step[0], step[-1])]
            ends = {part for part in touched if touched.count(part) == 1}
            if a // parts == b // parts:
                assert ends == {node.parts[a % parts], node.parts[b % parts]}
                break
            gone = {node.parts[place % parts]}
            assert ends == set() or gone <= ends
            assert ends - gone <= {node.parts[c] for c in node.cards}
        if a // parts != b // parts:
            cards = {name for name in found if name.startswith("card")}
            for place, name in ((a, "out"), (b, "in")):
                (own,) = (numbers(c)[0] for c in cards if c.endswith(name))
                assert at_card.setdefault(place, own) == own, "a place has one card"
                assert own // len(node.cards) == place // parts
