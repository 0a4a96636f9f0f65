"""A kind of question that a sweep asks: a dataclass of settings, a function that answers one point,
and the recording it is asked of.

A kind of your own is a `Kind` with a frozen dataclass and a function, both at the top of a module,
so that other processes find them; `turnbuckle.questions.sweep.kinds` holds those that ship.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeVar

from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.settings import Scalar, Setting, setting_of, settings_of
from turnbuckle.machine import Machine

Made = TypeVar("Made")
#: What a setting may be; a machine made in Python stands for its name.
Value = Scalar | Machine
#: Of a point, by name.
Results = Mapping[str, Any]
#: Things made of one recording that a worker keeps.
_KEPT: Final = 6
_FILES: Final = (
    ".toml",
    ".xml",
    ".csv",
    ".txt",
    ".gz",
    ".sqlite",
    ".nvvp",
    ".json",
    ".db",
    ".otf2",
)


class Held:
    """The recording that a worker holds, with the results computed from it.

    Attributes
    ----------
    reading_seconds : what reading it took [s].
    pace : points answered in a second, of those answered last; 0 before the first.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reading_seconds = 0.0
        self.pace = 0.0
        self._profiles: dict[str, Any] = {}
        self._made: dict[object, Any] = {}

    def profile(self, part: str = "whole") -> Any:
        """Return a part of the recording as a profile, which is read on first use."""
        if part not in self._profiles:
            self._profiles = {part: _caught(lambda: self._read(part))}
        return _given(self._profiles[part])

    def _read(self, part: str) -> Any:
        from turnbuckle.profile.profile import build
        from turnbuckle.projection.run import part_of
        from turnbuckle.trace.read import read

        return self.timed(lambda: build(part_of(read(self.path), part)))

    def timed(self, read: Callable[[], Made]) -> Made:
        """Return what `read` reads, and count the time as reading."""
        began = time.perf_counter()
        try:
            return read()
        finally:
            self.reading_seconds += time.perf_counter() - began

    def seen(self, source: str | Machine = "", part: str = "auto", minus: str = "") -> Any:
        """Return the part of the recording that questions are about.

        Parameters
        ----------
        source : the machine it ran on; empty recognises it.
        part : as ``--part`` names it.
        minus : recording of the same program on one node, as `Run.minus` takes it; empty for none.
        """
        return self.once(("seen", source, part, minus), lambda: self._seen(source, part, minus))

    def _seen(self, source: str | Machine, part: str, minus: str) -> Any:
        from turnbuckle.projection.run import Run

        def run(path: Path) -> Run:
            return self.timed(lambda: Run.read(path, source=source or None, part=part))

        return run(self.path).minus(run(Path(minus))) if minus else run(self.path).judged

    def once(self, name: object, make: Callable[[], Made]) -> Made:
        """Return the result of `make`, which is called once for this recording.

        A refusal is kept as well. Only the results asked for last are kept.
        """
        made = self._made.pop(name) if name in self._made else _caught(make)
        self._made[name] = made
        if len(self._made) > _KEPT:
            del self._made[next(iter(self._made))]
        value: Made = _given(made)
        return value


