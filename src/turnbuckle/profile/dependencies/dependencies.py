"""Who must wait for whom: a profile as a graph of instants.

Every activity has two instants, its start and its end; instant 0 is the run's start.  An instant happens when the last
of what it waits for has happened, plus the edge's lag, plus a residual no rule explains.  Rules, one kind of edge each:

========  ==================================================================================================
host      a call begins when the thread's last call has returned and the application's own work is done; the first call of a thread
          that goes on with the work of others, when the last call of its process has that returned before it
call      a call takes what it takes; of a call that waits, only what is left when the wait is over
deliver   device work begins at the earliest one delivery after its call began; or after a call that had to prepare it ended
stream    work on one stream keeps its order
engine    copies of one direction on one device keep their order: they share its copy engine; so do kernels that fill it
run       device work takes what it takes
barrier   work on the legacy default stream waits for the blocking streams of its context, and they for it
event     work behind a cudaStreamWaitEvent waits for what the event was recorded behind
graph     a node of a CUDA graph waits for the nodes it followed in every launch of the graph
fault     a kernel waits for the pages that were moved to its device while it ran
sync      a call that waits (for device, stream, event, or its own copy) returns one return after the work ended
queue     a launch that finds the queue full returns when the work a queue's length before it has ended
meet      an MPI call or NCCL kernel ends after those it meets on other ranks have begun
origin    what no rule explains begins when it began
========  ==================================================================================================

Lags are what was recorded, so that an unchanged replay gives back every recorded instant; waiting itself is never an
edge's lag.  An edge that the recording contradicts (its work ended after the wait returned) is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.profile.classify import KIND
from turnbuckle.profile.dependencies.filling import Turns, turns
from turnbuckle.profile.dependencies.ranks import meetings
from turnbuckle.profile.dependencies.sides import NEVER, POLL_NS, TABLE, UNKNOWN, Device, Host, activities
from turnbuckle.profile.dependencies.stream_waits import unrecorded_waits
from turnbuckle.profile.dependencies.threads import first_calls, handed_over
from turnbuckle.profile.dependencies.waits import Reach, event_waits, full_queue, named_waits, waited_for
from turnbuckle.profile.messages.mpi_calls import in_words
from turnbuckle.profile.profile import Profile

#: Instants and activities are numbered in 32 bits: the native core takes no more than a quarter of 2^32 instants.
Index = NDArray[np.int32]
Numbers = TypeVar("Numbers", Int, Index)

_SYSTEM: Final = ("host", "call", "deliver", "stream", "engine", "run", "barrier")
EDGES: Final = (*_SYSTEM, "event", "graph", "fault", "sync", "queue", "meet", "origin")
#: Codes of the kinds; ``order`` edges come from several runs of one program (`turnbuckle.questions.order.poset`), not from a rule.
EDGE: Final = {word: code for code, word in enumerate((*EDGES, "order"))}
#: Kinds that follow from one thread, one stream, or a call and its work.
_OWN_ORDER: Final = ("host", "call", "deliver", "stream", "run")
#: Kinds by which work of one stream holds work of another.
_ACROSS: Final = ("engine", "barrier", "event", "graph")
#: Share of one kind of work that must have found its stream idle for its own typical delivery to count.
_SEEN_IDLE: Final = 0.1
#: How much a kernel launched programmatically may overlap the one before it [ns]: twice what the recordings at hand show (1.7 to 3.7 us).
_PROLOGUE_NS: Final = 10_000
#: Share of the calls whose work began within them that is not longer than a plain call.
_PLAIN: Final = 0.9


@dataclass(frozen=True)
class Graph:
    """A profile's instants and edges; all arrays of one group have one length.

    Attributes
    ----------
    time_ns : recorded time of every instant after the run's start; 0 is the start, 2i+1 and 2i+2 begin and end of activity i.
    activity : row of each activity i in ``profile.activities``.
    source, target, lag_ns, kind : the edges; `kind` indexes `EDGES`.
    residual_ns : per instant, what no edge explains.
    paid : per edge, the activity whose price its lag is, where that is not plain from its ends (see `payer`); -1 elsewhere.  An edge of a
        stream that has one leads from the begin of a kernel to that of the next, which was launched to overlap it.
    clipped_ns : per instant, by how much its edges had to be shortened because the recording is faster than they allow.
    dropped : edges left out because the recording contradicts them.
    overlapping, early : device activities that overlap the one before them on their stream and were not launched to do so; that start
        before their call.
    asleep_ns : by how much loops that sleep between two queries might have returned earlier, and later, after the same end of work.
    unmatched : MPI calls and NCCL kernels whose other side should be in the profile and was not found.
    unmatched_calls : the first MPI calls among them, in words: rank, call, time.
    """

    time_ns: Int
    activity: Int
    source: Index
    target: Index
    lag_ns: Int
    kind: NDArray[np.int8]
    residual_ns: Int
    clipped_ns: Int
    dropped: int
    overlapping: int = 0
    early: int = 0
    unmatched: int = 0
    unmatched_calls: str = ""
    paid: Index | None = None
    asleep_ns: tuple[int, int] = (0, 0)

    @property
    def owner(self) -> Index:
        """Return per edge the activity whose instant it leads to (index into `activity`)."""
        owner: Index = (self.target - 1) // 2
        return owner

    def kept(self, edges: Bool) -> Graph:
        """Return the same instants with only some of the edges."""
        per_edge = {n: getattr(self, n)[edges] for n in ("source", "target", "lag_ns", "kind")}
        return replace(self, **per_edge, paid=None if self.paid is None else self.paid[edges])

    @property
    def begun_within(self) -> Bool:
        """Return which edges lead from the begin of a kernel to that of another that begins while it runs: launched to, or in its tail."""
        within = np.isin(self.kind, (EDGE["stream"], EDGE["engine"]))
        return np.zeros(len(self.kind), dtype=np.bool_) if self.paid is None else within & (self.paid >= 0)

    @property
    def payer(self) -> Index:
        """Return per edge the activity whose price its lag is: the call of a delivery, the kernel between its faults, else `owner`."""
        return self.payers(slice(None))

    def payers(self, edges: Int | slice) -> Index:
        """Return `payer` of some edges."""
        source, target = self.source[edges], self.target[edges]
        payer = np.where(self.kind[edges] == EDGE["deliver"], (source - 1) // 2, (target - 1) // 2)
        return payer if self.paid is None else np.where(self.paid[edges] >= 0, self.paid[edges], payer)


@dataclass
class _Edges:
    """Edges as the rules find them: source, target, lag, payer and kind of each group."""

    parts: list[tuple[str, tuple[Index, Index, Int, Index, NDArray[np.int8]]]] = field(default_factory=list)

    def add(self, source: Int, target: Int, lag: Int | int, kind: str, paid: Int | int = -1) -> None:
        if not len(source):
            return
        before, after = (np.asarray(ends, dtype=np.int32) for ends in (source, target))
        lags = np.broadcast_to(np.asarray(lag, dtype=np.int64), before.shape)
        payers = np.broadcast_to(np.asarray(paid, dtype=np.int32), before.shape)
        self.parts.append((kind, (before, after, lags, payers, np.broadcast_to(np.int8(EDGE[kind]), before.shape))))

    def held_until(self, ends: Int) -> Int:
        """Return when the last work of another stream ended that each activity waits for; `NEVER` for none."""
        out = np.full(len(ends), NEVER, dtype=np.int64)
        for kind, (source, target, *_) in self.parts:
            if kind in _ACROSS:
                np.maximum.at(out, (target - 1) // 2, ends[(source - 1) // 2])
        return out


def begin(activity: Numbers) -> Numbers:
    """Return the index in `Graph.time_ns` of the begin of each activity, by index in `Graph.activity`."""
    return 2 * activity + 1


def finish(activity: Numbers) -> Numbers:
    """Return the index in `Graph.time_ns` of the end of each activity, by index in `Graph.activity`."""
    return 2 * activity + 2


def dependencies(profile: Profile) -> Graph:
    """Build the graph of a profile.

    Calls inside other calls, and gaps, are no activities of it: the outer call and the host edge stand for them.
    """
    return _Rules(profile).graph()


def both_orders(profile: Profile) -> tuple[Graph, Graph | None]:
    """Build the graph of a profile, and the one in which work also waits for what it may have waited for.

    The second is None where nothing is in doubt: no two streams, processes or threads meet that nothing joins.
    """
    rules = _Rules(profile)
    known = rules.graph()
    return known, rules.graph(perhaps=True) if rules.in_doubt else None


class _Rules:
    """What the rules look at, made once for both graphs."""

    def __init__(self, profile: Profile) -> None:
        rows = activities(profile)
        self.profile, self.trace = profile, profile.trace
        self.starts, self.ends = (rows[name].to_numpy() - profile.first_ns for name in ("start_ns", "end_ns"))
        self.host = Host(rows, profile.trace, profile.first_ns)
        self.device = Device(rows, self.starts, self.ends, self.host, profile.trace)
        self.met = meetings(rows, self.starts, self.ends, profile.trace)
        self.turns = turns(self.device, self.host, rows, profile.trace, self.starts, self.ends)
        self.named = named_waits(self.host, profile)
        self.activity: Int = rows["activity"].to_numpy().astype(np.int64)

    @property
    def in_doubt(self) -> bool:
        """Return whether anything may wait that no rule makes wait."""
        threads = self.host.rows[np.argsort(self.host.process[self.host.rows], kind="stable")]
        process, thread = self.host.process[threads], self.host.thread[threads]
        several = (process[1:] == process[:-1]) & (thread[1:] != thread[:-1])
        return bool(len(self.turns.maybe_after)) or bool(several.any())

    def graph(self, perhaps: bool = False) -> Graph:
        """Return the graph; if `perhaps`, with the edges of what may wait."""
        host, device, starts, ends, edges = self.host, self.device, self.starts, self.ends, _Edges()
        # when the last of those an activity meets has begun, or it itself
        latest = starts.copy()
        np.maximum.at(latest, self.met.waits, starts[self.met.first])
        own_ns = np.maximum(ends - latest, 0)
        edges.add(begin(self.met.first), finish(self.met.waits), own_ns[self.met.waits], "meet")
        own_ns = _host_order(edges, host, starts, ends, latest, own_ns, perhaps)
        _goes_on(edges, host, device, starts, ends)
        own_ns = _take_turns(edges, self.turns, starts, ends, own_ns, perhaps)
        programmatic = _programmatic(edges, device, host, starts, ends)
        _barriers(edges, device, starts, ends)
        reach = _events(edges, device, self.named, self.profile, starts, ends)
        first, then = unrecorded_waits(device, host, self.trace, starts, ends)
        edges.add(finish(first), begin(then), 0, "event")
        _graph_nodes(edges, device, starts, ends)
        _device_order(edges, device, starts, ends)
        own_ns = _faults(edges, device, starts, ends, own_ns)
        own_ns, asleep_ns = _waits(edges, device, host, self.profile, self.named, reach, starts, ends, own_ns)
        edges.add(begin(host.rows), finish(host.rows), own_ns[host.rows], "call")
        edges.add(begin(device.rows), finish(device.rows), own_ns[device.rows], "run")
        streams = [s for s, place in zip(device.streams, device.where, strict=True) if place[2] != UNKNOWN]
        overlapping = sum(int((ends[s[:-1]] > starts[s[1:]]).sum()) for s in streams) - programmatic
        early = int((starts[device.rows] < device.called[device.rows]).sum())
        alone = "" if self.met.alone is None else in_words(self.met.alone, self.trace, self.profile.first_ns)
        del reach, own_ns, latest
        graph = _settled(self.activity, starts, ends, edges)
        counts = {"overlapping": overlapping, "early": early, "unmatched": self.met.unmatched, "unmatched_calls": alone}
        return replace(graph, **counts, asleep_ns=asleep_ns)


# --- the host ---------------------------------------------------------------------------------------------------------


def _host_order(edges: _Edges, host: Host, starts: Int, ends: Int, latest: Int, own_ns: Int, perhaps: bool) -> Int:
    """Chain each thread's calls; the time between two calls is the application's own work, or a wait for another thread.

    A call around others (an MPI call that copies from a GPU) is no more than the chain of what it holds, and of whom it meets
    (`latest`: when the last of those had begun).
    """
    order = host.rows[np.lexsort((-ends[host.rows], starts[host.rows], host.thread[host.rows]))]
    if not len(order):
        return own_ns
    thread = host.thread[order]
    # per thread the latest end so far, by lifting each thread above all times of the one before it
    lift = np.cumsum(np.concatenate([[0], thread[1:] != thread[:-1]])) * (int(ends.max()) + 1)
    reach = np.maximum.accumulate(ends[order] + lift)
    heads = np.concatenate([[True], thread[1:] != thread[:-1]])
    outer = heads | (starts[order] + lift >= np.concatenate([[0], reach[:-1]]))
    # a call comes after the one of its thread that ended last before it
    position = np.maximum.accumulate(np.where(np.diff(reach, prepend=-1) > 0, np.arange(len(order)), 0))
    followers = np.flatnonzero(outer & ~heads)
    before, after = order[position[followers - 1]], order[followers]
    giver, taker, lag, mutual = handed_over(order[outer], host.thread, host.process, starts, ends, perhaps)
    edges.add(finish(giver), begin(taker), lag, "host")
    # of two threads that hand over to each other, one works only once the other has; where only one way is known, what the giver itself
    # waits for is not, and the taker keeps its time, so that no delay of it is lost
    worked = np.full(len(starts), NEVER, dtype=np.int64)
    worked[taker[mutual]] = (starts[taker] - lag)[mutual]
    edges.add(finish(before), begin(after), starts[after] - np.maximum(ends[before], worked[after]), "host")
    return _nested(edges, order, outer, starts, ends, latest, own_ns) if not outer.all() else own_ns


def _goes_on(edges: _Edges, host: Host, device: Device, starts: Int, ends: Int) -> None:
    """Make a thread that goes on with the work of others begin after their last call: a task moved to it (Julia, thread pools).

    Its first call waits, though the thread has started nothing; or what that starts is on a stream that others have used.
    """
    order = host.rows[np.lexsort((starts[host.rows], host.thread[host.rows]))]
    before, first = first_calls(order, host.thread, host.process, starts, ends)
    others = np.zeros(len(starts), dtype=np.bool_)
    for stream in device.streams:
        called = stream[device.call[stream] >= 0]
        calls = device.call[called]
        others[calls[1:]] |= (host.thread[calls[1:]] != host.thread[calls[:-1]]) & (starts[calls[1:]] > starts[calls[:-1]])
    started = np.min(starts[device.call[device.call >= 0]], initial=np.iinfo(np.int64).max)
    on = others[first] | ((host.waits[first] | (host.scope[first] > 0)) & (starts[first] > started))
    edges.add(finish(before[on]), begin(first[on]), (starts[first] - ends[before])[on], "host")


def _nested(edges: _Edges, order: Int, outer: Bool, starts: Int, ends: Int, latest: Int, own_ns: Int) -> Int:
    """Chain calls inside a call, from the outer call's start through each of them to its end."""
    own_ns = own_ns.copy()
    source, target, lag = [], [], []
    stack: list[int] = []
    last: dict[int, int] = {}
    for v, free in zip(order.tolist(), outer.tolist(), strict=True):
        while stack and (free or ends[stack[-1]] <= starts[v] or ends[stack[-1]] < ends[v]):
            stack.pop()
        if stack:
            above = stack[-1]
            source.append(2 * last[above] + 2 if above in last else 2 * above + 1)
            target.append(2 * v + 1)
            lag.append(int(starts[v] - (ends[last[above]] if above in last else starts[above])))
            last[above] = v
        # two calls of one thread that overlap without one holding the other: the second has no predecessor and keeps its origin
        stack.append(v)
    around = np.array(list(last), dtype=np.int64)
    inside = np.array(list(last.values()), dtype=np.int64)
    edges.add(np.array(source), np.array(target), np.array(lag), "host")
    edges.add(finish(inside), finish(around), ends[around] - np.clip(latest[around], ends[inside], ends[around]), "host")
    own_ns[around] = 0
    return own_ns


