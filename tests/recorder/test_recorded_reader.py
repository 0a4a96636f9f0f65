"""Reading what the recorders write: whole files, files that end anywhere, several processes, forged
lines.
"""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.foundation.errors import ProfileError
from turnbuckle.trace.check import check
from turnbuckle.trace.readers.recorded import reader as recorded
from turnbuckle.trace.readers.recorded.text import load
from turnbuckle.trace.trace import Trace

#: The columns of the collection kit's files, which came before ours.
KIT = (
    "kind,start,end,corr,corr2,tid,dev,ctx,stream,name,bytes,what,src,dst,blocks,threads,regs,smem,event,evsync,graph,node,queued,"
    "submitted,ret"
)
COLUMNS = KIT.split(",")
BOOT = 5_000_000_000


def row(kind: str, **columns: int) -> str:
    """One record in the kit's form."""
    return ",".join([kind, *(str(columns.get(c, "")) for c in COLUMNS[1:])])


def turn(number: int) -> list[str]:
    """A copy in, a kernel and a wait, each with its call."""
    at, first = BOOT + number * 100_000, 3 * number + 1
    where = {"dev": 0, "ctx": 1, "stream": 7}
    return [
        row("A", start=at, end=at + 5000, corr=first, tid=11, name=0, ret=0),
        row(
            "C",
            start=at + 6000,
            end=at + 9000,
            corr=first,
            corr2=first,
            bytes=4096,
            what=1,
            src=2,
            dst=3,
            ret=1,
            **where,
        ),
        row("A", start=at + 10_000, end=at + 14_000, corr=first + 1, tid=11, name=1, ret=0),
        row(
            "K",
            start=at + 15_000,
            end=at + 40_000,
            corr=first + 1,
            name=2,
            blocks=8,
            threads=32,
            regs=9,
            smem=0,
            **where,
        ),
        row("A", start=at + 20_000, end=at + 42_000, corr=first + 2, tid=11, name=3, ret=0),
        row(
            "Y", start=at + 20_000, end=at + 41_000, corr=first + 2, what=3, ctx=1, stream=7, ret=0
        ),
    ]


MADE_BY = [
    "#turnbuckle-trace 1",
    "#cupti_header 130001",
    "#cupti_library 130001",
    "#pid 4711",
    "#kinds api,kernel",
    "#slack_ns -1",
]
CLASSES = "#slackclass 0=launch 1=graph 2=copy 3=memset 4=sync"
HEAD = [*MADE_BY, CLASSES, "#timebase monotonic", f"#clock {BOOT} 0 1700000000000000000 40", KIT]
NAMES = [
    "#name 0 cudaMemcpyAsync_v3020",
    "#name 1 cudaLaunchKernel_v7000",
    "#name 2 void a::scale<float>(float*)",
    "#name 3 cudaStreamSynchronize_v3020",
]


def lines(turns: int = 10) -> list[str]:
    """A whole file of the kit."""
    rows = [line for number in range(turns) for line in turn(number)]
    end = [
        "#mark 5000000001 loop_end",
        f"#rows {len(rows)}",
        "#dropped 0",
        "#unknown 0",
        "#notime 0",
        "#end",
    ]
    return [*HEAD, *NAMES, *rows, f"#clock {BOOT + turns * 100_000} 0 1700000000000000000 40", *end]


def written(tmp_path: Path, text: list[str] | str | bytes, name: str = "a.trace.csv") -> Path:
    """A file."""
    path = tmp_path / name
    data = (
        text
        if isinstance(text, bytes)
        else (text if isinstance(text, str) else "\n".join(text) + "\n").encode()
    )
    path.write_bytes(data)
    return path


def codes(trace: Trace) -> dict[str, int]:
    return {found.code: found.count for found in trace.findings}


