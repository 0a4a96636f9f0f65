"""Drawn runs with their device farther away, and runs whose answer is known by hand."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from rows import Row, call, copy, on_device, profile_of
from strategies import FEWER, FULL, gpu_traces, machine, soups, traces

from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.profile.profile import Profile, build
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.distance import MODES, Distance, Mode
from turnbuckle.trace.trace import Trace

RUNS = gpu_traces() | traces() | soups()

#: Trips of a command as stated.
TRIPS = 2.24


MODE = st.sampled_from(MODES)


#: Every example replays a run many times.
SOME = settings(FEWER, max_examples=15)


def on_full(profile: Profile) -> Run:
    """A profile on a machine whose every number is known."""
    return Run(profile, machine(FULL), {})


def answer(trace: Trace, known: bool) -> Run:
    """A drawn run, on the machine it shows or on one that is wholly known."""
    profile = build(trace)
    return on_full(profile) if known else Run.of(profile)


def distance(seen: Run, mode: Mode = "link") -> Distance | None:
    """Ready to be moved away; None where it is refused."""
    try:
        return Distance.of(seen, mode)
    except CannotAnswer as refused:
        assert refused.code in ("A121", "A122", "A140")
        return None


def one_after_another(n: int, direction: int, size: int = 8) -> Profile:
    """A run of `n` blocking copies, nothing else: 3 us to begin, 2 us to copy, 1.5 us to return, 5
    us between.
    """
    calls: list[Row] = []
    copies: list[Row] = []
    for i in range(n):
        t = 1_000 + 11_500 * i
        calls.append(call(t, t + 6_500, i + 1, "cudaMemcpy"))
        copies.append(copy(t + 3_000, t + 5_000, direction, size, i + 1))
    return profile_of(api=calls, copies=copies)


def launch_and_wait(n: int) -> Profile:
    """`n` times a launch of 2 us, 1 us of host work and a wait that returns 3 us after a kernel of
    20 us, begun 6 us after the call.
    """
    calls: list[Row] = []
    kernels: list[Row] = []
    for i in range(n):
        t = 1_000 + 40_000 * i
        calls += [
            call(t, t + 2_000, 2 * i + 1),
            call(t + 3_000, t + 29_000, 2 * i + 2, "cudaDeviceSynchronize"),
        ]
        kernels.append(on_device(t + 6_000, t + 26_000, 2 * i + 1))
    return profile_of(api=calls, kernels=kernels)
