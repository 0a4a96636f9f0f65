"""Recorded runs as programs: alone they take what the timeline says, together they share their link."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import turnbuckle as tb
from turnbuckle.profile.dependencies import EDGE, Graph, dependencies
from turnbuckle.replay.contention import Network, replay
from turnbuckle.replay.graphs import Copies, behind_one_link, copies

FAST = 1e18


def alone(profile: tb.Profile) -> tuple[float, float]:
    """Replayed alone on a link that nothing limits, and recorded [s]."""
    graph = dependencies(profile)
    moved = copies(profile, graph)
    hosts = 1 + int(moved.device.max(initial=-1)) + 1
    return replay(behind_one_link(graph, moved), Network(hosts, FAST, 0.0), "flow").seconds, float(graph.time_ns.max()) * 1e-9


def test_the_sample_alone_is_itself() -> None:
    with tb.sample() as path:
        found, recorded = alone(tb.inspect(path).profile)
    assert found == pytest.approx(recorded, rel=1e-9)


@pytest.mark.parametrize(
    "name", ["cloverleaf_a100_perlmutter", "jacobi_gh200", "extrap_concurrent_s1", "balinski_gomory_r16", "h100_2gpu_1s"]
)
def test_real_runs_alone_are_themselves(shared: Path, name: str) -> None:
    found, recorded = alone(tb.inspect(next((shared / "traces" / "nsys" / name).glob("*.sqlite"))).profile)
    assert found == pytest.approx(recorded, rel=1e-8), "every copy ends on a whole picosecond"


def one_copy(to_device: bool) -> tuple[Graph, Copies]:
    """A single copy of 1 MB in a millisecond, and nothing else."""
    graph = Graph(
        np.array([0, 0, 1_000_000]), np.array([0]), np.array([0, 1]), np.array([1, 2]), np.array([0, 1_000_000]),
        np.array([EDGE["origin"], EDGE["run"]], dtype=np.int8), np.zeros(3, np.int64), np.zeros(3, np.int64), 0,
    )  # fmt: skip
    return graph, Copies(np.array([0]), np.array([to_device]), np.array([1e6]), np.array([1e-3]), np.array([0]))


@pytest.mark.parametrize("to_device", [True, False])
@pytest.mark.parametrize(
    ("runs", "bandwidth", "expected"), [(1, 1e9, 1e-3), (2, 1e9, 2e-3), (2, 2e9, 1e-3), (4, 2e9, 2e-3), (1, 5e8, 2e-3)]
)
def test_copies_share_the_link(to_device: bool, runs: int, bandwidth: float, expected: float) -> None:
    """At 1 GB/s each: as many as fit run as recorded, more take their turn; nobody is faster than recorded."""
    found = replay(behind_one_link(*one_copy(to_device), runs), Network(1 + runs, bandwidth, 0.0), "flow")
    assert found.seconds == pytest.approx(expected, rel=1e-9)
    root = found.carried_bytes[0 if to_device else 1 + runs]
    assert root == runs * 1e6


def test_directions_do_not_share() -> None:
    (graph, there), (_, back) = one_copy(True), one_copy(False)
    both = Graph(
        np.array([0, 0, 1_000_000, 0, 1_000_000]), np.array([0, 1]), np.array([0, 1, 0, 3]), np.array([1, 2, 3, 4]),
        np.array([0, 1_000_000, 0, 1_000_000]), np.tile(graph.kind, 2), np.zeros(5, np.int64), np.zeros(5, np.int64), 0,
    )  # fmt: skip
    moved = Copies(np.array([0, 1]), np.array([True, False]), np.full(2, 1e6), np.full(2, 1e-3), np.zeros(2, np.int64))
    assert replay(behind_one_link(both, moved), Network(2, 1e9, 0.0), "flow").seconds == pytest.approx(1e-3, rel=1e-9)
    assert there.rate == back.rate == pytest.approx(1e9)


def test_slower_kernels_leave_the_link_idle() -> None:
    with tb.sample() as path:
        profile = tb.inspect(path).profile
    graph = dependencies(profile)
    moved = copies(profile, graph)
    kernels = (profile.activities["kind"].cast(str) == "kernel").to_numpy()[graph.activity]
    net = Network(2, FAST, 0.0)
    times = [replay(behind_one_link(graph, moved, kernel=k, kernels=kernels), net, "flow").seconds for k in (0.5, 1.0, 2.0)]
    assert times == sorted(times) and times[2] > times[1]
