"""The divergence model: its pieces by hand, its limits, and that no projection takes it unasked."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.papers.models.mdm.cost import (
    NINETY,
    PRIOR_LOG_SD,
    Intervals,
    MdmDevice,
    instructions_per_cycle,
    modelled_duration,
    read_intervals,
    stalls,
)

drawn = settings(max_examples=80)
ROOT = Path(__file__).resolve().parents[3]
requests = st.floats(0, 64)
SCRIPT = MdmDevice()


def ipc(
    reads: float, writes: float, warps: float, miss: float, device: MdmDevice = SCRIPT
) -> float:
    one = np.ones(1)
    run = Intervals(100 * one, 200 * one, reads * one, writes * one, one)
    return instructions_per_cycle(
        run, stalls(run.read_misses, run.writes, warps, miss, device), warps
    )


def test_one_interval_by_hand() -> None:
    """8 misses of 32 warps on 128 registers: two rounds, and every register's request of every SM
    in the queue.
    """
    device = MdmDevice()
    found = stalls(8.0, 1.0, 32, 0.5, device)
    queued = (128 + 32) * 28
    network, memory = 0.5 * 128 * 1.4e9 / 1050e9 * queued, 0.5 * 0.5 * 128 * 1.4e9 / 480e9 * queued
    assert float(found.network) == pytest.approx(network) and float(found.memory) == pytest.approx(
        memory
    )
    assert float(found.miss_registers) == pytest.approx(
        (0.5 * 120 + 0.5 * 220 + network + memory) * (math.ceil(256 / 128) - 1)
    )
    assert bool(found.divergent)


def test_registers_bind_only_beyond_their_number() -> None:
    found = stalls(np.array([4.0, 4.01]), 0.0, 32, 0.0, MdmDevice())
    assert found.divergent.tolist() == [False, True]
    assert found.miss_registers[0] == 0.0 and found.miss_registers[1] > 0.0


def test_without_misses_nothing_stalls() -> None:
    assert ipc(0, 0, 16, 1.0) == 16 * 100 / 200
    assert ipc(
        3, 2, 16, 0.4, MdmDevice(noc_bandwidth=1e30, dram_bandwidth=1e30, miss_registers=1e9)
    ) == pytest.approx(8.0)


@drawn
@given(requests, requests, st.floats(1, 64), st.floats(0, 1), st.floats(1, 4))
def test_more_misses_and_slower_memory_never_help(
    reads: float, writes: float, warps: float, miss: float, more: float
) -> None:
    here = ipc(reads, writes, warps, miss) * (1 + 1e-12)
    assert here > 0
    assert ipc(reads * more, writes, warps, miss) <= here
    assert ipc(reads, writes * more, warps, miss) <= here
    assert ipc(reads, writes, warps, min(1.0, miss * more)) <= here
    assert ipc(reads, writes, warps, miss, MdmDevice(dram_bandwidth=480e9 / more)) <= here


def test_kappa() -> None:
    """Half a queue unless told otherwise; the other value is for divergent intervals alone."""
    half, whole = (
        stalls(np.array([1.0, 8.0]), 0.0, 32, 0.5, MdmDevice(), 0.5, k) for k in (None, 1.0)
    )
    assert half.network[0] == whole.network[0] and whole.network[1] == 2 * half.network[1]


def test_a_modelled_duration_never_comes_without_its_prior() -> None:
    found = modelled_duration(28e9, 2.0, 28, 1e9)
    assert (found.value, PRIOR_LOG_SD) == (0.5, 0.5)
    assert (
        math.log(found.high / found.value)
        == pytest.approx(NINETY * 0.5)
        == pytest.approx(math.log(found.value / found.low))
    )


def test_times_weigh_intervals(tmp_path: Path) -> None:
    path = tmp_path / "iv.csv"
    path.write_text("instructions, cycles, read misses, times\n100, 100, 0, 3\n100, 500, 0, 1\n")
    run = read_intervals(path)
    assert (
        instructions_per_cycle(run, stalls(run.read_misses, run.writes, 1, 0.0, MdmDevice()), 1)
        == 400 / 800
    )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("instructions, cycles, read misses, times\n1, 1, 0, 0\n", "A046"),
        ("instructions, cycles, read misses\n", "A046"),
        ("instructions, cycles\n1, 1\n", "A062"),
        ("instructions, cycles, read misses\n-1, 1, 0\n", "A063"),
    ],
)
def test_bad_intervals(tmp_path: Path, text: str, code: str) -> None:
    path = tmp_path / "iv.csv"
    path.write_text(text)
    refused(code, read_intervals, path)


@pytest.mark.parametrize(
    "wrong",
    [{"sms": 0.0}, {"clock": -1.0}, {"dram_bandwidth": math.nan}, {"noc_bandwidth": math.inf}],
)
def test_bad_devices(wrong: dict[str, float]) -> None:
    refused("A046", MdmDevice, **wrong)


def test_nobody_takes_it_for_a_measured_duration() -> None:
    """Known to its command and to the recomputed tables of the paper; a projection takes it from a
    file that the user gives it.
    """
    users = {
        p.relative_to(ROOT / "src/turnbuckle").as_posix()
        for p in (ROOT / "src" / "turnbuckle").rglob("*.py")
        if "models.mdm.cost" in p.read_text(encoding="utf-8")
    }
    assert users == {"papers/models/mdm/command.py", "papers/ecp/kernels.py"}