# --- the device -------------------------------------------------------------------------------------------------------


def _take_turns(edges: _Edges, turns: Turns, starts: Int, ends: Int, own_ns: Int, perhaps: bool) -> Int:
    """Make kernels wait for the device; if `perhaps`, those too that may have waited; return what each takes by itself.

    A kernel that begins in the last wave of another begins as far into it as it did, and has the device to itself once that has ended.
    """
    edges.add(finish(turns.before), begin(turns.after), 0, "engine")
    edges.add(begin(turns.tail_of), begin(turns.in_tail), starts[turns.in_tail] - starts[turns.tail_of], "engine", turns.tail_of)
    alone = (ends[turns.in_tail] - ends[turns.tail_of]) > 0
    first, then = turns.tail_of[alone], turns.in_tail[alone]
    own_ns = own_ns.copy()
    own_ns[then] = ends[then] - ends[first]
    edges.add(finish(first), finish(then), own_ns[then], "engine", then)
    if perhaps:
        edges.add(finish(turns.maybe_before), begin(turns.maybe_after), 0, "engine")
    return own_ns


def _device_order(edges: _Edges, device: Device, starts: Int, ends: Int) -> None:
    """Add stream order, engine order, and delivery after the call; what waited for other work shows no delivery."""
    idle_from = np.full(len(starts), NEVER, dtype=np.int64)
    for stream in device.streams:
        _in_order(edges, stream, starts, ends, "stream")
        idle_from[stream[1:]] = np.maximum.accumulate(ends[stream[:-1]])
    for direction in ("copy_h2d", "copy_d2h"):
        copies = device.rows[device.kind[device.rows] == KIND[direction]]
        for number in np.unique(device.gpu[copies]):
            gpu_copies = copies[device.gpu[copies] == number]
            _in_order(edges, gpu_copies[np.lexsort((ends[gpu_copies], starts[gpu_copies]))], starts, ends, "engine", device.place)
    started = device.rows[device.call[device.rows] >= 0]
    started = started[np.lexsort((starts[started], device.call[started]))]
    call = device.call[started]
    held_until = edges.held_until(ends)
    delay = np.maximum(starts[started] - starts[call], 0)
    # only the first work of a call shows what delivery takes
    first = np.diff(call, prepend=-1) != 0
    free, length = (np.maximum(idle_from, held_until)[started] <= starts[call]) & first, (ends - starts)[call]
    typical = _typical_delivery(delay, free, device.table[started])
    # a call that is longer than a delivery, and than calls are whose work began within them, prepared the work first (loaded its code,
    # staged its data), if the work began after its end
    after = starts[started] >= ends[call]
    prepared = after & (length > np.maximum(typical, _plain_calls(length, free & ~after, device.table[started])))
    edges.add(finish(call[prepared]), begin(started[prepared]), np.minimum(starts[started] - ends[call], typical)[prepared], "deliver")
    # a delivery faster than the typical one is believed, a slower one was not delivery alone
    edges.add(begin(call[~prepared]), begin(started[~prepared]), np.minimum(delay, typical)[~prepared], "deliver")


