"""The native timeline against every path of small graphs, in exact fractions."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from turnbuckle._native import Timeline

plain = settings(max_examples=80)
NONE = 0xFFFFFFFF
PARAMETERS = 2
# source, target, lag, two terms of parameter (PARAMETERS: none) and amount
Edge = tuple[int, int, int, int, int, int, int]
Straight = tuple[Fraction, Fraction]  # constant and slope


@dataclass(frozen=True)
class Drawn:
    """A graph in topological order and the names its instants go by."""

    edges: list[Edge]
    residual: list[int]
    name: list[int]

    def native(self) -> Timeline:
        source, target, lag, p, a, q, b = (
            np.array([e[i] for e in self.edges], dtype=np.int64) for i in range(7)
        )
        name = np.array(self.name)
        residual = np.zeros(len(name), dtype=np.int64)
        residual[name] = self.residual
        first, second = (np.where(x == PARAMETERS, NONE, x).astype(np.uint32) for x in (p, q))
        ends = name[source].astype(np.uint32), name[target].astype(np.uint32)
        return Timeline(
            len(name),
            *ends,
            lag,
            first,
            a.astype(float),
            second,
            b.astype(float),
            residual,
            PARAMETERS,
        )

    def instants(self, values: tuple[Fraction, ...]) -> list[Fraction]:
        """Every instant at a place of the parameter space, in this graph's own order."""
        x: list[Fraction] = []
        for v, residual in enumerate(self.residual):
            before = [
                x[e[0]] + max(Fraction(0), e[2] + _change(e, values))
                for e in self.edges
                if e[1] == v
            ]
            x.append(max(before, default=Fraction(0)) + residual)
        return x

    def paths(self, at: tuple[int, ...], direction: tuple[int, ...]) -> set[Straight]:
        """Length of every path along a direction; a lag that may be clamped is two edges."""
        lengths: list[set[Straight]] = []
        for v, residual in enumerate(self.residual):
            here: set[Straight] = set()
            incoming = [e for e in self.edges if e[1] == v]
            for e in incoming:
                lag, slope = e[2] + _change(e, at), _change(e, direction)
                kept = (
                    {(Fraction(0), Fraction(0)), (lag, slope)}
                    if slope or lag <= 0
                    else {(lag, slope)}
                )
                here |= {
                    (c + a + residual, k + b)
                    for c, k in lengths[e[0]]
                    for a, b in kept
                    if slope or a >= 0
                }
            lengths.append(here if incoming else {(Fraction(residual), Fraction(0))})
        return set().union(*lengths)


def _change(edge: Edge, values: tuple[Fraction, ...] | tuple[int, ...]) -> Fraction:
    terms = ((edge[3], edge[4]), (edge[5], edge[6]))
    return sum((Fraction(a) * values[p] for p, a in terms if p < PARAMETERS), Fraction(0))


@st.composite
def graphs(draw: st.DrawFn, least_residual: int = 0) -> Drawn:
    count = draw(st.integers(2, 7))
    term = st.tuples(st.integers(0, PARAMETERS), st.integers(-3, 6))
    edges = []
    for target in range(1, count):
        for source in draw(st.sets(st.integers(0, target - 1), max_size=3)):
            lag = draw(st.integers(0, 30))
            first = draw(term | st.tuples(st.integers(0, PARAMETERS), st.just(lag)))
            edges.append((source, target, lag, *first, *draw(term)))
    order = draw(st.permutations(range(len(edges))))
    residual = draw(st.lists(st.integers(least_residual, 4), min_size=count, max_size=count))
    return Drawn([edges[i] for i in order], residual, draw(st.permutations(range(count))))


places = st.tuples(*[st.integers(-4, 4)] * PARAMETERS)
directions = st.tuples(*[st.integers(-3, 3)] * PARAMETERS)


def floats(values: object) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


def line(
    timeline: Timeline, at: object, direction: object, first: float, last: float, limit: int = 1000
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]:
    *found, gap = timeline.line(floats(at), floats(direction), first, last, limit=limit, threads=2)
    s, value, slope = (np.frombuffer(b) for b in found)
    assert len(s) == len(value) == len(slope) + 1
    assert s[0] == first and s[-1] == last
    return s, value, slope, gap


