"""``turnbuckle reproduce``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hostile_names import Ran

from turnbuckle.papers.gpudirect import numbers as gpudirect

Run = Callable[..., Ran]
PAPER = ("--paper", "gpudirect")
KEYS = {"id", "what", "printed", "recomputed", "deviation", "verdict", "note"}


def test_all_papers(turnbuckle: Run) -> None:
    ran = turnbuckle("reproduce", "--format", "json")
    assert ran.code == 0, ran.err
    about = json.loads(ran.out)
    assert len(about["rows"]) == 212 and all(set(r) >= KEYS for r in about["rows"])
    assert sum(about["verdicts"].values()) == 212 and about["moved"] == []


def test_one_paper_and_one_verdict(turnbuckle: Run) -> None:
    ran = turnbuckle(
        "reproduce", "--paper", "gpudirect", "--verdict", "contradiction", "--format", "csv"
    )
    assert ran.code == 0, ran.err
    assert [line.partition(",")[0] for line in ran.out.splitlines()] == [
        "id",
        "G.SW4.hi",
        "G.lulesh",
    ]


def test_a_paper_named_twice_is_one(turnbuckle: Run) -> None:
    once, twice = (
        turnbuckle("reproduce", *words, "--format", "csv")
        for words in ((*PAPER,), (*PAPER, *PAPER))
    )
    assert once.code == twice.code == 0 and once.out == twice.out


def test_the_table_ends_with_the_counts(turnbuckle: Run) -> None:
    ran = turnbuckle("reproduce", "--paper", "slack")
    assert ran.code == 0, ran.err
    assert (
        "30 numbers: 19 reproduced, 3 reproduced*, 0 trunc, 2 off, 4 contradiction, 2 n/r"
        in ran.out
    )


def test_a_moved_verdict_fails(turnbuckle: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [replace(r, verdict="off") if r.id == "G.leaf" else r for r in gpudirect.recompute()]
    monkeypatch.setattr(gpudirect, "recompute", lambda: rows)
    ran = turnbuckle("reproduce", "--paper", "gpudirect")
    assert ran.code == 1 and "A202" in ran.err and "G.leaf" in ran.err


def test_an_unknown_paper(turnbuckle: Run) -> None:
    assert turnbuckle("reproduce", "--paper", "bible").code == 2


def test_table_13(turnbuckle: Run) -> None:
    about = json.loads(turnbuckle("reproduce", "--table-13", "--format", "json").out)
    assert len(about["cells"]) == 57 and len(about["statements"]) == 9
    shown = turnbuckle("reproduce", "--table-13")
    assert shown.code == 0 and "GPU-GPU integration" in shown.out and " inf " not in shown.out
    assert len(turnbuckle("reproduce", "--table-13", "--format", "csv").out.splitlines()) == 58
    assert "A076" in turnbuckle("reproduce", "--table-13", "--paper", "ecp").err
