"""Rows of the table ``mpi`` from the calls and links of a Paje trace.

The first link that begins in a sending call is the call's message, and a receive has the first link
that ends in it.  Any other link that ends belongs to the oldest receive that its rank has open, and
the wait in which it ends completes that receive.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.mpi.readers.paje.calls import Calls
from turnbuckle.mpi.readers.paje.events import Value
from turnbuckle.mpi.readers.paje.links import Links, Pairs
from turnbuckle.trace.ids import of_rank
from turnbuckle.trace.readers.parts.columns import by_two, sorted_by
from turnbuckle.trace.readers.parts.first_come import FirstCome
from turnbuckle.trace.readers.parts.mpi_tables import (
    COLLECTIVE,
    LARGEST,
    MESSAGE,
    NO,
    OTHER,
    REQUEST,
    ROOTED,
    carried,
    mpi_table,
)

#: How many requests each kind of wait completes; other waits complete as many as their recorded
#: size.
_ASKED: Final = {"wait": 1, "waitany": 1, "waitsome": 0}
_ALL: Final = 1 << 30
_KINDS: Final = {"wait": REQUEST, "start": REQUEST, "collective": COLLECTIVE, "other": OTHER}


class _CallColumns:
    """Columns of the calls as arrays."""

    def __init__(self, calls: Calls) -> None:
        self.begins, self.ends, self.start, self.end, self.size = (
            calls.calls[name] for name in ("begins", "ends", "start", "end", "size")
        )
        self.place, self.value = calls.calls["place"], calls.calls["value"]

    def __len__(self) -> int:
        return len(self.begins)


class Rows:
    """Rows of all calls: first one row per call, then the receives of calls that also send, further
    messages, and further requests of waits.

    Parameters
    ----------
    rank : rank of each container; `NO` where it has none.

    Attributes
    ----------
    elements : distinct values of bytes per element that the messages show; 0 where it is not a
        whole number.
    isend : the first event in which a start call sends; 1 << 62 where none does.
    flaws : counts of what the trace does not record.
    """

    def __init__(
        self,
        values: list[Value],
        calls_read: Calls,
        links: Links,
        pairs: Pairs,
        rank: Int,
        flaws: Counter[str],
    ) -> None:
        self.values, self.links, self.flaws = values, links, flaws
        self.calls = calls = _CallColumns(calls_read)
        self._rank = rank[self.calls.place]
        self.elements: set[int] = set()
        self._nonblocking = self._of_value([value.does.startswith("i") for value in values])
        self._kind = self._of_value([_KINDS.get(value.sort, MESSAGE) for value in values])
        self._both = np.flatnonzero(self._are("both"))
        #: row of each call's receive, for calls that also send; else -1
        self._receive_row = np.full(len(calls), -1, dtype=np.int64)
        self._receive_row[self._both] = len(calls) + np.arange(len(self._both))
        self._numbered(*self._sends())
        received = self._receives()
        further = self._waits(*received)

        self._call = np.concatenate(
            [np.arange(len(calls)), self._both, links.call[self._extra], further[0]]
        )
        made = (
            calls.begins,
            calls.begins[self._both],
            links.event[self._extra],
            calls.ends[further[0]],
        )
        self._made = np.concatenate(made)
        self._columns = {
            name: np.full(len(self._call), NO, np.int64)
            for name in ("size_bytes", "tag", "communicator", "request", "partner")
        }
        self._fill_columns(*further)
        self._join(pairs, rank)
        del self.links

    def _of_value(self, entries: list[Any]) -> NDArray[Any]:
        """Return for each call the entry of its value."""
        return np.array(entries)[self.calls.value] if len(self.calls) else np.zeros(0, bool)

    def _are(self, *sorts: str) -> Bool:
        """Return a mask of the calls of the given sorts."""
        return self._of_value([value.sort in sorts for value in self.values]).astype(bool)

    # --- messages and requests ---

    def _sends(self) -> tuple[Int, Bool]:
        """Assign rows to the links that begin.

        Returns the links that are their call's first message, and a mask over the extra links that
        leave a request.
        """
        calls, links, row = (
            self.calls,
            self.links,
            np.full(len(self.links.event), -1, dtype=np.int64),
        )
        senders = links.which(self._are("send", "both", "start"), True)
        call, turn = links.call[senders], links.turn(senders)
        start, send = self._are("start")[call], self._are("send")[call]
        first, extra = (turn == 0) & ~start, start | (send & (turn > 0))
        row[senders[first]] = call[first]
        self.flaws["homeless"] += int((links.live & links.starts).sum() - (first | extra).sum())
        elements, size = calls.size[call], links.size[senders]
        countable = send & (first | extra) & (elements > 0) & (size > 0)
        element_size, remainder = np.divmod(size[countable], elements[countable])
        self.elements = set(np.unique(np.where(remainder == 0, element_size, 0)).tolist())
        self.isend = int(links.event[senders[start]].min(initial=1 << 62))
        self._row, self._extra = row, senders[extra]
        return senders[first], (start | self._nonblocking[call])[extra]

    def _numbered(self, first: Int, leaves_request: Bool) -> None:
        """Number the requests in the order of the file."""
        calls, links = self.calls, self.links
        base = np.flatnonzero(self._nonblocking & (self._kind == MESSAGE))
        event = np.concatenate([calls.begins[base], links.event[self._extra[leaves_request]]])
        number = np.empty(len(event), dtype=np.int64)
        number[np.argsort(event, kind="stable")] = np.arange(1, len(event) + 1)
        #: request of each call, and of each link that begins
        self._of_call, self._of_link = (
            np.full(n, NO, dtype=np.int64) for n in (len(calls), len(links.event))
        )
        self._of_call[base] = number[: len(base)]
        self._of_link[first] = self._of_call[links.call[first]]
        self._of_link[self._extra[leaves_request]] = number[len(base) :]
        self._row[self._extra] = len(calls) + len(self._both) + np.arange(len(self._extra))

    def _receives(self) -> tuple[Int, Int, Int]:
        """Assign rows to the links that end.

        Returns the waits, the requests that each completes in this way, and how many receives stay
        open at each wait.
        """
        calls, links = self.calls, self.links
        nonblocking = self._are("receive") & self._nonblocking
        direct = links.which(self._are("receive", "both") & ~nonblocking, False)
        direct = direct[links.turn(direct) == 0]
        second = self._receive_row[links.call[direct]]
        self._row[direct] = np.where(second >= 0, second, links.call[direct])
        unassigned = links.live & ~links.starts
        unassigned[direct] = False
        unassigned_ends, receives, waits = (
            np.flatnonzero(unassigned),
            np.flatnonzero(nonblocking),
            np.flatnonzero(self._are("wait")),
        )
        queue = _Queues(
            [
                (calls.place[receives], calls.begins[receives]),
                (links.place[unassigned_ends], links.event[unassigned_ends]),
                (calls.place[waits], calls.ends[waits]),
            ],
            np.ones(len(unassigned_ends), dtype=np.int64),
        )
        served, receive = unassigned_ends[queue.by], receives[queue.got]
        self._row[served] = receive
        wait = np.append(self._are("wait"), False)[links.call[served]]
        self.flaws["homeless"] += len(unassigned_ends) - len(served)
        self.flaws["oldest"] += int((~wait).sum())
        return links.call[served[wait]], self._of_call[receive[wait]], queue.waiting

    def _waits(self, completed: Int, request: Int, open_: Int) -> tuple[Int, Int]:
        """Assign requests to waits: those whose messages end in the wait, and the oldest sends for
        the rest of its number.

        Returns the calls and requests of all completions but each call's first, which stands in the
        call's own row.
        """
        calls, links = self.calls, self.links
        waits = np.flatnonzero(self._are("wait"))
        done = np.bincount(completed, minlength=len(calls))[waits]
        self.flaws["oldest"] += int(done[open_ > 0].sum())
        usual_count = self._of_value(
            [_ASKED.get(v.does, NO) if v.does.startswith("wait") else 0 for v in self.values]
        )[waits]
        size = calls.size[waits]
        capacity = np.where(usual_count != NO, usual_count, np.where(size != NO, size, _ALL))
        sends = np.flatnonzero(self._of_link != NO)
        queue = _Queues(
            [(links.place[sends], links.event[sends]), (calls.place[waits], calls.ends[waits])],
            np.maximum(capacity - done, 0),
        )
        self.flaws["guessed"] += int(queue.served[queue.waiting > 0].sum())
        call = np.concatenate([completed, waits[queue.by]])
        request = np.concatenate([request, self._of_link[sends[queue.got]]])
        order = np.argsort(call, kind="stable")
        call, request = call[order], request[order]
        first = np.diff(call, prepend=-1) != 0
        self._of_call[call[first]] = request[first]
        return call[~first], request[~first]

    # --- rows ---

    def _fill_columns(self, call: Int, request: Int) -> None:
        """Fill the columns that follow from one end of a message alone."""
        links, columns = self.links, self._columns
        self._kinds = self._kind[self._call].astype(np.int8)
        self._kinds[self._row[self._extra]] = MESSAGE
        self._started = np.zeros(len(self._call), dtype=bool)
        self._started[self._row[self._extra[self._are("start")[links.call[self._extra]]]]] = True
        columns["communicator"][: len(self.calls)][self._kind == COLLECTIVE] = 1
        columns["request"][: len(self.calls)] = self._of_call
        begun = np.flatnonzero(links.starts & (self._row >= 0))
        columns["request"][self._row[self._extra]] = self._of_link[self._extra]
        columns["request"][len(self._call) - len(call) :] = request
        columns["size_bytes"][self._row[begun]], columns["tag"][self._row[begun]] = (
            links.size[begun],
            links.tag[begun],
        )
        columns["communicator"][self._row[self._row >= 0]] = 1

    def _join(self, pairs: Pairs, rank: Int) -> None:
        """Fill the columns of messages whose both ends were recorded."""
        links, columns = self.links, self._columns
        start, end = self._row[pairs.start], self._row[pairs.end]
        columns["partner"][start[start >= 0]] = rank[links.place[pairs.end[start >= 0]]]
        begin, end = pairs.start[end >= 0], end[end >= 0]
        columns["partner"][end], columns["size_bytes"][end], columns["tag"][end] = (
            rank[links.place[begin]],
            links.size[begin],
            links.tag[begin],
        )

    @property
    def silent(self) -> int:
        """Return the number of messages whose other end is unknown."""
        return int((self._kinds[self._columns["partner"] == NO] == MESSAGE).sum())

    def __len__(self) -> int:
        return len(self._call)

    def sizes(self, members: int) -> tuple[int, Int, Int]:
        """Return the bytes of an element, and the bytes that the first row of each call sends and
        receives.

        The element size is 0 where the messages do not agree on one.
        """
        calls, element_size = (
            self.calls,
            next(iter(self.elements)) if len(self.elements) == 1 else 0,
        )
        sent, received = (np.full(len(calls), NO, dtype=np.int64) for _ in range(2))
        for number, value in enumerate(self.values):
            if value.sort != "collective":
                continue
            selected = np.flatnonzero(calls.value == number)
            self.flaws["rootless"] += len(selected) * (value.does.removeprefix("i") in ROOTED)
            if value.does.removeprefix("i") == "barrier":
                sent[selected] = received[selected] = 0
                continue
            # The limit is a Python integer because the product could overflow an int64.
            largest_count = (LARGEST - 1) // (element_size * members) if element_size else -1
            selected, selected_count = (
                selected[(calls.size[selected] != NO) & (calls.size[selected] <= largest_count)],
                len(selected),
            )
            sent[selected], received[selected] = carried(
                value.does,
                calls.size[selected] * element_size,
                calls.size[selected] * element_size,
                members,
                False,
            )
            self.flaws["elements"] += len(selected)
            self.flaws["unsized"] += selected_count - len(selected)
        return element_size, sent, received

    def table(self, names: Int, isend: int, shift: int, sent: Int, received: Int) -> pl.DataFrame:
        """Return the table ``mpi``, ordered by begin, rank and the event that made the row.

        Parameters
        ----------
        names : name of each value.
        isend : name of a message that a start call sends.
        shift : time added to every time stamp [ns].
        sent, received : bytes that the first row of each collective sends and receives.
        """
        calls = self.calls
        order = np.argsort(self._made, kind="stable")
        order = order[by_two(calls.start[self._call[order]], self._rank[self._call[order]])]
        call = self._call[order]
        first = order < len(calls)

        def column(name: str) -> Any:
            match name:
                case "start_ns":
                    return calls.start[call] + shift
                case "end_ns":
                    # The receive's row carries the call's duration, so its send has none.
                    short = self._are("both")[call] & first
                    return np.where(short, calls.start[call], calls.end[call]) + shift
                case "thread":
                    return of_rank(self._rank[call])
                case "kind":
                    return self._kinds[order].astype(np.int64)
                case "name":
                    text = names[calls.value[call]]
                    return np.where(self._started[order], isend, text)
                case "receive_bytes":
                    return np.where(first, received[call], NO)
                case "size_bytes":
                    size = np.where(first, sent[call], NO)
                    return np.where(size != NO, size, self._columns.pop(name)[order])
            # Each column is used once and dropped to free its memory.
            return (
                self._columns.pop(name)[order]
                if name in self._columns
                else np.full(len(call), NO, dtype=np.int64)
            )

        return mpi_table(column)


class _Queues:
    """First-come queues per container, with the requesters that take from them.

    Parameters
    ----------
    columns : containers and events of the arrivals, of the requesters, and, optionally, of
        observers that take nothing.
    asked : how many arrivals each requester takes at most.

    Attributes
    ----------
    by, got : requester and arrival of each assignment.
    served, waiting : how many arrivals each event of the last of `columns` takes, and how many it
        leaves.
    """

    def __init__(self, columns: list[tuple[NDArray[Any], Int]], asked: Int) -> None:
        counts = [len(event) for _, event in columns]
        place, event = (np.concatenate([column[part] for column in columns]) for part in (0, 1))
        order = np.argsort(event, kind="stable")
        order = order[sorted_by(place[order])]
        span = np.cumsum(np.diff(place[order], prepend=-1) != 0) - 1
        asks = np.zeros(len(order), dtype=np.int64)
        asks[counts[0] : counts[0] + counts[1]] = asked
        queue = FirstCome(span, order < counts[0], asks[order])
        self.by = np.repeat(order, queue.served) - counts[0]
        self.got = order[order < counts[0]][queue.fetched()]
        # The assignments are ordered as in the file.
        back = np.argsort(event[self.by + counts[0]], kind="stable")
        self.by, self.got = self.by[back], self.got[back]
        served, waiting = (np.empty(len(order), dtype=np.int64) for _ in range(2))
        served[order], waiting[order] = queue.served, queue.waiting
        self.served, self.waiting = (
            served[len(order) - counts[-1] :],
            waiting[len(order) - counts[-1] :],
        )
