"""SimGrid's time-independent traces: the operations of each rank of an MPI program, in order,
without times.

An anchor file names a text file for each rank, or one file holds all ranks; a line is ``RANK ACTION
ARGUMENTS``.  Actions and their arguments have the meaning that SMPI's replay of SimGrid 3.32 gives
them: counts are of the data type at the end of the line (bytes, or doubles where ``init`` has an
argument), collectives are of all ranks, ``waitall`` completes all open requests, ``test`` completes
nothing.

Errors: P020, P021, P022, A079.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.errors import TurnbuckleError, clipped, did_you_mean, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.mpi.collectives.collectives import operation_of
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic
from turnbuckle.mpi.schedules.figures import Figures
from turnbuckle.mpi.schedules.matching import ANY, Matched, Side, match, refuse_lone
from turnbuckle.mpi.schedules.ti_files import ARGUMENTS, SILENT, lines_of_each

#: Bytes of the data types that SimGrid numbers from 0: double, int, char, short, long, float, byte,
#: long long, and so on.
_C_TYPES: Final = (8, 4, 1, 2, 8, 4, 1, 8, 1, 1, 2, 4, 8, 8, 16, 4, 1, 1, 2)
TYPES: Final = (*_C_TYPES, 4, 8, 1, 2, 4, 8, 8, 16, 32, 8, 8, 8, 16, 16, 8, 8, 8, 16, 16)
_DOUBLE, _BYTE = TYPES[0], TYPES[6]
#: Rank that stands for no partner; in a send every other negative number means the same.
_NOBODY: Final = -666
_LARGEST: Final = float(1 << 56)
#: Actions that are no calls of MPI.
_NO_CALLS: Final = (b"compute", b"sleep", b"location")


@dataclass
class _Collective:
    """Collective call of one rank: its name, its root or -1, the block it gives [B], its call, its
    line.
    """

    name: str
    root: int
    block: float
    place: int
    line: int


@dataclass
class _Ends:
    """One side of all messages."""

    source: array[int] = field(default_factory=lambda: array("q"))
    target: array[int] = field(default_factory=lambda: array("q"))
    tag: array[int] = field(default_factory=lambda: array("q"))
    size: array[int] = field(default_factory=lambda: array("q"))
    place: array[int] = field(default_factory=lambda: array("q"))
    done: array[int] = field(default_factory=lambda: array("q"))
    line: array[int] = field(default_factory=lambda: array("q"))

    def add(self, source: int, target: int, tag: int, size: int, place: int, line: int) -> int:
        columns = (self.source, self.target, self.tag, self.size, self.place, self.done, self.line)
        for column, value in zip(
            columns, (source, target, tag, size, place, -1, line), strict=True
        ):
            column.append(value)
        return len(self.line) - 1

    def side(self) -> Side:
        return Side(
            *(np.array(c, dtype=np.int64) for c in (self.source, self.target, self.tag, self.line))
        )


@dataclass(frozen=True)
class TimeIndependent:
    """Parsed time-independent trace."""

    name: str
    ranks: int
    rank: Int  #: rank of each call that involves other ranks, rank by rank, shape (calls,)
    #: call, calls: index of each call's name in `calls`, and the names in lower case
    call: Int
    calls: tuple[str, ...]
    #: flops, sleep_seconds: work [flop] and sleep [s] before each call
    flops: Float
    sleep_seconds: Float
    #: tail_flops, tail_seconds: work [flop] and sleep [s] after the last call of each rank, shape
    #: (ranks,)
    tail_flops: Float
    tail_seconds: Float
    #: messages, rounds: messages and collectives, as in `turnbuckle.mpi.replay.messages`
    messages: Messages
    rounds: tuple[Rounds, ...]
    receives: Side  #: receiving side as written, which errors cite
    matched: Matched  #: pairs of sends and receives that are messages
    figures: Figures

    def traffic(self, flops_per_second: float) -> Traffic:
        """Return the traffic of the ranks, with work priced at a processor speed [flop/s].

        Raises A077, an invalid speed; A078, receives without a known message.

        Its recorded run time is nan, because nothing was run.
        """
        if not (math.isfinite(flops_per_second) and flops_per_second > 0):
            raise error_of("A077.speed", found=f"{flops_per_second:g} flop/s")
        refuse_lone(self.matched, self.receives, self.name)
        gap, tail = (
            f / flops_per_second + t
            for f, t in ((self.flops, self.sleep_seconds), (self.tail_flops, self.tail_seconds))
        )
        none, lone = np.zeros(len(self.rank)), len(self.matched.lone_sends)
        traffic = Traffic(
            self.ranks, self.rank, gap, none, tail, self.messages, self.rounds, math.nan, lone
        )
        return replace(traffic, call=self.call, calls=self.calls)


class _Rank:
    """Parser of the actions of one rank."""

    def __init__(self, rank: int, ranks: int, read: _Reader) -> None:
        self.rank, self.ranks, self.read = rank, ranks, read
        self.default = _BYTE
        self.flops = self.sleep = 0.0
        self.open: dict[tuple[int, int, int], deque[tuple[_Ends, int]]] = {}
        self.open_count = 0
        self.collectives: list[_Collective] = []
        self.line = 0

    def call(self, name: str) -> int:
        """Add a call with the work before it, and return its index."""
        read = self.read
        read.call.append(read.names.setdefault(name, len(read.names)))
        for column, value in ((read.flops, self.flops), (read.sleep, self.sleep)):
            column.append(value)
        read.rank.append(self.rank)
        self.flops = self.sleep = 0.0
        return len(read.rank) - 1

    # --- arguments --------------------------------------------------------------------------------

    def whole(self, words: list[bytes], position: int, least: int = 0) -> int:
        """Return an argument as a whole number."""
        try:
            return _at_least(int(words[position]), least)
        except ValueError:
            try:
                number = float(words[position])
                if number.is_integer() and least <= number < _LARGEST:
                    return int(number)
            except ValueError:
                pass
            raise self.wrong(
                words,
                f"argument {position - 1} is no whole number"
                + (f" from {least}" if least >= 0 else ""),
            ) from None

    def amount(self, words: list[bytes], position: int) -> float:
        """Return an argument as an amount of 0 or more."""
        try:
            number = float(words[position])
        except ValueError:
            number = math.nan
        if not 0 <= number < _LARGEST:
            raise self.wrong(words, f"argument {position - 1} is no amount of 0 or more")
        return number

    def each(self, words: list[bytes], position: int) -> int:
        """Return the size of the data type that an argument names, or of the default type where the
        argument is missing [B].

        A type that the program created has the number -1, and SimGrid takes its size for 0.
        """
        if position >= len(words):
            return self.default
        number = self.whole(words, position, least=-1)
        if number >= len(TYPES):
            raise self.wrong(words, f"data type {number} is not known")
        if number >= 0:
            return TYPES[number]
        self.read.derived += 1
        return 0

    def peer(self, words: list[bytes], position: int) -> int:
        """Return an argument as a rank; `ANY` for any."""
        number = self.whole(words, position, least=-(1 << 31))
        if number >= self.ranks:
            raise self.wrong(words, f"rank {number} of {self.ranks}")
        return number if number >= 0 or number == _NOBODY else ANY

    def root(self, words: list[bytes], position: int) -> int:
        number = self.whole(words, position) if position < len(words) else 0
        if number >= self.ranks:
            raise self.wrong(words, f"root {number} of {self.ranks} ranks")
        return number

    def wrong(self, words: list[bytes], what: str) -> TurnbuckleError:
        excerpt = clipped(b" ".join(words[:8]).decode("utf-8", "replace"))
        return error_of(
            "P021.line",
            where=f"{self.read.files[self.rank].name}:{self.line}",
            found=f"rank {self.rank}: {excerpt}",
            cause=what,
        )

    # --- actions ----------------------------------------------------------------------------------

    def message(self, words: list[bytes]) -> None:
        name = words[1]
        partner, tag = self.peer(words, 2), self.whole(words, 3, least=-(1 << 31))
        receives = name in (b"recv", b"irecv")
        count = self.whole(words, 4, least=-1 if receives else 0)
        size = max(count, 0) * self.each(words, 5)
        if partner == _NOBODY or (not receives and partner == ANY):
            return
        ends = self.read.receives if receives else self.read.sends
        source, target = (partner, self.rank) if receives else (self.rank, partner)
        place = self.call(name.decode())
        index = ends.add(source, target, tag if tag >= 0 else ANY, size, place, self.line)
        if name[:1] == b"i":
            self.open.setdefault((source, target, tag), deque()).append((ends, index))
            self.open_count += 1
        else:
            ends.done[index] = place

    def both(self, words: list[bytes]) -> None:
        """Add a call that sends and receives; SimGrid gives both messages the tag 0."""
        to, size = self.peer(words, 3), self.whole(words, 2) * self.each(words, 6)
        source, expected = self.peer(words, 5), self.whole(words, 4) * self.each(words, 7)
        place = self.call("sendrecv")
        if to >= 0:
            index = self.read.sends.add(self.rank, to, 0, size, place, self.line)
            self.read.sends.done[index] = place
        if source != _NOBODY:
            index = self.read.receives.add(source, self.rank, 0, expected, place, self.line)
            self.read.receives.done[index] = place

    def wait(self, words: list[bytes]) -> None:
        source, target, tag = (
            self.peer(words, 2),
            self.peer(words, 3),
            self.whole(words, 4, least=-(1 << 31)),
        )
        place = self.call("wait")
        waiting = self.open.get((source, target, tag)) or self.open.get((ANY, target, tag))
        if not waiting:
            self.read.not_open += 1
            return
        ends, index = waiting.popleft()
        ends.done[index] = place
        self.open_count -= 1

    def waitall(self, words: list[bytes]) -> None:
        count = self.whole(words, 2) if len(words) > 2 else self.open_count
        self.read.other_counts += count != self.open_count
        self.complete(self.call("waitall"))

    def complete(self, place: int) -> None:
        for waiting in self.open.values():
            for ends, index in waiting:
                ends.done[index] = place
        self.open.clear()
        self.open_count = 0

    def compute(self, words: list[bytes]) -> None:
        self.flops += self.amount(words, 2)

    def sleeping(self, words: list[bytes]) -> None:
        self.sleep += self.amount(words, 2)

    def init(self, words: list[bytes]) -> None:
        self.default = _DOUBLE if len(words) > 2 else _BYTE

    def test(self, words: list[bytes]) -> None:
        self.read.tests += 1

    def collective(self, words: list[bytes]) -> None:
        name, n = words[1].decode("ascii"), self.ranks
        root, block, work = -1, 0.0, 0.0
        if name == "bcast":
            root, block = self.root(words, 3), self.whole(words, 2) * self.each(words, 4)
        elif name == "reduce":
            root, block, work = (
                self.root(words, 4),
                self.whole(words, 2) * self.each(words, 5),
                self.amount(words, 3),
            )
        elif name in ("allreduce", "scan", "exscan"):
            block, work = self.whole(words, 2) * self.each(words, 4), self.amount(words, 3)
        elif name in ("alltoall", "allgather"):
            block = self.whole(words, 2) * self.each(words, 4)
        elif name == "gather":
            root, block = self.root(words, 4), self.whole(words, 2) * self.each(words, 5)
        elif name == "scatter":
            root, block = self.root(words, 4), self.whole(words, 3) * self.each(words, 6)
        elif name == "gatherv":
            root, block = self.root(words, 3 + n), self.whole(words, 2) * self.each(words, 4 + n)
        elif name == "scatterv":
            root, block = (
                self.root(words, 3 + n),
                self.whole(words, 2 + n) * self.each(words, 5 + n),
            )
        elif name == "allgatherv":
            # Displacements between the counts and the data types are optional.
            block = self.whole(words, 2) * (
                self.each(words, 3 + n)
                if len(words) <= 5 + n or len(words) > 3 + 2 * n
                else self.default
            )
        elif name == "alltoallv":
            block = (
                sum(self.whole(words, 3 + k) for k in range(n)) * self.each(words, 4 + 2 * n) / n
            )
        elif name == "reducescatter":
            block, work = (
                sum(self.whole(words, 2 + k) for k in range(n)) * self.each(words, 3 + n) / n,
                self.amount(words, 2 + n),
            )
        self.collectives.append(
            _Collective(name, root, float(block), self.call(_called(name)), self.line)
        )
        # The reduction's own work follows the call.
        self.flops += work


def _called(action: str) -> str:
    """Return the MPI name of a collective."""
    return "reduce_scatter" if action == "reducescatter" else action


def _needs(name: str, ranks: int) -> int:
    """Return the smallest number of words in a line of an action."""
    more = {
        "gatherv": ranks + 1,
        "allgatherv": ranks + 1,
        "scatterv": ranks + 1,
        "reducescatter": ranks + 1,
        "alltoallv": 2 * ranks + 2,
    }
    return 2 + more.get(name, ARGUMENTS[name])


_DOES: Final[dict[str, Callable[[_Rank, list[bytes]], None]]] = {
    **{
        "init": _Rank.init,
        "test": _Rank.test,
        "wait": _Rank.wait,
        "waitall": _Rank.waitall,
        "compute": _Rank.compute,
    },
    **{"sleep": _Rank.sleeping, "sendRecv": _Rank.both},
    **dict.fromkeys(("send", "isend", "recv", "irecv"), _Rank.message),
}


class _Reader:
    """Parser of all ranks of a trace."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files
        self.rank, self.call, self.flops, self.sleep = (
            array("q"),
            array("q"),
            array("d"),
            array("d"),
        )
        self.names: dict[str, int] = {}
        self.sends, self.receives = _Ends(), _Ends()
        self.not_open = self.other_counts = self.tests = self.made = self.left_open = (
            self.actions
        ) = self.derived = 0

    def read_rank(
        self, rank: int, lines: Iterator[tuple[int, list[bytes]]]
    ) -> tuple[_Rank, float, float]:
        """Read the actions of a rank, and return the rank with the work after its last call."""
        parser = _Rank(rank, len(self.files), self)
        actions = {
            name.encode(): (
                _DOES.get(name, _Rank.collective),
                _needs(name, parser.ranks),
                name in SILENT,
            )
            for name in ARGUMENTS
        }
        for number, words in lines:
            parser.line = number
            if len(words) < 2:
                raise parser.wrong(words, "a line is RANK ACTION ARGUMENTS")
            action = actions.get(words[1])
            if action is None:
                near = did_you_mean(words[1].decode("utf-8", "replace"), ARGUMENTS)
                raise parser.wrong(words, f"no such action{'; ' + near if near else ''}")
            does, least, silent = action
            if len(words) < least:
                raise parser.wrong(words, f"{least - 2} arguments at least are needed")
            self.actions += words[1] not in _NO_CALLS
            if silent:
                self.made += words[1] in (b"comm_split", b"comm_dup")
            else:
                does(parser, words)
        if parser.open_count:
            # SimGrid completes all open requests at the end.
            self.left_open += parser.open_count
            parser.complete(parser.call("finalize"))
        return parser, parser.flops, parser.sleep


