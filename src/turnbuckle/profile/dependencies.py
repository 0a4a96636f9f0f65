"""Who must wait for whom: a profile as a graph of instants.

Every activity has two instants, its start and its end; instant 0 is the run's start.  An instant happens when the last
of what it waits for has happened, plus the edge's lag, plus a residual no rule explains.  Rules, one kind of edge each:

========  ==================================================================================================
host      a call begins when the thread's last call has returned and the application's own work is done
call      a call takes what it takes; of a call that waits, only what is left when the wait is over
deliver   device work begins at the earliest one delivery after its call began
stream    work on one stream keeps its order
run       device work takes what it takes
barrier   work on the legacy default stream waits for the blocking streams of its context, and they for it
event     work behind a cudaStreamWaitEvent waits for what the event was recorded behind
sync      a call that waits (for device, stream, event, or its own copy) returns one return after the work ended
queue     a launch that found the queue full returns when work ends
origin    what no rule explains begins when it began
========  ==================================================================================================

Lags are what was recorded, so that an unchanged replay gives back every recorded instant; waiting itself is never an
edge's lag.  An edge that the recording contradicts (its work ended after the wait returned) is dropped and counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.profile.profile import Profile
from turnbuckle.trace.check import launch_pairs
from turnbuckle.trace.trace import Trace

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

EDGES: Final = ("host", "call", "deliver", "stream", "run", "barrier", "event", "sync", "queue", "origin")
EDGE: Final = {word: code for code, word in enumerate(EDGES)}
#: Tables of a trace in the order device activities are numbered.
_DEVICE: Final = ("kernels", "graphs", "memsets", "copies")
_NEVER: Final = np.iinfo(np.int64).min // 4
#: A launch that takes this many times the median was waiting for room in the queue.
_SLOW_LAUNCH: Final = 10.0


@dataclass(frozen=True)
class Graph:
    """A profile's instants and edges; all arrays of one group have one length.

    Attributes
    ----------
    time_ns : recorded time of every instant after the run's start; 0 is the start, 2i+1 and 2i+2 begin and end of activity i.
    activity : row of each activity i in ``profile.activities``.
    source, target, lag_ns, kind : the edges; `kind` indexes `EDGES`.
    residual_ns : per instant, what no edge explains.
    clipped, dropped : edges shortened, and edges left out, because the recording contradicts them.
    """

    time_ns: Int
    activity: Int
    source: Int
    target: Int
    lag_ns: Int
    kind: NDArray[np.int8]
    residual_ns: Int
    clipped: int
    dropped: int

    @property
    def owner(self) -> Int:
        """Per edge, the activity whose instant it leads to (index into `activity`)."""
        owner: Int = (self.target - 1) // 2
        return owner


@dataclass
class _Edges:
    parts: list[tuple[Int, Int, Int, int]] = field(default_factory=list)

    def add(self, source: Int, target: Int, lag: Int | int, kind: str) -> None:
        source = np.asarray(source, dtype=np.int64)
        self.parts.append(
            (source, np.asarray(target, dtype=np.int64), np.broadcast_to(np.asarray(lag, dtype=np.int64), source.shape), EDGE[kind])
        )


def begin(activity: Int) -> Int:
    """Instant at which an activity begins."""
    return 2 * activity + 1


def finish(activity: Int) -> Int:
    """Instant at which an activity ends."""
    return 2 * activity + 2


def dependencies(profile: Profile) -> Graph:
    """The graph of a profile.

    Calls inside other calls, and gaps, are no activities of it: the outer call and the host edge stand for them.
    """
    rows = _activities(profile)
    if not rows.height:
        nothing = np.zeros(0, np.int64)
        return Graph(np.zeros(1, np.int64), nothing, nothing, nothing, nothing, np.zeros(0, np.int8), np.zeros(1, np.int64), 0, 0)
    starts, ends = rows["start_ns"].to_numpy() - profile.first_ns, rows["end_ns"].to_numpy() - profile.first_ns
    edges = _Edges()
    host = _Host(rows, starts, ends, profile.trace)
    device = _Device(rows, starts, ends, host, profile.trace)
    _host_order(edges, host, starts, ends)
    _device_order(edges, device, host, starts, ends)
    _barriers(edges, device, profile.trace, starts, ends)
    _events(edges, device, host, profile.trace, starts, ends)
    own = _waits(edges, device, host, profile.trace, starts, ends)
    own = _full_queue(edges, device, host, starts, ends, own)
    edges.add(begin(host.rows), finish(host.rows), own[host.rows], "call")
    edges.add(begin(device.rows), finish(device.rows), (ends - starts)[device.rows], "run")
    return _settled(rows, starts, ends, edges)


def _activities(profile: Profile) -> pl.DataFrame:
    """Rows of the profile that are activities of the graph, with their track's process, thread, device and stream."""
    tracks = profile.tracks.select("track", "process", "thread", "device", "stream")
    rows = profile.activities.with_row_index("activity").filter(pl.col("kind") != "gap")
    inner = (pl.col("category") == "api") & pl.col("call_class").is_null()
    return rows.filter(~inner).join(tracks, on="track", how="left", maintain_order="left")


