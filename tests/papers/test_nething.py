"""Nething: verdicts follow from what is printed, and every number counts."""

from __future__ import annotations

import pytest
from published_rows import misprint

from turnbuckle.papers.nething import numbers as nething
from turnbuckle.papers.nething.numbers import PAPER, recompute


def test_every_row_says_why() -> None:
    for row in recompute():
        assert row.note or row.verdict == "reproduced", row
        assert bool(row.resolution) == (row.verdict == "contradiction"), row


def test_verdicts_follow_from_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Misprints are found: the verdicts are no list."""
    misprints = {
        ("on-board", "rate"): "143",
        ("DGEMM", "speedup of the smallest size stays below"): "6",
        ("MILC", "share of time in PCIe"): "10",
        ("MILC", "share of launches"): "2",
        ("2026", "growth of cores a GPU"): "4",
        ("APU", "share of the on-board rate"): "77",
        ("MILC", "disaggregation penalty"): "30",
    }

    before = {r.id: r.verdict for r in recompute()}
    misprint(monkeypatch, PAPER, misprints)
    after = {r.id: r.verdict for r in recompute()}
    wanted = {
        "N.T1.obtf": ("reproduced", "off"),
        "N.F3.1024": ("off", "reproduced"),
        "N.5D.pcie": ("contradiction", "reproduced"),
        "N.5D.launch": ("off", "reproduced"),
        "N.6B.cores": ("reproduced", "off"),
        "N.F10.milc": ("reproduced*", "off"),
    }
    assert {name: (before[name], after[name]) for name in wanted} == wanted


def test_every_number_of_the_paper_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No number stands in the file for nothing, and every row but one that says what is missing
    follows from some.

    The axis of a plot has an intercept as soon as there is no latency, not before.
    The power of a card cancels: the power law through 76 % at 350 W gives 76 % at 350 W, whatever
    the watts are.
    """
    whole, before = PAPER.all, {r.id: r for r in recompute()}
    moved: set[str] = set()
    idle = []
    for at, said in enumerate(whole):
        value = {"twice": 2.0, "three": 3.0}.get(said.text) or float(said.text.replace(",", ""))
        found: set[str] = set()
        for factor in (0.6, 1.4):
            changed = (*whole[:at], said._replace(text=f"{value * factor:g}"), *whole[at + 1 :])
            monkeypatch.setitem(PAPER.__dict__, "all", changed)
            found |= {r.id for r in recompute() if r != before[r.id]}
        idle += [] if found else [said]
        moved |= found
    assert [(s.subject, s.quantity) for s in idle] == [
        ("discrete", "power")
    ] and before.keys() - moved == {"N.F10", "N.F8.axis"}
    assert [r.verdict for r in nething._signs(0.0) if r.id == "N.F8.axis"] == ["reproduced"]
