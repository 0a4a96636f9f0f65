"""Where each key of a TOML text stands, for error messages: tomllib gives values but no positions.

The scanner runs only after tomllib has accepted the text, so it may trust the syntax and only has to find its way.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field

Path = tuple[str, ...]

_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'''', re.DOTALL)
_PLAIN = re.compile(r"[^,\]}\n#]*")


@dataclass(slots=True)
class Positions:
    """Line and column, both from 1, of every key and of every value, by the path of keys that leads there."""

    keys: dict[Path, tuple[int, int]] = field(default_factory=dict)
    values: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def key(self, path: Path) -> tuple[int, int]:
        """Position of the key itself, or of the nearest table around it."""
        while path and path not in self.keys:
            path = path[:-1]
        return self.keys.get(path, (1, 1))

    def value(self, path: Path) -> tuple[int, int]:
        """Position of the value, or of its key where the value is a table written with a header."""
        return self.values.get(path) or self.key(path)


def locate(text: str) -> Positions:
    """Scan a TOML text that tomllib accepts."""
    return _Scanner(text).run()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.found = text, 0, Positions()
        self.line, self.counted = 1, 0

    def run(self) -> Positions:
        table: Path = ()
        while self._skip_blank() < len(self.text):
            if self.text[self.at] == "[":
                while self.text[self.at] == "[" or self.text[self.at] in " \t":
                    self.at += 1
                table = self._key(())
                self.at = self.text.find("\n", self.at)
                if self.at < 0:
                    break
            else:
                self._pair(table)
        return self.found

    def _skip_blank(self) -> int:
        match = _BLANK.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at

    def _here(self) -> tuple[int, int]:
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        return self.line, self.at - self.text.rfind("\n", 0, self.at)

    def _key(self, table: Path) -> Path:
        """A key with its dots; each part's place is noted the first time it occurs."""
        path = table
        while match := _KEY.match(self.text, self.at):
            part = match[0]
            path = (*path, _unquoted(part) if part[0] in "\"'" else part)
            self.found.keys.setdefault(path, self._here())
            self.at = match.end()
            while self.text[self.at] in " \t":
                self.at += 1
            if self.text[self.at] != ".":
                break
            self.at += 1
            while self.text[self.at] in " \t":
                self.at += 1
        return path

    def _pair(self, table: Path) -> None:
        path = self._key(table)
        self.at = self.text.index("=", self.at) + 1
        self._skip_blank()
        self.found.values[path] = self._here()
        self._value(path)

    def _value(self, path: Path) -> None:
        start = self.text[self.at]
        if start in "\"'":
            match = _STRING.match(self.text, self.at)
            self.at = match.end() if match else len(self.text)
        elif start == "{":
            self.at += 1
            self._items(path, "}")
        elif start == "[":
            self.at += 1
            self._items(path, "]")
        else:
            match = _PLAIN.match(self.text, self.at)
            self.at = match.end() if match else len(self.text)

    def _items(self, path: Path, close: str) -> None:
        index = 0
        while self._skip_blank() < len(self.text) and self.text[self.at] != close:
            if self.text[self.at] == ",":
                self.at += 1
            elif close == "}":
                self._pair(path)
            else:
                self.found.values[(*path, str(index))] = self._here()
                self._value((*path, str(index)))
                index += 1
        self.at += 1


def _unquoted(part: str) -> str:
    return next(iter(tomllib.loads(f"{part} = 0")))
