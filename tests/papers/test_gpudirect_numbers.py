"""GPUDirect in TraceR-CODES: verdicts follow from what is printed."""

from __future__ import annotations

import pytest
from published_rows import misprint

from turnbuckle.papers.gpudirect.numbers import PAPER, recompute


def test_switches_that_do_not_share_the_nodes_evenly_are_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    misprint(monkeypatch, PAPER, {"45": "46"})
    assert {r.id: r.verdict for r in recompute()}["G.leaf"] == "off"


def test_verdicts_follow_from_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {r.id: r for r in recompute()}
    misprint(
        monkeypatch,
        PAPER,
        {"9.1": "19.1", "227": "118", "0.07": "0.0133", "810": "855", "77": "177"},
    )
    after = {r.id: r for r in recompute()}
    assert (before["G.SW4.32"].verdict, after["G.SW4.32"].verdict) == ("reproduced*", "off")
    assert (before["G.SW4.hi"].verdict, after["G.SW4.hi"].verdict) == (
        "contradiction",
        "reproduced",
    )
    assert (before["G.T1.bw"].verdict, after["G.T1.bw"].verdict) == ("off", "reproduced")
    assert (before["G.obs.sp"].verdict, after["G.obs.sp"].verdict) == ("reproduced*", "off")
    assert after["G.leaf"].recomputed == 19.0
