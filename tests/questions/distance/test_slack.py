"""Added distance: the curve is the replay itself, its corners are where they should be, and the
tolerances are what it says.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
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
from refusals import refused
from rows import call, copy, on_device, profile_of
from runs import run_of
from strategies import FULL, gpu_traces, machine, with_columns

from turnbuckle.machine import Change, Machine, Pair
from turnbuckle.machine.hops import hops
from turnbuckle.machine.machine import Parameter
from turnbuckle.machine.parameter_names import FABRIC
from turnbuckle.profile.classify import BOUNDARY_CLASSES
from turnbuckle.projection.project import project
from turnbuckle.projection.run import Run
from turnbuckle.projection.sensitivity import MOST
from turnbuckle.questions.distance.distance import FARTHEST, MODEL, MODES, NEAREST, Distance, Mode
from turnbuckle.questions.distance.question import THRESHOLDS, Slack, tolerate
from turnbuckle.trace.trace import Trace

AWAY = st.sampled_from([0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, FARTHEST]) | st.floats(-9, -1).map(
    lambda power: float(10**power)
)
SMALL = ("jacobi_gh200", "cloverleaf_a100_perlmutter", "softmax_uvm_t4", "nvfuser_matmul_h100")


def far(ready: Distance, slack: float) -> Machine:
    """A relative machine that is `slack` away and says of reads what was assumed of the source."""
    way = "slack.link" if ready.mode == "link" else "slack.call"
    reads = [Change(n, set=ready.source.get(n)) for n in FABRIC]
    changes = (Change(way, set=Parameter(slack, 0.0, "s", "assumption", "a test")), *reads)
    return Machine(
        name="far",
        title="far",
        summary="",
        year=0,
        coupling="fabric",
        base="source",
        changes=changes,
    )


def seconds_at(ready: Distance, slack: float, seen: Run) -> float:
    """Run time at a distance by the way `turnbuckle project` goes."""
    return project(seen.profile, Pair(ready.source, far(ready, slack)), MODEL).seconds


# --- the curve ------------------------------------------------------------------------------------


@SOME
@given(RUNS, MODE, st.booleans(), AWAY)
def test_the_curve_is_the_projection(trace: Trace, mode: Mode, known: bool, slack: float) -> None:
    seen = answer(trace, known)
    ready = distance(seen, mode)
    if ready is None:
        return
    found = tolerate(seen, mode, draws=0)
    assert float(found.curve(slack)) == pytest.approx(
        seconds_at(ready, slack, seen), rel=1e-11, abs=1e-12
    )
    assert found.curve.seconds[0] == found.measured == seen.profile.seconds, (
        "it starts at the recording, to the nanosecond"
    )
    assert (found.curve.at[0], found.curve.at[-1]) == (0.0, FARTHEST)
    assert found.penalty(0.0) == 1.0 and found.curve.gap == 0


@SOME
@given(RUNS, MODE, st.booleans())
def test_it_never_falls_and_bends_upwards_at_its_knots_only(
    trace: Trace, mode: Mode, known: bool
) -> None:
    seen = answer(trace, known)
    ready = distance(seen, mode)
    if ready is None:
        return
    curve = tolerate(seen, mode, draws=0).curve
    assert (np.diff(curve.at) > 0).all() and len(curve.slopes) == len(curve.at) - 1 == len(
        curve.seconds
    ) - 1
    assert (curve.slopes >= 0).all() and (
        np.diff(curve.slopes) >= -1e-9 * max(float(curve.slopes.max()), 1.0)
    ).all()
    assert np.allclose(
        np.diff(curve.seconds), curve.slopes * np.diff(curve.at), rtol=1e-6, atol=1e-12
    )
    between = np.concatenate(
        [curve.at, (curve.at[1:] + curve.at[:-1]) / 2, curve.at[:-1] + np.diff(curve.at) * 1e-3]
    )
    values = ready.change(between[:, None]).values
    values = np.broadcast_to(values, (len(between), values.shape[-1]))
    direct = ready.replay.seconds_at(values)
    assert np.allclose(
        direct - direct[0] + seen.profile.seconds, curve(between), rtol=1e-11, atol=1e-13
    )


@SOME
@given(RUNS, MODE, st.booleans(), st.integers(1, 12))
def test_a_tolerance_is_the_largest_distance_within(
    trace: Trace, mode: Mode, known: bool, draws: int
) -> None:
    seen = answer(trace, known)
    ready = distance(seen, mode)
    if ready is None:
        return
    found = tolerate(seen, mode, draws=draws)
    assert tuple(t.share for t in found.tolerances) == THRESHOLDS
    for t in found.tolerances:
        limit = found.measured * (1 + t.share)
        if t.slack is None:
            assert found.curve.seconds[-1] <= limit
        else:
            assert float(found.curve(t.slack)) <= limit * (1 + 1e-12)
            beyond = min(t.slack * (1 + 1e-6) + 1e-15, FARTHEST)
            assert float(found.curve(beyond)) >= limit * (1 - 1e-12)
        assert t.interval is not None
        low, high = (np.inf if end is None else end for end in t.interval)
        assert low <= (np.inf if t.slack is None else t.slack) <= high
        if mode == "api" and found.trust.explained == 1.0:
            assert low == pytest.approx(high, rel=1e-9), (
                "of calls that block nothing is assumed, and rules derive the order"
            )
    reached = [np.inf if t.slack is None else t.slack for t in found.tolerances]
    assert reached == sorted(reached)


def test_a_run_of_copies_has_a_closed_form() -> None:
    """P11: one synchronous thread pays for each call: T(s) = T(0) + n x trips x s."""
    for n in (1, 7):
        to_host = one_after_another(n, 2)
        for slack in (1e-7, 1e-5, 1e-3, 0.09):
            link, api = (
                float(tolerate(on_full(to_host), mode, draws=0).curve(slack)) for mode in MODES
            )
            # the command there, and the data back with the news
            assert link == pytest.approx(to_host.seconds + n * (TRIPS + 1) * slack, rel=1e-12)
            assert api == pytest.approx(to_host.seconds + n * slack, rel=1e-12)
    (tolerance, *_) = tolerate(on_full(one_after_another(7, 2)), draws=0).tolerances
    assert (
        tolerance.slack
        == pytest.approx(0.01 * one_after_another(7, 2).seconds / (7 * (TRIPS + 1)), rel=1e-9)
        and tolerance.interval is None
    )


def test_reads_lose_bandwidth_where_those_in_flight_no_longer_cover_the_round_trip() -> None:
    """D12: from s = (window / B - RTT) / 2 on a byte costs (RTT + 2 s) / window; before that only
    the trips count.
    """
    size, n = 2**21, 3
    to_device = one_after_another(n, 1, size)
    ready = Distance.of(on_full(to_device), "link")
    window = (ready.source.value("link.tags") or 0) * (ready.source.value("link.read_request") or 0)
    trip, rate = ready.source.value("link.round_trip") or 0, 31.5e9 * 0.85
    kink = (window / rate - trip) / 2
    assert 0 < kink < 1e-4 and ready.kinks() == pytest.approx([kink], rel=1e-12)
    curve = tolerate(on_full(to_device), draws=0).curve
    for slack in (kink / 3, kink, 2 * kink, 1e-4, 1e-2):
        copied = (2e-6 + size * max(1 / rate, (trip + 2 * slack) / window)) / (2e-6 + size / rate)
        # command, request, data, and the news of the end
        expected = to_device.seconds + n * ((TRIPS + 3) * slack + 2e-6 * (copied - 1))
        assert float(curve(slack)) == pytest.approx(expected, rel=1e-12)
    assert any(abs(at - kink) < 1e-15 for at in curve.at)
    assert Distance.of(on_full(to_device), "api").kinks() == []


def test_delay_that_kernels_hide_costs_nothing() -> None:
    """In calls that block, the launch's delay hides behind its kernel until the two are as long; on
    the link both trips are waited for.
    """
    n = 5
    seen = on_full(launch_and_wait(n))
    link, api = (tolerate(seen, mode, draws=0).curve for mode in MODES)
    for slack in (1e-6, 1e-5, 1e-3):
        assert float(link(slack)) == pytest.approx(
            seen.profile.seconds + n * (TRIPS + 1) * slack, rel=1e-12
        )
    assert float(api(1e-6)) == pytest.approx(seen.profile.seconds + n * 1e-6, rel=1e-12)
    assert api.slopes[0] == pytest.approx(n) and api.slopes[-1] == pytest.approx(2 * n)
    (corner,) = api.at[1:-1]
    # launch 2, host 1, and the wait's own 3 us against delivery 6, kernel 20 and return 3 us
    assert corner == pytest.approx(23e-6, rel=1e-9)


# --- what does not matter -------------------------------------------------------------------------


@SOME
@given(gpu_traces(), MODE, st.integers(-900, 10**15))
def test_time_and_names_of_a_recording_do_not_matter(trace: Trace, mode: Mode, later: int) -> None:
    shifted = with_columns(
        trace,
        lambda _, frame: frame.with_columns(
            pl.col(c) + later for c in frame.columns if c.endswith("_ns")
        ),
    )
    numbers = ("stream", "context", "correlation")
    renamed = with_columns(
        trace,
        lambda _, frame: frame.with_columns(pl.col(c) + 3 for c in numbers if c in frame.columns),
    )
    seen = answer(trace, True)
    if distance(seen, mode) is None:
        return
    plain = tolerate(seen, mode, draws=5)
    for other in (shifted, renamed):
        same = tolerate(answer(other, True), mode, draws=5)
        assert np.array_equal(plain.curve.at, same.curve.at) and np.array_equal(
            plain.curve.seconds, same.curve.seconds
        )
        assert plain.tolerances == same.tolerances
        assert [(c.what, c.seconds) for c in plain.carriers] == [
            (c.what, c.seconds) for c in same.carriers
        ]


# --- draws ----------------------------------------------------------------------------------------


def test_draws_have_a_seed() -> None:
    seen = on_full(one_after_another(20, 1, 2**24))
    first, again, other = (tolerate(seen, draws=60, seed=seed).tolerances for seed in (1, 1, 2))
    assert first == again and first != other
    assert [t.slack for t in first] == [t.slack for t in other], "a draw moves the interval alone"
    for t in first:
        assert t.interval is not None and t.slack is not None
        low, high = t.interval
        assert low is not None and high is not None and low <= t.slack <= high and low < high
    assert all(t.interval is None for t in tolerate(seen, draws=0).tolerances)


def test_what_a_source_says_of_reads_is_not_assumed() -> None:
    said = {"link.tags": 64.0, "link.read_request": 256.0, "link.round_trip": 5e-7}
    profile = one_after_another(3, 1, 2**20)
    assert len(Distance.of(on_full(profile), "link").assumed) == 4
    stated = Distance.of(Run(profile, machine({**FULL, **said}), {}), "link")
    assert (
        list(stated.assumed) == ["link.command_trips"] and stated.source.value("link.tags") == 64.0
    )
    # 4 requests of 256 B in 500 ns are 2 GB/s, and the run shows 26.8: as many more are in flight
    # as that takes
    short = Distance.of(Run(profile, machine({**FULL, **said, "link.tags": 4.0}), {}), "link")
    assert short.source.value("link.tags") == pytest.approx(31.5e9 * 0.85 * 5e-7 / 256)
    assert short.kinks() == [] or short.kinks()[0] < 1e-15
    curve = tolerate(Run(profile, machine({**FULL, **said, "link.tags": 4.0}), {}), draws=0).curve
    assert np.isfinite(curve.slopes).all() and (np.diff(curve.slopes) >= -1e-6).all()


# --- the answer -----------------------------------------------------------------------------------


@SOME
@given(RUNS, MODE, st.booleans())
def test_the_contract(trace: Trace, mode: Mode, known: bool) -> None:
    seen = answer(trace, known)
    if distance(seen, mode) is None:
        return
    found = tolerate(seen, mode, draws=5)
    document = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert document["mode"] == mode and document["measured_seconds"] == found.measured
    assert [set(point) for point in document["curve"]] == [
        {"slack_s", "seconds", "lower", "upper", "penalty"}
    ] * (len(found.shown()) + 1)
    start = document["curve"][0]
    assert (start["slack_s"], start["seconds"], start["penalty"]) == (0.0, found.measured, 1.0)
    assert start["lower"] == pytest.approx(found.measured) == start["upper"]
    assert all(point["lower"] <= point["seconds"] <= point["upper"] for point in document["curve"])
    assert list(document["tolerance"]) == ["1%", "2%", "5%", "10%"]
    assert all(set(t) == {"slack_s", "interval"} for t in document["tolerance"].values())
    assert [h["hop"] for h in document["hops"]] == [h.name for h in hops()]
    assert document["calls"] == [c.as_dict() for c in found.carriers]
    assert {
        "schema_version",
        "breakpoints",
        "provenance",
        "findings",
        "explained",
        "unexplained",
    } <= set(document)
    seconds = [point["seconds"] for point in document["curve"]]
    assert seconds == sorted(seconds)


def test_where_a_table_looks() -> None:
    found: Slack = tolerate(on_full(launch_and_wait(1)), draws=0)
    shown = found.shown()
    assert (
        shown[0] == pytest.approx(NEAREST)
        and shown[-1] == pytest.approx(FARTHEST)
        and len(shown) == 25
    )
    assert np.allclose(shown[4:] / shown[:-4], 10.0)


def test_what_cannot_be_said() -> None:
    refused("A121", tolerate, on_full(profile_of(api=[call(1_000, 2_000, 1, "cudaMalloc")])))
    beside = [on_device(1_000 * i, 1_000 * i + 1_500) for i in range(1, 9)]
    refused(
        "A122",
        tolerate,
        on_full(profile_of(api=[call(500, 900, 99, "cudaMalloc")], kernels=beside)),
    )
    refused("A140", tolerate, on_full(profile_of(kernels=[on_device(1_000, 2_000)])))


def test_runs_with_hardly_anything() -> None:
    """One activity beside a call, or moves of pages alone, or no time at all: distance still has an
    answer.
    """
    alone = profile_of(
        api=[call(1_000, 1_000, 99, "cudaStreamCreate")], kernels=[on_device(1_000, 2_000)]
    )
    nothing = profile_of(
        api=[call(1_000, 1_000, 99, "cudaStreamCreate")], kernels=[on_device(1_000, 1_000)]
    )
    moves = [
        {**copy(1_000 + 9_000 * i, 7_000 + 9_000 * i, 6, 65_536), "cause": 2} for i in range(3)
    ]
    for profile in (alone, nothing):
        for mode in MODES:
            found = tolerate(on_full(profile), mode)
            assert found.carriers == () and all(t.slack is None for t in found.tolerances), mode
            assert found.penalty(FARTHEST) == 1.0
    paged = tolerate(on_full(profile_of(api=[call(500, 900, 99, "cudaMalloc")], copies=moves)))
    assert paged.carriers and paged.curve.slopes[0] > 0
    assert {c.call for c in paged.carriers} == {"memory moved by the driver"}


def test_a_search_that_stops_says_how_far_it_may_be_off(shared: Path) -> None:
    seen = run_of(
        shared / "traces/nsys/cloverleaf_a100_perlmutter/perlmutter-cloverleaf-cuda.sqlite"
    ).judged
    ready = Distance.of(seen, "link")
    whole, part = (tolerate(seen, draws=0, ready=ready.ready, most=most) for most in (MOST, 8))
    assert whole.curve.gap == 0 < part.curve.gap
    at = np.geomspace(NEAREST, FARTHEST, 200)
    error = part.curve(at) - whole.curve(at)
    assert (np.abs(error) <= part.curve.gap + 1e-12).all() and np.abs(error).max() > 0


@pytest.mark.parametrize("name", SMALL)
def test_real_runs(shared: Path, name: str) -> None:
    (file,) = (shared / "traces/nsys" / name).glob("*.sqlite")
    seen = run_of(file).judged
    for mode in MODES:
        ready = Distance.of(seen, mode)
        found = tolerate(seen, mode, draws=10, ready=ready.ready)
        curve = found.curve
        assert curve.seconds[0] == seen.profile.seconds
        assert (curve.slopes >= 0).all() and (
            np.diff(curve.slopes) >= -1e-6 * curve.slopes.max()
        ).all()
        at = np.concatenate(
            [[0.0], found.shown(), curve.at[:40], (curve.at[1:40] + curve.at[:-1][:39]) / 2]
        )
        direct = ready.replay.seconds(ready.change(at[:, None]))
        assert np.allclose(
            direct - direct[0] + seen.profile.seconds,
            curve(at),
            rtol=1e-10,
            atol=1e-12 * curve.seconds[-1],
        )
        assert seconds_at(ready, 1e-5, seen) == pytest.approx(float(curve(1e-5)), rel=1e-10)
        for t in found.tolerances:
            if t.slack is not None:
                assert float(curve(t.slack)) == pytest.approx(
                    seen.profile.seconds * (1 + t.share), rel=1e-9
                )


def test_the_spread_of_other_runs_is_the_interval_of_a_run_time() -> None:
    seen = on_full(launch_and_wait(3))
    found = tolerate(seen, "api", draws=0)
    assert found.interval(1e-6) is None and "interval" not in found.as_dict()["curve"][0]
    others = [found.measured * x for x in (0.9, 1.0, 1.1, 1.0)]
    spread = tolerate(seen, "api", draws=0, repeats=others)
    (low, high), (low_of_five, high_of_five) = spread.interval(1e-6), spread.interval(1e-6, 5)
    added = float(spread.curve(1e-6)) - spread.measured
    logs = np.log([found.measured, *others])
    reach = 2.131846786 * logs.std(ddof=1) * math.sqrt(1 + math.pi / 10)
    assert low == pytest.approx(
        found.measured * math.exp(-reach) + added
    ) and high == pytest.approx(found.measured * math.exp(reach) + added)
    assert low < low_of_five < high_of_five < high
    assert spread.as_dict()["curve"][0]["interval"] == list(spread.interval(0.0))


def test_the_interval_is_around_the_median_of_the_runs() -> None:
    seen = on_full(launch_and_wait(3))
    measured = tolerate(seen, draws=0).measured
    low, high = tolerate(seen, draws=0, repeats=[measured * 2, measured * 2]).interval(0.0)
    assert math.sqrt(low * high) == pytest.approx(2 * measured)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_a_run_time_of_another_run_must_be_one(wrong: float) -> None:
    refused("A427", tolerate, on_full(launch_and_wait(1)), draws=0, repeats=[wrong])


def test_only_the_calls_of_the_classes_are_delayed() -> None:
    seen = on_full(launch_and_wait(4))
    every, launches, waits = (
        tolerate(seen, "api", draws=0, classes=c).curve for c in ((), ("launch",), ("sync",))
    )
    assert float(every(1e-3)) > float(launches(1e-3)) > seen.profile.seconds
    assert float(every(1e-3)) > float(waits(1e-3)) > seen.profile.seconds
    whole = tolerate(seen, "api", draws=0, classes=BOUNDARY_CLASSES).curve
    assert float(whole(1e-3)) == float(every(1e-3))


@pytest.mark.parametrize(
    ("mode", "classes", "code"),
    [("link", ("launch",), "A015"), ("api", ("lunch",), "A004"), ("api", ("query",), "A004")],
)
def test_classes_that_cannot_be_delayed_are_refused(
    mode: Any, classes: tuple[str, ...], code: str
) -> None:
    refused(code, tolerate, on_full(launch_and_wait(1)), mode, draws=0, classes=classes)
