"""The generator writes what it promises, plain sqlite3 reads it, and the harness compares the same
rows and says what it could not run.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "examples")]

import nsys_generator  # type: ignore[import-not-found]  # noqa: E402
import nsys_tables  # type: ignore[import-not-found]  # noqa: E402
import read_mpi  # type: ignore[import-not-found]  # noqa: E402
import read_nsys  # type: ignore[import-not-found]  # noqa: E402
import read_otf2  # type: ignore[import-not-found]  # noqa: E402
import routes  # type: ignore[import-not-found]  # noqa: E402
import run  # type: ignore[import-not-found]  # noqa: E402
import start_up  # type: ignore[import-not-found]  # noqa: E402

ROWS = 5_300  # a hundred iterations


def rows(path: Path, query: str) -> np.ndarray:
    """Integer rows of a query."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        return np.array(database.execute(query).fetchall(), dtype=np.int64)


def width(path: Path, table: str) -> int:
    """Columns of a table."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        return len(database.execute(f"PRAGMA table_info({table})").fetchall())


@pytest.mark.parametrize(
    ("schema", "kernel_columns", "copy_columns"),
    [("3.0", 27, 19), ("3.7", 28, 20), ("3.24", 38, 21)],
)
def test_promised_rows_and_columns(
    tmp_path: Path, schema: str, kernel_columns: int, copy_columns: int
) -> None:
    path = tmp_path / "made.sqlite"
    counts = nsys_generator.generate(path, ROWS, schema)
    assert sum(counts.values()) == ROWS
    assert (
        counts["CUPTI_ACTIVITY_KIND_KERNEL"] == 100 * 20
        and counts["CUPTI_ACTIVITY_KIND_RUNTIME"] == 100 * 26
    )
    for table, count in counts.items():
        assert rows(path, f"SELECT count(*) FROM {table}") == [[count]]
    assert width(path, "CUPTI_ACTIVITY_KIND_KERNEL") == kernel_columns
    assert width(path, "CUPTI_ACTIVITY_KIND_MEMCPY") == copy_columns
    with closing(sqlite3.connect(path)) as database:
        names = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        meta = "EXPORT_META_DATA" if schema == "3.0" else "META_DATA_EXPORT"
        about = dict(database.execute(f"SELECT name, value FROM {meta}"))
    assert about["EXPORT_SCHEMA_VERSION"] == nsys_tables.VERSIONS[schema] and about[
        "EXPORT_PRODUCT_VERSION"
    ].startswith("synthetic")
    assert ("MPI_P2P_EVENTS" in names) == (schema != "3.0")
    assert ("ENUM_CUDA_KRENEL_LAUNCH_TYPE" in names) == (schema == "3.0")


def test_every_name_is_a_string_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "made.sqlite"
    nsys_generator.generate(path, ROWS)
    strings = set(rows(path, "SELECT id FROM StringIds")[:, 0].tolist())
    for table, column in (
        ("KERNEL", "demangledName"),
        ("KERNEL", "shortName"),
        ("RUNTIME", "nameId"),
    ):
        assert (
            set(
                rows(path, f"SELECT DISTINCT {column} FROM CUPTI_ACTIVITY_KIND_{table}")[
                    :, 0
                ].tolist()
            )
            <= strings
        )
    assert len(rows(path, "SELECT DISTINCT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL")) > 100


def test_device_rows_follow_their_calls_and_streams_keep_order(tmp_path: Path) -> None:
    path = tmp_path / "made.sqlite"
    nsys_generator.generate(path, ROWS)
    for table in ("KERNEL", "MEMCPY", "MEMSET"):
        join = (
            f"FROM CUPTI_ACTIVITY_KIND_{table} d JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING "
            "(correlationId)"
        )
        late = rows(path, f"SELECT d.start - r.end, d.end - d.start {join}")
        assert (late > 0).all()
    for stream in nsys_generator.STREAMS:
        own = rows(
            path,
            (
                f"SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE streamId = {stream} "
                "ORDER BY correlationId"
            ),
        )
        assert (own[1:, 0] >= own[:-1, 1]).all()


def test_seed_and_shuffle(tmp_path: Path) -> None:
    query = (
        "SELECT start, end, correlationId, streamId, demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL"
    )
    plain, again, other, mixed = (
        tmp_path / f"{name}.sqlite" for name in ("plain", "again", "other", "mixed")
    )
    nsys_generator.generate(plain, ROWS, seed=1)
    nsys_generator.generate(again, ROWS, seed=1)
    nsys_generator.generate(other, ROWS, seed=2)
    nsys_generator.generate(mixed, ROWS, seed=1, shuffle=True)
    assert np.array_equal(rows(plain, query), rows(again, query))
    assert not np.array_equal(rows(plain, query), rows(other, query))
    assert (np.diff(rows(mixed, query)[:, 2]) < 0).any()
    assert np.array_equal(
        rows(plain, f"{query} ORDER BY correlationId"),
        rows(mixed, f"{query} ORDER BY correlationId"),
    )


def test_the_smallest_file_is_one_iteration(tmp_path: Path) -> None:
    assert (
        sum(nsys_generator.generate(tmp_path / "one.sqlite", 1).values())
        == nsys_generator.ROWS_EACH
    )


@pytest.mark.parametrize("schema", ["3.0", "3.7", "3.24"])
def test_routes_agree(tmp_path: Path, schema: str) -> None:
    path = tmp_path / "made.sqlite"
    counts = nsys_generator.generate(path, ROWS, schema, shuffle=True)
    told = {}
    for name in (routes.TURNBUCKLE, "turnbuckle, native call", "sqlite3 to NumPy"):
        read, tell = routes.ROUTES[name]()
        column_bytes, count, told[name] = tell(read(str(path)))
        assert column_bytes > 0 and count >= sum(counts[table] for table in routes.COLUMNS)
    assert told[routes.TURNBUCKLE] == told["turnbuckle, native call"] == told["sqlite3 to NumPy"]
    assert {table: told[routes.TURNBUCKLE][table][0] for table in routes.COLUMNS} == {
        table: counts[table] for table in routes.COLUMNS
    }


def test_fresh_process_measures_and_a_missing_package_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "made.sqlite"
    nsys_generator.generate(path, ROWS)
    sample = read_nsys.run_child("sqlite3 to NumPy", path)
    assert (
        sample["rows"] == 100 * (20 + 4 + 26)
        and sample["wall"] > 0
        and sample["peak"] >= sample["baseline"] > 0
    )
    (tmp_path / "duckdb.py").write_text("raise ModuleNotFoundError('no duckdb here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert read_nsys.run_child("DuckDB sqlite scanner", path) == {
        "missing": "ModuleNotFoundError: no duckdb here"
    }


def sample(
    wall: float, checks: dict[str, list[int]] | None = None, cores: float = 2.0
) -> dict[str, Any]:
    """One measurement of ten rows with 100 bytes a row beyond the columns."""
    return {
        "wall": wall,
        "opened": wall / 10,
        "cpu": wall * cores,
        "baseline": 500,
        "peak": 2_300,
        "column_bytes": 800,
        "rows": 10,
        "checks": checks or {"K": [10, 5]},
    }


def result(ours: float, adbc: float, connectorx: float, second: float) -> dict[str, Any]:
    """A whole result with one sample each."""
    routes_ = {"turnbuckle": ours, "ADBC to Arrow": adbc, "connectorx": connectorx}
    read = {
        "routes": {name: {"samples": [sample(wall)]} for name, wall in routes_.items()},
        "cache": {"first": [sample(1.0)], "second": [sample(second)], "bytes": 7},
    }
    return {"read": read}


def test_targets_are_judged_by_the_figures() -> None:
    said = run.targets(result(ours=1.0, adbc=2.5, connectorx=1.5, second=0.05), cores=2)
    assert [met for met, _ in said] == [True, False, True, True, True]
    assert "2.50x" in said[0][1] and "1.50x" in said[1][1] and "100 bytes" in said[2][1]
    assert [
        met
        for met, _ in run.targets(result(ours=1.0, adbc=1.9, connectorx=9.0, second=0.5), cores=1)
    ] == [False, False, True, False]


def test_medians_and_table() -> None:
    told = read_nsys.summarise([sample(3.0), sample(1.0), sample(2.0)])
    assert (
        told["wall"],
        told["fastest"],
        told["slowest"],
        told["cpu"],
        told["extra_bytes_a_row"],
    ) == (2.0, 1.0, 3.0, 4.0, 100.0)
    text = read_nsys.table(result(1.0, 2.0, 4.0, 0.05)["read"])
    line = next(line for line in text.splitlines() if line.startswith("turnbuckle"))
    assert " 0.50 " in line and "second, every table loaded, 0.050 s (5.0%)" in text


def test_small_questions_are_held_against_loading_alone(tmp_path: Path) -> None:
    def taking(cpu: float) -> dict[str, Any]:
        return {"seconds": [cpu], "cpu": [cpu], "median": cpu, "median_cpu": cpu}

    names = start_up.commands(start_up.SAMPLE, str(tmp_path))
    found = {name: taking(0.2 if name == start_up.FLOOR else 0.4) for name in names}
    found["sweep of project, one point"] = taking(0.4 - 0.002 * (start_up.POINTS - 1))
    said = start_up.targets(found)
    assert [met for met, _ in said] == [False, True, True, True, False, True, True], (
        "help takes twice the floor, a point of a projection 2 ms"
    )
    assert (
        "--help takes 2.00 times" in said[0][1] and "(2 ms of CPU time, 500 points/s)" in said[4][1]
    )
    assert "2.00" in start_up.table(found)
    found["report"] = {"missing": "no room"}
    assert start_up.targets(found) == [(False, "report was not measured: no room")]
    assert "not measured: no room" in start_up.table(found)


def test_a_small_question_is_measured_or_says_why() -> None:
    assert start_up._run([sys.executable, "-c", "pass"], {})["cpu"] > 0
    assert start_up._run([sys.executable, "-c", "raise SystemExit('no')"], {}) == {"missing": "no"}


def test_routes_that_disagree_stop_the_benchmark() -> None:
    found = {"a": {"samples": [sample(1.0)]}, "b": {"samples": [sample(1.0, {"K": [10, 6]})]}}
    with pytest.raises(SystemExit, match="do not read the same rows"):
        read_nsys._same(found)


def test_otf2_is_compared_with_the_package_where_it_is_there() -> None:
    def row(name: str, seconds: float) -> dict[str, Any]:
        return {
            "name": name,
            "archive": "X",
            "events": 1000,
            "wall": [seconds],
            "cpu": [seconds],
            "threads": 1,
        }

    ours, peer = row("turnbuckle", 0.001), row(read_otf2.PEER, 0.02)
    ((met, said),) = read_otf2.targets({"rows": [ours, peer]})
    assert (
        met
        and "20x" in said
        and "1.00 M events" in said
        and "(0.020-0.020)" in read_otf2.table({"rows": [ours, peer]})
    )
    assert read_otf2.targets({"rows": [ours, row(read_otf2.PEER, 0.009)]})[0][0] is False
    absent = {"name": read_otf2.PEER, "archive": "X", "missing": "no otf2"}
    assert read_otf2.targets({"rows": [ours, absent]}) == [
        (False, "X: not compared with the Python package")
    ]
    assert "not measured: no otf2" in read_otf2.table({"rows": [ours, absent]})
    assert read_otf2.targets({"missing": "why"}) == [(False, "OTF2 was not measured: why")]


def test_mpi_traces_are_written_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file that the benchmark makes holds the ring that it says, and both routes see all of
    its lines.
    """
    from turnbuckle.mpi import schedules
    from turnbuckle.profile.messages.traffic import traffic
    from turnbuckle.trace import read

    monkeypatch.setattr(read_mpi, "SHARED", tmp_path / "nowhere")
    made = {
        title.split(",")[0]: (path, files) for title, path, files in read_mpi.cases(tmp_path, 3)
    }
    assert set(made) == {"Paraver", "PMPI text", "GOAL"}
    for name, (path, files) in made.items():
        mpi = (
            schedules.figures(path).mpi()
            if name == "GOAL"
            else traffic(read(path, use_cache=False))
        )
        assert (
            mpi is not None
            and mpi["messages"] == {"matched": 24, "unmatched": 0}
            and mpi["sends"]["bytes"] == 24 * 4096
        )
        assert read_mpi.split(files) == sum(len(f.read_text().splitlines()) for f in files)


def test_reading_of_mpi_traces_is_held_against_the_least() -> None:
    def row(name: str, seconds: float) -> dict[str, Any]:
        return {"file": "X", "name": name, "lines": 1000, "wall": [seconds], "cpu": [seconds]}

    rows = [row("turnbuckle", 0.05), row("least", 0.001)]
    ((met, said),) = read_mpi.targets({"rows": rows})
    assert met and "50.0x the least" in said and "(0.050-0.050)" in read_mpi.table({"rows": rows})
    assert not read_mpi.targets({"rows": [row("turnbuckle", 0.2), row("least", 0.001)]})[0][0]
    assert read_mpi.targets({"missing": "why"}) == [(False, "MPI traces were not measured: why")]
    assert "not measured: why" in read_mpi.table({"missing": "why"})
