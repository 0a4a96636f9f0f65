"""Read one Nsight Systems SQLite file by every route at hand, each time in a fresh process; print a
table, write JSON.

    python benchmarks/read_nsys.py FILE [--rounds 3] [--only ROUTE ...] [--out benchmarks/out/read_nsys.json]

All routes give the same named columns of kernels, copies and API calls as typed 64-bit columns in
memory; Turnbuckle reads the whole file. Imports come before the clock starts, the page cache is
warm, and a round goes through all routes in turn. README.md says how to read it.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import routes
from measuring import conclude, in_fresh_process, peak_bytes, restart_peak

HERE = Path(__file__).resolve().parent
Sample = dict[str, Any]
LIMIT_SECONDS = 900


def child(route: str, path: str) -> Sample:
    """What one fresh process does: import, note the memory, read on the clock, then check."""
    read, tell = (
        routes.turnbuckle(use_cache=True) if route == routes.CACHED else routes.ROUTES[route]()
    )
    baseline = restart_peak()
    before, began = _cpu_seconds(), time.perf_counter()
    result = read(path)
    opened = time.perf_counter() - began
    # a cached trace reads a table when it is first asked for: ask for all
    if route == routes.CACHED:
        sum(frame.height for frame in result.tables.values())
    wall, cpu, peak = time.perf_counter() - began, _cpu_seconds() - before, peak_bytes()
    column_bytes, rows, checks = tell(result)
    return {
        "wall": wall,
        "opened": opened,
        "cpu": cpu,
        "baseline": baseline,
        "peak": peak,
        "column_bytes": column_bytes,
        "rows": rows,
        "checks": checks,
    }


def _cpu_seconds() -> float:
    """User and system time of this process and of processes it ended."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(one)[:2]) for one in who)


def run_child(route: str, path: Path, cache: Path | None = None) -> Sample:
    """One measurement in a fresh process, or ``{"missing": why}``."""
    environment = {"PYTHONWARNINGS": "ignore"} | (
        {} if cache is None else {"XDG_CACHE_HOME": str(cache)}
    )
    return in_fresh_process(__file__, (route, path), LIMIT_SECONDS, environment=environment)


def warm(path: Path) -> None:
    """Bring the file into the page cache."""
    with path.open("rb") as file:
        while file.read(1 << 22):
            pass


