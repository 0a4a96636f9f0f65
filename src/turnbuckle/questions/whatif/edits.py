"""Edits of a program, made on its event graph: each gives a run with other lags or fewer edges, which is projected like any other.

===========  ==========================================================================================================
edit         what it makes of the recorded run
===========  ==========================================================================================================
pin          copies of pageable memory take what the source's price of pinned memory is to that of pageable memory
own stream   copies to the device do not wait for other work of their stream, nor such work for copies to the host
wait NAME    calls of this name do not wait for the device, and keep what they take besides
pool         calls that allocate and free take from nothing to what the fastest tenth of them took, and wait for nothing
graph        launches take half of what they took; at best nothing, and only the device leads from one kernel to the next
===========  ==========================================================================================================

What an edit rests on has two ends, `least` and `most`: the graph does not show whether the host or a kernel reads what an edge waited for,
so that edits which take edges away save between nothing and all of it.  Calls of the start-up are left alone: they make the context, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float, Int, Text
from turnbuckle.foundation.errors import clipped
from turnbuckle.foundation.units import show
from turnbuckle.machine import Machine
from turnbuckle.profile.dependencies.dependencies import EDGE, Graph
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.start_up import StartUp
from turnbuckle.projection.model import Model
from turnbuckle.projection.order import Prepared

#: Share of its time that a launch keeps inside a graph: empty kernels follow each other twice as fast there (gpu-benches, H200: 1.2 us,
#: and 2.4 us without), and one call launches a graph of any length.
_IN_GRAPH: Final = (0.5, 0.0)
#: Share of the calls that allocate and free, the fastest, whose longest shows what a call takes that asks the driver for nothing.
_FASTEST: Final = 0.1
_ALLOCATES: Final = "alloc"
_WAITS: Final = ("sync", "event")
#: Names of waiting calls that are asked about, those that wait longest.
_MOST_WAITS: Final = 8


@dataclass(frozen=True)
class Edit:
    """A change to the program.

    Attributes
    ----------
    name : by which it is asked for.
    title : what is done, in words.
    count : calls or copies that it changes.
    seconds : what they take together as recorded, waiting included [s].
    needs : what must hold for the program to stay right, as far as the graph cannot show it.
    rests : on what the two ends of its gain rest.
    least, most : the run with the edit, by the two ends; `least` is None where that is the run as it is.
    """

    name: str
    title: str
    count: int
    seconds: float
    needs: str
    rests: str
    most: Callable[[Prepared], Prepared] = field(repr=False)
    least: Callable[[Prepared], Prepared] | None = field(default=None, repr=False)


def edits(profile: Profile, ready: Prepared, source: Machine, model: Model, begun: StartUp | None) -> list[Edit]:
    """Return the edits that a run offers.

    Parameters
    ----------
    ready : the run with its order.
    source, model : machine of the recording, and the price list by which copies of pinned memory are priced.
    begun : its start-up, where the recording shows it.
    """
    assert ready.timeline is not None
    graph = ready.timeline.graph
    steady = graph.time_ns[1::2] >= (0 if begun is None else begun.end_ns - profile.first_ns)
    found = [_pin(ready, source, model), _own_stream(ready), *_waits(profile, ready), _pool(ready, steady), _graph(ready, steady)]
    return [edit for edit in found if edit is not None]


# --- the edits --------------------------------------------------------------------------------------------------------


def _pin(ready: Prepared, source: Machine, model: Model) -> Edit | None:
    run = ready.run
    rows = np.isin(run.kind, ("copy_h2d", "copy_d2h")) & (run.memory == "pageable") & (run.seconds > 0)
    if not rows.any():
        return None
    memory = run.memory.copy()
    memory[rows] = "pinned"
    pinned = replace(run, memory=memory)
    ratio = np.ones(len(run))
    for charge in model.charges:
        covered = charge.covers(run)
        if charge.anchor != "ratio" or not (covered & rows).any():
            continue
        before, after = charge.seconds(run, source, source), charge.seconds(pinned, source, source)
        if before is None or after is None:
            return None
        ratio[covered] = np.divide(after, before, out=np.ones(int(covered.sum())), where=np.asarray(before) > 0)
    ratio = np.where(rows, np.minimum(ratio, 1.0), 1.0)
    if (ratio == 1.0).all():
        return None

    def apply(one: Prepared) -> Prepared:
        assert one.timeline is not None
        shorter = _pieces(one, ratio)
        graph = one.timeline.graph
        by_edge = ratio[one.timeline.piece[graph.owner]]
        copied = replace(shorter, run=replace(shorter.run, memory=np.where(rows, "pinned", shorter.run.memory)))
        return _relagged(copied, graph.kind == EDGE["run"], lambda lag: lag * by_edge)

    return Edit(
        "pin", "pin the host memory of copies", round(float(run.count[rows].sum())), float(run.seconds[rows].sum()),
        "memory is pinned once and reused: pinning takes longer than copying it once",
        "rates of pinned and pageable copies of the recording, or of the source's machine file", apply, apply,
    )  # fmt: skip


def _own_stream(ready: Prepared) -> Edit | None:
    assert ready.timeline is not None
    graph, kind = ready.timeline.graph, _kinds(ready)
    stream = (graph.kind == EDGE["stream"]) & ~graph.begun_within
    before, after = (np.maximum(ends - 1, 0) // 2 for ends in (graph.source, graph.target))
    to_device, to_host = kind == "copy_h2d", kind == "copy_d2h"
    moved = stream & ((to_device[after] & ~to_device[before]) | (to_host[before] & ~to_host[after]))
    if not moved.any():
        return None
    # what came before a copy to the host is what its follower waits for now, and a copy to the device is passed over
    first = _beyond(after[stream], before[stream], to_host)[before]
    last = _beyond(before[stream], after[stream], to_device)[after]
    none = len(kind)
    loose = moved & ((first == none) | (last == none))
    kept = moved & ~loose

    def apply(one: Prepared) -> Prepared:
        assert one.timeline is not None
        graph = one.timeline.graph
        source, target = np.where(kept, 2 * first + 2, graph.source), np.where(kept, 2 * last + 1, graph.target)
        return _without(_on(one, replace(graph, source=source.astype(np.int32), target=target.astype(np.int32))), loose)

    rows = np.isin(ready.run.kind, ("copy_h2d", "copy_d2h"))
    return Edit(
        "own stream", "give copies a stream and a second buffer of their own", int((to_device | to_host).sum()),
        float(ready.run.seconds[rows].sum()), "two buffers, and an event where a kernel reads what was copied just before it",
        "from no copy to every copy beside other work", apply,
    )  # fmt: skip


def _beyond(at: Int, leads_to: Int, passed: Bool) -> Int:
    """Return where each activity's chain leads if some are passed over, shape (activities + 1,); the number of activities for nowhere.

    Parameters
    ----------
    at, leads_to : links of the chains.
    passed : mask of the activities passed over; any other leads to itself.
    """
    none = len(passed)
    place = np.full(none + 1, none, dtype=np.int64)
    place[at] = leads_to
    place[:none] = np.where(passed, place[:none], np.arange(none))
    for _ in range(max(none, 1).bit_length()):
        place = place[place]
    return place


def _waits(profile: Profile, ready: Prepared) -> list[Edit]:
    assert ready.timeline is not None
    graph, run = ready.timeline.graph, ready.run
    waits = graph.kind == EDGE["sync"]
    owner = graph.owner
    called = np.isin(run.call_class[ready.timeline.piece], _WAITS) if len(ready.timeline.piece) else np.zeros(0, dtype=np.bool_)
    edges = waits & called[owner]
    if not edges.any():
        return []
    last = int(graph.time_ns.argmax())
    edges &= graph.target != last  # who waits for the end of the run waits for its result
    name = profile.trace.text(profile.activities[graph.activity]).fill_null("a call without a name").to_numpy()
    took = (graph.time_ns[2::2] - graph.time_ns[1::2]) * 1e-9
    out = []
    words, number = np.unique(name[owner[edges]].astype(str), return_inverse=True)
    for k in np.argsort(-np.bincount(number, took[owner[edges]]), kind="stable")[:_MOST_WAITS]:
        mine = edges.copy()
        mine[edges] = number == k
        calls, word = np.unique(owner[mine]), clipped(str(words[k]), 60)
        out.append(
            Edit(
                name=f"wait {word}",
                title=f"do not wait in {word}",
                count=len(calls),
                seconds=float(took[calls].sum()),
                needs="the host reads nothing before the next wait that the work before this one made",
                rests="from no call to every call without waiting",
                most=partial(_without, edges=mine),
            )
        )
    return out


def _pool(ready: Prepared, steady: Bool) -> Edit | None:
    assert ready.timeline is not None
    graph = ready.timeline.graph
    mine = (ready.run.call_class == _ALLOCATES)[ready.timeline.piece] & steady if len(steady) else steady
    if not mine.any():
        return None
    took = (graph.time_ns[2::2] - graph.time_ns[1::2])[mine]
    fast_ns = float(np.quantile(took, _FASTEST))
    calls, waits = ((graph.kind == EDGE[kind]) & mine[graph.owner] for kind in ("call", "sync"))

    def apply(at_most_ns: float) -> Callable[[Prepared], Prepared]:
        return lambda one: _without(_relagged(one, calls, lambda lag: np.minimum(lag, at_most_ns)), waits)

    return Edit(
        "pool", "take memory from a pool", int(mine.sum()), float(took.sum()) * 1e-9,
        "the pool is filled once, and what is freed is used again only behind its last use",
        f"a call takes from nothing to {show(fast_ns * 1e-9, 's')}, as the fastest tenth of them", apply(0.0), apply(fast_ns),
    )  # fmt: skip


def _graph(ready: Prepared, steady: Bool) -> Edit | None:
    assert ready.timeline is not None
    graph, kind = ready.timeline.graph, _kinds(ready)
    mine = (kind == "launch") & steady
    if mine.sum() < 2:
        return None
    calls = (graph.kind == EDGE["call"]) & mine[graph.owner]
    delivers = (graph.kind == EDGE["deliver"]) & mine[np.maximum(graph.source - 1, 0) // 2]
    follows = (graph.kind == EDGE["stream"]) & (kind == "kernel")[graph.owner]

    def apply(share: float, *, crossing: bool) -> Callable[[Prepared], Prepared]:
        def of(one: Prepared) -> Prepared:
            cheaper = _relagged(one, calls, lambda lag: lag * share)
            return cheaper if crossing else _as_recorded(cheaper, calls | delivers | follows)

        return of

    took = (graph.time_ns[2::2] - graph.time_ns[1::2])[mine]
    least, most = _IN_GRAPH
    return Edit(
        "graph", "capture launches that repeat as a graph", int(mine.sum()), float(took.sum()) * 1e-9,
        "the same launches in every turn of a loop, without a decision of the host between them",
        "a launch in a graph takes half, and at best nothing and no way over the link", apply(most, crossing=False),
        apply(least, crossing=True),
    )  # fmt: skip


# --- graphs -----------------------------------------------------------------------------------------------------------


def combined(chosen: Sequence[Edit], ready: Prepared, *, most: bool) -> Prepared:
    """Return the run with several edits, by the end of most or of least gain."""
    for edit in chosen:
        make = edit.most if most else edit.least
        ready = ready if make is None else make(ready)
    return ready


def _without(one: Prepared, edges: Bool) -> Prepared:
    """Return the run where nothing waits over some edges: they lead from the run's start, with no lag, so that masks of edges still fit."""
    assert one.timeline is not None
    graph = one.timeline.graph
    paid = None if graph.paid is None else np.where(edges, np.int32(-1), graph.paid)
    loose = replace(
        graph, source=np.where(edges, np.int32(0), graph.source), lag_ns=np.where(edges, 0, graph.lag_ns),
        kind=np.where(edges, np.int8(EDGE["origin"]), graph.kind), paid=paid,
    )  # fmt: skip
    return _on(one, loose)


