"""Paje traces: small files written here, and SMPI's own against their truth."""

from __future__ import annotations

import gzip
import lzma
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi_rows import named
from refusals import codes, refused

from turnbuckle.foundation.errors import ProfileError
from turnbuckle.mpi.readers.paje import calls as paje_calls
from turnbuckle.mpi.readers.paje import events as paje_events
from turnbuckle.mpi.readers.paje import reader as paje
from turnbuckle.mpi.replay.messages import recorded
from turnbuckle.profile.messages.mpi_calls import described, matched
from turnbuckle.profile.messages.traffic import traffic
from turnbuckle.profile.profile import build
from turnbuckle.trace import Trace, read
from turnbuckle.trace.readers.parts import packed_text
from turnbuckle.trace.readers.parts.mpi_tables import carried, operation, sort_of

EVENTS: dict[str, tuple[str, Sequence[str]]] = {
    "PajeDefineContainerType": ("0", ("Alias string", "Type string", "Name string")),
    "PajeDefineStateType": ("2", ("Alias string", "Type string", "Name string")),
    "PajeDefineLinkType": (
        "4",
        (
            "Alias string",
            "Type string",
            "StartContainerType string",
            "EndContainerType string",
            "Name string",
        ),
    ),
    "PajeDefineEntityValue": ("5", ("Alias string", "Type string", "Name string", "Color color")),
    "PajeCreateContainer": (
        "6",
        ("Time date", "Alias string", "Type string", "Container string", "Name string"),
    ),
    "PajeDestroyContainer": ("7", ("Time date", "Type string", "Name string")),
    "PajeSetVariable": ("8", ("Time date", "Type string", "Container string", "Value double")),
    "PajeSetState": ("11", ("Time date", "Type string", "Container string", "Value string")),
    "PajePushState": (
        "12",
        ("Time date", "Type string", "Container string", "Value string", "Size int"),
    ),
    "PajePopState": ("13", ("Time date", "Type string", "Container string")),
    "PajeResetState": ("14", ("Time date", "Type string", "Container string")),
    "PajeStartLink": (
        "15",
        (
            "Time date",
            "Type string",
            "Container string",
            "Value string",
            "StartContainer string",
            "Key string",
            "Size int",
        ),
    ),
    "PajeEndLink": (
        "16",
        (
            "Time date",
            "Type string",
            "Container string",
            "Value string",
            "EndContainer string",
            "Key string",
        ),
    ),
}
CALLS = {
    name: f"PMPI_{name.title()}" for name in ("send", "recv", "isend", "irecv", "wait", "init")
}
CALLS |= {
    "all": "PMPI_Waitall",
    "both": "PMPI_Sendrecv",
    "sum": "PMPI_Allreduce",
    "bar": "PMPI_Barrier",
    "cast": "PMPI_Bcast",
}
CALLS["work"] = "computing"


def header() -> list[str]:
    out = ["#This file was generated using SimGrid-3.32.0", "#[./halo --cfg=secret]"]
    for name, (number, fields) in EVENTS.items():
        out += [f"%EventDef {name} {number}", *(f"%       {f}" for f in fields), "%EndEventDef"]
    out += ["0 1 0 MPI", "2 2 1 MPI_STATE", "4 3 0 1 1 MPI_LINK"]
    return out + [f'5 {short} 2 {name} "1 0 0"' for short, name in CALLS.items()]


def ranks(count: int = 2) -> list[str]:
    return [f'6 0.0 {n + 1} 1 0 "rank-{n}"' for n in range(count)]


def call(
    rank: int, word: str, start: float, end: float, *inside: str, size: str = "NA"
) -> list[str]:
    return [f"12 {start:.9f} 2 {rank + 1} {word} {size}", *inside, f"13 {end:.9f} 2 {rank + 1}"]


def starts(key: str, rank: int, time: float, size: int = 512) -> str:
    return f"15 {time:.9f} 3 0 PTP {rank + 1} {key} {size}"


def ends(key: str, rank: int, time: float) -> str:
    return f"16 {time:.9f} 3 0 PTP {rank + 1} {key}"


US = 1e-6
WORDS = [b"-1", b"0", b"99999999999999999999", b"nan", b"inf", b"", b"<script>", b"1_2_3_4", b'"']


