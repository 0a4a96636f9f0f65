"""Where results go: stdout or a file, as JSON, CSV or Parquet."""

from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path
from typing import Any

from turnbuckle.errors import ReportError, UsageError


def plain(value: Any) -> Any:
    """JSON has no infinity and no NaN: both become null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(value: dict[str, Any], output: Path | None) -> None:
    """Write one JSON document, in ASCII: names from a recording may hold characters that steer a terminal."""
    write_text(json.dumps(plain(value), indent=1) + "\n", output)


def write_text(text: str, output: Path | None) -> None:
    """Write text to a file or to stdout."""
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8", errors="replace")
    except OSError as e:
        raise ReportError(
            "R001",
            "the output cannot be written",
            where=output.name,
            found=e.strerror or type(e).__name__,
            fix="name a file in a folder you may write to",
        ) from e


def write_rows(rows: list[dict[str, Any]], format: str, output: Path | None) -> None:
    """Write a flat table as CSV or Parquet; nested values are left out of the columns."""
    import polars as pl

    names = list(dict.fromkeys(k for row in rows for k, v in row.items() if not isinstance(v, dict | list)))
    frame = pl.DataFrame([{k: row.get(k) for k in names} for row in rows], infer_schema_length=None)
    write_frame(frame, format, output)


def write_frame(frame: Any, format: str, output: Path | None) -> None:
    """Write a Polars frame as CSV or Parquet."""
    if format == "csv":
        write_text(frame.write_csv(), output)
        return
    if output is None:
        if sys.stdout.isatty():
            raise UsageError("A009", "Parquet is not for a terminal", fix="give a file with --output FILE.parquet")
        # whole first: a reader who goes away is met where text is written, not inside the library
        held = io.BytesIO()
        frame.write_parquet(held)
        sys.stdout.buffer.write(held.getbuffer())
        return
    try:
        frame.write_parquet(output)
    except OSError as e:
        raise ReportError(
            "R001",
            "the output cannot be written",
            where=output.name,
            found=str(e.strerror or type(e).__name__),
            fix="name a file in a folder you may write to",
        ) from e


def flattened(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one row: {"a": {"b": 1}} -> {"a.b": 1}; lists are left out."""
    out: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            out |= flattened(item, f"{prefix}{key}.")
        elif not isinstance(item, list):
            out[f"{prefix}{key}"] = item
    return out
