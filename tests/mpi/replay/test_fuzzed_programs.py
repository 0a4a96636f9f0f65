"""Fuzzed programs and traffic never hang: they end, or it is said who waits for whom, and that is
true.

All replays run in one process of their own that is given a time; what it found is judged here
against an execution without times. Whether a program without kept resources gets stuck does not
depend on when things happen: who waits, waits until another has done something, and nothing that is
done is undone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from example_counts import examples
from programs import program as of_lists
from refusals import refused

import turnbuckle as tb
from turnbuckle.foundation.errors import UsageError
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic, recorded
from turnbuckle.mpi.replay.program import Charges, program
from turnbuckle.replay.contention.contention import PICOSECONDS, Leaves, Op, Program, replay
from turnbuckle.replay.contention.network import FatTree, Network

#: Of this test, and of the builders that it imports.
FOLDERS: Final = (Path(__file__).parent, Path(__file__).parents[2] / "builders")
#: For all replays of a test together; they take seconds, on a machine that is busy a minute.
LIMIT_SECONDS: Final = 600
NETWORK: Final = Network(
    8,
    12.5e9,
    0.25e-6,
    FatTree((4, 2), (1, 2), (1, 1)),
    latency=1e-6,
    send_overhead=2e-7,
    receive_overhead=1e-7,
    seconds_per_byte=8e-11,
)
ARRAYS: Final = tuple(f.name for f in fields(Program))[:12]
COLLECTIVES: Final = (
    "allreduce",
    "bcast",
    "alltoall",
    "barrier",
    "allgather",
    "reduce",
    "gather",
    "scan",
    "reduce_scatter",
)


@dataclass
class Drawing:
    """A program in the making."""

    rng: np.random.Generator
    lists: list[list[tuple[int, int]]]
    messages: list[tuple[int, int, float, int]]
    uses: list[tuple[int, float]]

    def program(self) -> Program:
        work = self.rng.integers(0, 10**6, 4).astype(np.float64) / PICOSECONDS
        host = self.rng.integers(0, 8, len(self.lists))
        return of_lists(self.lists, self.messages, work, host, self.uses, capacity=[1, 1, 2])


def shuffled(seed: int) -> Program:
    """Every operation belongs to whom it must, once at most, in an order that is nearly or not at
    all a good one.
    """
    rng = np.random.default_rng(seed)
    processes, count = int(rng.integers(1, 7)), int(rng.integers(0, 14))
    mess = float(rng.choice([0.0, 0.1, 0.5, 1.0]))  # share of the operations put elsewhere
    dropped = float(rng.choice([0.0, 0.0, 0.1]))
    one = Drawing(
        rng,
        [[] for _ in range(processes)],
        [],
        [(int(rng.integers(3)), float(rng.integers(10**6)) * 1e-12) for _ in range(4)],
    )
    for m in range(count):
        source, target = (int(p) for p in rng.integers(0, processes, 2))
        leaves = int(rng.integers(0, 3))
        one.messages.append(
            (
                source,
                target,
                float(rng.choice([0, 1, 8, 10_000])) * (1e-12 if leaves == Leaves.EDGE else 1.0),
                leaves,
            )
        )
        for process, op in (
            (target, Op.POST),
            (source, Op.SEND),
            (target, Op.AWAIT),
            (source, Op.SENT),
        ):
            if rng.random() < dropped:
                continue
            if rng.random() < 0.2:
                one.lists[process].append((Op(int(rng.integers(0, 2))), int(rng.integers(4))))
            at = (
                int(rng.integers(len(one.lists[process]) + 1))
                if rng.random() < mess
                else len(one.lists[process])
            )
            one.lists[process].insert(at, (op, m))
    return one.program()


def keeping(seed: int) -> Program:
    """The same with resources that are kept for a while, in any order."""
    rng = np.random.default_rng(seed)
    one = shuffled(seed)
    lists = [
        list(zip(one.code[a:b].tolist(), one.arg[a:b].tolist(), strict=True))
        for a, b in zip(one.first, one.first[1:], strict=False)
    ]
    for ops in lists:
        for use in rng.permutation(4)[: int(rng.integers(0, 3))].tolist():
            begin, end = np.sort(rng.integers(0, len(ops) + 1, 2)).tolist()
            ops.insert(end, (Op.GIVE, use))
            ops.insert(begin, (Op.TAKE, use))
    flat = [pair for ops in lists for pair in ops]
    return replace(
        one,
        first=np.cumsum([0, *map(len, lists)]),
        code=np.array([c for c, _ in flat], dtype=np.uint8),
        arg=np.array([a for _, a in flat], dtype=np.int64),
        priority=rng.integers(0, 3, 4),
    )


def broken(seed: int) -> Program:
    """A program with something that cannot be in one of its arrays, or arrays that do not fit; or
    by chance a good one.
    """
    rng = np.random.default_rng(seed)
    one = keeping(seed)
    changed: dict[str, Any] = {}
    for name in rng.choice(ARRAYS, int(rng.integers(1, 3)), replace=False).tolist():
        values = np.array(getattr(one, name))
        what = int(rng.integers(0, 4))
        if what == 0 and len(values):
            odd = (
                [0, 1, 5, 9, 200]
                if values.dtype == np.uint8
                else [-1, 0, 1, 7, 10**6, 2**31, 2**32 - 1, 2**32, 2**62]
            )
            values[int(rng.integers(len(values)))] = odd[int(rng.integers(len(odd)))]
        elif what == 1 and len(values) and values.dtype == np.float64:
            values[int(rng.integers(len(values)))] = float(
                rng.choice([np.nan, np.inf, -1.0, 1e300, 4e6, 1e-30])
            )
        elif what == 2:
            values = values[: int(rng.integers(0, len(values) + 1))]
        elif len(values):
            values = np.append(values, values[-1])
        changed[name] = values
    return replace(one, **changed)


def traffic(seed: int) -> Traffic:
    """Calls of a few ranks, messages between any of them in any order, some lost or half seen,
    collectives of some.
    """
    rng = np.random.default_rng(seed)
    ranks, each, count = int(rng.integers(1, 6)), int(rng.integers(1, 9)), int(rng.integers(0, 16))
    calls = ranks * each
    rank = np.repeat(np.arange(ranks), each)
    orderly = rng.random() < 0.5
    send, receive = rng.integers(0, calls, count), rng.integers(0, calls, count)
    if orderly:  # a call receives what was sent by calls before it
        place = np.arange(calls) % each
        send, receive = (
            np.where(place[send] <= place[receive], send, receive),
            np.where(place[send] <= place[receive], receive, send),
        )
    lost = rng.random((2, count)) < 0.2
    messages = Messages(
        send,
        np.where(lost[0], -1, send),
        receive,
        np.where(lost[1], -1, receive),
        np.full(count, -1),
        rng.choice([0.0, 1.0, 8192.0, 8193.0, 1e6], count),
        rng.random(count) < 0.1,
    )
    rounds = []
    for _ in range(int(rng.integers(0, 3))):
        members = rng.choice(ranks, int(rng.integers(1, ranks + 1)), replace=False)
        activity = (members * each + rng.integers(0, each, len(members)))[None, :]
        operation = str(rng.choice(COLLECTIVES))
        rounds.append(
            Rounds(
                operation,
                rng.choice([0.0, 8.0, 1e5], 1),
                activity,
                int(rng.integers(0, len(members))),
            )
        )
    gaps, kept = rng.random(calls) * 1e-5, np.where(rng.random(calls) < 0.2, 1e-6, 0.0)
    return Traffic(ranks, rank, gaps, kept, np.zeros(ranks), messages, tuple(rounds), 1.0, 0)


def of_traffic(seed: int) -> Program:
    rng = np.random.default_rng(seed)
    device_limit, chunk = (
        float(rng.choice(some)) for some in ((np.inf, np.inf, 0.0), (np.inf, 3000.0))
    )
    charged = Charges(
        (1e-6, 1e-10),
        (2e-6, 0.0),
        eager_limit=device_limit,
        pin_seconds=1e-6,
        pin_once=True,
        chunk_bytes=chunk,
    )
    limit = float(rng.choice([0.0, 8192.0, 1e9]))
    return program(
        traffic(seed), ranks_per_node=int(rng.integers(1, 3)), charged=charged, eager_limit=limit
    )


MAKERS: Final = {"shuffled": shuffled, "keeping": keeping, "broken": broken, "traffic": of_traffic}
#: Seeds of each kind.
COUNTS: Final = {
    "shuffled": examples(1500),
    "keeping": examples(1500),
    "broken": examples(1500),
    "traffic": examples(500),
}


def outcomes(kind: str, seeds: range) -> Iterator[dict[str, Any]]:
    """What came of each program: its run time, or the code and what was found."""
    for seed in seeds:
        fidelity: Any = ("logp", "flow")[seed % 2]
        try:
            one: dict[str, Any] = {"seconds": replay(MAKERS[kind](seed), NETWORK, fidelity).seconds}
        except UsageError as error:
            one = {"code": error.code, "what": error.what, "found": error.found}
        yield one


@pytest.fixture(scope="module")
def judged() -> dict[str, list[dict[str, Any]]]:
    """Return the outcomes of all kinds, by a process that must be done in time."""
    code = (
        "import json, os, sys; sys.path[:0] = sys.argv[1].split(os.pathsep); import "
        "test_fuzzed_programs as t\n"
        "for kind, count in t.COUNTS.items():\n"
        "    for one in t.outcomes(kind, range(count)): print(json.dumps(one))"
    )
    command = [sys.executable, "-W", "error", "-c", code, os.pathsep.join(map(str, FOLDERS))]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
    )
    lines = iter(done.stdout.splitlines())
    found = {
        kind: [json.loads(line) for line in islice(lines, count)] for kind, count in COUNTS.items()
    }
    assert done.returncode == 0, (
        f"seeds {dict(zip(found, map(len, found.values()), strict=True))}: {done.stderr[-2000:]}"
    )
    assert [len(of_kind) for of_kind in found.values()] == list(COUNTS.values())
    return found


# --- what must come of it -------------------------------------------------------------------------


def waiting(one: Program) -> dict[int, int]:
    """Processes that cannot go on, and for whom each waits: everybody goes on as far as he can
    until nobody can.
    """
    first, code, arg = one.first.tolist(), one.code.tolist(), one.arg.tolist()
    source, target, leaves = one.source.tolist(), one.target.tolist(), one.leaves.tolist()
    at, sent, posted = first[:-1], set[int](), set[int]()

    def waits_for(process: int) -> int | None:
        op, m = code[at[process]], arg[at[process]]
        if op not in (Op.AWAIT, Op.SENT):
            return None
        if m not in sent:
            return int(source[m])
        needs_room = leaves[m] == Leaves.READY and m not in posted
        return int(target[m]) if needs_room else None

    moved = True
    while moved:
        moved = False
        for process, end in enumerate(first[1:]):
            while at[process] < end and waits_for(process) is None:
                op, m = code[at[process]], arg[at[process]]
                sent |= {m} if op == Op.SEND else set()
                posted |= {m} if op == Op.POST else set()
                at[process] += 1
                moved = True
    found = {p: waits_for(p) for p, end in enumerate(first[1:]) if at[p] < end}
    return {p: q for p, q in found.items() if q is not None}


def circles(waits: dict[int, int]) -> list[set[int]]:
    """All circles of who waits for whom."""
    out: list[set[int]] = []
    for start in waits:
        seen, at = [], start
        while at in waits and at not in seen:
            seen.append(at)
            at = waits[at]
        if at in seen and set(seen[seen.index(at) :]) not in out:
            out.append(set(seen[seen.index(at) :]))
    return out


def check(kind: str, seed: int, one: dict[str, Any]) -> bool:
    """Judge an outcome of a program whose operations are all well formed; whether it got stuck."""
    waits = waiting(MAKERS[kind](seed))
    where = f"{kind}, seed {seed}: {one}, who waits for whom: {waits}"
    if not waits:
        assert "seconds" in one, where
        return False
    assert one.get("code") == "A071" and one["what"].startswith(f"{len(waits)} process"), where
    if known := circles(waits):
        named = [int(p) for p in one["found"].removeprefix("process ").split(" -> ")]
        assert len(named) > 1 and named[0] == named[-1], where
        assert all(waits[a] == b for a, b in pairwise(named)), where
        assert set(named) in known, where
    return True


@pytest.mark.parametrize("kind", ["shuffled", "traffic"])
def test_it_ends_or_names_a_true_circle(judged: dict[str, list[dict[str, Any]]], kind: str) -> None:
    stuck = [check(kind, seed, one) for seed, one in enumerate(judged[kind])]
    assert 0.05 < np.mean(stuck) < 0.95, "both happen"


@pytest.mark.parametrize("kind", ["keeping", "broken"])
def test_it_ends_or_is_refused(judged: dict[str, list[dict[str, Any]]], kind: str) -> None:
    """Resources kept until they are given back; then arrays with anything in them."""
    found = judged[kind]
    codes = {one.get("code", "ends") for one in found}
    assert codes <= {"ends", "A071", "A072"} and len(codes) == 3
    assert all(one.get("found") for one in found if "code" in one), (
        "every refusal says what was found"
    )


def lossy(traffic: Traffic, seed: int) -> Traffic:
    """A recording that lost messages: any share of them, with both ends."""
    rng = np.random.default_rng(seed)
    keep = rng.random(len(traffic.messages.send)) < rng.random()
    names = ("send", "sent", "receive", "received", "step", "size_bytes")
    ready = traffic.messages.ready[keep] if len(traffic.messages.ready) else traffic.messages.ready
    return replace(
        traffic,
        messages=Messages(**{n: getattr(traffic.messages, n)[keep] for n in names}, ready=ready),
    )


@pytest.mark.parametrize(
    "name", ["otf2-local/scorep-netpipe-2r/archive/traces.otf2", "nsys-local/halo-py-4r.sqlite"]
)
def test_a_recording_that_lost_messages_still_ends(shared: Path, name: str) -> None:
    """What is not there is not waited for: a run that ends with all its messages ends with any of
    them.
    """
    whole = recorded(tb.read(shared / "traces" / name).profile)
    network = Network(whole.ranks, 1e9, 1e-6, latency=2e-6, seconds_per_byte=1e-9)
    for seed in range(6):
        one = program(lossy(whole, seed), eager_limit=float(seed % 2) * 8192)
        assert replay(one, network, "flow").seconds > 0 and not waiting(one)


def test_a_circle_of_very_many_is_named() -> None:
    """A thousand ranks that all send to the next before they receive, by rendezvous."""
    count = 1000
    one = Drawing(
        np.random.default_rng(0),
        [[(Op.SEND, p), (Op.SENT, p), (Op.POST, (p - 1) % count)] for p in range(count)],
        [],
        [],
    )
    one.messages += [(p, (p + 1) % count, 1e5, Leaves.READY) for p in range(count)]
    with pytest.raises(UsageError) as caught:
        replay(replace(one.program(), host=np.zeros(count, dtype=np.int64)), NETWORK)
    assert caught.value.code == "A071" and caught.value.what.startswith("1000 processes")
    assert caught.value.found.startswith("process 0 -> 1 -> 2 -> ") and caught.value.found.endswith(
        " -> 0"
    )


def test_resources_kept_crosswise_are_a_circle() -> None:
    one = Drawing(np.random.default_rng(0), [], [], [(0, 0.0), (1, 0.0)])
    for mine, other in ((0, 1), (1, 0)):
        one.lists.append(
            [(Op.TAKE, mine), (Op.WORK, mine), (Op.TAKE, other), (Op.GIVE, other), (Op.GIVE, mine)]
        )
    assert refused("A071", replay, one.program(), NETWORK).found == "process 0 -> 1 -> 0"


def test_a_circle_is_named_beside_one_that_waits_in_vain() -> None:
    """Process 0 waits for what process 3 never sends; 1 and 2 for each other."""
    lists: list[list[tuple[int, int]]] = [
        [(Op.AWAIT, 0)],
        [(Op.AWAIT, 2), (Op.SEND, 1)],
        [(Op.AWAIT, 1), (Op.SEND, 2)],
        [],
    ]
    messages = [(3, 0, 8.0, Leaves.EAGER), (1, 2, 8.0, Leaves.EAGER), (2, 1, 8.0, Leaves.EAGER)]
    with pytest.raises(UsageError) as caught:
        replay(
            Drawing(
                np.random.default_rng(0),
                lists,
                [(s, t, n, int(way)) for s, t, n, way in messages],
                [],
            ).program(),
            NETWORK,
        )
    assert caught.value.found in ("process 1 -> 2 -> 1", "process 2 -> 1 -> 2")


def test_no_operation_is_left_out() -> None:
    """Operations before the first of the first process belong to nobody."""
    one = Drawing(np.random.default_rng(0), [[(Op.WORK, 0), (Op.WORK, 1)]], [], []).program()
    refused("A072", replay, replace(one, first=np.array([1, 2])), NETWORK)
