"""A recorded MPI run as a program for the contention replay.

What a rank computes between its calls is kept as recorded (times a factor); what it waits for is replayed: sends and
receives as they were matched, collectives as the messages of an algorithm.  A call that neither side of an exchange explains
(a test, a probe, making a communicator) keeps its length.

Each message may be charged for work at either end (`Charges`), whichever way it was recorded: that is how it is taken through
host memory, or straight from device memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.errors import CannotAnswer
from turnbuckle.profile.mpi_calls import ALL, Exchanges, exchanges
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.sides import activities
from turnbuckle.replay.collectives import Selection, chosen, operation_of, pattern
from turnbuckle.replay.contention import Leaves, Op, Program

Float = NDArray[np.float64]
Int = NDArray[np.int64]

#: Within a call: compute before it, room for what comes, what is sent, what is awaited, buffers, collectives, and what is kept.
_GAP, _POST, _SEND, _AWAIT, _SENT, _ROUND, _KEPT = range(7)
#: Open MPI's smcuda has none for device memory, UCX about 8 KiB, TraceR 8192 by default and 64000 in its sample.
EAGER_LIMIT: Final = 8192.0


@dataclass(frozen=True)
class Charges:
    """What a rank does for each message besides handing it over.

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
    """

    send: Int
    sent: Int
    receive: Int
    received: Int
    step: Int
    size_bytes: Float


@dataclass(frozen=True)
class Rounds:
    """Collectives alike: the same operation among as many ranks from the same root.

    Attributes
    ----------
    operation : its traffic, as in `turnbuckle.replay.collectives`.
    block_bytes : of each instance, shape (instances,) [B].
    activity : the call of each member by its rank inside, shape (instances, members).
    root : rank inside, 0 where there is none.
    """

    operation: str
    block_bytes: Float
    activity: Int
    root: int


@dataclass(frozen=True)
class Traffic:
    """What the ranks of a recording do.

    Attributes
    ----------
    ranks : how many.
    rank : of each activity, shape (activities,).
    gap_seconds : compute before each activity [s].
    kept_seconds : length of those that no exchange explains [s], else 0.
    tail_seconds : of each rank after the last call of all [s], shape (ranks,).
    messages : point to point.
    rounds : collectives: one entry for each group alike: operation, block [B] of each (instances,), activities (instances, members), root.
    seconds : recorded run time [s].
    unmatched : calls whose other side the recording does not show; they keep their length.
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

    @cached_property
    def compute_seconds(self) -> Float:
        """Time of each rank outside exchanges [s], shape (ranks,)."""
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
    number = _ranks(profile, mpi)
    rank = np.array([number[t] for t in mpi["thread"].to_list()], dtype=np.int64)
    start, end = mpi["start_ns"].to_numpy(), mpi["end_ns"].to_numpy()
    order = np.lexsort((start, rank))
    place = np.full(rows.height, -1, dtype=np.int64)
    place[mpi["i"].to_numpy()[order]] = np.arange(mpi.height)
    rank, start, end = rank[order], start[order], end[order]
    heads = np.diff(rank, prepend=-1) != 0
    before = np.where(heads, profile.first_ns, np.concatenate([[0], np.maximum.accumulate(end)[:-1]]))
    gap = np.maximum(start - before, 0) * 1e-9
    messages, in_message = _point_to_point(found, place)
    rounds, in_round = _rounds(found, place)
    told = np.zeros(len(rank), dtype=np.bool_)
    told[in_message[in_message >= 0]] = True
    told[in_round] = True
    kept = np.where(told, 0.0, (end - start) * 1e-9)
    ranks = int(rank.max()) + 1
    # what is recorded after the last call of all ranks
    tail = np.full(ranks, max(profile.last_ns - int(end.max()), 0) * 1e-9)
    return Traffic(ranks, rank, gap, kept, tail, messages, rounds, profile.seconds, found.unmatched)


def _ranks(profile: Profile, mpi: pl.DataFrame) -> dict[int, int]:
    """Thread -> number, in the order of the ranks in the world."""
    known = {t: r for t, r in profile.trace.mpi_ranks.select("thread", "rank").iter_rows()}
    by_process = {t & ~0xFFFFFF: r for t, r in known.items()}
    threads = mpi["thread"].unique(maintain_order=True).to_list()
    order = sorted(threads, key=lambda t: (known.get(t, by_process.get(t & ~0xFFFFFF, 1 << 60)), t))
    return {t: n for n, t in enumerate(order)}


