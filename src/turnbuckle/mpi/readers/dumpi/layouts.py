"""Arguments of each MPI call in a DUMPI file, and the parser of one record.

A record is the call's number (16 bits), a mask, a thread number, times, counters and arguments; all
big-endian.  The order of the table `layouts.csv` is the calls' numbering.  Letters: ``i`` 32 bits,
``h`` 16, ``b`` 8, ``q`` 64; ``a`` a list of 32-bit numbers, ``H`` of 16-bit, ``B`` of 8-bit, ``A``
of lists; ``c`` a text, ``C`` a list of texts, ``s`` statuses; ``{...}`` only where the first number
is that of the root (the number before the communicator that precedes the brace; of a spawn the
second), ``?`` unknown.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from turnbuckle.foundation.schema import table_rows

CALLS: Final = tuple(
    (row["call"], row["layout"]) for row in table_rows("mpi/readers/dumpi/layouts.csv")
)
"""Name without prefix, and layout, of each call by its number."""
#: Numbers after those of the calls: entering and leaving a function of the program, and the end of
#: the stream.
ENTER, LEAVE, END = (len(CALLS) + n for n in (1, 2, 3))

_STATUSES, _CPU, _WALL, _THREAD, _COUNTERS = 0x03, 0x04, 0x08, 0x40, 0x80
_FIXED: Final = {"i": ">i", "h": ">H", "b": ">B", "q": ">q"}
_LISTS: Final = {"a": ("i", 4), "H": ("H", 2), "B": ("B", 1)}
_TIMES: Final = struct.Struct(">HIHI")
_COUNT: Final = struct.Struct(">i")
_STATUS: Final = struct.Struct(">iiBBi")


class Record(NamedTuple):
    """Parsed record: the call's number, its thread, seconds and nanoseconds of begin and end (empty
    without), the arguments, and the offset of the next record.
    """

    number: int
    thread: int
    times: tuple[int, ...]
    arguments: list[Any]
    next: int


class Unreadable(ValueError):
    """Error for a record that runs over the end of the stream, or whose call is unknown."""


def record(data: Any, offset: int, end: int) -> Record:
    """Parse the record that begins at byte `offset` of `data`; the stream ends at byte `end`.
    Raises `Unreadable`.
    """
    try:
        number = struct.unpack_from(">H", data, offset)[0]
        if number == END:
            return Record(number, 0, (), [], offset + 2)
        mask = data[offset + 2]
        offset += 3
        thread = 0
        if mask & _THREAD:
            thread = struct.unpack_from(">H", data, offset)[0]
            offset += 2
        if mask & _CPU:
            offset += _TIMES.size
        times: tuple[int, ...] = ()
        if mask & _WALL:
            times = _TIMES.unpack_from(data, offset)
            offset += _TIMES.size
        if mask & _COUNTERS:
            offset += 1 + 16 * data[offset]
        if number in (ENTER, LEAVE):
            layout = "q"
        elif number < len(CALLS):
            layout = CALLS[number][1]
        else:
            raise Unreadable(f"call number {number}, which does not exist")
        if layout == "?":
            raise Unreadable(f"MPI_{CALLS[number][0]}, whose record is not known")
        arguments, offset = _arguments(layout, data, offset, end, bool(mask & _STATUSES))
    except (struct.error, IndexError):
        raise Unreadable("a record that runs over the end of the stream") from None
    if offset > end:
        raise Unreadable("a record that runs over the end of the stream")
    return Record(number, thread, times, arguments, offset)


def _arguments(
    layout: str, data: Any, offset: int, end: int, statuses: bool
) -> tuple[list[Any], int]:
    """Parse the arguments of a layout, and return them with the offset behind them."""
    out: list[Any] = []
    skipping = False
    for letter in layout:
        if letter == "{":
            root = out[1] if layout.startswith("iihh{") else out[-2]
            skipping = out[0] != root
        elif letter == "}":
            skipping = False
        elif skipping:
            continue
        elif letter in _FIXED:
            form = _FIXED[letter]
            out.append(struct.unpack_from(form, data, offset)[0])
            offset += struct.calcsize(form)
        elif letter in _LISTS:
            values, offset = _list(letter, data, offset, end)
            out.append(values)
        elif letter == "A":
            rows, offset = _counted(data, offset, end, 4)
            lists = []
            for _ in range(rows):
                values, offset = _list("a", data, offset, end)
                lists.append(values)
            out.append(lists)
        elif letter == "s":
            states, offset = _statuses(data, offset, end) if statuses else ((), offset)
            out.append(states)
        else:
            # Texts are paths, host names and arguments of the program, which must not be kept.
            rows, offset = _counted(data, offset, end, 4) if letter == "C" else (1, offset)
            for _ in range(rows):
                length, offset = _counted(data, offset, end, 1)
                offset += length
            out.append(None)
    return out, offset


def _counted(data: Any, offset: int, end: int, each: int) -> tuple[int, int]:
    """Return a count, 0 for a negative one, and the offset behind it; refuse a count that the rest
    of the stream cannot hold.
    """
    count = max(_COUNT.unpack_from(data, offset)[0], 0)
    offset += 4
    if offset + count * each > end:
        raise Unreadable(f"a list of {count} entries, more than the file holds")
    return count, offset


def _list(letter: str, data: Any, offset: int, end: int) -> tuple[tuple[int, ...], int]:
    """Return a list of numbers, and the offset behind it."""
    form, size = _LISTS[letter]
    count, offset = _counted(data, offset, end, size)
    return struct.unpack_from(f">{count}{form}", data, offset), offset + count * size


def _statuses(data: Any, offset: int, end: int) -> tuple[tuple[tuple[int, int, int], ...], int]:
    """Return bytes, source and tag of each status, and the offset behind them."""
    count, offset = _counted(data, offset, end, _STATUS.size)
    statuses = tuple(
        (s[0], s[1], s[4])
        for s in _STATUS.iter_unpack(data[offset : offset + count * _STATUS.size])
    )
    return statuses, offset + count * _STATUS.size
