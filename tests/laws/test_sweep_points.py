"""Law: a point of a sweep is the answer of its question asked alone, to the last bit, whatever was
asked before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from turnbuckle.machine import Machine, Parameter, load, schema
from turnbuckle.machine.parameter_names import parameter_name
from turnbuckle.projection.model import Model, nething
from turnbuckle.projection.projection import Projection
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.questions.sweep.grid import Study
from turnbuckle.questions.sweep.kinds import PROJECT, SLACK, Projected
from turnbuckle.questions.sweep.points import Held
from turnbuckle.questions.sweep.question import Serial, sweep

SAMPLE = Path(__file__).parents[2] / "src/turnbuckle/examples/milc-like-synthetic.sqlite"


@pytest.fixture(scope="module")
def held() -> Held:
    """What a worker holds of the sample, for many studies: each point is asked after all those
    before it.
    """
    return Held(SAMPLE)


PARTS = ("launch", "kernel", "copy", "other")


def asked_of(point: Projected) -> tuple[Machine, Model]:
    """Return the target and the model of one point."""
    given = {
        parameter_name(n): Parameter(
            v, 0.0, schema()[parameter_name(n)].unit, "assumption", "set by the study"
        )
        for n, v in point.others
    }
    return load(point.on).with_parameters(given), replace(nething(point.alpha), replay=point.replay)


def results(projection: Projection) -> dict[str, Any]:
    """Return what a sweep says of a projection."""
    interval = projection.interval
    return {
        "seconds": projection.seconds,
        "low_seconds": interval.low if interval else None,
        "high_seconds": interval.high if interval else None,
        **{f"{part}_seconds": projection.breakdown[part] for part in PARTS},
        "penalty": projection.penalty,
        "replayed": projection.replay,
        "findings": " ".join(sorted({f.code for f in projection.findings})),
    }


@pytest.mark.parametrize("draws", [0, 20])
def test_a_point_of_project_is_project_alone(draws: int) -> None:
    axes: dict[str, Any] = {
        "on": ["cdi-row-link", "gh200"],
        "alpha": ["auto", "hold"],
        "replay": ["auto", "sum"],
        "slack.link": [1e-6, 3e-5],
        "link.h2d.bandwidth": [12e9, 60e9],
    }
    study = Study("law", PROJECT, {"run": SAMPLE}, {"draws": draws}, (), axes)
    rows = sweep(study, Serial()).rows()
    assert len(rows) == 32 and not any(r["code"] for r in rows)
    for k in range(0, 32, 5 if draws else 3):
        target, model = asked_of(study.asked(k))
        alone = (
            Run.read(SAMPLE, use_cache=False)
            .project([target], model=model, draws=draws)
            .projections[0]
        )
        expected = results(alone)
        assert {name: rows[k][name] for name in expected} == expected, rows[k]
    hanging = [row["on"] for row in rows if "A396" in row["findings"]]
    assert set(hanging) == ({"gh200"} if draws else set()), "a row by a link keeps the host"


def between(name: str) -> list[float]:
    """Values of a parameter, as far apart as machines are."""
    row = schema()[parameter_name(name)]
    if row.unit == "manner":
        return [1.0, 3.0]
    usual = {"B/s": (5e9, 500e9), "s": (2e-7, 2e-4), "s/B": (1e-12, 1e-10)}.get(
        row.unit, (row.minimum, min(row.maximum, 300.0))
    )
    return [usual[0], usual[1]]


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in PROJECT.legal
        if n.startswith(("slack.", "link.", "launch.", "sync.", "alloc.", "remoting."))
    ],
)
def test_points_that_are_priced_at_once_are_those_of_each_alone(name: str, held: Held) -> None:
    pairs = [("remote-socket", "auto")] if name.startswith("remoting.") else []
    if schema()[parameter_name(name)].unit != "manner":  # those are priced one at a time
        pairs += [("cdi-row-link", "auto"), ("gh200", "sum"), ("h100-pcie", "auto")]
    study = Study(
        "law",
        PROJECT,
        {"run": SAMPLE},
        {"draws": 12, "alpha": "auto"},
        [{"on": o, "replay": r} for o, r in pairs],
        {name: between(name)},
    )
    assert PROJECT.together is not None
    points = [study.asked(k) for k in range(len(study))]
    answers = PROJECT.together(held, points)
    assert len(answers) == 2 * len(pairs)
    run = held.seen()
    for point, answer in list(zip(points, answers, strict=True))[1::2]:
        assert isinstance(answer, Mapping), answer
        target, model = asked_of(point)
        expected = results(run.project([target], model=model, draws=12).projections[0])
        assert {key: answer[key] for key in expected} == expected, point


def test_the_order_of_points_changes_nothing() -> None:
    values = [k * 1e-6 for k in range(1, 6)]
    there, back = (
        sweep(
            Study(
                "law",
                PROJECT,
                {"run": SAMPLE},
                {"on": "cdi-row-link", "draws": 20},
                (),
                {"slack.link": some},
            ),
            Serial(),
        ).rows()
        for some in (values, values[::-1])
    )
    assert there == back[::-1]


def test_a_point_of_slack_is_slack_alone() -> None:
    rows = sweep(
        Study(
            "law",
            SLACK,
            {"run": SAMPLE},
            {},
            (),
            {"slack_seconds": [1e-6, 2e-5], "mode": ["link", "api"]},
        ),
        Serial(),
    ).rows()
    for row in rows:
        answer = tolerate(Run.read(SAMPLE, use_cache=False), row["mode"], draws=0)
        assert row["seconds"] == float(answer.curve(row["slack_seconds"])) and row[
            "penalty"
        ] == answer.penalty(row["slack_seconds"])
