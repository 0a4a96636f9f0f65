"""The profile: the activities of a run in their order, one row each.

`Profile` is a table and a time line; `summary`, `transfers`, `offload` and `placement` answer
questions about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Int, filled, returned
from turnbuckle.foundation.errors import needs
from turnbuckle.foundation.files import whole, write_parquet
from turnbuckle.foundation.findings import Finding, advised, finding, merge
from turnbuckle.foundation.schema import words
from turnbuckle.profile.alike import alike
from turnbuckle.profile.classify import (
    CALL_CLASS,
    CALL_CLASSES,
    CATEGORIES,
    CATEGORY,
    KIND,
    KIND_OF_CLASS,
    KINDS,
    call_classes,
    calls_wait,
)
from turnbuckle.profile.device_rows import device_rows
from turnbuckle.profile.exposure import between, exposed
from turnbuckle.profile.summary.noted import SEEN, noted
from turnbuckle.trace.bounds import DEVICE_TABLES, sound
from turnbuckle.trace.check import by_table, check, nested_calls
from turnbuckle.trace.ids import process_of
from turnbuckle.trace.intervals import covered_ns
from turnbuckle.trace.intervals import merge as merge_intervals
from turnbuckle.trace.recorders import recorder_of
from turnbuckle.trace.trace import Trace
from turnbuckle.trace.window import numbered_steps

DIRECTIONS = words("directions")
MEMORIES = words("memories")

#: Kind of each copy direction code.
KIND_OF_DIRECTION = {
    "h2d": "copy_h2d",
    "d2h": "copy_d2h",
    "d2d": "copy_d2d",
    "p2p": "copy_p2p",
    "h2h": "copy_h2h",
    "unknown": "copy_h2h",
    "migration_h2d": "migration",
    "migration_d2h": "migration",
    "migration_d2d": "migration",
}

#: Stands for what is not recorded where rows are numbered.
_NO_NUMBER = int(np.iinfo(np.int64).min)
#: Columns of words.
ENUMS = {
    "kind": pl.Enum(KINDS),
    "category": pl.Enum(CATEGORIES),
    "call_class": pl.Enum(CALL_CLASSES),
    "direction": pl.Enum(DIRECTIONS),
    "memory": pl.Enum(MEMORIES),
}


@dataclass(frozen=True)
class Profile:
    """A run: its activities, its time line, its flaws.

    Attributes
    ----------
    trace : recording without the rows that were set aside.
    activities : one row for each activity; columns in ``schema/profile.csv``.  ``exposed_ns`` adds
        up to ``run_time_ns`` exactly.
    tracks : host threads and device streams.
    first_ns, last_ns : first and last instant of any activity, on the recording's clock [ns].
    findings : counted flaws of the recording and of its reading.
    """

    trace: Trace
    activities: pl.DataFrame
    tracks: pl.DataFrame
    first_ns: int
    last_ns: int
    findings: list[Finding] = field(default_factory=list)

    @property
    def run_time_ns(self) -> int:
        """Return the run time [ns]: first instant of any recorded activity to the last."""
        return self.last_ns - self.first_ns

    @property
    def seconds(self) -> float:
        """Return the run time [s]."""
        return self.run_time_ns * 1e-9

    @cached_property
    def has(self) -> frozenset[str]:
        """Return the kinds of activity that occur, and the trace's tables that have rows."""
        return frozenset(self.activities["kind"].unique().cast(pl.String).to_list()) | frozenset(
            self.trace.has
        )

    @cached_property
    def device_rows(self) -> dict[str, Any] | None:
        """Return the counts of rows on devices, and of those that name their call
        (`turnbuckle.profile.summary.coverage.coverage`).
        """
        return device_rows(self.trace)

    def of(self, *kinds: str) -> pl.DataFrame:
        """Return the activities of some kinds."""
        return self.activities.filter(pl.col("kind").is_in(list(kinds)))

    def to_pandas(self) -> Any:
        """Return the activities as a pandas frame, with names in place of indices (needs pandas and
        pyarrow).
        """
        with needs("pandas"):
            return self.table().to_pandas()

    def to_arrow(self) -> Any:
        """Return the activities as a pyarrow table, with names in place of indices (needs
        pyarrow).
        """
        with needs("pandas"):
            return self.table().to_arrow()

    def to_parquet(self, path: str | Path) -> None:
        """Write the activities, with names in place of indices, as one Parquet file.  Raises
        `ReportError` R001 to R004.
        """
        with whole(path, "the table") as draft:
            write_parquet(self.table(), draft)

    def table(self) -> pl.DataFrame:
        """Return the activities with names in place of indices."""
        return self.activities.with_columns(name=self.trace.text(self.activities))


