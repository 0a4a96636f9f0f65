"""Recordings of one run merged: planted clocks are found again inside the bounds, nothing is lost,
and what cannot be merged is refused.
"""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import refusals
from frames import PROCESS, frame
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.profile.messages.traffic import traffic
from turnbuckle.profile.profile import build
from turnbuckle.projection.run import Run
from turnbuckle.trace import Trace, read
from turnbuckle.trace.bounds import sound
from turnbuckle.trace.merge.alignment import _from_others
from turnbuckle.trace.merge.merge import Merged, merge
from turnbuckle.trace.merge.shared_collectives import Group
from turnbuckle.trace.read import recordings_in
from turnbuckle.trace.readers.nvprof import reader as nvprof

UTC = 1_700_000_000_000_000_000
ALL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
NAMES = pl.Series("name", ["compute", ALL, GATHER, "cudaLaunchKernel"])
Times = np.ndarray[Any, Any]
US, MS, SECOND = 1_000, 1_000_000, 1_000_000_000


def facts(**more: Any) -> dict[str, Any]:
    return {
        "format": "nsys",
        "product_version": "2024.5",
        "sha256": "ab" * 32,
        "size_bytes": 10,
        "tables": {"T": 1},
        "session_start_utc_ns": UTC,
        "analysis_duration_ns": None,
    } | more


def run(
    ranks: int,
    operations: int,
    rng: np.random.Generator,
    *,
    leave_ns: int = 2 * US,
    wait_ns: int = 2 * MS,
    length_ns: int = 20 * US,
) -> tuple[Times, Times]:
    """True begins and ends of collectives, shape (ranks, operations): all leave within `leave_ns`
    of who came last.
    """
    gaps = rng.integers(3 * MS, 30 * MS, operations)
    due = np.cumsum(gaps)
    start = due + rng.integers(0, wait_ns, (ranks, operations))
    end = start.max(axis=0) + length_ns + rng.integers(0, leave_ns + 1, (ranks, operations))
    return start, end


def recorded(
    start: Times,
    end: Times,
    *,
    clock_ns: int = 0,
    drift: float = 0.0,
    process: int = PROCESS,
    first: int = 0,
    **more: Any,
) -> Trace:
    """One rank's file: its collectives between launches and compute kernels, on a clock that is
    ahead by `clock_ns` and runs faster.
    """

    def own(time: int) -> int:
        return int(time + clock_ns + round(drift * time))

    api, kernels = [], []
    for number, (begin, until) in enumerate(zip(start, end, strict=True)):
        if number < first:
            continue
        called = {"process": process, "thread": process | 1}
        api.append(
            {
                "start_ns": own(begin - 900_000),
                "end_ns": own(begin - 895_000),
                "correlation": 2 * number + 1,
                "name": 3,
                **called,
            }
        )
        api.append(
            {
                "start_ns": own(begin - 8_000),
                "end_ns": own(begin - 3_000),
                "correlation": 2 * number + 2,
                "name": 3,
                **called,
            }
        )
        compute = {
            "start_ns": own(begin - 800_000),
            "end_ns": own(begin - 100_000),
            "correlation": 2 * number + 1,
            "name": 0,
        }
        together = {
            "start_ns": own(begin),
            "end_ns": own(until),
            "correlation": 2 * number + 2,
            "name": 1 + number % 3 // 2,
        }
        kernels += [
            {**compute, "process": process, "stream": 7},
            {**together, "process": process, "stream": 20},
        ]
    return Trace(
        {"api": frame("api", api), "kernels": frame("kernels", kernels)},
        NAMES,
        facts(**more),
        [],
        f"rank{clock_ns}.sqlite",
    )


def refused(code: str, traces: Sequence[Trace], **more: Any) -> TurnbuckleError:
    error = refusals.refused(code, merge, traces, **more)
    assert error.exit_code == (3 if code[:2] == "A1" else 2) and error.fix
    return error


def codes(merged: Merged) -> set[str]:
    return {f.code for f in merged.trace.findings}


