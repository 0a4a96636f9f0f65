"""A study: recordings, fixed settings and varying settings, and the points that they make, each
with its own key.

The points are the Cartesian product of recordings, pairs and axes, in the order in which the study
names them, the last axis fastest.  Axes that are ranges are sampled together: each place of the
sample is asked with every combination of the rest, and the place changes slowest.  Points are made
when they are asked for: a study of a million holds none of them.

A key is a hash of what an answer depends on: the recording's content, every setting (those left out
at their defaults), the content of other files named, the model and its release.  Two points of one
key have one answer.

    A081  a setting that is not setting_of, or a value that it cannot have
    A082  a recording of the study that is not there
    A083  a shard that is none
    A084  no points, or too many; a range that nothing takes places from, or nothing to sample
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.settings import Scalar, setting_of
from turnbuckle.machine import Machine
from turnbuckle.questions.sweep.points import Kind, Value, hashed
from turnbuckle.questions.sweep.ranges import MOST, Range, Refine, Sample

#: Combinations of settings up to which each is looked at before a sweep begins; of more, every
#: value of every axis is.
_CHECKED: Final = 200_000
MOST_SHARDS: Final = 100_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}")
#: Columns that every table of a sweep has.
RESERVED: Final = ("recording", "code", "error")
#: Recordings of one file.  Of others those belong together that have these endings, and names that
#: are alike but for the rank at the end.
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
    axes : settings that vary, each with its values, or the range that is sampled.
    folder : files that settings name are relative to it.
    sample : how the ranges are sampled; None where there are none.
    refine : where points are added between those of the study; None adds none.
    """

    name: str
    kind: Kind
    recordings: Mapping[str, Path]
    settings: Mapping[str, Value] = field(default_factory=dict)
    pairs: Sequence[Mapping[str, Value]] = ()
    axes: Mapping[str, Sequence[Value] | Range] = field(default_factory=dict)
    folder: Path = Path()
    sample: Sample | None = None
    refine: Refine | None = None

    def __post_init__(self) -> None:
        for name in (self.name, *self.recordings):
            if not _NAME.fullmatch(name):
                raise error_of("A081.name", found=clipped(name, 40))
        legal = self.kind.legal
        varied = [*self.axes, *(self.pairs[0] if self.pairs else ())]
        for name in (*self.settings, *varied):
            setting_of(name, legal, f"model {self.kind.name}")
            if [*self.settings, *varied].count(name) > 1:
                raise error_of("A081.twice", found=name, name=name)
        for pair in self.pairs:
            if set(pair) != set(self.pairs[0]):
                raise error_of(
                    "A081.pairs", found=", ".join(pair)[:60], fix=", ".join(self.pairs[0])[:80]
                )
        for name, values in self.lists.items():
            if not values or len(set(map(repr, map(_shown, values)))) != len(values):
                flaw = "a value stands twice" if values else "an axis without values"
                raise error_of("A084.value", subject=flaw, name=name)
        if self.sample is None and self.ranges:
            raise error_of("A084.range", name=next(iter(self.ranges)))
        if self.sample is not None and not self.ranges:
            raise error_of("A084.sample")
        if not 0 < len(self) <= MOST:
            raise error_of(
                "A084.empty" if not self.recordings else "A084.many",
                found=f"{len(self):,}",
                most=MOST,
            )
        for combination in self._checked():
            self.kind.made(combination, self.folder)

    @cached_property
    def lists(self) -> dict[str, Sequence[Value]]:
        """Return the axes of which every value is asked."""
        return {n: v for n, v in self.axes.items() if not isinstance(v, Range)}

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """Return the axes that are sampled."""
        return {n: v for n, v in self.axes.items() if isinstance(v, Range)}

    @cached_property
    def places(self) -> dict[str, list[Scalar]]:
        """Return the values of the sampled axes at each place of the sample."""
        if self.sample is None:
            return {}
        shares = self.sample.shares(len(self.ranges))
        return {
            name: axis.values(shares[:, k]) for k, (name, axis) in enumerate(self.ranges.items())
        }

    @cached_property
    def _strides(self) -> dict[str, tuple[int, int]]:
        """Return (consecutive points with one value, number of values) of the place, the pair and
        each list.
        """
        sizes = {"": len(self.pairs) or 1, **{n: len(v) for n, v in self.lists.items()}}
        out, stride = {}, 1
        for name in reversed(sizes):
            out[name] = stride, sizes[name]
            stride *= sizes[name]
        return {**out, "places": (stride, self.sample.count if self.sample else 1)}

    @cached_property
    def each(self) -> int:
        """Return the number of points of one recording."""
        stride, places = self._strides["places"]
        return stride * places

    def __len__(self) -> int:
        return len(self.recordings) * self.each

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the settings that vary, in the order of the table."""
        return (*self.settings, *(self.pairs[0] if self.pairs else ()), *self.axes)

    def points(self) -> Iterator[Point]:
        """Yield all points, in the order of the table."""
        for k, recording in enumerate(self.recordings):
            for index in range(self.each):
                values = {name: _shown(value) for name, value in self.values(index).items()}
                yield Point(k * self.each + index, recording, values)

    def values(self, index: int) -> dict[str, Value]:
        """Return the settings of a point, by its number among those of one recording."""
        pair = self.pairs[self._number("", index)] if self.pairs else {}
        place = self._number("places", index)
        axes = {
            n: self.places[n][place] if n in self.ranges else v[self._number(n, index)]  # type: ignore[index]
            for n, v in self.axes.items()
        }
        return {**self.settings, **pair, **axes}

    def _number(self, name: str, index: int) -> int:
        stride, size = self._strides[name]
        return index // stride % size

    def column(self, name: str) -> list[Scalar]:
        """Return the values of a setting at all points of one recording."""
        if name in self.settings:
            return [_shown(self.settings[name])] * self.each
        values = [
            _shown(v)
            for v in self.places.get(name)
            or self.lists.get(name)
            or [pair[name] for pair in self.pairs]
        ]
        stride, _ = self._strides[
            "places" if name in self.ranges else name if name in self.lists else ""
        ]
        return [value for value in values for _ in range(stride)] * (
            self.each // (stride * len(values))
        )

    def _checked(self) -> Iterator[dict[str, Value]]:
        """Yield combinations that have every value: all of them, unless they are very many."""
        if self.each <= _CHECKED:
            yield from (self.values(k) for k in range(self.each))
            return
        first = self.values(0)
        yield from ({**first, **pair} for pair in self.pairs)
        for name, values in self.axes.items():
            yield from (
                {**first, name: v}
                for v in ((values.first, values.last) if isinstance(values, Range) else values)
            )

    def block(self, shard: tuple[int, int] | None) -> range:
        """Return the points of shard i of n.

        Each shard is a contiguous block of the table, so it reads only a few recordings.
        """
        if shard is None:
            return range(len(self))
        i, n = shard
        return range(len(self) * (i - 1) // n, len(self) * i // n)

    def asked(self, index: int) -> Any:
        """Return the settings of a point as its kind has them, by its number among those of one
        recording; raise what the kind refuses.
        """
        return self.kind.made(self.values(index), self.folder)

    def key(self, digest: str, asked: Any) -> str:
        """Return the key of a point of a recording whose content has a hash."""
        return key_of(digest, self.kind.identity(asked))


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


def digest_of(
    path: Path, name: str = "", files: Callable[[Path], Sequence[Path]] | None = None
) -> str:
    """Return the SHA-256 of a recording.

    If a recording has several files, their names and contents are hashed together; `files` returns
    them where a kind of question knows.

    Raises
    ------
    UsageError : A082 where it is not there.
    """
    try:
        parts = list((files or files_of)(path))
        if parts == [path]:
            return hashed(path)
        hashes = [
            (
                p.relative_to(path.parent).as_posix() if p.is_relative_to(path.parent) else p.name,
                hashed(p),
            )
            for p in parts
        ]
        if not hashes:
            raise FileNotFoundError(2, "No such file or directory")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a file name"
        raise error_of(
            "A082.part" if path.is_dir() else "A082.path", where=name, found=f"{path.name}: {why}"
        ) from error
    return hashlib.sha256(json.dumps(hashes).encode()).hexdigest()


def files_of(path: Path) -> list[Path]:
    """Return the files of a recording.

    Its format decides: an archive, a set with one file per rank, names beside events, or one file.
    """
    suffix = path.suffix.lower()
    if suffix == ".otf2":
        parts = [
            path,
            path.with_suffix(".def"),
            *sorted(p for p in path.with_suffix("").rglob("*") if p.is_file()),
        ]
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

    alike = (
        p for p in path.parent.iterdir() if p.suffix.lower() in endings and stem(p) == stem(path)
    )
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
