"""Readers of Nsight Systems reports in other forms than SQLite: folders with a file for each table,
and reports that ``nsys`` exports.

    nsys export --type parquetdir REPORT.nsys-rep    REPORT_pqtdir/TABLE.parquet
    nsys export --type arrowdir REPORT.nsys-rep      REPORT_arwdir/TABLE.arrow
    REPORT.nsys-rep, with nsys on the path           exported to SQLite by nsys

Tables and columns are those of the SQLite export.  So a folder is written to a SQLite file in a
private folder, which is gone after the read, and read as any export (`nsys`).  Anybody may write
such a folder: files are checked before Polars reads them, names of tables and columns are words,
columns hold numbers and texts only, and the process environment of the recorded program is left
out.

Errors:

    P011  a report, and no nsys
    P072  a table of the folder cannot be read, or holds what no export holds
    P073  the tables are larger than files of that size hold
    P074  nsys cannot export the report
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import polars as pl

from turnbuckle.foundation.errors import ProfileError, clipped, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.trace.cache.parquet_file import loaded, quietly
from turnbuckle.trace.readers import nsys
from turnbuckle.trace.trace import Trace

CACHED: Final = False
#: Names of tables of which one is in every export with work of a GPU or host calls.
_KEYS: Final = (
    "StringIds",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "MPI_P2P_EVENTS",
)
_ENDS: Final = (".parquet", ".arrow")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
#: Tables that are never read: the environment of the recorded program, and samples of its stacks.
_LEFT_OUT: Final = ("TARGET_INFO_SYSTEM_ENV", "COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS")
_MOST_TABLES, _MOST_COLUMNS = 1000, 200
#: Largest size of all tables in memory [B]: this, or this many times the size of the files if that
#: is more.
_FREE, _GROWTH = 256 << 20, 64
_ARROW: Final = b"ARROW1"
_ROWS_AT_ONCE: Final = 50_000
#: Longest that an export may take [s].
_PATIENCE: Final = 3600
#: What is kept of what nsys prints [B].
_KEPT_BYTES: Final = 1 << 16
#: Codes of files that are no database: empty, another format, unreadable.
_NO_DATABASE: Final = ("P003", "P004", "P005")
_REPORTS: Final = (".nsys-rep", ".qdrep")


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the path is a folder of tables; `head` is not used."""
    try:
        return path.is_dir() and any(
            (path / f"{name}{end}").is_file() for name in _KEYS for end in _ENDS
        )
    except (OSError, ValueError):
        return False


def exporter(path: Path) -> str | None:
    """Return the nsys that exports a report; None for other files, and where there is none."""
    return shutil.which("nsys") if path.suffix.lower() in _REPORTS else None


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read a folder of tables.  Raises P072, P073, and as `nsys.read`."""
    files = _files(path)
    digest, held = _digest(files)
    with tempfile.TemporaryDirectory(prefix="turnbuckle-") as folder:
        place = Path(folder) / f"{path.name}.sqlite"
        most, total = max(_FREE, _GROWTH * held), 0
        with closing(sqlite3.connect(place)) as database:
            for name, file in files.items():
                frame = _table(file)
                total += int(frame.estimated_size())
                if total > most:
                    raise error_of(
                        "P073",
                        where=str(path),
                        found=f"{total} bytes of rows in files of {held} bytes",
                        most=most,
                    )
                _insert(database, name, frame, file)
            database.commit()
        trace = nsys.read(place, threads=threads, progress=progress)
    return replace(
        trace, name=path.name, facts={**trace.facts, "sha256": digest, "size_bytes": held}
    )


def read_report(
    path: Path, program: str, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Let nsys export a report to SQLite, and read that.  Raises P074, and as `nsys.read`, of the
    report.
    """
    digest, held = _digest({"report": path})
    with tempfile.TemporaryDirectory(prefix="turnbuckle-") as folder:
        place = Path(folder) / f"{path.stem}.sqlite"
        words = [program, "export", "--type", "sqlite", "--output", str(place), str(path.resolve())]
        try:
            code, lines = _exported(words)
        except OSError as error:
            raise error_of(
                "P074", where=str(path), found=type(error).__name__, name=path.name
            ) from error
        if code or not place.is_file():
            outcome = f"exit {code}" + (f": {clipped(lines[-1], 120)}" if lines else "")
            raise error_of("P074", where=str(path), found=outcome, name=path.name)
        try:
            trace = nsys.read(place, threads=threads, progress=progress)
        except ProfileError as error:
            # the export is gone when this is read
            if error.code in _NO_DATABASE:
                raise error_of(
                    "P074",
                    where=str(path),
                    found=f"an export that is none: {error.what}",
                    name=path.name,
                ) from error
            error.where = str(path)
            raise
    return replace(
        trace, name=path.name, facts={**trace.facts, "sha256": digest, "size_bytes": held}
    )