def exchange() -> list[str]:
    """Both ranks post a receive, send, compute and wait; then a sum."""
    out = [*ranks()]
    for me in (0, 1):
        key = f"{me + 1}_{2 - me}_7_{me + 1}"
        out += call(me, "irecv", US, US, size="64") + call(
            me, "isend", US, US, starts(key, me, US), size="64"
        )
        out += call(me, "work", US, 5 * US)
    out += call(0, "all", 5 * US, 8 * US, ends("2_1_7_2", 0, 7 * US), size="2.0")
    out += call(1, "all", 5 * US, 9 * US, ends("1_2_7_1", 1, 8 * US), size="2.0")
    for me in (0, 1):
        out += call(me, "sum", 10 * US, 12 * US, size="1")
    return out


def written(folder: Path, lines: Sequence[str], name: str = "run.trace") -> Path:
    place = folder / name
    place.write_text("\n".join([*header(), *lines]) + "\n", encoding="utf-8")
    return place


def reading(folder: Path, lines: Sequence[str]) -> Trace:
    return read(written(folder, lines), use_cache=False)


def test_an_exchange_is_told_from_both_its_ends(tmp_path: Path) -> None:
    trace = reading(tmp_path, exchange())
    assert trace.facts["format"] == "paje" and trace.facts["product_version"] == "SimGrid 3.32.0"
    said = traffic(trace)
    assert said is not None and said["ranks"] == 2
    assert said["sends"] == {"count": 2, "bytes": 1024} and said["receives"] == {"count": 2}
    assert said["messages"] == {"matched": 2, "unmatched": 0} and said["collectives"] == {
        "ALLREDUCE": 2
    }
    calls = named(trace)
    sent = calls.filter(pl.col("text") == "PMPI_Isend").sort("rank")
    assert (
        sent["partner"].to_list() == [1, 0]
        and sent["tag"].to_list() == [7, 7]
        and sent["size_bytes"].to_list() == [512, 512]
    )
    # a wait has a row for each request that it completes
    waits = calls.filter(pl.col("kind") == 2, pl.col("rank") == 0)
    begun = calls.filter(pl.col("kind") == 0, pl.col("rank") == 0)
    assert waits["request"].sort().to_list() == begun["request"].sort().to_list() and waits[
        "end_ns"
    ].to_list() == [8000, 8000]
    # an element of the messages has 8 bytes; two ranks of 8 bytes each way
    assert calls.filter(pl.col("kind") == 1)["size_bytes"].to_list() == [16, 16]
    assert codes(trace)["A350"] == 2 and codes(trace)["P119"] == 1 and "P153" not in codes(trace)
    assert trace.text(trace.ranges).to_list() == ["computing", "computing"]
    replayed = recorded(build(trace))
    assert replayed.unmatched == 0 and replayed.messages.size_bytes.tolist() == [512.0, 512.0]
    assert replayed.rounds[0].block_bytes.tolist() == [8.0]


def test_fields_are_read_by_the_header_and_not_by_their_place(tmp_path: Path) -> None:
    """Another order of fields and other numbers of events say the same."""
    plain = named(reading(tmp_path, exchange()))
    turned, numbers = {}, {}
    text = []
    for name, (number, fields) in EVENTS.items():
        turned[number], numbers[number] = list(reversed(range(len(fields)))), f"9{number}"
        text += [
            f"%EventDef  {name}   9{number}",
            *(f"%{f.replace('StartContainer ', 'SourceContainer ')}" for f in reversed(fields)),
        ]
        text += ["%EndEventDef"]
    for line in [*header()[-len(CALLS) - 3 :], *exchange()]:
        first, *fields = line.replace('"1 0 0"', "red").split()
        fields += ["NA"] * (len(turned[first]) - len(fields))
        text.append(" ".join([numbers[first], *(fields[i] for i in turned[first])]))
    place = tmp_path / "turned.paje"
    place.write_text("\n".join(text), encoding="utf-8")
    other = named(read(place, use_cache=False))
    assert other.drop("name").equals(plain.drop("name"))


