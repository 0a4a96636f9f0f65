"""Paje traces of MPI programs, as SimGrid's SMPI writes them: states of ranks, and links between them that are the messages.

The header of a Paje file says which fields each kind of event has; nothing is read by its place alone.  A link begins inside the
call that sends and ends inside the call that receives it or waits for it: the state that is open there, in the order of the file,
is that call.  SMPI records no communicator, no root, no request and no source of a receive (findings P155, P157, P159).
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Sequence
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
    Ranges,
    carried,
    communicators_table,
    operation,
    ranks_table,
    sort_of,
)
from turnbuckle.trace.readers.packed_text import Text, beginning, packed
from turnbuckle.trace.readers.paje_lines import EVENTS, Lines, number
from turnbuckle.trace.trace import Trace

_KEY: Final = re.compile(rb"\d{1,18}_\d{1,18}_(-?\d{1,18})_\d{1,18}")
_LAST_NUMBER: Final = re.compile(r"(\d{1,9})\D*$")
#: Calls inside calls.
_MOST_NESTED: Final = 4096


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
    reading = _Reading(str(path))
    for line in text:
        reading.line(line)
    return reading.trace(path.name, text)


# --- what is open -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Value:
    """A state's value: what it means."""

    name: int
    does: str
    sort: str


@dataclass(slots=True)
class _Open:
    """A state that was entered and not left."""

    value: _Value
    start: int
    rows: list[int]
    size: int = NO
    completed: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Place:
    """One container that has states."""

    name: str
    number: int
    stack: list[_Open] = field(default_factory=list)
    #: how many states down the outermost MPI call is; -1 outside MPI
    call: int = -1
    last: int = NO
    first: int = NO
    sends: deque[int] = field(default_factory=deque)
    receives: deque[int] = field(default_factory=deque)
    calls: int = 0

    def current(self) -> _Open | None:
        """The MPI call it is in."""
        return self.stack[self.call] if self.call >= 0 else None


@dataclass(slots=True)
class _Link:
    """A message under way: row of its send, bytes, tag, where it starts."""

    row: int
    size: int
    tag: int
    place: int


# --- reading ----------------------------------------------------------------------------------------------------------


