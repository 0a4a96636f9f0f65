"""Which algorithm a library takes for a collective: tables of ranks and sizes, as data.

``selections.csv``: from so many ranks (`only` of a power of two, or of any number) and so many bytes on, of the block or of the blocks of
all, a library takes the algorithm that it calls `named`.  Rows with more ranks come before those with fewer.
``selections_named.csv``: which of our algorithms that is, how exactly, and the source.  ``<reduce>`` stands for what the same library
chooses for that operation.

Operations are taken to be commutative, and communicators not to be split by node.
"""

from __future__ import annotations

import csv
from bisect import bisect_right
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, Literal, get_args

from turnbuckle.foundation.errors import UsageError, did_you_mean

Selection = Literal["short and long", "tracer", "open mpi", "mpich"]

#: Operations whose rules hold where a library has none of its own for a name.
_AS: Final = {
    "allgatherv": "allgather",
    "alltoallw": "alltoallv",
    "alltoallv": "alltoall",
    "gatherv": "gather",
    "scatterv": "scatter",
    "exscan": "scan",
    "reduce_scatter_block": "reduce_scatter",
}


def _read(name: str) -> list[dict[str, str]]:
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@cache
def _rules() -> dict[tuple[str, str], list[tuple[int, bool, bool, float, str]]]:
    """Rules of an operation: ranks, whether only a power of two, whether of all blocks, size [B], algorithm."""
    named = {(r["selection"], r["operation"], r["named"]): r["algorithm"] for r in _read("selections_named.csv")}
    out: dict[tuple[str, str], list[tuple[int, bool, bool, float, str]]] = {}
    for r in _read("selections.csv"):
        key = r["selection"], r["operation"]
        rule = int(r["ranks"]), bool(r["only"]), r["of"] == "total", float(r["size_bytes"]), named[(*key, r["named"])]
        out.setdefault(key, []).append(rule)
    return out


@lru_cache(maxsize=1024)
def _sizes(operation: str, ranks: int, selection: str) -> tuple[float, list[float], list[str]]:
    """Blocks that sizes count, sizes [B] from which an algorithm is taken, and the algorithms."""
    while (selection, operation) not in _rules():
        if operation not in _AS:
            raise UsageError(
                "A073", "no such collective", found=f"{operation} as {selection} has it"[:80],
                fix=did_you_mean(selection, list(get_args(Selection))) or ", ".join(get_args(Selection)),
            )  # fmt: skip
        operation = _AS[operation]
    power = ranks & (ranks - 1) == 0
    fits = [r for r in _rules()[selection, operation] if r[0] <= max(ranks, 2) and (power or not r[1])]
    which = max((r[0], r[1]) for r in fits)
    mine = sorted(r[3:] for r in fits if r[:2] == which)
    total = next(r[2] for r in fits if r[:2] == which)
    return float(ranks if total else 1), [size for size, _ in mine], [algorithm for _, algorithm in mine]


def chosen(operation: str, block_bytes: float, ranks: int, selection: Selection) -> str:
    """The algorithm that a library picks for a block of this size [B].

    ``short and long`` takes the latency-bound one for short vectors and the bandwidth-bound one for long; ``tracer`` takes TraceR's
    (binary trees, allgather by Bruck up to 163,840 B in all, alltoall by Bruck up to 512 B); ``open mpi`` takes those of Open MPI 4.1.4's
    fixed rules; ``mpich`` those of MPICH for messages between processes, without its composition by nodes.

    Raises
    ------
    UsageError : A073, an operation or selection that is not known.

    >>> chosen("allreduce", 8192, 64, "open mpi"), chosen("allgatherv", 8192, 64, "mpich")
    ('recursive_doubling', 'ring')
    """
    blocks, sizes, algorithms = _sizes(operation, ranks, selection)
    algorithm = algorithms[bisect_right(sizes, block_bytes * blocks) - 1]
    if "<" not in algorithm:
        return algorithm
    # all blocks are reduced before a scatter, and broadcast after a gather
    every = ranks if operation != "allreduce" else 1
    size = {"reduce": block_bytes * every, "bcast": block_bytes * every, "gather": block_bytes, "scatter": block_bytes}
    parts = [chosen(p[1:-1], size[p[1:-1]], ranks, selection) if p.startswith("<") else p for p in algorithm.split(" + ")]
    return " + ".join(parts)