@pytest.mark.parametrize(("suffix", "pack"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_packed_is_the_same(tmp_path: Path, suffix: str, pack: object) -> None:
    plain = written(tmp_path, exchange())
    place = tmp_path / f"run.trace{suffix}"
    data = plain.read_bytes()
    place.write_bytes(pack(data[:700]) + pack(data[700:]))  # type: ignore[operator]  # two members are one file
    assert read(place, use_cache=False).mpi.equals(read(plain, use_cache=False).mpi)
    whole = pack(data)  # type: ignore[operator]
    for cut in (len(whole) // 2, len(whole) - 5):
        place.write_bytes(whole[:cut])
        refused("P025", read, place, use_cache=False)
    place.write_bytes(whole[:200] + b"\xff" * 20 + whole[220:])
    refused("P025", read, place, use_cache=False)


def test_a_packed_file_may_not_grow_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_text, "_FREE", 2 << 20)
    monkeypatch.setattr(packed_text, "_GROWTH", 2)
    place = tmp_path / "bomb.trace.gz"
    place.write_bytes(gzip.compress("\n".join([*header(), *(["8 0.0 2 1 0"] * 300_000)]).encode()))
    refused("P026", read, place, use_cache=False)


def test_blocking_calls(tmp_path: Path) -> None:
    lines = [
        *ranks(),
        *call(0, "send", US, 3 * US, starts("1_2_1_1", 0, US, 100)),
        *call(1, "recv", US, 4 * US, ends("1_2_1_1", 1, 4 * US)),
    ]
    trace = reading(tmp_path, lines)
    received = named(trace).filter(pl.col("text") == "PMPI_Recv")
    assert received.select("partner", "tag", "size_bytes", "start_ns", "end_ns").row(0) == (
        0,
        1,
        100,
        1000,
        4000,
    )


def test_a_link_without_bytes_is_counted(tmp_path: Path) -> None:
    """So SMPI writes without display-sizes: the message is matched, its size is not made up."""
    trace = reading(
        tmp_path,
        [line.replace(" 512", "") if line.startswith("15") else line for line in exchange()],
    )
    assert codes(trace)["A351"] == 4 and traffic(trace)["messages"] == {
        "matched": 2,
        "unmatched": 0,
    }  # type: ignore[index]
    assert named(trace).filter(pl.col("kind") == 0)["size_bytes"].null_count() == 4


def test_sendrecv_is_a_half_without_length_and_a_half_with_it(tmp_path: Path) -> None:
    lines = [
        *ranks(),
        "12 0.000001 2 1 both NA",
        "12 0.000001 2 2 both NA",
        starts("1_2_2_1", 0, US, 10),
        starts("2_1_3_2", 1, US, 20),
        ends("1_2_2_1", 1, 3 * US),
        ends("2_1_3_2", 0, 4 * US),
        "13 0.000004 2 1",
        "13 0.000004 2 2",
    ]
    trace = reading(tmp_path, lines)
    mine = named(trace).filter(pl.col("rank") == 0)
    assert mine.select("start_ns", "end_ns", "partner", "tag", "size_bytes").rows() == [
        (1000, 1000, 1, 2, 10),
        (1000, 4000, 1, 3, 20),
    ]
    said = traffic(trace)
    assert said is not None and said["messages"] == {"matched": 2, "unmatched": 0}


def test_calls_at_the_very_begin_keep_their_time(tmp_path: Path) -> None:
    """An interval from 0 to 0 would pass for a row without time stamps."""
    trace = reading(
        tmp_path, [*ranks(), *call(0, "init", 0, 0), *call(1, "init", 0, 0), *exchange()[2:]]
    )
    profile = build(trace)
    assert "P102" not in {f.code for f in profile.findings}
    assert named(trace).filter(pl.col("text") == "PMPI_Init")["start_ns"].to_list() == [1, 1]


def test_what_a_wait_completes_is_guessed_only_where_something_stays_open(tmp_path: Path) -> None:
    lines = [*ranks()]
    lines += call(0, "irecv", US, US) + call(0, "irecv", US, US)
    for k in (1, 2):
        lines += call(1, "send", US, 2 * US, starts(f"2_1_{k}_{k}", 1, US))
    one = (
        lines
        + call(0, "wait", 3 * US, 4 * US, ends("2_1_1_1", 0, 4 * US))
        + call(0, "wait", 5 * US, 6 * US, ends("2_1_2_2", 0, 6 * US))
    )
    assert codes(reading(tmp_path, one))["P155"] == 1
    both = lines + call(
        0, "all", 3 * US, 4 * US, ends("2_1_1_1", 0, 4 * US), ends("2_1_2_2", 0, 4 * US), size="2"
    )
    assert "P155" not in codes(reading(tmp_path, both))


def test_roots_and_sizes_that_are_not_there_are_counted(tmp_path: Path) -> None:
    lines = [
        *ranks(),
        *call(0, "cast", US, 2 * US, size="4"),
        *call(1, "cast", US, 2 * US, size="4"),
    ]
    lines += call(0, "bar", 3 * US, 4 * US) + call(1, "bar", 3 * US, 4 * US)
    trace = reading(tmp_path, lines)
    assert codes(trace)["P157"] == 2 and codes(trace)["A351"] == 2
    assert named(trace).filter(pl.col("text") == "PMPI_Barrier")["size_bytes"].to_list() == [0, 0]


def test_an_alias_counts_before_a_name(tmp_path: Path) -> None:
    """Containers numbered as their tool likes and called by other numbers: what lines name are the
    aliases.
    """
    before = reading(tmp_path, exchange())
    after = reading(tmp_path, ['6 0.0 2 1 0 "1"', '6 0.0 1 1 0 "0"', *exchange()[2:]])
    assert after.mpi.equals(before.mpi) and "P158" not in codes(after)


def test_marks_and_line_ends_of_editors_change_nothing(tmp_path: Path) -> None:
    before = reading(tmp_path, exchange())
    place = tmp_path / "run.text"
    place.write_bytes(
        b"\xef\xbb\xbf" + (tmp_path / "run.trace").read_bytes().replace(b"\n", b"\r\n")
    )
    assert read(place, use_cache=False).mpi.equals(before.mpi)
    place.write_bytes(lzma.compress(place.read_bytes()))
    assert read(place, use_cache=False).mpi.equals(before.mpi)


def test_flaws_are_counted(tmp_path: Path) -> None:
    lines = [
        *exchange(),
        "13 0.000013 2 1",
        "12 0.000014 2 1 send NA",
        "12 -1.0 2 1 send NA",
        "12 nan 2 1 send NA",
        "12 1e300 2 1 send NA",
    ]
    lines += [
        "12 0.1 2 77 send NA",
        "99 what",
        "12",
        "8 0.000013 2 1 5",
        starts("1_2_9_9", 0, 13 * US),
        ends("5_2_9_8", 1, 13 * US),
    ]
    trace = reading(tmp_path, lines)
    counts = codes(trace)
    assert counts["P153"] == 6 and counts["P147"] == 2 and counts["P143"] == 1
    # one send whose message never arrives and one message that nobody receives or sent
    assert counts["P154"] == 3 and counts["P141"] == 1
    assert traffic(trace)["messages"]["matched"] == 2  # type: ignore[index]


def test_names_of_states_are_text_and_containers_may_be_no_ranks(tmp_path: Path) -> None:
    lines = [
        line.replace('"rank-0"', '"<b>left</b>"').replace('"rank-1"', '"right"')
        for line in exchange()
    ]
    trace = reading(tmp_path, lines)
    assert codes(trace)["P158"] == 2 and trace.mpi_ranks["rank"].to_list() == [0, 1]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("%EventDef PajePushState\n", "P027"),
        ("%EndEventDef\n%EventDef x 1\n%EndEventDef\n", "P027"),
        ("%EventDef PajePushState 1\n% Time date\n%EndEventDef\n", "P027"),
        ("%EventDef PajePushState 1\n% Time date\n% Container string\n% Value string\n", "P027"),
        ("%EventDef PajeNewEvent 1\n% Time date\n%EndEventDef\n1 0.5\n", "P028"),
        ("%EventDef PajeNewEvent 1\n% Time date\n%EndEventDef\n" + "7 x\n" * 1200, "P029"),
        ("%EventDef PajeNewEvent 1\n% Time date\n%EndEventDef\n1 " + "x" * (3 << 20), "P029"),
        ("".join(f"%EventDef X{n} {n}\n%EndEventDef\n" for n in range(4200)), "P027"),
        ("%EventDef X 1\n" + "% F int\n" * 300 + "%EndEventDef\n", "P027"),
        ("%EventDef", "P027"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, text: str, code: str) -> None:
    place = tmp_path / "bad.paje"
    place.write_text(text, encoding="utf-8")
    error = refused(code, read, place, use_cache=False)
    assert error.cause and error.fix


def test_a_file_called_paje_that_is_something_else(tmp_path: Path) -> None:
    place = tmp_path / "noise.paje"
    place.write_bytes(bytes(range(256)) * 40)
    refused("P027", read, place, use_cache=False)


def test_states_inside_states_have_an_end(tmp_path: Path) -> None:
    trace = reading(tmp_path, [*exchange(), *(["12 0.00002 2 1 work NA"] * 5000)])
    assert codes(trace)["P153"] == 5000 - 4096


def test_progress_can_stop_the_read(tmp_path: Path) -> None:
    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read(written(tmp_path, exchange()), use_cache=False, progress=stop)


def test_sorts_and_shares() -> None:
    assert [operation(n) for n in ("PMPI_Isend", "mpi_send_", "MPI_<b>", "computing", "")] == [
        "isend",
        "send",
        "",
        "",
        "",
    ]
    assert [
        sort_of(d)
        for d in ("ibsend", "imrecv", "waitsome", "startall", "ialltoallv", "sendrecv", "comm_dup")
    ] == [
        "send",
        "receive",
        "wait",
        "start",
        "collective",
        "both",
        "other",
    ]
    assert carried("alltoall", 3, 3, 4, False) == (12, 12) and carried(
        "gatherv", 3, 9, 4, True
    ) == (3, 9)
    assert carried("scatter", 5, 6, 4, True) == (20, 6) and carried("scatter", 5, 6, 4, False) == (
        0,
        6,
    )
    assert carried("reduce", 7, 7, 4, True) == (7, 28) and carried("ibarrier", 9, 9, 4, True) == (
        0,
        0,
    )


@settings(max_examples=30)
@given(data=st.data())
def test_no_change_makes_anything_but_a_trace_or_a_coded_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    lines = "\n".join([*header(), *exchange()]).encode().split(b"\n")
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.integers(0, 4)):
            case 0:
                lines[at] = data.draw(st.binary(max_size=40))
            case 1:
                lines.insert(at, lines[data.draw(st.integers(0, len(lines) - 1))])
            case 2 if len(lines) > 2:
                del lines[at]
            case 3:
                words = lines[at].split(b" ")
                word = data.draw(
                    st.sampled_from(
                        [
                            b"-1",
                            b"0",
                            b"99999999999999999999",
                            b"nan",
                            b"inf",
                            b"",
                            b"<script>",
                            b"1_2_3_4",
                            b'"',
                        ]
                    )
                )
                words[data.draw(st.integers(0, len(words) - 1))] = word
                lines[at] = b" ".join(words)
            case _:
                lines[at] = lines[at][: data.draw(st.integers(0, 30))]
    place = folder / "fuzz.paje"
    place.write_bytes(b"\n".join(lines))
    try:
        trace = paje.read(place)
    except ProfileError as error:
        assert error.code in ("P003", "P027", "P028", "P029")
        return
    traffic(build(trace).trace)


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(data=st.data(), seed=st.integers(0, 1 << 20))
def test_lines_read_together_say_what_they_say_alone(
    data: st.DataObject, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Plain lines are read a block at a time, and events taken a part at a time: one by one and all
    at once they say the same.
    """
    draw = random.Random(seed)
    lines = [*ranks(3)]
    open_: list[str] = []
    for turn in range(150):
        me, time = draw.randrange(3), turn * draw.choice([0, 1]) * US
        match draw.randrange(6):
            case 0 | 1:
                lines.append(
                    f"12 {time:.9f} 2 {me + 1} {draw.choice(list(CALLS))} "
                    f"{draw.choice(['NA', '2', '64.000000'])}"
                )
            case 2 | 3:
                lines.append(f"13 {time:.9f} 2 {me + 1}{draw.choice(['', ' '])}")
            case 4:
                open_.append(
                    f"{me + 1}_{draw.randint(1, 3)}_{draw.choice([0, 5, -7])}_{turn if draw.random() < 0.9 else 1}"
                )
                lines.append(starts(open_[-1], me, time, draw.choice([8, 512])))
            case _ if open_:
                lines.append(ends(open_.pop(draw.randrange(len(open_))), me, time))
    lines += [f"14 {US:.9f} 2 1", "11 0.0002 2 2 sum", *call(0, "sum", 300 * US, 301 * US)]
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(3, len(lines) - 1))
        words = lines[at].split(" ")
        words[data.draw(st.integers(0, len(words) - 1))] = data.draw(
            st.sampled_from([word.decode() for word in WORDS])
        )
        lines[at] = " ".join(words)
    place = written(tmp_path_factory.mktemp("together"), lines)
    told = []
    for short, enough, piece in ((0, 16, 1 << 10), (1 << 30, 1 << 30, 1 << 20)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(paje_events, "_SHORT", short)
            patch.setattr(paje_calls, "_ENOUGH", enough)
            patch.setattr(packed_text, "_PIECE", piece)
            told.append(paje.read(place))
    together, alone = told
    assert together.tables.keys() == alone.tables.keys()
    assert all(frame.equals(alone.table(name)) for name, frame in together.tables.items())
    assert (
        together.names.equals(alone.names)
        and together.facts == alone.facts
        and together.findings == alone.findings
    )


def test_links_without_end_that_bear_one_key_are_damage(tmp_path: Path) -> None:
    """Only the lines before it make such a line bad: more of them than sound lines, and the file is
    refused.
    """
    one = starts("1_2_3_4", 0, US)
    assert codes(reading(tmp_path, [*exchange(), *[one] * 1000]))["P153"] == 999
    with pytest.raises(ProfileError) as error:
        reading(tmp_path, [*exchange(), *[one] * 1500])
    assert error.value.code == "P029"
    assert (
        error.value.found
        == "1001 lines that cannot be read, 42 that can; the first: a link's key that is open"
    )


@pytest.mark.parametrize(
    ("file", "count", "states", "last_ns"),
    [
        ("halo-64-paje.trace.xz", 12_800, 38_400, 4_052_022),
        ("halo-256-paje.trace.xz", 51_200, 219_015, 15_151_031),
    ],
)
def test_smpi_halo(shared: Path, file: str, count: int, states: int, last_ns: int) -> None:
    trace = read(shared / "traces" / "simgrid-local" / file, use_cache=False)
    ranks_there = int(file.split("-")[1])
    said = traffic(trace)
    assert said is not None and said["ranks"] == ranks_there
    assert said["sends"] == {"count": count, "bytes": 512 * count} and said["receives"] == {
        "count": count
    }
    assert said["messages"] == {"matched": count, "unmatched": 0} and said["collectives"] == {
        "ALLREDUCE": 5 * ranks_there
    }
    assert trace.facts["tables"]["PajePushState"] == states
    assert abs(trace.facts["analysis_duration_ns"] - last_ns) <= 2
    assert not {"P141", "P147", "P153", "P154", "P155"} & set(codes(trace))
    # each of the four neighbours of a rank on the torus, 50 steps each
    partners = (
        named(trace)
        .filter(pl.col("text") == "PMPI_Isend", pl.col("rank") == 0)["partner"]
        .value_counts()
    )
    assert partners["count"].to_list() == [50, 50, 50, 50]


def test_every_message_of_smpi_is_its_link(shared: Path) -> None:
    """Sender, receiver, tag, begin of the send and end of the wait are the link's own, for every
    link of the file.
    """
    place = shared / "traces" / "simgrid-local" / "halo-64-paje.trace.xz"
    begun: dict[bytes, int] = {}
    links = []
    with lzma.open(place) as file:
        for line in file:
            words = line.split()
            if words[:1] == [b"15"]:
                begun[words[6]] = round(float(words[1]) * 1e9) + 1
            elif words[:1] == [b"16"]:
                source, target, tag, _ = (int(part) for part in words[6].split(b"_"))
                links.append(
                    (source - 1, target - 1, tag, begun[words[6]], round(float(words[1]) * 1e9) + 1)
                )
    trace = read(place, use_cache=False)
    calls, members = described(trace, np.arange(trace.mpi.height, dtype=np.int64))
    pairs = matched(calls, members)[2].select("source", "target", "tag", "start_ns", "done_until_r")
    assert sorted(pairs.rows()) == sorted(links)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_growth_is_measured_as_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(packed_text, "_FREE", 2 << 20)
    monkeypatch.setattr(packed_text, "_PIECE", 1 << 12)
    place = tmp_path / "bomb.trace.gz"
    behind = pack(random.Random(1).randbytes(1 << 20))
    place.write_bytes(pack(b"%\n" * (4 << 20)) + behind)
    with pytest.raises(ProfileError) as error:
        for _ in packed_text.Text(place).blocks():
            pass
    grown, packed = (int(number) for number in re.findall(r"\d+", error.value.found))
    assert error.value.code == "P026" and grown < 6 << 20 and packed < place.stat().st_size
