"""The rules of the timeline as pictures: one tiny run a rule, its edges as the program finds them,
and what moves when one thing changes.

    python docs/rules.py            # draw docs/img/rules/*.svg
    python docs/rules.py --check    # 1 if a picture is not current

Nothing in a picture is drawn by hand: runs become recordings,
`turnbuckle.profile.dependencies.dependencies` finds the edges and `turnbuckle.replay.timeline`
replays the change.  ``tests/profile/test_dependencies.py`` tests the same runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from turnbuckle.profile.dependencies.dependencies import dependencies
from turnbuckle.profile.dependencies.graph import EDGES, Graph
from turnbuckle.profile.pieces import Pieces, grouped
from turnbuckle.profile.profile import Profile, build
from turnbuckle.replay.timeline import TimelineReplay, no_change
from turnbuckle.trace.trace import Trace, dtypes

#: When each activity begins and ends [us].
Times = Mapping[str, tuple[float, float]]
FOLDER = Path(__file__).resolve().parent / "img" / "rules"

# --- tiny runs ------------------------------------------------------------------------------------

#: Device work by word: table of the trace, and columns.  Directions and memories as in
#: ``schema/codes.csv``.
WORKS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "kernel": ("kernels", {"name": "kernel"}),
    "copy in": (
        "copies",
        {"direction": 1, "source_memory": 2, "target_memory": 3, "size_bytes": 65_536},
    ),
    "copy out": (
        "copies",
        {"direction": 2, "source_memory": 3, "target_memory": 2, "size_bytes": 65_536},
    ),
    "copy out, pageable": (
        "copies",
        {"direction": 2, "source_memory": 3, "target_memory": 1, "size_bytes": 65_536},
    ),
    "page in": (
        "copies",
        {"direction": 6, "source_memory": 5, "target_memory": 5, "size_bytes": 4096, "cause": 2},
    ),
    "set": ("memsets", {"memory": 3, "size_bytes": 4096}),
}
_PROCESS = 1000 << 24


@dataclass(frozen=True)
class Bar:
    """One activity of a run.

    Attributes
    ----------
    name : what the picture calls it; unique in its run.  Bars named ``word/1``, ``word/2`` are
        drawn as one.
    track : the row it stands in: ``host``, ``host 2``, ``rank 1``, ``stream 7``, ``pages``.
    start, end : when [us].
    what : a word of `WORKS`, or the name of a host call.
    by : name of the call that started it.
    more : further columns of its record.
    """

    name: str
    track: str
    start: float
    end: float
    what: str = "kernel"
    by: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def table(self) -> str:
        """The table of the trace it is recorded in."""
        return (
            WORKS[self.what][0]
            if self.what in WORKS
            else "mpi"
            if self.what.startswith("MPI_")
            else "api"
        )


@dataclass(frozen=True)
class Run:
    """A run of a few activities; `tables` holds records that are no activities (syncs, events,
    streams, ranks).
    """

    bars: tuple[Bar, ...]
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def correlation(self, name: str) -> int:
        """Number that joins a call to what it started; 0 for no call."""
        return next((i for i, b in enumerate(self.bars, 1) if b.name == name), 0)

    def _of_call(self, name: str) -> dict[str, int]:
        """What a record of another table says of the call it belongs to."""
        found = {"correlation": self.correlation(name)}
        return found | next(
            ({"start_ns": _ns(b.start), "end_ns": _ns(b.end)} for b in self.bars if b.name == name),
            {},
        )

    @cached_property
    def trace(self) -> Trace:
        """The run as a recording."""
        names: dict[str, int] = {}
        rows: dict[str, list[dict[str, Any]]] = {}
        for bar in self.bars:
            row = {
                "start_ns": _ns(bar.start),
                "end_ns": _ns(bar.end),
                **_columns(bar, self),
                **bar.more,
            }
            if isinstance(row.get("name"), str):
                row["name"] = names.setdefault(row["name"], len(names))
            rows.setdefault(bar.table, []).append(row)
        for table, more in self.tables.items():
            rows[table] = [
                {"process": _PROCESS, "context": 1, **self._of_call(r.get("by", "")), **r}
                for r in more
            ]
        tables = {name: _frame(name, r) for name, r in rows.items()}
        return Trace(
            tables, pl.Series("name", list(names), dtype=pl.String), {"format": "toy"}, [], "rule"
        )

    @cached_property
    def profile(self) -> Profile:
        """The recording as a profile."""
        return build(self.trace)

    @cached_property
    def graph(self) -> Graph:
        """The profile's instants and edges."""
        return dependencies(self.profile)

    @cached_property
    def replay(self) -> TimelineReplay:
        """The graph with a piece of its own for every activity, so that one can change alone."""
        run, piece = grouped(self.profile)
        alone = Pieces(**{f.name: getattr(run, f.name)[piece] for f in fields(Pieces)})
        return TimelineReplay.compiled(self.graph, alone, np.arange(len(piece)))

    @cached_property
    def names(self) -> list[str]:
        """Name of every activity of the graph."""
        order = {
            t: sorted((b for b in self.bars if b.table == t), key=lambda b: b.start)
            for t in {b.table for b in self.bars}
        }
        rows = self.profile.activities[self.graph.activity].select(
            pl.col("category", "kind").cast(pl.String), "row"
        )
        table = {"kernel": "kernels", "memset": "memsets", "mpi": "mpi"}
        return [
            order["api" if c == "api" else table.get(k, "copies")][r].name
            for c, k, r in rows.iter_rows()
        ]

    def instant(self, number: int) -> str:
        """An instant in words: ``A begins``, ``A ends``, ``start``."""
        return (
            "start"
            if number == 0
            else f"{self.names[(number - 1) // 2]} {'begins' if number % 2 else 'ends'}"
        )

    def edges(self, *kinds: str) -> list[tuple[str, str, float]]:
        """Edges of some kinds: from, to, lag [us]; in the order of their times."""
        g = self.graph
        chosen = [e for e, k in enumerate(g.kind.tolist()) if EDGES[k] in kinds]
        chosen.sort(key=lambda e: (g.time_ns[g.target[e]], g.time_ns[g.source[e]], g.target[e]))
        return [
            (self.instant(int(g.source[e])), self.instant(int(g.target[e])), int(g.lag_ns[e]) / 1e3)
            for e in chosen
        ]

    def changed(self, changes: Sequence[tuple[str, str, float]]) -> Times:
        """When each activity begins and ends after changes [us].

        Parameters
        ----------
        changes : (name, what, how much): ``added``, ``delivery`` and ``back`` in us of one
            activity, ``ratio`` of its duration and ``delivery_ratio`` of its delivery, ``host`` the
            ratio of the application's own work (of no name).
        """
        count = self.profile.activities.height
        change = replace(no_change(count), delivery_ratio=np.ones(count))
        row = {n: int(a) for n, a in zip(self.names, self.graph.activity, strict=True)}
        for name, what, amount in changes:
            if what == "host":
                change = replace(change, host=np.array([amount]))
                continue
            values = getattr(change, what).copy()
            values[row[name]] = amount if what.endswith("ratio") else amount * 1e-6
            change = replace(change, **{what: values})
        instants = np.round(self.replay.path(change)[0] * 1e6, 6) + min(b.start for b in self.bars)
        return {
            n: (float(instants[2 * i + 1]), float(instants[2 * i + 2]))
            for i, n in enumerate(self.names)
        }


