"""Natural experiments: exact on pairs made to order, waiting is never taken for a cost, the page
holds what the program prints.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from turnbuckle.questions.validate.cases import find
from turnbuckle.questions.validate.question import validate
from turnbuckle.trace.trace import Trace, dtypes

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "validation" / "natural"))

import experiments  # type: ignore[import-not-found]  # noqa: E402
import parts  # type: ignore[import-not-found]  # noqa: E402

PROCESS = 7 << 24
CALLS = {
    "cudaMalloc": 900_000,
    "cudaLaunchKernel": 4_000,
    "cudaDeviceSynchronize": 1_500,
    "cudaMemcpyFromSymbol": 3_000,
}
NAMES = [*CALLS, "early", "late"]
GAP, DELIVERY, BACK, COPY = 600, 5_000, 1_100, 1_300
LATE = 9_000


class Program:
    """Calls of one thread and the work they start on one stream, in the order a device would run
    it.
    """

    def __init__(self) -> None:
        self.now, self.free, self.number = 1_000_000, 0, 0
        self.rows: dict[str, list[dict[str, Any]]] = {"api": [], "kernels": [], "copies": []}

    def call(self, name: str, work_ns: int = 0, kernel: str = "", size_bytes: int = 0) -> None:
        begin, self.number = self.now, self.number + 1
        usual = {"process": PROCESS, "correlation": self.number}
        end = begin + CALLS[name]
        if work_ns:
            self.free = max(begin + DELIVERY, self.free) + work_ns
            where = {
                **usual,
                "device": 0,
                "context": 1,
                "stream": 7,
                "start_ns": self.free - work_ns,
                "end_ns": self.free,
            }
            moved = {
                "size_bytes": size_bytes,
                "direction": 2,
                "source_memory": 3,
                "target_memory": 2,
            }
            self.rows["kernels" if kernel else "copies"].append(
                {**where, "name": NAMES.index(kernel)} if kernel else {**where, **moved}
            )
        if name in ("cudaDeviceSynchronize", "cudaMemcpyFromSymbol"):
            end = max(end, self.free + BACK)
        self.rows["api"].append(
            {
                **usual,
                "thread": PROCESS | 7,
                "start_ns": begin,
                "end_ns": end,
                "name": NAMES.index(name),
                "result": 0,
                "level": 0,
            }
        )
        self.now = end + GAP

    @property
    def trace(self) -> Trace:
        tables = {
            name: pl.DataFrame(
                {c: [row.get(c) for row in rows] for c in dtypes(name)}, schema=dtypes(name)
            ).sort("start_ns")
            for name, rows in self.rows.items()
        }
        return Trace(
            tables,
            pl.Series("name", NAMES),
            {"format": "toy", "tables": {}, "sha256": "0" * 64, "size_bytes": 0},
            [],
            "toy",
        )


def made(
    early: int = 7_000,
    late: int = LATE,
    waits: bool = True,
    turns: int = 12,
    allocates: tuple[int, ...] = (0,),
) -> Trace:
    """Turns of a launch, perhaps a wait, a second launch, and a blocking copy; memory is allocated
    before some turns.
    """
    program = Program()
    for turn in range(turns):
        if turn in allocates:
            program.call("cudaMalloc")
        program.call("cudaLaunchKernel", early, "early")
        if waits:
            program.call("cudaDeviceSynchronize")
        program.call("cudaLaunchKernel", late, "late")
        program.call("cudaMemcpyFromSymbol", COPY, size_bytes=4)
    program.call("cudaMalloc")
    return program.trace


def part(trace: Trace, phase: int | None = None) -> Any:
    return parts.prepare(parts.cut(trace, phase))


@pytest.mark.parametrize(("early", "late"), [(14_000, 9_000), (7_000, 90_000), (7_500, 30_000)])
def test_other_kernel_times_are_predicted_exactly(early: int, late: int) -> None:
    source, target = part(made()), part(made(early, late))
    change = parts.changed(source, parts.costs(source), parts.costs(target), frozenset({"kernels"}))
    assert math.isclose(parts.by_timeline(source, change), target.seconds, abs_tol=2e-9)
    assert not math.isclose(source.seconds, target.seconds, abs_tol=1e-6)


# the second launch waits for its own delivery, or for the first kernel
@pytest.mark.parametrize("early", [500, 7_000])
def test_waits_taken_out_are_predicted_exactly(early: int) -> None:
    source, target = part(made(early)), part(made(early, waits=False))
    edited = parts.without(source, "cudaDeviceSynchronize")
    nothing = parts.changed(edited, parts.costs(edited), parts.Costs(), frozenset())
    assert math.isclose(parts.by_timeline(edited, nothing), target.seconds, abs_tol=2e-9)
    assert target.seconds < 0.95 * source.seconds
    # the sum keeps the copy's delivery where it was exposed: it may only see part of the change,
    # and no more than all of it
    summed, alone = parts.by_sum(edited, parts.costs(edited), nothing)
    assert alone <= summed < source.seconds


def test_waiting_is_no_cost() -> None:
    """Longer kernels make every wait longer; of the costs only the kernels' own may show it."""
    short, long = parts.costs(part(made())), parts.costs(part(made(late=5 * LATE)))
    assert long.kernels == pytest.approx({"early": 7e-6, "late": 5 * LATE * 1e-9})
    for name in ("calls", "gaps", "delivery", "back", "copies"):
        assert getattr(short, name) == pytest.approx(getattr(long, name)), name
    assert short.gaps == pytest.approx({"gap": GAP * 1e-9}) and short.delivery[
        "cudaLaunchKernel"
    ] == pytest.approx(DELIVERY * 1e-9)
    assert short.back["cudaDeviceSynchronize"] == pytest.approx(
        BACK * 1e-9
    ) and short.copies == pytest.approx({"copy_d2h 1": COPY * 1e-9})


