"""The heart: what it refuses, what it reports beside the number, and what a projection says of
itself.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from rows import allocation, call, copy, on_device, profile_of
from strategies import D2H, DEVICE, FULL, H2D, LAW, gpu_traces, machine, trace_of

from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.foundation.schema import words
from turnbuckle.machine import Change, Fact, Machine, Pair, load
from turnbuckle.machine.machine import Parameter
from turnbuckle.profile.pieces import pieces
from turnbuckle.profile.profile import build
from turnbuckle.profile.summary.summary import kernel_window_ns
from turnbuckle.projection.anchor import anchored
from turnbuckle.projection.model import Charge, Model, additive, nething
from turnbuckle.projection.project import project
from turnbuckle.projection.projection import (
    PART_OF_CATEGORY,
    PARTS,
    Interval,
    Projection,
    break_even_utilisation,
    faster,
)
from turnbuckle.trace.trace import Trace

HERE = machine(FULL)
SEEN = profile_of(
    api=[
        call(1_000, 2_000, 1, "cudaMemcpyAsync"),
        call(12_000, 13_000, 2),
        call(41_000, 62_000, 3, "cudaMemcpy"),
    ],
    copies=[copy(3_000, 11_000, H2D, 2**17, 1), copy(43_000, 60_000, D2H, 2**17, 3)],
    kernels=[on_device(15_000, 40_000, 2)],
    allocations=[allocation(500, 0, 30 * 10**9, 0xA)],
)


def codes(found: Projection) -> dict[str, str]:
    return {f.code: f.detail for f in found.findings}


def on(values: dict[str, float], alpha: float | str = "flop", name: str = HERE.name) -> Projection:
    """Project on a machine of the source's kind, whose host and link share are known with it."""
    return project(SEEN, Pair(HERE, machine({**FULL, **values}, name)), nething(alpha))


# --- refusals -------------------------------------------------------------------------------------


def test_a_run_without_a_device() -> None:
    """Another coupling says nothing of it; its own machine does."""
    seen = profile_of(api=[call(1_000, 9_000, 1, "cudaDeviceSynchronize")])
    assert project(seen, Pair(HERE, HERE), nething()).seconds == seen.seconds
    with pytest.raises(CannotAnswer) as caught:
        project(seen, Pair(HERE, machine(FULL, "there")), nething())
    assert caught.value.exit_code == 3 and caught.value.fix


def test_rows_that_were_set_aside_are_not_there() -> None:
    seen = profile_of(api=[call(1_000, 2_000, 1)], kernels=[on_device(9_000, 3_000, 1)])
    assert "kernels" not in seen.has and "kernel" not in seen.has
    with pytest.raises(CannotAnswer):
        project(seen, Pair(HERE, machine(FULL, "there")), nething())


def test_a_source_that_is_only_a_change() -> None:
    refused("M016", Pair, load("cdi-row-link"), HERE)


# --- what stands beside the number ----------------------------------------------------------------


def test_breakdown_by_hand() -> None:
    found = project(SEEN, Pair(HERE, HERE), nething())
    # memcpy call until its copy begins, copy, gap, launch until its kernel begins, kernel, gap,
    # call, copy, call
    assert found.measured_breakdown == pytest.approx(
        {"launch": 3e-6, "kernel": 25e-6, "copy": 25e-6, "other": 8e-6}
    )
    assert set(PARTS) == {"launch", "kernel", "copy", "other"} and set(PART_OF_CATEGORY) == set(
        words("categories")
    )
    twice = on({"gpu.fp64_matrix": 39e12})
    assert twice.breakdown["kernel"] == pytest.approx(12.5e-6)
    assert twice.seconds == pytest.approx(found.seconds - 12.5e-6) and twice.alpha == pytest.approx(
        2.0
    )


def test_every_ratio_names_its_link() -> None:
    """D17: link, latency change and bandwidth change, on both sides."""
    found = on({"link.h2d.latency": 4e-6, "link.d2h.bandwidth": 63e9, "slack.call": 1e-6})
    assert found.coupling["h2d"] == {
        "source_bandwidth": pytest.approx(0.85 * 31.5e9),
        "target_bandwidth": pytest.approx(0.85 * 31.5e9),
        "source_latency_s": 2e-6,
        "target_latency_s": 4e-6,
    }
    assert found.coupling["d2h"]["target_bandwidth"] == pytest.approx(0.83 * 63e9)
    assert found.coupling["added_call_slack_s"] == 1e-6 and found.coupling["copies_vanish"] is False
    assert (found.coupling["source"], found.coupling["target"]) == ("pcie", "pcie")


def test_what_is_said_of_kernels() -> None:
    held = codes(on({}, "hold"))
    assert "A305" in held and "A301" not in held
    assert "A305" in codes(on({})), "the same device: kernels keep their time"
    scaled = codes(on({"gpu.fp64_matrix": 39e12}))
    assert "2.00" in scaled["A301"] and "A302" in scaled, "twice the rate on the same memory"
    assert "A302" not in codes(on({"gpu.fp64_matrix": 39e12, "gpu.memory_bandwidth": 2 * 1.555e12}))
    given = codes(on({"gpu.fp64_matrix": 39e12}, 2.0))
    assert not {"A301", "A302"} & set(given), (
        "a ratio the user gave is not the program's assumption"
    )


