"""Threads that hand over to each other are found, whatever their rhythm; independent threads are
not taken for such.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from rows import OTHER, call, on_device, profile_of

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.profile.dependencies.dependencies import dependencies
from turnbuckle.profile.dependencies.graph import EDGE
from turnbuckle.profile.dependencies.threads import handed_over
from turnbuckle.profile.profile import Profile
from turnbuckle.projection.order import prepared
from turnbuckle.questions.distance.distance import MODEL

#: Begins and ends of the calls of a thread [ns].
Calls = tuple[Int, Int]
Random = np.random.Generator


def edges(*threads: Calls, processes: tuple[int, ...] = ()) -> list[tuple[int, int, int]]:
    """Hand-overs among some threads: thread that returns, thread that begins, lag [ns]."""
    starts, ends = (np.concatenate([t[k] for t in threads]) for k in (0, 1))
    thread = np.repeat(np.arange(len(threads)), [len(t[0]) for t in threads])
    process = np.array(processes or [0] * len(threads))[thread]
    giver, taker, lag, _ = handed_over(np.arange(len(starts)), thread, process, starts, ends)
    assert (lag > 0).all() and (ends[giver] < starts[taker]).all()
    return list(zip(thread[giver].tolist(), thread[taker].tolist(), lag.tolist(), strict=True))


def pairs(*threads: Calls) -> set[tuple[int, int]]:
    return {(a, b) for a, b, _ in edges(*threads)}


def spread(r: Random, middle: float, by: float) -> float:
    return float(middle * np.exp(by * r.normal()))


# --- threads that hand over -----------------------------------------------------------------------


def taking_turns(r: Random, turns: int, calls: int, lag: float, jitter: float) -> list[Calls]:
    """Two threads, one of which makes its calls while the other waits: lags and calls scatter by
    `jitter`.
    """
    found: list[tuple[list[int], list[int]]] = [([], []), ([], [])]
    now = 1_000.0
    for turn in range(turns):
        for _ in range(calls):
            begins, ends = found[turn % 2]
            begins.append(int(now))
            ends.append(int(now := now + spread(r, 5_000, jitter)))
            now += spread(r, 3_000, jitter)
        now += spread(r, lag, jitter)
    return [(np.array(b), np.array(e)) for b, e in found]


@pytest.mark.parametrize("jitter", [0.0, 0.05, 0.5])
def test_threads_that_take_turns_hand_over_both_ways(jitter: float) -> None:
    r = np.random.default_rng(1)
    found = [pairs(*taking_turns(r, 16, int(r.integers(10, 60)), 2_000, jitter)) for _ in range(40)]
    assert sum(f == {(0, 1), (1, 0)} for f in found) >= 38
    assert edges(*taking_turns(r, 16, 20, 2_000, 0.0))[0] == (0, 1, 5_000)


def test_a_thread_that_launches_what_another_has_prepared() -> None:
    """The first thread does not wait for the second, which never has more than one piece of work
    ahead.
    """
    r = np.random.default_rng(2)
    hits = 0
    for _ in range(100):
        begins = np.cumsum(200_000 * np.exp(0.5 * r.normal(size=40))).astype(np.int64)
        prepared = begins + 20_000
        launched = prepared + (3_000 * np.exp(0.3 * r.normal(size=40))).astype(np.int64) + 1
        hits += pairs((begins, prepared), (launched, launched + 5_000)) == {(0, 1)}
    assert hits >= 95


def pool(r: Random, rounds: int) -> list[Calls]:
    """One thread that gives work to two, and collects what they did."""
    found: list[tuple[list[int], list[int]]] = [([], []) for _ in range(3)]
    now = 1_000.0
    for _ in range(rounds):
        found[0][0].append(int(now))
        found[0][1].append(int(now := now + spread(r, 30_000, 0.3)))
        last = now
        for worker in (1, 2):
            begin = now + spread(r, 4_000, 0.3)
            end = begin + spread(r, 100_000, 0.2)
            found[worker][0].append(int(begin))
            found[worker][1].append(int(end))
            last = max(last, end)
        now = last + spread(r, 4_000, 0.3)
    return [(np.array(b), np.array(e)) for b, e in found]


def test_a_pool_hands_over_when_its_last_worker_returns() -> None:
    r = np.random.default_rng(3)
    threads = pool(r, 60)
    found = edges(*threads)
    assert {(0, 1), (0, 2)} <= {(a, b) for a, b, _ in found}
    joins = [lag for a, b, lag in found if b == 0]
    if joins:
        assert np.median(joins) < 8_000, "the lag is that of the last worker, not of each"


# --- threads that do not --------------------------------------------------------------------------


def of(gaps: Float, lengths: Float) -> Calls:
    begins = np.cumsum(gaps + np.concatenate([[0.0], lengths[:-1]])) + 1
    return begins.astype(np.int64), (begins + lengths + 1).astype(np.int64)


def at_random(r: Random) -> Calls:
    n, gap, length = int(r.integers(5, 300)), 10 ** r.uniform(3, 6), 10 ** r.uniform(3, 5)
    return of(r.exponential(gap, n), r.exponential(length, n))


def in_steps(r: Random) -> Calls:
    """Bursts of calls between pauses, as steps of a training have them."""
    steps, calls = int(r.integers(2, 20)), int(r.integers(1, 50))
    gaps = r.exponential(10 ** r.uniform(3, 4), steps * calls)
    gaps[::calls] = 10 ** r.uniform(4, 7) * np.exp(r.choice([0.05, 1.0]) * r.normal(size=steps))
    return of(gaps, r.exponential(10 ** r.uniform(3, 4), steps * calls))


def of_all_lengths(r: Random) -> Calls:
    n = int(r.integers(5, 300))
    return of(np.exp(r.normal(8, 2.5, n)), np.exp(r.normal(8, 1.5, n)))


@pytest.mark.parametrize(
    ("kind", "threads"),
    [(at_random, 2), (at_random, 8), (in_steps, 2), (in_steps, 8), (of_all_lengths, 2)],
)
def test_independent_threads_have_no_order(kind: Callable[[Random], Calls], threads: int) -> None:
    """At most 1 run in 1,000 may be taken for one with hand-overs: no more runs of each kind than
    chance allows in 98 % of tests.
    """
    r = np.random.default_rng(4)
    runs, most = (1_000, 3) if threads == 2 else (200, 1)
    assert sum(bool(pairs(*(kind(r) for _ in range(threads)))) for _ in range(runs)) <= most


def rhythm(r: Random, steps: int, jitter: float) -> Calls:
    calls, period, busy = int(r.integers(1, 30)), 1e7, r.uniform(0.05, 0.9)
    begins = r.uniform() * period + np.cumsum(period * (1 + jitter * r.normal(size=steps)))
    begins = (begins[:, None] + np.arange(calls) * (busy * period / calls)).ravel()
    return begins.astype(np.int64), (begins + 0.5 * busy * period / calls).astype(np.int64)


@pytest.mark.parametrize(("jitter", "most"), [(0.01, 5), (0.001, 5), (0.0, 20)])
def test_threads_of_one_period_seldom_look_like_a_hand_over(jitter: float, most: int) -> None:
    r = np.random.default_rng(5)
    found = 0
    for _ in range(1_000):
        steps = int(r.integers(3, 30))
        found += bool(pairs(rhythm(r, steps, jitter), rhythm(r, steps, jitter)))
    assert found <= most


def test_one_period_one_way_is_no_hand_over() -> None:
    """Calls of one thread always 2 us after those of another, both as regular as a clock: either
    explains the second.
    """
    begins = np.arange(50) * 100_000 + 1
    assert not pairs((begins, begins + 5_000), (begins + 7_000, begins + 12_000))


@pytest.mark.parametrize(
    "beside",
    [
        lambda r: taking_turns(r, 3, 20, 2_000, 0.05),
        lambda r: taking_turns(r, 40, 1, 10_000, 0.05),
        lambda r: [
            (b - 6_000 * (k == 1), e - 6_000 * (k == 1))
            for k, (b, e) in enumerate(taking_turns(r, 40, 1, 1_000, 0.05))
        ],
    ],
    ids=["two turns", "lags longer than turns", "the one begins before the other returns"],
)
def test_beside_the_rule(beside: Callable[[Random], list[Calls]]) -> None:
    assert not pairs(*beside(np.random.default_rng(6)))


def test_threads_of_two_processes_are_not_compared() -> None:
    threads = taking_turns(np.random.default_rng(7), 8, 20, 2_000, 0.05)
    assert edges(*threads) and not edges(*threads, processes=(0, 1))


# --- in a run -------------------------------------------------------------------------------------


def test_work_handed_over_moves_with_what_was_before_it() -> None:
    """Two threads launch 40 times a step each: all instants come back, and the turn of the one is
    no gap of the other.
    """
    one, other = taking_turns(np.random.default_rng(8), 8, 40, 2_000, 0.1)
    rows = [
        (b, e, t)
        for t, (begins, ends) in enumerate((one, other))
        for b, e in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    api = [call(b, e, i, thread=t + 1) for i, (b, e, t) in enumerate(rows, 1)]
    kernels = [
        on_device(b + 6_000, b + 7_000, i, stream=7 + t) for i, (b, _, t) in enumerate(rows, 1)
    ]
    graph = dependencies(profile_of(api=api, kernels=kernels))
    host = graph.kind == EDGE["host"]
    longest = int(graph.lag_ns[host].max())
    assert longest < 20_000, "a turn of the other thread takes 320 us"
    assert (graph.residual_ns == 0).all() and (graph.kind == EDGE["origin"]).sum() == 1


# --- a task that moves to another thread ----------------------------------------------------------


def moved_task(*, waits: bool, launches: bool = False) -> Profile:
    """Launch and wait on one thread; 3 ms later the first call of another, which waits, launches,
    or asks for something.
    """
    name = "cudaDeviceSynchronize" if waits else "cudaLaunchKernel" if launches else "cudaMalloc"
    calls = [
        call(0, 120_000, 1),
        call(130_000, 1_000_000, 2, "cudaDeviceSynchronize"),
        call(4_000_000, 4_010_000, 3, name, OTHER),
    ]
    kernels = [
        on_device(125_000, 990_000, 1),
        *([on_device(4_012_000, 4_100_000, 3)] if launches else []),
    ]
    return profile_of(api=calls, kernels=kernels)


@pytest.mark.parametrize(
    ("waits", "launches", "goes_on"),
    [(True, False, True), (False, True, True), (False, False, False)],
)
def test_a_thread_that_goes_on_with_the_work_of_another_begins_after_it(
    waits: bool, launches: bool, goes_on: bool
) -> None:
    """A wait without work of its own, or work on a stream of the other thread: the time between
    them is a gap, and moves with it.
    """
    profile = moved_task(waits=waits, launches=launches)
    graph = dependencies(profile)
    source, target = (
        graph.time_ns[ends[graph.kind == EDGE["host"]]] for ends in (graph.source, graph.target)
    )
    assert ((1_000_000, 4_000_000) in zip(source.tolist(), target.tolist(), strict=True)) == goes_on
    ready = prepared(profile, MODEL)
    assert ready.trust is not None and ready.trust.refused == "", (
        "nothing is missing from the recording"
    )
    assert ready.trust.doubts[0].kind == "gap" and ready.trust.doubts[0].track == "host thread 2"


def test_work_that_no_call_explains_is_still_late() -> None:
    calls, late = (
        [call(0, 4_000, 1)],
        [on_device(4_000_000 + 20_000 * i, 4_012_000 + 20_000 * i) for i in range(3)],
    )
    ready = prepared(profile_of(api=calls, kernels=[on_device(6_000, 9_000, 1), *late]), MODEL)
    assert ready.trust is not None and "later than the dependency rules say" in ready.trust.refused
