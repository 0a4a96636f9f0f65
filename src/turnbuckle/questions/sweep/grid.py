"""A study: recordings, fixed settings and varying settings, and the points that they make, each with its own key.

The points are the Cartesian product of recordings, pairs and axes, in the order in which the study names them, the last axis
fastest.  A key is a hash of what an answer depends on: the recording's content, every setting (those left out at their defaults),
the content of other files named, the model and its release.  Two points of one key have one answer.

    A081  a setting that is not known, or a value that it cannot have
    A082  a recording of the study that is not there
    A083  a shard that is none
    A084  no points, or too many
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Final

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.settings import Scalar, known
from turnbuckle.machine import Machine
from turnbuckle.questions.sweep.points import Kind, Value, hashed

#: Points of one study.
MOST: Final = 200_000
MOST_SHARDS: Final = 100_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}")
#: Columns that every table of a sweep has.
RESERVED: Final = ("recording", "code", "error")
#: Recordings of one file.  Of others those belong together that have these endings, and names that are alike but for the rank at the end.
_WHOLE: Final = (".sqlite", ".trace", ".xz", ".gz", ".goal")
_DUMPI: Final = (".meta", ".bin"), re.compile("-[0-9]+$")
_TOGETHER: Final = {".meta": _DUMPI, ".bin": _DUMPI, ".prv": ((".prv", ".pcf", ".row"), None)}


@dataclass(frozen=True)
class Point:
    """One question of a study.

    Attributes
    ----------
    index : its place in the table.
    recording : by its name in the study.
    values : what the study sets here, by name; a machine by its own.
    """

    index: int
    recording: str
    values: Mapping[str, Scalar]


@dataclass(frozen=True)
class Study:
    """Recordings and settings.  A `Machine` stands for its name wherever a setting names one.

    Attributes
    ----------
    name : of the study.
    kind : of question.
    recordings : files by the name that the table gives them.
    settings : that stay.
    pairs : settings that change together, one mapping a combination; all name the same.
    axes : settings that vary, each with its values.
    folder : files that settings name are relative to it.
    """

    name: str
    kind: Kind
    recordings: Mapping[str, Path]
    settings: Mapping[str, Value] = field(default_factory=dict)
    pairs: Sequence[Mapping[str, Value]] = ()
    axes: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    folder: Path = Path()

    def __post_init__(self) -> None:
        for name in (self.name, *self.recordings):
            if not _NAME.fullmatch(name):
                raise error_of("A081.name", found=clipped(name, 40))
        legal = self.kind.legal
        varied = [*self.axes, *(self.pairs[0] if self.pairs else ())]
        for name in (*self.settings, *varied):
            known(name, legal, f"model {self.kind.name}")
            if [*self.settings, *varied].count(name) > 1:
                raise error_of("A081.twice", found=name, name=name)
        for pair in self.pairs:
            if set(pair) != set(self.pairs[0]):
                raise error_of("A081.pairs", found=", ".join(pair)[:60], fix=", ".join(self.pairs[0])[:80])
        for name, values in self.axes.items():
            if not values or len(set(map(repr, map(_shown, values)))) != len(values):
                flaw = "a value stands twice" if values else "an axis without values"
                raise error_of("A084.value", subject=flaw, name=name)
        if not 0 < len(self) <= MOST:
            raise error_of("A084.empty" if not self.recordings else "A084.many", found=f"{len(self):,}", most=MOST)
        for combination in self._combinations():
            self.kind.made(combination, self.folder)

    def __len__(self) -> int:
        return len(self.recordings) * max(len(self.pairs), 1) * math.prod(len(v) for v in self.axes.values())

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the settings that vary, in the order of the table."""
        return (*self.settings, *(self.pairs[0] if self.pairs else ()), *self.axes)

    def points(self) -> Iterator[Point]:
        """Yield all points, in the order of the table."""
        index = 0
        for recording in self.recordings:
            for values in self._combinations():
                yield Point(index, recording, {name: _shown(value) for name, value in values.items()})
                index += 1

    def _combinations(self) -> Iterator[dict[str, Value]]:
        """Yield the settings of each point of one recording."""
        for pair in self.pairs or ({},):
            for values in product(*self.axes.values()):
                yield {**self.settings, **pair, **dict(zip(self.axes, values, strict=True))}

    def block(self, shard: tuple[int, int] | None) -> range:
        """Return the points of shard i of n.

        Each shard is a contiguous block of the table, so it reads only a few recordings.
        """
        if shard is None:
            return range(len(self))
        i, n = shard
        return range(len(self) * (i - 1) // n, len(self) * i // n)

    def keys(self, recording: str, digest: str) -> list[tuple[str, Any]]:
        """Return the key and the settings of each point of a recording whose content has a hash."""
        out = []
        for values in self._combinations():
            made = self.kind.made(values, self.folder)
            out.append((key_of(digest, self.kind.identity(made)), made))
        return out


def _shown(value: Value) -> Scalar:
    """Return a value as a table holds it."""
    return value.name if isinstance(value, Machine) else value


def key_of(digest: str, identity: Any) -> str:
    """Return the key of a point.

    >>> key_of("ab", {"x": 1.0}) == key_of("ab", {"x": 1.0}) != key_of("ab", {"x": 2.0})
    True
    """
    text = json.dumps([digest, identity], sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def digest_of(path: Path, name: str = "") -> str:
    """Return the SHA-256 of a recording.

    If a recording has several files, their names and contents are hashed together.

    Raises
    ------
    UsageError : A082 where it is not there.
    """
    try:
        parts = files_of(path)
        if parts == [path]:
            return hashed(path)
        hashes = [(p.relative_to(path.parent).as_posix() if p.is_relative_to(path.parent) else p.name, hashed(p)) for p in parts]
        if not hashes:
            raise FileNotFoundError(2, "No such file or directory")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a file name"
        raise error_of("A082.part" if path.is_dir() else "A082.path", where=name, found=f"{path.name}: {why}") from None
    return hashlib.sha256(json.dumps(hashes).encode()).hexdigest()


def files_of(path: Path) -> list[Path]:
    """Return the files of a recording.

    Its format decides: an archive, a set with one file per rank, names beside events, or one file.
    """
    suffix = path.suffix.lower()
    if suffix == ".otf2":
        parts = [path, path.with_suffix(".def"), *sorted(p for p in path.with_suffix("").rglob("*") if p.is_file())]
        return [p for p in parts if p.is_file()]
    if (path / "trace.json").is_file():  # a folder of Turnbuckle's own
        return sorted(p for p in path.iterdir() if p.name == "trace.json" or p.suffix == ".parquet")
    if not path.is_file() or suffix in _WHOLE:
        return [path]
    if (parts := registry.load("services", "files of a schedule")(path)) is not None:
        return list(parts)
    endings, rank = _TOGETHER.get(suffix, ((suffix,), re.compile("[0-9]+$")))

    def stem(file: Path) -> str:
        return rank.sub("", file.stem) if rank else file.stem

    alike = (p for p in path.parent.iterdir() if p.suffix.lower() in endings and stem(p) == stem(path))
    return [path, *sorted(p for p in alike if p != path and p.is_file())]


def shard_of(text: str) -> tuple[int, int]:
    """Return the shard that a text names: ``2/8`` -> (2, 8).

    >>> shard_of("2/8")
    (2, 8)

    Raises
    ------
    UsageError : A083.
    """
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text.strip())
    i, n = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= i <= n <= MOST_SHARDS:
        raise error_of("A083.form", found=clipped(text, 40))
    return i, n
