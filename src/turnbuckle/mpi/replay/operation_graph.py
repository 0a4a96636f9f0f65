"""Ranks whose operations form a graph (GOAL): sends, receives and computations that wait for each
other, and otherwise run concurrently.

The activities of such a `Traffic` are operations.  The program has processes for ranks, operations
and messages that arrive:

    rank       ends when its last operation does
    operation  waits for what it requires; a send and a computation occupy a processor of their rank for their duration
    arrival    occupies a processor for o + n O once the whole message has arrived, whether its receive is posted or not

Copies to and from device memory occupy the processor of their rank too, as a copy holds up a rank
whose calls are in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.findings import Finding
from turnbuckle.mpi.replay.messages import Traffic, joined
from turnbuckle.mpi.replay.node_layout import Layout, laid_out
from turnbuckle.mpi.replay.program import (
    EAGER_LIMIT,
    Carried,
    Charges,
    Cut,
    Priced,
    copies_of,
    cut_up,
    sent_over,
    sound,
    times_of,
    together,
)
from turnbuckle.replay.contention.contention import Contended, Leaves, Op, Program

SEND, RECEIVE, CALC = range(3)
#: Places in a process: its dependencies, its processor, the announcement of its begin, then each
#: message or the computation.
_AWAIT, _TAKE, _BEGIN, _DO = range(4)
#: Number of places of each message: its copy (engine, latency, bytes, engine), the processor, the
#: message.
_EACH: Final = 8
_OVERHEAD, _LEAVES = 5, 6
#: Places of an arrival after the processor has taken the message in: its receive, its copy, its
#: end.
_POSTED, _COPY, _DONE = 6, 8, 16
#: Operations of a circle that are described.
_MOST_DESCRIBED: Final = 4


@dataclass(frozen=True, kw_only=True)
class OperationGraph(Traffic):
    """Traffic of a schedule, whose activities are operations and whose recorded run time is nan.

    Attributes
    ----------
    kind : kind of each operation: `SEND`, `RECEIVE` or `CALC`; shape (operations,).
        ``gap_seconds`` is the time of a computation.
    handed_bytes : size of each send [B], else 0.
    processor : processor of each operation, counted over all ranks.
    before, after : operations that each dependency joins, shape (dependencies,).
    by_start : whether `after` waits for the begin of `before` only.
    described : function that describes an operation in words.
    findings : flaws found while reading.
    """

    kind: Int
    handed_bytes: Float
    processor: Int
    before: Int
    after: Int
    by_start: Bool
    described: Callable[[int], str] = field(repr=False)
    findings: tuple[Finding, ...] = ()

    def work_seconds(self, compute: float = 1.0) -> Float:
        """Return the compute of each rank times a factor [s], shape (ranks,); for several
        processors that of the busiest.
        """
        out = np.zeros(self.ranks)
        units = (
            np.bincount(self.processor, self.gap_seconds * compute)
            if len(self.processor)
            else np.zeros(0)
        )
        of = np.zeros(len(units), dtype=np.int64)
        of[self.processor] = self.rank
        np.maximum.at(out, of, units)
        return out

    def bytes_by_distance(self, node: Int) -> tuple[float, float]:
        """Return the bytes of messages inside nodes and between nodes [B]; `node` holds the node of
        each rank.
        """
        ends = (node[self.rank[end]] for end in (self.messages.send, self.messages.receive))
        near = np.equal(*ends)
        return float(self.messages.size_bytes[near].sum()), float(
            self.messages.size_bytes[~near].sum()
        )

    def waits_in(self, waiting: tuple[tuple[int, int], ...]) -> str:
        """Describe the operations at which nothing can go on; `waiting` are the processes of
        `UsageError.waiting` of A071.
        """
        ops = [
            process - self.ranks
            for process, _ in waiting
            if self.ranks <= process < self.ranks + len(self.rank)
        ]
        more = f"; and {len(ops) - _MOST_DESCRIBED:,} more" if len(ops) > _MOST_DESCRIBED else ""
        return "; ".join(self.described(op) for op in ops[:_MOST_DESCRIBED]) + more


def program(
    run: OperationGraph,
    *,
    layout: Layout | None = None,
    charged: Charges | None = None,
    inside: Charges | None = None,
    on_device: Bool | None = None,
    eager_limit: float = EAGER_LIMIT,
    compute: float = 1.0,
    shared_gpu: Literal["exclusive", "time"] | None = None,
    overhead: float = 0.0,
    overhead_per_byte: float = 0.0,
    first_byte_free: bool = False,
) -> Program:
    """Return a graph of operations as a program, for a network without overheads of its own.

    Parameters
    ----------
    layout : placement of the ranks; each rank has its own node if left out.
    charged, inside, on_device, eager_limit, compute, shared_gpu : as for
        `turnbuckle.mpi.replay.program.program`.
    overhead, overhead_per_byte : o [s] and O [s/B] of a message on a processor, at either end.
    first_byte_free : whether a message of n bytes counts as n - 1 bytes, as in LogGOPSim.

    Returns a program with a process for every rank, then for every operation, then for every
    message (or chunk of a message).

    Raises A098, as `turnbuckle.mpi.replay.program.program`.
    """
    far = charged or Charges()
    near = inside or far
    sound(far, near, eager_limit, compute, 1)
    placed = layout or laid_out(np.arange(run.ranks))
    priced = Priced(far, near, eager_limit)
    cut = cut_up(joined([run.messages]), 0, placed.node[run.rank], priced, on_device)
    builder = _Builder(run, cut, placed, priced, overhead, overhead_per_byte)
    thread, rank_of = builder.threads()
    arrival = cut._replace(receive=len(run.rank) + np.arange(len(cut.send)))
    whole = sent_over(arrival, 0, thread, rank_of, placed, priced, np.arange(len(thread)))
    builder.carried.append(
        whole._replace(size_bytes=whole.size_bytes - (whole.size_bytes > 0))
        if first_byte_free
        else whole
    )
    builder.computing(compute, shared_gpu)
    builder.sending()
    builder.arriving()
    builder.depending()
    return builder.program()


class _Builder:
    """Builder of the processes' operations."""

    def __init__(
        self,
        run: OperationGraph,
        cut: Cut,
        placed: Layout,
        priced: Priced,
        overhead: float,
        per_byte: float,
    ) -> None:
        self.run, self.cut, self.placed, self.priced = run, cut, placed, priced
        self.paid: Float = overhead + cut.size_bytes * per_byte
        self.overhead, self.per_byte = overhead, per_byte
        self.engine = np.unique(placed.device, return_inverse=True)[1].astype(np.int64)
        engines = int(self.engine.max(initial=-1)) + 1
        # resources: a copy engine of every GPU in each direction, GPUs, processors
        self.gpus = 2 * engines
        self.processors = self.gpus + engines
        self.resource = np.arange(self.processors + int(run.processor.max(initial=-1)) + 1)
        self.use_seconds = np.zeros(len(self.resource))
        self.first_op, self.first_arrival = run.ranks, run.ranks + len(run.rank)
        self.carried: list[Carried] = []
        self.edges: list[tuple[Int, Int]] = []
        self.work: list[tuple[Float, bool]] = []
        self.parts: list[tuple[Int, Int, int, Int]] = []
        # The last chunk of a message leaves when the processor is released, so chunks are numbered
        # and the last is marked.
        index = np.arange(len(cut.send))
        new = np.append(True, np.diff(cut.send) != 0)[: len(index)]
        self.chunk: Int = index - np.maximum.accumulate(np.where(new, index, 0))
        self.last = np.append(new[1:], True)[: len(index)]
        self.end = _DO + _EACH * (int(self.chunk.max(initial=0)) + 1)

    def threads(self) -> tuple[NDArray[np.uint32], Int]:
        """Return the process of every operation and arrival, and the rank of every process."""
        run, arrivals = self.run, len(self.cut.send)
        rank_of = np.concatenate(
            [np.arange(run.ranks), run.rank, run.rank[np.asarray(self.cut.receive)]]
        )
        return (run.ranks + np.arange(len(run.rank) + arrivals)).astype(np.uint32), rank_of

    def add(self, process: Int, place: Int | int, op: Op, arg: Int) -> None:
        self.parts.append(
            (
                process,
                np.broadcast_to(np.asarray(place, dtype=np.int64), process.shape),
                int(op),
                arg,
            )
        )

    def add_work(
        self, process: Int, place: Int | int, seconds: Float, *, overhead: bool = False
    ) -> None:
        first = sum(len(s) for s, _ in self.work)
        self.work.append((seconds, overhead))
        self.add(process, place, Op.WORK, first + np.arange(len(seconds)))

    def messages(self) -> int:
        """Return the number of messages so far, without edges."""
        return sum(len(c.source) for c in self.carried)

    def keep(self, process: Int, processor: Int, first: int, last: int) -> None:
        """Occupy a processor from one place to another."""
        self.add(process, first, Op.TAKE, self.processors + processor)
        self.add(process, last, Op.GIVE, self.processors + processor)

    def computing(self, compute: float, shared_gpu: Literal["exclusive", "time"] | None) -> None:
        """Add the computations, on their processor or on a GPU that several ranks share."""
        run = self.run
        used = np.flatnonzero(run.kind != RECEIVE)
        self.keep(self.first_op + used, run.processor[used], _TAKE, self.end)
        calc = np.flatnonzero(run.kind == CALC)
        seconds = run.gap_seconds[calc] * compute
        on_shared_gpu = (
            self.placed.sharing()[run.rank[calc]] & (seconds > 0)
            if shared_gpu
            else np.zeros(len(calc), dtype=np.bool_)
        )
        self.add_work(self.first_op + calc[~on_shared_gpu], _DO, seconds[~on_shared_gpu])
        process, rank, gpu_seconds = (
            self.first_op + calc[on_shared_gpu],
            run.rank[calc[on_shared_gpu]],
            seconds[on_shared_gpu],
        )
        if shared_gpu == "exclusive":
            self.add(process, _DO, Op.USE, len(self.resource) + np.arange(len(process)))
            self.resource = np.append(self.resource, self.gpus + self.engine[rank])
            self.use_seconds = np.append(self.use_seconds, gpu_seconds)
        elif len(process):
            number = self.messages() + np.arange(len(process))
            self.carried.append(
                times_of(process.astype(np.uint32), gpu_seconds, self.placed.share[rank])
            )
            self.add(process, _DO, Op.SEND, number)
            self.add(process, _DO + 1, Op.AWAIT, number)

    def sending(self) -> None:
        """Add the sends: each message is copied, charged to the processor, and handed over.

        A message that waits for its receive keeps its operation open.
        """
        cut, run = self.cut, self.run
        message = np.arange(len(cut.send))
        process: Int = self.first_op + np.asarray(cut.send, dtype=np.int64)
        place: Int = _DO + _EACH * self.chunk
        self.copy(True, process, place, message)
        self.add_work(process, place + _OVERHEAD, self.paid, overhead=True)
        self.add(process, np.where(self.last, self.end + 1, place + _LEAVES), Op.SEND, message)
        rendezvous = cut.leaves == Leaves.READY
        self.add(process[rendezvous], self.end + 2, Op.SENT, message[rendezvous])
        # A send that nobody receives costs its sender the same overhead.
        unreceived = np.flatnonzero(
            (run.kind == SEND) & ~np.isin(np.arange(len(run.kind)), cut.send)
        )
        self.add_work(
            self.first_op + unreceived,
            _DO + _OVERHEAD,
            self.overhead + run.handed_bytes[unreceived] * self.per_byte,
            overhead=True,
        )

    def arriving(self) -> None:
        """Add the arrivals: a message that waits for its receive is taken in when that is posted,
        any other as it comes.
        """
        cut = self.cut
        message = np.arange(len(cut.send))
        process, receiver = self.first_arrival + message, np.asarray(cut.receive, dtype=np.int64)
        rendezvous = cut.leaves == Leaves.READY
        posted = self.edge(self.first_op + receiver, process)
        self.add(self.first_op + receiver, _BEGIN, Op.SEND, posted)
        self.add(process, np.where(rendezvous, 0, _POSTED), Op.AWAIT, posted)
        self.add(process, 1, Op.POST, message)
        self.add(process, 2, Op.AWAIT, message)
        processor = self.run.processor[receiver]
        self.keep(process, processor, 3, 5)
        self.add_work(process, 4, self.paid, overhead=True)
        copied = self.copy(False, process, np.full(len(message), _COPY), message)
        self.keep(process[copied], processor[copied], _COPY - 1, _COPY + _OVERHEAD)
        done = self.edge(process, self.first_op + receiver)
        self.add(process, _DONE, Op.SEND, done)
        self.add(self.first_op + receiver, self.end + 3, Op.AWAIT, done)

    def copy(self, leaving: bool, process: Int, place: Int, message: Int) -> Int:
        """Add the copies of messages at one end, and return the messages that are copied.

        A copy is a duration, or bytes between GPU and host through a copy engine.
        """
        cut, placed = self.cut, self.placed
        fixed, per_byte = self.priced.copies("sender" if leaving else "receiver")
        pays = ((fixed > 0) | (per_byte > 0))[cut.paying]
        fixed, per_byte = fixed[cut.paying], per_byte[cut.paying]
        rank = self.run.rank[np.asarray(cut.send if leaving else cut.receive)]
        wired = pays & (placed.device != placed.host)[rank]
        timed = pays & ~wired
        self.add_work(process[timed], place[timed], (fixed + per_byte * cut.size_bytes)[timed])
        number = self.messages() + np.arange(int(wired.sum()))
        self.carried.append(
            copies_of(
                leaving,
                process[wired].astype(np.uint32),
                cut.size_bytes[wired],
                per_byte[wired],
                placed,
                rank[wired],
            )
        )
        copy_engine = 2 * self.engine[rank[wired]] + (not leaving)
        process, place = process[wired], place[wired]
        self.add(process, place, Op.TAKE, copy_engine)
        self.add_work(process, place + 1, fixed[wired])
        for k, (op, argument) in enumerate(
            ((Op.SEND, number), (Op.AWAIT, number), (Op.GIVE, copy_engine))
        ):
            self.add(process, place + 2 + k, op, argument)
        return np.flatnonzero(pays)

    def edge(self, source: Int, target: Int) -> Int:
        """Add edges from process to process, and return their provisional numbers, counted from the
        first edge.
        """
        first = sum(len(s) for s, _ in self.edges)
        self.edges.append((source, target))
        # Negative numbers mark edges, because edges come after the messages, whose number is not
        # known yet.
        return -1 - first - np.arange(len(source))

    def depending(self) -> None:
        """Add the dependencies between operations, and of each rank on its last operations."""
        run = self.run
        for starts, place in ((run.by_start, _BEGIN), (~run.by_start, self.end + 4)):
            before, after = self.first_op + run.before[starts], self.first_op + run.after[starts]
            edges = self.edge(before, after)
            self.add(before, place, Op.SEND, edges)
            self.add(after, _AWAIT, Op.AWAIT, edges)
        last = np.setdiff1d(np.arange(len(run.rank)), run.before[~run.by_start])
        edges = self.edge(self.first_op + last, run.rank[last])
        self.add(self.first_op + last, self.end + 4, Op.SEND, edges)
        self.add(run.rank[last], _AWAIT, Op.AWAIT, edges)

    def program(self) -> Program:
        """Return the program of all operations that were added."""
        placed = self.placed
        process = np.concatenate([p for p, _, _, _ in self.parts])
        place = np.concatenate([where for _, where, _, _ in self.parts])
        code = np.concatenate([np.full(len(p), op, dtype=np.uint8) for p, _, op, _ in self.parts])
        arg = np.concatenate([a for _, _, _, a in self.parts])
        carried = self.messages()
        arg = np.where(arg < 0, carried - 1 - arg, arg)
        order = np.lexsort((arg, place, process))
        source, target = (
            np.concatenate([edge[k] for edge in self.edges]).astype(np.uint32) for k in (0, 1)
        )
        rank_of = self.threads()[1]
        host = placed.host[rank_of]
        ends = (host[source].astype(np.uint32), host[target].astype(np.uint32))
        self.carried.append(
            Carried(
                source,
                target,
                np.zeros(len(source), dtype=np.uint64),
                np.full(len(source), Leaves.EDGE, dtype=np.uint8),
                *ends,
            )
        )
        work = [seconds for seconds, _ in self.work]
        resources = np.arange(int(self.resource.max(initial=-1)) + 1)
        return Program(
            first=np.searchsorted(process[order], np.arange(len(rank_of) + 1)),
            code=code[order],
            arg=arg[order],
            work_seconds=np.concatenate(work),
            resource=self.resource,
            use_seconds=self.use_seconds,
            capacity=np.ones(len(resources), dtype=np.int64),
            host=host,
            **together(self.carried),
            works_for=rank_of,
            overhead=np.concatenate([np.full(len(seconds), paid) for seconds, paid in self.work]),
            processor=resources >= self.processors,
        )


