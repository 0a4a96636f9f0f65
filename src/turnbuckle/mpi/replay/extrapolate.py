"""Extrapolation of a recorded halo exchange to more ranks: each new rank repeats a recorded rank at
a corresponding place.

The process grid is found from the messages.  For one of the ways to number the ranks over a grid
(the last dimension fastest, as MPI_Cart_create does) three conditions hold: every message goes to a
neighbour, every rank has all the neighbours that its place allows, and every rank sends equally
many messages in a direction.  A dimension whose ends exchange messages is a ring; any other is
open.

A larger grid then takes its ranks from the recorded one, dimension by dimension:

    ring   place i repeats recorded place i mod g
    open   the ends repeat the recorded ends, place i between them repeats 1 + (i - 1) mod (g - 2)

The k-th message that a rank sends in a direction meets the k-th that its new neighbour received
from there, with the sender's size. Collectives among all ranks, or among those of a row or a plane,
get as many members as the larger grid has.  Calls, sizes and compute stay as recorded, so this is
weak scaling: more ranks, each with the same work.

A ring of two is an assumption, because both directions lead to the same rank.  Its messages
alternate between both (`Grid.assumed`).

Errors: A094, A170.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.arrays import Int
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.mpi.replay.messages import Memory, Messages, Rounds, Traffic
from turnbuckle.mpi.replay.operation_graph import OperationGraph

#: Largest number of dimensions that are tried.
MOST_DIMENSIONS: Final = 4
#: Largest number of ranks, and of calls and of messages, of an extrapolated run.
MOST_RANKS: Final = 1_000_000
MOST_CALLS: Final = 50_000_000


@dataclass(frozen=True)
class Grid:
    """Process grid of a run.

    Attributes
    ----------
    shape : number of ranks along each dimension; the last one varies fastest.
    periodic : whether the ends of each dimension are neighbours.
    offsets : directions in which ranks send, shape (directions, dimensions), each -1, 0 or 1; on a
        ring of two both directions are 1.
    """

    shape: tuple[int, ...]
    periodic: tuple[bool, ...]
    offsets: Int

    @property
    def assumed(self) -> tuple[int, ...]:
        """Return the dimensions of two ranks that are assumed to be rings, which a recording cannot
        show.
        """
        return tuple(
            i
            for i, (g, ring) in enumerate(zip(self.shape, self.periodic, strict=True))
            if g == 2 and ring
        )

    def __str__(self) -> str:
        ends = ["ring" if ring else "open" for ring in self.periodic]
        return (
            f"{' x '.join(map(str, self.shape))} ranks "
            f"({ends[0] if len(set(ends)) == 1 else ', '.join(ends)})"
        )


def described(grid: Grid, shape: Sequence[int] | None = None) -> str:
    """Describe a grid in one line: its shape, the shape of the larger grid, and the assumptions
    about it.

    >>> described(Grid((4, 2), (True, True), np.zeros((0, 2), dtype=np.int64)), (8, 2))
    'exchange on 4 x 2 ranks (ring), repeated to 8 x 2; the side of 2 is taken for a ring, which no
    recording can tell'
    >>> described(Grid((3, 3), (False, False), np.zeros((0, 2), dtype=np.int64)))
    'exchange on 3 x 3 ranks (open)'
    """
    text = f"exchange on {grid}"
    if shape is not None and tuple(shape) != grid.shape:
        text += f", repeated to {' x '.join(map(str, shape))}"
    if grid.assumed:
        sides = (
            "the side of 2 is taken for a ring"
            if len(grid.assumed) == 1
            else "sides of 2 are taken for rings"
        )
        text += f"; {sides}, which no recording can tell"
    return text


# --- the grid of a recording ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Fit:
    """Fit of one grid: the grid, the numbers of misfits by kind, and a description of the first
    misfit.

    The kinds are messages to ranks that are no neighbours, missing neighbours, and uneven numbers
    of messages.
    """

    grid: Grid
    misfits: tuple[int, int, int]
    what: str


def grid_of(
    traffic: Traffic, shape: Sequence[int] | None = None, periodic: Sequence[bool] | None = None
) -> Grid:
    """Return the process grid on which a run exchanges halos.

    Parameters
    ----------
    shape, periodic : shape and rings where they are known; otherwise the fitting grid with the
        fewest directions is taken.

    Raises A170, with what does not fit on the grid that comes nearest.
    Raises A094, a shape that has not as many ranks, or as many dimensions as `periodic`.
    """
    _answerable(traffic)
    if shape is not None and (
        math.prod(shape) != traffic.ranks
        or min(shape, default=0) < 1
        or len(shape) > 2 * MOST_DIMENSIONS
    ):
        raise _no_size(
            f"{' x '.join(map(str, shape))} for {traffic.ranks:,} recorded ranks",
            "a grid of as many ranks as were recorded",
        )
    if periodic is not None and (shape is None or len(periodic) != len(shape)):
        raise _no_size(
            "open or ring for other dimensions than the grid's",
            "one for each dimension of the shape that is given",
        )
    messages = traffic.messages
    source, target = traffic.rank[messages.send], traffic.rank[messages.receive]
    pairs, count = np.unique(source * traffic.ranks + target, return_counts=True)
    edges = np.stack([pairs // traffic.ranks, pairs % traffic.ranks], axis=1)
    shapes = [tuple(shape)] if shape is not None else list(_factors(traffic.ranks, MOST_DIMENSIONS))
    tried = [_fit(edges, count, candidate, periodic) for candidate in shapes]
    fitting = [t for t in tried if not any(t.misfits)]
    if not fitting:
        nearest = min(tried, key=lambda t: (t.misfits, len(t.grid.shape)))
        raise error_of("A170.grid", found=f"as {nearest.grid}: {nearest.what}")
    return min(
        (t.grid for t in fitting), key=lambda g: (len(g.offsets), len(g.shape), g.shape[::-1])
    )


def _answerable(traffic: Traffic) -> None:
    """Refuse (A170) a run that shows too little: a graph of operations, threads, no messages, or
    mostly unmatched ones.
    """
    matched = 2 * len(traffic.messages.send)
    flaw = ""
    if isinstance(traffic, OperationGraph):
        raise error_of("A170.operations", found="a GOAL schedule")
    if len(traffic.tail_seconds) != traffic.ranks:
        flaw = f"{len(traffic.tail_seconds):,} threads make calls for {traffic.ranks:,} ranks"
    elif not matched:
        flaw = "no messages between ranks" + (
            f", {traffic.unmatched:,} calls have no other side" if traffic.unmatched else ""
        )
    elif traffic.unmatched > matched:
        flaw = f"{traffic.unmatched:,} calls have no other side, {matched:,} have"
    if flaw:
        raise error_of("A170.messages", found=flaw)


def _factors(ranks: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield all ordered factorisations of `ranks` into at most `most` factors from 2."""
    yield (ranks,)
    if most > 1:
        for first in range(2, ranks // 2 + 1):
            if ranks % first == 0:
                for rest in _factors(ranks // first, most - 1):
                    yield (first, *rest)


def _fit(edges: Int, count: Int, shape: tuple[int, ...], periodic: Sequence[bool] | None) -> _Fit:
    """Return how well one shape fits the recorded pairs of ranks and their numbers of messages."""
    size = np.array(shape)
    places = np.stack(np.unravel_index(edges, shape), axis=-1)
    step = places[:, 1] - places[:, 0]
    wraps = (np.abs(step) == size - 1) & (size > 2)
    of_two = size == 2
    ring = wraps.any(axis=0) if periodic is None else np.array(periodic)
    step = np.where(wraps & ring, -np.sign(step), step)
    as_ring = np.where(of_two, np.abs(step), step)
    if periodic is None:
        # A ring of two sends to one rank in both directions, so an odd number of messages shows
        # that the ends are open.
        halves = 1 << (np.abs(as_ring) * of_two).sum(axis=1)
        ring = ring | (of_two & bool((count % halves == 0).all()))
    step = np.where(ring, as_ring, step)
    too_far = (np.abs(step) > 1).any(axis=1)
    rings = tuple(bool(r) for r in ring)
    if too_far.any():
        a, b = edges[np.flatnonzero(too_far)[0]].tolist()
        without_offsets = Grid(shape, rings, np.zeros((0, len(shape)), dtype=np.int64))
        return _Fit(
            without_offsets,
            (int(too_far.sum()), 0, 0),
            f"rank {a} sends to rank {b}, which is no neighbour",
        )
    offsets, direction = np.unique(step, axis=0, return_inverse=True)
    direction = direction.reshape(-1)
    grid = Grid(shape, rings, offsets)
    missing, uneven, what = 0, 0, ""
    for n, offset in enumerate(offsets):
        edges_there = np.flatnonzero(direction == n)
        expected = int(np.prod(np.where(ring, size, size - np.abs(offset))))
        label = "(" + ", ".join(f"{o:+d}" if o else "0" for o in offset.tolist()) + ")"
        if len(edges_there) != expected:
            missing += expected - len(edges_there)
            what = what or (
                f"{expected:,} ranks have a neighbour at {label}, {len(edges_there):,} send to it"
            )
        median_count = int(np.median(count[edges_there]))
        deviating = np.flatnonzero(count[edges_there] != median_count)
        if len(deviating):
            uneven += len(deviating)
            a = int(edges[edges_there[deviating[0]], 0])
            what = what or (
                f"to its neighbour at {label} rank {a} sends "
                f"{int(count[edges_there[deviating[0]]]):,} messages, others {median_count:,}"
            )
    return _Fit(grid, (0, missing, uneven), what)


# --- more ranks -----------------------------------------------------------------------------------


def larger(grid: Grid, ranks: int) -> tuple[int, ...]:
    """Return the shape for so many ranks that keeps the proportions of the recorded one best.

    Raises A094, where no grid of as many dimensions, none of them shorter, has so many ranks.

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
        raise _no_size(
            f"{ranks:,} ranks from {grid}",
            f"a number with {dimensions} factors, none of them below the recorded one",
        )
    return best[1]


def _shapes(ranks: int, least: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield all factorisations of `ranks` into as many factors as `least` has, none below the entry
    of `least`.
    """
    if len(least) == 1:
        if ranks >= least[0]:
            yield (ranks,)
        return
    for first in range(least[0], ranks // math.prod(least[1:]) + 1):
        if ranks % first == 0:
            for rest in _shapes(ranks // first, least[1:]):
                yield (first, *rest)


def repeated(traffic: Traffic, size: int | Sequence[int], grid: Grid | None = None) -> Traffic:
    """Return the traffic of a recorded halo exchange on more ranks.

    Parameters
    ----------
    size : number of ranks, or the shape of their grid; no dimension may be shorter than recorded.
    grid : grid of the recorded run; `grid_of` finds it if left out.

    Returns the traffic of that many ranks: at the recorded size the recorded one.
    `Traffic.seconds` stays that of the recording, and `Traffic.unmatched` grows with the number of
    ranks.

    Raises A170, no grid, collectives among ranks that are no row or plane of it, or a dimension too
    short to know what goes on between its ends.
    Raises A094, a size that cannot be.
    """
    recorded_grid = grid or grid_of(traffic)
    shape = larger(recorded_grid, size) if isinstance(size, int) else tuple(int(n) for n in size)
    copies = _Copies(traffic, recorded_grid, shape)
    messages = copies.messages()
    rounds = tuple(copies.rounds())
    old, new = len(traffic.tail_seconds), math.prod(shape)

    def copied(values: Any, of: Any) -> Any:
        return values[of] if len(values) else values

    return replace(
        traffic,
        ranks=new,
        rank=copies.rank,
        start_seconds=copied(traffic.start_seconds, copies.of),
        gap_seconds=traffic.gap_seconds[copies.of],
        kept_seconds=traffic.kept_seconds[copies.of],
        tail_seconds=traffic.tail_seconds[copies.template],
        call=copied(traffic.call, copies.of),
        messages=messages,
        rounds=rounds,
        unmatched=round(traffic.unmatched * new / old),
        rank_of=np.arange(new) if len(traffic.rank_of) else traffic.rank_of,
        recording=None,
        gpus_of_rank=copied(traffic.gpus_of_rank, copies.template),
    )


def templates(grid: Grid, shape: Sequence[int]) -> Int:
    """Return the recorded rank that each rank of a larger grid repeats, shape (ranks,)."""
    each = _along(grid, shape)
    return np.asarray(np.ravel_multi_index(np.ix_(*each), grid.shape).reshape(-1), dtype=np.int64)


def _along(grid: Grid, shape: Sequence[int]) -> list[Int]:
    """Return the recorded place that each new place repeats, for each dimension."""
    out: list[Int] = []
    for g, h, ring in zip(grid.shape, shape, grid.periodic, strict=True):
        place = np.arange(h)
        if ring or g < 3:
            out.append(place % g)
        else:
            out.append(
                np.where(place == 0, 0, np.where(place == h - 1, g - 1, 1 + (place - 1) % (g - 2)))
            )
    return out


class _Copies:
    """Copies of the recorded ranks' calls in a larger grid."""

    def __init__(self, traffic: Traffic, grid: Grid, shape: tuple[int, ...]) -> None:
        _growable(grid, shape)
        self.traffic, self.grid, self.shape = traffic, grid, shape
        self.template = templates(grid, shape)
        calls = np.bincount(traffic.rank, minlength=traffic.ranks)
        if int(calls[self.template].sum()) > MOST_CALLS:
            raise _no_size(
                f"{int(calls[self.template].sum()):,} calls",
                f"fewer ranks: up to {MOST_CALLS:,} calls are repeated",
            )
        # The calls of the copies are ordered by rank, so the position of a copy follows from its
        # rank and its index there.
        by_rank = np.argsort(traffic.rank, kind="stable")
        self.within = np.empty_like(by_rank)
        self.within[by_rank] = _counted(calls)
        first = np.cumsum(calls) - calls
        many = calls[self.template]
        self.begin = np.cumsum(many) - many
        self.rank = np.repeat(np.arange(len(self.template)), many)
        self.of = by_rank[np.repeat(first[self.template], many) + _counted(many)]

    def call(self, recorded: Int, rank: Int) -> Int:
        """Return the call of each new rank that repeats a recorded call; -1 stays."""
        return np.where(recorded < 0, -1, self.begin[rank] + self.within[recorded])

    def messages(self) -> Messages:
        """Return every recorded message once for each rank that repeats its sender, to the
        neighbour in the same direction.
        """
        traffic, old = self.traffic, self.traffic.messages
        source, target = traffic.rank[old.send], traffic.rank[old.receive]
        offset, turn = self._dealt(source, target)
        direction = ((offset + 1) * 3 ** np.arange(offset.shape[1])).sum(axis=1)
        most = int(turn.max(initial=0)) + 1
        stream = (target * 3 ** offset.shape[1] + direction) * most + turn
        by_stream = np.argsort(stream)
        # The number of copies of a message is the number of new ranks that repeat its sender.
        copies = np.bincount(self.template, minlength=traffic.ranks)
        first = np.cumsum(copies) - copies
        many = copies[source]
        if int(many.sum()) > MOST_CALLS:
            raise _no_size(
                f"{int(many.sum()):,} messages",
                f"fewer ranks: up to {MOST_CALLS:,} messages are repeated",
            )
        m = np.repeat(np.arange(len(source)), many)
        sender = np.argsort(self.template, kind="stable")[first[source[m]] + _counted(many)]
        place = np.stack(np.unravel_index(sender, self.shape), axis=1) + offset[m]
        receiver = np.ravel_multi_index(tuple((place % self.shape).T), self.shape)
        wanted_stream = (
            self.template[receiver] * 3 ** offset.shape[1] + direction[m]
        ) * most + turn[m]
        counterpart = by_stream[np.searchsorted(stream[by_stream], wanted_stream)]
        return replace(
            old,
            send=self.call(old.send[m], sender),
            sent=self.call(old.sent[m], sender),
            receive=self.call(old.receive[counterpart], receiver),
            received=self.call(old.received[counterpart], receiver),
            step=old.step[m],
            size_bytes=old.size_bytes[m],
            ready=old.ready[m] if len(old.ready) else old.ready,
            memory=np.stack([old.memory[m, 0], old.memory[counterpart, 1]], axis=1)
            if len(old.memory)
            else old.memory,
        )

    def _dealt(self, source: Int, target: Int) -> tuple[Int, Int]:
        """Return the direction of each recorded message, shape (messages, dimensions), and its
        index among its sender's messages in that direction.

        Where two directions lead to one rank, the messages alternate between them, the lower
        direction first.
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
            alternating = step[:, i] != 0
            step[:, i] = np.where(alternating, 2 * (turn % 2) - 1, 0)
            turn = np.where(alternating, turn // 2, turn)
        return step, turn

    def rounds(self) -> Iterator[Rounds]:
        """Yield the collectives among all ranks of the larger grid, or among each of its rows or
        planes.
        """
        for collective in self.traffic.rounds:
            members = self.traffic.rank[collective.activity]
            groups, which = np.unique(members, axis=0, return_inverse=True)
            made: dict[tuple[int, int], list[tuple[Int, Int, Int, Int, Memory]]] = {}
            for n, group in enumerate(groups):
                instance = np.flatnonzero(which.reshape(-1) == n)
                slabs, root = self._slabs(group, collective.root)
                for k, ranks in enumerate(slabs):
                    column = np.searchsorted(group, self.template[ranks])
                    activity = self.call(collective.activity[instance][:, column], ranks)
                    begin = (
                        self.call(collective.begin[instance][:, column], ranks)
                        if collective.begin.size
                        else collective.begin
                    )
                    memory = (
                        collective.memory[instance][:, column]
                        if len(collective.memory)
                        else collective.memory
                    )
                    made.setdefault((len(ranks), root), []).append(
                        (instance, np.full(len(instance), k), activity, begin, memory)
                    )
            for (_, head), parts in made.items():
                instance, number = (
                    np.concatenate([p[0] for p in parts]),
                    np.concatenate([p[1] for p in parts]),
                )
                order = np.lexsort([number, instance])
                activity = np.concatenate([p[2] for p in parts])[order]
                begin = (
                    np.concatenate([p[3] for p in parts])[order]
                    if collective.begin.size
                    else collective.begin
                )
                memory = (
                    np.concatenate([p[4] for p in parts])[order]
                    if len(collective.memory)
                    else collective.memory
                )
                block = collective.block_bytes[instance[order]]
                yield replace(
                    collective,
                    block_bytes=block,
                    activity=activity,
                    root=head,
                    begin=begin,
                    memory=memory,
                )

    def _slabs(self, group: Int, root: int) -> tuple[list[Int], int]:
        """Return the ranks of each new row or plane that repeats a recorded one, and the index of
        its root.
        """
        grid, dimensions = self.grid, range(len(self.grid.shape))
        places = np.unravel_index(group, grid.shape)
        spans = [len(np.unique(p)) > 1 for p in places]
        sides = [grid.shape[i] for i in dimensions if spans[i]]
        if math.prod(sides) != len(group) or bool((np.diff(group) <= 0).any()):
            named = ", ".join(map(str, group[:6].tolist())) + (", ..." if len(group) > 6 else "")
            raise error_of("A170.group", found=f"a collective among ranks {named} of {grid}")
        along = _along(grid, self.shape)
        choices = [
            [np.arange(self.shape[i])]
            if spans[i]
            else np.flatnonzero(along[i] == places[i][0])[:, None]
            for i in dimensions
        ]
        slabs = [
            np.asarray(
                np.ravel_multi_index(np.ix_(*combination), self.shape).reshape(-1), dtype=np.int64
            )
            for combination in product(*choices)
        ]
        root_place = np.unravel_index(root if root < len(group) else 0, sides) if sides else ()
        kept = [i for i in dimensions if spans[i]]
        # A root at the far end of an open dimension stays at the far end, elsewhere it keeps its
        # index.
        moved = [
            p if grid.periodic[i] or p < grid.shape[i] - 1 else self.shape[i] - 1
            for p, i in zip(map(int, root_place), kept, strict=True)
        ]
        return slabs, int(np.ravel_multi_index(moved, [self.shape[i] for i in kept])) if kept else 0


def _growable(grid: Grid, shape: tuple[int, ...]) -> None:
    """Refuse a shape that is shorter than the recorded grid or too large (A094), or that grows a
    dimension without inner ranks (A170).
    """
    if (
        len(shape) != len(grid.shape)
        or any(h < g for h, g in zip(shape, grid.shape, strict=False))
        or math.prod(shape) > MOST_RANKS
    ):
        what = f"{' x '.join(map(str, shape))} ranks from {grid}"
        raise _no_size(
            what, f"as many dimensions, none shorter than recorded, and up to {MOST_RANKS:,} ranks"
        )
    for g, h, ring in zip(grid.shape, shape, grid.periodic, strict=True):
        if h > g and (g == 1 or (g == 2 and not ring)):
            raise error_of(
                "A170.dimension", found=f"{g} rank{'s' * (g > 1)} along a dimension that is to grow"
            )


def _counted(many: Int) -> Int:
    """Return the numbers from 0 up to each count, concatenated."""
    return np.asarray(
        np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many), dtype=np.int64
    )


def _no_size(evidence: str, fix: str) -> TurnbuckleError:
    return error_of("A094", found=evidence, fix=fix)
