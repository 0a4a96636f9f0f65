"""The laws of a remoting machine: one that costs nothing is the source, and more of anything it
costs never makes a run faster.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import FEWER, FULL, LAW, Step, Where, gpu_traces, machine, run_toy, soups, trace_of

from turnbuckle.foundation.units import MANNERS
from turnbuckle.machine import Pair
from turnbuckle.machine.parameter_names import REMOTING_CLASSES
from turnbuckle.profile.profile import build
from turnbuckle.projection.anchor import anchored
from turnbuckle.projection.elsewhere.holes import managed
from turnbuckle.projection.elsewhere.priors import PAGES
from turnbuckle.projection.model import Replay, nething
from turnbuckle.projection.order import Prepared, prepared, replayed
from turnbuckle.projection.project import project
from turnbuckle.trace.read import read
from turnbuckle.trace.trace import Trace

MODEL = nething("hold")
REPLAYS: st.SearchStrategy[Literal["sum", "timeline"]] = st.sampled_from(["sum", "timeline"])
Manners = dict[str, str]
MANNER: st.SearchStrategy[Manners] = st.fixed_dictionaries(
    {word: st.sampled_from(MANNERS) for word in REMOTING_CLASSES}
)
NOTHING = {
    "remoting.round_trip": 0.0,
    "remoting.h2d.bandwidth": float("inf"),
    "remoting.d2h.bandwidth": float("inf"),
    "remoting.command": 0.0,
    "remoting.byte": 0.0,
    "remoting.command_bytes": 0.0,
    "remoting.answer_bytes": 0.0,
    "remoting.commands_unrecorded": 0.0,
}


VARIED = ("round_trip", "command", "byte", "bandwidth", "command_bytes", "answer_bytes")


def layer(manners: Manners, **costs: float) -> dict[str, float]:
    """A source's numbers and those of a layer upon it; costs by the last part of their names."""
    given = {name: costs.get(name.rpartition(".")[2], value) for name, value in NOTHING.items()}
    return {
        **FULL,
        **given,
        **{f"remoting.{word}": float(MANNERS.index(manner)) for word, manner in manners.items()},
    }


def ready_for(trace: Trace, replay: Replay = "timeline") -> Prepared:
    """Make a recording ready for a replay, below the door that refuses an order nobody can
    trust.
    """
    return prepared(build(trace), replace(MODEL, replay=replay))


def run_time(ready: Prepared, manners: Manners, **costs: float) -> float:
    """Return the run time with a layer [s]."""
    return float(
        replayed(
            ready,
            anchored(ready.run, machine(FULL), machine(layer(manners, **costs), "far"), MODEL),
        ).seconds
    )


@LAW
@given(gpu_traces() | soups(), MANNER, st.sampled_from(["sum", "auto"]))
def test_a_layer_that_costs_nothing_is_the_source(
    trace: Trace, manners: Manners, replay: Replay
) -> None:
    profile = build(trace)
    found = project(
        profile, Pair(machine(FULL), machine(layer(manners))), replace(MODEL, replay=replay)
    )
    if managed(profile):  # pages move by faults, which no layer forwards
        assert found.unknown == PAGES and np.isnan(found.seconds)
        assert "A530" in {f.code for f in found.findings}
        return
    assert not found.unknown
    assert found.seconds == profile.seconds and found.breakdown == found.measured_breakdown
    assert found.envelope == (profile.seconds, profile.seconds)


@LAW
@given(gpu_traces() | soups(), MANNER, REPLAYS, st.sampled_from(VARIED))
def test_more_of_a_cost_is_never_faster_and_bends_upwards(
    trace: Trace, manners: Manners, replay: Replay, name: str
) -> None:
    steps = [0.0, 1.0, 2.0, 3.0, 10.0]
    scale = {
        "round_trip": 3e-6,
        "command": 2e-6,
        "byte": 1e-10,
        "command_bytes": 200.0,
        "answer_bytes": 400.0,
    }.get(name)
    varied = [
        {name: 1e10 / x if x else float("inf")} if scale is None else {name: x * scale}
        for x in steps
    ]
    messages = (
        {"command_bytes": 200.0, "answer_bytes": 400.0}
        if name == "bandwidth"
        else {"bandwidth": 1e8}
    )
    costs = [{**messages, **cost} for cost in varied]
    ready = ready_for(trace, replay)
    run = np.array([run_time(ready, manners, **cost) for cost in costs])
    slopes = np.diff(run) / np.diff(steps)
    room = 1e-11 * max(run.max(), 1e-6)
    assert (slopes >= -room).all()
    assert (np.diff(slopes) >= -room).all()


