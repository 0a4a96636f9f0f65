"""Kernels that fill their device: on several streams they take turns, since each leaves no room for another.

A multiprocessor holds at most 2048 threads and 32 blocks, whatever the GPU: a kernel that has more for each of them fills the device.
Where registers or shared memory let it hold fewer, kernels with less fill it too, and are not seen.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.profile.dependencies.sides import TABLE, UNKNOWN, Device
from turnbuckle.trace.trace import Trace

#: Most threads and blocks that a multiprocessor of any GPU holds (CUDA C++ Programming Guide, compute capabilities 5.0 to 12.0).
MOST_THREADS, MOST_BLOCKS = 2048, 32


def turns(device: Device, rows: pl.DataFrame, trace: Trace, starts: Int, ends: Int) -> tuple[Int, Int]:
    """Return kernels that waited for the device, and for each the one before it there: both fill it, on two streams.

    Two streams take turns if no such kernels of theirs, one after the other, overlap, and at least one of them was ready before the one
    before it had ended.
    """
    work = device.rows[device.table[device.rows] == TABLE["kernels"]]
    if len(np.unique(device.place[work])) < 2:
        return work[:0], work[:0]
    work = work[_fills(rows, trace)[work]]
    work = work[np.lexsort((ends[work], starts[work], device.gpu[work]))]
    before, after = work[:-1], work[1:]
    apart = (device.gpu[before] == device.gpu[after]) & (device.place[before] != device.place[after])
    before, after = before[apart], after[apart]
    if not len(before):
        return before, after
    ready = could_begin(device, starts, ends)[after] < ends[before]
    pair = np.sort(np.stack([device.place[before], device.place[after]], axis=1), axis=1)
    _, number = np.unique(pair, axis=0, return_inverse=True)
    number = number.reshape(-1)
    overlapping = np.bincount(number, weights=ends[before] > starts[after])
    shown = np.bincount(number, weights=ready)
    kept = ((overlapping == 0) & (shown > 0))[number]
    return before[kept], after[kept]


def _fills(rows: pl.DataFrame, trace: Trace) -> Bool:
    """Return which activities are kernels that fill their device; none where the recording lacks launches or multiprocessors."""
    kernels, sizes = trace.kernels, trace.devices.select("device", "multiprocessors").drop_nulls().group_by("device").max()
    out = np.zeros(rows.height, dtype=np.bool_)
    if not sizes.height or not kernels.height:
        return out
    launched = kernels.select("device", "blocks", "threads").join(sizes, on="device", how="left", maintain_order="left")
    fills = (pl.col("blocks") * pl.col("threads") >= MOST_THREADS * pl.col("multiprocessors")) | (
        pl.col("blocks") >= MOST_BLOCKS * pl.col("multiprocessors")
    )
    of_row = launched.select((fills & (pl.col("multiprocessors") > 0)).fill_null(False))["blocks"].to_numpy()
    row = rows["row"].fill_null(UNKNOWN).to_numpy()
    named = (rows["kind"] == "kernel").to_numpy() & rows["name"].is_not_null().to_numpy() & (row >= 0)
    out[named] = of_row[row[named]]
    return out


def could_begin(device: Device, starts: Int, ends: Int) -> Int:
    """Return when each activity could have begun: its stream was idle, and the quickest delivery of the run was over."""
    ready = starts.copy()
    launched = device.rows[device.call[device.rows] >= 0]
    if not len(launched):
        return ready
    delivery = max(int((starts[launched] - device.called[launched]).min()), 0)
    ready[launched] = device.called[launched] + delivery
    for stream in device.streams:
        ready[stream[1:]] = np.maximum(ready[stream[1:]], np.maximum.accumulate(ends[stream[:-1]]))
    return ready