def _at_least(number: int, least: int) -> int:
    """Return a number; raise `ValueError` where it is below `least` or too large."""
    if not least <= number < _LARGEST:
        raise ValueError
    return number


def read(path: Path) -> TimeIndependent:
    """Read a trace; `path` is its anchor, or the file that holds all ranks.

    Raises P020, P021, P022; A079, ranks that do not take part in the same collectives.
    """
    files, parts = lines_of_each(path)
    reader = _Reader(files)
    done = [reader.read_rank(rank, lines) for rank, lines in enumerate(parts)]
    sends, receives = reader.sends, reader.receives
    side = receives.side()
    matched = match(sends.side(), side)
    size, receive_size = (np.array(e.size, dtype=np.int64) for e in (sends, receives))
    shorter = int(
        (receive_size[matched.receive] < size[matched.send])[
            receive_size[matched.receive] > 0
        ].sum()
    )
    places = [
        np.array(c, dtype=np.int64)
        for c in (sends.place, sends.done, receives.place, receives.done)
    ]
    send, receive = matched.send, matched.receive
    carried = size[send].astype(np.float64)
    messages = Messages(
        places[0][send],
        places[1][send],
        places[2][receive],
        places[3][receive],
        np.full(len(send), -1),
        carried,
    )
    rounds, counts = _rounds([who for who, _, _ in done])
    lone = len(matched.lone_sends) + len(matched.lone_receives)
    flops, sleep = np.array(reader.flops), np.array(reader.sleep)
    tails = np.array([[f, s] for _, f, s in done])
    counted = (
        len(files),
        reader.actions,
        len(size),
        sum(size.tolist()),
        len(receive_size),
        counts,
        len(matched.send),
        lone,
    )
    work_and_sleep = (
        float(flops.sum() + tails[:, 0].sum()),
        float(sleep.sum() + tails[:, 1].sum()),
    )
    figures = Figures(
        "simgrid-ti", "", *counted, *work_and_sleep, tuple(_findings(reader, lone, shorter))
    )
    rank = np.array(reader.rank, dtype=np.int64)
    call = np.array(reader.call, dtype=np.int64)
    work = (flops, sleep, tails[:, 0], tails[:, 1])
    return TimeIndependent(
        path.name,
        len(files),
        rank,
        call,
        tuple(reader.names),
        *work,
        messages,
        rounds,
        side,
        matched,
        figures,
    )


