"""Rules of the device: the order of streams, engines, events, graphs and pages, and when work is
delivered.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.profile.classify import KIND
from turnbuckle.profile.dependencies.filling import Turns
from turnbuckle.profile.dependencies.graph import Edges, begin, finish
from turnbuckle.profile.dependencies.sides import NEVER, TABLE, UNKNOWN, Device, Host
from turnbuckle.profile.dependencies.waits import Reach, event_waits
from turnbuckle.profile.profile import Profile

#: Share of one kind of work that must have found its stream idle for its own typical delivery to
#: count.
_SEEN_IDLE: Final = 0.1
#: How much a kernel launched programmatically may overlap the one before it [ns]: twice what the
#: recordings at hand show (1.7 to 3.7 us).
_PROLOGUE_NS: Final = 10_000
#: Share of the calls whose work began within them that is not longer than a plain call.
_PLAIN: Final = 0.9


def take_turns(
    edges: Edges, turns: Turns, starts: Int, ends: Int, own_ns: Int, perhaps: bool
) -> Int:
    """Make kernels wait for the device; if `perhaps`, those too that may have waited; return what
    each takes by itself.

    A kernel that begins in the last wave of another begins as far into it as it did, and has the
    device to itself once that has ended.
    """
    edges.add(finish(turns.before), begin(turns.after), 0, "engine")
    edges.add(
        begin(turns.tail_of),
        begin(turns.in_tail),
        starts[turns.in_tail] - starts[turns.tail_of],
        "engine",
        turns.tail_of,
    )
    alone = (ends[turns.in_tail] - ends[turns.tail_of]) > 0
    first, then = turns.tail_of[alone], turns.in_tail[alone]
    own_ns = own_ns.copy()
    own_ns[then] = ends[then] - ends[first]
    edges.add(finish(first), finish(then), own_ns[then], "engine", then)
    if perhaps:
        edges.add(finish(turns.maybe_before), begin(turns.maybe_after), 0, "engine")
    return own_ns


def device_order(edges: Edges, device: Device, starts: Int, ends: Int) -> None:
    """Add stream order, engine order, and delivery after the call; what waited for other work shows
    no delivery.
    """
    idle_from = np.full(len(starts), NEVER, dtype=np.int64)
    for stream in device.streams:
        _in_order(edges, stream, starts, ends, "stream")
        idle_from[stream[1:]] = np.maximum.accumulate(ends[stream[:-1]])
    for direction in ("copy_h2d", "copy_d2h"):
        copies = device.rows[device.kind[device.rows] == KIND[direction]]
        for number in np.unique(device.gpu[copies]):
            gpu_copies = copies[device.gpu[copies] == number]
            _in_order(
                edges,
                gpu_copies[np.lexsort((ends[gpu_copies], starts[gpu_copies]))],
                starts,
                ends,
                "engine",
                device.place,
            )
    started = device.rows[device.call[device.rows] >= 0]
    started = started[np.lexsort((starts[started], device.call[started]))]
    call = device.call[started]
    held_until = edges.held_until(ends)
    delay = np.maximum(starts[started] - starts[call], 0)
    # only the first work of a call shows what delivery takes
    first = np.diff(call, prepend=-1) != 0
    free, length = (
        (np.maximum(idle_from, held_until)[started] <= starts[call]) & first,
        (ends - starts)[call],
    )
    typical = _typical_delivery(delay, free, device.table[started])
    # a call that is longer than a delivery, and than calls are whose work began within them,
    # prepared the work first (loaded its code, staged its data), if the work began after its end
    after = starts[started] >= ends[call]
    prepared = after & (
        length > np.maximum(typical, _plain_calls(length, free & ~after, device.table[started]))
    )
    edges.add(
        finish(call[prepared]),
        begin(started[prepared]),
        np.minimum(starts[started] - ends[call], typical)[prepared],
        "deliver",
    )
    # a delivery faster than the typical one is believed, a slower one was not delivery alone
    edges.add(
        begin(call[~prepared]),
        begin(started[~prepared]),
        np.minimum(delay, typical)[~prepared],
        "deliver",
    )


def without_call(edges: Edges, device: Device, host: Host, starts: Int, ends: Int) -> None:
    """Make work whose call was not recorded, the first of its stream, begin as long after the last
    call before it as it did.

    That call had returned when the call of the work began at the latest: the quickest delivery of
    the run before it.
    """
    launched = device.rows[device.call[device.rows] >= 0]
    first = np.array([stream[0] for stream in device.streams if len(stream)], dtype=np.int64)
    alone = first[(device.call[first] < 0) & (device.kind[first] != KIND["migration"])]
    if not len(launched) or not len(alone):
        return
    delivery, held_until = (
        max(int((starts[launched] - device.called[launched]).min()), 0),
        edges.held_until(ends),
    )
    for process in np.unique(device.process[alone]).tolist():
        calls = host.calls[host.process[host.calls] == process]
        if not len(calls):
            continue
        calls = calls[np.argsort(ends[calls], kind="stable")]
        work = alone[device.process[alone] == process]
        place = np.searchsorted(ends[calls], starts[work] - delivery, side="right") - 1
        work, call = work[place >= 0], calls[np.maximum(place, 0)][place >= 0]
        # what waited for other work follows that
        free = held_until[work] <= ends[call]
        work, call = work[free], call[free]
        edges.add(finish(call), begin(work), starts[work] - ends[call], "deliver")


def _in_order(
    edges: Edges, work: Int, starts: Int, ends: Int, kind: str, place: Int | None = None
) -> None:
    """Make each wait for the one before it and for the one that ended last so far, where they do
    not overlap; with `place`, only if the two are in different streams.
    """
    longest = np.maximum.accumulate(ends[work])
    longest_index = np.maximum.accumulate(
        np.where(np.diff(longest, prepend=-1) > 0, np.arange(len(work)), 0)
    )[:-1]
    before, after = work[:-1], work[1:]
    for source, wanted in (
        (before, np.ones(len(before), dtype=np.bool_)),
        (work[longest_index], work[longest_index] != before),
    ):
        kept = wanted & (ends[source] <= starts[after])
        if place is not None:
            kept &= place[source] != place[after]
        edges.add(finish(source[kept]), begin(after[kept]), 0, kind)


def programmatic(edges: Edges, device: Device, host: Host, starts: Int, ends: Int) -> int:
    """Make kernels that were launched to overlap the one before them on their stream begin as far
    into it as they did; return how many.

    A programmatic dependent launch (CUDA 11.8) lets a kernel begin when the one before it says so;
    it waits for its end within.
    """
    count = 0
    for stream, place in zip(device.streams, device.where, strict=True):
        before, after = stream[:-1], stream[1:]
        over = ends[before] - starts[after]
        kept = (
            (over > 0)
            & (over <= _PROLOGUE_NS)
            & (ends[after] >= ends[before])
            & (starts[after] > starts[before])
        )
        kept &= (
            (device.table[before] == TABLE["kernels"])
            & (device.table[after] == TABLE["kernels"])
            & (device.call[after] >= 0)
        )
        kept[kept] &= host.programmatic[device.call[after[kept]]]
        before, after = before[kept], after[kept]
        edges.add(begin(before), begin(after), starts[after] - starts[before], "stream", before)
        count += len(after) if place[2] != UNKNOWN else 0
    return count


def _typical_delivery(delay: Int, free: Bool, table: NDArray[np.int8]) -> Int:
    """Return median delivery to an idle stream by kind of work [ns]; over all kinds where one was
    seldom seen to find its stream idle.
    """
    least = int(delay.min()) if len(delay) else 0
    typical = np.full(
        len(delay), int(np.median(delay[free])) if free.any() else least, dtype=np.int64
    )
    for code in np.unique(table):
        mask = table == code
        if (mask & free).sum() > _SEEN_IDLE * mask.sum():
            typical[mask] = int(np.median(delay[mask & free]))
    return typical


def _plain_calls(length: Int, within: Bool, table: NDArray[np.int8]) -> Int:
    """Return by kind of work how long calls are that prepare nothing [ns]: most whose work began
    within them; 0 where none did.
    """
    plain = np.zeros(len(length), dtype=np.int64)
    for code in np.unique(table[within]):
        mask = table == code
        plain[mask] = int(np.quantile(length[mask & within], _PLAIN))
    return plain


def barriers(edges: Edges, device: Device, starts: Int, ends: Int) -> None:
    """Make the legacy default stream and the blocking streams of its context wait for each other,
    in the order of their calls.
    """
    for null in np.flatnonzero(device.null).tolist():
        for other in device.ordered_with(null)[1:]:
            for first, then in ((null, other), (other, null)):
                target = device.streams[then]
                index = (
                    np.searchsorted(device.issued[first], device.called[target], side="left") - 1
                )
                # the next on a stream waits for what the one before it waited for
                valid = (
                    (index >= 0)
                    & (device.called[target] > NEVER)
                    & (np.diff(index, prepend=-1) != 0)
                )
                source, target = device.streams[first][index[valid]], target[valid]
                held = ends[source] <= starts[target]
                edges.add(finish(source[held]), begin(target[held]), 0, "barrier")


def events(
    edges: Edges, device: Device, named: pl.DataFrame, profile: Profile, starts: Int, ends: Int
) -> Reach:
    """Make work issued behind a cudaStreamWaitEvent wait for the work that the event was recorded
    behind.
    """
    waits = event_waits(device, named, profile, "stream waits for event")
    reach = Reach(device, waits)
    orders = zip(waits.stream.tolist(), waits.called.tolist(), reach.works, strict=True)
    pending = [
        (waiter, t, works)
        for s, t, works in orders
        if s >= 0 and works
        for waiter in reach.waiting(s)
    ]
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


def graph_nodes(edges: Edges, device: Device, starts: Int, ends: Int) -> None:
    """Make each node of a graph launch wait for the node that ended last before it, if it did so in
    every launch that had both.
    """
    nodes = device.rows[(device.node[device.rows] >= 0) & (device.call[device.rows] >= 0)]
    if not len(nodes):
        return
    frame = pl.DataFrame(
        {
            "i": nodes,
            "launch": device.call[nodes],
            # processes number their nodes alike
            "node": np.unique(
                np.stack([device.process[nodes], device.node[nodes]], axis=1),
                axis=0,
                return_inverse=True,
            )[1].reshape(-1),
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
    # a node that ran several times in one launch tells no order
    unrepeated = frame.unique(["launch", "node"], keep="none")
    seen = (
        pairs.join(unrepeated.select("launch", "node", "i", "start"), on="node")
        .join(
            unrepeated.select("launch", before="node", first="i", ended="end"),
            on=["launch", "before"],
        )
        .with_columns(always=(pl.col("ended") <= pl.col("start")).all().over("before", "node"))
        .filter("always")
    )
    edges.add(finish(seen["first"].to_numpy()), begin(seen["i"].to_numpy()), 0, "graph")
    inner = np.zeros(len(starts), dtype=np.bool_)
    inner[seen["i"].to_numpy()] = True
    _launches_of_one_graph(edges, device, nodes, inner, starts, ends)


def _launches_of_one_graph(
    edges: Edges, device: Device, nodes: Int, inner: Bool, starts: Int, ends: Int
) -> None:
    """Make a launch of a graph wait for the launch before it: one graph is never at work twice at
    once.

    Executable graphs made of one graph may be: where launches overlap, no rule is known.  `inner`
    nodes wait for others of their launch.
    """
    nodes = nodes[device.graph[nodes] >= 0]
    if not len(nodes):
        return
    frame = pl.DataFrame(
        {
            name: values[nodes]
            for name, values in (
                ("graph", device.graph),
                ("process", device.process),
                ("call", device.call),
            )
        }
    )
    frame = frame.with_columns(
        pl.Series("i", nodes), start=starts[nodes], end=ends[nodes], inner=inner[nodes]
    )
    launches = frame.group_by("process", "graph", "call", maintain_order=True).agg(
        pl.col("start").min(), pl.col("end").max(), last=pl.col("i").get(pl.col("end").arg_max())
    )
    launches = launches.sort("process", "graph", "start").with_columns(
        before=pl.col("last").shift(1).over("process", "graph"),
        over=pl.col("end").shift(1).over("process", "graph"),
    )
    launches = launches.with_columns(
        apart=(pl.col("over") <= pl.col("start")).all().over("process", "graph")
    ).filter("apart")
    begun = frame.filter(~pl.col("inner")).join(
        launches.drop_nulls("before"), on=["process", "graph", "call"]
    )
    edges.add(finish(begun["before"].to_numpy()), begin(begun["i"].to_numpy()), 0, "graph")


def faults(edges: Edges, device: Device, starts: Int, ends: Int, own_ns: Int) -> Int:
    """Split a kernel into a chain through the pages moved in while it runs: it stands still
    meanwhile, its own work lies between.
    """
    paged = device.paged
    kernels = device.rows[device.kind[device.rows] == KIND["kernel"]]
    if not len(paged) or not len(kernels):
        return own_ns
    gpu = device.gpu
    own_ns = own_ns.copy()
    for number in np.unique(gpu[paged]):
        pages, work = paged[gpu[paged] == number], kernels[gpu[kernels] == number]
        pages, work = (
            pages[np.argsort(starts[pages], kind="stable")],
            work[np.argsort(starts[work], kind="stable")],
        )
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
        # moves that overlap are one wait: the chain goes through those that end later than all
        # before them
        follows = ~first
        apart = np.zeros(len(pages), dtype=np.bool_)
        apart[1:] = starts[pages][1:] >= ends[pages][:-1]
        chained = follows & apart
        edges.add(
            begin(kernel[first]),
            begin(pages[first]),
            (starts[pages] - starts[kernel])[first],
            "fault",
            kernel[first],
        )
        before = np.flatnonzero(chained) - 1
        edges.add(
            finish(pages[before]),
            begin(pages[chained]),
            starts[pages][chained] - ends[pages][before],
            "fault",
            kernel[chained],
        )
        beside = follows & ~apart
        before = np.flatnonzero(beside) - 1
        edges.add(
            begin(pages[before]),
            begin(pages[beside]),
            starts[pages][beside] - starts[pages][before],
            "fault",
            kernel[beside],
        )
        edges.add(
            finish(pages[last]),
            finish(kernel[last]),
            (ends[kernel] - ends[pages])[last],
            "fault",
            kernel[last],
        )
        moving = np.bincount(kernel, weights=(ends - starts)[pages], minlength=len(own_ns)).astype(
            np.int64
        )
        own_ns -= np.minimum(moving, own_ns)
    return own_ns
