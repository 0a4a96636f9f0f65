"""Placement of the ranks on nodes.

==============  =======================================================================================================
linear          the first ranks on node 0, the next on node 1, ...
round robin     rank 0 on node 0, rank 1 on node 1, ..., around
random          the places of ``linear`` in random order; the same seed gives the same order
file            as a table of the user says
greedy          one node after the other, each time the rank that exchanges the most bytes with those already on the node
==============  =======================================================================================================

Greedy keeps partners together as it goes and never revises a choice: it may leave fewer bytes
inside nodes than ``linear`` where the numbering of the ranks follows their grid already.
`inside_bytes` returns the bytes that a placement keeps inside nodes.

Errors: A091, A092, A171.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, get_args

import numpy as np

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.errors import TurnbuckleError, clipped, did_you_mean, error_of
from turnbuckle.foundation.table_file import Column, read_table, read_text
from turnbuckle.mpi.collectives.collectives import Selection
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic, expanded

Kind = Literal["linear", "round robin", "random", "file", "greedy"]

#: A matrix of more ranks than this exceeds 128 MiB.
MOST_RANKS: Final = 4096
#: Nodes are numbered below this.
MOST_NODES: Final = 1_000_000
_COLUMNS: Final = (
    Column("rank", "1", needed=False, whole=True, most=MOST_NODES - 1),
    Column("node", "1", whole=True, most=MOST_NODES - 1),
)


def placed(
    kind: Kind,
    ranks: int,
    ranks_per_node: int,
    traffic_matrix: Float | None = None,
    seed: int = 0,
    order: Int | None = None,
) -> Int:
    """Return the node of each rank, shape (ranks,).

    Parameters
    ----------
    ranks_per_node : largest number of ranks on each node.
    traffic_matrix : bytes from rank to rank, shape (ranks, ranks); for ``greedy``.
    seed : for ``random``, from 0.
    order : node of each rank as `read_placement` gives it, shape (ranks,); for ``file``.

    Raises A091, A092.

    >>> placed("linear", 5, 2).tolist(), placed("round robin", 5, 2).tolist()
    ([0, 0, 1, 1, 2], [0, 1, 2, 0, 1])
    """
    if kind not in get_args(Kind):
        names = list(get_args(Kind))
        raise error_of(
            "A091.name",
            found=clipped(str(kind)),
            fix=did_you_mean(str(kind), names) or ", ".join(names),
        )
    if not 1 <= ranks <= MOST_NODES or not 1 <= ranks_per_node <= MOST_NODES:
        raise _refused(
            f"{ranks} ranks, {ranks_per_node} per node", f"whole numbers from 1 to {MOST_NODES:,}"
        )
    linear = np.arange(ranks) // ranks_per_node
    if kind == "round robin":
        return np.arange(ranks) % -(-ranks // ranks_per_node)
    if kind == "random":
        if seed < 0:
            raise _refused(f"a seed of {seed}", "a whole number from 0")
        return np.random.default_rng(seed).permutation(linear)
    if kind == "file":
        if order is None:
            raise _refused("no file", "name the file that says which rank stands where")
        checked(order, ranks, ranks_per_node)
        return np.asarray(order, dtype=np.int64)
    if kind == "greedy":
        if (
            traffic_matrix is None
            or traffic_matrix.shape != (ranks, ranks)
            or not bool((np.isfinite(traffic_matrix) & (traffic_matrix >= 0)).all())
        ):
            raise _refused(
                "no bytes from rank to rank, or not of these ranks",
                "traffic_matrix of the same traffic",
            )
        return _greedy(traffic_matrix, ranks_per_node)
    return linear


def traffic_matrix(traffic: Traffic, selection: Selection = "short and long") -> Float:
    """Return the bytes from rank to rank, shape (ranks, ranks): messages, and collectives by the
    algorithm chosen for each [B].

    Raises A171, more ranks than `MOST_RANKS`.
    """
    if traffic.ranks > MOST_RANKS:
        raise error_of("A171", found=f"{traffic.ranks:,}", most_ranks=MOST_RANKS)
    rank = traffic.rank_of[traffic.rank] if len(traffic.rank_of) else traffic.rank
    out = _between(rank, traffic.ranks, traffic.messages)
    for group in traffic.rounds:
        # Repeated calls of the same collective are expanded only once.
        _, first, times = np.unique(
            np.column_stack([rank[group.activity], group.block_bytes]),
            axis=0,
            return_index=True,
            return_counts=True,
        )
        for index, count in zip(first.tolist(), times.tolist(), strict=True):
            single = Rounds(
                group.operation,
                group.block_bytes[index : index + 1],
                group.activity[index : index + 1],
                group.root,
            )
            out += count * _between(rank, traffic.ranks, expanded(single, selection))
    return out


def _between(rank: Int, ranks: int, messages: Messages) -> Float:
    """Return the bytes of messages from rank to rank, shape (ranks, ranks) [B]."""
    pair = rank[messages.send] * ranks + rank[messages.receive]
    return np.asarray(
        np.bincount(pair, messages.size_bytes, minlength=ranks * ranks).reshape(ranks, ranks),
        dtype=np.float64,
    )


def inside_bytes(matrix: Float, node: Int) -> float:
    """Return the bytes that stay inside nodes, including those from a rank to itself [B].

    >>> inside_bytes(np.array([[0.0, 5.0], [1.0, 0.0]]), np.array([3, 3]))
    6.0
    """
    return float(matrix[node[:, None] == node].sum())


def _greedy(matrix: Float, ranks_per_node: int) -> Int:
    """Place ranks in O(ranks^2) steps: the row of every placed rank is added to the bytes that the
    others exchange with its node.
    """
    ranks = len(matrix)
    exchanges = matrix + matrix.T
    np.fill_diagonal(exchanges, 0.0)
    node = np.full(ranks, -1)
    free = np.ones(ranks, dtype=np.bool_)
    # A node begins with the rank that exchanges most with all placed ranks, so that no rank is left
    # alone in a corner.
    with_placed = np.zeros(ranks)
    for this_node in range(-(-ranks // ranks_per_node)):
        exchanged, room = with_placed, min(ranks_per_node, int(free.sum()))
        for place in range(room):
            chosen = int(np.argmax(np.where(free, exchanged, -1.0)))
            exchanged = exchanges[chosen] if place == 0 else exchanged + exchanges[chosen]
            node[chosen], free[chosen] = this_node, False
            with_placed = with_placed + exchanges[chosen]
    return node


def read_placement(path: str | Path, ranks: int, ranks_per_node: int) -> Int:
    """Return the node of each rank from a file, shape (ranks,).

    The file has one node number per line, in the order of the ranks; or it is a table with the
    columns ``rank`` and ``node``, or ``node`` alone.

    Raises A061 to A063 where the file cannot be read, A092 where it does not place these ranks.
    """
    lines = [
        n
        for n in read_text(path, "the placement").splitlines()
        if n.strip() and not n.lstrip().startswith("#")
    ]
    if lines and all(
        n.strip().isascii() and n.strip().isdecimal() and len(n.strip()) < 10 for n in lines
    ):
        node = np.array([int(n) for n in lines], dtype=np.int64)
        checked(node, ranks, ranks_per_node, Path(path).name)
        return node
    table = read_table(path, _COLUMNS, "the placement")
    node = table.number("node").astype(np.int64)
    if "rank" in table.columns:
        rank = table.number("rank")
        if bool(np.isnan(rank).any()):
            row = int(np.flatnonzero(np.isnan(rank))[0])
            raise _misplaced("a line without a rank", table.where(row))
        seen: dict[int, int] = {}
        for row, entry in enumerate(rank.astype(np.int64).tolist()):
            if entry in seen or entry >= ranks:
                raise _misplaced(
                    f"rank {entry} {'twice' if entry in seen else f'of {ranks}, counted from 0'}",
                    table.where(row, "rank"),
                )
            seen[entry] = row
        if missing := sorted(set(range(ranks)) - set(seen)):
            raise _misplaced(f"rank {missing[0]} stands nowhere", table.name)
        node = node[np.argsort(rank)]
    checked(node, ranks, ranks_per_node, table.name)
    return node


def checked(node: Int, ranks: int, ranks_per_node: int, where: str = "") -> None:
    """Refuse (A092) a placement that does not place every rank once, or puts more ranks on a node
    than it has room for.
    """
    if len(node) != ranks:
        raise _misplaced(f"{len(node):,} ranks, not {ranks:,}", where)
    if not (node.min() >= 0 and node.max() < MOST_NODES):
        raise _misplaced(f"a node number that is not from 0 to {MOST_NODES - 1:,}", where)
    held = np.bincount(node)
    if held.max() > ranks_per_node:
        raise _misplaced(
            f"{held.max()} ranks on node {int(held.argmax())}, which holds {ranks_per_node}", where
        )


def _refused(evidence: str, fix: str) -> TurnbuckleError:
    return error_of("A091.ranks", found=evidence, fix=fix)


def _misplaced(evidence: str, where: str) -> TurnbuckleError:
    return error_of("A092", where=where, found=evidence)