def _ns(time: float) -> int:
    """A time of a run on the recording's clock."""
    return round((time + 100) * 1_000)


def _columns(bar: Bar, run: Run) -> dict[str, Any]:
    """Usual columns of a record, by its track."""
    number = int(bar.track.rpartition(" ")[2]) if bar.track[-1].isdigit() else 0
    if bar.table in ("api", "mpi"):
        process = (1000 + number) << 24 if bar.track.startswith("rank") else _PROCESS
        thread = process | 1 if bar.track.startswith("rank") else process | max(number, 1)
        mine = {"name": bar.what, "thread": thread}
        more = {
            "process": process,
            "correlation": run.correlation(bar.name),
            "result": 0,
            "level": 0,
        }
        return mine if bar.table == "mpi" else mine | more
    place: dict[str, Any] = {"process": _PROCESS, "device": 0, "context": 1, "stream": number}
    if bar.track == "pages":
        place |= {"context": None, "stream": None}
    return {**WORKS[bar.what][1], **place, "correlation": run.correlation(bar.by) or None}


def _frame(name: str, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    types = dtypes(name)
    frame = pl.DataFrame({c: [row.get(c) for row in rows] for c in types}, schema=types)
    order = next((c for c in ("start_ns", "time_ns") if c in types), None)
    return frame.sort(order, maintain_order=True) if order else frame


# --- one run a rule -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """One rule, the run that shows it, and what is changed in it.

    Attributes
    ----------
    name : of the picture.
    kind : the edges it shows, a word of `EDGES`.
    title : the rule in a line.
    changes, change : what is changed, as `Run.changed` takes it, and in words.
    labels : what a track is called where its name does not say it.
    tracks : from top to bottom; in the order of the run's bars if left out.
    """

    name: str
    kind: str
    title: str
    run: Run
    changes: tuple[tuple[str, str, float], ...]
    change: str
    labels: Mapping[str, str] = field(default_factory=dict)
    tracks: tuple[str, ...] = ()


def launch(name: str, start: float, end: float, track: str = "host") -> Bar:
    """A call that launches a kernel."""
    return Bar(name, track, start, end, "cudaLaunchKernel")


def kernel(name: str, start: float, end: float, stream: int = 7, by: str | None = None) -> Bar:
    """A kernel, started by ``launch NAME`` unless said otherwise."""
    return Bar(
        name, f"stream {stream}", start, end, "kernel", f"launch {name}" if by is None else by
    )


def node(name: str, number: int, start: float, end: float, stream: int, by: str) -> Bar:
    """A kernel that is a node of a CUDA graph."""
    return Bar(name, f"stream {stream}", start, end, "kernel", by, {"graph_node": number})


def ranks(count: int) -> dict[str, list[dict[str, Any]]]:
    """The tables that say which process is which rank, and their world; handles are local to a
    process.
    """
    made = [
        {
            "rank": r,
            "time_ns": 1,
            "communicator": 7 + r,
            "parent": 0,
            "local_rank": r,
            "size": count,
        }
        for r in range(count)
    ]
    return {
        "mpi_ranks": [{"thread": (1000 + r) << 24 | 1, "rank": r} for r in range(count)],
        "mpi_communicators": made,
    }


def message(rank: int, to: int) -> dict[str, Any]:
    """Columns of an MPI call between two ranks of `ranks`."""
    return {"kind": 0, "partner": to, "tag": 0, "communicator": 7 + rank, "size_bytes": 8}


def synced(by: str, kind: int, **more: Any) -> dict[str, Any]:
    """A row of the table ``syncs``: 1 event, 2 stream waits for event, 3 stream, 4 context."""
    return {"by": by, "sync_type": kind, **more}


_HOST = Run(
    (
        Bar("malloc", "host", 0, 5, "cudaMalloc"),
        launch("launch", 14, 18),
        Bar("malloc 2", "host 2", 9, 15, "cudaMalloc"),
    )
)
_HANDED = Run(
    tuple(
        Bar(
            f"{'AB'[i % 2]} {i // 2 + 1}",
            ("host", "host 2")[i % 2],
            21 * i,
            21 * i + 20,
            "cudaMallocHost",
        )
        for i in range(7)
    )
)
_CALL = Run(
    (
        launch("launch A", 0, 4),
        Bar("sync", "host", 7, 32, "cudaDeviceSynchronize"),
        kernel("A", 7, 30),
    )
)
_DELIVER = Run(
    (
        launch("launch A", 0, 30),
        launch("launch B", 40, 44),
        launch("launch C", 48, 52),
        launch("launch D", 60, 64),
        kernel("A", 33, 38),
        kernel("B", 47, 62),
        kernel("C", 62, 70),
        kernel("D", 67, 73, 8),
    )
)
_STREAM = Run(
    (
        launch("launch A", 0, 4),
        launch("launch B", 6, 10),
        launch("launch C", 12, 16),
        kernel("A", 7, 20),
        kernel("B", 20, 28),
        kernel("C", 19, 29, 8),
    )
)
_STREAM_WITHIN = Run(
    (
        launch("launch A", 0, 4),
        Bar("launch B", "host", 6, 10, "cudaLaunchKernelExC"),
        launch("launch C", 12, 16),
        kernel("A", 7, 20),
        kernel("B", 17, 26),
        kernel("C", 26, 32),
    )
)
_ENGINE = Run(
    (
        Bar("copy 1", "host", 0, 4, "cudaMemcpyAsync"),
        Bar("copy 2", "host", 6, 10, "cudaMemcpyAsync"),
        Bar("copy 3", "host", 12, 16, "cudaMemcpyAsync"),
        Bar("in 1", "stream 8", 7, 20, "copy in", "copy 1"),
        Bar("in 2", "stream 9", 20.5, 30, "copy in", "copy 2"),
        Bar("out", "stream 10", 19, 29, "copy out", "copy 3"),
    )
)
_FULL = {"blocks": 108 * 64, "threads": 256}
_ENGINE_KERNELS = Run(
    (
        launch("launch A", 0, 2),
        launch("launch B", 3, 5),
        launch("launch C", 6, 8),
        launch("launch D", 9, 11),
        *(
            replace(k, more=_FULL)
            for k in (kernel("A", 7, 15, 8), kernel("B", 15.5, 23.5, 9), kernel("C", 24, 32, 8))
        ),
        kernel("D", 16, 20, 10),
    ),
    {"devices": [{"device": 0, "multiprocessors": 108}]},
)
_RUN = Run(
    (
        launch("launch A", 0, 4),
        Bar("sync", "host", 6, 24, "cudaDeviceSynchronize"),
        kernel("A", 7, 22),
    )
)
_BARRIER = Run(
    (
        launch("launch X", 0, 3),
        launch("launch Z", 4, 7),
        launch("launch N", 8, 11),
        launch("launch Y", 12, 15),
        kernel("X", 7, 18, 8),
        kernel("N", 18.5, 24, 7),
        kernel("Y", 24.5, 31, 8),
        kernel("Z", 11, 29, 9),
    ),
    {"streams": [{"stream": 7, "kind": 3}, {"stream": 8, "kind": 1}, {"stream": 9, "kind": 2}]},
)
_EVENT = Run(
    (
        launch("launch A", 0, 3),
        Bar("record", "host", 5, 8, "cudaEventRecord"),
        launch("launch C", 9, 12),
        Bar("wait", "host", 14, 17, "cudaStreamWaitEvent"),
        launch("launch B", 19, 22),
        kernel("A", 7, 27, 8),
        kernel("C", 27, 34, 8),
        kernel("B", 27.5, 33, 9),
    ),
    {
        "events": [{"by": "record", "event": 5, "stream": 8}],
        "syncs": [synced("wait", 2, event=5, stream=9)],
    },
)
_EVENT_ORDER = Run(
    (
        launch("launch A", 0, 3),
        Bar("wait", "host", 4, 6, "cudaStreamWaitEvent"),
        launch("launch B", 7, 10),
        launch("launch C", 11, 14),
        kernel("A", 7, 22, 8),
        kernel("C", 22, 29, 8),
        kernel("B", 22.5, 28, 9),
        launch("launch D", 30, 33),
        Bar("wait 2", "host", 34, 36, "cudaStreamWaitEvent"),
        launch("launch E", 37, 40),
        kernel("D", 37, 52, 8),
        kernel("E", 52.5, 58, 9),
    )
)
_EVENT_PASSED = Run(
    (
        launch("launch A", 0, 2),
        Bar("record", "host", 2.5, 3.5, "cudaEventRecord"),
        Bar("wait", "host", 4, 5, "cudaStreamWaitEvent"),
        Bar("record 2", "host", 5.5, 6.5, "cudaEventRecord"),
        launch("launch B", 7, 9),
        Bar("wait 2", "host", 9.5, 10.5, "cudaStreamWaitEvent"),
        launch("launch C", 11, 13),
        kernel("A", 4, 20, 8),
        kernel("B", 11, 16, 10),
        kernel("C", 20.5, 25, 9),
        launch("launch D", 28, 30),
        Bar("record 3", "host", 30.5, 31.5, "cudaEventRecord"),
        Bar("wait 3", "host", 32, 33, "cudaStreamWaitEvent"),
        Bar("record 4", "host", 33.5, 34.5, "cudaEventRecord"),
        launch("launch E", 35, 37),
        Bar("wait 4", "host", 37.5, 38.5, "cudaStreamWaitEvent"),
        launch("launch F", 39, 41),
        kernel("D", 32, 48, 8),
        kernel("E", 39, 44, 10),
        kernel("F", 48.5, 53, 9),
    )
)
_GRAPH = Run(
    (
        Bar("graph", "host", 0, 4, "cudaGraphLaunch"),
        Bar("graph again", "host", 28, 32, "cudaGraphLaunch"),
        node("a", 1, 7, 14, 21, "graph"),
        node("b", 2, 14.5, 20, 20, "graph"),
        node("c", 3, 20.5, 24.5, 22, "graph"),
        node("a'", 1, 35, 42, 21, "graph again"),
        node("b'", 2, 42.5, 48, 20, "graph again"),
        node("c'", 3, 44, 48, 22, "graph again"),
    )
)
_FAULT = Run(
    (
        launch("launch A", 0, 4),
        kernel("A", 7, 37),
        Bar("in 1", "pages", 13, 17, "page in"),
        Bar("in 2", "pages", 24, 29, "page in"),
    )
)
_SYNC = Run(
    (
        launch("launch A", 0, 3),
        launch("launch B", 4, 7),
        Bar("sync stream 8", "host", 9, 28, "cudaStreamSynchronize"),
        launch("launch C", 31, 34),
        kernel("A", 7, 26, 8),
        kernel("B", 11, 22, 9),
    ),
    {"syncs": [synced("sync stream 8", 3, stream=8)]},
)
_SYNC_ALL = Run(
    (
        *(
            replace(b, name="sync device", what="cudaDeviceSynchronize")
            if b.name == "sync stream 8"
            else b
            for b in _SYNC.bars
        ),
    ),
    {"syncs": [synced("sync device", 4)]},
)
_SYNC_QUERIES = Run(
    (
        launch("launch A", 0, 3),
        *(
            Bar(
                f"queries/{i}",
                "host",
                5 + 3 * i,
                7 + 3 * i,
                "cudaStreamQuery",
                more={"result": 600 if i < 7 else 0},
            )
            for i in range(8)
        ),
        launch("launch B", 31, 34),
        kernel("A", 7, 25),
        kernel("B", 38, 43),
    )
)
_QUEUE = Run(
    (
        *(launch(f"513 launches/{i}", 3 * i, 3 * i + 2) for i in range(513)),
        launch("one more", 1540, 3003),
        kernel("A", 7, 3000, by="513 launches/0"),
        *(
            kernel(
                f"513 kernels/{i}",
                2999 + i,
                3000 + i,
                by=f"513 launches/{i}" if i < 513 else "one more",
            )
            for i in range(1, 514)
        ),
    )
)
_MEET = Run(
    (
        launch("launch A", 0, 3, "rank 0"),
        Bar("sync", "rank 0", 5, 26, "cudaDeviceSynchronize"),
        Bar("send", "rank 0", 29, 33, "MPI_Send", more=message(0, 1)),
        kernel("A", 7, 24),
        Bar("receive", "rank 1", 6, 35, "MPI_Recv", more=message(1, 0)),
    ),
    ranks(2),
)
_ORIGIN = Run(
    (
        Bar("malloc", "host", 0, 6, "cudaMalloc"),
        launch("launch A", 8, 12),
        Bar("malloc 2", "host 2", 14, 20, "cudaMalloc"),
        kernel("A", 15, 26),
        kernel("X", 10, 22, 9, by=""),
    )
)

#: In the order of the rules' table.
RULES: tuple[Rule, ...] = (
    Rule(
        "host",
        "host",
        "A thread's calls follow each other; between them is the application's own work",
        _HOST,
        (("malloc", "added", 6),),
        "malloc takes 6 µs longer",
        {"host": "thread 1", "host 2": "thread 2"},
    ),
    Rule(
        "host-handed",
        "host",
        "A thread that is handed over to begins just after the other returns",
        _HANDED,
        (("A 1", "added", 10),),
        "A 1 takes 10 µs longer",
    ),
    Rule(
        "call",
        "call",
        "A call takes its own time; of a call that waits, only what is left after the wait",
        _CALL,
        (("launch A", "added", 5),),
        "launch A takes 5 µs longer: sync begins later, and waits less",
    ),
    Rule(
        "deliver",
        "deliver",
        (
            "Work begins one delivery after its call began, or after a call that had to prepare "
            "it ended"
        ),
        _DELIVER,
        (("launch C", "delivery", 4), ("launch D", "delivery", 4)),
        "C and D are delivered 4 µs later: C's hides behind B",
        {},
        ("host", "stream 8", "stream 7"),
    ),
    Rule(
        "stream",
        "stream",
        "Work on one stream keeps its order",
        _STREAM,
        (("A", "added", 6),),
        "A takes 6 µs longer",
    ),
    Rule(
        "stream-within",
        "stream",
        "A kernel launched to overlap the one before it begins as far into it",
        _STREAM_WITHIN,
        (("A", "added", 6),),
        "A takes 6 µs longer: B still begins 3 µs before it ends",
    ),
    Rule(
        "engine",
        "engine",
        "Copies of one direction share the device's copy engine",
        _ENGINE,
        (("in 1", "added", 6),),
        "in 1 takes 6 µs longer",
    ),
    Rule(
        "engine-kernels",
        "engine",
        "Kernels that each fill the device take turns, whatever their streams",
        _ENGINE_KERNELS,
        (("A", "added", 6),),
        "A takes 6 µs longer; D is small and runs beside them",
        {},
        ("host", "stream 8", "stream 9", "stream 10"),
    ),
    Rule(
        "run",
        "run",
        "Device work takes what it takes",
        _RUN,
        (("A", "ratio", 1.4),),
        "A runs 1.4 times as long",
    ),
    Rule(
        "barrier",
        "barrier",
        "The legacy default stream waits for blocking streams, and they for it",
        _BARRIER,
        (("X", "added", 6),),
        "X takes 6 µs longer",
        {"stream 7": "default", "stream 8": "blocking", "stream 9": "non-blocking"},
        ("host", "stream 9", "stream 8", "stream 7"),
    ),
    Rule(
        "event",
        "event",
        "Work behind a wait for an event waits for what was issued before its record",
        _EVENT,
        (("A", "added", 6),),
        "A takes 6 µs longer",
    ),
    Rule(
        "event-order",
        "event",
        "Without a table of events, the calls around a wait and the device's times tell",
        _EVENT_ORDER,
        (("A", "added", 4),),
        "A takes 4 µs longer",
    ),
    Rule(
        "event-passed",
        "event",
        (
            "A stream without work passes a wait on: a record right behind a wait, and a wait "
            "behind the next launch"
        ),
        _EVENT_PASSED,
        (("A", "added", 4),),
        "A takes 4 µs longer: C waits for it, by a stream that has no work, and B does not",
        {},
        ("host", "stream 8", "stream 10", "stream 9"),
    ),
    Rule(
        "graph",
        "graph",
        "A node of a CUDA graph waits for the nodes it followed in every launch",
        _GRAPH,
        (("a", "added", 5),),
        "a takes 5 µs longer in the first launch",
        {},
        ("host", "stream 20", "stream 21", "stream 22"),
    ),
    Rule(
        "fault",
        "fault",
        "A kernel stands still while pages it touched are moved in",
        _FAULT,
        (("in 1", "added", 3), ("in 2", "added", 3)),
        "each move takes 3 µs longer",
    ),
    Rule(
        "sync",
        "sync",
        "A call that waits returns one return after the work it waits for",
        _SYNC,
        (("A", "added", 6),),
        "A takes 6 µs longer",
    ),
    Rule(
        "sync-device",
        "sync",
        "A wait for several streams returns after the last of them",
        _SYNC_ALL,
        (("B", "added", 8),),
        "B takes 8 µs longer, and is now the last",
        {},
        ("stream 9", "host", "stream 8"),
    ),
    Rule(
        "sync-queries",
        "sync",
        "A loop of queries ends when the work does",
        _SYNC_QUERIES,
        (("A", "ratio", 1.5),),
        "A runs 1.5 times as long: there are more queries",
    ),
    Rule(
        "queue",
        "queue",
        "A launch that finds the queue full waits for room",
        _QUEUE,
        (("A", "added", -800),),
        "A takes 800 µs less",
    ),
    Rule(
        "meet",
        "meet",
        "A receive ends after its send has begun; collectives likewise",
        _MEET,
        (("A", "added", 6),),
        "A takes 6 µs longer on rank 0",
        {"stream 7": "device of 0"},
        ("stream 7", "rank 0", "rank 1"),
    ),
    Rule(
        "origin",
        "origin",
        "What no rule explains begins when it began",
        _ORIGIN,
        (("malloc", "added", 6),),
        "malloc takes 6 µs longer",
        {"host": "thread 1", "host 2": "thread 2"},
    ),
)


# --- drawing --------------------------------------------------------------------------------------

WIDTH, LEFT, RIGHT = 640, 92, 14
_ROW, _BAR, _HEAD = 46, 20, 26
_GLYPH = 5.9
#: An edge this much earlier than its target [us] is not what the target waits for; less is a
#: recording's usual jitter.
_LOOSE = 0.75
STYLE = """
svg { font: 11px system-ui, 'Segoe UI', Helvetica, Arial, sans-serif; --card: #ffffff; --line: #d7dce1; --ink: #1f2933; --dim: #66727f;
      --host: #c3ccd6; --kernel: #9fd3c7; --copy: #f3d492; --page: #d5bdf0; --mpi: #f2b8c0; --edge: #c2185b; --new: #f57c00; }
@media (prefers-color-scheme: dark) {
  svg { --card: #1e2129; --line: #3a414d; --ink: #e6e9ee; --dim: #9aa5b1; --host: #566374; --kernel: #2d7a6c; --copy: #8a6a1e;
        --page: #6a4a93; --mpi: #8c3f4c; --edge: #ff6fa5; --new: #ffa040; } }
text { fill: var(--ink); } .title { font-size: 13px; font-weight: 600; } .head { font-weight: 600; } .dim { fill: var(--dim); }
.key { text-anchor: end; fill: var(--dim); } .kind { fill: var(--edge); font-weight: 700; }
.in { text-anchor: middle; } .track { text-anchor: end; fill: var(--dim); } .grid { stroke: var(--line); }
.bar { stroke: var(--ink); stroke-opacity: .35; } .host { fill: var(--host); } .kernel { fill: var(--kernel); } .copy { fill: var(--copy); }
.page { fill: var(--page); } .mpi { fill: var(--mpi); } .hatch { fill: url(#hatch); } .new { fill: var(--new); }
.ghost { fill: none; stroke: var(--dim); stroke-dasharray: 2 2; }
.edge { fill: none; stroke: var(--edge); stroke-width: 2; } .loose { stroke-dasharray: 4 3; } .tip { fill: var(--edge); }
.lag { fill: var(--edge); font-weight: 700; text-anchor: middle; paint-order: stroke; stroke: var(--card); stroke-width: 3px; }
"""


@dataclass(frozen=True)
class Plot:
    """Where times and tracks are on the page.

    Attributes
    ----------
    until : last time shown [us]; times begin at 0.
    tracks : names of rows, top to bottom.
    top : of the panel.
    """

    until: float
    tracks: tuple[str, ...]
    top: float

    def x(self, time: float) -> float:
        """Where a time is."""
        return LEFT + (WIDTH - LEFT - RIGHT) * time / self.until

    def y(self, track: str) -> float:
        """Top of a track's bars."""
        return self.top + _HEAD + 12 + _ROW * self.tracks.index(track)

    @property
    def bottom(self) -> float:
        """Where the last track ends."""
        return self.top + _HEAD + _ROW * len(self.tracks)


def drawn(rule: Rule) -> str:
    """One rule as an SVG document."""
    run, moved = rule.run, rule.run.changed(rule.changes)
    tracks = rule.tracks or tuple(dict.fromkeys(b.track for b in run.bars))
    until = max(*(b.end for b in run.bars), *(end for _, end in moved.values())) * 1.02
    first = Plot(until, tracks, 26)
    second = Plot(until, tracks, first.bottom + 20)
    was = _with_rows(run, {b.name: (b.start, b.end) for b in run.bars})
    moved = _with_rows(run, moved)
    lines = [
        *_text(12, 18, rule.title, "title"),
        *_panel(rule, first, "recorded", was, was),
        f'<text class="key" x="{WIDTH - RIGHT}" y="{_n(first.top + 16)}">arrows: <tspan '
        f'class="kind">{rule.kind}</tspan>, lag in µs; '
        "dashed: something else is later</text>",
        *_panel(rule, second, rule.change, moved, was),
        *_axis(second),
        *_text(LEFT, second.bottom + 46, _what_moved(rule, was, moved), "dim"),
    ]
    height = round(second.bottom + 58)
    label = escape(f"{rule.title}. Then: {rule.change}. {_what_moved(rule, was, moved)}")
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
                f'width="{WIDTH}" height="{height}" role="img">'
            ),
            f"<title>{label}</title>",
            f"<style>{STYLE}</style>",
            '<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" '
            'patternTransform="rotate(45)">'
            '<rect width="1.6" height="5" style="fill: var(--ink); fill-opacity: '
            '.55"/></pattern></defs>',
            f'<rect width="{WIDTH}" height="{height}" rx="6" style="fill: var(--card)"/>',
            *lines,
            "</svg>\n",
        ]
    )


def _shown(run: Run, times: Times) -> list[Bar]:
    """The bars of a picture: rows of small ones (``word/1``, ``word/2``) as one, with their
    `times`.
    """
    first = {b.name.partition("/")[0]: b for b in reversed(run.bars)}
    return [
        replace(first[n], name=n, start=times[n][0], end=times[n][1])
        for n in dict.fromkeys(b.name.partition("/")[0] for b in run.bars)
    ]


def _with_rows(run: Run, times: Times) -> Times:
    """Times of all bars, and of every row of small ones from its first begin to its last end."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for bar in run.bars:
        if bar.name in times:  # but the first of a loop of queries stands for all
            rows.setdefault(bar.name.partition("/")[0], []).append(times[bar.name])
    return {**times, **{n: (min(s for s, _ in r), max(e for _, e in r)) for n, r in rows.items()}}


def _panel(rule: Rule, plot: Plot, head: str, now: Times, was: Times) -> Iterator[str]:
    """Tracks, bars where they are `now` (with a ghost where they were), and the rule's edges."""
    yield from _text(LEFT, plot.top + 16, head, "head")
    for track in plot.tracks:
        yield from _text(LEFT - 10, plot.y(track) + 14, rule.labels.get(track, track), "track")
        yield f'<path class="grid" d="M{LEFT} {_n(plot.y(track) + _BAR)}H{WIDTH - RIGHT}"/>'
    for bar in _shown(rule.run, now):
        if now[bar.name] != was[bar.name]:
            yield _rect(plot, "ghost", was[bar.name], plot.y(bar.track))
    for bar in _shown(rule.run, now):
        yield from _bar(rule, plot, bar, now[bar.name], was[bar.name])
    yield from _edges(rule, plot, now, changed=now is not was)


def _bar(
    rule: Rule, plot: Plot, bar: Bar, now: tuple[float, float], was: tuple[float, float]
) -> Iterator[str]:
    y, longer = plot.y(bar.track), now[1] - now[0] - (was[1] - was[0])
    added = longer if any(name == bar.name for name, _, _ in rule.changes) and longer > 0 else 0.0
    yield _rect(plot, f"bar {_look(bar)}", now, y)
    if now[0] != was[0]:
        yield _rect(plot, "hatch", (now[0], now[1] - added), y)
    elif now[1] > was[1] and not added:
        yield _rect(plot, "hatch", (was[1], now[1]), y)
    if added:
        yield _rect(plot, "new", (now[1] - added, now[1]), y)
    own = (now[0], now[1] - added)
    middle, half = plot.x(sum(own) / 2), len(bar.name) * _GLYPH / 2
    if 2 * half + 4 > plot.x(own[1]) - plot.x(own[0]):
        yield from _text(middle, y - 3, bar.name, "in")
        return
    if now[0] != was[0]:
        yield (
            f'<rect class="{_look(bar)}" x="{_n(middle - half - 1)}" y="{_n(y + 3)}" '
            f'width="{_n(2 * half + 2)}" height="{_BAR - 6}"/>'
        )
    yield from _text(middle, y + 14, bar.name, "in")


def _look(bar: Bar) -> str:
    if bar.table in ("api", "mpi"):
        return "host" if bar.table == "api" else "mpi"
    return "page" if bar.what == "page in" else "copy" if bar.table == "copies" else "kernel"


def _rect(plot: Plot, look: str, span: tuple[float, float], y: float) -> str:
    left, right = plot.x(span[0]), plot.x(span[1])
    return (
        f'<rect class="{look}" x="{_n(left)}" y="{_n(y)}" width="{_n(right - left)}" '
        f'height="{_BAR}"/>'
    )


def _edges(rule: Rule, plot: Plot, now: Times, changed: bool) -> Iterator[str]:
    """The edges of the rule's kind; dashed where something else holds their target back longer."""
    track = {b.name: b.track for b in rule.run.bars}
    for source, target, recorded in rule.run.edges(rule.kind):
        (a, s), (b, t) = _place(source, now), _place(target, now)
        lag, words = _new_lag(rule, a, b, recorded) if changed else (recorded, f"{recorded:g}")
        at = track.get(a, track[b])
        if at != track[b]:
            yield from _across(plot, (at, s), (track[b], t), words, t - s - lag > _LOOSE)
        elif a == b or not a or t - s > 2:
            yield from _along(plot, at, (s, s + lag, t), words)
        else:
            yield from _hook(plot, at, s, t, words)


def _new_lag(rule: Rule, a: str, b: str, lag: float) -> tuple[float, str]:
    """Lag of an edge from `a` to `b` after the rule's changes, and how it comes about."""
    for name, what, amount in rule.changes:
        if (what, rule.kind, name) in (
            ("added", "call", b),
            ("added", "run", b),
            ("delivery", "deliver", a),
        ):
            return lag + amount, f"{lag:g} + {amount:g}"
        if (what, rule.kind, name) == ("ratio", "run", b):
            return lag * amount, f"{lag:g} × {amount:g}"
    return lag, f"{lag:g}"


def _place(instant: str, now: Times) -> tuple[str, float]:
    if instant == "start":
        return "", 0.0
    name, _, which = instant.rpartition(" ")
    return name, now[name][which == "ends"]


def _across(
    plot: Plot, source: tuple[str, float], target: tuple[str, float], words: str, loose: bool
) -> Iterator[str]:
    """From one track to another."""
    rows = plot.tracks.index(target[0]) - plot.tracks.index(source[0])
    x0, x1 = plot.x(source[1]), plot.x(target[1])
    y0, y1 = (
        plot.y(source[0]) + (_BAR if rows > 0 else 0),
        plot.y(target[0]) + (0 if rows > 0 else _BAR),
    )
    yield from _arrow(f"M{_n(x0)} {_n(y0)}L{_n(x1)} {_n(y1)}", (x0, y0), (x1, y1), loose)
    along = 0.5 if abs(rows) == 1 else 0.18
    yield from _text(
        x0 + along * (x1 - x0) + (0 if abs(x1 - x0) > 24 else 12),
        y0 + along * (y1 - y0) + 4,
        words,
        "lag",
    )


def _along(plot: Plot, track: str, times: tuple[float, float, float], words: str) -> Iterator[str]:
    """Below the track's bars: as long as the lag, dashed on to where the target really is."""
    y = plot.y(track) + _BAR + 7
    x0, x1, x2 = (plot.x(t) for t in times)
    if x2 == x0:
        return
    yield from _arrow(f"M{_n(x0)} {_n(y)}H{_n(x1)}", (x0, y), (x1, y), False)
    if times[2] - times[1] > _LOOSE:
        yield f'<path class="edge loose" d="M{_n(x1 + 4)} {_n(y)}H{_n(x2)}"/>'
    yield from _text((x0 + x1) / 2, y + 12, words, "lag")


def _hook(plot: Plot, track: str, s: float, t: float, words: str) -> Iterator[str]:
    """Between two bars that touch."""
    y, x0, x1 = plot.y(track) + _BAR, plot.x(s) - 8, plot.x(t) + 8
    yield from _arrow(
        f"M{_n(x0)} {_n(y)}C{_n(x0)} {_n(y + 13)} {_n(x1)} {_n(y + 13)} {_n(x1)} {_n(y + 1)}",
        (x1, y + 9),
        (x1, y),
        False,
    )
    yield from _text((x0 + x1) / 2, y + 21, words, "lag")


def _arrow(path: str, a: tuple[float, float], b: tuple[float, float], loose: bool) -> Iterator[str]:
    """A path with a tip at `b`, which comes from `a`."""
    long = max(float(np.hypot(b[0] - a[0], b[1] - a[1])), 1e-9)
    u, v = (b[0] - a[0]) / long, (b[1] - a[1]) / long
    back = (b[0] - 8 * u, b[1] - 8 * v)
    corners = (b, (back[0] - 4 * v, back[1] + 4 * u), (back[0] + 4 * v, back[1] - 4 * u))
    yield f'<path class="edge{" loose" if loose else ""}" d="{path}"/>'
    yield '<path class="tip" d="M' + "L".join(f"{_n(x)} {_n(y)}" for x, y in corners) + 'Z"/>'


def _axis(plot: Plot) -> Iterator[str]:
    y = plot.bottom + 12
    yield f'<path class="grid" d="M{LEFT} {_n(y)}H{WIDTH - RIGHT}"/>'
    step = next(s for s in (10, 100, 500, 1000) if plot.until / s < 10)
    for time in range(0, int(plot.until) + 1, step):
        yield f'<path class="grid" d="M{_n(plot.x(time))} {_n(y)}v4"/>'
        yield from _text(plot.x(time), y + 15, f"{time} µs" if time == 0 else f"{time}", "in dim")


def _what_moved(rule: Rule, was: Times, now: Times) -> str:
    """What moved and what did not, in words."""
    causes = {name for name, _, _ in rule.changes}
    moved, stayed = [], []
    for bar in sorted(_shown(rule.run, was), key=lambda b: b.start):
        begins, ends = (round(n - w, 1) for n, w in zip(now[bar.name], was[bar.name], strict=True))
        if begins == ends == 0 and bar.name not in causes:
            stayed.append(bar.name)
        elif begins == ends:
            moved += [f"{bar.name} {_by(begins)}"] if begins else []
        elif bar.name not in causes:
            moved.append(
                f"{bar.name} ends {_by(ends)}"
                if not begins
                else f"{bar.name} begins {_by(begins)} and ends {_by(ends)}"
            )
    parts = [", ".join(moved)] if moved else []
    return "; ".join([*parts, f"unmoved: {', '.join(stayed)}"] if stayed else parts)


def _by(change: float) -> str:
    return f"{abs(change):g} µs {'later' if change > 0 else 'earlier'}" if change else "as before"


def _text(x: float, y: float, text: str, look: str) -> Iterator[str]:
    yield f'<text class="{look}" x="{_n(x)}" y="{_n(y)}">{escape(text)}</text>'


def _n(number: float) -> str:
    """A coordinate; one decimal, so that no last bit of a float shows."""
    return f"{round(number, 1) + 0.0:g}"


def pictures() -> dict[str, str]:
    """File name -> SVG of every rule."""
    return {f"{rule.name}.svg": drawn(rule) for rule in RULES}


def main(words: Sequence[str]) -> int:
    """Draw the pictures, or with ``--check`` say which are not current."""
    made = pictures()
    stale = [
        n
        for n, svg in made.items()
        if not (FOLDER / n).exists() or (FOLDER / n).read_text(encoding="utf-8") != svg
    ]
    stale += [f.name for f in sorted(FOLDER.glob("*.svg")) if f.name not in made]
    if "--check" not in words:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name in stale:
            if name in made:
                (FOLDER / name).write_text(made[name], encoding="utf-8")
            else:
                (FOLDER / name).unlink()
    print(
        f"{'stale' if '--check' in words else 'written'}: {', '.join(stale)}"
        if stale
        else "all pictures are current"
    )
    return 1 if stale and "--check" in words else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
