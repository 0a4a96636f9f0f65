"""Rows of the table ``mpi`` from the calls and messages of a Paraver trace.

Which request a wait completes is in the order of each thread: a wait in which a receive is done completes that one, a wait for all also
every send and every receive without a message that is open, another wait the oldest of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from turnbuckle.mpi.readers.paraver.calls import SORTS, Calls
from turnbuckle.mpi.readers.paraver.ends import ends, given
from turnbuckle.mpi.readers.paraver.queues import oldest
from turnbuckle.mpi.readers.paraver.records import Records
from turnbuckle.trace.readers.parts.mpi_tables import COLLECTIVE, MESSAGE, NO, OTHER, REQUEST, ROOTED, Names, mpi_table
from turnbuckle.trace.readers.parts.text_numbers import Int, Mask


@dataclass(frozen=True)
class Messages:
    """Messages between ranks of the application: task and call of the send and the receive, call of the wait (-1: none), size, tag."""

    source: Int
    target: Int
    send: Int
    receive: Int
    wait: Int
    size: Int
    tag: Int


def messages(records: Records, application: int, calls: Calls) -> Messages:
    """Give every message to the calls at its ends; what cannot be given is counted in ``flaws``."""
    held, flaws = records.messages, records.flaws
    sender, receiver = held["sender"], held["receiver"]
    here = (records.threads.application(sender) == application) & (records.threads.application(receiver) == application)
    told = here & (sender >= 0) & (receiver >= 0)
    flaws["elsewhere"] += int((~here).sum())
    flaws["doubtful"] += int((here & ~told).sum())
    mine = np.flatnonzero(told)
    sender, receiver, sent, posted, there = (held[name][mine] for name in ("sender", "receiver", "sent", "posted", "there"))
    from_thread, to_thread = (_place(calls.key, key) for key in (sender, receiver))
    send = given(ends(calls, "send"), from_thread, sent)
    receive = given(ends(calls, "receive"), to_thread, posted)
    later = (receive >= 0) & calls.later[receive]
    wait = given(ends(calls, "wait"), np.where(later, to_thread, -1), there)
    flaws["homeless"] += int((send < 0).sum() + (receive < 0).sum())
    flaws["backwards"] += int((there < sent).sum())
    flaws["late"] = max(flaws["late"], int((sent - there).max(initial=0)))
    source, target = (records.threads.task_and_number(application, key)[0] for key in (sender, receiver))
    return Messages(source, target, send, receive, wait, held["size"][mine], held["tag"][mine])


def _place(known: Int, key: Int) -> Int:
    """Place of each key among known ones; -1 where it is none."""
    at = np.minimum(np.searchsorted(known, key), len(known) - 1)
    return np.where(known[at] == key, at, -1)


@dataclass(frozen=True)
class _Part:
    """Rows: the call of each, kind, what else is known of them; whether a call started them, and whether they have no length."""

    call: Int
    kind: int
    known: Mapping[str, Int | int] = field(default_factory=dict)
    started: bool = False
    short: bool = False


class Rows:
    """Rows of all calls of an application.

    Parameters
    ----------
    communicators : of the application, tasks by number.
    world : the one of all ranks.
    flaws : what is not told, counted here.
    """

    def __init__(self, calls: Calls, found: Messages, communicators: Mapping[int, list[int]], world: int, flaws: Counter[str]) -> None:
        self.calls, self.found, self.communicators, self.world, self.flaws = calls, found, communicators, world, flaws
        self.thread = calls.thread
        self.parts: list[_Part] = []
        self._messages()
        self._waits()
        self._collectives()
        self._add(calls.are("other"), OTHER)

    def _add(self, call: Int, kind: int, **known: Int | int) -> None:
        self.parts.append(_Part(call, kind, known))

    def _messages(self) -> None:
        """Sends before receives: a call may be both.  Requests are numbered: receives with a message by these, all others by calls."""
        calls, found = self.calls, self.found
        starts, sends, receives = calls.are("start"), calls.are("send", "both"), calls.are("receive", "both")
        mute, deaf = (which[~_marked(calls, of)[which]] for which, of in ((sends, found.send), (receives, found.receive)))
        sent = np.flatnonzero(found.send >= 0)
        sent = sent[np.argsort(found.send[sent], kind="stable")]
        by = found.send[sent]
        started = _marked(calls, starts)[by]
        got = np.flatnonzero(found.receive >= 0)
        #: calls that receive, by the requests that they leave
        self.awaited = got[calls.later[found.receive[got]]]
        asked = [started | calls.later[by], calls.later[mute], calls.later[deaf]]
        of_sent, of_mute, of_deaf = _numbered([by, mute, deaf], asked, len(self.awaited))
        of_receive = np.full(len(calls), NO, dtype=np.int64)
        of_receive[found.receive[self.awaited]] = np.arange(1, len(self.awaited) + 1)
        self.flaws["silent"] += len(mute) + len(deaf)
        #: what a wait may complete that no message names: calls and requests of sends, and of receives
        left = [np.concatenate([by[asked[0]], mute[asked[1]]]), np.concatenate([of_sent[asked[0]], of_mute[asked[1]]])]
        order = np.argsort(left[0], kind="stable")
        self.sends, self.receives = (left[0][order], left[1][order]), (deaf[asked[2]], of_deaf[asked[2]])

        self._add(starts, REQUEST)
        self.parts.append(_Part(mute, MESSAGE, {"request": of_mute}, short=True))
        for those in (False, True):
            which = started == those
            message = sent[which]
            known = {
                "size_bytes": found.size[message], "partner": found.target[message], "tag": found.tag[message], "communicator": self.world,
                "request": of_sent[which],
            }  # fmt: skip
            self.parts.append(_Part(by[which], MESSAGE, known, started=those, short=True))
        self._add(deaf, MESSAGE, request=of_deaf)
        call = found.receive[got]
        self._add(
            call, MESSAGE, size_bytes=found.size[got], partner=found.source[got], tag=found.tag[got], communicator=self.world,
            request=of_receive[call],
        )  # fmt: skip

    def _waits(self) -> None:
        """Requests that each wait completes: those of messages that are there when it ends, else the oldest that no message names."""
        calls, waits = self.calls, self.calls.are("wait")
        wait = self.found.wait[self.awaited]
        request = np.arange(1, len(wait) + 1)
        self._add(wait[wait >= 0], REQUEST, request=request[wait >= 0])
        done = _marked(calls, wait)
        ones = waits[calls.does("wait")[waits] & ~done[waits]]
        call, request, guessed = oldest(self.thread, self.sends, self.receives, ones, waits[calls.does("waitall")[waits]])
        self.flaws["guessed"] += guessed
        self._add(call, REQUEST, request=request)
        done |= _marked(calls, call)
        self._add(waits[~done[waits]], REQUEST)

    def _collectives(self) -> None:
        calls, flaws, which = self.calls, self.flaws, self.calls.collective
        sent, received, flag, number = calls.told.copy()
        does = [
            name.removeprefix("i") if sort == "collective" else "" for name, sort in zip(calls.words.does, calls.words.sort, strict=True)
        ]
        of_name = {name: np.array([one == name for one in does])[calls.word[which]] for name in sorted({*does} - {""})}
        rooted = np.flatnonzero(sum((of_name[name] for name in ROOTED if name in of_name), np.zeros(len(which), bool)))
        root = np.full(len(which), NO, dtype=np.int64)
        root[rooted] = self._roots(which[rooted], flag[rooted], number[rooted])
        flaws["rootless"] += int((root[rooted] == NO).sum())
        if "barrier" in of_name:
            sent[of_name["barrier"]] = received[of_name["barrier"]] = 0
        flaws["unsized"] += int((sent == NO).sum())
        known, back = np.unique(number, return_inverse=True)
        members = np.array([len(self.communicators.get(n, ())) for n in known.tolist()], dtype=np.int64)[back]
        flaws["lost"] += int((members == 0).sum())
        for name, chosen in of_name.items():
            at = np.flatnonzero(chosen & (sent != NO) & (members > 0))
            sent[at], received[at] = _as_score_p(name, sent[at], np.maximum(received[at], 0), members[at])
        self._add(which, COLLECTIVE, size_bytes=sent, receive_bytes=received, root=root, communicator=np.where(members > 0, number, NO))

    def _roots(self, call: Int, flag: Int, number: Int) -> Int:
        """Root of the k-th rooted collective of a communicator, where all members have as many: its rank inside."""
        out = np.full(len(call), NO, dtype=np.int64)
        thread = self.thread[call]
        order = np.argsort(number, kind="stable")
        values, begins = np.unique(number[order], return_index=True)
        bounds = np.append(begins, len(order))
        for at, value in enumerate(values.tolist()):
            mine = order[bounds[at] : bounds[at + 1]]
            members = np.array(self.communicators.get(value, ()), dtype=np.int64)
            marks = _by_member(members, self.calls.task[thread[mine]], flag[mine] != 0)
            if marks is None:
                continue
            told = np.where(marks.sum(axis=0) == 1, marks.argmax(axis=0), NO)
            # the k-th of each thread
            _, first, back = np.unique(thread[mine], return_index=True, return_inverse=True)
            place = np.arange(len(mine)) - first[back]
            out[mine] = np.where(place < len(told), told[np.minimum(place, len(told) - 1)], NO)
        return out

    def table(self, names: Names) -> pl.DataFrame:
        """The table ``mpi``, in the order of begin, rank and row."""
        calls, parts = self.calls, self.parts
        call = np.concatenate([part.call for part in parts])
        order = np.argsort(call, kind="stable")
        order = order[np.argsort(calls.start[call[order]], kind="stable")]
        call = call[order]
        counts = [len(part.call) for part in parts]
        isend = names("MPI_Isend") if len(calls.are("start")) else 0

        def of_parts(values: list[int]) -> Int:
            return np.repeat(np.array(values, dtype=np.int64), counts)[order]

        def known(name: str) -> Int:
            held = [part.known.get(name, NO) for part in parts]
            return np.concatenate([np.broadcast_to(np.asarray(h, dtype=np.int64), n) for h, n in zip(held, counts, strict=True)])[order]

        def column(name: str) -> Any:
            match name:
                case "start_ns":
                    return calls.start[call]
                case "end_ns":
                    # a send of a call that also receives has no length
                    short = (of_parts([part.short for part in parts]) == 1) & (calls.sort == SORTS.index("both"))[call]
                    return np.where(short, calls.start[call], calls.end[call])
                case "thread":
                    return (calls.task + 1 << 24 | calls.number)[self.thread[call]]
                case "kind":
                    return of_parts([part.kind for part in parts])
                case "name":
                    text = np.array(calls.words.name, dtype=np.int64)[calls.word[call]]
                    return np.where(of_parts([part.started for part in parts]) == 1, isend, text)
            return known(name)

        return mpi_table(column)


def _marked(calls: Calls, which: Int) -> Mask:
    """Of each call, whether it is among these; -1 is none."""
    found = np.zeros(len(calls), dtype=bool)
    found[which[which >= 0]] = True
    return found


def _numbered(calls: list[Int], asked: list[Mask], after: int) -> list[Int]:
    """Requests of some rows, given by their calls: those that are asked for are numbered together by call; the others have none."""
    call = np.concatenate([c[a] for c, a in zip(calls, asked, strict=True)])
    number = np.empty(len(call), dtype=np.int64)
    number[np.argsort(call, kind="stable")] = after + 1 + np.arange(len(call))
    out = []
    for which in asked:
        one = np.full(len(which), NO, dtype=np.int64)
        one[which], number = number[: which.sum()], number[which.sum() :]
        out.append(one)
    return out


def _by_member(members: Int, task: Int, flag: Mask) -> Mask | None:
    """Flags of the collectives of a communicator, members x collectives; None where the members have not as many each."""
    if not len(members):
        return None
    order = np.argsort(members)
    at = np.minimum(np.searchsorted(members[order], task), len(members) - 1)
    inside = np.flatnonzero(members[order][at] == task)
    member = order[at[inside]]
    counts = np.bincount(member, minlength=len(members))
    if not counts.max() or counts.min() < counts.max():
        return None
    return flag[inside][np.argsort(member, kind="stable")].reshape(len(members), -1)


def _as_score_p(does: str, sent: Int, received: Int, members: Int) -> tuple[Int, Int]:
    """Bytes as Score-P counts them from what Extrae writes: one partner's share of an alltoall, all that an allgather receives."""
    if does in ("allreduce", "alltoall"):
        return members * sent, members * np.maximum(received, sent)
    if does in ("allgather", "allgatherv"):
        return members * sent, received
    if does == "bcast":
        return members * sent, np.where(sent != 0, sent, received)
    return sent, members * received if does == "reduce" else received
