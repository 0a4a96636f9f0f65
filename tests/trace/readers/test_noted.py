"""What the profiler's notes of the host may have taken: told, bounded, and inside the range; the
run itself stays as recorded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import test_kineto as k
from refusals import codes

from turnbuckle.cli.doctor import examined
from turnbuckle.profile.summary.noted import FUNCTION_S, SHAPES_S, noted
from turnbuckle.projection.model import nething
from turnbuckle.projection.order import prepared
from turnbuckle.projection.run import Run
from turnbuckle.questions.anonymise.question import anonymise
from turnbuckle.questions.anonymise.stand_in import stand_in
from turnbuckle.trace import read
from turnbuckle.trace.merge.merge import merge

TURNS, INSIDE = 60, 40
TARGETS = ["cdi-row-link", "nvlink-c2c", "gh200"]
#: Kernels on another GPU have times only where the recording's own is known.
GPUS = [{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}]


def recording(path: Path, functions: int = INSIDE, **about: Any) -> Path:
    """Write launches 200 us apart of a program in Python: between them an operator, and so many
    calls of functions.
    """
    events: list[k.Event] = []
    for turn in range(TURNS):
        at = 200.0 * turn
        events += k.launched(at, turn + 1)
        events.append(
            {"ph": "X", "cat": "cpu_op", "name": "aten::mul", **k.HOST, "ts": at + 40, "dur": 150}
        )
        for call in range(functions):
            events.append(
                {
                    "ph": "X",
                    "cat": "python_function",
                    "name": f"f.py(1): f{call}",
                    **k.HOST,
                    "ts": at + 42 + 3 * call,
                    "dur": 2,
                }
            )
    path.write_text(k.text(events, **about))
    return path


def test_functions_and_shapes_are_counted(tmp_path: Path) -> None:
    plain = read(recording(tmp_path / "plain.json", 0))
    stacks = read(recording(tmp_path / "stacks.json"))
    shapes = read(recording(tmp_path / "shapes.json", 0, record_shapes=1))
    assert [(noted(t).functions, noted(t).shaped) for t in (plain, stacks, shapes)] == [
        (0, 0),
        (TURNS * INSIDE, 0),
        (0, TURNS),
    ]
    assert (
        noted(stacks).most_seconds == TURNS * INSIDE * FUNCTION_S
        and noted(shapes).most_seconds == TURNS * SHAPES_S
    )
    assert noted(anonymise(shapes, b"k" * 32, stand_in=stand_in)[0]).shaped == TURNS


def test_they_are_told_and_only_widen_the_range(tmp_path: Path) -> None:
    run = Run.read(recording(tmp_path / "stacks.json", deviceProperties=GPUS))
    without = Run.read(recording(tmp_path / "plain.json", 0, deviceProperties=GPUS))
    assert "P261" in codes(run) and "P261" not in codes(without)
    assert prepared(run.profile, nething()).noted > 0.1
    own = run.project(["self"]).projections[0]
    assert (
        own.seconds == run.seconds
        and own.interval is not None
        and own.interval.low == own.interval.high == run.seconds
    )
    for noted_, plain in zip(
        run.project(TARGETS).projections, without.project(TARGETS).projections, strict=True
    ):
        assert (
            noted_.seconds == plain.seconds
            and noted_.interval is not None
            and plain.interval is not None
        )
        assert (
            noted_.interval.low <= plain.interval.low * (1 + 1e-4)
            and noted_.interval.high >= plain.interval.high
        )
    c2c = (
        run.project(["nvlink-c2c"]).projections[0].interval,
        without.project(["nvlink-c2c"]).projections[0].interval,
    )
    assert c2c[0] != c2c[1], "the notes are somewhere in the range"


def test_doctor_says_why(tmp_path: Path) -> None:
    (line,) = [
        c
        for c in examined(recording(tmp_path / "stacks.json")).checks
        if c["what"] == "profiler overhead"
    ]
    assert (
        line["state"] == "look"
        and f"{TURNS * INSIDE:,} functions of Python" in line["detail"]
        and "with_stack" in line["detail"]
    )
    (plain,) = [
        c
        for c in examined(recording(tmp_path / "plain.json", 0)).checks
        if c["what"] == "profiler overhead"
    ]
    assert plain["detail"] == "not recorded"


def test_a_merged_recording_keeps_them(tmp_path: Path) -> None:
    parts = []
    for rank in range(2):
        about: dict[str, Any] = {
            "record_shapes": 1,
            "baseTimeNanoseconds": 1735632360000000000,
            "distributedInfo": {"rank": rank, "world_size": 2},
        }
        parts.append(read(recording(tmp_path / f"rank{rank}.json", rank, **about)))
    assert noted(merge(parts, clock="recorded").trace).shaped == 2 * TURNS
