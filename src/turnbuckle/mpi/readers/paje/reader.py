"""Reader of Paje traces of MPI programs as SimGrid's SMPI writes them: states of ranks, and links
between them that are the messages.

The header of a Paje file defines the fields of each kind of event; no field is read by its position
alone.  A link begins inside the call that sends.  It ends inside the call that receives or waits
for the message, which is the state that is open there in the order of the file.
 SMPI records no communicator, no root, no request and no source of a receive (findings P155, P157,
 P159).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Int
from turnbuckle.foundation.errors import ProfileError, clipped, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.mpi.readers.paje.calls import MOST_NESTED, Calls
from turnbuckle.mpi.readers.paje.events import Events
from turnbuckle.mpi.readers.paje.lines import EVENTS
from turnbuckle.mpi.readers.paje.links import Links, Pairs, links, pairs
from turnbuckle.mpi.readers.paje.rows import Rows
from turnbuckle.trace.readers.parts.mpi_tables import (
    NO,
    Names,
    communicators_table,
    ranges_table,
    ranks_table,
)
from turnbuckle.trace.readers.parts.packed_text import Text, beginning, packed
from turnbuckle.trace.trace import Trace

_LAST_NUMBER: Final = re.compile(r"(\d{1,9})\D*$")


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the file holds a Paje header, or has the suffix of a Paje file."""
    names = [s.lower() for s in path.suffixes]
    if (head[:1] in b"%#\r\n" or packed(head)) and re.search(
        rb"^%\s*EventDef\b", beginning(head, path), re.MULTILINE
    ):
        return True
    return names[-1:] == [".paje"] or (packed(head) and names[-2:-1] in ([".paje"], [".trace"]))


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read a Paje trace, plain or packed by xz or gzip.  Raises `ProfileError` (P025 to P029)."""
    del threads
    text = Text(path, progress)
    events, calls = Events(str(path)), Calls()
    try:
        for block in text.blocks():
            events.block(block)
            calls.take(events)
    except ProfileError:
        # Damage found earlier in the file may already be too much, and then P029 is the error to
        # report.
        _messages(events, calls)
        raise
    return _assembled(path.name, text, events, calls)


def _damage(events: Events, calls: Calls, messages: Pairs) -> int:
    """Return the number of unreadable lines, those found only after pairing included.

    Raises `ProfileError` P029 where at some line more are unreadable than sound.
    """
    flaw_of_line = {
        line: f"more than {MOST_NESTED} states inside each other"
        for line in events.line_of(np.array(calls.too_deep, int)).tolist()
    }
    for line, is_end in zip(
        events.line_of(messages.twice).tolist(), messages.twice_ends.tolist(), strict=True
    ):
        flaw_of_line[line] = "a link that ends twice" if is_end else "a link's key that is open"
    if flaw_of_line and (not events.bad or min(flaw_of_line) < events.bad[0]):
        events.first_bad = flaw_of_line[min(flaw_of_line)]
    lines = np.sort(
        np.concatenate(
            [np.array(events.bad, dtype=np.int64), np.array(list(flaw_of_line), dtype=np.int64)]
        )
    )
    for bad, line in enumerate(lines.tolist(), 1):
        events.refuse(bad, line + 1)
    return len(lines)


def _messages(events: Events, calls: Calls) -> tuple[Links, Pairs, int]:
    """Return the link endpoints, their pairing into messages, and the number of unreadable
    lines.
    """
    calls.take(events, last=True)
    collective = np.array([value.sort == "collective" for value in events.values] + [False])
    ends = links(events, calls, collective[calls.calls["value"]])
    messages = pairs(events, ends)
    return ends, messages, _damage(events, calls, messages)


def _assembled(name: str, text: Text, events: Events, calls: Calls) -> Trace:
    """Build the trace with all its tables and findings."""
    ends, messages, bad = _messages(events, calls)
    if events.defining is not None or not events.layouts:
        raise events.unreadable(
            "no definition of an event" if not events.layouts else "the file ends inside it"
        )
    if not len(calls):
        seen = ", ".join(sorted(clipped(s, 24) for s in list(events.states)[:8]))
        raise error_of(
            "P028.paje",
            where=events.where,
            found=(
                f"{events.counts.total()} events, {bad} lines that cannot be read, states: "
                f"{seen or 'none'}"
            ),
        )
    flaws: Counter[str] = Counter(
        unbalanced=calls.unbalanced, bad=bad, under_way=messages.under_way
    )
    flaws["inside"] = calls.inside + int((ends.starts & ~ends.live).sum())
    flaws["untagged"] = int((events.links["tagged"][ends.starts] == 0).sum())
    flaws["unsized"] = int((ends.size[ends.starts] == NO).sum())
    rank = _ranks(events, calls, flaws)
    ranks = int((rank != NO).sum())
    rows = Rows(events.values, calls, ends, messages, rank, flaws)
    # The memory is freed here because the next steps need as much again.
    del ends, messages
    events.links.clear()
    calls.links.clear()
    each, sent, received = rows.sizes(ranks)
    flaws["silent"] = rows.silent
    names, of_value, isend = _names(events, rows.isend)
    # A row that ends at 0 would pass for one without a time stamp.
    shift = int(calls.earliest_end <= 0)
    tables = {"mpi": pl.DataFrame(), "mpi_ranks": ranks_table(ranks)}
    tables["mpi_communicators"] = communicators_table(
        [(1, calls.first + shift, list(range(ranks)))]
    )
    range_rank = rank[calls.ranges["place"]]
    if (range_rank != NO).any():
        start, end, value = (
            calls.ranges[name][range_rank != NO] for name in ("start", "end", "value")
        )
        tables["ranges"] = ranges_table(
            start + shift, end + shift, range_rank[range_rank != NO], of_value[value]
        )
        del start, end, value
    calls.ranges.clear()
    # The largest table is built last, when the memory of the others' input is free.
    tables["mpi"] = rows.table(of_value, isend, shift, sent, received)
    facts: dict[str, Any] = {
        "format": "paje",
        "product_version": events.tool or None,
        "schema_version": None,
    }
    facts |= {
        "analysis_duration_ns": events.last + shift,
        "session_start_utc_ns": None,
        "tables": dict(sorted(events.counts.items())),
    }
    facts |= {"size_bytes": text.size_bytes, "sha256": text.digest}
    return Trace(tables, names.series(), facts, _findings(events, flaws, each, rows), name)


def _ranks(events: Events, calls: Calls, flaws: Counter[str]) -> Int:
    """Return the rank of each container.

    The rank is the last number in the container's name where those numbers are 0 to n - 1, else its
    order of appearance.
    """
    used = np.unique(calls.calls["place"])
    numbers = [
        int(n[1]) if (n := _LAST_NUMBER.search(events.places[place])) else -1
        for place in used.tolist()
    ]
    if sorted(numbers) != list(range(len(used))):
        flaws["unnamed"] = len(used)
        numbers = list(range(len(used)))
    rank = np.full(len(events.places), NO, dtype=np.int64)
    rank[used] = numbers
    return rank


def _names(events: Events, isend: int) -> tuple[Names, Int, int]:
    """Return the texts in the order of their first use, the text of each value, and the text for
    messages that a start call sends.
    """
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
    counted = [
        ("P119", int(events.private), "command line"),
        ("P123", 1, ""),
        ("P130", 1, ""),
        ("P141", flaws["silent"], ""),
        (
            "P143",
            unread.total() + flaws["inside"],
            ", ".join(f"{n} {c}" for n, c in unread.most_common()),
        ),
        ("P147", flaws["unbalanced"], "states"),
        ("P153", flaws["bad"], f"lines; the first: {clipped(events.first_bad, 80)}"),
        (
            "P154",
            flaws["homeless"] + under_way,
            f"no call at one end {flaws['homeless']}, one end only {under_way}",
        ),
        (
            "P155",
            flaws["oldest"] + flaws["guessed"],
            f"receives {flaws['oldest']}, sends {flaws['guessed']}",
        ),
        ("P157", flaws["rootless"], ""),
        (
            "P158",
            flaws["unnamed"],
            (
                "containers whose names do not end in 0 to n - 1: ranks in the order in which "
                "they appear"
            ),
        ),
        (
            "P159",
            len(rows),
            f"messages without a tag {flaws['untagged']}" if flaws["untagged"] else "",
        ),
        ("A350", flaws["elements"], f"{each} B each"),
        ("A351", flaws["unsized"], ""),
    ]
    return [finding(code, count, detail) for code, count, detail in counted if count]
