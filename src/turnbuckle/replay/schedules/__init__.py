"""MPI programs without clocks: what each rank does, and nothing of when.

========== ===========================================================================================
`ti`       SimGrid's time-independent traces: calls in order, as `turnbuckle.replay.mpi` has a recording
`goal`     GOAL: a graph of operations for each rank, as a `turnbuckle.replay.contention.Program`
========== ===========================================================================================
"""

from __future__ import annotations

import stat
from pathlib import Path
from types import ModuleType

from turnbuckle.errors import UsageError
from turnbuckle.replay.mpi import Traffic
from turnbuckle.replay.schedules import goal, ti, ti_files
from turnbuckle.replay.schedules.figures import Figures
from turnbuckle.trace.readers.packed_text import MARK, beginning, packed

_HEAD = 1 << 16


def _format(path: Path) -> ModuleType | None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with path.open("rb") as file:
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


def read(path: Path, *, flops_per_second: float) -> Traffic:
    """The traffic of a time-independent trace, so that what works on recordings works on it.

    Parameters
    ----------
    path : its anchor file, or the file that holds all ranks.
    flops_per_second : speed at which a rank works [flop/s]; always stated, no trace holds it.

    Raises
    ------
    ProfileError : P020 to P023, a schedule that cannot be read.
    UsageError : A077, no such trace, or a speed that is none; A078, receives whose message it does not tell; A079, ranks that do not
        take part in the same collectives.
    """
    found = _format(path)
    if found is goal:
        raise UsageError(
            "A077", "a GOAL schedule is a graph, not calls in order", where=path.name,
            cause="operations of one rank may overlap", fix="turnbuckle.replay.schedules.goal.program makes a program of it",
        )  # fmt: skip
    if found is None:
        raise _no_schedule(path)
    return ti.read(path).traffic(flops_per_second)


def _no_schedule(path: Path) -> UsageError:
    return UsageError(
        "A077", "the file is no schedule", where=path.name, found="neither GOAL nor a time-independent trace",
        fix="name a file that begins with num_ranks, or the anchor of a SimGrid trace",
    )  # fmt: skip
