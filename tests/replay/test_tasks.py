"""Declared task graphs: against a longest path in exact fractions, a linear programme, and the law
of exclusive tracks.
"""

from __future__ import annotations

from fractions import Fraction
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import Any

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.foundation.errors import UsageError
from turnbuckle.replay.tasks import Replayed, Tasks, Terms, compile_tasks, replay_tasks, run_times

plain = settings(max_examples=120)


@st.composite
def graphs(draw: st.DrawFn) -> Tasks:
    """Graphs whose edges and tracks lead forward in a hidden order; times are odd fractions of a
    second.
    """
    count = draw(st.integers(1, 9))
    time = st.one_of(st.just(0.0), st.floats(1e-9, 1e3), st.sampled_from([1 / 3, 0.1, 7e-7]))
    pairs = [(u, v) for v in range(count) for u in range(v)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=14)) if pairs else []
    track = draw(st.one_of(st.none(), st.lists(st.integers(-1, 2), min_size=count, max_size=count)))
    # names are shuffled where no track gives them a meaning
    name = draw(st.permutations(range(count))) if track is None else list(range(count))
    source, target = ([name[e[i]] for e in edges] for i in (0, 1))
    seconds = draw(st.lists(time, min_size=count, max_size=count))
    lags = draw(st.lists(time, min_size=len(edges), max_size=len(edges)))
    return tasks(seconds, list(zip(source, target, lags, strict=True)), track)


def tasks(
    seconds: list[float], edges: list[tuple[int, int, float]], track: list[int] | None = None
) -> Tasks:
    source, target, lag = (
        np.array([e[i] for e in edges], dtype=kind) for i, kind in ((0, int), (1, int), (2, float))
    )
    return Tasks(np.array(seconds), None if track is None else np.array(track), source, target, lag)


def waits(graph: Tasks) -> list[tuple[int, int, float]]:
    """All edges, those along tracks found one by one."""
    out = list(
        zip(graph.source.tolist(), graph.target.tolist(), graph.lag_seconds.tolist(), strict=True)
    )
    last: dict[int, int] = {}
    for v, track in enumerate([] if graph.track is None else graph.track.tolist()):
        if track >= 0:
            if track in last:
                out.append((last[track], v, 0.0))
            last[track] = v
    return out


def exact(graph: Tasks) -> tuple[list[Fraction], list[Fraction]]:
    """Starts and ends in exact fractions, one task after the other."""
    edges = waits(graph)
    before: dict[int, list[int]] = {v: [] for v in range(len(graph))}
    for u, v, _ in edges:
        before[v].append(u)
    start, end = [Fraction(0)] * len(graph), [Fraction(0)] * len(graph)
    for v in TopologicalSorter(before).static_order():
        start[v] = max(
            (end[u] + Fraction(lag) for u, w, lag in edges if w == v), default=Fraction(0)
        )
        end[v] = start[v] + Fraction(graph.seconds[v])
    return start, end


def agree(found: Replayed, start: list[Fraction], end: list[Fraction]) -> None:
    scale = max(float(max(end)), 1e-300)
    assert found.end_seconds / scale == pytest.approx(
        np.array([float(x / Fraction(scale)) for x in end]), abs=1e-14
    )
    assert found.start_seconds / scale == pytest.approx(
        np.array([float(x / Fraction(scale)) for x in start]), abs=1e-14
    )
    assert found.seconds == found.end_seconds.max()


@plain
@given(graphs())
def test_every_start_and_end_is_that_of_the_longest_path(graph: Tasks) -> None:
    agree(replay_tasks(graph), *exact(graph))


@plain
@given(graphs())
def test_the_path_begins_at_the_start_and_explains_the_run_time(graph: Tasks) -> None:
    found = replay_tasks(graph)
    edges = waits(graph)
    path = found.path.tolist()
    assert found.start_seconds[path[0]] == 0.0 and found.end_seconds[path[-1]] == found.seconds
    total = float(graph.seconds[path].sum())
    for u, v in pairwise(path):
        lags = [lag for a, b, lag in edges if (a, b) == (u, v)]
        assert lags, "the path follows edges"
        total += max(lags)
    assert total == pytest.approx(found.seconds, rel=1e-13, abs=1e-300)


