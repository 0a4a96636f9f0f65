"""Device work without its host calls: refused where it is most of the work, said where it is
some.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from refusals import refused
from strategies import trace_of

from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.profile.profile import Profile, build
from turnbuckle.projection.admission import require_activity, require_calls
from turnbuckle.projection.assumptions import uncalled
from turnbuckle.projection.run import Run

NAMES = pl.Series("name", ["cudaLaunchKernel", "k"])
PROCESS = 7 << 24


def run(called: int, alone: int, **facts: Any) -> Profile:
    """A profile of kernels of 100 ns: so many with a call, so many without."""
    where = {"process": PROCESS, "thread": PROCESS | 1, "result": 0, "level": 0, "name": 0}
    api = [
        {"start_ns": 1_000 * i, "end_ns": 1_000 * i + 50, "correlation": i, **where}
        for i in range(1, called + 1)
    ]
    on_device = {"process": PROCESS, "device": 0, "context": 1, "stream": 7, "name": 1}
    kernels = [
        {
            "start_ns": 1_000 * i + 60,
            "end_ns": 1_000 * i + 160,
            "correlation": i if i <= called else None,
            **on_device,
        }
        for i in range(1, called + alone + 1)
    ]
    made = trace_of({"api": api, "kernels": kernels})
    return build(replace(made, names=NAMES, facts={**made.facts, **facts}))


def test_most_of_the_work_must_have_its_call() -> None:
    require_calls(run(50, 50))
    assert "49% of their time" in refused("A140", require_calls, run(49, 51)).found
    require_calls(run(10, 20))
    error = refused("A140", require_calls, run(0, 1))
    assert "without the calls" in error.found, "no call at all is refused whatever its size"


def test_a_part_may_have_its_calls_before_it() -> None:
    require_calls(run(10, 90, part={"bounds_ns": [0, 1]}))


def test_the_share_without_a_call_is_said() -> None:
    assert uncalled(run(95, 5)) == []
    (found,) = uncalled(run(90, 10))
    assert (found.code, found.count, found.severity) == ("A365", 10, "warning")
    assert found.detail == "10% of the rows on devices, 10% of their time"


@pytest.mark.parametrize(
    ("format_", "words"),
    [
        ("rocprofv3", "rocprofv3 --sys-trace"),
        ("nvprof", "nvprof --profile-api-trace"),
        ("kineto", "ProfilerActivity.CPU"),
        ("nsys", "nsys profile --trace=cuda"),
        ("turnbuckle", "nsys profile"),
        (None, "nsys profile"),
    ],
)
def test_the_recorder_is_told_in_its_own_words(format_: str | None, words: str) -> None:
    with pytest.raises(CannotAnswer) as caught:
        require_calls(run(0, 40, format=format_))
    assert words in caught.value.fix
    assert words in refused("A121", require_activity, run(0, 0, format=format_)).fix


def test_recordings_with_and_without(shared: Path) -> None:
    error = refused(
        "A140",
        require_calls,
        Run.read(
            shared / "traces" / "rocprof" / "llm_decode_rocprofv3" / "decode_kernel_trace.csv"
        ).profile,
    )
    assert "11% of their time" in error.found
    half = Run.read(shared / "traces" / "nsys" / "h100_2gpu_1s" / "h100_2gpu_1s.sqlite").profile
    require_calls(half)
    assert [f.detail for f in uncalled(half)] == ["52% of the rows on devices, 44% of their time"]
    for whole in (
        "kineto/vllm_decode_graph/graph_execution.json.gz",
        "nsys/mfu_2gpu_before/mfu_2gpu_before.sqlite",
    ):
        assert uncalled(Run.read(shared / "traces" / whole).profile) == [], whole
