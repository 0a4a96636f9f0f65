"""What can go wrong, said so that the user can mend it.

    TurnbuckleError                 exit
    +-- ProfileError      P0xx        2    the recording cannot be read
    +-- MachineError      M0xx        2    a machine file is wrong (file:line:column)
    +-- UnitError         U0xx        2    a quantity without a unit, or with the wrong one
    +-- NativeError       N0xx        2    the recorder or a measuring program cannot be built, started or read
    +-- UsageError        A0xx        2    the question is not well put
    +-- UsageError        A4xx        2    the question is not well put, further codes
    +-- UsageError        A5xx        2    the question is not well put, of runs for other programs
    +-- CannotAnswer      A1xx        3    the input is fine, but does not hold the answer
    +-- CannotAnswer      A2xx        3    the same, further codes
    +-- GateFailed        A2xx        1    a --fail-if condition came true: A201 and A202
    +-- ReportError       R0xx        2    the report cannot be written
    +-- LimitError        L0xx        2    the system allows too few files, too little memory or too few threads
    +-- InternalError     I0xx        4    a defect of Turnbuckle itself

Every error has a code, what happened, where, what was found, the likely cause and the fix.  Flaws
that do not stop the work are findings (`turnbuckle.foundation.findings`), not errors.

The texts are data (``schema/errors``, a file for each class), so the manual and the checks read the
same words as the program. Where a code has several texts, each is a case of it with a word of its
own: ``"P002.directory"``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple


class TurnbuckleError(Exception):
    """Base of all errors a user can meet.

    Parameters
    ----------
    code : stable identifier, for example ``"P004"``.
    what : one line, no full stop.
    where : file, ``file:line:column`` or the name of the option.
    found, cause, fix : one line each, left out when empty.
    """

    exit_code: ClassVar[int] = 4

    def __init__(
        self,
        code: str,
        what: str,
        *,
        where: str = "",
        found: str = "",
        cause: str = "",
        fix: str = "",
    ) -> None:
        self.code, self.what, self.where = code, what, where
        self.found, self.cause, self.fix = found, cause, fix
        super().__init__(f"{code}: {what}")

    def lines(self) -> list[str]:
        """Return the message as the command line prints it, without colour."""
        out = [f"error[{self.code}]: {self.what}"]
        if self.where:
            out.append(f"  --> {self.where}")
        out += [
            f"  {k + ':':<7}{v}"
            for k, v in (("found", self.found), ("cause", self.cause), ("fix", self.fix))
            if v
        ]
        return out


class ProfileError(TurnbuckleError):
    """The recording is missing, damaged, locked or not one that Turnbuckle reads."""

    exit_code = 2


class MachineError(TurnbuckleError):
    """A machine is unknown, or its file does not hold."""

    exit_code = 2


class UnitError(TurnbuckleError):
    """A quantity has no unit, an unknown unit or one of another dimension."""

    exit_code = 2


class UsageError(TurnbuckleError):
    """Options that do not exist or contradict each other.

    Attributes
    ----------
    waiting : of A071: processes that wait, and the operation at which each does.
    """

    exit_code = 2
    waiting: tuple[tuple[int, int], ...] = ()


class NativeError(TurnbuckleError):
    """What runs on the GPU machine, the recorder or a measuring program, cannot be built, started
    or read back.
    """

    exit_code = 2


class CannotAnswer(TurnbuckleError):
    """The input is readable but does not hold what the question needs."""

    exit_code = 3


class GateFailed(TurnbuckleError):
    """A condition given with ``--fail-if`` came true."""

    exit_code = 1


class ReportError(TurnbuckleError):
    """The report or table cannot be written."""

    exit_code = 2


class LimitError(TurnbuckleError):
    """The system allows this process too few open files, too little memory or too few threads."""

    exit_code = 2


class InternalError(TurnbuckleError):
    """A defect of Turnbuckle; the message says how to report it."""

    exit_code = 4


#: Begin of a code -> its class.
_CLASSES: Final[dict[str, type[TurnbuckleError]]] = {
    "P0": ProfileError,
    "M0": MachineError,
    "U0": UnitError,
    "N0": NativeError,
    "A0": UsageError,
    "A4": UsageError,
    "A5": UsageError,
    "A1": CannotAnswer,
    "A2": CannotAnswer,
    "A201": GateFailed,
    "A202": GateFailed,
    "R0": ReportError,
    "L0": LimitError,
    "I0": InternalError,
}


class Texts(NamedTuple):
    """What one case of a code says: what happened, the likely cause, the fix; the last two may be
    empty.
    """

    what: str
    cause: str
    fix: str


@cache
def register(name: str) -> dict[str, Texts]:
    """Return the texts of a class of errors, by its name: ``CODE`` or ``CODE.case`` -> texts with
    named fields for `str.format`.
    """
    # not by `importlib.resources`: it brings `tempfile` and the compressors of archives, which
    # `--help` has no use for
    text = (Path(__file__).with_name("schema") / "errors" / f"{name}.csv").read_text(
        encoding="utf-8"
    )
    rows = csv.DictReader(text.splitlines())
    return {
        ".".join(filter(None, (r["code"], r["case"]))): Texts(r["what"], r["cause"], r["fix"])
        for r in rows
    }


def texts_of(name: str, /, **words: Any) -> Texts:
    """Return the texts of the error `name`, filled in.  Raises `KeyError` for a name or a field
    that is not there.
    """
    return Texts(*(text.format_map(words) for text in register(_class_of(name).__name__)[name]))


def _class_of(name: str) -> type[TurnbuckleError]:
    """Return the class of a code, by the code itself or by its first two characters."""
    return _CLASSES.get(name.partition(".")[0]) or _CLASSES[name[:2]]


def error_of(
    name: str,
    /,
    *,
    where: str = "",
    found: str = "",
    cause: str | None = None,
    fix: str | None = None,
    **words: Any,
) -> TurnbuckleError:
    """Build the error `name`: of the class of its code, with the texts of ``schema/errors``.

    Parameters
    ----------
    name : ``CODE``, or ``CODE.case`` where the code has several texts.
    where, found : as `TurnbuckleError` has them.
    cause, fix : instead of those of the table, where they are computed.
    words : what is filled into the texts, by the names of their fields.
    """
    klass, filled = _class_of(name), texts_of(name, **words)
    return klass(
        name.partition(".")[0],
        filled.what,
        where=where,
        found=found,
        cause=filled.cause if cause is None else cause,
        fix=filled.fix if fix is None else fix,
    )


#: Module by which each optional extra is recognised.
EXTRAS: Final = {
    "scipy": "scipy",
    "mcp": "mcp",
    "sheet": "xlsxwriter",
    "otf2": "otf2",
    "pandas": "pandas",
}


def require(extra: str) -> None:
    """Refuse, before any work, a question that needs an optional extra which is not installed.
    Raises `UsageError` A450.
    """
    from importlib.util import find_spec  # of use for few questions

    if find_spec(EXTRAS[extra]) is None:
        raise error_of("A450", found=f"no module named {EXTRAS[extra]}", extra=extra)


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Import packages of an optional extra inside this context.  Raises `UsageError` A450 where the
    extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise error_of("A450", found=str(error), extra=extra) from error


def unwritable(name: str, place: Path, why: Exception, /, **words: Any) -> TurnbuckleError:
    """Build the error for a file or folder that cannot be written, with the reason of an `OSError`,
    or the text of any other error.
    """
    reason = (why.strerror or type(why).__name__) if isinstance(why, OSError) else str(why)
    return error_of(name, where=clipped(place.name, 120), found=reason, **words)


def clipped(text: str, most: int = 60) -> str:
    """Return a foreign text as one printable line of at most `most` letters, for a message.

    >>> clipped("a\\tb" + "c" * 9, 8)
    'a?bcc...'
    """
    safe = "".join(c if c.isprintable() else "?" for c in text[: most + 1])
    return safe if len(text) <= most else safe[: most - 3] + "..."


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return `'did you mean X?'` for the nearest of the known words, or an empty string."""
    near = get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else ""
