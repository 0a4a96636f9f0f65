"""AHEAD's numbers: verdicts follow from what is printed, through the product's own equations."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from turnbuckle.papers.ahead import numbers as ahead
from turnbuckle.papers.ahead.numbers import PAPER, recompute


def test_every_recorded_row_agrees(shared: Path) -> None:
    rows = (shared / "reference" / "published.csv").read_text(encoding="utf-8").splitlines()
    recorded = {row["id"]: row for row in csv.DictReader(rows) if row["id"].startswith("A.")}
    found = {r.id: r for r in recompute()}
    assert sorted(found) == sorted(recorded) and len(found) == 24
    assert {name: r.verdict for name, r in found.items()} == {name: row["verdict"] for name, row in recorded.items()}
    for name, r in found.items():
        if isinstance(r.recomputed, float):
            assert r.recomputed == pytest.approx(float(recorded[name]["recomputed"]), rel=2e-3), name
        elif recorded[name]["verdict"] == "contradiction":
            assert r.resolution


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

    class Changed(type(PAPER)):  # type: ignore[misc]
        def texts(self, subject: str, quantity: str) -> dict[str, str]:
            return {at: misprints.get(text, text) for at, text in super().texts(subject, quantity).items()}

    monkeypatch.setattr(ahead, "PAPER", Changed("ahead/numbers"))
    verdicts = {r.id: r.verdict for r in recompute()}
    wanted = {
        "A.T1.qmcpack": "off",
        "A.4A.eta": "reproduced",
        "A.8.525": "off",
        "A.4B.flit": "off",
        "A.T3.order": "off",
        "A.1.avg": "off",
        "A.wmape": "reproduced",
        "A.hdr": "reproduced",
        "A.6B.titan": "off",
    }
    assert {name: verdicts[name] for name in wanted} == wanted


def test_the_equations_are_the_products_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other equations, other rows."""
    monkeypatch.setattr(ahead, "line_code", lambda generation: 1.0)
    monkeypatch.setattr(ahead, "wmape", lambda actual, predicted: 1e12)
    verdicts = {r.id: r.verdict for r in recompute()}
    assert verdicts["A.T2.gen1"] == verdicts["A.4A.eta"] == "off" and verdicts["A.wmape"] == "reproduced"


def test_every_number_stands_in_the_paper(shared: Path) -> None:
    (paper,) = (shared / "seeds").glob("002_*.txt")
    text = paper.read_text(encoding="utf-8")
    # lanes and versions are words of running text
    assert [p for p in PAPER.all if p.text not in text] == []
    rows = [line.split("\t") for line in text.splitlines()]
    for who, name in (("AHEAD", "Our Approach"), ("peak bandwidth", "Peak BW"), ("back of the envelope", "BackOfEnv.")):
        printed = next(row for row in rows if row[0] == name)
        assert [cell.partition("/")[0] for cell in printed[1:]] == list(PAPER.texts(who, "WMAPE, default size").values())
    for app in ahead.APPS:
        cells = [PAPER.text(app, q) for q in ("kernels", "transfers", "transfer share", "count of transfers")]
        assert [app, *cells] in rows
