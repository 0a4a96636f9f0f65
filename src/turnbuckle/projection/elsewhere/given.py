"""What a user or another predictor states of kernels on the target: a table of ratios or seconds, or a Python function.

A function is an entry point in the group ``turnbuckle.predictors``::

    def predict(kernels: polars.DataFrame, source: Machine, target: Machine) -> Iterable[tuple[str, float, float]]

It is given a row for each name of a kernel (`KERNEL_COLUMNS`), and returns the name, how many times faster the kernel runs on the
target, and the relative error of that.  Kernels that it leaves out for any target are told as without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.machine import Machine
from turnbuckle.trace.trace import Trace

#: A ratio without an error of its own.
GIVEN_ERROR: Final = 0.0
#: Columns that a function is given: calls, mean time [s], and the launch that takes most of it (threads a block, bytes a block).
KERNEL_COLUMNS: Final = ("name", "count", "seconds", "blocks", "threads", "registers", "shared_bytes")
_MOST: Final = 1e6

Predict = Callable[[pl.DataFrame, Machine, Machine], Iterable[tuple[str, float, float]]]


@dataclass(frozen=True)
class KernelTable:
    """What is stated of kernels on the target.

    Attributes
    ----------
    patterns : names of kernels, with * and ? for any text; the first that matches counts.
    ratio : how many times faster each runs on the target, shape (rows,).
    error : relative standard error of each, shape (rows,).
    source : where the numbers come from.
    seconds : mean time of each on the target [s], nan where a ratio is stated; `on` makes it a ratio.
    by_target : ratio and error for targets that have their own, by the name of the machine.
    predict : what gives `by_target`, once run and targets are known; None for a table.
    """

    patterns: tuple[str, ...]
    ratio: tuple[float, ...]
    error: tuple[float, ...]
    source: str
    seconds: tuple[float, ...] = ()
    by_target: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = field(default_factory=dict)
    predict: Predict | None = field(default=None, repr=False)

    def row(self, name: str) -> int:
        """Return the row of a kernel's name; -1 where there is none."""
        return next((k for k, p in enumerate(self.patterns) if p == name or fnmatchcase(name, p)), -1)

    def of(self, target: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return ratio and error of each row on a machine."""
        return self.by_target.get(target, (self.ratio, self.error))

    def on(self, trace: Trace, source: Machine, targets: Sequence[Machine]) -> KernelTable:
        """Return the table for one run and its targets: seconds as ratios to the recorded mean, and what the function says of each target.

        Raises
        ------
        UsageError : A432 for a function that gives no ratio above zero.
        """
        if self.predict is not None:
            return self._predicted(recorded(trace), source, targets)
        if not any(not math.isnan(s) for s in self.seconds):
            return self
        kernels = recorded(trace)
        rows = kernels.with_columns(row=pl.Series([self.row(name) for name in kernels["name"].to_list()], dtype=pl.Int64))
        spent = rows.group_by("row").agg((pl.col("seconds") * pl.col("count")).sum() / pl.col("count").sum())
        mean = dict(spent.iter_rows())
        ratio = [r if math.isnan(s) else mean.get(k, s) / s for k, (r, s) in enumerate(zip(self.ratio, self.seconds, strict=True))]
        return replace(self, ratio=tuple(ratio), seconds=())

    def _predicted(self, kernels: pl.DataFrame, source: Machine, targets: Sequence[Machine]) -> KernelTable:
        assert self.predict is not None
        told = {t.name: {str(n): (float(r), float(e)) for n, r, e in self.predict(kernels, source, t)} for t in targets}
        for name, target in [(n, t) for t, rows in told.items() for n, (r, e) in rows.items() if not (0 < r < _MOST and 0 <= e < _MOST)]:
            raise error_of("A432.ratio", where=self.source, found=f"{clipped(name, 60)} on {target}: {told[target][name]}")
        known = [n for n in kernels["name"].to_list() if all(n in rows for rows in told.values())]
        by = {t: (tuple(rows[n][0] for n in known), tuple(rows[n][1] for n in known)) for t, rows in told.items()}
        return replace(self, patterns=tuple(known), ratio=(1.0,) * len(known), error=(0.0,) * len(known), by_target=by, predict=None)


def recorded(trace: Trace) -> pl.DataFrame:
    """Return the kernels of a run by name, `KERNEL_COLUMNS`, those of most time first."""
    launch = ("blocks", "threads", "registers", "shared_bytes")
    rows = trace.kernels.select(
        name=trace.text(trace.kernels), ns=pl.col("end_ns") - pl.col("start_ns"), **{c: pl.col(c).fill_null(0) for c in launch}
    ).filter(pl.col("name").is_not_null())
    by_launch = rows.group_by("name", *launch, maintain_order=True).agg(pl.len().alias("count"), pl.col("ns").sum())
    ranked = by_launch.sort("ns", descending=True, maintain_order=True)
    named = ranked.group_by("name", maintain_order=True).agg(pl.col("count", "ns").sum(), *(pl.col(c).first() for c in launch))
    return named.with_columns(seconds=pl.col("ns") / pl.col("count") * 1e-9).select(KERNEL_COLUMNS)


_COLUMNS: Final = (
    Column("name", ""), Column("ratio", "1", needed=False, least=0.0, above=True, most=_MOST),
    Column("seconds", "s", needed=False, least=0.0, above=True), Column("error", "1", needed=False, most=3.0),
    Column("source", "", needed=False),
)  # fmt: skip


def kernel_table(path: str | Path) -> KernelTable:
    """Read a table of kernels, ``name, ratio or seconds, error, source``, or find a predictor of that name.

    The ratio says how many times faster a kernel runs on the target; the seconds are its mean time there.  The error is relative (0.1 is
    10 %).

    Raises
    ------
    UsageError : A061 to A063 as `read_table`; A431 for a table without a row, or a row with both a ratio and seconds or neither.
    """
    predictors = registry.entries("predictors")
    if not Path(path).exists() and str(path) in predictors:
        return KernelTable((), (), (), f"predictor {path}", predict=predictors[str(path)].load())
    if not Path(path).exists() and (near := did_you_mean(str(path), predictors)):
        raise error_of("A432.name", found=clipped(str(path), 60), fix=near)
    table = read_table(path, _COLUMNS, "the table of kernels")
    if not len(table):
        raise error_of("A431.empty", where=table.name)
    ratio, seconds = table.number("ratio"), table.number("seconds")
    if len(wrong := np.flatnonzero(np.isnan(ratio) == np.isnan(seconds))):
        raise error_of("A431.both", where=table.where(int(wrong[0])))
    error = np.nan_to_num(table.number("error", GIVEN_ERROR), nan=GIVEN_ERROR)
    sources = dict.fromkeys(text.strip() for text in table.texts.get("source", []) if text.strip())
    return KernelTable(
        tuple(text.strip() for text in table.texts["name"]), tuple(ratio.tolist()), tuple(error.tolist()),
        clipped("; ".join(sources) or table.name, 120), tuple(seconds.tolist()),
    )  # fmt: skip
