"""A recorded MPI run as a program for the contention replay: where ranks stand, and what takes each message from buffer to buffer.

Every message may be charged for work at either end (`Charges`), whichever way it was recorded: that is how it is taken through host
memory, or straight from device memory.  Where nodes have GPUs as parts, a host copy is a message of its rank to itself, over the wires
between GPU and host and through a copy engine of the GPU, one a direction; where they have none it is a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnbuckle.errors import UsageError
from turnbuckle.replay.collectives import Selection
from turnbuckle.replay.contention import PICOSECONDS, Leaves, Op, Program
from turnbuckle.replay.mpi import Messages, Rounds, Traffic, expanded, joined
from turnbuckle.replay.network import Node, plain

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]

#: Within a call: compute before it, room for what comes, what is sent, what is awaited, buffers, collectives, and what is kept.
_GAP, _POST, _SEND, _AWAIT, _SENT, _ROUND, _KEPT = range(7)
#: Within what is done for one message: a copy before it, itself, a copy after it.
_BEFORE, _ITSELF, _AFTER = 0, 9, 10
#: Open MPI's smcuda has none for device memory, UCX about 8 KiB, TraceR 8192 by default and 64000 in its sample.
EAGER_LIMIT: Final = 8192.0


@dataclass(frozen=True)
class Charges:
    """What a message costs that carries a buffer in device memory, besides its way over the network.

    Attributes
    ----------
    sender, receiver : a copy at either end: seconds, and seconds a byte; (0, 0) for none.
    eager_limit : up to this size it leaves as soon as it is sent, if those in host memory do too [B].
    direct : whether it goes from GPU to GPU, rather than from host to host.
    pin_seconds : between the time it may leave and the time it does [s].
    pin_once : whether that is paid once for all messages of one size between two ranks, as if they were one buffer.
    chunk_bytes : longer ones are cut, so that copies overlap with the network [B].
    """

    sender: tuple[float, float] = (0.0, 0.0)
    receiver: tuple[float, float] = (0.0, 0.0)
    eager_limit: float = np.inf
    direct: bool = False
    pin_seconds: float = 0.0
    pin_once: bool = False
    chunk_bytes: float = np.inf


@dataclass(frozen=True)
class Layout:
    """Where ranks stand, and which GPU each has.

    Attributes
    ----------
    node, host, device : of each rank: its node, the place of its process, and that of its buffers in device memory, shape (ranks,).
    share : place behind its GPU where its time is shared, -1 for none.
    """

    node: Int
    host: Int
    device: Int
    share: Int

    def sharing(self) -> Bool:
        """Ranks whose GPU is another rank's too, shape (ranks,)."""
        _, which, times = np.unique(self.device, return_inverse=True, return_counts=True)
        return np.asarray((times[which] > 1) & (self.share >= 0))


def laid_out(node: Int, made: Node | None = None) -> Layout:
    """Ranks on nodes: those of one node are dealt to its GPUs one by one, and stand on the host nearest to theirs.

    Parameters
    ----------
    node : of each rank, shape (ranks,).

    >>> laid_out(np.array([0, 0, 1, 1])).host.tolist()
    [0, 0, 1, 1]
    """
    made = made or plain(1.0, 0.0)
    gpus, hosts, shares = made.parts_of("gpu"), made.parts_of("host"), made.parts_of("share")
    order = np.argsort(node, kind="stable")
    inside = np.empty(len(node), dtype=np.int64)
    inside[order] = np.arange(len(node)) - np.searchsorted(node[order], node[order])
    own = np.array(gpus or hosts)[inside % len(gpus or hosts)]
    near = _nearest(made, hosts or gpus)[own]
    behind = np.array(shares)[inside % len(gpus)] if len(shares) == len(gpus) > 0 else np.full(len(node), -1)
    first = node * len(made.parts)
    return Layout(np.asarray(node), first + near, first + own, np.where(behind >= 0, first + behind, -1))


def _nearest(made: Node, places: tuple[int, ...]) -> Int:
    """Of every part, the one of `places` that the fewest wires lead to, the first of equals."""
    near = np.full(len(made.parts), -1)
    near[list(places)] = places
    reached = list(places)
    while reached:
        further = []
        for wire in made.wires:
            for a, b in ((wire.source, wire.target), (wire.target, wire.source)):
                if a in reached and near[b] < 0:
                    near[b] = near[a]
                    further.append(b)
        reached = further
    return near


