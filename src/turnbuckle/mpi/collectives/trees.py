"""Trees of collectives, and the messages that go down or up them.

A tree lists the children of every rank in the order in which the rank sends to them; ranks count
from the root.  A `Step` holds the messages of one step: sources, targets and shares, arrays of
shape (messages,).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float, Int

Step = tuple[Int, Int, Float]
Tree = list[list[int]]

#: Open MPI's defaults for the radix of its k-nomial tree, and for the number of chains of its
#: chained broadcast.
RADIX: Final = 4
CHAINS: Final = 4


def step(
    source: Int | list[int], target: Int | list[int] | int, share: Float | list[float] | float
) -> Step:
    """Return the messages of one step; a single target or share applies to all."""
    sources, targets, shares = (
        np.asarray(source, np.int64),
        np.asarray(target, np.int64),
        np.asarray(share, np.float64),
    )
    return (
        sources,
        targets if targets.ndim else np.full_like(sources, target),
        shares if shares.ndim else np.full(len(sources), share),
    )


def rounds(ranks: int) -> Iterator[int]:
    """Yield 1, 2, 4, ... below `ranks`."""
    reach = 1
    while reach < ranks:
        yield reach
        reach *= 2


def reversed_steps(steps: list[Step]) -> list[Step]:
    """Return the steps of the reverse operation: a broadcast becomes a reduce, a scatter a gather,
    an allgather a reduce_scatter.
    """
    return [(target, source, share) for source, target, share in reversed(steps)]


def turned(steps: list[Step], ranks: int, root: int) -> list[Step]:
    """Return steps with ranks of the communicator in place of ranks counted from the root."""
    return [
        ((source + root) % ranks, (target + root) % ranks, share) for source, target, share in steps
    ]


# --- shapes ---------------------------------------------------------------------------------------


def _from_parents(parents: Iterable[int]) -> Tree:
    """Return the tree with the given parent of each rank but the root, with children in ascending
    order.
    """
    tree: Tree = [[]]
    for rank, parent in enumerate(parents, start=1):
        tree.append([])
        tree[parent].append(rank)
    return tree


def knomial(ranks: int, radix: int) -> Tree:
    """Return a k-nomial tree: children at radix - 1 multiples of each power of the radix, the
    furthest power first.

    Every subtree consists of consecutive ranks.
    """
    tree: Tree = [[] for _ in range(ranks)]
    reach = 1
    while reach < ranks:
        for parent in range(0, ranks, radix * reach):
            near = [parent + k * reach for k in range(1, radix) if parent + k * reach < ranks]
            tree[parent] = near + tree[parent]
        reach *= radix
    return tree


def _binomial_doubling(ranks: int) -> Tree:
    """Return a tree with children at distances that double from the next power of two above the
    rank.
    """
    return _from_parents(r - (1 << (r.bit_length() - 1)) for r in range(1, ranks))


def _heap(ranks: int) -> Tree:
    """Return a binary tree in which rank r has the children 2 r + 1 and 2 r + 2."""
    return _from_parents((r - 1) // 2 for r in range(1, ranks))


def _levels(ranks: int) -> Tree:
    """Return a binary tree with children at a distance of the ranks on the parent's level, and at
    twice that distance.
    """
    parents = []
    for rank in range(1, ranks):
        above = 1 << ((rank + 1).bit_length() - 2)
        parents.append(rank - above if rank - above < 2 * above - 1 else rank - 2 * above)
    return _from_parents(parents)


def _in_order(ranks: int) -> Tree:
    """Return a binary tree whose root is the last rank, and whose two subtrees are halves with the
    last rank of each as root.
    """
    tree: Tree = [[] for _ in range(ranks)]

    def grow(first: int, count: int) -> None:
        right = count // 2
        left = count - right - 1
        for begin, size in ((first + right, left), (first, right)):
            if size:
                tree[first + count - 1].append(begin + size - 1)
                grow(begin, size)

    grow(0, ranks)
    return tree


def _chains(ranks: int, count: int) -> Tree:
    """Return chains from the root, of equal lengths or the first ones longer by one."""
    tree: Tree = [[] for _ in range(ranks)]
    count = min(count, ranks - 1)
    for chain in np.array_split(np.arange(1, ranks), count) if count else ():
        links = [0, *chain.tolist()]
        for parent, child in pairwise(links):
            tree[parent].append(child)
    return tree


#: Trees by name, from the root at rank 0.
TREES: Final[dict[str, Callable[[int], Tree]]] = {
    "linear_in_turn": lambda ranks: [list(range(1, ranks)), *([] for _ in range(ranks - 1))],
    "binomial": lambda ranks: knomial(ranks, 2),
    "binomial_doubling": _binomial_doubling,
    "knomial": lambda ranks: knomial(ranks, RADIX),
    "binary": _heap,
    "binary_levels": _levels,
    "pipeline": lambda ranks: _chains(ranks, 1),
    "chains": lambda ranks: _chains(ranks, CHAINS),
}


# --- messages -------------------------------------------------------------------------------------


def down(
    tree: Tree,
    root: int = 0,
    segments: int = 1,
    share: Float | None = None,
    *,
    together: bool = False,
) -> list[Step]:
    """Return the messages from the root to all, one child after the other and segment by segment.

    Each message has 1 / segments of the vector, or the `share` of its target.  A rank sends a
    segment to its last child in the step in which it receives the next segment.  With `together`, a
    rank sends to all its children in one step.
    """
    width = 1 if together else max((len(children) for children in tree), default=0)
    messages_of_step: dict[int, list[tuple[int, int]]] = {}
    reached = [(root, 0)]
    while reached:
        further = []
        for parent, received in reached:
            for index, child in enumerate(tree[parent]):
                k = 0 if together else index
                further.append((child, received + 1 + k))
                for segment in range(segments):
                    messages_of_step.setdefault(received + k + segment * width, []).append(
                        (parent, child)
                    )
        reached = further
    steps = []
    for number in sorted(messages_of_step):
        source, target = (
            np.array(side, np.int64) for side in zip(*messages_of_step[number], strict=True)
        )
        steps.append(step(source, target, 1.0 / segments if share is None else share[target]))
    return steps


def below(tree: Tree, root: int = 0) -> Float:
    """Return the number of ranks in each rank's subtree, shape (ranks,)."""
    order, count = [root], np.ones(len(tree))
    for rank in order:
        order.extend(tree[rank])
    for rank in reversed(order):
        count[rank] += sum(count[child] for child in tree[rank])
    return count


