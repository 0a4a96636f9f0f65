"""``turnbuckle model idle``: the longest stretches in which a GPU waits, and how much of each the
host spent in calls to it.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import polars as pl
from cyclopts import Parameter

from turnbuckle.foundation.arrays import Int
from turnbuckle.show.terminal.model_answer import ModelAnswer
from turnbuckle.show.terminal.options import NO_PART, NoCache, PartOptions, Profile
from turnbuckle.show.terminal.recording import inspected, provenance_of
from turnbuckle.trace.trace import Trace

Top = Annotated[int, Parameter(help="how many stretches")]


def idle(
    profile: Profile, /, *, top: Top = 5, no_cache: NoCache = False, part: PartOptions = NO_PART
) -> ModelAnswer:
    """List the longest stretches in which a GPU waits, and how much of each the host spent in calls
    to it.
    """
    run = inspected(profile, None, no_cache, part)
    rows = sorted(
        (row for device in devices(run.trace) for row in gaps(run.trace, device)),
        key=lambda row: -row["seconds"],
    )[: max(top, 0)]
    document = {**provenance_of(run), "rows": rows}
    return ModelAnswer(document, rows, lambda console: console.note(_text(rows), style=""))


def devices(trace: Trace) -> list[int]:
    """Return the numbers of the devices that ran something."""
    return sorted(
        {
            int(d)
            for table in (trace.kernels, trace.copies)
            for d in table["device"].drop_nulls().unique()
        }
    )


def gaps(trace: Trace, device: int) -> list[dict[str, Any]]:
    """Return the stretches between the first and the last work of a device in which nothing runs
    there.

    A row has ``device``, ``start_seconds`` (from the device's first work), ``seconds``,
    ``called_seconds`` (time of it in which some thread was inside a call to the GPU) and ``next``:
    the kernel or copy that ends it.
    """
    kernels, copies = (
        table.filter(pl.col("device") == device) for table in (trace.kernels, trace.copies)
    )
    work = pl.concat(
        [
            kernels.select("start_ns", "end_ns", text=trace.text(kernels).fill_null("kernel")),
            copies.select("start_ns", "end_ns", text=pl.lit("copy")),
        ]
    ).sort("start_ns")
    start, end = (work[name].to_numpy() for name in ("start_ns", "end_ns"))
    busy_until = np.maximum.accumulate(end)
    (after,) = np.nonzero(start[1:] > busy_until[:-1])
    began, ended = busy_until[after], start[after + 1]
    called = covered(began, ended, *(trace.api[name].to_numpy() for name in ("start_ns", "end_ns")))
    return [
        {
            "device": device,
            "start_seconds": (b - start[0]) * 1e-9,
            "seconds": (e - b) * 1e-9,
            "called_seconds": c * 1e-9,
            "next": text,
        }
        for b, e, c, text in zip(
            began.tolist(),
            ended.tolist(),
            called.tolist(),
            work["text"][(after + 1).tolist()].to_list(),
            strict=True,
        )
    ]


def covered(began: Int, ended: Int, start: Int, end: Int) -> Int:
    """Return how much of each stretch, shape (stretches,), some interval covers [ns]; intervals are
    in order of their start.
    """
    if not len(start):
        return np.zeros_like(began)
    until = np.maximum.accumulate(end)
    # what each interval adds to the union of those before it
    added = np.maximum(until - np.maximum(start, np.concatenate([start[:1], until[:-1]])), 0)
    total = np.concatenate([[0], np.cumsum(added)])

    def union_up_to(t: Int) -> Int:
        count = np.searchsorted(start, t, side="right")
        over = np.where(count > 0, np.maximum(until[np.maximum(count - 1, 0)] - t, 0), 0)
        return np.asarray(total[count] - over)

    return union_up_to(ended) - union_up_to(began)


def _text(rows: list[dict[str, Any]]) -> str:
    lines = [f"{len(rows)} longest waits of a GPU"]
    for row in rows:
        share = row["called_seconds"] / row["seconds"]
        lines.append(
            f"device {row['device']}: {row['seconds'] * 1e3:.3f} ms before {row['next']}, "
            f"host in GPU calls for {share:.0%} of it"
        )
    return "\n".join(lines)
