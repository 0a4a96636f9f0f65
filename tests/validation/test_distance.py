"""The apparatus of validation/distance without OpenCL: the plan, the journal, the reading of a run,
and predictions by class of calls.
"""

from __future__ import annotations

import json
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

from turnbuckle.cli import run as cli_run  # noqa: E402
from turnbuckle.questions.validate.measured import distance  # noqa: E402


def test_every_point_is_planned_once_a_repeat_and_each_repeat_begins_elsewhere():
    chosen = settings([30_000, 1_000_000], [100_000], ["launch", "copy"])
    points = list(plan(["a", "b"], chosen, 3))
    assert len({p.key() for p in points}) == len(points) == 2 * 3 * len(chosen)
    assert len(chosen) == 2 + 2 + 4 + 1 + 3 + 2
    assert {p.setting.slower for p in points} == {0, 2, 10, 100}
    per_repeat = [[p for p in points if p.repeat == k] for k in range(3)]
    assert points == [p for part in per_repeat for p in part]
    assert len({part[0].setting for part in per_repeat}) == 3
    assert {p.setting.classes for p in points} == {
        "all",
        "launch",
        "copy",
        "all-launch",
        "all-copy",
    }


def test_classes_of_a_point_are_the_recorders():
    assert set(distance.chosen("all")) == {"launch", "copy", "memset", "sync", "alloc", "event"}
    assert set(distance.chosen("all-copy")) == {"launch", "memset", "sync", "alloc", "event"}
    assert distance.chosen("copy,sync") == ("copy", "sync")


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
    base = {"process_s": 1.0, "calls": {"launch": 1000, "sync": 1000}, "copied_bytes": 0}
    copies = {"process_s": 1.0, "calls": {"launch": 1000, "copy": 10}, "copied_bytes": 10_000_000}
    rate = 1e9
    assert measure.left_out(Setting(1_000_000, "copy"), base, 6, rate) == "no such calls"
    assert measure.left_out(Setting(1_000_000, "all-copy"), base, 6, rate) == "no such calls"
    assert measure.left_out(Setting(1_000_000), base, 6, rate) == ""
    assert measure.left_out(Setting(3_000_000), base, 6, rate) == "about 7 s"
    assert measure.left_out(Setting(0), base, 0.1, rate) == ""
    assert measure.left_out(Setting(0, slower=100), base, 6, rate) == "no copies"
    assert measure.left_out(Setting(0, slower=100), copies, 6, rate) == ""
    assert measure.left_out(Setting(0, slower=1000), copies, 6, rate) == "about 11 s"


TRACE = """#turnbuckle-trace 1
#name 0 clCreateBuffer
#name 1 clEnqueueNDRangeKernel
#name 2 clFinish
kind,start,end,corr,tid,name,bytes
A,1000,1100,1,7,0,
A,2000,2100,2,7,1,
K,2200,2900,2,,9,
C,2900,2950,2,,9,64
A,2100,3000,3,7,2,
L,3000,4000,3,7,,
"""


def test_a_run_is_timed_from_its_first_launch_or_by_its_loop(tmp_path):
    path = tmp_path / "a.trace.csv"
    path.write_text(TRACE)
    whole = measure.timed(path, [])
    assert whole["window_ns"] == [1000, 2000]
    assert (whole["seconds"], whole["whole_s"]) == (1e-6, 2e-6)
    assert whole["calls"] == {"launch": 1, "sync": 1}
    assert (whole["delayed"], whole["waited_s"], whole["copied_bytes"]) == (1, 1e-6, 64)
    loop = measure.timed(path, [2050, 4000])
    assert loop["window_ns"] == [1050, 3000]
    assert loop["calls"] == {"sync": 1}


def test_a_crossing_lies_on_the_line_between_two_points():
    points = [(10e-6, 1.0), (30e-6, 1.1), (100e-6, 1.45)]
    assert distance.crossing(1.0, points, 0.05) == pytest.approx(20e-6)
    assert distance.crossing(1.0, points, 0.10) == pytest.approx(30e-6)
    assert distance.crossing(1.0, points, 0.5) is None


RUN = EXAMPLES / "jacobi-opencl-pocl.trace.csv"
WINDOW = [30_000_000, 64_000_000]


def measurements(folder, points, **more):
    path = folder / "measured.json"
    path.write_text(
        json.dumps(
            {"window_ns": WINDOW, "undelayed": [0.034, 0.0341, 0.035], "points": points, **more}
        )
    )
    return path


def point(delay_ns, classes="all", slower=0, where="after"):
    return {
        "classes": classes,
        "where": where,
        "delay_ns": delay_ns,
        "slower": slower,
        "seconds": [0.05, 0.06, 0.055],
    }


@pytest.mark.parametrize("classes", ["all", "launch", "all-sync"])
def test_a_prediction_is_what_the_command_says(tmp_path, capsys, classes):
    options = [] if classes == "all" else ["--slack-class", ",".join(distance.chosen(classes))]
    more = [
        "--part",
        "30000000ns..64000000ns",
        "--draws",
        "0",
        "--format",
        "json",
        "--no-cache",
        "--repeats",
        "34ms,34.1ms",
    ]
    assert cli_run.run(["slack", str(RUN), "--mode", "api", *options, *more]) == 0
    curve = [
        one for one in json.loads(capsys.readouterr().out)["curve"] if 1e-6 < one["slack_s"] < 2e-3
    ]
    found = distance.program(
        "jacobi",
        RUN,
        measurements(tmp_path, [point(round(one["slack_s"] * 1e9), classes) for one in curve]),
    )
    assert len(curve) > 3
    # the file's delays are whole nanoseconds
    assert [p.predicted["timeline"] for p in found.points] == pytest.approx(
        [one["seconds"] for one in curve], rel=1e-5
    )
    assert all(one["interval"][0] < one["seconds"] < one["interval"][1] for one in curve)
    assert found.points[-1].predicted["timeline"] > found.recorded


def test_what_stands_beside_a_prediction(tmp_path):
    points = [
        point(0, slower=100),
        point(1_000_000),
        point(1_000_000, slower=100),
        point(1_000_000, "launch", where="before"),
    ]
    found = distance.program("jacobi", RUN, measurements(tmp_path, points))
    slower, delayed, both, launches = found.points
    assert found.recorded < slower.predicted["timeline"] < both.predicted["timeline"]
    assert launches.predicted["timeline"] < delayed.predicted["timeline"]
    assert found.recorded < delayed.predicted["sum"] != delayed.predicted["timeline"]
    assert all(p.predicted["nothing"] == found.recorded for p in found.points)
    assert [p.words() for p in found.points] == [
        "1/100 of the bandwidth",
        "every call 1 ms later",
        "every call 1 ms later, 1/100 of the bandwidth",
        "launch 1 ms later, waited before it",
    ]
    text = compare.markdown([found], {"other": "A122"}, {})
    assert "| jacobi |" in text and "other (A122)" in text
