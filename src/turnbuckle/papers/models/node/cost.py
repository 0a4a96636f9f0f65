"""Gains of a run whose messages move from the network into a node (Austin et al. 2021, section 8).

Shares are of the run time and lie in [0, 1].  Every part that is not named keeps its time, and so
do latencies and the wait for a late rank.  MPI time is not all transfer, so the result is the most
that a run can gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from turnbuckle.cost.loggp import loggp_seconds
from turnbuckle.cost.ratio import fraction_benefit
from turnbuckle.foundation.arrays import Float


def fraction_speedup(
    communication: Float | float,
    p2p: Float | float,
    off_node: Float | float,
    bandwidth_ratio: Float | float,
) -> Float:
    """Return the run time now over the run time with the off-node point-to-point messages on a path
    `bandwidth_ratio` times faster.

    S = 1 / (1 - c p o (1 - 1/k)).  The report does not print the formula; this one gives all four
    rows of its Table 12.

    Parameters
    ----------
    communication : c, share of the run time in communication.
    p2p : p, share of the communication in point-to-point messages; collectives keep their time.
    off_node : o, share of the point-to-point messages that leaves the node.
    bandwidth_ratio : k, new over old bandwidth of the path of these messages; infinity gives the
        bound.

    >>> round(float(fraction_speedup(0.75, 0.99, 0.29, 25 * 8 / 24)), 2)
    1.23
    """
    moved = np.asarray(communication, dtype=np.float64) * p2p * off_node
    return fraction_benefit(moved, bandwidth_ratio)


def path_ratio(
    size_bytes: Float,
    now_latency: Float | float,
    now_bandwidth: Float | float,
    then_latency: Float | float,
    then_bandwidth: Float | float,
) -> float:
    """Return the speed-up of a set of messages on another path, latencies included: sum T_now(n) /
    sum T_then(n).

    T(n) = (o + L) + n / BW.  The ratio tends to that of bandwidths for long messages, and to that
    of latencies for short ones.

    Parameters
    ----------
    size_bytes : size of each message [B], shape (messages,).
    now_latency, then_latency : latencies of the two paths [s].
    now_bandwidth, then_bandwidth : bandwidths of the two paths [B/s].

    Returns k for `fraction_speedup`; 1 without messages.

    >>> [round(path_ratio(np.array([n]), 2e-6, 24e9, 1e-6, 200e9), 2) for n in (8.0, 64e3, 1e9)]
    [2.0, 3.54, 8.33]
    """
    now = float(loggp_seconds(size_bytes, now_latency, now_bandwidth).sum())
    then = float(loggp_seconds(size_bytes, then_latency, then_bandwidth).sum())
    return now / then if now > 0 and then > 0 else math.inf if now > 0 else 1.0


class Staged(NamedTuple):
    """Share of run time that bandwidth limits, and how many of its stages stay on a node.

    A tree collective has log2(ranks) stages; a message has one.
    """

    share: float
    on_node: float
    stages: float


def staged_share(
    parts: Sequence[Staged | tuple[float, float, float]], bandwidth_factor: float
) -> float:
    """Return the run time with on-node bandwidth `bandwidth_factor` times higher, as a share of
    today's.

    T = 1 - sum over parts of share x (on_node / stages) x (1 - 1/factor): stages of one part take
    the same time.

    Parameters
    ----------
    parts : share of run time, stages on the node, stages in all (at least 1), for all parts that
        bandwidth limits; a barrier is not one.
    bandwidth_factor : new over old bandwidth on the node; infinity gives the bound.

    >>> round(staged_share([(0.058, 3, 4), (0.014, 1, 1)], 2), 5)
    0.97125
    """
    moved = sum(share * on_node / stages for share, on_node, stages in parts)
    return 1.0 - moved + moved / bandwidth_factor


def all_on_node(parts: Sequence[Staged | tuple[float, float, float]]) -> list[Staged]:
    """Return the same parts with every stage on the node, as on a node that holds all ranks.

    >>> all_on_node([(0.058, 3, 4)])
    [Staged(share=0.058, on_node=4, stages=4)]
    """
    return [Staged(share, stages, stages) for share, _, stages in parts]


def tree_stages(ranks: int, ranks_per_node: int) -> tuple[int, int]:
    """Return the number of stages of a binary tree over `ranks` that stay on a node, and the number
    of all its stages.

    All stages are ceil(log2(ranks)), and those across nodes ceil(log2(nodes)), with ranks placed
    node by node.

    >>> tree_stages(16, 8), tree_stages(16, 16), tree_stages(1, 8)
    ((3, 4), (4, 4), (0, 0))
    """
    stages = max(ranks - 1, 0).bit_length()
    nodes = -(-ranks // ranks_per_node)
    across = min(max(nodes - 1, 0).bit_length(), stages)
    return stages - across, stages


def gain(before: Float | float, after: Float | float) -> Float:
    """Return the increase of work in the same time: before / after - 1, from two run times or two
    shares of one run time.

    >>> round(100 * float(gain(1, 0.97125)), 2)
    2.96
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.asarray(before, dtype=np.float64) / after - 1.0)
