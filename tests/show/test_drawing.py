"""Tables of the report on a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from turnbuckle.show.table import Cell, Table, cells
from turnbuckle.show.terminal.drawing import drawn


def printed(
    table: Table, width: int = 60, most: int | None = None, *, bars: bool = False
) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(drawn(table, most, bars=bars))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_terminal_has_its_own_characters_and_fewer_columns() -> None:
    table = Table(
        "long",
        ["what", ">time", ">share", "why"],
        [cells("a", "−2\xa0µs", "1\u202f000\xa0×", "words")],
        title="short",
        wide=("why",),
    )
    assert printed(table) == ["short", "what   time    share", "a     -2 us  1,000 x"]


def test_markup_in_a_cell_is_text() -> None:
    assert printed(Table("", ["name"], [cells("[red]x[/red]")])) == ["name", "[red]x[/red]"]


def test_the_title_says_that_rows_are_left_out() -> None:
    rows = [cells(str(k)) for k in range(4)]
    assert (
        printed(Table("", ["a column that is wide enough"], rows, title="rows"), most=3)[0]
        == "rows (top 3 by time)"
    )
    assert (
        printed(Table("", ["a column that is wide enough"], rows, title="rows"), most=4)[0]
        == "rows"
    )
    assert (
        printed(Table("", ["a column that is wide enough"], rows, title="rows", more=1), most=4)[0]
        == "rows (top 4 by time)"
    )


def test_numbers_stay_whole_where_code_is_cut_and_words_are_folded() -> None:
    table = Table(
        "",
        ["code", ">number", "words"],
        [cells(Cell("k" * 40, tone="code"), "123456", "some words to fold")],
    )
    lines = printed(table, width=30)
    assert (
        "123456" in lines[1]
        and "…" in lines[1]
        and len(lines) > 2
        and all(len(line) <= 30 for line in lines)
    )


def test_a_bar_is_as_long_as_its_share() -> None:
    table = Table(
        "",
        ["a", ">share"],
        [cells("x", Cell("50", bar=0.5)), cells("y", Cell("0", bar=1e-6)), cells("z", "-")],
    )
    lines = printed(table, width=80, bars=True)
    assert lines[1].count("█") == 20 and lines[2].endswith("▏") and lines[3].endswith("-")
