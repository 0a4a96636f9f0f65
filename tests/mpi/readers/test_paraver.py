"""Paraver traces: small files written here, and Extrae's own against its truth."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi_rows import named
from refusals import codes, refused

from turnbuckle.foundation.errors import ProfileError
from turnbuckle.mpi.readers.paraver import reader as paraver
from turnbuckle.mpi.readers.paraver import records as paraver_records
from turnbuckle.mpi.replay.messages import recorded
from turnbuckle.profile.messages.mpi_calls import described, matched
from turnbuckle.profile.messages.traffic import traffic
from turnbuckle.profile.profile import build
from turnbuckle.trace import Trace, read
from turnbuckle.trace.readers.parts import packed_text

P2P, COLLECTIVE, OTHER = 50000001, 50000002, 50000003
SEND, RECV, ISEND, IRECV, WAIT, WAITALL, BCAST, BARRIER, REDUCE, ALLREDUCE = range(1, 11)
PCF = """DEFAULT_OPTIONS

STATES
0    Idle

EVENT_TYPE
9   50000001    MPI Point-to-point
VALUES
1   MPI_Send
2   MPI_Recv
3   MPI_Isend
4   MPI_Irecv
5   MPI_Wait
6   MPI_Waitall
41  MPI_Sendrecv
0   Outside MPI


