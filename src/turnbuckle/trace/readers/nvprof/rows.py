"""Rows of the tables of ``schema/trace.csv`` while a file of nvprof is read, and their move to one
clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.schema import words
from turnbuckle.trace.check import launch_pairs
from turnbuckle.trace.readers.nvprof.clocks import Apart, Waits, Work, apart
from turnbuckle.trace.readers.nvprof.tables import series
from turnbuckle.trace.trace import dtypes

_FAR_NS: Final = 1 << 53
#: A clock beyond this (the year 2001) counts from 1970.
_EPOCH_NS: Final = 10**18
_DEVICE_CLOCK: Final = ("kernels", "copies", "memsets", "graphs")
_FIRST_MIGRATION: Final = words("directions").index("migration_h2d")


@dataclass
class Rows:
    """Rows as read, with the file's times; `on_one_clock` makes the tables of them."""

    parts: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)  #: texts so far; columns hold indices into it
    #: flaws met while reading; `clock_findings` are those met while moving the rows to one clock
    findings: list[Finding] = field(default_factory=list)
    clock_findings: list[Finding] = field(default_factory=list)
    too_large: Counter[str] = field(default_factory=Counter)
    process: int | None = None
    threads: dict[tuple[int, int], int] = field(default_factory=dict)
    _index: dict[str, int] = field(default_factory=dict)

    def name(self, text: str) -> int:
        """Return the index of a text in `names`."""
        index = self._index.setdefault(text, len(self.names))
        if index == len(self.names):
            self.names.append(text)
        return index

    def add(self, table: str, rows: int, **columns: Int | pl.Series | None) -> None:
        """Add rows to one of the tables; columns left out are null."""
        if not rows:
            return
        out = []
        for column, dtype in dtypes(table).items():
            given = columns.get(column)
            if given is None:
                out.append(pl.Series(column, [None], dtype=dtype).new_from_index(0, rows))
            elif isinstance(given, pl.Series):
                out.append(given.cast(dtype).alias(column))
            else:
                made, large = series(given, dtype)
                self.too_large[f"{table}.{column}"] += large
                out.append(made.alias(column))
        self.parts.setdefault(table, []).append(pl.DataFrame(out))

    # --- one clock ---

    def on_one_clock(self) -> tuple[dict[str, pl.DataFrame], int | None]:
        """Return the tables, sorted by time, and their time 0 on the file's clock [ns]; None where
        that clock does not count from 1970.
        """
        unsorted = [
            name for name, parts in self.parts.items() if not all(_in_order(part) for part in parts)
        ]
        tables = {
            name: pl.concat(parts) if len(parts) > 1 else parts[0]
            for name, parts in self.parts.items()
        }
        self.parts.clear()
        difference = _clocks(tables)
        if difference:
            self.clock_findings += _difference_findings(difference, tables)
        ahead = difference.ahead_ns if difference else {}
        for name in [n for n in tables if n not in _DEVICE_CLOCK]:
            # the pop keeps only one copy of each table in memory
            tables[name] = _followed(tables.pop(name), difference)
        base = _base(tables, ahead)
        for name in list(tables):
            tables[name] = _moved(tables.pop(name), base, ahead if name in _DEVICE_CLOCK else {})
        if unsorted:
            self.clock_findings.append(finding("P114", len(unsorted), ", ".join(unsorted)))
        return tables, base if base > _EPOCH_NS else None


def _clocks(tables: Mapping[str, pl.DataFrame]) -> Apart | None:
    """Return how far the device's clock is from the host's, by calls and waits; records without a
    time are ignored.
    """
    pairs = launch_pairs(tables)
    columns = ["start_ns", "end_ns", "device", "context", "stream"]
    rows = []
    for name in _DEVICE_CLOCK:
        launched = pairs.filter(pl.col("table") == name)
        if launched.height:
            rows.append(
                tables[name]
                .select(columns)[launched["row"]]
                .with_columns(called=launched["call_start_ns"])
            )
    if not rows:
        return None
    sound = (
        (pl.col("start_ns") > 0) & (pl.col("end_ns") >= pl.col("start_ns")) & (pl.col("called") > 0)
    )
    work = (
        pl.concat(rows)
        .filter(sound)
        .with_columns(pl.col("device", "context", "stream").cast(pl.Int64).fill_null(-1))
    )
    kinds = [3, 4]
    waits = pl.DataFrame(
        schema={c: pl.Int64 for c in ("start_ns", "end_ns", "sync_type", "context", "stream")}
    )
    if "syncs" in tables:
        waits = (
            tables["syncs"]
            .filter(
                pl.col("sync_type").is_in(kinds)
                & (pl.col("start_ns") > 0)
                & (pl.col("end_ns") >= pl.col("start_ns"))
            )
            .select(
                "start_ns",
                "end_ns",
                pl.col("sync_type", "context", "stream").cast(pl.Int64).fill_null(-1),
            )
        )
    return apart(
        Work(*(work[c].to_numpy() for c in ("called", *columns))),
        Waits(
            *(waits[c].to_numpy() for c in ("start_ns", "end_ns", "sync_type", "context", "stream"))
        ),
    )