def _in_order(edges: _Edges, work: Int, starts: Int, ends: Int, kind: str, place: Int | None = None) -> None:
    """Make each wait for the one before it and for the one that ended last so far, where they do not overlap; with `place`, only if the
    two are in different streams."""
    longest = np.maximum.accumulate(ends[work])
    longest_index = np.maximum.accumulate(np.where(np.diff(longest, prepend=-1) > 0, np.arange(len(work)), 0))[:-1]
    before, after = work[:-1], work[1:]
    for source, wanted in ((before, np.ones(len(before), dtype=np.bool_)), (work[longest_index], work[longest_index] != before)):
        kept = wanted & (ends[source] <= starts[after])
        if place is not None:
            kept &= place[source] != place[after]
        edges.add(finish(source[kept]), begin(after[kept]), 0, kind)


def _programmatic(edges: _Edges, device: Device, host: Host, starts: Int, ends: Int) -> int:
    """Make kernels that were launched to overlap the one before them on their stream begin as far into it as they did; return how many.

    A programmatic dependent launch (CUDA 11.8) lets a kernel begin when the one before it says so; it waits for its end within.
    """
    count = 0
    for stream, place in zip(device.streams, device.where, strict=True):
        before, after = stream[:-1], stream[1:]
        over = ends[before] - starts[after]
        kept = (over > 0) & (over <= _PROLOGUE_NS) & (ends[after] >= ends[before]) & (starts[after] > starts[before])
        kept &= (device.table[before] == TABLE["kernels"]) & (device.table[after] == TABLE["kernels"]) & (device.call[after] >= 0)
        kept[kept] &= host.programmatic[device.call[after[kept]]]
        before, after = before[kept], after[kept]
        edges.add(begin(before), begin(after), starts[after] - starts[before], "stream", before)
        count += len(after) if place[2] != UNKNOWN else 0
    return count


