"""Collectives that several recordings share: which kernel or MPI call of one file is the same operation as which of another.

A *lane* is a sequence of operations of one communicator on one rank: the NCCL or RCCL kernels of one stream, or the MPI collectives with
one communicator's handle.  Recordings name neither communicators across processes nor the number of an operation, and each may begin and
end elsewhere in the run.  Two lanes of different ranks are one communicator's if, with one moved by some number of operations, their
names agree and their ends lie together far closer than their begins: who comes last lets all go.  That holds for clocks that are apart,
or drift, too.  MPI collectives of one communicator need no such test where the recordings are whole: as many lanes as it has members, all
of its size and with the same calls from the first to the last, are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.trace.ids import process_of
from turnbuckle.trace.trace import Trace

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

#: Operations that two lanes must share to be believed.
LEAST: Final = 4
#: Share of two lanes' operations that must have one name.
_AGREEING: Final = 0.95
#: Two lanes end together: three in four ends scatter less than this share of what begins do, or of the operations' length, or this [ns].
_TOGETHER, _SHARE, _RESOLUTION = 0.5, 0.05, 2_000
#: Pieces of a lane whose medians tell a drift, and the operations that takes.
_PIECES, _FOR_DRIFT = 16, 32
_PEAKS: Final = 8
#: Operations of two lanes that are compared.
_USED: Final = 4096
_KERNEL: Final = r"^(void |_z\d+)?(nccl|rccl)\w*kernel"
_DOES: Final = r"(allreduce|allgather|reducescatter|alltoall|sendrecv|broadcast|reduce)"
#: Operations of NCCL, and of MPI, that nobody leaves before all have come; of MPI, if they carry something.
_EVERY: Final = ("allreduce", "allgather", "reducescatter", "alltoall")
_MPI: Final = r"^(barrier|allreduce|allgatherv?|alltoall)$"
_MPI_COLLECTIVE: Final = 1
_HOST, _UNKNOWN = -1, -2


@dataclass(frozen=True)
class Lane:
    """Operations of one communicator on one rank, in the order they began; arrays of shape (operations,).

    Attributes
    ----------
    file : which recording.
    rank : what tells one rank of that recording from another: process, and device or -1 for calls on the host.
    start, end : times [ns].
    word : number of the operation's name, the same in all recordings.
    every : nobody leaves before all have come.
    pair : the same where only two take part.
    near : all leave together.
    size : members, of an MPI communicator that tells; else 0.
    mark : what tells an MPI communicator from others of its size, as far as recorded.
    stated : the recording states its clock.
    """

    file: int
    rank: tuple[int, int]
    start: Int
    end: Int
    word: Int
    every: Bool
    pair: Bool
    near: Bool
    size: int = 0
    mark: tuple[int, ...] = ()
    stated: bool = True


@dataclass(frozen=True)
class Group:
    """One communicator: its operations on all members.

    Attributes
    ----------
    file : recording of each member, shape (members,).
    start, end : times [ns], shape (members, operations).
    every : operations that nobody leaves before all have come, shape (operations,).
    on_device : kernels, whose ends lie together; calls of a library on hosts may end late on one rank every time.
    loose_ns : by how much one member may leave before the others every time, and nothing shows it: where no operation holds all until all
        have come (broadcast, reduce, sends and receives), as long as the last to come takes; else 0.
    """

    file: Int
    start: Int
    end: Int
    every: Bool
    on_device: bool = True
    loose_ns: float = 0.0


def lanes(traces: Sequence[Trace], offsets: Sequence[int], stated: Sequence[bool]) -> list[Lane]:
    """All lanes of recordings, the longest first; `offsets` [ns], as far as `stated`, are added to each recording's times."""
    words: dict[str, int] = {}
    out: list[Lane] = []
    for file, (trace, offset, known) in enumerate(zip(traces, offsets, stated, strict=True)):
        mine = _of_kernels(file, trace, offset, words) + _of_mpi(file, trace, offset, words)
        out += mine if known else [replace(lane, stated=False) for lane in mine]
    return sorted(out, key=lambda lane: -len(lane.start))


def groups(every_lane: Sequence[Lane]) -> list[Group]:
    """Communicators with members in more than one recording."""
    out, free = _whole(every_lane)
    free = [lane for lane in free if int(lane.near.sum()) >= LEAST]
    while free:
        first = free.pop(0)
        best: dict[tuple[int, tuple[int, int]], tuple[float, Lane, int]] = {}
        for other in free:
            mine = (other.file, other.rank)
            if mine != (first.file, first.rank) and (found := together(first, other)) is not None:
                scatter, move = found
                if scatter < best.get(mine, (np.inf,))[0]:
                    best[mine] = (scatter, other, move)
        members = [(first, 0), *((lane, move) for _, lane, move in best.values())]
        taken = {id(lane) for lane, _ in members}
        if len({lane.file for lane, _ in members}) > 1 and (group := _group(members)) is not None:
            out.append(group)
            free = [lane for lane in free if id(lane) not in taken]
    return out


