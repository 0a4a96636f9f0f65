"""What an error tells its user to do: which fixes name an option or a command, and what one that
was printed says.
"""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path
from typing import Final, NamedTuple

from turnbuckle.foundation import errors

TESTS: Final = Path(__file__).resolve().parents[1]
#: Tables of what is tried: the command line in ``cli``, the recorder on a stand-in in ``recorder``.
TABLES: Final = {room: TESTS / room / "fixes.csv" for room in ("cli", "recorder")}
#: A fix that names an option of ours, a verb or a file to write.
_NAMING: Final = re.compile(r"(?<![\w-])--[a-z]|turnbuckle [a-z]|-o ")
_VALUE: Final = r"""(?: (?!--)(?:"[^"]*"|'[^']*'|[^\s"';(]*[^\s"';(,:.)]))?"""
#: Options in a row, each with one word behind it.
_OPTIONS: Final = re.compile(rf"(?<![\w-])--[a-z][\w-]*{_VALUE}(?: --[a-z][\w-]*{_VALUE})*")


class Row(NamedTuple):
    """A case of an error, a command line that is refused with it, and the same with the fix.

    Commands are separated by `` ; ``; ``FIX`` stands for options that the printed fix names, as it
    prints them, one after the other. A case ``computed`` is one whose fix is no text of the
    register.
    """

    name: str
    refused: str
    mended: str


def rows(room: str) -> list[Row]:
    """Return the rows of a table."""
    with TABLES[room].open(encoding="utf-8", newline="") as file:
        return [Row(**row) for row in csv.DictReader(file)]


def registers() -> dict[str, errors.Texts]:
    """Return the texts of every case of every error: ``CODE`` or ``CODE.case`` -> texts."""
    groups = sorted(Path(errors.__file__).with_name("schema").glob("errors/[A-Z]*.csv"))
    return {name: texts for group in groups for name, texts in errors.register(group.stem).items()}


def naming() -> set[str]:
    """Return the cases whose fix names an option, a verb or a file to write."""
    return {name for name, texts in registers().items() if _NAMING.search(texts.fix)}


def printed(err: str, name: str) -> str:
    """Return the fix that an error printed; assert that it is the text of this case."""
    code = name.partition(".")[0]
    assert f"error[{code}]: " in err, err
    told = re.search(r"^  fix:   (.*)$", err, re.MULTILINE)
    assert told, err
    if name.endswith(".computed"):
        return told[1]
    # fields of the text hold anything
    text = re.sub(r"\\\{\w+(?:\\?:[^}]*)?\\\}", ".*", re.escape(registers()[name].fix))
    assert re.fullmatch(text, told[1]), (registers()[name].fix, told[1])
    return told[1]


def with_fix(line: str, fix: str) -> list[str]:
    """Return a command line with what a fix names in place of ``FIX``: its first options, and each
    other value of the first of them.
    """
    if "FIX" not in shlex.split(line):
        return [line]
    first, *others = (found[0] for found in _OPTIONS.finditer(fix))
    alike = [other for other in others if " " in other and other.split()[0] == first.split()[0]]
    return [line.replace("FIX", options) for options in (first, *alike)]
