"""Messages between GPUs by how far apart they are, and what a thread block gets of the memory bandwidth.

    T(n)  = n' / BW_tier(n'),  n' = next power of two >= n          a measured curve of effective bandwidth, latency inside
    T(n)  = L + n' / BW                                             where only latency and bandwidth of a tier are known
    bw    = clamp(BW_peak / active, BW_peak / most, N BW_peak / fewest)

Austin et al. 2021 (ECP report), sections 4.1, 5.4 and 8.4.  Tiers are ``socket``, ``node`` and ``network``: two GPUs of one
socket, of one node, of two nodes.  Their curves are drawn, not printed, in Fig 18a; ``tiers.csv`` holds what stands in, each number
with its source.

Errors:

    A043  a table of tiers, or a machine, that does not hold
    A156  messages cross a tier of which nothing is known
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnbuckle.cost.loggp import loggp_seconds
from turnbuckle.foundation.errors import CannotAnswer, UsageError, did_you_mean
from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.foundation.units import show
from turnbuckle.foundation.vocabulary import refuse_several

Float = NDArray[np.float64]
Int = NDArray[np.int64]

#: Between whom a message travels; the index is its tier, 0 is none.
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
    """The smallest power of two that is not below a size [B]; 0 stays 0.

    >>> next_power_of_two([0, 1, 255, 256, 257]).tolist()
    [0.0, 1.0, 256.0, 256.0, 512.0]
    """
    sizes = np.asarray(size_bytes, dtype=np.float64)
    fraction, exponent = np.frexp(sizes)
    return np.where(sizes > 0, np.ldexp(1.0, exponent - (fraction == 0.5)), 0.0)


def resident_blocks(multiprocessors: float, warps: float = 64, warps_per_block: float = 8) -> float:
    """Thread blocks a GPU holds at once: multiprocessors x warps / warps a block (section 8.4).

    >>> resident_blocks(80)
    640.0
    """
    return multiprocessors * warps / warps_per_block


def block_share(peak: float, blocks: float) -> float:
    """Memory bandwidth of one of so many blocks that share it evenly [B/s].

    >>> block_share(828e9, 640) / 1e9, block_share(828e9, 160) / 1e9
    (1.29375, 5.175)
    """
    return peak / blocks


def block_bandwidth(peak: float, active: ArrayLike, low: float, high: float, merged: float = 1.0) -> Float:
    """Memory bandwidth of one supernode's thread block [B/s].

    Parameters
    ----------
    peak : of the GPU's memory [B/s].
    active : supernodes at work on the GPU, 1 or more.
    low, high : of one block [B/s]: its share when all that fit are resident, and what one can draw when it is nearly alone.
    merged : GPUs merged into a super-GPU, N; raises the upper bound alone.

    >>> (block_bandwidth(828e9, [1, 200, 10_000], 1.3e9, 5.2e9) / 1e9).tolist()
    [5.2, 4.14, 1.3]
    """
    return np.clip(peak / np.maximum(np.asarray(active, dtype=np.float64), 1.0), low, high * merged)


def put_speedup(device_seconds: float, host_seconds: float, synchronising_seconds: float) -> float:
    """How much faster a put that the GPU starts becomes if all but some of its synchronisation goes: device / (host + rest).

    Parameters
    ----------
    device_seconds : put started by the GPU, over a proxy thread on the host [s].
    host_seconds : put started by the host [s].
    synchronising_seconds : what is left of the synchronisation between the two [s]; 0 gives the ratio of both puts.

    >>> put_speedup(6.5, 2.0, 0.5), put_speedup(6.5, 2.0, 0.0)
    (2.6, 3.25)
    """
    return device_seconds / (host_seconds + synchronising_seconds)


def tier_between(one: ArrayLike, other: ArrayLike, gpus_per_socket: int, gpus_per_node: int) -> Int:
    """Tier of messages between GPUs numbered through, sockets and nodes filled one after the other: index into `TIERS`.

    >>> tier_between([0, 0, 0, 0], [0, 2, 3, 6], 3, 6).tolist()
    [0, 1, 2, 3]
    """
    a, b = np.asarray(one, dtype=np.int64), np.asarray(other, dtype=np.int64)
    # a socket is a part of a node: the last socket of a node may be smaller
    node_a, node_b = a // gpus_per_node, b // gpus_per_node
    socket_a, socket_b = (a % gpus_per_node) // gpus_per_socket, (b % gpus_per_node) // gpus_per_socket
    near = np.where(socket_a == socket_b, SOCKET, NODE)
    return np.where(a == b, SAME, np.where(node_a == node_b, near, NETWORK))


@dataclass(frozen=True)
class Tier:
    """How long messages of one tier take.

    Attributes
    ----------
    size_bytes : sizes of a measured curve [B], ascending, shape (points,); empty where only latency and bandwidth are known.
    bandwidth : effective bandwidth at each size [B/s], shape (points,), or the one bandwidth, shape (1,).
    latency : [s]; 0 for a curve, which holds it.
    """

    size_bytes: Float
    bandwidth: Float
    latency: float = 0.0

    @classmethod
    def plain(cls, latency: float, bandwidth: float) -> Tier:
        """A tier of which two numbers are known [s], [B/s].

        >>> float(Tier.plain(2e-6, 1e9).seconds(1000.0))
        3.024e-06
        """
        return cls(np.zeros(0), np.array([bandwidth]), latency)

    def seconds(self, size_bytes: ArrayLike) -> Float:
        """Time of messages, sizes rounded up to the next power of two [s]; nothing for an empty one.

        Between measured sizes the time is a straight line in log-log.  A message below the smallest one takes as long as that, one
        above the largest has its bandwidth.
        """
        size = next_power_of_two(size_bytes)
        if not len(self.size_bytes):
            return np.where(size > 0, loggp_seconds(size, self.latency, self.bandwidth[0]), 0.0)
        known = np.log(self.size_bytes / self.bandwidth)
        beyond = np.maximum(size / self.size_bytes[-1], 1.0)
        line = np.exp(np.interp(np.log(np.maximum(size, 1e-9)), np.log(self.size_bytes), known))
        return np.where(size > 0, line * beyond, 0.0)

    def latency_seconds(self, size_bytes: ArrayLike) -> Float:
        """The part of `seconds` that the quickest message takes as well [s]: on a curve it need not be the smallest one."""
        least = float((self.size_bytes / self.bandwidth).min()) if len(self.size_bytes) else self.latency
        return np.minimum(self.seconds(size_bytes), least)


@dataclass(frozen=True)
class Fabric:
    """GPUs, how they are grouped, and how far messages travel.

    Attributes
    ----------
    tiers : by name, of `TIERS`; a socket of which nothing is said is like its node.
    gpus_per_socket, gpus_per_node : how GPUs are numbered through.
    peak : memory bandwidth of a GPU [B/s].
    low, high : of one thread block [B/s].
    sources : where the numbers come from, by what they are.
    assumed : those of them that nobody measured or stated.
    """

    name: str
    title: str
    tiers: Mapping[str, Tier]
    gpus_per_socket: int
    gpus_per_node: int
    peak: float
    low: float
    high: float
    sources: Mapping[str, str] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        grouped = 1 <= self.gpus_per_socket <= self.gpus_per_node <= MOST_IN_A_NODE
        if not grouped:
            found = f"{self.gpus_per_socket} GPUs a socket, {self.gpus_per_node} a node"
            fix = f"1 or more a socket, no more than a node has, and {MOST_IN_A_NODE:,} a node at most"
            raise UsageError("A043", "GPUs are not grouped so", found=found, fix=fix)
        if not 1 <= self.low <= self.high <= self.peak < np.inf:
            found = f"memory {show(self.peak, 'B/s')}, a block {show(self.low, 'B/s')} to {show(self.high, 'B/s')}"
            raise UsageError("A043", "the memory bandwidths of a block do not hold", found=found, fix="1 B/s <= lower <= upper <= memory")

    def message(self, tier: int) -> Tier:
        """How long messages of a tier (index into `TIERS`) take.

        Raises
        ------
        CannotAnswer : A156.
        """
        name = TIERS[tier]
        known = self.tiers.get(name) or (self.tiers.get("node") if name == "socket" else None)
        if known is None:
            raise CannotAnswer(
                "A156", f"messages cross the {name}, and nothing is known of it", where=self.name, found=f"tiers {', '.join(self.tiers)}",
                fix=f"add lines of tier {name} to the table, or ask for fewer GPUs",
            )  # fmt: skip
        return known

    def message_seconds(self, tier: Int, size_bytes: ArrayLike, slower: Mapping[int, float] | None = None) -> Float:
        """Time of messages of mixed tiers [s]; `slower` stretches those of some tiers by a factor."""
        return self._over(tier, size_bytes, "seconds", slower or {})

    def latency_seconds(self, tier: Int, size_bytes: ArrayLike, slower: Mapping[int, float] | None = None) -> Float:
        """The part of `message_seconds` that the quickest message of the tier takes as well [s]."""
        return self._over(tier, size_bytes, "latency_seconds", slower or {})

    def _over(self, tier: Int, size_bytes: ArrayLike, what: str, slower: Mapping[int, float]) -> Float:
        sizes = np.broadcast_to(np.asarray(size_bytes, dtype=np.float64), np.shape(tier))
        out = np.zeros(np.shape(tier))
        for index in range(SOCKET, NETWORK + 1):
            mine = tier == index
            if mine.any():
                out[mine] = getattr(self.message(index), what)(sizes[mine]) * slower.get(index, 1.0)
        return out


@cache
def _shipped() -> dict[str, list[dict[str, str]]]:
    text = (files("turnbuckle.papers.models.dag") / "tiers.csv").read_text(encoding="utf-8")
    out: dict[str, list[dict[str, str]]] = {}
    for row in csv.DictReader(text.splitlines()):
        out.setdefault(row["machine"], []).append(row)
    return out


def fabrics() -> tuple[str, ...]:
    """Names of the machines that ship."""
    return tuple(_shipped())


def fabric(name: str = DEFAULT) -> Fabric:
    """A machine that ships, each of its numbers with a source.

    Raises
    ------
    UsageError : A043 for a name that is none.

    >>> fabric().gpus_per_node, round(fabric("summit-v100").high / 1e9, 3)
    (8, 5.175)
    """
    if name not in _shipped():
        refuse_several(name, "machine")
        fix = did_you_mean(name, fabrics()) or f"one of {', '.join(fabrics())}"
        raise UsageError("A043", "no machine of this name for GPU messages", found=repr(name)[:60], fix=fix)
    rows = _shipped()[name]
    one = {r["quantity"]: r["value"] for r in rows if not r["size_bytes"]}
    known: dict[str, Tier] = {}
    for tier in TIERS[1:]:
        points = [(float(r["size_bytes"]), float(r["value"])) for r in rows if r["quantity"] == f"{tier} bandwidth" and r["size_bytes"]]
        if points:
            known[tier] = Tier(np.array([n for n, _ in points]), np.array([b for _, b in points]))
        elif f"{tier} latency" in one:
            known[tier] = Tier.plain(float(one[f"{tier} latency"]), float(one[f"{tier} bandwidth"]))
    peak, processors = float(one["memory bandwidth"]), float(one["multiprocessors"])
    most = resident_blocks(processors, float(one["warps a multiprocessor"]), float(one["warps a block"]))
    fewest = processors * float(one["fewest blocks a multiprocessor"])
    sources = {r["quantity"]: r["source"] for r in rows if r["source"]}
    assumed = tuple(dict.fromkeys(r["quantity"] for r in rows if r["nature"] == "assumption"))
    groups = int(one["GPUs a socket"]), int(one["GPUs a node"])
    return Fabric(name, one["title"], known, *groups, peak, block_share(peak, most), block_share(peak, fewest), sources, assumed)


def read_tiers(path: str | Path, base: Fabric) -> Fabric:
    """The machine `base` with the tiers of a table: ``tier, size, bandwidth`` point by point, or ``tier, latency, bandwidth``.

    Raises
    ------
    UsageError, UnitError : A043, or what `turnbuckle.foundation.table_file.read_table` raises.
    """
    table = read_table(path, _TABLE, "the table of tiers")
    size, bandwidth, latency = table.number("size"), table.number("bandwidth"), table.number("latency")
    names = table.texts["tier"]
    for row, name in enumerate(names):
        if name not in TIERS[1:]:
            fix = did_you_mean(name, TIERS[1:]) or "one of socket, node, network"
            raise UsageError("A043", "no tier of this name", where=table.where(row, "tier"), found=repr(name)[:60], fix=fix)
        if np.isfinite(size[row]) == np.isfinite(latency[row]):
            fix = "a size for a point of a measured curve, or a latency for a tier of which two numbers are known"
            raise UsageError("A043", "a line needs a size or a latency, and not both", where=table.where(row), fix=fix)
    known: dict[str, Tier] = {}
    for name in dict.fromkeys(names):
        rows = np.array([i for i, n in enumerate(names) if n == name])
        plain = np.isfinite(latency[rows])
        if plain.any():
            if len(rows) > 1:
                where = table.where(int(rows[1]))
                raise UsageError(
                    "A043", f"tier {name} has a latency and further lines", where=where, fix="one line, or a size on every line"
                )
            known[name] = Tier.plain(float(latency[rows[0]]), float(bandwidth[rows[0]]))
            continue
        rows = rows[np.argsort(size[rows], kind="stable")]
        if (again := np.flatnonzero(np.diff(size[rows]) == 0)).size:
            where = table.where(int(rows[again[0] + 1]), "size")
            raise UsageError("A043", f"tier {name} has one size twice", where=where, fix="one line a size: the median")
        known[name] = Tier(size[rows], bandwidth[rows])
    if not known:
        raise UsageError("A043", "the table of tiers has no lines", where=table.name, fix="tier, size, bandwidth: one line for each size")
    kept = {what: source for what, source in base.sources.items() if what.partition(" ")[0] not in TIERS}
    assumed = tuple(what for what in base.assumed if what.partition(" ")[0] not in TIERS)
    return replace(
        base, name=table.name, title=f"{base.title.partition(';')[0]}; messages of {table.name}", tiers=known, sources=kept, assumed=assumed
    )
