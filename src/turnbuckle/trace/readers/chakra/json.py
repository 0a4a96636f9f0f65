"""Streaming reader of PyTorch's execution traces in JSON: one object with a few facts and the list
``nodes``, which may be gigabytes.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Final

#: Most letters of one node, or one fact.
LARGEST_VALUE: Final = 64 << 20
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_MARK: Final = "\ufeff"


class Wrong(ValueError):
    """Text that is no execution trace, with the reason in words."""


class Document:
    """One JSON object: its facts, and the values of its list ``nodes`` one by one.

    Attributes
    ----------
    facts : everything beside the nodes, as read so far.
    listed : whether the list of nodes was found.
    replaced : number of letters that were no UTF-8.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._read = json.JSONDecoder().raw_decode
        self._text, self._position, self._done = "", 0, False
        self.facts: dict[str, Any] = {}
        self.listed, self.cut = False, False
        self.replaced = 0

    def __iter__(self) -> Iterator[Any]:
        """Yield the values of ``nodes``.  Raises `Wrong`."""
        if self._next() != "{":
            raise Wrong("it does not begin with an object")
        for _ in self._members("}"):
            key = self._value()
            if self.cut or self._next() == "":
                self.cut = True
                return
            if not isinstance(key, str) or self._next() != ":":
                raise Wrong(f"letter {self._position} of what was read is no key and value")
            self._position += 1
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
        """Yield at the begin of each member of the object or list that opens here, up to its `end`;
        sets `cut` where the text ends.
        """
        self._position += 1
        while not self.cut and (letter := self._next()) != end:
            if letter == ",":
                self._position += 1
            elif letter == "":
                self.cut = True
            else:
                yield
        if not self.cut:
            self._position += 1

    def _next(self) -> str:
        """Return the next letter that is no space, without taking it; an empty text at the end."""
        while True:
            self._position = _SPACE.match(self._text, self._position).end()  # type: ignore[union-attr]
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._more(1):
                return ""

    def _more(self, least: int) -> bool:
        """Read at least so many letters more, if there are any, and drop what was consumed."""
        parts = [self._text[self._position :]]
        self._position, added = 0, 0
        while added < least and not self._done:
            piece = next(self._pieces, None)
            self._done = piece is None
            new = self._decode(piece or b"", self._done)
            if "\ufffd" in new:
                self.replaced += new.count("\ufffd")
            added += len(new)
            parts.append(new)
        self._text = "".join(parts)
        if self._text.startswith(_MARK):
            self._position = 1
        return added > 0

    def _value(self) -> Any:
        """Return the value that begins here; sets `cut` where the text ends first."""
        if self._next() == "":
            self.cut = True
            return None
        while True:
            try:
                value, end = self._read(self._text, self._position)
            except RecursionError:
                raise Wrong("a value with brackets more than a thousand deep") from None
            except ValueError as error:
                unread = len(self._text) - self._position
                if unread > LARGEST_VALUE:
                    raise Wrong(
                        (
                            f"a value that cannot be read, or of more than {LARGEST_VALUE} "
                            f"letters: {error}"
                        )[:160]
                    ) from None
                if self._more(max(unread, 1)):
                    continue
                # an error close to the end means that the text is cut off; an earlier one is an
                # error of the text
                if isinstance(error, json.JSONDecodeError) and (
                    error.pos >= len(self._text) - 12 or error.msg.startswith("Unterminated")
                ):
                    self.cut = True
                    return None
                raise Wrong(str(error)[:160]) from None
            if end < len(self._text) or not self._more(1):
                self._position = end if end < len(self._text) else len(self._text)
                return value
