"""Who must wait for whom: a profile as a graph of instants.

Every activity has two instants, its start and its end; instant 0 is the run's start.  An instant
happens when the last of what it waits for has happened, plus the edge's lag, plus a residual no
rule explains.  Rules, one kind of edge each:

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

Lags are what was recorded, so that an unchanged replay gives back every recorded instant; waiting
itself is never an edge's lag.  An edge that the recording contradicts (its work ended after the
wait returned) is left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.profile.dependencies.device_rules import (
    barriers,
    device_order,
    events,
    faults,
    graph_nodes,
    programmatic,
    take_turns,
    without_call,
)
from turnbuckle.profile.dependencies.filling import turns
from turnbuckle.profile.dependencies.graph import Edges, Graph, begin, finish, settled
from turnbuckle.profile.dependencies.ranks import meetings
from turnbuckle.profile.dependencies.sides import NEVER, POLL_NS, UNKNOWN, Device, Host, activities
from turnbuckle.profile.dependencies.stream_waits import unrecorded_waits
from turnbuckle.profile.dependencies.threads import first_calls, handed_over
from turnbuckle.profile.dependencies.waits import Reach, full_queue, named_waits, waited_for
from turnbuckle.profile.messages.mpi_calls import in_words
from turnbuckle.profile.profile import Profile


def dependencies(profile: Profile) -> Graph:
    """Build the graph of a profile.

    Calls inside other calls, and gaps, are no activities of it: the outer call and the host edge
    stand for them.
    """
    return _Rules(profile).graph()


def both_orders(profile: Profile) -> tuple[Graph, Graph | None]:
    """Build the graph of a profile, and the one in which work also waits for what it may have
    waited for.

    The second is None where nothing is in doubt: no two streams, processes or threads meet that
    nothing joins.
    """
    rules = _Rules(profile)
    known = rules.graph()
    return known, rules.graph(perhaps=True) if rules.in_doubt else None


class _Rules:
    """What the rules look at, made once for both graphs."""

    def __init__(self, profile: Profile) -> None:
        rows = activities(profile)
        self.profile, self.trace = profile, profile.trace
        self.starts, self.ends = (
            rows[name].to_numpy() - profile.first_ns for name in ("start_ns", "end_ns")
        )
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
        host, device, starts, ends, edges = self.host, self.device, self.starts, self.ends, Edges()
        # when the last of those an activity meets has begun, or it itself
        latest = starts.copy()
        np.maximum.at(latest, self.met.waits, starts[self.met.first])
        own_ns = np.maximum(ends - latest, 0)
        edges.add(begin(self.met.first), finish(self.met.waits), own_ns[self.met.waits], "meet")
        own_ns = _host_order(edges, host, starts, ends, latest, own_ns, perhaps)
        _goes_on(edges, host, device, starts, ends)
        own_ns = take_turns(edges, self.turns, starts, ends, own_ns, perhaps)
        overlapped = programmatic(edges, device, host, starts, ends)
        barriers(edges, device, starts, ends)
        reach = events(edges, device, self.named, self.profile, starts, ends)
        first, then = unrecorded_waits(device, host, self.trace, starts, ends)
        edges.add(finish(first), begin(then), 0, "event")
        graph_nodes(edges, device, starts, ends)
        device_order(edges, device, starts, ends)
        without_call(edges, device, host, starts, ends)
        own_ns = faults(edges, device, starts, ends, own_ns)
        own_ns, asleep_ns = _waits(
            edges, device, host, self.profile, self.named, reach, starts, ends, own_ns
        )
        edges.add(begin(host.rows), finish(host.rows), own_ns[host.rows], "call")
        edges.add(begin(device.rows), finish(device.rows), own_ns[device.rows], "run")
        streams = [
            s for s, place in zip(device.streams, device.where, strict=True) if place[2] != UNKNOWN
        ]
        overlapping = sum(int((ends[s[:-1]] > starts[s[1:]]).sum()) for s in streams) - overlapped
        early = int((starts[device.rows] < device.called[device.rows]).sum())
        alone = (
            ""
            if self.met.alone is None
            else in_words(self.met.alone, self.trace, self.profile.first_ns)
        )
        del reach, own_ns, latest
        graph = settled(self.activity, starts, ends, edges)
        graph = replace(graph, overlapping=overlapping, early=early, asleep_ns=asleep_ns)
        return replace(graph, unmatched=self.met.unmatched, unmatched_calls=alone)


# --- the host -------------------------------------------------------------------------------------


def _host_order(
    edges: Edges, host: Host, starts: Int, ends: Int, latest: Int, own_ns: Int, perhaps: bool
) -> Int:
    """Chain each thread's calls; the time between two calls is the application's own work, or a
    wait for another thread.

    A call around others (an MPI call that copies from a GPU) is no more than the chain of what it
    holds, and of whom it meets (`latest`: when the last of those had begun).
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
    position = np.maximum.accumulate(
        np.where(np.diff(reach, prepend=-1) > 0, np.arange(len(order)), 0)
    )
    followers = np.flatnonzero(outer & ~heads)
    before, after = order[position[followers - 1]], order[followers]
    giver, taker, lag, mutual = handed_over(
        order[outer], host.thread, host.process, starts, ends, perhaps
    )
    edges.add(finish(giver), begin(taker), lag, "host")
    # of two threads that hand over to each other, one works only once the other has; where only one
    # way is known, what the giver itself waits for is not, and the taker keeps its time, so that no
    # delay of it is lost
    worked = np.full(len(starts), NEVER, dtype=np.int64)
    worked[taker[mutual]] = (starts[taker] - lag)[mutual]
    edges.add(
        finish(before),
        begin(after),
        starts[after] - np.maximum(ends[before], worked[after]),
        "host",
    )
    return _nested(edges, order, outer, starts, ends, latest, own_ns) if not outer.all() else own_ns


