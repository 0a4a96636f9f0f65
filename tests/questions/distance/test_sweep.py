"""Run time against one speed, and over latency and bandwidth at once: the replay itself, or within
the bound that is printed.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from distances import (
    MODE,
    RUNS,
    SOME,
    answer,
    distance,
    launch_and_wait,
    on_full,
    one_after_another,
)
from hypothesis import given
from hypothesis import strategies as st
from rows import PROCESS, call, on_device, profile_of
from runs import run_of
from strategies import FULL, machine

from turnbuckle.foundation.arrays import Float
from turnbuckle.machine import Machine, Pair
from turnbuckle.machine.machine import Parameter
from turnbuckle.projection.project import answered
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.distance import MODEL, Distance, Mode
from turnbuckle.questions.distance.question import THRESHOLDS
from turnbuckle.questions.distance.speeds import (
    CHEAPEST,
    DEAREST,
    OVER,
    SHOWN,
    Over,
    cost_change,
    surface,
    sweep,
)
from turnbuckle.replay.timeline import no_change
from turnbuckle.trace.trace import Trace

COST = st.floats(-1, 1).map(lambda power: float(10**power))
POINT = st.tuples(st.floats(-8, -3), st.floats(-1, 1))


def moved(ready: Distance, slack: float, cost: float) -> Machine:
    """The source with its links `cost` times as slow and `slack` farther, the way `turnbuckle
    project` would see it.
    """
    changed = {}
    for name in ("link.h2d.bandwidth", "link.d2h.bandwidth"):
        stated = ready.source.get(name)
        if stated is not None:
            changed[name] = Parameter(stated.value / cost, 0.0, "B/s", "assumption", "a test")
    way = "slack.link" if ready.mode == "link" else "slack.call"
    return ready.source.with_parameters(
        {**changed, way: Parameter(slack, 0.0, "s", "assumption", "a test")}
    )


def direct(ready: Distance, seen: Run, slack: Float, bandwidth: Float) -> Float:
    """Run time at every point, replayed one by one."""
    order = seen.prepared(MODEL)
    pairs = [
        [Pair(ready.source, moved(ready, float(s), 1 / float(b))) for b in bandwidth] for s in slack
    ]
    return np.array(
        [[answered(seen.profile, order, pair, MODEL).seconds for pair in row] for row in pairs]
    )


# --- one speed ------------------------------------------------------------------------------------


@SOME
@given(RUNS, st.booleans(), st.sampled_from(OVER), COST)
def test_a_sweep_is_the_replay(trace: Trace, known: bool, over: Over, cost: float) -> None:
    seen = answer(trace, known)
    ready = distance(seen)
    if ready is None:
        return
    found = sweep(seen, over)
    curve = found.curve
    assert float(curve(1.0)) == found.measured == seen.profile.seconds or float(
        curve(1.0)
    ) == pytest.approx(found.measured, rel=1e-15)
    assert (curve.at[0], curve.at[-1], curve.gap) == (CHEAPEST, DEAREST, 0.0)
    assert (np.diff(curve.seconds) >= -1e-13).all() and (curve.seconds >= 0).all()
    assert (np.diff(curve.slopes) >= -1e-9 * max(1e-12, np.abs(curve.slopes).max())).all()
    at = np.array([cost, *curve.at, *((curve.at[1:] + curve.at[:-1]) / 2)])
    values = cost_change(ready, over)(at[:, None]).values
    replayed = ready.replay.seconds_at(np.broadcast_to(values, (len(at), values.shape[-1])))
    recorded = float(ready.replay.seconds(no_change(len(ready.replay.run))))
    assert np.allclose(replayed - recorded + found.measured, curve(at), rtol=1e-11, atol=1e-13)
    up, down = found.elasticity
    assert up >= down - 1e-12 and down >= -1e-12
    for share, reached in zip(THRESHOLDS, found.tolerances, strict=True):
        if reached is not None:
            assert reached >= 1 and float(curve(reached)) == pytest.approx(
                found.measured * (1 + share), rel=1e-9
            )
        else:
            assert curve.seconds[-1] <= found.measured * (1 + share)


@SOME
@given(RUNS, st.booleans(), st.sampled_from(OVER))
def test_the_contract_of_a_sweep(trace: Trace, known: bool, over: Over) -> None:
    seen = answer(trace, known)
    if distance(seen) is None:
        return
    document = json.loads(json.dumps(sweep(seen, over).as_dict(), allow_nan=False))
    assert document["over"] == over and [p["cost"] for p in document["curve"]] == list(SHOWN)
    assert {"elasticity", "tolerance", "breakpoints", "findings", "provenance"} <= set(document)
    at_one = next(p for p in document["curve"] if p["cost"] == 1.0)
    assert at_one["penalty"] == pytest.approx(1.0, rel=1e-15)


def test_each_speed_has_its_closed_form() -> None:
    """A launch (2 us, delivered after 6), a kernel of 20 us, a wait that returns after 3; 11 us of
    host work to the next.
    """
    n = 5
    seen = on_full(launch_and_wait(n))
    total = seen.profile.seconds
    assert total == pytest.approx(n * 29e-6 + (n - 1) * 11e-6)
    for cost in (0.5, 1.5, 3.0):
        assert float(sweep(seen, "kernel").curve(cost)) == pytest.approx(
            total + n * (cost - 1) * 20e-6, rel=1e-12
        )
        assert float(sweep(seen, "launch").curve(cost)) == pytest.approx(
            total + n * (cost - 1) * 6e-6, rel=1e-12
        )
        # host work between calls is on the path, the calls' own time hides behind the kernel
        assert float(sweep(seen, "cpu").curve(cost)) == pytest.approx(
            total + (n - 1) * (cost - 1) * 11e-6, rel=1e-9
        )
        assert float(sweep(seen, "bandwidth").curve(cost)) == total
    up, down = sweep(seen, "kernel").elasticity
    assert up == pytest.approx(n * 20e-6 / total) == down
    (one, *_) = sweep(seen, "kernel").tolerances
    assert one == pytest.approx(1 + 0.01 * total / (n * 20e-6))


def test_a_corner_where_the_run_is_now_has_two_slopes() -> None:
    """A kernel of 20 us and a call of another thread end the run together: dearer kernels lengthen
    it, cheaper ones save nothing.
    """
    calls = [call(1_000, 3_000, 1), call(1_000, 27_000, 2, "cudaEventQuery", thread=PROCESS | 2)]
    seen = on_full(profile_of(api=calls, kernels=[on_device(7_000, 27_000, 1)]))
    found = sweep(seen, "kernel")
    assert found.elasticity == pytest.approx(
        (20 / 26, 0.0)
    ) and found.curve.breakpoints == pytest.approx([1.0])
    assert float(found.curve(0.5)) == found.measured and float(found.curve(2.0)) == pytest.approx(
        found.measured + 20e-6
    )


def test_bytes_cost_what_the_link_takes_for_them() -> None:
    n, size = 4, 2**21
    for direction, latency, rate in ((1, 2.0e-6, 31.5e9 * 0.85), (2, 2.2e-6, 31.5e9 * 0.83)):
        seen = on_full(one_after_another(n, direction, size))
        for cost in (0.25, 2.0, 8.0):
            copied = (latency + size * cost / rate) / (latency + size / rate)
            expected = seen.profile.seconds + n * 2e-6 * (copied - 1)
            assert float(sweep(seen, "bandwidth").curve(cost)) == pytest.approx(expected, rel=1e-12)


def test_what_is_not_known_is_said() -> None:
    """A machine without a link: another bandwidth changes nothing that can be said, and a finding
    says so.
    """
    bare = Run(
        one_after_another(3, 1),
        machine({n: v for n, v in FULL.items() if not n.startswith(("link", "observed"))}),
        {},
    )
    found = sweep(bare, "bandwidth")
    assert float(found.curve(10.0)) == found.measured
    assert [f.code for f in found.findings] == ["M104"] and "link.h2d.bandwidth" in found.findings[
        0
    ].detail


# --- two at once ----------------------------------------------------------------------------------


@SOME
@given(
    RUNS,
    st.booleans(),
    MODE,
    st.none() | st.integers(1, 7),
    st.lists(st.tuples(st.floats(-8, -3), st.floats(-1, 1)), min_size=2, max_size=3),
)
def test_the_true_run_time_is_within_the_bound(
    trace: Trace, known: bool, mode: Mode, every: int | None, points: list[tuple[float, float]]
) -> None:
    seen = answer(trace, known)
    ready = distance(seen, mode)
    if ready is None:
        return
    slack = np.array(sorted({0.0, 1e-2, *(float(10**a) for a, _ in points)}))
    bandwidth = np.array(sorted({1.0, *(float(8**b) for _, b in points)}))
    found = surface(seen, mode, slack, bandwidth, every)
    true = direct(ready, seen, slack, bandwidth)
    assert found.seconds.shape == true.shape == (len(slack), len(bandwidth))
    assert (np.abs(true - found.seconds) <= found.bound * found.measured * (1 + 1e-9) + 1e-12).all()
    if every in (None, 1):
        assert found.bound <= 1e-12 and found.evaluations == true.size
    else:
        assert found.evaluations < true.size


@pytest.mark.parametrize("aside", [5e-4, 9e-4, 0.0, -2e-4, -5e-4])
def test_planes_hold_where_link_and_reads_are_equally_slow(aside: float) -> None:
    seen = on_full(one_after_another(1, 1, 2**20))
    ready = Distance.of(seen, "link")
    window = (ready.source.value("link.tags") or 0) * (ready.source.value("link.read_request") or 0)
    equal = 31.5e9 * 0.85 * (ready.source.value("link.round_trip") or 0) / window
    slack, bandwidth = (
        np.array([0.0, 1e-7, 1e-6]),
        np.array([0.5, 1 / (1 + aside), 1.1, 2.0]) / equal,
    )
    true = direct(ready, seen, slack, np.sort(bandwidth))
    for every in (None, 1, 2, 3):
        found = surface(seen, "link", slack, np.sort(bandwidth), every)
        assert (
            np.abs(true - found.seconds) <= (found.bound * (1 + 1e-9) + 1e-12) * found.measured
        ).all(), every


def test_a_surface_of_a_run_that_depends_on_neither() -> None:
    local = [call(1_000, 1_000, 99, "cudaStreamCreate")]  # never crosses to the device
    for end in (3_000, 1_000):
        profile = profile_of(api=local, kernels=[on_device(1_000, end)])
        for mode in ("link", "api"):
            found = surface(on_full(profile), mode)
            assert found.bound == 0 and np.allclose(
                found.seconds, profile.seconds, rtol=1e-15, atol=0
            )
            assert np.allclose(found.penalties, 1.0, rtol=1e-15)
            assert json.dumps(found.as_dict(), allow_nan=False)


def test_a_surface_as_a_table() -> None:
    seen = on_full(one_after_another(3, 1, 2**24))
    found = surface(seen, "link", np.array([0.0, 1e-6]), np.array([0.5, 1.0, 4.0]))
    rows = found.rows()
    assert [(r["slack_s"], r["bandwidth"]) for r in rows] == [
        (s, b) for s in (0.0, 1e-6) for b in (0.5, 1.0, 4.0)
    ]
    here = next(r for r in rows if (r["slack_s"], r["bandwidth"]) == (0.0, 1.0))
    assert here["seconds"] == pytest.approx(seen.profile.seconds, rel=1e-14) and here[
        "penalty"
    ] == pytest.approx(1.0, rel=1e-14)
    assert found.as_dict()["points"] == rows and found.as_dict()["longest_paths"] == 6


def test_a_surface_of_a_real_run(shared: Path) -> None:
    (file,) = (shared / "traces/nsys/cloverleaf_a100_perlmutter").glob("*.sqlite")
    seen = run_of(file)
    slack, bandwidth = (
        np.array([0.0, 1e-7, 1e-6, 3e-6, 1e-5, 1e-4, 1e-3]),
        np.array([0.125, 0.5, 0.9, 1.0, 1.1, 2.0, 8.0]),
    )
    true = direct(Distance.of(seen, "link"), seen, slack[::2], bandwidth[::3])
    bounds = []
    for every in (1, 2, 4):
        found = surface(seen, "link", slack, bandwidth, every)
        error = np.abs(true - found.seconds[::2, ::3]).max()
        assert error <= found.bound * found.measured * (1 + 1e-9) + 1e-9
        bounds.append(found.bound)
    assert bounds[0] < 1e-9 < bounds[1] <= bounds[2], "fewer longest paths, wider bounds"
