"""The contention replay: closed forms, laws, and what goes wrong said by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import program
from refusals import refused

from turnbuckle.replay.contention.contention import (
    FatTree,
    Fidelity,
    Leaves,
    Network,
    Op,
    Program,
    of_tasks,
    replay,
)
from turnbuckle.replay.tasks import Tasks, replay_tasks

EMPTY = np.zeros(0, dtype=np.int64)
LINK = Network(
    hosts=2,
    bandwidth=12.5e9,
    hop_seconds=0.5e-6,
    latency=1e-6,
    send_overhead=0.5e-6,
    receive_overhead=0.5e-6,
    seconds_per_byte=8e-11,
)


def ping_pong(size: float, rounds: int, leaves: Leaves = Leaves.EAGER) -> Program:
    messages = [(k % 2, 1 - k % 2, size, leaves) for k in range(2 * rounds)]
    lists: list[list[tuple[Op, int]]] = [[], []]
    for k, (source, target, _, _) in enumerate(messages):
        lists[source] += [(Op.SEND, k)]
        lists[target] += [(Op.POST, k), (Op.AWAIT, k)]
    return program(lists, messages)


@pytest.mark.parametrize("fidelity", ["logp", "flow"])
@pytest.mark.parametrize("size", [1.0, 1024.0, 1e6])
def test_a_ping_pong_is_its_closed_form(fidelity: Fidelity, size: float) -> None:
    """Half a round: o + L + n G + o (LogGP, Alexandrov et al. 1995)."""
    found = replay(ping_pong(size, 50), LINK, fidelity)
    assert found.seconds / 100 == pytest.approx(0.5e-6 + 1e-6 + size / 12.5e9 + 0.5e-6, abs=1e-12)


@st.composite
def graphs(draw: st.DrawFn) -> Tasks:
    """Small graphs whose edges lead forward, on a few tracks."""
    count = draw(st.integers(1, 14))
    whole = st.integers(0, 50)
    edges = draw(
        st.lists(
            st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(
                lambda e: e[0] < e[1]
            ),
            max_size=25,
        )
    )
    return Tasks(
        np.array(draw(st.lists(whole, min_size=count, max_size=count)), dtype=float),
        np.array(draw(st.lists(st.integers(-1, 3), min_size=count, max_size=count))),
        np.array([a for a, _ in edges], dtype=np.int64),
        np.array([b for _, b in edges], dtype=np.int64),
        np.array(draw(st.lists(whole, min_size=len(edges), max_size=len(edges))), dtype=float),
    )


@settings(max_examples=150)
@given(graphs())
def test_without_contention_it_is_the_timeline(tasks: Tasks) -> None:
    one = of_tasks(tasks)
    found = replay(one, Network(hosts=1, bandwidth=1e9, hop_seconds=0.0), traced=True)
    known = replay_tasks(tasks)
    assert found.seconds == known.seconds
    ends = np.full(len(tasks), np.nan)
    ends[one.arg[one.code == Op.WORK]] = found.done[one.code == Op.WORK]
    assert ends.tolist() == known.end_seconds.tolist()


@st.composite
def traffic(draw: st.DrawFn) -> tuple[Program, Network]:
    """Messages among a few hosts, sent first and awaited then, so that nobody can get stuck."""
    hosts = draw(st.integers(2, 8))
    rank = st.integers(0, hosts - 1)
    sizes = st.integers(0, 5_000_000)
    ways = st.sampled_from([Leaves.EAGER, Leaves.READY])
    messages = draw(
        st.lists(st.tuples(rank, rank, sizes.map(float), ways), min_size=1, max_size=20)
    )
    lists: list[list[tuple[Op, int]]] = [[] for _ in range(hosts)]
    for op in (Op.POST, Op.SEND, Op.AWAIT, Op.SENT):
        for k, (source, target, _, _) in enumerate(messages):
            lists[source if op in (Op.SEND, Op.SENT) else target].append((op, k))
    tree = draw(
        st.sampled_from(
            [
                None,
                FatTree((2, 4), (1, 2), (1, 1)),
                FatTree((4, 2), (1, 1), (1, 2)),
                FatTree((2, 2, 2), (1, 2, 2), (1, 1, 1)),
            ]
        )
    )
    network = Network(
        hosts,
        draw(st.sampled_from([1e9, 12.5e9])),
        0.25e-6,
        tree,
        latency=1e-6,
        send_overhead=2e-7,
        receive_overhead=1e-7,
        seconds_per_byte=1e-10,
    )
    return program(lists, messages), network


@settings(max_examples=120)
@given(traffic())
def test_bytes_are_conserved_and_links_not_overrun(case: tuple[Program, Network]) -> None:
    one, network = case
    found = replay(one, network, "flow", traced=True)
    sent = one.size_bytes.sum()
    inside = one.size_bytes[one.source == one.target].sum()
    own = found.carried_bytes[len(found.carried_bytes) - network.hosts :]
    assert own.sum() == inside
    assert found.carried_bytes.sum() - inside >= 2 * (sent - inside), (
        "a message between hosts crosses two links at least"
    )
    assert (
        found.carried_bytes[: len(found.carried_bytes) - network.hosts]
        <= network.bandwidth * found.seconds * (1 + 1e-9) + 1
    ).all()
    assert (found.arrived >= found.began).all()


@settings(max_examples=60)
@given(traffic(), st.sampled_from(["logp", "flow"]))
def test_the_same_again_to_the_bit(case: tuple[Program, Network], fidelity: Fidelity) -> None:
    first, second = (replay(*case, fidelity, traced=True) for _ in range(2))
    for name in ("ends", "waited", "began", "arrived", "done", "carried_bytes"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes(), name
    assert first.events == second.events


@settings(max_examples=60)
@given(traffic())
def test_sharing_never_helps_a_message(case: tuple[Program, Network]) -> None:
    """No message is faster than it would be alone."""
    one, network = case
    found = replay(one, network, "flow", traced=True)
    alone = np.where(
        one.source == one.target,
        one.size_bytes / network.inside_bandwidth,
        one.size_bytes / network.bandwidth,
    )
    assert (found.arrived - found.began >= alone - 1e-12).all()


def test_two_messages_share_a_link_fairly() -> None:
    """Two to one host: each gets half until the shorter has ended."""
    lists = [[(Op.SEND, 0)], [(Op.SEND, 1)], [(Op.AWAIT, 0), (Op.AWAIT, 1)]]
    one = program(lists, [(0, 2, 1e6, Leaves.EAGER), (1, 2, 3e6, Leaves.EAGER)])
    found = replay(one, Network(3, 1e9, 0.0), "flow", traced=True)
    assert found.arrived.tolist() == pytest.approx([2e-3, 4e-3], abs=1e-11)


def test_a_wider_link_can_lengthen_a_run() -> None:
    """The fluid anomaly (models.md P6): a message that comes earlier on a wider link competes with
    one that matters more.
    """

    def seconds(bandwidth: float) -> float:
        lists = [
            [(Op.AWAIT, 0), (Op.SEND, 2), (Op.WORK, 1), (Op.AWAIT, 3)],
            [(Op.SEND, 0), (Op.WORK, 0), (Op.SEND, 1), (Op.AWAIT, 2), (Op.SEND, 3)],
            [(Op.AWAIT, 1), (Op.WORK, 2)],
        ]
        messages = [
            (1, 0, 8e6, Leaves.EAGER),
            (1, 2, 4e6, Leaves.EAGER),
            (0, 1, 8e6, Leaves.EAGER),
            (1, 0, 4e6, Leaves.EAGER),
        ]
        return replay(
            program(lists, messages, (10e-3, 3e-3, 9e-3)), Network(3, bandwidth, 0.0), "flow"
        ).seconds

    assert (seconds(1e9), seconds(1.5e9)) == pytest.approx((23e-3, 71e-3 / 3), abs=1e-9), (
        "not monotone, and that is no defect"
    )


def test_a_circle_is_named() -> None:
    lists = [[(Op.SEND, 0), (Op.SENT, 0), (Op.POST, 1)], [(Op.SEND, 1), (Op.SENT, 1), (Op.POST, 0)]]
    error = refused(
        "A071", replay, program(lists, [(0, 1, 8.0, Leaves.READY), (1, 0, 8.0, Leaves.READY)]), LINK
    )
    assert "0 -> 1 -> 0" in error.found


@pytest.mark.parametrize(
    "broken",
    [
        program([[(Op.SEND, 0)], []], [(0, 1, -1.0, Leaves.EAGER)]),
        program([[(Op.SEND, 0)], []], [(0, 1, float("nan"), Leaves.EAGER)]),
        program([[(Op.SEND, 3)], []], [(0, 1, 1.0, Leaves.EAGER)]),
        program([[], [(Op.SEND, 0)]], [(0, 1, 1.0, Leaves.EAGER)]),
        program([[(Op.SEND, 0), (Op.SEND, 0)], []], [(0, 1, 1.0, Leaves.EAGER)]),
        program([[(Op.WORK, 0)]], [], (1e300,)),
        program([[(Op.WORK, 0)]], [], (-1.0,)),
        program([[], []], [], host=[0, 7]),
    ],
)
def test_what_cannot_be_is_refused(broken: Program) -> None:
    refused("A072", replay, broken, LINK)


@pytest.mark.parametrize(
    "network",
    [
        Network(2, 0.0, 0.0),
        Network(2, float("nan"), 0.0),
        Network(2, 1e9, -1.0),
        Network(9, 1e9, 0.0, FatTree((2,), (1,), (1,))),
    ],
)
def test_a_network_that_cannot_be(network: Network) -> None:
    refused("A072", replay, ping_pong(1.0, 1), network)


@pytest.mark.parametrize(
    ("network", "found"),
    [
        (Network(2, 0.0, 0.0), "bandwidth of 0"),
        (Network(2, 1e9, 1e30), "hop_seconds of 1e+30 s"),
        (Network(2, 1e9, -1.0), "hop_seconds of -1"),
        (Network(-1, 1e9, 0.0), "hosts"),
        (Network(1 << 40, 1e9, 0.0), "hosts"),
        (Network(1 << 30, 1e9, 0.0), "out of its range"),
        (Network(2, 1e9, 0.0, FatTree((2,), (1,), (-1,))), "cables"),
        (Network(2, 1e9, 0.0, FatTree((2,), (1,), (1 << 30,))), "out of its range"),
    ],
)
def test_networks_that_cannot_be(network: Network, found: str) -> None:
    assert found in refused("A072", replay, ping_pong(8.0, 1), network).found


def test_arrays_of_different_lengths_are_refused() -> None:
    refused("A072", replay, replace(ping_pong(8.0, 2), size_bytes=np.ones(3)), LINK)


def test_flows_of_many_sizes_on_one_link() -> None:
    """3000 flows into one host, each of another size: the k-th shortest ends when all have had as
    much, in closed form.
    """
    count = 3000
    sizes = np.random.default_rng(5).permutation(np.arange(1, count + 1)) * 1000.0
    lists: list[list[tuple[Op, int]]] = [[(Op.SEND, k)] for k in range(count)]
    many = program(
        [*lists, [(Op.AWAIT, k) for k in range(count)]],
        [(k, count, s, Leaves.EAGER) for k, s in enumerate(sizes)],
    )
    found = replay(many, Network(count + 1, 1e9, 0.0), "flow", traced=True)
    shortest = np.sort(sizes)
    ends = np.cumsum(np.diff(shortest, prepend=0.0) * np.arange(count, 0, -1)) / 1e9
    assert np.sort(found.arrived) == pytest.approx(ends, rel=1e-9)
