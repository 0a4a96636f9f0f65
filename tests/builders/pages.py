"""A report taken apart: tags, attributes and texts, as an HTML parser sees them."""

from __future__ import annotations

import base64
import gzip
import json
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "link", "wbr", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Every tag with its attributes, the text outside scripts and style, and the scripts.

    Attributes
    ----------
    tags : (name, attributes), in order.
    unclosed : tags that were opened and not closed in order.
    scripts : (type, content).
    """

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.unclosed: list[str] = []
        self.scripts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self._text: list[str] = []
        self.feed(text)
        self.close()
        self.unclosed += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {k: v or "" for k, v in attrs}))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs).get("type") or "", ""))
        if tag not in ("wbr", "span"):
            self._text.append("\n")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {k: v or "" for k, v in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()
        else:
            self.unclosed.append("/" + tag)
        if tag not in ("wbr", "span"):
            self._text.append("\n")

    def handle_data(self, data: str) -> None:
        where = self._open[-1] if self._open else ""
        if where == "script":
            kind, before = self.scripts[-1]
            self.scripts[-1] = (kind, before + data)
        elif where != "style":
            self._text.append(data)

    @property
    def text(self) -> str:
        """All text, one line an element; what only marks a piece of text does not break it."""
        return "".join(self._text)

    def with_id(self, name: str) -> list[str]:
        """Tags that carry an id."""
        return [tag for tag, a in self.tags if a.get("id") == name]

    @property
    def figure_data(self) -> dict[str, Any]:
        """Return the numbers and the specification of each figure, as the page's script unpacks
        them.
        """
        packed = base64.b64decode(json.loads(self.scripts[0][1]))
        found: dict[str, Any] = json.loads(gzip.decompress(packed))
        return found
