"""MPI programs without clocks: what each rank does, and nothing of when.

========== ===========================================================================================
`ti`       SimGrid's time-independent traces: calls in order, as `turnbuckle.mpi.replay.messages` has a recording
`goal`     GOAL: a graph of operations for each rank, as a `turnbuckle.mpi.replay.operation_graph.OperationGraph`
========== ===========================================================================================
"""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from turnbuckle.foundation.errors import CannotAnswer, TurnbuckleError, UsageError
from turnbuckle.foundation.files import opened
from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.mpi.schedules import goal, ti, ti_files
from turnbuckle.mpi.schedules.figures import Figures
from turnbuckle.trace.readers.parts.packed_text import MARK, beginning, packed

_HEAD = 1 << 16


def _format(path: Path) -> ModuleType | None:
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
    """Whether a file is a schedule; False too for what cannot be read."""
    return _format(path) is not None


def figures(path: Path) -> Figures:
    """What a schedule amounts to.

    Raises
    ------
    ProfileError : P020 to P023, a schedule that cannot be read.
    UsageError : A077, no schedule; A079, ranks that do not take part in the same collectives.
    """
    found = _format(path)
    if found is None:
        raise _no_schedule(path)
    shown: Figures = found.read(path).figures
    return shown


def files(path: Path) -> list[Path]:
    """All files of a schedule, the named one first; a file that holds all ranks stands once."""
    return list(dict.fromkeys([path, *(ti_files.rank_files(path) if _format(path) is ti else [])]))


def files_of(path: Path) -> list[Path] | None:
    """Return all files that a schedule is read from, the named one first; None for what is no schedule."""
    if not sniff(path):
        return None
    with suppress(TurnbuckleError):
        return list(dict.fromkeys([path, *ti_files.lines_of_each(path)[0]]))
    return [path]


def timed(path: Path) -> bool:
    """Whether a schedule has its computations as times (GOAL), rather than counted in flops."""
    return _format(path) is goal


def read(path: Path, *, flops_per_second: float | None = None) -> Traffic:
    """The traffic of a schedule, so that what works on recordings works on it.

    Parameters
    ----------
    path : its anchor file, or the file that holds all ranks.
    flops_per_second : speed at which a rank works [flop/s]; a time-independent trace holds none, and GOAL has times.

    Raises
    ------
    ProfileError : P020 to P023, P031, a schedule that cannot be read.
    UsageError : A077, no schedule, or a speed that is none, missing or needless; A078, receives whose message it does not tell; A079,
        ranks that do not take part in the same collectives.
    CannotAnswer : A164, GOAL without messages.
    """
    found = _format(path)
    if found is None:
        raise _no_schedule(path)
    if (found is goal) is not (flops_per_second is None):
        raise UsageError(
            "A077", "a schedule needs the speed of a rank where it counts flops, and only there", where=path.name,
            found="a GOAL schedule, which has times" if found is goal else "a time-independent trace, which has flops",
            fix="leave flops_per_second out" if found is goal else "give flops_per_second, that of one rank",
        )  # fmt: skip
    if flops_per_second is not None:
        return ti.read(path).traffic(flops_per_second)
    run = goal.traffic(goal.read(path))
    if not len(run.messages.send):
        raise CannotAnswer(
            "A164", "this schedule shows no messages between ranks", where=path.name, found=f"{len(run.rank):,} operations",
            cause="no send that is received", fix="look whether the file is cut off",
        )  # fmt: skip
    return run


def _no_schedule(path: Path) -> UsageError:
    return UsageError(
        "A077", "the file is no schedule", where=path.name, found="neither GOAL nor a time-independent trace",
        fix="name a file that begins with num_ranks, or the anchor of a SimGrid trace",
    )  # fmt: skip
