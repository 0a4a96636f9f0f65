"""Tables of whole numbers as plain columns, one after the other, which are mapped into memory and
not read.

A file holds one byte a column, what it is (`_NONE`, `_WHOLE`, `_MASKED`), then the values of each
in turn, and one byte a row that is 0 where a masked column has no value.  Every part begins at a
multiple of `_ALIGNED` bytes.  The format is the cache's own: it is neither exchanged nor read
without its digest.  Whoever cuts a file while it is mapped ends the program (SIGBUS), so that only
files of a private folder are mapped; those are written once, under another name, and never changed.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import polars as pl

_NONE, _WHOLE, _MASKED = range(3)
_ALIGNED: Final = 64
_TYPES: Final[Mapping[type[pl.DataType], np.dtype[Any]]] = {
    pl.Int64: np.dtype("<i8"),
    pl.Int32: np.dtype("<i4"),
    pl.Int8: np.dtype("i1"),
}
Types = Mapping[str, type[pl.DataType]]


def holds(types: Types) -> bool:
    """Return whether the format has all types of a table."""
    return all(kind in _TYPES for kind in types.values())


def write(frame: pl.DataFrame, path: Path) -> None:
    """Write a table whose types the format holds.  Raises `OSError`."""
    kinds = [
        _NONE if c.null_count() == len(c) else _MASKED if c.null_count() else _WHOLE for c in frame
    ]
    with path.open("wb") as file:
        _put(file, np.array(kinds, dtype=np.uint8))
        for column, kind in zip(frame, kinds, strict=True):
            if kind != _NONE:
                _put(file, column.fill_null(0).to_numpy())
            if kind == _MASKED:
                _put(file, column.is_not_null().to_numpy().view(np.uint8))


def _put(file: BinaryIO, values: np.ndarray[Any, Any]) -> None:
    file.write(np.ascontiguousarray(values).data)
    file.write(bytes(-file.tell() % _ALIGNED))


def mapped(file: BinaryIO, types: Types, rows: int) -> pl.DataFrame:
    """Return the table of an open file without a copy of its columns.  Raises `ValueError` where it
    has another size than its rows need.
    """
    content = mmap.mmap(
        file.fileno(),
        0,
        flags=mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0),
        prot=mmap.PROT_READ,
    )
    kinds = np.frombuffer(content, np.uint8, len(types)).tolist()
    parts = list(_parts(kinds, types, rows))
    ends = [begin + dtype.itemsize * rows for begin, dtype in parts]
    if any(kind not in (_NONE, _WHOLE, _MASKED) for kind in kinds) or max(
        ends, default=len(types)
    ) > len(content):
        raise ValueError("the file is shorter than its table")
    arrays = iter([np.frombuffer(content, dtype, rows, begin) for begin, dtype in parts])
    columns = []
    for (name, dtype), kind in zip(types.items(), kinds, strict=True):
        column = (
            pl.Series(name, [None], dtype=dtype).new_from_index(0, rows)
            if kind == _NONE
            else pl.Series(name, next(arrays))
        )
        if kind == _MASKED:
            column = column.to_frame().select(
                pl.when(pl.Series(next(arrays)) != 0).then(pl.col(name)).alias(name)
            )[name]
        columns.append(column)
    return pl.DataFrame(columns)


def _parts(kinds: list[int], types: Types, rows: int) -> Iterator[tuple[int, np.dtype[Any]]]:
    """Yield where each array of a file begins, and its type."""
    dtypes = [
        of
        for kind, t in zip(kinds, types.values(), strict=True)
        for of in (_TYPES[t], np.dtype(np.uint8))[:kind]
    ]
    begin = len(types)
    for dtype in dtypes:
        begin += -begin % _ALIGNED
        yield begin, dtype
        begin += dtype.itemsize * rows
