"""The table of families is held by what others state: entries with rates of their own, and printed
specifications.
"""

from __future__ import annotations

import math

import pytest

from turnbuckle.machine import Machine, Parameter, all_machines
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.machine.recognition.families import RATES, Family, families

#: GPUs of the catalogue that state their rates, and do not take them from this table.
OWN = [
    m
    for m in all_machines()
    if m.family in families()
    and {"gpu.multiprocessors", "gpu.clock"} <= m.has
    and not any("multiply-adds a clock" in p.note for p in m.parameters.values())
]
#: Rates of entries that lie farther from their family than its error, and why.
APART: dict[str, tuple[set[ParameterName], str]] = {
    "h20": (
        {"gpu.tf32_matrix", "gpu.fp16_matrix", "gpu.int8_matrix"},
        "a GH100 for export, which keeps a quarter of each multiprocessor's tensor rate",
    ),
    "gb300": (
        {"gpu.tf32_matrix", "gpu.fp16_matrix", "gpu.fp8_matrix", "gpu.int8_matrix"},
        "tensor rates 11 % above a B300's, whose multiprocessors and clock stand in its file",
    ),
}
#: What others print of boards: (multiprocessors, clock [GHz], rates [TFLOP/s]), by family.
#: Tensor rates are dense; what a page prints with sparsity is halved.
PRINTED: dict[str, list[tuple[str, int, float, dict[ParameterName, float]]]] = {
    "5.0": [("GTX 950M, sysrqmts.com", 5, 1.124, {"gpu.fp32": 1.439, "gpu.fp64": 0.04496})],
    "5.2": [("GTX 960, sysrqmts.com", 8, 1.178, {"gpu.fp32": 2.413, "gpu.fp64": 0.07539})],
    "5.3": [
        (
            "Jetson TX1, sysrqmts.com",
            2,
            1.0,
            {"gpu.fp16": 1.024, "gpu.fp32": 0.512, "gpu.fp64": 0.016},
        )
    ],
    "6.0": [
        (
            "P100 PCIe, NVIDIA data sheet",
            56,
            1.329,
            {"gpu.fp16": 18.7, "gpu.fp32": 9.3, "gpu.fp64": 4.7},
        )
    ],
    "6.1": [("P106-100, sysrqmts.com", 10, 1.709, {"gpu.fp32": 4.375, "gpu.fp64": 0.1367})],
    "6.2": [
        (
            "Jetson TX2, sysrqmts.com",
            2,
            1.465,
            {"gpu.fp16": 1.5, "gpu.fp32": 0.7501, "gpu.fp64": 0.02344},
        )
    ],
    "7.0": [
        ("V100 PCIe, NVIDIA data sheet", 80, 1.38, {"gpu.fp16": 28.26, "gpu.fp16_matrix": 112.0})
    ],
    "7.2": [
        (
            "AGX Xavier, sysrqmts.com",
            8,
            1.377,
            {"gpu.fp16": 2.82, "gpu.fp32": 1.41, "gpu.fp64": 0.705},
        ),
        ("AGX Xavier, 64 tensor cores of 64 multiply-adds", 8, 1.377, {"gpu.fp16_matrix": 11.28}),
    ],
    "7.5": [
        ("RTX 6000, NVIDIA data sheet", 72, 1.77, {"gpu.fp16": 32.6, "gpu.fp16_matrix": 130.5})
    ],
    "8.7": [
        (
            "AGX Orin 64 GB, TB_10749-001 and DS-10662-001",
            16,
            1.3,
            {"gpu.fp32": 5.3, "gpu.int8_matrix": 85.0},
        ),
        ("AGX Orin 32 GB, DS-10662-001", 14, 0.939, {"gpu.int8_matrix": 54.0}),
        ("Orin Nano 8 GB, DS-11105-001", 8, 0.625, {"gpu.int8_matrix": 20.0}),
    ],
    "11.0": [("T5000, NVIDIA blog", 20, 1.57, {"gpu.fp16_matrix": 258.5, "gpu.fp8_matrix": 517.5})],
    "gfx900": [
        (
            "RX Vega 64 LC, sysrqmts.com",
            64,
            1.677,
            {"gpu.fp16": 27.48, "gpu.fp32": 13.74, "gpu.fp64": 0.8586},
        )
    ],
    "gfx906": [
        ("MI60, sysrqmts.com", 64, 1.8, {"gpu.fp16": 29.49, "gpu.fp32": 14.75, "gpu.fp64": 7.373})
    ],
    "gfx908": [
        ("MI100, ROCm", 120, 1.502, {"gpu.fp64": 11.5, "gpu.fp32": 23.1, "gpu.fp16_matrix": 184.6})
    ],
    "gfx90a": [
        (
            "MI250, ROCm, one die",
            104,
            1.7,
            {"gpu.fp64": 22.65, "gpu.fp64_matrix": 45.25, "gpu.int8_matrix": 181.05},
        )
    ],
    "gfx1030": [
        (
            "RX 6900 XT, fpsbench.com",
            80,
            2.25,
            {"gpu.fp16": 46.08, "gpu.fp32": 23.04, "gpu.fp64": 1.44},
        )
    ],
    "gfx1100": [
        # printed for pairs of instructions, two of which a lane issues at once: 61.39
        (
            "RX 7900 XTX, fpsbench.com",
            96,
            2.498,
            {"gpu.fp32": 61.39 / 2, "gpu.fp16_matrix": 122.8, "gpu.fp64": 1.918},
        )
    ],
    "gfx1201": [("RX 9070 XT, fpsbench.com", 64, 2.97, {"gpu.fp32": 48.66 / 2, "gpu.fp64": 1.521})],
}
#: Cells that no such number holds: they stand in a table of multiply-adds a clock, or follow from
#: another cell.
TABLES: dict[str, tuple[set[ParameterName], str]] = {
    "8.7": (
        {"gpu.fp64", "gpu.tf32_matrix", "gpu.fp16_matrix"},
        "CUDA Programming Guide 13, tables 30 and 33",
    ),
    "10.0": ({"gpu.fp16"}, "CUDA C++ Best Practices Guide 13, table 5"),
    "11.0": (
        {"gpu.fp64", "gpu.fp32"},
        "CUDA Programming Guide 13, table 30; Thor technical reference manual",
    ),
    "12.1": (
        {"gpu.fp64", "gpu.fp16"},
        "CUDA Programming Guide 13, table 30; Best Practices Guide 13, table 5",
    ),
    "gfx908": ({"gpu.int8_matrix"}, "AMD GPUOpen, AMD matrix cores"),
    "gfx1100": ({"gpu.int8_matrix"}, "AMD GPUOpen, matrix cores of RDNA 4"),
    "gfx1201": ({"gpu.fp16_matrix", "gpu.int8_matrix"}, "AMD GPUOpen, matrix cores of RDNA 4"),
}