def test_a_file_of_the_kit(tmp_path: Path) -> None:
    path = written(tmp_path, lines())
    assert recorded.sniff(path.read_bytes()[:512], path) and not recorded.sniff(
        b"kind,start,end\n", path
    )
    trace = recorded.read(path)
    assert {n: f.height for n, f in trace.tables.items()} == {
        "api": 30,
        "kernels": 10,
        "copies": 10,
        "syncs": 10,
        "ranges": 1,
    }
    assert trace.api.row(0, named=True) == {
        "start_ns": 0,
        "end_ns": 5000,
        "process": 4711 << 24,
        "thread": 4711 << 24 | 11,
        "correlation": 1,
        "name": 0,
        "result": 0,
        "level": 0,
    }
    assert trace.text(trace.kernels, "short_name").unique().to_list() == ["scale"]
    assert (
        trace.facts["format"] == "recorded"
        and trace.facts["product_version"] == "Turnbuckle (CUPTI 13.0)"
    )
    assert (
        trace.facts["session_start_utc_ns"] == BOOT + 1_700_000_000_000_000_000
        and trace.facts["analysis_duration_ns"] == 1_000_000
    )
    assert codes(trace) == {"P123": 1} and trace.name == "a.trace.csv"


def test_times_of_cuptis_own_clock_are_brought_onto_the_machines(tmp_path: Path) -> None:
    ahead = 1_600_000_000_000_000_000
    text = (
        "\n".join(lines())
        .replace("#timebase monotonic", "#timebase cupti")
        .replace(f"#clock {BOOT} 0 ", f"#clock {BOOT} {ahead} ")
    )
    text = text.replace(f"#clock {BOOT + 1_000_000} 0 ", f"#clock {BOOT + 1_000_000} {ahead} ")
    # a delay is measured on the machine's own clock
    moved = re.sub(
        r"^([AKCY]),(\d+),(\d+)",
        lambda m: f"{m[1]},{int(m[2]) + ahead},{int(m[3]) + ahead}",
        text,
        flags=re.M,
    )
    moved = (
        moved.replace(
            "#rows", row("L", start=BOOT + 50, end=BOOT + 150, corr=1, tid=11, what=1) + "\n#rows"
        )
        + "\n"
    )
    trace = recorded.read(written(tmp_path, moved))
    assert trace.api["start_ns"][:2].to_list() == [0, 10_000] and trace.overheads.select(
        "start_ns", "end_ns", "kind"
    ).rows() == [(50, 150, 100)]
    assert (
        trace.facts["slack"]["calls graph"] == 1
        and trace.facts["session_start_utc_ns"] == BOOT + 1_700_000_000_000_000_000
    )


@pytest.mark.parametrize("share", [0.31, 0.5, 0.77, 0.99])
def test_a_file_that_is_cut_is_read_to_its_last_whole_line(tmp_path: Path, share: float) -> None:
    whole = ("\n".join(lines(200)) + "\n").encode()
    trace = recorded.read(written(tmp_path, whole[: int(len(whole) * share)]))
    expected = (
        sum(line[:1] in b"ACKY" for line in whole[: int(len(whole) * share)].split(b"\n")[:-1]) - 0
    )
    rows = sum(trace.facts["tables"].values())
    assert rows == expected and codes(trace)["P191"] == 1 and "P153" not in codes(trace)


def test_every_length_of_a_small_file_is_read_or_refused_by_name(tmp_path: Path) -> None:
    whole = ("\n".join(lines(2)) + "\n").encode()
    seen = set()
    for length in range(20, len(whole), 59):
        try:
            recorded.read(written(tmp_path, whole[:length]))
            seen.add("read")
        except ProfileError as error:
            seen.add(error.code)
    assert seen == {"read", "P065"}


def test_lines_that_are_no_records_are_left_out_and_counted(tmp_path: Path) -> None:
    call = row("A")
    numbers = [call.replace(",", other, 1) for other in (",1.5", ",99999999999999999999", ", 5")]
    bad = [
        "garbage",
        "A,1",
        row("A", start=1) + ",7",
        call[:-1],
        row("K").replace("K,", "K,x", 1),
        "",
        "\x00\x01",
        *numbers,
    ]
    text = lines()
    trace = recorded.read(written(tmp_path, [*text[:20], *bad, row("Q", start=5), *text[20:]]))
    assert (
        trace.api.height == 30
        and trace.kernels.height == 10
        and codes(trace) == {"P123": 1, "P153": len(bad) + 1}
    )
    assert next(f.detail for f in trace.findings if f.code == "P153") == "kind Q"


def test_records_that_the_file_says_it_holds_and_does_not(tmp_path: Path) -> None:
    text = lines()
    del text[30:33]
    assert codes(recorded.read(written(tmp_path, text)))["P153"] == 3


