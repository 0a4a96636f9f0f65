"""``turnbuckle model messages``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hostile_names import SAMPLE, Ran

from turnbuckle.replay.mpi import Messages, Traffic

Run = Callable[..., Ran]


def test_a_real_run(turnbuckle: Run, shared: Path) -> None:
    file = shared / "traces" / "nsys-local" / "lammps-melt-4r.sqlite"
    ran = turnbuckle("model", "messages", file, "--paths", "seed_G")
    assert ran.code == 0, ran.err
    assert "GPUDirect does not pay" in ran.out and "8,448 messages" in ran.out and "28.6 kB" in ran.out
    about = json.loads(turnbuckle("model", "messages", file, "--ranks-per-node", "1,4", "--format", "json").out)
    assert about["break_even_bytes"] == 0 and [g["ranks_per_node"] for g in about["gains"]] == [1, 4]
    assert all(g["communication"] > 0 for g in about["gains"]), "memory that stays pinned always wins"
    inside = [r for r in about["replays"] if r["ranks_per_node"] == 4]
    assert {r["nodes"] for r in inside} == {1} and {r["card_bytes"] for r in inside} == {0.0}
    rows = turnbuckle("model", "messages", file, "--format", "csv", "--fidelity", "logp").out.splitlines()
    assert len(rows) == 10


def test_sends_that_are_tested_for_do_not_get_stuck(turnbuckle: Run, shared: Path) -> None:
    """RandomAccess tests its sends and goes on where they are not done; HPL sends head-on what carries nothing."""
    file = shared / "traces" / "otf2-local" / "scorep-hpcc-4r" / "archive" / "traces.otf2"
    ran = turnbuckle("model", "messages", file, "--ranks-per-node", "1")
    assert ran.code == 0 and "stuck" not in ran.out, ran.err


def test_sends_that_rely_on_buffers_get_stuck_by_gpudirect(turnbuckle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks send 100 B head-on: fine while they are eager, which they never are from device memory."""
    first, then = np.array([0, 2]), np.array([3, 1])
    head_on = Messages(first, first, then, then, np.full(2, -1), np.full(2, 100.0))
    made = Traffic(2, np.array([0, 0, 1, 1]), np.zeros(4), np.zeros(4), np.zeros(2), head_on, (), 1.0, 0)
    monkeypatch.setattr("turnbuckle.replay.mpi.recorded", lambda _: made)
    ran = turnbuckle("model", "messages", SAMPLE, "--ranks-per-node", "1")
    assert ran.code == 0, ran.err
    assert "by gpudirect this run gets stuck" in ran.out
    rows = json.loads(turnbuckle("model", "messages", SAMPLE, "--ranks-per-node", "1", "--format", "json").out)["replays"]
    assert [r["seconds"] is None for r in rows] == [False, False, True] and "0 -> 1 -> 0" in rows[2]["stuck"]


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
def test_questions_that_cannot_be(turnbuckle: Run, words: tuple[str, ...], code: str, exit_code: int) -> None:
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
def test_numbers_out_of_all_proportion(turnbuckle: Run, shared: Path, words: tuple[str, ...], code: str) -> None:
    ran = turnbuckle("model", "messages", shared / "traces" / "nsys-local" / "cannon-py-4r.sqlite", *words)
    assert ran.code == 2 and f"error[{code}" in ran.err


def test_no_number_is_cut(turnbuckle: Run, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure of the table and every word of its head is whole on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    file = shared / "traces" / "nsys-local" / "lammps-melt-4r.sqlite"
    ran = turnbuckle("model", "messages", file, "--ranks-per-node", "1")
    assert "1.000x" in ran.out and "% busy" in ran.out and "communication" in ran.out.split("copies", 1)[1]


def test_no_verdict_where_most_of_the_traffic_is_missing(turnbuckle: Run, shared: Path) -> None:
    """EZTrace records no receives that were not waited for one by one."""
    file = shared / "traces" / "otf2-local" / "lammps-melt-4r" / "archive" / "eztrace_log.otf2"
    ran = turnbuckle("model", "messages", file, "--ranks-per-node", "1")
    assert ran.code == 0 and "no verdict: 8,140 of" in ran.out
