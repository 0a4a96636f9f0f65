"""What tables share, those of ``turnbuckle model`` above all: a title, columns that are never cut,
intervals, findings.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnbuckle.foundation.findings import Finding
from turnbuckle.foundation.units import show
from turnbuckle.show.terminal.cells import plain

if TYPE_CHECKING:
    from turnbuckle.show.terminal.options import Recorded


def is_table(given: Recorded) -> TypeGuard[Path]:
    """Return whether a file is taken for a table: by its name, so that a recording is never read as
    text.
    """
    return isinstance(given, Path) and given.suffix.lower() in (".csv", ".txt", ".tsv")


def span(low: float, high: float, unit: str, value: float | None = None) -> str:
    """Return both ends with their unit, said once where it is the same, and not at all where the
    value before them has it.
    """
    ends = [show(v, unit).partition(" ") for v in (low, high)]
    units = {e[2] for e in ends}
    if len(units) > 1:
        return f"[{show(low, unit)}, {show(high, unit)}]"
    unit_text = (
        ""
        if value is not None and show(value, unit).partition(" ")[2] in units
        else next(iter(units))
    )
    return f"[{ends[0][0]}, {ends[1][0]}]" + (f" {unit_text}" if unit_text else "")


def unframed(
    *columns: str, words: Container[str] | None = None, title: str = "", heading: bool = True
) -> Table:
    """Return a table without frame: `words`, the first column if None, are text, the others
    numbers; nothing is ever cut.
    """
    table = Table(
        title=title or None,
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="dim",
        show_header=heading,
    )
    for k, column in enumerate(columns):
        text = k == 0 if words is None else column in words
        table.add_column(column, justify="left" if text else "right", overflow="fold")
    return table


def titled(console: Console, title: str, *columns: str, words: tuple[str, ...] = ()) -> Table:
    """Return a table under its title: the first column and `words` are text, the others numbers;
    nothing is cut, whatever the width.
    """
    console.print(Text(title, "italic"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for k, column in enumerate(columns):
        text = k == 0 or column in words
        table.add_column(
            column,
            justify="left" if text else "right",
            overflow="fold",
            min_width=6 if text else None,
        )
    return table


def print_findings(console: Console, findings: Iterable[Finding]) -> None:
    """Print what is doubtful about an answer, and what to do about it."""
    for f in findings:
        console.print()
        detail = f" ({plain(f.detail, 400)})" if f.detail else ""
        console.print(
            Text(
                f"{f.code}  {f.count:,}  {f.meaning}{detail}",
                "yellow" if f.severity == "warning" else "dim",
            )
        )
        console.print(Text(f"      {f.advice}", "dim"))
