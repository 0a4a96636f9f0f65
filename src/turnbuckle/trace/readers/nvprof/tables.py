"""A SQLite file of nvprof as columns: opened read-only, real tables only, in pieces, whole numbers as they stand.

SQLite stores any type in any column.  A value that is no whole number is read as missing and counted.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.errors import ProfileError, clipped
from turnbuckle.trace.readers.parts.sqlite_tables import ERRORS, columns, connect, count, quoted

Int = NDArray[np.int64]

#: Begin of the names of the activity tables.
KIND: Final = "CUPTI_ACTIVITY_KIND_"
#: What stands for a value that is missing while columns are gathered; no time, size or id is as small.
MISSING: Final = -(2**63)
_ROWS: Final = 1 << 16
_LONGEST: Final = 1 << 16
_IDS: Final = 500
#: What SQLite raises, and what its texts raise in Python where they are spoilt.
_BROKEN: Final = (*ERRORS, UnicodeError)


class Database:
    """An open file.  Use as a context; raises `ProfileError` P038 where SQLite cannot read it, P039 where it is locked.

    Attributes
    ----------
    columns : names of the columns of every real table, in the file's order.
    odd : values read as missing because they are no whole numbers, by table.
    broken_texts : texts that were not UTF-8.
    """

    def __init__(self, path: Path, progress: Callable[[float], object] | None = None) -> None:
        self.path, self._progress = path, progress
        self.odd: Counter[str] = Counter()
        self.broken_texts = 0
        self.columns: dict[str, list[str]] = {}
        self._read, self._rows = 0, 1

    def __enter__(self) -> Database:
        try:
            self._connection = connect(self.path)
            self._connection.execute("BEGIN")
            self.columns = columns(self._connection)
        except _BROKEN as error:
            raise self._failed(error) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _failed(self, error: Exception) -> ProfileError:
        found = clipped(str(error), 120)
        if "locked" in found or "busy" in found:
            return ProfileError(
                "P039", "the nvprof file is being written", where=str(self.path), found=found, cause="nvprof has not finished yet",
                fix="wait until the run has ended, or copy the file",
            )  # fmt: skip
        return ProfileError(
            "P038", "the nvprof file is damaged or cut off", where=str(self.path), found=found,
            cause="the copy is not complete, or nvprof was stopped before it had written all",
            fix="copy the file again; or record again with nvprof -o RUN.nvvp",
        )  # fmt: skip

    def _all(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except _BROKEN as error:
            raise self._failed(error) from None

    def has(self, table: str, *columns: str) -> bool:
        """Whether the file has the table, and in it these columns."""
        return table in self.columns and set(columns) <= set(self.columns[table])

    def counts(self) -> dict[str, int]:
        """Rows of every table; all together are what `progress` is measured by."""
        try:
            found = {table: count(self._connection, table) for table in self.columns}
        except _BROKEN as error:
            raise self._failed(error) from None
        self._rows = max(1, sum(found.values()))
        return found

    def integers(self, table: str, wanted: Iterable[str], rows: int) -> dict[str, Int]:
        """Columns of a table as arrays of shape (rows,); `MISSING` where a cell holds no whole number.

        Parameters
        ----------
        wanted : columns that the table has.
        rows : as many as `counts` found.
        """
        names = list(wanted)
        out = np.empty((len(names), rows), dtype=np.int64)
        at = 0
        for piece in self._pieces(table, names):
            values = self._whole(table, piece, len(names))
            taken = min(values.shape[0], rows - at)
            out[:, at : at + taken] = values[:taken].T
            at += taken
            if at == rows:
                break
        return dict(zip(names, out[:, :at], strict=True))

    def _pieces(self, table: str, names: Sequence[str]) -> Iterable[list[tuple[Any, ...]]]:
        """Rows in pieces, in the table's own order: an index would give another one."""
        try:
            cursor = self._connection.execute(f"SELECT {', '.join(map(quoted, names))} FROM {quoted(table)} NOT INDEXED")
            while piece := cursor.fetchmany(_ROWS):
                yield piece
                self._read += len(piece)
                if self._progress is not None:
                    self._progress(min(1.0, self._read / self._rows))
        except _BROKEN as error:
            raise self._failed(error) from None

    def _whole(self, table: str, piece: list[tuple[Any, ...]], width: int) -> Int:
        try:
            # an array takes whole numbers and nothing else, at the speed of C
            flat = array("q", chain.from_iterable(piece))
        except (TypeError, OverflowError):
            cells = [v if type(v) is int else MISSING for v in chain.from_iterable(piece)]
            self.odd[table] += sum(type(v) is not int for v in chain.from_iterable(piece))
            flat = array("q", cells)
        return np.frombuffer(flat, dtype=np.int64).reshape(len(piece), width)

    def objects(self, table: str, rows: int) -> tuple[Int, list[bytes]]:
        """Column ``objectId`` of a table: which of the distinct values each row has, and these."""
        distinct: dict[bytes, int] = {}
        out = np.zeros(rows, dtype=np.int64)
        at = 0
        for piece in self._pieces(table, ["objectId"]):
            codes = [distinct.setdefault(v if isinstance(v, bytes) and len(v) <= 64 else b"", len(distinct)) for (v,) in piece]
            taken = min(len(codes), rows - at)
            out[at : at + taken] = codes[:taken]
            at += taken
            if at == rows:
                break
        return out[:at], list(distinct)

    def texts(self, ids: Iterable[int]) -> dict[int, str]:
        """Texts of the string table by id; ids that it does not hold are absent."""
        found: dict[int, str] = {}
        if not self.has("StringTable", "_id_", "value"):
            return found
        wanted = sorted(set(ids))
        for first in range(0, len(wanted), _IDS):
            some = wanted[first : first + _IDS]
            query = f"SELECT _id_, substr(CAST(value AS BLOB), 1, {_LONGEST}) FROM StringTable WHERE _id_ IN ({','.join('?' * len(some))})"
            for key, value in self._all(query, some):
                if isinstance(value, bytes):
                    found[key] = self._text(value)
        return found

    def _text(self, value: bytes) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError:
            self.broken_texts += 1
            return value.decode(errors="replace")


def series(values: Int, dtype: type[pl.DataType] = pl.Int64) -> tuple[pl.Series, int]:
    """A column with nulls for `MISSING`, and how many numbers were too large for its type and became null as well."""
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
    """The distinct rows of columns of one length, in order, and which of them each row is."""
    names = [str(k) for k in range(len(columns))]
    frame = pl.DataFrame(dict(zip(names, columns, strict=True)))
    distinct = frame.unique().sort(names)
    codes = frame.join(distinct.with_row_index("at"), on=names, how="left", maintain_order="left")["at"]
    return distinct.rows(), codes.cast(pl.Int64).to_numpy()
