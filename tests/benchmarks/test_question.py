"""The benchmark of a whole question asks it, counts the rows of the file, and says what it could not run."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "examples")]

import nsys_generator  # type: ignore[import-not-found]  # noqa: E402
import question  # type: ignore[import-not-found]  # noqa: E402

ROWS = 5_300


def test_both_routes_see_the_rows_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "made.sqlite"
    nsys_generator.generate(path, ROWS)
    found = question.measure(path, 1)
    asked, fetched = (found["routes"][name]["samples"] for name in (question.ASKED, question.FETCHED))
    # beside its event rows a file has the device, its streams and the words of enumerations
    assert ROWS <= asked[0]["rows"] < ROWS + 100 and ROWS <= fetched[0]["rows"] < ROWS + 100
    assert asked[0]["cpu"] > 0 and asked[0]["peak"] > asked[0]["bytes_a_row"]
    assert question.ASKED in question.table(found) and len(question.targets(found)) == 2


def test_what_could_not_run_is_a_target_not_met(tmp_path: Path) -> None:
    path = tmp_path / "broken.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"?" * 600)
    found = question.measure(path, 1)
    assert "P0" in found["routes"][question.ASKED]["missing"] or "Error" in found["routes"][question.ASKED]["missing"]
    assert question.targets(found) and not any(met for met, _ in question.targets(found))
    assert "not measured" in question.table(found)
