"""Time of messages between GPUs by their distance, and the share of the memory bandwidth of each
thread block.

    T(n)  = n' / BW_tier(n'),  n' = next power of two >= n          a measured curve of effective bandwidth, latency inside
    T(n)  = L + n' / BW                                             where only latency and bandwidth of a tier are known
    bw    = clamp(BW_peak / active, BW_peak / most, N BW_peak / fewest)

Austin et al. 2021 (ECP report), sections 4.1, 5.4 and 8.4.  Tiers are ``socket``, ``node`` and
``network``: two GPUs of one socket, of one node, of two nodes.  Fig 18a draws their curves without
numbers; ``tiers.csv`` holds substitutes, each number with its source.

Errors: A043, A156.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from turnbuckle.cost.loggp import loggp_seconds
from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.errors import did_you_mean, error_of
from turnbuckle.foundation.schema import table_rows
from turnbuckle.foundation.schema.vocabulary import refuse_several
from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.foundation.units import show

#: Distance that a message travels; the index is its tier, and tier 0 is no message.
TIERS: Final = ("same GPU", "socket", "node", "network")
SAME, SOCKET, NODE, NETWORK = range(4)
DEFAULT: Final = "dgx-h100"
MOST_IN_A_NODE: Final = 1 << 20
_TABLE: Final = (
    Column("tier", ""),
    Column("size", "B", needed=False, above=True, most=1e18),
    Column("bandwidth", "B/s", least=1.0, most=1e18),
    Column("latency", "s", needed=False, most=1e3),
)


def next_power_of_two(size_bytes: ArrayLike) -> Float:
    """Return the smallest power of two that is not below a size [B]; 0 stays 0.

    >>> next_power_of_two([0, 1, 255, 256, 257]).tolist()
    [0.0, 1.0, 256.0, 256.0, 512.0]
    """
    sizes = np.asarray(size_bytes, dtype=np.float64)
    fraction, exponent = np.frexp(sizes)
    return np.where(sizes > 0, np.ldexp(1.0, exponent - (fraction == 0.5)), 0.0)


def block_bandwidth(
    peak: float, active: ArrayLike, low: float, high: float, merged: float = 1.0
) -> Float:
    """Return the memory bandwidth of one supernode's thread block [B/s].

    Parameters
    ----------
    peak : bandwidth of the GPU's memory [B/s].
    active : number of supernodes at work on the GPU, 1 or more.
    low, high : bounds for one block [B/s]: its share when all blocks that fit are resident, and its
        rate when it is nearly alone.
    merged : number of GPUs merged into a super-GPU, N; it raises only the upper bound.

    >>> (block_bandwidth(828e9, [1, 200, 10_000], 1.3e9, 5.2e9) / 1e9).tolist()
    [5.2, 4.14, 1.3]
    """
    return np.clip(peak / np.maximum(np.asarray(active, dtype=np.float64), 1.0), low, high * merged)


def tier_between(
    sender: ArrayLike, receiver: ArrayLike, gpus_per_socket: int, gpus_per_node: int
) -> Int:
    """Return the tier of messages between GPUs that are numbered socket by socket and node by node:
    index into `TIERS`.

    >>> tier_between([0, 0, 0, 0], [0, 2, 3, 6], 3, 6).tolist()
    [0, 1, 2, 3]
    """
    a, b = np.asarray(sender, dtype=np.int64), np.asarray(receiver, dtype=np.int64)
    # sockets are counted within each node, because the last socket of a node may be smaller
    node_a, node_b = a // gpus_per_node, b // gpus_per_node
    socket_a, socket_b = (
        (a % gpus_per_node) // gpus_per_socket,
        (b % gpus_per_node) // gpus_per_socket,
    )
    near = np.where(socket_a == socket_b, SOCKET, NODE)
    return np.where(a == b, SAME, np.where(node_a == node_b, near, NETWORK))


@dataclass(frozen=True)
class Tier:
    """Time of messages of one tier."""

    #: sizes of a measured curve [B], ascending, shape (points,); empty where only latency and
    #: bandwidth are known
    size_bytes: Float
    #: effective bandwidth at each size [B/s], shape (points,), or the single known bandwidth, shape
    #: (1,)
    bandwidth: Float
    latency: float = 0.0  #: latency [s]; 0 for a curve, which includes it

    @classmethod
    def plain(cls, latency: float, bandwidth: float) -> Tier:
        """Return a tier from its latency [s] and bandwidth [B/s].

        >>> float(Tier.plain(2e-6, 1e9).seconds(1000.0))
        3.024e-06
        """
        return cls(np.zeros(0), np.array([bandwidth]), latency)

    def seconds(self, size_bytes: ArrayLike) -> Float:
        """Return the time of messages, sizes rounded up to the next power of two [s]; 0 for an
        empty message.

        Between measured sizes the time is a straight line in log-log.  A message below the smallest
        size takes as long as that size, and one above the largest size has its bandwidth.
        """
        size = next_power_of_two(size_bytes)
        if not len(self.size_bytes):
            return np.where(size > 0, loggp_seconds(size, self.latency, self.bandwidth[0]), 0.0)
        log_seconds = np.log(self.size_bytes / self.bandwidth)
        beyond = np.maximum(size / self.size_bytes[-1], 1.0)
        line = np.exp(
            np.interp(np.log(np.maximum(size, 1e-9)), np.log(self.size_bytes), log_seconds)
        )
        return np.where(size > 0, line * beyond, 0.0)

    def latency_seconds(self, size_bytes: ArrayLike) -> Float:
        """Return the part of `seconds` that even the quickest message takes [s]; on a curve it need
        not be the smallest message.
        """
        least = (
            float((self.size_bytes / self.bandwidth).min())
            if len(self.size_bytes)
            else self.latency
        )
        return np.minimum(self.seconds(size_bytes), least)


@dataclass(frozen=True)
class Fabric:
    """GPUs, their grouping into sockets and nodes, and the time of messages between them."""

    name: str
    title: str
    #: tiers by their names in `TIERS`; without a tier ``socket``, messages in a socket take as long
    #: as in the node
    tiers: Mapping[str, Tier]
    #: gpus_per_socket, gpus_per_node: numbers of GPUs in each socket and node; GPUs are numbered
    #: socket by socket
    gpus_per_socket: int
    gpus_per_node: int
    peak: float  #: memory bandwidth of a GPU [B/s]
    #: low, high: bounds of the memory bandwidth of one thread block [B/s]
    low: float
    high: float
    sources: Mapping[str, str] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        grouped = 1 <= self.gpus_per_socket <= self.gpus_per_node <= MOST_IN_A_NODE
        if not grouped:
            values = f"{self.gpus_per_socket} GPUs a socket, {self.gpus_per_node} a node"
            raise error_of("A043.groups", found=values, most_in_a_node=MOST_IN_A_NODE)
        if not 1 <= self.low <= self.high <= self.peak < np.inf:
            values = (
                f"memory {show(self.peak, 'B/s')}, a block {show(self.low, 'B/s')} to "
                f"{show(self.high, 'B/s')}"
            )
            raise error_of("A043.bandwidths", found=values)

    def message(self, tier: int) -> Tier:
        """Return the tier with index `tier` into `TIERS`.  Raises A156."""
        name = TIERS[tier]
        times = self.tiers.get(name) or (self.tiers.get("node") if name == "socket" else None)
        if times is None:
            raise error_of(
                "A156", where=self.name, found=f"tiers {', '.join(self.tiers)}", name=name
            )
        return times

    def message_seconds(
        self, tier: Int, size_bytes: ArrayLike, slower: Mapping[int, float] | None = None
    ) -> Float:
        """Return the time of messages of mixed tiers [s]; `slower` multiplies the time of a
        tier.
        """
        return self._over(tier, size_bytes, "seconds", slower or {})

    def latency_seconds(
        self, tier: Int, size_bytes: ArrayLike, slower: Mapping[int, float] | None = None
    ) -> Float:
        """Return the part of `message_seconds` that even the quickest message of the tier takes
        [s].
        """
        return self._over(tier, size_bytes, "latency_seconds", slower or {})

    def _over(
        self, tier: Int, size_bytes: ArrayLike, what: str, slower: Mapping[int, float]
    ) -> Float:
        sizes = np.broadcast_to(np.asarray(size_bytes, dtype=np.float64), np.shape(tier))
        out = np.zeros(np.shape(tier))
        for index in range(SOCKET, NETWORK + 1):
            mask = tier == index
            if mask.any():
                out[mask] = getattr(self.message(index), what)(sizes[mask]) * slower.get(index, 1.0)
        return out


@cache
def _shipped() -> dict[str, list[dict[str, str]]]:
    out: dict[str, list[dict[str, str]]] = {}
    for row in table_rows("papers/models/dag/tiers.csv"):
        out.setdefault(row["machine"], []).append(row)
    return out


def fabric(name: str = DEFAULT) -> Fabric:
    """Return a shipped machine, each of its numbers with a source.  Raises A043 for an unknown
    name.

    >>> fabric().gpus_per_node, round(fabric("summit-v100").high / 1e9, 3)
    (8, 5.175)
    """
    if name not in _shipped():
        refuse_several(name, "machine")
        raise error_of(
            "A043.machine",
            found=repr(name)[:60],
            fix=did_you_mean(name, _shipped()) or None,
            names=", ".join(_shipped()),
        )
    rows = _shipped()[name]
    numbers = {r["quantity"]: r["value"] for r in rows if not r["size_bytes"]}
    tiers: dict[str, Tier] = {}
    for tier in TIERS[1:]:
        points = [
            (float(r["size_bytes"]), float(r["value"]))
            for r in rows
            if r["quantity"] == f"{tier} bandwidth" and r["size_bytes"]
        ]
        if points:
            tiers[tier] = Tier(np.array([n for n, _ in points]), np.array([b for _, b in points]))
        elif f"{tier} latency" in numbers:
            tiers[tier] = Tier.plain(
                float(numbers[f"{tier} latency"]), float(numbers[f"{tier} bandwidth"])
            )
    peak, processors = float(numbers["memory bandwidth"]), float(numbers["multiprocessors"])
    # blocks resident at once (section 8.4)
    most = processors * float(numbers["warps a multiprocessor"]) / float(numbers["warps a block"])
    fewest = processors * float(numbers["fewest blocks a multiprocessor"])
    sources = {r["quantity"]: r["source"] for r in rows if r["source"]}
    assumed = tuple(dict.fromkeys(r["quantity"] for r in rows if r["nature"] == "assumption"))
    groups = int(numbers["GPUs a socket"]), int(numbers["GPUs a node"])
    return Fabric(
        name, numbers["title"], tiers, *groups, peak, peak / most, peak / fewest, sources, assumed
    )


def read_tiers(path: str | Path, base: Fabric) -> Fabric:
    """Return the machine `base` with the tiers of a table: ``tier, size, bandwidth`` point by
    point, or ``tier, latency, bandwidth``.

    Raises A043, or what `turnbuckle.foundation.table_file.read_table` raises.
    """
    table = read_table(path, _TABLE, "the table of tiers")
    size, bandwidth, latency = (
        table.number("size"),
        table.number("bandwidth"),
        table.number("latency"),
    )
    names = table.texts["tier"]
    for row, name in enumerate(names):
        if name not in TIERS[1:]:
            fix = did_you_mean(name, TIERS[1:]) or "one of socket, node, network"
            raise error_of(
                "A043.tier", where=table.where(row, "tier"), found=repr(name)[:60], fix=fix
            )
        if np.isfinite(size[row]) == np.isfinite(latency[row]):
            fix = (
                "a size for a point of a measured curve, or a latency for a tier of which two "
                "numbers are known"
            )
            raise error_of("A043.line", where=table.where(row), fix=fix)
    tiers: dict[str, Tier] = {}
    for name in dict.fromkeys(names):
        rows = np.array([i for i, n in enumerate(names) if n == name])
        plain = np.isfinite(latency[rows])
        if plain.any():
            if len(rows) > 1:
                where = table.where(int(rows[1]))
                raise error_of("A043.mixed", where=where, name=name)
            tiers[name] = Tier.plain(float(latency[rows[0]]), float(bandwidth[rows[0]]))
            continue
        rows = rows[np.argsort(size[rows], kind="stable")]
        if (again := np.flatnonzero(np.diff(size[rows]) == 0)).size:
            where = table.where(int(rows[again[0] + 1]), "size")
            raise error_of("A043.twice", where=where, name=name)
        tiers[name] = Tier(size[rows], bandwidth[rows])
    if not tiers:
        raise error_of("A043.empty", where=table.name)
    kept = {
        what: source for what, source in base.sources.items() if what.partition(" ")[0] not in TIERS
    }
    assumed = tuple(what for what in base.assumed if what.partition(" ")[0] not in TIERS)
    return replace(
        base,
        name=table.name,
        title=f"{base.title.partition(';')[0]}; messages of {table.name}",
        tiers=tiers,
        sources=kept,
        assumed=assumed,
    )
