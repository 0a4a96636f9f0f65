"""The apparatus of validation/distance without OpenCL: the plan, the journal, the reading of a run, and predictions by class of calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DISTANCE = ROOT / "validation" / "distance"
EXAMPLES = ROOT / "src" / "turnbuckle" / "examples"
sys.path.insert(0, str(DISTANCE))

import compare  # type: ignore[import-not-found]  # noqa: E402
import measure  # type: ignore[import-not-found]  # noqa: E402
from points import Journal, Point, Setting, plan, settings  # type: ignore[import-not-found]  # noqa: E402


def test_every_point_is_planned_once_a_repeat_and_each_repeat_begins_elsewhere():
    chosen = settings([30_000, 1_000_000], [100_000], ["launch", "copy"])
    points = list(plan(["a", "b"], chosen, 3))
    assert len({p.key() for p in points}) == len(points) == 2 * 3 * len(chosen)
    assert len(chosen) == 2 + 2 + 4 + 1
    per_repeat = [[p for p in points if p.repeat == k] for k in range(3)]
    assert points == [p for part in per_repeat for p in part]
    assert len({part[0].setting for part in per_repeat}) == 3
    assert {p.setting.classes for p in points} == {"all", "launch", "copy", "all-launch", "all-copy"}


def test_classes_of_a_point_are_the_recorders():
    assert set(compare.chosen("all")) == {"launch", "copy", "memset", "sync", "alloc", "event"}
    assert set(compare.chosen("all-copy")) == {"launch", "memset", "sync", "alloc", "event"}
    assert compare.chosen("copy,sync") == ("copy", "sync")


def test_a_journal_goes_on_where_it_was_cut_off(tmp_path):
    first, second = Point("a", Setting(0), 0), Point("a", Setting(1000, "copy"), 0)
    journal = Journal(tmp_path / "journal.jsonl")
    journal.add(first, {"seconds": 1.0})
    journal.add(second, {"seconds": 2.0})
    text = journal.path.read_text()
    journal.path.write_text(text[:-9])
    again = Journal(journal.path)
    assert first.key() in again.entries
    assert second.key() not in again.entries
    again.add(second, {"seconds": 3.0})
    assert [e["seconds"] for e in Journal(journal.path).of("a", second.setting)] == [3.0]
    assert again.settings() == [first.setting, second.setting]


def test_runs_that_failed_or_were_left_out_are_no_numbers(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.add(Point("a", Setting(0), 0), {"failed": "exit code 1"})
    journal.add(Point("a", Setting(0), 1), {"seconds": 2.0})
    assert [e["seconds"] for e in journal.of("a", Setting(0))] == [2.0]


def test_points_without_such_calls_or_too_long_are_left_out():
    base = {"process_s": 1.0, "calls": {"launch": 1000, "sync": 1000}}
    assert measure.left_out(Setting(1_000_000, "copy"), base, 6) == "no such calls"
    assert measure.left_out(Setting(1_000_000, "all-copy"), base, 6) == "no such calls"
    assert measure.left_out(Setting(1_000_000), base, 6) == ""
    assert measure.left_out(Setting(3_000_000), base, 6) == "about 7 s"
    assert measure.left_out(Setting(0), base, 0.1) == ""


TRACE = """#turnbuckle-trace 1
#name 0 clCreateBuffer
#name 1 clEnqueueNDRangeKernel
#name 2 clFinish
kind,start,end,corr,tid,name
A,1000,1100,1,7,0
A,2000,2100,2,7,1
K,2200,2900,2,,9
A,2100,3000,3,7,2
L,3000,4000,3,7,
"""


def test_a_run_is_timed_from_its_first_launch_or_by_its_loop(tmp_path):
    path = tmp_path / "a.trace.csv"
    path.write_text(TRACE)
    whole = measure.timed(path, [])
    assert whole["window_ns"] == [1000, 2000]
    assert (whole["seconds"], whole["whole_s"]) == (1e-6, 2e-6)
    assert whole["calls"] == {"launch": 1, "sync": 1}
    assert whole["delayed"] == 1
    loop = measure.timed(path, [2050, 4000])
    assert loop["window_ns"] == [1050, 3000]
    assert loop["calls"] == {"sync": 1}


def test_a_crossing_lies_on_the_line_between_two_points():
    points = [(10_000, 1.0), (30_000, 1.1), (100_000, 1.45)]
    assert compare.crossing(1.0, points, 0.05) == pytest.approx(20_000)
    assert compare.crossing(1.0, points, 0.10) == pytest.approx(30_000)
    assert compare.crossing(1.0, points, 0.5) is None


@pytest.mark.parametrize("name", ["jacobi-opencl-pocl.trace.csv"])
def test_the_timeline_of_all_calls_is_what_the_command_says(name):
    window = [30_000_000, 64_000_000]
    command = [sys.executable, "-c", "from turnbuckle.cli import main; main()", "slack", str(EXAMPLES / name)]
    options = ["--mode", "api", "--window", "30000000ns:64000000ns", "--draws", "0", "--format", "json", "--no-cache"]
    ran = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    curve = [point for point in json.loads(ran.stdout)["curve"] if 1e-6 < point["slack_s"] < 2e-3]
    answer = compare.seen(EXAMPLES, name, window)
    delays = [point["slack_s"] * 1e9 for point in curve]
    assert len(curve) > 3
    assert compare.run_times(answer, "all", delays, "timeline") == pytest.approx([point["seconds"] for point in curve], rel=1e-9)
    assert compare.run_times(answer, "launch", delays, "timeline")[-1] < curve[-1]["seconds"]
