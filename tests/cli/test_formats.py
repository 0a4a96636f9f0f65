"""A format follows from the name of the file in every verb, and a missing library is said before
any work.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any, get_type_hints

import polars as pl
import pytest
from hostile_names import SAMPLE, Ran

from turnbuckle.cli.app import VERBS, app
from turnbuckle.cli.run import run
from turnbuckle.foundation import errors
from turnbuckle.show.terminal import output
from turnbuckle.show.terminal.options import FormatOption, Output, format_of

Run = Callable[..., Ran]

#: A question of each verb that writes its answer in any format.
QUESTIONS: dict[str, tuple[object, ...]] = {
    "inspect": (SAMPLE,),
    "project": (SAMPLE, "--on", "gh200", "--draws", "0"),
    "slack": (SAMPLE, "--draws", "0"),
    "whatif": (SAMPLE,),
    "suite": (SAMPLE, "--on", "gh200", "--draws", "0"),
    "transfers": (SAMPLE, "--on", "pcie5-x16"),
    "sweep": (SAMPLE, "--model", "project", "--axis", "on=nvlink-c2c", "--workers", "1"),
    "model sharing": (SAMPLE,),
    "model bound": ("--kernel", "1ms", "--bytes", "1MiB"),
    "reproduce": ("--table-13",),
}


def _rows(path: Path) -> int:
    with path.open(encoding="utf-8", newline="") as file:
        return len(list(csv.reader(file)))


def _sheets(path: Path) -> int:
    from openpyxl import load_workbook

    return int(load_workbook(path).active.max_row)


#: What a file of each ending is, by one that reads it.
KINDS: dict[str, Callable[[Path], Any]] = {
    "json": lambda path: json.loads(path.read_text(encoding="utf-8")),
    "csv": lambda path: _rows(path) > 1,
    "parquet": lambda path: pl.read_parquet(path).height,
    "md": lambda path: path.read_text(encoding="utf-8").startswith(("|", "**")),
    "tex": lambda path: path.read_text(encoding="utf-8").startswith("\\begin{table}"),
    "html": lambda path: path.read_text(encoding="utf-8").startswith("<!doctype html>"),
    "xlsx": lambda path: _sheets(path) > 1,
}


@pytest.mark.parametrize("ending", KINDS)
@pytest.mark.parametrize("verb", [v for v in QUESTIONS if v != "model bound"])
def test_the_name_of_the_file_says_the_format(
    turnbuckle: Run, tmp_path: Path, verb: str, ending: str
) -> None:
    ran = turnbuckle(*verb.split(), *QUESTIONS[verb], "-o", f"out.{ending}")
    assert ran.code == 0, ran.err
    assert KINDS[ending](tmp_path / f"out.{ending}")


@pytest.mark.parametrize("form", ["parquet", "xlsx"])
@pytest.mark.parametrize("verb", ["inspect", "project", "model sharing", "reproduce"])
def test_a_pipe_takes_what_a_file_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verb: str, form: str
) -> None:
    piped = io.BytesIO()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(piped, "utf-8", write_through=True))
    assert run([*verb.split(), *map(str, QUESTIONS[verb]), "--format", form]) == 0
    (tmp_path / f"piped.{form}").write_bytes(piped.getvalue())
    assert KINDS[form](tmp_path / f"piped.{form}")


def _commands() -> dict[str, Callable[..., Any]]:
    commands = {}
    for name in VERBS:
        found = app
        for word in name.split():
            found = found[word]
        if callable(found.default_command):
            commands[name] = found.default_command
    return commands


def test_every_verb_that_takes_format_and_output_takes_them_from_one_place() -> None:
    own = set()
    for name, command in _commands().items():
        options = signature(command).parameters
        if "format" in options and "output" in options:
            hints = get_type_hints(command, include_extras=True)
            if (hints["format"], hints["output"]) != (FormatOption, Output):
                own.add(name)
    # these write folders or a machine file, and print a summary of it
    assert own == {"calibrate", "merge", "anonymise"}


@pytest.mark.parametrize(
    "words",
    [
        ("project", "none.sqlite", "--format", "csv", "-o", "x.json"),
        ("project", "none.sqlite", "--format", "table", "-o", "x.csv"),
        ("slack", "none.sqlite", "-o", "x.pdf"),
        ("suite", "none.sqlite", "-o", "x.toml"),
        ("report", "none.sqlite", "-o", "x.csv"),
        ("calibrate", "none.log", "-o", "x.json"),
        ("export", "none.sqlite", "-o", "x.csv"),
        ("export", "none.sqlite", "--to", "chakra", "-o", "x.json.gz"),
    ],
)
def test_a_name_of_another_kind_is_refused_before_any_work(
    turnbuckle: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    ran = turnbuckle(*words)
    assert ran.code == 2 and "error[A550]" in ran.err, ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("suite", "none.sqlite", "-o", "x.xlsx"), "sheet"),
        (("project", "none.sqlite", "--format", "xlsx"), "sheet"),
        (("export", "none.sqlite", "--to", "otf2", "-o", "x"), "otf2"),
        (("export", "none.sqlite", "-o", "x.otf2"), "otf2"),
        (("sweep", "none.sqlite", "--axis", "hop_seconds=1us..2us", "--sample", "4"), "scipy"),
        (("validate", "none"), "scipy"),
        (("mcp",), "mcp"),
    ],
)
def test_a_missing_library_is_said_before_any_work(
    turnbuckle: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], extra: str
) -> None:
    for module in errors.EXTRAS.values():
        monkeypatch.setitem(sys.modules, module, None)
    ran = turnbuckle(*words)
    assert ran.code == 2 and f"turnbuckle[{extra}]" in ran.err, ran.err
    about = turnbuckle(words[0], "--help")
    assert f"extra {extra}" in " ".join(about.out.replace("│", " ").split())


def test_every_extra_is_known_by_a_module_that_its_packages_bring() -> None:
    from importlib.metadata import packages_distributions, requires

    brought = packages_distributions()
    for extra, module in errors.EXTRAS.items():
        names = {name.lower() for name in brought[module]}
        of_extra = [
            line
            for line in requires("turnbuckle") or []
            if f"extra == '{extra}'" in line.replace('"', "'")
        ]
        assert any(line.lower().startswith(tuple(names)) for line in of_extra), extra


def test_names_in_a_workbook_are_no_formulas_and_rows_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openpyxl import load_workbook

    frame = pl.DataFrame(
        {"name": ["=1+1", "http://x", "\x1b[31m"], "seconds": [0.5, float("nan"), None]}
    )
    output.write_frame(frame, "xlsx", tmp_path / "x.xlsx")
    cells = list(load_workbook(tmp_path / "x.xlsx").active.iter_rows())
    assert [cell.data_type for cell, _ in cells] == ["s"] * 4
    assert (
        cells[1][0].value == "=1+1"
        and cells[1][0].hyperlink is None
        and "\x1b" not in cells[3][0].value
    )
    assert cells[1][1].value == 0.5 and cells[2][1].value != 0
    monkeypatch.setattr(output, "_SHEET_ROWS", 3)
    with pytest.raises(errors.ReportError, match="R013"):
        output.write_frame(frame, "xlsx", tmp_path / "y.xlsx")
    assert not (tmp_path / "y.xlsx").exists()


def test_without_a_name_nothing_follows() -> None:
    assert format_of(None, None) == "table"
    assert format_of(Path("a.b"), "csv") == "csv" and format_of(Path("a.JSON"), None) == "json"
