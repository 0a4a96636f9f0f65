"""The benchmark of whole questions asks them, counts the rows of the file, and says what it could
not run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "examples")]

import nsys_generator  # type: ignore[import-not-found]  # noqa: E402
import question  # type: ignore[import-not-found]  # noqa: E402

ROWS = 5_300


def test_a_question_is_asked_and_the_second_read_sees_the_rows_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "made.sqlite"
    nsys_generator.generate(path, ROWS)
    result = question.measure(path, 1, ["inspect"])
    # beside its event rows a file has the device, its streams and the words of enumerations
    assert (
        ROWS <= result["rows"] < ROWS + 100
        and result["samples"]["first"][0]["rows"] == result["rows"]
    )
    (asked,) = result["samples"]["inspect"]
    assert asked["cpu"] > 0 and asked["peak"] > 1e6 and "project" not in result["samples"]
    # ADBC is a package of the benchmarks, which the tests may lack
    fetched = result["samples"][question.FETCHED][0]
    aims = question.targets(result)
    assert any("second read" in words for _, words in aims)
    assert any("times the CPU time" in words for _, words in aims) == ("cpu" in fetched)
    assert "inspect" in question.table(result)


def test_what_could_not_run_is_a_target_not_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "broken.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"?" * 600)
    run = question.whole_process
    monkeypatch.setattr(
        question,
        "whole_process",
        lambda words: run(words) if {"inspect", str(path)} < {*words} else {"missing": "left out"},
    )
    monkeypatch.setattr(question, "in_fresh_process", lambda *_, **__: {"missing": "left out"})
    result = question.measure(path, 1, ["inspect"])
    assert "left out" not in result["samples"]["inspect"][0]["missing"]
    assert question.targets(result) and not any(met for met, _ in question.targets(result))
    assert "not measured" in question.table(result)
