"""Reading of untrusted SQLite files: opened read-only, real tables only, and no view, trigger or
function of the file is run.

A cell is read with the expected type or as null, because SQLite lets any cell hold any type.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Final

import polars as pl

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.foundation.files import noted, opened

MAGIC: Final = b"SQLite format 3\x00"
#: How long a reader waits for a program that has the file locked [s].
LOCK_SECONDS = 1.0
_PIECE_ROWS: Final = 1 << 16
_LONGEST_TEXT: Final = 1 << 16
_LONGEST_CELL: Final = 1 << 26
#: Errors of reading a damaged file; SQLite reports impossible lengths as "no memory".
ERRORS: Final = (sqlite3.Error, MemoryError)
_VIRTUAL: Final = re.compile(r"\s*create\s+virtual\b", re.IGNORECASE)


def connect(path: Path, *, immutable: bool = False, wait: bool = True) -> sqlite3.Connection:
    """Open a file read-only, so that nothing stored in it is run.  Raises `sqlite3.Error`.

    Parameters
    ----------
    immutable : ignore locks and a log beside the file.
    wait : wait for a program that has the file locked.
    """
    for file in (path, Path(f"{path}-wal")):
        with suppress(OSError, ValueError):
            noted(file)
    mode = "mode=ro&immutable=1" if immutable else "mode=ro"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}",
        uri=True,
        timeout=LOCK_SECONDS * wait,
        isolation_level=None,
    )
    with ExitStack() as opened:
        opened.enter_context(closing(connection))
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA cell_size_check = ON")
        # a damaged header may claim cells of any length
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_CELL)
        opened.pop_all()  # the caller closes it
    return connection


def connected(
    path: Path, *, immutable: bool = False, wait: bool = True
) -> closing[sqlite3.Connection]:
    """Return `connect` as a context, with bad bytes in texts replaced."""
    connection = connect(path, immutable=immutable, wait=wait)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return closing(connection)


def names(path: Path) -> list[str]:
    """Return the names of a file's real tables; none where it cannot be read.

    A lock is ignored: the reader that knows the names waits for its end.
    """
    for immutable in (False, True):
        with (
            suppress(*ERRORS, OSError, UnicodeError),
            connected(path, immutable=immutable, wait=False) as connection,
        ):
            return list(columns(connection))
    return []


def columns(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Return the columns of every real table, by its name."""
    listed = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    real = [
        n
        for n, sql in listed
        if isinstance(n, str) and not _VIRTUAL.match(sql if isinstance(sql, str) else "")
    ]
    return {
        n: [row[1] for row in connection.execute(f"PRAGMA table_info({quoted(n)})")] for n in real
    }


def count(connection: sqlite3.Connection, table: str) -> int:
    """Return the number of rows of a table.  Raises `sqlite3.DatabaseError` where its file cannot
    hold them: its pages form a ring.
    """
    ((pages,),), ((size,),) = (
        connection.execute(f"PRAGMA {what}").fetchall() for what in ("page_count", "page_size")
    )
    # the smallest row takes four bytes
    most = pages * size // 4 + 1024
    rows = int(
        connection.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {quoted(table)} LIMIT {most + 1})"
        ).fetchone()[0]
    )
    if rows > most:
        raise sqlite3.DatabaseError("a table holds more rows than fit the file")
    return rows


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def whole(expression: str) -> str:
    """Return SQL for a cell that should hold an integer; texts of digits count."""
    return (
        f"CASE typeof({expression}) WHEN 'integer' THEN {expression} "
        f"WHEN 'text' THEN CASE WHEN {expression} <> '' AND length({expression}) < 19 AND "
        f"{expression} NOT GLOB '*[^0-9]*' "
        f"THEN CAST({expression} AS INTEGER) END END"
    )


def text(expression: str) -> str:
    """Return SQL for a cell that should hold a text."""
    return (
        f"CASE typeof({expression}) WHEN 'text' THEN substr({expression}, 1, {_LONGEST_TEXT}) END"
    )


def pieces(
    connection: sqlite3.Connection,
    select: Mapping[str, str],
    source: str,
    most: int,
    tick: Callable[[int], None] | None = None,
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a query in pieces of bounded size.

    Parameters
    ----------
    select : SQL of every column by its name; names that begin with ``text_`` are texts, all others
        integers.
    source : the SQL after FROM.
    most : rows of the first table; ids that occur twice would give more rows, and raise
        `sqlite3.DataError`.
    """
    schema: dict[str, Any] = {
        name: pl.String if name.startswith("text_") else pl.Int64 for name in select
    }
    cells = ", ".join(
        f"{text(e) if n.startswith('text_') else whole(e)}" for n, e in select.items()
    )
    cursor = connection.execute(f"SELECT {cells} FROM {source} LIMIT {most + 1}")
    done = 0
    while rows := cursor.fetchmany(_PIECE_ROWS):
        done += len(rows)
        if done > most:
            raise sqlite3.DataError("an id that must be unique occurs twice")
        yield pl.DataFrame(rows, schema=schema, orient="row")
        if tick is not None:
            tick(len(rows))


def digest(path: Path) -> tuple[str, int]:
    """Return SHA-256 and size [B] of a file."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size


def unreadable(path: Path, error: Exception) -> TurnbuckleError:
    """Build P049: the database cannot be read."""
    message = clipped(str(error), 100)
    if "locked" in message:
        cause, fix = (
            "another program has it open",
            "close the program that writes it, or copy the file",
        )
    else:
        cause, fix = (
            "it was copied while it was written, or it is damaged",
            "copy it again, or record the run again",
        )
    return error_of("P049", where=str(path), found=message, cause=cause, fix=fix)
