"""``turnbuckle model dag``: what it prints, what it writes, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hostile_names import Ran

from turnbuckle.papers.models.dag.question import sweep
from turnbuckle.papers.models.dag.supernodes import supernodes, triangle_of
from turnbuckle.papers.models.dag.tasks import VARIANTS
from turnbuckle.papers.models.dag.tiers import fabric

Run = Callable[..., Ran]


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    """A lower triangle of a Laplacian, 64 rows."""
    line = sp.diags_array([-np.ones(7), 2 * np.ones(8), -np.ones(7)], offsets=[-1, 0, 1])
    whole = sp.kron(line, sp.eye_array(8)) + sp.kron(sp.eye_array(8), line)
    path = tmp_path / "square.mtx"
    scipy.io.mmwrite(path, sp.tril(whole), symmetry="general")
    return path


def test_the_table(turnbuckle: Run, matrix: Path) -> None:
    ran = turnbuckle("model", "dag", matrix)
    assert ran.code == 0
    for words in (
        "64 rows",
        "15 levels",
        "where more GPUs stop paying",
        *VARIANTS,
        "2.6 times less",
        "4 times longer",
        "assumed",
    ):
        assert words in ran.out
    answer = sweep(supernodes(triangle_of(scipy.io.mmread(matrix))), fabric())
    rows = [
        line.split()
        for line in ran.out.splitlines()
        if line[:4].strip().isdigit() and line.endswith("%")
    ]
    assert [int(row[0]) for row in rows] == [run.gpus for run in answer.of("as is")]


def test_json_is_the_answer(turnbuckle: Run, matrix: Path) -> None:
    ran = turnbuckle("model", "dag", matrix, "--gpus", "1,3,10-12", "--format", "json")
    found = json.loads(ran.out)
    assert [run["gpus"] for run in found["runs"][::4]] == [1, 3, 10, 11, 12]
    assert found["schema_version"]
    answer = sweep(supernodes(triangle_of(scipy.io.mmread(matrix))), fabric(), [1, 3, 10, 11, 12])
    assert [run["seconds"] for run in found["runs"]] == pytest.approx(
        [run.seconds for run in answer.runs]
    )
    assert {spot["variant"] for spot in found["sweet_spots"]} == set(VARIANTS)


def test_csv_has_a_row_a_run(turnbuckle: Run, matrix: Path) -> None:
    ran = turnbuckle("model", "dag", matrix, "--gpus", "2", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert [row["variant"] for row in rows] == list(VARIANTS)
    assert all(float(row["seconds"]) > 0 for row in rows)


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_answer_comes_first_and_nothing_is_cut(
    turnbuckle: Run, matrix: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = turnbuckle("model", "dag", matrix).out
    assert out.startswith("square.mtx: fastest on 1 GPU, ")
    assert "cost nothing here" in out.splitlines()[1], "what the answer leaves out stands beside it"
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= columns


def test_a_node_of_another_size_is_not_called_the_machine_s(turnbuckle: Run, matrix: Path) -> None:
    words = ("model", "dag", matrix, "--gpus", "2", "--format", "json")
    assert "eight H100 a node" in json.loads(turnbuckle(*words).out)["machine"]["title"]
    assert (
        json.loads(turnbuckle(*words, "--gpus-per-node", "4").out)["machine"]["title"]
        == "DGX H100; NCCL send and receive"
    )


def test_any_width_of_supernodes(turnbuckle: Run, matrix: Path) -> None:
    runs = [
        turnbuckle("model", "dag", matrix, "--widest", wide, "--format", "csv", "--gpus", "2")
        for wide in (128, "9" * 30)
    ]
    assert runs[0].out == runs[1].out != ""


def test_options_reach_the_model(turnbuckle: Run, matrix: Path, tmp_path: Path) -> None:
    def seconds(*words: object) -> float:
        ran = turnbuckle(
            "model",
            "dag",
            matrix,
            "--gpus",
            "12",
            "--format",
            "json",
            *(words if "--on" in words else ("--on", "summit-v100", *words)),
        )
        assert ran.code == 0, ran.err
        return float(json.loads(ran.out)["runs"][0]["seconds"])

    (tmp_path / "tiers.csv").write_text(
        "tier, latency, bandwidth\nnode, 1 us, 1 GB/s\nnetwork, 9 us, 1 GB/s\n"
    )
    now = seconds()
    changes: list[list[object]] = [
        ["--layout", "rows"],
        ["--on", "alps-gh200"],
        ["--tiers", tmp_path / "tiers.csv"],
        ["--gpus-per-node", 12],
        ["--gpus-per-socket", 1],
        ["--memory-bandwidth", "100 GB/s"],
        ["--block-high", "9 GB/s"],
        ["--widest", 1],
        ["--relaxed", 0.5],
        ["--dependency", "1 us"],
        ["--one-at-a-time"],
    ]
    assert [words for words in changes if seconds(*words) == now] == []


def test_variants_take_other_factors(turnbuckle: Run, matrix: Path) -> None:
    words = (
        "--integration",
        "1",
        "--disaggregation",
        "1x",
        "--merged",
        "1",
        "--gpus",
        "12",
        "--format",
        "json",
    )
    runs = json.loads(turnbuckle("model", "dag", matrix, *words).out)["runs"]
    assert runs[0]["seconds"] == runs[1]["seconds"] == runs[2]["seconds"] != runs[3]["seconds"]


def test_a_map(turnbuckle: Run, matrix: Path, tmp_path: Path) -> None:
    (tmp_path / "map.csv").write_text("column, gpu\n1, 0\n33, 1\n")
    found = json.loads(
        turnbuckle("model", "dag", matrix, "--map", tmp_path / "map.csv", "--format", "json").out
    )
    assert found["layout"] == "columns, by the map given"
    assert {run["gpus"] for run in found["runs"]} == {2}
    # the lower half needs 8 values of the upper one
    assert found["runs"][0]["messages"] == 8
    flipped = tmp_path / "flipped.mtx"
    scipy.io.mmwrite(
        flipped, sp.coo_array(scipy.io.mmread(matrix).toarray()[::-1, ::-1]), symmetry="general"
    )
    (tmp_path / "map.csv").write_text("column, gpu\n1, 1\n33, 0\n")
    again = json.loads(
        turnbuckle("model", "dag", flipped, "--map", tmp_path / "map.csv", "--format", "json").out
    )
    assert again["matrix"]["side"] == "upper"
    assert again["runs"][0]["seconds"] == found["runs"][0]["seconds"]


def test_charts(turnbuckle: Run, matrix: Path, tmp_path: Path) -> None:
    assert turnbuckle("model", "dag", matrix, "--charts", tmp_path / "figures").code == 0
    for name in ("solve-run-time", "solve-path"):
        root = ElementTree.parse(tmp_path / "figures" / f"{name}.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        texts = " ".join(e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}text"))
        assert "GPUs" in texts
        assert (tmp_path / "figures" / f"{name}.csv").read_text().count("\n") > 10
    assert all(what in texts for what in ("computing", "messages between nodes"))


def test_many_counts_leave_no_room_for_numbers(
    turnbuckle: Run, matrix: Path, tmp_path: Path
) -> None:
    def numbered(gpus: str) -> int:
        assert (
            turnbuckle("model", "dag", matrix, "--gpus", gpus, "--charts", tmp_path / gpus).code
            == 0
        )
        root = ElementTree.parse(tmp_path / gpus / "solve-path.svg").getroot()
        return sum((e.text or "").isdigit() for e in root.iter("{http://www.w3.org/2000/svg}text"))

    assert numbered("1-4") == 8, "the counts below, the messages above"
    assert numbered("1-40") <= 40


def test_one_count_one_gpu_and_nothing_to_draw(
    turnbuckle: Run, matrix: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare.mtx"
    bare.write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 0\n")
    for path in (matrix, bare):
        ran = turnbuckle("model", "dag", path, "--gpus", "1", "--charts", tmp_path / "figures")
        assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--gpus", "0"], "A043"),
        (["--gpus", "8-4"], "A043"),
        (["--gpus", "1,two"], "A043"),
        (["--gpus", "1-100000"], "A043"),
        (["--gpus", "70000"], "A043"),
        (["--integration", "0.5"], "A043"),
        (["--disaggregation", "much"], "A043"),
        (["--merged", "0"], "A043"),
        (["--dependency=-1us"], "A043"),
        (["--dependency", "1"], "U001"),
        (["--widest", "0"], "A043"),
        (["--relaxed", "1"], "A043"),
        (["--gpus-per-node", "0"], "A043"),
        (["--gpus-per-node", "9" * 30], "A043"),
        (["--merged", "9" * 400], "A043"),
        (["--dependency", "1e25 s"], "A043"),
        (["--dependency", "1e300 s"], "U005"),
        (["--memory-bandwidth", "1e-300 B/s"], "A043"),
        (["--gpus-per-socket", "9"], "A043"),
        (["--block-low", "13 GB/s"], "A043"),
        (["--memory-bandwidth", "0 GB/s"], "A043"),
        (["--on", "sumit"], "A043"),
        (["--tiers", "none.csv"], "A061"),
        (["--map", "none.csv"], "A061"),
        (["--map", "none.csv", "--gpus", "2"], "A043"),
        (["--output", "x"], "A010"),
    ],
    ids=" ".join,
)
def test_refusals(turnbuckle: Run, matrix: Path, words: list[str], code: str) -> None:
    ran = turnbuckle("model", "dag", matrix, *words)
    assert ran.code == 2
    assert f"error[{code}]" in ran.err


def test_a_matrix_that_is_not_triangular(turnbuckle: Run, tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31mred\u202e.mtx"
    scipy.io.mmwrite(path, sp.coo_array(np.ones((3, 3))), symmetry="general")
    ran = turnbuckle("model", "dag", path)
    assert (ran.code, "A041" in ran.err) == (2, True)
    taken = turnbuckle("model", "dag", path, "--triangle", "lower")
    assert taken.code == 0
    assert "A345" in taken.out
    assert "\x1b[31m" not in taken.out + ran.err


def test_an_unknown_tier(turnbuckle: Run, matrix: Path, tmp_path: Path) -> None:
    (tmp_path / "tiers.csv").write_text("tier, latency, bandwidth\nnode, 1 us, 1 GB/s\n")
    ran = turnbuckle("model", "dag", matrix, "--tiers", tmp_path / "tiers.csv")
    assert ran.code == 3
    assert "error[A156]" in ran.err
    assert (
        turnbuckle("model", "dag", matrix, "--tiers", tmp_path / "tiers.csv", "--gpus", "1-6").code
        == 0
    )


def test_a_socket_of_one_gpu_has_no_messages(turnbuckle: Run, matrix: Path, tmp_path: Path) -> None:
    (tmp_path / "tiers.csv").write_text(
        "tier, latency, bandwidth\nsocket, 1 us, 1 GB/s\nnode, 2 us, 1 GB/s\n"
        "network, 9 us, 1 GB/s\n"
    )
    ran = turnbuckle("model", "dag", matrix, "--tiers", tmp_path / "tiers.csv")
    assert "error[A043]" in ran.err
    assert "--gpus-per-socket 8" in ran.err
    ran = turnbuckle(
        "model",
        "dag",
        matrix,
        "--tiers",
        tmp_path / "tiers.csv",
        "--gpus-per-socket",
        "4",
        "--gpus",
        "4",
        "--format",
        "json",
    )
    (now, *_) = json.loads(ran.out)["runs"]
    assert now["path_socket_messages"] == now["path_messages"] > 0
