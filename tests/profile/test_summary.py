"""Questions about a profile, on runs small enough to answer by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from rows import OTHER, PROCESS, THREAD, Row, allocation, call, copy, on_device, profile_of
from strategies import (
    D2D,
    D2H,
    DEVICE,
    H2D,
    LAW,
    MIGRATION_D2H,
    MIGRATION_H2D,
    NAMES,
    P2P,
    PAGEABLE,
    PINNED,
    gpu_traces,
    soups,
)

from turnbuckle.profile.pieces import pieces
from turnbuckle.profile.profile import build
from turnbuckle.profile.source import observed_machine
from turnbuckle.profile.summary import summary
from turnbuckle.profile.summary.describe import describe, transfer_distribution
from turnbuckle.profile.summary.offload import offload_map
from turnbuckle.profile.summary.placement import nic_bound
from turnbuckle.profile.summary.start_up import start_up
from turnbuckle.trace.trace import Trace

# --- launches -------------------------------------------------------------------------------------


def test_two_launch_costs() -> None:
    """How long the call keeps the host, and how long the idle device waits for its kernel."""
    seen = profile_of(
        api=[
            call(1_000, 5_000, 1),
            call(20_000, 26_000, 2),
            call(26_000, 28_000, 3),
            call(60_000, 61_000, 4, "cudaMemcpyAsync"),
        ],
        kernels=[
            on_device(8_000, 9_000, 1),
            on_device(30_000, 50_000, 2),
            on_device(50_000, 51_000, 3),
        ],
        copies=[copy(62_000, 63_000, correlation=4)],
    )
    found = summary.launch(seen)
    assert (found["count"], found["call_median_ns"], found["call_p95_ns"]) == (3, 4_000, 5_800)
    assert (found["idle_count"], found["latency_median_ns"]) == (2, 8_500), (
        "7 000 and 10 000; the third kernel waits behind the second"
    )
    busy = profile_of(
        api=[call(1_000, 5_000, 1), call(10_000, 12_000, 2)],
        kernels=[on_device(8_000, 30_000, 1), on_device(30_000, 40_000, 2)],
    )
    assert (summary.launch(busy)["idle_count"], summary.launch(busy)["latency_median_ns"]) == (
        1,
        7_000,
    )


def test_a_kernel_that_begins_before_its_call_returns() -> None:
    seen = profile_of(api=[call(1_000, 11_000, 1)], kernels=[on_device(3_000, 30_000, 1)])
    assert (summary.launch(seen)["call_median_ns"], summary.launch(seen)["latency_median_ns"]) == (
        10_000,
        2_000,
    )


def test_a_kernel_that_seems_to_begin_before_its_call() -> None:
    """Two clocks: the latency is counted as none, and nothing becomes negative."""
    seen = profile_of(api=[call(5_000, 6_000, 1)], kernels=[on_device(4_000, 9_000, 1)])
    assert summary.launch(seen)["latency_median_ns"] in (0, None)
    assert (seen.activities["exposed_ns"] >= 0).all() and seen.activities[
        "exposed_ns"
    ].sum() == seen.run_time_ns
    assert "P111" in {f.code for f in seen.findings}


def test_a_driver_call_inside_a_runtime_call_is_one_launch() -> None:
    inner = call(1_500, 4_500, 1, "cuLaunchKernel", level=1)
    seen = profile_of(api=[call(1_000, 5_000, 1), inner], kernels=[on_device(8_000, 9_000, 1)])
    assert (summary.launch(seen)["count"], summary.launch(seen)["call_median_ns"]) == (1, 4_000)
    run = pieces(seen)
    assert run.count[run.crosses].sum() == 1
    assert run.count.sum() == seen.activities.height


def test_one_graph_on_two_devices_is_delivered_once() -> None:
    for first in (0, 1):
        seen = profile_of(
            api=[call(1_000, 2_000, 1, "cudaGraphLaunch")],
            kernels=[
                on_device(3_000, 4_000, 1, device=first),
                on_device(8_000, 9_000, 1, device=1 - first),
            ],
            copies=[copy(9_500, 9_900, correlation=1, device=2)],
        )
        (launch,) = seen.of("launch").to_dicts()
        assert (launch["delivered_ns"], launch["exposed_ns"], launch["idle_device"]) == (
            3_000,
            2_000,
            True,
        )


def test_without_launches() -> None:
    found = summary.launch(profile_of(kernels=[on_device(1_000, 2_000)]))
    assert found == {
        "count": 0,
        "call_median_ns": None,
        "call_p95_ns": None,
        "idle_count": 0,
        "latency_median_ns": None,
    }


# --- waits, allocations, memory -------------------------------------------------------------------


def test_return_of_a_wait() -> None:
    seen = profile_of(
        api=[
            call(1_000, 2_000, 1),
            call(2_000, 9_500, 2, "cudaDeviceSynchronize"),
            call(20_000, 20_400, 3, "cudaStreamSynchronize"),
            call(30_000, 31_000, 4),
            call(31_000, 40_300, 5, "cudaStreamSynchronize"),
        ],
        kernels=[on_device(3_000, 9_000, 1), on_device(33_000, 40_000, 4)],
    )
    assert summary.sync_return_s(seen) == pytest.approx(400e-9), (
        "median of 500 and 300; the wait that saw no work end does not count"
    )
    assert (
        summary.sync_return_s(
            profile_of(api=[call(1, 9, 1, "cudaDeviceSynchronize")], kernels=[on_device(20, 30)])
        )
        is None
    )
    just = profile_of(
        api=[call(1_000, 2_000, 1), call(2_000, 9_000, 2, "cudaDeviceSynchronize")],
        kernels=[on_device(3_000, 9_000, 1)],
    )
    assert summary.sync_return_s(just) == 0.0, "work that ends as the wait returns was waited for"
    assert summary.alloc_call_s(seen) is None
    assert summary.alloc_call_s(
        profile_of(api=[call(1_000, 1_400, 1, "cudaMalloc"), call(2_000, 2_200, 2, "cudaFree")])
    ) == pytest.approx(300e-9)


def test_return_of_a_wait_beside_other_work() -> None:
    """Another stream that is busy, and another process that has just ended, say nothing of when a
    wait's own work ended.
    """
    calls = [
        call(1_000, 1_500, 1),
        call(1_500, 2_000, 2),
        call(2_000, 9_500, 3, "cudaStreamSynchronize"),
    ]
    kernels = [on_device(3_000, 9_000, 1), on_device(3_500, 9_400, 2, stream=8)]
    waits = [
        {
            "start_ns": 2_000,
            "end_ns": 9_500,
            "process": PROCESS,
            "context": 1,
            "stream": 7,
            "correlation": 3,
            "sync_type": 3,
        }
    ]
    assert summary.sync_return_s(
        profile_of(api=calls, kernels=kernels, syncs=waits)
    ) == pytest.approx(500e-9)
    other = PROCESS + (1 << 24)
    beside = [on_device(1_000, 9_100, 1, process=other), on_device(9_100, 9_499, 2, process=other)]
    assert summary.sync_return_s(
        profile_of(api=calls, kernels=[*kernels[:1], *beside], syncs=waits[:0])
    ) == pytest.approx(500e-9)
    second = [on_device(3_000, 9_000, 1), on_device(3_500, 9_450, 2, device=1, context=2)]
    device = [*calls[:2], call(2_000, 9_500, 3, "cudaDeviceSynchronize")]
    of_context = [{**waits[0], "stream": None, "sync_type": 4}]
    assert summary.sync_return_s(
        profile_of(api=device, kernels=second, syncs=of_context)
    ) == pytest.approx(500e-9), "of its own device"
    default = [{"process": PROCESS, "context": 1, "stream": 7, "kind": 3}]
    everything = summary.sync_return_s(
        profile_of(api=calls, kernels=kernels, syncs=waits, streams=default)
    )
    assert everything == pytest.approx(100e-9), (
        "the legacy default stream is waited for with those that wait for it"
    )


def test_memory_over_time() -> None:
    rows = [
        allocation(1_000, 0, 100, 0xA),
        allocation(2_000, 0, 50, 0xB),
        allocation(3_000, 1, 100, 0xA),
        allocation(4_000, 0, 70, 0xA),
        allocation(5_000, 1, 999, 0xC),
        allocation(6_000, 1, 50, 0xB),
        allocation(7_000, 1, 70, 0xA),
        allocation(8_000, 0, 10**6, 0xD, PINNED),
    ]
    seen = profile_of(
        api=[call(1_000, 9_000, 1)], kernels=[on_device(2_000, 3_000)], allocations=rows
    )
    line = summary.memory_timeline(seen)
    assert line["size_bytes"].to_list() == [100, 150, 50, 120, 120, 70, 0], (
        "a release of unknown memory counts 0, host memory is not device memory"
    )
    assert line["seconds"].to_list() == pytest.approx([0, 1e-6, 2e-6, 3e-6, 4e-6, 5e-6, 6e-6])
    assert summary.peak_memory_bytes(seen) == 150
    assert summary.memory_timeline(profile_of(kernels=[on_device(1, 2)])).height == 0
    assert summary.peak_memory_bytes(profile_of(kernels=[on_device(1, 2)])) == 0


def test_one_address_in_two_processes() -> None:
    rows = [
        allocation(1_000, 0, 100, 0xA),
        {**allocation(2_000, 0, 30, 0xA), "process": PROCESS + (1 << 24)},
        allocation(3_000, 1, 100, 0xA),
    ]
    assert summary.memory_timeline(profile_of(kernels=[on_device(1_000, 2_000)], allocations=rows))[
        "size_bytes"
    ].to_list() == [
        100,
        130,
        30,
    ]


def scheduled(time: int, running: int, thread: int = THREAD) -> Row:
    return {"time_ns": time, "running": running, "thread": thread, "cpu": 0}


def test_serial_and_parallel_cpu_time() -> None:
    seen = profile_of(
        api=[call(1_000, 1_100, 1), call(10_900, 11_000, 2, thread=OTHER)],
        kernels=[on_device(1_000, 11_000)],
        scheduling=[
            scheduled(1_000, 1),
            scheduled(5_000, 0),
            scheduled(3_000, 1, OTHER),
            scheduled(9_000, 0, OTHER),
            scheduled(2_000, 1, PROCESS | 77),
            scheduled(8_000, 0, PROCESS | 77),
        ],
    )
    found = summary.cpu_activity(seen)
    assert found is not None and found["threads"] == 2, (
        "a thread that did nothing of the run does not count"
    )
    assert (found["serial_s"], found["parallel_s"], found["core_seconds"]) == pytest.approx(
        (6e-6, 2e-6, 10e-6)
    )
    assert summary.cpu_activity(profile_of(kernels=[on_device(1, 2)])) is None


def test_profilers_own_share() -> None:
    rows = [
        {"start_ns": 2_000, "end_ns": 3_000, "thread": THREAD, "kind": 4},
        {"start_ns": 2_500, "end_ns": 4_000, "thread": OTHER, "kind": 4},
    ]
    seen = profile_of(
        api=[call(1_000, 11_000, 1)], kernels=[on_device(1_000, 2_000)], overheads=rows
    )
    assert summary.overhead_share(seen) == pytest.approx(0.2)
    assert summary.overhead_share(profile_of(kernels=[on_device(5, 5)])) == 0.0


# --- sums and tables ------------------------------------------------------------------------------


def test_counts_bytes_and_overlap() -> None:
    seen = profile_of(
        kernels=[on_device(10_000, 20_000), on_device(15_000, 25_000, stream=8)],
        copies=[
            copy(12_000, 14_000, H2D, 100),
            copy(24_000, 28_000, D2H, 7),
            copy(30_000, 31_000, D2D, 5),
            copy(31_000, 31_500, P2P, 9),
            copy(32_000, 33_000, MIGRATION_H2D, 4096),
            copy(33_000, 34_000, MIGRATION_D2H, 8192),
        ],
    )
    assert summary.kernels(seen) == {
        "count": 2,
        "busy_ns": 20_000,
        "union_ns": 15_000,
        "graph_launches": 0,
        "in_graphs": 0,
        "collective": None,
    }
    assert summary.kernel_window_ns(seen) == 15_000
    assert summary.copies(seen) == {
        "h2d": {"count": 1, "bytes": 100, "busy_ns": 2_000},
        "d2h": {"count": 1, "bytes": 7, "busy_ns": 4_000},
        "d2d": {"count": 1, "bytes": 5, "busy_ns": 1_000},
        "p2p": {"count": 1, "bytes": 9, "busy_ns": 500},
        "migration_h2d": {"count": 1, "bytes": 4096, "busy_ns": 1_000},
        "migration_d2h": {"count": 1, "bytes": 8192, "busy_ns": 1_000},
    }
    found = summary.overlap(seen)
    assert (found["copy_union_ns"], found["copy_hidden_ns"], found["copy_exposed_ns"]) == (
        9_500,
        3_000,
        6_500,
    )
    assert found["copy_hidden_fraction"] == pytest.approx(3_000 / 9_500)
    assert summary.categories_ns(seen) == {
        "kernel": 15_000,
        "copy": 6_500,
        "mpi": 0,
        "api": 0,
        "cpu": 2_500,
    }
    assert summary.kernel_window_ns(profile_of(copies=[copy(1, 2)])) is None
    assert summary.overlap(profile_of(kernels=[on_device(1, 2)]))["copy_hidden_fraction"] is None


def test_a_copy_is_hidden_by_whatever_computes() -> None:
    """Kernels, whole graphs and sets alike."""
    for table, row in (
        ("kernels", on_device(0, 9_000)),
        ("graphs", on_device(0, 9_000)),
        ("memsets", on_device(0, 9_000, memory=DEVICE)),
    ):
        row = {k: v for k, v in row.items() if k != "name" or table == "kernels"}
        seen = profile_of(**{table: [row]}, copies=[copy(1_000, 3_000)])
        assert summary.overlap(seen)["copy_hidden_ns"] == 2_000, table


def test_a_copy_is_hidden_by_its_own_device_only() -> None:
    seen = profile_of(kernels=[on_device(0, 10_000, device=1)], copies=[copy(1_000, 3_000)])
    assert summary.overlap(seen)["copy_hidden_ns"] == 0
    assert summary.overlap(seen)["copy_exposed_ns"] == 0, (
        "on the time line of the run the kernel of the other device comes first"
    )


def test_device_0_of_two_merged_recordings_is_two_devices() -> None:
    rows = {"kernels": [on_device(0, 10_000, process=1001 << 24)], "copies": [copy(1_000, 3_000)]}
    assert summary.overlap(profile_of(**rows))["copy_hidden_ns"] == 2_000
    each = {"offset_ns": 0, "shift_ns": 0, "drift_ns_per_s": 0}
    merged = [
        {"process": process, "file": k, **each} for k, process in enumerate((PROCESS, 1001 << 24))
    ]
    assert summary.overlap(profile_of(**rows, processes=merged))["copy_hidden_ns"] == 0


def test_tables_of_calls_and_kernels() -> None:
    seen = profile_of(
        api=[call(1_000, 2_000, 1), call(3_000, 6_000, 2), call(6_000, 7_000, 3, "cudaFree")],
        kernels=[on_device(2_500, 3_500, 1), on_device(6_000, 9_000, 2, name=1)],
        graphs=[on_device(9_000, 9_500, name=None) | {"graph": 1}],
    )
    calls = {r["call"]: r for r in summary.calls(seen).to_dicts()}
    assert set(calls) == {"cudaLaunchKernel", "cudaFree"}
    assert (calls["cudaLaunchKernel"]["count"], calls["cudaFree"]["call_class"]) == (2, "alloc")
    kernels = summary.kernel_table(seen).to_dicts()
    assert [k["kernel"] for k in kernels] == ["kernel_b", "kernel_a", "(CUDA graph)"]
    assert sum(k["share"] for k in kernels) == pytest.approx(1.0)
    assert summary.kernel_table(profile_of(api=[call(1, 2)])).height == 0


def test_rows_of_equal_time_stand_in_the_order_of_their_names() -> None:
    """Groups come in any order; a table that is cut behind its longest rows would show others at
    every run.
    """
    numbers = range(2, 14)
    seen = profile_of(
        api=[call(1_000 * k, 1_000 * k + 500, k, NAMES[k]) for k in numbers],
        kernels=[on_device(100_000 * k, 100_000 * k + 50, name=k) for k in numbers],
    )
    names = sorted(NAMES[k] for k in numbers)
    assert (
        summary.calls(seen)["call"].to_list()
        == summary.kernel_table(seen)["kernel"].to_list()
        == names
    )
    assert offload_map(seen, launch_s=1e-6)["kernel"].to_list() == names


@LAW
@given(st.lists(st.floats(1e-12, 1e12), max_size=40))
def test_histograms_hold_everything(values: list[float]) -> None:
    sample = np.array(values)
    bins = summary.distribution(np.append(sample, [0.0, 0.0]), np.append(sample, [5.0, 5.0]))
    assert bins["count"].sum() == len(values)
    assert bins["weight"].sum() == pytest.approx(sample.sum())
    for low, high, count in bins.select("low", "high", "count").iter_rows():
        assert high == 2 * low and count == ((sample >= low) & (sample < high)).sum()


@LAW
@given(gpu_traces() | soups())
def test_tables_add_up_on_any_run(trace: Trace) -> None:
    seen = build(trace)
    assert summary.calls(seen)["count"].sum() == seen.trace.api.height
    assert (
        summary.kernel_table(seen)["count"].sum()
        == seen.trace.kernels.height + seen.trace.graphs.height
    )
    for direction, tables in transfer_distribution(seen).items():
        rows = seen.of("migration" if direction == "migration" else f"copy_{direction}")
        assert tables["by_size"]["count"].sum() == (rows["size_bytes"] > 0).sum()
        assert tables["by_size"]["weight"].sum() == pytest.approx(rows["size_bytes"].sum())
    overlap = summary.overlap(seen)
    assert 0 <= overlap["copy_hidden_ns"] <= overlap["copy_union_ns"]
    assert seen.table().height == seen.activities.height
    assert set(seen.tracks["what"]) <= {"thread", "stream", "host"}
    assert seen.activities["track"].is_in(seen.tracks["track"].to_list()).all()
    known = seen.activities.select("track", "kind").join(seen.tracks, on="track", how="left")
    assert (known.filter(pl.col("kind") == "kernel")["what"] != "thread").all()


@LAW
@given(gpu_traces() | soups())
def test_the_description_of_any_run_is_plain_and_finite(trace: Trace) -> None:
    seen = build(trace)
    source, fits, _ = observed_machine(seen)
    found = describe(seen, source, fits, start_up(seen))
    assert (
        found["closure_defect_ns"] == 0
        and sum(found["categories_ns"].values()) == found["run_time_ns"]
    )

    def walk(value: object, path: str) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{path}.{key}")
        elif isinstance(value, list):
            for item in value:
                walk(item, path)
        else:
            assert value is None or isinstance(value, str | bool | int | float), path
            assert not isinstance(value, float) or np.isfinite(value), path
            if path.endswith(("_ns", ".count", ".bytes")):
                assert value is None or (
                    isinstance(value, int) and not isinstance(value, np.generic)
                ), path

    walk(found, "")


# --- placement ------------------------------------------------------------------------------------


def test_traffic_bound_for_the_network_is_spread_minus_packed() -> None:
    """D14: the spread run carries the extra traffic; the paper's text has the sign the other way
    round.
    """
    spread = profile_of(copies=[copy(1, 2, H2D, 1000), copy(3, 4, D2H, 600), copy(5, 6, D2H, 400)])
    packed = profile_of(copies=[copy(1, 2, H2D, 1000), copy(3, 4, D2H, 250), copy(5, 6, P2P, 750)])
    rows = {r["direction"]: r for r in nic_bound(spread, packed).to_dicts()}
    assert (
        rows["d2h"]["nic_bound_bytes"] == 750
        and rows["d2h"]["nic_bound_share"] == 0.75
        and rows["d2h"]["nic_bound_count"] == 1
    )
    assert rows["h2d"]["nic_bound_bytes"] == 0
    assert rows["p2p"]["nic_bound_bytes"] == -750 and rows["p2p"]["nic_bound_share"] is None, (
        "what moved to the host link"
    )
    assert "migration_h2d" not in rows
    turned = {r["direction"]: r for r in nic_bound(packed, spread).to_dicts()}
    assert turned["d2h"]["nic_bound_bytes"] == -750, (
        "a negative volume is kept: the runs were given the wrong way round"
    )
    assert refused("A110", nic_bound, spread, profile_of(kernels=[on_device(1, 2)])).exit_code == 3


def test_pageable_copies_have_their_own_class() -> None:
    seen = profile_of(
        copies=[
            copy(1, 5, H2D, 10, memory=PAGEABLE),
            copy(6, 9, D2H, 10, memory=PINNED),
            copy(10, 11, D2D),
        ]
    )
    assert seen.activities.filter(pl.col("direction").is_not_null())["memory"].to_list() == [
        "pageable",
        "pinned",
        None,
    ]
