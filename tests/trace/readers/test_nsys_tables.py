"""Folders with a file for each table, and reports that nsys exports: the same run as of the SQLite
export, and what is refused.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from hostile_names import SAMPLE, SECRETS
from polars.testing import assert_frame_equal
from refusals import refused

from turnbuckle.foundation.errors import ProfileError
from turnbuckle.trace.read import read
from turnbuckle.trace.readers import nsys_tables


def tables_of(path: Path) -> dict[str, pl.DataFrame]:
    with closing(sqlite3.connect(path)) as database, database:
        names = [
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        out = {}
        for name in names:
            rows = database.execute(f'SELECT * FROM "{name}"')
            columns = [c[0] for c in rows.description]
            out[name] = pl.DataFrame(
                rows.fetchall(), schema=columns, orient="row", infer_schema_length=None
            )
    return out


def folder_of(path: Path, place: Path, form: str) -> Path:
    place.mkdir()
    for name, frame in tables_of(path).items():
        if form == "parquet":
            frame.write_parquet(place / f"{name}.parquet")
        elif form == "arrow":
            frame.write_ipc(place / f"{name}.arrow")
        else:
            frame.write_ipc_stream(place / f"{name}.arrow")
    return place


@pytest.mark.parametrize("form", ["parquet", "arrow", "arrow stream"])
def test_the_folder_is_the_run_of_the_sqlite_export(tmp_path: Path, form: str) -> None:
    here, there = (
        read(SAMPLE, use_cache=False),
        read(folder_of(SAMPLE, tmp_path / "run_dir", form), use_cache=False),
    )
    assert there.name == "run_dir" and there.tables.keys() == here.tables.keys()
    for name, table in here.tables.items():
        assert_frame_equal(table, there.tables[name])
    assert here.names.equals(there.names)
    assert [f.code for f in here.findings] == [f.code for f in there.findings]
    assert (
        there.facts["sha256"] != here.facts["sha256"]
        and there.facts["format"] == here.facts["format"]
    )


def test_the_environment_is_not_read(tmp_path: Path, hostile: Path) -> None:
    folder = folder_of(hostile, tmp_path / "hostile_pqtdir", "parquet")
    (folder / "TARGET_INFO_SYSTEM_ENV.parquet").write_bytes(b"not read at all")
    trace = read(folder, use_cache=False)
    assert not any(word in str(trace.facts) for word in SECRETS)


@pytest.mark.parametrize(
    ("name", "frame", "says"),
    [
        ("StringIds", pl.DataFrame({"id": [[1]], "value": ["a"]}), "List"),
        ("StringIds", pl.DataFrame({'id"; DROP TABLE x; --': [1]}), "column called"),
        ('x"; DROP TABLE y; --', pl.DataFrame({"id": [1]}), "a name"),
        ("StringIds", pl.DataFrame({f"c{k}": [1] for k in range(201)}), "201 columns"),
    ],
)
def test_what_no_export_holds_is_refused(
    tmp_path: Path, name: str, frame: pl.DataFrame, says: str
) -> None:
    folder = folder_of(SAMPLE, tmp_path / "run_pqtdir", "parquet")
    frame.write_parquet(folder / f"{name}.parquet")
    assert says in refused("P072", read, folder, use_cache=False).found


@pytest.mark.parametrize("end", ["parquet", "arrow"])
@pytest.mark.parametrize("content", [b"", b"PAR1", b"ARROW1\0\0" + b"\xff" * 100, b"x" * 1000])
def test_damaged_tables_are_refused(tmp_path: Path, end: str, content: bytes) -> None:
    (tmp_path / f"StringIds.{end}").write_bytes(content)
    refused("P072", read, tmp_path, use_cache=False)


def test_tables_that_grow_beyond_measure_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(SAMPLE, tmp_path / "run_pqtdir", "parquet")
    monkeypatch.setattr(nsys_tables, "_FREE", 1000)
    monkeypatch.setattr(nsys_tables, "_GROWTH", 0)
    refused("P073", read, folder, use_cache=False)


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "nsys").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / "nsys").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_a_report_is_exported_by_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tmp_path / "a run.nsys-rep"
    shutil.copy(SAMPLE, report)
    report.write_bytes(b"\0NSYS" + report.read_bytes())
    program(
        tmp_path,
        monkeypatch,
        f'[ "$1 $2 $3 $4" = "export --type sqlite --output" ] && cp "{SAMPLE}" "$5"',
    )
    trace = read(report, use_cache=False)
    assert trace.name == "a run.nsys-rep"
    assert_frame_equal(trace.kernels, read(SAMPLE, use_cache=False).kernels)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a run.nsys-rep", "bin"]


@pytest.mark.parametrize("script", ["echo no such version >&2; exit 3", "exit 0"])
def test_a_failed_export_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"\0NSYS")
    program(tmp_path, monkeypatch, script)
    error = refused("P074", read, report, use_cache=False)
    assert "exit" in error.found and "nsys export --type sqlite run.nsys-rep" in error.fix


@pytest.mark.parametrize(
    "script",
    [
        'echo done; head -c 9000 /dev/urandom > "$5"',
        'echo hello > "$5"',
        ': > "$5"',
        "head -c 30000000 /dev/urandom; head -c 30000000 /dev/urandom >&2; exit 1",
        "printf '\\377\\000\\033[31m' >&2; exit 1",
    ],
)
def test_an_export_that_is_junk_is_said_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"\0NSYS")
    program(tmp_path, monkeypatch, script)
    error = refused("P074", read, report, use_cache=False)
    assert error.where == str(report) and len(error.found) < 200 and error.found.isprintable()


def test_an_export_that_lacks_everything_is_said_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, other = tmp_path / "run.nsys-rep", tmp_path / "other"
    report.write_bytes(b"\0NSYS")
    with closing(sqlite3.connect(other)) as database:
        database.execute("CREATE TABLE t (a)")
    program(tmp_path, monkeypatch, f'cp "{other}" "$5"')
    with pytest.raises(ProfileError) as caught:
        read(report, use_cache=False)
    assert caught.value.where == str(report)


def test_without_nsys_the_command_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"\0NSYS")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "nsys export --type sqlite" in refused("P011", read, report, use_cache=False).fix
