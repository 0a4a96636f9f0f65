"""The recorder's library, driven through the stand-in: what is recorded, what is delayed, and what
survives.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from recorder_bench import Bench, Ran, against, draws

from turnbuckle.foundation.schema import words
from turnbuckle.profile.classify import BOUNDARY_CLASSES, call_class
from turnbuckle.recorder import command as record
from turnbuckle.recorder import toolchain
from turnbuckle.trace.check import check, launch_pairs

ALL = "api,driver,kernel,memcpy,memset,sync,event,memory,overhead,stream,device,nvtx"
H2D, D2H, P2P = (words("directions").index(word) for word in ("h2d", "d2h", "p2p"))
PAGEABLE, PINNED, DEVICE, MANAGED = (
    words("memories").index(word) for word in ("pageable", "pinned", "device", "managed")
)
Run = Callable[..., Ran]


def test_it_builds_against_the_real_cupti_loads_and_refuses_without_a_driver(
    real: toolchain.Cupti, tmp_path: Path
) -> None:
    library = tmp_path / toolchain.LIBRARY
    toolchain.build(real, library)
    start = (
        f"import ctypes; it = ctypes.CDLL({str(library)!r}); print(it.InitializeInjection(), "
        "it.tb_status())"
    )
    env = {**os.environ, "TB_TRACE": str(tmp_path / "%p.trace.csv")}
    done = subprocess.run(
        [sys.executable, "-c", start], env=env, capture_output=True, text=True, check=True
    )
    first, status = map(int, done.stdout.split())
    (path,) = tmp_path.glob("*.trace.csv")
    if status == 0:
        return  # a machine with a GPU records
    assert first == 1 and "neither recorded nor delayed" in done.stderr
    assert f"#refused {status} " in path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def asked(
    real: toolchain.Cupti, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., list[list[str]]]:
    """What NVIDIA's own CUPTI says, in words."""
    program = tmp_path_factory.mktemp("real") / "real_cupti"
    linked = (
        Path(__file__).with_name("real_cupti.c"),
        real.library,
        f"-Wl,-rpath,{real.library.parent}",
        "-ldl",
        "-o",
        program,
    )
    subprocess.run([*against(real), *linked], check=True)

    def ask(*words: object) -> list[list[str]]:
        done = subprocess.run(
            [program, *map(str, words)], capture_output=True, text=True, check=True, timeout=60
        )
        return [line.split() for line in done.stdout.splitlines()]

    return ask


def test_the_records_have_the_lengths_that_cupti_steps_by(
    asked: Callable[..., list[list[str]]],
) -> None:
    """The newest record of the header is the one that its library writes: CUPTI's own iterator says
    so.

    That of CUDA 13.0 and older says it anywhere; newer ones want a driver, and say nothing (-1)
    without.
    """
    said = asked("lengths")
    assert len(said) == 17 and len({name for name, *_ in said}) == 17
    assert [name for name, ours, theirs in said[:15] if theirs not in (ours, "-1")] == []
    invalid_kind, unknown, max_limit = "21", "999", "12"
    assert said[15][1] in (invalid_kind, unknown) and said[16][1] in (max_limit, unknown)


def test_nvtx_is_handed_on_to_cupti(
    asked: Callable[..., list[list[str]]], real: toolchain.Cupti, tmp_path: Path
) -> None:
    library = tmp_path / toolchain.LIBRARY
    toolchain.build(real, library)
    through, direct = asked("nvtx", library)[-1]
    assert through == direct != "-1"