def test_numbers_beyond_their_columns_and_names_that_are_missing(tmp_path: Path) -> None:
    strange = [
        row("K", start=BOOT + 1, end=BOOT + 2, corr=99, dev=1 << 40, ctx=1, stream=7, name=77),
        row("C", start=BOOT + 1, end=BOOT + 2, corr=99, dev=0, bytes=-5, what=1, src=200, dst=-1),
        row("S", start=0, end=0, corr=99, dev=0, bytes=5, dst=3),
    ]
    trace = recorded.read(written(tmp_path, [*lines()[:-6], *strange, f"#rows {63}", "#end"]))
    kernel, copy = trace.kernels.row(0, named=True), trace.copies.row(0, named=True)
    assert kernel["device"] is None and kernel["name"] is None
    assert (copy["size_bytes"], copy["source_memory"], copy["target_memory"]) == (None, 0, 0)
    assert trace.memsets["start_ns"].null_count() == 1
    assert codes(trace) == {"P106": 1, "P123": 1, "P128": 1}


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    path = written(tmp_path, lines())
    path.write_bytes(path.read_bytes().replace(b"void a::scale", b"void \xff\xfe::scale"))
    assert codes(recorded.read(path)) == {"P107": 1, "P123": 1}


def test_dropped_and_refused(tmp_path: Path) -> None:
    text = [
        line.replace("#dropped 0", "#dropped 12").replace("#unknown 0", "#unknown 3")
        for line in lines()
    ]
    trace = recorded.read(
        written(tmp_path, [*text[:12], "#kind uvm refused", "#kind api on", *text[12:]])
    )
    assert (
        codes(trace) == {"P123": 1, "P192": 12, "P194": 4}
        and trace.facts["recorder"]["dropped"] == 12
    )


def test_several_processes_share_a_clock_and_keep_their_numbers(tmp_path: Path) -> None:
    first = written(tmp_path, lines(), "1")
    second = written(tmp_path, "\n".join(lines(20)).replace("#pid 4711", "#pid 4712") + "\n", "2")
    again = written(tmp_path, lines(5), "3")
    trace = recorded.together([first, second, again], name="run")
    assert (
        trace.kernels.height == 35
        and trace.kernels["process"].n_unique() == 3
        and trace.name == "run"
    )
    # the same process id a second time, as of a program that executed another, is another process
    assert trace.kernels.filter(pl.col("process") == 4711 << 24).height == 10
    assert trace.facts["recorder"]["processes"] == 3 and trace.api["start_ns"].is_sorted()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (["#turnbuckle-trace 2", *HEAD[1:]], "P063"),
        ([*HEAD[:-1], "start,kind,end", "A,1,2"], "P064"),
        ([*HEAD[:-1], "kind,start,end,end", "A,1,2,3"], "P064"),
        ([*lines(2), *lines(2)], "P064"),
        (HEAD, "P065"),
        ([*HEAD[:3], "#refused 39 CUPTI_ERROR_X", "#end"], "P065"),
    ],
)
def test_what_is_no_recording(tmp_path: Path, text: list[str], code: str) -> None:
    error = refused(code, recorded.read, written(tmp_path, text))
    assert error.fix and error.found


def test_files_of_two_machines_are_refused(tmp_path: Path) -> None:
    other = "\n".join(lines()).replace("1700000000000000000", "1600000000000000000") + "\n"
    refused(
        "P066", recorded.together, [written(tmp_path, lines(), "1"), written(tmp_path, other, "2")]
    )


def test_pieces_that_end_inside_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, lines(60))
    whole = load(path)
    for size in (400, 4096):
        monkeypatch.setattr("turnbuckle.trace.readers.recorded.text._PIECE", size)
        piecewise = load(path)
        assert (piecewise.count, piecewise.bad, piecewise.names, piecewise.digest) == (
            whole.count,
            0,
            whole.names,
            whole.digest,
        )
        assert all(piecewise.table(letter).equals(whole.table(letter)) for letter in whole.rows)


def test_a_line_without_end_takes_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnbuckle.trace.readers.recorded.text._PIECE", 1 << 16)
    text = "\n".join(lines(4)).encode()
    found = load(
        written(
            tmp_path,
            text[:-5]
            + b"\n"
            + b"x" * (5 << 20)
            + b"\n"
            + row("A", start=BOOT, end=BOOT).encode()
            + b"\n#end\n",
        )
    )
    assert found.ended and found.table("A").height == 13 and found.bad >= 2


