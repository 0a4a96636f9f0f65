"""Chrome traces of PyTorch: small ones written here, broken and hostile ones, and real ones against
their truth.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from refusals import codes
from runs import recorded_profile

from turnbuckle.foundation.errors import CannotAnswer, ProfileError
from turnbuckle.foundation.schema import tables as schema_tables
from turnbuckle.machine import Pair, load
from turnbuckle.profile.pieces import UNSIZED, pieces
from turnbuckle.profile.profile import build
from turnbuckle.profile.source import observed_machine
from turnbuckle.profile.summary import summary
from turnbuckle.profile.summary.describe import describe
from turnbuckle.profile.summary.host_work import host_work
from turnbuckle.profile.summary.start_up import start_up
from turnbuckle.projection.model import Replay, nething
from turnbuckle.projection.project import project
from turnbuckle.questions.anonymise.question import anonymise
from turnbuckle.questions.anonymise.stand_in import stand_in
from turnbuckle.trace import Trace, read, secrets
from turnbuckle.trace.readers import kineto
from turnbuckle.trace.trace import dtypes
from turnbuckle.trace.window import Part, cut

Event = dict[str, Any]
HOST = {"pid": 4000, "tid": 4001}


def call(
    name: str, at: float, lasts: float, correlation: int, cat: str = "cuda_runtime", **args: Any
) -> Event:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        **HOST,
        "ts": at,
        "dur": lasts,
        "args": {"correlation": correlation, **args},
    }


def work(
    cat: str, name: str, at: float, lasts: float, correlation: int, stream: int = 7, **args: Any
) -> Event:
    where = {"device": 0, "context": 1, "stream": stream, "correlation": correlation}
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 0,
        "tid": stream,
        "ts": at,
        "dur": lasts,
        "args": where | args,
    }


def launched(at: float, correlation: int, name: str = "k<int>", **args: Any) -> list[Event]:
    shape: dict[str, Any] = {
        "grid": [4, 2, 1],
        "block": [64, 2, 1],
        "registers per thread": 32,
        "shared memory": 512,
    }
    return [
        call("cudaLaunchKernel", at, 5.125, correlation),
        work("kernel", name, at + 10.5, 20.25, correlation, **(shape | args)),
    ]


def copied(
    at: float, correlation: int, name: str = "Memcpy HtoD (Pinned -> Device)", **args: Any
) -> list[Event]:
    given = {"bytes": 4096, "memory bandwidth (GB/s)": 1.5} | args
    kept = {k: v for k, v in given.items() if v is not None}
    return [
        call("cudaMemcpyAsync", at, 4.5, correlation),
        work("gpu_memcpy", name, at + 8.25, 3.0, correlation, **kept),
    ]


def text(events: list[Event], **about: Any) -> str:
    return json.dumps({"schemaVersion": 1, **about, "traceEvents": events}, indent=1)


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Trace]:
    """Write a file and read it."""

    def write(content: str | bytes | list[Event], name: str = "trace.json", **about: Any) -> Trace:
        path = tmp_path / name
        content = text(content, **about) if isinstance(content, list) else content
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read(path, use_cache=False)

    return write


# --- what becomes what ----------------------------------------------------------------------------


def test_columns_and_times(written: Callable[..., Trace]) -> None:
    devices = [
        {
            "id": 0,
            "name": "NVIDIA H100",
            "totalGlobalMem": 85,
            "numSms": 132,
            "computeMajor": 9,
            "computeMinor": 0,
        }
    ]
    about = {
        "deviceProperties": devices,
        "baseTimeNanoseconds": 1735632360000000000,
        "cupti_version": 22,
    }
    trace = written([*launched(4458676522709.059, 11), *copied(4458676522800.5, 12)], **about)
    for name in trace.has:
        assert list(trace.table(name).columns) == [c.name for c in schema_tables("trace")[name]]
        assert dict(trace.table(name).schema) == dtypes(name)
    kernel = trace.kernels.row(0, named=True)
    assert (kernel["start_ns"], kernel["end_ns"]) == (1000 + 10_500, 1000 + 30_750)
    assert (kernel["blocks"], kernel["threads"], kernel["registers"], kernel["shared_bytes"]) == (
        8,
        128,
        32,
        512,
    )
    assert (kernel["device"], kernel["context"], kernel["stream"], kernel["correlation"]) == (
        0,
        1,
        7,
        11,
    )
    assert (
        kernel["process"] == 4000 << 24
        and trace.text(trace.kernels)[0] == "k<int>"
        and kernel["graph_node"] is None
    )
    assert trace.api["thread"].to_list() == [4000 << 24 | 4001] * 2
    copy = trace.copies.row(0, named=True)
    assert (
        copy["size_bytes"],
        copy["direction"],
        copy["source_memory"],
        copy["target_memory"],
    ) == (4096, 1, 2, 3)
    assert trace.facts["session_start_utc_ns"] == 1735632360000000000 + 4458676522709059 - 1000
    assert (
        trace.facts["product_version"] == "PyTorch profiler (CUPTI 22)"
        and trace.facts["format"] == "kineto"
    )
    device = trace.devices.row(0, named=True)
    assert (
        device["name"],
        device["memory_bytes"],
        device["multiprocessors"],
        device["compute_major"],
    ) == ("NVIDIA H100", 85, 132, 9)
    assert codes(trace) == {}


def test_old_categories_and_epoch_times(written: Callable[..., Trace]) -> None:
    at = 1623142623529088
    events = [
        {
            "ph": "X",
            "cat": "Runtime",
            "name": "cudaMemcpyAsync",
            "pid": 25738,
            "tid": "25738",
            "ts": at,
            "dur": 20,
            "args": {"correlation": 1},
        },
        {
            "ph": "X",
            "cat": "Memcpy",
            "name": "Memcpy HtoD (Pageable -> Device)",
            "pid": 0,
            "tid": "stream 7",
            "ts": at + 9,
            "dur": 3,
            "args": {"correlation": 1, "bytes": 16},
        },
        {
            "ph": "X",
            "cat": "Kernel",
            "name": "k",
            "pid": 0,
            "tid": "stream 9",
            "ts": at + 30,
            "dur": 3,
            "args": {},
        },
        {
            "ph": "X",
            "cat": "Operator",
            "name": "aten::empty",
            "pid": 25738,
            "tid": "25738",
            "ts": at,
            "dur": 3,
            "args": {},
        },
    ]
    trace = written(events)
    assert trace.kernels.select("device", "stream", "context").rows() == [(0, 9, None)]
    assert trace.copies["stream"].to_list() == [7] and trace.copies["source_memory"].to_list() == [
        1
    ]
    assert trace.api["thread"].to_list() == [25738 << 24 | 25738]
    assert trace.facts["session_start_utc_ns"] == at * 1000 - 1000
    assert trace.text(trace.ranges).to_list() == ["aten::empty"]
    assert codes(trace) == {"P123": 1, "P168": 3}


def marked(cat: str, name: str, at: float, lasts: float, tid: int = 4001) -> Event:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 4000,
        "tid": tid,
        "ts": at,
        "dur": lasts,
        "args": {"Python id": 1, "bytes": "x"},
    }


def test_operators_and_functions_are_ranges(written: Callable[..., Trace]) -> None:
    size = "<built-in method size of Tensor object at 0x7f%x>"
    events = [
        *launched(10.5, 1),
        *launched(900.5, 2),
        # in a trace of whole microseconds an operator begins with what it runs; it is written last
        *(marked("python_function", size % k, 100 + 10 * k, 5) for k in range(3)),
        marked("cpu_op", "aten::empty", 200, 50),
        marked("cpu_op", "aten::mul", 200, 100),
        marked("python_function", "/home/ada/modell é.py(12): " + "f" * 70_000, 90, 600),
        marked("user_annotation", "ProfilerStep#4", 90, 700),
        {
            "ph": "B",
            **{
                k: v
                for k, v in marked("cpu_op", "aten::add", 400, 0).items()
                if k not in ("ph", "dur")
            },
        },
        {"ph": "E", "cat": "cpu_op", **HOST, "ts": 450},
        marked("gpu_user_annotation", "ProfilerStep#4", 95, 20),
    ]
    trace = written(events)
    function = "/home/ada/modell é.py(12): " + "f" * 70_000
    rows = trace.ranges.select(
        pl.col("start_ns") // 1000 + 9, "kind", text=trace.text(trace.ranges)
    ).rows()
    assert rows == [
        (89, 59, "ProfilerStep#4"),
        (89, 2, function),
        *((99 + 10 * k, 2, "<built-in method size of Tensor object>") for k in range(3)),
        (199, 1, "aten::mul"),
        (199, 1, "aten::empty"),
        (399, 1, "aten::add"),
    ]
    assert codes(trace) == {"P123": 1, "P165": 1}
    host = {name: seconds for name, _, seconds in host_work(build(trace)).iter_rows()}
    assert (host["aten::mul"], host["aten::empty"], host["aten::add"]) == pytest.approx(
        (50e-6, 50e-6, 50e-6)
    )
    assert host["<built-in method size of Tensor object>"] == pytest.approx(15e-6) and host[
        function
    ] == pytest.approx(435e-6)
    assert cut(trace, Part.parse("step=4")).facts["part"]["bounds_ns"] == list(
        trace.ranges.row(0)[:2]
    )
    assert cut(trace, Part.parse("nvtx=aten::mul")).facts["part"]["bounds_ns"] == list(
        trace.ranges.row(5)[:2]
    )
    made, _ = anonymise(trace, b"a key of the test", stand_in=stand_in)
    assert not any(
        word in name for name in made.names.to_list() for word in ("ada", "aten", "Tensor", "fff")
    )
    assert (
        "ProfilerStep#4" in made.names.to_list()
        and made.ranges["kind"].to_list() == trace.ranges["kind"].to_list()
    )


def test_steps_of_old_traces_are_operators(written: Callable[..., Trace]) -> None:
    trace = written(
        [*launched(10.5, 1), *launched(60.5, 2), marked("Operator", "ProfilerStep#9", 55, 50)]
    )
    assert cut(trace, Part.parse("step=9")).facts["part"]["bounds_ns"] == [45_500, 95_500]
    assert codes(build(trace)).get("P205")  # a step explains nothing


def test_waits_name_their_events(written: Callable[..., Trace]) -> None:
    def wait(kind: str, at: float, correlation: int, stream: int, **args: Any) -> Event:
        return work("cuda_sync", kind, at, 4, correlation, stream, cuda_sync_kind=kind, **args)

    on = {"wait_on_stream": 7, "wait_on_cuda_event_id": 3, "wait_on_cuda_event_record_corr_id": 2}
    events = [
        *launched(100.5, 1),
        call("cudaEventRecord", 108, 1, 2),
        call("cudaStreamWaitEvent", 110, 1, 3),
        wait("Stream Wait Event", 110, 3, 20, **on),
        call("cudaEventSynchronize", 112, 30, 4),
        wait("Event Sync", 112, 4, -1, **on),
        call("cudaDeviceSynchronize", 150, 10, 5),
        wait("Context Sync", 150, 5, 4294967295),
    ]
    trace = written(events)
    assert trace.syncs["sync_type"].to_list() == [2, 1, 4]
    assert trace.syncs["stream"].to_list() == [20, None, None]
    assert trace.events.select("event", "correlation", "stream").rows() == [(3, 2, 7)]
    assert summary.closure_defect_ns(build(trace)) == 0


def test_graph_kernels_do_not_vanish(written: Callable[..., Trace]) -> None:
    events: list[Event] = []
    for launch in range(3):
        at, c = 1000.5 + 500 * launch, 50 + launch
        events.append(call("cudaGraphLaunch", at, 8, c))
        events += [
            work("kernel", name, at + 20 + 30 * k, 25.5, c)
            for k, name in enumerate(("a", "b", "c"))
        ]
        events.append(
            work("gpu_memcpy", "Memcpy DtoD (Device -> Device)", at + 115, 5.5, c, bytes=8)
        )
    profile = build(written(events))
    kernels = summary.kernels(profile)
    assert (kernels["count"], kernels["in_graphs"]) == (9, 9)
    nodes = profile.trace.kernels["graph_node"]
    assert nodes.n_unique() == 3 and nodes.to_list() == nodes.to_list()[:3] * 3
    assert codes(profile)["P167"] == 12
    numbered = [
        work("kernel", "a", 10.5, 2, 1, **{"graph node id": 77, "graph id": 5}),
        call("cudaGraphLaunch", 1, 2, 1),
    ]
    assert written(numbered).kernels.select("graph_node", "graph").rows() == [(77, 5)]


def test_allocations_are_those_of_devices(written: Callable[..., Trace]) -> None:
    def memory(at: float, size: int, device: int, sort: int, address: int = 640) -> Event:
        args = {"Bytes": size, "Device Id": device, "Device Type": sort, "Addr": address}
        return {
            "ph": "i",
            "cat": "cpu_instant_event",
            "name": "[memory]",
            "s": "t",
            **HOST,
            "ts": at,
            "args": args,
        }

    events = [
        *launched(1.5, 1),
        memory(2, 512, 0, 1),
        memory(3, 64, -1, 0),
        memory(4, -512, 0, 1),
        memory(5, 256, 0, 6),
    ]
    profile = build(written(events))
    assert profile.trace.allocations.select("size_bytes", "operation").rows() == [
        (512, 0),
        (512, 1),
        (256, 0),
    ]
    assert summary.peak_memory_bytes(profile) == 512


def test_amd_copies_take_their_size_from_the_call(written: Callable[..., Trace]) -> None:
    def amd(correlation: int, at: float, **size: str) -> list[Event]:
        runs = {
            "ph": "X",
            "cat": "gpu_memcpy",
            "name": "Memcpy HtoD (Host -> Device)",
            "pid": 2,
            "tid": 0,
            "ts": at + 9,
            "dur": 5.5,
        }
        return [
            call("hipMemcpyWithStream", at, 20, correlation, kind="1", **size),
            {
                **runs,
                "args": {"device": 2, "stream": 0, "correlation": correlation, "kind": "HtoD"},
            },
        ]

    events = [*amd(1, 100, size="2560"), *amd(2, 200, bytes="0x10"), *amd(3, 300)]
    kernel = work(
        "kernel", "k", 400, 9, 4, 0, kind="Dispatch Kernel", grid=[1024, 1, 1], block=[256, 1, 1]
    )
    trace = written(
        [*events, call("hipExtModuleLaunchKernel", 390, 2, 4), kernel],
        roctracer_version=4.1,
        hip_driver_version=60443483,
    )
    assert trace.copies["size_bytes"].to_list() == [2560, 16, None]
    assert trace.kernels["blocks"].to_list() == [4]  # HIP's extended launches count threads
    found = codes(trace)
    assert (found["P166"], found["P113"], found["P169"]) == (1, 3, 1)
    assert summary.copies(build(trace))["h2d"]["bytes"] == 2576


def test_what_is_not_recorded_is_null_and_keeps_its_time(written: Callable[..., Trace]) -> None:
    events = [
        e
        for k in range(20)
        for e in (
            *copied(1000.5 + 100 * k, 2 * k + 1, bytes=None),
            *launched(1050.5 + 100 * k, 2 * k + 2),
        )
    ]
    profile = build(written(events))
    assert summary.copies(profile)["h2d"] == {"count": 20, "bytes": None, "busy_ns": 60_000}
    assert summary.copies(profile)["d2h"]["bytes"] == 0
    with pytest.raises(CannotAnswer) as caught:
        summary.moved_bytes(profile, "h2d")
    assert caught.value.code == "A139" and caught.value.exit_code == 3
    found = pieces(profile)
    assert set(found.memory[found.kind == "copy_h2d"].tolist()) == {UNSIZED}
    source = load("a100-sxm4-80")
    answer = project(profile, Pair(source, load("gh200")), nething("hold"))
    copies = [f for f in answer.findings if f.code == "A357"]
    assert [f.count for f in copies] == [20]
    assert answer.breakdown["copy"] == answer.measured_breakdown["copy"]


def test_devices_alone(written: Callable[..., Trace]) -> None:
    """Without host calls their number and cost are unknown, not 0."""
    profile = build(
        written(
            [e for k in range(3) for e in launched(10.5 + 50 * k, k + 1) if e["cat"] == "kernel"]
        )
    )
    source, fits, _ = observed_machine(profile)
    shown = describe(profile, source, fits, start_up(profile))
    assert (
        shown["kernels"]["count"],
        shown["api"],
        shown["launch"],
        shown["profiler_overhead_share"],
    ) == (3, None, None, None)


def test_several_processes_share_correlations(written: Callable[..., Trace]) -> None:
    events = [*launched(10.5, 1), *launched(60.5, 2)]
    events.append({**call("cudaLaunchKernel", 70, 3, 2), "pid": 9, "tid": "main"})
    trace = written(events)
    assert trace.kernels["process"].to_list() == [4000 << 24, None]
    assert trace.api.filter(pl.col("process") == 9 << 24).height == 1


def test_ranks_and_secrets(written: Callable[..., Trace]) -> None:
    about = {
        "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
        "host_name": "node17",
        "traceName": "/home/ada/t.json",
    }
    trace = written(launched(1.5, 1), **about)
    assert (trace.facts["rank"], trace.facts["world_size"]) == (3, 8)
    assert codes(trace)["P119"] == 1
    assert not any(
        word in json.dumps([trace.facts, [f.detail for f in trace.findings]])
        for word in ("node17", "ada")
    )


def test_begins_and_ends(written: Callable[..., Trace]) -> None:
    half = {"cat": "cuda_runtime", **HOST}
    events = [
        {"ph": "B", "name": "cudaMalloc", "ts": 10, **half},
        {"ph": "B", "name": "cuMemAlloc", "ts": 12, **half},
        {"ph": "E", "ts": 14, **half},
        {"ph": "E", "ts": 20, **half},
        {"ph": "B", "name": "cudaFree", "ts": 30, **half},
        {k: v for k, v in work("kernel", "k", 5.5, 0, 1).items() if k != "dur"},
        *launched(40.5, 2),
    ]
    trace = written(events)
    spans = trace.api.select(
        name=trace.text(trace.api), lasts=pl.col("end_ns") - pl.col("start_ns")
    ).rows()
    assert spans == [("cudaMalloc", 10_000), ("cuMemAlloc", 2_000), ("cudaLaunchKernel", 5_125)]
    assert codes(trace)["P164"] == 2


# --- packed, broken, hostile ----------------------------------------------------------------------


def test_packed_and_in_archives(tmp_path: Path, written: Callable[..., Trace]) -> None:
    plain = text([*launched(1.5, 1), *copied(60.5, 2)]).encode()
    assert written(gzip.compress(plain), "a.json.gz").kernels.height == 1
    assert (
        written(gzip.compress(plain[:90]) + gzip.compress(plain[90:]), "b.json.gz").kernels.height
        == 1
    )
    path = tmp_path / "runs.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("x" * 120 + "/rank0.json", "rank1.json"):
            about = tarfile.TarInfo(name)
            about.size = len(plain)
            archive.addfile(about, io.BytesIO(plain))
    for name in ("x" * 120 + "/rank0.json", "rank1.json"):
        assert read(f"{path}::{name}").copies.height == 1
    for wrong in (path, f"{path}::rank7.json"):
        with pytest.raises(ProfileError) as caught:
            read(wrong)
        assert caught.value.code == "P037" and "::" in caught.value.fix
    with pytest.raises(ProfileError, match="P001"):
        read(tmp_path / "none.tar.gz::rank0.json")


def test_broken_text(written: Callable[..., Trace]) -> None:
    events = [e for k in range(30) for e in launched(10.5 + 50 * k, k + 1, name=f"f<{k}>")]
    whole = text(events)
    cut = written(whole[: whole.index("f<20>")])
    assert cut.kernels.height == 20 and codes(cut)["P162"] == 1 and codes(cut)["P163"] == 1
    quoted = written(whole.replace("f<7>", 'f<"a", "b">').replace("f<9>", 'say "hello"'))
    assert quoted.kernels.height == 30 and "P162" not in codes(quoted)
    assert {'f<"a", "b">', 'say "hello"'} <= set(quoted.names.to_list())
    inline = written(json.dumps({"traceEvents": events}).replace("f<7>", 'f"7'))
    assert inline.kernels.height == 30
    bad = written(whole.encode().replace(b"f<3>", b"f\xff3").replace(b"20.25", b"nan", 1))
    assert bad.kernels.height == 29 and codes(bad)["P107"] == 2 and codes(bad)["P164"] == 1
    lost = written(whole.replace('"ph": "X"', '"ph": "X', 1))
    assert lost.kernels.height == 30 and codes(lost)["P162"] == 1 and lost.api.height == 29
    short = gzip.compress(whole.encode())
    assert 0 < written(short[: len(short) // 2], "t.json.gz").kernels.height < 30


def refused(path: Path) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        read(path, use_cache=False)
    error = caught.value
    assert (
        error.exit_code == 2
        and error.where == str(path)
        and error.fix
        and all("\n" not in line for line in error.lines())
    )
    return error


@pytest.mark.parametrize(
    ("code", "content"),
    [
        ("P035", b'{"traceEvents": []}'),
        ("P035", b'{"traceEvents": 7}'),
        ("P035", b'{"deviceProperties": [], "x": 1}'),
        ("P035", b'{"traceEvents": ["<script>", 1, null, []]}'),
        ("P035", b'[{"ph":' + b'{"a":' * 100_000),
        ("P029", b'{"ph": "X", ' + b"\x00" * 1000),
        (
            "P036",
            b'[{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1, "pid": 1, "tid": 1}]',
        ),
        ("P013", b'<html>{"traceEvents": []}</html>'),
        ("P013", b'{"a": 1}'),
        ("P026", b"bomb"),
        ("P025", b"spoilt"),
    ],
)
def test_what_is_refused(tmp_path: Path, code: str, content: bytes) -> None:
    path = tmp_path / "trace.pt.trace.json"
    if content == b"bomb":
        path = tmp_path / "trace.pt.trace.json.gz"
        content = gzip.compress(b"[" + b" " * (70 << 20), 1)
    if content == b"spoilt":
        content = gzip.compress(text(launched(1.5, 1) * 300).encode())
        content = content[:-8] + b"\xaa" * 4 + content[-4:]  # the check sum
        path.write_bytes(content)
        assert read(path).kernels.height == 300  # the trace itself is whole
        content = content[:11] + b"\xff" * 9 + content[20:]
    if code == "P013":
        path = tmp_path / "trace.json"
    path.write_bytes(content)
    assert refused(path).code in ((code, "P013") if code == "P025" else (code,))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_first_nul_ends_it(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    whole = text(launched(1.5, 1) * 300).encode()
    for before in (whole[: len(whole) // 2], whole):
        path = tmp_path / "trace.pt.trace.json"
        path.write_bytes(pack(before + b"\0" + before))
        error = refused(path)
        assert error.code == "P029" and f"behind {len(before)} bytes" in error.found
    if pack is bytes:
        os.truncate(path, 1 << 40)  # nobody could read this to its end
        assert refused(path).code == "P029" and not secrets.look(path).looked


def test_growth_is_measured_as_it_comes(tmp_path: Path) -> None:
    # sound events first that hardly pack, then a bomb: what the whole file might grow to does not
    # count
    path = tmp_path / "trace.pt.trace.json.gz"
    behind = gzip.compress(random.Random(1).randbytes(1 << 20), 0)
    path.write_bytes(gzip.compress(b"[" + b" " * (80 << 20)) + behind)
    error = refused(path)
    assert error.code == "P026"
    grown, packed = (int(number) for number in re.findall(r"\d+", error.found))
    assert 64 << 20 < grown < 66 << 20 and packed < path.stat().st_size


def test_hostile_values(written: Callable[..., Trace]) -> None:
    events = [
        *launched(10.5, 1, name="\x1b[31m<img src=x onerror=alert(1)>"),
        work("kernel", "../../etc/passwd", 1e300, 1, 2),
        work("kernel", "far", 4e15, 1, 3),
        work("kernel", "k", 60, -5, 4),
        work("kernel", "k", 70, 1, 10**30, stream=10**12),
        {**work("kernel", "k", 80, 1, 5), "args": [1, 2]},
        {**call("cudaFree", 90, 1, 6), "pid": "no number", "tid": {"a": 1}},
        work("gpu_memcpy", "Memcpy ?", 95, 1, 7, bytes=-3),
    ]
    profile = build(written(events))
    found = codes(profile)
    assert profile.trace.kernels.height == 3 and found["P101"] == 1 and found["P103"] == 1
    assert found["P106"] >= 3 and found["P127"] == 1 and found["P105"] == 1
    assert profile.run_time_ns == 1000 * (96 - 10) - 500


def changed(seed: int) -> Iterator[bytes]:
    """Texts of a small trace with bytes changed, cut, doubled and replaced by what JSON is
    made of.
    """
    chance = random.Random(seed)
    parts = [
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b",",
        b":",
        b"\\",
        b"\n",
        b"\x00",
        b"\xff",
        b"1e999",
        b'{"ph":',
        b"null",
        b"NaN",
        b'"ph": "B"',
    ]
    whole = text(
        [*launched(1.5, 1), *copied(50.5, 2)], deviceProperties=[{"id": 0, "name": "x"}]
    ).encode()
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(chance.choice([1, 2, 8])):
            at, what = chance.randrange(len(content)), chance.random()
            if what < 0.4:
                content[at : at + chance.choice([0, 1, 9])] = chance.choice(parts)
            elif what < 0.6:
                content[at] = chance.randrange(256)
            elif what < 0.8:
                del content[at : at + chance.choice([1, 5, 90])]
            else:
                content[at:at] = content[at : at + chance.choice([3, 200])]
        yield bytes(content[: chance.choice([len(content), chance.randrange(1, len(content))])])


@pytest.mark.parametrize("seed", [1, 2])
def test_changed_bytes_give_errors_or_findings(written: Callable[..., Trace], seed: int) -> None:
    seen: Counter[str] = Counter()
    for number, content in enumerate(changed(seed)):
        try:
            trace = written(
                gzip.compress(content) if number % 5 == 0 else content, "t.pt.trace.json"
            )
            profile = build(trace)
            assert summary.closure_defect_ns(profile) == 0
            seen.update(f.code for f in trace.findings)
        except ProfileError as error:
            seen[error.code] += 1
    assert seen["P162"] > 4 and seen["P163"] > 1 and seen["P035"] > 1


def test_threads_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(
        text(
            [
                e
                for k in range(4000)
                for e in (
                    *launched(10.5 + 90 * k, 2 * k + 1, f"f{k % 9}"),
                    *copied(50.5 + 90 * k, 2 * k + 2),
                )
            ]
        )
    )
    one, many = (read(path, use_cache=False, threads=n) for n in (1, 4))
    assert one.names.equals(many.names) and one.facts == many.facts
    assert all(one.table(t).equals(many.table(t)) for t in one.has | many.has)


def test_progress_stops_a_read(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text(launched(1.5, 1)))
    shares: list[float] = []
    read(path, use_cache=False, progress=shares.append)
    assert shares[0] == 0.0 and shares[-1] == 1.0

    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read(path, use_cache=False, progress=stop)


def test_names_of_archives() -> None:
    assert kineto.archive(Path("a.tar.gz::b/c.json")) == (Path("a.tar.gz"), "b/c.json")
    assert kineto.archive(Path("a::b.json")) is None and kineto.archive(Path("a.tar.gz::")) is None


# --- real ones ------------------------------------------------------------------------------------


def truths(shared: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each recording and what it holds."""
    known = json.loads((shared / "traces" / "truth.json").read_text(encoding="utf-8"))
    for key, of in known.items():
        if key.startswith("kineto/"):
            for name, truth in of["files"].items():
                yield shared / "traces" / key / name, truth


