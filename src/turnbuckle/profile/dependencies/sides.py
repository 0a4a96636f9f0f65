"""The two sides of a profile: what the host did, by thread, and what the device did, by stream.

Activities are numbered by their row in one frame; times are int64 ns after the run's start.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int, filled
from turnbuckle.profile.alike import alike
from turnbuckle.profile.classify import CATEGORY, KIND, by_name, call_class, opencl
from turnbuckle.profile.messages.mpi_calls import same_call
from turnbuckle.profile.profile import DIRECTIONS, ENUMS, MEMORIES, Profile
from turnbuckle.trace.check import by_table
from turnbuckle.trace.trace import Trace

Code = NDArray[np.int8]

#: Tables of a trace that device activities come from, and their numbers in `Device.table`.
TABLES: Final = ("kernels", "graphs", "memsets", "copies")
TABLE: Final = {word: code for code, word in enumerate(TABLES)}
#: Kinds of stream: the legacy default stream, and those that do not wait for it.
_NULL_STREAM, _NON_BLOCKING = 3, 2
NEVER: Final = np.iinfo(np.int64).min // 4
#: Queries that follow each other within this time are one loop [ns]: a sleep between two is seldom
#: shorter, other work seldom as short.
POLL_NS: Final = 50_000
#: Pauses that differ by no more than this share are one sleep.
_ALIKE: Final = 0.2
#: Queries whose results are not recorded are a loop from so many on.
_POLLS: Final = 3
#: What is not recorded: a context, a stream, a thread.
UNKNOWN: Final = -1


def activities(profile: Profile) -> pl.DataFrame:
    """Return the rows of the profile that are activities of a graph, with their track's process,
    thread, device and stream.

    Gaps and calls inside other calls are left out: the outer call and the order of the thread stand
    for them; so are further rows of one MPI call (a Waitall is recorded once a request).
    """
    kind, category, call_class, row = arrays(
        profile.activities, "kind", "category", "call_class", "row"
    )
    stands = (kind != KIND["gap"]) & ((category != CATEGORY["api"]) | (call_class != UNKNOWN))
    mpi = np.flatnonzero(category == CATEGORY["mpi"])
    if len(mpi):
        stands[mpi] &= same_call(profile.trace)[row[mpi]] == row[mpi]
    rows = profile.activities.with_row_index("activity").filter(pl.Series(stands))
    tracks = profile.tracks[["process", "thread", "device", "stream"]]
    return _query_loops(rows.hstack(tracks[rows["track"].to_numpy()]), profile.trace)


def arrays(rows: pl.DataFrame, *columns: str) -> list[NDArray[Any]]:
    """Return columns as arrays, `UNKNOWN` where they are null; an enumeration's words are their
    numbers.
    """
    words, numbers = (
        pl.col([c for c in columns if c in ENUMS]),
        pl.col([c for c in columns if c not in ENUMS]),
    )
    frame = rows.select(
        words.to_physical().cast(pl.Int8).fill_null(UNKNOWN), numbers.fill_null(UNKNOWN)
    )
    return [frame[c].to_numpy() for c in columns]


def _query_loops(rows: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """Make one call of the queries that a thread repeats until the work is over: how many there are
    follows from the work.

    The column ``polled_ns`` says when the last query began that found it unfinished; null for every
    other activity.
    """
    category, name, thread, row = arrays(rows, "category", "name", "thread", "row")
    calls = np.flatnonzero(category == CATEGORY["api"])
    word = np.where(name == UNKNOWN, len(trace.names), name)[calls]
    asks: Bool = by_name(
        pl.Series(word), trace.names, lambda n: "StreamQuery" in n or "EventQuery" in n, False
    )
    if not asks.any():
        return rows.with_columns(polled_ns=pl.lit(None, pl.Int64))
    polled = np.full(rows.height, -1, dtype=np.int64)
    ends, kept = rows["end_ns"].to_numpy().copy(), np.ones(rows.height, dtype=np.bool_)
    starts = rows["start_ns"].to_numpy()
    order = np.lexsort((starts[calls], thread[calls]))
    queries, asks, word = calls[order], asks[order], word[order]
    # a query without a result (-1) may have found either
    result = filled(trace.api["result"], -1)[np.maximum(row, 0)[queries]]
    again = (
        asks[1:]
        & asks[:-1]
        & (word[1:] == word[:-1])
        & (thread[queries[1:]] == thread[queries[:-1]])
        & (result[:-1] != 0)
    )
    pause = starts[queries[1:]] - ends[queries[:-1]]
    again &= (pause <= POLL_NS) | _steady(pause, again)
    heads = np.flatnonzero(~np.concatenate([[False], again]))
    for first, past in zip(heads.tolist(), [*heads[1:].tolist(), len(queries)], strict=True):
        last = past - 1
        if last > first and (result[last] == 0 or (result[last] == -1 and past - first >= _POLLS)):
            ends[queries[first]], polled[queries[first]] = (
                ends[queries[last]],
                starts[queries[last - 1]],
            )
            kept[queries[first + 1 : past]] = False
    polls = pl.Series("polled_ns", polled)
    return rows.with_columns(
        pl.Series("end_ns", ends), pl.when(polls >= 0).then(polls).alias("polled_ns")
    ).filter(pl.Series(kept))


def _steady(pause: Int, again: Bool) -> Bool:
    """Return which pauses between queries are as long as the one before or after: a loop that
    sleeps between them.
    """
    alike = (
        (np.abs(np.diff(pause)) <= _ALIKE * np.minimum(pause[1:], pause[:-1]))
        & again[1:]
        & again[:-1]
    )
    steady: Bool = np.concatenate([[False], alike]) | np.concatenate([alike, [False]])
    return steady


def _frees(name: str) -> bool:
    return (
        call_class(name) == "alloc"
        and "Free" in name
        and "Async" not in name
        and "Address" not in name
        and not opencl(name)
    )


#: What a call waits for, by its name; what CUPTI's number means differs between versions of the
#: profiler.  Calls of OpenCL wait for what their rows of ``syncs`` say, in these numbers: any
#: command can wait for events.
SCOPES: Final = ("nothing", "event", "stream waits for event", "stream", "device")


def scope_of(name: str) -> int:
    """Return the index into `SCOPES`.

    >>> [SCOPES[scope_of(n)] for n in ("cudaStreamSynchronize", "cudaStreamWaitEvent", "cuCtxSynchronize", "cudaEventQuery")]
    ['stream', 'stream waits for event', 'device', 'nothing']
    """
    for code, word in (
        (2, "StreamWaitEvent"),
        (1, "EventSynchronize"),
        (1, "clWaitForEvents"),
        (3, "StreamSynchronize"),
        (3, "clFinish"),
    ):
        if word in name:
            return code
    return 4 if call_class(name) == "sync" else 0


class Host:
    """Calls of the GPU runtime and of MPI.

    Attributes
    ----------
    rows : all of them; `calls` those of the GPU runtime.
    thread, process : per activity; `UNKNOWN` where it has none.
    of_api : per row of the trace's table ``api`` the activity; of a call inside another one, the
        outer call's.
    call_class : per activity, index into `turnbuckle.profile.classify.CALL_CLASSES`; `UNKNOWN`
        where it has none.
    scope : per activity, what a synchronising call waits for by its name: see `SCOPES`.
    opencl : per activity, whether it is a call of OpenCL.
    polled : per activity, when the last query of a loop began that found the work unfinished [ns];
        `NEVER` for others.
    """

    def __init__(self, rows: pl.DataFrame, trace: Trace, first_ns: int) -> None:
        category, kind, self.call_class, name, row, self.thread, self.process = arrays(
            rows, "category", "kind", "call_class", "name", "row", "thread", "process"
        )
        is_call = category == CATEGORY["api"]
        self.rows: Int = np.flatnonzero(is_call | (category == CATEGORY["mpi"]))
        self.calls: Int = np.flatnonzero(is_call)
        self.of_api: Int = np.full(trace.api.height, -1, dtype=np.int64)
        self.of_api[row[self.calls]] = self.calls
        self._inner_calls(trace.api)
        called = pl.Series(np.where(is_call & (name != UNKNOWN), name, len(trace.names)))
        #: Synchronisations and blocking copies.
        self.waits: Bool = kind == KIND["sync"]
        #: cudaFree and its kin wait for the device they free on; the stream-ordered ones, and those
        #: of addresses, do not.
        self.frees: Bool = by_name(called, trace.names, _frees, False)
        self.scope: NDArray[np.int8] = by_name(called, trace.names, scope_of, 0)
        #: Calls that record an event on a stream.
        self.records: Bool = by_name(called, trace.names, lambda n: "EventRecord" in n, False)
        self.opencl: Bool = by_name(called, trace.names, opencl, False)
        self.polled: Int = filled(rows["polled_ns"] - first_ns, NEVER)
        #: Launches with attributes, the only ones that can let a kernel overlap the one before it
        #: on its stream.
        self.programmatic: Bool = by_name(
            called, trace.names, lambda n: "LaunchKernelEx" in n, False
        )

    def _inner_calls(self, api: pl.DataFrame) -> None:
        """Give work and waits that a recording joins to an inner call to the outermost call."""
        if (self.of_api >= 0).all():
            return
        order = np.lexsort(
            (-api["end_ns"].to_numpy(), api["start_ns"].to_numpy(), api["thread"].to_numpy())
        )
        self.of_api[order] = last_known(self.of_api[order], api["thread"].to_numpy()[order])


def last_known(values: Int, group: Int) -> Int:
    """Return each value, or where it is `UNKNOWN` the last one before it in its group; members of a
    group lie together.

    >>> last_known(np.array([UNKNOWN, 5, UNKNOWN, UNKNOWN]), np.array([1, 1, 1, 2])).tolist()
    [-1, 5, 5, -1]
    """
    heads = np.concatenate([[True], group[1:] != group[:-1]])[: len(group)]
    place = np.maximum.accumulate(np.where(heads | (values != UNKNOWN), np.arange(len(values)), 0))
    return values[place]


class Device:
    """Kernels, graphs, copies and sets, in their streams, and the call that started each.

    Attributes
    ----------
    rows : all of them.
    kind, table : per activity, index into `turnbuckle.profile.classify.KINDS` and into `TABLES`.
    call : per activity the call that started it, -1 where unknown; `called` when that call began.
    place : per activity the number of its stream, -1 off the device.
    streams : per stream its activities in the order they began.
    where : (process, context, stream) of every stream, shape (streams, 3); streams that never had
        work come last.
    null, blocking : per stream, whether it is a legacy default stream, and whether it waits for the
        one of its context.
    paged : migrations of pages to a device.
    node, graph : per activity, the node of a graph that it is and the graph; -1 outside graphs.
    gpu : per activity the number of its process's device, -1 off the device: a device number means
        something inside one process only.
    number : per activity the device's number as recorded; `UNKNOWN` where it has none.
    """

    def __init__(
        self, rows: pl.DataFrame, starts: Int, ends: Int, host: Host, trace: Trace
    ) -> None:
        category, self.kind, memory, direction, row, device, stream = arrays(
            rows, "category", "kind", "memory", "direction", "row", "device", "stream"
        )
        self.rows: Int = np.flatnonzero(
            (category == CATEGORY["kernel"]) | (category == CATEGORY["copy"])
        )
        self.table = self._tables(rows, row, trace)
        self.call: Int = np.full(rows.height, -1, dtype=np.int64)
        self.node: Int = np.full(rows.height, -1, dtype=np.int64)
        self.graph: Int = np.full(rows.height, -1, dtype=np.int64)
        self.pageable: Bool = memory == MEMORIES.index("pageable")
        self.paged: Int = np.flatnonzero(direction == DIRECTIONS.index("migration_h2d"))
        context = np.full(rows.height, UNKNOWN, dtype=np.int64)
        launched = by_table(trace.launch_pairs)
        for name, code in TABLE.items():
            members = self.rows[self.table[self.rows] == code]
            if not len(members):
                continue
            frame = trace.table(name)
            call_of_row = np.full(frame.height, -1, dtype=np.int64)
            call_of_row[launched[name]["row"].to_numpy()] = host.of_api[
                launched[name]["api_row"].to_numpy()
            ]
            self.call[members] = call_of_row[row[members]]
            context[members] = filled(frame["context"], UNKNOWN)[row[members]]
            for column, into in (("graph_node", self.node), ("graph", self.graph)):
                if column in frame.columns and len(into):
                    into[members] = filled(frame[column], UNKNOWN)[row[members]]
        self.called: Int = np.where(self.call >= 0, starts[self.call], NEVER)
        self._starts: Int = starts
        self._issued_at: Int = np.where(self.call >= 0, starts[self.call], starts)
        self.process: Int = host.process
        self.number: Int = device.astype(np.int64)
        process, device, stream = (
            column[self.rows].astype(np.int64) for column in (host.process, device, stream)
        )
        self.gpu: Int = np.full(rows.height, -1, dtype=np.int64)
        self.gpu[self.rows] = numbered(process, device)[1]
        where, number = numbered(process, context[self.rows], stream, device)
        self.where: Int = where[:, :3]
        self.place: Int = np.full(rows.height, -1, dtype=np.int64)
        self.place[self.rows] = number
        order = self.rows[np.lexsort((ends[self.rows], starts[self.rows], self.place[self.rows]))]
        self.streams: list[Int] = (
            np.split(order, np.flatnonzero(np.diff(self.place[order])) + 1) if len(order) else []
        )
        self._idle_streams(trace)
        kinds = {
            (p, c, s): k
            for p, c, s, k in trace.streams.select(
                "process", "context", "stream", "kind"
            ).iter_rows()
        }
        # older recordings name no process with a stream
        kind = [kinds.get((p, c, s), kinds.get((None, c, s))) for p, c, s in self.where.tolist()]
        self.null: Bool = np.array([k == _NULL_STREAM for k in kind], dtype=np.bool_)
        self.blocking: Bool = (
            np.array([k != _NON_BLOCKING for k in kind], dtype=np.bool_) & ~self.null
        )

    def _idle_streams(self, trace: Trace) -> None:
        """Number the streams that were only told to wait, recorded on or waited for."""
        places = ["process", "context", "stream"]
        tables = [t for t in (trace.syncs, trace.events, trace.streams) if t.height]
        if not tables:
            return
        named = pl.concat([t.select(pl.col(places).cast(pl.Int64)) for t in tables]).drop_nulls()
        busy = {(p, c, s) for p, c, s in self.where.tolist()}
        worked = {(p, s) for p, _, s in self.where.tolist()}
        # old versions write context 0 for any
        idle = sorted({r for r in named.unique().iter_rows()} - busy)
        idle = [(p, c, s) for p, c, s in idle if c > 0 or (p, s) not in worked]
        if idle:
            self.where = np.concatenate([self.where.reshape(-1, 3), np.array(idle, dtype=np.int64)])
            self.streams += [np.zeros(0, dtype=np.int64)] * len(idle)

    def ordered_with(self, stream: int) -> list[int]:
        """Return streams whose earlier work an action in `stream` waits for: itself; legacy default
        and blocking streams for each other.
        """
        if stream < 0 or not (self.null[stream] or self.blocking[stream]) or not self.null.any():
            return [stream]
        context = (self.where[:, :2] == self.where[stream, :2]).all(axis=1)
        others = context & (self.blocking if self.null[stream] else self.null)
        return [stream, *(k for k in np.flatnonzero(others).tolist() if k != stream)]

    @cached_property
    def issued(self) -> list[Int]:
        """Return per stream when the latest call up to each of its activities began: what a call
        finds issued before it.

        Work whose call was not recorded was issued before it began, and before whatever lies behind
        it on its stream.
        """
        return [np.maximum.accumulate(self.issued_at[s]) for s in self.streams]

    @cached_property
    def issued_at(self) -> Int:
        """Return when the call of each activity began; of work whose call was not recorded, that of
        the last before it on its stream.

        Where there is none before it, it is the first behind it, or the quickest delivery of the
        run before its own begin.
        """
        at = self._issued_at.copy()
        launched = self.rows[self.call[self.rows] >= 0]
        alone = self.rows[self.call[self.rows] < 0]
        at[alone] -= (
            max(int((self._starts[launched] - self.called[launched]).min()), 0)
            if len(launched)
            else 0
        )
        for stream in self.streams:
            called = self.call[stream] >= 0
            before = np.maximum.accumulate(np.where(called, at[stream], NEVER))
            behind = np.minimum.accumulate(at[stream][::-1])[::-1]
            at[stream] = np.where(called, at[stream], np.where(before > NEVER, before, behind))
        return at

    def before(self, stream: int, time: Int) -> Int:
        """Return the position in `stream` of the last activity whose call began before each time
        (or at it); -1 where there is none.
        """
        return np.searchsorted(self.issued[stream], time, side="right").astype(np.int64) - 1

    def _tables(self, rows: pl.DataFrame, row: Int, trace: Trace) -> Code:
        """Return which table of the trace each device activity comes from."""
        kernel = self.kind == KIND["kernel"]
        out = np.full(rows.height, TABLE["copies"], dtype=np.int8)
        out[self.kind == KIND["memset"]], out[kernel] = TABLE["memsets"], TABLE["kernels"]
        if trace.graphs.height:
            # a nameless kernel is a whole graph only if one is recorded there
            out[
                kernel & rows["name"].is_null().to_numpy() & _same_times(rows, row, trace.graphs)
            ] = TABLE["graphs"]
        return out


def numbered(*keys: Int) -> tuple[Int, Int]:
    """Return the distinct combinations of some keys in rising order, shape (distinct, keys), and
    the number of each row's.

    >>> [found.tolist() for found in numbered(np.array([7, 3, 7]), np.array([1, 2, 1]))]
    [[[3, 2], [7, 1]], [1, 0, 1]]
    """
    number, first = alike(*keys)
    distinct = np.stack([key[first] for key in keys], axis=1).astype(np.int64)
    order = np.lexsort(distinct.T[::-1])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return distinct[order], place[number]


def _same_times(rows: pl.DataFrame, row: Int, table: pl.DataFrame) -> Bool:
    """Return which activities have the times of their row in `table`."""
    k = np.clip(row, 0, table.height - 1)
    same = (table["start_ns"].to_numpy()[k] == rows["start_ns"].to_numpy()) & (
        table["end_ns"].to_numpy()[k] == rows["end_ns"].to_numpy()
    )
    there: Bool = same & (row >= 0) & (row < table.height)
    return there
