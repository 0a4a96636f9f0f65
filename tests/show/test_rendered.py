"""Tables as Markdown and LaTeX: every cell is there, and no text of a recording becomes markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnbuckle as tb
from turnbuckle.cli.app import app
from turnbuckle.show.rendered import latex, markdown
from turnbuckle.show.table import Cell, Table
from turnbuckle.show.target_table import targets_table
from turnbuckle.show.verdict import verdicts

TEXT = st.text(
    alphabet=st.sampled_from("ab 1|*_`[]<>\\{}$&#%~^×−µ→–\n\N{NO-BREAK SPACE}"), max_size=12
)
#: A bar that Markdown takes for the end of a cell: behind no backslash, or behind an even number of
#: them.
BAR = re.compile(r"(?<!\\)(?:\\\\)*\|")


def table(texts: list[list[str]]) -> Table:
    return Table(
        "Caption.",
        [f"{'>' * (k % 2)}column {k}" for k in range(len(texts[0]))],
        [[Cell(t) for t in row] for row in texts],
    )


@given(st.lists(st.lists(TEXT, min_size=3, max_size=3), min_size=1, max_size=4))
def test_every_row_of_markdown_has_as_many_cells_as_the_head(texts: list[list[str]]) -> None:
    lines = markdown(table(texts)).splitlines()
    assert len(lines) == len(texts) + 4
    assert [len(BAR.findall(line)) for line in lines[: len(texts) + 2]] == [4] * (len(texts) + 2)
    assert lines[1] == "| :--- | ---: | :--- |"
    body = "\n".join(lines[2:-2])
    assert not re.search(r"(?<!\\)(?:\\\\)*[*_`<]", body), "a text became markup"


@given(st.lists(st.lists(TEXT, min_size=2, max_size=2), min_size=1, max_size=4))
def test_no_text_is_a_command_of_latex(texts: list[list[str]]) -> None:
    lines = latex(table(texts)).splitlines()
    rows = lines[6:-3]
    assert len(rows) == len(texts)
    for line in rows:
        assert line.endswith(r" \\")
        # what is known is taken out: commands that stand for characters, mathematics of one sign
        rest = re.sub(
            r"\\text[a-z]+\{\}|\$(?:\\[a-z]+|-)\$|\\[{}$&#%_,]", "", line.removesuffix(r" \\")
        )
        assert rest.count("&") == 1 and not re.search(r"[\\{}$#%_^]", rest.replace("&", ""))
        assert rest.isascii()


def test_project_renders_the_table_of_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tb.sample() as path:
        answer = tb.read(path, use_cache=False).project(["gh200", "cdi-row-link"], draws=20)
        with pytest.raises(SystemExit):
            app(
                [
                    "project",
                    str(path),
                    "--on",
                    "gh200,cdi-row-link",
                    "--draws",
                    "20",
                    "--format",
                    "markdown",
                    "--no-cache",
                ]
            )
        assert capsys.readouterr().out.rstrip("\n") == markdown(
            targets_table(verdicts(answer.projections))
        ).rstrip("\n")


def test_the_verdict_stands_in_json_and_csv() -> None:
    with tb.sample() as path:
        answer = tb.read(path, use_cache=False).project(["gh200", "cdi-row-link", "self"], draws=20)
    words = [v.words.replace("\N{NO-BREAK SPACE}", " ") for v in verdicts(answer.projections)]
    assert [p["verdict"] for p in answer.as_dict()["projections"]] == words
    assert answer.table()["verdict"].to_list() == words and words[-1] == "as recorded"
    assert answer.table()["title"].to_list() == [p.title for p in answer.projections]


def test_five_printed_numbers_are_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    from turnbuckle.show.terminal.projections import emit_totals

    assert emit_totals("gpu=1,control=1,data=1,cpu=1,mpi=1", {"data": 2.0}, "markdown", None) == 0
    head, _, row = (line for line in capsys.readouterr().out.splitlines() if line.startswith("|"))
    values = dict(zip(head.split(" | "), row.split(" | "), strict=True))
    assert values["projected\\_seconds"] == "4.5"