def test_calls_kernels_and_copies_as_they_were(ran: Run) -> None:
    trace = ran("loop", 30).trace()
    assert {n: f.height for n, f in trace.tables.items()} == {
        "api": 2 * (30 * 4 + 2),
        "kernels": 30,
        "copies": 60,
        "syncs": 30,
        "allocations": 2,
        "devices": 1,
    }
    kernels = trace.kernels
    assert (kernels["end_ns"] - kernels["start_ns"]).unique().to_list() == [5000]
    assert kernels.select("blocks", "threads", "registers", "shared_bytes").unique().row(0) == (
        16,
        128,
        24,
        64,
    )
    # names as their authors wrote them, with a short one beside
    assert set(trace.text(kernels)) == {"chain(float*, long)", "odd"} and set(
        trace.text(kernels, "short_name")
    ) == {"chain", "odd"}
    copies = (
        trace.copies.group_by("direction", "source_memory", "target_memory", "size_bytes")
        .len()
        .sort("direction")
    )
    assert copies.rows() == [(H2D, PAGEABLE, DEVICE, 4096, 30), (D2H, DEVICE, PAGEABLE, 1024, 30)]
    assert trace.allocations.select("operation", "size_bytes", "memory").rows() == [
        (0, 1 << 16, DEVICE),
        (1, None, DEVICE),
    ]
    assert trace.allocations["address"].n_unique() == 1 and trace.allocations[
        "context"
    ].to_list() == [1, 1]
    # every record of the device finds its call, on one clock
    pairs = launch_pairs(trace.tables)
    assert pairs.height == 90 and {
        f.code for f in check(trace.tables, trace.facts, trace.names)
    } == {"P126"}
    assert trace.devices.select("name", "memory_bytes", "clock_hz", "compute_major").row(0) == (
        'Stand-in "GPU" #end',
        16 << 30,
        1_500_000_000,
        9,
    )


def test_made_up_time_is_kept_to_the_nanosecond(ran: Run) -> None:
    result = ran("loop", 1, TB_FLUSH_MS="0", TB_CLOCK="monotonic")
    calls = result.trace().api.filter(pl.col("level") == 0)
    # allocation, copy in, launch, copy out (behind the kernel), wait, release, each with 100 ns of
    # the program before it
    copied = 2500 + 5000 + 1200 + 50 + 1000 - 3000 - 100
    assert (calls["end_ns"] - calls["start_ns"]).to_list() == [
        1000,
        2500 + 1200 + 200 + 1000,
        3000,
        copied,
        1500,
        1000,
    ]
    assert (
        calls["start_ns"].diff().drop_nulls() - (calls["end_ns"] - calls["start_ns"]).head(5)
    ).to_list() == [100] * 5
    utc, monotonic = (
        result.trace().facts["session_start_utc_ns"],
        int(result.facts("clock")[0].split()[0]),
    )
    assert utc > monotonic and utc % 10 == 0


def test_streams_and_events_join(ran: Run, real: toolchain.Cupti) -> None:
    trace = ran("overlapped", 5).trace()
    assert trace.streams.select("stream", "kind", "priority").rows() == [(13, 2, -1), (14, 2, -1)]
    waits = trace.syncs.filter(pl.col("sync_type") == 2)
    # which record of an event is waited for is told since CUDA 12.8
    told = ["event_record"] if real.version >= 26 else []
    joined = waits.join(
        trace.events.unique(["event", *told]), on=["process", "event", *told], how="inner"
    )
    assert (
        joined.height == waits.height == 5
        and joined["stream"].unique().to_list() == [14]
        and joined["stream_right"].unique().to_list() == [13]
    )
    assert trace.syncs.group_by("sync_type").len().sort("sync_type").rows() == [
        (1, 1),
        (2, 5),
        (3, 5),
        (4, 1),
    ]
    peer = trace.copies.filter(pl.col("direction") == P2P)
    assert peer.select("source_device", "target_device", "size_bytes").rows() == [(0, 1, 512)]
    assert set(trace.copies.filter(pl.col("direction") == H2D)["source_memory"]) == {PINNED}
    assert trace.memsets.select("size_bytes", "memory").rows() == [(256, DEVICE)]
    # memory of the host is of no context
    assert trace.allocations.select("memory", "context").rows() == [(DEVICE, 1), (PINNED, None)]


