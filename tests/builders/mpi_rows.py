"""Recordings of a few MPI calls of several ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import strategies

from turnbuckle.trace.trace import Trace

Row = dict[str, Any]
#: Kinds of call of the trace's table ``mpi``.
P2P, COLLECTIVE, WAIT, OTHER = range(4)


def thread(rank: int) -> int:
    return ((100 + rank) << 24) + 1


def world(ranks: int, handle: int = 7) -> list[Row]:
    """Rows of mpi_communicators; a handle says nothing across processes, so every rank has its
    own.
    """
    return [
        {
            "rank": r,
            "time_ns": 1,
            "communicator": handle + 1000 * r,
            "parent": 0,
            "local_rank": r,
            "size": ranks,
        }
        for r in range(ranks)
    ]


def child(rank: int, time: int, handle: int, parent: int = 7, **more: Any) -> Row:
    return {
        "rank": rank,
        "time_ns": time,
        "communicator": handle + 1000 * rank,
        "parent": parent + 1000 * rank,
        **more,
    }


def call(rank: int, name: str, start: int, end: int, comm: int = 7, **more: Any) -> Row:
    """One row of the table ``mpi``."""
    kinds = {"send": P2P, "recv": P2P, "wait": WAIT, "test": WAIT, "start": WAIT}
    kind = next((k for word, k in kinds.items() if word in name.lower()), COLLECTIVE)
    about = {"communicator": comm + 1000 * rank} if kind <= COLLECTIVE else {}
    return {
        "thread": thread(rank),
        "start_ns": start,
        "end_ns": end,
        "kind": kind,
        "name": "MPI_" + name,
        **about,
        **more,
    }


def recorded(
    *calls: Row, ranks: int = 2, made: list[Row] | None = None, **tables: list[Row]
) -> Trace:
    """A recording of MPI calls, and of the rows of other tables; names are texts."""
    every = {"mpi": list(calls), **tables}
    names = sorted({row["name"] for table in every.values() for row in table if "name" in row})
    rows = {
        table: [{**row, "name": names.index(row["name"])} if "name" in row else row for row in of]
        for table, of in every.items()
    }
    rows["mpi_ranks"] = [{"thread": thread(r), "rank": r} for r in range(ranks)]
    rows["mpi_communicators"] = [*world(ranks), *(made or [])]
    return replace(strategies.trace_of(rows), names=pl.Series("name", names, dtype=pl.String))


def named(trace: Trace) -> pl.DataFrame:
    """Return the calls of a recording whose threads count ranks from 1 on, with the text of each
    and its rank.
    """
    return trace.mpi.with_columns(
        text=trace.text(trace.mpi), rank=pl.col("thread") // (1 << 24) - 1
    )
