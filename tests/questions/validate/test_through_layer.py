"""A layer's cost of a command comes back from programs that ran through it, and predicts others;
only what was not used is judged.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from distances import launch_and_wait, on_full, one_after_another
from refusals import refused

from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.machine import Machine, load
from turnbuckle.questions.calibrate.layer import Ping, command_seconds
from turnbuckle.questions.distance.layer import Through
from turnbuckle.questions.validate.cases import find
from turnbuckle.questions.validate.measured.measurements import read_measurements
from turnbuckle.questions.validate.measured.through_layer import FORM, points
from turnbuckle.questions.validate.question import validate

ROOT = Path(__file__).resolve().parents[3]
CASE = ROOT / "validation" / "cases" / "remoting_pocl"


@pytest.fixture
def layer() -> Machine:
    return load(str(CASE / "layer.toml"))


def through(layer: Machine, command: float, trip: float, program: int) -> Ping:
    run = on_full(launch_and_wait(program))
    seconds = Through.of(run, layer).seconds(
        {"remoting.command": command, "remoting.round_trip": trip}
    )
    return Ping(str(program), run, trip, (float(seconds[0]),))


@pytest.mark.parametrize("command", [1e-6, 2e-4])
@pytest.mark.parametrize("trip", [0.0, 1e-4])
def test_the_cost_of_a_command_comes_back(layer: Machine, command: float, trip: float) -> None:
    found, error = command_seconds([through(layer, command, trip, n) for n in (10, 40)], layer)
    assert found == pytest.approx(command, rel=1e-6) and error < 1e-5
    alone, unsure = command_seconds([through(layer, command, trip, 10)], layer)
    assert alone == pytest.approx(command, rel=1e-6) and unsure == 1.0, (
        "one program says nothing of the next"
    )


def test_programs_that_disagree_widen_the_error(layer: Machine) -> None:
    pings = [through(layer, 1e-4, 0.0, 10), through(layer, 1.2e-4, 0.0, 10)]
    found, error = command_seconds(pings, layer)
    assert found == pytest.approx((1e-4 * 1.2e-4) ** 0.5, rel=1e-6) and error > 0.5


def test_a_program_that_runs_no_longer_is_refused(layer: Machine) -> None:
    run = on_full(one_after_another(5, 1))
    with pytest.raises(CannotAnswer, match="no longer through the layer"):
        command_seconds([Ping("short", run, 0.0, (run.profile.seconds * 0.9,))], layer)


def test_only_points_that_were_not_used_are_judged() -> None:
    told = read_measurements(CASE / "measured.json", FORM)
    command, error, found = points(
        CASE / "recordings",
        CASE / "measured.json",
        load(str(CASE / "layer.toml")),
        str(CASE / "machine.toml"),
    )
    used = {(name, 0.0) for name in told["calibrated_on"]["programs"]}
    asked = {
        (name, p["one_way_ns"] * 1e-9)
        for name, program in told["programs"].items()
        for p in program["points"]
    }
    assert {(p.program, p.one_way) for p in found} == asked - used and len(found) == 14
    assert 1e-4 < command < 4e-4 and 0 < error < 0.2
    assert all(p.low <= p.predicted["timeline"] <= p.high for p in found)


def test_the_answers_of_other_points_change_no_prediction(tmp_path: Path) -> None:
    """Nothing is fitted to what is predicted: other answers, the same predictions."""
    told = read_measurements(CASE / "measured.json", FORM)
    layer, source = load(str(CASE / "layer.toml")), str(CASE / "machine.toml")
    for name, program in told["programs"].items():
        for p in program["points"]:
            if (name, p["one_way_ns"]) not in {(n, 0) for n in told["calibrated_on"]["programs"]}:
                p["seconds"] = [3 * s for s in p["seconds"]]
    other = tmp_path / "measured.json"
    other.write_text(json.dumps(told), encoding="utf-8")
    before, after = (
        points(CASE / "recordings", file, layer, source)[2]
        for file in (CASE / "measured.json", other)
    )
    assert [p.predicted for p in before] == [p.predicted for p in after]


def test_the_case_is_nearer_than_what_stands_beside_it() -> None:
    rows = validate(find(["remoting_pocl"], CASE.parent), None).rows
    assert {r.kind for r in rows} == {"remoting"}
    off = {
        model: [r.off for r in rows if r.model == model]
        for model in ("timeline", "nothing", "api", "link")
    }
    assert statistics.median(off["timeline"]) < min(off["nothing"] + off["api"] + off["link"])  # type: ignore[type-var, operator]


@pytest.mark.parametrize(
    "change",
    [
        {"calibrated_on": {"programs": ["gone"], "one_way_ns": 0}},
        {"calibrated_on": {"programs": ["sync"], "one_way_ns": 7}},
        {"calibrated_on": {"programs": [], "one_way_ns": 0}},
        {"programs": {}},
    ],
)
def test_measurements_that_say_too_little_are_refused(
    tmp_path: Path, change: dict[str, object]
) -> None:
    file = tmp_path / "measured.json"
    file.write_text(
        json.dumps({**json.loads((CASE / "measured.json").read_text(encoding="utf-8")), **change}),
        encoding="utf-8",
    )
    refused(
        "A192",
        points,
        CASE / "recordings",
        file,
        load(str(CASE / "layer.toml")),
        str(CASE / "machine.toml"),
    )
