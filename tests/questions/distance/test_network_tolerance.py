"""Tolerance of the network: one number with `project --network`, and with a linear program
(HiGHS).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest
from mpi_rows import Row, call, recorded
from runs import run_of

from turnbuckle.foundation.errors import CannotAnswer, UsageError
from turnbuckle.profile.profile import build
from turnbuckle.projection.elsewhere.network import OnNetwork, other_network
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.network import tolerate_network
from turnbuckle.questions.distance.question import tolerate

US = 1_000
#: Added latencies at which two ways to ask are compared [s].
LATENCIES = (0.0, 1.3e-6, 2.5e-5, 4e-4, 7.7e-3)


@cache
def ring() -> Run:
    """Four ranks: each sends to the next, works for a time of its own, and meets the others in an
    allreduce; four rounds.
    """
    rows: list[Row] = []
    now = [0] * 4
    for turn in range(4):
        sent = list(now)
        for r in range(4):
            rows.append(
                call(
                    r,
                    "Send",
                    sent[r] * US,
                    (sent[r] + 1) * US,
                    partner=(r + 1) % 4,
                    tag=turn,
                    size_bytes=1 << (8 + turn),
                )
            )
        for r in range(4):
            arrives = max(sent[(r - 1) % 4] + 12, sent[r] + 2)
            rows.append(
                call(
                    r,
                    "Recv",
                    (sent[r] + 1) * US,
                    arrives * US,
                    partner=(r - 1) % 4,
                    tag=turn,
                    size_bytes=1 << (8 + turn),
                )
            )
            now[r] = arrives + 30 * (r + 1) + 7 * turn
        until = max(now) + 20
        rows += [
            call(r, "Allreduce", now[r] * US, until * US, size_bytes=64, receive_bytes=64)
            for r in range(4)
        ]
        now = [until + 3 * r for r in range(4)]
    return Run.of(build(recorded(*rows, ranks=4)))


def projected(run: Run, asked: OnNetwork, latencies: Sequence[float]) -> list[float]:
    """Return the run times on a network whose latency is longer by each of these [s]."""
    plain = run.project(network=asked, draws=0).projections[0].network
    assert plain is not None
    # messages share nothing on an exact curve
    longer = [
        (
            "fidelity=logp",
            *asked.settings,
            f"hop_seconds={(plain.target.latency_s + latency) / 2!r} s",
        )
        for latency in latencies
    ]
    return [
        run.project(network=OnNetwork(asked.name, words, asked.source), draws=0)
        .projections[0]
        .seconds
        for words in longer
    ]


@pytest.mark.parametrize(
    "asked",
    [
        OnNetwork("self"),
        OnNetwork("perlmutter"),
        OnNetwork("perlmutter", ("ranks_per_node=2",), "lassen"),
    ],
)
def test_the_curve_is_what_project_says(asked: OnNetwork) -> None:
    run = ring()
    curve = tolerate_network(run, asked).curve
    assert curve.gap == 0
    assert curve(np.array(LATENCIES)).tolist() == pytest.approx(
        projected(run, asked, LATENCIES), abs=1e-9
    )
    assert (np.diff(curve.slopes) > 0).all()


def test_latency_beside_a_backbone_is_counted_once(tmp_path: Path) -> None:
    """A wide backbone of 3 us between links of 1 us is links of 2.5 us, however much latency is
    added.
    """
    for name, words in (
        ("shared", 'lat="1us" bb_bw="1TBps" bb_lat="3us"'),
        ("plain", 'lat="2500ns"'),
    ):
        cluster = (
            f'<cluster id="c" prefix="" suffix="" radical="0-3" speed="1Gf" bw="100Gbps" {words}/>'
        )
        (tmp_path / f"{name}.xml").write_text(f'<platform version="4.1">{cluster}</platform>')
    run = ring()
    shared, plain = (
        OnNetwork(str(tmp_path / f"{name}.xml"), ("ranks_per_node=1",))
        for name in ("shared", "plain")
    )
    curve = tolerate_network(run, shared).curve
    assert curve(np.array(LATENCIES)).tolist() == pytest.approx(
        projected(run, plain, LATENCIES), abs=1e-9
    )


@pytest.mark.parametrize(
    "name",
    [
        "nsys-local/halo-py-4r.sqlite",
        "nsys-local/p2pkinds-2r.sqlite",
        "otf2/sstmacro_halo_10rank/traces.otf2",
    ],
)
def test_on_real_runs_too(shared: Path, name: str) -> None:
    run = run_of(shared / "traces" / name)
    answer = tolerate_network(run)
    assert (
        answer.curve.seconds[0] == pytest.approx(run.seconds, abs=1e-12)
        and answer.network is not None
    )
    latencies = LATENCIES[1::2]
    assert answer.curve(np.array(latencies)).tolist() == pytest.approx(
        projected(run, OnNetwork("self"), latencies), abs=2e-9
    )
    assert answer.messages_on_path is not None and answer.messages_on_path > 1


def optimum(run: Run, latency: float, first: float, last: float) -> tuple[float, float]:
    """Least run time [s] that every dependency allows, and its change with the latency, by a linear
    program.

    Prices are straight between `first` and `last`.
    """
    other = other_network(run.between, run.ordered.timeline, OnNetwork("self", ("fidelity=logp",)))
    graph, low, high = other.graph, other.added_ns(first), other.added_ns(last)
    slope = (high - low) / (last - first)
    count = len(graph.time_ns)
    infinity = highspy.kHighsInf
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    fixed = latency - first
    solver.addVars(
        count + 2,
        np.array([0.0] * (count + 1) + [fixed]),
        np.array([infinity] * (count + 1) + [fixed]),
    )
    solver.changeColCost(count, 1.0)
    for source, target, lag, base, rise in zip(
        graph.source, graph.target, graph.lag_ns, low, slope, strict=True
    ):
        residual = float(graph.residual_ns[target])
        columns = np.array([target, source, count + 1], dtype=np.int32)
        solver.addRow(
            float(lag) + float(base) + residual,
            infinity,
            3,
            columns,
            np.array([1.0, -1.0, -float(rise)]),
        )
        solver.addRow(residual, infinity, 2, columns[:2], np.array([1.0, -1.0]))
    for v in range(count):
        solver.addRow(0.0, infinity, 2, np.array([count, v], dtype=np.int32), np.array([1.0, -1.0]))
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return solver.getObjectiveValue() * 1e-9, solver.getSolution().col_dual[count + 1] * 1e-9


@pytest.mark.parametrize("latency", [3e-6, 6e-5, 5e-4])
def test_a_linear_program_finds_the_same_run_time_and_as_many_latencies(latency: float) -> None:
    run = ring()
    curve = tolerate_network(run).curve
    first, last = next(
        (a, b) for a, b in ((0.0, 1e-5), (1e-5, 1e-4), (1e-4, 1e-3)) if a <= latency < b
    )
    seconds, slope = optimum(run, latency, first, last)
    beyond = (
        run.seconds - float(run.ordered.timeline.graph.time_ns.max()) * 1e-9
        if run.ordered.timeline is not None
        else 0.0
    )
    assert float(curve(latency)) == pytest.approx(seconds + beyond, abs=1e-9)
    assert slope == pytest.approx(
        float(curve.slopes[int(np.searchsorted(curve.at, latency)) - 1]), rel=1e-4
    )


def test_the_gpu_may_stand_farther_on_another_network(shared: Path) -> None:
    """The distance of the GPU on another network begins with the run on that network."""
    run = run_of(shared.parent / "shared/traces/nsys/jacobi_gh200/jacobi_report.sqlite")
    with pytest.raises(CannotAnswer, match="A164"):
        tolerate(run, "link", network="perlmutter")


def test_the_command_line(turnbuckle: Callable[..., Any], shared: Path) -> None:
    file = str(shared / "traces/nsys-local/halo-py-4r.sqlite")
    table = " ".join(turnbuckle("slack", file, "--mode", "network").out.split())
    assert (
        "distance of the nodes" in table
        and "the critical path crosses the network" in table
        and "latency added to messages" in table
    )
    answer = json.loads(turnbuckle("slack", file, "--mode", "network", "--format", "json").out)
    assert (
        answer["mode"] == "network"
        and answer["network"]["messages"] == 1600
        and answer["latencies_on_path"] > 1
    )
    assert (
        answer["curve"][0]["seconds"] == pytest.approx(answer["measured_seconds"], abs=1e-12)
        and answer["calls"] == []
    )


NAMED = OnNetwork("perlmutter", ("ranks_per_node=2",), "lassen")


@pytest.mark.parametrize("asked", [OnNetwork("perlmutter"), NAMED])
def test_the_cost_of_a_byte_is_what_project_says(asked: OnNetwork) -> None:
    """One number: the curve at a cost, and `project` on the network whose NICs have the bandwidth
    divided by it.
    """
    run = ring()
    answer = run.distance("network", "bandwidth", network=asked)
    assert (
        answer.curve.gap == 0
        and answer.network is not None
        and answer.network.target.bandwidth is not None
    )
    for cost in (0.1, 0.35, 1.0, 1.7, 10.0):
        words = (
            *asked.settings,
            "fidelity=logp",
            f"card_bandwidth={answer.network.target.bandwidth / cost!r} B/s",
        )
        projected = (
            run.project(network=OnNetwork(asked.name, words, asked.source), draws=0)
            .projections[0]
            .seconds
        )
        assert float(answer.curve(cost)) == pytest.approx(projected, abs=2e-9), cost
    assert (np.diff(answer.curve.slopes) > 0).all() and answer.curve.slopes[0] >= 0


def test_what_a_real_run_loses_to_slower_nics(shared: Path, turnbuckle: Callable[..., Any]) -> None:
    path = shared / "traces/nsys-local/lammps-melt-4r.sqlite"
    run = run_of(path)
    answer = run.distance("network", "bandwidth")
    assert float(answer.curve(1.0)) == pytest.approx(run.seconds, abs=1e-12)
    assert answer.network is not None and answer.network.target.bandwidth is not None
    slower = OnNetwork(
        "self",
        (
            "fidelity=logp",
            f"card_bandwidth={answer.network.target.bandwidth / 5!r} B/s",
        ),
    )
    assert float(answer.curve(5.0)) == pytest.approx(
        run.project(network=slower, draws=0).projections[0].seconds, abs=2e-9
    )
    said = json.loads(
        turnbuckle(
            "slack", path, "--mode", "network", "--over", "bandwidth", "--format", "json"
        ).out
    )
    assert (
        said["curve"] == json.loads(answer.to_json())["curve"]
        and said["network"]["source"]["name"] == "observed"
    )


def test_no_bandwidth_where_messages_are_alike() -> None:
    alike = [
        row
        for k in range(6)
        for row in (
            call(
                k % 2,
                "Send",
                40 * k * US,
                (40 * k + 1) * US,
                partner=1 - k % 2,
                tag=k,
                size_bytes=4096,
            ),
            call(
                1 - k % 2,
                "Recv",
                40 * k * US,
                (40 * k + 20) * US,
                partner=k % 2,
                tag=k,
                size_bytes=4096,
            ),
        )
    ]
    run = Run.of(build(recorded(*alike)))
    with pytest.raises(CannotAnswer, match="A195"):
        run.distance("network", "bandwidth")


def test_python_asks_by_the_same_method() -> None:
    run = ring()
    method, function = run.distance("network"), tolerate_network(run)
    assert (
        method.tolerances == function.tolerances
        and (method.curve.at == function.curve.at).all()
        and method.mode == "network"
    )


def test_what_is_refused() -> None:
    run = ring()
    with pytest.raises(UsageError, match="A015"):
        tolerate_network(run, machine="cdi-row-api")
    with pytest.raises(CannotAnswer, match="A164"):
        tolerate_network(Run.of(build(recorded(call(0, "Barrier", 0, 10), ranks=1))))
