"""Collectives as messages: who sends how much to whom, step by step, by the algorithms that MPI libraries use.

A pattern is for ranks 0 to P-1 of one communicator.  A rank goes through the steps in order; in one step it makes room for what it is to
receive, sends, waits for what it receives, and for its own buffers.  Shares are multiples of the block: what one rank contributes
(allgather, alltoall, gather, scatter), what one rank gets (reduce_scatter), or the whole vector (bcast, reduce, allreduce, scan).

===================  =============================  =================================================  ======
pattern              steps                          of                                                 source
===================  =============================  =================================================  ======
linear               1 (barrier 2)                  all but scan: with the root at once, or with all    O S
linear_in_turn       P - 1                          bcast, reduce, scatter, gather: one after another  O
linear_sync          2 (P - 1)                      gather, each asked for by the root                 O
binomial             ceil(log2 P)                   bcast, reduce, scatter, gather, barrier            T
binomial_doubling    ceil(log2 P)                   bcast, nearest rank first                          O
knomial              3 a level of ceil(log4 P)      bcast, reduce; four ranks a level                  O
binary               depth of the tree, twice       bcast, reduce, allreduce; children 2r+1, 2r+2      R
binary_levels        depth of the tree, twice       bcast; reduce of both children at once             O
in_order_binary      depth of the tree, + 1         reduce of both at once, that keeps the order       O
split_binary         depth of the tree, twice, + 1  bcast, half a vector a subtree                     P
pipeline, chains     P - 1, ceil((P - 1) / 4) + 3   bcast, reduce: one chain, four chains              P
scatter_allgather    2 ceil(log2 P)                 bcast of long vectors (van de Geijn)               B T
scatter_ring         ceil(log2 P) + P - 1           bcast of the longest                               T
recursive_doubling   log2 P (+ 2)                   allreduce, allgather, barrier, scan; see below     T
ring                 P - 1, or 2 (P - 1)            allgather, reduce_scatter, allreduce               T P
rabenseifner         2 log2 P (+ 2)                 allreduce; reduce of long vectors                  T
recursive_halving    log2 P (+ 2)                   reduce_scatter                                     T
butterfly            log2 P + 1 (+ 1)               reduce_scatter                                     F
bruck                ceil(log2 P)                   allgather; alltoall of short blocks                K T
neighbor_exchange    P / 2                          allgather, an even number of ranks                 C
pairwise, shifted    P - 1                          alltoall, reduce_scatter: with r xor k; with r+k   T O
dissemination        ceil(log2 P)                   barrier                                            H
double_ring          2 P                            barrier                                            O
doubling_scan        ceil(log2 P)                   scan, exscan                                       L
chain_scan           P - 1                          scan, exscan                                       O
===================  =============================  =================================================  ======

Where P is no power of two, the extra ranks fold into a neighbour and back (+ 2); an allgather by recursive doubling becomes Bruck's, by
neighbour exchange of an odd number a ring, as in libraries; a reduce_scatter by recursive doubling becomes recursive halving.
``A + B`` is one operation after the other: a reduce by A and a bcast by B (allreduce), a reduce and a scatter (reduce_scatter), a gather
and a bcast (allgather).

Sources: T Thakur, Rabenseifner and Gropp 2005; B Barnett et al. 1994; F Traff 2005; K Bruck et al. 1997; C Chen et al. 2005; H Hensgen,
Finkel and Manber 1988; L Hillis and Steele 1986; P Pjesivac-Grbovic et al. 2007 and Patarasuk and Yuan 2009; R TraceR (commit 5152e57);
O Open MPI 4.1.4 (coll/base, coll/basic); S SimGrid 3.32 (SMPI).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from turnbuckle.foundation.errors import UsageError, did_you_mean
from turnbuckle.mpi.collectives import trees
from turnbuckle.mpi.collectives.selections import Selection, chosen
from turnbuckle.mpi.collectives.trees import Float, Int, Step, reversed_steps, rounds, step, turned

__all__ = ["ALGORITHMS", "Pattern", "Selection", "buffers", "chosen", "operation_of", "pattern"]


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


def _packed(steps: list[Step]) -> Pattern:
    none: list[Int | Float] = [np.zeros(0, np.int64)]
    source, target, share = (np.concatenate([s[side] for s in steps] or none) for side in range(3))
    number = np.repeat(np.arange(len(steps)), [len(s[0]) for s in steps])
    return Pattern(source.astype(np.int64), target.astype(np.int64), share.astype(np.float64), number)


# --- all with all -----------------------------------------------------------------------------------------------------


def _xor(ranks: int, share: Float | float, reach: int) -> Step:
    """Everyone with the rank whose number differs in one bit, where there is one."""
    every = np.arange(ranks)
    there = (every ^ reach) < ranks
    return step(every[there], (every ^ reach)[there], share)


def _shift(ranks: int, by: int, share: float) -> Step:
    every = np.arange(ranks)
    return step(every, (every + by) % ranks, share)


def _folded(ranks: int) -> tuple[int, Int, Step, Step]:
    """Largest power of two, the ranks that stay, and the steps that fold even ones at the front into their neighbours and back."""
    power = 1 << (ranks.bit_length() - 1)
    even = np.arange(0, 2 * (ranks - power), 2)
    stay = np.append(even + 1, np.arange(2 * (ranks - power), ranks))
    return power, stay, step(even, even + 1, 1.0), step(even + 1, even, 1.0)


def _among(stay: Int, steps: list[Step]) -> list[Step]:
    """Steps of the ranks that stay, by their own numbers."""
    return [(stay[source], stay[target], share) for source, target, share in steps]


def _around(ranks: int, steps: list[Step], into: Step, back: Step) -> list[Step]:
    return [into, *steps, back] if ranks & (ranks - 1) else steps


def _recursive_doubling(ranks: int) -> list[Step]:
    power, stay, into, back = _folded(ranks)
    return _around(ranks, _among(stay, [_xor(power, 1.0, reach) for reach in rounds(power)]), into, back)


def _halved(power: int) -> list[Step]:
    """The vector halved with a partner at distance 1, 2, 4, ..."""
    return [_xor(power, 0.5 ** (k + 1), reach) for k, reach in enumerate(rounds(power))]


def _rabenseifner(ranks: int) -> list[Step]:
    """Halve the vector with a partner, then gather it the way back."""
    power, stay, into, back = _folded(ranks)
    halving = _halved(power)
    return _around(ranks, _among(stay, halving + reversed_steps(halving)), into, back)


def _rabenseifner_reduce(ranks: int, root: int) -> list[Step]:
    """Halve the vector with a partner, then gather it in the root the way back.

    Odd ranks at the front fold into the even ones before them; a root that folded takes over the piece and the place of rank 0.
    """
    power, *_ = _folded(ranks)
    folded = 2 * np.arange(ranks - power) + 1
    stay = np.setdiff1d(np.arange(ranks), folded)
    halving = _halved(power)
    steps = _among(stay, halving)
    if root in folded:
        steps.append(step([0], root, 1.0 / power))
        stay = np.append(root, stay[1:])
    every = np.arange(power)
    apart = every ^ int(np.flatnonzero(stay == root)[0])
    for bit in reversed(range(len(halving))):
        sends = every[apart >> bit == 1]
        steps += _among(stay, [step(sends, sends ^ (1 << bit), 0.5 ** (bit + 1))])
    return [step(folded, folded - 1, 1.0), *steps] if len(folded) else steps


def _ring(ranks: int, share: float, turns: int) -> list[Step]:
    return [_shift(ranks, 1, share)] * (turns * (ranks - 1))


def _bruck_allgather(ranks: int) -> list[Step]:
    return [_shift(ranks, -reach, float(min(reach, ranks - reach))) for reach in rounds(ranks)]


def _doubling_allgather(ranks: int) -> list[Step]:
    if ranks & (ranks - 1):
        return _bruck_allgather(ranks)
    return [_xor(ranks, float(reach), reach) for reach in rounds(ranks)]


def _neighbor_exchange(ranks: int) -> list[Step]:
    """With one neighbour and the other by turns: at first the own block, then the two that came last."""
    if ranks % 2:
        return _ring(ranks, 1.0, 1)
    every = np.arange(ranks)
    return [step(every, (every + np.where((every + k) % 2 == 0, 1, -1)) % ranks, 2.0 if k else 1.0) for k in range(ranks // 2)]


def _bruck_alltoall(ranks: int) -> list[Step]:
    """In a step go the blocks whose distance has its bit."""
    distance = np.arange(ranks)
    return [_shift(ranks, reach, float(np.count_nonzero(distance & reach))) for reach in rounds(ranks)]


def _shifted(ranks: int) -> list[Step]:
    return [_shift(ranks, by, 1.0) for by in range(1, ranks)]


def _pairwise(ranks: int) -> list[Step]:
    return _shifted(ranks) if ranks & (ranks - 1) else [_xor(ranks, 1.0, by) for by in range(1, ranks)]


def _direct(ranks: int) -> list[Step]:
    """Everyone to everyone at once."""
    every = np.arange(ranks)
    source, target = (side.reshape(-1) for side in np.meshgrid(every, every, indexing="ij"))
    return [step(source[source != target], target[source != target], 1.0)]


def _blocks_before(ranks: int) -> Float:
    """Blocks of all before each rank that stays, its own and those folded into it, and of all at last."""
    power = _folded(ranks)[0]
    return np.append(0.0, np.cumsum(1.0 + (np.arange(power) < ranks - power)))


def _recursive_halving(ranks: int) -> list[Step]:
    """Half of what is left goes to a partner at half the distance; the folded get their block at last."""
    power, stay, into, back = _folded(ranks)
    before = _blocks_before(ranks)
    every, steps = np.arange(power), []
    for reach in reversed(list(rounds(power))):
        theirs = (every ^ reach) & -reach
        steps.append(step(every, every ^ reach, before[theirs + reach] - before[theirs]))
    return _around(ranks, _among(stay, steps), (into[0], into[1], into[2] * ranks), back)


def _butterfly(ranks: int) -> list[Step]:
    """Half of what is left goes to a partner at distance 1, 2, 4, ..., and blocks to where they belong at last."""
    power, stay, into, _ = _folded(ranks)
    before = _blocks_before(ranks)
    every, first, count, steps = np.arange(power), np.zeros(power, np.int64), power, []
    for reach in rounds(power):
        count //= 2
        kept = first + np.where(every & reach, count, 0)
        sent = first + np.where(every & reach, 0, count)
        steps.append(step(every, every ^ reach, before[sent + count] - before[sent]))
        first = kept
    steps = _among(stay, steps)
    # the block that a rank is left with is that of the rank with its bits mirrored, and of the one folded into that
    two = first < ranks - power
    whence, own = np.append(stay, stay[two]), np.append(stay[first], stay[first[two]] - 1)
    apart = whence != own
    if apart.any():
        steps.append(step(whence[apart], own[apart], 1.0))
    return [(into[0], into[1], into[2] * ranks), *steps] if ranks != power else steps


def _doubling_reduce_scatter(ranks: int) -> list[Step]:
    """All but the blocks of the ranks that a rank has heard of, with a partner at distance 1, 2, 4, ..."""
    if ranks & (ranks - 1):
        return _recursive_halving(ranks)
    return [_xor(ranks, float(ranks - reach), reach) for reach in rounds(ranks)]


def _barrier(algorithm: str, ranks: int) -> list[Step]:
    if algorithm == "dissemination":
        steps = [_shift(ranks, reach, 0.0) for reach in rounds(ranks)]
    elif algorithm == "recursive_doubling":
        power = 1 << (ranks.bit_length() - 1)
        extra = np.arange(ranks - power)
        swaps = [_xor(power, 0.0, reach) for reach in rounds(power)]
        steps = _around(ranks, swaps, step(extra + power, extra, 0.0), step(extra, extra + power, 0.0))
    elif algorithm == "double_ring":
        steps = [step([r % ranks], (r + 1) % ranks, 0.0) for r in range(2 * ranks)]
    else:
        down = trees.rooted(algorithm, ranks, 1)
        steps = [*reversed_steps(down), *down]
    return [(source, target, 0.0 * share) for source, target, share in steps]


def _scan(algorithm: str, ranks: int) -> list[Step]:
    if algorithm == "recursive_doubling":
        return [_xor(ranks, 1.0, reach) for reach in rounds(ranks)]
    if algorithm == "chain_scan":
        return [step([r], r + 1, 1.0) for r in range(ranks - 1)]
    every = np.arange(ranks)
    return [step(every[: ranks - reach], every[reach:], 1.0) for reach in rounds(ranks)]


# --- from a root, or to it --------------------------------------------------------------------------------------------


def _scattered(algorithm: str, ranks: int) -> list[Step]:
    """Blocks from rank 0 to all."""
    if algorithm == "linear":
        return trees.linear(ranks)
    tree = trees.TREES[algorithm](ranks)
    return trees.down(tree, share=trees.below(tree))


def _broadcast(algorithm: str, ranks: int, segments: int) -> list[Step]:
    if algorithm == "split_binary":
        return trees.split_binary(ranks, segments)
    if algorithm in ("scatter_allgather", "scatter_ring"):
        gathered = _doubling_allgather(ranks) if algorithm == "scatter_allgather" else _ring(ranks, 1.0, 1)
        steps = [*_scattered("binomial", ranks), *gathered]
        return [(source, target, share / ranks) for source, target, share in steps]
    return trees.rooted(algorithm, ranks, segments)


def _rooted(operation: str, algorithm: str, ranks: int, root: int, segments: int) -> list[Step]:
    if operation == "reduce" and algorithm == "rabenseifner":
        return _rabenseifner_reduce(ranks, root)
    if operation == "reduce" and algorithm == "in_order_binary":
        return trees.in_order_reduce(ranks, root, segments)
    if operation == "reduce" and algorithm == "binary_levels":
        # Open MPI makes room for two at a time
        return turned(reversed_steps(trees.rooted(algorithm, ranks, segments, together=True)), ranks, root)
    if algorithm == "linear_sync":
        asked = [[step([0], r, 0.0), step([r], 0, 1.0)] for r in range(1, ranks)]
        return turned([one for pair in asked for one in pair], ranks, root)
    away = _broadcast(algorithm, ranks, segments) if operation in ("bcast", "reduce") else _scattered(algorithm, ranks)
    return turned(away if operation in ("bcast", "scatter") else reversed_steps(away), ranks, root)


# --- by name ----------------------------------------------------------------------------------------------------------

_TREES: Final = ("binomial", "linear", *(n for n in trees.TREES if n not in ("binomial", "binomial_doubling")))
#: Operation of MPI -> which of its algorithms there are.
ALGORITHMS: Final[dict[str, tuple[str, ...]]] = {
    "bcast": (*_TREES, "binomial_doubling", "split_binary", "scatter_allgather", "scatter_ring"),
    "reduce": (*_TREES, "in_order_binary", "rabenseifner"),
    "scatter": ("binomial", "linear", "linear_in_turn"),
    "gather": ("binomial", "linear", "linear_in_turn", "linear_sync"),
    "allreduce": ("recursive_doubling", "ring", "rabenseifner", "binary"),
    "allgather": ("bruck", "ring", "recursive_doubling", "neighbor_exchange", "linear"),
    "alltoall": ("bruck", "pairwise", "shifted", "linear"),
    "reduce_scatter": ("ring", "pairwise", "shifted", "recursive_halving", "butterfly", "recursive_doubling", "linear"),
    "barrier": ("dissemination", "recursive_doubling", "linear", "binomial", "double_ring"),
    "scan": ("doubling_scan", "recursive_doubling", "chain_scan"),
}
#: Those that are two others, one after the other.
_TWO: Final = {"allreduce": ("reduce", "bcast"), "reduce_scatter": ("reduce", "scatter"), "allgather": ("gather", "bcast")}
#: Names that mean the same traffic; libraries choose for some of them by other rules.
_SAME: Final = {
    "allgatherv": "allgather",
    "alltoallv": "alltoall",
    "alltoallw": "alltoall",
    "gatherv": "gather",
    "scatterv": "scatter",
    "exscan": "scan",
    "reduce_scatter_block": "reduce_scatter",
}
#: Algorithms that cut a vector into segments.
_SEGMENTED: Final = (*_TREES, "binomial_doubling", "split_binary", "in_order_binary")


#: Operations that have no root.
_AMONG_ALL: Final[dict[tuple[str, str], Callable[[int], list[Step]]]] = {
    ("allreduce", "recursive_doubling"): _recursive_doubling,
    ("allreduce", "rabenseifner"): _rabenseifner,
    ("allreduce", "ring"): lambda ranks: _ring(ranks, 1.0 / ranks, 2),
    ("allreduce", "binary"): lambda ranks: [*reversed_steps(trees.rooted("binary", ranks, 1)), *trees.rooted("binary", ranks, 1)],
    ("allgather", "bruck"): _bruck_allgather,
    ("allgather", "ring"): lambda ranks: _ring(ranks, 1.0, 1),
    ("allgather", "recursive_doubling"): _doubling_allgather,
    ("allgather", "neighbor_exchange"): _neighbor_exchange,
    ("allgather", "linear"): _direct,
    ("alltoall", "bruck"): _bruck_alltoall,
    ("alltoall", "pairwise"): _pairwise,
    ("alltoall", "shifted"): _shifted,
    ("alltoall", "linear"): _direct,
    ("reduce_scatter", "ring"): lambda ranks: _ring(ranks, 1.0, 1),
    ("reduce_scatter", "pairwise"): _pairwise,
    ("reduce_scatter", "shifted"): _shifted,
    ("reduce_scatter", "linear"): _direct,
    ("reduce_scatter", "recursive_halving"): _recursive_halving,
    ("reduce_scatter", "butterfly"): _butterfly,
    ("reduce_scatter", "recursive_doubling"): _doubling_reduce_scatter,
}


def operation_of(name: str, *, plain: bool = True) -> str | None:
    """The operation whose traffic a call has: ``allgatherv`` -> ``allgather``; None for one that is not known.

    Parameters
    ----------
    plain : False keeps the name of a call that has the traffic of another, as libraries may choose another algorithm for it.
    """
    same = _SAME.get(name, name)
    return None if same not in ALGORITHMS else same if plain else name


@lru_cache(maxsize=256)
def pattern(operation: str, algorithm: str, ranks: int, root: int = 0, segments: int = 1) -> Pattern:
    """Messages of one collective among `ranks`.

    Parameters
    ----------
    algorithm : one of `ALGORITHMS`, or ``A + B`` (see above).
    segments : pieces that trees and chains cut the vector into, each on its way before the next has come.

    Raises
    ------
    UsageError : A073, an operation or algorithm that is not known, fewer than one rank, a root that is none, segments of what has none.

    >>> p = pattern("allreduce", "recursive_doubling", 4)
    >>> list(zip(p.step.tolist(), p.source.tolist(), p.target.tolist()))[:4]
    [(0, 0, 1), (0, 1, 0), (0, 2, 3), (0, 3, 2)]
    """
    same = operation_of(operation) or operation
    two = _TWO.get(same, ())
    parts = algorithm.split(" + ")
    whole = len(parts) == len(two) == 2 and all(a in ALGORITHMS[o] for o, a in zip(two, parts, strict=True))
    known = ALGORITHMS.get(same, ())
    cut = segments == 1 or (same in ("bcast", "reduce") and algorithm in _SEGMENTED)
    if not (whole or algorithm in known) or ranks < 1 or not 0 <= root < ranks or segments < 1 or not cut:
        what = f"{operation} by {algorithm} among {ranks} ranks from {root}" + (f" in {segments} segments" if segments != 1 else "")
        near = did_you_mean(algorithm, list(known)) or ", ".join(known) or ", ".join(ALGORITHMS)
        raise UsageError("A073", "no such collective", found=what[:80], fix=near if cut else "one segment")
    if ranks == 1:
        return _packed([])
    if not whole:
        return _packed(_steps(same, algorithm, ranks, root, segments))
    first, second = (_steps(o, a, ranks, 0, 1) for o, a in zip(two, parts, strict=True))
    # the vector that is reduced or spread in between holds the blocks of all
    long, every = (first if same == "reduce_scatter" else second), float(1 if same == "allreduce" else ranks)
    longer = [(source, target, share * every) for source, target, share in long]
    return _packed([*longer, *second] if long is first else [*first, *longer])


def _steps(operation: str, algorithm: str, ranks: int, root: int, segments: int) -> list[Step]:
    if operation in ("bcast", "reduce", "scatter", "gather"):
        return _rooted(operation, algorithm, ranks, root, segments)
    if operation == "barrier":
        return _barrier(algorithm, ranks)
    if operation == "scan":
        return _scan(algorithm, ranks)
    return _AMONG_ALL[operation, algorithm](ranks)


def buffers(operation: str, ranks: int, root: int = 0) -> tuple[Float, Float]:
    """What a library copies if it stages a collective in host memory once: blocks that each rank puts in, and that it gets.

    Returns
    -------
    Blocks from device memory before it, and to device memory after it, each of shape (ranks,).

    >>> [side.tolist() for side in buffers("allgather", 3)]
    [[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]]
    """
    one, every = np.ones(ranks), np.full(ranks, float(ranks))
    at = np.arange(ranks) == root
    put, got = {
        "bcast": (one * at, one * ~at),
        "reduce": (one, one * at),
        "scatter": (every * at, one),
        "gather": (one, every * at),
        "allreduce": (one, one),
        "allgather": (one, every),
        "alltoall": (every, every),
        "reduce_scatter": (every, one),
        "barrier": (0 * one, 0 * one),
        "scan": (one, one),
    }[operation_of(operation) or operation]
    return put, got
