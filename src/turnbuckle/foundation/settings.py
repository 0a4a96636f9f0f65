"""What a question may set: names, units and values, read off the fields of a frozen dataclass, so
that nothing is listed twice.

The unit follows from the name of a field (``hop_seconds``, ``eager_limit_bytes``,
``card_bandwidth``) or stands in its metadata (``field(metadata={"unit": "W"})``); its type says the
rest: a `Literal` names the words, ``float`` takes a quantity, ``int`` a whole number.  Fields of
other types are no settings.

    A081  a setting that is not known, or a value that it cannot have
    U0xx  a quantity without a unit, or with the wrong one
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from inspect import cleandoc
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.foundation.schema.vocabulary import refuse_old_setting
from turnbuckle.foundation.units import EXAMPLES, MANNER, UNITS, parse

Scalar = str | float | int | bool

_SUFFIXES: Final = {
    "seconds": "s",
    "bytes": "B",
    "bandwidth": "B/s",
    "overhead": "s",
    "latency": "s",
}
_LONGEST_TEXT: Final = 1024
_ATTRIBUTE: Final = re.compile(r"([a-z_0-9, ]+) : (\S.*)")


@dataclass(frozen=True)
class Setting:
    """One name that a question may set.

    Attributes
    ----------
    unit : SI unit of its values; ``"1"`` for plain numbers, counts and words.
    kinds : which of ``int``, ``float``, ``str`` and ``bool`` its values may be.
    words : the only texts it may be, where there are such.
    needed : whether a question must set it.
    default : what holds where it does not.
    file : whether a text may be the path of a file, relative to the study.
    meaning : in words.
    """

    name: str
    unit: str
    kinds: frozenset[str]
    words: tuple[str, ...] = ()
    needed: bool = False
    default: Any = None
    file: bool = False
    meaning: str = ""

    @property
    def wanted(self) -> str:
        """Describe the possible values in words."""
        parts = [", ".join(self.words)] if self.words else []
        if self.kinds & {"int", "float"} and self.unit != "1":
            parts.append(f"a {UNITS.get(self.unit, self.unit)}, as {_EXAMPLES[self.unit]}")
        elif self.kinds & {"int", "float"}:
            parts.append("a number" if "float" in self.kinds else "a whole number")
        parts += ["true or false"] * ("bool" in self.kinds) + ["a text"] * (
            "str" in self.kinds and not self.words
        )
        return " or ".join(parts)

    def read(self, value: object) -> Scalar:
        """Return a value that a file or a command line gives.

        >>> Setting("hop_seconds", "s", frozenset({"float"})).read("2 us")
        2e-06

        Raises
        ------
        UsageError : A081.  UnitError : U0xx.
        """
        if isinstance(value, bool):
            result: Scalar | None = value if "bool" in self.kinds else None
        elif isinstance(value, str):
            result = self._text(value)
        elif isinstance(value, int | float):
            result = self._number(value)
        else:
            result = None
        if result is None:
            near = did_you_mean(str(value), self.words) if self.words else ""
            raise error_of(
                "A081.setting-value",
                found=clipped(str(value), 40),
                fix=near or self.wanted,
                name=self.name,
            )
        return result

    def _number(self, value: float) -> Scalar | None:
        if self.unit != "1" and self.kinds & {"int", "float"}:
            return self._counted(parse(f"{value}", self.unit))  # says that a unit is missing
        return self._counted(value)

    def _counted(self, value: float) -> Scalar | None:
        if not math.isfinite(value):
            return None
        if "float" in self.kinds:
            return float(value)
        return int(value) if "int" in self.kinds and value == int(value) else None

    def _text(self, text: str) -> Scalar | None:
        if len(text) > _LONGEST_TEXT or not text.isprintable():
            return None
        if text in self.words:
            return text
        numeric = bool(self.kinds & {"int", "float"})
        if numeric and self.unit != "1":
            return self._counted(parse(text, self.unit))
        if "bool" in self.kinds and text in ("true", "false"):
            return text == "true"
        if numeric:
            try:
                return self._counted(parse(text, "1") if text.endswith("%") else float(text))
            except ValueError:
                pass
        return text if "str" in self.kinds and not self.words else None


_EXAMPLES: Final = {**EXAMPLES, "B/s": "100 Gb/s", MANNER: "waits"}


@cache
def settings_of(cls: type) -> Mapping[str, Setting]:
    """Return the fields of a dataclass as settings, in their order.

    >>> settings_of(Setting)["needed"].wanted, settings_of(Setting)["name"].needed
    ('true or false', True)
    """
    hints = get_type_hints(cls)
    meanings = {
        name: words
        for each in reversed(cls.__mro__)
        for name, words in _meanings(each.__doc__ or "").items()
    }
    out = {}
    for field in fields(cls):
        kinds, words = _kinds(hints[field.name])
        if not kinds:
            continue
        unit = str(field.metadata.get("unit") or _SUFFIXES.get(field.name.rsplit("_", 1)[-1], "1"))
        needed = field.default is MISSING and field.default_factory is MISSING
        default = None if field.default is MISSING else field.default
        numeric = kinds & {"int", "float"}
        file = bool(field.metadata.get("file"))
        out[field.name] = Setting(
            field.name,
            unit if numeric else "1",
            kinds,
            words,
            needed,
            default,
            file,
            meanings.get(field.name, ""),
        )
    return out


def _meanings(text: str) -> dict[str, str]:
    """Return the text that a docstring gives each attribute: lines ``name, other : words``,
    continued where indented further.
    """
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in cleandoc(
        text
    ).splitlines():  # Python 3.13 and newer strip the indentation themselves
        match = _ATTRIBUTE.match(line)
        if match:
            names = [n.strip() for n in match[1].split(",")]
            meanings.update(dict.fromkeys(names, match[2].strip()))
        elif line.startswith(" " * 4) and names and line.strip():
            meanings.update({n: f"{meanings[n]} {line.strip()}" for n in names})
        else:
            names = []
    return {n: words.replace("`", "") for n, words in meanings.items()}


def _kinds(hint: Any) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the types that a value may have, and the words of its literals; nothing for a type
    that is no scalar.
    """
    if get_origin(hint) is Literal:
        words = get_args(hint)
        return (
            (frozenset({"str"}), words)
            if all(isinstance(w, str) for w in words)
            else (frozenset(), ())
        )
    if get_origin(hint) in (Union, types.UnionType):
        members = [_kinds(a) for a in get_args(hint) if a is not type(None)]
        return frozenset().union(*(k for k, _ in members)), tuple(
            w for _, words in members for w in words
        )
    return (
        (frozenset({hint.__name__}), ()) if hint in (int, float, str, bool) else (frozenset(), ())
    )


