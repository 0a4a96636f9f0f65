"""Reader of DUMPI traces of the SST suite: one binary file per rank, ``X-0000.bin`` and so on, and
``X.meta`` with their number.

DUMPI records all arguments of an MPI call: partner, tag, count, type, communicator, request,
statuses.  Handles of communicators, groups and types are numbers of one process.  Communicators are
identified across ranks: the k-th one created from a communicator on one member is the k-th on all.
The source of a wildcard receive is in the status of the receive or of its wait, unless the program
passed none.
"""

from __future__ import annotations

import hashlib
import re
import struct
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.foundation.files import opened
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.mpi.readers.dumpi.clocks import Shifts, shifts
from turnbuckle.mpi.readers.dumpi.groups import Making, communicators, group_made, type_made
from turnbuckle.mpi.readers.dumpi.layouts import CALLS, END, ENTER, Record, Unreadable, record
from turnbuckle.trace.ids import rank_of
from turnbuckle.trace.readers.parts import mpi_tables as mpi
from turnbuckle.trace.trace import Trace

CACHED = False
"""No result is cached, because other files of the set may change while the named one does not."""
MAGIC: Final = b"\xff\xaa\xddDUMPI"
_INDEX: Final = struct.Struct(">8s7Q")
_FILE: Final = re.compile(r"(.+)-(\d{1,8})\.bin")
_WORLD, _SELF = 2, 3
_OLDEST: Final = (0, 7)


def sniff(head: bytes, path: Path) -> bool:
    """Return whether the file is one rank's file of a DUMPI trace, or the list of the files."""
    return head.startswith(MAGIC) or (path.suffix.lower() == ".meta" and b"numprocs=" in head)


def read(
    path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None
) -> Trace:
    """Read a whole set; `path` is its ``.meta`` or one of its ``.bin`` files.  Raises
    `ProfileError` (P007, P032 to P034).
    """
    del threads
    files = _files(path)
    ranks, digest, size = [], hashlib.sha256(), 0
    for number, file in enumerate(files):
        rank = _Rank(number, file)
        with opened(file) as handle:
            # The magic bytes are checked before everything is read; the file is not mapped, because
            # truncation would raise SIGBUS.
            data = handle.read(len(MAGIC))
            data += handle.read() if data == MAGIC else b""
        size += len(data)
        digest.update(data)
        rank.read(data)
        ranks.append(rank)
        if progress is not None:
            progress((number + 1) / len(files))
    return _Set(ranks).trace(path, digest.hexdigest(), size)


def _files(path: Path) -> list[Path]:
    match = _FILE.fullmatch(path.name)
    stem = match[1] if match else path.stem
    meta = path.parent / f"{stem}.meta"
    meta_fields: dict[str, str] = {}
    if meta.is_file():
        with opened(meta) as file:
            meta_fields = dict(
                line.split("=", 1)
                for line in file.read(1 << 16).decode("utf-8", "replace").splitlines()
                if "=" in line
            )
    file_of: dict[int, Path] = {}
    # The list may name the set by a path elsewhere, so only the last part of it counts.
    for prefix in dict.fromkeys((stem, Path(meta_fields.get("fileprefix", stem)).name)):
        for beside in path.parent.iterdir():
            parts = _FILE.fullmatch(beside.name)
            if not (parts and parts[1] == prefix and beside.is_file()):
                continue
            if (other := file_of.setdefault(int(parts[2]), beside)) != beside:
                raise _incomplete(
                    path,
                    (
                        f"two files of rank {int(parts[2])}: "
                        f"{' and '.join(sorted((other.name, beside.name)))}"
                    ),
                )
        if file_of:
            break
    text = meta_fields.get("numprocs", "").strip()
    count = int(text) if text.isdigit() and len(text) < 9 else max(file_of, default=-1) + 1
    missing = [n for n in range(min(count, len(file_of) + 4)) if n not in file_of]
    # A file beyond the listed number shows that the file or the list belongs to another run.
    if missing or len(file_of) != count or count > mpi.MOST_RANKS:
        raise _incomplete(
            path,
            f"{len(file_of)} of {count} files"
            + (f"; not there: {stem}-{missing[0]:04d}.bin" if missing else ""),
        )
    return [file_of[n] for n in range(count)]


