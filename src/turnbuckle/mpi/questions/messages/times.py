"""How long each message of a replay took, copies included, and the two data paths beside each other by message size.

A message takes the time of its copy at the sender, of its way over the network (memory pinned, handshake, links shared with others) and
of its copy at the receiver.  What it waits for a partner who is not there yet is not its own: that is in the time that passes from the
beginning of the sender's copy to the end of the receiver's.  Nor are the copies of messages that its sender sends before it: a rank makes
them one after the other, so that a run may gain from GPUDirect whose messages, one by one, do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.units import show
from turnbuckle.mpi.questions.gpudirect.cost import gpudirect_seconds, hostcopy_seconds
from turnbuckle.mpi.questions.messages.question import Replayed, replayed
from turnbuckle.mpi.questions.messages.setup import Setup, charges_of
from turnbuckle.mpi.replay.buffers import on_device
from turnbuckle.mpi.replay.messages import Messages, Traffic
from turnbuckle.mpi.replay.operation_graph import OperationGraph
from turnbuckle.mpi.replay.program import Charges, all_messages
from turnbuckle.questions.sweep.summary import NO_DIFFERENCE
from turnbuckle.replay.contention.contention import Contended, Leaves, Op, Program

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Int = NDArray[np.int64]
Faster = Literal["GPUDirect", "host copies", "neither"]

#: Sizes further apart than this factor do not tell where between them the paths change places.
FAR: Final = 4.0
#: Paths whose wire is that of host copies, and that of GPUDirect.
ALONE: Final[tuple[Literal["host"], Literal["gpudirect"]]] = ("host", "gpudirect")


@dataclass(frozen=True)
class MessageTimes:
    """Messages between ranks that carry a buffer in device memory; arrays of shape (messages,), the same messages for every path.

    Attributes
    ----------
    size_bytes : of each [B].
    seconds : copies, pinning and the way between them, without waiting for a partner [s].
    elapsed_seconds : from the beginning of the sender's copy to the end of the receiver's [s].
    between : whether it goes from one node to another.
    """

    size_bytes: Float
    seconds: Float
    elapsed_seconds: Float
    between: Bool


@dataclass(frozen=True)
class SizeClass:
    """Messages of `low_bytes` and more, of less than twice that, on one node shape.

    Attributes
    ----------
    ranks_per_node, between : node shape; between nodes, or inside one.
    count, size_bytes : messages, and their mean size [B].
    hostcopy_seconds, gpudirect_seconds : mean time of a message without waiting for its partner [s].
    hostcopy_elapsed_seconds, gpudirect_elapsed_seconds : the same with waiting [s].
    hostcopy_alone_seconds, gpudirect_alone_seconds : closed forms (`mpi.questions.gpudirect.cost`) of a message of the mean size, its wire
        alone on this network [s].
    """

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
        """Host copies over GPUDirect, less 1."""
        return self.hostcopy_seconds / self.gpudirect_seconds - 1.0

    @property
    def elapsed_speedup(self) -> float:
        """The same with waiting for partners."""
        return self.hostcopy_elapsed_seconds / self.gpudirect_elapsed_seconds - 1.0

    @property
    def alone_speedup(self) -> float:
        """The same by the closed forms."""
        return self.hostcopy_alone_seconds / self.gpudirect_alone_seconds - 1.0

    @property
    def faster(self) -> Faster:
        """Which path carries messages of this size faster."""
        return _faster(self.speedup)

    @property
    def faster_elapsed(self) -> Faster:
        """Which path does so with waiting for partners."""
        return _faster(self.elapsed_speedup)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **self.__dict__, "speedup": self.speedup, "elapsed_speedup": self.elapsed_speedup, "alone_speedup": self.alone_speedup,
            "faster": self.faster, "faster_elapsed": self.faster_elapsed,
        }  # fmt: skip


def _faster(speedup: float) -> Faster:
    return "neither" if abs(speedup) < NO_DIFFERENCE else "GPUDirect" if speedup > 0 else "host copies"


class _Places:
    """Where in a program each message is sent, received and awaited, and the copies around that."""

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
        """When the operation before each was done: at 0 for the first of a process."""
        return np.where(self.begins[ops], 0.0, self.done[np.maximum(ops - 1, 0)])

    def can_leave(self, program: Program, messages: Int) -> Float:
        """When each message is sent and, if it waits for that, its receive is posted."""
        sent, posted = self.done[self.send[messages]], self.post[messages]
        late = (np.asarray(program.leaves)[messages] == Leaves.READY) & (posted >= 0)
        return np.asarray(np.where(late, np.maximum(sent, self.done[posted]), sent))


def message_times(traffic: Traffic, setup: Setup, found: Replayed) -> MessageTimes:
    """Times of the messages of a replay.

    Parameters
    ----------
    setup, found : of one traced replay of this traffic; path ``host``, ``hostcopy`` or ``gpudirect``.
    """
    program, done = found.program, found.done
    if done is None or not len(done.done):
        raise ValueError("the replay did not end, or was not traced")
    messages, call = all_messages(traffic, setup.collectives)
    device = np.ones(len(call), dtype=np.bool_) if setup.buffers == "device" else on_device(setup.buffers, traffic, messages, call)
    copied = setup.path == "hostcopy"
    pieces = np.ones(len(call), dtype=np.int64)
    if copied and setup.chunk_bytes:
        pieces = np.where(device, np.maximum(np.ceil(messages.size_bytes / setup.chunk_bytes), 1), 1).astype(np.int64)
    last = np.cumsum(pieces) - 1
    source, target = (np.asarray(v).astype(np.int64) for v in (program.source, program.target))
    mine = np.flatnonzero((messages.size_bytes > 0) & device & (source[last] != target[last]))
    first, last = (last - pieces + 1)[mine], last[mine]

    parts = found.network.made_of
    charged = charges_of(setup)[0] if copied else Charges()
    wired = bool(parts.parts_of("gpu") and parts.parts_of("host"))
    places = _Places(program, done.done)
    made = _of_graph if isinstance(traffic, OperationGraph) else _of_calls
    own, elapsed = made(program, done, places, charged, wired, first, last)
    count = len(parts.parts)
    node = [np.asarray(v).astype(np.int64)[first] // count for v in (program.start, program.end)]
    return MessageTimes(messages.size_bytes[mine], own, elapsed, node[0] != node[1])


def _of_calls(
    program: Program, done: Contended, places: _Places, charged: Charges, wired: bool, first: Int, last: Int
) -> tuple[Float, Float]:
    """Seconds of messages without waiting and with it, where calls come in order."""
    size = np.asarray(program.size_bytes, dtype=np.float64)
    sent, awaited = places.send[first], places.wait[last]
    began = places.before(sent)
    if any(charged.sender):
        took = charged.sender[0] + charged.sender[1] * size[first]
        began = places.before(places.taken[sent]) if wired else began - took
    arrived = done.arrived[last]
    # a message that nobody waits for is there when it has arrived, and is not copied
    waited = awaited >= 0
    has = np.where(waited, done.done[awaited], arrived)
    overhead = np.where(waited, has - np.maximum(arrived, places.before(np.maximum(awaited, 0))), 0.0)
    ends = has
    if any(charged.receiver):
        took = charged.receiver[0] + charged.receiver[1] * size[last]
        ends = np.where(waited, done.done[np.minimum(places.given[awaited], len(done.done) - 1)] if wired else has + took, has)
    own = (done.done[sent] - began) + (arrived - places.can_leave(program, first)) + overhead + (ends - has)
    return own, ends - began


def _of_graph(
    program: Program, done: Contended, places: _Places, charged: Charges, wired: bool, first: Int, last: Int
) -> tuple[Float, Float]:
    """The same of a graph of operations: its processors are taken for the overheads, the last of what arrives is its copy."""
    size = np.asarray(program.size_bytes, dtype=np.float64)
    sent, arrival = places.send[first], np.asarray(program.target)[last].astype(np.int64)
    # what arrives is waited for, the processor is taken, and works
    paid = [done.done[places.wait[m] + 2] - done.done[places.wait[m] + 1] for m in (first, last)]
    began = done.done[sent] - paid[0]
    if any(charged.sender):
        took = charged.sender[0] + charged.sender[1] * size[first]
        began = places.before(places.taken[sent]) if wired else began - took
    ends, copied = done.done[places.wait[last] + 2], np.zeros(len(last))
    if any(charged.receiver):
        # processor and copy engine are given back before the receive is told
        told = np.asarray(program.first)[arrival + 1].astype(np.int64) - 1
        ends = done.done[told - 1]
        copied = charged.receiver[0] + charged.receiver[1] * size[last]
        if wired:
            copied = done.done[told - 2] - places.before(places.taken[told - 2])
    own = (done.done[sent] - began) + (done.arrived[last] - places.can_leave(program, first)) + paid[1] + copied
    return own, ends - began


def size_classes(hostcopy: MessageTimes, gpudirect: MessageTimes, setup: Setup) -> list[SizeClass]:
    """Both paths of one node shape by power-of-two classes of message size, between nodes and inside one.

    Parameters
    ----------
    setup : of the shape; its path does not matter.
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


