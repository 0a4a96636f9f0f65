"""A small writer of OTF2 archives: bytes put together from the format's description, so that the
reader is not its own judge.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

UNDEFINED = 0xFFFFFFFF
CPU, STREAM, METRICS = 1, 2, 3
USER, CUDA, MPI, PTHREAD = 1, 5, 4, 7
BARE = {12, 13, 16, 17, 20, 21, 24, 28, 29, 30}
OPERATIONS = (
    "BARRIER",
    "BCAST",
    "GATHER",
    "GATHERV",
    "SCATTER",
    "SCATTERV",
    "ALLGATHER",
    "ALLGATHERV",
    "ALLTOALL",
    "ALLTOALLV",
)
ALLREDUCE, REDUCE, SCAN, CREATE_HANDLE = 11, 12, 14, 17
DENSE, SPARSE = 0, 1


@dataclass
class Bytes:
    """Records of one file, in one byte order."""

    big: bool = False
    records: list[bytes] = field(default_factory=list)
    time: int | None = None

    def packed(self, number: int, undefined: int = UNDEFINED) -> bytes:
        """The bytes that are not leading zeros, behind their number."""
        if number in (undefined, 2**64 - 1):
            return b"\xff"
        body = number.to_bytes((number.bit_length() + 7) // 8, "big" if self.big else "little")
        return bytes([len(body)]) + body

    def full(self, number: int, kind: str = "Q") -> bytes:
        return struct.pack((">" if self.big else "<") + kind, number)

    def record(self, kind: int, *fields: int | bytes) -> None:
        """A record of packed numbers and of bytes as they are."""
        body = b"".join(f if isinstance(f, bytes) else self.packed(f) for f in fields)
        if kind in BARE and self.time is not None:
            self.records.append(bytes([kind]) + body)
            return
        length = bytes([len(body)]) if len(body) < 255 else b"\xff" + self.full(len(body))
        self.records.append(bytes([kind]) + length + body)

    def event(self, time: int, kind: int, *fields: int | bytes) -> None:
        """An event behind its time stamp, which is written where it changes."""
        if time != self.time:
            self.records.append(b"\x05" + self.full(time))
            self.time = time
        self.record(kind, *fields)

    def chunks(self, size: int) -> bytes:
        """The file: chunks of `size` bytes, the last one as long as it needs to be."""
        head = b"\x03" + (b"\x23" if self.big else b"\x42") + bytes(16)
        out, chunk = [], head
        stamp = b""
        for record in self.records:
            is_stamp = record[0] == 5 and self.time is not None
            stamp = record if is_stamp else stamp
            if len(chunk) + len(record) + 1 > size:
                out.append((chunk + b"\x00").ljust(size, b"\xee"))
                # a chunk can be read by itself: it says the time again
                chunk = head + (b"" if is_stamp else stamp)
            chunk += record
        return b"".join(out) + chunk + b"\x02"


@dataclass
class Location(Bytes):
    """One thread or stream: its events, and the local definitions that go with them."""

    id: int = 0
    kind: int = CPU
    group: int = 0
    maps: list[bytes] = field(default_factory=list)
    offsets: list[tuple[int, int]] = field(default_factory=list)
    time: int | None = -1

    def enter(self, time: int, region: int) -> None:
        self.event(time, 12, region)

    def leave(self, time: int, region: int) -> None:
        self.event(time, 13, region)

    def call(self, begin: int, end: int, region: int, *records: tuple[int, ...]) -> None:
        """Enter, records half-way, leave."""
        self.enter(begin, region)
        for kind, *fields in records:
            self.event((begin + end) // 2, kind, *fields)
        self.leave(end, region)

    def collective(
        self,
        begin: int,
        end: int,
        region: int,
        operation: int,
        comm: int,
        root: int,
        sent: int = 8,
        received: int = 8,
    ) -> None:
        """A collective call with its records."""
        self.enter(begin, region)
        self.event(begin, 22)
        self.event(end, 23, bytes([operation]), comm, root, sent, received)
        self.leave(end, region)

    def map(self, what: int, pairs: list[int] | dict[int, int]) -> None:
        """Local ids to global ones: a list of all, or some pairs."""
        if isinstance(pairs, dict):
            body = b"".join(self.packed(a) + self.packed(b) for a, b in pairs.items())
            mode = SPARSE
        else:
            body, mode = b"".join(map(self.packed, pairs)), DENSE
        self.maps.append(bytes([what]) + self.packed(len(pairs)) + bytes([mode]) + body)

    def definitions(self, chunk: int) -> bytes:
        out = Bytes(self.big)
        for body in self.maps:
            out.record(5, body)
        for time, offset in self.offsets:
            out.record(
                6,
                self.full(time),
                offset % 2**64,
                struct.pack((">" if self.big else "<") + "d", 0.0),
            )
        return out.chunks(chunk)


class Archive:
    """Definitions and locations of an archive; `write` puts it into a folder."""

    def __init__(
        self,
        *,
        ticks: int = 10**9,
        zero: int = 0,
        big: bool = False,
        creator: str = "a test",
        chunk: int = 1 << 18,
    ) -> None:
        self.big, self.creator, self.chunk = big, creator, chunk
        self.globals = Bytes(big)
        self.locations: list[Location] = []
        self.texts: dict[str, int] = {}
        self.groups = self.comms = self.regions = 0
        self.substrate = self.compression = 1
        self.globals.record(5, ticks, zero, 0)

    def text(self, words: str | bytes) -> int:
        raw = words.encode() if isinstance(words, str) else words
        key = raw.decode("latin-1")
        if key not in self.texts:
            self.texts[key] = len(self.texts)
            self.globals.record(10, self.texts[key], raw + b"\0")
        return self.texts[key]

    def region(self, name: str | bytes, paradigm: int = USER, role: int = 1) -> int:
        self.globals.record(
            15,
            self.regions,
            self.text(name),
            0,
            b"\0",
            UNDEFINED,
            0,
            0,
            self.text(name),
            bytes([role]),
            bytes([paradigm]),
            0,
        )
        self.regions += 1
        return self.regions - 1

    def process(self, kind: int = 1, creator: int = UNDEFINED, node: int = 0) -> int:
        self.globals.record(13, self.groups, self.text("a group"), bytes([kind]), node, creator)
        self.groups += 1
        return self.groups - 1

    def location(self, group: int, kind: int = CPU, number: int | None = None) -> Location:
        one = Location(
            self.big, id=len(self.locations) if number is None else number, kind=kind, group=group
        )
        self.globals.record(14, one.id, self.text("a thread"), bytes([kind]), 1, group)
        self.locations.append(one)
        return one

    def group(self, kind: int, members: list[int], number: int, flags: int = 0) -> None:
        self.globals.record(
            18,
            number,
            self.text(""),
            b"\0",
            len(members),
            *members,
            bytes([kind]),
            bytes([MPI]),
            flags,
        )

    def comm(self, members: list[int] | None, number: int | None = None) -> int:
        """A communicator of some ranks of the world; None: of each rank alone."""
        number = self.comms if number is None else number
        self.comms = max(self.comms, number) + 1
        self.group(6 if members is None else 5, members or [], 1000 + number)
        self.globals.record(22, number, self.text(""), 1000 + number, UNDEFINED, 0)
        return number

    def ranks(self, count: int) -> list[Location]:
        """So many processes of one thread, the world's locations, and communicator 0 of all of
        them.
        """
        threads = [self.location(self.process()) for _ in range(count)]
        self.group(4, [t.id for t in threads], 999)
        self.comm(list(range(count)))
        return threads

    def anchor(self) -> bytes:
        one = Bytes(self.big)
        parts = [
            b"\x03" + (b"\x23" if self.big else b"\x42") + b"OTF2\0" + bytes([3, 3, 3, 1, 1]),
            one.full(self.chunk) + one.full(self.chunk) + bytes([self.substrate, self.compression]),
            one.full(len(self.locations)) + one.full(len(self.globals.records)),
            b"a machine's name\0" + self.creator.encode() + b"\0\0",
            one.full(0, "I") + one.full(7) + one.full(0, "I") + one.full(0, "I") + b"\x02",
        ]
        return b"".join(parts)

    def write(self, folder: Path) -> Path:
        """The archive's files; the path of its anchor."""
        (folder / "traces").mkdir(parents=True)
        (folder / "traces.otf2").write_bytes(self.anchor())
        (folder / "traces.def").write_bytes(self.globals.chunks(self.chunk))
        for one in self.locations:
            (folder / "traces" / f"{one.id}.evt").write_bytes(one.chunks(self.chunk))
            (folder / "traces" / f"{one.id}.def").write_bytes(one.definitions(self.chunk))
        return folder / "traces.otf2"
