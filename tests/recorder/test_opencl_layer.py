"""The OpenCL layer on a real OpenCL runtime (PoCL): a program that counts its own requests,
recorded, and read back.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from recorder_bench import draws, missing
from refusals import refused

from turnbuckle.foundation.errors import NativeError
from turnbuckle.machine import Pair
from turnbuckle.profile.dependencies.dependencies import dependencies
from turnbuckle.profile.dependencies.graph import EDGES
from turnbuckle.profile.profile import Profile, build
from turnbuckle.profile.source import observed_machine
from turnbuckle.projection.model import nething
from turnbuckle.projection.project import project
from turnbuckle.questions.order.question import order
from turnbuckle.recorder import opencl_layer
from turnbuckle.recorder.command import record
from turnbuckle.trace.readers.recorded import reader as recorded
from turnbuckle.trace.trace import Trace

SOURCE = Path(__file__).with_name("opencl_requests.c")
LIMIT_SECONDS = 300
NOTHING: Mapping[str, str] = {}


@dataclass
class Rig:
    """The program, the layer, and a folder."""

    program: Path
    layer: Path
    folder: Path

    def run(
        self, *arguments: str, file: str = "", expect: int = 0, given: Mapping[str, str] = NOTHING
    ) -> list[str]:
        """Lines the program prints; with `file` recorded into it."""
        known = {k: v for k, v in os.environ.items() if not k.startswith(("TB_", "OPENCL_"))}
        extra = opencl_layer.environment(self.layer, {}) if file or given else {}
        if file:
            extra["TB_TRACE"] = str(self.folder / file)
        environment = {**known, "POCL_CACHE_DIR": str(self.folder / "kernels"), **extra, **given}
        done = subprocess.run(
            [self.program, *arguments],
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            env=environment,
            check=False,
        )
        assert done.returncode == expect, done.stderr
        self.said = done.stderr
        return done.stdout.splitlines()


@dataclass
class Recording:
    """What the program printed and what the layer wrote."""

    plain: list[str]
    printed: list[str]
    path: Path

    @cached_property
    def truth(self) -> dict[str, int]:
        return {
            word: int(number)
            for word, number in (
                line.split() for line in self.printed if not line.startswith("sees")
            )
        }

    @cached_property
    def lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").splitlines()

    @cached_property
    def rows(self) -> list[dict[str, str]]:
        return list(
            csv.DictReader(
                io.StringIO("\n".join(line for line in self.lines if not line.startswith("#")))
            )
        )

    @cached_property
    def names(self) -> dict[str, str]:
        return {
            number: text
            for _, number, text in (
                line.split(" ", 2) for line in self.lines if line.startswith("#name ")
            )
        }

    def of(self, *kinds: str) -> list[dict[str, str]]:
        return [row for row in self.rows if row["kind"] in kinds]

    def fact(self, word: str) -> list[str]:
        return [
            line.removeprefix(f"#{word} ") for line in self.lines if line.startswith(f"#{word} ")
        ]

    @cached_property
    def trace(self) -> Trace:
        return recorded.read(self.path)

    @cached_property
    def profile(self) -> Profile:
        return build(self.trace)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """The layer and the program, built with warnings as errors."""
    if not shutil.which("gcc"):
        missing("gcc")
    folder = tmp_path_factory.mktemp("opencl")
    program = folder / "requests"
    done = subprocess.run(
        [
            "gcc",
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            SOURCE,
            "-o",
            program,
            "-lOpenCL",
            "-pthread",
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    if done.returncode and ("CL/cl.h" in done.stderr or "-lOpenCL" in done.stderr):
        missing("OpenCL's headers and loader")
    assert done.returncode == 0, done.stderr
    if not any(Path("/etc/OpenCL/vendors").glob("*.icd")):
        missing("an OpenCL runtime (PoCL)")
    layer = folder / opencl_layer.LIBRARY
    opencl_layer.build(layer)
    return Rig(program, layer, folder)


@pytest.fixture(scope="module")
def recording(rig: Rig) -> Recording:
    plain = rig.run()
    return Recording(plain, rig.run(file="whole.csv"), rig.folder / "whole.csv")


def test_the_program_sees_no_difference(recording: Recording) -> None:
    """Results, errors, reference counts, properties of queues, profiles it did not ask for, and
    that its memory goes away.
    """
    assert recording.printed == recording.plain
    assert "sees queue 0 properties 0 array 0 0" in recording.printed
    # CL_PROFILING_INFO_NOT_AVAILABLE, but for the queue that asked
    assert "sees profile -7 0" in recording.printed
    assert "sees wrong 0" in recording.printed


def test_counts_and_bytes_are_the_programs_own(recording: Recording) -> None:
    trace, truth = recording.trace, recording.truth
    kernels = dict(trace.text(trace.kernels).value_counts().iter_rows())
    assert kernels == {
        "scale": truth["scale"],
        "add": truth["add"],
        "fixed": truth["fixed"],
        "native kernel": truth["native"],
    }
    for code, word in ((1, "h2d"), (2, "d2h"), (3, "d2d")):
        copies = trace.copies.filter(pl.col("direction") == code)
        assert (copies.height, copies["size_bytes"].sum()) == (
            truth[word],
            truth[f"{word}_bytes"],
        ), word
    assert (trace.memsets.height, trace.memsets["size_bytes"].sum()) == (
        truth["fills"],
        truth["fill_bytes"],
    )
    # a buffer filled when made, a user event
    assert {f.code: f.count for f in trace.findings} == {
        "P195": truth["mapped"],
        "P196": 2,
    }


def test_nothing_is_left_over(recording: Recording) -> None:
    for word in ("untimed", "dropped", "lost"):
        assert recording.fact(word) == ["0"], word
    assert recording.lines[-1] == "#end"
    assert recording.fact("unseen") == ["events that the host sets itself: what waits for them"]
    assert recording.fact("rows") == [str(len(recording.rows))]
    made, gone = ([r["address"] for r in recording.of("M") if r["what"] == what] for what in "12")
    assert sorted(made) == sorted(gone) and len(set(made)) == len(made)


def test_work_sizes(recording: Recording) -> None:
    names = recording.names
    sizes = {(names[r["name"]], r["blocks"], r["threads"], r["what"]) for r in recording.of("K")}
    told = {
        ("scale", "1024", "64", "65536"),
        ("fixed", "8", "32", "256"),
        ("native kernel", "1", "1", "1"),
    }
    assert sizes == {*told, ("add", "", "", "65536")}, "the runtime chose the groups of one of them"


def test_times_are_in_order(recording: Recording) -> None:
    """Called, queued, submitted, begun, ended, waited for: on one clock, within what the layer says
    of the device's.
    """
    calls = {r["corr"]: r for r in recording.of("A")}
    commands = {r["corr"]: r for r in recording.of("K", "C", "S")}
    assert len(commands) == len(recording.of("K", "C", "S"))
    off = max(int(line.split()[3]) for line in recording.fact("deviceclock"))
    for corr, row in commands.items():
        begin, end = int(calls[corr]["start"]), int(calls[corr]["end"])
        queued, submitted, start, stop = (
            int(row[k]) for k in ("queued", "submitted", "start", "end")
        )
        assert queued <= submitted <= start <= stop
        assert begin - off <= queued <= end + off
        if recording.names[calls[corr]["name"]].endswith("(blocking)"):
            assert stop <= end + off
    finishes = [
        (int(r["stream"]), int(r["start"]), int(r["end"]))
        for r in recording.of("Y")
        if r["what"] == "3"
    ]
    for stream, begin, end in finishes:
        before = [
            r
            for c, r in commands.items()
            if r["stream"] == str(stream) and int(calls[c]["end"]) < begin
        ]
        assert all(int(r["end"]) <= end + off for r in before)
    assert len(finishes) == 6
    assert recording.fact("clockcheck")[0].split()[1:3] == [str(len(commands)), "0"]


def test_streams_hold_what_has_an_order(recording: Recording) -> None:
    """Ordered queues are one stream each; of the unordered one, each of four chains is one; behind
    a barrier they are free again.
    """
    queues = [line.split() for line in recording.fact("queue")]
    assert [q[2] for q in queues].count("in_order") == 2
    loose = {q[0] for q in queues if q[2] == "out_of_order"}
    assert len(loose) == 4 and {q[1] for q in queues if q[0] in loose} == {min(loose, key=int)}
    by_stream: dict[str, list[tuple[int, int]]] = {}
    for row in recording.of("K", "C", "S"):
        by_stream.setdefault(row["stream"], []).append((int(row["start"]), int(row["end"])))
    assert len(by_stream) == 6
    for times in by_stream.values():
        times.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(times))


def test_devices_and_clocks_are_told(recording: Recording) -> None:
    device = recording.trace.devices.row(0, named=True)
    assert device["name"] and device["multiprocessors"] >= 1 and device["memory_bytes"] > 1 << 20
    assert all(
        int(line.split()[3]) >= 0 and line.split()[4] in ("timer", "commands")
        for line in recording.fact("deviceclock")
    )


def named_edges(recording: Recording, kind: str) -> list[tuple[str, str]]:
    """Edges of a kind between the ends and begins of device work, by the correlation numbers of
    their calls.
    """
    graph = dependencies(recording.profile)
    rows = recording.profile.activities
    trace = recording.profile.trace
    tables: dict[str, Any] = {"kernel": trace.kernels, "memset": trace.memsets}
    out = []
    for source, target in zip(
        graph.source[graph.kind == EDGES.index(kind)],
        graph.target[graph.kind == EDGES.index(kind)],
        strict=True,
    ):
        ends = [rows.row(int(graph.activity[(i - 1) // 2]), named=True) for i in (source, target)]
        before, after = (
            str(tables.get(e["kind"], trace.copies)["correlation"][e["row"]]) for e in ends
        )
        out.append((before, after))
    return out


def test_events_and_barriers_are_dependencies(recording: Recording) -> None:
    # In the order of the calls: an unordered queue ends its kernels, and so records them, in any
    # order.
    rows = sorted(recording.of("K"), key=lambda r: int(r["corr"]))
    ran = {
        word: [r["corr"] for r in rows if recording.names[r["name"]] == word]
        for word in ("scale", "add")
    }
    reads = [r["corr"] for r in recording.of("C") if r["what"] == "2"]
    edges = named_edges(recording, "event")
    assert (ran["scale"][6], ran["add"][0]) in edges, "the other queue waits for the last of seven"
    assert (ran["add"][0], reads[0]) in edges, "and the first queue for it"
    *chains, last = ran["scale"][7:]
    assert len(chains) == 4
    own = set(named_edges(recording, "stream"))
    assert all((one, last) in edges or (one, last) in own for one in chains), (
        "behind a barrier is behind everything"
    )
    others = [(a, b) for a in chains for b in chains if a != b]
    assert not set(others) & {*edges, *own}, (
        "chains of an unordered queue do not wait for each other"
    )
    waits = [r for r in recording.of("Y") if r["what"] == "2"]
    called = {recording.names[r["name"]]: r["corr"] for r in recording.of("A")}
    marked = [r["event"] for r in waits if r["corr"] == called["clEnqueueMarkerWithWaitList"]]
    assert marked == [*chains, called["clEnqueueBarrierWithWaitList"]]


def test_calls_are_what_they_do(recording: Recording) -> None:
    calls = recording.profile.activities.filter(pl.col("category") == "api").with_columns(
        call=recording.trace.names.gather(
            recording.profile.activities.filter(pl.col("category") == "api")["name"]
        )
    )
    kinds = {
        call: (kind, word)
        for call, kind, word in calls.select("call", "kind", "call_class").unique().iter_rows()
    }
    assert kinds["clEnqueueNDRangeKernel"] == ("launch", "launch")
    assert kinds["clEnqueueReadBuffer (blocking)"] == ("sync", "copy")
    assert kinds["clEnqueueWriteBuffer"] == ("api", "copy")
    assert kinds["clFinish"] == ("sync", "sync") and kinds["clWaitForEvents"] == ("sync", "sync")
    assert kinds["clEnqueueFillBuffer"][1] == "memset" and kinds["clReleaseMemObject"][1] == "alloc"
    assert (
        kinds["clBuildProgram"][1] == "module"
        and kinds["clEnqueueBarrierWithWaitList"][1] == "event"
    )


def test_the_run_onto_its_own_machine_is_the_run(recording: Recording) -> None:
    profile = recording.profile
    source = observed_machine(profile)[0]
    found = project(profile, Pair(source, source), nething())
    assert found.seconds == found.measured_seconds == profile.run_time_ns * 1e-9
    assert found.breakdown == found.measured_breakdown


@pytest.mark.parametrize("way", ["fails", "never"])
def test_commands_that_never_run_are_said(rig: Rig, way: str) -> None:
    """One that waits for an event that fails, and one that is still waiting at the end."""
    assert rig.run(way, file=f"{way}.csv") == rig.run(way)
    trace = recorded.read(rig.folder / f"{way}.csv")
    assert not trace.memsets.height
    text = (rig.folder / f"{way}.csv").read_text(encoding="utf-8")
    assert (
        "#unseen 1 commands that ended with an error" in text
        or "#unseen 1 commands that were not finished" in text
    )
    assert next(f.count for f in trace.findings if f.code == "P196") == 2


def test_without_room_commands_are_dropped_and_counted(rig: Rig, recording: Recording) -> None:
    assert rig.run(file="small.csv", given={"TB_MEMORY_MB": "0"}) == recording.plain
    trace = recorded.read(rig.folder / "small.csv")
    whole = recording.trace
    enqueued = sum(text.startswith("clEnqueue") for text in whole.text(whole.api).to_list())
    assert not trace.kernels.height and not trace.copies.height
    assert next(f.count for f in trace.findings if f.code == "P192") == enqueued


@pytest.mark.parametrize("where", ["before", "after"])
def test_delays_go_to_the_calls_named(rig: Rig, recording: Recording, where: str) -> None:
    printed = rig.run(
        file=f"{where}.csv",
        given={"TB_SLACK_NS": "20000", "TB_SLACK_CLASSES": "launch,sync", "TB_SLACK_WHERE": where},
    )
    assert printed == recording.plain
    delayed = Recording([], printed, rig.folder / f"{where}.csv")
    calls = {r["corr"]: r for r in delayed.of("A")}
    asked = [
        c
        for c, r in calls.items()
        if delayed.names[r["name"]].startswith(
            ("clEnqueueNDRange", "clEnqueueNative", "clFinish", "clWaitFor")
        )
    ]
    delays = {r["corr"]: r for r in delayed.of("L")}
    assert sorted(delays) == sorted(asked)
    for corr, row in delays.items():
        assert int(row["end"]) - int(row["start"]) >= 20000
        outside = (
            int(row["end"]) <= int(calls[corr]["start"])
            if where == "before"
            else int(row["start"]) >= int(calls[corr]["end"])
        )
        assert outside
    slack = recorded.read(delayed.path).facts["slack"]
    assert slack["delay_ns"] == 20000 and slack["calls launch"] + slack["calls sync"] == len(asked)


def test_delays_without_a_recording(rig: Rig, recording: Recording) -> None:
    assert rig.run(given={"TB_SLACK_NS": "1000"}) == recording.plain


def test_nothing_asked_for_does_nothing(rig: Rig, recording: Recording) -> None:
    before = sorted(rig.folder.iterdir())
    assert rig.run(given={"TB_TRACE": ""}) == recording.plain
    assert sorted(rig.folder.iterdir()) == before and rig.said == ""


@pytest.mark.parametrize(
    "variables",
    [
        {"TB_SLACK_NS": "1us"},
        {"TB_SLACK_NS": "-1"},
        {"TB_SLACK_NS": str(2**63 - 1)},
        {"TB_SLACK_CLASSES": "launch,lunch"},
        {"TB_SLACK_WHERE": "during"},
        {"TB_FLUSH_MS": "often"},
        {"TB_LINK_BANDWIDTH": "2GB"},
        {"TB_JITTER_TO_NS": "-3"},
        {"TB_JITTER_FROM_NS": "2", "TB_JITTER_TO_NS": "1"},
        {"TB_JITTER_SEED": str(2**53 + 1), "TB_JITTER_TO_NS": "1"},
    ],
    ids=str,
)
def test_wrong_settings_are_refused_and_the_program_runs(
    rig: Rig, recording: Recording, variables: dict[str, str]
) -> None:
    assert rig.run(file="refused.%p.csv", given=variables) == recording.plain
    assert f"neither recorded nor delayed: {next(iter(variables))}" in rig.said
    files = list(rig.folder.glob("refused.*.csv"))
    assert len(files) == 1 and "#refused TB_" in files[0].read_text(encoding="utf-8")
    files[0].unlink()


def test_a_file_that_cannot_be_opened_is_said(rig: Rig, recording: Recording) -> None:
    assert rig.run(file="nowhere/x.csv") == recording.plain
    assert "neither recorded nor delayed" in rig.said


# --- random delays, and a slower link -------------------------------------------------------------


def test_random_delays_repeat_by_their_seed(rig: Rig, recording: Recording) -> None:
    """The main thread is the first delayed: its delays are the sequence of the seed, on top of the
    fixed one, each call its own.
    """
    given = {"TB_JITTER_FROM_NS": "1000", "TB_JITTER_TO_NS": "90000", "TB_JITTER_SEED": "7"}
    given |= {"TB_SLACK_NS": "500", "TB_SLACK_CLASSES": "launch"}
    assert rig.run(file="jitter.csv", given=given) == recording.plain
    path = rig.folder / "jitter.csv"
    rows = Recording([], [], path).of("L")
    expected = draws(7, 0, 1000, 90000, len(rows))
    assert (
        len(rows) == sum(recording.truth[word] for word in ("scale", "add", "fixed", "native")) > 10
    )
    waited = [int(row["end"]) - int(row["start"]) for row in rows]
    assert all(length >= 500 + drawn for length, drawn in zip(waited, expected, strict=True)), (
        "of one thread, in the order of its calls"
    )
    slack = recorded.read(path).facts["slack"]
    assert {k: v for k, v in slack.items() if k.startswith("jitter")} == {
        "jitter_from_ns": 1000,
        "jitter_to_ns": 90000,
        "jitter_seed": 7,
        "jitter_ns": sum(expected),
    }
    assert "500 ns and 1,000 to 90,000 ns at random (seed 7) after calls" in next(
        f.detail for f in recorded.read(path).findings if f.code == "P193"
    )


@pytest.fixture(scope="module")
def copies(rig: Rig) -> Rig:
    """The program of copies for a slower link, beside the same layer."""
    made = rig.folder / "slower"
    source = SOURCE.with_name("opencl_slower_link.c")
    words = [
        "gcc",
        "-std=gnu11",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        source,
        "-o",
        made,
        "-lOpenCL",
    ]
    subprocess.run(words, check=True, timeout=LIMIT_SECONDS)
    return Rig(made, rig.layer, rig.folder)


SLOW_BYTES, SLOW_RATE = 4 << 20, 50_000_000


@pytest.fixture(scope="module")
def slowed(copies: Rig) -> Recording:
    plain = copies.run(str(SLOW_BYTES))
    given = {"TB_LINK_BANDWIDTH": str(SLOW_RATE)}
    return Recording(
        plain,
        copies.run(str(SLOW_BYTES), file="slower.csv", given=given),
        copies.folder / "slower.csv",
    )


def seen(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("sees")]


def test_a_slower_link_changes_nothing_but_time(slowed: Recording) -> None:
    """Results, kinds, states and errors of events, callbacks; that the program ends says that its
    copies did not hold up the host.
    """
    assert (
        seen(slowed.printed) == seen(slowed.plain) and "sees callbacks 1 status 0" in slowed.printed
    )
    assert "sees mapped 5 5" in slowed.printed and any(
        line.startswith("sees failed status -") for line in slowed.printed
    )


def test_profiles_are_the_copies_own(slowed: Recording) -> None:
    took = [int(line.split()[2]) for line in slowed.printed if line.startswith("took ")]
    lengths = {int(row["end"]) - int(row["start"]) for row in slowed.of("C")}
    assert len(took) == 4 and set(took) <= lengths


def needed(bytes_: int) -> int:
    return -(-bytes_ * 1_000_000_000 // SLOW_RATE)


def test_what_waits_for_a_copy_waits_for_its_later_end(slowed: Recording) -> None:
    """By the recording's own clock, and by what it says of the device's: a blocking call, a queue,
    an event in another queue.
    """
    off = max(int(line.split()[3]) for line in slowed.fact("deviceclock"))
    calls = {row["corr"]: row for row in slowed.of("A")}
    kernels = {slowed.names[row["name"]]: int(row["start"]) for row in slowed.of("K")}
    rows = sorted(slowed.of("C"), key=lambda row: int(row["corr"]))
    first, *_ = rows
    earliest = int(first["start"]) + needed(SLOW_BYTES) - off
    assert kernels["ordered"] >= earliest and kernels["other"] >= earliest
    blocking = [
        row for row in rows if slowed.names[calls[row["corr"]]["name"]].endswith("(blocking)")
    ]
    assert len(blocking) == 3
    for row in blocking:
        call = calls[row["corr"]]
        assert int(call["end"]) - int(call["start"]) >= needed(SLOW_BYTES) - off
    assert int(calls[first["corr"]]["end"]) < int(first["start"]) + off, (
        "the call was over before its copy began"
    )
    waits = [row for row in slowed.of("Y") if row["what"] == "1" and row["event"] == first["corr"]]
    assert waits and all(int(row["end"]) >= earliest for row in waits)


def test_what_was_limited_is_told(slowed: Recording) -> None:
    trace = slowed.trace
    link = trace.facts["link"]
    assert (link["bandwidth"], link["missed"], link["copies h2d"], link["copies d2h"]) == (
        SLOW_RATE,
        0,
        3,
        4,
    )
    for way, code in (("h2d", 1), ("d2h", 2)):
        copies = trace.copies.filter(pl.col("direction") == code)
        assert link[f"bytes {way}"] == copies["size_bytes"].sum() == SLOW_BYTES * copies.height
        lengths = (copies["end_ns"] - copies["start_ns"]).to_list()
        missing = [max(0, needed(SLOW_BYTES) - length) for length in lengths]
        assert link[f"missing_ns {way}"] == sum(missing) and link[f"waited_ns {way}"] >= sum(
            missing
        )
    (told,) = (f for f in trace.findings if f.code == "P211")
    assert told.count == 7 and told.detail.startswith("50,000,000 B/s: h2d 3 of 12,582,912 B held ")


def test_a_program_of_every_kind_of_copy_over_a_slower_link(rig: Rig, recording: Recording) -> None:
    """Rectangles, images, shared memory, mappings, threads; together with delays.  What no call's
    bytes are is not limited.
    """
    given = {"TB_LINK_BANDWIDTH": "10000000", "TB_SLACK_NS": "2000", "TB_SLACK_WHERE": "before"}
    assert rig.run(file="all.csv", given=given) == recording.plain
    link, truth = recorded.read(rig.folder / "all.csv").facts["link"], recording.truth
    for way in ("h2d", "d2h"):
        assert (link[f"copies {way}"], link[f"bytes {way}"]) == (truth[way], truth[f"{way}_bytes"])


def test_a_link_faster_than_the_copies_holds_none(copies: Rig) -> None:
    plain = copies.run("4096")
    assert seen(
        copies.run("4096", file="fast.csv", given={"TB_LINK_BANDWIDTH": str(10**15)})
    ) == seen(plain)
    link = recorded.read(copies.folder / "fast.csv").facts["link"]
    blocking = {"copies h2d": 1, "bytes h2d": 4096, "copies d2h": 2, "bytes d2h": 8192}
    zero = {f"{word} {way}": 0 for way in ("h2d", "d2h") for word in ("missing_ns", "waited_ns")}
    assert link == {"bandwidth": 10**15, **blocking, **zero, "missed": 6}, (
        "a gate costs more than what the others could lack"
    )


def test_a_slower_link_does_not_wait_for_a_copy_that_never_begins(copies: Rig) -> None:
    assert (
        copies.run("4096", "never", file="begins-never.csv", given={"TB_LINK_BANDWIDTH": "1000000"})
        == []
    )
    trace = recorded.read(copies.folder / "begins-never.csv")
    assert trace.facts["link"] == {"bandwidth": 1_000_000, "missed": 0} and trace.copies.is_empty()


def test_a_slower_link_without_a_recording_is_refused(rig: Rig, recording: Recording) -> None:
    assert rig.run(given={"TB_LINK_BANDWIDTH": "1000000"}) == recording.plain
    assert "neither recorded nor delayed: TB_LINK_BANDWIDTH needs a recording" in rig.said


# --- the verb -------------------------------------------------------------------------------------


@pytest.fixture
def here(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder; the layer has been built before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POCL_CACHE_DIR", str(rig.folder / "kernels"))
    for name in [n for n in os.environ if n.startswith(("TB_", "OPENCL_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(
        opencl_layer, "cached", lambda cache, headers: nullcontext((rig.layer, False))
    )
    return tmp_path


def test_recording_is_one_command(
    rig: Rig, here: Path, recording: Recording, capfd: pytest.CaptureFixture[str]
) -> None:
    assert record(str(rig.program), opencl=True) == 0
    printed, said = capfd.readouterr()
    assert printed.splitlines() == recording.plain
    assert "recorded   requests.turnbuckle" in said and "P196" in said
    assert "events that the host sets itself" in said and "CUPTI" not in said
    trace = Trace.from_parquet(here / "requests.turnbuckle")
    assert (
        trace.copies.height == recording.trace.copies.height
        and trace.syncs.height == recording.trace.syncs.height
    )


def test_a_program_that_dies_leaves_what_it_did_and_its_end_and_delays_are_passed_on(
    rig: Rig, here: Path, recording: Recording
) -> None:
    assert (
        record(
            str(rig.program),
            "crash",
            opencl=True,
            slack="5us",
            slack_class=["launch"],
            flush="20ms",
        )
        == 128 + signal.SIGABRT
    )
    trace = Trace.from_parquet(here / "requests.turnbuckle")
    assert {f.code: f.count for f in trace.findings}.items() >= {
        "P191": 1,
        "P193": trace.kernels.height,
    }.items()
    assert trace.copies.height == recording.trace.copies.height
    assert trace.overheads.height == trace.kernels.height == recording.trace.kernels.height


def test_a_slower_link_and_random_delays_are_options(
    copies: Rig, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Three runs that are disturbed differently, over a slower link; and what they say of the
    program's kernels.
    """
    for seed in (1, 2, 3):
        place = here / f"run{seed}"
        words = (str(copies.program), str(1 << 20))
        assert (
            record(
                *words,
                opencl=True,
                output=place,
                jitter="0us..300us",
                seed=seed,
                link_bandwidth="50MB/s",
            )
            == 0
        )
        said = capfd.readouterr().err
        assert (
            f"0 s to 300 us at random (seed {seed})" in said
            and "slower     link of 50,000,000 B/s: h2d 3 of 3,145,728 B held" in said
        )
    traces = [Trace.from_parquet(here / f"run{seed}") for seed in (1, 2, 3)]
    assert {f.code for f in traces[0].findings} >= {"P193", "P211"}
    assert [trace.facts["slack"]["jitter_seed"] for trace in traces] == [1, 2, 3]
    assert {trace.facts["link"]["bandwidth"] for trace in traces} == {50_000_000}
    about = order([build(trace) for trace in traces]).as_dict()
    assert about["kernels"] == 3 and len(about["kernel_streams"]) == 3 and about["words"]
    named = {(pair["first"], pair["then"]) for pair in about["at_once"]}
    assert (
        not {("loose", "other"), ("other", "loose"), ("loose", "ordered"), ("ordered", "loose")}
        & named
    ), "a finish lies between"


