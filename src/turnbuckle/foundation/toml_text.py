"""TOML that somebody wrote: what it says with the place of every key, or what is wrong and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Path = tuple[str, ...]
Place = tuple[int, int]


class NotToml(ValueError):
    """The text is no TOML that can be read: why, and where (``:line:column`` to follow a file's name; empty where no place is to blame)."""

    def __init__(self, why: str, place: Place | None = None) -> None:
        super().__init__(why)
        self.why, self.at = why, ":{}:{}".format(*place) if place else ""


@dataclass(frozen=True, slots=True)
class Positions:
    """Line and column, both from 1, of every key and of every value, by the path of keys that leads there."""

    keys: dict[Path, Place]
    values: dict[Path, Place]

    def key(self, path: Path) -> Place:
        """Position of the key itself, or of the nearest table around it."""
        while path and path not in self.keys:
            path = path[:-1]
        return self.keys.get(path, (1, 1))

    def value(self, path: Path) -> Place:
        """Position of the value, or of its key where the value is a table written with a header."""
        return self.values.get(path) or self.key(path)


def parsed(text: str) -> tuple[dict[str, Any], Positions]:
    """Return what the text says, and where each key stands.

    Raises
    ------
    NotToml : the text is nested too deeply, or is no TOML.

    >>> parsed("[a]\\nb = 1")[0]
    {'a': {'b': 1}}
    """
    from turnbuckle._native import parse_toml

    try:
        document, keys, values = parse_toml(text.replace("\r\n", "\n"))
    except ValueError as error:
        raise NotToml(*error.args) from None
    return document, Positions(keys, values)
