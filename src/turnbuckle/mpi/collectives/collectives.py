"""Messages of collectives: source, target and size in each step, by the algorithms that MPI
libraries use.

A pattern is for ranks 0 to P-1 of one communicator.  Each rank goes through the steps in order.  In
each step it posts its receives, sends, waits for its messages, and waits for its own buffers.
Shares are multiples of the block.  The block is the contribution of each rank (allgather, alltoall,
gather, scatter), the result of each rank (reduce_scatter), or the whole vector (bcast, reduce,
allreduce, scan).

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

Where P is not a power of two, the extra ranks fold into a neighbour and back (+ 2).  As in
libraries, an allgather by recursive doubling then becomes Bruck's, and a neighbour exchange among
an odd number of ranks becomes a ring; a reduce_scatter by recursive doubling becomes recursive
halving.  ``A + B`` is one operation after the other: a reduce by A and a bcast by B (allreduce), a
reduce and a scatter (reduce_scatter), a gather and a bcast (allgather).

Sources: T Thakur, Rabenseifner and Gropp 2005; B Barnett et al. 1994; F Traff 2005; K Bruck et al.
1997; C Chen et al. 2005; H Hensgen, Finkel and Manber 1988; L Hillis and Steele 1986; P
Pjesivac-Grbovic et al. 2007 and Patarasuk and Yuan 2009; R TraceR (commit 5152e57); O Open MPI
4.1.4 (coll/base, coll/basic); S SimGrid 3.32 (SMPI).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.errors import did_you_mean, error_of
from turnbuckle.mpi.collectives import trees
from turnbuckle.mpi.collectives.selections import Selection, chosen
from turnbuckle.mpi.collectives.trees import Step, reversed_steps, rounds, step, turned

__all__ = ["ALGORITHMS", "Pattern", "Selection", "buffers", "chosen", "operation_of", "pattern"]


@dataclass(frozen=True)
class Pattern:
    """Messages of one collective."""

    #: source, target: rank that sends and rank that receives each message, shape (messages,)
    source: Int
    target: Int
    share: Float  #: size of each message as a multiple of the block, shape (messages,)
    step: Int  #: step in which each message is sent and received, ascending, shape (messages,)


def _packed(steps: list[Step]) -> Pattern:
    none: list[Int | Float] = [np.zeros(0, np.int64)]
    source, target, share = (np.concatenate([s[side] for s in steps] or none) for side in range(3))
    number = np.repeat(np.arange(len(steps)), [len(s[0]) for s in steps])
    return Pattern(
        source.astype(np.int64), target.astype(np.int64), share.astype(np.float64), number
    )


# --- all with all ---------------------------------------------------------------------------------


def _xor(ranks: int, share: Float | float, reach: int) -> Step:
    """Return the exchange of every rank with the rank whose number differs by XOR with `reach`,
    where that rank exists.
    """
    rank = np.arange(ranks)
    has_partner = (rank ^ reach) < ranks
    return step(rank[has_partner], (rank ^ reach)[has_partner], share)


def _shift(ranks: int, by: int, share: float) -> Step:
    """Return the step in which every rank sends to the rank `by` places further."""
    rank = np.arange(ranks)
    return step(rank, (rank + by) % ranks, share)


def _folded(ranks: int) -> tuple[int, Int, Step, Step]:
    """Return the largest power of two, the ranks that stay, and the steps that fold the even ranks
    at the front into their neighbours and back.
    """
    power = 1 << (ranks.bit_length() - 1)
    even = np.arange(0, 2 * (ranks - power), 2)
    stay = np.append(even + 1, np.arange(2 * (ranks - power), ranks))
    return power, stay, step(even, even + 1, 1.0), step(even + 1, even, 1.0)


def _among(stay: Int, steps: list[Step]) -> list[Step]:
    """Return steps, numbered among the ranks that stay, with the ranks' own numbers."""
    return [(stay[source], stay[target], share) for source, target, share in steps]


