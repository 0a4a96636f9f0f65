"""Where the time of each rank and GPU goes: nothing hides behind a union, and every rank's time
adds up to the run's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import build_nsys as b
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpi_rows import call, recorded
from rows import on_device
from strategies import trace_of

from turnbuckle.page.profile_sections import usage_section
from turnbuckle.profile.profile import build
from turnbuckle.profile.summary import each, summary
from turnbuckle.projection.run import Run
from turnbuckle.show.run_tables import gpus_table, ranks_table, run_time_table, window_words


def plain(text: str) -> str:
    """The text with plain blanks."""
    return text.replace("\xa0", " ")


def in_turns(ranks: int, turns: int = 20) -> list[dict[str, Any]]:
    """Calls of ranks of which one computes while all others wait in a barrier: 100 us of each turn
    of `ranks` x 100 us.
    """
    rows = []
    for turn in range(turns):
        for rank in range(ranks):
            begin, end = 100_000 * ranks * turn, 100_000 * ranks * (turn + 1)
            computes = begin + 100_000 * rank
            rows += [
                call(rank, "Barrier", at, until, kind=1)
                for at, until in ((begin, computes), (computes + 100_000, end))
                if until > at
            ]
    return rows


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_that_compute_in_turns_are_not_all_mpi(ranks: int) -> None:
    profile = build(recorded(*in_turns(ranks), ranks=ranks))
    assert summary.categories_ns(profile)["mpi"] == profile.run_time_ns, (
        "the union over ranks hides it"
    )
    rows = each.ranks(profile)
    assert [row["rank"] for row in rows] == list(range(ranks))
    assert all(
        abs(row["categories_ns"]["cpu"] * ranks / profile.run_time_ns - 1) < 1e-9 for row in rows
    )
    run = Run.of(profile)
    shares = {row[0].text: plain(row[3].text) for row in run_time_table(run).rows}
    assert (
        shares["MPI, device not recorded"] == {2: "50 %", 4: "75 %"}[ranks]
        and f"mean of {ranks} ranks" in run_time_table(run).title
    )
    assert run.inspect().table().filter(category="cpu")["share"].item() == pytest.approx(1 / ranks)
    table = ranks_table(profile)
    assert table is not None and [row[0].text for row in table.rows] == [
        f"rank {rank}" for rank in range(ranks)
    ]
    described = run.inspect().profile()
    assert [row["categories_ns"] for row in described["ranks"]] == [
        row["categories_ns"] for row in rows
    ]


def two_gpus(
    busy: tuple[int, int], process: tuple[int, int] = (b.PROCESS, b.OTHER_PROCESS)
) -> dict[str, list[dict[str, Any]]]:
    """Rows of two devices that work in turns, each for so many of 1,000 us."""
    rows = [on_device(0, 1000 * busy[0], device=0, process=process[0])]
    rows.append(on_device(1_000_000 - 1000 * busy[1], 1_000_000, device=1, process=process[1]))
    return {"kernels": rows}


def test_each_gpu_has_its_row() -> None:
    profile = build(trace_of(two_gpus((600, 300))))
    rows = each.gpus(profile)
    assert [(row["device"], row["kernels_ns"], row["idle_ns"]) for row in rows] == [
        (0, 600_000, 400_000),
        (1, 300_000, 700_000),
    ]
    table = gpus_table(profile)
    assert table is not None and [[plain(cell.text) for cell in row] for row in table.rows] == [
        ["0", "60 %", "0 %", "0 %", "40 %"],
        ["1", "30 %", "0 %", "0 %", "70 %"],
    ]
    assert "30 % to 60 % (by GPU)" in plain(window_words(profile))
    assert each.categories_ns(profile)["kernel"] == 450_000, "of two processes the mean"
    usage = usage_section(Run.of(profile).project(["self"]))
    assert len(usage["each_tables"]) == 2, "the report has both"


def test_one_gpu_of_one_process_is_as_before() -> None:
    profile = build(trace_of({"kernels": [on_device(0, 500), on_device(700, 1000)]}))
    assert (
        each.ranks(profile) == [] and gpus_table(profile) is None and len(each.gpus(profile)) == 1
    )
    assert each.categories_ns(profile) == {
        name: float(ns) for name, ns in summary.categories_ns(profile).items()
    }


times = st.tuples(
    st.integers(0, 900),
    st.integers(1, 100),
    st.integers(0, 2),
    st.sampled_from(["kernels", "copies", "mpi", "api"]),
)


@given(st.lists(times, min_size=1, max_size=30))
def test_the_time_of_each_adds_up(rows: list[tuple[int, int, int, str]]) -> None:
    tables: dict[str, list[dict[str, Any]]] = {}
    for at, lasts, number, table in rows:
        process = (7 + number) << 24
        own = {"thread": process | 1} if table in ("mpi", "api") else {}
        own |= {} if table == "mpi" else {"process": process}
        own |= {"device": number} if table in ("kernels", "copies") else {}
        tables.setdefault(table, []).append({"start_ns": at, "end_ns": at + lasts, **own})
    profile = build(trace_of(tables))
    for row in each.ranks(profile):
        assert (
            sum(row["categories_ns"].values()) == profile.run_time_ns
            and min(row["categories_ns"].values()) >= 0
        )
    for row in each.gpus(profile):
        assert (
            row["kernels_ns"] + row["copies_ns"] + row["idle_ns"] == profile.run_time_ns
            and row["idle_ns"] >= 0
        )
    assert sum(each.categories_ns(profile).values()) == pytest.approx(profile.run_time_ns)


def test_a_single_process_of_several_is_told_as_the_whole_was() -> None:
    """Of one rank alone the claims of categories are those of the exclusive time line."""
    rows = in_turns(2)
    for rank in range(2):
        alone = build(
            recorded(*(row for row in rows if row["thread"] == rows[rank]["thread"]), ranks=2)
        )
        both = build(recorded(*rows, ranks=2))
        waits = next(
            row
            for row in each.ranks(both)
            if row["rank"] == (0 if rows[rank]["thread"] == rows[0]["thread"] else 1)
        )
        assert waits["categories_ns"]["mpi"] == summary.categories_ns(alone)["mpi"]


def test_two_gpus_of_a_real_recording(shared: Path) -> None:
    path = shared / "traces" / "nsys" / "mfu_2gpu_before" / "mfu_2gpu_before.sqlite"
    if not path.is_file():
        pytest.skip("the real recording stands beside the repository, not in it")
    profile = Run.read(path).profile
    busy = [row["kernels_ns"] / profile.run_time_ns for row in each.gpus(profile)]
    assert busy == pytest.approx([0.9034, 0.8815], abs=1e-4)