@LAW
@given(gpu_traces(), MANNER, st.floats(0, 1e-4), st.floats(0, 1e-4), REPLAYS)
def test_the_envelope_holds(
    trace: Trace, manners: Manners, trip: float, command: float, replay: Replay
) -> None:
    ready = ready_for(trace, replay)
    found = replayed(
        ready,
        anchored(
            ready.run,
            machine(FULL),
            machine(layer(manners, round_trip=trip, command=command)),
            MODEL,
        ),
    )
    room = 1e-12 * max(float(found.upper), 1e-9)
    assert found.lower - room <= found.seconds <= found.upper + room


@FEWER
@given(
    gpu_traces(), MANNER, st.sampled_from(REMOTING_CLASSES), st.floats(0, 1e-4), st.floats(0, 1e-4)
)
def test_waiting_for_the_answer_is_never_faster_than_not(
    trace: Trace, manners: Manners, word: str, trip: float, command: float
) -> None:
    ready = ready_for(trace)
    run = [
        run_time(ready, {**manners, word: manner}, round_trip=trip, command=command)
        for manner in ("local", "sent", "waits")
    ]
    assert run[0] <= run[1] + 1e-12 and run[1] <= run[2] + 1e-12


LAUNCHES, CALL, WORK = 5, 2_000, 10_000
LOCAL: Manners = dict.fromkeys(REMOTING_CLASSES, "local")


def launches_then_a_wait() -> Trace:
    """Five launches back to back, each of a kernel longer than the call, and a wait for all of
    them.
    """
    common = {"thread": 0, "device": 0, "stream": 0, "gap": 0, "size": 0, "flag": False}
    launch = Step("launch", call=CALL, delay=1_000, work=WORK, **common)
    return trace_of(
        run_toy(
            [launch] * LAUNCHES + [Step("wait", call=500, delay=0, work=0, **common)], Where()
        ).rows
    )


@pytest.mark.parametrize(
    ("launch", "wait", "added"),
    [
        # nothing comes back, and the software of the last
        (
            "batched",
            "batched",
            lambda trip, command: command,
        ),
        # each kernel after the answer to the one before
        (
            "serial",
            "local",
            lambda trip, command: LAUNCHES * (trip + command),
        ),
        # there once, the news back once, and the software of the first
        (
            "sent",
            "local",
            lambda trip, command: trip + command,
        ),
        ("local", "local", lambda trip, command: trip / 2),  # the news alone
    ],
)
def test_what_a_row_of_launches_pays(launch: str, wait: str, added: object) -> None:
    trip, command = 100e-6, 5e-6
    ready = ready_for(launches_then_a_wait())
    run = run_time(
        ready, {**LOCAL, "launch": launch, "wait": wait}, round_trip=trip, command=command
    )
    assert run - ready.measured == pytest.approx(added(trip, command), rel=1e-9)  # type: ignore[operator]


def test_launches_that_wait_pay_a_round_trip_each() -> None:
    trip, command = 100e-6, 5e-6
    run = run_time(
        ready_for(launches_then_a_wait()),
        {**LOCAL, "launch": "waits"},
        round_trip=trip,
        command=command,
    )
    # the last kernel begins one way after its call, and its end is heard one way later
    expected = (
        (LAUNCHES - 1) * (CALL * 1e-9 + trip + command)
        + 1e-6
        + command
        + trip / 2
        + WORK * 1e-9
        + 500e-9
        + trip / 2
    )
    assert run == pytest.approx(expected, rel=1e-9)


