"""Text traces of liballprof (its early name: collprof): the calls of each rank with their arguments, one file a rank.

A line is ``MPI_Name:begin:arguments:end``, times in microseconds, a communicator as handle, rank and size, a data type as number,
size and extent.  The tracer measures how far each clock is off at the begin and at the end; both are applied, and the straight
line between them.  Handles are local to a rank; all of as many ranks as there are files, in the order of the world, are the world
or a copy of it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import polars as pl

from turnbuckle.foundation.errors import ProfileError, clipped
from turnbuckle.foundation.findings import finding
from turnbuckle.trace.readers.parts.mpi_tables import (
    COLLECTIVE,
    LARGEST,
    LARGEST_NS,
    MESSAGE,
    MOST_RANKS,
    NO,
    OTHER,
    REQUEST,
    ROOTED,
    Calls,
    Names,
    carried,
    operation,
    ranks_table,
    sort_of,
)  # fmt: skip
from turnbuckle.trace.readers.parts.packed_text import Text, beginning
from turnbuckle.trace.trace import Trace, dtypes

CACHED = False
"""The files of the other ranks may change while the one that was named does not."""
_HEADS: Final = (b"# collprof", b"# liballprof", b"# htor's PMPI Tracer")
_TRACER: Final = re.compile(rb"#\s*(collprof|liballprof2?)(?:\s+(\d[\w.]{0,12}))?")
_DIFFERENCE: Final = re.compile(rb"#.*\bclockdiff:\s*(-?\d+(?:\.\d+)?)")
_WHOLE: Final = re.compile(rb"-?\d{1,20}")
_PLACE: Final = re.compile(r"(\D*)(\d+)(.*)", re.DOTALL)
#: Times the ranks that a communicator can have it still fits into a column [B].
_LARGEST_BUFFER: Final = LARGEST // MOST_RANKS
#: Requests of one call, and those that all calls of a rank are looked through for.
_MOST_REQUESTS: Final = 1 << 30
_MOST_LOOKED_AT: Final = 1 << 26
#: MPI_PROC_NULL of Open MPI; MPICH's is -1, which cannot be told from any source of a receive.
_NOBODY: Final = -2
#: Where the arguments of a call stand: count, data type, partner, tag, communicator, and the request where there is one.
_MESSAGE: Final = (3, 4, 5, 6, 7, 8)
_BOTH: Final = {"sendrecv": ((3, 4, 5, 6, 12), (8, 9, 10, 11, 12)), "sendrecv_replace": ((3, 4, 5, 6, 9), (3, 4, 7, 8, 9))}
#: The same of collectives with one count: count, data type, root, communicator.
_OF_ALL: Final = (4, 5, None, 7)
_ONE: Final = {"bcast": (3, 4, 5, 6), "reduce": (4, 5, 7, 8), **dict.fromkeys(("allreduce", "scan", "exscan"), _OF_ALL)}
#: And of those with two: counts, data types, root, communicator.
_TWO: Final = {
    **dict.fromkeys(("gather", "scatter"), (3, 4, 6, 7, 8, 9)),
    **dict.fromkeys(("allgather", "alltoall"), (3, 4, 6, 7, None, 8)),
}
#: Waits by the place of the first request, and of how many there are.
_WAITS: Final = {"wait": (2, None), "start": (2, None), "waitall": (3, 2), "startall": (3, 2)}


def sniff(head: bytes, path: Path) -> bool:
    """Whether the file begins as such a trace does, packed or not."""
    return beginning(head, path, 64).startswith(_HEADS)


def read(path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None) -> Trace:
    """Read the files of all ranks; `path` is one of them.

    Raises
    ------
    ProfileError : P018 times too far apart, P020 the file of a rank is not there, P022 files that do not belong together, P024 a line that
        cannot be read.
    """
    del threads
    first = _rank_file(path, progress)
    files = _beside(path, first)
    each = [first if place == path else _rank_file(place, None) for place in files]
    for rank, (place, one) in enumerate(zip(files, each, strict=True)):
        if one.ranks != len(files) or one.rank != rank:
            raise ProfileError(
                "P022", "the files of the recording do not belong together", where=str(path),
                found=f"{place.name} is of rank {one.rank} of {one.ranks}", cause="files of several runs stand in one folder",
                fix="keep each run in a folder of its own",
            )  # fmt: skip
    return _assembled(path, files, each)


# --- one file ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Line:
    """A call: its number in the file, its name, begin and end on the rank's clock [ns], and its fields."""

    number: int
    name: str
    start: int
    end: int
    fields: list[bytes]


