"""Edits of host phases: beside the device, or on it.

A phase is the application's own work between two calls, by the innermost range around it; outside
all ranges, by the call that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Int, numbered
from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.foundation.units import show
from turnbuckle.profile.dependencies.graph import EDGE, begin
from turnbuckle.projection.order import Prepared
from turnbuckle.questions.whatif.graphs import priced_as, relagged, waiting
from turnbuckle.questions.whatif.offered import Edit, Seen
from turnbuckle.questions.whatif.places import open_ranges

#: Phases that are asked about, those that take longest.
_MOST_PHASES: Final = 4


@dataclass(frozen=True)
class Phase:
    """A host phase of one name.

    Attributes
    ----------
    name : of the range, or ``before CALL``.
    edges : mask of the graph's edges whose lag is its work; a call that several threads hand over
        to has one of each thread.
    first : per time it runs, the call behind its first work, in the order of threads and times.
    seconds : what it takes together [s].
    work_ns : what each of these runs takes [ns].
    """

    name: str
    edges: Bool
    first: Int
    seconds: float
    work_ns: Int


def phases(seen: Seen) -> Iterator[Phase]:
    """Return the host phases of a run, the longest first; the start-up has none."""
    graph = seen.graph
    edges = np.flatnonzero(
        (graph.kind == EDGE["host"])
        & (graph.source > 0)
        & (graph.target % 2 == 1)
        & (graph.lag_ns > 0)
    )
    target = graph.owner[edges].astype(np.int64)
    edges, target = edges[seen.steady[target]], target[seen.steady[target]]
    # a call that another thread hands over to has an edge of each thread: its work is what follows
    # the last of them
    order = np.lexsort((graph.lag_ns[edges], seen.begins[target], seen.track[target]))
    last = order[np.sort(np.unique(target[order], return_index=True)[1])]
    after, lag = target[last], graph.lag_ns[edges[last]]
    rows = open_ranges(seen, after, seen.begins[after] - lag // 2)
    words = seen.range_words
    names, number = numbered(
        words[r] if r >= 0 else f"before {seen.name[a]}"
        for r, a in zip(rows.tolist(), after.tolist(), strict=True)
    )
    phase_of = np.full(len(seen.begins), -1, dtype=np.int64)
    phase_of[after] = number
    spent = np.bincount(number, weights=lag) if names else np.zeros(0)
    for k in np.argsort(-spent, kind="stable").tolist():
        of_phase = np.flatnonzero(number == k)
        # work between the calls inside one range runs with it; outside all, each stretch is one
        starts = np.diff(rows[of_phase], prepend=-2) != 0
        starts |= (rows[of_phase] < 0) | (np.diff(seen.track[after[of_phase]], prepend=-1) != 0)
        mask = np.zeros(len(graph.kind), dtype=np.bool_)
        mask[edges[phase_of[target] == k]] = True
        work = np.bincount(np.cumsum(starts) - 1, weights=lag[of_phase]).astype(np.int64)
        yield Phase(names[k], mask, after[of_phase][starts], float(spent[k]) * 1e-9, work)


def beside(seen: Seen) -> list[Edit]:
    """Return the edits that let a host phase run beside everything else, on a thread of its own."""
    edits = []
    for phase, _ in zip(phases(seen), range(_MOST_PHASES), strict=False):
        apart, name = partial(_apart, seen=seen, phase=phase), f"beside {clipped(phase.name, 60)}"
        edits.append(
            Edit.worded(
                "beside", len(phase.first), phase.seconds, apart, name=name, phase=phase.name
            )
        )
    return edits


def to_device(seen: Seen, asked: str) -> Edit | None:
    """Return the edit that moves a host phase to the device: ``device PHASE=RATIO`` or
    ``PHASE=LOW..HIGH``; None for others.

    Raises
    ------
    UsageError : A437, no such ratio; A438, no such phase.  CannotAnswer : A196, the run has no
        kernel.
    """
    if not asked.startswith("device "):
        return None
    name, _, ratio = asked.removeprefix("device ").rpartition("=")
    ends = ratio.split("..")
    low, high = _number(ends[0]), _number(ends[-1])
    if not name or len(ends) > 2 or low is None or high is None or low > high:
        raise error_of("A437", found=clipped(asked, 80))
    offered = list(phases(seen))
    phase = next((p for p in offered if p.name == name), None)
    if phase is None:
        names = [p.name for p in offered]
        listed = ", ".join(clipped(n, 60) for n in names[: 2 * _MOST_PHASES]) or "none"
        raise error_of(
            "A438", found=clipped(name, 80), fix=did_you_mean(name, names) or None, names=listed
        )
    kernels = np.flatnonzero(seen.kind == "kernel")
    if not len(kernels):
        raise error_of("A196")
    spent = np.bincount(seen.piece[kernels], weights=(seen.ends - seen.begins)[kernels])
    most = int(kernels[seen.piece[kernels] == spent.argmax()][0])
    started_ns = _round_trip_ns(seen)
    first = np.zeros(len(seen.kind), dtype=np.bool_)
    first[phase.first] = True
    extra = np.where(phase.edges & first[seen.graph.owner], started_ns, 0.0)

    def apply(ratio: float) -> Callable[[Prepared], Prepared]:
        return lambda ready: priced_as(
            relagged(ready, phase.edges, lambda lag: lag * ratio + extra[phase.edges]),
            phase.edges,
            most,
        )

    words: dict[str, Any] = {
        "phase": phase.name,
        "low": low,
        "high": high,
        "started": show(started_ns * 1e-9, "s"),
    }
    return Edit.worded(
        "to device", len(phase.first), phase.seconds, apply(low), apply(high), name=asked, **words
    )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < np.inf else None


def _round_trip_ns(seen: Seen) -> float:
    """Return what launching a kernel and waiting for it takes besides [ns]: medians of the
    recording.
    """
    graph = seen.graph
    of = {
        "call": seen.kind == "launch",
        "deliver": seen.kind == "kernel",
        "sync": seen.kind == "sync",
    }
    lags = [
        graph.lag_ns[(graph.kind == EDGE[kind]) & mask[graph.owner]] for kind, mask in of.items()
    ]
    # work is delivered while its call runs, where it does
    call, deliver, back = (float(np.median(lag)) if len(lag) else 0.0 for lag in lags)
    return max(call, deliver) + back


def _apart(ready: Prepared, seen: Seen, phase: Phase) -> Prepared:
    """Return the run where a phase has a thread of its own, each time over before its next time,
    and the last before the run's end.
    """
    first = phase.first
    same = np.zeros(len(first), dtype=np.bool_)
    same[:-1] = seen.track[first[1:]] == seen.track[first[:-1]]
    then = np.where(same, begin(np.roll(first, -1)), int(seen.graph.time_ns.argmax()))
    return waiting(
        relagged(ready, phase.edges, lambda lag: lag * 0.0),
        begin(first),
        then,
        phase.work_ns,
        "host",
    )
