"""Paje traces of MPI programs, as SimGrid's SMPI writes them: states of ranks, and links between them that are the messages.

The header of a Paje file says which fields each kind of event has; nothing is read by its place alone.  A link begins inside the
call that sends and ends inside the call that receives it or waits for it: the state that is open there, in the order of the file,
is that call.  SMPI records no communicator, no root, no request and no source of a receive (findings P155, P157, P159).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.errors import ProfileError, clipped
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.mpi.readers.paje.calls import MOST_NESTED, Calls
from turnbuckle.mpi.readers.paje.events import Events
from turnbuckle.mpi.readers.paje.lines import EVENTS
from turnbuckle.mpi.readers.paje.links import Links, Pairs, links, pairs
from turnbuckle.mpi.readers.paje.rows import Rows
from turnbuckle.trace.readers.parts.mpi_tables import NO, Names, communicators_table, ranges_table, ranks_table
from turnbuckle.trace.readers.parts.packed_text import Text, beginning, packed
from turnbuckle.trace.readers.parts.text_numbers import Int
from turnbuckle.trace.trace import Trace

_LAST_NUMBER: Final = re.compile(r"(\d{1,9})\D*$")


def sniff(head: bytes, path: Path) -> bool:
    """Whether the file holds a Paje header, or is called so."""
    names = [s.lower() for s in path.suffixes]
    if (head[:1] in b"%#\r\n" or packed(head)) and re.search(rb"^%\s*EventDef\b", beginning(head, path), re.MULTILINE):
        return True
    return names[-1:] == [".paje"] or (packed(head) and names[-2:-1] in ([".paje"], [".trace"]))


def read(path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None) -> Trace:
    """Read a Paje trace, packed by xz or gzip or not.  Raises `ProfileError` (P025 to P029)."""
    del threads
    text = Text(path, progress)
    events, found = Events(str(path)), Calls()
    try:
        for block in text.blocks():
            events.block(block)
            found.take(events)
    except ProfileError:
        # what is damaged may have been too much before
        _messages(events, found)
        raise
    return _assembled(path.name, text, events, found)


def _damage(events: Events, found: Calls, messages: Pairs) -> int:
    """Lines that cannot be, also for the lines before them.  Raises `ProfileError` P029 where more are than are sound."""
    later = {line: f"more than {MOST_NESTED} states inside each other" for line in events.line_of(np.array(found.too_deep, int)).tolist()}
    for line, ends in zip(events.line_of(messages.twice).tolist(), messages.twice_ends.tolist(), strict=True):
        later[line] = "a link that ends twice" if ends else "a link's key that is open"
    if later and (not events.bad or min(later) < events.bad[0]):
        events.first_bad = later[min(later)]
    lines = np.sort(np.concatenate([np.array(events.bad, dtype=np.int64), np.array(list(later), dtype=np.int64)]))
    for bad, line in enumerate(lines.tolist(), 1):
        events.refuse(bad, line + 1)
    return len(lines)


def _messages(events: Events, found: Calls) -> tuple[Links, Pairs, int]:
    """Ends of links, which two are one message, and how many lines cannot be read."""
    found.take(events, last=True)
    collective = np.array([value.sort == "collective" for value in events.values] + [False])
    ends = links(events, found, collective[found.calls["value"]])
    messages = pairs(events, ends)
    return ends, messages, _damage(events, found, messages)


def _assembled(name: str, text: Text, events: Events, found: Calls) -> Trace:
    """Everything as tables."""
    ends, messages, bad = _messages(events, found)
    if events.defining is not None or not events.layouts:
        raise events.unreadable("no definition of an event" if not events.layouts else "the file ends inside it")
    if not len(found):
        seen = ", ".join(sorted(clipped(s, 24) for s in list(events.states)[:8]))
        raise ProfileError(
            "P028", "the recording holds no MPI calls", where=events.where,
            found=f"{events.counts.total()} events, {bad} lines that cannot be read, states: {seen or 'none'}",
            cause="states are MPI calls where they are called MPI_ or PMPI_ and the call's name",
            fix="record with smpirun -trace -trace-file RUN.trace --cfg=tracing/smpi/display-sizes:yes",
        )  # fmt: skip
    flaws: Counter[str] = Counter(
        unbalanced=found.unbalanced, bad=bad, under_way=messages.under_way, inside=found.inside + int((ends.starts & ~ends.live).sum()),
        untagged=int((events.links["tagged"][ends.starts] == 0).sum()), unsized=int((ends.size[ends.starts] == NO).sum()),
    )  # fmt: skip
    rank = _ranks(events, found, flaws)
    ranks = int((rank != NO).sum())
    rows = Rows(events.values, found, ends, messages, rank, flaws)
    # what follows is as large again
    del ends, messages
    events.links.clear()
    found.links.clear()
    each, sent, received = rows.sizes(ranks)
    flaws["silent"] = rows.silent
    names, of_value, isend = _names(events, rows.isend)
    # a row that ends at 0 would pass for one without a time stamp
    by = int(found.earliest_end <= 0)
    tables = {"mpi": pl.DataFrame(), "mpi_ranks": ranks_table(ranks)}
    tables["mpi_communicators"] = communicators_table([(1, found.first + by, list(range(ranks)))])
    of_rank = rank[found.ranges["place"]]
    if (of_rank != NO).any():
        start, end, value = (found.ranges[name][of_rank != NO] for name in ("start", "end", "value"))
        tables["ranges"] = ranges_table(start + by, end + by, of_rank[of_rank != NO], of_value[value])
        del start, end, value
    found.ranges.clear()
    # last of all: it is the largest
    tables["mpi"] = rows.table(of_value, isend, by, sent, received)
    facts: dict[str, Any] = {
        "format": "paje", "product_version": events.tool or None, "schema_version": None, "analysis_duration_ns": events.last + by,
        "session_start_utc_ns": None, "tables": dict(sorted(events.counts.items())), "size_bytes": text.size_bytes, "sha256": text.digest,
    }  # fmt: skip
    return Trace(tables, names.series(), facts, _findings(events, flaws, each, rows), name)


def _ranks(events: Events, found: Calls, flaws: Counter[str]) -> Int:
    """Rank of each container: the last number in its name where those are 0 to n - 1, else in their order."""
    used = np.unique(found.calls["place"])
    said = [int(n[1]) if (n := _LAST_NUMBER.search(events.places[place])) else -1 for place in used.tolist()]
    if sorted(said) != list(range(len(used))):
        flaws["unnamed"] = len(used)
        said = list(range(len(used)))
    rank = np.full(len(events.places), NO, dtype=np.int64)
    rank[used] = said
    return rank


def _names(events: Events, isend: int) -> tuple[Names, Int, int]:
    """Texts in the order in which they are first used; that of each value, and of what a start sends."""
    names, of_value, sends = Names(), [], -1
    line = int(events.line_of(np.array([isend]))[0]) if 0 <= isend < events.count else -1
    for value in events.values:
        if sends < 0 <= line < value.line:
            sends = names("MPI_Isend")
        of_value.append(names(value.name))
    if line >= 0:
        sends = names("MPI_Isend")
    return names, np.array(of_value, dtype=np.int64), sends


def _findings(events: Events, flaws: Counter[str], each: int, rows: Rows) -> list[Finding]:
    under_way = flaws["under_way"]
    unread = Counter({name: n for name, n in events.counts.items() if name not in EVENTS})
    found = [
        ("P119", int(events.private), "command line"),
        ("P123", 1, ""),
        ("P130", 1, ""),
        ("P141", flaws["silent"], ""),
        ("P143", unread.total() + flaws["inside"], ", ".join(f"{n} {c}" for n, c in unread.most_common())),
        ("P147", flaws["unbalanced"], "states"),
        ("P153", flaws["bad"], f"lines; the first: {clipped(events.first_bad, 80)}"),
        ("P154", flaws["homeless"] + under_way, f"no call at one end {flaws['homeless']}, one end only {under_way}"),
        ("P155", flaws["oldest"] + flaws["guessed"], f"receives {flaws['oldest']}, sends {flaws['guessed']}"),
        ("P157", flaws["rootless"], ""),
        ("P158", flaws["unnamed"], "containers whose names do not end in 0 to n - 1: ranks in the order in which they appear"),
        ("P159", len(rows), f"messages without a tag {flaws['untagged']}" if flaws["untagged"] else ""),
        ("A350", flaws["elements"], f"{each} B each"),
        ("A351", flaws["unsized"], ""),
    ]
    return [finding(code, count, detail) for code, count, detail in found if count]
