"""The same run said in another way: later, under other numbers, under other names."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
from strategies import with_columns

from turnbuckle.trace.trace import Trace


def moved(trace: Trace, shift: int) -> Trace:
    """The same run, recorded `shift` ns later."""
    return with_columns(
        trace,
        lambda _, f: f.with_columns(
            pl.col(c) + shift for c in ("start_ns", "end_ns", "time_ns") if c in f.columns
        ),
    )


def renumbered(trace: Trace, add: int, turn: bool, swap: bool) -> Trace:
    """Other numbers in another order: process ids moved or turned round, devices swapped, streams
    moved.
    """

    def process(value: pl.Expr) -> pl.Expr:
        number, thread = value // 2**24, value % 2**24
        return (5000 - number if turn else number + add) * 2**24 + thread

    def change(_: str, frame: pl.DataFrame) -> pl.DataFrame:
        new = {
            c: process(pl.col(c)).cast(pl.Int64)
            for c in ("process", "thread")
            if c in frame.columns
        }
        if {"device", "stream"} <= set(frame.columns):
            new |= {
                "device": 1 - pl.col("device") if swap else pl.col("device") + add,
                "stream": pl.col("stream") + add,
            }
        return frame.with_columns(**new)

    return with_columns(trace, change)


def renamed(trace: Trace) -> Trace:
    """Other names for everything but host calls, whose names mean something."""
    free = set(trace.kernels["name"].drop_nulls().to_list()) | set(
        trace.mpi["name"].drop_nulls().to_list()
    )
    hostile = [
        "\x1b[31m" + "x" * 5000 if i in free else n for i, n in enumerate(trace.names.to_list())
    ]
    return replace(trace, names=pl.Series("name", hostile), name="elsewhere.sqlite")