def _typical_delivery(delay: Int, free: Bool, table: NDArray[np.int8]) -> Int:
    """Return median delivery to an idle stream by kind of work [ns]; over all kinds where one was seldom seen to find its stream idle."""
    least = int(delay.min()) if len(delay) else 0
    typical = np.full(len(delay), int(np.median(delay[free])) if free.any() else least, dtype=np.int64)
    for code in np.unique(table):
        mask = table == code
        if (mask & free).sum() > _SEEN_IDLE * mask.sum():
            typical[mask] = int(np.median(delay[mask & free]))
    return typical


def _plain_calls(length: Int, within: Bool, table: NDArray[np.int8]) -> Int:
    """Return by kind of work how long calls are that prepare nothing [ns]: most whose work began within them; 0 where none did."""
    plain = np.zeros(len(length), dtype=np.int64)
    for code in np.unique(table[within]):
        mask = table == code
        plain[mask] = int(np.quantile(length[mask & within], _PLAIN))
    return plain


def _barriers(edges: _Edges, device: Device, starts: Int, ends: Int) -> None:
    """Make the legacy default stream and the blocking streams of its context wait for each other, in the order of their calls."""
    for null in np.flatnonzero(device.null).tolist():
        for other in device.ordered_with(null)[1:]:
            for first, then in ((null, other), (other, null)):
                target = device.streams[then]
                index = np.searchsorted(device.issued[first], device.called[target], side="left") - 1
                # the next on a stream waits for what the one before it waited for
                valid = (index >= 0) & (device.called[target] > NEVER) & (np.diff(index, prepend=-1) != 0)
                source, target = device.streams[first][index[valid]], target[valid]
                held = ends[source] <= starts[target]
                edges.add(finish(source[held]), begin(target[held]), 0, "barrier")


