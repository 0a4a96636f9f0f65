"""Where results go: stdout or a file, in the format that
`turnbuckle.show.terminal.options.format_of` names.
"""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from turnbuckle.foundation import csv_text
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION, Declared, json_text
from turnbuckle.foundation.files import is_input, opened, whole, write_parquet
from turnbuckle.show.rendered import Markup, is_markup, of_frame, rendered
from turnbuckle.show.terminal.console import Terminal, console_for
from turnbuckle.show.terminal.recording import command_line
from turnbuckle.show.text import clean

if TYPE_CHECKING:
    import polars as pl

    from turnbuckle.foundation.findings import Finding
    from turnbuckle.show.table import Table

Rows = list[dict[str, Any]]
#: Rows of a sheet in a workbook, by its format.
_SHEET_ROWS: Final = 1 << 20
#: What `inspect` says of a file, and of a recording with times.
_OF_A_FILE: Final = (
    "file sha256 size_bytes format profiler_version schema_version recorded_utc_ns part"
)
_OF_A_RECORDING: Final = (
    "run_time_ns kernel_window_ns start_up kernels copies memsets api coverage overlap "
    "categories_ns ranks gpus closure_defect_ns launch "
    "links offload host_work cpu_activity memory profiler_overhead_share mpi"
)


def provenance() -> dict[str, Any]:
    """Return tool, version, command line, and name and SHA-256 of every input that the command line
    names.
    """

    from turnbuckle.trace.readers.parquet import digest

    inputs = []
    for word in dict.fromkeys(
        part for given in sys.argv[1:] for part in (given, given.partition("=")[2])
    ):
        try:
            if word and len(word) < 4096 and (Path(word) / "trace.json").is_file():
                inputs.append({"file": Path(word).name, "sha256": digest(Path(word))})
            elif word and len(word) < 4096 and is_input(word):
                with opened(word) as file:
                    inputs.append(
                        {
                            "file": Path(word).name,
                            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
                        }
                    )
        except (OSError, ValueError):
            continue  # no file after all
    return {
        "tool": "turnbuckle",
        "version": version("turnbuckle"),
        "command": command_line(),
        "inputs": inputs,
    }


def untimed(
    path: Path, about: dict[str, Any], profile: dict[str, Any], findings: Iterable[Finding]
) -> dict[str, Any]:
    """Return the document of ``inspect`` for a file without times: what only a recording tells is
    null.

    Parameters
    ----------
    about : what is known of the file: its hash, size, format, schema.
    profile : what it tells.
    """
    file = {**dict.fromkeys(_OF_A_FILE.split()), "file": path.name, **about}
    lacking = dict.fromkeys(("source_machine", "targets", "model", "seed", "draws"))
    by: dict[str, Any] = {
        "tool": "turnbuckle",
        "version": version("turnbuckle"),
        "profile": file,
        **lacking,
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "profile": {**dict.fromkeys(_OF_A_RECORDING.split()), **profile},
        "findings": [f.as_dict() for f in findings],
        "provenance": {**by, "targets": [], "command": command_line()},
    }


def write_json(value: dict[str, Any], output: Path | None) -> None:
    """Write one JSON document, in ASCII: names from a recording may hold characters that steer a
    terminal.

    What does not say where it comes from gets the version, the command line and the hashes of the
    files named in it.
    """
    value = value if "provenance" in value else {**value, "provenance": provenance()}
    write_text(json_text(value, indent=1) + "\n", output)


def write_text(text: str, output: Path | None) -> None:
    """Write text to a file or to stdout."""
    if output is None:
        sys.stdout.write(text)
        return
    with whole(output, "the output") as draft:
        draft.write_text(text, encoding="utf-8", errors="replace")


def write_answer(document: dict[str, Any], rows: Rows, format: str, output: Path | None) -> None:
    """Write an answer for programs: the whole document as JSON, or its flat table."""
    if format == "json":
        write_json(document, output)
    else:
        write_rows(rows, format, output)


