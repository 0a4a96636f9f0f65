"""What rocprofv3's JSON, CSV and databases have in common: agents, roctx markers, allocations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from turnbuckle.trace.readers.parts.mpi_tables import LARGEST, NO
from turnbuckle.trace.readers.rocprof.rows import BEGUN, DIRECTION, MARK, MEMORY, PUSHED, Rows, direction_of
from turnbuckle.trace.trace import dtypes

#: Functions of roctx that are a range of the application, and what sort.
_RANGES: Final = {"roctxrangepush": PUSHED, "roctxthreadrange": PUSHED, "roctxrangestart": BEGUN, "roctxprocessrange": BEGUN}
_MARK, _ENDS = "roctxmark", ("roctxrangepop", "roctxrangestop")
_ALLOCATES: Final = re.compile(r"^(?:MEMORY_ALLOCATION_)?(?:VMEM_)?(ALLOC(?:ATE)?|FREE)$")
ALLOCATED, FREED = 0, 1
_LONGEST_NAME: Final = 1000


@dataclass
class Agents:
    """Processors of a recording by the number that its records call them.

    Attributes
    ----------
    kind : ``CPU``, ``GPU`` or nothing.
    device : a GPU's number among the GPUs.
    rows : the table ``devices`` to be.
    """

    kind: dict[int, str] = field(default_factory=dict)
    device: dict[int, int] = field(default_factory=dict)
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def add(self, agent: int, kind: str, number: int, **told: Any) -> None:
        """One agent; of a GPU `number` is its place among the GPUs and `told` what else the file says of it (columns of ``devices``)."""
        self.kind[agent] = kind
        if kind == "GPU":
            self.device[agent] = number if number >= 0 else len(self.device)
            row = [_cell(told.get(c), text=t == pl.String) for c, t in dtypes("devices").items()]
            self.rows.append((self.device[agent], *row[1:]))

    def gpu(self, agent: int) -> int:
        """Number of a GPU among the GPUs; `NO` for what is none."""
        return self.device.get(agent, NO)

    def copy(self, word: str, source: int, target: int) -> tuple[int, int, int, int]:
        """Direction of a copy, the device that it belongs to, and for one between devices both of them."""
        same = None if NO in (source, target) else source == target
        direction = direction_of(word, self.kind.get(source, ""), self.kind.get(target, ""), same)
        ends = self.gpu(source), self.gpu(target)
        between = ends if direction == DIRECTION["p2p"] else (NO, NO)
        return direction, (ends[1] if ends[1] != NO else ends[0]), *between

    def table(self) -> pl.DataFrame:
        """The table ``devices``, each device once."""
        types = dtypes("devices")
        fit = [r for r in self.rows if 0 <= r[0] < 1 << 16]
        frame = pl.DataFrame(fit, schema=dict.fromkeys(types, pl.Int64) | {c: t for c, t in types.items() if t == pl.String}, orient="row")
        return frame.cast(dict(types), strict=False).unique("device", keep="first", maintain_order=True).sort("device")  # type: ignore[arg-type]


def _cell(value: object, *, text: bool) -> str | int | None:
    """A text or an amount above nothing; None for what is neither."""
    if text:
        return value.encode("utf-8", "replace").decode()[:_LONGEST_NAME] or None if isinstance(value, str) else None
    return value if type(value) is int and 0 < value <= LARGEST else None


def add_marker(rows: Rows, function: str, message: object, start: int, end: int, pid: int, tid: int) -> None:
    """A roctx call as a range or mark, with its message for a name; the end of a range belongs to its begin."""
    plain = function.lower().rstrip("aw")
    if plain in _ENDS:
        return
    if plain == _MARK:
        rows.add("ranges", (start, NO, pid, tid, MARK, rows.name(message)))
    elif plain in _RANGES:
        rows.add("ranges", (start, end, pid, tid, _RANGES[plain], rows.name(message)))
    else:
        rows.unread["roctx calls"] += 1


def add_allocation(rows: Rows, operation: str, at: int, pid: int, agents: Agents, agent: int, told: Sequence[int]) -> None:
    """An allocation or its end; `told` are correlation, size [B] and address.  Address ranges without memory are not read."""
    found = _ALLOCATES.match(operation)
    if not found:
        rows.unread["other memory operations"] += 1
        return
    correlation, size, address = told
    freed = found[1] == "FREE"
    memory = {"GPU": MEMORY["device"], "CPU": MEMORY["pinned"]}.get(agents.kind.get(agent, ""), MEMORY["unknown"])
    # the profilers write 0 for what is freed
    size = NO if freed and size == 0 else size
    rows.add("allocations", (at, pid, agents.gpu(agent), correlation, size, FREED if freed else ALLOCATED, memory, address))
