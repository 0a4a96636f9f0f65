"""Which host calls wait, and for what work.

A synchronisation waits for its scope: a stream, what an event was recorded behind, or all streams of a context.  A blocking
copy waits for itself, and so does the driver's staging of pageable memory where the call outlives the copy.  Releasing
memory waits for the device; other calls that make or load things may, and did where they returned just after work ended.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from turnbuckle.profile.profile import Profile
from turnbuckle.profile.sides import UNKNOWN, Device, Host

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

#: Classes of calls that wait for the device only sometimes.
_MAY_WAIT: Final = ("alloc", "module", "stream")
#: A launch that takes this many times the median was waiting for room in the queue.
_SLOW_LAUNCH: Final = 10.0


def waited_for(device: Device, host: Host, profile: Profile, for_event: pl.DataFrame, starts: Int) -> tuple[Int, Int, Bool]:
    """Pairs of a call and the last work of a stream that it waits for.

    Parameters
    ----------
    for_event : waits of host calls for events, with the record each waits for.
    starts : when each activity began [ns].

    Returns
    -------
    Call, work, and whether the call waits by its nature (else only if the times say so).
    """
    copies = device.rows[device.call[device.rows] >= 0]
    copies = copies[(host.waits[device.call[copies]] & (device.table[copies] == "copies")) | device.pageable[copies]]
    calls, works = [device.call[copies]], [copies]
    sure = [np.ones(len(copies), dtype=np.bool_)]
    scopes = _scopes(device, host, profile, for_event, starts)
    for stream, place in enumerate(device.where):
        mine = (scopes.process == place[0]) & np.isin(scopes.context, (UNKNOWN, place[1])) & np.isin(scopes.stream, (UNKNOWN, place[2]))
        call = scopes.call[mine]
        at = device.before(stream, scopes.until[mine])
        known = at >= 0
        calls.append(call[known])
        works.append(device.streams[stream][at[known]])
        sure.append(scopes.sure[mine][known])
    return np.concatenate(calls), np.concatenate(works), np.concatenate(sure)


class _Scopes:
    """Calls that wait for streams: of which process, context and stream (`UNKNOWN` for all), for work issued until when."""

    def __init__(self, call: Int, process: Int, context: Int, stream: Int, until: Int, sure: Bool) -> None:
        self.call, self.process, self.context, self.stream, self.until, self.sure = call, process, context, stream, until, sure


def _scopes(device: Device, host: Host, profile: Profile, for_event: pl.DataFrame, starts: Int) -> _Scopes:
    synchronises = host.call_class == "sync"
    call = host.calls[(synchronises | host.frees | np.isin(host.call_class, _MAY_WAIT))[host.calls]]
    context = _current_context(device, host, starts)[call]
    stream = np.full(len(call), UNKNOWN, dtype=np.int64)
    until = starts[call].copy()
    at = np.full(len(starts), -1, dtype=np.int64)
    at[call] = np.arange(len(call))
    keys = ["process", "correlation"]
    of_call = pl.DataFrame({**{k: profile.trace.api[k] for k in keys}, "activity": host.of_api}).filter(pl.col("activity") >= 0)
    named = (
        profile.trace.syncs.filter(pl.col("sync_type").is_in([1, 3, 4]))
        .select(*keys, "context", "stream", "sync_type")
        .unique(keys, maintain_order=True, keep="first")
        .join(of_call, on=keys, how="inner")
    )
    where = at[named["activity"].to_numpy()]
    known = where >= 0
    context[where[known]] = named["context"].fill_null(UNKNOWN).to_numpy()[known]
    of_stream = named["sync_type"].is_in([1, 3]).to_numpy() & known
    stream[where[of_stream]] = named["stream"].fill_null(UNKNOWN).to_numpy()[of_stream]
    recorded = for_event.join(of_call.unique(keys, keep="first", maintain_order=True), on=keys, how="inner")
    where = at[recorded["activity"].to_numpy()]
    known = where >= 0
    stream[where[known]] = recorded["on_stream"].to_numpy()[known]
    until[where[known]] = recorded["recorded"].to_numpy()[known]
    return _Scopes(call, host.process[call], context, stream, until, (synchronises | host.frees)[call])


def _current_context(device: Device, host: Host, starts: Int) -> Int:
    """Per activity, the context its thread last gave work to; `UNKNOWN` before the first, which then stands for all of its process."""
    started = device.rows[device.call[device.rows] >= 0]
    of_call = np.full(len(starts), UNKNOWN, dtype=np.int64)
    of_call[device.call[started]] = device.where[device.place[started], 1]
    order = host.calls[np.lexsort((starts[host.calls], host.thread[host.calls]))]
    frame = pl.DataFrame({"thread": host.thread[order], "context": of_call[order]})
    filled = frame.select(pl.when(pl.col("context") != UNKNOWN).then("context").forward_fill().over("thread").fill_null(UNKNOWN))
    out = np.full(len(starts), UNKNOWN, dtype=np.int64)
    out[order] = filled["context"].to_numpy()
    return out


def full_queue(device: Device, host: Host, starts: Int, ends: Int) -> tuple[Int, Int, int]:
    """Launches that waited for room in the queue, the work whose end made room, and how long a launch takes [ns].

    They are far slower than the others, and returned just after work of their process ended.
    """
    nothing = np.zeros(0, dtype=np.int64)
    launches = host.calls[host.call_class[host.calls] == "launch"]
    if not len(launches) or not len(device.rows):
        return nothing, nothing, 0
    typical = float(np.median((ends - starts)[launches]))
    slow = launches[(ends - starts)[launches] > _SLOW_LAUNCH * typical]
    found, made_room = [nothing], [nothing]
    process = device.where[device.place[device.rows], 0]
    for number in np.unique(host.process[slow]):
        mine, work = slow[host.process[slow] == number], device.rows[process == number]
        by_end = work[np.argsort(ends[work], kind="stable")]
        at = np.searchsorted(ends[by_end], ends[mine], side="right") - 1
        mine, work = mine[at >= 0], by_end[at[at >= 0]]
        just = (ends[work] > starts[mine]) & (ends[mine] - ends[work] < _SLOW_LAUNCH * typical) & (device.call[work] != mine)
        found.append(mine[just])
        made_room.append(work[just])
    return np.concatenate(found), np.concatenate(made_room), int(typical)
