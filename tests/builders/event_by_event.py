"""Two replays in plain Python that share nothing with the native one, neither its order of work nor
its arithmetic.

`replayed` lets the instants happen one after the other on a clock; `pieces` keeps, for every
instant, all straight lines that can decide it.  Both are exact where they are given whole numbers
or fractions.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from graphs import Edge, Instants, Number


def replayed(graph: Instants, values: Sequence[Number]) -> list[Number]:
    """When every instant happens [ns]: edges under way wait in a queue by their time of arrival,
    the clock only moves forward.

    An instant with edges happens its residual after the last of them has arrived; an instant
    without, its residual after 0.

    Raises
    ------
    ValueError : some instants never happen, because they wait for each other.
    """
    leaving: list[list[Edge]] = [[] for _ in graph.residual_ns]
    missing = [0] * len(graph)
    for edge in graph.edges:
        leaving[edge.source].append(edge)
        missing[edge.target] += 1
    happened: list[Number | None] = [None] * len(graph)
    # (time, order of entry, instant, whether it happens now or an edge arrives at it)
    queue: list[tuple[Number, int, int, bool]] = [
        (r, i, i, True) for i, r in enumerate(graph.residual_ns) if not missing[i]
    ]
    heapq.heapify(queue)
    entered = len(graph)
    while queue:
        now, _, instant, happens = heapq.heappop(queue)
        entered += 1
        if not happens:
            missing[instant] -= 1
            if not missing[instant]:
                heapq.heappush(queue, (now + graph.residual_ns[instant], entered, instant, True))
            continue
        happened[instant] = now
        for edge in leaving[instant]:
            entered += 1
            heapq.heappush(queue, (now + max(edge.lag(values), 0), entered, edge.target, False))
    known = [t for t in happened if t is not None]
    if len(known) < len(happened):
        raise ValueError(f"{len(happened) - len(known)} instants wait for each other")
    return known


@dataclass(frozen=True)
class Piece:
    """On ``[first, last]`` the run time is ``at_first_ns + slope_ns * (x - first)``."""

    first: Fraction
    last: Fraction
    at_first_ns: Fraction
    slope_ns: Fraction


Line = tuple[Fraction, Fraction]
"""Slope [ns a unit] and value at 0 [ns]."""


def pieces(
    graph: Instants, at: Sequence[Number], direction: Sequence[Number], first: Number, last: Number
) -> list[Piece]:
    """The run time along ``at + x * direction``, x from `first` to `last`, as its straight pieces
    from left to right.

    Every instant is the upper envelope of lines: those of what it waits for, shifted; nothing is
    ever evaluated.
    """
    begin, end = Fraction(first), Fraction(last)
    lines: dict[int, list[Line]] = {}
    for instant in _in_order(graph):
        reached = (
            [] if any(e.target == instant for e in graph.edges) else [(Fraction(0), Fraction(0))]
        )
        for edge in (e for e in graph.edges if e.target == instant):
            slope = sum((Fraction(a) * Fraction(direction[p]) for p, a in edge.terms), Fraction(0))
            lag = Fraction(edge.lag([Fraction(v) for v in at]))
            reached += [
                (m + s, c + b)
                for m, c in lines[edge.source]
                for s, b in ((slope, lag), (Fraction(0), Fraction(0)))
            ]
        lines[instant] = _upper(
            [(m, c + graph.residual_ns[instant]) for m, c in reached], begin, end
        )
    hull = _upper([line for found in lines.values() for line in found], begin, end)
    knots = [begin, *(_crossing(a, b) for a, b in pairwise(hull)), end]
    return [Piece(a, b, m * a + c, m) for (m, c), a, b in zip(hull, knots, knots[1:], strict=False)]


def _in_order(graph: Instants) -> list[int]:
    """Instants, each after what it waits for."""
    done: list[int] = []
    left = set(range(len(graph)))
    while left:
        free = sorted(
            v for v in left if not any(e.target == v and e.source in left for e in graph.edges)
        )
        done += free
        left -= set(free)
    return done


def _crossing(a: Line, b: Line) -> Fraction:
    return (a[1] - b[1]) / (b[0] - a[0])


def _upper(lines: list[Line], begin: Fraction, end: Fraction) -> list[Line]:
    """Those of the lines that are alone on top somewhere inside ``(begin, end)``, by slope; one if
    the range is a point.
    """
    best: dict[Fraction, Fraction] = {}
    for m, c in lines:
        best[m] = max(c, best.get(m, c))
    hull: list[Line] = []
    for line in sorted(best.items()):
        while len(hull) >= 2 and _crossing(hull[-2], line) <= _crossing(hull[-2], hull[-1]):
            hull.pop()
        hull.append(line)
    while len(hull) >= 2 and _crossing(hull[0], hull[1]) <= begin:
        hull.pop(0)
    while len(hull) >= 2 and _crossing(hull[-2], hull[-1]) >= end:
        hull.pop()
    return hull
