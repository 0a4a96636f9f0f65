"""Law: a point of a sweep is the answer of its question asked alone, to the last bit, whatever was asked before it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from turnbuckle.machine import Parameter, load, schema
from turnbuckle.machine.parameter_names import parameter_name
from turnbuckle.projection.model import nething
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.questions.sweep.grid import Study
from turnbuckle.questions.sweep.kinds import PROJECT, SLACK
from turnbuckle.questions.sweep.question import Serial, sweep

SAMPLE = Path(__file__).parents[2] / "src/turnbuckle/examples/milc-like-synthetic.sqlite"


@pytest.fixture(scope="module")
def shared_run() -> Run:
    return Run.read(SAMPLE, use_cache=False)


PARTS = ("launch", "kernel", "copy", "other")


def alone(row: dict[str, Any], names: list[str], run: Run | None = None) -> dict[str, Any]:
    """`project` asked for the target of one row, in a run of its own where none is given."""
    target = load(row["on"])
    given = {parameter_name(n): Parameter(row[n], 0.0, schema()[parameter_name(n)].unit, "assumption", "set by the study") for n in names}
    target = target.with_parameters(given) if given else target
    run = run or Run.read(SAMPLE, use_cache=False)
    model = replace(nething(row["alpha"]), replay=row["replay"])
    projection = run.project([target], model=model, draws=row["draws"]).projections[0]
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
    rows = sweep(Study("law", PROJECT, {"run": SAMPLE}, {"draws": draws}, (), axes), Serial()).rows()
    assert len(rows) == 32 and not any(r["code"] for r in rows)
    for row in rows[:: 5 if draws else 3]:
        expected = alone(row, ["slack.link", "link.h2d.bandwidth"])
        assert {name: row[name] for name in expected} == expected, row


def between(name: str) -> list[float]:
    """Values of a parameter, as far apart as machines are."""
    row = schema()[parameter_name(name)]
    if row.unit == "manner":
        return [1.0, 3.0]
    usual = {"B/s": (5e9, 500e9), "s": (2e-7, 2e-4), "s/B": (1e-12, 1e-10)}.get(row.unit, (row.minimum, min(row.maximum, 300.0)))
    return [usual[0], usual[1]]


@pytest.mark.parametrize("name", [n for n in PROJECT.legal if n.startswith(("slack.", "link.", "launch.", "sync.", "alloc.", "remoting."))])
def test_points_that_are_priced_at_once_are_those_of_each_alone(name: str, shared_run: Run) -> None:
    pairs = [("cdi-row-link", "auto"), ("gh200", "sum"), ("h100-pcie", "auto"), *[("remote-socket", "auto")] * name.startswith("remoting.")]
    study = Study(
        "law", PROJECT, {"run": SAMPLE}, {"draws": 12, "alpha": "auto"}, [{"on": o, "replay": r} for o, r in pairs], {name: between(name)}
    )
    rows = sweep(study, Serial()).rows()
    assert len(rows) == 2 * len(pairs) and not any(r["code"] for r in rows)
    for row in rows[1::2]:
        expected = alone(row, [name], shared_run)
        assert {key: row[key] for key in expected} == expected, row


def test_the_order_of_points_changes_nothing() -> None:
    values = [k * 1e-6 for k in range(1, 6)]
    there, back = (
        sweep(Study("law", PROJECT, {"run": SAMPLE}, {"on": "cdi-row-link", "draws": 20}, (), {"slack.link": some}), Serial()).rows()
        for some in (values, values[::-1])
    )
    assert there == back[::-1]


def test_a_point_of_slack_is_slack_alone() -> None:
    rows = sweep(Study("law", SLACK, {"run": SAMPLE}, {}, (), {"slack_seconds": [1e-6, 2e-5], "mode": ["link", "api"]}), Serial()).rows()
    for row in rows:
        answer = tolerate(Run.read(SAMPLE, use_cache=False), row["mode"], draws=0)
        assert row["seconds"] == float(answer.curve(row["slack_seconds"])) and row["penalty"] == answer.penalty(row["slack_seconds"])
