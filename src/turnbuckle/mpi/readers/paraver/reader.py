"""Reader of Extrae's Paraver traces: ``X.prv`` with ``X.pcf`` beside it, which names the numbered
MPI calls.

An MPI call is a pair of event records, one with the call's number and one with 0.  A communication
record describes both ends of a message by three times: the begin of the sending call, the begin of
the receiving call (of an Irecv: its return), and the arrival of the message (the end of the
receive, or of the wait that completed it).  The calls are found by these times.  The wait that
completes a send is not recorded (P155), nor is the communicator of a message (P159).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.mpi.readers.paraver.calls import paired
from turnbuckle.mpi.readers.paraver.names import Words, named
from turnbuckle.mpi.readers.paraver.records import Records
from turnbuckle.mpi.readers.paraver.rows import Rows, messages
from turnbuckle.trace.readers.parts.mpi_tables import Names, communicators_table, ranks_table
from turnbuckle.trace.readers.parts.packed_text import Text, beginning, packed
from turnbuckle.trace.trace import Trace

CACHED = False
"""No result is cached, because the .pcf may change while the .prv does not."""


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the file begins like a Paraver trace, or belongs to one."""
    if head.startswith(b"#Paraver"):
        return True
    names = [s.lower() for s in path.suffixes]
    if packed(head):
        return names[-2:-1] == [".prv"] or beginning(head, path, 16).startswith(b"#Paraver")
    return names[-1:] in ([".prv"], [".pcf"])


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read a Paraver trace, plain or packed by xz or gzip.  Raises `ProfileError` (P025, P026, P028
    to P030).
    """
    del threads
    if path.suffix.lower() == ".pcf":
        raise error_of(
            "P030.names",
            where=str(path),
            found="a .pcf file: names and colours",
            name=path.with_suffix(".prv").name,
        )
    text, names = Text(path, progress), Names()
    records = Records(str(path), Words(named(path), names))
    blocks = text.blocks()
    first, _, rest = next(blocks, b"").partition(b"\n")
    records.header(first)
    for block in chain([rest], blocks):
        if block:
            records.block(block)
    return _assembled(path, text, records, names)


def _assembled(path: Path, text: Text, records: Records, names: Names) -> Trace:
    """Build the trace with all its tables and findings."""
    selected = paired(records)
    if selected is None:
        raise error_of(
            "P028.paraver",
            where=str(path),
            found=", ".join(f"{n} {kind} records" for kind, n in records.counts.items())
            or "no records",
        )
    application, calls = selected
    ranks = records.threads.tasks[application - 1]
    world, communicators = _communicators(records, application, ranks)
    rows = Rows(calls, messages(records, application, calls), communicators, world, records.flaws)
    first = int(calls.start.min())
    groups = [(number, first, members) for number, members in communicators.items()]
    tables = {
        "mpi": rows.table(names),
        "mpi_ranks": ranks_table(ranks),
        "mpi_communicators": communicators_table(groups),
    }
    facts: dict[str, Any] = {
        "format": "paraver",
        "product_version": "Extrae",
        "schema_version": None,
        "session_start_utc_ns": None,
    }
    facts |= {"analysis_duration_ns": records.duration, "tables": dict(records.counts)}
    facts |= {"size_bytes": text.size_bytes, "sha256": text.digest}
    return Trace(tables, names.series(), facts, _findings(records, application), path.name)


def _communicators(
    records: Records, application: int, ranks: int
) -> tuple[int, dict[int, list[int]]]:
    """Return the handle of the world, and the application's communicators whose members all
    exist.
    """
    recorded = records.communicators.get(application, {})
    kept = {n: m for n, m in recorded.items() if min(m) >= 0 and max(m) < ranks}
    records.flaws["doubtful"] += len(recorded) - len(kept)
    everyone = list(range(ranks))
    world = next((n for n, members in sorted(kept.items()) if members == everyone), 0)
    if not world:
        world = max(kept, default=0) + 1
        kept[world] = everyone
    return world, kept


def _findings(records: Records, application: int) -> list[Finding]:
    """Return the findings with a count above 0."""
    flaws, words, tasks = records.flaws, records.words, records.threads.tasks
    others = {a: n for a, n in records.events.items() if a != application}
    applications = len(tasks)
    apart = [
        f"application {a}: {tasks[a - 1]} tasks, {n} event records"
        for a, n in sorted(others.items())
        if 0 < a <= applications
    ]
    with_calls = [
        f"{n} MPI calls of application {a}"
        for a, n in sorted(records.calls.items())
        if a != application
    ]
    backwards = f"by up to {max(flaws['late'], 0)} ns"
    counted = [
        ("P119", 1, "host names, paths"),
        ("P123", 1, ""),
        (
            "P128",
            len(words.unnamed),
            "calls without a name in the .pcf"
            if words.named is not None
            else "no .pcf beside it: Extrae's own numbers",
        ),
        ("P130", int(not flaws["gpu"]), ""),
        ("P141", flaws["silent"], ""),
        ("P143", flaws["unread"], "event records without an MPI call"),
        (
            "P144",
            flaws["doubtful"],
            "communicators and messages of tasks that the header does not have",
        ),
        ("P147", flaws["cut"], "MPI calls"),
        ("P148", flaws["lost"], ""),
        ("P149", flaws["backwards"], backwards),
        ("P153", records.bad, f"lines; the first: {clipped(records.first_bad, 80)}"),
        (
            "P154",
            flaws["homeless"] + flaws["elsewhere"],
            f"ends {flaws['homeless']}, between applications {flaws['elsewhere']}",
        ),
        ("P155", flaws["guessed"], ""),
        ("P156", flaws["gpu"], "event records"),
        ("P157", flaws["rootless"], ""),
        ("P158", len(others), "; ".join([*apart[:4], *with_calls[:4]])),
        ("P159", len(records.messages), "messages"),
        ("A351", flaws["unsized"], ""),
    ]
    return [finding(code, count, detail) for code, count, detail in counted if count > 0]
