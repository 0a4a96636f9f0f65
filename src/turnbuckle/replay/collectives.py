"""Collectives as messages: who sends how much to whom, step by step, by the algorithms that MPI libraries use.

A pattern is for ranks 0 to P-1 of one communicator.  A rank goes through the steps in order; in one step it makes room for what it is to
receive, sends, waits for what it receives, and for its own buffers.  Shares are multiples of the block: what one rank contributes
(allgather, alltoall, gather, scatter, reduce_scatter) or the whole vector (bcast, reduce, allreduce, scan).

===================  =====================================  ==================================================================
pattern              steps                                  source
===================  =====================================  ==================================================================
binomial             ceil(log2 P)                           broadcast, reduce, scatter, gather
binary               depth of the tree, twice               broadcast and reduce of TraceR, two children a rank
recursive_doubling   log2 P (+ 2 unless P is a power of 2)  allreduce, allgather
ring                 P - 1, or 2 (P - 1)                    allgather, reduce_scatter, allreduce
rabenseifner         2 log2 P (+ 2)                         allreduce of long vectors
bruck                ceil(log2 P)                           allgather, alltoall of short blocks
pairwise             P - 1                                  alltoall
dissemination        ceil(log2 P)                           barrier
doubling_scan        ceil(log2 P)                           scan
===================  =====================================  ==================================================================

Thakur, Rabenseifner and Gropp 2005 describe all but the binary tree, which is TraceR's (commit 5152e57).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from turnbuckle.errors import UsageError, did_you_mean

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Selection = Literal["short and long", "tracer"]

#: Messages of one step: (source, target, share).
_Step = list[tuple[int, int, float]]
#: Sizes [B] at which "short and long" changes algorithm, as Open MPI's and MPICH's defaults do for vectors and blocks.
LONG_VECTOR: Final = 10_000.0
LONG_BLOCK: Final = 512.0
#: TraceR: an allgather of more than this in all goes round the ring.
TRACER_ALLGATHER: Final = 163_840.0


@dataclass(frozen=True)
class Pattern:
    """Messages of one collective.

    Attributes
    ----------
    source, target : ranks, shape (messages,).
    share : of the block, shape (messages,).
    step : in which each is sent and received, ascending, shape (messages,).
    """

    source: Int
    target: Int
    share: Float
    step: Int


def _packed(steps: list[_Step]) -> Pattern:
    flat = [(s, *message) for s, messages in enumerate(steps) for message in messages]
    step, source, target, share = zip(*flat, strict=True) if flat else ((), (), (), ())
    return Pattern(np.array(source, np.int64), np.array(target, np.int64), np.array(share, np.float64), np.array(step, np.int64))


def _rounds(ranks: int) -> Iterator[int]:
    """1, 2, 4, ... below `ranks`."""
    reach = 1
    while reach < ranks:
        yield reach
        reach *= 2


def _binomial(ranks: int, root: int, *, shrinking: bool) -> list[_Step]:
    """From the root to all; `shrinking`: each takes what its own subtree needs (scatter)."""
    steps: list[_Step] = []
    for reach in reversed(list(_rounds(ranks))):
        step = []
        for relative in range(0, ranks, 2 * reach):
            if relative + reach < ranks:
                below = min(reach, ranks - relative - reach)
                step.append(((relative + root) % ranks, (relative + reach + root) % ranks, float(below) if shrinking else 1.0))
        steps.append(step)
    return steps


def _reversed(steps: list[_Step]) -> list[_Step]:
    """The same the other way: a broadcast becomes a reduce, a scatter a gather."""
    return [[(target, source, share) for source, target, share in step] for step in reversed(steps)]


def _binary(ranks: int, root: int) -> list[_Step]:
    """From the root to two children at a time, one after the other."""
    steps: list[_Step] = []
    level = [0]
    while level:
        for child in (1, 2):
            step = [((r + root) % ranks, (2 * r + child + root) % ranks, 1.0) for r in level if 2 * r + child < ranks]
            if step:
                steps.append(step)
        level = [c for r in level for c in (2 * r + 1, 2 * r + 2) if c < ranks]
    return steps


def _folded(ranks: int) -> tuple[int, _Step, _Step]:
    """Largest power of two, and the steps that fold the ranks beyond it into their partners and back."""
    power = 1 << (ranks.bit_length() - 1)
    extra = range(ranks - power)
    return power, [(power + r, r, 1.0) for r in extra], [(r, power + r, 1.0) for r in extra]


def _recursive_doubling(ranks: int) -> list[_Step]:
    power, into, back = _folded(ranks)
    steps = [[(r, r ^ reach, 1.0) for r in range(power)] for reach in _rounds(power)]
    return [into, *steps, back] if into else steps


def _rabenseifner(ranks: int) -> list[_Step]:
    """Halve the vector with a partner at half the distance, then gather it the way back."""
    power, into, back = _folded(ranks)
    halving: list[_Step] = []
    for k, reach in enumerate(reversed(list(_rounds(power)))):
        halving.append([(r, r ^ reach, 0.5 ** (k + 1)) for r in range(power)])
    steps = [*halving, *[list(step) for step in reversed(halving)]]
    return [into, *steps, back] if into else steps


def _ring(ranks: int, share: float, turns: int) -> list[_Step]:
    return [[(r, (r + 1) % ranks, share) for r in range(ranks)] for _ in range(turns * (ranks - 1))]


def _bruck_allgather(ranks: int) -> list[_Step]:
    return [[(r, (r - reach) % ranks, float(min(reach, ranks - reach))) for r in range(ranks)] for reach in _rounds(ranks)]


def _bruck_alltoall(ranks: int) -> list[_Step]:
    """In step k go the blocks whose distance has bit k."""
    counts = [(reach, sum(1 for d in range(ranks) if d & reach)) for reach in _rounds(ranks)]
    return [[(r, (r + reach) % ranks, float(count)) for r in range(ranks)] for reach, count in counts]


def _pairwise(ranks: int) -> list[_Step]:
    if ranks & (ranks - 1) == 0:
        return [[(r, r ^ k, 1.0) for r in range(ranks)] for k in range(1, ranks)]
    return [[(r, (r + k) % ranks, 1.0) for r in range(ranks)] for k in range(1, ranks)]


def _dissemination(ranks: int) -> list[_Step]:
    return [[(r, (r + reach) % ranks, 0.0) for r in range(ranks)] for reach in _rounds(ranks)]


def _doubling_scan(ranks: int) -> list[_Step]:
    return [[(r, r + reach, 1.0) for r in range(ranks - reach)] for reach in _rounds(ranks)]


#: Operation of MPI -> which of its algorithms there are.
ALGORITHMS: Final[dict[str, tuple[str, ...]]] = {
    "bcast": ("binomial", "binary"),
    "reduce": ("binomial", "binary"),
    "scatter": ("binomial",),
    "gather": ("binomial",),
    "allreduce": ("recursive_doubling", "ring", "rabenseifner", "binary"),
    "allgather": ("bruck", "ring", "recursive_doubling"),
    "alltoall": ("bruck", "pairwise"),
    "reduce_scatter": ("ring", "pairwise"),
    "barrier": ("dissemination",),
    "scan": ("doubling_scan",),
}
#: Names that mean the same traffic.
_SAME: Final = {
    "allgatherv": "allgather",
    "alltoallv": "alltoall",
    "alltoallw": "alltoall",
    "gatherv": "gather",
    "scatterv": "scatter",
    "exscan": "scan",
    "reduce_scatter_block": "reduce_scatter",
}


def operation_of(name: str) -> str | None:
    """The operation whose traffic a call has: ``allgatherv`` -> ``allgather``; None for one that is not known."""
    plain = _SAME.get(name, name)
    return plain if plain in ALGORITHMS else None


@cache
def pattern(operation: str, algorithm: str, ranks: int, root: int = 0) -> Pattern:
    """Messages of one collective among `ranks`.

    Raises
    ------
    UsageError : A073, an operation or algorithm that is not known, fewer than one rank, a root that is none.

    >>> p = pattern("allreduce", "recursive_doubling", 4)
    >>> list(zip(p.step.tolist(), p.source.tolist(), p.target.tolist()))[:4]
    [(0, 0, 1), (0, 1, 0), (0, 2, 3), (0, 3, 2)]
    """
    known = ALGORITHMS.get(operation, ())
    if algorithm not in known or ranks < 1 or not 0 <= root < ranks:
        what = f"{operation} by {algorithm} among {ranks} ranks from {root}"
        raise UsageError("A073", "no such collective", found=what[:80], fix=did_you_mean(algorithm, list(known)) or ", ".join(known) or "")
    if ranks == 1:
        return _packed([])
    if algorithm == "binomial":
        down = _binomial(ranks, root, shrinking=operation in ("scatter", "gather"))
        return _packed(down if operation in ("bcast", "scatter") else _reversed(down))
    if algorithm == "binary":
        down = _binary(ranks, root)
        up = _reversed(down)
        return _packed({"bcast": down, "reduce": up, "allreduce": up + down}[operation])
    if algorithm == "recursive_doubling" and operation == "allgather":
        if ranks & (ranks - 1):
            return _packed(_bruck_allgather(ranks))  # libraries do the same
        return _packed([[(r, r ^ reach, float(reach)) for r in range(ranks)] for reach in _rounds(ranks)])
    if algorithm == "ring":
        return _packed(_ring(ranks, 1.0 / ranks, 2) if operation == "allreduce" else _ring(ranks, 1.0, 1))
    if algorithm == "bruck":
        return _packed(_bruck_allgather(ranks) if operation == "allgather" else _bruck_alltoall(ranks))
    made = {
        "recursive_doubling": _recursive_doubling,
        "rabenseifner": _rabenseifner,
        "pairwise": _pairwise,
        "dissemination": _dissemination,
        "doubling_scan": _doubling_scan,
    }
    return _packed(made[algorithm](ranks))


def chosen(operation: str, block_bytes: float, ranks: int, selection: Selection) -> str:
    """The algorithm that a library picks for a block of this size [B].

    ``short and long`` takes the latency-bound one for short vectors and the bandwidth-bound one for long; ``tracer`` takes TraceR's
    (binary trees, allgather by Bruck up to 163,840 B in all, alltoall by Bruck up to 512 B).
    """
    if selection == "tracer":
        if operation in ("bcast", "reduce", "allreduce"):
            return "binary"
        if operation == "allgather":
            return "bruck" if block_bytes * ranks <= TRACER_ALLGATHER else "ring"
    if operation == "allreduce":
        return "recursive_doubling" if block_bytes <= LONG_VECTOR else "rabenseifner"
    if operation == "allgather":
        return "bruck" if block_bytes * ranks <= LONG_VECTOR else "ring"
    if operation == "alltoall":
        return "bruck" if block_bytes <= LONG_BLOCK else "pairwise"
    return ALGORITHMS[operation][0]