class _Reading(Lines):
    """The calls and messages of all ranks."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.names, self.calls, self.ranges = Names(), Calls(), Ranges()
        self.values: dict[bytes, _Value] = {}
        self.texts: dict[bytes, bytes] = {}
        self.containers: dict[bytes, _Place] = {}
        self.named: dict[bytes, _Place] = {}
        self.places: list[_Place] = []
        self.links: dict[bytes, _Link] = {}
        self.ends: dict[bytes, tuple[int, int]] = {}
        self.flaws: Counter[str] = Counter()
        self.requests = 0
        self.elements: set[int] = set()
        self.sized: list[tuple[int, str, int]] = []
        self.states: Counter[str] = Counter()
        self.earliest_end = LARGEST_NS

    # definitions of types and values: only names matter

    def _define_container_type(self, fields: Sequence[bytes]) -> None:
        del fields

    _define_state_type = _define_link_type = _define_container_type

    def _define_entity_value(self, fields: Sequence[bytes]) -> None:
        name, alias = fields
        if alias:
            self.texts[alias] = name
            self.values.pop(alias, None)

    def _create_container(self, fields: Sequence[bytes]) -> None:
        time, name, alias, _ = fields
        self._time(time)
        if not (name or alias):
            raise ValueError("a container without a name")
        place = _Place((name or alias).decode("utf-8", "replace"), -1)
        if alias:
            self.containers.setdefault(alias, place)
        if name:
            self.named.setdefault(name, place)

    def _destroy_container(self, fields: Sequence[bytes]) -> None:
        self._time(fields[0])

    def _place(self, key: bytes) -> _Place:
        # an alias counts before the name of another container
        place = self.containers.get(key) or self.named.get(key)
        if place is None:
            raise ValueError("a container that was not created")
        if place.number < 0:
            if len(self.places) >= MOST_RANKS:
                raise ValueError("more containers than ranks can be told apart")
            place.number = len(self.places)
            self.places.append(place)
        return place

    def _value(self, key: bytes) -> _Value:
        value = self.values.get(key)
        if value is None:
            name = self.texts.get(key, key).decode("utf-8", "replace")
            does = operation(name)
            value = self.values[key] = _Value(self.names(name), does, sort_of(does) if does else "")
            if len(self.states) < 64:
                self.states[name] += 1
        return value

    # states

    def _push_state(self, fields: Sequence[bytes]) -> None:
        time, place, value = self._time(fields[0]), self._place(fields[1]), self._value(fields[2])
        size = number(fields[4])
        if len(place.stack) >= _MOST_NESTED:
            raise ValueError(f"more than {_MOST_NESTED} states inside each other")
        state = _Open(value, time, [], size)
        place.stack.append(state)
        if place.first == NO:
            place.first = time
        place.last = max(place.last, time)
        if value.does and place.call < 0:
            place.call = len(place.stack) - 1
            place.calls += 1
            self._enter(place, state)
        elif value.does:
            self.flaws["inside"] += 1

    def _set_state(self, fields: Sequence[bytes]) -> None:
        time, place = self._time(fields[0]), self._place(fields[1])
        if place.stack:
            self._leave(place, time)
        self._push_state(fields)

    def _pop_state(self, fields: Sequence[bytes]) -> None:
        time, place = self._time(fields[0]), self._place(fields[1])
        if not place.stack:
            self.flaws["unbalanced"] += 1
            return
        self._leave(place, time)

    def _reset_state(self, fields: Sequence[bytes]) -> None:
        time, place = self._time(fields[0]), self._place(fields[1])
        while place.stack:
            self._leave(place, time)

    def _enter(self, place: _Place, state: _Open) -> None:
        """An MPI call begins: its row, and what it leaves open."""
        sort, does = state.value.sort, state.value.does
        kind = {"wait": REQUEST, "start": REQUEST, "collective": COLLECTIVE, "other": OTHER}.get(sort, MESSAGE)
        request = NO
        if kind == MESSAGE and does.startswith("i"):
            request = self._request()
        row = self.calls.add(place.number, state.start, NO, kind, state.value.name, request=request)
        state.rows.append(row)
        if sort == "collective":
            self.calls.columns["communicator"][row] = 1
            self.sized.append((row, does, state.size))
        elif sort == "both":
            state.rows.append(self.calls.add(place.number, state.start, NO, kind, state.value.name))
        elif sort == "receive" and request != NO:
            place.receives.append(row)

    def _request(self) -> int:
        self.requests += 1
        return self.requests

    def _leave(self, place: _Place, time: int) -> None:
        """The innermost state ends."""
        state = place.stack.pop()
        if place.call != len(place.stack):
            if not state.value.does and place.call < 0 and time > state.start:
                self.ranges.add(place.number, state.start, time, state.value.name)
            place.last = max(place.last, time)
            return
        place.call = -1
        place.last = max(place.last, time)
        if state.value.sort == "wait":
            self._completed(place, state)
        column = self.calls.columns["end_ns"]
        for row in state.rows:
            column[row] = time
        if state.value.sort == "both":
            column[state.rows[0]] = state.start
        self.earliest_end = min(self.earliest_end, time if time >= state.start else LARGEST_NS)

    def _completed(self, place: _Place, state: _Open) -> None:
        """Which requests a wait completes: those whose messages end in it, and the oldest sends for the rest of its number."""
        does, done = state.value.does, state.completed
        self.flaws["oldest"] += len(done) * bool(place.receives)
        if does.startswith("wait"):
            asked = {"wait": 1, "waitany": 1, "waitsome": 0}.get(does, state.size if state.size != NO else 1 << 30)
            asked = max(0, min(asked - len(done), len(place.sends)))
            done.extend(place.sends.popleft() for _ in range(asked))
            self.flaws["guessed"] += asked * bool(place.sends)
        requests, row = self.calls.columns["request"], state.rows[0]
        for at, request in enumerate(done):
            if at:
                row = self.calls.add(place.number, state.start, NO, REQUEST, state.value.name)
                state.rows.append(row)
            requests[row] = request

    # messages

    def _start_link(self, fields: Sequence[bytes]) -> None:
        time, place, key, text = self._time(fields[0]), self._place(fields[1]), fields[2], fields[3]
        found = _KEY.fullmatch(key)
        tag, size = int(found[1]) if found else 0, number(text)
        self.flaws["untagged"] += found is None
        self.flaws["unsized"] += size == NO
        state = place.current()
        sort = state.value.sort if state else ""
        if tag < 0 or sort == "collective":
            self.flaws["inside"] += 1
            return
        row = -1
        if state is not None and sort in ("send", "both", "start"):
            row = self._sending(place, state, sort)
        if row < 0:
            self.flaws["homeless"] += 1
        else:
            self._tell(row, NO, size, tag)
            if sort == "send" and state is not None and state.size > 0 and size > 0:
                self.elements.add(size // state.size if size % state.size == 0 else 0)
        del time
        early = self.ends.pop(key, None)
        if early is not None:
            self._meet(_Link(row, size, tag, place.number), *early)
        elif key in self.links:
            raise ValueError("a link's key that is open")
        else:
            self.links[key] = _Link(row, size, tag, place.number)

    def _sending(self, place: _Place, state: _Open, sort: str) -> int:
        """The row of what a call sends; another one where it has sent already."""
        row = state.rows[0]
        requests = self.calls.columns["request"]
        if sort == "start":
            row = self.calls.add(place.number, state.start, NO, MESSAGE, self.names("MPI_Isend"), request=self._request())
            state.rows.append(row)
        elif self.calls.columns["communicator"][row] != NO:
            if sort == "both":
                return -1
            later = requests[row] != NO
            row = self.calls.add(
                place.number, state.start, NO, MESSAGE, state.value.name, request=self._request() if later else NO
            )  # fmt: skip
            state.rows.append(row)
        if requests[row] != NO:
            place.sends.append(requests[row])
        return row

    def _end_link(self, fields: Sequence[bytes]) -> None:
        self._time(fields[0])
        place, key = self._place(fields[1]), fields[2]
        state = place.current()
        sort = state.value.sort if state else ""
        row = -1
        found = _KEY.fullmatch(key)
        if sort == "collective" or (found is not None and int(found[1]) < 0):
            self.links.pop(key, None)
            return
        communicator, requests = self.calls.columns["communicator"], self.calls.columns["request"]
        if state is not None and sort in ("receive", "both"):
            row = state.rows[-1]
            if communicator[row] != NO or requests[row] != NO:
                row = -1
        if row < 0 and place.receives:
            row = place.receives.popleft()
            if state is not None and sort == "wait":
                state.completed.append(requests[row])
            else:
                self.flaws["oldest"] += 1
        if row < 0:
            self.flaws["homeless"] += 1
        else:
            communicator[row] = 1
        link = self.links.pop(key, None)
        if link is not None:
            self._meet(link, row, place.number)
        elif key in self.ends:
            raise ValueError("a link that ends twice")
        else:
            self.ends[key] = (row, place.number)

    def _tell(self, row: int, partner: int, size: int, tag: int) -> None:
        columns = self.calls.columns
        columns["communicator"][row], columns["size_bytes"][row], columns["tag"][row] = 1, size, tag
        if partner != NO:
            columns["partner"][row] = partner

    def _meet(self, link: _Link, row: int, place: int) -> None:
        """A message has both its ends."""
        if link.row >= 0:
            self.calls.columns["partner"][link.row] = place
        if row >= 0:
            self._tell(row, link.place, link.size, link.tag)

    # tables

    def trace(self, name: str, text: Text) -> Trace:
        """Everything as tables."""
        if self.defining is not None or not self.layouts:
            raise self.unreadable("no definition of an event" if not self.layouts else "the file ends inside it")
        for place in self.places:
            while place.stack:
                self.flaws["unbalanced"] += 1
                self._leave(place, max(place.last, place.stack[-1].start))
        if not len(self.calls):
            seen = ", ".join(sorted(clipped(s, 24) for s in list(self.states)[:8]))
            raise ProfileError(
                "P028", "the recording holds no MPI calls", where=self.where,
                found=f"{self.counts.total()} events, {self.bad} lines that cannot be read, states: {seen or 'none'}",
                cause="states are MPI calls where they are called MPI_ or PMPI_ and the call's name",
                fix="record with smpirun -trace -trace-file RUN.trace --cfg=tracing/smpi/display-sizes:yes",
            )  # fmt: skip
        ranks = self._renumber()
        assumed = self._sizes(len(ranks))
        first = min(p.first for p in self.places if p.first != NO)
        # a row that ends at 0 would pass for one without a time stamp
        by = int(self.earliest_end <= 0)
        if by:
            self.calls.moved(by)
            self.ranges.moved(by)
        tables = {"mpi": self.calls.table(), "mpi_ranks": ranks_table(len(ranks))}
        tables["mpi_communicators"] = communicators_table([(1, first + by, list(range(len(ranks))))])
        if len(self.ranges):
            tables["ranges"] = self.ranges.table()
        facts: dict[str, Any] = {
            "format": "paje", "product_version": self.tool or None, "schema_version": None, "analysis_duration_ns": self.last + by,
            "session_start_utc_ns": None, "tables": dict(sorted(self.counts.items())), "size_bytes": text.size_bytes, "sha256": text.digest,
        }  # fmt: skip
        return Trace(tables, self.names.series(), facts, self._findings(assumed), name)

    def _renumber(self) -> list[_Place]:
        """Ranks: by the last number in the containers' names where those are 0 to n - 1, else in their order."""
        used = [p for p in self.places if p.calls]
        said = [int(n[1]) if (n := _LAST_NUMBER.search(p.name)) else -1 for p in used]
        by_name = sorted(said) == list(range(len(used)))
        if not by_name:
            self.flaws["unnamed"] = len(used)
        rank = {p.number: (said[i] if by_name else i) for i, p in enumerate(used)}
        self.calls.renumber(rank)
        self.ranges.renumber(rank)
        return used

    def _sizes(self, members: int) -> int:
        """Sizes of collectives: SMPI shows numbers of elements; returns bytes of one, or 0 where messages do not tell it."""
        each = next(iter(self.elements)) if len(self.elements) == 1 else 0
        sizes, received = self.calls.columns["size_bytes"], self.calls.columns["receive_bytes"]
        for row, does, elements in self.sized:
            if does.removeprefix("i") == "barrier":
                sizes[row] = received[row] = 0
            elif each and elements != NO and elements * each * members < LARGEST:
                sizes[row], received[row] = carried(does, elements * each, elements * each, members, False)
                self.flaws["elements"] += 1
            else:
                self.flaws["unsized"] += 1
            self.flaws["rootless"] += does.removeprefix("i") in ROOTED
        return each

    def _findings(self, each: int) -> list[Finding]:
        flaws = self.flaws
        columns = self.calls.columns
        silent = sum(k == MESSAGE and p == NO for k, p in zip(columns["kind"], columns["partner"], strict=True))
        under_way = len(self.links) + len(self.ends)
        unread = Counter({name: n for name, n in self.counts.items() if name not in EVENTS})
        found = [
            ("P119", int(self.private), "command line"),
            ("P123", 1, ""),
            ("P130", 1, ""),
            ("P141", silent, ""),
            ("P143", unread.total() + flaws["inside"], ", ".join(f"{n} {c}" for n, c in unread.most_common())),
            ("P147", flaws["unbalanced"], "states"),
            ("P153", self.bad, f"lines; the first: {clipped(self.first_bad, 80)}"),
            ("P154", flaws["homeless"] + under_way, f"no call at one end {flaws['homeless']}, one end only {under_way}"),
            ("P155", flaws["oldest"] + flaws["guessed"], f"receives {flaws['oldest']}, sends {flaws['guessed']}"),
            ("P157", flaws["rootless"], ""),
            ("P158", flaws["unnamed"], "containers whose names do not end in 0 to n - 1: ranks in the order in which they appear"),
            ("P159", len(self.calls), "messages without a tag " + str(flaws["untagged"]) if flaws["untagged"] else ""),
            ("A350", flaws["elements"], f"{each} B each"),
            ("A351", flaws["unsized"], ""),
        ]
        return [finding(code, count, detail) for code, count, detail in found if count]
