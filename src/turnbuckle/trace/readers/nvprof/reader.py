"""Reader of SQLite files of nvprof and the Visual Profiler (``nvprof -o RUN.nvvp``, CUDA 5 to 11
and later): one file per process.

Tables are those of CUPTI's activity records.  Columns are read by name, so that the versions differ
only in what is absent.  Times are absolute nanoseconds: the clock of the trace begins 1 us before
the first record, and the fact ``session_start_utc_ns`` keeps when that was.  Calls have numbers;
their names are in ``calls.csv``.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import polars as pl

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.trace.readers.nvprof.source import READ, gather
from turnbuckle.trace.readers.nvprof.tables import KIND, Database
from turnbuckle.trace.readers.parts.sqlite_tables import ERRORS, MAGIC, columns, connect
from turnbuckle.trace.trace import Trace

_NAMED: Final = (".nvvp", ".nvprof")
_SUMMARY: Final = re.compile(
    rb"^==(?:\d+|====)== ?(?:NVPROF is profiling|Profiling (?:application|result)|Unified Memory profiling)",
    re.M,
)
#: A session of the Visual Profiler, and the recordings that it names.
_SESSION: Final = re.compile(
    rb"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--.{0,500}?-->\s*)?<session\b", re.DOTALL
)
_TIMELINE: Final = re.compile(rb"<timeline\b[^<>]*>")
_FILE: Final = re.compile(rb"\bfile=[\"']([^\"'<>]{1,400})")
#: Bytes of a text file that are searched for nvprof's lines, which may follow output of the
#: application.
_BEGINNING: Final = 1 << 16


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the file is nvprof's: SQLite with its tables and not those of Nsight Systems,
    a text summary, or a session.
    """
    if not head.startswith(MAGIC):
        return b"\x00" not in head and (_SESSION.match(head) is not None or is_summary(path))
    try:
        connection = connect(path, immutable=True)
        try:
            tables = columns(connection)
            kinds = [t for t in tables if t.startswith(KIND)]
            return (
                "StringTable" in tables
                and "StringIds" not in tables
                and any("_id_" in tables[t] for t in kinds)
            )
        finally:
            connection.close()
    except (*ERRORS, ValueError):
        # of a damaged file only the name shows which reader's error fits
        return path.suffix.lower() in _NAMED


def is_summary(path: Path) -> bool:
    """Return whether a file is text that nvprof prints; the application's own output may precede
    it.
    """
    try:
        if not path.is_file():
            return False
        with opened(path) as file:
            begin = file.read(_BEGINNING)
    except (OSError, ValueError):
        return False
    return b"\x00" not in begin[:512] and _SUMMARY.search(begin) is not None


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read a file.

    Raises P038 damaged or cut off, P039 being written, P040 without a column that is needed, P043 a
    summary in text, P089 a session.
    """
    del threads
    with opened(path) as file:
        begin = file.read(_BEGINNING)
        if _SESSION.match(begin):
            raise _session(path, begin)
        if not begin.startswith(MAGIC):
            raise error_of(
                "P043", where=str(path), found="sums by kernel and by call, as text", name=path.name
            )
    digest = _Digest(path)
    with Database(path, progress) as database:
        counts = database.counts()
        rows = gather(database, counts)
        version = _version(database, counts)
        findings = [*rows.findings, *_whole_file(database, counts)]
    tables, base = rows.on_one_clock()
    names = pl.Series("name", rows.names, dtype=pl.String)
    findings += rows.clock_findings
    facts: dict[str, Any] = {
        "format": "nvprof",
        "schema_version": version,
        "product_version": "nvprof",
        "session_start_utc_ns": base,
    }
    facts |= {
        "analysis_duration_ns": None,
        "tables": counts,
        "size_bytes": path.stat().st_size,
        "sha256": digest.result(),
    }
    return Trace(tables, names, facts, findings, path.name)


def _session(path: Path, begin: bytes) -> TurnbuckleError:
    """Build P089: a session names recordings, with folders of the machine where it was made."""
    tags = b" ".join(_TIMELINE.findall(begin))
    places = [name.decode("utf-8", "replace").replace("\\", "/") for name in _FILE.findall(tags)]
    names = [name for place in places[:8] if (name := clipped(place.rpartition("/")[2], 120))]
    if not names:
        return error_of("P089.none", where=str(path), found="no timeline")
    beside = path.with_name(names[0]).is_file()
    found = f"timeline {', '.join(names)}"
    return error_of(
        "P089.beside" if beside else "P089.elsewhere",
        where=str(path),
        found=found,
        recording=names[0],
    )


class _Digest(threading.Thread):
    """SHA-256 of a file, computed in parallel with the reading."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path, self._hex = path, ""
        self.start()

    def run(self) -> None:
        try:
            with opened(self._path) as file:
                self._hex = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            self._hex = ""

    def result(self) -> str | None:
        """Return the digest, or None where the file could not be read to its end."""
        self.join()
        return self._hex or None


def _version(database: Database, counts: dict[str, int]) -> str | None:
    if not database.has("Version", "version") or not counts.get("Version"):
        return None
    value = int(database.integers("Version", ["version"], counts["Version"])["version"][0])
    return str(value) if 0 < value < 10_000 else None


def _whole_file(database: Database, counts: dict[str, int]) -> list[Finding]:
    """Report values of other types, bad texts, unread tables with rows, and private data."""
    findings = []
    if odd := sum(database.odd.values()):
        findings.append(
            finding(
                "P105",
                odd,
                ", ".join(f"{t.removeprefix(KIND)} {n}" for t, n in database.odd.items()),
            )
        )
    if database.broken_texts:
        findings.append(finding("P107", database.broken_texts))
    unread = {
        t.removeprefix(KIND): n
        for t, n in counts.items()
        if n and t not in READ and re.fullmatch(r"[A-Za-z0-9_]{1,64}", t)
    }
    if unread:
        findings.append(finding("P120", len(unread), ", ".join(list(unread)[:12])))
    if counts.get(f"{KIND}NAME"):
        findings.append(finding("P119", 1, "NAME"))
    return findings