def _aside(traffic: Traffic) -> tuple[Traffic, tuple[Rounds, ...], Messages]:
    """Non-blocking collectives go on beside their ranks: each member's steps become a thread of its own.

    It begins when the call that begins it is made, and the call that completes it waits for its end; both are told by edges.
    """
    rank = traffic.rank
    begins: list[Int] = []
    ends: list[Int] = []
    rounds: list[Rounds] = []
    calls, threads = len(traffic.rank), len(traffic.tail_seconds)
    for one in traffic.rounds:
        beside = one.begin >= 0 if one.begin.size else np.zeros(one.activity.shape, dtype=np.bool_)
        activity = one.activity.copy()
        activity[beside] = calls + sum(map(len, begins)) + np.arange(int(beside.sum()))
        begins.append(one.begin[beside] if one.begin.size else np.zeros(0, dtype=np.int64))
        ends.append(one.activity[beside])
        rounds.append(Rounds(one.operation, one.block_bytes, activity, one.root))
    begin, end = (np.concatenate([np.zeros(0, dtype=np.int64), *some]) for some in (begins, ends))
    count = len(begin)
    own, none = calls + np.arange(count), np.full(2 * count, -1)
    told = Messages(np.append(begin, own), none, np.append(own, end), np.append(own, end), none, np.zeros(2 * count))
    zero = np.zeros(count)
    rank_of = traffic.rank_of if len(traffic.rank_of) else np.arange(threads)
    more = replace(
        traffic, rank=np.append(rank, threads + np.arange(count)), rank_of=np.append(rank_of, rank_of[rank[begin]]),
        gap_seconds=np.append(traffic.gap_seconds, zero), kept_seconds=np.append(traffic.kept_seconds, zero),
        tail_seconds=np.append(traffic.tail_seconds, zero),
    )  # fmt: skip
    return more, tuple(rounds), told


class _Steps:
    """What ranks do, in any order: (activity, phase, kind, number, minor) say when."""

    def __init__(self) -> None:
        self.keys: list[tuple[Int, ...]] = []
        self.code: list[NDArray[np.uint8]] = []
        self.arg: list[Int] = []
        self.work: list[Float] = []

    def add(self, activity: Int, phase: Int | int, kind: Int | int, number: Int, minor: int, op: Op, arg: Int) -> None:
        """An operation for each activity."""
        self.keys.append(tuple(np.broadcast_to(np.asarray(k), activity.shape) for k in (activity, phase, kind, number, minor)))
        self.code.append(np.full(len(activity), op, dtype=np.uint8))
        self.arg.append(np.broadcast_to(np.asarray(arg), activity.shape))

    def add_work(self, activity: Int, phase: Int | int, kind: Int | int, number: Int, minor: int, seconds: Float) -> None:
        """Work, where it takes any time."""
        some = np.flatnonzero(seconds > 0)
        phase, kind, number = (np.broadcast_to(np.asarray(v), activity.shape)[some] for v in (phase, kind, number))
        first = sum(len(w) for w in self.work)
        self.work.append(seconds[some])
        self.add(activity[some], phase, kind, number, minor, Op.WORK, first + np.arange(len(some)))

    def ordered(self, thread: Int, threads: int) -> tuple[Int, NDArray[np.uint8], Int]:
        """First operation of each thread, operations, arguments."""
        keys = [np.concatenate([k[n] for k in self.keys]) for n in range(5)]
        mine = thread[keys[0]]
        order = np.lexsort((*keys[::-1], mine))
        return np.searchsorted(mine[order], np.arange(threads + 1)), np.concatenate(self.code)[order], np.concatenate(self.arg)[order]


class _Carried(NamedTuple):
    """Messages as they go over the network; arrays of shape (messages,)."""

    source: Int
    target: Int
    size_bytes: Float
    leaves: NDArray[np.uint8]
    start: Int
    end: Int
    rate_limit: Float
    delay_seconds: Float


