"""A run as a GOAL schedule: replayed by LogGOPSim's rules with messages that cost nothing, it takes
the run's time to the nanosecond.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran
from hypothesis import given, reject
from mpi_rows import call, recorded
from refusals import refused
from runs import run_of
from strategies import FEWER, gpu_traces, soups, traces

import turnbuckle as tb
from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.mpi.schedules import goal as schedule
from turnbuckle.mpi.schedules.goal import CALC, Costs, Goal
from turnbuckle.profile.profile import build
from turnbuckle.projection.model import nething
from turnbuckle.projection.run import Run
from turnbuckle.questions.before_after.formats import goal
from turnbuckle.questions.before_after.formats.steps import Steps, steps
from turnbuckle.replay.contention.contention import replay
from turnbuckle.trace.trace import Trace

Turnbuckle = Callable[..., Ran]
FREE = Costs(latency=0, overhead=0, gap=0, seconds_per_byte=0)


def read_back(seen: Steps, place: Path) -> Goal:
    with place.open("wb") as sink:
        goal.stream(seen, sink)
    return schedule.read(place)


def ends_ns(read: Goal, costs: Costs = FREE) -> int:
    seconds = replay(schedule.program(read, costs), costs.network(read.ranks), "logp").seconds
    assert abs(seconds * 1e9 - round(seconds * 1e9)) < 1e-3
    return round(seconds * 1e9)


def of_trace(trace: Trace) -> Run:
    return Run.of(build(trace), source="a100-pcie-40")


@pytest.mark.parametrize(
    ("name", "part"), [("dgemm-like-synthetic", None), ("milc-like-synthetic", "0.3s..0.5s")]
)
def test_the_replay_takes_the_runs_time(name: str, part: str | None, tmp_path: Path) -> None:
    run = run_of(SAMPLE.with_name(f"{name}.sqlite"), part)
    read = read_back(steps(run), tmp_path / "run.goal")
    assert ends_ns(read) == run.profile.run_time_ns
    assert (read.kind == CALC).all() and read.ranks == 1


@pytest.mark.parametrize("target", ["gh200", "cdi-row-link"])
def test_on_another_machine_it_takes_the_projected_time(target: str, tmp_path: Path) -> None:
    run = run_of(SAMPLE).judged
    seen = steps(run, tb.Machine.load(target))
    read = read_back(seen, tmp_path / "run.goal")
    projected = run.project(
        [target], draws=0, model=replace(nething(), replay="timeline")
    ).projections[0]
    assert ends_ns(read) == seen.run_time_ns
    # lags are whole nanoseconds: each edge of the path rounds by half of one at most
    assert abs(seen.run_time_ns - projected.seconds * 1e9) <= 0.5 * len(seen.graph.kind)
    assert abs(seen.run_time_ns / (projected.seconds * 1e9) - 1) < 1e-6


@pytest.mark.hypothesis
@given(traces() | gpu_traces() | soups())
@FEWER
def test_any_run_comes_back(tmp_path_factory: pytest.TempPathFactory, trace: Trace) -> None:
    run = of_trace(trace)
    if not run.profile.activities.height:
        reject()
    seen = steps(run)
    assert (
        ends_ns(read_back(seen, tmp_path_factory.mktemp("goal") / "run.goal"))
        == run.profile.run_time_ns
    )


def two_ranks(size: int = 1 << 20) -> Run:
    """Rank 1 works for 400 ns and sends; rank 0 waits for it 500 ns, and then both meet in a
    barrier.
    """
    return of_trace(
        recorded(
            call(0, "Recv", 100, 620, partner=1, tag=3, size_bytes=size),
            call(0, "Barrier", 700, 810),
            call(1, "Send", 500, 560, partner=0, tag=3, size_bytes=size),
            call(1, "Barrier", 800, 815),
        )
    )


def test_messages_are_sent_and_received_with_their_sizes(tmp_path: Path) -> None:
    run = two_ranks()
    read = read_back(steps(run), tmp_path / "run.goal")
    assert read.ranks == 2 and len(read.matched.lone_sends) == len(read.matched.lone_receives) == 0
    sends = [(int(read.rank[k]), int(read.peer[k]), int(read.amount[k])) for k in read.sends]
    # the message from 1 to 0, and each side of the barrier to the other
    assert sorted(sends) == [(0, 1, 1), (1, 0, 1), (1, 0, 1 << 20)]
    assert ends_ns(read) == run.profile.run_time_ns
    # 1 MiB at 1 byte a nanosecond, the first of them free: the receive is later by that; rank 1
    # leaves 15 ns after rank 0 enters
    slow = Costs(latency=0, overhead=0, gap=0, seconds_per_byte=1e-9, eager_limit=1 << 40)
    assert ends_ns(read, slow) == 500 - 100 + (1 << 20) - 1 + 120 + 80 + 15


def test_the_question_about_messages_takes_the_runs_time(
    turnbuckle: Turnbuckle, tmp_path: Path
) -> None:
    run = two_ranks()
    run.export(tmp_path / "run.goal", to="goal")
    free = (
        "--hop",
        "0 ns",
        "--overhead",
        "0 ns",
        "--set",
        "gap_seconds=0 s",
        "--bandwidth",
        "1000000 TB/s",
        "--eager-limit",
        "1 GB",
    )
    ran = turnbuckle(
        "model",
        "messages",
        "run.goal",
        "--ranks-per-node",
        "1",
        "--fidelity",
        "logp",
        *free,
        "--format",
        "csv",
    )
    assert ran.code == 0, ran.err
    lines = [line.split(",") for line in ran.out.splitlines()]
    seconds = {float(line[lines[0].index("seconds")]) for line in lines[1:]}
    assert min(seconds) == pytest.approx(run.seconds, rel=1e-6)


def test_tags_and_processors(tmp_path: Path) -> None:
    run = run_of(SAMPLE)
    text = tmp_path / "run.goal"
    assert run.export(text, to="goal") == text
    lines = text.read_text(encoding="ascii").splitlines()
    assert (
        lines[0].endswith(f"run time {run.profile.run_time_ns} ns where messages cost nothing")
        and lines[1] == "num_ranks 1"
    )
    assert "host thread" in lines[2] and "GPU 0 stream" in lines[2]
    # txt2bin takes a label only where it stands before the line that names it
    seen: set[str] = set()
    for line in lines[4:-1]:
        if edge := re.fullmatch(r"(\w+) requires (\w+)", line):
            assert {edge[1], edge[2]} <= seen
        else:
            seen.add(line.split(":")[0])


def test_the_command_and_python_write_the_same(turnbuckle: Turnbuckle, tmp_path: Path) -> None:
    assert turnbuckle("export", SAMPLE, "--to", "goal", "-o", "a.goal.gz").out == "a.goal.gz\n"
    run_of(SAMPLE).export(tmp_path / "b.goal.gz", to="goal")
    assert (tmp_path / "a.goal.gz").read_bytes() == (tmp_path / "b.goal.gz").read_bytes()
    ran = turnbuckle("inspect", "a.goal.gz")
    assert ran.code == 0 and "1 rank" in ran.out


def test_what_is_refused(turnbuckle: Turnbuckle, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = turnbuckle("export", SAMPLE, "-o", "run.json")
    assert ran.code == 2 and "error[A481]" in ran.err and "--on" in ran.err
    run = run_of(SAMPLE)
    refused("A482", run.export, "run.goal", to="gaol")
    monkeypatch.setattr(goal, "_MOST", 2)
    refused("A480", run.export, "run.goal", to="goal")
    alone = two_ranks()
    with pytest.raises(CannotAnswer) as error:
        alone.export("run.goal", "gh200", to="goal")
    assert error.value.code == "A121"
