"""Buffers as recorded: each end of a message pays for its own copy, and what an answer says of
them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from turnbuckle.foundation.schema import words
from turnbuckle.mpi.questions.gpudirect.question import study
from turnbuckle.mpi.questions.messages.question import paths
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.mpi.replay.buffers import on_device, stated
from turnbuckle.mpi.replay.extrapolate import repeated
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic
from turnbuckle.mpi.replay.patterns import Pattern, traffic_of
from turnbuckle.mpi.replay.program import Charges, Priced, all_messages, program
from turnbuckle.replay.contention.contention import Leaves, replay
from turnbuckle.replay.contention.network import Network

UNKNOWN, HOST, PINNED, DEVICE, MANAGED = (
    words("memories").index(word) for word in ("unknown", "pageable", "pinned", "device", "managed")
)
NOT_RECORDED = -1


def traffic(
    *memory: tuple[int, int], rounds: tuple[Rounds, ...] = (), size: float = 1e6
) -> Traffic:
    """Messages from rank 0 to rank 1, one after the other, with the places of their two ends."""
    count = len(memory)
    send, receive, none = np.arange(count), count + np.arange(count), np.full(count, -1)
    calls = 2 * count + sum(group.activity.size for group in rounds)
    rank = np.concatenate(
        [
            np.zeros(count, np.int64),
            np.ones(count, np.int64),
            np.tile([0, 1], (calls - 2 * count) // 2),
        ]
    )
    places = np.array(memory, dtype=np.int8).reshape(-1, 2)
    messages = Messages(send, send, receive, receive, none, np.full(count, size), memory=places)
    return Traffic(
        2,
        rank.astype(np.int64),
        np.zeros(calls),
        np.zeros(calls),
        np.zeros(2),
        messages,
        rounds,
        1.0,
        0,
    )


def seconds(run: Traffic, charged: Charges) -> float:
    """Run time with one rank on each of two nodes."""
    device = on_device("recorded", run, *all_messages(run))
    return replay(
        program(run, charged=charged, on_device=device), Network(2, 1e9, 0.0), "flow"
    ).seconds


@pytest.mark.parametrize(
    ("ends", "copies"),
    [
        ((DEVICE, DEVICE), 3e-3),
        ((DEVICE, HOST), 1e-3),
        ((PINNED, DEVICE), 2e-3),
        ((HOST, MANAGED), 0.0),
    ],
)
def test_each_end_pays_for_its_own_copy(ends: tuple[int, int], copies: float) -> None:
    charged = Charges((1e-3, 0.0), (2e-3, 0.0))
    assert seconds(traffic(ends), charged) - seconds(
        traffic((HOST, HOST)), charged
    ) == pytest.approx(copies, abs=1e-12)


def test_a_message_goes_straight_from_and_to_where_its_ends_are() -> None:
    from turnbuckle.mpi.questions.messages.setup import program_of

    run = traffic((DEVICE, DEVICE), (DEVICE, HOST), (HOST, DEVICE), (HOST, HOST))
    made, network, _ = program_of(run, Setup(path="gpudirect", gpus_per_node=1))
    part = {kind: network.made_of.parts_of(kind)[0] for kind in ("gpu", "host")}
    count = len(network.made_of.parts)
    assert (made.start % count).tolist() == [part[kind] for kind in ("gpu", "gpu", "host", "host")]
    assert (made.end % count).tolist() == [part[kind] for kind in ("gpu", "host", "gpu", "host")]
    # a message leaves as the sender's memory lets it: straight from a device it waits for its
    # receiver
    assert (made.leaves == Leaves.READY).tolist() == [True] * 4, (
        "1 MB is beyond the eager limit of host memory, too"
    )
    short, _, _ = program_of(
        traffic((DEVICE, HOST), (HOST, DEVICE), size=100.0), Setup(path="gpudirect")
    )
    assert (short.leaves == Leaves.READY).tolist() == [True, False]


def test_rules_decide_what_is_not_recorded() -> None:
    run = traffic((HOST, NOT_RECORDED), (UNKNOWN, DEVICE))
    every = all_messages(run)
    assert on_device("recorded", run, *every).tolist() == [[False, True], [True, True]], (
        "device memory where nothing is known"
    )
    assert on_device("recorded; host", run, *every).tolist() == [[False, False], [False, True]]
    assert on_device("host if rank 0; recorded", run, *every).tolist() == [
        [False, False],
        [False, False],
    ], "the first rule that fits"
    assert on_device("device", run, *every).all() and not on_device("host", run, *every).any()


def test_members_of_a_collective_have_places_of_their_own() -> None:
    group = Rounds(
        "bcast",
        np.array([1e6]),
        np.array([[2, 3]]),
        0,
        memory=np.array([[DEVICE, HOST]], dtype=np.int8),
    )
    run = traffic((HOST, HOST), rounds=(group,))
    messages, call = all_messages(run)
    assert on_device("recorded", run, messages, call)[1:].tolist() == [[True, False]], (
        "from its root"
    )
    beside = replace(run, rounds=(replace(group, begin=np.array([[2, 3]])),), rank=run.rank)
    assert on_device("recorded", beside, *all_messages(beside))[1:].tolist() == [[True, False]]


def test_an_answer_says_that_buffers_are_recorded() -> None:
    some = paths(traffic((DEVICE, DEVICE), (DEVICE, HOST), (MANAGED, UNKNOWN)), ranks_per_node=[1])
    said = (
        "buffers as recorded: 3 in device memory, 1 in unified memory, 1 in host memory; of 1 "
        "not known"
    )
    assert some.buffers == said and some.verdict.sentence.endswith(f"; {said}") and some.gain(1) > 0
    assert (
        some.as_dict()["buffers"] == said
        and said in study(some.traffic, ranks_per_node=[1]).verdict
    )
    none = paths(traffic((HOST, PINNED), (MANAGED, HOST)), ranks_per_node=[1])
    assert none.gain(1) == 0 and none.verdict.word == "makes no difference"
    assert none.verdict.sentence.startswith(
        "GPUDirect makes no difference: no message of this run begins or ends in device memory; "
    )
    assert study(none.traffic, ranks_per_node=[1]).verdict == none.verdict.sentence


def test_an_answer_says_what_it_assumes() -> None:
    run = replace(
        traffic((HOST, HOST)),
        messages=replace(traffic((HOST, HOST)).messages, memory=np.zeros((0, 2), dtype=np.int8)),
    )
    assert paths(run, ranks_per_node=[1]).buffers == "buffers: all assumed in device memory"
    assert stated("recorded", run) is None
    for rules in ("host", "device if size > 1 kB; host"):
        found = paths(run, Setup(buffers=rules), ranks_per_node=[1])
        assert (
            found.buffers == f"buffers by rules, not recorded: {rules}"
            and found.buffers not in found.verdict.sentence
        )
    asked = paths(traffic((HOST, HOST)), Setup(buffers="device"), ranks_per_node=[1])
    assert asked.buffers == "buffers: all assumed in device memory" and asked.gain(1) > 0, (
        "what is asked for goes before the recording"
    )


def test_places_are_repeated_with_their_messages() -> None:
    run = traffic_of(Pattern("halo", 1, (1e5,), 3, periodic=True, compute_seconds=1e-3), 4)
    sides = np.where(run.rank[run.messages.send] % 2 == 0, DEVICE, HOST).astype(np.int8)
    run = replace(run, messages=replace(run.messages, memory=np.stack([sides, sides], axis=1)))
    larger = repeated(run, 8).messages
    assert len(larger.memory) == len(larger.send) and set(np.unique(larger.memory).tolist()) == {
        DEVICE,
        HOST,
    }


def test_classes_of_cost_are_told_apart() -> None:
    priced = Priced(Charges((1.0, 2.0), (3.0, 4.0)), Charges((5.0, 6.0), (7.0, 8.0)), 10.0)
    assert [column.tolist() for column in priced.copies("sender")] == [
        [0, 1, 5, 1, 5, 0, 0],
        [0, 2, 6, 2, 6, 0, 0],
    ]
    assert [column.tolist() for column in priced.copies("receiver")] == [
        [0, 3, 7, 0, 0, 3, 7],
        [0, 4, 8, 0, 0, 4, 8],
    ]
