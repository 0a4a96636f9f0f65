"""A law of `turnbuckle anonymise`: every answer about a recording is the same before and after,
names and two findings apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from strategies import FEWER, flawed_traces, gpu_traces, soups

from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.papers.models.node.functions import functions
from turnbuckle.profile.profile import build
from turnbuckle.projection.run import Run
from turnbuckle.questions.anonymise.question import anonymise
from turnbuckle.questions.anonymise.stand_in import stand_in
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.trace.read import read
from turnbuckle.trace.trace import Trace

#: Sums of floats come in any order: what is left of them.
DIGITS = 9
#: Words that names stand in.
NAMED = ("kernel", "name", "detail", "function")


def rounded(value: Any) -> Any:
    """Plain values without names, floats to as many digits as any order of a sum leaves alone."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items() if k not in NAMED}
    if isinstance(value, list | tuple):
        return [rounded(v) for v in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def attempt(question: Any) -> Any:
    """An answer, or the code of the refusal."""
    try:
        return rounded(question())
    except TurnbuckleError as error:
        return error.code


def answers(trace: Trace) -> dict[str, Any]:
    """What Turnbuckle says of a recording: inspect, functions, two projections by both replays,
    slack.
    """
    seen = Run.of(build(trace))
    said = attempt(lambda: seen.as_dict()["profile"])
    if isinstance(said, dict) and said["offload"]:
        # of kernels that are alike in time any may come first
        said["offload"]["kernels"].sort(key=str)
    if isinstance(said, dict):
        # processes get other numbers, in the order of those they had
        one_by_one = [*said["ranks"], *said["gpus"]]
        ids = sorted({one["process"] for one in one_by_one if one["process"] is not None})
        for one in one_by_one:
            one["process"] = None if one["process"] is None else ids.index(one["process"])
    rows = (
        functions(seen.profile)
        .rows.group_by("class", "call_class")
        .agg(pl.col("time_ns", "calls", "exposed_ns").sum(), kinds=pl.len())
    )
    return {
        "inspect": said,
        "functions": rows.sort(pl.all()).rows(),
        "findings": sorted(
            (f.code, f.count) for f in seen.findings if f.code not in ("P119", "P186")
        ),
        "project": attempt(
            lambda: [
                p.as_dict()
                for p in seen.project(["pcie5-x16", "cdi-row-link"], draws=0).projections
            ]
        ),
        "slack": attempt(
            lambda: tolerate(seen, "link", draws=0).as_dict()["curve"] if seen.projectable else None
        ),
    }


def anonymised(trace: Trace) -> tuple[Trace, dict[str, Any]]:
    """Return a recording anonymised, and its answers, which are those of the recording."""
    made, _ = anonymise(trace, b"a key of the test", stand_in=stand_in)
    before, after = answers(trace), answers(made)
    for question, answer in before.items():
        assert after[question] == answer, question
    return made, after


@FEWER
@given(gpu_traces() | flawed_traces() | soups())
def test_generated_recordings(trace: Trace) -> None:
    made, after = anonymised(trace)
    again, _ = anonymise(made, b"another key", stand_in=stand_in)
    assert answers(again) == after


@pytest.mark.shared
@pytest.mark.parametrize(
    "file",
    [
        "nsys/cloverleaf_a100_perlmutter/perlmutter-cloverleaf-cuda.sqlite",
        "nsys/h100_2gpu_1s/h100_2gpu_1s.sqlite",
        "nsys/mfu_2gpu_before/mfu_2gpu_before.sqlite",
        "nsys/softmax_uvm_t4/report2.sqlite",
        "nsys/extrap_concurrent_s2/profile2.sqlite",
        "nsys-local/lammps-melt-4r.sqlite",
        "kineto/hta_a100_nccl_rank0of2/nccl_data.json.gz",
        "kineto/vllm_decode_graph/graph_execution.json.gz",
        "kineto/tracelens_mi300x_models/Falconsai_nsfw_image_detection__1016002.json.gz",
        "otf2/stencil4d_32rank/traces.otf2",
        "otf2/hip_two_gpu_mi300/traces.otf2",
    ],
)
def test_real_recordings(shared: Path, file: str) -> None:
    anonymised(read(shared / "traces" / file, use_cache=False))


@pytest.mark.shared
def test_calls_that_carry_alike_come_in_one_order(shared: Path) -> None:
    """Two calls of this recording carry half the penalty each; names of kernels, that become
    hashes, must not say which is first.
    """
    trace = read(
        shared / "traces" / "kineto/resnet_mi300x_rank0of8/resnet_act_checkpoint.json.gz",
        use_cache=False,
    )
    made, _ = anonymise(trace, b"a key of the test", stand_in=stand_in)
    one, other = (
        [
            (c["call"], c["count"])
            for c in tolerate(Run.of(build(t)), "link", draws=0).as_dict()["calls"]
        ]
        for t in (trace, made)
    )
    assert one == other and len(one) == 2
