"""GOAL schedules: a graph of sends, receives and computations for each rank, the input of LogGOPSim
(Hoefler et al. 2010).

The text is what LogGOPSim's txt2bin takes: ``num_ranks N``, then ``rank R {`` and one operation or
dependency a line, ``}``::

    l1: send 8b to 1 tag 3 cpu 0 nic 0
    l2: recv 8b from 1 tag 3
    l3: calc 100
    l3 requires l2
    l3 irequires l1

``calc`` is in nanoseconds.  ``requires`` waits for the end of the other operation, ``irequires``
for its begin.  The operations of a rank have no other order.  The k-th send of a stream (source,
target, tag) matches its k-th receive, in the order of the file.

Errors: P023, P031, A077.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.foundation.findings import finding
from turnbuckle.mpi.replay.messages import Messages
from turnbuckle.mpi.replay.operation_graph import CALC, RECEIVE, SEND, OperationGraph
from turnbuckle.mpi.replay.operation_graph import program as operation_program
from turnbuckle.mpi.schedules.figures import Figures
from turnbuckle.mpi.schedules.matching import Matched, Side, match, refuse_lone
from turnbuckle.replay.contention.contention import Fidelity, Program
from turnbuckle.replay.contention.network import Network
from turnbuckle.replay.tasks import circle
from turnbuckle.trace.readers.parts.packed_text import Text

MOST_RANKS: Final = 1 << 20
_LARGEST: Final = 1 << 56
_WORD = rb"[a-zA-Z][a-zA-Z0-9_]*"
_EDGE = re.compile(rb"(" + _WORD + rb")\s+(i?)requires\s+(" + _WORD + rb")")
_CALC = re.compile(rb"(?:(" + _WORD + rb")\s*:\s*)?calc\s+(\d+)(?:\s+cpu\s+(\d+))?")
_MESSAGE = re.compile(
    rb"(?:(" + _WORD + rb")\s*:\s*)?(send|recv)\s+(\d+)\s*b\s+(to|from)\s+(-1|\d+)"
    rb"(?:\s+tag\s+(-1|\d+))?(?:\s+cpu\s+(\d+))?(?:\s+nic\s+(\d+))?"
)
_RANK = re.compile(rb"rank\s+(\d+)\s*\{")
_RANKS = re.compile(rb"num_ranks\s+(\d+)")
#: Processors and NICs of a rank are numbered below this.
_MOST_UNITS: Final = 256


@dataclass(frozen=True)
class Costs:
    """LogGOPS costs of operations; the defaults are LogGOPSim's."""

    #: latency, overhead, gap: L, o, g [s]
    latency: float = 2.5e-6
    overhead: float = 1.5e-6
    gap: float = 1e-6
    #: seconds_per_byte, overhead_per_byte: G, O [s/B]
    seconds_per_byte: float = 6e-9
    overhead_per_byte: float = 0.0
    eager_limit: float = 65535.0  #: S; a longer message leaves when its receive is posted [B]

    def network(self, ranks: int) -> Network:
        """Return the network of `ranks` hosts that these costs describe, without overheads, which
        occupy the processors instead.
        """
        bandwidth = 1.0 / self.seconds_per_byte if self.seconds_per_byte > 0 else 1e15
        half, per_byte = self.latency / 2, self.seconds_per_byte
        return Network(
            ranks, bandwidth, half, latency=self.latency, gap=self.gap, seconds_per_byte=per_byte
        )