EVENT_TYPE
9   50000002    MPI Collective Comm
VALUES
7   MPI_Bcast
8   MPI_Barrier
10  MPI_Allreduce
11  MPI_Alltoall
0   Outside MPI
"""
HEAD = "#Paraver (21/01/2022 at 16:37):20000_ns:1(2):1:2(1:1,1:1),2"
WORLD = ["c:1:1:2:1:2", "c:1:2:1:1"]


def event(task: int, time: int, *pairs: int, app: int = 1) -> str:
    return ":".join(map(str, (2, task, app, task, 1, time, *pairs)))


def call(task: int, kind: int, value: int, start: int, end: int, *beside: int) -> list[str]:
    return [event(task, start, kind, value, *beside), event(task, end, kind, 0)]


def message(
    source: int,
    target: int,
    sent: int,
    left: int,
    posted: int,
    there: int,
    size: int = 100,
    tag: int = 5,
) -> str:
    return ":".join(
        map(
            str,
            (3, source, 1, source, 1, sent, left, target, 1, target, 1, posted, there, size, tag),
        )
    )


def exchange() -> list[str]:
    """Both ranks post a receive, send, wait for each, and sum."""
    out = [*WORLD]
    for me in (1, 2):
        out += [f"1:{me}:1:{me}:1:0:100:1"]
        out += call(me, P2P, IRECV, 100 * me, 100 * me + 10) + call(me, P2P, ISEND, 400, 420)
        out += call(me, P2P, WAIT, 500, 600 + me) + call(me, P2P, WAITALL, 650, 660)
        out += call(me, COLLECTIVE, ALLREDUCE, 700, 800, 50100001, 8, 50100002, 8, 50100004, 1)
    out += [message(1, 2, 400, 420, 210, 602), message(2, 1, 400, 420, 110, 601, size=200, tag=6)]
    return out


def written(folder: Path, lines: Sequence[str], head: str = HEAD, pcf: str | None = PCF) -> Path:
    place = folder / "run.prv"
    place.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    if pcf is not None:
        place.with_suffix(".pcf").write_text(pcf, encoding="utf-8")
    return place


def reading(folder: Path, lines: Sequence[str], head: str = HEAD) -> Trace:
    return read(written(folder, lines, head), use_cache=False)


def test_an_exchange_is_told_from_both_its_ends(tmp_path: Path) -> None:
    trace = reading(tmp_path, exchange())
    said = traffic(trace)
    assert said is not None and said["ranks"] == 2
    assert said["sends"] == {"count": 2, "bytes": 300} and said["receives"] == {"count": 2}
    assert said["messages"] == {"matched": 2, "unmatched": 0} and said["collectives"] == {
        "ALLREDUCE": 2
    }
    calls = named(trace)
    mine = calls.filter(pl.col("rank") == 0)
    assert mine.filter(pl.col("text") == "MPI_Irecv").select("partner", "tag", "size_bytes").row(
        0
    ) == (1, 6, 200)
    # the wait completes the receive whose message is there when it ends, the wait for all the send
    request = {
        t: mine.filter(pl.col("text") == t)["request"].to_list()
        for t in ("MPI_Irecv", "MPI_Isend", "MPI_Wait", "MPI_Waitall")
    }
    assert (
        request["MPI_Wait"] == request["MPI_Irecv"]
        and request["MPI_Waitall"] == request["MPI_Isend"]
    )
    # sizes as Score-P counts them: to and from all members
    assert (
        calls.filter(pl.col("kind") == 1)
        .select("size_bytes", "receive_bytes", "communicator")
        .rows()
        == [(16, 16, 1)] * 2
    )
    assert codes(trace) == {"P119": 1, "P123": 1, "P130": 1, "P159": 2}
    replayed = recorded(build(trace))
    assert replayed.unmatched == 0 and replayed.rounds[0].block_bytes.tolist() == [8.0]


def test_a_root_is_the_member_that_says_so(tmp_path: Path) -> None:
    lines = [*WORLD]
    for me, (sent, got, root) in ((1, (0, 40, 0)), (2, (40, 0, 1))):
        lines += call(
            me,
            COLLECTIVE,
            BCAST,
            100,
            200,
            50100001,
            sent,
            50100002,
            got,
            50100003,
            root,
            50100004,
            1,
        )
    trace = reading(tmp_path, lines)
    assert named(trace).sort("rank").select("root", "size_bytes", "receive_bytes").rows() == [
        (1, 0, 40),
        (1, 80, 40),
    ]
    assert recorded(build(trace)).rounds[0].block_bytes.tolist() == [40.0]
    # both say they are: not told, and counted
    both = [line.replace("50100003:0", "50100003:1") for line in lines]
    assert codes(reading(tmp_path, both))["P157"] == 2


def test_blocking_calls_and_sendrecv(tmp_path: Path) -> None:
    lines = [
        *WORLD,
        *call(1, P2P, SEND, 100, 150),
        *call(2, P2P, RECV, 90, 160),
        message(1, 2, 100, 150, 90, 160),
    ]
    for me in (1, 2):
        lines += call(me, P2P, 41, 200, 300)
    lines += [message(1, 2, 200, 300, 200, 300, 7, 1), message(2, 1, 200, 300, 200, 300, 8, 2)]
    trace = reading(tmp_path, lines)
    assert traffic(trace)["messages"] == {"matched": 3, "unmatched": 0}  # type: ignore[index]
    halves = named(trace).filter(pl.col("text") == "MPI_Sendrecv", pl.col("rank") == 0)
    assert halves.select("start_ns", "end_ns", "size_bytes", "tag").rows() == [
        (200, 200, 7, 1),
        (200, 300, 8, 2),
    ]


def sides(trace: Trace, text: str) -> list[tuple[object, ...]]:
    return (
        named(trace).filter(pl.col("text") == text).select("start_ns", "size_bytes", "tag").rows()
    )


def test_a_send_begins_its_call_and_an_irecv_ends_it(tmp_path: Path) -> None:
    """Calls back to back: where one ends the next begins, and a message is of the one whose begin
    (Irecv: end) it is.
    """
    sent = (
        call(1, P2P, ISEND, 100, 200)
        + call(1, P2P, ISEND, 200, 300)
        + call(1, P2P, WAITALL, 300, 400)
    )
    got = call(2, P2P, IRECV, 100, 200) + call(2, P2P, IRECV, 200, 300)
    got += call(2, P2P, WAIT, 300, 350) + call(2, P2P, WAIT, 350, 390)
    lines = [
        message(1, 2, 100, 110, 200, 350, size=10, tag=1),
        message(1, 2, 200, 210, 300, 390, size=20, tag=2),
    ]
    trace = reading(tmp_path, [*WORLD, *sent, *got, *lines])
    assert sides(trace, "MPI_Isend") == sides(trace, "MPI_Irecv") == [(100, 10, 1), (200, 20, 2)]
    asked = {
        t: named(trace).filter(pl.col("text") == t, pl.col("rank") == 1)["request"].to_list()
        for t in ("MPI_Irecv", "MPI_Wait")
    }
    assert asked["MPI_Irecv"] == asked["MPI_Wait"] and not {"P141", "P154"} & set(codes(trace))


def test_calls_at_one_instant_have_one_message_each(tmp_path: Path) -> None:
    """A clock of microseconds puts several calls into one; none may take the message of another."""
    lines = [*WORLD]
    for task, value in ((1, ISEND), (2, IRECV)):
        lines += [one for _ in range(3) for one in call(task, P2P, value, 100, 100)] + call(
            task, P2P, WAITALL, 100, 400
        )
    lines += [message(1, 2, 100, 100, 100, 400, size=10 + k, tag=k) for k in range(3)]
    trace = reading(tmp_path, lines, HEAD.replace("_ns", ""))
    assert (
        sides(trace, "MPI_Isend")
        == sides(trace, "MPI_Irecv")
        == [(100_000, 10 + k, k) for k in range(3)]
    )
    assert (
        not {"P141", "P154", "P155"} & set(codes(trace)) and recorded(build(trace)).unmatched == 0
    )


def test_a_call_that_blocks_sends_one_message(tmp_path: Path) -> None:
    lines = [*WORLD, *call(1, P2P, SEND, 100, 900), *call(2, P2P, RECV, 100, 900)]
    trace = reading(
        tmp_path, [*lines, *(message(1, 2, 200 + k, 210, 300, 400, tag=k) for k in range(5000))]
    )
    assert codes(trace)["P154"] == 2 * 4999 and sides(trace, "MPI_Send") == [(100, 100, 0)]


def test_calls_cut_by_a_chop_are_counted(tmp_path: Path) -> None:
    lines = [
        *exchange(),
        event(1, 5, P2P, 0),
        event(2, 900, P2P, SEND),
        event(1, 20000, P2P, 0),
        event(1, 20000, COLLECTIVE, 0),
    ]
    lines += [event(1, 1000, P2P, RECV), event(1, 1100, P2P, SEND), event(1, 1200, P2P, 0)]
    trace = reading(tmp_path, lines)
    # one ended that never began, one began that never ends, one gave way to the next; at the very
    # end nothing is cut
    assert codes(trace)["P147"] == 3 and codes(trace)["P141"] == 3
    assert named(trace).filter(pl.col("start_ns") == 900)["end_ns"].to_list() == [20000]


def test_other_applications_and_gpu_records_are_said(tmp_path: Path) -> None:
    head = "#Paraver (21/01/2022 at 16:37):20000_ns:1(2):2:2(1:1,1:1),1(1:1),2"
    lines = [
        *exchange(),
        event(1, 3, 46096880, 5, app=2),
        event(1, 50, 63000001, 2),
        event(1, 60, 42000050, 9),
    ]
    counts = codes(reading(tmp_path, lines, head))
    assert (
        counts["P158"] == 1 and counts["P156"] == 1 and "P130" not in counts and counts["P143"] == 3
    )


def test_without_names_the_usual_ones_stand_in(tmp_path: Path) -> None:
    place = written(tmp_path, exchange(), pcf=None)
    trace = read(place, use_cache=False)
    assert codes(trace)["P128"] == 5 and traffic(trace)["messages"]["matched"] == 2  # type: ignore[index]
    unknown = [line.replace(f"{COLLECTIVE}:10", f"{COLLECTIVE}:4711") for line in exchange()]
    assert "MPI call 4711" in named(reading(tmp_path, unknown))["text"].to_list()
    # a name of another file that appears later is read: nothing of it is kept from before
    place = written(tmp_path, exchange(), pcf=PCF.replace("MPI_Allreduce", "MPI_Alltoall"))
    assert traffic(read(place))["collectives"] == {"ALLTOALL": 2}  # type: ignore[index]


def test_packed_and_in_microseconds(tmp_path: Path) -> None:
    plain = reading(tmp_path, exchange())
    place = tmp_path / "run.prv.gz"
    place.write_bytes(gzip.compress((tmp_path / "run.prv").read_bytes()))
    assert read(place, use_cache=False).mpi.equals(plain.mpi)
    old = reading(tmp_path, exchange(), HEAD.replace("20000_ns", "20000"))
    assert old.mpi["end_ns"].max() == 1000 * plain.mpi["end_ns"].max()  # type: ignore[operator]


def test_marks_and_line_ends_of_editors_change_nothing(tmp_path: Path) -> None:
    place = written(tmp_path, exchange())
    before = read(place, use_cache=False).mpi
    place.write_bytes(b"\xef\xbb\xbf" + place.read_bytes().replace(b"\n", b"\r\n"))
    assert read(place, use_cache=False).mpi.equals(before)


def test_flaws_are_counted(tmp_path: Path) -> None:
    lines = [
        *exchange(),
        "2:1:1:1:1:-5:50000001:3",
        "2:1:1:9:1:5:50000001:3",
        "2:1:1:1:1:5:50000001",
        "3:1:1",
        "c:1:5:3:1",
        "?",
        "2:x",
    ]
    lines += [
        message(1, 7, 400, 420, 1, 2),
        message(1, 2, 1500, 1520, 1600, 1700),
        message(1, 2, 400, 420, 110, 500, size=-1),
    ]
    lines += ["c:1:9:2:1:40", "2:1:1:1:1:99999999999999999999:50000001:3"]
    counts = codes(reading(tmp_path, lines))
    assert counts["P153"] == 9 and counts["P144"] == 2 and counts["P154"] == 2


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("#Paraver\n", "P030"),
        ("#Paraver (x):12_ns:0:1:none\n", "P030"),
        (HEAD + "\n", "P028"),
        (HEAD + "\n1:1:1:1:1:0:5:1\n", "P028"),
        (HEAD + "\n" + "2:what\n" * 1500, "P029"),
        (HEAD + "\n" + "1" * (3 << 20), "P029"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, text: str, code: str) -> None:
    place = tmp_path / "bad.prv"
    place.write_text(text, encoding="utf-8")
    error = refused(code, read, place, use_cache=False)
    assert error.cause and error.fix


def test_a_part_of_a_trace_names_the_whole(tmp_path: Path) -> None:
    written(tmp_path, exchange())
    assert "run.prv" in refused("P030", read, tmp_path / "run.pcf", use_cache=False).fix


def test_a_count_of_tasks_that_the_header_does_not_bear_out_is_not_believed(tmp_path: Path) -> None:
    head = "#Paraver (21/01/2022 at 16:37):20000_ns:1(2):1:999999999(1:1,1:1),2"
    assert reading(tmp_path, exchange(), head).mpi_ranks.height == 2


@settings(max_examples=60)
@given(data=st.data())
def test_no_change_makes_anything_but_a_trace_or_a_coded_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    files = [("run.prv", "\n".join([HEAD, *exchange()]).encode()), ("run.pcf", PCF.encode())]
    for name, text in files:
        lines = text.split(b"\n")
        for _ in range(data.draw(st.integers(0, 5))):
            at = data.draw(st.integers(0, len(lines) - 1))
            fields = lines[at].split(b":")
            match data.draw(st.integers(0, 3)):
                case 0:
                    lines[at] = data.draw(st.binary(max_size=30))
                case 1:
                    lines[at] = lines[at][: data.draw(st.integers(0, 30))]
                case 2:
                    lines.insert(data.draw(st.integers(0, len(lines))), lines[at])
                case _:
                    word = data.draw(
                        st.sampled_from(
                            [b"-1", b"0", b"9" * 18, b"9" * 30, b"", b"<b>", b"50000001", b"1e3"]
                        )
                    )
                    fields[data.draw(st.integers(0, len(fields) - 1))] = word
                    lines[at] = b":".join(fields)
        (folder / name).write_bytes(b"\n".join(lines))
    try:
        trace = paraver.read(folder / "run.prv")
    except ProfileError as error:
        assert error.code in ("P028", "P029", "P030")
        return
    traffic(build(trace).trace)


ODD = ["-1", "0", "9" * 18, "9" * 30, "", "<b>", "50000001", "1e3", " 7", "16777216"]
DAMAGE = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 20), st.sampled_from(ODD)), max_size=6
)


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(damage=DAMAGE, seed=st.integers(0, 1 << 20), coarse=st.sampled_from([1, 40]))
def test_lines_read_together_say_what_they_say_alone(
    damage: list[tuple[int, int, str]],
    seed: int,
    coarse: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A block of plain lines is read at once, others one by one: rows, names, facts and findings
    are those of reading all one by one.
    """
    draw = random.Random(seed)
    lines = [*WORLD]
    for turn in range(60):
        me, start = draw.randint(1, 2), turn * 30 // coarse * coarse
        kind, value = draw.choice(
            [
                (P2P, draw.choice([SEND, RECV, ISEND, IRECV, WAIT, WAITALL, 41])),
                (COLLECTIVE, draw.choice([BCAST, ALLREDUCE])),
            ]
        )
        beside = (
            (50100001, 8, 50100002, 8, 50100003, draw.randint(0, 1), 50100004, draw.randint(1, 3))
            if kind == COLLECTIVE
            else ()
        )
        lines += call(
            me, kind, value, start, start + draw.choice([0, 20, 40]) // coarse * coarse, *beside
        )
        lines.append(
            message(
                me,
                draw.randint(1, 2),
                start,
                start,
                draw.choice([start, start + 20]),
                start + 20,
                draw.randint(0, 99),
                turn % 3,
            )
        )
        lines.append(
            event(
                me,
                start,
                draw.choice([42000050, 63000001, 64000000]),
                draw.choice([5, 5000001, 64]),
            )
        )
    for at, field, word in damage:
        fields = lines[at % len(lines)].split(":")
        fields[field % len(fields)] = word
        lines[at % len(lines)] = ":".join(fields)
    place = written(tmp_path_factory.mktemp("together"), lines)
    told = []
    for short in (0, 1 << 30):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(paraver_records, "_SHORT", short)
            patch.setattr(packed_text, "_PIECE", 1 << 11)
            told.append(paraver.read(place))
    together, alone = told
    assert all(frame.equals(alone.table(name)) for name, frame in together.tables.items())
    assert (
        together.names.equals(alone.names)
        and together.facts == alone.facts
        and together.findings == alone.findings
    )


