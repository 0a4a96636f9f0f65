"""Edits of launches and allocations: what repeats in a graph, short kernels in one, memory from a
pool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.foundation.units import show
from turnbuckle.profile.dependencies.graph import EDGE, begin
from turnbuckle.projection.order import Prepared
from turnbuckle.questions.whatif.graphs import as_recorded, prompt, relagged, removed, without
from turnbuckle.questions.whatif.offered import Edit, Seen

#: Share of its time that a launch keeps inside a graph: empty kernels follow each other twice as
#: fast there (gpu-benches, H200: 1.2 us, and 2.4 us without), and one call launches a graph of any
#: length.
_IN_GRAPH: Final = (0.5, 0.0)
#: Share of the calls that allocate and free, the fastest, whose longest shows what a call takes
#: that asks the driver for nothing.
_FASTEST: Final = 0.1
_ALLOCATES: Final = "alloc"


def graph(seen: Seen) -> Edit | None:
    """Return the edit that captures launches that repeat as a graph."""
    recorded = seen.graph
    launches = (seen.kind == "launch") & seen.steady
    if launches.sum() < 2:
        return None
    calls = (recorded.kind == EDGE["call"]) & launches[recorded.owner]
    delivers = (recorded.kind == EDGE["deliver"]) & launches[
        np.maximum(recorded.source - 1, 0) // 2
    ]
    follows = (recorded.kind == EDGE["stream"]) & (seen.kind == "kernel")[recorded.owner]

    def apply(share: float, *, crossing: bool) -> Callable[[Prepared], Prepared]:
        def of(ready: Prepared) -> Prepared:
            cheaper = relagged(ready, calls, lambda lag: lag * share)
            return cheaper if crossing else as_recorded(cheaper, calls | delivers | follows)

        return of

    least, most = _IN_GRAPH
    ends = (apply(most, crossing=False), apply(least, crossing=True))
    return Edit.worded(
        "graph", int(launches.sum()), _took(seen, launches), *ends, np.flatnonzero(launches)
    )


def fuse(seen: Seen) -> Edit | None:
    """Return the edit that makes one kernel of those that follow each other, launched at the place
    of the first.
    """
    recorded, kind = seen.graph, seen.kind
    launched = (kind == "kernel") & (seen.caller >= 0)
    length = seen.ends - seen.begins
    delivers = (recorded.kind == EDGE["deliver"]) & launched[recorded.owner]
    if not delivers.any():
        return None
    call = (recorded.source[delivers] - 1) // 2
    # a kernel's time holds its start and its end on the device: no longer than the shortest kernel,
    # nor, as assumed, than a launch
    start_ns = min(
        float(np.median(length[call] + recorded.lag_ns[delivers])), float(length[launched].min())
    )

    def joined(first_kerneldy: Int, next_kernel: Int) -> Bool:
        return np.asarray(
            (call_kind[first_kerneldy] == "launch") & (call_kind[next_kernel] == "launch")
        )

    call_kind = kind[np.maximum(seen.caller, 0)]
    groups = seen.groups(launched, joined)
    if not groups:
        return None
    members, first = np.concatenate(groups), np.array([group[0] for group in groups])
    later = np.setdiff1d(members, first)
    gone, behind = (np.zeros(len(kind), dtype=np.bool_) for _ in range(2))
    gone[seen.caller[later]], behind[later] = True, True
    idle = ((recorded.kind == EDGE["sync"]) | (recorded.kind == EDGE["queue"])) & gone[
        recorded.owner
    ]
    idle |= (recorded.kind == EDGE["deliver"]) & behind[recorded.owner]
    inside = (
        (recorded.kind == EDGE["stream"])
        & (recorded.target % 2 == 1)
        & behind[recorded.owner]
        & ~recorded.begun_within
    )
    loops, runs = seen.loops(gone), (recorded.kind == EDGE["run"]) & behind[recorded.owner]

    def apply(ready: Prepared) -> Prepared:
        joint = relagged(
            as_recorded(without(removed(ready, gone), idle), inside), loops, np.zeros_like
        )
        shorter = relagged(joint, runs, lambda lag: np.maximum(lag - start_ns, 0.0))
        return prompt(
            shorter, np.concatenate([begin(later), begin(recorded.owner[loops].astype(np.int64))])
        )

    words: dict[str, Any] = {
        "members": len(members),
        "groups": len(groups),
        "start": show(start_ns * 1e-9, "s"),
    }
    return Edit.worded(
        "fuse",
        len(members),
        float(length[members].sum()) * 1e-9,
        apply,
        activities=members,
        **words,
    )


def pool(seen: Seen) -> Edit | None:
    """Return the edit that takes memory from a pool."""
    recorded = seen.graph
    allocations = (seen.call_class == _ALLOCATES) & seen.steady
    if not allocations.any():
        return None
    fast_ns = float(np.quantile((seen.ends - seen.begins)[allocations], _FASTEST))
    calls, waits = (
        (recorded.kind == EDGE[kind]) & allocations[recorded.owner] for kind in ("call", "sync")
    )

    def apply(at_most_ns: float) -> Callable[[Prepared], Prepared]:
        return lambda ready: without(
            relagged(ready, calls, lambda lag: np.minimum(lag, at_most_ns)), waits
        )

    ends, fast = (apply(0.0), apply(fast_ns)), show(fast_ns * 1e-9, "s")
    return Edit.worded(
        "pool",
        int(allocations.sum()),
        _took(seen, allocations),
        *ends,
        np.flatnonzero(allocations),
        fast=fast,
    )


def _took(seen: Seen, activities: Bool) -> float:
    return float((seen.ends - seen.begins)[activities].sum()) * 1e-9
