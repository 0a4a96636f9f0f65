"""Reader of Turnbuckle's own trace: the folder that `Trace.to_parquet` writes, recognised by the
``trace.json`` inside.

    run.turnbuckle/trace.json        facts, findings, rows of each table
                   names.parquet     all texts, one column ``name``
                   kernels.parquet   one file per table of ``schema/trace.csv`` that holds rows

Anybody may write such a folder, so everything in it is checked.  Tables must have the vocabulary's
columns and types (older traces lack the latest columns), and as many rows as ``trace.json`` says.
Indices must lie inside their lists, and starts in order.  Facts and findings must be registered
ones.  Rows with impossible times are left to `turnbuckle.trace.bounds.sound`, which counts them as
it does in every recording.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any, Final

import polars as pl

from turnbuckle.foundation import schema
from turnbuckle.foundation.errors import ProfileError, TurnbuckleError, clipped, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.findings import Finding, finding, register
from turnbuckle.trace.cache.parquet_file import named, quietly
from turnbuckle.trace.cache.parquet_pages import Wrong, check
from turnbuckle.trace.trace import LAYOUT, Trace, completed, dtypes

CACHED: Final = False
ABOUT: Final = "trace.json"
"""File whose presence makes a folder a trace."""

_NAMES: Final = "names"
_LARGEST_ABOUT: Final = 32 << 20
#: Largest size of the tables in memory [B]: this, or this many times the size of their files if
#: that is more.
_FREE: Final = 256 << 20
_GROWTH: Final = 256
#: Size of a value in memory [B]; of a text, besides its letters.
_WIDTH: Final[dict[type[pl.DataType], int]] = {pl.Int64: 8, pl.Int32: 4, pl.Int8: 1, pl.String: 16}
_MOST: Final = 1 << 62
_LONGEST: Final = 4096
_DETAIL: Final = 20_000
_TIMES: Final = ("start_ns", "end_ns", "time_ns")
#: Number of codes of a coded column.
_CODES: Final = {("mpi", "kind"): 4, ("api", "level"): 2}

#: Columns that older traces lack.
_LATER: Final = {("mpi", "memory"), ("mpi", "receive_memory")}

_INT, _TEXT, _LIST, _COUNTS = "a whole number", "text", "a list of texts", "whole numbers by name"
_FLAG: Final = "true or false"
_SOURCES: Final = "recordings, each with name, format and SHA-256"
_PLAIN: Final = "numbers and texts by name"
#: Facts that a trace may state, and the type of each.
FACTS: Final[dict[str, str]] = (
    dict.fromkeys(
        ("format", "schema_version", "product_version", "sha256", "container", "boot", "processor"),
        _TEXT,
    )
    | dict.fromkeys(
        (
            "size_bytes",
            "session_start_utc_ns",
            "analysis_duration_ns",
            "base_ns",
            "rank",
            "world_size",
            "copied_before_bytes",
        ),
        _INT,
    )
    | dict.fromkeys(("tables", "node_of_rank", "recorder", "slack", "link"), _COUNTS)
    | {
        "recorded": _LIST,
        "files": _LIST,
        "recording": _PLAIN,
        "part": _PLAIN,
        "sources": _SOURCES,
        "record_shapes": _FLAG,
    }
)
_HELD: Final = {"sources": {"name", "format", "sha256"}}


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the path is a folder with a ``trace.json``; `head` is not used."""
    try:
        return path.is_dir() and (path / ABOUT).exists()
    except (OSError, ValueError):
        return False


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read and check a folder.

    Raises P010 no permission; P014 ``trace.json`` is no trace's, or of another layout; P057 a table
    that is missing, cannot be read, or has other columns, types or rows than it should; P058
    impossible values; P059 rows or texts beyond what files of that size hold; P060 a file of it is
    a link out of the folder, or no ordinary file; P061 unknown facts or findings.

    Tables, names and findings are those that were written.  The trace has the folder's name, and
    its facts ``sha256`` (over names and SHA-256 of the files read) and ``size_bytes`` are the
    folder's.  The fact ``recording`` keeps those of the original recording.
    """
    try:
        return _read(path, progress)
    except ProfileError as error:
        # files are opened by their resolved path, but the error names them as the user did
        error.where = error.where.replace(str(path.resolve()), str(path), 1)
        raise


def _read(path: Path, progress: Callable[[float], object] | None) -> Trace:
    about = _about(path)
    rows: dict[str, int] = about["tables"]
    files = {name: _inside(path, f"{name}.parquet") for name in [_NAMES, *rows]}
    sizes = {name: file.stat().st_size for name, file in files.items()}
    allowed = max(_FREE, _GROWTH * sum(sizes.values()))
    _measured(path, files, rows, allowed)
    tables, done, total = {}, 0, max(sum(sizes.values()), 1)
    names = _names(files[_NAMES], allowed)
    for name in rows:
        tables[name] = _table(name, files[name], rows[name], len(names))
        done += sizes[name]
        if progress is not None:
            progress(done / total)
    facts = dict(about["facts"])
    if facts.get("sha256") is not None:
        original = {
            "name": about["name"],
            "sha256": facts["sha256"],
            "size_bytes": facts.get("size_bytes"),
        }
        facts["recording"] = facts.get("recording") or original
    facts["sha256"] = _digest([path / ABOUT, *files.values()])
    facts["size_bytes"] = sum(sizes.values()) + (path / ABOUT).stat().st_size
    return Trace(tables, names, facts, about["findings"], path.resolve().name)


# --- trace.json -----------------------------------------------------------------------------------


def _about(path: Path) -> dict[str, Any]:
    """Return name, facts, findings and rows of tables, checked."""
    place = _inside(path, ABOUT)
    try:
        size = place.stat().st_size
        if size > _LARGEST_ABOUT:
            raise _beyond(place, f"{size} bytes", f"{ABOUT} holds at most {_LARGEST_ABOUT} bytes")
        with opened(place) as file:
            about = json.loads(file.read().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _no_trace(path, f"{ABOUT}: {clipped(str(error), 120)}") from None
    except PermissionError:
        raise _forbidden(place) from None
    if not isinstance(about, dict) or not {"layout", "name", "facts", "findings", "tables"} <= set(
        about
    ):
        raise _no_trace(path, f"{ABOUT} lacks layout, name, facts, findings or tables")
    if about["layout"] != LAYOUT or isinstance(about["layout"], bool):
        raise _no_trace(path, f"layout {clipped(str(about['layout']))}, not {LAYOUT}")
    name, rows = about["name"], about["tables"]
    if not isinstance(name, str) or len(name) > _LONGEST or re.search(r"[/\\\x00]", name):
        raise _no_trace(path, "its name is no file's name")
    if not isinstance(rows, dict) or not all(_whole(n) for n in rows.values()):
        raise _no_trace(path, "tables does not say how many rows each has")
    if unknown := sorted(set(rows) - set(schema.tables("trace"))):
        raise _wrong_table(
            path / ABOUT, f"table {clipped(unknown[0])!r}", "the vocabulary has no such table"
        )
    about["facts"] = _facts(place, about["facts"])
    about["findings"] = _findings(place, about["findings"])
    return about


def _facts(place: Path, facts: Any) -> dict[str, Any]:
    if not isinstance(facts, dict):
        raise _unknown(place, "facts are no object", "facts are written by their names")
    for name, value in facts.items():
        kind = FACTS.get(name)
        if kind is None:
            raise _unknown(
                place, f"fact {clipped(name)!r}", f"facts that are read: {', '.join(FACTS)}"
            )
        if not (value is None or _is(kind, name, value)):
            raise _unknown(
                place, f"fact {name} is {clipped(json.dumps(value))}", f"{name} is {kind}, or null"
            )
    return {"tables": {}, **facts} if facts.get("tables") is None else facts


def _is(kind: str, name: str, value: Any) -> bool:
    """Return whether a fact's value has its type."""
    if kind == _INT:
        return _whole(value, -_MOST)
    if kind == _TEXT:
        return _text(value)
    if kind == _FLAG:
        return isinstance(value, bool)
    if kind == _LIST:
        return isinstance(value, list) and all(map(_text, value))
    if kind in (_COUNTS, _PLAIN):
        valid = _plain if kind == _PLAIN else lambda n: _whole(n, -_MOST)
        return isinstance(value, dict) and all(
            len(key) <= _LONGEST and valid(n) for key, n in value.items()
        )
    keys = _HELD[name]
    return isinstance(value, list) and all(
        isinstance(row, dict) and set(row) == keys and all(map(_text, row.values()))
        for row in value
    )


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def _plain(value: Any) -> bool:
    """Return whether a value is a number, a text, null, or a list of those."""
    if isinstance(value, list):
        return all(not isinstance(element, list) and _plain(element) for element in value)
    if isinstance(value, float):
        return isfinite(value)
    return value is None or isinstance(value, bool) or _text(value) or _whole(value, -_MOST)


