"""Matching of collectives between recordings: which kernel or MPI call of one file is the same
operation as which of another.

A *lane* is the sequence of operations of one communicator on one rank: the NCCL or RCCL kernels of
one stream, or the MPI collectives with one communicator's handle.  Recordings do not name
communicators across processes, do not number operations, and may each begin and end elsewhere in
the run.  Two lanes of different ranks belong to one communicator if two things hold with one of
them moved by some number of operations: their names agree, and their ends lie far closer together
than their begins, because the last rank to come releases all others.  This test also works with
clocks that are apart or drift.  MPI collectives of whole recordings need no such test: lanes of
communicators of one size, with the same calls from the first to the last, belong together if there
are as many as the communicator has members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.trace.ids import process_of
from turnbuckle.trace.trace import Trace

#: Least number of operations that two lanes of one communicator share.
LEAST: Final = 4
#: Share of two lanes' operations that must have one name.
_AGREEING: Final = 0.95
#: Two lanes end together if three in four ends scatter less than one of these: a share of the
#: scatter of begins, a share of the operations' length, a time [ns].
_TOGETHER, _SHARE, _RESOLUTION = 0.5, 0.05, 2_000
#: Number of pieces of a lane whose medians show a drift, and the operations needed for it.
_PIECES, _FOR_DRIFT = 16, 32
_PEAKS: Final = 8
#: Most operations of two lanes that are compared.
_USED: Final = 4096
_KERNEL: Final = r"^(void |_z\d+)?(nccl|rccl)\w*kernel"
_DOES: Final = r"(allreduce|allgather|reducescatter|alltoall|sendrecv|broadcast|reduce)"
#: Operations of NCCL, and of MPI, that no rank leaves before all have come; of MPI, if they carry
#: data.
_EVERY: Final = ("allreduce", "allgather", "reducescatter", "alltoall")
_MPI: Final = r"^(barrier|allreduce|allgatherv?|alltoall)$"
_MPI_COLLECTIVE: Final = 1
_HOST, _UNKNOWN = -1, -2


@dataclass(frozen=True)
class Lane:
    """Operations of one communicator on one rank, in the order they began; arrays of shape
    (operations,).
    """

    file: int
    #: key of the rank within its recording: process, and device or -1 for calls on the host
    rank: tuple[int, int]
    #: start, end: times [ns]
    start: Int
    end: Int
    word: Int  #: number of the operation's name, the same in all recordings
    every: Bool  #: whether no rank leaves before all have come
    pair: Bool  #: whether that holds where only two ranks take part
    near: Bool  #: whether all ranks leave together
    size: int = 0  #: members of an MPI communicator, where recorded; else 0
    #: attributes that distinguish an MPI communicator from others of its size, as far as recorded
    mark: tuple[int, ...] = ()
    stated: bool = True  #: whether the recording states its clock


@dataclass(frozen=True)
class Group:
    """One communicator: its operations on all members."""

    file: Int  #: recording of each member, shape (members,)
    #: start, end: times [ns], shape (members, operations)
    start: Int
    end: Int
    every: Bool  #: operations that no rank leaves before all have come, shape (operations,)
    #: whether they are kernels, whose ends lie together; calls of a library on hosts may end late
    #: on one rank every time
    on_device: bool = True
    #: by how much one member may leave before the others every time without any trace of it.  Where
    #: no operation holds all ranks until all have come (broadcast, reduce, sends and receives),
    #: this is the time that the last to come takes; else 0.
    loose_ns: float = 0.0


def lanes(traces: Sequence[Trace], offsets: Sequence[int], stated: Sequence[bool]) -> list[Lane]:
    """Return all lanes of the recordings, the longest first; `offsets` [ns] shift times, `stated`
    marks recordings with a clock.
    """
    words: dict[str, int] = {}
    out: list[Lane] = []
    for file, (trace, offset, clock_stated) in enumerate(zip(traces, offsets, stated, strict=True)):
        of_file = _of_kernels(file, trace, offset, words) + _of_mpi(file, trace, offset, words)
        out += of_file if clock_stated else [replace(lane, stated=False) for lane in of_file]
    return sorted(out, key=lambda lane: -len(lane.start))


def groups(every_lane: Sequence[Lane]) -> list[Group]:
    """Return the communicators with members in more than one recording."""
    out, free = _whole(every_lane)
    free = [lane for lane in free if int(lane.near.sum()) >= LEAST]
    while free:
        first = free.pop(0)
        best: dict[tuple[int, tuple[int, int]], tuple[float, Lane, int]] = {}
        for other in free:
            member = (other.file, other.rank)
            if member != (first.file, first.rank) and (match := together(first, other)) is not None:
                scatter, move = match
                if scatter < best.get(member, (np.inf,))[0]:
                    best[member] = (scatter, other, move)
        members = [(first, 0), *((lane, move) for _, lane, move in best.values())]
        taken = {id(lane) for lane, _ in members}
        if len({lane.file for lane, _ in members}) > 1 and (group := _group(members)) is not None:
            out.append(group)
            free = [lane for lane in free if id(lane) not in taken]
    return out


def _whole(every_lane: Sequence[Lane]) -> tuple[list[Group], list[Lane]]:
    """Return the communicators of MPI that their size and calls identify, and the lanes that are
    left.
    """
    alike: dict[tuple[Any, ...], list[Lane]] = {}
    for lane in every_lane:
        if lane.size > 1:
            alike.setdefault((lane.size, lane.mark, lane.word.tobytes()), []).append(lane)
    out, taken = [], set()
    for (size, _, _), members in alike.items():
        if (
            len(members) == size == len({(lane.file, lane.rank) for lane in members})
            and len({lane.file for lane in members}) > 1
        ):
            taken |= {id(lane) for lane in members}
            if (group := _group([(lane, 0) for lane in members], least=1)) is not None:
                out.append(group)
    return out, [lane for lane in every_lane if id(lane) not in taken]


def together(a: Lane, b: Lane) -> tuple[float, int] | None:
    """Return the scatter of the ends of two lanes [ns], and which operation of `b` is the first of
    `a`; None for two communicators.
    """
    if len(b.start) < LEAST or len(a.start) < LEAST or not np.intersect1d(a.word, b.word).size:
        return None
    agreements = [
        agreement for move in _moves(a, b) if (agreement := _agreement(a, b, move)) is not None
    ]
    if not agreements:
        return None
    least = min(scatter for scatter, _, _ in agreements)
    alike = sorted(
        (abs(apart), scatter, move)
        for scatter, apart, move in agreements
        if scatter <= 2 * least + _RESOLUTION
    )
    if len(alike) > 1 and (
        not (a.stated and b.stated) or 4 * alike[0][0] > alike[1][0] - alike[0][0]
    ):
        return None  # several moves fit, and the recorded clocks do not decide between them
    return alike[0][1], alike[0][2]


def _agreement(a: Lane, b: Lane, move: int) -> tuple[float, float, int] | None:
    """Return scatter of the ends, their median difference (both [ns]) and the move; None where the
    lanes do not fit.
    """
    low, high = max(0, -move), min(len(a.start), len(b.start) - move)
    if high - low < LEAST or 2 * (high - low) < min(len(a.start), len(b.start)):
        return None
    of_a, of_b = slice(low, high), slice(low + move, high + move)
    same = a.word[of_a] == b.word[of_b]
    agreeing, same = same.mean(), same & a.near[of_a]
    if agreeing < _AGREEING or same.sum() < LEAST:
        return None
    used = np.flatnonzero(same)
    used = used[:: max(1, len(used) // _USED)]
    ends, starts = ((b_[of_b] - a_[of_a])[used] for a_, b_ in ((a.end, b.end), (a.start, b.start)))
    times = a.end[of_a][used]
    scatter, begins = scattered(ends, times), scattered(starts, times)
    length = float(
        np.median(np.minimum(a.end[of_a] - a.start[of_a], b.end[of_b] - b.start[of_b])[used])
    )
    if scatter > max(_TOGETHER * begins, _SHARE * length, _RESOLUTION):
        return None
    return scatter, float(np.median(ends)), move


def scattered(values: Int, times: Int) -> float:
    """Return the distance of three in four values from their median; of many values also from a
    fitted `line`, if that is less.
    """
    flat = float(np.quantile(np.abs(values - np.median(values)), 0.75))
    return (
        flat
        if len(values) < _FOR_DRIFT
        else min(flat, float(np.quantile(np.abs(values - line(values, times)(times)), 0.75)))
    )


@dataclass(frozen=True)
class Line:
    """Straight line ``base + slope * (t - origin)``."""

    base: float
    slope: float
    origin: float

    def __call__(self, time: Int | Float) -> Float:
        """Return the values at these times."""
        return np.asarray(self.base + self.slope * (time - self.origin), dtype=np.float64)


def line(values: Int | Float, times: Int) -> Line:
    """Fit a line through the medians of up to `_PIECES` pieces of as many values each; it is flat
    where all values have one time.
    """
    order = np.argsort(times, kind="stable")
    pieces = min(_PIECES, max(1, len(order) // 4))
    length, longer = divmod(len(order), pieces)
    blocks = (
        order[: longer * (length + 1)].reshape(longer, length + 1),
        order[longer * (length + 1) :].reshape(-1, length),
    )
    x, y = (
        np.concatenate([np.median(column[block], axis=1) for block in blocks if len(block)])
        for column in (times, values)
    )
    middle = float(x.mean())
    away = x - middle
    slope = float((away * (y - y.mean())).sum() / (away**2).sum()) if away.any() else 0.0
    return Line(float(np.median(y - slope * away)), slope, middle)


def _moves(a: Lane, b: Lane) -> list[int]:
    """Return candidates for the first operation of `a` in `b`: the same from the begin or the end,
    near by the clocks, or by like gaps.
    """
    out = {0, len(b.end) - len(a.end)}
    neighbours = np.minimum(np.searchsorted(b.end, a.end), len(b.end) - 1)
    for near in (neighbours, np.maximum(neighbours - 1, 0)):
        moves, seen = np.unique(near - np.arange(len(a.end)), return_counts=True)
        out.add(int(moves[np.argmax(seen)]))
    gaps_a, gaps_b = (_gaps(lane) for lane in (a, b))
    size = 1 << int(np.ceil(np.log2(len(gaps_a) + len(gaps_b) + 1)))
    alike = np.fft.irfft(np.conj(np.fft.rfft(gaps_a, size)) * np.fft.rfft(gaps_b, size), size)
    out |= {
        int(move) if move <= len(gaps_b) else int(move) - size
        for move in np.argsort(-alike, kind="stable")[:_PEAKS]
    }
    return sorted(out)


def _gaps(lane: Lane) -> Float:
    gaps = np.log1p(np.maximum(np.diff(lane.end), 0).astype(np.float64))
    return np.asarray(gaps - gaps.mean())


def _group(members: list[tuple[Lane, int]], least: int = LEAST) -> Group | None:
    """Return the operations that all members show and leave together; None where they are fewer
    than `least`.
    """
    low = max(-move for _, move in members)
    high = min(len(lane.start) - move for lane, move in members)
    if high - low < least:
        return None
    cuts = [(lane, slice(low + move, high + move)) for lane, move in members]
    start, end, word, near = (
        np.stack([getattr(lane, what)[cut] for lane, cut in cuts])
        for what in ("start", "end", "word", "near")
    )
    lane = members[0][0]
    every = (lane.pair if len(members) == 2 else lane.every)[low:high]
    same = (word == word[0]).all(axis=0) & near.all(axis=0)
    if same.sum() < least:
        return None
    start, end = start[:, same], end[:, same]
    bound = lane.every[low:high][same].any()
    # a member that comes last takes as long as the operation itself; the upper median ignores
    # members that leave early
    shortest = np.quantile(end - start, 0.1, axis=1)
    loose = 0.0 if bound else float(np.quantile(shortest, 0.5, method="higher"))
    return Group(
        np.array([lane.file for lane, _ in members]),
        start,
        end,
        every[same],
        lane.rank[1] != _HOST,
        loose,
    )


def _of_kernels(file: int, trace: Trace, offset: int, words: dict[str, int]) -> list[Lane]:
    """Return lanes of NCCL kernels, one per stream."""
    if not trace.kernels.height or trace.names.is_empty():
        return []
    kernel_names = trace.names.str.to_lowercase().str.contains(_KERNEL).fill_null(False).arg_true()
    rows = trace.kernels.filter(pl.col("name").is_in(kernel_names.cast(pl.Int32).implode()))
    texts = trace.text(rows).fill_null("")
    does = texts.str.to_lowercase().str.replace_all("_", "").str.extract(_DOES).fill_null("")
    every = does.is_in(_EVERY)
    rows = rows.with_columns(
        word=_by_text(texts, words),
        every=every,
        pair=every | (does == "sendrecv"),
        near=pl.lit(True),
    )
    return [lane for _, lane in _split(file, rows, ["process", "device", "stream"], offset)]


def _of_mpi(file: int, trace: Trace, offset: int, words: dict[str, int]) -> list[Lane]:
    """Return lanes of MPI collectives, one per communicator handle on one rank."""
    calls = trace.mpi.filter(pl.col("kind") == _MPI_COLLECTIVE)
    if not calls.height:
        return []
    texts = trace.text(calls).fill_null("").str.to_lowercase().str.replace(r"^p?mpi_", "")
    every = (texts == "barrier") | (calls["size_bytes"] > 0).fill_null(False)
    rows = calls.with_columns(
        process=process_of(pl.col("thread")),
        device=pl.lit(_HOST),
        word=_by_text("mpi " + texts, words),
        near=texts.str.contains(_MPI),
    ).with_columns(every=every & pl.col("near"), pair=every & pl.col("near"))
    about = _communicators(trace)
    out = []
    for (process, _, handle), lane in _split(
        file, rows, ["process", "device", "communicator"], offset
    ):
        size, mark = about.get((process, handle), (0, ()))
        out.append(replace(lane, size=size, mark=mark))
    return out


def _communicators(trace: Trace) -> dict[tuple[int, int], tuple[int, tuple[int, ...]]]:
    """Return size and marks of each process's handles; a handle that was made more than once is
    ambiguous and left out.
    """
    ranks = trace.mpi_ranks.select("rank", process=process_of(pl.col("thread"))).unique(
        "process", keep="none"
    )
    made = (
        trace.mpi_communicators.join(ranks, on="rank")
        .drop_nulls(["communicator", "size"])
        .unique(["process", "communicator"], keep="none")
    )
    marks = made.select(
        "process",
        "communicator",
        "size",
        *(pl.col(c).fill_null(-1) for c in ("group_root", "group_number")),
    )
    return {
        (process, handle): (size, (root, number))
        for process, handle, size, root, number in marks.iter_rows()
    }


def _by_text(texts: pl.Series, words: dict[str, int]) -> pl.Series:
    distinct = texts.unique()
    numbers = pl.Series(
        [words.setdefault(text, len(words)) for text in distinct.to_list()], dtype=pl.Int64
    )
    return (
        texts.replace_strict(distinct, numbers, return_dtype=pl.Int64)
        if len(texts)
        else pl.Series([], dtype=pl.Int64)
    )


def _split(
    file: int, rows: pl.DataFrame, keys: list[str], offset: int
) -> list[tuple[tuple[int, ...], Lane]]:
    """Return lanes by their keys, of which the first two identify the rank."""
    out = []
    filled = rows.with_columns(pl.col(key).cast(pl.Int64).fill_null(_UNKNOWN) for key in keys)
    for key, lane_rows in filled.sort("start_ns", "end_ns", maintain_order=True).group_by(
        keys, maintain_order=True
    ):
        columns: dict[str, Any] = {
            name: lane_rows[name].to_numpy() for name in ("word", "every", "pair", "near")
        }
        start, end = (lane_rows[name].to_numpy() + offset for name in ("start_ns", "end_ns"))
        out.append(
            (tuple(map(int, key)), Lane(file, (int(key[0]), int(key[1])), start, end, **columns))
        )
    return out
