"""``turnbuckle validate`` on the command line: tables and JSON, the shipped card, gates, and what
it refuses.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import Ran, document

from turnbuckle.examples import sample

Run = Callable[..., Ran]
CURVE = "direction, memory, size [B], time [us]\n" + "".join(
    f"h2d, pinned, {n}, {2 + n / 25e3}\n" for n in (1, 100, 10_000, 1_000_000, 100_000_000)
)
CASE = (
    'title = "a curve"\nwhy = "it is not"\n[a]\nfile = "{a}"\n[b]\nfile = "./b.csv"\n[[ask]]\n'
    'model = "line"\ndirection = "h2d"\n'
)


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """A folder of three cases: one that runs (a fifth off), one whose data are elsewhere, one that
    waits.
    """
    folder = tmp_path / "validation" / "cases"
    for name, text in (
        ("runs", CASE.format(a="./a.csv")),
        ("elsewhere", CASE.format(a="far/a.csv")),
        ("waits", 'title = "later"\nwaits = "a GPU"\n'),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "case.toml").write_text(text, encoding="utf-8")
        (folder / name / "a.csv").write_text(CURVE, encoding="utf-8")
        (folder / name / "b.csv").write_text(CURVE.replace("4002.0", "5002.5"), encoding="utf-8")
    return folder


def test_all_cases_of_the_folder_one_table_and_the_card(turnbuckle: Run, cases: Path) -> None:
    ran = turnbuckle("validate")
    assert ran.code == 0, ran.err
    for text in (
        "runs",
        "line fitted to A",
        "19.8%",
        "NO",
        "A360",
        "far/a.csv not there",
        "A361",
        "waits for a GPU",
        "of 1 stated 90 %",
        "not validated",
    ):
        assert text in ran.out, text


def test_data_that_are_there_make_a_case_run(turnbuckle: Run, cases: Path, tmp_path: Path) -> None:
    (tmp_path / "data" / "far").mkdir(parents=True)
    (tmp_path / "data" / "far" / "a.csv").write_text(CURVE, encoding="utf-8")
    told = json.loads(
        turnbuckle("validate", "elsewhere", "--data", tmp_path / "data", "--format", "json").out
    )
    assert {r["case"] for r in told["rows"]} == {"elsewhere"} and not told["not_run"]
    assert told["provenance"]["tool"] == "turnbuckle" and str(tmp_path) not in json.dumps(told)


def test_json_and_csv_hold_the_same(turnbuckle: Run, cases: Path, tmp_path: Path) -> None:
    told = json.loads(turnbuckle("validate", "runs", "--format", "json").out)
    one, mean = told["rows"]
    assert mean["model"] == "mean" and mean["covered"] is None and mean["low"] is None
    assert told["schema_version"] == 2 and told["level"] == 0.9 and one["covered"] is False
    assert told["card"][0]["coverage"] == 0.0 and told["card"][0]["high"] == pytest.approx(0.95)
    turnbuckle("validate", "runs", "--format", "csv", "-o", tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        line, _ = csv.DictReader(file)
    assert (
        float(line["predicted"]) == one["predicted"]
        and float(line["off"]) == pytest.approx(one["off"])
        and line["unit"] == "s"
    )


def test_charts(turnbuckle: Run, cases: Path, tmp_path: Path) -> None:
    assert turnbuckle("validate", "runs", "--charts", tmp_path / "charts").code == 0
    assert sorted(p.name for p in (tmp_path / "charts").iterdir()) == [
        "accuracy-by-kind.csv",
        "accuracy-by-kind.svg",
        "accuracy-scatter.csv",
        "accuracy-scatter.svg",
    ]
    assert "within 10" in (tmp_path / "charts" / "accuracy-scatter.svg").read_text(encoding="utf-8")


def test_the_shipped_card(turnbuckle: Run) -> None:
    ran = turnbuckle("validate", "--card")
    assert (
        ran.code == 0
        and "run time on another machine" in ran.out
        and "stated 90 % intervals" in ran.out
    )
    told = json.loads(turnbuckle("validate", "--card", "--format", "json").out)
    assert {n["code"] for n in told["not_run"]} <= {"A360", "A361", "A362"} and len(
        told["rows"]
    ) > 100


@pytest.mark.parametrize(
    ("gate", "code"),
    [
        ("worst > 10%", 1),
        ("worst > 50%", 0),
        ("median > 0.1", 1),
        ("coverage < 50%", 1),
        ("coverage < 0%", 0),
        ("not_run > 0", 1),
        ("not_run > 1", 0),
    ],
)
def test_gates(turnbuckle: Run, cases: Path, gate: str, code: int) -> None:
    ran = turnbuckle("validate", "--fail-if", gate)
    assert ran.code == code and ("A201" in ran.err) == bool(code)


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("--fail-if", "wurst > 10%"), "A008", 2),
        (("--fail-if", "worst"), "A008", 2),
        (("--data", "nowhere"), "A420", 2),
        (("--card", "runs"), "A419", 2),
        (("--card", "--data", "."), "A419", 2),
        (("rums",), "A416", 2),
        (("--cases", "nowhere"), "A416", 2),
        (("elsewhere", "--fail-if", "worst > 10%"), "A191", 3),
        (("waits", "--fail-if", "coverage < 10%"), "A191", 3),
        (("runs", "-o", "x.txt"), "A010", 2),
    ],
)
def test_refusals(
    turnbuckle: Run, cases: Path, words: tuple[str, ...], code: str, exit_code: int
) -> None:
    ran = turnbuckle("validate", *words)
    assert ran.code == exit_code and f"error[{code}]" in ran.err


def test_texts_of_a_case_steer_no_terminal(turnbuckle: Run, cases: Path) -> None:
    (cases / "waits" / "case.toml").write_text(
        'title = "[red]\\u001b[31mx"\nwaits = "[blink]\\u001b]0;owned\\u0007"\n', encoding="utf-8"
    )
    ran = turnbuckle("validate")
    assert ran.code == 0 and "\x1b" not in ran.out and "[blink]" in ran.out


def test_project_says_how_good_such_predictions_were(turnbuckle: Run) -> None:
    with sample() as path:
        other, coupling = (
            " ".join(turnbuckle("project", str(path), "--on", on).out.split())
            for on in ("gh200", "nvlink-c2c")
        )
        ratio = " ".join(
            turnbuckle(
                "project", str(path), "--model", "additive", "--lambda", "data=2"
            ).out.split()
        )
    assert (
        "checked against measurement: run time on another machine off by" in other
        and "turnbuckle validate --card" in other
    )
    assert (
        "checked against an OpenCL device on a CPU, not yet on a GPU: run time at added "
        "distance, measured off by"
    ) in coupling
    off = document(turnbuckle("validate", "--card", "--format", "json"))["card"]
    judged = next(g for g in off if (g["kind"], g["model"]) == ("distance", "additive"))
    assert f"off by {judged['median']:.1%} in the median" in ratio


def test_the_card_holds_kernels_of_others_on_gpus_that_no_fit_saw(turnbuckle: Run) -> None:
    """By class and GPU, beside what is simpler; a range that never fails would say nothing."""
    asked = document(turnbuckle("validate", "--card", "--format", "json"))["kernels_of_others"]
    assert {row["gpu"] for row in asked} >= {"p4", "t4", "v100-pcie-32", "a100-pcie-40", "mi100"}
    shown = turnbuckle("validate", "--card").out
    assert all(f"to {row['gpu']}" in shown for row in asked)
    pairs = sum(row["pairs"] for row in asked)
    held = sum(row["held"] * row["pairs"] for row in asked) / pairs
    assert 0.8 < held < 1.0
    nearer = sum(row["pairs"] for row in asked if row["median"] < row["nothing"])
    assert nearer > 0.99 * pairs
