"""A file that is there whole or not at all: where it may go, and writing it beside its goal until it is done.

R001  the file cannot be written
R002  the folder does not exist
R003  the path is a folder
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from turnbuckle.errors import ReportError, clipped, unwritable


def goal(path: str | Path, what: str, example: str) -> Path:
    """The path of a file to write, looked at before the work and not after it.

    Raises
    ------
    ReportError : R001, R002, R003.
    """
    place = Path(path)
    name = clipped(place.name, 120)
    try:
        if place.is_dir():
            raise ReportError("R003", f"{what}'s path is a folder", where=name, fix=f"give the name of a file, for example {example}")
        if not place.parent.is_dir():
            raise ReportError(
                "R002", f"the folder for {what} does not exist", where=name, found=f"no folder {clipped(place.parent.name)}",
                fix="make the folder first, or name another",
            )  # fmt: skip
        # a name that is none, or too long
        with suppress(FileNotFoundError):
            place.lstat()
    except (OSError, ValueError) as error:
        raise unwritable("R001", f"{what} cannot be written", place, error) from error
    return place


@contextmanager
def whole(place: Path, what: str) -> Iterator[Path]:
    """A path to write to in the place's stead; it takes the place at the end.  A device or a pipe is written to itself.

    Raises
    ------
    ReportError : R001.
    """
    beside = place.with_name(f".{place.name[:100]}.{os.getpid()}.part")
    try:
        if place.exists() and not place.is_file():
            beside = place
        yield beside
        if beside != place:
            beside.replace(place)
    except OSError as error:
        raise unwritable("R001", f"{what} cannot be written", place, error) from error
    finally:
        if beside != place:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
