"""MPI calls of a Paje trace: the outermost states of each container that are MPI's, what lies between them, and links inside.

Events are taken a part of the file at a time; what is open at its end is kept for the next.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnbuckle.mpi.readers.paje.blocks import POP, PUSH, RESET, SOFT, START
from turnbuckle.mpi.readers.paje.events import Events
from turnbuckle.trace.readers.parts.columns import Columns, sorted_by
from turnbuckle.trace.readers.parts.first_come import FirstCome
from turnbuckle.trace.readers.parts.mpi_tables import LARGEST_NS, NO
from turnbuckle.trace.readers.parts.text_numbers import Int, Mask

#: Calls inside calls.
MOST_NESTED: Final = 4096
#: Events that are taken together at least.
_ENOUGH: Final = 1 << 15


class _States(NamedTuple):
    """Events of states, by container and then in their order; times in ns; the call is -1 where there is none, or not yet."""

    kind: NDArray[Any]
    place: NDArray[Any]
    time: NDArray[Any]
    value: NDArray[Any]
    event: NDArray[Any]
    size: NDArray[Any]
    call: NDArray[Any]

    def of(self, which: NDArray[Any]) -> _States:
        """Some of them."""
        return _States(*(column[which] for column in self))


class Calls:
    """Calls, in the order of the file.

    Attributes
    ----------
    calls : events at which each begins and ends (the number of all events where the file ends before it), container, value, size, start
        and end [ns].
    links : ends of links in their order: event, whether a link begins there, container, size, call that is open there (-1: none).
    ranges : start, end [ns], container and value of what is no call and in none, in the order in which they end.
    too_deep : events that would begin a state inside too many others.
    unbalanced : ends without a begin, and begins without an end.
    inside : calls inside calls.
    """

    def __init__(self) -> None:
        self.calls = Columns(begins="q", ends="q", place="i", value="i", size="q", start="q", end="q")
        self.links = Columns(event="q", starts="b", place="i", size="q", call="q")
        self.ranges = Columns(start="q", end="q", place="i", value="i")
        self.too_deep: list[int] = []
        self.unbalanced = self.inside = 0
        self._events = 0
        self._open = _States(*(np.zeros(0, dtype=np.int64) for _ in _States._fields))
        #: of each container its first state's time and the latest time of a state's begin or end [ns]
        self._first, self._latest = (np.zeros(0, dtype=np.int64) for _ in range(2))

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def first(self) -> int:
        """Earliest of the containers' first states [ns]."""
        return int(self._first.min(initial=LARGEST_NS))

    @property
    def earliest_end(self) -> int:
        """Of the calls that do not end before they begin [ns]."""
        end = self.calls["end"]
        return int(end[end >= self.calls["start"]].min(initial=LARGEST_NS))

    def take(self, events: Events, last: bool = False) -> None:
        """Take the events that have been read, once they are enough, or the file's last."""
        # what is open is looked at every time: the more it is, the more rarely
        if len(events.events) < max(_ENOUGH, 2 * len(self._open.kind)) and not last:
            return
        kind, place, time, value, size = (events.events[name] for name in ("kind", "place", "time", "value", "size"))
        calls = events.calls()
        grown = len(events.places) - len(self._latest)
        self._first = np.append(self._first, np.full(grown, LARGEST_NS))
        self._latest = np.append(self._latest, np.zeros(grown, dtype=np.int64))
        which = np.flatnonzero(kind <= RESET)
        event = self._events + which
        new = _States(kind[which], place[which], time[which], value[which], event, size[which], np.full(len(which), -1))
        both = _States(*(np.concatenate(pair) for pair in zip(self._open, new, strict=True)))
        states = both.of(sorted_by(both.place))
        stacks = _Stacks(states)
        if stacks.deepest > MOST_NESTED:
            dropped = _too_deep(states.kind, states.place)
            self.too_deep += states.event[dropped].tolist()
            kept = np.ones(len(states.kind), dtype=bool)
            kept[dropped] = False
            states = states.of(kept)
            stacks = _Stacks(states)
        states = self._settle(states, stacks, calls)
        at = np.flatnonzero(kind >= START)
        self._links(self._events + at, kind[at] == START, place[at], size[at], states, self._events + len(kind))
        self._events += len(kind)
        events.taken()
        if last:
            self._end()

    def _settle(self, states: _States, stacks: _Stacks, is_call: Mask) -> _States:
        """Calls and ranges that begin or end, and what stays open; returns the states with their calls."""
        kind, place, time, value, event, size, call = states
        new = event >= self._events
        moved = new & (stacks.push | stacks.pops | ((kind == RESET) & (stacks.depth > 0)))
        where = place[moved]
        of_place = np.flatnonzero(np.diff(where, prepend=-1))
        if len(of_place):
            latest = np.maximum.reduceat(time[moved], of_place)
            self._latest[where[of_place]] = np.maximum(self._latest[where[of_place]], latest)
        self.unbalanced += int(((kind == POP) & ~stacks.pops).sum())
        ended_by = stacks.ended_by()
        pushes = np.flatnonzero(stacks.push)
        within = stacks.calls_around(is_call[value], ended_by)[pushes]
        mpi = is_call[value[pushes]]
        fresh = new[pushes]
        self.inside += int((mpi & fresh & (within > 0)).sum())
        begun, first = np.unique(place[pushes[fresh]], return_index=True)
        unset = self._first[begun] == LARGEST_NS
        self._first[begun[unset]] = time[pushes[fresh][first]][unset]

        outer = pushes[mpi & fresh & (within == 0)]
        outer = outer[np.argsort(event[outer], kind="stable")]
        call = call.copy()
        call[outer] = len(self.calls) + np.arange(len(outer))
        unknown = np.full(len(outer), -1)
        self.calls.add(event[outer], unknown, place[outer], value[outer], size[outer], time[outer], unknown)
        ended = ended_by[pushes] >= 0
        closed = pushes[ended & (call[pushes] >= 0)]
        self.calls["end"][call[closed]] = time[ended_by[closed]]
        self.calls["ends"][call[closed]] = event[ended_by[closed]]
        self._between(states, pushes[ended & ~mpi & (within == 0)], time[ended_by], event[ended_by])
        states = states._replace(call=call)
        self._open = states.of(pushes[~ended])
        return states

    def _between(self, states: _States, which: Int, end: Int, ended_by: Int) -> None:
        """States that are no calls and in none; of those that end together the innermost ends first."""
        which = which[end[which] > states.time[which]][::-1]
        which = which[np.argsort(ended_by[which], kind="stable")]
        self.ranges.add(states.time[which], end[which], states.place[which], states.value[which])

    def _links(self, event: Int, starts: Mask, place: NDArray[Any], size: Int, states: _States, span: int) -> None:
        """Ends of links, and the call that is open at each in its container; all events are below `span`."""
        found = np.full(len(event), -1, dtype=np.int64)
        at = np.flatnonzero(states.call >= 0)
        if len(at) and len(event):
            # calls of one container follow each other
            begins = states.place[at].astype(np.int64) * span + states.event[at]
            last = np.searchsorted(begins, place.astype(np.int64) * span + event) - 1
            call = states.call[at[np.maximum(last, 0)]]
            ends = self.calls["ends"][call]
            inside = (last >= 0) & (self.calls["place"][call] == place) & ((ends < 0) | (ends > event))
            found[inside] = call[inside]
        self.links.add(event, starts, place, size, found)

    def _end(self) -> None:
        """The file ends: everything that is open does, at its container's latest time."""
        states = self._open
        self.unbalanced += len(states.kind)
        end = self._latest[states.place]
        closed = np.flatnonzero(states.call >= 0)
        self.calls["end"][states.call[closed]] = end[closed]
        self.calls["ends"][states.call[closed]] = self._events
        stacks = _Stacks(states)
        nothing = np.full(len(end), -1, dtype=np.int64)
        # a state around a call is open when the call has ended
        within = stacks.calls_around(states.call >= 0, nothing)
        self._between(states, np.flatnonzero((within == 0) & (states.call < 0)), end, states.place)


