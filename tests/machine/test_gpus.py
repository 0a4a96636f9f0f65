"""Numbers of the catalogue's GPUs: complete for what kernels on another GPU need, and consistent with clock, units and recordings."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from turnbuckle.machine import Machine, Parameter, all_machines, load
from turnbuckle.machine.needs import Basis, lacking, needs
from turnbuckle.machine.parameter_names import PARAMETER_NAMES, ParameterName

GPUS = [m.name for m in all_machines() if not m.relative and not m.name.startswith("2026-")]

#: Operations that a multiprocessor does in a clock, two for each unit that multiplies and adds: a Kepler has 192 units in FP32 and 64 in
#: FP64, and so on by architecture; for CDNA 2 and 3 AMD's tables of FLOPS/CLOCK/CU.  Matrix units count in powers of two.
UNITS: tuple[ParameterName, ...] = (
    "gpu.fp64",
    "gpu.fp64_matrix",
    "gpu.fp32",
    "gpu.fp16",
    "gpu.tf32_matrix",
    "gpu.fp16_matrix",
    "gpu.fp8_matrix",
    "gpu.int8_matrix",
)
A_CLOCK: dict[str, dict[ParameterName, int]] = {
    name: {unit: count for unit, count in zip(UNITS, counts, strict=True) if count}
    for name, counts in {
        "titan": (128, 0, 384, 0, 0, 0, 0, 0),
        "v100-sxm2": (64, 0, 128, 0, 0, 1024, 0, 0),
        "a100-sxm4-40": (64, 128, 128, 512, 1024, 2048, 0, 4096),
        "h100-sxm5": (128, 256, 256, 512, 2048, 4096, 8192, 8192),
        "gb200": (128, 128, 256, 0, 4096, 8192, 16384, 16384),
        "t4": (4, 0, 128, 0, 0, 1024, 0, 2048),
        "a10": (4, 0, 256, 256, 512, 1024, 0, 2048),
        "l4": (4, 0, 256, 256, 512, 1024, 2048, 2048),
        "rtx4090": (4, 0, 256, 256, 256, 512, 1024, 0),
        "rtx5090": (4, 0, 256, 256, 256, 512, 1024, 0),
        "rtx-pro-6000": (4, 0, 256, 256, 512, 1024, 2048, 2048),
        "h20": (0, 0, 0, 0, 512, 1024, 0, 2048),
        "b300-hgx": (4, 4, 256, 0, 4096, 8192, 16384, 512),
        "gb300": (4, 4, 256, 0, 4096, 8192, 16384, 512),
        "gb10": (0, 0, 256, 0, 0, 0, 0, 0),
        "mi355x": (128, 128, 256, 0, 0, 4096, 8192, 8192),
        "strix-halo": (4, 0, 128, 256, 0, 512, 0, 512),
        "pvc": (0, 0, 0, 0, 0, 0, 0, 0),
        "mi250x": (128, 256, 128, 0, 0, 1024, 0, 1024),
        "mi300x": (128, 256, 256, 0, 1024, 2048, 4096, 4096),
    }.items()
}
#: Machines whose multiprocessor is another machine's.
SAME = {
    "v100-sxm2": ("v100-sxm2-32", "summit", "lassen", "cori-gpu", "summit-remote-socket"),
    "a100-sxm4-40": ("a100-sxm4-80", "a100-pcie-40", "perlmutter", "narval", "a30"),
    "h100-sxm5": ("h100-pcie", "h200-sxm", "gh200", "gh200-141"),
    "mi250x": ("frontier", "mi210"),
    "mi300x": ("mi300a", "mi325x"),
    "l4": ("l40s",),
    "gb200": ("b200-hgx",),
}
ALIKE = {name: model for model, names in SAME.items() for name in names}
PEAKS = [n for n in PARAMETER_NAMES if n.startswith(("gpu.fp", "gpu.tf", "gpu.int8"))]
#: What no source that could be read states: left out of the catalogue, and listed in the manual.
OPEN: dict[str, set[ParameterName]] = {
    "h20": {"gpu.cache"},
    "pvc": {"gpu.registers", *PEAKS},
    "strix-halo": {"gpu.threads", "gpu.shared_memory_block"},
}


def value(machine: Machine, name: ParameterName) -> float:
    found = machine.value(name)
    assert found is not None, f"{machine.name} has no {name}"
    return found


@pytest.mark.parametrize("name", GPUS)
def test_a_peak_is_multiprocessors_times_clock_times_units(name: str) -> None:
    machine, a_clock = load(name), A_CLOCK[ALIKE.get(name, name)]
    ticks = value(machine, "gpu.multiprocessors") * value(machine, "gpu.clock")
    assert {n for n in PEAKS if n in machine.has} == set(a_clock)
    for peak, each in a_clock.items():
        assert value(machine, peak) == pytest.approx(ticks * each, rel=0.1), peak


@pytest.mark.parametrize("name", GPUS)
def test_every_gpu_states_what_kernels_need(name: str) -> None:
    machine = load(name)
    for basis in ("launch geometry", "range of rates", "roofline"):
        assert set(lacking(machine, basis)) <= OPEN.get(name, set())
    limits: set[ParameterName] = {"gpu.warp", "gpu.threads", "gpu.registers", "gpu.shared_memory", "gpu.shared_memory_block", "gpu.cache"}
    assert limits - machine.has == OPEN.get(name, set()) & limits
    assert name in OPEN or value(machine, "gpu.threads") % value(machine, "gpu.warp") == 0
    assert ("gpu.blocks" in machine.has) == (not name.startswith(("mi", "frontier", "strix")))  # no source states it for AMD


def test_siblings_share_one_statement() -> None:
    for name, other in ALIKE.items():
        for parameter in ("gpu.threads", "gpu.registers", "gpu.shared_memory", "gpu.warp"):
            assert load(name).get(parameter) == load(other).get(parameter)  # type: ignore[arg-type]
    for name in ("h200-sxm", "gh200", "gh200-141"):
        assert [load(name).get(p) for p in PEAKS] == [load("h100-sxm5").get(p) for p in PEAKS]


def number(of: float) -> Parameter:
    return Parameter(of, 0.0, "1", "spec", "a test")


@pytest.mark.parametrize(
    ("basis", "given", "missing"),
    [
        ("launch geometry", ["gpu.multiprocessors", "gpu.clock", "gpu.memory_bandwidth"], ()),
        ("launch geometry", ["gpu.clock", "gpu.memory_bandwidth", "gpu.threads"], ("gpu.multiprocessors",)),
        ("range of rates", ["gpu.fp32"], ()),
        ("roofline", ["gpu.fp32"], ("gpu.memory_bandwidth",)),
        ("roofline", ["gpu.memory_bandwidth", "gpu.fp16_matrix"], ()),
    ],
)
def test_what_a_basis_lacks(basis: Basis, given: list[ParameterName], missing: tuple[str, ...]) -> None:
    machine = Machine(name="x", title="t", summary="s", year=2020, coupling="pcie", parameters={n: number(1.0) for n in given})
    assert lacking(machine, basis) == missing


def test_one_of_several_lacks_all_where_none_is_there() -> None:
    bare = Machine(name="x", title="t", summary="s", year=2020, coupling="pcie")
    (row,) = (n for n in needs() if n.basis == "range of rates")
    assert lacking(bare, "range of rates") == row.parameters


def test_the_manual_says_what_is_needed() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "machines.md").read_text(encoding="utf-8")
    for row in needs():
        assert f"| {row.basis} | {row.need} | {', '.join(f'`{n}`' for n in row.parameters)} | {row.use} |" in text


RECORDED = {
    "a100-sxm4-80": "cloverleaf_a100_perlmutter/perlmutter-cloverleaf-cuda.sqlite",
    "h100-sxm5": "nvfuser_matmul_h100/report2.sqlite",
    "h200-sxm": "nvfuser_pytest_h200/report1.sqlite",
    "gh200": "jacobi_gh200/jacobi_report.sqlite",
    "t4": "softmax_uvm_t4/report2.sqlite",
}
COLUMNS: dict[ParameterName, str] = {
    "gpu.multiprocessors": "smCount",
    "gpu.clock": "clockRate",
    "gpu.warp": "threadsPerWarp",
    "gpu.registers": "maxRegistersPerSm",
    "gpu.blocks": "maxBlocksPerSm",
    "gpu.shared_memory": "maxShmemPerSm",
    "gpu.shared_memory_block": "maxShmemPerBlockOptin",
    "gpu.cache": "l2CacheSize",
}


@pytest.mark.shared
@pytest.mark.parametrize(("name", "recording"), RECORDED.items())
def test_numbers_are_what_the_driver_says_in_recordings(shared: Path, name: str, recording: str) -> None:
    with closing(sqlite3.connect(f"file:{shared / 'traces' / 'nsys' / recording}?mode=ro", uri=True)) as file:
        columns = ", ".join([*COLUMNS.values(), "maxWarpsPerSm * threadsPerWarp"])
        row = file.execute(f"SELECT {columns} FROM TARGET_INFO_GPU ORDER BY id LIMIT 1").fetchone()
    assert [value(load(name), n) for n in (*COLUMNS, "gpu.threads")] == [float(v) for v in row]