def _events(edges: _Edges, device: Device, named: pl.DataFrame, profile: Profile, starts: Int, ends: Int) -> Reach:
    """Make work issued behind a cudaStreamWaitEvent wait for the work that the event was recorded behind."""
    waits = event_waits(device, named, profile, "stream waits for event")
    reach = Reach(device, waits)
    orders = zip(waits.stream.tolist(), waits.called.tolist(), reach.works, strict=True)
    pending = [(waiter, t, works) for s, t, works in orders if s >= 0 and works for waiter in reach.waiting(s)]
    source: list[int] = []
    target: list[int] = []
    for stream in {s for s, _, _ in pending}:
        group = [(t, works) for s, t, works in pending if s == stream]
        to = device.before(stream, np.array([t for t, _ in group], dtype=np.int64)) + 1
        for behind, (_, works) in zip(to.tolist(), group, strict=True):
            if behind < len(device.streams[stream]):
                source += works
                target += [int(device.streams[stream][behind])] * len(works)
    first, then = np.array(source, dtype=np.int64), np.array(target, dtype=np.int64)
    held = (ends[first] <= starts[then]) & (device.place[first] != device.place[then])
    edges.add(finish(first[held]), begin(then[held]), 0, "event")
    return reach


def _graph_nodes(edges: _Edges, device: Device, starts: Int, ends: Int) -> None:
    """Make each node of a graph launch wait for the node that ended last before it, if it did so in every launch that had both."""
    nodes = device.rows[(device.node[device.rows] >= 0) & (device.call[device.rows] >= 0)]
    if not len(nodes):
        return
    frame = pl.DataFrame(
        {
            "i": nodes,
            "launch": device.call[nodes],
            # processes number their nodes alike
            "node": np.unique(np.stack([device.process[nodes], device.node[nodes]], axis=1), axis=0, return_inverse=True)[1].reshape(-1),
            "start": starts[nodes],
            "end": ends[nodes],
        }
    )
    by_end = frame.sort("end").select("launch", before="node", ended="end")
    pairs = (
        frame.sort("start")
        .join_asof(by_end, left_on="start", right_on="ended", by="launch", check_sortedness=False)
        .filter(pl.col("before").is_not_null() & (pl.col("before") != pl.col("node")))
        .select("before", "node")
        .unique(maintain_order=True)
    )
    unrepeated = frame.unique(["launch", "node"], keep="none")  # a node that ran several times in one launch tells no order
    seen = (
        pairs.join(unrepeated.select("launch", "node", "i", "start"), on="node")
        .join(unrepeated.select("launch", before="node", first="i", ended="end"), on=["launch", "before"])
        .with_columns(always=(pl.col("ended") <= pl.col("start")).all().over("before", "node"))
        .filter("always")
    )
    edges.add(finish(seen["first"].to_numpy()), begin(seen["i"].to_numpy()), 0, "graph")
    inner = np.zeros(len(starts), dtype=np.bool_)
    inner[seen["i"].to_numpy()] = True
    _launches_of_one_graph(edges, device, nodes, inner, starts, ends)


