"""CSV from any verb can be opened in a spreadsheet: no cell that a recording or a file brought
along is run as a formula.
"""

from __future__ import annotations

import ast
import csv
import io
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partialmethod
from pathlib import Path

import polars as pl
import pytest
from hostile_names import Ran
from sources import PACKAGE, modules, nodes

from turnbuckle.foundation.csv_text import of_frame, of_rows
from turnbuckle.projection.run import Run as Recording

pytestmark = pytest.mark.usefixtures("read_once")
Run = Callable[..., Ran]
EXAMPLE = PACKAGE / "examples" / "milc-like-synthetic.sqlite"
FORMULAS = ("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1+1", "\r=1+1", "\n=1+1")
#: Command lines that say something about the recording, and how many names of others their table
#: holds at least.
ASKED = (
    (["{file}"], 0),
    (["inspect", "{file}"], 0),
    (["inspect", "{file}", "--minus", "{file}"], 0),
    (["project", "{file}", "--on", "nvlink-c2c"], 0),
    (["slack", "{file}", "--draws", "0"], 0),
    (["doctor", "{file}"], 0),
    (["transfers", "{file}"], 12),
    (["model", "functions", "{file}"], 4),
    (["model", "sharing", "{file}"], 0),
    (
        [
            "sweep",
            "{file}",
            "--model",
            "project",
            "--axis",
            "on=self",
            "--set",
            "draws=0",
            "--workers",
            "1",
        ],
        0,
    ),
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording whose kernels, device and file are named like formulas."""
    path = tmp_path_factory.mktemp("formulas") / "=1+1.sqlite"
    shutil.copy(EXAMPLE, path)
    path.chmod(0o600)
    with closing(sqlite3.connect(path)) as file, file:
        kernels = file.execute(
            "SELECT DISTINCT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY 1"
        ).fetchall()
        for (kernel,), formula in zip(kernels, FORMULAS, strict=False):
            file.execute("UPDATE StringIds SET value = ? || value WHERE id = ?", (formula, kernel))
        file.execute("UPDATE TARGET_INFO_GPU SET name = '=GPU()'")
    return path


def cells(text: str) -> list[str]:
    return [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]


def formula(cell: str) -> bool:
    return (
        cell[:1] in set("=+-@\t\r\n")
        and cell != ""
        and not re.fullmatch(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?", cell)
    )


@pytest.mark.parametrize(
    ("words", "names"), ASKED, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_no_verb_writes_a_formula(
    turnbuckle: Run, hostile: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], names: int
) -> None:
    # no interval is in a name
    monkeypatch.setattr(Recording, "project", partialmethod(Recording.project, draws=0))
    ran = turnbuckle(*(w.format(file=hostile) for w in words), "--format", "csv")
    assert ran.code == 0, ran.err
    assert not [cell for cell in cells(ran.out) if formula(cell)]
    assert sum(cell.startswith("'") and formula(cell[1:]) for cell in cells(ran.out)) >= names


def test_both_writers_agree_and_numbers_stay_numbers() -> None:
    texts = [*FORMULAS, "a=b", "", None, "-1.5", "+3e-4", "-", "'=1"]
    wanted = [*(f"'{text}" for text in FORMULAS), "a=b", "", None, "-1.5", "+3e-4", "'-", "'=1"]
    frame = pl.DataFrame(
        {"=name": texts, "-1": [-1.5] * len(texts), "kind": pl.Series(texts, dtype=pl.Categorical)}
    )
    for text in (of_frame(frame), of_rows(frame.rows(named=True))):
        heading, *rows = csv.reader(io.StringIO(text, newline=""))
        assert heading == ["'=name", "-1", "kind"]
        assert (
            [row[0] for row in rows] == [row[2] for row in rows] == [text or "" for text in wanted]
        )
        assert {row[1] for row in rows} == {"-1.5"}
    assert (
        of_frame(frame.select(pl.lit(1).alias("'=a"), pl.lit(2).alias("=a"))).splitlines()[0]
        == "'=a,'=a"
    )


def test_every_table_is_written_in_one_place() -> None:
    """A verb that writes CSV by itself would have to think of formulas by itself."""
    writers = {"write_csv", "sink_csv", "writer", "DictWriter", "to_csv", "savetxt"}
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        if any(f".{name}" in path.read_text(encoding="utf-8") for name in writers)
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in writers
    }
    assert found == {"foundation/csv_text.py"}
