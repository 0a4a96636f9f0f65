"""One clock for recordings that were made with several, found on the collectives that they share.

An operation that needs all ranks ends on none before it has begun on every other.  Each bounds how far two clocks are apart, from both
sides; shortest paths over all of them give the interval that is left to each clock.  Inside it the ends tell more: who comes last lets all
go, so that the ends of one operation lie together.  The shift is where the medians of the ends agree, or the middle of the interval where
that is narrower than the ends scatter.  Clocks that run at different speed are told by the same medians over the run, and are put right
by a straight line.

`turnbuckle.mpi.readers.dumpi.clocks` does the like for messages of MPI ranks inside one recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.trace.merge.shared_collectives import Group, line

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_FAR: Final = 2**61
#: Operations of a communicator that medians are taken of.
_USED: Final = 4096
_ROUNDS: Final = 12
#: A drift is believed of so many operations, if without it the ends lie so many times as far apart.
_FOR_DRIFT, _BEYOND = 32, 2.0
#: No clock runs faster or slower than another by more than this share.
_FASTEST: Final = 1e-3
#: What is reported of the skew that is left.
QUANTILES: Final = (0.5, 0.9, 1.0)


@dataclass(frozen=True)
class Clocks:
    """What to add to the times of each recording; arrays of shape (recordings,).

    Attributes
    ----------
    shift_ns : at `at_ns`; 0 for the first recording.
    drift : for each ns after that [1]; 0 where none shows.
    at_ns : the begin of the first operation that is shared.
    low_ns, high_ns : the shifts that the bounds leave; `None` where they leave one side open.  Where bounds contradict each other, what
        they leave once loosened, and as much again on both sides.
    skew_ns : `QUANTILES` of how far the ends lie from the median of the other recordings', shape (recordings, 3).
    collectives : operations shared with other recordings.
    bounding : how many of those gave bounds.
    contradiction_ns : by how much all bounds must be loosened so that any shifts hold them; 0 where they agree.
    early_ns : by how much an operation ends on one rank before it has begun on another, at worst, with the shifts as they are.
    linked : whether collectives tie it to the first recording.
    loose_ns : by how much its ends may lie off every time (`Group.loose_ns`), by the surest of its communicators.
    """

    shift_ns: Int
    drift: Float
    at_ns: int
    low_ns: list[int | None]
    high_ns: list[int | None]
    skew_ns: Float
    collectives: Int
    bounding: Int
    contradiction_ns: int
    early_ns: int
    linked: Bool
    loose_ns: Float

    @property
    def uncertain_ns(self) -> Float:
        """How far each clock may still be off: half its interval, or what nine in ten ends keep to, whichever is less.

        The interval is sure.  The ends are not: ranks that always leave an operation late, as in a tree of messages, look like a clock;
        where that may be, nine in ten ends count as far apart as the operations are long.
        """
        half = [np.inf if a is None or b is None else (b - a) / 2 for a, b in zip(self.low_ns, self.high_ns, strict=True)]
        return np.asarray(np.minimum(np.array(half), np.maximum(self.skew_ns[:, 1], self.loose_ns)))


def align(groups: Sequence[Group], files: int, *, stated: Sequence[bool] = (), keep: bool = False) -> Clocks:
    """Shifts of the recordings' clocks.

    Parameters
    ----------
    groups : collectives shared by recordings, times on the clocks that the recordings state.
    files : how many recordings there are.
    stated : which recordings state a clock that others have too.  Where all bounds hold by it, and only ends of calls on hosts speak
        against it, it stands.
    keep : leave the clocks as stated, and only say how well they agree.
    """
    linked, kept = _linked(groups, files), np.ones(files, dtype=np.bool_)
    at = min((int(g.start.min()) for g in groups), default=0)
    base, slope = np.zeros(files), np.zeros(files)
    if not keep:
        some = _thinned(groups)
        base = _started(some, files)
        base, _ = _refined(some, base, slope, at, drifts=False)
        base, slope = _drifting(some, base, at)
        kept = _kept(groups, base, slope, at, stated)
        base = np.where(kept, 0.0, base)
    shift = np.rint(base).astype(np.int64)
    weight = _weights(groups, shift, slope, at)
    contradiction = _contradiction(weight)
    way = _closure(weight + contradiction)
    if way is None:  # never: `_contradiction` found it closed
        raise ArithmeticError("bounds that were loosened contradict each other")
    more = np.zeros(files, dtype=np.int64) if keep else _inside(way, np.where(kept, 0.0, _skew(groups, base, slope, at)[:, 1]))
    early = max(0, -int((weight + more[:, None] - more[None, :]).min()))
    shift = shift + more
    wider = np.where(np.arange(files) == 0, 0, contradiction)
    high = [_sum(shift[i] - more[i] + wider[i], way[0, i]) for i in range(files)]
    low = [_sum(shift[i] - more[i] - wider[i], -way[i, 0]) for i in range(files)]
    counts = np.zeros((2, files), dtype=np.int64)
    for group in groups:
        members = np.unique(group.file)
        counts[0, members] += group.end.shape[1]
        counts[1, members] += int(group.every.sum())
    skew = _skew(groups, shift.astype(np.float64), slope, at)
    return Clocks(shift, slope, at, low, high, skew, counts[0], counts[1], contradiction, early, linked, _loose(groups, files))


def _loose(groups: Sequence[Group], files: int) -> Float:
    """The least `Group.loose_ns` of each recording's communicators [ns]; 0 for the first recording, and where it has none."""
    out = np.full(files, np.inf)
    for group in groups:
        np.minimum.at(out, group.file, group.loose_ns)
    out[0] = 0.0
    return np.asarray(np.where(np.isfinite(out), out, 0.0))


