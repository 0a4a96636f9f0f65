"""Files of execution traces, read piece by piece and never whole: plain, packed by gzip or xz, or a
member of a packed archive.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from turnbuckle.foundation.errors import ProfileError, clipped, did_you_mean, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.trace.readers.kineto import SEPARATOR, archive
from turnbuckle.trace.readers.parts import packed_text

_PIECE: Final = 1 << 20
_MOST_MEMBERS: Final = 100_000


def pieces(path: Path, progress: Callable[[float], object] | None = None) -> Iterator[bytes]:
    """Yield the unpacked bytes of a file, or of the member that ``ARCHIVE::MEMBER`` names.

    Raises `ProfileError`: P025 packed and damaged, P026 unpacks to too much, P037 an archive
    without that member.
    """
    place, member = archive(path) or (path, None)
    size = place.stat().st_size
    plain = packed_text.unpacked(_raw(place, size, progress), place)
    if member is None:
        yield from plain
        return
    stream = _Stream(plain)
    try:
        with tarfile.open(fileobj=stream, mode="r|") as opened:
            yield from _member(opened, place, member, packed_text.most_bytes(size))
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise packed_text.spoilt(place, f"as an archive: {clipped(str(error), 100)}") from None


def beginning(path: Path, most: int = 1 << 16) -> bytes:
    """Return the first unpacked bytes; nothing where they cannot be read."""
    out = b""
    try:
        for piece in pieces(path):
            out += piece
            if len(out) >= most:
                break
    except (OSError, ProfileError):
        return b""
    return out[:most]


def digest(path: Path) -> tuple[str, int]:
    """Return SHA-256 and size [B] of the packed file; of an archive member, those of the whole
    archive.
    """
    place = (archive(path) or (path, None))[0]
    with opened(place) as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), place.stat().st_size


def _raw(place: Path, size: int, progress: Callable[[float], object] | None) -> Iterator[bytes]:
    done = 0
    with opened(place) as file:
        while piece := file.read(_PIECE):
            done += len(piece)
            yield piece
            if progress is not None:
                progress(min(done / max(size, 1), 1.0))


def _member(opened: tarfile.TarFile, place: Path, member: str, most: int) -> Iterator[bytes]:
    seen: list[str] = []
    for entry in opened:
        if entry.name == member and entry.isreg():
            if entry.size > most:
                raise packed_text.grows(place, f"a member of {entry.size} bytes")
            file: IO[bytes] | None = opened.extractfile(entry)
            while file is not None and (piece := file.read(_PIECE)):
                yield piece
            return
        seen.append(entry.name)
        opened.members = []  # type: ignore[attr-defined]  # tarfile would keep every entry in memory
        if len(seen) > _MOST_MEMBERS:
            break
    raise error_of(
        "P037.member",
        where=str(place),
        found=clipped(member, 120),
        fix=did_you_mean(member, seen) or None,
        name=place.name,
        separator=SEPARATOR,
    )


class _Stream(io.RawIOBase):
    """Pieces as a file that is read from begin to end."""

    def __init__(self, source: Iterator[bytes]) -> None:
        self._source, self._rest = source, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` from the next piece."""
        while not self._rest:
            piece = next(self._source, None)
            if piece is None:
                return 0
            self._rest = piece
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
