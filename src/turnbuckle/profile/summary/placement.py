"""Difference between two rank placements of one program: the traffic on the host link that is bound
for the NIC.

With all ranks on one node, data between ranks moves over the GPU links; with one rank per node it
crosses the host link on its way to the network.  So NIC-bound volume = V(spread) - V(packed)
(decision D14; Groves et al. 2022, section V, whose text has the sign the other way round).
"""

from __future__ import annotations

import polars as pl

from turnbuckle.foundation.errors import error_of
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.summary import COPY_CLASSES, copies
from turnbuckle.trace.recorders import what_to_record


def nic_bound(spread: Profile, packed: Profile) -> pl.DataFrame:
    """Return the host-bound and NIC-bound traffic by direction.

    Parameters
    ----------
    spread : run with one rank per node.
    packed : run of the same program, input and rank count on one node.

    Returns
    -------
    direction, spread_bytes, packed_bytes, nic_bound_bytes, nic_bound_share (of the spread run),
    nic_bound_count. A negative volume is kept: it shows that the two runs are not the same program.

    Raises
    ------
    CannotAnswer : one of the profiles has no host-device copies.
    """
    rows = []
    a, b = copies(spread), copies(packed)
    if not any(v["count"] for v in a.values()) or not any(v["count"] for v in b.values()):
        raise error_of("A110", found="one has none", fix=what_to_record("gpu", spread.trace.facts))
    for direction in COPY_CLASSES:
        spread_bytes, packed_bytes = a[direction]["bytes"], b[direction]["bytes"]
        if not a[direction]["count"] and not b[direction]["count"]:
            continue
        rows.append(
            {
                "direction": direction,
                "spread_bytes": spread_bytes,
                "packed_bytes": packed_bytes,
                "nic_bound_bytes": spread_bytes - packed_bytes,
                "nic_bound_share": (spread_bytes - packed_bytes) / spread_bytes
                if spread_bytes
                else None,
                "nic_bound_count": a[direction]["count"] - b[direction]["count"],
            }
        )
    return pl.DataFrame(rows)


def nic_shares(spread: Profile, packed: Profile) -> dict[str, float]:
    """Return the share of the bytes between host and device that continue to the NIC, by direction.

    Raises
    ------
    CannotAnswer : A110 as `nic_bound`; A158 where the packed run copies more than the spread one.
    """
    rows = nic_bound(spread, packed).filter(
        pl.col("direction").is_in(["h2d", "d2h"]) & pl.col("nic_bound_share").is_not_null()
    )
    shares = dict(rows.select("direction", "nic_bound_share").rows())
    if less := [direction for direction, share in shares.items() if share < 0]:
        raise error_of(
            "A158",
            where=packed.trace.name,
            found=", ".join(f"{-shares[direction]:.1%} more {direction}" for direction in less),
        )
    return shares
