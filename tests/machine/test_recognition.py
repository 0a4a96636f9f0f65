"""The machine of a recording: by name, by what the recording states, by the family of its GPU."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.foundation.errors import MachineError
from turnbuckle.machine import (
    Device,
    Machine,
    Parameter,
    all_machines,
    fastest_link,
    load,
    machine_of,
)
from turnbuckle.machine.catalog import called, link_of
from turnbuckle.machine.recognition.families import families, family_of

GIB = 1 << 30
COLUMNS = (
    "memory_bytes",
    "memory_bandwidth",
    "clock_hz",
    "multiprocessors",
    "compute_major",
    "compute_minor",
)
GPUS = [
    m
    for m in all_machines()
    if m.recognise and m.family and {"gpu.multiprocessors", "gpu.memory_size", "gpu.fp32"} <= m.has
]


def capability(machine: Machine) -> dict[str, object]:
    """What a profiler states of the family of a machine's GPU."""
    if machine.family.startswith("gfx"):
        return {"chip": machine.family}
    major, minor = machine.family.split(".")
    return {"major": int(major), "minor": int(minor)}


def described(machine: Machine, name: str = "") -> Device:
    """What a profiler states of a machine's GPU, under another name."""
    return Device(
        name=name,
        memory_bytes=(machine.value("gpu.memory_size") or 0.0) * 1.04,
        memory_bandwidth=machine.value("gpu.memory_bandwidth"),
        clock_hz=machine.value("gpu.clock"),
        multiprocessors=machine.value("gpu.multiprocessors"),
        **capability(machine),  # type: ignore[arg-type]
    )


def value(machine: Machine | None, name: str) -> float:
    assert machine is not None
    return machine.parameters[name].value  # type: ignore[index]


@pytest.mark.parametrize("machine", GPUS, ids=lambda m: m.name)
def test_a_gpu_without_its_name_is_known_by_what_it_is_built_of(machine: Machine) -> None:
    told = machine_of([described(machine)])
    assert told.how == "facts"
    for rate in ("gpu.fp32", "gpu.memory_bandwidth"):
        assert value(told.machine, rate) == pytest.approx(value(machine, rate), rel=0.06)


@pytest.mark.parametrize("machine", GPUS, ids=lambda m: m.name)
def test_a_family_gives_the_rates_of_each_of_its_boards(machine: Machine) -> None:
    """A board nobody listed: one multiprocessor fewer, another name."""
    units = value(machine, "gpu.multiprocessors") - 1
    told = machine_of(
        [replace(described(machine, "Board of tomorrow"), multiprocessors=units, memory_bytes=5e9)]
    )
    assert (
        told.how == "family" and told.machine is not None and told.machine.family == machine.family
    )
    share = units / value(machine, "gpu.multiprocessors")
    fp32 = told.machine.parameters["gpu.fp32"]
    assert (
        fp32.value == pytest.approx(share * value(machine, "gpu.fp32"), rel=0.1)
        and fp32.error >= 0.05
    )
    bandwidth = told.machine.parameters["gpu.memory_bandwidth"]
    if machine.name.startswith("jetson-"):
        assert bandwidth.error >= 0.3, "its driver does not state the memory's clock"
    else:
        assert bandwidth.value == machine.value("gpu.memory_bandwidth")


@given(st.sampled_from(sorted(families())), st.integers(1, 400), st.floats(1e8, 5e9))
def test_rates_grow_with_multiprocessors_and_clock(name: str, units: int, clock: float) -> None:
    def number(of: float, unit: str) -> Parameter:
        return Parameter(of, 0.0, unit, "spec", "a test")

    family = families()[name]
    one = family.parameters(number(1, "1"), number(1e9, "Hz"), "")
    many = family.parameters(number(units, "1"), number(clock, "Hz"), "")
    for rate in family.rates:
        assert many[rate].value == pytest.approx(one[rate].value * units * clock / 1e9)
    assert many["gpu.threads"] == one["gpu.threads"]


