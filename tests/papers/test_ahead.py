"""AHEAD's numbers: verdicts follow from what is printed, through the product's own equations."""

from __future__ import annotations

from pathlib import Path

import pytest
from published_rows import misprint

from turnbuckle.papers.ahead import numbers as ahead
from turnbuckle.papers.ahead.numbers import PAPER, recompute


def test_verdicts_follow_from_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misprint in the file is found: the verdicts are no list."""
    misprints = {
        "34.42": "34.92",
        "98.4": "98.5",
        "525": "526",
        "25": "26",
        "7.0": "4.4",
        "20": "21",
        "400K": "0.001K",
        "12": "24",
        "8": "20",
    }
    misprint(monkeypatch, PAPER, misprints)
    verdicts = {r.id: r.verdict for r in recompute()}
    wanted = dict.fromkeys(
        ("A.T1.qmcpack", "A.8.525", "A.4B.flit", "A.T3.order", "A.1.avg", "A.6B.titan"), "off"
    )
    wanted |= dict.fromkeys(("A.4A.eta", "A.wmape", "A.hdr"), "reproduced")
    assert {name: verdicts[name] for name in wanted} == wanted


def test_the_equations_are_the_products_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other equations, other rows."""
    monkeypatch.setattr(ahead, "line_code", lambda generation: 1.0)
    monkeypatch.setattr(ahead, "wmape", lambda actual, predicted: 1e12)
    verdicts = {r.id: r.verdict for r in recompute()}
    assert (
        verdicts["A.T2.gen1"] == verdicts["A.4A.eta"] == "off"
        and verdicts["A.wmape"] == "reproduced"
    )


def test_rows_of_its_tables_stand_in_the_paper(shared: Path) -> None:
    (paper,) = (shared / "seeds").glob("002_*.txt")
    rows = [line.split("\t") for line in paper.read_text(encoding="utf-8").splitlines()]
    for who, name in (
        ("AHEAD", "Our Approach"),
        ("peak bandwidth", "Peak BW"),
        ("back of the envelope", "BackOfEnv."),
    ):
        printed = next(row for row in rows if row[0] == name)
        assert [cell.partition("/")[0] for cell in printed[1:]] == list(
            PAPER.texts(who, "WMAPE, default size").values()
        )
    for app in ahead.APPS:
        cells = [
            PAPER.text(app, q)
            for q in ("kernels", "transfers", "transfer share", "count of transfers")
        ]
        assert [app, *cells] in rows
