"""Tables that readers of MPI recordings share: calls, ranges, ranks and communicators.

Rows of MPI calls have the meaning that they have in an OTF2 archive: one row per message, request
or collective, for a wait one row per request that it completes, and sizes of collectives as Score-P
counts them (`carried`).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.trace.ids import MOST_THREADS, id_of, of_rank
from turnbuckle.trace.readers.parts.columns import by_two
from turnbuckle.trace.trace import completed, dtypes

#: A missing number in a row.
NO: Final = -(1 << 63)
#: Kinds of MPI calls as the vocabulary numbers them.
MESSAGE, COLLECTIVE, REQUEST, OTHER = range(4)
#: Largest believable time [ns].
LARGEST_NS: Final = 2**53
#: Largest number that a column of sizes, tags or counts may hold.
LARGEST: Final = 2**62
#: Most ranks: ids of threads distinguish so many, and a communicator's members fit into memory.
MOST_RANKS: Final = MOST_THREADS

_ENDS: Final = ("partner", "root", "tag", "communicator")
_COLUMNS: Final = (
    "start_ns",
    "end_ns",
    "rank",
    "kind",
    "name",
    "size_bytes",
    "receive_bytes",
    *_ENDS,
    "request",
    "outer",
    "thread",
)
ROOTED: Final = ("bcast", "gather", "gatherv", "scatter", "scatterv", "reduce")
_ROOTLESS: Final = (
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "allreduce",
    "reduce_scatter",
    "reduce_scatter_block",
)
_COLLECTIVES: Final = (*ROOTED, *_ROOTLESS, "barrier", "scan", "exscan")
_SENDS: Final = re.compile(r"i?[bsr]?send")
_RECEIVES: Final = re.compile(r"i?m?recv")
_WAITS: Final = re.compile(r"(wait|test)(all|any|some)?")


@lru_cache(maxsize=4096)
def operation(name: str) -> str:
    """Return the name of an MPI call in lower case without its prefix; an empty text for other
    names.

    >>> operation("PMPI_Isend"), operation("computing")
    ('isend', '')
    """
    match = re.fullmatch(r"p?mpi_([a-z][a-z_0-9]{0,60})", name.lower())
    return match[1].rstrip("_") if match else ""


@lru_cache(maxsize=4096)
def sort_of(does: str) -> str:
    """Return the sort of an operation: ``send``, ``receive``, ``both``, ``wait``, ``start``,
    ``collective`` or ``other``.
    """
    if _SENDS.fullmatch(does):
        return "send"
    if _RECEIVES.fullmatch(does):
        return "receive"
    if does in ("sendrecv", "sendrecv_replace"):
        return "both"
    if _WAITS.fullmatch(does):
        return "wait"
    if does in ("start", "startall"):
        return "start"
    return (
        "collective"
        if does in _COLLECTIVES or (does[:1] == "i" and does[1:] in _COLLECTIVES)
        else "other"
    )


def carried(does: str, sent: int, received: int, members: int, root: bool) -> tuple[int, int]:
    """Return bytes sent and received by one member of a collective, as Score-P counts them: to and
    from all members together.

    Parameters
    ----------
    sent, received : bytes for one partner; of operations with a size for each partner (``v``,
        ``reduce_scatter``) bytes for all together.
    root : whether this member is the root; ignored for operations without a root.

    >>> carried("allreduce", 8, 8, 4, False), carried("bcast", 8, 8, 4, True), carried("bcast", 8, 8, 4, False)
    ((32, 32), (32, 8), (0, 8))
    """
    base = does[1:] if does[:1] == "i" else does
    if base == "barrier":
        return 0, 0
    if base in ("allreduce", "allgather", "alltoall"):
        return members * sent, members * received
    if base == "allgatherv":
        return members * sent, received
    if base == "bcast":
        return (members * sent if root else 0), sent
    if base == "reduce":
        return sent, members * sent if root else 0
    if base == "gather":
        return sent, members * received if root else 0
    if base == "scatter":
        return (members * sent if root else 0), received
    if base == "gatherv":
        return sent, received if root else 0
    if base == "scatterv":
        return (sent if root else 0), received
    return sent, received


class Names:
    """Texts that tables refer to by index, each once."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """Return the index of a text, and add the text if it is new."""
        return self._number.setdefault(text, len(self._number))

    def series(self) -> pl.Series:
        """Return all texts by their index."""
        return pl.Series("name", list(self._number), dtype=pl.String)


class Calls:
    """Rows of MPI calls in the order in which they were begun; `NO` is a missing number."""

    def __init__(self) -> None:
        self.columns: dict[str, array[int]] = {name: array("q") for name in _COLUMNS}
        self._appends = [column.append for column in self.columns.values()]

    def __len__(self) -> int:
        return len(self.columns["rank"])

    def add(
        self,
        rank: int,
        start: int,
        end: int,
        kind: int,
        name: int,
        *,
        size: int = NO,
        received: int = NO,
        partner: int = NO,
        root: int = NO,
        tag: int = NO,
        communicator: int = NO,
        request: int = NO,
        outer: int = 0,
        thread: int = 1,
    ) -> int:
        """Append one row and return its number.  `rank` is in the world, `thread` inside its
        process from 1 on.  Of rows that begin together, those of smaller `outer` come first.
        """
        # A loop over the columns takes twice as long, and reading spends most of its time here.
        a = self._appends
        (
            a[0](start),
            a[1](end),
            a[2](rank),
            a[3](kind),
            a[4](name),
            a[5](size),
            a[6](received),
            a[7](partner),
        )
        a[8](root), a[9](tag), a[10](communicator), a[11](request), a[12](outer), a[13](thread)
        return len(self) - 1

    def table(self) -> pl.DataFrame:
        """Return the table ``mpi`` of the vocabulary, in the order of begin, rank and row."""
        columns = {
            name: np.frombuffer(column, dtype=np.int64) if len(column) else np.zeros(0, np.int64)
            for name, column in self.columns.items()
        }
        order = np.lexsort(
            (np.arange(len(self)), columns["outer"], columns["rank"], columns["start_ns"])
        )
        thread = id_of(columns["rank"] + 1, columns["thread"])
        # a copy in their order: the arrays' memory is not polars' to keep
        nothing = np.full(len(self), NO, dtype=np.int64)
        return mpi_table(
            lambda name: (thread if name == "thread" else columns.get(name, nothing))[order]
        )


def mpi_table(values: Callable[[str], Int]) -> pl.DataFrame:
    """Return the table ``mpi`` of the vocabulary from a function that returns one column by its
    name; `NO` is a missing number.
    """
    columns: dict[str, pl.Series] = {}
    for name, kind in dtypes("mpi").items():
        column = pl.Series(name, values(name))
        columns[name] = pl.select(
            pl.when(column != NO).then(column).cast(kind).alias(name)
        ).to_series()
    return pl.DataFrame(columns)


def ranges_table(start: Int, end: Int, rank: Int, name: Int) -> pl.DataFrame:
    """Return the table ``ranges`` of the vocabulary: what ranks do between MPI calls, where the
    recording names it.
    """
    order = by_two(start, rank)
    if ((start[order[1:]] == start[order[:-1]]) & (rank[order[1:]] == rank[order[:-1]])).any():
        # a range comes before the ranges inside it that begin at the same time
        order = np.lexsort((-end, rank, start))
    columns = {
        "start_ns": start,
        "end_ns": end,
        "thread": of_rank(rank),
        "kind": np.full(len(start), 59),
        "name": name,
    }
    return completed(
        "ranges", pl.DataFrame({name: values[order] for name, values in columns.items()})
    )


def ranks_table(ranks: int) -> pl.DataFrame:
    """Return the table ``mpi_ranks`` of one thread per rank."""
    rank = np.arange(ranks, dtype=np.int64)
    return pl.DataFrame({"thread": of_rank(rank), "rank": rank}, schema=dtypes("mpi_ranks"))


def communicators_table(groups: Iterable[tuple[int, int, list[int]]]) -> pl.DataFrame:
    """Return the table ``mpi_communicators`` from handle, time [ns] and world ranks of each;
    handles mean the same on every rank.
    """
    handle, time, rank, local_rank, size, root = ([np.zeros(0, dtype=np.int64)] for _ in range(6))
    for number, made, members in groups:
        count = len(members)
        for column, value in ((handle, number), (time, made), (size, count), (root, members[0])):
            column.append(np.full(count, value, dtype=np.int64))
        rank.append(np.array(members, dtype=np.int64))
        local_rank.append(np.arange(count, dtype=np.int64))
    columns = {
        "rank": rank,
        "time_ns": time,
        "communicator": handle,
        "local_rank": local_rank,
        "size": size,
    }
    columns |= {"group_root": root, "group_number": handle}
    frame = pl.DataFrame({name: np.concatenate(parts) for name, parts in columns.items()})
    frame = frame.sort(
        ["time_ns", "rank", "size", "communicator"],
        descending=[False, False, True, False],
        maintain_order=True,
    )
    return completed("mpi_communicators", frame)