NOISE = st.one_of(
    st.binary(min_size=1, max_size=12),
    st.sampled_from(
        [
            b"\n",
            b",",
            b"#",
            b"#end\n",
            b"#name ",
            b"#turnbuckle-trace ",
            b"-",
            b"9" * 19,
            b"\x00",
            b'"',
            b"K,",
            b"1e9",
            b"#pid -1\n",
        ]
    ),
)


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), NOISE), min_size=1, max_size=6))
def test_no_damage_is_more_than_a_named_error(
    tmp_path: Path, damage: list[tuple[float, int, bytes]]
) -> None:
    text = ("\n".join(lines(4)) + "\n").encode()
    for share, length, noise in damage:
        at = int(share * len(text))
        text = text[:at] + noise + text[at + length :]
    path = written(tmp_path, text)
    try:
        trace = recorded.read(path)
    except ProfileError as error:
        assert error.code in ("P063", "P064", "P065", "P066")
        return
    held = load(path)
    rows = [
        line
        for line in text[: text.rfind(b"\n") + 1].split(b"\n")[:-1]
        if not line.startswith(b"#")
    ]
    assert held.count + held.bad + sum(held.unknown.values()) >= len(rows) - 1, (
        "every line is a record, or counted"
    )
    assert sum(trace.facts["tables"].values()) == held.count


def test_marks_that_open_and_close_are_a_range(tmp_path: Path) -> None:
    marks = [
        "#mark 5000000100 loop_begin",
        "#mark 5000000200 half",
        "#mark 5000000900 loop_end",
        "#mark 5000001000 next_begin",
        "#mark x",
    ]
    trace = recorded.read(written(tmp_path, [*lines(2)[:-6], *marks, "#end"]))
    found = trace.ranges.with_columns(text=trace.text(trace.ranges)).select(
        "text", "kind", "start_ns", "end_ns", "thread"
    )
    assert found.rows() == [
        ("loop", 60, 100, 900, None),
        ("half", 34, 200, None, None),
        ("next_begin", 34, 1000, None, None),
    ]


def test_delays_of_a_recording_that_was_cut(tmp_path: Path) -> None:
    text = [line.replace("#slack_ns -1", "#slack_ns 700") for line in lines()[:40]]
    trace = recorded.read(
        written(tmp_path, [*text, row("L", start=BOOT, end=BOOT + 710, corr=1, tid=11, what=2)])
    )
    assert (
        trace.facts["slack"]
        == {"delay_ns": 700, "before": 0, "calls copy": 1, "waited_ns copy": 710}
        and codes(trace)["P193"] == 1
    )


def test_facts_of_opencl(tmp_path: Path) -> None:
    head = [
        *HEAD[:1],
        "#recorder opencl",
        "#api opencl",
        "#pid 9",
        "#device 0 name CPU\x1b[1m",
        "#device 0 units 4",
        "#device 0 unified 1",
        "#unseen x",
        KIT,
    ]
    rows = [
        row("C", start=BOOT, end=BOOT + 5, corr=1, bytes=8, what=2, src=3, dst=1, ret=256),
        row("M", start=BOOT, what=1, src=1, bytes=4, dst=3),
    ]
    trace = recorded.read(written(tmp_path, [*head, *rows, "#end"]))
    assert trace.devices.select("name", "multiprocessors", "discrete").row(0) == (
        "CPU\x1b[1m",
        4,
        0,
    )
    assert (
        codes(trace) == {"P195": 1, "P196": 2}
        and trace.facts["product_version"] == "Turnbuckle (opencl)"
    )
    assert (
        next(f.detail for f in trace.findings if f.code == "P196") == "1 buffer filled when made; x"
    )


def test_delays_put_in_are_no_overhead_of_a_profiler(tmp_path: Path) -> None:
    """A run that waited nine tenths of its time by order has no busy profiler; the same times as
    CUPTI's own work are one.
    """
    rows = [line for number in range(10) for line in turn(number)]
    for letter, what, found in (("L", 0, 0), ("O", 1 << 16, 1)):
        put_in = [
            row(
                letter,
                start=BOOT + k * 100_000 + 42_000,
                end=BOOT + (k + 1) * 100_000,
                tid=11,
                what=what,
                corr=k,
            )
            for k in range(9)
        ]
        trace = recorded.read(written(tmp_path, [*HEAD, *NAMES, *rows, *put_in, "#end"]))
        assert trace.overheads["kind"].unique().to_list() == [
            recorded.DELAY if letter == "L" else 3
        ]
        assert sum(flaw.code == "P122" for flaw in check(trace.tables, trace.facts)) == found


