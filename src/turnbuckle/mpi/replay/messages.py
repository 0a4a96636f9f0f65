"""What the ranks of an MPI run do: compute, messages as they were matched, collectives; as recorded, before anything is priced.

What a rank computes between its calls is kept as recorded; a call that neither side of an exchange explains (a test, a probe, making
a communicator) keeps its length.  `turnbuckle.mpi.replay.program` makes a program of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.foundation.errors import CannotAnswer, UsageError
from turnbuckle.mpi.collectives.collectives import Selection, chosen, operation_of, pattern
from turnbuckle.profile.dependencies.sides import activities
from turnbuckle.profile.messages.mpi_calls import ALL, KNOWN, Exchanges, exchanges, in_words, operation
from turnbuckle.profile.profile import Profile
from turnbuckle.trace.ids import process_of
from turnbuckle.trace.recorders import recorder_of, what_to_record

Float = NDArray[np.float64]
Int = NDArray[np.int64]

#: Collectives of all in which every partner gets the same buffer, or a buffer of the same size.
_PER_RANK: Final = ("allreduce", "allgather", "allgatherv", "alltoall")
#: What some hundred gigabytes hold; operations of more are beyond what they are counted in.
MOST_MESSAGES: Final = 250_000_000


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
    operation : its traffic, as in `turnbuckle.mpi.collectives.collectives`.
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
    call, calls : which call each activity was, and their names without ``MPI_``, in small letters; empty where that is not known.
    unmatched_calls : the first calls without another side, in words: rank, call, time.
    unknown : how many collective calls are of kinds that have no traffic here, and the first of them in words; they keep their length.
    start_seconds : when each activity was recorded to begin, after the first of all [s]; empty where that is not known.
    recorder : the format that advice is for; empty where it was not recorded.
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
    call: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    calls: tuple[str, ...] = ()
    start_seconds: Float = field(default_factory=lambda: np.zeros(0))
    unmatched_calls: str = ""
    unknown: tuple[int, str] = (0, "")
    recorder: str = ""

    def work_seconds(self, compute: float = 1.0) -> Float:
        """Time of each rank (thread) outside exchanges, its compute times a factor [s], shape (ranks,)."""
        out = self.tail_seconds * compute
        np.add.at(out, self.rank, self.gap_seconds * compute + self.kept_seconds)
        return out

    @cached_property
    def compute_seconds(self) -> Float:
        """Time of each rank (thread) outside exchanges [s], shape (ranks,)."""
        return self.work_seconds()

    def kept(self) -> dict[str, tuple[int, float]]:
        """Calls that keep their recorded length: how many of each, and how long in all [s], the longest first."""
        if not len(self.call):
            return {}
        some = self.kept_seconds > 0
        count = np.bincount(self.call[some], minlength=len(self.calls))
        seconds = np.bincount(self.call[some], self.kept_seconds[some], minlength=len(self.calls))
        return {self.calls[k]: (int(count[k]), float(seconds[k])) for k in np.argsort(-seconds, kind="stable") if count[k]}


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
            fix=what_to_record("ranks", profile.trace.facts),
        )  # fmt: skip
    mpi = (
        rows.with_row_index("i")
        .filter(pl.col("category").cast(pl.String) == "mpi")
        .sort("thread", "start_ns", "end_ns", maintain_order=True)
    )
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
    made = operation(profile.trace).gather(mpi["row"].to_numpy()[order]).fill_null("")
    tests = made.str.starts_with("test").to_numpy()
    messages, in_message = _point_to_point(found, place, tests)
    rounds, in_round = _rounds(found, place, one_buffer=str(profile.trace.facts.get("product_version", "")).startswith("EZTrace"))
    told = np.zeros(len(rank), dtype=np.bool_)
    told[in_message[in_message >= 0]] = True
    told[in_round] = True
    kept = np.where(told, 0.0, (end - start) * 1e-9)
    # what is recorded after the last call of all ranks
    tail = np.full(len(rank_of), max(profile.last_ns - int(end.max()), 0) * 1e-9)
    strange = (pl.col("kind") == 1) & ~pl.col("does").is_in(KNOWN)
    odd = found.alone.filter(strange)
    calls, call = np.unique(made.to_numpy().astype(str), return_inverse=True)
    return Traffic(
        int(rank_of.max()) + 1, rank, gap, kept, tail, messages, rounds, profile.seconds, found.alone.height - odd.height, rank_of,
        call.astype(np.int64), tuple(calls.tolist()), (start - profile.first_ns) * 1e-9,
        in_words(found.alone.filter(~strange), profile.trace, profile.first_ns),
        (odd.height, in_words(odd, profile.trace, profile.first_ns)), recorder_of(profile.trace.facts),
    )  # fmt: skip


def _threads(profile: Profile, mpi: pl.DataFrame) -> tuple[dict[int, int], Int]:
    """Thread -> number, in the order of the ranks in the world, and the rank of each number: threads of a process are one rank."""
    known = {process_of(t): r for t, r in profile.trace.mpi_ranks.select("thread", "rank").iter_rows()}
    order = sorted((known.get(process_of(t), 1 << 60), t) for t in mpi["thread"].unique().to_list())
    places = [(rank, process_of(t)) for rank, t in order]
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
        operation=pl.col("does").map_elements(lambda n: operation_of(n, plain=False) or "", return_dtype=pl.String),
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


def expanded(rounds: Rounds, selection: Selection) -> Messages:
    """The messages of collectives alike, by the algorithm that is chosen for the block of each.

    Raises
    ------
    UsageError : A060, more messages than a replay is made for.
    """
    members = rounds.activity.shape[1]
    blocks, which = np.unique(rounds.block_bytes, return_inverse=True)
    picked = np.array([chosen(rounds.operation, float(b), members, selection) for b in blocks.tolist()])[which]
    parts = []
    for algorithm in np.unique(picked):
        mine = picked == algorithm
        made = pattern(rounds.operation, str(algorithm), members, rounds.root if rounds.root < members else 0)
        calls, block = rounds.activity[mine], rounds.block_bytes[mine]
        bounded(len(calls) * len(made.step))
        send, receive = calls[:, made.source].reshape(-1), calls[:, made.target].reshape(-1)
        step = np.broadcast_to(made.step, (len(calls), len(made.step))).reshape(-1)
        parts.append(Messages(send, send, receive, receive, step, np.outer(block, made.share).reshape(-1)))
    return joined(parts)


def joined(parts: list[Messages], kind: type[np.signedinteger[Any]] = np.int64) -> Messages:
    """Messages one after the other, activities and steps as numbers of one kind."""
    count = sum(len(p.send) for p in parts)
    whole = {n: np.empty(count, dtype=kind) for n in ("send", "sent", "receive", "received", "step")}
    size, ready = np.empty(count), np.zeros(count, dtype=np.bool_)
    at = 0
    for part in parts:
        here = slice(at, at + len(part.send))
        for name, column in whole.items():
            column[here] = getattr(part, name)
        size[here] = part.size_bytes
        if len(part.ready):
            ready[here] = part.ready
        at = here.stop
    return Messages(**whole, size_bytes=size, ready=ready)


def bounded(messages: float) -> None:
    """Refuse (A060) more messages than a replay is made for."""
    if messages > MOST_MESSAGES:
        raise UsageError(
            "A060", f"a replay is made for up to {MOST_MESSAGES:,} messages", found=f"{messages:,.0f}, or more",
            cause="collectives among many ranks, or messages in many chunks", fix="fewer ranks, or larger chunks",
        )  # fmt: skip