@pytest.mark.parametrize(
    ("family", "generation"),
    [
        ("6.0", 3),
        ("6.1", 3),
        ("7.0", 3),
        ("7.5", 3),
        ("8.0", 4),
        ("8.6", 4),
        ("8.9", 4),
        ("9.0", 5),
        ("10.0", 5),
        ("12.0", 5),
    ],
)
def test_a_link_is_that_of_nvidias_chip(family: str, generation: int) -> None:
    assert families()[family].link == f"pcie{generation}-x16"
    machine = Machine(name="x", title="t", summary="s", year=2020, coupling="pcie", family=family)
    assert fastest_link(machine) == load(f"pcie{generation}-x16").changes[0].set.value  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("family", "generation"),
    [("gfx900", 3), ("gfx906", 4), ("gfx908", 4), ("gfx90a", 4), ("gfx942", 5), ("gfx950", 5)],
)
def test_a_link_is_that_of_amds_chip(family: str, generation: int) -> None:
    assert families()[family].link == f"pcie{generation}-x16"


@pytest.mark.parametrize(
    "family", [f for f in families().values() if f.integrated], ids=lambda f: f.name
)
def test_a_family_that_is_only_integrated_has_no_link(family: object) -> None:
    name = family.name  # type: ignore[attr-defined]
    facts = (
        {"chip": name}
        if name.startswith("gfx")
        else {"major": int(name.split(".")[0]), "minor": int(name.split(".")[1])}
    )
    told = machine_of([Device(name="Board", multiprocessors=9.0, memory_bytes=7.0 * GIB, **facts)])  # type: ignore[arg-type]
    assert told.machine is not None and told.machine.coupling == "apu"
    assert not any(n.startswith("link.") for n in told.machine.has)


#: What deviceQuery prints of Orins: multiprocessors, memory, clock, and the bandwidth of bus times
#: memory clock.
ORINS = [
    ("jetson-agx-orin-64", 16, 65_893_269_504, 1.3e9, 256 / 8 * 2 * 612e6),
    ("jetson-orin-nx-16", 8, 16_136_011_776, 918e6, 64 / 8 * 2 * 918e6),
    ("jetson-orin-nx-16", 8, 15_189_422_080, 918e6, 64 / 8 * 2 * 918e6),
    ("jetson-orin-nx-8", 8, 7_987_728_384, 765e6, 128 / 8 * 2 * 612e6),
    ("", 8, 7_990_091_776, 918e6, 128 / 8 * 2 * 918e6),
    ("", 8, 7_693_115_392, 624e6, 64 / 8 * 2 * 624e6),
    ("", 4, 16_417_153_024, 918e6, 256 / 8 * 2 * 612e6),
]


@pytest.mark.parametrize(("name", "units", "memory", "clock", "stated"), ORINS, ids=str)
def test_a_jetson_is_told_without_its_memorys_clock(
    name: str, units: int, memory: int, clock: float, stated: float
) -> None:
    """One name for all modules, and a power mode may switch half of the multiprocessors off."""
    device = Device("Orin", "GA10B", False, float(memory), stated, clock, float(units), 8, 7)
    told = machine_of([device])
    assert (
        told.machine is not None
        and told.machine.coupling == "apu"
        and told.how == ("facts" if name else "family")
    )
    assert name in told.machine.title and value(told.machine, "gpu.multiprocessors") == units
    bandwidth = told.machine.parameters["gpu.memory_bandwidth"]
    assert bandwidth.value > 2 * stated and bandwidth.value == pytest.approx(
        204.8e9 if memory > 20e9 else 102e9
    )
    assert name or (bandwidth.nature == "assumption" and bandwidth.error >= 0.3)


def test_a_name_of_many_modules_alone_tells_none() -> None:
    assert machine_of([Device(name="Orin")]).machine is None


