"""The verbs of the program and their options, as its own parser has them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from cyclopts import App

from turnbuckle.cli.app import app, models_app
from turnbuckle.cli.machines import machines_app


def verbs() -> Iterator[tuple[str, App]]:
    """Yield each verb of the program and of its groups, with its parser."""
    for prefix, parent in (("", app), ("model ", models_app), ("machines ", machines_app)):
        for name in parent:
            if not name.startswith("-") and parent[name].default_command is not None:
                yield prefix + name, parent[name]


@cache
def options() -> dict[str, frozenset[str]]:
    """Return verb -> its options."""
    return {
        verb: frozenset(
            name for option in one.assemble_argument_collection() for name in option.names
        )
        for verb, one in verbs()
    }


def whole_numbers() -> list[tuple[str, str]]:
    """Return each verb with each of its options that take a whole number."""
    kinds = (int, list[int], int | None, list[int] | None)
    return [
        (verb, option.names[0])
        for verb, one in verbs()
        for option in one.assemble_argument_collection()
        if option.hint in kinds and option.names
    ]