def test_a_program_without_opencl_is_said(here: Path) -> None:
    true = shutil.which("true")
    assert true
    with pytest.raises(NativeError, match="N019") as caught:
        record(true, opencl=True)
    assert (
        "ended with 0" in caught.value.found
        and "older than layers" in caught.value.cause
        and not list(here.iterdir())
    )


@pytest.mark.parametrize(
    "option",
    [{"kinds": ["api"]}, {"graphs": "whole"}, {"unified_memory": True}, {"build": True}],
    ids=str,
)
def test_options_of_cupti_are_refused(here: Path, option: dict[str, Any]) -> None:
    refused("N011", record, "true", opencl=True, **option)


# --- building -------------------------------------------------------------------------------------


def test_layers_of_the_user_stay() -> None:
    assert opencl_layer.environment(Path("a.so"), {}) == {"OPENCL_LAYERS": "a.so"}
    assert opencl_layer.environment(Path("a.so"), {"OPENCL_LAYERS": "b.so:c.so"}) == {
        "OPENCL_LAYERS": "a.so:b.so:c.so"
    }


def test_a_library_is_built_once(rig: Rig) -> None:
    for fresh in (True, False):
        with opencl_layer.cached(rig.folder / "cache") as (layer, built):
            assert built is fresh and layer.is_file() and layer.stat().st_mode & 0o777 == 0o600
    assert len(list((rig.folder / "cache").rglob("*.so"))) == 1, (
        "what the program loads is a copy, and gone"
    )


def test_a_layer_is_not_loaded_from_a_folder_that_others_may_change(
    rig: Rig, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o770)
    with (
        pytest.raises(NativeError, match="N024") as caught,
        opencl_layer.cached(tmp_path / "cache"),
    ):
        pass
    assert (
        caught.value.found == "its group may change it"
        and list((tmp_path / "cache").iterdir()) == []
    )


def test_without_headers_there_is_no_layer(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc -nostdinc")
    with pytest.raises(NativeError, match="N016") as caught:
        opencl_layer.build(rig.folder / "none.so")
    assert "cl_layer.h" in caught.value.found


def test_headers_that_do_not_fit(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "CL").mkdir()
    (tmp_path / "CL" / "cl_layer.h").write_text("typedef int nothing;\n", encoding="utf-8")
    refused("N017", opencl_layer.build, rig.folder / "none.so", headers=tmp_path)
    assert not (rig.folder / "none.so").exists()


def test_a_folder_that_cannot_be_written(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    refused("N018", opencl_layer.build, tmp_path / "file" / "layer.so")
