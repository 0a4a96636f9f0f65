"""The chain behind a run time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import program

from turnbuckle.mpi.questions.messages.setup import Setup, program_of
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic
from turnbuckle.replay.contention.contention import Leaves, Network, Op, Program, replay
from turnbuckle.replay.contention.critical import Chain, chain

LINE = Network(2, 1e9, 1e-6, send_overhead=1e-6, receive_overhead=2e-6)


def pair(work: tuple[float, float], leaves: Leaves, delay: float = 0.0) -> Program:
    """Process 0 works and sends 1000 B, process 1 works, makes room and waits."""
    lists = [[(Op.WORK, 0), (Op.SEND, 0)], [(Op.WORK, 1), (Op.POST, 0), (Op.AWAIT, 0)]]
    return program(lists, [(0, 1, 1000.0, leaves)], work, delay_seconds=np.array([delay]))


def found(program: Program, network: Network = LINE) -> Chain:
    done = replay(program, network, "flow", traced=True)
    made = chain(program, done)
    assert made.seconds == pytest.approx(done.seconds, rel=1e-9, abs=1e-12)
    return made


def test_a_late_sender_and_a_late_receiver() -> None:
    late = found(pair((1e-3, 0.0), Leaves.EAGER))
    assert (late.compute, late.network, late.overheads) == pytest.approx((1e-3, 3e-6, 3e-6))
    receiver = found(pair((0.0, 1e-3), Leaves.READY, delay=5e-6))
    assert (receiver.compute, receiver.network, receiver.overheads) == pytest.approx(
        (1e-3, 3e-6, 2e-6)
    )
    assert receiver.delays == 0, "memory was pinned while the sender waited"
    sender = found(pair((1e-3, 0.0), Leaves.READY, delay=5e-6))
    assert (sender.compute, sender.network, sender.overheads, sender.delays) == pytest.approx(
        (1e-3, 3e-6, 3e-6, 5e-6)
    )
    there = found(pair((0.0, 1e-3), Leaves.EAGER))
    assert there.network == 0 and there.compute == pytest.approx(1e-3), (
        "what came before it was asked for is not on the chain"
    )


def traffic(ranks: int, gaps: np.ndarray, size: float) -> Traffic:
    """Every rank sends to the next, receives from the one before, and all reduce a vector."""
    calls = np.arange(3 * ranks)
    send, receive = calls[::3], (np.arange(ranks) + 1) % ranks * 3 + 1
    messages = Messages(
        send, np.full(ranks, -1), receive, receive, np.full(ranks, -1), np.full(ranks, size)
    )
    rounds = Rounds("allreduce", np.array([size]), calls[2::3][None, :], 0)
    return Traffic(
        ranks,
        np.repeat(np.arange(ranks), 3),
        gaps,
        np.zeros(3 * ranks),
        np.zeros(ranks),
        messages,
        (rounds,),
        1.0,
        0,
    )


@given(
    st.integers(2, 6),
    st.sampled_from(["host", "hostcopy", "p2p", "gpudirect"]),
    st.sampled_from([8.0, 1e4, 1e6]),
    st.integers(0, 100),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from(["flow", "logp"]),
)
def test_the_parts_add_up_to_the_run_time(
    ranks: int, path: str, size: float, seed: int, each: int, handshake: bool, fidelity: str
) -> None:
    gaps = np.random.default_rng(seed).exponential(1e-5, 3 * ranks)
    setup = replace(Setup(path=path, ranks_per_node=each, handshake=handshake, fidelity=fidelity))  # type: ignore[arg-type]
    program, network, _ = program_of(traffic(ranks, gaps, size), setup)
    done = replay(program, network, setup.fidelity, traced=True)
    made = chain(program, done)
    assert made.seconds == pytest.approx(done.seconds, rel=1e-9)
    assert min(made.__dict__.values()) >= -1e-12
    assert (made.copies > 0) <= (path in ("hostcopy", "p2p"))


def test_shared_gpus_are_resources() -> None:
    setup = Setup(ranks_per_node=2, gpus_per_node=1, gpu_shared="exclusive")
    program, network, _ = program_of(traffic(2, np.full(6, 1e-5), 8.0), setup)
    assert chain(program, replay(program, network, "flow", traced=True)).resources > 3e-5


def test_nothing_traced_is_nothing() -> None:
    program = pair((1e-3, 0.0), Leaves.EAGER)
    assert chain(program, replay(program, LINE, "flow")).seconds == 0


def test_shared_gpu_time_is_no_copy() -> None:
    setup = Setup(ranks_per_node=2, gpus_per_node=1, gpu_shared="time", path="host")
    program, network, _ = program_of(traffic(2, np.full(6, 1e-5), 8.0), setup)
    made = found(program, network)
    assert made.copies == 0 and made.resources == pytest.approx(6e-5, rel=1e-2)


def test_a_message_to_oneself_is_on_the_network() -> None:
    """No copy: it goes over the memory of the node."""
    one = pair((0.0, 1e-3), Leaves.READY)
    own = replace(
        one,
        first=np.array([0, 4]),
        code=np.array([Op.WORK, Op.POST, Op.SEND, Op.AWAIT], dtype=np.uint8),
        arg=np.array([0, 0, 0, 0]),
        host=np.array([0]),
        target=np.array([0]),
    )
    made = found(own, replace(LINE, inside_bandwidth=1e9))
    assert (
        made.copies == 0
        and made.network == pytest.approx(1e-6)
        and made.overheads == pytest.approx(3e-6)
    )


@pytest.mark.parametrize(
    ("sender", "receiver", "compute"),
    # the request is under way for 2 us: a receiver that comes after 1 us is not late, one that
    # comes after 15 us is
    [(10e-6, 11.5e-6, 10e-6), (10e-6, 25e-6, 25e-6), (10e-6, 0.0, 10e-6)],
)
@pytest.mark.parametrize("delay", [0.0, 7e-6])
def test_with_a_handshake_whoever_is_late_is_told_by_when_it_is_asked(
    sender: float, receiver: float, compute: float, delay: float
) -> None:
    line = replace(LINE, handshake=True, send_overhead=0.0, receive_overhead=0.0)
    made = found(pair((sender, receiver), Leaves.READY, delay), line)
    assert made.compute == pytest.approx(compute)
    assert made.network == pytest.approx(3e-6)
    assert made.delays == pytest.approx(2e-6 if receiver > sender + delay + 2e-6 else delay + 4e-6)


def test_a_wait_for_a_copy_engine_is_part_of_the_copy() -> None:
    """Two ranks on one GPU send at once: the second waits for the engine of the first."""
    calls = np.arange(4)
    two = Messages(calls[:2], np.full(2, -1), calls[2:], calls[2:], np.full(2, -1), np.full(2, 1e6))
    four = Traffic(
        4, calls, np.array([1e-5, 1e-5, 0, 0]), np.zeros(4), np.zeros(4), two, (), 1.0, 0
    )
    setup = Setup(
        ranks_per_node=2,
        gpus_per_node=1,
        overhead_seconds=0.0,
        hop_seconds=0.0,
        gpu_shared="exclusive",
        eager_limit_bytes=1e9,
    )
    program, network, _ = program_of(four, setup)
    made = found(program, network)
    each = 2e-6 + 0.07e-9 * 1e6
    # the second computes after the first, waits for its copy, and shares the card with the last 8
    # us of its message
    assert made.copies == pytest.approx(3 * each - 1e-5, rel=1e-6)
    assert (
        made.network == pytest.approx(1e6 / 12.5e9 + 8e-6, rel=1e-6)
        and made.compute == made.delays == 0
    )
    assert made.resources == pytest.approx(2e-5)


def test_the_network_holds_the_wait_for_a_card() -> None:
    """By logp a card sends one message after the other: the second is under way for both."""
    calls = np.arange(4)
    two = Messages(
        calls[[0, 0]], np.full(2, -1), calls[[1, 2]], calls[[1, 2]], np.full(2, -1), np.full(2, 1e6)
    )
    three = Traffic(
        3, np.array([0, 1, 2, 2]), np.zeros(4), np.zeros(4), np.zeros(3), two, (), 1.0, 0
    )
    program, network, _ = program_of(
        three,
        Setup(
            path="host",
            overhead_seconds=0.0,
            hop_seconds=0.0,
            eager_limit_bytes=1e9,
            fidelity="logp",
        ),
    )
    done = replay(program, network, "logp", traced=True)
    assert chain(program, done).network == pytest.approx(2e6 / 12.5e9, rel=1e-6)