def _exported(words: list[str]) -> tuple[int | str, list[str]]:
    """Run nsys -> its exit code, or that it did not end, and the last lines that it prints, however
    much that is.
    """
    last = b""
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        ended = threading.Timer(_PATIENCE, running.kill)
        ended.start()
        try:
            assert isinstance(running.stdout, io.BufferedReader)
            while block := running.stdout.read1(_KEPT_BYTES):
                last = (last + block)[-_KEPT_BYTES:]
            code = running.wait()
        finally:
            ended.cancel()
            running.kill()
    late = f"none within {_PATIENCE:.0f} s" if code == -signal.SIGKILL else code
    return late, last.decode("utf-8", "replace").strip().splitlines()


def _files(folder: Path) -> dict[str, Path]:
    """Return the file of each table that is read, by the table's name."""
    out: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        if file.suffix in _ENDS and file.is_file() and file.stem not in _LEFT_OUT:
            if not _NAME.fullmatch(file.stem) or len(out) >= _MOST_TABLES:
                raise error_of(
                    "P072",
                    where=clipped(file.name, 120),
                    found="a name that no table of an export has",
                )
            out[file.stem] = file
    return out


def _digest(files: dict[str, Path]) -> tuple[str, int]:
    """Return SHA-256 of names and contents, and the size of all files [B]."""
    whole, held = hashlib.sha256(), 0
    for name, path in files.items():
        with opened(path) as file:
            whole.update(name.encode() + hashlib.file_digest(file, "sha256").digest())
            held += path.stat().st_size
    return whole.hexdigest(), held


def _table(file: Path) -> pl.DataFrame:
    """Return one table.  Raises P072."""
    try:
        if file.suffix == ".parquet":
            return loaded(file)
        with opened(file) as stream:
            read_arrow = pl.read_ipc if stream.read(len(_ARROW)) == _ARROW else pl.read_ipc_stream
        # Polars reads streams from where the descriptor stands
        with opened(file) as stream:
            return quietly(lambda: read_arrow(stream))
    except (OSError, ValueError, MemoryError, pl.exceptions.PolarsError) as error:
        text = clipped(
            str(error).splitlines()[0].replace(str(file), file.name)
            if str(error)
            else type(error).__name__,
            120,
        )
        raise error_of("P072", where=file.name, found=text) from error


def _insert(database: sqlite3.Connection, name: str, frame: pl.DataFrame, file: Path) -> None:
    """Write a table into a database.  Raises P072 for columns that no export has."""
    if len(frame.columns) > _MOST_COLUMNS or not frame.columns:
        raise error_of("P072", where=file.name, found=f"{len(frame.columns)} columns")
    kinds = []
    for column, kind in frame.schema.items():
        if not _NAME.fullmatch(column):
            raise error_of("P072", where=file.name, found=f"a column called {clipped(column, 60)}")
        kinds.append(_kind(kind))
        if not kinds[-1]:
            raise error_of("P072", where=file.name, found=f"a column of {clipped(str(kind), 60)}")
    # beyond 63 bits a number is none that SQLite holds: it wraps, as nsys writes ids of its own
    wide = [
        pl.col(c).reinterpret(signed=True) for c, kind in frame.schema.items() if kind == pl.UInt64
    ]
    plain = frame.with_columns(
        *wide,
        *(
            pl.col(c).cast(pl.String)
            for c, kind in frame.schema.items()
            if kind in (pl.Categorical, pl.Enum)
        ),
    )
    listed = ", ".join(
        f'"{column}" {kind}' for column, kind in zip(frame.columns, kinds, strict=True)
    )
    database.execute(f'CREATE TABLE "{name}" ({listed})')
    marks = ", ".join("?" * len(frame.columns))
    database.executemany(f'INSERT INTO "{name}" VALUES ({marks})', _rows(plain))


def _rows(frame: pl.DataFrame) -> Iterator[tuple[object, ...]]:
    for first in range(0, frame.height, _ROWS_AT_ONCE):
        yield from frame.slice(first, _ROWS_AT_ONCE).iter_rows()


def _kind(kind: pl.DataType) -> str:
    """Return SQLite's name of a type of columns; empty for types that no export has."""
    if kind.is_integer() or kind == pl.Boolean:
        return "INTEGER"
    if kind.is_float():
        return "REAL"
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return "TEXT"
    return "BLOB" if kind in (pl.Binary, pl.Null) else ""