def _whole(every_lane: Sequence[Lane]) -> tuple[list[Group], list[Lane]]:
    """Communicators of MPI that are told by their size and calls, and the lanes that are left."""
    alike: dict[tuple[Any, ...], list[Lane]] = {}
    for lane in every_lane:
        if lane.size > 1:
            alike.setdefault((lane.size, lane.mark, lane.word.tobytes()), []).append(lane)
    out, taken = [], set()
    for (size, _, _), some in alike.items():
        if len(some) == size == len({(lane.file, lane.rank) for lane in some}) and len({lane.file for lane in some}) > 1:
            taken |= {id(lane) for lane in some}
            if (group := _group([(lane, 0) for lane in some], least=1)) is not None:
                out.append(group)
    return out, [lane for lane in every_lane if id(lane) not in taken]


def together(a: Lane, b: Lane) -> tuple[float, int] | None:
    """How far the ends of two lanes scatter [ns], and which operation of `b` is the first of `a`; None where they are not of one."""
    if len(b.start) < LEAST or len(a.start) < LEAST or not np.intersect1d(a.word, b.word).size:
        return None
    found = [one for move in _moves(a, b) if (one := _agreement(a, b, move)) is not None]
    if not found:
        return None
    least = min(scatter for scatter, _, _ in found)
    alike = sorted((abs(apart), scatter, move) for scatter, apart, move in found if scatter <= 2 * least + _RESOLUTION)
    if len(alike) > 1 and (not (a.stated and b.stated) or 4 * alike[0][0] > alike[1][0] - alike[0][0]):
        return None  # the recorded clocks do not tell which
    return alike[0][1], alike[0][2]


