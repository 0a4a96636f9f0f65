"""Waits of streams without a table of events: independent streams are left alone, real ones come closer to what the table says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rows import Row, call, on_device
from strategies import trace_of

from turnbuckle.profile.dependencies import dependencies as rules
from turnbuckle.profile.dependencies.dependencies import EDGE, dependencies
from turnbuckle.profile.dependencies.sides import activities
from turnbuckle.profile.profile import Profile, build
from turnbuckle.projection.run import Run
from turnbuckle.trace.trace import Trace

Random = np.random.Generator
#: The name that stands for the wait until the recording is made.
RENAMED = "cudaStreamCreate"
#: How long a call takes, and how long a delivery at least [ns].
CALL, DELIVERY = 2_000, 4_000


def run_of(r: Random, launches: int, waits: Sequence[int], waiting: bool) -> Profile:
    """Kernels on two streams in turn, with calls that make a stream wait before some of them; `waiting` says whether they do.

    Times between calls, deliveries and kernels scatter; without `waiting` the streams know nothing of each other.
    """
    api: list[Row] = []
    kernels: list[Row] = []
    now, idle = 1_000, {7: 0, 8: 0}
    for k in range(launches):
        stream = int(r.choice([7, 8]))
        if k in waits:
            api.append(call(now, now + 1_000, 10_000 + k, RENAMED))
            now += 1_500
        api.append(call(now, now + CALL, k + 1))
        begin = max(now + DELIVERY + int(r.exponential(2_000)), idle[stream] + 500)
        if k in waits and waiting:
            begin = max(begin, idle[15 - stream] + 700)
        end = begin + int(20_000 * np.exp(0.5 * r.normal()))
        kernels.append(on_device(begin, end, k + 1, stream=stream))
        idle[stream] = end
        now += CALL + int(r.exponential(15_000))
    trace = trace_of({"api": api, "kernels": kernels})
    return build(replace(trace, names=trace.names.replace([RENAMED], ["cudaStreamWaitEvent"])))


def orders(profile: Profile) -> int:
    return int((dependencies(profile).kind == EDGE["event"]).sum())


def test_streams_that_wait_are_found() -> None:
    r = np.random.default_rng(1)
    found = [orders(run_of(r, 200, sorted(r.choice(200, 60, replace=False)), True)) for _ in range(20)]
    assert min(found) > 10


def test_independent_streams_are_left_alone() -> None:
    """Calls that make a stream wait for what is long over, at random between launches: of 120 runs at most 1 % are given an order."""
    r = np.random.default_rng(2)
    found = 0
    for _ in range(120):
        launches = int(r.integers(4, 60))
        waits = r.choice(launches, int(r.integers(1, launches)), replace=False)
        found += orders(run_of(r, launches, sorted(waits.tolist()), False)) > 0
    assert found <= 1


# --- a stream without work between two others ---------------------------------------------------------------------------

RECORD = "cudaEventRecord"


def passed_on(r: Random, turns: int, waiting: bool, *, rival: bool = False) -> Profile:
    """Work on stream 7, a stream of its own that waits for it and records, other work on stream 9, and work on stream 8 that waits.

    With `rival` the work on stream 9 ends last, and stream 8 waits for that instead.
    """
    api: list[Row] = []
    kernels: list[Row] = []
    now, number = 1_000, 0

    def launched(stream: int, least: int, long: float) -> int:
        nonlocal now, number
        number += 1
        api.append(call(now, now + CALL, number))
        begin = max(now + DELIVERY + int(r.exponential(1_000)), least)
        end = begin + int(long * np.exp(0.3 * r.normal()))
        kernels.append(on_device(begin, end, number, stream=stream))
        now += CALL + 500
        return end

    def named(name: str) -> None:
        nonlocal now
        api.append(call(now, now + 1_000, 100_000 + len(api), name))
        now += 1_500

    for _ in range(turns):
        first = launched(7, 0, 60_000.0)
        named(RECORD)
        named(RENAMED)
        named(RECORD)
        beside = launched(9, 0, 140_000.0 if rival else 8_000.0)
        named(RENAMED)
        least = (beside if rival else first) + 700 if waiting else 0
        end = launched(8, least, 20_000.0)
        now = max(first, beside, end, now) + int(r.exponential(10_000)) + 5_000
    trace = trace_of({"api": api, "kernels": kernels})
    return build(replace(trace, names=trace.names.replace([RENAMED], ["cudaStreamWaitEvent"])))


def joined(profile: Profile) -> list[tuple[int, int]]:
    """The streams of each order that was found."""
    made = dependencies(profile)
    stream = activities(profile)["stream"].fill_null(-1).to_numpy()
    rows = np.flatnonzero(made.kind == EDGE["event"])
    return [(int(stream[(made.source[k] - 1) // 2]), int(stream[(made.target[k] - 1) // 2])) for k in rows]


def test_a_stream_without_work_passes_a_wait_on() -> None:
    for seed in range(10):
        found = joined(passed_on(np.random.default_rng(seed), 20, True))
        assert set(found) == {(7, 8)} and len(found) >= 15, "not the work beside, which ended before"


def test_what_ended_last_held_the_work_back() -> None:
    for seed in range(10):
        assert set(joined(passed_on(np.random.default_rng(seed), 20, True, rival=True))) == {(9, 8)}


def test_streams_that_do_not_wait_pass_nothing_on() -> None:
    found = [joined(passed_on(np.random.default_rng(seed), int(turns), False)) for seed, turns in enumerate([3, 5, 10, 20] * 25)]
    assert sum(bool(f) for f in found) <= 1


# --- recordings that have the table, without it ------------------------------------------------------------------------


def without_events(trace: Trace) -> Trace:
    return replace(trace, tables={name: t.clear() if name in ("syncs", "events") else t for name, t in trace.tables.items()})


def added(trace: Trace) -> list[float]:
    """What 1 us and 10 us of every call, and kernels twice as long, add to the run [s]."""
    run = Run.of(build(trace))
    curve = run.distance("api", draws=0).curve
    return [float(curve(s)) - run.profile.seconds for s in (1e-6, 1e-5)] + [
        float(run.distance(over="kernel").curve(2.0)) - run.profile.seconds
    ]


RECORDINGS = (
    "kineto/hta_alexnet_critical_path/benchmark_result_2869224_1695835535_trace.json.gz",
    "kineto/hta_event_sync/multi_stream_event_sync_trace.json.gz",
    "nvprof/qcu_wilson_nccl_2rank/log_x99-Yang_2085236.nvvp",
)


@pytest.mark.shared
@pytest.mark.parametrize("name", RECORDINGS)
def test_the_answer_comes_closer_to_that_with_the_table(shared: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    trace = Run.read(shared / "traces" / name, use_cache=False).trace
    table, rule = added(trace), added(without_events(trace))
    monkeypatch.setattr(rules, "unrecorded_waits", lambda *_: (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)))
    plain = added(without_events(trace))
    for true, with_rule, without in zip(table, rule, plain, strict=True):
        assert abs(with_rule - true) <= abs(without - true) + 1e-9
    if "qcu" in name:
        assert rule != plain
