"""``turnbuckle anonymise``: a copy of a recording that can be handed on."""

from __future__ import annotations

import secrets as random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter
from rich.text import Text

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.files import free_folder, opened
from turnbuckle.show.terminal.cells import clean
from turnbuckle.show.terminal.console import console_for
from turnbuckle.show.terminal.idle_options import refuse_idle
from turnbuckle.show.terminal.options import NO_PART, NoCache, PartOptions
from turnbuckle.show.terminal.output import write_json
from turnbuckle.show.terminal.progress import reading
from turnbuckle.show.terminal.tables import unframed

if TYPE_CHECKING:
    from rich.console import Console

    from turnbuckle.questions.anonymise.copy import Anonymised

Profile = Annotated[Path, Parameter(help="a recording of any kind")]
Folder = Annotated[
    Path | None,
    Parameter(name=["--output", "-o"], help="write the trace into this folder, new or empty"),
]
KeyFile = Annotated[
    Path | None,
    Parameter(
        name="--key-file",
        help="key of the hashes, 16 bytes or more: the same key makes the same hashes; else random",
    ),
]
Keep = Annotated[
    str | None, Parameter(help="regular expression: kernels with matching names keep them")
]
DryRun = Annotated[
    bool,
    Parameter(
        name="--dry-run",
        help="say what would be kept, hashed and dropped; write nothing",
        negative=(),
    ),
]
Format = Annotated[
    Literal["table", "json"],
    Parameter(name="--format", help="how the answer is written: table or json"),
]

_LEAST_KEY: Final = 16
_MOST_KEY: Final = 1 << 20


def anonymise(
    profile: Profile,
    /,
    *,
    output: Folder = None,
    key_file: KeyFile = None,
    keep: Keep = None,
    dry_run: DryRun = False,
    format: Format = "table",
    no_cache: NoCache = False,
    part: PartOptions = NO_PART,
) -> int:
    """Write a copy of a recording without names, ids, dates and places of its own; every answer
    about it stays the same.
    """
    from turnbuckle.projection.run import part_of
    from turnbuckle.questions.anonymise.copy import check_pattern, copied
    from turnbuckle.trace.read import read
    from turnbuckle.trace.secrets import look

    refuse_idle(
        {"--clean-time": part.clean_time is not None},
        "a copy keeps the times of the recording",
        "leave --clean-time out",
    )
    folder = _folder(output, dry_run)
    check_pattern(keep)
    key = _key(key_file)
    with reading(profile) as progress:
        trace = part_of(
            read(profile, use_cache=not no_cache, progress=progress), part.asked()["part"]
        )
    answer = copied(trace, None if dry_run else folder, key, keep, look(profile))
    if format == "json":
        write_json(answer.as_dict(), None)
    else:
        _print(answer, profile)
    return 0


def _folder(output: Path | None, dry_run: bool) -> Path | None:
    """Return the folder to write into.

    Raise A404 if it is not given, R005 if it is not a folder of its own.
    """
    if output is None:
        if dry_run:
            return None
        raise error_of("A404", found="no --output")
    return free_folder(output, "the copy")


def _key(key_file: Path | None) -> bytes:
    """Return the key of the hashes.

    Raise A403 if the file cannot be read, or is too short or too long for a key.
    """
    if key_file is None:
        return random.token_bytes(32)
    try:
        if not key_file.is_file():
            raise OSError("it is no file" if key_file.exists() else "there is no such file")
        with opened(key_file) as file:
            key = file.read(_MOST_KEY + 1)
    except OSError as error:
        evidence = error.strerror or str(error)
    else:
        if _LEAST_KEY <= len(key) <= _MOST_KEY:
            return key
        evidence = f"{len(key)} bytes" if len(key) <= _MOST_KEY else f"more than {_MOST_KEY} bytes"
    raise error_of("A403", where=key_file.name, found=evidence, least_key=_LEAST_KEY)


def show(console: Console, answer: Anonymised) -> None:
    """Print how the copy treats each kind of data of the recording, then the findings with their
    advice.

    The table has a row per kind of data: action (kept, hashed, renumbered, shifted or dropped),
    number of items, and examples.  A finding says where it holds for the original alone.
    """
    table = unframed(
        "action", "what", "number", "for example", words=("action", "what", "for example")
    )
    for row in answer.rows():
        shown = ", ".join(clean(text, 100) for text in row["examples"])
        table.add_row(
            Text(row["action"], "bold cyan"), row["what"], f"{row['count']:,}", Text(shown, "dim")
        )
    console.print(table)
    of_source = {f.code for f in answer.secrets.findings()}
    for f in answer.findings:
        console.print()
        whose = (
            "in the original recording, not in the copy: "
            if answer.folder and f.code in of_source
            else ""
        )
        console.print(
            Text.assemble((f"{f.code}  ", "yellow"), f"{f.count:,}  {whose}{f.meaning}; {f.advice}")
        )


def _print(answer: Anonymised, profile: Path) -> None:
    console = console_for(None)
    show(console, answer)
    console.print()
    following = (
        f"inspect {clean(answer.folder, 200)}"
        if answer.folder
        else f"anonymise {clean(profile.name, 200)} -o FOLDER writes it"
    )
    console.print(Text.assemble(("next  ", "bold cyan"), f"turnbuckle {following}"))
