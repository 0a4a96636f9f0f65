"""Numbers of the catalogue's GPUs: complete for what kernels on another GPU need, and consistent
with clock, units and recordings.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from turnbuckle.machine import Machine, Parameter, all_machines, load
from turnbuckle.machine.needs import Basis, lacking, needs
from turnbuckle.machine.parameter_names import PARAMETER_NAMES, ParameterName

GPUS = [m.name for m in all_machines() if not m.relative and not m.name.startswith("2026-")]

#: Operations that a multiprocessor does in a clock, two for each unit that multiplies and adds: a
#: Kepler has 192 units in FP32 and 64 in FP64, and so on by architecture; for CDNA 2 and 3 AMD's
#: tables of FLOPS/CLOCK/CU.  Matrix units count in powers of two.
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
        "p100-pcie": (64, 0, 128, 256, 0, 0, 0, 0),
        "gtx1080": (8, 0, 256, 0, 0, 0, 0, 0),
        "v100-pcie-16": (64, 0, 128, 256, 0, 1024, 0, 0),
        "rtx2080ti": (4, 0, 128, 256, 0, 512, 0, 0),
        "quadro-rtx-6000": (4, 0, 128, 256, 0, 1024, 0, 2048),
        "a100-pcie-80": (64, 128, 128, 512, 1024, 2048, 0, 4096),
        "a40": (4, 0, 256, 256, 512, 1024, 0, 2048),
        "rtx3090": (4, 0, 256, 256, 256, 512, 0, 0),
        "mi50": (64, 0, 128, 256, 0, 0, 0, 0),
        "mi100": (64, 0, 128, 0, 0, 1024, 0, 1024),
        "mi250": (128, 256, 128, 0, 0, 1024, 0, 1024),
        "mi350x": (128, 128, 256, 0, 0, 4096, 8192, 8192),
        "jetson-agx-orin-64": (4, 0, 256, 0, 1024, 2048, 0, 4096),
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
    "p100-pcie": ("p100-pcie-12", "p100-sxm2-16"),
    "gtx1080": ("gtx1060", "gtx1060-max-q", "gtx1070", "gtx1080ti", "p4", "p40"),
    "v100-pcie-16": ("v100-pcie-32", "v100-dgxs-32", "titan-v"),
    "rtx2080ti": ("rtx2080",),
    "a40": ("a4000", "a5000", "a6000"),
    "rtx3090": ("rtx3060", "rtx3070", "rtx3080"),
    "rtx4090": ("rtx4060ti", "rtx4070", "rtx4080"),
    "rtx-pro-6000": ("rtx-6000-ada",),
    "mi50": ("mi60",),
    "jetson-agx-orin-64": (
        "jetson-agx-orin-32",
        "jetson-orin-nx-16",
        "jetson-orin-nx-8",
        "jetson-orin-nano-8",
    ),
}
#: FP32 and FP64 that others print of boards whose rates follow from their family [TFLOP/s].
PRINTED = {
    "p100-pcie": (9.526, 4.763),  # TechPowerUp; NVIDIA's data sheet: 9.3 and 4.7
    "p4": (5.704, 0.178),
    "gtx1080ti": (11.34, 0.354),
    "v100-pcie-16": (14.13, 7.066),
    "rtx2080ti": (13.45, 0.420),
    "rtx3090": (35.58, 0.556),
    "a40": (37.42, 0.585),
    "a100-pcie-80": (19.49, 9.746),
    "rtx4060ti": (22.06, 0.345),
    "mi50": (13.41, 6.705),
    "mi100": (23.07, 11.54),
}
#: Dense FP16 rates of tensor units with sums in FP32, as NVIDIA's and AMD's data sheets print them
#: [TFLOP/s].
MATRIX = {
    "v100-pcie-16": 112.0,
    "rtx2080ti": 53.8,
    "a40": 149.7,
    "a6000": 154.8,
    "rtx3090": 71.0,
    "a100-pcie-80": 312.0,
    "mi100": 184.6,
}
#: Machines whose rates follow from their family.
FAMILY = [
    n for n in GPUS if "multiply-adds a clock" in getattr(load(n).get("gpu.fp32"), "note", "")
]
ALIKE = {name: model for model, names in SAME.items() for name in names}
PEAKS = [n for n in PARAMETER_NAMES if n.startswith(("gpu.fp", "gpu.tf", "gpu.int8"))]
#: What no source that could be read states: left out of the catalogue, and listed in the manual.
OPEN: dict[str, set[ParameterName]] = {
    "h20": {"gpu.cache"},
    "pvc": {"gpu.registers", *PEAKS},
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


@pytest.mark.parametrize("name", PRINTED)
def test_a_board_of_a_family_has_the_rates_that_others_print(name: str) -> None:
    for parameter, printed in zip(("gpu.fp32", "gpu.fp64"), PRINTED[name], strict=True):
        assert value(load(name), parameter) == pytest.approx(printed * 1e12, rel=0.01)  # type: ignore[arg-type]
    if name in MATRIX:
        assert value(load(name), "gpu.fp16_matrix") == pytest.approx(MATRIX[name] * 1e12, rel=0.02)


def test_a_rate_of_a_family_states_its_error() -> None:
    assert set(PRINTED) <= set(FAMILY) and len(FAMILY) >= 30
    for name in FAMILY:
        peaks = [p for n, p in load(name).parameters.items() if n in PEAKS]
        assert peaks and all(0.05 <= p.error < 0.1 and p.source for p in peaks)


@pytest.mark.parametrize("name", GPUS)
def test_every_gpu_states_what_kernels_need(name: str) -> None:
    machine = load(name)
    for basis in ("launch geometry", "range of rates", "roofline"):
        assert set(lacking(machine, basis)) <= OPEN.get(name, set())
    limits: set[ParameterName] = {
        "gpu.warp",
        "gpu.threads",
        "gpu.registers",
        "gpu.shared_memory",
        "gpu.shared_memory_block",
        "gpu.cache",
    }
    assert limits - machine.has == OPEN.get(name, set()) & limits
    assert name in OPEN or value(machine, "gpu.threads") % value(machine, "gpu.warp") == 0
    # no source states it for AMD
    assert ("gpu.blocks" in machine.has) == (not name.startswith(("mi", "frontier", "strix")))


def test_siblings_share_one_statement() -> None:
    for name, other in ALIKE.items():
        for parameter in ("gpu.threads", "gpu.registers", "gpu.shared_memory", "gpu.warp"):
            one, sibling = load(name).get(parameter), load(other).get(parameter)  # type: ignore[arg-type]
            assert (one and one.value) == (sibling and sibling.value)
            assert one == sibling or {name, other} & set(FAMILY), "a family states it again"
    for name in ("h200-sxm", "gh200", "gh200-141"):
        assert [load(name).get(p) for p in PEAKS] == [load("h100-sxm5").get(p) for p in PEAKS]


def number(of: float) -> Parameter:
    return Parameter(of, 0.0, "1", "spec", "a test")


@pytest.mark.parametrize(
    ("basis", "given", "missing"),
    [
        ("launch geometry", ["gpu.multiprocessors", "gpu.clock", "gpu.memory_bandwidth"], ()),
        (
            "launch geometry",
            ["gpu.clock", "gpu.memory_bandwidth", "gpu.threads"],
            ("gpu.multiprocessors",),
        ),
        ("range of rates", ["gpu.fp32"], ()),
        ("roofline", ["gpu.fp32"], ("gpu.memory_bandwidth",)),
        ("roofline", ["gpu.memory_bandwidth", "gpu.fp16_matrix"], ()),
    ],
)
def test_what_a_basis_lacks(
    basis: Basis, given: list[ParameterName], missing: tuple[str, ...]
) -> None:
    machine = Machine(
        name="x",
        title="t",
        summary="s",
        year=2020,
        coupling="pcie",
        parameters={n: number(1.0) for n in given},
    )
    assert lacking(machine, basis) == missing


def test_one_of_several_lacks_all_where_none_is_there() -> None:
    bare = Machine(name="x", title="t", summary="s", year=2020, coupling="pcie")
    (row,) = (n for n in needs() if n.basis == "range of rates")
    assert lacking(bare, "range of rates") == row.parameters


def test_the_manual_says_what_is_needed() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "machines.md").read_text(
        encoding="utf-8"
    )
    for row in needs():
        assert (
            f"| {row.basis} | {row.need} | {', '.join(f'`{n}`' for n in row.parameters)} | "
            f"{row.use} |"
        ) in text


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
def test_numbers_are_what_the_driver_says_in_recordings(
    shared: Path, name: str, recording: str
) -> None:
    with closing(
        sqlite3.connect(f"file:{shared / 'traces' / 'nsys' / recording}?mode=ro", uri=True)
    ) as file:
        columns = ", ".join([*COLUMNS.values(), "maxWarpsPerSm * threadsPerWarp"])
        row = file.execute(f"SELECT {columns} FROM TARGET_INFO_GPU ORDER BY id LIMIT 1").fetchone()
    assert [value(load(name), n) for n in (*COLUMNS, "gpu.threads")] == [float(v) for v in row]
