"""Links of a run: latency and bandwidth of every class of copy, fitted to the recorded copies.

    T(n) = (o + L) + n / (eta BW)                                  [s], n in bytes

fitted on T(n) with weights 1/T^2 (relative residuals), robustly (decision D4; Groves et al., PMBS
2022, for the form). A class is a direction and a kind of host memory: pageable copies are staged by
the driver and follow another line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.schema import table_rows
from turnbuckle.machine import device_words
from turnbuckle.machine.parameter_names import HOST_WAYS
from turnbuckle.profile.profile import DIRECTIONS, Profile

#: Distinct sizes, and span of sizes, below which latency and bandwidth cannot be told apart.
MIN_SIZES, MIN_SPAN = 4, 8.0
#: Huber's constant: 95 % efficient on clean data.
HUBER = 1.345
#: More copies than this are thinned evenly over the sizes before the fit.
MAX_POINTS = 200_000
#: A copy this small costs latency only.
SMALL_BYTES = 4096
#: Share of its latency that the largest copy's bytes must take at least, else its size told
#: nothing.
LEAST_SLOPE = 1e-6
#: Relative errors of a latency and of a bandwidth that are read off a few copies.
READ_OFF_LATENCY, READ_OFF_BANDWIDTH = 0.35, 0.2
#: Copies below this share of their link's nominal rate are worth a finding.
POOR_EFFICIENCY = 0.6


@dataclass(frozen=True)
class LinkFit(Declared):
    """Line fitted to one class of copies.

    Attributes
    ----------
    direction, memory : class of the copies.
    count, size_bytes : number of copies, and sum of their bytes [B].
    latency_s, latency_error : o + L and its standard error [s].
    bandwidth, bandwidth_error : eta BW and its standard error [B/s]; None where the sizes do not
        determine it.
    r2 : share of the relative variance that the line explains; None for a fallback.
    residual_spread : robust standard deviation of log(T / line) over size bins, which is the error
        of the form itself.
    smallest_bytes, largest_bytes : range of the fitted sizes [B].
    fitted : whether a line was fitted; otherwise the latency is that of the smallest copies and the
        bandwidth that of the largest.
    bins : one row for each factor of two in size: count, size_bytes (mean) [B], seconds (median)
        [s], bandwidth [B/s].
    """

    direction: str
    memory: str
    count: int
    size_bytes: int
    latency_s: float
    latency_error: float
    bandwidth: float | None
    bandwidth_error: float | None
    r2: float | None
    residual_spread: float
    smallest_bytes: int
    largest_bytes: int
    fitted: bool
    bins: pl.DataFrame = field(repr=False)

    def seconds(self, size_bytes: Float) -> Float:
        """Evaluate the line at `size_bytes` [B] -> [s]."""
        per_byte = 0.0 if self.bandwidth is None else 1.0 / self.bandwidth
        return self.latency_s + size_bytes * per_byte


def fit_line(size_bytes: Float, seconds: Float, rounds: int = 30) -> tuple[Float, Float, float]:
    """Return the robust relative fit of ``seconds = a + b size_bytes`` with a, b >= 0.

    Parameters
    ----------
    size_bytes : sizes [B], shape (n,).
    seconds : durations [s], shape (n,), all positive.
    rounds : largest number of reweightings.

    Returns
    -------
    (a, b), their covariance (2, 2), and R^2 of the relative residuals.

    Iteratively reweighted least squares with Huber's weights (k = 1.345) on the relative residual.

    >>> n = np.array([8.0, 1e3, 1e5, 1e7]); ab, _, _ = fit_line(n, 2e-6 + n / 25e9)
    >>> float(round(ab[0] * 1e6, 6)), float(round(1e-9 / ab[1], 6))
    (2.0, 25.0)
    """
    scale = 1.0 / seconds
    design = np.stack([scale, size_bytes * scale], axis=1)
    norm = np.linalg.norm(design, axis=0)
    design_n = design / norm
    weight = np.ones_like(seconds)
    ab_n = np.zeros(2)
    for _ in range(rounds):
        root = np.sqrt(weight)[:, None]
        new, *_ = np.linalg.lstsq(design_n * root, root[:, 0], rcond=None)
        if new[0] < 0:  # no negative latency: the line through the origin
            new = np.array(
                [0.0, float((weight * design_n[:, 1]).sum() / (weight * design_n[:, 1] ** 2).sum())]
            )
        elif new[1] < 0:
            new = np.array(
                [float((weight * design_n[:, 0]).sum() / (weight * design_n[:, 0] ** 2).sum()), 0.0]
            )
        residual = 1.0 - design_n @ new
        spread = max(1.4826 * float(np.median(np.abs(residual))), 1e-12)
        weight = np.minimum(1.0, HUBER * spread / np.maximum(np.abs(residual), 1e-300))
        if (np.abs(new - ab_n) <= 1e-10 * np.abs(ab_n)).all():
            break
        ab_n = new
    residual = 1.0 - design_n @ ab_n
    # Huber's asymptotic covariance: clipped residuals over the share that was not clipped
    dof = max(len(seconds) - 2, 1)
    limit = HUBER * max(1.4826 * float(np.median(np.abs(residual))), 1e-12)
    clipped = np.clip(residual, -limit, limit)
    unclipped = max(float(np.mean(np.abs(residual) <= limit)), 1e-3)
    variance = float((clipped**2).sum() / dof) / unclipped**2
    covariance = variance * np.linalg.pinv(design_n.T @ design_n) / np.outer(norm, norm)
    line = (design_n @ ab_n) * seconds
    total = float(
        (weight * (np.log(seconds) - np.average(np.log(seconds), weights=weight)) ** 2).sum()
    )
    left = float((weight * (np.log(seconds) - np.log(np.maximum(line, 1e-300))) ** 2).sum())
    return ab_n / norm, covariance, 1.0 - left / total if total > 0 else 0.0


def size_bins(size_bytes: Float, seconds: Float) -> pl.DataFrame:
    """Return the copies by factor of two in size: count, mean size [B], median seconds [s],
    bandwidth [B/s], bytes.
    """
    frame = pl.LazyFrame({"n": size_bytes, "t": seconds}).with_columns(
        octave=pl.col("n").clip(1).log(2).floor().cast(pl.Int32)
    )
    return (
        frame.group_by("octave")
        .agg(
            count=pl.len(),
            size_bytes=pl.col("n").mean(),
            seconds=pl.col("t").median(),
            total_bytes=pl.col("n").sum(),
            total_seconds=pl.col("t").sum(),
        )
        .sort("octave")
        .with_columns(bandwidth=pl.col("total_bytes") / pl.col("total_seconds"))
        .collect()
    )


def fit_class(direction: str, memory: str, size_bytes: Float, seconds: Float) -> LinkFit:
    """Fit one class of copies, or fall back to its smallest and largest copies where the sizes
    differ too little.
    """
    keep = seconds > 0
    bins = size_bins(size_bytes[keep], seconds[keep])
    order = np.argsort(size_bytes[keep], kind="stable")
    n, t = size_bytes[keep][order], seconds[keep][order]
    if len(n) > MAX_POINTS:
        pick = np.linspace(0, len(n) - 1, MAX_POINTS).astype(np.int64)
        n, t = n[pick], t[pick]
    facts: dict[str, Any] = {
        "direction": direction,
        "memory": memory,
        "count": len(seconds),
        "size_bytes": int(size_bytes.sum()),
    }
    facts |= {
        "smallest_bytes": int(n[0]) if len(n) else 0,
        "largest_bytes": int(n[-1]) if len(n) else 0,
        "bins": bins,
    }
    if len(np.unique(n)) >= MIN_SIZES and n[-1] >= MIN_SPAN * max(n[0], 1.0):
        (a, b), covariance, r2 = fit_line(n, t)
        # a slope within its own error, or a rounding of none, is no bandwidth
        if b > np.sqrt(covariance[1, 1]) and b * n[-1] > LEAST_SLOPE * a:
            off = np.log(
                bins["seconds"].to_numpy()
                / np.maximum(a + bins["size_bytes"].to_numpy() * b, 1e-300)
            )
            spread = float(np.sqrt(np.average(off**2, weights=bins["total_seconds"].to_numpy())))
            facts |= {
                "latency_error": float(np.sqrt(covariance[0, 0])),
                "bandwidth_error": float(np.sqrt(covariance[1, 1]) / b**2),
            }
            return LinkFit(
                latency_s=float(a),
                bandwidth=1.0 / float(b),
                r2=r2,
                residual_spread=spread,
                fitted=True,
                **facts,
            )
    return _read_off(n, t, facts)


def _read_off(n: Float, t: Float, facts: dict[str, Any]) -> LinkFit:
    """Take the latency from small copies and the bandwidth from large ones, with assumed relative
    errors.
    """
    if not len(n):
        return LinkFit(
            latency_s=0.0,
            latency_error=0.0,
            bandwidth=None,
            bandwidth_error=None,
            r2=None,
            residual_spread=0.5,
            fitted=False,
            **facts,
        )
    small = t[n <= SMALL_BYTES]
    latency = float(np.median(small)) if len(small) else 0.0
    large = n > max(SMALL_BYTES, 0.5 * n[-1])
    unsure = READ_OFF_LATENCY * latency
    beyond = t[large] - latency
    bandwidth = error = None
    # where large copies take no longer than small ones, within what the latency is worth, they tell
    # no bandwidth
    if large.any() and (rest := float(np.median(beyond))) > unsure:
        resolved = beyond > unsure
        bandwidth = float(np.median(n[large][resolved] / beyond[resolved]))
        error = bandwidth * float(np.hypot(READ_OFF_BANDWIDTH, unsure / rest))
    facts |= {
        "latency_error": unsure,
        "bandwidth_error": error,
        "residual_spread": READ_OFF_BANDWIDTH,
    }
    return LinkFit(latency_s=latency, bandwidth=bandwidth, r2=None, fitted=False, **facts)


def fit_links(profile: Profile) -> dict[tuple[str, str], LinkFit]:
    """Fit one `LinkFit` for every direction and host memory kind of copies between host and device,
    peers, and migrations.
    """
    if not profile.trace.copies.height:
        return {}
    copies = profile.activities.filter(
        pl.col("kind").is_in(["copy_h2d", "copy_d2h", "copy_p2p", "migration"]),
        pl.col("size_bytes").is_not_null(),
    )
    out = {}
    for (direction, memory), group in copies.with_columns(
        pl.col("memory").fill_null("unknown")
    ).group_by("direction", "memory", maintain_order=True):
        size, seconds = group["size_bytes"].cast(pl.Float64).to_numpy(), group["seconds"].to_numpy()
        out[str(direction), str(memory)] = fit_class(str(direction), str(memory), size, seconds)
    return dict(sorted(out.items()))


def reference_fit(fits: dict[tuple[str, str], LinkFit], direction: str) -> LinkFit | None:
    """Return the class that shows the link itself: pinned copies, else the class that moved most
    bytes without staging by the driver.
    """
    matches = [
        f
        for (d, _), f in fits.items()
        if d == direction and f.bandwidth is not None and f.memory != "pageable"
    ]
    pinned = [f for f in matches if f.memory == "pinned"]
    return max(pinned or matches, key=lambda f: f.size_bytes, default=None)


@dataclass(frozen=True)
class NamedLink:
    """Link by its nominal rate: name, bandwidth in each direction [B/s], kind, source, and the GPUs
    that have it (none for any GPU).
    """

    name: str
    bandwidth: float
    kind: str
    source: str
    gpus: frozenset[str]


@cache
def known_links() -> tuple[NamedLink, ...]:
    """Return the links that have a name, slowest first (``schema/links.csv``)."""
    return tuple(
        NamedLink(
            r["name"], float(r["bandwidth"]), r["kind"], r["source"], frozenset(r["gpus"].split())
        )
        for r in table_rows("foundation/schema/links.csv")
    )


def looks_like(
    bandwidth: float,
    devices: Sequence[str] = (),
    coupling: str = "pcie",
    limit: float | None = None,
) -> tuple[NamedLink, ...]:
    """Return the links that a measured rate [B/s] fits: those of the lowest nominal rate that is
    not below it (2 % allowed for rounding).

    Parameters
    ----------
    bandwidth : rate that copies reached [B/s].
    devices : names of the recording's GPUs.  A link that only some GPUs have is named for these
        alone.
    coupling : coupling of the machine.  Any but PCIe is a fact of the machine, and no link of
        another kind is named.
    limit : rate of the fastest slot that the GPU fits [B/s]; only links that such GPUs have are
        named beyond it.

    >>> [link.name for link in looks_like(24.1e9)]
    ['PCIe 4 x16', 'PCIe 5 x8']
    >>> [link.name for link in looks_like(34e9)], [link.name for link in looks_like(34e9, ["AMD Instinct MI250X"])]
    (['PCIe 5 x16'], ['Infinity Fabric CPU to GCD'])
    >>> [link.name for link in looks_like(14e9, limit=15.754e9)], looks_like(24.1e9, limit=15.754e9)
    (['PCIe 3 x16', 'PCIe 4 x8'], ())
    >>> looks_like(900e9), looks_like(55e9, coupling="apu")
    ((), ())
    """
    words = {word for name in devices for word in device_words(name)}
    having = [link for link in known_links() if not link.gpus or link.gpus & words]
    if coupling != "pcie":
        having = [link for link in known_links() if link.kind == coupling]
    elif any(link.kind == "c2c" for link in having):  # such a GPU is in no slot
        having = [link for link in having if link.kind == "c2c"]
    if limit is not None:
        having = [link for link in having if link.bandwidth <= 1.02 * limit or link.gpus]
    above = [link for link in having if link.bandwidth * 1.02 >= bandwidth]
    if not above:
        return ()
    nominal = min(link.bandwidth for link in above)
    return tuple(link for link in above if link.bandwidth == nominal)


def link_findings(
    fits: dict[tuple[str, str], LinkFit], nominal: dict[str, float], one_memory: bool = False
) -> list[Finding]:
    """Return the findings on the observed link.

    Parameters
    ----------
    nominal : nominal rate of the link by direction [B/s].
    one_memory : whether CPU and GPU share one memory, so that there is no link to show.
    """
    out: list[Finding] = []
    if not any(d in ("h2d", "d2h") for d, _ in fits):
        out.append(finding("P203"))
    for direction in ("h2d", "d2h"):
        staged = fits.get((direction, "pageable")) or fits.get(
            (f"migration_{direction}", "unknown")
        )
        if staged and not one_memory and reference_fit(fits, direction) is None:
            out.append(finding("P206", staged.count, direction))
    for (direction, memory), fit in fits.items():
        where = f"{direction} {memory}"
        if not fit.fitted:
            out.append(finding("P202", fit.count, where))
        rate = nominal.get(direction)
        if rate and fit.bandwidth and memory == "pinned" and fit.bandwidth < POOR_EFFICIENCY * rate:
            out.append(
                finding(
                    "P201",
                    fit.count,
                    f"{where}: {fit.bandwidth / 1e9:.1f} of {rate / 1e9:.1f} GB/s",
                )
            )
    return out


def sharers(profile: Profile) -> int:
    """Return the most devices whose copies from and to the host ran at one instant, or the number
    of ranks if it is larger; at least 1.
    """
    ranks = profile.trace.facts.get("world_size")
    devices = profile.trace.copies["device"]
    if devices.min() == devices.max():
        return max(ranks if isinstance(ranks, int) else 1, 1)
    crossing = pl.col("direction").is_in([DIRECTIONS.index(direction) for direction in HOST_WAYS])
    spans = profile.trace.copies.filter(crossing).select("device", "start_ns", "end_ns")
    spans = (
        spans.drop_nulls().filter(pl.col("end_ns") > pl.col("start_ns")).sort("device", "start_ns")
    )
    # copies of one device that overlap are one span of it
    before = pl.col("end_ns").cum_max().shift(1).over("device")
    spans = spans.with_columns(
        part=(pl.col("start_ns") > before).fill_null(True).cum_sum().over("device")
    )
    spans = spans.group_by("device", "part").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    begun, ended = (
        spans.select(at=c, step=pl.lit(n)) for c, n in (("start_ns", 1), ("end_ns", -1))
    )
    most = pl.concat([begun, ended]).sort("at", "step")["step"].cum_sum().max()
    return max(int(most) if isinstance(most, int) else 1, ranks if isinstance(ranks, int) else 1, 1)
