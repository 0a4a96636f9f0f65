"""The shipped sample is what the script writes, keeps its own rules, is labelled synthetic and
holds nothing of any machine.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from turnbuckle.trace.read import read

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

import make_sample  # type: ignore[import-not-found]  # noqa: E402

SHIPPED = Path(str(files("turnbuckle"))) / "examples"
SAMPLES = {make_sample.MILC: make_sample.milc_like, make_sample.DGEMM: make_sample.dgemm_like}


def contents(path: Path) -> dict[str, tuple[list[str], list[tuple[object, ...]]]]:
    """Columns and rows of every table."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        names = [
            name
            for (name,) in database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            )
        ]
        out = {}
        for name in names:
            cursor = database.execute(f'SELECT * FROM "{name}"')
            out[name] = ([column[0] for column in cursor.description], cursor.fetchall())
        return out


def array(path: Path, query: str) -> np.ndarray:
    """Integer rows of a query."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        return np.array(database.execute(query).fetchall(), dtype=np.int64)


@pytest.fixture(params=sorted(SAMPLES))
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param


def test_written_again_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    truth = SAMPLES[name](tmp_path / "again.sqlite")
    assert contents(tmp_path / "again.sqlite") == contents(SHIPPED / f"{name}.sqlite")
    assert json.loads(json.dumps(truth)) == json.loads(
        (SHIPPED / f"{name}.truth.json").read_text(encoding="utf-8")
    )


def test_another_seed_gives_other_times(tmp_path: Path) -> None:
    make_sample.dgemm_like(tmp_path / "other.sqlite", seed=1)
    query = "SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY"
    assert not np.array_equal(
        array(tmp_path / "other.sqlite", query),
        array(SHIPPED / "dgemm-like-synthetic.sqlite", query),
    )


def test_files_are_small() -> None:
    assert (SHIPPED / "milc-like-synthetic.sqlite").stat().st_size < 700_000
    assert (SHIPPED / "dgemm-like-synthetic.sqlite").stat().st_size < 100_000


def test_labelled_synthetic(name: str) -> None:
    tables = contents(SHIPPED / f"{name}.sqlite")
    assert (
        dict(tables["META_DATA_EXPORT"][1])["EXPORT_PRODUCT_VERSION"]
        == "synthetic (Turnbuckle make_sample)"
    )
    columns, rows = tables["NVTX_EVENTS"]
    texts = [str(row[columns.index("text")]) for row in rows]
    assert any(text.startswith("synthetic: written from published") for text in texts)
    assert "synthetic" in name


def test_holds_nothing_of_a_machine(name: str) -> None:
    data = (SHIPPED / f"{name}.sqlite").read_bytes()
    tables = contents(SHIPPED / f"{name}.sqlite")
    assert not {
        "TARGET_INFO_SYSTEM_ENV",
        "META_DATA_CAPTURE",
        "ProcessStreams",
        "ANALYSIS_FILE",
    } & set(tables)
    assert not re.search(
        rb"/(home|root|tmp|work|usr|Users)/|HOME=|PATH=|@[a-z]+\.(com|org|edu)", data
    )


def test_device_work_follows_its_call_and_calls_do_not_overlap(name: str) -> None:
    path = SHIPPED / f"{name}.sqlite"
    calls = array(
        path, "SELECT correlationId, start, end FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY start"
    )
    assert len(np.unique(calls[:, 0])) == len(calls)
    assert (calls[:, 1] < calls[:, 2]).all() and (calls[1:, 1] >= calls[:-1, 2]).all()
    call_start = dict(calls[:, :2].tolist())
    tables = contents(path)
    for table in ("KERNEL", "MEMCPY", "MEMSET"):
        if f"CUPTI_ACTIVITY_KIND_{table}" in tables:
            rows = array(path, f"SELECT correlationId, start, end FROM CUPTI_ACTIVITY_KIND_{table}")
            assert (rows[:, 1] < rows[:, 2]).all()
            assert all(start > call_start[correlation] for correlation, start, _ in rows.tolist())


def test_streams_and_copy_engines_run_one_at_a_time(name: str) -> None:
    path = SHIPPED / f"{name}.sqlite"
    parts = [
        f"SELECT streamId, start, end, correlationId FROM CUPTI_ACTIVITY_KIND_{t}"
        for t in ("KERNEL", "MEMCPY", "MEMSET")
    ]
    have = contents(path)
    rows = array(path, " UNION ALL ".join(p for p in parts if p.rsplit(" ", 1)[1] in have))
    for stream in np.unique(rows[:, 0]):
        own = rows[rows[:, 0] == stream]
        own = own[np.argsort(own[:, 3])]  # the order of the calls
        assert (own[1:, 1] >= own[:-1, 2]).all()
    copies = array(
        path, "SELECT copyKind, start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY start"
    )
    for direction in (1, 2):
        own = copies[copies[:, 0] == direction]
        assert (own[1:, 1] >= own[:-1, 2]).all()


def test_waits_wait() -> None:
    path = SHIPPED / "milc-like-synthetic.sqlite"
    work = array(
        path,
        "SELECT correlationId, streamId, end FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL "
        "SELECT correlationId, streamId, end FROM CUPTI_ACTIVITY_KIND_MEMCPY",
    )
    waits = array(
        path,
        "SELECT s.correlationId, s.streamId, r.end FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION s "
        "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId) WHERE s.syncType = 3",
    )
    assert len(waits) > 500
    for correlation, stream, returned in waits.tolist():
        before = work[(work[:, 0] < correlation) & (work[:, 1] == stream)]
        assert returned > before[:, 2].max()


def test_streams_wait_for_events() -> None:
    path = SHIPPED / "milc-like-synthetic.sqlite"
    work = array(
        path,
        "SELECT correlationId, streamId, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL "
        "SELECT correlationId, streamId, start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY",
    )
    records = array(
        path, "SELECT correlationId, streamId, eventId FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT"
    )
    waits = array(
        path,
        (
            "SELECT correlationId, streamId, eventId FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION "
            "WHERE syncType = 2"
        ),
    )
    assert len(waits) == len(records) == 2 * 310
    for correlation, stream, event in waits.tolist():
        record = records[(records[:, 2] == event) & (records[:, 0] < correlation)][-1]
        reached = work[(work[:, 1] == record[1]) & (work[:, 0] < record[0])][:, 3].max()
        after = work[(work[:, 1] == stream) & (work[:, 0] > correlation)][:, 2].min()
        assert after >= reached


def test_copies_beside_kernels_in_part() -> None:
    path = SHIPPED / "milc-like-synthetic.sqlite"
    kernels = array(path, "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY start")
    copies = array(path, "SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE streamId = 14")
    beside = sum(
        int(np.clip(np.minimum(kernels[:, 1], e) - np.maximum(kernels[:, 0], s), 0, None).sum())
        for s, e in copies
    )
    assert 0.2 < beside / (copies[:, 1] - copies[:, 0]).sum() < 0.95


@pytest.mark.parametrize(("direction", "word"), [(1, "h2d"), (2, "d2h")])
def test_copy_times_give_back_the_truth(name: str, direction: int, word: str) -> None:
    path = SHIPPED / f"{name}.sqlite"
    truth = json.loads((SHIPPED / f"{name}.truth.json").read_text(encoding="utf-8"))["copies"][
        f"{word}_pinned"
    ]
    memory = "srcKind" if direction == 1 else "dstKind"
    rows = array(
        path,
        (
            "SELECT bytes, end - start FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = "
            f"{direction} AND {memory} = 1"
        ),
    )
    seconds = rows[:, 1] / 1e9
    # least squares of the relative error
    weighted = np.stack([1 / seconds, rows[:, 0] / seconds], axis=1)
    latency, gap = np.linalg.lstsq(weighted, np.ones(len(rows)), rcond=None)[0]
    assert latency == pytest.approx(truth["latency_seconds"], rel=0.1)
    assert 1 / gap == pytest.approx(truth["bandwidth"], rel=0.01)


def test_readme_states_what_the_rows_come_to() -> None:
    path = SHIPPED / "milc-like-synthetic.sqlite"
    kernels = array(path, "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY start")
    window = int(kernels[:, 1].max() - kernels[0, 0])
    inside = f"start >= {kernels[0, 0]} AND end <= {kernels[:, 1].max()}"
    copies = array(
        path, f"SELECT start, end, bytes, streamId FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE {inside}"
    )
    busy, copying = (
        int((kernels[:, 1] - kernels[:, 0]).sum()),
        int((copies[:, 1] - copies[:, 0]).sum()),
    )
    beside = sum(
        int(np.clip(np.minimum(kernels[:, 1], e) - np.maximum(kernels[:, 0], s), 0, None).sum())
        for s, e in copies[:, :2]
    )
    halo = copies[copies[:, 3] == make_sample.COMM, 2].sum() / copies[:, 2].sum()
    readme = (SHIPPED / "README.md").read_text(encoding="utf-8")
    for line in (
        f"| launches a second | {len(kernels) / window * 1e9:.0f} |",
        f"| kernel time | {busy / window:.1%} |".replace("%", " %"),
        f"| mean kernel | {busy / len(kernels) / 1e3:.1f} us |",
        f"| PCIe time | {copying / window:.1%} |".replace("%", " %"),
        f"| PCIe rate | {copies[:, 2].sum() / window:.1f} GB/s |",
        f"| part of PCIe time beside a kernel | {beside / copying:.1%} |".replace("%", " %"),
        f"| part of the bytes that goes through MPI | {halo:.1%} |".replace("%", " %"),
    ):
        assert line in readme


def test_turnbuckle_reads_every_row(name: str) -> None:
    trace = read(SHIPPED / f"{name}.sqlite", use_cache=False)
    counts = json.loads((SHIPPED / f"{name}.truth.json").read_text(encoding="utf-8"))["rows"]
    for table, theirs in (
        ("kernels", "KERNEL"),
        ("copies", "MEMCPY"),
        ("api", "RUNTIME"),
        ("syncs", "SYNCHRONIZATION"),
        ("events", "CUDA_EVENT"),
    ):
        assert trace.table(table).height == counts.get(f"CUPTI_ACTIVITY_KIND_{theirs}", 0)
    assert trace.table("mpi").height == sum(
        counts.get(f"MPI_{t}_EVENTS", 0) for t in ("P2P", "COLLECTIVES", "START_WAIT", "OTHER")
    )
    assert trace.table("allocations").height == counts["CUDA_GPU_MEMORY_USAGE_EVENTS"]
    assert [finding for finding in trace.findings if finding.severity != "info"] == []