@dataclass
class _File:
    """What one file holds."""

    where: str
    lines: list[_Line] = field(default_factory=list)
    differences: list[tuple[int, float]] = field(default_factory=list)
    rank: int = -1
    ranks: int = 0
    comments: int = 0
    tracer: str = ""
    digest: str = ""
    size_bytes: int = 0


def _rank_file(path: Path, progress: Callable[[float], object] | None) -> _File:
    text = Text(path, progress)
    out = _File(str(path))
    waiting: list[float] = []
    for number, raw in enumerate(text, 1):
        line = raw.strip()
        if not line:
            continue
        if line.startswith(b"#"):
            out.comments += 1
            if not out.tracer and (made := _TRACER.match(line)):
                out.tracer = b" ".join(part for part in made.groups() if part).decode()
            if said := _DIFFERENCE.match(line):
                if len(said[1]) > 24:
                    raise _bad(out.where, number, line, "a difference of clocks that cannot be")
                waiting.append(float(said[1]))
            continue
        call = _call(out.where, number, line)
        out.lines.append(call)
        # a difference is of the time of the next call, the first of the first call's end
        out.differences += [(call.end if not out.differences else call.start, d) for d in waiting]
        waiting.clear()
        comm = _world(call)
        if comm is not None and comm[1] > out.ranks:
            out.rank, out.ranks = comm
    out.digest, out.size_bytes = text.digest, text.size_bytes
    if not 1 <= out.ranks <= MOST_RANKS:
        raise ProfileError(
            "P024", "the text trace cannot be read", where=str(path), found="no call that names a communicator",
            cause="the file is cut off, or of a program that makes no MPI call", fix="record the run again",
        )  # fmt: skip
    return out


def _call(where: str, number: int, line: bytes) -> _Line:
    fields = line.split(b":")
    name = fields[0].decode("ascii", "replace")
    if not operation(name) or len(fields) < 3:
        raise _bad(where, number, line, "a line is MPI_Name:begin:arguments:end")
    begin, end = (_ns(word) for word in (fields[1], fields[-1]))
    # the tracer writes a dash where MPI's clock is not there yet, or no more
    if begin is None and fields[1] == b"-":
        begin = end
    if end is None and fields[-1] == b"-":
        end = begin
    if begin is None or end is None or end < begin:
        raise _bad(where, number, line, "begin and end are microseconds, the end no earlier")
    return _Line(number, name, begin, end, fields)


def _ns(word: bytes) -> int | None:
    """Microseconds with or without a fraction as whole nanoseconds."""
    whole, _, part = word.partition(b".")
    if not whole.isdigit() or len(whole) > 17 or not (part.isdigit() or not part):
        return None
    return int(whole) * 1000 + int((part + b"000")[:3])