def _relagged(one: Prepared, edges: Bool, lag: Callable[[Float], Float]) -> Prepared:
    """Return the run where some edges have another lag, made of the recorded one [ns]."""
    assert one.timeline is not None
    graph = one.timeline.graph
    return _on(one, replace(graph, lag_ns=np.where(edges, np.round(lag(graph.lag_ns.astype(np.float64))), graph.lag_ns).astype(np.int64)))


def _as_recorded(one: Prepared, edges: Bool) -> Prepared:
    """Return the run where some edges keep their lag on every machine."""
    assert one.timeline is not None
    graph = one.timeline.graph
    return _on(one, replace(graph, kind=np.where(edges, np.int8(EDGE["order"]), graph.kind)))


def _pieces(one: Prepared, ratio: Float) -> Prepared:
    """Return the run whose pieces take a ratio of their time, before its graph is changed."""
    run = one.run
    return replace(one, run=replace(run, seconds=run.seconds * ratio, exposed_seconds=run.exposed_seconds * ratio))


def _on(one: Prepared, graph: Graph) -> Prepared:
    """Return the run on a changed graph; what it would have taken on the recorded machine follows from the replay."""
    assert one.timeline is not None
    timeline = replace(one.timeline, run=one.run).on(graph)
    return replace(one, timeline=timeline, measured=one.measured + (timeline.unchanged_seconds - one.timeline.unchanged_seconds))


def _kinds(ready: Prepared) -> Text:
    """Return the kind of each activity of the graph."""
    assert ready.timeline is not None
    return ready.run.kind[ready.timeline.piece]