class _Host:
    """The host's activities: calls and MPI calls."""

    def __init__(self, rows: pl.DataFrame, starts: Int, ends: Int, trace: Trace) -> None:
        category = rows["category"].cast(pl.String)
        self.rows: Int = np.flatnonzero(category.is_in(["api", "mpi"]).to_numpy())
        self.calls: Int = np.flatnonzero((category == "api").to_numpy())
        self.thread: Int = rows["thread"].fill_null(-1).to_numpy()
        self.process: Int = rows["process"].fill_null(-1).to_numpy()
        self.call_class = rows["call_class"].cast(pl.String).fill_null("").to_numpy()
        api_row = rows["row"].fill_null(-1).to_numpy()
        self.of_api: Int = np.full(trace.api.height, -1, dtype=np.int64)
        self.of_api[api_row[self.calls]] = self.calls
        names = trace.text(rows).fill_null("").to_numpy()
        self.name = np.where((category == "api").to_numpy(), names, "")
        self.api_row = api_row


class _Device:
    """The device's activities, by stream, and the call that started each."""

    def __init__(self, rows: pl.DataFrame, starts: Int, ends: Int, host: _Host, trace: Trace) -> None:
        category = rows["category"].cast(pl.String)
        self.rows: Int = np.flatnonzero(category.is_in(["kernel", "copy"]).to_numpy())
        self.call: Int = np.full(rows.height, -1, dtype=np.int64)
        self.context: Int = np.full(rows.height, -1, dtype=np.int64)
        kind = rows["kind"].cast(pl.String)
        row = rows["row"].fill_null(-1).to_numpy()
        pairs = launch_pairs(trace.tables)
        whole = (kind == "kernel").to_numpy() & rows["name"].is_null().to_numpy() & _same_times(rows, row, trace.graphs)
        table = np.select(
            [whole, (kind == "kernel").to_numpy(), (kind == "memset").to_numpy()], ["graphs", "kernels", "memsets"], default="copies"
        )
        for name in _DEVICE:
            mine = self.rows[table[self.rows] == name]
            frame = trace.table(name)
            if not len(mine):
                continue
            call_of_row = np.full(frame.height, -1, dtype=np.int64)
            found = pairs.filter(pl.col("table") == name)
            call_of_row[found["row"].to_numpy()] = host.of_api[found["api_row"].to_numpy()]
            self.call[mine] = call_of_row[row[mine]]
            self.context[mine] = frame["context"].fill_null(-1).to_numpy()[row[mine]]
        self.process: Int = rows["process"].fill_null(-1).to_numpy()
        self.stream: Int = rows["stream"].fill_null(-1).to_numpy().astype(np.int64)
        self.called: Int = np.where(self.call >= 0, starts[self.call], _NEVER)
        keys = pl.DataFrame(
            {
                "p": self.process[self.rows],
                "d": rows["device"].fill_null(-1).to_numpy()[self.rows],
                "c": self.context[self.rows],
                "s": self.stream[self.rows],
            }
        )
        order = np.lexsort((ends[self.rows], starts[self.rows]))
        number = keys.select(pl.struct("p", "d", "c", "s").rank("dense"))["p"].to_numpy()[order]
        ordered = self.rows[order]
        #: Device activities of every stream in their order in time.
        self.streams: list[Int] = [ordered[number == k] for k in np.unique(number)]


def _same_times(rows: pl.DataFrame, row: Int, table: pl.DataFrame) -> Bool:
    """Which activities have the times of their row in `table`: a nameless kernel is a whole graph only if one is recorded there."""
    if not table.height:
        return np.zeros(rows.height, dtype=np.bool_)
    at = np.clip(row, 0, table.height - 1)
    same = (table["start_ns"].to_numpy()[at] == rows["start_ns"].to_numpy()) & (table["end_ns"].to_numpy()[at] == rows["end_ns"].to_numpy())
    there: Bool = same & (row >= 0) & (row < table.height)
    return there