def test_graphs_by_node_and_whole(ran: Run) -> None:
    nodes = ran("graphs", 4).trace()
    assert (
        nodes.kernels.height == 12
        and sorted(nodes.kernels["graph_node"].unique()) == [1, 2, 3]
        and "graphs" not in nodes.tables
    )
    whole = ran("graphs", 4, TB_KINDS=f"{ALL},graph").trace()
    assert (
        whole.graphs.height == 4
        and "kernels" not in whole.tables
        and whole.graphs["graph"].unique().to_list() == [3]
    )


def test_unified_memory_ranges_and_overheads(ran: Run) -> None:
    result = ran("other", TB_KINDS=f"{ALL},uvm")
    trace = result.trace()
    assert trace.copies.select(
        pl.col("direction").replace_strict(dict(enumerate(words("directions")))),
        "size_bytes",
        "cause",
    ).rows() == [
        ("migration_h2d", 65536, 3),
        ("migration_d2h", 4096, 2),
        ("migration_d2d", 8192, 1),
    ]
    assert trace.page_faults.select("device", "count", pl.col("end_ns").is_null()).rows() == [
        (None, 1, True),
        (0, 12, False),
    ]
    ranges = trace.ranges.with_columns(text=trace.text(trace.ranges)).select(
        "text", "kind", "domain", pl.col("end_ns").is_null()
    )
    assert ranges.rows() == [
        ("step #end  [31m", 59, 0, False),
        ("solve", 59, 1, False),
        ("here", 34, 0, True),
    ]
    inner, outer = (trace.ranges.row(i, named=True) for i in (1, 0))
    assert (
        outer["start_ns"] < inner["start_ns"] < inner["end_ns"] < outer["end_ns"]
        and outer["thread"] == trace.api["thread"][0]
    )
    assert trace.overheads.select("kind", length=pl.col("end_ns") - pl.col("start_ns")).rows() == [
        (3, 2000),
        (4, 500),
    ]
    assert trace.allocations["memory"].to_list() == [MANAGED]
    # a range that never ended, and a counter of thrashing that no table holds
    assert result.codes() == {"P164": 1, "P194": 1}
    assert "page_faults" not in ran("other").trace().tables


def test_threads_lose_nothing(ran: Run) -> None:
    trace = ran("threads", 200, TB_FLUSH_MS="1").trace()
    assert (
        trace.kernels.height == 1600
        and trace.copies.height == 3200
        and trace.api.height == 2 * 8 * (200 * 4 + 2)
    )
    assert (
        trace.api["thread"].n_unique() == 8
        and trace.api.filter(pl.col("level") == 0)["correlation"].n_unique() == 8 * 802
    )
    assert (
        trace.facts["recorder"]["records"] == sum(trace.facts["tables"].values())
        and not trace.findings
    )


def test_many_records_fill_few_buffers_again_and_again(ran: Run) -> None:
    result = ran("loop", 30_000)
    assert result.trace().facts["tables"] == {
        "calls": 120_002,
        "driver calls": 120_002,
        "kernels": 30_000,
        "copies": 60_000,
        "waits": 30_000,
        "allocations": 2,
    }
    assert int(result.facts("buffers")[0].split()[0].removeprefix("most=")) <= 2


def test_memory_is_bounded_and_what_has_no_room_is_counted(ran: Run, real: toolchain.Cupti) -> None:
    free = ran("loop", 4000, STANDIN_HOLD="64", TB_FLUSH_MS="0")
    tight = ran("loop", 4000, STANDIN_HOLD="64", TB_FLUSH_MS="0", TB_MEMORY_MB="2")
    whole, kept = (sum(r.trace().facts["tables"].values()) for r in (free, tight))
    assert free.codes() == {} and whole == 4000 * 12 + 6
    # without a buffer such a CUPTI ends the program: it gets one beyond the bound, and that is told
    if real.version < 28:
        assert (
            kept == whole
            and tight.codes() == {}
            and int(tight.facts("buffers")[0].rpartition("=")[2]) > 0
        )
        return
    assert 2 << 20 > kept * 40 > 1 << 20, "the shortest record has 40 bytes"
    assert tight.codes()["P192"] == whole - kept and tight.facts("buffers")[0].startswith(
        "most=2 bytes=1048576 refused="
    )
    assert tight.code == 0