def build(trace: Trace) -> Profile:
    """Turn a recording into a profile.

    Rows that cannot be trusted (end before start, lost time stamps, times outside the recording)
    are set aside first and counted as findings.  Every other row becomes exactly one activity.
    Host time that no row explains becomes `gap`.
    """
    tables, set_aside = sound(trace.tables, trace.facts)
    trace = replace(trace, tables={name: frame for name, frame in tables.items() if frame.height})
    inner = nested_calls(trace.api)
    flaws = check(trace.tables, trace.facts, trace.names, trace.launch_pairs, inner)
    findings = advised(merge([*trace.findings, *set_aside, *flaws]), recorder_of(trace.facts))
    rows = _recorded(trace, inner)
    first, last = _span(rows, trace)
    rows, tracks = _tracked(pl.concat([rows, _gaps(rows, first, last)], how="diagonal"))
    start, end, delivered = (
        rows["start_ns"].to_numpy(),
        rows["end_ns"].to_numpy(),
        filled(rows["delivered_ns"], _NO_NUMBER),
    )
    reach = np.maximum(end, delivered)
    felt = np.maximum(np.where(delivered == _NO_NUMBER, end, delivered), start + 1)
    exposed_ns, tail, _ = exposed(
        start, reach, rows["level"].to_numpy().astype(np.int8), felt, lambda: _tie(rows)
    )
    gap = rows["kind"].to_numpy() == KIND["gap"]
    ranges = naming_ranges(trace)
    alone = host_only_ns(start[~gap], reach[~gap], first, last)
    unnamed = (
        alone[1]
        - alone[0]
        - covered_ns(
            *alone, *merge_intervals(ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy())
        )
    )
    if unexplained := int(unnamed.sum()):
        findings = merge(
            [
                *findings,
                finding(
                    "P205",
                    int((unnamed > 0).sum()),
                    f"{unexplained / max(last - first, 1):.1%} of run time",
                ),
            ]
        )
    if (notes := noted(trace)).share(last - first) >= SEEN:
        findings = merge([*findings, finding("P261", notes.count, notes.in_words(last - first))])
    activities = rows.select(
        *_words(),
        "track",
        "start_ns",
        "end_ns",
        pl.Series("seconds", (reach - start) * 1e-9),
        pl.Series("exposed_ns", exposed_ns),
        pl.Series("tail_exposed", tail),
        "size_bytes",
        "idle_device",
        "delivered_ns",
        "name",
        "row",
    )
    del start, end, delivered, reach, felt, exposed_ns, tail, gap, alone, unnamed
    returned(activities.height)
    return Profile(trace, activities, tracks, first, last, findings)


def naming_ranges(trace: Trace) -> pl.DataFrame:
    """Return the ranges that name host work: those with an end and a name, except ranges that only
    number a step.
    """
    if not trace.ranges.height:
        return trace.ranges
    steps = numbered_steps(trace)
    ranges = trace.ranges.filter(pl.col("end_ns").is_not_null() & pl.col("name").is_not_null())
    if not steps.height:
        return ranges
    return ranges.join(
        steps.select("start_ns", "end_ns", "name"),
        on=["start_ns", "end_ns", "name"],
        how="anti",
        maintain_order="left",
    )


def host_only_ns(start: Int, reach: Int, first: int, last: int) -> tuple[Int, Int]:
    """Return the intervals in which the run does host work only [ns], which no recorded activity
    covers until its work is delivered.
    """
    start, reach = merge_intervals(start, reach)
    begins, ends = np.concatenate(([first], reach)), np.concatenate((start, [last]))
    return begins[ends > begins], ends[ends > begins]


