"""Every command and every piece of Python in README and manual does what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawings import each_kind_once
from runs import read_once
from scripts import script

ROOT = Path(__file__).resolve().parents[2]


manual = script("docs/examples.py")
#: The blocks of a notebook's page are its cells, which `test_notebooks` runs.
PAGES = [
    p
    for p in manual.pages()
    if not p.stem.startswith("notebook-") and manual.blocks(p.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_page_shows_what_the_program_says(page: Path) -> None:
    wrong = []
    with manual.workplace() as names, read_once(), each_kind_once():
        for block in manual.blocks(page.read_text(encoding="utf-8")):
            for step in block.steps:
                output, code = manual.run(step, names)
                wrong += [
                    f"line {block.line}, {step.code.splitlines()[0]}: {d}"
                    for d in manual.differences(step, output, code)
                ]
    assert not wrong, "\n".join([*wrong, "", "if the program is right: python docs/examples.py"])


def test_the_newcomers_commands_are_examples() -> None:
    """README and the first ten minutes must not lose their runnable blocks."""
    for name, words in (
        ("README.md", ("demo", "project", "inspect", "report")),
        ("docs/start.md", ("doctor", "inspect", "project", "report")),
    ):
        page = manual.blocks((ROOT / name).read_text(encoding="utf-8"))
        commands = [step.code for block in page if block.kind == "console" for step in block.steps]
        for word in words:
            assert any(command.startswith(f"turnbuckle {word}") for command in commands), (
                f"{name} shows no turnbuckle {word}"
            )


# --- the comparison can fail ----------------------------------------------------------------------

PAGE = """
```console
$ turnbuckle x
a  1.00 s
...
b  7
$ echo $?
2
```
"""


def _step() -> object:
    return manual.blocks(PAGE)[0].steps[0]


def test_lines_left_out_are_allowed_where_dots_stand() -> None:
    assert manual.differences(_step(), ["a 1.01 s", "between", "b    7"], 2) == []


@pytest.mark.parametrize(
    ("output", "code"),
    [
        (["a 1.00 s", "b 7"], 0),
        (["a 1.05 s", "b 7"], 2),
        (["a 1.00 ms", "b 7"], 2),
        (["b 7", "a 1.00 s"], 2),
        (["a 1.00 s"], 2),
    ],
    ids=["exit code", "number", "unit", "order", "missing line"],
)
def test_a_page_that_is_wrong_is_found(output: list[str], code: int) -> None:
    assert manual.differences(_step(), output, code)


def test_a_whole_output_must_be_whole() -> None:
    step = manual.Step("turnbuckle x", ["a 1"])
    assert manual.differences(step, ["a 1"], 0) == []
    assert manual.differences(step, ["a 1", "b 2"], 0)


def test_renewing_keeps_the_choice_of_lines() -> None:
    step = _step()
    step.shown = manual.renewed(step, ["a  2.50 s", "between", "b  8"])  # type: ignore[attr-defined]
    assert step.shown == ["a  2.50 s", "...", "b  8"]  # type: ignore[attr-defined]


def test_only_turnbuckle_runs() -> None:
    with pytest.raises(ValueError, match="mark it sh"):
        manual.run(manual.Step("rm -r /"), {})