def unit_of(name: str, settings: Mapping[str, Setting]) -> str:
    """Return the SI unit of a column, by its setting or by the suffix of its name.

    >>> unit_of("communication_seconds", {}), unit_of("ranks", {})
    ('s', '1')
    """
    return settings[name].unit if name in settings else _SUFFIXES.get(name.rsplit("_", 1)[-1], "1")


def setting_of(name: str, settings: Mapping[str, Setting], what: str) -> Setting:
    """Return the setting called `name`.  Raises A081 with the nearest name for an unknown one, A425
    for an old one.
    """
    if name not in settings:
        refuse_old_setting(name, settings)
        raise error_of(
            "A081.setting",
            found=clipped(name, 40),
            fix=did_you_mean(name, settings) or None,
            subject=what,
            settings=", ".join(list(settings)[:24]),
        )
    return settings[name]


def spaced(
    first: float, last: float, points: int, spacing: Literal["linear", "log"]
) -> list[float]:
    """Return values from `first` to `last`, both ends exact, those between rounded to 12 digits.

    >>> spaced(1e-6, 1e-3, 4, "log")
    [1e-06, 1e-05, 0.0001, 0.001]
    """
    steps = range(1, points - 1)
    if spacing == "log":
        inside = [first * (last / first) ** (k / (points - 1)) for k in steps]
    else:
        inside = [first + (last - first) * (k / (points - 1)) for k in steps]
    return [first, *(float(f"{v:.12g}") for v in inside), last]