def test_questions_of_the_mpi_layer_are_no_calls_of_the_program(tmp_path: Path) -> None:
    """Of three questions to the driver one is the MPI library's, inside its call; the layer asks
    before, and on a thread of its own.
    """
    at = BOOT + 1000
    asked = [
        row("D", start=at + k, end=at + k + 90, corr=90 + k, tid=tid, name=7, ret=0)
        for k, tid in ((0, 11), (200, 11), (210, 12))
    ]
    gpu = written(
        tmp_path, [*HEAD, *NAMES, "#name 7 cuPointerGetAttributes", *turn(0)[4:], *asked, "#end"]
    )
    layer = tmp_path / "layer.csv"
    head = [
        "#turnbuckle-trace 1",
        "#pid 4711",
        "#api mpi",
        "#rank 3",
        "#ranks 4",
        f"#clock {BOOT} 0 1700000000000000000 40",
    ]
    rows = [
        row(
            "I",
            start=at + 100,
            end=at + 300,
            tid=11,
            name=0,
            what=0,
            bytes=8,
            stream=1,
            node=5,
            ctx=1,
            src=3,
        )
    ]
    layer.write_text(
        "\n".join([*head, KIT, "#name 0 MPI_Send", *rows, "#places cuda", "#end"]) + "\n"
    )
    trace = recorded.together([gpu, layer])
    assert (
        trace.facts["recorder"]["processes"] == 1
        and trace.mpi["thread"][0] == trace.api["thread"][0]
    )
    assert trace.api.filter(pl.col("level") == 1)["start_ns"].to_list() == [200], "inside MPI_Send"
    assert trace.overheads.select("start_ns", "end_ns", "kind").rows() == [
        (0, 90, 4),
        (210, 300, 4),
    ]
    without = recorded.together([gpu])
    assert without.overheads.is_empty() and without.api.filter(pl.col("level") == 1).height == 3
    assert trace.mpi.select("size_bytes", "partner", "tag", "communicator", "memory").rows() == [
        (8, 1, 5, 1, 3)
    ]


def test_numbers_of_mpi_calls_that_cannot_be(tmp_path: Path) -> None:
    head = [
        "#turnbuckle-trace 1",
        "#pid 9",
        "#api mpi",
        "#rank 0",
        "#ranks 2",
        KIT,
        "#name 0 MPI_Allreduce",
    ]
    huge = (1 << 62) - 1
    rows = [
        row("I", start=BOOT, end=BOOT + 5, tid=9, name=0, what=77, src=-4, dst=99, bytes=-5),
        row(
            "I",
            start=BOOT + 9,
            end=BOOT + 10,
            tid=9,
            name=0,
            what=1,
            ctx=1,
            bytes=huge,
            submitted=huge,
            dev=-9,
            src=8,
            dst=2,
        ),
        row(
            "I", start=BOOT + 12, end=BOOT + 13, tid=9, name=5, what=1, ctx=4, bytes=8, submitted=8
        ),
        row("B", start=BOOT, ctx=1, what=0, blocks=3, dev=0),
        row("B", start=BOOT, ctx=2, what=5, blocks=2, dev=0),
        row("B", start=BOOT, ctx=3, what=0, blocks=1 << 40, dev=0),
    ]
    trace = recorded.read(
        written(
            tmp_path,
            [
                *head,
                *rows,
                "#mpi_skipped one_sided 7",
                "#mpi_skipped other 3",
                "#mpi_skipped x",
                "#end",
            ],
        )
    )
    assert trace.mpi.select("kind", "size_bytes", "memory", "receive_memory").rows()[0] == (
        3,
        None,
        None,
        None,
    )
    assert trace.mpi.select("kind", "size_bytes", "memory", "receive_memory").rows()[1] == (
        1,
        1 << 62,
        None,
        2,
    ), "of all three members"
    assert trace.mpi.select("name", "size_bytes").rows()[2] == (None, 8)
    assert trace.mpi_communicators.select("communicator", "size").rows() == [(1, 3)]
    assert codes(trace)["P221"] == 7 and codes(trace)["P128"] == 1
