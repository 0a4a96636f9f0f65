"""The notebooks: their cells run in order, alone, and are those of the manual's pages."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from drawings import each_kind_once
from runs import read_once
from scripts import script

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))
shown = script("docs/examples.py")
made = script("docs/notebooks.py")


def code_of(document: dict[str, Any]) -> list[str]:
    return ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]


def steps_of(path: Path) -> list[Any]:
    page = (ROOT / f"docs/notebook-{path.stem}.md").read_text(encoding="utf-8")
    return [step for block in shown.blocks(page) for step in block.steps]


def test_each_page_is_a_notebook() -> None:
    assert [f"notebook-{path.stem}" for path in NOTEBOOKS] == sorted(made.PAGES)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_are_the_blocks_of_the_page(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    blocks = [step.code.strip("\n") for step in steps_of(path)]
    assert (
        code_of(document) == blocks
        and len(blocks) >= 4
        and any(step.shown for step in steps_of(path))
    )
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    cells = document["cells"]
    assert all(
        cell["outputs"] == [] and cell["execution_count"] is None
        for cell in cells
        if cell["cell_type"] == "code"
    )
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        assert cell["cell_type"] == "code" or "```" not in "".join(cell["source"]), (
            "all code of a page is in cells of code"
        )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_an_empty_folder_and_prints_what_its_page_shows(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cell after cell in one name space, as a kernel does it; the last expression of a cell is
    shown as a notebook shows it.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names: dict[str, Any] = {"__name__": "notebook"}
    pictures, wrong = 0, []
    with read_once(), each_kind_once():
        for step in steps_of(path):
            body = ast.parse(step.code).body
            last = body.pop() if isinstance(body[-1], ast.Expr) else None
            exec(compile(ast.Module(body, []), path.name, "exec"), names)
            if last is not None and isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), path.name, "eval"), names)
                pictures += "<svg" in value._repr_svg_() if hasattr(value, "_repr_svg_") else 0
            wrong += shown.differences(step, capsys.readouterr().out.rstrip().splitlines(), 0)
    assert pictures and not wrong, "\n".join(
        [*wrong, "", "if the program is right: python docs/examples.py"]
    )