# --- clocks ---------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    st.integers(0, 2**32),
    st.integers(2, 6),
    st.integers(6, 40),
    st.lists(
        st.integers(-20 * SECOND, 20 * SECOND) | st.sampled_from([0, 1, -3 * MS]),
        min_size=6,
        max_size=6,
    ),
    st.lists(st.integers(0, 2), min_size=6, max_size=6),
    st.booleans(),
)
def test_planted_clocks_are_found_again(
    seed: int, ranks: int, operations: int, ahead: list[int], cut: list[int], stated: bool
) -> None:
    start, end = run(ranks, operations, np.random.default_rng(seed))
    utc: dict[str, Any] = {} if stated else {"session_start_utc_ns": None}
    traces = [
        recorded(start[r], end[r], clock_ns=ahead[r], process=(r + 1) << 24, first=cut[r], **utc)
        for r in range(ranks)
    ]
    clocks = merge(traces).clocks
    for r in range(ranks):
        true = ahead[0] - ahead[r]
        low, high = clocks.low_ns[r], clocks.high_ns[r]
        assert low is not None and high is not None and low <= true <= high, "the bounds are sure"
        assert low <= clocks.shift_ns[r] <= high
        assert abs(int(clocks.shift_ns[r]) - true) <= 4 * US, "the ends tell more than the bounds"
    assert clocks.contradiction_ns == 0 and not clocks.drift.any()
    assert (clocks.skew_ns[:, 2] <= 4 * US).all()
    assert (clocks.collectives == operations - max(cut[:ranks])).all()


def test_clocks_that_agree_are_left_alone() -> None:
    start, end = run(4, 20, np.random.default_rng(1))
    merged = merge([recorded(start[r], end[r], process=(r + 1) << 24) for r in range(4)])
    assert not merged.clocks.shift_ns.any() and "P188" not in codes(merged)
    moved = merge(
        [recorded(start[r], end[r], clock_ns=r * 50 * US, process=(r + 1) << 24) for r in range(4)]
    )
    assert moved.clocks.shift_ns[0] == 0 and "P188" in codes(moved)


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.floats(5e-5, 5e-4), st.booleans(), st.integers(-SECOND, SECOND))
def test_a_planted_drift_is_found_again(seed: int, drift: float, slower: bool, ahead: int) -> None:
    start, end = run(3, 64, np.random.default_rng(seed))
    drift = -drift if slower else drift
    traces = [
        recorded(
            start[r],
            end[r],
            clock_ns=ahead * (r == 1),
            drift=drift * (r == 1),
            process=(r + 1) << 24,
        )
        for r in range(3)
    ]
    merged = merge(traces)
    assert (
        merged.clocks.drift[1] == pytest.approx(-drift, abs=3e-6)
        and not merged.clocks.drift[[0, 2]].any()
    )
    assert "P190" in codes(merged)
    kernels = merged.trace.kernels.filter(merged.trace.text(merged.trace.kernels) != "compute")
    ends = np.stack(
        [
            kernels.filter(pl.col("process") == p)["end_ns"].to_numpy()
            for p in ((r + 1) << 24 for r in range(3))
        ]
    )
    assert np.abs(ends - end).max() - np.abs(ends[0] - end[0]).min() <= 6 * US
    assert sound(merged.trace.tables, merged.trace.facts)[1] == []