@pytest.mark.parametrize(
    ("how", "code"), [("segv", -11), ("abort", -6), ("kill", -9), ("_exit", 7)]
)
def test_what_was_flushed_survives_the_programs_end(ran: Run, how: str, code: int) -> None:
    result = ran("ends", 3, how, TB_FLUSH_MS="50")
    assert result.code == code and result.codes() == {"P191": 1}
    trace = result.trace()
    # the first twenty turns came before a flush
    assert 20 <= trace.kernels.height <= 23 and trace.facts["analysis_duration_ns"] is None
    assert result.files[0].read_bytes().endswith(b"\n")


def test_an_ordinary_exit_flushes_everything(ran: Run) -> None:
    result = ran("ends", 3, "exit", TB_FLUSH_MS="50")
    assert result.code == 7 and result.codes() == {} and result.trace().kernels.height == 23


def test_device_reset_loses_nothing(ran: Run) -> None:
    assert ran("reset", 6, TB_FLUSH_MS="0").trace().kernels.height == 12


def test_a_child_of_fork_leaves_its_parents_file_alone_and_what_it_executes_records(
    ran: Run,
) -> None:
    result = ran("fork", 5)
    assert len(result.files) == 2 and result.codes() == {}
    trace = result.trace()
    assert (
        sorted(trace.kernels["process"].value_counts()["count"]) == [5, 10]
        and trace.facts["recorder"]["processes"] == 2
    )
    assert trace.api["thread"].n_unique() == 2
    # a thread's number has its process's in front
    assert trace.api.filter(
        pl.col("thread") // (1 << 24) * (1 << 24) != pl.col("process")
    ).is_empty()


def test_children_that_start_cuda_themselves_have_files_of_their_own(ran: Run) -> None:
    result = ran("forked", 5)
    assert len(result.files) == 2 and sorted(
        result.trace().kernels["process"].value_counts()["count"]
    ) == [5, 6]


def test_a_program_that_executes_another_keeps_both_recordings_apart(ran: Run) -> None:
    result = ran("exec", 5, TB_FLUSH_MS="0")
    assert (
        len(result.files) == 2 and len({path.name.split(".")[0] for path in result.files}) == 1
    ), "one process id, two files"
    assert result.codes() == {"P191": 1} and result.trace().kernels.height == 5


# --- delays ---------------------------------------------------------------------------------------


def test_every_crossing_call_waits_once_by_exactly_the_delay(ran: Run) -> None:
    slow = ran("loop", 20, TB_SLACK_NS="1230", TB_FLUSH_MS="0")
    trace = slow.trace()
    counts = {"launch": 20, "copy": 40, "sync": 20, "alloc": 2}
    waits = {f"calls {c}": n for c, n in counts.items()} | {
        f"waited_ns {c}": n * 1230 for c, n in counts.items()
    }
    assert trace.facts["slack"] == {"delay_ns": 1230, "before": 0, **waits}
    delays = trace.overheads.filter(pl.col("kind") == 100)
    assert delays.height == 82 and (delays["end_ns"] - delays["start_ns"]).unique().to_list() == [
        1230
    ]
    assert slow.codes() == {"P193": 82} and "launch 20" in slow.trace().findings[0].detail


def test_the_delay_is_in_the_programs_own_time(ran: Run) -> None:
    # nothing runs on the device while these calls end, so nothing hides their delay; the last
    # call's comes after it
    both = [
        ran("loop", 20, TB_SLACK_NS=ns, TB_SLACK_CLASSES="sync,alloc", TB_FLUSH_MS="0").trace().api
        for ns in ("0", "50000")
    ]
    free, slow = (int(calls["end_ns"].max()) for calls in both)  # type: ignore[arg-type]
    assert slow - free == 21 * (50_000 + 10), "a delay, and the look at the clock before it"


