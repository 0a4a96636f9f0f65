"""Runs from tables and from recordings: what is understood, and what is refused where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refused
from runs import recorded_profile

import turnbuckle as tb
from turnbuckle.foundation.errors import CannotAnswer, TurnbuckleError
from turnbuckle.profile.profile import Profile
from turnbuckle.questions.cores.runs import from_profiles, mpi_seconds, read_runs


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "runs.csv"
    path.write_text(text, encoding="utf-8")
    return path


def code(tmp_path: Path, text: str) -> tuple[str, str]:
    with pytest.raises(TurnbuckleError) as caught:
        read_runs(table(tmp_path, text))
    return caught.value.code, caught.value.where


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ranks", "threads", "split"),
    [
        ("cores,run time\n4,1 s\n8,500 ms", [1, 1], [4, 8], False),
        ("cores,gpus,run time [s]\n4,4,1\n8,4,1", [1, 1], [1, 2], False),
        ("ranks,threads,gpus,run time [s]\n16,2,8,1\n32,4,8,1", [2, 4], [2, 4], True),
        ("ranks,run time [s]\n1,1\n2,1", [1, 2], [1, 1], True),
        ("threads,run time [s]\n1,1\n2,1", [1, 1], [1, 2], True),
        ("ranks per gpu,threads,run time [s]\n0.5,2,1\n2,2,1", [0.5, 2], [2, 2], True),
        ("cores,ranks,run time [s]\n8,2,1\n8,4,1", [2, 4], [4, 2], True),
        ("cores,threads,run time [s]\n8,2,1\n8,4,1", [4, 2], [2, 4], True),
        ("Cores,Ranks,Threads,Run_Time [s]\n8,2,4,1\n4,2,2,1", [2, 2], [4, 2], True),
    ],
)
def test_counts_are_per_gpu(
    tmp_path: Path, text: str, ranks: list[float], threads: list[float], split: bool
) -> None:
    (runs,) = read_runs(table(tmp_path, text))
    assert (runs.ranks.tolist(), runs.threads.tolist(), runs.split) == (ranks, threads, split)


def test_times_programs_and_repeats(tmp_path: Path) -> None:
    text = (
        "program,cores,run time [s],mpi time [ms],repeat\nb,1,10,100,1\na,1,20,200,\n"
        "b,1,12,100,2\nb,2,6,100,1\n"
    )
    b, a = read_runs(table(tmp_path, text))
    assert (b.program, a.program) == ("b", "a"), "in the order of the table"
    assert b.seconds.tolist() == [10.0, 12.0, 6.0] and b.mpi_seconds.tolist() == pytest.approx(
        [0.1] * 3
    )
    assert b.shapes == 2 and b.mean_of_repeats(b.seconds).tolist() == [11.0, 11.0, 6.0]
    assert b.labels == ("line 2", "line 4", "line 5")


def test_throughput_is_time_of_a_unit_of_work(tmp_path: Path) -> None:
    (runs,) = read_runs(table(tmp_path, "ranks,throughput\n1,200\n2,250\n"))
    assert runs.throughput and runs.seconds.tolist() == [0.005, 0.004]


@pytest.mark.parametrize(
    ("text", "refused", "where"),
    [
        ("run time [s]\n1", "A030", "runs.csv"),
        ("cores\n1", "A030", "runs.csv"),
        ("cores,run time [s],throughput\n1,1,1", "A030", "runs.csv"),
        ("ranks,ranks per gpu,run time [s]\n1,1,1", "A030", "runs.csv"),
        ("cores,throughput,mpi time [s]\n1,1,0.1", "A030", "runs.csv"),
        ("cores,run time [s]\n1,1\n2,\n", "A030", "runs.csv:3:3"),
        ("cores,run time [s]\n,1\n", "A030", "runs.csv:2:1"),
        ("cores,ranks,threads,run time [s]\n8,2,2,1", "A030", "runs.csv:2:1"),
        ("cores,run time [s],mpi time [s]\n1,10,1\n2,5,5", "A030", "runs.csv:3:5"),
        ("cores,run time [s],repeat\n1,10,1\n1,11,1", "A034", "runs.csv:3:6"),
        ("cores,run time [s]\n", "A150", "runs.csv"),
        ("", "A062", "runs.csv"),
        ("cores,time [s]\n1,1", "A062", "runs.csv:1:7"),
        ("cores,run time\n1,1", "U001", "runs.csv:2:3"),
        ("cores,run time [B]\n1,1", "U003", "runs.csv:2:3"),
        ("cores,run time [s]\n0,1", "A063", "runs.csv:2:1"),
        ("cores,run time [s]\n-4,1", "A063", "runs.csv:2:1"),
        ("cores,run time [s]\n1.5,1", "A063", "runs.csv:2:1"),
        ("cores,run time [s]\n1,nan", "U004", "runs.csv:2:3"),
        ("cores,run time [s]\n1,0", "A063", "runs.csv:2:3"),
        ("cores,run time [s]\n1,-2", "A063", "runs.csv:2:3"),
        ("cores,run time [s]\n1,2,3", "A063", "runs.csv:2:5"),
        ("cores,run time [s]\n" + "1,1\n" * 10_001, "A030", "runs.csv"),
    ],
)
def test_refusals_say_where(tmp_path: Path, text: str, refused: str, where: str) -> None:
    assert code(tmp_path, text) == (refused, where)


def test_a_binary_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(b"\xff\xfe\x00cores")
    refused("A061", read_runs, path)


# --- recordings -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def profile() -> Profile:
    with tb.sample() as path:
        return recorded_profile(path)


def without_mpi(profile: Profile) -> Profile:
    """The sample without MPI."""
    tables = {
        name: frame for name, frame in profile.trace.tables.items() if not name.startswith("mpi")
    }
    return replace(profile, trace=replace(profile.trace, tables=tables))


def with_ranks(profile: Profile, ranks: int) -> Profile:
    """The sample as if so many ranks had each spent a second in MPI."""
    second = 10**9
    rows = [(r << 24, r) for r in range(ranks)]
    calls = pl.DataFrame(
        {
            "thread": [t for t, _ in rows] * 2,
            "start_ns": [0] * (2 * ranks),
            "end_ns": [second] * ranks + [second // 2] * ranks,
        }
    )
    tables = {
        **profile.trace.tables,
        "mpi_ranks": pl.DataFrame({"thread": [t for t, _ in rows], "rank": [r for _, r in rows]}),
        "mpi": calls,
    }
    return replace(profile, trace=replace(profile.trace, tables=tables))


def test_ranks_of_recordings_are_seen(profile: Profile) -> None:
    runs = from_profiles([with_ranks(profile, n) for n in (1, 2, 4)])
    assert runs.ranks.tolist() == [1.0, 2.0, 4.0] and runs.split
    assert runs.seconds.tolist() == [profile.seconds] * 3
    assert runs.mpi_seconds.tolist() == [1.0] * 3, (
        "a second a rank; a call inside another counts once"
    )


def test_cores_of_recordings_are_told(profile: Profile) -> None:
    runs = from_profiles([profile, profile], [4, 8])
    assert (
        runs.cores.tolist() == [4.0, 8.0]
        and not runs.split
        and runs.mpi_seconds.tolist() == [mpi_seconds(profile)] * 2
    )
    bare = without_mpi(profile)
    assert mpi_seconds(bare) == 0.0
    assert not from_profiles([profile, bare], [4, 8]).mpi_seconds.any(), (
        "MPI time of some recordings is none"
    )


@pytest.mark.parametrize("at", [[4], [4, 8, 16], [4, 0]])
def test_a_core_count_for_each_recording(profile: Profile, at: list[int]) -> None:
    refused("A032", from_profiles, [profile, profile], at)


def test_a_recording_that_does_not_show_its_cores(profile: Profile, shared: Path) -> None:
    refused("A152", from_profiles, [without_mpi(profile)])
    no_gpu = recorded_profile(shared / "traces" / "nsys-local" / "lammps-melt-4r.sqlite")
    with pytest.raises(CannotAnswer, match="GPU activity"):
        from_profiles([no_gpu])
    runs = from_profiles([no_gpu], [4])
    assert 0 < runs.mpi_seconds[0] < runs.seconds[0], "MPI time is a mean over the ranks"


def test_recordings_of_two_programs(profile: Profile, shared: Path) -> None:
    other = recorded_profile(shared / "traces" / "nsys" / "jacobi_gh200" / "jacobi_report.sqlite")
    refused("A033", from_profiles, [profile, other], [1, 2])
    assert len(from_profiles([other, other], [1, 2])) == 2


def test_two_versions_of_one_program_are_one_program(shared: Path) -> None:
    folder = shared / "traces" / "nsys"
    profiles = [
        recorded_profile(folder / f"balinski_gomory_r{k}" / f"report{k}.sqlite") for k in (3, 16)
    ]
    assert np.isfinite(from_profiles(profiles, [1, 2]).seconds).all()
