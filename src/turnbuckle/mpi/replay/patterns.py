"""Declared synthetic patterns, for applications without a recording: the messages from rank to
rank, step by step.

A pattern states what an application's messages are like, as far as a publication says so; what is
not published is a named assumption.  A pattern is no recording, and every answer that rests on one
says so (`LABEL`).

========  =============================================================================================================
halo      every rank of a grid sends to each neighbour and waits for all of them: 4 faces in the plane, 8 with corners, 6 faces
          in space, 26 with edges and corners
sweep     a wave over a grid from each of its corners in turn: a rank waits for its neighbours towards that corner, computes, and
          sends to those away from it
pingpong  two ranks send a message there and back
========  =============================================================================================================

Errors: A093.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic

Form = Literal["halo", "sweep", "pingpong"]
Order = Literal["at once", "one by one"]

#: Label of every answer that rests on a pattern.
LABEL: Final = "declared synthetic pattern"
MOST_RANKS: Final = 1_000_000
MOST_MESSAGES: Final = 50_000_000
#: The golden ratio's fractional part, which spreads ranks evenly over an interval without random
#: numbers.
_EVENLY: Final = 0.6180339887498949


@dataclass(frozen=True)
class Pattern:
    """Description of the messages of an application.

    Attributes
    ----------
    form : halo, sweep or pingpong.
    dimensions : dimensions of the grid of ranks, which is as nearly cubic as the number of ranks
        allows.
    sizes : size of the messages to each neighbour in each exchange; the list is repeated as often
        as needed [B].
    exchanges : number of exchanges of a halo, of blocks in each wave of a sweep, or of round trips
        of a ping-pong.
    periodic : whether the ends of each dimension are neighbours (halo).
    corners : whether ranks across edges and corners are neighbours (halo).
    order : whether a halo sends all messages at once, or one direction after the other
        (MPI_Sendrecv).
    sum_bytes : size of the allreduce after each exchange or wave; None for no allreduce [B].
    compute_seconds : compute before each exchange, or for each block [s].
    imbalance : the longest compute of a rank over the mean, less 1; ranks are spread evenly below
        and above the mean.
    """

    form: Form
    dimensions: int
    sizes: tuple[float, ...]
    exchanges: int
    periodic: bool = False
    corners: bool = False
    order: Order = "at once"
    sum_bytes: float | None = None
    compute_seconds: float = 0.0
    imbalance: float = 0.0


def balanced(ranks: int, dimensions: int) -> tuple[int, ...]:
    """Return the most nearly cubic grid of so many ranks, longest side first.

    >>> balanced(32, 2), balanced(216, 3)
    ((8, 4), (6, 6, 6))
    """
    best: tuple[int, ...] = (ranks,) + (1,) * (dimensions - 1)
    for shape in _falling(ranks, dimensions, ranks):
        if shape < best:
            best = shape
    return best


def _falling(ranks: int, dimensions: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield the factorisations of `ranks` whose factors never grow, with no factor above `most`."""
    if dimensions == 1:
        if ranks <= most:
            yield (ranks,)
        return
    for first in range(min(ranks, most), 0, -1):
        if ranks % first == 0 and first**dimensions >= ranks:
            for rest in _falling(ranks // first, dimensions - 1, first):
                yield (first, *rest)


def neighbours(shape: Sequence[int], *, periodic: bool = False, corners: bool = False) -> Int:
    """Return the rank to which every rank sends in each direction, shape (directions, ranks); -1
    where there is none.

    >>> neighbours((3,)).tolist()
    [[-1, 0, 1], [1, 2, -1]]
    """
    ranks = math.prod(shape)
    place = np.stack(np.unravel_index(np.arange(ranks), tuple(shape)), axis=1)
    directions = [
        offset
        for offset in itertools.product((-1, 0, 1), repeat=len(shape))
        if any(offset) and (corners or sum(map(abs, offset)) == 1)
    ]
    out = np.full((len(directions), ranks), -1)
    for index, direction in enumerate(directions):
        target = place + np.array(direction)
        inside = ((target >= 0) & (target < np.array(shape))).all(axis=1) | periodic
        out[index, inside] = np.ravel_multi_index(
            tuple((target[inside] % np.array(shape)).T), tuple(shape)
        )
    # A message to oneself is no exchange, although on a ring of one rank the neighbour is the rank
    # itself.
    out[out == np.arange(ranks)] = -1
    return out


def traffic_of(pattern: Pattern, ranks: int, shape: Sequence[int] | None = None) -> Traffic:
    """Return the traffic of a pattern on so many ranks.

    Parameters
    ----------
    shape : shape of the grid; the most nearly cubic one if left out.

    Raises A093.
    """
    _sound(pattern, ranks, shape)
    grid = tuple(shape) if shape is not None else balanced(ranks, pattern.dimensions)
    rank, gap, messages, sums = _FORMS[pattern.form](pattern, grid)
    rounds: tuple[Rounds, ...] = ()
    if pattern.sum_bytes is not None:
        rounds = (Rounds("allreduce", np.full(len(sums), float(pattern.sum_bytes)), sums, 0),)
    spread = 1.0 + 2.0 * pattern.imbalance * ((np.arange(ranks) + 0.5) * _EVENLY % 1.0 - 0.5)
    return Traffic(
        ranks,
        rank,
        gap * spread[rank],
        np.zeros(len(rank)),
        np.zeros(ranks),
        messages,
        rounds,
        0.0,
        0,
    )


def _sound(pattern: Pattern, ranks: int, shape: Sequence[int] | None) -> None:
    """Refuse (A093) a pattern with impossible parameters."""
    numbers = (*pattern.sizes, pattern.compute_seconds, pattern.sum_bytes or 0.0)
    flaw = ""
    if not 1 <= ranks <= MOST_RANKS:
        flaw = f"{ranks:,} ranks"
    elif not 1 <= pattern.dimensions <= 4 or (
        shape is not None and (math.prod(shape) != ranks or len(shape) != pattern.dimensions)
    ):
        flaw = (
            f"{ranks:,} ranks on a grid of "
            f"{' x '.join(map(str, shape)) if shape is not None else f'{pattern.dimensions} dimensions'}"
        )
    elif pattern.form == "pingpong" and (ranks != 2 or pattern.sum_bytes is not None):
        flaw = f"a ping-pong of {ranks:,} ranks" + (
            " with sums" if pattern.sum_bytes is not None else ""
        )
    elif not pattern.sizes or not all(math.isfinite(n) and n >= 0 for n in numbers):
        flaw = "no sizes, or a size or time that is negative or none"
    elif not 0 <= pattern.imbalance <= 1:
        flaw = f"an imbalance of {pattern.imbalance:g}"
    elif pattern.exchanges < 1 or pattern.exchanges * ranks * 3**pattern.dimensions > MOST_MESSAGES:
        flaw = f"{pattern.exchanges:,} exchanges of {ranks:,} ranks"
    if flaw:
        raise error_of(
            "A093.numbers", found=flaw, most_ranks=MOST_RANKS, most_messages=MOST_MESSAGES
        )


def _halo(pattern: Pattern, grid: tuple[int, ...]) -> tuple[Int, Float, Messages, Int]:
    """Return the activities of a halo exchange: one call per exchange and rank, or one for each
    direction; then the sum, if there is one.
    """
    to = neighbours(grid, periodic=pattern.periodic, corners=pattern.corners)
    directions, ranks = to.shape
    steps = 1 if pattern.order == "at once" else directions
    calls = steps + (pattern.sum_bytes is not None)
    turns = np.arange(pattern.exchanges)
    first = (np.arange(ranks) * len(turns))[:, None] * calls + turns * calls
    direction, source = np.nonzero(to >= 0)
    target = to[direction, source]
    # In direction order all ranks send in one direction at a time, and receive from the opposite
    # one.
    step = np.zeros(len(direction), dtype=np.int64) if steps == 1 else direction
    size = np.resize(np.array(pattern.sizes, dtype=np.float64), len(turns))
    send, receive = ((first[end] + step[:, None]).T.reshape(-1) for end in (source, target))
    messages = Messages(
        send, send, receive, receive, np.full(len(send), -1), np.repeat(size, len(direction))
    )
    gap = np.zeros((ranks * len(turns), calls))
    gap[:, 0] = pattern.compute_seconds
    sums = first.T + steps
    return np.repeat(np.arange(ranks), len(turns) * calls), gap.reshape(-1), messages, sums


def _sweep(pattern: Pattern, grid: tuple[int, ...]) -> tuple[Int, Float, Messages, Int]:
    """Return the activities of a sweep: for each block, one call that awaits the messages from
    upstream, and after computing one that sends downstream.
    """
    corners = list(itertools.product((1, -1), repeat=len(grid)))
    ranks, blocks = math.prod(grid), pattern.exchanges
    calls = len(corners) * blocks * 2 + len(corners) * (pattern.sum_bytes is not None)
    wave = calls // len(corners)
    place = np.stack(np.unravel_index(np.arange(ranks), grid), axis=1)
    size = np.resize(np.array(pattern.sizes, dtype=np.float64), blocks)
    parts: list[tuple[Int, Int, Float]] = []
    for n, corner in enumerate(corners):
        for axis, direction in enumerate(corner):
            to = place.copy()
            to[:, axis] += direction
            source = np.flatnonzero((to[:, axis] >= 0) & (to[:, axis] < grid[axis]))
            target = np.ravel_multi_index(tuple(to[source].T), grid)
            call_index = n * wave + 2 * np.arange(blocks)[:, None]
            parts.append(
                (
                    (source * calls + call_index + 1).reshape(-1),
                    (target * calls + call_index).reshape(-1),
                    np.repeat(size, len(source)),
                )
            )
    send, receive = (np.concatenate([p[k] for p in parts]).astype(np.int64) for k in (0, 1))
    messages = Messages(
        send, send, receive, receive, np.full(len(send), -1), np.concatenate([p[2] for p in parts])
    )
    gap = np.zeros((ranks, len(corners), wave))
    gap[:, :, 1 : 2 * blocks : 2] = pattern.compute_seconds
    sums = (
        (np.arange(ranks) * calls + (np.arange(len(corners))[:, None] + 1) * wave - 1)
        if pattern.sum_bytes is not None
        else np.zeros((0, ranks))
    )
    return np.repeat(np.arange(ranks), calls), gap.reshape(-1), messages, sums.astype(np.int64)


def _pingpong(pattern: Pattern, grid: tuple[int, ...]) -> tuple[Int, Float, Messages, Int]:
    """Return the activities of a ping-pong: each message is one call of each rank."""
    turns = np.arange(pattern.exchanges)
    size = np.repeat(np.resize(np.array(pattern.sizes, dtype=np.float64), len(turns)), 2)
    ends = np.stack([2 * turns, 2 * turns + 1], axis=1).reshape(-1)
    other = ends + 2 * len(turns)
    outward = ends % 2 == 0
    send, receive = np.where(outward, ends, other), np.where(outward, other, ends)
    messages = Messages(send, send, receive, receive, np.full(len(send), -1), size)
    gap = np.zeros(4 * len(turns))
    gap[: 2 * len(turns) : 2] = pattern.compute_seconds
    return np.repeat(np.arange(2), 2 * len(turns)), gap, messages, np.zeros((0, 2), dtype=np.int64)


_FORMS: Final = {"halo": _halo, "sweep": _sweep, "pingpong": _pingpong}


def spread_sizes(
    bands: Sequence[tuple[float, float, float]], messages: int, within: float = 0.5
) -> tuple[float, ...]:
    """Return the sizes of so many messages, dealt so that each band has its share and the bands
    alternate [B].

    Parameters
    ----------
    bands : (share, smallest size, largest size) of each band; sizes [B].  Shares are relative to
        their sum.
    within : position of the messages' size in their band: 0 the smallest size, 1 the largest, on a
        logarithmic scale between them.

    >>> spread_sizes([(0.5, 64.0, 64.0), (0.5, 100.0, 400.0)], 4)
    (64.0, 200.0, 64.0, 200.0)
    """
    whole = sum(share for share, _, _ in bands)
    size = [low if low == high else low ** (1 - within) * high**within for _, low, high in bands]
    owed = [0.0] * len(bands)
    out = []
    for _ in range(messages):
        # The band whose share is furthest behind goes next.
        owed = [o + share / whole for o, (share, _, _) in zip(owed, bands, strict=True)]
        n = max(range(len(bands)), key=lambda k: owed[k])
        owed[n] -= 1.0
        out.append(size[n])
    return tuple(out)
