"""Answers and refusals of many points, by column: some ten bytes a number, where a dictionary takes
a hundred.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

import numpy as np
import polars as pl

#: What a value is; a word stands for texts and for whole numbers beyond those that a float holds.
_ABSENT, _NONE, _BOOL, _INT, _FLOAT, _WORD = range(6)
_EXACT: Final = 2**53
_FIRST_ROOM: Final = 64


@dataclass(frozen=True)
class Outcome:
    """The answer at one point, or the refusal.

    Attributes
    ----------
    results : by name.
    code, error : of the refusal; empty where there is an answer.
    """

    results: Mapping[str, Any]
    code: str = ""
    error: str = ""


class _Column:
    """Values of one name: the kind of each, and its number or the index of its word."""

    def __init__(self, room: int, first: tuple[int, int]) -> None:
        self.kind = np.zeros(room, dtype=np.uint8)
        self.number = np.zeros(room)
        self.words: list[Any] = []
        self.first = first
        self._place: dict[Any, int] = {}

    def grow(self, room: int) -> None:
        self.kind, self.number = (
            np.concatenate([a, np.zeros(room - len(a), dtype=a.dtype)])
            for a in (self.kind, self.number)
        )

    def put(self, index: int, value: Any) -> None:
        if value is None:
            self.kind[index] = _NONE
        elif isinstance(value, bool):
            self.kind[index], self.number[index] = _BOOL, value
        elif isinstance(value, float):
            self.kind[index], self.number[index] = _FLOAT, value
        elif isinstance(value, int) and abs(value) <= _EXACT:
            self.kind[index], self.number[index] = _INT, value
        else:
            if value not in self._place:
                self._place[value] = len(self.words)
                self.words.append(value)
            self.kind[index], self.number[index] = _WORD, self._place[value]

    def __getitem__(self, index: int) -> Any:
        kind, number = self.kind[index], self.number[index]
        if kind == _FLOAT:
            return float(number)
        if kind == _INT:
            return int(number)
        if kind == _WORD:
            return self.words[int(number)]
        return bool(number) if kind == _BOOL else None

    def series(self, name: str, count: int, text: bool) -> pl.Series:
        """Return the values as a column of a table, with the type that all of them have."""
        kind, number = self.kind[:count], self.number[:count]
        kinds = {int(k) for k in np.unique(kind)} - {_ABSENT, _NONE}
        if text or any(isinstance(w, str) for w in self.words):
            values = [None if v is None else str(v) for v in (self[k] for k in range(count))]
            return pl.Series(name, values, dtype=pl.String)
        if _WORD in kinds:
            return pl.Series(
                name,
                [self[k] for k in range(count)],
                dtype=pl.Int64 if kinds <= {_INT, _WORD} else pl.Float64,
            )
        numbers = (
            pl.DataFrame({"kind": kind, name: number})
            .select(pl.when(pl.col("kind") > _NONE).then(name))
            .to_series()
            .alias(name)
        )
        return numbers.cast(
            pl.Boolean if kinds == {_BOOL} else pl.Int64 if kinds == {_INT} else pl.Float64
        )


class Outcomes(Sequence[Outcome | None]):
    """Outcomes of points by their number; None where there is none yet."""

    def __init__(self, count: int = 0) -> None:
        self._count, self._room = count, count
        self._columns: dict[str, _Column] = {}
        self._code, self._error = (_Column(count, (0, 0)) for _ in range(2))

    @classmethod
    def of(cls, outcomes: Sequence[Outcome | None]) -> Outcomes:
        """Return outcomes by column."""
        if isinstance(outcomes, cls):
            return outcomes
        made = cls(len(outcomes))
        for index, outcome in enumerate(outcomes):
            if outcome is not None:
                made.put(index, outcome)
        return made

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Outcome | None]:
        return (self._outcome(k) for k in range(self._count))

    @overload
    def __getitem__(self, index: int) -> Outcome | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[Outcome | None]: ...
    def __getitem__(self, index: int | slice) -> Outcome | list[Outcome | None] | None:
        """Return an outcome, or several."""
        chosen = range(self._count)[index]
        return (
            self._outcome(chosen) if isinstance(chosen, int) else [self._outcome(k) for k in chosen]
        )

    def _outcome(self, index: int) -> Outcome | None:
        if not self._code.kind[index]:
            return None
        if code := self._code[index]:
            return Outcome({}, code, self._error[index])
        return Outcome(
            {name: column[index] for name, column in self._columns.items() if column.kind[index]}
        )

    def put(self, index: int, outcome: Outcome) -> None:
        """Keep an outcome in place of what was there; the number may be the next one after the
        last.
        """
        if index >= self._count:
            self._count = index + 1
            if index >= self._room:
                self._grow(max(2 * self._room, _FIRST_ROOM, index + 1))
        if self._code.kind[index]:
            for column in self._columns.values():
                column.kind[index] = _ABSENT
        self._code.put(index, outcome.code)
        self._error.put(index, outcome.error)
        for place, (name, value) in enumerate(outcome.results.items()):
            if name not in self._columns:
                self._columns[name] = _Column(self._room, (index, place))
            column = self._columns[name]
            column.first = min(column.first, (index, place))
            column.put(index, value)

    def _grow(self, room: int) -> None:
        for column in (*self._columns.values(), self._code, self._error):
            column.grow(room)
        self._room = room

    @property
    def missing(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return the mask of points without an outcome."""
        return np.asarray(self._code.kind[: self._count] == _ABSENT)

    @property
    def failed(self) -> dict[str, int]:
        """Count refusals by code."""
        places, counts = np.unique(
            self._code.number[: self._count][~self.missing], return_counts=True
        )
        words = (self._code.words[int(p)] for p in places)
        return dict(sorted((w, int(n)) for w, n in zip(words, counts, strict=True) if w))

    def refused(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return the mask of refusals."""
        answered = self._code.words.index("") if "" in self._code.words else -1
        return np.asarray(~self.missing & (self._code.number[: self._count] != answered))

    def why(self, code: str) -> str:
        """Return the text of the first refusal of a code."""
        first = int(
            np.flatnonzero(
                self.refused() & (self._code.number[: self._count] == self._code.words.index(code))
            )[0]
        )
        return str(self._error[first])

    def names(self) -> list[str]:
        """Return the names of all results, in the order in which points first give them."""
        return sorted(self._columns, key=lambda name: self._columns[name].first)

    def column(self, name: str, rows: np.ndarray[Any, np.dtype[np.bool_]]) -> pl.Series:
        """Return the results of a name, or the ``code`` or ``error`` of refusals, at some
        points.
        """
        if name in ("code", "error"):
            words = (self._code if name == "code" else self._error).series(
                name, self._count, text=True
            )
            return words.filter(pl.Series(rows)).replace("", None)
        return self._columns[name].series(name, self._count, text=False).filter(pl.Series(rows))


class Answers(Mapping[str, Outcome]):
    """Outcomes by key: hexadecimal outside, 16 bytes inside."""

    def __init__(self) -> None:
        self._place: dict[bytes, int] = {}
        self._outcomes = Outcomes()

    def __getitem__(self, key: str) -> Outcome:
        outcome = self._outcomes[self._place[bytes.fromhex(key)]]
        assert outcome is not None
        return outcome

    def __iter__(self) -> Iterator[str]:
        return (key.hex() for key in self._place)

    def __len__(self) -> int:
        return len(self._place)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and bytes.fromhex(key) in self._place

    def put(self, key: str, outcome: Outcome) -> None:
        """Keep an outcome in place of an earlier one of its key."""
        self._outcomes.put(self._place.setdefault(bytes.fromhex(key), len(self._place)), outcome)

    def add(self, others: Mapping[str, Outcome]) -> None:
        """Take over the outcomes of another journal, where an answer outweighs a refusal."""
        for key, outcome in others.items():
            if not outcome.code or key not in self or self[key].code:
                self.put(key, outcome)