@settings(plain, max_examples=40)
@given(graphs())
def test_a_linear_programme_finds_the_same_run_time(graph: Tasks) -> None:
    """Least T with start[v] >= start[u] + seconds[u] + lag and T >= every end."""
    model: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    model.silent()
    starts = [model.addVariable(lb=0.0) for _ in range(len(graph))]
    last = model.addVariable(lb=0.0)
    for u, v, lag in waits(graph):
        model.addConstr(starts[v] - starts[u] >= float(graph.seconds[u]) + lag)
    for v, start in enumerate(starts):
        model.addConstr(last - start >= float(graph.seconds[v]))
    model.minimize(last)
    assert model.getObjectiveValue() == pytest.approx(
        replay_tasks(graph).seconds, rel=1e-6, abs=1e-6
    )


@settings(plain, max_examples=60)
@given(graphs(), st.data())
def test_many_rows_are_as_one_by_one(graph: Tasks, data: st.DataObject) -> None:
    rows = 3
    factors = st.lists(st.floats(0.0, 4.0), min_size=rows, max_size=rows)
    slower = np.array(data.draw(factors))[:, None] * graph.seconds
    later = np.array(data.draw(factors))[:, None] * graph.lag_seconds
    one_by_one = [
        replay_tasks(Tasks(s, graph.track, graph.source, graph.target, lag)).seconds
        for s, lag in zip(slower, later, strict=True)
    ]
    assert run_times(graph, slower, later) == pytest.approx(
        np.array(one_by_one), rel=1e-13, abs=1e-300
    )
    assert run_times(graph, slower)[0] == pytest.approx(
        replay_tasks(
            Tasks(slower[0], graph.track, graph.source, graph.target, graph.lag_seconds)
        ).seconds,
        rel=1e-13,
    )


@settings(plain, max_examples=60)
@given(graphs(), st.floats(0.0, 3.0), st.floats(0.0, 3.0), st.floats(0.0, 3.0))
def test_parameters_change_durations_and_lags(
    graph: Tasks, compute: float, latency: float, bandwidth: float
) -> None:
    """Tasks scale with one parameter; a lag is its own, a latency and bytes times a cost a byte."""
    sizes = np.arange(len(graph.source), dtype=np.float64)
    terms = Terms(
        3,
        np.zeros(len(graph), dtype=np.int64),
        graph.seconds,
        np.stack([np.full(len(sizes), 1), np.full(len(sizes), 2)]),
        np.stack([np.ones(len(sizes)), sizes]),
    )
    found = compile_tasks(graph, terms).run_times(
        np.array([[compute, latency, bandwidth], [0.0, 0.0, 0.0]])
    )
    changed = Tasks(
        graph.seconds * (1 + compute),
        graph.track,
        graph.source,
        graph.target,
        graph.lag_seconds + latency + bandwidth * sizes,
    )
    wanted = [replay_tasks(changed).seconds, replay_tasks(graph).seconds]
    assert found == pytest.approx(np.array(wanted), rel=1e-12, abs=1e-18)


@plain
@given(graphs(), st.integers(0, 8), st.floats(0.0, 10.0))
def test_a_longer_task_never_shortens_the_run(graph: Tasks, which: int, longer: float) -> None:
    seconds = graph.seconds.copy()
    seconds[which % len(graph)] += longer
    changed = replay_tasks(
        Tasks(seconds, graph.track, graph.source, graph.target, graph.lag_seconds)
    ).seconds
    before = replay_tasks(graph).seconds
    assert before * (1 - 1e-14) <= changed <= (before + longer) * (1 + 1e-14)


@plain
@given(graphs())
def test_a_track_does_one_task_at_a_time(graph: Tasks) -> None:
    found = replay_tasks(graph)
    for track in set([] if graph.track is None else graph.track.tolist()) - {-1}:
        mine = np.flatnonzero(graph.track == track)
        assert (
            found.start_seconds[mine[1:]] >= found.end_seconds[mine[:-1]] - 1e-14 * found.seconds
        ).all()


