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
A_CLOCK: dict[str, dict[ParameterName, int]] = {
    "titan": {"gpu.fp64": 128, "gpu.fp32": 384},
    "v100-sxm2": {"gpu.fp64": 64, "gpu.fp32": 128, "gpu.fp16_matrix": 1024},
    "a100-sxm4-40": {
        "gpu.fp64": 64, "gpu.fp64_matrix": 128, "gpu.fp32": 128, "gpu.fp16": 512, "gpu.tf32_matrix": 1024, "gpu.fp16_matrix": 2048,
        "gpu.int8_matrix": 4096,
    },
    "h100-sxm5": {
        "gpu.fp64": 128, "gpu.fp64_matrix": 256, "gpu.fp32": 256, "gpu.fp16": 512, "gpu.tf32_matrix": 2048, "gpu.fp16_matrix": 4096,
        "gpu.fp8_matrix": 8192, "gpu.int8_matrix": 8192,
    },
    "gb200": {
        "gpu.fp64": 128, "gpu.fp64_matrix": 128, "gpu.fp32": 256, "gpu.tf32_matrix": 4096, "gpu.fp16_matrix": 8192,
        "gpu.fp8_matrix": 16384, "gpu.int8_matrix": 16384,
    },
    "t4": {"gpu.fp64": 4, "gpu.fp32": 128, "gpu.fp16_matrix": 1024, "gpu.int8_matrix": 2048},
    "a10": {
        "gpu.fp64": 4, "gpu.fp32": 256, "gpu.fp16": 256, "gpu.tf32_matrix": 512, "gpu.fp16_matrix": 1024, "gpu.int8_matrix": 2048,
    },
    "l4": {
        "gpu.fp64": 4, "gpu.fp32": 256, "gpu.fp16": 256, "gpu.tf32_matrix": 512, "gpu.fp16_matrix": 1024, "gpu.fp8_matrix": 2048,
        "gpu.int8_matrix": 2048,
    },
    "rtx4090": {
        "gpu.fp64": 4, "gpu.fp32": 256, "gpu.fp16": 256, "gpu.tf32_matrix": 256, "gpu.fp16_matrix": 512, "gpu.fp8_matrix": 1024,
    },
    "rtx5090": {
        "gpu.fp64": 4, "gpu.fp32": 256, "gpu.fp16": 256, "gpu.tf32_matrix": 256, "gpu.fp16_matrix": 512, "gpu.fp8_matrix": 1024,
    },
    "rtx-pro-6000": {
        "gpu.fp64": 4, "gpu.fp32": 256, "gpu.fp16": 256, "gpu.tf32_matrix": 512, "gpu.fp16_matrix": 1024, "gpu.fp8_matrix": 2048,
        "gpu.int8_matrix": 2048,
    },
    "h20": {"gpu.tf32_matrix": 512, "gpu.fp16_matrix": 1024, "gpu.int8_matrix": 2048},
    "b300-hgx": {
        "gpu.fp64": 4, "gpu.fp64_matrix": 4, "gpu.fp32": 256, "gpu.tf32_matrix": 4096, "gpu.fp16_matrix": 8192,
        "gpu.fp8_matrix": 16384, "gpu.int8_matrix": 512,
    },
    "gb300": {
        "gpu.fp32": 256, "gpu.tf32_matrix": 4096, "gpu.fp16_matrix": 8192, "gpu.fp8_matrix": 16384, "gpu.int8_matrix": 512,
    },
    "gb10": {"gpu.fp32": 256},
    "mi355x": {"gpu.fp32": 256, "gpu.fp8_matrix": 8192, "gpu.int8_matrix": 8192},
    "strix-halo": {"gpu.fp64": 4, "gpu.fp32": 128, "gpu.fp16": 256, "gpu.fp16_matrix": 512, "gpu.int8_matrix": 512},
    "pvc": {},
    "mi250x": {"gpu.fp64": 128, "gpu.fp64_matrix": 256, "gpu.fp32": 128, "gpu.fp16_matrix": 1024, "gpu.int8_matrix": 1024},
    "mi300x": {
        "gpu.fp64": 128, "gpu.fp64_matrix": 256, "gpu.fp32": 256, "gpu.tf32_matrix": 1024, "gpu.fp16_matrix": 2048,
        "gpu.fp8_matrix": 4096, "gpu.int8_matrix": 4096,
    },
}  # fmt: skip
#: Machines whose multiprocessor is another machine's.
ALIKE = {
    "v100-sxm2-32": "v100-sxm2", "summit": "v100-sxm2", "lassen": "v100-sxm2", "cori-gpu": "v100-sxm2", "a100-sxm4-80": "a100-sxm4-40",
    "a100-pcie-40": "a100-sxm4-40", "perlmutter": "a100-sxm4-40", "narval": "a100-sxm4-40", "h100-pcie": "h100-sxm5",
    "h200-sxm": "h100-sxm5", "gh200": "h100-sxm5", "gh200-141": "h100-sxm5", "frontier": "mi250x", "mi210": "mi250x", "mi300a": "mi300x",
    "summit-remote-socket": "v100-sxm2", "a30": "a100-sxm4-40", "l40s": "l4", "b200-hgx": "gb200",
    "mi325x": "mi300x",
}  # fmt: skip
PEAKS = [n for n in PARAMETER_NAMES if n.startswith(("gpu.fp", "gpu.tf", "gpu.int8"))]
#: What no source that could be read states: left out of the catalogue, and listed in the manual.
OPEN: dict[str, set[ParameterName]] = {
    "h20": {"gpu.cache"}, "pvc": {"gpu.registers", *PEAKS}, "strix-halo": {"gpu.threads", "gpu.shared_memory_block"},
}  # fmt: skip


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
    limits: set[ParameterName] = {
        "gpu.warp", "gpu.threads", "gpu.registers", "gpu.shared_memory", "gpu.shared_memory_block", "gpu.cache",
    }  # fmt: skip
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
    "gpu.multiprocessors": "smCount", "gpu.clock": "clockRate", "gpu.warp": "threadsPerWarp", "gpu.registers": "maxRegistersPerSm",
    "gpu.blocks": "maxBlocksPerSm", "gpu.shared_memory": "maxShmemPerSm", "gpu.shared_memory_block": "maxShmemPerBlockOptin",
    "gpu.cache": "l2CacheSize",
}  # fmt: skip


@pytest.mark.shared
@pytest.mark.parametrize(("name", "recording"), RECORDED.items())
def test_numbers_are_what_the_driver_says_in_recordings(shared: Path, name: str, recording: str) -> None:
    with closing(sqlite3.connect(f"file:{shared / 'traces' / 'nsys' / recording}?mode=ro", uri=True)) as file:
        columns = ", ".join([*COLUMNS.values(), "maxWarpsPerSm * threadsPerWarp"])
        row = file.execute(f"SELECT {columns} FROM TARGET_INFO_GPU ORDER BY id LIMIT 1").fetchone()
    assert [value(load(name), n) for n in (*COLUMNS, "gpu.threads")] == [float(v) for v in row]
