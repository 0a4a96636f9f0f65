"""The Nsight Systems reader: known counts of real files, and each trap of the format on small
ones.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import build_nsys as b
import polars as pl
import pytest

from turnbuckle.foundation import schema
from turnbuckle.foundation.schema import words
from turnbuckle.trace import Trace, read

DIRECTIONS = words("directions")
MEMORIES = words("memories")


def found(trace: Trace) -> dict[str, int]:
    out: dict[str, int] = {}
    for f in trace.findings:
        out[f.code] = out.get(f.code, 0) + f.count
    return out


def texts(trace: Trace, table: str, column: str = "name") -> list[str | None]:
    return trace.text(trace.table(table), column).to_list()


# --- real files -----------------------------------------------------------------------------------

TABLES = {
    "KERNEL": ("CUPTI_ACTIVITY_KIND_KERNEL", "kernels"),
    "MEMCPY": ("CUPTI_ACTIVITY_KIND_MEMCPY", "copies"),
    "MEMSET": ("CUPTI_ACTIVITY_KIND_MEMSET", "memsets"),
    "RUNTIME": ("CUPTI_ACTIVITY_KIND_RUNTIME", "api"),
    "SYNCHRONIZATION": ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "syncs"),
    "OSRT_API": ("OSRT_API", "os_calls"),
    "NVTX_EVENTS": ("NVTX_EVENTS", "ranges"),
    "SAMPLING_CALLCHAINS": ("SAMPLING_CALLCHAINS", None),
}
COPY_KINDS = {"1": "h2d", "2": "d2h", "8": "d2d", "11": "migration_h2d", "12": "migration_d2h"}
#: Their truth counts no table of the host's.
GPU_TABLES_ONLY = {"nsys/trixi_v100_julia", "nsys/testcuda_rtx4060ti"}
ADAPTERS = {"Intel(R) HD Graphics 630", "Microsoft Basic Render Driver"}


def _measured(trace: Trace) -> dict[str, Any]:
    """The same quantities as truth.json has, from our tables."""
    counts = trace.facts["tables"]
    out: dict[str, Any] = {}
    for key, (table, ours) in TABLES.items():
        if counts.get(table):
            out[f"rows_{key}"] = counts[table]
            assert ours is None or trace.table(ours).height == counts[table], table
    k = trace.kernels
    out["kernel_first_start_ns"], out["kernel_last_end_ns"] = k["start_ns"].min(), k["end_ns"].max()
    out["kernel_busy_ns"] = (k["end_ns"] - k["start_ns"]).sum()
    out["kernel_span_ns"] = k["end_ns"].max() - k["start_ns"].min()  # type: ignore[operator]
    out["streams"], out["devices"] = k["stream"].n_unique(), k["device"].n_unique()
    busy = (pl.col("end_ns") - pl.col("start_ns")).sum().alias("busy_ns")
    groups = trace.copies.group_by("direction").agg(
        pl.len().alias("count"), pl.col("size_bytes").sum().alias("bytes"), busy
    )
    out["memcpy_by_copyKind"] = {DIRECTIONS[row.pop("direction")]: row for row in groups.to_dicts()}
    out["gpu"] = set(trace.devices["name"].to_list())
    out["nsys_version"], out["export_schema"] = (
        trace.facts["product_version"],
        trace.facts["schema_version"],
    )
    return out


def test_every_real_file_reads_as_its_truth_says(shared: Path) -> None:
    """23 public captures, schemas from none to 3.25: every value of truth.json that a table holds,
    exactly.
    """
    truth = json.loads((shared / "traces" / "truth.json").read_text())
    checked = 0
    for key, entry in truth.items():
        for name, values in entry["files"].items() if key.startswith("nsys/") else ():
            if not name.endswith(".sqlite"):
                continue
            trace = read(shared / "traces" / key / name, use_cache=False)
            got = _measured(trace)
            want = {
                k: v for k, v in values.items() if k not in ("command", "gpu", "memcpy_by_copyKind")
            }
            assert {k: got.get(k) for k in want} == want, key
            untold = (
                {"rows_OSRT_API", "rows_SAMPLING_CALLCHAINS"} if key in GPU_TABLES_ONLY else set()
            )
            assert {k for k in got if k.startswith("rows_")} - untold == {
                k for k in want if k.startswith("rows_")
            }, key
            assert got["memcpy_by_copyKind"] == {
                COPY_KINDS[k]: v for k, v in values.get("memcpy_by_copyKind", {}).items()
            }, key
            assert got["gpu"] == set(values.get("gpu", [])) - ADAPTERS, key
            _in_vocabulary(trace)
            checked += 1
    assert checked == 23


def _in_vocabulary(trace: Trace) -> None:
    for name, columns in schema.tables("trace").items():
        frame = getattr(trace, name)
        assert frame.columns == [c.name for c in columns]
        for column in columns:
            assert column.nullable or frame[column.name].null_count() == 0, (name, column.name)
        first = next((c for c in frame.columns if c.endswith("_ns")), None)
        assert first is None or frame[first].is_sorted(), name
        for column_name in ("name", "short_name"):
            if (
                column_name in frame.columns
                and frame[column_name].dtype == pl.Int32
                and frame.height
            ):
                assert (frame[column_name].drop_nulls() < len(trace.names)).all()


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        (
            "lammps-melt-4r",
            {"MPI_Send": 8136, "MPI_Irecv": 8136, "MPI_Sendrecv": 312, "MPI_Wait": 8136},
        ),
        (
            "halo-py-4r",
            {"MPI_Isend": 1600, "MPI_Irecv": 1600, "MPI_Waitall": 3200, "MPI_Allreduce": 40},
        ),
        ("cannon-py-4r", {"MPI_Sendrecv_replace": 20}),
        ("p2pkinds-2r", {"MPI_Ssend": 5, "MPI_Send_init": 1, "MPI_Recv_init": 1, "MPI_Start": 10}),
    ],
)
def test_mpi_calls_of_known_programs(shared: Path, name: str, counts: dict[str, int]) -> None:
    trace = read(shared / "traces" / "nsys-local" / f"{name}.sqlite", use_cache=False)
    calls = trace.mpi.with_columns(trace.text(trace.mpi).alias("call"))
    assert {k: calls.filter(pl.col("call") == k).height for k in counts} == counts
    assert found(trace)["P130"] == 1
    _in_vocabulary(trace)


def test_mpi_sizes_partners_and_ranks(shared: Path) -> None:
    folder = shared / "traces" / "nsys-local"
    melt = read(folder / "lammps-melt-4r.sqlite", use_cache=False)
    calls = melt.mpi.with_columns(melt.text(melt.mpi).alias("call"))
    assert calls.filter(pl.col("call") == "MPI_Send")["size_bytes"].sum() == 120_263_040
    assert calls.filter(pl.col("call") == "MPI_Irecv")["size_bytes"].sum() == 120_263_040
    assert (calls.filter(pl.col("kind") == 1).height, melt.mpi_ranks.height) == (652, 4)
    assert sorted(melt.mpi_ranks["rank"].to_list()) == [0, 1, 2, 3]
    halo = read(folder / "halo-py-4r.sqlite", use_cache=False)
    sends = halo.mpi.filter(halo.text(halo.mpi) == "MPI_Isend")
    assert sends["size_bytes"].unique().to_list() == [2048]
    cannon = read(folder / "cannon-py-4r.sqlite", use_cache=False)
    assert (
        cannon.mpi.filter(cannon.text(cannon.mpi) == "MPI_Sendrecv_replace")["size_bytes"].sum()
        == 2_621_440
    )
    kinds = read(folder / "p2pkinds-2r.sqlite", use_cache=False)
    reversed_rank = kinds.mpi.filter(
        (pl.col("tag") == 1300) & (kinds.text(kinds.mpi) == "MPI_Send")
    )
    assert reversed_rank["size_bytes"].to_list() == [13_000]


def test_ranges_os_calls_and_scheduling_of_a_known_program(shared: Path) -> None:
    folder = shared / "traces" / "nsys-local"
    nvtx = read(folder / "nvtx-py.sqlite", use_cache=False)
    labels = nvtx.ranges.with_columns(nvtx.text(nvtx.ranges).alias("label"))
    assert labels.height == 52
    assert labels.filter(pl.col("label").str.starts_with("step ")).height == 10
    assert labels.filter(pl.col("label") == "matmul").height == 10
    assert labels.filter(pl.col("kind") == 34)["end_ns"].to_list() == [None]
    sampled = read(folder / "lammps-melt-2r-osrt-sampling.sqlite", use_cache=False)
    assert (sampled.os_calls.height, sampled.scheduling.height) == (5057, 7888)
    assert sampled.facts["tables"]["COMPOSITE_EVENTS"] == 121
    assert sampled.facts["tables"]["SAMPLING_CALLCHAINS"] == 519
    assert (
        sampled.mpi.filter(pl.col("kind") == 0).height,
        sampled.mpi.filter(pl.col("kind") == 1).height,
    ) == (356, 286)


def test_the_page_decoder_and_sqlite_agree_on_every_real_file(shared: Path, tmp_path: Path) -> None:
    """In write-ahead-log mode SQLite itself reads the rows; the tables must be the same to the last
    cell.
    """
    files = [
        *(shared / "traces" / "nsys").glob("*/*.sqlite"),
        *(shared / "traces" / "nsys-local").glob("*.sqlite"),
    ]
    assert len(files) == 29
    for file in files:
        copy = tmp_path / file.name
        copy.write_bytes(file.read_bytes())
        direct = read(copy, use_cache=False)
        db = sqlite3.connect(copy)
        assert db.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
        db.close()
        through = read(copy, use_cache=False)
        assert through.facts.pop("sha256") != direct.facts.pop("sha256")
        assert (
            through.facts == direct.facts
            and through.findings == direct.findings
            and through.names.equals(direct.names)
        )
        assert through.has == direct.has and all(
            through.table(name).equals(direct.table(name)) for name in direct.has
        ), file.name
        copy.unlink()


# --- small files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["none", "3.0", "3.7", "3.24"])
def test_every_schema_gives_the_same_tables(tmp_path: Path, version: str) -> None:
    trace = read(b.make(tmp_path / "run.sqlite", version))
    assert trace.name == "run.sqlite"
    assert trace.kernels.select(
        "start_ns", "end_ns", "process", "device", "context", "stream", "correlation"
    ).rows() == [
        (2_500, 4_500, b.PROCESS, 0, 1, 7, 1),
        (4_600, 5_600, b.PROCESS, 0, 1, 7, 2),
    ]
    assert trace.kernels.select("blocks", "threads", "registers", "shared_bytes", "graph").row(
        0
    ) == (8, 128, 32, 1040, None)
    assert texts(trace, "kernels") == [b.STRINGS[2]] * 2
    assert texts(trace, "kernels", "short_name") == ["saxpy"] * 2
    assert texts(trace, "api") == ["cudaLaunchKernel", "cudaLaunchKernel", "cudaMemcpyAsync"]
    assert (
        trace.api["process"].to_list() == [b.PROCESS] * 3
        and trace.api["thread"].to_list() == [b.THREAD] * 3
    )
    assert [MEMORIES[k] for k in trace.copies.select("source_memory", "target_memory").row(0)] == [
        "pinned",
        "device",
    ]
    assert trace.streams.rows() == [(b.PROCESS, 1, 7, -5, 3)]
    assert trace.devices.row(0) == (
        0,
        "NVIDIA Test GPU",
        "GH100",
        1,
        80 << 30,
        3_352_000_000_000,
        1_980_000_000,
        132,
        3,
        9,
        0,
    )
    assert (
        trace.facts["format"] == "nsys"
        and trace.facts["session_start_utc_ns"] == 1_780_000_000_000_000_000
    )
    assert trace.facts["analysis_duration_ns"] == 10_000 and len(trace.facts["sha256"]) == 64
    assert (
        trace.facts["schema_version"]
        == {"none": None, "3.0": "3.0.0", "3.7": "3.7.2", "3.24": "3.24.14"}[version]
    )
    assert ("P108" in found(trace)) == (version != "3.24")
    assert trace.has == {"api", "kernels", "copies", "devices", "streams"}
    assert trace.mpi.is_empty() and trace.mpi.schema == read(tmp_path / "run.sqlite").mpi.schema
    _in_vocabulary(trace)


def test_columns_are_found_by_name_wherever_they_stand(tmp_path: Path) -> None:
    usual = b.COLUMNS["CUPTI_ACTIVITY_KIND_KERNEL"].split()
    plain = read(b.make(tmp_path / "a.sqlite", "3.24"))
    turned = " ".join(["unknownNewColumn", *reversed(usual)])
    other = read(
        b.make(tmp_path / "b.sqlite", "3.24", columns={"CUPTI_ACTIVITY_KIND_KERNEL": turned})
    )
    assert plain.kernels.equals(other.kernels)


def _numbering(
    path: Path, enum: list[dict[str, Any]] | None, kinds: list[tuple[int, int | None, int | None]]
) -> Trace:
    rows = [
        b.copy(i * 100 + 100, i * 100 + 150, i, kind, source, target)
        for i, (kind, source, target) in enumerate(kinds)
    ]
    return read(
        b.make(
            path,
            "3.7" if enum else "none",
            CUPTI_ACTIVITY_KIND_MEMCPY=rows,
            **({"ENUM_CUDA_MEM_KIND": enum} if enum else {}),
        )
    )


def _memories(trace: Trace) -> list[tuple[str, str]]:
    return [
        (MEMORIES[s], MEMORIES[t])
        for s, t in trace.copies.select("source_memory", "target_memory").rows()
    ]


def test_trap_1_memory_kinds_by_the_files_own_list(tmp_path: Path) -> None:
    kinds = [(1, 0, 2), (1, 1, 2), (2, 2, 0), (8, 2, 2), (1, 4, 5), (1, 7, 6)]
    trace = _numbering(tmp_path / "a.sqlite", b.MEM_KINDS, kinds)
    want = [
        ("pageable", "device"),
        ("pinned", "device"),
        ("device", "pageable"),
        ("device", "device"),
    ]
    assert _memories(trace) == [*want, ("managed", "device_static"), ("unknown", "managed_static")]
    assert "P112" not in found(trace) and found(trace)["P113"] == 1
    order = (
        "UNKNOWN",
        "PAGEABLE",
        "PINNED",
        "DEVICE",
        "ARRAY",
        "MANAGED",
        "DEVICE_STATIC",
        "MANAGED_STATIC",
    )
    cupti = [
        {"id": i, "name": f"CUPTI_ACTIVITY_MEMORY_KIND_{w}", "label": w}
        for i, w in enumerate(order)
    ]
    other = _numbering(tmp_path / "b.sqlite", cupti, [(1, 1, 3), (1, 2, 3), (2, 3, 1), (8, 3, 3)])
    assert _memories(other) == want
    assert found(other)["P112"] == 4


def test_trap_1_memory_kinds_by_the_copies_themselves(tmp_path: Path) -> None:
    assert _memories(
        _numbering(tmp_path / "a.sqlite", None, [(1, 0, 2), (1, 1, 2), (2, 2, 1)])
    ) == [
        ("pageable", "device"),
        ("pinned", "device"),
        ("device", "pinned"),
    ]
    cupti = _numbering(tmp_path / "b.sqlite", None, [(1, 1, 3), (1, 2, 3), (2, 3, 2)])
    assert _memories(cupti) == [("pageable", "device"), ("pinned", "device"), ("device", "pinned")]
    assert found(cupti)["P112"] == 3
    undecided = _numbering(
        tmp_path / "c.sqlite", None, [(1, None, None), (2, None, None), (8, 2, 2)]
    )
    assert set(_memories(undecided)) == {("unknown", "unknown")}
    assert found(undecided)["P113"] == 2


def test_trap_2_correlation_ids_repeat_between_processes(tmp_path: Path) -> None:
    calls = [b.call(10, 20, 1), b.call(11, 21, 1, globalTid=b.OTHER_THREAD)]
    kernels = [b.kernel(30, 40, 1), b.kernel(31, 41, 1, globalPid=b.OTHER_PROCESS | 77)]
    trace = read(
        b.make(
            tmp_path / "a.sqlite",
            CUPTI_ACTIVITY_KIND_RUNTIME=calls,
            CUPTI_ACTIVITY_KIND_KERNEL=kernels,
        )
    )
    assert (
        trace.api.select("process", "correlation").rows()
        == trace.kernels.select("process", "correlation").rows()
    )
    assert trace.api["process"].to_list() == [b.PROCESS, b.OTHER_PROCESS]


def test_trap_2_device_numbers_are_the_processes_own(tmp_path: Path) -> None:
    """Ranks that are shown one GPU each (CUDA_VISIBLE_DEVICES) all call it 0: the file says which
    GPU of the machine that is.
    """
    kernels = [
        b.kernel(30, 40, 1),
        b.kernel(31, 41, 1, globalPid=b.OTHER_PROCESS),
        b.kernel(50, 60, 2, deviceId=3),
    ]
    copies = [b.copy(70, 80, 4, copyKind=10, srcDeviceId=0, dstDeviceId=1)]
    gpus = [{**b.GPU, "id": n, "cuDevice": n, "name": f"gpu {n}"} for n in range(3)]
    told = [(2, 0, b.PID), (0, 1, b.PID), (1, 0, b.OTHER_PID)]
    shown = [{"gpuId": gpu, "cudaId": own, "pid": pid} for gpu, own, pid in told]
    rows = {
        "CUPTI_ACTIVITY_KIND_KERNEL": kernels,
        "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
        "TARGET_INFO_GPU": gpus,
    }
    apart = read(b.make(tmp_path / "a.sqlite", **rows, TARGET_INFO_CUDA_DEVICE=shown))
    assert apart.kernels.select("process", "device").rows() == [
        (b.PROCESS, 2),
        (b.OTHER_PROCESS, 1),
        (b.PROCESS, None),
    ]
    assert apart.copies.select("device", "source_device", "target_device").rows() == [(2, 2, 0)]
    assert apart.devices.select("device", "name").rows() == [
        (0, "gpu 0"),
        (1, "gpu 1"),
        (2, "gpu 2"),
    ]
    assert "own_device_numbers" not in apart.facts
    alike = read(b.make(tmp_path / "b.sqlite", **rows, TARGET_INFO_CUDA_DEVICE=shown[:2]))
    assert alike.kernels["device"].to_list() == [0, 0, 3], "one numbering is kept as it is"


def test_trap_3_rows_out_of_order_are_sorted_and_said_so(tmp_path: Path) -> None:
    starts = [50, 10, 30, 10, 20]
    kernels = [
        b.kernel(s, s + 5, i, graphNodeId=None if i == 2 else i) for i, s in enumerate(starts)
    ]
    ranges = [
        {"start": s, "end": s + 1, "eventType": 59, "text": f"r{s}", "globalTid": b.THREAD}
        for s in starts
    ]
    trace = read(
        b.make(tmp_path / "a.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=kernels, NVTX_EVENTS=ranges)
    )
    assert trace.kernels.select("start_ns", "correlation", "graph_node").rows() == [
        (10, 1, 1),
        (10, 3, 3),
        (20, 4, 4),
        (30, 2, None),
        (50, 0, 0),
    ]
    assert texts(trace, "ranges") == ["r10", "r10", "r20", "r30", "r50"]
    assert [f.detail for f in trace.findings if f.code == "P114"] == ["kernels"]


def test_trap_4_indexes_and_keys_change_nothing(tmp_path: Path) -> None:
    plain = read(b.make(tmp_path / "a.sqlite"))
    keyed = read(
        b.make(
            tmp_path / "b.sqlite",
            sql=["CREATE INDEX by_start ON CUPTI_ACTIVITY_KIND_KERNEL(start DESC)", "ANALYZE"],
        )
    )
    assert plain.kernels.equals(keyed.kernels)


def test_trap_5_absent_and_empty_tables_read_alike(tmp_path: Path) -> None:
    absent = read(b.make(tmp_path / "a.sqlite", CUPTI_ACTIVITY_KIND_MEMCPY=None))
    empty = read(b.make(tmp_path / "b.sqlite", CUPTI_ACTIVITY_KIND_MEMCPY=[], NVTX_EVENTS=[]))
    assert absent.copies.equals(empty.copies) and absent.has == empty.has
    assert empty.facts["tables"]["NVTX_EVENTS"] == 0 and "NVTX_EVENTS" not in absent.facts["tables"]


@pytest.mark.parametrize("nodes", ["CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS"])
def test_trap_6_graph_launches_and_nodes_are_tables(tmp_path: Path, nodes: str) -> None:
    launch = {
        "start": 100,
        "end": 900,
        "deviceId": 0,
        "contextId": 1,
        "streamId": 7,
        "correlationId": 5,
        "globalPid": b.PROCESS,
        "graphId": 3,
    }
    node = {
        "start": 10,
        "end": 11,
        "globalTid": b.THREAD,
        "graphNodeId": 12,
        "originalGraphNodeId": 8,
    }
    made: dict[str, Any] = {
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [{**launch, "graphExecId": 4}],
        nodes: [node],
    }
    trace = read(
        b.make(
            tmp_path / "a.sqlite",
            "3.24",
            CUPTI_ACTIVITY_KIND_KERNEL=[b.kernel(950, 960, 6, graphNodeId=12, graphId=3)],
            **made,
        )
    )
    assert trace.graphs.select("start_ns", "end_ns", "process", "graph", "graph_exec").row(0) == (
        100,
        900,
        b.PROCESS,
        3,
        4,
    )
    assert trace.graph_nodes.row(0) == (10, b.PROCESS, 12, 8)
    assert trace.kernels.select("graph_node", "graph").row(0) == (12, 3)
    assert {"graphs", "graph_nodes"} <= trace.has


def test_trap_7_rows_with_bad_times_stay_for_the_check(tmp_path: Path) -> None:
    kernels = [
        b.kernel(0, 0, 1),
        b.kernel(900, 100, 2),
        b.kernel(None, 500, 3),
        b.kernel(700, None, 4),
        b.kernel(5, 9, 5),
        b.kernel("late", 9, 6),
    ]
    trace = read(b.make(tmp_path / "a.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=kernels))
    assert sorted(trace.kernels.select("start_ns", "end_ns", "correlation").rows()) == [
        (0, 0, 1),
        (0, 0, 3),
        (0, 0, 4),
        (0, 0, 6),
        (5, 9, 5),
        (900, 100, 2),
    ]
    assert found(trace)["P105"] == 1


def test_trap_8_the_profilers_own_warnings_are_kept_without_their_text(tmp_path: Path) -> None:
    rows = [
        {"timestamp": -5, "severity": 2, "text": "SECRET path"},
        {"timestamp": 7, "severity": 3, "text": "SECRET path"},
    ]
    trace = read(b.make(tmp_path / "a.sqlite", DIAGNOSTIC_EVENT=rows))
    assert trace.diagnostics.rows() == [(-5, 2), (7, 3)]
    assert "SECRET" not in _everything(trace)


def _everything(trace: Trace) -> str:
    frames = [json.dumps(frame.to_dicts()) for frame in trace.tables.values()]
    return "".join(
        [
            *frames,
            *trace.names.to_list(),
            json.dumps(trace.facts),
            *(f.detail for f in trace.findings),
        ]
    )


@pytest.mark.parametrize("version", ["3.0", "3.7", "3.24"])
def test_trap_9_secrets_are_not_read(tmp_path: Path, version: str) -> None:
    strings = {**b.STRINGS, 77: "SECRET thread name"}
    path = b.make(
        tmp_path / "a.sqlite",
        version,
        strings=strings,
        ThreadNames=[{"nameId": 77, "priority": 0, "globalTid": b.THREAD}],
    )
    trace = read(path)
    assert "SECRET" not in _everything(trace)
    assert found(trace)["P119"] == 1
    assert "P119" not in found(read(b.make(path, "none")))


def test_trap_10_activities_that_overlap_are_rows_of_their_own(tmp_path: Path) -> None:
    kernels = [
        b.kernel(10, 100, 1),
        b.kernel(20, 90, 2, streamId=8),
        b.kernel(20, 90, 3, streamId=9),
    ]
    trace = read(b.make(tmp_path / "a.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=kernels))
    assert trace.kernels.select("start_ns", "stream").rows() == [(10, 7), (20, 8), (20, 9)]


def test_trap_11_every_copy_kind_has_a_direction(tmp_path: Path) -> None:
    rows = [
        b.copy(i + 1, i + 2, None, kind, 2, 2) for i, kind in enumerate([*range(14), 14, -1, 99])
    ]
    trace = read(b.make(tmp_path / "a.sqlite", "3.24", CUPTI_ACTIVITY_KIND_MEMCPY=rows))
    to_and_fro, inside = ["h2d", "d2h", "h2d", "d2h"], ["d2d", "d2d", "d2d", "d2d", "h2h", "p2p"]
    moved = [f"migration_{direction}" for direction in ("h2d", "d2h", "d2d")]
    assert [DIRECTIONS[d] for d in trace.copies["direction"]] == [
        "unknown",
        *to_and_fro,
        *inside,
        *moved,
        *["unknown"] * 3,
    ]
    assert found(trace)["P127"] == 4


def test_numbers_that_do_not_fit_and_values_of_another_type_are_counted(tmp_path: Path) -> None:
    kernels = [
        b.kernel(10, 20, 1, deviceId=1 << 40, registersPerThread=2.5, gridX=b"blob"),
        b.kernel(30, 40, 2, gridX=1 << 40, gridY=1 << 40, streamId=b.NONE),
        b.kernel("50", " 60 ", "x", streamId="7"),
    ]
    typed = b.COLUMNS["CUPTI_ACTIVITY_KIND_KERNEL"].replace("start end", "start:TEXT end:BLOB", 1)
    trace = read(
        b.make(
            tmp_path / "a.sqlite",
            columns={"CUPTI_ACTIVITY_KIND_KERNEL": typed},
            CUPTI_ACTIVITY_KIND_KERNEL=kernels,
        )
    )
    assert trace.kernels["start_ns"].to_list() == [10, 30, 50] and trace.kernels[
        "end_ns"
    ].to_list() == [20, 40, 60]
    assert trace.kernels["device"].to_list() == [None, 0, 0]
    assert trace.kernels["stream"].to_list() == [7, None, 7]
    assert trace.kernels["registers"].to_list() == [None, 32, 32]
    assert trace.kernels["blocks"].to_list() == [None, None, 8]
    assert trace.kernels["correlation"].to_list() == [1, 2, None]
    assert found(trace)["P105"] == 3 and found(trace)["P106"] == 2
    assert "CUPTI_ACTIVITY_KIND_KERNEL.registersPerThread" in {f.detail for f in trace.findings}


def test_texts_that_are_not_utf8_are_read_with_marks(tmp_path: Path) -> None:
    spoil: list[Any] = ["UPDATE StringIds SET value = CAST(x'6bff6c' AS TEXT) WHERE id = 3"]
    spoil.append(
        "INSERT INTO NVTX_EVENTS(start, end, eventType, text) VALUES (1, 2, 59, CAST(x'fe' "
        "AS TEXT))"
    )
    trace = read(b.make(tmp_path / "a.sqlite", NVTX_EVENTS=[], sql=spoil))
    assert texts(trace, "kernels", "short_name") == ["k\ufffdl"] * 2
    assert texts(trace, "ranges") == ["\ufffd"]
    assert found(trace)["P107"] == 2


def test_names_are_only_those_referred_to(tmp_path: Path) -> None:
    ranges = [
        {"start": 1, "end": 2, "eventType": 59, "text": "inline", "textId": 5},
        {"start": 2, "end": 3, "eventType": 59, "textId": 900_000},
        {"start": 3, "end": 4, "eventType": 59, "textId": 123_456},
        {"start": 4, "end": None, "eventType": 34, "text": "saxpy"},
        {"start": 5, "end": 6, "eventType": 59, "textId": 0},
        {"start": 6, "end": 7, "eventType": 59},
    ]
    trace = read(b.make(tmp_path / "a.sqlite", NVTX_EVENTS=ranges))
    assert texts(trace, "ranges") == [
        "inline",
        "far away",
        None,
        "saxpy",
        "cudaLaunchKernel_v7000",
        None,
    ]
    assert texts(trace, "api")[0] == "cudaLaunchKernel"
    assert len(trace.names) == trace.names.n_unique()
    assert not {"poll", "registered"} & set(trace.names)
    assert found(trace)["P128"] == 1
    gone = read(b.make(tmp_path / "b.sqlite", sql=["DROP TABLE StringIds"]))
    assert texts(gone, "kernels") == [None, None] and found(gone)["P128"] == 4


def test_all_other_tables(tmp_path: Path) -> None:
    device = {
        "deviceId": 0,
        "contextId": 1,
        "streamId": 7,
        "correlationId": 9,
        "globalPid": b.PROCESS,
    }
    host = {"globalTid": b.THREAD}
    rows: dict[str, list[dict[str, Any]]] = {
        "CUPTI_ACTIVITY_KIND_MEMSET": [{"start": 1, "end": 2, **device, "bytes": 64, "memKind": 2}],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [
            {"start": 1, "end": 2, **device, "streamId": b.NONE, "syncType": 4, "eventId": b.NONE}
        ],
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": [
            {**device, "timestamp": 6, "eventId": 3, "eventSyncId": 8}
        ],
        "MPI_COLLECTIVES_EVENTS": [
            {"start": 30, "end": 40, **host, "textId": 4, "rootRank": 0, "size": 8, "recvSize": 16}
        ],
        "MPI_P2P_EVENTS": [
            {"start": 10, "end": 20, **host, "textId": 4, "tag": 5, "remoteRank": 1, "size": 100}
        ],
        "MPI_OTHER_EVENTS": [{"start": 50, "end": 60, **host, "textId": 4}],
        "MPI_START_WAIT_EVENTS": [
            {"start": 20, "end": 25, **host, "textId": 4, "requestHandle": 77}
        ],
        "CUDA_GPU_MEMORY_USAGE_EVENTS": [
            {
                "start": 5,
                **device,
                "address": 4096,
                "bytes": 10,
                "memKind": 2,
                "memoryOperationType": 1,
            }
        ],
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS": [
            {"start": 9, "end": 10, "globalPid": b.PROCESS, "deviceId": 0, "numberOfPageFaults": 12}
        ],
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS": [{"start": 8, "globalPid": b.PROCESS, "address": 1}],
        "OSRT_API": [{"start": 1, "end": 2, **host, "nameId": 6, "nestingLevel": 0}],
        "SCHED_EVENTS": [{"start": 3, "cpu": 2, "isSchedIn": 1, **host}],
        "PROFILER_OVERHEAD": [{"start": 2, "end": 3, **host, "nameId": 5, "overheadType": 3}],
        "CUPTI_ACTIVITY_KIND_OVERHEAD": [
            {"start": 1, "end": 2, **host, "nameId": 5, "overheadType": 2}
        ],
        "SAMPLING_CALLCHAINS": [{"id": 1}, {"id": 2}],
    }
    trace = read(b.make(tmp_path / "a.sqlite", "3.24", **rows))
    assert trace.memsets.select("size_bytes", "memory").row(0) == (64, MEMORIES.index("device"))
    assert trace.syncs.select("stream", "sync_type", "event", "event_record").row(0) == (
        None,
        4,
        None,
        None,
    )
    assert trace.events.select("time_ns", "event", "event_record").row(0) == (6, 3, 8)
    assert trace.mpi["kind"].to_list() == [0, 2, 1, 3]
    assert trace.mpi["request"].to_list() == [None, 77, None, None]
    assert trace.allocations.select("operation", "memory", "address").row(0) == (
        1,
        MEMORIES.index("device"),
        4096,
    )
    assert trace.page_faults.rows() == [(8, None, b.PROCESS, None, 1), (9, 10, b.PROCESS, 0, 12)]
    assert texts(trace, "os_calls") == ["poll"]
    assert trace.scheduling.rows() == [(3, 2, 1, b.THREAD)]
    assert trace.overheads["kind"].to_list() == [2, 3]
    assert [(f.count, f.detail) for f in trace.findings if f.code == "P120"] == [
        (1, "SAMPLING_CALLCHAINS")
    ]


def test_devices_of_old_and_new_files(tmp_path: Path) -> None:
    old = {
        "vmId": 1,
        "name": "A100-PCIE-40GB",
        "globalMemoryBandwidth": 1_555_200_000,
        "globalMemorySize": 42_505_273_344,
        "coreClockRate": 1_410_000,
        "numMemcpyEngines": 3,
        "numMultiprocessors": 108,
        "pid": b.PID,
        "computeCapabilityMajor": 8,
        "computeCapabilityMinor": 0,
    }
    trace = read(
        b.make(
            tmp_path / "a.sqlite",
            "none",
            TARGET_INFO_GPU=None,
            TARGET_INFO_CUDA_GPU=[{**old, "deviceId": 1}, {**old, "deviceId": 0}],
        )
    )
    assert trace.devices.rows()[1] == (
        1,
        "A100-PCIE-40GB",
        None,
        None,
        42_505_273_344,
        1_555_200_000_000,
        1_410_000_000,
        108,
        3,
        8,
        0,
    )
    adapter = {"id": 2, "name": "Display Adapter", "totalMemory": 0, "smCount": 0, "cuDevice": 0}
    gpus = [{**b.GPU, "id": 1, "cuDevice": 7}, {**b.GPU, "id": 0, "cuDevice": 7}, adapter]
    numbers = [{"gpuId": 0, "cudaId": 1, "pid": b.PID}, {"gpuId": 1, "cudaId": 0, "pid": b.PID}]
    several = read(
        b.make(tmp_path / "b.sqlite", TARGET_INFO_GPU=gpus, TARGET_INFO_CUDA_DEVICE=numbers)
    )
    assert several.devices["device"].to_list() == [0, 1]
    none = read(b.make(tmp_path / "c.sqlite", TARGET_INFO_GPU=[adapter]))
    assert none.devices.is_empty() and found(none)["P123"] == 1


def test_recordings_without_gpu_work(tmp_path: Path) -> None:
    no_gpu: dict[str, Any] = {
        f"CUPTI_ACTIVITY_KIND_{t}": None for t in ("RUNTIME", "KERNEL", "MEMCPY")
    }
    thread = {"globalTid": b.THREAD}
    domain = {"start": 1, "eventType": 75, "text": "MPI", "domainId": 3, **thread}
    ranges = [
        {"start": i, "end": i + 1, "eventType": 59, "text": "MPI_Send", "domainId": d, **thread}
        for i, d in ((5, 3), (7, 3), (9, 0))
    ]
    other = {
        "start": 11,
        "end": 12,
        "eventType": 59,
        "text": "MPI_Send",
        "domainId": 3,
        "globalTid": b.OTHER_THREAD,
    }
    trace = read(
        b.make(tmp_path / "a.sqlite", "3.0", NVTX_EVENTS=[domain, *ranges, other], **no_gpu)
    )
    assert found(trace)["P130"] == 1 and found(trace)["P131"] == 4
    both = read(
        b.make(
            tmp_path / "b.sqlite",
            NVTX_EVENTS=[domain, *ranges],
            MPI_OTHER_EVENTS=[{"start": 1, "end": 2, **thread, "textId": 4}],
            **no_gpu,
        )
    )
    assert "P131" not in found(both)


def test_a_trace_goes_to_parquet_and_back(tmp_path: Path) -> None:
    trace = read(b.make(tmp_path / "a.sqlite", "3.24"))
    trace.to_parquet(tmp_path / "folder")
    again = Trace.from_parquet(tmp_path / "folder")
    assert (
        again.has == trace.has
        and again.facts == trace.facts
        and again.findings == trace.findings
        and again.name == trace.name
    )
    assert all(again.table(name).equals(frame) for name, frame in trace.tables.items())
    assert again.names.to_list() == trace.names.to_list()
    assert trace.to_arrow("kernels").num_rows == 2 and trace.to_pandas("kernels").shape == (2, 15)


def test_a_trace_knows_its_tables_and_no_others(tmp_path: Path) -> None:
    trace = read(b.make(tmp_path / "a.sqlite"))
    with pytest.raises(AttributeError, match="wheels"):
        _ = trace.wheels
    with pytest.raises(KeyError):
        trace.table("wheels")
    assert trace.text(trace.ranges).to_list() == []
    assert replace(
        trace, tables={**trace.tables, "kernels": trace.kernels.clear()}
    ).has == trace.has - {"kernels"}


def test_any_number_of_threads_and_a_progress_function(tmp_path: Path) -> None:
    rows = [b.kernel(i * 10, i * 10 + 5, i) for i in range(30_000)]
    path = b.make(tmp_path / "a.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=rows)
    one = read(path, threads=1)
    assert one.kernels.equals(read(path, threads=5).kernels)

    shares: list[float] = []
    assert read(path, progress=shares.append).kernels.height == 30_000
    assert shares[0] == 0 and shares[-1] == 1 and shares == sorted(shares)

    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read(path, progress=stop)
