"""Sparse triangular solves: a matrix of a million rows from file to critical path, beside other
ways to find its levels.

    python benchmarks/triangular.py [--rows 1000000] [--rounds 3] [--out benchmarks/out/triangular.json]

Three matrices of as many rows: a chain (as many levels as rows), the lower triangle of a
two-dimensional Laplacian (some thousand levels) and a random one of five entries a row (a few dozen
levels).  Phases are timed one by one, each the median of its rounds.  Below them: what finding the
levels takes beside other ways to find the same ones (or the benchmark stops), on the whole matrix
or on a cut as long as the column says, and beside one solve by SciPy.  A ratio above 1 says how
many times longer the other way takes.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from numpy.typing import NDArray

from measuring import clocked, conclude, in_fresh_process
from timeline import bandwidth

LIMIT_SECONDS = 600
AIM_SECONDS = 10.0
GPUS = 12
# rows of the cuts for what is too slow for the whole matrix
CUTS = {"networkx": 50_000, "rustworkx": 200_000, "NumPy, level by level, chain": 20_000}
Ints = NDArray[np.int64]
Row = dict[str, Any]


def chain(rows: int) -> Any:
    """Every row needs the one before."""
    return sp.diags_array([np.ones(rows), np.ones(rows - 1)], offsets=[0, -1]).tocsc()


def grid(rows: int) -> Any:
    """The lower triangle of a two-dimensional Laplacian of about as many rows."""
    side = max(2, math.isqrt(rows))
    line = sp.diags_array(
        [-np.ones(side - 1), 2 * np.ones(side), -np.ones(side - 1)], offsets=[-1, 0, 1]
    )
    one = sp.eye_array(side)
    return sp.tril(sp.kron(line, one) + sp.kron(one, line)).tocsc()


def scattered(rows: int) -> Any:
    """Four random entries a row below the diagonal, or fewer."""
    ends = np.random.default_rng(1).integers(0, rows, (2, 4 * rows))
    off = sp.coo_array(
        (np.ones(4 * rows), (ends.max(axis=0), ends.min(axis=0))), shape=(rows, rows)
    )
    return (off + sp.eye_array(rows) * (8 * rows)).tocsc()


MATRICES: dict[str, Callable[[int], Any]] = {"chain": chain, "grid": grid, "random": scattered}


def phases(matrix: Any, folder: Path | None) -> tuple[dict[str, float], dict[str, Any]]:
    """Seconds of every step from the file (where there is a folder for one) to the critical path,
    and what came out.
    """
    from turnbuckle.papers.models.dag.supernodes import read_triangle, supernodes, triangle_of
    from turnbuckle.papers.models.dag.tasks import Dealt, solve, work
    from turnbuckle.papers.models.dag.tiers import fabric

    spent: dict[str, float] = {}
    began = time.perf_counter()

    def done(name: str) -> None:
        nonlocal began
        now = time.perf_counter()
        spent[name] = now - began
        began = time.perf_counter()

    triangle = triangle_of(matrix) if folder is None else read_triangle(folder / "m.mtx")
    done("read" if folder is not None else "structure")
    found = supernodes(triangle)
    done("supernodes")
    levels = found.levels
    done("levels")
    machine = fabric()
    tasks = work(found, Dealt.on_grid(GPUS), machine)
    done(f"tasks on {GPUS} GPUs")
    run = solve(tasks, machine)
    done("critical path")
    facts = {
        "rows": len(triangle),
        "entries": triangle.entries,
        "supernodes": len(found),
        "levels": levels,
        "tasks": len(tasks.bytes),
        "edges": len(tasks.source),
        "path": run.tasks,
    }
    return spent, facts


def measured(name: str, rows: int, rounds: int, folder: Path | None) -> Row:
    """Every phase of one matrix, the median of rounds after one that is not counted."""
    matrix = MATRICES[name](rows)
    if folder is not None:
        scipy.io.mmwrite(folder / "m.mtx", matrix, symmetry="general")
    _, facts = phases(matrix, folder)
    all_of = [phases(matrix, folder)[0] for _ in range(rounds)]
    spent = {phase: statistics.median(one[phase] for one in all_of) for phase in all_of[0]}
    return {
        "name": f"{name}, from its file" if folder else name,
        **facts,
        "phases": spent,
        "totals": [sum(one.values()) for one in all_of],
    }


# --- levels, other ways ---------------------------------------------------------------------------


def ours(matrix: Any) -> Callable[[], Ints]:
    """Levels of columns by the native timeline, a supernode each."""
    from turnbuckle.papers.models.dag.supernodes import supernodes, triangle_of

    triangle = triangle_of(matrix)
    return lambda: supernodes(triangle, 1).level


def by_frontier(matrix: Any) -> Callable[[], Ints]:
    """NumPy: all columns whose rows are solved at a time."""
    starts, rows = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    count = len(starts) - 1

    def peeled() -> Ints:
        waits = np.bincount(rows, minlength=count) - 1
        level = np.zeros(count, dtype=np.int64)
        front, at = np.flatnonzero(waits == 0), 0
        while len(front):
            level[front] = at
            length = starts[front + 1] - starts[front]
            ends = np.cumsum(length)
            needs = rows[np.arange(ends[-1]) + np.repeat(starts[front] - (ends - length), length)]
            own = np.zeros(len(needs), dtype=np.bool_)
            own[ends - length] = True
            needs = needs[~own]
            np.subtract.at(waits, needs, 1)
            front, at = np.unique(needs[waits[needs] == 0]), at + 1
        return level

    return peeled


def by_package(matrix: Any, name: str) -> Callable[[], Ints]:
    """networkx or rustworkx: topological generations; building the graph is not timed."""
    entries = matrix.tocoo()
    off = entries.row != entries.col
    edges = list(zip(entries.col[off].tolist(), entries.row[off].tolist(), strict=True))
    count = matrix.shape[0]
    if name == "networkx":
        import networkx

        graph = networkx.DiGraph()
        graph.add_nodes_from(range(count))
        graph.add_edges_from(edges)

        def generations() -> Iterator[Any]:
            return networkx.topological_generations(graph)  # type: ignore[no-any-return]
    else:
        import rustworkx

        dag = rustworkx.PyDiGraph()
        dag.add_nodes_from(range(count))
        dag.add_edges_from_no_data(edges)

        def generations() -> Iterator[Any]:
            return iter(rustworkx.topological_generations(dag))

    def levels() -> Ints:
        level = np.zeros(count, dtype=np.int64)
        for at, nodes in enumerate(generations()):
            level[np.fromiter(nodes, dtype=np.int64)] = at
        return level

    return levels


def solved(matrix: Any) -> Callable[[], Any]:
    """SciPy: one solve with the matrix, on the host."""
    from scipy.sparse.linalg import spsolve_triangular

    rows, right = matrix.tocsr(), np.ones(matrix.shape[0])
    return lambda: spsolve_triangular(rows, right, lower=True)


def peers(rows: int, rounds: int) -> Iterator[Row]:
    """Levels of the same matrices by other means, or of cuts of them, each beside ours on the
    same.
    """
    for name, make in MATRICES.items():
        for peer in ("NumPy, level by level", "networkx", "rustworkx"):
            matrix = make(min(rows, CUTS.get(peer, CUTS.get(f"{peer}, {name}", rows))))
            try:
                other = (
                    by_frontier(matrix) if peer.startswith("NumPy") else by_package(matrix, peer)
                )
            except ImportError as error:
                yield {"name": f"{peer}, {name}", "missing": str(error)}
                continue
            mine = ours(matrix)
            same = bool((mine() == other()).all())
            row = {"name": f"{peer}, {name}", "rows": matrix.shape[0], "same": same}
            yield {**row, "ours": clocked(mine, rounds)[0], "theirs": clocked(other, rounds)[0]}
    for name, make in MATRICES.items():
        matrix = make(rows)
        yield {
            "name": f"SciPy solves it, {name}",
            "rows": rows,
            "ours": clocked(ours(matrix), rounds)[0],
            "theirs": clocked(solved(matrix), rounds)[0],
        }


def child(rows: int, rounds: int) -> dict[str, Any]:
    """Everything, in this process."""
    out = [measured(name, rows, rounds, None) for name in MATRICES]
    with tempfile.TemporaryDirectory() as folder:
        out.append(measured("grid", rows, rounds, Path(folder)))
    others = list(peers(rows, rounds))
    wrong = [row["name"] for row in others if not row.get("same", True)]
    if wrong:
        raise SystemExit(f"not the same levels: {', '.join(wrong)}")
    return {"rows": out, "peers": others, "bandwidth": bandwidth(rounds)}


def measure(rows: int, rounds: int) -> dict[str, Any]:
    """All measurements in a fresh process, or ``{"missing": why}``."""
    return in_fresh_process(__file__, (rows, rounds), LIMIT_SECONDS)


def table(result: dict[str, Any]) -> str:
    """The measurements as text."""
    if "missing" in result:
        return f"triangular: not measured: {result['missing']}"
    head = f"{'triangular solve':<22}{'rows':>11}{'entries':>12}{'levels':>11}{'s':>8}  phases [s]"
    lines = [head, "-" * (len(head) + 50)]
    for row in result["rows"]:
        spent = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in row["phases"].items())
        total = statistics.median(row["totals"])
        lines.append(
            f"{row['name']:<22}{row['rows']:>11,}{row['entries']:>12,}{row['levels']:>11,}{total:>8.2f} "
            f" {spent}"
        )
        floor = 8 * (row["entries"] + row["rows"]) / result["bandwidth"]
        share = row["phases"]["levels"] / floor
        lines.append(
            f"{'':<22}levels: {share:.0f} times what reading the structure once takes at "
            f"{result['bandwidth'] / 1e9:.1f} GB/s"
        )
    lines.append("")
    head = f"{'levels, and a solve':<38}{'rows':>11}{'theirs s':>10}{'ours s':>9}{'ratio':>9}"
    lines += [head, "-" * len(head)]
    for row in result["peers"]:
        if "missing" in row:
            lines.append(f"{row['name']}: not measured: {row['missing']}")
            continue
        theirs, mine = statistics.median(row["theirs"]), statistics.median(row["ours"])
        lines.append(
            f"{row['name']:<38}{row['rows']:>11,}{theirs:>10.3f}{mine:>9.3f}{theirs / mine:>8.1f}x"
        )
    return "\n".join(lines)


def targets(result: dict[str, Any]) -> list[tuple[bool, str]]:
    """Each aim: whether it is met, and the sentence that says by how much."""
    if "missing" in result:
        return [(False, f"triangular solves were not measured: {result['missing']}")]
    out: list[tuple[bool, str]] = []
    for row in result["rows"]:
        total = statistics.median(row["totals"])
        words = (
            f"{row['rows']:,} rows, {row['levels']:,} levels, {row['tasks']:,} tasks: {total:.1f} s"
        )
        out.append(
            (
                total <= AIM_SECONDS,
                (
                    f"triangular, {row['name']}: {words}; aim {AIM_SECONDS:g} s for a matrix of a "
                    "million rows"
                ),
            )
        )
    return out


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="a triangular matrix from file to critical path")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", type=int, nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        print(json.dumps(child(*chosen.child)))
        return
    if chosen.rows < 10 or chosen.rounds < 1:
        parser.error("10 rows and 1 round at least")
    result = measure(chosen.rows, chosen.rounds)
    conclude(result, table(result), targets(result), chosen.out)


if __name__ == "__main__":
    main()
