"""Text of a log, its lines and the numbers in them."""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.foundation.files import opened

#: Text of a log, unpacked.
LARGEST_BYTES: Final = 1 << 30
Rows = Iterator[tuple[int, list[str]]]


def read_text(path: Path) -> str:
    """Return the text of a log, unpacked where it is packed."""
    try:
        with opened(path) as file:
            raw = file.read(LARGEST_BYTES + 1)
            if raw[:2] == b"\x1f\x8b":
                file.seek(0)
                with gzip.GzipFile(fileobj=file) as packed:
                    raw = packed.read(LARGEST_BYTES + 1)
    except (OSError, EOFError, ValueError) as error:
        raise error_of(
            "P070.file",
            where=path.name,
            found=clipped(str(error).splitlines()[0] if str(error) else "", 60),
        ) from error
    if len(raw) > LARGEST_BYTES:
        raise error_of("P070.large", where=path.name, most=LARGEST_BYTES >> 20)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise error_of("P070.format", where=path.name, found="bytes that are no text") from None


def rows_of(path: Path, text: str, separator: str) -> tuple[list[str], Rows]:
    """Return the heading of a table and its lines, each with its number.  Raises P071 for a line of
    another length.
    """
    lines = ((k, line) for k, line in enumerate(text.splitlines(), 1) if line.strip())
    header = [cell.strip() for cell in next(lines, (0, ""))[1].rstrip(separator).split(separator)]

    def rows() -> Rows:
        for number, line in lines:
            cells = line.split(separator)
            if len(cells) == len(header) + 1 and not cells[-1]:
                cells.pop()  # sacct --parsable ends each line with a separator
            if len(cells) != len(header):
                raise error_of(
                    "P071.line",
                    where=f"{path.name}:{number}",
                    found=str(len(cells)),
                    count=len(header),
                )
            yield number, cells

    return header, rows()


def number(text: str, path: Path, line: int, most: float = 1e15) -> float:
    """Return a number that is not negative.  Raises P071."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        raise error_of("P071.number", where=f"{path.name}:{line}", found=clipped(text, 40))
    return value


def whole(text: str, path: Path, line: int) -> int:
    """Return a whole number that is not negative.  Raises P071."""
    return round(number(text, path, line, 1e12))


def time(text: str, path: Path, line: int) -> float:
    """Return a time [s]; nan where the cell is empty."""
    return number(text, path, line) if text.strip() else math.nan


def refused(path: Path, line: int, what: str) -> TurnbuckleError:
    """Return the error of a line that cannot be read."""
    return error_of("P071.number", where=f"{path.name}:{line}", found=clipped(what, 40))
