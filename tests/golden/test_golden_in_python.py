"""`turnbuckle.model.NAME`: a question of each verb, asked in Python, has the answer that is kept
(of the others see `golden_python`).
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import golden_net as net
import golden_python as python
import pytest

import turnbuckle as tb
from turnbuckle.foundation.fields import finite

#: A question of each verb whose answer has figures.
DRAWN = {
    "dag": ("in/matrix_laplace/square.mtx", {"gpus": (2, 3)}),
    "dgemm": (None, {"sizes": [512, 4096]}),
    "messages": ("in/ranks/all.sqlite", {"ranks_per_node": 1}),
    "sharing": (
        "in/dgemm.sqlite",
        {"runs": (1, 2), "latency": ["10us", "1ms"], "bandwidth": "16GB/s"},
    ),
}


@pytest.fixture
def here(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that questions are asked in, with the words of another program on its command
    line.
    """
    (tmp_path / "in").symlink_to(inputs)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(inputs.parent / "cache"))
    monkeypatch.setattr("sys.argv", ["other", "--key", "its-own-secret"])
    return tmp_path


@pytest.mark.parametrize("question", python.ASKED, ids=str)
@pytest.mark.usefixtures("here")
def test_python_answers_as_the_command_line_does(question: str) -> None:
    kept = net.kept(net.verb_of(question))[question]
    if "error" in kept:
        with pytest.raises(tb.TurnbuckleError) as refused:
            python.ask(question)
        assert refused.value.code == kept["error"]
        return
    answer = python.ask(question)
    document = answer.as_dict()
    # the command line says where an answer comes from that a recording does not
    was = {
        key: value for key, value in kept["json"].items() if key != "provenance" or key in document
    }
    now = net.steady(json.loads(json.dumps(finite(document), default=str)))
    # nor has Python a command
    assert not [
        line
        for line in net.differences(was, now)
        if not re.fullmatch(r'provenance\[\d\]\.command: was "turnbuckle .*", is ""', line)
    ]
    assert "its-own-secret" not in answer.to_json()
    python.shows_itself(answer)


def test_every_verb_of_a_model_is_asked() -> None:
    assert {net.verb_of(q).removeprefix("model ") for q in python.QUESTIONS} == set(dir(tb.model))


@pytest.mark.parametrize("verb", dir(tb.model))
def test_an_answer_has_the_figures_of_its_charts(verb: str, here: Path) -> None:
    function = getattr(tb.model, verb)
    assert ("charts" in inspect.signature(function).parameters) == (verb in DRAWN)
    if verb not in DRAWN:
        return
    given, options = DRAWN[verb]
    words = [] if given is None else [given]
    figures = function(*words, **options).figures()
    function(*words, **options, charts="charts")
    assert (
        {path.stem for path in (here / "charts").glob("*.svg")}
        == {figure.name for figure in figures}
        != set()
    )


@pytest.mark.usefixtures("here")
def test_a_machine_made_in_python_stands_for_a_name() -> None:
    summit = tb.Machine.load("summit")
    slower = summit.with_parameters(
        {"link.h2d.bandwidth": tb.Parameter(25e9, 0.0, "B/s", "assumption", "this test")}
    )
    loop = {
        "calls": 100,
        "to_device": "64 KiB",
        "to_host": "4 KiB",
        "kernel_time": "20 us",
        "now": "2cm",
    }
    ways: dict[str, Any] = {
        "dgemm": lambda on: tb.model.dgemm(on=on),
        "link": lambda on: tb.model.link(on=[on, "perlmutter"]),
        "ssi": lambda on: tb.model.ssi(on=on, **loop),
        "memory": lambda on: tb.model.memory(
            "in/work_kernels/work.csv", on=on, memories="in/memories_kernels/memories.csv"
        ),
    }
    for verb, way in ways.items():
        named, made = way("summit").as_dict(), way(summit).as_dict()
        assert named == made
        assert verb == "memory" or way(slower).as_dict() != named
    lassen = tb.Machine.load("lassen")
    messages = (
        tb.model.messages("in/ranks/all.sqlite", network=on, ranks_per_node=1).as_dict()
        for on in ("lassen", lassen)
    )
    assert (
        next(messages) == next(messages)
        and tb.model.fabric(lassen).as_dict() == tb.model.fabric("lassen").as_dict()
    )
    h100 = tb.Machine.load("h100-sxm5")
    assert tb.model.power(on=h100).as_dict() == tb.model.power(on="h100-sxm5").as_dict()


@pytest.mark.usefixtures("here")
def test_a_run_that_was_read_stands_for_its_recording() -> None:
    for verb, options in (
        ("functions", {}),
        ("sharing", {"runs": 2}),
        ("ssi", {"link": "pcie4-x16"}),
        ("additive", {"lambda_": "data=2"}),
    ):
        function = getattr(tb.model, verb)
        read = tb.read("in/dgemm.sqlite", part="steady", use_cache=False)
        assert (
            function(read, **options).as_dict()
            == function("in/dgemm.sqlite", part="steady", no_cache=True, **options).as_dict()
        )
    ranks = tb.read("in/ranks/all.sqlite", use_cache=False)
    for function, options in (
        (tb.model.messages, {"ranks_per_node": 1}),
        (tb.model.network, {"topology": "switch"}),
    ):
        assert (
            function(ranks, **options).as_dict()
            == function("in/ranks/all.sqlite", **options).as_dict()
        )
    with pytest.raises(tb.TurnbuckleError, match="no effect") as refused:
        tb.model.functions(ranks, part="steady")
    assert refused.value.code == "A056"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"way": "sideways"}, "one of read, write, both"),
        ({"tags": "32"}, "int"),
        ({"tags": True}, "int"),
        ({"ecrc": 1}, "bool"),
        ({"latency": {}}, "str"),
        ({"sizes": [None]}, "str"),
    ],
)
def test_a_value_that_no_word_could_be_is_refused(given: dict[str, Any], wanted: str) -> None:
    with pytest.raises(tb.TurnbuckleError, match=wanted) as refused:
        tb.model.link("pcie4-x16", **given)
    assert refused.value.code == "A002" and next(iter(given)) in str(refused.value)


def test_a_name_that_is_no_option_or_no_verb() -> None:
    with pytest.raises(TypeError, match="generation"):
        tb.model.link("pcie4-x16", generation=4)
    with pytest.raises(AttributeError, match="bound"):
        tb.model.bounds  # noqa: B018


def test_help_says_what_the_command_line_says_of_each_option() -> None:
    for verb in dir(tb.model):
        function = getattr(tb.model, verb)
        told = (function.__doc__ or "").split("\n")
        assert {line.partition(" :")[0] for line in told if " : " in line} >= set(
            inspect.signature(function).parameters
        )