def _launches_of_one_graph(edges: _Edges, device: Device, nodes: Int, inner: Bool, starts: Int, ends: Int) -> None:
    """Make a launch of a graph wait for the launch before it: one graph is never at work twice at once.

    Executable graphs made of one graph may be: where launches overlap, no rule is known.  `inner` nodes wait for others of their launch.
    """
    nodes = nodes[device.graph[nodes] >= 0]
    if not len(nodes):
        return
    frame = pl.DataFrame(
        {name: values[nodes] for name, values in (("graph", device.graph), ("process", device.process), ("call", device.call))}
    )
    frame = frame.with_columns(pl.Series("i", nodes), start=starts[nodes], end=ends[nodes], inner=inner[nodes])
    launches = frame.group_by("process", "graph", "call", maintain_order=True).agg(
        pl.col("start").min(), pl.col("end").max(), last=pl.col("i").get(pl.col("end").arg_max())
    )
    launches = launches.sort("process", "graph", "start").with_columns(
        before=pl.col("last").shift(1).over("process", "graph"), over=pl.col("end").shift(1).over("process", "graph")
    )
    launches = launches.with_columns(apart=(pl.col("over") <= pl.col("start")).all().over("process", "graph")).filter("apart")
    begun = frame.filter(~pl.col("inner")).join(launches.drop_nulls("before"), on=["process", "graph", "call"])
    edges.add(finish(begun["before"].to_numpy()), begin(begun["i"].to_numpy()), 0, "graph")


