"""Table 13: every printed cell is there, agrees with the rows behind it, and the page shows today's
numbers.
"""

from __future__ import annotations

import json
import math
import re
import runpy
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from turnbuckle.cost.ratio import tied_penalty
from turnbuckle.papers import table_13 as table
from turnbuckle.papers.ecp.tables import PAPER
from turnbuckle.papers.numbers import printed
from turnbuckle.papers.reproduce import reproduce
from turnbuckle.papers.table_13 import TECHNOLOGIES, Cell, Statement, statements, table_13

PAGE = Path(__file__).resolve().parents[2] / "docs" / "table-13.md"
#: What every worker collects comes from the table as printed; recomputing it takes seconds, and is
#: left to the tests.
PRINTED = {(s.subject, s.quantity): s.text for s in PAPER.all if s.place == "Table 13"}


@cache
def cells() -> dict[tuple[str, str], Cell]:
    """The recomputed cells, by application and technology."""
    return {(cell.application, cell.technology): cell for cell in table_13()}


@cache
def rewritten() -> Callable[[str], str]:
    """The manual's function that renews the tables of the page."""
    return runpy.run_path(str(PAGE.with_name("table_13_page.py")))["rewritten"]  # type: ignore[no-any-return]


@cache
def sentence(what: str) -> Statement:
    """One sentence of section 11."""
    return {s.what: s for s in statements()}[what]


def test_every_printed_cell_is_there_once() -> None:
    assert {key: cell.printed for key, cell in cells().items()} == PRINTED and len(
        table_13()
    ) == len(cells()) == 57
    assert [c.technology for c in table_13()] == sorted(
        (c.technology for c in table_13()), key=TECHNOLOGIES.index
    )


@pytest.mark.parametrize("key", PRINTED, ids=" ".join)
def test_a_cell_holds_together(key: tuple[str, str]) -> None:
    """A number has an interval around it; a cell without one says what is missing; both name link,
    change and method (D17).
    """
    cell = cells()[key]
    assert cell.link and cell.change and cell.method and cell.note
    assert (cell.recomputed is None) == (cell.verdict == "n/r")
    if cell.recomputed is None:
        assert cell.low is None and cell.high is None
        assert "–" in cell.printed or cell.number.low <= float(cell.printed) <= cell.number.high
        return
    assert (
        cell.low is not None and cell.high is not None and cell.low <= cell.recomputed <= cell.high
    )
    overlaps = "–" in cell.printed or (
        cell.low <= printed(cell.printed).high + 1e-9
        and cell.high >= printed(cell.printed).low - 1e-9
    )
    assert (
        overlaps == (cell.verdict in ("reproduced", "reproduced*"))
        or cell.verdict == "contradiction"
    )


