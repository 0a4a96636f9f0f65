"""The native replay against four programs that share nothing with it.

An event queue and sums of straight lines in plain Python (`event_by_event`), HiGHS on the linear
program whose optimum is the longest path, and SimPy on the proxy application of slack studies.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import highspy
import numpy as np
import pytest
import simpy
from event_by_event import pieces, replayed
from graphs import PARAMETERS, Edge, Instants, Number, either_way, graphs, of_run, quarters, values
from hypothesis import assume, given
from hypothesis import strategies as st
from runs import run_of
from strategies import FEWER, LAW, gpu_traces, soups

from turnbuckle.papers.row_slack.proxy import Proxy, modelled
from turnbuckle.profile.dependencies.dependencies import dependencies
from turnbuckle.profile.dependencies.graph import EDGE, EDGES
from turnbuckle.profile.profile import build
from turnbuckle.trace.trace import Trace

SMALL = (
    "extrap_con_kernel/con_kernel",
    "extrap_concurrent_s4/profile4",
    "extrap_exgpu_s10/ex-gpu.s10",
    "jacobi_gh200/jacobi_report",
)


def real(shared: Path, name: str) -> Instants:
    """The graph of a real run."""
    return of_run(dependencies(run_of(shared / "traces/nsys" / f"{name}.sqlite").profile))


# --- event by event -------------------------------------------------------------------------------


def agree(graph: Instants, *rows: Sequence[Number]) -> None:
    """Every instant, the run time, and a critical path that is one."""
    expected = [replayed(graph, row) for row in rows]
    for row, instants in zip(rows, expected, strict=True):
        assert graph.instants_ns(row).tolist() == instants
        path = graph.path(row)
        if path:
            assert instants[path[0].target] == max(instants)
            assert all(before.source == after.target for before, after in pairwise(path))
            assert not any(e.target == path[-1].source for e in graph.edges)
            spent = (
                sum(max(e.lag(row), 0) + graph.residual_ns[e.target] for e in path)
                + graph.residual_ns[path[-1].source]
            )
            assert spent == max(instants)
    assert graph.last_ns(*rows).tolist() == [max(instants) for instants in expected]


@LAW
@given(graphs(amounts=either_way), st.lists(values(), min_size=1, max_size=19))
def test_drawn_graphs_replay_event_by_event(graph: Instants, rows: list[list[float]]) -> None:
    agree(graph, *rows)
    unchanged = np.frombuffer(graph.native.recorded(), dtype=np.int64)
    assert unchanged.tolist() == replayed(graph, [0] * PARAMETERS)


@FEWER
@given(
    gpu_traces() | soups(),
    st.lists(
        st.lists(quarters(-2, 3), min_size=len(EDGES), max_size=len(EDGES)), min_size=1, max_size=3
    ),
)
def test_recorded_graphs_replay_event_by_event(trace: Trace, rows: list[list[float]]) -> None:
    graph = dependencies(build(trace))
    agree(of_run(graph), *rows)
    assert replayed(of_run(graph), [0] * len(EDGES)) == graph.time_ns.tolist()


@pytest.mark.parametrize("name", SMALL)
def test_real_graphs_replay_event_by_event(shared: Path, name: str) -> None:
    """Kernels slower, calls faster, deliveries and returns later, and a change so large that every
    lag is held at zero.
    """
    graph = real(shared, name)
    unchanged = [0.0] * len(EDGES)
    slower = list(unchanged)
    slower[EDGE["run"]], slower[EDGE["call"]], slower[EDGE["deliver"]], slower[EDGE["sync"]] = (
        0.5,
        -0.25,
        2_000.0,
        750.5,
    )
    for row in (unchanged, slower, [-1.0] * len(EDGES), [-1e6] * len(EDGES)):
        instants = graph.instants_ns(row)
        assert instants.tolist() == replayed(graph, row)
        assert graph.last_ns(row) == [instants.max()]


def test_a_large_graph_replays_event_by_event() -> None:
    """Thousands of different terms, hundreds of ends, waits for what is long gone: more of each
    than the native replay keeps at hand.
    """
    chance = Random(2)
    count = 3_000
    edges = []
    for v in range(1, count):
        for _ in range(chance.choice((0, 1, 2, 2, 3))):
            u = chance.choice((v - 1, max(v - 7, 0), chance.randrange(v)))
            lag = chance.randrange(1_000_000)
            law = [
                (
                    chance.randrange(PARAMETERS),
                    chance.choice((lag, chance.randrange(-1_000, 1_000))),
                )
                for _ in range(2)
            ]
            edges.append(Edge(u, v, lag, tuple(law[: chance.choice((0, 1, 2, 2))])))
    graph = Instants(
        tuple(chance.choice((0, 0, 5_000)) for _ in range(count)), tuple(edges), PARAMETERS
    )
    assert len({tuple((p, a) for p, a in e.terms if a != e.lag_ns) for e in edges}) > 2_048
    at = [chance.randrange(-3, 12) / 4 for _ in range(PARAMETERS)]
    agree(
        graph, at, *([chance.randrange(-9, 40) / 4 for _ in range(PARAMETERS)] for _ in range(10))
    )
    # so near that no other path is longer
    near, (run, left, right) = Fraction(1, 2**40), graph.slopes_ns(at, [1, 2, -1])[0]
    here, before, after = (
        max(replayed(graph, place([Fraction(a) for a in at], [1, 2, -1], x)))
        for x in (0, -near, near)
    )
    assert (run, left, right) == (here, (here - before) / near, (after - here) / near)


@LAW
@given(st.integers(1, 300), st.integers(0, 299), st.randoms(use_true_random=False))
def test_the_latest_of_many_ends_decides(count: int, latest: int, chance: Any) -> None:
    edges = [
        Edge(
            0,
            1 + i,
            5_000 if i == latest % count else chance.randrange(1_000),
            ((0, chance.randrange(3)),),
        )
        for i in range(count)
    ]
    agree(
        Instants((3,) * (count + 1), tuple(edges), PARAMETERS),
        [0, 0, 0],
        [1.5, 0, 0],
        [-9_999, 0, 0],
    )


@LAW
@given(graphs(), st.data())
def test_a_ring_is_refused(graph: Instants, data: st.DataObject) -> None:
    assume(graph.edges)
    path = data.draw(st.sampled_from(graph.edges))
    ring = graph.with_edges(Edge(path.target, path.source, 0))
    with pytest.raises(ValueError, match="wait for each other") as by_hand:
        replayed(ring, [0] * PARAMETERS)
    with pytest.raises(ValueError, match="wait for each other") as by_native:
        _ = ring.native
    assert str(by_hand.value) == str(by_native.value)


@LAW
@given(graphs(8, either_way), values(), values(-3, 3), quarters(0, 40))
def test_the_two_oracles_agree(
    graph: Instants, at: list[float], direction: list[float], length: float
) -> None:
    """The straight pieces meet, bend upwards, and the run time between their ends is the one event
    by event.
    """
    found = pieces(graph, at, direction, -length, length + 1)
    assert found[0].first == -length and found[-1].last == length + 1
    for piece, after in pairwise(found):
        assert piece.last == after.first and piece.slope_ns < after.slope_ns
    for piece in found:
        for x in (piece.first, (piece.first + piece.last) / 2, piece.last):
            there = [
                a + x * d for a, d in zip(map(Fraction, at), map(Fraction, direction), strict=True)
            ]
            assert max(replayed(graph, there)) == piece.at_first_ns + piece.slope_ns * (
                x - piece.first
            )


def unit(parameter: int) -> list[int]:
    """The direction of one parameter of a drawn graph."""
    return [int(p == parameter) for p in range(PARAMETERS)]


def place(at: Sequence[Number], direction: Sequence[Number], x: Number) -> list[Number]:
    """The values at ``at + x * direction``."""
    return [a + x * d for a, d in zip(at, direction, strict=True)]


def slopes(
    graph: Instants, at: Sequence[Number], direction: Sequence[Number]
) -> tuple[Fraction, Fraction]:
    """Left and right derivative along a direction, by the lines of `event_by_event`."""
    return pieces(graph, at, direction, -1, 0)[-1].slope_ns, pieces(graph, at, direction, 0, 1)[
        0
    ].slope_ns


@LAW
@given(graphs(amounts=either_way), values(), st.lists(values(-3, 3), min_size=1, max_size=11))
def test_native_slopes_are_those_of_the_lines(
    graph: Instants, at: list[float], directions: list[list[float]]
) -> None:
    """Anywhere, and at the breakpoints along the first direction, where the two sides differ."""
    for found, direction in zip(graph.slopes_ns(at, *directions), directions, strict=True):
        left, right = slopes(graph, at, direction)
        assert found.tolist() == [graph.last_ns(at)[0], left, right]
    for before, after in pairwise(pieces(graph, at, directions[0], -64, 64)):
        # a third of a nanosecond beside a breakpoint there is none: times and parameters are
        # multiplied until float64 can hold it
        many = before.last.denominator
        there = [
            many * a + before.last.numerator * d for a, d in zip(at, directions[0], strict=True)
        ]
        edges = tuple(replace(e, lag_ns=many * e.lag_ns) for e in graph.edges)
        larger = Instants(tuple(many * r for r in graph.residual_ns), edges, PARAMETERS)
        (found,) = larger.slopes_ns(there, directions[0])
        assert found.tolist() == [many * after.at_first_ns, before.slope_ns, after.slope_ns]


@LAW
@given(
    graphs(20, either_way),
    values(),
    values(-3, 3),
    quarters(0, 60),
    quarters(1, 60),
    st.integers(1, 4),
)
def test_the_native_line_has_every_breakpoint(
    graph: Instants,
    at: list[float],
    direction: list[float],
    first: float,
    length: float,
    limit: int,
) -> None:
    """All knots of the exact lines and no other; cut short, it stays below by no more than it
    says.
    """
    expected = pieces(graph, at, direction, -first, length)
    found = graph.line_ns(at, direction, -first, length)
    assert found.gap_ns == 0
    assert found.slopes_ns.tolist() == pytest.approx(
        [float(p.slope_ns) for p in expected], rel=1e-12
    )
    assert found.knots.tolist() == pytest.approx(
        [float(p.first) for p in expected] + [length], rel=1e-9, abs=1e-9
    )
    run = [p.at_first_ns for p in expected] + [
        expected[-1].at_first_ns + expected[-1].slope_ns * (expected[-1].last - expected[-1].first)
    ]
    assert found.values_ns.tolist() == pytest.approx([float(v) for v in run], rel=1e-9, abs=1e-9)
    short = graph.line_ns(at, direction, -first, length, limit)
    assert len(short.knots) <= limit + 2
    places = [float(p.first) for p in expected] + [length]
    below = np.array([float(v) for v in run]) - np.interp(places, short.knots, short.values_ns)
    assert (
        below.min() >= -1e-9 * max(map(abs, run)) - 1e-9
        and below.max() <= short.gap_ns * (1 + 1e-9) + 1e-9
    )


# --- HiGHS ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Optimum:
    """What the linear program says: the run time [ns] and, per parameter, its derivative and the
    range in which that holds.
    """

    run_ns: float
    slope_ns: list[float]
    first: list[float]
    last: list[float]


def optimum(graph: Instants, at: Sequence[Number]) -> Optimum:
    """Minimise the run time subject to: no instant before what it waits for.  A parameter is a
    column fixed at its value.
    """
    infinity, count, run = highspy.kHighsInf, len(graph), len(graph)
    free = set(range(count)) - {e.target for e in graph.edges}
    rows: list[tuple[float, dict[int, float]]] = [(0.0, {run: 1.0, v: -1.0}) for v in range(count)]
    for edge in graph.edges:
        residual, apart = graph.residual_ns[edge.target], {edge.target: 1.0, edge.source: -1.0}
        share: dict[int, float] = {}
        for parameter, amount in edge.terms:
            share[run + 1 + parameter] = share.get(run + 1 + parameter, 0.0) - amount
        rows.append((edge.lag_ns + residual, apart | share))
        rows.append((residual, apart))
    least = [float(graph.residual_ns[v]) if v in free else 0.0 for v in range(count)] + [0.0]
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("presolve", "off")  # ranges need the basis of the program as it stands
    solver.addVars(
        count + 1 + len(at),
        np.array([*least, *at], dtype=float),
        np.array([infinity] * (count + 1) + [*at], dtype=float),
    )
    solver.changeColCost(run, 1.0)
    starts = np.cumsum([0] + [len(row) for _, row in rows[:-1]])
    index = np.array([column for _, row in rows for column in row], dtype=np.int32)
    value = np.array([x for _, row in rows for x in row.values()])
    lower, upper = np.array([bound for bound, _ in rows], dtype=float), np.full(len(rows), infinity)
    solver.addRows(len(rows), lower, upper, len(index), starts.astype(np.int32), index, value)
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    _, ranges = solver.getRanging()
    fixed = slice(run + 1, None)
    return Optimum(
        solver.getObjectiveValue(),
        list(solver.getSolution().col_dual[fixed]),
        list(ranges.col_bound_dn.value_[fixed]),
        list(ranges.col_bound_up.value_[fixed]),
    )


@LAW
@given(graphs(), values())
def test_the_optimum_is_the_longest_path(graph: Instants, at: list[float]) -> None:
    """Its reduced costs are counts of terms: of the critical path, or of one between the two that
    tie.
    """
    found = optimum(graph, at)
    assert found.run_ns == pytest.approx(float(graph.last_ns(at)[0]), rel=1e-12, abs=1e-6)
    path = graph.path(at)
    for parameter in range(PARAMETERS):
        left, right = slopes(graph, at, unit(parameter))
        count = sum(a for e in path if e.lag(at) > 0 for p, a in e.terms if p == parameter)
        assert left <= count <= right
        assert float(left) - 1e-7 <= found.slope_ns[parameter] <= float(right) + 1e-7


@LAW
@given(graphs(20), values(0, 30), st.integers(0, PARAMETERS - 1))
def test_the_range_of_the_optimum_ends_at_the_next_breakpoint(
    graph: Instants, at: list[float], parameter: int
) -> None:
    """From range to range the program walks over the same breakpoints as the lines do (LLAMP's
    sweep).
    """
    at = [*at[:parameter], -40.0, *at[parameter + 1 :]]
    expected = pieces(graph, at, unit(parameter), 0, 80)
    # breakpoints are fractions of whole numbers below 4 * 40, so none is nearer to the next than
    # this
    step, x = 1e-5, 0.0
    walked: list[tuple[float, float]] = []
    while x < 80:
        there = [*at[:parameter], -40.0 + x, *at[parameter + 1 :]]
        found = optimum(graph, there)
        slope, last = found.slope_ns[parameter], found.last[parameter] + 40.0
        if not walked or abs(walked[-1][1] - slope) > 1e-7:
            walked.append((x, slope))
        x = max(last, x) + step
    assert [slope for _, slope in walked] == pytest.approx(
        [float(p.slope_ns) for p in expected], abs=1e-7
    )
    assert [x for x, _ in walked] == pytest.approx([float(p.first) for p in expected], abs=2 * step)


@pytest.mark.parametrize("name", SMALL[:3])
def test_the_optimum_of_a_real_run_is_its_longest_path(shared: Path, name: str) -> None:
    """At the recorded run and with everything slower; derivatives lie between the differences to
    both sides.
    """
    graph, step = real(shared, name), 2.0**-10
    for at in ([0.0] * len(EDGES), [0.5 if word in ("run", "call") else 1_000.0 for word in EDGES]):
        found, run_ns, path = optimum(graph, at), graph.last_ns(at)[0], graph.path(at)
        assert found.run_ns == pytest.approx(run_ns, rel=1e-9)
        for parameter in range(len(EDGES)):
            near = [
                [*at[:parameter], at[parameter] + h, *at[parameter + 1 :]] for h in (-step, step)
            ]
            before, after = graph.last_ns(*near)
            slack = 1e-6 * run_ns
            for slope in (
                found.slope_ns[parameter],
                sum(a for e in path if e.lag(at) > 0 for p, a in e.terms if p == parameter),
            ):
                assert (run_ns - before) / step - slack <= slope <= (after - run_ns) / step + slack


# --- SimPy ----------------------------------------------------------------------------------------

CALLS = ("in", "in", "kernel", "out", "sync")
"""One iteration of the proxy application: two blocking copies in, a launch, a blocking copy out, a wait."""

Order = dict[str, list[int]]
Steps = Generator[simpy.Event, Any, None]


@dataclass(frozen=True)
class Loop:
    """The proxy: `threads` host threads, each with a stream of its own, share one engine each way
    and one for kernels [ns].

    A launch returns when its kernel ends if `blocking`.
    """

    threads: int
    iterations: int
    blocking: bool
    copy_in: int
    kernel: int
    copy_out: int
    call: int
    wait: int
    delivery: int
    back: int
    between: int

    def waits(self, what: str) -> bool:
        return self.blocking or what != "kernel"

    def took(self, what: str) -> int:
        return {"in": self.copy_in, "kernel": self.kernel, "out": self.copy_out}[what]


@dataclass
class Simulation:
    """The proxy as a SimPy program; engines serve whoever comes first, or in the turns given, by
    thread.
    """

    loop: Loop
    slack: int
    turns: Order | None = None
    capacity: int = 1
    served: Order = field(default_factory=lambda: {"in": [], "kernel": [], "out": []})
    asked: set[tuple[str, float]] = field(default_factory=set)
    ties: int = 0

    def run_ns(self) -> int:
        """When the last thread has done its last iteration."""
        self.clock = simpy.Environment()
        self.engines = {what: simpy.Resource(self.clock, self.capacity) for what in self.served}
        self.called: dict[str, simpy.Event] = {what: self.clock.event() for what in self.served}
        self.clock.run(
            self.clock.all_of(
                [self.clock.process(self.thread(i)) for i in range(self.loop.threads)]
            )
        )
        return int(self.clock.now)

    def thread(self, number: int) -> Steps:
        before: simpy.Event = self.clock.timeout(0)
        for _ in range(self.loop.iterations):
            for what in CALLS:
                yield self.clock.timeout(self.loop.between)
                own = self.clock.timeout(self.loop.wait if what == "sync" else self.loop.call)
                if what != "sync":
                    before = self.clock.process(self.work(what, number, before))
                if self.loop.waits(what):
                    yield self.clock.process(self.returned(before))
                yield own
                yield self.clock.timeout(self.slack)

    def returned(self, work: simpy.Event) -> Steps:
        if not work.processed:
            yield work
            yield self.clock.timeout(self.loop.back)

    def work(self, what: str, number: int, before: simpy.Event) -> Steps:
        yield self.clock.timeout(self.loop.delivery)
        yield before
        while self.turns is not None and self.turns[what][len(self.served[what])] != number:
            yield self.called[what]
        now = (what, self.clock.now)
        self.ties += now in self.asked and self.clock.now > 0
        self.asked.add(now)
        with self.engines[what].request() as mine:
            yield mine
            self.served[what].append(number)
            called, self.called[what] = self.called[what], self.clock.event()
            called.succeed()
            yield self.clock.timeout(self.loop.took(what))


def by_hand(loop: Loop, turns: Order | None) -> Instants:
    """The proxy as a graph: parameter 0 is the slack [ns]; engines serve in these turns, or
    everybody at once.
    """
    edges: list[Edge] = []
    count = 1

    def instants() -> tuple[int, int]:
        nonlocal count
        count += 2
        return count - 2, count - 1

    work: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for thread in range(loop.threads):
        at, stream = 0, 0
        for what in CALLS * loop.iterations:
            begin, finish = instants()
            edges.append(Edge(at, begin, loop.between))
            edges.append(Edge(begin, finish, loop.wait if what == "sync" else loop.call, ((0, 1),)))
            at = finish
            if what != "sync":
                start, end = instants()
                edges += [
                    Edge(begin, start, loop.delivery),
                    Edge(stream, start, 0),
                    Edge(start, end, loop.took(what)),
                ]
                work.setdefault((what, thread), []).append((start, end))
                stream = end
            if loop.waits(what):
                edges.append(Edge(stream, finish, loop.back, ((0, 1),)))
    for what, order in (turns or {}).items():
        left = {thread: iter(work[what, thread]) for thread in range(loop.threads)}
        served = [next(left[thread]) for thread in order]
        edges += [Edge(end, start, 0) for (_, end), (start, _) in pairwise(served)]
    return Instants((0,) * count, tuple(edges), 1)


short = st.sampled_from([0, 1, 7]) | st.integers(0, 30) | st.integers(0, 500)
loops = st.builds(
    Loop,
    threads=st.sampled_from([1, 2, 8]),
    iterations=st.integers(1, 4),
    blocking=st.booleans(),
    copy_in=short,
    kernel=short | st.integers(0, 5_000),
    copy_out=short,
    call=short,
    wait=short,
    delivery=short,
    back=short,
    between=short,
)
slacks = st.lists(st.integers(0, 20) | st.integers(0, 3_000), min_size=1, max_size=3)


@LAW
@given(loops, slacks)
def test_the_proxy_is_the_one_in_simpy(loop: Loop, added: list[int]) -> None:
    """Engines keep the order they had without slack; first come, first served is the graph of the
    order that comes of it.
    """
    recorded = Simulation(loop, 0)
    before = recorded.run_ns()
    graph = by_hand(loop, recorded.served)
    assert graph.last_ns([0]) == [before]
    for slack in added:
        kept = Simulation(loop, slack, recorded.served)
        after = kept.run_ns()
        assert graph.last_ns([slack]) == [after] and kept.served == recorded.served
        free = Simulation(loop, slack)
        assert free.run_ns() == by_hand(loop, free.served).last_ns([slack])
        assert after >= before
        if loop.threads == 1:
            # one thread pays for all calls that wait; a kernel can hide the slack of a launch that
            # does not
            waiting, every = (before + n * loop.iterations * slack for n in (4, 5))
            assert after == every if loop.blocking else waiting <= after <= every


@LAW
@given(loops, st.integers(0, 3_000))
def test_shared_engines_are_never_faster(loop: Loop, slack: int) -> None:
    """The graph without engines is a lower bound of every simulation with them, and is the
    simulation with enough of them.
    """
    alone = by_hand(loop, None).last_ns([slack])[0]
    assert (
        Simulation(loop, slack, capacity=loop.threads).run_ns()
        == alone
        <= Simulation(loop, slack).run_ns()
    )


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize(
    ("kernel_us", "loop_s", "iterations"),
    [(120.0, 0.382, 1000), (4_714.0, 8.121, 1000), (362_710.0, 35.112, 83)],
)
def test_the_published_proxy_replays_as_in_simpy(
    kernel_us: float, loop_s: float, iterations: int, threads: int
) -> None:
    """Matrices of 2^9, 2^11 and 2^13 rows (slack study, Table II: kernel, loop, iterations); what
    is no kernel are three copies.
    """
    copy = round((loop_s * 1e9 / iterations - kernel_us * 1e3) / 3)
    loop = Loop(threads, 12, True, copy, round(kernel_us * 1e3), copy, 0, 0, 0, 0, 0)
    recorded = Simulation(loop, 0)
    before = recorded.run_ns()
    if threads == 1:
        assert before == pytest.approx(loop_s * 1e9 * 12 / iterations, rel=1e-5)
    graph = by_hand(loop, recorded.served)
    rows = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]
    simulated = [Simulation(loop, slack, recorded.served).run_ns() for slack in rows]
    assert graph.last_ns(*([s] for s in rows)).tolist() == simulated
    # the five calls an iteration that eq. 1 takes off: one thread pays for them, several that come
    # first and are served first do not
    paid = Simulation(loop, rows[-1]).run_ns() - before
    assert paid == 60 * rows[-1] if threads == 1 else paid < 60 * rows[-1]


@LAW
@given(
    st.sampled_from([1, 2, 3, 8]),
    st.integers(1, 6),
    st.booleans(),
    st.lists(st.integers(1, 1_000_000), min_size=3, max_size=3),
    st.integers(0, 3_000_000),
)
def test_the_modelled_proxy_is_the_one_in_simpy(
    threads: int, iterations: int, blocking: bool, times: list[int], slack: int
) -> None:
    """`turnbuckle.papers.row_slack` serves engines in the order they would have at one slack, and
    keeps it at another.
    """
    kernel, copy, call = times
    loop = Loop(threads, iterations, blocking, copy, kernel, copy, call, call, 0, 0, 0)
    recorded, late = Simulation(loop, 0), Simulation(loop, slack)
    before, after = recorded.run_ns(), late.run_ns()
    # who comes first of two that come at once is anybody's guess
    assume(not recorded.ties and not late.ties)
    proxy = Proxy(2.0**20, kernel * 1e-9, copy * 1e-9, iterations, call * 1e-9)
    kept, free = (
        modelled(proxy, threads, waits="calls" if blocking else "copies", served_at=at)
        for at in (0.0, slack * 1e-9)
    )
    assert float(kept.seconds(0.0)) * 1e9 == pytest.approx(before, abs=1e-3)
    assert float(kept.seconds(slack * 1e-9)) * 1e9 == pytest.approx(
        Simulation(loop, slack, recorded.served).run_ns(), abs=1e-3
    )
    assert float(free.seconds(slack * 1e-9)) * 1e9 == pytest.approx(after, abs=1e-3)
