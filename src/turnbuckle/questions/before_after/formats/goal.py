"""A run as a GOAL schedule, the input of LogGOPSim: ``calc``, ``send`` and ``recv`` of each rank,
and what requires what.

    Steps -> operations on processors -> text

Every activity of the run is on the processor of its track.  What lasts but keeps no track busy (the
delivery of a launch, the return from a wait) is on processors of its own, as many as are needed for
what lasts at once; instants at which several waits come together last nothing, and are on processor
0 with the messages.  So no operation waits for a processor, and a replay with messages that cost
nothing ends every instant at its nanosecond.  Where one rank waits for another, that is a message:
of its recorded size where it is an MPI message, else of one byte.  What an exchange took is a
``calc`` after it, so that costs of a network come on top.

Labels stand before the dependencies that name them, as LogGOPSim's txt2bin needs it.

Errors:

    A480  a rank needs more processors than the format numbers

Format: Hoefler, Siebert and Lumsdaine, *Group Operation Assembly Language*, ICPP 2009; grammar of
LogGOPSim's ``txt2bin.re``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import BinaryIO, Final

import numpy as np

from turnbuckle.foundation.arrays import Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.profile.dependencies.graph import EDGE
from turnbuckle.questions.before_after.formats.steps import Steps
from turnbuckle.show.text import clean

#: Processors of a rank that the format can number.
_MOST: Final = 256
#: Kinds of edges whose lag keeps the track of the activity busy that they lead to.
BUSY: Final = ("run", "call", "host", "fault")
#: Track of what keeps no track busy.
_NO_TRACK: Final = -1


@dataclass
class _Rank:
    """Operations of one rank: text, and the dependencies between them."""

    lines: list[str] = field(default_factory=list)
    requires: list[str] = field(default_factory=list)


@dataclass
class _Lasting:
    """Operations that last: rank, label, duration [ns], begin [ns], and the track that they keep
    busy.
    """

    rows: list[tuple[int, str, int, int, int]] = field(default_factory=list)


def stream(steps: Steps, sink: BinaryIO) -> None:
    """Write the schedule.  Raises A480."""
    for line in lines(steps):
        sink.write(line.encode("ascii") + b"\n")


def lines(steps: Steps) -> Iterator[str]:
    """Yield the lines of the schedule.  Raises A480."""
    ranks = [_Rank() for _ in range(steps.ranks)]
    lasting = _Lasting()
    _waits(steps, ranks, lasting)
    _instants(steps, ranks, lasting)
    processors = _processors(steps, lasting)
    for (rank, label, duration, _, _), cpu in zip(lasting.rows, processors.cpu, strict=True):
        ranks[rank].lines.append(f"{label}: calc {duration} cpu {cpu}")
    projected = f", projected on {clean(steps.projected_on, 120)}" if steps.projected_on else ""
    yield (
        f"// turnbuckle {version('turnbuckle')}, run time {steps.run_time_ns} ns where messages "
        f"cost nothing{projected}"
    )
    yield f"num_ranks {steps.ranks}"
    for number, operations in enumerate(ranks):
        yield f"// rank {number}: cpu 0 instants and messages{processors.named[number]}"
        yield f"rank {number} {{"
        yield from operations.lines
        yield from operations.requires
        yield "}"


def _label(instant: int) -> str:
    return f"v{instant}"


def _alone(steps: Steps) -> Int:
    """Return the edge that is all an instant waits for, where it is of its own rank; -1 for
    others.
    """
    graph = steps.graph
    held = np.flatnonzero(~steps.idle)
    out: Int = np.full(len(steps.time_ns), -1, dtype=np.int64)
    out[graph.target[held]] = held
    if not len(graph.kind):
        return out
    out[(steps.waits != 1) | steps.crosses[np.maximum(out, 0)]] = -1
    return out


def _waits(steps: Steps, ranks: list[_Rank], lasting: _Lasting) -> None:
    """Add the edges that come together with others, or from another rank."""
    graph = steps.graph
    shared = ~steps.idle & (_alone(steps)[graph.target] < 0)
    tags: dict[tuple[int, int], int] = {}
    busy, track = _busy(steps), _track(steps)
    edges = np.flatnonzero(shared)
    columns = (
        graph.source,
        graph.target,
        graph.lag_ns,
        steps.crosses,
        steps.message_bytes,
        graph.kind == EDGE["meet"],
    )
    for edge, source, target, lag, crosses, size, meets in zip(
        edges.tolist(), *(c[edges].tolist() for c in columns), strict=True
    ):
        rank, giver, before = (
            int(steps.rank_of_instant[target]),
            int(steps.rank_of_instant[source]),
            _label(source) if source else "",
        )
        begin = int(steps.time_ns[source])
        if crosses:
            tag = tags[giver, rank] = tags.get((giver, rank), -1) + 1
            ranks[giver].lines.append(f"s{edge}: send {size}b to {rank} tag {tag} cpu 0")
            ranks[giver].requires.append(f"s{edge} requires {before}")
            ranks[rank].lines.append(f"r{edge}: recv {size}b from {giver} tag {tag} cpu 0")
            if meets:
                # a receive is posted when its call begins, or that of the other side of a
                # collective
                ranks[rank].requires.append(f"r{edge} requires {_label(target - 1)}")
                begin = max(begin, int(steps.time_ns[target - 1]))
            before = f"r{edge}"
        if lag:
            lasting.rows.append(
                (rank, f"e{edge}", lag, begin, track[target] if busy[edge] else _NO_TRACK)
            )
            if before:
                ranks[rank].requires.append(f"e{edge} requires {before}")
            before = f"e{edge}"
        ranks[rank].requires.append(f"{_label(target)} requires {before}")


def _instants(steps: Steps, ranks: list[_Rank], lasting: _Lasting) -> None:
    """Add the instants: each lasts what no edge explains, and what the only edge to it does."""
    graph, alone = steps.graph, _alone(steps)
    busy, track = _busy(steps), _track(steps)
    edge_ns = np.where(alone >= 0, graph.lag_ns[np.maximum(alone, 0)], 0) if len(graph.kind) else 0
    lasts = graph.residual_ns + edge_ns
    columns = (steps.rank_of_instant, alone, lasts, steps.time_ns - lasts)
    for instant, (rank, edge, duration, begin) in enumerate(
        zip(*(c.tolist() for c in columns), strict=True)
    ):
        label = _label(instant)
        if not instant:
            continue
        if edge >= 0 and graph.source[edge]:
            ranks[rank].requires.append(f"{label} requires {_label(int(graph.source[edge]))}")
        if duration:
            lasting.rows.append(
                (
                    rank,
                    label,
                    duration,
                    begin,
                    track[instant] if edge < 0 or busy[edge] else _NO_TRACK,
                )
            )
        else:
            ranks[rank].lines.append(f"{label}: calc 0 cpu 0")
    last = int(np.argmax(steps.time_ns))
    if steps.beyond_ns:
        rank = max(int(steps.rank_of_instant[last]), 0)
        lasting.rows.append((rank, "end", steps.beyond_ns, int(steps.time_ns[last]), _NO_TRACK))
        if last:
            ranks[rank].requires.append(f"end requires {_label(last)}")


def _busy(steps: Steps) -> list[bool]:
    """Return whether the lag of each edge keeps the track busy of the activity that it leads to."""
    return np.isin(steps.graph.kind, [EDGE[word] for word in BUSY]).tolist()  # type: ignore[no-any-return]


def _track(steps: Steps) -> list[int]:
    """Return the track of each instant; that of none for the run's start."""
    return [_NO_TRACK, *np.repeat(steps.rows["track"].to_numpy(), 2).tolist()]


