"""Reader of a user's table: a CSV file whose quantities have units, in the heading or behind each
number.

    size [MiB], threads, slack [us], run time
    1,          1,       100,        0.89 s

Lines that are empty or begin with # are left out.  Nothing is guessed: a column that is not asked
for, a quantity without a unit, a line with too few values stops the reading, with file, line and
column:

    A061  the file cannot be read as text
    A062  a column missing, unknown or twice
    A063  a line with too many or too few values, or a value that cannot be
    U0xx  a value without a unit, or with the wrong one
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import TurnbuckleError, UnitError, clipped, did_you_mean, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.units import parse

LARGEST_BYTES: Final = 64 << 20
_LONGEST_UNIT: Final = 16
_NAME = re.compile(r"([a-z0-9_ ./-]++)\s*(?:[\[(]([^\])]+)[\])])?", re.IGNORECASE)

_CELL = re.compile(r'\s*+"((?:[^"]|"")*+)"\s*+(?=,|\Z)|([^,]*+)')


@dataclass(frozen=True)
class Column:
    """One column a table may have.

    Attributes
    ----------
    name : as the heading has it; case and underscores do not matter.
    unit : SI unit the values are read into, ``"1"`` for plain numbers and counts, ``""`` for text.
    needed : whether the table is refused without it; a cell that is left empty is refused too.
    least : smallest value allowed; values must be above it where `above` is set.
    most : largest value allowed.
    whole : whether only whole numbers are allowed.
    """

    name: str
    unit: str
    needed: bool = True
    least: float = 0.0
    above: bool = False
    most: float = math.inf
    whole: bool = False

    @property
    def wanted(self) -> str:
        """Describe the possible values in words."""
        number = "a whole number" if self.whole else "a number"
        bound = f"above {self.least:g}" if self.above else f"of {self.least:g} or more"
        return f"{number} {bound}" + (f" and {self.most:g} or less" if self.most < math.inf else "")


@dataclass(frozen=True)
class Table:
    """A table as read.

    Attributes
    ----------
    name : of the file, without folder.
    columns : those the heading has.
    numbers : SI values by column name, shape (rows,); nan where a cell is empty.
    texts : text columns by name.
    lines : line of each row in the file, counted from 1.
    """

    name: str
    columns: tuple[str, ...]
    numbers: dict[str, Float]
    texts: dict[str, list[str]]
    lines: list[int]
    _places: list[list[int]] = field(repr=False, default_factory=list)

    def __len__(self) -> int:
        return len(self.lines)

    def number(self, name: str, default: float = math.nan) -> Float:
        """Return the values of a column [SI]; `default` in every row where the table does not have
        it.
        """
        return self.numbers.get(name, np.full(len(self), default))

    def where(self, row: int, name: str = "") -> str:
        """Return ``file:line:column`` of a cell, or ``file:line`` of a row."""
        place = f"{self.name}:{self.lines[row]}"
        return (
            f"{place}:{self._places[row][self.columns.index(name)]}"
            if name in self.columns
            else place
        )


def read_text(
    path: str | Path,
    what: str,
    *,
    largest_bytes: int = LARGEST_BYTES,
    fix: str = "give a CSV file in UTF-8",
) -> str:
    """Return the text of a small ordinary file.

    Raises
    ------
    UsageError : A061 where it is missing, unreadable, too large, no ordinary file or not UTF-8.
    """
    path = Path(path)

    def refused(state: str) -> TurnbuckleError:
        return error_of("A061.file", where=path.name, found=state, fix=fix, subject=what)

    try:
        if path.exists() and not path.is_file():
            raise refused("not an ordinary file")
        with opened(path) as file:
            raw = file.read(largest_bytes + 1)
    except (OSError, ValueError) as error:
        raise refused(
            (error.strerror or "") if isinstance(error, OSError) else "not a file name"
        ) from error
    if len(raw) > largest_bytes:
        raise refused(f"more than {largest_bytes >> 20} MiB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise refused("not text in UTF-8") from None


def read_table(
    path: str | Path, columns: Sequence[Column], what: str, *, largest_bytes: int = LARGEST_BYTES
) -> Table:
    """Read a table.

    Parameters
    ----------
    columns : all it may have.
    what : the table in words, with its article, for errors: ``the response surface``.

    Raises
    ------
    UsageError, UnitError : see the module.
    """
    return table_of(
        read_text(path, what, largest_bytes=largest_bytes), Path(path).name, columns, what
    )


def table_of(text: str, name: str, columns: Sequence[Column], what: str) -> Table:
    """Return the table in a text, with the name of the file that it comes from for errors; as
    `read_table`.
    """
    return _Reading(name, {c.name: c for c in columns}, what).table(text)


class _Reading:
    """One file being read, with the current line."""

    def __init__(self, name: str, by_name: dict[str, Column], what: str) -> None:
        self.name, self.by_name, self.what = name, by_name, what
        self.line, self.columns, self.units = 0, list[str](), list[str]()

    def table(self, text: str) -> Table:
        rows: list[list[float | str]] = []
        lines: list[int] = []
        places: list[list[int]] = []
        for self.line, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            cells = _cells(line)
            if not self.columns:
                self._heading(cells)
                continue
            if len(cells) != len(self.columns):
                raise error_of(
                    "A063.line",
                    where=self._where(cells[-1][0]),
                    found=str(len(cells)),
                    count=len(self.columns),
                )
            rows.append(
                [
                    self._value(self.by_name[n], u, place, cell)
                    for n, u, (place, cell) in zip(self.columns, self.units, cells, strict=True)
                ]
            )
            lines.append(self.line)
            places.append([place for place, _ in cells])
        if not self.columns:
            raise error_of("A062.empty", where=self.name, subject=self.what, columns=self._wanted())
        by_name = {n: [row[i] for row in rows] for i, n in enumerate(self.columns)}
        numbers = {
            n: np.array(v, dtype=np.float64) for n, v in by_name.items() if self.by_name[n].unit
        }
        texts = {n: [str(x) for x in v] for n, v in by_name.items() if not self.by_name[n].unit}
        return Table(self.name, tuple(self.columns), numbers, texts, lines, places)

    def _wanted(self) -> str:
        return ", ".join(
            c.name + ("" if c.needed else " (may be left out)") for c in self.by_name.values()
        )

    def _heading(self, cells: list[tuple[int, str]]) -> None:
        for place, cell in cells:
            match = _NAME.fullmatch(cell)
            unit = (match[2] or "").strip() if match else ""
            name = (
                " ".join(match[1].lower().replace("_", " ").split())
                if match and len(unit) <= _LONGEST_UNIT
                else ""
            )
            column = next((n for n in self.by_name if n.lower() == name), None)
            if column is None or column in self.columns:
                near = did_you_mean(name, list(self.by_name)) if column is None else ""
                fix = (
                    f"{near}; columns are {self._wanted()}"
                    if near
                    else f"columns are {self._wanted()}"
                )
                raise (
                    error_of(
                        "A062.twice", where=self._where(place), found=clipped(cell, 40), fix=fix
                    )
                    if column in self.columns
                    else error_of(
                        "A062.key",
                        where=self._where(place),
                        found=clipped(cell, 40),
                        fix=fix,
                        subject=self.what,
                    )
                )
            self.columns.append(column)
            self.units.append(unit)
        if missing := [
            c.name for c in self.by_name.values() if c.needed and c.name not in self.columns
        ]:
            fix = f"add {', '.join(missing)}"
            raise error_of(
                "A062.missing", where=self._where(1), fix=fix, subject=self.what, missing=missing[0]
            )

    def _value(self, column: Column, unit: str, place: int, cell: str) -> float | str:
        if not column.unit:
            if not cell and column.needed:
                raise error_of("A063.empty", where=self._where(place), name=column.name)
            return cell
        if not cell and not column.needed:
            return math.nan
        # zero needs no unit
        bare = float(cell) if re.fullmatch(r"0+(\.0*)?", cell) else None
        try:
            value = bare if bare is not None else parse(f"{cell} {unit}".strip(), column.unit)
        except UnitError as error:
            error.where = self._where(place)
            raise
        low = value <= column.least if column.above else value < column.least
        if (
            low
            or value > column.most
            or not math.isfinite(value)
            or (column.whole and value != round(value))
        ):
            raise error_of(
                "A063.value",
                where=self._where(place),
                found=clipped(cell, 40),
                name=column.name,
                wanted=column.wanted,
            )
        return value

    def _where(self, column: int) -> str:
        return f"{self.name}:{self.line}:{column}"


def _cells(line: str) -> list[tuple[int, str]]:
    """Return the cells of a line, each with the column where it begins, counted from 1; a cell in
    quotes may have commas.
    """
    out, start = [], 0
    while start <= len(line):
        match = _CELL.match(line, start)
        assert match is not None  # anything up to the next comma is a cell
        text = match[2] if match[1] is None else match[1].replace('""', '"')
        out.append(
            (start + 1 + len(match[0]) - len(match[0].lstrip()), text.strip().strip('"').strip())
        )
        start = match.end() + 1
    return out
