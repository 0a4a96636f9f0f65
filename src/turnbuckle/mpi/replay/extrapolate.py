"""A recorded halo exchange repeated to more ranks, each doing what a recorded rank at a place like its own did.

The process grid is found, not asked for: for one of the ways to number the ranks over a grid (the last dimension fastest, as
MPI_Cart_create does) every message goes to a neighbour, every rank has all the neighbours that its place allows, and sends as
many messages in a direction as any other.  Along a dimension whose ends exchange messages the grid is a ring, else it is open.

A larger grid then takes its ranks from the recorded one, dimension by dimension:

    ring   place i does what recorded place i mod g did
    open   the ends do what the ends did, place i between them what 1 + (i - 1) mod (g - 2) did

The k-th message that a rank sends in a direction meets the k-th that its new neighbour received from there, with the size that the
sender gave it.  Collectives among all ranks, or among those of a row or a plane, get as many members as there are then.  Calls,
sizes and compute stay as recorded, so this is weak scaling: more ranks, each with as much to do.

A ring of two is a guess: both directions lead to the same rank.  Its messages are dealt to both in turn (`Grid.assumed`).

Errors:

    A094  a size that is no larger grid of the same dimensions, or beyond what is repeated
    A170  the recorded run is no halo exchange on a grid: with what does not fit
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.errors import CannotAnswer, UsageError
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic
from turnbuckle.mpi.replay.operation_graph import OperationGraph

Int = NDArray[np.int64]

#: Dimensions of a grid that are tried.
MOST_DIMENSIONS: Final = 4
#: Ranks, and calls and messages each, of what is repeated.
MOST_RANKS: Final = 1_000_000
MOST_CALLS: Final = 50_000_000


@dataclass(frozen=True)
class Grid:
    """The process grid of a run.

    Attributes
    ----------
    shape : ranks along each dimension, the last one counted fastest.
    periodic : whether the ends of each dimension are neighbours.
    offsets : to whom a rank sends, shape (directions, dimensions), each -1, 0 or 1; along a ring of two both ways are 1.
    """

    shape: tuple[int, ...]
    periodic: tuple[bool, ...]
    offsets: Int

    @property
    def assumed(self) -> tuple[int, ...]:
        """Dimensions of two ranks that are taken as rings: a recording cannot tell, and they are repeated as if it had."""
        return tuple(i for i, (g, ring) in enumerate(zip(self.shape, self.periodic, strict=True)) if g == 2 and ring)

    def __str__(self) -> str:
        ends = ["ring" if ring else "open" for ring in self.periodic]
        return f"{' x '.join(map(str, self.shape))} ranks ({ends[0] if len(set(ends)) == 1 else ', '.join(ends)})"


def described(grid: Grid, shape: Sequence[int] | None = None) -> str:
    """A grid in one line: what was found, what it is repeated to, and what a recording cannot tell and is assumed.

    >>> described(Grid((4, 2), (True, True), np.zeros((0, 2), dtype=np.int64)), (8, 2))
    'exchange on 4 x 2 ranks (ring), repeated to 8 x 2; the side of 2 is taken for a ring, which no recording can tell'
    >>> described(Grid((3, 3), (False, False), np.zeros((0, 2), dtype=np.int64)))
    'exchange on 3 x 3 ranks (open)'
    """
    text = f"exchange on {grid}"
    if shape is not None and tuple(shape) != grid.shape:
        text += f", repeated to {' x '.join(map(str, shape))}"
    if grid.assumed:
        sides = "the side of 2 is taken for a ring" if len(grid.assumed) == 1 else "sides of 2 are taken for rings"
        text += f"; {sides}, which no recording can tell"
    return text


# --- the grid of a recording ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tried:
    """How well one grid fits: directions as in `Grid.offsets` of each edge, and the first thing that does not, by kind and number."""

    grid: Grid
    misfits: tuple[int, int, int]
    what: str


def grid_of(traffic: Traffic, shape: Sequence[int] | None = None, periodic: Sequence[bool] | None = None) -> Grid:
    """The process grid on which a run exchanges halos.

    Parameters
    ----------
    shape, periodic : where they are known; found otherwise, of all that fit the one with the fewest directions.

    Raises
    ------
    CannotAnswer : A170, with what does not fit on the grid that comes nearest.
    UsageError : A094, a shape that has not as many ranks, or as many dimensions as `periodic`.
    """
    _answerable(traffic)
    if shape is not None and (math.prod(shape) != traffic.ranks or min(shape, default=0) < 1 or len(shape) > 2 * MOST_DIMENSIONS):
        raise _no_size(f"{' x '.join(map(str, shape))} for {traffic.ranks:,} recorded ranks", "a grid of as many ranks as were recorded")
    if periodic is not None and (shape is None or len(periodic) != len(shape)):
        raise _no_size("open or ring for other dimensions than the grid's", "one for each dimension of the shape that is given")
    messages = traffic.messages
    source, target = traffic.rank[messages.send], traffic.rank[messages.receive]
    pairs, count = np.unique(source * traffic.ranks + target, return_counts=True)
    edges = np.stack([pairs // traffic.ranks, pairs % traffic.ranks], axis=1)
    shapes = [tuple(shape)] if shape is not None else list(_factors(traffic.ranks, MOST_DIMENSIONS))
    tried = [_fit(edges, count, one, periodic) for one in shapes]
    fitting = [t for t in tried if not any(t.misfits)]
    if not fitting:
        nearest = min(tried, key=lambda t: (t.misfits, len(t.grid.shape)))
        raise CannotAnswer(
            "A170", "this run is no exchange between neighbours on a grid", found=f"as {nearest.grid}: {nearest.what}",
            cause="only runs whose ranks all send alike to their neighbours are repeated", fix="record it at the size that is asked for",
        )  # fmt: skip
    return min((t.grid for t in fitting), key=lambda g: (len(g.offsets), len(g.shape), g.shape[::-1]))


def _answerable(traffic: Traffic) -> None:
    """Refuse what shows too little: threads, no messages, most of them unmatched."""
    matched = 2 * len(traffic.messages.send)
    found = ""
    if isinstance(traffic, OperationGraph):
        raise CannotAnswer(
            "A170", "a graph of operations cannot be repeated to more ranks", found="a GOAL schedule",
            cause="its operations are no calls in order", fix="write the schedule for as many ranks as are asked for",
        )  # fmt: skip
    if len(traffic.tail_seconds) != traffic.ranks:
        found = f"{len(traffic.tail_seconds):,} threads make calls for {traffic.ranks:,} ranks"
    elif not matched:
        found = "no messages between ranks" + (f", {traffic.unmatched:,} calls have no other side" if traffic.unmatched else "")
    elif traffic.unmatched > matched:
        found = f"{traffic.unmatched:,} calls have no other side, {matched:,} have"
    if found:
        fix = "record it with a tool that records every message, such as Score-P"
        raise CannotAnswer("A170", "this run cannot be repeated to more ranks", found=found, fix=fix)


def _factors(ranks: int, most: int) -> Iterator[tuple[int, ...]]:
    """All ordered ways to write `ranks` as a product of up to `most` factors from 2."""
    yield (ranks,)
    if most > 1:
        for first in range(2, ranks // 2 + 1):
            if ranks % first == 0:
                for rest in _factors(ranks // first, most - 1):
                    yield (first, *rest)


def _fit(edges: Int, count: Int, shape: tuple[int, ...], periodic: Sequence[bool] | None) -> _Tried:
    """Try one shape on who sends to whom, how often."""
    size = np.array(shape)
    places = np.stack(np.unravel_index(edges, shape), axis=-1)
    step = places[:, 1] - places[:, 0]
    wraps = (np.abs(step) == size - 1) & (size > 2)
    two = size == 2
    ring = wraps.any(axis=0) if periodic is None else np.array(periodic)
    step = np.where(wraps & ring, -np.sign(step), step)
    as_ring = np.where(two, np.abs(step), step)
    if periodic is None:
        # two directions to one rank carry an even number of messages; else the ends are open
        halves = 1 << (np.abs(as_ring) * two).sum(axis=1)
        ring = ring | (two & bool((count % halves == 0).all()))
    step = np.where(ring, as_ring, step)
    far = (np.abs(step) > 1).any(axis=1)
    held = tuple(bool(r) for r in ring)
    if far.any():
        a, b = edges[np.flatnonzero(far)[0]].tolist()
        nowhere = Grid(shape, held, np.zeros((0, len(shape)), dtype=np.int64))
        return _Tried(nowhere, (int(far.sum()), 0, 0), f"rank {a} sends to rank {b}, which is no neighbour")
    offsets, kind = np.unique(step, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    grid = Grid(shape, held, offsets)
    missing, uneven, what = 0, 0, ""
    for n, offset in enumerate(offsets):
        mine = np.flatnonzero(kind == n)
        wanted = int(np.prod(np.where(ring, size, size - np.abs(offset))))
        named = "(" + ", ".join(f"{o:+d}" if o else "0" for o in offset.tolist()) + ")"
        if len(mine) != wanted:
            missing += wanted - len(mine)
            what = what or f"{wanted:,} ranks have a neighbour at {named}, {len(mine):,} send to it"
        usual = int(np.median(count[mine]))
        odd = np.flatnonzero(count[mine] != usual)
        if len(odd):
            uneven += len(odd)
            a = int(edges[mine[odd[0]], 0])
            what = what or f"to its neighbour at {named} rank {a} sends {int(count[mine[odd[0]]]):,} messages, others {usual:,}"
    return _Tried(grid, (0, missing, uneven), what)


# --- more ranks -------------------------------------------------------------------------------------------------------


def larger(grid: Grid, ranks: int) -> tuple[int, ...]:
    """The shape for so many ranks that keeps the proportions of the recorded one best.

    Raises
    ------
    UsageError : A094, where no grid of as many dimensions, none of them shorter, has so many ranks.

    >>> larger(Grid((3, 3), (True, True), np.zeros((0, 2), dtype=np.int64)), 24)
    (4, 6)
    """
    if not 1 <= ranks <= MOST_RANKS:
        raise _no_size(f"{ranks:,} ranks", f"as many ranks as were recorded, up to {MOST_RANKS:,}")
    dimensions = len(grid.shape)
    best: tuple[float, tuple[int, ...]] | None = None
    for shape in _shapes(ranks, grid.shape):
        factors = [h / g for h, g in zip(shape, grid.shape, strict=True)]
        score = (max(factors) / min(factors), shape)
        best = score if best is None or score < best else best
    if best is None:
        raise _no_size(f"{ranks:,} ranks from {grid}", f"a number with {dimensions} factors, none of them below the recorded one")
    return best[1]


def _shapes(ranks: int, least: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if len(least) == 1:
        if ranks >= least[0]:
            yield (ranks,)
        return
    for first in range(least[0], ranks // math.prod(least[1:]) + 1):
        if ranks % first == 0:
            for rest in _shapes(ranks // first, least[1:]):
                yield (first, *rest)


def repeated(traffic: Traffic, size: int | Sequence[int], grid: Grid | None = None) -> Traffic:
    """A recorded halo exchange on more ranks.

    Parameters
    ----------
    size : how many ranks, or the shape of their grid, no dimension shorter than recorded.
    grid : as `grid_of` finds it, if left out.

    Returns
    -------
    The traffic of that many ranks; at the recorded size the recorded one.  `Traffic.seconds` stays that of the recording,
    and `Traffic.unmatched` grows with the number of ranks.

    Raises
    ------
    CannotAnswer : A170, no grid, collectives among ranks that are no row or plane of it, or a dimension too short to know what goes on
        between its ends.
    UsageError : A094, a size that cannot be.
    """
    found = grid or grid_of(traffic)
    shape = larger(found, size) if isinstance(size, int) else tuple(int(n) for n in size)
    copies = _Copies(traffic, found, shape)
    messages = copies.messages()
    rounds = tuple(copies.rounds())
    whole, new = len(traffic.tail_seconds), math.prod(shape)
    return replace(
        traffic, ranks=new, rank=copies.rank,
        start_seconds=traffic.start_seconds[copies.of] if len(traffic.start_seconds) else traffic.start_seconds,
        gap_seconds=traffic.gap_seconds[copies.of], kept_seconds=traffic.kept_seconds[copies.of],
        tail_seconds=traffic.tail_seconds[copies.template], call=traffic.call[copies.of] if len(traffic.call) else traffic.call,
        messages=messages, rounds=rounds, unmatched=round(traffic.unmatched * new / whole),
        rank_of=np.arange(new) if len(traffic.rank_of) else traffic.rank_of,
    )  # fmt: skip


def templates(grid: Grid, shape: Sequence[int]) -> Int:
    """The recorded rank that each rank of a larger grid does as, shape (ranks,)."""
    each = _along(grid, shape)
    return np.asarray(np.ravel_multi_index(np.ix_(*each), grid.shape).reshape(-1), dtype=np.int64)


def _along(grid: Grid, shape: Sequence[int]) -> list[Int]:
    """For each dimension, the recorded place of every new one."""
    out: list[Int] = []
    for g, h, ring in zip(grid.shape, shape, grid.periodic, strict=True):
        place = np.arange(h)
        if ring or g < 3:
            out.append(place % g)
        else:
            out.append(np.where(place == 0, 0, np.where(place == h - 1, g - 1, 1 + (place - 1) % (g - 2))))
    return out


class _Copies:
    """Where the calls of recorded ranks go in a larger grid."""

    def __init__(self, traffic: Traffic, grid: Grid, shape: tuple[int, ...]) -> None:
        _growable(grid, shape)
        self.traffic, self.grid, self.shape = traffic, grid, shape
        self.template = templates(grid, shape)
        calls = np.bincount(traffic.rank, minlength=traffic.ranks)
        if int(calls[self.template].sum()) > MOST_CALLS:
            raise _no_size(f"{int(calls[self.template].sum()):,} calls", f"fewer ranks: up to {MOST_CALLS:,} calls are repeated")
        # calls stand rank by rank, as they were recorded
        by_rank = np.argsort(traffic.rank, kind="stable")
        self.within = np.empty_like(by_rank)
        self.within[by_rank] = _counted(calls)
        first = np.cumsum(calls) - calls
        many = calls[self.template]
        self.begin = np.cumsum(many) - many
        self.rank = np.repeat(np.arange(len(self.template)), many)
        self.of = by_rank[np.repeat(first[self.template], many) + _counted(many)]

    def call(self, recorded: Int, rank: Int) -> Int:
        """The call of a new rank that repeats a recorded one; -1 stays."""
        return np.where(recorded < 0, -1, self.begin[rank] + self.within[recorded])

    def messages(self) -> Messages:
        """Every recorded message from each rank that repeats its sender, to whoever stands in that direction now."""
        traffic, old = self.traffic, self.traffic.messages
        source, target = traffic.rank[old.send], traffic.rank[old.receive]
        offset, turn = self._dealt(source, target)
        way = ((offset + 1) * 3 ** np.arange(offset.shape[1])).sum(axis=1)
        most = int(turn.max(initial=0)) + 1
        stream = (target * 3 ** offset.shape[1] + way) * most + turn
        by_stream = np.argsort(stream)
        # each message, once for every new rank that repeats its sender
        copies = np.bincount(self.template, minlength=traffic.ranks)
        first = np.cumsum(copies) - copies
        many = copies[source]
        if int(many.sum()) > MOST_CALLS:
            raise _no_size(f"{int(many.sum()):,} messages", f"fewer ranks: up to {MOST_CALLS:,} messages are repeated")
        m = np.repeat(np.arange(len(source)), many)
        sender = np.argsort(self.template, kind="stable")[first[source[m]] + _counted(many)]
        place = np.stack(np.unravel_index(sender, self.shape), axis=1) + offset[m]
        receiver = np.ravel_multi_index(tuple((place % self.shape).T), self.shape)
        wanted = (self.template[receiver] * 3 ** offset.shape[1] + way[m]) * most + turn[m]
        at = by_stream[np.searchsorted(stream[by_stream], wanted)]
        return replace(
            old, send=self.call(old.send[m], sender), sent=self.call(old.sent[m], sender), receive=self.call(old.receive[at], receiver),
            received=self.call(old.received[at], receiver), step=old.step[m], size_bytes=old.size_bytes[m],
            ready=old.ready[m] if len(old.ready) else old.ready,
        )  # fmt: skip

    def _dealt(self, source: Int, target: Int) -> tuple[Int, Int]:
        """Direction of each recorded message, shape (messages, dimensions), and how many went that way from its sender before it.

        Where two directions lead to one rank they take turns, the lower one first.
        """
        shape, ring = np.array(self.grid.shape), np.array(self.grid.periodic)
        places = [np.stack(np.unravel_index(r, self.grid.shape), axis=1) for r in (source, target)]
        step = places[1] - places[0]
        step = np.where(ring & (np.abs(step) == shape - 1) & (shape > 2), -np.sign(step), step)
        send = self.traffic.messages.send
        order = np.lexsort((np.arange(len(send)), send, target, source))
        pair = (source * self.traffic.ranks + target)[order]
        new = np.flatnonzero(np.append(True, pair[1:] != pair[:-1]))
        turn = np.empty_like(send)
        turn[order] = np.arange(len(send)) - np.repeat(new, np.diff(np.append(new, len(send))))
        for i in np.flatnonzero(ring & (shape == 2)).tolist():
            both = step[:, i] != 0
            step[:, i] = np.where(both, 2 * (turn % 2) - 1, 0)
            turn = np.where(both, turn // 2, turn)
        return step, turn

    def rounds(self) -> Iterator[Rounds]:
        """Collectives among all ranks of the larger grid, or of each of its rows or planes."""
        for one in self.traffic.rounds:
            members = self.traffic.rank[one.activity]
            groups, which = np.unique(members, axis=0, return_inverse=True)
            made: dict[tuple[int, int], list[tuple[Int, Int, Int, Int]]] = {}
            for n, group in enumerate(groups):
                instance = np.flatnonzero(which.reshape(-1) == n)
                slabs, root = self._slabs(group, one.root)
                for k, ranks in enumerate(slabs):
                    column = np.searchsorted(group, self.template[ranks])
                    activity = self.call(one.activity[instance][:, column], ranks)
                    begin = self.call(one.begin[instance][:, column], ranks) if one.begin.size else one.begin
                    made.setdefault((len(ranks), root), []).append((instance, np.full(len(instance), k), activity, begin))
            for (_, head), parts in made.items():
                instance, number = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
                order = np.lexsort([number, instance])
                activity = np.concatenate([p[2] for p in parts])[order]
                begin = np.concatenate([p[3] for p in parts])[order] if one.begin.size else one.begin
                yield replace(one, block_bytes=one.block_bytes[instance[order]], activity=activity, root=head, begin=begin)

    def _slabs(self, group: Int, root: int) -> tuple[list[Int], int]:
        """Ranks of each new row or plane that repeats a recorded one, and its root in it."""
        grid, dimensions = self.grid, range(len(self.grid.shape))
        places = np.unravel_index(group, grid.shape)
        spans = [len(np.unique(p)) > 1 for p in places]
        sides = [grid.shape[i] for i in dimensions if spans[i]]
        if math.prod(sides) != len(group) or bool((np.diff(group) <= 0).any()):
            named = ", ".join(map(str, group[:6].tolist())) + (", ..." if len(group) > 6 else "")
            raise CannotAnswer(
                "A170", "this run cannot be repeated to more ranks", found=f"a collective among ranks {named} of {grid}",
                cause="they are no row, plane or whole of the grid, in the order of its ranks",
                fix="record it at the size that is asked for",
            )  # fmt: skip
        along = _along(grid, self.shape)
        choices = [[np.arange(self.shape[i])] if spans[i] else np.flatnonzero(along[i] == places[i][0])[:, None] for i in dimensions]
        slabs = [np.asarray(np.ravel_multi_index(np.ix_(*one), self.shape).reshape(-1), dtype=np.int64) for one in product(*choices)]
        at = np.unravel_index(root if root < len(group) else 0, sides) if sides else ()
        kept = [i for i in dimensions if spans[i]]
        # the root keeps its place from the nearer end of an open dimension
        moved = [p if grid.periodic[i] or p < grid.shape[i] - 1 else self.shape[i] - 1 for p, i in zip(map(int, at), kept, strict=True)]
        return slabs, int(np.ravel_multi_index(moved, [self.shape[i] for i in kept])) if kept else 0


def _growable(grid: Grid, shape: tuple[int, ...]) -> None:
    if len(shape) != len(grid.shape) or any(h < g for h, g in zip(shape, grid.shape, strict=False)) or math.prod(shape) > MOST_RANKS:
        what = f"{' x '.join(map(str, shape))} ranks from {grid}"
        raise _no_size(what, f"as many dimensions, none shorter than recorded, and up to {MOST_RANKS:,} ranks")
    for g, h, ring in zip(grid.shape, shape, grid.periodic, strict=True):
        if h > g and (g == 1 or (g == 2 and not ring)):
            raise CannotAnswer(
                "A170", "this run cannot be repeated to more ranks", found=f"{g} rank{'s' * (g > 1)} along a dimension that is to grow",
                cause="no recorded rank stands between its ends", fix="record it with three ranks or more along that dimension",
            )  # fmt: skip


def _counted(many: Int) -> Int:
    """0, 1, ... up to each number, one after the other."""
    return np.asarray(np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many), dtype=np.int64)


def _no_size(found: str, fix: str) -> UsageError:
    return UsageError("A094", "the run cannot be repeated to that size", found=found, fix=fix)
