"""Every published number: none is missing, none has moved, and a row that moves is noticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from published_rows import agrees, verdict_of
from published_rows import recorded as published

from turnbuckle.papers.gpudirect import numbers as gpudirect
from turnbuckle.papers.numbers import Paper
from turnbuckle.papers.reproduce import PAPERS, Recorded, Row, counts, recorded, reproduce


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return reproduce()


def test_no_row_moved(rows: list[Row]) -> None:
    assert len(rows) == 212
    assert {r.id: r.moved for r in rows if r.moved} == {}


def test_the_counts_are_those_of_the_specification(rows: list[Row]) -> None:
    assert counts(rows) == {
        "reproduced": 93,
        "reproduced*": 43,
        "trunc": 7,
        "off": 31,
        "contradiction": 23,
        "n/r": 15,
    }


def test_what_is_recorded_is_the_table_of_all_papers(shared: Path) -> None:
    theirs = published(shared)
    assert list(theirs) == list(recorded())
    for id, mine in recorded().items():
        assert mine.verdict == verdict_of(theirs[id])
        assert mine.recomputed is None or mine.recomputed == float(theirs[id]["recomputed"])


def test_every_row_is_that_of_the_table_of_all_papers(shared: Path, rows: list[Row]) -> None:
    theirs = published(shared)
    assert [difference for row in rows for difference in agrees(row.now, theirs[row.id])] == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seed", "file", "spelled"),
    [
        ("000", "ecp/dag", {"10×": "", "805Ms": "80 SMs"}),
        ("000", "ecp/kernels", {}),
        ("001", "nething/numbers", {}),
        ("002", "ahead/numbers", {}),
        ("003", "gpudirect/numbers", {}),
        ("003", "gpudirect/patterns", {}),
        ("004", "row_slack/numbers", {",": "", "{": "", "}": ""}),
    ],
)
def test_every_number_stands_in_the_paper(
    shared: Path, seed: str, file: str, spelled: dict[str, str]
) -> None:
    (place,) = (shared / "seeds").glob(f"{seed}_*.txt")
    text = place.read_text(encoding="utf-8")
    for as_printed, plain in spelled.items():
        text = text.replace(as_printed, plain)
    assert [
        s
        for s in Paper(file).all
        if s.text not in text and not s.source.startswith("not in the paper: ")
    ] == []


def test_every_verdict_says_why(rows: list[Row]) -> None:
    for row in rows:
        assert row.now is not None
        now = row.now
        assert now.note or now.verdict in ("reproduced", "contradiction"), (
            f"{row.id} does not say why"
        )
        unprinted = "not printed" in now.note or "with itself" in now.note
        assert not unprinted or now.verdict != "reproduced", (
            f"{row.id} rests on what is not printed, without a star"
        )
        assert bool(now.resolution) == (now.verdict == "contradiction"), (
            f"{row.id}: a contradiction says what we do about it"
        )
        if now.verdict == "n/r":
            assert now.low is None and not isinstance(now.recomputed, float), (
                "no stand-in for what is not printed"
            )
        assert now.what and now.printed


def test_a_moved_row_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = gpudirect.recompute()
    wrong = [
        replace(r, verdict="off") if r.id == "G.leaf" else r for r in real if r.id != "G.taper"
    ]
    wrong = [replace(r, recomputed=15.0) if r.id == "G.T1.bw" else r for r in wrong] + [
        replace(real[0], id="G.new")
    ]
    monkeypatch.setattr(gpudirect, "recompute", lambda: wrong)
    moved = {r.id: r.moved for r in reproduce(["gpudirect"]) if r.moved}
    assert moved == {
        "G.leaf": "off, recorded as reproduced*",
        "G.taper": "no longer recomputed",
        "G.T1.bw": "15.0, recorded as 14.2857",
        "G.new": "not recorded",
    }


def test_a_number_where_text_was_is_no_move() -> None:
    now = gpudirect.recompute()[0]
    assert Row(now, Recorded(now.id, now.verdict, None)).moved == ""


@pytest.mark.parametrize("word", PAPERS)
def test_one_paper_at_a_time(word: str, rows: list[Row]) -> None:
    letter = PAPERS[word][0]
    assert [r.id for r in reproduce([word])] == [
        r.id for r in rows if r.id.startswith(f"{letter}.")
    ]
