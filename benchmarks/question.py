"""What one whole question takes on a large recording: read it, project it on two couplings with intervals, say why.

    python benchmarks/question.py FILE [--rounds 3] [--out benchmarks/out/question.json]

Each run is a fresh process after its imports, without a cache. Beside it stands the least that any program in Python does with such a file:
fetch the same event rows with `sqlite3` and forget them. FILE comes from `nsys_generator.py`, or is an export of your own.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring import Aims, conclude, in_fresh_process, peak_bytes, restart_peak, spread

HERE = Path(__file__).resolve().parent
LIMIT_SECONDS = 900
COUPLINGS = ("nvlink-c2c", "cdi-row-link")
EVENTS = ("CUPTI_ACTIVITY_KIND_%", "NVTX_EVENTS")
ASKED, FETCHED = "turnbuckle, the question", "sqlite3, rows fetched and forgotten"
Sample = dict[str, Any]


def _asked() -> Callable[[str], int]:
    import turnbuckle as tb

    def ask(path: str) -> int:
        seen = tb.read(path, use_cache=False)
        answer = seen.project(on=COUPLINGS)
        if any(p.interval is None for p in answer.projections):
            raise SystemExit("a projection without an interval")
        return sum(frame.height for frame in seen.profile.trace.tables.values())

    return ask


def _fetched() -> Callable[[str], int]:
    def fetch(path: str) -> int:
        rows = 0
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            find = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ?"
            named = [database.execute(find, (some,)).fetchall() for some in EVENTS]
            for (table,) in (name for names in named for name in names):
                cursor = database.execute(f'SELECT * FROM "{table}"')
                while some := cursor.fetchmany(10_000):
                    rows += len(some)
        finally:
            database.close()
        return rows

    return fetch


ROUTES: dict[str, Callable[[], Callable[[str], int]]] = {ASKED: _asked, FETCHED: _fetched}


def child(route: str, path: str) -> Sample:
    """Import, note the memory, work on the clock."""
    work = ROUTES[route]()
    baseline = restart_peak()
    began, spent = time.perf_counter(), time.process_time()
    rows = work(path)
    wall, cpu, peak = time.perf_counter() - began, time.process_time() - spent, peak_bytes()
    return {"wall": wall, "cpu": cpu, "peak": peak, "bytes_a_row": (peak - baseline) / max(rows, 1), "rows": rows}


def measure(path: Path, rounds: int) -> dict[str, Any]:
    """Both routes in turn, `rounds` times: ``{"routes": {name: {"samples": [...]} or {"missing": why}}}``."""
    found: dict[str, Any] = {name: {"samples": []} for name in ROUTES}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name, one in found.items():
                if "missing" in one:
                    continue
                sample = in_fresh_process(__file__, (name, path), LIMIT_SECONDS, environment={"XDG_CACHE_HOME": folder})
                found[name] = sample if "missing" in sample else {"samples": [*one["samples"], sample]}
    return {"file_bytes": path.stat().st_size, "routes": found}


def _median(result: dict[str, Any], name: str, what: str) -> float:
    return float(statistics.median(sample[what] for sample in result["routes"][name]["samples"]))


def table(result: dict[str, Any]) -> str:
    """The measurements as text."""
    head = f"{'a whole question':<38}{'rows':>12}{'wall s':>9}{'(min-max)':>18}{'CPU s':>9}{'peak MB':>9}{'B/row':>7}"
    lines = [head, "-" * len(head)]
    for name, one in result["routes"].items():
        if "missing" in one:
            lines.append(f"{name:<38}not measured: {one['missing']}")
            continue
        wall = [sample["wall"] for sample in one["samples"]]
        cpu, peak, row = (_median(result, name, what) for what in ("cpu", "peak", "bytes_a_row"))
        lines.append(
            f"{name:<38}{one['samples'][0]['rows']:>12,}{statistics.median(wall):>9.2f}{spread(wall):>18}"
            f"{cpu:>9.2f}{peak / 1e6:>9.0f}{row:>7.0f}"
        )
    return "\n".join(lines)


def targets(result: dict[str, Any]) -> Aims:
    """CPU against the rows fetched alone; memory for each row."""
    missing = [f"{name} was not measured: {one['missing']}" for name, one in result["routes"].items() if "missing" in one]
    if missing:
        return [(False, words) for words in missing]
    ratio = _median(result, ASKED, "cpu") / _median(result, FETCHED, "cpu")
    memory = _median(result, ASKED, "bytes_a_row")
    return [
        (ratio < 5, f"a whole question takes {ratio:.2f} times the CPU time of fetching its rows with sqlite3; target under 5"),
        (memory < 700, f"a whole question takes {memory:.0f} bytes of memory a row; target under 700"),
    ]


def main() -> None:
    """Measure one file."""
    parser = argparse.ArgumentParser(description="what a whole question takes on a large recording")
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "question.json")
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(sys.argv[2], sys.argv[3])))
        return
    chosen = parser.parse_args()
    result = measure(chosen.file, chosen.rounds)
    conclude(result, table(result), targets(result), chosen.out)


if __name__ == "__main__":
    main()
