"""SimGrid's time-independent traces: every action, what it becomes, and what is refused by rank,
line and action.
"""

from __future__ import annotations

import gzip
import lzma
import math
import tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import refusals

from turnbuckle import trace
from turnbuckle.foundation.errors import ProfileError, TurnbuckleError, UsageError
from turnbuckle.mpi import schedules
from turnbuckle.mpi.replay.messages import recorded
from turnbuckle.mpi.replay.program import program
from turnbuckle.mpi.schedules import ti, ti_files
from turnbuckle.mpi.schedules.matching import ANY, Side, match
from turnbuckle.profile.profile import build
from turnbuckle.replay.contention.contention import replay
from turnbuckle.replay.contention.network import Network

SPEED = 1e9


def made(folder: Path, *ranks: str) -> Path:
    """An anchor and a file for each rank; lines are given without their rank."""
    (folder / "ti_files").mkdir(exist_ok=True)
    for rank, text in enumerate(ranks):
        lines = [f"{rank} {line.strip()}\n" for line in text.split(";")]
        (folder / "ti_files" / f"{rank}.txt").write_text("".join(lines), encoding="utf-8")
    anchor = folder / "ti.txt"
    anchor.write_text(
        "".join(f"ti_files/{rank}.txt\n" for rank in range(len(ranks))), encoding="utf-8"
    )
    return anchor


def refused(anchor: Path, code: str) -> TurnbuckleError:
    error = refusals.refused(code, schedules.read, anchor, flops_per_second=SPEED)
    assert error.fix and error.where
    return error


# --- what is read ---------------------------------------------------------------------------------


def test_messages_waits_and_work(tmp_path: Path) -> None:
    anchor = made(
        tmp_path,
        (
            "init; compute 3000; isend 1 7 10 0; compute 500; irecv 1 8 10 0; sleep 2e-6; wait 0 "
            "1 7; compute 1e3; wait 1 0 8; compute 250"
        ),
        "init; recv 0 7 10 0; send 0 8 10 0; finalize",
    )
    found = schedules.read(anchor, flops_per_second=SPEED)
    assert (
        found.ranks == 2 and found.rank.tolist() == [0, 0, 0, 0, 1, 1] and math.isnan(found.seconds)
    )
    assert found.gap_seconds == pytest.approx([3e-6, 0.5e-6, 2e-6, 1e-6, 0, 0])
    assert [found.calls[k] for k in found.call] == [
        "isend",
        "irecv",
        "wait",
        "wait",
        "recv",
        "send",
    ]
    assert found.tail_seconds == pytest.approx([0.25e-6, 0]) and not found.kept_seconds.any()
    m = found.messages
    # a send by its wait; a blocking one by itself
    assert (m.send.tolist(), m.sent.tolist(), m.receive.tolist(), m.received.tolist()) == (
        [0, 5],
        [2, 5],
        [4, 1],
        [4, 3],
    )
    assert m.size_bytes.tolist() == [80, 80] and found.unmatched == 0
    assert schedules.read(anchor, flops_per_second=2 * SPEED).gap_seconds[0] == pytest.approx(
        1.5e-6
    )


def test_waitall_completes_all_that_is_open(tmp_path: Path) -> None:
    anchor = made(
        tmp_path,
        "init; isend 1 0 1 6; isend 1 0 2 6; waitall 2",
        "init; irecv 0 0 1 6; irecv 0 0 2 6; test 0 1 0; waitall 5",
    )
    read = ti.read(anchor)
    assert read.messages.sent.tolist() == [2, 2] and read.messages.received.tolist() == [5, 5]
    assert read.messages.size_bytes.tolist() == [1, 2], "in order"
    (found,) = read.figures.findings
    assert (
        (found.code, found.count) == ("P150", 2)
        and "tests" in found.detail
        and "count" in found.detail
    )


def test_what_is_open_at_the_end_is_completed_there(tmp_path: Path) -> None:
    anchor = made(
        tmp_path, "init; send 1 0 1 6", "init; irecv 0 0 1 6; compute 5; wait 3 3 3", "init", "init"
    )
    read = ti.read(anchor)
    assert read.messages.received.tolist() == [3] and read.flops.tolist() == [0, 0, 5, 0]
    assert [(f.code, f.count) for f in read.figures.findings] == [("P150", 2)]


