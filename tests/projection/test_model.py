"""Price lists, line by line, on runs small enough to price by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import call, copy, on_device, profile_of
from strategies import (
    D2D,
    D2H,
    FULL,
    H2D,
    LAW,
    MIGRATION_D2H,
    MIGRATION_H2D,
    P2P,
    PAGEABLE,
    gpu_traces,
    machine,
    soups,
)

from turnbuckle.foundation.errors import UsageError
from turnbuckle.machine import Fact, Machine, Pair, load
from turnbuckle.profile.pieces import Pieces, pieces
from turnbuckle.profile.profile import Profile, build
from turnbuckle.projection.anchor import anchored
from turnbuckle.projection.elsewhere.kernels import kernel_rate
from turnbuckle.projection.model import Model, additive, link_bandwidth, nething
from turnbuckle.projection.project import project
from turnbuckle.trace.trace import Trace

HERE = machine(FULL)


def there(**values: float) -> Machine:
    """A target that differs in these numbers; ``link_h2d_latency`` stands for
    ``link.h2d.latency``.
    """
    named = {
        n.replace(".", "_"): n for n in [*FULL, "link.tags", "link.read_request", "link.round_trip"]
    }
    return machine({**FULL, **{named[k]: v for k, v in values.items()}}, "there")


def priced(seen: Profile, target: Machine, model: Model | None = None) -> dict[str, float]:
    """New seconds by kind of activity."""
    run = pieces(seen)
    after = anchored(run, HERE, target, model or nething("hold")).seconds
    return {kind: float(after[run.kind == kind].sum()) for kind in dict.fromkeys(run.kind)}


def test_pinned_copies_by_the_ratio_of_two_lines() -> None:
    seen = profile_of(copies=[copy(0, 50_000, H2D, 2**20)], kernels=[on_device(60_000, 61_000)])
    before, after = 2.0e-6 + 2**20 / (0.85 * 31.5e9), 1.0e-6 + 2**20 / (0.85 * 63e9)
    target = there(link_h2d_bandwidth=63e9, link_h2d_latency=1e-6)
    assert priced(seen, target)["copy_h2d"] == pytest.approx(50e-6 * after / before)
    assert priced(seen, there(link_d2h_bandwidth=63e9))["copy_h2d"] == 50e-6, (
        "the other direction says nothing"
    )


def test_pageable_copies_keep_the_drivers_share() -> None:
    seen = profile_of(
        copies=[copy(0, 400_000, H2D, 2**20, memory=PAGEABLE)],
        kernels=[on_device(500_000, 501_000)],
    )
    before = 5.5e-6 + 2**20 / 9.4e9
    beyond = (5.5e-6 - 2.0e-6) + 2**20 * (1 / 9.4e9 - 1 / (0.85 * 31.5e9))
    after = 1.0e-6 + 2**20 / (0.85 * 63e9) + beyond
    assert priced(seen, there(link_h2d_bandwidth=63e9, link_h2d_latency=1e-6))[
        "copy_h2d"
    ] == pytest.approx(400e-6 * after / before)


def test_migrations_follow_the_link_with_their_own_cost() -> None:
    seen = profile_of(
        copies=[copy(0, 40_000, MIGRATION_H2D, 65_536)], kernels=[on_device(50_000, 51_000)]
    )
    before = 20e-6 + 65_536 / 3e9
    after = before - (2.0e-6 - 1.0e-6) - 65_536 * (1 / (0.85 * 31.5e9) - 1 / (0.85 * 63e9))
    assert priced(seen, there(link_h2d_bandwidth=63e9, link_h2d_latency=1e-6))[
        "migration"
    ] == pytest.approx(40e-6 * after / before)


def test_migrations_back_are_migrations() -> None:
    seen = profile_of(
        copies=[copy(0, 40_000, MIGRATION_D2H, 65_536)], kernels=[on_device(50_000, 51_000)]
    )
    before = 15e-6 + 65_536 / 4e9
    after = before - 65_536 * (1 / (0.83 * 31.5e9) - 1 / (0.83 * 63e9))
    assert priced(seen, there(link_d2h_bandwidth=63e9)) == pytest.approx(
        {"migration": 40e-6 * after / before, "kernel": 1e-6, "gap": 10e-6}
    )


def test_peer_copies_follow_the_link_between_devices() -> None:
    seen = profile_of(copies=[copy(0, 30_000, P2P, 2**20)], kernels=[on_device(50_000, 51_000)])
    before, after = 10e-6 + 2**20 / 95e9, 10e-6 + 2**20 / 190e9
    assert priced(seen, there(link_p2p_bandwidth=200e9))["copy_p2p"] == pytest.approx(
        30e-6 * after / before
    )
    assert priced(seen, there(link_h2d_bandwidth=1e9))["copy_p2p"] == 30e-6


def test_copies_inside_a_device_follow_its_memory_when_the_device_changes() -> None:
    rows = {
        "copies": [copy(0, 30_000, D2D, 2**20)],
        "memsets": [on_device(40_000, 42_000, memory=3) | {"size_bytes": 1}],
    }
    for row in rows["memsets"]:
        row.pop("name")
    seen = profile_of(**rows, kernels=[on_device(50_000, 51_000)])
    faster = there(gpu_memory_bandwidth=2 * FULL["gpu.memory_bandwidth"])
    fixed, moved = FULL["link.d2h.latency"], 2 * 2**20 / FULL["gpu.memory_bandwidth"]
    assert priced(seen, faster, nething("flop"))["copy_d2d"] == pytest.approx(
        30e-6 * (fixed + moved / 2) / (fixed + moved)
    )
    assert priced(seen, faster, nething("flop"))["memset"] == pytest.approx(1e-6)
    assert priced(seen, faster, nething("hold"))["copy_d2d"] == 30e-6


@pytest.mark.parametrize(
    ("alpha", "change", "factor"),
    [
        ("flop", {"gpu_fp64_matrix": 39e12}, 2.0),
        ("flop", {"gpu_fp64": 97e12}, 1.0),
        ("memory", {"gpu_memory_bandwidth": 3 * 1.555e12}, 3.0),
        ("hold", {"gpu_fp64_matrix": 39e12}, 1.0),
        (4.0, {}, 4.0),
    ],
)
def test_kernels_by_alpha(alpha: float | str, change: dict[str, float], factor: float) -> None:
    seen = profile_of(kernels=[on_device(0, 12_000)])
    assert priced(seen, there(**change), nething(alpha))["kernel"] == pytest.approx(12e-6 / factor)


def test_the_rate_of_kernels_is_that_of_the_matrix_units_if_there_are_any() -> None:
    vector = machine({"gpu.fp64": 7.8e12, "gpu.memory_bandwidth": 9e11})
    assert (
        kernel_rate(vector, "flop"),
        kernel_rate(HERE, "flop"),
        kernel_rate(vector, "memory"),
    ) == (7.8e12, 19.5e12, 9e11)
    assert kernel_rate(machine({}), "flop") is None


def run_of_calls() -> Profile:
    """One launch of an idle device, one behind it, one allocation, one wait; nothing else runs on
    the host.
    """
    return profile_of(
        api=[
            call(1_000, 3_000, 1),
            call(3_000, 5_000, 2),
            call(5_000, 20_000, 3, "cudaMalloc"),
            call(20_000, 90_000, 4, "cudaDeviceSynchronize"),
        ],
        kernels=[on_device(8_000, 50_000, 1), on_device(50_000, 80_000, 2)],
    )


@pytest.mark.parametrize(
    ("name", "added"),
    [
        ("launch_latency", 10e-6),
        ("launch_call", 0.0),
        ("alloc_call", 0.0),
        ("sync_return", 10e-6),
        ("slack_call", 2 * 10e-6),
    ],
)
def test_delays_count_where_they_are_felt(name: str, added: float) -> None:
    """The call behind a running kernel and the allocation beside it hide their delay; the wait and
    the idle device do not.
    """
    seen = run_of_calls()
    before = FULL[name.replace("_", ".")]
    target = there(**{name: before + 10e-6})
    found = project(seen, Pair(HERE, target), nething("hold"))
    assert found.seconds - seen.seconds == pytest.approx(added, abs=1e-12)
    calls = {
        "launch_latency": 1,
        "launch_call": 1,
        "alloc_call": 1,
        "sync_return": 1,
        "slack_call": 4,
    }[name]
    assert found.envelope[1] - seen.seconds == pytest.approx(calls * 10e-6, abs=1e-12)


def test_a_single_synchronous_thread_feels_every_call() -> None:
    """T(s) = T(0) + n s (the theorem behind slack penalties of 1)."""
    calls, kernels, at, number = [], [], 1_000, 0
    for _ in range(7):
        number += 2
        calls += [
            call(at, at + 2_000, number),
            call(at + 2_000, at + 20_000, number + 1, "cudaStreamSynchronize"),
        ]
        kernels.append(on_device(at + 4_000, at + 19_000, number))
        at += 25_000
    seen = profile_of(api=calls, kernels=kernels)
    for slack in (0.0, 1e-6, 1e-3):
        found = project(seen, Pair(HERE, there(slack_call=slack)), nething("hold"))
        assert found.seconds - seen.seconds == pytest.approx(14 * slack, rel=1e-9, abs=1e-15)


def test_waits_of_two_threads_for_one_end_are_one_wait() -> None:
    seen = profile_of(
        api=[
            call(1_000, 2_000, 1),
            *(
                call(2_000, 11_000, 2 + t, "cudaDeviceSynchronize", thread=(1000 << 24) + 1 + t)
                for t in range(2)
            ),
        ],
        kernels=[on_device(3_000, 9_000, 1)],
    )
    found = project(seen, Pair(HERE, there(sync_return=4e-6)), nething("hold"))
    assert found.seconds - seen.seconds == pytest.approx(1e-6)


def test_an_idle_device_feels_a_late_launch_even_if_the_call_still_runs() -> None:
    seen = profile_of(api=[call(1_000, 11_000, 1)], kernels=[on_device(3_000, 30_000, 1)])
    found = project(seen, Pair(HERE, there(launch_latency=16e-6)), nething("hold"))
    assert found.seconds - seen.seconds == pytest.approx(10e-6)


def test_nested_calls_cross_once() -> None:
    inner = [
        call(1_500, 4_500, 1, "cuLaunchKernel", level=1),
        call(9_500, 15_000, 2, "cudaStreamSynchronize", level=1),
    ]
    seen = profile_of(
        api=[call(1_000, 5_000, 1), call(9_000, 16_000, 2, "cudaDeviceSynchronize"), *inner],
        kernels=[on_device(6_000, 14_000, 1)],
    )
    for change, added in (
        (there(slack_call=1e-6), 2e-6),
        (there(sync_return=5e-6), 2e-6),
        (there(launch_latency=7e-6), 1e-6),
    ):
        found = project(seen, Pair(HERE, change), nething("hold"))
        assert found.seconds - seen.seconds == pytest.approx(added)


def test_bandwidth_of_a_link() -> None:
    assert link_bandwidth(HERE, "h2d", HERE) == pytest.approx(0.85 * 31.5e9)
    bare = machine({"link.h2d.bandwidth": 63e9})
    assert link_bandwidth(bare, "h2d", HERE) == pytest.approx(0.85 * 63e9), (
        "the observed share where the target states none"
    )
    assert link_bandwidth(bare, "h2d", bare) == 63e9 and link_bandwidth(bare, "d2h", HERE) is None
    limited = there(
        link_h2d_bandwidth=200e9, link_tags=256, link_read_request=512, link_round_trip=5.2e-6
    )
    assert link_bandwidth(limited, "h2d", HERE) == pytest.approx(256 * 512 / 5.2e-6)
    written = there(
        link_d2h_bandwidth=200e9, link_tags=256, link_read_request=512, link_round_trip=5.2e-6
    )
    assert link_bandwidth(written, "d2h", HERE) == pytest.approx(0.83 * 200e9), (
        "writes are posted: nothing waits for them"
    )
    assert link_bandwidth(there(link_h2d_efficiency=1.3), "h2d", HERE) == 31.5e9


def test_what_is_not_known_keeps_its_time() -> None:
    seen = profile_of(
        copies=[copy(0, 50_000, H2D, 2**20), copy(60_000, 70_000, P2P, 8)],
        kernels=[on_device(80_000, 90_000)],
    )
    run = pieces(seen)
    poor = machine({"gpu.memory_size": 1e9}, "poor")
    out = anchored(run, poor, there(link_h2d_bandwidth=63e9), nething("flop"))
    assert out.seconds.tolist() == run.seconds.tolist()
    assert {"copy_h2d", "p2p", "kernel"} <= set(out.missing)
    shared = replace(
        machine({}, "apu", coupling="apu"), memory_shared=Fact(True, "assumption", "a test")
    )
    assert anchored(run, HERE, shared, nething("hold")).seconds[
        run.kind == "copy_h2d"
    ].tolist() == [0.0]


# --- additive -------------------------------------------------------------------------------------


def moved(run: Pieces) -> np.ndarray:
    return np.isin(run.kind, ["copy_h2d", "copy_d2h", "migration"])


@LAW
@given(gpu_traces() | soups(), st.floats(0.05, 20), st.floats(0.05, 20), st.floats(0.05, 20))
def test_additive_divides_exposed_time_by_lambda(
    trace: Trace, data: float, control: float, launch: float
) -> None:
    """Eq 4 on the exclusive time line; waiting is never scaled."""
    seen = build(trace)
    run = pieces(seen)
    pair = Pair(HERE, machine(FULL, "there"))
    found = project(seen, pair, additive({"data": data, "control": control, "launch": launch}))
    exposed = run.exposed_seconds
    calls = (run.category == "api") & ~np.isin(run.call_class, ["sync", "launch"])
    started = run.call_class == "launch"
    wanted = seen.seconds
    for mine, improvement in ((moved(run), data), (calls, control), (started, launch)):
        wanted += exposed[mine].sum() * (1 / improvement - 1)
    assert found.seconds == pytest.approx(wanted, rel=1e-9, abs=1e-15)
    waits = run.call_class == "sync"
    after = anchored(run, pair.source, pair.target, additive({"control": control})).seconds
    assert after[waits].tolist() == run.seconds[waits].tolist(), "waiting is a result"


@LAW
@given(gpu_traces() | soups())
def test_additive_tie_of_benefit_and_penalty(trace: Trace) -> None:
    """On a measured run as on printed numbers: p = 1 + 10 (1 - 1/b)."""
    seen = build(trace)
    pair = Pair(HERE, machine(FULL, "there"))
    better, worse = (project(seen, pair, additive({"data": x, "control": x})) for x in (10.0, 0.1))
    if seen.seconds:
        assert worse.penalty == pytest.approx(1 + 10 * (1 - 1 / better.benefit), rel=1e-6)


@pytest.mark.parametrize(
    ("lambdas", "code"),
    [
        ({"sync": 10.0}, "A004"),
        ({"lunch": 10.0}, "A004"),
        ({"data": 0.0}, "A004"),
        ({"data": -1.0}, "A004"),
        ({"data": float("nan")}, "A004"),
        ({"data": float("inf")}, "A004"),
        ({}, "A005"),
    ],
)
def test_lambdas_that_mean_nothing(lambdas: dict[str, float], code: str) -> None:
    with pytest.raises(UsageError, match=code):
        additive(lambdas)


# --- numbers of the paper that follow from the machine files --------------------------------------


def test_design_points_of_2026() -> None:
    """Table I of Groves et al.: 5.1 and 6.7 times an A100 of 20 TFLOP/s, 121 and 900 GB/s, 4, 2 and
    1 us, launches of 2 us.
    """
    a100 = machine({**FULL, "gpu.fp64_matrix": 20e12}, "a100")
    seen = profile_of(kernels=[on_device(0, 12_000)])
    wanted = {
        "2026-disaggregated": (5.1, 121e9, 4e-6),
        "2026-discrete": (5.1, 121e9, 2e-6),
        "2026-onboard": (6.65, 900e9, 1e-6),
        "2026-apu": (5.1, None, None),
    }
    for name, (alpha, bandwidth, latency) in wanted.items():
        pair = Pair(a100, load(name))
        found = project(seen, pair, nething())
        assert found.alpha == pytest.approx(alpha), name
        assert found.seconds == pytest.approx(12e-6 / alpha), name
        assert (pair.target.value("link.h2d.bandwidth"), pair.target.value("link.d2h.latency")) == (
            bandwidth,
            latency,
        )
        assert pair.target.value("launch.call") == pair.target.value("launch.latency") == 2e-6
        assert pair.target.copies_vanish == (name == "2026-apu")


def test_disaggregation_of_2022_adds_two_microseconds() -> None:
    pair = Pair(HERE, load("2022-disaggregated"))
    changed = {
        n: (pair.target.value(n) or 0) - v for n, v in FULL.items() if pair.target.value(n) != v
    }
    assert changed == pytest.approx(
        {n: 2e-6 for n in ("link.h2d.latency", "link.d2h.latency", "launch.call", "launch.latency")}
    )
    seen = profile_of(
        api=[
            call(1_000, 2_000, 1, "cudaMemcpyAsync"),
            call(12_000, 13_000, 2),
            call(41_000, 42_000, 3, "cudaMemcpyAsync"),
        ],
        copies=[copy(3_000, 11_000, H2D, 2**17, 1), copy(43_000, 52_000, D2H, 2**17, 3)],
        kernels=[on_device(15_000, 40_000, 2)],
    )
    found = project(seen, pair, nething("hold"))
    h2d, d2h = 2.0e-6 + 2**17 / (0.85 * 31.5e9), 2.2e-6 + 2**17 / (0.83 * 31.5e9)
    assert found.seconds - seen.seconds == pytest.approx(
        2e-6 + 8e-6 * 2e-6 / h2d + 9e-6 * 2e-6 / d2h
    )


def test_dgemm_at_the_bandwidth_of_its_figure() -> None:
    """N.F3.4096: 4096 squared at 400 GB/s, alpha 8 over 2.5 TFLOP/s, no launch time: 6.98 times the
    host.
    """
    n = 4096
    host = 2 * n**3 / 2.5e12
    size = 8 * n**2
    fast = machine(
        {
            "link.h2d.bandwidth": 400e9,
            "link.d2h.bandwidth": 400e9,
            "link.h2d.latency": 1e-15,
            "link.d2h.latency": 1e-15,
        }
    )
    ns = round(size / 400e9 * 1e9)
    kernel = round(host / 8 * 1e9)
    seen = profile_of(
        copies=[
            copy(0, ns, H2D, size),
            copy(ns, 2 * ns, H2D, size),
            copy(2 * ns + kernel, 3 * ns + kernel, D2H, size),
        ],
        kernels=[on_device(2 * ns, 2 * ns + kernel)],
    )
    assert host / seen.seconds == pytest.approx(6.97785, rel=1e-5)
    slow = machine(
        {
            **{n: p.value for n, p in fast.parameters.items()},
            "link.h2d.bandwidth": 31.5e9,
            "link.d2h.bandwidth": 31.5e9,
        }
    )
    found = project(seen, Pair(fast, slow), nething("hold"))
    assert host / found.seconds == pytest.approx(host / (host / 8 + 3 * size / 31.5e9), rel=1e-5)