def derived(machine: Machine) -> dict[ParameterName, Parameter]:
    """What the family gives a GPU of the catalogue that states its multiprocessors and clock."""
    units, clock = machine.get("gpu.multiprocessors"), machine.get("gpu.clock")
    assert units is not None
    return families()[machine.family].parameters(
        units, clock, " ".join((*machine.recognise, machine.title))
    )


def apart(machine: Machine) -> set[ParameterName]:
    """Rates that lie farther from the family than the error that a source of this family gets."""
    ours = derived(machine)
    both = [name for name in RATES if name in machine.has and name in ours]
    far = {
        n: abs(math.log(machine.parameters[n].value / ours[n].value)) > ours[n].error for n in both
    }
    return {name for name in both if far[name]}


@pytest.mark.parametrize("machine", OWN, ids=lambda m: m.name)
def test_an_entry_has_the_rates_of_its_family(machine: Machine) -> None:
    names, _ = APART.get(machine.name, (set(), ""))
    assert apart(machine) == names


@pytest.mark.parametrize("machine", OWN, ids=lambda m: m.name)
def test_an_entry_holds_what_its_family_holds(machine: Machine) -> None:
    for name, held in families()[machine.family].held.items():
        stated = machine.value(name)
        assert stated is None or stated == held, name


@pytest.mark.parametrize("name", PRINTED)
def test_a_family_has_the_rates_that_others_print(name: str) -> None:
    for board, units, clock, rates in PRINTED[name]:
        for rate, printed in rates.items():
            ours = 2.0 * units * clock * 1e9 * families()[name].rates[rate]
            assert ours == pytest.approx(printed * 1e12, rel=0.03), (board, rate)


@pytest.mark.parametrize("family", families().values(), ids=lambda f: f.name)
def test_every_rate_is_held_by_somebody_else(family: Family) -> None:
    """A new cell needs an entry of the catalogue, a printed rate, or the table that it was
    read in.
    """
    entries = {
        n
        for m in OWN
        if m.family == family.name and m.name not in APART
        for n in m.has & set(RATES)
    }
    printed = {rate for _, _, _, rates in PRINTED.get(family.name, []) for rate in rates}
    tables, _ = TABLES.get(family.name, (set(), ""))
    assert set(family.rates) - entries - printed == tables


@pytest.mark.parametrize("family", families().values(), ids=lambda f: f.name)
def test_what_a_multiprocessor_holds_fits(family: Family) -> None:
    held = family.held
    assert held["gpu.threads"] % held["gpu.warp"] == 0
    assert held["gpu.shared_memory_block"] <= held["gpu.shared_memory"]
    # from Ampere on the system reserves 1 KiB of a block
    if not family.name.startswith("gfx") and float(family.name) >= 8:
        assert held["gpu.shared_memory_block"] == held["gpu.shared_memory"] - 1024


@pytest.mark.parametrize("family", families().values(), ids=lambda f: f.name)
def test_a_clock_is_stated_once(family: Family) -> None:
    """By the catalogue's boards, or by the family where it has none."""
    boards = [
        m
        for m in all_machines()
        if m.family == family.name and m.recognise and "gpu.clock" in m.has
    ]
    assert (family.clock is None) == bool(boards)
    clock = family.typical_clock()
    assert (clock is None) == bool(boards) and (clock is None or clock.source == family.source)


def test_without_a_clock_there_are_no_rates() -> None:
    units = Parameter(16.0, 0.0, "1", "spec", "a test")
    known = families()["8.7"].parameters(units, None, "")
    assert "gpu.threads" in known and not set(known) & {*RATES, "gpu.clock"}


@pytest.mark.parametrize("family", [f for f in families().values() if f.link], ids=lambda f: f.name)
def test_the_link_is_that_of_the_catalogues_boards(family: Family) -> None:
    boards = [m for m in all_machines() if m.family == family.name and m.recognise]
    slots = {m.title.rpartition("behind PCIe ")[2] for m in boards if "behind PCIe " in m.title}
    assert slots <= {family.link.removeprefix("pcie").partition("-")[0]}
