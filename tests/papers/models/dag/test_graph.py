"""Any task graph as two tables: what is read and refused, and its replay against one in plain
Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import strategies
from hostile_names import Ran
from hypothesis import given
from hypothesis import strategies as st

from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.papers.models.dag.graph import TaskGraph, graph_work, read_graph
from turnbuckle.papers.models.dag.question import sweep
from turnbuckle.papers.models.dag.tasks import Dealt, solve
from turnbuckle.papers.models.dag.tiers import Fabric, Tier

Turnbuckle = Callable[..., Ran]
#: Two GPUs a node; a message takes 1 us and its bytes at 1 GB/s in a node, 5 us and 0.5 GB/s
#: between nodes.
SMALL = Fabric(
    "small",
    "small",
    {"node": Tier.plain(1e-6, 1e9), "network": Tier.plain(5e-6, 5e8)},
    1,
    2,
    8e9,
    1e9,
    4e9,
)
TASKS = "task, time [us], bytes [kB], rank\na, 10, 0, 0\nb, 20, 8, 1\nc, 30, 0, 2\n"
EDGES = "from, to, bytes [B]\na, c, 4096\nb, c, 4096\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    tasks, edges = tmp_path / "tasks.csv", tmp_path / "edges.csv"
    tasks.write_text(TASKS, encoding="utf-8")
    edges.write_text(EDGES, encoding="utf-8")
    return tasks, edges


@st.composite
def graphs(draw: st.DrawFn) -> TaskGraph:
    """Tasks on up to six ranks; every edge leads to a later task, then all are shuffled."""
    count = draw(st.integers(1, 12))
    pairs = [(a, b) for b in range(count) for a in range(b)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=20)) if pairs else []
    order = np.array(draw(st.permutations(range(count))))
    source, target = (order[np.array([e[k] for e in edges], dtype=np.int64)] for k in (0, 1))
    sizes = draw(st.lists(st.integers(0, 4096), min_size=len(edges), max_size=len(edges)))
    seconds = draw(st.lists(st.integers(0, 50), min_size=count, max_size=count))
    held = draw(st.lists(st.sampled_from([0, 0, 1000, 5000]), min_size=count, max_size=count))
    rank = draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))
    return TaskGraph(
        "drawn",
        tuple(f"t{k}" for k in range(count)),
        np.array(seconds) * 1e-6,
        np.array(held, dtype=np.float64),
        np.array(rank),
        source,
        target,
        np.array(sizes, dtype=np.float64),
    )


def oracle(graph: TaskGraph, ranks: int) -> float:
    """Run time in plain Python: levels, thread blocks, messages; nothing waits on a link."""
    assert graph.rank is not None
    gpu = [int(r) // ranks for r in graph.rank]
    edges = list(
        zip(graph.source.tolist(), graph.target.tolist(), graph.message_bytes.tolist(), strict=True)
    )
    level: dict[int, int] = {}

    def depth(v: int) -> int:
        if v not in level:
            level[v] = max((depth(a) + 1 for a, b, _ in edges if b == v), default=0)
        return level[v]

    place = [(depth(v), gpu[v]) for v in range(len(graph))]
    ends: dict[int, float] = {}

    def end(v: int) -> float:
        if v not in ends:
            took = graph.seconds[v]
            if graph.bytes[v]:
                active = sum(p == place[v] and graph.bytes[k] > 0 for k, p in enumerate(place))
                took += graph.bytes[v] / min(max(SMALL.peak / active, SMALL.low), SMALL.high)
            begin = 0.0
            for a, b, size in edges:
                if b == v:
                    one = 2.0 ** np.ceil(np.log2(max(size, 1.0)))
                    late = (
                        0.0
                        if gpu[a] == gpu[v]
                        else 1e-6 + one / 1e9
                        if gpu[a] // 2 == gpu[v] // 2
                        else 5e-6 + one / 5e8
                    )
                    begin = max(begin, end(a) + late)
            ends[v] = begin + took
        return ends[v]

    return max(end(v) for v in range(len(graph)))


@strategies.FEWER
@given(graphs(), st.integers(1, 3))
def test_run_time_is_the_longest_path(graph: TaskGraph, ranks: int) -> None:
    gpus = -(-int(graph.ranks or 1) // ranks)
    run = solve(graph_work(graph, Dealt(gpus, ranks=ranks), SMALL), SMALL)
    assert run.path_seconds == pytest.approx(oracle(graph, ranks), rel=1e-9, abs=1e-15)
    shared = solve(graph_work(graph, Dealt(gpus, ranks=ranks), SMALL), SMALL, queue="link")
    parts = (
        shared.compute_seconds + shared.dependency_seconds + sum(shared.message_seconds.values())
    )
    assert shared.path_seconds >= run.path_seconds * (1 - 1e-12) and parts == pytest.approx(
        shared.path_seconds, rel=1e-9, abs=1e-15
    )


def test_two_ranks_of_a_gpu_share_its_link(files: tuple[Path, Path]) -> None:
    """a and b are on one GPU and send 4 KiB each to c on another: 4.096 us of the link each, 1 us
    of latency.
    """
    graph = read_graph(*files)
    apart, together = (sweep(graph, SMALL, ranks_per_gpu=ranks).of("as is")[0] for ranks in (1, 2))
    assert (apart.gpus, apart.nodes, together.gpus, together.nodes) == (3, 2, 2, 1)
    took_b, link = 20e-6 + 8e3 / 4e9, 4096 / 1e9
    assert together.seconds == pytest.approx(took_b + link + 1e-6 + 30e-6), (
        "the link is free again before b sends"
    )
    close = replace(graph, seconds=np.array([took_b, took_b, 30e-6]), bytes=np.zeros(3))
    assert sweep(close, SMALL, ranks_per_gpu=2).runs[0].seconds == pytest.approx(
        took_b + 2 * link + 1e-6 + 30e-6
    )
    assert sweep(close, SMALL).runs[0].gpus == 3
    alone = sweep(close, SMALL, ranks_per_gpu=3).runs[0]
    assert alone.gpus == 1 and alone.seconds == pytest.approx(took_b + 30e-6), (
        "nothing is sent inside a GPU"
    )


def test_tasks_without_ranks_are_dealt(tmp_path: Path) -> None:
    tasks, edges = tmp_path / "t.csv", tmp_path / "e.csv"
    tasks.write_text("task, time [us]\na, 10\nb, 10\n", encoding="utf-8")
    edges.write_text("from, to\na, b\n", encoding="utf-8")
    answer = sweep(read_graph(tasks, edges), SMALL, [1, 2])
    one, two = answer.of("as is")
    assert one.seconds == pytest.approx(20e-6)
    assert two.seconds == pytest.approx(20e-6 + 1e-6 + 1e-9), "an edge between GPUs carries a byte"


def test_the_command(turnbuckle: Turnbuckle, files: tuple[Path, Path], tmp_path: Path) -> None:
    tasks, edges = files
    ran = turnbuckle("model", "dag", tasks, "--edges", edges, "--ranks-per-gpu", 2)
    assert (
        ran.code == 0
        and "3 tasks of 3 ranks, 2 edges" in ran.out
        and "2 ranks a GPU, share its link" in ran.out
    )
    found = json.loads(turnbuckle("model", "dag", tasks, "--edges", edges, "--format", "json").out)
    assert found["graph"] == {"name": "tasks.csv", "tasks": 3, "edges": 2, "levels": 2, "ranks": 3}
    assert (
        found["matrix"] is None and found["supernodes"] is None and found["ranks_per_gpu"] is None
    )
    packed = tmp_path / "tasks.parquet", tmp_path / "edges.parquet"
    pl.DataFrame(
        {
            "task": ["a", "b", "c"],
            "time [us]": [10, 20, 30],
            "bytes [kB]": [0, 8, 0],
            "rank": [0, 1, 2],
        }
    ).write_parquet(packed[0])
    pl.DataFrame({"from": ["a", "b"], "to": ["c", "c"], "bytes [B]": [4096, 4096]}).write_parquet(
        packed[1]
    )
    same = json.loads(
        turnbuckle("model", "dag", packed[0], "--edges", packed[1], "--format", "json").out
    )
    assert [run["seconds"] for run in same["runs"]] == [run["seconds"] for run in found["runs"]]
    charts = tmp_path / "charts"
    assert turnbuckle(
        "model", "dag", tasks, "--edges", edges, "--charts", charts
    ).code == 0 and list(charts.iterdir())


@pytest.mark.parametrize(
    ("tasks", "edges", "more", "code"),
    [
        (TASKS, None, (), "A043"),
        (TASKS, EDGES, ("--gpus", "2"), "A043"),
        (TASKS, EDGES, ("--widest", 4), "A043"),
        (TASKS, EDGES, ("--layout", "rows"), "A043"),
        (TASKS, EDGES, ("--ranks-per-gpu", 0), "A043"),
        (TASKS, EDGES, ("--ranks-per-gpu", 2, "--one-at-a-time"), "A043"),
        (TASKS + "a, 1, 0, 0\n", EDGES, (), "A043"),
        (TASKS, EDGES + "c, nowhere, 1\n", (), "A043"),
        (TASKS, EDGES + "c, b, 1\n", (), "A043"),
        (TASKS + "d, 1, 0,\n", EDGES, (), "A043"),
        ("task, time [us]\n", EDGES, (), "A043"),
        ("task, time\na, 1\n", EDGES, (), "U0"),
        (TASKS, "to\nc\n", (), "A062"),
    ],
)
def test_what_is_refused(
    turnbuckle: Turnbuckle,
    tmp_path: Path,
    tasks: str,
    edges: str | None,
    more: tuple[object, ...],
    code: str,
) -> None:
    (tmp_path / "t.csv").write_text(tasks, encoding="utf-8")
    (tmp_path / "e.csv").write_text(edges or "", encoding="utf-8")
    asked = (
        "model",
        "dag",
        tmp_path / "t.csv",
        *(() if edges is None else ("--edges", tmp_path / "e.csv")),
        *more,
    )
    ran = turnbuckle(*asked)
    assert ran.code == 2 and f"error[{code}" in ran.err, ran.err


def test_a_circle_is_named(files: tuple[Path, Path]) -> None:
    tasks, edges = files
    edges.write_text(EDGES + "c, b, 1\n", encoding="utf-8")
    with pytest.raises(TurnbuckleError) as refused:
        read_graph(tasks, edges)
    assert refused.value.found is not None and {"b", "c"} <= set(refused.value.found.split(" -> "))


def test_a_broken_parquet_file(
    turnbuckle: Turnbuckle, files: tuple[Path, Path], tmp_path: Path
) -> None:
    broken = tmp_path / "tasks.parquet"
    broken.write_bytes(b"PAR1 nothing PAR1")
    ran = turnbuckle("model", "dag", broken, "--edges", files[1])
    assert ran.code == 2 and "error[A061]" in ran.err
    matrix = tmp_path / "m.mtx"
    matrix.write_text(
        "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2.0\n", encoding="utf-8"
    )
    ran = turnbuckle("model", "dag", matrix, "--edges", files[1])
    assert ran.code == 2 and "error[A043]" in ran.err
