"""Names of the numbered MPI calls of a Paraver trace, from the .pcf beside it or else from Extrae's
own list.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.foundation.files import noted
from turnbuckle.foundation.schema import table_rows
from turnbuckle.trace.readers.parts.mpi_tables import operation, sort_of
from turnbuckle.trace.readers.parts.packed_text import Text
from turnbuckle.trace.readers.parts.text_numbers import LONGEST

#: Event types of MPI calls: point-to-point, collective, other, one-sided, file.
CALLS: Final = frozenset(range(50000001, 50000006))
_MOST_NAMES: Final = 1 << 16
_FIRST_CALL: Final = min(CALLS)
#: Call numbers below this are looked up in a table.
_SMALL: Final = 1024
_NOT_YET: Final = -2


@cache
def usual() -> dict[int, str]:
    """Return Extrae's own numbers of MPI calls with their names, for a trace without its .pcf."""
    return {int(row["number"]): row["name"] for row in table_rows("mpi/readers/paraver/calls.csv")}


def named(path: Path) -> dict[tuple[int, int], str] | None:
    """Return the names of the values of MPI's event types from the .pcf beside the trace; None
    where there is no .pcf.
    """
    stem = path.with_suffix("") if path.suffix.lower() in (".xz", ".gz") else path
    pcf, row_file = stem.with_suffix(".pcf"), stem.with_suffix(".row")
    if row_file.is_file():
        # The .row file belongs to the recording, although nothing is read from it.
        noted(row_file)
    if not pcf.is_file():
        return None
    types: list[int] = []
    values = False
    names: dict[tuple[int, int], str] = {}
    for line in Text(pcf):
        words = line.split(None, 2)
        if words[:1] == [b"EVENT_TYPE"]:
            types, values = [], False
        elif words[:1] == [b"VALUES"]:
            values = True
        elif not words or not words[0].isdigit():
            types, values = ([], False) if words else (types, values)
        elif not values and len(words) > 1 and words[1].isdigit() and len(words[1]) < 12:
            types.append(int(words[1]))
        elif values and len(words) > 1 and len(words[0]) < 12 and len(names) < _MOST_NAMES:
            name = b" ".join(words[1:]).decode("utf-8", "replace")[:200]
            names.update({(kind, int(words[0])): name for kind in types if kind in CALLS})
    return names


class Words:
    """Vocabulary of calls by event type and number, each once.

    Attributes
    ----------
    named : names from the ``.pcf``; None without one.
    name, does, sort : for each word, the index of its name among `names`, its operation, and the
        sort of the operation.
    unnamed : event types and numbers that took Extrae's own names, because the ``.pcf`` has none.
    """

    def __init__(
        self, named: dict[tuple[int, int], str] | None, names: Callable[[str], int]
    ) -> None:
        self.named, self.names = named, names
        self.name: list[int] = []
        self.does: list[str] = []
        self.sort: list[str] = []
        self._collective = array("b")
        self.unnamed: set[tuple[int, int]] = set()
        self._word_of: dict[tuple[int, int], int] = {}
        self._small = np.full((len(CALLS), _SMALL), _NOT_YET, dtype=np.int32)
        self._small[:, 0] = -1
        self._odd: list[int] = []
        self._code: dict[int, int] = {}

    def code(self, number: int) -> int:
        """Return a number as an int64: itself, or a negative code where it is negative or too
        long.
        """
        if 0 <= number < 10**LONGEST:
            return number
        if number not in self._code:
            self._odd.append(number)
            self._code[number] = -len(self._odd)
        return self._code[number]

    def text(self, kind: int, number: int) -> str:
        """Return the name of a call."""
        return (self.named or {}).get((kind, number), "") or usual().get(
            number, f"MPI call {number}"
        )

    def of(self, kind: NDArray[Any], code: Int) -> NDArray[np.int32]:
        """Return the word of each call by its event type, less the first, and the code of its
        number; -1 for number 0, an end.
        """
        small = (code >= 0) & (code < _SMALL)
        out: NDArray[np.int32] = np.where(
            small, self._small[kind, np.where(small, code, 0)], _NOT_YET
        ).astype(np.int32)
        missing = np.flatnonzero(out == _NOT_YET)
        if len(missing):
            # New words are numbered in the order in which they appear, because their names are.
            distinct, first, inverse = np.unique(
                code[missing] * len(CALLS) + kind[missing], return_index=True, return_inverse=True
            )
            words = np.zeros(len(distinct), dtype=np.int32)
            for index in np.argsort(first):
                words[index] = self._word(
                    int(kind[missing[first[index]]]), int(code[missing[first[index]]])
                )
            out[missing] = words[inverse]
        return out

    def collective(self, word: NDArray[np.int32]) -> Bool:
        """Return a mask of the words that are collectives."""
        is_collective = np.array(self._collective or [0], dtype=bool)
        mask: Bool = is_collective[np.maximum(word, 0)] & (word >= 0)
        return mask

    def _word(self, kind: int, code: int) -> int:
        """Return the number of a word, and add the word where it is new."""
        number = code if code >= 0 else self._odd[-code - 1]
        key = (_FIRST_CALL + kind, number)
        if key not in self._word_of:
            if not (self.named or {}).get(key) and len(self.unnamed) < _MOST_NAMES:
                self.unnamed.add(key)
            text = self.text(*key)
            does = operation(text)
            self._word_of[key] = len(self.name)
            self.name.append(self.names(text))
            self.does.append(does)
            self.sort.append(sort_of(does) if does else "other")
            self._collective.append(self.sort[-1] == "collective")
            if 0 <= code < _SMALL:
                self._small[kind, code] = self._word_of[key]
        return self._word_of[key]
