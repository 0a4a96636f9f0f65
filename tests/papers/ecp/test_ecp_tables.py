"""The ECP report's tables: verdicts follow from what is printed; and its inputs against
themselves.
"""

from __future__ import annotations

import re

import pytest
from published_rows import misprint

from turnbuckle.papers.ecp import tables as ecp_tables
from turnbuckle.papers.ecp.tables import PAPER, recompute
from turnbuckle.papers.numbers import printed

ROWS = {row.id: row for row in recompute()}


def test_every_row_says_why_and_every_contradiction_what_we_do() -> None:
    for row in ROWS.values():
        assert row.note and "\n" not in row.note and len(row.note) < 160, row.id
        assert (row.verdict == "contradiction") == bool(re.match(r"D\d+", row.resolution)), row.id


def test_the_verdict_follows_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """No verdict is written down: with another printed number another one comes out."""
    misprint(monkeypatch, PAPER, {("Epsilon", "disaggregation penalty"): "5.84"})
    rows = {row.id: row for row in recompute()}
    assert rows["R.T3.dis"].verdict == "reproduced" and rows["R.T3.dis2"].verdict == "off"
    misprint(
        monkeypatch,
        PAPER,
        {
            (said.subject, said.quantity): "1.3"
            for said in PAPER.all
            if said.quantity == "share of MPI"
        },
    )
    assert {row.id: row for row in recompute()}["R.T3.mpi"].verdict == "reproduced"


def test_inputs_are_the_papers() -> None:
    """Every number is a plain one, stands once, and has its place; tables add to their own
    subtotals where they do in the paper.
    """
    seen = set()
    for said in PAPER.all:
        assert said.source.startswith(("Table", "section", "sections")) and said.unit, said
        assert (said.subject, said.quantity, said.place) not in seen, said
        seen.add((said.subject, said.quantity, said.place))
        for text in said.text.split("–") if "/" not in said.text else ():
            printed(text)
    assert len([s for s in PAPER.all if s.place == "Table 13"]) == 57
    for app, kinds in (
        ("Epsilon", ("control",)),
        ("Sigma", ("GPU", "control", "data")),
        ("GTC-P", ("GPU", "control", "data")),
    ):
        for kind in kinds:
            rows = [float(t) for t in PAPER.texts(app, f"{kind} function, time").values()]
            assert sum(rows) == pytest.approx(float(PAPER.text(app, "time", kind)), abs=0.006), (
                app,
                kind,
            )


def test_gtcp_closes_only_without_its_waits() -> None:
    terms = [i.value for i in ecp_tables.gtcp_terms()]
    totals = ecp_tables.gtcp(*terms)
    total = float(PAPER.text("GTC-P", "time", "total"))
    assert totals.counted == pytest.approx(total, abs=1e-9) and totals.summed > 1.6 * total
