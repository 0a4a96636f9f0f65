"""Recordings of rocprof: its database and JSON; real files of all of AMD's profilers against their
truth.
"""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from build_rocprof import (
    START,
    equal_but_for_numbering,
    open_with_reader,
    refused,
    v1_database,
    v1_json,
    v3,
)
from refusals import codes

from turnbuckle.profile.classify import CALL_CLASSES, call_class, call_classes
from turnbuckle.profile.profile import build
from turnbuckle.projection.run import Run
from turnbuckle.trace import Trace
from turnbuckle.trace.check import launch_pairs
from turnbuckle.trace.readers import kineto
from turnbuckle.trace.readers.rocprof import csv_sets as rocprof_csv
from turnbuckle.trace.readers.rocprof import reader as rocprof
from turnbuckle.trace.readers.rocprof.rows import short_name


def test_database_and_json_of_rocprof(tmp_path: Path) -> None:
    v1_database(tmp_path / "results.db")
    (tmp_path / "same.json").write_text(v1_json())
    a, b = (open_with_reader(tmp_path / name) for name in ("results.db", "same.json"))
    equal_but_for_numbering(a, b)
    assert {t: f.height for t, f in a.tables.items()} == {
        "api": 5,
        "kernels": 1,
        "copies": 1,
        "memsets": 2,
        "ranges": 2,
        "allocations": 2,
        "streams": 1,
    }
    kernel = a.kernels.row(0, named=True)
    assert (
        kernel
        | {
            "device": 1,
            "stream": 3,
            "process": 909 << 24,
            "blocks": None,
            "threads": None,
            "graph_node": None,
        }
        == kernel
    )
    # the copy's size stands in its call; of a call with two sets it cannot be told which set which
    # bytes
    assert a.copies["size_bytes"].to_list() == [4096] and a.memsets["size_bytes"].to_list() == [
        None,
        None,
    ]
    assert launch_pairs(a.tables).height == 4
    assert a.ranges["kind"].to_list() == [59, 34] and a.text(a.ranges).to_list() == ["step", "mark"]
    assert a.allocations.select("operation", "size_bytes", "memory").rows() == [
        (0, 8192, 3),
        (1, 8192, 3),
    ]
    assert codes(a) == {"P113": 1, "P123": 1, "P176": 1} and codes(b) == {"P113": 1, "P176": 1}
    assert b.devices.row(0, named=True)[
        "memory_bytes"
    ] == 33538048 * 1024 and "secret" not in json.dumps([b.facts, b.names.to_list()])


def test_a_database_and_its_json_are_one_run_with_one_answer(tmp_path: Path) -> None:
    """rocprof writes its JSON beside the database and describes the devices there alone."""
    v1_database(tmp_path / "results.db")
    (tmp_path / "results.json").write_text(v1_json())
    a, b = (open_with_reader(tmp_path / f"results.{kind}") for kind in ("db", "json"))
    assert a.devices.equals(b.devices) and a.devices.height == 1
    assert codes(a) == codes(b) | {"P230": 1} and "secret" not in json.dumps(
        [a.facts, a.names.to_list()]
    )
    answers = [Run.of(build(trace)).project(["gh200"], draws=20).projections[0] for trace in (a, b)]
    assert answers[0].ends == answers[1].ends and answers[0].seconds == answers[1].seconds


