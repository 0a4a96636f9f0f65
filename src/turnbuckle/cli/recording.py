"""A recording a verb is asked about: read with progress, under the command line that asked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def inspected(profile: Path, source: str | None, no_cache: bool) -> Any:
    """Read and look over a recording: a `turnbuckle.study.study.Answer` without targets."""
    from turnbuckle.cli.progress import reading
    from turnbuckle.study.study import inspect

    with reading(profile) as progress:
        return inspect(profile, source=source, use_cache=not no_cache, progress=progress, command=command_line())


def command_line() -> str:
    """The command line with folders left out, so that no user or project name of this machine enters an output."""
    return " ".join(["turnbuckle", *(_without_folder(word) for word in sys.argv[1:])])


def _without_folder(word: str) -> str:
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + (Path(value).name if "/" in value else value)
