"""Places of an edit in the program: the calls that it changes, by NVTX range, steps and kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.foundation.fields import Declared
from turnbuckle.questions.whatif.offered import Seen

#: Places that an edit names, those that take longest.
_NAMED: Final = 3


@dataclass(frozen=True)
class Place(Declared):
    """Calls or work of one edit that stand at one place of the program.

    Attributes
    ----------
    call : name of the host call; None for work that no recorded call started.
    range : the innermost range of the call's thread that is open when it begins; None outside all.
    steps : first and last number of the steps in which it begins; None where the recording numbers
        none there.
    kernel : of a launch what it starts, of a copy to the device what follows it on its stream, of
        one to the host what came before.
    count : how many there are; `seconds` what they took together as recorded [s].
    """

    call: str | None
    range: str | None
    steps: tuple[int, int] | None
    kernel: str | None
    count: int
    seconds: float


def places(seen: Seen, activities: Int) -> tuple[Place, ...]:
    """Return where some activities of the graph stand in the program, the places that take longest
    first.
    """
    if not len(activities):
        return ()
    work = ~np.isin(seen.ready.run.category[seen.piece[activities]], ("api", "mpi"))
    call = np.where(work, seen.caller[activities], activities)
    host, words = np.where(call >= 0, call, activities), seen.range_words
    rows = pl.DataFrame(
        {
            "call": [seen.name[c] or None if c >= 0 else None for c in call.tolist()],
            "range": [
                words[row] if row >= 0 else None
                for row in open_ranges(seen, host, seen.begins[host]).tolist()
            ],
            "step": _steps(seen, seen.begins[host]),
            "kernel": _kernels(seen, activities),
            "took": (seen.ends - seen.begins)[activities],
        },
        schema_overrides={
            "call": pl.String,
            "range": pl.String,
            "step": pl.Int64,
            "kernel": pl.String,
        },
    )
    table = rows.group_by("call", "range", "kernel", maintain_order=True).agg(
        first=pl.col("step").min(),
        last=pl.col("step").max(),
        count=pl.len(),
        took=pl.col("took").sum(),
    )
    table = table.sort("took", descending=True, maintain_order=True).head(_NAMED)
    return tuple(
        Place(
            r["call"],
            r["range"],
            None if r["first"] is None else (r["first"], r["last"]),
            r["kernel"],
            r["count"],
            r["took"] * 1e-9,
        )
        for r in table.iter_rows(named=True)
    )


def open_ranges(seen: Seen, calls: Int, times_ns: Int) -> Int:
    """Return the innermost range of each call's thread that is open at a time [ns after the run's
    start], by its row; -1 outside all.

    Ranges of one thread nest, so that of those open at an instant the last begun is the innermost.
    """
    ranges = seen.ranges
    out = np.full(len(calls), -1, dtype=np.int64)
    if not ranges.height:
        return out
    thread_of_track = dict(seen.profile.tracks.select("track", "thread").iter_rows())
    threads = np.array(
        [thread_of_track.get(t) or -1 for t in seen.track[calls].tolist()], dtype=np.int64
    )
    starts, ends = (ranges[c].to_numpy() - seen.profile.first_ns for c in ("start_ns", "end_ns"))
    of = ranges["thread"].fill_null(-2).to_numpy()
    for thread in np.unique(threads).tolist():
        begun = np.flatnonzero(of == thread)
        begun = begun[np.lexsort((-ends[begun], starts[begun]))]
        asked = np.flatnonzero(threads == thread)
        asked = asked[np.argsort(times_ns[asked], kind="stable")]
        # lists: a number of an array is an object of its own, made at each look
        start, end, row = (column.tolist() for column in (starts[begun], ends[begun], begun))
        stack: list[int] = []
        following = 0
        for number, time in zip(asked.tolist(), times_ns[asked].tolist(), strict=True):
            while following < len(row) and start[following] <= time:
                while stack and end[stack[-1]] <= start[following]:
                    stack.pop()
                stack.append(following)
                following += 1
            while stack and end[stack[-1]] <= time:
                stack.pop()
            out[number] = row[stack[-1]] if stack else -1
    return out


def _steps(seen: Seen, times_ns: Int) -> list[int | None]:
    """Return the number of the step in which each time lies; None outside all."""
    steps = seen.steps
    if not steps.height:
        return [None] * len(times_ns)
    starts, ends = (steps[c].to_numpy() - seen.profile.first_ns for c in ("start_ns", "end_ns"))
    number = steps["number"].to_list()
    rows = np.searchsorted(starts, times_ns, side="right") - 1
    return [
        number[k] if k >= 0 and time < ends[k] else None
        for k, time in zip(rows.tolist(), times_ns.tolist(), strict=True)
    ]


def _kernels(seen: Seen, activities: Int) -> list[str | None]:
    """Return the kernel that goes with each activity; None where none does."""
    started, behind, ahead = seen.kernels
    to_device = seen.kind[activities] == "copy_h2d"
    of = np.where(
        to_device,
        ahead[activities],
        np.where(seen.kind[activities] == "launch", started[activities], behind[activities]),
    )
    return [seen.name[k] or None if k >= 0 else None for k in of.tolist()]