@dataclass(frozen=True)
class Goal:
    """Parsed schedule; operations in the order of the file, shape (operations,)."""

    name: str
    ranks: int
    #: rank, kind: rank of each operation, and its kind: `SEND`, `RECEIVE` or `CALC`
    rank: Int
    kind: Int
    amount: Int  #: size of a message [B], or duration of a `CALC` [ns]
    #: peer, tag: other rank and tag of a message, `ANY` for any
    peer: Int
    tag: Int
    #: cpu, nic: processor and NIC of the rank that the operation uses
    cpu: Int
    nic: Int
    line: Int
    #: before, after: operations that each dependency joins, shape (dependencies,)
    before: Int
    after: Int
    by_start: Bool  #: whether `after` waits for the begin of `before` only
    #: pairs of sends and receives that are messages, as indices among the sends and among the
    #: receives
    matched: Matched
    idle: int = 0  #: number of ranks that the file does not mention

    @property
    def sends(self) -> Int:
        """Return the indices of the sends."""
        return np.flatnonzero(self.kind == SEND)

    @property
    def receives(self) -> Int:
        """Return the indices of the receives."""
        return np.flatnonzero(self.kind == RECEIVE)

    def described(self, operation: int) -> str:
        """Describe an operation in words: its rank, its line and its text."""
        kind, amount, peer, tag = (
            int(column[operation]) for column in (self.kind, self.amount, self.peer, self.tag)
        )
        what = (
            f"calc {amount}" if kind == CALC else f"{'send' if kind == SEND else 'recv'} {amount}b"
        )
        other = "" if kind == CALC else f" {'to' if kind == SEND else 'from'} {peer} tag {tag}"
        return f"rank {self.rank[operation]} at line {self.line[operation]} ({what}{other})"

    @property
    def figures(self) -> Figures:
        """Return the counts of the schedule."""
        lone = len(self.matched.lone_sends) + len(self.matched.lone_receives)
        met = self.matched
        shorter = int(
            (self.amount[self.receives][met.receive] < self.amount[self.sends][met.send]).sum()
        )
        findings = [
            finding("A347", lone),
            finding("A348", shorter, "receives that are shorter"),
            finding("A349", int((self.nic > 0).sum())),
        ]
        findings.append(finding("A352", self.idle))
        calc, carried = (
            sum(self.amount[self.kind == CALC].tolist()) * 1e-9,
            sum(self.amount[self.sends].tolist()),
        )
        counts = (len(self.rank), len(self.sends), carried, len(self.receives))
        return Figures(
            "goal",
            "",
            self.ranks,
            *counts,
            {},
            len(met.send),
            lone,
            None,
            calc,
            tuple(f for f in findings if f.count),
        )


def sniff(head: bytes, path: Path) -> bool:
    """Return whether a file begins like a GOAL schedule."""
    return _RANKS.match(_plain(head).lstrip()) is not None


