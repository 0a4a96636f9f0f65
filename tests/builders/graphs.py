"""Graphs of instants made up by hypothesis, or taken from a run, in the terms of the native replay.

Numbers are whole nanoseconds and values are quarters, so that float64 adds them without rounding
and equal means equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from turnbuckle._native import Timeline
from turnbuckle.foundation.arrays import Float
from turnbuckle.profile.dependencies.graph import EDGES, Graph

Number = int | float | Fraction

NOTHING = 0xFFFFFFFF
"""The native replay's word for no parameter."""


@dataclass(frozen=True)
class Edge:
    """`target` waits for `source`, then for ``lag_ns`` plus each term's amount [ns a unit] times
    its parameter; never for less than 0.
    """

    source: int
    target: int
    lag_ns: int
    terms: tuple[tuple[int, int], ...] = ()

    def lag(self, values: Sequence[Number]) -> Number:
        """Lag under the values of all parameters [ns], before it is held at zero."""
        return self.lag_ns + sum(
            (amount * values[parameter] for parameter, amount in self.terms), 0
        )


@dataclass(frozen=True)
class Bent:
    """A run time along a line: places of the knots, run time at each [ns], slope after each but the
    last [ns], error left [ns].
    """

    knots: Float
    values_ns: Float
    slopes_ns: Float
    gap_ns: float


@dataclass(frozen=True)
class Instants:
    """A graph: the residual of every instant [ns], the edges, how many parameters their terms may
    name.
    """

    residual_ns: tuple[int, ...]
    edges: tuple[Edge, ...]
    parameters: int

    def __len__(self) -> int:
        return len(self.residual_ns)

    @cached_property
    def native(self) -> Timeline:
        """The graph compiled by the code under test."""
        edges, count = self.edges, len(self.edges)

        def column(values: Iterable[float], kind: type) -> NDArray[np.generic]:
            return np.fromiter(values, dtype=kind, count=count)

        terms = [[e.terms[k] if k < len(e.terms) else (NOTHING, 0) for e in edges] for k in (0, 1)]
        return Timeline(
            len(self),
            column((e.source for e in edges), np.uint32),
            column((e.target for e in edges), np.uint32),
            column((e.lag_ns for e in edges), np.int64),
            column((p for p, _ in terms[0]), np.uint32),
            column((a for _, a in terms[0]), np.float64),
            column((p for p, _ in terms[1]), np.uint32),
            column((a for _, a in terms[1]), np.float64),
            np.array(self.residual_ns, dtype=np.int64),
            self.parameters,
        )

    def instants_ns(self, values: Sequence[Number]) -> Float:
        """Every instant by the code under test."""
        return np.frombuffer(self.native.replayed(scenario(values))[0], dtype=np.float64)

    def path(self, values: Sequence[Number]) -> list[Edge]:
        """The critical path by the code under test, last edge first."""
        return [
            self.edges[i]
            for i in np.frombuffer(self.native.replayed(scenario(values))[1], dtype=np.uint32)
        ]

    def last_ns(self, *rows: Sequence[Number]) -> Float:
        """Run time of each row of values by the code under test."""
        many = np.ascontiguousarray(
            [[float(x) for x in row] for row in rows], dtype=np.float64
        ).reshape(len(rows), self.parameters)
        return np.frombuffer(self.native.last(many, threads=2), dtype=np.float64)

    def slopes_ns(self, at: Sequence[Number], *directions: Sequence[Number]) -> Float:
        """Rows of run time, left and right derivative [ns], one a direction, by the code under
        test.
        """
        rows = np.array([[float(x) for x in row] for row in directions], dtype=np.float64)
        return np.frombuffer(
            self.native.slopes(scenario(at), rows, threads=2), dtype=np.float64
        ).reshape(-1, 3)

    def line_ns(
        self,
        at: Sequence[Number],
        direction: Sequence[Number],
        first: float,
        last: float,
        limit: int = 10_000,
    ) -> Bent:
        """The run time at ``at + s * direction`` by the code under test."""
        found = self.native.line(
            scenario(at), scenario(direction), first, last, limit=limit, threads=2
        )
        knots, values, slopes = (np.frombuffer(part, dtype=np.float64) for part in found[:3])
        return Bent(knots, values, slopes, found[3])

    def with_edges(self, *edges: Edge) -> Instants:
        """The graph with more edges."""
        return replace(self, edges=(*self.edges, *edges))


def scenario(values: Sequence[Number]) -> Float:
    """Values as the native replay takes them."""
    return np.array([float(x) for x in values], dtype=np.float64)


PARAMETERS = 3
# ties are the interesting part
lags = st.sampled_from([0, 1, 5, 10]) | st.integers(0, 40) | st.integers(0, 2_000)


def quarters(least: int, most: int) -> st.SearchStrategy[float]:
    """Values that float64 adds without rounding."""
    return st.integers(4 * least, 4 * most).map(lambda n: n / 4)


def values(least: int = -30, most: int = 30) -> st.SearchStrategy[list[float]]:
    """A scenario of a drawn graph."""
    return st.lists(quarters(least, most), min_size=PARAMETERS, max_size=PARAMETERS)


longer = st.integers(0, 3)
"""Amounts of terms that lengthen."""
either_way = st.integers(-3, 3)
"""Amounts of terms that shorten as well as lengthen."""


@st.composite
def graphs(draw: st.DrawFn, most: int = 12, amounts: st.SearchStrategy[int] = longer) -> Instants:
    """Graphs without cycles, of several ends, several starts and parallel edges, numbered in no
    order.
    """
    count = draw(st.just(most) | st.integers(1, most))
    place = draw(st.permutations(range(count)))
    residual = draw(
        st.lists(st.sampled_from([0, 0, 0, 1, 7]) | lags, min_size=count, max_size=count)
    )
    term = st.tuples(st.integers(0, PARAMETERS - 1), amounts)
    edge = st.tuples(
        st.integers(0, 3),
        st.integers(0, most),
        lags,
        st.lists(term, min_size=1, max_size=2) | st.lists(term, max_size=1),
    )
    edges = []
    for v in range(1, count):
        # most instants wait for a few of those just before: long paths that tie are where a replay
        # goes wrong
        for near, far, lag, terms in draw(st.lists(edge, min_size=min(v % 4, 1), max_size=3)):
            u = max(v - 1 - near, 0) if near < 3 else far % v
            edges.append(Edge(place[u], place[v], lag, tuple(terms)))
    edges = draw(st.permutations(edges))
    return Instants(tuple(residual), tuple(edges), PARAMETERS)


_LAW = {
    "host": "share",
    "call": "share",
    "run": "share",
    "deliver": "ns",
    "sync": "ns",
    "queue": "ns",
}


def of_run(graph: Graph) -> Instants:
    """A run's graph with one parameter an edge kind: a share of the lag for what takes its time,
    nanoseconds for the others.
    """
    law = [_LAW.get(word) for word in EDGES]
    edges = tuple(
        Edge(u, v, lag, ((kind, lag if law[kind] == "share" else 1),) if law[kind] else ())
        for u, v, lag, kind in zip(
            graph.source.tolist(),
            graph.target.tolist(),
            graph.lag_ns.tolist(),
            graph.kind.tolist(),
            strict=True,
        )
    )
    return Instants(tuple(graph.residual_ns.tolist()), edges, len(EDGES))