def _around(ranks: int, steps: list[Step], into: Step, back: Step) -> list[Step]:
    """Return the steps between a fold and its reversal where the number of ranks is not a power of
    two.
    """
    return [into, *steps, back] if ranks & (ranks - 1) else steps


def _recursive_doubling(ranks: int) -> list[Step]:
    """Exchange the whole vector with partners at distances 1, 2, 4, ..."""
    power, stay, into, back = _folded(ranks)
    return _around(
        ranks, _among(stay, [_xor(power, 1.0, reach) for reach in rounds(power)]), into, back
    )


def _halved(power: int) -> list[Step]:
    """Halve the vector with partners at distances 1, 2, 4, ..."""
    return [_xor(power, 0.5 ** (k + 1), reach) for k, reach in enumerate(rounds(power))]


def _rabenseifner(ranks: int) -> list[Step]:
    """Halve the vector with partners, then gather it on the reverse path."""
    power, stay, into, back = _folded(ranks)
    halving = _halved(power)
    return _around(ranks, _among(stay, halving + reversed_steps(halving)), into, back)


def _rabenseifner_reduce(ranks: int, root: int) -> list[Step]:
    """Halve the vector with partners, then gather it in the root on the reverse path.

    Odd ranks at the front fold into the even ranks before them.  A root that folded takes over the
    piece and the place of rank 0.
    """
    power, *_ = _folded(ranks)
    folded = 2 * np.arange(ranks - power) + 1
    stay = np.setdiff1d(np.arange(ranks), folded)
    halving = _halved(power)
    steps = _among(stay, halving)
    if root in folded:
        steps.append(step([0], root, 1.0 / power))
        stay = np.append(root, stay[1:])
    rank = np.arange(power)
    apart = rank ^ int(np.flatnonzero(stay == root)[0])
    for bit in reversed(range(len(halving))):
        sends = rank[apart >> bit == 1]
        steps += _among(stay, [step(sends, sends ^ (1 << bit), 0.5 ** (bit + 1))])
    return [step(folded, folded - 1, 1.0), *steps] if len(folded) else steps


def _ring(ranks: int, share: float, turns: int) -> list[Step]:
    """Return the steps of `turns` rounds of a ring, in which every rank sends to the next."""
    return [_shift(ranks, 1, share)] * (turns * (ranks - 1))


def _bruck_allgather(ranks: int) -> list[Step]:
    """Send all blocks received so far, at most as many as are missing, to ranks at distances 1, 2,
    4, ...
    """
    return [_shift(ranks, -reach, float(min(reach, ranks - reach))) for reach in rounds(ranks)]


def _doubling_allgather(ranks: int) -> list[Step]:
    """Exchange all blocks received so far with partners at distances 1, 2, 4, ..."""
    if ranks & (ranks - 1):
        return _bruck_allgather(ranks)
    return [_xor(ranks, float(reach), reach) for reach in rounds(ranks)]


