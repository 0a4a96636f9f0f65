"""MPI calls of one application of a Paraver trace, from the records in which they begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.mpi.readers.paraver.names import CALLS, Words
from turnbuckle.mpi.readers.paraver.records import Records
from turnbuckle.trace.readers.parts.columns import sorted_by
from turnbuckle.trace.readers.parts.mpi_tables import NO
from turnbuckle.trace.readers.parts.text_numbers import Int, Mask

#: What a call does as a number, and back.
SORTS: Final = ("send", "receive", "both", "wait", "start", "collective", "other")


@dataclass
class Calls:
    """Calls of an application, by thread and begin.

    Attributes
    ----------
    key, task, number : of the threads that call MPI, in their order.
    first : place of each thread's first call, and behind the last one's last.
    start, end, word : of each call [ns].
    sort : of each call, its place in `SORTS`.
    later : whether its operation begins with ``i``: it returns before it is done.
    collective, told : places of the calls that are collectives; of each bytes sent and received, whether this is the root, communicator.
    """

    words: Words
    key: Int
    task: Int
    number: Int
    first: Int
    start: Int
    end: Int
    word: NDArray[Any]
    collective: Int
    told: Int

    def __post_init__(self) -> None:
        number = {sort: place for place, sort in enumerate(SORTS)}
        self.sort = np.array([number[sort] for sort in self.words.sort], dtype=np.int8)[self.word]
        self.later: Mask = np.array([does.startswith("i") for does in self.words.does], dtype=bool)[self.word]

    def __len__(self) -> int:
        return len(self.start)

    def are(self, *sorts: str) -> Int:
        """Places of the calls of some sorts."""
        return np.flatnonzero(np.isin(self.sort, [SORTS.index(sort) for sort in sorts]))

    def does(self, *names: str) -> Mask:
        """Which calls have an operation of these."""
        found: Mask = np.array([does in names for does in self.words.does], dtype=bool)[self.word]
        return found

    @property
    def thread(self) -> NDArray[np.int32]:
        """Thread of each call, its place in `key`."""
        return np.repeat(np.arange(len(self.key), dtype=np.int32), np.diff(self.first))


def paired(records: Records) -> tuple[int, Calls] | None:
    """The application with most MPI calls, and its calls; None where there are none.  Cut calls are counted in ``flaws``."""
    edges = records.edges
    thread, word, time = edges["thread"], edges["word"], edges["time"]
    begins = (word >= 0) & (edges["broken"] == 0)
    key = records.threads.by_place()
    application_of = records.threads.application(key)
    counts = np.bincount(application_of, weights=np.bincount(thread[begins], minlength=len(key))) if len(key) else np.zeros(1)
    records.calls.update({a: int(n) for a, n in enumerate(counts.tolist()) if n})
    if not records.calls:
        return None
    application = max(records.calls, key=lambda a: (records.calls[a], -a))

    group = thread * len(CALLS) + edges["kind"]
    order = sorted_by(group)
    follows = np.flatnonzero((group[order[1:]] == group[order[:-1]]) & begins[order[:-1]])
    end = np.full(len(word), NO, dtype=np.int64)
    end[order[follows]] = time[order[follows + 1]]
    gives_way = np.zeros(len(word), dtype=bool)
    gives_way[order[follows + 1]] = True
    # at the very end a tool that cuts traces ends every type once
    records.flaws["cut"] += int((gives_way & (word >= 0)).sum() + (~gives_way & (word < 0) & (time < records.duration)).sum())
    del order, follows, gives_way, group

    mine = np.flatnonzero(begins & (application_of[thread] == application))
    has = np.zeros(len(key), dtype=bool)
    has[thread[mine]] = True
    places = np.flatnonzero(has)
    places = places[np.argsort(key[places])]
    rank = np.zeros(len(key), dtype=np.int32)
    rank[places] = np.arange(len(places), dtype=np.int32)
    mine = mine[np.argsort(time[mine], kind="stable")]
    mine = mine[sorted_by(rank[thread[mine]])]
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(rank[thread[mine]], minlength=len(places)))])
    ends = end[mine]
    records.flaws["cut"] += int((ends == NO).sum())
    ends[ends == NO] = records.latest
    at = records.told["edge"]
    collective = np.flatnonzero(records.words.collective(word[mine]))
    row = np.searchsorted(at, mine[collective])
    told = np.stack([records.told[name][row] for name in ("sent", "received", "root", "communicator")])
    task, number = records.threads.task_and_number(application, key[places])
    return application, Calls(records.words, key[places], task, number, first, time[mine], ends, word[mine], collective, told)
