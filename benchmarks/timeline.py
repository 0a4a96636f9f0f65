"""Replay graphs: the native timeline beside rustworkx, networkx, SimPy and NumPy, and beside what
memory would allow.

    python benchmarks/timeline.py [--events 10000000] [--rounds 5] [--out benchmarks/out/timeline.json]

An event is an activity: a host call, a kernel, a copy. It is two instants of the graph, its start
and its end. All that is compared gives the same run time, or the benchmark stops. README.md says
how to read the table.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from measuring import clocked, conclude, in_fresh_process, peak_bytes, restart_peak, spread

HERE = Path(__file__).resolve().parent
LIMIT_SECONDS = 600
NONE = 0xFFFFFFFF
STREAMS, LAUNCHES, COPIES, PIECES = 4, 20, 2, 24
WORKS = LAUNCHES + COPIES
DELIVERY_NS, RETURN_NS = 3_000, 1_000
SCENARIOS = 64
# events of the cuts for what is too slow for the whole graph
CUTS = {"rustworkx": 200_000, "networkx": 50_000, "SimPy": 20_000, "NumPy, level by level": 20_000}
Ints = NDArray[np.int64]
Row = dict[str, Any]


@dataclass(frozen=True)
class Graph:
    """Instants and edges as `turnbuckle._native.Timeline` takes them; no amount: as many
    nanoseconds a unit as the lag has.
    """

    events: int
    residual: Ints
    source: Ints
    target: Ints
    lag: Ints
    scaled_by: Ints
    delayed_by: Ints
    parameters: int

    def arrays(self) -> tuple[Any, ...]:
        """What the native class is made from."""
        source, target, first, second = (
            a.astype(np.uint32) for a in (self.source, self.target, self.scaled_by, self.delayed_by)
        )
        amount, added = self.lag.astype(np.float64), np.full(len(self.lag), 1e9)
        return (
            len(self.residual),
            source,
            target,
            self.lag,
            first,
            amount,
            second,
            added,
            self.residual,
            self.parameters,
        )

    def native(self) -> Any:
        """The compiled graph."""
        from turnbuckle._native import Timeline

        return Timeline(*self.arrays())

    def scenarios(self, count: int) -> NDArray[np.float64]:
        """Durations between 0.8 and 1.2 times as long, delays up to a microsecond; the first
        changes nothing.
        """
        values = np.random.default_rng(2).uniform(0, 1, (count, self.parameters))
        half = self.parameters // 2
        values[:, :half] = 0.4 * values[:, :half] - 0.2
        values[:, half:] *= 1e-6
        values[0] = 0
        return values

    def weights(self) -> Ints:
        """Lag and what no rule explains: all that a longest path adds up."""
        return self.lag + self.residual[self.target]


@dataclass(frozen=True)
class Loop:
    """A host thread that launches kernels and copies on four streams and waits for the device,
    again and again; all times [ns].

    `gap` and `call` have a column for every call of an iteration, the last one waits; `idle` and
    `work` one for all device work.
    """

    gap: Ints
    call: Ints
    idle: Ints
    work: Ints

    @classmethod
    def drawn(cls, events: int) -> Loop:
        """About `events` activities."""
        count, rng = max(1, events // (2 * WORKS + 1)), np.random.default_rng(1)
        host, device = (count, WORKS + 1), (count, WORKS)
        return cls(
            rng.integers(200, 2_000, host),
            rng.integers(2_000, 5_000, host),
            rng.integers(0, 300, device),
            rng.integers(1_500, 30_000, device),
        )

    def graph(self) -> Graph:
        """Its instants: 0 is the start of the run, 2i+1 and 2i+2 are begin and finish of activity
        i.
        """
        count, each = len(self.gap), 2 * WORKS + 1
        first = each * np.arange(count)[:, None]
        host, device = first + 2 * np.arange(WORKS + 1), first + 2 * np.arange(WORKS) + 1
        kind = np.random.default_rng(3).integers(0, PIECES, 2 * WORKS + 1)
        of_host, of_device = (
            np.broadcast_to(kind[: WORKS + 1], host.shape),
            np.broadcast_to(kind[WORKS + 1 :], device.shape),
        )
        parts: list[tuple[Any, ...]] = [
            (
                2 * host.ravel()[:-1] + 2,
                2 * host.ravel()[1:] + 1,
                self.gap.ravel()[1:],
                PIECES,
                NONE,
            ),
            (2 * host + 1, 2 * host + 2, self.call, of_host, PIECES + 1 + of_host),
            (2 * host[:, :-1] + 1, 2 * device + 1, DELIVERY_NS, NONE, 2 * PIECES + 1),
            (2 * device + 1, 2 * device + 2, self.work, of_device, PIECES + 1 + of_device),
            ([0], [1], self.gap[0, 0], PIECES, NONE),
        ]
        for stream in range(STREAMS):
            own = device[:, stream::STREAMS]
            parts.append((2 * own.ravel()[:-1] + 2, 2 * own.ravel()[1:] + 1, 0, NONE, NONE))
            parts.append((2 * own[:, -1] + 2, 2 * host[:, -1] + 2, RETURN_NS, NONE, 2 * PIECES + 2))
        residual = np.zeros(2 * each * count + 1, dtype=np.int64)
        residual[2 * device + 1] = self.idle
        whole = [
            np.concatenate([np.broadcast_to(p[i], np.shape(p[0])).ravel() for p in parts])
            for i in range(5)
        ]
        return Graph(each * count, residual, *whole, parameters=2 * PIECES + 3)

    def simulated(self) -> int:
        """Run time [ns] by SimPy: a process for the host thread and one for every stream."""
        import simpy

        env = simpy.Environment()
        gap, call, idle, work = (a.tolist() for a in (self.gap, self.call, self.idle, self.work))
        called = [[env.event() for _ in range(WORKS)] for _ in gap]
        done = [[env.event() for _ in range(STREAMS)] for _ in gap]

        def host() -> Iterator[Any]:
            for i in range(len(gap)):
                for j in range(WORKS):
                    yield env.timeout(gap[i][j])
                    called[i][j].succeed(env.timeout(DELIVERY_NS))
                    yield env.timeout(call[i][j])
                yield env.timeout(gap[i][WORKS])
                own = env.timeout(call[i][WORKS])
                ended = yield env.all_of(done[i])
                back = max(ended.values()) + RETURN_NS - env.now
                if back > 0:
                    yield env.timeout(back)
                yield own

        def stream(k: int) -> Iterator[Any]:
            for i in range(len(gap)):
                for j in range(k, WORKS, STREAMS):
                    delivered = yield called[i][j]
                    yield delivered
                    yield env.timeout(idle[i][j] + work[i][j])
                done[i][k].succeed(env.now)

        env.process(host())
        for k in range(STREAMS):
            env.process(stream(k))
        env.run()
        return int(env.now)


def repeated(events: int) -> tuple[str, Graph]:
    """The largest real trace at hand, else the sample, so often one after the other that there are
    about `events`.
    """
    from turnbuckle.profile.dependencies.dependencies import dependencies
    from turnbuckle.profile.profile import build
    from turnbuckle.trace.read import read

    found = sorted(
        (HERE.parents[1] / "shared" / "traces").glob("nsys/**/*.sqlite"),
        key=lambda path: path.stat().st_size,
    )
    path = (
        found[-1]
        if found
        else Path(str(files("turnbuckle") / "examples" / "milc-like-synthetic.sqlite"))
    )
    one = dependencies(build(read(path, use_cache=False)))
    kinds, count = int(one.kind.max()) + 1, len(one.time_ns)
    copies = max(1, events // max(1, len(one.activity)))
    shift = count * np.arange(copies)[:, None]
    # the next copy starts when the last instant of the one before has come
    ends = shift[:-1, 0] + int(np.argmax(one.time_ns))
    kind = one.kind.astype(np.int64)

    def all_of(values: Ints, between: Ints | int) -> Ints:
        joined: Ints = np.concatenate(
            [values.ravel(), np.broadcast_to(between, copies - 1)]
        ).astype(np.int64)
        return joined

    every = np.broadcast_to
    shape = (copies, len(kind))
    graph = Graph(
        len(one.activity) * copies,
        np.tile(one.residual_ns, copies),
        all_of(one.source + shift, ends),
        all_of(one.target + shift, shift[1:, 0]),
        all_of(every(one.lag_ns, shape), 0),
        all_of(every(kind, shape), NONE),
        all_of(every(kinds + kind, shape), NONE),
        2 * kinds,
    )
    return ("largest real trace" if found else "sample") + f" x {copies}", graph


def by_levels(graph: Graph) -> Callable[[], float]:
    """NumPy: all instants that are as many edges away from the start at a time, all scenarios
    beside each other.
    """
    incoming = np.argsort(graph.target, kind="stable")
    level = np.zeros(len(graph.residual), dtype=np.int64)
    sources, starts = (
        graph.source[incoming].tolist(),
        np.searchsorted(graph.target[incoming], np.arange(len(level) + 1)).tolist(),
    )
    # finishes of waits follow what was launched before them, so that numbers alone are no order:
    # repeat until nothing moves
    moved = True
    while moved:
        moved = False
        for v in range(len(level)):
            deepest = max((level[u] for u in sources[starts[v] : starts[v + 1]]), default=-1) + 1
            moved, level[v] = moved or deepest != level[v], deepest
    order = np.lexsort((graph.target, level[graph.target]))
    source, target, lag = graph.source[order], graph.target[order], graph.lag[order, None]
    values = np.c_[graph.scenarios(SCENARIOS), np.zeros(SCENARIOS)]
    scaled, delayed = (
        np.minimum(a[order], graph.parameters) for a in (graph.scaled_by, graph.delayed_by)
    )
    lags = np.maximum(0, lag + lag * values.T[scaled] + 1e9 * values.T[delayed])
    heads = np.flatnonzero(np.r_[True, target[1:] != target[:-1]])
    bounds = np.r_[np.flatnonzero(np.r_[True, np.diff(level[target]) > 0]), len(target)]
    cut = np.searchsorted(heads, bounds)
    steps = [
        (a, b, heads[i:j] - a) for a, b, i, j in zip(bounds, bounds[1:], cut, cut[1:], strict=False)
    ]

    def swept() -> float:
        x = np.zeros((len(graph.residual), SCENARIOS))
        for a, b, head in steps:
            own = target[a:b][head]
            x[own] = (
                np.maximum.reduceat(x[source[a:b]] + lags[a:b], head) + graph.residual[own, None]
            )
        return float(x[:, 0].max())

    return swept


def others(rounds: int, most: int) -> Iterator[Row]:
    """The same run on cuts of the generated graph, by packages that are there; building their
    graphs is not timed.
    """

    def made(name: str) -> tuple[Graph, Callable[[], float]]:
        loop = Loop.drawn(min(most, CUTS[name]))
        graph = loop.graph()
        edges = zip(
            graph.source.tolist(), graph.target.tolist(), graph.weights().tolist(), strict=True
        )
        if name == "rustworkx":
            import rustworkx

            dag = rustworkx.PyDiGraph()
            dag.add_nodes_from(range(len(graph.residual)))
            dag.add_edges_from(list(edges))
            return graph, lambda: rustworkx.dag_longest_path_length(
                dag, weight_fn=lambda _s, _t, weight: weight
            )
        if name == "networkx":
            import networkx

            plain = networkx.DiGraph()
            plain.add_weighted_edges_from(edges)
            return graph, lambda: networkx.dag_longest_path_length(plain)
        if name == "SimPy":
            import simpy  # noqa: F401

            return graph, loop.simulated
        return graph, by_levels(graph)

    for name in CUTS:
        scenarios = SCENARIOS if name.startswith("NumPy") else 1
        try:
            graph, work = made(name)
        except ImportError as error:
            yield {"name": name, "missing": str(error)}
            continue
        expected = np.frombuffer(graph.native().last(graph.scenarios(1), threads=1))[0]
        yield {**timed(name, graph, work, rounds, scenarios), "same": bool(work() == expected)}


def timed(
    name: str,
    graph: Graph,
    work: Callable[[], Any],
    rounds: int,
    scenarios: int = 1,
    threads: int = 1,
) -> Row:
    """Wall and CPU seconds of `rounds` runs after one that is not counted, and the peak memory of
    one.
    """
    wall, cpu = clocked(work, rounds)
    before = restart_peak()
    work()
    peak = (peak_bytes() - before) / graph.events
    size = {"events": graph.events, "instants": len(graph.residual), "edges": len(graph.lag)}
    return {
        "name": name,
        **size,
        "scenarios": scenarios,
        "threads": threads,
        "wall": wall,
        "cpu": cpu,
        "extra_bytes_an_event": peak,
    }


def bandwidth(rounds: int) -> float:
    """Bytes a second that one core reads from or copies in memory, whichever is more."""
    source = np.ones(1 << 25)
    copy = np.empty_like(source)
    best = 0.0
    for work, moved in (
        (source.max, source.nbytes),
        (lambda: np.copyto(copy, source), 2 * source.nbytes),
    ):
        best = max(best, moved / min(clocked(work, rounds)[0]))
    return best


def breakpoints(name: str, graph: Graph) -> Row:
    """All breakpoints along a delay of every host call and all device work, 0 to 1 ms."""
    native = graph.native()
    direction = np.r_[
        np.zeros(graph.parameters // 2), np.ones(graph.parameters - graph.parameters // 2)
    ]
    began = time.perf_counter()
    knots, _, _, gap = native.line(
        np.zeros(graph.parameters), direction, 0.0, 1e-3, limit=100_000, threads=1
    )
    seconds = time.perf_counter() - began
    passes, places = native.looks
    return {
        "name": name,
        "events": graph.events,
        "breakpoints": len(knots) // 8 - 2,
        "passes": passes,
        "places": places,
        "seconds": seconds,
        "gap": gap,
    }


def generated(events: int, rounds: int) -> dict[str, Any]:
    """The native timeline on a generated graph, and what memory would allow."""
    from turnbuckle._native import Timeline

    cores = min(2, os.cpu_count() or 1)
    graph = Loop.drawn(events).graph()
    arrays = graph.arrays()
    before, began, spent = restart_peak(), time.perf_counter(), time.process_time()
    native = Timeline(*arrays)
    del arrays
    compiling = {
        "wall": time.perf_counter() - began,
        "cpu": time.process_time() - spent,
        "peak_bytes_an_event": (peak_bytes() - before) / graph.events,
    }
    held, swept = (size / graph.events for size in native.size_bytes)
    many, one = graph.scenarios(SCENARIOS), graph.scenarios(1)
    rows = [
        timed("one scenario, run time", graph, lambda: native.last(one, threads=1), rounds),
        timed(
            "one scenario, all instants and the path", graph, lambda: native.replayed(one), rounds
        ),
        timed("recorded, int64, all instants", graph, native.recorded, rounds),
        timed(
            f"{SCENARIOS} scenarios", graph, lambda: native.last(many, threads=1), rounds, SCENARIOS
        ),
        timed(
            f"{SCENARIOS} scenarios, {cores} threads",
            graph,
            lambda: native.last(many, threads=cores),
            rounds,
            SCENARIOS,
            cores,
        ),
        timed(
            "8 directions, both derivatives",
            graph,
            lambda: native.slopes(one, many[:8], threads=1),
            rounds,
            8,
        ),
    ]
    return {
        "rows": rows,
        "compiling": compiling,
        "graph_bytes_an_event": held,
        "swept_bytes_an_event": swept,
        "bandwidth": bandwidth(rounds),
    }


def recorded(events: int, rounds: int) -> tuple[str, list[Row]]:
    """The native timeline on a real trace repeated."""
    name, graph = repeated(events)
    native, many = graph.native(), graph.scenarios(SCENARIOS)
    rows = [
        timed(
            f"{name}, one scenario", graph, lambda: native.last(many[:1].copy(), threads=1), rounds
        ),
        timed(
            f"{name}, {SCENARIOS} scenarios",
            graph,
            lambda: native.last(many, threads=1),
            rounds,
            SCENARIOS,
        ),
    ]
    return name.split(" x ")[0], rows


def child(events: int, rounds: int) -> dict[str, Any]:
    """Everything, in this process."""
    result = generated(events, rounds)
    name, rows = recorded(max(1, events // 4), rounds)
    bends = [
        breakpoints("generated, cut", Loop.drawn(min(events, 100_000)).graph()),
        breakpoints(name, repeated(1)[1]),
    ]
    rows += others(rounds, events)
    wrong = [row["name"] for row in rows if not row.get("same", True)]
    if wrong:
        raise SystemExit(f"not the same run time: {', '.join(wrong)}")
    return {**result, "rows": [*result["rows"], *rows], "breakpoints": bends}


def measure(events: int, rounds: int) -> dict[str, Any]:
    """All measurements in a fresh process, or ``{"missing": why}``."""
    return in_fresh_process(__file__, (events, rounds), LIMIT_SECONDS)


def rate(row: Row, clock: str = "wall") -> float:
    """Events and scenarios a second and core, by the median."""
    work = float(row["events"] * row["scenarios"])
    return work / statistics.median(row[clock]) / (row["threads"] if clock == "wall" else 1)


def _row(result: dict[str, Any], name: str) -> Row:
    return next(row for row in result["rows"] if row["name"] == name)


def table(result: dict[str, Any]) -> str:
    """The measurements as text."""
    if "missing" in result:
        return f"timeline: not measured: {result['missing']}"
    head = f"{'replay':<42}{'events':>12}{'s':>9}{'(min-max)':>17}{'M ev-sc/s':>11}{'by CPU':>9}{'B/event':>9}"
    lines = [head, "-" * len(head)]
    for row in result["rows"]:
        if "missing" in row:
            lines.append(f"{row['name']}: not measured: {row['missing']}")
            continue
        lines.append(
            f"{row['name']:<42}{row['events']:>12,}{statistics.median(row['wall']):>9.3f}{spread(row['wall']):>17}"
            f"{rate(row) / 1e6:>11.3f}{rate(row, 'cpu') / 1e6:>9.3f}{row['extra_bytes_an_event']:>9.1f}"
        )
    one = _row(result, "one scenario, run time")
    lines.append(
        "M ev-sc/s: million events times scenarios a second and core; by CPU: by CPU "
        "seconds; B/event: peak beyond the graph"
    )
    lines.append(
        f"one scenario: {rate(one) * one['instants'] / one['events'] / 1e6:.0f} M instants/s,"
        f" {rate(one) * one['edges'] / one['events'] / 1e6:.0f} M edges/s; an event is an "
        "activity, two instants,"
        f" here {one['edges'] / one['events']:.2f} edges"
    )
    made = result["compiling"]
    lines.append(
        f"compiled in {made['wall']:.2f} s, {made['cpu']:.2f} s by CPU, peak "
        f"{made['peak_bytes_an_event']:.0f} bytes an event, of which the"
        f" graph keeps {result['graph_bytes_an_event']:.0f}; a pass reads "
        f"{result['swept_bytes_an_event']:.0f}"
    )
    floor = result["bandwidth"] / result["swept_bytes_an_event"]
    quickest = {
        row["name"]: row["events"] / min(row["wall"]) for row in result["rows"] if "wall" in row
    }
    lines.append(
        f"memory: {result['bandwidth'] / 1e9:.1f} GB/s on one core would allow {floor / 1e6:.0f} "
        "M events/s a pass; by the quickest runs"
        f" one scenario is at {quickest[one['name']] / floor:.0%} of that, a pass of eight at"
        f" {quickest[f'{SCENARIOS} scenarios'] * SCENARIOS / 8 / floor:.0%}"
    )
    for bend in result["breakpoints"]:
        each = max(1, bend["breakpoints"])
        lines.append(
            f"breakpoints of {bend['name']} ({bend['events']:,} events): {bend['breakpoints']:,} "
            f"in {bend['seconds']:.2f} s,"
            f" {bend['places'] / each:.2f} places and {bend['passes'] / each:.2f} passes a "
            f"breakpoint, gap {bend['gap']:g} ns"
        )
    return "\n".join(lines)


def targets(result: dict[str, Any]) -> list[tuple[bool, str]]:
    """Each aim: whether it is met, and the sentence that says by how much."""
    if "missing" in result:
        return [(False, f"the timeline was not measured: {result['missing']}")]
    one, many = _row(result, "one scenario, run time"), _row(result, f"{SCENARIOS} scenarios")
    whole = _row(result, "one scenario, all instants and the path")
    real = [row for row in result["rows"] if " x " in row["name"]]
    peak = max(one["extra_bytes_an_event"], whole["extra_bytes_an_event"])
    out: list[tuple[bool, str]] = []
    for row in (one, whole, many, *real):
        unit, aim = ("events/s", 50e6) if row["scenarios"] == 1 else ("event-scenarios/s", 500e6)
        words = (
            f"{row['name']}: {rate(row) / 1e6:.0f} M {unit} a core, {rate(row, 'cpu') / 1e6:.0f} "
            f"by CPU time; aim {aim / 1e6:.0f}"
        )
        out.append((rate(row) >= aim, f"timeline, {words}"))
    out.append(
        (
            peak < 64,
            (
                f"timeline, {whole['name']}: peak {peak:.0f} bytes an event beyond the graph; aim "
                "under 64"
            ),
        )
    )
    return out


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(int(sys.argv[2]), int(sys.argv[3]))))
        return
    parser = argparse.ArgumentParser(description="replay graphs, ours and by other packages")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "timeline.json")
    chosen = parser.parse_args()
    result = measure(chosen.events, chosen.rounds)
    conclude(result, table(result), targets(result), chosen.out)


if __name__ == "__main__":
    main()
