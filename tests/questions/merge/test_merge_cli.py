"""``turnbuckle merge`` from the command line: what it writes, what it says, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from drawings import each_kind_once
from hostile_names import Ran

from turnbuckle.trace import Trace, read
from turnbuckle.trace.trace import dtypes

Turnbuckle = Callable[..., Ran]
ALL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


def table(of: str, /, **columns: Any) -> pl.DataFrame:
    """One table of the vocabulary; columns that are not given are missing."""
    rows = len(next(iter(columns.values())))
    return pl.DataFrame({c: columns.get(c, [None] * rows) for c in dtypes(of)}, schema=dtypes(of))


@pytest.fixture
def ranks(tmp_path: Path) -> list[Path]:
    """Three recordings of one run, a folder each; the clock of each is 5 ms ahead of the one
    before.
    """
    rng = np.random.default_rng(3)
    due = np.cumsum(rng.integers(2_000_000, 9_000_000, 16))
    start = due + rng.integers(0, 900_000, (3, 16))
    end = start.max(axis=0) + 20_000 + rng.integers(0, 1_000, (3, 16))
    out = []
    for rank in range(3):
        process, ahead, one = (rank + 1) << 24, rank * 5_000_000, [0] * 16
        kernels = table(
            "kernels",
            start_ns=start[rank] + ahead,
            end_ns=end[rank] + ahead,
            process=[process] * 16,
            device=one,
            stream=[7] * 16,
            correlation=range(1, 17),
            name=one,
        )
        api = table(
            "api",
            start_ns=start[rank] + ahead - 9_000,
            end_ns=start[rank] + ahead - 4_000,
            process=[process] * 16,
            thread=[process | 1] * 16,
            correlation=range(1, 17),
            name=[1] * 16,
            result=one,
            level=one,
        )
        facts = {
            "format": "nsys",
            "session_start_utc_ns": 10**18,
            "rank": rank,
            "world_size": 4,
            "tables": {},
        }
        out.append(tmp_path / f"rank{rank}.turnbuckle")
        Trace(
            {"api": api, "kernels": kernels},
            pl.Series("name", [ALL, "cudaLaunchKernel"]),
            facts,
            [],
            f"run\x1b[1m{rank}",
        ).to_parquet(out[-1])
    return out


def test_the_table_says_what_was_done(turnbuckle: Turnbuckle, ranks: list[Path]) -> None:
    ran = turnbuckle("merge", *ranks, "-o", "all.turnbuckle")
    assert ran.code == 0, ran.err
    assert "3 recordings, 3 ranks of 4" in ran.out and "-5 ms" in ran.out and "-10 ms" in ran.out
    assert "P188" in ran.out and "\x1b" not in ran.out
    assert "next  turnbuckle inspect all.turnbuckle" in ran.out
    assert read("all.turnbuckle").processes["shift_ns"].to_list()[0] == 0


def test_every_verb_reads_what_was_merged(turnbuckle: Turnbuckle, ranks: list[Path]) -> None:
    assert turnbuckle("merge", *ranks, "-o", "all.turnbuckle").code == 0
    seen = json.loads(turnbuckle("inspect", "all.turnbuckle", "--format", "json").out)
    assert seen["profile"]["kernels"]["count"] == 48
    ran = turnbuckle("project", "all.turnbuckle", "--on", "self", "--format", "json", "--draws", 0)
    (projection,) = json.loads(ran.out)["projections"]
    assert projection["seconds"] == seen["profile"]["run_time_ns"] * 1e-9
    with each_kind_once():
        assert turnbuckle("report", "all.turnbuckle", "-o", "r.html").code == 0
    assert turnbuckle("doctor", "all.turnbuckle").code == 0
    assert turnbuckle("all.turnbuckle").code == 0


def test_json_and_csv(turnbuckle: Turnbuckle, ranks: list[Path]) -> None:
    said = json.loads(
        turnbuckle("merge", *ranks, "-o", "all", "--format", "json", "--max-skew", "20 us").out
    )
    assert (
        said["schema_version"] == 2
        and said["max_skew_ns"] == 20_000
        and said["contradiction_ns"] == 0
    )
    assert [r["ranks"] for r in said["recordings"]] == [[0], [1], [2]]
    for row in said["recordings"]:
        assert row["shift_low_ns"] <= row["shift_ns"] <= row["shift_high_ns"]
        assert row["collectives"] == row["bounding_collectives"] == 16
        assert 0 <= row["skew_p50_ns"] <= row["skew_p90_ns"] <= row["skew_p100_ns"] <= 2_000
    assert said["recordings"][2]["shift_ns"] == pytest.approx(-10_000_000, abs=1_000)
    assert said["provenance"]["folder_sha256"] == read("all").facts["sha256"]
    rows = list(
        csv.DictReader(
            io.StringIO(turnbuckle("merge", *ranks, "-o", "again", "--format", "csv").out)
        )
    )
    assert [r["ranks"] for r in rows] == ["0", "1", "2"] and rows[1]["collectives"] == "16"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["rank0.turnbuckle"], "A405"),
        (["rank0.turnbuckle", "./rank0.turnbuckle"], "A405"),
        (["rank0.turnbuckle", "rank1.turnbuckle", "--max-skew", "0 us"], "A407"),
        (["rank0.turnbuckle", "rank1.turnbuckle", "--max-skew", "2 days"], "U002"),
        (
            ["rank0.turnbuckle", "rank1.turnbuckle", "--clock", "recorded", "--max-skew", "1 ms"],
            "A056",
        ),
        (["rank0.turnbuckle", "nowhere.sqlite"], "P001"),
        (["rank0.turnbuckle", "rank1.turnbuckle", "--max-skew", "1 ns"], "A176"),
    ],
)
def test_refusals(turnbuckle: Turnbuckle, ranks: list[Path], words: list[str], code: str) -> None:
    ran = turnbuckle("merge", *words, "-o", "all.turnbuckle")
    assert f"error[{code}]" in ran.err and ran.code == (3 if code[:2] == "A1" else 2), ran.err
    assert not Path("all.turnbuckle").exists() and ran.out == ""


def test_nothing_is_overwritten(turnbuckle: Turnbuckle, ranks: list[Path]) -> None:
    before = {p.name: p.read_bytes() for p in ranks[2].iterdir()}
    for there in (ranks[2], ranks[2] / "trace.json"):
        assert "error[R005]" in turnbuckle("merge", *ranks[:2], "-o", there).err
    assert before == {p.name: p.read_bytes() for p in ranks[2].iterdir()}
    Path("link").symlink_to("nowhere")
    assert "error[R005]" in turnbuckle("merge", *ranks, "-o", "link").err
    Path("empty").mkdir()
    assert turnbuckle("merge", *ranks, "-o", "empty").code == 0
    assert "error[R001]" in turnbuckle("merge", *ranks, "-o", ranks[0] / "trace.json" / "x").err
    assert not [p for p in Path().iterdir() if p.name.startswith(".")], "no draft is left"


def test_recorded_clocks(turnbuckle: Turnbuckle, ranks: list[Path]) -> None:
    ran = turnbuckle("merge", *ranks, "-o", "all", "--clock", "recorded")
    assert ran.code == 0 and "P187" in ran.out
    assert read("all").processes["shift_ns"].to_list() == [0, 0, 0]


def test_members_of_an_archive(turnbuckle: Turnbuckle, shared: Path) -> None:
    archive = shared / "traces" / "kineto" / "dlrm_8rank_v100" / "dlrm_kineto.tar.gz"
    with tarfile.open(archive) as packed:
        members = sorted(name for name in packed.getnames() if name.endswith(".json"))
    said = json.loads(
        turnbuckle(
            "merge",
            *(f"{archive}::{m}" for m in members),
            "-o",
            "dlrm.turnbuckle",
            "--format",
            "json",
        ).out
    )
    assert [r["ranks"] for r in said["recordings"]] == [[r] for r in range(8)]
    assert max(r["skew_p90_ns"] for r in said["recordings"]) <= 4_000