def test_lulesh(shared: Path) -> None:
    folder = shared / "traces" / "paraver" / "lulesh_8rank_4p4"
    trace = read(next(folder.glob("*.prv")), use_cache=False)
    truth = json.loads((shared / "traces" / "truth.json").read_text(encoding="utf-8"))[
        "paraver/lulesh_8rank_4p4"
    ]["files"]
    truth = next(v for k, v in truth.items() if k.endswith(".prv"))
    records = trace.facts["tables"]
    assert records == {
        "state": truth["state_records"],
        "event": truth["event_records"],
        "communication": truth["comm_records"],
    }
    said = traffic(trace)
    assert said is not None and said["ranks"] == 8 and said["collectives"] == {"ALLREDUCE": 40}
    assert said["sends"] == {"count": truth["comm_records"], "bytes": truth["comm_bytes"]}
    assert said["messages"] == {"matched": truth["comm_records"], "unmatched": 0}
    counts = codes(trace)
    # the chop cut 56 sends and 56 receives from their other side, and one call of each rank at its
    # begin
    assert (
        counts["P141"] == 112
        and counts["P147"] == 8
        and counts["P158"] == 1
        and not {"P153", "P154", "P155"} & set(counts)
    )
    calls = named(trace)
    assert calls.filter(pl.col("kind") == 0)["text"].value_counts().sort("text")[
        "count"
    ].to_list() == [540, 540]
    assert set(calls["size_bytes"].filter(calls["kind"] == 1).to_list()) == {64}


def test_every_message_of_lulesh_is_its_record(shared: Path) -> None:
    """Ends, begin of the send, and the end of the wait that has it are those of the communication
    record.
    """
    place = next((shared / "traces" / "paraver" / "lulesh_8rank_4p4").glob("*.prv"))
    fields = [
        [int(f) for f in line.split(":")]
        for line in place.read_text(encoding="utf-8").splitlines()
        if line.startswith("3:")
    ]
    trace = read(place, use_cache=False)
    calls, members = described(trace, np.arange(trace.mpi.height, dtype=np.int64))
    pairs = matched(calls, members)[2].select(
        "source", "target", "start_ns", "done_until_r", "size_bytes", "tag"
    )
    assert sorted(pairs.rows()) == sorted(
        (f[3] - 1, f[9] - 1, f[5], f[12], f[13], f[14]) for f in fields
    )