def bends(
    paths: set[Straight], first: int, last: int
) -> tuple[list[Fraction], list[Fraction], list[Fraction]]:
    """Knots, values and slopes of the upper envelope, path after path."""
    s, end = Fraction(first), Fraction(last)
    c, k = max(paths, key=lambda p: (p[0] + p[1] * s, p[1]))
    knots, values, slopes = [s], [c + k * s], [k]
    while True:
        crossings = [((c - d) / (m - k), m, d) for d, m in paths if m > k]
        s, m, d = min(crossings, key=lambda x: (x[0], -x[1]), default=(end, k, c))
        if s >= end:
            return [*knots, end], [*values, c + k * end], slopes
        knots, values, slopes = [*knots, s], [*values, c + k * s], [*slopes, m]
        c, k = d, m


@plain
@given(graphs(least_residual=-4), places)
def test_all_instants_are_those_of_the_longest_path(graph: Drawn, at: tuple[int, ...]) -> None:
    native = graph.native()
    expected = np.zeros(len(graph.name))
    expected[graph.name] = floats(graph.instants(tuple(map(Fraction, at))))
    instants, path = native.replayed(floats(at))
    assert np.frombuffer(instants).tolist() == expected.tolist()
    assert (
        np.frombuffer(native.last(floats([at] * 9), threads=2)).tolist() == [max(0, *expected)] * 9
    )
    recorded = np.zeros(len(graph.name), dtype=np.int64)
    recorded[graph.name] = [int(x) for x in graph.instants((Fraction(0),) * PARAMETERS)]
    assert np.frombuffer(native.recorded(), dtype=np.int64).tolist() == recorded.tolist()
    taken = [graph.edges[e] for e in np.frombuffer(path, dtype=np.uint32)]
    assert all(later[0] == earlier[1] for later, earlier in pairwise(taken))
    if taken:
        here = tuple(map(Fraction, at))
        spent = sum(max(Fraction(0), e[2] + _change(e, here)) + graph.residual[e[1]] for e in taken)
        assert expected.max() == spent + graph.residual[taken[-1][0]]
        assert not any(e[1] == taken[-1][0] for e in graph.edges)


@plain
@given(graphs(least_residual=-4), places, st.data())
def test_edges_left_out_are_as_if_never_there(
    graph: Drawn, at: tuple[int, ...], data: st.DataObject
) -> None:
    """1 leaves an edge out, 2 and 4 take the first and the second term of its change away."""
    spared = data.draw(
        st.lists(st.integers(0, 7), min_size=len(graph.edges), max_size=len(graph.edges))
    )
    kept = [
        (*e[:3], PARAMETERS if which & 2 else e[3], e[4], PARAMETERS if which & 4 else e[5], e[6])
        for e, which in zip(graph.edges, spared, strict=True)
        if not which & 1
    ]
    compiled = Drawn(kept, graph.residual, graph.name).native()
    found = graph.native().last_sparing(floats(at), np.array(spared, dtype=np.uint8))
    assert [found] == np.frombuffer(compiled.last(floats([at]), threads=1)).tolist()
    assert graph.native().path(floats(at)) == graph.native().replayed(floats(at))[1]


@plain
@given(graphs(), places, st.lists(directions, min_size=1, max_size=11))
def test_slopes_are_those_of_the_steepest_and_the_flattest_longest_path(
    graph: Drawn, at: tuple[int, ...], rows: list[tuple[int, ...]]
) -> None:
    found = np.frombuffer(graph.native().slopes(floats(at), floats(rows), threads=2)).reshape(-1, 3)
    assert len(found) == len(rows)
    for row, direction in zip(found.tolist(), rows, strict=True):
        paths = graph.paths(at, direction)
        longest = max(c for c, _ in paths)
        slopes = [k for c, k in paths if c == longest]
        assert row == [longest, min(slopes), max(slopes)]


@plain
@given(graphs(least_residual=-4), st.lists(places, min_size=1, max_size=11), directions)
def test_tangents_touch_the_run_time_and_are_nowhere_above_it(
    graph: Drawn, rows: list[tuple[int, ...]], direction: tuple[int, ...]
) -> None:
    native, at = graph.native(), floats(rows)
    last, slopes = (np.frombuffer(part) for part in native.tangents(at, threads=2))
    slopes = slopes.reshape(at.shape)
    assert last.tolist() == np.frombuffer(native.last(at, threads=2)).tolist()
    assert (last[:, None] + (slopes[:, None, :] * (at - at[:, None])).sum(axis=-1) <= last).all()
    for row, slope in zip(rows, slopes @ floats(direction), strict=True):
        paths = graph.paths(row, direction) | {(Fraction(0), Fraction(0))}
        along = [k for c, k in paths if c == max(c for c, _ in paths)]
        assert min(along) <= slope <= max(along)