def _point_to_point(found: Exchanges, place: Int) -> tuple[Messages, Int]:
    pairs = found.messages
    columns = ("activity", "done", "activity_r", "done_r")
    ends = [np.where(a >= 0, place[a], -1) for a in (pairs[c].to_numpy().astype(np.int64) for c in columns)]
    size = pairs.select(pl.min_horizontal("size_bytes", "size_bytes_r").fill_null(0)).to_series().to_numpy().astype(np.float64)
    send, sent, receive, received = ends
    return Messages(send, sent, receive, received, np.full(pairs.height, -1), size), np.concatenate(ends)


def _rounds(found: Exchanges, place: Int) -> tuple[tuple[Rounds, ...], Int]:
    """Collectives, those alike together; what a non-blocking one needs is there when it is completed."""
    if not found.rounds.height:
        return (), np.zeros(0, dtype=np.int64)
    group = ["comm", "k"]
    size = pl.min_horizontal(pl.col("size_bytes").min().over(group), pl.col("receive_bytes").min().over(group)).fill_null(0)
    calls = found.rounds.with_columns(
        at=pl.when(pl.col("done") >= 0).then("done").otherwise("activity"),
        operation=pl.col("does").map_elements(lambda n: operation_of(n) or "", return_dtype=pl.String),
        # sizes count all partners where everyone has as many
        block=pl.when(pl.col("does").is_in(ALL)).then(size / pl.col("members")).otherwise(size),
        root=pl.col("root").fill_null(-1).clip(0),
    ).filter(pl.col("operation") != "")
    out, seen = [], [np.zeros(0, dtype=np.int64)]
    for key, alike in calls.sort(*group, "me").group_by("operation", "members", "root", maintain_order=True):
        operation, members, root = str(key[0]), int(str(key[1])), int(str(key[2]))
        activity = place[alike["at"].to_numpy().astype(np.int64)].reshape(-1, members)
        block = alike["block"].to_numpy().reshape(-1, members)[:, 0].astype(np.float64)
        out.append(Rounds(operation, block, activity, root))
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


def _joined(parts: list[Messages]) -> Messages:
    names = ("send", "sent", "receive", "received", "step", "size_bytes")
    return Messages(**{n: np.concatenate([getattr(p, n) for p in parts]) for n in names})


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
    """
    all_of = _joined([traffic.messages, *(expanded(r, selection) for r in traffic.rounds)])
    count = len(all_of.send)
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
    add_work(calls, _GAP, 0, calls, 0, traffic.gap_seconds * compute)
    add_work(calls, _KEPT, 0, calls, 0, traffic.kept_seconds)
    single = all_of.step < 0
    at_sender, at_receiver = (fixed + each * all_of.size_bytes for fixed, each in (charged.sender, charged.receiver))
    for kind, op, where, phase in (
        (0, Op.POST, all_of.receive, _POST), (1, Op.SEND, all_of.send, _SEND),
        (2, Op.AWAIT, all_of.received, _AWAIT), (3, Op.SENT, all_of.sent, _SENT),
    ):  # fmt: skip
        there = where >= 0
        phases, kinds = np.where(single, phase, _ROUND)[there], np.where(single, 0, 4 * all_of.step + kind)[there]
        extra = at_sender if op == Op.SEND else at_receiver if op == Op.AWAIT else np.zeros(count)
        add_work(where[there], phases, kinds, m[there], 0 if op == Op.SEND else 2, extra[there])
        add(where[there], phases, kinds, m[there], 1, op, m[there])
    leaves = np.where((all_of.size_bytes > eager_limit) | charged.ready, Leaves.READY, Leaves.EAGER).astype(np.uint8)
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
    ends = np.searchsorted(rank, np.arange(traffic.ranks), side="right")
    seconds = np.concatenate([*work, traffic.tail_seconds * compute])
    code = np.insert(code, ends, int(Op.WORK)).astype(np.uint8)
    arg = np.insert(arg, ends, len(seconds) - traffic.ranks + np.arange(traffic.ranks))
    rank = np.insert(rank, ends, np.arange(traffic.ranks))
    nothing = np.zeros(0, dtype=np.int64)
    return Program(
        np.searchsorted(rank, np.arange(traffic.ranks + 1)), code, arg, seconds, nothing, nothing.astype(np.float64), nothing,
        np.arange(traffic.ranks) // ranks_per_node, traffic.rank[all_of.send], traffic.rank[all_of.receive],
        np.round(all_of.size_bytes), leaves,
    )  # fmt: skip