@pytest.mark.parametrize("other", ["later", "cut", "nothing", "folder"])
def test_a_json_of_another_run_describes_no_devices(other: str, tmp_path: Path) -> None:
    v1_database(tmp_path / "results.db")
    text = v1_json()
    written = {
        "later": text.replace('"BeginNs": "6', '"BeginNs": "7'),
        "cut": text[: len(text) // 2],
        "nothing": "",
    }
    if other == "folder":
        (tmp_path / "results.json").mkdir()
    else:
        (tmp_path / "results.json").write_text(written[other])
    trace = open_with_reader(tmp_path / "results.db")
    assert not trace.devices.height and codes(trace)["P123"] == 1 and "P230" not in codes(trace)


def test_kernels_that_rocprof_takes_for_copies(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    v1_database(path)
    with closing(sqlite3.connect(path)) as db, db:
        for name in ("void CopyRows<int>(int*)", "FillRandom.kd", "CopyBufferRect"):
            db.execute(
                "INSERT INTO COPY VALUES (?, ?, 1, 0, ?, 1, 3, 9, 909, '', 0)",
                (START + 90_000, START + 91_000, name),
            )
        db.execute("UPDATE OPS SET Name = 'drawMarkers(int)' WHERE Name LIKE 'scale%'")
    db.close()
    trace = open_with_reader(path)
    assert set(trace.text(trace.kernels)) == {
        "void CopyRows<int>(int*)",
        "FillRandom",
        "drawMarkers(int)",
    }
    assert (
        trace.copies["direction"].to_list() == [1, 0]
        and codes(trace)["P127"] == 1
        and trace.memsets.height == 2
    )


def test_newer_rocprof_names_processes(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with closing(sqlite3.connect(path)) as db, db:
        own = '"Index", Data, __section, __lane'
        for table in ("HIP", "HSA"):
            db.execute(f"CREATE TABLE {table} (BeginNs, EndNs, pid, tid, Name, args, {own})")
        db.execute(
            'CREATE TABLE OPS (BeginNs, EndNs, "dev-id", "queue-id", Name, pid, tid, '
            f'"roctx-range", "stream-id", {own})'
        )
        db.execute(f"CREATE TABLE COPY (BeginNs, EndNs, Name, pid, tid, {own})")
        for pid in (11, 12):
            at = START + pid
            db.execute(
                (
                    "INSERT INTO HIP VALUES (?, ?, ?, 50, 'hipLaunchKernel', '( stream(4))', 1, "
                    "'', 2, 50)"
                ),
                (at, at + 5, pid),
            )
            db.execute(
                (
                    "INSERT INTO HSA VALUES (?, ?, ?, 50, 'hsa_amd_memory_async_copy', '()', 1, "
                    "'', 3, 50)"
                ),
                (at + 100, at + 105, pid),
            )
            db.execute(
                "INSERT INTO OPS VALUES (?, ?, 0, 2, 'k(int)', ?, 50, '', 4, 1, '', 6, 4)",
                (at + 9, at + 20, pid),
            )
            db.execute(
                "INSERT INTO COPY VALUES (?, ?, 'async-copy', ?, 50, 1, '', 1, 50)",
                (at + 110, at + 120, pid),
            )
    db.close()
    trace = open_with_reader(path)
    pairs = launch_pairs(trace.tables)
    calls = trace.text(trace.api).gather(pairs["api_row"]).to_list()
    assert (
        list(zip(pairs["table"], calls, strict=True))
        == [("kernels", "hipLaunchKernel")] * 2 + [("copies", "hsa_amd_memory_async_copy")] * 2
    )
    assert trace.kernels["process"].to_list() == [11 << 24, 12 << 24] and trace.kernels[
        "stream"
    ].to_list() == [4, 4]
    assert codes(trace)["P127"] == 2 and codes(trace)["P166"] == 2


def kernels_csv(counters: str = "", timed: bool = True) -> str:
    times = '"DispatchNs","BeginNs","EndNs","CompleteNs",' if timed else ""
    columns = [
        "Index",
        "KernelName",
        "gpu-id",
        "queue-id",
        "queue-index",
        "pid",
        "tid",
        "grd",
        "wgr",
        "lds",
        "arch_vgpr",
        "accum_vgpr",
    ]
    head = ",".join(f'"{c}"' for c in columns) + f',{times}"DurationNs"{counters}\n'
    rows = []
    for k in range(4):
        at = START + 1000 * k
        stamps = f"{at},{at + 10},{at + 500},{at + 600}," if timed else ""
        rows.append(
            f'{k},"void f<int, a>(int*, ""x"") [clone '
            f'.kd]",8,0,{k},77,77,1000,256,0,16,0,{stamps}490{",7" if counters else ""}\n'
        )
    return head + "".join(rows)


def test_kernels_of_rocprof_as_csv_and_database(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text(kernels_csv())
    a = open_with_reader(path)
    with closing(sqlite3.connect(tmp_path / "results.db")) as db, db:
        table = list(csv.reader(path.read_text().splitlines()))
        db.execute(f"CREATE TABLE KERN ({', '.join(chr(34) + c + chr(34) for c in table[0])})")
        db.executemany(f"INSERT INTO KERN VALUES ({', '.join('?' * len(table[0]))})", table[1:])
    db.close()
    equal_but_for_numbering(a, open_with_reader(tmp_path / "results.db"))
    assert a.kernels["blocks"].to_list() == [4] * 4 and a.text(a.kernels).unique().to_list() == [
        'void f<int, a>(int*, "x")'
    ]
    assert codes(a) == {"P123": 1, "P169": 1} and a.facts["recorded"] == ["kernels"]
    path.write_text(kernels_csv(',"SQ_WAVES"'))
    assert codes(open_with_reader(path))["P181"] == 4
    path.write_text(kernels_csv(timed=False))
    error = refused(path)
    assert error.code == "P044" and "--timestamp on" in error.fix


@pytest.mark.parametrize(
    ("name", "beside", "said"),
    [
        ("results.stats.csv", "results.db", "results.db"),
        ("results.hip_stats.csv", "results.json", "results.json"),
        ("results.copy_stats.csv", None, "rocprofv3's _results.db"),
        ("decode_kernel_stats.csv", "decode_kernel_trace.csv", "decode_kernel_trace.csv"),
        ("decode_domain_stats.csv", "decode_results.db", "decode_results.db"),
    ],
)
def test_summaries_are_refused_by_name(
    tmp_path: Path, name: str, beside: str | None, said: str
) -> None:
    (tmp_path / name).write_text(
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\nhipMemcpy,3,17,5,100.0\n'
    )
    if beside:
        (tmp_path / beside).write_text("x")
    error = refused(tmp_path / name)
    assert error.code == "P044" and said in error.fix


# --- all ------------------------------------------------------------------------------------------


def test_sniffing(tmp_path: Path) -> None:
    """What PyTorch, Nsight Systems and others write is left to their readers, and theirs to
    ours.
    """
    torch = tmp_path / "trace.json"
    torch.write_text(
        json.dumps(
            {
                "schemaVersion": 1,
                "traceEvents": [
                    {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {}}
                ],
            }
        )
    )
    assert not rocprof.sniff(torch.read_bytes()[:512], torch) and kineto.sniff(
        torch.read_bytes()[:512], torch
    )
    (tmp_path / "results.json").write_text(v1_json())
    (tmp_path / "x_results.json").write_text(json.dumps({"rocprofiler-sdk-tool": [v3({})]}))
    wanted = {"results.json": "v1-json", "x_results.json": "v3-json"}
    for name, kind in wanted.items():
        for written in (
            (tmp_path / name).read_bytes(),
            b"\xef\xbb\xbf" + (tmp_path / name).read_bytes(),
        ):
            (tmp_path / name).write_bytes(written)
            assert (
                rocprof.kind(written[:512].removeprefix(b"\xef\xbb\xbf"), tmp_path / name) == kind
            )
    nsys = tmp_path / "report.sqlite"
    with closing(sqlite3.connect(nsys)) as db, db:
        db.execute("CREATE TABLE StringIds (id, value)")
        db.execute('CREATE TABLE HIP ("Index", other)')
    db.close()
    assert not rocprof.sniff(nsys.read_bytes()[:512], nsys)
    for name, text in {
        "a.csv": "",
        "b.csv": "Type,Time(%),Time,Calls\n",
        "c.csv": "\x00\xff\n",
        "d.json": "{",
        "e.json": "[]",
    }.items():
        (tmp_path / name).write_text(text, encoding="latin-1")
        head = (tmp_path / name).read_bytes()[:512]
        assert not rocprof.sniff(head, tmp_path / name) and not rocprof_csv.sniff(
            head, tmp_path / name
        )


def test_hip_calls_are_classified_like_cuda_calls() -> None:
    kinds = {
        "launch": "hipLaunchKernel hipModuleLaunchKernel hipExtLaunchKernel hipGraphLaunch",
        "copy": "hipMemcpy hipMemcpyAsync hipMemcpyWithStream",
        "memset": "hipMemset hipMemsetAsync",
        "alloc": "hipMalloc hipHostMalloc hipFree hipHostFree hipExtMallocWithFlags hipMallocManaged",
        "sync": "hipStreamSynchronize hipDeviceSynchronize hipEventSynchronize",
        "event": "hipEventRecord hipStreamWaitEvent",
        "query": (
            "hipEventQuery hipGetLastError hipGetDevicePropertiesR0600 hipPointerGetAttributes "
            "hipSetDevice"
        ),
        "stream": "hipStreamCreate hipGraphInstantiate",
        "module": "hipModuleLoadData",
        "other": "__hipPushCallConfiguration __hipPopCallConfiguration",
    }
    pairs = {name: kind for kind, names in kinds.items() for name in names.split()}
    assert {name: call_class(name) for name in pairs} == pairs


def test_short_names() -> None:
    names = {
        "void a::b<c(int)>::f<d>(e*) const": "f",
        "__amd_rocclr_fillBufferAligned": "__amd_rocclr_fillBufferAligned",
        "": "",
        "Kokkos::(anonymous namespace)::init(int)": "init",
        "a<b>>c<": "a>c",
    }
    assert {n: short_name(n) for n in names} == names


# --- real files -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(shared: Path) -> tuple[Path, dict[str, Any]]:
    truth = json.loads((shared / "traces" / "truth.json").read_text())
    return shared / "traces", {
        k.removeprefix("rocprof/"): v["files"] for k, v in truth.items() if k.startswith("rocprof/")
    }


def busy_and_span(trace: Trace) -> tuple[int, int]:
    start, end = trace.kernels["start_ns"], trace.kernels["end_ns"]
    return int((end - start).sum()), int(end.max()) - int(start.min())  # type: ignore[arg-type]


def test_a_training_run_on_mi350(real: tuple[Path, dict[str, Any]]) -> None:
    folder, truth = real
    trace = open_with_reader(folder / "rocprof/rocprofv3_json_mi350_train/908_results.json.gz")
    told = truth["rocprofv3_json_mi350_train"]["_summary"]
    assert trace.kernels.height == told["kernel_dispatches"] and busy_and_span(trace) == (
        told["busy_ns"],
        told["span_ns"],
    )
    assert trace.devices.height == told["agents"] - 2 and set(trace.devices["name"]) == {
        "AMD Instinct MI350X"
    }
    assert trace.facts["recorded"] == ["kernels"] and trace.api.is_empty()
    assert not any(c in codes(trace) for c in ("P105", "P106", "P128", "P162", "P163"))


def test_one_kokkos_run_as_database_and_json(real: tuple[Path, dict[str, Any]]) -> None:
    folder, truth = real
    place = folder / "rocprof/kokkos_scatterview_rocprof_a"
    a, b = open_with_reader(place / "results.db"), open_with_reader(place / "results.json")
    rows = {k.removeprefix("rows_"): v for k, v in truth[place.name]["results.db"].items()}
    assert a.facts["tables"] == b.facts["tables"] == rows
    for trace in (a, b):
        works = trace.kernels.height + codes(trace)["P176"]
        assert (
            trace.ranges.height,
            trace.api.height,
            works,
            trace.copies.height + trace.memsets.height,
        ) == tuple(rows.values())
    equal_but_for_numbering(a, b)
    stats = list(csv.DictReader((place / "results.copy_stats.csv").read_text().splitlines()))
    words = {"CopyHostToDevice": 1, "CopyDeviceToHost": 2}
    for row in stats:
        copies = (
            a.copies.filter(pl.col("direction") == words[row["Name"]])
            if row["Name"] in words
            else a.memsets
        )
        assert (copies.height, (copies["end_ns"] - copies["start_ns"]).sum()) == (
            int(row["Calls"]),
            int(row["TotalDurationNs"]),
        )
    calls = a.api.select(length=pl.col("end_ns") - pl.col("start_ns"), name=a.text(a.api))
    for row in csv.DictReader((place / "results.hip_stats.csv").read_text().splitlines()):
        mine = calls.filter(pl.col("name") == row["Name"])["length"]
        assert (len(mine), mine.sum()) == (int(row["Calls"]), int(row["TotalDurationNs"]))
    assert (
        int(a.copies["size_bytes"].sum()) == 40_002_736 and a.copies["size_bytes"].null_count() == 0
    )
    assert launch_pairs(a.tables).height == 38


def test_one_laplacian_as_database_and_csv(real: tuple[Path, dict[str, Any]]) -> None:
    folder, truth = real
    place = folder / "rocprof/laplacian_rocprof_mi200"
    a, b = open_with_reader(place / "results.db"), open_with_reader(place / "results.csv")
    equal_but_for_numbering(a, b)
    assert (
        a.kernels.height
        == truth[place.name]["results.db"]["rows_KERN"]
        == truth[place.name]["results.csv"]["lines"] - 1
    )
    assert a.kernels["blocks"][0] == 134217728 // 256 and a.kernels["registers"][2] == 12 + 4


def test_a_decode_step(real: tuple[Path, dict[str, Any]]) -> None:
    folder, truth = real
    told = truth["llm_decode_rocprofv3"]["_summary"]
    for name in told:
        trace = open_with_reader(folder / "rocprof/llm_decode_rocprofv3" / name)
        assert (trace.kernels.height, trace.api.height) == (
            told["decode_kernel_trace.csv"],
            told["decode_hip_api_trace.csv"],
        )
        assert codes(trace)["P177"] == 1 and codes(trace)["P167"] == 24
        classes = [CALL_CLASSES[c] for c in call_classes(trace.api["name"], trace.names)]
        assert classes.count("launch") == 181 and classes.count("copy") == 8


def test_other_real_files_are_left_to_their_readers(real: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = real
    others = [
        p
        for kind in ("nsys", "kineto", "nvprof", "chakra", "measured")
        for p in sorted((folder / kind).rglob("*"))
        if p.is_file()
    ]
    for path in others:
        with path.open("rb") as file:
            head = file.read(512)
        assert not rocprof.sniff(head, path) and not rocprof_csv.sniff(head, path), path.name
    assert len(others) > 20