def _bad(where: str, number: int, line: bytes, cause: str) -> ProfileError:
    return ProfileError(
        "P024", "the text trace cannot be read", where=f"{where}:{number}", found=clipped(line.decode("utf-8", "replace")), cause=cause,
        fix="copy the file again from where it was recorded; a run that was killed has a last line that is cut off",
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _triple(word: bytes) -> tuple[int, int, int] | None:
    parts = word.split(b",")
    if len(parts) != 3 or not all(map(_WHOLE.fullmatch, parts)):
        return None
    a, b, c = (int(p) for p in parts)
    return a, b, c


def _world(call: _Line) -> tuple[int, int] | None:
    """Rank and size of the communicator that a call of MPI_Comm_rank, MPI_Comm_size or MPI_Barrier names."""
    if operation(call.name) not in ("comm_rank", "comm_size", "barrier") or len(call.fields) < 4:
        return None
    comm = _triple(call.fields[2])
    return (comm[1], comm[2]) if comm is not None and 0 <= comm[1] < comm[2] else None


def _beside(path: Path, first: _File) -> list[Path]:
    """The files of all ranks, by the last number in the name."""
    parts = _PLACE.fullmatch(path.name[::-1])
    stem, digits, tail = (parts[3][::-1], parts[2][::-1], parts[1][::-1]) if parts else (path.name, "", "")
    out = []
    for rank in range(first.ranks):
        names = dict.fromkeys((f"{stem}{rank:0{len(digits)}d}{tail}", f"{stem}{rank}{tail}"))
        found = path if rank == first.rank else next((path.parent / n for n in names if (path.parent / n).is_file()), None)
        if found is None:
            raise ProfileError(
                "P020", "the file of a rank is not there", where=str(path), found=f"no {clipped(next(iter(names)))}",
                cause=f"the recording is of {first.ranks} ranks, one file each", fix="copy the files of all ranks into one folder",
            )  # fmt: skip
        out.append(found)
    return out


# --- all files --------------------------------------------------------------------------------------------------------


def _shift(one: _File, time: int) -> int:
    """What a rank's clock lacks to that of rank 0 [ns]: what was measured at the begin and at the end, and the line between."""
    if not one.differences:
        return 0
    (t0, d0), (t1, d1) = one.differences[0], one.differences[-1]
    share = 0.0 if t1 <= t0 else min(max((time - t0) / (t1 - t0), 0.0), 1.0)
    return round(1000 * (d0 + share * (d1 - d0)))


class _Rank:
    """The calls of one rank as rows."""

    def __init__(self, rank: int, one: _File, base: int, calls: Calls, names: Names, flaws: Counter[str]) -> None:
        self.rank, self.one, self.base, self.calls, self.names, self.flaws = rank, one, base, calls, names, flaws
        #: requests that a wait or a start can name, and those that stay when they are complete
        self.pending: set[int] = set()
        self.lasting: set[int] = set()
        self.looked_at = 0
        #: handle -> number of the communicator, time of its first use, rank inside, size
        self.comms: dict[int, tuple[int, int, int, int]] = {}
        self.line = one.lines[0]

    def at(self, time: int) -> int:
        return min(max(time + _shift(self.one, time) - self.base, 0), LARGEST_NS)

    def word(self, place: int) -> bytes:
        if place >= len(self.line.fields) - 1:
            raise self.wrong("the call has fewer arguments than it should")
        return self.line.fields[place]

    def whole(self, place: int) -> int:
        word = self.word(place)
        if not _WHOLE.fullmatch(word):
            raise self.wrong(f"argument {place - 1} is no whole number")
        number = int(word)
        if abs(number) >= LARGEST:
            raise self.wrong(f"argument {place - 1} is beyond what is counted in")
        return number

    def wrong(self, cause: str) -> ProfileError:
        return _bad(self.one.where, self.line.number, b":".join(self.line.fields), cause)

    def sized(self, count: int, kind: int) -> int:
        """Bytes of a buffer: count times size of the data type."""
        known = _triple(self.word(kind))
        if known is None:
            raise self.wrong(f"argument {kind - 1} is no data type with its size and extent")
        size = self.whole(count) * known[1]
        if not 0 <= size < _LARGEST_BUFFER:
            raise self.wrong("a buffer of a size that cannot be")
        return size

    def communicator(self, place: int) -> int:
        """Number of a communicator of this rank."""
        comm = _triple(self.word(place))
        if comm is None or not 0 <= comm[1] < comm[2] <= MOST_RANKS:
            raise self.wrong(f"argument {place - 1} is no communicator with its rank and size")
        known = self.comms.get(comm[0])
        if known is None or known[2:] != comm[1:]:
            # numbers are of this rank; the first is 1
            known = (len(self.comms) + 1, self.at(self.line.start), comm[1], comm[2])
            self.comms[comm[0]] = known
        return known[0]

    def add(self, line: _Line) -> None:
        """A call as its rows."""
        self.line = line
        does = operation(line.name)
        sort = sort_of(does.removesuffix("_init"))
        start, end, name = self.at(line.start), self.at(line.end), self.names(line.name)
        if sort in ("send", "receive"):
            self.message(does, start, end, name)
        elif does in _BOTH:
            self.both(does, start, end, name)
        elif does in _WAITS:
            for request in self.requests(*_WAITS[does]):
                self.calls.add(self.rank, start, end, REQUEST, name, request=request)
                if not does.startswith("start") and request not in self.lasting:
                    self.pending.discard(request)
        elif sort == "wait":
            self.flaws["unnamed"] += 1
            self.calls.add(self.rank, start, end, REQUEST, name)
        elif sort == "collective" and not does.startswith("i"):
            self.collective(does, start, end, name)
        else:
            self.flaws["beside"] += sort == "collective"
            self.calls.add(self.rank, start, end, OTHER, name)

    def message(self, does: str, start: int, end: int, name: int) -> None:
        count, kind, partner, tag, comm, request = _MESSAGE
        whom = self.whole(partner)
        held = NO
        if does.startswith("i") or does.endswith("_init"):
            held = self.whole(request)
            self.pending.add(held)
            (self.lasting.add if does.endswith("_init") else self.lasting.discard)(held)
        self.row(start, end, name, self.sized(count, kind), whom, self.whole(tag), self.communicator(comm), held)

    def both(self, does: str, start: int, end: int, name: int) -> None:
        """A Sendrecv: the half that sends has no length, the half that receives has the call's."""
        for half, (count, kind, partner, tag, comm) in enumerate(_BOTH[does]):
            size, whom, last = self.sized(count, kind), self.whole(partner), end if half else start
            self.row(start, last, name, size, whom, self.whole(tag), self.communicator(comm), NO)

    def row(self, start: int, end: int, name: int, size: int, whom: int, tag: int, comm: int, request: int) -> None:
        partner, tag = (NO if whom <= _NOBODY else whom), (tag if tag >= 0 else NO)
        self.flaws["nobody"] += whom <= _NOBODY
        held = {"size": size, "partner": partner, "tag": tag, "communicator": comm, "request": request}
        self.calls.add(self.rank, start, end, MESSAGE, name, **held)

    def requests(self, place: int, count: int | None) -> list[int]:
        """Addresses of the open requests of a wait: one, or those that lie at equal distances, 4 bytes (Fortran) or 8 (C)."""
        first, many = self.whole(place), 1 if count is None else self.whole(count)
        # a count is only a number in the file: it may not cost more than the requests that there are
        self.looked_at += min(max(many, 0), len(self.pending))
        if not 0 <= many <= _MOST_REQUESTS or self.looked_at > _MOST_LOOKED_AT:
            raise self.wrong("a number of requests that cannot be")
        known = []
        for width in (4, 8):
            every = range(first, first + width * many, width)
            known.append(
                [r for r in every if r in self.pending] if many <= len(self.pending) else sorted(r for r in self.pending if r in every)
            )
        return max(known, key=len) or [NO]

    def collective(self, does: str, start: int, end: int, name: int) -> None:
        last = len(self.line.fields) - 2
        root, sent, received = None, NO, NO
        if does == "barrier":
            comm, sent, received = 2, 0, 0
        elif does in _ONE:
            count, kind, root, comm = _ONE[does]
            sent = received = self.sized(count, kind)
        elif does in _TWO:
            count, kind, other_count, other, root, comm = _TWO[does]
            sent, received = self.sized(count, kind), self.sized(other_count, other)
        else:
            # counts for each rank: the tracer writes an address, and in later versions the counts behind it
            comm, root = last, last - 1 if does in ROOTED else None
            if does in ("gatherv", "allgatherv"):
                sent = self.sized(3, 4)
            elif does == "scatterv":
                received = self.sized(root - 2, root - 1) if root is not None else NO
            self.flaws["unsized"] += sent == NO and received == NO
        members = _triple(self.word(comm))
        number = self.communicator(comm)
        at_root = root is not None and members is not None and self.whole(root) == members[1]
        if NO not in (sent, received) and members is not None:
            sent, received = carried(does, sent, received, members[2], at_root)
        of = NO if root is None else self.whole(root)
        self.calls.add(self.rank, start, end, COLLECTIVE, name, size=sent, received=received, communicator=number, root=of)


def _communicators(ranks: list[_Rank], world: int) -> pl.DataFrame:
    """The communicators of all ranks: the first of all ranks in their order is the world, the others are its children."""
    rows: dict[str, list[int | None]] = {name: [] for name in dtypes("mpi_communicators")}
    for one in ranks:
        used = sorted(one.comms.values())
        top = next((c[0] for c in used if c[2:] == (one.rank, world)), None)
        for number, time, inside, size in used:
            first = number == top
            values = {"rank": one.rank, "communicator": number, "local_rank": inside, "size": size}
            made = {"time_ns": 0 if first else time, "parent": None if first else top}
            for name, column in rows.items():
                column.append(made[name] if name in made else values.get(name))
    return pl.DataFrame(rows, schema=dtypes("mpi_communicators")).sort("time_ns", "rank", "communicator")


def _assembled(path: Path, files: list[Path], each: list[_File]) -> Trace:
    names, calls, flaws = Names(), Calls(), Counter[str]()
    # a time of 0 would be none
    base = min(line.start + _shift(one, line.start) for one in each for line in one.lines) - 1
    if max(line.end + _shift(one, line.end) for one in each for line in one.lines) - base > LARGEST_NS:
        raise ProfileError(
            "P018", "the clocks of the ranks cannot be aligned", where=str(path), found="times that lie more than 104 days apart",
            cause="a clock was set anew, or a line is damaged", fix="look at the times of the first and last call of each file",
        )  # fmt: skip
    ranks = [_Rank(rank, one, base, calls, names, flaws) for rank, one in enumerate(each)]
    for one in ranks:
        for line in one.one.lines:
            one.add(line)
    table = calls.table()
    tables = {"mpi": table, "mpi_ranks": ranks_table(len(ranks)), "mpi_communicators": _communicators(ranks, len(ranks))}
    moved = [max((abs(d) for _, d in one.differences), default=0.0) for one in each]
    found = [
        finding("P119", sum(one.comments > 1 for one in each), "comments of the files"),
        finding("P123", 1),
        finding("P130", 1),
        finding("P141", flaws["nobody"], "partner MPI_PROC_NULL"),
        finding("P148", flaws["beside"], "non-blocking collectives"),
        finding("A351", flaws["unsized"], "counts for each rank, of which an address was written"),
        finding("P150", flaws["unnamed"], "of one of several requests: they complete nothing"),
        finding("P152", sum(m > 0 for m in moved), f"by up to {max(moved):.3g} us"),
    ]
    whole = hashlib.sha256("".join(one.digest for one in each).encode()).hexdigest() if len(each) > 1 else each[0].digest
    facts: dict[str, Any] = {
        "format": "pmpi", "product_version": each[0].tracer or None, "schema_version": None, "analysis_duration_ns": None,
        "session_start_utc_ns": None,
        "tables": {place.name: len(one.lines) for place, one in zip(files, each, strict=True)},
        "size_bytes": sum(one.size_bytes for one in each), "sha256": whole,
    }  # fmt: skip
    return Trace(tables, names.series(), facts, [f for f in found if f.count], path.name)
