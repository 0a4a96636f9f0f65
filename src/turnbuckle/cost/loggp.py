"""Copies over a link: T(n) = (o + L) + n / (eta BW).

The form is LogGP's with nG for the bytes, fitted by Groves et al. (PMBS 2022, Fig 8) on time per
byte and here on T(n) (D4).  Valid for the sizes it was fitted on; a finding reports sizes outside
them.
"""

from __future__ import annotations

import numpy as np

from turnbuckle.foundation.arrays import Float


def loggp_seconds(size_bytes: Float, latency: Float | float, bandwidth: Float | float) -> Float:
    """Return the time of one copy [s].

    Parameters
    ----------
    size_bytes : n [B].
    latency : o + L [s].
    bandwidth : eta BW [B/s]; infinity costs nothing.

    >>> float(loggp_seconds(np.array([24.1e6]), 2e-6, 24.1e9)[0])
    0.001002
    """
    return np.asarray(latency + size_bytes / bandwidth)


def rate(seconds_per_byte: Float | float) -> Float:
    """Return the bandwidth [B/s] of a cost per byte [s/B]; infinite where a byte costs nothing."""
    cost = np.asarray(seconds_per_byte, dtype=np.float64)
    out: Float = np.divide(1.0, cost, out=np.full(cost.shape, np.inf), where=cost > 0)
    return out


def read_limited_bandwidth(
    bandwidth: Float | float,
    tags: Float | float,
    request_bytes: Float | float,
    round_trip: Float | float,
) -> Float:
    """Return the bandwidth [B/s] of reads with a limited number in flight: min(BW, tags x request /
    round trip) (Little's law, D12).

    A device that copies from the host reads; each request waits one round trip for its data.

    Parameters
    ----------
    bandwidth : what the link gives [B/s].
    tags : number of requests in flight.
    request_bytes : bytes that a request asks for (MRRS) [B].
    round_trip : time from a request to its data [s].

    >>> [round(float(read_limited_bandwidth(200e9, 256, 512, r)) / 1e9, 1) for r in (1.2e-6, 5.2e-6, 101e-6)]
    [109.2, 25.2, 1.3]
    """
    return np.minimum(bandwidth, tags * request_bytes / round_trip)


def on_other_link(cost: Float | float, source: Float | float, target: Float | float) -> Float:
    """Carry the cost of one class of copies (latency [s] or seconds a byte) to another link.

    `cost` is that of the class on the source, `source` and `target` are the costs of the link
    itself on the two machines.  The cost of the class beyond its link (the driver's staging of
    pageable memory, the handling of page faults) stays.  A class that is cheaper than its link
    keeps its ratio to it.

    >>> float(on_other_link(5.0, 2.0, 3.0)), float(on_other_link(1.0, 2.0, 3.0))
    (6.0, 1.5)
    """
    cost, source, target = (
        np.asarray(cost, dtype=np.float64),
        np.asarray(source, dtype=np.float64),
        np.asarray(target, dtype=np.float64),
    )
    share = np.divide(
        cost, source, out=np.ones(np.broadcast_shapes(cost.shape, source.shape)), where=source > 0
    )
    return np.where(cost >= source, target + (cost - source), target * share)
