"""``turnbuckle inspect`` of schedules: the block ``mpi`` of recordings, null for what they cannot
say, and bad files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile_names import SAMPLE, Ran

from turnbuckle.mpi.readers import pmpi

Run = Callable[..., Ran]

GOAL = (
    "num_ranks 2\nrank 0 {\na: calc 1500\nb: send 64b to 1 tag 3\nb requires a\n}\nrank 1 {\n"
    "recv 64b from 0 tag 3\n}\n"
)


@pytest.fixture
def anchor(tmp_path: Path) -> Path:
    for rank, lines in enumerate(("isend 1 0 8 0", "irecv 0 0 8 0")):
        (tmp_path / f"rank{rank}.txt").write_text(
            f"{rank} init\n{rank} compute 2e6\n{rank} {lines}\n{rank} waitall 1\n"
            f"{rank} allreduce 1 0 0\n{rank} finalize\n"
        )
    path = tmp_path / "ti.txt"
    path.write_text("rank0.txt\nrank1.txt\n")
    return path


def test_what_people_see(turnbuckle: Run, anchor: Path, tmp_path: Path) -> None:
    ran = turnbuckle("inspect", anchor)
    assert ran.code == 0 and "SimGrid time-independent trace; it holds no times" in ran.out
    assert (
        "2 ranks, 10 calls" in ran.out
        and "1 of 64 B in all" in ran.out
        and "1 with both sides" in ran.out
    )
    assert "2 ALLREDUCE calls" in ran.out and "4 Mflop" in ran.out
    assert turnbuckle(anchor).out == ran.out
    path = tmp_path / "a.goal"
    path.write_text(GOAL)
    ran = turnbuckle("inspect", path)
    assert (
        ran.code == 0
        and "GOAL schedule" in ran.out
        and "2 ranks, 3 operations" in ran.out
        and "1.5 us" in ran.out
    )
    assert "collectives" not in ran.out


def test_json_has_the_keys_of_a_recording(turnbuckle: Run, anchor: Path) -> None:
    ours = json.loads(turnbuckle("inspect", anchor, "--format", "json").out)
    other = json.loads(turnbuckle("inspect", SAMPLE, "--format", "json").out)
    assert set(ours) == set(other) and set(ours["provenance"]) == set(other["provenance"])
    assert set(ours["provenance"]["profile"]) == set(other["provenance"]["profile"])
    assert set(ours["profile"]) - {"work"} == set(other["profile"])
    known = {key for key, value in ours["profile"].items() if value is not None}
    assert known == {"mpi", "work", "devices", "scope"}
    assert ours["profile"]["mpi"] == {
        "count": 10,
        "calls": 10,
        "ranks": 2,
        "sends": {"count": 1, "bytes": 64},
        "receives": {"count": 1},
        "collectives": {"ALLREDUCE": 2},
        "messages": {"matched": 1, "unmatched": 0},
    }
    assert ours["profile"]["work"] == {"flops": 4e6, "seconds": 0.0}
    assert ours["provenance"]["profile"]["format"] == "simgrid-ti"


def test_the_digest_is_of_all_files(turnbuckle: Run, anchor: Path, tmp_path: Path) -> None:
    def said() -> tuple[str, int]:
        about = json.loads(turnbuckle("inspect", anchor, "--format", "json").out)["provenance"][
            "profile"
        ]
        return about["sha256"], about["size_bytes"]

    before = said()
    rank = tmp_path / "rank1.txt"
    rank.write_text(rank.read_text().replace("2e6", "3e6"))
    assert said()[0] != before[0] and said()[1] == before[1] == sum(
        f.stat().st_size for f in (anchor, rank, tmp_path / "rank0.txt")
    )


def test_a_recording_of_pmpi_has_the_same_block(turnbuckle: Run, shared: Path) -> None:
    path = shared / "traces" / "goal" / "sphot_pmpi_4rank" / "htor-coll-rank-0.dat"
    assert pmpi.sniff(path.read_bytes()[:512], path)
    said = json.loads(turnbuckle("inspect", path, "--format", "json").out)["profile"]
    assert said["mpi"]["ranks"] == 4 and said["mpi"]["sends"] == {"count": 9, "bytes": 984}
    assert said["mpi"]["collectives"] == {"ALLREDUCE": 4, "BARRIER": 12, "BCAST": 8, "REDUCE": 16}
    assert said["run_time_ns"] == pytest.approx(3e9, rel=0.01)


def test_tables_for_programs(turnbuckle: Run, anchor: Path, tmp_path: Path) -> None:
    ran = turnbuckle("inspect", anchor, "--format", "csv")
    head, row = ran.out.strip().split("\n")
    assert "mpi.sends.bytes" in head.split(",") and row.startswith(",")
    assert turnbuckle("inspect", anchor, "--format", "json", "-o", tmp_path / "a.json").code == 0
    assert json.loads((tmp_path / "a.json").read_text())["schema_version"] == 2
    assert "A010" in turnbuckle("inspect", anchor, "-o", tmp_path / "a.txt").err


def test_questions_that_need_a_recording(turnbuckle: Run, anchor: Path) -> None:
    for words in (("--source", "gh200"), ("--minus", str(SAMPLE))):
        ran = turnbuckle("inspect", anchor, *words)
        assert ran.code == 2 and "A077" in ran.err and words[0] in ran.err


@pytest.mark.parametrize(
    "verb", ["project", "slack", "doctor", "report", "export --on gh200 -o out.json"]
)
def test_verbs_that_need_a_recording_say_so_of_a_schedule(
    turnbuckle: Run, anchor: Path, verb: str
) -> None:
    name, *options = verb.split()
    ran = turnbuckle(name, anchor, *options)
    assert (
        ran.code == 2
        and "A077" in ran.err
        and "schedule, which holds no times" in ran.err
        and "turnbuckle inspect ti.txt" in ran.err
    )


def test_what_is_said_of_bad_ones(turnbuckle: Run, anchor: Path, tmp_path: Path) -> None:
    rank = tmp_path / "rank1.txt"
    rank.write_text("1 init\n1 sendrecv 0 0 8 0 0 8\n")
    ran = turnbuckle("inspect", anchor)
    assert (
        ran.code == 2
        and "P021" in ran.err
        and "rank1.txt:2" in ran.err
        and "rank 1: 1 sendrecv" in ran.err
    )
    rank.write_text("1 init\n1 \x1b]0;x\x07\n")
    ran = turnbuckle("inspect", anchor)
    assert ran.code == 2 and "\x1b" not in ran.err and "\x07" not in ran.err
    rank.unlink()
    assert "P020" in turnbuckle("inspect", anchor).err
    path = tmp_path / "\x1b[31mred.goal"
    path.write_text(GOAL + "rank 5 {\n")
    ran = turnbuckle("inspect", path)
    assert ran.code == 2 and "P023" in ran.err and "\x1b" not in ran.out
    path.write_text(GOAL)
    assert "\x1b" not in turnbuckle("inspect", path).out
