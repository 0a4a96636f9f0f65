"""What a Parquet file says of its own sizes and counts, checked before a library that believes them: one wrong count ends the process.

The footer and the head of every page are read (Thrift's compact protocol), no page is unpacked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, Final

from turnbuckle.foundation.files import opened

_MAGIC: Final = b"PAR1"
_DEEPEST: Final = 16
#: Bytes of a page's head, and what its statistics may make of it.
_HEAD, _LONGEST_HEAD = 1 << 10, 1 << 20
#: What one page may unpack to [B]: this, or this many times the file if that is more.
_FREE, _GROWTH = 64 << 20, 256


class Wrong(ValueError):
    """The file contradicts itself: what is wrong, in words."""


def check(path: Path) -> None:
    """Raise `Wrong` where offsets, sizes or counts cannot be.  Raises `OSError` as reading does."""
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
                about = column.get(3) if isinstance(column, dict) else None
                if not isinstance(about, dict):
                    raise Wrong("a column is not described")
                if _count(about, 5, "values of a column") != group[3]:
                    raise Wrong("a column has other values than its group has rows")
                _pages(file, about, end, max(_FREE, _GROWTH * size))


def _pages(file: BinaryIO, about: dict[int, Any], end: int, most: int) -> None:
    """Follow the pages of one column."""
    first = _count(about, 9, "offset of a page")
    at = min(first, _count(about, 11, "offset of a dictionary")) if 11 in about else first
    behind, values = at + _count(about, 7, "bytes of a column"), 0
    if at < len(_MAGIC) or behind > end:
        raise Wrong("a column lies outside of the file")
    while at < behind:
        head, length = _head(file, at)
        packed, unpacked = _count(head, 3, "bytes of a page"), _count(head, 2, "unpacked bytes of a page")
        at += length + packed
        if at > behind or unpacked > most:
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
        if 8 in head and _count(kinds[0], 5, "bytes of levels") + _count(kinds[0], 6, "bytes of levels") > packed:
            raise Wrong("levels are longer than their page")
    if values != about[5]:
        raise Wrong("pages and their column disagree on the number of values")


def _head(file: BinaryIO, at: int) -> tuple[dict[int, Any], int]:
    """The head of the page at an offset, and its length."""
    for most in (_HEAD, _LONGEST_HEAD):
        file.seek(at)
        text = _Bytes(file.read(most))
        try:
            return _struct(text), text.at
        except Wrong:
            if len(text.held) < most or most == _LONGEST_HEAD:
                raise
    raise AssertionError


def _count(of: Any, field: int, what: str) -> int:
    value = of.get(field) if isinstance(of, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise Wrong(f"{what}: a number that cannot be")
    return value


def _list(of: dict[int, Any], field: int) -> list[Any]:
    value = of.get(field)
    if not isinstance(value, list):
        raise Wrong("the footer lacks a list")
    return value


class _Bytes:
    """Bytes read forward.  Raises `Wrong` at their end."""

    def __init__(self, held: bytes) -> None:
        self.held, self.at = held, 0

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.held) - self.at:
            raise Wrong("it ends inside a value")
        self.at += count
        return self.held[self.at - count : self.at]

    def varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise Wrong("a number of too many bytes")

    def zigzag(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)


def _struct(text: _Bytes, depth: int = 0) -> dict[int, Any]:
    """Fields by their number."""
    fields: dict[int, Any] = {}
    number = 0
    while kind := text.take(1)[0]:
        step, kind = kind >> 4, kind & 15
        number = number + step if step else text.zigzag()
        fields[number] = kind == 1 if kind in (1, 2) else _value(text, kind, depth + 1)
    return fields


def _value(text: _Bytes, kind: int, depth: int) -> Any:
    if depth > _DEEPEST:
        raise Wrong("values too deep inside each other")
    if kind in (1, 2, 3):
        return text.take(1)[0]
    if kind in (4, 5, 6):
        return text.zigzag()
    if kind == 7:
        return text.take(8)
    if kind == 8:
        return text.take(text.varint())
    if kind in (9, 10):
        first = text.take(1)[0]
        count = first >> 4 if first >> 4 < 15 else text.varint()
        return [_value(text, first & 15, depth + 1) for _ in range(count)]
    if kind == 12:
        return _struct(text, depth)
    raise Wrong("a value of an unknown kind")
