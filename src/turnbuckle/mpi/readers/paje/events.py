"""Events of a Paje trace as columns: states that begin and end, ends of links."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.mpi.readers.paje.blocks import END, KEY_WORDS, POP, PUSH, RESET, SOFT, START, UNREAD, Block
from turnbuckle.mpi.readers.paje.lines import Lines, number
from turnbuckle.trace.readers.parts.columns import Columns
from turnbuckle.trace.readers.parts.mpi_tables import MOST_RANKS, NO, operation, sort_of
from turnbuckle.trace.readers.parts.text_numbers import Int, Mask, Words

_KEY: Final = re.compile(rb"\d{1,18}_\d{1,18}_(-?\d{1,18})_\d{1,18}")
#: A block that is shorter is read line by line [B], and so are fewer lines than that between two that are.
_SHORT: Final = 4096
_FEW: Final = 8
#: Share of the lines of a block that may be read alone before all are.
_MANY: Final = 8


@dataclass(slots=True)
class Value:
    """What a state's value means, and the line in which it was seen first."""

    name: str
    does: str
    sort: str
    line: int


@dataclass(slots=True)
class _Place:
    """A container: its place among those that have states, once it has."""

    name: str
    number: int


class Events(Lines):
    """The events that tell calls and messages.

    Attributes
    ----------
    events : those that nobody has taken: kind, container (of `places`), time [ns], value (of `values`; of a state that begins), elements
        or bytes.
    links : of events that are ends of links, in their order: the key, its tag, whether it has one.
    values, places : what events refer to; names of containers.
    """

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.events = Columns(kind="b", place="i", time="q", value="i", size="q")
        self.links = Columns(**{f"key{n}": "Q" for n in range(KEY_WORDS)}, tag="q", tagged="b")
        self.values: list[Value] = []
        self.places: list[str] = []
        self.states: Counter[str] = Counter()
        self._value_of: dict[bytes, int] = {}
        self._texts: dict[bytes, bytes] = {}
        self._containers: dict[bytes, _Place] = {}
        self._named: dict[bytes, _Place] = {}
        self._long: dict[bytes, int] = {}
        self._is_call = array("b")
        #: events that were taken
        self._taken = 0
        self._known_values, self._known_places = _Known(), _Known()
        #: from which event on its line is how many behind it
        self._from_event, self._behind = array("q", [0]), array("q", [0])

    def block(self, block: bytes) -> None:
        """Whole lines of the file.  Raises `ProfileError` P027, P029."""
        cut = block.rfind(b"\n%") + 1 or (1 if block.startswith(b"%") else 0)
        if cut:
            cut = (block.find(b"\n", cut) + 1) or len(block)
        rest = block[cut:]
        if len(rest) < _SHORT:
            cut, rest = len(block), b""
        lines = block[:cut].split(b"\n")
        for line in lines if lines[-1] else lines[:-1]:
            self.line(line)
        if not rest:
            return
        found = Block(rest if rest.endswith(b"\n") else rest + b"\n", self.layouts)
        alone: Sequence[int] = np.flatnonzero(found.layout < 0).tolist()
        if len(alone) * _MANY > found.count:
            alone = range(found.count)
        low = 0
        for high in [*alone, found.count]:
            if high > low:
                self._together(found, low, high)
            if high < found.count:
                self.line(found.line(high))
            low = high + 1

    # --- many lines at once ---

    def _together(self, block: Block, low: int, high: int) -> None:
        """Plain lines of a block."""
        kind = block.kind[low:high]
        told = np.flatnonzero(kind != UNREAD)
        pushes = told[kind[told] == PUSH]
        places = self._known_places.of(block.place[low:high][told], self._places_new) if high - low >= _FEW else None
        if places is None:
            for line in range(low, high):
                self.line(block.line(line))
            return
        value = np.zeros(len(told), dtype=np.int32)
        found = self._known_values.of(block.value[low:high][pushes], lambda new, at: self._values_new(new, pushes[at]))
        value[kind[told] == PUSH] = 0 if found is None else found
        layout = block.layout[low:high]
        counts = np.bincount(layout, minlength=len(self.layouts))
        names = [one.name for one in self.layouts.values()]
        which = np.flatnonzero(counts)
        if any(names[at] not in self.counts for at in which):
            # in the order in which they appear
            which = which[np.argsort([int((layout == at).argmax()) for at in which])]
        for at in which.tolist():
            self.counts[names[at]] += int(counts[at])
        self.last = max(self.last, int(block.time[low:high][told].max(initial=0)))
        # where an event's line is unread, the next event's line is one more behind it
        behind = self.lines + told - self.count - np.arange(len(told))
        self._mark(behind)
        self.events.add(kind[told], places, block.time[low:high][told], value, block.size[low:high][told])
        ends = low + told[kind[told] >= START]
        self.links.add(*block.key[ends].T, block.tag[ends], np.ones(len(ends)))
        self.lines += high - low

    def _mark(self, behind: Int) -> None:
        """How far the lines of the next events are behind them."""
        new = np.flatnonzero(np.diff(behind, prepend=self._behind[-1]))
        self._from_event.extend((self.count + new).tolist())
        self._behind.extend(behind[new].tolist())

    def taken(self) -> None:
        """The events that are held are no longer needed."""
        self._taken += len(self.events)
        self.events.clear()

    @property
    def count(self) -> int:
        """All events so far."""
        return self._taken + len(self.events)

    def calls(self) -> Mask:
        """Which values are calls; the last is none."""
        return np.append(np.array(self._is_call, dtype=bool), False)

    def line_of(self, event: Int) -> Int:
        """Lines of events, by their place among all lines of events."""
        starts, behind = (np.frombuffer(column, dtype=np.int64) for column in (self._from_event, self._behind))
        return event + behind[np.searchsorted(starts, event, side="right") - 1]

    def _places_new(self, new: list[bytes], at: Int) -> list[int] | None:
        """Numbers of containers that have their first states; None where one was not created."""
        del at
        found = [self._containers.get(key) or self._named.get(key) for key in new]
        if any(place is None for place in found) or len(self.places) + len(new) > MOST_RANKS:
            return None
        return [self._place(key) for key in new]

    def _values_new(self, new: list[bytes], at: Int) -> list[int]:
        return [self._value(key, self.lines + int(line)) for key, line in zip(new, at.tolist(), strict=True)]

    # --- a line alone: definitions of types and values, of which only names matter ---

    def _define_container_type(self, fields: Sequence[bytes]) -> None:
        del fields

    _define_state_type = _define_link_type = _define_container_type

    def _define_entity_value(self, fields: Sequence[bytes]) -> None:
        name, alias = fields
        if alias:
            self._texts[alias] = name
            if self._value_of.pop(alias, None) is not None:
                self._known_values = _Known()

    def _create_container(self, fields: Sequence[bytes]) -> None:
        time, name, alias, _ = fields
        self._time(time)
        if not (name or alias):
            raise ValueError("a container without a name")
        place = _Place((name or alias).decode("utf-8", "replace"), -1)
        # an alias counts before the name of another container, which may have been used
        if self._known_places.used:
            self._known_places = _Known()
        if alias:
            self._containers.setdefault(alias, place)
        if name:
            self._named.setdefault(name, place)

    def _destroy_container(self, fields: Sequence[bytes]) -> None:
        self._time(fields[0])

    def _place(self, key: bytes) -> int:
        place = self._containers.get(key) or self._named.get(key)
        if place is None:
            raise ValueError("a container that was not created")
        if place.number < 0:
            if len(self.places) >= MOST_RANKS:
                raise ValueError("more containers than ranks can be told apart")
            place.number = len(self.places)
            self.places.append(place.name)
        return place.number

    def _value(self, key: bytes, line: int) -> int:
        value = self._value_of.get(key)
        if value is None:
            name = self._texts.get(key, key).decode("utf-8", "replace")
            does = operation(name)
            value = self._value_of[key] = len(self.values)
            self._is_call.append(bool(does))
            self.values.append(Value(name, does, sort_of(does) if does else "", line))
            if len(self.states) < 64:
                self.states[name] += 1
        return value

    # --- events ---

    def _event(self, kind: int, place: int, time: int, value: int = 0, size: int = NO) -> None:
        behind = self.lines - self.count
        if behind != self._behind[-1]:
            self._from_event.append(self.count)
            self._behind.append(behind)
        self.events.append(kind, place, time, value, size)

    def _push_state(self, fields: Sequence[bytes]) -> None:
        time, place, value = self._time(fields[0]), self._place(fields[1]), self._value(fields[2], self.lines)
        self._event(PUSH, place, time, value, number(fields[4]))

    def _set_state(self, fields: Sequence[bytes]) -> None:
        time, place = self._time(fields[0]), self._place(fields[1])
        self._event(SOFT, place, time)
        self._push_state(fields)

    def _pop_state(self, fields: Sequence[bytes]) -> None:
        time, place = self._time(fields[0]), self._place(fields[1])
        self._event(POP, place, time)

    def _reset_state(self, fields: Sequence[bytes]) -> None:
        time, place = self._time(fields[0]), self._place(fields[1])
        self._event(RESET, place, time)

    def _start_link(self, fields: Sequence[bytes]) -> None:
        time, place, size = self._time(fields[0]), self._place(fields[1]), number(fields[3])
        self._event(START, place, time, 0, size)
        self._key(fields[2])

    def _end_link(self, fields: Sequence[bytes]) -> None:
        time, place = self._time(fields[0]), self._place(fields[1])
        self._event(END, place, time)
        self._key(fields[2])

    def _key(self, key: bytes) -> None:
        """A link's key as words: its letters, or where they are too many its number among such."""
        found = _KEY.fullmatch(key)
        if len(key) <= 8 * KEY_WORDS and 0 not in key:
            words = [int.from_bytes(key[at : at + 8], "little") for at in range(0, 8 * KEY_WORDS, 8)]
        else:
            # no letters are all 0 but the last
            words = [*[0] * (KEY_WORDS - 2), self._long.setdefault(key, len(self._long)), 1 << 56]
        self.links.append(*words, int(found[1]) if found else 0, found is not None)