@cache
def _words() -> list[pl.Expr]:
    """Return the columns of codes as words; a code without a word is unknown."""
    columns = []
    for column, enum in ENUMS.items():
        code = pl.col(column).cast(pl.Int64)
        valid = pl.when(code.is_between(0, len(enum.categories) - 1)).then(code).cast(pl.UInt32)
        columns.append(pl.lit(pl.Series(enum.categories, dtype=enum)).gather(valid).alias(column))
    return columns


def _recorded(trace: Trace, inner: Bool) -> pl.DataFrame:
    """Return one row per recorded activity, in the common columns.  `inner` marks the calls inside
    other calls.
    """
    return pl.concat(
        [_empty(), *_device_parts(trace), _host_part(trace, inner), _mpi_part(trace)],
        how="diagonal",
    )


@cache
def _empty() -> pl.DataFrame:
    codes = dict.fromkeys(
        ("kind", "category", "call_class", "direction", "memory", "level"), pl.Int8
    )
    times = dict.fromkeys(("start_ns", "end_ns", "size_bytes"), pl.Int64) | {
        "idle_device": pl.Boolean,
        "delivered_ns": pl.Int64,
    }
    places = {"process": pl.Int64, "thread": pl.Int64, "device": pl.Int32, "stream": pl.Int32}
    return pl.DataFrame(schema={**codes, **times, "name": pl.Int32, "row": pl.Int32, **places})


def _rows(frame: pl.DataFrame, **columns: Any) -> pl.DataFrame:
    """Return the rows of one source table in the common columns, without those that it lacks; one
    given as None counts as lacking.
    """
    if not frame.height:
        return _empty()
    dtypes = _empty().schema
    cells = {c: pl.col(c) for c in ("row", *frame.columns) if c in dtypes} | columns
    cells = {
        c: v.cast(dtypes[c]) if isinstance(v, pl.Expr) else pl.lit(v, dtypes[c])
        for c, v in cells.items()
        if v is not None
    }
    return frame.with_row_index("row").select(**cells)


def _device_parts(trace: Trace) -> list[pl.DataFrame]:
    """Return the kernels, graphs, sets and copies; time-line level 0 computes, level 1 moves
    data.
    """
    compute = {"category": CATEGORY["kernel"], "level": 0}
    kind, memory = _copy_columns()
    return [
        _rows(trace.kernels, kind=KIND["kernel"], **compute),
        _rows(trace.graphs, kind=KIND["kernel"], name=None, **compute),
        _rows(trace.memsets, kind=KIND["memset"], memory=None, **compute),
        _rows(trace.copies, kind=kind, memory=memory, category=CATEGORY["copy"], level=1),
    ]


@cache
def _copy_columns() -> tuple[pl.Expr, pl.Expr]:
    """Return the kind of each copy by its direction, and the memory at its end on the host."""
    direction = pl.col("direction")
    kind = direction.cast(pl.Int64).replace_strict(
        {i: KIND[KIND_OF_DIRECTION[w]] for i, w in enumerate(DIRECTIONS)}
    )
    return kind, pl.when(direction == 1).then("source_memory").when(direction == 2).then(
        "target_memory"
    )


def _host_part(trace: Trace, inner: Bool) -> pl.DataFrame:
    """Return the host calls; a call that finds its device idle lasts until its work begins.

    A driver call inside a runtime call does the runtime's work: it stays a row, but only the outer
    call crosses to the device.
    """
    api = trace.api
    if not api.height:
        return _empty()
    launched = by_table(trace.launch_pairs)
    classes = call_classes(api["name"], trace.names)
    kinds = np.array([KIND[KIND_OF_CLASS.get(w, "api")] for w in CALL_CLASSES], dtype=np.int8)[
        classes
    ]
    kinds[calls_wait(api["name"], trace.names) & ~_copies_on_device(trace, launched["copies"])] = (
        KIND["sync"]
    )
    kinds[inner] = KIND["api"]
    delivered, linked, idle = _deliveries(trace, launched)
    # launches come before other calls on the time line, so that the wait for an idle device counts
    # as launch, not as the sync behind it
    level = np.where((classes == CALL_CLASS["launch"]) & ~inner, 3, 4).astype(np.int8)
    return _rows(
        api,
        kind=pl.lit(pl.Series(kinds)),
        call_class=pl.when(pl.Series(~inner)).then(pl.Series(classes)),
        category=CATEGORY["api"],
        level=pl.lit(pl.Series(level)),
        idle_device=pl.when(pl.Series(linked & ~inner)).then(pl.Series(idle)),
        delivered_ns=pl.when(pl.Series(idle & ~inner)).then(pl.Series(delivered)),
    )


