"""Order from several runs: against the definition by pairs, on planted dependencies and on a real
recording.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import turnbuckle as tb
from turnbuckle.profile.dependencies.dependencies import dependencies
from turnbuckle.profile.dependencies.graph import EDGE
from turnbuckle.questions.order.poset import (
    Runs,
    _longest_rising,
    _places,
    clocks,
    covers,
    matched,
    ordered,
    ranks,
)


def runs_of(track: list[int], times: list[list[int]]) -> Runs:
    """Activities with given begins and ends, flat as in `Runs.time_ns`."""
    count = len(track)
    return Runs(
        np.array(track),
        tuple(f"track {t}" for t in sorted(set(track))),
        tuple(f"a{i}" for i in range(count)),
        np.tile(np.arange(count), (len(times), 1)),
        np.array(times),
        np.zeros(len(times), dtype=np.int64),
        0,
    )


@st.composite
def some_runs(draw: st.DrawFn) -> Runs:
    """Up to three tracks of up to five activities in up to four runs; each track keeps its
    order.
    """
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    track = [t for t, n in enumerate(sizes) for _ in range(n)]
    times = []
    for _ in range(draw(st.integers(1, 4))):
        run: list[int] = []
        for n in sizes:
            run += np.cumsum(
                draw(st.lists(st.integers(0, 6), min_size=2 * n, max_size=2 * n))
            ).tolist()
        times.append(run)
    return runs_of(track, times)


def by_pairs(runs: Runs) -> set[tuple[int, int]]:
    """The cover relation by its definition: all pairs that come in one order in every run, less
    those with one between.
    """
    placed = ranks(runs)
    n = placed.shape[1]
    below = {(u, v) for u in range(n) for v in range(n) if (placed[:, u] < placed[:, v]).all()}
    return {
        (u, v) for u, v in below if not any((u, w) in below and (w, v) in below for w in range(n))
    }


@settings(max_examples=200)
@given(some_runs())
def test_covers_are_those_of_the_definition(runs: Runs) -> None:
    chain = runs.chain
    source, target = covers(chain, clocks(chain, ranks(runs)))
    found = set(zip(source.tolist(), target.tolist(), strict=True))
    assert len(found) == len(source)
    across = {(u, v) for u, v in by_pairs(runs) if chain[u] != chain[v]}
    assert found == across


@settings(max_examples=100)
@given(some_runs())
def test_ranks_are_linear_orders_that_keep_each_track(runs: Runs) -> None:
    placed, chain = ranks(runs), runs.chain
    for run in placed:
        assert sorted(run.tolist()) == list(range(len(run)))
        for u, v in pairwise(range(len(chain))):
            assert chain[u] != chain[v] or run[u] < run[v]


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_a_true_dependency_is_never_lost(seed: int, count: int) -> None:
    """Tracks with planted waits, run with random lengths: what waits comes after in every run."""
    random = np.random.default_rng(seed)
    tracks, each = 4, 6
    waits = {
        (v, int(random.integers(each))): (int(random.integers(v)), int(random.integers(each)))
        for v in range(1, tracks)
    }
    times = []
    for _ in range(count):
        run = np.zeros((tracks, each, 2), dtype=np.int64)
        for t in range(tracks):
            for i in range(each):
                ready = run[t, i - 1, 1] if i else 0
                if (t, i) in waits:
                    ready = max(ready, run[waits[t, i]][1])
                run[t, i, 0] = ready + random.integers(0, 50)
                run[t, i, 1] = run[t, i, 0] + random.integers(0, 100)
        times.append(run.reshape(-1).tolist())
    runs = runs_of(np.repeat(np.arange(tracks), each).tolist(), times)
    clock = clocks(runs.chain, ranks(runs))
    for (t, i), (u, j) in waits.items():
        assert clock[2 * (t * each + i), u] >= 2 * j + 2, (
            "the begin of what waits knows the end of what it waits for"
        )


@pytest.mark.parametrize(
    "values", [[], [3], [1, 2, 2, 3], [5, 1, 2, 9, 3, 4], [3, 2, 1], [1, 5, 2, 5, 3]]
)
def test_longest_rising(values: list[int]) -> None:
    found = _longest_rising(np.array(values, dtype=np.int64)).tolist()
    assert found == sorted(found)
    assert all(values[a] <= values[b] for a, b in pairwise(found))
    best = [1] * len(values)
    for i in range(len(values)):
        best[i] = 1 + max((best[j] for j in range(i) if values[j] <= values[i]), default=0)
    assert len(found) == max(best, default=0)


@pytest.fixture(scope="module")
def profile() -> tb.Profile:
    with tb.sample() as path:
        return tb.read(path).profile


def test_a_recording_with_itself_is_its_own_order(profile: tb.Profile) -> None:
    runs = matched([profile, profile])
    assert (runs.unmatched == 0).all() and runs.disordered == 0
    source, target = covers(runs.chain, clocks(runs.chain, ranks(runs)))
    graph = dependencies(profile)
    more = ordered(graph, runs, source, target)
    assert (more.kind == EDGE["order"]).sum() > 0
    assert (more.residual_ns >= 0).all() and (more.residual_ns <= graph.residual_ns).all()
    latest = np.zeros(len(more.time_ns), dtype=np.int64)
    np.maximum.at(latest, more.target, more.time_ns[more.source] + more.lag_ns)
    assert (latest + more.residual_ns == more.time_ns).all(), "every recorded instant comes back"


def test_a_stream_is_the_same_whichever_begins_first() -> None:
    """Which of two independent streams has work first is the question; it must not swap their
    names.
    """
    named = []
    for first, second in ((10, 20), (20, 10)):
        rows = pl.DataFrame(
            {
                "track": [0, 1, 2],
                "process": [7, 7, 7],
                "thread": [3, None, None],
                "device": [None, 0, 0],
                "stream": [None, 13, 14],
                "start_ns": [0, first, second],
            }
        )
        named.append(_places(rows))
    assert (
        named[0]
        == named[1]
        == {0: "rank 0 thread 0", 1: "rank 0 device 0 stream 0", 2: "rank 0 device 0 stream 1"}
    )


def test_one_recording_tells_no_order(profile: tb.Profile) -> None:
    refused("A162", matched, [profile])


def test_a_run_without_activities_is_no_run_of_the_program(profile: tb.Profile) -> None:
    empty = replace(profile, activities=profile.activities.clear())
    for both in ([empty, profile], [profile, empty], [empty, empty]):
        refused("A163", matched, both)
