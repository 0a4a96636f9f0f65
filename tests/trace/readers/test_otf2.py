"""OTF2 archives written here: records into calls, ids, clocks, communicators, devices, findings."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import refusals
from build_otf2 import (
    ALLREDUCE,
    CREATE_HANDLE,
    CUDA,
    MPI,
    PTHREAD,
    REDUCE,
    STREAM,
    UNDEFINED,
    Archive,
    Location,
)

from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.profile.dependencies.ranks import meetings
from turnbuckle.profile.messages.traffic import traffic
from turnbuckle.trace import Trace, read

SEND, ISEND, SENT, RECEIVING, RECV, IRECV, TESTED, CANCELLED = 14, 15, 16, 17, 18, 19, 20, 21


def opened(archive: Archive, folder: Path) -> Trace:
    return read(archive.write(folder), use_cache=False)


def found(trace: Trace) -> dict[str, tuple[int, str]]:
    return {f.code: (f.count, f.detail) for f in trace.findings}


def calls(trace: Trace, *columns: str) -> list[tuple[object, ...]]:
    frame = trace.mpi.with_columns(trace.text(trace.mpi).str.strip_prefix("MPI_").alias("call"))
    return frame.select("call", *columns).rows()


def aligned(threads: list[Location]) -> None:
    """Offsets that correct nothing: the tracer measured the clocks."""
    for thread in threads:
        thread.offsets = [(0, 0)]


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("chunk", [1 << 10, 1 << 18])
def test_a_message_in_either_byte_order_and_over_many_chunks(
    tmp_path: Path, big: bool, chunk: int
) -> None:
    archive = Archive(big=big, chunk=chunk)
    send, recv = archive.region("MPI_Send", MPI), archive.region("MPI_Recv", MPI)
    one, two = threads = archive.ranks(2)
    aligned(threads)
    for k in range(300):
        one.call(1000 * k + 10, 1000 * k + 20, send, (SEND, 1, 0, 70_000, 2**33 + k))
        two.call(1000 * k + 15, 1000 * k + 30, recv, (RECV, 0, 0, 70_000, 2**33 + k))
    trace = opened(archive, tmp_path / "a")
    assert (
        trace.facts["format"],
        trace.facts["product_version"],
        trace.facts["schema_version"],
    ) == ("otf2", "a test", "3.1.1")
    assert trace.facts["tables"] == {"ENTER": 600, "LEAVE": 600, "MPI_SEND": 300, "MPI_RECV": 300}
    assert trace.facts["size_bytes"] == sum(
        f.stat().st_size for f in (tmp_path / "a").rglob("*") if f.is_file()
    )
    mine = trace.mpi.filter(pl.col("partner") == 1)
    assert mine["start_ns"].to_list() == [1000 * k + 10 for k in range(300)]
    assert mine["size_bytes"].to_list() == [2**33 + k for k in range(300)]
    assert set(mine["tag"]) == {70_000} and set(mine["communicator"]) == {1}
    assert trace.mpi["start_ns"].is_sorted()
    met = traffic(trace)
    assert met is not None
    assert (met["ranks"], met["sends"]["count"], met["receives"]["count"]) == (2, 300, 300)
    assert met["messages"] == {"matched": 300, "unmatched": 0}
    assert set(found(trace)) == {"P123", "P130"}


def test_requests_are_told_by_what_completes_them(tmp_path: Path) -> None:
    archive = Archive()
    isend, irecv, waitall, test = (
        archive.region(f"MPI_{n}", MPI) for n in ("Isend", "Irecv", "Waitall", "Test")
    )
    one, two = threads = archive.ranks(2)
    aligned(threads)
    one.call(10, 20, isend, (ISEND, 1, 0, 5, 100, 77))
    one.call(30, 40, waitall, (SENT, 77))
    two.call(10, 20, irecv, (RECEIVING, 7))
    two.call(21, 25, irecv, (RECEIVING, 8))
    two.call(26, 28, test, (TESTED, 7))
    two.call(30, 50, waitall, (IRECV, 0, 0, 5, 100, 7), (CANCELLED, 8))
    trace = opened(archive, tmp_path / "a")
    assert calls(trace, "kind", "partner", "tag", "size_bytes", "request") == [
        ("Isend", 0, 1, 5, 100, 77),
        ("Irecv", 0, 0, 5, 100, 7),
        ("Irecv", 0, None, None, None, 8),
        ("Test", 2, None, None, None, None),
        ("Waitall", 2, None, None, None, 77),
        ("Waitall", 2, None, None, None, 7),
        ("Waitall", 2, None, None, None, 8),
    ]
    assert "P141" not in found(trace)  # a cancelled receive is no message that the tracer left out


def test_persistent_requests_a_sendrecv_and_a_matched_probe(tmp_path: Path) -> None:
    archive = Archive()
    init, start, wait, both, mprobe, mrecv = (
        archive.region(f"MPI_{n}", MPI)
        for n in ("Send_init", "Start", "Wait", "Sendrecv", "Mprobe", "Mrecv")
    )
    one, two = threads = archive.ranks(2)
    aligned(threads)
    one.call(1, 2, init)
    for k in (1, 2):
        one.call(10 * k, 10 * k + 2, start, (ISEND, 1, 0, 5, 100, 9))
        one.call(10 * k + 3, 10 * k + 5, wait, (SENT, 9))
        two.call(10 * k, 10 * k + 1, mprobe, (89, 0, 0, 5, 40 + k))
        two.call(10 * k + 2, 10 * k + 4, mrecv, (90, 40 + k, 100))
    for rank, thread in enumerate(threads):
        thread.call(
            50, 60, both, (SEND, 1 - rank, 0, 6, 30 + rank), (RECV, 1 - rank, 0, 6, 31 - rank)
        )
    trace = opened(archive, tmp_path / "a")
    sends = trace.mpi.filter(trace.text(trace.mpi) == "MPI_Isend")
    assert (sends["start_ns"].to_list(), sends["size_bytes"].to_list()) == ([10, 20], [100, 100])
    halves = trace.mpi.filter(trace.text(trace.mpi) == "MPI_Sendrecv").sort("thread", "end_ns")
    assert halves["end_ns"].to_list() == [50, 60, 50, 60]
    assert halves["size_bytes"].to_list() == [30, 31, 31, 30]
    met = traffic(trace)
    assert (
        met is not None
        and met["messages"] == {"matched": 4, "unmatched": 0}
        and met["sends"]["bytes"] == 261
    )


def test_what_the_tracer_left_out_is_counted_and_not_made_up(tmp_path: Path) -> None:
    archive = Archive()
    names = ("Irecv", "Wait", "Sendrecv", "Scan", "Send_init")
    irecv, wait, both, scan, init = (archive.region(f"MPI_{n}") for n in names)
    one, two = threads = archive.ranks(2)
    aligned(threads)
    one.call(10, 20, irecv, (RECEIVING, 7))
    one.call(30, 40, wait)
    two.call(10, 20, both)
    two.call(22, 24, init)
    two.event(30, 22)
    two.call(30, 40, scan)
    trace = opened(archive, tmp_path / "a")
    assert found(trace)["P141"] == (2, "MPI_Irecv 1, MPI_Sendrecv 1")
    assert found(trace)["P148"] == (1, "MPI_Scan 1")
    assert calls(trace, "partner")[0] == ("Irecv", None)
    met = traffic(trace)
    assert met is not None
    assert (met["sends"], met["receives"], met["collectives"]) == (
        {"count": 0, "bytes": 0},
        {"count": 0},
        {},
    )


def test_an_irecv_is_told_by_the_order_of_sends_only_where_one_message_fits(tmp_path: Path) -> None:
    def archive(
        *, second_source: bool = False, tags: tuple[int, ...] = (5, 5, 5), silent: bool = False
    ) -> Archive:
        made = Archive()
        send, irecv, both = (
            made.region("MPI_Send", MPI),
            made.region("MPI_Irecv", MPI),
            made.region("MPI_Sendrecv", MPI),
        )
        threads = made.ranks(3)
        aligned(threads)
        for k, tag in enumerate(tags):
            sender = threads[2] if second_source and k == 2 else threads[0]
            sender.call(100 * k + 10, 100 * k + 20, send, (SEND, 1, 0, tag, 1000 + k))
            threads[1].call(100 * k + 5, 100 * k + 8, irecv, (RECEIVING, k))
        if silent:
            threads[2].call(900, 910, both)
        return made

    trace = opened(archive(), tmp_path / "sure")
    assert found(trace)["P142"][0] == 3
    told = [("Irecv", 0, 5, 1000), ("Irecv", 0, 5, 1001), ("Irecv", 0, 5, 1002)]
    assert [c for c in calls(trace, "partner", "tag", "size_bytes") if c[0] == "Irecv"] == told
    met = traffic(trace)
    assert met is not None and met["messages"] == {"matched": 3, "unmatched": 0}
    tags = opened(archive(tags=(5, 6, 5)), tmp_path / "tags")
    assert [c for c in calls(tags, "partner", "tag", "size_bytes") if c[0] == "Irecv"] == [
        ("Irecv", 0, None, None)
    ] * 3
    for name, doubt in (("source", archive(second_source=True)), ("silent", archive(silent=True))):
        assert "P142" not in found(opened(doubt, tmp_path / name)), name


def test_local_ids_mean_global_ones(tmp_path: Path) -> None:
    archive = Archive()
    wrong = archive.region("wrong")
    send = archive.region("MPI_Send", MPI)
    one, two = threads = archive.ranks(2)
    aligned(threads)
    half = archive.comm([1, 0])
    one.map(3, [send, wrong])  # this location's region 0 is the send
    one.map(6, {4: half})
    one.call(10, 20, 0, (SEND, 0, 4, 1, 64))
    two.map(3, {2**31 - 5: send})
    two.call(30, 40, 2**31 - 5, (SEND, 0, 0, 1, 8))
    trace = opened(archive, tmp_path / "a")
    assert calls(trace, "communicator", "partner", "size_bytes") == [
        ("Send", half + 1, 0, 64),
        ("Send", 1, 0, 8),
    ]
    assert trace.names.to_list() == ["MPI_Send"]


def test_communicators_ranks_and_nodes(tmp_path: Path) -> None:
    archive = Archive()
    init, split = archive.region("MPI_Init", MPI), archive.region("MPI_Comm_split", MPI)
    threads = archive.ranks(4)
    odd, even, own = (
        archive.comm([3, 1]),
        archive.comm([0, 2], number=2**30),
        archive.comm(None, number=77),
    )
    for rank, thread in enumerate(threads):
        thread.offsets = [(0, 0)]
        part = odd if rank % 2 else even
        thread.enter(10, init)
        thread.event(20, 87, 0)
        thread.event(20, 87, own)
        thread.event(25, 23, bytes([CREATE_HANDLE]), 0, UNDEFINED, 0, 0)
        thread.leave(30, init)
        thread.call(40, 50, split, (87, part))
    trace = opened(archive, tmp_path / "a")
    assert trace.mpi_ranks["rank"].to_list() == [0, 1, 2, 3]
    assert trace.mpi_ranks["thread"].to_list() == [(p << 24) + 1 for p in (1, 2, 3, 4)]
    assert trace.facts["node_of_rank"] == {"0": 0, "1": 0, "2": 0, "3": 0}
    made = trace.mpi_communicators
    of = {rank: made.filter(pl.col("rank") == rank) for rank in range(4)}
    assert of[1].select("communicator", "time_ns", "local_rank", "size", "group_root").rows() == [
        (1, 20, 1, 4, 0),
        (own + 1, 20, 0, 1, 1),
        (odd + 1, 45, 1, 2, 3),
    ]
    assert of[0].filter(pl.col("size") == 2)["communicator"].to_list() == [2**30 + 1]
    assert set(trace.mpi["kind"]) == {3}  # a call that makes a communicator is none that moves data


def test_regions_go_where_they_belong(tmp_path: Path) -> None:
    archive = Archive(ticks=2 * 10**9, zero=1000)
    main, bcast = archive.region("main"), archive.region("mpi_bcast_")
    launch, lock, copy = (
        archive.region("cudaLaunchKernel", CUDA),
        archive.region("pthread_mutex_lock", PTHREAD),
        archive.region("copy", CUDA, 30),
    )
    kernel, setup = archive.region("axpy<float>", CUDA, 40), archive.region("mpi_setup")
    site = archive.text("callsite id")
    archive.globals.record(23, 3, site, b"\4")
    (thread,) = archive.ranks(1)
    archive.globals.record(12, 9, archive.text("0"), archive.text("a device"), 0)
    archive.globals.record(27, 9, b"\7")
    context = archive.process(kind=2, creator=0, node=9)
    streams = [archive.location(context, STREAM) for _ in range(2)]
    thread.enter(1000, main)
    thread.call(1100, 1200, launch, (34, 3, 42))
    thread.call(1300, 1400, lock)
    thread.call(1410, 1412, setup)
    thread.collective(1500, 1700, bcast, 1, 0, 0)
    thread.event(1800, 10, thread.full(1900))
    thread.leave(2000, main)
    streams[1].call(1250, 1450, kernel, (34, 3, 42))
    streams[1].call(1460, 1480, copy)
    streams[0].event(1500, 31, 0, b"\1", b"\4", streams[0].full(7))
    trace = opened(archive, tmp_path / "a")
    process = 1 << 24
    assert trace.api.select("start_ns", "end_ns", "process", "correlation").rows() == [
        (50, 100, process, 1)
    ]
    assert trace.kernels.select(
        "start_ns", "end_ns", "process", "device", "context", "stream", "correlation"
    ).rows() == [(125, 225, process, 0, 0, 1, 1)]
    assert trace.text(trace.kernels).to_list() == ["axpy<float>"]
    assert trace.os_calls.select("start_ns", "end_ns", "nesting").rows() == [(150, 200, 0)]
    assert trace.text(trace.ranges).to_list() == ["main", "mpi_setup"] and set(
        trace.ranges["kind"]
    ) == {59}
    assert calls(trace, "kind", "size_bytes", "receive_bytes", "root") == [("Bcast", 1, 8, 8, 0)]
    assert trace.overheads.select("start_ns", "end_ns", "kind").rows() == [(400, 450, 3)]
    assert found(trace)["P143"] == (1, "METRIC 1")
    assert "P119" in found(trace) and "P130" not in found(trace)


def test_calls_of_sampled_programs_are_entered_by_their_context(tmp_path: Path) -> None:
    archive = Archive()
    send = archive.region("MPI_Send", MPI)
    archive.globals.record(34, 6, send, UNDEFINED, UNDEFINED)
    one, _ = threads = archive.ranks(2)
    aligned(threads)
    one.event(10, 66, 6, 0)
    one.event(15, SEND, 1, 0, 3, 12)
    one.event(20, 67, 6)
    assert calls(opened(archive, tmp_path / "a"), "end_ns", "size_bytes") == [("Send", 20, 12)]


def test_records_outside_every_call_are_kept(tmp_path: Path) -> None:
    archive = Archive()
    one, two = threads = archive.ranks(2)
    aligned(threads)
    one.event(10, SEND, 1, 0, 3, 12)
    two.event(20, RECV, 0, 0, 3, 12)
    one.event(30, 23, bytes([ALLREDUCE]), 0, UNDEFINED, 8, 8)
    trace = opened(archive, tmp_path / "a")
    assert calls(trace, "start_ns", "end_ns", "size_bytes") == [
        ("Send", 10, 10, 12),
        ("Recv", 20, 20, 12),
        ("Allreduce", 30, 30, 8),
    ]


def test_flaws_are_counted(tmp_path: Path) -> None:
    archive = Archive()
    send, main, odd = (
        archive.region("MPI_Send", MPI),
        archive.region("main"),
        archive.region(b"a\xff"),
    )
    one, two = threads = archive.ranks(2)
    aligned(threads)
    archive.comm([1, 0], number=0)
    one.enter(5, main)
    one.call(10, 20, send, (SEND, 9, 0, 3, 12))  # there is no rank 9
    one.call(30, 40, send, (SEND, 1, 55, 3, 12))  # nor a communicator 55
    one.leave(45, odd)
    two.call(10, 50, 999, (SEND, 0, 0, 3, 12))  # nor a region 999
    trace = opened(archive, tmp_path / "a")
    assert found(trace)["P140"][0] == 2  # a group and a communicator
    assert found(trace)["P107"][0] == 1
    assert found(trace)["P144"][0] == 3
    assert found(trace)["P147"][0] == 2  # main was not left, odd not entered
    assert trace.ranges.filter(trace.text(trace.ranges) == "main")["end_ns"].to_list() == [45]
    met = traffic(trace)
    assert met is not None and met["sends"] == {"count": 1, "bytes": 12}


# --- clocks ---------------------------------------------------------------------------------------


def test_offsets_that_the_tracer_measured_are_applied(tmp_path: Path) -> None:
    archive = Archive(ticks=10**9, zero=1_000_000)
    send, recv = archive.region("MPI_Send", MPI), archive.region("MPI_Recv", MPI)
    one, two = archive.ranks(2)
    one.call(1_000_000, 1_000_100, send, (SEND, 1, 0, 1, 8))
    two.offsets = [(400_000, 600_000), (401_000, 600_100)]
    two.call(400_010, 400_500, recv, (RECV, 0, 0, 1, 8))
    two.call(402_000, 402_500, recv)
    trace = opened(archive, tmp_path / "a")
    assert trace.mpi.select("start_ns", "end_ns").rows() == [(0, 100), (11, 550), (2_200, 2_750)]
    assert not {"P145", "P149"} & set(found(trace))


def test_messages_that_arrive_early_after_the_correction_are_counted(tmp_path: Path) -> None:
    archive = Archive()
    send, recv = archive.region("MPI_Send", MPI), archive.region("MPI_Recv", MPI)
    one, two = threads = archive.ranks(2)
    aligned(threads)
    for k, early in enumerate((0, 30, 700)):
        one.call(10_000 * k + 1000, 10_000 * k + 1100, send, (SEND, 1, 0, 1, 8))
        two.call(10_000 * k + 100, 10_000 * k + 1000 - early, recv, (RECV, 0, 0, 1, 8))
    assert found(opened(archive, tmp_path / "a"))["P149"] == (2, "by up to 700 ns")


def unaligned(ahead: list[int], *, ranks: int = 3) -> tuple[Archive, list[Location]]:
    """Ranks whose clocks are ahead by some time each, with a barrier at 0 and one at 1 s."""
    archive = Archive()
    barrier = archive.region("MPI_Barrier", MPI)
    threads = archive.ranks(ranks)
    for base in (0, 10**9):
        for rank, thread in enumerate(threads):
            begin, end = base + 1000 * rank + ahead[rank], base + 5000 + 300 * rank + ahead[rank]
            thread.collective(begin, end, barrier, 0, 0, UNDEFINED, 0, 0)
    return archive, threads


def test_clocks_are_aligned_by_barriers(tmp_path: Path) -> None:
    archive, _ = unaligned([50_000_000, 0, 70_000_000])
    trace = opened(archive, tmp_path / "a")
    count, detail = found(trace)["P145"]
    assert (
        count == 2
        and "against rank 0; 2 of them known to within" in detail
        and "from 0 messages and 2 collectives" in detail
    )
    start = (
        trace.mpi.sort("thread", "start_ns")
        .group_by("thread", maintain_order=True)
        .first()["start_ns"]
        .to_list()
    )
    # a barrier tells the clocks to within the time its members are inside together
    assert start[0] == 50_000_000 and all(
        abs(s - 50_000_000 - 1000 * r) <= 5_600 for r, s in enumerate(start)
    )
    spans = (
        trace.mpi.with_columns(k=pl.int_range(pl.len()).over("thread"))
        .group_by("k")
        .agg(pl.col("start_ns").max(), pl.col("end_ns").min())
    )
    assert (spans["start_ns"] <= spans["end_ns"]).all()


def test_messages_narrow_the_clocks(tmp_path: Path) -> None:
    archive, (one, two, _) = unaligned([0, 30_000, 0])
    send, recv = archive.region("MPI_Send", MPI), archive.region("MPI_Recv", MPI)
    one.call(2 * 10**9, 2 * 10**9 + 100, send, (SEND, 1, 0, 1, 8))
    two.call(2 * 10**9 + 30_000, 2 * 10**9 + 30_200, recv, (RECV, 0, 0, 1, 8))
    two.call(3 * 10**9 + 30_000, 3 * 10**9 + 30_100, send, (SEND, 0, 0, 1, 8))
    one.call(3 * 10**9, 3 * 10**9 + 300, recv, (RECV, 1, 0, 1, 8))
    trace = opened(archive, tmp_path / "a")
    received = trace.mpi.filter(trace.text(trace.mpi) == "MPI_Recv")["start_ns"].to_list()
    assert abs(received[0] - 2 * 10**9) <= 250 and "from 2 messages" in found(trace)["P145"][1]


def test_clocks_that_agree_already_stay(tmp_path: Path) -> None:
    archive, _ = unaligned([0, 0, 0])
    trace = opened(archive, tmp_path / "a")
    assert trace.mpi["start_ns"].to_list()[:3] == [0, 1000, 2000] and "P145" not in found(trace)


def test_a_clock_bounded_from_one_side_moves_as_little_as_it_must(tmp_path: Path) -> None:
    archive = Archive()
    reduce = archive.region("MPI_Reduce", MPI)
    for rank, thread in enumerate(archive.ranks(3)):
        begin = (90_000, 10_000, 20_000)[rank]
        thread.collective(begin, begin + 10_000 * (1 + (rank == 1)), reduce, REDUCE, 0, 1)
    trace = opened(archive, tmp_path / "a")
    assert found(trace)["P146"][0] == 2  # against rank 0
    starts = dict(trace.mpi.select("thread", "start_ns").rows())
    # rank 1 is the root: it returns when rank 0 has begun, no sooner, and rank 2 stays
    assert [starts[(p << 24) + 1] for p in (1, 2, 3)] == [90_000, 70_000, 20_000]


def refused(archive: Archive, folder: Path, code: str) -> TurnbuckleError:
    error = refusals.refused(code, opened, archive, folder)
    assert error.fix and error.where
    return error


def test_clocks_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    archive, (one, two, _) = unaligned([0, 0, 0])
    send, recv = archive.region("MPI_Send", MPI), archive.region("MPI_Recv", MPI)
    one.call(2 * 10**9 + 80_000, 2 * 10**9 + 80_100, send, (SEND, 1, 0, 1, 8))
    two.call(2 * 10**9, 2 * 10**9 + 300, recv, (RECV, 0, 0, 1, 8))
    assert "some would if each took 25.2" in refused(archive, tmp_path / "a", "P018").found


def test_ranks_that_nothing_ties_together_are_refused_where_clocks_are_known_to_differ(
    tmp_path: Path,
) -> None:
    archive = Archive(creator="")
    finalize, send = archive.region("EZTrace finalize"), archive.region("MPI_Send")
    one, two, three = archive.ranks(3)
    one.call(10, 20, send, (SEND, 1, 0, 1, 8))
    for thread in (one, two, three):
        thread.call(100, 200, finalize)
        thread.call(210, 220, send)
    assert "ties rank 1 to rank 0" in refused(archive, tmp_path / "a", "P018").found


def test_eztrace_fills_waitany_with_what_it_finds(tmp_path: Path) -> None:
    archive = Archive(creator="")
    finalize, working, irecv, waitany, barrier = (
        archive.region(n)
        for n in ("EZTrace finalize", "Working", "MPI_Irecv", "MPI_Waitany", "MPI_Barrier")
    )
    threads = archive.ranks(2)
    for thread in threads:
        thread.enter(1, working)
        thread.collective(5, 9, barrier, 0, 0, UNDEFINED, 0, 0)
        thread.call(10, 20, irecv, (RECEIVING, 4))
        thread.call(30, 40, waitany, (IRECV, 1, 0, 32765, 3, 4))
        thread.enter(50, finalize)
        thread.leave(60, working)
        thread.leave(70, finalize)
    trace = opened(archive, tmp_path / "a")
    assert trace.facts["product_version"] == "EZTrace"
    assert found(trace)["P144"][0] == 2 and "P147" not in found(trace)
    assert calls(trace.__class__(trace.tables, trace.names, {}), "partner", "tag")[2] == (
        "Irecv",
        None,
        None,
    )


def test_a_receive_waits_for_its_send(tmp_path: Path) -> None:
    """What the reader hands on is what the matching of ranks understands."""
    from turnbuckle.profile.profile import build

    archive = Archive()
    send, recv, allreduce = (
        archive.region("MPI_Send", MPI),
        archive.region("MPI_Recv", MPI),
        archive.region("MPI_Allreduce", MPI),
    )
    one, two = threads = archive.ranks(2)
    aligned(threads)
    part = archive.comm([1, 0])
    two.call(10, 500, recv, (RECV, 1, part, 1, 8))  # rank 0 of the world is rank 1 of the part
    one.call(400, 410, send, (SEND, 0, part, 1, 8))
    for k, thread in enumerate(threads):
        thread.collective(1000 + 100 * k, 2000, allreduce, ALLREDUCE, part, UNDEFINED)
    profile = build(opened(archive, tmp_path / "a"))
    rows = profile.activities.join(profile.tracks, on="track").sort("start_ns")
    met = meetings(rows, rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy(), profile.trace)
    assert met.unmatched == 0
    assert [
        (rows["start_ns"][int(a)], rows["start_ns"][int(b)])
        for a, b in zip(met.first, met.waits, strict=True)
    ] == [
        (400, 10),
        (1000, 1100),
        (1100, 1000),
    ]


# --- accesses of device streams to remote memory, as Score-P's adapters write copies --------------


GET, PUT, MOVED = 47, 46, 49


def with_two_devices() -> tuple[Archive, Location, list[Location]]:
    """A process with two devices, one stream each, and window 0, which spans the host (rank 0) and
    both streams (1 and 2).
    """
    archive = Archive()
    (thread,) = archive.ranks(1)
    thread.offsets = [(0, 0)]
    streams = []
    for node in (8, 9):
        archive.globals.record(12, node, archive.text("0"), archive.text("a device"), 0)
        archive.globals.record(27, node, b"\7")
        streams.append(archive.location(archive.process(kind=2, creator=0, node=node), STREAM))
    members = [thread.id, *(stream.id for stream in streams)]
    for number, kind, inside in ((50, 4, members), (51, 5, [0, 1, 2])):
        archive.globals.record(
            18, number, archive.text(""), b"\0", 3, *inside, bytes([kind]), bytes([CUDA]), 0
        )
    archive.globals.record(22, 60, archive.text(""), 51, UNDEFINED, 0)
    archive.globals.record(24, 0, archive.text(""), 60)
    return archive, thread, streams


def test_gets_and_puts_of_streams_are_copies(tmp_path: Path) -> None:
    archive, thread, (one, two) = with_two_devices()
    call, fill = archive.region("cudaMemcpy", CUDA), archive.region("Memset (Device)", CUDA, 30)
    archive.globals.record(23, 3, archive.text("callsite id"), b"\4")
    copy = archive.region("memcpy", CUDA, 30)
    thread.call(100, 200, call, (34, 3, 7))
    for begin, end, kind, rank, size in (
        (300, 340, GET, 0, 64),
        (400, 450, PUT, 0, 65),
        (500, 501, GET, 1, 66),
        (510, 511, PUT, 1, 67),
    ):
        one.event(begin, kind, 0, rank, size, 42)
        one.event(end, MOVED, 0, 42)
    one.enter(600, fill)
    one.event(600, PUT, 0, 1, 68, 42)
    one.event(620, MOVED, 0, 42)
    one.leave(620, fill)
    two.enter(150, copy)
    two.event(150, 34, 3, 7)
    two.event(150, GET, 0, 1, 69, 1)
    two.event(155, PUT, 0, 1, 70, 2)
    two.event(160, MOVED, 0, 1)
    two.event(165, MOVED, 0, 2)
    two.leave(170, copy)
    two.event(700, GET, 0, 99, 71, 1)  # the window has no rank 99
    two.event(710, MOVED, 0, 1)
    trace = opened(archive, tmp_path / "a")
    ends = [f"{end}_{what}" for what in ("memory", "device") for end in ("source", "target")]
    assert trace.copies.select(
        "start_ns", "end_ns", "device", "size_bytes", "direction", *ends
    ).rows() == [
        (150, 160, 1, 69, 4, 3, 3, 0, 1),
        (155, 165, 1, 70, 4, 3, 3, 1, 0),
        (300, 340, 0, 64, 1, 0, 3, None, None),
        (400, 450, 0, 65, 2, 3, 0, None, None),
        (500, 501, 0, 66, 3, 3, 3, None, None),
        (510, 511, 0, 67, 3, 3, 3, None, None),
        (700, 710, 1, 71, 1, 0, 3, None, None),
    ]
    assert trace.memsets.select("start_ns", "end_ns", "device", "size_bytes").rows() == [
        (600, 620, 0, 68)
    ]
    # one call and two copies of one place: not certain, so neither is joined
    assert trace.copies["correlation"].null_count() == 7 and trace.api["correlation"].to_list() == [
        None
    ]
    assert not {"P130", "P143", "P147"} & set(found(trace))


def test_copies_are_joined_to_their_calls_by_their_place(tmp_path: Path) -> None:
    archive, thread, (one, _) = with_two_devices()
    call, copy = archive.region("cudaMemcpy", CUDA), archive.region("memcpy", CUDA, 30)
    archive.globals.record(23, 3, archive.text("callsite id"), b"\4")
    for k in range(3):
        thread.call(100 * k, 100 * k + 50, call, (34, 3, 7))
        one.enter(100 * k + 60, copy)
        one.event(100 * k + 60, 34, 3, 7)
        one.event(100 * k + 60, GET, 0, 0, 8, 42)
        one.event(100 * k + 90, MOVED, 0, 42)
        one.leave(100 * k + 90, copy)
    trace = opened(archive, tmp_path / "a")
    assert trace.copies["correlation"].to_list() == trace.api["correlation"].to_list() == [1, 2, 3]


def test_accesses_that_are_cut_or_of_the_host_are_counted(tmp_path: Path) -> None:
    archive, thread, (one, _) = with_two_devices()
    kernel = archive.region("k", CUDA, 40)
    one.call(10, 20, kernel)
    one.event(30, MOVED, 0, 42)  # nothing began
    one.event(40, GET, 0, 0, 8, 42)  # and this does not end
    thread.event(50, PUT, 0, 1, 8, 42)  # one-sided messages of the host are not read
    thread.event(60, MOVED, 0, 42)
    trace = opened(archive, tmp_path / "a")
    assert not trace.copies.height
    assert found(trace)["P147"][0] == 2 and found(trace)["P143"] == (
        2,
        "RMA_PUT 1, RMA_OP_COMPLETE_BLOCKING 1",
    )
