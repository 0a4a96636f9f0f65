"""Vectorised parser of Paje event lines whose fields are all plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.mpi.readers.paje.lines import Layout
from turnbuckle.trace.readers.parts.mpi_tables import LARGEST_NS, NO
from turnbuckle.trace.readers.parts.text_numbers import (
    PAD,
    Words,
    checked,
    decimals,
    letters,
    short_words,
)

#: Kinds of events.  `SOFT` ends the innermost open state if there is one, `RESET` ends all.
PUSH, POP, SOFT, RESET, START, END = range(6)
#: An event that is irrelevant to calls; an event whose line needs the line-by-line parser.
UNREAD, ALONE = -1, -2
_KINDS: Final = {
    "PajePushState": PUSH,
    "PajePopState": POP,
    "PajeStartLink": START,
    "PajeEndLink": END,
}
#: Characters that `bytes.split` takes for a gap between words, mapped to spaces.
_GAPS: Final = bytes.maketrans(b"\t\r\x0b\x0c", b"    ")
_SPACE, _LF, _QUOTE, _HASH, _BAR, _MINUS = (np.uint8(ord(letter)) for letter in ' \n"#_-')
_WORD: Final = 8
#: Longest event number that this parser looks up [letters].
_SHORT: Final = 2
#: Longest link key that is kept as letters [words of eight letters].
KEY_WORDS: Final = 4
_NA: Final = np.uint64(int.from_bytes(b"NA", "little"))


class Block:
    """Parsed fields of a block of whole lines that holds no definitions.

    Attributes
    ----------
    layout : index of each line's layout; -1 where the line needs the line-by-line parser.
    time : time of each line [ns].
    place, value : container and value of each line, as words of at most eight letters.
    size : size of each line; `NO` where it has none.
    key, tag : for links, the key's letters (lines x `KEY_WORDS`) and the tag in the key.
    """

    def __init__(self, block: bytes, layouts: Mapping[bytes, Layout]) -> None:
        self._block = block
        self._text = letters(block.translate(_GAPS))
        inside = self._text[len(PAD) : -len(PAD)]
        low = np.flatnonzero(inside < _SPACE) + len(PAD)
        is_end = self._text[low] == _LF
        self._ends = low[is_end]
        gap = np.concatenate([np.ones(1, dtype=bool), inside <= _SPACE])
        edges = np.flatnonzero(gap[1:] != gap[:-1]) + len(PAD)
        self._from, self._to = edges[0::2], edges[1::2]
        self._begin = np.concatenate([np.full(1, len(PAD)), self._ends[:-1] + 1])
        # A line that begins with a gap has no word right behind the previous line's end, so its
        # first word is searched for.
        self._first = np.flatnonzero(self._text[self._from - 1] == _LF)
        if self._text[len(PAD)] > _SPACE:
            self._first = np.concatenate([np.zeros(1, dtype=np.int64), self._first])
        if len(self._first) != len(self._begin):
            self._first = np.searchsorted(self._from, self._begin)
        self._words = np.diff(self._first, append=len(self._from))
        self._underscores = np.flatnonzero(inside == _BAR) + len(PAD)
        self.count = len(self._ends)
        self.kind = np.full(self.count, ALONE, dtype=np.int8)
        self.layout = np.full(self.count, -1, dtype=np.int64)
        self.time, self.tag = (np.zeros(self.count, dtype=np.int64) for _ in range(2))
        self.size = np.full(self.count, NO, dtype=np.int64)
        self.place, self.value = (np.zeros(self.count, dtype=np.uint64) for _ in range(2))
        self.key = np.zeros((self.count, KEY_WORDS), dtype=np.uint64)

        plain = (self._text[self._begin] > _SPACE) & (self._text[self._begin] != _HASH)
        odd = low[~is_end]
        if b'"' in block:
            odd = np.concatenate([odd, np.flatnonzero(inside == _QUOTE) + len(PAD)])
        plain[np.searchsorted(self._ends, odd)] = False
        self._read(np.flatnonzero(plain), layouts)

    def line(self, index: int) -> bytes:
        """Return one line without its line end."""
        return self._block[self._begin[index] - len(PAD) : self._ends[index] - len(PAD)]

    def _read(self, lines: Int, layouts: Mapping[bytes, Layout]) -> None:
        """Parse each line by the layout of its event number."""
        layout_of = np.full(1 << 8 * _SHORT, -1, dtype=np.int16)
        for position, number in enumerate(layouts):
            if len(number) <= _SHORT and 0 not in number:
                layout_of[int.from_bytes(number, "little")] = position
        word, _ = self._word(lines, 0)
        layout = np.where(
            word < len(layout_of), layout_of.take(word.view(np.int64), mode="clip"), -1
        )
        lines, layout = lines[layout >= 0], layout[layout >= 0]
        each = list(layouts.values())
        for number in np.unique(layout).tolist():
            members, definition = lines[layout == number], each[number]
            kind = UNREAD if definition.act is None else _KINDS.get(definition.name, ALONE)
            if kind not in (UNREAD, ALONE):
                members = self._event(members, kind, definition.columns)
            self.kind[members] = kind
            self.layout[members] = number if kind != ALONE else -1

    def _word(self, lines: Int, field: int) -> tuple[Words, Bool]:
        """Return the given word of each line, and a mask of words of at most eight letters.

        Every line must have that many words.
        """
        start, end = self._from[self._first[lines] + field], self._to[self._first[lines] + field]
        return short_words(self._text, np.maximum(start, end - _WORD), end), end - start <= _WORD

    def _event(self, lines: Int, kind: int, columns: tuple[int, ...]) -> Int:
        """Parse the fields of lines of one kind of event, and return the lines whose fields are all
        plain.
        """
        required = columns[: 2 if kind == POP else 3]
        lines = lines[self._words[lines] > max(required)] if min(required) > 0 else lines[:0]
        time, sound = self._decimal(lines, columns[0])
        time = np.rint(time * 1e9)
        self.place[lines], short = self._word(lines, columns[1])
        sound &= short & (time <= LARGEST_NS)
        self.time[lines] = np.where(sound, time, 0).astype(np.int64)
        if kind == PUSH:
            self.value[lines], short = self._word(lines, columns[2])
            sound &= short
        elif kind != POP:
            sound &= self._link(lines, columns[2])
        size_column = {PUSH: 4, START: 3}.get(kind)
        if size_column is not None and columns[size_column] > 0:
            sized = np.flatnonzero(self._words[lines] > columns[size_column])
            word, _ = self._word(lines[sized], columns[size_column])
            sized = sized[word != _NA]
            size, fits = self._decimal(lines[sized], columns[size_column])
            self.size[lines[sized]] = size.astype(np.int64)
            sound[sized] &= fits
        return lines[sound]

    def _decimal(self, lines: Int, field: int) -> tuple[Float, Bool]:
        """Parse one field of each line as a decimal number, and return a mask of the fields that
        are such.
        """
        start, end = self._from[self._first[lines] + field], self._to[self._first[lines] + field]
        return decimals(self._text, start, end)

    def _link(self, lines: Int, field: int) -> Bool:
        """Parse link keys ``SRC_DST_TAG_SEQ`` and their tags, and return a mask of the keys of that
        form.
        """
        start, end = self._from[self._first[lines] + field], self._to[self._first[lines] + field]
        sound = end - start <= KEY_WORDS * _WORD
        for index in range(KEY_WORDS):
            begin = start + index * _WORD
            present = np.flatnonzero(begin < end)
            self.key[lines[present], index] = short_words(
                self._text, begin[present], np.minimum(begin + _WORD, end)[present]
            )
        bars = np.append(self._underscores, np.full(4, len(self._text)))
        separator = [bars[np.searchsorted(self._underscores, start) + index] for index in range(4)]
        sound &= (separator[2] < end) & (separator[3] >= end)
        first_bar, second_bar, third_bar = (np.minimum(position, end) for position in separator[:3])
        negative = self._text[second_bar + 1] == _MINUS
        tag = np.zeros(len(start), dtype=np.int64)
        for begin, until in (
            (start, first_bar),
            (first_bar + 1, second_bar),
            (third_bar + 1, end),
            (second_bar + 1 + negative, third_bar),
        ):
            tag, fits = checked(self._text, begin, np.maximum(until, begin))
            sound &= fits
        self.tag[lines] = np.where(negative, -tag, tag)
        return sound
