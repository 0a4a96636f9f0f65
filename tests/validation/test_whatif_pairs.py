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


@pytest.mark.parametrize(
    ("group", "inside", "missed"),
    [
        ("first", {"copies", "buffer", "host"}, {"wait"}),
        ("after", {"queue", "waits"}, {"alloc", "early", "short", "loop", "long", "reads"}),
    ],
)
def test_the_page_shows_what_the_pairs_come_to(
    group: str, inside: set[str], missed: set[str]
) -> None:
    """What misses is written down as a miss, and what changed less than the runs differ counts as
    neither.
    """
    rows = held(PAIRS / "results" / group)
    assert {row.before for row in rows if row.verdict == "inside"} == inside
    assert {row.before for row in rows if row.verdict == "missed"} == missed
    assert {row.before for row in rows if row.off > row.noise} <= {"alloc", "loop", "long"}, (
        "the others are off by less than the noise"
    )
    assert table(rows) in (PAIRS / "README.md").read_text(encoding="utf-8")


def test_a_loop_moved_to_the_device_takes_what_the_kernel_of_the_same_work_takes() -> None:
    """The ratio of kernel (of the program `long`) to loop, both as they are, gives what the changed
    program took, within its runs.
    """
    after = PAIRS / "results" / "after"
    document = json.loads((after / "measured.json").read_text(encoding="utf-8"))
    parts = {name: Part(window_ns=tuple(document[name]["window_ns"])) for name in ("long", "loop")}
    long, run = (Run.read(after / name, use_cache=False, part=part) for name, part in parts.items())
    kernel = float((long.trace.kernels["end_ns"] - long.trace.kernels["start_ns"]).median())  # type: ignore[arg-type]
    phase = next(
        gain
        for gain in of_run(run, draws=0).gains
        if gain.name == "beside before clEnqueueNDRangeKernel"
    )
    ratio = kernel * 1e-9 / (phase.recorded_seconds / phase.count)
    answer = of_run(run, apply=[f"device before clEnqueueNDRangeKernel={ratio:.3g}"], draws=0)
    assert answer.together is not None
    runs = document["loop-device"]["seconds"]
    assert min(runs) < answer.together.savings[0].seconds < max(runs)


def loop(kind: str) -> Run:
    """The timed stretch of one of the programs of known shape."""
    window = json.loads((CASES / f"distance_shape_{kind}" / "measured.json").read_text())[
        "window_ns"
    ]
    return Run.read(
        CASES / f"distance_shape_{kind}" / "recording",
        use_cache=False,
        part=Part(window_ns=tuple(window)),
    )


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
