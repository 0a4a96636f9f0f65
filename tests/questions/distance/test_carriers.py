"""Which calls carry the latency: their shares are the whole penalty, and what-ifs are the run they
say.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from distances import (
    MODE,
    RUNS,
    SOME,
    TRIPS,
    answer,
    distance,
    launch_and_wait,
    on_full,
    one_after_another,
)
from hypothesis import given
from hypothesis import strategies as st
from rows import call, copy, on_device, profile_of
from runs import run_of

from turnbuckle.questions.distance.carriers import NAMED, Carrier
from turnbuckle.questions.distance.distance import MODES, Mode
from turnbuckle.questions.distance.question import Slack, tolerate
from turnbuckle.trace.trace import Trace


def at_tolerance(found: Slack) -> float:
    return float(found.curve(found.carried_at))


@SOME
@given(RUNS, MODE, st.booleans())
def test_shares_are_the_whole_penalty(trace: Trace, mode: Mode, known: bool) -> None:
    seen = answer(trace, known)
    if distance(seen, mode) is None:
        return
    found = tolerate(seen, mode, draws=0)
    there = at_tolerance(found)
    penalty = there - found.measured
    carriers = found.carriers
    assert bool(carriers) == (penalty > 0)
    assert [c.seconds for c in carriers] == sorted((c.seconds for c in carriers), reverse=True)
    if 0 < len(carriers) < NAMED:
        assert sum(c.seconds for c in carriers) == pytest.approx(penalty, rel=1e-9)
        assert sum(c.share for c in carriers) == pytest.approx(1.0, rel=1e-9)
    for c in carriers:
        assert 1 <= c.count <= c.of and c.seconds > 0 and c.pays and c.call
        assert c.share == pytest.approx(c.seconds / penalty)
        if c.asynchronous is not None:
            assert c.asynchronous <= there * (1 + 1e-12)
        if c.batched is not None:
            assert c.batches is not None and 1 <= c.batches < c.of
            assert found.measured * (1 - 1e-12) <= c.batched <= there * (1 + 1e-12), (
                "at best the distance costs nothing"
            )


def test_one_kind_of_call_carries_everything() -> None:
    n = 9
    for direction, where, pays in (
        (2, "to the host", ("command", "return")),
        (1, "to the device", ("command", "return", "transfer")),
    ):
        found = tolerate(on_full(one_after_another(n, direction)), draws=0)
        (only,) = found.carriers
        assert (only.call, only.what) == ("cudaMemcpy", f"{n} blocking copies of 8 B {where}")
        assert (only.count, only.of, only.size_bytes, only.pays) == (n, n, 8, pays)
        assert only.share == pytest.approx(1.0) and only.seconds == pytest.approx(
            at_tolerance(found) - found.measured
        )
    (only,) = tolerate(on_full(one_after_another(n, 2)), "api", draws=0).carriers
    assert (only.count, only.of, only.pays) == (n, n, ("call",)) and only.share == pytest.approx(
        1.0
    )
    (single,) = tolerate(on_full(one_after_another(1, 2)), draws=0).carriers
    assert single.what == "1 blocking copy of 8 B to the host" and single.batched is None


def test_launches_and_waits_share_the_link() -> None:
    n = 5
    found = tolerate(on_full(launch_and_wait(n)), draws=0)
    by_call = {c.call: c for c in found.carriers}
    assert {name: c.what for name, c in by_call.items()} == {
        "cudaLaunchKernel": f"{n} calls of cudaLaunchKernel",
        "cudaDeviceSynchronize": f"{n} waits for the device",
    }
    assert by_call["cudaLaunchKernel"].pays == ("command",) and by_call[
        "cudaDeviceSynchronize"
    ].pays == ("return",)
    # trips of a command, and one of the way back
    assert [
        by_call[n].share for n in ("cudaLaunchKernel", "cudaDeviceSynchronize")
    ] == pytest.approx([TRIPS / (TRIPS + 1), 1 / (TRIPS + 1)])
    assert by_call["cudaLaunchKernel"].asynchronous is None, "it never waited"
    (only,) = tolerate(on_full(launch_and_wait(n)), "api", draws=0).carriers
    assert only.call == "cudaDeviceSynchronize", "the launch hides behind its kernel there"


# --- what if --------------------------------------------------------------------------------------


def test_not_waiting_takes_away_the_waits_and_nothing_else() -> None:
    """Without its wait each call takes its own 1.5 us; the last copy still ends when it ends."""
    n = 9
    found = tolerate(on_full(one_after_another(n, 2)), draws=0)
    (only,) = found.carriers
    slack = found.carried_at
    assert slack < 1e-4
    assert only.asynchronous == pytest.approx(
        (n - 1) * (1.5e-6 + 5e-6) + 3e-6 + TRIPS * slack + 2e-6, rel=1e-9
    )


def test_a_batch_pays_once() -> None:
    n = 9
    found = tolerate(on_full(one_after_another(n, 2)), draws=0)
    (only,) = found.carriers
    assert only.batches == 1 and only.batched == pytest.approx(
        found.measured + (TRIPS + 1) * found.carried_at, rel=1e-9
    )
    api = tolerate(on_full(one_after_another(n, 2)), "api", draws=0)
    assert api.carriers[0].batched == pytest.approx(api.measured + api.carried_at, rel=1e-9)
    # what the device reads is asked for in one go too; 8 bytes are next to nothing
    reads = tolerate(on_full(one_after_another(n, 1)), draws=0)
    assert reads.carriers[0].batched == pytest.approx(
        reads.measured + (TRIPS + 3) * reads.carried_at, rel=1e-6
    )


def test_other_calls_between_end_a_batch() -> None:
    """Copy, copy, launch, copy: two batches; a call that does not cross to the device ends none."""
    calls, copies, kernels = [], [], []
    for i, name in enumerate(["copy", "copy", "query", "copy", "launch", "copy"]):
        t = 1_000 + 20_000 * i
        if name == "copy":
            calls.append(call(t, t + 6_500, i + 1, "cudaMemcpy"))
            copies.append(copy(t + 3_000, t + 5_000, 2, 8, i + 1))
        elif name == "launch":
            calls.append(call(t, t + 2_000, i + 1))
            kernels.append(on_device(t + 6_000, t + 9_000, i + 1))
        else:
            calls.append(call(t, t + 1_000, i + 1, "cudaEventQuery"))
    found = tolerate(on_full(profile_of(api=calls, copies=copies, kernels=kernels)), draws=0)
    copied = next(c for c in found.carriers if c.size_bytes == 8)
    assert (copied.of, copied.batches) == (4, 2)
    assert copied.batched is not None and copied.batched < at_tolerance(found)


def test_devices_and_processes_are_told_apart_by_what_they_call() -> None:
    calls, copies = [], []
    for k, process in enumerate((1000 << 24, 1001 << 24)):
        for i in range(4):
            t = 1_000 + 11_500 * i
            calls.append(
                {**call(t, t + 6_500, i + 1, "cudaMemcpy", thread=process | 1), "process": process}
            )
            copies.append(
                {**copy(t + 3_000, t + 5_000, 2, 8 << k, i + 1), "process": process, "device": k}
            )
    found = tolerate(on_full(profile_of(api=calls, copies=copies)), draws=0)
    # both processes take as long: one of them is the critical path
    (only,) = found.carriers
    assert (only.count, only.of) == (4, 4) and only.size_bytes in (8, 16)
    assert at_tolerance(found) == pytest.approx(found.measured + 4 * (TRIPS + 1) * found.carried_at)


# --- real runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mode", "call", "says"),
    [
        ("jacobi_gh200", "link", "cudaDeviceSynchronize", "1,001 waits for the device"),
        ("jacobi_gh200", "link", "cudaMemcpy", "1,000 blocking copies of 4 B to the host"),
        (
            "softmax_uvm_t4",
            "link",
            "memory moved by the driver",
            "769 moves of 4,096 B by the driver",
        ),
    ],
)
def test_real_runs_name_their_calls(
    shared: Path, name: str, mode: Mode, call: str, says: str
) -> None:
    (file,) = (shared / "traces/nsys" / name).glob("*.sqlite")
    carriers: tuple[Carrier, ...] = tolerate(run_of(file, "whole"), mode, draws=0).carriers
    assert (call, says) in {(c.call, c.what) for c in carriers}
    assert sum(c.share for c in carriers) == pytest.approx(1.0, abs=0.02)
    assert MODES
