"""Closed loops of calls: closed forms, laws, and a SimPy model of the same written apart from
it.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.replay.contention.loop import MOST_CALLS, Link, Loop, Quantum, run, taken

ONE = Loop(calls=20, to_device_bytes=3e6, to_host_bytes=1e6, kernel_seconds=150e-6)
LINK = Link("a link", 10e9)


def simulated(loop: Loop, link: Link, propagation: float, quantum: Quantum) -> float:
    """The same system in SimPy: stores for what is on its way, containers for credits, resources
    for links and workers.
    """
    env = simpy.Environment()
    down, up, workers = (simpy.Resource(env, n) for n in (link.width, link.width, loop.workers))
    wire = propagation if quantum == "message" else 0.0

    def taking(resource: simpy.Resource, size: float) -> Generator[Any, Any, None]:
        with resource.request() as mine:
            yield mine
            if quantum == "byte":
                yield env.timeout(size * propagation)
            yield env.timeout(size / link.bandwidth)

    def later(delay: float, store: simpy.Store) -> Generator[Any, Any, None]:
        yield env.timeout(delay)
        yield store.put(1)

    def stream() -> None:
        arrived, computed, back, returned, room = (simpy.Store(env) for _ in range(5))
        for _ in range(loop.in_flight or loop.calls):
            returned.items.append(1)
        for _ in range(loop.queue or loop.calls):
            room.items.append(1)

        def host() -> Generator[Any, Any, None]:
            for _ in range(loop.calls):
                yield returned.get()
                yield room.get()
                yield env.timeout(loop.host_seconds)
                yield from taking(down, loop.to_device_bytes)
                env.process(later(wire, arrived))

        def worker() -> Generator[Any, Any, None]:
            for _ in range(loop.calls):
                yield arrived.get()
                with workers.request() as mine:
                    yield mine
                    yield env.timeout(loop.kernel_seconds)
                env.process(later(propagation, room))
                yield computed.put(1)

        def device() -> Generator[Any, Any, None]:
            for _ in range(loop.calls):
                yield computed.get()
                yield from taking(up, loop.to_host_bytes)
                env.process(later(wire, back))

        def receiver() -> Generator[Any, Any, None]:
            for _ in range(loop.calls):
                yield back.get()
                ends.append(env.now)
                yield returned.put(1)

        for one in (host, worker, device, receiver):
            env.process(one())

    ends: list[float] = []
    for _ in range(loop.streams):
        stream()
    env.run()
    return max(ends)


@st.composite
def loops(draw: st.DrawFn) -> tuple[Loop, Link, float]:
    """Small loops; times unlike each other, so that no two events meet by chance."""
    size = st.floats(1e3, 1e7)
    time = st.floats(1e-6, 1e-3)
    few = st.integers(0, 4)
    loop = Loop(
        draw(st.integers(1, 12)),
        draw(size),
        draw(size),
        draw(time),
        draw(st.one_of(st.just(0.0), time)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 3)),
        draw(few),
        draw(few),
    )
    return (
        loop,
        Link("a link", draw(st.floats(1e9, 1e11)), draw(st.integers(1, 3))),
        draw(st.one_of(st.just(0.0), st.floats(1e-9, 1e-4))),
    )


@given(loops(), st.sampled_from(["message", "byte"]))
@settings(max_examples=150)
def test_it_is_what_simpy_says(made: tuple[Loop, Link, float], quantum: Quantum) -> None:
    loop, link, propagation = made
    if quantum == "byte":
        propagation *= 1e-5
    expected = simulated(loop, link, propagation, quantum)
    assert run(loop, link, propagation, quantum).seconds == pytest.approx(expected, rel=1e-9)


@given(loops())
@settings(max_examples=100)
def test_a_blocking_loop_is_the_sum_of_its_parts_and_affine(made: tuple[Loop, Link, float]) -> None:
    loop, link, x = made
    loop = replace(loop, streams=1, in_flight=1)
    once = sum(taken(loop, link, x, "message")) + loop.kernel_seconds + loop.host_seconds + 2 * x
    assert run(loop, link, x).seconds == pytest.approx(loop.calls * once, rel=1e-12)
    by_byte = loop.calls * (once - 2 * x + x * (loop.to_device_bytes + loop.to_host_bytes))
    assert run(loop, link, x, "byte").seconds == pytest.approx(by_byte, rel=1e-12)


@given(loops(), st.floats(1.5, 50))
@settings(max_examples=100)
def test_one_stream_is_convex_in_its_length(made: tuple[Loop, Link, float], k: float) -> None:
    """Without others to contend with: the line through two points bounds the third
    (turnbuckle.papers.models.bound.affine).
    """
    loop, link, x = made
    loop, x = replace(loop, streams=1), x or 1e-6
    none, now, far = (run(loop, link, each).seconds for each in (0.0, x, k * x))
    assert none <= now * (1 + 1e-12) and far >= none + k * (now - none) - 1e-9 * far


def test_a_queue_hides_distance_until_it_is_too_short() -> None:
    """A window of w calls lasts for w kernels: nothing is lost while a round trip and its copies
    fit into them.
    """
    loop = Loop(1000, 64e3, 64e3, 20e-6, in_flight=4)
    near, hidden, far = (run(loop, LINK, x).seconds for x in (0.0, 20e-6, 50e-6))
    assert hidden < 1.01 * near < far
    each = 2 * 6.4e-6 + 20e-6 + 2 * 50e-6
    assert far == pytest.approx(250 * each, rel=0.05)


def test_credits_bound_what_is_under_way() -> None:
    """With room for one entry the next is sent when its credit is back: kernel, credit, copy,
    propagation.
    """
    loop = replace(ONE, in_flight=0, queue=1)
    assert run(loop, LINK, 10e-6).seconds == pytest.approx(
        20 * (300e-6 + 10e-6 + 150e-6) + 19 * 10e-6 + 100e-6 + 10e-6, rel=1e-12
    )
    assert run(replace(loop, queue=20), LINK, 10e-6).seconds == pytest.approx(
        20 * 300e-6 + 10e-6 + 150e-6 + 100e-6 + 10e-6, rel=1e-12
    )


def test_busy_shares() -> None:
    found = run(ONE, LINK, 0.0)
    assert (found.busy_to_device, found.busy_to_host, found.busy_workers) == pytest.approx(
        (300 / 550, 100 / 550, 150 / 550), rel=1e-12
    )
    wide = run(replace(ONE, streams=4, workers=4), replace(LINK, width=4), 0.0)
    assert wide.seconds == pytest.approx(found.seconds) and wide.busy_workers == pytest.approx(
        found.busy_workers
    )
    narrow = run(replace(ONE, streams=4, workers=4), LINK, 0.0)
    assert narrow.seconds > 1.9 * wide.seconds and narrow.busy_to_device > 0.98


def test_propagations_far_below_a_picosecond_are_not_lost() -> None:
    """A millimetre is 3 ps of seconds: times are stretched before they become whole."""
    near, far = (run(ONE, LINK, x).seconds for x in (0.0, 1e-15))
    assert far - near == pytest.approx(20 * 2e-15, rel=1e-3)


def test_a_loop_of_nothing_takes_no_time() -> None:
    assert run(Loop(3, 0, 0, 0.0), LINK, 0.0).seconds == 0.0
    assert run(Loop(3, 0, 0, 0.0), LINK, 1e-6).seconds == pytest.approx(6e-6), (
        "a call without bytes still goes there and back"
    )


@pytest.mark.parametrize(
    ("loop", "link", "propagation"),
    [
        (replace(ONE, calls=0), LINK, 0.0),
        (replace(ONE, calls=MOST_CALLS + 1), LINK, 0.0),
        (replace(ONE, to_device_bytes=-1.0), LINK, 0.0),
        (replace(ONE, kernel_seconds=math.nan), LINK, 0.0),
        (replace(ONE, kernel_seconds=1e9), LINK, 0.0),
        (replace(ONE, workers=0), LINK, 0.0),
        (replace(ONE, workers=1 << 40), LINK, 0.0),
        (replace(ONE, in_flight=-1), LINK, 0.0),
        (ONE, replace(LINK, bandwidth=0.0), 0.0),
        (ONE, replace(LINK, bandwidth=math.inf), 0.0),
        (ONE, replace(LINK, width=0), 0.0),
        (ONE, LINK, -1e-9),
        (ONE, LINK, math.inf),
    ],
)
def test_loops_that_cannot_be(loop: Loop, link: Link, propagation: float) -> None:
    refused("A087", run, loop, link, propagation)
