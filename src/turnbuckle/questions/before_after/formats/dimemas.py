"""A run as a trace of Dimemas, the message-passing simulator of BSC: bursts, and messages between
threads and between tasks.

    Steps -> operations -> threads of each task -> text

A task is a rank.  The simulator's reader has no record for work of a device: a thread of a task
stands for a stream as well as for a host thread, and one thread waits for another by a message of 0
bytes, as Dimemas has them between threads ("low level transfers").  What lasts but keeps no track
busy (the delivery of a launch, the return from a wait) is on threads of its own, those of each
track apart.  Where one rank waits for another, that is a message between tasks, of its recorded
size where it is an MPI message.

A thread does one record after the other.  So an operation is put on a thread that is free when it
begins, and each thread has its operations in the order of time.  Replayed with messages that cost
nothing and a processor for each thread, every instant is at its nanosecond.  Names have no place.

Format, as the simulator reads it (``Simulator/input/file_data_access.c`` of
bsc-performance-tools/dimemas, GitHub)::

    #DIMEMAS:name:1,OFFSET:TASKS(THREADS,...),COMMUNICATORS        OFFSET: of the first line of offsets [B]
    d:1:COMMUNICATOR:SIZE:TASK:...                                 members of a communicator
    1:TASK:THREAD:SECONDS                                          burst
    2:TASK:THREAD:TO_TASK:TO_THREAD:SIZE:TAG:COMMUNICATOR:2        send that does not wait (2); TO_THREAD -1 for any thread of the task
    3:TASK:THREAD:FROM_TASK:FROM_THREAD:SIZE:TAG:COMMUNICATOR:0    receive that waits (0)
    s:TASK:OFFSET:...                                              where the records of each thread of a task begin [B]
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from typing import BinaryIO, Final

import numpy as np

from turnbuckle.profile.dependencies.graph import EDGE
from turnbuckle.questions.before_after.formats.goal import BUSY
from turnbuckle.questions.before_after.formats.steps import Steps

#: Communicator of all tasks.
_WORLD: Final = 1
#: A send that is immediate and needs no receive.
_IMMEDIATE: Final = 2
#: Digits of the offset in the header, so that the header's length is known before it.
_DIGITS: Final = 20


@dataclass
class _Operation:
    """Operation of one thread: it begins when all of `after` have ended, and lasts.

    Attributes
    ----------
    rank, track : task, and the track that it keeps busy, or to which it leads if it keeps none.
    waits : it keeps no track busy.
    begin, lasts : times of the run [ns].
    after : operations that it waits for, with the size of the message of those of another rank [B].
    """

    rank: int
    track: int
    waits: bool
    begin: int
    lasts: int
    after: list[tuple[int, int]] = field(default_factory=list)


def stream(steps: Steps, sink: BinaryIO) -> None:
    """Write the trace."""
    threads = _threads(steps)
    body: list[bytes] = []
    head = len(_header(threads, 0))
    tasks = ":".join(str(task) for task in range(len(threads)))
    body.append(f"d:1:{_WORLD}:{len(threads)}:{tasks}\n".encode())
    offset = head + len(body[0])
    offsets: list[str] = []
    for task, records in enumerate(threads):
        line = f"s:{task}"
        for lines in records:
            line += f":{offset}"
            body.append("".join(lines).encode())
            offset += len(body[-1])
        offsets.append(line + "\n")
    sink.write(_header(threads, offset))
    sink.writelines(body)
    sink.write("".join(offsets).encode())


def _header(threads: list[list[list[str]]], offset: int) -> bytes:
    counts = ",".join(str(len(records)) for records in threads)
    return f"#DIMEMAS:turnbuckle:1,{offset:0{_DIGITS}}:{len(threads)}({counts}),1\n".encode()


def _threads(steps: Steps) -> list[list[list[str]]]:
    """Return the records of each thread of each task."""
    operations = _operations(steps)
    order = _order(operations)
    thread = _placed(operations, order)
    out: list[list[list[str]]] = [[] for _ in range(steps.ranks)]
    sent: dict[int, list[str]] = defaultdict(list)
    received: dict[int, list[str]] = defaultdict(list)
    tags: dict[tuple[object, ...], int] = {}
    for number in order:
        operation = operations[number]
        receiver = (operation.rank, thread[number])
        for before, size in operation.after:
            sender = (operations[before].rank, thread[before])
            if sender == receiver:
                continue  # a thread keeps its order
            within = receiver[0] == sender[0]
            key: tuple[object, ...] = (*sender, *receiver) if within else (sender[0], receiver[0])
            tag = tags[key] = tags.get(key, -1) + 1
            to, giver = (receiver[1], sender[1]) if within else (-1, -1)
            sent[before].append(
                f"2:{sender[0]}:{sender[1]}:{receiver[0]}:{to}:{size}:{tag}:{_WORLD}:{_IMMEDIATE}\n"
            )
            received[number].append(
                f"3:{receiver[0]}:{receiver[1]}:{sender[0]}:{giver}:{size}:{tag}:{_WORLD}:0\n"
            )
    for number in order:
        operation = operations[number]
        task, place = out[operation.rank], thread[number]
        task.extend([] for _ in range(place + 1 - len(task)))
        burst = (
            [
                f"1:{operation.rank}:{place}:{operation.lasts // 10**9}.{operation.lasts % 10**9:09}\n"
            ]
            if operation.lasts
            else []
        )
        task[place] += [*received[number], *burst, *sent[number]]
    for rank, task in enumerate(out):
        task.extend([] for _ in range(not task))
        for place, lines in enumerate(task):
            # the reader looks for a record of every thread
            if not lines:
                lines.append(f"1:{rank}:{place}:0.000000000\n")
    return out


def _operations(steps: Steps) -> list[_Operation]:
    """Return an operation for each instant, which lasts what no edge explains, and one for each
    edge that lasts.

    The operation of instant v has the number v; that of the run's start is no one's, and nothing
    waits for it.
    """
    graph = steps.graph
    times = steps.time_ns.tolist()
    track = [-1, *np.repeat(steps.rows["track"].to_numpy(), 2).tolist()]
    residual = graph.residual_ns.tolist()
    ranks = np.maximum(steps.rank_of_instant, 0).tolist()
    out = [
        _Operation(ranks[v], track[v], False, times[v] - residual[v], residual[v])
        for v in range(len(times))
    ]
    out[0] = _Operation(0, -1, False, 0, 0)
    busy = np.isin(graph.kind, [EDGE[word] for word in BUSY]).tolist()
    edges = np.flatnonzero(~steps.idle)
    meets = graph.kind == EDGE["meet"]
    columns = (graph.source, graph.target, graph.lag_ns, steps.crosses, steps.message_bytes, meets)
    for edge, source, target, lag, crosses, size, meet in zip(
        edges.tolist(), *(c[edges].tolist() for c in columns), strict=True
    ):
        before = [(source, size if crosses else 0)] if source else []
        if not lag:
            out[target].after += before
            continue
        begin = times[source]
        if crosses and meet:
            # a receive is posted when its call begins, or that of the other side of a collective
            before.append((target - 1, 0))
            begin = max(begin, times[target - 1])
        out[target].after.append((len(out), 0))
        out.append(_Operation(ranks[target], track[target], not busy[edge], begin, lag, before))
    if steps.beyond_ns:
        last = int(np.argmax(steps.time_ns))
        out.append(
            _Operation(
                ranks[last],
                track[last],
                True,
                times[last],
                steps.beyond_ns,
                [(last, 0)] if last else [],
            )
        )
    return out


def _order(operations: list[_Operation]) -> list[int]:
    """Return the operations by the time at which they begin, each after all that it waits for;
    without the run's start.
    """
    waiting = [len(operation.after) for operation in operations]
    followers: dict[int, list[int]] = defaultdict(list)
    for number, operation in enumerate(operations):
        for before, _ in operation.after:
            followers[before].append(number)
    ready = [
        (operation.begin, number)
        for number, operation in enumerate(operations)
        if number and not operation.after
    ]
    heapq.heapify(ready)
    out: list[int] = []
    while ready:
        _, number = heapq.heappop(ready)
        out.append(number)
        for follower in followers[number]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, (operations[follower].begin, follower))
    return out


def _placed(operations: list[_Operation], order: list[int]) -> list[int]:
    """Return the thread of each operation: one of its track that is free when it begins, where it
    can that of what it waits for.
    """
    lanes: dict[tuple[int, int, bool], list[list[int]]] = defaultdict(list)
    used: dict[int, int] = defaultdict(int)
    thread = [0] * len(operations)
    for number in order:
        operation = operations[number]
        of_track = lanes[operation.rank, operation.track, operation.waits]
        before = {thread[b] for b, _ in operation.after if operations[b].rank == operation.rank}
        free = [lane for lane in of_track if lane[1] <= operation.begin]
        lane = next((lane for lane in free if lane[0] in before), free[0] if free else None)
        if lane is None:
            lane = [used[operation.rank], 0]
            of_track.append(lane)
            used[operation.rank] += 1
        thread[number] = lane[0]
        lane[1] = operation.begin + operation.lasts
    return thread