def test_a_clock_that_is_not_stated_is_that_of_the_boards() -> None:
    told = machine_of(
        [Device(name="Board", multiprocessors=30.0, memory_bytes=3e10, major=8, minor=9)]
    )
    assert told.machine is not None
    clock = told.machine.parameters["gpu.clock"]
    boards = [value(m, "gpu.clock") for m in GPUS if m.family == "8.9"]
    assert clock.nature == "assumption" and clock.value in boards
    assert clock.error >= math.log(max(boards) / min(boards)) / 2


def test_an_integrated_flag_counts_more_than_the_family() -> None:
    told = machine_of(
        [
            Device(
                name="Board",
                discrete=False,
                multiprocessors=8.0,
                memory_bytes=8e9,
                major=8,
                minor=6,
            )
        ]
    )
    assert (
        told.machine is not None
        and told.machine.coupling == "apu"
        and not any(n.startswith("link.") for n in told.machine.has)
    )


@pytest.mark.parametrize(
    ("major", "minor", "name"),
    [(8, 8, "8.6"), (7, 3, "7.0"), (12, 3, "12.0"), (10, 1, "10.0"), (15, 0, None)],
)
def test_a_capability_of_tomorrow_is_one_of_its_generation(
    major: int, minor: int, name: str | None
) -> None:
    family = family_of(major, minor, None, False)
    assert (family and family.name) == name


def test_numbers_of_amd_are_no_compute_capability() -> None:
    assert Device(name="AMD Radeon Graphics", major=9, minor=0).family is None
    assert Device(name="Vega20", chip="gfx906").family is families()["gfx906"]


def test_boards_without_tensor_units_and_those_that_halve_them() -> None:
    def rates(name: str) -> Machine:
        told = machine_of(
            [
                Device(
                    name=name,
                    multiprocessors=21.0,
                    memory_bytes=5e9,
                    clock_hz=1.7e9,
                    major=7,
                    minor=5,
                )
            ]
        )
        assert told.machine is not None
        return told.machine

    assert "gpu.fp16_matrix" not in rates("NVIDIA GeForce GTX 1660").has
    full, half = (
        value(rates(n), "gpu.fp16_matrix")
        for n in ("Quadro RTX 3000 with Max-Q Design", "NVIDIA GeForce RTX 2050")
    )
    assert full == 2 * half


def test_a_name_of_several_builds_is_the_build_that_the_recording_states() -> None:
    told = machine_of(
        [
            Device(
                name="NVIDIA GeForce RTX 3080",
                multiprocessors=70.0,
                memory_bytes=12.0 * GIB,
                clock_hz=1.71e9,
                major=8,
                minor=6,
            )
        ]
    )
    assert told.how == "family" and value(told.machine, "gpu.multiprocessors") == 70
    assert value(told.machine, "link.h2d.bandwidth") == value(load("rtx3080"), "link.h2d.bandwidth")
    plain = machine_of(
        [
            Device(
                name="NVIDIA GeForce RTX 3080",
                multiprocessors=68.0,
                memory_bytes=10.0 * GIB,
                major=8,
                minor=6,
            )
        ]
    )
    assert plain.how == "name" and plain.machine == load("rtx3080")


def test_what_is_not_stated_has_a_wide_error() -> None:
    told = machine_of(
        [
            Device(
                name="NVIDIA RTX A4500",
                multiprocessors=56.0,
                memory_bytes=20.0 * GIB,
                major=8,
                minor=6,
            )
        ]
    )
    assert told.machine is not None
    bandwidth, fp32 = (told.machine.parameters[n] for n in ("gpu.memory_bandwidth", "gpu.fp32"))
    assert (
        bandwidth.error >= 0.3
        and bandwidth.nature == "assumption"
        and bandwidth.value == pytest.approx(640e9, rel=0.3)
    )
    assert fp32.error > 0.12 and fp32.value == pytest.approx(23.7e12, rel=0.15)