def test_before_the_call_and_of_one_class_alone(ran: Run) -> None:
    trace = ran(
        "loop",
        20,
        TB_SLACK_NS="700",
        TB_SLACK_WHERE="before",
        TB_SLACK_CLASSES="sync",
        TB_FLUSH_MS="0",
    ).trace()
    assert trace.facts["slack"] == {
        "delay_ns": 700,
        "before": 1,
        "calls sync": 20,
        "waited_ns sync": 14_000,
    }
    waits = trace.api.filter(
        pl.col("level") == 0, trace.text(trace.api) == "cudaDeviceSynchronize_v3020"
    )
    delays = trace.overheads.filter(pl.col("kind") == 100)
    assert (waits["start_ns"] - delays["end_ns"]).is_between(0, 30).all()


def test_random_delays_are_the_sequence_of_seed_rank_and_thread(ran: Run) -> None:
    jitter = {"TB_JITTER_FROM_NS": "200", "TB_JITTER_TO_NS": "9000", "TB_FLUSH_MS": "0"}
    sequences = {}
    for seed, rank, fixed in ((7, 0, 0), (7, 3, 0), (8, 0, 0), (7, 0, 500)):
        settings = {
            **jitter,
            "TB_JITTER_SEED": str(seed),
            "PMI_RANK": str(rank),
            **({"TB_SLACK_NS": str(fixed)} if fixed else {}),
        }
        result = ran("loop", 20, **settings)
        trace, drawn = result.trace(), draws(seed, 0, 200, 9000, 82, rank)
        delays = trace.overheads.filter(pl.col("kind") == 100).sort("start_ns")
        lengths = (delays["end_ns"] - delays["start_ns"]).to_list()
        # the stand-in's clock moves by 10 ns a look: a spin ends on the first tick at or behind its
        # length
        assert lengths == [-(-(fixed + length) // 10) * 10 for length in drawn]
        assert trace.facts["slack"]["delay_ns"] == fixed and trace.facts["slack"][
            "jitter_ns"
        ] == sum(drawn)
        assert result.facts("jitter") == [f"200 9000 {seed}"] and result.codes() == {"P193": 82}
        sequences[seed, rank, fixed] = drawn
    assert (
        sequences[7, 0, 0] == sequences[7, 0, 500]
        and sequences[7, 0, 0] != sequences[7, 3, 0] != sequences[8, 0, 0]
    )
    # eight threads of 14 calls each draw the first eight sequences, in whatever order the threads
    # began
    slack = ran("threads", 3, TB_JITTER_SEED="7", **jitter).trace().facts["slack"]
    assert slack["jitter_ns"] == sum(sum(draws(7, thread, 200, 9000, 14)) for thread in range(8))


@pytest.mark.parametrize("flush_ms", ["0", "1000"])
def test_many_delays_are_written_or_counted(ran: Run, flush_ms: str) -> None:
    result = ran("threads", 6000, TB_SLACK_NS="10", TB_FLUSH_MS=flush_ms, TB_KINDS="kernel")
    trace, calls = result.trace(), 8 * (4 * 6000 + 2)
    unwritten = sum(int(line) for line in result.facts("slack_unwritten"))
    assert (
        sum(n for key, n in trace.facts["slack"].items() if key.startswith("calls "))
        == calls
        > 1 << 17
    )
    assert trace.overheads.height + unwritten == calls and trace.overheads.height > 1 << 16
    assert result.codes().get("P192", 0) == unwritten and trace.overheads["thread"].n_unique() == 8


def test_a_delay_of_nothing_counts(ran: Run) -> None:
    result = ran("loop", 5, TB_SLACK_NS="0")
    assert (
        "launch calls=5 waited_ns=0" in result.facts("slack_total")
        and "slack" not in result.trace().facts
    )
    assert "P193" not in result.codes()


def test_marks_window_and_a_delay_that_the_program_changes(ran: Run, tmp_path: Path) -> None:
    counts = tmp_path / "counts.json"
    result = ran("marks", 4, TB_SLACK_NS="0", TB_WINDOW="1", TB_SLACK_STATS=str(counts))
    assert result.out == "0 1\n", "a delay that no sum with the clock holds is refused"
    assert result.trace().kernels.height == 4 and counts.stat().st_mode & 0o777 == 0o600
    assert [line.split()[1] for line in result.facts("mark")] == ["loop_begin", "loop_end"]
    found = json.loads(counts.read_text(encoding="utf-8"))
    before, after = (mark["calls"] for mark in found["marks"])
    assert after["launch"] - before["launch"] == 4 and found["waited_ns"]["launch"] == 8 * 500
    assert "the program changed it" in next(
        f.detail for f in result.trace().findings if f.code == "P193"
    )


BEFORE = {"TB_SLACK_NS": "700", "TB_SLACK_CLASSES": "copy", "TB_SLACK_WHERE": "before"}


@pytest.mark.parametrize("slack", [{}, BEFORE], ids=["alone", "with delays"])
def test_blocking_copies_return_no_earlier_than_a_slower_link_would(
    ran: Run, slack: dict[str, str]
) -> None:
    """By the stand-in's clock: what a call took is its own time and a few ticks; what is missing to
    bytes by bandwidth is waited.
    """
    looks, rate = 4 * 10, 50_000_000
    plain, slow = (
        ran("loop", 20, TB_FLUSH_MS="0", **slack, **link)
        for link in ({}, {"TB_LINK_BANDWIDTH": str(rate)})
    )
    trace = slow.trace()
    calls = trace.api.filter(
        pl.col("level") == 0, trace.text(trace.api) == "cudaMemcpy_v3020"
    ).sort("start_ns")
    took = (calls["end_ns"] - calls["start_ns"]).to_list()
    link, every = trace.facts["link"], 0
    for way, first, size in (("h2d", 0, 4096), ("d2h", 1, 1024)):
        missing, waited = link[f"missing_ns {way}"], link[f"waited_ns {way}"]
        assert (link[f"copies {way}"], link[f"bytes {way}"]) == (20, 20 * size)
        assert 0 <= 20 * size * 1_000_000_000 // rate - sum(took[first::2]) - missing <= 20 * looks
        assert missing <= waited < missing + 20 * 10, "spun to the next tick"
        every += waited
    assert link["missed"] == 0 and slow.codes()["P211"] == 40 and "P211" not in plain.codes()
    # nothing else in the program takes longer; what a copy waits behind itself its successor no
    # longer waits for
    spans = [result.trace().api["end_ns"].max() for result in (plain, slow)]
    assert 0 < spans[1] - spans[0] <= every + 40 * looks  # type: ignore[operator]
    assert trace.overheads.filter(pl.col("kind") == 100).height == (40 if slack else 0)


def test_copies_that_do_not_block_are_counted_and_left(ran: Run) -> None:
    result = ran("overlapped", 5, TB_LINK_BANDWIDTH="1000000", TB_FLUSH_MS="0")
    assert result.trace().facts["link"] == {"bandwidth": 1_000_000, "missed": 5}
    (told,) = (f for f in result.trace().findings if f.code == "P211")
    assert told.detail == "1,000,000 B/s: 5 not limited"


@pytest.mark.parametrize("there", ["a link", "a link to nowhere", "a file"])
def test_counts_never_go_into_a_file_that_is_there(ran: Run, tmp_path: Path, there: str) -> None:
    counts, other = tmp_path / "counts.json", tmp_path / "other"
    if there != "a link to nowhere":
        other.write_text("another's")
    if there == "a file":
        other.rename(counts)
    else:
        counts.symlink_to(other)
    result = ran("loop", 2, TB_SLACK_NS="0", TB_SLACK_STATS=str(counts))
    assert (
        result.code == 0
        and "the counts of delayed calls cannot be written: File exists" in result.err
    )
    if there == "a link to nowhere":
        assert not other.exists()
    else:
        assert counts.read_text() == "another's"


def test_the_longest_delay_is_that_of_the_option(ran: Run) -> None:
    longest = record._delays(f"{record._LONGEST_DELAY}s", None, None, None, "after")["TB_SLACK_NS"]
    settings = {"TB_SLACK_CLASSES": "memset"}  # the program has none, or it would wait
    assert ran("print", "x", TB_SLACK_NS=longest, **settings).err == ""
    assert "is not a number" in ran("print", "x", TB_SLACK_NS=str(int(longest) + 1), **settings).err


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"TB_SLACK_NS": "soon"}, "TB_SLACK_NS is not a number"),
        ({"TB_SLACK_NS": "-1"}, "TB_SLACK_NS is not a number"),
        ({"TB_SLACK_NS": "100000000001"}, "TB_SLACK_NS is not a number from 0 to 100000000000"),
        ({"TB_SLACK_NS": str(2**63 - 1)}, "TB_SLACK_NS is not a number from 0 to 100000000000"),
        ({"TB_SLACK_NS": str(2**64 + 5)}, "TB_SLACK_NS is not a number from 0 to 100000000000"),
        ({"TB_SLACK_NS": "10", "TB_SLACK_CLASSES": "launch,lunch"}, "unknown class"),
        ({"TB_SLACK_NS": "10", "TB_SLACK_WHERE": "during"}, "neither before nor after"),
        ({"TB_KINDS": "api,apu"}, "unknown kind"),
        ({"TB_MEMORY_MB": "much"}, "TB_MEMORY_MB"),
        ({"TB_CLOCK": "sundial"}, "TB_CLOCK"),
        ({"TB_FLUSH_MS": "-5"}, "TB_FLUSH_MS"),
        ({"TB_FLUSH_MS": str(2**64 + 5)}, "TB_FLUSH_MS is not a number from 0 to 1048576"),
        ({"STANDIN_REFUSE": "39"}, "MULTIPLE_SUBSCRIBERS"),
        ({"STANDIN_VERSION": "120000"}, "another version of CUPTI"),
    ],
)
def test_what_cannot_be_done_is_said_and_never_passes_for_done(
    ran: Run, settings: dict[str, str], says: str
) -> None:
    result = ran("print", "it goes on", **settings)
    assert result.code == 0 and result.out == "it goes on\n", "the program itself must go on"
    assert (
        says in result.err
        and says in result.facts("refused")[0]
        and not re.search(r"^[A-Z],", result.files[0].read_text(encoding="utf-8"), re.M)
    )


