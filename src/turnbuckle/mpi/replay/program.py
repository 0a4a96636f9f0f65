"""A recorded MPI run as a program for the contention replay: where ranks stand, and what takes each message from buffer to buffer.

Every message may be charged for work at either end (`Charges`), whichever way it was recorded: that is how it is taken through host
memory, or straight from device memory.  Where nodes have GPUs as parts, a host copy is a message of its rank to itself, over the wires
between GPU and host and through a copy engine of the GPU, one a direction; where they have none it is a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.errors import UsageError
from turnbuckle.mpi.collectives.collectives import Selection
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic, bounded, expanded, joined
from turnbuckle.mpi.replay.staging import Staging, staged
from turnbuckle.replay.contention.contention import PICOSECONDS, Leaves, Op, Program, ways
from turnbuckle.replay.contention.network import Network, Node, Wire, plain
from turnbuckle.replay.contention.operations import Operations, Slot, as_one

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]
#: Whole numbers of any kind.
Whole = NDArray[np.integer[Any]]

#: A wire that limits nothing [B/s].
_SEAT: Final = 1e18
#: Open MPI's smcuda has none for device memory, UCX about 8 KiB, TraceR 8192 by default and 64000 in its sample.
EAGER_LIMIT: Final = 8192.0


@dataclass(frozen=True)
class Charges:
    """What a message costs that carries a buffer in device memory, besides its way over the network.

    Attributes
    ----------
    sender, receiver : a copy at either end: seconds, and seconds a byte; (0, 0) for none.
    eager_limit : up to this size it leaves as soon as it is sent [B]; None for as from host memory.
    direct : whether it goes from GPU to GPU, rather than from host to host.
    pin_seconds : between the time it may leave and the time it does [s].
    pin_once : whether that is paid once for all messages of one size between two ranks, as if they were one buffer.
    chunk_bytes : longer ones are cut, so that copies overlap with the network [B].
    """

    sender: tuple[float, float] = (0.0, 0.0)
    receiver: tuple[float, float] = (0.0, 0.0)
    eager_limit: float | None = None
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
    seat : place from which its messages leave for other nodes.
    """

    node: Int
    host: Int
    device: Int
    share: Int
    seat: Int

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
    seats = _seats(made, near, own)
    behind = np.array(shares)[inside % len(gpus)] if len(shares) == len(gpus) > 0 else np.full(len(node), -1)
    first = node * len(made.parts)
    return Layout(np.asarray(node), first + near, first + own, np.where(behind >= 0, first + behind, -1), first + seats)


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


def seated(made: Node) -> Node:
    """A node with seats for the ranks of hosts that are as near to one card as to another: what leaves from them takes turns.

    A place has one card.  A seat is a place beside its host, on a wire that limits nothing, for what a rank sends to other nodes; there
    are as many as cards.

    >>> seated(Node(("host 0",), (), (0, 0), (0,))).parts
    ('host 0', 'seat 0', 'seat 1')
    """
    hosts = [h for h in made.parts_of("host") if h in made.passes]
    if len(made.cards) < 2 or not hosts:
        return made
    tried = _with_seats(made, hosts)
    own = _cards(tried, np.array(tried.parts_of("seat"))).reshape(len(hosts), -1)
    return _with_seats(made, [h for h, cards in zip(hosts, own, strict=True) if len(np.unique(cards)) > 1])


def _with_seats(made: Node, hosts: list[int]) -> Node:
    at = [h for h in hosts for _ in made.cards]
    first = len(made.parts)
    wires = [w for k, h in enumerate(at) for w in (Wire(h, first + k, _SEAT), Wire(first + k, h, _SEAT))]
    return replace(made, parts=(*made.parts, *(f"seat {k}" for k in range(len(at)))), wires=(*made.wires, *wires))


def _cards(made: Node, parts: Int) -> Int:
    """The card of each part: that by which a message leaves for another node."""
    first, links = ways(Network(2, 1.0, 0.0, node=made), parts, len(made.parts) + parts)
    return np.array([next(k for k in links[a:b] if k < len(made.cards)) for a, b in pairwise(first.tolist())], dtype=np.int64)


