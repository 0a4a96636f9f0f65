"""A machine that was changed in Python stands for a name in a study: its own answers, its own key,
its name in the table.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import turnbuckle as tb
from turnbuckle.questions.sweep.kinds import PROJECT, SLACK
from turnbuckle.questions.sweep.question import Serial

GH200 = tb.Machine.load("gh200")
FAR = replace(
    GH200.with_parameters(
        {"link.h2d.bandwidth": tb.Parameter(1e9, 0.0, "B/s", "assumption", "this test")}
    ),
    name="far",
)


def study(**settings: Any) -> tb.Study:
    settings = {"draws": 0, **settings}
    axes = {name: value for name, value in settings.items() if isinstance(value, list)}
    fixed = {name: value for name, value in settings.items() if name not in axes}
    with tb.sample() as path:
        return tb.Study("machines", PROJECT, {"run": path}, fixed, axes=axes)


def test_it_answers_as_project_does_and_has_its_name_in_the_table(tmp_path: Path) -> None:
    source = tb.Machine.load("a100-pcie-40")
    swept = tb.sweep(
        study(on=["gh200", FAR], source=source), Serial(), output=tmp_path / "table.csv"
    )
    with tb.sample() as path:
        asked = tb.read(path, source=source).project(["gh200", FAR], draws=0)
    rows = swept.rows()
    assert [row["on"] for row in rows] == ["gh200", "far"] and {row["source"] for row in rows} == {
        "a100-pcie-40"
    }
    assert [row["seconds"] for row in rows] == pytest.approx(
        [p.seconds for p in asked.projections], rel=1e-12
    )
    assert rows[0]["seconds"] != rows[1]["seconds"]
    assert "far" in swept.to_json() and "far" in repr(swept.table())


def test_the_journal_tells_machines_of_one_name_apart(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    first = tb.sweep(study(on=FAR), Serial(), output=table)
    again = tb.sweep(study(on=pickle.loads(pickle.dumps(FAR))), Serial(), output=table)
    assert (first.computed, again.computed, again.from_journal) == (1, 0, 1)
    nearer = replace(GH200, name="far")
    other = tb.sweep(study(on=nearer), Serial(), output=table)
    assert other.computed == 1 and other.rows()[0]["seconds"] < first.rows()[0]["seconds"]


def test_a_source_of_another_kind_of_question() -> None:
    slow = tb.Machine.load("a100-pcie-40").with_parameters(
        {"link.h2d.bandwidth": tb.Parameter(1e9, 0.0, "B/s", "assumption", "this test")}
    )
    with tb.sample() as path:
        swept = tb.sweep(
            tb.Study("far", SLACK, {"run": path}, {"source": slow}, axes={"slack_seconds": [1e-5]}),
            Serial(),
        )
        assert swept.rows()[0]["seconds"] == pytest.approx(
            float(tb.read(path, source=slow).slack(draws=0).curve(1e-5)), rel=1e-12
        )


def test_two_machines_of_one_name_are_one_value_too_many() -> None:
    with pytest.raises(tb.TurnbuckleError, match="twice") as refused:
        study(on=["gh200", GH200])
    assert refused.value.code == "A084"


def test_equal_machines_have_one_hash_and_changed_ones_another_content() -> None:
    copy = pickle.loads(pickle.dumps(FAR))
    assert copy == FAR and hash(copy) == hash(FAR) and copy.content == FAR.content
    assert len({GH200, FAR, copy}) == 2 and GH200.content != replace(FAR, name="gh200").content
    assert all(len(machine.content) == 64 for machine in tb.machines())
