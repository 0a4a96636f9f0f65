"""Rows of the table ``mpi`` from the calls and links of a Paje trace.

The first link that begins in a call that sends is its message; a receive has the first that ends in it.  Another link that ends belongs
to the oldest receive that its rank has open, and the wait that it ends in completes it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.mpi.readers.paje.calls import Calls
from turnbuckle.mpi.readers.paje.events import Value
from turnbuckle.mpi.readers.paje.links import Links, Pairs
from turnbuckle.trace.readers.parts.columns import by_two, sorted_by
from turnbuckle.trace.readers.parts.first_come import FirstCome
from turnbuckle.trace.readers.parts.mpi_tables import COLLECTIVE, LARGEST, MESSAGE, NO, OTHER, REQUEST, ROOTED, carried, mpi_table
from turnbuckle.trace.readers.parts.text_numbers import Int, Mask

#: How many requests waits complete; of others as many as their size says.
_ASKED: Final = {"wait": 1, "waitany": 1, "waitsome": 0}
_ALL: Final = 1 << 30
_KINDS: Final = {"wait": REQUEST, "start": REQUEST, "collective": COLLECTIVE, "other": OTHER}


class _Held:
    """Columns of calls."""

    def __init__(self, calls: Calls) -> None:
        self.begins, self.ends, self.start, self.end, self.size = (calls.calls[name] for name in ("begins", "ends", "start", "end", "size"))
        self.place, self.value = calls.calls["place"], calls.calls["value"]

    def __len__(self) -> int:
        return len(self.begins)


class Rows:
    """Rows of all calls: first one of each, then the receives of calls that also send, further messages, further requests of waits.

    Parameters
    ----------
    rank : of each container; `NO` where it is none.

    Attributes
    ----------
    elements : bytes of one element as each message tells it; 0 where it is no whole number.
    isend : the event in which a start first sends; -1 where none does.
    flaws : what is not told, counted.
    """

    def __init__(self, values: list[Value], found: Calls, links: Links, pairs: Pairs, rank: Int, flaws: Counter[str]) -> None:
        self.values, self.links, self.flaws = values, links, flaws
        self.calls = calls = _Held(found)
        self._rank = rank[self.calls.place]
        self.elements: set[int] = set()
        self._later = self._of_value([value.does.startswith("i") for value in values])
        self._kind = self._of_value([_KINDS.get(value.sort, MESSAGE) for value in values])
        self._both = np.flatnonzero(self._are("both"))
        #: of each call its receive's row
        self._second = np.full(len(calls), -1, dtype=np.int64)
        self._second[self._both] = len(calls) + np.arange(len(self._both))
        self._numbered(*self._sends())
        received = self._receives()
        further = self._waits(*received)

        self._call = np.concatenate([np.arange(len(calls)), self._both, links.call[self._extra], further[0]])
        made = calls.begins, calls.begins[self._both], links.event[self._extra], calls.ends[further[0]]
        self._made = np.concatenate(made)
        self._known = {name: np.full(len(self._call), NO, np.int64) for name in ("size_bytes", "tag", "communicator", "request", "partner")}
        self._told(*further)
        self._join(pairs, rank)
        del self.links

    def _of_value(self, told: list[Any]) -> NDArray[Any]:
        """What is told of each value, for each call."""
        return np.array(told)[self.calls.value] if len(self.calls) else np.zeros(0, bool)

    def _are(self, *sorts: str) -> Mask:
        return self._of_value([value.sort in sorts for value in self.values]).astype(bool)

    # --- messages and requests ---

    def _sends(self) -> tuple[Int, Mask]:
        """Rows of the links that begin; returns those that have another row than their call's first, and which leave a request."""
        calls, links, row = self.calls, self.links, np.full(len(self.links.event), -1, dtype=np.int64)
        senders = links.which(self._are("send", "both", "start"), True)
        call, turn = links.call[senders], links.turn(senders)
        start, send = self._are("start")[call], self._are("send")[call]
        first, extra = (turn == 0) & ~start, start | (send & (turn > 0))
        row[senders[first]] = call[first]
        self.flaws["homeless"] += int((links.live & links.starts).sum() - (first | extra).sum())
        elements, size = calls.size[call], links.size[senders]
        told = send & (first | extra) & (elements > 0) & (size > 0)
        each, over = np.divmod(size[told], elements[told])
        self.elements = set(np.unique(np.where(over == 0, each, 0)).tolist())
        self.isend = int(links.event[senders[start]].min(initial=1 << 62))
        self._row, self._extra = row, senders[extra]
        return senders[first], (start | self._later[call])[extra]

    def _numbered(self, first: Int, asked: Mask) -> None:
        """Number the requests in the order of the file."""
        calls, links = self.calls, self.links
        base = np.flatnonzero(self._later & (self._kind == MESSAGE))
        event = np.concatenate([calls.begins[base], links.event[self._extra[asked]]])
        number = np.empty(len(event), dtype=np.int64)
        number[np.argsort(event, kind="stable")] = np.arange(1, len(event) + 1)
        #: request of each call, and of each link that begins
        self._of_call, self._of_link = (np.full(n, NO, dtype=np.int64) for n in (len(calls), len(links.event)))
        self._of_call[base] = number[: len(base)]
        self._of_link[first] = self._of_call[links.call[first]]
        self._of_link[self._extra[asked]] = number[len(base) :]
        self._row[self._extra] = len(calls) + len(self._both) + np.arange(len(self._extra))

    def _receives(self) -> tuple[Int, Int, Int]:
        """Rows of the links that end; returns waits and the requests that they complete so, and what each wait leaves open."""
        calls, links = self.calls, self.links
        later = self._are("receive") & self._later
        direct = links.which(self._are("receive", "both") & ~later, False)
        direct = direct[links.turn(direct) == 0]
        second = self._second[links.call[direct]]
        self._row[direct] = np.where(second >= 0, second, links.call[direct])
        asks = links.live & ~links.starts
        asks[direct] = False
        asking, coming, waits = np.flatnonzero(asks), np.flatnonzero(later), np.flatnonzero(self._are("wait"))
        queue = _Queues(
            [
                (calls.place[coming], calls.begins[coming]),
                (links.place[asking], links.event[asking]),
                (calls.place[waits], calls.ends[waits]),
            ],
            np.ones(len(asking), dtype=np.int64),
        )
        served, receive = asking[queue.by], coming[queue.got]
        self._row[served] = receive
        wait = np.append(self._are("wait"), False)[links.call[served]]
        self.flaws["homeless"] += len(asking) - len(served)
        self.flaws["oldest"] += int((~wait).sum())
        return links.call[served[wait]], self._of_call[receive[wait]], queue.waiting

    def _waits(self, completed: Int, request: Int, open_: Int) -> tuple[Int, Int]:
        """Requests that waits complete: those whose messages end in it, and the oldest sends for the rest of its number.

        Returns calls and requests of all that have not their call's first row.
        """
        calls, links = self.calls, self.links
        waits = np.flatnonzero(self._are("wait"))
        done = np.bincount(completed, minlength=len(calls))[waits]
        self.flaws["oldest"] += int(done[open_ > 0].sum())
        usual = self._of_value([_ASKED.get(v.does, NO) if v.does.startswith("wait") else 0 for v in self.values])[waits]
        size = calls.size[waits]
        asked = np.where(usual != NO, usual, np.where(size != NO, size, _ALL))
        coming = np.flatnonzero(self._of_link != NO)
        queue = _Queues(
            [(links.place[coming], links.event[coming]), (calls.place[waits], calls.ends[waits])], np.maximum(asked - done, 0)
        )  # fmt: skip
        self.flaws["guessed"] += int(queue.served[queue.waiting > 0].sum())
        call = np.concatenate([completed, waits[queue.by]])
        request = np.concatenate([request, self._of_link[coming[queue.got]]])
        order = np.argsort(call, kind="stable")
        call, request = call[order], request[order]
        first = np.diff(call, prepend=-1) != 0
        self._of_call[call[first]] = request[first]
        return call[~first], request[~first]

    # --- rows ---

    def _told(self, call: Int, request: Int) -> None:
        """What is known of rows without their other ends."""
        links, known = self.links, self._known
        self._kinds = self._kind[self._call].astype(np.int8)
        self._kinds[self._row[self._extra]] = MESSAGE
        self._started = np.zeros(len(self._call), dtype=bool)
        self._started[self._row[self._extra[self._are("start")[links.call[self._extra]]]]] = True
        known["communicator"][: len(self.calls)][self._kind == COLLECTIVE] = 1
        known["request"][: len(self.calls)] = self._of_call
        begun = np.flatnonzero(links.starts & (self._row >= 0))
        known["request"][self._row[self._extra]] = self._of_link[self._extra]
        known["request"][len(self._call) - len(call) :] = request
        known["size_bytes"][self._row[begun]], known["tag"][self._row[begun]] = links.size[begun], links.tag[begun]
        known["communicator"][self._row[self._row >= 0]] = 1

    def _join(self, pairs: Pairs, rank: Int) -> None:
        """Messages that have both their ends."""
        links, known = self.links, self._known
        start, end = self._row[pairs.start], self._row[pairs.end]
        known["partner"][start[start >= 0]] = rank[links.place[pairs.end[start >= 0]]]
        told, end = pairs.start[end >= 0], end[end >= 0]
        known["partner"][end], known["size_bytes"][end], known["tag"][end] = rank[links.place[told]], links.size[told], links.tag[told]

    @property
    def silent(self) -> int:
        """Messages whose other end is not known."""
        return int((self._kinds[self._known["partner"] == NO] == MESSAGE).sum())

    def __len__(self) -> int:
        return len(self._call)

    def sizes(self, members: int) -> tuple[int, Int, Int]:
        """Bytes of an element, 0 where messages do not tell it, and bytes that the first row of each call sends and receives."""
        calls, each = self.calls, next(iter(self.elements)) if len(self.elements) == 1 else 0
        sent, received = (np.full(len(calls), NO, dtype=np.int64) for _ in range(2))
        for number, value in enumerate(self.values):
            if value.sort != "collective":
                continue
            mine = np.flatnonzero(calls.value == number)
            self.flaws["rootless"] += len(mine) * (value.does.removeprefix("i") in ROOTED)
            if value.does.removeprefix("i") == "barrier":
                sent[mine] = received[mine] = 0
                continue
            # whole numbers of Python have no end
            most = (LARGEST - 1) // (each * members) if each else -1
            mine, rest = mine[(calls.size[mine] != NO) & (calls.size[mine] <= most)], len(mine)
            sent[mine], received[mine] = carried(value.does, calls.size[mine] * each, calls.size[mine] * each, members, False)
            self.flaws["elements"] += len(mine)
            self.flaws["unsized"] += rest - len(mine)
        return each, sent, received

    def table(self, names: Int, isend: int, by: int, sent: Int, received: Int) -> pl.DataFrame:
        """The table ``mpi``, in the order of begin, rank and making.

        Parameters
        ----------
        names : of each value.
        isend : name of what a start sends.
        by : what times are moved by [ns].
        sent, received : bytes of each call's first row, where it is a collective.
        """
        calls = self.calls
        order = np.argsort(self._made, kind="stable")
        order = order[by_two(calls.start[self._call[order]], self._rank[self._call[order]])]
        call = self._call[order]
        first = order < len(calls)

        def column(name: str) -> Any:
            match name:
                case "start_ns":
                    return calls.start[call] + by
                case "end_ns":
                    # a send of a call that also receives has no length
                    short = self._are("both")[call] & first
                    return np.where(short, calls.start[call], calls.end[call]) + by
                case "thread":
                    return self._rank[call] + 1 << 24 | 1
                case "kind":
                    return self._kinds[order].astype(np.int64)
                case "name":
                    text = names[calls.value[call]]
                    return np.where(self._started[order], isend, text)
                case "receive_bytes":
                    return np.where(first, received[call], NO)
                case "size_bytes":
                    own = np.where(first, sent[call], NO)
                    return np.where(own != NO, own, self._known.pop(name)[order])
            # each is asked for once
            return self._known.pop(name)[order] if name in self._known else np.full(len(call), NO, dtype=np.int64)

        return mpi_table(column)