def _goes_on(edges: Edges, host: Host, device: Device, starts: Int, ends: Int) -> None:
    """Make a thread that goes on with the work of others begin after their last call: a task moved
    to it (Julia, thread pools).

    Its first call waits, though the thread has started nothing; or what that starts is on a stream
    that others have used.
    """
    order = host.rows[np.lexsort((starts[host.rows], host.thread[host.rows]))]
    before, first = first_calls(order, host.thread, host.process, starts, ends)
    others = np.zeros(len(starts), dtype=np.bool_)
    for stream in device.streams:
        called = stream[device.call[stream] >= 0]
        calls = device.call[called]
        others[calls[1:]] |= (host.thread[calls[1:]] != host.thread[calls[:-1]]) & (
            starts[calls[1:]] > starts[calls[:-1]]
        )
    started = np.min(starts[device.call[device.call >= 0]], initial=np.iinfo(np.int64).max)
    on = others[first] | ((host.waits[first] | (host.scope[first] > 0)) & (starts[first] > started))
    edges.add(finish(before[on]), begin(first[on]), (starts[first] - ends[before])[on], "host")


def _nested(
    edges: Edges, order: Int, outer: Bool, starts: Int, ends: Int, latest: Int, own_ns: Int
) -> Int:
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
        # two calls of one thread that overlap without one holding the other: the second has no
        # predecessor and keeps its origin
        stack.append(v)
    around = np.array(list(last), dtype=np.int64)
    inside = np.array(list(last.values()), dtype=np.int64)
    edges.add(np.array(source), np.array(target), np.array(lag), "host")
    edges.add(
        finish(inside),
        finish(around),
        ends[around] - np.clip(latest[around], ends[inside], ends[around]),
        "host",
    )
    own_ns[around] = 0
    return own_ns


# --- both -----------------------------------------------------------------------------------------


def _waits(
    edges: Edges,
    device: Device,
    host: Host,
    profile: Profile,
    named: pl.DataFrame,
    reach: Reach,
    starts: Int,
    ends: Int,
    own_ns: Int,
) -> tuple[Int, tuple[int, int]]:
    """Add an edge to each waiting call from what it waits for; return what each call costs by
    itself, and `Graph.asleep_ns`.

    A call returns one return after the last of what it waits for has ended: that is the lag from
    each of them.
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
    # of several calls of one thread that wait for the same work the first will do: the others come
    # after it
    order = np.flatnonzero(evident)[np.argsort(starts[call[evident]], kind="stable")]
    kept = order[
        np.unique(np.stack([host.thread[call], work], axis=1)[order], axis=0, return_index=True)[1]
    ]
    call, work, back, waited = call[kept], work[kept], back[kept], waited[kept]
    edges.add(finish(work), finish(call), np.where(waited, back, np.minimum(back, typical)), "sync")
    own_ns = own_ns.copy()
    np.minimum.at(own_ns, call[waited], back[waited])
    sleeping = np.unique(
        call[
            waited
            & (ends[call] - np.maximum(host.polled[call], 0) > POLL_NS)
            & (host.polled[call] > NEVER)
        ]
    )
    asleep = int((ends - over)[sleeping].sum()), int((over - host.polled)[sleeping].sum())
    launch, work, slow, typical = full_queue(device, host, starts, ends)
    held = ends[work] <= ends[launch]
    launch, work = launch[held], work[held]
    edges.add(finish(work), finish(launch), np.minimum(ends[launch] - ends[work], typical), "queue")
    own_ns[slow] = np.minimum(own_ns[slow], typical)
    return own_ns, asleep
