"""Matching of the sends and receives of a schedule: the k-th send of a stream (source, target, tag)
matches its k-th receive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Int, turns
from turnbuckle.foundation.errors import error_of

#: Any source, any tag.
ANY: Final = -1


@dataclass(frozen=True)
class Side:
    """One side of all messages, in the order of each rank's operations; arrays of shape
    (operations,).
    """

    #: source, target: ranks at both ends; `ANY` for a receive from any source
    source: Int
    target: Int
    tag: Int  #: tag of the message; `ANY` for a receive of any tag
    line: Int


@dataclass(frozen=True)
class Matched:
    """Pairs of sends and receives."""

    #: send, receive: index of each message's send and receive, shape (messages,), ascending by send
    send: Int
    receive: Int
    lone_sends: Int
    lone_receives: Int


def match(sends: Side, receives: Side) -> Matched:
    """Match sends with receives.

    A receive from any source or of any tag is matched only where a single stream can feed all such
    receives, and no other receive takes from that stream: in all other cases the order of arrival
    in a run decides, and there is no run yet.

    >>> zero, one = np.array([0]), np.array([1])
    >>> m = match(Side(zero, one, zero, zero), Side(np.array([ANY]), one, np.array([ANY]), zero))
    >>> m.send.tolist(), m.receive.tolist()
    ([0], [0])
    """
    receives = _resolved(sends, receives)
    pair = _joint(
        np.append(sends.source, receives.source), np.append(sends.target, receives.target)
    )
    key = _joint(pair, np.append(sends.tag, receives.tag))
    send_stream, receive_stream = key[: len(sends.source)], key[len(sends.source) :].copy()
    # A receive that is still open matches nothing.
    receive_stream[(receives.source == ANY) | (receives.tag == ANY)] = -1
    # A message is identified by its stream and its number in the stream.
    numbered = [
        stream * np.int64(1 + max(len(send_stream), len(receive_stream))) + turns(stream)
        for stream in (send_stream, receive_stream)
    ]
    _, send, receive = np.intersect1d(
        numbered[0], np.where(receive_stream < 0, -1, numbered[1]), return_indices=True
    )
    order = np.argsort(send, kind="stable")
    lone = [
        np.setdiff1d(np.arange(len(side)), met)
        for side, met in ((send_stream, send), (receive_stream, receive))
    ]
    return Matched(send[order].astype(np.int64), receive[order].astype(np.int64), lone[0], lone[1])


def _joint(first: Int, second: Int) -> Int:
    """Return one number for each distinct pair."""
    a, b = (
        np.unique(column, return_inverse=True)[1].astype(np.int64) for column in (first, second)
    )
    return np.asarray(
        np.unique(a * (int(b.max(initial=0)) + 1) + b, return_inverse=True)[1], dtype=np.int64
    )


def _resolved(sends: Side, receives: Side) -> Side:
    """Return the receives with the source and tag of the only stream that can feed them."""
    wild = (receives.source == ANY) | (receives.tag == ANY)
    if not wild.any():
        return receives
    source, tag = receives.source.copy(), receives.tag.copy()
    exact = {
        (s, t, g)
        for s, t, g in zip(
            source[~wild].tolist(),
            receives.target[~wild].tolist(),
            tag[~wild].tolist(),
            strict=True,
        )
    }
    spare: dict[int, set[tuple[int, int]]] = {}
    for s, t, g in zip(
        sends.source.tolist(), sends.target.tolist(), sends.tag.tolist(), strict=True
    ):
        spare.setdefault(t, set()).add((s, g))
    receives_of: dict[tuple[int, int, int], list[int]] = {}
    for i in np.flatnonzero(wild).tolist():
        receives_of.setdefault((int(receives.target[i]), int(source[i]), int(tag[i])), []).append(i)
    fits = {
        (t, s, g): [
            stream for stream in spare.get(t, ()) if s in (ANY, stream[0]) and g in (ANY, stream[1])
        ]
        for t, s, g in receives_of
    }
    demand: dict[tuple[int, int, int], int] = {}
    for (t, _, _), streams in fits.items():
        for s, g in streams:
            demand[s, t, g] = demand.get((s, t, g), 0) + 1
    for pattern, indices in receives_of.items():
        streams = fits[pattern]
        if len(streams) == 1:
            (s, g), t = streams[0], pattern[0]
            if demand[s, t, g] == 1 and (s, t, g) not in exact:
                source[indices], tag[indices] = s, g
    return Side(source, receives.target, tag, receives.line)


def refuse_lone(matched: Matched, receives: Side, where: str) -> None:
    """Refuse (A078) receives without a send: they would wait forever, or a run would have to choose
    their message.
    """
    if not len(matched.lone_receives):
        return
    first = int(matched.lone_receives[0])
    wild = bool(receives.source[first] == ANY or receives.tag[first] == ANY)
    sender = "any rank" if receives.source[first] == ANY else f"rank {receives.source[first]}"
    tag = "any tag" if receives.tag[first] == ANY else f"tag {receives.tag[first]}"
    raise error_of(
        "A078.several" if wild else "A078.none",
        where=where,
        found=(
            f"{len(matched.lone_receives):,}; first: rank {receives.target[first]}, line "
            f"{receives.line[first]}, from {sender}, {tag}"
        ),
    )
