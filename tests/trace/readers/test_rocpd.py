"""rocpd databases, built here as their schemas 3 and 4 are documented; no file of a real run was at
hand.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from refusals import codes

from turnbuckle.foundation.errors import ProfileError
from turnbuckle.profile.profile import build
from turnbuckle.profile.source import observed_machine
from turnbuckle.profile.summary.describe import describe
from turnbuckle.profile.summary.start_up import start_up
from turnbuckle.trace import Trace
from turnbuckle.trace.check import launch_pairs
from turnbuckle.trace.readers.rocprof import reader as rocprof
from turnbuckle.trace.trace import dtypes

UUID = "_0198a6f2_7c1b_7d3e_9f00_112233445566"
START = 63_857_982_000_000
CATEGORIES = (
    "",
    "HIP_RUNTIME_API_EXT",
    "KERNEL_DISPATCH",
    "MEMORY_COPY",
    "MARKER_CORE_API",
    "RCCL_API",
    "MEMORY_ALLOCATION",
    "HSA_CORE_API",
)
CALLED = (
    "hipMemcpy",
    "hipLaunchKernel",
    "roctxRangePushA",
    "ncclAllReduce",
    "hsa_signal_store_screlease",
    "hipGetLastError",
)
STRINGS = (*CATEGORIES, *CALLED, "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_DEVICE")
S = {text: number for number, text in enumerate(STRINGS, 1)}
AGENT = {
    "mem_banks": [{"heap_type": 1, "size_in_bytes": 1 << 36}],
    "cu_count": 304,
    "max_engine_clk_fcompute": 2100,
    "num_sdma_engines": 2,
}

#: Columns of the tables as the schemas name them; what Turnbuckle never reads is left out, but for
#: what it must not read.
COMMON: dict[str, str] = {
    "metadata": "tag, value",
    "string": "id, guid, string",
    "info_node": "id, guid, hash, machine_id, hostname",
    "info_process": "id, guid, nid, pid, command, environment",
    "info_thread": "id, guid, nid, pid, tid",
    "info_agent": "id, guid, nid, pid, type, absolute_index, type_index, name, product_name, extdata",
    "info_kernel_symbol": "id, guid, kernel_name, display_name, arch_vgpr_count, accum_vgpr_count",
    "event": "id, guid, category_id, stack_id, parent_stack_id, correlation_id, extdata",
}
PLACE = "nid, pid, tid, start, end"
SHAPE = (
    "group_segment_size, workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, "
    "grid_size_y, grid_size_z, event_id"
)
V3 = COMMON | {
    "track": "id, guid, nid, pid, tid",
    "region": f"id, guid, {PLACE}, name_id, event_id",
    "sample": "id, guid, track_id, timestamp, event_id",
    "kernel_dispatch": f"id, guid, {PLACE}, agent_id, kernel_id, dispatch_id, queue_id, stream_id, {SHAPE}",
    "memory_copy": (
        f"id, guid, {PLACE}, name_id, dst_agent_id, src_agent_id, size, queue_id, stream_id, "
        "event_id"
    ),
    "memory_allocate": f"id, guid, {PLACE}, agent_id, type, level, address, size, event_id",
}
V4 = COMMON | {
    "info_category": "id, guid, name",
    "track": "id, guid, nid, ppid, pid, tid, agent_id, queue_id, stream_id",
    "timestamp": "id, guid, value, phase, track_id",
    "region": "id, guid, track_id, name_id, start_id, end_id, event_id",
    "sample": "id, guid, track_id, name_id, timestamp_id, event_id",
    "kernel_dispatch": f"id, guid, track_id, kernel_id, dispatch_id, start_id, end_id, {SHAPE}",
    "memory_copy": (
        "id, guid, track_id, start_id, end_id, name_id, dst_agent_id, src_agent_id, size, event_id"
    ),
    "memory_allocate": "id, guid, track_id, type, level, start_id, end_id, address, size, event_id",
}


class Database:
    """A rocpd database of either schema."""

    def __init__(
        self, path: Path, *, version: int = 3, uuid: str = UUID, pid: int = 908, node: int = 77
    ) -> None:
        self.db = sqlite3.connect(path)
        self.path, self.version, self.uuid, self.pid, self.node = path, version, uuid, pid, node
        self.layout = V3 if version == 3 else V4
        self.count = {table: 0 for table in self.layout}
        for table, columns in self.layout.items():
            self.db.execute(
                (
                    f"CREATE TABLE IF NOT EXISTS rocpd_{table}{uuid} "
                    f"({', '.join(c + ' ' for c in columns.split(', '))})"
                ).replace("end ,", '"end" ,')
            )
            self.db.execute(
                f"CREATE VIEW IF NOT EXISTS rocpd_{table} AS SELECT * FROM rocpd_{table}{uuid}"
            )
        self.add("metadata", tag="schema_version", value=str(version))
        for text, number in S.items():
            self.add("string", id=number, string=text)
            if version == 4:
                self.add("info_category", id=number, name=text)
        self.add("info_node", id=1, hash=node, machine_id=f"m{node}", hostname="secret-host")
        self.add(
            "info_process",
            id=pid,
            nid=1,
            pid=pid,
            command="./run --token=secret",
            environment='{"TOKEN": "secret"}',
        )
        self.add("info_thread", id=5, nid=1, pid=pid, tid=pid)
        self.add(
            "info_agent",
            id=0,
            nid=1,
            pid=pid,
            type="CPU",
            absolute_index=0,
            type_index=0,
            name="AMD EPYC",
            extdata="{}",
        )
        for gpu in (0, 1):
            place = {
                "id": gpu + 1,
                "nid": 1,
                "pid": pid,
                "type": "GPU",
                "absolute_index": gpu + 1,
                "type_index": gpu,
            }
            self.add(
                "info_agent",
                **place,
                name="gfx942",
                product_name="AMD Instinct MI300X",
                extdata=json.dumps(AGENT),
            )
        self.add(
            "info_kernel_symbol",
            id=8,
            kernel_name="scale.kd",
            display_name="void n::scale<float>(float*)",
            arch_vgpr_count=16,
            accum_vgpr_count=4,
        )

    def add(self, table: str, **values: Any) -> int:
        self.count[table] += 1
        values = (
            {"id": self.count[table]} | values if "id" in self.layout[table].split(", ") else values
        )
        columns = ", ".join(f'"{c}"' for c in values)
        marks = ", ".join("?" * len(values))
        self.db.execute(
            f"INSERT INTO rocpd_{table}{self.uuid} ({columns}) VALUES ({marks})",
            list(values.values()),
        )
        return int(values.get("id", 0))

    def event(self, category: str, stack: int, parent: int | None = None, **more: Any) -> int:
        return self.add(
            "event",
            category_id=S[category],
            stack_id=stack,
            parent_stack_id=stack if parent is None else parent,
            correlation_id=0,
            extdata=json.dumps(more),
        )

    def timed(self, table: str, at: int, lasts: int, place: dict[str, Any], **values: Any) -> None:
        """One row with times and place, where the schema wants them."""
        if self.version == 3:
            known = self.layout[table].split(", ")
            where = {k: v for k, v in place.items() if k in known}
            self.add(
                table,
                nid=1,
                pid=self.pid,
                tid=5,
                start=START + at,
                end=START + at + lasts,
                **where,
                **values,
            )
            return
        track = self.add("track", nid=1, pid=self.pid, tid=5, **place)
        ids = {
            k: self.add("timestamp", value=START + at + d, phase=p)
            for k, d, p in (("start_id", 0, 1), ("end_id", lasts, 2))
        }
        self.add(table, track_id=track, **ids, **values)

    def call(
        self,
        name: str,
        at: int,
        lasts: int,
        stack: int,
        category: str = "HIP_RUNTIME_API_EXT",
        parent: int = 0,
    ) -> None:
        self.timed(
            "region", at, lasts, {}, name_id=S[name], event_id=self.event(category, stack, parent)
        )

    def kernel(
        self, at: int, lasts: int, stack: int, kernel: Any = 8, gpu: int = 1, stream: int = 3
    ) -> None:
        sizes = {
            "group_segment_size": 512,
            "workgroup_size_x": 256,
            "workgroup_size_y": 2,
            "workgroup_size_z": 1,
        }
        sizes |= {"grid_size_x": 1000, "grid_size_y": 4, "grid_size_z": 1}
        place, event = (
            {"agent_id": gpu, "queue_id": 1, "stream_id": stream},
            self.event("KERNEL_DISPATCH", stack),
        )
        self.timed(
            "kernel_dispatch",
            at,
            lasts,
            place,
            kernel_id=kernel,
            dispatch_id=at,
            event_id=event,
            **sizes,
        )

    def copy(
        self,
        at: int,
        lasts: int,
        stack: int,
        source: Any,
        target: Any,
        size: Any,
        name: str = "MEMORY_COPY_HOST_TO_DEVICE",
    ) -> None:
        about = {"name_id": S[name], "src_agent_id": source, "dst_agent_id": target, "size": size}
        self.timed(
            "memory_copy",
            at,
            lasts,
            {"stream_id": 3},
            **about,
            event_id=self.event("MEMORY_COPY", stack),
        )

    def turns(self, turns: int = 3) -> Database:
        """Turns of a copy and a kernel."""
        for k in range(turns):
            at = 100_000 * k + 1_000
            self.call("hipMemcpy", at, 20_000, 4 * k + 1)
            self.copy(at + 9_000, 9_000, 4 * k + 1, 0, 1, 4096)
            self.call("hipLaunchKernel", at + 30_000, 5_000, 4 * k + 2)
            self.call(
                "hsa_signal_store_screlease",
                at + 31_000,
                100,
                4 * k + 3,
                "HSA_CORE_API",
                parent=4 * k + 2,
            )
            self.kernel(at + 40_000, 30_000, 4 * k + 3)
        return self

    def read(self) -> Trace:
        self.db.commit()
        return rocprof.read(self.path)


@pytest.fixture(params=[3, 4])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "908_results.db", version=request.param)
    yield made
    made.db.close()


def test_calls_kernels_and_copies(database: Database) -> None:
    trace = database.turns().read()
    assert {t: f.height for t, f in trace.tables.items()} == {
        "api": 9,
        "kernels": 3,
        "copies": 3,
        "streams": 1,
        "devices": 2,
    }
    first = trace.kernels.row(0, named=True)
    assert (
        first["start_ns"] == 40_000
        and first["end_ns"] == 70_000
        and trace.facts["base_ns"] == START + 1_000
    )
    assert (first["blocks"], first["threads"], first["registers"], first["shared_bytes"]) == (
        4 * 2,
        512,
        20,
        512,
    )
    assert (first["device"], first["stream"], first["process"]) == (0, 3, 908 << 24)
    assert trace.text(trace.kernels).unique().to_list() == ["void n::scale<float>(float*)"]
    assert trace.text(trace.kernels, "short_name").unique().to_list() == ["scale"]
    assert trace.api["thread"].unique().to_list() == [908 << 24 | 908]
    assert trace.api["level"].value_counts().sort("level").rows() == [(0, 6), (1, 3)]
    copy = trace.copies.row(0, named=True)
    assert (
        copy["direction"],
        copy["size_bytes"],
        copy["device"],
        copy["source_memory"],
        copy["target_memory"],
    ) == (1, 4096, 0, 0, 3)
    assert all(dict(f.schema) == dtypes(t) for t, f in trace.tables.items())
    device = trace.devices.row(1, named=True)
    assert (device["device"], device["name"], device["chip"]) == (
        1,
        "AMD Instinct MI300X",
        "gfx942",
    )
    assert (device["memory_bytes"], device["multiprocessors"], device["clock_hz"]) == (
        1 << 36,
        304,
        2_100_000_000,
    )
    assert codes(trace) == {"P113": 3, "P119": 1}


def test_a_kernel_belongs_to_the_outermost_call(database: Database) -> None:
    """The dispatch bears the id of the HSA call inside hipLaunchKernel."""
    trace = database.turns().read()
    pairs = launch_pairs(trace.tables)
    calls = trace.text(trace.api).gather(pairs["api_row"]).to_list()
    assert dict(zip(pairs["table"].to_list(), calls, strict=True)) == {
        "kernels": "hipLaunchKernel",
        "copies": "hipMemcpy",
    }
    assert pairs.height == 6


def test_inspect_and_facts(database: Database) -> None:
    trace = database.turns(20).read()
    profile = build(trace)
    source, fits, _ = observed_machine(profile, None)
    said = describe(profile, source, fits, start_up(profile))
    assert (
        said["kernels"]["count"] == 20
        and said["copies"]["h2d"]["bytes"] == 20 * 4096
        and said["closure_defect_ns"] == 0
    )
    assert trace.facts["format"] == "rocpd" and trace.facts["schema_version"] == str(
        database.version
    )
    assert trace.facts["tables"]["region"] == 60 and trace.facts["session_start_utc_ns"] is None
    assert trace.facts["recorded"] == ["api", "copies", "kernels"]
    assert "secret" not in json.dumps([trace.facts, trace.names.to_list()])


def test_directions_follow_from_agents(database: Database) -> None:
    pairs, way = (
        [(1, 0), (1, 1), (1, 2), (0, 0), (None, None), (None, None)],
        "MEMORY_COPY_HOST_TO_DEVICE",
    )
    for at, (source, target) in enumerate(pairs, start=1):
        database.copy(
            1_000 * at,
            10,
            at,
            source,
            target,
            64,
            "MEMORY_COPY_DEVICE_TO_DEVICE" if at == 5 else way,
        )
    trace = database.read()
    assert trace.copies["direction"].to_list() == [2, 3, 4, 5, 3, 1]
    assert (
        trace.copies.row(2, named=True)["source_device"] == 0
        and trace.copies.row(2, named=True)["target_device"] == 1
    )


def test_ranges_marks_and_what_is_not_read(database: Database) -> None:
    database.turns(1)
    event = database.event("MARKER_CORE_API", 90, message="step 1")
    database.timed("region", 500, 90_000, {}, name_id=S["roctxRangePushA"], event_id=event)
    database.timed(
        "region", 600, 50, {}, name_id=S["ncclAllReduce"], event_id=database.event("RCCL_API", 91)
    )
    track = database.add("track", nid=1, pid=908, tid=5)
    for category, stack in (("MARKER_CORE_API", 92), ("HIP_RUNTIME_API_EXT", 93)):
        message: dict[str, Any] = {"message": "here"} if stack == 92 else {}
        event = database.event(category, stack, **message)
        if database.version == 3:
            database.add("sample", track_id=track, timestamp=START + 700, event_id=event)
        else:
            stamp = database.add("timestamp", value=START + 700, phase=0)
            name = S["hipGetLastError"] if stack == 93 else None
            database.add("sample", track_id=track, name_id=name, timestamp_id=stamp, event_id=event)
    trace = database.read()
    assert trace.text(trace.ranges).to_list() == ["step 1", "here"]
    assert trace.ranges["kind"].to_list() == [59, 34] and trace.ranges["end_ns"].to_list() == [
        90_000,
        None,
    ]
    assert codes(trace)["P178"] == 1
    # schema 3 does not keep the name of a call without length
    assert (trace.api["end_ns"] == trace.api["start_ns"]).sum() == 1 and trace.api[
        "name"
    ].null_count() == (database.version == 3)


def test_calls_without_events_are_told_by_their_names(database: Database) -> None:
    database.turns(1)
    database.timed("region", 500, 90_000, {}, name_id=S["roctxRangePushA"], event_id=None)
    database.db.execute("DROP VIEW rocpd_event")
    database.db.execute(f"DROP TABLE rocpd_event{database.uuid}")
    trace = database.read()
    assert (trace.api.height, trace.ranges.height, trace.kernels.height) == (3, 1, 1)
    assert (
        trace.text(trace.ranges).to_list() == ["roctxRangePushA"]
        and launch_pairs(trace.tables).is_empty()
    )


def test_allocations_and_frees(database: Database) -> None:
    place: dict[str, Any] = {"agent_id": 1}
    database.turns(1)
    for at, kind, level, size, of in (
        (1, "ALLOC", "REAL", 100, place),
        (2, "FREE", "REAL", 0, {}),
        (3, "ALLOC", "SCRATCH", 9, place),
    ):
        event = database.event("MEMORY_ALLOCATION", 60 + at)
        database.timed(
            "memory_allocate",
            at * 100,
            10,
            of,
            type=kind,
            level=level,
            address=0x7F00,
            size=size,
            event_id=event,
        )
    trace = database.read()
    assert trace.allocations.select("operation", "size_bytes", "memory", "device").rows() == [
        (0, 100, 3, 0),
        (1, 100, 3, 0),
    ]
    assert codes(trace)["P178"] == 1


def test_several_processes_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "merged.db"
    for number, (uuid, pid) in enumerate((("_aa", 908), ("_bb", 909), ("_cc", 908))):
        one = Database(path, uuid=uuid, pid=pid)
        one.turns(number + 1)
        one.db.commit()
        one.db.close()
    trace = rocprof.read(path)
    assert trace.kernels.height == 6 and launch_pairs(trace.tables).height == 12
    # two containers may have the same process number: they stay two processes
    assert trace.kernels["process"].n_unique() == 3 and {908 << 24, 909 << 24} < set(
        trace.kernels["process"].to_list()
    )


def refused(path: Path) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        rocprof.read(path)
    assert (
        caught.value.where == str(path)
        and caught.value.found
        and caught.value.cause
        and caught.value.fix
    )
    return caught.value


def test_several_machines_share_no_clock(tmp_path: Path) -> None:
    path = tmp_path / "merged.db"
    for uuid, node in (("_aa", 1), ("_bb", 2)):
        made = Database(path, uuid=uuid, node=node)
        made.turns().db.commit()
        made.db.close()
    assert refused(path).code == "P050"


def test_other_databases_are_refused_by_name(tmp_path: Path) -> None:
    rpd = tmp_path / "trace.rpd"
    with closing(sqlite3.connect(rpd)) as db, db:
        db.executescript(
            "CREATE TABLE rocpd_api (id, start); CREATE TABLE rocpd_op (id, start); CREATE "
            "TABLE rocpd_string (id, string)"
        )
    error = refused(rpd)
    assert error.code == "P045" and "rocmProfileData" in error.found
    bare = tmp_path / "bare.db"
    with closing(sqlite3.connect(bare)) as db, db:
        db.execute(f"CREATE TABLE rocpd_metadata{UUID} (tag, value)")
    assert refused(bare).code == "P045"
    future = tmp_path / "future.db"
    with closing(sqlite3.connect(future)) as db, db:
        db.execute(f"CREATE TABLE rocpd_kernel_dispatch{UUID} (id, moments)")
        db.execute(f"INSERT INTO rocpd_kernel_dispatch{UUID} VALUES (1, 2)")
    assert refused(future).code == "P045"


def test_empty_recordings(database: Database) -> None:
    database.db.commit()
    assert refused(database.path).code == "P046"


def test_sniffing(database: Database, tmp_path: Path) -> None:
    database.db.commit()
    assert rocprof.kind(database.path.read_bytes()[:512], database.path) == "rocpd"
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as db, db:
        db.execute("CREATE VIEW rocpd_region AS SELECT 1 AS id")
        db.execute("CREATE TABLE StringIds (id, value)")
    assert not rocprof.sniff(other.read_bytes()[:512], other)


def test_hostile_cells(database: Database) -> None:
    """Cells of any type, views, triggers and virtual tables in place of tables."""
    database.turns()
    u = database.uuid
    for sql in (
        f"UPDATE rocpd_string{u} SET string = x'ff00' WHERE id = {S['hipMemcpy']}",
        f"UPDATE rocpd_event{u} SET stack_id = 'x' WHERE id = 2",
        f"UPDATE rocpd_info_agent{u} SET extdata = '[' || extdata, product_name = 7 WHERE id = 2",
        f"UPDATE rocpd_kernel_dispatch{u} SET grid_size_x = -5, kernel_id = 'nine' WHERE id = 1",
        f"UPDATE rocpd_memory_copy{u} SET size = 1e300, src_agent_id = NULL WHERE id = 1",
        (
            f"UPDATE rocpd_info_kernel_symbol{u} SET display_name = char(27) || '[31m<script>' "
            "WHERE id = 8"
        ),
        f"CREATE TRIGGER t AFTER INSERT ON rocpd_string{u} BEGIN DELETE FROM rocpd_string{u}; END",
        f"CREATE VIEW rocpd_region_zz AS SELECT * FROM rocpd_region{u}",
    ):
        database.db.execute(sql)
    trace = database.read()
    assert (
        trace.kernels.height == 3
        and trace.kernels["blocks"].null_count() == 1
        and trace.kernels["name"].null_count() == 1
    )
    assert (
        trace.copies["size_bytes"].null_count() == 1
        and codes(trace)["P128"] == 4
        and trace.api.height == 9
    )
    build(trace)


def test_damaged_files(database: Database, tmp_path: Path) -> None:
    database.turns(80).db.commit()
    whole = database.path.read_bytes()
    broken = tmp_path / "broken.db"
    outcomes: set[str] = set()
    for k in range(20):
        bytes_ = bytearray(whole)
        at = (k * 7919) % len(whole)
        bytes_[at : at + 400] = b"\xff" * min(400, len(whole) - at)
        broken.write_bytes(bytes_[: len(whole) - 3000 * (k % 3)])
        try:
            build(rocprof.read(broken))
            outcomes.add("read")
        except ProfileError as error:
            outcomes.add(error.code)
    assert "P049" in outcomes and outcomes <= {"read", "P029", "P045", "P046", "P049", "P047"}


def test_ids_that_occur_twice_do_not_multiply(database: Database) -> None:
    database.turns()
    for _ in range(50):
        database.add("event", id=1, stack_id=1)
    database.db.commit()
    error = refused(database.path)
    assert error.code == "P049" and "twice" in error.found


def test_progress_and_locked(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.turns().db.commit()
    shares: list[float] = []
    rocprof.read(database.path, progress=shares.append)
    assert shares and shares == sorted(shares) and shares[-1] <= 1.0
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **(k | {"timeout": 0.01})))
    database.db.execute("BEGIN EXCLUSIVE")
    try:
        error = refused_locked(database.path)
    finally:
        database.db.rollback()
    assert error.code == "P049" and "open" in error.cause


def refused_locked(path: Path) -> ProfileError:
    from turnbuckle.trace.readers.rocprof import rocpd
    from turnbuckle.trace.readers.rocprof.rows import Rows

    with pytest.raises(ProfileError) as caught:
        rocpd.read(path, Rows(), None)
    return caught.value
