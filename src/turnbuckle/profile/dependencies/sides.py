"""The two sides of a profile: what the host did, by thread, and what the device did, by stream.

Activities are numbered by their row in one frame; times are int64 ns after the run's start.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.profile.alike import alike
from turnbuckle.profile.classify import KIND, by_name, call_class, opencl
from turnbuckle.profile.messages.mpi_calls import same_call
from turnbuckle.profile.profile import Profile
from turnbuckle.trace.trace import Trace

Code = NDArray[np.int8]

#: Tables of a trace that device activities come from, and their numbers in `Device.table`.
TABLES: Final = ("kernels", "graphs", "memsets", "copies")
TABLE: Final = {word: code for code, word in enumerate(TABLES)}
#: Kinds of stream: the legacy default stream, and those that do not wait for it.
_NULL_STREAM, _NON_BLOCKING = 3, 2
NEVER: Final = np.iinfo(np.int64).min // 4
#: Queries that follow each other within this time are one loop [ns]: a sleep between two is seldom shorter, other work seldom as short.
_POLL_NS: Final = 50_000
#: Queries whose results are not recorded are a loop from so many on.
_POLLS: Final = 3
#: What is not recorded: a context, a stream, a thread.
UNKNOWN: Final = -1


def activities(profile: Profile) -> pl.DataFrame:
    """Return the rows of the profile that are activities of a graph, with their track's process, thread, device and stream.

    Gaps and calls inside other calls are left out: the outer call and the order of the thread stand for them; so are further rows of
    one MPI call (a Waitall is recorded once a request).
    """
    tracks = profile.tracks.select("track", "process", "thread", "device", "stream")
    rows = profile.activities.with_row_index("activity").filter(pl.col("kind") != "gap")
    inner = (pl.col("category") == "api") & pl.col("call_class").is_null()
    stands = np.ones(rows.height, dtype=np.bool_)
    mpi = (rows["category"] == "mpi").to_numpy()
    row = rows["row"].to_numpy()[mpi]
    stands[mpi] = same_call(profile.trace)[row] == row
    outer = rows.filter(~inner & pl.lit(pl.Series(stands))).join(tracks, on="track", how="left", maintain_order="left")
    return _query_loops(outer, profile.trace)


def _query_loops(rows: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """Make one call of the queries that a thread repeats until the work is over: how many there are follows from the work.

    The column ``polled_ns`` says when the last query began that found it unfinished; null for every other activity.
    """
    calls = np.flatnonzero((rows["category"] == "api").to_numpy())
    name = rows["name"].gather(calls)
    asks: Bool = by_name(name, trace.names, lambda n: "StreamQuery" in n or "EventQuery" in n, False)
    polled = np.full(rows.height, -1, dtype=np.int64)
    ends, kept = rows["end_ns"].to_numpy().copy(), np.ones(rows.height, dtype=np.bool_)
    starts, thread = rows["start_ns"].to_numpy(), rows["thread"].fill_null(UNKNOWN).to_numpy()
    order = np.lexsort((starts[calls], thread[calls]))
    queries = calls[order]
    asks, word = asks[order], name.fill_null(UNKNOWN).to_numpy()[order]
    # a query without a result (-1) may have found either
    result = trace.api["result"].fill_null(-1).to_numpy()[rows["row"].fill_null(0).to_numpy()[queries]]
    again = asks[1:] & asks[:-1] & (word[1:] == word[:-1]) & (thread[queries[1:]] == thread[queries[:-1]]) & (result[:-1] != 0)
    again &= starts[queries[1:]] - ends[queries[:-1]] <= _POLL_NS
    heads = np.flatnonzero(~np.concatenate([[False], again]))
    for first, past in zip(heads.tolist(), [*heads[1:].tolist(), len(queries)], strict=True):
        last = past - 1
        if last > first and (result[last] == 0 or (result[last] == -1 and past - first >= _POLLS)):
            ends[queries[first]], polled[queries[first]] = ends[queries[last]], starts[queries[last - 1]]
            kept[queries[first + 1 : past]] = False
    polls = pl.Series("polled_ns", polled)
    return rows.with_columns(pl.Series("end_ns", ends), pl.when(polls >= 0).then(polls).alias("polled_ns")).filter(pl.Series(kept))


def _frees(name: str) -> bool:
    return call_class(name) == "alloc" and "Free" in name and "Async" not in name and "Address" not in name and not opencl(name)


#: What a call waits for, by its name; what CUPTI's number means differs between versions of the profiler.  Calls of OpenCL wait for what
#: their rows of ``syncs`` say, in these numbers: any command can wait for events.
SCOPES: Final = ("nothing", "event", "stream waits for event", "stream", "device")


def scope_of(name: str) -> int:
    """Return the index into `SCOPES`.

    >>> [SCOPES[scope_of(n)] for n in ("cudaStreamSynchronize", "cudaStreamWaitEvent", "cuCtxSynchronize", "cudaEventQuery")]
    ['stream', 'stream waits for event', 'device', 'nothing']
    """
    for code, word in ((2, "StreamWaitEvent"), (1, "EventSynchronize"), (1, "clWaitForEvents"), (3, "StreamSynchronize"), (3, "clFinish")):
        if word in name:
            return code
    return 4 if call_class(name) == "sync" else 0


class Host:
    """Calls of the GPU runtime and of MPI.

    Attributes
    ----------
    rows : all of them; `calls` those of the GPU runtime.
    thread, process : per activity; `UNKNOWN` where it has none.
    of_api : per row of the trace's table ``api`` the activity; of a call inside another one, the outer call's.
    call_class : per activity, index into `turnbuckle.profile.classify.CALL_CLASSES`; `UNKNOWN` where it has none.
    scope : per activity, what a synchronising call waits for by its name: see `SCOPES`.
    opencl : per activity, whether it is a call of OpenCL.
    polled : per activity, when the last query of a loop began that found the work unfinished [ns]; `NEVER` for others.
    """

    def __init__(self, rows: pl.DataFrame, trace: Trace, first_ns: int) -> None:
        category = rows["category"]
        self.rows: Int = np.flatnonzero(category.is_in(["api", "mpi"]).to_numpy())
        self.calls: Int = np.flatnonzero((category == "api").to_numpy())
        self.thread: Int = rows["thread"].fill_null(UNKNOWN).to_numpy()
        self.process: Int = rows["process"].fill_null(UNKNOWN).to_numpy()
        self.call_class: Code = _codes(rows["call_class"])
        self.of_api: Int = np.full(trace.api.height, -1, dtype=np.int64)
        self.of_api[rows["row"].fill_null(-1).to_numpy()[self.calls]] = self.calls
        self._inner_calls(trace.api)
        name = rows["name"].to_frame().with_columns(pl.when(category == "api").then("name"))["name"]
        #: Synchronisations and blocking copies.
        self.waits: Bool = (rows["kind"] == "sync").to_numpy()
        #: cudaFree and its kin wait for the device they free on; the stream-ordered ones, and those of addresses, do not.
        self.frees: Bool = by_name(name, trace.names, _frees, False)
        self.scope: NDArray[np.int8] = by_name(name, trace.names, scope_of, 0)
        #: Calls that record an event on a stream.
        self.records: Bool = by_name(name, trace.names, lambda n: "EventRecord" in n, False)
        self.opencl: Bool = by_name(name, trace.names, opencl, False)
        self.polled: Int = (rows["polled_ns"] - first_ns).fill_null(NEVER).to_numpy()
        #: Launches with attributes, the only ones that can let a kernel overlap the one before it on its stream.
        self.programmatic: Bool = by_name(name, trace.names, lambda n: "LaunchKernelEx" in n, False)

    def _inner_calls(self, api: pl.DataFrame) -> None:
        """Give work and waits that a recording joins to an inner call to the outermost call."""
        if (self.of_api >= 0).all():
            return
        order = np.lexsort((-api["end_ns"].to_numpy(), api["start_ns"].to_numpy(), api["thread"].to_numpy()))
        calls = pl.DataFrame({"thread": api["thread"].to_numpy()[order], "activity": self.of_api[order]})
        outer = calls.select(pl.when(pl.col("activity") >= 0).then("activity").forward_fill().over("thread").fill_null(-1))
        self.of_api[order] = outer["activity"].to_numpy()


class Device:
    """Kernels, graphs, copies and sets, in their streams, and the call that started each.

    Attributes
    ----------
    rows : all of them.
    kind, table : per activity, index into `turnbuckle.profile.classify.KINDS` and into `TABLES`.
    call : per activity the call that started it, -1 where unknown; `called` when that call began.
    place : per activity the number of its stream, -1 off the device.
    streams : per stream its activities in the order they began.
    where : (process, context, stream) of every stream, shape (streams, 3); streams that never had work come last.
    null, blocking : per stream, whether it is a legacy default stream, and whether it waits for the one of its context.
    gpu : per activity the number of its process's device, -1 off the device: a device number means something inside one process only.
    """

    def __init__(self, rows: pl.DataFrame, starts: Int, ends: Int, host: Host, trace: Trace) -> None:
        self.rows: Int = np.flatnonzero(rows["category"].is_in(["kernel", "copy"]).to_numpy())
        self.kind: Code = _codes(rows["kind"])
        row = rows["row"].fill_null(-1).to_numpy()
        self.table = self._tables(rows, row, trace)
        self.call: Int = np.full(rows.height, -1, dtype=np.int64)
        self.node: Int = np.full(rows.height, -1, dtype=np.int64)
        self.pageable: Bool = (rows["memory"] == "pageable").fill_null(False).to_numpy()
        context = np.full(rows.height, UNKNOWN, dtype=np.int64)
        pairs = trace.launch_pairs
        for name, code in TABLE.items():
            members = self.rows[self.table[self.rows] == code]
            if not len(members):
                continue
            frame = trace.table(name)
            call_of_row = np.full(frame.height, -1, dtype=np.int64)
            matches = pairs.filter(pl.col("table") == name)
            call_of_row[matches["row"].to_numpy()] = host.of_api[matches["api_row"].to_numpy()]
            self.call[members] = call_of_row[row[members]]
            context[members] = frame["context"].fill_null(UNKNOWN).to_numpy()[row[members]]
            if "graph_node" in frame.columns:
                self.node[members] = frame["graph_node"].fill_null(-1).to_numpy()[row[members]]
        self.called: Int = np.where(self.call >= 0, starts[self.call], NEVER)
        self._issued_at: Int = np.where(self.call >= 0, starts[self.call], starts)
        keys = {
            "process": rows["process"].fill_null(UNKNOWN).to_numpy()[self.rows],
            "context": context[self.rows],
            "stream": rows["stream"].fill_null(UNKNOWN).to_numpy().astype(np.int64)[self.rows],
            "device": rows["device"].fill_null(UNKNOWN).to_numpy().astype(np.int64)[self.rows],
        }
        self.gpu: Int = np.full(rows.height, -1, dtype=np.int64)
        self.gpu[self.rows] = numbered(keys["process"], keys["device"])[1]
        self.process: Int = rows["process"].fill_null(UNKNOWN).to_numpy()
        where, number = numbered(*keys.values())
        self.where: Int = where[:, :3]
        self.place: Int = np.full(rows.height, -1, dtype=np.int64)
        self.place[self.rows] = number
        order = self.rows[np.lexsort((ends[self.rows], starts[self.rows], self.place[self.rows]))]
        self.streams: list[Int] = np.split(order, np.flatnonzero(np.diff(self.place[order])) + 1) if len(order) else []
        self._idle_streams(trace)
        kinds = {(p, c, s): k for p, c, s, k in trace.streams.select("process", "context", "stream", "kind").iter_rows()}
        # older recordings name no process with a stream
        kind = [kinds.get((p, c, s), kinds.get((None, c, s))) for p, c, s in self.where.tolist()]
        self.null: Bool = np.array([k == _NULL_STREAM for k in kind], dtype=np.bool_)
        self.blocking: Bool = np.array([k != _NON_BLOCKING for k in kind], dtype=np.bool_) & ~self.null

    def _idle_streams(self, trace: Trace) -> None:
        """Number the streams that were only told to wait, recorded on or waited for."""
        places = ["process", "context", "stream"]
        named = pl.concat([t.select(pl.col(places).cast(pl.Int64)) for t in (trace.syncs, trace.events, trace.streams)]).drop_nulls()
        busy = {(p, c, s) for p, c, s in self.where.tolist()}
        worked = {(p, s) for p, _, s in self.where.tolist()}
        # old versions write context 0 for any
        idle = sorted({r for r in named.unique().iter_rows()} - busy)
        idle = [(p, c, s) for p, c, s in idle if c > 0 or (p, s) not in worked]
        if idle:
            self.where = np.concatenate([self.where.reshape(-1, 3), np.array(idle, dtype=np.int64)])
            self.streams += [np.zeros(0, dtype=np.int64)] * len(idle)

    def ordered_with(self, stream: int) -> list[int]:
        """Return streams whose earlier work an action in `stream` waits for: itself; legacy default and blocking streams for each other."""
        if stream < 0 or not (self.null[stream] or self.blocking[stream]) or not self.null.any():
            return [stream]
        context = (self.where[:, :2] == self.where[stream, :2]).all(axis=1)
        others = context & (self.blocking if self.null[stream] else self.null)
        return [stream, *(k for k in np.flatnonzero(others).tolist() if k != stream)]

    @cached_property
    def issued(self) -> list[Int]:
        """Return per stream when the latest call up to each of its activities began: what a call finds issued before it.

        Work whose call was not recorded was issued before it began.
        """
        return [np.maximum.accumulate(self._issued_at[s]) for s in self.streams]

    def before(self, stream: int, time: Int) -> Int:
        """Return the position in `stream` of the last activity whose call began before each time (or at it); -1 where there is none."""
        return np.searchsorted(self.issued[stream], time, side="right").astype(np.int64) - 1

    def _tables(self, rows: pl.DataFrame, row: Int, trace: Trace) -> Code:
        """Return which table of the trace each device activity comes from."""
        kernel = self.kind == KIND["kernel"]
        whole = kernel & rows["name"].is_null().to_numpy() & _same_times(rows, row, trace.graphs)
        out = np.full(rows.height, TABLE["copies"], dtype=np.int8)
        for word, mask in (("memsets", self.kind == KIND["memset"]), ("kernels", kernel), ("graphs", whole)):
            out[mask] = TABLE[word]
        return out


def numbered(*keys: Int) -> tuple[Int, Int]:
    """Return the distinct combinations of some keys in rising order, shape (distinct, keys), and the number of each row's.

    >>> [found.tolist() for found in numbered(np.array([7, 3, 7]), np.array([1, 2, 1]))]
    [[[3, 2], [7, 1]], [1, 0, 1]]
    """
    number, first = alike(*keys)
    distinct = np.stack([key[first] for key in keys], axis=1).astype(np.int64)
    order = np.lexsort(distinct.T[::-1])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return distinct[order], place[number]


def _codes(column: pl.Series) -> Code:
    """Return the words of an enumeration as their numbers, `UNKNOWN` for none: a byte each, where words would be objects of Python."""
    return column.to_physical().cast(pl.Int8).fill_null(UNKNOWN).to_numpy()


def _same_times(rows: pl.DataFrame, row: Int, table: pl.DataFrame) -> Bool:
    """Return which activities have the times of their row in `table`: a nameless kernel is a whole graph only if one is recorded there."""
    if not table.height:
        return np.zeros(rows.height, dtype=np.bool_)
    k = np.clip(row, 0, table.height - 1)
    same = (table["start_ns"].to_numpy()[k] == rows["start_ns"].to_numpy()) & (table["end_ns"].to_numpy()[k] == rows["end_ns"].to_numpy())
    there: Bool = same & (row >= 0) & (row < table.height)
    return there