def _difference_findings(difference: Apart, tables: Mapping[str, pl.DataFrame]) -> list[Finding]:
    rows = sum(tables[t].height for t in _DEVICE_CLOCK if t in tables)
    lead = [(device, ahead * 1e-9) for device, ahead in sorted(difference.ahead_ns.items())]
    seconds = [
        (
            f"device {d if d >= 0 else '?'} {abs(s):,.6f} s {'ahead of' if s > 0 else 'behind'} "
            "the host's"
        )
        for d, s in lead
    ]
    findings = [finding("P171", rows, ", ".join(seconds[:8]))]
    if not difference.lower:
        findings.append(
            finding(
                "P172",
                rows,
                "not followed: no wait was recorded that bounds the difference from the other side",
            )
        )
    elif difference.knots is not None:
        _, add = difference.knots
        low, high = int(add.min()) * 1e-6, int(add.max()) * 1e-6
        host = sum(
            frame.height
            for name, frame in tables.items()
            if name not in _DEVICE_CLOCK and "start_ns" in frame.columns
        )
        findings.append(
            finding(
                "P172",
                host,
                (
                    f"host times moved by {low:+,.3f} to {high:+,.3f} ms, in {add.size // 2 + 1} "
                    "pieces"
                ),
            )
        )
    elif difference.contradicted_ns > 0:
        findings.append(
            finding(
                "P172",
                rows,
                f"not followed: off by {difference.contradicted_ns / 2 * 1e-6:,.3f} ms either way",
            )
        )
    return findings


def _followed(frame: pl.DataFrame, difference: Apart | None) -> pl.DataFrame:
    """Return a host table with its times on the clock that all records share; lost times stay
    lost.
    """
    if difference is None or difference.knots is None:
        return frame
    moved = {}
    for column in ("start_ns", "end_ns", "time_ns"):
        if column in frame.columns:
            times = frame[column].fill_null(0).to_numpy()
            sound = pl.Series((times > 0) & (times < 1 << 62))
            moved[column] = (
                pl.when(sound)
                .then(pl.Series(difference.host(np.clip(times, 0, 1 << 62))))
                .otherwise(pl.col(column))
            )
    return frame.with_columns(**moved)


def _base(tables: Mapping[str, pl.DataFrame], ahead: Mapping[int, int]) -> int:
    """Return time 0 of the trace on the file's clock [ns]: 1 us before the first record of the
    bulk.
    """
    starts = []
    for name, frame in tables.items():
        column = next((c for c in ("start_ns", "time_ns") if c in frame.columns), None)
        if column:
            sound = frame.filter(pl.col(column).is_between(1, 1 << 61))
            starts.append(
                sound.select(pl.col(column) - _lead(sound, ahead if name in _DEVICE_CLOCK else {}))
                .to_series()
                .to_numpy()
            )
    every = np.concatenate(starts) if starts else np.zeros(0, np.int64)
    if not every.size:
        return 0
    middle = int(np.partition(every, every.size // 2)[every.size // 2])
    return int(every[every >= middle - _FAR_NS].min()) - 1000


def _lead(frame: pl.DataFrame, ahead: Mapping[int, int]) -> pl.Expr:
    """Return how far the clock of each row's device is ahead [ns]; a device without a measured
    clock gets the median of the others.
    """
    if not ahead or "device" not in frame.columns:
        return pl.lit(0, dtype=pl.Int64)
    usual = sorted(ahead.values())[len(ahead) // 2]
    return (
        pl.col("device")
        .cast(pl.Int64)
        .fill_null(-1)
        .replace_strict(dict(ahead), default=usual, return_dtype=pl.Int64)
    )


def _in_order(frame: pl.DataFrame) -> bool:
    column = next((c for c in ("start_ns", "time_ns") if c in frame.columns), None)
    return column is None or frame[column].is_sorted()


def _moved(frame: pl.DataFrame, base: int, ahead: Mapping[int, int]) -> pl.DataFrame:
    """Return the table on the trace's clock, in order of time."""
    columns = [c for c in ("start_ns", "end_ns", "time_ns") if c in frame.columns]
    if not columns:
        return frame
    lead = _lead(frame, ahead)
    shift = lead + base
    if ahead and "direction" in frame.columns:
        # migrations may be timed by either clock: by the host's, they would lie as far before
        # everything as the clocks are apart
        start = pl.col(columns[0]).clip(-(1 << 61), 1 << 61)
        nearer = (start - base).abs() < (start - base - lead).abs()
        shift = (
            pl.when((pl.col("direction") >= _FIRST_MIGRATION) & nearer)
            .then(pl.lit(base))
            .otherwise(lead + base)
        )
    lost = pl.col(columns[0]) == 0
    nothing = pl.lit(None if columns == ["time_ns"] else 0, dtype=pl.Int64)
    times = {}
    for c in columns:
        gone = pl.when(lost | (pl.col(c) == 0)) if c == "end_ns" else pl.when(lost)
        times[c] = gone.then(nothing).otherwise(pl.col(c).clip(-(1 << 61), 1 << 62) - shift)
    frame = frame.with_columns(**times)
    return (
        frame
        if frame[columns[0]].is_sorted()
        else frame.sort(columns[0], nulls_last=True, maintain_order=True)
    )
