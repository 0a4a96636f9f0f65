"""``turnbuckle export``: a run for a trace viewer or a simulator."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.files import goal
from turnbuckle.foundation.schema.vocabulary import refuse_several
from turnbuckle.machine import load
from turnbuckle.questions.before_after.forms import ARCHIVES, To, form_of
from turnbuckle.show.terminal.asked import (
    Alpha,
    Host,
    Network,
    NetworkSet,
    SourceNetwork,
    model_of,
    network_of,
    targets,
)
from turnbuckle.show.terminal.options import (
    ASKED_PART,
    NO_PART,
    AskedPart,
    FormatOption,
    NoCache,
    Output,
    PartOptions,
    Profile,
    Source,
    listed,
)
from turnbuckle.show.terminal.output import emit
from turnbuckle.show.terminal.recording import inspected, judged

if TYPE_CHECKING:
    from turnbuckle.projection.run import Run


def export(
    profile: Profile,
    /,
    *,
    to: Annotated[
        To | None,
        Parameter(
            name="--to",
            help="json: for ui.perfetto.dev; goal: schedule for "
            "LogGOPSim; chakra: execution trace; otf2: archive (needs the extra otf2); left out, as the ending of "
            "--output says, else json",
        ),
    ] = None,
    on: Annotated[
        list[str] | None,
        Parameter(
            name="--on",
            help="target machine, one: a name, a TOML file or self; left out, the run as recorded",
            negative=(),
        ),
    ] = None,
    apply: Annotated[
        list[str] | None,
        Parameter(
            name="--apply",
            help="edits of whatif to make on the projected side; several times or with commas",
            negative=(),
        ),
    ] = None,
    source: Source = None,
    alpha: Alpha = "auto",
    host: Host = None,
    network: Network = None,
    network_set: NetworkSet = None,
    source_network: SourceNetwork = None,
    output: Annotated[
        Path | None,
        Parameter(
            name=["--output", "-o"],
            help="write there; compressed if it ends in .gz; a new folder for otf2",
        ),
    ] = None,
    no_cache: NoCache = False,
    part: AskedPart = ASKED_PART,
) -> int:
    """Write a run for another program: both time lines for a trace viewer, or the run as a schedule
    for a simulator.
    """
    from turnbuckle.questions.before_after.export import archived, writer, written

    to = form_of(output, to)
    if output is None and sys.stdout.isatty() and to not in ARCHIVES:
        raise error_of("A009.trace")
    names = targets(on) or []
    refuse_several(",".join(names), "target", "export writes")
    carried_by = network_of(network, network_set, source_network)
    if output is not None and to not in ARCHIVES:
        goal(output, "the trace", "trace.json.gz")
    read = judged if names or part.minus is not None else inspected
    seen = read(profile, source, no_cache, part)
    if to in ARCHIVES:
        place, lacks = archived(
            seen, output, to, as_recorded=not names and carried_by is None and not apply
        )
        print(place)
        _tell_left_out(seen)
        if lacks is not None:
            print(f"{lacks.code}: {lacks.meaning}: {lacks.detail}", file=sys.stderr)
        return 0
    target = None if not names else seen.source if names == ["self"] else load(names[0])
    write = writer(
        seen,
        target,
        model_of(alpha, "nething", None, host=host),
        carried_by,
        listed(apply or []),
        to,
    )
    if output is None:
        write(sys.stdout.buffer)
    else:
        print(written(write, output))
    _tell_left_out(seen)
    return 0


def _tell_left_out(seen: Run) -> None:
    """Say which part was written, once it is: a refusal stands alone."""
    for flaw in seen.left_out:
        print(f"{flaw.code}: {flaw.meaning}: {flaw.detail}; {flaw.advice}", file=sys.stderr)


def diff(
    before: Profile,
    after: Profile,
    /,
    *,
    source: Source = None,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> int:
    """Say what changed between two recordings of one program: run time, steps, where time goes,
    copies, kernels, host calls.
    """
    from turnbuckle.questions.before_after import tables

    runs = (inspected(profile, source, no_cache, part) for profile in (before, after))
    answer = next(runs).diff(next(runs))
    emit(answer, answer.changes(), tables.show, format, output)
    return 0