def test_times_far_below_a_nanosecond_add_up() -> None:
    chain = tasks([1e-15] * 1000, [(k, k + 1, 1e-16) for k in range(999)])
    assert replay_tasks(chain).seconds == pytest.approx(1000e-15 + 999e-16, rel=1e-12)
    mixed = tasks([1e3, 1e-12], [(0, 1, 0.0)])
    assert replay_tasks(mixed).seconds == 1e3 + 1e-12


def test_no_tasks_take_no_time() -> None:
    none = tasks([], [])
    assert replay_tasks(none).seconds == 0.0 and run_times(none, np.zeros((3, 0))).tolist() == [
        0.0,
        0.0,
        0.0,
    ]


def test_a_path_of_one_task_is_one_that_waits_for_nothing() -> None:
    # the second task ends with the first, later in the order of tasks but not of time
    found = replay_tasks(tasks([0.0, 5.0], [(1, 0, 0.0)]))
    assert found.path.tolist()[0] == 1 and found.seconds == 5.0


@pytest.mark.parametrize(
    ("edges", "track", "circle"),
    [
        ([(0, 1, 0.0), (1, 0, 0.0)], None, {"0", "1"}),
        ([(1, 1, 0.0)], None, {"1"}),
        ([(2, 0, 0.0)], [7, 7, 7], {"0", "1", "2"}),
    ],
)
def test_a_circle_is_named(
    edges: list[tuple[int, int, float]], track: list[int] | None, circle: set[str]
) -> None:
    graph = tasks([1.0] * 3, edges, track)
    for ask in (replay_tasks, lambda g: run_times(g, g.seconds)):
        with pytest.raises(UsageError) as caught:
            ask(graph)
        assert caught.value.code == "A025"
        assert set(caught.value.found.removeprefix("task ").split(" -> ")) == circle


def test_a_large_circle_is_counted() -> None:
    count = 100_001
    source = np.arange(count)
    with pytest.raises(UsageError, match="A025") as caught:
        replay_tasks(Tasks(np.ones(count), None, source, np.roll(source, 1), np.zeros(count)))
    assert "100001" in caught.value.found


@pytest.mark.parametrize(
    ("seconds", "track", "source", "target", "lag"),
    [
        ([1.0, -1.0], None, [], [], []),
        ([1.0, np.nan], None, [], [], []),
        ([1.0, np.inf], None, [], [], []),
        ([[1.0], [2.0]], None, [], [], []),
        (["long", "short"], None, [], [], []),
        ([1.0, 1.0], None, [0], [1], [-1e-9]),
        ([1.0, 1.0], None, [0], [2], [0.0]),
        ([1.0, 1.0], None, [-1], [1], [0.0]),
        ([1.0, 1.0], None, [0, 0], [1], [0.0]),
        ([1.0, 1.0], None, [0.5], [1], [0.0]),
        ([1.0, 1.0], [0], [], [], []),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    seconds: object, track: object, source: object, target: object, lag: object
) -> None:
    refused(
        "A026",
        Tasks,
        seconds,
        track and np.array(track),
        np.array(source),
        np.array(target),
        np.array(lag),
    )


def test_rows_and_terms_that_do_not_fit_are_refused() -> None:
    graph = tasks([1.0, 2.0], [(0, 1, 0.5)])
    for seconds, lags in (
        ([1.0], None),
        ([[1.0, 2.0]] * 2, [[0.5]] * 3),
        ([1.0, 2.0], [0.5, 0.5]),
        ([np.nan, 1.0], None),
    ):
        refused("A026", run_times, graph, seconds, lags)
    none, zero = np.array([-1]), np.zeros(1)
    both, nothing = np.array([-1, -1]), np.zeros(2)
    for terms in (
        Terms(0, both, nothing, none, zero),
        Terms(1, none, zero, none, zero),
        Terms(1, both + 2, nothing, none, zero),
    ):
        refused("A026", compile_tasks, graph, terms)
    compiled = compile_tasks(graph, Terms(2, both, nothing, none, zero))
    for values in (np.zeros((1, 3)), np.array([[np.nan, 0.0]])):
        refused("A026", compiled.run_times, values)
    refused("A026", replay_tasks, tasks([1e308, 1e308], []))
