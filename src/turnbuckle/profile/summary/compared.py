"""What several programs are compared by, each number as the paper defines it that first tabulated
it.

Transfers beside kernels are Table I of Abdelhafez et al. (AHEAD), copies by size Table III of
Shorts and Grant and Fig 1 of AHEAD, and shares of the kernel window the radar plots of Groves et
al. 2022 (Figs 6 and 7).  Totals are those of `turnbuckle.profile.summary.summary`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary import summary
from turnbuckle.profile.summary.describe import untold
from turnbuckle.trace.intervals import union_ns
from turnbuckle.trace.window import kernels_ns

#: Sizes between which copies are counted [B]: the matrices of Shorts and Grant, 1 MiB to 4 GiB, and
#: smaller ones in the same steps of 16.
SIZE_EDGES: Final = (256, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 4096 << 20)
#: How many of the bins lie below 1 MiB: Table III has them as one.
BELOW_MIB: Final = 4
_BETWEEN_DEVICES: Final = ("p2p", "migration_d2d")


def transfer_share(kernel_seconds: float, copy_seconds: float) -> float:
    """Return copy time over the sum of kernel and copy time (AHEAD, Table I), both plain sums of
    durations; 0 without either.

    >>> round(transfer_share(2.88, 2.23), 4)
    0.4364
    """
    both = kernel_seconds + copy_seconds
    return copy_seconds / both if both else 0.0


def bin_counts(values: Float, edges: Float) -> Int:
    """Count the values below the first edge, from each edge up to the next, and from the last on:
    shape (edges + 1,).
    """
    return np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)


@dataclass(frozen=True)
class CopySizes:
    """Copies between host and device by size.

    Attributes
    ----------
    counts, seconds : copies, and the sum of their durations [s]: below the first of `SIZE_EDGES`,
        between edges, from the last on.
    unsized : copies whose size is not recorded; they are in no bin.
    mean_bytes : of those with a size [B]; None without any.
    """

    counts: tuple[int, ...]
    seconds: tuple[float, ...]
    unsized: int
    mean_bytes: float | None

    @property
    def table_iii(self) -> tuple[int, ...]:
        """Return the counts as Table III of Shorts and Grant has them: below 1, 16, 256 and 4096
        MiB, and the rest.
        """
        return (sum(self.counts[:BELOW_MIB]), *self.counts[BELOW_MIB:])


def copy_sizes(profile: Profile) -> CopySizes:
    """Return the copies between host and device by size."""
    rows = profile.of("copy_h2d", "copy_d2h")
    sized = rows.filter(pl.col("size_bytes").is_not_null())
    size, edges = (
        sized["size_bytes"].cast(pl.Float64).to_numpy(),
        np.array(SIZE_EDGES, dtype=np.float64),
    )
    spent = (sized["end_ns"] - sized["start_ns"]).to_numpy()
    seconds = (
        np.bincount(
            np.searchsorted(edges, size, side="right"), weights=spent, minlength=len(edges) + 1
        )
        * 1e-9
    )
    mean = float(size.mean()) if len(size) else None
    return CopySizes(
        tuple(bin_counts(size, edges).tolist()),
        tuple(seconds.tolist()),
        rows.height - sized.height,
        mean,
    )


@dataclass(frozen=True)
class WindowShares:
    """Shares of the kernel window, first kernel's start to last kernel's end, in which each part of
    the node works.

    Parts that work at the same time count each, so that the shares may add up to more than 1.  Of
    several devices, streams or threads an instant counts once.  None is not recorded.

    Attributes
    ----------
    kernels : a kernel runs.
    one_core, several_cores : one thread of the run is on a core, or several are.
    link : a copy or a migration between host and device runs.
    peer : a copy or a migration between devices runs.
    launches : a call that starts kernels runs.
    """

    kernels: float
    one_core: float | None
    several_cores: float | None
    link: float | None
    peer: float | None
    launches: float | None

    def recorded(self) -> dict[str, float]:
        """Return the shares that are recorded, by name."""
        every = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in every.items() if value is not None}


def window_shares(profile: Profile) -> WindowShares | None:
    """Return the shares of the kernel window; None without kernels."""
    bounds = kernels_ns(profile.trace)
    if bounds is None or bounds[1] <= bounds[0]:
        return None
    first, last = bounds
    silent = untold(profile)

    moves = profile.of("copy_h2d", "copy_d2h", "copy_p2p", "migration").with_columns(
        pl.col("direction").cast(pl.String)
    )

    def share(rows: pl.DataFrame, category: str) -> float | None:
        if category in silent and not rows.height:
            return None
        return union_ns(
            *(np.clip(rows[end].to_numpy(), first, last) for end in ("start_ns", "end_ns"))
        ) / (last - first)

    cores = summary.cpu_activity(profile, bounds)
    calls = profile.trace.api[profile.of("launch")["row"].to_numpy()]
    return WindowShares(
        kernels=union_ns(*(profile.trace.kernels[end].to_numpy() for end in ("start_ns", "end_ns")))
        / (last - first),
        one_core=None if cores is None else cores["serial_s"] / ((last - first) * 1e-9),
        several_cores=None if cores is None else cores["parallel_s"] / ((last - first) * 1e-9),
        link=share(moves.filter(~pl.col("direction").is_in(_BETWEEN_DEVICES)), "copy"),
        peer=share(moves.filter(pl.col("direction").is_in(_BETWEEN_DEVICES)), "copy"),
        launches=share(calls, "api"),
    )
