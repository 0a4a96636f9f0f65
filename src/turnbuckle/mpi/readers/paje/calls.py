"""MPI calls of a Paje trace: the outermost MPI states of each container, the ranges between them,
and the links inside them.

Events are processed a part of the file at a time, and states that are open at the end of a part are
kept for the next.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.mpi.readers.paje.blocks import POP, PUSH, RESET, SOFT, START
from turnbuckle.mpi.readers.paje.events import Events
from turnbuckle.trace.readers.parts.columns import Columns, sorted_by
from turnbuckle.trace.readers.parts.first_come import FirstCome
from turnbuckle.trace.readers.parts.mpi_tables import LARGEST_NS, NO

#: Deepest nesting of states that is kept.
MOST_NESTED: Final = 4096
#: Smallest number of events that are processed together.
_ENOUGH: Final = 1 << 15


class _States(NamedTuple):
    """Begins and ends of states, by container and then in order [ns].

    The call is -1 where an event belongs to no call, or not yet.
    """

    kind: NDArray[Any]
    place: NDArray[Any]
    time: NDArray[Any]
    value: NDArray[Any]
    event: NDArray[Any]
    size: NDArray[Any]
    call: NDArray[Any]

    def of(self, selection: NDArray[Any]) -> _States:
        """Return the selected states."""
        return _States(*(column[selection] for column in self))


class Calls:
    """MPI calls in the order of the file.

    Attributes
    ----------
    calls : events at which each call begins and ends (the number of all events where the file ends
        first), container, value, size, start and end [ns].
    links : ends of links in their order: event, whether the link begins there, container, size,
        call that is open there (-1: none).
    ranges : start, end [ns], container and value of the states that are neither calls nor inside
        calls, in the order of their ends.
    too_deep : events that would begin a state inside `MOST_NESTED` others; they are dropped.
    unbalanced : number of ends without a begin and of begins without an end.
    """

    def __init__(self) -> None:
        self.calls = Columns(
            begins="q", ends="q", place="i", value="i", size="q", start="q", end="q"
        )
        self.links = Columns(event="q", starts="b", place="i", size="q", call="q")
        self.ranges = Columns(start="q", end="q", place="i", value="i")
        self.too_deep: list[int] = []
        self.unbalanced = self.inside = 0
        self._events = 0
        self._open = _States(*(np.zeros(0, dtype=np.int64) for _ in _States._fields))
        #: time of each container's first state, and latest time at which one of its states begins
        #: or ends [ns]
        self._first, self._latest = (np.zeros(0, dtype=np.int64) for _ in range(2))

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def first(self) -> int:
        """Return the earliest begin of the containers' first states [ns]."""
        return int(self._first.min(initial=LARGEST_NS))

    @property
    def earliest_end(self) -> int:
        """Return the earliest end of the calls that do not end before they begin [ns]."""
        end = self.calls["end"]
        return int(end[end >= self.calls["start"]].min(initial=LARGEST_NS))

    def take(self, events: Events, last: bool = False) -> None:
        """Process the events that were read, once there are enough of them or the file has
        ended.
        """
        # All open states are sorted again each time, so many of them call for rarer processing.
        if len(events.events) < max(_ENOUGH, 2 * len(self._open.kind)) and not last:
            return
        kind, place, time, value, size = (
            events.events[name] for name in ("kind", "place", "time", "value", "size")
        )
        calls = events.calls()
        added = len(events.places) - len(self._latest)
        self._first = np.append(self._first, np.full(added, LARGEST_NS))
        self._latest = np.append(self._latest, np.zeros(added, dtype=np.int64))
        state_events = np.flatnonzero(kind <= RESET)
        event = self._events + state_events
        new = _States(
            kind[state_events],
            place[state_events],
            time[state_events],
            value[state_events],
            event,
            size[state_events],
            np.full(len(state_events), -1),
        )
        joined = _States(*(np.concatenate(pair) for pair in zip(self._open, new, strict=True)))
        states = joined.of(sorted_by(joined.place))
        stacks = _Stacks(states)
        if stacks.deepest > MOST_NESTED:
            dropped = _too_deep(states.kind, states.place)
            self.too_deep += states.event[dropped].tolist()
            kept = np.ones(len(states.kind), dtype=bool)
            kept[dropped] = False
            states = states.of(kept)
            stacks = _Stacks(states)
        states = self._settle(states, stacks, calls)
        link_ends = np.flatnonzero(kind >= START)
        self._links(
            self._events + link_ends,
            kind[link_ends] == START,
            place[link_ends],
            size[link_ends],
            states,
            self._events + len(kind),
        )
        self._events += len(kind)
        events.taken()
        if last:
            self._end()

    def _settle(self, states: _States, stacks: _Stacks, is_call: Bool) -> _States:
        """Store the calls and ranges that begin or end, keep what stays open, and return the states
        with their calls.
        """
        kind, place, time, value, event, size, call = states
        new = event >= self._events
        moved = new & (stacks.push | stacks.pops | ((kind == RESET) & (stacks.depth > 0)))
        moved_place = place[moved]
        first_of_place = np.flatnonzero(np.diff(moved_place, prepend=-1))
        if len(first_of_place):
            latest = np.maximum.reduceat(time[moved], first_of_place)
            self._latest[moved_place[first_of_place]] = np.maximum(
                self._latest[moved_place[first_of_place]], latest
            )
        self.unbalanced += int(((kind == POP) & ~stacks.pops).sum())
        ended_by = stacks.ended_by()
        pushes = np.flatnonzero(stacks.push)
        calls_around = stacks.calls_around(is_call[value], ended_by)[pushes]
        starts_call = is_call[value[pushes]]
        is_new = new[pushes]
        self.inside += int((starts_call & is_new & (calls_around > 0)).sum())
        begun, first = np.unique(place[pushes[is_new]], return_index=True)
        unset = self._first[begun] == LARGEST_NS
        self._first[begun[unset]] = time[pushes[is_new][first]][unset]

        outer = pushes[starts_call & is_new & (calls_around == 0)]
        outer = outer[np.argsort(event[outer], kind="stable")]
        call = call.copy()
        call[outer] = len(self.calls) + np.arange(len(outer))
        not_yet = np.full(len(outer), -1)
        self.calls.add(
            event[outer], not_yet, place[outer], value[outer], size[outer], time[outer], not_yet
        )
        ended = ended_by[pushes] >= 0
        closed = pushes[ended & (call[pushes] >= 0)]
        self.calls["end"][call[closed]] = time[ended_by[closed]]
        self.calls["ends"][call[closed]] = event[ended_by[closed]]
        self._between(
            states,
            pushes[ended & ~starts_call & (calls_around == 0)],
            time[ended_by],
            event[ended_by],
        )
        states = states._replace(call=call)
        self._open = states.of(pushes[~ended])
        return states

    def _between(self, states: _States, pushes: Int, end: Int, ended_by: Int) -> None:
        """Store the states that are neither calls nor inside calls; of those that end together the
        innermost comes first.
        """
        pushes = pushes[end[pushes] > states.time[pushes]][::-1]
        pushes = pushes[np.argsort(ended_by[pushes], kind="stable")]
        self.ranges.add(
            states.time[pushes], end[pushes], states.place[pushes], states.value[pushes]
        )

    def _links(
        self, event: Int, starts: Bool, place: NDArray[Any], size: Int, states: _States, span: int
    ) -> None:
        """Store ends of links with the call that is open at each in its container; `span` exceeds
        every event.
        """
        open_call = np.full(len(event), -1, dtype=np.int64)
        call_begins = np.flatnonzero(states.call >= 0)
        if len(call_begins) and len(event):
            # Calls of one container never overlap, so the last one that began is the only
            # candidate.
            begins = states.place[call_begins].astype(np.int64) * span + states.event[call_begins]
            last = np.searchsorted(begins, place.astype(np.int64) * span + event) - 1
            call = states.call[call_begins[np.maximum(last, 0)]]
            ends = self.calls["ends"][call]
            inside = (
                (last >= 0) & (self.calls["place"][call] == place) & ((ends < 0) | (ends > event))
            )
            open_call[inside] = call[inside]
        self.links.add(event, starts, place, size, open_call)

    def _end(self) -> None:
        """End all open states at their container's latest time, because the file ends."""
        states = self._open
        self.unbalanced += len(states.kind)
        end = self._latest[states.place]
        closed = np.flatnonzero(states.call >= 0)
        self.calls["end"][states.call[closed]] = end[closed]
        self.calls["ends"][states.call[closed]] = self._events
        stacks = _Stacks(states)
        no_end = np.full(len(end), -1, dtype=np.int64)
        # A state around a call is not inside it, so calls around each state are counted at its own
        # begin.
        around = stacks.calls_around(states.call >= 0, no_end)
        self._between(states, np.flatnonzero((around == 0) & (states.call < 0)), end, states.place)


