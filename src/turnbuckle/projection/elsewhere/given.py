"""What a user, a profiler or another model states of kernels: a table of ratios or seconds,
counters, an answer, or a Python function.

A function is an entry point in the group ``turnbuckle.predictors``::

    def predict(kernels: polars.DataFrame, source: Machine, target: Machine) -> Iterable[tuple[str, float, float]]

It is given a row for each name of a kernel (`KERNEL_COLUMNS`), and returns the name, how many times
faster the kernel runs on the target, and the relative error of that.  A target that changes the
source comes complete.  Kernels that it leaves out for any target are told as without it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.table_file import Column, Table, read_text, table_of
from turnbuckle.machine import Machine
from turnbuckle.projection.elsewhere.counters import Counted, is_counters, read_counters, timed
from turnbuckle.projection.elsewhere.foreign import held_predictor
from turnbuckle.trace.spelling import Names
from turnbuckle.trace.trace import Trace

#: A ratio without an error of its own.
GIVEN_ERROR: Final = 0.0
#: Columns that a function is given: calls, mean time [s], and the launch that takes most of it
#: (threads a block, bytes a block).
KERNEL_COLUMNS: Final = (
    "name",
    "count",
    "seconds",
    "blocks",
    "threads",
    "registers",
    "shared_bytes",
)
_MOST: Final = 1e6
#: Files of counters are long: a line for each launch, or for each counter of each launch.
_LARGEST: Final = 256 << 20

Predict = Callable[[pl.DataFrame, Machine, Machine], Iterable[tuple[str, float, float]]]


@dataclass(frozen=True)
class KernelTable:
    """What is stated of kernels on the target.

    Attributes
    ----------
    patterns : names of kernels, with * and ? for any text; the first that matches counts
        (`turnbuckle.trace.spelling`).
    ratio : how many times faster each runs on the target, shape (rows,).
    error : relative standard error of each, shape (rows,).
    source : where the numbers come from.
    seconds : mean time of each on the target [s], nan where a ratio is stated; `on` makes it a
        ratio.
    counted : counters of the kernels of each row, in place of a ratio; None where a ratio or
        seconds are stated.
    findings : what of the files was left out or is missing.
    by_target : ratio and error for targets that have their own, by the name of the machine.
    predict : what gives `by_target`, once run and targets are known; None for a table.
    """

    patterns: tuple[str, ...]
    ratio: tuple[float, ...]
    error: tuple[float, ...]
    source: str
    seconds: tuple[float, ...] = ()
    counted: tuple[Counted | None, ...] = ()
    findings: tuple[Finding, ...] = ()
    by_target: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = field(
        default_factory=dict
    )
    predict: Predict | None = field(default=None, repr=False)

    @cached_property
    def _names(self) -> Names:
        return Names(
            self.patterns, [k for k, counters in enumerate(self.counted) if counters is not None]
        )

    def row(self, name: str) -> int:
        """Return the row of a kernel's name; -1 where there is none."""
        return self._names.row(name)

    def counters(self, row: int) -> Counted | None:
        """Return the counters of a row; None where it states a ratio, and for no row."""
        return self.counted[row] if 0 <= row < len(self.counted) else None

    def of(self, target: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return ratio and error of each row on a machine."""
        return self.by_target.get(target, (self.ratio, self.error))

    def on(self, trace: Trace, source: Machine, targets: Sequence[Machine]) -> KernelTable:
        """Return the table for one run and its targets: seconds as ratios to the recorded mean, and
        what the function says of each target.

        Counters without times take those of the recording.

        Raises
        ------
        UsageError : A432 for a function that gives no ratio above zero.
        """
        kernels = recorded(trace)
        if self.predict is not None:
            return self._predicted(kernels, source, targets)
        rows = kernels.with_columns(
            row=pl.Series([self.row(name) for name in kernels["name"].to_list()], dtype=pl.Int64)
        )
        spent = rows.group_by("row").agg(
            (pl.col("seconds") * pl.col("count")).sum() / pl.col("count").sum(),
            pl.col("count").sum(),
        )
        mean = {row: seconds for row, seconds, _ in spent.iter_rows()}
        calls = {row: count for row, _, count in spent.iter_rows()}
        stated = self.seconds or (math.nan,) * len(self.ratio)
        ratio = [
            r if math.isnan(s) else mean.get(k, s) / s
            for k, (r, s) in enumerate(zip(self.ratio, stated, strict=True))
        ]
        counted = tuple(
            c if c is None or k not in mean else timed(c, mean[k], calls[k])
            for k, c in enumerate(self.counted)
        )
        idle = len(self.patterns) - len(mean.keys() - {-1})
        unmatched = (finding("A373", idle, f"{idle:,} of {len(self.patterns):,}"),) if idle else ()
        return replace(
            self,
            ratio=tuple(ratio),
            seconds=(),
            counted=counted,
            findings=(*self.findings, *unmatched),
        )

    def _predicted(
        self, kernels: pl.DataFrame, source: Machine, targets: Sequence[Machine]
    ) -> KernelTable:
        assert self.predict is not None
        predictions = {
            t.name: {n: (r, e) for n, r, e in self.predict(kernels, source, t.resolved(source))}
            for t in targets
        }
        for name, target in [
            (n, t)
            for t, rows in predictions.items()
            for n, (r, e) in rows.items()
            if not (0 < r < _MOST and 0 <= e < _MOST)
        ]:
            raise error_of(
                "A432.ratio",
                where=self.source,
                found=f"{clipped(name, 60)} on {target}: {predictions[target][name]}",
            )
        names = [
            n for n in kernels["name"].to_list() if all(n in rows for rows in predictions.values())
        ]
        by = {
            t: (tuple(rows[n][0] for n in names), tuple(rows[n][1] for n in names))
            for t, rows in predictions.items()
        }
        return replace(
            self,
            patterns=tuple(names),
            ratio=(1.0,) * len(names),
            error=(0.0,) * len(names),
            by_target=by,
            predict=None,
        )


def recorded(trace: Trace) -> pl.DataFrame:
    """Return the kernels of a run by name, `KERNEL_COLUMNS`, those of most time first."""
    launch = ("blocks", "threads", "registers", "shared_bytes")
    rows = trace.kernels.select(
        name=trace.text(trace.kernels),
        ns=pl.col("end_ns") - pl.col("start_ns"),
        **{c: pl.col(c).fill_null(0) for c in launch},
    ).filter(pl.col("name").is_not_null())
    by_launch = rows.group_by("name", *launch, maintain_order=True).agg(
        pl.len().alias("count"), pl.col("ns").sum()
    )
    ranked = by_launch.sort("ns", descending=True, maintain_order=True)
    named = ranked.group_by("name", maintain_order=True).agg(
        pl.col("count", "ns").sum(), *(pl.col(c).first() for c in launch)
    )
    return named.with_columns(seconds=pl.col("ns") / pl.col("count") * 1e-9).select(KERNEL_COLUMNS)


_COLUMNS: Final = (
    Column("name", ""),
    Column("ratio", "1", needed=False, least=0.0, above=True, most=_MOST),
    Column("seconds", "s", needed=False, least=0.0, above=True),
    Column("error", "1", needed=False, most=3.0),
    Column("source", "", needed=False),
)

#: Work of kernels: operations of double precision, and bytes read and written with small and with
#: large strides.
WORK_COLUMNS: Final = (
    Column("name", ""),
    Column("flops", "1", most=1e30),
    *(
        Column(name, "B", needed=name == "regular", most=1e30)
        for name in ("regular", "irregular", "h2d", "d2h")
    ),
)


def kernel_table(*paths: str | Path) -> KernelTable:
    """Read tables of kernels, ``name, ratio or seconds, error, source``, and counters of profilers,
    or find the predictor of a name.

    The ratio says how many times faster a kernel runs on the target; the seconds are its mean time
    there.  The error is relative (0.1 is 10 %).  Tables count before counters, in the order given.
    Counters of several files are one: what one pass lacks another has.

    A table of work, ``name, flops, regular, irregular``, as ``turnbuckle model memory`` reads it,
    is one of counters: what all launches of the recording do.  An answer of ``turnbuckle model
    mdm`` in JSON is a row of seconds, with the error of its prior.

    Raises
    ------
    UsageError : A434 for an answer without a kernel or its time; A061 to A063 as `read_table`; A431
        for a table without a row, or a row with both a ratio and seconds or neither; A433 as
        `read_counters`; A432 for a name that is no predictor's, and for a predictor beside others.
    """
    for path in paths:
        predictors = {} if Path(path).exists() else registry.entries("predictors")
        if str(path) in predictors:
            if len(paths) > 1:
                raise error_of("A432.beside", found=clipped(str(path), 60))
            return KernelTable(
                (), (), (), f"predictor {path}", predict=held_predictor(predictors[str(path)])
            )
        if near := did_you_mean(str(path), predictors):
            raise error_of("A432.name", found=clipped(str(path), 60), fix=near)
    tables, counters = list[KernelTable](), dict[str, str]()
    for path in paths:
        text = read_text(path, "the table of kernels", largest_bytes=_LARGEST)
        if text.lstrip().startswith("{"):
            tables.append(_modelled(text, Path(path).name))
        elif is_counters(text):
            counters[Path(path).name if Path(path).name not in counters else str(path)] = text
        else:
            tables.append(_stated(text, Path(path).name))
    if counters:
        tables.append(_counted(counters))
    tables.sort(key=lambda table: any(table.counted))  # what is stated comes before what is counted
    return tables[0] if len(tables) == 1 else _joined(tables)


def _stated(text: str, name: str) -> KernelTable:
    heading = next(
        (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")),
        "",
    )
    if any(cell.strip(' "').lower() == "flops" for cell in heading.split(",")):
        return _worked(table_of(text, name, WORK_COLUMNS, "the table of work"))
    table = table_of(text, name, _COLUMNS, "the table of kernels")
    if not len(table):
        raise error_of("A431.empty", where=table.name)
    ratio, seconds = table.number("ratio"), table.number("seconds")
    if len(wrong := np.flatnonzero(np.isnan(ratio) == np.isnan(seconds))):
        raise error_of("A431.both", where=table.where(int(wrong[0])))
    error = np.nan_to_num(table.number("error", GIVEN_ERROR), nan=GIVEN_ERROR)
    sources = dict.fromkeys(text.strip() for text in table.texts.get("source", []) if text.strip())
    names, source = (
        tuple(text.strip() for text in table.texts["name"]),
        clipped("; ".join(sources) or table.name, 120),
    )
    return KernelTable(
        names,
        tuple(ratio.tolist()),
        tuple(error.tolist()),
        source,
        tuple(seconds.tolist()),
        (None,) * len(table),
    )


def _worked(table: Table) -> KernelTable:
    """Return a table of work as counters of double precision."""
    if not len(table):
        raise error_of("A431.empty", where=table.name)
    size = table.number("regular") + np.nan_to_num(table.number("irregular", 0.0))
    operations = table.number("flops")
    rows = tuple(
        Counted(size_bytes=b, operations={"gpu.fp64": f}, whole=True)
        for b, f in zip(size.tolist(), operations.tolist(), strict=True)
    )
    return _unstated(tuple(text.strip() for text in table.texts["name"]), rows, table.name)


def _modelled(text: str, name: str) -> KernelTable:
    """Return the kernel and its time in an answer of the memory divergence model."""
    try:
        answer = json.loads(text)
        seconds, kernel = answer["modelled_seconds"], answer["measured"]["kernel"]
        row = KernelTable(
            (str(kernel),),
            (math.nan,),
            (float(seconds["log_sd"]),),
            f"mdm: {name}",
            (float(seconds["value"]),),
            (None,),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise error_of("A434", where=name) from None
    if not (0 < row.seconds[0] < _MOST and 0 <= row.error[0] < _MOST):
        raise error_of("A434", where=name)
    return row


def _counted(files: Mapping[str, str]) -> KernelTable:
    read = read_counters(files)
    return _unstated(
        tuple(read.kernels), tuple(read.kernels.values()), ", ".join(files), read.findings
    )


def _unstated(
    names: tuple[str, ...],
    rows: tuple[Counted, ...],
    source: str,
    findings: tuple[Finding, ...] = (),
) -> KernelTable:
    count = len(names)
    return KernelTable(
        names,
        (1.0,) * count,
        (0.0,) * count,
        clipped(source, 120),
        (math.nan,) * count,
        rows,
        findings,
    )


def _joined(tables: Sequence[KernelTable]) -> KernelTable:
    def all_of(column: str) -> tuple[Any, ...]:
        return tuple(value for table in tables for value in getattr(table, column))

    source = clipped("; ".join(table.source for table in tables), 120)
    return KernelTable(
        all_of("patterns"),
        all_of("ratio"),
        all_of("error"),
        source,
        all_of("seconds"),
        all_of("counted"),
        all_of("findings"),
    )