@dataclass(frozen=True)
class _Processors:
    """Processor of each operation that lasts, and what each rank's are for in words."""

    cpu: list[int]
    named: list[str]


def _processors(steps: Steps, lasting: _Lasting) -> _Processors:
    """Give every operation a processor that is free while it lasts: the first of its track, or else
    one more.  Raises A480.
    """
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    lane = [0] * len(lasting.rows)
    for row in sorted(range(len(lasting.rows)), key=lambda k: lasting.rows[k][3]):
        rank, _, duration, begin, track = lasting.rows[row]
        free = lanes.setdefault((rank, track), [])
        if free and free[0][0] <= begin:
            lane[row] = heapq.heappop(free)[1]
        else:
            lane[row] = len(free)
        heapq.heappush(free, (begin + duration, lane[row]))
    first: dict[tuple[int, int], int] = {}
    used = [1] * steps.ranks
    named = [""] * steps.ranks
    # tracks before what keeps none busy
    for rank, track in sorted(lanes, key=lambda key: (key[0], key[1] == _NO_TRACK, key[1])):
        count = len(lanes[rank, track])
        first[rank, track] = used[rank]
        used[rank] += count
        last = f" to {used[rank] - 1}" if count > 1 else ""
        named[rank] += (
            f"; {used[rank] - count}{last} "
            f"{'waits' if track == _NO_TRACK else steps.track_name(track)}"
        )
    if (most := max(used)) > _MOST:
        raise error_of("A480", found=f"rank {used.index(most)} needs {most} of them", most=_MOST)
    return _Processors(
        [first[row[0], row[4]] + k for row, k in zip(lasting.rows, lane, strict=True)], named
    )