def _caught(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except TurnbuckleError as error:
        return error


def _given(made: Any) -> Any:
    if isinstance(made, TurnbuckleError):
        raise made
    return made


@cache
def _version() -> str:
    """Return the version of Turnbuckle.

    It is cached: looking it up reads a file, and every point asks for it.
    """
    return version("turnbuckle")


@dataclass(frozen=True)
class Best:
    """The result by which points of a kind are compared.

    Attributes
    ----------
    result : name of the result.
    words : the best point in a sentence.
    quantity, meaning : the result in words, on the axis of a figure and below it; an empty meaning
        names the model.
    most : whether the largest is best, not the smallest.
    than : what a point by itself is compared with: the result of this name, or 0 if empty.
    answers : of a point by itself: less than that, as much, more, and where it has no such result.
    """

    result: str = "seconds"
    words: str = "shortest run"
    quantity: str = "run time"
    meaning: str = ""
    most: bool = False
    than: str = "measured_seconds"
    answers: tuple[str, str, str, str] = (
        "shorter than recorded",
        "as recorded",
        "longer than recorded",
        "no run time",
    )

    def cost(self, row: Mapping[str, Any]) -> float:
        """Return what the best point has least of; infinite for one without the result."""
        value = row.get(self.result)
        return (
            math.inf
            if not isinstance(value, int | float)
            else -float(value)
            if self.most
            else float(value)
        )

    def answer(self, row: Mapping[str, Any]) -> str:
        """Return how a point by itself compares, in words."""
        value = row.get(self.result)
        if not isinstance(value, int | float):
            return self.answers[3]
        change = float(value) - (float(row.get(self.than) or value) if self.than else 0.0)
        return self.answers[2] if change > 0 else self.answers[0] if change < 0 else self.answers[1]


SHORTEST: Final = Best()


@dataclass(frozen=True)
class Kind:
    """One kind of question.

    Attributes
    ----------
    name : as in a study file.
    settings : frozen dataclass whose fields are the settings; its own checks may refuse values.
    evaluate : (recording at hand, settings) -> results by name: numbers, texts, truth values or
        None.
    together : (recording at hand, list of settings) -> for each the results that `evaluate`
        returns, or its refusal, where points share work; None where they do not.
    files : files that hold what is asked about, by its path; None where they follow from the format
        of a recording.
    best : what points are compared by.
    penalty : which of the two answers of a target its column `penalty` is of, in words; empty
        without such a column.
    more : settings beyond the fields: they reach the field `others` as pairs of name and value.
    inputs : what stands in a point's key for settings that name files: by setting, what the file
        holds and not where it is.
    release : of what answers, Turnbuckle's own where empty: answers of another release are not used
        again.
    """

    name: str
    settings: type
    evaluate: Callable[[Held, Any], Results]
    more: Callable[[], Mapping[str, Setting]] = dict
    inputs: Callable[[Any], Mapping[str, Any]] = lambda _: {}
    release: str = ""
    together: Callable[[Held, Sequence[Any]], Sequence[Results | TurnbuckleError]] | None = None
    files: Callable[[Path], Sequence[Path]] | None = None
    best: Best = SHORTEST
    penalty: str = ""

    @property
    def legal(self) -> dict[str, Setting]:
        """Return every setting by name."""
        return {**settings_of(self.settings), **self.more()}

    @property
    def released(self) -> str:
        """Return the release that answers."""
        return self.release or _version()

    def made(self, values: Mapping[str, Value], folder: Path) -> Any:
        """Return the settings of one point.

        Parameters
        ----------
        values : by name; what is not named keeps its default.
        folder : files are relative to it.

        Raises
        ------
        UsageError : A081 a name that is not setting_of or one that is needed; and what the
            dataclass itself refuses.
        """
        legal = self.legal
        fields = settings_of(self.settings)
        given: dict[str, Any] = {}
        extra: list[tuple[str, Value]] = []
        for name, value in values.items():
            setting = setting_of(name, legal, f"model {self.name}")
            if (
                setting.file
                and isinstance(value, str)
                and ("/" in value or Path(value).suffix.lower() in _FILES)
            ):
                value = str(folder / value)
            if name in fields:
                given[name] = value
            else:
                extra.append((name, value))
        if missing := [s.name for s in fields.values() if s.needed and s.name not in given]:
            raise error_of("A081.missing", name=self.name, missing=missing[0])
        return self.settings(**given, **({"others": tuple(extra)} if extra else {}))

    def identity(self, made: Any) -> Any:
        """Return what decides an answer besides the recording: settings with defaults, other files,
        release.
        """
        files = self.inputs(made)
        settings = {f.name: getattr(made, f.name) for f in fields(made) if f.name not in files}
        return {"model": self.name, "release": self.released, "settings": settings, "files": files}


def scalars(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return results as a table can hold them.

    Infinite values and nan become None, NumPy's numbers become Python's.
    """
    out: dict[str, Any] = {}
    for name, value in results.items():
        plain = value.item() if hasattr(value, "item") else value
        if isinstance(plain, float) and not math.isfinite(plain):
            plain = None
        if plain is None or isinstance(plain, str | int | float | bool):
            out[name] = plain
    return out


def hashed(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
