"""Sparse triangular solves of the ECP report: what is printed stands in the paper, and verdicts follow from it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from turnbuckle.papers.ecp import dag as ecp_dag
from turnbuckle.papers.ecp.dag import PAPER, recompute
from turnbuckle.papers.models.dag.tasks import INTEGRATED
from turnbuckle.papers.models.dag.tiers import fabric
from turnbuckle.papers.numbers import Recomputed, Said


def test_verdicts_are_the_recorded_ones(shared: Path) -> None:
    with (shared / "reference" / "published.csv").open(encoding="utf-8", newline="") as file:
        recorded = {row["id"]: row for row in csv.DictReader(file)}
    for row in recompute():
        assert row.verdict == recorded[row.id]["verdict"], row.id
        if isinstance(row.recomputed, float):
            assert row.recomputed == pytest.approx(float(recorded[row.id]["recomputed"]), rel=2e-3)
            assert (row.low, row.high) == pytest.approx((float(recorded[row.id]["lo"]), float(recorded[row.id]["hi"])), rel=1e-9)


def test_numbers_stand_in_the_paper(shared: Path) -> None:
    (paper,) = (shared / "seeds").glob("000_*.txt")
    text = paper.read_text(encoding="utf-8").replace("10×", "").replace("805Ms", "80 SMs")
    assert [p for p in PAPER.all if p.text not in text] == []


def with_misprints(monkeypatch: pytest.MonkeyPatch, misprints: dict[str, str]) -> dict[str, Recomputed]:
    class Changed(type(PAPER)):  # type: ignore[misc]
        def texts(self, subject: str, quantity: str) -> dict[str, str]:
            return {at: misprints.get(text, text) for at, text in super().texts(subject, quantity).items()}

    monkeypatch.setattr(ecp_dag, "PAPER", Changed("ecp/dag"))
    return {row.id: row for row in recompute()}


@pytest.mark.parametrize("said", PAPER.all, ids=lambda p: f"{p.subject} {p.quantity} {p.at}")
def test_every_number_counts(monkeypatch: pytest.MonkeyPatch, said: Said) -> None:
    """A number that changes nothing has no place in the file; one that is judged, or judged by, changes a verdict."""
    before = {row.id: row for row in recompute()}
    after = with_misprints(monkeypatch, {said.text: f"{float(said.text) * 1.37:.4g}"})
    assert after != before
    if said.subject != "SpTRSV":
        assert [row.verdict for row in after.values()] != [row.verdict for row in before.values()]


def test_verdicts_follow_from_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    after = {id: row.verdict for id, row in with_misprints(monkeypatch, {"828": "900", "640": "320", "0.5": "1.5"}).items()}
    assert [after[f"R.8.4.{name}"] for name in ("blocks", "lo", "hi")] == ["off", "off", "off"]
    assert (after["R.5.4.put"], after["R.5.4.int"]) == ("reproduced", "off")


def test_the_model_takes_the_same_numbers() -> None:
    rows = {row.id: row.recomputed for row in recompute()}
    assert rows["R.5.4.int"] == pytest.approx(INTEGRATED)
    machine = fabric("summit-v100")
    assert rows["R.8.4.lo"] == pytest.approx(machine.low * 1e-9)
    assert rows["R.8.4.hi"] == pytest.approx(machine.high * 1e-9)
