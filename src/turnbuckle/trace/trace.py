"""A recorded run: tables of integer nanoseconds, names, facts and counted flaws."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl

from turnbuckle.foundation import schema
from turnbuckle.foundation.errors import error_of, needs
from turnbuckle.foundation.files import refuse_input, write_parquet
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.trace.cache.parquet_file import loaded
from turnbuckle.trace.check import launch_pairs

LAYOUT = 1
"""Version of the folder that `Trace.to_parquet` writes."""

_GROUP_ROWS = 1 << 26

_DTYPES: dict[str, type[pl.DataType]] = {
    "int64": pl.Int64,
    "int32": pl.Int32,
    "int8": pl.Int8,
    "text": pl.String,
}


@cache
def dtypes(table: str) -> dict[str, type[pl.DataType]]:
    """Return the column names and types of one table.  Raises `KeyError` for a table that the
    vocabulary does not hold.
    """
    return {column.name: _DTYPES[column.type] for column in schema.tables("trace")[table]}


def completed(table: str, frame: pl.DataFrame, strict: bool = True) -> pl.DataFrame:
    """Return `frame` with the columns of `table` in their order and type, null where it lacks one.
    Raises `KeyError` as `dtypes`.

    A value beyond its type is an error if `strict`, else null.
    """
    if frame.schema == _empty(table).schema:
        return frame
    cells = (
        (pl.col(name) if name in frame.columns else pl.lit(None), name, kind)
        for name, kind in dtypes(table).items()
    )
    return frame.select(cell.cast(kind, strict=strict).alias(name) for cell, name, kind in cells)


@cache
def _empty(table: str) -> pl.DataFrame:
    return pl.DataFrame(schema=dtypes(table))


@dataclass(frozen=True)
class Trace:
    """One recorded run, as the profiler wrote it down.

    Every table of ``schema/trace.csv`` is an attribute: ``trace.kernels`` is a `polars.DataFrame`
    with all columns of that table, empty where nothing was recorded.  Times are integer ns on the
    recording's clock, in ascending order.

    Attributes
    ----------
    tables : the tables that hold rows, by name.
    names : all texts; columns such as ``kernels.name`` are indices into it.
    facts : plain facts about the file: ``format``, ``schema_version``, ``product_version``,
        ``tables`` (rows of every table of the file), ``session_start_utc_ns``,
        ``analysis_duration_ns``, ``size_bytes``, ``sha256``.
    findings : counted flaws met while reading.
    name : the file's name, without its folder.
    """

    tables: Mapping[str, pl.DataFrame]
    names: pl.Series
    facts: dict[str, Any]
    findings: list[Finding] = field(default_factory=list)
    name: str = ""

    def __getattr__(self, name: str) -> pl.DataFrame:
        if name not in schema.tables("trace"):
            raise AttributeError(f"a Trace has no table or attribute {name!r}")
        return self.table(name)

    def table(self, name: str) -> pl.DataFrame:
        """Return the table `name`, empty where nothing was recorded.  Raises `KeyError` for a table
        that the vocabulary does not hold.
        """
        frame = self.tables.get(name)
        return _empty(name) if frame is None else frame

    @cached_property
    def has(self) -> frozenset[str]:
        """Return the names of the tables that hold rows: what the recording can answer with."""
        if isinstance(self.tables, dict):
            return frozenset(name for name, frame in self.tables.items() if frame.height)
        # a cached trace lists only tables with rows; counting rows would load each table
        return frozenset(self.tables)

    @cached_property
    def launch_pairs(self) -> pl.DataFrame:
        """Return which host call started which device record
        (`turnbuckle.trace.check.launch_pairs`).  The join is made once per trace.
        """
        return launch_pairs(self.tables)

    def text(self, frame: pl.DataFrame, column: str = "name") -> pl.Series:
        """Return the texts of a name column of `frame` (length ``frame.height``); null where the
        column is.
        """
        indices = frame[column]
        if self.names.is_empty():
            return pl.Series(column, [None] * frame.height, dtype=pl.String)
        return self.names.gather(indices).alias(column)

    def to_arrow(self, name: str) -> Any:
        """Return the table `name` as a `pyarrow.Table` (needs pyarrow)."""
        with needs("pandas"):
            return self.table(name).to_arrow()

    def to_pandas(self, name: str) -> Any:
        """Return the table `name` as a `pandas.DataFrame` (needs pandas and pyarrow)."""
        with needs("pandas"):
            return self.table(name).to_pandas()

    def to_parquet(
        self,
        folder: str | Path,
        *,
        compression: Literal["lz4", "uncompressed", "snappy"] = "lz4",
        leaving_out: Container[str] = (),
    ) -> None:
        """Write the trace into `folder` (made if absent): one Parquet file per table,
        ``names.parquet`` and ``trace.json``.

        The tables in `leaving_out` are listed, and written by the caller.

        Raises R004, a file of the folder was read.
        Raises `OSError`: the folder cannot be written to.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name, frame in {**self.tables, "names": self.names.alias("name").to_frame()}.items():
            if name in leaving_out:
                continue
            # With one row group a table comes back in one piece, as a reader hands it over.
            file = place / f"{name}.parquet"
            refuse_input(file, "the trace")
            write_parquet(
                frame, file, compression=compression, statistics=False, row_group_size=_GROUP_ROWS
            )
        about = {
            "layout": LAYOUT,
            "name": self.name,
            "facts": self.facts,
            "findings": [[f.code, f.count, f.detail] for f in self.findings],
            "tables": {name: frame.height for name, frame in self.tables.items()},
        }
        (place / "trace.json").write_text(json.dumps(about), encoding="utf-8")

    @classmethod
    def from_parquet(cls, folder: str | Path) -> Trace:
        """Read a trace that `to_parquet` wrote.  Raises `ProfileError` P014 where the folder does
        not hold one.
        """
        place = Path(folder)
        try:
            about = load_about(place)
            tables = {name: load_table(place, name, rows) for name, rows in about["tables"].items()}
            return cls(tables, load_names(place), about["facts"], about["findings"], about["name"])
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            pl.exceptions.PolarsError,
        ) as error:
            raise error_of(
                "P014.trace",
                where=str(folder),
                found=f"{type(error).__name__}: {error}".splitlines()[0][:200],
            ) from error


def load_about(folder: Path) -> dict[str, Any]:
    """Return ``trace.json`` of a folder of `Trace.to_parquet`, findings rebuilt.  Raises
    `ValueError`, `KeyError` or `OSError`.
    """
    about: dict[str, Any] = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
    if about["layout"] != LAYOUT:
        raise ValueError(f"layout {about['layout']}, not {LAYOUT}")
    if unknown := set(about["tables"]) - set(schema.tables("trace")):
        raise ValueError(f"unknown tables {sorted(unknown)}")
    about["findings"] = [finding(code, count, detail) for code, count, detail in about["findings"]]
    return about


def load_names(folder: Path) -> pl.Series:
    """Return the names of a folder of `Trace.to_parquet`."""
    return loaded(folder / "names.parquet")["name"]


def load_table(folder: Path, name: str, rows: int) -> pl.DataFrame:
    """Return one table of a folder of `Trace.to_parquet`.  Raises `ValueError` where its columns or
    its number of rows differ.
    """
    frame = loaded(folder / f"{name}.parquet")
    if dict(frame.schema) != dtypes(name) or frame.height != rows:
        raise ValueError(f"{name} has other columns or rows than it should")
    return frame
