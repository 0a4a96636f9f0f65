"""``turnbuckle calibrate``: a machine file that the rest of Turnbuckle takes, and errors that say
what to give instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran

from turnbuckle.machine import load

Turnbuckle = Callable[..., Ran]
HEAD = " Device 0: NVIDIA H100 80GB HBM3\n"


def copies(latency: float = 2e-6, rate: float = 50e9, way: str = "H2D", head: str = HEAD) -> str:
    """What bandwidthTest prints of such a link."""
    lines = "".join(
        f"bandwidthTest-{way}-Pinned, Bandwidth = {n / (latency + n / rate) / 1e9:.4f} GB/s, Time "
        f"= {latency + n / rate:.9f} s, "
        f"Size = {n} bytes, NumDevsUsed = 1\n"
        for n in (2**k for k in range(8, 28))
    )
    return "[CUDA Bandwidth Test] - Starting...\n" + head + lines


@pytest.fixture
def measured(tmp_path: Path) -> list[Path]:
    files = [tmp_path / "in.txt", tmp_path / "out.txt"]
    files[0].write_text(copies())
    files[1].write_text(copies(3e-6, 40e9, "D2H"))
    return files


def test_a_machine_file_that_checks_and_projects(
    turnbuckle: Turnbuckle, measured: list[Path], tmp_path: Path
) -> None:
    ran = turnbuckle(
        "calibrate", *measured, "--base", "h100-sxm5", "--name", "mynode", "-o", "mynode.toml"
    )
    assert (
        ran.code == 0
        and "link.h2d.latency" in ran.out
        and "not measured, taken from h100-sxm5" in ran.out
    )
    assert turnbuckle("machines", "check", "mynode.toml").code == 0
    machine = load(str(tmp_path / "mynode.toml"))
    assert machine.name == "mynode" and machine.coupling == "pcie" and machine.year == 2022
    assert machine.value("link.h2d.latency") == pytest.approx(2e-6, rel=0.01)
    assert machine.value("link.h2d.efficiency") == pytest.approx(50 / 63.015, rel=0.01)
    assert machine.value("gpu.memory_size") == 80e9
    projected = turnbuckle(
        "project", SAMPLE, "--on", "mynode.toml", "--draws", "0", "--format", "json"
    )
    assert projected.code == 0 and "mynode" in projected.out
    assert (
        turnbuckle("transfers", measured[0], "--on", "mynode.toml", "--measured", measured[0]).code
        == 0
    )


def test_without_a_base_the_file_stands_alone(
    turnbuckle: Turnbuckle, measured: list[Path], tmp_path: Path
) -> None:
    assert turnbuckle("calibrate", measured[0], "-o", "alone.toml").code == 0
    machine = load(str(tmp_path / "alone.toml"))
    assert set(machine.parameters) == {
        "link.h2d.bandwidth",
        "link.h2d.efficiency",
        "link.h2d.latency",
    }
    assert machine.parameters["link.h2d.bandwidth"].value == pytest.approx(50e9, rel=0.01)
    assert "sha256" in machine.parameters["link.h2d.latency"].source and machine.recognise == (
        "NVIDIA H100 80GB HBM3",
    )


def test_a_base_given_as_a_file_is_found_from_where_the_new_one_lies(
    turnbuckle: Turnbuckle, measured: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "below").mkdir()
    assert turnbuckle("calibrate", measured[0], "-o", "below/one.toml").code == 0
    assert (
        turnbuckle("calibrate", measured[1], "--base", "below/one.toml", "-o", "two.toml").code == 0
    )
    machine = load(str(tmp_path / "two.toml"))
    assert machine.value("link.h2d.bandwidth") == pytest.approx(50e9, rel=0.01)
    assert machine.value("link.d2h.bandwidth") == pytest.approx(40e9, rel=0.01)


def test_the_summary_as_json(turnbuckle: Turnbuckle, measured: list[Path]) -> None:
    ran = turnbuckle("calibrate", *measured, "--base", "h100-sxm5", "--format", "json")
    found = json.loads(ran.out)
    by_name = {p["name"]: p for p in found["parameters"]}
    latency = by_name["link.h2d.latency"]
    assert (
        latency["low"] < latency["value"] < latency["high"]
        and latency["unit"] == "s"
        and "lines 3 to 22" in latency["where"]
    )
    assert (
        found["base"] == "h100-sxm5"
        and "gpu.fp64" in found["inherited"]
        and len(found["fits"]) == 2
    )
    assert (
        found["fits"][0]["held_out_median_error"] < 0.01
        and found["sources"][0]["device"] == "NVIDIA H100 80GB HBM3"
    )
    assert found["schema_version"] and found["machine_file"] is None


def test_a_base_of_another_device_is_told(turnbuckle: Turnbuckle, measured: list[Path]) -> None:
    def told(base: str) -> str | None:
        found: dict[str, str | None] = json.loads(
            turnbuckle("calibrate", measured[0], "--base", base, "--format", "json").out
        )
        return found["device_unlike_base"]

    assert (told("h100-sxm5"), told("a100-sxm4-80")) == (None, "NVIDIA H100 80GB HBM3")
    assert (
        "numbers of another machine are mixed in"
        in turnbuckle("calibrate", measured[0], "--base", "a100-sxm4-80").out
    )


def test_a_size_makes_rates_into_copies(turnbuckle: Turnbuckle, tmp_path: Path) -> None:
    text = (
        "Running host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
        " 0 1\n 0 55.00 57.00\n"
    )
    (tmp_path / "nv.txt").write_text(text)
    bare, sized = (
        turnbuckle("calibrate", "nv.txt", *more) for more in ((), ("--copied-size", "512 MiB"))
    )
    assert "M105" in bare.out and "M105" not in sized.out
    assert all("link.h2d.bandwidth" in ran.out and "56 GB/s" in ran.out for ran in (bare, sized))


def test_questions_that_are_not_well_put(
    turnbuckle: Turnbuckle, measured: list[Path], tmp_path: Path
) -> None:
    other = tmp_path / "other.txt"
    other.write_text(copies(head=" Device 0: NVIDIA A100-SXM4-80GB\n"))
    wanted = {
        ("calibrate",): "A408",
        ("calibrate", measured[0], "--name", "My Node"): "A409",
        ("calibrate", measured[0], "--quick"): "A410",
        ("calibrate", measured[0], other): "A411",
        ("calibrate", measured[0], "-o", measured[0]): "R004",
        ("calibrate", measured[0], "--base", "pcie5-x16"): "M017",
    }
    for words, code in wanted.items():
        ran = turnbuckle(*words)
        assert ran.code == 2 and f"error[{code}]" in ran.err and "fix:" in ran.err, words
    assert measured[0].read_text() == copies()


def test_what_gives_no_parameter_has_a_summary_and_no_machine_file(
    turnbuckle: Turnbuckle, tmp_path: Path
) -> None:
    (tmp_path / "x.txt").write_text(
        "".join(f"gdr_copy_to_mapping {4**k} {0.1 + 4**k / 2e4:.4f}\n" for k in range(9))
    )
    assert turnbuckle("calibrate", "x.txt").code == 0
    ran = turnbuckle("calibrate", "x.txt", "-o", "x.toml")
    assert ran.code == 3 and "error[A184]" in ran.err and not (tmp_path / "x.toml").exists()
    ran = turnbuckle("calibrate", "x.txt", "--surface", "surface.csv")
    assert ran.code == 3 and "error[A188]" in ran.err and not (tmp_path / "surface.csv").exists()


def test_without_a_driver_measuring_is_refused(
    turnbuckle: Turnbuckle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    ran = turnbuckle("calibrate", "--run", "-o", "here.toml")
    assert (
        ran.code == 3
        and "error[A185]" in ran.err
        and "give files" in ran.err
        and not (tmp_path / "here.toml").exists()
    )
