"""Recorded MPI runs as programs: what is kept, what is replayed, and that nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refused

import turnbuckle as tb
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic, expanded, recorded
from turnbuckle.mpi.replay.program import Charges, program
from turnbuckle.replay.contention.contention import Leaves, Network, Op, replay

FREE = Network(1, 1e15, 0.0, inside_bandwidth=1e15)


def made(
    messages: list[tuple[int, int, int, int, float]],
    rank: list[int],
    gap: list[float],
    rounds: tuple[Rounds, ...] = (),
) -> Traffic:
    """Traffic from lists: activities of a message (send, its wait, receive, its wait) and bytes;
    rank and gap of each activity.
    """
    columns = (
        [
            np.array(c, dtype=float if k == 4 else np.int64)
            for k, c in enumerate(zip(*messages, strict=True))
        ]
        if messages
        else []
    )
    if not columns:
        columns = [np.zeros(0, np.int64)] * 4 + [np.zeros(0)]
    *ends, size = columns
    ranks = max(rank) + 1
    return Traffic(
        ranks,
        np.array(rank),
        np.array(gap),
        np.zeros(len(rank)),
        np.zeros(ranks),
        Messages(*ends, np.full(len(size), -1), size),
        rounds,
        1.0,
        0,
    )


PING = made([(0, 0, 1, 1, 1e6)], [0, 1], [1e-3, 0.0])


def test_compute_is_kept_and_waiting_is_replayed() -> None:
    done = replay(program(PING), Network(2, 1e9, 0.0), "flow")
    assert done.ends.tolist() == pytest.approx(
        [2e-3, 2e-3]
    ) and done.waited.tolist() == pytest.approx([1e-3, 2e-3])
    faster = replay(program(PING, compute=0.5), Network(2, 1e9, 0.0), "flow")
    assert faster.seconds == pytest.approx(1.5e-3)


@pytest.mark.parametrize(
    ("charged", "more"),
    [
        (Charges(), 0.0),
        (Charges((2e-6, 0.07e-9)), 72e-6),
        (Charges((1e-6, 0.0), (2e-6, 1e-12)), 4e-6),
        (Charges(pin_seconds=4e-6, eager_limit=0.0), 4e-6),
    ],
)
def test_either_end_costs_what_it_is_charged(charged: Charges, more: float) -> None:
    one = program(PING, charged=charged)
    assert replay(one, Network(2, 1e9, 0.0), "flow").seconds == pytest.approx(
        2e-3 + more, abs=1e-11
    )
    assert (one.leaves == Leaves.READY).all()


def test_small_messages_leave_early_unless_both_ends_must_be_ready() -> None:
    small = made([(0, 0, 1, 1, 100.0)], [0, 1], [0.0, 1.0])
    assert replay(program(small), Network(2, 1e9, 0.0), "flow").ends[0] < 1e-3
    assert (
        replay(program(small, charged=Charges(eager_limit=0.0)), Network(2, 1e9, 0.0), "flow").ends[
            0
        ]
        >= 1.0
    )


def test_ranks_of_a_node_share_its_card() -> None:
    """Two ranks that send to two others: alone a millisecond, behind one card two."""
    both = made([(0, 0, 2, 2, 1e6), (1, 1, 3, 3, 1e6)], [0, 1, 2, 3], [0.0] * 4)
    apart, together = (
        replay(program(both, ranks_per_node=n), Network(4 // n, 1e9, 0.0), "flow").seconds
        for n in (1, 2)
    )
    assert (apart, together) == pytest.approx((1e-3, 2e-3))


def test_a_collective_is_the_messages_of_its_algorithm() -> None:
    group = Rounds("allreduce", np.array([8.0, 1e6]), np.array([[0, 2, 4, 6], [1, 3, 5, 7]]), 0)
    found = expanded(group, "short and long")
    short, long = found.send % 2 == 0, found.send % 2 == 1
    assert short.sum() == 4 * 2 and (found.size_bytes[short] == 8).all(), "recursive doubling"
    assert found.size_bytes[long].sum() == pytest.approx(4 * 1e6 * 2 * 3 / 4), (
        "Rabenseifner moves 2 (P-1)/P of the vector a rank"
    )
    ring = made([], [0, 0, 1, 1, 2, 2, 3, 3], [1e-3] * 8, (group,))
    done = replay(program(ring), Network(4, 1e9, 0.0), "flow")
    assert done.seconds > 2e-3 and np.ptp(done.ends) < 1e-3


def test_sends_that_rely_on_buffers_are_found() -> None:
    """Both send first, then receive: fine while messages are eager, stuck when they are not."""
    head_on = made([(0, 0, 3, 3, 1e5), (2, 2, 1, 1, 1e5)], [0, 0, 1, 1], [0.0] * 4)
    assert replay(program(head_on, eager_limit=1e6), Network(2, 1e9, 0.0), "flow").seconds > 0
    assert (
        "0 -> 1 -> 0"
        in refused("A071", replay, program(head_on), Network(2, 1e9, 0.0), "flow").found
    )


@pytest.mark.parametrize(
    "name",
    ["lammps-melt-4r", "halo-py-4r", "cannon-py-4r", "p2pkinds-2r", "lammps-melt-2r-osrt-sampling"],
)
def test_real_runs(shared: Path, name: str) -> None:
    traffic = recorded(tb.read(shared / "traces" / "nsys-local" / f"{name}.sqlite").profile)
    assert traffic.unmatched == 0
    one = program(traffic)
    sent = np.bincount(one.arg[one.code == Op.SEND], minlength=len(one.source))
    awaited = np.bincount(one.arg[one.code == Op.AWAIT], minlength=len(one.source))
    assert (sent == 1).all() and (awaited <= 1).all() and awaited.sum() > 0.9 * len(one.source)
    # on a network that costs nothing a run takes what its ranks compute and wait for each other,
    # never more than was recorded
    free = replay(one, Network(traffic.ranks, 1e15, 0.0, inside_bandwidth=1e15), "flow")
    assert traffic.compute_seconds.max() - 1e-9 <= free.seconds <= traffic.seconds + 1e-9
    # the slower the network, the longer these runs take
    slower = [
        replay(one, Network(traffic.ranks, b, 1e-6), "flow").seconds for b in (1e10, 1e8, 1e7)
    ]
    assert slower == sorted(slower)


def test_one_process_has_no_messages() -> None:
    with tb.sample() as path:
        refused("A164", recorded, tb.read(path).profile)


def test_synchronous_sends_wait_and_buffered_ones_never_do() -> None:
    small = made([(0, 0, 1, 1, 100.0)], [0, 1], [0.0, 1.0])
    synchronous = replace(small, messages=replace(small.messages, ready=np.array([True])))
    assert replay(program(synchronous), Network(2, 1e9, 0.0), "flow").ends[0] >= 1.0
    buffered = replace(small, messages=replace(small.messages, sent=np.array([-1])))
    assert (
        replay(
            program(buffered, charged=Charges(eager_limit=0.0)), Network(2, 1e9, 0.0), "flow"
        ).ends[0]
        == 0.0
    )


def test_what_carries_nothing_is_not_in_device_memory() -> None:
    """Neither copied nor pinned, and it leaves at once."""
    empty = made([(0, 0, 1, 1, 0.0)], [0, 1], [0.0, 1.0])
    for charged in (
        Charges((2e-6, 1e-9), (2e-6, 1e-9)),
        Charges(pin_seconds=4e-6, eager_limit=0.0),
    ):
        assert replay(
            program(empty, charged=charged), Network(2, 1e9, 0.0), "flow"
        ).ends.tolist() == [0.0, 1.0]


def test_threads_of_a_rank_are_on_its_node() -> None:
    """Rank 0 calls from two threads: four ranks a pair of nodes, and its two messages share its
    card.
    """
    both = made([(0, 0, 2, 2, 1e6), (1, 1, 3, 3, 1e6)], [0, 1, 2, 3], [0.0] * 4)
    two = replace(both, ranks=3, rank_of=np.array([0, 0, 1, 2]))
    assert program(two).host.tolist() == [0, 0, 1, 2]
    assert replay(program(two), Network(3, 1e9, 0.0), "flow").seconds == pytest.approx(2e-3)


def test_non_blocking_collectives_go_on_beside_their_ranks() -> None:
    """Rank 0 receives between the two calls what rank 1 sends after its own wait: no circle, since
    the library goes on meanwhile.
    """
    group = Rounds("allreduce", np.array([8.0]), np.array([[2, 4]]), 0, np.array([[0, 3]]))
    #        rank 0: begin, receive, wait             rank 1: begin, wait, send
    circle = made(
        [(5, 5, 1, 1, 100.0)], [0, 0, 0, 1, 1, 1], [0.0, 0.0, 0.0, 2e-3, 0.0, 0.0], (group,)
    )
    done = replay(program(circle), Network(2, 1e9, 0.0), "flow")
    assert done.seconds == pytest.approx(2e-3 + 8e-9 + 100e-9) and len(done.ends) == 4
    both = np.array([[0, 4], [1, 5]]), np.array([[3, 6], [3, 7]])
    two = Rounds("allreduce", np.array([8.0, 8.0]), both[1], 0, both[0])
    waits = made([], [0, 0, 0, 0, 1, 1, 1, 1], [0.0] * 8, (two,))
    assert replay(program(waits), Network(2, 1e9, 0.0), "flow").seconds > 0, (
        "one wait for both here, one each there"
    )


def independent_compute(profile: tb.Profile) -> dict[int, float]:
    """Time of each rank outside all MPI calls, from the end of its MPI_Init to the begin of its
    MPI_Finalize [s].
    """
    ranks = dict(profile.trace.mpi_ranks.select("thread", "rank").iter_rows())
    spent = {}
    for thread, rank in ranks.items():
        calls = profile.trace.mpi.filter(pl.col("thread") == thread).sort("start_ns")
        names = [name.removeprefix("MPI_") for name in profile.trace.text(calls).to_list()]
        times = calls.select("start_ns", "end_ns").rows()
        opened = max(k for k, name in enumerate(names) if name in ("Init", "Init_thread"))
        closed = names.index("Finalize") if "Finalize" in names else len(names) - 1
        now, total = times[opened][1], 0
        for start, end in times[opened + 1 : closed + 1]:
            total += max(start - now, 0)
            now = max(now, end)
        spent[rank] = total * 1e-9
    return spent


@pytest.mark.parametrize(
    "name", ["nsys-local/lammps-melt-4r.sqlite", "otf2-local/scorep-py-halo-4r/archive/traces.otf2"]
)
def test_every_rank_keeps_its_compute(shared: Path, name: str) -> None:
    profile = tb.read(shared / "traces" / name).profile
    traffic = recorded(profile)
    found = np.bincount(traffic.rank, traffic.gap_seconds)
    assert found.tolist() == pytest.approx(
        [s for _, s in sorted(independent_compute(profile).items())], abs=1e-9
    )
    assert found.min() > 0.1


@pytest.mark.parametrize(
    "name",
    [
        "nsys-local/p2pkinds-2r.sqlite",
        "otf2-local/scorep-p2pkinds-2r/archive/traces.otf2",
        "otf2-local/mpi-p2pkinds-2r/archive/eztrace_log.otf2",
    ],
)
def test_collectives_have_their_sizes_whoever_recorded_them(shared: Path, name: str) -> None:
    """The program's source: 800 B broadcast from rank 1, 8 B reduced, 100 B a rank gathered and so
    on, 10 and 20 B gathered.
    """
    found = {
        (r.operation, r.root): set(r.block_bytes.tolist())
        for r in recorded(tb.read(shared / "traces" / name).profile).rounds
    }
    assert found[("bcast", 1)] == {800.0} and found[("reduce", 0)] == found[("allreduce", 0)] == {
        8.0
    }
    assert (
        found[("gather", 0)] == {100.0}
        and found[("gatherv", 0)] == {15.0}
        and found[("scatter", 0)] == found[("allgather", 0)] == found[("alltoall", 0)] == {100.0}
    )
