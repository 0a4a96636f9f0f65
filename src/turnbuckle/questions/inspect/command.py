"""``turnbuckle inspect``, and ``turnbuckle FILE`` alone: what a recording amounts to."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.show.terminal.console import console_for
from turnbuckle.show.terminal.options import (
    NO_PART,
    FormatOption,
    Minus,
    NoCache,
    Output,
    PartOptions,
    Profile,
    Source,
    Verbose,
)
from turnbuckle.show.terminal.output import write_tables
from turnbuckle.show.terminal.recording import inspected


def _untimed(path: Path) -> ModuleType | None:
    """Return the module that inspects a file without times, such as a schedule; None for every
    other file.

    Asked after no reader took the file: the modules take longer to load than a small recording to
    read.
    """
    for entry in registry.entries("untimed").values():
        module: ModuleType = entry.load()
        if module.sniff(path):
            return module
    return None


def overview(
    profile: Profile,
    /,
    *,
    source: Source = None,
    format: FormatOption = "table",
    no_cache: NoCache = False,
    verbose: Verbose = False,
    part: PartOptions = NO_PART,
) -> int:
    """Say what holds a run up and what distance does to it (what `turnbuckle FILE` does)."""
    from turnbuckle.questions.inspect import tables
    from turnbuckle.show.terminal import projections as show

    try:
        seen = inspected(profile, source, no_cache, part)
    except TurnbuckleError:
        if _untimed(profile) is None:
            raise
        return inspect(profile, source=source, format=format, no_cache=no_cache, part=part)
    if format == "table":
        tables.show(console_for(None), seen.first())
        if not verbose:
            return 0
    if format == "markdown":
        write_tables([tables.ticket(seen.first())], format, None)
        return 0
    show.emit(seen.project() if seen.projectable else seen, "overview", format, None)
    return 0


def inspect(
    profile: Profile,
    /,
    *,
    minus: Minus = None,
    source: Source = None,
    format: FormatOption = "table",
    output: Output = None,
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> int:
    """Say what a recording amounts to: where time goes, what the link did, what is wrong with the
    recording.
    """
    from turnbuckle.show.terminal import projections as show

    given: dict[str, object] = {"--minus": minus, "--source": source, **part.given()}
    try:
        seen = inspected(profile, source, no_cache, part)
    except TurnbuckleError:
        if (untimed := _untimed(profile)) is None:
            raise
        untimed.inspect(profile, format, output, given)
        return 0
    if minus is not None:
        show.emit_placement(seen, inspected(minus, source, no_cache, part), format, output)
    else:
        show.emit(seen, "inspect", format, output)
    return 0