def test_a_kind_that_is_refused_is_told(ran: Run) -> None:
    result = ran("overlapped", 3, STANDIN_NO_KIND="36")
    assert (
        "event is not recorded" in result.err
        and result.codes() == {"P194": 1}
        and "events" not in result.trace().tables
    )


def test_what_is_of_no_kind_or_not_complete_is_counted(ran: Run) -> None:
    """One record that nobody asked for, and one that CUPTI cannot step over: what lies behind it in
    its buffer is lost.
    """
    result = ran("strange", 2)
    assert result.codes() == {"P127": 1, "P194": 2} and "streams" not in result.trace().tables
    (lost,) = result.facts("unread")
    assert int(lost.removeprefix("bytes=")) >= 2 * 24


def test_cuptis_own_clock_gives_the_same_recording(ran: Run) -> None:
    """Where CUPTI does not take our clock well, its own is told apart from it by what the recorder
    saw of both.
    """
    clocks = {
        clock: ran("other", TB_CLOCK=clock, TB_KINDS=f"{ALL},uvm", TB_FLUSH_MS="0")
        for clock in ("monotonic", "cupti")
    }
    ours, theirs = (result.trace() for result in clocks.values())
    assert [result.facts("timebase") for result in clocks.values()] == [["monotonic"], ["cupti"]]
    raw = [
        next(
            int(row.split(",")[1]) for row in r.files[0].read_text().splitlines() if row[:2] == "K,"
        )
        for r in clocks.values()
    ]
    assert abs(raw[1] - raw[0] - 1_700_000_000_000_000_000) < 1000, "what lies in the files"
    for table in ("api", "kernels", "ranges", "copies", "overheads"):
        starts = [trace.tables[table]["start_ns"] for trace in (ours, theirs)]
        assert ((starts[0] - starts[1]).abs() <= 200).all(), table
    assert clocks["cupti"].codes() == clocks["monotonic"].codes()


