"""Reader of OTF2 archives of Score-P and EZTrace.  The work is in the native core."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from turnbuckle._native import read_otf2
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.files import noted
from turnbuckle.trace.readers.parts.native import native_trace
from turnbuckle.trace.trace import Trace

HEADS = (b"\x03\x42", b"\x03\x23")
"""First bytes of every file of an archive, in either byte order."""
MAGIC = b"OTF2\x00"
"""Bytes that follow in the anchor file."""
PARTS = (".def", ".evt")


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the file is part of an archive; parts are accepted so that the error can name
    the file to give.
    """
    return head.startswith(HEADS) and (
        head[2:].startswith(MAGIC) or path.suffix.lower() in (".otf2", *PARTS)
    )


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read an archive; `path` is its anchor file.  Raises `ProfileError` (P007, P015 to P019)."""
    if path.suffix.lower() in PARTS:
        raise _part(path)
    for part in (path.with_suffix(".def"), *path.with_suffix("").glob("*")):
        # the core reports what is wrong with a part
        with suppress(OSError):
            noted(part)
    return native_trace(path, lambda: read_otf2(path, threads=threads, progress=progress))


def _part(path: Path) -> TurnbuckleError:
    beside = [path.with_suffix(".otf2"), path.parent.with_suffix(".otf2")]
    anchor = next(
        (place.name for place in beside if place.is_file()), "the file that ends in .otf2"
    )
    return error_of("P019", where=str(path), found=f"a {path.suffix} file", anchor=anchor)
