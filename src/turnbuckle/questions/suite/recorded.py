"""What each recording of a suite is made of, by the numbers that the papers compare several
programs by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.fields import Declared
from turnbuckle.profile.summary import summary
from turnbuckle.profile.summary.compared import (
    SIZE_EDGES,
    CopySizes,
    WindowShares,
    copy_sizes,
    transfer_share,
    window_shares,
)
from turnbuckle.profile.summary.describe import launch_cost
from turnbuckle.profile.summary.offload import offload_together
from turnbuckle.projection.run import Run

#: Shares of the kernel launches whose duration is shown.
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Bin(Declared):
    """Copies between host and device from one size up to another: their number, and the sum of
    their durations [s].
    """

    from_bytes: int
    below_bytes: int | None
    count: int
    seconds: float


@dataclass(frozen=True)
class Recorded(Declared):
    """Kernels and copies of a recording.

    Attributes
    ----------
    typical : duration below which half of the kernel time is spent [s].
    sizes : copies between host and device by size.
    window : shares of the kernel window; None without kernels.
    offload : all kernels together on the offload map
        (`turnbuckle.profile.summary.offload.offload_together`); None without kernels.
    reached : direction, memory, size [B], median bandwidth [B/s] and number of copies, a row for
        each factor of two in size.
    """

    launches: int
    kernel_seconds: float
    durations: tuple[float, ...]
    typical: float
    copies: int
    copy_seconds: float
    sizes: CopySizes
    window: WindowShares | None
    offload: Mapping[str, Any] | None
    reached: tuple[tuple[str, str, float, float, int], ...] = field(repr=False)

    @property
    def copy_share(self) -> float:
        """Return copy time over kernel and copy time."""
        return transfer_share(self.kernel_seconds, self.copy_seconds)

    @property
    def bins(self) -> list[Bin]:
        """Return the copies by size, the smallest first."""
        edges = pairwise((0, *SIZE_EDGES, None))
        return [
            Bin(low or 0, high, n, s)
            for (low, high), n, s in zip(edges, self.sizes.counts, self.sizes.seconds, strict=True)
        ]


def recorded(run: Run) -> Recorded:
    """Return what the kernels and copies of a recording are like."""
    profile = run.profile
    kernels = run.trace.kernels
    seconds = (
        np.sort((kernels["end_ns"] - kernels["start_ns"]).to_numpy().astype(np.float64)) * 1e-9
    )
    durations: tuple[float, ...] = ()
    typical = 0.0
    if seconds.size:
        durations = tuple(np.quantile(seconds, QUANTILES).tolist())
        typical = float(seconds[np.searchsorted(np.cumsum(seconds), seconds.sum() / 2)])
    between = [summary.copies(profile)[direction] for direction in ("h2d", "d2h")]
    reached = [
        (direction, memory, row["size_bytes"], row["size_bytes"] / row["seconds"], row["count"])
        for (direction, memory), fit in run.fits.items()
        for row in fit.bins.to_dicts()
        if row["seconds"] > 0 and row["size_bytes"] > 0
    ]
    return Recorded(
        launches=int(seconds.size),
        kernel_seconds=int((kernels["end_ns"] - kernels["start_ns"]).sum()) * 1e-9,
        durations=durations,
        typical=typical,
        copies=sum(copies["count"] for copies in between),
        copy_seconds=sum(copies["busy_ns"] for copies in between) * 1e-9,
        sizes=copy_sizes(profile),
        window=window_shares(profile),
        offload=offload_together(profile, launch_cost(run.source)),
        reached=tuple(reached),
    )
