"""What several applications come to: functions of their run times on one machine, over those
recorded.

    node-hours      M = sum of s p                 what the same work takes, over what it takes today
    throughput      1 / M                          the weighted harmonic mean of the speedups
    SSI             exp(sum of s ln(c U / p))      weighted geometric mean (NERSC, APEX and Crossroads benchmarks)

p is the penalty of an application (projected over recorded run time), s its share of the node-hours
of today, which add up to 1. Sums are rounded once, so that no order of the applications changes
them.

Source of SSI: NERSC, "Scalable System Improvement (SSI): An Application Performance Benchmarking
Metric for HPC".  c is the capability factor, U = (n_ref / n) (N / N_ref) with n nodes of the job
and N of the machine, and the speedup S = 1 / p must be 1 or more: a machine on which one
application loses has no SSI by that rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from turnbuckle.foundation.arrays import Float


def shares(weights: Sequence[float]) -> list[float]:
    """Return weights that add up to 1.

    >>> shares([300, 100])
    [0.75, 0.25]
    """
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def total(terms: Sequence[float]) -> float:
    """Return a sum that no order of its terms changes."""
    return math.fsum(terms)


def totals(terms: Sequence[Float]) -> Float:
    """Return sums of draws, shape (draws,), that no order of the terms changes: from the smallest
    to the largest.
    """
    return np.asarray(np.sort(np.stack(terms), axis=0).sum(axis=0))


def geometric(
    capability: Sequence[float],
    share: Sequence[float],
    penalties: Sequence[float],
    utilisation: float,
) -> float:
    """Return the weighted geometric mean of c U S, SSI as NERSC defines it, whether every S is 1 or
    more or not.

    >>> round(geometric([1, 1], [0.5, 0.5], [0.5, 2.0], 1.0), 12)
    1.0
    """
    return math.exp(
        total(
            [
                s * math.log(c * utilisation / p)
                for c, s, p in zip(capability, share, penalties, strict=True)
            ]
        )
    )


def flips_at(share: float, more: float, all_together: float) -> float | None:
    """Return the share of one application at which two machines take the same, the others keeping
    their proportions; None where none does.

    Parameters
    ----------
    share : of the application today.
    more, all_together : how much longer the second machine takes than the first: the application's
        own, and of the mix.

    >>> flips_at(0.25, -1.0, 0.5)
    0.5
    """
    turns = float(flips_drawn(share, np.float64(more), np.float64(all_together)))
    return None if math.isnan(turns) else turns


def flips_drawn(share: float, more: Float | np.float64, all_together: Float | np.float64) -> Float:
    """Return draws of `flips_at`, shape (draws,); NaN where no share turns the ranking.

    >>> flips_drawn(0.25, np.array([-1.0, 1.0]), np.array([0.5, 0.5])).tolist()
    [0.5, nan]

    Sums that differ only by rounding count as equal:

    >>> flips_drawn(0.1, np.array([-3.0]), np.array([-0.3])).tolist()
    [nan]
    """
    if share >= 1.0:
        return np.full(np.shape(more), np.nan)
    through = share * more
    others = np.where(
        np.isclose(all_together, through, rtol=1e-12, atol=0.0), 0.0, all_together - through
    ) / (1.0 - share)
    turns = others * more < 0
    return np.divide(others, others - more, out=np.full(np.shape(more), np.nan), where=turns)
