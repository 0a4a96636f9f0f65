"""Each rule on the run of its picture (``docs/rules.py``): edges, identity, what moves; and runs
beside it that lack the edge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripts import script
from strategies import FULL, machine

from turnbuckle.machine import Pair
from turnbuckle.profile.dependencies.graph import EDGES
from turnbuckle.projection.model import nething
from turnbuckle.projection.project import project

ROOT = Path(__file__).resolve().parents[2]
TIMELINE = replace(nething("hold"), replay="timeline")


rules = script("docs/rules.py")
RULES: dict[str, Any] = {rule.name: rule for rule in rules.RULES}
Bar, launch, kernel, synced = rules.Bar, rules.launch, rules.kernel, rules.synced

#: Per picture: all edges of its rule (from, to, lag in us), and what its change moves (begins,
#: ends).
EXPECTED: dict[str, tuple[list[tuple[str, str, float]], dict[str, tuple[float, float]]]] = {
    "host": ([("malloc ends", "launch begins", 9)], {"malloc": (0, 11), "launch": (20, 24)}),
    "host-handed": (
        [
            *((f"A {i} ends", f"B {i} begins", 1) for i in (1, 2, 3)),
            *((f"{who} {i} ends", f"A {i + 1} begins", 1) for i in (1, 2, 3) for who in "AB"),
            *((f"B {i} ends", f"B {i + 1} begins", 1) for i in (1, 2)),
        ],
        {"A 1": (0, 30)}
        | {f"{who} {i}": (31 + 42 * (i - 1), 51 + 42 * (i - 1)) for i in (1, 2, 3) for who in "B"}
        | {f"A {i}": (52 + 42 * (i - 2), 72 + 42 * (i - 2)) for i in (2, 3, 4)},
    ),
    "call": (
        [("launch A begins", "launch A ends", 4), ("sync begins", "sync ends", 2)],
        {"launch A": (0, 9), "sync": (12, 32)},
    ),
    "deliver": (
        [
            ("launch A ends", "A begins", 3),
            ("launch B begins", "B begins", 7),
            ("launch C begins", "C begins", 7),
            ("launch D begins", "D begins", 7),
        ],
        {"D": (71, 77)},
    ),
    "stream": ([("A ends", "B begins", 0)], {"A": (7, 26), "B": (26, 34)}),
    "stream-within": (
        [("A begins", "B begins", 10), ("B ends", "C begins", 0)],
        {"A": (7, 26), "B": (23, 32), "C": (32, 38)},
    ),
    "engine": ([("in 1 ends", "in 2 begins", 0)], {"in 1": (7, 26), "in 2": (26.5, 36)}),
    "engine-kernels": (
        [("A ends", "B begins", 0), ("B ends", "C begins", 0)],
        {"A": (7, 21), "B": (21.5, 29.5), "C": (30, 38)},
    ),
    "run": ([("A begins", "A ends", 15)], {"A": (7, 28), "sync": (6, 30)}),
    "barrier": (
        [("X ends", "N begins", 0), ("N ends", "Y begins", 0)],
        {"X": (7, 24), "N": (24.5, 30), "Y": (30.5, 37)},
    ),
    "event": ([("A ends", "B begins", 0)], {"A": (7, 33), "C": (33, 40), "B": (33.5, 39)}),
    "event-passed": (
        [("A ends", "C begins", 0), ("D ends", "F begins", 0)],
        {"A": (4, 24), "C": (24.5, 29)},
    ),
    "event-order": (
        [("A ends", "B begins", 0), ("D ends", "E begins", 0)],
        {"A": (7, 26), "C": (26, 33), "B": (26.5, 32)},
    ),
    "graph": (
        [
            ("a ends", "b begins", 0),
            ("a ends", "c begins", 0),
            ("a' ends", "b' begins", 0),
            ("a' ends", "c' begins", 0),
        ],
        {"a": (7, 19), "b": (19.5, 25), "c": (25.5, 29.5)},
    ),
    "fault": (
        [
            ("A begins", "in 1 begins", 6),
            ("in 1 ends", "in 2 begins", 7),
            ("in 2 ends", "A ends", 8),
        ],
        {"in 1": (13, 20), "in 2": (27, 35), "A": (7, 43)},
    ),
    "sync": (
        [("A ends", "sync stream 8 ends", 2)],
        {"A": (7, 32), "sync stream 8": (9, 34), "launch C": (37, 40)},
    ),
    "sync-device": (
        [("B ends", "sync device ends", 2), ("A ends", "sync device ends", 2)],
        {"B": (11, 30), "sync device": (9, 32), "launch C": (35, 38)},
    ),
    "sync-queries": (
        [("A ends", "queries/0 ends", 3)],
        {"A": (7, 34), "B": (47, 52), "queries/0": (5, 37), "launch B": (40, 43)},
    ),
    "queue": (
        [("513 kernels/1 ends", "one more ends", 2)],
        {"A": (7.0, 2200.0), "one more": (1540.0, 2203.0)}
        | {f"513 kernels/{i}": (2199.0 + i, 2200.0 + i) for i in range(1, 514)},
    ),
    "meet": (
        [("send begins", "receive ends", 6)],
        {"A": (7, 30), "sync": (5, 32), "send": (35, 39), "receive": (6, 41)},
    ),
    "origin": (
        [
            ("start", "malloc begins", 0),
            ("start", "X begins", 10),
            ("start", "malloc 2 begins", 14),
        ],
        {"malloc": (0, 12), "launch A": (14, 18), "A": (21, 32)},
    ),
}


def changed(run: Any, *changes: tuple[str, str, float]) -> dict[str, tuple[float, float]]:
    """What changes move, and where to [us]."""
    was = {b.name: (b.start, b.end) for b in run.bars}
    return {name: now for name, now in run.changed(changes).items() if now != was[name]}


def comes_back(run: Any) -> None:
    """Every recorded instant, and the run time on the machine it ran on."""
    assert np.array_equal(run.replay.recorded_ns(), run.graph.time_ns)
    source = machine(FULL)
    found = project(run.profile, Pair(source, source), TIMELINE)
    assert found.seconds == found.measured_seconds


def test_every_rule_has_a_picture() -> None:
    assert {rule.kind for rule in rules.RULES} == set(EDGES)
    assert set(EXPECTED) == set(RULES)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_rule(name: str) -> None:
    rule = RULES[name]
    edges, moved = EXPECTED[name]
    comes_back(rule.run)
    assert sorted(rule.run.edges(rule.kind)) == sorted(edges)
    assert changed(rule.run, *rule.changes) == moved


# --- beside each rule -----------------------------------------------------------------------------


def bars(run: Any, **changed: dict[str, Any]) -> Any:
    """The run with some bars changed; ``_`` in a name stands for a blank."""
    by_name = {name.replace("_", " "): values for name, values in changed.items()}
    assert set(by_name) <= {b.name for b in run.bars}
    return replace(run, bars=tuple(replace(b, **by_name.get(b.name, {})) for b in run.bars))


def tables(run: Any, **more: list[dict[str, Any]]) -> Any:
    """The run with other records beside its activities."""
    return replace(run, tables={**run.tables, **more})


def streams(*kinds: tuple[int, int]) -> list[dict[str, Any]]:
    """Rows of the table ``streams``."""
    return [{"stream": stream, "kind": kind} for stream, kind in kinds]


OTHER = {"process": 1001 << 24}
QUEUE = RULES["queue"].run
WORLD = rules.ranks(2)
#: A kernel on stream 8; stream 9 is told to wait for it and gets no work of its own.
JOINED = (
    launch("launch X", 0, 1),
    launch("launch A", 2, 4),
    Bar("record", "host", 5, 6, "cudaEventRecord"),
    Bar("wait", "host", 7, 8, "cudaStreamWaitEvent"),
    kernel("X", 3, 6, 9),
    kernel("A", 7, 20, 8),
)
JOIN = {
    "events": [{"by": "record", "event": 5, "stream": 8}],
    "syncs": [synced("wait", 2, event=5, stream=9)],
}


def synchronised(name: str, row: dict[str, Any], **more: list[dict[str, Any]]) -> Any:
    """A on stream 8, an event, B on stream 9, and one call that waits, with its row of the table
    ``syncs``.
    """
    calls = (
        launch("launch A", 0, 2),
        Bar("record", "host", 2, 3, "cudaEventRecord"),
        launch("launch B", 4, 6),
    )
    works = (kernel("A", 7, 18, 8), kernel("B", 11, 19, 9))
    return rules.Run(
        (*calls, *works, Bar("sync", "host", 7, 20, name)),
        {"syncs": [{"by": "sync", **row}], **more},
    )


#: Twice a launch, a wait and a launch on another stream, and no table of events.
UNTOLD = RULES["event-order"].run
#: The same by way of a stream without work, with work on a third stream launched between, over
#: before the last could begin.
PASSED = replace(
    RULES["event-passed"].run,
    bars=tuple(
        replace(b, end={"B": 14.5, "E": 42.5}.get(b.name, b.end))
        for b in RULES["event-passed"].run.bars
    ),
)


RECORD = {"events": [{"by": "record", "event": 5, "stream": 8}]}
BOTH: list[tuple[str, str, float]] = [("A ends", "sync ends", 1), ("B ends", "sync ends", 1)]

#: Name, which begins with a kind of edge -> (run, all edges of that kind).
BESIDE: dict[str, tuple[Callable[[], Any], list[tuple[str, str, float]]]] = {
    "host: two threads have no order": (
        lambda: bars(RULES["host"].run, launch={"track": "host 3"}),
        [],
    ),
    "host: a call inside another is a chain through it": (
        lambda: rules.Run(
            (
                Bar("mpi", "host", 0, 20, "MPI_Send", more={"kind": 0}),
                Bar("copy", "host", 3, 9, "cudaMemcpyAsync"),
            )
        ),
        [("mpi begins", "copy begins", 3), ("copy ends", "mpi ends", 11)],
    ),
    "call: a call that does not wait keeps its time": (
        lambda: bars(RULES["call"].run, sync={"what": "cudaGetDevice"}),
        [("launch A begins", "launch A ends", 4), ("sync begins", "sync ends", 25)],
    ),
    "event: without calls that make a stream wait": (
        lambda: bars(UNTOLD, wait={"what": "cudaGetDevice"}, wait_2={"what": "cudaGetDevice"}),
        [],
    ),
    "event: without a table, once only": (lambda: bars(UNTOLD, wait={"what": "cudaGetDevice"}), []),
    "event: without a table, work that began before the other had ended": (
        lambda: bars(UNTOLD, B={"start": 20}),
        [],
    ),
    "event: without a table, work that nothing held back": (
        lambda: bars(UNTOLD, A={"end": 12}, C={"start": 18, "end": 25}, B={"start": 19, "end": 24}),
        [],
    ),
    "event: without a table, streams of two contexts": (
        lambda: bars(UNTOLD, B={"more": {"context": 2}}, E={"more": {"context": 2}}),
        [],
    ),
    "event: without a table, waits by another thread": (
        lambda: bars(UNTOLD, wait={"track": "host 2"}),
        [],
    ),
    "event: nothing is passed on without a record behind the wait": (
        lambda: bars(
            PASSED, record_2={"what": "cudaGetDevice"}, record_4={"what": "cudaGetDevice"}
        ),
        [],
    ),
    "event: what is passed on once only": (
        lambda: bars(PASSED, record_2={"what": "cudaGetDevice"}),
        [],
    ),
    "event: what is passed on, but work began before the other had ended": (
        lambda: bars(PASSED, C={"start": 18}),
        [],
    ),
    "event: the work launched between ended last and held the other back": (
        lambda: bars(PASSED, B={"end": 20.4}, E={"end": 48.4}),
        [("B ends", "C begins", 0), ("E ends", "F begins", 0)],
    ),
    "event: waits passed on by another thread": (
        lambda: bars(PASSED, wait={"track": "host 2"}, record_2={"track": "host 2"}),
        [],
    ),
    "event: the table decides where there is one": (
        lambda: tables(UNTOLD, events=[{"by": "launch C", "event": 5, "stream": 9}]),
        [],
    ),
    "deliver: work without a call": (
        lambda: bars(RULES["deliver"].run, **{n: {"by": ""} for n in "ABCD"}),
        [],
    ),
    "deliver: work that begins before its call": (
        lambda: bars(RULES["run"].run, launch_A={"start": 8, "end": 12}, sync={"start": 13}),
        [],
    ),
    "deliver: by a call inside another": (
        lambda: rules.Run(
            (
                Bar("outer", "host", 0, 6, "cudaMemset"),
                Bar("inner", "host", 1, 5, "cuLaunchKernel", more={"level": 1}),
                kernel("A", 9, 15, by="inner"),
            )
        ),
        [("outer begins", "A begins", 9)],
    ),
    "stream: two streams": (lambda: bars(RULES["stream"].run, B={"track": "stream 9"}), []),
    "stream: one stream number in two processes": (
        lambda: bars(RULES["stream"].run, B={"more": OTHER}),
        [],
    ),
    "stream: they overlap": (lambda: bars(RULES["stream"].run, B={"start": 19}), []),
    "engine: the other direction": (
        lambda: bars(RULES["engine"].run, in_2={"what": "copy out"}),
        [],
    ),
    "engine: another device": (lambda: bars(RULES["engine"].run, in_2={"more": {"device": 1}}), []),
    "engine: they overlap": (lambda: bars(RULES["engine"].run, in_2={"start": 19}), []),
    "engine: one stream has its own order": (
        lambda: bars(RULES["engine"].run, in_2={"track": "stream 8"}),
        [],
    ),
    "engine: two processes number their devices alike": (
        lambda: bars(
            RULES["engine"].run,
            copy_2={"more": OTHER | {"thread": OTHER["process"] | 1}},
            in_2={"more": OTHER},
        ),
        [],
    ),
    "stream: behind the one that ends last": (
        lambda: bars(
            RULES["stream"].run,
            B={"start": 9, "end": 12},
            C={"track": "stream 7", "start": 20, "end": 30},
        ),
        [("B ends", "C begins", 0), ("A ends", "C begins", 0)],
    ),
    "barrier: no stream is the default": (
        lambda: tables(RULES["barrier"].run, streams=streams((7, 1), (8, 1), (9, 1))),
        [],
    ),
    "barrier: all others are non-blocking": (
        lambda: tables(RULES["barrier"].run, streams=streams((7, 3), (8, 2), (9, 2))),
        [],
    ),
    "barrier: another context": (
        lambda: bars(RULES["barrier"].run, N={"more": {"context": 2}}),
        [],
    ),
    "event: recorded after the wait": (
        lambda: bars(RULES["event"].run, record={"name": "record"}, wait={"start": 4, "end": 4.5}),
        [],
    ),
    "event: recorded again before the wait": (
        lambda: tables(
            replace(
                RULES["event"].run,
                bars=(
                    *RULES["event"].run.bars,
                    Bar("again", "host", 12.5, 13.5, "cudaEventRecord"),
                ),
            ),
            events=[
                {"by": "record", "event": 5, "stream": 8},
                {"by": "again", "event": 5, "stream": 10},
            ],
        ),
        [],
    ),
    "event: recorded in another context, whose streams have the same numbers": (
        lambda: replace(
            RULES["event"].run,
            bars=tuple(
                replace(b, more={"context": 2, "device": 1}) if b.name == "B" else b
                for b in RULES["event"].run.bars
            ),
            tables={
                **RULES["event"].run.tables,
                "syncs": [synced("wait", 2, event=5, stream=9, context=2)],
            },
        ),
        [("A ends", "B begins", 0)],
    ),
    "event: passed on by a stream without work of its own behind the wait": (
        lambda: rules.Run(
            (
                *JOINED,
                Bar("record 2", "host", 9, 10, "cudaEventRecord"),
                Bar("wait 2", "host", 11, 12, "cudaStreamWaitEvent"),
                launch("launch B", 13, 14),
                kernel("B", 21, 25, 10),
            ),
            {
                "events": [*JOIN["events"], {"by": "record 2", "event": 6, "stream": 9}],
                "syncs": [*JOIN["syncs"], synced("wait 2", 2, event=6, stream=10)],
            },
        ),
        [("X ends", "B begins", 0), ("A ends", "B begins", 0)],
    ),
    "event: another event": (
        lambda: tables(RULES["event"].run, events=[{"by": "record", "event": 6, "stream": 8}]),
        [],
    ),
    "event: issued before the wait": (
        lambda: bars(RULES["event"].run, launch_B={"start": 12.5, "end": 13.5}),
        [],
    ),
    "graph: the order of one launch": (
        lambda: replace(
            RULES["graph"].run, bars=RULES["graph"].run.bars[:1] + RULES["graph"].run.bars[2:5]
        ),
        [("a ends", "b begins", 0), ("b ends", "c begins", 0)],
    ),
    "graph: nodes of no graph": (
        lambda: bars(
            RULES["graph"].run, **{n: {"more": {}} for n in ("a", "b", "c", "a'", "b'", "c'")}
        ),
        [],
    ),
    "fault: pages moved while no kernel runs": (
        lambda: bars(RULES["fault"].run, A={"start": 30, "end": 37}),
        [],
    ),
    "fault: pages moved to another device": (
        lambda: bars(
            RULES["fault"].run, in_1={"more": {"device": 1}}, in_2={"more": {"device": 1}}
        ),
        [],
    ),
    "sync: work issued after the wait began": (
        lambda: bars(
            RULES["run"].run, launch_A={"track": "host 2", "start": 6.5, "end": 9}, A={"start": 10}
        ),
        [],
    ),
    "sync: another context": (lambda: bars(RULES["sync"].run, A={"more": {"context": 2}}), []),
    "sync: through a stream that was told to wait": (
        lambda: rules.Run(
            (*JOINED, Bar("sync", "host", 9, 22, "cudaStreamSynchronize")),
            JOIN | {"syncs": [*JOIN["syncs"], synced("sync", 3, stream=9)]},
        ),
        [("A ends", "sync ends", 2), ("X ends", "sync ends", 2)],
    ),
    "sync: an event": (
        lambda: synchronised("cudaEventSynchronize", {"sync_type": 1, "event": 5}, **RECORD),
        [("A ends", "sync ends", 2)],
    ),
    "sync: an event that was never recorded": (
        lambda: synchronised("cudaEventSynchronize", {"sync_type": 1, "event": 6}, **RECORD),
        [],
    ),
    "sync: an event, numbered as up to 2024.5": (
        lambda: synchronised("cudaEventSynchronize", {"sync_type": 2, "event": 5}, **RECORD),
        [("A ends", "sync ends", 2)],
    ),
    "sync: a context without a number, numbered as in 2022.1": (
        lambda: synchronised("cuCtxSynchronize", {"sync_type": 1, "context": 0}),
        BOTH,
    ),
    "sync: a stream, numbered as in 2025.1": (
        lambda: synchronised("cudaStreamSynchronize", {"sync_type": 2, "stream": 8}),
        [("A ends", "sync ends", 2)],
    ),
    "sync: a query does not wait": (
        lambda: synchronised("cudaEventQuery", {"sync_type": 1, "event": 5}, **RECORD),
        [],
    ),
    "sync: cudaFree of another device's memory": (
        lambda: tables(
            bars(
                RULES["sync"].run,
                A={"more": {"context": 2, "device": 1}},
                sync_stream_8={"what": "cudaFree"},
            ),
            syncs=[],
            allocations=[
                {
                    "by": "sync stream 8",
                    "time_ns": 1,
                    "operation": 1,
                    "context": 2,
                    "device": 1,
                    "memory": 3,
                }
            ],
        ),
        [("A ends", "sync stream 8 ends", 2)],
    ),
    "sync: work whose call was not recorded": (
        lambda: bars(RULES["run"].run, A={"by": ""}, sync={"start": 9}),
        [("A ends", "sync ends", 2)],
    ),
    "sync: launches that return after their own kernel": (
        lambda: rules.Run(
            (
                launch("launch A", 0, 12),
                launch("launch B", 13, 25),
                kernel("A", 3, 10),
                kernel("B", 16, 23),
                Bar("copy", "host", 26, 40, "cudaMemcpy"),
                Bar("out", "stream 7", 29, 38, "copy out", "copy"),
            )
        ),
        [
            ("A ends", "launch A ends", 2),
            ("B ends", "launch B ends", 2),
            ("out ends", "copy ends", 2),
        ],
    ),
    "sync: launches that return after their own kernel, and nothing else waits": (
        lambda: rules.Run(
            (
                launch("launch A", 0, 12),
                launch("launch B", 13, 25),
                kernel("A", 3, 10),
                kernel("B", 16, 23),
            )
        ),
        [("A ends", "launch A ends", 2), ("B ends", "launch B ends", 2)],
    ),
    "sync: an event of the legacy default stream stands for the blocking streams": (
        lambda: rules.Run(
            (
                launch("launch A", 0, 2),
                launch("launch B", 2, 3),
                Bar("record", "host", 3, 4, "cudaEventRecord"),
                Bar("wait", "host", 5, 22, "cudaEventSynchronize"),
                kernel("A", 5, 20, "stream 8"),
                kernel("B", 6, 18, "stream 9"),
            ),
            {
                "streams": streams((7, 3), (8, 1), (9, 2)),
                "events": [{"by": "record", "event": 5, "stream": 7}],
                "syncs": [{"by": "wait", "sync_type": 1, "event": 5}],
            },
        ),
        [("A ends", "wait ends", 2)],
    ),
    "sync: waiting for the legacy default stream is waiting for the blocking ones": (
        lambda: rules.Run(
            (
                launch("launch A", 0, 2),
                Bar("wait", "host", 5, 22, "cudaStreamSynchronize"),
                kernel("A", 5, 20, "stream 8"),
            ),
            {
                "streams": streams((7, 3), (8, 1), (9, 2)),
                "syncs": [{"by": "wait", "sync_type": 3, "stream": 7}],
            },
        ),
        [("A ends", "wait ends", 2)],
    ),
    "sync: a stream that only joins others": (
        lambda: rules.Run(
            (
                launch("launch A", 0, 2),
                Bar("record", "host", 3, 4, "cudaEventRecord"),
                Bar("join", "host", 5, 6, "cudaStreamWaitEvent"),
                Bar("wait", "host", 8, 22, "cudaStreamSynchronize"),
                kernel("A", 5, 20, "stream 8"),
            ),
            {
                "events": [{"by": "record", "event": 5, "stream": 8}],
                "syncs": [
                    {"by": "join", "sync_type": 2, "event": 5, "stream": 10},
                    {"by": "wait", "sync_type": 3, "stream": 10},
                ],
            },
        ),
        [("A ends", "wait ends", 2)],
    ),
    "sync: work ends after the wait": (lambda: bars(RULES["run"].run, A={"end": 30}), []),
    "sync: an asynchronous copy of pinned memory": (
        lambda: rules.Run(
            (
                Bar("copy", "host", 0, 20, "cudaMemcpyAsync"),
                Bar("out", "stream 7", 5, 18, "copy out", "copy"),
            )
        ),
        [],
    ),
    "sync: the same of pageable memory": (
        lambda: rules.Run(
            (
                Bar("copy", "host", 0, 20, "cudaMemcpyAsync"),
                Bar("out", "stream 7", 5, 18, "copy out, pageable", "copy"),
            )
        ),
        [("out ends", "copy ends", 2)],
    ),
    "sync: a blocking copy": (
        lambda: rules.Run(
            (
                Bar("copy", "host", 0, 20, "cudaMemcpy"),
                Bar("in", "stream 7", 5, 18, "copy in", "copy"),
            )
        ),
        [("in ends", "copy ends", 2)],
    ),
    "sync: a set does not wait": (
        lambda: rules.Run(
            (
                Bar("set call", "host", 0, 20, "cudaMemset"),
                Bar("set", "stream 7", 5, 18, "set", "set call"),
            )
        ),
        [],
    ),
    "sync: of two waits for one work the first": (
        lambda: rules.Run(
            (*RULES["run"].run.bars, Bar("again", "host", 25, 27, "cudaDeviceSynchronize"))
        ),
        [("A ends", "sync ends", 2)],
    ),
    "sync: cudaFree waits": (
        lambda: bars(RULES["run"].run, sync={"what": "cudaFree"}),
        [("A ends", "sync ends", 2)],
    ),
    "sync: cudaFreeAsync does not": (
        lambda: bars(RULES["run"].run, sync={"what": "cudaFreeAsync"}),
        [],
    ),
    "queue: launches that are all as slow": (lambda: bars(QUEUE, one_more={"end": 1542}), []),
    "queue: fewer launches than a queue holds": (
        lambda: rules.Run(
            (
                *(launch(f"L{i}", 3 * i, 3 * i + 2) for i in range(5)),
                launch("L", 15, 39),
                kernel("1", 5, 37, by="L0"),
            )
        ),
        [],
    ),
    "queue: no work ended just before the return": (
        lambda: bars(QUEUE, A={"end": 2900}, one_more={"end": 2950}),
        [],
    ),
    "meet: another tag": (
        lambda: bars(RULES["meet"].run, receive={"more": rules.message(1, 0) | {"tag": 1}}),
        [],
    ),
    "host: a receive around a copy is no longer than its own work": (
        lambda: rules.Run(
            (
                Bar("send", "rank 0", 30, 32, "MPI_Send", more=rules.message(0, 1)),
                Bar("receive", "rank 1", 2, 33, "MPI_Recv", more=rules.message(1, 0)),
                Bar("copy", "rank 1", 3, 5, "cudaMemcpyAsync"),
            ),
            WORLD,
        ),
        [("receive begins", "copy begins", 1), ("copy ends", "receive ends", 3)],
    ),
    "meet: one rank recorded": (
        lambda: replace(RULES["meet"].run, bars=RULES["meet"].run.bars[:4]),
        [],
    ),
    "meet: the send waits for nobody": (
        lambda: bars(RULES["meet"].run, receive={"start": 31}),
        [("send begins", "receive ends", 4)],
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_beside_the_rule(name: str) -> None:
    made, edges = BESIDE[name]
    run = made()
    comes_back(run)
    assert sorted(run.edges(name.partition(":")[0])) == sorted(edges)


#: Name -> (run, changes, what moves): where the edges alone do not tell.
MOVES: dict[
    str,
    tuple[Callable[[], Any], tuple[tuple[str, str, float], ...], dict[str, tuple[float, float]]],
] = {
    "the application's own work scales": (
        lambda: RULES["host"].run,
        (("", "host", 2),),
        {"launch": (23, 27)},
    ),
    "a device wait: the last stream is sooner": (
        lambda: RULES["sync-device"].run,
        (("A", "added", -10),),
        {"A": (7, 16), "sync device": (9, 24), "launch C": (27, 30)},
    ),
    "a device wait: another stream catches up": (
        lambda: RULES["sync-device"].run,
        (("B", "added", 4),),
        {"B": (11, 26)},
    ),
    "a delivery twice as long": (
        lambda: RULES["deliver"].run,
        (("launch B", "delivery_ratio", 2),),
        {"B": (54, 69), "C": (69, 77)},
    ),
    "a later return": (
        lambda: RULES["sync"].run,
        (("sync stream 8", "back", 3),),
        {"sync stream 8": (9, 31), "launch C": (34, 37)},
    ),
    "a wait that costs more": (
        lambda: RULES["sync"].run,
        (("sync stream 8", "added", 3),),
        {"sync stream 8": (9, 31), "launch C": (34, 37)},
    ),
    "a node behind a shorter one": (
        lambda: RULES["graph"].run,
        (("a", "added", -5),),
        {"a": (7, 9), "b": (9.5, 15), "c": (15.5, 19.5)},
    ),
    "a kernel's work between its faults": (
        lambda: RULES["fault"].run,
        (("A", "ratio", 0.5),),
        {"A": (7, 26.5), "in 1": (10, 14), "in 2": (17.5, 22.5)},
    ),
    "calls of one thread that overlap": (
        lambda: rules.Run(
            (
                Bar("x", "host", 0, 10, "cudaMalloc"),
                Bar("y", "host", 8, 15, "cudaGetDevice"),
                launch("z", 17, 18),
            )
        ),
        (("y", "added", 5),),
        {"y": (8, 20), "z": (22, 23)},
    ),
    "a call of no length that waits for work of no length": (
        lambda: rules.Run(
            (
                Bar("sync", "host", 1, 6, "cudaDeviceSynchronize"),
                Bar("A", "stream 7", 6, 6, "kernel", "sync"),
            )
        ),
        (),
        {},
    ),
    "a page of no length as its kernel begins": (
        lambda: rules.Run((kernel("A", 5, 6, by=""), Bar("in", "stream 7", 5, 5, "page in"))),
        (),
        {},
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_what_moves(name: str) -> None:
    made, changes, moved = MOVES[name]
    run = made()
    comes_back(run)
    assert changed(run, *changes) == moved


# --- kernels launched to overlap the one before them ----------------------------------------------

WITHIN = RULES["stream-within"].run


def test_a_kernel_that_runs_longer_keeps_the_overlap_in_proportion() -> None:
    moved = changed(WITHIN, ("A", "ratio", 2.0))
    assert moved == {"A": (7, 33), "B": (27, 36), "C": (36, 42)}


@pytest.mark.parametrize(
    "beside",
    [
        lambda: bars(WITHIN, launch_B={"what": "cudaLaunchKernel"}),
        lambda: bars(WITHIN, A={"end": 28}, B={"end": 29}, C={"start": 29}),
        lambda: bars(WITHIN, B={"end": 19}),
    ],
    ids=["a plain launch", "more than a prologue", "it ends first"],
)
def test_other_overlaps_of_a_stream_stay_a_fault(beside: Callable[[], Any]) -> None:
    run = beside()
    comes_back(run)
    assert ("A begins", "B begins", 10) not in run.edges("stream")
    assert run.graph.overlapping == 1 and WITHIN.graph.overlapping == 0


def test_every_way_to_launch_with_attributes_counts() -> None:
    for name in (
        "cudaLaunchKernelExC",
        "cudaLaunchKernelExC_v11060",
        "cuLaunchKernelEx",
        "cuLaunchKernelEx_ptsz",
    ):
        assert ("A begins", "B begins", 10) in bars(WITHIN, launch_B={"what": name}).edges("stream")


# --- loops of queries -----------------------------------------------------------------------------

QUERIES = RULES["sync-queries"].run


def results(*values: int | None) -> Any:
    """The run of queries with other results."""
    return bars(QUERIES, **{f"queries/{i}": {"more": {"result": v}} for i, v in enumerate(values)})


def test_queries_without_results_are_a_loop_from_three_on() -> None:
    run = results(*[None] * 8)
    comes_back(run)
    assert run.edges("sync") == QUERIES.edges("sync")
    two = replace(
        run, bars=tuple(b for b in run.bars if b.name not in [f"queries/{i}" for i in range(6)])
    )
    comes_back(two)
    assert not two.edges("sync")


def test_work_that_takes_less_ends_the_loop_sooner() -> None:
    moved = changed(QUERIES, ("A", "ratio", 0.5))
    assert moved["queries/0"] == (5, 19) and moved["launch B"] == (22, 25)


@pytest.mark.parametrize(
    "beside",
    [
        lambda: results(*[0] * 8),
        lambda: results(*[600] * 8),
        lambda: bars(QUERIES, A={"end": 10}),
        lambda: bars(
            QUERIES,
            **{
                f"queries/{i}": {"what": "cudaStreamQuery" if i % 2 else "cudaGetDevice"}
                for i in range(8)
            },
        ),
        lambda: bars(
            QUERIES,
            **{f"queries/{i}": {"start": 5 + 60 * i, "end": 6 + 60 * i} for i in range(8)},
            launch_B={"start": 500, "end": 502},
            B={"start": 505, "end": 507},
        ),
    ],
    ids=[
        "each succeeds",
        "none succeeds",
        "the work was over before",
        "other calls between",
        "sleeps between",
    ],
)
def test_other_queries_are_no_wait(beside: Callable[[], Any]) -> None:
    run = beside()
    comes_back(run)
    assert not run.edges("sync")


def test_a_success_ends_a_loop() -> None:
    """Two loops, one behind the other, each for its own kernel."""
    second = [
        Bar(
            f"more/{i}",
            "host",
            36 + 3 * i,
            38 + 3 * i,
            "cudaStreamQuery",
            more={"result": 600 if i < 3 else 0},
        )
        for i in range(4)
    ]
    run = replace(QUERIES, bars=(*QUERIES.bars, *second))
    comes_back(run)
    assert run.edges("sync") == [("A ends", "queries/0 ends", 3), ("B ends", "more/0 ends", 4)]
