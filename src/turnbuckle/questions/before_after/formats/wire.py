"""Writer of protobuf's wire format, as far as the traces here need it: numbers, texts and messages,
each behind its field number.

The reverse of `turnbuckle.trace.readers.chakra.wire`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_VARINT, _BYTES = 0, 2
_BITS: Final = 64


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it; negative ones in two's complement of 64 bits.

    >>> varint(300)
    b'\\xac\\x02'
    """
    value &= (1 << _BITS) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Return a field that holds an integer, a truth value or a choice."""
    return varint(field << 3 | _VARINT) + varint(value)


def chunk(field: int, value: bytes) -> bytes:
    """Return a field that holds a message or bytes."""
    return varint(field << 3 | _BYTES) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    """Return a field that holds a text."""
    return chunk(field, value.encode("utf-8", "replace"))


def packed(field: int, values: Iterable[int]) -> bytes:
    """Return a field that holds a list of integers; nothing for an empty list."""
    whole = b"".join(varint(value) for value in values)
    return chunk(field, whole) if whole else b""
