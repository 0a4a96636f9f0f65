"""What kernels leave of their device: who must take turns on it, who may, and who has room beside
the others.

A multiprocessor holds so many threads, blocks, registers and bytes of shared memory.  A kernel with
more blocks than fit on all of them fills the device: on several streams such kernels take turns, or
begin in each other's last wave.  Where a launch is not recorded whole, the same numbers bound its
share of the device from above, so that kernels which have room beside each other are known as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.schema import table_rows
from turnbuckle.profile.dependencies.sides import SCOPES, TABLE, UNKNOWN, Device, Host
from turnbuckle.trace.trace import Trace

#: Most and fewest of each that a multiprocessor of any GPU holds (CUDA C++ Programming Guide,
#: compute capabilities 5.0 to 12.0).
MOST_THREADS, MOST_BLOCKS, MOST_SHARED = 2048, 32, 233_472
_FEWEST_THREADS, _FEWEST_BLOCKS, _FEWEST_SHARED = 1024, 16, 65_536
#: Registers of a multiprocessor, and the most of a thread (the same guide).
_REGISTERS, _MOST_REGISTERS = 65_536, 255
#: Kernels that began just after others, from which on it is no chance (as `stream_waits` has it),
#: and how long after at most [ns].
_REPEATED: Final = 2
_JUST_NS: Final = 10_000
#: A kernel begins in the last wave of another if it begins at most so many waves before its end.
_TAIL: Final = 1.5


@dataclass(frozen=True)
class Turns:
    """Work on other streams that a kernel waited for, or may have waited for; arrays of one length
    each.

    Attributes
    ----------
    before, after : the two take turns: `after` begins when `before` has ended.
    tail_of, in_tail : `in_tail` begins in the last wave of `tail_of`.
    maybe_before, maybe_after : nothing tells whether they do.
    """

    before: Int
    after: Int
    tail_of: Int
    in_tail: Int
    maybe_before: Int
    maybe_after: Int


def turns(
    device: Device, host: Host, rows: pl.DataFrame, trace: Trace, starts: Int, ends: Int
) -> Turns:
    """Return who takes turns on a device.

    Two streams take turns if both fill the device whenever they meet there, never overlap but in a
    last wave, and at least one kernel was ready before the one before it had ended.  Two processes
    on one device do, whatever they leave free, if they never overlap.  Where the sizes of kernels
    do not tell, times do: kernels that were ready began just after others had ended, twice at
    least.
    """
    nothing = device.rows[:0]
    work = device.rows[device.table[device.rows] == TABLE["kernels"]]
    if len(np.unique(device.place[device.rows])) < 2:
        return Turns(*[nothing] * 6)
    # processes of a merge may lie on other machines, whatever number their device has
    chip = device.gpu if trace.table("processes").height else _chips(device, work, starts, ends)
    least, most, waves = _shares(rows, trace)
    ready = could_begin(device, starts, ends)
    full = work[(least[work] >= 1.0) | _time_sliced(device, chip, work)]
    by_size = _in_turn(device, full, chip, waves, ready, starts, ends, 1, np.iinfo(np.int64).max)
    by_times = _in_turn(device, work, chip, waves, ready, starts, ends, _REPEATED, _JUST_NS)
    known = np.zeros(len(starts), dtype=np.bool_)
    for _, after in (by_size[0], by_size[1], by_times[0]):
        known[after] = True
    maybe_before, maybe_after = _may_meet(device, host, trace, chip, most, starts, ends)
    unknown = ~known[maybe_after]
    before, after = (np.concatenate(sides) for sides in zip(by_size[0], by_times[0], strict=True))
    return Turns(before, after, *by_size[1], maybe_before[unknown], maybe_after[unknown])


def _in_turn(
    device: Device,
    work: Int,
    chip: Int,
    waves: Float,
    ready: Int,
    starts: Int,
    ends: Int,
    repeated: int,
    just_ns: int,
) -> tuple[tuple[Int, Int], tuple[Int, Int]]:
    """Return kernels of two streams that take turns, and those of which the second begins in the
    last wave of the first.

    Parameters
    ----------
    work : the kernels that are looked at.
    repeated, just_ns : how often a stream must show that it waited for the other: a kernel was
        ready before the other had ended, and began no later than so long after that.
    """
    work = work[np.lexsort((ends[work], starts[work], chip[work]))]
    before, after = work[:-1], work[1:]
    apart = (chip[before] == chip[after]) & (device.place[before] != device.place[after])
    before, after = before[apart], after[apart]
    if not len(before):
        return (before, after), (before, after)
    over = ends[before] - starts[after]
    wave = (ends - starts)[before] / np.maximum(waves[before], 1.0)
    in_tail = (
        (over > 0) & (over <= _TAIL * wave) & (waves[before] > 1.0) & (ready[after] < starts[after])
    )
    number = _pairs(device, before, after)
    overlapping = np.bincount(number, weights=(over > 0) & ~in_tail)
    shown = np.bincount(number, weights=(ready[after] < ends[before]) & (-over <= just_ns))
    kept = ((overlapping == 0) & (shown >= repeated))[number]
    turn, tail = kept & ~in_tail, kept & in_tail
    return (before[turn], after[turn]), (before[tail], after[tail])


def _pairs(device: Device, before: Int, after: Int) -> Int:
    """Return the number of each pair of streams, whichever comes first."""
    pair = np.sort(np.stack([device.place[before], device.place[after]], axis=1), axis=1)
    return np.unique(pair, axis=0, return_inverse=True)[1].reshape(-1)


def _chips(device: Device, work: Int, starts: Int, ends: Int) -> Int:
    """Return the device that each activity runs on, one number where processes may share it: of one
    number, and never at work at once.
    """
    chip = device.gpu.copy()
    order = work[np.argsort(starts[work], kind="stable")]
    for number in np.unique(device.number[work]).tolist():
        here = order[device.number[order] == number]
        owners = np.unique(device.process[here])
        if len(owners) < 2:
            continue
        latest = np.maximum.accumulate(ends[here])[:-1]
        last = here[
            np.maximum.accumulate(
                np.where(
                    np.diff(np.maximum.accumulate(ends[here]), prepend=-1) > 0,
                    np.arange(len(here)),
                    0,
                )
            )[:-1]
        ]
        both = (starts[here[1:]] < latest) & (device.process[last] != device.process[here[1:]])
        in_step = (starts[here[1:]] == starts[here[:-1]]) & (
            device.process[here[1:]] != device.process[here[:-1]]
        )
        if not (both | in_step).any():
            chip[device.rows[device.number[device.rows] == number]] = chip[here[0]]
    return chip


def _time_sliced(device: Device, chip: Int, work: Int) -> Bool:
    """Return which kernels share their device with another process: two contexts are never at work
    at once, whatever they leave free.
    """
    owners = np.unique(np.stack([chip[work], device.process[work]], axis=1), axis=0)
    shared = (
        np.flatnonzero(np.bincount(owners[:, 0]) > 1)
        if len(owners)
        else np.zeros(0, dtype=np.int64)
    )
    return np.isin(chip[work], shared)


def _may_meet(
    device: Device, host: Host, trace: Trace, chip: Int, most: Float, starts: Int, ends: Int
) -> tuple[Int, Int]:
    """Return for each activity the one of another stream of its device that ended last before it
    began, where the two may have to do with each other: kernels that may leave each other no room;
    anything, where streams wait for events that no recording tells.
    """
    untold = (
        not trace.events.height
        and (host.scope[host.calls] == SCOPES.index("stream waits for event")).any()
    )
    before, after = [device.rows[:0]], [device.rows[:0]]
    for number in np.unique(chip[device.rows]).tolist():
        here = device.rows[chip[device.rows] == number]
        kernels = np.isin(device.table[here], (TABLE["kernels"], TABLE["graphs"]))
        graphs = (device.node[here] >= 0).any()
        if not untold and not graphs:
            here = here[kernels]
        # each stream has one kernel at work at a time
        needed = np.zeros(int(device.place.max()) + 1)
        np.maximum.at(needed, device.place[here], most[here])
        if needed.sum() <= 1.0 and not untold and not graphs:
            continue
        first, then = _last_elsewhere(device.place, here, starts, ends)
        before.append(first)
        after.append(then)
    return np.concatenate(before), np.concatenate(after)


def _last_elsewhere(place: Int, here: Int, starts: Int, ends: Int) -> tuple[Int, Int]:
    """Return the activity of another stream that ended last before each begins, and those that have
    one.
    """
    order = here[np.argsort(ends[here], kind="stable")]
    changes = np.concatenate([[True], place[order[1:]] != place[order[:-1]]])[: len(order)]
    # the one before the stretch of one stream that a place lies in
    other = np.maximum.accumulate(np.where(changes, np.arange(len(order)), 0)) - 1
    at = np.searchsorted(ends[order], starts[here], side="right") - 1
    last = order[np.maximum(at, 0)]
    elsewhere = np.where(place[last] == place[here], other[np.maximum(at, 0)], at)
    found = (at >= 0) & (elsewhere >= 0)
    return order[elsewhere[found]], here[found]


@cache
def _limits() -> pl.DataFrame:
    """Return what a multiprocessor holds, by compute capability (CUDA C++ Programming Guide,
    technical specifications).
    """
    rows = [
        {name: int(text) for name, text in row.items()}
        for row in table_rows("profile/dependencies/multiprocessors.csv")
    ]
    return pl.DataFrame(rows).cast({"major": pl.Int32, "minor": pl.Int32})


def _shares(rows: pl.DataFrame, trace: Trace) -> tuple[Float, Float, Float]:
    """Return for each activity the least and the most of its device that it may take, 0 to 1, and
    how many waves of blocks it has at least.

    What is no kernel with a recorded launch on a device of known size takes at least nothing and at
    most all.
    """
    least, most, waves = np.zeros(rows.height), np.ones(rows.height), np.zeros(rows.height)
    kernels, sizes = (
        trace.kernels,
        trace.devices.drop_nulls("device").unique("device", keep="first", maintain_order=True),
    )
    if not sizes.height or not kernels.height:
        return least, most, waves
    sizes = sizes.select("device", "multiprocessors", major="compute_major", minor="compute_minor")
    held = _limits().rename(
        {name: f"{name}_held" for name in ("threads", "blocks", "shared_bytes")}
    )
    sizes = sizes.join(held, on=["major", "minor"], how="left", maintain_order="left")
    launched = kernels.select("device", "blocks", "threads", "registers", "shared_bytes")
    launched = launched.join(sizes, on="device", how="left", maintain_order="left")
    number = {
        name: launched[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
        for name in launched.columns
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        fitting = _resident(number, known=True), _resident(number, known=False)
        share = [number["blocks"] / (number["multiprocessors"] * held) for held in fitting]
    known = (number["blocks"] > 0) & (number["threads"] > 0) & (number["multiprocessors"] > 0)
    row = rows["row"].fill_null(UNKNOWN).to_numpy()
    named = (
        (rows["kind"] == "kernel").to_numpy() & rows["name"].is_not_null().to_numpy() & (row >= 0)
    )
    named[named] = known[row[named]]
    waves[named] = share[0][row[named]]
    least[named], most[named] = np.minimum(waves[named], 1.0), np.minimum(share[1][row[named]], 1.0)
    return least, most, waves


def _resident(of: dict[str, Float], known: bool) -> Float:
    """Return how many blocks of a launch a multiprocessor holds at once: the most that is possible
    if `known`, else the fewest.

    What a recording leaves out limits nothing, or as much as it can.
    """
    threads_held, blocks_held, shared_held = (
        np.where(np.isfinite(of[name]), of[name], most if known else fewest)
        for name, most, fewest in (
            ("threads_held", MOST_THREADS, _FEWEST_THREADS),
            ("blocks_held", MOST_BLOCKS, _FEWEST_BLOCKS),
            ("shared_bytes_held", MOST_SHARED, _FEWEST_SHARED),
        )
    )
    registers = np.where(of["registers"] > 0, of["registers"], 1 if known else _MOST_REGISTERS)
    # registers are as stated for a GPU of NVIDIA alone
    registers = np.where(np.isfinite(of["major"]), registers, 1 if known else _MOST_REGISTERS)
    shared = np.where(of["shared_bytes"] >= 0, of["shared_bytes"], 0 if known else shared_held)
    shared = shared + np.where(np.isfinite(of["reserved_bytes"]), of["reserved_bytes"], 0)
    held = np.minimum(np.floor(threads_held / of["threads"]), blocks_held)
    held = np.minimum(held, np.floor(_REGISTERS / (registers * of["threads"])))
    held = np.minimum(held, np.floor(shared_held / np.maximum(shared, 1)))
    return np.maximum(held, 1.0)


def could_begin(device: Device, starts: Int, ends: Int) -> Int:
    """Return when each activity could have begun: its stream was idle, and the quickest delivery of
    the run was over.
    """
    ready = starts.copy()
    launched = device.rows[device.call[device.rows] >= 0]
    if not len(launched):
        return ready
    delivery = max(int((starts[launched] - device.called[launched]).min()), 0)
    ready[launched] = device.called[launched] + delivery
    for stream in device.streams:
        ready[stream[1:]] = np.maximum(ready[stream[1:]], np.maximum.accumulate(ends[stream[:-1]]))
    return ready
