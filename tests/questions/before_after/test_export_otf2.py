"""A run as an OTF2 archive: libotf2 reads it, and our own reader, which shares no code with the
writer, makes the run of it again.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import _otf2
import otf2
import polars as pl
import pytest
from hostile_names import SAMPLE, Ran
from hypothesis import given, reject
from mpi_rows import call, recorded
from refusals import refused
from runs import run_of
from strategies import FEWER, gpu_traces, soups, trace_of, traces

import turnbuckle as tb
from turnbuckle.foundation.findings import Finding
from turnbuckle.foundation.schema import words
from turnbuckle.profile.messages.traffic import traffic
from turnbuckle.profile.profile import build
from turnbuckle.projection.run import Run
from turnbuckle.questions.before_after.export import archived
from turnbuckle.questions.before_after.formats import otf2 as archive_of
from turnbuckle.trace.trace import Trace

Turnbuckle = Callable[..., Ran]
READ_BACK = [words("directions").index(word) for word in ("h2d", "d2h", "d2d", "p2p")]


def of_trace(trace: Trace) -> Run:
    return Run.of(build(trace), source="a100-pcie-40")


def written(run: Run, place: Path) -> tuple[Run, str, str]:
    """The run that our reader makes of the archive, what the answer says is lacking, and what the
    archive says of itself.
    """
    anchor, lacks = archived(run, place, "otf2")
    with otf2.reader.open(str(anchor)) as archive:
        said = _otf2.Reader_GetDescription(archive._handle)
    return (
        tb.read(anchor, source=run.source, part="whole"),
        lacks.detail if isinstance(lacks, Finding) else "",
        said,
    )


def rows(run: Run, table: str, *columns: str) -> Counter[tuple[Any, ...]]:
    """Rows of a table as an archive has them: no negative times, names as texts, copies of the
    directions that it has records for.
    """
    trace = run.trace
    frame = trace.table(table)
    if "name" in columns:
        frame = frame.with_columns(name=trace.text(frame))
    if table == "copies":
        frame = frame.filter(pl.col("direction").is_in(READ_BACK))
    first = min(
        (
            f["start_ns"].min()
            for f in trace.tables.values()
            if f.height and "start_ns" in f.columns
        ),
        default=0,
    )  # type: ignore[type-var]
    zero = first - 1 if first < 0 else 0  # type: ignore[operator]
    return Counter(frame.select(pl.col("start_ns", "end_ns") - zero, *columns).rows())


@pytest.mark.parametrize(
    ("name", "part"), [("dgemm-like-synthetic", "whole"), ("milc-like-synthetic", "0.3s..0.5s")]
)
def test_the_run_comes_back(name: str, part: str, tmp_path: Path) -> None:
    run = run_of(SAMPLE.with_name(f"{name}.sqlite"), part)
    back, lacks, said = written(run, tmp_path / "a")
    assert back.profile.run_time_ns == run.profile.run_time_ns
    for table, *columns in (
        ("api", "name"),
        ("kernels", "name"),
        ("copies", "size_bytes", "direction"),
        ("memsets", "size_bytes"),
    ):
        assert rows(back, table, *columns) == rows(run, table, *columns), table
    assert back.profile.first_ns == run.profile.first_ns
    # which call started which work
    started = [
        r.trace.launch_pairs.group_by("table").len().sort("table").rows() for r in (run, back)
    ]
    assert started[0] == started[1]
    seconds = [r.project(["self"], draws=0).projections[0].seconds for r in (run, back)]
    assert seconds == [run.seconds, run.seconds]
    assert (
        said == lacks
        and "launch shapes of kernels" in lacks
        and "whether the host's memory of a copy is pinned" in lacks
    )
    # no name of a host is in the archive, and nothing of it is unread
    assert not {"P119", "P143", "P147", "P144"} & {f.code for f in back.trace.findings}


def test_libotf2_reads_what_was_written(tmp_path: Path) -> None:
    run = run_of(SAMPLE)
    anchor = run.export(tmp_path / "a", to="otf2")
    seen: Counter[str] = Counter()
    moved = 0
    with otf2.reader.open(str(anchor)) as archive:
        assert archive.timer_resolution == 10**9 and _otf2.Reader_GetCreator(
            archive._handle
        ).startswith("turnbuckle ")
        last: dict[Any, int] = {}
        open_: dict[Any, list[Any]] = {}
        for location, event in archive.events:
            assert event.time >= last.get(location, 0)
            last[location] = event.time
            seen[f"{location.type} {type(event).__name__}"] += 1
            stack = open_.setdefault(location, [])
            if isinstance(event, otf2.events.Enter):
                stack.append(event.region)
            elif isinstance(event, otf2.events.Leave):
                assert stack.pop() == event.region
            elif isinstance(event, otf2.events.RmaGet):
                # a get of a stream reads the host's memory
                assert event.win.location(event.remote).type == otf2.LocationType.CPU_THREAD
                moved += event.bytes
        assert not any(open_.values())
    copies = run.trace.copies
    into = copies.filter(pl.col("direction") == words("directions").index("h2d"))
    work = run.trace.kernels.height + run.trace.memsets.height + copies.height
    assert seen[f"{otf2.LocationType.ACCELERATOR_STREAM} Enter"] == work
    assert (
        seen[f"{otf2.LocationType.ACCELERATOR_STREAM} RmaGet"] == into.height
        and moved == into["size_bytes"].sum()
    )
    assert (
        seen[f"{otf2.LocationType.ACCELERATOR_STREAM} RmaPut"]
        == copies.height - into.height + run.trace.memsets.height
    )


@pytest.mark.hypothesis
@given(traces() | gpu_traces() | soups())
@FEWER
def test_any_run_comes_back(tmp_path_factory: pytest.TempPathFactory, trace: Trace) -> None:
    run = of_trace(trace)
    if not run.profile.activities.height:
        reject()
    back, lacks, _ = written(run, tmp_path_factory.mktemp("otf2") / "a")
    # a graph is a kernel without a name
    kernels = rows(run, "kernels") + rows(run, "graphs")
    assert rows(back, "kernels") == kernels
    for table, *columns in (
        ("copies",),
        ("memsets",),
        *([] if "only one is recorded" in lacks else [("copies", "direction")]),
    ):
        assert rows(back, table, *columns) == rows(run, table, *columns)
    assert rows(back, "api") == rows(run, "api")
    if "shown as regions" not in lacks:
        assert back.profile.run_time_ns == run.profile.run_time_ns


def test_messages_come_back_with_their_partners_sizes_and_requests(tmp_path: Path) -> None:
    run = of_trace(
        recorded(
            call(0, "Irecv", 100, 120, partner=1, tag=3, size_bytes=500, request=9),
            call(0, "Wait", 200, 620, request=9),
            call(0, "Sendrecv", 630, 630, partner=1, tag=4, size_bytes=8),
            call(0, "Sendrecv", 630, 650, partner=1, tag=5, size_bytes=16),
            call(0, "Allreduce", 700, 810, size_bytes=64, receive_bytes=64),
            call(1, "Isend", 500, 560, partner=0, tag=3, size_bytes=500, request=9),
            call(1, "Wait", 570, 580, request=9),
            call(1, "Sendrecv", 600, 600, partner=0, tag=5, size_bytes=16),
            call(1, "Sendrecv", 600, 660, partner=0, tag=4, size_bytes=8),
            call(1, "Allreduce", 800, 815, size_bytes=64, receive_bytes=64),
        )
    )
    back, lacks, said = written(run, tmp_path / "a")
    assert not lacks and said == "all that the recording holds"
    here, there = traffic(run.trace), traffic(back.trace)
    assert here == there and here is not None and here["messages"] == {"matched": 3, "unmatched": 0}
    columns = ("partner", "tag", "size_bytes", "receive_bytes")
    assert rows(back, "mpi", *columns) == rows(run, "mpi", *columns)
    assert back.profile.run_time_ns == run.profile.run_time_ns


def test_clocks_stay_as_they_are_where_messages_contradict_them(tmp_path: Path) -> None:
    sends = [
        call(k, "Send", 5000 + 1000 * k, 5100 + 1000 * k, partner=1 - k, tag=3, size_bytes=8)
        for k in (0, 1)
    ]
    receives = [
        call(k, "Recv", 100 + 1000 * k, 200 + 1000 * k, partner=1 - k, tag=3, size_bytes=8)
        for k in (0, 1)
    ]
    run = of_trace(recorded(*sends, *receives))
    back, _, _ = written(run, tmp_path / "a")
    assert (
        rows(back, "mpi", "name") == rows(run, "mpi", "name")
        and back.profile.run_time_ns == run.profile.run_time_ns
    )
    assert "P149" in {f.code for f in back.trace.findings}


def test_a_persistent_request_is_written_as_its_starts(tmp_path: Path) -> None:
    begins = (100, 190)
    starts = [
        call(1, name, t + late, t + late + 10, request=5)
        for t in begins
        for name, late in (("Start", 0), ("Wait", 20))
    ]
    receives = [call(0, "Recv", t, t + 40, partner=1, tag=3, size_bytes=8) for t in begins]
    run = of_trace(
        recorded(
            call(1, "Send_init", 10, 20, partner=0, tag=3, size_bytes=8, request=5),
            *starts,
            *receives,
        )
    )
    back, _, _ = written(run, tmp_path / "a")
    here, there = traffic(run.trace), traffic(back.trace)
    assert (
        here is not None
        and there is not None
        and here["messages"] == there["messages"] == {"matched": 2, "unmatched": 0}
    )


def test_messages_of_a_lone_rank_keep_their_times_and_are_counted(tmp_path: Path) -> None:
    trace = recorded(
        call(1, "Send", 500, 560, partner=0, tag=3, size_bytes=8), call(1, "Barrier", 600, 700)
    )
    lone = trace_of(
        {"mpi": trace.mpi.rows(named=True), "mpi_ranks": trace.mpi_ranks.rows(named=True)[1:]}
    )
    run = of_trace(Trace(lone.tables, trace.names, lone.facts))
    back, lacks, _ = written(run, tmp_path / "a")
    assert (
        "ranks of the processes: the recording lacks some 1" in lacks
        and "lacks a rank, a partner or a communicator 2" in lacks
    )
    assert rows(back, "mpi", "name") == rows(run, "mpi", "name")


def test_calls_that_overlap_keep_their_times(tmp_path: Path) -> None:
    thread = (5 << 24) + 1
    times = ((0, 100), (50, 150), (60, 90), (200, 200))
    api = [
        {"start_ns": s, "end_ns": e, "process": 5 << 24, "thread": thread, "name": 0}
        for s, e in times
    ]
    ranges = [
        {"start_ns": s, "end_ns": e, "thread": thread, "kind": 59, "name": 1}
        for s, e in ((10, 120), (0, 300), (80, None))
    ]
    trace = trace_of({"api": api, "ranges": ranges})
    run = of_trace(Trace(trace.tables, pl.Series("name", ["cudaFree", "phase"]), trace.facts))
    back, lacks, _ = written(run, tmp_path / "a")
    assert rows(back, "api") == rows(run, "api")
    assert (
        "calls on a location of their own, as they overlap others 1" in lacks
        and back.trace.api["thread"].n_unique() == 2
    )
    # the range that crosses calls and the mark give way; the one around all of them does not
    assert "that overlap calls 1" in lacks and "without an end or a thread 1" in lacks
    assert rows(back, "ranges") == Counter([(0, 300)])


def test_the_time_of_day_is_the_recordings(tmp_path: Path) -> None:
    trace = run_of(SAMPLE).trace
    start = 1_780_000_000_123_456_789
    for known, place in ((start, "a"), (None, "b")):
        run = of_trace(
            Trace(trace.tables, trace.names, {**trace.facts, "session_start_utc_ns": known})
        )
        back, _, _ = written(run, tmp_path / place)
        assert back.trace.facts["session_start_utc_ns"] == known


def test_the_command_names_the_anchor_and_says_what_is_lacking(turnbuckle: Turnbuckle) -> None:
    ran = turnbuckle("export", SAMPLE, "--to", "otf2", "-o", "run.otf2")
    assert (
        ran.code == 0
        and ran.out == "run.otf2/traces.otf2\n"
        and ran.err.startswith("A502: the archive has no records for some of")
    )
    again = turnbuckle("export", SAMPLE, "--to", "otf2", "-o", "run.otf2")
    assert again.code == 2 and "error[R005]" in again.err
    ran = turnbuckle(
        "project", "run.otf2/traces.otf2", "--on", "self", "--draws", "0", "--format", "csv"
    )
    assert ran.code == 0, ran.err


def test_what_is_refused(
    turnbuckle: Turnbuckle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(SAMPLE)
    refused("A500", run.export, tmp_path / "a", "gh200", to="otf2")
    ran = turnbuckle("export", SAMPLE, "--to", "otf2")
    assert ran.code == 2 and "error[A501]" in ran.err
    monkeypatch.setitem(sys.modules, "otf2", None)
    assert "turnbuckle[otf2]" in refused("A450", run.export, tmp_path / "a", to="otf2").fix
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("most", [0, 100, 3000])
def test_a_file_that_cannot_grow_leaves_no_archive(
    tmp_path: Path, most: int, capfd: pytest.CaptureFixture[str]
) -> None:
    run, before = run_of(SAMPLE), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        error = refused("R001", archived, run, tmp_path / "out", "otf2")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert error.found == os.strerror(errno.EFBIG)
    assert not list(tmp_path.iterdir()) and capfd.readouterr().err == "", (
        "the library prints nothing of its own"
    )


def test_an_error_that_the_library_only_prints_is_one(tmp_path: Path) -> None:
    """Closing a file on a full disk returns success: the anchor file was empty, and the command
    said that all was well.
    """
    with pytest.raises(FileNotFoundError), archive_of._refusals(_otf2), suppress(_otf2.Error):
        _otf2.Reader_Open(str(tmp_path / "none.otf2"))
    with pytest.raises(ZeroDivisionError), archive_of._refusals(_otf2):
        print(1 / 0)
