"""The offload rule and the offload map of kernels (Groves et al. 2022, section III, Figs 1 and 9).

A kernel that takes T on the accelerator would take T_c = alpha T on the host.  Moving it pays when

    (T_beta + T_gamma) / T_c < (alpha - 1) / alpha

with T_beta the time to bring its data and launch it, and T_gamma the time to bring the answer back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.summary import copies, kernel_names

#: Acceleration over the host CPU where the user gives none: the value the paper uses for an A100
#: (its Fig 9).
DEFAULT_ALPHA = 8.0


def offload_ratio_limit(alpha: Float | float) -> Float | float:
    """Return the largest offload:compute ratio that still pays, (alpha - 1) / alpha.

    >>> offload_ratio_limit(2.0), offload_ratio_limit(5.0)
    (0.5, 0.8)
    """
    return (alpha - 1.0) / alpha


def disaggregation_penalty(
    added_latency_s: float, total_s: Float | float, launch: bool = False
) -> Float | float:
    """Return the share by which a kernel with one copy in and one out slows down: 2 dL / T, or 3 dL
    / T if the launch crosses too.

    >>> round(disaggregation_penalty(2e-6, 80e-6), 3)
    0.05
    """
    return (3.0 if launch else 2.0) * added_latency_s / total_s


def offload_map(profile: Profile, launch_s: float, alpha: float = DEFAULT_ALPHA) -> pl.DataFrame:
    """Return one row per kernel name.

    Copies to the device are charged to the next kernel that starts on the device, copies back to
    the last one that ended.

    Parameters
    ----------
    profile : profile of the run.
    launch_s : launch cost of one kernel [s].
    alpha : acceleration over the host CPU.

    Returns
    -------
    kernel, count, kernel_s (mean), transfer_s (mean copy time per launch), exposed_transfer_s (the
    part that no kernel hides), ratio (offload:compute), limit, pays (at the exposed and at the full
    transfer time: "yes", "no", "with overlap only"), total_s.  Longest total first.
    """
    kernels = profile.of("kernel")
    schema = {
        "kernel": pl.String,
        "count": pl.UInt32,
        "kernel_s": pl.Float64,
        "transfer_s": pl.Float64,
        "exposed_transfer_s": pl.Float64,
    }
    if not kernels.height:
        return pl.DataFrame(
            schema={
                **schema,
                "ratio": pl.Float64,
                "limit": pl.Float64,
                "pays": pl.String,
                "total_s": pl.Float64,
            }
        )
    rows = _charged(profile, kernels).with_columns(kernel=kernel_names(profile, kernels))
    table = _judged(rows.group_by("kernel").agg(*_means()), launch_s, alpha)
    return table.sort("total_s", "kernel", descending=[True, False])


def offload_together(
    profile: Profile, launch_s: float, alpha: float = DEFAULT_ALPHA
) -> dict[str, Any] | None:
    """Return all kernels of a run as one row of `offload_map`, without a name; None without
    kernels.

    ``each_way_s`` is the time of one mean copy to the device and one mean copy back: where the
    paper's map has an application.  A line of time over size has the mean time at the mean size, so
    that the mean of the recorded times stands for it.
    """
    kernels = profile.of("kernel")
    if not kernels.height:
        return None
    (row,) = _judged(_charged(profile, kernels).select(*_means()), launch_s, alpha).to_dicts()
    classes = copies(profile)
    means = (
        classes[direction]["busy_ns"] / max(classes[direction]["count"], 1)
        for direction in ("h2d", "d2h")
    )
    return row | {"launch_s": launch_s, "each_way_s": sum(means) * 1e-9}


def _charged(profile: Profile, kernels: pl.DataFrame) -> pl.DataFrame:
    charged, exposed = _charge(profile, kernels)
    return kernels.with_columns(transfer=pl.Series(charged), exposed_transfer=pl.Series(exposed))


def _means() -> tuple[pl.Expr, ...]:
    ways = {
        "kernel_s": "seconds",
        "transfer_s": "transfer",
        "exposed_transfer_s": "exposed_transfer",
    }
    return (pl.len().alias("count"), *(_mean(column).alias(name) for name, column in ways.items()))


def _judged(table: pl.DataFrame, launch_s: float, alpha: float) -> pl.DataFrame:
    """Add the offload:compute ratio, its limit, whether moving pays, and the total time [s]."""
    limit = float(offload_ratio_limit(alpha))
    on_host = pl.col("kernel_s") * alpha
    full = (pl.col("transfer_s") + launch_s) / on_host
    best = (pl.col("exposed_transfer_s") + launch_s) / on_host
    return table.with_columns(
        ratio=pl.when(on_host > 0).then(full),
        limit=pl.lit(limit),
        pays=pl.when(full < limit)
        .then(pl.lit("yes"))
        .when(best < limit)
        .then(pl.lit("with overlap only"))
        .otherwise(pl.lit("no")),
        total_s=pl.col("count") * (pl.col("kernel_s") + pl.col("transfer_s") + launch_s),
    )


def _mean(column: str) -> pl.Expr:
    """Return the mean of times of whole nanoseconds [s]: whole numbers have one sum, whatever the
    order in which threads add them up.
    """
    return (pl.col(column) * 1e9).round().cast(pl.Int64).sum() / 1e9 / pl.len()


def _charge(profile: Profile, kernels: pl.DataFrame) -> tuple[Float, Float]:
    """Return the copy seconds, and exposed copy seconds, charged to every kernel."""
    devices = profile.tracks.select("track", "device")
    kernel_device = (
        kernels.select("track")
        .join(devices, on="track", how="left", maintain_order="left")["device"]
        .fill_null(-1)
        .to_numpy()
    )
    start, end = kernels["start_ns"].to_numpy(), kernels["end_ns"].to_numpy()
    charged, exposed = np.zeros(kernels.height), np.zeros(kernels.height)
    for kind, inward in (("copy_h2d", True), ("copy_d2h", False)):
        rows = profile.of(kind).join(devices, on="track", how="left", maintain_order="left")
        for device in rows["device"].fill_null(-1).unique().to_list():
            moves = rows.filter(pl.col("device").fill_null(-1) == device)
            device_kernels = np.flatnonzero(kernel_device == device)
            if not len(device_kernels):
                continue
            order = device_kernels[
                np.argsort((start if inward else end)[device_kernels], kind="stable")
            ]
            if inward:
                index = np.searchsorted(start[order], moves["end_ns"].to_numpy(), side="left")
            else:
                index = np.searchsorted(end[order], moves["start_ns"].to_numpy(), side="right") - 1
            valid = (index >= 0) & (index < len(order))
            np.add.at(charged, order[index[valid]], moves["seconds"].to_numpy()[valid])
            np.add.at(exposed, order[index[valid]], moves["exposed_ns"].to_numpy()[valid] * 1e-9)
    return charged, exposed


def map_lines(
    launch_s: float, alpha: float, added_latency_s: float, transfer_s: Float
) -> dict[str, Any]:
    """Return lines of the offload map at the given transfer times [s]: kernel time [s] at
    break-even, and at penalties of 1, 5 and 20 %.

    Break-even: alpha T = transfer + launch + T, so T = (transfer + launch) / (alpha - 1).
    """
    lines: dict[str, Any] = {"break_even": (transfer_s + launch_s) / (alpha - 1.0)}
    for percent in (1, 5, 20):
        lines[f"penalty_{percent}"] = np.maximum(
            3.0 * added_latency_s / (percent / 100) - transfer_s - launch_s, 0.0
        )
    return lines
