"""A full launch queue, on runs simulated launch by launch: what the rule finds is held against the
simulation with other times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from rows import call, on_device, profile_of

from turnbuckle.profile.dependencies.dependencies import dependencies
from turnbuckle.profile.dependencies.graph import EDGE
from turnbuckle.profile.dependencies.waits import by_itself
from turnbuckle.profile.pieces import grouped
from turnbuckle.profile.profile import Profile
from turnbuckle.replay.timeline import TimelineReplay, no_change

#: Launches that the queue holds, as seen on an RTX 3060; what a launch takes, the host's own work
#: before it, delivery, and return [ns].
DEPTH: Final = 1022
LAUNCH, OWN, DELIVERY, BACK = 2_000, 1_000, 5_000, 1_000


def simulated(count: int, kernel: float, slack: float = 0.0) -> np.ndarray:
    """Begin and end of every launch and kernel [ns], rows of (call begins, call ends, kernel
    begins, kernel ends).
    """
    rows: list[tuple[float, float, float, float]] = []
    host = end = 0.0
    for i in range(count):
        begin = host + OWN
        host = begin + LAUNCH + slack
        if i >= DEPTH:
            host = max(host, rows[i - DEPTH][3] + BACK + slack)
        start = max(begin + DELIVERY, end)
        end = start + kernel
        rows.append((begin, host, start, end))
    return np.array(rows)


def run_of(times: np.ndarray) -> Profile:
    """The simulated run as a recording."""
    rows = np.rint(times).astype(int).tolist()
    return profile_of(
        api=[call(row[0], row[1], i) for i, row in enumerate(rows, 1)],
        kernels=[on_device(row[2], row[3], i) for i, row in enumerate(rows, 1)],
    )


def compiled(profile: Profile) -> TimelineReplay:
    return TimelineReplay.compiled(dependencies(profile), *grouped(profile))


def replayed(timeline: TimelineReplay, ratio: float = 1.0, slack: float = 0.0) -> float:
    """The run time with kernels that take `ratio` times as long and launches that take `slack` [ns]
    more.
    """
    run, change = timeline.run, no_change(len(timeline.run))
    change = replace(
        change,
        ratio=np.where(run.kind == "kernel", ratio, 1.0),
        added=np.where(run.kind == "launch", slack * 1e-9, 0.0),
    )
    return float(timeline.seconds(change)) * 1e9


def seconds_of(times: np.ndarray) -> float:
    """The simulated run time [ns]."""
    return float(times[:, 1:].max() - times[0, 0])


@pytest.mark.parametrize("kernel", [10_000, 40_000, 100_000])
@pytest.mark.parametrize("count", [2_000, 3_000, 4_000, 10_000])
def test_a_full_queue_is_found_however_many_launches_it_holds_back(count: int, kernel: int) -> None:
    recorded = simulated(count, kernel)
    timeline = compiled(run_of(recorded))
    graph = timeline.graph
    assert (graph.kind == EDGE["queue"]).sum() == count - DEPTH
    assert not graph.residual_ns.any() and not graph.clipped_ns.any()
    assert replayed(timeline) == pytest.approx(seconds_of(recorded), abs=0.01), "the identity"
    for ratio in (0.3, 0.5, 2.0):
        assert replayed(timeline, ratio=ratio) == pytest.approx(
            seconds_of(simulated(count, ratio * kernel)), rel=0.002
        )
    for slack in (1_000, 5_000, 50_000):
        assert replayed(timeline, slack=slack) == pytest.approx(
            seconds_of(simulated(count, kernel, slack)), rel=0.002
        )


def test_slack_that_the_queue_hides_costs_nothing() -> None:
    """5 us more a launch of 100 us kernels: the GPU is never short of work."""
    timeline = compiled(run_of(simulated(3_000, 100_000)))
    assert replayed(timeline, slack=5_000) - replayed(timeline) < 20_000


def test_slack_never_makes_it_faster() -> None:
    timeline = compiled(run_of(simulated(3_000, 10_000)))
    times = [replayed(timeline, slack=slack) for slack in (0, 10, 1_000, 5_000, 20_000)]
    assert times == sorted(times)


def test_a_window_in_which_the_queue_was_full_all_along() -> None:
    """Cut from a longer run: no launch finds an empty queue, and the quickest of them stand for a
    launch by itself.
    """
    length = np.array([2_000] * 60 + [40_000] * 940)
    assert by_itself(length, np.ones(1000, dtype=np.bool_)) == 2_000
    assert by_itself(length, np.arange(1000) >= 60) == 2_000


def test_launches_ahead_of_a_queue_that_is_not_full_are_not_held() -> None:
    """900 launches ahead of one long kernel return at once: no rule for them."""
    times = simulated(900, 100_000)
    assert not (dependencies(run_of(times)).kind == EDGE["queue"]).any()


def window(times: np.ndarray, begin: float, end: float, wait: tuple[int, int]) -> Profile:
    """What a recorder that runs from `begin` to `end` keeps: calls and kernels that ran meanwhile,
    and one wait for the device.
    """
    rows = [(i, *row) for i, row in enumerate(np.rint(times).astype(int).tolist(), 1)]
    return profile_of(
        api=[
            *(call(row[1], row[2], row[0]) for row in rows if row[1] >= begin and row[2] <= end),
            call(*wait, len(rows) + 1, "cudaDeviceSynchronize"),
        ],
        kernels=[
            on_device(row[3], row[4], row[0]) for row in rows if row[3] >= begin and row[4] <= end
        ],
    )


@pytest.mark.parametrize("kernel", [40_000, 100_000])
def test_a_window_of_a_long_run_whose_queue_holds_work_from_before_and_after_it(
    kernel: int,
) -> None:
    """Kernels launched before the window have no call, launches at its end no kernel: both have
    their place in the queue.

    The program launches twice and waits in between; the window lies from the middle of the one to
    the middle of the other.
    """
    once = simulated(4_000, kernel)
    called, over = (int(value) + BACK for value in once[-1, [1, 3]])
    profile = window(np.concatenate([once, once + over]), over / 2, over * 3 / 2, (called, over))
    assert profile.trace.kernels.height == pytest.approx(4_000, abs=2)
    timeline = compiled(profile)
    assert (timeline.graph.kind == EDGE["queue"]).sum() > 2_000
    for ratio in (0.2, 0.5):
        assert replayed(timeline, ratio=ratio) == pytest.approx(
            ratio * replayed(timeline), rel=0.03
        )


def test_what_takes_a_place_without_being_work_does_not_part_a_slow_launch_from_what_held_it() -> (
    None
):
    """Each hundredth launch finds three places taken by events: it waits for the kernel three
    later.
    """
    kernel, count = 40_000, 3_000
    rows: list[tuple[float, float, float, float]] = []
    host = end = 0.0
    for i in range(count):
        begin, ahead = host + OWN, DEPTH - (3 if i % 100 < 50 else 0)
        host = begin + LAUNCH
        if i >= ahead:
            host = max(host, rows[i - ahead][3] + BACK)
        start = max(begin + DELIVERY, end)
        end = start + kernel
        rows.append((begin, host, start, end))
    recorded = np.array(rows)
    timeline = compiled(run_of(recorded))
    assert replayed(timeline, ratio=0.2) == pytest.approx(0.2 * replayed(timeline), rel=0.01)
