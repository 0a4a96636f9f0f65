"""Records of a Paraver trace as columns: begins and ends of MPI calls, and messages.

Plain lines, which hold only digits and colons, are parsed a block at a time.  All other lines, and
all plain lines that fail a check, are parsed one by one with Python's integers; that parser says
what is wrong with a line.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, NamedTuple

import numpy as np

from turnbuckle.foundation.arrays import Bool, Int, runs
from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.mpi.readers.paraver.lines import Lines
from turnbuckle.mpi.readers.paraver.names import CALLS, Words
from turnbuckle.mpi.readers.paraver.threads import Threads
from turnbuckle.trace.readers.parts.columns import Columns
from turnbuckle.trace.readers.parts.mpi_tables import (
    LARGEST,
    LARGEST_NS,
    MOST_RANKS,
    NO,
    operation,
    sort_of,
)

#: Event types in the record of a collective's begin: bytes sent, bytes received, whether this rank
#: is the root, communicator.
_ARGUMENTS: Final = (50100001, 50100002, 50100003, 50100004)
_NO_ARGUMENTS: Final = (NO, NO, 0, NO)
_FIRST_CALL: Final = min(CALLS)
#: Event types of CUDA, OpenCL, HIP and OpenACC.
_GPU: Final = ((63000000, 65000000), (66000000, 67000000))
_MOST_BAD: Final = 1000
#: Largest size of a message or collective [B]; its product with the members of a communicator still
#: fits a column.
_LARGEST_SIZE: Final = LARGEST >> 24
#: Largest number of members of all communicators together, and of threads, that a trace is believed
#: to have.
_MOST_MEMBERS: Final = 1 << 24
_MOST_THREADS: Final = 1 << 20
#: Shorter blocks are parsed line by line, which is then faster [B].
_SHORT: Final = 4096
_HEAD: Final = re.compile(
    rb"#Paraver \([^)]{0,60}\):(\d{1,18})(_ns)?:(\d+)(?:\([\d,]*\))?:(\d{1,9}):(.*)", re.DOTALL
)
_COUNTED: Final = {b"1:": "state", b"2:": "event", b"3:": "communication"}
#: Fields of a communication: application, task and thread of both ends, times of the send, the
#: receive and the arrival, size, tag.
_OF_MESSAGE: Final = (2, 3, 4, 8, 9, 10, 5, 11, 12, 13, 14)
#: Number of columns of a message: its line, codes of both ends, three times, size, tag.
_MESSAGE: Final = 8


class _Events(NamedTuple):
    """Plain event records of a block: lines, their applications, begins and ends of calls, the
    latest time of a call's record, and the numbers of records without calls and with GPU activity.
    """

    lines: Int
    application: Int
    edges: Int
    latest: int
    unread: int
    gpu: int


class Records:
    """Parsed records of a trace.

    Attributes
    ----------
    duration : duration of the trace [ns].
    communicators : tasks, from 0 on, of each application's communicators by number.
    edges : begins and ends of calls in the order of the file: thread, kind (event type less the
        first), word (-1 is an end), time [ns], whether the record is damaged and only ends the call
        that was open.
    collectives : begins of collectives: index in `edges`, bytes sent, bytes received, whether this
        rank is the root, communicator.
    messages : ends as `Threads` codes them, times of the send, the receive and the arrival [ns],
        size [B], tag.
    latest : latest time of the events with MPI calls [ns].
    """

    def __init__(self, where: str, words: Words) -> None:
        self.where, self.words = where, words
        self.scale, self.duration, self.latest = 1, 0, 0
        self.threads = Threads([])
        self.communicators: dict[int, dict[int, list[int]]] = {}
        self.members = 0
        self.edges = Columns(thread="i", kind="b", word="i", time="q", broken="b")
        self.collectives = Columns(edge="q", sent="q", received="q", root="q", communicator="q")
        self.messages = Columns(
            sender="q", receiver="q", sent="q", posted="q", there="q", size="q", tag="q"
        )
        self.events: Counter[int] = Counter()
        self.calls: Counter[int] = Counter()
        self.counts: Counter[str] = Counter()
        self.flaws: Counter[str] = Counter()
        self.bad, self.sound, self.first_bad = 0, 0, ""
        self._edges: list[tuple[int, ...]] = []
        self._messages: list[tuple[int, ...]] = []

    def header(self, line: bytes) -> None:
        """Read the first line: the duration, its unit, and the tasks of each application.  Raises
        `ProfileError` P030.
        """
        match = _HEAD.match(line.rstrip(b"\r"))
        lists = [m for m in re.finditer(rb"(\d{1,9})\(([^()]*)\)", match[5])] if match else []
        if match is None or not lists:
            raise error_of(
                "P030.header", where=self.where, found=clipped(line[:80].decode("latin-1"), 80)
            )
        self.scale = 1 if match[2] else 1000
        self.duration = min(int(match[1]) * self.scale, LARGEST_NS)
        # The header lists the threads of every task, so a number of tasks beyond that list is false
        # and could exhaust the memory.
        self.threads = Threads([min(int(m[1]), m[2].count(b",") + 1, MOST_RANKS) for m in lists])

    def block(self, block: bytes) -> None:
        """Read whole lines.  Raises `ProfileError` P029 where more are damaged than sound."""
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        lines = Lines(block if block.endswith(b"\n") else block + b"\n")
        kinds = {kind: lines.of_kind(kind) for kind in _COUNTED}
        plain = lines.plain() if len(block) >= _SHORT else np.zeros(lines.count, dtype=bool)
        alone = ~(plain | kinds[b"1:"])
        alone |= plain & ~(kinds[b"1:"] | kinds[b"2:"] | kinds[b"3:"])
        events = self._plain_events(lines, kinds[b"2:"], alone)
        messages = self._plain_messages(lines, kinds[b"3:"], alone)
        if self.threads.held_with(events.edges[1]) + int(alone.sum()) > _MOST_THREADS:
            # Which thread is the first beyond the limit depends on the order of the lines, so they
            # are parsed one by one.
            alone = ~kinds[b"1:"]
            events, messages = (
                self._plain_events(lines, kinds[b"2:"], alone),
                np.zeros((_MESSAGE, 0), np.int64),
            )
        for kind, _ in sorted(
            ((k, int(m.argmax())) for k, m in kinds.items() if m.any()), key=lambda entry: entry[1]
        ):
            self.counts[_COUNTED[kind]] += int(kinds[kind].sum())
        applications, counts = np.unique(events.application, return_counts=True)
        self.events.update(dict(zip(applications.tolist(), counts.tolist(), strict=True)))
        self.latest = max(self.latest, events.latest)
        self.flaws["unread"] += events.unread
        self.flaws["gpu"] += events.gpu
        bad = self._alone(lines, alone)
        self.sound += lines.count - bad
        self._keep(events.edges, messages)

    # --- many lines at once ---

    def _plain_events(self, lines: Lines, of_kind: Bool, alone: Bool) -> _Events:
        """Parse the plain event records, and mark in `alone` those that fail a check."""
        called = lines.holding(b"500000")
        alone |= of_kind & (lines.fields < (np.where(called, 8, 3)))
        selected = np.flatnonzero(of_kind & called & ~alone)
        application, task, number, time = (lines.numbers(selected, field) for field in (2, 3, 4, 5))
        sound = (
            (lines.fields[selected] % 2 == 0)
            & self.threads.holds(application, task, number)
            & (time <= LARGEST_NS // self.scale)
        )
        group, place = runs((lines.fields[selected] - 6) // 2)
        kind = lines.numbers(selected[group], 6 + 2 * place)
        is_call, is_argument = (
            (kind >= low) & (kind < low + width)
            for low, width in ((_FIRST_CALL, len(CALLS)), (_ARGUMENTS[0], len(_ARGUMENTS)))
        )
        value = np.zeros(len(kind), dtype=np.int64)
        needed = np.flatnonzero(is_call | is_argument)
        value[needed] = lines.numbers(selected[group[needed]], 7 + 2 * place[needed])
        arguments = np.tile(np.array(_NO_ARGUMENTS, dtype=np.int64), (len(selected), 1))
        # Where a line holds the same type twice, the last value wins, as in the line-by-line
        # parser.
        arguments[group[is_argument], kind[is_argument] - _ARGUMENTS[0]] = value[is_argument]
        sound &= arguments.max(axis=1, initial=0) < _LARGEST_SIZE
        alone[selected[~sound]] = True
        is_call &= sound[group]
        group = group[is_call]
        key = self.threads.key(application[group], task[group], number[group])
        time *= self.scale
        edges = np.stack(
            [
                selected[group],
                key,
                kind[is_call] - _FIRST_CALL,
                value[is_call],
                time[group],
                np.zeros(len(group), np.int64),
                *arguments[group].T,
            ]
        )
        every = np.flatnonzero(of_kind & ~alone)
        other = every[~called[every]]
        gpu = self._of_gpu(lines, other[lines.holding(b"63", b"64", b"66")[other]])
        return _Events(
            every, lines.numbers(every, 2), edges, int(time[sound].max(initial=0)), len(other), gpu
        )

    def _of_gpu(self, lines: Lines, records: Int) -> int:
        """Return how many of the event records hold types of GPU activity."""
        group, place = runs(np.maximum(lines.fields[records] - 5, 0) // 2)
        kind = lines.numbers(records[group], 6 + 2 * place)
        of_gpu = np.logical_or.reduce([(kind >= low) & (kind < high) for low, high in _GPU])
        return len(np.unique(group[of_gpu]))

    def _plain_messages(self, lines: Lines, of_kind: Bool, alone: Bool) -> Int:
        """Parse the plain communication records, and mark in `alone` those that fail a check."""
        alone |= of_kind & (lines.fields < 15)
        selected = np.flatnonzero(of_kind & ~alone)
        fields = np.stack([lines.numbers(selected, field) for field in _OF_MESSAGE])
        sound = (fields[6:9].max(axis=0, initial=0) <= LARGEST_NS // self.scale) & (
            fields[9] < _LARGEST_SIZE
        )
        alone[selected[~sound]] = True
        fields = fields[:, sound]
        ends = [self.threads.end(*fields[offset : offset + 3]) for offset in (0, 3)]
        return np.stack([selected[sound], *ends, *(fields[6:9] * self.scale), *fields[9:]])

    def _keep(self, edges: Int, messages: Int) -> None:
        """Store the rows of a block in the order of its lines."""
        if self._edges:
            edges = np.concatenate([edges, np.array(self._edges, dtype=np.int64).T], axis=1)
            edges = edges[:, np.argsort(edges[0], kind="stable")]
            self._edges.clear()
        if self._messages:
            messages = np.concatenate(
                [messages, np.array(self._messages, dtype=np.int64).T], axis=1
            )
            messages = messages[:, np.argsort(messages[0], kind="stable")]
            self._messages.clear()
        _, key, kind, code, time, broken, *arguments = edges
        self.threads.add(key)
        word = self.words.of(kind, code)
        collective = np.flatnonzero(self.words.collective(word) & (broken == 0))
        self.collectives.add(
            len(self.edges) + collective, *(column[collective] for column in arguments)
        )
        self.edges.add(self.threads.place(key), kind, word, time, broken)
        self.messages.add(*messages[1:])

    # --- a line alone ---

    def _alone(self, lines: Lines, alone: Bool) -> int:
        """Parse the marked lines one by one, and return how many are unreadable."""
        bad = 0
        for index in np.flatnonzero(alone).tolist():
            try:
                self._line(index, lines.line(index))
            except (ValueError, IndexError) as error:
                bad += 1
                self.bad += 1
                self.first_bad = self.first_bad or (
                    "a field that is no number" if "literal" in str(error) else str(error)
                )
                sound = self.sound + index + 1 - bad
                if self.bad > _MOST_BAD and self.bad > sound:
                    raise error_of(
                        "P029.lines",
                        where=self.where,
                        found=(
                            f"{self.bad} lines that cannot be read, {sound} that can; the first: "
                            f"{clipped(self.first_bad, 80)}"
                        ),
                    ) from None
        return bad

    def _line(self, index: int, line: bytes) -> None:
        kind = line[:2]
        if kind == b"2:":
            self._event(index, line)
        elif kind == b"3:":
            self._communication(index, line)
        elif kind == b"c:":
            self._communicator(line)
        elif line[:1] != b"#" and line.strip():
            raise ValueError("a record of unknown kind")

    def _communicator(self, line: bytes) -> None:
        application, number, count, *members = (int(f) for f in line[2:].split(b":"))
        if (
            count != len(members)
            or not members
            or not 0 < number < LARGEST
            or len(set(members)) != count
        ):
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

    def _event(self, index: int, line: bytes) -> None:
        fields = line.split(b":")
        application = int(fields[2])
        self.events[application] += 1
        if b":500000" not in line:
            if b":63" in line or b":64" in line or b":66" in line:
                kinds = [int(f) for f in fields[6::2]]
                self.flaws["gpu"] += any(low <= k < high for k in kinds for low, high in _GPU)
            self.flaws["unread"] += 1
            return
        if len(fields) % 2 or len(fields) < 8:
            raise ValueError("an event record with a type and no value")
        pairs = [
            (int(kind), int(value)) for kind, value in zip(fields[6::2], fields[7::2], strict=True)
        ]
        task, number, time = int(fields[3]), int(fields[4]), self._time(fields[5])
        key = self.threads.register(application, task, number, _MOST_THREADS)
        if key is None:
            raise ValueError("an event of a thread that the header does not have")
        self.latest = max(self.latest, time)
        values = dict(pairs)
        arguments = tuple(
            values.get(kind, default)
            for kind, default in zip(_ARGUMENTS, _NO_ARGUMENTS, strict=True)
        )
        fits = all(t == NO or 0 <= t < _LARGEST_SIZE for t in arguments)
        for kind, value in pairs:
            if kind not in CALLS:
                continue
            does = operation(self.words.text(kind, value))
            collective = value != 0 and bool(does) and sort_of(does) == "collective"
            broken = collective and not fits
            edge = index, key, kind - _FIRST_CALL, self.words.code(value), time, int(broken)
            self._edges.append((*edge, *(arguments if collective and fits else _NO_ARGUMENTS)))
            if broken:
                raise ValueError("a collective of a size below 0 or beyond measure")

    def _communication(self, index: int, line: bytes) -> None:
        fields = line.split(b":")
        if len(fields) < 15:
            raise ValueError("a communication record of fewer than 15 fields")
        times = [self._time(fields[i]) for i in (5, 11, 12)]
        ends = [self.threads.end_of(*(int(field) for field in fields[i : i + 3])) for i in (2, 8)]
        size, tag = int(fields[13]), int(fields[14])
        if not 0 <= size < _LARGEST_SIZE or not -LARGEST < tag < LARGEST:
            raise ValueError("a message of a size below 0 or beyond measure")
        self._messages.append((index, *ends, *times, size, tag))
