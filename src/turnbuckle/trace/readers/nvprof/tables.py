"""Columns of nvprof's SQLite file: opened read-only, real tables only, read in pieces.

SQLite stores any type in any column.  A value that is no integer is read as missing and counted.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.trace.readers.parts.sqlite_tables import ERRORS, columns, connect, count, quoted

#: Prefix of the names of the activity tables.
KIND: Final = "CUPTI_ACTIVITY_KIND_"
#: Marker of a missing value while columns are gathered; no time, size or id is as small.
MISSING: Final = -(2**63)
_ROWS: Final = 1 << 16
_LONGEST: Final = 1 << 16
_IDS: Final = 500
#: Errors that SQLite raises, and those that broken texts raise in Python.
_BROKEN: Final = (*ERRORS, UnicodeError)


class Database:
    """Open file.  Use as a context; raises `ProfileError` P038 where SQLite cannot read it, P039
    where it is locked.

    Attributes
    ----------
    odd : number of values read as missing because they are no integers, by table.
    broken_texts : number of texts that were not UTF-8.
    """

    def __init__(self, path: Path, progress: Callable[[float], object] | None = None) -> None:
        self.path, self._progress = path, progress
        self.odd: Counter[str] = Counter()
        self.broken_texts = 0
        self.columns: dict[str, list[str]] = {}
        self._read, self._rows = 0, 1

    def __enter__(self) -> Database:
        try:
            with ExitStack() as opened:
                self._connection = opened.enter_context(closing(connect(self.path)))
                self._connection.execute("BEGIN")
                self.columns = columns(self._connection)
                opened.pop_all()  # `__exit__` closes it
        except _BROKEN as error:
            raise self._failed(error) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _failed(self, error: Exception) -> TurnbuckleError:
        message = clipped(str(error), 120)
        if "locked" in message or "busy" in message:
            return error_of("P039", where=str(self.path), found=message)
        return error_of("P038", where=str(self.path), found=message)

    def _all(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except _BROKEN as error:
            raise self._failed(error) from None

    def has(self, table: str, *columns: str) -> bool:
        """Return whether the file has the table, and in it these columns."""
        return table in self.columns and set(columns) <= set(self.columns[table])

    def counts(self) -> dict[str, int]:
        """Return the number of rows of every table; their sum is the whole of `progress`."""
        try:
            rows = {table: count(self._connection, table) for table in self.columns}
        except _BROKEN as error:
            raise self._failed(error) from None
        self._rows = max(1, sum(rows.values()))
        return rows

    def integers(self, table: str, wanted: Iterable[str], rows: int) -> dict[str, Int]:
        """Return columns of a table as arrays of shape (rows,); `MISSING` where a cell holds no
        integer.
        """
        names = list(wanted)
        out = np.empty((len(names), rows), dtype=np.int64)
        filled = 0
        for piece in self._pieces(table, names):
            values = self._whole(table, piece, len(names))
            taken = min(values.shape[0], rows - filled)
            out[:, filled : filled + taken] = values[:taken].T
            filled += taken
            if filled == rows:
                break
        return dict(zip(names, out[:, :filled], strict=True))

    def _pieces(self, table: str, names: Sequence[str]) -> Iterable[list[tuple[Any, ...]]]:
        """Yield rows in pieces, in the table's own order: an index would give another one."""
        try:
            cursor = self._connection.execute(
                f"SELECT {', '.join(map(quoted, names))} FROM {quoted(table)} NOT INDEXED"
            )
            while piece := cursor.fetchmany(_ROWS):
                yield piece
                self._read += len(piece)
                if self._progress is not None:
                    self._progress(min(1.0, self._read / self._rows))
        except _BROKEN as error:
            raise self._failed(error) from None

    def _whole(self, table: str, piece: list[tuple[Any, ...]], width: int) -> Int:
        try:
            # an array accepts integers and nothing else, and checks them at the speed of C
            flat = array("q", chain.from_iterable(piece))
        except (TypeError, OverflowError):
            cells = [v if type(v) is int else MISSING for v in chain.from_iterable(piece)]
            self.odd[table] += sum(type(v) is not int for v in chain.from_iterable(piece))
            flat = array("q", cells)
        return np.frombuffer(flat, dtype=np.int64).reshape(len(piece), width)

    def objects(self, table: str, rows: int) -> tuple[Int, list[bytes]]:
        """Return column ``objectId`` of a table as the index of each row's value, and the distinct
        values.
        """
        distinct: dict[bytes, int] = {}
        out = np.zeros(rows, dtype=np.int64)
        filled = 0
        for piece in self._pieces(table, ["objectId"]):
            codes = [
                distinct.setdefault(
                    v if isinstance(v, bytes) and len(v) <= 64 else b"", len(distinct)
                )
                for (v,) in piece
            ]
            taken = min(len(codes), rows - filled)
            out[filled : filled + taken] = codes[:taken]
            filled += taken
            if filled == rows:
                break
        return out[:filled], list(distinct)

    def texts(self, ids: Iterable[int]) -> dict[int, str]:
        """Return texts of the string table by id; ids that it does not hold are absent."""
        texts: dict[int, str] = {}
        if not self.has("StringTable", "_id_", "value"):
            return texts
        wanted = sorted(set(ids))
        for first in range(0, len(wanted), _IDS):
            batch = wanted[first : first + _IDS]
            query = (
                f"SELECT _id_, substr(CAST(value AS BLOB), 1, {_LONGEST}) FROM StringTable WHERE "
                f"_id_ IN ({','.join('?' * len(batch))})"
            )
            for key, value in self._all(query, batch):
                if isinstance(value, bytes):
                    texts[key] = self._text(value)
        return texts

    def _text(self, value: bytes) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError:
            self.broken_texts += 1
            return value.decode(errors="replace")


def series(values: Int, dtype: type[pl.DataType] = pl.Int64) -> tuple[pl.Series, int]:
    """Return a column with nulls for `MISSING`, and how many numbers were too large for its type
    and became null as well.
    """
    out = pl.Series(values)
    missing = values == MISSING
    count = int(missing.sum())
    if count:
        out = out.set(pl.Series(missing), None)
    if dtype is pl.Int64:
        return out, 0
    cast = out.cast(dtype, strict=False)
    return cast, cast.null_count() - count


def numbered(*columns: Int) -> tuple[list[tuple[int, ...]], Int]:
    """Return the distinct rows of columns of one length, in order, and the number of the distinct
    row that each row equals.
    """
    names = [str(k) for k in range(len(columns))]
    frame = pl.DataFrame(dict(zip(names, columns, strict=True)))
    distinct = frame.unique().sort(names)
    codes = frame.join(distinct.with_row_index("at"), on=names, how="left", maintain_order="left")[
        "at"
    ]
    return distinct.rows(), codes.cast(pl.Int64).to_numpy()
