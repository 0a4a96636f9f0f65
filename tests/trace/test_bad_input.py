"""Bad files: each gives a coded error with a way out, or a recording with findings; never a
traceback, a panic or a hang.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import build_nsys as b
import pytest
import refusals

from turnbuckle.foundation.errors import ProfileError, TurnbuckleError
from turnbuckle.trace import Trace, read

GPU_TABLES: dict[str, Any] = {
    f"CUPTI_ACTIVITY_KIND_{t}": None for t in ("RUNTIME", "KERNEL", "MEMCPY")
}


def refused(path: Path, code: str) -> TurnbuckleError:
    """The error of a file that must be refused: coded, placed, exit 2, and with a way out."""
    error = refusals.refused(code, read, path)
    assert error.exit_code == 2 and error.where == str(path) and error.fix, error.lines()
    return error


# --- not a file, or not one of ours ---------------------------------------------------------------


def test_a_missing_file_names_its_nearest_neighbour(tmp_path: Path) -> None:
    b.make(tmp_path / "report.sqlite")
    assert refused(tmp_path / "reprot.sqlite", "P001").fix == "did you mean report.sqlite?"
    assert refused(tmp_path / "nowhere" / "x.sqlite", "P001").fix == "check the path"
    assert refused(tmp_path / "report.sqlite" / "x", "P001").fix


def test_a_directory_names_what_is_in_it(tmp_path: Path) -> None:
    refused(tmp_path, "P002")
    b.make(tmp_path / "report.sqlite")
    assert "report.sqlite" in refused(tmp_path, "P002").fix


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.sqlite")
    refused(tmp_path / "pipe.sqlite", "P002")


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").touch()
    refused(tmp_path / "a.sqlite", "P003")


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.sqlite", b"hello, world, this is a text file and not a database\n" * 10, "P004"),
        ("a.sqlite", b"SQLite format 2\x00" + bytes(200), "P004"),
        ("a.db", random.Random(1).randbytes(5000), "P004"),
        ("a.txt", b"hello\n", "P013"),
        ("a.bin", bytes(range(256)), "P013"),
        ("a.nsys-rep", b"\x00\x01\x02", "P011"),
        ("a.qdrep", b"\x00\x01\x02", "P011"),
        ("a.qdstrm", b"\x00\x01\x02", "P011"),
        ("a.sqlite", b"SQLite format 3\x00", "P005"),
        ("a.sqlite", b"SQLite format 3\x00" + bytes(4080), "P005"),
        ("a.sqlite", b"SQLite format 3\x00" + random.Random(1).randbytes(100_000), "P005"),
    ],
)
def test_other_formats(tmp_path: Path, name: str, content: bytes, code: str) -> None:
    (tmp_path / name).write_bytes(content)
    error = refused(tmp_path / name, code)
    if code == "P011":
        assert "nsys export --type sqlite --output a.sqlite" in error.fix


def test_a_report_points_to_the_export_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a.nsys-rep").write_bytes(b"\x00")
    b.make(tmp_path / "a.sqlite")
    assert refused(tmp_path / "a.nsys-rep", "P011").fix.startswith("read a.sqlite")


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = b.make(tmp_path / "a.sqlite")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(import_module("turnbuckle.trace.read"), "opened", denied)
    refused(path, "P010")


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    for name in ("a\x00b", "x" * 5000):
        with pytest.raises(ProfileError):
            read(tmp_path / name)


def test_names_that_sqlite_could_take_for_options(tmp_path: Path) -> None:
    for name in ("a b?mode=memory#%41.sqlite", "file:x.sqlite", "é'\"$(x).sqlite"):
        assert read(b.make(tmp_path / name)).kernels.height == 2


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "P006"),
        ("customers", "P006"),
        ("rocpd_metadata", "P045"),
    ],
)
def test_sqlite_files_of_other_programs(tmp_path: Path, table: str, code: str) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"CREATE TABLE {table}(a)")
        db.execute(
            "CREATE TABLE StringTable(_id_, value)" if "CUPTI" in table else "CREATE TABLE other(a)"
        )
    db.close()
    refused(path, code)


@pytest.mark.parametrize("table", ["StringIds", "ENUM_CUDA_MEM_KIND", "TARGET_INFO_GPU"])
def test_a_view_in_the_place_of_a_table_beside_the_events_is_not_read(
    tmp_path: Path, table: str
) -> None:
    columns = (
        ", ".join(f"'evil' AS {name}" for name in ("value", "name", "label", "chipName"))
        + ", 1 AS id"
    )
    path = b.make(
        tmp_path / "a.sqlite",
        sql=[f"DROP TABLE IF EXISTS {table}", f"CREATE VIEW {table} AS SELECT {columns}"],
    )
    trace = read(path)
    assert (
        "evil" not in trace.names.to_list()
        and "evil" not in str(trace.tables)
        and trace.kernels.height
    )


def test_views_and_virtual_tables_are_not_events(tmp_path: Path) -> None:
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i AS "
        "end FROM n"
    )
    view = f"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {endless}"
    path = b.make(tmp_path / "a.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=None, sql=[view])
    assert read(path).kernels.is_empty()


# --- exports that lack something ------------------------------------------------------------------


def test_an_export_without_events(tmp_path: Path) -> None:
    error = refused(b.make(tmp_path / "a.sqlite", **GPU_TABLES), "P007")
    assert "--trace=cuda" in error.fix
    refused(b.make(tmp_path / "b.sqlite", **{table: [] for table in GPU_TABLES}), "P007")


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("KERNEL", "start"),
        ("KERNEL", "end"),
        ("RUNTIME", "end"),
        ("MEMCPY", "copyKind"),
        ("MEMCPY", "bytes"),
        ("MEMCPY", "start"),
    ],
)
def test_a_needed_column_is_missing(tmp_path: Path, table: str, column: str) -> None:
    name = f"CUPTI_ACTIVITY_KIND_{table}"
    left = " ".join(c for c in b.COLUMNS[name].split() if c != column)
    error = refused(b.make(tmp_path / "a.sqlite", columns={name: left}), "P008")
    assert name in error.what and column in error.found
    empty = b.make(tmp_path / "b.sqlite", columns={name: left}, **{name: []})
    assert isinstance(read(empty), Trace)


def test_optional_columns_are_missing(tmp_path: Path) -> None:
    few = {
        "CUPTI_ACTIVITY_KIND_KERNEL": "start end",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "start end",
        "CUPTI_ACTIVITY_KIND_MEMCPY": "start end bytes copyKind",
    }
    trace = read(b.make(tmp_path / "a.sqlite", columns=few))
    assert trace.kernels["name"].null_count() == 2 and trace.api["process"].to_list() == [0, 0, 0]
    (absent,) = (f for f in trace.findings if f.code == "P108")
    assert absent.count == 6 + 13 + 12


def test_a_lesser_table_that_lacks_what_it_needs_is_left_out(tmp_path: Path) -> None:
    path = b.make(
        tmp_path / "a.sqlite",
        columns={"OSRT_API": "end nameId"},
        OSRT_API=[{"end": 5, "nameId": 6}],
    )
    trace = read(path)
    assert trace.os_calls.is_empty() and trace.kernels.height == 2
    assert any(f.code == "P108" and "OSRT_API" in f.detail for f in trace.findings)
    assert any(f.code == "P120" and f.detail == "OSRT_API" for f in trace.findings)


def test_every_column_of_another_type(tmp_path: Path) -> None:
    for value in ("text", 1.5, b"\x00\xff"):
        rows = {}
        for table in ("RUNTIME", "KERNEL", "MEMCPY"):
            name = f"CUPTI_ACTIVITY_KIND_{table}"
            rows[name] = [dict.fromkeys(b.COLUMNS[name].split(), value)]
        trace = read(b.make(tmp_path / "a.sqlite", "3.24", **rows))
        assert trace.kernels.select("start_ns", "end_ns", "device").rows() == [(0, 0, None)]
        assert sum(f.count for f in trace.findings if f.code == "P105") >= 30


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**53, -1, 0])
def test_numbers_at_the_edge(tmp_path: Path, value: int) -> None:
    rows = {}
    for table in ("RUNTIME", "KERNEL", "MEMCPY"):
        name = f"CUPTI_ACTIVITY_KIND_{table}"
        rows[name] = [
            dict.fromkeys(b.COLUMNS[name].split(), value),
            {"start": 5, "end": 5, "copyKind": 1, "bytes": -1},
        ]
    trace = read(b.make(tmp_path / "a.sqlite", "3.24", **rows))
    assert sorted(trace.kernels["start_ns"]) == sorted([value, 5])
    assert trace.kernels.filter(trace.kernels["start_ns"] == value)["correlation"].to_list() == [
        value
    ]
    assert ("P106" in {f.code for f in trace.findings}) == (abs(value) > 2**31)


# --- damaged files --------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9, 0.999])
def test_files_cut_off(tmp_path: Path, share: float) -> None:
    whole = b.make(
        tmp_path / "a.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=[b.kernel(i, i + 1, i) for i in range(5000)],
    ).read_bytes()
    cut = tmp_path / "b.sqlite"
    cut.write_bytes(whole[: int(len(whole) * share)])
    assert refused(cut, "P005").found


def _headless_cut(tmp_path: Path) -> Path:
    """A cut that the header does not betray: its page count is not to be trusted."""
    whole = bytearray(
        b.make(
            tmp_path / "a.sqlite",
            CUPTI_ACTIVITY_KIND_KERNEL=[b.kernel(i, i + 1, i) for i in range(5000)],
        ).read_bytes()
    )
    whole[92:96] = b"\xff\xff\xff\xff"
    cut = tmp_path / "b.sqlite"
    cut.write_bytes(whole[: len(whole) // 8192 * 4096])
    return cut


def test_a_cut_that_the_header_does_not_betray(tmp_path: Path) -> None:
    refused(_headless_cut(tmp_path), "P005")


def test_a_page_count_beyond_the_file(tmp_path: Path) -> None:
    path = b.make(tmp_path / "a.sqlite")
    content = bytearray(path.read_bytes())
    content[28:32] = b"\xff\xff\xff\xff"
    path.write_bytes(content)
    refused(path, "P005")


def test_noise_in_every_page_but_the_first(tmp_path: Path) -> None:
    path = b.make(tmp_path / "a.sqlite")
    content = bytearray(path.read_bytes())
    content[4096:] = random.Random(3).randbytes(len(content) - 4096)
    path.write_bytes(content)
    refused(path, "P005")


def _root(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as db, db:
        (page,) = db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
        ).fetchone()
    db.close()
    return int(page)


def test_pages_in_a_circle(tmp_path: Path) -> None:
    rows = [b.kernel(i, i + 1, i) for i in range(5000)]
    path = b.make(tmp_path / "a.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=rows)
    page = _root(path, "CUPTI_ACTIVITY_KIND_KERNEL")
    content = bytearray(path.read_bytes())
    start = (page - 1) * 4096
    assert content[start] == 5
    content[start + 8 : start + 12] = page.to_bytes(4, "big")
    path.write_bytes(content)
    assert "twice" in refused(path, "P005").found


def test_tables_that_multiply_without_end(tmp_path: Path) -> None:
    """Twenty levels of pages, each of whose children are one page: more rows than the world has
    seconds.
    """
    path = b.make(tmp_path / "a.sqlite", page_size=512)
    page = _root(path, "CUPTI_ACTIVITY_KIND_KERNEL")
    content = bytearray(path.read_bytes())
    count = len(content) // 512
    levels = [page, *range(count + 1, count + 20)]
    content += bytes(512 * 19)
    for here, below in zip(levels, [*levels[1:], page], strict=True):
        at = (here - 1) * 512
        cells = 60
        content[at : at + 512] = bytes(512)
        content[at : at + 12] = (
            bytes([5]) + bytes(2) + cells.to_bytes(2, "big") + bytes(3) + below.to_bytes(4, "big")
        )
        for cell in range(cells):
            content[at + 12 + 2 * cell : at + 14 + 2 * cell] = (500).to_bytes(2, "big")
        content[at + 500 : at + 505] = below.to_bytes(4, "big") + b"\x01"
    content[28:32] = (len(content) // 512).to_bytes(4, "big")
    path.write_bytes(content)
    refused(path, "P005")


def test_a_schema_that_does_not_parse(tmp_path: Path) -> None:
    path = b.make(tmp_path / "a.sqlite")
    content = path.read_bytes()
    path.write_bytes(
        content.replace(
            b"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL", b"CRAETE TABLE CUPTI_ACTIVITY_KIND_KERNEL"
        )
    )
    refused(path, "P005")


# --- files that others use ------------------------------------------------------------------------

_HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_locked_file(tmp_path: Path) -> None:
    path = b.make(tmp_path / "a.sqlite")
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        refused(path, "P009")
    finally:
        holder.communicate("")
    assert read(path).kernels.height == 2


def test_a_file_with_a_write_ahead_log(tmp_path: Path) -> None:
    path = b.make(tmp_path / "a.sqlite")
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL(start, end) VALUES (1, 2)")
    assert (tmp_path / "a.sqlite-wal").stat().st_size > 0
    assert read(path).kernels.height == 3
    db.close()
    assert read(path).kernels.height == 3


def test_a_file_left_in_log_mode_in_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    path = b.make(tmp_path / "a.sqlite", sql=["PRAGMA journal_mode=WAL"])
    tmp_path.chmod(0o500)
    try:
        assert read(path).kernels.height == 2
    finally:
        tmp_path.chmod(0o700)


_CRASH = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size=1")
db.execute("BEGIN")
db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start + 1")
os._exit(0)
"""


def test_what_a_crashed_writer_left_is_refused(tmp_path: Path) -> None:
    path = b.make(
        tmp_path / "a.sqlite",
        CUPTI_ACTIVITY_KIND_KERNEL=[b.kernel(i, i + 1, i) for i in range(5000)],
    )
    subprocess.run([sys.executable, "-c", _CRASH, str(path)], check=True)
    assert (tmp_path / "a.sqlite-journal").stat().st_size > 0
    refused(path, "P009")


def test_an_old_journal_that_undoes_nothing_is_no_trouble(tmp_path: Path) -> None:
    path = b.make(tmp_path / "a.sqlite")
    (tmp_path / "a.sqlite-journal").write_bytes(bytes(512))
    assert read(path).kernels.height == 2
