"""Read OTF2 archives: events a second, Turnbuckle beside the PyPI package `otf2` (libotf2 behind
its Python interface), in one process.

    python benchmarks/read_otf2.py [--events 1000000] [--rounds 5] [--archive X.otf2] [--out benchmarks/out/read_otf2.json]

Without `--archive` it reads the EZTrace and Score-P archives of LAMMPS beside this clone, where
they are, and one that it writes with libotf2's own writer: eight ranks that exchange messages and
meet in collectives, `--events` events in all. README.md says how to read the table.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measuring import clocked, conclude, in_fresh_process, spread

HERE = Path(__file__).resolve().parent
REAL = ("lammps-melt-8r", "scorep-lammps-melt-8r")
LIMIT_SECONDS = 600
RANKS, PEER = 8, "PyPI otf2"
# what a turn of the generated program's loop writes on each rank
TURN_EVENTS = 17
# events of the largest archive that the Python interface reads in every round
CUT = 500_000
TARGET = 10
Row = dict[str, Any]
Told = tuple[dict[str, int], int]


def generate(folder: Path, events: int) -> Path:
    """An archive of about `events` events by libotf2's writer; its anchor."""
    import otf2

    turns = max(1, events // (RANKS * TURN_EVENTS))
    with otf2.writer.open(str(folder), timer_resolution=10**9) as archive:
        root = archive.definitions.system_tree_node("a machine")
        names = ("MPI_Isend", "MPI_Irecv", "MPI_Waitall", "MPI_Allreduce")
        isend, irecv, wait, meet = (
            archive.definitions.region(n, paradigm=otf2.Paradigm.MPI) for n in names
        )
        threads = []
        for rank in range(RANKS):
            process = archive.definitions.location_group(
                f"rank {rank}",
                location_group_type=otf2.LocationGroupType.PROCESS,
                system_tree_parent=root,
            )
            threads.append(archive.definitions.location("a thread", group=process))
        kinds = otf2.GroupType
        archive.definitions.group(
            "", group_type=kinds.COMM_LOCATIONS, paradigm=otf2.Paradigm.MPI, members=threads
        )
        members = archive.definitions.group(
            "", group_type=kinds.COMM_GROUP, paradigm=otf2.Paradigm.MPI, members=list(range(RANKS))
        )
        world = archive.definitions.comm("MPI_COMM_WORLD", group=members)
        for rank, thread in enumerate(threads):
            writer = archive.event_writer_from_location(thread)
            for turn in range(turns):
                _turn(
                    writer,
                    20_000 * turn + 10 * (rank % 8),
                    rank,
                    turn,
                    (isend, irecv, wait, meet),
                    world,
                )
    return folder / "traces.otf2"


def _turn(writer: Any, at: int, rank: int, turn: int, regions: tuple[Any, ...], world: Any) -> None:
    """A message to the next rank, one from the one before, and an allreduce."""
    import otf2

    isend, irecv, wait, meet = regions
    size, request = 8 << turn % 16, 2 * turn
    writer.enter(at, irecv)
    writer.mpi_irecv_request(at + 100, request)
    writer.leave(at + 200, irecv)
    writer.enter(at + 300, isend)
    writer.mpi_isend(at + 400, (rank + 1) % RANKS, world, turn % 4, size, request + 1)
    writer.leave(at + 500, isend)
    writer.enter(at + 600, wait)
    writer.mpi_irecv(at + 4_000, (rank - 1) % RANKS, world, turn % 4, size, request)
    writer.mpi_isend_complete(at + 4_100, request + 1)
    writer.leave(at + 5_000, wait)
    writer.enter(at + 6_000, meet)
    writer.mpi_collective_begin(at + 6_000)
    writer.mpi_collective_end(
        at + 9_000, otf2.CollectiveOp.ALLREDUCE, world, otf2.CollectiveRoot.NONE.value, 8, 8
    )
    writer.leave(at + 9_100, meet)
    for step in range(3):
        writer.mpi_request_test(at + 10_000 + step, request)


@contextmanager
def lenient() -> Iterator[None]:
    """The package `otf2`, made to keep the first of two definitions of one id: else it refuses
    EZTrace's archives.
    """
    from otf2 import registry

    strict = registry._RefRegistry._register

    def register(self: Any, one: Any) -> None:
        if one._ref not in self._elements_by_ref:
            strict(self, one)

    registry._RefRegistry._register = register
    try:
        yield
    finally:
        registry._RefRegistry._register = strict


def by_package(path: Path) -> Told:
    """Events by kind and bytes sent, through the package's loop over all events in order of
    time.
    """
    import otf2
    from otf2.events import MpiIsend, MpiSend

    kinds: Counter[type] = Counter()
    sent = 0
    with lenient(), otf2.reader.open(str(path)) as archive:
        for _, event in archive.events:
            kinds[type(event)] += 1
            if isinstance(event, (MpiSend, MpiIsend)):
                sent += event.msg_length
    return {kind.__name__: count for kind, count in kinds.items()}, sent


def by_turnbuckle(path: Path, threads: int) -> Told:
    """The same, from the tables that everything else works on."""
    from turnbuckle.trace.readers.otf2 import read

    trace = read(path, threads=threads)
    calls = trace.mpi.with_columns(call=trace.text(trace.mpi))
    sends = calls.filter(
        calls["call"].is_in(["MPI_Send", "MPI_Isend", "MPI_Ssend"]) & calls["partner"].is_not_null()
    )
    # of a Sendrecv the half that sends has no length
    both = calls.filter(
        (calls["call"] == "MPI_Sendrecv")
        & (calls["start_ns"] == calls["end_ns"])
        & calls["partner"].is_not_null()
    )
    kinds = {
        "".join(word.capitalize() for word in kind.split("_")): count
        for kind, count in trace.facts["tables"].items()
    }
    return kinds, int(sends["size_bytes"].sum()) + int(both["size_bytes"].sum())


def timed(name: str, archive: str, work: Callable[[], Told], rounds: int, threads: int = 1) -> Row:
    """Wall and CPU seconds of `rounds` reads after one that is not counted."""
    told = work()
    wall, cpu = clocked(work, rounds)
    events = sum(told[0].values())
    return {
        "name": name,
        "archive": archive,
        "events": events,
        "told": told,
        "threads": threads,
        "wall": wall,
        "cpu": cpu,
    }


def of_archive(title: str, path: Path, rounds: int) -> list[Row]:
    """All routes on one archive; they must tell the same events and the same bytes."""
    cores = min(2, os.cpu_count() or 1)
    rows = [timed("turnbuckle", title, lambda: by_turnbuckle(path, 1), rounds)]
    rows.append(
        timed(
            f"turnbuckle, {cores} threads", title, lambda: by_turnbuckle(path, cores), rounds, cores
        )
    )
    try:
        import otf2  # noqa: F401
    except ImportError as error:
        return [*rows, {"name": PEER, "archive": title, "missing": str(error)}]
    rows.append(
        timed(PEER, title, lambda: by_package(path), 1 if rows[0]["events"] > CUT else rounds)
    )
    if len({json.dumps(row["told"], sort_keys=True) for row in rows}) > 1:
        raise SystemExit(f"{title}: not the same events: {[row['told'] for row in rows]}")
    return rows


def real() -> Iterator[tuple[str, Path]]:
    """Archives of LAMMPS beside this clone."""
    folder = (
        Path(os.environ.get("TURNBUCKLE_SHARED", HERE.parents[1] / "shared"))
        / "traces"
        / "otf2-local"
    )
    for name in REAL:
        for path in sorted((folder / name).rglob("*.otf2")):
            yield name, path


def child(events: int, rounds: int, archive: str) -> dict[str, Any]:
    """Everything, in this process."""
    rows: list[Row] = []
    for title, path in [(Path(archive).name, Path(archive))] if archive else real():
        rows += of_archive(title, path, rounds)
    if not archive:
        with tempfile.TemporaryDirectory() as place:
            try:
                path = generate(Path(place) / "made", events)
            except ImportError as error:
                rows.append(
                    {
                        "name": "turnbuckle",
                        "archive": "generated",
                        "missing": f"{error}: nothing can write it",
                    }
                )
            else:
                rows += of_archive("generated", path, rounds)
    return {"rows": rows}


def measure(events: int, rounds: int, archive: str = "") -> dict[str, Any]:
    """All measurements in a fresh process, or ``{"missing": why}``."""
    return in_fresh_process(__file__, (events, rounds, archive), LIMIT_SECONDS)


def rate(row: Row, clock: str = "wall") -> float:
    """Events a second, by the median."""
    return float(row["events"] / statistics.median(row[clock]))


def targets(result: dict[str, Any]) -> list[tuple[bool, str]]:
    """Whether each archive is read ten times as fast as by the Python package, on one thread."""
    if "missing" in result:
        return [(False, f"OTF2 was not measured: {result['missing']}")]
    out = []
    for archive in dict.fromkeys(row["archive"] for row in result["rows"]):
        rows = {row["name"]: row for row in result["rows"] if row["archive"] == archive}
        if any("missing" in rows.get(name, {"missing": ""}) for name in ("turnbuckle", PEER)):
            out.append((False, f"{archive}: not compared with the Python package"))
            continue
        ours, peer = rate(rows["turnbuckle"]), rate(rows[PEER])
        words = (
            f"{archive}: {ours / 1e6:.2f} M events/s on one thread, {ours / peer:.0f}x the "
            f"package otf2 ({peer / 1e6:.2f} M)"
        )
        out.append((ours >= TARGET * peer, f"{words}; target {TARGET}x"))
    return out


def table(result: dict[str, Any]) -> str:
    """The measurements as text."""
    if "missing" in result:
        return f"OTF2: not measured: {result['missing']}"
    head = f"{'archive':<24}{'route':<24}{'events':>11}{'s':>9}{'(min-max)':>17}{'M events/s':>12}{'by CPU':>9}"
    lines = [head, "-" * len(head)]
    for row in result["rows"]:
        if "missing" in row:
            lines.append(f"{row['archive']:<24}{row['name']}: not measured: {row['missing']}")
            continue
        lines.append(
            f"{row['archive']:<24}{row['name']:<24}{row['events']:>11,}{statistics.median(row['wall']):>9.3f}{spread(row['wall']):>17}"
            f"{rate(row) / 1e6:>12.2f}{rate(row, 'cpu') / 1e6:>9.2f}"
        )
    lines.append("M events/s: million events a second, by the median; by CPU: by CPU seconds")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
        return
    parser = argparse.ArgumentParser(description="read OTF2 archives, beside the package otf2")
    parser.add_argument(
        "--events", type=int, default=1_000_000, help="events of the archive that is written for it"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--archive", default="", help="an archive of your own instead")
    parser.add_argument("--out", type=Path, default=HERE / "out" / "read_otf2.json")
    chosen = parser.parse_args()
    result = measure(chosen.events, chosen.rounds, chosen.archive)
    conclude(result, table(result), targets(result), chosen.out)


if __name__ == "__main__":
    main()
