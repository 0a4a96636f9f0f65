"""Which calls of a Paraver trace are the ends of a message: they are found by the times of its record.

A send is at its call's begin, a receive too (of an Irecv: at its return), and a message is there at the end of its wait.  Where the
clock is coarse several calls fit: those that begin or end right then come first, and each has one message, in the order of both.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.mpi.readers.paraver.calls import Calls
from turnbuckle.trace.readers.parts.text_numbers import Int, Mask

_MANY: Final = ("waitall", "waitsome", "testall", "testsome")
#: Calls of one thread at one instant that are looked at.
_MOST_TIED: Final = 512


@dataclass(frozen=True)
class Ends:
    """The calls that can be one end of a message.

    Attributes
    ----------
    calls : which they are, by thread and begin; the other columns are of them.
    first : place of each thread's first, and behind the last one's last.
    exact : the time at which a message is this one's before all others [ns].
    many : whether it can have several messages.
    """

    calls: Int
    first: Int
    start: Int
    end: Int
    exact: Int
    many: Mask


def ends(calls: Calls, end: str) -> Ends:
    """The calls that can send, receive or complete a message: `end` is ``send``, ``receive`` or ``wait``."""
    which = calls.are(*{"send": ("send", "both", "start"), "receive": ("receive", "both"), "wait": ("wait",)}[end])
    at_end = np.ones(len(which), bool) if end == "wait" else calls.later[which] & (end == "receive")
    many = calls.does("start", "startall") if end == "send" else calls.does(*_MANY) & (end == "wait")
    start, done = calls.start[which], calls.end[which]
    return Ends(which, np.searchsorted(which, calls.first), start, done, np.where(at_end, done, start), many[which])


def given(ends: Ends, thread: Int, time: Int) -> Int:
    """The call that has each message, in the order of the messages; -1 where none fits, or all that do have theirs.

    Parameters
    ----------
    thread : of the end of each message, its place among those that call MPI; -1 where it does not.
    time : of that end [ns].
    """
    last = _before(ends, thread, time)
    fits = last >= 0
    fits[fits] = ends.end[last[fits]] >= time[fits]
    previous = last - 1
    several = fits & (previous >= ends.first[thread])
    several[several] = ends.end[previous[several]] >= time[several]
    entangled = np.zeros(len(ends.calls), dtype=bool)
    depth, open_ = 0, np.flatnonzero(several)
    while len(open_) and depth < _MOST_TIED:
        at = last[open_] - depth
        inside = (at >= ends.first[thread[open_]]) & (ends.end[at] >= time[open_])
        open_ = open_[inside]
        entangled[at[inside]] = True
        depth += 1
    out = np.full(len(thread), -1, dtype=np.int64)
    plain = fits.copy()
    plain[fits] = ~entangled[last[fits]]
    alone = np.flatnonzero(plain)
    at = last[alone]
    taken = np.zeros(len(alone), dtype=bool)
    taken[np.unique(at, return_index=True)[1]] = True
    taken |= ends.many[at]
    out[alone[taken]] = at[taken]
    _one_by_one(ends, np.flatnonzero(fits & ~plain), thread, time, last, out)
    out[out >= 0] = ends.calls[out[out >= 0]]
    return out


def _before(ends: Ends, thread: Int, time: Int) -> Int:
    """Of each message the last call of its thread that begins no later; -1 where there is none."""
    out = np.full(len(thread), -1, dtype=np.int64)
    order = np.argsort(thread, kind="stable")
    bounds = np.searchsorted(thread[order], np.arange(len(ends.first)))
    for place in np.flatnonzero(np.diff(bounds)).tolist():
        mine = order[bounds[place] : bounds[place + 1]]
        low, high = ends.first[place], ends.first[place + 1]
        found = low + np.searchsorted(ends.start[low:high], time[mine], side="right") - 1
        out[mine] = np.where(found >= low, found, -1)
    return out


def _one_by_one(ends: Ends, messages: Int, thread: Int, time: Int, last: Int, out: NDArray[Any]) -> None:
    """Messages at times that several calls fit: each takes the first that is free."""
    fitting: dict[tuple[int, int], deque[int]] = {}
    taken: set[int] = set()
    for message in messages.tolist():
        place, when = int(thread[message]), int(time[message])
        queue = fitting.get((place, when))
        if queue is None:
            stop = begin = int(last[message]) + 1
            low = int(ends.first[place])
            while begin > low and stop - begin < _MOST_TIED and ends.end[begin - 1] >= when:
                begin -= 1
            queue = fitting[place, when] = deque(sorted(range(begin, stop), key=lambda call: bool(ends.exact[call] != when)))
        while queue and queue[0] in taken:
            queue.popleft()
        if queue:
            out[message] = queue[0]
            if not ends.many[queue[0]]:
                taken.add(queue[0])
