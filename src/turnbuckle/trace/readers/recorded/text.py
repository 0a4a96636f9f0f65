"""Parser of the text that Turnbuckle's recorders write, ``turnbuckle-trace 1``: facts and rows of
one process, piece by piece.

Lines that begin with ``#`` are facts.  The first other line names the columns.  Every other line is
a record: a letter for its kind, then integers, empty where there is none.  A program that was
killed leaves a file that ends anywhere.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.files import opened

FIRST: Final = b"#turnbuckle-trace "
VERSION: Final = "1"
#: Kinds of records by their letter, each with its columns.
KINDS: Final[dict[str, tuple[str, str]]] = {
    "A": ("calls", "start end corr tid name ret"),
    "D": ("driver calls", "start end corr tid name ret"),
    "K": (
        "kernels",
        "start end corr dev ctx stream name blocks threads regs smem graph node queued",
    ),
    "C": ("copies", "start end corr corr2 dev ctx stream bytes what src dst ret node queued"),
    "P": ("peer copies", "start end corr dev ctx stream bytes what src dst node"),
    "S": ("memory sets", "start end corr dev ctx stream bytes dst node queued"),
    "Y": ("waits", "start end corr ctx stream what event evsync"),
    "E": ("event records", "end corr dev ctx stream event evsync"),
    "M": ("allocations", "start corr dev ctx bytes what src dst address"),
    "G": ("whole graphs", "start end corr dev ctx stream graph"),
    "R": ("streams", "ctx stream what dst"),
    "O": ("overheads", "start end tid what"),
    "U": ("unified memory", "start end dev bytes what src dst ret"),
    "N": ("ranges", "start corr tid name what domain"),
    "L": ("delays", "start end corr tid what"),
    "I": ("MPI calls", "start end tid name what bytes submitted stream dev node ctx event src dst"),
    "B": ("communicators", "start ctx what blocks dev address"),
}
_PIECE: Final = 32 << 20
_LONGEST_LINE: Final = 1 << 20
_LONGEST_NAME: Final = 64 << 10
_MOST_COLUMNS: Final = 200
#: Most facts that are kept of one word.
_MOST_LINES: Final = 100_000
_NUMBER: Final = rb"(?:-?(?:[0-8][0-9]{18}|[0-9]{1,18}))?"


@dataclass
class Recorded:
    """Contents of one file."""

    path: Path
    size_bytes: int
    digest: str = ""
    #: texts of the lines of facts by their first word, in their order
    facts: dict[str, list[str]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    #: records by their letter, with the columns of `KINDS`, all Int64
    rows: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    bad: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    undecoded: int = 0
    ended: bool = False

    def last(self, word: str, default: str = "") -> str:
        """Return the text of the last fact `word`."""
        return self.facts.get(word, [default])[-1]

    def number(self, word: str, default: int = 0) -> int:
        """Return a fact that is one integer; `default` for any other."""
        text = self.last(word)
        return int(text) if re.fullmatch(r"-?\d{1,18}", text) else default

    def table(self, letter: str) -> pl.DataFrame:
        """Return the records of one kind, in the order of the file."""
        pieces = self.rows.get(letter, [])
        return (
            pl.concat(pieces)
            if pieces
            else pl.DataFrame(schema=dict.fromkeys(KINDS[letter][1].split(), pl.Int64))
        )

    @property
    def count(self) -> int:
        """Return the number of records of all kinds that were read."""
        return sum(piece.height for pieces in self.rows.values() for piece in pieces)


def load(path: Path, progress: Callable[[float], object] | None = None) -> Recorded:
    """Read one recorded text file whole, and take its SHA-256; lines that cannot be read are
    counted, not refused.

    Parameters
    ----------
    path : the file.
    progress : told after each piece which share of the file's bytes has been read, at most 1.

    Raises
    ------
    ProfileError : P063 another version of the format, P064 its columns are not named or several
        recordings follow each other.
    """
    recorded = Recorded(path, path.stat().st_size)
    done, hashed = 0, hashlib.sha256()
    with opened(path) as file:
        for piece in _pieces(file, hashed, recorded):
            _piece(recorded, piece)
            done += len(piece)
            if progress is not None:
                progress(min(1.0, done / max(recorded.size_bytes, 1)))
    recorded.digest = hashed.hexdigest()
    return recorded


def _pieces(file: io.BufferedReader, hashed: hashlib._Hash, recorded: Recorded) -> Iterator[bytes]:
    """Yield whole lines, many at a time; a last line that is cut off is left out, a line that is
    too long is left out and counted.
    """
    rest = b""
    while piece := file.read(_PIECE):
        hashed.update(piece)
        whole, end, tail = piece.rpartition(b"\n")
        if end:
            yield rest + whole + b"\n"
            rest = tail
        else:
            rest += tail
        if len(rest) > _LONGEST_LINE:
            # no recorder writes such a line; the NUL makes its rest a line that is no record
            recorded.bad += 1
            rest = b"\x00"


def _piece(recorded: Recorded, piece: bytes) -> None:
    if not recorded.columns:
        piece = _header(recorded, piece)
    facts = commas = 0
    for line in _fact_lines(piece):
        facts, commas = facts + 1, commas + line.count(b",")
        _fact(recorded, line)
    if (lines := piece.count(b"\n") - facts) > 0:
        _rows(recorded, piece, lines, piece.count(b",") - commas)


def _fact_lines(piece: bytes) -> Iterator[bytes]:
    begin = 0 if piece.startswith(b"#") else piece.find(b"\n#") + 1
    while piece.startswith(b"#", begin):
        end = piece.index(b"\n", begin)
        yield piece[begin:end]
        begin = end + 1 if piece.startswith(b"#", end + 1) else piece.find(b"\n#", end) + 1
        if begin == 0:
            return


def _header(recorded: Recorded, piece: bytes) -> bytes:
    """Read the facts before the line that names the columns, and that line; return what
    follows it.
    """
    begin = 0
    while begin < len(piece):
        end = piece.index(b"\n", begin)
        line, begin = piece[begin:end], end + 1
        if line.startswith(b"#"):
            _fact(recorded, line)
            continue
        names = line.decode("utf-8", "replace").split(",")
        if (
            len(names) > _MOST_COLUMNS
            or names[:3] != ["kind", "start", "end"]
            or len(set(names)) != len(names)
        ):
            raise error_of("P064.columns", where=str(recorded.path), found=clipped(",".join(names)))
        recorded.columns = names
        return piece[begin:]
    return b""


# --- facts ----------------------------------------------------------------------------------------


def _fact(recorded: Recorded, line: bytes) -> None:
    word, _, rest = line[1:].partition(b" ")
    if word == b"name":
        _name(recorded, rest)
        return
    key, text = (
        word.decode("utf-8", "replace")[:64],
        rest[:_LONGEST_NAME].decode("utf-8", "replace").strip(),
    )
    if key == "turnbuckle-trace":
        _first(recorded, text)
    recorded.ended = recorded.ended or key == "end"
    lines = recorded.facts.setdefault(key, [])
    if len(lines) < _MOST_LINES:
        lines.append(text)


def _first(recorded: Recorded, version: str) -> None:
    if version != VERSION:
        raise error_of(
            "P063",
            where=str(recorded.path),
            found=f"turnbuckle-trace {clipped(version)}",
            version=VERSION,
        )
    if "turnbuckle-trace" in recorded.facts:
        raise error_of(
            "P064.several", where=str(recorded.path), found="a second line #turnbuckle-trace"
        )


def _name(recorded: Recorded, rest: bytes) -> None:
    number, _, text = rest.partition(b" ")
    if not re.fullmatch(rb"\d{1,18}", number):
        recorded.bad += 1
        return
    try:
        plain = text[:_LONGEST_NAME].decode("utf-8")
    except UnicodeDecodeError:
        recorded.undecoded += 1
        plain = text[:_LONGEST_NAME].decode("utf-8", "replace")
    recorded.names.setdefault(int(number), plain)


# --- rows -----------------------------------------------------------------------------------------


def _rows(recorded: Recorded, piece: bytes, lines: int, commas: int) -> None:
    """Add the records of a piece: all of its lines at once, or, where one is no record, those that
    are.
    """
    frame = None
    if commas == lines * (len(recorded.columns) - 1):
        frame = _parsed(recorded, piece)
    if frame is None or frame.height != lines:
        good = re.compile(
            rb"^[A-Za-z](?:," + _NUMBER + rb"){%d}$" % (len(recorded.columns) - 1), re.MULTILINE
        ).findall(piece)
        recorded.bad += lines - len(good)
        frame = _parsed(recorded, b"\n".join(good) + b"\n") if good else None
    if frame is None:
        return
    for letter, count in frame["kind"].value_counts().iter_rows():
        if letter not in KINDS:
            recorded.unknown[clipped(letter, 8)] += count
            continue
        of_kind = (
            frame.lazy().filter(pl.col("kind") == letter).select(_columns(letter, frame.columns))
        )
        recorded.rows.setdefault(letter, []).append(of_kind.collect())


def _columns(letter: str, present: list[str]) -> Iterator[pl.Expr]:
    """Return the columns of a kind; those that the file does not have are null."""
    return (
        pl.col(name) if name in present else pl.lit(None, pl.Int64).alias(name)
        for name in KINDS[letter][1].split()
    )


def _parsed(recorded: Recorded, piece: bytes) -> pl.DataFrame | None:
    """Return all lines as a table, or None where one is no record."""
    schema = {name: pl.Int64 if place else pl.String for place, name in enumerate(recorded.columns)}
    try:
        frame = pl.read_csv(
            piece, has_header=False, schema=schema, comment_prefix="#", quote_char=None
        )
    except (pl.exceptions.PolarsError, ValueError):
        return None
    if not frame["kind"].str.contains(r"^[A-Za-z]$").fill_null(False).all():
        return None
    return frame