def test_costs_of_calls_that_are_gone_do_not_count() -> None:
    edited = parts.without(part(made()), "cudaDeviceSynchronize")
    assert "cudaDeviceSynchronize" not in parts.costs(edited).calls
    assert parts.costs(edited).gaps == pytest.approx({"gap": GAP * 1e-9})


def test_a_cut_begins_with_the_first_work_and_ends_with_the_last() -> None:
    whole = made(turns=3)
    found = parts.cut(whole)
    assert found.api.height == whole.api.height - 2 and found.kernels.height == 6
    assert whole.names[int(found.api["name"][0])] == "cudaLaunchKernel"
    assert (
        part(whole).profile.last_ns
        == int(found.api["end_ns"].to_numpy().max())
        > int(found.copies["end_ns"].to_numpy().max())
    )
    assert not found.syncs.height and found.table("kernels").equals(whole.table("kernels"))


def test_phases_lie_between_allocations() -> None:
    whole = made(turns=5, allocates=(0, 2))
    lengths = [parts.cut(whole, phase).kernels.height for phase in (1, 2)]
    assert lengths == [4, 6] and parts.cut(whole).kernels.height == 10
    with pytest.raises(ValueError, match="2 phases"):
        parts.cut(whole, 3)
    with pytest.raises(ValueError, match="no device work"):
        parts.cut(replace(whole, tables={"api": whole.api}))


def test_a_law_is_a_straight_line_and_never_negative() -> None:
    small, large = (
        parts.Costs(kernels={"k": 2.0, "only here": 1.0}),
        parts.Costs(kernels={"k": 3.0}, copies={"c": 1.0}),
    )
    assert experiments.line(small, large, experiments.Law("", 1, 2, 4)).kernels == {"k": 5.0}
    assert experiments.line(large, small, experiments.Law("", 1, 2, 10)).kernels == {"k": 0.0}
    assert experiments.line(small, large, experiments.Law("", 1, 2, 4)).copies == {}


def test_tables_replace_what_stands_between_the_marks() -> None:
    first, second = experiments.MARKS
    page = experiments.placed(f"a\n{first}old\n{second}b\n", "new\n")
    assert page == f"a\n{first}\nnew\n\n{second}b\n" and experiments.placed(page, "new\n") == page
    assert experiments.placed("no marks", "new\n") == "new\n"


def test_a_folder_without_recordings_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert experiments.main([str(tmp_path)]) == 2
    assert "rodinia_gaussian_rtx3090_a" in capsys.readouterr().err


@pytest.fixture(scope="module")
def recordings(shared: Path) -> Any:
    return experiments.Recordings(shared)


@pytest.fixture(scope="module")
def results(recordings: Any) -> list[Any]:
    """Every experiment, on its real recordings."""
    return [experiments.run(experiment, recordings) for experiment in experiments.EXPERIMENTS]


def test_cases_of_variants_are_experiments(results: list[Any], shared: Path) -> None:
    names = ("variant_rodinia_ab", "variant_balinski_waits")
    rows = {
        (r.case, r.kind, r.quantity): r
        for r in validate(find(names, ROOT / "validation" / "cases"), shared / "traces").rows
    }
    for index, case, kind in ((0, names[0], "replay"), (2, names[1], "variants")):
        for replay, seconds in (
            ("timeline", results[index].timeline),
            ("sum", results[index].summed),
        ):
            row = rows[case, kind, f"part that uses the GPU, {replay}"]
            assert row.predicted == pytest.approx(
                seconds, rel=1e-9
            ) and row.measured == pytest.approx(results[index].measured, rel=1e-12)


@pytest.mark.shared
def test_the_page_holds_what_the_real_recordings_give(
    results: list[Any], recordings: Any, shared: Path
) -> None:
    for result in results:
        source = recordings.part(result.experiment.source, result.experiment.phase)
        own = parts.costs(source)
        same = parts.changed(source, own, own, frozenset(parts.PARAMETERS))
        assert math.isclose(parts.by_timeline(source, same), source.seconds, rel_tol=1e-12), (
            result.experiment
        )
        assert np.allclose(parts.by_sum(source, own, same), source.seconds, rtol=1e-12), (
            result.experiment
        )
        assert result.timeline > 0 and 0 <= result.explained <= 1
    figures = experiments.table(results)
    assert figures.height == len(experiments.EXPERIMENTS) and not any(
        figures.drop("phase").null_count().row(0)
    )
    page = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")
    made_now = experiments.placed(page, experiments.markdown(results, experiments.left_out(shared)))
    assert page == made_now, (
        "run: python validation/natural/experiments.py ../shared -o docs/validation.md"
    )
