"""Traffic of a recorded MPI run, before anything is priced: compute, matched messages and
collectives of each rank.

A run begins when its ranks leave MPI_Init, which holds them until all are there, and ends when they
enter MPI_Finalize; where a recording does not hold these calls of every thread, it is taken whole.
The compute of a rank between its calls is kept as recorded.  A call whose time no message or
collective explains (a test, a probe, the creation of a communicator) keeps its recorded duration.
`turnbuckle.mpi.replay.program` builds a program from the traffic.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Float, Int, numbered
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.schema import words
from turnbuckle.mpi.collectives.collectives import Selection, chosen, operation_of, pattern
from turnbuckle.profile.dependencies.sides import activities
from turnbuckle.profile.messages.mpi_calls import (
    ALL,
    KNOWN,
    ON_DEVICE,
    Exchanges,
    exchanges,
    in_words,
    operation,
)
from turnbuckle.profile.messages.staging_pairs import staging_pairs
from turnbuckle.profile.profile import Profile
from turnbuckle.trace.ids import process_of
from turnbuckle.trace.recorders import recorder_of, what_to_record
from turnbuckle.trace.trace import Trace

#: Collectives among all ranks in which every partner gets the same buffer, or a buffer of the same
#: size.
_PER_RANK: Final = ("allreduce", "allgather", "allgatherv", "alltoall")
#: Places of buffers.
Memory = np.ndarray[tuple[int, int], np.dtype[np.int8]]
UNIFIED: Final = tuple(
    code for code, word in enumerate(words("memories")) if word.startswith("managed")
)
#: The place of a buffer that the recorder could not tell.
UNKNOWN: Final = words("memories").index("unknown")
_NO_MEMORY: Final[Memory] = np.zeros((0, 2), dtype=np.int8)
#: More messages need hundreds of gigabytes, and their operations exceed the 32-bit numbers that
#: count them.
MOST_MESSAGES: Final = 250_000_000


@dataclass(frozen=True)
class Messages:
    """Messages between activities, before anything is priced; arrays of shape (messages,).

    Attributes
    ----------
    send, sent, receive, received : activity that hands the message over, that needs its buffer
        back, that posts the receive, and that needs the message; -1 for none.
    step : step within a collective; -1 for other messages.
    size_bytes : size of each message [B].
    ready : whether the message was sent by a synchronous send, which waits for its receiver at
        every size; empty where none was.
    memory : where the sender's buffer and the receiver's are, shape (messages, 2): index into the
        vocabulary's `memories`, -1 where it is not recorded; empty where no buffer is.
    """

    send: Int
    sent: Int
    receive: Int
    received: Int
    step: Int
    size_bytes: Float
    ready: Bool = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    memory: Memory = field(default_factory=lambda: _NO_MEMORY)


@dataclass(frozen=True)
class Rounds:
    """Collectives of one kind: the same operation among equally many ranks from the same root.

    Attributes
    ----------
    operation : operation whose traffic it has, as in `turnbuckle.mpi.collectives.collectives`.
    block_bytes : block of each instance, shape (instances,) [B].
    activity : call of each member by its rank in the communicator, shape (instances, members).
    root : rank of the root in the communicator; 0 where there is none.
    begin : call that starts the collective where another call completes it, else -1, shape
        (instances, members); empty where all block.
    memory : where each member's buffers are, shape (instances, members), as in `Messages`; empty
        where no buffer is recorded.
    """

    operation: str
    block_bytes: Float
    activity: Int
    root: int
    begin: Int = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    memory: Memory = field(default_factory=lambda: _NO_MEMORY)


class Recording(NamedTuple):
    """Recording that traffic was read from: what ran between the calls stands in it."""

    trace: Trace
    first_ns: int  #: instant from which ``start_seconds`` counts [ns]
    last_ns: int  #: end of the run [ns]
    threads: tuple[int, ...]  #: global id of each thread, in the order of their numbers


@dataclass(frozen=True)
class Traffic:
    """Recorded activities of all ranks: compute, messages and collectives.

    Attributes
    ----------
    ranks : number of ranks.
    rank : rank of each activity, shape (activities,); where a rank calls from several threads, the
        thread, counted over all ranks.
    gap_seconds : compute before each activity [s].
    kept_seconds : recorded duration of the activities that no exchange explains [s], else 0.
    tail_seconds : compute of each rank (thread) after the last call of all ranks [s], shape
        (ranks,).
    messages : point-to-point messages.
    rounds : collectives; one entry for each operation, number of members and root.
    seconds : recorded run time, from MPI_Init to MPI_Finalize where they are recorded [s].
    unmatched : number of calls whose other side the recording does not show; they keep their
        recorded duration.
    rank_of : rank of each thread that made calls; empty where every rank has one thread.
    call, calls : index of each activity's name in `calls`, and the names without ``MPI_``, in lower
        case; empty where they are unknown.
    unmatched_calls : the first calls without another side, in words: rank, call, time.
    unknown : number of collective calls of kinds whose traffic is unknown, and the first of them in
        words; they keep their duration.
    start_seconds : recorded begin of each activity after the first of all [s]; empty where it is
        unknown.
    staged : number of recorded copies between GPU and host that stage messages; they are part of
        the compute.
    recorder : format of the recording, which selects the advice that messages give; empty without a
        recording.
    recording : where the regions and kernels between the calls stand; None for a schedule, and for
        more ranks than were recorded.
    gpus_of_rank : number of GPUs that the recorded kernels of each rank ran on, shape (ranks,);
        empty where no kernel is recorded.
    row : activity of the profile that each activity here is; empty without a recording.
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
    staged: int = 0
    recorder: str = ""
    recording: Recording | None = field(default=None, repr=False, compare=False)
    gpus_of_rank: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    row: Int = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)

    def work_seconds(self, compute: float = 1.0) -> Float:
        """Return the time of each rank (thread) outside exchanges, with its compute times a factor
        [s], shape (ranks,).
        """
        out = self.tail_seconds * compute
        np.add.at(out, self.rank, self.gap_seconds * compute + self.kept_seconds)
        return out

    @cached_property
    def compute_seconds(self) -> Float:
        """Return the time of each rank (thread) outside exchanges [s], shape (ranks,)."""
        return self.work_seconds()

    @cached_property
    def explained(self) -> Bool:
        """Return which calls a message or a collective explains, so that a replay computes them
        anew, shape (activities,).
        """
        pairs = self.messages
        ends = [pairs.send, pairs.sent, pairs.receive, pairs.received]
        ends += [
            part.reshape(-1) for rounds in self.rounds for part in (rounds.activity, rounds.begin)
        ]
        at = np.concatenate(ends)
        explained = np.zeros(len(self.rank), dtype=np.bool_)
        explained[at[at >= 0]] = True
        return explained

    def in_calls(self, instants: Float) -> Float:
        """Return the time of each call [s] at these instants of the graph, less what lies within an
        earlier call of its thread.
        """
        begin, end = instants[2 * self.row + 1], instants[2 * self.row + 2]
        apart = self.rank * (float(instants.max()) + 1.0)
        over = np.maximum.accumulate(np.append(-1.0, end + apart)[:-1]) - apart
        return np.asarray(np.maximum(end - np.maximum(begin, over), 0.0))

    def kept(self) -> dict[str, tuple[int, float]]:
        """Return the number and the total time [s] of the calls that keep their recorded duration,
        by name, the longest first.
        """
        if not len(self.call):
            return {}
        keeps = self.kept_seconds > 0
        count = np.bincount(self.call[keeps], minlength=len(self.calls))
        seconds = np.bincount(self.call[keeps], self.kept_seconds[keeps], minlength=len(self.calls))
        return {
            self.calls[k]: (int(count[k]), float(seconds[k]))
            for k in np.argsort(-seconds, kind="stable")
            if count[k]
        }


