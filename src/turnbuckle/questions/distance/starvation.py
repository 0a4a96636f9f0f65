"""Cost of idle gaps: work that begins after a gap starts slower (clocks, caches, power states).

The slack study saw penalties of several milliseconds a call that no order of calls explains
(decision D10).  No model of it is known; a curve measured on the user's own GPU can be given, as
lines of two quantities with units::

    idle gap, cost
    100 us,   2 us
    1 ms,     15 us

A gap costs what the curve says, by straight lines from nothing at no gap, and beyond the last line
what that one says. The recorded run has its own gaps in it, so that only the difference is charged;
at no change nothing is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.errors import UnitError, error_of
from turnbuckle.foundation.table_file import read_text
from turnbuckle.foundation.units import parse
from turnbuckle.profile.dependencies.graph import EDGE
from turnbuckle.profile.profile import Profile
from turnbuckle.replay.timeline import TimelineReplay

_LARGEST_BYTES = 1 << 20
#: Replays until the gaps, which the costs themselves move, are taken as settled.
_ROUNDS = 2


@dataclass(frozen=True)
class Starvation:
    """Measured cost of idle gaps.

    Attributes
    ----------
    idle, cost : gap and what it costs [s], ascending gaps, both beginning with 0.
    name : of the file it was read from.
    """

    idle: Float
    cost: Float
    name: str = ""

    def __call__(self, gap: Float) -> Float:
        """Return the cost of gaps [s]."""
        return np.interp(gap, self.idle, self.cost)


def read_starvation(path: str | Path) -> Starvation:
    """Load a measured curve of idle gaps.

    Raises
    ------
    UsageError : A061 where the file cannot be read, A066 for a line or number that cannot be;
        UnitError (U0xx) where a unit is missing.
    """
    path = Path(path)
    text = read_text(path, "the curve of idle gaps", largest_bytes=_LARGEST_BYTES)
    points = [(0.0, 0.0)]
    lines = [
        (n, line)
        for n, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    for number, line in lines[1:]:
        where = f"{path.name}:{number}"
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 2:
            raise error_of("A066.line", where=where, found=line[:40])
        try:
            gap, cost = (parse(cell, "s") for cell in cells)
        except UnitError as error:
            error.where = where
            raise
        if gap <= points[-1][0] or cost < points[-1][1]:
            raise error_of("A066.order", where=where, found=line[:40])
        points.append((gap, cost))
    if len(points) < 2:
        raise error_of("A066.empty", where=path.name)
    idle, cost = np.array(points).T
    return Starvation(idle, cost, path.name)


def starved_seconds(
    profile: Profile, replay: TimelineReplay, values: Float, curve: Starvation
) -> Float:
    """Return the longest path [s] for each row of parameters, with the cost of idle gaps added to
    every kernel, to first order.

    Parameters
    ----------
    profile, replay : the run.
    values : rows of parameters, shape (rows, parameters).
    """
    gpu = _devices(profile, replay)
    kernels = np.flatnonzero((gpu >= 0) & (replay.run.category[replay.piece] == "kernel"))
    recorded = curve(_gaps(np.asarray(replay.graph.time_ns * 1e-9, dtype=np.float64), gpu, kernels))
    out = []
    for row in values:
        again = replay
        for _ in range(_ROUNDS):
            instants, _ = again.replayed(row)
            dearer = np.maximum(curve(_gaps(instants, gpu, kernels)) - recorded, 0.0)
            lag = replay.graph.lag_ns.copy()
            extra = np.zeros(len(gpu), dtype=np.int64)
            extra[kernels] = np.round(dearer * 1e9).astype(np.int64)
            runs = replay.graph.kind == EDGE["run"]
            lag[runs] += extra[replay.graph.owner[runs]]
            again = replay.on(replace(replay.graph, lag_ns=lag))
        instants, _ = again.replayed(row)
        out.append(float(instants.max()))
    return np.array(out)


def _devices(profile: Profile, replay: TimelineReplay) -> Int:
    """Return the device number of each activity's process; -1 off the device."""
    track = profile.activities["track"].to_numpy()[replay.graph.activity]
    places = profile.tracks.select("process", "device").rows()
    number = {place: i for i, place in enumerate(dict.fromkeys(places))}
    of_track = np.array(
        [-1 if device is None else number[process, device] for process, device in places],
        dtype=np.int64,
    )
    devices: Int = of_track[track]
    return devices


def _gaps(instants: Float, gpu: Int, kernels: Int) -> Float:
    """Return how long the device of each kernel was idle before it [s]."""
    begun, ended = instants[1::2], instants[2::2]
    gaps = np.zeros(len(gpu))
    for number in np.unique(gpu[gpu >= 0]):
        of_device = np.flatnonzero(gpu == number)
        of_device = of_device[np.lexsort((ended[of_device], begun[of_device]))]
        busy_until = np.concatenate(
            [begun[of_device][:1], np.maximum.accumulate(ended[of_device])[:-1]]
        )
        gaps[of_device] = np.maximum(begun[of_device] - busy_until, 0.0)
    return gaps[kernels]
