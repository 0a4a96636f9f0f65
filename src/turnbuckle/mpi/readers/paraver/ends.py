"""Calls at the two ends of the messages of a Paraver trace, found by the times of the communication
records.

A send starts at its call's begin.  A receive is posted at its call's begin, or for an Irecv at its
return.  A message arrives at the end of its wait.  Where the clock is coarse several calls fit a
time: those that begin or end exactly then come first, and each takes one message, in the order of
both.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.mpi.readers.paraver.calls import Calls

_MANY: Final = ("waitall", "waitsome", "testall", "testsome")
#: Largest number of calls of one thread at one instant that are considered.
_MOST_TIED: Final = 512


@dataclass(frozen=True)
class Ends:
    """Calls that can be one end of a message."""

    calls: Int  #: indices of the calls, by thread and begin; all other columns describe these calls
    first: Int  #: index of each thread's first call, and at the end the number of calls
    start: Int
    end: Int
    exact: Int  #: time at which the call takes precedence over the others that fit [ns]
    many: Bool  #: whether the call can have several messages


def ends(calls: Calls, end: str) -> Ends:
    """Return the calls that can send, receive or complete a message: `end` is ``send``, ``receive``
    or ``wait``.
    """
    candidates = calls.are(
        *{"send": ("send", "both", "start"), "receive": ("receive", "both"), "wait": ("wait",)}[end]
    )
    at_end = (
        np.ones(len(candidates), bool)
        if end == "wait"
        else calls.nonblocking[candidates] & (end == "receive")
    )
    many = (
        calls.does("start", "startall") if end == "send" else calls.does(*_MANY) & (end == "wait")
    )
    start, done = calls.start[candidates], calls.end[candidates]
    return Ends(
        candidates,
        np.searchsorted(candidates, calls.first),
        start,
        done,
        np.where(at_end, done, start),
        many[candidates],
    )


def assigned(ends: Ends, thread: Int, time: Int) -> Int:
    """Assign each message to a call, and return the calls in the order of the messages.

    A message gets -1 where no call fits, or where each that fits has its message.

    Parameters
    ----------
    thread : index of each message's thread among those that call MPI; -1 where the thread makes no
        calls.
    time : time of that end of the message [ns].
    """
    last = _before(ends, thread, time)
    fits = last >= 0
    fits[fits] = ends.end[last[fits]] >= time[fits]
    previous = last - 1
    several = fits & (previous >= ends.first[thread])
    several[several] = ends.end[previous[several]] >= time[several]
    entangled = np.zeros(len(ends.calls), dtype=bool)
    depth, open_messages = 0, np.flatnonzero(several)
    while len(open_messages) and depth < _MOST_TIED:
        candidate = last[open_messages] - depth
        inside = (candidate >= ends.first[thread[open_messages]]) & (
            ends.end[candidate] >= time[open_messages]
        )
        open_messages = open_messages[inside]
        entangled[candidate[inside]] = True
        depth += 1
    out = np.full(len(thread), -1, dtype=np.int64)
    plain = fits.copy()
    plain[fits] = ~entangled[last[fits]]
    unambiguous = np.flatnonzero(plain)
    candidate = last[unambiguous]
    taken = np.zeros(len(unambiguous), dtype=bool)
    taken[np.unique(candidate, return_index=True)[1]] = True
    taken |= ends.many[candidate]
    out[unambiguous[taken]] = candidate[taken]
    _one_by_one(ends, np.flatnonzero(fits & ~plain), thread, time, last, out)
    out[out >= 0] = ends.calls[out[out >= 0]]
    return out


def _before(ends: Ends, thread: Int, time: Int) -> Int:
    """Return the last call of each message's thread that begins no later than the message's time;
    -1 where there is none.
    """
    out = np.full(len(thread), -1, dtype=np.int64)
    order = np.argsort(thread, kind="stable")
    bounds = np.searchsorted(thread[order], np.arange(len(ends.first)))
    for place in np.flatnonzero(np.diff(bounds)).tolist():
        messages = order[bounds[place] : bounds[place + 1]]
        low, high = ends.first[place], ends.first[place + 1]
        candidate = low + np.searchsorted(ends.start[low:high], time[messages], side="right") - 1
        out[messages] = np.where(candidate >= low, candidate, -1)
    return out


def _one_by_one(
    ends: Ends, messages: Int, thread: Int, time: Int, last: Int, out: NDArray[Any]
) -> None:
    """Assign messages at times that several calls fit: each takes the first call that is free."""
    fitting: dict[tuple[int, int], deque[int]] = {}
    taken: set[int] = set()
    for message in messages.tolist():
        place, instant = int(thread[message]), int(time[message])
        queue = fitting.get((place, instant))
        if queue is None:
            stop = begin = int(last[message]) + 1
            low = int(ends.first[place])
            while begin > low and stop - begin < _MOST_TIED and ends.end[begin - 1] >= instant:
                begin -= 1
            queue = fitting[place, instant] = deque(
                sorted(range(begin, stop), key=lambda call: bool(ends.exact[call] != instant))
            )
        while queue and queue[0] in taken:
            queue.popleft()
        if queue:
            out[message] = queue[0]
            if not ends.many[queue[0]]:
                taken.add(queue[0])
