"""SSI and AgoChart: the laws behind what they printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from published_rows import misprint
from runs import run_of

from turnbuckle.papers.ecp import simulators as ecp_simulators
from turnbuckle.papers.ecp.simulators import (
    AGOCHART,
    PAPER,
    SSI,
    forced_penalty,
    implied_penalty,
    recompute,
    stretch,
    table_link,
)
from turnbuckle.papers.models.bound.affine import bound_on, least_penalty
from turnbuckle.papers.numbers import printed
from turnbuckle.questions.distance.question import tolerate

ROOT = Path(__file__).resolve().parents[3]
#: Real runs in the page's table, and their files.
REAL = {
    "cloverleaf_a100_perlmutter": "perlmutter-cloverleaf-cuda.sqlite",
    "jacobi_gh200": "jacobi_report.sqlite",
    "gtls_rtx3060": "report1.sqlite",
    "softmax_uvm_t4": "report2.sqlite",
}
ROWS = {row.id: row for row in recompute()}


def test_every_row_says_why_and_every_contradiction_what_we_do() -> None:
    for row in ROWS.values():
        assert row.note and "\n" not in row.note, row.id
        assert (row.verdict == "contradiction") == bool(re.match(r"D\d+", row.resolution)), row.id


def test_one_law_for_all_seven_pairs() -> None:
    """With any other stretch than 16 to 50/3 some pair falls off it: the law says something."""
    assert (stretch().low, stretch().high) == (16, pytest.approx(50 / 3))
    pairs = [(app, link) for app in SSI for link in PAPER.texts(app, "benefit")]
    assert len(pairs) == 7 and all(
        ROWS[f"R.SSI.{app}.{link}"].verdict == "reproduced*" for app, link in pairs
    )
    for app, link in (("MiniVite", "NVLink2"), ("MiniVite", "PCIe4")):
        benefit, penalty = PAPER.number(app, "benefit", link), PAPER.number(app, "penalty", link)
        for k in (10.0, 14.0, 19.0, 48.0):
            low, high = (float(bound_on(k, 0, 1, b)) for b in (benefit.low, benefit.high))
            assert high < penalty.low or low > penalty.high, (app, link, k)
    assert implied_penalty(printed("1.00")).low <= 1.0


def test_links_of_table_13() -> None:
    assert {app: table_link(app) for app in SSI[:3]} == {
        "SW4Lite": "PCIe4",
        "MiniVite": "NVLink2",
        "QuickSilver": "PCIe4",
    }


def test_bounds_of_agochart() -> None:
    assert [round(forced_penalty(app).value, 2) for app in AGOCHART] == [1.0, 2.74, 7.64]
    near, now, longest = ecp_simulators.latencies()
    assert (near, now, longest) == (pytest.approx(1e-5), pytest.approx(1e-4), pytest.approx(1e-3))
    assert "821 us" in ROWS["R.AGO.LAMMPS"].note and "161 us" in ROWS["R.AGO.OpenMC"].note


def test_a_penalty_above_its_bound_is_reproduced(monkeypatch: pytest.MonkeyPatch) -> None:
    misprint(monkeypatch, ecp_simulators.TABLES, {("OpenMC", "disaggregation penalty"): "7.7"})
    assert {row.id: row.verdict for row in recompute()}["R.AGO.OpenMC"] == "reproduced*"


@pytest.mark.parametrize("name", sorted(REAL))
def test_the_bound_holds_on_real_runs(shared: Path, name: str) -> None:
    folder = shared / "traces" / "nsys" / name
    seen = run_of(folder / REAL[name])
    page = (ROOT / "docs" / "models" / "simulators.md").read_text(encoding="utf-8")
    for mode in ("link", "api"):
        near, now, far = (float(tolerate(seen, mode, draws=0).curve(x)) for x in (1e-5, 1e-4, 1e-3))
        bound = float(least_penalty(now / near, 1e-5, 1e-4, 1e-3))
        assert far / now >= bound * (1 - 1e-9)
        (shown,) = re.findall(rf"^\| {name} \| {mode} \| (.*) \|$", page, re.MULTILINE)
        assert [float(n) for n in shown.split(" | ")] == pytest.approx(
            [now / near, bound, far / now], abs=2e-3
        ), (name, mode)
