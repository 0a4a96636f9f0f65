"""Golden answers of the public names in Python."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import golden_api as api
import golden_net as net
import pytest

import turnbuckle as tb
from turnbuckle.cli.app import VERBS as EVERY_VERB
from turnbuckle.foundation.fields import finite


@pytest.mark.parametrize("question", api.ASKED, ids=str)
def test_the_answer_is_the_kept_one(question: str, inputs: Path, tmp_path: Path) -> None:
    net.hold(question, api.ask(question, inputs, tmp_path / "asked"), api.VERB)


@pytest.mark.parametrize("question", api.INSTEAD, ids=str)
def test_what_took_a_former_names_place_answers_the_same(
    question: str, inputs: Path, tmp_path: Path
) -> None:
    net.hold(question, api.ask(question, inputs, tmp_path / "asked", instead=True), api.VERB)


def test_write_and_report_are_one() -> None:
    kept = net.kept(api.VERB)
    assert kept["write"] == kept["report"]


@pytest.mark.parametrize("question", api.COMMANDS, ids=str)
def test_python_answers_as_the_command_does(question: str, inputs: Path, tmp_path: Path) -> None:
    """One question, one number, whoever asks: what the command says is kept where the net asks it
    too.
    """
    kept = net.kept(net.verb_of(question)).get(question)
    command = (kept or net.ask(question, inputs, tmp_path / "asked"))["json"]
    answer = net.steady(json.loads(json.dumps(finite(api.COMMANDS[question](inputs)), default=str)))
    assert answer and not list(net.differences(_part(command, answer), answer))


def _part(whole: Any, wanted: Any) -> Any:
    """Return what a document says of the keys that another has."""
    if isinstance(whole, dict) and isinstance(wanted, dict):
        return {key: _part(whole.get(key), value) for key, value in wanted.items()}
    if isinstance(whole, list) and isinstance(wanted, list) and len(whole) == len(wanted):
        return [_part(one, value) for one, value in zip(whole, wanted, strict=True)]
    return whole


@pytest.mark.parametrize("name", api.FORMER)
def test_a_former_name_says_what_takes_its_place(name: str) -> None:
    with (
        pytest.warns(
            DeprecationWarning,
            match=f"turnbuckle.{name} goes in the next release; .* takes its place",
        ),
        suppress(Exception),
    ):
        getattr(tb, name)(*[None] * (2 if name == "write" else 1))


def test_every_public_name_is_asked_or_held_by_another() -> None:
    # a question begins with the names it asks
    asked = {word for question in api.ASKED for word in question.replace(",", "").split()}
    asked |= {word for question in api.COMMANDS for word in question.split()}
    assert set(tb.__all__) == (asked & set(tb.__all__)) | set(api.HELD_BY_OTHERS)
    assert set(net.kept(api.VERB)) == set(api.ASKED)


@pytest.mark.parametrize("verb", sorted(set(EVERY_VERB) - {"demo", "mcp"}))
def test_every_question_has_the_name_of_its_verb(verb: str) -> None:
    """`demo` asks nothing, it is `report` of `sample`; `mcp` asks what others send it."""
    group, _, name = verb.rpartition(" ")
    assert (
        callable(getattr(tb.model, name)) if group else hasattr(tb.Run, name) or name in tb.__all__
    )


def test_every_verb_of_the_command_line_is_one_of_these() -> None:
    machines = {
        "machines list": tb.machines,
        "machines show": tb.Machine.load,
        "machines check": tb.Machine.check,
    }
    assert net.verbs() == set(EVERY_VERB) - {"machines"} | {"overview"} | set(machines)
    gh200, twice = tb.Machine.load("gh200"), tb.Parameter(2.0, 0.0, "1", "measured", "this test")
    assert not [remark for remark in gh200.check() if remark.severity == "error"]
    assert gh200.with_parameters({"link.h2d.efficiency": twice}).check()[0].severity == "error"


@pytest.mark.parametrize("question", api.SHOWN, ids=str)
def test_every_answer_shows_itself(
    question: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = api.SHOWN[question](inputs)
    assert answer.table().height > 0 and set(json.loads(answer.to_json())) == set(answer.as_dict())
    assert answer.headline() in repr(answer) and repr(answer).count("\n") < 40
    page = answer._repr_html_()
    assert page.startswith("<") and "<script" not in page
    assert bool(answer.figures()) == (question in api.DRAWN)
    if question in api.DRAWN:
        assert answer.figure()._repr_svg_().startswith("<svg")
