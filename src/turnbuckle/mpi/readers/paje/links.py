"""Ends of links of a Paje trace: in which call each is, and which two are one message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnbuckle.mpi.readers.paje.blocks import KEY_WORDS
from turnbuckle.mpi.readers.paje.calls import Calls
from turnbuckle.mpi.readers.paje.events import Events
from turnbuckle.trace.readers.parts.text_numbers import Int, Mask


@dataclass
class Links:
    """Ends of links, in the order of the file.

    Attributes
    ----------
    event : of each.
    starts : whether it is where the link begins.
    place, size, tag : of each; only where a link begins it has a size.
    call : in which it is; -1 outside calls.
    live : whether it is of a message of the program's own; those of collectives are none.
    """

    event: Int
    starts: Mask
    place: NDArray[Any]
    size: Int
    tag: Int
    call: Int
    live: Mask

    def which(self, sorts: Mask, starts: bool) -> Int:
        """Live ends in calls of some sorts: of each call whether it is such."""
        inside = np.append(sorts, False)[self.call]
        return np.flatnonzero(self.live & inside & (self.starts == starts))

    def turn(self, which: Int) -> Int:
        """The how manieth each of some ends is in its call."""
        order = np.argsort(self.call[which], kind="stable")
        call = self.call[which][order]
        begins = np.flatnonzero(np.diff(call, prepend=-2))
        out = np.empty(len(which), dtype=np.int64)
        out[order] = np.arange(len(which)) - np.repeat(begins, np.diff(begins, append=len(which)))
        return out


def links(events: Events, calls: Calls, collective: Mask) -> Links:
    """All ends of links; `collective` says which calls are."""
    event, starts, place, size, call = (calls.links[name] for name in ("event", "starts", "place", "size", "call"))
    tag = events.links["tag"]
    live = (tag >= 0) & ~np.append(collective, False)[call]
    return Links(event, starts == 1, place, size, tag, call, live)


@dataclass
class Pairs:
    """Messages: the ends where each begins and where it ends, ends left over, and events whose line cannot be."""

    start: Int
    end: Int
    under_way: int
    twice: Int
    twice_ends: Mask


def pairs(events: Events, links: Links) -> Pairs:
    """Ends with one key are one message."""
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
    # one that begins and one that ends, in either order
    two = first[counts == 2]
    a, b = order[two], order[np.minimum(two + 1, len(order) - 1)]
    plain = links.live[a] & links.live[b] & (links.starts[a] != links.starts[b])
    a, b = a[plain], b[plain]
    start, end = np.where(links.starts[a], a, b), np.where(links.starts[a], b, a)
    alone = order[first[counts == 1]]
    under_way = int(links.live[alone].sum())
    done = np.zeros(len(order), dtype=bool)
    done[a] = done[b] = done[alone] = True
    met, left, twice = _one_by_one(links, order, first, counts, done)
    more = np.array(met, dtype=np.int64).reshape(-1, 2)
    bad = np.array(sorted(twice), dtype=np.int64)
    start, end = np.concatenate([start, more[:, 0]]), np.concatenate([end, more[:, 1]])
    return Pairs(start, end, under_way + left, links.event[bad], ~links.starts[bad])


def _grouped(words: list[NDArray[np.uint64]], mixed: NDArray[np.uint64], order: Int) -> bool:
    """Whether those of one mixed word have one key."""
    same = np.flatnonzero(mixed[order[1:]] == mixed[order[:-1]])
    return all((word[order[same]] == word[order[same + 1]]).all() for word in words)


def _one_by_one(links: Links, order: Int, first: Int, counts: Int, done: Mask) -> tuple[list[tuple[int, int]], int, list[int]]:
    """Keys that are used again: what meets, how many ends are left, and which come while one like them is open."""
    met: list[tuple[int, int]] = []
    twice: list[int] = []
    left = 0
    rest = ~done[order[first]]
    for begin, count in zip(first[rest].tolist(), counts[rest].tolist(), strict=True):
        open_start = open_end = -1
        for at in order[begin : begin + count].tolist():
            if not links.live[at]:
                open_start = open_start if links.starts[at] else -1
            elif links.starts[at]:
                if open_end >= 0:
                    met.append((at, open_end))
                    open_end = -1
                elif open_start >= 0:
                    twice.append(at)
                else:
                    open_start = at
            elif open_start >= 0:
                met.append((open_start, at))
                open_start = -1
            elif open_end >= 0:
                twice.append(at)
            else:
                open_end = at
        left += (open_start >= 0) + (open_end >= 0)
    return met, left, twice
