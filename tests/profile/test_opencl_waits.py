"""What OpenCL calls wait for, on recordings made by hand: wait lists, blocking calls, finishing a
queue without order.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from turnbuckle.profile.dependencies.dependencies import dependencies
from turnbuckle.profile.dependencies.graph import EDGES
from turnbuckle.profile.profile import Profile, build
from turnbuckle.trace.readers.recorded import reader as recorded

HEAD = "#turnbuckle-trace 1\n#recorder turnbuckle-opencl 1\n#api opencl\n#timebase monotonic\n"
COLUMNS = (
    "start",
    "end",
    "corr",
    "tid",
    "dev",
    "ctx",
    "stream",
    "name",
    "bytes",
    "what",
    "event",
    "evsync",
)
LAUNCH, READ, BLOCKING, FINISH, WAIT, FREE = range(6)
NAMES = (
    "clEnqueueNDRangeKernel",
    "clEnqueueReadBuffer",
    "clEnqueueReadBuffer (blocking)",
    "clFinish",
    "clWaitForEvents",
    "clSVMFree",
)
Row = tuple[str, dict[str, int]]


def call(number: int, name: int, start: int, end: int) -> Row:
    return "A", {"start": start, "end": end, "corr": number, "tid": 1, "name": name}


def work(number: int, stream: int, start: int, end: int, kind: str = "K") -> Row:
    more = {"name": 9} if kind == "K" else {"bytes": 64, "what": 2}
    return kind, {
        "start": start,
        "end": end,
        "corr": number,
        "dev": 0,
        "ctx": 1,
        "stream": stream,
        **more,
    }


def event(number: int, stream: int) -> Row:
    return "E", {
        "corr": number,
        "dev": 0,
        "ctx": 1,
        "stream": stream,
        "event": number,
        "evsync": number,
    }


def wait(number: int, what: int, start: int, *, stream: int = 0, on: int = 0) -> Row:
    out = {"start": start, "end": start + 1, "corr": number, "tid": 1, "ctx": 1, "what": what}
    return "Y", out | ({"stream": stream} if stream else {}) | (
        {"event": on, "evsync": on} if on else {}
    )


def profile(folder: Path, *rows: Row) -> Profile:
    names = "".join(f"#name {i} {name}\n" for i, name in enumerate(NAMES)) + "#name 9 work\n"
    lines = "".join(
        f"{kind},{','.join(str(row.get(c, '')) for c in COLUMNS)}\n" for kind, row in rows
    )
    path = folder / "made.csv"
    path.write_text(
        HEAD + names + ",".join(("kind", *COLUMNS)) + "\n" + lines + "#end\n", encoding="utf-8"
    )
    return build(recorded.read(path))


def edges(run: Profile, kind: str) -> set[tuple[int, int]]:
    """Edges of one kind by the numbers of the calls: of a call itself, or of the work it started,
    negative.
    """
    graph = dependencies(run)
    sources = {"kernel": run.trace.kernels, "copy_d2h": run.trace.copies}

    def number(instant: int) -> int:
        row = run.activities.row(int(graph.activity[(instant - 1) // 2]), named=True)
        device = row["category"] in ("kernel", "copy")
        table = sources[row["kind"]] if device else run.trace.api
        found = int(table["correlation"][row["row"]])
        return -found if device else found

    chosen = graph.kind == EDGES.index(kind)
    return {
        (number(int(a)), number(int(b)))
        for a, b in zip(graph.source[chosen], graph.target[chosen], strict=True)
    }


def test_a_command_waits_for_all_of_its_list_before_it_runs(tmp_path: Path) -> None:
    """Three streams; the third's first command waits for both others, its second for neither."""
    run = profile(
        tmp_path,
        *(call(n, LAUNCH, 1000 + 10 * n, 1005 + 10 * n) for n in (1, 2, 3, 4)),
        work(1, 1, 1100, 1200),
        work(2, 2, 1100, 1300),
        work(3, 3, 1310, 1400),
        work(4, 3, 1400, 1500),
        event(1, 1),
        event(2, 2),
        wait(3, 2, 1030, stream=3, on=1),
        wait(3, 2, 1030, stream=3, on=2),
    )
    assert edges(run, "event") == {(-1, -3), (-2, -3)}


def test_waiting_for_several_events_is_one_call(tmp_path: Path) -> None:
    run = profile(
        tmp_path,
        *(call(n, LAUNCH, 1000 + 10 * n, 1005 + 10 * n) for n in (1, 2, 3)),
        call(4, WAIT, 1050, 1310),
        work(1, 1, 1100, 1200),
        work(2, 2, 1100, 1300),
        work(3, 3, 1100, 1305),
        event(1, 1),
        event(2, 2),
        wait(4, 1, 1050, on=1),
        wait(4, 1, 1050, on=2),
    )
    assert edges(run, "sync") == {(-1, 4), (-2, 4)}, (
        "the third kernel is nobody's business, though it ended in time"
    )


def test_finishing_a_queue_waits_for_its_stream_and_the_chains_of_one_without_order(
    tmp_path: Path,
) -> None:
    run = profile(
        tmp_path,
        *(call(n, LAUNCH, 1000 + 10 * n, 1005 + 10 * n) for n in (1, 2, 3)),
        call(4, FINISH, 1050, 1310),
        work(1, 1, 1100, 1200),
        work(2, 2, 1100, 1300),
        work(3, 3, 1100, 1305),
        event(2, 2),
        wait(4, 3, 1050, stream=1),
        wait(4, 1, 1050, on=2),
    )
    assert edges(run, "sync") == {(-1, 4), (-2, 4)}


@pytest.mark.parametrize(
    ("name", "found"), [(BLOCKING, {(-1, 1)}), (READ, set())], ids=["blocking", "not"]
)
def test_a_read_waits_if_its_name_says_so(
    tmp_path: Path, name: int, found: set[tuple[int, int]]
) -> None:
    run = profile(tmp_path, call(1, name, 1000, 1310), work(1, 1, 1100, 1300, "C"))
    assert edges(run, "sync") == found


def test_letting_go_of_shared_memory_waits_for_nothing(tmp_path: Path) -> None:
    run = profile(
        tmp_path, call(1, LAUNCH, 1000, 1005), work(1, 1, 1100, 1300), call(2, FREE, 1400, 1405)
    )
    assert edges(run, "sync") == set()
    classes = dict(
        run.activities.filter(pl.col("category") == "api")
        .select("row", pl.col("call_class").cast(pl.String))
        .iter_rows()
    )
    assert classes == {0: "launch", 1: "alloc"}
