"""Alignment of the clocks of several recordings by the collectives that they share.

An operation that needs all ranks ends on no rank before it has begun on every other.  Each such
operation bounds the difference of two clocks from both sides.  Shortest paths over all bounds give
the interval of possible shifts of each clock.  Inside this interval the ends of operations narrow
the shift: the last rank to come releases all others, so the ends of one operation lie close
together.  The shift is where the medians of the ends agree, or the middle of the interval where the
interval is narrower than the scatter of the ends.  The same medians over the run reveal clocks that
run at different speeds; a straight line corrects these.

`turnbuckle.mpi.readers.dumpi.clocks` does the same with messages of MPI ranks inside one recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.trace.merge.shared_collectives import Group, line

_FAR: Final = 2**61
#: Most operations of a communicator that a median is taken over.
_USED: Final = 4096
_ROUNDS: Final = 12
#: A drift needs this many operations, and the ends must lie this many times further apart without
#: it.
_FOR_DRIFT, _BEYOND = 32, 2.0
#: Largest believable difference in speed between two clocks [1].
_FASTEST: Final = 1e-3
#: Reported quantiles of the skew that remains.
QUANTILES: Final = (0.5, 0.9, 1.0)


@dataclass(frozen=True)
class Clocks:
    """Corrections of the recordings' clocks and how well they agree; arrays of shape
    (recordings,).
    """

    shift_ns: Int  #: time to add at `at_ns`; 0 for the first recording
    drift: Float  #: further time to add per ns after `at_ns` [1]; 0 where none shows
    at_ns: int  #: the begin of the first shared operation
    #: low_ns, high_ns: range of shifts that the bounds allow; `None` where the bounds leave that
    #: side open.  Where bounds contradict each other, the range holds for the loosened bounds, and
    #: is wider by `contradiction_ns` on both sides.
    low_ns: list[int | None]
    high_ns: list[int | None]
    #: `QUANTILES` of how far the ends lie from the median end of the other recordings, shape
    #: (recordings, 3)
    skew_ns: Float
    collectives: Int
    bounding: Int  #: number of those that gave bounds
    #: by how much all bounds must be loosened so that some shifts satisfy them; 0 where they agree
    contradiction_ns: int
    #: by how much, at worst, an operation ends on one rank before it has begun on another, with
    #: these shifts
    early_ns: int
    linked: Bool  #: whether collectives tie the recording to the first one
    #: by how much the recording's ends may lie off every time, by its least loose communicator
    #: (`Group.loose_ns`)
    loose_ns: Float

    def of(self, clock: Int) -> Clocks:
        """Return the clocks of recordings that read these; `clock` is the index of each
        recording's, shape (recordings,).
        """
        each = {
            name: getattr(self, name)[clock]
            for name in (
                "shift_ns",
                "drift",
                "skew_ns",
                "collectives",
                "bounding",
                "linked",
                "loose_ns",
            )
        }
        return replace(
            self,
            low_ns=[self.low_ns[c] for c in clock],
            high_ns=[self.high_ns[c] for c in clock],
            **each,
        )

    @property
    def uncertain_ns(self) -> Float:
        """Return how far each clock may still be off [ns]: half its interval, or what nine in ten
        ends keep to, whichever is less.

        The interval is certain.  The ends are not: a rank that always leaves an operation late, as
        in a tree of messages, looks like a rank whose clock is off.  Where that is possible, the
        ends count as no closer than `loose_ns`.
        """
        half = [
            np.inf if a is None or b is None else (b - a) / 2
            for a, b in zip(self.low_ns, self.high_ns, strict=True)
        ]
        return np.asarray(np.minimum(np.array(half), np.maximum(self.skew_ns[:, 1], self.loose_ns)))


def align(
    groups: Sequence[Group], files: int, *, stated: Sequence[bool] = (), keep: bool = False
) -> Clocks:
    """Return the shifts and drifts of the recordings' clocks.

    Parameters
    ----------
    groups : collectives shared by recordings, times on the clocks that the recordings state.
    stated : which recordings state a clock that others have too.  Such a clock is kept where all
        bounds hold by it and only ends of calls on hosts contradict it.
    keep : leave all clocks as stated, and only measure how well they agree.
    """
    linked, kept = _linked(groups, files), np.ones(files, dtype=np.bool_)
    origin = min((int(g.start.min()) for g in groups), default=0)
    base, slope = np.zeros(files), np.zeros(files)
    if not keep:
        sample = _thinned(groups)
        base = _first_shifts(sample, files)
        base, _ = _refined(sample, base, slope, origin, drifts=False)
        base, slope = _drifting(sample, base, origin)
        kept = _kept(groups, base, slope, origin, stated)
        base = np.where(kept, 0.0, base)
    shift = np.rint(base).astype(np.int64)
    weight = _weights(groups, shift, slope, origin)
    contradiction = _contradiction(weight)
    path = _closure(weight + contradiction)
    if path is None:  # cannot happen: `_contradiction` returned bounds that can be satisfied
        raise ArithmeticError("bounds that were loosened contradict each other")
    extra_shift = (
        np.zeros(files, dtype=np.int64)
        if keep
        else _inside(path, np.where(kept, 0.0, _skew(groups, base, slope, origin)[:, 1]))
    )
    early = max(0, -int((weight + extra_shift[:, None] - extra_shift[None, :]).min()))
    shift = shift + extra_shift
    wider = np.where(np.arange(files) == 0, 0, contradiction)
    high = [_bound(shift[i] - extra_shift[i] + wider[i], path[0, i]) for i in range(files)]
    low = [_bound(shift[i] - extra_shift[i] - wider[i], -path[i, 0]) for i in range(files)]
    counts = np.zeros((2, files), dtype=np.int64)
    for group in groups:
        members = np.unique(group.file)
        counts[0, members] += group.end.shape[1]
        counts[1, members] += int(group.every.sum())
    skew = _skew(groups, shift.astype(np.float64), slope, origin)
    return Clocks(
        shift,
        slope,
        origin,
        low,
        high,
        skew,
        counts[0],
        counts[1],
        contradiction,
        early,
        linked,
        _loose(groups, files),
    )


def _loose(groups: Sequence[Group], files: int) -> Float:
    """Return the least `Group.loose_ns` of each recording's communicators [ns]; 0 for the first
    recording, and where it has none.
    """
    out = np.full(files, np.inf)
    for group in groups:
        np.minimum.at(out, group.file, group.loose_ns)
    out[0] = 0.0
    return np.asarray(np.where(np.isfinite(out), out, 0.0))


def _bound(base: int, path: int) -> int | None:
    return None if abs(int(path)) >= _FAR // 2 else int(base) + int(path)


def _linked(groups: Sequence[Group], files: int) -> Bool:
    """Return which recordings are tied to the first, directly or through others."""
    root = np.arange(files)
    for _ in range(files):
        before = root.copy()
        for group in groups:
            root[group.file] = root[group.file].min()
        root = root[root]
        if np.array_equal(before, root):
            break
    return np.asarray(root == root[0])


def _corrected(group: Group, times: Int, base: Float | Int, slope: Float, origin: int) -> Float:
    """Return times of a group with shifts and drifts added, shape (members, operations), relative
    to `origin` to keep floats exact.
    """
    relative = (times - origin).astype(np.float64)
    return np.asarray(relative * (1 + slope[group.file][:, None]) + base[group.file][:, None])


def _first_shifts(groups: Sequence[Group], files: int) -> Float:
    """Return first shifts by the median of the ends, from the first recording over its neighbours
    to theirs.
    """
    base = np.zeros(files)
    placed = np.zeros(files, dtype=np.bool_)
    placed[0] = True
    for _ in range(files):
        for group in groups:
            if not placed[group.file].any() or placed[group.file].all():
                continue
            reference = int(np.flatnonzero(placed[group.file])[0])
            for member in np.flatnonzero(~placed[group.file]):
                base[group.file[member]] = base[group.file[reference]] - np.median(
                    group.end[member] - group.end[reference]
                )
                placed[group.file[member]] = True
    return base


def _from_others(group: Group, ends: Float) -> Float:
    """Return, for each end, its distance from the median end of the members in other recordings,
    shape (members, operations).
    """
    members = len(ends)
    if len(np.unique(group.file)) < members:
        out = np.empty_like(ends)
        for file in np.unique(group.file):
            members_of_file = group.file == file
            out[members_of_file] = ends[members_of_file] - np.median(ends[~members_of_file], axis=0)
        return out
    # one member per recording: in the order without the member itself, all that follow it move up
    # by one place
    order = np.argsort(ends, axis=0, kind="stable")
    place = np.argsort(order, axis=0, kind="stable")
    in_order = np.take_along_axis(ends, order, axis=0)
    middles = (members - 2) // 2, (members - 1) // 2
    lower, upper = (
        np.take_along_axis(in_order, middle + (place <= middle), axis=0) for middle in middles
    )
    return np.asarray(ends - (lower + upper) / 2)


def _thinned(groups: Sequence[Group]) -> list[Group]:
    """Return groups with at most `_USED` operations each, evenly spread: medians need no more."""
    out = []
    for group in groups:
        used = (
            np.unique(np.linspace(0, group.end.shape[1] - 1, _USED).astype(np.int64))
            if group.end.shape[1] > _USED
            else slice(None)
        )
        out.append(
            replace(
                group, start=group.start[:, used], end=group.end[:, used], every=group.every[used]
            )
        )
    return out


def _refined(
    groups: Sequence[Group], base: Float, slope: Float, origin: int, *, drifts: bool
) -> tuple[Float, Float]:
    """Return shifts, and with `drifts` slopes, after moving each recording's ends to the median of
    all ends again and again.
    """
    base, slope = base.copy(), slope.copy()
    files = len(base)
    for _ in range(_ROUNDS):
        deviations: list[list[Float]] = [[] for _ in range(files)]
        ages: list[list[Int]] = [[] for _ in range(files)]
        for group in groups:
            ends = _corrected(group, group.end, base, slope, origin)
            middle = np.median(ends, axis=0)
            for member, file in enumerate(group.file):
                deviations[file].append(ends[member] - middle)
                ages[file].append(group.end[member] - origin)
        step = np.zeros((2, files))
        for file in range(files):
            if not deviations[file]:
                continue
            values, times = np.concatenate(deviations[file]), np.concatenate(ages[file])
            if not drifts:
                step[0, file] = np.median(values)
            elif len(values) >= _FOR_DRIFT:
                trend = line(values, times)
                step[:, file] = trend.base - trend.slope * trend.origin, trend.slope
        step -= step[:, :1]
        base, slope = base - step[0], np.clip(slope - step[1], -_FASTEST, _FASTEST)
        moved = float(np.abs(step[0]).max()) + float(np.abs(step[1]).max()) * 1e9
        if moved < 0.5:
            break
    return base, slope


def _drifting(groups: Sequence[Group], base: Float, origin: int) -> tuple[Float, Float]:
    """Return shifts and slopes; only recordings whose ends lie `_BEYOND` times further off without
    a slope get one.
    """
    still = np.zeros(len(base))
    moved, slope = _refined(groups, base, still, origin, drifts=True)
    with_it, without = (
        _skew(groups, b, s, origin)[:, 1] for b, s in ((moved, slope), (base, still))
    )
    span = np.zeros(len(base))
    for group in groups:
        span[group.file] = np.maximum(span[group.file], float(group.end.max() - group.end.min()))
    shows = (
        (without > _BEYOND * with_it)
        & (np.abs(slope) * span > _BEYOND * with_it)
        & (np.abs(slope) < _FASTEST)
    )
    if not shows.any():
        return base, still
    slope = np.where(shows, slope, 0.0)
    return _refined(groups, moved, slope, origin, drifts=False)[0], slope


def _skew(groups: Sequence[Group], base: Float, slope: Float, origin: int) -> Float:
    """Return `QUANTILES` of how far each recording's ends lie from those of the others [ns];
    infinite where there are none.
    """
    by_file: list[list[Float]] = [[] for _ in base]
    for group in groups:
        distances = np.abs(_from_others(group, _corrected(group, group.end, base, slope, origin)))
        for member, file in enumerate(group.file):
            by_file[file].append(distances[member])
    return np.array(
        [
            np.quantile(np.concatenate(some), QUANTILES) if some else [np.inf] * len(QUANTILES)
            for some in by_file
        ]
    )


def _weights(groups: Sequence[Group], base: Float | Int, slope: Float, origin: int) -> Int:
    """Return by how much the shift of one recording may exceed that of another [ns], shape (from,
    to); `_FAR` where unbounded.
    """
    files = len(base)
    out = np.full((files, files), _FAR, dtype=np.int64)
    np.fill_diagonal(out, 0)
    for group in groups:
        if not group.every.any():
            continue
        starts, ends = (
            _corrected(group, times[:, group.every], base, slope, origin)
            for times in (group.start, group.end)
        )
        for member, file in enumerate(group.file):
            slack = np.floor((ends[member] - starts).min(axis=1)).astype(np.int64)
            for other, least in zip(group.file, slack, strict=True):
                if other != file:
                    out[file, other] = min(out[file, other], int(least))
    return out


def _closure(weight: Int) -> Int | None:
    """Return the shortest paths between all recordings, shape (from, to); None where a cycle is
    below 0.
    """
    path = np.minimum(weight, _FAR)
    np.fill_diagonal(path, np.minimum(np.diagonal(path), 0))
    for k in range(len(path)):
        into, out = path[:, k, None], path[None, k, :]
        path = np.where((into < _FAR // 2) & (out < _FAR // 2), np.minimum(path, into + out), path)
        if (np.diagonal(path) < 0).any():
            return None
    return np.asarray(path)


def _contradiction(weight: Int) -> int:
    """Return by how much all bounds must be loosened so that no cycle is below 0 [ns]."""

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


def _kept(
    groups: Sequence[Group], base: Float, slope: Float, origin: int, stated: Sequence[bool]
) -> Bool:
    """Return which clocks stay as stated, if all bounds hold: those that agree with the ends, or
    that only ends on hosts contradict.
    """
    tolerance = np.maximum(
        _skew(_thinned(groups), base, slope, origin)[:, 1], _loose(groups, len(base))
    )
    agree = (slope == 0) & (np.abs(base - base[0]) <= tolerance)
    on_device = np.zeros(len(base), dtype=np.bool_)
    for group in groups:
        on_device[group.file] |= group.on_device
    trusted = (
        agree | ((slope == 0) & ~on_device & np.array(stated, dtype=np.bool_))
        if len(stated)
        else agree
    )
    for kept in (trusted, agree):
        if (_weights(groups, np.where(kept, 0.0, base), slope, origin) >= 0).all():
            return np.asarray(kept)
    return np.zeros(len(base), dtype=np.bool_)


def _inside(path: Int, skew: Float) -> Int:
    """Return what to add to shifts so that all bounds hold: as little as possible, or up to the
    middle of the bounds where these are narrow.

    A shift goes to the middle of its bounds where they are less than twice `skew` apart.  `skew` is
    the scatter of the ends [ns], shape (recordings,); with 0 no shift moves further than the bounds
    require.
    """
    out = np.zeros(len(path), dtype=np.int64)
    for file in range(1, len(path)):
        before = slice(0, file)
        low = max(int((out[before] - path[file, before]).max()), -_FAR)
        high = min(int((out[before] + path[before, file]).min()), _FAR)
        out[file] = (
            low + (high - low) // 2 if high - low < 2 * skew[file] else min(max(0, low), high)
        )
    return out
