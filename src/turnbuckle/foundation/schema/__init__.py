"""Every table, column, code and finding: name, type, unit, meaning.

The CSV files beside this one are the source: the readers, the checks, the manual and the Rust core read the same rows.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Column:
    """One column of one table."""

    name: str
    type: str
    unit: str
    nullable: bool
    meaning: str


def _rows(name: str) -> list[dict[str, str]]:
    text = (files("turnbuckle.foundation") / "schema" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def tables(kind: str = "trace") -> dict[str, tuple[Column, ...]]:
    """Return the tables of a `Trace` (``trace``) or of a `Profile` (``profile``), in the order of the CSV."""
    out: dict[str, list[Column]] = {}
    for r in _rows(f"{kind}.csv"):
        out.setdefault(r["table"], []).append(Column(r["column"], r["type"], r["unit"], r["nullable"] == "yes", r["meaning"]))
    return {name: tuple(columns) for name, columns in out.items()}


@cache
def words(name: str) -> tuple[str, ...]:
    """Return the words of a coded list (``directions``, ``memories``), by index."""
    rows = sorted((int(r["index"]), r["word"]) for r in _rows("codes.csv") if r["list"] == name)
    return tuple(word for _, word in rows)
