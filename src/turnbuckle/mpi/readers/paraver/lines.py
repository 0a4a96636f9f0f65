"""Vectorised parser of Paraver lines: the positions of their fields, and the numbers in fields of
digits.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.trace.readers.parts.text_numbers import LONGEST, PAD, letters, numbers

_COLON, _END, _ZERO = (np.uint8(ord(letter)) for letter in ":\n0")
_NINE: Final = np.uint8(9)


class Lines:
    """Block of whole lines.

    Attributes
    ----------
    fields : number of colon-separated fields of each line; too large where a line holds letters
        other than digits and colons.
    """

    def __init__(self, block: bytes) -> None:
        self._text = letters(block)
        inside = self._text[len(PAD) : -len(PAD)]
        #: every letter but a digit ends a field
        self._ends = np.flatnonzero(inside - _ZERO > _NINE) + len(PAD)
        self._kind = self._text[self._ends]
        self._last = np.flatnonzero(self._kind == _END)
        self._first = np.concatenate([np.zeros(1, np.int64), self._last[:-1] + 1])
        self.count = len(self._last)
        self.fields = self._last - self._first + 1
        self._start = np.concatenate([np.full(1, len(PAD)), self._ends[self._last[:-1]] + 1])
        self._next = self._text[self._ends + 1]

    def line(self, index: int) -> bytes:
        """Return one line without its line end."""
        return self._text[self._start[index] : self._ends[self._last[index]]].tobytes()

    def of_kind(self, kind: bytes) -> Bool:
        """Return a mask of the lines that begin with the given digit and a colon."""
        mask: Bool = (self._text[self._start] == kind[0]) & (self._text[self._start + 1] == kind[1])
        return mask

    def plain(self) -> Bool:
        """Return a mask of the lines that consist of fields of 1 to `LONGEST` digits and colons
        only.
        """
        width = np.diff(self._ends, prepend=len(PAD) - 1) - 1
        odd = ((self._kind != _COLON) & (self._kind != _END)) | (width < 1) | (width > LONGEST)
        return ~self._holding(np.flatnonzero(odd))

    def holding(self, *begins: bytes) -> Bool:
        """Return a mask of the lines with a field, other than the first, that begins with one of
        the given texts.
        """
        mask = np.zeros(self.count, dtype=bool)
        after_colon = self._kind == _COLON
        for begin in begins:
            candidates = np.flatnonzero((self._next == begin[0]) & after_colon)
            for offset, letter in enumerate(begin[1:], 2):
                candidates = candidates[self._text[self._ends[candidates] + offset] == letter]
            mask |= self._holding(candidates)
        return mask

    def _holding(self, ends: Int) -> Bool:
        """Return a mask of the lines that contain the given field ends."""
        mask = np.zeros(self.count, dtype=bool)
        mask[np.searchsorted(self._last, ends)] = True
        return mask

    def numbers(self, lines: Int, field: Int | int) -> Int:
        """Return one field of each of the given plain lines as a number.

        Every line must have the field, and the field must not be the first.
        """
        end = self._first[lines] + field
        return numbers(self._text, self._ends[end - 1] + 1, self._ends[end])