def test_recordings_of_one_machine_share_its_clock() -> None:
    """However late one of them leaves its collectives; a recording of another machine is put beside
    both.
    """
    start, end = run(3, 64, np.random.default_rng(5))
    end[1] += np.random.default_rng(6).integers(0, 20 * MS, 64)
    boots, zeros = ["a" * 36, "a" * 36, "b" * 36], [7 * SECOND, 9 * SECOND, 5 * SECOND]
    # time of day of each recording's time 0, after the first one's
    base = np.array([0, 2 * SECOND, 0])
    utc = [UTC, UTC + 2 * SECOND + 350, UTC]
    ahead = [0, 0, 3 * MS]
    clocks = zip(boots, zeros, utc, strict=True)
    named = [
        {"boot": boot, "base_ns": zero, "session_start_utc_ns": began}
        for boot, zero, began in clocks
    ]
    traces = [recorded(start[r], end[r], clock_ns=ahead[r] - base[r], **named[r]) for r in range(3)]
    merged = merge(traces)
    processes = merged.trace.table("processes")
    assert processes["offset_ns"].to_list() == [0, 2 * SECOND, 0]
    assert (
        processes["shift_ns"].to_list()[:2] == [0, 0]
        and abs(processes["shift_ns"][2] + 3 * MS) < 20 * US
    )
    alone = merge(traces[:2], clock="recorded")
    assert alone.trace.table("processes")["collectives"].to_list() == [0, 0] and codes(alone) == {
        "P189"
    }
    assert codes(merge(traces[:2])) == {"P189"}
    for trace in traces:
        trace.facts.pop("boot")
    refused("A177", traces)


def test_a_drift_too_strong_for_any_clock_is_refused() -> None:
    start, end = run(2, 64, np.random.default_rng(5))
    assert (
        "bound"
        in refused(
            "A176",
            [recorded(start[r], end[r], drift=5e-3 * r, process=(r + 1) << 24) for r in range(2)],
        ).what
    )


def test_a_clock_that_jumps_is_refused() -> None:
    start, end = run(2, 40, np.random.default_rng(6))
    late = np.arange(40) >= 36
    jumped = recorded(start[1] + late * 30 * MS, end[1] + late * 30 * MS, process=2 << 24)
    error = refused("A176", [recorded(start[0], end[0]), jumped])
    assert "contradict" in error.found and "--max-skew" in error.fix
    assert (
        merge([recorded(start[0], end[0]), jumped], max_skew_ns=SECOND).clocks.contradiction_ns
        > 100 * US
    )


def test_the_bound_is_the_users() -> None:
    start, end = run(2, 30, np.random.default_rng(7), leave_ns=400 * US, length_ns=2 * MS)
    traces = [
        recorded(start[r], end[r], clock_ns=r * 10 * MS, process=(r + 1) << 24) for r in range(2)
    ]
    assert "may be off by" in refused("A176", traces).found
    assert abs(int(merge(traces, max_skew_ns=MS).clocks.shift_ns[1]) + 10 * MS) < 400 * US
    refused("A407", traces, max_skew_ns=0)


@pytest.mark.parametrize("what", ["Broadcast_RING_LL", "SendRecv"])
def test_operations_that_one_rank_may_always_leave_early(what: str) -> None:
    """The root of a broadcast is done before the others every time: that is no clock, and nothing
    may claim to know it better.
    """
    rng = np.random.default_rng(4)
    names = pl.Series(
        "name",
        [
            "compute",
            *[f"ncclDevKernel_{what}(ncclDevComm*, unsigned long, ncclWork*)"] * 2,
            "cudaLaunchKernel",
        ],
    )

    def ranks(length_ns: int, early_ns: int) -> list[Trace]:
        start, end = run(3, 40, rng, length_ns=length_ns)
        end[0] -= early_ns
        return [
            replace(recorded(start[r], end[r], process=(r + 1) << 24), names=names)
            for r in range(3)
        ]

    refused("A176", ranks(400 * US, 300 * US))
    clocks = merge(ranks(400 * US, 300 * US), max_skew_ns=MS).clocks
    assert not clocks.shift_ns.any(), "clocks that are stated stand"
    assert (clocks.uncertain_ns[1:] >= 300 * US).all()
    assert (merge(ranks(20 * US, 0)).clocks.uncertain_ns[1:] >= 20 * US).all()


def test_recordings_without_collectives_need_the_users_word() -> None:
    start, end = run(2, 30, np.random.default_rng(8))
    bare = [
        replace(
            recorded(start[r], end[r], process=(r + 1) << 24), names=pl.Series("name", list("abcd"))
        )
        for r in range(2)
    ]
    assert "1 of 2" in refused("A177", bare).found
    merged = merge(bare, clock="recorded")
    assert "P187" in codes(merged) and not merged.clocks.shift_ns.any()
    assert merged.rows[1]["shift_low_ns"] is None and merged.rows[1]["skew_p90_ns"] is None
    unstated = [replace(t, facts=facts(session_start_utc_ns=None)) for t in bare]
    refused("A179", unstated, clock="recorded")
    refused("A177", unstated)


