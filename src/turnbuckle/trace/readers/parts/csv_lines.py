"""CSV from a profiler, row by row: damaged rows are told apart from those that are left out."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator


def heading(line: bytes) -> list[str]:
    """Return the cells of one line, without blanks around them; none where it is no CSV.

    >>> heading(b"Start (ns), Name")
    ['Start (ns)', 'Name']
    """
    try:
        return [cell.strip() for cell in next(csv.reader([_text(line).strip()]), [])]
    except csv.Error:
        return []


def csv_rows(lines: Iterable[bytes]) -> Iterator[tuple[list[str] | None, int]]:
    """Yield the cells of each row that is not blank, None where it is damaged, and how many lines
    it takes.

    A row takes many lines where a quotation mark is not closed.

    >>> list(csv_rows([b'1,"a', b'b"', b"", b"2,c"]))
    [(['1', 'a\\nb'], 2), (['2', 'c'], 1)]
    """
    reader = csv.reader(_text(line) + "\n" for line in lines)
    before = 0
    while True:
        cells: list[str] | None
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            cells = None
        if cells != []:
            yield cells, reader.line_num - before
        before = reader.line_num


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
