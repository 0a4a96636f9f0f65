"""Execution traces as JSON, node by node: PyTorch writes one object with a few facts and the list ``nodes``, which may be gigabytes."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Final

#: Letters that one node, or one fact, may hold.
LARGEST_VALUE: Final = 64 << 20
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_MARK: Final = "\ufeff"


class Wrong(ValueError):
    """The text is no execution trace: what is wrong, in words."""


class Document:
    """One JSON object: its facts, and the values of its list ``nodes`` as they come.

    Attributes
    ----------
    facts : everything beside the nodes, as read so far.
    listed : whether the list of nodes was met.
    replaced : letters that were no UTF-8.
    cut : whether the text ends before the object does.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._read = json.JSONDecoder().raw_decode
        self._held, self._at, self._done = "", 0, False
        self.facts: dict[str, Any] = {}
        self.listed, self.cut = False, False
        self.replaced = 0

    def __iter__(self) -> Iterator[Any]:
        """Values of ``nodes``.  Raises `Wrong`."""
        if self._next() != "{":
            raise Wrong("it does not begin with an object")
        for _ in self._members("}"):
            key = self._value()
            if self.cut or self._next() == "":
                self.cut = True
                return
            if not isinstance(key, str) or self._next() != ":":
                raise Wrong(f"letter {self._at} of what was read is no key and value")
            self._at += 1
            if key == "nodes" and self._next() == "[":
                self.listed = True
                yield from self._nodes()
            else:
                self.facts[key[:64]] = self._value()

    def _nodes(self) -> Iterator[Any]:
        for _ in self._members("]"):
            value = self._value()
            if not self.cut:
                yield value

    def _members(self, end: str) -> Iterator[None]:
        """A turn where each member of the object or list that opens here begins, up to its `end`; sets `cut` where the text ends first."""
        self._at += 1
        while not self.cut and (letter := self._next()) != end:
            if letter == ",":
                self._at += 1
            elif letter == "":
                self.cut = True
            else:
                yield
        if not self.cut:
            self._at += 1

    def _next(self) -> str:
        """The next letter that is no space, without taking it; empty at the end."""
        while True:
            self._at = _SPACE.match(self._held, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._held):
                return self._held[self._at]
            if not self._more(1):
                return ""

    def _more(self, least: int) -> bool:
        """Take at least so many letters more, if there are any; what was read is let go."""
        parts = [self._held[self._at :]]
        self._at, got = 0, 0
        while got < least and not self._done:
            piece = next(self._pieces, None)
            self._done = piece is None
            new = self._decode(piece or b"", self._done)
            if "\ufffd" in new:
                self.replaced += new.count("\ufffd")
            got += len(new)
            parts.append(new)
        self._held = "".join(parts)
        if self._held.startswith(_MARK):
            self._at = 1
        return got > 0

    def _value(self) -> Any:
        """The value that begins here; sets `cut` where the text ends first."""
        if self._next() == "":
            self.cut = True
            return None
        while True:
            try:
                value, end = self._read(self._held, self._at)
            except RecursionError:
                raise Wrong("a value with brackets more than a thousand deep") from None
            except ValueError as error:
                held = len(self._held) - self._at
                if held > LARGEST_VALUE:
                    raise Wrong(f"a value that cannot be read, or of more than {LARGEST_VALUE} letters: {error}"[:160]) from None
                if self._more(max(held, 1)):
                    continue
                # at its end a text is cut off where the decoder stopped; a fault earlier on is one
                if isinstance(error, json.JSONDecodeError) and (error.pos >= len(self._held) - 12 or error.msg.startswith("Unterminated")):
                    self.cut = True
                    return None
                raise Wrong(str(error)[:160]) from None
            if end < len(self._held) or not self._more(1):
                self._at = end if end < len(self._held) else len(self._held)
                return value