@plain
@given(graphs(), places, directions, st.integers(-6, 6), st.integers(1, 12))
def test_every_breakpoint_is_found_where_it_is(
    graph: Drawn, at: tuple[int, ...], direction: tuple[int, ...], first: int, length: int
) -> None:
    s, value, slope, gap = line(graph.native(), at, direction, first, first + length)
    knots, values, slopes = bends(graph.paths(at, direction), first, first + length)
    assert s.tolist() == [float(k) for k in knots]
    assert slope.tolist() == [float(k) for k in slopes]
    assert np.allclose(value, floats(values), rtol=1e-14, atol=1e-12)
    assert gap == 0


@plain
@given(graphs(), places, directions, st.integers(1, 3))
def test_what_the_limit_leaves_out_is_no_more_than_the_gap(
    graph: Drawn, at: tuple[int, ...], direction: tuple[int, ...], limit: int
) -> None:
    s, value, slope, gap = line(graph.native(), at, direction, -8, 8, limit)
    assert len(slope) <= limit + 1
    knots, values, _ = bends(graph.paths(at, direction), -8, 8)
    error = np.interp(s, floats(knots), floats(values)) - value
    assert error.min() > -1e-9
    assert error.max() == pytest.approx(gap, abs=1e-9)
    assert len(slope) == len(knots) - 1 or gap > 0


@plain
@given(
    graphs(),
    places,
    st.tuples(*[st.floats(-3, 3)] * PARAMETERS),
    st.floats(-5, 5),
    st.floats(0, 20),
)
def test_odd_numbers_end_too(
    graph: Drawn, at: tuple[int, ...], direction: tuple[float, ...], first: float, length: float
) -> None:
    native, start = graph.native(), floats(at) / 7
    s, value, slope, gap = line(native, start, direction, first, first + length)
    assert gap == 0 and (np.diff(slope) > 0).all() and (np.diff(s) > 0).all() | (s[0] == s[-1])
    dense = np.linspace(first, first + length, 101)
    expected = np.frombuffer(native.last(start + dense[:, None] * floats(direction), threads=1))
    assert np.allclose(np.interp(dense, s, value), expected, rtol=1e-10, atol=1e-9)
    rise = np.frombuffer(
        native.slopes(start + dense[50] * floats(direction), floats([direction]), threads=1)
    )
    assert rise[0] == pytest.approx(expected[50], rel=1e-10, abs=1e-9) and rise[1] <= rise[2]


def chain(lags: list[int], amount: float = 1e9, parameter: int = 0) -> Timeline:
    """Instants one after the other; each lag grows with one parameter."""
    n = len(lags)
    at = np.arange(n, dtype=np.uint32)
    same = np.full(n, parameter, dtype=np.uint32)
    none, zero = np.full(n, NONE, dtype=np.uint32), np.zeros(n)
    return Timeline(
        n + 1,
        at,
        at + np.uint32(1),
        np.array(lags),
        same,
        np.full(n, amount),
        none,
        zero,
        np.zeros(n + 1, np.int64),
        1,
    )


def test_long_runs_stay_exact() -> None:
    lags = [2**53 + 1, 2**40 + 3, 0, 1]
    assert np.frombuffer(chain(lags).recorded(), dtype=np.int64).tolist() == [
        0,
        *np.cumsum(lags).tolist(),
    ]
    s, value, slope, _ = line(chain([2**40 + 3, 0, 1]), [0.0], [1e-9], 0, 2**33)
    assert (s.tolist(), slope.tolist(), value.tolist()) == (
        [0, 2**33],
        [3],
        [2**40 + 4, 2**40 + 4 + 3 * 2**33],
    )


