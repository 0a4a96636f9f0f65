"""Sparse triangular solves of the ECP report: verdicts follow from what is printed."""

from __future__ import annotations

import pytest
from published_rows import misprint

from turnbuckle.papers.ecp.dag import PAPER, recompute
from turnbuckle.papers.models.dag.tasks import INTEGRATED
from turnbuckle.papers.models.dag.tiers import fabric
from turnbuckle.papers.numbers import PrintedNumber, Recomputed


def with_misprints(
    monkeypatch: pytest.MonkeyPatch, misprints: dict[str, str]
) -> dict[str, Recomputed]:
    misprint(monkeypatch, PAPER, misprints)
    return {row.id: row for row in recompute()}


@pytest.mark.parametrize("said", PAPER.all, ids=lambda p: f"{p.subject} {p.quantity} {p.place}")
def test_every_number_counts(monkeypatch: pytest.MonkeyPatch, said: PrintedNumber) -> None:
    """A number that changes nothing has no place in the file; one that is judged, or judged by,
    changes a verdict.
    """
    before = {row.id: row for row in recompute()}
    after = with_misprints(monkeypatch, {said.text: f"{float(said.text) * 1.37:.4g}"})
    assert after != before
    if said.subject != "SpTRSV":
        assert [row.verdict for row in after.values()] != [row.verdict for row in before.values()]


def test_verdicts_follow_from_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    after = {
        id: row.verdict
        for id, row in with_misprints(
            monkeypatch, {"828": "900", "640": "320", "0.5": "1.5"}
        ).items()
    }
    assert [after[f"R.8.4.{name}"] for name in ("blocks", "lo", "hi")] == ["off", "off", "off"]
    assert (after["R.5.4.put"], after["R.5.4.int"]) == ("reproduced", "off")


def test_the_model_takes_the_same_numbers() -> None:
    rows = {row.id: row.recomputed for row in recompute()}
    assert rows["R.5.4.int"] == pytest.approx(INTEGRATED)
    machine = fabric("summit-v100")
    assert rows["R.8.4.lo"] == pytest.approx(machine.low * 1e-9)
    assert rows["R.8.4.hi"] == pytest.approx(machine.high * 1e-9)