def _agreement(a: Lane, b: Lane, move: int) -> tuple[float, float, int] | None:
    """Scatter of the ends, their median difference (both [ns]) and the move; None where they do not fit."""
    low, high = max(0, -move), min(len(a.start), len(b.start) - move)
    if high - low < LEAST or 2 * (high - low) < min(len(a.start), len(b.start)):
        return None
    one, two = slice(low, high), slice(low + move, high + move)
    same = a.word[one] == b.word[two]
    agreeing, same = same.mean(), same & a.near[one]
    if agreeing < _AGREEING or same.sum() < LEAST:
        return None
    used = np.flatnonzero(same)
    used = used[:: max(1, len(used) // _USED)]
    ends, starts = ((b_[two] - a_[one])[used] for a_, b_ in ((a.end, b.end), (a.start, b.start)))
    at = a.end[one][used]
    scatter, begins = scattered(ends, at), scattered(starts, at)
    length = float(np.median(np.minimum(a.end[one] - a.start[one], b.end[two] - b.start[two])[used]))
    if scatter > max(_TOGETHER * begins, _SHARE * length, _RESOLUTION):
        return None
    return scatter, float(np.median(ends)), move


def scattered(values: Int, at: Int) -> float:
    """Distance of three in four values from their median; of many also from a line through the medians of pieces, if that is less."""
    flat = float(np.quantile(np.abs(values - np.median(values)), 0.75))
    return flat if len(values) < _FOR_DRIFT else min(flat, float(np.quantile(np.abs(values - line(values, at)(at)), 0.75)))


@dataclass(frozen=True)
class Line:
    """``base + slope * (t - at)``."""

    base: float
    slope: float
    at: float

    def __call__(self, time: Int | Float) -> Float:
        """Values at times."""
        return np.asarray(self.base + self.slope * (time - self.at), dtype=np.float64)


def line(values: Int | Float, at: Int) -> Line:
    """A line through the medians of up to `_PIECES` pieces of as many values each; flat where all are at one time."""
    order = np.argsort(at, kind="stable")
    pieces = [p for p in np.array_split(order, min(_PIECES, max(1, len(order) // 4))) if len(p)]
    x = np.array([np.median(at[p]) for p in pieces], dtype=np.float64)
    y = np.array([np.median(values[p]) for p in pieces], dtype=np.float64)
    middle = float(x.mean())
    away = x - middle
    slope = float((away * (y - y.mean())).sum() / (away**2).sum()) if away.any() else 0.0
    return Line(float(np.median(y - slope * away)), slope, middle)


def _moves(a: Lane, b: Lane) -> list[int]:
    """Which operation of `b` may be the first of `a`: the same from the begin or the end, by the clocks, or where gaps look alike."""
    out = {0, len(b.end) - len(a.end)}
    at = np.minimum(np.searchsorted(b.end, a.end), len(b.end) - 1)
    for near in (at, np.maximum(at - 1, 0)):
        moves, seen = np.unique(near - np.arange(len(a.end)), return_counts=True)
        out.add(int(moves[np.argmax(seen)]))
    one, two = (_gaps(lane) for lane in (a, b))
    size = 1 << int(np.ceil(np.log2(len(one) + len(two) + 1)))
    alike = np.fft.irfft(np.conj(np.fft.rfft(one, size)) * np.fft.rfft(two, size), size)
    out |= {int(move) if move <= len(two) else int(move) - size for move in np.argsort(-alike, kind="stable")[:_PEAKS]}
    return sorted(out)


def _gaps(lane: Lane) -> Float:
    gaps = np.log1p(np.maximum(np.diff(lane.end), 0).astype(np.float64))
    return np.asarray(gaps - gaps.mean())


def _group(members: list[tuple[Lane, int]], least: int = LEAST) -> Group | None:
    """The operations that all members show and leave together; None where they are fewer than `least`."""
    low = max(-move for _, move in members)
    high = min(len(lane.start) - move for lane, move in members)
    if high - low < least:
        return None
    cuts = [(lane, slice(low + move, high + move)) for lane, move in members]
    start, end, word, near = (np.stack([getattr(lane, what)[cut] for lane, cut in cuts]) for what in ("start", "end", "word", "near"))
    lane = members[0][0]
    every = (lane.pair if len(members) == 2 else lane.every)[low:high]
    same = (word == word[0]).all(axis=0) & near.all(axis=0)
    if same.sum() < least:
        return None
    start, end = start[:, same], end[:, same]
    bound = lane.every[low:high][same].any()
    # each is the last to come at times, and then takes as long as the operation; who leaves early takes less, and has no say
    shortest = np.quantile(end - start, 0.1, axis=1)
    loose = 0.0 if bound else float(np.quantile(shortest, 0.5, method="higher"))
    return Group(np.array([lane.file for lane, _ in members]), start, end, every[same], lane.rank[1] != _HOST, loose)


def _of_kernels(file: int, trace: Trace, offset: int, words: dict[str, int]) -> list[Lane]:
    """Lanes of NCCL kernels, one a stream."""
    if not trace.kernels.height or trace.names.is_empty():
        return []
    mine = trace.names.str.to_lowercase().str.contains(_KERNEL).fill_null(False).arg_true()
    rows = trace.kernels.filter(pl.col("name").is_in(mine.cast(pl.Int32).implode()))
    texts = trace.text(rows).fill_null("")
    does = texts.str.to_lowercase().str.replace_all("_", "").str.extract(_DOES).fill_null("")
    every = does.is_in(_EVERY)
    rows = rows.with_columns(word=_by_text(texts, words), every=every, pair=every | (does == "sendrecv"), near=pl.lit(True))
    return [lane for _, lane in _split(file, rows, ["process", "device", "stream"], offset)]


def _of_mpi(file: int, trace: Trace, offset: int, words: dict[str, int]) -> list[Lane]:
    """Lanes of MPI collectives, one a communicator's handle on one rank."""
    calls = trace.mpi.filter(pl.col("kind") == _MPI_COLLECTIVE)
    if not calls.height:
        return []
    texts = trace.text(calls).fill_null("").str.to_lowercase().str.replace(r"^p?mpi_", "")
    every = (texts == "barrier") | (calls["size_bytes"] > 0).fill_null(False)
    rows = calls.with_columns(
        process=process_of(pl.col("thread")), device=pl.lit(_HOST), word=_by_text("mpi " + texts, words), near=texts.str.contains(_MPI)
    ).with_columns(every=every & pl.col("near"), pair=every & pl.col("near"))
    about = _communicators(trace)
    out = []
    for (process, _, handle), lane in _split(file, rows, ["process", "device", "communicator"], offset):
        size, mark = about.get((process, handle), (0, ()))
        out.append(replace(lane, size=size, mark=mark))
    return out


def _communicators(trace: Trace) -> dict[tuple[int, int], tuple[int, tuple[int, ...]]]:
    """Size and marks of each process's handles; those made more than once mean different things and are left out."""
    ranks = trace.mpi_ranks.select("rank", process=process_of(pl.col("thread"))).unique("process", keep="none")
    made = (
        trace.mpi_communicators.join(ranks, on="rank").drop_nulls(["communicator", "size"]).unique(["process", "communicator"], keep="none")
    )
    marks = made.select("process", "communicator", "size", *(pl.col(c).fill_null(-1) for c in ("group_root", "group_number")))
    return {(process, handle): (size, (root, number)) for process, handle, size, root, number in marks.iter_rows()}


def _by_text(texts: pl.Series, words: dict[str, int]) -> pl.Series:
    known = texts.unique()
    numbers = pl.Series([words.setdefault(text, len(words)) for text in known.to_list()], dtype=pl.Int64)
    return texts.replace_strict(known, numbers, return_dtype=pl.Int64) if len(texts) else pl.Series([], dtype=pl.Int64)


def _split(file: int, rows: pl.DataFrame, keys: list[str], offset: int) -> list[tuple[tuple[int, ...], Lane]]:
    """Lanes by their keys, of which the first two tell the rank."""
    out = []
    filled = rows.with_columns(pl.col(key).cast(pl.Int64).fill_null(_UNKNOWN) for key in keys)
    for key, some in filled.sort("start_ns", "end_ns", maintain_order=True).group_by(keys, maintain_order=True):
        held: dict[str, Any] = {name: some[name].to_numpy() for name in ("word", "every", "pair", "near")}
        start, end = (some[name].to_numpy() + offset for name in ("start_ns", "end_ns"))
        out.append((tuple(map(int, key)), Lane(file, (int(key[0]), int(key[1])), start, end, **held)))
    return out
