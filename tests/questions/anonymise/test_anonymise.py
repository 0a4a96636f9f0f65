"""What goes and what stays when a recording is anonymised, and the look for credentials; that
answers stay is a law of tests/laws.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import frames
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnbuckle.foundation import schema
from turnbuckle.foundation.findings import finding
from turnbuckle.profile.kernels import between_gpus
from turnbuckle.profile.messages.nccl import operation_in
from turnbuckle.questions.anonymise import question as module
from turnbuckle.questions.anonymise.question import Treated, anonymise, kept_kernels, treated_rows
from turnbuckle.questions.anonymise.stand_in import read_as, stand_in
from turnbuckle.trace.readers import parquet
from turnbuckle.trace.secrets import credential, look
from turnbuckle.trace.trace import Trace

plain = settings(max_examples=150)
KEY = b"sixteen bytes, or more"

NAMES = (
    "attention_for_secret_model",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "cudaLaunchKernel",
    "secretLaunchWrapper",
    "epoch of project x",
    "dlopen(/home/alice/libmine.so)",
    "MPI_Allreduce",
    "ncclKernel_secret_AllGather",
    "poll",
    "never used",
    "void ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(alice*)",
    "action_of_alice",
)


def recording(**facts: Any) -> Trace:
    """One run with a name of every kind, ids of every kind and a clock of its own."""
    at = 1_700_000_000_000_000_000 % (1 << 53)
    rows: dict[str, list[dict[str, Any]]] = {
        "api": [
            {
                "start_ns": at + 1_000 * i,
                "end_ns": at + 1_000 * i + 400,
                "correlation": i + 1,
                "name": 2 if i % 2 else 3,
            }
            for i in range(8)
        ],
        "kernels": [
            {
                "start_ns": at + 1_000 * i + 300,
                "end_ns": at + 1_000 * i + 900,
                "correlation": i + 1,
                "name": (0, 1, 7, 10)[i % 4],
                "short_name": (0, 1, 7, 10)[i % 4],
            }
            for i in range(8)
        ],
        "ranges": [{"start_ns": at, "end_ns": at + 9_000, "name": 4, "thread": frames.THREAD + 5}],
        "overheads": [{"start_ns": at, "end_ns": at + 5, "name": 5}],
        "os_calls": [{"start_ns": at, "end_ns": at + 5, "name": 8}],
        "mpi": [
            {"start_ns": at + 100, "end_ns": at + 200, "name": 6, "kind": 1},
            {"start_ns": at + 300, "end_ns": at + 400, "name": 11},
        ],
        "allocations": [
            {"time_ns": at + 7, "address": 0x7F00_1234_0000 + i, "size_bytes": 64, "operation": 0}
            for i in range(2)
        ],
        "devices": [
            {"device": 0, "name": "NVIDIA H100 80GB HBM3", "chip": "GH100"},
            {"device": 1, "name": "card of \x1b[31malice"},
        ],
    }
    tables = frames.tables(**rows)
    told = {
        "format": "nsys",
        "schema_version": "3.25.0",
        "product_version": "2026.2.1.210-node17.alice",
        "sha256": "ab" * 32,
        "size_bytes": 12345,
        "session_start_utc_ns": 1_779_630_014_975_716_426,
        "analysis_duration_ns": 10_000,
        "tables": {"CUPTI_ACTIVITY_KIND_KERNEL": 8, "ALICES_TABLE": 3},
        **facts,
    }
    found = [
        finding("P119", 1, "META_DATA_CAPTURE"),
        finding("P120", 1, "ALICES_TABLE"),
        finding("P108", 1, "CUPTI_ACTIVITY_KIND_KERNEL.graphId"),
    ]
    return Trace(tables, pl.Series("name", NAMES), told, found, "alices_run.sqlite")


def made(trace: Trace, key: bytes = KEY, keep: str | None = None) -> tuple[Trace, list[Treated]]:
    return anonymise(trace, key, stand_in=stand_in, keep=keep)


def everything(trace: Trace) -> str:
    """All that would be written, as one text."""
    tables = {name: frame.rows() for name, frame in trace.tables.items()}
    return json.dumps(
        [
            trace.names.to_list(),
            trace.facts,
            [f.as_dict() for f in trace.findings],
            trace.name,
            tables,
        ]
    )


def test_nothing_of_the_owner_is_left() -> None:
    trace, _ = made(recording())
    text = everything(trace)
    for word in (
        "secret",
        "alice",
        "project x",
        "never used",
        "ab" * 32,
        "1779630014975716426",
        "12345",
        "19725",
        "node17",
        "ALICE",
        "dlopen",
        "poll",
    ):
        assert word not in text, word
    assert str(frames.THREAD) not in text and str(0x7F00_1234_0000) not in text
    assert [f.code for f in trace.findings] == ["P108", "P120", "P186"]
    assert {f.code: f.detail for f in trace.findings}[
        "P108"
    ] == "CUPTI_ACTIVITY_KIND_KERNEL.graphId"
    assert trace.facts == {
        "format": "nsys",
        "schema_version": "3.25.0",
        "product_version": "2026.2.1.210",
        "analysis_duration_ns": 10_000,
        "tables": {"CUPTI_ACTIVITY_KIND_KERNEL": 8},
        "session_start_utc_ns": None,
        "sha256": None,
        "size_bytes": None,
    }


def test_what_the_rules_read_stays() -> None:
    trace, _ = made(recording())
    kernels = trace.text(trace.kernels).to_list()
    assert re.fullmatch(r"kernel-[0-9a-f]{16}", kernels[0])
    assert kernels[1] == NAMES[1]
    assert re.fullmatch(r"ncclKernel_AllGather-kernel-[0-9a-f]{16}", kernels[2])
    assert re.fullmatch(
        r"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t-kernel-[0-9a-f]{16}", kernels[3]
    )
    calls = trace.text(trace.api).to_list()
    assert (
        re.fullmatch(r"LaunchKernel-call-[0-9a-f]{16}", calls[0]) and calls[1] == "cudaLaunchKernel"
    )
    assert trace.text(trace.mpi).to_list()[0] == "MPI_Allreduce"
    assert re.fullmatch(r"range-[0-9a-f]{16}", trace.text(trace.ranges)[0])
    assert trace.devices["name"][0] == "NVIDIA H100 80GB HBM3" and trace.devices["name"][
        1
    ].startswith("device-")


def test_times_and_ids_begin_anew() -> None:
    before = recording()
    trace, _ = made(before)
    assert min(trace.api["start_ns"].min(), trace.ranges["start_ns"].min()) == 1  # type: ignore[type-var]
    assert (trace.kernels["start_ns"] - before.kernels["start_ns"]).n_unique() == 1
    assert trace.api["process"].unique().to_list() == [1 << 24] and trace.kernels[
        "process"
    ].unique().to_list() == [1 << 24]
    assert trace.api["thread"].unique().to_list() == [1 << 24 | 1] and trace.ranges[
        "thread"
    ].to_list() == [1 << 24 | 2]
    assert trace.allocations["address"].to_list() == [1, 2]


def test_equal_names_stay_equal_under_one_key() -> None:
    one, other = (
        made(recording())[0],
        made(replace(recording(), names=pl.Series("name", [*NAMES[:9], "more", *NAMES[10:]])))[0],
    )
    assert one.text(one.kernels).to_list() == other.text(other.kernels).to_list()
    third = made(recording(), b"another key of the test")[0]
    assert one.text(one.kernels)[0] != third.text(third.kernels)[0]
    # a kernel's name and its short name are one text
    assert one.text(one.kernels).to_list() == one.text(one.kernels, "short_name").to_list()


def test_kernels_can_be_kept() -> None:
    trace, treated = made(recording(), keep="^attention")
    assert trace.text(trace.kernels)[0] == NAMES[0]
    assert [
        (t.count, t.examples[0]) for t in treated if (t.what, t.action) == ("kernel names", "kept")
    ] == [(2, NAMES[0])]


def test_a_pattern_cannot_take_for_ever() -> None:
    kernels = pl.Series(["a" * 5000 + "!", "gemm"])
    assert kept_kernels(kernels, r"(a+)+$") == frozenset() and kept_kernels(
        kernels, r"^(g|x)e"
    ) == {"gemm"}
    for pattern in ("(", r"(?=a)", r"(a)\1", "a{1000}{1000}{1000}"):
        with pytest.raises(ValueError):
            kept_kernels(kernels, pattern)


def test_a_name_cannot_take_for_ever() -> None:
    """80 digits in the arguments of a kernel of NCCL were divided among twelve numbers in every way
    that there is.
    """
    trace = recording()
    names = trace.names.to_list()
    names[0], names[1] = (
        "ncclKernel_AllReduce(" + "8" * 80 + "!",
        "ncclKernel_AllReduce(ncclDevComm*, unsigned long, ncclWork *)",
    )
    kernels = made(replace(trace, names=pl.Series("name", names)))[0]
    texts = kernels.text(kernels.kernels).to_list()
    assert (
        re.fullmatch(r"ncclKernel_AllReduce-kernel-[0-9a-f]{16}", texts[0]) and texts[1] == names[1]
    )


def test_functions_that_only_begin_like_mpi_are_hashed() -> None:
    names = [
        "MPI_Exchange_secret_",
        "PMPI_Isend",
        "MPI_Comm_create_errhandler",
        "mpi_file_write_at_all_",
        "MPI_alice",
    ]
    rows = frames.tables(
        mpi=[{"start_ns": 10 * k, "end_ns": 10 * k + 5, "name": k} for k in range(5)]
    )
    trace, _ = made(Trace(rows, pl.Series("name", names), {"tables": {}}))
    said = trace.text(trace.mpi).to_list()
    assert said[1:4] == names[1:4]
    assert all(re.fullmatch(r"call-[0-9a-f]{16}", said[k]) for k in (0, 4))


def test_names_with_one_hash_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DIGEST_BYTES", 1)
    names = [f"kernel {i}" for i in range(600)]
    rows = [{"start_ns": 10 + i, "end_ns": 11 + i, "name": i} for i in range(600)]
    trace, _ = made(
        Trace(
            frames.tables(kernels=rows),
            pl.Series("name", names),
            {"format": "nsys", "tables": {}},
            [],
            "x",
        )
    )
    assert trace.text(trace.kernels).n_unique() == 600
    hashes = {name.split("-")[1] for name in trace.names}
    assert len(hashes) <= 256 and {f.code: f.count for f in trace.findings}["P183"] == 600 - len(
        hashes
    )
    assert made(recording())[0].findings[-1].code == "P186"


def test_the_list_tells_no_names_once_a_copy_is_written() -> None:
    _, treated = made(recording())
    rows = {(r["what"], r["action"]): r for r in treated_rows(treated, originals=True)}
    assert rows["kernel names", "hashed"]["count"] == 3 and rows["kernel names", "hashed"][
        "examples"
    ][0].startswith("attention_for_secret_model -> ")
    assert (
        rows["ids of threads", "renumbered"]["count"] == 2
        and rows["texts that no row uses", "dropped"]["count"] == 1
    )
    assert (
        rows["names of the profiler's tables", "dropped"]["count"] == 1
        and rows["details of findings", "dropped"]["count"] == 1
    )
    beside = json.dumps(treated_rows(treated, originals=False))
    assert "secret" not in beside and "alice" not in beside


def test_it_is_written_and_read_again(tmp_path: Path) -> None:
    trace, _ = made(recording())
    trace.to_parquet(tmp_path / "out")
    back = parquet.read(tmp_path / "out")
    assert back.names.to_list() == trace.names.to_list() and back.has == trace.has
    for name, frame in trace.tables.items():
        assert back.table(name).equals(frame), name
    raw = b"".join(p.read_bytes() for p in (tmp_path / "out").iterdir())
    assert b"secret" not in raw and b"alice" not in raw


def test_every_column_of_the_vocabulary_is_thought_of() -> None:
    """A new column with names, texts, ids or times must be treated before it can be handed on."""
    for table, columns in schema.tables("trace").items():
        for c in columns:
            if "names" in c.meaning and c.type == "int32":
                assert (table, c.name) in module.ROLES, (table, c.name)
            if c.type == "text":
                assert (table, c.name) in module.TEXTS
            if c.unit == "ns" and c.name not in module.TIMES:
                assert table == "processes", (table, c.name)
            if re.search(r"global|process id|thread id|address", c.meaning) and c.type == "int64":
                assert c.name in ("process", "thread", "address"), (table, c.name)


def test_merged_recordings_keep_their_clocks_and_not_their_names() -> None:
    given = recording(
        sources=[
            {"name": "alice-0.json", "format": "kineto", "sha256": "ab" * 32},
            {"name": "bob", "format": "a b", "sha256": ""},
        ]
    )
    rows = [
        {
            "process": frames.PROCESS,
            "file": i,
            "name": 0,
            "offset_ns": 10**15 + 7 * i,
            "shift_ns": i,
            "drift_ns_per_s": 0,
        }
        for i in range(2)
    ]
    trace, _ = made(
        replace(given, tables={**given.tables, "processes": frames.frame("processes", rows)})
    )
    assert (
        trace.table("processes")["offset_ns"].to_list() == [0, 7]
        and trace.table("processes")["process"].to_list() == [1 << 24] * 2
    )
    assert re.fullmatch(r"file-[0-9a-f]{16}", trace.text(trace.table("processes"))[0])
    assert [(s["format"], s["sha256"]) for s in trace.facts["sources"]] == [
        ("kineto", ""),
        ("", ""),
    ]
    assert not [word for word in ("alice", "bob", "ab" * 32) if word in everything(trace)]


def test_a_recording_without_times_or_names() -> None:
    trace, _ = made(
        Trace(
            frames.tables(devices=[{"device": 0}]),
            pl.Series("name", [], dtype=pl.String),
            {"format": "nsys"},
            [],
            "",
        )
    )
    assert trace.has == {"devices"} and trace.facts["tables"] == {}


PARTS = re.findall(
    r"\S+",
    "Stream WaitEvent Event Synchronize Record Query Launch HostFunc Graph Memcpy Async Memset "
    "Malloc Free Address Kernel Module Link "
    "Prefetch Mem Alloc Host Get Set Device Pool x my_ Ünï",
)


@plain
@given(st.lists(st.sampled_from(PARTS), max_size=6).map("".join), st.text(max_size=5))
def test_a_stand_in_is_read_as_its_name_is(name: str, hostile: str) -> None:
    found = stand_in(name + hostile)
    assert read_as(found) == read_as(name + hostile)
    assert read_as(f"{found}-call-0123456789abcdef") == read_as(name + hostile)
    assert re.fullmatch(r"[A-Za-z]*", found)


@plain
@given(
    st.sampled_from(("nccl", "cross_device_reduce", "multimem_all_reduce", "")),
    st.text(max_size=60),
)
def test_any_name_of_a_kernel_is_bounded_and_means_the_same(begin: str, rest: str) -> None:
    text = begin + rest
    rows = [{"start_ns": 10, "end_ns": 11, "name": 0}]
    trace, _ = made(
        Trace(frames.tables(kernels=rows), pl.Series("name", [text]), {"format": "nsys"}, [], "x")
    )
    new = trace.text(trace.kernels)[0]
    assert between_gpus(new) == between_gpus(text)
    assert operation_in(new) == operation_in(text) or not between_gpus(text)


# --- credentials ----------------------------------------------------------------------------------


def test_names_of_credentials() -> None:
    yes = (
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "GITHUB_TOKEN",
        "API_KEY",
        "KEY",
        "WANDB_API_KEY",
        "PMI_SHARED_SECRET",
        "MYAPIKEY",
    )
    no = (
        "PATH",
        "PWD",
        "TOKENIZERS_PARALLELISM",
        "KEYBOARD",
        "MONKEYS",
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "COMPASS",
        "HOME",
    )
    assert [n for n in yes if not credential(n)] == [] and [n for n in no if credential(n)] == []


def database(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as file, file:
        for statement in statements:
            file.execute(statement)
    file.close()
    return path


def test_credentials_are_counted_and_not_told(tmp_path: Path) -> None:
    path = database(
        tmp_path / "a.sqlite",
        "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)",
        (
            "INSERT INTO META_DATA_CAPTURE VALUES ('P_0:ENVIRONMENT_VARIABLE', "
            "'HF_TOKEN=hf_abc'), ('P_0:ENVIRONMENT_VARIABLE', 'A=1')"
        ),
        (
            "INSERT INTO META_DATA_CAPTURE VALUES ('NVTX_OPTIONS:TRACE_NVTX_RANGE_HOT_KEY', "
            "'false'), ('ENVIRONMENT_VARIABLE:X_KEY', 'y')"
        ),
        "CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, name TEXT, value TEXT)",
        (
            "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'DeviceEnvironment', "
            "'PATH=/bin;HF_TOKEN=hf_abc;DB_PASSWORD=x')"
        ),
        "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'Blob', x'ff00ff')",
    )
    found = look(path)
    assert (found.places, found.credentials) == (
        {"META_DATA_CAPTURE": 4, "TARGET_INFO_SYSTEM_ENV": 2},
        3,
    )
    (said,) = found.findings()
    assert (
        (said.code, said.count) == ("P182", 3)
        and "HF_TOKEN" not in str(said.as_dict())
        and "hf_abc" not in str(found)
    )


def test_only_real_tables_are_looked_at(tmp_path: Path) -> None:
    path = database(
        tmp_path / "v.sqlite",
        "CREATE TABLE t (name TEXT, value TEXT)",
        "INSERT INTO t VALUES ('x', 'HF_TOKEN=1')",
        "CREATE VIEW META_DATA_CAPTURE AS SELECT * FROM t",
        "CREATE TABLE TARGET_INFO_SYSTEM_ENV (other TEXT)",
    )
    found = look(path)
    assert found.looked and found.credentials == 0 and found.places == {} and found.findings() == []


def test_chrome_traces(tmp_path: Path) -> None:
    text = json.dumps(
        {
            "env": {"HF_TOKEN": "abc", "PATH": "/bin", "EMPTY_KEY": ""},
            "cmd": "DB_PASSWORD=x python run.py",
            "traceEvents": [],
        }
    )
    for name, content in (("a.json", text.encode()), ("a.json.gz", gzip.compress(text.encode()))):
        path = tmp_path / name
        path.write_bytes(content)
        assert look(path).credentials == 2, name


def test_what_cannot_be_looked_at_says_so(tmp_path: Path) -> None:
    for name, content in (
        ("a.et", b"\x5e\x12"),
        ("b.sqlite", b"SQLite format 3\x00" + b"x" * 200),
        ("c.gz", gzip.compress(b"x" * 99)[:20]),
    ):
        (tmp_path / name).write_bytes(content)
        assert not look(tmp_path / name).looked, name
    assert not look(tmp_path).looked and not look(tmp_path / "missing").looked


@pytest.mark.shared
def test_a_real_recording_with_a_credential(shared: Path) -> None:
    assert look(shared / "traces/nsys/h100_2gpu_1s/h100_2gpu_1s.sqlite").credentials == 1
    assert look(shared / "traces/nsys/jacobi_gh200/jacobi_report.sqlite").credentials == 0
