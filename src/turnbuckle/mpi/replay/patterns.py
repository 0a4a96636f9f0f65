"""Declared synthetic patterns: who sends how much to whom, step by step, where no recording is to be had.

A pattern says what an application's messages are like, as far as somebody has printed it; what is not printed is an
assumption with a name.  It is no recording, and every answer that rests on one says so (`LABEL`).

========  =============================================================================================================
halo      every rank of a grid sends to each neighbour and waits for all of them: 4 faces in the plane, 8 with corners, 6 faces
          in space, 26 with edges and corners
sweep     a wave over a grid from each of its corners in turn: a rank waits for its neighbours towards that corner, computes, and
          sends to those away from it
pingpong  two ranks send a message there and back
========  =============================================================================================================

Errors:

    A093  a pattern that cannot be: sizes, exchanges, shares, a grid
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.errors import UsageError
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Form = Literal["halo", "sweep", "pingpong"]
Order = Literal["at once", "one by one"]

#: What an answer from a pattern is called.
LABEL: Final = "declared synthetic pattern"
MOST_RANKS: Final = 1_000_000
MOST_MESSAGES: Final = 50_000_000
#: Spreads ranks evenly over an interval, without a random number: the golden ratio's fractional part.
_EVENLY: Final = 0.6180339887498949


@dataclass(frozen=True)
class Pattern:
    """What the messages of an application are like.

    Attributes
    ----------
    form : halo, sweep or pingpong.
    dimensions : of the grid that the ranks stand on, as nearly cubic as their number allows.
    sizes : of the messages of an exchange to each neighbour, exchange after exchange, around [B].
    exchanges : of a halo; blocks that a wave of a sweep is cut into; times there and back.
    periodic : whether the ends of each dimension are neighbours (halo).
    corners : whether those across edges and corners are (halo).
    order : of a halo: all messages at once, or one direction after the other (MPI_Sendrecv).
    sum_bytes : of the allreduce after each exchange or wave; None for none [B].
    compute_seconds : before each exchange, or for each block [s].
    imbalance : the longest compute of a rank over the mean, less 1; ranks are spread evenly below and above it.
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
    """The most nearly cubic grid of so many ranks, longest side first.

    >>> balanced(32, 2), balanced(216, 3)
    ((8, 4), (6, 6, 6))
    """
    best: tuple[int, ...] = (ranks,) + (1,) * (dimensions - 1)
    for shape in _falling(ranks, dimensions, ranks):
        if shape < best:
            best = shape
    return best


