"""From a record to a table: the converter against its own text, predictions against an exact model, and the whole against the stand-in."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from slack_scripts import FOLDER, compare, refusal, run, to_nsys

import turnbuckle as tb

GPU = {"gpu": "Stand-in", "multiprocessors": 4, "memory_bytes": 1 << 34, "compute_major": 9, "compute_minor": 0, "copy_engines": 2}
#: A synchronous loop: launch call, delivery, kernel, what a wait costs after its work, the host's own work between calls [ns].
LAUNCH, DELIVERY, KERNEL, WAIT, OWN = 3_000, 2_500, 20_000, 1_500, 100
TICK_SECONDS = 10e-9  # of the stand-in's clock: the look at the clock with which a delay begins


def loop_ns(slack_ns: int) -> int:
    """Time of one iteration of the synchronous loop when both its calls return `slack_ns` later."""
    waits_from = LAUNCH + slack_ns + OWN
    return max(waits_from, DELIVERY + KERNEL) + WAIT + slack_ns + OWN


def loop_record(iterations: int, begin: int = 10**12) -> list[str]:
    """The text of a record of the loop."""
    lines = [
        "# turnbuckle-slack 1",
        "# process 77",
        "N,0,cudaLaunchKernel_v7000",
        "N,1,cudaDeviceSynchronize_v3020",
        "N,2,kernel<a,b>(int)",
    ]
    lines += ["R,1,13,2", f"W,1,{begin}"]
    for i in range(iterations):
        t, c = begin + OWN + i * loop_ns(0), 10 + 2 * i
        end = t + DELIVERY + KERNEL
        lines += [f"A,{t},{t + LAUNCH},{c},5,0,0,0", f"K,{t + DELIVERY},{end},{c},0,1,13,2,64,1,1,128,1,1,24,0,0"]
        lines += [f"A,{t + LAUNCH + OWN},{end + WAIT},{c + 1},5,1,0,0"]
        lines += [f"Y,{t + LAUNCH + OWN},{end + WAIT},{c + 1},4,1,4294967295,4294967295,4294967295"]
    lines += [f"W,0,{begin + OWN + iterations * loop_ns(0)}", f"# end {1 + 4 * iterations} 0"]
    return lines


def written(folder: Path, record: Iterable[str], measured: Iterable[dict[str, Any]], name: str = "synchronous") -> Path:
    """A folder of results."""
    folder.mkdir(exist_ok=True)
    (folder / "machine.json").write_text(json.dumps(GPU), encoding="utf-8")
    (folder / f"{name}.record.csv.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in record).encode()))
    (folder / "measured.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in measured), encoding="utf-8")
    return folder


def exact_runs(iterations: int, slacks: Iterable[int]) -> list[dict[str, Any]]:
    """Raw lines of the loop, by its own formula."""
    base: dict[str, Any] = {"program": "synchronous", "work": 1, "iterations": iterations}
    # a run ends with its last call: the host's own work before the first is outside
    last = [(iterations * loop_ns(s) - OWN) * 1e-9 for s in slacks]
    lines = [
        {**base, "seconds": t, "library": True, "delay_ns": s, "delayed_calls": 2 * iterations} for s, t in zip(slacks, last, strict=True)
    ]
    return [{**base, "recorded": True, "seconds": last[0]}, *lines]


def test_an_exactly_modelled_loop_is_predicted_exactly(tmp_path: Path) -> None:
    slacks = (0, 1_000, 15_000, 19_400, 19_500, 100_000, 1_000_000)
    folder = written(tmp_path / "results", loop_record(50), exact_runs(50, slacks))
    points = compare.compared(folder)
    assert [p.delay_ns for p in points] == list(slacks)
    for p in points:
        assert abs(p.error("timeline")) < 1e-12, p
        assert p.calls == p.recorded_calls == 2
    # both calls' slack shows in the sum; the first one hides behind the kernel until the call takes longer than that
    by_slack = {p.delay_ns: p for p in points}
    assert by_slack[15_000].error("sum") > 0.2 and by_slack[0].error("sum") == pytest.approx(0, abs=1e-12)
    assert by_slack[15_000].added("timeline")[2] == pytest.approx(0, abs=1e-9) and by_slack[0].added("timeline")[2] is None
    assert compare.summary(points)[0]["timeline_most"] < 1e-12 and compare.summary(points)[0]["watching"] is None


@pytest.mark.parametrize("name", run.PROGRAMS)
def test_a_record_is_read_back_whole(record: Callable[..., Path], tmp_path: Path, name: str) -> None:
    text = record(name, 5_000, 30)
    lines = [line.split(",") for line in text.read_text(encoding="utf-8").splitlines()]
    (opened,), (closed,) = ([int(v[2]) for v in lines if v[0] == "W" and v[1] == flag] for flag in "10")
    calls = [v for v in lines if v[0] == "A" and opened <= int(v[1]) <= closed]
    inside = {v[3] for v in calls}
    counts = to_nsys.convert(text, tmp_path / "run.sqlite", GPU)
    trace = tb.read(tmp_path / "run.sqlite", use_cache=False)
    assert trace.api.select("start_ns", "end_ns").rows() == sorted((int(v[1]), int(v[2])) for v in calls)
    for letter, table, frame in (("K", "KERNEL", trace.kernels), ("C", "MEMCPY", trace.copies), ("Y", "SYNCHRONIZATION", trace.syncs)):
        expected = sorted((int(v[1]), int(v[2])) for v in lines if v[0] == letter and v[3] in inside)
        assert frame.select("start_ns", "end_ns").rows() == expected
        assert counts[f"CUPTI_ACTIVITY_KIND_{table}"] == len(expected)
    records = [v for v in lines if v[0] == "E" and v[1] in inside]
    assert Counter(trace.events["event"]) == Counter(int(v[5]) for v in records)
    assert sorted(trace.events["event_record"]) == sorted(int(v[6]) for v in records)
    assert trace.names.to_list().count("_Z5chainPfl") <= 1
    severe = [f for f in trace.findings if f.severity != "info"]
    assert severe == [], severe


def test_tables_hold_what_the_text_says(record: Callable[..., Path], tmp_path: Path) -> None:
    to_nsys.convert(record("overlapped", 5_000, 10), tmp_path / "run.sqlite", GPU)
    trace = tb.read(tmp_path / "run.sqlite", use_cache=False)
    assert trace.kernels.select("blocks", "threads", "registers", "stream").unique().rows() == [(64, 128, 24, 14)]
    assert sorted(trace.copies.select("size_bytes", "stream").unique().rows()) == [(1 << 20, 13), (1 << 20, 14)]
    assert set(trace.text(trace.api)) == {
        "cudaEventSynchronize", "cudaMemcpyAsync", "cudaEventRecord", "cudaStreamWaitEvent", "cudaLaunchKernel", "cudaStreamSynchronize"
    }  # fmt: skip
    assert Counter(trace.syncs["sync_type"]) == {1: 10, 2: 10, 3: 1}
    assert set(trace.streams.select("context", "stream", "kind").rows()) == {(1, 7, 3), (1, 13, 2), (1, 14, 2)}
    with closing(sqlite3.connect(tmp_path / "run.sqlite")) as database:
        assert set(database.execute("SELECT srcKind, dstKind, copyKind FROM CUPTI_ACTIVITY_KIND_MEMCPY")) == {(1, 2, 1), (2, 1, 2)}
        assert database.execute("SELECT name, smCount FROM TARGET_INFO_GPU").fetchall() == [("Stand-in", 4)]


@pytest.mark.parametrize("replay", ["sum", "timeline"])
@pytest.mark.parametrize("name", run.PROGRAMS)
def test_a_record_projected_onto_itself_is_what_was_measured(record: Callable[..., Path], tmp_path: Path, name: str, replay: Any) -> None:
    to_nsys.convert(record(name, 5_000, 30), tmp_path / "run.sqlite")
    seen = tb.inspect(tmp_path / "run.sqlite", use_cache=False)
    (projection,) = tb.ask(seen, ["self"], model=replace(tb.nething("hold"), replay=replay), draws=0).projections
    assert projection.seconds == projection.measured_seconds == seen.profile.seconds


def test_the_whole_on_a_machine_that_stands_in(toolkit: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    paths = {"driver": toolkit / "libcupti.so", "nvcc": toolkit / "nvcc", "cupti": toolkit, "build": tmp_path / "build", "out": results}
    words = [f"--{name}={path}" for name, path in paths.items()]
    words += ["--seconds", "0.02", "--repeats", "2", "--delays", "0,2000,50000"]
    done = subprocess.run([sys.executable, str(FOLDER / "run.py"), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (results / "measured.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = Counter((line["program"], line.get("delay_ns"), line.get("recorded", False)) for line in lines)
    assert set(asked.values()) == {1, 2} and len(lines) == 4 * (1 + 2 * (1 + 3))
    assert "host" not in json.loads((results / "machine.json").read_text(encoding="utf-8"))
    done = subprocess.run([sys.executable, FOLDER / "compare.py", results], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (results / "predicted.md").read_text(encoding="utf-8") and "Stand-in  GPU" in done.stdout
    points = compare.compared(results)
    assert all(s["calls_agree"] and abs(s["watching"]) < 1e-9 for s in compare.summary(points))
    for p in points:
        # what lies before the first call and after the last is in the program's time, not in the record
        ticks = p.calls * TICK_SECONDS if p.delay_ns else 0.0
        exact = p.program != "overlapped"  # a pipeline's begin and end weigh by the number of iterations
        assert p.predicted["timeline"] == pytest.approx(p.measured - ticks, rel=0 if exact else 0.01, abs=3 * TICK_SECONDS), p
    hidden, shown = (p for p in points if p.program == "overlapped" and p.delay_ns)
    assert hidden.measured < 1.01 * hidden.base[0] < shown.measured
    with (results / "predicted.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 12 and {row["runs"] for row in table} == {"2"}


BAD_RECORDS: dict[str, Callable[[list[str]], list[str]]] = {
    "nothing": lambda lines: [],
    "cut off": lambda lines: lines[: len(lines) // 2],
    "a row short": lambda lines: [line for i, line in enumerate(lines) if i != 9],
    "rows lost": lambda lines: [*lines[:-1], lines[-1].replace(" 0", " 3")],
    "another letter": lambda lines: [*lines[:8], "Q,1,2", *lines[8:]],
    "too few numbers": lambda lines: [*lines[:8], "K,1,2", *lines[8:]],
    "no number": lambda lines: [*lines[:8], "R,1,2,three", *lines[8:]],
    "too large": lambda lines: [*lines[:8], f"R,1,2,{1 << 63}", *lines[8:]],
    "endless number": lambda lines: [*lines[:8], f"R,1,2,{'9' * 5000}", *lines[8:]],
    "no names": lambda lines: [line for line in lines if not line.startswith("N,1")],
    "window left open": lambda lines: [line for line in lines if not line.startswith("W,0")],
    "two windows": lambda lines: [*lines[:-1], "W,1,5", "W,0,6", lines[-1]],
    "another file": lambda lines: ["start,end", "1,2"],
}


@pytest.mark.parametrize("flaw", sorted(BAD_RECORDS))
def test_damaged_records_are_refused(tmp_path: Path, flaw: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{line}\n" for line in BAD_RECORDS[flaw](loop_record(3))), encoding="utf-8")
    with pytest.raises(refusal.Refusal, match="V004"):
        to_nsys.convert(path, tmp_path / "a.sqlite")
    assert not (tmp_path / "a.sqlite").exists()


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x08\x00cut", b"plain text", gzip.compress(b"\xff\xfe\x00")])
def test_files_that_are_no_record_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv.gz").write_bytes(content)
    with pytest.raises(refusal.Refusal, match="V004"):
        to_nsys.load(tmp_path / "a.csv.gz")


def test_a_name_may_hold_anything(tmp_path: Path) -> None:
    evil = "<script>,'; DROP TABLE x;--\x7f | ümlaut"
    lines = [f"N,2,{evil}" if line.startswith("N,2") else line for line in loop_record(3)]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    to_nsys.convert(tmp_path / "a.csv", tmp_path / "a.sqlite", {"gpu": evil})
    trace = tb.read(tmp_path / "a.sqlite", use_cache=False)
    assert set(trace.text(trace.kernels)) == {evil}


RUNS = exact_runs(5, (0, 1_000))
BAD_RESULTS: dict[str, Any] = {
    "empty": [],
    "no record": RUNS[1:],
    "record alone": RUNS[:1],
    "nothing without delay": [RUNS[0], RUNS[2]],
    "no time": [{**RUNS[0], "seconds": 0}, *RUNS[1:]],
    "no iterations": [RUNS[0], {**RUNS[1], "iterations": 0}],
    "words for numbers": [RUNS[0], {**RUNS[1], "seconds": "1"}],
    "a path for a name": [{**line, "program": "../synchronous"} for line in RUNS],
    "no such record": [{**line, "program": "launch"} for line in RUNS],
    "a list": [[1, 2]],
    "count missing": [RUNS[0], {k: v for k, v in RUNS[1].items() if k != "delayed_calls"}],
}


@pytest.mark.parametrize("flaw", sorted(BAD_RESULTS))
def test_results_that_do_not_hold_the_answer_are_refused(tmp_path: Path, flaw: str) -> None:
    with pytest.raises(refusal.Refusal, match="V005"):
        compare.compared(written(tmp_path / "results", loop_record(5), BAD_RESULTS[flaw]))


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, FOLDER / "compare.py", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("error[V005]") and "Traceback" not in done.stderr


def test_the_table_shows_scatter_and_calls_that_do_not_agree(tmp_path: Path) -> None:
    runs = exact_runs(50, (0, 1_000))
    runs += [{**runs[2], "seconds": runs[2]["seconds"] * 1.2, "delayed_calls": 150}, {**runs[1], "library": False, "seconds": 50 * 20e-6}]
    points = compare.compared(written(tmp_path / "results", loop_record(50), runs))
    assert (points[1].runs, points[1].calls) == (2, 3) and points[1].high == pytest.approx(1.2 * points[1].low)
    assert points[1].added("timeline")[2] is None, "it adds less than the two runs differ"
    text = compare.markdown(points, "a GPU")
    assert "**no**" in text and f"{loop_ns(0) / 20_000 - 1:+.1%}"[:4] in text
    assert len([line for line in text.splitlines() if line.startswith("| synchronous")]) == 1 + len(points)
