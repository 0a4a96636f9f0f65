"""The modelled proxy: closed forms, and a first-come-first-served simulation that knows no
graph.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.papers.row_slack.binned_slack import PAPER, seed_S, table_two
from turnbuckle.papers.row_slack.proxy import WAITING, WORK, Proxy, Waits, modelled

SLACKS = np.array([0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0])
SMALL = Proxy(2**20, kernel_seconds=120e-6, copy_seconds=80e-6, iterations=50)
#: The GPU is never idle with this many threads.
CROWD = 8

drawn = settings(max_examples=60)
nanoseconds = st.integers(1, 400)


def test_one_synchronous_thread_feels_every_call() -> None:
    """P11: T(s) = T(0) + n s, and T(0) is the loop the paper prints."""
    loops = [float(text) for text in PAPER.texts("proxy", "compute loop run time").values()]
    for proxy, loop in zip(table_two(), loops, strict=True):
        run = modelled(proxy)
        assert float(run.seconds()) == pytest.approx(loop, abs=2e-9 * proxy.iterations)
        assert run.calls == 5 * proxy.iterations
        np.testing.assert_allclose(
            run.seconds(SLACKS) - run.seconds(), run.calls * SLACKS, rtol=1e-8
        )
        np.testing.assert_allclose(
            seed_S(run.seconds(SLACKS), run.calls, SLACKS) / run.seconds(), 1.0, rtol=1e-12
        )


@pytest.mark.parametrize(("waits", "felt"), [("calls", 5), ("copies", 4), ("end", 1)])
def test_a_call_that_does_not_wait_hides_its_slack_behind_the_work(waits: Waits, felt: int) -> None:
    """A small slack is felt by calls that wait for the device, and by the first of each
    iteration.
    """
    run = modelled(SMALL, waits=waits)
    slack = 1e-6
    per_iteration = float(run.seconds(slack) - run.seconds()) / SMALL.iterations / slack
    # the first call of an iteration finds the device idle, so with "end" its own command is early
    # and nothing else is felt
    assert per_iteration == pytest.approx(felt, abs=0.05)


def test_many_threads_hide_slack_up_to_a_tolerance() -> None:
    """P11: while the device is never idle, an iteration more costs the same with slack as
    without.
    """
    proxy = table_two()[1]
    busiest = max(proxy.kernel_seconds, 2 * proxy.copy_seconds)
    alone = 3 * proxy.copy_seconds + proxy.kernel_seconds
    tolerance = (CROWD * busiest - alone) / 5

    def seconds(iterations: int, slack: float) -> float:
        repeated = Proxy(proxy.size_bytes, proxy.kernel_seconds, proxy.copy_seconds, iterations)
        return float(modelled(repeated, CROWD, served_at=slack).seconds(slack))

    def round_seconds(slack: float) -> float:
        return (seconds(60, slack) - seconds(40, slack)) / 20

    assert round_seconds(0.0) == pytest.approx(CROWD * busiest, rel=1e-6)
    assert round_seconds(0.95 * tolerance) == pytest.approx(CROWD * busiest, rel=1e-6)
    assert round_seconds(1.25 * tolerance) == pytest.approx(alone + 5 * 1.25 * tolerance, rel=1e-6)


def test_equation_1_takes_out_slack_that_was_hidden() -> None:
    """SP falls below 1 as soon as several threads hide anything."""
    found = {}
    for proxy in table_two()[:2]:
        at_rest = float(modelled(proxy, CROWD).seconds())
        for slack in (1e-4, 1e-2):
            run = modelled(proxy, CROWD, served_at=slack)
            found[proxy.size_bytes, slack] = (
                float(seed_S(run.seconds(slack), run.calls, slack)) / at_rest
            )
    assert all(ratio < 1 for ratio in found.values())
    assert min(found.values()) == pytest.approx(0.216, abs=0.001)


def test_service_strictly_in_turn_makes_slack_cost_more_than_itself() -> None:
    """Who must wait for a late thread feels its slack too: SP far above 1, from order alone."""
    proxy, slack = table_two()[0], 1e-2
    strict, served = modelled(proxy, CROWD, in_turn=True), modelled(proxy, CROWD, served_at=slack)
    at_rest = strict.seconds()
    left = [
        float(seed_S(run.seconds(slack), run.calls, slack) / at_rest) for run in (strict, served)
    ]
    assert left[0] == pytest.approx(22.5, abs=0.05) and left[1] < 0.3


def test_threads_that_share_nothing_do_not_meet() -> None:
    together, alone = modelled(SMALL, 4, one_at_a_time=()), modelled(SMALL)
    np.testing.assert_allclose(together.seconds(SLACKS), alone.seconds(SLACKS), rtol=1e-12)


@pytest.mark.parametrize("threads", [1, 3, CROWD])
def test_in_one_order_the_curve_rises_and_bends_upwards(threads: int) -> None:
    slack = np.linspace(0.0, 2e-3, 41)
    seconds = modelled(SMALL, threads).seconds(slack)
    assert (np.diff(seconds) >= 0).all()
    assert (np.diff(seconds, 2) >= -1e-12).all()


def test_the_modelled_run_is_a_recording_that_comes_back() -> None:
    timeline = modelled(SMALL, 3).timeline
    assert np.array_equal(timeline.recorded_ns(), timeline.graph.time_ns)
    assert not timeline.graph.residual_ns.any(), "everything is explained"
    assert timeline.graph.time_ns.max() * 1e-9 == pytest.approx(
        float(modelled(SMALL, 3).seconds()), rel=1e-12
    )


@pytest.mark.parametrize(
    ("threads", "iterations", "slack"),
    [(0, 1, 0.0), (1, 0, 0.0), (10**7, 10, 0.0), (1, 1, -1e-6), (1, 1, float("nan"))],
)
def test_what_cannot_be_modelled(threads: int, iterations: int, slack: float) -> None:
    refused("A065", modelled, Proxy(1.0, 1e-6, 1e-6, iterations), threads, served_at=slack)


# --- the same program without a graph -------------------------------------------------------------


def _program(
    thread: int, iterations: int, waits: Waits, slack: int, call: int
) -> Generator[tuple[str, int], None, None]:
    """One host thread: what it does next, as (what, nanoseconds or number of work)."""
    for i in range(iterations):
        for step in range(len(WORK)):
            number = i * len(WORK) + step
            yield "start", number
            yield "host", call
            if step in WAITING[waits]:
                yield "wait", number
            yield "host", slack
        yield "host", call
        yield "wait", (i + 1) * len(WORK) - 1
        yield "host", slack


def _by_the_clock(
    times: dict[str, int], threads: int, iterations: int, waits: Waits, slack: int, call: int
) -> int:
    """Nanosecond by nanosecond: streams in order, each kind of work served one at a time, whoever
    was ready first.
    """
    programs = [_program(t, iterations, waits, slack, call) for t in range(threads)]
    doing: list[tuple[str, int] | None] = [next(p) for p in programs]
    queued: list[list[int]] = [[] for _ in range(threads)]
    done = [0] * threads
    waiting: dict[str, list[tuple[int, int]]] = {kind: [] for kind in WORK}
    running: dict[str, tuple[int, int] | None] = dict.fromkeys(WORK)
    on_device = [False] * threads
    now = 0
    while True:
        for kind, work in running.items():
            if work and work[0] == now:
                running[kind], on_device[work[1]] = None, False
                done[work[1]] += 1
        for t, program in enumerate(programs):
            while (task := doing[t]) is not None:
                what, amount = task
                if what == "start":
                    queued[t].append(amount)
                elif (what == "wait" and done[t] <= amount) or (what == "host" and amount > 0):
                    break
                doing[t] = next(program, None)
            if queued[t] and not on_device[t]:
                on_device[t] = True
                waiting[WORK[queued[t].pop(0) % len(WORK)]].append((now, t))
        for kind, line in waiting.items():
            if line and running[kind] is None:
                line.sort()
                running[kind] = (now + times[kind], line.pop(0)[1])
        if all(task is None for task in doing):
            return now
        now += 1
        doing = [(task[0], task[1] - 1) if task and task[0] == "host" else task for task in doing]


@drawn
@given(
    nanoseconds,
    nanoseconds,
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from(sorted(WAITING)),
    st.integers(0, 300),
    st.integers(0, 20),
)
def test_the_replay_is_the_program_by_the_clock(
    kernel: int, copy: int, threads: int, iterations: int, waits: Waits, slack: int, call: int
) -> None:
    proxy = Proxy(1.0, kernel * 1e-9, copy * 1e-9, iterations, call * 1e-9)
    replayed = float(
        modelled(proxy, threads, waits=waits, served_at=slack * 1e-9).seconds(slack * 1e-9)
    )
    times = {kind: kernel if kind == "kernel" else copy for kind in WORK}
    assert round(replayed * 1e9) == _by_the_clock(times, threads, iterations, waits, slack, call)