def test_real_traces_hold_what_their_truth_says(shared: Path) -> None:
    count = 0
    for path, truth in truths(shared):
        profile = recorded_profile(path)
        kernels, copies = summary.kernels(profile), summary.copies(profile)
        assert (
            kernels["count"] == truth["k"]
            and sum(c["count"] for c in copies.values()) == truth["nm"]
        ), path
        assert round(kernels["busy_ns"] / 1e6, 3) == truth["kbusy_ms"], path
        assert round((summary.kernel_window_ns(profile) or 0) / 1e6, 3) == truth["kspan_ms"], path
        for name, size in truth["memcpy"].items():
            # the truth adds up what the copies say themselves; two of an MI250 only their calls
            # tell
            found = copies[name.removeprefix("Memcpy ").replace("to", "2").lower()]["bytes"]
            assert found == (5120 if "mi250" in path.name else size), path
        assert {
            c: n for c, n in profile.trace.facts["tables"].items() if c in truth["cats"]
        } == truth["cats"], path
        lasting = profile.trace.kernels.filter(
            profile.trace.text(profile.trace.kernels).str.to_lowercase().str.contains("nccl")
        )
        assert lasting.height == truth["nccl"], path
        assert summary.closure_defect_ns(profile) == 0, path
        count += 1
    assert count == 32


@pytest.mark.parametrize("replay", ["sum", "timeline"])
def test_real_traces_on_their_own_machine_take_their_own_time(shared: Path, replay: Replay) -> None:
    for path, _ in truths(shared):
        if path.name.startswith(("resnet_kineto", "df_index", "rank0")) and replay == "timeline":
            continue  # these take seconds
        profile = recorded_profile(path)
        source, _, _ = observed_machine(profile)
        answer = project(profile, Pair(source, source), replace(nething(), replay=replay))
        assert abs(answer.seconds - answer.measured_seconds) < 1e-9, path
