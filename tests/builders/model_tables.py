"""Tables of the pages in docs/models, and whether a printed cell is a value at the precision it is
printed with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

MODELS = Path(__file__).resolve().parents[2] / "docs" / "models"
_RULE = re.compile(r"\|[ :|-]+\|")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")
_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?")


def tables(page: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Return the titles and the rows of each table of a page."""
    yield from _tables((MODELS / f"{page}.md").read_text(encoding="utf-8"))


def evidence_of(page: str) -> list[list[str]]:
    """Return the titles of the tables that stand as evidence on a page."""
    _, _, after = (MODELS / f"{page}.md").read_text(encoding="utf-8").partition("\n## Evidence\n")
    return [titles for titles, _ in _tables(after.partition("\n## ")[0])]


def _tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not _RULE.fullmatch(line):
            continue
        after = range(number, len(lines))
        end = next((k for k in after if not lines[k].startswith("|")), len(lines))
        cells = [[c.strip() for c in text[1:-1].split("|")] for text in lines[number - 1 : end]]
        yield cells[0], cells[2:]


def rows(page: str, begin: str) -> list[list[str]]:
    """Return the rows of the one table of a page whose titles begin with these."""
    found = [each for titles, each in tables(page) if ", ".join(titles).startswith(begin)]
    assert len(found) == 1, f"{len(found)} tables of {page}.md begin with {begin!r}"
    return found[0]


def shown(page: str, begin: str) -> dict[str, list[str]]:
    """Return the rows of a table by their first cell."""
    return {row[0]: row[1:] for row in rows(page, begin)}


def numbers(cell: str) -> list[float]:
    """Return the numbers in a cell, in their order."""
    return [float(text) for text in _texts(cell)]


def _texts(cell: str) -> list[str]:
    return _NUMBER.findall(_THOUSANDS.sub("", cell))


def agree(cell: str, *values: float | None) -> None:
    """Hold a printed cell, `0.688x to 0.713x` or `1.6 %`, to values: by two units of its last
    digit.
    """
    printed = _texts(cell)
    told = [v for v in values if v is not None]
    if len(printed) == 1:
        told = told[:1]
    assert len(printed) == len(told), (cell, values)
    for number, value in zip(printed, told, strict=True):
        last = 10.0 ** -len(number.partition(".")[2])
        assert abs(float(number) - value) <= 2 * last, (cell, values)
