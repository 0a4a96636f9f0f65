"""Files of measurements beside a case: of their form, or refused with a code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.mpi.questions.delay import question as message_delay
from turnbuckle.questions.validate.cases import read_case
from turnbuckle.questions.validate.measured import distance, side_by_side, through_layer
from turnbuckle.questions.validate.measured.measurements import read_measurements
from turnbuckle.questions.validate.question import validate

CASES = Path(__file__).resolve().parents[3] / "validation" / "cases"
FORM = {
    "most": float,
    "window": (int, int),
    "programs": {"*": {"s": float}},
    "points": [{"name": str, "late?": float, "times": [float]}],
}
GOOD: dict[str, Any] = {
    "most": 1,
    "window": [1, 2],
    "programs": {"a": {"s": 0.5, "more": None}},
    "points": [{"name": "a", "times": [1, 2.5]}],
}


def written(folder: Path, text: str) -> Path:
    path = folder / "measured.json"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_has_its_form_is_read_as_it_is(tmp_path: Path) -> None:
    assert read_measurements(written(tmp_path, json.dumps(GOOD)), FORM) == GOOD


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"most": "1"}, "the file, most: '1'"),
        ({"most": True}, "the file, most: True"),
        ({"most": float("nan")}, "the file, most: nan"),
        ({"most": -1}, "the file, most: -1"),
        ({"most": 10**400}, "the file, most: 1000"),
        ({"window": [1, 2, 3]}, "the file, window: [1, 2, 3]"),
        ({"window": [1, 2.5]}, "the file, window, 2: 2.5"),
        ({"programs": ["a"]}, "the file, programs: ['a']"),
        ({"programs": {"a": {}}}, "the file, programs, a: {}"),
        ({"points": {}}, "the file, points: {}"),
        (
            {"points": [{"name": "a", "times": [1], "late": None}]},
            "the file, points, 1, late: None",
        ),
        (
            {"points": [{"name": "a", "times": [1]}, {"name": "a"}]},
            "the file, points, 2: {'name': 'a'}",
        ),
    ],
)
def test_what_does_not_is_refused_with_its_place(
    tmp_path: Path, change: dict[str, Any], found: str
) -> None:
    caught = refused("A417", read_measurements, written(tmp_path, json.dumps(GOOD | change)), FORM)
    assert caught.found.startswith(found) and caught.where == "measured.json"


@pytest.mark.parametrize(
    "text", ["", "{", '{"most": ', "[" * 100_000, '{"most": ' + "1" * 5000 + "}"]
)
def test_what_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(TurnbuckleError, match="the measurements are not valid JSON") as caught:
        read_measurements(written(tmp_path, text), FORM)
    assert caught.value.code == "A417"


@pytest.mark.parametrize("model", ["distance", "message delay", "sharing", "remoting"])
@pytest.mark.parametrize("text", ["measured", "[]", "{}", '{"points": 3}'])
def test_a_case_with_such_a_file_is_left_out_with_its_code(
    tmp_path: Path, model: str, text: str
) -> None:
    written(tmp_path, text)
    network = {"message delay": 'network = "ring"\n', "remoting": 'layer = "cdi-row-api"\n'}.get(
        model, ""
    )
    (tmp_path / "recordings").mkdir()
    ask = f'[[ask]]\nmodel = "{model}"\nmeasured = "./measured.json"\n{network}'
    (tmp_path / "case.toml").write_text(
        f'title = "t"\n[a]\nfile = "./recordings"\n{ask}', encoding="utf-8"
    )
    answer = validate([read_case(tmp_path)], None)
    assert not answer.rows and [
        (n.code, "A417 the measurements" in n.why) for n in answer.not_run
    ] == [("A362", True)]


def test_a_program_that_was_not_measured_alone_is_refused(tmp_path: Path) -> None:
    written(
        tmp_path,
        json.dumps(
            {"alone": {}, "points": [{"programs": ["fft", "fft"], "seconds": [[1.0, 1.0]]}]}
        ),
    )
    (tmp_path / "recordings").mkdir()
    ask = '[[ask]]\nmodel = "sharing"\nmeasured = "./measured.json"\n'
    (tmp_path / "case.toml").write_text(
        f'title = "t"\n[a]\nfile = "./recordings"\n{ask}', encoding="utf-8"
    )
    (only,) = validate([read_case(tmp_path)], None).not_run
    assert "A192 a program was not measured on its own" in only.why and "fft" in only.why


def test_the_files_of_our_own_cases_have_their_forms() -> None:
    forms = {
        "distance": distance.FORM,
        "message delay": message_delay.FORM,
        "sharing": side_by_side.FORM,
    }
    forms |= {"remoting": through_layer.FORM, "published": distance.FORM}
    found = [
        (case, question)
        for case in map(read_case, sorted(p.parent for p in CASES.glob("*/measured.json")))
        for question in case.asks
    ]
    assert len(found) > 20
    for case, question in found:
        told = read_measurements(CASES / case.name / "measured.json", forms[question.model])
        assert told.get("points") or told["programs"]
