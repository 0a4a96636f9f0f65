"""Parser of protobuf's wire format, as far as Chakra's execution traces need it: bounded, without a
schema compiler.

A trace is a sequence of messages, each behind its length: first one ``GlobalMetadata``, then one
``Node`` per operation (``et_def.proto`` of MLCommons Chakra, schema 0.0.4).  Field numbers are the
schema's; unknown fields are skipped, as protobuf asks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

#: Most bytes of one message: the tensors of one node, as text.
LARGEST_MESSAGE: Final = 64 << 20
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_MASK: Final = (1 << 64) - 1
#: Fields of ``AttributeProto`` by the encoding of their value.  Lists are ignored, because no
#: attribute that is used is one.
_SIGNED: Final = (7, 9)
_PLAIN: Final = (11, 13, 27)
_ZIGZAG: Final = (15, 17)
_PACKED: Final = {3: "<d", 5: "<f", 19: "<I", 21: "<Q", 23: "<i", 25: "<q"}
_TEXT: Final = 29


class Wrong(ValueError):
    """Bytes that are no message, with the reason in words."""


def varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return the number at `offset`, of 64 bits at most, and where it ends.

    >>> varint(b"\\xac\\x02", 0)
    (300, 2)
    """
    value = shift = 0
    while True:
        if offset >= len(data):
            raise Wrong("a number that does not end")
        byte = data[offset]
        offset += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _MASK, offset
        shift += 7
        if shift > 63:
            raise Wrong("a number of more than ten bytes")


def fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield (field number, wire type, value) of one message: numbers as int, everything else as
    bytes.
    """
    offset, end = 0, len(data)
    while offset < end:
        key = data[offset]
        if key < 128:
            offset += 1
        else:
            key, offset = varint(data, offset)
        field, kind = key >> 3, key & 7
        value: Any
        if kind == _VARINT:
            value, offset = varint(data, offset)
        elif kind == _BYTES:
            length, offset = varint(data, offset)
            value = data[offset : offset + length]
            if len(value) != length:
                raise Wrong(f"field {field} claims {length} bytes beyond its message")
            offset += length
        elif kind in (_EIGHT, _FOUR):
            width = 8 if kind == _EIGHT else 4
            value = data[offset : offset + width]
            if len(value) != width:
                raise Wrong(f"field {field} is cut off")
            offset += width
        else:
            raise Wrong(f"field {field} has wire type {kind}")
        if not field:
            raise Wrong("field number 0")
        yield field, kind, value


def numbers(kind: int, value: Any) -> list[int]:
    """Return a repeated number, packed or not."""
    if kind == _VARINT:
        return [value]
    if kind != _BYTES:
        raise Wrong(f"a list of numbers with wire type {kind}")
    out, offset, end = [], 0, len(value)
    while offset < end:
        number = value[offset]
        if number < 128:
            offset += 1
        else:
            number, offset = varint(value, offset)
        out.append(number)
    return out


def whole(kind: int, value: Any) -> int:
    """Return a number; raises `Wrong` for anything else."""
    if kind != _VARINT:
        raise Wrong(f"a number with wire type {kind}")
    return int(value)


def text(kind: int, value: Any) -> str:
    """Return a text, its bad bytes replaced."""
    if kind != _BYTES:
        raise Wrong(f"a text with wire type {kind}")
    return str(value, "utf-8", "replace")


def attribute(data: bytes) -> tuple[str, int | float | str | None]:
    """Return name and value of an ``AttributeProto``; None for the value of a list or of an unknown
    kind.
    """
    name = ""
    result: int | float | str | None = None
    for field, kind, value in fields(data):
        if field == 1:
            name = text(kind, value)
        elif field == _TEXT:
            result = text(kind, value)
        elif field in _PACKED:
            if kind not in (_EIGHT, _FOUR) or struct.calcsize(_PACKED[field]) != len(value):
                raise Wrong(f"an attribute with wire type {kind}")
            result = struct.unpack(_PACKED[field], value)[0]
        elif field in (*_SIGNED, *_PLAIN, *_ZIGZAG):
            number = whole(kind, value)
            if field in _SIGNED:
                number -= (number >> 63) << 64
            elif field in _ZIGZAG:
                number = (number >> 1) ^ -(number & 1)
            result = number
    return name, result


class Messages:
    """Messages behind their lengths, from pieces of bytes.

    Attributes
    ----------
    at : bytes read so far, up to the end of the message given last.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.at, self.cut = 0, False

    def __iter__(self) -> Iterator[bytes]:
        """Yield the messages.  Raises `Wrong` for a length that no message has."""
        data, offset = b"", 0
        for piece in self._pieces:
            data, offset = data[offset:] + piece, 0
            while True:
                try:
                    length, begin = varint(data, offset)
                except Wrong:
                    if len(data) - offset > 10:
                        raise
                    break
                if length > LARGEST_MESSAGE:
                    raise Wrong(f"a message of {length} bytes")
                if begin + length > len(data):
                    break
                self.at += begin + length - offset
                yield data[begin : begin + length]
                offset = begin + length
        self.cut = offset < len(data)
