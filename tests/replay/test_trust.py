"""What order is worth: explained and unexplained are the whole run, and an order that cannot be
trusted is refused with advice.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from refusals import refused
from rows import PROCESS, THREAD, call, on_device, profile_of
from runs import recorded_profile
from strategies import FEWER, flawed_traces, gpu_traces, soups, traces

from turnbuckle.profile.profile import Profile, build
from turnbuckle.projection.admission import require_order
from turnbuckle.projection.order import Prepared, prepared
from turnbuckle.questions.distance.distance import MODEL
from turnbuckle.replay.timeline import parameters
from turnbuckle.replay.trust import EXPLAINED, LOST, Doubt, Trust, trust
from turnbuckle.trace.trace import Trace


def ready(profile: Profile) -> tuple[Trust, Prepared]:
    made = prepared(profile, MODEL)
    assert made.trust is not None and made.timeline is not None
    assert trust(profile, made.timeline) == made.trust
    return made.trust, made


def launches(n: int, late: int = 0, every: int = 10**9) -> Profile:
    """`n` launches of 2 us with a kernel of 5 us each; every so many begin `late` before their
    call.
    """
    calls = [call(1_000 + 20_000 * i, 3_000 + 20_000 * i, i + 1) for i in range(n)]
    kernels = []
    for i in range(n):
        start = 1_000 + 20_000 * i + (6_000 if i % every else -late)
        kernels.append(on_device(start, start + 5_000, i + 1))
    return profile_of(api=calls, kernels=kernels)


@FEWER
@given(gpu_traces() | traces() | soups() | flawed_traces())
def test_explained_and_doubts_are_the_whole_run(trace: Trace) -> None:
    found, _ = ready(build(trace))
    assert found.explained == pytest.approx(1.0 - sum(d.share for d in found.doubts))
    assert -1e-12 <= found.explained <= 1.0
    assert [d.share for d in found.doubts] == sorted((d.share for d in found.doubts), reverse=True)
    assert all(d.seconds > 0 and d.share > 0 for d in found.doubts)
    assert bool(found.refused) == bool(found.record), "a refusal says what to record"
    assert str(PROCESS) not in found.words() and str(THREAD) not in found.words()


def test_a_run_that_rules_explain() -> None:
    """One launch, its delivery and its kernel: rules derive all of it."""
    found, made = ready(launches(1))
    assert found == Trust(1.0, ()) and found.words() == "100.0% of the critical path"
    require_order(made)


def test_time_between_calls_is_taken_as_recorded() -> None:
    """Four gaps of 18 us in a run of 91 us: no rule derives them, and none of them is late."""
    found, made = ready(launches(5))
    (doubt,) = found.doubts
    assert (doubt.track, doubt.kind) == ("host thread 1", "gap")
    assert doubt.seconds == pytest.approx(72e-6) and found.explained == pytest.approx(1 - 72 / 91)
    assert not found.refused, "a gap is not an order that is wrong"
    require_order(made)


def test_a_launch_held_back_by_nothing_known_is_taken_as_recorded() -> None:
    """Ten launches of 2 us and one of 100 us: what is beyond ten times a launch counts."""
    calls = [call(1_000 + 2_000 * i, 3_000 + 2_000 * i, i + 1) for i in range(10)] + [
        call(21_000, 121_000, 11)
    ]
    kernels = [on_device(5_000 + 2_000 * i, 6_000 + 2_000 * i, i + 1) for i in range(10)] + [
        on_device(123_000, 125_000, 11)
    ]
    found, _ = ready(profile_of(api=calls, kernels=kernels))
    held = {d.kind: d.seconds for d in found.doubts}
    assert held == {"launch": pytest.approx(80e-6)} and found.explained == pytest.approx(
        1 - 80 / 124
    )


def test_doubts_say_where_and_how_much() -> None:
    """A kernel nobody is known to have started: when it began has no reason."""
    alone = profile_of(kernels=[on_device(1_000, 4_000), on_device(10_000, 11_000)])
    found, made = ready(alone)
    (doubt,) = found.doubts
    assert (doubt.track, doubt.kind) == ("device 0 stream 7", "kernel")
    assert doubt.seconds == pytest.approx(6e-6) and doubt.share == pytest.approx(0.6)
    assert found.explained == pytest.approx(0.4) and found.explained < EXPLAINED
    assert found.words() == (
        "40.0% of the critical path; 0.0% keeps its time, 60.0% is a guess; most of it: "
        "kernel on device 0 stream 7, 60.0%"
    )
    assert doubt.as_dict() == {
        "track": doubt.track,
        "kind": "kernel",
        "seconds": doubt.seconds,
        "share": doubt.share,
    }
    assert (
        found.refused.startswith("60% of the critical path comes later")
        and "--trace=cuda" in found.record
    )
    assert refused("A122", require_order, made).exit_code == 3


def test_clocks_that_differ_are_refused() -> None:
    found, _ = ready(launches(50, late=500, every=10))
    assert (
        found.refused.startswith("5 of 50 activities start before the call")
        and "clocks" in found.record
    )
    assert not ready(launches(300, late=500, every=299))[0].refused, "a few may"
    assert 2 / 300 < LOST < 5 / 50


def test_streams_that_overlap_themselves_are_refused() -> None:
    beside = [on_device(1_000 + 1_000 * i, 2_500 + 1_000 * i) for i in range(8)]
    found, _ = ready(profile_of(kernels=beside))
    assert found.refused.startswith("7 of 8 activities overlap another on their own stream")
    assert not ready(profile_of(kernels=[replace_stream(k, i) for i, k in enumerate(beside)]))[
        0
    ].refused.startswith("7 of 8")


@pytest.mark.parametrize(
    ("recorder", "words"),
    [
        ("rocprofv3", "rocprofv3 --sys-trace"),
        ("kineto", "ProfilerActivity"),
        ("nvprof", "nvprof"),
        ("nsys", "--cuda-event-trace=true"),
    ],
)
def test_what_to_record_is_said_in_the_words_of_the_recorder(recorder: str, words: str) -> None:
    alone = profile_of(kernels=[on_device(1_000, 4_000), on_device(10_000, 11_000)])
    beside = profile_of(kernels=[on_device(1_000 + 1_000 * i, 2_500 + 1_000 * i) for i in range(8)])
    told = [
        ready(replace(p, trace=replace(p.trace, facts=p.trace.facts | {"format": recorder})))[0]
        for p in (alone, beside)
    ]
    assert words in told[0].record
    for found in told:
        assert recorder == "nsys" or not ("--trace=" in found.record or "nsys" in found.record)
    assert "newer profiler" in told[1].record and ("nsys profile" in told[1].record) == (
        recorder == "nsys"
    )


def replace_stream(row: dict[str, object], stream: int) -> dict[str, object]:
    return {**row, "stream": stream}


def test_who_asks_for_either_gets_the_sum() -> None:
    alone = profile_of(kernels=[on_device(1_000, 4_000), on_device(10_000, 11_000)])
    made = prepared(alone, replace(MODEL, replay="auto"))
    assert made.timeline is None and made.trust is not None and made.trust.refused
    require_order(made)
    assert prepared(launches(5), replace(MODEL, replay="auto")).timeline is not None
    assert prepared(alone, replace(MODEL, replay="sum")).trust is None


def test_nothing_is_wholly_explained() -> None:
    assert ready(profile_of(kernels=[on_device(1_000, 1_000)]))[0] == Trust(1.0, ())
    assert Trust(0.25, (Doubt("the run", "kernel", 1.0, 0.75),)).words().endswith("75.0%")


@pytest.mark.parametrize(
    ("name", "refused"),
    [("jacobi_gh200", False), ("cloverleaf_a100_perlmutter", False), ("extrap_con_kernel", True)],
)
def test_real_runs(shared: Path, name: str, refused: bool) -> None:
    (file,) = (shared / "traces/nsys" / name).glob("*.sqlite")
    found, _ = ready(recorded_profile(file))
    assert bool(found.refused) is refused
    if not refused:
        assert 0.8 < found.explained <= 1.0
        assert all(d.track.startswith(("host thread ", "device ", "the run")) for d in found.doubts)


def test_the_blocks_of_a_long_run_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found, made = ready(launches(200, late=500, every=7))
    assert made.timeline is not None
    path = made.timeline.unchanged_path[1]
    direction = np.arange(parameters(len(made.run)), dtype=np.float64)
    weights, slopes = made.timeline._weights, made.timeline.slopes(path, direction)
    monkeypatch.setattr("turnbuckle.replay.trust._BLOCK", 7)
    monkeypatch.setattr("turnbuckle.replay.timeline._BLOCK", 7)
    again, blocks = ready(launches(200, late=500, every=7))
    assert again == found and blocks.timeline is not None
    assert (blocks.timeline._weights == weights).all() and (
        blocks.timeline.slopes(path, direction) == slopes
    ).all()
