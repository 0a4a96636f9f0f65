"""Where the rules do not derive the order, the interval has a width; where nothing changes, it has
none (decision D20).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import OTHER, call, on_device, profile_of
from strategies import FEWER, FULL, gpu_traces, machine

from turnbuckle.machine import Change, Machine, Pair
from turnbuckle.machine.machine import Parameter
from turnbuckle.profile.profile import Profile, build
from turnbuckle.projection.elsewhere.priors import Draws
from turnbuckle.projection.model import Model, Replay, nething
from turnbuckle.projection.order import OVERLAP, UNEXPLAINED, prepared, replayed, unsure
from turnbuckle.projection.project import priced, project
from turnbuckle.projection.projection import NOISE, Projection
from turnbuckle.projection.uncertainty import project_many, uncertain
from turnbuckle.trace.trace import Trace

SOURCE = machine(FULL)
MODEL = replace(nething("hold"), replay="timeline")


def slower(microseconds: float) -> Machine:
    """The source with so much more for every call that crosses to the GPU, without an error of its
    own.
    """
    added = Change(
        "slack.call", add=Parameter(microseconds * 1e-6, 0.0, "s", "assumption", "a test")
    )
    return replace(
        machine({}, f"plus{microseconds:g}", coupling="relative"), base="source", changes=(added,)
    )


def asked(profile: Profile, *slack: float) -> list[Projection]:
    return project_many(profile, SOURCE, [slower(s) for s in slack], MODEL, {}, draws=200)


def launches(gap: int) -> Profile:
    """20 launches of 2 us, `gap` ns between them, and one wait."""
    step = 2_000 + gap
    calls = [call(1_000 + step * i, 3_000 + step * i, i + 1) for i in range(20)]
    kernels = [on_device(6_000 + step * i, 7_000 + step * i, i + 1) for i in range(20)]
    end = 3_000 + step * 19
    return profile_of(
        api=[*calls, call(end, end + 7_000, 40, "cudaDeviceSynchronize")], kernels=kernels
    )


def test_an_order_that_rules_derive_has_no_width() -> None:
    (answer,) = asked(launches(0), 5.0)
    assert answer.order["explained"] == 1.0
    assert answer.interval is not None and answer.ends == pytest.approx(
        (answer.seconds, answer.seconds), rel=1e-12
    )
    assert not answer.drivers


def test_time_between_calls_gives_the_change_a_width() -> None:
    """How wide is what the sum says else, and the change once more, by the share of the path that
    is gaps.
    """
    profile = launches(18_000)
    (answer,) = asked(profile, 5.0)
    unexplained = 1.0 - answer.order["explained"]
    assert unexplained > 0.8
    by_sum = project(profile, Pair(SOURCE, slower(5.0)), replace(MODEL, replay="sum")).seconds
    change = answer.seconds - answer.measured_seconds
    widest = answer.seconds + unexplained * (max(by_sum - answer.seconds, 0.0) + change)
    high = answer.ends[1]
    assert change > 0 and answer.seconds < high <= widest
    assert high > answer.seconds + 0.8 * unexplained * change
    assert set(answer.drivers) <= {OVERLAP, UNEXPLAINED} and UNEXPLAINED in answer.drivers


@FEWER
@given(gpu_traces())
def test_no_change_has_no_width(trace: Trace) -> None:
    profile = build(trace)
    answers = project_many(
        profile, SOURCE, [SOURCE, slower(0.0)], replace(MODEL, replay="auto"), {}, draws=20
    )
    for answer in answers:
        assert answer.ends == (answer.measured_seconds, answer.measured_seconds)


@FEWER
@given(gpu_traces(), st.lists(st.floats(0.0, 500.0), min_size=2, max_size=3).map(sorted))
def test_every_end_grows_with_the_slack_and_holds_the_answer(
    trace: Trace, slack: list[float]
) -> None:
    answers = project_many(
        build(trace),
        SOURCE,
        [slower(s) for s in slack],
        replace(MODEL, replay="auto"),
        {},
        draws=20,
    )
    for answer in answers:
        low, high = answer.ends
        assert low <= answer.seconds <= high, "the answer as stated lies inside"
    for less, more in pairwise(answers):
        for a, b in zip((less.seconds, *less.ends), (more.seconds, *more.ends), strict=True):
            assert a <= b * (1 + 1e-9)


@FEWER
@given(gpu_traces(), st.floats(0.0, 500.0))
def test_an_order_in_doubt_never_narrows_an_interval(trace: Trace, slack: float) -> None:
    """Common draws with launches that scatter: each end lies outside those of the replay alone."""
    profile, target = build(trace), slower(slack)
    ready = prepared(profile, replace(MODEL, replay="auto"))
    source = machine(FULL, error=0.2)
    question = uncertain(ready, source, {}, 20)
    pair = Pair(source, target)
    replay = np.quantile(question.samples(target, pair, MODEL)[0], [0.05, 0.95])
    (answer,) = project_many(
        profile, source, [target], replace(MODEL, replay="auto"), {}, draws=20, ready=ready
    )
    low, high = answer.ends
    assert low <= replay[0] and replay[1] <= high


def test_another_host_is_not_counted_twice() -> None:
    """Gaps on a slower host are priced; what no rule explains does not take that change once
    more.
    """
    profile = launches(18_000)
    ready = prepared(profile, MODEL)
    durations = priced(ready, Pair(SOURCE, slower(0.0)), MODEL)
    durations = replace(durations, host=np.full_like(durations.host, 2.0))
    seconds = replayed(ready, durations).seconds
    drawn = unsure(ready, durations, np.full(100, seconds), Draws(100, 1, (UNEXPLAINED,)))
    assert seconds > 1.8 * profile.seconds and np.allclose(drawn, seconds, rtol=1e-12)


# --- two replays ----------------------------------------------------------------------------------


def watched() -> Profile:
    """One kernel of 9 ms beside a thread with two long calls of its own, half a millisecond between
    them.
    """
    asks = [
        call(t, t + 4_750_000, 50 + k, "cudaEventQuery", OTHER)
        for k, t in enumerate((0, 5_250_000))
    ]
    wait = call(5_000, 9_100_000, 2, "cudaDeviceSynchronize")
    return profile_of(
        api=[call(0, 4_000, 1), wait, *asks], kernels=[on_device(8_000, 9_090_000, 1)]
    )


def with_kernels(factor: float) -> Model:
    return replace(nething(factor), replay="auto")


def other_gpu() -> Machine:
    return machine(FULL, "other")


@pytest.mark.parametrize("replay", ["auto", "timeline", "sum"])
def test_replays_that_disagree_beyond_both_ranges_make_one_range_that_holds_both(
    replay: Replay,
) -> None:
    """Kernels ten times as fast: the sum takes their time off, on the time line the other thread
    goes on as recorded.
    """
    profile = watched()
    answers = {
        kind: project_many(
            profile, SOURCE, [other_gpu()], replace(with_kernels(10.0), replay=kind), {}, draws=100
        )[0]
        for kind in ("timeline", "sum")
    }
    (answer,) = project_many(
        profile, SOURCE, [other_gpu()], replace(with_kernels(10.0), replay=replay), {}, draws=100
    )
    apart = [f for f in answer.findings if f.code == "A390"]
    assert answers["timeline"].ends[0] > answers["sum"].ends[1] * 1.5
    assert bool(apart) == (replay == "auto")
    low, high = answer.ends
    both = low <= answers["sum"].seconds and answers["timeline"].seconds <= high
    assert both == (replay == "auto")
    if apart:
        assert "gap on host thread" in apart[0].detail
        assert answer.verdict == "cannot say, the two replays disagree"
        assert answer.by_coupling.verdict == "within 1 %", (
            "the coupling alone changes nothing, by both"
        )


@FEWER
@given(gpu_traces(), st.floats(1.1, 20.0))
def test_the_range_of_auto_meets_that_of_the_sum(trace: Trace, times: float) -> None:
    """Kernels some times as fast, and nothing slower: whatever the order, the two have something in
    common.
    """
    profile, model = build(trace), with_kernels(times)
    (answer,) = project_many(profile, SOURCE, [other_gpu()], model, {}, draws=20)
    (by_sum,) = project_many(
        profile, SOURCE, [other_gpu()], replace(model, replay="sum"), {}, draws=20
    )
    (low, high), (least, most) = answer.ends, by_sum.ends
    faster = min(low, least) < answer.measured_seconds * (1.0 - NOISE)
    apart = max(low, least) - min(high, most)
    assert apart <= NOISE * max(low, least) * (1 + 1e-9) or not faster or answer.replay == "sum"


@FEWER
@given(gpu_traces(), st.floats(0.0, 500.0))
def test_delays_alone_are_no_disagreement(trace: Trace, slack: float) -> None:
    (answer,) = project_many(
        build(trace), SOURCE, [slower(slack)], replace(MODEL, replay="auto"), {}, draws=20
    )
    assert answer.interval is None or answer.interval.apart is None