def _incomplete(path: Path, evidence: str) -> TurnbuckleError:
    return error_of("P034", where=str(path), found=clipped(evidence, 160))


def _damaged(file: Path, evidence: str) -> TurnbuckleError:
    return error_of("P032", where=str(file), found=clipped(evidence, 120))


# --- one rank -------------------------------------------------------------------------------------


@dataclass
class _Rank:
    """Parsed file of one rank.

    Communicators in `calls` are the numbers of their creation on this rank: 0 for the world, 1 for
    the rank alone.
    """

    number: int
    file: Path
    calls: mpi.Calls = field(default_factory=mpi.Calls)
    names: mpi.Names = field(default_factory=mpi.Names)
    makings: list[Making] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    flaws: Counter[str] = field(default_factory=Counter)
    sizes: dict[int, int] = field(default_factory=dict)
    comms: dict[int, int] = field(default_factory=lambda: {_WORLD: 0, _SELF: 1})
    groups: dict[int, Any] = field(default_factory=dict)
    #: rank inside a communicator, where the program asked for it
    inside: dict[int, int] = field(default_factory=dict)
    #: open requests, and whether they are persistent
    pending: dict[int, bool] = field(default_factory=dict)
    #: rows of wildcard receives by their requests, until a status shows what they received
    wild: dict[int, int] = field(default_factory=dict)
    #: row, operation, bytes sent and received by one partner, root
    collectives: list[tuple[int, str, int, int, int]] = field(default_factory=list)
    version: tuple[int, int, int] = (0, 0, 0)
    started: int = 0
    offset: int = 0
    wraps: int = 0
    last_second: int = 0

    def read(self, data: Any) -> None:
        """Read the whole file."""
        end, offset = self._frame(data)
        finished = False
        while offset < end:
            try:
                entry = record(data, offset, end)
            except Unreadable as error:
                if "MPI_" in str(error) or "does not exist" in str(error):
                    raise self._unknown(
                        str(error), "a call or version of DUMPI that is not known here"
                    ) from None
                raise _damaged(self.file, str(error)) from None
            offset = entry.next
            if entry.number == END:
                finished = True
                break
            if entry.number >= ENTER:
                self.flaws["functions"] += 1
            else:
                self._call(entry)
        self.flaws["unfinished"] += not finished

    def _unknown(self, evidence: str, cause: str) -> TurnbuckleError:
        return error_of("P033", where=str(self.file), found=clipped(evidence, 120), cause=cause)

    def _frame(self, data: Any) -> tuple[int, int]:
        """Read version, start, clock and sizes of types, and return where the stream of calls ends
        and begins.
        """
        if len(data) < 8 + _INDEX.size or data[:8] != MAGIC:
            raise _damaged(
                self.file,
                ("no DUMPI file" if data else "an empty file")
                if data[:8] != MAGIC
                else f"{len(data)} bytes",
            )
        magic, sizes, _, _, header, body, footer, _ = _INDEX.unpack_from(
            data, len(data) - _INDEX.size
        )
        if magic != MAGIC:
            raise _damaged(self.file, "no index at the end of the file")
        if (
            not 8 <= body < header < footer <= len(data) - _INDEX.size
            or body + 8 > header
            or sizes >= len(data)
        ):
            raise _damaged(self.file, "an index that points outside the file")
        if header + 11 > len(data):
            raise _damaged(self.file, "a header that runs over the end")
        major, minor, patch = data[header : header + 3]
        self.version = (major, minor, patch)
        if (major, minor) < _OLDEST:
            cause = f"records of versions before {_OLDEST[0]}.{_OLDEST[1]} have other fields"
            raise self._unknown(f"DUMPI {major}.{minor}.{patch}", cause)
        self.started = struct.unpack_from(">q", data, header + 3)[0]
        self.offset = struct.unpack_from(">i", data, body + 4)[0]
        if sizes and sizes + 4 <= len(data):
            count = struct.unpack_from(">I", data, sizes)[0]
            if sizes + 4 + 4 * count <= len(data) and count < 1 << 20:
                self.sizes = dict(enumerate(struct.unpack_from(f">{count}I", data, sizes + 4)))
        return header, body + 8

    def _time(self, second: int, nanosecond: int) -> int:
        """Return a time in nanoseconds; seconds are recorded modulo 2^16."""
        if second + 32768 < self.last_second:
            self.wraps += 65536
        self.last_second = second
        return (self.offset + self.wraps + second) * 1_000_000_000 + nanosecond

    def _call(self, entry: Record) -> None:
        name, _ = CALLS[entry.number]
        prefix = "MPIO" if name.startswith("IO_") else "MPI_"
        self.counts[f"{prefix}{name.removeprefix('IO')}"] += 1
        if not entry.times:
            raise self._unknown(
                "calls without wall clock times",
                "DUMPI was told to write none (timestamps in dumpi.conf)",
            )
        if max(entry.times[1], entry.times[3]) >= 1_000_000_000:
            self.flaws["times"] += 1
            return
        start, end = self._time(*entry.times[:2]), self._time(*entry.times[2:])
        does = name.lower()
        sort = "other" if prefix == "MPIO" else mpi.sort_of(does)
        word = self.names(f"{prefix}{name.removeprefix('IO')}")
        common = {"thread": entry.thread + 1}
        arguments = entry.arguments
        if sort in ("send", "receive") or does.endswith(("send_init", "recv_init")):
            self._message(does, word, start, end, arguments, common)
        elif sort == "both":
            self._both(does, word, start, end, arguments, common)
        elif sort == "wait":
            self._wait(does, word, start, end, arguments, common)
        elif sort == "start":
            for request in [
                r
                for r in ([arguments[0]] if does == "start" else arguments[1])
                if r in self.pending
            ] or [mpi.NO]:
                self.calls.add(
                    self.number, start, end, mpi.REQUEST, word, request=request, **common
                )
        elif sort == "collective":
            self._collective(does, word, start, end, arguments, common)
        else:
            self.calls.add(self.number, start, end, mpi.OTHER, word, **common)
            self._made(does, arguments)

    # --- messages ---

    def _bytes(self, count: int, kind: int) -> int:
        """Return the size of a buffer [B]; `NO` where the size of its type is unknown."""
        element_size = self.sizes.get(kind, mpi.NO)
        if element_size == mpi.NO or count < 0 or not 0 <= count * element_size < mpi.LARGEST >> 24:
            self.flaws["unsized"] += 1
            return mpi.NO
        return count * element_size

    def _side(
        self, count: int, kind: int, partner: int, tag: int, receives: bool
    ) -> dict[str, int]:
        return {
            "size": self._bytes(count, kind),
            "partner": self._partner(partner, receives),
            "tag": mpi.NO if tag < 0 else tag,
        }

    def _message(
        self, does: str, word: int, start: int, end: int, a: list[Any], common: dict[str, int]
    ) -> None:
        """Add the row of a send or a receive."""
        count, kind, partner, tag, comm = a[:5]
        receives = does.endswith(("recv", "recv_init"))
        # A blocking receive has its status in the place of the request.
        request = a[5] if len(a) > 5 and isinstance(a[5], int) else mpi.NO
        side, handle = self._side(count, kind, partner, tag, receives), self.comms.get(comm, mpi.NO)
        row = self.calls.add(
            self.number,
            start,
            end,
            mpi.MESSAGE,
            word,
            **side,
            communicator=handle,
            request=request,
            **common,
        )
        self.flaws["nobody"] += self.calls.columns["partner"][row] == mpi.NO
        if request != mpi.NO:
            self.pending[request] = does.endswith("_init")
        if receives and (partner == -1 or tag < 0):
            if request != mpi.NO:
                self.wild[request] = row
            else:
                self._from_status(row, a[5])

    def _partner(self, partner: int, receives: bool) -> int:
        """Return the rank of the partner; -1 for any source, `NO` for MPI_PROC_NULL, which is a
        negative number of the tracer.
        """
        return partner if partner >= 0 or (receives and partner == -1) else mpi.NO

    def _from_status(self, row: int, statuses: tuple[tuple[int, int, int], ...]) -> None:
        """Fill in what a wildcard receive received, from its status."""
        if not statuses:
            self.flaws["wild"] += 1
            return
        _, source, tag = statuses[0]
        columns = self.calls.columns
        columns["partner"][row] = source if source >= 0 else mpi.NO
        columns["tag"][row] = tag if tag >= 0 else mpi.NO

    def _both(
        self, does: str, word: int, start: int, end: int, a: list[Any], common: dict[str, int]
    ) -> None:
        """Add the rows of a Sendrecv: one without duration for the send, and one for the
        receive.
        """
        if does == "sendrecv":
            out, into, comm, status = a[:4], a[4:8], a[8], a[9]
        else:
            out, into, comm, status = a[:4], [a[0], a[1], a[4], a[5]], a[6], a[7]
        handle = self.comms.get(comm, mpi.NO)
        for (count, kind, partner, tag), until, receives in (
            (out, start, False),
            (into, end, True),
        ):
            side = {**self._side(count, kind, partner, tag, receives), "outer": int(receives)}
            row = self.calls.add(
                self.number, start, until, mpi.MESSAGE, word, **side, communicator=handle, **common
            )
            self.flaws["nobody"] += self.calls.columns["partner"][row] == mpi.NO
            if receives and (partner == -1 or tag < 0):
                self._from_status(row, status)

    def _wait(
        self, does: str, word: int, start: int, end: int, a: list[Any], common: dict[str, int]
    ) -> None:
        """Add one row for each request that is complete when the call returns, and at least one
        row.
        """
        several = does.endswith(("all", "any", "some"))
        requests = a[1] if several else (a[0],)
        states: tuple[Any, ...] = a[-1]
        flag = {"test": 1, "testany": 3, "testall": 2}.get(does)
        if flag is not None and not a[flag]:
            done: list[int] = []
        elif does.endswith("any"):
            done = [a[2]] if 0 <= a[2] < len(requests) else []
        elif does.endswith("some"):
            done = [i for i in a[3] if 0 <= i < len(requests)]
        else:
            done = list(range(len(requests)))
        rows = 0
        for place, index in enumerate(done):
            request = requests[index]
            # A request that was never started, or is already complete, needs no row.
            if request not in self.pending:
                continue
            if not self.pending[request]:
                del self.pending[request]
            self.calls.add(self.number, start, end, mpi.REQUEST, word, request=request, **common)
            rows += 1
            waiting = self.wild.pop(request, None)
            if waiting is not None:
                self._from_status(waiting, states[place : place + 1])
        if not rows:
            self.calls.add(self.number, start, end, mpi.REQUEST, word, **common)

    # --- collectives, communicators, types ---

    def _collective(
        self, does: str, word: int, start: int, end: int, a: list[Any], common: dict[str, int]
    ) -> None:
        comm, root, sent, received = self._shares(does, a)
        where = {"root": mpi.NO if root < 0 else root, "communicator": self.comms.get(comm, mpi.NO)}
        row = self.calls.add(self.number, start, end, mpi.COLLECTIVE, word, **where, **common)
        self.collectives.append((row, does, sent, received, root))

    def _shares(self, does: str, a: list[Any]) -> tuple[int, int, int, int]:
        """Return communicator, root, and bytes sent and received as `carried` expects them; `NO`
        where they are unknown.
        """
        if does == "barrier":
            return a[0], mpi.NO, 0, 0
        if does in ("bcast", "reduce"):
            size = self._bytes(a[0], a[1])
            return a[-1], a[-2], size, size
        if does in ("allreduce", "scan", "exscan"):
            size = self._bytes(a[0], a[1])
            return a[-1], mpi.NO, size, size
        if does in ("allgather", "alltoall"):
            return a[4], mpi.NO, self._bytes(a[0], a[1]), self._bytes(a[2], a[3])
        if does in ("gather", "scatter"):
            send_bytes, receive_bytes = (
                self._bytes(a[1], a[2]),
                self._bytes(a[5], a[6]) if len(a) > 6 else 0,
            )
            return (
                a[4],
                a[3],
                *((send_bytes, receive_bytes) if does == "gather" else (receive_bytes, send_bytes)),
            )
        if does == "gatherv":
            return (
                a[5],
                a[4],
                self._bytes(a[2], a[3]),
                self._bytes(sum(a[6]), a[-1]) if len(a) > 7 else 0,
            )
        if does == "scatterv":
            return (
                a[6],
                a[5],
                self._bytes(sum(a[7]), a[2]) if len(a) > 7 else 0,
                self._bytes(a[3], a[4]),
            )
        if does == "allgatherv":
            return a[6], mpi.NO, self._bytes(a[1], a[2]), self._bytes(sum(a[3]), a[5])
        if does == "alltoallv":
            return a[7], mpi.NO, self._bytes(sum(a[1]), a[3]), self._bytes(sum(a[4]), a[6])
        if does == "alltoallw":
            return (
                a[7],
                mpi.NO,
                *(
                    sum(self._bytes(c, t) for c, t in zip(a[i], a[i + 2], strict=False))
                    for i in (1, 4)
                ),
            )
        if does == "reduce_scatter":
            size = self._bytes(sum(a[1]), a[2])
            return a[4], mpi.NO, size, size
        return mpi.NO, mpi.NO, mpi.NO, mpi.NO

    def _made(self, does: str, a: list[Any]) -> None:
        """Follow the communicators, groups and types that the program creates."""
        new = type_made(does, a, self.sizes)
        if new is not None:
            self.sizes[new[0]] = new[1]
        elif does == "comm_group":
            self.groups[a[1]] = ("comm", self.comms.get(a[0], mpi.NO))
        elif does.startswith("group_"):
            group_made(does, a, self.groups)
        elif does in (
            "comm_dup",
            "comm_create",
            "comm_split",
            "cart_create",
            "cart_sub",
            "graph_create",
            "intercomm_merge",
            "intercomm_create",
        ):
            old, new_handle, membership = self._making(does, a)
            inside = new_handle > _WORLD - 1
            self.makings.append(Making(does, self.comms.get(old, mpi.NO), inside, membership))
            if inside:
                self.comms[new_handle] = len(self.makings) + 1
        elif does == "comm_rank":
            self.inside.setdefault(self.comms.get(a[0], mpi.NO), a[1])
        elif does == "comm_free":
            self.comms.pop(a[0], None)

    def _making(self, does: str, a: list[Any]) -> tuple[int, int, Any]:
        """Return the parent, the new handle, and the arguments that decide the members."""
        if does == "comm_create":
            return a[0], a[2], self.groups.get(a[1])
        if does == "comm_split":
            return a[0], a[3], (a[1], a[2])
        if does == "cart_create":
            return a[0], a[5], (tuple(a[2]), bool(a[4]))
        if does == "graph_create":
            return a[1], a[6], (a[2], bool(a[5]))
        if does == "comm_dup":
            return a[0], a[1], None
        return mpi.NO, a[-1], None