def test_recorded_clocks_are_trusted_and_what_collectives_say_is_told() -> None:
    start, end = run(2, 30, np.random.default_rng(9))
    merged = merge(
        [recorded(start[r], end[r], clock_ns=r * 5 * MS, process=(r + 1) << 24) for r in range(2)],
        clock="recorded",
    )
    assert not merged.clocks.shift_ns.any()
    (told,) = [f.detail for f in merged.trace.findings if f.code == "P187"]
    assert "contradict" in told and "2 of 2" in told


def test_a_copy_of_a_recording_is_no_other_rank(tmp_path: Path) -> None:
    start, end = run(2, 20, np.random.default_rng(3))
    one, two = (recorded(start[r], end[r], process=(r + 1) << 24) for r in range(2))
    copied = replace(one, name="copy.sqlite", facts=facts(sha256="cd" * 32))
    assert "copy.sqlite" in refused("A405", [one, two, copied]).found
    one.to_parquet(tmp_path / "one")
    assert "one and rank0.sqlite" in refused("A405", [read(tmp_path / "one"), one, two]).found
    merge([one, two])


def test_two_runs_are_not_one() -> None:
    """The same program twice: all names agree, but the ends do not."""
    rng = np.random.default_rng(10)
    one, two = run(1, 60, rng), run(1, 60, rng)
    refused(
        "A177", [recorded(one[0][0], one[1][0]), recorded(two[0][0], two[1][0], process=2 << 24)]
    )


def test_operations_that_repeat_like_clockwork_need_clocks_that_agree() -> None:
    start = np.arange(1, 41) * 10 * MS
    traces = [
        recorded(start, start + 50 * US, process=1 << 24),
        recorded(start, start + 50 * US, clock_ns=4 * MS, process=2 << 24),
    ]
    only = [replace(t, names=pl.Series("name", ["compute", ALL, ALL, "call"])) for t in traces]
    refused("A177", only)
    near = [
        only[0],
        replace(
            recorded(start, start + 50 * US, clock_ns=40 * US, process=2 << 24), names=only[0].names
        ),
    ]
    assert merge(near).clocks.shift_ns[1] == -40 * US
    refused("A177", [replace(t, facts=facts(session_start_utc_ns=None)) for t in near])


