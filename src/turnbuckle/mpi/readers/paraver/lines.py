"""Lines of a Paraver trace, many at once: where their fields stand, and what those say that are digits."""

from __future__ import annotations

from typing import Final

import numpy as np

from turnbuckle.trace.readers.parts.text_numbers import LONGEST, PAD, Int, Mask, letters, numbers

_COLON, _END, _ZERO = (np.uint8(ord(letter)) for letter in ":\n0")
_NINE: Final = np.uint8(9)


class Lines:
    """A block of whole lines.

    Attributes
    ----------
    count : lines.
    fields : of each line, between colons; where a line holds letters that are neither, too many.
    """

    def __init__(self, block: bytes) -> None:
        self._text = letters(block)
        inside = self._text[len(PAD) : -len(PAD)]
        #: everything but digits ends a field
        self._ends = np.flatnonzero(inside - _ZERO > _NINE) + len(PAD)
        self._kind = self._text[self._ends]
        self._last = np.flatnonzero(self._kind == _END)
        self._first = np.concatenate([np.zeros(1, np.int64), self._last[:-1] + 1])
        self.count = len(self._last)
        self.fields = self._last - self._first + 1
        self._start = np.concatenate([np.full(1, len(PAD)), self._ends[self._last[:-1]] + 1])
        self._next = self._text[self._ends + 1]

    def line(self, at: int) -> bytes:
        """A line without its end."""
        return self._text[self._start[at] : self._ends[self._last[at]]].tobytes()

    def of_kind(self, kind: bytes) -> Mask:
        """Which lines begin with a digit and a colon."""
        found: Mask = (self._text[self._start] == kind[0]) & (self._text[self._start + 1] == kind[1])
        return found

    def plain(self) -> Mask:
        """Which lines are fields of 1 to `LONGEST` digits and colons, and nothing else."""
        width = np.diff(self._ends, prepend=len(PAD) - 1) - 1
        odd = ((self._kind != _COLON) & (self._kind != _END)) | (width < 1) | (width > LONGEST)
        return ~self._holding(np.flatnonzero(odd))

    def holding(self, *begins: bytes) -> Mask:
        """Which lines hold a field, not the first, that begins so."""
        found = np.zeros(self.count, dtype=bool)
        after_colon = self._kind == _COLON
        for begin in begins:
            at = np.flatnonzero((self._next == begin[0]) & after_colon)
            for place, letter in enumerate(begin[1:], 2):
                at = at[self._text[self._ends[at] + place] == letter]
            found |= self._holding(at)
        return found

    def _holding(self, ends: Int) -> Mask:
        found = np.zeros(self.count, dtype=bool)
        found[np.searchsorted(self._last, ends)] = True
        return found

    def numbers(self, lines: Int, field: Int | int) -> Int:
        """A field of each of some plain lines; of all that are asked for there must be one, and not the first."""
        end = self._first[lines] + field
        return numbers(self._text, self._ends[end - 1] + 1, self._ends[end])