def alone_seconds(setup: Setup, path: Literal["host", "gpudirect"], size_bytes: float, *, between: bool) -> float:
    """Time of one message alone on the network of a setup, neither copied nor pinned, its receiver ready [s].

    >>> round(alone_seconds(Setup(), "host", 1.25e6, between=True) * 1e6, 3)  # 0.5 us + two links of 0.5 us + 100 us + 0.5 us
    102.0
    """
    each = setup.ranks_per_node
    other = each if between else each - 1
    if other == 0:
        return math.nan
    none = np.array([-1])
    one = Messages(np.array([0]), none, np.array([1]), np.array([1]), none, np.array([max(round(size_bytes), 1)], dtype=np.float64))
    ranks = other + 1
    alone = Traffic(ranks, np.array([0, other]), np.zeros(2), np.zeros(2), np.zeros(ranks), one, (), 1.0, 0)
    asked = replace(setup, path=path, ranks=0, mapping="linear", buffers="device", pinned="never")
    return float(message_times(alone, asked, replayed(alone, asked, traced=True)).seconds[0])


@dataclass(frozen=True)
class Crossover:
    """Size from which on GPUDirect carries messages faster.

    Attributes
    ----------
    size_bytes : 0 where it does at every size there is, infinite where at none [B].
    below_bytes, above_bytes : mean sizes of the last class in which it does not and of the first from which on it does, between which the
        difference of both paths is taken to be a straight line over the size, as it is for the closed forms; nan where there are none [B].
    """

    size_bytes: float
    below_bytes: float = math.nan
    above_bytes: float = math.nan

    @property
    def told(self) -> str:
        """Where it is, in words: a size, or the two that the run has nothing between.

        >>> Crossover(28571.0, 20480.0, 40960.0).told, Crossover(35e3, 8e3, 2e6).told
        ('at 28.6 kB', 'between 8 kB and 2 MB, where this run has no messages')
        """
        if self.above_bytes > FAR * self.below_bytes:
            return f"between {show(self.below_bytes, 'B')} and {show(self.above_bytes, 'B')}, where this run has no messages"
        return f"at {show(self.size_bytes, 'B')}"


def crossover(classes: list[SizeClass]) -> Crossover:
    """Where the two paths change places in the replay."""
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
