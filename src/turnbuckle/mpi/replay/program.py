"""Programs for the contention replay from recorded MPI runs: the placement of ranks, and the
operations that take each message from buffer to buffer.

Every message may be charged for work at either end (`Charges`), however it was recorded; charges
describe a path through host memory or straight from device memory.  Where nodes have GPUs as parts,
a host copy is a message of its rank to itself: it uses the wires between GPU and host and a copy
engine of the GPU, one per direction.  Where nodes have none, a host copy is a duration.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Float, Int, Whole
from turnbuckle.foundation.errors import error_of
from turnbuckle.mpi.collectives.collectives import Selection
from turnbuckle.mpi.replay.messages import Messages, Rounds, Traffic, bounded, expanded, joined
from turnbuckle.mpi.replay.node_layout import Layout, laid_out
from turnbuckle.mpi.replay.staging import Staging, staged
from turnbuckle.replay.contention.contention import PICOSECONDS, Leaves, Op, Program
from turnbuckle.replay.contention.operations import Operations, Slot, as_one

#: Open MPI's smcuda has no eager limit for device memory, UCX about 8 KiB, TraceR 8192 by default
#: and 64000 in its sample [B].
EAGER_LIMIT: Final = 8192.0


@dataclass(frozen=True)
class Charges:
    """Costs of a message whose buffer is in device memory, on top of its transfer over the network.

    Attributes
    ----------
    sender, receiver : fixed cost [s] and cost per byte [s/B] of the copy at each end; (0, 0) for no
        copy.
    eager_limit : messages up to this size leave as soon as they are sent [B]; None for the limit of
        host memory.
    direct : whether the message goes from GPU to GPU, rather than from host to host.
    pin_seconds : delay between the send and the time at which the message may leave; it overlaps
        waiting for a late receiver [s].
    pin_once : whether the delay is paid once for all messages of one size between two ranks, as if
        they shared one buffer.
    chunk_bytes : longer messages are cut into chunks of this size, so that copies overlap with the
        network [B].
    """

    sender: tuple[float, float] = (0.0, 0.0)
    receiver: tuple[float, float] = (0.0, 0.0)
    eager_limit: float | None = None
    direct: bool = False
    pin_seconds: float = 0.0
    pin_once: bool = False
    chunk_bytes: float = np.inf


def _nonblocking_beside(traffic: Traffic) -> tuple[Traffic, tuple[Rounds, ...], Messages]:
    """Move the steps of non-blocking collectives into threads of their own, one for each member,
    beside the ranks.

    Such a thread begins when the call that starts the collective is made, and the call that
    completes it waits for the thread's end; edges carry both dependencies.  Returns the traffic
    with these threads, its collectives, and the edges.
    """
    rank = traffic.rank
    begins: list[Int] = []
    ends: list[Int] = []
    rounds: list[Rounds] = []
    calls, threads = len(traffic.rank), len(traffic.tail_seconds)
    for group in traffic.rounds:
        beside = (
            group.begin >= 0 if group.begin.size else np.zeros(group.activity.shape, dtype=np.bool_)
        )
        activity = group.activity.copy()
        activity[beside] = calls + sum(map(len, begins)) + np.arange(int(beside.sum()))
        begins.append(group.begin[beside] if group.begin.size else np.zeros(0, dtype=np.int64))
        ends.append(group.activity[beside])
        rounds.append(
            Rounds(group.operation, group.block_bytes, activity, group.root, memory=group.memory)
        )
    begin, end = (np.concatenate([np.zeros(0, dtype=np.int64), *parts]) for parts in (begins, ends))
    if not len(begin):
        nothing = np.zeros(0, dtype=np.int64)
        return (
            traffic,
            traffic.rounds,
            Messages(nothing, nothing, nothing, nothing, nothing, np.zeros(0)),
        )
    count = len(begin)
    threads_calls, none = calls + np.arange(count), np.full(2 * count, -1)
    edges = Messages(
        np.append(begin, threads_calls),
        none,
        np.append(threads_calls, end),
        np.append(threads_calls, end),
        none,
        np.zeros(2 * count),
    )
    zero = np.zeros(count)
    rank_of = traffic.rank_of if len(traffic.rank_of) else np.arange(threads)
    more: dict[str, Any] = {
        f"{name}_seconds": np.append(getattr(traffic, f"{name}_seconds"), zero)
        for name in ("gap", "kept", "tail")
    }
    places: dict[str, Any] = {
        "rank": np.append(rank, threads + np.arange(count)),
        "rank_of": np.append(rank_of, rank_of[rank[begin]]),
    }
    extended = replace(traffic, **places, **more)
    return extended, tuple(rounds), edges


class Carried(NamedTuple):
    """Messages in the form that the network takes; arrays of shape (messages,).

    The last two are empty where no message has a rate limit or a delay.
    """

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
    """Return the program of a recorded run.

    Parameters
    ----------
    ranks_per_node : ranks fill one node after the other, unless there is a `layout`.
    charged, inside : costs of messages between nodes, and inside a node (as between nodes, unless
        given).
    on_device : whether the buffer of each message is in device memory, in the order of
        `all_messages`, or that of each end, shape (messages, 2); None for all.
    eager_limit : messages up to this size leave as soon as they are sent [B].
    selection : rules by which algorithms of collectives are chosen.
    compute : factor on the recorded compute.
    staging : whether a collective is staged in host memory message by message, or once per call as
        whole buffers.
    shared_gpu : how a GPU serves the compute of several ranks: one rank after the other
        (``exclusive``), or all at once with even shares of its time (``time``); None for no
        contention.

    Returns a program with a process for every rank (thread), then one for every member of a
    non-blocking collective.

    Raises A098, more ranks than the layout places, or a charge, limit or factor that is negative or
    not a number.
    """
    far, near = charged, inside or charged
    sound(far, near, eager_limit, compute, ranks_per_node)
    placed = layout or laid_out(np.arange(traffic.ranks) // ranks_per_node)
    if len(placed.node) < traffic.ranks:
        raise error_of("A098.place", found=f"{len(placed.node)} of {traffic.ranks} ranks")
    calls = len(traffic.rank)
    # Only collectives that are copied have anything to stage; messages straight from device memory
    # do not.
    staged_calls = (
        staged(_nonblocking_beside(traffic)[1])
        if staging == "once a call" and sum(far.sender + far.receiver) > 0
        else staged(())
    )
    traffic, all_of, edges = _all(traffic, selection)
    if len(staged_calls.call):
        plain = all_of.step[: len(all_of.send) - edges] < 0
        if on_device is not None:
            on_device = ends_of(on_device)
            # A call with one buffer in device memory has all its buffers there.
            device_messages = on_device.any(axis=1) & ~plain
            staged_calls = staged_calls.among(
                np.append(
                    all_of.send[: len(plain)][device_messages],
                    all_of.receive[: len(plain)][device_messages],
                )
            )
        on_device = plain if on_device is None else on_device & plain[:, None]
    threads = len(traffic.tail_seconds)
    rank_of = traffic.rank_of if len(traffic.rank_of) else np.arange(threads)
    # The compute after a rank's last call is attached to an extra call, which the rank never makes.
    thread = np.append(traffic.rank, np.arange(threads)).astype(np.uint32)
    priced = Priced(far, near, eager_limit)
    cut = cut_up(all_of, edges, placed.node[rank_of][traffic.rank], priced, on_device)
    del all_of
    steps = Operations(thread, int(cut.step.max(initial=-1)) + 1)
    gap = np.append(traffic.gap_seconds, traffic.tail_seconds) * compute
    on_shared_gpu = (
        np.flatnonzero(placed.sharing()[rank_of[thread]] & (gap > 0))
        if shared_gpu
        else np.zeros(0, dtype=np.int64)
    )
    contended = gap[on_shared_gpu]
    gap[on_shared_gpu] = 0.0
    everyone = np.arange(len(thread), dtype=np.uint32)
    steps.add_work(everyone, Slot.GAP, gap)
    steps.add_work(everyone[:calls], steps.kept, traffic.kept_seconds[:calls])
    carried = [sent_over(cut, edges, thread, rank_of, placed, priced, steps.place)]
    engine = np.unique(placed.device, return_inverse=True)[1].astype(np.int64)
    for leaving, slot, size, charge in (
        (True, Slot.SENT, staged_calls.put_bytes, far.sender),
        (False, steps.kept, staged_calls.got_bytes, far.receiver),
    ):
        _stage(
            leaving,
            slot,
            staged_calls.call[size > 0],
            size[size > 0],
            charge,
            thread,
            rank_of,
            placed,
            engine,
            steps,
            carried,
        )
    _ends(cut, edges, calls, thread, rank_of, placed, engine, priced, steps, carried)
    del cut
    uses = np.arange(2 * (int(engine.max(initial=-1)) + 1))
    seconds = np.zeros(len(uses))
    if shared_gpu == "exclusive":
        steps.add(on_shared_gpu, Slot.GAP, Op.USE, len(uses) + np.arange(len(on_shared_gpu)))
        uses, seconds = (
            np.append(uses, len(uses) + engine[rank_of[thread[on_shared_gpu]]]),
            np.append(seconds, contended),
        )
    elif len(on_shared_gpu):
        first = sum(len(c.source) for c in carried)
        carried.append(
            times_of(thread[on_shared_gpu], contended, placed.share[rank_of[thread[on_shared_gpu]]])
        )
        messages = np.repeat(first + np.arange(len(on_shared_gpu)), 2)
        steps.add(
            np.repeat(on_shared_gpu, 2),
            Slot.GAP,
            np.tile(np.array([Op.SEND, Op.AWAIT], dtype=np.uint8), len(on_shared_gpu)),
            messages,
        )
    first_of, code, arg = steps.ordered()
    operations = (first_of, code, arg, np.concatenate(steps.work))
    capacity = np.ones(int(uses.max(initial=-1)) + 1, dtype=np.int64)
    return Program(
        *operations,
        resource=uses,
        use_seconds=seconds,
        capacity=capacity,
        host=placed.host[rank_of],
        **together(carried),
    )


def sound(
    charged: Charges, inside: Charges, eager_limit: float, compute: float, ranks_per_node: int
) -> None:
    """Refuse (A098) costs that are negative or not numbers."""
    numbers = [
        n
        for c in (charged, inside)
        for n in (*c.sender, *c.receiver, c.eager_limit or 0.0, c.pin_seconds)
    ]
    if (
        not (min(*numbers, eager_limit, compute) >= 0)
        or any(np.isnan(n) for n in (*numbers, eager_limit, compute))
        or np.isinf(compute)
    ):
        raise error_of(
            "A098.charge", found="a time, size or factor that is negative, or none at all"
        )
    if ranks_per_node < 1 or not min(charged.chunk_bytes, inside.chunk_bytes) >= 1:
        raise error_of(
            "A098.charge", found="less than one rank per node, or chunks of less than a byte"
        )


def all_messages(traffic: Traffic, selection: Selection = "short and long") -> tuple[Messages, Int]:
    """Return all messages of a run, with collectives expanded, and the activity (call) of each
    message, shape (messages,).
    """
    _, all_of, edges = _all(traffic, selection)
    kept = len(all_of.send) - edges
    ends = (all_of.send, all_of.sent, all_of.receive, all_of.received, all_of.step)
    send, sent, receive, received, step = (column[:kept].astype(np.int64) for column in ends)
    kept_messages = Messages(
        send,
        sent,
        receive,
        received,
        step,
        all_of.size_bytes[:kept],
        all_of.ready[:kept],
        all_of.memory[:kept],
    )
    # Messages of a thread beside a rank belong to the call that started its collective.
    starting_call = np.arange(len(traffic.rank) + edges // 2)
    starting_call[all_of.receive[kept:][: edges // 2]] = all_of.send[kept:][: edges // 2]
    return kept_messages, starting_call[send]


def _all(traffic: Traffic, selection: Selection) -> tuple[Traffic, Messages, int]:
    """Return the run with its threads beside ranks, all its messages, and how many of them, the
    last, are edges.
    """
    extended, rounds, edges = _nonblocking_beside(traffic)
    parts, total = [extended.messages], len(extended.messages.send)
    for group in rounds:
        parts.append(expanded(group, selection))
        total += len(parts[-1].send)
        bounded(total)
    return extended, joined([*parts, edges], np.int32), len(edges.send)


def ends_of(on_device: Bool) -> Bool:
    """Return which ends of messages are in device memory, shape (messages, 2), of a mask of
    messages or of ends.

    >>> ends_of(np.array([True, False])).tolist()
    [[True, True], [False, False]]
    """
    return on_device if on_device.ndim == 2 else np.stack([on_device, on_device], axis=1)


class Priced:
    """Costs of messages by class.

    ======  =================================================
    class   messages
    ======  =================================================
    0       without a buffer in device memory
    1, 2    with both there, between nodes and inside a node
    3, 4    with the sender's there only, as 1 and 2
    5, 6    with the receiver's there only, as 1 and 2
    ======  =================================================
    """

    #: Whether the sender's buffer is in device memory, and the receiver's, by class.
    SENDER: Final = np.array([False, True, True, True, True, False, False])
    RECEIVER: Final = np.array([False, True, True, False, False, True, True])

    def __init__(self, far: Charges, near: Charges, eager_limit: float) -> None:
        self.far, self.near, self.eager_limit = far, near, eager_limit

    def each(self, value: str, otherwise: float = 0.0) -> Float:
        """Return one field of `Charges` for each class."""
        return np.array([otherwise, *3 * (getattr(self.far, value), getattr(self.near, value))])

    def copies(self, side: str) -> tuple[Float, Float]:
        """Return the fixed cost [s] and the cost per byte [s/B] of a copy at one end, for each
        class.
        """
        fixed, per_byte = np.array(
            [(0.0, 0.0), *3 * (getattr(self.far, side), getattr(self.near, side))]
        ).T
        there = self.SENDER if side == "sender" else self.RECEIVER
        return fixed * there, per_byte * there

    def limits(self) -> Float:
        """Return the eager limit of each class: messages up to this size leave as soon as they are
        sent [B].
        """
        device_limits = (self.far.eager_limit, self.near.eager_limit)
        limits = [self.eager_limit if n is None else n for n in device_limits]
        return np.array([self.eager_limit, *limits, *limits, self.eager_limit, self.eager_limit])


class Cut(NamedTuple):
    """Messages with long ones cut into chunks; arrays of shape (messages,), with the edges last."""

    send: Whole
    sent: Whole
    receive: Whole
    received: Whole
    step: Whole
    size_bytes: Float
    leaves: NDArray[np.uint8]
    paying: NDArray[np.uint8]


def cut_up(all_of: Messages, edges: int, node: Int, priced: Priced, on_device: Bool | None) -> Cut:
    """Return the messages cut into chunks, and the class of cost of each; `node` holds the node of
    each call.
    """
    count = len(all_of.send)
    on_gpu = all_of.size_bytes > 0
    on_gpu[count - edges :] = False
    paying = (1 + (node[all_of.send] == node[all_of.receive])).astype(np.uint8)
    if on_device is not None:
        ends = ends_of(on_device)
        paying[: count - edges] += np.select([ends.all(axis=1), ends[:, 0]], [0, 2], 4).astype(
            np.uint8
        )
        on_gpu[: count - edges] &= ends.any(axis=1)
    paying[~on_gpu] = 0
    ready = (all_of.size_bytes > priced.limits()[paying]) | all_of.ready
    leaves = np.where(ready, Leaves.READY, Leaves.EAGER).astype(np.uint8)
    leaves[count - edges :] = Leaves.EDGE
    send, sent, receive, received, step = (
        all_of.send,
        all_of.sent,
        all_of.receive,
        all_of.received,
        all_of.step,
    )
    chunk = priced.each("chunk_bytes", np.inf)
    if not np.isfinite(chunk).any():
        return Cut(send, sent, receive, received, step, all_of.size_bytes, leaves, paying)
    pieces = np.maximum(np.ceil(all_of.size_bytes / chunk[paying]), 1)
    bounded(float(pieces.sum()))
    pieces = pieces.astype(np.int64)
    message = np.repeat(np.arange(count), pieces)
    index = np.arange(len(message)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    chunk_size, size = (
        np.where(pieces > 1, chunk[paying], all_of.size_bytes)[message],
        all_of.size_bytes[message],
    )
    # The chunks of a message add up to its size in whole bytes.
    size = np.round(np.minimum((index + 1) * chunk_size, size)) - np.round(index * chunk_size)
    # A chunk waits for its receiver if the whole message would.
    send, sent, receive, received, step = (
        column[message] for column in (send, sent, receive, received, step)
    )
    return Cut(send, sent, receive, received, step, size, leaves[message], paying[message])


def sent_over(
    cut: Cut,
    edges: int,
    thread: NDArray[np.uint32],
    rank_of: Int,
    placed: Layout,
    priced: Priced,
    place: Whole,
) -> Carried:
    """Return messages as they go over the network, from GPU to GPU where they go straight.

    `place` is the position of each call in the order of its rank.
    """
    source, target = thread[cut.send], thread[cut.receive]
    size = np.round(cut.size_bytes).astype(np.uint64)
    size[len(size) - edges :] = 0
    host, device = (
        np.asarray(places)[rank_of].astype(np.uint32) for places in (placed.host, placed.device)
    )
    start, end = host[source], host[target]
    seat = np.asarray(placed.seat)[rank_of].astype(np.uint32)
    if (seat != host).any():
        node = np.asarray(placed.node)[rank_of]
        far = np.flatnonzero(node[source] != node[target])
        start[far], end[far] = seat[source[far]], seat[target[far]]
    straight = priced.each("direct") > 0
    if straight.any():
        leaves, arrives = (
            np.flatnonzero((straight & there)[cut.paying])
            for there in (priced.SENDER, priced.RECEIVER)
        )
        start[leaves], end[arrives] = device[source[leaves]], device[target[arrives]]
    seconds = priced.each("pin_seconds")
    if not (seconds > 0).any():
        return Carried(source, target, size, cut.leaves, start, end)
    delay = seconds[cut.paying]
    pinned_once = np.flatnonzero((priced.each("pin_once") * seconds > 0)[cut.paying])
    if len(pinned_once):
        # A call of a thread beside a rank is as early as the call that starts its collective.
        starting_call = np.arange(len(thread))
        starting_calls = cut.send[len(size) - edges :][: edges // 2]
        starting_call[cut.receive[len(size) - edges :][: edges // 2]] = starting_calls
        pair = rank_of[source[pinned_once]].astype(np.uint64) << np.uint64(32) | rank_of[
            target[pinned_once]
        ].astype(np.uint64)
        position = place[starting_call[cut.send[pinned_once]]]
        order = np.lexsort((position, size[pinned_once], pair))
        repeated = (pair[order][1:] == pair[order][:-1]) & (
            size[pinned_once][order][1:] == size[pinned_once][order][:-1]
        )
        delay[pinned_once[order[1:][repeated]]] = 0.0
    return Carried(source, target, size, cut.leaves, start, end, delay_seconds=delay)


def _ends(
    cut: Cut,
    edges: int,
    calls: int,
    thread: NDArray[np.uint32],
    rank_of: Int,
    placed: Layout,
    engine: Int,
    priced: Priced,
    steps: Operations,
    carried: list[Carried],
) -> None:
    """Add the operations at both ends of every message, with the copies before it is sent and after
    it has arrived.
    """
    count = len(cut.send)
    ends = (
        (Op.POST, cut.receive, Slot.POST),
        (Op.SEND, cut.send, Slot.SEND),
        (Op.AWAIT, cut.received, Slot.AWAIT),
        (Op.SENT, cut.sent, Slot.SENT),
    )
    for kind, (op, call_of, plain_slot) in enumerate(ends):
        # A call that waits for several messages handles them in the order in which their receives
        # were posted.
        ordered = np.argsort(cut.receive, kind="stable") if op == Op.AWAIT else np.arange(count)
        messages = ordered[call_of[ordered] >= 0].astype(np.uint32)
        del ordered
        call, step = call_of[messages], cut.step[messages]
        slot = np.where(
            step < 0, np.int32(plain_slot), np.int32(Slot.ROUND + kind) + np.int32(4) * step
        )
        if op == Op.SEND:
            # A thread beside a rank announces its end after everything else.
            slot[(messages >= count - edges) & (call >= calls)] = steps.kept
        side = {Op.SEND: "sender", Op.AWAIT: "receiver"}.get(op)
        fixed, per_byte = (
            priced.copies(side)
            if side
            else (np.zeros(len(Priced.SENDER)), np.zeros(len(Priced.SENDER)))
        )
        pays = (fixed > 0) | (per_byte > 0)
        if not pays.any():
            steps.add(call, slot, op, messages)
            continue
        group, process = cut.paying[messages], thread[call]
        wired = pays[group] & (placed.device != placed.host)[rank_of][process]
        timed = pays[group] & ~wired
        copy_work = steps.worked(
            fixed[group[timed]] + per_byte[group[timed]] * cut.size_bytes[messages[timed]]
        )
        latency = wired & (fixed > 0)[group]
        latency_work = steps.worked(fixed[group[latency]])
        number = _copied(
            op == Op.SEND,
            messages,
            np.flatnonzero(wired),
            process,
            cut,
            per_byte,
            placed,
            rank_of,
            carried,
        )
        # Each message has its own operation, preceded or followed by those of its copy.
        counts = (1 + timed + 4 * wired.astype(np.uint8) + latency).astype(np.uint8)
        offset = np.cumsum(counts, dtype=np.uint32) - counts
        total = int(counts.sum())
        code, arg = np.empty(total, dtype=np.uint8), np.empty(total, dtype=np.uint32)
        target = offset + counts - np.uint8(1) if op == Op.SEND else offset
        code[target], arg[target] = op, messages
        offset += np.uint8(op == Op.AWAIT)
        for targets, operation, value in (
            (offset[timed], Op.WORK, copy_work),
            (offset[latency] + np.uint8(1), Op.WORK, latency_work),
        ):
            code[targets], arg[targets] = operation, value
        copy_engine = (engine[rank_of] * 2 + (op == Op.AWAIT)).astype(np.uint32)[process[wired]]
        target = offset[wired]
        code[target], arg[target] = Op.TAKE, copy_engine
        target += latency[wired]
        for operation, value in ((Op.SEND, number), (Op.AWAIT, number), (Op.GIVE, copy_engine)):
            target += np.uint8(1)
            code[target], arg[target] = operation, value
        steps.add(call, slot, code, arg, counts)


def _copied(
    leaving: bool,
    messages: NDArray[np.uint32],
    wired: Int,
    process: NDArray[np.uint32],
    cut: Cut,
    per_byte: Float,
    placed: Layout,
    rank_of: Int,
    carried: list[Carried],
) -> NDArray[np.uint32]:
    """Add the copies that go over wires, numbered in the order of their messages, and return the
    number of each copy.
    """
    order = np.argsort(messages[wired], kind="stable")
    number = np.empty(len(order), dtype=np.uint32)
    number[order] = sum(len(c.source) for c in carried) + np.arange(len(order), dtype=np.uint32)
    ordered = wired[order]
    seconds_per_byte = per_byte[cut.paying[messages[ordered]]]
    carried.append(
        copies_of(
            leaving,
            process[ordered],
            cut.size_bytes[messages[ordered]],
            seconds_per_byte,
            placed,
            rank_of[process[ordered]],
        )
    )
    return number


def _stage(
    leaving: bool,
    slot: int,
    call: Int,
    size: Float,
    charge: tuple[float, float],
    thread: NDArray[np.uint32],
    rank_of: Int,
    placed: Layout,
    engine: Int,
    steps: Operations,
    carried: list[Carried],
) -> None:
    """Add one copy of a whole buffer for each call: a duration, or a message between GPU and host
    through a copy engine.
    """
    rank = rank_of[thread[call]]
    wired = (placed.device != placed.host)[rank] & (charge[1] > 0)
    steps.add_work(call, slot, np.where(wired, 0.0, charge[0] + charge[1] * size))
    wired_calls = call[wired]
    number = sum(len(c.source) for c in carried) + np.arange(len(wired_calls))
    carried.append(
        copies_of(
            leaving,
            thread[wired_calls],
            size[wired],
            np.full(len(wired_calls), charge[1]),
            placed,
            rank[wired],
        )
    )
    copy_engine = engine[rank[wired]] * 2 + (not leaving)
    steps.add(wired_calls, slot, Op.TAKE, copy_engine)
    steps.add_work(wired_calls, slot, np.full(len(wired_calls), charge[0]))
    for op, argument in ((Op.SEND, number), (Op.AWAIT, number), (Op.GIVE, copy_engine)):
        steps.add(wired_calls, slot, op, argument)


def copies_of(
    leaving: bool,
    thread: NDArray[np.uint32],
    size: Float,
    per_byte: Float,
    placed: Layout,
    rank: Int,
) -> Carried:
    """Return copies between GPU and host as messages of a rank to itself, limited to the copy's
    rate and using the wires between.
    """
    device, host = placed.device[rank].astype(np.uint32), placed.host[rank].astype(np.uint32)
    with np.errstate(divide="ignore"):
        limit = 1.0 / per_byte
    ends = (device, host) if leaving else (host, device)
    return Carried(
        thread,
        thread,
        np.round(size).astype(np.uint64),
        np.full(len(size), Leaves.EAGER, dtype=np.uint8),
        *ends,
        as_one(limit),
    )


def times_of(thread: NDArray[np.uint32], seconds: Float, share: Int) -> Carried:
    """Return compute as flows over the shared time of a GPU, one byte per picosecond."""
    eager, place = np.full(len(seconds), Leaves.EAGER, dtype=np.uint8), share.astype(np.uint32)
    return Carried(
        thread, thread, np.round(seconds * PICOSECONDS).astype(np.uint64), eager, place, place
    )


def together(carried: list[Carried]) -> dict[str, Any]:
    """Return all messages as columns of one program, and clear `carried` on the way to free its
    memory.
    """
    lengths, columns = [len(messages.source) for messages in carried], dict[str, Any]()
    fields = {name: [getattr(messages, name) for messages in carried] for name in Carried._fields}
    carried.clear()
    for name, none in (("rate_limit", np.inf), ("delay_seconds", 0.0)):
        parts = fields.pop(name)
        needed = any((part != none).any() for part in parts)
        filled = (
            [
                part if len(part) else np.full(count, none)
                for part, count in zip(parts, lengths, strict=True)
            ]
            if needed
            else []
        )
        columns[name] = np.concatenate([np.zeros(0), *filled])
    while fields:
        name, parts = fields.popitem()
        columns[name] = np.concatenate(parts)
    return columns
