"""Execution traces on the command line: `inspect` says what they hold, every other verb says what
they lack.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import FEW, Ran, document

Run = Callable[..., Ran]


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    nodes = [
        {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1},
        {"id": 2, "name": "aten::mm", "ctrl_deps": 1},
    ]
    path = tmp_path / "et.json"
    path.write_text(json.dumps({"schema": "1.1.0-chakra.0.0.4", "nodes": nodes}))
    return path


def test_inspect_and_the_file_alone_say_what_it_holds(turnbuckle: Run, graph: Path) -> None:
    ran = turnbuckle("inspect", graph)
    assert ran.code == 0 and "PyTorch execution trace" in ran.out and "2 nodes" in ran.out
    assert turnbuckle(graph).out == ran.out
    said = document(turnbuckle("inspect", graph, "--format", "json"))
    assert (
        said["profile"]["graph"]["operators"]["count"] == 1 and said["profile"]["kernels"] is None
    )
    assert said["provenance"]["profile"]["format"] == "pytorch-et"


@pytest.mark.parametrize(
    "words", [("project", *FEW), ("slack",), ("report",), ("doctor",), ("anonymise", "-o", "copy")]
)
def test_what_needs_times_refuses(turnbuckle: Run, graph: Path, words: tuple[str, ...]) -> None:
    before = sorted(graph.parent.iterdir())
    ran = turnbuckle(words[0], graph, *words[1:])
    assert ran.code == 3 and "error[A174]" in ran.err and "turnbuckle inspect et.json" in ran.err
    assert sorted(graph.parent.iterdir()) == before


def test_options_that_need_a_recording_are_refused(turnbuckle: Run, graph: Path) -> None:
    for words in (
        ("--minus", graph),
        ("--source", "gh200"),
        ("--part", "1us..2us"),
        ("--rank", "0"),
    ):
        ran = turnbuckle("inspect", graph, *words)
        assert ran.code == 2 and "error[A077]" in ran.err and words[0] in ran.err


def test_a_broken_one_is_an_error_with_a_code(turnbuckle: Run, graph: Path) -> None:
    graph.write_text(
        '{"schema": "1.0.1", "nodes": [{"id": 1 "name": 7}, {}, {}, {}, {}, {}, {}, {}, {}, {}]}'
    )
    ran = turnbuckle("inspect", graph)
    assert ran.code == 2 and "error[P051]" in ran.err
