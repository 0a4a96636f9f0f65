"""Waits of streams without a table of events: independent streams are left alone, real ones come
closer to what the table says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rows import Row, call, on_device
from strategies import trace_of

from turnbuckle.profile.dependencies import dependencies as rules
from turnbuckle.profile.dependencies.dependencies import dependencies
from turnbuckle.profile.dependencies.graph import EDGE
from turnbuckle.profile.dependencies.sides import activities
from turnbuckle.profile.profile import Profile, build
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.distance import Distance
from turnbuckle.replay.timeline import no_change
from turnbuckle.trace.trace import Trace

Random = np.random.Generator
#: Rows by table.
Rows = dict[str, list[Row]]
#: The name that stands for the wait until the recording is made.
RENAMED = "cudaStreamCreate"
#: How long a call takes, and how long a delivery at least [ns].
CALL, DELIVERY = 2_000, 4_000


def recorded(*programs: Rows) -> Profile:
    """Record some programs at once: each is a process with one thread, and none waits for
    another.
    """
    tables: Rows = {"api": [], "kernels": []}
    for number, program in enumerate(programs):
        process = (1000 + number) << 24
        for name, rows in program.items():
            tables[name] += [
                {**row, "process": process} | ({"thread": process | 1} if name == "api" else {})
                for row in rows
            ]
    trace = trace_of(tables)
    return build(replace(trace, names=trace.names.replace([RENAMED], ["cudaStreamWaitEvent"])))


def ordered(profile: Profile) -> list[list[tuple[int, int]]]:
    """Return for each program the streams of each order between its two works."""
    made, rows = dependencies(profile), activities(profile)
    stream = rows["stream"].fill_null(-1).to_list()
    program = ((rows["process"].fill_null(0).to_numpy() >> 24) - 1000).tolist()
    orders: list[list[tuple[int, int]]] = [[] for _ in range(max(program) + 1)]
    for edge in np.flatnonzero(made.kind == EDGE["event"]):
        source, target = (int(end[edge] - 1) // 2 for end in (made.source, made.target))
        assert program[source] == program[target]
        orders[program[source]].append((stream[source], stream[target]))
    return orders


def two_streams(r: Random, launches: int, waits: Sequence[int], waiting: bool) -> Rows:
    """Kernels on two streams in turn, with calls that make a stream wait before some of them;
    `waiting` says whether they do.

    Times between calls, deliveries and kernels scatter; without `waiting` the streams know nothing
    of each other.
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
    return {"api": api, "kernels": kernels}


def test_streams_that_wait_are_found() -> None:
    r = np.random.default_rng(1)
    programs = [
        two_streams(r, 200, sorted(r.choice(200, 60, replace=False)), True) for _ in range(20)
    ]
    assert min(map(len, ordered(recorded(*programs)))) > 10


def test_independent_streams_are_left_alone() -> None:
    """Calls that make a stream wait for what is long over, at random between launches: of 120
    programs at most 1 % are given an order.
    """
    r = np.random.default_rng(2)
    programs = []
    for _ in range(120):
        launches = int(r.integers(4, 60))
        waits = r.choice(launches, int(r.integers(1, launches)), replace=False)
        programs.append(two_streams(r, launches, sorted(waits.tolist()), False))
    assert sum(bool(orders) for orders in ordered(recorded(*programs))) <= 1


# --- a stream without work between two others -----------------------------------------------------

RECORD = "cudaEventRecord"


def passed_on(r: Random, turns: int, waiting: bool, *, rival: bool = False) -> Rows:
    """Work on stream 7, a stream of its own that waits for it and records, other work on stream 9,
    and work on stream 8 that waits.

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
    return {"api": api, "kernels": kernels}


def test_a_stream_without_work_passes_a_wait_on() -> None:
    for orders in ordered(
        recorded(*(passed_on(np.random.default_rng(seed), 20, True) for seed in range(10)))
    ):
        assert set(orders) == {(7, 8)} and len(orders) >= 15, (
            "not the work beside, which ended before"
        )


def test_what_ended_last_held_the_work_back() -> None:
    programs = [passed_on(np.random.default_rng(seed), 20, True, rival=True) for seed in range(10)]
    assert all(set(orders) == {(9, 8)} for orders in ordered(recorded(*programs)))


def test_streams_that_do_not_wait_pass_nothing_on() -> None:
    programs = [
        passed_on(np.random.default_rng(seed), int(turns), False)
        for seed, turns in enumerate([3, 5, 10, 20] * 25)
    ]
    assert sum(bool(orders) for orders in ordered(recorded(*programs))) <= 1


# --- recordings that have the table, without it ---------------------------------------------------


def without_events(trace: Trace) -> Trace:
    return replace(
        trace,
        tables={
            name: t.clear() if name in ("syncs", "events") else t
            for name, t in trace.tables.items()
        },
    )


def added(trace: Trace) -> list[float]:
    """What 1 us and 10 us of every call, and kernels twice as long, add to the run [s]."""
    run = Run.of(build(trace))
    away = Distance.of(run, "api")
    unchanged = no_change(len(away.ready.run))
    longer = replace(unchanged, ratio=np.where(away.ready.run.kind == "kernel", 2.0, 1.0))
    times = [
        *away.replay.seconds(away.change(np.array([[1e-6], [1e-5]]))),
        away.replay.seconds(longer),
    ]
    return [float(t) - run.seconds for t in times]


RECORDINGS = (
    "kineto/hta_alexnet_critical_path/benchmark_result_2869224_1695835535_trace.json.gz",
    "kineto/hta_event_sync/multi_stream_event_sync_trace.json.gz",
    "nvprof/qcu_wilson_nccl_2rank/log_x99-Yang_2085236.nvvp",
)


@pytest.mark.shared
@pytest.mark.parametrize("name", RECORDINGS)
def test_the_answer_comes_closer_to_that_with_the_table(
    shared: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    trace = Run.read(shared / "traces" / name, use_cache=False).trace
    table, rule = added(trace), added(without_events(trace))
    monkeypatch.setattr(
        rules,
        "unrecorded_waits",
        lambda *_: (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)),
    )
    plain = added(without_events(trace))
    for true, with_rule, without in zip(table, rule, plain, strict=True):
        assert abs(with_rule - true) <= abs(without - true) + 1e-9
    if "qcu" in name:
        assert rule != plain
