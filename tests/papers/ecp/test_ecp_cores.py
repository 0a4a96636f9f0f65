"""The ECP report's cores per GPU: verdicts follow from what is printed, and Table 6 through the
product's own fit.
"""

from __future__ import annotations

import numpy as np
import pytest
from published_rows import misprint

from turnbuckle.papers.ecp.cores import PAPER, parameters, recompute
from turnbuckle.papers.numbers import PrintedNumber, Recomputed
from turnbuckle.questions.cores.laws import exponential_cores, exponential_seconds
from turnbuckle.questions.cores.question import cores_per_gpu
from turnbuckle.questions.cores.runs import Runs

ROWS = {row.id: row for row in recompute()}


def with_misprints(
    monkeypatch: pytest.MonkeyPatch, misprints: dict[str, str]
) -> dict[str, Recomputed]:
    misprint(monkeypatch, PAPER, misprints)
    return {row.id: row for row in recompute()}


def test_the_contradiction_says_what_we_do_and_the_missing_row_what_is_missing() -> None:
    assert "D3" in ROWS["R.eq6"].resolution
    assert "Fig 31" in ROWS["R.F31"].note and "0.389" in ROWS["R.F31"].note


def test_a_verdict_follows_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another printed number, another verdict: none is fixed in the code."""
    rows = with_misprints(monkeypatch, {"121.89": "221.89", "121.63": "111.63"})
    assert rows["R.T6.Total"].verdict == "off" and rows["R.T6.x5"].verdict == "off"
    assert rows["R.T6.eff3"].verdict == "reproduced"


def test_a_report_that_printed_the_limit_would_be_reproduced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = with_misprints(monkeypatch, {"t_MPI+t_OMP": "t_MPI+c_seq"})
    assert (rows["R.eq6"].verdict, rows["R.eq6"].resolution) == ("reproduced", "")


@pytest.mark.parametrize(
    "said",
    [p for p in PAPER.all if p.quantity != "limit"],
    ids=lambda p: f"{p.subject} {p.quantity} {p.place}",
)
def test_every_number_counts(monkeypatch: pytest.MonkeyPatch, said: PrintedNumber) -> None:
    """A number that changes nothing has no place in the file."""
    assert with_misprints(monkeypatch, {said.text: f"{float(said.text) * 0.9:g}"}) != ROWS


@pytest.mark.parametrize("routine", ["Total", "Charge", "Push"])
def test_the_fit_finds_table_six_again(routine: str) -> None:
    """Runs made by the printed parameters, without noise: the law, its parameters and the cores
    come back.
    """
    alpha, beta, rate = (p.value for p in parameters(routine))
    cores = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0])
    seconds = exponential_seconds(cores, alpha, beta, rate)
    found = cores_per_gpu(
        Runs(routine, np.ones(6), cores, seconds, np.zeros(6), False, False, ("planted",) * 6)
    )
    assert found.chosen is not None and found.chosen.fit.law.name == "exponential"
    assert found.chosen.fit.values[0] == pytest.approx([alpha, beta, rate], rel=1e-4)
    assert found.cores == pytest.approx(float(exponential_cores(alpha, beta, rate)), rel=1e-4)
