"""``turnbuckle model ssi``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran

from turnbuckle.machine import load

Run = Callable[..., Ran]
MADE = ("--calls", 100, "--to-device", "64kB", "--to-host", "64kB", "--kernel-time", "20us")


def test_the_sample(turnbuckle: Run) -> None:
    ran = turnbuckle(
        "model", "ssi", SAMPLE, "--link", "pcie4-x16", "--now", "PCIe", "--far", "rack,data centre"
    )
    assert ran.code == 0, ran.err
    assert ran.out.startswith("pcie4-x16, now PCIe: ") and "+ data centre" in ran.out
    assert "propagation paid by the message" in " ".join(ran.out.split())
    about = json.loads(
        turnbuckle("model", "ssi", SAMPLE, "--link", "pcie4-x16", "--format", "json").out
    )
    assert next(iter(about)) == "schema_version"
    assert (
        about["link"]["name"] == "pcie4-x16"
        and about["rows"][1]["distance"] == "2 cm"
        and about["rows"][2]["distance"] == "16cm"
    )
    assert (
        about["benefit"] == pytest.approx(about["delta_seconds"] / about["alpha_seconds"])
        and about["affine"]
    )
    assert about["recorded"]["calls"] == about["loop"]["calls"] and "provenance" in about


def test_options_stand_above_the_recording(turnbuckle: Run) -> None:
    about = json.loads(
        turnbuckle(
            "model", "ssi", SAMPLE, "--link", "pcie4-x16", "--calls", 7, "--format", "json"
        ).out
    )
    assert (
        about["loop"]["calls"] == 7
        and about["recorded"]["calls"] > 7
        and about["recorded"]["kernel"] == ""
    )


def test_a_loop_in_numbers(turnbuckle: Run) -> None:
    words = (
        "model",
        "ssi",
        *MADE,
        "--link",
        "25GB/s",
        "--now",
        "1us",
        "--far",
        "50us",
        "--in-flight",
        4,
    )
    ran = turnbuckle(*words)
    assert ran.code == 0 and "off it by" in ran.out and "link of 25 GB/s" in ran.out
    table = turnbuckle(*words, "--format", "csv").out.splitlines()
    assert len(table) == 4 and table[0].startswith(
        "link,quantum,distance,propagation_seconds,seconds,ratio,affine_ratio"
    )
    nvlink = json.loads(
        turnbuckle("model", "ssi", *MADE, "--link", "nvlink2-x2", "--format", "json").out
    )
    assert nvlink["rows"][1]["distance"] == "1 cm", "the report's length of NVLink"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--link", "pcie4-x16"), "A087"),
        ((*MADE, "--link", "25GB/s"), "A088"),
        ((*MADE, "--link", "pcie4-x16", "--far", "1mm"), "A088"),
        ((*MADE, "--link", "pcie4-x16", "--far", ","), "A088"),
        ((*MADE, "--link", "pcie4-x16", "--far", "[red]"), "U0"),
        ((*MADE, "--link", "pcie9-x16"), "A016"),
        ((*MADE, "--link", "pcie4-x16", "--width", 0), "A087"),
        ((*MADE, "--link", "pcie4-x16", "--streams", -1), "A087"),
        ((*MADE, "--link", "pcie4-x16", "--host-time", "2"), "U001"),
        ((*MADE, "--link", "0 B/s", "--now", "1us", "--far", "1ms"), "A087"),
        ((*MADE, "--link", "pcie4-x16", "--speed", "nan"), "A088"),
        ((*MADE, "--link", "pcie4-x16", "--kernel", "dslash"), "A056"),
        ((*MADE, "--link", "pcie4-x16", "--source", "a100"), "A056"),
        ((*MADE, "--link", "pcie4-x16", "--no-cache"), "A056"),
        ((*MADE, "--link", "pcie4-x16", "--now", "1us", "--far", "2us", "--speed", "0.67"), "A056"),
        (("nothing.sqlite", "--link", "pcie4-x16"), "P001"),
        (("nothing.sqlite",), "A087"),
        ((*MADE, "--link", "pcie4-x16", "--on", "perlmutter"), "A087"),
        ((*MADE, "--on", "gh200"), "A088"),
    ],
)
def test_questions_that_cannot_be(turnbuckle: Run, words: tuple[object, ...], code: str) -> None:
    ran = turnbuckle("model", "ssi", *words)
    assert ran.code == 2 and f"error[{code}" in ran.err, ran.err


def test_no_such_kernel(turnbuckle: Run, hostile: Path) -> None:
    ran = turnbuckle("model", "ssi", SAMPLE, "--link", "pcie4-x16", "--kernel", "\x1b[2J")
    assert ran.code == 3 and "error[A169" in ran.err and "\x1b" not in ran.err
    shown = turnbuckle("model", "ssi", hostile, "--link", "pcie4-x16").out
    assert "\x1b" not in shown and "\x9b" not in shown


def test_what_a_loop_of_a_recording_leaves_out_is_said(turnbuckle: Run, shared: Path) -> None:
    """Kernels of two GPUs, and pages moved on demand (268,500,992 B in and 268,435,456 B out,
    truth.json).
    """
    traces = shared / "traces" / "nsys"
    two = (
        "model",
        "ssi",
        next((traces / "mfu_2gpu_before").glob("*.sqlite")),
        "--link",
        "pcie5-x16",
    )
    apart = ("--streams", 2, "--workers", 2, "--calls", 2005)
    assert (
        f"calls of 2 GPUs, here one after the other; {' '.join(map(str, apart))} has"
        in " ".join(turnbuckle(*two).out.split())
    )
    assert (
        "GPUs" in turnbuckle(*two, "--workers", 2).out
        and "GPUs" not in turnbuckle(*two, *apart).out
    )
    paged = (
        "model",
        "ssi",
        next((traces / "softmax_uvm_t4").glob("*.sqlite")),
        "--link",
        "pcie3-x16",
    )
    assert "537 MB of pages moved on demand are left out" in " ".join(
        turnbuckle(*paged).out.split()
    )
    about = json.loads(turnbuckle(*paged, "--format", "json").out)["recorded"]
    assert about["migrated_bytes"] == 268500992 + 268435456 and about["devices"] == 1


@pytest.mark.parametrize("option", ["--in-flight", "--queue"])
def test_any_window_beyond_all_calls_is_no_limit(turnbuckle: Run, option: str) -> None:
    asked = ("model", "ssi", *MADE, "--link", "pcie4-x16", "--far", "1m", "--format", "json")
    none, huge = (json.loads(turnbuckle(*asked, option, k).out)["rows"] for k in (0, 1 << 63))
    assert none == huge


def test_a_machine_by_name_has_its_measured_link(turnbuckle: Run) -> None:
    machine = load("summit")
    reached = (machine.value("link.h2d.bandwidth") or 0.0) * (
        machine.value("link.h2d.efficiency") or 0.0
    )
    about = json.loads(turnbuckle("model", "ssi", *MADE, "--on", "summit", "--format", "json").out)
    assert about["link"]["name"] == "summit" and about["link"]["bandwidth"] == pytest.approx(
        reached
    )
    assert about["rows"][1]["distance"] == "1 cm", "NVLink, as the report has it"
    far = json.loads(
        turnbuckle(
            "model",
            "ssi",
            *MADE,
            "--on",
            "gh200",
            "--now",
            "70ns",
            "--far",
            "1us",
            "--format",
            "json",
        ).out
    )
    assert far["link"]["name"] == "gh200"
