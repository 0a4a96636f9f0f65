"""The shipped cases: each says what it compares and why it is wrong, and the shipped card is what
they come to on the real traces.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runs import run_of

from turnbuckle.questions.validate.cases import Case, find
from turnbuckle.questions.validate.question import shipped, validate
from turnbuckle.questions.validate.rows import Row

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "validation" / "cases"
#: Libraries round differently; a prediction that moves more than this has changed.
TOLERANCE = 1e-3
#: What predictions have to beat, and what nobody explains.
BASELINES = ("nothing", "peak", "mean", "constant")


def test_every_case_says_what_it_is() -> None:
    cases = find([], CASES)
    assert len(cases) > 40 and len({c.title for c in cases}) == len(cases)
    for case in cases:
        if not case.waits:
            assert case.known and case.asks and case.b.what + case.a.what, case.name
    assert all(n.source for c in cases for n in c.measured)


def test_no_case_compares_a_file_with_itself() -> None:
    for case in find([], CASES):
        for ask in case.asks:
            apart = case.a.file != (case.b.file or "") or ask.number("up_to")
            assert case.waits or apart or case.measured or ask.model == "table", (
                f"{case.name}: an identity is no validation"
            )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-12)
    return bool(a == b)


def _key(row: Row) -> tuple[str, ...]:
    return (row.case, row.kind, row.model, row.quantity)


def test_the_shipped_card_is_what_the_cases_come_to(shared: Path) -> None:
    again = (
        "renew it: turnbuckle validate --data TRACES --format json -o "
        "src/turnbuckle/questions/validate/accuracy.json"
    )
    now = validate(find([], CASES), shared / "traces")
    computed = {_key(r): r for r in now.rows}
    card = {_key(r): r for r in shipped().rows}
    assert card.keys() == computed.keys(), again
    moved = [
        (key, name, getattr(card[key], name), getattr(row, name))
        for key, row in computed.items()
        for name in ("predicted", "measured", "low", "high", "wmape", "count", "tau", "p_value")
        if not _same(getattr(card[key], name), getattr(row, name))
    ]
    assert not moved, (again, moved[:3])
    assert [(n.case, n.code) for n in now.not_run] == [(n.case, n.code) for n in shipped().not_run]
    assert now.abouts == shipped().abouts


def test_what_waits_for_a_measurement_is_not_run_nor_is_what_no_file_states() -> None:
    """Nothing else is left out, and what cannot be said is no row without a number: one would leave
    its group without a median.
    """
    assert not [n for n in shipped().not_run if n.code != "A361"]
    assert all(row.predicted is not None for row in shipped().rows if row.tau is None)
    assert all(group.median is not None or group.orders for group in shipped().card)


def test_bad_coverage_is_said() -> None:
    """Intervals of other machines are too narrow; those of distance alone, which are made of
    measured noise, hold as often as they say.
    """
    others = replace(
        shipped(), rows=tuple(r for r in shipped().rows if r.kind not in ("distance", "bandwidth"))
    )
    assert "A363" in {f.code for f in others.findings}


def test_where_a_prediction_misses_its_case_says_why() -> None:
    silent = {
        r.case
        for r in shipped().rows
        if r.model not in BASELINES
        and (r.off or 0.0) > 0.15
        and (about := shipped().about(r.case)) is not None
        and not about.why
    }
    assert not silent


def test_the_page_holds_the_shipped_card() -> None:
    sys.path.insert(0, str(ROOT / "validation"))
    import accuracy_page  # type: ignore[import-not-found]

    assert accuracy_page.main(["--check"]) == 0
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert all(
        f"img/{name}.svg" in page and (ROOT / "docs" / "img" / f"{name}.svg").exists()
        for name in ("accuracy-by-kind", "accuracy-scatter")
    )


def test_the_data_sheet_case_is_what_transfers_says(shared: Path) -> None:
    from turnbuckle.questions.transfers.datasheet import project
    from turnbuckle.questions.transfers.question import recorded
    from turnbuckle.questions.transfers.sheet import sheet

    nsys = shared / "traces" / "nsys"
    here, there = (
        recorded(run_of(nsys / name))
        for name in (
            "cloverleaf_a100_perlmutter/perlmutter-cloverleaf-cuda.sqlite",
            "h100_2gpu_1s/h100_2gpu_1s.sqlite",
        )
    )
    projected = project(here, sheet("h100-sxm5"), there, all_of_there=True)
    (error,) = [
        e
        for e in projected.errors
        if (e.direction, e.memory, e.approach) == ("h2d", "pinned", "projected")
    ]
    rows = validate(find(["transfers_a100_to_h100"], CASES), shared / "traces").rows
    (row,) = [r for r in rows if r.model == "machine" and r.quantity.startswith("h2d pinned")]
    assert row.wmape == pytest.approx(error.wmape / 100) and row.predicted == pytest.approx(
        error.predicted
    )


def test_cases_are_small_and_hold_no_trace_but_of_our_own_recordings() -> None:
    recorded = [
        *CASES.glob("distance_*"),
        CASES / "message_delay",
        CASES / "sharing_opencl",
        CASES / "remoting_pocl",
    ]
    ours = {p for folder in recorded for p in folder.rglob("*") if p.is_file()}
    files = {p for p in CASES.rglob("*") if p.is_file()} - ours
    assert all(p.stat().st_size < 16_384 for p in files) and {p.name for p in files} == {
        "case.toml",
        "table.csv",
    }
    assert (
        ours
        and all(p.stat().st_size < 262_144 for p in ours)
        and sum(p.stat().st_size for p in ours) < 4 << 20
    )
    assert all(isinstance(c, Case) for c in find([], CASES))