def recorded(profile: Profile) -> Traffic:
    """Return the traffic of a recorded run.

    Raises A164, fewer than two ranks made MPI calls, or none that belong together.
    """
    rows = activities(profile)
    matched = exchanges(rows, profile.trace, most_members=1 << 30)
    if matched is None or not (matched.messages.height or matched.rounds.height):
        raise error_of("A164.recording", fix=what_to_record("ranks", profile.trace.facts))
    mpi = (
        rows.with_row_index("i")
        .filter(pl.col("category").cast(pl.String) == "mpi")
        .sort("thread", "start_ns", "end_ns", maintain_order=True)
    )
    number, rank_of = threads(profile.trace, mpi)
    rank = np.array([number[t] for t in mpi["thread"].to_list()], dtype=np.int64)
    start, end = mpi["start_ns"].to_numpy(), mpi["end_ns"].to_numpy()
    order = np.lexsort((start, rank))
    place = np.full(rows.height, -1, dtype=np.int64)
    place[mpi["i"].to_numpy()[order]] = np.arange(mpi.height)
    rank, start, end = rank[order], start[order], end[order]
    operation_names = operation(profile.trace).gather(mpi["row"].to_numpy()[order]).fill_null("")
    opening, closing = _bounds(operation_names, rank, start, end, len(rank_of))
    first = profile.first_ns if opening is None else int(opening.min())
    ended = pl.DataFrame({"rank": rank, "end": end}).select(
        pl.col("end").cum_max().shift(1).over("rank").fill_null(first)
    )
    before = ended["end"].to_numpy()
    gap = np.maximum(start - before, 0) * 1e-9
    tests = operation_names.str.starts_with("test").to_numpy()
    messages, in_message = _point_to_point(matched, place, tests)
    rounds, in_round = rounds_of(matched, place, profile.trace)
    explained = np.zeros(len(rank), dtype=np.bool_)
    explained[in_message[in_message >= 0]] = True
    explained[in_round] = True
    kept = np.where(explained, 0.0, (end - start) * 1e-9)
    # Only the time after the last call of all ranks can be attributed to the tail of each.
    tail = np.full(len(rank_of), max(profile.last_ns - int(end.max()), 0) * 1e-9)
    seconds = profile.seconds
    if opening is not None:
        # ranks leave MPI_Init together; by how much one leaves later is kept
        started = end <= opening[rank]
        gap[started], kept[started] = 0.0, 0.0
        last = started & (end == opening[rank])
        kept[last] = (end[last] - first) * 1e-9
        seconds = (profile.last_ns - first) * 1e-9
    if closing is not None:
        over = start >= closing[rank]
        gap[over & (start > closing[rank])], kept[over], tail = 0.0, 0.0, np.zeros(len(rank_of))
        seconds -= (profile.last_ns - int(closing.max())) * 1e-9
    unknown_kind = (pl.col("kind") == 1) & ~pl.col("does").is_in(KNOWN)
    unknown_calls = matched.alone.filter(unknown_kind)
    calls, call = numbered(operation_names)
    return Traffic(
        ranks=int(rank_of.max()) + 1,
        rank=rank,
        gap_seconds=gap,
        kept_seconds=kept,
        tail_seconds=tail,
        messages=messages,
        rounds=rounds,
        seconds=seconds,
        unmatched=matched.alone.height - unknown_calls.height,
        rank_of=rank_of,
        call=call,
        calls=tuple(calls),
        start_seconds=np.maximum(start - first, 0) * 1e-9,
        unmatched_calls=in_words(
            matched.alone.filter(~unknown_kind), profile.trace, profile.first_ns
        ),
        unknown=(unknown_calls.height, in_words(unknown_calls, profile.trace, profile.first_ns)),
        staged=len(np.unique(staging_pairs(rows, profile.trace).copy)),
        recorder=recorder_of(profile.trace.facts),
        recording=Recording(profile.trace, first, profile.last_ns, tuple(number)),
        gpus_of_rank=_gpus(profile.trace, number, rank_of),
        row=mpi["i"].to_numpy()[order].astype(np.int64),
    )


