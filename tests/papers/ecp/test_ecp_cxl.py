"""Every number on CXL and ORNLapp against its recorded verdict, and the chain that they describe."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from published_rows import verdict_of

from turnbuckle.papers.ecp.cxl import PAPER, ornlapp, recompute
from turnbuckle.papers.models.cxl.cost import pipeline_seconds

IDS = (
    "R.eq10.bw", "R.CXL.ts", "R.CXL.scan", "R.CXL.x1", "R.CXL.x2", "R.CXL.rel", "R.CXL.inv", "R.10.2.off", "R.10.2.app", "R.10.2.tk",
    "R.10.2.tk2", "R.10.2.seventh", "R.10.x", "R.4.8.2.div", "R.10.2.rd", "R.13",
)  # fmt: skip


def test_every_row_is_there_once() -> None:
    assert sorted(r.id for r in recompute()) == sorted(IDS)


def test_verdicts_and_numbers_are_the_recorded_ones(shared: Path) -> None:
    with (shared / "reference" / "published.csv").open(encoding="utf-8", newline="") as file:
        recorded = {row["id"]: row for row in csv.DictReader(file)}
    for row in recompute():
        wanted = recorded[row.id]
        assert row.verdict == verdict_of(wanted), row
        if isinstance(row.recomputed, float):
            assert row.recomputed == pytest.approx(float(wanted["recomputed"]), rel=2e-3), row
            assert row.deviation == pytest.approx(float(wanted["rel_dev"]), abs=2e-3), row
        if row.verdict in ("off", "n/r", "reproduced*"):
            assert row.note


def test_the_identification_says_what_it_found() -> None:
    found = {r.id: r for r in recompute()}
    assert found["R.CXL.ts"].recomputed == "696..751 | 734..739 | 737..745 -> 736.7..739.1 ns"
    assert found["R.CXL.scan"].recomputed == "18 of 144: both at MPS 256, both at MPS 512, write at MPS 256"


def test_ornlapp_reaches_what_equation_12_allows_and_not_what_is_printed() -> None:
    played = ornlapp()
    pipelined = next(f for f in played.flows if f.through == "host" and f.pipelined)
    stage = float(PAPER.text("ORNLapp", "slowest stage of the pipeline"))
    assert pipelined.seconds == pytest.approx(pipelined.first_seconds + 98 * stage, rel=1e-12)
    assert pipelined.seconds < float(pipeline_seconds([stage] * 3, 99)), "only the longest stage takes that long"
    gain = played.today.seconds / min(f.seconds for f in played.flows)
    assert 1.09 < gain < 1.12, "the rest of the printed 1.48 is time that the paper does not break down"