def _sum(base: int, way: int) -> int | None:
    return None if abs(int(way)) >= _FAR // 2 else int(base) + int(way)


def _linked(groups: Sequence[Group], files: int) -> Bool:
    """Which recordings are tied to the first, by way of others or not."""
    root = np.arange(files)
    for _ in range(files):
        before = root.copy()
        for group in groups:
            root[group.file] = root[group.file].min()
        root = root[root]
        if np.array_equal(before, root):
            break
    return np.asarray(root == root[0])


def _on(group: Group, times: Int, base: Float | Int, slope: Float, at: int) -> Float:
    """Times of a group, shape (members, operations), with shifts added; relative to `at`, so that no digit is lost."""
    own = (times - at).astype(np.float64)
    return np.asarray(own * (1 + slope[group.file][:, None]) + base[group.file][:, None])


def _started(groups: Sequence[Group], files: int) -> Float:
    """Shifts by the median of the ends, from the first recording over its neighbours to theirs."""
    base = np.zeros(files)
    known = np.zeros(files, dtype=np.bool_)
    known[0] = True
    for _ in range(files):
        for group in groups:
            if not known[group.file].any() or known[group.file].all():
                continue
            one = int(np.flatnonzero(known[group.file])[0])
            for member in np.flatnonzero(~known[group.file]):
                base[group.file[member]] = base[group.file[one]] - np.median(group.end[member] - group.end[one])
                known[group.file[member]] = True
    return base


