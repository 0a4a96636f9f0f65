"""Recordings that are read once a worker."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from turnbuckle.profile.profile import Profile
from turnbuckle.projection.run import Run

#: Runs by name, content and options of reading.
_READ: dict[tuple[str, bytes, str], Run] = {}


@cache
def run_of(path: Path) -> Run:
    """Read a recording that stays as it is, or return the run that was read before."""
    return Run.read(path, use_cache=False)


def recorded_profile(path: Path) -> Profile:
    """Return the profile of a recording that stays as it is."""
    return run_of(path).profile


@contextlib.contextmanager
def read_once() -> Iterator[None]:
    """Let `Run.read` return the run that it returned before, where a file of the same name and content is read with the same options."""
    read = Run.read

    def again(path: str | Path, *, source: Any = None, progress: Any = None, command: str = "", **options: Any) -> Run:
        place = Path(path)
        # a source may be a file that changes
        if source is not None or not place.is_file():
            return read(path, source=source, progress=progress, command=command, **options)
        # beside other formats' files may stand more of the recording
        name = place.name if place.suffix == ".sqlite" else str(place.resolve())
        key = (name, hashlib.sha256(place.read_bytes()).digest(), repr(sorted(options.items())))
        if key not in _READ:
            _READ[key] = read(path, progress=progress, command=command, **options)
        object.__setattr__(_READ[key], "command", command)
        return _READ[key]

    with mock.patch.object(Run, "read", again):
        yield
