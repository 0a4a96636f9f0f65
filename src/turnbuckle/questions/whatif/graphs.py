"""Changes to the event graph of a run that keep its instants: fewer edges, other lags, further
edges, merged and removed activities.

Every change gives a `Prepared` run that is projected like any other.  Masks of edges are those of
the recorded graph: edges are never taken out, and further ones stand behind them, so that changes
can follow each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float, Int, Text
from turnbuckle.profile.dependencies.graph import EDGE, Graph, begin
from turnbuckle.profile.pieces import Pieces
from turnbuckle.projection.order import Prepared
from turnbuckle.replay.timeline import TimelineReplay


@dataclass(frozen=True)
class Merged:
    """Activities that become one: the last of each group stays and does the work of all.

    Attributes
    ----------
    group : per activity of the graph, the number of its group; -1 for those in none.
    last : the activity of each group that stays, shape (groups,).
    size_bytes : of the merged activity, shape (groups,) [B].
    shorter : time of the merged activity over the sum of the times of its members, shape (groups,).
    """

    group: Int
    last: Int
    size_bytes: Float
    shorter: Float


def without(ready: Prepared, edges: Bool) -> Prepared:
    """Return the run where nothing waits over some edges: they lead from the run's start, with no
    lag, so that masks of edges still fit.
    """
    graph = _graph(ready)
    edges = _padded(edges, graph)
    paid = None if graph.paid is None else np.where(edges, np.int32(-1), graph.paid)
    source, kind = (
        np.where(edges, np.int32(0), graph.source),
        np.where(edges, np.int8(EDGE["origin"]), graph.kind),
    )
    loose = replace(
        graph, source=source, lag_ns=np.where(edges, 0, graph.lag_ns), kind=kind, paid=paid
    )
    return on(ready, loose)


def relagged(ready: Prepared, edges: Bool, lag: Callable[[Float], Float]) -> Prepared:
    """Return the run where some edges have another lag, made of the present one [ns]."""
    graph = _graph(ready)
    edges = _padded(edges, graph)
    lag_ns = graph.lag_ns.copy()
    lag_ns[edges] = np.round(lag(lag_ns[edges].astype(np.float64))).astype(np.int64)
    return on(ready, replace(graph, lag_ns=lag_ns))


def as_recorded(ready: Prepared, edges: Bool) -> Prepared:
    """Return the run where some edges keep their lag on every machine."""
    graph = _graph(ready)
    return on(
        ready,
        replace(graph, kind=np.where(_padded(edges, graph), np.int8(EDGE["order"]), graph.kind)),
    )


def priced_as(ready: Prepared, edges: Bool, activity: int) -> Prepared:
    """Return the run where the lags of some edges change on another machine as the time of an
    activity does.
    """
    graph = _graph(ready)
    edges = _padded(edges, graph)
    paid = np.full(len(graph.kind), -1, dtype=np.int32) if graph.paid is None else graph.paid
    kind = np.where(edges, np.int8(EDGE["fault"]), graph.kind)
    return on(ready, replace(graph, kind=kind, paid=np.where(edges, np.int32(activity), paid)))


def redirected(ready: Prepared, edges: Bool, source: Int, target: Int) -> Prepared:
    """Return the run where some edges lead from other instants to other instants; both arrays have
    the shape of those edges.
    """
    graph = _graph(ready)
    edges = _padded(edges, graph)
    sources, targets = graph.source.copy(), graph.target.copy()
    sources[edges], targets[edges] = source, target
    return on(ready, replace(graph, source=sources, target=targets))


def still(ready: Prepared, recorded: Graph) -> Bool:
    """Return which recorded edges no change has led elsewhere."""
    graph, count = _graph(ready), len(recorded.kind)
    return np.asarray(
        (graph.source[:count] == recorded.source) & (graph.target[:count] == recorded.target)
    )


def waiting(
    ready: Prepared, source: Int, target: Int, lag_ns: Int, kind: str, paid: Int | None = None
) -> Prepared:
    """Return the run with further edges.

    Edges lead forward in recorded time, or at one time to the begin of another activity that takes
    time, so that they close no ring; those that do not are left out.  `paid` names the activities
    whose price the lags are, where their ends do not tell.
    """
    graph = _graph(ready)
    room = graph.time_ns[target] - graph.time_ns[source]
    number = np.maximum(target - 1, 0) // 2
    length = graph.time_ns[2 * number + 2] - graph.time_ns[2 * number + 1]
    kept = (room > 0) | (
        (room == 0) & (target == begin(number)) & (length > 0) & (source != target)
    )
    before = np.full(len(graph.kind), -1, dtype=np.int32) if graph.paid is None else graph.paid
    after = np.full(len(source), -1, dtype=np.int32) if paid is None else paid.astype(np.int32)
    ends = {"source": source[kept].astype(np.int32), "target": target[kept].astype(np.int32)}
    ends |= {"kind": np.full(int(kept.sum()), EDGE[kind], dtype=np.int8)}
    ends |= {"lag_ns": np.broadcast_to(np.asarray(lag_ns, dtype=np.int64), room.shape)[kept]}
    more: dict[str, Any] = {
        name: np.concatenate([getattr(graph, name), values]) for name, values in ends.items()
    }
    longer = replace(
        graph,
        paid=None if graph.paid is None and paid is None else np.concatenate([before, after[kept]]),
        **more,
    )
    return on(ready, longer)


def prompt(ready: Prepared, instants: Int) -> Prepared:
    """Return the run where some instants happen as soon as their edges let them: what no rule
    explained is gone.
    """
    graph = _graph(ready)
    residual = graph.residual_ns.copy()
    residual[instants] = 0
    return on(ready, replace(graph, residual_ns=residual))


def shorter_pieces(ready: Prepared, ratio: Float) -> Prepared:
    """Return the run whose pieces take a ratio of their time, before its graph is changed; pieces
    made since keep theirs.
    """
    run = ready.run
    ratio = np.concatenate([ratio, np.ones(len(run) - len(ratio))])
    return replace(
        ready,
        run=replace(run, seconds=run.seconds * ratio, exposed_seconds=run.exposed_seconds * ratio),
    )


def merged(ready: Prepared, groups: Merged) -> Prepared:
    """Return the run where the last activity of each group does the work of all its members; they
    keep their edges, and take no time.
    """
    assert ready.timeline is not None
    graph, piece = ready.timeline.graph, ready.timeline.piece
    runs = (graph.kind == EDGE["run"]) & (groups.group[graph.owner] >= 0)
    took = (
        np.bincount(
            groups.group[graph.owner[runs]], weights=graph.lag_ns[runs], minlength=len(groups.last)
        )
        * groups.shorter
    )
    lag = np.zeros(len(piece))
    lag[groups.last] = np.round(took)
    lag_ns = np.where(runs, lag[graph.owner], graph.lag_ns).astype(np.int64)
    # a price list prices the merged work by its size: groups that end alike and have one size are
    # one piece
    alike, which = np.unique(
        np.stack([piece[groups.last], groups.size_bytes.astype(np.int64)]),
        axis=1,
        return_inverse=True,
    )
    made = like(ready.run, alike[0], size_bytes=alike[1].astype(np.float64))
    counts, seconds = (
        np.bincount(which.reshape(-1), weights=w, minlength=alike.shape[1]).astype(np.float64)
        for w in (np.ones(len(took)), took * 1e-9)
    )
    of = piece.astype(np.int64)
    of[groups.last] = len(ready.run) + which.reshape(-1)
    members = groups.group >= 0
    return removed(
        _repieced(ready, replace(graph, lag_ns=lag_ns), members, of, made, counts, seconds),
        members & (of < len(ready.run)),
    )


def removed(ready: Prepared, activities: Bool) -> Prepared:
    """Return the run where some activities are not there: they take no time on any machine, and
    what they wait for passes through them.

    No charge covers what they are then.
    """
    assert ready.timeline is not None
    graph = ready.timeline.graph
    gone = activities[graph.owner] & np.isin(graph.kind, [EDGE["run"], EDGE["call"]])
    words: dict[str, Any] = {
        "kind": _word("gap"),
        "category": _word("cpu"),
        **dict.fromkeys(("call_class", "direction", "memory"), _word("")),
    }
    nothing = like(ready.run, np.zeros(1, dtype=np.int64), size_bytes=np.zeros(1))
    made = replace(
        nothing,
        **words,
        idle_device=np.zeros(1, dtype=np.bool_),
        kernel=np.array([None], dtype=object),
    )
    of = np.where(activities, len(ready.run), ready.timeline.piece)
    lag_ns = np.where(gone, 0, graph.lag_ns)
    return _repieced(
        ready,
        replace(graph, lag_ns=lag_ns),
        activities,
        of,
        made,
        np.array([float(activities.sum())]),
        np.zeros(1),
    )


def on(ready: Prepared, graph: Graph) -> Prepared:
    """Return the run on a changed graph; what it would have taken on the recorded machine follows
    from the replay.
    """
    assert ready.timeline is not None
    return _on(ready, replace(ready.timeline, run=ready.run).on(graph))


def _on(ready: Prepared, timeline: TimelineReplay) -> Prepared:
    assert ready.timeline is not None
    return replace(
        ready,
        timeline=timeline,
        waiting=None,
        measured=ready.measured + (timeline.unchanged_seconds - ready.timeline.unchanged_seconds),
    )


def kinds(ready: Prepared) -> Text:
    """Return the kind of each activity of the graph."""
    assert ready.timeline is not None
    return ready.run.kind[ready.timeline.piece]


# --- pieces ---------------------------------------------------------------------------------------


def _repieced(
    ready: Prepared,
    graph: Graph,
    activities: Bool,
    of: Int,
    made: Pieces,
    counts: Float,
    seconds: Float,
) -> Prepared:
    """Return the run where some activities belong to further pieces; their shares leave the pieces
    that they belonged to.
    """
    assert ready.timeline is not None
    run, piece = ready.run, ready.timeline.piece
    left = np.bincount(piece[activities], minlength=len(run))
    share = 1.0 - np.divide(left, run.count, out=np.zeros(len(run)), where=run.count > 0)
    # whole numbers that round to nothing are nothing
    kept = {
        name: getattr(run, name) * share
        for name in ("count", "seconds", "exposed_seconds", "tail_count")
    }
    made = replace(made, count=counts, seconds=seconds, exposed_seconds=seconds, tail_count=counts)
    joined = replace(
        run,
        **{
            n: np.concatenate([kept.get(n, getattr(run, n)), getattr(made, n)])
            for n in Pieces.__dataclass_fields__
        },
    )
    timeline = replace(ready.timeline, run=joined, piece=of.astype(np.int32)).on(graph)
    return replace(_on(ready, timeline), run=joined)


def like(run: Pieces, rows: Int, size_bytes: Float) -> Pieces:
    """Return pieces like some of a run's, of other sizes."""
    return replace(
        Pieces(**{name: getattr(run, name)[rows] for name in Pieces.__dataclass_fields__}),
        size_bytes=size_bytes,
    )


def _word(text: str) -> Text:
    return np.array([text], dtype=object)


def _graph(ready: Prepared) -> Graph:
    assert ready.timeline is not None
    return ready.timeline.graph


def _padded(edges: Bool, graph: Graph) -> Bool:
    """Return a mask of the recorded edges as one of all."""
    return np.concatenate([edges, np.zeros(len(graph.kind) - len(edges), dtype=np.bool_)])
