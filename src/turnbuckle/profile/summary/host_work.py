"""Host work by the open range of the program or its framework: NVTX ranges, annotations and
operators of PyTorch, Python functions.

On the exclusive time line an instant is host work if nothing else is recorded: no kernel, no copy,
no MPI, no call of the GPU runtime. Of the ranges that are open at such an instant, on all threads,
the one that began last names it.  A range that only numbers a step
(`turnbuckle.trace.window.numbered_steps`) names none.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.profile.profile import Profile, host_only_ns, naming_ranges
from turnbuckle.trace.window import marked

#: PyTorch's emit_nvtx numbers each call behind the operator's name: ``aten::mul, seq = 12, op_id =
#: 34``.
SERIAL: Final = r"(?:, seq = \d{1,20})?(?:, op_id = \d{1,20})?$"


def host_work(profile: Profile, *, annotations: bool = False) -> pl.DataFrame:
    """Return the exposed host work by range: name, number of ranges, seconds; longest first.  Time
    outside all ranges has no name.

    The seconds add up to the category ``cpu`` of the run.  With `annotations`, operators of PyTorch
    and Python functions are no ranges, so that their time is that of the annotation around them.
    """
    ranges = naming_ranges(profile.trace)
    ranges = marked(ranges) if annotations else ranges
    recorded = profile.activities.filter(pl.col("kind") != "gap")
    reach = recorded.select(pl.max_horizontal("end_ns", "delivered_ns")).to_series().to_numpy()
    idle = host_only_ns(recorded["start_ns"].to_numpy(), reach, profile.first_ns, profile.last_ns)
    spent = _innermost(*(_until(ranges[c].to_numpy(), idle) for c in ("start_ns", "end_ns")))
    total = int((idle[1] - idle[0]).sum())
    rows = ranges.select("name", spent=pl.Series(spent, dtype=pl.Int64)).with_row_index("place")
    # of a million ranges few names are different
    by_name = rows.group_by("name").agg(
        count=pl.len().cast(pl.Int64), spent=pl.col("spent").sum(), place=pl.col("place").min()
    )
    by_name = by_name.with_columns(name=profile.trace.text(by_name).str.replace(SERIAL, ""))
    named = by_name.group_by("name").agg(pl.col("count", "spent").sum(), pl.col("place").min())
    rest = pl.DataFrame(
        {"name": [None], "count": [None], "spent": [total - int(spent.sum())], "place": [0]},
        schema=named.schema,
    )
    table = pl.concat([named, rest]).filter(pl.col("spent") > 0)
    # of equal ones the first to occur comes first: names may be hashes
    return table.sort("spent", "place", "name", descending=[True, False, False]).select(
        "name", "count", seconds=pl.col("spent") * 1e-9
    )


def described(profile: Profile, most: int = 50) -> dict[str, Any] | None:
    """Return ``profile.host_work`` of ``inspect``: host work inside and outside ranges, and the
    `most` ranges with the most of it.

    None where the recording names no ranges.  ``annotations`` is the same by annotations alone,
    where operators run inside them.
    """
    ranges = naming_ranges(profile.trace)
    if not ranges.height:
        return None
    both = 0 < marked(ranges).height < ranges.height
    return _described(host_work(profile), most) | {
        "annotations": _described(host_work(profile, annotations=True), most) if both else None
    }


def _described(table: pl.DataFrame, most: int) -> dict[str, Any]:
    named = table.filter(pl.col("name").is_not_null())
    outside = float(table.filter(pl.col("name").is_null())["seconds"].sum())
    return {
        "named_s": float(named["seconds"].sum()),
        "unnamed_s": outside,
        "distinct": named.height,
        "ranges": named.head(most).to_dicts(),
    }


def _innermost(start: Int, end: Int) -> Int:
    """Return the idle time that each range names [ns]: at each instant the open range that began
    last names it.

    Times are idle time before begin and end [ns]; ranges are in ascending order of their begins.
    """
    spent = np.zeros(len(start), dtype=np.int64)
    worth = np.flatnonzero(end > start)
    begins, ends = start[worth].tolist(), end[worth].tolist()
    named = [0] * len(worth)
    open_ranges: list[int] = []
    time = 0
    for number, begin in chain(enumerate(begins), [(-1, max(ends, default=0))]):
        # what is open until the next range begins, the last begun first; one that has ended under
        # another is dropped when it comes up
        while open_ranges and time < begin:
            last = open_ranges[-1]
            until = min(ends[last], begin)
            if until > time:
                named[last] += until - time
                time = until
            if ends[last] <= time:
                open_ranges.pop()
        time = max(time, begin)
        open_ranges.append(number)
    spent[worth] = named
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