def _faults(edges: _Edges, device: Device, starts: Int, ends: Int, own_ns: Int) -> Int:
    """Split a kernel into a chain through the pages moved in while it runs: it stands still meanwhile, its own work lies between."""
    paged = device.paged
    kernels = device.rows[device.kind[device.rows] == KIND["kernel"]]
    if not len(paged) or not len(kernels):
        return own_ns
    gpu = device.gpu
    own_ns = own_ns.copy()
    for number in np.unique(gpu[paged]):
        pages, work = paged[gpu[paged] == number], kernels[gpu[kernels] == number]
        pages, work = pages[np.argsort(starts[pages], kind="stable")], work[np.argsort(starts[work], kind="stable")]
        if not len(work):
            continue
        index = np.searchsorted(starts[work], starts[pages], side="right") - 1
        kernel = work[np.maximum(index, 0)]
        inside = (index >= 0) & (ends[pages] <= ends[kernel]) & (starts[kernel] < starts[pages])
        pages, kernel = pages[inside], kernel[inside]
        if not len(pages):
            continue
        first = np.concatenate([[True], kernel[1:] != kernel[:-1]])
        last = np.concatenate([first[1:], [True]])
        # moves that overlap are one wait: the chain goes through those that end later than all before them
        follows = ~first
        apart = np.zeros(len(pages), dtype=np.bool_)
        apart[1:] = starts[pages][1:] >= ends[pages][:-1]
        chained = follows & apart
        edges.add(begin(kernel[first]), begin(pages[first]), (starts[pages] - starts[kernel])[first], "fault", kernel[first])
        before = np.flatnonzero(chained) - 1
        edges.add(finish(pages[before]), begin(pages[chained]), starts[pages][chained] - ends[pages][before], "fault", kernel[chained])
        beside = follows & ~apart
        before = np.flatnonzero(beside) - 1
        edges.add(begin(pages[before]), begin(pages[beside]), starts[pages][beside] - starts[pages][before], "fault", kernel[beside])
        edges.add(finish(pages[last]), finish(kernel[last]), (ends[kernel] - ends[pages])[last], "fault", kernel[last])
        moving = np.bincount(kernel, weights=(ends - starts)[pages], minlength=len(own_ns)).astype(np.int64)
        own_ns -= np.minimum(moving, own_ns)
    return own_ns


