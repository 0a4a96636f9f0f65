"""Copies that stage messages, and what GPUDirect would make of them: messages straight from device
memory need no copy.

Under GPUDirect a staging copy takes no time and begins at once.  Its host call stays: a program
that sends device memory has to wait for the kernels before it in the same way.  Messages take what
they take from host memory, and what pinning costs where memory is pinned for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from turnbuckle.foundation import registry
from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.fields import Declared, Ranged
from turnbuckle.profile.dependencies.graph import EDGE
from turnbuckle.profile.messages.staging_pairs import StagingPairs
from turnbuckle.replay.timeline import Change, TimelineReplay


@dataclass(frozen=True)
class Staging(Ranged, Declared):
    """Copies of a run that stage its messages, on one target, and the run without them.

    Attributes
    ----------
    copies, size_bytes : copies that stage messages, and the bytes they move [B].
    sends, receives : calls whose messages they stage.
    measured_seconds, share : time of these copies as recorded, hidden or not [s], and over the
        recorded run time.
    seconds : the same on the target [s].
    gpudirect_seconds : run time on the target by GPUDirect [s].
    gain, low, high : run time on the target over that by GPUDirect, less 1, and its range over
        costs that nothing states.
    verdict, decides : whether GPUDirect helps, as `turnbuckle model messages` words it, and what
        moves the gain most.
    """

    copies: int
    size_bytes: int
    sends: int
    receives: int
    measured_seconds: float
    share: float
    seconds: float
    gpudirect_seconds: float
    gain: float
    low: float
    high: float
    verdict: str
    decides: str


def direct(timeline: TimelineReplay, pairs: StagingPairs, pin_seconds: float) -> TimelineReplay:
    """Return a run whose staging copies are dropped, and whose messages wait so long for memory to
    be pinned [s].
    """
    graph = timeline.graph
    dropped = np.zeros(len(graph.activity), dtype=np.bool_)
    dropped[pairs.copy] = True
    staged = np.isin(graph.source, 2 * pairs.call[pairs.sends] + 1) | np.isin(
        graph.target, 2 * pairs.call[~pairs.sends] + 2
    )
    waits = (graph.kind == EDGE["meet"]) & staged
    return timeline.dropping(dropped, np.where(waits, round(pin_seconds * 1e9), 0).astype(np.int64))


def staging(
    timeline: TimelineReplay,
    pairs: StagingPairs,
    replays: Callable[[float], TimelineReplay],
    change: Change,
    measured: float,
    seconds: float,
) -> Staging | None:
    """Return what of a run stages messages, and what it would take without; None where nothing
    does.

    Parameters
    ----------
    replays : the run without its staging copies, for a time of pinning [s] (`direct`).
    change : of the target.
    measured, seconds : run time as recorded, and on the target [s].
    """
    if not len(pairs):
        return None
    copies = np.unique(pairs.copy)
    graph, piece = timeline.graph, timeline.piece[copies]
    recorded = (graph.time_ns[2 * copies + 2] - graph.time_ns[2 * copies + 1]) * 1e-9
    on_target: Float = np.maximum(
        recorded * change.ratio[..., piece] + change.added[..., piece], 0.0
    )
    size = timeline.run.size_bytes[piece]

    def without(pin_seconds: float) -> float:
        # where CPU and GPU have one memory the copies are gone already
        return (
            measured + float(replays(pin_seconds).seconds(change)) - timeline.unchanged_seconds
            if on_target.any()
            else seconds
        )

    judged = registry.load("services", "verdict on gpudirect")(seconds, without)
    sends, receives = (len(np.unique(pairs.call[side])) for side in (pairs.sends, ~pairs.sends))
    recorded_seconds = float(recorded.sum())
    return Staging(
        copies=len(copies),
        size_bytes=round(float(size.sum())),
        sends=sends,
        receives=receives,
        measured_seconds=recorded_seconds,
        share=recorded_seconds / measured if measured else 0.0,
        seconds=float(on_target.sum()),
        gpudirect_seconds=seconds / (1.0 + judged.gain),
        gain=judged.gain,
        low=judged.low,
        high=judged.high,
        decides=judged.decides,
        verdict=judged.word,
    )
