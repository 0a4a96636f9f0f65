"""Edits of waits: without, or later, at the first call that may need what was waited for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Int, numbered
from turnbuckle.foundation.errors import clipped
from turnbuckle.profile.dependencies.graph import EDGE, begin, finish
from turnbuckle.projection.order import Prepared
from turnbuckle.questions.whatif.graphs import (
    as_recorded,
    prompt,
    relagged,
    removed,
    still,
    waiting,
    without,
)
from turnbuckle.questions.whatif.offered import Edit, Seen, remedy

_WAITS: Final = ("sync", "event")
#: Names of waiting calls that are asked about, those that wait longest.
_MOST_WAITS: Final = 8


def waits(seen: Seen) -> list[Edit]:
    """Return the edits that take a wait away, and those that move it to its first use, by the name
    of the call.
    """
    graph, owner = seen.graph, seen.graph.owner
    edges = (graph.kind == EDGE["sync"]) & np.isin(seen.call_class, _WAITS)[owner]
    if not edges.any():
        return []
    ending = int(graph.time_ns.argmax() - 1) // 2
    # who waits for the end of the run waits for its result
    edges &= graph.target != finish(np.array([ending]))[0]
    took = (seen.ends - seen.begins) * 1e-9
    words, number = numbered(seen.name[owner[edges]])
    out = []
    uses = _first_use(seen)
    for k in np.argsort(-np.bincount(number, took[owner[edges]]), kind="stable")[:_MOST_WAITS]:
        named = edges.copy()
        named[edges] = number == k
        calls, word = np.unique(owner[named]), clipped(words[k] or "a call without a name", 60)
        final = ending if seen.name[ending] == words[k] else -1
        # of a name, calls that wait for nothing are made for nothing
        gone = (seen.name == words[k]) & (seen.kind == "sync")
        gone[ending] = False
        gone[calls] = True
        out.append(
            Edit(
                name=f"wait {word}",
                title=f"do not wait in {word}",
                needs=(
                    "the host reads nothing before the next wait that the work before this one made"
                ),
                rests=(
                    "from every call to none, nor what they take besides waiting and the loop "
                    "around them; kernels keep their time"
                ),
                most=partial(_gone, seen=seen, calls=gone),
                count=int(gone.sum()),
                seconds=float(took[gone].sum()),
                activities=np.flatnonzero(gone),
                remedy=remedy("wait"),
            )
        )
        if (uses[owner[named]] >= 0).any():
            out.append(
                Edit(
                    name=f"later {word}",
                    title=f"wait later than in {word}",
                    needs=(
                        "the host neither reads nor decides by the result before it waits again, "
                        "copies to the device or sends"
                    ),
                    rests=(
                        "from no call to every call, which returns at once where the work is "
                        "done; kernels keep their time"
                    ),
                    most=partial(_later, seen=seen, edges=named, uses=uses, last=final),
                    count=len(calls),
                    seconds=float(took[calls].sum()),
                    activities=calls,
                )
            )
    return out


def _first_use(seen: Seen) -> Int:
    """Return for each call the next one of its thread that waits, copies to the device or is of
    MPI; -1 where none does.
    """
    calls = seen.calls
    run = seen.ready.run
    may = (
        (seen.kind == "sync")
        | (run.category[seen.piece] == "mpi")
        | ((seen.call_class == "copy") & (run.direction[seen.piece] == "h2d"))
    )
    out = np.full(len(seen.kind), -1, dtype=np.int64)
    place = np.where(may[calls], np.arange(len(calls)), len(calls))
    following = np.minimum.accumulate(place[::-1])[::-1]  # itself, if it may
    after = np.concatenate([following[1:], [len(calls)]]) if len(calls) else following
    valid = after < len(calls)
    then = calls[after[valid]]
    same = seen.track[then] == seen.track[calls[valid]]
    out[calls[valid][same]] = then[same]
    return out


def _gone(ready: Prepared, seen: Seen, calls: Bool) -> Prepared:
    """Return the run where some calls are not made."""
    graph, loops = seen.graph, seen.loops(calls)
    waits = ((graph.kind == EDGE["sync"]) | (graph.kind == EDGE["queue"])) & calls[graph.owner]
    shorter = relagged(without(removed(ready, calls), waits), loops, np.zeros_like)
    return prompt(
        shorter,
        np.concatenate([finish(np.flatnonzero(calls)), begin(graph.owner[loops].astype(np.int64))]),
    )


def _later(ready: Prepared, seen: Seen, edges: Bool, uses: Int, last: int) -> Prepared:
    """Return the run where what some edges wait for is waited for at its first use; `last` is the
    last call, if it waits so, or -1.
    """
    graph = seen.graph
    # who has no further use of it in this thread waits as before; what another edit took away is
    # not waited for
    moved = edges & (uses[graph.owner] >= 0) & still(ready, graph)
    use = uses[graph.owner[moved]]
    source, lag = graph.source[moved].astype(np.int64), graph.lag_ns[moved]
    away = np.zeros(len(seen.kind), dtype=np.bool_)
    away[graph.owner[moved]] = True
    at_once = relagged(
        without(ready, moved), (graph.kind == EDGE["call"]) & away[graph.owner], np.zeros_like
    )
    # the wait is priced as the call that waited
    later = waiting(at_once, source, begin(use), lag, "sync", graph.owner[moved].astype(np.int64))
    rest_ns = round((seen.ready.measured - graph.time_ns.max() * 1e-9) * 1e9)
    if last < 0 or rest_ns <= 0:
        return later
    # a part of a run may go on behind its last call: that host work is done before this call, which
    # ends the part then
    returns = (graph.kind == EDGE["call"]) & (graph.owner == last)
    behind = as_recorded(relagged(later, returns, lambda lag: np.full_like(lag, rest_ns)), returns)
    return replace(behind, measured=behind.measured - rest_ns * 1e-9)
