"""One vocabulary for all verbs: words that have another name now, and options that name one thing.

Words are data (``schema/renamed.csv``): the refusals, the manual and the tests read the same rows.
An old word is refused with the new one named, never taken for it: some words have come to mean
something else.

    A425  a word that has another name now
    A426  several are named where one is meant
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cache

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.foundation.schema import table_rows


@dataclass(frozen=True)
class Renamed:
    """One word of one verb that has another name now.

    Attributes
    ----------
    verb : as on the command line.
    old, new : an option, an option with a value, or a setting of a sweep.
    meaning : what the words mean in all verbs.
    """

    verb: str
    old: str
    new: str
    meaning: str


@cache
def renamed() -> tuple[Renamed, ...]:
    """Return every renamed word."""
    return tuple(Renamed(**row) for row in table_rows("foundation/schema/renamed.csv"))


def refuse_old_options(words: Sequence[str]) -> None:
    """Raise A425 for an option with its old name on a command line."""
    options = [
        part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])
    ]
    for row in renamed():
        verb, old = row.verb.split(), row.old.split()
        spans = (options[k : k + len(old)] for k in range(len(verb), len(options)))
        if old[0].startswith("--") and options[: len(verb)] == verb and old in spans:
            raise _refused(row)


def refuse_old_setting(name: str, settings: Container[str]) -> None:
    """Raise A425 where a sweep has a setting by its old name, and one of these settings is the new
    one.
    """
    for row in renamed():
        if row.verb == "sweep" and row.old == name and row.new in settings:
            raise _refused(row)


def _refused(row: Renamed) -> TurnbuckleError:
    cause, fix = row.meaning.replace("`", ""), f"write {row.new} in place of {row.old}"
    return error_of("A425", cause=cause, fix=fix, old=row.old, verb=row.verb, new=row.new)


def refuse_several(text: str, thing: str, takes: str = "this takes") -> None:
    """Raise A426 where a text with commas names several things of a kind and one is meant.

    >>> refuse_several("gh200", "machine")
    """
    names = [name for word in text.split(",") if (name := word.strip())]
    if len(names) > 1:
        raise error_of(
            "A426",
            found=clipped(", ".join(names)),
            takes=takes,
            thing=thing,
            name=clipped(names[0]),
        )
