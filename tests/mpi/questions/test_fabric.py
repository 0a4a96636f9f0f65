"""A machine as a network, looked at."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import program
from refusals import refused

from turnbuckle.mpi.questions.fabric.question import bisection, diameter, fabric, remarks, together
from turnbuckle.replay.contention.contention import Leaves, Op, replay
from turnbuckle.replay.contention.network import Dragonfly, FatTree, Network, Node, Torus, Wire
from turnbuckle.replay.contention.network_file import Described, bundled, read_network
from turnbuckle.replay.contention.nodes import both_ways, gpu_node

FAT_TREES = [FatTree((4, 4), (1, 2), (1, 1)), FatTree((3, 2, 3), (1, 2, 2), (1, 1, 2))]
DRAGONFLIES = [Dragonfly(3, 2, 2, 1), Dragonfly(5, 4, 2, 2), Dragonfly(1, 4, 2, 1)]
SHAPES = [*FAT_TREES, Torus((4, 3), 2), Torus((2, 5)), Torus((6,)), *DRAGONFLIES, None]


def carried(network: Network, pairs: list[tuple[int, int]]) -> np.ndarray:
    """Bytes on each link: one for every pair of hosts."""
    sending, waiting = ([(op, k) for k in range(len(pairs))] for op in (Op.SEND, Op.AWAIT))
    messages = [(0, 1, 1.0, Leaves.EAGER)] * len(pairs)
    start, end = np.array(pairs).T
    made = program([sending, waiting], messages, host=[0, 0], start=start, end=end)
    return replay(made, network).carried_bytes


def room(shape: FatTree | Torus | Dragonfly | None) -> int:
    match shape:
        case FatTree(down):
            return math.prod(down)
        case Torus(dims, cards):
            return math.prod(dims) * cards
        case Dragonfly(groups, routers, cards):
            return groups * routers * cards
        case None:
            return 6


@pytest.mark.parametrize("shape", SHAPES)
def test_the_longest_route_is_the_longest_that_the_replay_takes(
    shape: FatTree | Torus | Dragonfly | None,
) -> None:
    full = room(shape)
    for cards in sorted({2, 3, full // 3, full // 2 + 1, full - 1, full} - {0, 1}):
        network = Network(cards, 1e9, 1e-6, shape)
        last = cards - 1
        longest = max(carried(network, [(a, last)])[: -cards or None].sum() for a in range(last))
        first = max(carried(network, [(0, b)])[: -cards or None].sum() for b in range(1, cards))
        assert max(longest, first) <= diameter(shape, cards)
    # from every card of a full network the farthest is as far as is said
    network = Network(cards, 1e9, 1e-6, shape)
    assert max(
        carried(network, [(a, b)])[:-cards].sum()
        for a in range(cards)
        for b in range(cards)
        if a != b
    ) == diameter(shape, cards)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_traffic_passes_the_bisection_faster_than_it_lets_it(
    shape: FatTree | Torus | Dragonfly | None,
) -> None:
    """All of one half send to all of the other: it takes no less than the bytes over the links
    between the halves.
    """
    cards = room(shape)
    half = cards // 2
    if isinstance(shape, Torus):
        stride = math.prod(shape.dims[: shape.dims.index(max(shape.dims))]) * shape.cards
        low = [c for c in range(cards) if c // stride % max(shape.dims) < max(shape.dims) // 2]
    elif isinstance(shape, Dragonfly) and shape.groups > 1:
        low = list(range(shape.groups // 2 * shape.routers * shape.cards))
    else:
        low = list(range(half))
    high = [c for c in range(cards) if c not in low]
    pairs = [(a, b) for a in low for b in high]
    most = carried(Network(cards, 1e9, 0.0, shape), pairs).max()
    assert most >= len(pairs) / bisection(shape, cards) * min(1.0, len(low) / half) * (1 - 1e-9)


def test_known_bisections() -> None:
    assert bisection(FatTree((18, 18), (1, 18), (1, 1)), 324) == 162
    assert bisection(FatTree((18, 18), (1, 9), (1, 1)), 324) == 81
    assert bisection(FatTree((4, 4), (1, 2), (1, 2)), 16) == 8
    assert (
        bisection(Torus((4, 4)), 16) == 8
        and bisection(Torus((4, 4), 4), 64) == 8
        and bisection(Torus((2, 2)), 4) == 2
    )
    assert bisection(Dragonfly(2, 4, 2, 2), 16) == 8 and bisection(Dragonfly(2, 4, 4, 1), 32) == 4
    assert bisection(None, 7) == 3.5 and bisection(Torus((1, 1), 4), 4) == 2


@given(st.integers(2, 8), st.integers(2, 6), st.integers(1, 8))
@settings(max_examples=40)
def test_a_tapered_tree_spreads_every_shift_over_its_cables(
    below: int, leaves: int, up: int
) -> None:
    """D-mod-k: whatever the shift, no cable between leaf and spine has more than its share of a
    leaf's messages, rounded up.
    """
    cards = below * leaves
    network = Network(cards, 1e9, 0.0, FatTree((below, leaves), (1, up), (1, 1)))
    names = network.links()
    for shift in range(1, cards):
        found = carried(network, [(a, (a + shift) % cards) for a in range(cards)])
        above = [n for name, n in zip(names, found, strict=True) if name.startswith("level 1")]
        assert max(above) <= math.ceil(below / up) + (cards % up > 0)


def test_lassen_spreads_every_shift_over_its_cables() -> None:
    """18 nodes and 12 cables a leaf: two messages a cable at most, up and down, and never one
    more.
    """
    described = read_network("lassen")
    network = Network(810, described.bandwidth, described.hop_seconds, described.shape)
    for shift in (1, 17, 18, 19, 100, 405, 809):
        found = carried(network, [(a, (a + shift) % 810) for a in range(810)])
        above = np.array(
            [
                n
                for name, n in zip(network.links(), found, strict=True)
                if name.startswith("level 1")
            ]
        )
        assert above.max() == (1 if shift in (1, 809) else 2) and len(above) == 2 * 45 * 12


def test_summit_is_not_blocking() -> None:
    shape = read_network("summit").shape
    assert isinstance(shape, FatTree)
    cards = math.prod(shape.down)
    network = Network(cards, 1e9, 0.0, shape)
    for shift in (1, 18, 500, 4000):
        assert (
            carried(network, [(a, (a + shift) % cards) for a in range(cards)])[:-cards].max() == 1
        )


def test_what_gpus_leave_each_other() -> None:
    """Four GPUs behind one link up: a quarter each; a card for two: half; a mesh: all of it."""
    node = gpu_node(4, link=32e9, peer=50e9, cards="gpu", per_switch=4, switch_cards=2)
    found = {t.what: t for t in together(node, 25e9)}
    assert (found["every GPU to its host"].bandwidth, found["every GPU to its host"].sharing) == (
        8e9,
        4,
    )
    assert (
        found["every GPU to its host"].wire == "switch 0 -> host 0"
        and found["every GPU to its host"].alone == 32e9
    )
    assert (
        found["every GPU to another node"].bandwidth,
        found["every GPU to another node"].alone,
    ) == (12.5e9, 25e9)
    assert (
        found["every GPU to all others"].bandwidth
        == 50e9
        == found["every GPU to the next"].bandwidth
    )


@pytest.mark.parametrize("name", bundled())
def test_what_is_said_of_sharing_is_what_the_replay_gives(name: str) -> None:
    """The worst placed of all GPUs that send to the next at once ends last: its bytes at the
    bandwidth that is told.
    """
    made = read_network(name).node
    assert made is not None
    said = {t.what: t.bandwidth for t in together(made, 25e9)}
    gpus = made.parts_of("gpu")
    count, size = len(gpus), 1e9
    lists = [[(Op.SEND, k), (Op.AWAIT, (k - 1) % count)] for k in range(count)]
    ring = program(
        lists, [(k, (k + 1) % count, size, Leaves.EAGER) for k in range(count)], host=gpus
    )
    seconds = replay(ring, Network(1, 1e9, 0.0, node=made)).seconds
    assert seconds == pytest.approx(size / said["every GPU to the next"], rel=1e-3)


def test_what_is_doubtful() -> None:
    twice = Node(
        ("host 0", "gpu 0", "gpu 1"),
        (*both_ways(0, 1, 1e9), *both_ways(0, 2, 1e9), *both_ways(0, 1, 1e9)),
        (0,),
        (0,),
    )
    plain = Described("ours", "", "a drawing", 2, 1e9, 0.0, None, twice)
    (told,) = remarks(fabric(plain))
    assert told.startswith(
        "wires given twice, of which one is taken: host 0 and gpu 0; gpu 0 and host 0"
    )
    uneven = Node(("host 0", "gpu 0"), (Wire(0, 1, 1e9), Wire(1, 0, 2e9)), (0,), (0,))
    assert remarks(fabric(replace(plain, node=uneven))) == [
        "there and back differ: gpu 0 and host 0"
    ]
    long = Node(
        ("host 0", "gpu 0", "gpu 1"),
        (*both_ways(0, 1, 1e9), *both_ways(0, 2, 1e9), *both_ways(1, 2, 1e9)),
        (0,),
        (0,),
    )
    assert remarks(fabric(replace(plain, node=long))) == []
    spare = Node(
        ("host 0", "host 1", "gpu 0"),
        (*both_ways(0, 2, 1e9), *both_ways(0, 1, 1e9), *both_ways(1, 0, 2e9)),
        (0,),
        (0, 1),
    )
    assert any(
        "no way between" in r or "given twice" in r
        for r in remarks(fabric(replace(plain, node=spare)))
    )
    assert any("one part each" in r for r in remarks(fabric(replace(plain, node=None))))


def test_large_nodes_are_shown_in_part() -> None:
    large = gpu_node(64, hosts=4, link=32e9)
    found = fabric(Described("ours", "", "a drawing", 0, 1e9, 0.0, None, large))
    assert (
        found.left_out == 68 - 16 - 4
        and len(found.ways) == 20**2
        and not found.idle
        and found.nodes == 1
    )


@pytest.mark.parametrize("nodes", [811, 10**9])
def test_nodes_that_are_not_there(nodes: int) -> None:
    refused("A052", fabric, read_network("lassen"), nodes)


def test_more_nodes_than_can_be_counted() -> None:
    any_number = Described("ours", "", "a drawing", 0, 1e9, 0.0, None, gpu_node(8, link=1e9))
    for shape, nodes in ((None, 10**8), (Torus((2, 2)), 5)):
        refused("A052", fabric, replace(any_number, shape=shape), nodes)
