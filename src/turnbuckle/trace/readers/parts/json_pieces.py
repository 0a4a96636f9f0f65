"""JSON of any size, element by element: what is not asked for is passed over, and no more than one element is held.

The text is read forward only.  `Json.members` and `Json.elements` enter an object or a list; what they give must be read
(`value`), entered, or passed over (`skip`) before the next.  Where the text ends too early `Cut` is raised; what was read
until then stands.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Final

_ENOUGH: Final = 1 << 16
#: Longest element that is believed [letters].
_LONGEST: Final = 8 << 20
#: Letters that may be read in vain, over all elements that are broken: what one that does not close has eaten is read again behind it.
_IN_VAIN: Final = 4 * _LONGEST
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_MARKS: Final = re.compile(r'["{}\[\]]')
_IN_STRING: Final = re.compile(r'["\\]')
#: How the elements of profilers' lists begin, and how a list ends before another, for going on behind a broken element.
_NEXT: Final = re.compile(r',\s*(?=\{\s*"(?:ph|ts|args|size|kind)"\s*:)|(?=\](?:\s*\})?\s*,\s*"\w{1,64}"\s*:\s*[\[{])')
#: A syntax error this close to what is read so far [letters] may be the text's end only.
_NEAR: Final = 16


class Cut(Exception):
    """The text ends inside an element, or is no JSON from here on."""


class Json:
    """A text of JSON, read forward.

    Attributes
    ----------
    broken : elements of lists that could not be read.
    replaced : bytes that are not UTF-8.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.broken = self.replaced = self._in_vain = 0
        self._pieces = pieces
        self._text, self._at, self._ended = "", 0, False
        self._bytes = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._decode = json.JSONDecoder(strict=False).raw_decode

    def _more(self, at_least: int = 1) -> bool:
        """Read on; False at the end.  What lies behind is let go."""
        if self._at > _ENOUGH:
            self._text, self._at = self._text[self._at :], 0
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
        """Bytes that are not UTF-8 come as half a surrogate pair."""
        mended = re.sub("[\ud800-\udfff]", "\ufffd", text)
        self.replaced += sum(a != b for a, b in zip(text, mended, strict=True)) if mended != text else 0
        return mended

    def peek(self) -> str:
        """The next letter that is no space; raises `Cut` at the end."""
        if self._at < len(self._text) and (letter := self._text[self._at]) > " ":
            return letter
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                raise Cut

    def _take(self, letter: str) -> None:
        if self.peek() != letter:
            raise Cut
        self._at += 1

    def value(self) -> Any:
        """The next value, whole.  Raises `Cut` where the text ends inside it, `ValueError` where it is broken or too large."""
        self.peek()
        wanted = _ENOUGH
        while True:
            try:
                value, end = self._decode(self._text, self._at)
                # a number may go on in what is not read yet
                if end < len(self._text) or self._ended or not self._more():
                    self._at = end
                    return value
                continue
            except json.JSONDecodeError as error:
                if error.pos < len(self._text) - _NEAR and not error.msg.startswith("Unterminated string"):
                    raise
                if len(self._text) - self._at > _LONGEST:
                    raise
                if not self._more(wanted):
                    raise Cut from None
                wanted *= 2
            except RecursionError:
                raise ValueError("nested too deeply") from None

    def members(self) -> Iterator[str]:
        """Keys of the object that is next; the caller reads, enters or passes over each value."""
        self._take("{")
        if self.peek() == "}":
            self._at += 1
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
        """The elements of the list that is next; the caller reads, enters or passes over each."""
        self._take("[")
        if self.peek() == "]":
            self._at += 1
            return
        while True:
            yield
            if not self._goes_on("]"):
                return

    def elements(self) -> Iterator[Any]:
        """Elements of the list that is next, each whole; one that is broken is passed over and counted."""
        if self.peek() != "[":
            self.skip()
            return
        for _ in self.entries():
            yield from self._element()

    def _element(self) -> Iterator[Any]:
        while True:
            try:
                found = self.value()
            except ValueError as error:
                self.broken += 1
                if not self._behind_broken(error.pos if isinstance(error, json.JSONDecodeError) else len(self._text)):
                    raise Cut from None
                if self._text[self._at] == "]":
                    return
                continue
            except Cut:
                # a string that is not closed where it should be may have eaten the rest
                if not self._behind_broken(len(self._text)):
                    raise
                self.broken += 1
                if self._text[self._at] == "]":
                    return
                continue
            try:
                after = self.peek()
            except Cut:
                yield found
                raise
            if after in ",]":
                yield found
                return
            self.broken += 1
            if not self._next_behind(self._at):
                raise Cut
            if self._text[self._at] == "]":
                return

    def _behind_broken(self, end: int) -> bool:
        """Go on behind the begin of an element that was read up to `end` in vain; False where there is no other, or too much was read."""
        self._in_vain += end - self._at
        return self._in_vain <= _IN_VAIN and self._next_behind(self._at + 1)

    def _next_behind(self, start: int) -> bool:
        """Go to the next place from `start` on where an element begins; False where there is none."""
        while True:
            found = _NEXT.search(self._text, start)
            if found:
                self._at = found.end()
                return True
            # keep what may be the begin of one
            self._at = max(start, len(self._text) - _NEAR * 4)
            if not self._more(_ENOUGH):
                return False
            start = self._at

    def _goes_on(self, end: str) -> bool:
        letter = self.peek()
        if letter not in (",", end):
            raise Cut
        self._at += 1
        return letter == ","

    def skip(self) -> None:
        """Pass over the next value without reading it."""
        first = self.peek()
        if first not in '{["':
            self.value()
            return
        depth = 0
        while True:
            mark = _MARKS.search(self._text, self._at)
            if mark is None:
                self._at = len(self._text)
                if not self._more():
                    raise Cut
                continue
            letter, self._at = mark[0], mark.start()
            if letter == '"':
                self._skip_string()
            else:
                self._at += 1
                depth += 1 if letter in "{[" else -1
            if depth <= 0:
                return

    def _skip_string(self) -> None:
        self._at += 1
        while True:
            mark = _IN_STRING.search(self._text, self._at)
            if mark is None:
                self._at = len(self._text)
            elif mark[0] == '"':
                self._at = mark.end()
                return
            elif mark.end() < len(self._text):
                self._at = mark.end() + 1
                continue
            else:
                self._at = mark.start()
            if not self._more():
                raise Cut