@pytest.mark.parametrize(
    ("line", "operation", "block", "root", "flops"),
    [
        ("barrier", "barrier", 0, 0, 0),
        ("bcast 5 2 0", "bcast", 40, 2, 0),
        ("bcast 5", "bcast", 5, 0, 0),
        ("reduce 6 100 1 1", "reduce", 24, 1, 100),
        ("allreduce 6 100 0", "allreduce", 48, 0, 100),
        ("alltoall 3 3 0 0", "alltoall", 24, 0, 0),
        ("alltoallv 9 1 2 3 9 1 2 3 1 1", "alltoallv", 8, 0, 0),
        ("gather 4 4 2 0 0", "gather", 32, 2, 0),
        ("gatherv 4 4 4 4 1 0 0", "gatherv", 32, 1, 0),
        ("allgather 4 4 1 1", "allgather", 16, 0, 0),
        ("allgatherv 4 4 4 4 1 1", "allgatherv", 16, 0, 0),
        ("allgatherv 4 4 4 4", "allgatherv", 4, 0, 0),
        ("scatter 4 3 2 0 1", "scatter", 12, 2, 0),
        ("scatterv 4 4 4 4 1 0 0", "scatterv", 32, 1, 0),
        ("reducescatter 1 2 3 50 0", "reduce_scatter", 16, 0, 50),
        ("scan 7 10 1", "scan", 28, 0, 10),
        ("exscan 7 10 1", "exscan", 28, 0, 10),
    ],
)
def test_collectives(
    tmp_path: Path, line: str, operation: str, block: float, root: int, flops: float
) -> None:
    read = ti.read(made(tmp_path, *[f"init; {line}; compute 1; barrier; finalize"] * 3))
    one = read.rounds[0]
    assert (one.operation, one.block_bytes.tolist()[0], one.root) == (operation, block, root)
    assert one.activity.shape[1] == 3 and one.activity[0].tolist() == [0, 2, 4]
    # what the operation costs comes after it
    assert read.flops.tolist() == [0, flops + 1] * 3
    assert sum(read.figures.collectives.values()) == 6


def test_counts_without_a_type(tmp_path: Path) -> None:
    """Bytes where ``init`` stands alone, doubles where it has an argument."""
    for init, size in (("init", 10), ("init 0", 80)):
        read = ti.read(made(tmp_path, f"{init}; send 1 0 10", f"{init}; recv 0 0 -1"))
        assert read.messages.size_bytes.tolist() == [size] and not read.figures.findings
    assert [
        f.code
        for f in ti.read(
            made(tmp_path, "init; send 1 0 10 0", "init; recv 0 0 10 6")
        ).figures.findings
    ] == ["A348"]


def test_what_says_nothing(tmp_path: Path) -> None:
    """Communicators are of all ranks; partners that are nobody send nothing."""
    lines = (
        "init; comm_size 2; comm_split; comm_dup; location a.c 5; isend -666 0 5 6; barrier; "
        "finalize"
    )
    read = ti.read(made(tmp_path, lines, lines))
    assert len(read.messages.send) == 0 and [(f.code, f.count) for f in read.figures.findings] == [
        ("P151", 4)
    ]
    assert read.figures.operations == 14, "location is no call"


def test_one_call_that_sends_and_receives(tmp_path: Path) -> None:
    """SimGrid's ``sendRecv`` has the tag 0 both ways, and meets other calls of that tag."""
    read = ti.read(
        made(
            tmp_path, "init; sendRecv 4 1 2 1 0 1", "init; irecv 0 0 4 0; isend 0 0 2 1; waitall 2"
        )
    )
    m = read.messages
    assert (m.send.tolist(), m.sent.tolist(), m.receive.tolist(), m.received.tolist()) == (
        [0, 2],
        [0, 3],
        [1, 0],
        [3, 0],
    )
    assert m.size_bytes.tolist() == [32, 8]
    assert [read.calls[k] for k in read.call] == ["sendrecv", "irecv", "isend", "waitall"]


