"""Sends and receives of a schedule brought together: the k-th send of a stream (source, target, tag) meets its k-th receive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.errors import UsageError

Int = NDArray[np.int64]
#: Any source, any tag.
ANY: Final = -1


@dataclass(frozen=True)
class Side:
    """One side of messages, in the order in which each rank does them; arrays of shape (operations,).

    Attributes
    ----------
    source, target : ranks; `ANY` for a receive from any source.
    tag : `ANY` for a receive of any tag.
    line : of the file.
    """

    source: Int
    target: Int
    tag: Int
    line: Int


@dataclass(frozen=True)
class Matched:
    """Which send is received by which receive.

    Attributes
    ----------
    send, receive : places on either side, shape (messages,), ascending by send.
    lone_sends, lone_receives : places that have no other side.
    """

    send: Int
    receive: Int
    lone_sends: Int
    lone_receives: Int


def match(sends: Side, receives: Side) -> Matched:
    """Bring both sides together.

    A receive from any source or of any tag is told only where a single stream can feed all receives alike, and nothing else takes
    from that stream: what comes first is decided by a run, and this is before one.

    >>> one = np.array([0]); two = np.array([1])
    >>> m = match(Side(one, two, one, one), Side(np.array([ANY]), two, np.array([ANY]), one))
    >>> m.send.tolist(), m.receive.tolist()
    ([0], [0])
    """
    receives = _told(sends, receives)
    pair = _joint(np.append(sends.source, receives.source), np.append(sends.target, receives.target))
    key = _joint(pair, np.append(sends.tag, receives.tag))
    mine, theirs = key[: len(sends.source)], key[len(sends.source) :].copy()
    # what is still open meets nothing
    theirs[(receives.source == ANY) | (receives.tag == ANY)] = -1
    # (stream, number in it) of each side
    numbered = [stream * np.int64(1 + max(len(mine), len(theirs))) + _number(stream) for stream in (mine, theirs)]
    _, send, receive = np.intersect1d(numbered[0], np.where(theirs < 0, -1, numbered[1]), return_indices=True)
    order = np.argsort(send, kind="stable")
    lone = [np.setdiff1d(np.arange(len(side)), met) for side, met in ((mine, send), (theirs, receive))]
    return Matched(send[order].astype(np.int64), receive[order].astype(np.int64), lone[0], lone[1])


def _joint(first: Int, second: Int) -> Int:
    """One number for each two."""
    a, b = (np.unique(column, return_inverse=True)[1].astype(np.int64) for column in (first, second))
    return np.asarray(np.unique(a * (int(b.max(initial=0)) + 1) + b, return_inverse=True)[1], dtype=np.int64)


def _number(stream: Int) -> Int:
    """How many of the same stream came before each."""
    order = np.argsort(stream, kind="stable")
    ordered = stream[order]
    new = np.ones(len(stream), dtype=np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    place = np.arange(len(stream))
    out = np.empty(len(stream), dtype=np.int64)
    out[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    return out


def _told(sends: Side, receives: Side) -> Side:
    """Receives with the source and tag of the only stream that can feed them."""
    wild = (receives.source == ANY) | (receives.tag == ANY)
    if not wild.any():
        return receives
    source, tag = receives.source.copy(), receives.tag.copy()
    exact = {(s, t, g) for s, t, g in zip(source[~wild].tolist(), receives.target[~wild].tolist(), tag[~wild].tolist(), strict=True)}
    spare: dict[int, set[tuple[int, int]]] = {}
    for s, t, g in zip(sends.source.tolist(), sends.target.tolist(), sends.tag.tolist(), strict=True):
        spare.setdefault(t, set()).add((s, g))
    asked: dict[tuple[int, int, int], list[int]] = {}
    for i in np.flatnonzero(wild).tolist():
        asked.setdefault((int(receives.target[i]), int(source[i]), int(tag[i])), []).append(i)
    fits = {
        (t, s, g): [one for one in spare.get(t, ()) if s in (ANY, one[0]) and g in (ANY, one[1])] for t, s, g in asked
    }  # fmt: skip
    wanted: dict[tuple[int, int, int], int] = {}
    for (t, _, _), streams in fits.items():
        for s, g in streams:
            wanted[s, t, g] = wanted.get((s, t, g), 0) + 1
    for pattern, places in asked.items():
        streams = fits[pattern]
        if len(streams) == 1:
            (s, g), t = streams[0], pattern[0]
            if wanted[s, t, g] == 1 and (s, t, g) not in exact:
                source[places], tag[places] = s, g
    return Side(source, receives.target, tag, receives.line)


def refuse_lone(found: Matched, receives: Side, where: str) -> None:
    """Raise A078 where a receive has no send: it would be waited for without end, or a run would have to choose its message."""
    if not len(found.lone_receives):
        return
    first = int(found.lone_receives[0])
    wild = bool(receives.source[first] == ANY or receives.tag[first] == ANY)
    from_whom = "any rank" if receives.source[first] == ANY else f"rank {receives.source[first]}"
    tag = "any tag" if receives.tag[first] == ANY else f"tag {receives.tag[first]}"
    raise UsageError(
        "A078", "receives whose message the schedule does not tell", where=where,
        found=f"{len(found.lone_receives):,}; first: rank {receives.target[first]}, line {receives.line[first]}, from {from_whom}, {tag}",
        cause="several senders could be meant; which one comes first is up to a run" if wild else "nothing is sent to it",
        fix="give each such receive a source and a tag" if wild else "look for the send, or whether the file is cut off",
    )  # fmt: skip
