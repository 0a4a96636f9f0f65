"""Table of applications: each number with the interval of its printed digits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.table_file import Column, Table, read_text
from turnbuckle.foundation.units import parse
from turnbuckle.papers.numbers import Interval, exact, unit_of_last_digit

#: Largest plausible time [s] and ratio.
MOST_SECONDS: Final = 1e12
MOST_RATIO: Final = 1e9
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def share(text: str, option: str) -> Interval:
    """Return a share given on the command line with the interval of its digits: ``"7.8%"`` is
    0.078, between 0.0775 and 0.0785.

    Raises A036 where it does not lie between 0 and 1.
    """
    value = parse(text, "1")
    if not 0 <= value <= 1:
        raise error_of("A036.option", found=text[:40], option=option)
    return within(value, text, most=1.0)


def within(value: float, text: str, most: float = math.inf) -> Interval:
    """Return a quantity with the interval of its printed digits, in the unit it was read into. A
    bare 0 is exact.
    """
    number = _NUMBER.search(text)
    if number is None or not value or not float(number[0]):
        return exact(value)
    half = unit_of_last_digit(number[0]) / 2 * abs(value / float(number[0]))
    return Interval(value, max(value - half, 0.0), max(min(value + half, most), value))


def cell_reader(
    path: Path, table: Table, columns: Sequence[Column]
) -> Callable[[int, str], Interval]:
    """Return a function that gives the number of a cell, by row and column, with the interval of
    its digits.
    """
    lines = read_text(path, "the table of applications").splitlines()
    most = {c.name: c.most for c in columns}

    def cell(row: int, column: str) -> Interval:
        position = int(table.where(row, column).rsplit(":", 1)[1])
        text = lines[table.lines[row] - 1][position - 1 :].split(",")[0]
        return within(float(table.numbers[column][row]), text, most[column])

    return cell


def application_name(table: Table, row: int) -> str:
    """Return the name of an application without the characters that steer a terminal."""
    text = table.texts["name"][row] if "name" in table.texts else ""
    return (
        "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
        or f"line {table.lines[row]}"
    )


def refuse_empty(table: Table) -> None:
    """Refuse a table without rows (A039)."""
    if not len(table):
        raise error_of("A039.empty", where=table.name)