def _gpus(trace: Trace, number: dict[int, int], rank_of: Int) -> Int:
    """Return on how many GPUs the kernels of each rank ran, shape (ranks,); empty where no kernel
    is recorded.
    """
    used = trace.kernels.select("process", "device").drop_nulls().unique()
    ranks = {process_of(thread): int(rank_of[n]) for thread, n in number.items()}
    of = [ranks[process] for process in used["process"].to_list() if process in ranks]
    return (
        np.bincount(of, minlength=int(rank_of.max()) + 1).astype(np.int64)
        if of
        else np.zeros(0, dtype=np.int64)
    )


def _bounds(
    names: pl.Series, rank: Int, start: Int, end: Int, threads: int
) -> tuple[Int | None, Int | None]:
    """Return when each thread leaves MPI_Init, and when it enters MPI_Finalize, shape (threads,)
    [ns]; None where not all threads do.
    """
    out: list[Int | None] = []
    for word, times, extreme, empty in (
        ("init", end, np.maximum, 0),
        ("finalize", start, np.minimum, np.iinfo(np.int64).max),
    ):
        calls = names.is_in([word, f"{word}_thread"]).to_numpy()
        instants = np.full(threads, empty, dtype=np.int64)
        extreme.at(instants, rank[calls], times[calls])
        out.append(instants if (instants != empty).all() else None)
    return out[0], out[1]


