"""Names of the numbers of MPI calls in a Paraver trace: from the .pcf beside it, else Extrae's own."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.files import noted
from turnbuckle.trace.readers.parts.mpi_tables import operation, sort_of
from turnbuckle.trace.readers.parts.packed_text import Text
from turnbuckle.trace.readers.parts.text_numbers import LONGEST, Int

#: Event types: calls point to point, collective, other, one-sided, of files.
CALLS: Final = frozenset(range(50000001, 50000006))
#: Extrae's own numbers, for a trace without its .pcf.
USUAL: Final = (
    "", "MPI_Send", "MPI_Recv", "MPI_Isend", "MPI_Irecv", "MPI_Wait", "MPI_Waitall", "MPI_Bcast", "MPI_Barrier", "MPI_Reduce",
    "MPI_Allreduce", "MPI_Alltoall", "MPI_Alltoallv", "MPI_Gather", "MPI_Gatherv", "MPI_Scatter", "MPI_Scatterv", "MPI_Allgather",
    "MPI_Allgatherv", "MPI_Comm_rank", "MPI_Comm_size", "MPI_Comm_create", "MPI_Comm_dup", "MPI_Comm_split", "MPI_Comm_group",
    "MPI_Comm_free", "MPI_Comm_remote_group", "MPI_Comm_remote_size", "MPI_Comm_test_inter", "MPI_Comm_compare", "MPI_Scan", "MPI_Init",
    "MPI_Finalize", "MPI_Bsend", "MPI_Ssend", "MPI_Rsend", "MPI_Ibsend", "MPI_Issend", "MPI_Irsend", "MPI_Test", "MPI_Cancel",
    "MPI_Sendrecv", "MPI_Sendrecv_replace",
)  # fmt: skip
_MOST_NAMES: Final = 1 << 16
_FIRST_CALL: Final = min(CALLS)
#: Numbers of calls that are looked up by their place.
_SMALL: Final = 1024
_NOT_YET: Final = -2


def named(path: Path) -> dict[tuple[int, int], str] | None:
    """Names of the values of MPI's event types, from the .pcf beside the trace; None where there is none."""
    stem = path.with_suffix("") if path.suffix.lower() in (".xz", ".gz") else path
    place, rows = stem.with_suffix(".pcf"), stem.with_suffix(".row")
    if rows.is_file():
        # it holds nothing that is asked for, and belongs to the recording all the same
        noted(rows)
    if not place.is_file():
        return None
    types: list[int] = []
    values = False
    found: dict[tuple[int, int], str] = {}
    for line in Text(place):
        words = line.split(None, 2)
        if words[:1] == [b"EVENT_TYPE"]:
            types, values = [], False
        elif words[:1] == [b"VALUES"]:
            values = True
        elif not words or not words[0].isdigit():
            types, values = ([], False) if words else (types, values)
        elif not values and len(words) > 1 and words[1].isdigit() and len(words[1]) < 12:
            types.append(int(words[1]))
        elif values and len(words) > 1 and len(words[0]) < 12 and len(found) < _MOST_NAMES:
            name = b" ".join(words[1:]).decode("utf-8", "replace")[:200]
            found.update({(kind, int(words[0])): name for kind in types if kind in CALLS})
    return found


class Words:
    """Calls by event type and number, each once.

    Attributes
    ----------
    named : names of the ``.pcf``, if there is one.
    name, does, sort : of each word, its place among `names`, its operation and the sort of that.
    unnamed : event types and numbers that had to take Extrae's own names.
    """

    def __init__(self, named: dict[tuple[int, int], str] | None, names: Callable[[str], int]) -> None:
        self.named, self.names = named, names
        self.name: list[int] = []
        self.does: list[str] = []
        self.sort: list[str] = []
        self._collective = array("b")
        self.unnamed: set[tuple[int, int]] = set()
        self._known: dict[tuple[int, int], int] = {}
        self._small = np.full((len(CALLS), _SMALL), _NOT_YET, dtype=np.int32)
        self._small[:, 0] = -1
        self._odd: list[int] = []
        self._code: dict[int, int] = {}

    def code(self, number: int) -> int:
        """A number as an int64: itself, or below 0 where it is below 0 or too long."""
        if 0 <= number < 10**LONGEST:
            return number
        if number not in self._code:
            self._odd.append(number)
            self._code[number] = -len(self._odd)
        return self._code[number]

    def text(self, kind: int, number: int) -> str:
        """Name of a call."""
        return (self.named or {}).get((kind, number), "") or (USUAL[number] if 0 < number < len(USUAL) else f"MPI call {number}")

    def of(self, kind: NDArray[Any], code: Int) -> NDArray[np.int32]:
        """Words of calls by their event types less the first and the codes of their numbers; -1 for number 0, which is an end."""
        small = (code >= 0) & (code < _SMALL)
        out: NDArray[np.int32] = np.where(small, self._small[kind, np.where(small, code, 0)], _NOT_YET).astype(np.int32)
        left = np.flatnonzero(out == _NOT_YET)
        if len(left):
            # in the order in which they appear, as their names are numbered
            which, first, back = np.unique(code[left] * len(CALLS) + kind[left], return_index=True, return_inverse=True)
            found = np.zeros(len(which), dtype=np.int32)
            for at in np.argsort(first):
                found[at] = self._word(int(kind[left[first[at]]]), int(code[left[first[at]]]))
            out[left] = found[back]
        return out

    def collective(self, word: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which words are collectives."""
        known = np.array(self._collective or [0], dtype=bool)
        found: NDArray[np.bool_] = known[np.maximum(word, 0)] & (word >= 0)
        return found

    def _word(self, kind: int, code: int) -> int:
        number = code if code >= 0 else self._odd[-code - 1]
        key = (_FIRST_CALL + kind, number)
        if key not in self._known:
            if not (self.named or {}).get(key) and len(self.unnamed) < _MOST_NAMES:
                self.unnamed.add(key)
            text = self.text(*key)
            does = operation(text)
            self._known[key] = len(self.name)
            self.name.append(self.names(text))
            self.does.append(does)
            self.sort.append(sort_of(does) if does else "other")
            self._collective.append(self.sort[-1] == "collective")
            if 0 <= code < _SMALL:
                self._small[kind, code] = self._known[key]
        return self._known[key]
