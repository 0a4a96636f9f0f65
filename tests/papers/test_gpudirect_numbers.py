"""GPUDirect in TraceR-CODES: what is printed stands in the paper, and verdicts follow from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnbuckle.papers.gpudirect import numbers as gpudirect
from turnbuckle.papers.gpudirect.numbers import PAPER, recompute


def test_every_number_stands_in_the_paper(shared: Path) -> None:
    (paper,) = (shared / "seeds").glob("003_*.txt")
    text = paper.read_text(encoding="utf-8")
    assert [p for p in PAPER.all if p.text not in text] == []


def test_switches_that_do_not_share_the_nodes_evenly_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    class Changed(type(PAPER)):  # type: ignore[misc]
        def texts(self, subject: str, quantity: str) -> dict[str, str]:
            return {at: "46" if text == "45" else text for at, text in super().texts(subject, quantity).items()}

    monkeypatch.setattr(gpudirect, "PAPER", Changed("gpudirect/numbers"))
    assert {r.id: r.verdict for r in recompute()}["G.leaf"] == "off"


def test_verdicts_follow_from_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    misprints = {"9.1": "19.1", "227": "118", "0.07": "0.0133", "810": "855", "77": "177"}

    class Changed(type(PAPER)):  # type: ignore[misc]
        def texts(self, subject: str, quantity: str) -> dict[str, str]:
            return {at: misprints.get(text, text) for at, text in super().texts(subject, quantity).items()}

    before = {r.id: r for r in recompute()}
    monkeypatch.setattr(gpudirect, "PAPER", Changed("gpudirect/numbers"))
    after = {r.id: r for r in recompute()}
    assert (before["G.SW4.32"].verdict, after["G.SW4.32"].verdict) == ("reproduced*", "off")
    assert (before["G.SW4.hi"].verdict, after["G.SW4.hi"].verdict) == ("contradiction", "reproduced")
    assert (before["G.T1.bw"].verdict, after["G.T1.bw"].verdict) == ("off", "reproduced")
    assert (before["G.obs.sp"].verdict, after["G.obs.sp"].verdict) == ("reproduced*", "off")
    assert after["G.leaf"].recomputed == 19.0