class _Stacks:
    """States of each container: how deep they are, and which event ends which."""

    def __init__(self, states: _States) -> None:
        kind, place = states.kind, states.place
        self._resets = np.flatnonzero(kind == RESET)
        begins = np.ones(len(kind), dtype=bool)
        begins[1:] = (place[1:] != place[:-1]) | (kind[:-1] == RESET)
        self.span = np.cumsum(begins) - 1
        self._first = np.flatnonzero(begins)
        self.push = kind == PUSH
        stack = FirstCome(self.span, self.push, (kind == POP) | (kind == SOFT))
        self.depth, self.pops = stack.waiting, stack.served > 0
        self.deepest = int(self.depth.max(initial=0))

    def ended_by(self) -> Int:
        """Of each event that begins a state, the one that ends it; -1 where none does."""
        moves = np.flatnonzero(self.push | self.pops)
        level = self.depth[moves] + self.pops[moves]
        # at one level of one stack begins and ends alternate
        order = moves[sorted_by(self.span[moves] * (self.deepest + 1) + level)]
        out = np.full(len(self.push), -1, dtype=np.int64)
        after = np.flatnonzero(self.push[order[:-1]] & self.pops[order[1:]])
        out[order[after]] = order[after + 1]
        resets = np.full(len(self._first), -1, dtype=np.int64)
        resets[self.span[self._resets]] = self._resets
        left = np.flatnonzero(self.push & (out < 0))
        out[left] = resets[self.span[left]]
        return out

    def calls_around(self, is_call: Mask, ended_by: Int) -> Int:
        """How many calls are open just before each event that begins a state."""
        step = (self.push & is_call).astype(np.int64)
        ended = ended_by[np.flatnonzero(step)]
        ended = ended[ended >= 0]
        step[ended[self.pops[ended]]] = -1
        level = np.cumsum(step) - step
        before: Int = level - level[self._first][self.span]
        return before


def _too_deep(kind: NDArray[Any], place: NDArray[Any]) -> list[int]:
    """Which events would begin a state inside `MOST_NESTED` others."""
    out = []
    depth, before = 0, NO
    for at, (what, where) in enumerate(zip(kind.tolist(), place.tolist(), strict=True)):
        if where != before or what == RESET:
            depth, before = 0, where
        if what == PUSH:
            if depth < MOST_NESTED:
                depth += 1
            else:
                out.append(at)
        elif what != RESET:
            depth = max(0, depth - 1)
    return out
