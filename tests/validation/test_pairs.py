"""The list of programs with several recordings: every shared recording stands in it, with its cases
or the reason why it has none.
"""

from __future__ import annotations

import csv
from pathlib import Path

from turnbuckle.questions.validate.cases import Case, find

ROOT = Path(__file__).resolve().parents[2]
#: Kinds of folders whose recordings have no folder each.
TOGETHER = ("nsys-local", "simgrid-local")
ASIDE = ("licences",)


def listed() -> list[dict[str, str]]:
    with (ROOT / "validation" / "pairs.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def words(row: dict[str, str], column: str) -> list[str]:
    return [word for word in row[column].split("; ") if word]


def cases() -> dict[str, Case]:
    return {case.name: case for case in find([], ROOT / "validation" / "cases")}


def test_a_program_has_its_cases_or_the_reason() -> None:
    known = cases()
    for row in listed():
        assert row["program"] and words(row, "recordings") and (row["cases"] or row["why"]), row
        assert not [name for name in words(row, "cases") if name not in known], row
    assert len({row["program"] for row in listed()}) == len(listed())


def test_every_recording_stands_in_the_list(shared: Path) -> None:
    named = {word for row in listed() for word in words(row, "recordings")}
    kinds = [p for p in (shared / "traces").iterdir() if p.is_dir() and p.name not in ASIDE]
    there = {
        p.name if p.name in TOGETHER else f"{p.name}/{inner.name}"
        for p in kinds
        for inner in (p.iterdir() if p.name not in TOGETHER else [p])
        if inner.is_dir() and inner.name != "src"
    }
    assert named == there


def test_two_machines_are_asked_both_ways() -> None:
    """A case that predicts B from A has one that predicts A from B; kernels of a benchmark are
    asked both ways in one case.
    """
    recordings = {
        (case.a.file, case.b.file)
        for case in cases().values()
        if any(ask.model == "projection" for ask in case.asks)
    }
    assert recordings and all((b, a) in recordings for a, b in recordings)