_ANY = st.one_of(st.none(), st.integers(-(2**62), 2**62))
_WORDS = st.one_of(
    st.none(),
    st.text(max_size=30),
    st.sampled_from(["NVIDIA A100-SXM4-40GB", "AMD Radeon", "gfx942", "gfx90a:x", "GA102"]),
)


_DESCRIBED = {
    "name": _WORDS,
    "chip": _WORDS,
    "discrete": st.sampled_from([None, 0, 1, 7, -1]),
    **dict.fromkeys(COLUMNS, _ANY),
}


@given(st.fixed_dictionaries(_DESCRIBED))
def test_a_hostile_description_makes_no_number_that_cannot_be(row: dict[str, Any]) -> None:
    told = machine_of([Device.of(row)])
    if told.machine is not None and told.how == "family":
        for name, parameter in told.machine.parameters.items():
            assert math.isfinite(parameter.value) and parameter.value > 0, name


def test_nothing_is_made_of_nothing() -> None:
    assert machine_of([]).machine is None
    assert machine_of([Device(name="Board")]).machine is None
    assert machine_of([Device(name="Board", memory_bytes=8e9, clock_hz=1e9)]).machine is None
    two = [
        Device(name="A", multiprocessors=10.0, major=8, minor=6),
        Device(name="B", multiprocessors=20.0, major=8, minor=6),
    ]
    assert machine_of(two).machine is None


def test_machines_that_facts_do_not_tell_apart_are_one_with_wider_errors() -> None:
    told = machine_of(
        [Device(name="AMD Radeon Graphics", multiprocessors=104.0, memory_bytes=68_702_699_520.0)]
    )
    assert told.how == "facts" and told.machine is not None
    assert {"mi210", "mi250"} <= set(told.machine.title.replace(",", " ").split())
    assert told.machine.coupling == "pcie" and told.machine.value("link.h2d.bandwidth") == load(
        "mi210"
    ).value("link.h2d.bandwidth")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("b200", "b200-hgx"),
        ("v100", "v100-sxm2"),
        ("GH200", "gh200"),
        ("A100", "a100-sxm4-80"),
        ("h100", "h100-sxm5"),
        ("p100", "p100-pcie"),
        ("RTX 3090", "rtx3090"),
        ("Tesla V100-PCIE-16GB", "v100-pcie-16"),
        ("Mi250X", "mi250x"),
        ("orin", "jetson-agx-orin-64"),
        ("Jetson AGX Orin", "jetson-agx-orin-64"),
        ("jetson agx orin 32", "jetson-agx-orin-32"),
        ("orin nano", "jetson-orin-nano-8"),
        ("Orin NX", "jetson-orin-nx-16"),
        ("a100 pcie 40", "a100-pcie-40"),
    ],
)
def test_names_that_people_type_find_their_machine(text: str, meant: str) -> None:
    machine = load(text)
    assert machine.name == meant
    assert meant == text.casefold() or f"({meant}, asked as {text})" in machine.title


@pytest.mark.parametrize("text", ["mi300", "v100-pcie", "pcie4"])
def test_a_text_that_may_mean_several_is_refused_with_them(text: str) -> None:
    with pytest.raises(MachineError, match="M030") as refused:
        load(text)
    assert len(called(text)) > 1 and all(name in refused.value.fix for name in called(text))


@pytest.mark.parametrize("text", ["b20", "h1", "nothing", "", "4"])
def test_a_text_that_means_none_is_unknown(text: str) -> None:
    with pytest.raises(MachineError):
        load(text)


@given(st.text(max_size=40))
def test_any_text_is_answered_or_refused(text: str) -> None:
    assert isinstance(called(text), tuple)


def test_every_name_and_alias_means_one_machine() -> None:
    for machine in all_machines():
        assert called(machine.name.upper()) == (machine.name,)
    for family in families().values():
        assert not family.link or {"link.h2d.bandwidth", "link.d2h.efficiency"} <= set(
            link_of(family.link)
        )