def measure(path: Path, rounds: int, only: list[str] | None = None) -> dict[str, Any]:
    """All routes in turn, `rounds` times; then the cache: an opening that fills it and one that
    reads it, `rounds` times.

    Returns ``{"file_bytes", "routes": {name: {"samples": [...]} or {"missing": why}}, "cache":
    {"first": [...], "second": [...]}}``. Raises `SystemExit` where two routes do not read the same
    rows and times.
    """
    names = [
        name for name in routes.ROUTES if not only or name in only or name == routes.TURNBUCKLE
    ]
    found: dict[str, dict[str, Any]] = {name: {"samples": []} for name in names}
    warm(path)
    for number in range(rounds):
        for name in names:
            if "missing" in found[name]:
                continue
            print(f"  round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
            sample = run_child(name, path)
            if "missing" in sample:
                found[name] = sample
            else:
                found[name]["samples"].append(sample)
    _same(found)
    return {"file_bytes": path.stat().st_size, "routes": found, "cache": _cache(path, rounds)}


def _same(found: dict[str, dict[str, Any]]) -> None:
    seen = {
        name: sample["checks"] for name, one in found.items() for sample in one.get("samples", ())
    }
    if len({json.dumps(checks, sort_keys=True) for checks in seen.values()}) > 1:
        raise SystemExit(f"the routes do not read the same rows: {json.dumps(seen, indent=1)}")


def _cache(path: Path, rounds: int) -> dict[str, Any]:
    out: dict[str, Any] = {"first": [], "second": []}
    for number in range(rounds):
        print(
            f"  round {number + 1} of {rounds}: {routes.CACHED}, twice", file=sys.stderr, flush=True
        )
        with tempfile.TemporaryDirectory() as folder:
            for which in ("first", "second"):
                sample = run_child(routes.CACHED, path, Path(folder))
                if "missing" in sample:
                    return sample
                out[which].append(sample)
            out["bytes"] = sum(
                file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()
            )
    return out


def summarise(samples: list[Sample]) -> dict[str, float]:
    """Medians of one route: seconds, busy cores, and peak memory beyond baseline and columns for
    each row read.
    """
    first = samples[0]
    wall = statistics.median(sample["wall"] for sample in samples)
    cpu = statistics.median(sample["cpu"] for sample in samples)
    extra = statistics.median(
        sample["peak"] - sample["baseline"] - sample["column_bytes"] for sample in samples
    )
    return {
        "wall": wall,
        "fastest": min(sample["wall"] for sample in samples),
        "slowest": max(sample["wall"] for sample in samples),
        "cpu": cpu,
        "busy_cores": cpu / wall,
        "rows": first["rows"],
        "column_bytes": first["column_bytes"],
        "peak": statistics.median(sample["peak"] for sample in samples),
        "baseline": statistics.median(sample["baseline"] for sample in samples),
        "extra_bytes_a_row": extra / max(1, first["rows"]),
    }


def table(result: dict[str, Any]) -> str:
    """The measurements as text; the fastest of the others is 1.00 in the column "time against best
    other".
    """
    medians = {
        name: summarise(one["samples"])
        for name, one in result["routes"].items()
        if one.get("samples")
    }
    others = [
        one["wall"] for name, one in medians.items() if not name.startswith(routes.TURNBUCKLE)
    ]
    best = min(others) if others else float("nan")
    head = f"{'route':<26}{'wall s':>8}{'(min-max)':>15}{'CPU s':>8}{'cores':>7}{'vs best':>9}{'M rows/s':>10}{'peak MB':>9}{'B/row*':>8}"
    lines = [head, "-" * len(head)]
    for name, one in sorted(medians.items(), key=lambda item: item[1]["wall"]):
        spread = f"({one['fastest']:.2f}-{one['slowest']:.2f})"
        lines.append(
            f"{name:<26}{one['wall']:>8.2f}{spread:>15}{one['cpu']:>8.2f}{one['busy_cores']:>7.2f}{one['wall'] / best:>9.2f}"
            f"{one['rows'] / one['wall'] / 1e6:>10.2f}{one['peak'] / 1e6:>9.0f}{one['extra_bytes_a_row']:>8.0f}"
        )
    lines.append(
        "vs best: wall time over that of the fastest route that is not Turnbuckle. * peak "
        "less imports less the columns, a row read"
    )
    lines += [
        f"{name}: not measured: {one['missing']}"
        for name, one in result["routes"].items()
        if "missing" in one
    ]
    return "\n".join([*lines, *_cache_lines(result["cache"])])


def cache_medians(cache: dict[str, Any]) -> dict[str, float]:
    """Medians [s]: first opening, second opening with every table loaded, second opening before any
    table is asked for.
    """
    return {
        "first": statistics.median(sample["wall"] for sample in cache["first"]),
        "second": statistics.median(sample["wall"] for sample in cache["second"]),
        "second_opened": statistics.median(sample["opened"] for sample in cache["second"]),
    }


def _cache_lines(cache: dict[str, Any]) -> list[str]:
    if "missing" in cache:
        return [f"cache: not measured: {cache['missing']}"]
    of = cache_medians(cache)
    size = (
        f"{cache['bytes'] / 1e6:.0f} MB on disk"
        if cache["bytes"]
        else "nothing was written to the cache"
    )
    return [
        f"cache: first opening {of['first']:.3f} s; second, every table loaded, "
        f"{of['second']:.3f} s ({of['second'] / of['first']:.1%}),"
        f" of which {of['second_opened']:.3f} s before any table is asked for; {size}"
    ]


def main() -> None:
    """Measure one file."""
    parser = argparse.ArgumentParser(
        description="compare routes from an Nsight Systems SQLite file to typed columns"
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="only these routes, and turnbuckle")
    parser.add_argument("--out", type=Path, default=HERE / "out" / "read_nsys.json")
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(sys.argv[2], sys.argv[3])))
        return
    chosen = parser.parse_args()
    result = measure(chosen.file, chosen.rounds, chosen.only)
    conclude(result, table(result), [], chosen.out)


if __name__ == "__main__":
    main()
