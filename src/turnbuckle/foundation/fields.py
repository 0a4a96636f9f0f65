"""Keys of answers: each is declared once, with its unit and its meaning, in the `fields.csv` beside
its question.

The same rows write the JSON document and the manual's page of keys (`docs/keys.md`).  A class
describes in its docstring only attributes without a row.  Columns:

    answer   class that has the key
    key      where it stands in the document: `measured_seconds`, `curve[].penalty`, `tolerance.<share>.slack_s`
    value    attribute, property or method of the answer (or of an element of the list above it); the key's own name where empty
    unit     of the number, empty for words and counts
    meaning  in one sentence

In a key, `[]` marks a list and `<...>` keys that are data of a mapping.  A key that ends in `?` is
left out where its value is None. A value is a path (`run.measured`, `interval.0`); ` or null`
behind it turns what is empty into null. `-` stands where the key is written by the mapping above
it, and is described here alone.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from types import BuiltinMethodType, MethodType, MethodWrapperType
from typing import Any, Final

#: Of every JSON document (docs/json.md): with the same number, keys keep their name, unit and
#: meaning.
SCHEMA_VERSION: Final = 2


class Declared:
    """An answer, or a part of one, whose keys stand in the `fields.csv` of its folder."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the keys and values of its JSON document, in the order of the table."""
        return declared(self)


class Ranged:
    """A value with a 90 % range, whose two ends are one key of its document."""

    __slots__ = ()
    low: float
    high: float

    @property
    def ends(self) -> tuple[float, float]:
        """Return both ends of the range."""
        return self.low, self.high


#: Value of a key that the mapping above writes; its row only describes it.
DOCUMENTED: Final = "-"


@dataclass(frozen=True)
class Field:
    """One row of a `fields.csv`."""

    answer: str
    key: str
    value: str
    unit: str
    meaning: str


@dataclass
class _Node:
    """A key of a document, with the keys below it."""

    name: str
    path: str = ""
    below: dict[str, _Node] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return _bare(self.name)

    @property
    def many(self) -> bool:
        return self.name.endswith("[]")

    @property
    def optional(self) -> bool:
        return self.name.removesuffix("[]").endswith("?")

    @property
    def grouping(self) -> bool:
        """Return whether the key only groups others, of the same object."""
        return (
            bool(self.below)
            and not self.path
            and not self.many
            and not any(name.startswith("<") for name in self.below)
        )


def _bare(name: str) -> str:
    return name.removesuffix("[]").removesuffix("?")


def table(package: str) -> list[Field]:
    """Return the rows of the `fields.csv` of a package, a folder of the program; none where it has
    no such file.
    """
    if not (files(package) / "fields.csv").is_file():
        return []
    text = (files(package) / "fields.csv").read_text(encoding="utf-8")
    return [Field(**row) for row in csv.DictReader(text.splitlines())]


def declared(answer: object, keys: Collection[str] | None = None) -> dict[str, Any]:
    """Return an answer as the rows of its class declare it, or those of its nearest base class with
    rows; only some `keys` of it.
    """
    for kind in type(answer).__mro__:
        package = kind.__module__.rpartition(".")[0]
        if package and (root := _roots(package).get(kind.__name__)):
            some = (
                root.below
                if keys is None
                else {name: node for name, node in root.below.items() if name in keys}
            )
            return _mapping(replace(root, below=some), answer)
    raise TypeError(f"no fields.csv declares {type(answer).__name__}")


@cache
def _roots(package: str) -> dict[str, _Node]:
    roots: dict[str, _Node] = {}
    for row in table(package):
        if row.value == DOCUMENTED:
            continue
        node = roots.setdefault(row.answer, _Node(row.answer))
        for name in row.key.split("."):
            node = node.below.setdefault(_bare(name), _Node(name))
        node.path = row.value or node.key
    return roots


def _mapping(node: _Node, answer: object) -> dict[str, Any]:
    return dict(_pairs(node, answer))


def _pairs(node: _Node, answer: object) -> Iterator[tuple[str, Any]]:
    for below in node.below.values():
        if below.grouping:
            yield below.key, _mapping(below, answer)
            continue
        value = _value(answer, below.path or below.key)
        if value is not None or not below.optional:
            yield below.key, _written(below, value)


def _written(node: _Node, value: Any) -> Any:
    if value is None or not node.below:
        return plain(value)
    if node.many:
        return [_mapping(node, element) for element in value]
    names = [name for name in node.below if name.startswith("<")]
    return (
        {str(name): _written(node.below[names[0]], inside) for name, inside in value.items()}
        if names
        else _mapping(node, value)
    )


def _value(answer: Any, path: str) -> Any:
    path, _, empty = path.partition(" or ")
    for step in path.split("."):
        if answer is None:
            return None
        answer = (
            answer[int(step)]
            if step.isdigit()
            else answer[step]
            if isinstance(answer, Mapping)
            else getattr(answer, step)
        )
        if isinstance(answer, MethodType | MethodWrapperType | BuiltinMethodType):
            answer = answer()
    return None if empty and not answer else answer


def plain(value: Any) -> Any:
    """Return a value as JSON holds it: arrays, tuples and sets as lists, numbers of NumPy as
    Python's, declared parts as mappings.
    """
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    for method in ("as_dict", "to_dicts", "tolist"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"JSON has no {type(value).__name__}")


def json_text(value: Any, **form: Any) -> str:
    """Return a JSON document as text, in a form that `json.dumps` takes; infinities and NaN become
    null.
    """
    try:
        return json.dumps(value, allow_nan=False, **form)
    except (ValueError, TypeError):  # some number is not finite, or some key of NumPy's
        return json.dumps(finite(value), allow_nan=False, **form)


def finite(value: Any) -> Any:
    """Return a JSON document without infinities and NaN: both become null."""
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