def test_no_verdict_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Castro's penalty is contradicted by another table, and by nothing if the row that says so
    holds.
    """
    rows = {row.id: row.now for row in reproduce(("ecp",))}
    agreed = replace(rows["R.T13.Castro"], verdict="reproduced")  # type: ignore[type-var]
    monkeypatch.setattr(table, "_row", lambda id: agreed if id == "R.T13.Castro" else rows[id])
    (castro,) = (
        c
        for c in table._cells.__wrapped__()
        if (c.application, c.technology) == ("Castro", "disaggregation penalty")
    )
    assert castro.verdict == "reproduced"


def test_cells_agree_with_the_rows_of_reproduce() -> None:
    rows = {row.id: row.now for row in reproduce(("ecp",))}
    for id, key in (
        ("R.T2.WarpX", ("WarpX", "CPU-GPU integration")),
        ("R.T4.int", ("Sigma", "CPU-GPU integration")),
        ("R.T11.PeleC", ("PeleC", "disaggregation penalty")),
        ("R.T13.GTCP", ("GTC-P", "disaggregation penalty")),
        ("R.T12.MFIX", ("MFiX", "GPU-GPU integration")),
        ("R.T13.sig", ("Sigma", "GPU-GPU integration")),
        ("R.T6.Total", ("GTC-P", "CPU cores a GPU")),
        ("R.10.x", ("ORNLapp", "FPGA-GPU integration")),
        ("R.SSI.MiniVite.NVLink2", ("MiniVite", "disaggregation penalty")),
    ):
        row = rows[id]
        assert (
            row is not None
            and cells()[key].recomputed == pytest.approx(row.recomputed)
            and cells()[key].verdict == row.verdict
        ), id
    for id, key in (
        ("R.T13.Castro", "Castro"),
        ("R.AGO.LAMMPS", "LAMMPS"),
        ("R.AGO.OpenMC", "OpenMC"),
    ):
        row = rows[id]
        assert (
            row is not None
            and cells()[key, "disaggregation penalty"].verdict == row.verdict == "contradiction"
        )


def test_seven_applications_hold_one_number_twice() -> None:
    """Where both columns come from the same terms, the penalty follows from the gain."""
    for app in ("Epsilon", "Sigma", "GTC-P"):
        gain, penalty = (
            cells()[app, t].recomputed for t in ("CPU-GPU integration", "disaggregation penalty")
        )
        assert gain is not None and penalty == pytest.approx(
            float(tied_penalty(gain, 10)), rel=1e-9
        ), app
    for app in ("PeleC", "MFiX", "Castro", "WarpX"):
        gain, penalty = (
            cells()[app, t].recomputed for t in ("CPU-GPU integration", "disaggregation penalty")
        )
        assert (
            gain is not None
            and penalty is not None
            and penalty > float(tied_penalty(gain, 10)) + 1e-4
        ), app
    ssi = [cell for cell in table_13() if cell.method == "affine law for SSI"]
    assert [cell.application for cell in ssi] == ["SW4Lite", "MiniVite", "Laghos", "QuickSilver"]
    assert [cell.link.split(",")[0] for cell in ssi] == [
        "PCIe 4",
        "NVLink 2",
        "NVLink 2 and PCIe 4 alike",
        "PCIe 4",
    ]


def test_headlines() -> None:
    median = sentence("median gain of CPU-GPU integration [%]")
    assert (
        median.said == "30"
        and median.printed_cells == pytest.approx(30)
        and 35.5 < median.recomputed_cells < 36.5
    )
    third = sentence("applications that gain more than 1.9x [%]")
    assert third.printed_cells == pytest.approx(
        100 * 2 / 15
    ) and third.recomputed_cells == pytest.approx(100 * 5 / 15)
    apart = sentence("median penalty of disaggregation [x]")
    assert apart.printed_cells == 2.5 and apart.recomputed_cells == pytest.approx(2.844, abs=2e-3)
    assert apart.bounds_as_printed == pytest.approx(2.542, abs=2e-3)
    fivefold = sentence("applications slowed down more than 5x [%]")
    assert (fivefold.printed_cells, fivefold.recomputed_cells, fivefold.bounds_as_printed) == (
        31.25,
        37.5,
        31.25,
    )
    for s in statements():
        assert s.low - 1e-9 <= s.recomputed_cells <= s.high + 1e-9, s.what


def test_intervals_of_statements_are_the_extremes_of_the_cells() -> None:
    """The median gain again, from the cells by hand."""
    known = [cell.number for cell in table_13() if cell.technology == "CPU-GPU integration"]
    low, high = (statistics.median(getattr(k, end) for k in known) for end in ("low", "high"))
    s = sentence("median gain of CPU-GPU integration [%]")
    assert (s.low, s.high) == (pytest.approx(100 * (low - 1)), pytest.approx(100 * (high - 1)))
    assert all(
        cell.number.low == cell.number.high
        for cell in table_13()
        if cell.technology == "CPU cores a GPU"
        and cell.printed.isdigit()
        and cell.recomputed is None
    )


def test_rows_for_json() -> None:
    rows = [cell.as_dict() for cell in table_13()]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert [(row["application"], row["high"]) for row in rows if row["bound"]] == [
        ("LAMMPS", None),
        ("OpenMC", None),
    ]
    assert math.isinf(cells()["LAMMPS", "disaggregation penalty"].high or 0)


def test_the_page_is_current() -> None:
    text = PAGE.read_text(encoding="utf-8")
    marks = Counter(re.findall(r"<!-- (/?[^>]+?) -->", text))
    assert marks == Counter([name for t in (*TECHNOLOGIES, "section 11") for name in (t, f"/{t}")])
    assert rewritten()(text) == text, "run: python docs/generate.py"
    assert len(re.findall(r"^\| \w", text, re.MULTILINE)) == 57 + len(statements()) + 7


def test_a_stale_page_is_found() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert rewritten()(text.replace("1.36", "1.30")) != text.replace("1.36", "1.30")
