"""Recorded runs as programs: alone they take what the timeline says, together they share their
link.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnbuckle as tb
from turnbuckle.profile.dependencies.dependencies import dependencies
from turnbuckle.profile.dependencies.graph import EDGE, Graph
from turnbuckle.replay.contention.contention import replay
from turnbuckle.replay.contention.graphs import (
    Copies,
    Kernels,
    Pool,
    _most_at_once,
    behind_one_link,
    copies,
    engines,
    initiated,
    initiation,
)
from turnbuckle.replay.contention.network import Network

FAST = 1e18


def alone(profile: tb.Profile) -> tuple[float, float]:
    """Replayed alone on a link that nothing limits, and recorded [s]."""
    graph = dependencies(profile)
    moved = copies(profile, graph)
    hosts = 1 + int(moved.device.max(initial=-1)) + 1
    return replay(behind_one_link(graph, moved), Network(hosts, FAST, 0.0), "flow").seconds, float(
        graph.time_ns.max()
    ) * 1e-9


def test_the_sample_alone_is_itself() -> None:
    with tb.sample() as path:
        found, recorded = alone(tb.read(path).profile)
    assert found == pytest.approx(recorded, rel=1e-9)


@pytest.mark.parametrize(
    "name",
    [
        "cloverleaf_a100_perlmutter",
        "jacobi_gh200",
        "extrap_concurrent_s1",
        "balinski_gomory_r16",
        "h100_2gpu_1s",
    ],
)
def test_real_runs_alone_are_themselves(shared: Path, name: str) -> None:
    found, recorded = alone(
        tb.read(next((shared / "traces" / "nsys" / name).glob("*.sqlite"))).profile
    )
    assert found == pytest.approx(recorded, rel=1e-8), "every copy ends on a whole picosecond"


def one_copy(to_device: bool) -> tuple[Graph, Copies]:
    """A single copy of 1 MB in a millisecond, and nothing else."""
    graph = Graph(
        np.array([0, 0, 1_000_000]),
        np.array([0]),
        np.array([0, 1]),
        np.array([1, 2]),
        np.array([0, 1_000_000]),
        np.array([EDGE["origin"], EDGE["run"]], dtype=np.int8),
        np.zeros(3, np.int64),
        np.zeros(3, np.int64),
        0,
    )
    return graph, Copies(
        np.array([0]), np.array([to_device]), np.array([1e6]), np.array([1e-3]), np.array([0])
    )


@pytest.mark.parametrize("to_device", [True, False])
@pytest.mark.parametrize(
    ("runs", "bandwidth", "expected"),
    [(1, 1e9, 1e-3), (2, 1e9, 2e-3), (2, 2e9, 1e-3), (4, 2e9, 2e-3), (1, 5e8, 2e-3)],
)
def test_copies_share_the_link(
    to_device: bool, runs: int, bandwidth: float, expected: float
) -> None:
    """At 1 GB/s each: as many as fit run as recorded, more take their turn; nobody is faster than
    recorded.
    """
    found = replay(
        behind_one_link(*one_copy(to_device), runs), Network(1 + runs, bandwidth, 0.0), "flow"
    )
    assert found.seconds == pytest.approx(expected, rel=1e-9)
    root = found.carried_bytes[0 if to_device else 1 + runs]
    assert root == runs * 1e6


def test_directions_do_not_share() -> None:
    (graph, there), (_, back) = one_copy(True), one_copy(False)
    both = Graph(
        np.array([0, 0, 1_000_000, 0, 1_000_000]),
        np.array([0, 1]),
        np.array([0, 1, 0, 3]),
        np.array([1, 2, 3, 4]),
        np.array([0, 1_000_000, 0, 1_000_000]),
        np.tile(graph.kind, 2),
        np.zeros(5, np.int64),
        np.zeros(5, np.int64),
        0,
    )
    moved = Copies(
        np.array([0, 1]),
        np.array([True, False]),
        np.full(2, 1e6),
        np.full(2, 1e-3),
        np.zeros(2, np.int64),
    )
    assert replay(
        behind_one_link(both, moved), Network(2, 1e9, 0.0), "flow"
    ).seconds == pytest.approx(1e-3, rel=1e-9)
    assert there.rate == back.rate == pytest.approx(1e9)


def test_slower_kernels_leave_the_link_idle() -> None:
    with tb.sample() as path:
        profile = tb.read(path).profile
    graph = dependencies(profile)
    moved = copies(profile, graph)
    kernels = (profile.activities["kind"].cast(str) == "kernel").to_numpy()[graph.activity]
    net = Network(2, FAST, 0.0)
    times = [
        replay(behind_one_link(graph, moved, kernel=k, kernels=kernels), net, "flow").seconds
        for k in (0.5, 1.0, 2.0)
    ]
    assert times == sorted(times) and times[2] > times[1]


def times_of(graph: Graph) -> tuple[Copies, Kernels]:
    """A copy in and a kernel after it, a millisecond each."""
    moved = Copies(
        np.array([0]), np.array([True]), np.array([1e6]), np.array([1e-3]), np.array([0])
    )
    return moved, Kernels(
        np.array([1]),
        np.array([0]),
        np.array([1e-3]),
        np.array([1000]),
        np.array([32]),
        np.array([16]),
        np.array([100]),
        np.array([1]),
    )


def in_then_kernel() -> Graph:
    """A copy from 0 to 1 ms, and a kernel from 1 to 2 ms on its stream."""
    return Graph(
        np.array([0, 0, 1_000_000, 1_000_000, 2_000_000]),
        np.array([0, 1]),
        np.array([0, 1, 2, 3]),
        np.array([1, 2, 3, 4]),
        np.array([0, 1_000_000, 0, 1_000_000]),
        np.array([EDGE["origin"], EDGE["run"], EDGE["stream"], EDGE["run"]], dtype=np.int8),
        np.zeros(5, np.int64),
        np.zeros(5, np.int64),
        0,
    )


FULL = 1e14


def pooled(
    runs: int, most: float, share: float, engines: np.ndarray | None = None, bandwidth: float = 1e9
) -> float:
    graph = in_then_kernel()
    moved, held = times_of(graph)
    moved = Copies(
        moved.activity,
        moved.to_device,
        moved.size_bytes * FULL / bandwidth,
        moved.seconds,
        moved.device,
    )
    pool = Pool(held, np.array([share]), np.array([most]), float(runs))
    one = behind_one_link(
        graph, moved, runs, kernels=held.activity, pool=pool, engines=engines, full=FULL
    )
    return replay(one, Network(4, FULL, 0.0), "flow").seconds


def test_a_pooled_gpu_alone_is_the_recorded_one() -> None:
    assert pooled(1, 1.0, 1.0) == pytest.approx(2e-3, rel=1e-9)


def test_runs_in_step_share_a_pooled_gpu() -> None:
    """Two runs whose copies do not slow each other: both kernels at once, each on its half of a GPU
    twice as large.
    """
    assert pooled(2, 2.0, 1.0, bandwidth=2e9) == pytest.approx(2e-3, rel=1e-9)


def test_runs_out_of_step_have_the_pooled_gpu_to_themselves() -> None:
    """One copy engine: copies from 0 to 1 and 1 to 2 ms, each kernel then twice as fast."""
    one = np.array([[1, 1]])
    assert pooled(2, 2.0, 1.0, one) == pytest.approx(2.5e-3, rel=1e-9)
    assert pooled(2, 1.0, 0.1, one) == pytest.approx(3e-3, rel=1e-9), (
        "a kernel that does not fill the GPU stays as it is"
    )
    assert pooled(2, 2.0, 1.0, np.array([[2, 1]])) == pytest.approx(3e-3, rel=1e-9), (
        "two engines: both copies take both milliseconds"
    )


def test_directions_have_engines_of_their_own() -> None:
    assert pooled(3, 1.0, 0.1, np.array([[1, 1]])) == pytest.approx(4e-3, rel=1e-9), (
        "three copies in turn, the last kernel after them"
    )


def test_engines_of_the_recording() -> None:
    """Two copies in at once, one out: two engines in, one out."""
    time = np.array([0, 0, 10, 5, 15, 0, 10])
    nothing = np.zeros(0, np.int64)
    graph = Graph(
        time,
        np.arange(3),
        nothing,
        nothing,
        nothing,
        nothing.astype(np.int8),
        np.zeros(7, np.int64),
        np.zeros(7, np.int64),
        0,
    )
    moved = Copies(
        np.arange(3), np.array([True, True, False]), np.ones(3), np.ones(3), np.zeros(3, np.int64)
    )
    assert engines(moved, graph).tolist() == [[2, 1]]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 8)), min_size=1, max_size=15))
def test_most_at_once_is_counted(spans: list[tuple[int, int]]) -> None:
    start = np.array([a for a, _ in spans])
    end = start + np.array([d for _, d in spans])
    level = [int(((start <= t) & (t < end)).sum()) for t in range(30)]
    assert _most_at_once(start, end).tolist() == [
        max(level[a:b]) for a, b in zip(start, end, strict=True)
    ]


def test_deliveries_change_by_the_difference() -> None:
    graph = replace(
        in_then_kernel(),
        kind=np.array([EDGE["deliver"], EDGE["run"], EDGE["deliver"], EDGE["run"]], dtype=np.int8),
        lag_ns=np.array([5_000, 1, 9_000, 1]),
    )
    assert initiation(graph) == pytest.approx(7e-6)
    assert initiated(graph, 10e-6, recorded=7e-6).lag_ns.tolist() == [8_000, 1, 12_000, 1]
    assert initiated(graph, 0.0, recorded=7e-6).lag_ns.tolist() == [0, 1, 2_000, 1], (
        "none gets shorter than nothing"
    )
    assert initiated(graph, 10e-6).lag_ns.tolist() == [10_000, 1, 10_000, 1]


def test_in_step_a_link_shared_by_k_is_a_kth_of_it() -> None:
    """A law: runs that are alike and start together share fairly, so each sees a k-th of the
    link.
    """
    with tb.sample() as path:
        profile = tb.read(path).profile
    graph = dependencies(profile)
    moved = copies(profile, graph)
    for held in (None, engines(moved, graph)):
        for count in (2, 5):
            shared = replay(
                behind_one_link(graph, moved, count, engines=held),
                Network(1 + count, 20e9, 0.0),
                "flow",
            ).seconds
            alone = replay(
                behind_one_link(graph, moved, engines=held), Network(2, 20e9 / count, 0.0), "flow"
            ).seconds
            assert shared == pytest.approx(alone, rel=1e-6)
