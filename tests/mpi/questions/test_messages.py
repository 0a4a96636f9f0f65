"""Host copies against GPUDirect on a recorded run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

import turnbuckle as tb
from turnbuckle.mpi.questions.gpudirect.cost import (
    PHYSICS,
    SEED_G,
    gpudirect_seconds,
    hostcopy_seconds,
)
from turnbuckle.mpi.questions.messages.exchanged import MESSAGES
from turnbuckle.mpi.questions.messages.question import PATHS, paths, replayed
from turnbuckle.mpi.questions.messages.setup import (
    Costs,
    Setup,
    charges_of,
    network_of,
    with_settings,
)
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic, recorded
from turnbuckle.questions.sweep.question import Serial


@pytest.mark.parametrize(("costs", "preset"), [("seed_G", SEED_G), ("physics", PHYSICS)])
@pytest.mark.parametrize("size", [8.0, 1e6])
def test_charges_are_the_closed_forms(costs: Costs, preset: object, size: float) -> None:
    """What both ends are charged is what the equations say, whoever pays."""
    paid = {}
    for path in PATHS:
        found, _ = charges_of(Setup(path=path, costs=costs))
        paid[path] = sum(
            fixed + each * size for fixed, each in (found.sender, found.receiver)
        ) + found.pin_seconds * (not found.pin_once)
    assert paid["host"] == 0
    assert paid["hostcopy"] == pytest.approx(float(hostcopy_seconds(size, 0.0, preset)))  # type: ignore[arg-type]
    assert paid["gpudirect"] == pytest.approx(float(gpudirect_seconds(size, 0.0, preset)))  # type: ignore[arg-type]


def test_a_copy_at_either_end_by_physics_and_one_in_the_paper() -> None:
    physics, paper = (charges_of(Setup(costs=c))[0] for c in ("physics", "seed_G"))
    assert physics.sender == physics.receiver and paper.receiver == (0.0, 0.0)
    far, near = charges_of(Setup(path="p2p"))
    assert near.direct and not far.direct and far.sender == physics.sender


def exchange(ranks: int, size: float) -> Traffic:
    """Every rank sends to the next and receives from the one before."""
    send, receive = np.arange(ranks), ranks + np.arange(ranks)
    rank = np.concatenate([np.arange(ranks), (np.arange(ranks) + 1) % ranks])
    order = np.lexsort((np.arange(2 * ranks), rank))
    place = np.empty(2 * ranks, dtype=np.int64)
    place[order] = np.arange(2 * ranks)
    messages = Messages(
        place[send],
        place[receive],
        place[receive],
        place[receive],
        np.full(ranks, -1),
        np.full(ranks, size),
    )
    messages = replace(messages, sent=np.full(ranks, -1))
    called = {"call": np.where(order < ranks, 0, 1), "calls": ("isend", "recv")}
    return Traffic(
        ranks,
        rank[order],
        np.full(2 * ranks, 1e-5),
        np.zeros(2 * ranks),
        np.zeros(ranks),
        messages,
        (),
        1.0,
        0,
        **called,
    )


def seconds(traffic: Traffic, setup: Setup) -> float:
    return replayed(traffic, setup).row.seconds


#: Everything else costs nothing.
BARE = Setup(overhead_seconds=0.0, hop_seconds=0.0, eager_limit_bytes=1e12)
COPY = 2e-6 + 0.07e-9 * 1e6
WIRE = 1e6 / 12.5e9


def test_a_message_by_every_path_is_its_closed_form() -> None:
    one = exchange(2, 1e6)
    both = 2e-5  # compute before the receive; the sender's copy is done only after that
    for path, expected in (
        ("host", max(1e-5 + WIRE, both)),
        ("hostcopy", 1e-5 + COPY + WIRE + COPY),
        ("p2p", 1e-5 + COPY + WIRE + COPY),
    ):
        # a rank sends, then computes again: what it sends is copied first
        later = 1e-5 + COPY if path != "host" else 0.0
        assert seconds(one, with_settings(BARE, [f"path={path}"])) == pytest.approx(
            max(expected, later + 1e-5), rel=1e-6
        ), path
    pinned = replace(BARE, path="gpudirect", costs="seed_G")
    assert seconds(one, pinned) == pytest.approx(both + WIRE, rel=1e-6), (
        "the sender pins while the receiver computes"
    )
    assert seconds(one, replace(pinned, pin_seconds=2e-5)) == pytest.approx(
        1e-5 + 2e-5 + WIRE, rel=1e-6
    )
    assert seconds(one, replace(pinned, pinned="never")) == pytest.approx(both + WIRE, rel=1e-6)
    assert seconds(one, replace(pinned, device_eager_limit_bytes=1e6)) == pytest.approx(
        1e-5 + 4e-6 + WIRE, rel=1e-6
    )
    shaken = seconds(one, replace(pinned, handshake=True, hop_seconds=1e-6))
    assert shaken == pytest.approx(both + 2e-6 + 2e-6 + WIRE, rel=1e-6), (
        "the receiver comes last: its answer, then the way"
    )


def test_memory_pinned_once_costs_once() -> None:
    """Two ranks send each other the same size twice, one call after the other."""
    ring = exchange(2, 1e6)
    first = ring.messages
    names = ("send", "receive", "received")
    # calls 0 to 3 of a rank: send, receive, send, receive
    twice = {
        n: np.concatenate(
            [np.where(getattr(first, n) > 1, 4, 0) + getattr(first, n) % 2 + 2 * k for k in (0, 1)]
        )
        for n in names
    }
    none = np.full(4, -1)
    longer = Traffic(
        2,
        np.repeat([0, 1], 4),
        np.zeros(8),
        np.zeros(8),
        np.zeros(2),
        Messages(**twice, sent=none, step=none, size_bytes=np.full(4, 1e6)),
        (),
        1.0,
        0,
    )
    setup = replace(BARE, path="gpudirect", pin_seconds=1e-3)
    each, once, never = (
        seconds(longer, replace(setup, pinned=p)) for p in ("each", "once", "never")
    )
    assert each - never == pytest.approx(2e-3) and once - never == pytest.approx(1e-3)


def test_copies_in_chunks_overlap_with_the_network() -> None:
    one = exchange(2, 1e6)
    whole = seconds(one, replace(BARE, copy_seconds=1e-9))
    cut = seconds(one, replace(BARE, copy_seconds=1e-9, chunk_bytes=1e5))
    each = 0.07e-9 * 1e5
    wire = 1e5 / 12.5e9
    assert whole == pytest.approx(1e-5 + 10 * each + 10 * wire + 10 * each, rel=1e-3)
    # what the other sends has come by the time a rank has copied all that it sends itself
    assert cut == pytest.approx(2e-5 + 10 * each + 10 * each, rel=1e-3)
    one_way = with_settings(
        BARE, ["copy_seconds=1 ns", "chunk_bytes=100 kB", "buffers=host if rank 1; device"]
    )
    # chunks under way share the link, so that the last two arrive together
    assert seconds(one, one_way) == pytest.approx(1e-5 + each + 10 * wire + 2 * each, rel=1e-2)


def test_ranks_of_one_gpu_share_its_time_or_wait_for_it() -> None:
    four = exchange(4, 8.0)
    alone = seconds(four, replace(BARE, ranks_per_node=4))
    shared = replace(BARE, ranks_per_node=4, gpus_per_node=1, gpu_shared="exclusive")
    in_turn, at_once = seconds(four, shared), seconds(four, replace(shared, gpu_shared="time"))
    assert alone < in_turn and alone < at_once
    # 80 us of compute in all on one GPU
    assert in_turn >= 8e-5 and at_once >= 8e-5
    own = replayed(four, replace(BARE, ranks_per_node=4)).row
    assert own.gpu_wait_seconds == 0 == own.chain_gpu_seconds
    for turns in ("exclusive", "time"):
        done = replayed(four, replace(shared, gpu_shared=turns))  # type: ignore[arg-type]
        row = done.row
        assert done.done is not None and row.gpu_wait_seconds > row.compute_seconds, (
            "three others compute on it"
        )
        ends = float(np.mean(done.done.ends[:4]))
        assert (
            row.compute_seconds + row.gpu_wait_seconds + row.communication_seconds
            == pytest.approx(ends)
        )
        assert (
            row.chain_gpu_seconds >= 0.9 * 8e-5
            and row.chain_compute_seconds + row.chain_others_seconds < 0.1 * row.seconds
        )
    refused("A074", replayed, four, replace(shared, gpu_shared="time", fidelity="logp"))


def test_a_card_a_gpu_widens_what_a_card_a_node_narrows() -> None:
    four = exchange(4, 1e7)
    near = replace(BARE, path="gpudirect", ranks_per_node=2, peer_bandwidth=0.0)
    one, two = seconds(four, near), seconds(four, replace(near, cards="gpu"))
    assert one == pytest.approx(two, rel=0.05), "one message in and one out of every node"
    dealt = replace(near, mapping="round robin")
    one, two = seconds(four, dealt), seconds(four, replace(dealt, cards="gpu"))
    assert one - 2e-5 == pytest.approx(2 * (two - 2e-5), rel=0.05), (
        "two messages out of every node share its card"
    )


def test_rules_say_where_buffers_are() -> None:
    one = exchange(2, 1e6)
    free, copied = seconds(one, replace(BARE, path="host")), seconds(one, BARE)
    for rules, expected in (
        ("host", free),
        ("device", copied),
        ("host if size > 10 kB; device", free),
        ("device if size > 10 kB; host", copied),
        ("host if size>10kB", free),
        ("host if call isend", free),
        ("host if call recv", copied),
        ("host if rank 0-1", free),
    ):
        assert seconds(one, replace(BARE, buffers=rules)) == expected, rules
    for rules in (
        "gpu",
        "device if colour red",
        "host if size = 4 kB",
        "host if call bcast",
        "host if rank a",
        "host if rank 3-1",
        "host if rank 2",
        "",
        "host;",
        "device; host if rank 0",
    ):
        refused("A099", seconds, one, replace(BARE, buffers=rules))


@pytest.mark.parametrize(
    "topology",
    [
        "topology=switch",
        "topology=fat-tree",
        "topology=torus",
        "topology=dragonfly",
        "network=lassen",
    ],
)
def test_every_topology_carries_a_ring(topology: str) -> None:
    ring = exchange(12, 1e6)
    setup = with_settings(BARE, [topology, "path=host", "leaf_cards=4"])
    found = replayed(ring, setup)
    assert (
        found.row.seconds == pytest.approx(max(1e-5 + WIRE, 2e-5), rel=0.02)
        or found.row.seconds < 4 * WIRE
    )
    assert (
        found.row.between_bytes == 12e6
        and found.row.busiest
        and 0 < found.row.busiest_share <= 1 + 1e-9
    )
    assert (
        len(network_of(setup, 12).links())
        == len(network_of(setup, 12).capacities())
        == len(found.done.carried_bytes)
    )  # type: ignore[union-attr]


def test_a_tapered_tree_is_never_wider() -> None:
    across = exchange(16, 1e7)
    wide, narrow = (
        seconds(
            across,
            replace(
                BARE, path="host", topology="fat-tree", leaf_cards=4, taper=t, mapping="random"
            ),
        )
        for t in (1.0, 4.0)
    )
    assert narrow > wide


@pytest.mark.parametrize(
    "words",
    [
        "ranks_per_node=0",
        "card_bandwidth=0 B/s",
        "hop_seconds=-1 s",
        "taper=0",
        "gpus_per_node=3",
        "chunk_bytes=1 B",
        "compute=-1",
        "taper=2",
        "taper=2 topology=torus",
        "taper=2 network=lassen",
        "taper=1e-300 topology=fat-tree",
        "ranks_per_node=1000",
        "ranks_per_node=8 network=lassen gpu_shared=time fidelity=logp",
        "network=summit gpus_per_node=2",
    ],
)
def test_setups_that_cannot_be(words: str) -> None:
    refused(
        "A074", replayed, exchange(8, 8.0), with_settings(BARE, re.split(r" (?=[a-z_]+=)", words))
    )


def mixed() -> Traffic:
    """A ring of eight, messages of 50 kB, a sum of as much."""
    ring = exchange(8, 5e4)
    calls = len(ring.rank)
    order = np.argsort(np.append(ring.rank, np.arange(8)), kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    old = ring.messages
    moved = replace(old, **{n: place[getattr(old, n)] for n in ("send", "receive", "received")})
    last = Rounds("allreduce", np.array([5e4]), place[calls:][None, :], 0)
    return replace(
        ring,
        rank=np.append(ring.rank, np.arange(8))[order],
        gap_seconds=np.full(len(order), 1e-5),
        kept_seconds=np.zeros(len(order)),
        messages=moved,
        rounds=(last,),
        call=np.append(ring.call, np.full(8, 2))[order],
        calls=("isend", "recv", "allreduce"),
    )


#: What each field is set to, and beside which others, so that it makes a difference.
EFFECTS: dict[str, tuple[str, str]] = {
    "path": ("", "gpudirect"),
    "ranks": ("", "16"),
    "ranks_per_node": ("", "2"),
    "gpus_per_node": ("ranks_per_node=4", "2"),
    "gpus_per_rank": ("ranks_per_node=4 gpus_per_node=4 gpu_shared=exclusive", "2"),
    "gpu_shared": ("ranks_per_node=4 gpus_per_node=1", "time"),
    "mapping": ("ranks_per_node=2", "random"),
    "network": ("", "perlmutter"),
    "topology": ("hop_seconds=1 us", "torus"),
    "taper": ("topology=fat-tree leaf_cards=2 mapping=random path=host", "2"),
    "leaf_cards": ("topology=fat-tree hop_seconds=1 us", "2"),
    "cards": ("ranks_per_node=2 mapping=round robin path=host", "gpu"),
    "card_bandwidth": ("path=host", "1 GB/s"),
    "hop_seconds": ("", "5 us"),
    "inside_bandwidth": ("ranks_per_node=8", "1 GB/s"),
    "link_bandwidth": ("", "1 GB/s"),
    "peer_bandwidth": ("ranks_per_node=8 path=p2p", "1 GB/s"),
    "overhead_seconds": ("", "5 us"),
    "overhead_bandwidth": ("", "1 GB/s"),
    "gap_seconds": ("fidelity=logp path=host", "100 us"),
    "costs": ("", "seed_G"),
    "copy_seconds": ("", "9 us"),
    "copy_bandwidth": ("", "1 GB/s"),
    "pin_seconds": ("path=gpudirect pinned=each", "9 us"),
    "pinned": ("path=gpudirect", "each"),
    "chunk_bytes": ("", "8 KiB"),
    "eager_limit_bytes": ("", "100 kB"),
    "device_eager_limit_bytes": ("path=gpudirect", "100 kB"),
    "staging": ("", "once a call"),
    "handshake": ("path=gpudirect", "true"),
    "buffers": ("", "host if call isend"),
    "fidelity": ("ranks_per_node=2 path=host", "logp"),
    "collectives": ("path=host", "tracer"),
    "compute": ("", "2"),
    "compute_of": ("", "2 if rank 0"),
    "seed": ("mapping=random ranks_per_node=2", "3"),
}


def beside(words: str) -> Setup:
    return with_settings(Setup(), re.split(r" (?=[a-z_]+=)", words) if words else [])


@pytest.mark.parametrize("name", sorted(Setup().as_dict()))
def test_every_field_has_an_effect(name: str) -> None:
    base, value = EFFECTS[name]
    setup, traffic = beside(base), mixed()
    changed = with_settings(setup, [f"{name}={value}"])
    if name == "ranks":
        traffic = exchange(8, 5e4)
    rows = [replayed(traffic, s).row for s in (setup, changed)]
    if name in ("ranks", "ranks_per_node"):
        # a ring is as long for more ranks: what changes is how much goes where
        assert rows[0].between_bytes != rows[1].between_bytes
    else:
        assert rows[0].seconds != pytest.approx(rows[1].seconds, rel=1e-6)


@pytest.mark.parametrize(
    "words",
    [
        # nothing is copied, nothing is pinned
        "path=host; copy_seconds=9 us",
        "path=gpudirect; copy_bandwidth=1 GB/s",
        "path=gpudirect; chunk_bytes=4 KiB",
        "path=hostcopy; pin_seconds=9 us",
        "path=hostcopy; pinned=each",
        "path=hostcopy; device_eager_limit_bytes=1 MB",
        "path=host; buffers=host",
        "path=gpudirect; eager_limit_bytes=0 B",
        # one GPU a rank, nobody inside a node, no tree, no dice, all messages long or all short
        "ranks_per_node=2; gpu_shared=time",
        "ranks_per_node=1; inside_bandwidth=1 GB/s",
        "path=p2p; peer_bandwidth=1 GB/s",
        "topology=torus; leaf_cards=3",
        "mapping=linear; seed=5",
        "eager_limit_bytes=1 MB; handshake=true",
        # a node that is given whole
        "network=lassen; network=lassen ranks_per_node=1 gpus_per_node=0",
        "network=summit; network=summit gpus_per_node=0",
    ],
)
def test_what_a_field_does_not_touch_stays(words: str) -> None:
    base, change = words.split("; ")
    assert seconds(mixed(), beside(base)) == seconds(
        mixed(), beside(f"{base} {change}" if "network" not in base else change)
    )


def test_a_network_keeps_its_node_where_one_bandwidth_is_asked_for() -> None:
    """Summit has two sockets with three GPUs each: one faster kind of wire changes neither."""
    whole = network_of(Setup(network="summit"), 2).made_of
    for name, factor in (
        ("inside_bandwidth", 2.0),
        ("link_bandwidth", 2.0),
        ("peer_bandwidth", 2.0),
    ):
        kind = name.split("_")[0]
        ends = {"inside": ("host", "host"), "link": ("gpu", "host"), "peer": ("gpu", "gpu")}[kind]
        alike = [
            w
            for w in whole.wires
            if tuple(sorted(whole.parts[p].split()[0] for p in (w.source, w.target))) == ends
        ]
        mine = [w for w in alike if (w.source == w.target) == (kind == "inside")]
        least = min(w.bandwidth for w in mine)
        found = network_of(replace(Setup(network="summit"), **{name: factor * least}), 2).made_of  # type: ignore[arg-type]
        assert (found.parts, found.cards) == (whole.parts, whole.cards) and len(found.wires) == len(
            whole.wires
        )
        for before, after in zip(whole.wires, found.wires, strict=True):
            assert after.bandwidth == pytest.approx(
                before.bandwidth * (factor if before in mine else 1.0)
            )
    bare = network_of(Setup(network="summit", peer_bandwidth=0.0), 2).made_of
    assert len(bare.wires) < len(whole.wires) and bare.parts == whole.parts
    own = network_of(
        Setup(
            network="summit",
            ranks_per_node=8,
            inside_bandwidth=1e9,
            link_bandwidth=1e9,
            peer_bandwidth=1e9,
        ),
        2,
    ).made_of
    assert len(own.parts_of("gpu")) == 8, "all three of them: a node of its own"
    assert len(network_of(Setup(network="summit", cards="node"), 2).made_of.cards) == 1
    each = network_of(Setup(network="summit", cards="gpu"), 2).made_of
    assert [each.parts[c] for c in each.cards] == ["host 0"] * 3 + ["host 1"] * 3 and len(
        each.parts_of("seat")
    ) == 12


def test_one_gpu_a_rank_is_never_shared_however_many_there_are() -> None:
    many = exchange(128, 8.0)
    wide = replace(BARE, path="host", ranks_per_node=128)
    assert seconds(many, wide) == pytest.approx(
        seconds(many, replace(wide, ranks_per_node=64)), rel=1e-3
    )


def test_a_card_a_gpu_serves_host_copies_too() -> None:
    four = exchange(4, 1e7)
    for path in ("host", "hostcopy"):
        dealt = with_settings(BARE, [f"path={path}", "ranks_per_node=2", "mapping=round robin"])
        one, two = seconds(four, dealt), seconds(four, replace(dealt, cards="gpu"))
        assert one - two == pytest.approx(1e7 / 12.5e9, rel=0.01), (
            "two messages behind one card, or one behind each"
        )


def test_a_machine_made_in_python_stands_for_its_network_with_its_own_copies(
    tmp_path: Path,
) -> None:
    lassen, gh200 = tb.Machine.load("lassen"), tb.Machine.load("gh200")
    named, given = Setup(network="lassen"), Setup(network=lassen)
    assert given.paid == named.paid and given.as_dict() == named.as_dict()
    assert network_of(given, 2) == network_of(named, 2) and network_of(
        Setup(network=gh200), 2
    ) == network_of(Setup(network="alps"), 2)
    slow = lassen.with_parameters(
        {
            f"link.{way}.latency": tb.Parameter(1e-3, 0.0, "s", "assumption", "this test")
            for way in ("h2d", "d2h")
        }
    )
    traffic = exchange(2, 1e6)
    assert Setup(network=slow).paid.copy_latency == 1e-3
    assert seconds(traffic, Setup(network=slow)) > seconds(traffic, named) + 1e-3
    refused("A050", network_of, Setup(network=replace(gh200, name="its-own")), 2)
    (tmp_path / "ring.goal").write_text(
        "num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 {\nrecv 8b from 0\n}\n", encoding="utf-8"
    )
    machines = [lassen, replace(gh200, name="alps")]
    swept = tb.sweep(
        tb.Study("far", MESSAGES, {"ring": tmp_path / "ring.goal"}, axes={"network": machines}),
        Serial(),
    )
    assert [row["network"] for row in swept.rows()] == ["lassen", "alps"] and not swept.failed


def test_a_placement_with_gaps_keeps_the_numbers_of_its_nodes(tmp_path: Path) -> None:
    (tmp_path / "where.txt").write_text("5\n0\n", encoding="utf-8")
    found = replayed(
        exchange(2, 1e6),
        replace(BARE, path="host", mapping=str(tmp_path / "where.txt"), topology="torus"),
    )
    assert found.node.tolist() == [5, 0] and found.network.hosts == 6
    assert found.row.between_bytes == 2e6 and found.row.inside_bytes == 0


def test_unknown_settings_are_refused_with_the_nearest() -> None:
    assert "taper" in (refused("A081", with_settings, Setup(), ["tapper=2"]).fix or "")


def test_a_real_run_on_three_shapes(shared: Path) -> None:
    traffic = recorded(tb.read(shared / "traces" / "nsys-local" / "lammps-melt-4r.sqlite").profile)
    found = paths(traffic)
    for each in (1, 2, 4):
        host, copied, direct = (found.row(each, p) for p in PATHS)
        assert host.seconds <= copied.seconds and host.seconds <= direct.seconds
        assert copied.nodes == -(-4 // each)
        assert found.gain(each) == pytest.approx(
            copied.communication_seconds / direct.communication_seconds - 1
        )
    assert (
        found.row(4, "host").card_bytes
        == 0
        < found.row(2, "host").card_bytes
        <= found.row(1, "host").card_bytes
    )
    for several in ([0], [10**30], []):
        refused("A074", paths, traffic, ranks_per_node=several)


def test_a_circle_is_told_by_ranks_calls_and_times() -> None:
    """Two ranks send 100 B head-on: fine while eager, which they never are from device memory."""
    first, then = np.array([0, 2]), np.array([3, 1])
    head_on = Messages(first, first, then, then, np.full(2, -1), np.full(2, 100.0))
    own = {
        "call": np.array([1, 0, 1, 0]),
        "calls": ("recv", "send"),
        "start_seconds": np.array([0.5, 0.6, 0.25, 0.7]),
    }
    made = Traffic(
        2, np.array([0, 0, 1, 1]), np.zeros(4), np.zeros(4), np.zeros(2), head_on, (), 1.0, 0, **own
    )
    stuck = replayed(made, Setup(path="gpudirect")).row.stuck
    assert stuck.startswith(
        "process 0 -> 1 -> 0: rank 0 in send (its call 1, recorded at 0.5 s); rank 1 in send "
        "(its call 1, recorded at 0.25 s)"
    )
    assert replayed(made, Setup()).row.stuck == ""