def _plain(text: bytes) -> bytes:
    """Return text without its comments, with all line ends kept."""
    blank = re.sub(rb"/\*.*?(\*/|\Z)", lambda m: b"\n" * m[0].count(b"\n"), text, flags=re.DOTALL)
    return re.sub(rb"//[^\n]*", b"", blank)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not empty, without comments, with their numbers."""
    inside = False
    for number, line in enumerate(Text(path), 1):
        if b"/" in line or inside:
            line, inside = _uncommented(line, inside)
        line = line.strip()
        if line:
            yield number, line


def _uncommented(line: bytes, inside: bool) -> tuple[bytes, bool]:
    """Return a line without comments, and whether a comment is open at its end."""
    out = b""
    while line:
        if inside:
            _, end, line = line.partition(b"*/")
            inside = not end
            continue
        begins = [
            comment_begin
            for comment_begin in (line.find(b"//"), line.find(b"/*"))
            if comment_begin >= 0
        ]
        if not begins:
            return out + line, False
        comment_begin = min(begins)
        out += line[:comment_begin]
        if line[comment_begin : comment_begin + 2] == b"//":
            return out, False
        line, inside = line[comment_begin + 2 :], True
    return out, inside


class _Reading:
    """State of the parser: operations and dependencies so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self.columns = [array("q") for _ in range(8)]
        self.edges = [array("q") for _ in range(3)]
        self.ranks = 0
        self.rank = -1
        self.seen: set[int] = set()
        self.labels: dict[bytes, int] = {}
        self.waiting: list[tuple[bytes, bytes, int, int]] = []

    def wrong(self, line: bytes, cause: str) -> TurnbuckleError:
        where = f"{self.path.name}:{self.number}"
        return error_of(
            "P023", where=where, found=clipped(line.decode("utf-8", "replace")), cause=cause
        )

    def take(self, line: bytes) -> None:
        """Parse one line."""
        if self.rank < 0:
            self.outside(line)
        elif line == b"}":
            self.close()
        elif edge := _EDGE.fullmatch(line):
            self.waiting.append((edge[1], edge[3], self.number, edge[2] == b"i"))
        elif message := _MESSAGE.fullmatch(line):
            self.message(line, message)
        elif calc := _CALC.fullmatch(line):
            self.operation(line, calc[1], CALC, self.amount(line, calc[2]), -1, 0, calc[3], None)
        else:
            raise self.wrong(
                line,
                (
                    "inside a rank stand send, recv, calc, requires, irequires, one a line, and "
                    "the closing bracket"
                ),
            )

    def outside(self, line: bytes) -> None:
        if (count := _RANKS.fullmatch(line)) and not self.ranks:
            self.ranks = int(count[1]) if len(count[1]) < 9 else 0
            if not 1 <= self.ranks <= MOST_RANKS:
                raise self.wrong(line, f"ranks are 1 to {MOST_RANKS:,}")
        elif (opened := _RANK.fullmatch(line)) and self.ranks:
            rank = int(opened[1]) if len(opened[1]) < 9 else MOST_RANKS
            if rank >= self.ranks or rank in self.seen:
                raise self.wrong(
                    line,
                    f"rank {rank} twice" if rank in self.seen else f"there are {self.ranks} ranks",
                )
            self.rank = rank
            self.seen.add(rank)
        else:
            raise self.wrong(line, "num_ranks N comes first, then rank R { for each rank")

    def message(self, line: bytes, match: re.Match[bytes]) -> None:
        sends = match[2] == b"send"
        if (match[4] == b"to") is not sends:
            raise self.wrong(line, "a message is sent to, and received from")
        peer, tag = int(match[5][:12]), self.amount(line, match[6] or b"0")
        if peer >= self.ranks or (sends and (peer < 0 or tag < 0)):
            raise self.wrong(
                line,
                f"there are {self.ranks} ranks"
                if peer >= 0
                else "what is sent has one receiver and one tag",
            )
        self.operation(
            line,
            match[1],
            SEND if sends else RECEIVE,
            self.amount(line, match[3]),
            peer,
            tag,
            match[7],
            match[8],
        )

    def amount(self, line: bytes, digits: bytes) -> int:
        if len(digits) > 19 or not -1 <= int(digits) < _LARGEST:
            raise self.wrong(line, "a number beyond what is counted in")
        return int(digits)

    def operation(
        self,
        line: bytes,
        label: bytes | None,
        kind: int,
        amount: int,
        peer: int,
        tag: int,
        cpu: bytes | None,
        nic: bytes | None,
    ) -> None:
        units = [int((u or b"0")[:12]) for u in (cpu, nic)]
        if max(units) >= _MOST_UNITS:
            raise self.wrong(line, f"cpu and nic are 0 to {_MOST_UNITS - 1}")
        if label is not None:
            if label in self.labels:
                raise self.wrong(line, "a label stands for one operation of its rank")
            self.labels[label] = len(self.columns[0])
        for column, value in zip(
            self.columns, (self.rank, kind, amount, peer, tag, *units, self.number), strict=True
        ):
            column.append(value)

    def close(self) -> None:
        """End a rank: resolve the labels of its dependencies to operations."""
        for after, before, number, by_start in self.waiting:
            for label in (after, before):
                if label not in self.labels:
                    self.number = number
                    cause = (
                        f"no operation of rank {self.rank} has the label {clipped(label.decode())}"
                    )
                    raise self.wrong(after + b" requires " + before, cause)
            for column, value in zip(
                self.edges, (self.labels[before], self.labels[after], by_start), strict=True
            ):
                column.append(value)
        self.labels.clear()
        self.waiting.clear()
        self.rank = -1


