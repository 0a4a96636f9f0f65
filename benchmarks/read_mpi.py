"""Read MPI traces and schedules: lines (records) a second, beside the least that Python can do with
the same file, in one process.

    python benchmarks/read_mpi.py [--turns 5000] [--rounds 3] [--out benchmarks/out/read_mpi.json]

SMPI's traces of 256 ranks and a DUMPI set are read where they stand beside this clone; a Paraver
trace, text traces of liballprof and a GOAL schedule of a ring of eight ranks are written for it,
`--turns` turns each.  The least is to unpack the file and to split every line into its fields; of a
DUMPI file, to take its records apart.  README.md says how to read the table.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
import statistics
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from measuring import clocked, conclude, in_fresh_process, spread

HERE = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("TURNBUCKLE_SHARED", HERE.parents[1] / "shared")) / "traces"
LIMIT_SECONDS = 600
RANKS = 8
#: A reader may take this many times the least: a guard against work that grows faster than the
#: file, or is done line by line again.
TARGET = 100
TARGETS = {"Paje": 12, "Paraver": 15}
Row = dict[str, Any]
Case = tuple[str, Path, list[Path]]


def paraver(folder: Path, turns: int) -> Path:
    """A ring: every rank posts a receive, sends, waits for both, sums."""
    lines, isend, irecv, wait = [], 3, 4, 6
    for turn in range(turns):
        t = 1000 * turn
        for me in range(1, RANKS + 1):
            who = f"{me}:1:{me}:1"
            for kind, value, begin, end in (
                (1, irecv, 10, 20),
                (1, isend, 30, 40),
                (1, wait, 50, 90),
                (2, 10, 100, 150),
            ):
                beside = ":50100001:8:50100002:8:50100004:1" if kind == 2 else ""
                lines += [
                    f"2:{who}:{t + begin}:5000000{kind}:{value}{beside}",
                    f"2:{who}:{t + end}:5000000{kind}:0",
                ]
            other = me % RANKS + 1
            lines.append(f"3:{who}:{t + 30}:{t + 40}:{other}:1:{other}:1:{t + 20}:{t + 90}:4096:7")
    tasks = ",".join(["1:1"] * RANKS)
    head = f"#Paraver (01/01/2024 at 00:00):{1000 * turns}_ns:1({RANKS}):1:{RANKS}({tasks}),1"
    world = f"c:1:1:{RANKS}:" + ":".join(str(n + 1) for n in range(RANKS))
    (folder / "ring.prv").write_text("\n".join([head, world, *lines]) + "\n", encoding="ascii")
    return folder / "ring.prv"


def pmpi(folder: Path, turns: int) -> Path:
    """The same ring as liballprof writes it: one file a rank."""
    zero = 10**15
    for me in range(RANKS):
        world, left, right = f"0,{me},{RANKS}", (me - 1) % RANKS, (me + 1) % RANKS
        lines = ["# liballprof output file", f"MPI_Comm_rank:{zero}:{world}:7:{zero + 1}"]
        for turn in range(turns):
            t = zero + 1000 * (turn + 1)
            lines += [
                f"MPI_Irecv:{t + 10}:99:512:11,8,8:{left}:7:{world}:5000:{t + 20}",
                f"MPI_Isend:{t + 30}:99:512:11,8,8:{right}:7:{world}:5008:{t + 40}",
                f"MPI_Waitall:{t + 50}:2:5000:0:{t + 90}",
                f"MPI_Allreduce:{t + 100}:1:2:1:11,8,8:3:{world}:{t + 150}",
            ]
        (folder / f"ring-rank-{me}.dat").write_text("\n".join(lines) + "\n", encoding="ascii")
    return folder / "ring-rank-0.dat"


def goal(folder: Path, turns: int) -> Path:
    """Work, a send, and a receive that both wait for the turn before."""
    lines = [f"num_ranks {RANKS}"]
    for me in range(RANKS):
        lines.append(f"rank {me} {{")
        for turn in range(turns):
            lines += [
                f"c{turn}: calc 500",
                f"s{turn}: send 4096b to {(me + 1) % RANKS} tag 7",
                f"s{turn} requires c{turn}",
            ]
            lines.append(f"r{turn}: recv 4096b from {(me - 1) % RANKS} tag 7")
            if turn:
                lines.append(f"c{turn} requires r{turn - 1}")
        lines.append("}")
    (folder / "ring.goal").write_text("\n".join(lines) + "\n", encoding="ascii")
    return folder / "ring.goal"


def cases(folder: Path, turns: int) -> Iterator[Case]:
    """Name, file that is named, and all files that are read."""
    paje, packed = (
        SHARED / "simgrid-local" / name for name in ("halo-256-paje.trace.xz", "halo-256-ti.tar.xz")
    )
    if paje.is_file():
        yield "Paje, SMPI, 256 ranks", paje, [paje]
        with lzma.open(paje) as file, (folder / "unpacked.trace").open("wb") as out:
            shutil.copyfileobj(file, out)
        yield "Paje, the same unpacked", folder / "unpacked.trace", [folder / "unpacked.trace"]
    if packed.is_file():
        with tarfile.open(packed) as archive:
            archive.extractall(folder / "ti", filter="data")
        anchor = next((folder / "ti").glob("*.txt"))
        yield "SimGrid TI, 256 ranks", anchor, sorted((folder / "ti").rglob("*rank-*.txt"))
    meta = SHARED / "dumpi" / "bgp_7rank" / "testbgp.meta"
    if meta.is_file():
        yield "DUMPI, 7 ranks", meta, sorted(meta.parent.glob("*.bin"))
    path = paraver(folder, turns)
    yield "Paraver, made here", path, [path]
    path = pmpi(folder, turns)
    yield "PMPI text, made here", path, sorted(folder.glob("ring-rank-*.dat"))
    path = goal(folder, turns)
    yield "GOAL, made here", path, [path]


def split(files: Iterable[Path]) -> int:
    """The least: every line of every file as its fields; returns lines."""
    count = 0
    for path in files:
        between = b":" if path.suffix in (".prv", ".dat") else None
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            for line in file:
                line.split(between)
                count += 1
    return count


def apart(files: Iterable[Path]) -> int:
    """The least for DUMPI: every record with its arguments; returns records."""
    from turnbuckle.mpi.readers.dumpi.layouts import END, record

    count = 0
    for path in files:
        data, at = path.read_bytes(), 16
        while (one := record(data, at, len(data))).number != END:
            at = one.next
            count += 1
    return count


def child(turns: int, rounds: int) -> dict[str, Any]:
    """Everything, in this process; reader and least by turns."""
    from turnbuckle.mpi import schedules
    from turnbuckle.trace import read

    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        for title, path, files in cases(Path(place), turns):
            least = apart if path.suffix == ".meta" else split
            told = least(files)
            # a set of a thousand records is read often enough to be timed
            often = max(1, 20_000 // told)
            scheduled = schedules.sniff(path)
            reader: Callable[[Path], object] = (
                schedules.figures
                if scheduled
                else lambda one: read(one, use_cache=False, threads=1)
            )
            works = {
                "turnbuckle": lambda p=path, r=reader, n=often: [r(p) for _ in range(n)],
                "least": lambda f=files, w=least, n=often: [w(f) for _ in range(n)],
            }
            for route, work in works.items():
                wall, cpu = clocked(work, rounds)
                rows.append(
                    {"file": title, "name": route, "lines": told * often, "wall": wall, "cpu": cpu}
                )
    return {"rows": rows}


def measure(turns: int, rounds: int) -> dict[str, Any]:
    """All measurements in a fresh process, or ``{"missing": why}``."""
    return in_fresh_process(__file__, (turns, rounds), LIMIT_SECONDS)


def rate(row: Row, clock: str = "wall") -> float:
    """Lines a second, by the median."""
    return float(row["lines"] / statistics.median(row[clock]))


def targets(result: dict[str, Any]) -> list[tuple[bool, str]]:
    """Whether each format is read in a few times the least."""
    if "missing" in result:
        return [(False, f"MPI traces were not measured: {result['missing']}")]
    out = []
    for title in dict.fromkeys(row["file"] for row in result["rows"]):
        rows = {row["name"]: row for row in result["rows"] if row["file"] == title}
        ours, least = (statistics.median(rows[name]["cpu"]) for name in ("turnbuckle", "least"))
        words = (
            f"{title}: {rate(rows['turnbuckle']) / 1e6:.2f} M lines/s, {ours / least:.1f}x the "
            "least by CPU"
        )
        target = TARGETS.get(title.split(",")[0], TARGET)
        out.append((ours <= target * least, f"{words}; target {target}x"))
    return out


def table(result: dict[str, Any]) -> str:
    """The measurements as text."""
    if "missing" in result:
        return f"MPI traces: not measured: {result['missing']}"
    head = f"{'trace':<24}{'route':<14}{'lines':>10}{'s':>9}{'(min-max)':>17}{'M lines/s':>12}{'by CPU':>9}"
    lines = [head, "-" * len(head)]
    for row in result["rows"]:
        lines.append(
            f"{row['file']:<24}{row['name']:<14}{row['lines']:>10,}{statistics.median(row['wall']):>9.3f}{spread(row['wall']):>17}"
            f"{rate(row) / 1e6:>12.2f}{rate(row, 'cpu') / 1e6:>9.2f}"
        )
    lines.append(
        "lines: of text, or records of DUMPI; least: unpack and split into fields, or take "
        "records apart"
    )
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(int(sys.argv[2]), int(sys.argv[3]))))
        return
    parser = argparse.ArgumentParser(
        description="read MPI traces and schedules, beside the least that Python can do"
    )
    parser.add_argument(
        "--turns",
        type=int,
        default=5000,
        help="turns of the ring in the files that are written for it",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "read_mpi.json")
    chosen = parser.parse_args()
    result = measure(chosen.turns, chosen.rounds)
    conclude(result, table(result), targets(result), chosen.out)


if __name__ == "__main__":
    main()
