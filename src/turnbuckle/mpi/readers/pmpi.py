"""Reader of text traces of liballprof (earlier collprof): the calls of each rank with their
arguments, one file per rank.

A line is ``MPI_Name:begin:arguments:end``.  Times are in microseconds; a communicator is written as
handle, rank and size, a data type as number, size and extent.  The tracer measures the offset of
each clock at the begin and at the end; times are corrected by the straight line between both.
Handles are local to a rank.  A communicator with as many ranks as there are files, in the order of
the world, is the world or a copy of it.
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

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.foundation.findings import finding
from turnbuckle.trace.readers.parts import mpi_tables as mpi
from turnbuckle.trace.readers.parts.packed_text import Text, beginning
from turnbuckle.trace.trace import Trace, dtypes

CACHED = False
"""No result is cached, because the files of other ranks may change while the named one does not."""
_HEADS: Final = (b"# collprof", b"# liballprof", b"# htor's PMPI Tracer")
_TRACER: Final = re.compile(rb"#\s*(collprof|liballprof2?)(?:\s+(\d[\w.]{0,12}))?")
_DIFFERENCE: Final = re.compile(rb"#.*\bclockdiff:\s*(-?\d+(?:\.\d+)?)")
_WHOLE: Final = re.compile(rb"-?\d{1,20}")
_PLACE: Final = re.compile(r"(\D*)(\d+)(.*)", re.DOTALL)
#: Largest buffer; its product with the largest number of ranks still fits into a column [B].
_LARGEST_BUFFER: Final = mpi.LARGEST // mpi.MOST_RANKS
#: Largest number of requests of one call, and of requests that all calls of a rank may search.
_MOST_REQUESTS: Final = 1 << 30
_MOST_LOOKED_AT: Final = 1 << 26
#: MPI_PROC_NULL of Open MPI; MPICH's is -1, which is indistinguishable from a receive from any
#: source.
_NOBODY: Final = -2
#: Positions of the arguments of a call: count, data type, partner, tag, communicator, and the
#: request where there is one.
_MESSAGE: Final = (3, 4, 5, 6, 7, 8)
_BOTH: Final = {
    "sendrecv": ((3, 4, 5, 6, 12), (8, 9, 10, 11, 12)),
    "sendrecv_replace": ((3, 4, 5, 6, 9), (3, 4, 7, 8, 9)),
}
#: Positions of the arguments of collectives with one count: count, data type, root, communicator.
_OF_ALL: Final = (4, 5, None, 7)
_ONE: Final = {
    "bcast": (3, 4, 5, 6),
    "reduce": (4, 5, 7, 8),
    **dict.fromkeys(("allreduce", "scan", "exscan"), _OF_ALL),
}
#: Positions of the arguments of collectives with two counts: counts, data types, root,
#: communicator.
_TWO: Final = {
    **dict.fromkeys(("gather", "scatter"), (3, 4, 6, 7, 8, 9)),
    **dict.fromkeys(("allgather", "alltoall"), (3, 4, 6, 7, None, 8)),
}
#: Positions of a wait's first request and of the number of its requests.
_WAITS: Final = {"wait": (2, None), "start": (2, None), "waitall": (3, 2), "startall": (3, 2)}


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the file begins like such a trace, packed or not."""
    return beginning(head, path, 64).startswith(_HEADS)


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read the files of all ranks; `path` is one of them.

    Raises P018, times too far apart; P020, the file of a rank is missing; P022, files that do not
    belong together; P024, a line that cannot be read.
    """
    del threads
    first = _rank_file(path, progress)
    files = _beside(path, first)
    each = [first if place == path else _rank_file(place, None) for place in files]
    for rank, (place, rank_file) in enumerate(zip(files, each, strict=True)):
        if rank_file.ranks != len(files) or rank_file.rank != rank:
            raise error_of(
                "P022.recording",
                where=str(path),
                found=f"{place.name} is of rank {rank_file.rank} of {rank_file.ranks}",
            )
    return _assembled(path, files, each)


# --- one file -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Line:
    """Call as written: its line number, its name, begin and end on the rank's clock [ns], and its
    fields.
    """

    number: int
    name: str
    start: int
    end: int
    fields: list[bytes]


@dataclass
class _File:
    """Parsed file of one rank."""

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
            if not out.tracer and (tracer := _TRACER.match(line)):
                out.tracer = b" ".join(part for part in tracer.groups() if part).decode()
            if difference := _DIFFERENCE.match(line):
                if len(difference[1]) > 24:
                    raise _bad(out.where, number, line, "a difference of clocks that cannot be")
                waiting.append(float(difference[1]))
            continue
        call = _call(out.where, number, line)
        out.lines.append(call)
        # A difference holds at the begin of the next call; the first one holds at the end of the
        # first call.
        out.differences += [(call.end if not out.differences else call.start, d) for d in waiting]
        waiting.clear()
        comm = _world(call)
        if comm is not None and comm[1] > out.ranks:
            out.rank, out.ranks = comm
    out.digest, out.size_bytes = text.digest, text.size_bytes
    if not 1 <= out.ranks <= mpi.MOST_RANKS:
        raise error_of("P024.empty", where=str(path), found="no call that names a communicator")
    return out


def _call(where: str, number: int, line: bytes) -> _Line:
    """Parse one line."""
    fields = line.split(b":")
    name = fields[0].decode("ascii", "replace")
    if not mpi.operation(name) or len(fields) < 3:
        raise _bad(where, number, line, "a line is MPI_Name:begin:arguments:end")
    begin, end = (_ns(word) for word in (fields[1], fields[-1]))
    # The tracer writes a dash before MPI's clock runs, and after it has stopped.
    if begin is None and fields[1] == b"-":
        begin = end
    if end is None and fields[-1] == b"-":
        end = begin
    if begin is None or end is None or end < begin:
        raise _bad(where, number, line, "begin and end are microseconds, the end no earlier")
    return _Line(number, name, begin, end, fields)


def _ns(word: bytes) -> int | None:
    """Return microseconds, with or without a fraction, as whole nanoseconds."""
    whole, _, part = word.partition(b".")
    if not whole.isdigit() or len(whole) > 17 or not (part.isdigit() or not part):
        return None
    return int(whole) * 1000 + int((part + b"000")[:3])


def _bad(where: str, number: int, line: bytes, cause: str) -> TurnbuckleError:
    return error_of(
        "P024.line",
        where=f"{where}:{number}",
        found=clipped(line.decode("utf-8", "replace")),
        cause=cause,
    )


@lru_cache(maxsize=4096)
def _triple(word: bytes) -> tuple[int, int, int] | None:
    parts = word.split(b",")
    if len(parts) != 3 or not all(map(_WHOLE.fullmatch, parts)):
        return None
    a, b, c = (int(p) for p in parts)
    return a, b, c


def _world(call: _Line) -> tuple[int, int] | None:
    """Return rank and size of the communicator that a call of MPI_Comm_rank, MPI_Comm_size or
    MPI_Barrier names.
    """
    if (
        mpi.operation(call.name) not in ("comm_rank", "comm_size", "barrier")
        or len(call.fields) < 4
    ):
        return None
    comm = _triple(call.fields[2])
    return (comm[1], comm[2]) if comm is not None and 0 <= comm[1] < comm[2] else None


def _beside(path: Path, first: _File) -> list[Path]:
    """Return the files of all ranks, by the last number in the name."""
    parts = _PLACE.fullmatch(path.name[::-1])
    stem, digits, tail = (
        (parts[3][::-1], parts[2][::-1], parts[1][::-1]) if parts else (path.name, "", "")
    )
    out = []
    for rank in range(first.ranks):
        names = dict.fromkeys((f"{stem}{rank:0{len(digits)}d}{tail}", f"{stem}{rank}{tail}"))
        file = (
            path
            if rank == first.rank
            else next((path.parent / n for n in names if (path.parent / n).is_file()), None)
        )
        if file is None:
            raise error_of(
                "P020.rank",
                where=str(path),
                found=f"no {clipped(next(iter(names)))}",
                ranks=first.ranks,
            )
        out.append(file)
    return out


# --- all files ------------------------------------------------------------------------------------


def _shift(rank_file: _File, time: int) -> int:
    """Return the offset of a rank's clock to that of rank 0 [ns], interpolated between the
    measurements at the begin and at the end.
    """
    if not rank_file.differences:
        return 0
    (t0, d0), (t1, d1) = rank_file.differences[0], rank_file.differences[-1]
    share = 0.0 if t1 <= t0 else min(max((time - t0) / (t1 - t0), 0.0), 1.0)
    return round(1000 * (d0 + share * (d1 - d0)))


class _Rank:
    """Builder of the rows of one rank's calls."""

    def __init__(
        self,
        rank: int,
        file: _File,
        base: int,
        calls: mpi.Calls,
        names: mpi.Names,
        flaws: Counter[str],
    ) -> None:
        self.rank, self.file, self.base, self.calls, self.names, self.flaws = (
            rank,
            file,
            base,
            calls,
            names,
            flaws,
        )
        #: requests that a wait or a start can name, and the persistent ones among them
        self.pending: set[int] = set()
        self.lasting: set[int] = set()
        self.looked_at = 0
        #: number of each handle's communicator, time of its first use, rank inside, size
        self.comms: dict[int, tuple[int, int, int, int]] = {}
        self.line = file.lines[0]

    def aligned(self, time: int) -> int:
        """Return a time on the common clock [ns]."""
        return min(max(time + _shift(self.file, time) - self.base, 0), mpi.LARGEST_NS)

    def word(self, place: int) -> bytes:
        """Return the argument at a position."""
        if place >= len(self.line.fields) - 1:
            raise self.wrong("the call has fewer arguments than it should")
        return self.line.fields[place]

    def whole(self, place: int) -> int:
        """Return the argument at a position as a whole number."""
        word = self.word(place)
        if not _WHOLE.fullmatch(word):
            raise self.wrong(f"argument {place - 1} is no whole number")
        number = int(word)
        if abs(number) >= mpi.LARGEST:
            raise self.wrong(f"argument {place - 1} is beyond what is counted in")
        return number

    def wrong(self, cause: str) -> TurnbuckleError:
        return _bad(self.file.where, self.line.number, b":".join(self.line.fields), cause)

    def sized(self, count: int, kind: int) -> int:
        """Return the bytes of a buffer: count times size of the data type."""
        data_type = _triple(self.word(kind))
        if data_type is None:
            raise self.wrong(f"argument {kind - 1} is no data type with its size and extent")
        size = self.whole(count) * data_type[1]
        if not 0 <= size < _LARGEST_BUFFER:
            raise self.wrong("a buffer of a size that cannot be")
        return size

    def communicator(self, place: int) -> int:
        """Return the number of a communicator on this rank."""
        comm = _triple(self.word(place))
        if comm is None or not 0 <= comm[1] < comm[2] <= mpi.MOST_RANKS:
            raise self.wrong(f"argument {place - 1} is no communicator with its rank and size")
        entry = self.comms.get(comm[0])
        if entry is None or entry[2:] != comm[1:]:
            entry = (len(self.comms) + 1, self.aligned(self.line.start), comm[1], comm[2])
            self.comms[comm[0]] = entry
        return entry[0]

    def add(self, line: _Line) -> None:
        """Add the rows of a call."""
        self.line = line
        does = mpi.operation(line.name)
        sort = mpi.sort_of(does.removesuffix("_init"))
        start, end, name = self.aligned(line.start), self.aligned(line.end), self.names(line.name)
        if sort in ("send", "receive"):
            self.message(does, start, end, name)
        elif does in _BOTH:
            self.both(does, start, end, name)
        elif does in _WAITS:
            for request in self.requests(*_WAITS[does]):
                self.calls.add(self.rank, start, end, mpi.REQUEST, name, request=request)
                if not does.startswith("start") and request not in self.lasting:
                    self.pending.discard(request)
        elif sort == "wait":
            self.flaws["unnamed"] += 1
            self.calls.add(self.rank, start, end, mpi.REQUEST, name)
        elif sort == "collective" and not does.startswith("i"):
            self.collective(does, start, end, name)
        else:
            self.flaws["beside"] += sort == "collective"
            self.calls.add(self.rank, start, end, mpi.OTHER, name)

    def message(self, does: str, start: int, end: int, name: int) -> None:
        count, kind, partner, tag, comm, request = _MESSAGE
        whom = self.whole(partner)
        request_handle = mpi.NO
        if does.startswith("i") or does.endswith("_init"):
            request_handle = self.whole(request)
            self.pending.add(request_handle)
            (self.lasting.add if does.endswith("_init") else self.lasting.discard)(request_handle)
        self.row(
            start,
            end,
            name,
            self.sized(count, kind),
            whom,
            self.whole(tag),
            self.communicator(comm),
            request_handle,
        )

    def both(self, does: str, start: int, end: int, name: int) -> None:
        """Add the rows of a Sendrecv: the send has no duration, the receive has the call's."""
        for half, (count, kind, partner, tag, comm) in enumerate(_BOTH[does]):
            size, whom, last = self.sized(count, kind), self.whole(partner), end if half else start
            self.row(
                start, last, name, size, whom, self.whole(tag), self.communicator(comm), mpi.NO
            )

    def row(
        self,
        start: int,
        end: int,
        name: int,
        size: int,
        whom: int,
        tag: int,
        comm: int,
        request: int,
    ) -> None:
        partner, tag = (mpi.NO if whom <= _NOBODY else whom), (tag if tag >= 0 else mpi.NO)
        self.flaws["nobody"] += whom <= _NOBODY
        columns = {
            "size": size,
            "partner": partner,
            "tag": tag,
            "communicator": comm,
            "request": request,
        }
        self.calls.add(self.rank, start, end, mpi.MESSAGE, name, **columns)

    def requests(self, place: int, count: int | None) -> list[int]:
        """Return the addresses of the open requests of a wait: one, or those at equal distances of
        4 bytes (Fortran) or 8 bytes (C).
        """
        first, many = self.whole(place), 1 if count is None else self.whole(count)
        # A false count in the file must not cost more than the search through the open requests.
        self.looked_at += min(max(many, 0), len(self.pending))
        if not 0 <= many <= _MOST_REQUESTS or self.looked_at > _MOST_LOOKED_AT:
            raise self.wrong("a number of requests that cannot be")
        candidates = []
        for width in (4, 8):
            addresses = range(first, first + width * many, width)
            candidates.append(
                [r for r in addresses if r in self.pending]
                if many <= len(self.pending)
                else sorted(r for r in self.pending if r in addresses)
            )
        return max(candidates, key=len) or [mpi.NO]

    def collective(self, does: str, start: int, end: int, name: int) -> None:
        last = len(self.line.fields) - 2
        root, sent, received = None, mpi.NO, mpi.NO
        if does == "barrier":
            comm, sent, received = 2, 0, 0
        elif does in _ONE:
            count, kind, root, comm = _ONE[does]
            sent = received = self.sized(count, kind)
        elif does in _TWO:
            count, kind, other_count, other, root, comm = _TWO[does]
            sent, received = self.sized(count, kind), self.sized(other_count, other)
        else:
            # For counts per rank the tracer writes an address, and in later versions the counts
            # behind it.
            comm, root = last, last - 1 if does in mpi.ROOTED else None
            if does in ("gatherv", "allgatherv"):
                sent = self.sized(3, 4)
            elif does == "scatterv":
                received = self.sized(root - 2, root - 1) if root is not None else mpi.NO
            self.flaws["unsized"] += sent == mpi.NO and received == mpi.NO
        members = _triple(self.word(comm))
        number = self.communicator(comm)
        at_root = root is not None and members is not None and self.whole(root) == members[1]
        if mpi.NO not in (sent, received) and members is not None:
            sent, received = mpi.carried(does, sent, received, members[2], at_root)
        of = mpi.NO if root is None else self.whole(root)
        self.calls.add(
            self.rank,
            start,
            end,
            mpi.COLLECTIVE,
            name,
            size=sent,
            received=received,
            communicator=number,
            root=of,
        )