class _Queues:
    """Queues, one of each container, of what comes first and who asks for it.

    Parameters
    ----------
    columns : containers and events of what comes, of who asks, and of who only looks.
    asked : how many each asks for.

    Attributes
    ----------
    by, got : who gets, once for each that it gets, and what.
    served, waiting : how many each of the last of `columns` gets, and leaves.
    """

    def __init__(self, columns: list[tuple[NDArray[Any], Int]], asked: Int) -> None:
        counts = [len(event) for _, event in columns]
        place, event = (np.concatenate([column[at] for column in columns]) for at in (0, 1))
        order = np.argsort(event, kind="stable")
        order = order[sorted_by(place[order])]
        span = np.cumsum(np.diff(place[order], prepend=-1) != 0) - 1
        asks = np.zeros(len(order), dtype=np.int64)
        asks[counts[0] : counts[0] + counts[1]] = asked
        queue = FirstCome(span, order < counts[0], asks[order])
        self.by = np.repeat(order, queue.served) - counts[0]
        self.got = order[order < counts[0]][queue.fetched()]
        # in the order of the file
        back = np.argsort(event[self.by + counts[0]], kind="stable")
        self.by, self.got = self.by[back], self.got[back]
        served, waiting = (np.empty(len(order), dtype=np.int64) for _ in range(2))
        served[order], waiting[order] = queue.served, queue.waiting
        self.served, self.waiting = served[len(order) - counts[-1] :], waiting[len(order) - counts[-1] :]
