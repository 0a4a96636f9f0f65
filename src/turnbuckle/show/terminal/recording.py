"""A recording a verb is asked about: read with progress, under the command line that asked."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import ProfileError, error_of
from turnbuckle.show.terminal.idle_options import refuse_idle
from turnbuckle.show.terminal.progress import reading

if TYPE_CHECKING:
    from turnbuckle.projection.run import Run
    from turnbuckle.show.terminal.options import AskedPart, MachineName, PartOptions, Recorded

#: Whether the words of this process are those of `turnbuckle.cli`; another program has words of its
#: own.
ON_COMMAND_LINE: ContextVar[bool] = ContextVar("ON_COMMAND_LINE", default=False)


def inspected(
    profile: Recorded, source: MachineName | None, no_cache: bool, part: PartOptions | None = None
) -> Run:
    """Read a recording, or a part of one.  A run that Python read already stays as it is (A056 with
    an option of reading).
    """
    from turnbuckle.projection.run import Run

    if isinstance(profile, Run):
        asked_of_reading = {
            "--source": source is not None,
            "--no-cache": no_cache,
            **({} if part is None else part.idle()),
        }
        refuse_idle(asked_of_reading, "the run was read already", "give it to turnbuckle.read")
        return profile
    try:
        with reading(profile) as progress:
            asked = {} if part is None else part.asked()
            return Run.read(
                profile,
                source=source,
                use_cache=not no_cache,
                progress=progress,
                command=command_line(),
                **asked,
            )
    except ProfileError as error:
        if error.code == "P013":
            _refuse_schedule(profile)
        raise


def judged(profile: Recorded, source: MachineName | None, no_cache: bool, part: AskedPart) -> Run:
    """Read the part of a recording that a question about other machines is about, less what another
    recording says goes to the network.
    """
    run = inspected(profile, source, no_cache, part)
    if part.minus is None:
        return run.judged
    return run.minus(inspected(part.minus, source, no_cache, part))


def provenance_of(run: Run | None) -> dict[str, Any]:
    """Return the key of a document that says where its recording comes from; none without a
    recording.
    """
    return {} if run is None else {"provenance": run.provenance()}


def _refuse_schedule(path: Path) -> None:
    """Raise A077 where a file that no reader takes is a schedule: what reads it is another verb."""
    untimed = next(
        (
            module
            for entry in registry.entries("untimed").values()
            if (module := entry.load()).sniff(path)
        ),
        None,
    )
    if untimed is not None:
        raise error_of(
            "A077.recording", where=path.name, found=untimed.HOLDS, name=path.name
        ) from None


def refuse_asked(path: Recorded, asked: dict[str, object], holds: str) -> None:
    """Raise A077 where an option is given that needs a recording; `holds` says what the file holds
    instead.
    """
    given = [name for name, value in asked.items() if value is not None]
    if given:
        raise error_of("A077.option", where=path.name, found=holds, given=given[0])


def command_line() -> str:
    """Return the command line without folders, so that no user or project name of this machine
    enters an output; empty in Python.
    """
    if not ON_COMMAND_LINE.get():
        return ""
    return " ".join(["turnbuckle", *(_without_folder(word) for word in sys.argv[1:])])


def _without_folder(word: str) -> str:
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + (Path(value).name if "/" in value else value)
