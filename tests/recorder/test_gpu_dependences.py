"""Delays put in by the recorder beside delays predicted from its recording, in full, on the machine
that the stand-in plays.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from recorder_bench import Bench

GPU = Path(__file__).resolve().parents[2] / "validation" / "gpu"
sys.path.insert(0, str(GPU))

import builder  # type: ignore[import-not-found]  # noqa: E402
import predict  # type: ignore[import-not-found]  # noqa: E402
import steps  # type: ignore[import-not-found]  # noqa: E402

#: Calls of an iteration that cross to the device.
CALLS = {
    "launch": 65,
    "copy": 10,
    "synchronous": 2,
    "overlapped": 7,
    "beside": 2,
    "turn": 3,
    "reduce": 5,
}
TICK = 10e-9  # of the stand-in's clock: the look at it with which a delay begins


@pytest.fixture(scope="module")
def measured(
    bench: Bench, dependences: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """The steps `programs` and `slack` of the programs by a clock, in fewer iterations; the folder
    of results.
    """

    @cache
    def run(clock: str) -> Path:
        folder = tmp_path_factory.mktemp("measured")
        built = {
            "recorder": str(bench.library),
            "dependences": str(dependences),
            "programs": "unused",
            "cublas": "no",
        }
        few = {f"dependence_{name}": (f"{name} iters=40", 40) for name in CALLS}
        words = [
            "programs",
            "slack",
            "--only",
            "dependence_",
            "--out",
            str(folder / "out"),
            "--scratch",
            str(folder / "work"),
        ]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(steps, "machine", lambda: {"gpu": "stand-in"})
            patch.setattr(steps, "FINE_SLACKS", "0,1000,10000")
            patch.setattr(builder, "build", lambda folder, fresh=False: built)
            patch.setattr(
                steps,
                "configurations",
                lambda cublas, managed: {**few, **{n: ("none", 1) for n in LEFT_OUT}},
            )
            patch.setenv("TB_CLOCK", clock)
            assert steps.main(words) == 0
        return folder / "out"

    return run


#: Programs of which some jobs are listed by name.
LEFT_OUT = (
    "smallk_graph",
    "vecadd_small",
    "vecadd_pinned_async",
    "jacobi_check1",
    "jacobi_check10",
    "pipeline_overlap",
    "smallk_stream",
    "cg",
)


@pytest.mark.parametrize("clock", ["monotonic", "cupti"])
def test_the_whole_on_a_machine_that_stands_in(
    measured: Callable[[str], Path], tmp_path: Path, clock: str
) -> None:
    out = measured(clock)
    told = json.loads((out / "slack.summary.json").read_text())
    assert (
        told["not_ok"] == [] and told["skipped"] == [] and str(out.parent) not in json.dumps(told)
    )
    results = predict.read(out, tmp_path / "read", "h100-sxm5", "standin")
    for name, calls in CALLS.items():
        (first, *_) = results.loops[f"dependence_{name}.after"]
        # a pipeline ends with one more wait
        assert results.delayed[f"dependence_{name}.after"] == calls * first["iters"] + (
            name == "overlapped"
        )
    found = predict.predicted([results])
    assert found.not_run == () and len(found.rows) == len(CALLS) * 2
    hidden = dict.fromkeys(CALLS, 0.0)
    for row in found.rows:
        name, delay = row.case.rpartition("_")[2], float(row.quantity.split()[2]) * 1e-6
        # ticks of the clock around each delay, and the begin and end of a pipeline, which weigh by
        # the number of iterations
        allowed = 4 * TICK * CALLS[name] + (0.02 * row.measured if name == "overlapped" else 0.0)
        assert row.predicted == pytest.approx(row.measured, rel=0, abs=allowed), row
        (without, *_) = results.per_iteration(f"dependence_{name}.after", 0)
        hidden[name] = max(hidden[name], 1 - (row.measured - without) / (CALLS[name] * delay))
    assert max(abs(hidden["launch"]), abs(hidden["copy"])) < 0.02, "every delay is felt"
    assert hidden["synchronous"] > 0.4 and hidden["overlapped"] > 0.9, "the device covers them"


def test_a_program_whose_calls_are_counted_differently_is_not_predicted(
    measured: Callable[[str], Path], tmp_path: Path
) -> None:
    results = predict.read(measured("monotonic"), tmp_path / "read", "h100-sxm5", "standin")
    results.delayed["dependence_copy.after"] *= 1.5
    found = predict.predicted([results])
    assert {row.case for row in found.rows} == {
        f"slack_standin_dependence_{n}" for n in CALLS if n != "copy"
    }
    (left,) = found.not_run
    assert (
        left.case.endswith("copy")
        and "delays 15 calls an iteration, the recording holds 10" in left.why
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run"], "launch "),
        (["copy", "iters=0"], "iters: a number"),
        (["copy", "iters=1x"], "iters: a number"),
        (["copy", "iter=5"], "not one of"),
        (["copy", "slacks=1,soon"], "delays in ns"),
        (["copy", "slacks=0,10"], "needs the recorder"),
    ],
)
def test_programs_refuse_words_they_do_not_know(
    dependences: Path, words: list[str], says: str
) -> None:
    done = subprocess.run([dependences, *words], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and says in done.stdout + done.stderr


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        b'{"marks": 5}',
        b'{"marks": [{"label": "a", "calls": {}}]}',
        b'{"marks": [1, 2]}',
        b"\xff",
    ],
)
def test_counts_that_are_none(raw: bytes) -> None:
    assert predict.calls_of(raw) is None