def _others(group: Group, ends: Float) -> Float:
    """For each end, its distance from the median end of the members in other recordings, shape (members, operations)."""
    members = len(ends)
    if len(np.unique(group.file)) < members:
        out = np.empty_like(ends)
        for file in np.unique(group.file):
            mine = group.file == file
            out[mine] = ends[mine] - np.median(ends[~mine], axis=0)
        return out
    # one member a recording: without itself, what lies behind it moves up by one place
    order = np.argsort(ends, axis=0, kind="stable")
    place = np.argsort(order, axis=0, kind="stable")
    in_order = np.take_along_axis(ends, order, axis=0)
    low, high = ((members - 1 - 1) // 2, (members - 1) // 2)
    of_low, of_high = (np.take_along_axis(in_order, at + (place <= at), axis=0) for at in (low, high))
    return np.asarray(ends - (of_low + of_high) / 2)


def _thinned(groups: Sequence[Group]) -> list[Group]:
    """Groups with at most `_USED` operations each, evenly spread: medians need no more."""
    out = []
    for group in groups:
        used = np.unique(np.linspace(0, group.end.shape[1] - 1, _USED).astype(np.int64)) if group.end.shape[1] > _USED else slice(None)
        out.append(replace(group, start=group.start[:, used], end=group.end[:, used], every=group.every[used]))
    return out


def _refined(groups: Sequence[Group], base: Float, slope: Float, at: int, *, drifts: bool) -> tuple[Float, Float]:
    """Shifts, and with `drifts` slopes, after moving each recording's ends to the median of the others' again and again."""
    base, slope = base.copy(), slope.copy()
    files = len(base)
    for _ in range(_ROUNDS):
        away: list[list[Float]] = [[] for _ in range(files)]
        when: list[list[Int]] = [[] for _ in range(files)]
        for group in groups:
            ends = _on(group, group.end, base, slope, at)
            middle = np.median(ends, axis=0)
            for member, file in enumerate(group.file):
                away[file].append(ends[member] - middle)
                when[file].append(group.end[member] - at)
        moved = 0.0
        step = np.zeros((2, files))
        for file in range(files):
            if not away[file]:
                continue
            values, times = np.concatenate(away[file]), np.concatenate(when[file])
            if not drifts:
                step[0, file] = np.median(values)
            elif len(values) >= _FOR_DRIFT:
                found = line(values, times)
                step[:, file] = found.base - found.slope * found.at, found.slope
        step -= step[:, :1]
        base, slope = base - step[0], np.clip(slope - step[1], -_FASTEST, _FASTEST)
        moved = float(np.abs(step[0]).max()) + float(np.abs(step[1]).max()) * 1e9
        if moved < 0.5:
            break
    return base, slope


def _drifting(groups: Sequence[Group], base: Float, at: int) -> tuple[Float, Float]:
    """Shifts and slopes: slopes of those recordings that, without, lie `_BEYOND` times as far from the others, and move by that."""
    still = np.zeros(len(base))
    moved, slope = _refined(groups, base, still, at, drifts=True)
    with_it, without = (_skew(groups, b, s, at)[:, 1] for b, s in ((moved, slope), (base, still)))
    span = np.zeros(len(base))
    for group in groups:
        span[group.file] = np.maximum(span[group.file], float(group.end.max() - group.end.min()))
    shows = (without > _BEYOND * with_it) & (np.abs(slope) * span > _BEYOND * with_it) & (np.abs(slope) < _FASTEST)
    if not shows.any():
        return base, still
    slope = np.where(shows, slope, 0.0)
    return _refined(groups, moved, slope, at, drifts=False)[0], slope


def _skew(groups: Sequence[Group], base: Float, slope: Float, at: int) -> Float:
    """`QUANTILES` of how far each recording's ends lie from those of the others [ns]; infinite where there are none."""
    away: list[list[Float]] = [[] for _ in base]
    for group in groups:
        found = np.abs(_others(group, _on(group, group.end, base, slope, at)))
        for member, file in enumerate(group.file):
            away[file].append(found[member])
    return np.array([np.quantile(np.concatenate(some), QUANTILES) if some else [np.inf] * len(QUANTILES) for some in away])


def _weights(groups: Sequence[Group], base: Float | Int, slope: Float, at: int) -> Int:
    """What the shift of one recording may exceed that of another by at most [ns], shape (from, to); `_FAR` where nothing says."""
    files = len(base)
    out = np.full((files, files), _FAR, dtype=np.int64)
    np.fill_diagonal(out, 0)
    for group in groups:
        if not group.every.any():
            continue
        starts, ends = (_on(group, times[:, group.every], base, slope, at) for times in (group.start, group.end))
        for member, file in enumerate(group.file):
            room = np.floor((ends[member] - starts).min(axis=1)).astype(np.int64)
            for other, least in zip(group.file, room, strict=True):
                if other != file:
                    out[file, other] = min(out[file, other], int(least))
    return out


def _closure(weight: Int) -> Int | None:
    """Shortest ways between all recordings, shape (from, to); None where a ring is below 0."""
    way = np.minimum(weight, _FAR)
    np.fill_diagonal(way, np.minimum(np.diagonal(way), 0))
    for k in range(len(way)):
        into, out = way[:, k, None], way[None, k, :]
        way = np.where((into < _FAR // 2) & (out < _FAR // 2), np.minimum(way, into + out), way)
        if (np.diagonal(way) < 0).any():
            return None
    return np.asarray(way)


def _contradiction(weight: Int) -> int:
    """By how much all bounds must be loosened so that no ring is below 0 [ns]."""

    def closed(by: int) -> bool:
        return _closure(np.where(weight < _FAR // 2, weight + by, weight)) is not None

    if closed(0):
        return 0
    high = 1
    while not closed(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if closed(middle) else (middle, high)
    return high


def _kept(groups: Sequence[Group], base: Float, slope: Float, at: int, stated: Sequence[bool]) -> Bool:
    """Which clocks stand as stated: those that agree with the ends, and those that only ends on hosts speak against; if all bounds hold."""
    known = np.maximum(_skew(_thinned(groups), base, slope, at)[:, 1], _loose(groups, len(base)))
    agree = (slope == 0) & (np.abs(base - base[0]) <= known)
    on_device = np.zeros(len(base), dtype=np.bool_)
    for group in groups:
        on_device[group.file] |= group.on_device
    trusted = agree | ((slope == 0) & ~on_device & np.array(stated, dtype=np.bool_)) if len(stated) else agree
    for kept in (trusted, agree):
        if _holds(groups, np.where(kept, 0.0, base), slope, at):
            return np.asarray(kept)
    return np.zeros(len(base), dtype=np.bool_)


def _holds(groups: Sequence[Group], base: Float, slope: Float, at: int) -> bool:
    """Whether shifts hold all bounds."""
    return bool((_weights(groups, base, slope, at) >= 0).all())


def _inside(way: Int, skew: Float) -> Int:
    """What to add to shifts so that all bounds hold: as little as those before leave; to their middle where that is surer than the ends.

    `skew` is how far the ends scatter [ns], shape (recordings,); 0 moves no further than bounds ask.
    """
    out = np.zeros(len(way), dtype=np.int64)
    for file in range(1, len(way)):
        before = slice(0, file)
        low = max(int((out[before] - way[file, before]).max()), -_FAR)
        high = min(int((out[before] + way[before, file]).min()), _FAR)
        out[file] = low + (high - low) // 2 if high - low < 2 * skew[file] else min(max(0, low), high)
    return out
