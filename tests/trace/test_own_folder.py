"""Turnbuckle's own folder: what was written comes back whole, and what anybody else may have put
there is refused by name.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import refusals
from frames import frame, launched, tables
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnbuckle.foundation.errors import ProfileError, TurnbuckleError
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.findings import finding
from turnbuckle.foundation.schema import tables as vocabulary
from turnbuckle.trace import Trace, read
from turnbuckle.trace.cache.parquet_file import quietly
from turnbuckle.trace.readers import parquet
from turnbuckle.trace.recorders import recorder
from turnbuckle.trace.trace import dtypes

FACTS: dict[str, Any] = {
    "format": "nsys",
    "schema_version": "3.24",
    "sha256": "ab" * 32,
    "size_bytes": 70,
    "tables": {"T": 3},
}


def small(**more: Any) -> Trace:
    """Launches, kernels and a device."""
    held = tables(**launched(4), devices=[{"device": 0, "name": "card", "memory_bytes": 1 << 30}])
    kept = {name: table for name, table in held.items() if table.height}
    return Trace(
        kept,
        pl.Series("name", ["launch", "k\x1b[1m"]),
        {**FACTS, **more},
        [finding("P102", 2, "kernels 2")],
        "run.sqlite",
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to be spoilt."""
    small().to_parquet(tmp_path / "run.turnbuckle")
    return tmp_path / "run.turnbuckle"


def same(left: Trace, right: Trace) -> None:
    """Equal in all but what the file is called and its hash and size; those of the first stand in
    the second's facts.
    """
    facts = [
        {k: v for k, v in t.facts.items() if k not in ("sha256", "size_bytes", "recording")}
        for t in (left, right)
    ]
    assert facts[0] == facts[1]
    own = {
        "name": left.name,
        "sha256": left.facts["sha256"],
        "size_bytes": left.facts["size_bytes"],
    }
    assert (
        right.facts["recording"] == left.facts.get("recording", own)
        and len(right.facts["sha256"]) == 64
    )
    assert (left.findings, list(left.names)) == (right.findings, list(right.names))
    assert list(left.tables) == list(right.tables)
    for name, table in left.tables.items():
        assert table.schema == right.table(name).schema and table.equals(right.table(name)), name