def _copies_on_device(trace: Trace, pairs: pl.DataFrame) -> Bool:
    """Return the calls that copy inside one device, for which the host does not wait, whatever
    their name.
    """
    inside = trace.copies["direction"].to_numpy()[pairs["row"].to_numpy()] == DIRECTIONS.index(
        "d2d"
    )
    mask = np.zeros(trace.api.height, dtype=np.bool_)
    mask[pairs["api_row"].to_numpy()[inside]] = True
    return mask


def _deliveries(trace: Trace, launched: dict[str, pl.DataFrame]) -> tuple[Int, Bool, Bool]:
    """Return for each host call the begin of its first work [ns], whether it started any, and
    whether its device was idle until then.
    """
    tables = [trace.table(name) for name in launched]
    start, end = (
        np.concatenate([f[c].to_numpy() for f in tables]).astype(np.int64)
        for c in ("start_ns", "end_ns")
    )
    # in merged recordings, a device's number means something inside one process only
    places = ("process", "device") if trace.table("processes").height else ("device",)
    of_device, devices = alike(
        *(np.concatenate([filled(f[c], -1) for f in tables]) for c in places)
    )
    offsets = np.cumsum([0, *(f.height for f in tables)])
    row = np.concatenate(
        [
            pairs["row"].to_numpy() + offset
            for pairs, offset in zip(launched.values(), offsets, strict=False)
        ]
    )
    call, called = (
        trace.launch_pairs["api_row"].to_numpy(),
        trace.launch_pairs["call_start_ns"].to_numpy(),
    )
    began, free = start[row], np.zeros(len(row), dtype=np.bool_)
    for number in range(len(devices)):
        mask, work = of_device[row] == number, of_device == number
        busy = merge_intervals(start[work], end[work])
        free[mask] = covered_ns(called[mask], np.maximum(began[mask], called[mask]), *busy) == 0
    order = np.lexsort((~free, began, call))
    call, began, free = call[order], began[order], free[order]
    first = np.flatnonzero(np.diff(call, prepend=-1))
    delivered = np.full(trace.api.height, -1, dtype=np.int64)
    linked, idle = (
        np.zeros(trace.api.height, dtype=np.bool_),
        np.zeros(trace.api.height, dtype=np.bool_),
    )
    linked[call[first]] = True
    idle[call[first]] = free[first]
    delivered[call[first]] = np.maximum(began[first], trace.api["start_ns"].to_numpy()[call[first]])
    return delivered, linked, idle


def _tie(rows: pl.DataFrame) -> Int:
    """Return a sort key for activities of one level that begin and end together, so that the order
    of rows does not matter.
    """
    tie = np.zeros(rows.height, dtype=np.int64)
    for column in ("kind", "direction", "memory", "call_class", "idle_device"):
        tie = tie * 16 + filled(rows[column].cast(pl.Int64), -1) + 1
    size = np.clip(filled(rows["size_bytes"], 0), 0, (1 << 43) - 1)
    key: Int = (tie << 43) + size
    return key


def device_busy(
    trace: Trace,
    device: int | None = None,
    tables: tuple[str, ...] = DEVICE_TABLES,
    process: int | None = None,
) -> tuple[Int, Int]:
    """Return the merged busy intervals [ns] of one device (of one process), or of all: starts and
    ends, disjoint and sorted.
    """
    chosen = [trace.table(t) for t in tables]
    if process is not None:
        chosen = [f.filter(pl.col("process").fill_null(-1) == process) for f in chosen]
    if device is not None:
        chosen = [f.filter(pl.col("device").fill_null(-1) == device) for f in chosen]
    starts = np.concatenate([f["start_ns"].to_numpy() for f in chosen]).astype(np.int64)
    ends = np.concatenate([f["end_ns"].to_numpy() for f in chosen]).astype(np.int64)
    return merge_intervals(starts, ends)