def test_what_is_said_of_memory_and_reads() -> None:
    assert codes(on({"gpu.memory_size": 16e9}))["A307"] == "30.0 of 16.0 GB"
    assert "A307" not in codes(on({"gpu.memory_size": 40e9}))
    limited = codes(
        on(
            {
                "link.h2d.bandwidth": 63e9,
                "link.tags": 256,
                "link.read_request": 512,
                "link.round_trip": 5.2e-6,
            }
        )
    )
    assert limited["A306"] == "25.2 instead of 53.5 GB/s"
    assert "A306" not in codes(
        on({"link.tags": 256, "link.read_request": 512, "link.round_trip": 1e-6})
    )
    assert "A308" in codes(on({})), "every sum says that it cannot move overlap"
    assert project(SEEN, Pair(HERE, HERE), nething()).findings == []


def test_what_is_said_of_missing_parameters() -> None:
    def less(*names: str, **more: object) -> Machine:
        return machine({n: v for n, v in FULL.items() if n not in names}, "there", **more)

    complete = codes(project(SEEN, Pair(HERE, less()), nething()))
    assert not {"M102", "M103", "M104"} & set(complete)
    unstated = codes(
        project(SEEN, Pair(HERE, less("launch.latency", "link.h2d.latency")), nething())
    )
    assert {"launch.latency", "link.h2d.latency"} <= set(
        unstated["M102"].split(", ")
    ) and "M104" not in unstated
    unseen = codes(project(SEEN, Pair(less("launch.latency"), HERE), nething()))
    assert "launch.latency" in unseen["M104"] and "launch.latency" not in unseen.get("M102", "")
    matrix_only = codes(project(SEEN, Pair(HERE, less("gpu.fp64")), nething()))
    assert "gpu.fp64" not in matrix_only.get("M102", ""), "the matrix rate was used"
    vanish = replace(
        less(*(n for n in FULL if n.startswith("link.")), coupling="apu"),
        memory_shared=Fact(True, "assumption", "a test"),
    )
    assert "link." not in codes(project(SEEN, Pair(HERE, vanish), nething())).get("M102", ""), (
        "no link is needed where copies vanish"
    )
    relative = Machine(
        name="far",
        title="t",
        summary="",
        year=0,
        coupling="fabric",
        base="source",
        changes=(Change("launch.latency", add=Parameter(1e-6, 0.1, "s", "assumption", "x")),),
    )
    bare = less("gpu.fp64", "gpu.fp64_matrix", "gpu.memory_bandwidth")
    changed = codes(project(SEEN, Pair(bare, relative), nething()))
    assert "M103" in changed and "gpu." not in changed.get("M104", ""), (
        "a changed coupling needs no rate of the device"
    )


@LAW
@given(
    gpu_traces(),
    st.sampled_from(["2026-onboard", "cdi-row-link", "gh200", "2026-apu", "cdi-rack-api"]),
)
def test_json_of_any_projection(trace: Trace, target: str) -> None:
    found = project(build(trace), Pair(HERE, load(target)), nething()).as_dict()
    assert found["target"] == target and found["draws"] == 0
    assert set(found["breakdown"]) == set(found["measured_breakdown"]) == set(PARTS)
    if found["cannot_say"]:
        told = (
            found["seconds"],
            *found["interval"],
            *found["breakdown"].values(),
            found["benefit"],
        )
        assert all(map(math.isnan, told))
        for value in (found["penalty"], found["break_even"]["utilisation_factor"]):
            assert math.isnan(value) if found["measured_seconds"] else value == 1
        assert found["verdict"] == f"cannot say: {found['cannot_say']}"
    else:
        assert found["interval"] == [found["seconds"]] * 2
        assert (
            found["penalty"] == pytest.approx(found["seconds"] / found["measured_seconds"])
            if found["measured_seconds"]
            else found["penalty"] == 1
        )
        if found["seconds"]:
            assert found["benefit"] * found["penalty"] == pytest.approx(1.0)
        assert found["break_even"]["utilisation_factor"] == pytest.approx(found["penalty"])
    assert all({"code", "severity", "count", "meaning"} <= set(f) for f in found["findings"])


