"""Host work by the open range of the program or its framework: NVTX ranges, annotations and operators of PyTorch.

On the exclusive time line an instant is host work if nothing else is recorded: no kernel, no copy, no MPI, no call of the GPU runtime.
Of the ranges that are open at such an instant, on all threads, the one that began last names it.  A range that only numbers a step
(`turnbuckle.trace.window.numbered_steps`) names none.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.profile.profile import Profile, host_only_ns, naming_ranges

#: PyTorch's emit_nvtx numbers each call behind the operator's name: ``aten::mul, seq = 12, op_id = 34``.
SERIAL: Final = r"(?:, seq = \d{1,20})?(?:, op_id = \d{1,20})?$"


def host_work(profile: Profile) -> pl.DataFrame:
    """Return the exposed host work by range: name, number of ranges, seconds; longest first.  Time outside all ranges has no name.

    The seconds add up to the category ``cpu`` of the run.
    """
    ranges = naming_ranges(profile.trace)
    recorded = profile.activities.filter(pl.col("kind") != "gap")
    reach = recorded.select(pl.max_horizontal("end_ns", "delivered_ns")).to_series().to_numpy()
    idle = host_only_ns(recorded["start_ns"].to_numpy(), reach, profile.first_ns, profile.last_ns)
    start, end = (ranges[c].to_numpy() for c in ("start_ns", "end_ns"))
    spent = _innermost(start, end, idle)
    total = int((idle[1] - idle[0]).sum())
    names = profile.trace.text(ranges).str.replace(SERIAL, "")
    rows = ranges.select(name=names).with_columns(spent=pl.Series(spent, dtype=pl.Int64))
    named = rows.group_by("name").agg(count=pl.len().cast(pl.Int64), spent=pl.col("spent").sum())
    rest = pl.DataFrame({"name": [None], "count": [None], "spent": [total - int(spent.sum())]}, schema=named.schema)
    table = pl.concat([named, rest]).filter(pl.col("spent") > 0)
    return table.sort("spent", "name", descending=[True, False]).select("name", "count", seconds=pl.col("spent") * 1e-9)


def described(profile: Profile, most: int = 50) -> dict[str, Any] | None:
    """Return ``profile.host_work`` of ``inspect``: host work inside and outside ranges, and the `most` ranges with the most of it.

    None where the recording names no ranges.
    """
    if not naming_ranges(profile.trace).height:
        return None
    table = host_work(profile)
    named = table.filter(pl.col("name").is_not_null())
    outside = float(table.filter(pl.col("name").is_null())["seconds"].sum())
    return {"named_s": float(named["seconds"].sum()), "unnamed_s": outside, "distinct": named.height, "ranges": named.head(most).to_dicts()}


def _innermost(start: Int, end: Int, idle: tuple[Int, Int]) -> Int:
    """Return the idle time that each range names [ns]: at each instant the open range that began last names it.

    Ranges are in ascending order of their starts.
    """
    spent = np.zeros(len(start), dtype=np.int64)
    worth = np.flatnonzero(_until(end, idle) > _until(start, idle))
    begins, ends = start[worth].tolist(), end[worth].tolist()
    open_ranges: list[int] = []
    pieces: list[tuple[int, int, int]] = []
    time = 0
    for number, begin in [*enumerate(begins), (-1, max(ends, default=0))]:
        # what is open until the next range begins, the last begun first; one that has ended under another is dropped when it comes up
        while open_ranges and time < begin:
            last = open_ranges[-1]
            if ends[last] <= time:
                open_ranges.pop()
                continue
            until = min(ends[last], begin)
            pieces.append((last, time, until))
            time = until
        time = max(time, begin)
        if number >= 0:
            open_ranges.append(number)
    if pieces:
        owner, first, last_instant = np.array(pieces, dtype=np.int64).T
        np.add.at(spent, worth[owner], _until(last_instant, idle) - _until(first, idle))
    return spent


def _until(times: Int, idle: tuple[Int, Int]) -> Int:
    """Return the idle time before each time [ns]."""
    starts, ends = idle
    if not len(starts):
        return np.zeros(len(times), dtype=np.int64)
    before = np.concatenate(([0], np.cumsum(ends - starts)))
    entered = np.searchsorted(starts, times, side="right")
    last = np.maximum(entered - 1, 0)
    out: Int = np.where(entered > 0, before[last] + np.minimum(times, ends[last]) - starts[last], 0)
    return out