def test_amounts_that_all_differ() -> None:
    n = 100_000
    rng = np.random.default_rng(5)
    amount, values = rng.uniform(0, 1, n), rng.uniform(0, 1, 300)
    source, none = np.arange(n, dtype=np.uint32), np.full(n, NONE, dtype=np.uint32)
    parameter = rng.integers(0, 300, n).astype(np.uint32)
    nothing = np.zeros(n + 1, np.int64)
    native = Timeline(
        n + 1,
        source,
        source + np.uint32(1),
        nothing[1:],
        parameter,
        amount,
        none,
        nothing[1:] * 1.0,
        nothing,
        300,
    )
    expected = (amount * values[parameter]).sum()
    assert np.frombuffer(native.last(values, threads=1))[0] == pytest.approx(expected, rel=1e-9)
    row = np.frombuffer(native.slopes(values * 0, values, threads=1))
    assert row[2] == pytest.approx(expected, rel=1e-9) and row[0] == 0
    assert line(native, values * 0, values, 0, 2)[2].tolist() == pytest.approx([expected], rel=1e-9)


def test_threads_find_the_same() -> None:
    rng = np.random.default_rng(7)
    n, parameters = 20_000, 30
    source = np.r_[np.arange(n), rng.integers(0, n // 2, n)]
    target = np.r_[np.arange(1, n + 1), rng.integers(n // 2, n + 1, n)]
    first, second = (rng.integers(0, parameters, 2 * n).astype(np.uint32) for _ in range(2))
    lag = np.r_[rng.integers(0, 100, n), (target - source)[n:] * rng.integers(0, 400, n)]
    amounts = rng.integers(0, 90, 2 * n) * 1.0, rng.integers(0, 9, 2 * n) * 1.0
    ends = source.astype(np.uint32), target.astype(np.uint32)
    native = Timeline(
        n + 1,
        *ends,
        lag,
        first,
        amounts[0],
        second,
        amounts[1],
        np.zeros(n + 1, np.int64),
        parameters,
    )
    for count in (2, 9, 50):
        rows = rng.integers(0, 5, (count, parameters)) * 1.0
        one = np.frombuffer(native.last(rows, threads=1))
        assert len(set(one)) > 1
        for threads in (2, 3, 7):
            assert native.last(rows, threads=threads) == one.tobytes()
            assert native.slopes(rows[0], rows, threads=threads) == native.slopes(
                rows[0], rows, threads=1
            )
        assert one.tolist() == [np.frombuffer(native.replayed(row)[0]).max() for row in rows]
    one_by_one, side_by_side = (
        native.line(rows[0], rows[1], 0.0, 9.0, limit=1000, threads=threads) for threads in (1, 2)
    )
    assert one_by_one == side_by_side and one_by_one[3] == 0
    assert len(one_by_one[0]) > 4 * 8
    passes, places = native.looks
    assert places > passes > 0 and native.size_bytes[0] > native.size_bytes[1] > 0


@pytest.mark.parametrize(
    ("at", "direction", "first", "last", "limit"),
    [
        ([np.nan], [1.0], 0, 1, 5),
        ([0.0], [np.inf], 0, 1, 5),
        ([0.0, 1.0], [1.0], 0, 1, 5),
        ([0.0], [1.0, 2.0], 0, 1, 5),
        ([0.0], [1.0], 1, 0, 5),
        ([0.0], [1.0], 0, float("nan"), 5),
        ([0.0], [1.0], 0, 1, 0),
    ],
)
def test_what_is_no_line_is_refused(
    at: list[float], direction: list[float], first: float, last: float, limit: int
) -> None:
    with pytest.raises(ValueError):
        chain([1, 2]).line(floats(at), floats(direction), first, last, limit=limit, threads=1)


def test_what_is_no_slope_is_refused() -> None:
    native = chain([1, 2])
    for at, rows in (([0.0, 0.0], [1.0]), ([np.nan], [1.0]), ([0.0], [np.inf])):
        with pytest.raises(ValueError):
            native.slopes(floats(at), floats(rows), threads=1)
    assert native.slopes(floats([0.0]), floats([]), threads=1) == b""


def test_values_beyond_all_numbers_end() -> None:
    s, _, _, _ = line(chain([1, 2], amount=1e200), [0.0], [1e200], 0, 1)
    assert s[0] == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_stops_it(threads: int) -> None:
    native = chain([1] * 10_000)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for work in (
            native.last,
            lambda rows, threads: native.slopes(floats([0.0]), rows, threads=threads),
        ):
            began = time.process_time()
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                work(np.zeros(3_000_000), threads=threads)
            assert time.process_time() - began < 5, "the whole work takes half a minute"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
