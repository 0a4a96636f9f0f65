"""A recorded MPI run as a program for the contention replay.

What a rank computes between its calls is kept as recorded (times a factor); what it waits for is replayed: sends and
receives as they were matched, collectives as the messages of an algorithm.  A call that neither side of an exchange explains
(a test, a probe, making a communicator) keeps its length.

Each message may be charged for work at either end (`Charges`), whichever way it was recorded: that is how it is taken through
host memory, or straight from device memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.errors import CannotAnswer
from turnbuckle.profile.mpi_calls import ALL, PROCESS, Exchanges, exchanges, operation
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.sides import activities
from turnbuckle.replay.collectives import Selection, chosen, operation_of, pattern
from turnbuckle.replay.contention import Leaves, Op, Program

Float = NDArray[np.float64]
Int = NDArray[np.int64]

#: Within a call: compute before it, room for what comes, what is sent, what is awaited, buffers, collectives, and what is kept.
_GAP, _POST, _SEND, _AWAIT, _SENT, _ROUND, _KEPT = range(7)
#: Collectives of all in which every partner gets the same buffer, or a buffer of the same size.
_PER_RANK: Final = ("allreduce", "allgather", "allgatherv", "alltoall")
#: Open MPI's smcuda has none for device memory, UCX about 8 KiB, TraceR 8192 by default and 64000 in its sample.
EAGER_LIMIT: Final = 8192.0


@dataclass(frozen=True)
class Charges:
    """What a rank does for each message that carries something, besides handing it over.

    Attributes
    ----------
    sender, receiver : seconds, and seconds a byte, before it is sent and after it has arrived.
    ready : whether it leaves only when both ends are ready, whatever its size.
    """

    sender: tuple[float, float] = (0.0, 0.0)
    receiver: tuple[float, float] = (0.0, 0.0)
    ready: bool = False


@dataclass(frozen=True)
class Messages:
    """Messages between activities, before anything is priced; arrays of shape (messages,).

    Attributes
    ----------
    send, sent, receive, received : activity that hands it over, that needs its buffer back, that makes room, that needs it; -1 for none.
    step : within a collective, -1 otherwise.
    size_bytes : of each [B].
    ready : whether it was sent by a synchronous send, which waits for its receiver at every size; empty where none was.
    """

    send: Int
    sent: Int
    receive: Int
    received: Int
    step: Int
    size_bytes: Float
    ready: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))


@dataclass(frozen=True)
class Rounds:
    """Collectives alike: the same operation among as many ranks from the same root.

    Attributes
    ----------
    operation : its traffic, as in `turnbuckle.replay.collectives`.
    block_bytes : of each instance, shape (instances,) [B].
    activity : the call of each member by its rank inside, shape (instances, members).
    root : rank inside, 0 where there is none.
    begin : the call that begins it where another completes it, else -1, shape (instances, members); empty where all block.
    """

    operation: str
    block_bytes: Float
    activity: Int
    root: int
    begin: Int = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))


@dataclass(frozen=True)
class Traffic:
    """What the ranks of a recording do.

    Attributes
    ----------
    ranks : how many.
    rank : of each activity, shape (activities,); where a rank calls from several threads, the thread, counted over all ranks.
    gap_seconds : compute before each activity [s].
    kept_seconds : length of those that no exchange explains [s], else 0.
    tail_seconds : of each rank (thread) after the last call of all [s], shape (ranks,).
    messages : point to point.
    rounds : collectives: one entry for each group alike: operation, block [B] of each (instances,), activities (instances, members), root.
    seconds : recorded run time [s].
    unmatched : calls whose other side the recording does not show; they keep their length.
    rank_of : rank of each thread that made calls; empty where every rank has one.
    """

    ranks: int
    rank: Int
    gap_seconds: Float
    kept_seconds: Float
    tail_seconds: Float
    messages: Messages
    rounds: tuple[Rounds, ...]
    seconds: float
    unmatched: int
    rank_of: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @cached_property
    def compute_seconds(self) -> Float:
        """Time of each rank (thread) outside exchanges [s], shape (ranks,)."""
        out = self.tail_seconds.copy()
        np.add.at(out, self.rank, self.gap_seconds + self.kept_seconds)
        return out


def recorded(profile: Profile) -> Traffic:
    """The traffic of a recorded run.

    Raises
    ------
    CannotAnswer : A164, fewer than two ranks made MPI calls, or none that belong together.
    """
    rows = activities(profile)
    found = exchanges(rows, profile.trace, most_members=1 << 30)
    if found is None or not (found.messages.height or found.rounds.height):
        raise CannotAnswer(
            "A164", "this recording shows no messages between ranks", cause="one rank, or recorded without MPI",
            fix="nsys profile --trace=mpi around mpirun, so that one file holds all ranks",
        )  # fmt: skip
    mpi = rows.with_row_index("i").filter(pl.col("category").cast(pl.String) == "mpi").sort("thread", "start_ns", "end_ns")
    number, rank_of = _threads(profile, mpi)
    rank = np.array([number[t] for t in mpi["thread"].to_list()], dtype=np.int64)
    start, end = mpi["start_ns"].to_numpy(), mpi["end_ns"].to_numpy()
    order = np.lexsort((start, rank))
    place = np.full(rows.height, -1, dtype=np.int64)
    place[mpi["i"].to_numpy()[order]] = np.arange(mpi.height)
    rank, start, end = rank[order], start[order], end[order]
    ended = pl.DataFrame({"rank": rank, "end": end}).select(pl.col("end").cum_max().shift(1).over("rank").fill_null(profile.first_ns))
    before = ended["end"].to_numpy()
    gap = np.maximum(start - before, 0) * 1e-9
    tests = operation(profile.trace).str.starts_with("test").fill_null(False).to_numpy()[mpi["row"].to_numpy()[order]]
    messages, in_message = _point_to_point(found, place, tests)
    rounds, in_round = _rounds(found, place, one_buffer=str(profile.trace.facts.get("product_version", "")).startswith("EZTrace"))
    told = np.zeros(len(rank), dtype=np.bool_)
    told[in_message[in_message >= 0]] = True
    told[in_round] = True
    kept = np.where(told, 0.0, (end - start) * 1e-9)
    # what is recorded after the last call of all ranks
    tail = np.full(len(rank_of), max(profile.last_ns - int(end.max()), 0) * 1e-9)
    return Traffic(int(rank_of.max()) + 1, rank, gap, kept, tail, messages, rounds, profile.seconds, found.unmatched, rank_of)


def _threads(profile: Profile, mpi: pl.DataFrame) -> tuple[dict[int, int], Int]:
    """Thread -> number, in the order of the ranks in the world, and the rank of each number: threads of a process are one rank."""
    known = {t & PROCESS: r for t, r in profile.trace.mpi_ranks.select("thread", "rank").iter_rows()}
    order = sorted((known.get(t & PROCESS, 1 << 60), t) for t in mpi["thread"].unique().to_list())
    places = [(rank, t & PROCESS) for rank, t in order]
    rank = np.cumsum([a != b for a, b in zip(places, [None, *places[:-1]], strict=True)]) - 1
    return {t: n for n, (_, t) in enumerate(order)}, rank.astype(np.int64)


def _point_to_point(found: Exchanges, place: Int, tests: NDArray[np.bool_]) -> tuple[Messages, Int]:
    pairs = found.messages
    columns = ("activity", "done", "activity_r", "done_r")
    ends = [np.where(a >= 0, place[a], -1) for a in (pairs[c].to_numpy().astype(np.int64) for c in columns)]
    size = pairs.select(pl.min_horizontal("size_bytes", "size_bytes_r").fill_null(0)).to_series().to_numpy().astype(np.float64)
    send, sent, receive, received = ends
    mode = pairs["does"].str.extract(r"^i?([bs])send(?:_init)?$").fill_null("")
    # a buffered send is done once its message is copied; a test of a send that is not done would have gone on without it
    held = np.where((mode == "b").to_numpy() | (sent >= 0) & tests[sent], -1, sent)
    ready = (mode == "s").to_numpy()
    return Messages(send, held, receive, received, np.full(pairs.height, -1), size, ready), np.concatenate(ends)


def _rounds(found: Exchanges, place: Int, *, one_buffer: bool = False) -> tuple[tuple[Rounds, ...], Int]:
    """Collectives, those alike together; what a non-blocking one does between its two calls is `_aside`.

    Nsight Systems and Score-P count what goes to and comes from all members, and leave null or 0 where a member sends or receives
    nothing; `one_buffer`: EZTrace writes the size of one buffer on both sides of every member.
    """
    if not found.rounds.height:
        return (), np.zeros(0, dtype=np.int64)
    group = ["comm", "k"]
    sent, got, does = pl.col("size_bytes"), pl.col("receive_bytes"), pl.col("does")
    least = pl.min_horizontal(*(c.filter(c > 0).min().over(group) for c in (sent, got)))
    each = pl.coalesce(sent.mean().over(group), got.mean().over(group))
    partners = pl.when(does.is_in(_PER_RANK) & one_buffer).then(1).otherwise("members")
    carried = (
        pl.when(does.is_in(ALL)).then(each / partners)
        .when(does == "gatherv").then(sent.fill_null(0).mean().over(group))
        .when(does == "scatterv").then(got.fill_null(0).mean().over(group))
        .otherwise(least)
    )  # fmt: skip
    calls = found.rounds.with_columns(
        at=pl.when(pl.col("done") >= 0).then("done").otherwise("activity"),
        operation=pl.col("does").map_elements(lambda n: operation_of(n) or "", return_dtype=pl.String),
        block=carried.fill_null(0).cast(pl.Float64),
        root=pl.col("root").max().over(group).fill_null(-1).clip(0),
    ).filter(pl.col("operation") != "")
    out, seen = [], [np.zeros(0, dtype=np.int64)]
    for key, alike in calls.sort(*group, "me").group_by("operation", "members", "root", maintain_order=True):
        operation, members, root = str(key[0]), int(str(key[1])), int(str(key[2]))
        activity = place[alike["at"].to_numpy().astype(np.int64)].reshape(-1, members)
        begin = place[alike["activity"].to_numpy().astype(np.int64)].reshape(-1, members)
        block = alike["block"].to_numpy().reshape(-1, members)[:, 0].astype(np.float64)
        out.append(Rounds(operation, block, activity, root, np.where(begin == activity, -1, begin)))
        seen.append(activity.reshape(-1))
    return tuple(out), np.concatenate(seen)


# --- the program ------------------------------------------------------------------------------------------------------


def expanded(rounds: Rounds, selection: Selection) -> Messages:
    """The messages of collectives alike, by the algorithm that is chosen for the block of each."""
    members = rounds.activity.shape[1]
    picked = np.array([chosen(rounds.operation, float(b), members, selection) for b in rounds.block_bytes.tolist()])
    parts = []
    for algorithm in np.unique(picked):
        mine = picked == algorithm
        made = pattern(rounds.operation, str(algorithm), members, rounds.root if rounds.root < members else 0)
        calls, block = rounds.activity[mine], rounds.block_bytes[mine]
        send, receive = calls[:, made.source].reshape(-1), calls[:, made.target].reshape(-1)
        step = np.broadcast_to(made.step, (int(mine.sum()), len(made.step))).reshape(-1)
        parts.append(Messages(send, send, receive, receive, step, np.outer(block, made.share).reshape(-1)))
    return _joined(parts)


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


def _joined(parts: list[Messages]) -> Messages:
    names = ("send", "sent", "receive", "received", "step", "size_bytes")
    ready = [p.ready if len(p.ready) else np.zeros(len(p.send), dtype=np.bool_) for p in parts]
    return Messages(**{n: np.concatenate([getattr(p, n) for p in parts]) for n in names}, ready=np.concatenate(ready))


def program(
    traffic: Traffic,
    *,
    ranks_per_node: int = 1,
    charged: Charges = Charges(),
    eager_limit: float = EAGER_LIMIT,
    selection: Selection = "short and long",
    compute: float = 1.0,
) -> Program:
    """A recorded run as a program.

    Parameters
    ----------
    ranks_per_node : ranks are dealt to nodes one node after the other.
    charged : what each message costs at either end.
    eager_limit : messages up to this size leave as soon as they are sent [B].
    selection : algorithms of collectives.
    compute : times the recorded compute.

    Returns
    -------
    A process for every rank (thread), then one for every member of a non-blocking collective.
    """
    recorded_calls = len(traffic.rank)
    traffic, rounds, told = _aside(traffic)
    all_of = _joined([traffic.messages, *(expanded(r, selection) for r in rounds), told])
    count, edges = len(all_of.send), len(told.send)
    rank = traffic.rank
    work: list[Float] = []
    lists: list[tuple[Int, Int | int, Int | int, Int, Int | int, Op, Int | None]] = []

    def add(activity: Int, phase: Int | int, kind: Int | int, sub: Int, minor: int, op: Op, arg: Int) -> None:
        lists.append((activity, phase, kind, sub, minor, op, arg))

    def add_work(activity: Int, phase: Int | int, kind: Int | int, sub: Int, minor: int, seconds: Float) -> None:
        some = seconds > 0
        held = [np.broadcast_to(np.asarray(v), activity.shape)[some] for v in (phase, kind, sub)]
        first = sum(len(w) for w in work)
        work.append(seconds[some])
        add(activity[some], held[0], held[1], held[2], minor, Op.WORK, first + np.arange(int(some.sum())))

    calls, m = np.arange(len(rank)), np.arange(count)
    edge = m >= count - edges
    add_work(calls, _GAP, 0, calls, 0, traffic.gap_seconds * compute)
    add_work(calls, _KEPT, 0, calls, 0, traffic.kept_seconds)
    single = all_of.step < 0
    # what carries nothing has no buffer that could be in device memory
    full = all_of.size_bytes > 0
    at_sender, at_receiver = (np.where(full, fixed + each * all_of.size_bytes, 0.0) for fixed, each in (charged.sender, charged.receiver))
    for kind, op, where, phase in (
        (0, Op.POST, all_of.receive, _POST), (1, Op.SEND, all_of.send, _SEND),
        (2, Op.AWAIT, all_of.received, _AWAIT), (3, Op.SENT, all_of.sent, _SENT),
    ):  # fmt: skip
        there = where >= 0
        # what goes on beside a rank tells its end last
        last = edge & (where >= recorded_calls) & (op == Op.SEND)
        phases, kinds = np.where(last, _KEPT, np.where(single, phase, _ROUND))[there], np.where(single, 0, 4 * all_of.step + kind)[there]
        extra = at_sender if op == Op.SEND else at_receiver if op == Op.AWAIT else np.zeros(count)
        add_work(where[there], phases, kinds, m[there], 0 if op == Op.SEND else 2, extra[there])
        add(where[there], phases, kinds, m[there], 1, op, m[there])
    leaves = np.where((all_of.size_bytes > eager_limit) | all_of.ready | charged.ready & full, Leaves.READY, Leaves.EAGER).astype(np.uint8)
    leaves[edge] = Leaves.EDGE
    return _ordered(traffic, lists, work, all_of, leaves, ranks_per_node, compute)


def _ordered(
    traffic: Traffic, lists: list[Any], work: list[Float], all_of: Messages, leaves: NDArray[np.uint8], ranks_per_node: int, compute: float
) -> Program:
    """Operations in the order in which each rank does them."""
    keys = [np.concatenate([np.broadcast_to(np.asarray(one[k]), one[0].shape) for one in lists]) for k in range(5)]
    code = np.concatenate([np.full(len(one[0]), int(one[5]), dtype=np.uint8) for one in lists])
    arg = np.concatenate([one[6] for one in lists])
    order = np.lexsort((keys[4], keys[3], keys[2], keys[1], keys[0]))
    rank, code, arg = traffic.rank[keys[0]][order], code[order], arg[order]
    # what a rank does after its last call
    threads = np.arange(len(traffic.tail_seconds))
    ends = np.searchsorted(rank, threads, side="right")
    seconds = np.concatenate([*work, traffic.tail_seconds * compute])
    code = np.insert(code, ends, int(Op.WORK)).astype(np.uint8)
    arg = np.insert(arg, ends, len(seconds) - len(threads) + threads)
    rank = np.insert(rank, ends, threads)
    rank_of = traffic.rank_of if len(traffic.rank_of) else threads
    nothing = np.zeros(0, dtype=np.int64)
    return Program(
        np.searchsorted(rank, np.arange(len(threads) + 1)), code, arg, seconds, nothing, nothing.astype(np.float64), nothing,
        rank_of // ranks_per_node, traffic.rank[all_of.send], traffic.rank[all_of.receive],
        np.round(all_of.size_bytes), leaves,
    )  # fmt: skip