def test_delays_and_marks_stay_beside_their_calls_on_cuptis_clock(ran: Run) -> None:
    slow = ran(
        "loop",
        20,
        TB_CLOCK="cupti",
        TB_SLACK_NS="700",
        TB_SLACK_WHERE="before",
        TB_SLACK_CLASSES="sync",
        TB_FLUSH_MS="0",
    ).trace()
    waits = slow.api.filter(
        pl.col("level") == 0, slow.text(slow.api) == "cudaDeviceSynchronize_v3020"
    )
    delays = slow.overheads.filter(pl.col("kind") == 100)
    assert (
        delays.height == waits.height == 20
        and (waits["start_ns"] - delays["end_ns"]).is_between(-200, 230).all()
    )


def test_cupti_is_told_our_clock_only_where_it_takes_it_well(bench: Bench) -> None:
    """NVIDIA: from CUDA 12.6 update 2 on kernels could have the time 0, mended in 13.1."""
    safe = ctypes.CDLL(str(bench.library)).tb_own_clock_is_safe
    assert [
        bool(safe(version)) for version in (18, 22, 24, 26, 28, 130000, 130001, 130100, 130500)
    ] == [1, 1, 0, 0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("signal", ["", "trap '' XFSZ; "], ids=["fatal", "ignored"])
def test_a_file_that_cannot_grow_ends_on_a_whole_record_or_is_salvaged(
    bench: Bench, tmp_path: Path, signal: str
) -> None:
    words = f"{signal}ulimit -f 64; exec {bench.program} loop 3000"
    env = {
        **os.environ,
        "CUDA_INJECTION64_PATH": str(bench.library),
        "TB_TRACE": str(tmp_path / "%p.trace.csv"),
    }
    done = subprocess.run(["sh", "-c", words], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "the recording ends here" in done.stderr
    result = Ran(0, "", "", list(tmp_path.glob("*.trace.csv")))
    trace, codes = result.trace(), result.codes()
    assert codes.keys() == {"P191", "P192"} and 20 < trace.kernels.height < 3000
    # what is there and what is told to be missing make up the whole: 12 records a turn of the loop,
    # and what surrounds it
    assert codes["P192"] + trace.facts["recorder"]["records"] == pytest.approx(12 * 3000, abs=40)
    assert "because the file could not grow" in next(
        f.detail for f in trace.findings if f.code == "P192"
    )


def test_nothing_of_the_environment_or_the_command_line_is_written(ran: Run) -> None:
    result = ran(
        "print",
        "argument-secret",
        SECRET_TOKEN="environment-secret",
        OMPI_COMM_WORLD_RANK="3",
        OMPI_COMM_WORLD_SIZE="8",
    )
    text = result.files[0].read_text(encoding="utf-8")
    assert (
        "secret" not in text
        and os.uname().nodename not in text
        and str(Path.home()) not in text
        and "/" not in text
    )
    trace = result.trace()
    assert (trace.facts["rank"], trace.facts["world_size"]) == (3, 8) and trace.mpi_ranks[
        "rank"
    ].to_list() == [3]


def test_classes_of_every_call_of_cuda_are_turnbuckles(bench: Bench, real: toolchain.Cupti) -> None:
    library = ctypes.CDLL(str(bench.library))
    library.tb_classify.restype, library.tb_classify.argtypes = ctypes.c_char_p, [ctypes.c_char_p]
    text = "".join(
        (real.includes[0] / f"cupti_{level}_cbid.h").read_text(encoding="utf-8")
        for level in ("runtime", "driver")
    )
    names = set(re.findall(r"TRACE_CBID_(\w+)\s*=", text))
    assert len(names) > 700
    wrong = {
        n: found
        for n in names
        if (found := library.tb_classify(n.encode()).decode()) != call_class(n)
    }
    assert wrong == {}
    assert {library.tb_classify(n.encode()).decode() for n in names} >= set(BOUNDARY_CLASSES)
