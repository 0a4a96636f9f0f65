"""Rules by which MPI libraries select the algorithm of a collective, as tables over ranks and
sizes.

``selections.csv`` lists, for each operation of a library, the algorithm under the library's own
name (`named`) from a number of ranks (`only`: of a power of two) and a size on [B]; the size is
that of the block or that of the blocks of all ranks.  Rows with more ranks come before those with
fewer.  ``selections_named.csv`` maps the library's name to our algorithm, and states how exact the
match is and its source.  ``<reduce>`` stands for the algorithm that the same library selects for a
reduce.

Operations are assumed to be commutative, and communicators not to be split by node.
"""

from __future__ import annotations

import csv
from bisect import bisect_right
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, Literal, get_args

from turnbuckle.foundation.errors import did_you_mean, error_of

Selection = Literal["short and long", "tracer", "open mpi", "mpich"]

#: Operations whose rules apply where a library has none for a name.
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
    """Return the rows of a table beside this file."""
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@cache
def _rules() -> dict[tuple[str, str], list[tuple[int, bool, bool, float, str]]]:
    """Return the rules of each operation: ranks, power of two only, size of all blocks, size [B],
    algorithm.
    """
    named = {
        (r["selection"], r["operation"], r["named"]): r["algorithm"]
        for r in _read("selections_named.csv")
    }
    out: dict[tuple[str, str], list[tuple[int, bool, bool, float, str]]] = {}
    for r in _read("selections.csv"):
        key = r["selection"], r["operation"]
        rule = (
            int(r["ranks"]),
            bool(r["only"]),
            r["of"] == "total",
            float(r["size_bytes"]),
            named[(*key, r["named"])],
        )
        out.setdefault(key, []).append(rule)
    return out


@lru_cache(maxsize=1024)
def _sizes(operation: str, ranks: int, selection: str) -> tuple[float, list[float], list[str]]:
    """Return the number of blocks that sizes count, the sizes [B] from which an algorithm applies,
    and the algorithms.
    """
    while (selection, operation) not in _rules():
        if operation not in _AS:
            raise error_of(
                "A073",
                found=f"{operation} as {selection} has it"[:80],
                fix=did_you_mean(selection, list(get_args(Selection)))
                or ", ".join(get_args(Selection)),
            )
        operation = _AS[operation]
    power = ranks & (ranks - 1) == 0
    fits = [
        r for r in _rules()[selection, operation] if r[0] <= max(ranks, 2) and (power or not r[1])
    ]
    strictest = max((r[0], r[1]) for r in fits)
    rules = sorted(r[3:] for r in fits if r[:2] == strictest)
    total = next(r[2] for r in fits if r[:2] == strictest)
    return (
        float(ranks if total else 1),
        [size for size, _ in rules],
        [algorithm for _, algorithm in rules],
    )


def chosen(operation: str, block_bytes: float, ranks: int, selection: Selection) -> str:
    """Return the algorithm that a library selects for a block of this size [B].  Raises A073, an
    unknown operation or selection.

    ``short and long`` selects the latency-bound algorithm for short vectors and the bandwidth-bound
    one for long vectors.  ``tracer`` selects TraceR's: binary trees, allgather by Bruck up to
    163,840 B in all, alltoall by Bruck up to 512 B.  ``open mpi`` follows the fixed rules of Open
    MPI 4.1.4.  ``mpich`` follows MPICH for messages between processes, without its composition by
    nodes.

    >>> chosen("allreduce", 8192, 64, "open mpi"), chosen("allgatherv", 8192, 64, "mpich")
    ('recursive_doubling', 'ring')
    """
    blocks, sizes, algorithms = _sizes(operation, ranks, selection)
    algorithm = algorithms[bisect_right(sizes, block_bytes * blocks) - 1]
    if "<" not in algorithm:
        return algorithm
    # A reduce before a scatter, and a broadcast after a gather, carry the blocks of all ranks.
    factor = ranks if operation != "allreduce" else 1
    size = {
        "reduce": block_bytes * factor,
        "bcast": block_bytes * factor,
        "gather": block_bytes,
        "scatter": block_bytes,
    }
    parts = [
        chosen(p[1:-1], size[p[1:-1]], ranks, selection) if p.startswith("<") else p
        for p in algorithm.split(" + ")
    ]
    return " + ".join(parts)
