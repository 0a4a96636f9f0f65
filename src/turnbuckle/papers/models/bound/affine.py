"""Run time at a third latency from one ratio between two latencies, where run time is affine, or
only convex, in the latency.

Here b = T(now) / T(near) and p = T(far) / T(now), with near < now < far.  Run time on a fixed order
of activities is the longest of many paths, each of them a sum of constants and of multiples of the
latency (or of any other time parameter, such as seconds a byte).  So it is convex and piecewise
linear, and the line through two points is a lower bound outside them and an upper bound between
them.  The bound is reached where T is affine, for example in a loop of blocking calls.  Against no
latency at all (near 0, now 1, far k) it is p = (1 + (b - 1) k) / b, and its inverse b = (k - 1) /
(k - p): all benefits and penalties that Austin et al. 2021 simulated with SSI (sections 5.6 and
7.6) follow it with k of 16 to 50/3. `turnbuckle.cost.ratio.tied_penalty` is the same line with
latency and bandwidth scaled together: reach = lambda.

Convexity ends where activities contend: a queue served first come first served, or a link that is
shared, can run faster after a delay (decision D18).
"""

from __future__ import annotations

import numpy as np

from turnbuckle.foundation.arrays import Float


def reach(near: Float | float, now: Float | float, far: Float | float) -> Float:
    """Return how many times the known step in latency fits into the step asked for: (x_far - x_now)
    / (x_now - x_near).

    Any unit; near < now.  Negative for x_far below x_now.

    >>> float(reach(10, 100, 1000)), float(reach(0, 3, 48))
    (10.0, 15.0)
    """
    return np.asarray(
        (np.asarray(far, dtype=np.float64) - now) / (np.asarray(now, dtype=np.float64) - near)
    )


def bound_on(
    delay: Float | float, near: Float | float, now: Float | float, benefit: Float | float
) -> Float:
    """Return T(x) / T(now) on the line through T(near) = T(now) / b and T(now): 1 + (1 - 1/b) (x -
    now) / (now - near).

    A run convex in x takes at least this outside [near, now] and at most this between them.  Below
    `near` the line is cut at 0.

    >>> [round(float(bound_on(x, 10, 100, 1.21)), 3) for x in (10, 55, 100, 1000)], round(float(bound_on(16, 0, 1, 1.4)), 2)
    ([0.826, 0.913, 1.0, 2.736], 5.29)
    """
    risen = 1.0 - 1.0 / np.asarray(benefit, dtype=np.float64)
    return np.maximum(1.0 + risen * reach(near, now, delay), 0.0)


def possible_on(
    delay: Float | float, near: Float | float, now: Float | float, benefit: Float | float
) -> tuple[Float, Float]:
    """Return the least and the most T(x) / T(now) of a run that is convex in the delay and that no
    delay makes shorter.

    The range is the line to 1/b below `near`, 1/b to the line between `near` and `now`, and the
    line to infinity beyond `now`.

    >>> [tuple(round(float(end), 3) for end in possible_on(x, 10, 100, 1.21)) for x in (0, 10, 55, 100, 1000)]
    [(0.807, 0.826), (0.826, 0.826), (0.826, 0.913), (1.0, 1.0), (2.736, inf)]
    """
    x, line, flat = (
        np.asarray(delay),
        bound_on(delay, near, now, benefit),
        1.0 / np.asarray(benefit, dtype=np.float64),
    )
    least = np.where((x > near) & (x < now), flat, line)
    return least, np.where(x > now, np.inf, np.where(x <= near, flat, line))


def least_penalty(
    benefit: Float | float, near: Float | float, now: Float | float, far: Float | float
) -> Float:
    """Return the least T(far) / T(now) of a run that is convex in the delay and b times faster at
    `near` than at `now`.

    1 + (1 - 1/b) (far - now) / (now - near), for near < now <= far; 1 where b is below 1, because
    no delay makes a run shorter.

    >>> round(float(least_penalty(1.21, 10e-6, 100e-6, 1e-3)), 2)
    2.74
    """
    return np.maximum(bound_on(far, near, now, benefit), 1.0)


def most_benefit(
    penalty: Float | float, near: Float | float, now: Float | float, far: Float | float
) -> Float:
    """Return the largest T(now) / T(near) of a run that is convex in the delay and p times slower
    at `far` than at `now`.

    1 / (1 - (p - 1) / reach), for near < now < far; infinite where the penalty sets no limit (p - 1
    of at least the reach).

    >>> round(float(most_benefit(1.45, 10e-6, 100e-6, 1e-3)), 3), round(float(most_benefit(5.34, 0, 1, 16)), 2)
    (1.047, 1.41)
    """
    left = np.asarray(1.0 - (np.asarray(penalty, dtype=np.float64) - 1.0) / reach(near, now, far))
    benefit: Float = np.divide(1.0, left, out=np.full(left.shape, np.inf), where=left > 0)
    return benefit


def farthest(
    benefit: Float | float, penalty: Float | float, near: Float | float, now: Float | float
) -> Float:
    """Return the largest delay at which a run that gains b from `now` to `near` can have a penalty
    of only p over `now`.

    now + (now - near) (p - 1) / (1 - 1/b), in the unit of `near` and `now`; infinite where nothing
    is gained.

    >>> round(1e6 * float(farthest(2.98, 1.45, 10e-6, 100e-6)))
    161
    """
    risen = np.asarray(1.0 - 1.0 / np.asarray(benefit, dtype=np.float64))
    slower = np.asarray(
        (np.asarray(now, dtype=np.float64) - near) * (np.asarray(penalty, dtype=np.float64) - 1.0)
    )
    shape = np.broadcast(risen, slower).shape
    further: Float = np.divide(slower, risen, out=np.full(shape, np.inf), where=risen > 0)
    return np.asarray(now + further)