def _mpi_part(trace: Trace) -> pl.DataFrame:
    return _rows(
        trace.mpi,
        kind=KIND["mpi"],
        category=CATEGORY["mpi"],
        level=2,
        process=process_of(pl.col("thread")),
    )


def _span(rows: pl.DataFrame, trace: Trace) -> tuple[int, int]:
    """Return the first and last instant [ns] of all activities, or of the host-side records without
    any; for a part also of its bounds.
    """
    frames = (
        [rows]
        if rows.height
        else [
            f
            for f in (trace.os_calls, trace.ranges.filter(pl.col("end_ns").is_not_null()))
            if f.height
        ]
    )
    first = [int(f["start_ns"].to_numpy().min()) for f in frames]
    last = [int(f["end_ns"].to_numpy().max()) for f in frames]
    if bounds := trace.facts.get("part", {}).get("bounds_ns"):
        first, last = [*first, bounds[0]], [*last, bounds[1]]
    return (min(first), max(last)) if first else (0, 0)


def _gaps(rows: pl.DataFrame, first: int, last: int) -> pl.DataFrame:
    """Return the host time between the calls of each thread, and all instants of the run that
    nothing covers.
    """
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    places = rows.select(
        pl.col("process", "thread").fill_null(_NO_NUMBER), of_thread=pl.col("thread").is_not_null()
    )
    process, thread, of_thread = (places[c].to_numpy() for c in places.columns)
    host = np.flatnonzero(of_thread)
    number, heads = alike(process[host], thread[host])
    groups = (
        np.split(host[np.argsort(number, kind="stable")], np.cumsum(np.bincount(number))[:-1])
        if len(host)
        else []
    )
    # a thread's calls and the gaps between them cover it from its first call to its last
    spans = [(int(start[calls].min()), int(end[calls].max())) for calls in groups]
    gaps = [
        between(start[calls], end[calls], *span) for calls, span in zip(groups, spans, strict=True)
    ]
    alone, covered = ~of_thread, np.array(spans, dtype=np.int64).reshape(-1, 2)
    gaps.append(
        between(
            np.append(start[alone], covered[:, 0]),
            np.append(end[alone], covered[:, 1]),
            first,
            last,
        )
    )
    group = np.repeat(np.arange(len(gaps)), [len(begins) for begins, _ in gaps])
    starts, ends = (np.concatenate(times) for times in zip(*gaps, strict=True))
    in_thread = pl.Series(group < len(groups))
    return _rows(
        pl.DataFrame({"start_ns": starts, "end_ns": ends}),
        kind=KIND["gap"],
        category=CATEGORY["cpu"],
        process=pl.when(in_thread).then(pl.Series(np.append(process[host[heads]], 0)[group])),
        thread=pl.when(in_thread).then(pl.Series(np.append(thread[host[heads]], 0)[group])),
        level=pl.when(in_thread).then(5).otherwise(6),
        row=None,
    )


def _tracked(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Number the tracks: host threads, device streams, and one for time outside all threads."""
    keys = ["process", "thread", "device", "stream"]
    places = rows.select(pl.col(keys).cast(pl.Int64).fill_null(_NO_NUMBER))
    number, first = alike(*(places[key].to_numpy() for key in keys))
    thread, stream = pl.col("thread").is_not_null(), pl.col("device").is_not_null()
    what = (
        pl.when(thread)
        .then(pl.lit("thread"))
        .when(stream)
        .then(pl.lit("stream"))
        .otherwise(pl.lit("host"))
    )
    tracks = rows[keys][first].select(
        pl.Series("track", np.arange(len(first), dtype=np.int32)), what.alias("what"), *keys
    )
    return rows.hstack([pl.Series("track", number.astype(np.int32))]), tracks
