"""What is well formed and still cannot be meant is remarked upon."""

from __future__ import annotations

import pytest

from turnbuckle.machine import Change, Fact, Machine, Parameter, load
from turnbuckle.machine.check import Remark, check


def remarks(parameters: dict[str, Parameter] | None = None, **more: object) -> list[Remark]:
    gh200 = load("gh200")
    words: dict[str, object] = {
        "name": "x",
        "title": "t",
        "summary": "s",
        "year": 2020,
        "coupling": "c2c",
        **more,
    }
    return check(Machine(parameters={**gh200.parameters, **(parameters or {})}, **words))  # type: ignore[arg-type]


def number(
    value: float, unit: str, error: float = 0.1, nature: str = "measured", source: str = "a test"
) -> Parameter:
    return Parameter(value, error, unit, nature, source)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "parameter", "severity", "word"),
    [
        ("link.h2d.latency", number(5e-9, "s"), "error", "expected 10 ns to 1 s"),
        ("link.h2d.latency", number(60.0, "s"), "error", "not plausible"),
        ("link.h2d.bandwidth", number(5e15, "B/s"), "error", "not plausible"),
        ("link.h2d.efficiency", number(1.01, "1"), "error", "cannot pass the nominal"),
        ("link.h2d.efficiency", number(0.0, "1"), "error", "cannot pass the nominal"),
        ("launch.call", number(4e-6, "B/s"), "error", "unit"),
        ("launch.call", number(4e-6, "s", source=" "), "error", "no source"),
        ("launch.call", number(4e-6, "s", error=0.0), "warning", "no error"),
        (
            "launch.call",
            number(4e-6, "s", source="general knowledge, unverified"),
            "warning",
            "assumption",
        ),
        ("gpu.fp64_matrix", number(1e12, "FLOP/s"), "warning", "larger than gpu.fp64_matrix"),
        ("gpu.fp8_matrix", number(3957.8e12, "FLOP/s"), "warning", "sparsity"),
        (
            "gpu.tf32_matrix",
            number(989.4e12 * 2, "FLOP/s"),
            "warning",
            "larger than gpu.fp16_matrix",
        ),
        ("gpu.base_clock", number(2.2e9, "Hz"), "warning", "larger than gpu.clock"),
        (
            "gpu.shared_memory_block",
            number(256 * 1024, "B"),
            "warning",
            "larger than gpu.shared_memory",
        ),
        ("link.both.efficiency", number(0.8, "1"), "warning", "both directions"),
    ],
)
def test_implausible_numbers(name: str, parameter: Parameter, severity: str, word: str) -> None:
    found = remarks({name: parameter})
    assert any(r.severity == severity and word in r.message for r in found), found


def test_errors_come_first() -> None:
    found = remarks(
        {"launch.call": number(4e-6, "s", error=0.0), "link.h2d.latency": number(60.0, "s")}
    )
    assert [r.severity for r in found] == ["error", "warning"]


def test_memory_that_is_shared_needs_no_link() -> None:
    assert (
        remarks(coupling="apu", memory_shared=Fact(True, "spec", "a test"))[0].message
        == "has no meaning: copies vanish on this machine"
    )
    assert any(r.parameter == "copies_vanish" for r in remarks(coupling="apu"))


def test_a_machine_without_a_link_cannot_price_copies() -> None:
    assert {
        r.parameter
        for r in check(Machine(name="x", title="t", summary="s", year=0, coupling="pcie"))
    } == {
        "link.h2d.bandwidth",
        "link.d2h.bandwidth",
    }


@pytest.mark.parametrize(
    "change",
    [
        Change("link.h2d.latency", scale=number(1e6, "1")),
        Change("link.h2d.latency", add=number(20.0, "s")),
        Change("link.h2d.latency", set=number(20.0, "s")),
        Change("link.h2d.efficiency", assume=number(2.0, "1")),
    ],
)
def test_implausible_changes(change: Change) -> None:
    machine = Machine(
        name="x", title="t", summary="s", year=0, coupling="pcie", base="source", changes=(change,)
    )
    assert [r.severity for r in check(machine)] == ["error"]
