"""Alignment of host and device clocks in nvprof's files where they lie apart.

CUPTI puts the device's times on the host's clock.  In some files that failed: everything on the
device happens days after the calls that caused it, and the difference wanders by milliseconds
during the run.  Two facts bound how far the clocks are apart at any time. Nothing on a device
begins before its call does, and a wait does not return before the work that it waits for has ended.
Where the recorded times contradict these bounds,

- the records of each device are moved by one constant, the middle of what the bounds leave.
  Durations, gaps and order on a device stay as recorded, to the nanosecond;
- if no constants fulfil the bounds, host times follow the difference: pieces of the run, as long as
  possible, within each of which one constant fulfils all bounds, and a ramp from one piece to the
  next.  The ramps never turn the order of two host times around.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.trace.readers.nvprof.tables import numbered

#: Error that CUPTI's conversion of clocks leaves [ns]; finding P111 counts contradictions up to it.
TOLERANCE_NS: Final = 1_000_000
#: Share of the bounds that a broken record may contradict.
_BROKEN: Final = 0.01
#: A bound further than this from the median of its kind comes from a broken record [ns].
_BELIEVED_NS: Final = 3_600_000_000_000
#: A ramp is this many times as long as it is high, so that host times on it stretch or shrink by a
#: tenth at most.
_RAMP: Final = 10
#: Most pieces of a wandering clock; more mean that no wandering clock explains the bounds.
_MOST_PIECES: Final = 10_000
_GROUP: Final = 256
#: Waits for one stream, and for all streams of a context.
STREAM, CONTEXT = 3, 4


@dataclass(frozen=True)
class Work:
    """Device records with a call, all arrays of one length: start of the call, own start and end
    [ns], device, context and stream.
    """

    called: Int
    start: Int
    end: Int
    device: Int
    context: Int
    stream: Int

    def of(self, rows: Bool) -> Work:
        """Return some of the records."""
        return Work(*(getattr(self, f.name)[rows] for f in fields(self)))


@dataclass(frozen=True)
class Waits:
    """Host waits, all arrays of one length: start and end [ns], `STREAM` or `CONTEXT`, context and
    stream.
    """

    start: Int
    end: Int
    kind: Int
    context: Int
    stream: Int


@dataclass(frozen=True)
class Apart:
    """Difference between the devices' clocks and the host's."""

    ahead_ns: dict[int, int]  #: time to subtract from every time of a device, by its number
    #: by how much the bounds on constants exceed each other; 0 or less where constants fulfil them
    contradicted_ns: int
    #: upper, lower: number of bounds used: records with a call, and waits
    upper: int
    lower: int
    #: of a difference that wanders: host times [ns], and what to add to host times there [ns];
    #: straight lines between them
    knots: tuple[Int, Int] | None = None

    def host(self, times: Int) -> Int:
        """Return host times on the clock that all records share [ns]."""
        if self.knots is None:
            return times
        knot_times, add = self.knots
        # from the first knot, so that a float holds every nanosecond
        moved: Int = times + np.rint(
            np.interp(
                (times - knot_times[0]).astype(np.float64),
                (knot_times - knot_times[0]).astype(np.float64),
                add,
            )
        ).astype(np.int64)
        return moved


def apart(work: Work, waits: Waits) -> Apart | None:
    """Return how far the clocks are apart; None where they agree, or where too little is recorded
    to decide.
    """
    ahead: dict[int, int] = {}
    uppers, lowers, wrong = [], [], False
    for device in np.unique(work.device).tolist():
        of_device = work.of(work.device == device)
        upper = _believed(of_device.called, of_device.start - of_device.called)
        lower = _believed(*_lower(of_device, waits))
        wrong |= float(np.quantile(upper[1], _BROKEN)) < -TOLERANCE_NS
        wrong |= lower[1].size > 0 and float(np.quantile(lower[1], 1 - _BROKEN)) > TOLERANCE_NS
        most = int(upper[1].min())
        ahead[device] = (most + int(lower[1].max())) // 2 if lower[1].size else most
        uppers.append((upper[0], upper[1] - ahead[device]))
        lowers.append((lower[0], lower[1] - ahead[device]))
    if not wrong:
        return None
    upper, lower = (
        (np.concatenate([b[0] for b in bounds]), np.concatenate([b[1] for b in bounds]))
        for bounds in (uppers, lowers)
    )
    contradicted = int(lower[1].max()) - int(upper[1].min()) if lower[1].size else 0
    knots = _knots(upper, lower) if contradicted > 0 else None
    return Apart(ahead, contradicted, upper[1].size, lower[1].size, knots)


def _believed(times: Int, bounds: Int) -> tuple[Int, Int]:
    if not bounds.size:
        return times, bounds
    # the middle is one of the bounds itself, so that at least this one is kept
    middle = np.partition(bounds, bounds.size // 2)[bounds.size // 2]
    kept = np.abs(bounds - middle) <= _BELIEVED_NS
    return times[kept], bounds[kept]


def _lower(work: Work, waits: Waits) -> tuple[Int, Int]:
    """Return, for each wait with work before it, its end, and the latest end of work called before
    the wait began minus the wait's end.
    """
    times, bounds = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for kind in (STREAM, CONTEXT):
        of_kind = waits.kind == kind
        if not of_kind.any() or not work.called.size:
            continue
        place, place_of_wait = _places(work, waits, of_kind, kind)
        order = np.lexsort((work.called, place))
        place, called, end = place[order], work.called[order], work.end[order]
        by_place = np.argsort(place_of_wait, kind="stable")
        place_of_wait = place_of_wait[by_place]
        start, stop = waits.start[of_kind][by_place], waits.end[of_kind][by_place]
        for awaited in np.unique(place_of_wait[place_of_wait >= 0]).tolist():
            low, high = np.searchsorted(place, [awaited, awaited + 1])
            waiting = slice(*np.searchsorted(place_of_wait, [awaited, awaited + 1]))
            latest = np.maximum.accumulate(end[low:high])
            latest_work = np.searchsorted(called[low:high], start[waiting]) - 1
            times.append(stop[waiting][latest_work >= 0])
            bounds.append(latest[latest_work[latest_work >= 0]] - times[-1])
    return np.concatenate(times), np.concatenate(bounds)


def _places(work: Work, waits: Waits, of_kind: Bool, kind: int) -> tuple[Int, Int]:
    """Return numbers for the stream, or the context, of each record and of each wait; -1 for waits
    for a place without records.
    """
    columns = ("context", "stream") if kind == STREAM else ("context",)
    distinct, place = numbered(*(getattr(work, c) for c in columns))
    number = {key: k for k, key in enumerate(distinct)}
    rows, back = numbered(*(getattr(waits, c)[of_kind] for c in columns))
    place_of_wait = np.array([number.get(row, -1) for row in rows], dtype=np.int64)
    return place, place_of_wait[back]


def _knots(upper: tuple[Int, Int], lower: tuple[Int, Int]) -> tuple[Int, Int] | None:
    """Return what to add to host times, as straight lines between knots; None where no wandering
    clock explains the bounds.
    """
    never = np.int64(2**62)
    time = np.concatenate([upper[0], lower[0]])
    order = np.argsort(time, kind="stable")
    high = np.concatenate([upper[1], np.full(lower[0].size, never)])[order]
    low = np.concatenate([np.full(upper[0].size, -never), lower[1]])[order]
    pieces = _pieces(time[order], low, high)
    if pieces is None or len(pieces) < 2:
        return None
    firsts, lasts, add = (np.array(column, dtype=np.int64) for column in zip(*pieces, strict=True))
    # a ramp stands between two pieces, and reaches no further into them than to the middle of each
    middle = firsts + (lasts - firsts) // 2
    step = np.diff(add)
    centre = lasts[:-1] + (firsts[1:] - lasts[:-1]) // 2
    half = np.maximum((firsts[1:] - lasts[:-1]) // 2, np.abs(step) * _RAMP // 2)
    begin = np.maximum(centre - half, middle[:-1])
    end = np.minimum(centre + half, middle[1:])
    if np.any(step < -(end - begin) // 2):
        return None
    times = np.stack([begin, end], axis=1).reshape(-1)
    values = np.stack([add[:-1], add[1:]], axis=1).reshape(-1)
    kept = np.concatenate([[True], np.diff(times) > 0])
    return times[kept], values[kept]


def _pieces(time: Int, low: Int, high: Int) -> list[tuple[int, int, int]] | None:
    """Return the longest pieces of the run within which one value lies between all bounds: first
    and last time, and the value.
    """
    out: list[tuple[int, int, int]] = []
    bottom, top, first, last = -(2**62), 2**62, 0, -1
    begin = 0
    while begin < time.size:
        stop = min(begin + _GROUP, time.size)
        below, above = int(low[begin:stop].max()), int(high[begin:stop].min())
        if max(bottom, below) <= min(top, above):
            bottom, top, last, begin = max(bottom, below), min(top, above), stop - 1, stop
            continue
        for row in range(begin, stop):
            below, above = int(low[row]), int(high[row])
            if max(bottom, below) > min(top, above):
                out.append((int(time[first]), int(time[last]), _value(bottom, top)))
                if len(out) > _MOST_PIECES:
                    return None
                bottom, top, first = -(2**62), 2**62, row
            bottom, top, last = max(bottom, below), min(top, above), row
        begin = stop
    out.append((int(time[first]), int(time[last]), _value(bottom, top)))
    return out


def _value(bottom: int, top: int) -> int:
    """Return the middle of the bounds, or the one bound that exists."""
    if bottom == -(2**62):
        return top
    return bottom if top == 2**62 else (bottom + top) // 2
