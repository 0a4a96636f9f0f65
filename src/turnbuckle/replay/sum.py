"""The sum replay: the time line keeps its order, and only exposed time changes.

    T' = T + sum_i ( w_i (d'_i - d_i) + v_i s_i )

A duration that scales from d to d' changes the run by its exposed share, w = exposed / d.  A delay
s added at an activity's end changes the run in full if that last instant is exposed (v = 1), else
not at all.  Both weights are fixed by the recording, so T' is convex and piecewise linear in every
time parameter, and with d' = d and s = 0 it is T to the nanosecond.

The sum does not model shifts of overlap.  The envelope bounds their effect: every saving exposed,
or every delay exposed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnbuckle.foundation.arrays import Float


@dataclass(frozen=True)
class SumResult:
    """Totals [s]; arrays of draws have the draws along the first axis.

    Attributes
    ----------
    seconds : projected run time.
    exposed_seconds : share of each piece in the run time, shape (..., pieces).
    lower, upper : envelope, which no reordering of the same activities can leave: all savings, all
        delays.
    """

    seconds: Float
    exposed_seconds: Float
    lower: Float
    upper: Float


def replay_sum(
    measured: float,
    seconds: Float,
    exposed_seconds: Float,
    tail_weight: Float,
    scaled: Float,
    delays: Float,
) -> SumResult:
    """Return the measured run time plus the change of exposed time of all pieces.

    Parameters
    ----------
    measured : recorded run time [s].
    seconds, exposed_seconds : measured duration of each piece, and its exposed share [s], shape
        (pieces,).
    tail_weight : share of each piece's activities whose last instant is exposed.
    scaled : new durations [s], shape (..., pieces).
    delays : sum of the delays at the ends of each piece's activities [s], shape (..., pieces).
    """
    share = np.divide(exposed_seconds, seconds, out=np.zeros_like(seconds), where=seconds > 0)
    change = scaled - seconds
    delays = np.maximum(delays, -scaled)
    exposed = np.maximum(
        exposed_seconds + np.minimum(share, 1.0) * change + tail_weight * delays, 0.0
    )
    # adding the differences, not the shares, keeps the identity exact
    total = measured + (exposed - exposed_seconds).sum(axis=-1)
    saved = (np.minimum(change, 0.0) + np.minimum(delays, 0.0)).sum(axis=-1)
    delayed = (np.maximum(change, 0.0) + np.maximum(delays, 0.0)).sum(axis=-1)
    return SumResult(
        np.asarray(total),
        exposed,
        np.asarray(np.maximum(measured + saved, 0.0)),
        np.asarray(measured + delayed),
    )
