"""Run time at a third latency from one ratio between two latencies, where run time is affine, or only convex, in the latency.

    reach(near, now, far)                                (x_far - x_now) / (x_now - x_near)
    penalty_from_benefit(benefit, stretch)               p = (1 + (b - 1) k) / b         affine, b against no latency at all
    benefit_from_penalty(penalty, stretch)               b = (k - 1) / (k - p)           the inverse
    least_penalty(benefit, near, now, far)               p >= 1 + reach (1 - 1/b)        convex
    most_benefit(penalty, near, now, far)                b <= 1 / (1 - (p - 1) / reach)  convex
    bound_on(delay, near, now, benefit)                  T(x) / T(now) on the line through both points, whatever x
    possible_on(delay, near, now, benefit)               least and most T(x) / T(now): that line, and no delay shortens a run
    farthest(benefit, penalty, near, now)                the largest x at which a penalty can hold
    added_seconds(seconds, benefit)                      time that today's latency adds to a run without any

Here b = T(now) / T(near) and p = T(far) / T(now), with near < now < far.  Run time on a fixed order of activities is the longest
of many paths, each of them a sum of constants and of multiples of the latency (or of any other time parameter, such as seconds a
byte).  So it is convex and piecewise linear, and the line through two points is a lower bound outside them and an upper bound
between them.  The bound is reached where T is affine, for example in a loop of blocking calls.
`turnbuckle.cost.ratio.tied_penalty` is the same line with latency and bandwidth scaled together: reach = lambda.

Convexity ends where activities contend: a queue served first come first served, or a link that is shared, can run faster after
a delay (decision D18).
"""

from __future__ import annotations

import numpy as np

from turnbuckle.foundation.arrays import Float


def reach(near: Float | float, now: Float | float, far: Float | float) -> Float:
    """Return how many times the known step in latency fits into the step asked for: (x_far - x_now) / (x_now - x_near).

    Any unit; near < now.  Negative for x_far below x_now.

    >>> float(reach(10, 100, 1000)), float(reach(0, 3, 48))
    (10.0, 15.0)
    """
    return np.asarray((np.asarray(far, dtype=np.float64) - now) / (np.asarray(now, dtype=np.float64) - near))


def penalty_from_benefit(benefit: Float | float, stretch: Float | float) -> Float:
    """Return T(k x) / T(x) of a run that is affine in x, from b = T(x) / T(0): (1 + (b - 1) k) / b.

    All benefits and penalties that Austin et al. 2021 simulated with SSI (sections 5.6 and 7.6) follow it with k of 16 to 50/3.
    It is the least penalty of any run that is convex in x.

    Parameters
    ----------
    benefit : b >= 1.
    stretch : k, new over old delay, at least 0.

    >>> round(float(penalty_from_benefit(1.4, 16)), 2)
    5.29
    """
    b = np.asarray(benefit, dtype=np.float64)
    return np.asarray((1.0 + (b - 1.0) * stretch) / b)


def benefit_from_penalty(penalty: Float | float, stretch: Float | float) -> Float:
    """Return T(x) / T(0) of a run that is affine in x, from p = T(k x) / T(x): (k - 1) / (k - p).

    The benefit is infinite where p is k: all of the run is delay.

    >>> round(float(benefit_from_penalty(5.34, 16)), 2)
    1.41
    """
    p, k = np.asarray(penalty, dtype=np.float64), np.asarray(stretch, dtype=np.float64)
    rest = np.asarray(k - p)
    benefit: Float = np.divide(k - 1.0, rest, out=np.full(np.broadcast(k, p).shape, np.inf), where=rest > 0)
    return benefit


