"""Streams that wait for each other in recordings without a table of events: from the order of the
calls and from device times.

A ``cudaStreamWaitEvent`` recorded as a call alone names neither the stream that waits nor the
event.  Programs write it between what it orders: work for one stream, the wait, work for another.
So the last launch of the thread before the wait suggests the stream that was recorded, the first
launch behind it the stream that waits.  Device times decide whether that is so.

A stream without work of its own passes a wait on.  What a thread told it to wait for it records
right away, before anything is launched. The next wait behind a launch suggests who waits for that
record: its stream, for the last launch before the first wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.profile.dependencies.filling import could_begin
from turnbuckle.profile.dependencies.sides import SCOPES, Device, Host
from turnbuckle.trace.trace import Trace

#: Work that was held back, from which on it counts: once, a slow delivery does it in 1 of 40 runs
#: of independent streams.
_REPEATED: Final = 2


def unrecorded_waits(
    device: Device, host: Host, trace: Trace, starts: Int, ends: Int
) -> tuple[Int, Int]:
    """Return work, and work of another stream that waited for it, where events were not recorded.

    One stream waits for another if no work behind such a wait between the two began before the work
    it would have waited for had ended, and some that could have begun before then did not, twice at
    least: its stream was idle, and the quickest delivery of the run was over. Of two works that a
    wait may stand for, the one that ended last held it back.

    Parameters
    ----------
    starts, ends : per activity [ns].
    """
    nothing = np.zeros(0, dtype=np.int64)
    if trace.events.height:
        return nothing, nothing
    calls = _calls(device, host, starts)
    direct, passed = (
        _suggested(device, host, calls, starts),
        _passed_on(device, host, calls, starts),
    )
    begins = could_begin(device, starts, ends)
    rival = _latest(direct, passed.wait, ends)
    kept_passed = _kept(device, passed, begins, starts, ends, rival)
    rival = _latest(passed.of(kept_passed), direct.wait, ends)
    kept = _kept(device, direct, begins, starts, ends, rival)
    both = direct.of(kept), passed.of(kept_passed)
    return np.concatenate([b.work for b in both]), np.concatenate([b.behind for b in both])


@dataclass(frozen=True)
class _Suggested:
    """Work, work of another stream that a wait between two launches may have made wait for it, and
    the call of that wait; one length.
    """

    work: Int
    behind: Int
    wait: Int

    def of(self, rows: Bool) -> _Suggested:
        return _Suggested(self.work[rows], self.behind[rows], self.wait[rows])


@dataclass(frozen=True)
class _Calls:
    """Calls that launch, wait or record, by thread and time; `first` is the first work of each
    activity that started some, else -1.
    """

    calls: Int
    launches: Bool
    first: Int


def _calls(device: Device, host: Host, starts: Int) -> _Calls:
    started = device.rows[device.call[device.rows] >= 0]
    first = np.full(len(starts), -1, dtype=np.int64)
    order = np.lexsort((-starts[started], device.call[started]))
    first[device.call[started[order]]] = started[order]
    waits = host.scope == SCOPES.index("stream waits for event")
    calls = host.calls[(first[host.calls] >= 0) | waits[host.calls] | host.records[host.calls]]
    calls = calls[np.lexsort((starts[calls], host.thread[calls]))]
    return _Calls(calls, first[calls] >= 0, first)


def _suggested(device: Device, host: Host, made: _Calls, starts: Int) -> _Suggested:
    """Return the last work of one stream and the first of another, where a thread calls a wait
    between launches for the two.
    """
    waits = host.scope[made.calls] == SCOPES.index("stream waits for event")
    calls = made.calls[made.launches | waits]
    launches = np.flatnonzero(made.first[calls] >= 0)
    before, after = calls[launches[:-1]], calls[launches[1:]]
    # whatever stands between two launches in this list is a wait
    between = (np.diff(launches) > 1) & (host.thread[before] == host.thread[after])
    return _apart(
        device, made, before[between], calls[launches[:-1][between] + 1], after[between], starts
    )


def _passed_on(device: Device, host: Host, made: _Calls, starts: Int) -> _Suggested:
    """Return the same for waits that a stream without work passed on.

    A wait that is followed by a record, with no launch between, makes that stream wait which is
    recorded.  Whoever waits for the record is told by the first wait behind the next launch;
    records that are waited for before then are those of `_suggested`.
    """
    calls, launches = made.calls, made.launches
    waits = host.scope[calls] == SCOPES.index("stream waits for event")
    records = host.records[calls]
    same = host.thread[calls][:-1] == host.thread[calls][1:]
    passing = np.flatnonzero(waits[:-1] & records[1:] & same)
    launched, waiting = np.flatnonzero(launches), np.flatnonzero(waits)
    if not len(passing) or not len(launched):
        nothing = np.zeros(0, dtype=np.int64)
        return _Suggested(nothing, nothing, nothing)
    before = np.searchsorted(launched, passing) - 1
    nearest = np.searchsorted(launched, passing + 1)
    valid = (before >= 0) & (nearest < len(launched))
    passing, before, nearest = passing[valid], launched[before[valid]], launched[nearest[valid]]
    # a wait before the next launch leaves nothing to pass on later
    at_once = np.searchsorted(waiting, passing, side="right") < np.searchsorted(waiting, nearest)
    later = np.searchsorted(waiting, nearest)
    valid = ~at_once & (later < len(waiting))
    passing, before, wait = (
        passing[valid],
        before[valid],
        waiting[np.minimum(later, len(waiting) - 1)[valid]],
    )
    after = np.searchsorted(launched, wait)
    valid = after < len(launched)
    passing, before, wait, after = (
        passing[valid],
        before[valid],
        wait[valid],
        launched[after[valid]],
    )
    thread = host.thread[calls]
    one_thread = (thread[before] == thread[passing]) & (thread[after] == thread[passing])
    return _apart(
        device,
        made,
        calls[before[one_thread]],
        calls[passing[one_thread]],
        calls[after[one_thread]],
        starts,
        calls[wait[one_thread]],
    )


def _apart(
    device: Device,
    made: _Calls,
    before: Int,
    until: Int,
    after: Int,
    starts: Int,
    wait: Int | None = None,
) -> _Suggested:
    """Return the last work of the stream of a launch until a call, and the first of another launch,
    if their streams differ.
    """
    wait = until if wait is None else wait
    recorded, waiting = device.place[made.first[before]], device.place[made.first[after]]
    apart = (recorded != waiting) & (device.where[recorded, :2] == device.where[waiting, :2]).all(
        axis=1
    )
    recorded, until, wait, behind = (
        recorded[apart],
        until[apart],
        wait[apart],
        made.first[after][apart],
    )
    work = np.full(len(recorded), -1, dtype=np.int64)
    for stream in np.unique(recorded).tolist():
        mask = recorded == stream
        place = device.before(stream, starts[until[mask]])
        work[mask] = np.where(place >= 0, device.streams[stream][np.maximum(place, 0)], -1)
    return _Suggested(work, behind, wait).of(work >= 0)


def _latest(suggested: _Suggested, wait: Int, ends: Int) -> Int:
    """Return when the last work ended that is suggested for each of some waits [ns]; the least
    number for none.
    """
    by_wait = np.full(len(ends), np.iinfo(np.int64).min, dtype=np.int64)
    np.maximum.at(by_wait, suggested.wait, ends[suggested.work])
    return np.asarray(by_wait[wait])


def _kept(
    device: Device, suggested: _Suggested, begins: Int, starts: Int, ends: Int, rival: Int
) -> Bool:
    """Return which suggestions the device's times bear out, by pairs of streams; `rival` is when
    other work ended that may have held it.
    """
    work, behind = suggested.work, suggested.behind
    over = ends[work] <= starts[behind]
    held = over & (begins[behind] < ends[work]) & (ends[work] > rival)
    pair = np.stack([device.place[work], device.place[behind]], axis=1)
    number = np.unique(pair, axis=0, return_inverse=True)[1].reshape(-1)
    kept = (np.bincount(number, weights=~over) == 0) & (
        np.bincount(number, weights=held) >= _REPEATED
    )
    return np.asarray(kept[number], dtype=np.bool_)