class _Stacks:
    """Stack of the states of each container: the depth after each event, and which event ends which
    state.
    """

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
        """Return the event that ends each state, for each event that begins one; -1 where none
        does.
        """
        moves = np.flatnonzero(self.push | self.pops)
        level = self.depth[moves] + self.pops[moves]
        # At one level of one stack begins and ends alternate.
        order = moves[sorted_by(self.span[moves] * (self.deepest + 1) + level)]
        out = np.full(len(self.push), -1, dtype=np.int64)
        after = np.flatnonzero(self.push[order[:-1]] & self.pops[order[1:]])
        out[order[after]] = order[after + 1]
        resets = np.full(len(self._first), -1, dtype=np.int64)
        resets[self.span[self._resets]] = self._resets
        left = np.flatnonzero(self.push & (out < 0))
        out[left] = resets[self.span[left]]
        return out

    def calls_around(self, is_call: Bool, ended_by: Int) -> Int:
        """Return how many calls are open just before each event that begins a state."""
        step = (self.push & is_call).astype(np.int64)
        ended = ended_by[np.flatnonzero(step)]
        ended = ended[ended >= 0]
        step[ended[self.pops[ended]]] = -1
        level = np.cumsum(step) - step
        before: Int = level - level[self._first][self.span]
        return before


def _too_deep(kind: NDArray[Any], place: NDArray[Any]) -> list[int]:
    """Return the events that would begin a state inside `MOST_NESTED` others."""
    out = []
    depth, before = 0, NO
    for index, (event_kind, container) in enumerate(
        zip(kind.tolist(), place.tolist(), strict=True)
    ):
        if container != before or event_kind == RESET:
            depth, before = 0, container
        if event_kind == PUSH:
            if depth < MOST_NESTED:
                depth += 1
            else:
                out.append(index)
        elif event_kind != RESET:
            depth = max(0, depth - 1)
    return out
