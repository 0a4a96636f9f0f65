"""What Turnbuckle writes for other programs, read again: it says what it is, and no activity counts
twice.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran

from turnbuckle.questions.before_after.forms import _ENDINGS
from turnbuckle.trace.read import read

Run = Callable[..., Ran]

#: What each form says of itself as recorded, and projected: an error, or the words of `inspect`.
SAYS: dict[str, tuple[str, str]] = {
    "json": ("error[P095]", "error[P095]"),
    "et": ("of turnbuckle", "error[P096]"),
    "goal": ("it holds no times", "it holds no times"),
    "otf2": ("of turnbuckle", "error[A500]"),
}


def test_every_form_is_tried() -> None:
    assert {f".{ending}" for ending in SAYS} == set(_ENDINGS)


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("ending", [ending for ending in SAYS if ending != "otf2"])
def test_a_written_file_says_what_it_is(turnbuckle: Run, ending: str, packed: str) -> None:
    for target, words in zip(("self", "gh200"), SAYS[ending], strict=True):
        assert (
            turnbuckle("export", SAMPLE, "--on", target, "-o", f"{target}.{ending}{packed}").code
            == 0
        )
        again = turnbuckle("inspect", f"{target}.{ending}{packed}")
        assert words in again.out + again.err, again.err
        assert again.code == (2 if words.startswith("error") else 0)


def test_an_archive_is_read_back_once(turnbuckle: Run) -> None:
    assert turnbuckle("export", SAMPLE, "--part", "whole", "-o", "run.otf2").code == 0
    again = turnbuckle("inspect", "run.otf2/traces.otf2")
    assert again.code == 0 and "of turnbuckle" in again.out
    assert read("run.otf2/traces.otf2").kernels.height == read(SAMPLE).kernels.height


def test_a_trace_that_another_tool_wrote_again_is_known(turnbuckle: Run, tmp_path: Path) -> None:
    assert turnbuckle("export", SAMPLE, "--on", "self", "-o", "run.json").code == 0
    document = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    (tmp_path / "indented.json").write_text(json.dumps(document, indent=2), encoding="utf-8")
    (tmp_path / "renamed.pt.trace.json.gz").write_bytes(
        gzip.compress(json.dumps(document).encode())
    )
    for name in ("indented.json", "renamed.pt.trace.json.gz"):
        assert "error[P095]" in turnbuckle("project", name, "--on", "gh200").err


@pytest.mark.parametrize("verb", ["inspect", "project", "slack", "whatif", "suite"])
def test_an_answer_is_no_recording(turnbuckle: Run, verb: str) -> None:
    assert turnbuckle(verb, SAMPLE, "-o", "answer.json").code == 0
    again = turnbuckle("inspect", "answer.json")
    assert again.code == 2 and "error[P095]: this is an answer" in again.err