def _communicators(ranks: list[_Rank], world: int) -> pl.DataFrame:
    """Return the communicators of all ranks: the first one with all ranks in order is the world,
    the others are its children.
    """
    rows: dict[str, list[int | None]] = {name: [] for name in dtypes("mpi_communicators")}
    for rank in ranks:
        used = sorted(rank.comms.values())
        world_number = next((c[0] for c in used if c[2:] == (rank.rank, world)), None)
        for number, time, local_rank, size in used:
            first = number == world_number
            values = {
                "rank": rank.rank,
                "communicator": number,
                "local_rank": local_rank,
                "size": size,
            }
            origin = {"time_ns": 0 if first else time, "parent": None if first else world_number}
            for name, column in rows.items():
                column.append(origin[name] if name in origin else values.get(name))
    return pl.DataFrame(rows, schema=dtypes("mpi_communicators")).sort(
        "time_ns", "rank", "communicator"
    )


def _assembled(path: Path, files: list[Path], each: list[_File]) -> Trace:
    """Build the trace with all its tables and findings."""
    names, calls, flaws = mpi.Names(), mpi.Calls(), Counter[str]()
    # A time of 0 would stand for a missing time.
    base = min(line.start + _shift(file, line.start) for file in each for line in file.lines) - 1
    if (
        max(line.end + _shift(file, line.end) for file in each for line in file.lines) - base
        > mpi.LARGEST_NS
    ):
        raise error_of(
            "P018.pmpi", where=str(path), found="times that lie more than 104 days apart"
        )
    ranks = [_Rank(number, file, base, calls, names, flaws) for number, file in enumerate(each)]
    for rank in ranks:
        for line in rank.file.lines:
            rank.add(line)
    table = calls.table()
    tables = {
        "mpi": table,
        "mpi_ranks": mpi.ranks_table(len(ranks)),
        "mpi_communicators": _communicators(ranks, len(ranks)),
    }
    moved = [max((abs(d) for _, d in file.differences), default=0.0) for file in each]
    findings = [
        finding("P119", sum(file.comments > 1 for file in each), "comments of the files"),
        finding("P123", 1),
        finding("P130", 1),
        finding("P141", flaws["nobody"], "partner MPI_PROC_NULL"),
        finding("P148", flaws["beside"], "non-blocking collectives"),
        finding("A351", flaws["unsized"], "counts for each rank, of which an address was written"),
        finding("P150", flaws["unnamed"], "of one of several requests: they complete nothing"),
        finding("P152", sum(m > 0 for m in moved), f"by up to {max(moved):.3g} us"),
    ]
    whole = (
        hashlib.sha256("".join(file.digest for file in each).encode()).hexdigest()
        if len(each) > 1
        else each[0].digest
    )
    facts: dict[str, Any] = {"format": "pmpi", "product_version": each[0].tracer or None}
    facts |= dict.fromkeys(("schema_version", "analysis_duration_ns", "session_start_utc_ns"))
    facts["tables"] = {place.name: len(file.lines) for place, file in zip(files, each, strict=True)}
    facts |= {"size_bytes": sum(file.size_bytes for file in each), "sha256": whole}
    return Trace(tables, names.series(), facts, [f for f in findings if f.count], path.name)
