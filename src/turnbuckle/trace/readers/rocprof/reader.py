"""Reader of recordings of AMD's profilers in one file: rocprof's database and Chrome JSON,
rocprofv3's JSON, rocpd databases.

`turnbuckle.trace.readers.rocprof.csv_sets` reads their CSV, which may be a set of files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl

from turnbuckle.foundation.errors import ProfileError, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.trace.readers.parts import packed_text, sqlite_tables
from turnbuckle.trace.readers.parts.json_pieces import Json
from turnbuckle.trace.readers.parts.packed_text import Text, beginning
from turnbuckle.trace.readers.rocprof import first as rocprof_v1
from turnbuckle.trace.readers.rocprof import json as rocprofv3
from turnbuckle.trace.readers.rocprof import rocpd
from turnbuckle.trace.readers.rocprof.rows import COLUMNS, Rows, assembled
from turnbuckle.trace.trace import Trace

_OPENS: Final = re.compile(rb"\s*\{")
_V3: Final = re.compile(rb'"' + rocprofv3.TOP.encode() + rb'"\s*:')
_DEVICE_TABLES: Final = ("kernels", "copies", "memsets")


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the file is a recording of rocprof or rocprofv3, by its database tables or the
    begin of its JSON.
    """
    return kind(head, path) is not None


def kind(head: bytes, path: Path) -> str | None:
    """Return ``v1-database``, ``rocpd``, ``v1-json``, ``v3-json``, or None for any other file."""
    if head.startswith(sqlite_tables.MAGIC):
        names = sqlite_tables.names(path)
        if any(rocpd.OURS.match(n) for n in names):
            return "rocpd"
        return (
            "v1-database"
            if rocprof_v1.TABLES & set(names) and rocprof_v1.recognised(path)
            else None
        )
    text = beginning(head, path)
    if not _OPENS.match(text):
        return None
    if _V3.search(text):
        return "v3-json"
    return "v1-json" if b'"traceEvents"' in text and rocprof_v1.SIGNS.search(text) else None


class Pieces(Text):
    """Packed or plain file in pieces of bounded size.

    Attributes
    ----------
    cut : whether a packed file ended too early.
    """

    cut = False
    _source: Iterator[bytes] = iter(())

    def pieces(self) -> Iterator[bytes]:
        """Yield unpacked bytes.

        Raises `ProfileError` P025 where a packed file is damaged, P026 where it unpacks to too
        much, P029 where it is no text.
        """
        begun = False
        self._source = self._raw()
        try:
            for piece in packed_text.json_text(
                packed_text.unpacked(self._source, self.path), self.path
            ):
                yield piece if begun else piece.removeprefix(packed_text.MARK)
                begun = True
        except ProfileError as error:
            if not begun or "ends inside" not in error.found:
                raise
            self.cut = True

    def hashed(self) -> tuple[str, int]:
        """Return SHA-256 and size [B] of the file, after reading the rest of it."""
        for _ in self._source:
            pass
        return self.digest, self.size_bytes


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read a recording.

    Raises `ProfileError`: P025, P026 packed and damaged; P045 a database of another kind; P046
    nothing of a GPU in it; P047 JSON that cannot be read; P049 a database that cannot be read; P050
    clocks that cannot be aligned.
    """
    with opened(path) as file:
        head = file.read(512)
    what = kind(head.removeprefix(packed_text.MARK), path)
    if what in ("rocpd", "v1-database"):
        return _database(path, what, progress)
    return _json(path, "v3-json" if what == "v3-json" else "v1-json", progress)


def _json(path: Path, what: str, progress: Callable[[float], object] | None) -> Trace:
    rows = Rows()
    file = Pieces(path, progress)
    text = Json(file.pieces())
    reader = rocprofv3.read if what == "v3-json" else rocprof_v1.read_json
    devices, seen, whole = reader(text, rows)
    rows.flaws["P162"] += text.broken
    rows.flaws["P107"] += text.replaced
    rows.flaws["P163"] += not whole or file.cut
    if not whole and not any(seen.values()):
        raise error_of("P047", where=str(path), found="no record before its text breaks off")
    tool = "rocprofv3" if what == "v3-json" else "rocprof"
    about = {"format": tool, "product_version": tool, "container": "json", "tables": seen}
    return finished(path, rows, devices, about, file.hashed())


def _database(path: Path, what: str, progress: Callable[[float], object] | None) -> Trace:
    rows = Rows()
    reader = rocpd.read if what == "rocpd" else rocprof_v1.read_database
    devices, about = reader(path, rows, progress)
    return finished(path, rows, devices, about, sqlite_tables.digest(path))


def finished(
    path: Path, rows: Rows, devices: pl.DataFrame, about: dict[str, Any], digest: tuple[str, int]
) -> Trace:
    """Return the trace of all rows.  Raises `ProfileError` P046 where they hold no GPU activity."""
    tables, names, base, findings = assembled(rows, devices)
    if not any(name in tables for name in ("api", *_DEVICE_TABLES)):
        raise error_of("P046", where=str(path), found=_held(about["tables"]))
    facts: dict[str, Any] = dict.fromkeys(
        ("product_version", "schema_version", "session_start_utc_ns", "analysis_duration_ns")
    )
    facts |= {
        "base_ns": base,
        "recorded": sorted(n for n in COLUMNS if n in tables),
        "sha256": digest[0],
        "size_bytes": digest[1],
        **about,
    }
    return Trace(tables, names, facts, findings, path.name)


def _held(tables: dict[str, int]) -> str:
    rows = ", ".join(
        f"{name} {count}"
        for name, count in sorted(tables.items())
        if count and name.replace("_", "").isalnum()
    )
    return f"rows of {rows[:100]}" if rows else "no rows in any of its tables"
