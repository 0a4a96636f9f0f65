"""Time of each message of a replay, copies included, and both data paths compared by message size.

The time of a message is that of its copy at the sender, of its transfer over the network (memory
pinned, handshake, links shared with others) and of its copy at the receiver.  It excludes the wait
for a partner who is not ready, which is part of the time from the begin of the sender's copy to the
end of the receiver's.  It also excludes the copies of messages that the sender sends before.  A
rank makes its copies one after the other, so a run may gain from GPUDirect although its messages,
one by one, do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.units import show
from turnbuckle.mpi.questions.gpudirect.cost import gpudirect_seconds, hostcopy_seconds
from turnbuckle.mpi.questions.messages.question import Replayed, replayed
from turnbuckle.mpi.questions.messages.setup import Setup, charges_of
from turnbuckle.mpi.replay.buffers import assumed, on_device
from turnbuckle.mpi.replay.messages import Messages, Traffic
from turnbuckle.mpi.replay.operation_graph import OperationGraph
from turnbuckle.mpi.replay.program import Charges, all_messages
from turnbuckle.questions.sweep.summary import NO_DIFFERENCE
from turnbuckle.replay.contention.contention import Contended, Leaves, Op, Program

Faster = Literal["GPUDirect", "host copies", "neither"]

#: Sizes further apart than this factor do not determine the crossover between them.
FAR: Final = 4.0
#: Paths whose wire time is that of host copies, and that of GPUDirect.
ALONE: Final[tuple[Literal["host"], Literal["gpudirect"]]] = ("host", "gpudirect")


@dataclass(frozen=True)
class MessageTimes:
    """Messages between ranks that carry a buffer in device memory; arrays of shape (messages,),
    with the same messages for every path.
    """

    size_bytes: Float  #: size of each message [B]
    seconds: Float  #: time of copies, pinning and transfer, without waiting for a partner [s]
    elapsed_seconds: (
        Float  #: time from the begin of the sender's copy to the end of the receiver's [s]
    )
    between: Bool


@dataclass(frozen=True)
class SizeClass(Declared):
    """Messages from `low_bytes` to less than twice that size, on one node shape."""

    ranks_per_node: int
    between: bool
    low_bytes: float
    count: int
    size_bytes: float
    hostcopy_seconds: float
    gpudirect_seconds: float
    hostcopy_elapsed_seconds: float
    gpudirect_elapsed_seconds: float
    hostcopy_alone_seconds: float
    gpudirect_alone_seconds: float

    @property
    def speedup(self) -> float:
        """Return the time by host copies over time by GPUDirect, less 1."""
        return self.hostcopy_seconds / self.gpudirect_seconds - 1.0

    @property
    def elapsed_speedup(self) -> float:
        """Return the elapsed time, with waiting for partners, by host copies over that by
        GPUDirect, less 1.
        """
        return self.hostcopy_elapsed_seconds / self.gpudirect_elapsed_seconds - 1.0

    @property
    def alone_speedup(self) -> float:
        """Return the time by host copies over time by GPUDirect, less 1, from the closed forms."""
        return self.hostcopy_alone_seconds / self.gpudirect_alone_seconds - 1.0

    @property
    def faster(self) -> Faster:
        """Return the path that carries messages of this size faster."""
        return _faster(self.speedup)

    @property
    def faster_elapsed(self) -> Faster:
        """Return the path that carries messages of this size faster with waiting for partners."""
        return _faster(self.elapsed_speedup)


def _faster(speedup: float) -> Faster:
    """Return the faster path for a ratio of times, less 1."""
    return (
        "neither" if abs(speedup) < NO_DIFFERENCE else "GPUDirect" if speedup > 0 else "host copies"
    )


class _Places:
    """Operations of a program at which each message is sent, received and awaited, and the copies
    around them.
    """

    def __init__(self, program: Program, done: Float) -> None:
        self.done = done
        code, arg = np.asarray(program.code), np.asarray(program.arg).astype(np.int64)
        ops, count = np.arange(len(code)), len(np.asarray(program.source))
        self.send, self.post, self.wait = (np.full(count, -1) for _ in range(3))
        for op, where in ((Op.SEND, self.send), (Op.POST, self.post), (Op.AWAIT, self.wait)):
            of = code == op
            where[arg[of]] = ops[of]
        #: The last TAKE before each operation, and the first GIVE after it.
        self.taken = np.maximum.accumulate(np.where(code == Op.TAKE, ops, -1))
        self.given = np.minimum.accumulate(np.where(code == Op.GIVE, ops, len(code))[::-1])[::-1]
        first = np.asarray(program.first).astype(np.int64)
        self.begins = np.zeros(len(code), dtype=np.bool_)
        self.begins[first[:-1][first[:-1] < first[1:]]] = True

    def before(self, ops: Int) -> Float:
        """Return when the operation before each one was done; 0 for the first of a process."""
        return np.where(self.begins[ops], 0.0, self.done[np.maximum(ops - 1, 0)])

    def can_leave(self, program: Program, messages: Int) -> Float:
        """Return when each message is sent or, if its receive comes after its memory is pinned, by
        how long pinning takes before that.
        """
        sent, posted = self.done[self.send[messages]], self.post[messages]
        pinned = program.delay_seconds[messages] if len(program.delay_seconds) else 0.0
        rendezvous = (np.asarray(program.leaves)[messages] == Leaves.READY) & (posted >= 0)
        return np.asarray(np.where(rendezvous, np.maximum(sent, self.done[posted] - pinned), sent))


def message_times(traffic: Traffic, setup: Setup, replay: Replayed) -> MessageTimes:
    """Return the times of the messages of a replay.

    Parameters
    ----------
    setup, replay : setup and result of one traced replay of this traffic, by the path ``host``,
        ``hostcopy`` or ``gpudirect``.
    """
    program, done = replay.program, replay.done
    if done is None or not len(done.done):
        raise ValueError("the replay did not end, or was not traced")
    messages, call = all_messages(traffic, setup.collectives)
    everywhere = assumed(setup.buffers, traffic)
    ends = (
        np.ones((len(call), 2), dtype=np.bool_)
        if everywhere
        else on_device(setup.buffers, traffic, messages, call)
    )
    device = ends.any(axis=1)
    copied = setup.path == "hostcopy"
    pieces = np.ones(len(call), dtype=np.int64)
    if copied and setup.chunk_bytes:
        pieces = np.where(
            device, np.maximum(np.ceil(messages.size_bytes / setup.chunk_bytes), 1), 1
        ).astype(np.int64)
    last = np.cumsum(pieces) - 1
    source, target = (np.asarray(v).astype(np.int64) for v in (program.source, program.target))
    selected = np.flatnonzero((messages.size_bytes > 0) & device & (source[last] != target[last]))
    first, last = (last - pieces + 1)[selected], last[selected]

    parts = replay.network.made_of
    charged = charges_of(setup)[0] if copied else Charges()
    wired = bool(parts.parts_of("gpu") and parts.parts_of("host"))
    places = _Places(program, done.done)
    times_of = _of_graph if isinstance(traffic, OperationGraph) else _of_calls
    seconds, elapsed = times_of(program, done, places, charged, wired, first, last, ends[selected])
    count = len(parts.parts)
    node = [np.asarray(v).astype(np.int64)[first] // count for v in (program.start, program.end)]
    return MessageTimes(messages.size_bytes[selected], seconds, elapsed, node[0] != node[1])


def _of_calls(
    program: Program,
    done: Contended,
    places: _Places,
    charged: Charges,
    wired: bool,
    first: Int,
    last: Int,
    ends: Bool,
) -> tuple[Float, Float]:
    """Return the seconds of messages without and with waiting, where calls come in order; `ends`
    are those in device memory.
    """
    size = np.asarray(program.size_bytes, dtype=np.float64)
    sent, awaited = places.send[first], places.wait[last]
    began = places.before(sent)
    if any(charged.sender):
        copy_seconds = charged.sender[0] + charged.sender[1] * size[first]
        began = np.where(
            ends[:, 0],
            places.before(np.maximum(places.taken[sent], 0)) if wired else began - copy_seconds,
            began,
        )
    arrived = done.arrived[last]
    # A message that nobody waits for is complete on arrival, and is not copied.
    waited = awaited >= 0
    received = np.where(waited, done.done[awaited], arrived)
    overhead = np.where(
        waited, received - np.maximum(arrived, places.before(np.maximum(awaited, 0))), 0.0
    )
    over = received
    if any(charged.receiver):
        copy_seconds = charged.receiver[0] + charged.receiver[1] * size[last]
        copied = (
            done.done[np.minimum(places.given[awaited], len(done.done) - 1)]
            if wired
            else received + copy_seconds
        )
        over = np.where(waited & ends[:, 1], copied, received)
    seconds = (
        (done.done[sent] - began)
        + (arrived - places.can_leave(program, first))
        + overhead
        + (over - received)
    )
    return seconds, over - began


def _of_graph(
    program: Program,
    done: Contended,
    places: _Places,
    charged: Charges,
    wired: bool,
    first: Int,
    last: Int,
    ends: Bool,
) -> tuple[Float, Float]:
    """Return the seconds of messages without and with waiting, for a graph of operations.

    The processors are occupied for the overheads, and the last operation of an arrival is its copy.
    """
    del ends  # a schedule places both ends of a message alike
    size = np.asarray(program.size_bytes, dtype=np.float64)
    sent, arrival = places.send[first], np.asarray(program.target)[last].astype(np.int64)
    # An arrival is awaited, then takes the processor, then works.
    paid = [done.done[places.wait[m] + 2] - done.done[places.wait[m] + 1] for m in (first, last)]
    began = done.done[sent] - paid[0]
    if any(charged.sender):
        copy_seconds = charged.sender[0] + charged.sender[1] * size[first]
        began = places.before(places.taken[sent]) if wired else began - copy_seconds
    over, copied = done.done[places.wait[last] + 2], np.zeros(len(last))
    if any(charged.receiver):
        # Processor and copy engine are released before the receive is informed.
        announced = np.asarray(program.first)[arrival + 1].astype(np.int64) - 1
        over = done.done[announced - 1]
        copied = charged.receiver[0] + charged.receiver[1] * size[last]
        if wired:
            copied = done.done[announced - 2] - places.before(places.taken[announced - 2])
    seconds = (
        (done.done[sent] - began)
        + (done.arrived[last] - places.can_leave(program, first))
        + paid[1]
        + copied
    )
    return seconds, over - began


def size_classes(hostcopy: MessageTimes, gpudirect: MessageTimes, setup: Setup) -> list[SizeClass]:
    """Return both paths of one node shape by power-of-two classes of message size, between nodes
    and inside nodes.

    Parameters
    ----------
    setup : setup of the shape; its path does not matter.
    """
    out = []
    power = np.floor(np.log2(hostcopy.size_bytes)).astype(np.int64)
    for between in (True, False):
        place = hostcopy.between == between
        for k in np.unique(power[place]).tolist():
            of = place & (power == k)
            mean = float(hostcopy.size_bytes[of].mean())
            host, direct = (alone_seconds(setup, path, mean, between=between) for path in ALONE)
            out.append(
                SizeClass(
                    setup.ranks_per_node,
                    between,
                    2.0**k,
                    int(of.sum()),
                    mean,
                    hostcopy_seconds=float(hostcopy.seconds[of].mean()),
                    gpudirect_seconds=float(gpudirect.seconds[of].mean()),
                    hostcopy_elapsed_seconds=float(hostcopy.elapsed_seconds[of].mean()),
                    gpudirect_elapsed_seconds=float(gpudirect.elapsed_seconds[of].mean()),
                    hostcopy_alone_seconds=float(hostcopy_seconds(mean, host, setup.paid)),
                    gpudirect_alone_seconds=float(gpudirect_seconds(mean, direct, setup.paid)),
                )
            )
    return out


def alone_seconds(
    setup: Setup, path: Literal["host", "gpudirect"], size_bytes: float, *, between: bool
) -> float:
    """Return the time of one message alone on the network of a setup, neither copied nor pinned,
    with its receiver ready [s].

    >>> round(alone_seconds(Setup(), "host", 1.25e6, between=True) * 1e6, 3)  # 0.5 us + two links of 0.5 us + 100 us + 0.5 us
    102.0
    """
    ranks_per_node = setup.ranks_per_node
    other = ranks_per_node if between else ranks_per_node - 1
    if other == 0:
        return math.nan
    none = np.array([-1])
    message = Messages(
        np.array([0]),
        none,
        np.array([1]),
        np.array([1]),
        none,
        np.array([max(round(size_bytes), 1)], dtype=np.float64),
    )
    ranks = other + 1
    alone = Traffic(
        ranks, np.array([0, other]), np.zeros(2), np.zeros(2), np.zeros(ranks), message, (), 1.0, 0
    )
    plain_setup = replace(
        setup, path=path, ranks=0, mapping="linear", buffers="device", pinned="never"
    )
    return float(
        message_times(alone, plain_setup, replayed(alone, plain_setup, traced=True)).seconds[0]
    )


@dataclass(frozen=True)
class Crossover:
    """Message size from which GPUDirect is faster."""

    #: 0 where GPUDirect is faster at every size of the run, infinite where it is at none [B]
    size_bytes: float
    #: below_bytes, above_bytes: mean sizes of the last class in which GPUDirect is not faster, and
    #: of the next class; nan without such classes [B].  Between them the difference of both paths
    #: is assumed to be linear in the size, as in the closed forms.
    below_bytes: float = math.nan
    above_bytes: float = math.nan

    @property
    def in_words(self) -> str:
        """Return the description of the crossover: a size, or the two sizes between which the run
        has no messages.

        >>> Crossover(28571.0, 20480.0, 40960.0).in_words, Crossover(35e3, 8e3, 2e6).in_words
        ('at 28.6 kB', 'between 8 kB and 2 MB, where this run has no messages')
        """
        if self.above_bytes > FAR * self.below_bytes:
            return (
                f"between {show(self.below_bytes, 'B')} and {show(self.above_bytes, 'B')}, where "
                "this run has no messages"
            )
        return f"at {show(self.size_bytes, 'B')}"


def crossover(classes: list[SizeClass]) -> Crossover:
    """Return the size at which the faster path changes in the replay."""
    seen = sorted(classes, key=lambda c: c.size_bytes)
    saved = [c.hostcopy_seconds - c.gpudirect_seconds for c in seen]
    slower = [k for k, s in enumerate(saved) if s <= 0]
    if not slower:
        return Crossover(0.0)
    k = slower[-1]
    if k == len(seen) - 1:
        return Crossover(math.inf)
    below, above = seen[k].size_bytes, seen[k + 1].size_bytes
    return Crossover(float(np.interp(0.0, saved[k : k + 2], [below, above])), below, above)
