"""``turnbuckle model messages``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran

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


def test_sends_that_rely_on_buffers_get_stuck_by_gpudirect(turnbuckle: Run, shared: Path) -> None:
    """HPL sends small messages head-on: fine while they are eager, which they never are from device memory."""
    file = shared / "traces" / "otf2-local" / "scorep-hpcc-4r" / "archive" / "traces.otf2"
    ran = turnbuckle("model", "messages", file, "--ranks-per-node", "1")
    assert ran.code == 0, ran.err
    assert "by gpudirect this run gets stuck" in ran.out
    rows = json.loads(turnbuckle("model", "messages", file, "--ranks-per-node", "1", "--format", "json").out)["replays"]
    assert [r["seconds"] is None for r in rows] == [False, False, True] and "->" in rows[2]["stuck"]


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
