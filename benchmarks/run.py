"""Run every benchmark and say which targets are met: `python benchmarks/run.py [--rows N] [--events
N] [--rounds N] [--quick]`.

Writes ``benchmarks/out/benchmarks.json``. The exit status is 0 whether or not the targets are met;
it is 1 where a benchmark cannot run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import contention
import growth
import measuring
import nsys_generator
import packet
import question
import read_kineto
import read_mpi
import read_nsys
import read_otf2
import routes
import scale
import start_up
import timeline
import triangular

OUT = Path(__file__).resolve().parent / "out"
PACKAGES = (
    "numpy",
    "polars",
    "pyarrow",
    "adbc-driver-sqlite",
    "connectorx",
    "duckdb",
    "pandas",
    "simpy",
    "networkx",
    "rustworkx",
    "otf2",
    "ijson",
    "HolisticTraceAnalysis",
)
# the routes that the project promised to be measured against; connectorx is measured too
NAMED = ("polars + ADBC", "ADBC to Arrow", "DuckDB sqlite scanner", "pandas.read_sql")


def machine() -> dict[str, Any]:
    """What the figures were taken on: no names, no addresses."""
    model = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        model = next(
            (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), ""
        )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "processor": model or platform.machine(),
        "memory_bytes": memory,
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": versions,
        "load": list(os.getloadavg()),
    }


def targets(result: dict[str, Any], cores: int) -> list[tuple[bool, str]]:
    """Each target: whether it is met, and the sentence that says by how much. Targets that could
    not be measured are not met.
    """
    medians = {
        name: read_nsys.summarise(one["samples"])
        for name, one in result["read"]["routes"].items()
        if one.get("samples")
    }
    ours = medians.get(routes.TURNBUCKLE)
    out: list[tuple[bool, str]] = []
    if ours is None:
        return [
            (
                False,
                (
                    "turnbuckle was not measured: "
                    f"{result['read']['routes'][routes.TURNBUCKLE].get('missing')}"
                ),
            )
        ]
    others = {name: one for name, one in medians.items() if not name.startswith(routes.TURNBUCKLE)}
    for label, names in (
        ("of polars, ADBC, DuckDB, pandas", NAMED),
        ("of all other routes", tuple(others)),
    ):
        group = {name: others[name]["wall"] for name in names if name in others}
        if group:
            best = min(group, key=lambda name: group[name])
            ratio = group[best] / ours["wall"]
            seconds = f"{best} {group[best]:.2f} s, turnbuckle {ours['wall']:.2f} s"
            quickest = min(others[name]["fastest"] for name in group) / ours["fastest"]
            least = min(others[name]["cpu"] for name in group) / ours["cpu"]
            also = f"{quickest:.2f}x by the quickest runs, {least:.2f}x by CPU time"
            out.append(
                (
                    ratio >= 2,
                    f"read {ratio:.2f}x as fast as the best {label} ({seconds}); target 2x; {also}",
                )
            )
    extra = ours["extra_bytes_a_row"]
    out.append(
        (extra < 150, f"peak memory {extra:.0f} bytes a row beyond the columns; target under 150")
    )
    busy = ours["busy_cores"]
    if cores > 1:
        out.append(
            (
                busy > 1.3,
                f"{busy:.2f} cores busy while reading; target: more than one core in use (1.3)",
            )
        )
    cache = result["read"]["cache"]
    if "missing" in cache:
        out.append((False, f"second opening was not measured: {cache['missing']}"))
    else:
        of = read_nsys.cache_medians(cache)
        share = of["second"] / of["first"]
        words = (
            f"{of['second']:.3f} s of {of['first']:.3f} s, every table loaded; "
            f"{of['second_opened']:.3f} s to open alone"
        )
        out.append(
            (
                share < 0.1,
                f"second opening takes {share:.1%} of the first ({words}); target under 10%",
            )
        )
    return out


def main() -> None:
    """Run all of them."""
    parser = argparse.ArgumentParser(description="run every benchmark and compare with the targets")
    parser.add_argument(
        "--rows", type=int, default=5_000_000, help="event rows of the generated file"
    )
    parser.add_argument(
        "--events", type=int, default=10_000_000, help="events of the generated replay graph"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--schema", choices=("3.0", "3.24", "3.7"), default="3.7")
    parser.add_argument("--shuffle", action="store_true", help="rows out of time order")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="200,000 rows and events, one round: shows that it runs, its figures mean little",
    )
    chosen = parser.parse_args()
    rows, rounds = (200_000, 1) if chosen.quick else (chosen.rows, chosen.rounds)
    OUT.mkdir(parents=True, exist_ok=True)
    facts = machine()
    print(
        f"{facts['cores']} cores of {facts['processor']}, {facts['memory_bytes'] / 2**30:.0f} GiB,"
        f" {facts['system']}, Python {facts['python']}"
    )
    print(", ".join(f"{name} {version}" for name, version in facts["packages"].items()))
    print(
        f"load {facts['load'][0]:.1f} at the start"
        + (" (others work on this machine: compare CPU times)" if facts["load"][0] > 0.5 else "")
    )
    path = OUT / "generated.sqlite"
    try:
        counts = nsys_generator.generate(path, rows, chosen.schema, shuffle=chosen.shuffle)
        print(
            (
                f"generated {sum(counts.values()):,} rows, {path.stat().st_size / 1e6:.0f} MB, "
                f"schema {chosen.schema}\n"
            ),
            flush=True,
        )
        result: dict[str, Any] = {
            "machine": facts,
            "rows": counts,
            "schema": chosen.schema,
            "shuffled": chosen.shuffle,
            "rounds": rounds,
        }
        result["read"] = read_nsys.measure(path, rounds)
        result["question"] = question.measure(path, 1)
    finally:
        path.unlink(missing_ok=True)
    result["growth"] = growth.measure((2_000, 20_000, 200_000) if chosen.quick else growth.ROWS)
    result["start_up"] = start_up.measure(1 if chosen.quick else 5)
    result["timeline"] = timeline.measure(*((200_000, 1) if chosen.quick else (chosen.events, 5)))
    result["packet"] = packet.measure(*((200_000, 1) if chosen.quick else (10_000_000, 5)))
    result["triangular"] = triangular.measure(*((20_000, 1) if chosen.quick else (1_000_000, 3)))
    result["read_otf2"] = read_otf2.measure(*((100_000, 1) if chosen.quick else (1_000_000, 5)))
    result["read_kineto"] = read_kineto.generated(*((3.0, 1) if chosen.quick else (300.0, 3)))
    result["read_mpi"] = read_mpi.measure(*((500, 1) if chosen.quick else (5000, 3)))
    result["contention"] = contention.measure(
        *((0.02, 1) if chosen.quick else (1.0, 3)), counted=not chosen.quick
    )
    result["scale"] = scale.measure(100_000 if chosen.quick else 2_000_000)
    facts["load_at_the_end"] = list(os.getloadavg())
    print(read_nsys.table(result["read"]))
    aims = targets(result, facts["cores"])
    for bench in (
        question,
        growth,
        start_up,
        read_otf2,
        read_kineto,
        read_mpi,
        timeline,
        packet,
        triangular,
        contention,
        scale,
    ):
        print(f"\n{bench.table(result[bench.__name__])}")
        aims += bench.targets(result[bench.__name__])
    result["targets"] = [{"met": met, "what": what} for met, what in aims]
    print(f"\n{measuring.judged(aims)}")
    print(f"load {facts['load_at_the_end'][0]:.1f} at the end")
    (OUT / "benchmarks.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if not result["read"]["routes"][routes.TURNBUCKLE].get("samples"):
        sys.exit(1)


if __name__ == "__main__":
    main()
