"""Paraver traces of Extrae: ``X.prv`` with ``X.pcf`` beside it, which names the numbers of MPI calls.

An MPI call is a pair of event records, one with the call's number and one with 0.  A communication record has both ends of a
message: when the call that sends began, when the call that receives began (of an Irecv: returned), and when the message was there
(the end of the receive, or of the wait that completed it).  The calls are found by these times.  Which wait completes a send is not
recorded (P155), nor is the communicator of a message (P159).
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from turnbuckle.errors import ProfileError, clipped
from turnbuckle.findings import Finding, finding
from turnbuckle.trace.readers.mpi_tables import (
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
    communicators_table,
    operation,
    ranks_table,
    sort_of,
)
from turnbuckle.trace.readers.packed_text import Text, beginning, packed
from turnbuckle.trace.readers.paraver_ends import SORTS, Call, Ends, Message
from turnbuckle.trace.readers.paraver_names import CALLS, USUAL, named
from turnbuckle.trace.trace import Trace

CACHED = False
"""The .pcf may change while the .prv does not."""
#: Event types beside a collective's begin: bytes sent, bytes received, whether this is the root, communicator.
_SENT, _RECEIVED, _ROOT, _COMMUNICATOR = 50100001, 50100002, 50100003, 50100004
#: Event types of CUDA, OpenCL, HIP and OpenACC.
_GPU: Final = ((63000000, 65000000), (66000000, 67000000))
_MOST_BAD: Final = 1000
#: Of a message or collective [B]: times the members of a communicator it still fits a column.
_LARGEST_SIZE: Final = LARGEST >> 24
#: Members of all communicators together, threads, calls without a name: more is no trace.
_MOST_MEMBERS: Final = 1 << 24
_MOST_THREADS: Final = 1 << 20
_MOST_NAMES: Final = 1 << 16
_HEAD: Final = re.compile(rb"#Paraver \([^)]{0,60}\):(\d{1,18})(_ns)?:(\d+)(?:\([\d,]*\))?:(\d{1,9}):(.*)", re.DOTALL)


def sniff(head: bytes, path: Path) -> bool:
    """Whether the file begins as a Paraver trace does, or is part of one."""
    if head.startswith(b"#Paraver"):
        return True
    names = [s.lower() for s in path.suffixes]
    if packed(head):
        return names[-2:-1] == [".prv"] or beginning(head, path, 16).startswith(b"#Paraver")
    return names[-1:] in ([".prv"], [".pcf"])


def read(path: Path, *, threads: int = 0, progress: Callable[[float], object] | None = None) -> Trace:
    """Read a Paraver trace, packed by xz or gzip or not.  Raises `ProfileError` (P025, P026, P028 to P030)."""
    del threads
    if path.suffix.lower() == ".pcf":
        raise ProfileError(
            "P030", "the header of the Paraver trace cannot be read", where=str(path), found="a .pcf file: names and colours",
            cause="a Paraver trace is several files; the one that ends in .prv holds the records",
            fix=f"name {path.with_suffix('.prv').name}",
        )  # fmt: skip
    text = Text(path, progress)
    reading = _Reading(str(path), named(path))
    lines = iter(text)
    reading.header(next(lines, b""))
    for line in lines:
        reading.line(line)
    return reading.trace(path.name, text)


# --- what is open -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Thread:
    """A thread that calls MPI."""

    task: int
    number: int
    calls: list[Call] = field(default_factory=list)
    open: dict[int, Call] = field(default_factory=dict)
    last: int = 0


class _Reading:
    def __init__(self, where: str, named: dict[tuple[int, int], str] | None) -> None:
        self.where, self.named = where, named
        self.names, self.calls = Names(), Calls()
        self.scale = 1
        self.duration = 0
        self.tasks: list[int] = []
        self.communicators: dict[int, dict[int, list[int]]] = {}
        self.members = 0
        self.threads: dict[tuple[int, int, int], _Thread] = {}
        self.messages: list[Message] = []
        self.words: dict[tuple[int, int], tuple[int, str, str]] = {}
        self.application_calls: Counter[int] = Counter()
        self.application_records: Counter[int] = Counter()
        self.counts: Counter[str] = Counter()
        self.flaws: Counter[str] = Counter()
        self.unnamed: set[tuple[int, int]] = set()
        self.bad, self.sound, self.first_bad = 0, 0, ""
        self.requests = 0
        self.application = 0

    # --- records ---

    def header(self, line: bytes) -> None:
        """The first line: duration, its unit, and the tasks of each application."""
        found = _HEAD.match(line.rstrip(b"\r"))
        lists = [m for m in re.finditer(rb"(\d{1,9})\(([^()]*)\)", found[5])] if found else []
        if found is None or not lists:
            raise ProfileError(
                "P030", "the header of the Paraver trace cannot be read", where=self.where,
                found=clipped(line[:80].decode("latin-1"), 80), cause="the file is damaged, or no Paraver trace",
                fix="merge the run again: mpi2prv -f TRACE.mpits -o RUN.prv",
            )  # fmt: skip
        self.scale = 1 if found[2] else 1000
        self.duration = min(int(found[1]) * self.scale, LARGEST_NS)
        # the list of threads cannot be longer than the line: a count that it does not bear out is not believed
        self.tasks = [min(int(m[1]), m[2].count(b",") + 1, MOST_RANKS) for m in lists]

    def line(self, line: bytes) -> None:
        """One record."""
        kind = line[:2]
        try:
            if kind == b"1:":
                self.counts["state"] += 1
            elif kind == b"2:":
                self.counts["event"] += 1
                self._events(line)
            elif kind == b"3:":
                self.counts["communication"] += 1
                self._communication(line)
            elif kind == b"c:":
                self._communicator(line)
            elif line[:1] != b"#" and line.strip():
                raise ValueError("a record of unknown kind")
            self.sound += 1
        except (ValueError, IndexError) as error:
            self.bad += 1
            self.first_bad = self.first_bad or ("a field that is no number" if "literal" in str(error) else str(error))
            if self.bad > _MOST_BAD and self.bad > self.sound:
                raise self._damaged() from None

    def _damaged(self) -> ProfileError:
        return ProfileError(
            "P029", "more lines of the recording are damaged than sound", where=self.where,
            found=f"{self.bad} lines that cannot be read, {self.sound} that can; the first: {clipped(self.first_bad, 80)}",
            cause="the file was cut or changed", fix="copy it again from where it was recorded",
        )  # fmt: skip

    def _communicator(self, line: bytes) -> None:
        application, number, count, *members = (int(f) for f in line[2:].split(b":"))
        if count != len(members) or not members or not 0 < number < LARGEST or len(set(members)) != count:
            raise ValueError("a communicator whose members are not as many as it says")
        self.members += count
        if self.members > _MOST_MEMBERS:
            raise ValueError("communicators of too many members")
        self.communicators.setdefault(application, {}).setdefault(number, [m - 1 for m in members])

    def _time(self, field: bytes) -> int:
        time = int(field) * self.scale
        if not 0 <= time <= LARGEST_NS:
            raise ValueError("a time outside 0 to 104 days")
        return time

    def _events(self, line: bytes) -> None:
        fields = line.split(b":")
        application = int(fields[2])
        self.application_records[application] += 1
        if b":500000" not in line:
            if b":63" in line or b":64" in line or b":66" in line:
                kinds = [int(f) for f in fields[6::2]]
                self.flaws["gpu"] += any(low <= k < high for k in kinds for low, high in _GPU)
            self.flaws["unread"] += 1
            return
        if len(fields) % 2 or len(fields) < 8:
            raise ValueError("an event record with a type and no value")
        pairs = [(int(kind), int(value)) for kind, value in zip(fields[6::2], fields[7::2], strict=True)]
        task, number, time = int(fields[3]), int(fields[4]), self._time(fields[5])
        key = (application, task, number)
        thread = self.threads.get(key)
        if thread is None:
            tasks = self.tasks[application - 1] if 0 < application <= len(self.tasks) else 0
            if not 0 < task <= tasks or not 0 < number < 1 << 24 or len(self.threads) >= _MOST_THREADS:
                raise ValueError("an event of a thread that the header does not have")
            thread = self.threads[key] = _Thread(task - 1, number)
        thread.last = max(thread.last, time)
        beside = dict(pairs)
        for kind, value in pairs:
            if kind in CALLS:
                self._call(thread, application, kind, value, time, beside)

    def _call(self, thread: _Thread, application: int, kind: int, value: int, time: int, beside: dict[int, int]) -> None:
        """A call begins or ends."""
        before = thread.open.pop(kind, None)
        if before is not None:
            before.end = time
            self.flaws["cut"] += value != 0
        elif value == 0 and time < self.duration:
            # at the very end a tool that cuts traces ends every type once
            self.flaws["cut"] += 1
        if value == 0:
            return
        name, does, sort = self._word(kind, value)
        call = Call(time, NO, name, does, sort)
        if sort == "collective":
            call.told = beside.get(_SENT, NO), beside.get(_RECEIVED, NO), beside.get(_ROOT, 0), beside.get(_COMMUNICATOR, NO)
            if any(t != NO and not 0 <= t < _LARGEST_SIZE for t in call.told):
                raise ValueError("a collective of a size below 0 or beyond measure")
        thread.calls.append(call)
        thread.open[kind] = call
        self.application_calls[application] += 1

    def _word(self, kind: int, value: int) -> tuple[int, str, str]:
        """Name, operation and sort of a call's number."""
        word = self.words.get((kind, value))
        if word is None:
            name = (self.named or {}).get((kind, value), "")
            if not name:
                if len(self.unnamed) < _MOST_NAMES:
                    self.unnamed.add((kind, value))
                name = USUAL[value] if 0 < value < len(USUAL) else f"MPI call {value}"
            does = operation(name)
            word = self.words[kind, value] = (self.names(name), does, sort_of(does) if does else "other")
        return word

    def _communication(self, line: bytes) -> None:
        fields = line.split(b":")
        if len(fields) < 15:
            raise ValueError("a communication record of fewer than 15 fields")
        times = [self._time(fields[i]) for i in (5, 11, 12)]
        sender, receiver = ((int(fields[at]), int(fields[at + 1]), int(fields[at + 2])) for at in (2, 8))
        size, tag = int(fields[13]), int(fields[14])
        if not 0 <= size < _LARGEST_SIZE or not -LARGEST < tag < LARGEST:
            raise ValueError("a message of a size below 0 or beyond measure")
        self.messages.append(Message(sender, receiver, times[0], times[1], times[2], size, tag))

    # --- tables ---

    def trace(self, name: str, text: Text) -> Trace:
        """Everything as tables."""
        if not self.application_calls:
            raise ProfileError(
                "P028", "the recording holds no MPI calls", where=self.where,
                found=", ".join(f"{n} {kind} records" for kind, n in self.counts.items()) or "no records",
                cause="the run was recorded without MPI, or the trace was filtered",
                fix="record with Extrae's MPI wrappers and keep MPI events",
            )  # fmt: skip
        self.application = max(self.application_calls, key=lambda a: (self.application_calls[a], -a))
        ranks = self.tasks[self.application - 1]
        threads = [t for key, t in sorted(self.threads.items()) if key[0] == self.application and t.calls]
        world = self._groups(ranks)
        latest = max(thread.last for thread in self.threads.values())
        for thread in threads:
            for call in thread.open.values():
                call.end = latest
                self.flaws["cut"] += 1
            thread.calls.sort(key=lambda c: c.start)
        self._ends(ranks)
        roots = self._roots(threads, ranks)
        for thread in threads:
            self._rows(thread, world, roots)
        first = min(t.calls[0].start for t in threads)
        groups = [(number, first, members) for number, members in self.communicators[self.application].items()]
        tables = {"mpi": self.calls.table(), "mpi_ranks": ranks_table(ranks), "mpi_communicators": communicators_table(groups)}
        facts: dict[str, Any] = {
            "format": "paraver", "product_version": "Extrae", "schema_version": None, "analysis_duration_ns": self.duration,
            "session_start_utc_ns": None, "tables": dict(self.counts), "size_bytes": text.size_bytes, "sha256": text.digest,
        }  # fmt: skip
        return Trace(tables, self.names.series(), facts, self._findings(), name)

    def _groups(self, ranks: int) -> int:
        """Keep the application's communicators that can be; returns the handle of the world."""
        kept = {n: m for n, m in self.communicators.get(self.application, {}).items() if min(m) >= 0 and max(m) < ranks}
        self.flaws["doubtful"] += len(self.communicators.get(self.application, {})) - len(kept)
        everyone = list(range(ranks))
        world = next((n for n, members in sorted(kept.items()) if members == everyone), 0)
        if not world:
            world = max(kept, default=0) + 1
            kept[world] = everyone
        self.communicators[self.application] = kept
        return world

    def _ends(self, ranks: int) -> None:
        """Give every message to the calls at its ends."""
        found = {
            (key, end): Ends(end, [c for c in thread.calls if c.sort in sorts])
            for key, thread in self.threads.items() for end, sorts in SORTS.items()
        }  # fmt: skip
        for message in self.messages:
            ends = message.sender, message.receiver
            if any(end[0] != self.application for end in ends):
                self.flaws["elsewhere"] += 1
                continue
            if any(not 0 < end[1] <= ranks for end in ends):
                self.flaws["doubtful"] += 1
                continue
            sends, receives, waits = (found.get(k) for k in ((ends[0], "send"), (ends[1], "receive"), (ends[1], "wait")))
            send = sends.free_at(message.sent) if sends else None
            receive = receives.free_at(message.posted) if receives else None
            self.flaws["homeless"] += (send is None) + (receive is None)
            self.flaws["backwards"] += message.there < message.sent
            self.flaws["late"] = max(self.flaws["late"], message.sent - message.there)
            if send is not None:
                send.sent.append(message)
            if receive is None:
                continue
            receive.received = message
            if receive.does.startswith("i"):
                receive.request = self._request()
                wait = waits.free_at(message.there) if waits else None
                if wait is not None:
                    wait.completed.append(receive.request)

    def _request(self) -> int:
        self.requests += 1
        return self.requests

    def _roots(self, threads: list[_Thread], ranks: int) -> dict[tuple[int, int], int]:
        """Root of the k-th rooted collective of a communicator, where all members have as many: (communicator, k) -> rank inside."""
        del ranks
        flags: dict[int, dict[int, list[int]]] = {}
        for thread in threads:
            for call in thread.calls:
                if call.sort == "collective" and call.does.removeprefix("i") in ROOTED:
                    flags.setdefault(call.told[3], {}).setdefault(thread.task, []).append(call.told[2])
        roots = {}
        for number, of_task in flags.items():
            members = self.communicators[self.application].get(number, [])
            rows = [of_task.get(m, []) for m in members]
            if not rows or len({len(r) for r in rows}) > 1:
                continue
            for k, marks in enumerate(zip(*rows, strict=True)):
                if sum(map(bool, marks)) == 1:
                    roots[number, k] = next(i for i, mark in enumerate(marks) if mark)
        return roots

    def _rows(self, thread: _Thread, world: int, roots: dict[tuple[int, int], int]) -> None:
        """Rows of one thread's calls, in time."""
        sends: deque[int] = deque()
        unknown: deque[int] = deque()
        rooted: Counter[int] = Counter()
        for call in thread.calls:
            common = {"thread": thread.number}
            if call.sort in ("send", "both", "start"):
                self._sends(thread, call, world, sends)
            if call.sort in ("receive", "both"):
                self._receive(thread, call, world, unknown)
            elif call.sort == "wait":
                done = self._waited(call, sends, unknown)
                for request in done or [NO]:
                    self.calls.add(thread.task, call.start, call.end, REQUEST, call.name, request=request, **common)
            elif call.sort == "collective":
                self._collective(thread, call, roots, rooted)
            elif call.sort == "other":
                self.calls.add(thread.task, call.start, call.end, OTHER, call.name, **common)

    def _sends(self, thread: _Thread, call: Call, world: int, sends: deque[int]) -> None:
        end = call.start if call.sort == "both" else call.end
        if call.sort == "start":
            self.calls.add(thread.task, call.start, call.end, REQUEST, call.name, thread=thread.number)
        elif not call.sent:
            request = self._request() if call.does.startswith("i") else NO
            self.calls.add(thread.task, call.start, end, MESSAGE, call.name, request=request, thread=thread.number)
            self.flaws["silent"] += 1
            if request != NO:
                sends.append(request)
        name = self.names("MPI_Isend") if call.sort == "start" else call.name
        for message in call.sent:
            request = self._request() if call.sort == "start" or call.does.startswith("i") else NO
            self.calls.add(
                thread.task, call.start, end, MESSAGE, name, size=message.size, partner=message.receiver[1] - 1, tag=message.tag,
                communicator=world, request=request, thread=thread.number,
            )  # fmt: skip
            if request != NO:
                sends.append(request)

    def _receive(self, thread: _Thread, call: Call, world: int, unknown: deque[int]) -> None:
        message = call.received
        if message is None:
            if call.does.startswith("i"):
                call.request = self._request()
                unknown.append(call.request)
            self.flaws["silent"] += 1
            self.calls.add(thread.task, call.start, call.end, MESSAGE, call.name, request=call.request, thread=thread.number)
            return
        self.calls.add(
            thread.task, call.start, call.end, MESSAGE, call.name, size=message.size, partner=message.sender[1] - 1, tag=message.tag,
            communicator=world, request=call.request, thread=thread.number,
        )  # fmt: skip

    def _waited(self, call: Call, sends: deque[int], unknown: deque[int]) -> list[int]:
        """Requests that a wait completes: those of messages that are there when it ends, else the oldest that no message names."""
        done = call.completed
        if call.does == "waitall":
            done = [*done, *sends, *unknown]
            sends.clear()
            unknown.clear()
        elif call.does == "wait" and not done and (unknown or sends):
            queue = unknown or sends
            done = [queue.popleft()]
            self.flaws["guessed"] += bool(sends or unknown)
        return done

    def _collective(self, thread: _Thread, call: Call, roots: dict[tuple[int, int], int], rooted: Counter[int]) -> None:
        sent, received, _, number = call.told
        members = self.communicators[self.application].get(number, [])
        does = call.does.removeprefix("i")
        root = NO
        if does in ROOTED:
            root = roots.get((number, rooted[number]), NO)
            rooted[number] += 1
            self.flaws["rootless"] += root == NO
        if does == "barrier":
            sent = received = 0
        self.flaws["unsized"] += sent == NO
        if sent != NO and members:
            sent, received = _as_score_p(does, sent, max(received, 0), len(members))
        self.flaws["lost"] += not members
        self.calls.add(
            thread.task, call.start, call.end, COLLECTIVE, call.name, size=sent, received=received, root=root,
            communicator=number if members else NO, thread=thread.number,
        )  # fmt: skip

    def _findings(self) -> list[Finding]:
        flaws = self.flaws
        others = {a: n for a, n in self.application_records.items() if a != self.application}
        known = len(self.tasks)
        apart = [f"application {a}: {self.tasks[a - 1]} tasks, {n} event records" for a, n in sorted(others.items()) if 0 < a <= known]
        with_calls = [f"{n} MPI calls of application {a}" for a, n in sorted(self.application_calls.items()) if a != self.application]
        backwards = f"by up to {max(flaws['late'], 0)} ns"
        found = [
            ("P119", 1, "host names, paths"),
            ("P123", 1, ""),
            (
                "P128",
                len(self.unnamed),
                "calls without a name in the .pcf" if self.named is not None else "no .pcf beside it: Extrae's own numbers",
            ),
            ("P130", int(not flaws["gpu"]), ""),
            ("P141", flaws["silent"], ""),
            ("P143", flaws["unread"], "event records without an MPI call"),
            ("P144", flaws["doubtful"], "communicators and messages of tasks that the header does not have"),
            ("P147", flaws["cut"], "MPI calls"),
            ("P148", flaws["lost"], ""),
            ("P149", flaws["backwards"], backwards),
            ("P153", self.bad, f"lines; the first: {clipped(self.first_bad, 80)}"),
            ("P154", flaws["homeless"] + flaws["elsewhere"], f"ends {flaws['homeless']}, between applications {flaws['elsewhere']}"),
            ("P155", flaws["guessed"], ""),
            ("P156", flaws["gpu"], "event records"),
            ("P157", flaws["rootless"], ""),
            ("P158", len(others), "; ".join([*apart[:4], *with_calls[:4]])),
            ("P159", len(self.messages), "messages"),
            ("A351", flaws["unsized"], ""),
        ]
        return [finding(code, count, detail) for code, count, detail in found if count > 0]


def _as_score_p(does: str, sent: int, received: int, members: int) -> tuple[int, int]:
    """Bytes as Score-P counts them from what Extrae writes: one partner's share of an alltoall, all that an allgather receives."""
    if does in ("allreduce", "alltoall"):
        return members * sent, members * max(received, sent)
    if does in ("allgather", "allgatherv"):
        return members * sent, received
    if does == "bcast":
        return members * sent, sent or received
    return sent, members * received if does == "reduce" else received
