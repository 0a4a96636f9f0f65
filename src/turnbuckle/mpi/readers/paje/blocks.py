"""Lines of a Paje trace, many at once: what those say that are plain words of the events that traces are full of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.mpi.readers.paje.lines import Layout
from turnbuckle.trace.readers.parts.mpi_tables import LARGEST_NS, NO
from turnbuckle.trace.readers.parts.text_numbers import PAD, Int, Mask, Words, checked, decimals, letters, short_words

#: Kinds of events.  `SOFT` ends a state if there is one, `RESET` all.
PUSH, POP, SOFT, RESET, START, END = range(6)
#: An event that says nothing of calls; one whose line is read alone.
UNREAD, ALONE = -1, -2
_KINDS: Final = {"PajePushState": PUSH, "PajePopState": POP, "PajeStartLink": START, "PajeEndLink": END}
#: What bytes.split takes for a gap between words.
_GAPS: Final = bytes.maketrans(b"\t\r\x0b\x0c", b"    ")
_SPACE, _LF, _QUOTE, _HASH, _BAR, _MINUS = (np.uint8(ord(letter)) for letter in ' \n"#_-')
_WORD: Final = 8
#: Letters of the numbers of events that are looked for.
_SHORT: Final = 2
#: Words that a link's key fills at most.
KEY_WORDS: Final = 4
_NA: Final = np.uint64(int.from_bytes(b"NA", "little"))


class Block:
    """Whole lines without definitions.

    Attributes
    ----------
    count : lines.
    kind : of each.
    layout : of each, its place among the layouts; -1 where it is read alone.
    time : of each [ns].
    place, value : container and value of each, words of at most eight letters.
    size : of each; `NO` where it has none.
    key, tag : of links: the key's letters (lines x `KEY_WORDS`), and the tag in it.
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
        # words behind an end of line, and the first; lines that begin with none have to be looked for
        self._first = np.flatnonzero(self._text[self._from - 1] == _LF)
        if self._text[len(PAD)] > _SPACE:
            self._first = np.concatenate([np.zeros(1, dtype=np.int64), self._first])
        if len(self._first) != len(self._begin):
            self._first = np.searchsorted(self._from, self._begin)
        self._words = np.diff(self._first, append=len(self._from))
        self._bars = np.flatnonzero(inside == _BAR) + len(PAD)
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

    def line(self, at: int) -> bytes:
        """A line without its end."""
        return self._block[self._begin[at] - len(PAD) : self._ends[at] - len(PAD)]

    def _read(self, lines: Int, layouts: Mapping[bytes, Layout]) -> None:
        place_of = np.full(1 << 8 * _SHORT, -1, dtype=np.int16)
        for place, number in enumerate(layouts):
            if len(number) <= _SHORT and 0 not in number:
                place_of[int.from_bytes(number, "little")] = place
        word, _ = self._word(lines, 0)
        places = np.where(word < len(place_of), place_of.take(word.view(np.int64), mode="clip"), -1)
        lines, places = lines[places >= 0], places[places >= 0]
        each = list(layouts.values())
        for number in np.unique(places).tolist():
            mine, layout = lines[places == number], each[number]
            kind = UNREAD if layout.act is None else _KINDS.get(layout.name, ALONE)
            if kind not in (UNREAD, ALONE):
                mine = self._event(mine, kind, layout.at)
            self.kind[mine] = kind
            self.layout[mine] = number if kind != ALONE else -1

    def _word(self, lines: Int, field: int) -> tuple[Words, Mask]:
        """A word of each line, and whether it has at most eight letters; of lines that have so many words."""
        start, end = self._from[self._first[lines] + field], self._to[self._first[lines] + field]
        return short_words(self._text, np.maximum(start, end - _WORD), end), end - start <= _WORD

    def _event(self, lines: Int, kind: int, at: tuple[int, ...]) -> Int:
        """Fields of lines of one kind of event; returns the lines whose fields are plain."""
        must = at[: 2 if kind == POP else 3]
        lines = lines[self._words[lines] > max(must)] if min(must) > 0 else lines[:0]
        time, sound = self._decimal(lines, at[0])
        time = np.rint(time * 1e9)
        self.place[lines], short = self._word(lines, at[1])
        sound &= short & (time <= LARGEST_NS)
        self.time[lines] = np.where(sound, time, 0).astype(np.int64)
        if kind == PUSH:
            self.value[lines], short = self._word(lines, at[2])
            sound &= short
        elif kind != POP:
            sound &= self._link(lines, at[2])
        size_at = {PUSH: 4, START: 3}.get(kind)
        if size_at is not None and at[size_at] > 0:
            sized = np.flatnonzero(self._words[lines] > at[size_at])
            word, _ = self._word(lines[sized], at[size_at])
            sized = sized[word != _NA]
            size, fits = self._decimal(lines[sized], at[size_at])
            self.size[lines[sized]] = size.astype(np.int64)
            sound[sized] &= fits
        return lines[sound]

    def _decimal(self, lines: Int, field: int) -> tuple[NDArray[np.float64], Mask]:
        start, end = self._from[self._first[lines] + field], self._to[self._first[lines] + field]
        return decimals(self._text, start, end)

    def _link(self, lines: Int, field: int) -> Mask:
        """Keys ``SRC_DST_TAG_SEQ`` and their tags; returns which keys are such."""
        start, end = self._from[self._first[lines] + field], self._to[self._first[lines] + field]
        sound = end - start <= KEY_WORDS * _WORD
        for place in range(KEY_WORDS):
            begin = start + place * _WORD
            there = np.flatnonzero(begin < end)
            self.key[lines[there], place] = short_words(self._text, begin[there], np.minimum(begin + _WORD, end)[there])
        bars = np.append(self._bars, np.full(4, len(self._text)))
        bar = [bars[np.searchsorted(self._bars, start) + place] for place in range(4)]
        sound &= (bar[2] < end) & (bar[3] >= end)
        one, two, three = (np.minimum(b, end) for b in bar[:3])
        below = self._text[two + 1] == _MINUS
        tag = np.zeros(len(start), dtype=np.int64)
        for begin, until in ((start, one), (one + 1, two), (three + 1, end), (two + 1 + below, three)):
            tag, fits = checked(self._text, begin, np.maximum(until, begin))
            sound &= fits
        self.tag[lines] = np.where(below, -tag, tag)
        return sound