def computing(program: Program, done: Contended) -> tuple[Float, Float, Int]:
    """Return when each rank of a traced replay computes: begins and ends of intervals that do not
    overlap [s], and the rank of each.
    """
    code, arg = np.asarray(program.code), np.asarray(program.arg).astype(np.int64)
    first = np.asarray(program.first).astype(np.int64)
    rank = np.repeat(np.asarray(program.works_for), np.diff(first))
    work = code == Op.WORK
    counts = work & ~program.overhead[np.where(work, arg, 0)] | (code == Op.USE)
    # Compute on a GPU with shared time is a message of a process to itself over a wire that carries
    # time.
    waits = np.flatnonzero(code == Op.AWAIT)
    counts[waits] = (np.asarray(program.source) == np.asarray(program.target))[arg[waits]]
    computing_ops = np.flatnonzero(counts & ~program.copying)
    before = np.append(0.0, done.done)[:-1]
    before[first[:-1][first[:-1] < len(code)]] = 0.0
    # A rank with several processors computes while any of them does.
    times, rank_at = (
        np.concatenate([before[computing_ops], done.done[computing_ops]]),
        np.tile(rank[computing_ops], 2),
    )
    step = np.repeat([1, -1], len(computing_ops))
    order = np.lexsort((-step, times, rank_at))
    active = np.cumsum(step[order])
    begins, ends = order[(active == 1) & (step[order] > 0)], order[active == 0]
    return times[begins], times[ends], rank_at[begins]
