"""Files of measurements beside a case: JSON of a form that the question states, or refused.

A061  the file cannot be read as text
A417  not JSON, a key missing, a value that cannot be
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.foundation.table_file import read_text

#: What stands somewhere: `int`, `float` (both 0 or more) or `str`; a list of one form; a tuple for
#: a list that is as long; keys with the form of each, where a key that ends with ``?`` may be left
#: out and ``*`` is every key.
Form = type | list[Any] | tuple[Any, ...] | Mapping[str, Any]
_WORDS: Final = {int: "a whole number of 0 or more", float: "a number of 0 or more", str: "text"}
_LARGEST_BYTES: Final = 1 << 24


def read_measurements(path: Path, form: Mapping[str, Any]) -> dict[str, Any]:
    """Read a file of measurements.  Keys that the form does not name stay as they are.

    Raises
    ------
    UsageError : A061, A417.
    """
    text = read_text(
        path,
        "a file of measurements",
        largest_bytes=_LARGEST_BYTES,
        fix="give a JSON file in UTF-8",
    )
    try:
        measurements = json.loads(text)
    except (ValueError, RecursionError) as error:
        cause = (
            error.msg
            if isinstance(error, json.JSONDecodeError)
            else "a number that is too long, or lists that lie too deep"
        )
        position = (
            f":{error.lineno}:{error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        )
        raise error_of("A417.json", where=path.name + position, cause=cause) from None
    _hold(measurements, form, path.name, "the file")
    return measurements  # type: ignore[no-any-return]


def _hold(value: object, form: Form, file: str, place: str) -> None:
    """Refuse a value that does not have a form."""

    def flaw(wanted: str) -> TurnbuckleError:
        return error_of(
            "A417.missing",
            where=file,
            found=f"{clipped(place)}: {clipped(repr(value), 40)}",
            wanted=wanted,
        )

    if isinstance(form, Mapping):
        if not isinstance(value, dict):
            raise flaw("keys with values")
        for key, inner in form.items():
            name = key.removesuffix("?")
            if key == "*":
                for each in value:
                    _hold(value[each], inner, file, f"{place}, {each}")
            elif name in value:
                _hold(value[name], inner, file, f"{place}, {name}")
            elif name == key:
                raise flaw(key)
    elif isinstance(form, list | tuple):
        if not isinstance(value, list) or (isinstance(form, tuple) and len(value) != len(form)):
            raise flaw(f"a list of {len(form)}" if isinstance(form, tuple) else "a list")
        for k, each in enumerate(value):
            _hold(each, form[k] if isinstance(form, tuple) else form[0], file, f"{place}, {k + 1}")
    elif (
        isinstance(value, bool)
        or not isinstance(value, (int, float) if form is float else form)
        or not _sane(value)
    ):
        raise flaw(_WORDS[form])


def _sane(value: object) -> bool:
    """Return whether a number is 0 or more and fits into a float."""
    try:
        return not isinstance(value, int | float) or 0 <= float(value) < math.inf
    except OverflowError:
        return False