def _findings(read: _Reader, lone: int, shorter: int) -> list[Finding]:
    """Return what a user should know about the trace."""
    open_words = {
        "waits for what is not open, which do nothing": read.not_open,
        "waits for all whose count is not what is open, which complete all": read.other_counts,
        "requests that nothing waits for, complete at the end": read.left_open,
        "tests, which complete nothing": read.tests,
    }
    out = [
        finding(
            "P150",
            sum(open_words.values()),
            "; ".join(f"{words}: {n}" for words, n in open_words.items() if n),
        )
    ]
    doubts = f"receives that are shorter: {shorter}; data types without a size: {read.derived}"
    out += [
        finding("P151", read.made),
        finding("A347", lone),
        finding("A348", shorter + read.derived, doubts),
    ]
    return [f for f in out if f.count]


def _rounds(ranks: list[_Rank]) -> tuple[tuple[Rounds, ...], dict[str, int]]:
    """Return the collectives by operation and root, and the number of calls by name; the k-th calls
    of all ranks are one collective.
    """
    first = ranks[0].collectives
    for rank_parser in ranks[1:]:
        for k in range(max(len(first), len(rank_parser.collectives))):
            own_call = rank_parser.collectives[k] if k < len(rank_parser.collectives) else None
            first_call = first[k] if k < len(first) else None
            if (
                own_call is None
                or first_call is None
                or (own_call.name, own_call.root) != (first_call.name, first_call.root)
            ):
                raise _differ(rank_parser, k, own_call, first_call)
    counts: dict[str, int] = {}
    groups: dict[tuple[str, int], list[int]] = {}
    for k, collective in enumerate(first):
        name = _called(collective.name)
        counts[name.upper()] = counts.get(name.upper(), 0) + len(ranks)
        groups.setdefault((name, collective.root), []).append(k)
    rounds = []
    for (name, root), which in groups.items():
        operation = operation_of(name, plain=False)
        assert operation is not None, name
        activity = np.array(
            [[rank_parser.collectives[k].place for rank_parser in ranks] for k in which],
            dtype=np.int64,
        )
        block = np.array(
            [[rank_parser.collectives[k].block for rank_parser in ranks] for k in which]
        )
        rounds.append(Rounds(operation, block.mean(axis=1), activity, max(root, 0)))
    return tuple(rounds), dict(sorted(counts.items()))


def _differ(
    rank_parser: _Rank, k: int, own_call: _Collective | None, first_call: _Collective | None
) -> TurnbuckleError:
    """Return the error A079 for the k-th collective."""

    def describe(collective: _Collective | None, rank: int) -> str:
        if collective is None:
            return f"rank {rank} has none"
        root = f" from {collective.root}" if collective.root >= 0 else ""
        return f"rank {rank}, line {collective.line}: {collective.name}{root}"

    return error_of(
        "A079",
        where=rank_parser.read.files[rank_parser.rank].name,
        found=(
            f"collective {k + 1}: {describe(first_call, 0)}; {describe(own_call, rank_parser.rank)}"
        ),
    )
