"""Kernels whose names the file does not hold, beside graphs recorded as one."""

from __future__ import annotations

from dataclasses import replace

from rows import call, on_device, profile_of
from strategies import FULL, machine

from turnbuckle.machine import Pair
from turnbuckle.projection.model import nething
from turnbuckle.projection.project import project


def test_kernels_without_a_name_beside_whole_graphs() -> None:
    """A kernel whose name the file does not hold is not the graph of the same row number."""
    graph = {k: v for k, v in on_device(40_000, 50_000, 3).items() if k != "name"}
    seen = profile_of(
        api=[
            call(1_000, 2_000, 1),
            call(5_000, 6_000, 2),
            call(30_000, 31_000, 3, "cudaGraphLaunch"),
        ],
        kernels=[on_device(3_000, 4_000, 1, name=None), on_device(8_000, 9_000, 2, name=None)],
        graphs=[graph],
    )
    later = machine({**FULL, "launch.latency": FULL["launch.latency"] + 1e-6}, "later")
    found = project(seen, Pair(machine(FULL), later), replace(nething("hold"), replay="timeline"))
    assert found.seconds - seen.seconds <= 3e-6 + 1e-12
