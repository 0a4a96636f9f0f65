"""The sum: the time line keeps its order, and only what is exposed on it changes.

    T' = T + sum_i ( w_i (d'_i - d_i) + v_i s_i )

A duration that scales from d to d' changes the run by its exposed share, w = exposed / d.  A delay s added at an activity's
end changes the run in full if that last instant is exposed (v = 1), else not at all.  Both weights are fixed by the recording, so T' is
convex and piecewise linear in every time parameter, and with d' = d and s = 0 it is T to the nanosecond.

What this cannot know is how overlap itself would shift; the envelope bounds it: every saving exposed, every delay exposed.
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
    exposed_seconds : the share of each piece in it, shape (..., pieces).
    lower, upper : what no order of the same activities could leave: all savings, all delays.
    """

    seconds: Float
    exposed_seconds: Float
    lower: Float
    upper: Float


def replay_sum(measured: float, seconds: Float, exposed_seconds: Float, tail_weight: Float, scaled: Float, delays: Float) -> SumResult:
    """Return the measured run time plus the change of exposed time of all pieces.

    Parameters
    ----------
    measured : run time as recorded [s].
    seconds, exposed_seconds : per piece, measured durations and their exposed share [s], shape (pieces,).
    tail_weight : per piece, the share of its activities whose last instant is exposed.
    scaled : new durations [s], shape (..., pieces).
    delays : what is added at the ends of all activities of the piece together [s], shape (..., pieces).
    """
    share = np.divide(exposed_seconds, seconds, out=np.zeros_like(seconds), where=seconds > 0)
    change = scaled - seconds
    delays = np.maximum(delays, -scaled)
    exposed = np.maximum(exposed_seconds + np.minimum(share, 1.0) * change + tail_weight * delays, 0.0)
    # adding the differences, not the shares, keeps the identity exact
    total = measured + (exposed - exposed_seconds).sum(axis=-1)
    saved = (np.minimum(change, 0.0) + np.minimum(delays, 0.0)).sum(axis=-1)
    delayed = (np.maximum(change, 0.0) + np.maximum(delays, 0.0)).sum(axis=-1)
    return SumResult(np.asarray(total), exposed, np.asarray(np.maximum(measured + saved, 0.0)), np.asarray(measured + delayed))