def test_partners_that_are_nobody(tmp_path: Path) -> None:
    """SimGrid writes MPI_PROC_NULL of a send as -333."""
    read = ti.read(
        made(
            tmp_path,
            "init; isend -333 0 8 6; send -666 0 8 6; recv -666 0 8 6; sendRecv 4 -333 4 -666 0 0",
            "init",
        )
    )
    assert read.figures.sends == read.figures.receives == 0 and len(read.rank) == 1


def test_types_that_the_program_made(tmp_path: Path) -> None:
    read = ti.read(made(tmp_path, "init; send 1 0 8 -1", "init; recv 0 0 8 -1"))
    assert read.messages.size_bytes.tolist() == [0] and [
        (f.code, f.count) for f in read.figures.findings
    ] == [("A348", 2)]


def test_all_ranks_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "all.txt"
    path.write_text(
        "0 init\n1 init\n0 send 1 0 8 6\n1 recv 0 0 8 6\n# end\n0 finalize\n1 finalize\n"
    )
    assert schedules.sniff(path) and ti.read(path).figures.matched == 1
    anchor = tmp_path / "anchor.txt"
    anchor.write_text("all.txt\n")
    assert schedules.sniff(anchor) and ti.read(anchor).figures.matched == 1
    path.write_text("0 init\n2 init\n")
    assert "rank 1" in refused(path, "P022").found


@pytest.mark.parametrize("comment", ["# written by a tool\n", "\n  #0 send 1 0 8 6\n"])
def test_comments_stand_anywhere(tmp_path: Path, comment: str) -> None:
    anchor = made(tmp_path, "init; send 1 7 10 0", "init; recv 0 7 10 0")
    without = schedules.read(anchor, flops_per_second=SPEED)
    for path in (anchor, *(tmp_path / "ti_files").iterdir()):
        path.write_text(comment + path.read_text().replace("\n", f"\n{comment}", 1))
    together = tmp_path / "all.txt"
    together.write_text(comment + "0 send 1 7 10 0\n" + comment + "1 recv 0 7 10 0\n")
    for place in (anchor, together, next((tmp_path / "ti_files").iterdir())):
        assert ti_files.sniff(place.read_bytes(), place)
    for place in (anchor, together):
        assert schedules.read(place, flops_per_second=SPEED).call.tolist() == without.call.tolist()


def test_packed_files(tmp_path: Path) -> None:
    anchor = made(tmp_path, "init; send 1 0 8", "init; recv 0 0 8")
    for rank in range(2):
        plain = tmp_path / "ti_files" / f"{rank}.txt"
        (tmp_path / "ti_files" / f"{rank}.txt.xz").write_bytes(lzma.compress(plain.read_bytes()))
        plain.unlink()
    named = b"ti_files/0.txt.xz\nti_files/1.txt.xz\n"
    anchor.write_bytes(named)
    assert schedules.sniff(anchor) and ti.read(anchor).figures.matched == 1
    anchor.write_bytes(gzip.compress(named))
    assert schedules.sniff(anchor) and schedules.figures(anchor).matched == 1