def _host_order(edges: _Edges, host: _Host, starts: Int, ends: Int) -> None:
    """A thread's calls one after the other; the time between is the application's own work.  Calls that overlap keep their starts."""
    order = host.rows[np.lexsort((-ends[host.rows], starts[host.rows], host.thread[host.rows]))]
    same = host.thread[order][1:] == host.thread[order][:-1]
    before, after = order[:-1][same], order[1:][same]
    apart = starts[after] >= ends[before]
    edges.add(finish(before[apart]), begin(after[apart]), (starts[after] - ends[before])[apart], "host")
    edges.add(begin(before[~apart]), begin(after[~apart]), (starts[after] - starts[before])[~apart], "host")
    heads = order[np.flatnonzero(np.concatenate([[True], ~same]))] if len(order) else order
    edges.add(np.zeros(len(heads), np.int64), begin(heads), starts[heads], "origin")


def _device_order(edges: _Edges, device: _Device, host: _Host, starts: Int, ends: Int) -> None:
    """Stream order, delivery after the call, and an origin for work that neither explains."""
    explained = device.call >= 0
    idle_from = np.full(len(starts), _NEVER, dtype=np.int64)
    for stream in device.streams:
        before, after = stream[:-1], stream[1:]
        kept = ends[before] <= starts[after]
        edges.add(finish(before[kept]), begin(after[kept]), 0, "stream")
        explained[after[kept]] = True
        idle_from[after] = np.maximum.accumulate(ends[before])
    started = device.rows[device.call[device.rows] >= 0]
    call = device.call[started]
    delay = np.maximum(starts[started] - starts[call], 0)
    free = idle_from[started] <= starts[call]
    typical = int(np.median(delay[free])) if free.any() else int(delay.min(initial=0))
    # a delivery faster than the typical one is believed, a slower one was not delivery alone
    edges.add(begin(call), begin(started), np.minimum(delay, typical), "deliver")
    lonely = device.rows[~explained[device.rows]]
    edges.add(np.zeros(len(lonely), np.int64), begin(lonely), starts[lonely], "origin")


def _barriers(edges: _Edges, device: _Device, trace: Trace, starts: Int, ends: Int) -> None:
    """The legacy default stream and the blocking streams of its context wait for each other, in the order of their calls."""
    kinds = {(c, s): k for c, s, k in trace.streams.select("context", "stream", "kind").iter_rows()}
    for null in device.streams:
        context, number = int(device.context[null[0]]), int(device.stream[null[0]])
        if kinds.get((context, number)) != 3:
            continue
        for other in device.streams:
            place = int(device.context[other[0]]), int(device.stream[other[0]])
            if other is null or place[0] != context or kinds.get(place) == 2 or device.process[other[0]] != device.process[null[0]]:
                continue
            for first, then in ((null, other), (other, null)):
                at = np.searchsorted(np.maximum.accumulate(device.called[first]), device.called[then], side="left") - 1
                known = (at >= 0) & (device.called[then] > _NEVER)
                source, target = first[at[known]], then[known]
                held = ends[source] <= starts[target]
                edges.add(finish(source[held]), begin(target[held]), 0, "barrier")


def _events(edges: _Edges, device: _Device, host: _Host, trace: Trace, starts: Int, ends: Int) -> None:
    """cudaStreamWaitEvent: work issued behind the wait waits for the work the event was recorded behind."""
    waits = trace.syncs.filter(pl.col("sync_type") == 2)
    if not waits.height or not trace.events.height:
        return
    api = trace.api.select("process", "correlation", called="start_ns")
    offset = int(trace.api["start_ns"][0] - starts[host.of_api[0]]) if trace.api.height and host.of_api[0] >= 0 else None
    if offset is None:
        return
    records = trace.events.join(api, on=["process", "correlation"], how="inner").select(
        "process", "event", recorded="called", on_stream="stream"
    )
    placed = waits.select("process", "correlation", "event", "stream").join(api, on=["process", "correlation"], how="inner").sort("called")
    matched = placed.join_asof(
        records.sort("recorded"), left_on="called", right_on="recorded", by=["process", "event"], check_sortedness=False
    )
    by_place = {(int(device.process[s[0]]), int(device.stream[s[0]])): s for s in device.streams}
    for process, stream, called, recorded, on_stream in (
        matched.drop_nulls("recorded").select("process", "stream", "called", "recorded", "on_stream").iter_rows()
    ):
        first, then = by_place.get((process, on_stream)), by_place.get((process, stream))
        if first is None or then is None:
            continue
        at = int(np.searchsorted(np.maximum.accumulate(device.called[first]), recorded - offset, side="right")) - 1
        to = int(np.searchsorted(np.maximum.accumulate(device.called[then]), called - offset, side="right"))
        if at >= 0 and to < len(then) and ends[first[at]] <= starts[then[to]]:
            edges.add(np.array([finish(first[at])]), np.array([begin(then[to])]), 0, "event")


