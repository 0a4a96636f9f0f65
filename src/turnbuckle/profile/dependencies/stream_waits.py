"""Streams that wait for each other in recordings without a table of events: from the order of the calls and from device times.

A ``cudaStreamWaitEvent`` recorded as a call alone names neither the stream that waits nor the event.  Programs write it between what it
orders: work for one stream, the wait, work for another.  So the last launch of the thread before the wait suggests the stream that was
recorded, the first launch behind it the stream that waits.  Device times decide whether that is so.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Int
from turnbuckle.profile.dependencies.filling import could_begin
from turnbuckle.profile.dependencies.sides import SCOPES, Device, Host
from turnbuckle.trace.trace import Trace

#: Work that was held back, from which on it counts: once, a slow delivery does it in 1 of 40 runs of independent streams.
_REPEATED: Final = 2


def unrecorded_waits(device: Device, host: Host, trace: Trace, starts: Int, ends: Int) -> tuple[Int, Int]:
    """Return work, and work of another stream that waited for it, where events were not recorded.

    One stream waits for another if no work behind such a wait between the two began before the work it would have waited for had ended,
    and some that could have begun before then did not, twice at least: its stream was idle, and the quickest delivery of the run was over.

    Parameters
    ----------
    starts, ends : per activity [ns].
    """
    work, behind = _suggested(device, host, starts)
    if trace.events.height or not len(work):
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing
    over = ends[work] <= starts[behind]
    held = over & (could_begin(device, starts, ends)[behind] < ends[work])
    pair = np.stack([device.place[work], device.place[behind]], axis=1)
    number = np.unique(pair, axis=0, return_inverse=True)[1].reshape(-1)
    kept = (np.bincount(number, weights=~over) == 0) & (np.bincount(number, weights=held) >= _REPEATED)
    return work[kept[number]], behind[kept[number]]


def _suggested(device: Device, host: Host, starts: Int) -> tuple[Int, Int]:
    """Return the last work of one stream and the first of another, where a thread calls a wait between launches for the two."""
    started = device.rows[device.call[device.rows] >= 0]
    first = np.full(len(starts), -1, dtype=np.int64)
    order = np.lexsort((-starts[started], device.call[started]))
    first[device.call[started[order]]] = started[order]
    waits = host.scope == SCOPES.index("stream waits for event")
    calls = host.calls[(first[host.calls] >= 0) | waits[host.calls]]
    calls = calls[np.lexsort((starts[calls], host.thread[calls]))]
    launches = np.flatnonzero(~waits[calls])
    before, after = calls[launches[:-1]], calls[launches[1:]]
    # whatever stands between two launches in this list is a wait
    between = (np.diff(launches) > 1) & (host.thread[before] == host.thread[after])
    told = calls[launches[:-1][between] + 1]
    recorded, waiting = device.place[first[before[between]]], device.place[first[after[between]]]
    apart = (recorded != waiting) & (device.where[recorded, :2] == device.where[waiting, :2]).all(axis=1)
    recorded, told, behind = recorded[apart], told[apart], first[after[between]][apart]
    work = np.full(len(recorded), -1, dtype=np.int64)
    for stream in np.unique(recorded).tolist():
        mask = recorded == stream
        place = device.before(stream, starts[told[mask]])
        work[mask] = np.where(place >= 0, device.streams[stream][np.maximum(place, 0)], -1)
    return work[work >= 0], behind[work >= 0]
