"""Ranks that meet: each rule on a recording of a few calls, and counts that are known on real
ones.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from mpi_rows import Row, call, child, recorded

from turnbuckle.mpi.questions.messages.question import paths
from turnbuckle.mpi.replay.messages import recorded as of_run
from turnbuckle.profile.dependencies.dependencies import dependencies
from turnbuckle.profile.dependencies.ranks import Meetings, meetings
from turnbuckle.profile.dependencies.sides import activities
from turnbuckle.profile.messages.mpi_calls import MOST_MEMBERS, same_call
from turnbuckle.profile.profile import build
from turnbuckle.trace.read import read
from turnbuckle.trace.trace import Trace

NCCL = "ncclDevKernel_{}(ncclDevKernelArgsStorage<(unsigned long)4096>)"


def met(trace: Trace) -> tuple[Meetings, pl.DataFrame]:
    profile = build(trace)
    rows = activities(profile)
    starts, ends = ((rows[c] - profile.first_ns).to_numpy() for c in ("start_ns", "end_ns"))
    found = meetings(rows, starts, ends, profile.trace)
    assert (starts[found.first] < ends[found.waits]).all()
    assert (found.first != found.waits).all()
    return found, rows


def pairs(trace: Trace) -> tuple[set[tuple[int, int]], int]:
    """Pairs as (when the first began, when the waiting one ended), and how much was left alone."""
    found, rows = met(trace)
    return set(
        zip(rows["start_ns"].gather(found.first), rows["end_ns"].gather(found.waits), strict=True)
    ), found.unmatched


def by_name(trace: Trace) -> dict[tuple[str, str], int]:
    """How many pairs of each two names."""
    found, rows = met(trace)
    text = trace.text(rows)
    named = pl.DataFrame({"first": text.gather(found.first), "waits": text.gather(found.waits)})
    return {(a, b): n for a, b, n in named.group_by("first", "waits").len().iter_rows()}


# --- messages -------------------------------------------------------------------------------------


def to(rank: int, tag: int = 5, **more: Any) -> Row:
    return {"partner": rank, "tag": tag, "size_bytes": 8, **more}


def test_messages_of_a_stream_keep_their_order() -> None:
    trace = recorded(
        call(0, "Send", 10, 12, **to(1)),
        call(0, "Send", 20, 22, **to(1)),
        call(0, "Send", 30, 32, **to(1, tag=6)),
        call(1, "Recv", 5, 13, **to(0)),
        call(1, "Recv", 14, 33, **to(0, tag=6)),
        call(1, "Recv", 40, 41, **to(0)),
    )
    assert pairs(trace) == ({(10, 13), (30, 33), (20, 41)}, 0)


def test_what_has_no_other_side_is_told_by_rank_call_and_time() -> None:
    """A send that nobody receives, one half of a collective, and a collective of a kind that is not
    known, on both ranks.
    """
    trace = recorded(
        call(0, "Send", 10_000, 12_000, **to(1)),
        call(1, "Recv", 9_000, 13_000, **to(0)),
        call(0, "Isend", 20_000, 21_000, **to(1, tag=9)),
        call(0, "Neighbor_alltoall", 30_000, 31_000),
        call(1, "Neighbor_alltoall", 30_500, 31_500),
        call(1, "Barrier", 40_000, 41_000),
    )
    graph = dependencies(build(trace))
    assert graph.unmatched == 4
    assert graph.unmatched_calls.startswith(
        "rank 0 in MPI_Isend at 1.1e-05 s; rank 0 in MPI_Neighbor_alltoall at 2.1e-05 s; rank 1 in "
    )
    assert graph.unmatched_calls.endswith("; ...")
    traffic = of_run(build(trace))
    assert (traffic.unmatched, traffic.unmatched_calls) == (
        2,
        "rank 0 in MPI_Isend at 1.1e-05 s; rank 1 in MPI_Barrier at 3.1e-05 s",
    )
    assert traffic.unknown == (
        2,
        (
            "rank 0 in MPI_Neighbor_alltoall at 2.1e-05 s; rank 1 in MPI_Neighbor_alltoall at "
            "2.15e-05 s"
        ),
    )
    found = paths(traffic, ranks_per_node=[1]).findings
    assert [(f.code, f.count) for f in found] == [("A311", 2), ("A353", 2)] and found[
        1
    ].detail == traffic.unknown[1]


def test_the_wait_of_a_request_waits_and_a_handle_serves_again() -> None:
    trace = recorded(
        call(0, "Isend", 10, 11, request=3, **to(1)),
        call(0, "Wait", 12, 13, request=3),
        call(0, "Isend", 50, 51, request=3, **to(1)),
        call(0, "Wait", 52, 53, request=3),
        call(1, "Irecv", 1, 2, request=9, **to(0)),
        call(1, "Wait", 3, 20, request=9),
        call(1, "Irecv", 30, 31, request=9, **to(0)),
        call(1, "Test", 60, 61, request=9),
        call(1, "Wait", 70, 71, request=9),
    )
    assert pairs(trace) == ({(10, 20), (50, 61)}, 0)


def test_a_call_of_several_rows_is_one_activity() -> None:
    trace = recorded(
        call(0, "Send", 10, 11, **to(1)),
        call(0, "Send", 20, 21, **to(1)),
        call(1, "Irecv", 1, 2, request=1, **to(0)),
        call(1, "Irecv", 3, 4, request=2, **to(0)),
        call(1, "Waitall", 30, 60, request=1),
        call(1, "Waitall", 30, 60, request=2),
    )
    assert trace.mpi["start_ns"].to_list() == [1, 3, 10, 20, 30, 30]
    assert same_call(trace).tolist() == [0, 1, 2, 3, 4, 4]
    found, rows = met(trace)
    waits = rows.with_row_index().filter(pl.col("start_ns") == 30)["index"][0]
    assert found.waits.tolist() == [waits, waits]


def test_a_sendrecv_is_one_row_or_two() -> None:
    trace = recorded(
        # each sends to its right and receives from its left: a row without length, then the call
        *(call(r, "Sendrecv", 10 + r, 10 + r, **to((r + 1) % 3)) for r in range(3)),
        *(call(r, "Sendrecv", 10 + r, 20 + r, **to((r + 2) % 3)) for r in range(3)),
        # the ends of a line: no partner to one side
        call(0, "Sendrecv", 30, 30, **to(1)),
        call(0, "Sendrecv", 30, 33, size_bytes=0),
        call(1, "Sendrecv", 31, 31, **to(2)),
        call(1, "Sendrecv", 31, 41, **to(0)),
        call(2, "Sendrecv", 32, 32, size_bytes=0),
        call(2, "Sendrecv", 32, 42, **to(1)),
        # both ways between two: one row, with one of the two sizes
        call(0, "Sendrecv_replace", 50, 60, **to(1, size_bytes=9)),
        call(1, "Sendrecv_replace", 51, 61, **to(0)),
        ranks=3,
    )
    assert pairs(trace) == (
        {(10, 21), (11, 22), (12, 20), (30, 41), (31, 42), (50, 61), (51, 60)},
        0,
    )
    assert len(set(same_call(trace).tolist())) == 8


def test_a_persistent_request_sends_at_every_start() -> None:
    trace = recorded(
        call(0, "Send_init", 1, 2, request=4, **to(1)),
        call(1, "Recv_init", 1, 2, request=8, **to(0)),
        *(call(0, "Start", t, t + 1, request=4) for t in (10, 30)),
        *(call(0, "Wait", t, t + 1, request=4) for t in (12, 32)),
        *(call(1, "Start", t, t + 1, request=8) for t in (9, 20)),
        *(call(1, "Wait", t, t + 13, request=8) for t in (11, 22)),
    )
    assert pairs(trace) == ({(10, 24), (30, 35)}, 0)


def sends(sizes: list[int], length: int, late: int) -> list[Row]:
    """Blocking sends, one every 1000 ns, whose receives begin `late` behind them."""
    calls = []
    for i, size in enumerate(sizes):
        t = 1000 * (i + 1)
        calls += [call(0, "Send", t, t + length, **to(1, size_bytes=size))]
        calls += [
            call(1, "Recv", t + late, max(t + length, t + late) + 1, **to(0, size_bytes=size))
        ]
    return calls


@pytest.mark.parametrize(
    ("held", "waiting"), [([65_536] * 3, 5), ([65_536] * 2, 0), ([20_000, 60_000, 65_536], 3)]
)
def test_a_large_send_waits_where_three_were_seen_to(held: list[int], waiting: int) -> None:
    small = sends([512] * 4, 5, 300)  # left early: their size does not wait
    large = [
        {**c, "start_ns": c["start_ns"] + 10_000, "end_ns": c["end_ns"] + 10_000}
        for c in sends(held, 310, 300)
    ]
    free = [
        {**c, "start_ns": c["start_ns"] + 20_000, "end_ns": c["end_ns"] + 20_000}
        for c in sends([70_000] * 2, 10, -100)
    ]
    names = by_name(recorded(*small, *large, *free))
    assert names[("MPI_Send", "MPI_Recv")] == 6 + len(held)
    assert names.get(("MPI_Recv", "MPI_Send"), 0) == waiting


def test_a_synchronous_send_waits_for_its_receive() -> None:
    trace = recorded(
        call(0, "Ssend", 10, 25, **to(1)),
        call(1, "Recv", 20, 26, **to(0)),
        call(0, "Issend", 30, 31, request=1, **to(1)),
        call(0, "Wait", 32, 45, request=1),
        call(1, "Recv", 40, 46, **to(0)),
    )
    assert pairs(trace) == ({(10, 26), (20, 25), (30, 46), (40, 45)}, 0)


def test_a_receive_from_anyone_is_told_only_if_one_stream_can_feed_it() -> None:
    def receive(start: int, partner: int, tag: int | None) -> list[Row]:
        about: Row = {"partner": partner, "tag": tag, "size_bytes": 8, "request": 1}
        return [
            call(2, "Irecv", start, start + 1, **about),
            call(2, "Wait", start + 2, start + 40, request=1),
        ]

    one = call(0, "Send", 10, 11, **to(2)), call(0, "Send", 20, 21, **to(2))
    asked = *receive(5, -1, None), *receive(50, -2, None)
    assert pairs(recorded(*one, *asked, ranks=3)) == ({(10, 45), (20, 90)}, 0)
    # one message more than was asked for
    assert pairs(recorded(*one, call(0, "Send", 30, 31, **to(2)), *asked, ranks=3)) == (set(), 5)
    # another rank sends too: nobody can say who was first
    two = *one, call(1, "Send", 15, 16, **to(2))
    third = receive(100, -1, 5)
    assert pairs(recorded(*two, *asked, *third, ranks=3)) == (set(), 6)
    # a stream that a wildcard may have taken from: its exact receives cannot be told either
    exact = call(2, "Recv", 60, 130, **to(0))
    assert pairs(recorded(*one, *asked[:2], exact, ranks=3)) == (set(), 4)
    assert pairs(recorded(*one, *asked, exact, ranks=3)) == (set(), 5)


def test_a_matched_receive_names_no_communicator() -> None:
    row = call(1, "Mrecv", 5, 15, **to(0)) | {"communicator": None}
    assert pairs(recorded(call(0, "Send", 10, 12, **to(1)), row)) == ({(10, 15)}, 0)


def test_what_is_not_there_is_counted_and_what_cannot_be_is_not() -> None:
    lone = recorded(call(0, "Send", 10, 11, **to(1)), call(1, "Recv", 10, 12, **to(0, tag=9)))
    assert pairs(lone) == (set(), 2)
    # rank 2 of three is in another profile, and MPI_PROC_NULL is nobody
    trace = recorded(
        call(0, "Send", 10, 11, **to(2)),
        call(0, "Send", 12, 13),
        call(1, "Barrier", 1, 3),
        call(0, "Barrier", 2, 4),
    )
    larger = trace.mpi_communicators.with_columns(size=pl.lit(3, pl.Int64))
    assert pairs(replace(trace, tables={**trace.tables, "mpi_communicators": larger})) == (
        {(1, 4), (2, 3)},
        0,
    )
    # one process has no other side
    assert pairs(
        recorded(call(0, "Send", 10, 11, **to(1)), call(0, "Barrier", 20, 21), ranks=1)
    ) == (set(), 0)


def test_a_pair_that_the_recording_contradicts_is_left_out() -> None:
    for begun in (30, 31):  # at one instant is contradicted too
        trace = recorded(
            call(0, "Send", begun, begun + 2, **to(1)), call(1, "Recv", 20, 30, **to(0))
        )
        assert pairs(trace) == (set(), 1)


def test_a_message_larger_than_its_receive_is_another() -> None:
    trace = recorded(
        call(0, "Send", 10, 12, **to(1, size_bytes=9)), call(1, "Recv", 5, 15, **to(0))
    )
    assert pairs(trace) == (set(), 2)


def test_a_stream_cut_at_its_beginning_is_counted_from_its_end() -> None:
    trace = recorded(
        call(1, "Recv", 1, 5, **to(0)),  # its send was before the recording
        *(call(0, "Send", t, t + 1, **to(1)) for t in (10, 20, 30)),
        *(call(1, "Recv", t, t + 5, **to(0)) for t in (8, 18, 28)),
    )
    assert pairs(trace) == ({(10, 13), (20, 23), (30, 33)}, 1)


# --- collectives ----------------------------------------------------------------------------------

ENTERED, LEFT = (10, 11, 12), (20, 21, 22)
ALL = {(a, b) for i, a in enumerate(ENTERED) for j, b in enumerate(LEFT) if i != j}


@pytest.mark.parametrize(
    ("name", "root", "expected"),
    [
        ("Barrier", None, ALL),
        ("Allreduce", None, ALL),
        ("Reduce_scatter_block", None, ALL),
        ("Alltoallv", None, ALL),
        ("Bcast", 1, {(11, 20), (11, 22)}),
        ("Scatterv", 2, {(12, 20), (12, 21)}),
        ("Reduce", 0, {(11, 20), (12, 20)}),
        ("Gather", 2, {(10, 22), (11, 22)}),
        ("Scan", None, {(10, 21), (10, 22), (11, 22)}),
        ("Exscan", None, {(10, 21), (10, 22), (11, 22)}),
        ("Neighbor_alltoall", None, None),
        ("Bcast", None, None),
    ],
)
def test_what_each_collective_waits_for(
    name: str, root: int | None, expected: set[tuple[int, int]] | None
) -> None:
    trace = recorded(*(call(r, name, ENTERED[r], LEFT[r], root=root) for r in range(3)), ranks=3)
    assert pairs(trace) == ((expected, 0) if expected else (set(), 3))


def test_a_collective_with_a_request_is_waited_for_by_its_wait() -> None:
    calls = [
        c
        for r in range(2)
        for c in (
            call(r, "Iallreduce", 10 + r, 12, request=1),
            call(r, "Wait", 20 + r, 30 + r, request=1),
        )
    ]
    assert pairs(recorded(*calls)) == ({(10, 31), (11, 30)}, 0)
    lasting = [
        c
        for r in range(2)
        for c in (
            call(r, "Barrier_init", 1, 2, request=1),
            call(r, "Start", 10 + r, 12, request=1),
            call(r, "Wait", 20, 30 + r, request=1),
        )
    ]
    assert pairs(recorded(*lasting)) == ({(10, 31), (11, 30)}, 0)


def test_members_must_agree_on_the_collective() -> None:
    trace = recorded(
        call(0, "Barrier", 1, 9),
        call(1, "Allreduce", 2, 8),
        call(0, "Barrier", 11, 19),
        call(1, "Barrier", 12, 18),
    )
    assert pairs(trace) == ({(11, 18), (12, 19)}, 2)


def test_a_cut_at_the_beginning_shifts_one_member() -> None:
    calls = [
        call(r, "Barrier", 100 * k + r, 100 * k + 10 + r) for r in range(2) for k in range(1, 4)
    ]
    expected = {(100 * k + a, 100 * k + 10 + 1 - a) for k in range(1, 4) for a in range(2)}
    assert pairs(recorded(call(0, "Barrier", 5, 9), *calls)) == (expected, 1)


def test_more_members_than_pairs_are_worth() -> None:
    ranks = MOST_MEMBERS + 1
    assert pairs(recorded(*(call(r, "Barrier", 10, 20) for r in range(ranks)), ranks=ranks)) == (
        set(),
        ranks,
    )
    assert (
        len(pairs(recorded(*(call(r, "Barrier", r, 2000 + r) for r in range(64)), ranks=64))[0])
        == 64 * 63
    )


# --- communicators --------------------------------------------------------------------------------


def test_a_duplicate_and_a_reversed_communicator_are_told_apart() -> None:
    made = [
        c
        for r in range(2)
        for c in (child(r, 2 + r, 50), child(r, 4 + r, 60, local_rank=1 - r, size=2))
    ]
    trace = recorded(
        call(0, "Send", 10, 11, 50, **to(1)),
        call(1, "Recv", 9, 13, 50, **to(0)),
        call(1, "Send", 20, 21, 60, **to(1)),
        call(0, "Recv", 19, 23, 60, **to(0)),  # inside it rank 1 is 0
        call(0, "Barrier", 30, 40, 50),
        call(1, "Barrier", 31, 41, 50),
        call(0, "Barrier", 43, 50, 60),
        call(1, "Barrier", 42, 51, 60),
        made=made,
    )
    assert pairs(trace) == ({(10, 13), (20, 23), (30, 41), (31, 40), (43, 51), (42, 50)}, 0)


def test_a_split_into_equals_is_told_by_the_root_of_its_groups() -> None:
    made = [child(r, 5, 50, local_rank=r // 2, size=2) for r in range(4)]  # 0 with 2, 1 with 3
    trace = recorded(
        *(call(r, "Barrier", 10 + r, 20 + r, 50) for r in range(4)), ranks=4, made=made
    )
    assert pairs(trace) == (set(), 4)
    frame = trace.mpi_communicators
    roots = pl.when(pl.col("parent") > 0).then(pl.col("rank") % 2)
    more = frame.with_columns(group_root=roots, group_number=pl.when(pl.col("parent") > 0).then(0))
    trace = replace(trace, tables={**trace.tables, "mpi_communicators": more})
    assert pairs(trace) == ({(10, 22), (12, 20), (11, 23), (13, 21)}, 0)


def test_a_handle_means_what_was_made_last() -> None:
    made = [
        c
        for r in range(2)
        for c in (child(r, 5, 50, local_rank=r, size=2), child(r, 25, 50, local_rank=1 - r, size=2))
    ]
    trace = recorded(
        call(0, "Send", 10, 11, 50, **to(1)),
        call(1, "Recv", 9, 13, 50, **to(0)),
        call(1, "Send", 30, 31, 50, **to(1)),
        call(0, "Recv", 29, 33, 50, **to(0)),
        call(0, "Barrier", 40, 50, 99),
        made=made,
    )
    assert pairs(trace) == ({(10, 13), (30, 33)}, 1)
    # made last by one rank only: what is called under it meets nobody
    gone = [*made[:1], *made[2:3], child(0, 25, 50, local_rank=0, size=2)]
    assert pairs(
        recorded(call(0, "Barrier", 30, 40, 50), call(1, "Barrier", 31, 41, 50), made=gone)
    ) == (set(), 2)


def test_communicators_that_cannot_be_told() -> None:
    barriers = [call(r, "Barrier", 10 + r, 20 + r, 50) for r in range(4)]
    same = [child(r, 5, 50, local_rank=0, size=2) for r in range(2)]
    assert pairs(recorded(*barriers[:2], made=same)) == (set(), 2)
    # behind a split into equals: who counted which?
    split = [child(r, 2, 40, local_rank=r // 2, size=2) for r in range(4)]
    behind = [child(r, 5, 50, local_rank=r, size=2) for r in range(2)]
    assert pairs(recorded(*barriers[:2], ranks=4, made=[*split, *behind])) == (set(), 2)
    # a communicator of one has no other side
    own = [child(r, 5, 50, local_rank=0, size=1) for r in range(4)]
    assert pairs(recorded(*barriers, ranks=4, made=own)) == (set(), 0)


def test_a_rank_that_two_programs_have_is_nobody() -> None:
    trace = recorded(*(call(r, "Barrier", 10 + r, 20 + r, 7 - 1000 * r) for r in range(4)), ranks=4)
    two = trace.mpi_ranks.with_columns(rank=pl.Series([0, 1, 0, 1]))
    made = trace.mpi_communicators.with_columns(
        rank=pl.Series([0, 1, 0, 1]),
        local_rank=pl.Series([0, 1, 0, 1]),
        size=pl.lit(2, pl.Int64),
        communicator=pl.lit(7, pl.Int64),
    )
    assert pairs(
        replace(trace, tables={**trace.tables, "mpi_ranks": two, "mpi_communicators": made})
    ) == (set(), 4)


# --- NCCL -----------------------------------------------------------------------------------------


def kernels(
    device: int,
    times: list[tuple[int, int]],
    name: str = "AllReduce_Sum_f32_RING_LL",
    stream: int = 7,
) -> list[Row]:
    about = {
        "process": (100 + device) << 24,
        "device": device,
        "context": 1,
        "stream": stream,
        "name": NCCL.format(name),
    }
    return [{"start_ns": a, "end_ns": b, **about} for a, b in times]


def collective(n: int, late: int, begins: int = 0) -> list[tuple[int, int]]:
    """Kernels every 1000 ns that begin `late` and end together."""
    return [(1000 * k + late, 1000 * k + 500) for k in range(begins, n)]


def test_kernels_of_one_collective_meet() -> None:
    trace = recorded(
        kernels=[*kernels(0, collective(3, 10)), *kernels(1, collective(3, 200))], ranks=0
    )
    expected = {(1000 * k + late, 1000 * k + 500) for k in range(3) for late in (10, 200)}
    assert pairs(trace) == (expected, 0)
    assert len(met(trace)[0].first) == 6


@pytest.mark.parametrize("cut", [1, 3])
def test_a_cut_shifts_the_kernels_of_one_device(cut: int) -> None:
    trace = recorded(
        kernels=[*kernels(0, collective(9, 10)), *kernels(1, collective(8, 200, cut))], ranks=0
    )
    assert pairs(trace) == (
        {(1000 * k + late, 1000 * k + 500) for k in range(cut, 8) for late in (10, 200)},
        cut + 1,
    )


def test_kernels_that_do_not_run_together_are_not_one_communicator() -> None:
    apart = recorded(
        kernels=[
            *kernels(0, collective(5, 0)),
            *kernels(1, [(a + 700, b + 600) for a, b in collective(5, 0)]),
        ],
        ranks=0,
    )
    assert pairs(apart) == (set(), 10)
    # one in ten of them
    most, last = collective(9, 400), [(9400, 9500)]
    some = recorded(
        kernels=[*kernels(0, [*collective(9, 0), (9000, 9100)]), *kernels(1, [*most, *last])],
        ranks=0,
    )
    assert pairs(some) == (set(), 20)
    # the same program twice: as far apart at their ends as at their beginnings
    alike = recorded(
        kernels=[
            *kernels(0, collective(5, 0)),
            *kernels(1, [(a + 300, b + 300) for a, b in collective(5, 0)]),
        ],
        ranks=0,
    )
    assert pairs(alike) == (set(), 10)
    other = recorded(
        kernels=[*kernels(0, collective(5, 0)), *kernels(1, collective(5, 0), "AllGather_RING_LL")],
        ranks=0,
    )
    assert pairs(other) == (set(), 10)


@pytest.mark.parametrize(
    ("name", "devices", "found"),
    [
        ("SendRecv", 2, 8),
        ("SendRecv", 3, 0),
        ("AllGather_RING_LL", 3, 24),
        ("Broadcast_RING_LL", 2, 0),
        ("Reduce_Sum_f32_RING_LL", 2, 0),
        ("ReduceScatter_Sum_f32_RING_LL", 2, 8),
        ("Generic_1", 2, 0),
        ("AllReduce_Sum_f32_RING_LL", 1, 0),
    ],
)
def test_which_kernels_need_every_rank(name: str, devices: int, found: int) -> None:
    trace = recorded(
        kernels=[k for d in range(devices) for k in kernels(d, collective(4, 10 * d), name)],
        ranks=0,
    )
    assert len(met(trace)[0].first) == found
    assert met(trace)[0].unmatched == (0 if found or devices == 1 else 4 * devices)


def test_streams_of_one_device_are_different_communicators() -> None:
    late = [(a + 450, b + 450) for a, b in collective(6, 0)]
    rows = [
        k
        for d in range(2)
        for k in (*kernels(d, collective(6, 10 * d)), *kernels(d, late, stream=9))
    ]
    assert len(met(recorded(kernels=rows, ranks=0))[0].first) == 24


# --- what may come --------------------------------------------------------------------------------

PLAIN = ["Send", "Recv", "Isend", "Irecv", "Ssend", "Sendrecv", "Sendrecv_replace"]
PERSISTENT = ["Send_init", "Recv_init", "Start", "Startall"]
NAMES = [
    *PLAIN,
    *PERSISTENT,
    "Wait",
    "Waitall",
    "Test",
    "Barrier",
    "Ibarrier",
    "Bcast",
    "Reduce",
    "Scan",
    "Mrecv",
    "nothing",
    "",
]


def _optional(low: int, high: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(low, high) | st.sampled_from([-(2**62), 2**62])


ROWS = st.builds(
    lambda rank, name, start, lasts, more: call(rank, name, start, start + lasts, **more),
    st.integers(0, 2),
    st.sampled_from(NAMES),
    st.integers(1_000, 1_020),
    st.integers(0, 6),
    st.fixed_dictionaries(
        {
            "kind": st.integers(0, 3),
            "partner": _optional(-2, 3),
            "tag": _optional(-1, 1),
            "size_bytes": _optional(0, 9),
            "request": _optional(0, 2),
            "root": _optional(-1, 3),
            "communicator": _optional(6, 9),
        }
    ),
)
MADE = st.fixed_dictionaries(
    {
        "rank": _optional(0, 3),
        "time_ns": _optional(0, 1_020),
        "communicator": _optional(6, 9),
        "parent": _optional(0, 9),
        "local_rank": _optional(0, 3),
        "size": _optional(1, 3),
    }
)


@given(st.lists(ROWS, max_size=25), st.lists(MADE, max_size=8), st.booleans())
@strategies.LAW
def test_any_rows_give_pairs_the_recording_allows(
    calls: list[Row], made: list[Row], one_handle: bool
) -> None:
    trace = recorded(*calls, ranks=3, made=made)
    if one_handle:
        known = trace.mpi.with_columns(communicator=7 + 1000 * (pl.col("thread") // 2**24 - 100))
        trace = replace(trace, tables={**trace.tables, "mpi": known})
    found, _ = met(trace)
    assert found.unmatched >= 0


@given(strategies.soups())
@strategies.FEWER
def test_recordings_without_sense_have_pairs_that_can_be(trace: Trace) -> None:
    met(trace)


# --- real recordings ------------------------------------------------------------------------------


def real(shared: Path, file: str) -> tuple[dict[tuple[str, str], int], int]:
    trace = read(shared / "traces" / file)
    return {
        (a.removeprefix("MPI_"), b.removeprefix("MPI_")): n for (a, b), n in by_name(trace).items()
    }, met(trace)[0].unmatched


def test_every_message_of_the_kinds_program_is_met(shared: Path) -> None:
    found, unmatched = real(shared, "nsys-local/p2pkinds-2r.sqlite")
    assert unmatched == 0
    messages = {
        ("Send", "Recv"): 12,
        ("Ssend", "Recv"): 5,
        ("Recv", "Ssend"): 5,
        ("Sendrecv", "Sendrecv"): 20,
        ("Isend", "Wait"): 10,
        ("Isend", "Waitall"): 10,
        ("Isend", "Waitany"): 5,
        ("Isend", "Test"): 5,
        ("Start", "Wait"): 5,
    }
    mutual = ("Allgather", "Allreduce", "Alltoall", "Barrier")
    rooted = ("Bcast", "Gather", "Gatherv", "Reduce", "Scan", "Scatter")
    collectives = (
        {(n, n): 2 for n in mutual}
        | {(n, n): 1 for n in rooted}
        | {("Iallreduce", "Wait"): 2, ("Ibarrier", "Wait"): 2}
    )
    assert found == messages | collectives


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("cannon-py-4r", {("Sendrecv_replace", "Sendrecv_replace"): 20, ("Reduce", "Reduce"): 3}),
        ("halo-py-4r", {("Isend", "Waitall"): 1600, ("Allreduce", "Allreduce"): 10 * 12}),
        (
            "lammps-melt-4r",
            {
                ("Send", "Wait"): 8136,
                ("Sendrecv", "Sendrecv"): 312,
                ("Allreduce", "Allreduce"): 90 * 12,
                ("Barrier", "Barrier"): 5 * 12,
                ("Bcast", "Bcast"): 64 * 3,
                ("Reduce", "Reduce"): 3 * 3,
                ("Scan", "Scan"): 6,
            },
        ),
    ],
)
def test_every_call_of_four_ranks_is_met(
    shared: Path, file: str, expected: dict[tuple[str, str], int]
) -> None:
    found, unmatched = real(shared, f"nsys-local/{file}.sqlite")
    assert unmatched == 0
    # the only ones besides: sends too large to leave early (LAMMPS sends 15 kB on average; none
    # above 1848 B left early)
    large = found.pop(("Irecv", "Send"), 0)
    assert found == expected
    assert (large > 8000) == (file == "lammps-melt-4r")


def test_nccl_of_two_devices_meets(shared: Path) -> None:
    found, unmatched = real(shared, "nsys/mfu_2gpu_before/mfu_2gpu_before.sqlite")
    assert (list(found.values()), unmatched) == ([66], 0)
    # no NCCL kernel in this cut
    assert real(shared, "nsys/h100_2gpu_1s/h100_2gpu_1s.sqlite") == (
        {},
        0,
    )