def read(path: Path) -> Goal:
    """Read a schedule.  Raises P023, with the line that is not GOAL; P031, operations that wait for
    each other in a ring.
    """
    reading = _Reading(path)
    for number, line in _lines(path):
        reading.number = number
        reading.take(line)
    if reading.rank >= 0 or not reading.ranks:
        raise reading.wrong(
            b"",
            f"the bracket of rank {reading.rank} is not closed"
            if reading.ranks
            else "num_ranks N is missing",
        )
    rank, kind, amount, peer, tag, cpu, nic, line_of = (
        np.array(c, dtype=np.int64) for c in reading.columns
    )
    before, after, by_start = (np.array(c, dtype=np.int64) for c in reading.edges)
    if ring := circle(before, after)[1:]:
        lines = ", ".join(str(line_of[i]) for i in ring[:8]) + (
            " and more" if len(ring) > 8 else ""
        )
        raise error_of(
            "P031",
            where=f"{path.name}:{line_of[ring[0]]}",
            found=f"rank {rank[ring[0]]}: lines {lines}"
            if len(ring) > 1
            else f"rank {rank[ring[0]]}: an operation that waits for itself",
        )
    sides = []
    for side_kind in (SEND, RECEIVE):
        mask = kind == side_kind
        ends = (rank[mask], peer[mask]) if side_kind == SEND else (peer[mask], rank[mask])
        sides.append(Side(*ends, tag[mask], line_of[mask]))
    operations, edges = (
        (rank, kind, amount, peer, tag, cpu, nic, line_of),
        (before, after, by_start.astype(np.bool_)),
    )
    return Goal(
        path.name,
        reading.ranks,
        *operations,
        *edges,
        match(*sides),
        reading.ranks - len(reading.seen),
    )


def program(goal: Goal, costs: Costs | None = None, fidelity: Fidelity = "logp") -> Program:
    """Return a schedule as a program: a process for each rank, each operation, and each message
    that arrives.

    Raises A077, impossible costs; A078, receives without a known message.

    The processor of each rank is a resource, first come, first served.  A send occupies it for o +
    n O, a computation for its duration.  A message that arrives occupies it for o + n O once it is
    complete, whether its receive is posted or not.  In ``logp`` the first byte of a message is
    free, as in LogGOPSim; in ``flow`` all bytes count.

    Returns processes in the order of the ranks, then of the operations, then of the messages.
    """
    costs = costs or Costs()
    _sound(costs)
    overheads: dict[str, Any] = {
        "overhead": costs.overhead,
        "overhead_per_byte": costs.overhead_per_byte,
    }
    return operation_program(
        traffic(goal),
        eager_limit=costs.eager_limit,
        first_byte_free=fidelity == "logp",
        **overheads,
    )


def traffic(goal: Goal) -> OperationGraph:
    """Return a schedule as traffic, whose activities are operations in the order of the file.

    Raises A078, receives without a known message.
    """
    met, sends, receives = goal.matched, goal.sends, goal.receives
    refuse_lone(
        met,
        Side(goal.peer[receives], goal.rank[receives], goal.tag[receives], goal.line[receives]),
        goal.name,
    )
    sender, receiver = sends[met.send], receives[met.receive]
    messages = Messages(
        sender,
        sender,
        receiver,
        receiver,
        np.full(len(sender), -1),
        goal.amount[sender].astype(np.float64),
    )
    calc = np.where(goal.kind == CALC, goal.amount * 1e-9, 0.0)
    handed = np.where(goal.kind == SEND, goal.amount, 0).astype(np.float64)
    processor = np.unique(goal.rank * _MOST_UNITS + goal.cpu, return_inverse=True)[1]
    none = (np.zeros(len(goal.rank)), np.zeros(goal.ranks))
    as_read: dict[str, Any] = {
        name: getattr(goal, name) for name in ("kind", "before", "after", "by_start", "described")
    }
    of_graph: dict[str, Any] = {
        "handed_bytes": handed,
        "processor": processor,
        "findings": goal.figures.findings,
        **as_read,
    }
    return OperationGraph(
        goal.ranks, goal.rank, calc, *none, messages, (), math.nan, len(met.lone_sends), **of_graph
    )


def _sound(costs: Costs) -> None:
    for name, value in costs.__dict__.items():
        if not (value >= 0 and (math.isfinite(value) or name == "eager_limit")):
            raise error_of("A077.cost", found=f"{name} of {value:g}")
