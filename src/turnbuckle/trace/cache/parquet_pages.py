"""Check of the sizes and counts in a Parquet file, made before Polars reads it: Polars trusts them,
and one wrong count ends the process.

The footer and the header of every page are read (Thrift's compact protocol); no page is unpacked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, Final

from turnbuckle.foundation.files import opened

_MAGIC: Final = b"PAR1"
_DEEPEST: Final = 16
#: Bytes of a page's header, without and with long statistics.
_HEAD, _LONGEST_HEAD = 1 << 10, 1 << 20
#: Largest size of an unpacked page [B]: this, or this many times the size of the file if that is
#: more.
_FREE, _GROWTH = 64 << 20, 256


class Wrong(ValueError):
    """Contradiction in the file, described in words."""


def check(path: Path) -> int:
    """Return the number of rows.  Raises `Wrong` where offsets, sizes or counts are impossible, and
    `OSError` as reading does.
    """
    with opened(path) as file:
        size = file.seek(0, 2)
        if size < 12:
            raise Wrong("the file is too short for Parquet")
        file.seek(size - 8)
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC:
            raise Wrong("the file does not end as Parquet does")
        if length > size - 12:
            raise Wrong("the footer is longer than the file")
        file.seek(end := size - 8 - length)
        footer = _struct(_Bytes(file.read(length)))
        groups, rows = _list(footer, 4), _count(footer, 3, "rows")
        if sum(_count(group, 3, "rows of a group") for group in groups) != rows:
            raise Wrong("groups of rows and the footer disagree")
        for group in groups:
            for column in _list(group, 1):
                metadata = column.get(3) if isinstance(column, dict) else None
                if not isinstance(metadata, dict):
                    raise Wrong("a column is not described")
                if _count(metadata, 5, "values of a column") != group[3]:
                    raise Wrong("a column has other values than its group has rows")
                _pages(file, metadata, end, max(_FREE, _GROWTH * size))
        return rows


def _pages(file: BinaryIO, metadata: dict[int, Any], end: int, limit: int) -> None:
    """Check the sizes and counts of the pages of one column."""
    first = _count(metadata, 9, "offset of a page")
    offset = min(first, _count(metadata, 11, "offset of a dictionary")) if 11 in metadata else first
    end_of_column, values = offset + _count(metadata, 7, "bytes of a column"), 0
    if offset < len(_MAGIC) or end_of_column > end:
        raise Wrong("a column lies outside of the file")
    while offset < end_of_column:
        head, length = _head(file, offset)
        packed, unpacked = (
            _count(head, 3, "bytes of a page"),
            _count(head, 2, "unpacked bytes of a page"),
        )
        offset += length + packed
        if offset > end_of_column or unpacked > limit:
            raise Wrong("a page is larger than its column can be")
        kinds = [head[kind] for kind in (5, 7, 8) if isinstance(head.get(kind), dict)]
        if len(kinds) != 1:
            raise Wrong("a page of an unknown kind")
        count = _count(kinds[0], 1, "values of a page")
        if 7 in head:
            if count > unpacked:
                raise Wrong("a dictionary of more values than bytes")
            continue
        values += count
        if (
            8 in head
            and _count(kinds[0], 5, "bytes of levels") + _count(kinds[0], 6, "bytes of levels")
            > packed
        ):
            raise Wrong("levels are longer than their page")
    if values != metadata[5]:
        raise Wrong("pages and their column disagree on the number of values")


def _head(file: BinaryIO, offset: int) -> tuple[dict[int, Any], int]:
    """Return the header of the page at an offset, and its length."""
    for size in (_HEAD, _LONGEST_HEAD):
        file.seek(offset)
        text = _Bytes(file.read(size))
        try:
            return _struct(text), text.position
        except Wrong:
            if len(text.data) < size or size == _LONGEST_HEAD:
                raise
    raise AssertionError


def _count(fields: Any, field: int, what: str) -> int:
    value = fields.get(field) if isinstance(fields, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise Wrong(f"{what}: a number that cannot be")
    return value


def _list(fields: dict[int, Any], field: int) -> list[Any]:
    value = fields.get(field)
    if not isinstance(value, list):
        raise Wrong("the footer lacks a list")
    return value


class _Bytes:
    """Reader of bytes from begin to end.  Raises `Wrong` at their end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data) - self.position:
            raise Wrong("it ends inside a value")
        self.position += count
        return self.data[self.position - count : self.position]

    def byte(self) -> int:
        if self.position == len(self.data):
            raise Wrong("it ends inside a value")
        self.position += 1
        return self.data[self.position - 1]

    def varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise Wrong("a number of too many bytes")

    def zigzag(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)


def _struct(text: _Bytes, depth: int = 0) -> dict[int, Any]:
    """Return the fields of a Thrift struct by their number."""
    fields: dict[int, Any] = {}
    number = 0
    while kind := text.byte():
        step, kind = kind >> 4, kind & 15
        number = number + step if step else text.zigzag()
        fields[number] = kind == 1 if kind in (1, 2) else _value(text, kind, depth + 1)
    return fields


def _value(text: _Bytes, kind: int, depth: int) -> Any:
    if depth > _DEEPEST:
        raise Wrong("values too deep inside each other")
    if kind in (1, 2, 3):
        return text.byte()
    if kind in (4, 5, 6):
        return text.zigzag()
    if kind == 7:
        return text.take(8)
    if kind == 8:
        return text.take(text.varint())
    if kind in (9, 10):
        first = text.byte()
        count = first >> 4 if first >> 4 < 15 else text.varint()
        return [_value(text, first & 15, depth + 1) for _ in range(count)]
    if kind == 12:
        return _struct(text, depth)
    raise Wrong("a value of an unknown kind")