def threads(trace: Trace, mpi: pl.DataFrame) -> tuple[dict[int, int], Int]:
    """Return the number of each thread, in the order of the ranks in the world, and the rank of
    each number.

    All threads of a process are one rank.
    """
    rank_of_process = {
        process_of(t): r for t, r in trace.mpi_ranks.select("thread", "rank").iter_rows()
    }
    order = sorted(
        (rank_of_process.get(process_of(t), 1 << 60), t) for t in mpi["thread"].unique().to_list()
    )
    places = [(rank, process_of(t)) for rank, t in order]
    rank = np.cumsum([a != b for a, b in zip(places, [None, *places[:-1]], strict=True)]) - 1
    return {t: n for n, (_, t) in enumerate(order)}, rank.astype(np.int64)


def _point_to_point(matched: Exchanges, place: Int, tests: Bool) -> tuple[Messages, Int]:
    """Return the point-to-point messages, and their activities."""
    pairs = matched.messages
    columns = ("activity", "done", "activity_r", "done_r")
    ends = [
        np.where(a >= 0, place[a], -1)
        for a in (pairs[c].to_numpy().astype(np.int64) for c in columns)
    ]
    size = (
        pairs.select(pl.min_horizontal("size_bytes", "size_bytes_r").fill_null(0))
        .to_series()
        .to_numpy()
        .astype(np.float64)
    )
    send, sent, receive, received = ends
    mode = pairs["does"].str.extract(r"^i?([bs])send(?:_init)?$").fill_null("")
    # A buffered send completes at its own copy, and a failed test does not wait, so neither waits
    # for the buffer to return.
    held = np.where((mode == "b").to_numpy() | (sent >= 0) & tests[sent], -1, sent)
    ready = (mode == "s").to_numpy()
    memory = np.stack(
        [pairs[column].fill_null(-1).to_numpy() for column in ("memory", "memory_r")], axis=1
    )
    return Messages(
        send, held, receive, received, np.full(pairs.height, -1), size, ready, _stated(memory)
    ), np.concatenate(ends)


def _stated(memory: Memory) -> Memory:
    """Return places of buffers; an empty array where none is recorded."""
    return memory if (memory >= 0).any() else _NO_MEMORY


