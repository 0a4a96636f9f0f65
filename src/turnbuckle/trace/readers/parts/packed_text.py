"""Text files, plain or packed by xz or gzip, read piece by piece: the unpacked text is never held
whole, and its size is limited.
"""

from __future__ import annotations

import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

from turnbuckle.foundation.errors import ProfileError, TurnbuckleError, error_of
from turnbuckle.foundation.files import opened

_PIECE: Final = 1 << 20
_LONGEST_LINE: Final = 1 << 20
#: UTF-8 byte order mark, which some editors put before a text.
MARK: Final = b"\xef\xbb\xbf"
_XZ, _GZ = b"\xfd7zXZ\x00", b"\x1f\x8b\x08"
#: Largest unpacked size of a recording: this [B], or this many times the bytes read so far if that
#: is more.
_FREE: Final = 64 << 20
_GROWTH: Final = 200
_MEMORY: Final = 256 << 20
#: NULs behind the last member that are taken for padding (tapes pad to blocks); more of them are a
#: hole in the file.
_PADDING: Final = 16 << 20


def most_bytes(size_bytes: int) -> int:
    """Return the largest accepted unpacked size of a packed file of that size [B]."""
    return max(_FREE, _GROWTH * size_bytes)


def packed(head: bytes) -> bool:
    """Return whether a file with these first bytes is packed by xz or gzip."""
    return head.startswith((_XZ, _GZ))


def beginning(head: bytes, path: Path, most: int = 1 << 16) -> bytes:
    """Return the first bytes of a file, unpacked; `head` where it cannot be read."""
    try:
        out = b""
        with opened(path) as file:
            for piece in unpacked(iter(lambda: file.read(_PIECE), b""), path):
                out += piece
                if len(out) >= most:
                    break
        return out[:most].removeprefix(MARK)
    except (OSError, ProfileError):
        return b"" if packed(head) else head


class Text:
    """A text file, packed or not, line by line.

    Attributes
    ----------
    digest : SHA-256 of the packed file, in hex, once it is read to its end.
    size_bytes : size of the packed file [B].
    """

    def __init__(self, path: Path, progress: Callable[[float], object] | None = None) -> None:
        self.path, self.progress = path, progress
        self.size_bytes = path.stat().st_size
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the bytes read so far."""
        return self._hash.hexdigest()

    def _raw(self) -> Iterator[bytes]:
        done = 0
        with opened(self.path) as file:
            while piece := file.read(_PIECE):
                self._hash.update(piece)
                done += len(piece)
                yield piece
                if self.progress is not None:
                    self.progress(min(done / max(self.size_bytes, 1), 1.0))

    def __iter__(self) -> Iterator[bytes]:
        """Yield lines without their end.  Raises as `blocks` does."""
        for block in self.blocks():
            lines = block.split(b"\n")
            if not lines[-1]:
                lines.pop()
            yield from lines

    def blocks(self) -> Iterator[bytes]:
        """Yield whole lines, a piece of the file at a time; only the file's last may lack its end.

        Raises `ProfileError` P025 where the file is damaged, P026 where it grows beyond measure,
        P029 where a line does.
        """
        rest, begun = b"", False
        for piece in unpacked(self._raw(), self.path):
            if not begun:
                piece, begun = piece.removeprefix(MARK), True
            lines, end, left = piece.rpartition(b"\n")
            if end:
                yield rest + lines + end
                rest = left
            else:
                rest += left
            if len(rest) > _LONGEST_LINE:
                raise error_of(
                    "P029.line",
                    where=str(self.path),
                    found=f"a line of more than {_LONGEST_LINE} letters",
                )
        if rest:
            yield rest


def unpacked(pieces: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """Yield the pieces of a file, unpacked where they are packed.  Raises `ProfileError` P025,
    P026.
    """
    first = next(pieces, b"")
    pieces = chain([first], pieces)
    if not packed(first):
        yield from pieces
        return
    grown = taken = 0

    def counted() -> Iterator[bytes]:
        nonlocal taken
        for piece in pieces:
            taken += len(piece)
            yield piece

    for piece in _inflated(counted(), path, xz=first.startswith(_XZ)):
        grown += len(piece)
        if grown > most_bytes(taken):
            raise grows(path, f"{grown} bytes from the first {taken} packed ones")
        yield piece


def json_text(pieces: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """Yield the pieces of a JSON text.  Raises `ProfileError` P029 at the first NUL byte, which no
    JSON holds but a hole in a file does.
    """
    before = 0
    for piece in pieces:
        if (position := piece.find(b"\0")) >= 0:
            before += position
            raise error_of(
                "P029.binary",
                where=str(path),
                found=f"a NUL byte behind {before} bytes of text",
                before=before,
            )
        before += len(piece)
        yield piece


def _inflated(pieces: Iterator[bytes], path: Path, xz: bool) -> Iterator[bytes]:
    """Yield unpacked pieces of at most `_PIECE` bytes; several members after each other are one
    file.
    """
    engine: Any = None
    ended = True
    padding = 0
    try:
        for given in pieces:
            piece = given
            while piece or (engine is not None and not ended and xz and not engine.needs_input):
                if engine is None:
                    if not packed(piece) and piece.strip(b"\0") == b"":
                        padding += len(piece)
                        break
                    engine, ended = (
                        (
                            lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)
                            if xz
                            else zlib.decompressobj(31)
                        ),
                        False,
                    )
                if xz:
                    out, piece = engine.decompress(piece, _PIECE), b""
                else:
                    out = engine.decompress(piece, _PIECE)
                    piece = engine.unconsumed_tail
                if out:
                    yield out
                if engine.eof:
                    piece, engine, ended = engine.unused_data, None, True
            if padding > _PADDING:
                raise spoilt(
                    path, f"more than {_PADDING >> 20} MiB of NUL bytes behind its last member"
                )
    except (lzma.LZMAError, zlib.error) as error:
        raise spoilt(path, str(error)) from error
    if not ended:
        raise spoilt(path, "it ends inside a packed block")


def grows(path: Path, evidence: str) -> TurnbuckleError:
    """Build P026: the file unpacks to more than a recording of that size holds."""
    return error_of("P026", where=str(path), found=evidence)


def spoilt(path: Path, evidence: str) -> TurnbuckleError:
    """Build P025: a packed file cannot be unpacked to its end."""
    return error_of("P025", where=str(path), found=evidence[:120])
