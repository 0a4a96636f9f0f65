"""Recorded MPI runs as programs: what is kept, what is replayed, and that nothing is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import turnbuckle as tb
from turnbuckle.errors import CannotAnswer, UsageError
from turnbuckle.replay.contention import Leaves, Network, Op, replay
from turnbuckle.replay.mpi import Charges, Messages, Rounds, Traffic, expanded, program, recorded

FREE = Network(1, 1e15, 0.0, inside_bandwidth=1e15)


def made(messages: list[tuple[int, int, int, int, float]], rank: list[int], gap: list[float], rounds: tuple[Rounds, ...] = ()) -> Traffic:
    """Traffic from lists: activities of a message (send, its wait, receive, its wait) and bytes; rank and gap of each activity."""
    columns = [np.array(c, dtype=float if k == 4 else np.int64) for k, c in enumerate(zip(*messages, strict=True))] if messages else []
    if not columns:
        columns = [np.zeros(0, np.int64)] * 4 + [np.zeros(0)]
    *ends, size = columns
    ranks = max(rank) + 1
    return Traffic(
        ranks, np.array(rank), np.array(gap), np.zeros(len(rank)), np.zeros(ranks),
        Messages(*ends, np.full(len(size), -1), size), rounds, 1.0, 0,
    )  # fmt: skip


PING = made([(0, 0, 1, 1, 1e6)], [0, 1], [1e-3, 0.0])


def test_compute_is_kept_and_waiting_is_replayed() -> None:
    done = replay(program(PING), Network(2, 1e9, 0.0), "flow")
    assert done.ends.tolist() == pytest.approx([2e-3, 2e-3]) and done.waited.tolist() == pytest.approx([1e-3, 2e-3])
    faster = replay(program(PING, compute=0.5), Network(2, 1e9, 0.0), "flow")
    assert faster.seconds == pytest.approx(1.5e-3)


@pytest.mark.parametrize(
    ("charged", "more"),
    [
        (Charges(), 0.0),
        (Charges((2e-6, 0.07e-9)), 72e-6),
        (Charges((1e-6, 0.0), (2e-6, 1e-12)), 4e-6),
        (Charges((4e-6, 0.0), ready=True), 4e-6),
    ],
)
def test_either_end_costs_what_it_is_charged(charged: Charges, more: float) -> None:
    one = program(PING, charged=charged)
    assert replay(one, Network(2, 1e9, 0.0), "flow").seconds == pytest.approx(2e-3 + more, abs=1e-11)
    assert (one.leaves == Leaves.READY).all()


def test_small_messages_leave_early_unless_both_ends_must_be_ready() -> None:
    small = made([(0, 0, 1, 1, 100.0)], [0, 1], [0.0, 1.0])
    assert replay(program(small), Network(2, 1e9, 0.0), "flow").ends[0] < 1e-3
    assert replay(program(small, charged=Charges(ready=True)), Network(2, 1e9, 0.0), "flow").ends[0] >= 1.0


def test_ranks_of_a_node_share_its_card() -> None:
    """Two ranks that send to two others: alone a millisecond, behind one card two."""
    both = made([(0, 0, 2, 2, 1e6), (1, 1, 3, 3, 1e6)], [0, 1, 2, 3], [0.0] * 4)
    apart, together = (replay(program(both, ranks_per_node=n), Network(4 // n, 1e9, 0.0), "flow").seconds for n in (1, 2))
    assert (apart, together) == pytest.approx((1e-3, 2e-3))


def test_a_collective_is_the_messages_of_its_algorithm() -> None:
    group = Rounds("allreduce", np.array([8.0, 1e6]), np.array([[0, 2, 4, 6], [1, 3, 5, 7]]), 0)
    found = expanded(group, "short and long")
    short, long = found.send % 2 == 0, found.send % 2 == 1
    assert short.sum() == 4 * 2 and (found.size_bytes[short] == 8).all(), "recursive doubling"
    assert found.size_bytes[long].sum() == pytest.approx(4 * 1e6 * 2 * 3 / 4), "Rabenseifner moves 2 (P-1)/P of the vector a rank"
    ring = made([], [0, 0, 1, 1, 2, 2, 3, 3], [1e-3] * 8, (group,))
    done = replay(program(ring), Network(4, 1e9, 0.0), "flow")
    assert done.seconds > 2e-3 and np.ptp(done.ends) < 1e-3


def test_sends_that_rely_on_buffers_are_found() -> None:
    """Both send first, then receive: fine while messages are eager, stuck when they are not."""
    head_on = made([(0, 0, 3, 3, 1e5), (2, 2, 1, 1, 1e5)], [0, 0, 1, 1], [0.0] * 4)
    assert replay(program(head_on, eager_limit=1e6), Network(2, 1e9, 0.0), "flow").seconds > 0
    with pytest.raises(UsageError) as stuck:
        replay(program(head_on), Network(2, 1e9, 0.0), "flow")
    assert stuck.value.code == "A071" and "0 -> 1 -> 0" in stuck.value.found


@pytest.mark.parametrize("name", ["lammps-melt-4r", "halo-py-4r", "cannon-py-4r", "p2pkinds-2r", "lammps-melt-2r-osrt-sampling"])
def test_real_runs(shared: Path, name: str) -> None:
    traffic = recorded(tb.inspect(shared / "traces" / "nsys-local" / f"{name}.sqlite").profile)
    assert traffic.unmatched == 0
    one = program(traffic)
    sent = np.bincount(one.arg[one.code == Op.SEND], minlength=len(one.source))
    awaited = np.bincount(one.arg[one.code == Op.AWAIT], minlength=len(one.source))
    assert (sent == 1).all() and (awaited <= 1).all() and awaited.sum() > 0.9 * len(one.source)
    # on a network that costs nothing a run takes what its ranks compute and wait for each other, never more than was recorded
    free = replay(one, Network(traffic.ranks, 1e15, 0.0, inside_bandwidth=1e15), "flow")
    assert traffic.compute_seconds.max() - 1e-9 <= free.seconds <= traffic.seconds + 1e-9
    # the slower the network, the longer these runs take
    slower = [replay(one, Network(traffic.ranks, b, 1e-6), "flow").seconds for b in (1e10, 1e8, 1e7)]
    assert slower == sorted(slower)


def test_one_process_has_no_messages() -> None:
    with tb.sample() as path, pytest.raises(CannotAnswer) as refused:
        recorded(tb.inspect(path).profile)
    assert refused.value.code == "A164"