def _seats(made: Node, host: Int, device: Int) -> Int:
    """The seat of each rank at its host where there are any: the one whose card is that of its GPU, if it is as near."""
    seats = np.array(made.parts_of("seat"), dtype=np.int64)
    if not len(seats):
        return host
    beside = {w.target: w.source for w in made.wires}
    pairs, which = np.unique(np.stack([host, device]), axis=1, return_inverse=True)
    cards = _cards(made, np.append(seats, pairs[1]))
    found = []
    for n, (at, card) in enumerate(zip(pairs[0].tolist(), cards[len(seats) :].tolist(), strict=True)):
        mine = [k for k, s in enumerate(seats.tolist()) if beside[s] == at]
        same = [k for k in mine if cards[k] == card] or mine[n % max(len(mine), 1) :]
        found.append(int(seats[same[0]]) if same else at)
    return np.array(found, dtype=np.int64)[which.reshape(-1)]


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
    if not len(begin):
        nothing = np.zeros(0, dtype=np.int64)
        return traffic, traffic.rounds, Messages(nothing, nothing, nothing, nothing, nothing, np.zeros(0))
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


class Carried(NamedTuple):
    """Messages as they go over the network; arrays of shape (messages,), the last two empty where nothing limits or delays any."""

    source: NDArray[np.uint32]
    target: NDArray[np.uint32]
    size_bytes: NDArray[np.uint64]
    leaves: NDArray[np.uint8]
    start: NDArray[np.uint32]
    end: NDArray[np.uint32]
    rate_limit: Float = np.zeros(0)
    delay_seconds: Float = np.zeros(0)


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
    staging: Staging = "each message",
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
    staging : whether host copies are of each message of a collective, or of all that a rank puts in and gets, once a call.
    shared_gpu : compute runs on the GPU of its rank; where several ranks have one, it serves them one after the other, or at once with
        even shares of its time.

    Returns
    -------
    A process for every rank (thread), then one for every member of a non-blocking collective.

    Raises
    ------
    UsageError : A098, more ranks than the layout places, or a charge, limit or factor that is negative or none at all.
    """
    far, near = charged, inside or charged
    sound(far, near, eager_limit, compute, ranks_per_node)
    placed = layout or laid_out(np.arange(traffic.ranks) // ranks_per_node)
    if len(placed.node) < traffic.ranks:
        raise UsageError("A098", "not every rank has a place", found=f"{len(placed.node)} of {traffic.ranks} ranks")
    calls = len(traffic.rank)
    # between hosts a collective carries no buffers of GPUs; what goes straight has nothing to stage
    once = staged(_aside(traffic)[1]) if staging == "once a call" and sum(far.sender + far.receiver) > 0 else staged(())
    traffic, all_of, edges = _all(traffic, selection)
    if len(once.call):
        plain = all_of.step[: len(all_of.send) - edges] < 0
        if on_device is not None:
            # of a call with a buffer in device memory all is
            among = on_device & ~plain
            once = once.among(np.append(all_of.send[: len(plain)][among], all_of.receive[: len(plain)][among]))
        on_device = plain if on_device is None else on_device & plain
    threads = len(traffic.tail_seconds)
    rank_of = traffic.rank_of if len(traffic.rank_of) else np.arange(threads)
    # what a rank does after its last call comes before a call that it never makes
    thread = np.append(traffic.rank, np.arange(threads)).astype(np.uint32)
    priced = Priced(far, near, eager_limit)
    cut = cut_up(all_of, edges, placed.node[rank_of][traffic.rank], priced, on_device)
    del all_of
    steps = Operations(thread, int(cut.step.max(initial=-1)) + 1)
    gap = np.append(traffic.gap_seconds, traffic.tail_seconds) * compute
    busy = np.flatnonzero(placed.sharing()[rank_of[thread]] & (gap > 0)) if shared_gpu else np.zeros(0, dtype=np.int64)
    contended = gap[busy]
    gap[busy] = 0.0
    everyone = np.arange(len(thread), dtype=np.uint32)
    steps.add_work(everyone, Slot.GAP, gap)
    steps.add_work(everyone[:calls], steps.kept, traffic.kept_seconds[:calls])
    carried = [sent_over(cut, edges, thread, rank_of, placed, priced, steps.place)]
    engine = np.unique(placed.device, return_inverse=True)[1].astype(np.int64)
    for leaving, slot, size, charge in ((True, Slot.SENT, once.put_bytes, far.sender), (False, steps.kept, once.got_bytes, far.receiver)):
        _stage(leaving, slot, once.call[size > 0], size[size > 0], charge, thread, rank_of, placed, engine, steps, carried)
    _ends(cut, edges, calls, thread, rank_of, placed, engine, priced, steps, carried)
    del cut
    uses = np.arange(2 * (int(engine.max(initial=-1)) + 1))
    seconds = np.zeros(len(uses))
    if shared_gpu == "exclusive":
        steps.add(busy, Slot.GAP, Op.USE, len(uses) + np.arange(len(busy)))
        uses, seconds = np.append(uses, len(uses) + engine[rank_of[thread[busy]]]), np.append(seconds, contended)
    elif len(busy):
        first = sum(len(c.source) for c in carried)
        carried.append(times_of(thread[busy], contended, placed.share[rank_of[thread[busy]]]))
        both = np.repeat(first + np.arange(len(busy)), 2)
        steps.add(np.repeat(busy, 2), Slot.GAP, np.tile(np.array([Op.SEND, Op.AWAIT], dtype=np.uint8), len(busy)), both)
    first_of, code, arg = steps.ordered()
    return Program(
        first=first_of, code=code, arg=arg, work_seconds=np.concatenate(steps.work), resource=uses, use_seconds=seconds,
        capacity=np.ones(int(uses.max(initial=-1)) + 1, dtype=np.int64), host=placed.host[rank_of], **together(carried),
    )  # fmt: skip


def sound(charged: Charges, inside: Charges, eager_limit: float, compute: float, ranks_per_node: int) -> None:
    """Refuse (A098) what cannot be charged."""
    numbers = [n for c in (charged, inside) for n in (*c.sender, *c.receiver, c.eager_limit or 0.0, c.pin_seconds)]
    if not (min(*numbers, eager_limit, compute) >= 0) or any(np.isnan(n) for n in (*numbers, eager_limit, compute)) or np.isinf(compute):
        raise UsageError("A098", "messages cannot be charged so", found="a time, size or factor that is negative, or none at all")
    if ranks_per_node < 1 or not min(charged.chunk_bytes, inside.chunk_bytes) >= 1:
        raise UsageError("A098", "messages cannot be charged so", found="less than one rank a node, or chunks of less than a byte")


def all_messages(traffic: Traffic, selection: Selection = "short and long") -> tuple[Messages, Int]:
    """All messages of a run, collectives expanded, and the activity (call) that each belongs to, shape (messages,)."""
    _, all_of, edges = _all(traffic, selection)
    kept = len(all_of.send) - edges
    ends = (all_of.send, all_of.sent, all_of.receive, all_of.received, all_of.step)
    send, sent, receive, received, step = (column[:kept].astype(np.int64) for column in ends)
    mine = Messages(send, sent, receive, received, step, all_of.size_bytes[:kept], all_of.ready[:kept])
    # what goes on beside a rank belongs to the call that began it
    begun = np.arange(len(traffic.rank) + edges // 2)
    begun[all_of.receive[kept:][: edges // 2]] = all_of.send[kept:][: edges // 2]
    return mine, begun[send]


def _all(traffic: Traffic, selection: Selection) -> tuple[Traffic, Messages, int]:
    """The run with what goes on beside its ranks, all its messages, and how many of them, the last, are edges."""
    more, rounds, told = _aside(traffic)
    parts, many = [more.messages], len(more.messages.send)
    for one in rounds:
        parts.append(expanded(one, selection))
        many += len(parts[-1].send)
        bounded(many)
    return more, joined([*parts, told], np.int32), len(told.send)


class Priced:
    """What messages pay by their class: 0 without a buffer in device memory, 1 between nodes, 2 inside one."""

    def __init__(self, far: Charges, near: Charges, eager_limit: float) -> None:
        self.far, self.near, self.eager_limit = far, near, eager_limit

    def each(self, value: str, otherwise: float = 0.0) -> Float:
        """A number of each class."""
        return np.array([otherwise, getattr(self.far, value), getattr(self.near, value)])

    def copies(self, side: str) -> tuple[Float, Float]:
        """Seconds, and seconds a byte, of a copy at one end."""
        fixed, per_byte = np.array([(0.0, 0.0), getattr(self.far, side), getattr(self.near, side)]).T
        return fixed, per_byte

    def limits(self) -> Float:
        """Up to which size messages leave as soon as they are sent [B]."""
        own = (self.far.eager_limit, self.near.eager_limit)
        return np.array([self.eager_limit, *(self.eager_limit if n is None else n for n in own)])


class Cut(NamedTuple):
    """Messages, the long ones in chunks; arrays of shape (messages,).  The last are edges."""

    send: Whole
    sent: Whole
    receive: Whole
    received: Whole
    step: Whole
    size_bytes: Float
    leaves: NDArray[np.uint8]
    paying: NDArray[np.uint8]


def cut_up(all_of: Messages, edges: int, node: Int, priced: Priced, on_device: Bool | None) -> Cut:
    """Messages as they leave, and the class by which they pay; `node` of each call."""
    count = len(all_of.send)
    full = all_of.size_bytes > 0
    full[count - edges :] = False
    if on_device is not None:
        full[: count - edges] &= on_device
    paying = (1 + (node[all_of.send] == node[all_of.receive])).astype(np.uint8)
    paying[~full] = 0
    ready = (all_of.size_bytes > priced.limits()[paying]) | all_of.ready
    leaves = np.where(ready, Leaves.READY, Leaves.EAGER).astype(np.uint8)
    leaves[count - edges :] = Leaves.EDGE
    send, sent, receive, received, step = all_of.send, all_of.sent, all_of.receive, all_of.received, all_of.step
    chunk = priced.each("chunk_bytes", np.inf)
    if not np.isfinite(chunk).any():
        return Cut(send, sent, receive, received, step, all_of.size_bytes, leaves, paying)
    pieces = np.maximum(np.ceil(all_of.size_bytes / chunk[paying]), 1)
    bounded(float(pieces.sum()))
    pieces = pieces.astype(np.int64)
    which = np.repeat(np.arange(count), pieces)
    place = np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    each, size = np.where(pieces > 1, chunk[paying], all_of.size_bytes)[which], all_of.size_bytes[which]
    # whole bytes, none of them lost
    size = np.round(np.minimum((place + 1) * each, size)) - np.round(place * each)
    # a chunk waits for its receiver if the whole would
    send, sent, receive, received, step = (column[which] for column in (send, sent, receive, received, step))
    return Cut(send, sent, receive, received, step, size, leaves[which], paying[which])


def sent_over(cut: Cut, edges: int, thread: NDArray[np.uint32], rank_of: Int, placed: Layout, priced: Priced, place: Whole) -> Carried:
    """Messages over the network, from GPU to GPU where they go straight; `place` of each call in the order of its rank."""
    source, target = thread[cut.send], thread[cut.receive]
    size = np.round(cut.size_bytes).astype(np.uint64)
    size[len(size) - edges :] = 0
    host, device = (np.asarray(at)[rank_of].astype(np.uint32) for at in (placed.host, placed.device))
    start, end = host[source], host[target]
    seat = np.asarray(placed.seat)[rank_of].astype(np.uint32)
    if (seat != host).any():
        node = np.asarray(placed.node)[rank_of]
        far = np.flatnonzero(node[source] != node[target])
        start[far], end[far] = seat[source[far]], seat[target[far]]
    straight = priced.each("direct") > 0
    if straight.any():
        direct = np.flatnonzero(straight[cut.paying])
        start[direct], end[direct] = device[source[direct]], device[target[direct]]
    seconds = priced.each("pin_seconds")
    if not (seconds > 0).any():
        return Carried(source, target, size, cut.leaves, start, end)
    delay = seconds[cut.paying]
    once = np.flatnonzero((priced.each("pin_once") * seconds > 0)[cut.paying])
    if len(once):
        # a call that goes on beside its rank is as early as the one that begins it
        begun = np.arange(len(thread))
        told = cut.send[len(size) - edges :][: edges // 2]
        begun[cut.receive[len(size) - edges :][: edges // 2]] = told
        pair = rank_of[source[once]].astype(np.uint64) << np.uint64(32) | rank_of[target[once]].astype(np.uint64)
        when = place[begun[cut.send[once]]]
        order = np.lexsort((when, size[once], pair))
        again = (pair[order][1:] == pair[order][:-1]) & (size[once][order][1:] == size[once][order][:-1])
        delay[once[order[1:][again]]] = 0.0
    return Carried(source, target, size, cut.leaves, start, end, delay_seconds=delay)


def _ends(
    cut: Cut, edges: int, calls: int, thread: NDArray[np.uint32], rank_of: Int, placed: Layout, engine: Int, priced: Priced,
    steps: Operations, carried: list[Carried],
) -> None:  # fmt: skip
    """What is done at both ends of every message, and the copies before it is sent and after it is there."""
    count = len(cut.send)
    ends = (
        (Op.POST, cut.receive, Slot.POST),
        (Op.SEND, cut.send, Slot.SEND),
        (Op.AWAIT, cut.received, Slot.AWAIT),
        (Op.SENT, cut.sent, Slot.SENT),
    )
    for kind, (op, where, plain_slot) in enumerate(ends):
        # what one call waits for is dealt with in the order in which room was made
        these = np.argsort(cut.receive, kind="stable") if op == Op.AWAIT else np.arange(count)
        mine = these[where[these] >= 0].astype(np.uint32)
        del these
        call, step = where[mine], cut.step[mine]
        slot = np.where(step < 0, np.int32(plain_slot), np.int32(Slot.ROUND + kind) + np.int32(4) * step)
        if op == Op.SEND:
            # what goes on beside a rank tells its end last
            slot[(mine >= count - edges) & (call >= calls)] = steps.kept
        side = {Op.SEND: "sender", Op.AWAIT: "receiver"}.get(op)
        fixed, per_byte = priced.copies(side) if side else (np.zeros(3), np.zeros(3))
        pays = (fixed > 0) | (per_byte > 0)
        if not pays.any():
            steps.add(call, slot, op, mine)
            continue
        group, process = cut.paying[mine], thread[call]
        wired = pays[group] & (placed.device != placed.host)[rank_of][process]
        timed = pays[group] & ~wired
        took = steps.worked(fixed[group[timed]] + per_byte[group[timed]] * cut.size_bytes[mine[timed]])
        latency = wired & (fixed > 0)[group]
        begun = steps.worked(fixed[group[latency]])
        number = _copied(op == Op.SEND, mine, np.flatnonzero(wired), process, cut, per_byte, placed, rank_of, carried)
        # of each message: itself, and in front of it or behind it what its copy takes
        many = (1 + timed + 4 * wired.astype(np.uint8) + latency).astype(np.uint8)
        begins = np.cumsum(many, dtype=np.uint32) - many
        whole = int(many.sum())
        code, arg = np.empty(whole, dtype=np.uint8), np.empty(whole, dtype=np.uint32)
        of = begins + many - np.uint8(1) if op == Op.SEND else begins
        code[of], arg[of] = op, mine
        begins += np.uint8(op == Op.AWAIT)
        for some, one, value in ((begins[timed], Op.WORK, took), (begins[latency] + np.uint8(1), Op.WORK, begun)):
            code[some], arg[some] = one, value
        held = (engine[rank_of] * 2 + (op == Op.AWAIT)).astype(np.uint32)[process[wired]]
        of = begins[wired]
        code[of], arg[of] = Op.TAKE, held
        of += latency[wired]
        for one, value in ((Op.SEND, number), (Op.AWAIT, number), (Op.GIVE, held)):
            of += np.uint8(1)
            code[of], arg[of] = one, value
        steps.add(call, slot, code, arg, many)


def _copied(
    leaving: bool, mine: NDArray[np.uint32], wired: Int, process: NDArray[np.uint32], cut: Cut, per_byte: Float, placed: Layout,
    rank_of: Int, carried: list[Carried],
) -> NDArray[np.uint32]:  # fmt: skip
    """Copies of those of some messages that go over wires, numbered as their messages are: the number of each."""
    order = np.argsort(mine[wired], kind="stable")
    number = np.empty(len(order), dtype=np.uint32)
    number[order] = sum(len(c.source) for c in carried) + np.arange(len(order), dtype=np.uint32)
    at = wired[order]
    each = per_byte[cut.paying[mine[at]]]
    carried.append(copies_of(leaving, process[at], cut.size_bytes[mine[at]], each, placed, rank_of[process[at]]))
    return number


def _stage(
    leaving: bool, slot: int, call: Int, size: Float, charge: tuple[float, float], thread: NDArray[np.uint32], rank_of: Int,
    placed: Layout, engine: Int, steps: Operations, carried: list[Carried],
) -> None:  # fmt: skip
    """One copy of a whole buffer for each call: a time, or a message between GPU and host through a copy engine."""
    rank = rank_of[thread[call]]
    wired = (placed.device != placed.host)[rank] & (charge[1] > 0)
    steps.add_work(call, slot, np.where(wired, 0.0, charge[0] + charge[1] * size))
    at = call[wired]
    number = sum(len(c.source) for c in carried) + np.arange(len(at))
    carried.append(copies_of(leaving, thread[at], size[wired], np.full(len(at), charge[1]), placed, rank[wired]))
    held = engine[rank[wired]] * 2 + (not leaving)
    steps.add(at, slot, Op.TAKE, held)
    steps.add_work(at, slot, np.full(len(at), charge[0]))
    for op, what in ((Op.SEND, number), (Op.AWAIT, number), (Op.GIVE, held)):
        steps.add(at, slot, op, what)


def copies_of(leaving: bool, thread: NDArray[np.uint32], size: Float, per_byte: Float, placed: Layout, rank: Int) -> Carried:
    """Copies between GPU and host as messages of a rank to itself, at the rate of the copy and over the wires between."""
    device, host = placed.device[rank].astype(np.uint32), placed.host[rank].astype(np.uint32)
    with np.errstate(divide="ignore"):
        limit = 1.0 / per_byte
    ends = (device, host) if leaving else (host, device)
    return Carried(thread, thread, np.round(size).astype(np.uint64), np.full(len(size), Leaves.EAGER, dtype=np.uint8), *ends, as_one(limit))


def times_of(thread: NDArray[np.uint32], seconds: Float, share: Int) -> Carried:
    """Compute as a flow over the time of a GPU, a byte a picosecond."""
    eager, at = np.full(len(seconds), Leaves.EAGER, dtype=np.uint8), share.astype(np.uint32)
    return Carried(thread, thread, np.round(seconds * PICOSECONDS).astype(np.uint64), eager, at, at)


def together(carried: list[Carried]) -> dict[str, Any]:
    """Messages one kind after the other; what they were made of is let go."""
    lengths, whole = [len(one.source) for one in carried], dict[str, Any]()
    fields = {name: [getattr(one, name) for one in carried] for name in Carried._fields}
    carried.clear()
    for name, none in (("rate_limit", np.inf), ("delay_seconds", 0.0)):
        parts = fields.pop(name)
        some = any((part != none).any() for part in parts)
        filled = [part if len(part) else np.full(count, none) for part, count in zip(parts, lengths, strict=True)] if some else []
        whole[name] = np.concatenate([np.zeros(0), *filled])
    while fields:
        name, parts = fields.popitem()
        whole[name] = np.concatenate(parts)
    return whole
