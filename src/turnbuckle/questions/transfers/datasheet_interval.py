"""What is not known of copies on a data sheet, drawn: the fixed part, the link's share, staging, other ranks (decision 0018)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from scipy.special import ndtr

from turnbuckle.cost.packet import PAGEABLE_THRESHOLD
from turnbuckle.foundation.arrays import Float
from turnbuckle.projection.priors import (
    COPY_LATENCY_SD,
    DEVICE,
    DEVICE_SHARE,
    LATENCY,
    LINK,
    LINK_FASTEST,
    LINK_SHARE,
    PEER,
    PEER_SHARE,
    SHARING,
    STAGED,
    STAGED_BELOW,
    STAGED_RATE,
    STAGED_SPREAD,
    half_normal,
    shared,
)
from turnbuckle.projection.uncertainty import DRAWS, LEVEL, SEED, Draws


@dataclass(frozen=True)
class Reach:
    """Interval of a sum of copies [s], and the share of its variance by unknown, largest first."""

    low: float
    high: float
    drivers: Mapping[str, float] = field(default_factory=dict)


def reach(rows: pl.DataFrame, sharers: int = 1) -> Reach:
    """What a sum of copies on a data sheet may be.

    Parameters
    ----------
    rows : direction, memory, size_bytes [B], projected, fixed, wire [s]; one a copy (`study.datasheet.priced`).
    sharers : devices or ranks that copied at once in the recording; 1 where none did beside it.
    """
    answer = float(rows["projected"].sum())
    classes = [_Class.of(str(d), str(m), g) for (d, m), g in rows.group_by("direction", "memory", maintain_order=True)]
    every = sum((c.drawn(sharers, Draws(DRAWS, SEED)) for c in classes), np.zeros(DRAWS))
    low, high = (float(q) for q in np.quantile(every, [(1.0 - LEVEL) / 2, (1.0 + LEVEL) / 2]))
    names = dict.fromkeys(name for c in classes for name in c.names(sharers))
    alone = {n: float(np.var(sum((c.drawn(sharers, Draws(DRAWS, SEED, n)) for c in classes), np.zeros(DRAWS)))) for n in names}
    total = sum(alone.values())
    shares = {n: v / total for n, v in sorted(alone.items(), key=lambda kv: -kv[1]) if total > 0 and v / total > 0.005}
    return Reach(min(low, answer), max(high, answer), shares)


@dataclass(frozen=True)
class _Class:
    """Copies of one class, added up: fixed parts and time on the link [s]; bytes and time on the link from and below the threshold."""

    direction: str
    memory: str
    fixed: float
    wire: tuple[float, float]
    size_bytes: tuple[float, float]

    @classmethod
    def of(cls, direction: str, memory: str, rows: pl.DataFrame) -> _Class:
        large = rows["size_bytes"].to_numpy() >= PAGEABLE_THRESHOLD
        wire, size = ((float(v[large].sum()), float(v[~large].sum())) for v in (rows["wire"].to_numpy(), rows["size_bytes"].to_numpy()))
        return cls(direction, memory, float(rows["fixed"].sum()), wire, size)

    @property
    def on_host_link(self) -> bool:
        return self.direction in ("h2d", "d2h")

    def names(self, sharers: int) -> list[str]:
        """What is not known of it."""
        own = {"d2d": DEVICE, "p2p": PEER}.get(self.direction, LINK)
        out = [LATENCY, own] + ([SHARING] if self.on_host_link and sharers > 1 else [])
        return out + ([STAGED, STAGED_BELOW] if self.on_host_link and self.memory == "pageable" else [])

    def drawn(self, sharers: int, draws: Draws) -> Float:
        """Seconds of all of it, shape (draws,)."""
        fixed = self.fixed * np.exp(COPY_LATENCY_SD * draws.of(LATENCY))
        if not self.on_host_link:
            name, spread = (DEVICE, DEVICE_SHARE) if self.direction == "d2d" else (PEER, PEER_SHARE)
            return np.asarray(fixed + sum(self.wire) * half_normal(draws.of(name), spread))
        longer = half_normal(draws.of(LINK), LINK_SHARE) / LINK_FASTEST * shared(draws.of(SHARING), sharers)
        large, small = (wire * longer for wire in self.wire)
        if self.memory == "pageable":
            each = np.exp(STAGED_SPREAD * draws.of(STAGED)) / STAGED_RATE
            staged = [np.maximum(on_link, size * each) for on_link, size in zip((large, small), self.size_bytes, strict=True)]
            large, small = staged[0], small + ndtr(draws.of(STAGED_BELOW)) * (staged[1] - small)
        return np.asarray(fixed + large + small)