def bound_on(delay: Float | float, near: Float | float, now: Float | float, benefit: Float | float) -> Float:
    """Return T(x) / T(now) on the line through T(near) = T(now) / b and T(now): 1 + (1 - 1/b) (x - now) / (now - near).

    A run convex in x takes at least this outside [near, now] and at most this between them.  Below `near` the line is cut at 0.

    >>> [round(float(bound_on(x, 10, 100, 1.21)), 3) for x in (10, 55, 100, 1000)]
    [0.826, 0.913, 1.0, 2.736]
    """
    risen = 1.0 - 1.0 / np.asarray(benefit, dtype=np.float64)
    return np.maximum(1.0 + risen * reach(near, now, delay), 0.0)


def possible_on(delay: Float | float, near: Float | float, now: Float | float, benefit: Float | float) -> tuple[Float, Float]:
    """Return the least and the most T(x) / T(now) of a run that is convex in the delay and that no delay makes shorter.

    The range is the line to 1/b below `near`, 1/b to the line between `near` and `now`, and the line to infinity beyond `now`.

    >>> [tuple(round(float(end), 3) for end in possible_on(x, 10, 100, 1.21)) for x in (0, 10, 55, 100, 1000)]
    [(0.807, 0.826), (0.826, 0.826), (0.826, 0.913), (1.0, 1.0), (2.736, inf)]
    """
    x, line, flat = np.asarray(delay), bound_on(delay, near, now, benefit), 1.0 / np.asarray(benefit, dtype=np.float64)
    least = np.where((x > near) & (x < now), flat, line)
    return least, np.where(x > now, np.inf, np.where(x <= near, flat, line))


def least_penalty(benefit: Float | float, near: Float | float, now: Float | float, far: Float | float) -> Float:
    """Return the least T(far) / T(now) of a run that is convex in the delay and b times faster at `near` than at `now`.

    1 + (1 - 1/b) (far - now) / (now - near), for near < now <= far; 1 where b is below 1, because no delay makes a run shorter.

    >>> round(float(least_penalty(1.21, 10e-6, 100e-6, 1e-3)), 2)
    2.74
    """
    return np.maximum(bound_on(far, near, now, benefit), 1.0)


def most_benefit(penalty: Float | float, near: Float | float, now: Float | float, far: Float | float) -> Float:
    """Return the largest T(now) / T(near) of a run that is convex in the delay and p times slower at `far` than at `now`.

    1 / (1 - (p - 1) / reach), for near < now < far; infinite where the penalty sets no limit (p - 1 of at least the reach).

    >>> round(float(most_benefit(1.45, 10e-6, 100e-6, 1e-3)), 3)
    1.047
    """
    left = np.asarray(1.0 - (np.asarray(penalty, dtype=np.float64) - 1.0) / reach(near, now, far))
    benefit: Float = np.divide(1.0, left, out=np.full(left.shape, np.inf), where=left > 0)
    return benefit


def farthest(benefit: Float | float, penalty: Float | float, near: Float | float, now: Float | float) -> Float:
    """Return the largest delay at which a run that gains b from `now` to `near` can have a penalty of only p over `now`.

    now + (now - near) (p - 1) / (1 - 1/b), in the unit of `near` and `now`; infinite where nothing is gained.

    >>> round(1e6 * float(farthest(2.98, 1.45, 10e-6, 100e-6)))
    161
    """
    risen = np.asarray(1.0 - 1.0 / np.asarray(benefit, dtype=np.float64))
    slower = np.asarray((np.asarray(now, dtype=np.float64) - near) * (np.asarray(penalty, dtype=np.float64) - 1.0))
    shape = np.broadcast(risen, slower).shape
    further: Float = np.divide(slower, risen, out=np.full(shape, np.inf), where=risen > 0)
    return np.asarray(now + further)


def added_seconds(seconds: Float | float, benefit: Float | float) -> Float:
    """Return the time that latency adds to a run of `seconds` without it, if removing it gains b: T(0) (b - 1) [s].

    >>> round(float(added_seconds(50022e-6, 1.40)) * 1e3, 1)
    20.0
    """
    return np.asarray(np.asarray(seconds, dtype=np.float64) * (np.asarray(benefit, dtype=np.float64) - 1.0))
