"""Clusters: nodes as they are, and the same hosts with their GPUs in pools.

A fixed node is a pool with one host.  Composed, as many hosts as a fabric reaches share the GPUs
that their nodes had.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Int
from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.schema import table_rows
from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.questions.pool.lines import read_text, rows_of, whole
from turnbuckle.questions.pool.stream import MILLI

#: Nodes of one fleet; cores and GPUs of one node.
MOST_NODES, MOST_CORES, MOST_GPUS = 1_000_000, 1_000_000, 10_000
_SHAPE: Final = re.compile(r"([0-9]{1,6}):([0-9]{1,4})x([0-9]{1,7})")
_COLUMNS: Final = (
    Column("cores", "1", above=True, whole=True, most=MOST_CORES),
    Column("gpus", "1", whole=True, most=MOST_GPUS),
    Column("count", "1", needed=False, above=True, whole=True, most=MOST_NODES),
    Column("memory", "B", needed=False, above=True, most=1e18),
)
#: Memory of a node that no table states [MiB]: none is short of it.
UNBOUNDED: Final = 1 << 50


@dataclass(frozen=True)
class Fleet:
    """Hosts and the pools of GPUs that they reach; arrays have shape (hosts,) or (pools,).

    Attributes
    ----------
    cores : of each host, in thousandths.
    memory : of each host [MiB].
    pool : of each host, hosts of one pool together.
    gpus : of each pool.
    """

    cores: Int
    memory: Int
    pool: Int
    gpus: Int

    @property
    def hosts(self) -> int:
        """Return the number of hosts."""
        return len(self.cores)

    @property
    def all_gpus(self) -> int:
        """Return the number of GPUs."""
        return int(self.gpus.sum())

    @property
    def all_cores(self) -> float:
        """Return the number of cores."""
        return float(self.cores.sum()) / MILLI

    def composed(self, reach: int) -> Fleet:
        """Return the hosts with their GPUs in pools that `reach` hosts share: of fixed nodes, in
        their order, kinds mixed.
        """
        order = self._mixed
        pool = np.arange(self.hosts) // max(1, min(reach, self.hosts))
        return Fleet(
            self.cores[order],
            self.memory[order],
            pool,
            np.bincount(pool, self.gpus[order]).astype(np.int64),
        )

    def with_gpus(self, count: int) -> Fleet:
        """Return the pools with `count` GPUs in all, in proportion to what they have."""
        share = np.cumsum(self.gpus) * count / max(self.all_gpus, 1)
        return Fleet(
            self.cores,
            self.memory,
            self.pool,
            np.diff(np.floor(share + 1e-9), prepend=0.0).astype(np.int64),
        )

    def fewer(self, count: int) -> Fleet:
        """Return `count` of the fixed nodes, kinds in proportion."""
        kept = np.sort(self._mixed[:count])
        return Fleet(self.cores[kept], self.memory[kept], np.arange(count), self.gpus[kept])

    @cached_property
    def _mixed(self) -> Int:
        """Return an order of the fixed nodes of which each prefix holds the kinds in proportion."""
        kind = np.zeros(self.hosts, dtype=np.int64)
        for column in (self.cores, self.memory, self.gpus):
            each, index = np.unique(column, return_inverse=True)
            kind = np.unique(kind * len(each) + index.reshape(-1), return_inverse=True)[1].reshape(
                -1
            )
        order = np.argsort(kind, kind="stable")
        rank = np.empty(len(kind), dtype=np.int64)
        rank[order] = np.arange(len(kind)) - np.searchsorted(kind[order], kind[order])
        return np.lexsort((kind, (rank + 0.5) / np.bincount(kind)[kind]))


def nodes_of(rows: Sequence[tuple[int, int, int, int]]) -> Fleet:
    """Return fixed nodes from (cores in thousandths, GPUs, memory [MiB], count).  Raises A448,
    A526.
    """
    total = sum(count for *_, count in rows)
    if not 0 < total <= MOST_NODES:
        raise error_of("A448.count", found=f"{total:,}", most=MOST_NODES)
    for cores, gpus, *_ in rows:
        if cores > MOST_CORES * MILLI or gpus > MOST_GPUS:
            found = f"{cores / MILLI:,.0f} cores, {gpus:,} GPUs"
            raise error_of("A526", found=found, most_cores=MOST_CORES, most_gpus=MOST_GPUS)
    counts = [count for *_, count in rows]
    columns = (np.array([row[k] for row in rows], dtype=np.int64) for k in range(3))
    each_cores, each_gpus, each_memory = (np.repeat(column, counts) for column in columns)
    return Fleet(each_cores, each_memory, np.arange(total), each_gpus)


def read_fleet(given: str | Path) -> Fleet:
    """Return the fixed nodes that ``--nodes`` names: shapes such as ``64:4x100``, a table of nodes,
    or Alibaba's.

    Raises
    ------
    UsageError : A448 for a shape that is none, A061 to A063 for a table.
    """
    text = str(given)
    shapes = [_SHAPE.fullmatch(word.strip()) for word in text.split(",")]
    if all(shapes):
        return nodes_of([(int(s[1]) * MILLI, int(s[2]), UNBOUNDED, int(s[3])) for s in shapes if s])
    path = Path(text)
    if not path.is_file():
        raise error_of("A448.shape", where="--nodes", found=clipped(text, 60))
    header, rows = rows_of(path, read_text(path), ",")
    if {"cpu_milli", "gpu", "memory_mib"} <= set(header):
        columns = [header.index(name) for name in ("cpu_milli", "gpu", "memory_mib")]
        return nodes_of([(*(whole(row[k], path, line) for k in columns), 1) for line, row in rows])  # type: ignore[misc]
    table = read_table(path, _COLUMNS, "the nodes")
    count, memory = table.number("count", 1.0), table.number("memory")
    return nodes_of(
        [
            (
                int(c) * MILLI,
                int(g),
                UNBOUNDED if np.isnan(m) else int(m / 2**20),
                1 if np.isnan(n) else int(n),
            )
            for c, g, m, n in zip(
                table.number("cores"), table.number("gpus"), memory, count, strict=True
            )
        ]
    )


@cache
def reaches() -> dict[str, tuple[int, str]]:
    """Return how many hosts a fabric of the catalogue reaches, and why: ``reach.csv``."""
    return {
        row["machine"]: (int(row["hosts"]), row["source"])
        for row in table_rows("questions/pool/reach.csv")
    }