_More = Callable[[list[bytes], Int], list[int] | None]


class _Known:
    """Numbers of words of at most eight letters."""

    def __init__(self) -> None:
        self._words: Words = np.zeros(0, dtype=np.uint64)
        self._numbers = np.zeros(0, dtype=np.int32)

    @property
    def used(self) -> bool:
        """Whether there are any."""
        return len(self._words) > 0

    def of(self, words: Words, more: _More) -> NDArray[np.int32] | None:
        """The number of each; those that are not known are asked for in the order in which they appear."""
        if len(self._words):
            at = np.minimum(np.searchsorted(self._words, words), len(self._words) - 1)
            missing = np.flatnonzero(self._words[at] != words)
            if not len(missing):
                return self._numbers[at]
        else:
            missing = np.arange(len(words))
        new, first = np.unique(words[missing], return_index=True)
        order = np.argsort(first)
        texts = [int(word).to_bytes(8, "little").rstrip(b"\0") for word in new[order]]
        numbers = more(texts, missing[first[order]])
        if numbers is None:
            return None
        every = np.concatenate([self._words, new[order]])
        sort = np.argsort(every)
        self._words, self._numbers = every[sort], np.concatenate([self._numbers, np.array(numbers, dtype=np.int32)])[sort]
        return self._numbers[np.searchsorted(self._words, words)]