def _waits(edges: _Edges, device: _Device, host: _Host, trace: Trace, starts: Int, ends: Int) -> Int:
    """Calls that wait, and what for; returns what each call costs by itself."""
    call, work = _waited_for(device, host, trace, starts)
    held = ends[work] <= ends[call]
    call, work = call[held], work[held]
    back = ends[call] - ends[work]
    waited = ends[work] > starts[call]
    typical = int(np.median(back[waited])) if waited.any() else 0
    edges.add(finish(work), finish(call), np.where(waited, back, np.minimum(back, typical)), "sync")
    least = np.full(len(starts), np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(least, call[waited], back[waited])
    own: Int = np.minimum(ends - starts, least)
    return own


def _waited_for(device: _Device, host: _Host, trace: Trace, starts: Int) -> tuple[Int, Int]:
    """Pairs (call, device activity it waits for)."""
    calls, works = [], []
    blocking = np.array([("emcpy" in n or "emset" in n) and "Async" not in n for n in host.name], dtype=np.bool_)
    mine = device.rows[device.call[device.rows] >= 0]
    own = mine[blocking[device.call[mine]]]
    calls.append(device.call[own])
    works.append(own)
    everything = np.array(
        [c == "sync" or (c == "alloc" and "Free" in n and "Async" not in n) for c, n in zip(host.call_class, host.name, strict=True)]
    )
    scope = _scopes(trace, host, len(starts))
    for stream in device.streams:
        called = np.maximum.accumulate(device.called[stream])
        candidates = host.calls[everything[host.calls] & (host.process[host.calls] == device.process[stream[0]])]
        candidates = candidates[(scope[candidates] == -1) | (scope[candidates] == device.stream[stream[0]])]
        at = np.searchsorted(called, starts[candidates], side="right") - 1
        calls.append(candidates[at >= 0])
        works.append(stream[at[at >= 0]])
    return np.concatenate(calls), np.concatenate(works)


def _scopes(trace: Trace, host: _Host, count: int) -> Int:
    """Per activity, the stream a synchronising call waits for; -1 where it waits for all of its device."""
    scope = np.full(count, -1, dtype=np.int64)
    named = (
        trace.syncs.filter(pl.col("sync_type").is_in([1, 3]))
        .select("process", "correlation", "stream")
        .unique(["process", "correlation"], maintain_order=True)
    )
    if not named.height:
        return scope
    found = trace.api.with_row_index("api_row").join(named, on=["process", "correlation"], how="inner")
    of = host.of_api[found["api_row"].to_numpy()]
    scope[of[of >= 0]] = found["stream"].fill_null(-1).to_numpy()[of >= 0]
    return scope


def _full_queue(edges: _Edges, device: _Device, host: _Host, starts: Int, ends: Int, own: Int) -> Int:
    """A launch far slower than the others, which returned just after work ended, waited for room in the queue."""
    launches = host.calls[host.call_class[host.calls] == "launch"]
    if not len(launches) or not len(device.rows):
        return own
    typical = float(np.median((ends - starts)[launches]))
    slow = launches[(ends - starts)[launches] > _SLOW_LAUNCH * typical]
    by_end = device.rows[np.argsort(ends[device.rows], kind="stable")]
    at = np.searchsorted(ends[by_end], ends[slow], side="right") - 1
    slow, at = slow[at >= 0], at[at >= 0]
    work = by_end[at]
    just = (ends[work] > starts[slow]) & (ends[slow] - ends[work] < _SLOW_LAUNCH * typical) & (device.call[work] != slow)
    slow, work = slow[just], work[just]
    edges.add(finish(work), finish(slow), ends[slow] - ends[work], "queue")
    own = own.copy()
    own[slow] = np.minimum(own[slow], int(typical))
    return own


def _settled(rows: pl.DataFrame, starts: Int, ends: Int, edges: _Edges) -> Graph:
    """All edges as arrays, held to the recording: none may put an instant later than it was."""
    source, target, lag = (np.concatenate([p[i] for p in edges.parts]) for i in range(3))
    kind = np.concatenate([np.full(len(p[0]), p[3], dtype=np.int8) for p in edges.parts])
    time = np.zeros(2 * rows.height + 1, dtype=np.int64)
    time[1::2], time[2::2] = starts, ends
    room = time[target] - time[source]
    against = room < 0
    source, target, lag, kind, room = source[~against], target[~against], lag[~against], kind[~against], room[~against]
    clipped = int((lag > room).sum())
    lag = np.minimum(lag, room)
    latest = np.zeros(len(time), dtype=np.int64)
    np.maximum.at(latest, target, time[source] + lag)
    return Graph(time, rows["activity"].to_numpy().astype(np.int64), source, target, lag, kind, time - latest, clipped, int(against.sum()))
