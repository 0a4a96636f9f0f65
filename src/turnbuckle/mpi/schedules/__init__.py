"""Schedules: MPI programs without recorded times, as the operations of each rank.

==========
===========================================================================================
`ti`       SimGrid's time-independent traces: calls in order, like the recordings of `turnbuckle.mpi.replay.messages`
`goal`     GOAL: a graph of operations for each rank, as a `turnbuckle.mpi.replay.operation_graph.OperationGraph`
==========
===========================================================================================
"""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.mpi.schedules import goal, ti, ti_files
from turnbuckle.mpi.schedules.figures import Figures
from turnbuckle.trace.readers.parts.packed_text import MARK, beginning, packed

_HEAD = 1 << 16


def _format(path: Path) -> ModuleType | None:
    """Return the module that reads a file; None for a file that is no schedule, or unreadable."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with opened(path) as file:
            head = file.read(_HEAD)
    except (OSError, ValueError):
        return None
    head = beginning(head, path) if packed(head) else head.removeprefix(MARK)
    if b"\0" in head:
        return None
    return goal if goal.sniff(head, path) else ti if ti_files.sniff(head, path) else None


def sniff(path: Path) -> bool:
    """Return whether a file is a schedule; False too for an unreadable file."""
    return _format(path) is not None


def figures(path: Path) -> Figures:
    """Return the counts of a schedule.

    Raises P020 to P023, a schedule that cannot be read; A077, no schedule; A079, ranks that do not
    take part in the same collectives.
    """
    reader = _format(path)
    if reader is None:
        raise _no_schedule(path)
    counts: Figures = reader.read(path).figures
    return counts


def files(path: Path) -> list[Path]:
    """Return all files of a schedule, the named one first, each once."""
    return list(dict.fromkeys([path, *(ti_files.rank_files(path) if _format(path) is ti else [])]))


def files_of(path: Path) -> list[Path] | None:
    """Return all files of a schedule, the named one first; None where the file is no schedule."""
    if not sniff(path):
        return None
    with suppress(TurnbuckleError):
        return list(dict.fromkeys([path, *ti_files.lines_of_each(path)[0]]))
    return [path]


def timed(path: Path) -> bool:
    """Return whether the computations of a schedule are durations (GOAL), rather than flops."""
    return _format(path) is goal


def read(path: Path, *, flops_per_second: float | None = None) -> Traffic:
    """Return the traffic of a schedule, in the form that recordings have.

    Raises P020 to P023, P031, a schedule that cannot be read; A077, no schedule, or a speed that is
    invalid, missing or needless; A078, receives without a known message; A079, ranks that do not
    take part in the same collectives; A164, GOAL without messages.

    Parameters
    ----------
    path : anchor file of the schedule, or the file that holds all ranks.
    flops_per_second : speed of each rank [flop/s]; needed for a time-independent trace, and refused
        for GOAL, which has durations.
    """
    reader = _format(path)
    if reader is None:
        raise _no_schedule(path)
    if (reader is goal) is not (flops_per_second is None):
        raise error_of(
            "A077.times" if reader is goal else "A077.flops",
            where=path.name,
            found="a GOAL schedule, which has times"
            if reader is goal
            else "a time-independent trace, which has flops",
        )
    if flops_per_second is not None:
        return ti.read(path).traffic(flops_per_second)
    run = goal.traffic(goal.read(path))
    if not len(run.messages.send):
        raise error_of("A164.schedule", where=path.name, found=f"{len(run.rank):,} operations")
    return run


def _no_schedule(path: Path) -> TurnbuckleError:
    return error_of("A077.file", where=path.name, found="neither GOAL nor a time-independent trace")