def test_a_folder_that_was_moved(tmp_path: Path) -> None:
    anchor = made(tmp_path, "init", "init")
    anchor.write_text("/elsewhere/ti_files/0.txt\n/elsewhere/ti_files/1.txt\n")
    assert schedules.sniff(anchor) and ti.read(anchor).ranks == 2
    (tmp_path / "ti_files" / "1.txt").unlink()
    error = refused(anchor, "P020")
    assert error.where == "ti.txt:2" and error.found == "1.txt"
    # without any of its files it is still known by their names
    anchor.write_text("ti.txt_files/1795.265_rank-1.txt\n")
    assert schedules.sniff(anchor) and refused(anchor, "P020").where == "ti.txt:1"


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("sendrecv 1 0 8", "no such action"),
        ("isendd 1 0 8", "did you mean isend"),
        ("isend 1 0", "3 arguments at least"),
        ("isend 1 0 many", "argument 3 is no whole number"),
        ("isend 1 0 -8", "argument 3 is no whole number from 0"),
        ("isend 1 0 1e300", "argument 3"),
        ("isend 9 0 8", "rank 9 of 2"),
        ("SEND 1 0 8", "no such action"),
        ("Ssend 1 0 8", "no such action; did you mean send"),
        ("waitAny 2", "no such action"),
        ("isend 1 0 8 99", "data type 99"),
        ("compute nan", "no amount"),
        ("compute -1", "no amount"),
        ("compute inf", "no amount"),
        ("bcast 8 7", "root 7 of 2"),
        ("gatherv 1 2", "3 arguments at least"),
        ("\x1b[31m", "no such action"),
    ],
)
def test_a_line_that_cannot_be(tmp_path: Path, line: str, cause: str) -> None:
    error = refused(made(tmp_path, f"init; compute 1; {line}", "init"), "P021")
    assert (
        error.where == "0.txt:3" and error.found.startswith("rank 0: 0 ") and cause in error.cause
    ), error.lines()
    assert "\x1b" not in "".join(error.lines())


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    anchor = made(tmp_path, "init", "init")
    (tmp_path / "ti_files" / "1.txt").write_text("0 init\n")
    error = refused(anchor, "P022")
    assert error.where == "1.txt:1" and error.found == "rank 0 in the file of rank 1"
    (tmp_path / "ti_files" / "1.txt").write_text("x init\n")
    assert refused(anchor, "P021").cause == "a line must begin with its rank"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("init; bcast 4 1", "rank 0, line 2: bcast from 0; rank 1, line 2: bcast from 1"),
        ("init; barrier", "rank 1, line 2: barrier"),
        ("init", "rank 1 has none"),
    ],
)
def test_collectives_that_differ(tmp_path: Path, other: str, words: str) -> None:
    error = refused(made(tmp_path, "init; bcast 4 0", other), "A079")
    assert words in error.found and error.where == "1.txt"


def test_receives_without_a_message(tmp_path: Path) -> None:
    anchor = made(tmp_path, "init; send 1 0 8", "init; compute 1; recv 0 1 8")
    figures = schedules.figures(anchor)
    assert (figures.matched, figures.unmatched, figures.findings[0].code) == (0, 2, "A347")
    error = refused(anchor, "A078")
    assert (
        "rank 1, line 3, from rank 0, tag 1" in error.found
        and error.cause == "no send goes to this rank"
    )
    # a send that nobody receives is counted
    assert (
        schedules.read(made(tmp_path, "init; send 1 0 8", "init"), flops_per_second=SPEED).unmatched
        == 1
    )


def test_any_source(tmp_path: Path) -> None:
    """Told where one stream alone can be meant."""
    one = made(
        tmp_path, "init; recv -555 -444 8; recv -555 -444 8", "init; send 0 3 1; send 0 3 2", "init"
    )
    assert schedules.read(one, flops_per_second=SPEED).messages.size_bytes.tolist() == [1, 2]
    two = made(
        tmp_path, "init; recv -555 0 8; recv -555 0 8", "init; send 0 0 1", "init; send 0 0 2"
    )
    assert "differs from run to run" in refused(two, "A078").cause


def test_matching_is_never_shared() -> None:
    """What an exact receive takes from a stream leaves nothing certain for a receive from any
    source.
    """

    def side(*rows: tuple[int, int, int]) -> Side:
        source, target, tag = (np.array([r[k] for r in rows]) for k in range(3))
        return Side(source, target, tag, np.arange(len(rows)))

    sends = side((0, 1, 5), (0, 1, 5), (2, 1, 6))
    found = match(sends, side((0, 1, 5), (ANY, 1, 5), (ANY, 1, 6)))
    assert (found.send.tolist(), found.receive.tolist()) == ([0, 2], [0, 2])
    assert (found.lone_sends.tolist(), found.lone_receives.tolist()) == ([1], [1])


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan, math.inf])
def test_a_speed_is_needed(tmp_path: Path, speed: float) -> None:
    refusals.refused("A077", schedules.read, made(tmp_path, "init"), flops_per_second=speed)


