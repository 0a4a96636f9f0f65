"""Streaming reader of JSON of any size, element by element: at most one element is held in memory.

The text is read forward only.  `Json.members` and `Json.entries` enter an object or a list; each
value that they reach must be read (`value`), entered, or skipped (`skip`) before the next.  Where
the text ends too early `Cut` is raised; values read until then are valid.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Final

_ENOUGH: Final = 1 << 16
#: Longest believable element [letters].
_LONGEST: Final = 8 << 20
#: Most letters read in vain over all broken elements: what an unclosed element consumed is read
#: again behind its begin.
_IN_VAIN: Final = 4 * _LONGEST
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_MARKS: Final = re.compile(r'["{}\[\]]')
_IN_STRING: Final = re.compile(r'["\\]')
#: Begin of an element in profilers' lists, and end of a list before another one: where reading can
#: resume behind a broken element.
_NEXT: Final = re.compile(
    r',\s*(?=\{\s*"(?:ph|ts|args|size|kind)"\s*:)|(?=\](?:\s*\})?\s*,\s*"\w{1,64}"\s*:\s*[\[{])'
)
#: A syntax error this close to the end of what is read so far [letters] may only mean that the text
#: goes on.
_NEAR: Final = 16


class Cut(Exception):
    """End of the text inside an element, or text that is no JSON from here on."""


class Json:
    """A text of JSON, read forward.

    Attributes
    ----------
    broken : number of elements of lists that could not be read.
    replaced : number of bytes that are not UTF-8.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.broken = self.replaced = self._in_vain = 0
        self._pieces = pieces
        self._text, self._position, self._ended = "", 0, False
        self._bytes = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._decode = json.JSONDecoder(strict=False).raw_decode

    def _more(self, at_least: int = 1) -> bool:
        """Read on, and drop what was consumed; return False at the end."""
        if self._position > _ENOUGH:
            self._text, self._position = self._text[self._position :], 0
        parts, length = [self._text], 0
        while length < at_least and not self._ended:
            piece = next(self._pieces, None)
            self._ended = piece is None
            text = self._bytes.decode(piece or b"", final=self._ended)
            if not text.isascii():
                text = self._mended(text)
            parts.append(text)
            length += len(text)
        self._text = "".join(parts)
        return length > 0

    def _mended(self, text: str) -> str:
        """Replace bytes that are not UTF-8, which the decoder returned as half a surrogate pair."""
        mended = re.sub("[\ud800-\udfff]", "\ufffd", text)
        self.replaced += (
            sum(a != b for a, b in zip(text, mended, strict=True)) if mended != text else 0
        )
        return mended

    def peek(self) -> str:
        """Return the next letter that is no space; raises `Cut` at the end."""
        if self._position < len(self._text) and (letter := self._text[self._position]) > " ":
            return letter
        while True:
            self._position = _SPACE.match(self._text, self._position).end()  # type: ignore[union-attr]
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._more():
                raise Cut

    def _take(self, letter: str) -> None:
        if self.peek() != letter:
            raise Cut
        self._position += 1

    def value(self) -> Any:
        """Return the next value, whole.  Raises `Cut` where the text ends inside it, `ValueError`
        where it is broken or too large.
        """
        self.peek()
        wanted = _ENOUGH
        while True:
            try:
                value, end = self._decode(self._text, self._position)
                # a number may continue in text that is not read yet
                if end < len(self._text) or self._ended or not self._more():
                    self._position = end
                    return value
                continue
            except json.JSONDecodeError as error:
                if error.pos < len(self._text) - _NEAR and not error.msg.startswith(
                    "Unterminated string"
                ):
                    raise
                if len(self._text) - self._position > _LONGEST:
                    raise
                if not self._more(wanted):
                    raise Cut from None
                wanted *= 2
            except RecursionError:
                raise ValueError("nested too deeply") from None

    def members(self) -> Iterator[str]:
        """Yield the keys of the object that is next; the caller reads, enters or skips each
        value.
        """
        self._take("{")
        if self.peek() == "}":
            self._position += 1
            return
        while True:
            key = self.value() if self.peek() == '"' else None
            if not isinstance(key, str):
                raise Cut
            self._take(":")
            yield key
            if not self._goes_on("}"):
                return

    def entries(self) -> Iterator[None]:
        """Yield once per element of the list that is next; the caller reads, enters or skips
        each.
        """
        self._take("[")
        if self.peek() == "]":
            self._position += 1
            return
        while True:
            yield
            if not self._goes_on("]"):
                return

    def elements(self) -> Iterator[Any]:
        """Yield the elements of the list that is next, each whole; a broken one is skipped and
        counted.
        """
        if self.peek() != "[":
            self.skip()
            return
        for _ in self.entries():
            yield from self._element()

    def _element(self) -> Iterator[Any]:
        while True:
            try:
                value = self.value()
            except ValueError as error:
                self.broken += 1
                if not self._behind_broken(
                    error.pos if isinstance(error, json.JSONDecodeError) else len(self._text)
                ):
                    raise Cut from None
                if self._text[self._position] == "]":
                    return
                continue
            except Cut:
                # an unclosed string may have consumed the rest of the text, which is still readable
                # behind the begin of the element
                if not self._behind_broken(len(self._text)):
                    raise
                self.broken += 1
                if self._text[self._position] == "]":
                    return
                continue
            try:
                after = self.peek()
            except Cut:
                yield value
                raise
            if after in ",]":
                yield value
                return
            self.broken += 1
            if not self._next_behind(self._position):
                raise Cut
            if self._text[self._position] == "]":
                return

    def _behind_broken(self, end: int) -> bool:
        """Go on behind the begin of an element read up to `end` in vain; return False where no
        other follows, or too much was read.
        """
        self._in_vain += end - self._position
        return self._in_vain <= _IN_VAIN and self._next_behind(self._position + 1)

    def _next_behind(self, start: int) -> bool:
        """Go to the next place from `start` on where an element begins; return False where there is
        none.
        """
        while True:
            match = _NEXT.search(self._text, start)
            if match:
                self._position = match.end()
                return True
            # the last letters may be the begin of a match
            self._position = max(start, len(self._text) - _NEAR * 4)
            if not self._more(_ENOUGH):
                return False
            start = self._position

    def _goes_on(self, end: str) -> bool:
        letter = self.peek()
        if letter not in (",", end):
            raise Cut
        self._position += 1
        return letter == ","

    def skip(self) -> None:
        """Skip the next value without reading it."""
        first = self.peek()
        if first not in '{["':
            self.value()
            return
        depth = 0
        while True:
            mark = _MARKS.search(self._text, self._position)
            if mark is None:
                self._position = len(self._text)
                if not self._more():
                    raise Cut
                continue
            letter, self._position = mark[0], mark.start()
            if letter == '"':
                self._skip_string()
            else:
                self._position += 1
                depth += 1 if letter in "{[" else -1
            if depth <= 0:
                return

    def _skip_string(self) -> None:
        self._position += 1
        while True:
            mark = _IN_STRING.search(self._text, self._position)
            if mark is None:
                self._position = len(self._text)
            elif mark[0] == '"':
                self._position = mark.end()
                return
            elif mark.end() < len(self._text):
                self._position = mark.end() + 1
                continue
            else:
                self._position = mark.start()
            if not self._more():
                raise Cut
