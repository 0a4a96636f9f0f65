"""Law: two questions that are asked how long copies take give one number, one interval and one
reason (decision D21).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import run_of
from strategies import LAW, gpu_traces

from turnbuckle.examples import sample
from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.machine import Pair, load
from turnbuckle.profile.profile import build
from turnbuckle.projection.model import nething
from turnbuckle.projection.projection import Copies, CopyClass
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import SEED, Draws, copy_question, copy_seconds_of
from turnbuckle.questions.transfers.datasheet import of_run
from turnbuckle.trace.trace import Trace

#: The recorded node on another link, near and far; other nodes; one memory.
TARGETS = ("pcie5-x16", "nvlink-c2c", "cdi-row-link", "cdi-row-api", "gh200", "titan", "mi300a")
NUMBERS = (
    "direction",
    "memory",
    "count",
    "size_bytes",
    "measured_seconds",
    "seconds",
    "low",
    "high",
    "basis",
)


def numbers(copies: CopyClass) -> tuple[object, ...]:
    return tuple(getattr(copies, name) for name in NUMBERS)


def assert_one_price(run: Run, targets: tuple[str, ...] = TARGETS) -> None:
    """`project` and `transfers` agree to the last digit, class by class."""
    projected = run.project(list(targets), draws=1)  # of the run time; copies have their own
    priced = {p.target: p for p in of_run(run, list(targets)).projected}
    for projection in projected.projections:
        copies, transfers = projection.copies, priced[projection.target]
        assert isinstance(copies, Copies)
        assert numbers(copies) == numbers(transfers.total), projection.target
        assert [numbers(c) for c in copies.classes] == [
            numbers(t) for t in transfers.totals[:-1]
        ], projection.target
        assert copies.low <= copies.seconds <= copies.high


def test_the_sample() -> None:
    with sample() as path:
        run = run_of(path)
    assert_one_price(run)
    assert run.source is not None
    (same,) = of_run(run, [run.source]).projected
    assert same.total.seconds == same.total.measured_seconds == same.total.low == same.total.high


@LAW
@given(gpu_traces(), st.sampled_from(TARGETS))
def test_any_recording(trace: Trace, target: str) -> None:
    run = Run.of(build(trace))
    try:
        answer = run.project([target])
    except TurnbuckleError:
        return  # what `project` refuses is not asked twice
    if answer.projections[0].copies is None:
        with pytest.raises(TurnbuckleError):
            of_run(run, [target])
        return
    assert_one_price(run, (target,))


def test_the_answer_is_the_middle_of_its_draws() -> None:
    """Not the best that its priors allow."""
    with sample() as path:
        run = run_of(path)
    run = run.judged
    question = copy_question(run.prepared(nething()), run.source, run.fits, 2000, SEED)
    for name in ("gh200", "titan", "summit", "pcie5-x16", "nvlink-c2c"):
        copies = run.project([name]).projections[0].copies
        assert copies is not None
        for part in copies.classes:
            assert part.low < part.seconds < part.high or part.low == part.seconds == part.high
        pair = Pair(run.source, load(name))
        drawn = copy_seconds_of(question, load(name), pair, nething(), Draws(2000, SEED)).sum(
            axis=1
        )
        assert float(np.median(drawn)) == pytest.approx(copies.seconds, rel=0.1), name


#: Of each format the smallest recording of each set of copies (direction and host memory) that any
#: has.
RECORDINGS = (
    "nsys/balinski_gomory_r11/report11.sqlite",
    "nsys/balinski_gomory_r16/report16.sqlite",
    "nsys/extrap_con_kernel/con_kernel.sqlite",
    "nsys/gtls_rtx3060/report1.sqlite",
    "nsys/h100_2gpu_1s/h100_2gpu_1s.sqlite",
    "nsys/jacobi_gh200/jacobi_report.sqlite",
    "nsys/nvfuser_matmul_h100/report2.sqlite",
    "nsys/nvfuser_pytest_h200/report1.sqlite",
    "nsys/softmax_uvm_t4/report2.sqlite",
    "nvprof/qcu_wilson_hoststaged_2rank/log_x99-Yang_2015716.nvvp",
    "kineto/hta_alexnet_critical_path/benchmark_result_2869224_1695835535_trace.json.gz",
    "kineto/hta_event_sync/single_stream_event_sync_trace.json.gz",
    "kineto/hta_mi250_toy_train/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "kineto/hta_sampled_2of128/sampled_rank-0.json.gz",
    "kineto/resnet_mi300x_rank0of8/resnet_act_checkpoint.json.gz",
    "kineto/tracelens_h100_models/facebook_timesformer-base-finetuned-k400__1016002.json.gz",
    "kineto/tracelens_h100_models/gaunernst_bert-small-uncased__1016001.json.gz",
    "kineto/vllm_decode_graph/graph_execution.json.gz",
    "rocprof/kokkos_scatterview_rocprof_a/results.db",
)


@pytest.mark.shared
@pytest.mark.parametrize("name", RECORDINGS)
def test_recordings(shared: Path, name: str) -> None:
    for part in ("whole", None):
        run = run_of(shared / "traces" / name, part)
        # of some, the start-up has all the copies
        if part == "whole" or run.judged.trace.copies.height:
            assert run.projectable and run.trace.copies.height
            assert_one_price(run, ("pcie5-x16", "gh200"))
