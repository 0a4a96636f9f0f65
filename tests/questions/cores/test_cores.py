"""``turnbuckle cores``: the answer in one sentence, every format, charts, recordings, and what is
refused.
"""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from hostile_names import SAMPLE, SECRETS, Ran, document

Run = Callable[..., Ran]
EVIL = "\x1b]0;owned\x07[bold]x[/bold][/]\u202e<img src=x onerror=alert(1)>"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """GTC-P's total by Table 6, with repeats that differ."""
    path = tmp_path / "runs.csv"
    lines = ["cores,run time [s],repeat"]
    for n in (1, 2, 3, 4, 6, 8):
        for repeat, off in enumerate((0.998, 1.0, 1.002), 1):
            lines.append(f"{n},{(121.89 + 137.99 * math.exp(-0.766 * n)) * off:.4f},{repeat}")
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Two programs, ranks and threads varied."""
    path = tmp_path / "two.csv"
    lines = ["program,ranks per gpu,threads,run time [s],mpi time [s]"]
    for name, c in (("solver", (100, 20, 10, 40)), (EVIL, (50, 5, 20, 5))):
        for n in (1, 2, 4):
            for m in (1, 2, 4, 8):
                off = 1 + 0.002 * math.sin(7 * n + 3 * m)
                lines.append(
                    f"{name},{n},{m},{(c[0] + c[1] / n + c[2] / m + c[3] / n / m) * off + 5:.4f},5"
                )
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


# --- answers --------------------------------------------------------------------------------------


def test_the_sentence_comes_first(turnbuckle: Run, table: Path) -> None:
    ran = turnbuckle("cores", table)
    assert (ran.code, ran.err) == (0, "")
    first = ran.out.splitlines()[0]
    assert first.startswith("3.03 (3.0") and first.endswith(
        "cores per GPU for 90 %; with 3 cores 89.8 %, with 4 cores 95 %"
    )
    for words in (
        "18 runs, 12 of them repeats, 1 to 8 cores per GPU",
        "exponential has the lowest AICc",
        "measured",
        "by the law",
        "RMS",
        "alpha",
    ):
        assert words in ran.out, words


def test_the_contract(turnbuckle: Run, table: Path) -> None:
    found = document(turnbuckle("cores", table, "--format", "json", "--efficiency", "0.9"))
    assert found["schema_version"] and found["provenance"]["command"].startswith(
        "turnbuckle cores runs.csv"
    )
    assert str(table.parent) not in json.dumps(found)
    (program,) = found["programs"]
    assert program["cores_per_gpu"] == pytest.approx(3.03, abs=0.05)
    assert program["interval"][0] < program["cores_per_gpu"] < program["interval"][1]
    assert (program["law"], program["program"], program["whole"]["cores_per_gpu"]) == (
        "exponential",
        None,
        4.0,
    )
    assert program["laws"][0]["law"] == "exponential"
    assert all(
        {"aicc", "rms_fraction", "parameters", "interval"} <= set(law) for law in program["laws"]
    )


def test_flat_formats_hold_the_counts(turnbuckle: Run, two: Path, tmp_path: Path) -> None:
    counts = [
        n
        for p in document(turnbuckle("cores", two, "--format", "json"))["programs"]
        for n in p["counts"]
    ]
    for form, read in (("csv", pl.read_csv), ("parquet", pl.read_parquet)):
        file = tmp_path / f"out.{form}"
        assert turnbuckle("cores", two, "--format", form, "-o", file) == Ran(0, "", "")
        frame = read(file)
        assert frame["efficiency"].to_list() == pytest.approx([n["efficiency"] for n in counts])
        assert {
            "program",
            "cores_per_gpu",
            "ranks_per_gpu",
            "threads",
            "seconds",
            "measured_seconds",
        } <= set(frame.columns)
    assert turnbuckle("cores", two, "--format", "csv").out == (tmp_path / "out.csv").read_text(
        encoding="utf-8"
    )


def test_several_programs_and_what_serves_them_all(turnbuckle: Run, two: Path) -> None:
    out = turnbuckle("cores", two, "--efficiency", "85%").out
    assert out.startswith("solver: ") and "all 2: " in out
    assert (
        "hybrid MPI x OpenMP (eq 5)" in out and "sharing a GPU pays up to" in out and "4 x 2" in out
    )


@pytest.mark.parametrize("law", ["hybrid", "exponential", "usl"])
def test_a_law_can_be_asked_for(turnbuckle: Run, table: Path, law: str) -> None:
    assert (
        document(turnbuckle("cores", table, "--law", law, "--format", "json"))["programs"][0]["law"]
        == law
    )


def test_a_seed_gives_the_same_bytes(turnbuckle: Run, table: Path) -> None:
    one, again, other = (turnbuckle("cores", table, "--seed", seed).out for seed in (1, 1, 2))
    assert one == again != other


def test_throughput_alone_answers_for_ranks(turnbuckle: Run, tmp_path: Path) -> None:
    path = tmp_path / "shared.csv"
    path.write_text("ranks,throughput\n1,203.198\n2,256.53\n", encoding="utf-8")
    out = turnbuckle("cores", path).out
    assert out.startswith(
        "sharing a GPU pays up to 2 ranks, the most measured: 26.2 % faster than with 1 "
        "(single runs, no range)"
    )
    assert "256.5" in out and "no law: hybrid needs" in " ".join(out.split())
    assert (
        "what this node reaches is not known: no law"
        in turnbuckle("cores", path, "--node", "64:4").out
    )
    for form in ("csv", "parquet"):
        ran = turnbuckle("cores", path, "--format", form)
        assert (ran.code, ran.out) == (3, "") and "A150" in ran.err and "--format json" in ran.err


def test_tables_without_programs_are_told_apart_by_file(
    turnbuckle: Run, table: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.csv"
    shutil.copy(table, other)
    out = turnbuckle("cores", table, other).out
    assert out.startswith("runs.csv: 3.0") and "\nother.csv: 3.0" in out
    assert "all 2: 4 cores per GPU for 90 % (runs.csv)\n" in out
    assert turnbuckle("cores", table).out.startswith("3.0")


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_no_line_is_wider_than_the_terminal(
    turnbuckle: Run, monkeypatch: pytest.MonkeyPatch, two: Path, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    ran = turnbuckle("cores", two)
    assert ran.code == 0 and "…" not in ran.out
    assert max(len(line) for line in ran.out.splitlines()) <= int(columns)


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_names_are_harmless(turnbuckle: Run, two: Path, tmp_path: Path, form: str) -> None:
    charts = tmp_path / "charts"
    charts.mkdir()
    ran = turnbuckle(
        "cores", two, "--format", form, *(["--charts", charts] if form == "table" else [])
    )
    assert ran.code == 0 and bool([*charts.iterdir()]) == (form == "table")
    texts = [ran.out, ran.err, *(f.read_text(encoding="utf-8") for f in charts.iterdir())]
    assert not any(c in text for c in "\x1b\x07\u202e" for text in texts)
    assert all(f.name.replace("-", "").replace(".", "").isalnum() for f in charts.iterdir())


# --- charts ---------------------------------------------------------------------------------------


def test_charts(turnbuckle: Run, two: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "charts"
    assert turnbuckle("cores", two, "--charts", folder).code == 0
    drawings = sorted(f.name for f in folder.glob("*.svg"))
    assert len(drawings) == 4 and drawings[0] == "cores-1-solver.svg"
    for file in folder.glob("*.svg"):
        root = ElementTree.fromstring(file.read_text(encoding="utf-8"))
        assert root.tag == "{http://www.w3.org/2000/svg}svg", (
            "a file of its own, which a browser draws"
        )
        assert root.get("aria-label")
        rows = pl.read_csv(file.with_suffix(".csv"))
        assert rows.height > 4
    measured = pl.read_csv(folder / "cores-1-solver.csv").filter(pl.col("what") == "measured")
    assert measured.height == 12


def test_a_chart_draws_what_the_table_says(turnbuckle: Run, table: Path, tmp_path: Path) -> None:
    turnbuckle("cores", table, "--node", "40:4", "--charts", tmp_path / "c")
    text = (tmp_path / "c" / "cores.svg").read_text(encoding="utf-8")
    assert (
        "cores for 90 %" in text
        and "lowest AICc" in text
        and "90 % efficiency" in text
        and "this node: 10" in text
    )
    assert text.count("CPU cores per GPU<") == 2, "said once above the figure and once at its axis"
    rows = pl.read_csv(tmp_path / "c" / "cores.csv")
    assert set(rows["what"]) == {"measured", "exponential", "hybrid", "usl", "floor"}


def test_charts_that_cannot_be_written(turnbuckle: Run, table: Path) -> None:
    ran = turnbuckle("cores", table, "--charts", table)
    assert ran.code == 2 and "R004" in ran.err
    other = table.with_name("other.csv")
    other.touch()
    assert "R001" in turnbuckle("cores", table, "--charts", other).err


# --- recordings -----------------------------------------------------------------------------------


def test_recordings_with_their_cores(turnbuckle: Run, tmp_path: Path) -> None:
    """Copies of one recording: the run time does not depend on the cores, so one core is enough."""
    files = [tmp_path / f"run{n}.sqlite" for n in (1, 2, 4, 8, 16)]
    for file in files:
        shutil.copy(SAMPLE, file)
    found = document(turnbuckle("cores", *files, "--at", "1,2,4,8,16", "--format", "json"))[
        "programs"
    ][0]
    assert found["whole"]["cores_per_gpu"] == 1.0 and found["measured_cores_per_gpu"] == [1.0, 16.0]
    assert found["runs"] == 5


def test_a_recording_without_ranks(turnbuckle: Run, tmp_path: Path) -> None:
    file = tmp_path / "run.sqlite"
    shutil.copy(SAMPLE, file)
    file.chmod(0o600)
    with closing(sqlite3.connect(file)) as sql, sql:
        for (name,) in sql.execute(
            "SELECT name FROM sqlite_master WHERE name LIKE 'MPI%'"
        ).fetchall():
            sql.execute(f'DROP TABLE "{name}"')
    ran = turnbuckle("cores", file)
    assert (ran.code, ran.out) == (3, "") and "A208" in ran.err and "--at" in ran.err


def test_one_recording_is_too_few(turnbuckle: Run) -> None:
    ran = turnbuckle("cores", SAMPLE, "--at", "4")
    assert (ran.code, ran.out) == (3, "") and "A150" in ran.err and "hybrid needs" in ran.err


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--efficiency", "1.5"], 2, "A031"),
        (["--efficiency", "5%"], 2, "A031"),
        (["--efficiency", "much"], 2, "U004"),
        (["--worth", "-1"], 2, "A031"),
        (["--draws", "3"], 2, "A031"),
        (["--seed", "-1"], 2, "A031"),
        (["--node", "64"], 2, "A031"),
        (["--node", "64:0"], 2, "A031"),
        (["--node", "a:b"], 2, "A031"),
        (["--node", "20:4"], 0, "this node's 5 cores per GPU give 97.6 %: enough for 90 %"),
        (["--law", "amdahl"], 2, "law"),
        (["--at", "1,2"], 2, "A032"),
        (["-o", "out.txt"], 2, "A010"),
        (["--efficiency", "0.999"], 0, "99.9 %"),
    ],
)
def test_usage(turnbuckle: Run, table: Path, words: list[str], code: int, says: str) -> None:
    ran = turnbuckle("cores", table, *words)
    assert ran.code == code and says in ran.out + ran.err
    assert code == 0 or ran.out == ""


@pytest.mark.parametrize("at", ["1,b", "", "1.5", "4,8", "0", "9" * 400])
def test_core_counts_that_cannot_be(turnbuckle: Run, at: str) -> None:
    ran = turnbuckle("cores", SAMPLE, "--at", at)
    assert (ran.code, ran.out) == (2, "") and "A032" in ran.err


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("cores,run time [s]\n1,10\n2,6\n4,4\n", 3, "A150"),
        (
            "cores,run time [s]\n" + "".join(f"{n},{100 / n + 0.5}\n" for n in (1, 2, 3, 4, 6, 8)),
            3,
            "A151",
        ),
        ("cores,run time [s]\n" + "4,10\n4,10.1\n" * 4, 3, "A150"),
        ("cores,run time\n1,10\n", 2, "U001"),
        ("nodes,run time [s]\n1,10\n", 2, "A062"),
        ("cores,run time [s]\n1,-3\n", 2, "A063"),
        ("run time [s]\n3\n", 2, "A030"),
        ("cores,run time [s],repeat\n1,3,1\n1,3,1\n", 2, "A034"),
        (
            "cores,run time [s]\n" + "".join(f"{n},{1 + 5 / n}e25\n" for n in (1, 2, 3, 4, 6, 8)),
            2,
            "A063",
        ),
        (
            "cores,run time [s]\n" + "".join(f"{n},{1 + 5 / n}e300\n" for n in (1, 2, 3, 4, 6, 8)),
            2,
            "U005",
        ),
        ("cores,throughput\n" + "".join(f"{n},{n}e-320\n" for n in (1, 2, 3, 4, 6, 8)), 2, "A063"),
        ("cores,run time [s]\n1000000,1\n", 2, "A030"),
        (
            "ranks,threads,run time [s]\n"
            + "".join(f"{n},{8 // n},{10 + n}\n" * 3 for n in (1, 2, 4, 8)),
            3,
            "12 runs of 1 core count;",
        ),
        (
            "program,cores,run time [s]\n"
            + "".join(f"gtcp,{n},{100 / n + 0.5}\n" for n in (1, 2, 3, 4, 6, 8)),
            3,
            "--> gtcp",
        ),
    ],
)
def test_tables_that_cannot_be(
    turnbuckle: Run, tmp_path: Path, text: str, code: int, says: str
) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(text, encoding="utf-8")
    ran = turnbuckle("cores", path)
    assert (ran.code, ran.out) == (code, "") and says in ran.err


def test_files_that_cannot_be(turnbuckle: Run, tmp_path: Path) -> None:
    (tmp_path / "binary.csv").write_bytes(bytes(range(256)))
    for file, says in (("missing.csv", "A061"), ("binary.csv", "A061"), ("missing.sqlite", "P001")):
        ran = turnbuckle("cores", tmp_path / file)
        assert (ran.code, ran.out) == (2, "") and says in ran.err


def test_extrapolation_is_asked_for(turnbuckle: Run, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(
        "cores,run time [s]\n" + "".join(f"{n},{100 / n + 10}\n" for n in (1, 2, 3, 4, 6, 8)),
        encoding="utf-8",
    )
    assert "--extrapolate" in turnbuckle("cores", path).err
    ran = turnbuckle("cores", path, "--extrapolate")
    assert (
        ran.code == 0
        and ran.out.startswith("90.0 (90.0 to 90.0) cores per GPU")
        and "A337" in ran.out
    )


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_plain_terminals(encoded: Run, encoding: str, table: Path) -> None:
    ran = encoded(encoding, "cores", table)
    assert ran.code == 0 and "\x1b" not in ran.out and ran.err == "" and "?" not in ran.out
    assert not any(secret in ran.out for secret in SECRETS)


def test_help(turnbuckle: Run) -> None:
    out = turnbuckle("cores", "--help").out
    assert all(
        word in out
        for word in (
            "--efficiency",
            "--law",
            "--at",
            "--worth",
            "--extrapolate",
            "--charts",
            "--format",
        )
    )
