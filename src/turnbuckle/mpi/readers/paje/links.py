"""Ends of links of a Paje trace: the call that contains each, and their pairing into messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int, turns
from turnbuckle.mpi.readers.paje.blocks import KEY_WORDS
from turnbuckle.mpi.readers.paje.calls import Calls
from turnbuckle.mpi.readers.paje.events import Events


@dataclass
class Links:
    """Ends of links in the order of the file."""

    event: Int
    starts: Bool
    #: place, size, tag: container, size and tag of each end; only the begin of a link has a size
    place: NDArray[Any]
    size: Int
    tag: Int
    call: Int  #: call that contains the end; -1 outside calls
    #: whether the end belongs to a message that the program itself sends, not to one inside a
    #: collective
    live: Bool

    def which(self, sorts: Bool, starts: bool) -> Int:
        """Return the live ends of the given direction inside calls that `sorts`, a mask over calls,
        selects.
        """
        inside = np.append(sorts, False)[self.call]
        return np.flatnonzero(self.live & inside & (self.starts == starts))

    def turn(self, ends: Int) -> Int:
        """Return the index of each of the given ends among those of its call."""
        return turns(self.call[ends])


def links(events: Events, calls: Calls, collective: Bool) -> Links:
    """Return all ends of links; `collective` is a mask of the collective calls."""
    event, starts, place, size, call = (
        calls.links[name] for name in ("event", "starts", "place", "size", "call")
    )
    tag = events.links["tag"]
    live = (tag >= 0) & ~np.append(collective, False)[call]
    return Links(event, starts == 1, place, size, tag, call, live)


@dataclass
class Pairs:
    """Messages as pairs of link ends: begins and ends, the number of ends left over, the events of
    duplicate ends, and whether those end a link.
    """

    start: Int
    end: Int
    under_way: int
    twice: Int
    twice_ends: Bool


def pairs(events: Events, links: Links) -> Pairs:
    """Pair the ends of links that have the same key into messages."""
    words = [events.links[f"key{place}"] for place in range(KEY_WORDS)]
    mixed = words[0].copy()
    for word in words[1:]:
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= (mixed >> np.uint64(29)) ^ word
    order = np.argsort(mixed, kind="stable")
    if not _grouped(words, mixed, order):
        order = np.lexsort(tuple(words))
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = np.logical_or.reduce([word[order[1:]] != word[order[:-1]] for word in words])
    first = np.flatnonzero(begins)
    counts = np.diff(first, append=len(order))
    # A key that occurs twice is a message where one end begins and the other ends, in either order.
    twice_first = first[counts == 2]
    a, b = order[twice_first], order[np.minimum(twice_first + 1, len(order) - 1)]
    plain = links.live[a] & links.live[b] & (links.starts[a] != links.starts[b])
    a, b = a[plain], b[plain]
    start, end = np.where(links.starts[a], a, b), np.where(links.starts[a], b, a)
    single = order[first[counts == 1]]
    under_way = int(links.live[single].sum())
    done = np.zeros(len(order), dtype=bool)
    done[a] = done[b] = done[single] = True
    repeated, left, twice = _one_by_one(links, order, first, counts, done)
    repeated_pairs = np.array(repeated, dtype=np.int64).reshape(-1, 2)
    bad = np.array(sorted(twice), dtype=np.int64)
    start, end = (
        np.concatenate([start, repeated_pairs[:, 0]]),
        np.concatenate([end, repeated_pairs[:, 1]]),
    )
    return Pairs(start, end, under_way + left, links.event[bad], ~links.starts[bad])


def _grouped(words: list[NDArray[np.uint64]], mixed: NDArray[np.uint64], order: Int) -> bool:
    """Return whether all ends with the same hash have the same key."""
    neighbours = np.flatnonzero(mixed[order[1:]] == mixed[order[:-1]])
    return all((word[order[neighbours]] == word[order[neighbours + 1]]).all() for word in words)


def _one_by_one(
    links: Links, order: Int, first: Int, counts: Int, done: Bool
) -> tuple[list[tuple[int, int]], int, list[int]]:
    """Pair the ends of keys that are used several times, in the order of the file.

    Returns the pairs, the number of ends left over, and the ends that come while the same kind of
    end is open.
    """
    paired: list[tuple[int, int]] = []
    twice: list[int] = []
    left = 0
    rest = ~done[order[first]]
    for begin, count in zip(first[rest].tolist(), counts[rest].tolist(), strict=True):
        open_start = open_end = -1
        for end in order[begin : begin + count].tolist():
            if not links.live[end]:
                open_start = open_start if links.starts[end] else -1
            elif links.starts[end]:
                if open_end >= 0:
                    paired.append((end, open_end))
                    open_end = -1
                elif open_start >= 0:
                    twice.append(end)
                else:
                    open_start = end
            elif open_start >= 0:
                paired.append((open_start, end))
                open_start = -1
            elif open_end >= 0:
                twice.append(end)
            else:
                open_end = end
        left += (open_start >= 0) + (open_end >= 0)
    return paired, left, twice
