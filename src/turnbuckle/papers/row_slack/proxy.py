"""Proxy application of the slack study (Shorts and Grant, SC24-W), modelled: its loop as a task
graph through the timeline replay.

k host threads each run N iterations of copy A, copy B, kernel, copy C, synchronise.  Nothing was
measured for this model: kernel times, iterations and copy sizes are the paper's, and the copy time
is the rest of its loop.  The caller chooses what the paper leaves open:

waits           ``"calls"``: each call returns when its work is done (the paper's pessimistic case); ``"copies"``: the launch
                does not wait; ``"end"``: only the synchronisation waits
one_at_a_time   kinds of device work that the GPU serves one at a time, first come first served; the others run side by side at
                full speed
served_at       slack at which that order of service arose [s]; a replay with other slack keeps the order, as that of a recording
in_turn         the GPU serves the threads strictly in turn instead, one iteration each, and waits for a late thread
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from turnbuckle.foundation.arrays import Float, Int, Text
from turnbuckle.foundation.errors import error_of
from turnbuckle.profile.dependencies.graph import EDGE, Graph, begin, finish
from turnbuckle.profile.pieces import Pieces
from turnbuckle.replay.timeline import Change, TimelineReplay, no_change

Waits = Literal["calls", "copies", "end"]

#: Number of calls of one iteration that the paper delays: three copies, the kernel, the
#: synchronisation.
CALLS: Final = 5
#: Kind of device work that each call of an iteration starts; the last one only waits.
WORK: Final = ("copy_h2d", "copy_h2d", "kernel", "copy_d2h")
#: Which calls wait for their own work (the synchronisation always waits for the thread's last
#: work).
WAITING: Final[dict[Waits, tuple[int, ...]]] = {
    "calls": (0, 1, 2, 3),
    "copies": (0, 1, 3),
    "end": (),
}
_MOST_LOOPS: Final = 1_000_000
_LONGEST_SLACK: Final = 1e4
_CALL_CLASS: Final = ("copy", "copy", "launch", "copy", "sync")


@dataclass(frozen=True)
class Proxy:
    """Proxy application at one matrix size."""

    size_bytes: float  #: size of one matrix [B]; each iteration copies three
    #: kernel_seconds, copy_seconds: time of one kernel, and of one copy [s]
    kernel_seconds: float
    copy_seconds: float
    iterations: int
    call_seconds: float = (
        0.0  #: time of each call by itself [s]; the paper prints none, so it is 0 by default
    )


@dataclass(frozen=True)
class ProxyRun:
    """Modelled run, ready to be replayed with slack."""

    proxy: Proxy
    threads: int
    waits: Waits
    timeline: TimelineReplay

    @property
    def calls(self) -> int:
        """Return the calls of one thread that slack delays; threads are delayed side by side."""
        return CALLS * self.proxy.iterations

    def seconds(self, slack_seconds: ArrayLike = 0.0) -> Float:
        """Return the run time T(s), with the return of each call delayed by s [s]; shape of
        `slack_seconds`.
        """
        return self.timeline.seconds(
            slack_change(self.timeline.run, np.asarray(slack_seconds, dtype=np.float64))
        )


def slack_change(run: Pieces, slack_seconds: Float) -> Change:
    """Return slack after each call as a change of a compiled graph; draws of `slack_seconds`
    lead.
    """
    return replace(
        no_change(len(run)),
        added=np.asarray(slack_seconds, dtype=np.float64)[..., None] * run.crosses,
    )


def modelled(
    proxy: Proxy,
    threads: int = 1,
    *,
    waits: Waits = "calls",
    one_at_a_time: Collection[str] = ("copy_h2d", "kernel", "copy_d2h"),
    served_at: float = 0.0,
    in_turn: bool = False,
) -> ProxyRun:
    """Compile the proxy as a graph of instants and edges.  Raises A065 for threads, iterations or
    slack out of range.

    Parameters
    ----------
    threads : host threads, each with its own matrices and its own stream; all start at once and run
        `proxy.iterations`.
    waits, one_at_a_time, served_at, in_turn : see the head of this module.

    Examples
    --------
    >>> run = modelled(Proxy(2**20, kernel_seconds=120e-6, copy_seconds=80e-6, iterations=10))
    >>> float(run.seconds(0.0).round(9)), float((run.seconds(1e-6) - run.seconds()).round(9))
    (0.0036, 5e-05)
    """
    if not (
        threads >= 1
        and proxy.iterations >= 1
        and threads * proxy.iterations <= _MOST_LOOPS
        and 0.0 <= served_at <= _LONGEST_SLACK
    ):
        raise error_of(
            "A065",
            found=f"{threads} threads, {proxy.iterations} iterations, slack {served_at:g} s",
            most_loops=_MOST_LOOPS,
            longest_slack=_LONGEST_SLACK,
        )
    steps = len(WORK)
    shape = (threads, proxy.iterations, CALLS)
    call = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    work = call.size + np.arange(threads * proxy.iterations * steps, dtype=np.int64).reshape(
        threads, proxy.iterations, steps
    )
    call_ns = round(proxy.call_seconds * 1e9)
    work_ns = np.array(
        [
            round((proxy.kernel_seconds if kind == "kernel" else proxy.copy_seconds) * 1e9)
            for kind in WORK
        ],
        dtype=np.int64,
    )

    edges: list[tuple[Int, Int, Int, Int]] = []

    def edge(source: Int, target: Int, lag: Int | int, kind: str) -> None:
        source = source.reshape(-1)
        lags = np.broadcast_to(np.asarray(lag, dtype=np.int64), source.shape)
        edges.append(
            (source, target.reshape(-1), lags, np.full(source.shape, EDGE[kind], dtype=np.int64))
        )

    in_order = call.reshape(threads, -1)
    on_stream = work.reshape(threads, -1)
    edge(np.zeros(threads, dtype=np.int64), begin(in_order[:, 0]), 0, "origin")
    edge(finish(in_order[:, :-1]), begin(in_order[:, 1:]), 0, "host")
    edge(begin(call), finish(call), call_ns, "call")
    edge(begin(call[:, :, :steps]), begin(work), 0, "deliver")
    edge(begin(work), finish(work), np.broadcast_to(work_ns, work.shape).reshape(-1), "run")
    edge(finish(on_stream[:, :-1]), begin(on_stream[:, 1:]), 0, "stream")
    edge(finish(work[:, :, -1]), finish(call[:, :, -1]), 0, "sync")
    for step in WAITING[waits]:
        edge(finish(work[:, :, step]), finish(call[:, :, step]), 0, "sync")
    if in_turn or threads == 1:
        # axes (iteration, thread, call)
        orders = [
            work[:, :, [k == kind for k in WORK]].transpose(1, 0, 2).reshape(-1)
            for kind in sorted(set(one_at_a_time))
        ]
    else:
        orders = [
            work.reshape(-1)[order]
            for order in _service(proxy, threads, waits, one_at_a_time, served_at).values()
        ]
    for served in orders:
        edge(finish(served[:-1]), begin(served[1:]), 0, "engine")
    run = _pieces(proxy, threads, waits)
    piece = np.concatenate(
        [
            np.tile(np.arange(CALLS), threads * proxy.iterations),
            CALLS + np.tile(np.arange(steps), work.size // steps),
        ]
    )
    return ProxyRun(proxy, threads, waits, _compiled(edges, run, piece))


def _service(
    proxy: Proxy, threads: int, waits: Waits, one_at_a_time: Collection[str], slack_seconds: float
) -> dict[str, Int]:
    """Return the order of service of each kind of work, first come first served, numbered as
    (thread, iteration, call).
    """
    steps, slack, call = len(WORK), round(slack_seconds * 1e9), round(proxy.call_seconds * 1e9)
    takes = [
        round((proxy.kernel_seconds if kind == "kernel" else proxy.copy_seconds) * 1e9)
        for kind in WORK
    ]
    order: dict[str, list[int]] = {kind: [] for kind in WORK if kind in one_at_a_time}
    # the place of each kind's server among those that are free from some time on, -1 for work that
    # runs at once
    server = [list(order).index(kind) if kind in order else -1 for kind in WORK]
    served, free, last = list(order.values()), [0] * len(order), proxy.iterations * steps - 1
    waiting = [step in WAITING[waits] for step in range(steps)]
    # (when the work could begin, thread, its number on the thread, when its call began)
    ready = [(0, thread, 0, 0) for thread in range(threads)]
    while ready:
        asked, thread, number, called = ready[0]
        step = number % steps
        place = server[step]
        ended = asked + takes[step]
        if place >= 0:
            if free[place] > asked:
                ended = free[place] + takes[step]
            served[place].append(thread * (last + 1) + number)
            free[place] = ended
        returned = (max(called + call, ended) if waiting[step] else called + call) + slack
        if step == steps - 1:
            returned = max(returned + call, ended) + slack
        if number < last:
            heapq.heapreplace(ready, (max(returned, ended), thread, number + 1, returned))
        else:
            heapq.heappop(ready)
    return {kind: np.array(work, dtype=np.int64) for kind, work in order.items()}


def _compiled(edges: list[tuple[Int, Int, Int, Int]], run: Pieces, piece: Int) -> TimelineReplay:
    source, target, lag, kind = (
        np.concatenate([part[column] for part in edges]) for column in range(4)
    )
    rows = np.arange(len(piece), dtype=np.int64)
    nothing = np.zeros(2 * len(rows) + 1, dtype=np.int64)
    graph = Graph(nothing, rows, source, target, lag, kind.astype(np.int8), nothing, nothing, 0)
    timeline = TimelineReplay.compiled(graph, run, piece)
    # a modelled run has no recorded times, so those of its unchanged replay are taken
    return replace(timeline, graph=replace(graph, time_ns=timeline.recorded_ns()))


def _pieces(proxy: Proxy, threads: int, waits: Waits) -> Pieces:
    """Return five calls and four kinds of work, each with its count and its time without
    waiting.
    """
    count = np.full(CALLS + len(WORK), float(threads * proxy.iterations))
    piece_seconds = [proxy.call_seconds] * CALLS + [
        proxy.kernel_seconds if kind == "kernel" else proxy.copy_seconds for kind in WORK
    ]
    calls = [
        "sync" if step in (*WAITING[waits], CALLS - 1) else "launch" if word == "launch" else "api"
        for step, word in enumerate(_CALL_CLASS)
    ]
    copies = [kind != "kernel" for kind in WORK]
    return Pieces(
        kind=_words(*calls, *WORK),
        category=_words(*["api"] * CALLS, *("copy" if copy else "kernel" for copy in copies)),
        call_class=_words(*_CALL_CLASS, *[""] * len(WORK)),
        direction=_words(
            *[""] * CALLS,
            *(
                kind.removeprefix("copy_") if copy else ""
                for kind, copy in zip(WORK, copies, strict=True)
            ),
        ),
        memory=_words(*[""] * CALLS, *("unknown" if copy else "" for copy in copies)),
        idle_device=np.zeros(len(count), dtype=np.bool_),
        size_bytes=np.array([0.0] * CALLS + [proxy.size_bytes if copy else 0.0 for copy in copies]),
        count=count,
        seconds=count * np.array(piece_seconds),
        exposed_seconds=np.zeros(len(count)),
        tail_count=np.zeros(len(count)),
        kernel=np.full(len(count), None),
    )


def _words(*words: str) -> Text:
    return np.array(words, dtype=object)
