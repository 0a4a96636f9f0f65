"""``turnbuckle model functions``, ``additive`` and ``integration``: every way to ask, every way to
print, and what is refused.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hostile_names import SAMPLE, SECRETS, Ran, document
from refusals import refused
from runs import run_of

import turnbuckle as tb
from turnbuckle.show.terminal.console import Terminal

Run = Callable[..., Ran]
TEN = ("--lambda", "data=10,control=10")
FIVE = """name, gpu [s], control [s], data [s], cpu [s], mpi [s], total [s]
Epsilon, 16.79, 22.10, 5.05, 6.54, 0.66, 50.5
Sigma, 12.48, 13.52, 0.90, 0.19, 0.12, 27.21
"""
AMREX = """name, launch share [%], uvm share [%], memcpy share [%]
PeleC, 0.03, 53.0, 0.02
WarpX, 29.40, 0.50, 1.11
"""
TWELVE = "name, communication [%], p2p [%], off node [%]\nCastro, 7.8, 36, 12\nMFIX, 75, 99, 29\n"


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(text)
    return path


# --- functions ------------------------------------------------------------------------------------


def test_functions_add_up(turnbuckle: Run) -> None:
    found = document(turnbuckle("model", "functions", SAMPLE, "--format", "json"))
    assert (
        found["exposed_closure_defect_ns"] == 0
        and sum(r["exposed_ns"] for r in found["functions"]) == found["run_time_ns"]
    )
    assert {
        "class",
        "call_class",
        "function",
        "time_ns",
        "waited_ns",
        "calls",
        "exposed_ns",
        "mean_seconds",
        "share",
    } <= set(found["functions"][0])
    inspected = document(turnbuckle("inspect", SAMPLE, "--format", "json"))["profile"]
    assert found["run_time_ns"] == inspected["run_time_ns"]
    kernels = [
        r for r in found["functions"] if r["class"] == "gpu" and not r["function"].startswith("[")
    ]
    assert sum(r["time_ns"] for r in kernels) == inspected["kernels"]["busy_ns"]
    assert sum(r["calls"] for r in kernels) == inspected["kernels"]["count"]
    assert found["closure_defect_ns"] < 0, "waits stand beside what they wait for"


def test_functions_in_every_format(turnbuckle: Run, tmp_path: Path) -> None:
    as_json = document(turnbuckle("model", "functions", SAMPLE, "--format", "json"))["functions"]
    rows = list(
        csv.DictReader(io.StringIO(turnbuckle("model", "functions", SAMPLE, "--format", "csv").out))
    )
    assert [r["function"] for r in rows] == [r["function"] for r in as_json]
    file = tmp_path / "f.parquet"
    assert turnbuckle("model", "functions", SAMPLE, "--format", "parquet", "-o", file).code == 0
    assert pl.read_parquet(file)["time_ns"].to_list() == [r["time_ns"] for r in as_json]


def test_the_table_shortens_and_the_files_do_not(turnbuckle: Run) -> None:
    short, long = (turnbuckle("model", "functions", SAMPLE, "--top", n).out for n in (1, 50))
    assert (
        "others" in short
        and "others" not in long
        and len(short.splitlines()) < len(long.splitlines())
    )
    for text in (short, long):
        assert (
            "closure defect" in text and "exposed" in text and "GPU" in text and "control" in text
        )


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_names_of_a_recording_are_harmless(turnbuckle: Run, hostile: Path, form: str) -> None:
    ran = turnbuckle("model", "functions", hostile, "--format", form)
    assert ran.code == 0
    assert not any(c in ran.out + ran.err for c in "\x1b\x07\x9b\u202e\r")
    assert not any(secret in ran.out for secret in SECRETS)
    assert form != "table" or "x" * 100 not in ran.out


def test_a_recording_of_nothing(turnbuckle: Run, tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    shutil.copy(SAMPLE, path)
    path.chmod(0o600)
    with closing(sqlite3.connect(path)) as file, file:
        names = [
            n
            for (n,) in file.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE "
                "'CUPTI_ACTIVITY%'"
            )
        ]
        for name in names:
            file.execute(f"DELETE FROM {name}")
    ran = turnbuckle("model", "functions", path)
    assert ran.code == 3 and "A155" in ran.err


# --- additive -------------------------------------------------------------------------------------


def test_five_numbers(turnbuckle: Run, tmp_path: Path) -> None:
    found = document(
        turnbuckle("model", "additive", table(tmp_path, FIVE), *TEN, "--format", "json")
    )
    epsilon, sigma = found["rows"]
    assert epsilon["closure_defect_seconds"] == pytest.approx(-0.64) and sigma[
        "closure_defect_seconds"
    ] == pytest.approx(0, abs=1e-12)
    assert epsilon["benefit"] == pytest.approx(1.915, rel=5e-6) and epsilon[
        "benefit_over_stated"
    ] == pytest.approx(1.93746, rel=5e-6)
    assert (epsilon["benefit_low"], epsilon["benefit_high"]) == pytest.approx(
        (51.145 / 26.719, 51.135 / 26.691)
    ), (
        "the least: control and data at their low ends, the rest at its high ends; the most: "
        "the other way round"
    )
    assert sigma["benefit"] == pytest.approx(1.91189, rel=5e-6)
    assert [(f["code"], f["count"]) for f in found["findings"]] == [("A341", 1)], (
        "Epsilon's terms exceed its total; Sigma's do not"
    )
    said = turnbuckle("model", "additive", table(tmp_path, FIVE), *TEN)
    assert (
        said.code == 0
        and "1.915x faster" in said.out
        and "A341" in said.out
        and "data 10x better" in said.out
    )


def test_units_and_terms_by_difference(turnbuckle: Run, tmp_path: Path) -> None:
    text = (
        "name, gpu [ms], control [ms], data [ms], mpi [ms], total [s], waits [ms]\n"
        "GTC-P, 33050, 83430, 21410, 24650, 121.63, 83430\n"
    )
    (row,) = document(
        turnbuckle(
            "model", "additive", table(tmp_path, text), "--lambda", "data=0.1", "--format", "json"
        )
    )["rows"]
    assert row["cpu_seconds"] == pytest.approx(42.52) and row["penalty"] == pytest.approx(
        2.58423, rel=5e-6
    )
    said = turnbuckle("model", "additive", table(tmp_path, text), "--lambda", "data=0.1")
    assert (
        "2.584x slower" in said.out
        and "waits have no lambda" in said.out
        and "A341" not in said.out
    )


def test_no_time_of_the_host_is_negative(turnbuckle: Run, tmp_path: Path) -> None:
    text = "gpu [s], control [s], data [s], mpi [s], total [s]\n10, 10, 1, 0, 15\n"
    found = document(
        turnbuckle("model", "additive", table(tmp_path, text), *TEN, "--format", "json")
    )
    (row,) = found["rows"]
    assert (
        row["cpu_seconds"] == 0
        and row["closure_defect_seconds"] == -6
        and row["benefit"] == pytest.approx(21 / 11.1)
    )
    assert [f["code"] for f in found["findings"]] == ["A341"]


def test_digits_of_short_times_have_an_interval(turnbuckle: Run, tmp_path: Path) -> None:
    text = "gpu [s], control [s], data [s], cpu [s], mpi [s]\n1e-14, 0, 1e-13, 0, 0\n"
    (row,) = document(
        turnbuckle(
            "model", "additive", table(tmp_path, text), "--lambda", "data=10", "--format", "json"
        )
    )["rows"]
    assert (row["benefit_low"], row["benefit"], row["benefit_high"]) == pytest.approx(
        (65 / 20, 110 / 20, 155 / 20)
    )


def test_a_table_has_no_machine(turnbuckle: Run, tmp_path: Path) -> None:
    ran = turnbuckle("model", "additive", table(tmp_path, FIVE), *TEN, "--source", "summit")
    assert ran.code == 2 and "error[A039]" in ran.err


def test_shares_of_run_time(turnbuckle: Run, tmp_path: Path) -> None:
    worse = document(
        turnbuckle(
            "model",
            "additive",
            table(tmp_path, AMREX),
            "--lambda",
            "data=0.1,launch=0.1",
            "--format",
            "json",
        )
    )
    assert [r["penalty"] for r in worse["rows"]] == pytest.approx([5.7745, 3.7909])
    assert worse["rows"][0]["penalty_low"] == pytest.approx(5.7691) and worse["rows"][0][
        "penalty_high"
    ] == pytest.approx(5.7799)
    better = turnbuckle("model", "additive", table(tmp_path, AMREX), "--lambda", "control=10")
    assert "1.360x faster" in better.out, "launches are control, WarpX in Table 2"


def test_a_recording_in_four_readings(turnbuckle: Run) -> None:
    found = document(turnbuckle("model", "additive", SAMPLE, *TEN, "--format", "json"))
    report, once, ours, replayed = found["rows"]
    preset = document(
        turnbuckle("project", SAMPLE, "--on", "ecp-integrated-10x", "--format", "json")
    )
    assert (
        replayed["benefit"] == pytest.approx(preset["projections"][0]["benefit"])
        and replayed["gpu_seconds"] is None
    )
    assert (
        replayed["benefit"] < ours["benefit"] < report["benefit"]
        and 0 < found["longest_allocation_seconds"] < report["stated_seconds"]
    )
    line = document(turnbuckle("project", SAMPLE, "--model", "additive", *TEN, "--format", "json"))
    for answer in (found, preset, line):
        assert "A304" in {
            f["code"]
            for part in (answer, *answer.get("projections", ()))
            for f in part.get("findings", ())
        }
    asked = ("model", "additive", SAMPLE, "--format", "json", "--lambda")
    assert [r["name"] for r in document(turnbuckle(*asked, "data=10,launch=10"))["rows"]] == [
        "as the report",
        "waits once",
        "time line",
    ]
    worse = document(turnbuckle(*asked, "data=0.1,control=0.1"))["rows"][3]
    far = document(
        turnbuckle("project", SAMPLE, "--on", "ecp-disaggregated-10x", "--format", "json")
    )["projections"][0]
    assert worse["penalty"] == pytest.approx(far["penalty"]), "tenfold is tenfold both ways"
    asked = document(
        turnbuckle("project", SAMPLE, "--model", "additive", *TEN, "--format", "json")
    )["projections"][0]
    assert ours["projected_seconds"] == asked["seconds"] and ours["penalty"] == asked["penalty"], (
        "the same answer as project"
    )
    assert (
        ours["closure_defect_seconds"] == 0 and ours["summed_seconds"] == asked["measured_seconds"]
    )
    assert (
        report["control_seconds"] > once["control_seconds"] and report["benefit"] > once["benefit"]
    ), "the report scales waits"
    said = turnbuckle("model", "additive", SAMPLE, *TEN)
    assert said.code == 0 and "waits once" in said.out and "time line" in said.out
    assert (
        "as turnbuckle project --on ecp-integrated-10x" in " ".join(said.out.split())
        and "the first sets up the context" in said.out
    )
    rows = list(
        csv.DictReader(
            io.StringIO(turnbuckle("model", "additive", SAMPLE, *TEN, "--format", "csv").out)
        )
    )
    assert [r["name"] for r in rows] == [r["name"] for r in found["rows"]]


@pytest.mark.parametrize(
    ("code", "text", "lambdas"),
    [
        ("A005", FIVE, None),
        ("A004", FIVE, "data=x"),
        ("A004", FIVE, "data=-1"),
        ("A004", FIVE, "data=nan"),
        ("A004", FIVE, "sync=2"),
        ("A004", FIVE, "weather=2"),
        ("A039", FIVE, "launch=2"),
        ("A039", AMREX, "kernel=2"),
        ("A004", FIVE, "data=1e-300"),
        ("A004", FIVE, "data=1001"),
        ("A039", FIVE.splitlines()[0] + "\n", "data=2"),
        ("A039", "name\nA\n", "data=2"),
        ("A039", "gpu [s], data share [%]\n1, 2\n", "data=2"),
        ("A039", "launch share [%], data share [%]\n60, 50\n", "data=2"),
        ("A039", "gpu [s], control [s], data [s], mpi [s]\n1, 1, 1, 1\n", "data=2"),
        ("A039", "gpu [s], control [s], data [s], cpu [s], mpi [s]\n1, 1, 1, , 1\n", "data=2"),
        (
            "A039",
            "gpu [s], control [s], data [s], cpu [s], mpi [s], waits [s]\n1, 1, 1, 1, 1, 2\n",
            "data=2",
        ),
        ("A062", "gpu [s], colour\n1, red\n", "data=2"),
        ("A063", "gpu [s], control [s], data [s], cpu [s], mpi [s]\n1, -1, 1, 1, 1\n", "data=2"),
        (
            "A063",
            "gpu [s], control [s], data [s], cpu [s], mpi [s]\n1e25, 1e25, 1e25, 1, 1\n",
            "data=2",
        ),
        (
            "U005",
            "gpu [s], control [s], data [s], cpu [s], mpi [s]\n1e308, 1e308, 1e308, 1, 1\n",
            "data=2",
        ),
        ("U001", "gpu, control [s], data [s], cpu [s], mpi [s]\n1, 1, 1, 1, 1\n", "data=2"),
        ("U004", "gpu [s], control [s], data [s], cpu [s], mpi [s]\nnan, 1, 1, 1, 1\n", "data=2"),
    ],
)
def test_tables_that_are_refused(
    turnbuckle: Run, tmp_path: Path, code: str, text: str, lambdas: str | None
) -> None:
    ran = turnbuckle(
        "model",
        "additive",
        table(tmp_path, text),
        *(() if lambdas is None else ("--lambda", lambdas)),
    )
    assert ran.code == 2 and f"error[{code}]" in ran.err and not ran.out


def test_files_that_are_no_tables(turnbuckle: Run, tmp_path: Path) -> None:
    (tmp_path / "binary.csv").write_bytes(SAMPLE.read_bytes()[:4096])
    for name, code in (("binary.csv", "A061"), ("missing.csv", "A061"), ("missing.sqlite", "P0")):
        ran = turnbuckle("model", "additive", tmp_path / name, *TEN)
        assert ran.code == 2 and code in ran.err
    ran = turnbuckle("model", "additive", table(tmp_path, FIVE), *TEN, "-o", "x.txt")
    assert ran.code == 2 and "A010" in ran.err


# --- integration ----------------------------------------------------------------------------------

CASTRO = ("--communication", "7.8%", "--p2p", "36%", "--off-node", "12%")


def test_shares_of_the_command_line(turnbuckle: Run) -> None:
    (row,) = document(
        turnbuckle(
            "model", "integration", *CASTRO, "--bandwidth-ratio", "8.333333333", "--format", "json"
        )
    )["rows"]
    assert row["speedup"] == pytest.approx(1.00297, rel=5e-6)
    assert (row["speedup_low"], row["speedup_high"]) == pytest.approx(
        (1.0027920, 1.0031617), abs=1e-6
    ), "R.T12.Castro, lo and hi"
    assert row["speedup"] < row["speedup_bound"] == pytest.approx(1 / (1 - 0.078 * 0.36 * 0.12))
    assert "1.003x" in turnbuckle("model", "integration", *CASTRO, "--bandwidth-ratio", 8.33).out


def test_a_table_of_applications(turnbuckle: Run, tmp_path: Path) -> None:
    path = table(tmp_path, TWELVE)
    rows = document(
        turnbuckle(
            "model", "integration", path, "--bandwidth-ratio", "8.333333333", "--format", "json"
        )
    )["rows"]
    assert [r["speedup"] for r in rows] == pytest.approx([1.00297, 1.23378], rel=5e-6)
    own = table(
        tmp_path,
        TWELVE.replace("]\n", "], bandwidth ratio\n")
        .replace("12\n", "12, 2\n")
        .replace("29\n", "29,\n"),
    )
    two = document(
        turnbuckle("model", "integration", own, "--bandwidth-ratio", 4, "--format", "json")
    )["rows"]
    assert [r["bandwidth_ratio"] for r in two] == [2, 4], "the row's own before the option"
    assert "error[A035]" in turnbuckle("model", "integration", own).err


@pytest.mark.shared
def test_a_recording_that_tells_the_nodes_of_its_ranks_is_not_asked_for_them(
    turnbuckle: Run, shared: Path
) -> None:
    archive = shared / "traces" / "otf2" / "stencil4d_32rank" / "traces.otf2"
    asked = (
        "model",
        "integration",
        archive,
        "--bandwidth-ratio",
        4,
        "--gpus-per-node",
        32,
        "--format",
        "json",
    )
    told = document(turnbuckle(*asked))
    assert (told["placement"]["ranks_per_node"], told["placement"]["mapping"]) == (
        16,
        "round robin",
    )
    given = document(turnbuckle(*asked, "--ranks-per-node", 16, "--mapping", "round robin"))
    assert given["placement"] == told["placement"] and given["fractions"] == told["fractions"]
    linear = document(turnbuckle(*asked, "--mapping", "linear"))
    assert (linear["placement"]["ranks_per_node"], linear["placement"]["mapping"]) == (
        16,
        "linear",
    ), "what is asked stands before what is recorded"


def test_latencies_of_the_path(turnbuckle: Run) -> None:
    paths = ("--old-path", "2 us, 24 GB/s", "--new-path", "1 us, 200 GB/s")
    small, large = (
        document(
            turnbuckle(
                "model", "integration", *CASTRO, *paths, "--message-size", size, "--format", "json"
            )
        )["rows"][0]["bandwidth_ratio"]
        for size in ("8 B", "1 GB")
    )
    assert small == pytest.approx(2, rel=1e-3) and large == pytest.approx(200 / 24, rel=1e-3)


def test_stages(turnbuckle: Run) -> None:
    ran = turnbuckle(
        "model",
        "integration",
        "--stages",
        "5.8%:3/4,1.4%:1/1",
        "--on-node-factor",
        2,
        "--format",
        "json",
    )
    found = document(ran)["stages"]
    assert found["run_time_share"] == pytest.approx(0.97125) and found["gain"] == pytest.approx(
        0.029601, rel=1e-4
    )
    assert found["gain_all_on_node"] == pytest.approx(0.00752075, rel=1e-5)
    said = turnbuckle(
        "model",
        "integration",
        "--stages",
        "5.8%:3/4",
        "--stages",
        "1.4%:1/1",
        "--on-node-factor",
        2,
    )
    assert "97.125%" in said.out and "3 of 4" in said.out


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("A035", ()),
        ("A035", CASTRO),
        ("A035", ("--bandwidth-ratio", "8")),
        ("A035", (*CASTRO, "--bandwidth-ratio", "8", "--ranks-per-node", "2")),
        ("A035", (*CASTRO, "--bandwidth-ratio", "8", "--message-size", "8 B")),
        ("A035", (*CASTRO, "--bandwidth-ratio", "8", "--mapping", "round robin")),
        ("A035", (*CASTRO, "--bandwidth-ratio", "8", "--least-size", "1 MB")),
        ("A035", (*CASTRO, "--old-path", "2 us, 24 GB/s")),
        ("A035", (*CASTRO, "--old-path", "2 us, 24 GB/s", "--new-path", "1 us, 200 GB/s")),
        ("A035", ("--stages", "5%:1/2")),
        (
            "A035",
            (*CASTRO, "--bandwidth-ratio", "8", "--stages", "5%:1/2", "--on-node-factor", "2"),
        ),
        (
            "A036",
            (
                "--communication",
                "36",
                "--p2p",
                "36%",
                "--off-node",
                "12%",
                "--bandwidth-ratio",
                "8",
            ),
        ),
        (
            "A036",
            ("--communication=-1%", "--p2p", "36%", "--off-node", "12%", "--bandwidth-ratio", "8"),
        ),
        ("A036", ("--stages", "60%:1/2,50%:1/1", "--on-node-factor", "2")),
        ("A037", (*CASTRO, "--bandwidth-ratio", "0")),
        ("A037", (*CASTRO, "--bandwidth-ratio", "nan")),
        ("A037", (*CASTRO, "--bandwidth-ratio", "1e308")),
        ("A037", ("--stages", "5%:1/2", "--on-node-factor", "1e300")),
        (
            "A037",
            (
                *CASTRO,
                "--old-path",
                "2 us",
                "--new-path",
                "1 us, 200 GB/s",
                "--message-size",
                "8 B",
            ),
        ),
        (
            "A037",
            (
                *CASTRO,
                "--old-path",
                "2 us, 0 B/s",
                "--new-path",
                "1 us, 200 GB/s",
                "--message-size",
                "8 B",
            ),
        ),
        (
            "A037",
            (
                *CASTRO,
                "--old-path",
                "2 us, 1 GB/s",
                "--new-path",
                "1 us, 200 GB/s",
                "--message-size",
                "0 B",
            ),
        ),
        ("A038", ("--stages", "5%", "--on-node-factor", "2")),
        ("A038", ("--stages", "5%:3/2", "--on-node-factor", "2")),
        ("A038", ("--stages", "5%:0/0", "--on-node-factor", "2")),
        ("A038", ("--stages", ",", "--on-node-factor", "2")),
        (
            "U004",
            (
                "--communication",
                "much",
                "--p2p",
                "36%",
                "--off-node",
                "12%",
                "--bandwidth-ratio",
                "8",
            ),
        ),
        ("A035", (SAMPLE, "--bandwidth-ratio", "8")),
        ("A035", (SAMPLE, "--ranks-per-node", "2", "--p2p", "3%", "--bandwidth-ratio", "8")),
        ("A035", (SAMPLE, "--ranks-per-node", "2")),
        ("A037", (SAMPLE, "--ranks-per-node", "0", "--bandwidth-ratio", "8")),
        ("A037", (SAMPLE, "--ranks-per-node", str(1 << 63), "--bandwidth-ratio", "8")),
    ],
)
def test_questions_that_are_refused(turnbuckle: Run, code: str, words: tuple[str, ...]) -> None:
    ran = turnbuckle("model", "integration", *words)
    assert ran.code == 2 and f"error[{code}]" in ran.err, ran.err
    assert not ran.out


def test_whole_shares_stay_shares(turnbuckle: Run) -> None:
    whole = (
        "--communication",
        "100%",
        "--p2p",
        "100%",
        "--off-node",
        "100%",
        "--bandwidth-ratio",
        "1e9",
    )
    ran = turnbuckle("model", "integration", *whole, "--format", "json")
    (row,) = document(ran)["rows"]
    assert (
        1 < row["speedup_low"] <= row["speedup"] == row["speedup_high"] == pytest.approx(1e9)
        and not ran.err
    )
    stages = document(
        turnbuckle(
            "model",
            "integration",
            "--stages",
            "60%:1/1,40%:1/1",
            "--on-node-factor",
            "1e9",
            "--format",
            "json",
        )
    )
    assert (
        0
        <= stages["stages"]["run_time_share_low"]
        <= stages["stages"]["run_time_share"]
        == pytest.approx(1e-9)
    )


def test_a_table_without_applications(turnbuckle: Run, tmp_path: Path) -> None:
    ran = turnbuckle(
        "model",
        "integration",
        table(tmp_path, TWELVE.splitlines()[0] + "\n"),
        "--bandwidth-ratio",
        8,
    )
    assert ran.code == 2 and "error[A039]" in ran.err


def test_a_recording_without_mpi(turnbuckle: Run) -> None:
    ran = turnbuckle("model", "integration", SAMPLE, "--ranks-per-node", 2, "--bandwidth-ratio", 8)
    assert ran.code == 3 and "A153" in ran.err


def test_top_must_be_a_number_of_functions(turnbuckle: Run) -> None:
    assert "A037" in turnbuckle("model", "functions", SAMPLE, "--top", 0).err


@pytest.mark.shared
def test_an_mpi_recording(turnbuckle: Run, shared: Path) -> None:
    path = shared / "traces/nsys-local/halo-py-4r.sqlite"
    run = run_of(path)
    asked: dict[str, Any] = {"ranks_per_node": 2, "bandwidth_ratio": 8.33, "on_node_factor": 2.0}
    answer = tb.model.integration(run, **asked)
    found = answer.as_dict()
    assert (
        found["communication"]["messages"] == 1600
        and found["communication"]["message_bytes"] == 1600 * 2048
    )
    assert (
        found["bytes_from"] == "recording"
        and found["stages"]["gain_of_bytes"] < 0.01 < found["stages"]["gain"]
    )
    assert (
        found["fractions"]["off_node_share"] == 0.5
        and 1 < found["fractions"]["speedup"] < found["fractions"]["speedup_bound"]
    )
    assert 0 < found["stages"]["run_time_share_all_on_node"] < found["stages"]["run_time_share"] < 1
    assert str(path.parent) not in json.dumps(found)
    assert answer.table()["fractions.speedup"].to_list() == [found["fractions"]["speedup"]]
    said = turnbuckle(
        "model",
        "integration",
        path,
        "--ranks-per-node",
        2,
        "--bandwidth-ratio",
        8.33,
        "--on-node-factor",
        2,
    )
    assert (
        said.code == 0
        and "MPI_Waitall" in said.out
        and "leave the node now" in said.out
        and "all on one node" in said.out
    )
    half: dict[str, Any] = {"ranks_per_node": 2, "bandwidth_ratio": 8.0, "off_node": "50%"}
    assert tb.model.integration(run, **half)["fractions"]
    # nobody says which part of it stays
    refused("A035", tb.model.integration, run, **half, gpus_per_node=2)
    large = tb.model.integration(run, **asked, least_size="1 GB")
    assert large["placement"]["least_size_bytes"] == 1e9 and large["fractions"]["speedup"] == 1
    text = io.StringIO()
    large.view(Terminal(file=text, width=200))
    tb.model.integration(
        run, ranks_per_node=2, old_path="2 us,12 GB/s", new_path="1 us,150 GB/s"
    ).view(Terminal(file=text, width=200))
    assert "1 GB or more" in text.getvalue() and "faster, by their bytes" in text.getvalue()
