"""Task graphs as two tables, CSV or Parquet: tasks with their time, bytes and rank, and the edges
between them.

    tasks   task, time [s], bytes [B], rank         bytes are read from the GPU's memory, besides the time; either may be left out
    edges   from, to, bytes [B]                     bytes that a task sends to another; an edge between GPUs carries at least one byte

A task begins when all its predecessors' messages have arrived.  Tasks that must not overlap need an
edge.

Errors: A043, A061, A062, A063.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.csv_text import of_frame
from turnbuckle.foundation.errors import UsageError, clipped, error_of
from turnbuckle.foundation.table_file import Column, Table, read_table, table_of
from turnbuckle.papers.models.dag.supernodes import MOST_GPUS
from turnbuckle.papers.models.dag.tasks import Dealt, Work
from turnbuckle.papers.models.dag.tiers import SAME, Fabric, tier_between
from turnbuckle.replay.tasks import Tasks, circle, replay_tasks
from turnbuckle.trace.cache.parquet_file import loaded

TASKS: Final = (
    Column("task", ""),
    Column("time", "s", needed=False, most=1e9),
    Column("bytes", "B", needed=False, most=1e18),
    Column("rank", "1", needed=False, most=MOST_GPUS - 1, whole=True),
)
EDGES: Final = (Column("from", ""), Column("to", ""), Column("bytes", "B", needed=False, most=1e18))


@dataclass(frozen=True)
class TaskGraph:
    """Task graph as it was declared."""

    name: str
    names: tuple[str, ...]
    #: seconds, bytes: time of each task besides its bytes [s], and bytes that it reads [B], shape
    #: (tasks,)
    seconds: Float
    bytes: Float
    rank: Int | None  #: rank of each task, shape (tasks,); None where the table has no ranks
    #: source, target, message_bytes: tasks at both ends of each edge, and its bytes [B], shape
    #: (edges,)
    source: Int
    target: Int
    message_bytes: Float

    def __len__(self) -> int:
        return len(self.names)

    @property
    def edges(self) -> int:
        """Return the number of edges."""
        return len(self.source)

    @property
    def ranks(self) -> int | None:
        """Return the number of ranks that the table names; None where it names none."""
        return None if self.rank is None else int(self.rank.max()) + 1

    @property
    def levels(self) -> int:
        """Return the length of the longest chain [tasks]."""
        return int(self.level.max()) + 1

    @cached_property
    def level(self) -> Int:
        """Return the longest chain of tasks before each, shape (tasks,) (A043 where tasks wait for
        each other in a circle).
        """
        try:
            # each task takes one unit of time, so that its start counts the chain before it
            start = replay_tasks(
                Tasks(np.ones(len(self)), None, self.source, self.target, np.zeros(self.edges))
            ).start_seconds
        except UsageError:
            names = " -> ".join(self.names[k] for k in circle(self.source, self.target))
            raise error_of("A043.circle", where=self.name, found=clipped(names, 120)) from None
        return np.rint(start).astype(np.int64)


def is_graph(path: Path) -> bool:
    """Return whether a file counts as a table of tasks, by its name."""
    return path.suffix.lower() in (".csv", ".parquet")


def read_graph(tasks: Path, edges: Path) -> TaskGraph:
    """Read a task graph.  Raises A043, A061 to A063."""
    table, between = (
        _table(tasks, TASKS, "the table of tasks"),
        _table(edges, EDGES, "the table of edges"),
    )
    names = table.texts["task"]
    if not names:
        raise error_of("A043.tasks", where=table.name)
    number: dict[str, int] = {}
    for row, name in enumerate(names):
        if number.setdefault(name, row) != row:
            raise error_of("A043.again", where=table.where(row, "task"), found=clipped(name, 40))
    ranks = table.numbers.get("rank")
    if ranks is not None and np.isnan(ranks).any():
        raise error_of("A043.rank", where=table.where(int(np.flatnonzero(np.isnan(ranks))[0])))
    time, size, moved = (
        np.nan_to_num(numbers)
        for numbers in (table.number("time"), table.number("bytes"), between.number("bytes"))
    )
    source, target = (_numbers(between, end, number) for end in ("from", "to"))
    rank = None if ranks is None else ranks.astype(np.int64)
    graph = TaskGraph(table.name, tuple(names), time, size, rank, source, target, moved)
    assert graph.levels
    return graph


def _numbers(edges: Table, end: str, number: dict[str, int]) -> Int:
    texts = edges.texts[end]
    numbers = [number.get(name, -1) for name in texts]
    if -1 in numbers:
        row = numbers.index(-1)
        raise error_of("A043.edge", where=edges.where(row, end), found=clipped(texts[row], 40))
    return np.array(numbers, dtype=np.int64)


def _table(path: Path, columns: Sequence[Column], what: str) -> Table:
    if path.suffix.lower() != ".parquet":
        return read_table(path, columns, what)
    try:
        text = of_frame(loaded(path))
    except (OSError, ValueError, MemoryError, pl.exceptions.PolarsError) as error:
        message = clipped(str(error).splitlines()[0] if str(error) else type(error).__name__, 120)
        raise error_of(
            "A061.file",
            where=path.name,
            found=message,
            fix="give a Parquet file or CSV in UTF-8",
            subject=what,
        ) from error
    return table_of(text, path.name, columns, what)


def graph_work(graph: TaskGraph, dealt: Dealt, fabric: Fabric) -> Work:
    """Return the task graph on some GPUs; without ranks of their own, tasks are dealt to the ranks
    one by one.
    """
    rank = np.arange(len(graph)) % dealt.parts if graph.rank is None else graph.rank
    gpu = rank // dealt.ranks
    tier = tier_between(
        gpu[graph.source], gpu[graph.target], fabric.gpus_per_socket, fabric.gpus_per_node
    )
    place = graph.level * dealt.gpus + gpu
    places, counts = np.unique(place[graph.bytes > 0], return_counts=True)
    active = np.ones(len(graph), dtype=np.int64)
    active[graph.bytes > 0] = counts[np.searchsorted(places, place[graph.bytes > 0])]
    crossing = np.maximum(graph.message_bytes, 1.0) * (tier != SAME)
    return Work(
        dealt,
        graph.bytes,
        gpu,
        np.arange(len(graph)),
        active,
        graph.source,
        graph.target,
        crossing,
        tier,
        graph.seconds,
    )
