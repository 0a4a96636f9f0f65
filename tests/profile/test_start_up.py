"""Start-up: when it ends, what it is made of, and what a run that is all start-up is called."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from frames import OTHER_PROCESS, PROCESS, THREAD, tables
from hostile_names import Ran

from turnbuckle.profile.profile import build
from turnbuckle.profile.summary.start_up import StartUp, start_up, steady_ns
from turnbuckle.projection.run import Run, part_of
from turnbuckle.trace.trace import Trace

NAMES = [
    "cudaMalloc",
    "cudaLaunchKernel",
    "cuModuleLoadData",
    "cuCtxCreate_v2",
    "MPI_Init",
    "stencil",
    "reduce",
    "ncclCommInitRank",
]
MALLOC, LAUNCH, MODULE, CONTEXT, INIT, STENCIL, REDUCE, NCCL = range(len(NAMES))


def made(**rows: list[dict[str, Any]]) -> Trace:
    return Trace(
        {n: f for n, f in tables(**rows).items() if f.height},
        pl.Series("name", NAMES, dtype=pl.String),
        {"tables": {}},
    )


def call(start: int, end: int, name: int, process: int = PROCESS) -> dict[str, Any]:
    thread = THREAD if process == PROCESS else process | 1
    return {"start_ns": start, "end_ns": end, "name": name, "process": process, "thread": thread}


def kernel(start: int, end: int, name: int, process: int = PROCESS) -> dict[str, Any]:
    return {"start_ns": start, "end_ns": end, "name": name, "process": process}


def seen(**rows: list[dict[str, Any]]) -> StartUp:
    found = start_up(build(made(**rows)))
    assert found is not None
    return found


def test_it_ends_at_the_first_kernel_that_repeats() -> None:
    kernels = [
        kernel(500, 510, REDUCE),
        kernel(520, 530, STENCIL),
        kernel(600, 620, STENCIL),
        kernel(700, 720, REDUCE),
    ]
    found = seen(api=[call(0, 300, MALLOC), call(400, 410, LAUNCH)], kernels=kernels)
    assert (found.end_ns, found.until) == (
        600,
        "repeated kernel",
    ) and found.seconds == pytest.approx(6e-7)
    once = seen(api=[call(0, 300, MALLOC), call(400, 410, LAUNCH)], kernels=kernels[:2])
    assert (once.end_ns, once.until) == (500, "first work")
    copied = seen(
        api=[call(0, 300, MALLOC), call(400, 410, LAUNCH)],
        kernels=kernels[:2],
        copies=[
            {"start_ns": 350, "end_ns": 390, "direction": 1, "size_bytes": 64, "process": PROCESS}
        ],
    )
    assert (copied.end_ns, copied.until) == (350, "first work"), (
        "a copy is work like a kernel, where none repeats"
    )
    moved = seen(
        api=[call(100, 300, MALLOC), call(400, 410, LAUNCH)],
        kernels=kernels[:2],
        copies=[
            {"start_ns": 50, "end_ns": 90, "direction": 1, "size_bytes": 64, "process": PROCESS}
        ],
    )
    assert (moved.end_ns, moved.until) == (50, "first work"), (
        "memory that moves before the first call"
    )
    other = seen(
        api=[call(0, 300, MALLOC)],
        kernels=[kernel(500, 510, STENCIL), kernel(600, 610, STENCIL, OTHER_PROCESS)],
    )
    assert other.until == "first work", "each process loads a function for itself"


def test_no_rank_works_before_the_last_has_left_mpi_init() -> None:
    init = [
        {"start_ns": 0, "end_ns": 900, "name": INIT, "thread": THREAD, "kind": 3},
        {"start_ns": 10, "end_ns": 950, "name": INIT, "thread": OTHER_PROCESS | 1, "kind": 3},
    ]
    late = seen(mpi=init, kernels=[kernel(300, 310, STENCIL), kernel(400, 410, STENCIL)])
    assert (late.end_ns, late.until) == (950, "MPI_Init") and late.made_of[
        "mpi_init"
    ] == pytest.approx(9.5e-7)
    early = seen(mpi=init, kernels=[kernel(1000, 1010, STENCIL), kernel(1100, 1110, STENCIL)])
    assert (early.end_ns, early.until) == (1100, "repeated kernel")


def test_processes_that_start_together_are_waited_for_and_later_ones_join() -> None:
    def process(at: int, number: int) -> dict[str, list[dict[str, Any]]]:
        api = [call(at, at + 50, MALLOC, number)]
        return {
            "api": api,
            "kernels": [
                kernel(at + 60, at + 70, STENCIL, number),
                kernel(at + 100, at + 110, STENCIL, number),
            ],
        }

    def both(later: int) -> StartUp:
        first, second = process(0, PROCESS), process(later, OTHER_PROCESS)
        return seen(
            **{
                name: sorted([*first[name], *second[name]], key=lambda row: row["start_ns"])
                for name in first
            }
        )

    assert both(90).end_ns == 190 and both(150).end_ns == 100


def test_each_instant_is_counted_once() -> None:
    api = [
        call(0, 300, CONTEXT),
        call(100, 400, MODULE),
        call(410, 420, LAUNCH),
        call(430, 440, LAUNCH),
    ]
    ranges = [
        {"start_ns": 350, "end_ns": 405, "name": NCCL, "thread": THREAD},
        {"start_ns": 1, "end_ns": None, "name": NCCL, "thread": THREAD},
    ]
    found = seen(
        api=api, ranges=ranges, kernels=[kernel(415, 425, STENCIL), kernel(500, 510, STENCIL)]
    )
    spent = {name: round(value * 1e9) for name, value in found.made_of.items()}
    assert spent == {
        "mpi_init": 0,
        "context": 300,
        "modules": 100,
        "libraries": 5,
        "calls": 20,
        "device": 5,
        "host": 70,
    }
    assert found.call_share == 1.0 and found.is_all, (
        "the kernel that repeats has no call of its own"
    )


def test_the_context_lies_in_the_call_that_is_long_once() -> None:
    work = [kernel(5000, 5010, STENCIL), kernel(5100, 5110, STENCIL)]
    hidden = [
        call(0, 3000, MALLOC),
        call(3100, 3110, MALLOC),
        call(4000, 4010, LAUNCH),
        call(5020, 5030, LAUNCH),
    ]
    assert seen(api=hidden, kernels=work).made_of["context"] == pytest.approx(3e-6)
    usual = [call(0, 30, LAUNCH), call(100, 125, LAUNCH), call(4000, 4010, LAUNCH)]
    assert seen(api=usual, kernels=work).made_of["context"] == 0, (
        "a recording that begins in the middle of a run creates none"
    )


def test_a_recording_without_kernels_and_ranks_has_none() -> None:
    assert (
        steady_ns(made(api=[call(0, 300, MALLOC)])) is None
        and start_up(build(made(api=[call(0, 300, MALLOC)]))) is None
    )


# --- real runs ------------------------------------------------------------------------------------


def test_half_of_a_short_run_is_its_first_allocation(shared: Path) -> None:
    (file,) = (shared / "traces" / "nsys" / "cloverleaf_a100_perlmutter").glob("*.sqlite")
    run = Run.read(file)
    begun = run.start_up
    assert (
        begun is not None and begun.until == "repeated kernel" and begun.tells and not begun.is_all
    )
    longest = run.trace.api.select((pl.col("end_ns") - pl.col("start_ns")).max()).item() * 1e-9
    assert begun.made_of["context"] == pytest.approx(longest) and longest > 0.2
    assert run.steady is not None and run.steady.seconds + begun.seconds == pytest.approx(
        run.seconds
    )
    assert run.as_dict()["profile"]["start_up"]["seconds"] == begun.seconds and not any(
        f.code == "P220" for f in run.findings
    )


def test_a_run_whose_calls_are_all_start_up_is_unfit(
    shared: Path, turnbuckle: Callable[..., Ran]
) -> None:
    file = shared / "traces" / "kineto" / "vllm_decode_graph" / "graph_execution.json.gz"
    checks = {
        c["what"]: c
        for c in json.loads(turnbuckle("doctor", file, "--format", "json").out)["checks"]
    }
    assert checks["start-up"]["state"] == "bad" and "unfit" in checks["start-up"]["detail"]
    found = json.loads(
        turnbuckle("project", file, "--on", "cdi-row-link", "--draws", "0", "--format", "json").out
    )
    assert "P220" in {f["code"] for f in found["findings"]} & {
        f["code"] for f in found["projections"][0]["findings"]
    }
    assert "A561" in {f["code"] for f in found["findings"]}, "what is left has no calls"
    assert "undecided" in turnbuckle("project", file, "--on", "cdi-row-link", "--draws", "0").out


@pytest.mark.parametrize(
    ("place", "state"),
    [
        ("nsys/rodinia_gaussian_rtx3090_a/report2.sqlite", "ok"),
        ("nsys/rodinia_gaussian_rtx3090_b/report3.sqlite", "look"),
        ("otf2/pingpong_2rank/traces.otf2", "bad"),
    ],
)
def test_the_doctor_says_how_much_is_start_up(
    shared: Path, turnbuckle: Callable[..., Ran], place: str, state: str
) -> None:
    checks = {
        c["what"]: c
        for c in json.loads(
            turnbuckle("doctor", shared / "traces" / place, "--format", "json").out
        )["checks"]
    }
    assert checks["start-up"]["state"] == state


def test_the_steady_part_is_the_rest_of_every_real_run(shared: Path) -> None:
    for place in ("kineto/hta_v100_ns_resolution", "nsys/jacobi_gh200", "nsys/softmax_uvm_t4"):
        (file,) = (
            f for f in (shared / "traces" / place).iterdir() if f.suffix in (".gz", ".sqlite")
        )
        run = Run.read(file)
        assert run.start_up is not None
        steady = build(part_of(run.trace, "steady"))
        assert run.start_up.end_ns == steady.first_ns and steady.last_ns == run.profile.last_ns
        assert sum(run.start_up.made_of.values()) == pytest.approx(run.start_up.seconds)