def refused(folder: Path, code: str, about: str = "") -> TurnbuckleError:
    """The error of a folder that must be refused: coded, with a place and a way out, and `about` in
    what was found.
    """
    error = refusals.refused(code, read, folder)
    assert (
        error.exit_code == 2
        and error.where.startswith(str(folder.resolve()))
        and error.fix
        and about in error.found
    ), error.lines()
    assert all(line.isprintable() for line in error.lines())
    return error


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change ``trace.json``."""
    about = json.loads((folder / "trace.json").read_text())
    change(about)
    (folder / "trace.json").write_text(json.dumps(about))


def respoil(folder: Path, table: str, *columns: pl.Expr) -> None:
    """Change columns of a table."""
    pl.read_parquet(folder / f"{table}.parquet").with_columns(*columns).write_parquet(
        folder / f"{table}.parquet"
    )


# --- round trips ----------------------------------------------------------------------------------


def test_what_was_written_comes_back(folder: Path) -> None:
    first = read(folder)
    same(small(), first)
    assert first.name == "run.turnbuckle" and first.facts["recording"]["name"] == "run.sqlite"
    assert first.facts["size_bytes"] == sum(p.stat().st_size for p in folder.iterdir())
    first.to_parquet(folder.with_name("again"))
    again = read(folder.with_name("again") / ".")
    same(first, again)
    assert again.name == "again" and again.facts["recording"]["name"] == "run.sqlite"
    assert again.facts["sha256"] != first.facts["sha256"], (
        "facts of the first stand in trace.json of the second"
    )
    assert Trace.from_parquet(folder).facts == small().facts


def test_every_recording_comes_back(shared: Path, tmp_path: Path) -> None:
    of_mpi = ("paraver/*/*.prv", "dumpi/*/*.meta", "simgrid-local/*64-paje*")
    of_rocprof = ("rocprof/*/*.json", "rocprof/*/*.db", "rocprof/*/*_trace.csv")
    of_otf2 = (
        "otf2/*/*.otf2",
        "otf2-local/*/archive/eztrace*.otf2",
        "otf2-local/scorep*/archive/*.otf2",
    )
    kinds = ("nsys/*/*.sqlite", "kineto/*/*.json.gz", *of_otf2, *of_mpi, *of_rocprof)
    # the smallest of each format and recorder: others hold the same columns
    sized = [
        sorted((p.stat().st_size, p) for p in (shared / "traces").glob(kind)) for kind in kinds
    ]
    recordings = [path for of_kind in sized for _, path in of_kind[:4]]
    nccl = sorted((shared / "traces" / "nvprof" / "qcu_wilson_nccl_2rank").glob("*.nvvp"))
    assert len(recordings) > 20 and all(sized) and len(nccl) == 2
    for number, path in enumerate([*recordings, nccl[0]]):
        trace = read(path, use_cache=False)
        trace.to_parquet(tmp_path / str(number))
        same(trace, read(tmp_path / str(number)))
        shutil.rmtree(tmp_path / str(number))


ROWS = st.dictionaries(
    st.sampled_from(sorted(vocabulary())),
    st.lists(
        st.tuples(
            st.integers(-(2**62), 2**62),
            st.integers(-(2**62), 2**62),
            st.integers(0, 1),
            st.booleans(),
        ),
        max_size=6,
    ),
    max_size=5,
)


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(ROWS)
def test_any_tables_come_back(
    tmp_path: Path, rows: dict[str, list[tuple[int, int, int, bool]]]
) -> None:
    """Whatever times a recording states, also those that `sound` will set aside."""
    held = {}
    for name, values in rows.items():
        made = []
        for start, end, code, full in sorted(values):
            row: dict[str, Any] = {"start_ns": start, "time_ns": start, "end_ns": end}
            for column in vocabulary()[name]:
                if column.name not in row and (full or not column.nullable):
                    row[column.name] = "text" if column.type == "text" else code
            made.append({c.name: row.get(c.name) for c in vocabulary()[name]})
        held[name] = frame(name, made)
    trace = Trace(held, pl.Series("name", ["a", ""]), dict(FACTS), [], "x")
    trace.to_parquet(tmp_path)
    same(trace, read(tmp_path))
    for file in tmp_path.iterdir():
        file.unlink()


def test_a_recorder_that_states_no_hash(folder: Path) -> None:
    rewrite(
        folder,
        lambda about: about.update(
            facts={"format": "turnbuckle", "product_version": "Turnbuckle 9.9"}
        ),
    )
    facts = read(folder).facts
    assert "recording" not in facts and facts["tables"] == {}
    assert recorder(facts) == "Turnbuckle 9.9 trace"


def test_the_hash_is_of_everything_read(folder: Path) -> None:
    before = read(folder).facts["sha256"]
    (folder / "notes.txt").write_text("not read")
    assert read(folder).facts["sha256"] == before
    respoil(folder, "devices", pl.col("memory_bytes") + 1)
    assert read(folder).facts["sha256"] != before


def test_a_folder_without_trace_json_is_a_directory(folder: Path) -> None:
    (folder / "trace.json").unlink()
    refused(folder, "P002")


# --- trace.json -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "{}",
        '{"layout": 1}',
        "[" * 100_000,
        "\udcff",
        '{"layout": ' + "9" * 5000 + "}",
    ],
)
def test_trace_json_that_is_none(folder: Path, text: str) -> None:
    (folder / "trace.json").write_text(text, errors="surrogateescape")
    refused(folder, "P014")


@pytest.mark.parametrize(
    "change",
    [
        {"layout": 2},
        {"layout": True},
        {"name": "a/b"},
        {"name": 3},
        {"tables": []},
        {"tables": {"kernels": -1}},
        {"tables": {"kernels": True}},
    ],
)
def test_a_frame_that_does_not_hold(folder: Path, change: dict[str, Any]) -> None:
    rewrite(folder, lambda about: about.update(change))
    refused(folder, "P014")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hostname", "x"),
        ("rank", 1.5),
        ("rank", True),
        ("rank", 2**63),
        ("format", 3),
        ("format", "x" * 5000),
        ("tables", {"a": "b"}),
        ("tables", [1]),
        ("recorded", ["a", 1]),
        ("part", {"a": [[1]]}),
        ("part", {"a": {}}),
        ("container", []),
        ("sources", [{"name": "a"}]),
        ("sources", [{"name": "a", "format": "b", "sha256": 3}]),
        ("sources", "a"),
    ],
)
def test_facts_that_are_not_known(folder: Path, name: str, value: object) -> None:
    rewrite(folder, lambda about: about["facts"].update({name: value}))
    refused(folder, "P061", name)


def test_facts_that_are_known(folder: Path) -> None:
    known = {
        "part": {"first_ns": 3, "range": "x", "share": 0.5, "ranks": [0, None]},
        "recorded": ["kernels"],
        "recorder": {"dropped": 0},
    }
    rewrite(folder, lambda about: about["facts"].update(known, rank=None))
    assert known.items() <= read(folder).facts.items()


@pytest.mark.parametrize(
    "row",
    [
        ["P999", 1, ""],
        ["P102", -1, ""],
        ["P102", 1, "\x1b[31m"],
        ["P102", 1],
        7,
        ["P102", 1, "x" * 30_000],
        [["P102"], 1, ""],
    ],
)
def test_findings_that_are_not_known(folder: Path, row: object) -> None:
    rewrite(folder, lambda about: about["findings"].append(row))
    refused(folder, "P061")


def test_facts_and_findings_must_be_there_as_such(folder: Path) -> None:
    rewrite(folder, lambda about: about.update(findings={}))
    refused(folder, "P061")
    rewrite(folder, lambda about: about.update(facts=[]))
    refused(folder, "P061")


# --- tables ---------------------------------------------------------------------------------------


def test_a_table_that_is_not_there(folder: Path) -> None:
    (folder / "kernels.parquet").unlink()
    refused(folder, "P057", "no such file")


def test_a_table_that_is_not_known(folder: Path) -> None:
    rewrite(folder, lambda about: about["tables"].update(secrets=1))
    refused(folder, "P057", "secrets")


def test_other_rows_than_told(folder: Path) -> None:
    rewrite(folder, lambda about: about["tables"].update(kernels=5))
    refused(folder, "P057", "4 rows")


def test_a_file_that_is_no_parquet(folder: Path) -> None:
    whole = (folder / "kernels.parquet").read_bytes()
    for text in (
        b"",
        b"PAR1",
        b"x" * 900,
        whole[:-9],
        whole[:200],
        b"PAR1" + random.Random(1).randbytes(500) + b"PAR1",
    ):
        (folder / "kernels.parquet").write_bytes(text)
        refused(folder, "P057")


def test_other_columns(folder: Path) -> None:
    kernels = pl.read_parquet(folder / "kernels.parquet")
    for wrong, said in (
        (kernels.drop("stream"), "no column stream"),
        (kernels.with_columns(more=1), "'more' too many"),
        (kernels.with_columns(pl.col("start_ns").cast(pl.Float64)), "start_ns of type Float64"),
        (kernels.with_columns(pl.col("name").cast(pl.String)), "name of type String"),
    ):
        wrong.write_parquet(folder / "kernels.parquet")
        refused(folder, "P057", said)
    kernels.select(reversed(kernels.columns)).write_parquet(folder / "kernels.parquet")
    assert read(folder).kernels.equals(kernels), "their order is free"


@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        ("kernels", pl.col("name") + 2, "name 2"),
        ("kernels", pl.lit(-1, pl.Int32).alias("short_name"), "short_name -1"),
        ("kernels", pl.col("start_ns").reverse(), "ascending"),
        ("kernels", pl.lit(-5, pl.Int64).alias("blocks"), "blocks -5"),
        ("api", pl.lit(None, pl.Int64).alias("thread"), "thread: 4 values"),
        ("api", pl.lit(2, pl.Int8).alias("level"), "level 2"),
        ("devices", pl.lit(-(2**63), pl.Int64).alias("memory_bytes"), "memory_bytes"),
        ("names", pl.when(pl.col("name") != "launch").then("name").alias("name"), "1 names"),
    ],
)
def test_values_that_cannot_be(folder: Path, table: str, change: pl.Expr, said: str) -> None:
    respoil(folder, table, change)
    refused(folder, "P058", said)


@pytest.mark.parametrize(
    ("column", "value"),
    [("direction", 9), ("direction", -1), ("source_memory", 8), ("size_bytes", -1)],
)
def test_words_that_the_vocabulary_does_not_hold(tmp_path: Path, column: str, value: int) -> None:
    copies = frame("copies", [{"start_ns": 1, "end_ns": 2}]).with_columns(
        pl.lit(value).cast(dtypes("copies")[column]).alias(column)
    )
    replace(small(), tables={"copies": copies}).to_parquet(tmp_path)
    refused(tmp_path, "P058", f"{column} {value}")


def test_rows_and_texts_beyond_what_files_hold(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_FREE", 100)
    monkeypatch.setattr(parquet, "_GROWTH", 10)
    assert read(folder).kernels.height == 4
    many = pl.concat([pl.read_parquet(folder / "devices.parquet")] * 5000)
    many.write_parquet(folder / "devices.parquet")
    rewrite(folder, lambda about: about["tables"].update(devices=5000))
    refused(folder, "P059", "bytes of rows")
    monkeypatch.undo()
    assert read(folder).devices.height == 5000

    pl.DataFrame({"name": ["x" * 20_000] * 60}).write_parquet(folder / "names.parquet")
    assert read(folder).names.len() == 60
    monkeypatch.setattr(parquet, "_FREE", 600_000)
    monkeypatch.setattr(parquet, "_GROWTH", 1)
    refused(folder, "P059", "bytes of text")
    monkeypatch.setattr(parquet, "_LARGEST_ABOUT", 10)
    refused(folder, "P059", "bytes")


# --- the folder -----------------------------------------------------------------------------------


def test_files_that_are_not_in_the_folder(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "kernels.parquet"
    (folder / "kernels.parquet").rename(outside)
    (folder / "kernels.parquet").symlink_to(outside)
    refused(folder, "P060", "link")
    (folder / "kernels.parquet").unlink()
    os.mkfifo(folder / "kernels.parquet")
    refused(folder, "P060", "ordinary")
    (folder / "kernels.parquet").unlink()
    (folder / "kernels.parquet").symlink_to(folder / "kernels.parquet")
    refused(folder, "P057")
    (folder / "kernels.parquet").unlink()
    outside.rename(folder / "whole.parquet")
    (folder / "kernels.parquet").symlink_to("whole.parquet")
    assert read(folder).kernels.height == 4


def test_the_folder_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert read(tmp_path / "link").kernels.height == 4


def test_no_permission(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(path: Path) -> Any:
        if path.name == "kernels.parquet":
            raise PermissionError(13, "Permission denied")
        return opened(path)

    monkeypatch.setattr("turnbuckle.trace.readers.parquet.opened", refusing)
    refused(folder, "P010")


def test_progress_goes_to_the_end(folder: Path) -> None:
    told: list[float] = []
    read(folder, progress=told.append)
    assert told == sorted(told) and told[0] > 0 and told[-1] <= 1

    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read(folder, progress=stop)


# --- damage ---------------------------------------------------------------------------------------


def damaged(folder: Path, count: int) -> Iterator[Path]:
    """A table of the folder with bytes flipped, replaced or cut off, most of them where Parquet
    describes itself; the rest as it was.
    """
    chance = random.Random(2)
    tables = sorted(folder.glob("*.parquet"))
    whole = {table: table.read_bytes() for table in tables}
    for _ in range(count):
        table = chance.choice(tables)
        content, how = bytearray(whole[table]), chance.random()
        first = chance.choice([0, max(0, len(content) - 600)])
        if how < 0.1:
            del content[chance.randrange(len(content)) :]
        for _ in range(chance.choice([1, 1, 2, 8]) if content else 0):
            content[min(first + chance.randrange(600), len(content) - 1)] ^= 1 << chance.randrange(
                8
            )
        table.write_bytes(content)
        yield table
        table.write_bytes(whole[table])


def test_damage_is_told_without_panic_text_and_paths(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    codes: Counter[str] = Counter()
    for _ in damaged(folder, 100):
        try:
            read(folder.name)
        except ProfileError as error:
            codes[error.code] += 1
            assert str(folder.parent) not in "".join(error.lines())
    assert capfd.readouterr().err == ""
    assert codes["P057"] > 25


def test_what_others_print_while_parquet_is_read_is_handed_on(
    capfd: pytest.CaptureFixture[str],
) -> None:
    quietly(lambda: os.write(2, b"a word\n"))
    assert capfd.readouterr().err == "a word\n"
    os.write(2, b"behind\n")
    assert capfd.readouterr().err == "behind\n"


def test_a_panic_is_an_error_of_the_file(capfd: pytest.CaptureFixture[str]) -> None:
    def panics() -> None:
        os.write(2, b"thread 'polars-3' panicked at /home/x/lib.rs:1:1\n")
        raise pl.exceptions.PanicException("index out of bounds")

    with pytest.raises(ValueError, match="index out of bounds"):
        quietly(panics)
    assert capfd.readouterr().err == ""