def _falling(ranks: int, dimensions: int, most: int) -> Iterator[tuple[int, ...]]:
    """Factors that do not grow."""
    if dimensions == 1:
        if ranks <= most:
            yield (ranks,)
        return
    for first in range(min(ranks, most), 0, -1):
        if ranks % first == 0 and first**dimensions >= ranks:
            for rest in _falling(ranks // first, dimensions - 1, first):
                yield (first, *rest)


def neighbours(shape: Sequence[int], *, periodic: bool = False, corners: bool = False) -> Int:
    """To whom every rank sends in each direction, shape (directions, ranks); -1 for nobody.

    >>> neighbours((3,)).tolist()
    [[-1, 0, 1], [1, 2, -1]]
    """
    ranks = math.prod(shape)
    place = np.stack(np.unravel_index(np.arange(ranks), tuple(shape)), axis=1)
    ways = [w for w in itertools.product((-1, 0, 1), repeat=len(shape)) if any(w) and (corners or sum(map(abs, w)) == 1)]
    out = np.full((len(ways), ranks), -1)
    for n, way in enumerate(ways):
        to = place + np.array(way)
        inside = ((to >= 0) & (to < np.array(shape))).all(axis=1) | periodic
        out[n, inside] = np.ravel_multi_index(tuple((to[inside] % np.array(shape)).T), tuple(shape))
    # nobody is its own neighbour
    out[out == np.arange(ranks)] = -1
    return out


def traffic_of(pattern: Pattern, ranks: int, shape: Sequence[int] | None = None) -> Traffic:
    """The traffic of a pattern on so many ranks.

    Parameters
    ----------
    shape : of the grid; the most nearly cubic one if left out.

    Raises
    ------
    UsageError : A093 (see the module).
    """
    _sound(pattern, ranks, shape)
    grid = tuple(shape) if shape is not None else balanced(ranks, pattern.dimensions)
    rank, gap, messages, sums = _FORMS[pattern.form](pattern, grid)
    rounds: tuple[Rounds, ...] = ()
    if pattern.sum_bytes is not None:
        rounds = (Rounds("allreduce", np.full(len(sums), float(pattern.sum_bytes)), sums, 0),)
    spread = 1.0 + 2.0 * pattern.imbalance * ((np.arange(ranks) + 0.5) * _EVENLY % 1.0 - 0.5)
    return Traffic(ranks, rank, gap * spread[rank], np.zeros(len(rank)), np.zeros(ranks), messages, rounds, 0.0, 0)


def _sound(pattern: Pattern, ranks: int, shape: Sequence[int] | None) -> None:
    """Refuse, by name, what cannot be."""
    numbers = (*pattern.sizes, pattern.compute_seconds, pattern.sum_bytes or 0.0)
    found = ""
    if not 1 <= ranks <= MOST_RANKS:
        found = f"{ranks:,} ranks"
    elif not 1 <= pattern.dimensions <= 4 or (shape is not None and (math.prod(shape) != ranks or len(shape) != pattern.dimensions)):
        found = f"{ranks:,} ranks on a grid of {' x '.join(map(str, shape)) if shape is not None else f'{pattern.dimensions} dimensions'}"
    elif pattern.form == "pingpong" and (ranks != 2 or pattern.sum_bytes is not None):
        found = f"a ping-pong of {ranks:,} ranks" + (" with sums" if pattern.sum_bytes is not None else "")
    elif not pattern.sizes or not all(math.isfinite(n) and n >= 0 for n in numbers):
        found = "no sizes, or a size or time that is negative or none"
    elif not 0 <= pattern.imbalance <= 1:
        found = f"an imbalance of {pattern.imbalance:g}"
    elif pattern.exchanges < 1 or pattern.exchanges * ranks * 3**pattern.dimensions > MOST_MESSAGES:
        found = f"{pattern.exchanges:,} exchanges of {ranks:,} ranks"
    if found:
        fix = f"1 to {MOST_RANKS:,} ranks, sizes and times from 0, an imbalance of 0 to 1, up to {MOST_MESSAGES:,} messages"
        raise UsageError("A093", "no such pattern of messages", found=found, fix=fix)


def _halo(pattern: Pattern, grid: tuple[int, ...]) -> tuple[Int, Float, Messages, Int]:
    """An exchange is one call of each rank, or one for each direction; then the sum, where there is one."""
    to = neighbours(grid, periodic=pattern.periodic, corners=pattern.corners)
    ways, ranks = to.shape
    steps = 1 if pattern.order == "at once" else ways
    calls = steps + (pattern.sum_bytes is not None)
    turns = np.arange(pattern.exchanges)
    first = (np.arange(ranks) * len(turns))[:, None] * calls + turns * calls
    way, source = np.nonzero(to >= 0)
    target = to[way, source]
    # one direction after the other: send that way while what comes from the other side is awaited, as all do
    step = np.zeros(len(way), dtype=np.int64) if steps == 1 else way
    size = np.resize(np.array(pattern.sizes, dtype=np.float64), len(turns))
    send, receive = ((first[who] + step[:, None]).T.reshape(-1) for who in (source, target))
    messages = Messages(send, send, receive, receive, np.full(len(send), -1), np.repeat(size, len(way)))
    gap = np.zeros((ranks * len(turns), calls))
    gap[:, 0] = pattern.compute_seconds
    sums = first.T + steps
    return np.repeat(np.arange(ranks), len(turns) * calls), gap.reshape(-1), messages, sums


def _sweep(pattern: Pattern, grid: tuple[int, ...]) -> tuple[Int, Float, Messages, Int]:
    """A block is two calls: await what comes from before, and after computing send to what comes next."""
    corners = list(itertools.product((1, -1), repeat=len(grid)))
    ranks, blocks = math.prod(grid), pattern.exchanges
    calls = len(corners) * blocks * 2 + len(corners) * (pattern.sum_bytes is not None)
    wave = calls // len(corners)
    place = np.stack(np.unravel_index(np.arange(ranks), grid), axis=1)
    size = np.resize(np.array(pattern.sizes, dtype=np.float64), blocks)
    parts: list[tuple[Int, Int, Float]] = []
    for n, corner in enumerate(corners):
        for axis, way in enumerate(corner):
            to = place.copy()
            to[:, axis] += way
            source = np.flatnonzero((to[:, axis] >= 0) & (to[:, axis] < grid[axis]))
            target = np.ravel_multi_index(tuple(to[source].T), grid)
            at = n * wave + 2 * np.arange(blocks)[:, None]
            parts.append(((source * calls + at + 1).reshape(-1), (target * calls + at).reshape(-1), np.repeat(size, len(source))))
    send, receive = (np.concatenate([p[k] for p in parts]).astype(np.int64) for k in (0, 1))
    messages = Messages(send, send, receive, receive, np.full(len(send), -1), np.concatenate([p[2] for p in parts]))
    gap = np.zeros((ranks, len(corners), wave))
    gap[:, :, 1 : 2 * blocks : 2] = pattern.compute_seconds
    sums = (
        (np.arange(ranks) * calls + (np.arange(len(corners))[:, None] + 1) * wave - 1)
        if pattern.sum_bytes is not None
        else np.zeros((0, ranks))
    )
    return np.repeat(np.arange(ranks), calls), gap.reshape(-1), messages, sums.astype(np.int64)


def _pingpong(pattern: Pattern, grid: tuple[int, ...]) -> tuple[Int, Float, Messages, Int]:
    """There is one call of each rank, back is one more."""
    turns = np.arange(pattern.exchanges)
    size = np.repeat(np.resize(np.array(pattern.sizes, dtype=np.float64), len(turns)), 2)
    ends = np.stack([2 * turns, 2 * turns + 1], axis=1).reshape(-1)
    other = ends + 2 * len(turns)
    there = ends % 2 == 0
    send, receive = np.where(there, ends, other), np.where(there, other, ends)
    messages = Messages(send, send, receive, receive, np.full(len(send), -1), size)
    gap = np.zeros(4 * len(turns))
    gap[: 2 * len(turns) : 2] = pattern.compute_seconds
    return np.repeat(np.arange(2), 2 * len(turns)), gap, messages, np.zeros((0, 2), dtype=np.int64)


_FORMS: Final = {"halo": _halo, "sweep": _sweep, "pingpong": _pingpong}


def spread_sizes(bands: Sequence[tuple[float, float, float]], messages: int, within: float = 0.5) -> tuple[float, ...]:
    """Sizes of so many messages, of which each band has its share, dealt so that the bands alternate [B].

    Parameters
    ----------
    bands : (share, smallest, largest) of each; shares of 1 in all, sizes [B].
    within : where in a band its messages lie: 0 its smallest size, 1 its largest, between them on a logarithmic scale.

    >>> spread_sizes([(0.5, 64.0, 64.0), (0.5, 100.0, 400.0)], 4)
    (64.0, 200.0, 64.0, 200.0)
    """
    whole = sum(share for share, _, _ in bands)
    size = [low if low == high else low ** (1 - within) * high**within for _, low, high in bands]
    owed = [0.0] * len(bands)
    out = []
    for _ in range(messages):
        # whose share is most behind goes next
        owed = [o + share / whole for o, (share, _, _) in zip(owed, bands, strict=True)]
        n = max(range(len(bands)), key=lambda k: owed[k])
        owed[n] -= 1.0
        out.append(size[n])
    return tuple(out)
