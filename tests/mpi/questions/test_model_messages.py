"""``turnbuckle model messages``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hostile_names import SAMPLE, Ran
from mpi_rows import call, recorded

import turnbuckle as tb
from turnbuckle.foundation.settings import settings_of
from turnbuckle.foundation.units import show
from turnbuckle.mpi.questions.gpudirect import question
from turnbuckle.mpi.questions.messages.question import of_run
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.profile.profile import build

Run = Callable[..., Ran]


pytestmark = pytest.mark.usefixtures("read_once")


def test_a_real_run(turnbuckle: Run, shared: Path) -> None:
    file = shared / "traces" / "nsys-local" / "lammps-melt-4r.sqlite"
    ran = turnbuckle("model", "messages", file, "--costs", "seed_G")
    assert ran.code == 0, ran.err
    assert (
        "it is undecided whether GPUDirect helps" in ran.out
        and "8,448 messages" in ran.out
        and "28.6 kB" in ran.out
    )
    about = json.loads(
        turnbuckle("model", "messages", file, "--ranks-per-node", "1,4", "--format", "json").out
    )
    assert about["break_even_bytes"] == 0 and [g["ranks_per_node"] for g in about["gains"]] == [
        1,
        4,
    ]
    assert all(g["communication"] > 0 for g in about["gains"]), (
        "memory that stays pinned always wins"
    )
    inside = [r for r in about["replays"] if r["ranks_per_node"] == 4]
    assert {r["nodes"] for r in inside} == {1} and {r["card_bytes"] for r in inside} == {0.0}
    rows = turnbuckle(
        "model", "messages", file, "--format", "csv", "--fidelity", "logp"
    ).out.splitlines()
    assert len(rows) == 10


def test_sends_that_are_tested_for_do_not_get_stuck(turnbuckle: Run, shared: Path) -> None:
    """RandomAccess tests its sends and goes on where they are not done; HPL sends head-on what
    carries nothing.
    """
    file = shared / "traces" / "otf2-local" / "scorep-hpcc-4r" / "archive" / "traces.otf2"
    ran = turnbuckle("model", "messages", file, "--ranks-per-node", "1")
    assert ran.code == 0 and "stuck" not in ran.out, ran.err


def test_sends_that_rely_on_buffers_get_stuck_by_gpudirect() -> None:
    """Two ranks send 100 B head-on: fine while they are eager, which they never are from device
    memory.
    """
    rows = []
    for rank, other in ((0, 1), (1, 0)):
        of = {"partner": other, "tag": 0, "size_bytes": 100}
        rows += [call(rank, "Send", 0, 1_000, **of), call(rank, "Recv", 1_000, 10_000, **of)]
        rows += [
            call(
                rank,
                "Recv" if rank else "Send",
                20_000,
                31_000 if rank else 21_000,
                partner=other,
                tag=1,
                size_bytes=100,
            )
        ]
    answer = of_run(tb.Run.of(build(recorded(*rows))), [1], Setup(network="lassen"), "lassen")
    assert "by gpudirect this run deadlocks" in answer.verdict.sentence
    assert [math.isnan(r.seconds) for r in answer.rows] == [
        False,
        False,
        True,
    ] and "0 -> 1 -> 0" in answer.rows[2].stuck


def test_a_recording_that_does_not_show_its_network_has_no_run_time_on_another() -> None:
    """Both receives begin long after their message was sent: what it took on the way is not in the
    recording.
    """
    rows = []
    for at in (0, 10_000):
        rows.append(call(0, "Send", at, at + 1_000, partner=1, tag=0, size_bytes=4096))
        rows.append(call(1, "Recv", 100_000 + at, 101_000 + at, partner=0, tag=0, size_bytes=4096))
    run = tb.Run.of(build(recorded(*rows)))
    silent, named = (
        of_run(run, [1], Setup(network="lassen"), source) for source in ("", "perlmutter")
    )
    assert "A770" in {f.code for f in silent.findings} and all(
        math.isnan(r.seconds) for r in silent.rows
    )
    assert "A770" not in {f.code for f in named.findings} and not any(
        math.isnan(r.seconds) for r in named.rows
    )
    own = of_run(run, [1], Setup(network="self")).row(1, "host")
    assert (
        own.seconds
        == run.seconds
        == pytest.approx(own.compute_seconds + own.communication_seconds + own.kept_seconds)
    )


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        ((), "A164", 3),
        (("--ranks-per-node", "0"), "A074", 2),
        (("--ranks-per-node", "two"), "A074", 2),
        (("--bandwidth", "fast"), "U0", 2),
        (("--hop", "1"), "U001", 2),
    ],
)
def test_questions_that_cannot_be(
    turnbuckle: Run, words: tuple[str, ...], code: str, exit_code: int
) -> None:
    ran = turnbuckle("model", "messages", SAMPLE, *words)
    assert ran.code == exit_code and f"error[{code}" in ran.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--hop", "1e30 s"), "A072"),
        (("--overhead", "1e9 s"), "A072"),
        (("--bandwidth", "0 B/s"), "A074"),
        (("--eager-limit=-5B",), "A074"),
        (("--ranks-per-node", "1" + 30 * "0"), "A074"),
    ],
)
def test_numbers_out_of_all_proportion(
    turnbuckle: Run, shared: Path, words: tuple[str, ...], code: str
) -> None:
    ran = turnbuckle(
        "model", "messages", shared / "traces" / "nsys-local" / "cannon-py-4r.sqlite", *words
    )
    assert ran.code == 2 and f"error[{code}" in ran.err


def test_no_number_is_cut(turnbuckle: Run, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure of the table and every word of its head is whole on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    file = shared / "traces" / "nsys-local" / "lammps-melt-4r.sqlite"
    ran = turnbuckle("model", "messages", file, "--ranks-per-node", "1")
    assert (
        "1.000x" in ran.out
        and "% busy" in ran.out
        and "communication" in ran.out.split("nodes", 1)[1]
    )


def test_no_verdict_where_most_of_the_traffic_is_missing(turnbuckle: Run, shared: Path) -> None:
    """EZTrace records no receives that were not waited for one by one."""
    file = shared / "traces" / "otf2-local" / "lammps-melt-4r" / "archive" / "eztrace_log.otf2"
    ran = turnbuckle("model", "messages", file, "--ranks-per-node", "1")
    assert ran.code == 0 and "no verdict: 8,140 of" in ran.out


@pytest.mark.parametrize(
    "file",
    ["otf2/stencil4d_32rank/traces.otf2", "otf2-local/scorep-netpipe-2r/archive/traces.otf2"],
)
def test_the_study_of_a_real_run(
    turnbuckle: Run, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    recording = shared / "traces" / file
    made: list[question.GpuDirectStudy] = []

    def made_once(*asked: Any, **options: Any) -> question.GpuDirectStudy:
        """One study is shown as a table, as figures, as JSON and as CSV."""
        made[:] = made or [study(*asked, **options)]
        return made[0]

    study = question.study
    monkeypatch.setattr(question, "study", made_once)
    words = (
        "model",
        "messages",
        recording,
        "--costs",
        "seed_G",
        "--ranks-per-node",
        "1,2",
        "--study",
    )
    ran = turnbuckle(*words)
    assert ran.code == 0, ran.err
    said = " ".join(ran.out.split())
    assert "closed form: 28.6 kB" in said and "of the run time by host copies" in said
    assert (
        "parts of the run times" in said
        and "steps of parameters" in said
        and "links: a NIC counts as saturated" in said
    )
    ran = turnbuckle(*words[:-1], "--charts", tmp_path, "--format", "json")
    about = json.loads(ran.out)
    deep = about["study"]
    assert deep["said"].startswith(
        "GPUDirect helps" if "stencil" in file else "it is undecided whether GPUDirect helps"
    )
    assert about["gains"] == json.loads(turnbuckle(*words[:-1], "--format", "json").out)["gains"], (
        "the study rests on the same replays"
    )
    assert (
        sum(c["count"] for c in deep["sizes"] if c["ranks_per_node"] == 1)
        >= about["messages"] - about["collectives"]
    )
    assert {(s["ranks_per_node"], s["per"]) for s in deep["shapes"]} >= {
        (1, "node"),
        (2, "node"),
        (2, "gpu"),
    }
    assert {p["parameter"] for p in deep["differences"]["parameters"]} == {
        "card_bandwidth",
        "hop_seconds",
        "copy_bandwidth",
        "compute",
    }
    if "netpipe" in file:
        edges = [c["size_bytes"] for c in deep["crossovers"] if c["between"]]
        assert edges == [pytest.approx(28_571, rel=1e-3)], (
            "two ranks alone on their network: the closed form"
        )
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == sorted(
        f"messages-{n}.{e}"
        for n in ("by-size", "node-shapes", "links", "traffic", "cards")
        for e in ("svg", "csv")
    )
    rows = turnbuckle(*words, "--format", "csv").out.splitlines()
    assert len(rows) == 7 and rows[0].startswith("per,card_bandwidth,ranks")


@pytest.mark.parametrize("word", ["path=hostcopy", "ranks_per_node=2"])
def test_what_is_varied_cannot_be_set(turnbuckle: Run, word: str) -> None:
    ran = turnbuckle("model", "messages", SAMPLE, "--set", word)
    assert ran.code == 2 and "error[A051]" in ran.err and "turnbuckle sweep" in ran.err


def test_figures_into_no_folder(turnbuckle: Run, tmp_path: Path) -> None:
    blocked, schedule = tmp_path / "file", tmp_path / "ring.goal"
    blocked.write_text("x")
    schedule.write_text(GOAL)
    ran = turnbuckle("model", "messages", schedule, "--ranks-per-node", "1", "--charts", blocked)
    assert ran.code != 0 and "error[R001" in ran.err


def test_a_schedule_needs_the_speed_of_a_rank_and_a_recording_has_none(
    turnbuckle: Run, tmp_path: Path
) -> None:
    anchor = tmp_path / "ti.txt"
    anchor.write_text("rank0.txt\nrank1.txt\n")
    for rank, other in ((0, 1), (1, 0)):
        lines = [
            "init",
            *["compute 1e6", f"irecv {other} 7 131072 0", f"isend {other} 7 131072 0", "waitall 2"]
            * 3,
            "finalize",
        ]
        (tmp_path / f"rank{rank}.txt").write_text("".join(f"{rank} {line}\n" for line in lines))
    ran = turnbuckle("model", "messages", anchor)
    assert ran.code == 2 and "error[A068]" in ran.err
    ran = turnbuckle(
        "model",
        "messages",
        anchor,
        "--flops-per-second",
        "10 GFLOP/s",
        "--costs",
        "seed_G",
        "--ranks-per-node",
        "1",
    )
    assert ran.code == 0, ran.err
    assert (
        "a schedule, which holds no times" in ran.out
        and "it cuts communication from" in " ".join(ran.out.split())
    )
    about = json.loads(
        turnbuckle(
            "model",
            "messages",
            anchor,
            "--flops-per-second",
            "10 GFLOP/s",
            "--study",
            "--format",
            "json",
        ).out
    )
    assert (
        about["recorded_seconds"] is None and about["provenance"]["inputs"][0]["file"] == "ti.txt"
    )
    # three times 0.1 ms of compute
    assert about["replays"][0]["compute_seconds"] == pytest.approx(3e-4)
    ran = turnbuckle("model", "messages", SAMPLE, "--flops-per-second", "10 GFLOP/s")
    assert ran.code == 2 and "error[A069]" in ran.err
    ran = turnbuckle("model", "messages", anchor, "--flops-per-second", "fast")
    assert ran.code == 2 and "error[U0" in ran.err


GOAL = "num_ranks 4\n" + "".join(
    (
        f"rank {me} {{\na: calc 4000\nb: send 65536b to {(me + 1) % 4}\n"
        f"c: recv 65536b from {(me - 1) % 4}\nb requires a\nc requires a\n}}\n"
    )
    for me in range(4)
)


@pytest.mark.parametrize("fidelity", ["logp", "flow", "packet"])
def test_a_goal_schedule_is_answered_as_a_recording(
    turnbuckle: Run, tmp_path: Path, fidelity: str
) -> None:
    path = tmp_path / "ring.goal"
    path.write_text(GOAL)
    words = ("model", "messages", path, "--fidelity", fidelity, "--ranks-per-node", "1,2")
    ran = turnbuckle(*words)
    assert ran.code == 0, ran.err
    said = " ".join(ran.out.split())
    assert (
        "4 ranks, 4 messages, 12 operations; a GOAL schedule" in said
        and "it cuts communication from" in said
    )
    about = json.loads(turnbuckle(*words, "--study", "--format", "json").out)
    assert about["recorded_seconds"] is about["collectives"] is about["kept_calls"] is None
    assert (about["ranks"], about["messages"], about["unmatched"], about["findings"]) == (
        4,
        4,
        0,
        [],
    )
    rows = about["replays"]
    assert [(r["ranks_per_node"], r["nodes"], r["between_bytes"]) for r in rows[::3]] == [
        (1, 4, 4 * 65536.0),
        (2, 2, 2 * 65536.0),
    ]
    assert all(r["compute_seconds"] == pytest.approx(4e-6) for r in rows)
    assert {s["count"] for s in about["study"]["sizes"] if s["ranks_per_node"] == 1} == {4}
    assert any(s["links"] is not None for s in about["study"]["shapes"]) is (fidelity != "logp")
    assert [s["chain_compute_seconds"] for s in about["study"]["shapes"]] == pytest.approx(
        [4e-6] * 6
    )


def test_a_goal_schedule_has_the_keys_of_a_recording(
    turnbuckle: Run, shared: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ring.goal"
    path.write_text(GOAL)
    recording = shared / "traces" / "nsys-local" / "cannon-py-4r.sqlite"
    ours, other = (
        json.loads(
            turnbuckle("model", "messages", f, "--ranks-per-node", "1", "--format", "json").out
        )
        for f in (path, recording)
    )
    assert set(ours) == set(other) and set(ours["replays"][0]) == set(other["replays"][0])


@pytest.mark.parametrize(
    ("body", "words", "code", "exit_code"),
    [
        ("num_ranks 2\nrank 0 {\n", (), "P023", 2),
        ("num_ranks 2\nrank 0 {\na: calc 1\na requires a\n}\n", (), "P031", 2),
        ("num_ranks 2\nrank 0 {\nrecv 8b from -1\n}\n", (), "A078", 2),
        ("num_ranks 1\n", (), "A164", 3),
        ("num_ranks 2\nrank 1 {\ncalc 5\nsend 1b to 0\n}\n", ("--study",), "A164", 3),
        (GOAL, ("--flops-per-second", "1 GFLOP/s"), "A069", 2),
        (GOAL, ("--set", "ranks=16"), "A170", 3),
        (GOAL, ("--set", "buffers=host if call isend"), "A099", 2),
        (GOAL, ("--network", "lassen", "--ranks-per-node", "0"), "A074", 2),
    ],
)
def test_goal_schedules_that_cannot_be_answered(
    turnbuckle: Run, tmp_path: Path, body: str, words: tuple[str, ...], code: str, exit_code: int
) -> None:
    path = tmp_path / "a.goal"
    path.write_text(body)
    ran = turnbuckle("model", "messages", path, *words)
    assert ran.code == exit_code and f"error[{code}" in ran.err, ran.err


def test_the_page_names_every_setting_with_its_unit_its_words_and_what_holds_without() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "models" / "messages.md").read_text(
        encoding="utf-8"
    )
    shown = [
        tuple(cell.strip() for cell in row[:4])
        for row in re.findall(r"^\| `(\w+)` \|(.*?)\|(.*?)\|(.*?)\| .+ \|$", page, re.MULTILINE)
    ]

    def told(default: object, unit: str) -> str:
        if isinstance(default, bool):
            return str(default).lower()
        if isinstance(default, int | float):
            return show(float(default), unit) if unit != "1" and default else f"{default:g}"
        return str(default or "")

    true = [
        (n, s.unit.replace("1", ""), ", ".join(s.words), told(s.default, s.unit))
        for n, s in settings_of(Setup).items()
    ]
    assert [row for row in shown if row[0] in settings_of(Setup)] == true