@LAW
@given(gpu_traces(), st.sampled_from(["cdi-row-link", "gh200", "2026-apu"]))
def test_the_kernel_window_lies_in_the_run_and_is_as_recorded_at_home(
    trace: Trace, target: str
) -> None:
    profile, timeline = build(trace), replace(nething(), replay="timeline")
    try:
        home, away = (
            project(profile, Pair(HERE, HERE), timeline),
            project(profile, Pair(HERE, load(target)), timeline),
        )
    except CannotAnswer:
        return
    recorded = kernel_window_ns(profile)
    assert (home.kernel_window_seconds is None) == (recorded is None or trace.graphs.height > 0)
    if home.kernel_window_seconds is not None and recorded is not None:
        assert (
            home.kernel_window_seconds
            == home.measured_kernel_window_seconds
            == pytest.approx(recorded * 1e-9, abs=1e-15)
        )
        assert away.measured_kernel_window_seconds == home.kernel_window_seconds
        assert (
            away.kernel_window_seconds is not None
            and 0 <= away.kernel_window_seconds <= away.seconds + 1e-12
        )
    assert project(profile, Pair(HERE, HERE), nething()).kernel_window_seconds is None, (
        "the sum has no instants"
    )


# --- anchors --------------------------------------------------------------------------------------


def test_three_anchors() -> None:
    """Measured times ratio, measured plus difference, and the price alone."""

    def priced(anchor: str, before: float, after: float) -> float:
        def seconds(p: object, m: object, source: object) -> np.ndarray:
            return np.array([before if m is source else after])

        charge = Charge("kernel", lambda p: np.asarray(p.kind == "kernel"), seconds, anchor)  # type: ignore[arg-type]
        run = pieces(SEEN)
        out = anchored(run, HERE, machine(FULL, "there"), Model("test", "", "", (charge,)))
        return float(out.seconds[run.kind == "kernel"].sum())

    assert priced("ratio", 10e-6, 20e-6) == pytest.approx(50e-6)
    assert priced("difference", 10e-6, 20e-6) == pytest.approx(35e-6)
    assert priced("absolute", 10e-6, 20e-6) == pytest.approx(20e-6)
    assert priced("difference", 40e-6, 10e-6) == 0.0, "nothing lasts less than nothing"
    assert priced("ratio", 0.0, 10e-6) == 25e-6, "a price of nothing scales nothing"


def test_charges_on_one_piece_add_up() -> None:
    """A wait pays for its return and for the slack of its call."""
    seen = profile_of(
        api=[call(1_000, 2_000, 1), call(2_000, 9_000, 2, "cudaDeviceSynchronize")],
        kernels=[on_device(2_500, 8_000, 1)],
    )
    one, other = ({"sync.return": FULL["sync.return"] + 2e-6}, {"slack.call": 3e-6})
    alone = [
        project(seen, Pair(HERE, machine({**FULL, **v}, "there")), nething("hold")).seconds
        - seen.seconds
        for v in (one, other)
    ]
    both = (
        project(
            seen, Pair(HERE, machine({**FULL, **one, **other}, "there")), nething("hold")
        ).seconds
        - seen.seconds
    )
    assert both == pytest.approx(sum(alone))


# --- projections ----------------------------------------------------------------------------------


def drawn(target: str, sample: list[float]) -> Projection:
    found = on({}, name=target)
    return replace(
        found,
        sample=np.array(sample),
        interval=Interval(min(sample), 1.0, max(sample), 0.9, len(sample), 1),
    )


def test_which_is_faster_over_common_draws() -> None:
    table = faster([drawn("a", [1, 2, 3, 4]), drawn("b", [2, 2, 2, 2]), drawn("c", [9, 9, 9, 9])])
    assert table["a"] == {"b": 0.375, "c": 1.0} and table["b"]["a"] == 0.625
    assert faster([on({})]) == {} and faster([]) == {}
    near = faster([drawn("a", [1.0, 1.0, 1.0, 1.0]), drawn("b", [1.001, 1.004, 0.998, 1.006])])
    assert near["a"]["b"] == 0.625 and near["b"]["a"] == 0.375, (
        "two runs of one configuration differ by 0.5 %"
    )


@LAW
@given(st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), min_size=2, max_size=4))
def test_faster_is_antisymmetric(samples: list[list[float]]) -> None:
    names = [f"m{i}" for i in range(len(samples))]
    table = faster([drawn(n, [float(x) for x in s]) for n, s in zip(names, samples, strict=True)])
    for a in names:
        for b in names:
            if a != b:
                assert table[a][b] + table[b][a] == pytest.approx(1.0) and 0 <= table[a][b] <= 1


def test_ratios_of_nothing() -> None:
    none = replace(on({}), seconds=0.0, measured_seconds=0.0)
    assert none.penalty == 1.0
    gone = replace(on({}), seconds=0.0)
    assert gone.benefit == float("inf") and gone.penalty == 0.0


def test_break_even() -> None:
    assert break_even_utilisation(1.05, 0.1) == pytest.approx(1.155)
    assert break_even_utilisation(1.0) == 1.0


def test_the_toy_is_what_it_says() -> None:
    """The strategies' machine and rows are understood as meant, or every law above is empty."""
    assert (
        words("memories").index("device") == DEVICE
        and words("directions").index("h2d") == H2D
        and words("directions").index("d2h") == D2H
    )
    assert trace_of({"kernels": [on_device(1, 2)]}).kernels.height == 1
    with pytest.raises(Exception, match="A004"):
        additive({"sync": 2.0})