# --- both -------------------------------------------------------------------------------------------------------------


def _waits(
    edges: _Edges, device: Device, host: Host, profile: Profile, named: pl.DataFrame, reach: Reach, starts: Int, ends: Int, own_ns: Int
) -> tuple[Int, tuple[int, int]]:
    """Add an edge to each waiting call from what it waits for; return what each call costs by itself, and `Graph.asleep_ns`.

    A call returns one return after the last of what it waits for has ended: that is the lag from each of them.
    """
    call, work, sure = waited_for(device, host, profile, named, reach, starts, ends)
    held = ends[work] <= ends[call]
    call, work, sure = call[held], work[held], sure[held]
    over = np.full(len(starts), NEVER, dtype=np.int64)
    np.maximum.at(over, call, ends[work])
    waited = over[call] > starts[call]
    back = ends[call] - over[call]
    typical = int(np.median(back[waited & sure])) if (waited & sure).any() else 0
    # a call that need not wait did so if it returned just after work it found unfinished
    evident = sure | (waited & (back <= 10 * typical))
    # of several calls of one thread that wait for the same work the first will do: the others come after it
    order = np.flatnonzero(evident)[np.argsort(starts[call[evident]], kind="stable")]
    kept = order[np.unique(np.stack([host.thread[call], work], axis=1)[order], axis=0, return_index=True)[1]]
    call, work, back, waited = call[kept], work[kept], back[kept], waited[kept]
    edges.add(finish(work), finish(call), np.where(waited, back, np.minimum(back, typical)), "sync")
    own_ns = own_ns.copy()
    np.minimum.at(own_ns, call[waited], back[waited])
    sleeping = np.unique(call[waited & (ends[call] - np.maximum(host.polled[call], 0) > POLL_NS) & (host.polled[call] > NEVER)])
    asleep = int((ends - over)[sleeping].sum()), int((over - host.polled)[sleeping].sum())
    launch, work, slow, typical = full_queue(device, host, starts, ends)
    held = ends[work] <= ends[launch]
    launch, work = launch[held], work[held]
    edges.add(finish(work), finish(launch), np.minimum(ends[launch] - ends[work], typical), "queue")
    own_ns[slow] = np.minimum(own_ns[slow], typical)
    return own_ns, asleep


def _settled(activity: Int, starts: Int, ends: Int, edges: _Edges) -> Graph:
    """Return all edges as arrays; none may put an instant later than recorded, and an instant that waits for nothing has its origin."""
    time = np.zeros(2 * len(activity) + 1, dtype=np.int64)
    time[1::2], time[2::2] = starts, ends
    lasts = ends > starts
    waits = np.zeros(len(time), dtype=np.bool_)
    waits[0] = True
    kept, dropped = [], 0
    for word, part in edges.parts:
        source, target = part[:2]
        room = time[target] - time[source]
        dropped += int((room < 0).sum())
        # a thread's and a stream's own order cannot close a ring; the other rules cannot either if they lead strictly forward in time, or
        # to the begin of work that takes time
        least = np.where((target % 2 == 1) & lasts[(target - 1) // 2], 0, 1) if word in _ACROSS else int(word not in _OWN_ORDER)
        agrees = room >= least
        kept.append(tuple(values[agrees] for values in part))
        waits[target[agrees]] = True
    # groups are larger than the graph they make: each goes before the next array is joined
    edges.parts.clear()
    lonely = np.flatnonzero(~waits).astype(np.int32)
    origin = np.full(len(lonely), EDGE["origin"], dtype=np.int8)
    kept.append((np.zeros_like(lonely), lonely, time[lonely], np.full_like(lonely, -1), origin))
    source, target, lag, paid, kind = (np.concatenate(group) for group in zip(*kept, strict=True))
    kept.clear()
    room = time[target] - time[source]
    # few edges are shortened: pages that nothing is written to take no memory
    clipped = np.zeros(len(time), dtype=np.int64)
    over = np.flatnonzero(lag > room)
    np.maximum.at(clipped, target[over], (lag - room)[over])
    lag = np.minimum(lag, room)
    latest = np.zeros(len(time), dtype=np.int64)
    np.maximum.at(latest, target, time[source] + lag)
    return Graph(time, activity, source, target, lag, kind, time - latest, clipped, dropped, paid=paid)
