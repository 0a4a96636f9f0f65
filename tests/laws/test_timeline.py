"""The laws of the timeline replay, on drawn runs and on the real ones, against an event-by-event
replay in plain Python.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from runs import run_of
from strategies import FEWER, FULL, LAW, gpu_traces, machine, soups, traces

from turnbuckle.machine import Pair
from turnbuckle.profile.dependencies.graph import EDGE, EDGES, Graph
from turnbuckle.profile.profile import build
from turnbuckle.projection.anchor import anchored
from turnbuckle.projection.model import nething
from turnbuckle.projection.order import prepared, replayed
from turnbuckle.projection.project import answered
from turnbuckle.replay.timeline import Change, no_change
from turnbuckle.trace.trace import Trace

TIMELINE = replace(nething("hold"), replay="timeline")
SCALED = replace(nething("flop"), replay="timeline")


def replayed_by_hand(graph: Graph, lag: NDArray[np.float64]) -> list[float]:
    """Every instant, visited in recorded order again and again until nothing moves: slow, and
    nothing like the Rust.
    """
    instants = [float(r) for r in graph.residual_ns]
    incoming: dict[int, list[int]] = {}
    for edge, target in enumerate(graph.target):
        incoming.setdefault(int(target), []).append(edge)
    for _ in range(len(instants) + 1):
        before = list(instants)
        for v, edges in incoming.items():
            latest = max(instants[graph.source[e]] + max(lag[e], 0.0) for e in edges)
            instants[v] = latest + float(graph.residual_ns[v])
        if before == instants:
            return instants
    raise AssertionError("the graph has a cycle")


@LAW
@given(traces() | soups())
def test_every_recorded_instant_comes_back(trace: Trace) -> None:
    profile = build(trace)
    ready = prepared(profile, TIMELINE)
    assert ready.timeline is not None
    graph = ready.timeline.graph
    assert np.array_equal(ready.timeline.recorded_ns(), graph.time_ns)
    assert (graph.residual_ns >= 0).all() and (graph.lag_ns >= 0).all()
    source = machine(FULL)
    found = answered(profile, ready, Pair(source, source), SCALED)
    assert found.seconds == found.measured_seconds and found.envelope == (
        found.seconds,
        found.seconds,
    )
    assert found.breakdown == found.measured_breakdown
    assert abs(sum(found.breakdown.values()) - found.seconds) < 1e-9


def test_every_instant_of_the_real_runs_comes_back(shared: Path) -> None:
    files = sorted((shared / "traces").glob("nsys*/**/*.sqlite"))
    assert len(files) >= 27
    for file in files:
        run = run_of(file)
        ready = run.ordered
        assert ready.timeline is not None
        assert np.array_equal(ready.timeline.recorded_ns(), ready.timeline.graph.time_ns), file.name
        source = machine(FULL)
        found = answered(run.profile, ready, Pair(source, source), SCALED)
        assert found.seconds == found.measured_seconds, file.name


@FEWER
@given(
    gpu_traces(),
    st.floats(0.2, 5.0),
    st.integers(0, 5000),
    st.integers(0, 5000),
    st.integers(0, 5000),
    st.floats(0.2, 5.0),
)
def test_the_native_replay_is_the_one_by_hand(
    trace: Trace, ratio: float, call: int, delivery: int, back: int, host: float
) -> None:
    ready = prepared(build(trace), TIMELINE)
    assert ready.timeline is not None
    graph, run = ready.timeline.graph, ready.run
    each = np.ones(len(run))
    change = Change(
        ratio * each,
        call * 1e-9 * each,
        delivery * 1e-9 * each,
        back * 1e-9 * each,
        np.array([host]),
    )
    lag = graph.lag_ns.astype(float)
    for e, kind in enumerate(graph.kind):
        word = EDGES[kind]
        lag[e] *= {"run": ratio, "call": ratio, "meet": ratio, "fault": ratio, "host": host}.get(
            word, 1.0
        )
        lag[e] += {
            "run": call,
            "call": call,
            "meet": call,
            "sync": call + back,
            "queue": call,
            "deliver": delivery,
        }.get(word, 0)
    expected = replayed_by_hand(graph, lag)
    instants, path = ready.timeline.path(change)
    assert np.allclose(instants * 1e9, expected, rtol=1e-9, atol=1e-3)
    assert np.isclose(
        float(ready.timeline.seconds(change)) * 1e9, max(expected), rtol=1e-9, atol=1e-3
    )
    assert (
        len(path) == 0
        or graph.target[path[0]] == int(np.argmax(expected))
        or max(expected) == expected[graph.target[path[0]]]
    )


@FEWER
@given(
    gpu_traces(),
    st.sampled_from(
        [
            "link.h2d.latency",
            "link.d2h.latency",
            "launch.latency",
            "launch.call",
            "sync.return",
            "slack.call",
            "slack.link",
        ]
    ),
)
def test_later_is_never_earlier_and_bends_upwards(trace: Trace, name: str) -> None:
    # the laws hold for any graph, so they are asked below the door that refuses an order nobody can
    # trust
    profile = build(trace)
    source, base = machine(FULL), FULL.get(name, 0.0)
    ready = prepared(profile, TIMELINE)
    line = [
        replayed(
            ready,
            anchored(
                ready.run, source, machine({**FULL, name: base + x * 2e-6}, f"at {x}"), TIMELINE
            ),
        )
        for x in range(7)
    ]
    seconds = np.array([p.seconds for p in line])
    assert (np.diff(seconds) >= -1e-12).all()
    assert (np.diff(seconds, 2) >= -1e-12).all()
    for p in line:
        assert p.lower - 1e-12 <= p.seconds <= p.upper + 1e-12


@FEWER
@given(gpu_traces(), st.lists(st.floats(0.3, 3.0), min_size=2, max_size=20))
def test_many_scenarios_are_as_one_by_one(trace: Trace, ratios: list[float]) -> None:
    ready = prepared(build(trace), TIMELINE)
    assert ready.timeline is not None
    count = len(ready.run)
    none = no_change(count)
    many = replace(none, ratio=np.array(ratios)[:, None] * np.ones(count))
    single = [float(ready.timeline.seconds(replace(none, ratio=np.full(count, r)))) for r in ratios]
    assert np.array_equal(ready.timeline.seconds(many), single)


def test_slack_on_a_synchronous_loop_costs_what_is_exposed(shared: Path) -> None:
    """One launch and one wait an iteration: what delays the launch call hides behind the kernel,
    what delays the wait does not.
    """
    run = run_of(shared / "traces/nsys/rodinia_gaussian_rtx3090_b/report3.sqlite")
    profile = run.profile
    source = machine(FULL)
    delayed = answered(
        profile, run.ordered, Pair(source, machine({**FULL, "slack.call": 1e-6}, "slack")), TIMELINE
    )
    waits = int((profile.activities["kind"] == "sync").sum())
    assert (
        0.98 * waits * 1e-6
        < delayed.seconds - delayed.measured_seconds
        < 1.05 * waits * 1e-6 + 1e-4
    )
    assert "sync" in EDGE
