"""Recordings that are read once a worker."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import re
from collections.abc import Collection, Iterator
from functools import cache, wraps
from pathlib import Path
from typing import Any
from unittest import mock

from turnbuckle.profile.profile import Profile
from turnbuckle.projection.run import Run
from turnbuckle.trace.window import Part

ROOT = Path(__file__).resolve().parents[2]
#: Runs by name, content and options of reading.
_READ: dict[tuple[str, bytes, str], Run] = {}


@cache
def run_of(path: Path, part: str | None = None) -> Run:
    """Read a recording that stays as it is, or a part of it; return the run that was read
    before.
    """
    return Run.read(path, use_cache=False, part=part)


def recorded_profile(path: Path) -> Profile:
    """Return the profile of a recording that stays as it is."""
    return run_of(path).profile


def samples() -> frozenset[bytes]:
    """Return the digests of the recordings that ship."""
    return frozenset(map(_digest, (ROOT / "src" / "turnbuckle" / "examples").glob("*.sqlite")))


def _digest(path: Path) -> bytes:
    """Return the SHA-256 of a file, or of all files of a recording that is a folder."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


@contextlib.contextmanager
def read_once(contents: Collection[bytes] | None = None) -> Iterator[None]:
    """Let `Run.read` return the run that it returned before, where a file of the same name and
    content is read with the same options.

    Parameters
    ----------
    contents : digests of the files that this holds for; None for all.
    """
    read = Run.read
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(read).parameters.items()
    }

    @wraps(read)
    def again(
        path: str | Path,
        *,
        source: Any = None,
        progress: Any = None,
        command: str = "",
        **options: Any,
    ) -> Run:
        place = Path(path)
        # a source may be a file that changes
        named = source is None or (
            isinstance(source, str) and re.fullmatch(r"[a-z0-9-]{1,40}", source)
        )
        if not named or not place.exists():
            return read(path, source=source, progress=progress, command=command, **options)
        # beside other formats' files may stand more of the recording
        name = place.name if place.suffix == ".sqlite" else str(place.resolve())
        digest = _digest(place)
        if contents is not None and digest not in contents:
            return read(path, source=source, progress=progress, command=command, **options)
        # a command line ends with its answer; tests in Python keep theirs, whose command is not to
        # change
        asked = sorted(
            (option, value)
            for option, value in options.items()
            if value not in (defaults[option], Part())
        )
        key = (name, digest, repr((bool(command), source, asked)))
        if key not in _READ:
            _READ[key] = read(path, source=source, progress=progress, command=command, **options)
        run = _READ[key]
        # the part without start-up has the command of its recording, and was perhaps cut under the
        # one before
        for told in (run, run.__dict__.get("steady")):
            if told is not None:
                object.__setattr__(told, "command", command)
        return run

    with mock.patch.object(Run, "read", again):
        yield
