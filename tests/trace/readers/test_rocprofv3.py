"""JSON of rocprofv3: small files written here, and hostile ones."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from build_rocprof import (
    ALLOCATION,
    HIP,
    HSA,
    MARKER,
    START,
    dispatch,
    open_with_reader,
    record,
    refused,
    turns,
    v3,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import codes

from turnbuckle.profile.profile import build
from turnbuckle.trace import Trace, read
from turnbuckle.trace.check import launch_pairs
from turnbuckle.trace.readers.parts.json_pieces import Cut, Json


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Trace]:
    """Write a file and read it."""

    def write(content: Any, name: str = "908_results.json") -> Trace:
        path = tmp_path / name
        path.write_bytes(
            content
            if isinstance(content, bytes)
            else json.dumps({"rocprofiler-sdk-tool": content}).encode()
        )
        return open_with_reader(path)

    return write


def test_json_of_rocprofv3(written: Callable[..., Trace]) -> None:
    trace = written([v3(turns())])
    assert {t: f.height for t, f in trace.tables.items()} == {
        "api": 6,
        "kernels": 3,
        "copies": 3,
        "streams": 1,
        "devices": 2,
    }
    kernel = trace.kernels.row(0, named=True)
    wanted = {
        "start_ns": 40_000,
        "end_ns": 60_000,
        "blocks": 4 * 2,
        "threads": 256,
        "registers": 24,
        "shared_bytes": 64,
        "stream": 5,
        "device": 0,
    }
    assert kernel | wanted == kernel
    assert trace.text(trace.kernels, "short_name").unique().to_list() == ["scale"]
    copy = trace.copies.row(2, named=True)
    assert (
        copy
        | {"size_bytes": 4096, "direction": 1, "device": 0, "target_memory": 3, "source_memory": 0}
        == copy
    )
    assert launch_pairs(trace.tables).height == 6
    assert trace.api["thread"].unique().to_list() == [908 << 24 | 910]
    assert trace.devices["memory_bytes"].to_list() == [1 << 38, None]
    assert codes(trace) == {"P113": 3, "P119": 1}
    assert trace.facts["base_ns"] == START + 1000 and trace.facts["session_start_utc_ns"] is None
    assert "secret" not in json.dumps([trace.facts, trace.names.to_list()])


def test_ranges_allocations_and_other_kinds(written: Callable[..., Trace]) -> None:
    more: dict[str, list[Any]] = {
        "marker_api": [
            record(500, 9000, 50, MARKER, 1),
            record(600, 0, 51, MARKER, 0),
            record(700, 1, 52, MARKER, 2),
        ],
        "memory_allocation": [
            record(
                10,
                5,
                60,
                ALLOCATION,
                1,
                agent_id={"handle": 702},
                address={"value": 77},
                allocation_size=4096,
            ),
            record(
                20, 5, 61, ALLOCATION, 3, agent_id={"handle": 0}, address="0x4d", allocation_size=0
            ),
            record(
                30,
                5,
                62,
                ALLOCATION,
                1,
                agent_id={"handle": 700},
                address={"value": 78},
                allocation_size=11,
            ),
        ],
        "scratch_memory": [record(1, 2, 3, 4, 5)],
        "rccl_api": [record(1, 2, 3, 4, 5)] * 2,
        "new_kind_\x1b[31m": [{}],
    }
    trace = written([v3(turns() | more)])
    assert trace.text(trace.ranges).to_list() == ["step", "here"] and trace.ranges[
        "kind"
    ].to_list() == [59, 34]
    told = trace.allocations.select("operation", "size_bytes", "memory", "device", "address").rows()
    assert told == [(0, 4096, 3, 0, 77), (1, 4096, 3, 0, 77), (0, 11, 2, None, 78)]
    found = next(f for f in trace.findings if f.code == "P178")
    assert found.count == 5 and "scratch_memory 1" in found.detail and "\x1b" not in found.detail


def test_a_kernel_belongs_to_the_outermost_call(written: Callable[..., Trace]) -> None:
    calls = turns(1)
    calls["hsa_api"] = [record(32_000, 100, 9, HSA, 1)]
    calls["hsa_api"][0]["correlation_id"]["ancestor"] = 2
    # hipLaunchKernel was made by a library whose calls are not read
    calls["hip_api"][1]["correlation_id"]["ancestor"] = 77
    calls["kernel_dispatch"][0]["correlation_id"]["internal"] = 9
    trace = written([v3(calls)])
    pairs = launch_pairs(trace.tables).filter(pl.col("table") == "kernels")
    assert trace.text(trace.api).gather(pairs["api_row"]).to_list() == [
        "hipLaunchKernel"
    ] and trace.api["level"].to_list() == [0, 0, 1]


def test_kernels_of_which_only_counters_were_collected(written: Callable[..., Trace]) -> None:
    counted = [
        {"thread_id": 1, "records": [{"value": 2.5}], "dispatch_data": dispatch(k * 100, 50, k + 1)}
        for k in range(4)
    ]
    trace = written([v3({}, callback=counted)])
    assert trace.kernels.height == 4 and codes(trace)["P181"] == 4
    # where the kernels are traced too, they are not counted twice
    assert written([v3(turns(), callback=counted)]).kernels.height == 3


def test_kernels_of_graphs_are_numbered(written: Callable[..., Trace]) -> None:
    calls = [record(1000 * k, 100, k, HIP, 3) for k in (1, 2)]
    works = [dispatch(1000 * k + 200 * j, 100, k, kernel=8 + j) for k in (1, 2) for j in (1, 0)]
    trace = written([v3({"hip_api": calls, "kernel_dispatch": works})])
    nodes = trace.kernels["graph_node"].to_list()
    assert nodes[:2] == nodes[2:] == [1, 2] and trace.kernels["graph"].to_list() == [1] * 4
    assert codes(trace)["P167"] == 4 and codes(trace)["P179"] == 2


def test_several_processes(written: Callable[..., Trace]) -> None:
    trace = written([v3(turns(1)), v3(turns(2), pid=909)])
    assert (
        trace.kernels["process"].to_list().count(909 << 24) == 2
        and launch_pairs(trace.tables).height == 6
    )


def test_streams_that_are_addresses(written: Callable[..., Trace]) -> None:
    works = turns(2)
    for k, work in enumerate(works["kernel_dispatch"]):
        work["stream_id"] = {"handle": 139_690_710_949_888 + 64 * k}
    trace = written([v3(works)])
    assert (
        sorted(trace.kernels["stream"].to_list()) == [1, 2]
        and trace.copies["stream"].to_list() == [0, 0]
        and codes(trace)["P180"] == 3
    )


@pytest.mark.parametrize("where", [0.3, 0.6, 0.9, 0.99])
def test_a_file_that_is_cut_off_keeps_its_records(
    written: Callable[..., Trace], where: float
) -> None:
    whole = json.dumps({"rocprofiler-sdk-tool": [v3(turns(200))]}).encode()
    trace = written(whole[: int(len(whole) * where)])
    assert codes(trace)["P163"] == 1 and 0 < trace.kernels.height < 201
    packed = gzip.compress(whole, mtime=0)
    cut = written(packed[: int(len(packed) * max(where, 0.6))], "908_results.json.gz")
    assert codes(cut)["P163"] == 1 and 0 < cut.kernels.height < 201


def test_broken_records_are_left_out_and_counted(written: Callable[..., Trace]) -> None:
    text = json.dumps({"rocprofiler-sdk-tool": [v3(turns(30))]})
    marks = [f'"dispatch_id": {2 * k + 2}' for k in (4, 9, 29)]
    for mark, bad in zip(
        marks,
        ('"dispatch_id": "un"closed"', '"dispatch_id": 1 2', '"dispatch_id": "open'),
        strict=True,
    ):
        assert text.count(mark) == 1 or mark == marks[0]
        text = text.replace(mark + ",", bad + ",", 1)
    trace = written(text.encode())
    assert trace.kernels.height == 27 and codes(trace)["P162"] == 3 and trace.copies.height == 30


def test_hostile_values(written: Callable[..., Trace]) -> None:
    works = turns(6)
    odd: list[Any] = [None, -1, 1 << 70, 1.5, "0x10", [1]]
    for value, work, call, copy in zip(
        odd, works["kernel_dispatch"], works["hip_api"], works["memory_copy"], strict=False
    ):
        work["dispatch_info"] |= {
            "kernel_id": value,
            "agent_id": value,
            "grid_size": value,
            "queue_id": {"handle": value},
        }
        call |= {"kind": value, "thread_id": value, "correlation_id": value}
        copy |= {"bytes": value, "src_agent_id": value, "operation": value}
    works["kernel_dispatch"] += [7, None, {"dispatch_info": 3}]  # type: ignore[list-item]
    works["hip_api"].append(record(0, 1, 1, HIP, 0) | {"start_timestamp": 0})
    names = [{"kernel_id": 8, "formatted_kernel_name": "\ud800<script>\x1b[31m" + "<" * 5000}]
    trace = written(
        [v3(works, agents=[None, {}, {"id": 1, "type": 2, "mem_banks": 7}], kernel_symbols=names)]
    )
    assert (
        trace.kernels.height == 6
        and codes(trace)["P162"] == 3
        and codes(trace)["P105"] > 0
        and codes(trace)["P106"] > 0
    )
    assert trace.api["start_ns"].null_count() == 1
    build(trace)


def test_depth_bombs_and_growth(written: Callable[..., Trace], tmp_path: Path) -> None:
    deep = (
        '{"rocprofiler-sdk-tool": [{"metadata": '
        + '{"a":' * 200_000
        + "1"
        + "}" * 200_000
        + ', "buffer_records": {"kernel_dispatch": ['
    )
    text = deep + "[" * 200_000 + "]" * 200_000 + ", " + json.dumps(dispatch(1, 2, 3)) + "]}}]}"
    trace = written(text.encode())
    assert trace.kernels.height == 1 and codes(trace)["P162"] == 1
    bomb = tmp_path / "bomb_results.json.gz"
    bomb.write_bytes(
        gzip.compress(
            b'{"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}}' + b" " * (80 << 20) + b"]}",
            1,
            mtime=0,
        )
    )
    assert refused(bomb).code == "P026"


def test_through_the_door_with_cache_and_progress(tmp_path: Path) -> None:
    path = tmp_path / "908_results.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [v3(turns(50), padding="x" * (9 << 20))]}))
    shares: list[float] = []
    first = read(path, progress=shares.append)
    assert shares == sorted(shares) and shares[-1] == 1.0
    again = read(path)
    assert again.facts == first.facts and all(
        f.equals(again.table(t)) for t, f in first.tables.items()
    )
    first.to_parquet(tmp_path / "kept")
    kept = read(tmp_path / "kept")
    assert (
        kept.facts["recorded"] == first.facts["recorded"]
        and kept.facts["base_ns"] == first.facts["base_ns"]
    )
    assert all(f.equals(kept.table(t)) for t, f in first.tables.items())


def test_nothing_to_read(tmp_path: Path) -> None:
    path = tmp_path / "908_results.json"
    path.write_text('{"rocprofiler-sdk-tool": [' + json.dumps(v3({})) + "]}")
    assert refused(path).code == "P046"
    path.write_text('{"rocprofiler-sdk-tool": [{"metadata": {"pid": 1')
    assert refused(path).code == "P047"


@given(st.lists(st.integers(1, 400), min_size=1, max_size=40), st.integers(0, 1))
@settings(max_examples=60)
def test_pieces_make_no_difference(sizes: list[int], odd: int) -> None:
    """However the text is cut into pieces, the same elements come out; the end of the text may be
    missing.
    """
    items = [
        {"size": 1, "name": 'a "é" \\ }{][', "n": [1.5, -12345678901, None]},
        3,
        "x",
        {"size": 2, "kind": 1},
    ] * 5
    text = json.dumps(
        {"skip": {"deep": [1, "]", {"a": '\\"'}]}, "n": 12, "list": items}, ensure_ascii=False
    ).encode()

    def pieces(until: int) -> Iterator[bytes]:
        at, k = 0, 0
        while at < until:
            yield text[at : min(at + sizes[k % len(sizes)], until)]
            at, k = at + sizes[k % len(sizes)], k + 1

    def read(until: int) -> Iterable[Any]:
        one = Json(pieces(until))
        try:
            for key in one.members():
                if key == "list":
                    yield from one.elements()
                else:
                    one.skip()
        except Cut:
            yield Cut

    assert list(read(len(text))) == items
    cut = list(read(len(text) - 1 - sum(sizes) % len(text) * odd))
    assert cut[-1] is Cut and cut[:-1] == items[: len(cut) - 1]


def test_the_first_nul_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "908_results.json"
    begin = json.dumps({"rocprofiler-sdk-tool": [v3(turns(5))]})[:-40].encode()
    path.write_bytes(begin)
    os.truncate(path, 1 << 40)  # nobody could read this to its end
    error = refused(path)
    assert error.code == "P029" and f"behind {len(begin)} bytes" in error.found
