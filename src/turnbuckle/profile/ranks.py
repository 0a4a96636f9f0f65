"""Ranks that meet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.trace.trace import Trace

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Meetings:
    first: Int
    waits: Int
    unmatched: int


def meetings(rows: pl.DataFrame, starts: Int, ends: Int, trace: Trace) -> Meetings:
    return Meetings(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)