def test_a_graph_is_one_command() -> None:
    """The kernels that one launch of a graph started do not wait for an answer between them."""
    common = {
        "thread": 0,
        "device": 0,
        "stream": 0,
        "gap": 0,
        "size": 0,
        "delay": 1_000,
        "call": CALL,
        "work": WORK,
    }
    ready = ready_for(trace_of(run_toy([Step("graph_nodes", flag=True, **common)], Where()).rows))
    added = (
        run_time(ready, dict.fromkeys(REMOTING_CLASSES, "serial"), round_trip=100e-6)
        - ready.measured
    )
    assert added == pytest.approx(50e-6, rel=1e-9)


def test_data_cross_the_network() -> None:
    """A copy of n bytes takes n / B + n g longer, each way at its own bandwidth."""
    common = {
        "thread": 0,
        "device": 0,
        "stream": 0,
        "gap": 0,
        "delay": 1_000,
        "call": CALL,
        "work": WORK,
        "flag": True,
    }
    for what, cost in (
        ("copy_in", {"bandwidth": 1e9, "byte": 1e-9}),
        ("copy_out", {"bandwidth": 1e9}),
    ):
        ready = ready_for(trace_of(run_toy([Step(what, size=1_000_003, **common)], Where()).rows))
        added = run_time(ready, LOCAL, **cost) - ready.measured
        assert added == pytest.approx(1_000_003 * (1e-9 + cost.get("byte", 0.0)), rel=1e-9)


def test_real_runs_obey(shared: Path) -> None:
    """Recordings of an OpenCL device: zero is the identity, and each of the manners costs more with
    the round trip.
    """
    folders = sorted(
        p.parent for p in (shared / "measured" / "opencl-distance").glob("*/trace.json")
    )
    assert len(folders) == 4
    for folder in folders:
        ready = ready_for(read(folder, use_cache=False))
        for manner in MANNERS:
            # a batch is sent by a call that waits
            sending = {"read": "waits", "wait": "waits"} if manner == "batched" else {}
            manners = {**dict.fromkeys(REMOTING_CLASSES, manner), **sending}
            run = [run_time(ready, manners, round_trip=trip) for trip in (0.0, 1e-5, 1e-4, 1e-3)]
            assert run[0] == ready.measured and run == sorted(run) and run[-1] > run[0], (
                folder.name,
                manner,
            )


def test_a_program_with_few_data_feels_the_bandwidth_through_its_commands() -> None:
    """Each command takes b / B longer and each answer a / B, beside the software's time."""
    ready, size, answer = ready_for(launches_then_a_wait()), 1_500.0, 400.0
    manners: Manners = {**LOCAL, "launch": "waits", "wait": "waits"}
    plain = run_time(ready, manners, bandwidth=1e7)
    run = run_time(ready, manners, bandwidth=1e7, command_bytes=size, answer_bytes=answer)
    # the kernels end while the program waits for answers
    expected = LAUNCHES * CALL * 1e-9 + 500e-9 + (LAUNCHES + 1) * (size + answer) / 1e7
    assert plain == ready.measured and run == pytest.approx(expected, rel=1e-9)
    assert run_time(ready, manners, command_bytes=size, answer_bytes=answer) == ready.measured, (
        "no bandwidth is no bound"
    )
    unrecorded = run_time(
        ready,
        {**LOCAL, "launch": "batched"},
        bandwidth=1e7,
        command_bytes=size,
        commands_unrecorded=3.0,
    )
    recorded = run_time(ready, {**LOCAL, "launch": "batched"}, bandwidth=1e7, command_bytes=size)
    assert unrecorded - recorded == pytest.approx(LAUNCHES * 3 * size / 1e7, rel=0.01)


def test_a_blocking_write_of_a_batch_waits_for_its_data_alone() -> None:
    """Sent, its program waits for the way there too."""
    common = {
        "thread": 0,
        "device": 0,
        "stream": 0,
        "gap": 0,
        "delay": 1_000,
        "call": CALL,
        "work": WORK,
    }
    ready = ready_for(
        trace_of(run_toy([Step("copy_in", size=1_000, flag=True, **common)], Where()).rows)
    )
    assert "sync" in ready.run.kind, "the copy blocks"
    added = [
        run_time(ready, {**LOCAL, "write": m}, round_trip=1e-4, byte=1e-9) - ready.measured
        for m in ("sent", "batched")
    ]
    assert added == pytest.approx([0.5e-4 + 1e-6, 1e-6], rel=1e-9)
