"""Rows of the table ``mpi`` from the calls and messages of a Paraver trace.

A wait in which a receive is done completes that receive's request.  Of the requests whose
completion is not recorded, a wait for all completes every open send and every receive without a
message, and any other wait completes the oldest, in the order of each thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.mpi.readers.paraver.calls import SORTS, Calls
from turnbuckle.mpi.readers.paraver.ends import assigned, ends
from turnbuckle.mpi.readers.paraver.queues import oldest
from turnbuckle.mpi.readers.paraver.records import Records
from turnbuckle.trace.ids import id_of
from turnbuckle.trace.readers.parts.mpi_tables import (
    COLLECTIVE,
    MESSAGE,
    NO,
    OTHER,
    REQUEST,
    ROOTED,
    Names,
    mpi_table,
)


@dataclass(frozen=True)
class Messages:
    """Messages between ranks of the application: task and call of the send and of the receive, call
    of the wait, size, tag.

    A call is -1 where there is none.
    """

    source: Int
    target: Int
    send: Int
    receive: Int
    wait: Int
    size: Int
    tag: Int


def messages(records: Records, application: int, calls: Calls) -> Messages:
    """Assign every message to the calls at its ends, and count in ``flaws`` those that fit no
    call.
    """
    columns, flaws = records.messages, records.flaws
    sender, receiver = columns["sender"], columns["receiver"]
    same_application = (records.threads.application(sender) == application) & (
        records.threads.application(receiver) == application
    )
    complete = same_application & (sender >= 0) & (receiver >= 0)
    flaws["elsewhere"] += int((~same_application).sum())
    flaws["doubtful"] += int((same_application & ~complete).sum())
    selected = np.flatnonzero(complete)
    sender, receiver, sent, posted, arrived = (
        columns[name][selected] for name in ("sender", "receiver", "sent", "posted", "there")
    )
    from_thread, to_thread = (_position(calls.key, key) for key in (sender, receiver))
    send = assigned(ends(calls, "send"), from_thread, sent)
    receive = assigned(ends(calls, "receive"), to_thread, posted)
    nonblocking = (receive >= 0) & calls.nonblocking[receive]
    wait = assigned(ends(calls, "wait"), np.where(nonblocking, to_thread, -1), arrived)
    flaws["homeless"] += int((send < 0).sum() + (receive < 0).sum())
    flaws["backwards"] += int((arrived < sent).sum())
    flaws["late"] = max(flaws["late"], int((sent - arrived).max(initial=0)))
    source, target = (
        records.threads.task_and_number(application, key)[0] for key in (sender, receiver)
    )
    return Messages(
        source, target, send, receive, wait, columns["size"][selected], columns["tag"][selected]
    )


def _position(keys: Int, key: Int) -> Int:
    """Return the position of each key among the sorted keys; -1 where it is absent."""
    position = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    return np.where(keys[position] == key, position, -1)


@dataclass(frozen=True)
class _Part:
    """Group of rows: the call of each row, their kind, their other columns, whether a start call
    made them, and whether they have no duration.
    """

    call: Int
    kind: int
    columns: Mapping[str, Int | int] = field(default_factory=dict)
    started: bool = False
    short: bool = False


class Rows:
    """Rows of the table ``mpi`` for all calls of an application.

    Parameters
    ----------
    communicators : tasks of each communicator of the application, by number.
    flaws : counts of what the trace does not record; the counts of the rows are added.
    """

    def __init__(
        self,
        calls: Calls,
        messages: Messages,
        communicators: Mapping[int, list[int]],
        world: int,
        flaws: Counter[str],
    ) -> None:
        self.calls, self.messages, self.communicators, self.world, self.flaws = (
            calls,
            messages,
            communicators,
            world,
            flaws,
        )
        self.thread = calls.thread
        self.parts: list[_Part] = []
        self._messages()
        self._waits()
        self._collectives()
        self._add(calls.are("other"), OTHER)

    def _add(self, call: Int, kind: int, **columns: Int | int) -> None:
        self.parts.append(_Part(call, kind, columns))

    def _messages(self) -> None:
        """Add the rows of messages: sends come before receives, because one call may be both.

        Requests of receives with a message are numbered in the order of their messages, then all
        other requests in the order of their calls.
        """
        calls, messages = self.calls, self.messages
        starts, sends, receives = (
            calls.are("start"),
            calls.are("send", "both"),
            calls.are("receive", "both"),
        )
        unmatched_sends, unmatched_receives = (
            which[~_marked(calls, of)[which]]
            for which, of in ((sends, messages.send), (receives, messages.receive))
        )
        sent = np.flatnonzero(messages.send >= 0)
        sent = sent[np.argsort(messages.send[sent], kind="stable")]
        sender = messages.send[sent]
        started = _marked(calls, starts)[sender]
        received = np.flatnonzero(messages.receive >= 0)
        #: messages whose receives leave requests; the index plus 1 is the number of the request
        self.awaited = received[calls.nonblocking[messages.receive[received]]]
        leaves_request = [
            started | calls.nonblocking[sender],
            calls.nonblocking[unmatched_sends],
            calls.nonblocking[unmatched_receives],
        ]
        of_sent, of_unmatched_sends, of_unmatched_receives = _numbered(
            [sender, unmatched_sends, unmatched_receives], leaves_request, len(self.awaited)
        )
        of_receive = np.full(len(calls), NO, dtype=np.int64)
        of_receive[messages.receive[self.awaited]] = np.arange(1, len(self.awaited) + 1)
        self.flaws["silent"] += len(unmatched_sends) + len(unmatched_receives)
        #: calls and requests of the sends, and of the receives without a message, which any wait
        #: may complete
        of_sender, of_unsent, of_unreceived = leaves_request
        call = np.concatenate([sender[of_sender], unmatched_sends[of_unsent]])
        request = np.concatenate([of_sent[of_sender], of_unmatched_sends[of_unsent]])
        order = np.argsort(call, kind="stable")
        self.sends = call[order], request[order]
        self.receives = unmatched_receives[of_unreceived], of_unmatched_receives[of_unreceived]

        self._add(starts, REQUEST)
        self.parts.append(
            _Part(unmatched_sends, MESSAGE, {"request": of_unmatched_sends}, short=True)
        )
        for by_start in (False, True):
            which = started == by_start
            message = sent[which]
            columns = {
                "size_bytes": messages.size[message],
                "partner": messages.target[message],
                "tag": messages.tag[message],
                "communicator": self.world,
                "request": of_sent[which],
            }
            self.parts.append(_Part(sender[which], MESSAGE, columns, started=by_start, short=True))
        self._add(unmatched_receives, MESSAGE, request=of_unmatched_receives)
        call = messages.receive[received]
        self._add(
            call,
            MESSAGE,
            size_bytes=messages.size[received],
            partner=messages.source[received],
            tag=messages.tag[received],
            communicator=self.world,
            request=of_receive[call],
        )

    def _waits(self) -> None:
        """Add the requests that each wait completes.

        These are the requests whose messages have arrived when the wait ends, or else the oldest of
        those that no message names.
        """
        calls, waits = self.calls, self.calls.are("wait")
        wait = self.messages.wait[self.awaited]
        request = np.arange(1, len(wait) + 1)
        self._add(wait[wait >= 0], REQUEST, request=request[wait >= 0])
        done = _marked(calls, wait)
        ones = waits[calls.does("wait")[waits] & ~done[waits]]
        call, request, guessed = oldest(
            self.thread, self.sends, self.receives, ones, waits[calls.does("waitall")[waits]]
        )
        self.flaws["guessed"] += guessed
        self._add(call, REQUEST, request=request)
        done |= _marked(calls, call)
        self._add(waits[~done[waits]], REQUEST)

    def _collectives(self) -> None:
        calls, flaws, which = self.calls, self.flaws, self.calls.collective
        sent, received, flag, number = calls.arguments.copy()
        does = [
            name.removeprefix("i") if sort == "collective" else ""
            for name, sort in zip(calls.words.does, calls.words.sort, strict=True)
        ]
        of_name = {
            name: np.array([operation == name for operation in does])[calls.word[which]]
            for name in sorted({*does} - {""})
        }
        rooted = np.flatnonzero(
            sum((of_name[name] for name in ROOTED if name in of_name), np.zeros(len(which), bool))
        )
        root = np.full(len(which), NO, dtype=np.int64)
        root[rooted] = self._roots(which[rooted], flag[rooted], number[rooted])
        flaws["rootless"] += int((root[rooted] == NO).sum())
        if "barrier" in of_name:
            sent[of_name["barrier"]] = received[of_name["barrier"]] = 0
        flaws["unsized"] += int((sent == NO).sum())
        numbers, inverse = np.unique(number, return_inverse=True)
        members = np.array(
            [len(self.communicators.get(n, ())) for n in numbers.tolist()], dtype=np.int64
        )[inverse]
        flaws["lost"] += int((members == 0).sum())
        for name, chosen in of_name.items():
            sized = np.flatnonzero(chosen & (sent != NO) & (members > 0))
            sent[sized], received[sized] = _as_score_p(
                name, sent[sized], np.maximum(received[sized], 0), members[sized]
            )
        self._add(
            which,
            COLLECTIVE,
            size_bytes=sent,
            receive_bytes=received,
            root=root,
            communicator=np.where(members > 0, number, NO),
        )

    def _roots(self, call: Int, flag: Int, number: Int) -> Int:
        """Return the root of each rooted call as a rank of its communicator.

        The k-th rooted calls of all members are one collective, provided that all members have
        equally many.
        """
        out = np.full(len(call), NO, dtype=np.int64)
        thread = self.thread[call]
        order = np.argsort(number, kind="stable")
        values, begins = np.unique(number[order], return_index=True)
        bounds = np.append(begins, len(order))
        for index, value in enumerate(values.tolist()):
            selected = order[bounds[index] : bounds[index + 1]]
            members = np.array(self.communicators.get(value, ()), dtype=np.int64)
            marks = _by_member(members, self.calls.task[thread[selected]], flag[selected] != 0)
            if marks is None:
                continue
            roots = np.where(marks.sum(axis=0) == 1, marks.argmax(axis=0), NO)
            # The k-th call of each thread belongs to the k-th collective.
            _, first, inverse = np.unique(thread[selected], return_index=True, return_inverse=True)
            place = np.arange(len(selected)) - first[inverse]
            out[selected] = np.where(
                place < len(roots), roots[np.minimum(place, len(roots) - 1)], NO
            )
        return out

    def table(self, names: Names) -> pl.DataFrame:
        """Return the table ``mpi``, ordered by begin, rank and row."""
        calls, parts = self.calls, self.parts
        call = np.concatenate([part.call for part in parts])
        order = np.argsort(call, kind="stable")
        order = order[np.argsort(calls.start[call[order]], kind="stable")]
        call = call[order]
        counts = [len(part.call) for part in parts]
        isend = names("MPI_Isend") if len(calls.are("start")) else 0

        def of_parts(values: list[int]) -> Int:
            return np.repeat(np.array(values, dtype=np.int64), counts)[order]

        def joined_column(name: str) -> Int:
            parts_values = [part.columns.get(name, NO) for part in parts]
            return np.concatenate(
                [
                    np.broadcast_to(np.asarray(h, dtype=np.int64), n)
                    for h, n in zip(parts_values, counts, strict=True)
                ]
            )[order]

        def column(name: str) -> Any:
            match name:
                case "start_ns":
                    return calls.start[call]
                case "end_ns":
                    # The receive's row carries the call's duration, so its send has none.
                    short = (of_parts([part.short for part in parts]) == 1) & (
                        calls.sort == SORTS.index("both")
                    )[call]
                    return np.where(short, calls.start[call], calls.end[call])
                case "thread":
                    return id_of(calls.task + 1, calls.number)[self.thread[call]]
                case "kind":
                    return of_parts([part.kind for part in parts])
                case "name":
                    text = np.array(calls.words.name, dtype=np.int64)[calls.word[call]]
                    return np.where(of_parts([part.started for part in parts]) == 1, isend, text)
            return joined_column(name)

        return mpi_table(column)


def _marked(calls: Calls, which: Int) -> Bool:
    """Return a mask of the calls that `which` lists; -1 in `which` stands for no call."""
    mask = np.zeros(len(calls), dtype=bool)
    mask[which[which >= 0]] = True
    return mask


def _numbered(calls: list[Int], leaves_request: list[Bool], after: int) -> list[Int]:
    """Number the requests of several groups of rows together, by call; rows that leave no request
    get `NO`.
    """
    call = np.concatenate([c[a] for c, a in zip(calls, leaves_request, strict=True)])
    number = np.empty(len(call), dtype=np.int64)
    number[np.argsort(call, kind="stable")] = after + 1 + np.arange(len(call))
    out = []
    for mask in leaves_request:
        request = np.full(len(mask), NO, dtype=np.int64)
        request[mask], number = number[: mask.sum()], number[mask.sum() :]
        out.append(request)
    return out


def _by_member(members: Int, task: Int, flag: Bool) -> Bool | None:
    """Return the flags of a communicator's collectives, shape (members, collectives); None where
    the members' counts differ.
    """
    if not len(members):
        return None
    order = np.argsort(members)
    position = np.minimum(np.searchsorted(members[order], task), len(members) - 1)
    inside = np.flatnonzero(members[order][position] == task)
    member = order[position[inside]]
    counts = np.bincount(member, minlength=len(members))
    if not counts.max() or counts.min() < counts.max():
        return None
    return flag[inside][np.argsort(member, kind="stable")].reshape(len(members), -1)


def _as_score_p(does: str, sent: Int, received: Int, members: Int) -> tuple[Int, Int]:
    """Return bytes as Score-P counts them from the sizes that Extrae writes: one partner's share of
    an alltoall, all that an allgather receives.
    """
    if does in ("allreduce", "alltoall"):
        return members * sent, members * np.maximum(received, sent)
    if does in ("allgather", "allgatherv"):
        return members * sent, received
    if does == "bcast":
        return members * sent, np.where(sent != 0, sent, received)
    return sent, members * received if does == "reduce" else received
