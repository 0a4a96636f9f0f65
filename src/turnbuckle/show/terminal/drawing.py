"""A table drawn on a terminal: the one that the report shows, in the characters of a terminal and
without its widest columns.
"""

from __future__ import annotations

from typing import Final

from rich.table import Table as Drawn
from rich.text import Text

from turnbuckle.show.table import Cell, Table
from turnbuckle.show.text import DASH, MINUS, NARROW

#: Characters that a terminal, or who searches its text, may not have.
_PLAIN: Final = str.maketrans(
    {
        NARROW: " ",
        "\N{NARROW NO-BREAK SPACE}": ",",
        "µ": "u",
        DASH: "-",
        MINUS: "-",
        "×": "x",
        "→": "->",
    }
)
#: Characters of a bar that is full, and of a name of a call that is never cut where there is room
#: for other columns.
_BAR: Final = 40
_NAME: Final = 22
_STYLES: Final = {"soft": "dim", "strong": "bold", "good": "green", "fair": "yellow", "poor": "red"}


def drawn(table: Table, most: int | None = None, *, bars: bool = False) -> Drawn:
    """Return a table for `rich` to print: at most so many rows, said in its title; `bars` behind
    the last column.
    """
    shown = [k for k, name in enumerate(table.head) if name.lstrip(">^") not in table.wide]
    rows = table.rows if most is None else table.rows[:most]
    title = table.title + (
        f" (top {most} by time)" if most is not None and len(table.rows) + table.more > most else ""
    )
    out = Drawn(
        title=title.translate(_PLAIN),
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="dim",
    )
    for k in shown:
        name = table.head[k]
        number = name.startswith(">")
        # where there is no room, words are folded and code is cut at its end; a number stays whole
        least = max(
            (min(len(row[k].text), _NAME) for row in rows if row[k].tone == "code"), default=None
        )
        out.add_column(
            name.lstrip(">^").translate(_PLAIN),
            justify="right" if number else "left",
            no_wrap=number,
            min_width=least,
        )
    if bars:
        out.add_column()
    for row in rows:
        texts = [_text(row[k]) for k in shown]
        if bars:
            share = next((cell.bar for cell in row if cell.bar is not None), None)
            bar = "" if share is None else "█" * round(_BAR * share) or ("▏" if share else "")
            texts.append(Text(bar, "cyan", no_wrap=True, overflow="crop"))
        out.add_row(*texts)
    return out


def _text(cell: Cell) -> Text:
    """Return what a cell says; code stays on one line."""
    code = cell.tone == "code"
    return Text(
        cell.text.translate(_PLAIN),
        _STYLES.get(cell.tone, ""),
        no_wrap=code,
        overflow="ellipsis" if code else "fold",
    )


def plain_text(text: str) -> Text:
    """Return words of the report in the characters of a terminal."""
    return Text(text.translate(_PLAIN))
