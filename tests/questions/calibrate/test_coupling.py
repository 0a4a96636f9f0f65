"""The coupling between two probes of one machine: equal probes change nothing, and a factor is what
the probes differ in.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran
from refusals import refused
from test_calibrate_cli import HEAD, copies

import turnbuckle as tb

Turnbuckle = Callable[..., Ran]


@pytest.fixture
def probes(tmp_path: Path) -> tuple[list[Path], list[Path]]:
    """Copies of a machine in a virtual machine and bare: 2 us more a copy, 30 % of the rate to the
    device gone.
    """
    out = []
    for name, latency, to_device, to_host in (("vm", 4e-6, 35e9, 40e9), ("bare", 2e-6, 50e9, 40e9)):
        files = [tmp_path / f"{name}-{way}.txt" for way in ("in", "out")]
        files[0].write_text(copies(latency, to_device))
        files[1].write_text(copies(latency, to_host, "D2H"))
        out.append(files)
    return out[0], out[1]


def test_equal_probes_are_the_identity(probes: tuple[list[Path], list[Path]]) -> None:
    bare = tb.calibrate(probes[1])
    same = bare.beside(bare)
    assert (
        same.relative
        and same.changes
        and {change.scale.value for change in same.changes if change.scale} == {1.0}
    )
    run = tb.read(SAMPLE)
    assert (
        run.project([same], draws=0).projections[0].seconds
        == run.project(["self"], draws=0).projections[0].seconds
    )


def test_factors_are_what_the_probes_differ_in(probes: tuple[list[Path], list[Path]]) -> None:
    virtual, bare = map(tb.calibrate, probes)
    factor = {c.parameter: c.scale for c in virtual.beside(bare).changes}
    wanted = {
        "link.h2d.bandwidth": 0.7,
        "link.d2h.bandwidth": 1.0,
        "link.h2d.latency": 2.0,
        "link.d2h.latency": 2.0,
    }
    assert {name: p.value for name, p in factor.items() if p} == pytest.approx(wanted, rel=0.02)
    errors = {
        e.name: (e.error, b.error) for e, b in zip(virtual.parameters, bare.parameters, strict=True)
    }
    assert all(
        p and p.error == pytest.approx(sum(e**2 for e in errors[name]) ** 0.5)
        for name, p in factor.items()
    )
    back = {c.parameter: c.scale for c in bare.beside(virtual).changes}
    assert all(p and back[name].value * p.value == pytest.approx(1.0) for name, p in factor.items())


def test_the_file_gives_what_python_gives(
    turnbuckle: Turnbuckle, probes: tuple[list[Path], list[Path]], tmp_path: Path
) -> None:
    virtual, bare = probes
    words = ("calibrate", *virtual, "--beside", bare[0], "--beside", bare[1], "-o", "our-vm.toml")
    ran = turnbuckle(*words)
    assert ran.code == 0 and "link.h2d.bandwidth" in ran.out and "0.700x" in ran.out
    assert turnbuckle("machines", "check", "our-vm.toml").code == 0
    rows = {
        row["parameter"]: row["value"]
        for row in json.loads(turnbuckle(*words, "--format", "json").out)["parameters"]
    }
    machine = tb.calibrate(virtual).beside(tb.calibrate(bare))
    assert rows == {c.parameter: c.scale.value for c in machine.changes if c.scale}
    run = tb.read(SAMPLE)
    written, made = (
        run.project([on], draws=0).projections[0].seconds
        for on in (str(tmp_path / "our-vm.toml"), machine)
    )
    assert (
        written == pytest.approx(made, rel=1e-9)
        and written > run.project(["self"], draws=0).projections[0].seconds
    )


def test_probes_that_do_not_belong_together(
    turnbuckle: Turnbuckle, probes: tuple[list[Path], list[Path]], tmp_path: Path
) -> None:
    other = tmp_path / "other.txt"
    other.write_text(copies(head=HEAD.replace("H100", "A100")))
    assert "error[A411]" in turnbuckle("calibrate", probes[0][0], "--beside", other).err
    assert (
        "error[A410]"
        in turnbuckle(
            "calibrate", probes[0][0], "--beside", probes[1][0], "--base", "h100-sxm5"
        ).err
    )
    ran = turnbuckle("calibrate", probes[0][0], "--beside", probes[1][1], "-o", "vm.toml")
    assert ran.code == 3 and "error[A184]" in ran.err and not (tmp_path / "vm.toml").exists()
    refused("A184", tb.calibrate(probes[0][:1]).beside, tb.calibrate(probes[1][1:]))