def _findings(place: Path, rows: Any) -> list[Finding]:
    out = []
    for row in rows if isinstance(rows, list) else [None]:
        if (
            not isinstance(row, list)
            or len(row) != 3
            or not isinstance(row[0], str)
            or not _whole(row[1])
            or not isinstance(row[2], str)
        ):
            raise _unknown(
                place, f"finding {clipped(json.dumps(row))}", "a finding is [code, count, detail]"
            )
        if row[0] not in register():
            raise _unknown(
                place, f"finding {clipped(row[0])!r}", "the findings' register has no such code"
            )
        if len(row[2]) > _DETAIL or not row[2].isprintable():
            raise _unknown(
                place,
                f"detail of {row[0]}: {clipped(row[2])}",
                f"a detail is one printable line of at most {_DETAIL} letters",
            )
        out.append(finding(*row))
    return out


def _whole(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= _MOST


# --- files and tables -----------------------------------------------------------------------------


def _inside(folder: Path, name: str) -> Path:
    """Return the path of a file of the folder.  Raises P057 where it is missing, P060 where it is
    not a file inside the folder.
    """
    place = folder / name
    try:
        real = place.resolve(strict=True)
        if not real.is_relative_to(folder.resolve(strict=True)):
            raise _not_inside(place, "a link that leads out of the folder")
        if not real.is_file():
            raise _not_inside(place, "no ordinary file")
        with opened(real):
            pass
    except PermissionError:
        raise _forbidden(place) from None
    except (OSError, RuntimeError) as error:
        raise _wrong_table(
            place,
            "no such file" if isinstance(error, FileNotFoundError) else clipped(str(error), 120),
        ) from error
    return real


def _polars(place: Path, work: Callable[[], Any]) -> Any:
    """Return the result of `work` on a Parquet file.  Raises P057 for every error that a broken
    file causes.
    """
    try:
        return quietly(work)
    except (OSError, ValueError, MemoryError, pl.exceptions.PolarsError) as error:
        kind = "" if isinstance(error, Wrong) else f"{type(error).__name__}: "
        text = f"{kind}{error}".splitlines()[0].replace(str(place), place.name)
        raise _wrong_table(
            place, clipped(text, 120), "it is damaged, or no Parquet file"
        ) from error


def _measured(folder: Path, files: dict[str, Path], rows: dict[str, int], allowed: int) -> None:
    """Raise P057 where a file claims other columns or rows than it should, P059 where all claim
    more than `allowed` bytes.
    """
    claimed = 0
    for name, file in files.items():
        wanted: dict[str, type[pl.DataType]] = (
            {"name": pl.String} if name == _NAMES else dtypes(name)
        )
        count: int = _polars(file, lambda file=file: check(file))  # type: ignore[misc]
        with named(file) as place:
            lazy = _polars(
                file,
                lambda place=place: pl.scan_parquet(place, glob=False, hive_partitioning=False),  # type: ignore[misc]
            )
            schema_of_file = dict(_polars(file, lazy.collect_schema))
            wanted = {
                column: kind
                for column, kind in wanted.items()
                if column in schema_of_file or (name, column) not in _LATER
            }
            if schema_of_file != wanted:
                raise _wrong_table(
                    file,
                    _difference(schema_of_file, wanted),
                    "columns and their types are those of the vocabulary",
                )
        if name != _NAMES and count != rows[name]:
            raise _wrong_table(file, f"{count} rows", f"{ABOUT} says {rows[name]}")
        claimed += count * sum(_WIDTH[kind] for kind in wanted.values())
    if claimed > allowed:
        held = sum(file.stat().st_size for file in files.values())
        raise _beyond(
            folder,
            f"{claimed} bytes of rows in files of {held} bytes",
            f"such files hold {allowed} bytes of rows at most",
        )


def _difference(columns: dict[str, Any], wanted: dict[str, Any]) -> str:
    for name, kind in wanted.items():
        if name not in columns:
            return f"no column {name}"
        if columns[name] != kind:
            return f"column {name} of type {clipped(str(columns[name]))}, not {kind.__name__}"
    more = [name for name in columns if name not in wanted]
    return f"a column {clipped(more[0])!r} too many"


def _loaded(file: Path) -> pl.DataFrame:
    with named(file) as place:
        frame: pl.DataFrame = _polars(
            file, lambda: pl.read_parquet(place, glob=False, hive_partitioning=False).rechunk()
        )
    return frame


def _names(file: Path, allowed: int) -> pl.Series:
    frame = _loaded(file)
    # Parquet may store a repeated text once, so only the sum over all rows shows what the texts
    # take when they are used
    letters = frame.select(pl.col("name").str.len_bytes().cast(pl.Int64).sum()).item() or 0
    if letters > allowed:
        raise _beyond(
            file,
            f"{letters} bytes of text in a file of {file.stat().st_size} bytes",
            f"at most {allowed} bytes are read",
        )
    if frame["name"].null_count():
        raise _impossible(
            file,
            f"{frame['name'].null_count()} names that are missing",
            "every name is a text, if an empty one",
        )
    return frame["name"]


def _table(name: str, file: Path, rows: int, names: int) -> pl.DataFrame:
    """Return one table, its values checked."""
    frame = completed(name, _loaded(file))
    if frame.height != rows:
        raise _wrong_table(file, f"{frame.height} rows", f"{ABOUT} says {rows}")
    for column in schema.tables("trace")[name]:
        values = frame[column.name]
        if not column.nullable and column.name not in _TIMES and values.null_count():
            raise _impossible(
                file,
                f"{column.name}: {values.null_count()} values that are missing",
                "the column holds a value in each row",
            )
        if column.name in ("start_ns", "time_ns") and not values.drop_nulls().is_sorted():
            raise _impossible(
                file,
                f"{column.name} is not in ascending order",
                "rows stand in the order in which they begin",
            )
        most = _most(name, column, names)
        if most is None or column.type == "text":
            continue
        ends: list[Any] = [values.min(), values.max()]
        if wrong := [end for end in ends if end is not None and not 0 <= end < most]:
            raise _impossible(
                file, f"{column.name} {wrong[0]}", f"values from 0 to {most - 1} are possible"
            )
    return frame


def _most(table: str, column: schema.Column, names: int) -> int | None:
    """Return the exclusive upper bound of a column whose values count or point; None for times and
    ids.
    """
    if column.name in ("name", "short_name") and column.type == "int32":
        return names
    for words in ("directions", "memories"):
        if column.meaning.startswith(f"index into {words}"):
            return len(schema.words(words))
    if (table, column.name) in _CODES:
        return _CODES[table, column.name]
    return _MOST if column.unit in ("B", "1", "B/s", "Hz") else None


def digest(path: Path) -> str:
    """Return the SHA-256 of a folder that was just written: the one that `read` gives it."""
    return _digest([path / ABOUT, *path.glob("*.parquet")])


def _digest(files: list[Path]) -> str:
    """Return the SHA-256 over the names and SHA-256 of files, in the order of their names."""
    whole = hashlib.sha256()
    for file in sorted(files, key=lambda f: f.name):
        with opened(file) as content:
            whole.update(
                f"{file.name} {hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode()
            )
    return whole.hexdigest()


# --- refusals -------------------------------------------------------------------------------------


def _no_trace(path: Path, evidence: str) -> TurnbuckleError:
    return error_of("P014.parquet", where=str(path), found=evidence)


def _forbidden(place: Path) -> TurnbuckleError:
    return error_of("P010", where=str(place))


def _wrong_table(
    place: Path, evidence: str, cause: str = "the copy or the writing was cut off"
) -> TurnbuckleError:
    return error_of("P057", where=str(place), found=evidence, cause=cause)


def _impossible(place: Path, evidence: str, cause: str) -> TurnbuckleError:
    return error_of("P058", where=str(place), found=evidence, cause=cause)


def _beyond(place: Path, evidence: str, cause: str) -> TurnbuckleError:
    return error_of("P059", where=str(place), found=evidence, cause=cause)


def _not_inside(place: Path, evidence: str) -> TurnbuckleError:
    return error_of("P060", where=str(place), found=evidence)


def _unknown(place: Path, evidence: str, cause: str) -> TurnbuckleError:
    return error_of("P061", where=str(place), found=evidence, cause=cause)
