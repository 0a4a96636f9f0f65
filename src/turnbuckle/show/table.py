"""Tables as people see them: drawn by the report's template and by the terminal
(`turnbuckle.show.terminal.tables.drawn`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes
    ----------
    text : what is printed.
    full : the whole of a shortened text, shown on hover.
    bar : share of a bar behind the text, 0 to 1; None for no bar.
    tone : ``good``, ``fair``, ``poor``, ``strong``, ``soft``, ``code`` or empty.
    colour : a dot of this colour before the text.
    """

    text: str
    full: str = ""
    bar: float | None = None
    tone: str = ""
    colour: str = ""


@dataclass(frozen=True)
class Table:
    """A table with a caption.

    Attributes
    ----------
    caption : what it holds; scope and unit.
    head : column titles; a leading ``>`` aligns a column to the right, as numbers want it.
    rows : cells.
    shown : rows printed at once; the rest opens on a click.
    more : how many rows are left out of the report altogether.
    kind : style of the table: ``matrix``, ``machine`` or empty.
    notes : a line under each row, over its whole width; empty for none.
    title : what a terminal prints above it, where a caption is too long.
    wide : titles of columns for which a terminal has no room.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    shown: int = 1_000_000
    more: int = 0
    kind: str = ""
    notes: Sequence[str] = ()
    title: str = ""
    wide: Sequence[str] = ()
    first: Sequence[Sequence[Cell]] = field(init=False)
    rest: Sequence[Sequence[Cell]] = field(init=False)

    def __post_init__(self) -> None:
        cut = self.shown if len(self.rows) > self.shown + 3 else len(self.rows)
        object.__setattr__(self, "first", self.rows[:cut])
        object.__setattr__(self, "rest", self.rows[cut:])


def cells(*texts: str | Cell) -> list[Cell]:
    """Return a row; plain texts become cells."""
    return [t if isinstance(t, Cell) else Cell(t) for t in texts]
