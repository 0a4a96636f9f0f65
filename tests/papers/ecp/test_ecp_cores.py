"""The ECP report's cores per GPU against the recorded verdicts, and Table 6 through the product's own fit."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from published_rows import verdict_of

from turnbuckle.papers.ecp import cores as ecp_cores
from turnbuckle.papers.ecp.cores import PAPER, parameters, recompute
from turnbuckle.papers.numbers import Recomputed, Said
from turnbuckle.questions.cores.laws import exponential_cores, exponential_seconds
from turnbuckle.questions.cores.question import cores_per_gpu
from turnbuckle.questions.cores.runs import Runs

ROWS = {row.id: row for row in recompute()}
FAMILIES = re.compile(r"R\.(T6\..+|eq6|F31)")


def golden(shared: Path) -> dict[str, dict[str, str]]:
    with (shared / "reference" / "published.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file) if FAMILIES.fullmatch(row["id"])}


def with_misprints(monkeypatch: pytest.MonkeyPatch, misprints: dict[str, str]) -> dict[str, Recomputed]:
    class Changed(type(PAPER)):  # type: ignore[misc]
        def texts(self, subject: str, quantity: str) -> dict[str, str]:
            return {at: misprints.get(text, text) for at, text in super().texts(subject, quantity).items()}

    monkeypatch.setattr(ecp_cores, "PAPER", Changed("ecp/cores"))
    return {row.id: row for row in recompute()}


def test_every_row_is_as_recorded(shared: Path) -> None:
    recorded = golden(shared)
    assert set(ROWS) == set(recorded) and len(recorded) == 7
    for id, row in ROWS.items():
        assert (row.verdict, row.printed) == (verdict_of(recorded[id]), recorded[id]["paper"])
        if recorded[id]["recomputed"] == "-":
            assert row.recomputed is None
        elif isinstance(row.recomputed, float):
            assert row.recomputed == pytest.approx(float(recorded[id]["recomputed"]), rel=2e-3)
            assert row.low is not None and row.low == pytest.approx(float(recorded[id]["lo"]), rel=1e-6)
        else:
            assert row.recomputed == recorded[id]["recomputed"]


def test_the_contradiction_says_what_we_do_and_the_missing_row_what_is_missing() -> None:
    assert "D3" in ROWS["R.eq6"].resolution
    assert "Fig 31" in ROWS["R.F31"].note and "0.389" in ROWS["R.F31"].note


def test_a_verdict_follows_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another printed number, another verdict: none is fixed in the code."""
    rows = with_misprints(monkeypatch, {"121.89": "221.89", "121.63": "111.63"})
    assert rows["R.T6.Total"].verdict == "off" and rows["R.T6.x5"].verdict == "off"
    assert rows["R.T6.eff3"].verdict == "reproduced"


def test_a_report_that_printed_the_limit_would_be_reproduced(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = with_misprints(monkeypatch, {"t_MPI+t_OMP": "t_MPI+c_seq"})
    assert (rows["R.eq6"].verdict, rows["R.eq6"].resolution) == ("reproduced", "")


@pytest.mark.parametrize("said", [p for p in PAPER.all if p.quantity != "limit"], ids=lambda p: f"{p.subject} {p.quantity} {p.at}")
def test_every_number_counts(monkeypatch: pytest.MonkeyPatch, said: Said) -> None:
    """A number that changes nothing has no place in the file."""
    assert with_misprints(monkeypatch, {said.text: f"{float(said.text) * 0.9:g}"}) != ROWS


@pytest.mark.parametrize("routine", ["Total", "Charge", "Push"])
def test_the_fit_finds_table_six_again(routine: str) -> None:
    """Runs made by the printed parameters, without noise: the law, its parameters and the cores come back."""
    alpha, beta, rate = (p.value for p in parameters(routine))
    cores = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0])
    seconds = exponential_seconds(cores, alpha, beta, rate)
    found = cores_per_gpu(Runs(routine, np.ones(6), cores, seconds, np.zeros(6), False, False, ("planted",) * 6))
    assert found.chosen is not None and found.chosen.fit.law.name == "exponential"
    assert found.chosen.fit.values[0] == pytest.approx([alpha, beta, rate], rel=1e-4)
    assert found.cores == pytest.approx(float(exponential_cores(alpha, beta, rate)), rel=1e-4)
