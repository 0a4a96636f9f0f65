"""A run as a trace of Dimemas: a parser and a replay written from the format's description alone
take the run's time to the nanosecond.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran
from hypothesis import given, reject
from mpi_rows import call, recorded
from runs import run_of
from strategies import FEWER, gpu_traces, soups, traces

import turnbuckle as tb
from turnbuckle.profile.profile import build
from turnbuckle.projection.run import Run
from turnbuckle.questions.before_after.formats import dimemas
from turnbuckle.questions.before_after.formats.steps import Steps, steps
from turnbuckle.trace.trace import Trace

Turnbuckle = Callable[..., Ran]
Thread = tuple[int, int]


@dataclass
class Read:
    """A trace as the simulator's reader takes it: numbers of threads, members of communicators,
    records of each thread.
    """

    threads: list[int]
    communicators: dict[int, list[int]] = field(default_factory=dict)
    records: dict[Thread, list[tuple[int, list[str]]]] = field(default_factory=dict)


def parsed(data: bytes) -> Read:
    """Follow the header's offset to the lines of offsets, and those to the records, of which a
    thread's are in one piece.
    """
    head = re.fullmatch(
        rb"#DIMEMAS:([^:]+):1,(\d+):(\d+)\(([\d,]+)\),(\d+)", data[: data.index(b"\n")]
    )
    assert head
    read = Read([int(count) for count in head[4].split(b",")])
    assert len(read.threads) == int(head[3]) and int(head[2]) > 0
    lines = data[int(head[2]) :].splitlines()
    assert len(lines) == len(read.threads)
    at = len(head[0]) + 1
    while (definition := re.match(rb"d:1:(\d+):(\d+):([\d:]+)\n", data[at:])) is not None:
        read.communicators[int(definition[1])] = members = [
            int(task) for task in definition[3].split(b":")
        ]
        assert len(members) == int(definition[2])
        at += len(definition[0])
    assert len(read.communicators) == int(head[5])
    starts: list[tuple[int, Thread]] = []
    for task, line in enumerate(lines):
        kind, number, *offsets = line.split(b":")
        assert (kind, int(number), len(offsets)) == (b"s", task, read.threads[task])
        # strtoul with base 0 takes a leading zero for octal
        assert not any(offset.startswith(b"0") for offset in offsets)
        starts += [(int(offset), (task, thread)) for thread, offset in enumerate(offsets)]
    assert starts[0][0] == at
    ends = [start for start, _ in starts[1:]] + [int(head[2])]
    for (start, thread), end in zip(starts, ends, strict=True):
        read.records[thread] = []
        for line in data[start:end].decode("ascii").splitlines():
            kind, task, number, *fields = line.split(":")
            assert (int(task), int(number)) == thread
            read.records[thread].append((int(kind), fields))
        assert read.records[thread]
    return read


def replayed(read: Read, latency_ns: int = 0) -> int:
    """When the last thread ends [ns]: records one after the other, a receive waits for its message;
    `latency_ns` is that between tasks.
    """
    sent: dict[tuple[object, ...], deque[int]] = defaultdict(deque)
    now = dict.fromkeys(read.records, 0)
    at = dict.fromkeys(read.records, 0)
    going = True
    while going:
        going = False
        for thread, records in read.records.items():
            while at[thread] < len(records):
                kind, fields = records[at[thread]]
                if kind == 1:
                    seconds, _, fraction = fields[0].partition(".")
                    assert len(fraction) == 9
                    now[thread] += int(seconds) * 10**9 + int(fraction)
                else:
                    other, other_thread, size, tag, communicator, how = (
                        int(value) for value in fields
                    )
                    assert other in read.communicators[communicator] and size >= 0 and tag < 2**31
                    assert -1 <= other_thread < read.threads[other] and (other_thread < 0) is (
                        other != thread[0]
                    )
                    across = other != thread[0]
                    ends: tuple[object, ...] = (
                        (thread[0], other) if across else (thread, (other, other_thread))
                    )
                    if kind == 2:
                        assert how == 2
                        sent[(*ends, tag, communicator, size)].append(
                            now[thread] + latency_ns * across
                        )
                    else:
                        assert (kind, how) == (3, 0)
                        waiting = sent[(*ends[::-1], tag, communicator, size)]
                        if not waiting:
                            break
                        now[thread] = max(now[thread], waiting.popleft())
                at[thread] += 1
                going = True
    assert all(at[thread] == len(records) for thread, records in read.records.items()), (
        "threads wait for each other"
    )
    assert not any(sent.values()), "a message that nobody receives"
    return max(now.values())


def written(seen: Steps, place: Path) -> Read:
    with place.open("wb") as sink:
        dimemas.stream(seen, sink)
    return parsed(place.read_bytes())


def of_trace(trace: Trace) -> Run:
    return Run.of(build(trace), source="a100-pcie-40")


@pytest.mark.parametrize(
    ("name", "part"), [("dgemm-like-synthetic", None), ("milc-like-synthetic", "0.3s..0.5s")]
)
def test_the_replay_takes_the_runs_time(name: str, part: str | None, tmp_path: Path) -> None:
    run = run_of(SAMPLE.with_name(f"{name}.sqlite"), part)
    read = written(steps(run), tmp_path / "run.dim")
    assert replayed(read) == run.profile.run_time_ns
    assert len(read.threads) == 1 and read.communicators == {1: [0]}
    # the work of the device is in bursts of its own
    bursts = [
        fields[0] for records in read.records.values() for kind, fields in records if kind == 1
    ]
    for start, end in run.trace.kernels.select("start_ns", "end_ns").iter_rows():
        assert f"{(end - start) // 10**9}.{(end - start) % 10**9:09}" in bursts


@pytest.mark.parametrize("target", ["gh200", "cdi-row-link"])
def test_on_another_machine_it_takes_the_projected_time(target: str, tmp_path: Path) -> None:
    run = run_of(SAMPLE)
    seen = steps(run, tb.Machine.load(target))
    assert (
        replayed(written(seen, tmp_path / "run.dim")) == seen.run_time_ns != run.profile.run_time_ns
    )


@pytest.mark.hypothesis
@given(traces() | gpu_traces() | soups())
@FEWER
def test_any_run_keeps_its_time(tmp_path_factory: pytest.TempPathFactory, trace: Trace) -> None:
    run = of_trace(trace)
    if not run.profile.activities.height:
        reject()
    assert (
        replayed(written(steps(run), tmp_path_factory.mktemp("dimemas") / "run.dim"))
        == run.profile.run_time_ns
    )


def two_ranks() -> Run:
    """Rank 1 works for 400 ns and sends; rank 0 waits for it 500 ns, and then both meet in a
    barrier.
    """
    return of_trace(
        recorded(
            call(0, "Recv", 100, 620, partner=1, tag=3, size_bytes=1 << 20),
            call(0, "Barrier", 700, 810),
            call(1, "Send", 500, 560, partner=0, tag=3, size_bytes=1 << 20),
            call(1, "Barrier", 800, 815),
        )
    )


def test_messages_are_between_tasks_with_their_sizes(tmp_path: Path) -> None:
    run = two_ranks()
    read = written(steps(run), tmp_path / "run.dim")
    sends = [
        (thread[0], int(f[0]), int(f[2]))
        for thread, records in read.records.items()
        for kind, f in records
        if kind == 2 and f[1] == "-1"
    ]
    assert sorted(sends) == [(0, 1, 1), (1, 0, 1), (1, 0, 1 << 20)]
    assert read.communicators == {1: [0, 1]} and replayed(read) == run.profile.run_time_ns
    # the message is sent 400 ns after the run's begin; rank 1 then waits for rank 0 in the barrier,
    # and leaves 15 ns after it is there
    assert replayed(read, latency_ns=1000) == 400 + 1000 + 120 + 80 + 1000 + 15


def test_python_and_the_command_write_the_same(turnbuckle: Turnbuckle, tmp_path: Path) -> None:
    assert turnbuckle("export", SAMPLE, "--to", "dimemas", "-o", "a.dim").out == "a.dim\n"
    run_of(SAMPLE).export(tmp_path / "b.dim", to="dimemas")
    assert (tmp_path / "a.dim").read_bytes() == (tmp_path / "b.dim").read_bytes()
