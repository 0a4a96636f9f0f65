"""A layer measured with pings: what went in comes back, a machine file that projects, and files
that cannot be are refused.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distances import launch_and_wait, on_full, one_after_another
from hostile_names import Ran

from turnbuckle.machine import Machine, load
from turnbuckle.profile.profile import Profile
from turnbuckle.questions.calibrate.layer import Ping, calibrated
from turnbuckle.questions.distance.layer import Through

CASE = Path(__file__).resolve().parents[3] / "validation" / "cases" / "remoting_pocl"
Turnbuckle = Callable[..., Ran]


@pytest.fixture
def layer() -> Machine:
    return load("cdi-row-blocking")


@pytest.fixture
def pings(tmp_path: Path) -> dict[str, Any]:
    """The pings of the case at no distance, beside their recordings and their layer."""
    for name in ("sync", "async"):
        shutil.copytree(CASE / "recordings" / name, tmp_path / name)
    shutil.copy(CASE / "layer.toml", tmp_path)
    programs = json.loads((CASE / "measured.json").read_text(encoding="utf-8"))["programs"]
    return {
        "pings": [
            {
                "class": "launch",
                "recording": name,
                "window_ns": programs[name]["window_ns"],
                "round_trip_ns": 0,
                "seconds": programs[name]["points"][0]["seconds"],
            }
            for name in ("sync", "async")
        ]
    }


def ping(name: str, profile: Profile, layer: Machine, trip: float, **numbers: float) -> Ping:
    given = {f"remoting.{n.replace('_', '.')}": v for n, v in numbers.items()} | {
        "remoting.round_trip": trip
    }
    run = on_full(profile)
    return Ping(name, run, trip, (float(Through.of(run, layer).seconds(given)[0]),))  # type: ignore[arg-type]


def test_a_command_and_the_rates_of_both_directions_come_back(layer: Machine) -> None:
    command, up, down = 40e-6, 1.2e9, 0.7e9
    numbers = {"command": command, "h2d_bandwidth": up, "d2h_bandwidth": down}
    found = calibrated(
        {
            "launch": [ping("launches", launch_and_wait(20), layer, 30e-6, **numbers)],
            "write": [
                ping(f"writes {n}", one_after_another(n, 1, 1 << 20), layer, 30e-6, **numbers)
                for n in (10, 20)
            ],
            "read": [ping("reads", one_after_another(10, 2, 1 << 20), layer, 0.0, **numbers)],
        },
        layer,
        "a test",
    )
    assert {n: p.value for n, p in found.items()} == {
        "remoting.command": pytest.approx(command, rel=1e-6),
        "remoting.h2d.bandwidth": pytest.approx(up, rel=1e-6),
        "remoting.d2h.bandwidth": pytest.approx(down, rel=1e-6),
    }
    assert (
        found["remoting.h2d.bandwidth"].error < 1e-4
        and found["remoting.d2h.bandwidth"].error == 1.0
    )
    assert all(p.nature == "measured" and p.source == "a test" for p in found.values())


def test_a_machine_file_that_checks_and_projects(
    turnbuckle: Turnbuckle, tmp_path: Path, pings: dict[str, Any]
) -> None:
    (tmp_path / "pings.json").write_text(json.dumps(pings), encoding="utf-8")
    ran = turnbuckle(
        "calibrate",
        "--pings",
        "pings.json",
        "--base",
        "layer.toml",
        "--name",
        "ours",
        "-o",
        "ours.toml",
    )
    assert ran.code == 0 and "remoting.command" in ran.out and "ours.toml" in ran.out
    ours = load(str(tmp_path / "ours.toml"))
    changed = {c.parameter: c.set for c in ours.changes}
    assert ours.coupling == "remoting" and changed["remoting.command"] is not None
    assert (
        1e-4 < changed["remoting.command"].value < 4e-4
        and changed["remoting.command"].nature == "measured"
    )
    assert turnbuckle("machines", "check", "ours.toml").code == 0
    assert turnbuckle("project", "sync", "--on", "ours.toml", "--draws", "0").code == 0
    told = json.loads(
        turnbuckle(
            "calibrate", "--pings", "pings.json", "--base", "layer.toml", "--format", "json"
        ).out
    )
    assert [p["parameter"] for p in told["parameters"]] == ["remoting.command"] and told[
        "machine_file"
    ] is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"recording": "../sync"}, "no recording of a program"),
        ({"recording": "gone"}, "no recording of a program"),
        ({"class": "event"}, "pings of this class tell no number"),
        ({"class": "write"}, "the measurements hold no points"),
        ({"seconds": []}, "the measurements hold no points"),
        ({"seconds": [1e-3]}, "no longer through the layer"),
        ({"round_trip_ns": -1}, "the measurements lack"),
    ],
)
def test_pings_that_cannot_be_are_refused(
    turnbuckle: Turnbuckle, tmp_path: Path, pings: dict[str, Any], change: dict[str, Any], said: str
) -> None:
    (tmp_path / "pings.json").write_text(
        json.dumps({"pings": [{**pings["pings"][0], **change}]}), encoding="utf-8"
    )
    ran = turnbuckle("calibrate", "--pings", "pings.json", "--base", "layer.toml")
    assert ran.code in (2, 3) and said in ran.err


def test_pings_need_a_layer_and_nothing_else(
    turnbuckle: Turnbuckle, tmp_path: Path, pings: dict[str, Any]
) -> None:
    (tmp_path / "pings.json").write_text(json.dumps(pings), encoding="utf-8")
    for words in ((), ("--base", "layer.toml", "--run"), ("pings.json", "--base", "layer.toml")):
        ran = turnbuckle("calibrate", *words, "--pings", "pings.json")
        assert ran.code == 2 and "--pings measures a layer alone" in ran.err
    ran = turnbuckle("calibrate", "--pings", "pings.json", "--base", "cdi-row-link")
    assert ran.code == 2 and "no remoting layer" in ran.err
