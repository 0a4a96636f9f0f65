"""Every table, column, code and finding: name, type, unit, meaning.

The CSV files beside this one are the source: the readers, the checks, the manual and the Rust core
read the same rows.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Column:
    """One column of one table."""

    name: str
    type: str
    unit: str
    nullable: bool
    meaning: str


def table_rows(place: str) -> list[dict[str, str]]:
    """Return the rows of a CSV table of the program by its place in the package, such as
    ``machine/hops.csv``.
    """
    text = (Path(__file__).parents[2] / place).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def tables(kind: str = "trace") -> dict[str, tuple[Column, ...]]:
    """Return the tables of a `Trace` (``trace``) or of a `Profile` (``profile``), in the order of
    the CSV.
    """
    out: dict[str, list[Column]] = {}
    for r in table_rows(f"foundation/schema/{kind}.csv"):
        out.setdefault(r["table"], []).append(
            Column(r["column"], r["type"], r["unit"], r["nullable"] == "yes", r["meaning"])
        )
    return {name: tuple(columns) for name, columns in out.items()}


@cache
def words(name: str) -> tuple[str, ...]:
    """Return the words of a coded list (``directions``, ``memories``), by index."""
    rows = sorted(
        (int(r["index"]), r["word"])
        for r in table_rows("foundation/schema/codes.csv")
        if r["list"] == name
    )
    return tuple(word for _, word in rows)