def emit(
    answer: Declared,
    rows: str | list[dict[str, Any]],
    show: Callable[[Terminal, Any], object],
    format: str,
    output: Path | None,
    tables: Callable[[], Iterable[Table]] | None = None,
    **more: Any,
) -> None:
    """Print an answer for people, or write it for programs.

    Parameters
    ----------
    rows : its flat table, or the key of the document that has it.
    show : prints it; ``table`` is the only format that goes to no file.
    tables : what documents hold (Markdown, LaTeX, HTML), where it is not the flat table.
    more : keys that join the document.
    """
    if tables is not None and is_markup(format):
        write_tables(tables(), format, output)
        return
    if format == "table":
        show(console_for(output), answer)
        return
    document = {**answer.as_dict(), **more}
    write_answer(document, document[rows] if isinstance(rows, str) else rows, format, output)


def write_tables(tables: Iterable[Table], format: str, output: Path | None) -> None:
    """Write tables as Markdown, LaTeX or HTML."""
    write_text(rendered(tables, cast(Markup, format)), output)


def write_rows(rows: Rows, format: str, output: Path | None) -> None:
    """Write a flat table in any format but JSON; nested values are left out of the columns."""
    write_frame(frame_of(rows), format, output)


def frame_of(rows: Rows | pl.DataFrame) -> pl.DataFrame:
    """Return a flat table as a Polars frame; nested values are left out of the columns."""
    import polars as pl

    if isinstance(rows, pl.DataFrame):
        return rows
    names = list(
        dict.fromkeys(k for row in rows for k, v in row.items() if not isinstance(v, dict | list))
    )
    return pl.DataFrame([{k: row.get(k) for k in names} for row in rows], infer_schema_length=None)


def write_frame(frame: pl.DataFrame, format: str, output: Path | None) -> None:
    """Write a Polars frame in any format but JSON.  Raises R013 for rows that a workbook has no
    room for.
    """
    if format == "csv":
        write_text(csv_text.of_frame(frame), output)
        return
    if is_markup(format):
        write_tables([of_frame(frame)], format, output)
        return
    if output is not None:
        with whole(output, "the output") as draft:
            if format == "xlsx":
                _write_workbook(frame, draft)
            else:
                write_parquet(frame, draft)
        return
    if sys.stdout.isatty():
        raise error_of("A009.binary", found=f"--format {format}", format=format)
    # whole first: a reader who goes away is met where text is written, not inside the library
    held = io.BytesIO()
    if format == "xlsx":
        _write_workbook(frame, held)
    else:
        frame.write_parquet(held)
    sys.stdout.buffer.write(held.getbuffer())


def _write_workbook(frame: pl.DataFrame, to: Path | io.BytesIO) -> None:
    """Write a frame as the one sheet of a workbook; no text in it is a formula or a link."""
    from xlsxwriter import Workbook  # an extra, which `format_of` has required

    if frame.height >= _SHEET_ROWS:
        raise error_of("R013", found=f"{frame.height:,} rows", most=_SHEET_ROWS - 1)
    plain = dict.fromkeys(("strings_to_urls", "strings_to_formulas", "strings_to_numbers"), False)
    place = str(to) if isinstance(to, Path) else to
    with Workbook(place, {**plain, "nan_inf_to_errors": True}) as book:
        sheet = book.add_worksheet("turnbuckle")
        bold = book.add_format({"bold": True})
        sheet.write_row(0, 0, [clean(name) for name in frame.columns], bold)
        sheet.freeze_panes(1, 0)
        for number, row in enumerate(frame.iter_rows(), 1):
            sheet.write_row(number, 0, [clean(v) if isinstance(v, str) else v for v in row])


def flattened(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested dictionaries as one row: {"a": {"b": 1}} -> {"a.b": 1}; lists are left out."""
    out: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            out |= flattened(item, f"{prefix}{key}.")
        elif not isinstance(item, list):
            out[f"{prefix}{key}"] = item
    return out
