"""MPI calls of one application of a Paraver trace, from the records in which they begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.mpi.readers.paraver.names import CALLS, Words
from turnbuckle.mpi.readers.paraver.records import Records
from turnbuckle.trace.readers.parts.columns import sorted_by
from turnbuckle.trace.readers.parts.mpi_tables import NO

#: Sorts of calls; the index of a sort is its number in `Calls.sort`.
SORTS: Final = ("send", "receive", "both", "wait", "start", "collective", "other")


@dataclass
class Calls:
    """MPI calls of one application, by thread and begin.

    Attributes
    ----------
    sort : index of each call's sort in `SORTS`.
    nonblocking : whether the call's operation begins with ``i``, so that the call returns before
        the operation is done.
    """

    words: Words
    #: key, task, number: the threads that call MPI, in the order of their keys
    key: Int
    task: Int
    number: Int
    first: Int  #: index of each thread's first call, and at the end the number of calls
    #: start, end, word: begin [ns], end [ns] and word (`Words`) of each call
    start: Int
    end: Int
    word: NDArray[Any]
    #: collective, arguments: indices of the collectives, and for each: bytes sent, bytes received,
    #: whether this rank is the root, communicator
    collective: Int
    arguments: Int

    def __post_init__(self) -> None:
        number = {sort: place for place, sort in enumerate(SORTS)}
        self.sort = np.array([number[sort] for sort in self.words.sort], dtype=np.int8)[self.word]
        self.nonblocking: Bool = np.array(
            [does.startswith("i") for does in self.words.does], dtype=bool
        )[self.word]

    def __len__(self) -> int:
        return len(self.start)

    def are(self, *sorts: str) -> Int:
        """Return the indices of the calls of the given sorts."""
        return np.flatnonzero(np.isin(self.sort, [SORTS.index(sort) for sort in sorts]))

    def does(self, *names: str) -> Bool:
        """Return a mask of the calls whose MPI operation is among `names`."""
        mask: Bool = np.array([does in names for does in self.words.does], dtype=bool)[self.word]
        return mask

    @property
    def thread(self) -> NDArray[np.int32]:
        """Return the thread of each call, as its index in `key`."""
        return np.repeat(np.arange(len(self.key), dtype=np.int32), np.diff(self.first))


def paired(records: Records) -> tuple[int, Calls] | None:
    """Return the application with the most MPI calls, and its calls; None where there are none.

    Calls that were cut are counted in ``flaws``.
    """
    edges = records.edges
    thread, word, time = edges["thread"], edges["word"], edges["time"]
    begins = (word >= 0) & (edges["broken"] == 0)
    key = records.threads.by_place()
    application_of = records.threads.application(key)
    counts = (
        np.bincount(application_of, weights=np.bincount(thread[begins], minlength=len(key)))
        if len(key)
        else np.zeros(1)
    )
    records.calls.update({a: int(n) for a, n in enumerate(counts.tolist()) if n})
    if not records.calls:
        return None
    application = max(records.calls, key=lambda a: (records.calls[a], -a))

    group = thread * len(CALLS) + edges["kind"]
    order = sorted_by(group)
    with_successor = np.flatnonzero((group[order[1:]] == group[order[:-1]]) & begins[order[:-1]])
    end = np.full(len(word), NO, dtype=np.int64)
    end[order[with_successor]] = time[order[with_successor + 1]]
    is_successor = np.zeros(len(word), dtype=bool)
    is_successor[order[with_successor + 1]] = True
    # A tool that cuts traces writes one end of every type at the very end, which is no flaw.
    records.flaws["cut"] += int(
        (is_successor & (word >= 0)).sum()
        + (~is_successor & (word < 0) & (time < records.duration)).sum()
    )
    del order, with_successor, is_successor, group

    selected = np.flatnonzero(begins & (application_of[thread] == application))
    calls_mpi = np.zeros(len(key), dtype=bool)
    calls_mpi[thread[selected]] = True
    places = np.flatnonzero(calls_mpi)
    places = places[np.argsort(key[places])]
    rank = np.zeros(len(key), dtype=np.int32)
    rank[places] = np.arange(len(places), dtype=np.int32)
    selected = selected[np.argsort(time[selected], kind="stable")]
    selected = selected[sorted_by(rank[thread[selected]])]
    first = np.concatenate(
        [
            np.zeros(1, np.int64),
            np.cumsum(np.bincount(rank[thread[selected]], minlength=len(places))),
        ]
    )
    ends = end[selected]
    records.flaws["cut"] += int((ends == NO).sum())
    ends[ends == NO] = records.latest
    edge = records.collectives["edge"]
    collective = np.flatnonzero(records.words.collective(word[selected]))
    row = np.searchsorted(edge, selected[collective])
    arguments = np.stack(
        [records.collectives[name][row] for name in ("sent", "received", "root", "communicator")]
    )
    task, number = records.threads.task_and_number(application, key[places])
    return application, Calls(
        records.words,
        key[places],
        task,
        number,
        first,
        time[selected],
        ends,
        word[selected],
        collective,
        arguments,
    )