def test_communicators_of_some_ranks_each() -> None:
    """Two pairs of ranks, tied by one communicator of all: each finds its own partner."""
    rng = np.random.default_rng(11)
    everyone, pairs = run(4, 12, rng), [run(2, 25, rng) for _ in range(2)]
    ahead = [0, 7 * MS, -3 * SECOND, 11 * US * 1000]
    traces = []
    for r in range(4):
        held = [everyone[0][r], everyone[1][r]], [pairs[r // 2][0][r % 2], pairs[r // 2][1][r % 2]]
        parts = [recorded(a, b, clock_ns=ahead[r], process=(r + 1) << 24) for a, b in held]
        parts[1] = replace(
            parts[1],
            tables={
                n: t.with_columns(stream=pl.col("stream") + 1) if "stream" in t.columns else t
                for n, t in parts[1].tables.items()
            },
        )
        tables = {
            n: pl.concat([p.tables[n] for p in parts]).sort("start_ns", maintain_order=True)
            for n in ("api", "kernels")
        }
        traces.append(replace(parts[0], tables=tables))
    clocks = merge(traces).clocks
    assert clocks.collectives.tolist() == [37] * 4
    assert [abs(int(s) + a) <= 4 * US for s, a in zip(clocks.shift_ns, ahead, strict=True)] == [
        True
    ] * 4


@given(st.integers(2, 7), st.integers(1, 9), st.integers(0, 2**32), st.booleans())
def test_the_middle_of_the_others(
    members: int, operations: int, seed: int, shared_file: bool
) -> None:
    """Without itself, with ties, with an even and an odd number of others."""
    ends = np.random.default_rng(seed).integers(0, 5, (members, operations)).astype(np.float64)
    file = np.arange(members)
    if shared_file and members > 2:
        file[1] = 0
    group = Group(file, ends.astype(np.int64), ends.astype(np.int64), np.ones(operations, np.bool_))
    slowly = np.stack([ends[i] - np.median(ends[file != file[i]], axis=0) for i in range(members)])
    assert np.array_equal(_from_others(group, ends), slowly)


# --- MPI ------------------------------------------------------------------------------------------

P = ~0xFFFFFF


def split(trace: Trace, ahead: Sequence[int]) -> list[Trace]:
    """A recording of several ranks as one file each, each on its own clock that no file states."""
    out = []
    for (thread, rank), by in zip(
        trace.mpi_ranks.select("thread", "rank").unique("rank", maintain_order=True).iter_rows(),
        ahead,
        strict=True,
    ):
        held = {}
        for name in trace.has:
            table = trace.table(name)
            if "process" in table.columns or "thread" in table.columns:
                of = pl.col("process") if "process" in table.columns else pl.col("thread") & P
                table = table.filter(of == thread & P)
            elif name == "mpi_communicators":
                table = table.filter(pl.col("rank") == rank)
            held[name] = table.with_columns(
                pl.col(c) + by for c in ("start_ns", "end_ns", "time_ns") if c in table.columns
            )
        told = {**trace.facts, "session_start_utc_ns": None, "analysis_duration_ns": None}
        out.append(Trace(held, trace.names, told, [], f"rank{rank}"))
    return out


@pytest.mark.parametrize(
    ("name", "ranks", "within_us"),
    [
        ("scorep-lammps-melt-8r", 8, 20),
        ("scorep-hpcc-4r", 4, 20),
        ("scorep-qe-si-4r", 4, 20),
        ("netpipe-2r", 2, 20),
    ],
)
def test_a_real_mpi_run_taken_apart_comes_together_again(
    shared: Path, name: str, ranks: int, within_us: int
) -> None:
    (path,) = (shared / "traces" / "otf2-local" / name).rglob("*.otf2")
    trace = read(path)
    ahead = [int(x) for x in np.random.default_rng(ranks).integers(-(10**9), 10**9, ranks)]
    merged = merge(split(trace, ahead))
    assert np.abs(merged.clocks.shift_ns + np.array(ahead) - ahead[0]).max() <= within_us * US
    assert [row["ranks"] for row in merged.rows] == [
        [r] for r in range(ranks)
    ] and "P189" not in codes(merged)
    assert merged.trace.mpi.height == trace.mpi.height
    assert merged.trace.mpi["size_bytes"].sum() == trace.mpi["size_bytes"].sum()
    assert traffic(merged.trace) == traffic(trace)


@pytest.mark.parametrize("name", ["scorep-halo-16r", "scorep-netpipe-2r"])
def test_stated_clocks_that_break_no_bound_stand_against_the_ends_of_mpi(
    shared: Path, name: str
) -> None:
    """Ranks that share a core leave every barrier late: that is no clock."""
    (path,) = (shared / "traces" / "otf2-local" / name).rglob("*.otf2")
    trace = read(path)
    ranks = trace.mpi_ranks["rank"].n_unique()
    parts = split(trace, [0] * ranks)
    one = [replace(part, facts={**part.facts, "session_start_utc_ns": UTC}) for part in parts]
    assert not merge(one, max_skew_ns=MS).clocks.shift_ns.any()
    two = [
        replace(part, facts={**part.facts, "session_start_utc_ns": UTC + k * 40 * MS})
        for k, part in enumerate(parts)
    ]
    assert (
        np.abs(merge(two, max_skew_ns=MS).clocks.shift_ns + np.arange(ranks) * 40 * MS).max()
        <= 100 * US
    )


# --- tables ---------------------------------------------------------------------------------------


def test_processes_of_one_number_are_kept_apart() -> None:
    start, end = run(3, 10, np.random.default_rng(12))
    traces = [recorded(start[r], end[r], clock_ns=r * MS) for r in range(3)]
    trace = merge(traces).trace
    processes = trace.processes
    assert (
        processes["process"].n_unique() == 3
        and processes["file"].to_list() == [0, 1, 2]
        and processes["rank"].to_list() == [0, 1, 2]
    )
    assert trace.text(processes).to_list() == [t.name for t in traces]
    for number, process in enumerate(processes["process"].to_list()):
        mine = trace.kernels.filter(pl.col("process") == process)
        assert mine["correlation"].to_list() == traces[number].kernels["correlation"].to_list()
        assert set((trace.api.filter(pl.col("process") == process)["thread"] & P).to_list()) == {
            process
        }
    assert trace.api["thread"].n_unique() == 3


def test_a_device_of_one_number_is_another_on_another_machine() -> None:
    """Kernels of rank 0 do not keep device 0 of rank 1 busy."""
    start, end = run(3, 20, np.random.default_rng(8))
    traces = [recorded(start[r], end[r], process=(r + 1) << 24) for r in range(3)]
    idle = [int(build(trace).activities["idle_device"].sum()) for trace in traces]
    assert min(idle) > 0 and int(build(merge(traces).trace).activities["idle_device"].sum()) == sum(
        idle
    )


def test_names_are_held_once_and_mean_what_they_meant() -> None:
    start, end = run(2, 10, np.random.default_rng(13))
    other = replace(
        recorded(start[1], end[1], process=2 << 24),
        names=pl.Series("name", ["mine alone", ALL, GATHER, "cudaLaunchKernel"]),
    )
    trace = merge([recorded(start[0], end[0]), other]).trace
    assert trace.names.n_unique() == len(trace.names)
    mine = trace.kernels.filter(pl.col("process") == 2 << 24)
    assert trace.text(mine).to_list() == other.text(other.kernels).to_list()
    assert trace.kernels["short_name"].null_count() == trace.kernels.height


def test_nothing_is_lost_and_all_is_in_order() -> None:
    start, end = run(2, 12, np.random.default_rng(14))
    one, two = (
        recorded(
            start[r],
            end[r],
            clock_ns=r * 3 * SECOND,
            process=(r + 1) << 24,
            session_start_utc_ns=UTC + r * 250,
        )
        for r in (0, 1)
    )
    bad = frame(
        "kernels", [{"start_ns": 50, "end_ns": 20}, {"start_ns": 2**60, "end_ns": 2**60 + 1}]
    )
    device = frame("devices", [{"device": 0, "name": "card"}])
    one = replace(
        one,
        tables={
            **one.tables,
            "kernels": pl.concat([bad[:1], one.kernels, bad[1:]]),
            "devices": device,
        },
    )
    two = replace(
        two,
        tables={
            **two.tables,
            "devices": device,
            "events": frame("events", [{"process": 2 << 24, "event": 5}]),
        },
    )
    trace = merge([one, two], name="both").trace
    aside = {f.code: f.count for f in trace.findings}
    assert aside["P101"] == aside["P103"] == 1
    assert (
        trace.kernels.height == one.kernels.height + two.kernels.height - 2
        and trace.api.height == 48
    )
    assert trace.kernels["start_ns"].is_sorted() and trace.api["start_ns"].is_sorted()
    assert trace.devices.height == 1 and trace.events["time_ns"].to_list() == [None]
    lengths = [
        (t["end_ns"] - t["start_ns"]).sort().to_list()
        for t in (trace.api, pl.concat([one.api, two.api]))
    ]
    assert lengths[0] == lengths[1]
    assert (
        trace.name == "both"
        and trace.facts["tables"] == {"T": 2}
        and trace.facts["format"] == "nsys"
    )
    assert [s["name"] for s in trace.facts["sources"]] == [one.name, two.name]
    assert trace.processes["offset_ns"].to_list() == [0, 250]
    mixed = merge(
        [one, replace(two, facts={**two.facts, "format": "kineto", "product_version": "2.4"})]
    ).trace
    assert mixed.facts["format"] == "turnbuckle" and mixed.facts["product_version"] is None


def test_the_folder_reads_back(tmp_path: Path) -> None:
    start, end = run(2, 12, np.random.default_rng(15))
    trace = merge(
        [
            recorded(
                start[r], end[r], clock_ns=r * MS, process=(r + 1) << 24, rank=1 - r, world_size=4
            )
            for r in range(2)
        ]
    ).trace
    trace.to_parquet(tmp_path)
    again = read(tmp_path)
    assert {n: t.height for n, t in again.tables.items()} == {
        n: t.height for n, t in trace.tables.items()
    }
    assert (
        all(again.table(n).equals(trace.table(n)) for n in trace.tables)
        and again.findings == trace.findings
    )
    assert again.processes["rank"].to_list() == [1, 0] and again.facts["world_size"] == 4
    run_time = build(again).run_time_ns
    (projection,) = Run.of(build(again)).project(["self"], draws=0).projections
    assert round(projection.seconds * 1e9) == run_time


# --- ranks and refusals ---------------------------------------------------------------------------


def test_ranks_that_are_told_and_ranks_that_follow_the_files() -> None:
    start, end = run(4, 10, np.random.default_rng(16))
    told = (None, 0, None, 2)
    merged = merge(
        [recorded(start[r], end[r], process=(r + 1) << 24, rank=told[r]) for r in range(4)]
    )
    assert [row["ranks"] for row in merged.rows] == [[1], [0], [3], [2]]
    assert {f.code: f.count for f in merged.trace.findings}["P189"] == 2


def test_what_is_not_of_one_run() -> None:
    start, end = run(2, 10, np.random.default_rng(17))

    def two(**second: Any) -> list[Trace]:
        return [
            recorded(start[0], end[0], rank=0, world_size=2),
            recorded(start[1], end[1], process=2 << 24, **{"rank": 1, **second}),
        ]

    assert merge(two(world_size=2)).rows
    assert "4 ranks" in refused("A178", two(world_size=4)).found
    assert "rank 0 twice" in refused("A178", two(rank=0)).found
    day = two(session_start_utc_ns=UTC + 86_400 * SECOND)
    assert "begins" in refused("A178", day).found
    second = two(session_start_utc_ns=UTC + 20 * SECOND)
    assert merge(second).clocks.shift_ns[1] == pytest.approx(-20 * SECOND, abs=4 * US)
    refused("A178", second, clock="recorded")
    refused("A405", two()[:1])
    refused("P062", [merge(two()).trace, *two()[1:]])


# --- real recordings ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dlrm(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Trace]:
    place = tmp_path_factory.mktemp("dlrm")
    with tarfile.open(
        shared / "traces" / "kineto" / "dlrm_8rank_v100" / "dlrm_kineto.tar.gz"
    ) as packed:
        packed.extractall(place, filter="data")
    return [read(path) for path in sorted(place.rglob("*.json"))]


def test_eight_ranks_of_dlrm(dlrm: list[Trace]) -> None:
    merged = merge(dlrm)
    assert [row["ranks"] for row in merged.rows] == [[r] for r in range(8)]
    assert not merged.clocks.shift_ns.any() and merged.clocks.contradiction_ns == 0, (
        "one machine, one clock"
    )
    assert merged.clocks.skew_ns.max() <= 5_000 and (merged.clocks.collectives == 8).all()
    assert merged.trace.kernels.height == sum(t.kernels.height for t in dlrm) == 2104
    assert merged.trace.copies["size_bytes"].sum() == sum(
        t.copies["size_bytes"].sum() for t in dlrm
    )
    times, off = ("start_ns", "end_ns", "time_ns"), []
    for k, t in enumerate(dlrm):
        later = {
            n: f.with_columns(pl.col(c) + k * 900 * MS for c in times if c in f.columns)
            for n, f in t.tables.items()
        }
        off.append(replace(t, tables=later))
    assert np.abs(merge(off).clocks.shift_ns + np.arange(8) * 900 * MS).max() <= 5_000


def test_two_ranks_of_a_solver_with_nccl(shared: Path) -> None:
    """Device clocks of two nvprof files run 10 parts in a million apart."""
    traces = [
        nvprof.read(path)
        for path in sorted((shared / "traces" / "nvprof" / "qcu_wilson_nccl_2rank").glob("*.nvvp"))
    ]
    merged = merge(traces)
    assert merged.clocks.drift[1] == pytest.approx(-1.007e-5, rel=0.02) and {
        "P188",
        "P189",
        "P190",
    } <= codes(merged)
    assert (
        merged.clocks.collectives.tolist() == [619, 619]
        and merged.clocks.skew_ns[:, 1].max() < 50 * US
    )
    assert merged.trace.kernels.height == 20_370
    assert "contradict" in refused("A176", traces, max_skew_ns=US).found


def test_a_solver_that_stages_through_the_host_shares_no_collective(shared: Path) -> None:
    traces = [
        nvprof.read(path)
        for path in sorted(
            (shared / "traces" / "nvprof" / "qcu_wilson_hoststaged_2rank").glob("*.nvvp")
        )
    ]
    refused("A177", traces)
    assert "P187" in codes(merge(traces, clock="recorded"))


# --- folders --------------------------------------------------------------------------------------


def kept(folder: Path, names: Sequence[str]) -> list[Path]:
    """Write one recording for each name into a folder, each of another rank."""
    start, end = run(len(names), 12, np.random.default_rng(7))
    places = [folder / name for name in names]
    for number, place in enumerate(places):
        recorded(
            start[number], end[number], clock_ns=number * 300 * US, process=(number + 1) << 24
        ).to_parquet(place)
    return places


def test_a_folder_of_ranks_is_their_merge(tmp_path: Path) -> None:
    """One answer: asked about the folder, and about what `merge` makes of its recordings in the
    order of their numbers.
    """
    names = [f"rank{number}.turnbuckle" for number in (0, 1, 2, 10)]
    places = kept(tmp_path, names)
    assert [p.name for p in recordings_in(tmp_path)] == names, "rank10 comes after rank2"
    whole, merged = Run.read(tmp_path), merge([read(place) for place in places]).trace
    assert (
        whole.trace.table("processes").drop("file").equals(merged.table("processes").drop("file"))
    )
    assert whole.trace.kernels.equals(merged.kernels) and whole.trace.name == tmp_path.name
    here, there = (
        r.project(on=["gh200"], draws=20)["gh200"] for r in (whole, Run.of(build(merged)))
    )
    assert (here.seconds, here.interval) == (there.seconds, there.interval)


def test_a_folder_is_not_taken_for_ranks_unless_its_files_say_so(tmp_path: Path) -> None:
    kept(tmp_path, ["rank0.turnbuckle"])
    refusals.refused("P002", read, tmp_path)
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.json").write_text("{}")
    refusals.refused("P013", read, tmp_path)  # what stands in a.json is told, by its name
    kept(tmp_path, ["rank1.turnbuckle"])
    assert not recordings_in(tmp_path), "two kinds: which is meant?"
    refusals.refused("P002", read, tmp_path)


def test_a_folder_of_two_runs_is_refused(tmp_path: Path) -> None:
    kept(tmp_path, ["a.turnbuckle"])
    start, end = run(1, 12, np.random.default_rng(8))
    later = recorded(
        start[0], end[0], process=2 << 24, session_start_utc_ns=UTC + 7 * 24 * 3600 * SECOND
    )
    later.to_parquet(tmp_path / "b.turnbuckle")
    refusals.refused("A178", read, tmp_path)


def test_two_real_ranks_in_their_folder(shared: Path) -> None:
    run = Run.read(shared / "traces/nvprof/qcu_wilson_nccl_2rank", use_cache=False)
    assert (
        run.trace.table("processes").height == 2
        and run.project(on=["self"], draws=0)["self"].seconds == run.judged.seconds
    )