def _neighbor_exchange(ranks: int) -> list[Step]:
    """Exchange with one neighbour and the other alternately: first each rank's own block, then the
    two blocks that arrived last.
    """
    if ranks % 2:
        return _ring(ranks, 1.0, 1)
    rank = np.arange(ranks)
    return [
        step(rank, (rank + np.where((rank + k) % 2 == 0, 1, -1)) % ranks, 2.0 if k else 1.0)
        for k in range(ranks // 2)
    ]


def _bruck_alltoall(ranks: int) -> list[Step]:
    """Send in each step the blocks whose distance has the step's bit."""
    distance = np.arange(ranks)
    return [
        _shift(ranks, reach, float(np.count_nonzero(distance & reach))) for reach in rounds(ranks)
    ]


def _shifted(ranks: int) -> list[Step]:
    """Send one block to the rank k places further, in step k."""
    return [_shift(ranks, by, 1.0) for by in range(1, ranks)]


def _pairwise(ranks: int) -> list[Step]:
    """Exchange one block with rank r xor k in step k; shifted where the number of ranks is not a
    power of two.
    """
    return (
        _shifted(ranks) if ranks & (ranks - 1) else [_xor(ranks, 1.0, by) for by in range(1, ranks)]
    )


def _direct(ranks: int) -> list[Step]:
    """Send from every rank to every other rank at once."""
    rank = np.arange(ranks)
    source, target = (side.reshape(-1) for side in np.meshgrid(rank, rank, indexing="ij"))
    return [step(source[source != target], target[source != target], 1.0)]


def _blocks_before(ranks: int) -> Float:
    """Return the number of blocks before each rank that stays, counting its own and those folded
    into it, and the total at the end.
    """
    power = _folded(ranks)[0]
    return np.append(0.0, np.cumsum(1.0 + (np.arange(power) < ranks - power)))


def _recursive_halving(ranks: int) -> list[Step]:
    """Send half of the remaining blocks to a partner at half the distance each time; folded ranks
    receive their block at the end.
    """
    power, stay, into, back = _folded(ranks)
    before = _blocks_before(ranks)
    rank, steps = np.arange(power), []
    for reach in reversed(list(rounds(power))):
        partner_first = (rank ^ reach) & -reach
        steps.append(
            step(rank, rank ^ reach, before[partner_first + reach] - before[partner_first])
        )
    return _around(ranks, _among(stay, steps), (into[0], into[1], into[2] * ranks), back)


def _butterfly(ranks: int) -> list[Step]:
    """Send half of the remaining blocks to partners at distances 1, 2, 4, ..., and at the end each
    block to its rank.
    """
    power, stay, into, _ = _folded(ranks)
    before = _blocks_before(ranks)
    rank, first, count, steps = np.arange(power), np.zeros(power, np.int64), power, []
    for reach in rounds(power):
        count //= 2
        kept = first + np.where(rank & reach, count, 0)
        sent = first + np.where(rank & reach, 0, count)
        steps.append(step(rank, rank ^ reach, before[sent + count] - before[sent]))
        first = kept
    steps = _among(stay, steps)
    # Each rank ends with the block of the rank with mirrored bits, and with the block of the rank
    # folded into that one.
    has_folded = first < ranks - power
    holder, owner = (
        np.append(stay, stay[has_folded]),
        np.append(stay[first], stay[first[has_folded]] - 1),
    )
    misplaced = holder != owner
    if misplaced.any():
        steps.append(step(holder[misplaced], owner[misplaced], 1.0))
    return [(into[0], into[1], into[2] * ranks), *steps] if ranks != power else steps


def _doubling_reduce_scatter(ranks: int) -> list[Step]:
    """Exchange all blocks except those of the ranks heard of so far with partners at distances 1,
    2, 4, ...
    """
    if ranks & (ranks - 1):
        return _recursive_halving(ranks)
    return [_xor(ranks, float(ranks - reach), reach) for reach in rounds(ranks)]


def _barrier(algorithm: str, ranks: int) -> list[Step]:
    """Return the steps of a barrier, whose messages are empty."""
    if algorithm == "dissemination":
        steps = [_shift(ranks, reach, 0.0) for reach in rounds(ranks)]
    elif algorithm == "recursive_doubling":
        power = 1 << (ranks.bit_length() - 1)
        extra = np.arange(ranks - power)
        swaps = [_xor(power, 0.0, reach) for reach in rounds(power)]
        steps = _around(
            ranks, swaps, step(extra + power, extra, 0.0), step(extra, extra + power, 0.0)
        )
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
    rank = np.arange(ranks)
    return [step(rank[: ranks - reach], rank[reach:], 1.0) for reach in rounds(ranks)]


# --- from a root, or to it ------------------------------------------------------------------------


def _scattered(algorithm: str, ranks: int) -> list[Step]:
    """Return the steps that send a block from rank 0 to each rank."""
    if algorithm == "linear":
        return trees.linear(ranks)
    tree = trees.TREES[algorithm](ranks)
    return trees.down(tree, share=trees.below(tree))


def _broadcast(algorithm: str, ranks: int, segments: int) -> list[Step]:
    """Return the steps that send a vector from rank 0 to all ranks."""
    if algorithm == "split_binary":
        return trees.split_binary(ranks, segments)
    if algorithm in ("scatter_allgather", "scatter_ring"):
        gathered = (
            _doubling_allgather(ranks) if algorithm == "scatter_allgather" else _ring(ranks, 1.0, 1)
        )
        steps = [*_scattered("binomial", ranks), *gathered]
        return [(source, target, share / ranks) for source, target, share in steps]
    return trees.rooted(algorithm, ranks, segments)


def _rooted(operation: str, algorithm: str, ranks: int, root: int, segments: int) -> list[Step]:
    if operation == "reduce" and algorithm == "rabenseifner":
        return _rabenseifner_reduce(ranks, root)
    if operation == "reduce" and algorithm == "in_order_binary":
        return trees.in_order_reduce(ranks, root, segments)
    if operation == "reduce" and algorithm == "binary_levels":
        # Open MPI posts the receives of both children at a time.
        return turned(
            reversed_steps(trees.rooted(algorithm, ranks, segments, together=True)), ranks, root
        )
    if algorithm == "linear_sync":
        requested = [[step([0], r, 0.0), step([r], 0, 1.0)] for r in range(1, ranks)]
        return turned([single_step for pair in requested for single_step in pair], ranks, root)
    from_root = (
        _broadcast(algorithm, ranks, segments)
        if operation in ("bcast", "reduce")
        else _scattered(algorithm, ranks)
    )
    return turned(
        from_root if operation in ("bcast", "scatter") else reversed_steps(from_root), ranks, root
    )


# --- by name --------------------------------------------------------------------------------------

_TREES: Final = (
    "binomial",
    "linear",
    *(n for n in trees.TREES if n not in ("binomial", "binomial_doubling")),
)
#: Algorithms of each MPI operation.
ALGORITHMS: Final[dict[str, tuple[str, ...]]] = {
    "bcast": (*_TREES, "binomial_doubling", "split_binary", "scatter_allgather", "scatter_ring"),
    "reduce": (*_TREES, "in_order_binary", "rabenseifner"),
    "scatter": ("binomial", "linear", "linear_in_turn"),
    "gather": ("binomial", "linear", "linear_in_turn", "linear_sync"),
    "allreduce": ("recursive_doubling", "ring", "rabenseifner", "binary"),
    "allgather": ("bruck", "ring", "recursive_doubling", "neighbor_exchange", "linear"),
    "alltoall": ("bruck", "pairwise", "shifted", "linear"),
    "reduce_scatter": (
        "ring",
        "pairwise",
        "shifted",
        "recursive_halving",
        "butterfly",
        "recursive_doubling",
        "linear",
    ),
    "barrier": ("dissemination", "recursive_doubling", "linear", "binomial", "double_ring"),
    "scan": ("doubling_scan", "recursive_doubling", "chain_scan"),
}
#: Operations that can be two others, one after the other.
_TWO: Final = {
    "allreduce": ("reduce", "bcast"),
    "reduce_scatter": ("reduce", "scatter"),
    "allgather": ("gather", "bcast"),
}
#: Calls with the traffic of another operation; libraries choose their algorithms partly by other
#: rules.
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
    ("allreduce", "binary"): lambda ranks: [
        *reversed_steps(trees.rooted("binary", ranks, 1)),
        *trees.rooted("binary", ranks, 1),
    ],
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
    """Return the operation whose traffic a call has: ``allgatherv`` -> ``allgather``; None for an
    unknown call.

    Parameters
    ----------
    plain : False keeps the name of a call that has the traffic of another, because libraries may
        choose another algorithm for it.
    """
    same = _SAME.get(name, name)
    return None if same not in ALGORITHMS else same if plain else name


@lru_cache(maxsize=256)
def pattern(
    operation: str, algorithm: str, ranks: int, root: int = 0, segments: int = 1
) -> Pattern:
    """Return the messages of one collective among `ranks`.

    Raises A073, an unknown operation or algorithm, fewer than one rank, a root outside the ranks,
    or segments for an algorithm that does not cut the vector.

    Parameters
    ----------
    algorithm : one of `ALGORITHMS`, or ``A + B`` (see above).
    segments : number of pieces into which trees and chains cut the vector; each rank forwards a
        piece before the next arrives.

    >>> p = pattern("allreduce", "recursive_doubling", 4)
    >>> list(zip(p.step.tolist(), p.source.tolist(), p.target.tolist()))[:4]
    [(0, 0, 1), (0, 1, 0), (0, 2, 3), (0, 3, 2)]
    """
    same = operation_of(operation) or operation
    two_parts = _TWO.get(same, ())
    parts = algorithm.split(" + ")
    composed = len(parts) == len(two_parts) == 2 and all(
        a in ALGORITHMS[o] for o, a in zip(two_parts, parts, strict=True)
    )
    algorithms = ALGORITHMS.get(same, ())
    can_segment = segments == 1 or (same in ("bcast", "reduce") and algorithm in _SEGMENTED)
    if (
        not (composed or algorithm in algorithms)
        or ranks < 1
        or not 0 <= root < ranks
        or segments < 1
        or not can_segment
    ):
        what = f"{operation} by {algorithm} among {ranks} ranks from {root}" + (
            f" in {segments} segments" if segments != 1 else ""
        )
        near = (
            did_you_mean(algorithm, list(algorithms))
            or ", ".join(algorithms)
            or ", ".join(ALGORITHMS)
        )
        raise error_of("A073", found=what[:80], fix=near if can_segment else "one segment")
    if ranks == 1:
        return _packed([])
    if not composed:
        return _packed(_steps(same, algorithm, ranks, root, segments))
    first, second = (_steps(o, a, ranks, 0, 1) for o, a in zip(two_parts, parts, strict=True))
    # The vector between the two operations holds the blocks of all ranks.
    longer_part, factor = (
        (first if same == "reduce_scatter" else second),
        float(1 if same == "allreduce" else ranks),
    )
    scaled = [(source, target, share * factor) for source, target, share in longer_part]
    return _packed([*scaled, *second] if longer_part is first else [*first, *scaled])


def _steps(operation: str, algorithm: str, ranks: int, root: int, segments: int) -> list[Step]:
    if operation in ("bcast", "reduce", "scatter", "gather"):
        return _rooted(operation, algorithm, ranks, root, segments)
    if operation == "barrier":
        return _barrier(algorithm, ranks)
    if operation == "scan":
        return _scan(algorithm, ranks)
    return _AMONG_ALL[operation, algorithm](ranks)


def buffers(operation: str, ranks: int, root: int = 0) -> tuple[Float, Float]:
    """Return the blocks that each rank copies in and out if a library stages a collective in host
    memory once.

    Returns blocks from device memory before the collective, and to device memory after it, each of
    shape (ranks,).

    >>> [side.tolist() for side in buffers("allgather", 3)]
    [[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]]
    """
    single, all_ranks = np.ones(ranks), np.full(ranks, float(ranks))
    is_root = np.arange(ranks) == root
    put, got = {
        "bcast": (single * is_root, single * ~is_root),
        "reduce": (single, single * is_root),
        "scatter": (all_ranks * is_root, single),
        "gather": (single, all_ranks * is_root),
        "allreduce": (single, single),
        "allgather": (single, all_ranks),
        "alltoall": (all_ranks, all_ranks),
        "reduce_scatter": (all_ranks, single),
        "barrier": (0 * single, 0 * single),
        "scan": (single, single),
    }[operation_of(operation) or operation]
    return put, got
