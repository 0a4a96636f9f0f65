"""A run written for another program: a trace viewer, or a simulator.

========
============================================================================================================
json     before and after as trace-event JSON (`perfetto`); needs a target
goal     a schedule for LogGOPSim (`formats.goal`)
chakra   an execution trace of MLCommons Chakra, for ASTRA-sim and others (`formats.chakra`)
otf2     an archive as tracers of parallel programs write it, a folder; of the run as recorded (`formats.otf2`)
========
============================================================================================================

Schedules are of the run as recorded where no target is named.

Errors:

    A481  a form that shows before and after, and no target
    A500  a form that holds the run as recorded, and a target, a network or changes
    A501  an archive, and no folder for it
    R001  the file cannot be written; R002 and R003 its folder
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, cast, get_args

from turnbuckle.foundation.errors import did_you_mean, error_of
from turnbuckle.foundation.files import goal as place_of
from turnbuckle.foundation.files import whole, whole_folder
from turnbuckle.foundation.findings import Finding
from turnbuckle.machine import Machine
from turnbuckle.projection.elsewhere.network import OnNetwork, on_other
from turnbuckle.projection.model import Model, nething
from turnbuckle.projection.run import Run
from turnbuckle.questions.before_after import perfetto
from turnbuckle.questions.before_after.formats import chakra, goal, otf2
from turnbuckle.questions.before_after.formats.steps import Steps, steps
from turnbuckle.questions.before_after.forms import ARCHIVES, To

#: Writers of schedules.
_OF_STEPS: Final[dict[str, Callable[[Steps, BinaryIO], object]]] = {
    "goal": goal.stream,
    "chakra": chakra.stream,
}


def of_run(
    run: Run,
    path: str | Path,
    target: Machine | None,
    model: Model | None = None,
    network: OnNetwork | str | None = None,
    apply: Sequence[str] = (),
    to: str = "json",
) -> Path:
    """Write a run for another program, compressed where `path` ends in ``.gz``; see `Run.export`.
    On a target it is `Run.judged`.
    """
    run = run if target is None else run.judged
    if to in ARCHIVES:
        return archived(
            run, path, to, as_recorded=target is None and network is None and not apply
        )[0]
    place_of(path, "the trace", "trace.json.gz")
    return written(writer(run, target, model, on_other(network), apply, to), path)


def archived(
    run: Run, path: str | Path | None, to: str, as_recorded: bool = True
) -> tuple[Path, Finding | None]:
    """Write a run as a folder, and return the file by which other programs open it, and what it
    lacks.

    Raises A450, no library; A500, not the run as recorded; A501, no folder named; R001, R005 of the
    folder.
    """
    if not as_recorded:
        raise error_of("A500", to=to)
    if path is None:
        raise error_of("A501", to=to)
    with whole_folder(path, "the archive") as beside:
        lacks = otf2.write(run, beside)
    return Path(path) / f"{otf2.NAME}.otf2", lacks


def written(write: Callable[[BinaryIO], object], path: str | Path) -> Path:
    """Write a file as a whole or not at all, compressed where its name ends in ``.gz``, and return
    its path.  Raises R001 to R003.
    """
    place = place_of(path, "the trace", "trace.json.gz")
    with whole(place, "the trace") as beside, beside.open("wb") as file:
        if place.suffix == ".gz":
            # no name and no time in the header: the same question gives the same file
            with gzip.GzipFile("", "wb", 6, file, 0) as packed:
                write(cast(BinaryIO, packed))
        else:
            write(file)
    return place


def writer(
    run: Run,
    target: Machine | None,
    model: Model | None,
    network: OnNetwork | None,
    apply: Sequence[str],
    to: str,
) -> Callable[[BinaryIO], object]:
    """Return the function that writes a run to an open file, with the work of the question done.

    Raises
    ------
    UsageError : A440, changes and a network; A481, no target; A482, a form that nothing writes.
    CannotAnswer : A121, A122, of a run on another machine.
    """
    if to in _OF_STEPS:
        seen = steps(run, target, model, network, apply)
        return lambda sink: _OF_STEPS[to](seen, sink)
    if to != "json":
        forms = get_args(To)
        raise error_of(
            "A482", found=to, fix=did_you_mean(to, forms) or None, forms=", ".join(forms)
        )
    if target is None:
        raise error_of("A481", to=to)
    both, answer = perfetto.asked(run, target, model or nething(), network, apply)
    return lambda sink: perfetto.stream(both, answer, sink)
