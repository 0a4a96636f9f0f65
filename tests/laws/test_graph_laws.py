"""Laws of the longest path, on drawn graphs and on the graphs of drawn and real runs.

What must hold whatever the graph is: bounds, monotony, convexity, limits, scale; and what must not
matter: names, order, cuts, edges that say nothing new, the zero of the clock.  Closed forms where
there is one: pipelines, overlap, hidden slack.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from alike import moved, renamed, renumbered
from event_by_event import replayed
from graphs import PARAMETERS, Edge, Instants, either_way, graphs, lags, of_run, quarters, values
from hypothesis import given
from hypothesis import strategies as st
from runs import run_of
from strategies import FEWER, FULL, LAW, gpu_traces, machine, parameter, soups

from turnbuckle.machine import Pair
from turnbuckle.profile.dependencies.dependencies import dependencies
from turnbuckle.profile.dependencies.graph import EDGES, Graph
from turnbuckle.profile.profile import build
from turnbuckle.projection.anchor import anchored
from turnbuckle.projection.model import Model, nething
from turnbuckle.projection.order import Prepared, Replayed, prepared
from turnbuckle.projection.order import replayed as order_replayed
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.distance import MODEL, MODES, Distance, Mode
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.trace.trace import Trace

NOTHING = [0.0] * PARAMETERS
forward = values(0, 30)
shuffles = st.randoms(use_true_random=False)


def along(
    graph: Instants, at: Sequence[float], direction: Sequence[float], places: Sequence[float]
) -> list[list[float]]:
    """Every instant at some places of a line, one row a place; exact."""
    return [
        graph.instants_ns([a + x * d for a, d in zip(at, direction, strict=True)]).tolist()
        for x in places
    ]


# --- what must hold -------------------------------------------------------------------------------


@LAW
@given(graphs(), st.lists(lags, min_size=12, max_size=12))
def test_any_recording_comes_back(graph: Instants, waits: list[int]) -> None:
    """Times drawn at will: lags held to what was recorded and the residual that is left give back
    every one of them.
    """
    times = replayed(replace(graph, residual_ns=tuple(waits[: len(graph)])), NOTHING)
    edges = tuple(
        replace(e, lag_ns=min(e.lag_ns, int(times[e.target] - times[e.source])))
        for e in graph.edges
    )
    latest = [
        max((int(times[e.source]) + e.lag_ns for e in edges if e.target == v), default=0)
        for v in range(len(graph))
    ]
    held = Instants(
        tuple(int(t) - last for t, last in zip(times, latest, strict=True)), edges, PARAMETERS
    )
    assert np.frombuffer(held.native.recorded(), dtype=np.int64).tolist() == times
    assert held.instants_ns(NOTHING).tolist() == times


@LAW
@given(graphs(amounts=either_way), values())
def test_no_more_is_won_or_lost_than_all_edges_change(graph: Instants, change: list[float]) -> None:
    before, after = graph.last_ns(NOTHING, change)
    effects = [max(e.lag(change), 0) - e.lag_ns for e in graph.edges]
    assert (
        before + sum(min(x, 0) for x in effects)
        <= after
        <= before + sum(max(x, 0) for x in effects)
    )


@LAW
@given(graphs(), forward, st.lists(st.integers(0, 3), min_size=PARAMETERS, max_size=PARAMETERS))
def test_one_run_brackets_all_others(graph: Instants, at: list[float], factors: list[int]) -> None:
    """Above the tangent, below the run time times the largest factor (models.md 4.5)."""
    there = [a * f for a, f in zip(at, factors, strict=True)]
    before, after = graph.last_ns(at, there)
    assert after <= before * max(*factors, 1)
    ((_, left, right),) = graph.slopes_ns(at, [t - a for a, t in zip(at, there, strict=True)])
    assert left <= right and before + right <= after
    path = graph.path(at)
    tangent = sum(amount * (there[p] - at[p]) for e in path for p, amount in e.terms)
    assert left <= tangent <= right


@LAW
@given(graphs(), values(), forward)
def test_slower_is_never_earlier(graph: Instants, at: list[float], more: list[float]) -> None:
    before, after = along(graph, at, more, (0, 1))
    assert all(a <= b for a, b in zip(before, after, strict=True))


@LAW
@given(graphs(20, either_way), values(), values(-3, 3))
def test_every_instant_bends_upwards_along_every_line(
    graph: Instants, at: list[float], direction: list[float]
) -> None:
    found = np.array(along(graph, at, direction, range(-8, 9)))
    assert (np.diff(found, 2, axis=0) >= 0).all()


@LAW
@given(graphs(20, either_way), values(), values(-3, 3), quarters(1, 40), st.integers(1, 16))
def test_slopes_add_up_to_the_run_time(
    graph: Instants, at: list[float], direction: list[float], length: float, parts: int
) -> None:
    """The integral of the derivative over a range is the difference of the run times at its ends
    (P4).
    """
    bent = graph.line_ns(at, direction, 0.0, length)
    first, last = (run[-1] for run in np.sort(along(graph, at, direction, (0, length)), axis=1))
    assert float((bent.slopes_ns * np.diff(bent.knots)).sum()) == pytest.approx(
        last - first, rel=1e-9, abs=1e-6
    )
    counted = 0.0
    for a, b in pairwise(bent.knots):
        there = [x + (a + b) / 2 * d for x, d in zip(at, direction, strict=True)]
        counted += (b - a) * sum(
            amount * direction[p]
            for e in graph.path(there)
            if e.lag(there) > 0
            for p, amount in e.terms
        )
    assert counted == pytest.approx(last - first, rel=1e-9, abs=1e-6)
    places = np.linspace(0, length, parts + 1)
    sides = np.array(
        [
            graph.slopes_ns([x + p * d for x, d in zip(at, direction, strict=True)], direction)[0]
            for p in places
        ]
    )
    room = 1e-6 + 1e-9 * abs(last)
    assert (
        (sides[:-1, 2] * np.diff(places)).sum() - room
        <= last - first
        <= (sides[1:, 1] * np.diff(places)).sum() + room
    )


@LAW
@given(graphs(), st.integers(0, PARAMETERS - 1))
def test_in_the_end_one_parameter_is_all(graph: Instants, parameter: int) -> None:
    """Far out the slope is the most terms any path has, and the run time is that many times the
    parameter and some rest.
    """
    terms = replace(
        graph,
        edges=tuple(
            replace(e, lag_ns=sum(a for p, a in e.terms if p == parameter), terms=())
            for e in graph.edges
        ),
    )
    most = max(replayed(replace(terms, residual_ns=(0,) * len(graph)), NOTHING))
    unit = [float(p == parameter) for p in range(PARAMETERS)]
    far = [2.0**20 * u for u in unit]
    ((run, left, right),) = graph.slopes_ns(far, unit)
    assert left == right == most
    rest = run - 2.0**20 * float(most)
    assert 0 <= rest <= graph.last_ns(NOTHING)[0]


@LAW
@given(graphs(), st.sets(st.integers(0, 60)), st.sampled_from([-1.0, -2.5, -1e9]))
def test_what_is_perfect_is_as_if_it_were_not_there(
    graph: Instants, chosen: set[int], value: float
) -> None:
    """A perfect link leaves the path of everything else, and no more than that however far below
    zero its times are asked for.
    """
    edges = [
        replace(e, terms=((0, e.lag_ns),) if i in chosen else ()) for i, e in enumerate(graph.edges)
    ]
    gone = [
        replace(e, lag_ns=0 if i in chosen else e.lag_ns, terms=())
        for i, e in enumerate(graph.edges)
    ]
    without = replace(graph, edges=tuple(gone)).instants_ns(NOTHING).tolist()
    assert replace(graph, edges=tuple(edges)).instants_ns([value, 0, 0]).tolist() == without


def stretched(graph: Instants, k: int) -> Instants:
    """All times `k` times as long."""
    edges = tuple(
        replace(e, lag_ns=k * e.lag_ns, terms=tuple((p, k * a) for p, a in e.terms))
        for e in graph.edges
    )
    return replace(graph, residual_ns=tuple(k * r for r in graph.residual_ns), edges=edges)


@LAW
@given(graphs(amounts=either_way), values(), st.integers(2, 50), values(-3, 3))
def test_times_scaled_scale_every_instant(
    graph: Instants, at: list[float], k: int, direction: list[float]
) -> None:
    slower = stretched(graph, k)
    assert slower.instants_ns(at).tolist() == (k * graph.instants_ns(at)).tolist()
    assert slower.slopes_ns(at, direction).tolist() == (k * graph.slopes_ns(at, direction)).tolist()


# --- what must not matter -------------------------------------------------------------------------


def shuffled(graph: Instants, chance: Any) -> tuple[Instants, list[int], list[int]]:
    """Instants and parameters by new numbers, edges and terms in another order; the new numbers of
    both.
    """
    name, parameter, order = (
        list(range(len(graph))),
        list(range(graph.parameters)),
        list(graph.edges),
    )
    for numbers in (name, parameter, order):
        chance.shuffle(numbers)
    edges = tuple(
        Edge(
            name[e.source],
            name[e.target],
            e.lag_ns,
            tuple((parameter[p], a) for p, a in e.terms[::-1]),
        )
        for e in order
    )
    residual = [0] * len(graph)
    for v, r in enumerate(graph.residual_ns):
        residual[name[v]] = r
    return Instants(tuple(residual), edges, graph.parameters), name, parameter


@LAW
@given(graphs(amounts=either_way), values(), values(-3, 3), shuffles)
def test_names_and_order_say_nothing(
    graph: Instants, at: list[float], direction: list[float], chance: Any
) -> None:
    """Instants and parameters renumbered, edges and terms in another order."""
    other, name, parameter = shuffled(graph, chance)
    there, towards = [0.0] * PARAMETERS, [0.0] * PARAMETERS
    for p in range(PARAMETERS):
        there[parameter[p]], towards[parameter[p]] = at[p], direction[p]
    found = other.instants_ns(there)
    assert [found[name[v]] for v in range(len(graph))] == graph.instants_ns(at).tolist()
    assert other.slopes_ns(there, towards).tolist() == graph.slopes_ns(at, direction).tolist()
    one, two = graph.line_ns(at, direction, -8, 8), other.line_ns(there, towards, -8, 8)
    assert two.slopes_ns.tolist() == pytest.approx(
        one.slopes_ns.tolist()
    ) and two.knots.tolist() == pytest.approx(one.knots.tolist())


def cut(graph: Instants, chosen: Sequence[int], quarters_first: int) -> Instants:
    """Some edges cut in two by an instant of their own, lag and amounts shared; they must be
    multiples of 4.
    """
    edges, count = list(graph.edges), len(graph)
    for i in chosen:
        whole, share = graph.edges[i], quarters_first
        first = [(p, a * share // 4) for p, a in whole.terms]
        rest = [(p, a - b) for (p, a), (_, b) in zip(whole.terms, first, strict=True)]
        middle = count + len(edges) - len(graph.edges)
        lag = whole.lag_ns * share // 4
        edges[i] = Edge(whole.source, middle, lag, tuple(first))
        edges.append(Edge(middle, whole.target, whole.lag_ns - lag, tuple(rest)))
    return Instants(graph.residual_ns + (0,) * len(chosen), tuple(edges), graph.parameters)


@LAW
@given(graphs(amounts=either_way), values(), st.integers(0, 4), st.sets(st.integers(0, 60)))
def test_one_activity_or_two_are_the_same(
    graph: Instants, at: list[float], share: int, some: set[int]
) -> None:
    chosen = sorted(i for i in some if i < len(graph.edges))
    whole = stretched(graph, 4)
    assert (
        cut(whole, chosen, share).instants_ns(at)[: len(graph)].tolist()
        == whole.instants_ns(at).tolist()
    )


def implied(graph: Instants, chance: Any) -> list[Edge]:
    """Edges that say nothing new: copies, earlier ones, two in a row as one, nothing more than that
    one comes after another.
    """
    after: dict[int, set[int]] = {v: set() for v in range(len(graph))}
    for _ in range(len(graph)):
        for e in graph.edges:
            after[e.source] |= {e.target} | after[e.target]
    found = [Edge(u, v, 0) for u, reached in after.items() for v in reached]
    found += [replace(e, lag_ns=max(e.lag_ns - chance.randint(0, 9), 0)) for e in graph.edges]
    for a in graph.edges:
        for b in graph.edges:
            if a.target == b.source and len(a.terms) + len(b.terms) <= 2:
                found.append(Edge(a.source, b.target, a.lag_ns + b.lag_ns, a.terms + b.terms))
    some: list[Edge] = chance.sample(found, min(len(found), 20))
    return some


@LAW
@given(graphs(amounts=either_way), values(), values(-3, 3), shuffles)
def test_what_follows_from_others_changes_nothing(
    graph: Instants, at: list[float], direction: list[float], chance: Any
) -> None:
    more = graph.with_edges(*implied(graph, chance))
    assert more.instants_ns(at).tolist() == graph.instants_ns(at).tolist()
    assert more.slopes_ns(at, direction).tolist() == graph.slopes_ns(at, direction).tolist()


@LAW
@given(graphs(amounts=either_way), values(), st.integers(0, 10**12))
def test_a_later_start_is_later_by_as_much(graph: Instants, at: list[float], shift: int) -> None:
    waiting = {e.target for e in graph.edges}
    later = replace(
        graph,
        residual_ns=tuple(
            r if v in waiting else r + shift for v, r in enumerate(graph.residual_ns)
        ),
    )
    assert later.instants_ns(at).tolist() == (graph.instants_ns(at) + shift).tolist()


SLOWER = {"host": 0.5, "call": 0.25, "run": -0.25, "deliver": 3_000.0, "sync": 777.0, "queue": 64.0}


def assert_cuts_and_numbers_say_nothing(graph: Instants, row: Sequence[float], chance: Any) -> None:
    """The run time of a run's graph with some edges cut in two, some said twice, and everything
    renumbered.
    """
    some = chance.sample(range(len(graph.edges)), min(len(graph.edges), 9))
    again = [
        replace(graph.edges[i], lag_ns=max(graph.edges[i].lag_ns - chance.randint(0, 9), 0))
        for i in some
    ]
    parted = cut(stretched(graph.with_edges(*again), 4), some, chance.randint(0, 4))
    other, _, parameter = shuffled(parted, chance)
    there = [0.0] * len(row)
    for p, value in enumerate(row):
        there[parameter[p]] = value
    assert other.last_ns(there) == 4 * graph.last_ns(row)


@FEWER
@given(
    gpu_traces() | soups(),
    st.integers(1, 10**14),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
    shuffles,
)
def test_a_recording_by_other_names_is_the_same_graph(
    trace: Trace, shift: int, add: int, turn: bool, swap: bool, chance: Any
) -> None:
    """Zero of the clock, numbers of processes, devices and streams, and an activity cut in two."""
    graph = of_run(dependencies(build(trace)))
    row = [SLOWER.get(word, 0.0) for word in EDGES]
    expected = graph.last_ns(row)
    assert of_run(dependencies(build(moved(trace, shift)))) == graph
    assert (
        of_run(dependencies(build(renamed(renumbered(trace, add, turn, swap))))).last_ns(row)
        == expected
    )
    assert_cuts_and_numbers_say_nothing(graph, row, chance)


# --- closed forms ---------------------------------------------------------------------------------


def pipeline(stages: Sequence[int], items: int, terms: bool = False) -> Instants:
    """Items through stages, each stage one item at a time; parameter 0 is a share of the first
    stage.
    """
    edges: list[Edge] = []

    def instant(item: int, stage: int) -> int:
        return 1 + 2 * (item * len(stages) + stage)

    for item in range(items):
        for stage, lasts in enumerate(stages):
            begin = instant(item, stage)
            edges.append(
                Edge(begin, begin + 1, lasts, ((0, lasts),) if terms and stage == 0 else ())
            )
            edges.append(Edge(instant(item, stage - 1) + 1 if stage else 0, begin, 0))
            if item:
                edges.append(Edge(instant(item - 1, stage) + 1, begin, 0))
    return Instants((0,) * (1 + 2 * items * len(stages)), tuple(edges), PARAMETERS)


@LAW
@given(st.lists(st.integers(0, 500), min_size=1, max_size=5), st.integers(1, 12), quarters(0, 8))
def test_a_pipeline_takes_its_stages_once_and_its_longest_for_each_other_item(
    stages: list[int], items: int, share: float
) -> None:
    """Sum t_j + (n - 1) max t_j (models.md eq. 12, unbalanced); one item is the chain."""
    graph = pipeline(stages, items, terms=True)
    slower = [stages[0] * (1 + share), *stages[1:]]
    expected = [sum(s) + (items - 1) * max(s) for s in (stages, slower)]
    assert graph.last_ns(NOTHING, [share, 0, 0]).tolist() == expected
    knots = graph.line_ns(NOTHING, [1.0, 0, 0], 0.0, 8.0).knots[1:-1].tolist()
    rest = max(stages[1:], default=0)
    assert knots == (
        [pytest.approx(rest / stages[0] - 1)]
        if stages[0] < rest < 9 * stages[0] and items > 1
        else []
    )


@LAW
@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 6))
def test_copies_overlap_by_the_stream_law(
    copy_in: int, kernel: int, copy_out: int, log_streams: int
) -> None:
    """In m streams: sum / m + (m - 1) / m max (P8); one stream is the chain, many are the longest
    of the three (P13).
    """
    streams, whole = 2**log_streams, [64 * copy_in, 64 * kernel, 64 * copy_out]
    (run,) = pipeline([t // streams for t in whole], streams).last_ns(NOTHING)
    assert run == sum(whole) / streams + (streams - 1) / streams * max(whole)
    if streams == 1:
        assert run == sum(whole)
    assert max(whole) <= run <= max(whole) + (sum(whole) - max(whole)) / streams


@LAW
@given(
    st.integers(1, 12),
    st.integers(0, 60),
    st.integers(1, 4_000),
    st.integers(0, 50),
    st.integers(0, 50),
)
def test_slack_of_launches_hides_behind_kernels(
    count: int, call: int, kernel: int, delivery: int, back: int
) -> None:
    """One thread launches and waits once: until calls take longer than kernels, only the wait's own
    slack is felt (P11).
    """
    edges, at, before = [], 0, 0
    for i in range(count):
        begin, start = 1 + 3 * i, 2 + 3 * i
        edges += [
            Edge(at, begin, 0),
            Edge(begin, begin + 2, call, ((0, 1),)),
            Edge(begin, start, delivery),
            Edge(before, start, 0),
        ]
        at = begin + 2
        edges.append(Edge(start, 3 * count + 1 + i, kernel))
        before = 3 * count + 1 + i
    wait, done = 4 * count + 1, 4 * count + 2
    edges += [
        Edge(at, wait, 0),
        Edge(wait, done, call, ((0, 1),)),
        Edge(before, done, back, ((0, 1),)),
    ]
    graph = Instants((0,) * (4 * count + 3), tuple(edges), PARAMETERS)

    def run(slack: float) -> float:
        step = call + slack
        return max(
            delivery + kernel + (count - 1) * max(step, kernel) + back + slack, (count + 1) * step
        )

    for slack in (0.0, 0.25, 10.0, kernel / 2, float(kernel), 5_000.0):
        assert graph.last_ns([slack, 0, 0]) == [run(slack)]
    if count > 1 and call < kernel and call <= delivery + back:
        bent = graph.line_ns(NOTHING, [1.0, 0, 0], 0.0, 10_000.0)
        assert (
            bent.slopes_ns[0] == 1.0
            and bent.knots[1] == pytest.approx(kernel - call)
            and bent.slopes_ns[1] >= count
        )


# --- runs -----------------------------------------------------------------------------------------

TIMELINE = replace(nething("hold"), replay="timeline")


def replayed_on(ready: Prepared, pair: Pair, model: Model = TIMELINE) -> Replayed:
    """What `turnbuckle.projection.project.project` puts into its answer, for any order: laws hold
    for one that nobody should trust, too.
    """
    return order_replayed(ready, anchored(ready.run, pair.source, pair.target, model))


@FEWER
@given(gpu_traces())
def test_a_perfect_link_leaves_the_path_of_everything_else(trace: Trace) -> None:
    """No latency and any bandwidth: the run without what copies take (P13); the fastest kernels:
    the run without kernels.
    """
    profile = build(trace)
    ready = prepared(profile, TIMELINE)
    assert ready.timeline is not None
    graph = ready.timeline.graph
    kind = profile.activities["kind"].cast(str).to_numpy()[graph.activity]
    # a copy without a size, also one whose size cannot be (P240), keeps its time
    priced = profile.activities["size_bytes"].is_not_null().to_numpy()[graph.activity]
    plain = {n: v for n, v in FULL.items() if not n.startswith("observed")}
    perfect = {
        n: 1e-30 if n.endswith("latency") else 1e30
        for n in plain
        if n.startswith("link.") and not n.endswith("efficiency")
    }
    runs = of_run(graph)
    for target, model, gone in (
        (
            machine(plain | perfect, "link"),
            TIMELINE,
            ("copy_h2d", "copy_d2h", "copy_p2p", "migration"),
        ),
        (machine(plain, "kernels"), replace(nething(1e30), replay="timeline"), ("kernel",)),
    ):
        free = [
            EDGES[k] in ("run", "fault") and kind[p] in gone and (kind[p] == "kernel" or priced[p])
            for k, p in zip(graph.kind, graph.payer, strict=True)
        ]
        edges = tuple(
            replace(e, lag_ns=0 if f else e.lag_ns, terms=())
            for e, f in zip(runs.edges, free, strict=True)
        )
        shorter = max(replayed(replace(runs, edges=edges), [0] * len(EDGES)))
        expected = profile.seconds + (shorter - int(graph.time_ns.max())) * 1e-9
        found = replayed_on(ready, Pair(machine(plain), target), model)
        assert float(found.seconds) == pytest.approx(expected, rel=1e-9, abs=1e-12)


#: Recordings of programs of which another recording stays.
ALIKE = (
    "gomory_r3",
    "gomory_r16",
    "gomory_r19",
    "concurrent_s1",
    "concurrent_s2",
    "exgpu_s10",
    "exgpu_s1000",
    "rtx3090_b",
)


def gpu_runs(shared: Path, most_bytes: int) -> Iterator[tuple[str, Run]]:
    """Real runs with GPU work, one of each program, as recordings no larger than this."""
    for file in sorted((shared / "traces/nsys").glob("**/*.sqlite")):
        if file.stat().st_size <= most_bytes and not file.parent.name.endswith(ALIKE):
            yield file.parent.name, run_of(file)


def graph_of(run: Run) -> Graph:
    assert run.ordered.timeline is not None
    return run.ordered.timeline.graph


def test_distance_on_every_real_run(shared: Path) -> None:
    """In both ways of inserting it, and for each latency, run time is monotone, convex, inside its
    envelope, and felt in the end.
    """
    source, steps = machine(FULL), np.array([0.0, 1.0, 100.0, 10_000.0])
    runs = list(gpu_runs(shared, 4_000_000))
    assert len(runs) >= 13
    for name, run in runs:
        ready = run.ordered
        # a launch that loads code has no price: of one run it is the only one that finds its device
        # idle
        idle = ((ready.run.kind == "launch") & ready.run.idle_device & ~ready.run.one_off).any()
        for delay in ("slack.call", "slack.link", "launch.latency", "link.h2d.latency"):
            base = FULL.get(delay, 0.0)
            found = [
                replayed_on(ready, Pair(source, machine({**FULL, delay: base + s * 1e-6}, "far")))
                for s in steps
            ]
            seconds = np.array([float(p.seconds) for p in found])
            slope = np.diff(seconds) / np.diff(steps * 1e-6)
            assert seconds[0] == run.seconds
            assert (slope >= -1e-6).all() and (
                np.diff(slope) >= -1e-6 * np.maximum(slope[1:], 1)
            ).all(), (name, delay)
            assert all(p.lower - 1e-12 <= p.seconds <= p.upper * (1 + 1e-12) for p in found), (
                name,
                delay,
            )
            felt = not delay.startswith("link") and (idle or delay != "launch.latency")
            assert not felt or slope[-1] > 0.5, (name, delay)


@pytest.mark.parametrize("mode", MODES)
def test_the_slack_curve_of_a_real_run_is_its_projections(shared: Path, mode: Mode) -> None:
    """The curve with every breakpoint passes through the run time of every machine so far away, and
    bends upwards.
    """
    name = {"link": "slack.link", "api": "slack.call"}[mode]
    asked = 0
    for stem, recorded in gpu_runs(shared, 1_900_000):
        run = recorded.judged
        if run.ordered.trust is None or run.ordered.trust.refused:
            continue
        asked += 1
        curve, distance = tolerate(run, mode, draws=0).curve, Distance.of(run, mode)
        assert (
            (np.diff(curve.slopes) >= 0).all()
            and (curve.slopes >= 0).all()
            and float(curve(0.0)) == run.seconds
        ), stem
        for away in (1e-7, 1e-6, 3e-5, 1e-3, 1e-2):
            far = replace(
                distance.source.with_parameters({name: parameter(name, away)}), name="far"
            )
            found = replayed_on(distance.ready, Pair(distance.source, far), MODEL)
            assert float(found.seconds) == pytest.approx(float(curve(away)), rel=2e-12), (
                stem,
                away,
            )
    assert asked >= 5


def test_cuts_and_numbers_say_nothing_of_real_runs(shared: Path) -> None:
    row = [SLOWER.get(word, 0.0) for word in EDGES]
    for seed, (_, run) in enumerate(gpu_runs(shared, 1_200_000)):
        assert_cuts_and_numbers_say_nothing(of_run(graph_of(run)), row, Random(seed))


def test_the_line_of_a_real_run_adds_up(shared: Path) -> None:
    """Launches, calls and returns later by up to 1 ms: knots, slopes and run times agree with
    single replays, and bend upwards.
    """
    direction = [{"call": 0.001, "deliver": 1.0, "sync": 1.0}.get(word, 0.0) for word in EDGES]
    unchanged = [0.0] * len(EDGES)
    for name, recorded in gpu_runs(shared, 1_800_000):
        graph = of_run(graph_of(recorded))
        bent = graph.line_ns(unchanged, direction, 0.0, 1e6)
        middle = (bent.knots[1:] + bent.knots[:-1]) / 2
        places = np.concatenate([bent.knots, middle])
        run = graph.last_ns(*([x * d for d in direction] for x in places))
        # pieces that gain less than 1e-12 of the longest run are left out
        assert np.interp(places, bent.knots, bent.values_ns) == pytest.approx(
            run, rel=0, abs=2e-12 * run.max()
        ), name
        assert bent.gap_ns == 0 and (np.diff(bent.slopes_ns) > 0).all(), name
        for x, slope in list(zip(middle, bent.slopes_ns, strict=True))[:5]:
            assert graph.slopes_ns([x * d for d in direction], direction)[0, 1:] == pytest.approx(
                [slope, slope], rel=1e-9
            ), name
