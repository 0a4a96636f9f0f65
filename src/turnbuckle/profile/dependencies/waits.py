"""Which host calls wait, and for what work.

A synchronisation waits for its scope: a stream, what an event was recorded behind, or all streams
of a context.  A blocking copy waits for itself, and so does the driver's staging of pageable memory
where the call outlives the copy.  Releasing memory waits for the device; other calls that make or
load things may, and did where they returned just after work ended.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Bool, Int, filled
from turnbuckle.profile.classify import CALL_CLASS
from turnbuckle.profile.dependencies.sides import (
    NEVER,
    SCOPES,
    TABLE,
    UNKNOWN,
    Device,
    Host,
    last_known,
)
from turnbuckle.profile.profile import Profile

#: Classes of calls that wait for the device only sometimes.
_MAY_WAIT: Final = [CALL_CLASS[word] for word in ("alloc", "module", "stream")]
#: A launch that takes this many times as long as a launch by itself may have waited for room in the
#: queue.
_SLOW_LAUNCH: Final = 10.0
#: The same where most launches that found the queue at its fullest take as long: the queue is then
#: full for good.
_HELD_LAUNCH: Final = 2.0
#: The queue is at its fullest for launches that found this share of the most launches ahead of
#: them.
_FULLEST: Final = 0.95
#: Quantile of launch times that stands for a launch by itself where nearly all launches found a
#: queue: waiting only ever adds to it.
_BY_ITSELF: Final = 0.05
#: Launches a device must be behind for its queue to be full: half of what CUDA's queue was seen to
#: hold (1022, RTX 3060, CUDA 12).
_QUEUED: Final = 512
_EVENT, _STREAM_WAIT, _STREAM, _DEVICE = (
    SCOPES.index(word) for word in ("event", "stream waits for event", "stream", "device")
)
_KEYS: Final = ["process", "correlation"]


@dataclass(frozen=True)
class EventWaits:
    """Calls that wait for an event, or make a stream wait, with the record each waits for; one
    length, in the order of the calls.

    Attributes
    ----------
    call : the activity that waits, or that makes the stream wait; `called` when it began [ns].
    stream : the stream that waits (number as in `Device.streams`), -1 for the host or an unknown
        one.
    on, recorded : the stream the event was recorded on, -1 where it holds no work, and when [ns].
    """

    call: Int
    called: Int
    stream: Int
    on: Int
    recorded: Int


def event_waits(device: Device, named: pl.DataFrame, profile: Profile, scope: str) -> EventWaits:
    """Return waits of one `scope` for events, each with the latest earlier record of its event;
    waits without a record are left out.

    `named` are all recorded waits (`named_waits`).
    """
    trace, nothing = profile.trace, np.zeros(0, dtype=np.int64)
    if not trace.events.height or not named.height:
        return EventWaits(nothing, nothing, nothing, nothing, nothing)
    waits = named.filter(pl.col("scope") == SCOPES.index(scope))
    started = (
        trace.api.select(*_KEYS, recorded=pl.col("start_ns") - profile.first_ns)
        .drop_nulls()
        .unique(_KEYS, keep="first")
    )
    records = trace.events.join(started, on=_KEYS, how="inner").select(
        "process", "event", "recorded", on_stream=pl.col("stream"), on_context=pl.col("context")
    )
    joined = (
        waits.sort("called")
        .join_asof(
            records.sort("recorded"),
            left_on="called",
            right_on="recorded",
            by=["process", "event"],
            check_sortedness=False,
        )
        .drop_nulls(["recorded", "on_stream"])
    )
    context = joined["on_context"].fill_null(UNKNOWN).to_numpy()
    context = np.where(context == UNKNOWN, joined["context"].fill_null(UNKNOWN).to_numpy(), context)
    process = joined["process"].to_numpy()
    return EventWaits(
        joined["activity"].to_numpy(),
        joined["called"].to_numpy(),
        _stream_number(
            device,
            process,
            joined["context"].fill_null(UNKNOWN).to_numpy(),
            joined["stream"].fill_null(UNKNOWN).to_numpy(),
        ),
        _stream_number(device, process, context, joined["on_stream"].to_numpy()),
        joined["recorded"].to_numpy(),
    )


def named_waits(host: Host, profile: Profile) -> pl.DataFrame:
    """Return rows of the recorded synchronisations with the call each belongs to, when that began
    [ns], and what it waits for by its name.

    A call of OpenCL has a row for everything it waits for, and the row says what that is.  A
    command waits before it runs: what it makes its stream wait for counts as told just before its
    call.
    """
    if not profile.trace.syncs.height:
        return pl.DataFrame()
    syncs = profile.trace.syncs[[*_KEYS, "context", "stream", "event", "sync_type"]]
    api = profile.trace.api
    calls = pl.DataFrame(
        {
            **{k: api[k] for k in _KEYS},
            "activity": host.of_api,
            "called": api["start_ns"].to_numpy() - profile.first_ns,
        }
    )
    calls = calls.filter(pl.col("activity") >= 0).join(
        syncs, on=_KEYS, how="semi", maintain_order="left"
    )
    joined = syncs.join(
        calls.drop_nulls().unique(_KEYS, keep="first", maintain_order=True), on=_KEYS, how="inner"
    )
    activity = joined["activity"].to_numpy()
    joined = joined.with_columns(scope=pl.Series(host.scope[activity], dtype=pl.Int8))
    opencl = pl.Series(host.opencl[activity])
    plain = (
        joined.filter(~opencl).unique(_KEYS, keep="first", maintain_order=True).drop("sync_type")
    )
    if not opencl.any():
        return plain
    scope = pl.col("sync_type").fill_null(0).clip(0, len(SCOPES) - 1).cast(pl.Int8)
    opencl_rows = joined.filter(opencl).with_columns(scope=scope).drop("sync_type")
    return pl.concat(
        [
            plain,
            opencl_rows.with_columns(
                pl.col("called") - (pl.col("scope") == _STREAM_WAIT).cast(pl.Int64)
            ),
        ]
    )


def _stream_number(device: Device, process: Int, context: Int, stream: Int) -> Int:
    """Return the number of the stream at each place; a context that is not recorded (0 in old
    versions) is any that has the stream.
    """
    exact = {(p, c, s): i for i, (p, c, s) in enumerate(device.where.tolist())}
    loose = {(p, s): i for i, (p, _, s) in reversed(list(enumerate(device.where.tolist())))}
    places = zip(process.tolist(), context.tolist(), stream.tolist(), strict=True)
    return np.array(
        [exact.get((p, c, s), loose.get((p, s), -1) if c <= 0 else -1) for p, c, s in places],
        dtype=np.int64,
    )


class Reach:
    """What is behind a point in a stream: its last work, and what waits issued after that work wait
    for.

    A stream that was told to wait and got no work of its own afterwards passes the wait on: to
    whoever synchronises with it, and to events recorded on it.
    """

    def __init__(self, device: Device, waits: EventWaits) -> None:
        self._device = device
        order = np.argsort(waits.called, kind="stable")
        self._told: dict[int, tuple[list[int], list[tuple[int, ...]]]] = {}
        #: Per wait, in the order given, the work it waits for.
        self.works: list[tuple[int, ...]] = [()] * len(waits.called)
        for k in order.tolist():
            works = self.behind(int(waits.on[k]), int(waits.recorded[k]))
            self.works[k] = works
            if waits.stream[k] >= 0 and works:
                for stream in self.waiting(int(waits.stream[k])):
                    times, groups = self._told.setdefault(stream, ([], []))
                    times.append(int(waits.called[k]))
                    groups.append(works)

    def waiting(self, stream: int) -> list[int]:
        """Return the streams that wait when `stream` is told to: the blocking ones come after the
        legacy default stream.
        """
        return self._device.ordered_with(stream) if self._device.null[stream] else [stream]

    def behind(self, stream: int, time: int) -> tuple[int, ...]:
        """Return the work that everything issued to `stream` up to `time` [ns] comes down to."""
        return tuple(
            dict.fromkeys(
                w
                for peer in self._device.ordered_with(stream)
                if peer >= 0
                for w in self._behind_one(peer, time)
            )
        )

    def _behind_one(self, stream: int, time: int) -> tuple[int, ...]:
        index = int(np.searchsorted(self._device.issued[stream], time, side="right")) - 1
        last = (int(self._device.streams[stream][index]),) if index >= 0 else ()
        passed = self.passed_on(
            stream, int(self._device.issued[stream][index]) if index >= 0 else None, time
        )
        return tuple(dict.fromkeys((*last, *passed)))

    def passed_on(self, stream: int, after: int | None, time: int) -> tuple[int, ...]:
        """Return the work awaited by waits issued to `stream` after its last work and up to
        `time`.
        """
        if stream not in self._told:
            return ()
        times, groups = self._told[stream]
        low = 0 if after is None else bisect_right(times, after)
        high = bisect_right(times, time)
        return tuple(dict.fromkeys(w for works in groups[low:high] for w in works))

    def streams(self) -> list[int]:
        """Return the streams that were told to wait."""
        return list(self._told)


def waited_for(
    device: Device,
    host: Host,
    profile: Profile,
    named: pl.DataFrame,
    reach: Reach,
    starts: Int,
    ends: Int,
) -> tuple[Int, Int, Bool]:
    """Return the pairs of a call and work that it waits for.

    Parameters
    ----------
    named : all recorded waits (`named_waits`).
    reach : what streams were told to wait for.
    starts, ends : of each activity [ns].

    Returns
    -------
    Call, work, and whether the call waits by its nature (else only if the times say so).
    """
    copies = device.rows[device.call[device.rows] >= 0]
    copies = copies[
        (host.waits[device.call[copies]] & (device.table[copies] == TABLE["copies"]))
        | device.pageable[copies]
    ]
    launched = _launches_that_block(device, host, ends)
    calls, works = [device.call[copies], device.call[launched]], [copies, launched]
    sure = [np.ones(len(copies) + len(launched), dtype=np.bool_)]
    scopes = _scopes(device, host, profile, named, starts)
    for stream, place in enumerate(device.where):
        asked = [
            UNKNOWN,
            stream,
            *(np.flatnonzero(device.null).tolist() if device.blocking[stream] else []),
        ]
        mask = (
            (scopes.process == place[0])
            & np.isin(scopes.context, (UNKNOWN, place[1]))
            & np.isin(scopes.stream, asked)
        )
        call, until = scopes.call[mask], scopes.until[mask]
        index = device.before(stream, until)
        valid = index >= 0
        calls.append(call[valid])
        works.append(device.streams[stream][index[valid]])
        sure.append(scopes.sure[mask][valid])
        if stream in reach.streams():
            after = [int(device.issued[stream][k]) if k >= 0 else None for k in index.tolist()]
            passed = [
                reach.passed_on(stream, a, t) for a, t in zip(after, until.tolist(), strict=True)
            ]
            calls.append(np.repeat(call, [len(p) for p in passed]))
            works.append(np.array([w for p in passed for w in p], dtype=np.int64))
            sure.append(np.repeat(scopes.sure[mask], [len(p) for p in passed]))
    events = event_waits(device, named, profile, "event")
    behind = [
        reach.behind(on, t)
        for on, t in zip(events.on.tolist(), events.recorded.tolist(), strict=True)
    ]
    calls.append(np.repeat(events.call, [len(b) for b in behind]))
    works.append(np.array([w for b in behind for w in b], dtype=np.int64))
    sure.append(np.ones(len(works[-1]), dtype=np.bool_))
    polling, seen = _polled(device, host, starts, ends)
    calls.append(polling)
    works.append(seen)
    sure.append(np.ones(len(polling), dtype=np.bool_))
    return np.concatenate(calls), np.concatenate(works), np.concatenate(sure)


def _polled(device: Device, host: Host, starts: Int, ends: Int) -> tuple[Int, Int]:
    """Return loops of queries, and the work that each saw end: the last that did so, after the last
    query that found it unfinished began.

    A query has no row that says what it asks about, so that work of another stream that ends at the
    same moment can be taken for it.
    """
    loops, last = host.calls[host.polled[host.calls] > NEVER], []
    work = device.rows[np.argsort(ends[device.rows], kind="stable")]
    for loop in loops.tolist():
        low, high = np.searchsorted(ends[work], (host.polled[loop], ends[loop] + 1))
        ended = work[low:high]
        ended = ended[
            (device.called[ended] < starts[loop]) & (device.process[ended] == host.process[loop])
        ]
        last.append(int(ended[-1]) if len(ended) else -1)
    seen = np.array(last, dtype=np.int64)
    return loops[seen >= 0], seen[seen >= 0]


def _launches_that_block(device: Device, host: Host, ends: Int) -> Int:
    """Return the work of launches that return after it ended, if most launches do
    (CUDA_LAUNCH_BLOCKING, or a debugger).
    """
    kernels = device.rows[
        (device.call[device.rows] >= 0) & (device.table[device.rows] == TABLE["kernels"])
    ]
    kernels = kernels[host.call_class[device.call[kernels]] == CALL_CLASS["launch"]]
    late = ends[device.call[kernels]] >= ends[kernels]
    return kernels[late] if late.sum() > len(kernels) / 2 else np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class _Scopes:
    """Calls that wait for streams: of which process, context and stream (`UNKNOWN` for all), for
    work issued until when.
    """

    call: Int
    process: Int
    context: Int
    stream: Int
    until: Int
    sure: Bool


def _scopes(
    device: Device, host: Host, profile: Profile, named: pl.DataFrame, starts: Int
) -> _Scopes:
    synchronises = (host.scope == _STREAM) | (host.scope == _DEVICE)
    may = synchronises | host.frees | np.isin(host.call_class, _MAY_WAIT)
    if not profile.trace.events.height:
        # without records an event stands for all that its stream was given before the wait
        may |= host.scope == _EVENT
        synchronises |= host.scope == _EVENT
    call = host.calls[may[host.calls]]
    context = _current_context(device, host, starts)[call]
    stream = np.full(len(call), UNKNOWN, dtype=np.int64)
    if named.height and len(call):
        _where_recorded(device, named, call, context, stream)
    freed = _freed_context(host, profile)[call]
    context = np.where(freed != UNKNOWN, freed, context)
    return _Scopes(
        call,
        host.process[call],
        context,
        stream,
        starts[call].copy(),
        (synchronises | host.frees)[call],
    )


def _where_recorded(
    device: Device, named: pl.DataFrame, call: Int, context: Int, stream: Int
) -> None:
    """Write into `context` and `stream` of each call what the recorded waits say it waits for."""
    activity = named["activity"].to_numpy()
    index = np.minimum(np.searchsorted(call, activity), len(call) - 1)
    asked = call[index] == activity
    named, where = named.filter(pl.Series(asked)), index[asked]
    given = filled(named["context"], UNKNOWN)
    context[where[given > 0]] = given[given > 0]
    of_stream = (
        named["scope"].is_in([_STREAM, _EVENT]).to_numpy()
        & named["stream"].is_not_null().to_numpy()
    )
    number = _stream_number(
        device, named["process"].to_numpy(), given, filled(named["stream"], UNKNOWN)
    )
    # a stream that never had work is waited for in no time
    stream[where[of_stream]] = np.where(number[of_stream] < 0, len(device.where), number[of_stream])


def _freed_context(host: Host, profile: Profile) -> Int:
    """Return per activity the context whose memory the call frees, where allocations were
    recorded.
    """
    out = np.full(len(host.process), UNKNOWN, dtype=np.int64)
    frees, api = profile.trace.allocations, profile.trace.api
    freeing = np.flatnonzero((host.of_api >= 0) & host.frees[host.of_api])
    if not len(freeing) or not frees.height:
        return out
    frees = (
        frees.filter(pl.col("operation") == 1)[[*_KEYS, "context"]]
        .drop_nulls()
        .unique(_KEYS, keep="first", maintain_order=True)
    )
    freed = frees.join(
        api[_KEYS][freeing].hstack([pl.Series("activity", host.of_api[freeing])]), on=_KEYS
    )
    out[freed["activity"].to_numpy()] = freed["context"].to_numpy()
    return out


def _current_context(device: Device, host: Host, starts: Int) -> Int:
    """Return per activity the context its thread last gave work to; `UNKNOWN`, which stands for
    all, before the first.
    """
    started = device.rows[device.call[device.rows] >= 0]
    of_call = np.full(len(starts), UNKNOWN, dtype=np.int64)
    of_call[device.call[started]] = device.where[device.place[started], 1]
    order = host.calls[np.lexsort((starts[host.calls], host.thread[host.calls]))]
    out = np.full(len(starts), UNKNOWN, dtype=np.int64)
    out[order] = last_known(of_call[order], host.thread[order])
    return out


def full_queue(device: Device, host: Host, starts: Int, ends: Int) -> tuple[Int, Int, Int, int]:
    """Return the launches that a full queue holds back: each waits for the work that many launches
    before it.

    A queue counts as full where launches far slower than a launch by itself found hundreds of
    launches of their context not yet begun and returned just after work ended, or where most of
    those that found the most were slow.  Its depth is what the slow ones found, in the middle, and
    no less than lets the work they waited for end before they returned.

    Returns
    -------
    Launches, the work each waits for, which of them did wait (the slow ones), and how long a launch
    takes by itself [ns].
    """
    nothing = np.zeros(0, dtype=np.int64)
    launches = host.calls[host.call_class[host.calls] == CALL_CLASS["launch"]]
    if not len(launches) or not (device.call[device.rows] >= 0).any():
        return nothing, nothing, nothing, 0
    # few streams, many rows: contexts are told apart by their streams
    contexts, context_of = np.unique(device.where[:, :2], axis=0, return_inverse=True)
    context = context_of.reshape(-1)[device.place[device.rows]]
    queues = []
    for number in range(len(contexts)):
        work = device.rows[context == number]
        queues.append(_queue_of(device, host, work, _beyond(device, host, work, starts), starts))
    crowded = np.concatenate([queue.call[queue.behind >= _QUEUED] for queue in queues])
    alone = by_itself((ends - starts)[launches], np.isin(launches, crowded))
    blocked, made_room, held = [nothing], [nothing], [nothing]
    for queue in queues:
        length, ended = (ends - starts)[queue.call], np.sort(ends[queue.work])
        back = (
            ends[queue.call]
            - ended[np.maximum(np.searchsorted(ended, ends[queue.call], side="right") - 1, 0)]
        )
        fullest = queue.behind >= max(_FULLEST * queue.behind.max(initial=0), _QUEUED)
        for_good = fullest.any() and np.median(length[fullest]) > _HELD_LAUNCH * alone
        slow = (length > _SLOW_LAUNCH * alone) | (
            for_good & fullest & (length > _HELD_LAUNCH * alone)
        )
        slow &= (queue.behind >= _QUEUED) & (back >= 0) & (back < _SLOW_LAUNCH * alone)
        if not slow.any():
            continue
        # work ends in about the order in which it was launched: the last that a slow launch can
        # have waited for
        last_over = (
            np.searchsorted(
                np.maximum.accumulate(ends[queue.work]), ends[queue.call[slow]], side="right"
            )
            - 1
        )
        depth = int(max(np.median(queue.behind[slow]), np.median(queue.position[slow] - last_over)))
        room = queue.position - depth
        # events and waits take places too and move the depth by a few: where it does not explain a
        # slow launch, its return does
        there = np.clip(room[slow], 0, len(queue.work) - 1)
        since = ends[queue.call[slow]] - ends[queue.work[there]]
        unexplained = (last_over >= 0) & ((since < 0) | (since >= _SLOW_LAUNCH * alone))
        room[slow] = np.where(unexplained, last_over, room[slow])
        far = (room >= 0) & (room < len(queue.work))
        blocked.append(queue.call[far])
        made_room.append(queue.work[room[far]])
        held.append(queue.call[slow])
    return np.concatenate(blocked), np.concatenate(made_room), np.concatenate(held), int(alone)


def by_itself(length: Int, crowded: Bool) -> float:
    """Return how long a launch takes by itself [ns].

    A launch that found less than the shortest full queue was not held back: their median.  Where
    nearly all found more (a window cut from a longer run), a low quantile of all.

    Parameters
    ----------
    length : of each launch [ns].
    crowded : whether it found `_QUEUED` launches or more not yet begun.

    >>> by_itself(np.array([2, 3, 2, 90, 95, 91, 92]), np.array([False] * 3 + [True] * 4))
    2.0
    """
    alone = length[~crowded]
    return float(
        np.median(alone)
        if len(alone) > _BY_ITSELF * len(length) or len(alone) >= _QUEUED
        else np.quantile(length, _BY_ITSELF)
    )


@dataclass(frozen=True)
class _Queue:
    """Work of one context in the order of its calls, and its launches.

    Attributes
    ----------
    work : activities in the order of their calls.
    call, position : each launch, and the place in `work` of what it launched.
    behind : how much work launched before it had not begun when it began.
    """

    work: Int
    call: Int
    position: Int
    behind: Int


def _queue_of(device: Device, host: Host, work: Int, beyond: Int, starts: Int) -> _Queue:
    """Return the queue of one context's work; work whose call was not recorded has its place in it
    too.

    `beyond` are launches after all of them, whose work was not recorded: it began when the
    recording was over.
    """
    work = work[np.lexsort((starts[work], device.issued_at[work]))]
    launched = (device.call[work] >= 0) & (
        host.call_class[device.call[work]] == CALL_CLASS["launch"]
    )
    position = np.concatenate([np.flatnonzero(launched), len(work) + np.arange(len(beyond))])
    call = np.concatenate([device.call[work[launched]], beyond])
    begun = np.searchsorted(np.sort(starts[work]), starts[call], side="right")
    return _Queue(work, call, position, position - begun)


def _beyond(device: Device, host: Host, work: Int, starts: Int) -> Int:
    """Return the launches of one context that come after all whose work was recorded, in their
    order.
    """
    called = work[device.call[work] >= 0]
    if not len(called):
        return called
    threads = np.unique(host.thread[device.call[called]])
    launches = host.calls[host.call_class[host.calls] == CALL_CLASS["launch"]]
    later = launches[
        (starts[launches] > device.called[called].max()) & np.isin(host.thread[launches], threads)
    ]
    later = later[~np.isin(later, device.call)]
    return np.asarray(later[np.argsort(starts[later], kind="stable")])
