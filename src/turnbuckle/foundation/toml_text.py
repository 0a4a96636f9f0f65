"""TOML of a user: its content and the position of every key, or what is wrong and where."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from turnbuckle.foundation.errors import TurnbuckleError, clipped, did_you_mean, error_of

Made = TypeVar("Made")
Path = tuple[str, ...]
Place = tuple[int, int]


class NotToml(ValueError):
    """The text is no TOML that can be read: why, and where (``:line:column`` to follow a file's
    name; empty where no place is to blame).
    """

    def __init__(self, why: str, place: Place | None = None) -> None:
        super().__init__(why)
        self.why, self.at = why, ":{}:{}".format(*place) if place else ""


@dataclass(frozen=True, slots=True)
class Positions:
    """Line and column, both from 1, of every key and of every value, by the path of keys that leads
    there.
    """

    keys: dict[Path, Place]
    values: dict[Path, Place]

    def key(self, path: Path) -> Place:
        """Return the position of the key itself, or of the nearest table around it."""
        while path and path not in self.keys:
            path = path[:-1]
        return self.keys.get(path, (1, 1))

    def value(self, path: Path) -> Place:
        """Return the position of the value, or of its key where the value is a table written with a
        header.
        """
        return self.values.get(path) or self.key(path)


def parsed(text: str) -> tuple[dict[str, Any], Positions]:
    """Return the content of the text, and the position of each key.

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


class TomlReading:
    """A TOML file being read: its content, the position of each value, and errors that name both.

    Attributes
    ----------
    code : of its errors; the cases `toml` (with no fields) and `unknown` (with `keys`) belong to
        every kind of file.
    file : its name in errors.
    """

    code: ClassVar[str]

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        try:
            self.document, self.positions = parsed(text)
        except NotToml as flaw:
            name = f"{self.code}.toml"
            raise error_of(name, where=file + flaw.at, cause=flaw.why) from None

    def _keys(self, path: Path, table: Iterable[str], keys: Collection[str], **words: str) -> None:
        """Refuse a table with a key that is not among `keys`."""
        for key in table:
            if key not in keys:
                name, near = f"{self.code}.unknown", did_you_mean(key, keys)
                raise self._flaw(
                    name, (*path, key), found=key, fix=near or None, keys=", ".join(keys), **words
                )

    def _located(self, path: Path, make: Callable[[], Made]) -> Made:
        """Call `make`; add file, line and column to an error that names no place."""
        try:
            return make()
        except TurnbuckleError as error:
            if not error.where or error.where.startswith("--"):  # no option names it here
                error.where = "{}:{}:{}".format(self.file, *self.positions.value(path))
            raise

    def _flaw(
        self, name: str, path: Path, /, *, found: str = "", fix: str | None = None, **words: Any
    ) -> TurnbuckleError:
        """Build the error `name` with the position of a key, or with the file alone for no key."""
        where = "{}:{}:{}".format(self.file, *self.positions.key(path)) if path else self.file
        return error_of(name, where=where, found=clipped(found, 80), fix=fix, **words)