def rounds_of(matched: Exchanges, place: Int, trace: Trace) -> tuple[tuple[Rounds, ...], Int]:
    """Return the collectives, grouped by kind, and their activities, of which `place` holds the
    numbers that are wanted.

    The steps of a non-blocking collective between its two calls are added by
    `turnbuckle.mpi.replay.program`.  Nsight Systems and Score-P count bytes to and from all
    members, and leave null or 0 where a member sends or receives nothing.  EZTrace writes the size
    of one buffer on both sides of every member.
    """
    one_buffer = str(trace.facts.get("product_version", "")).startswith("EZTrace")
    if not matched.rounds.height:
        return (), np.zeros(0, dtype=np.int64)
    group = ["comm", "k"]
    sent, received, does = pl.col("size_bytes"), pl.col("receive_bytes"), pl.col("does")
    least = pl.min_horizontal(*(c.filter(c > 0).min().over(group) for c in (sent, received)))
    each = pl.coalesce(sent.mean().over(group), received.mean().over(group))
    partners = pl.when(does.is_in(_PER_RANK) & one_buffer).then(1).otherwise("members")
    gathered, scattered = (c.fill_null(0).mean().over(group) for c in (sent, received))
    carried = (
        pl.when(does == "gatherv")
        .then(gathered)
        .when(does == "scatterv")
        .then(scattered)
        .otherwise(least)
    )
    carried = pl.when(does.is_in(ALL)).then(each / partners).otherwise(carried)
    calls = matched.rounds.with_columns(
        at=pl.when(pl.col("done") >= 0).then("done").otherwise("activity"),
        operation=pl.col("does").map_elements(
            lambda n: operation_of(n, plain=False) or "", return_dtype=pl.String
        ),
        block=carried.fill_null(0).cast(pl.Float64),
        root=pl.col("root").max().over(group).fill_null(-1).clip(0),
        # a call with one buffer in device memory counts as one whose buffers are there
        place=pl.when(pl.col("receive_memory").is_in(ON_DEVICE))
        .then("receive_memory")
        .otherwise(pl.coalesce("memory", "receive_memory")),
    ).filter(pl.col("operation") != "")
    out, seen = [], [np.zeros(0, dtype=np.int64)]
    for key, alike in calls.sort(*group, "me").group_by(
        "operation", "members", "root", maintain_order=True
    ):
        operation, members, root = str(key[0]), int(str(key[1])), int(str(key[2]))
        activity = place[alike["at"].to_numpy().astype(np.int64)].reshape(-1, members)
        begin = place[alike["activity"].to_numpy().astype(np.int64)].reshape(-1, members)
        block = alike["block"].to_numpy().reshape(-1, members)[:, 0].astype(np.float64)
        memory = alike["place"].fill_null(-1).to_numpy().reshape(-1, members)
        out.append(
            Rounds(
                operation,
                block,
                activity,
                root,
                np.where(begin == activity, -1, begin),
                _stated(memory),
            )
        )
        seen.append(activity.reshape(-1))
    return tuple(out), np.concatenate(seen)


def expanded(rounds: Rounds, selection: Selection) -> Messages:
    """Return the messages of collectives of one kind, by the algorithm that is chosen for the block
    of each.

    Raises A060, more messages than a replay is made for.
    """
    members = rounds.activity.shape[1]
    blocks, block_index = np.unique(rounds.block_bytes, return_inverse=True)
    algorithms = np.array(
        [chosen(rounds.operation, float(b), members, selection) for b in blocks.tolist()]
    )[block_index]
    parts = []
    for algorithm in np.unique(algorithms):
        selected = algorithms == algorithm
        messages_of = pattern(
            rounds.operation, str(algorithm), members, rounds.root if rounds.root < members else 0
        )
        calls, block = rounds.activity[selected], rounds.block_bytes[selected]
        bounded(len(calls) * len(messages_of.step))
        send, receive = (
            calls[:, messages_of.source].reshape(-1),
            calls[:, messages_of.target].reshape(-1),
        )
        step = np.broadcast_to(messages_of.step, (len(calls), len(messages_of.step))).reshape(-1)
        messages = Messages(
            send, send, receive, receive, step, np.outer(block, messages_of.share).reshape(-1)
        )
        if len(rounds.memory):
            ends = [
                rounds.memory[selected][:, side].reshape(-1)
                for side in (messages_of.source, messages_of.target)
            ]
            messages = replace(messages, memory=np.stack(ends, axis=1))
        parts.append(messages)
    return joined(parts)


def joined(parts: list[Messages], kind: type[np.signedinteger[Any]] = np.int64) -> Messages:
    """Return messages one after the other, with activities and steps as integers of one kind."""
    count = sum(len(p.send) for p in parts)
    columns = {
        n: np.empty(count, dtype=kind) for n in ("send", "sent", "receive", "received", "step")
    }
    size, ready = np.empty(count), np.zeros(count, dtype=np.bool_)
    memory = (
        np.full((count, 2), -1, dtype=np.int8)
        if any(len(part.memory) for part in parts)
        else _NO_MEMORY
    )
    begin = 0
    for part in parts:
        rows = slice(begin, begin + len(part.send))
        for name, column in columns.items():
            column[rows] = getattr(part, name)
        size[rows] = part.size_bytes
        if len(part.ready):
            ready[rows] = part.ready
        if len(part.memory):
            memory[rows] = part.memory
        begin = rows.stop
    return Messages(**columns, size_bytes=size, ready=ready, memory=memory)


def bounded(messages: float) -> None:
    """Refuse (A060) more messages than a replay is made for."""
    if messages > MOST_MESSAGES:
        raise error_of("A060", found=f"{messages:,.0f}, or more", most_messages=MOST_MESSAGES)