# --- all ranks ------------------------------------------------------------------------------------


class _Set:
    """All ranks of a run."""

    def __init__(self, ranks: list[_Rank]) -> None:
        self.ranks = ranks
        self.flaws: Counter[str] = Counter()
        for rank in ranks:
            self.flaws.update(rank.flaws)

    def trace(self, path: Path, digest: str, size_bytes: int) -> Trace:
        """Build the trace with all its tables and findings."""
        total = sum(len(member.calls) for member in self.ranks)
        if not total:
            raise error_of("P007", where=str(path), found="no MPI call was recorded")
        made = communicators(
            [member.makings for member in self.ranks], [member.inside for member in self.ranks]
        )
        self.flaws["unresolved"] += made.unresolved
        alone = len(made.members) + 1
        names, frames = mpi.Names(), []
        for member in self.ranks:
            made.of_rank[member.number][1] = alone
            self._settle(member, made.of_rank[member.number], made.members)
            rank_texts = member.names.series()
            number = array("q", (names(text) for text in rank_texts))
            column = member.calls.columns["name"]
            member.calls.columns["name"] = array("q", (number[n] for n in column))
            frames.append(member.calls.table())
        rows, texts = pl.concat(frames), names.series()
        groups = list(enumerate(made.members, 1))
        if self.flaws["alone"]:
            groups += [(alone, [rank]) for rank in range(len(self.ranks))]
        members = mpi.communicators_table((n, 1, m) for n, m in groups)
        moves = shifts(rows, members, texts, len(self.ranks))
        by = pl.Series(moves.by).gather(rank_of(rows["thread"]))
        rows = rows.with_columns(pl.col("start_ns") + by, pl.col("end_ns") + by)
        zero = int(np.asarray(rows["start_ns"]).min()) - 1
        rows = rows.with_columns(pl.col("start_ns") - zero, pl.col("end_ns") - zero).sort(
            "start_ns", maintain_order=True
        )
        if int(np.asarray(rows["end_ns"]).max()) > mpi.LARGEST_NS:
            raise error_of(
                "P018.dumpi", where=str(path), found="times that lie more than 104 days apart"
            )
        tables = {
            "mpi": rows,
            "mpi_ranks": mpi.ranks_table(len(self.ranks)),
            "mpi_communicators": members,
        }
        counts: Counter[str] = sum((member.counts for member in self.ranks), Counter())
        first = self.ranks[0]
        last = int(np.asarray(rows["end_ns"]).max())
        begin = first.started * 10**9 if 0 < first.started < 1 << 33 else None
        facts: dict[str, Any] = {
            "format": "dumpi",
            "product_version": "DUMPI " + ".".join(map(str, first.version)),
            "schema_version": None,
        }
        facts |= {
            "analysis_duration_ns": last,
            "session_start_utc_ns": begin,
            "tables": dict(sorted(counts.items())),
        }
        facts |= {"size_bytes": size_bytes, "sha256": digest}
        return Trace(tables, texts, facts, self._findings(moves), path.name)

    def _settle(self, rank: _Rank, handles: list[int], members: list[list[int]]) -> None:
        """Replace communicators by their numbers in the run, and fill in the sizes of collectives,
        which depend on the members.
        """
        columns = rank.calls.columns
        self.flaws["alone"] += 1 in columns["communicator"]
        columns["communicator"] = array(
            "q", (handles[n] if 0 <= n < len(handles) else mpi.NO for n in columns["communicator"])
        )
        for row, does, sent, received, root in rank.collectives:
            handle = columns["communicator"][row]
            if handle == mpi.NO:
                self.flaws["lost"] += 1
                continue
            if sent < 0 or received < 0:
                continue
            group = members[handle - 1] if handle <= len(members) else [rank.number]
            is_root = does in mpi.ROOTED and 0 <= root < len(group) and group[root] == rank.number
            columns["size_bytes"][row], columns["receive_bytes"][row] = mpi.carried(
                does, sent, received, len(group), is_root
            )

    def _findings(self, moves: Shifts) -> list[Finding]:
        flaws = self.flaws
        low, high = moves.by.min() * 1e-6, moves.by.max() * 1e-6
        moved = (
            f"by {low:.3f} to {high:.3f} ms against rank 0; known to within "
            f"{moves.within * 1e-3:.1f} us; "
            f"from {moves.messages} messages and {moves.collectives} collectives"
        )
        counted = [
            ("P119", 1, "host name, user name, command line"),
            ("P123", 1, ""),
            ("P130", 1, ""),
            ("P141", flaws["nobody"], ""),
            ("P143", flaws["functions"], "functions entered and left"),
            ("P144", flaws["unresolved"], "communicators whose members cannot be told"),
            ("P147", flaws["unfinished"], "files without an end of their stream"),
            ("P148", flaws["lost"], ""),
            ("P145", moves.moved, moved),
            ("P146", moves.loose, ""),
            ("P149", moves.left, f"by up to {moves.late} ns"),
            ("P153", flaws["times"], "calls with 10^9 nanoseconds in a second or more"),
            ("P155", flaws["wild"], "receives from any source, or of any tag, without a status"),
            ("A351", flaws["unsized"], "types of unknown size"),
        ]
        return [finding(code, count, detail) for code, count, detail in counted if count > 0]
