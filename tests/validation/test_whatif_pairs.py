"""What `whatif` says of programs that were recorded with and without an edit, misses among it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from turnbuckle.projection.run import Run
from turnbuckle.questions.whatif.question import of_run
from turnbuckle.trace.window import Part

ROOT = Path(__file__).resolve().parents[2]
PAIRS = ROOT / "validation" / "whatif"
CASES = ROOT / "validation" / "cases"
sys.path.insert(0, str(PAIRS))

from hold_pairs import held, table  # type: ignore[import-not-found]  # noqa: E402


def predicted(run: Run, edit: str) -> tuple[float, float]:
    """Run time by the end of most gain and of least gain [s]."""
    saving = next(gain for gain in of_run(run, draws=0).gains if gain.name == edit).savings[0]
    return saving.most_seconds, saving.least_seconds


def test_the_page_shows_what_the_pairs_come_to() -> None:
    """What misses is written down as a miss."""
    rows = held(PAIRS / "results" / "first")
    assert {row.before for row in rows if not row.inside} == {"wait"}
    assert table(rows) in (PAIRS / "README.md").read_text(encoding="utf-8")
    for row in rows:
        assert row.most is None or row.most < row.measured * 1.15, "no promise is far beyond what came"


def loop(kind: str) -> Run:
    """The timed stretch of one of the programs of known shape."""
    window = json.loads((CASES / f"distance_shape_{kind}" / "measured.json").read_text())["window_ns"]
    return Run.read(CASES / f"distance_shape_{kind}" / "recording", use_cache=False, part=Part(window_ns=tuple(window)))


def test_launches_ahead_are_what_the_program_without_waits_comes_to() -> None:
    """A launch and a wait, 300 turns; the same with a wait every fifty, 1,000 turns."""
    most, least = predicted(loop("sync"), "wait clFinish")
    assert most / 300 < loop("async").seconds / 1000 < least / 300
    assert most / 300 == pytest.approx(62.9e-6, rel=0.01)


def test_waits_that_are_left_out_take_along_what_they_take_besides(shared: Path) -> None:
    """Report 16 is report 3 without its 2,559 waits, of which 553 wait for anything."""
    nsys = shared / "traces" / "nsys"
    before, after = (nsys / f"balinski_gomory_r{n}" / f"report{n}.sqlite" for n in (3, 16))
    if not before.exists() or not after.exists():
        pytest.skip("the shared recordings are not here")
    most, least = predicted(Run.read(before, part=Part(of="kernels")), "wait cudaDeviceSynchronize")
    assert (most, least) == pytest.approx((65.62e-3, 71.42e-3), rel=1e-3)
    measured = Run.read(after, part=Part(of="kernels")).seconds
    assert measured == pytest.approx(66.92e-3, rel=1e-3)
    assert most < measured < least
