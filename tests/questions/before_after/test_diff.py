"""What differs between two recordings of one program: sums of what was recorded, nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hostile_names import Ran, document

import turnbuckle as tb
from turnbuckle.questions.before_after.diff import Steps

SAMPLE = Path(tb.__file__).parent / "examples" / "dgemm-like-synthetic.sqlite"
Run = Callable[..., Ran]


def changed(folder: Path, *statements: str) -> Path:
    path = folder / "after.sqlite"
    path.write_bytes(SAMPLE.read_bytes())
    with sqlite3.connect(path) as file:
        for statement in statements:
            file.execute(statement)
    file.close()
    return path


def test_a_recording_does_not_differ_from_itself() -> None:
    answer = tb.read(SAMPLE).diff(tb.read(SAMPLE))
    assert answer.change == 0.0
    assert not np.any(answer.table()["change"].to_numpy())


def test_what_one_kernel_loses_is_said_of_it_alone(tmp_path: Path) -> None:
    """Every kernel of one name ends a quarter of its time earlier; nothing else moves."""
    name = "SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT 1"
    faster = changed(
        tmp_path,
        f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end - (end - start) / 4 "
        f"WHERE demangledName = ({name})",
    )
    answer = tb.read(SAMPLE, part="whole").diff(tb.read(faster, part="whole"))
    kernels = answer.table().filter(pl.col("of") == "kernel")
    moved = kernels.filter(pl.col("change") != 0)
    assert moved.height == 1
    row = moved.row(0, named=True)
    assert row["seconds_after"] == pytest.approx(0.75 * row["seconds"], rel=1e-6)
    assert row["count"] == row["count_after"]
    assert not np.any(answer.table().filter(pl.col("of") == "call")["change"].to_numpy())


def test_parts_add_up_to_the_run_times(tmp_path: Path) -> None:
    shorter = changed(tmp_path, "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid % 5 = 0")
    answer = tb.read(SAMPLE, part="whole").diff(tb.read(shorter, part="whole"))
    parts = answer.table().filter(pl.col("of") == "part")
    assert parts["seconds"].sum() == pytest.approx(answer.before.seconds, abs=1e-9)
    assert parts["seconds_after"].sum() == pytest.approx(answer.after.seconds, abs=1e-9)
    kernels = answer.table().filter(pl.col("of") == "kernel")
    assert kernels["count_after"].sum() < kernels["count"].sum()


def test_what_one_of_them_does_not_record_is_not_compared(tmp_path: Path, turnbuckle: Run) -> None:
    bare = changed(tmp_path, "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME")
    answer = tb.read(SAMPLE, part="whole").diff(tb.read(bare, part="whole"))
    assert "api" in answer.untold
    assert set(answer.table()["of"]) == {"part", "copy", "kernel"}
    assert "not recorded in both" in turnbuckle("diff", SAMPLE, bare).out


@pytest.mark.parametrize(
    ("after", "word"), [(1.0005, "within the spread"), (1.2, "more than the spread")]
)
def test_a_change_within_the_spread_of_steps_is_called_so(
    after: float, word: str, monkeypatch: pytest.MonkeyPatch, turnbuckle: Run
) -> None:
    monkeypatch.setattr(
        "turnbuckle.questions.before_after.diff._steps", lambda *_: Steps(1.0, after, 0.01)
    )
    assert word in turnbuckle("diff", SAMPLE, SAMPLE).out


def test_both_are_taken_alike(tmp_path: Path) -> None:
    """Without start-up only where both recordings show it."""
    milc = SAMPLE.with_name("milc-like-synthetic.sqlite")
    whole: Any = tb.read(milc, part="whole")
    answer = tb.read(milc).diff(whole)
    assert not answer.without_start_up
    assert answer.before.seconds == answer.after.seconds == whole.seconds
    assert tb.read(milc).diff(tb.read(milc)).without_start_up


def test_json_holds_both_sources(turnbuckle: Run) -> None:
    found = document(turnbuckle("diff", SAMPLE, SAMPLE, "--format", "json"))
    assert found["change"] == 0.0 and len(found["provenance"]) == 2
    assert {row["of"] for row in found["changes"]} >= {"part", "kernel", "call"}


def test_it_fits_a_terminal(turnbuckle: Run) -> None:
    milc = SAMPLE.with_name("milc-like-synthetic.sqlite")
    lines = turnbuckle("diff", milc, SAMPLE).out.splitlines()
    assert len(lines) <= 36 and max(map(len, lines)) <= 80