def test_what_is_no_schedule(tmp_path: Path) -> None:
    for name, content in (
        ("a.txt", b"hello\n"),
        ("b.bin", b"\0\1\2"),
        ("c.txt", b""),
        ("d.txt", b"0 hello\n"),
        ("e.txt", b"a.txt\n"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        assert not schedules.sniff(path), name
        refused(path, "A077")
        with pytest.raises(UsageError):
            schedules.figures(path)
    assert not schedules.sniff(tmp_path) and not schedules.sniff(tmp_path / "nowhere")


# --- real traces ----------------------------------------------------------------------------------


def extracted(shared: Path, folder: Path, ranks: int) -> Path:
    """An archived trace, unpacked."""
    with tarfile.open(shared / "traces" / "simgrid-local" / f"halo-{ranks}-ti.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder / f"ti{ranks}.txt"


def test_a_real_trace_holds_what_its_readme_says(shared: Path, tmp_path: Path) -> None:
    ranks, sends, allreduces = 64, 12_800, 320
    anchor = extracted(shared, tmp_path, ranks)
    assert schedules.sniff(anchor)
    read = ti.read(anchor)
    mpi = read.figures.mpi()
    assert (mpi["ranks"], mpi["sends"], mpi["receives"]) == (
        ranks,
        {"count": sends, "bytes": 512 * sends},
        {"count": sends},
    )
    assert mpi["collectives"] == {"ALLREDUCE": allreduces} and mpi["messages"] == {
        "matched": sends,
        "unmatched": 0,
    }
    # init, finalize, and a wait for all eight of each step
    assert (
        mpi["count"] == 2 * ranks + 2 * sends + sends // 4 + allreduces
        and not read.figures.findings
    )
    assert {r.operation: r.block_bytes.tolist() for r in read.rounds} == {
        "allreduce": [8.0] * (allreduces // ranks)
    }


def test_a_real_trace_replays(shared: Path, tmp_path: Path) -> None:
    traffic = schedules.read(extracted(shared, tmp_path, 64), flops_per_second=1e9)
    free = replay(program(traffic), Network(64, 1e15, 0.0), "flow").seconds
    slow = replay(program(traffic), Network(64, 1.25e9, 1e-6), "flow").seconds
    assert traffic.compute_seconds.max() <= free < slow
    half = schedules.read(extracted(shared, tmp_path, 64), flops_per_second=0.5e9)
    assert replay(program(half), Network(64, 1e15, 0.0), "flow").seconds == pytest.approx(
        2 * free, rel=1e-6
    )


def test_the_paje_trace_of_the_same_program_says_the_same(shared: Path, tmp_path: Path) -> None:
    """Two recordings of one program, by two tracers of SMPI: the same messages and collectives, and
    the same replay without work.
    """
    timed = recorded(
        build(
            trace.read(
                shared / "traces" / "simgrid-local" / "halo-64-paje.trace.xz", use_cache=False
            )
        )
    )
    untimed = schedules.read(extracted(shared, tmp_path, 64), flops_per_second=1e9)
    both = (timed, untimed)
    ends = [
        Counter(
            zip(
                t.rank[t.messages.send],
                t.rank[t.messages.receive],
                t.messages.size_bytes,
                strict=True,
            )
        )
        for t in both
    ]
    assert ends[0] == ends[1] and ends[0].total() == 12_800
    rounds = [
        [(r.operation, r.block_bytes.tolist(), r.activity.shape) for r in t.rounds] for t in both
    ]
    assert rounds[0] == rounds[1] and timed.unmatched == untimed.unmatched == 0
    made = [
        Counter(t.calls[c] for c in t.call.tolist() if t.calls[c] not in ("init", "finalize"))
        for t in both
    ]
    assert made[0] == made[1]
    seconds = []
    for one in both:
        idle = {
            name: np.zeros_like(getattr(one, name))
            for name in ("gap_seconds", "kept_seconds", "tail_seconds")
        }
        seconds.append(
            replay(program(replace(one, **idle)), Network(64, 1.25e9, 1e-6), "flow").seconds
        )
    assert seconds[0] == pytest.approx(seconds[1], rel=1e-9)


def test_a_file_cut_in_a_line(tmp_path: Path) -> None:
    anchor = made(tmp_path, "init; send 1 0 8", "init; recv 0 0 8")
    path = tmp_path / "ti_files" / "1.txt"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ProfileError):
        ti.read(anchor)


@pytest.mark.parametrize("line", ["ti_files/1.txt" * 400, "/" * 5000])
def test_a_line_of_an_anchor_that_is_no_file_name(tmp_path: Path, line: str) -> None:
    anchor = made(tmp_path, "init", "init")
    anchor.write_text(f"ti_files/0.txt\n{line}\n")
    assert refused(anchor, "P020").where == "ti.txt:2"
