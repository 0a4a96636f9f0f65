"""Values that cannot be: times outside a recording, sizes that no link moves, launches and devices
that no GPU has.

`sound` takes them out before anything enters a sum, a fit or a path: a row where its times cannot
be, one value where the rest of its row can.  It works on the tables of ``schema/trace.csv`` alone,
so that it treats the output of every reader alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Float, Int, filled
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.schema import table_rows, words
from turnbuckle.foundation.schema import tables as schema_tables

Tables = Mapping[str, pl.DataFrame]

#: Tables whose rows run on a device and were started by a host call.
DEVICE_TABLES: Final = ("kernels", "copies", "memsets", "graphs")
#: Tables whose times the host wrote itself; a device's clock cannot spoil them.
HOST_TABLES: Final = ("api", "mpi", "os_calls", "ranges", "scheduling")
#: Largest time that any recording can hold [ns]: exact as a float64, and 104 days.
LARGEST_NS: Final = 2**53
HOUR_NS: Final = 3_600_000_000_000
SECOND_NS: Final = 1_000_000_000
#: Records may follow the end of a session by this much [ns]: buffers are flushed, and threads end.
_FLUSH_NS: Final = 10 * SECOND_NS
#: Coarsest clock of any recorder [ns]: PyTorch before 2.3 wrote whole microseconds.
_TICK_NS: Final = 1_000
#: Rates that no copy reaches [B/s]: twice what the fastest link gives one way (NVLink 5 between
#: GPUs, 900 GB/s; NVIDIA, GB200 NVL72 data sheet), and inside a device twice the fastest memory
#: (8.19 TB/s: AMD Instinct MI350X, whose file names its source).
LINK_RATE: Final = 1.8e12
MEMORY_RATE: Final = 16.38e12
#: Thread blocks that no GPU begins in a second: twice one block a clock on each of 304 compute
#: units at 2.1 GHz (AMD, MI300X).
BLOCK_RATE: Final = 1.3e12
_SAMPLE_ROWS: Final = 200_000


# --- rows whose times cannot be -------------------------------------------------------------------


def sound(
    tables: Tables, facts: Mapping[str, Any]
) -> tuple[dict[str, pl.DataFrame], list[Finding]]:
    """Set aside what cannot be: rows by their times, then single values of the rows that stay.

    A row is set aside for one reason, the first of these that holds:

    - P102, no time: a start or end that the table requires is missing; the end is 0 and the start
      is not negative; or the start is 0 where everything else happens more than an hour later.
    - P103, beyond 2^53 ns either side of zero.
    - P101, end before start.
    - P103, far from the recording: the time lies outside the session (fact
      ``analysis_duration_ns``, where the file states it).  It also lies further from the bulk of
      starts (1st to 99th percentile over all tables) than ten times the bulk's length and than an
      hour. Of a session that holds the bulk, ten seconds and its own length are far enough. Such a
      row stays where rows of another table have times within an hour of it, and one of these tables
      has the host's times.
    - P241, a device activity that is farther from all host calls than these last.

    A value is read as not recorded (P240) where no machine can have it: `BOUNDS`, and sizes beyond
    the device's memory.

    Parameters
    ----------
    tables : tables of ``schema/trace.csv`` by name [ns]; tables without times pass unchanged.

    Returns the tables without those rows and values (the same frames where nothing is wrong), and
    at most one finding per code.  Every row is either in the tables returned or in a finding's
    count.
    """
    low, high, zero_is_lost = _plausible(tables, facts)
    verdicts = {
        name: _verdict(name, frame, low, high, zero_is_lost)
        for name, frame in tables.items()
        if _time_columns(frame)
    }
    _believe_agreeing(tables, verdicts, low, high)
    kept: dict[str, pl.DataFrame] = {}
    lost: dict[str, dict[str, int]] = {"P101": {}, "P102": {}, "P103": {}}
    for name, frame in tables.items():
        verdict = verdicts.get(name)
        if verdict is None or not verdict.any():
            kept[name] = frame
            continue
        for code, marks in (("P101", (_BACKWARDS,)), ("P102", (_LOST,)), ("P103", (_WILD, _FAR))):
            if count := int(np.isin(verdict, marks).sum()):
                lost[code][name] = count
        kept[name] = frame.filter(pl.Series(verdict == _GOOD))
    if "part" not in facts:  # a stretch may hold work whose calls lie before it
        lost["P241"] = _far_from_calls(kept)
    lost["P240"] = _impossible(kept)
    return kept, [
        finding(code, sum(counts.values()), by_name(counts))
        for code, counts in lost.items()
        if counts
    ]


_GOOD, _BACKWARDS, _LOST, _WILD, _FAR = range(5)


def _plausible(tables: Tables, facts: Mapping[str, Any]) -> tuple[int, int, bool]:
    """Return the bounds of believable times [ns], and whether a start of 0 can only be a lost
    stamp.
    """
    total = sum(frame.height for frame in tables.values())
    stride = max(1, total // _SAMPLE_ROWS)
    samples, first, last = [], LARGEST_NS, 0
    for frame in tables.values():
        columns = _time_columns(frame)
        if not columns or not frame.height:
            continue
        start = frame[columns[0]]
        every = _whole(start)
        sample = every if stride == 1 else _whole(start.gather_every(stride))
        samples.append(sample[_stamped(sample)])
        first = int(every.min(where=_stamped(every), initial=first))
        ends = frame[columns[-1]].max()
        last = max(last, ends if isinstance(ends, int) else 0)
    starts = np.sort(np.concatenate(samples)) if samples else np.zeros(0, np.int64)
    if starts.size < 3:
        return -LARGEST_NS, LARGEST_NS, False
    bulk_low = int(starts[-(-(starts.size - 1) // 100)])
    bulk_high = int(starts[(starts.size - 1) * 99 // 100])
    margin = max(10 * (bulk_high - bulk_low), HOUR_NS)
    low, high = bulk_low - margin, bulk_high + margin
    duration = facts.get("analysis_duration_ns")
    if isinstance(duration, int) and 0 < duration <= LARGEST_NS and duration != last:
        outside = duration + _FLUSH_NS
        holds = bulk_low >= 0 and bulk_high <= duration
        low, high = (-outside, duration + outside) if holds else (min(low, 0), max(high, duration))
    # `low` limits `first`: one stray row before the bulk must not make a lost 0 look like the
    # session's begin
    return low, high, max(first, low) > HOUR_NS


def _whole(column: pl.Series) -> Int:
    """Return the values of a column that are not missing."""
    return (column.drop_nulls() if column.null_count() else column).to_numpy()


def _stamped(times: Int) -> Bool:
    """Return which times [ns] a clock can have written."""
    return np.asarray((times >= -LARGEST_NS) & (times <= LARGEST_NS) & (times != 0))


def _all_good(times: list[pl.Series], low: int, high: int, zero_is_lost: bool) -> bool:
    """Return whether no row of a table can be set aside, from its times [ns] at a glance: so are
    nearly all tables.
    """
    if any(column.null_count() for column in times) or not len(times[0]):
        return not len(times[0])
    start, end = times[0].to_numpy(), times[-1].to_numpy()
    least = start.min()
    if (zero_is_lost and least <= 0) or (len(times) == 2 and end.min() <= 0):
        return False
    inside = least >= max(low, -LARGEST_NS) and end.max() <= min(high, LARGEST_NS)
    return bool(inside and (end >= start).all())


def _verdict(
    name: str, frame: pl.DataFrame, low: int, high: int, zero_is_lost: bool
) -> NDArray[np.int8]:
    """Return one mark per row: `_GOOD`, or the first reason to set the row aside."""
    columns = _time_columns(frame)
    if _all_good([frame[c] for c in columns], low, high, zero_is_lost):
        return np.zeros(frame.height, np.int8)
    required = [
        c.name for c in schema_tables().get(name, ()) if c.name in columns and not c.nullable
    ]
    start, end = pl.col(columns[0]), pl.col(columns[-1])
    lost = pl.any_horizontal(pl.lit(False), *(pl.col(c).is_null() for c in required))
    if zero_is_lost:
        lost = lost | (start == 0)
    if len(columns) == 2:
        lost = lost | ((end == 0) & (start >= 0))
    wild = pl.any_horizontal(~pl.col(c).is_between(-LARGEST_NS, LARGEST_NS) for c in columns)
    far = pl.any_horizontal(~pl.col(c).is_between(low, high) for c in columns)
    mark = (
        pl.when(lost)
        .then(_LOST)
        .when(wild)
        .then(_WILD)
        .when(end < start)
        .then(_BACKWARDS)
        .when(far)
        .then(_FAR)
        .otherwise(_GOOD)
    )
    return frame.select(mark.cast(pl.Int8)).to_series().to_numpy(writable=True)


def _believe_agreeing(
    tables: Tables, verdicts: Mapping[str, NDArray[np.int8]], low: int, high: int
) -> None:
    """Clear the mark `_FAR` of rows whose times rows of another table confirm, if the host's clock
    wrote one of these tables.
    """
    names = [name for name, verdict in verdicts.items() if (verdict == _FAR).any()]
    if len(names) < 2 or not set(names) & set(HOST_TABLES):
        return
    times, table, row = [], [], []
    for number, name in enumerate(names):
        rows = np.flatnonzero(verdicts[name] == _FAR)
        frame = tables[name]
        for column in _time_columns(frame):
            stamps = frame[column].gather(rows).fill_null(low).to_numpy()
            outside = (stamps < low) | (stamps > high)
            times.append(stamps[outside])
            row.append(rows[outside])
            table.append(np.full(int(outside.sum()), number))
    time, table_of, row_of = np.concatenate(times), np.concatenate(table), np.concatenate(row)
    order = np.argsort(time, kind="stable")
    cluster = np.empty(time.size, np.int64)
    cluster[order] = np.concatenate(([0], np.cumsum(np.diff(time[order]) > HOUR_NS)))
    clusters = int(cluster.max()) + 1
    seen = np.stack(
        [np.bincount(cluster[table_of == n], minlength=clusters) > 0 for n in range(len(names))]
    )
    host = np.array([name in HOST_TABLES for name in names])
    agreed = (seen.sum(axis=0) > 1) & seen[host].any(axis=0)
    for number, name in enumerate(names):
        of_table = table_of == number
        verdicts[name][row_of[of_table]] = _GOOD
        verdicts[name][row_of[of_table & ~agreed[cluster]]] = _FAR


def _time_columns(frame: pl.DataFrame) -> list[str]:
    """Return ``[start_ns, end_ns]``, ``[time_ns]`` or nothing."""
    names = frame.columns
    return [c for c in ("start_ns", "end_ns", "time_ns") if c in names]


def _far_from_calls(kept: dict[str, pl.DataFrame]) -> dict[str, int]:
    """Take out the device activities that are farther from all host calls than these last, if at
    most one in a hundred is (P241).
    """
    calls = [
        kept[name] for name in ("api", "mpi", "os_calls") if name in kept and kept[name].height
    ]
    if "api" not in kept or not kept["api"].height:
        return {}
    first, last = (
        min(int(f["start_ns"].min()) for f in calls),  # type: ignore[arg-type]
        max(int(f["end_ns"].max()) for f in calls),  # type: ignore[arg-type]
    )
    far = max(last - first, SECOND_NS)
    ran: dict[str, pl.DataFrame] = {
        name: kept[name] for name in DEVICE_TABLES if name in kept and kept[name].height
    }
    near = {n: (f["start_ns"] >= first - far) & (f["end_ns"] <= last + far) for n, f in ran.items()}
    counts = {name: count for name, mask in near.items() if (count := int((~mask).sum()))}
    if sum(counts.values()) > max(1, sum(f.height for f in ran.values()) // 100):
        return {}
    for name in counts:
        kept[name] = ran[name].filter(near[name])
    return counts


def beyond_all(tables: Tables) -> tuple[str, int] | None:
    """Return the table of the one activity that ends long after all others, and by how much [ns];
    None where there is none.

    A call may last as long as all others together.  Device work that ends a tenth of that later is
    work that no call waits for.
    """
    times = pl.col("start_ns", "end_ns")
    frames = {
        name: tables[name].select(times)
        for name in ("api", "mpi", *DEVICE_TABLES)
        if name in tables and tables[name].height
    }
    rows = [
        (end, start, name)
        for name, frame in frames.items()
        for start, end in frame.top_k(2, by="end_ns").iter_rows()
    ]
    if len(rows) < 2:
        return None
    *_, (before, _, _), (last, began, name) = sorted(rows)
    first, second, *_ = sorted(
        start for frame in frames.values() for start in frame["start_ns"].bottom_k(2)
    )
    others = before - (second if first == began else first)
    most = max(others // 10, SECOND_NS // 10) if name in DEVICE_TABLES else max(others, SECOND_NS)
    waited_for = name not in DEVICE_TABLES or "api" in frames
    return (name, last - before) if waited_for and last - before > most else None


# --- values that cannot be ------------------------------------------------------------------------


class Bound(NamedTuple):
    """Range of a column in its unit; with a `rate`, a row has at most that for each second it
    lasts.
    """

    table: str
    column: str
    most: float
    least: float = 0.0
    rate: float = 0.0


@cache
def bounds() -> tuple[Bound, ...]:
    """Return the range of each column whose values move an answer; those of devices are the ranges
    of machine files.
    """
    machine = {
        row["parameter"]: (float(row["maximum"]), float(row["minimum"]))
        for row in table_rows("foundation/schema/machine.csv")
    }
    most = machine["host.memory_size"][0]
    return (
        Bound("devices", "memory_bytes", *machine["gpu.memory_size"]),
        Bound("devices", "memory_bandwidth", MEMORY_RATE, machine["gpu.memory_bandwidth"][1]),
        Bound("devices", "clock_hz", *machine["gpu.clock"]),
        Bound("devices", "multiprocessors", *machine["gpu.multiprocessors"]),
        Bound("copies", "size_bytes", most, rate=LINK_RATE),
        Bound("memsets", "size_bytes", most, rate=MEMORY_RATE),
        Bound("allocations", "size_bytes", most),
        Bound("collectives", "size_bytes", most),
        Bound("collectives", "receive_bytes", most),
        Bound("collectives", "ranks", 1e8, least=1),
        Bound("mpi", "size_bytes", most),
        Bound("mpi", "receive_bytes", most),
        Bound("kernels", "blocks", 2.0**63, rate=BLOCK_RATE),
        # CUDA and HIP 1024 (their programming guides), OpenCL on CPUs 8192
        Bound("kernels", "threads", 8192),
        # CUDA 255, vector and accumulation registers of AMD's CDNA 512
        Bound("kernels", "registers", 512),
        # CUDA 227 KiB, AMD 160 KiB, OpenCL on CPUs a share of the cache
        Bound("kernels", "shared_bytes", 2.0**20),
    )


def _impossible(kept: dict[str, pl.DataFrame]) -> dict[str, int]:
    """Read the values as not recorded that cannot be, and return how many by table and column
    (P240).
    """
    counts: dict[str, int] = {}

    def lose(table: str, column: str, wrong: Bool) -> None:
        if count := int(wrong.sum()):
            counts[f"{table}.{column}"] = counts.get(f"{table}.{column}", 0) + count
            kept[table] = kept[table].with_columns(
                pl.when(pl.Series(~wrong)).then(column).alias(column)
            )

    for bound in bounds():
        frame = kept.get(bound.table)
        if frame is not None and frame.height and frame[bound.column].null_count() < frame.height:
            lose(bound.table, bound.column, _beyond(frame, bound))
    memory = kept["devices"]["memory_bytes"].max() if "devices" in kept else None
    if memory is None or "copies" not in kept:
        return counts
    larger = (kept["copies"]["size_bytes"].fill_null(0) > memory).to_numpy()
    # one size in a hundred is wrong itself; many say that the memory is
    if larger.sum() > max(1, larger.size // 100):
        lose("devices", "memory_bytes", kept["devices"]["memory_bytes"].is_not_null().to_numpy())
    else:
        lose("copies", "size_bytes", larger)
    return counts


def _beyond(frame: pl.DataFrame, bound: Bound) -> Bool:
    """Return the rows whose value of a column no machine can have."""
    value = filled(frame[bound.column], int(bound.least))
    wrong = (value < bound.least) | (value > bound.most)
    if not bound.rate:
        return np.asarray(wrong)
    rate: Float | float = bound.rate
    if bound.table == "copies":
        rate = np.where(np.isin(frame["direction"].to_numpy(), _INSIDE), MEMORY_RATE, bound.rate)
    seconds = (frame["end_ns"] - frame["start_ns"] + _TICK_NS).to_numpy() * 1e-9
    return np.asarray(wrong | (value > rate * seconds))


#: Codes of the copies that cross no link.
_INSIDE: Final = [
    code
    for code, word in enumerate(words("directions"))
    if word in ("d2d", "h2h", "unknown", "migration_d2d")
]


def by_name(counts: Mapping[str, int]) -> str:
    """Return names with their counts in words."""
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count)
