"""Command ``turnbuckle reproduce``: published numbers that Turnbuckle rests on, recomputed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.papers import numbers
from turnbuckle.show.terminal.console import Terminal, console_for
from turnbuckle.show.terminal.options import FormatOption, Output
from turnbuckle.show.terminal.output import emit, write_answer

if TYPE_CHECKING:
    from turnbuckle.papers.reproduce import Reproduced, Row

Paper = Annotated[
    list[Literal["ecp", "nething", "ahead", "gpudirect", "slack"]] | None,
    Parameter(name="--paper", help="only this paper; may be given several times", negative=()),
]
Verdict = Annotated[
    list[numbers.Verdict] | None,
    Parameter(
        name="--verdict",
        help="show only rows of this verdict; may be given several times",
        negative=(),
    ),
]
Table13 = Annotated[
    bool,
    Parameter(
        name="--table-13",
        help="Table 13 of the ECP report in our numbers: by application and technology",
        negative=(),
    ),
]
_STYLE = {
    "reproduced": "green",
    "reproduced*": "green",
    "trunc": "yellow",
    "off": "yellow",
    "contradiction": "red",
    "n/r": "dim",
}


def reproduce(
    *,
    paper: Paper = None,
    verdict: Verdict = None,
    table_13: Table13 = False,
    format: FormatOption = "table",
    output: Output = None,
) -> int:
    """Recompute every published number Turnbuckle rests on: printed, recomputed, deviation,
    verdict.  Exit 1 if a verdict moved.
    """
    if table_13:
        return _emit_table_13(bool(paper or verdict), format, output)
    from turnbuckle.papers.reproduce import PAPERS, of_papers

    answer = of_papers(tuple(paper or PAPERS), verdict or ())
    emit(answer, "rows", show, format, output)
    if answer.moved:
        moved = "; ".join(f"{r.id}: {r.moved}" for r in answer.moved[:5])
        raise error_of("A202", found=moved, moved=len(answer.moved), count=len(answer.every))
    return 0


def show(console: Terminal, answer: Reproduced) -> None:
    """Print the rows by paper, and how many have which verdict."""
    from turnbuckle.papers.reproduce import PAPERS

    rows, verdicts = answer.rows, answer.verdicts()
    for letter, title in PAPERS.values():
        paper_rows = [r for r in rows if r.id.startswith(f"{letter}.")]
        if not paper_rows:
            continue
        table = Table(
            title=title,
            title_justify="left",
            title_style="italic",
            box=None,
            pad_edge=False,
            header_style="dim",
        )
        table.add_column("id", no_wrap=True, overflow="fold")
        table.add_column("what", overflow="fold", ratio=3)
        for name, share in (("printed", 1), ("recomputed", 2)):
            table.add_column(name, justify="right", overflow="fold", ratio=share)
        table.add_column("off by", justify="right", no_wrap=True)
        table.add_column("verdict", no_wrap=True)
        for row in paper_rows:
            table.add_row(*_cells(row))
        console.print(table)
        console.print()
    total = sum(verdicts.values())
    console.print(Text.assemble(f"{total} numbers: ", *_joined(verdicts)))
    star = (
        "* rests on what the paper does not print: a formula, a reading of a range, or the "
        "number, compared with itself then"
    )
    console.note(f"{star}; --format json says which, with intervals and resolutions")


def _emit_table_13(chosen: bool, format: str, output: Path | None) -> int:

    from turnbuckle.papers.table_13 import TECHNOLOGIES, statements, table_13

    if chosen:
        raise error_of("A076")
    cells = table_13()
    if format != "table":
        listed = [c.as_dict() for c in cells]
        sentences = [asdict(s) for s in statements()]
        write_answer(
            {"schema_version": SCHEMA_VERSION, "cells": listed, "statements": sentences},
            listed,
            format,
            output,
        )
        return 0
    console = console_for(output)
    for technology in TECHNOLOGIES:
        table = Table(
            title=technology,
            title_justify="left",
            title_style="italic",
            box=None,
            pad_edge=False,
            header_style="dim",
        )
        table.add_column("application", no_wrap=True)
        for name in ("printed", "ours", "interval"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("verdict", no_wrap=True)
        table.add_column("why", overflow="fold", ratio=1)
        for cell in cells:
            if cell.technology == technology:
                got = "" if cell.recomputed is None else f"{cell.recomputed:.3g}"
                span = (
                    ""
                    if cell.low is None or cell.high is None or cell.low == cell.high
                    else f"{cell.low:.3g} to {cell.high:.3g}"
                )
                table.add_row(
                    cell.application,
                    cell.printed,
                    got,
                    span.replace("to inf", "or more"),
                    cell.verdict,
                    cell.note,
                )
        console.print(table)
        console.print()
    return 0


def _joined(verdicts: dict[str, int]) -> list[Any]:
    out: list[Any] = []
    for verdict, count in verdicts.items():
        out += [", " if out else "", (f"{count} {verdict}", _STYLE[verdict])]
    return out


def _cells(row: Row) -> list[Any]:
    now = row.now
    if now is None:
        return [row.id, "", "", "", "", Text("missing", style="red")]
    got = (
        ""
        if now.recomputed is None
        else f"{now.recomputed:.6g}"
        if isinstance(now.recomputed, float)
        else now.recomputed
    )
    off = (
        ""
        if now.deviation is None
        else f"{now.deviation:+.1%}"
        if abs(now.deviation) >= 5e-4
        else "0"
    )
    verdict = Text(now.verdict, style=_STYLE[now.verdict])
    return [now.id, now.what, now.printed, got, off, verdict]
