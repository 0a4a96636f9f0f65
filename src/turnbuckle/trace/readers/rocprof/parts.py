"""Parts that rocprofv3's JSON, CSV and databases share: agents, roctx markers, allocations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from turnbuckle.trace.readers.parts.mpi_tables import LARGEST, NO
from turnbuckle.trace.readers.rocprof.rows import (
    BEGUN,
    DIRECTION,
    MARK,
    MEMORY,
    PUSHED,
    Rows,
    direction_of,
)
from turnbuckle.trace.trace import dtypes

#: Functions of roctx that begin a range of the application, and the kind of range.
_RANGES: Final = {
    "roctxrangepush": PUSHED,
    "roctxthreadrange": PUSHED,
    "roctxrangestart": BEGUN,
    "roctxprocessrange": BEGUN,
}
_MARK, _ENDS = "roctxmark", ("roctxrangepop", "roctxrangestop")
_ALLOCATES: Final = re.compile(r"^(?:MEMORY_ALLOCATION_)?(?:VMEM_)?(ALLOC(?:ATE)?|FREE)$")
ALLOCATED, FREED = 0, 1
_LONGEST_NAME: Final = 1000


@dataclass
class Agents:
    """Processors of a recording by their numbers in its records."""

    kind: dict[int, str] = field(default_factory=dict)  #: ``CPU``, ``GPU`` or nothing
    device: dict[int, int] = field(default_factory=dict)  #: a GPU's number among the GPUs
    rows: list[tuple[Any, ...]] = field(default_factory=list)  #: the table ``devices`` to be

    def add(
        self, agent: int, kind: str, number: int, integrated: bool = False, /, **description: Any
    ) -> None:
        """Add one agent; of a GPU `number` is its place among the GPUs, and `description` holds
        further columns of ``devices``.

        A GPU whose agent has CPU cores as well is `integrated`; of others nothing is said, since
        those of an APU may stand apart.
        """
        self.kind[agent] = kind
        if kind == "GPU":
            self.device[agent] = number if number >= 0 else len(self.device)
            row = {
                c: _cell(description.get(c), text=t == pl.String)
                for c, t in dtypes("devices").items()
            }
            row |= {"device": self.device[agent], "discrete": 0 if integrated else None}
            self.rows.append(tuple(row.values()))

    def gpu(self, agent: int) -> int:
        """Return the number of a GPU among the GPUs; `NO` for any other agent."""
        return self.device.get(agent, NO)

    def copy(self, word: str, source: int, target: int) -> tuple[int, int, int, int]:
        """Return the direction of a copy, the device that it belongs to, and for a copy between
        devices both of them.
        """
        same = None if NO in (source, target) else source == target
        direction = direction_of(word, self.kind.get(source, ""), self.kind.get(target, ""), same)
        ends = self.gpu(source), self.gpu(target)
        between = ends if direction == DIRECTION["p2p"] else (NO, NO)
        return direction, (ends[1] if ends[1] != NO else ends[0]), *between

    def table(self) -> pl.DataFrame:
        """Return the table ``devices``, each device once."""
        types = dtypes("devices")
        valid = [r for r in self.rows if 0 <= r[0] < 1 << 16]
        frame = pl.DataFrame(
            valid,
            schema=dict.fromkeys(types, pl.Int64)
            | {c: t for c, t in types.items() if t == pl.String},
            orient="row",
        )
        return (
            frame.cast(dict(types), strict=False)  # type: ignore[arg-type]
            .unique("device", keep="first", maintain_order=True)
            .sort("device")
        )


def _cell(value: object, *, text: bool) -> str | int | None:
    """Return a text or a positive amount; None for anything else."""
    if text:
        return (
            value.encode("utf-8", "replace").decode()[:_LONGEST_NAME] or None
            if isinstance(value, str)
            else None
        )
    return value if type(value) is int and 0 < value <= LARGEST else None


def add_marker(
    rows: Rows, function: str, message: object, start: int, end: int, pid: int, tid: int
) -> None:
    """Add a roctx call as a range or mark, with its message for a name; calls that end a range add
    nothing, the begin has the end.
    """
    plain = function.lower().rstrip("aw")
    if plain in _ENDS:
        return
    if plain == _MARK:
        rows.add("ranges", (start, NO, pid, tid, MARK, rows.name(message)))
    elif plain in _RANGES:
        rows.add("ranges", (start, end, pid, tid, _RANGES[plain], rows.name(message)))
    else:
        rows.unread["roctx calls"] += 1


def add_allocation(
    rows: Rows,
    operation: str,
    time: int,
    pid: int,
    agents: Agents,
    agent: int,
    amounts: Sequence[int],
) -> None:
    """Add an allocation or a release; `amounts` are correlation, size [B] and address.  Address
    ranges without memory are not read.
    """
    match = _ALLOCATES.match(operation)
    if not match:
        rows.unread["other memory operations"] += 1
        return
    correlation, size, address = amounts
    freed = match[1] == "FREE"
    memory = {"GPU": MEMORY["device"], "CPU": MEMORY["pinned"]}.get(
        agents.kind.get(agent, ""), MEMORY["unknown"]
    )
    # the profilers write 0 for the size of freed memory
    size = NO if freed and size == 0 else size
    rows.add(
        "allocations",
        (
            time,
            pid,
            agents.gpu(agent),
            correlation,
            size,
            FREED if freed else ALLOCATED,
            memory,
            address,
        ),
    )
