"""Matching of the kernels of NCCL and its like: the kernels of one profile that are one operation
of several devices.

Kernels name neither communicator nor root.  Streams of different devices belong to one communicator
if their k-th kernels, shifted by the most common offset, have one name, overlap, and end closer
together than they begin.  Unmatched kernels are left alone and counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.profile.classify import by_name
from turnbuckle.profile.kernels import between_gpus
from turnbuckle.profile.messages.mpi_calls import MOST_MEMBERS
from turnbuckle.trace.trace import Trace

#: Share of two streams' kernels that must agree in name and overlap for them to be one
#: communicator.
AGREEING: Final = 0.95
#: Two streams end together: within half of what their beginnings are apart, or within this share of
#: the kernels' length.
_TOGETHER, _SHARE = 0.5, 0.05
_MOST_LANES: Final = 128
#: Operations in which every rank needs every other; a kernel's name holds them.
_EVERY: Final = ("allreduce", "allgather", "reducescatter", "alltoall")
_OPERATION: Final = re.compile(
    "allreduce|allgather|reducescatter|alltoall|sendrecv|broadcast|reduce"
)
_NOTHING: Final = (np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True)
class _Lane:
    """Kernels between GPUs of one stream, in the order they began: shape (kernels,)."""

    rank: tuple[int, int]
    activity: Int
    name: Int
    start: Int
    end: Int


def collectives(trace: Trace) -> Bool:
    """Return a mask of the kernels that move data between GPUs and wait for each other: no work of
    one GPU.
    """
    return by_name(trace.kernels["name"], trace.names, between_gpus, False)


def operation_in(name: str) -> str:
    """Return the collective operation that the name of a kernel tells; empty for none.

    >>> operation_in("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL"), operation_in("cross_device_reduce_2stage"), operation_in("ncclKernel")
    ('reducescatter', 'allreduce', '')
    """
    plain = name.lower().replace("_", "").replace("crossdevicereduce", "allreduce")
    match = _OPERATION.search(plain)
    return match[0] if match else ""


def kernels_that_meet(
    rows: pl.DataFrame, starts: Int, ends: Int, trace: Trace
) -> tuple[Int, Int, int]:
    """Return the pairs of kernels of which the second cannot end before the first has begun, and
    the number of unmatched kernels.
    """
    lanes, does = _lanes(rows, starts, ends, trace)
    if len({lane.rank for lane in lanes}) < 2:
        return *_NOTHING, 0
    every = sum(len(lane.activity) for lane in lanes)
    if len(lanes) > _MOST_LANES:
        return *_NOTHING, every
    first, then, met = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    # clocks of merged recordings may be off by this, both ways
    skew = 2 * int(trace.table("processes")["skew_ns"].max() or 0)  # type: ignore[arg-type]
    free = sorted(lanes, key=lambda lane: -len(lane.activity))
    while free:
        group = _communicator(free.pop(0), free, skew)
        taken = {id(lane) for lane, _ in group}
        free = [lane for lane in free if id(lane) not in taken]
        low = max(-shift for _, shift in group)
        high = min(len(lane.activity) - shift for lane, shift in group)
        if len(group) < 2 or len(group) > MOST_MEMBERS or high <= low:
            continue
        kernel, name = (
            np.stack([getattr(lane, what)[low + shift : high + shift] for lane, shift in group])
            for what in ("activity", "name")
        )
        mutual = (*_EVERY, "sendrecv") if len(group) == 2 else _EVERY
        needs_all = np.isin(name[0], [n for n, what in does.items() if what in mutual])
        kernel = kernel[:, needs_all & (name == name[0]).all(axis=0)]
        met += kernel.size
        for a in range(len(group)):
            others = np.delete(kernel, a, axis=0)
            first.append(others.reshape(-1))
            then.append(np.tile(kernel[a], len(others)))
    return np.concatenate(first), np.concatenate(then), every - met


def _lanes(
    rows: pl.DataFrame, starts: Int, ends: Int, trace: Trace
) -> tuple[list[_Lane], dict[int, str]]:
    """Return the streams with kernels between GPUs, and the operation of each kernel name."""
    kernels = (rows["category"].cast(pl.String) == "kernel").fill_null(False)
    names = rows.filter(kernels).select(pl.col("name").unique(maintain_order=True)).drop_nulls()
    texts = dict(zip(names["name"], trace.text(names).fill_null(""), strict=True))
    does = {name: operation_in(text) for name, text in texts.items() if between_gpus(text)}
    if not does:
        return [], {}
    names = names.filter(pl.col("name").is_in(list(does)))
    order = np.flatnonzero(
        (kernels & rows["name"].is_in(names["name"].implode())).fill_null(False).to_numpy()
    )
    order = order[np.lexsort((ends[order], starts[order]))]
    place = rows.select(pl.col("process", "device", "stream").cast(pl.Int64).fill_null(-1))[
        order
    ].with_columns(i=order)
    name = rows["name"].fill_null(-1).to_numpy()
    lanes = []
    for (process, device, _), some in place.group_by(
        "process", "device", "stream", maintain_order=True
    ):
        i = some["i"].to_numpy()
        lanes.append(_Lane((int(process), int(device)), i, name[i], starts[i], ends[i]))
    return lanes, does


def _communicator(lane: _Lane, others: list[_Lane], skew: int) -> list[tuple[_Lane, int]]:
    """Return a stream and the streams of other ranks with the same collectives, each with its
    shift; of each rank the best match.
    """
    best: dict[tuple[int, int], tuple[int, _Lane, int]] = {}
    for other in others:
        if other.rank == lane.rank or not set(lane.name.tolist()) & set(other.name.tolist()):
            continue
        agreeing, shift = _agreement(lane, other, skew)
        if agreeing > best.get(other.rank, (0,))[0]:
            best[other.rank] = (agreeing, other, shift)
    return [(lane, 0), *((other, shift) for _, other, shift in best.values())]


def _agreement(a: _Lane, b: _Lane, skew: int = 0) -> tuple[int, int]:
    """Return the number of kernels in which two streams agree, and the shift from `a` to `b`; 0
    where they are not of one communicator.

    The shift is the most common one between kernels that run together, so that a cut at either end
    does not matter.
    """
    index = np.searchsorted(b.start, a.end, side="left") - 1
    together = (index >= 0) & (b.end[index] > a.start - skew)
    if not together.any():
        return 0, 0
    shifts, seen = np.unique((index - np.arange(len(index)))[together], return_counts=True)
    shift = int(shifts[np.argmax(seen)])
    low, high = max(0, -shift), min(len(index), len(b.start) - shift)
    first, other = slice(low, high), slice(low + shift, high + shift)
    agree = (a.name[first] == b.name[other]) & (
        np.maximum(a.start[first], b.start[other]) < np.minimum(a.end[first], b.end[other]) + skew
    )
    apart = np.abs(a.start[first] - b.start[other]).sum(), np.abs(a.end[first] - b.end[other]).sum()
    length = np.minimum(a.end[first] - a.start[first], b.end[other] - b.start[other]).sum()
    enough = agree.sum() >= AGREEING * len(agree) and 2 * len(agree) >= min(
        len(a.start), len(b.start)
    )
    return (
        int(agree.sum()) if enough and apart[1] <= max(_TOGETHER * apart[0], _SHARE * length) else 0
    ), shift