def linear(ranks: int) -> list[Step]:
    """Return the step in which the root sends to all others at once."""
    return [step(np.zeros(ranks - 1, np.int64), np.arange(1, ranks), 1.0)]


def rooted(algorithm: str, ranks: int, segments: int, *, together: bool = False) -> list[Step]:
    """Return the steps of a broadcast along a tree from rank 0."""
    if algorithm == "linear":
        return [(s, t, share / segments) for s, t, share in linear(ranks) for _ in range(segments)]
    return down(TREES[algorithm](ranks), segments=segments, together=together)


def in_order_reduce(ranks: int, root: int, segments: int) -> list[Step]:
    """Return a reduce to the last rank in the order of ranks, from both children at once, and from
    there to the root if that is another rank.
    """
    up = reversed_steps(down(_in_order(ranks), ranks - 1, segments, together=True))
    return up if root == ranks - 1 else [*up, step([ranks - 1], root, 1.0)]


def split_binary(ranks: int, segments: int) -> list[Step]:
    """Return a broadcast of one half of the vector down each half of a binary tree, after which
    neighbours swap halves.

    Ranks of the left half are odd, those of the right half even.  For an even number of ranks the
    last one gets its second half from the root.
    """
    steps = [(s, t, 0.5 * share) for s, t, share in down(_levels(ranks), segments=segments)]
    left = np.arange(1, ranks - 1, 2)
    pairs = step(np.append(left, left + 1), np.append(left + 1, left), 0.5)
    if ranks % 2 == 0:
        pairs = step(np.append(pairs[0], 0), np.append(pairs[1], ranks - 1), 0.5)
    return [*steps, pairs]