def program(
    traffic: Traffic,
    *,
    ranks_per_node: int = 1,
    layout: Layout | None = None,
    charged: Charges = Charges(),
    inside: Charges | None = None,
    on_device: Bool | None = None,
    eager_limit: float = EAGER_LIMIT,
    selection: Selection = "short and long",
    compute: float = 1.0,
    shared_gpu: Literal["exclusive", "time"] | None = None,
) -> Program:
    """A recorded run as a program.

    Parameters
    ----------
    ranks_per_node : ranks are dealt to nodes one node after the other, unless there is a `layout`.
    charged, inside : what a message costs between nodes, and inside one (as between nodes, unless given).
    on_device : whether the buffer of each message is in device memory, in the order of `all_messages`; None for all.
    eager_limit : messages up to this size leave as soon as they are sent [B].
    selection : algorithms of collectives.
    compute : times the recorded compute.
    shared_gpu : compute runs on the GPU of its rank; where several ranks have one, it serves them one after the other, or at once with
        even shares of its time.

    Returns
    -------
    A process for every rank (thread), then one for every member of a non-blocking collective.

    Raises
    ------
    UsageError : A098, more ranks than the layout places, or a charge, limit or factor that is negative or none at all.
    """
    _sound(charged, inside or charged, eager_limit, compute, ranks_per_node)
    placed = layout or laid_out(np.arange(traffic.ranks) // ranks_per_node)
    if len(placed.node) < traffic.ranks:
        raise UsageError("A098", "not every rank has a place", found=f"{len(placed.node)} of {traffic.ranks} ranks")
    recorded_calls = len(traffic.rank)
    traffic, all_of, edges = _all(traffic, selection)
    threads = len(traffic.tail_seconds)
    rank_of = traffic.rank_of if len(traffic.rank_of) else np.arange(threads)
    # what a rank does after its last call comes before a call that it never makes
    thread = np.append(traffic.rank, np.arange(threads))
    gap = np.append(traffic.gap_seconds, traffic.tail_seconds) * compute
    steps = _Steps()
    calls = np.arange(len(thread))
    at = rank_of[thread]
    contended = placed.sharing()[at] & (gap > 0) if shared_gpu else np.zeros(len(thread), dtype=np.bool_)
    steps.add_work(calls, _GAP, 0, calls, 0, np.where(contended, 0.0, gap))
    steps.add_work(calls[:recorded_calls], _KEPT, 0, calls[:recorded_calls], 0, traffic.kept_seconds[:recorded_calls])
    all_of, edge, device, within = _cut(
        all_of, placed.node[rank_of], traffic.rank, charged, inside or charged, edges, on_device, eager_limit
    )
    count = len(all_of.send)
    sender, receiver = rank_of[thread[all_of.send]], rank_of[thread[all_of.receive]]
    full = (all_of.size_bytes > 0) & ~edge & device
    charges = (charged, inside or charged)

    def by_place(value: str, end: int | None = None) -> Float:
        """A charge of every message, by whether it stays on its node; nothing where there is no buffer in device memory."""
        far, near = (getattr(c, value) if end is None else getattr(c, value)[end] for c in charges)
        return np.where(full, np.where(within, float(near), float(far)), 0.0)

    limit = np.minimum(eager_limit, np.where(full, np.where(within, charges[1].eager_limit, charges[0].eager_limit), np.inf))
    leaves = np.where((all_of.size_bytes > limit) | all_of.ready, Leaves.READY, Leaves.EAGER).astype(np.uint8)
    leaves[edge] = Leaves.EDGE
    direct = by_place("direct") > 0
    carried = [_Carried(
        thread[all_of.send], thread[all_of.receive], np.where(edge, 0.0, np.round(all_of.size_bytes)), leaves,
        np.where(direct, placed.device[sender], placed.host[sender]), np.where(direct, placed.device[receiver], placed.host[receiver]),
        np.full(count, np.inf), _pins(by_place("pin_seconds"), by_place("pin_once") > 0, sender, receiver, all_of.size_bytes),
    )]  # fmt: skip
    numbers = np.arange(count)
    # what one call waits for is dealt with in the order in which room was made
    awaited = np.empty(count, dtype=np.int64)
    awaited[np.lexsort((numbers, all_of.receive))] = numbers
    engine = _engines(placed)
    for kind, op, where, phase in (
        (0, Op.POST, all_of.receive, _POST), (1, Op.SEND, all_of.send, _SEND),
        (2, Op.AWAIT, all_of.received, _AWAIT), (3, Op.SENT, all_of.sent, _SENT),
    ):  # fmt: skip
        there = where >= 0
        # what goes on beside a rank tells its end last
        last = edge & (where >= recorded_calls) & (op == Op.SEND)
        phases, kinds = (
            np.where(last, _KEPT, np.where(all_of.step < 0, phase, _ROUND)),
            np.where(all_of.step < 0, 0, 4 * all_of.step + kind),
        )
        turn = np.where(all_of.step < 0, awaited, numbers) if op == Op.AWAIT else numbers
        steps.add(where[there], phases[there], kinds[there], turn[there], _ITSELF, op, numbers[there])
        if op not in (Op.SEND, Op.AWAIT):
            continue
        mine, side = (sender, "sender") if op == Op.SEND else (receiver, "receiver")
        fixed, each = by_place(side, 0), by_place(side, 1)
        minor = _BEFORE if op == Op.SEND else _AFTER
        wired = there & (placed.device != placed.host)[mine] & ((fixed > 0) | (each > 0))
        timed = np.flatnonzero(there & ~wired)
        steps.add_work(where[timed], phases[timed], kinds[timed], turn[timed], minor + 1, (fixed + each * all_of.size_bytes)[timed])
        some = np.flatnonzero(wired)
        if len(some):
            key = (where[some], phases[some], kinds[some], turn[some])
            copy = sum(len(c.source) for c in carried) + np.arange(len(some))
            carried.append(_copies(op == Op.SEND, thread[where[some]], all_of.size_bytes[some], each[some], placed, mine[some]))
            held = engine[mine[some]] * 2 + (op == Op.AWAIT)
            steps.add(*key, minor, Op.TAKE, held)
            steps.add_work(*key, minor + 1, fixed[some])
            steps.add(*key, minor + 2, Op.SEND, copy)
            steps.add(*key, minor + 3, Op.AWAIT, copy)
            steps.add(*key, minor + 4, Op.GIVE, held)
    taken = np.arange(2 * (int(engine.max(initial=-1)) + 1))
    uses, seconds = taken, np.zeros(len(taken))
    busy = np.flatnonzero(contended)
    if shared_gpu == "exclusive":
        steps.add(busy, _GAP, 0, busy, 0, Op.USE, len(taken) + np.arange(len(busy)))
        uses, seconds = np.append(uses, len(taken) + engine[at[busy]]), np.append(seconds, gap[busy])
    elif len(busy):
        copy = sum(len(c.source) for c in carried) + np.arange(len(busy))
        carried.append(_times(thread[busy], gap[busy], placed.share[at[busy]]))
        steps.add(busy, _GAP, 0, busy, 0, Op.SEND, copy)
        steps.add(busy, _GAP, 0, busy, 1, Op.AWAIT, copy)
    first, code, arg = steps.ordered(thread, threads)
    columns = [np.concatenate(c) for c in zip(*carried, strict=True)]
    whole = dict(zip(_Carried._fields, columns, strict=True))
    if not (whole["delay_seconds"] > 0).any():
        whole["delay_seconds"] = np.zeros(0)
    if not np.isfinite(whole["rate_limit"]).any():
        whole["rate_limit"] = np.zeros(0)
    return Program(
        first=first, code=code, arg=arg, work_seconds=np.concatenate(steps.work), resource=uses, use_seconds=seconds,
        capacity=np.ones(int(uses.max(initial=-1)) + 1, dtype=np.int64), host=placed.host[rank_of], **whole,
    )  # fmt: skip


def _sound(charged: Charges, inside: Charges, eager_limit: float, compute: float, ranks_per_node: int) -> None:
    """Refuse (A098) what cannot be charged."""
    numbers = [n for c in (charged, inside) for n in (*c.sender, *c.receiver, c.eager_limit, c.pin_seconds)]
    if not (min(*numbers, eager_limit, compute) >= 0) or any(np.isnan(n) for n in (*numbers, eager_limit, compute)) or np.isinf(compute):
        raise UsageError("A098", "messages cannot be charged so", found="a time, size or factor that is negative, or none at all")
    if ranks_per_node < 1 or not min(charged.chunk_bytes, inside.chunk_bytes) >= 1:
        raise UsageError("A098", "messages cannot be charged so", found="less than one rank a node, or chunks of less than a byte")


def all_messages(traffic: Traffic, selection: Selection = "short and long") -> tuple[Messages, Int]:
    """All messages of a run, collectives expanded, and the activity (call) that each belongs to, shape (messages,)."""
    _, all_of, edges = _all(traffic, selection)
    kept = len(all_of.send) - edges
    mine = Messages(*(getattr(all_of, n)[:kept] for n in ("send", "sent", "receive", "received", "step", "size_bytes", "ready")))
    # what goes on beside a rank belongs to the call that began it
    begun = {
        int(b): int(a) for a, b in zip(all_of.send[kept:].tolist(), all_of.receive[kept:].tolist(), strict=True) if b >= len(traffic.rank)
    }
    call = mine.send.copy()
    beside = call >= len(traffic.rank)
    call[beside] = [begun[c] for c in call[beside].tolist()]
    return mine, call


def _all(traffic: Traffic, selection: Selection) -> tuple[Traffic, Messages, int]:
    """The run with what goes on beside its ranks, all its messages, and how many of them, the last, are edges."""
    more, rounds, told = _aside(traffic)
    return more, joined([more.messages, *(expanded(r, selection) for r in rounds), told]), len(told.send)


def _cut(
    all_of: Messages, node: Int, thread: Int, charged: Charges, inside: Charges, edges: int, on_device: Bool | None, eager_limit: float
) -> tuple[Messages, Bool, Bool, Bool]:
    """Long messages in chunks; which are edges, which have buffers in device memory, and which stay on their node."""
    count = len(all_of.send)
    edge = np.arange(count) >= count - edges
    device = np.ones(count, dtype=np.bool_)
    if on_device is not None:
        device[: count - edges] = on_device
    within = node[thread[all_of.send]] == node[thread[all_of.receive]]
    chunk = np.where(device & ~edge, np.where(within, inside.chunk_bytes, charged.chunk_bytes), np.inf)
    pieces = np.maximum(np.ceil(all_of.size_bytes / chunk), 1).astype(np.int64)
    if pieces.max(initial=1) == 1:
        return all_of, edge, device, within
    which = np.repeat(np.arange(count), pieces)
    place = np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    each = np.where(np.isfinite(chunk), chunk, all_of.size_bytes)[which]
    size = np.where(pieces[which] > 1, np.minimum(each, all_of.size_bytes[which] - place * each), all_of.size_bytes[which])
    # a chunk waits for its receiver if the whole would
    ready = all_of.ready[which] | (pieces[which] > 1) & (all_of.size_bytes[which] > eager_limit)
    names = ("send", "sent", "receive", "received", "step")
    cut = Messages(**{n: getattr(all_of, n)[which] for n in names}, size_bytes=size, ready=ready)
    return cut, edge[which], device[which], within[which]


def _pins(seconds: Float, once: Bool, sender: Int, receiver: Int, size: Float) -> Float:
    """Time to pin memory for each message [s]: of those alike only the first where one buffer is pinned once."""
    if not (once & (seconds > 0)).any():
        return seconds
    alike = np.unique(np.stack([sender, receiver, size.astype(np.int64)]), axis=1, return_index=True)[1]
    begins = np.zeros(len(seconds), dtype=np.bool_)
    begins[alike] = True
    return np.where(once & ~begins, 0.0, seconds)


def _engines(placed: Layout) -> Int:
    """Number of each rank's GPU."""
    return np.unique(placed.device, return_inverse=True)[1].astype(np.int64)


def _copies(leaving: bool, thread: Int, size: Float, per_byte: Float, placed: Layout, rank: Int) -> _Carried:
    """Copies between GPU and host as messages of a rank to itself, at the rate of the copy and over the wires between."""
    device, host = placed.device[rank], placed.host[rank]
    with np.errstate(divide="ignore"):
        limit = 1.0 / per_byte
    ends = (device, host) if leaving else (host, device)
    return _Carried(thread, thread, np.round(size), np.full(len(size), Leaves.EAGER, dtype=np.uint8), *ends, limit, np.zeros(len(size)))


def _times(thread: Int, seconds: Float, share: Int) -> _Carried:
    """Compute as a flow over the time of a GPU, a byte a picosecond."""
    count = len(seconds)
    eager = np.full(count, Leaves.EAGER, dtype=np.uint8)
    return _Carried(thread, thread, np.round(seconds * PICOSECONDS), eager, share, share, np.full(count, np.inf), np.zeros(count))
