"""The report says how good predictions like its own have been: rows of the shipped card that
concern the question.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from turnbuckle.page.accuracy_section import accuracy_section, concerned
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.model import nething
from turnbuckle.projection.run import Run
from turnbuckle.questions.validate.card import TITLES
from turnbuckle.questions.validate.figures import figures, ratios
from turnbuckle.questions.validate.question import Validation, shipped
from turnbuckle.show.figures.figure import draw


@pytest.fixture(scope="module")
def recorded(seen: Run) -> Run:
    return seen


def asked(recorded: Run, alpha: str = "flop") -> Answer:
    return recorded.project(["gh200"], model=replace(nething(alpha), replay="auto"), draws=20)


def test_rows_are_those_of_the_question(recorded: Run) -> None:
    rows = concerned(asked(recorded))
    assert {
        ("run time", "projection"),
        ("transfers", "machine"),
        ("noise", "repeat"),
        ("launches", "projection"),
    } <= rows
    assert not {"messages", "rates", "variants", "ranking"} & {kind for kind, _ in rows}
    by_memory = concerned(asked(recorded, "memory"))
    assert ("run time", "projection, kernels by memory") in by_memory and (
        "run time",
        "projection",
    ) not in by_memory
    assert "kernels" not in {kind for kind, _ in concerned(asked(recorded, "hold"))}
    assert concerned(Answer(recorded)) == set()


def test_the_section_counts_as_the_card_does(recorded: Run) -> None:
    answer = asked(recorded)
    section = accuracy_section(answer)
    groups = [g for g in shipped().card if (g.kind, g.model) in concerned(answer)]
    assert len(section["table"].rows) == len(groups) and len(section["figures"]) == 1
    covered, stated = sum(g.covered for g in groups), sum(g.stated for g in groups)
    assert section["held"] == f"{covered} of {stated}"
    red = [row[-1].tone for row in section["table"].rows]
    assert red == ["poor" if g.high is not None and g.high < 0.9 else "" for g in groups]


def test_the_page_shows_it_and_no_longer_says_that_there_is_none(text: str, bare_text: str) -> None:
    assert (
        'id="accuracy"' in text
        and "contain the measured value" in text
        and "turnbuckle validate --card" in text
    )
    assert "No validation against measured targets" not in text
    assert "Nothing was projected, so there is nothing to check against measurements." in bare_text


def test_figures_of_the_whole_card() -> None:
    strip, scatter = figures(shipped())
    (strip,) = draw([strip])
    assert "within 10" in strip.caption and strip.svg.count("<path") > 100
    assert len(scatter.rows) == len([r for r in shipped().rows if r.predicted and r.measured])
    assert (
        scatter.alt.startswith(f"Predicted against measured for {len(scatter.rows)} quantities")
        and len(scatter.alt) < 1500
    )
    assert {p["title"]["text"] for p in scatter.spec["concat"]} == {
        TITLES[r.kind] for r in shipped().rows if r.predicted and r.measured
    }
    assert figures(Validation(())) == []


def test_what_lies_beyond_the_edge_is_a_triangle() -> None:
    rows = [r for r in shipped().rows if r.kind == "noise"]
    far = replace(rows[0], predicted=(rows[0].measured or 1.0) * 50)
    shapes = [
        row["shape"]
        for layer in ratios([*rows, far]).spec["layer"]
        for row in layer.get("data", {}).get("values", [])
        if "shape" in row
    ]
    assert shapes.count("triangle-right") == 1
