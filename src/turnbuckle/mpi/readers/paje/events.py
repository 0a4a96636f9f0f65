"""Events of a Paje trace as columns: begins and ends of states, and ends of links."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.mpi.readers.paje.blocks import (
    END,
    KEY_WORDS,
    POP,
    PUSH,
    RESET,
    SOFT,
    START,
    UNREAD,
    Block,
)
from turnbuckle.mpi.readers.paje.lines import Lines, number
from turnbuckle.trace.readers.parts.columns import Columns
from turnbuckle.trace.readers.parts.mpi_tables import MOST_RANKS, NO, operation, sort_of
from turnbuckle.trace.readers.parts.text_numbers import Words

_KEY: Final = re.compile(rb"\d{1,18}_\d{1,18}_(-?\d{1,18})_\d{1,18}")
#: Shorter blocks [B], and runs of fewer lines between two others, are read line by line, which is
#: then faster.
_SHORT: Final = 4096
_FEW: Final = 8
#: A block is read line by line where more than one in this many lines needs it.
_MANY: Final = 8


@dataclass(slots=True)
class Value:
    """Meaning of a state's value, and the line in which it appeared first."""

    name: str
    does: str
    sort: str
    line: int


@dataclass(slots=True)
class _Place:
    """Container, with its number among those that have states; -1 until its first state."""

    name: str
    number: int


class Events(Lines):
    """Reader that keeps the events that describe calls and messages.

    Attributes
    ----------
    events : events that are not yet processed: kind, container (index in `places`), time [ns],
        value (index in `values`; for the begin of a state), number of elements or bytes.
    links : for the events that are ends of links, in their order: the key, its tag, and whether it
        has a tag.
    values, places : meanings of the values, and names of the containers.
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
        self._containers_by_name: dict[bytes, _Place] = {}
        self._long_keys: dict[bytes, int] = {}
        self._is_call = array("b")
        #: number of events that were processed and dropped
        self._taken = 0
        self._value_numbers, self._place_numbers = _WordNumbers(), _WordNumbers()
        #: from each of these events on, the line's index exceeds the event's by the number in the
        #: second array
        self._from_event, self._behind = array("q", [0]), array("q", [0])

    def block(self, block: bytes) -> None:
        """Read whole lines of the file.  Raises `ProfileError` P027, P029."""
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
        parsed = Block(rest if rest.endswith(b"\n") else rest + b"\n", self.layouts)
        single: Sequence[int] = np.flatnonzero(parsed.layout < 0).tolist()
        if len(single) * _MANY > parsed.count:
            single = range(parsed.count)
        low = 0
        for high in [*single, parsed.count]:
            if high > low:
                self._together(parsed, low, high)
            if high < parsed.count:
                self.line(parsed.line(high))
            low = high + 1

    # --- many lines at once ---

    def _together(self, block: Block, low: int, high: int) -> None:
        """Store the events of a run of plain lines."""
        kind = block.kind[low:high]
        relevant = np.flatnonzero(kind != UNREAD)
        pushes = relevant[kind[relevant] == PUSH]
        places = (
            self._place_numbers.of(block.place[low:high][relevant], self._places_new)
            if high - low >= _FEW
            else None
        )
        if places is None:
            for line in range(low, high):
                self.line(block.line(line))
            return
        value = np.zeros(len(relevant), dtype=np.int32)
        known_values = self._value_numbers.of(
            block.value[low:high][pushes], lambda new, index: self._values_new(new, pushes[index])
        )
        value[kind[relevant] == PUSH] = 0 if known_values is None else known_values
        layout = block.layout[low:high]
        counts = np.bincount(layout, minlength=len(self.layouts))
        names = [event_layout.name for event_layout in self.layouts.values()]
        present = np.flatnonzero(counts)
        if any(names[index] not in self.counts for index in present):
            # The counts are listed in the order in which the names first appear.
            present = present[np.argsort([int((layout == index).argmax()) for index in present])]
        for index in present.tolist():
            self.counts[names[index]] += int(counts[index])
        self.last = max(self.last, int(block.time[low:high][relevant].max(initial=0)))
        # An irrelevant line widens the gap between the index of an event and that of its line.
        behind = self.lines + relevant - self.count - np.arange(len(relevant))
        self._mark(behind)
        self.events.add(
            kind[relevant],
            places,
            block.time[low:high][relevant],
            value,
            block.size[low:high][relevant],
        )
        ends = low + relevant[kind[relevant] >= START]
        self.links.add(*block.key[ends].T, block.tag[ends], np.ones(len(ends)))
        self.lines += high - low

    def _mark(self, behind: Int) -> None:
        """Record how far the lines of the next events are ahead of the events' own indices."""
        new = np.flatnonzero(np.diff(behind, prepend=self._behind[-1]))
        self._from_event.extend((self.count + new).tolist())
        self._behind.extend(behind[new].tolist())

    def taken(self) -> None:
        """Drop the events that were processed."""
        self._taken += len(self.events)
        self.events.clear()

    @property
    def count(self) -> int:
        """Return the number of all events so far."""
        return self._taken + len(self.events)

    def calls(self) -> Bool:
        """Return a mask of the values that are MPI calls, with a last entry that is False."""
        return np.append(np.array(self._is_call, dtype=bool), False)

    def line_of(self, event: Int) -> Int:
        """Return the line of each event, as its index among all event lines."""
        starts, behind = (
            np.frombuffer(column, dtype=np.int64) for column in (self._from_event, self._behind)
        )
        return event + behind[np.searchsorted(starts, event, side="right") - 1]

    def _places_new(self, new: list[bytes], index: Int) -> list[int] | None:
        """Number containers at their first states; None where a container was not created."""
        del index
        containers = [self._containers.get(key) or self._containers_by_name.get(key) for key in new]
        if (
            any(container is None for container in containers)
            or len(self.places) + len(new) > MOST_RANKS
        ):
            return None
        return [self._place(key) for key in new]

    def _values_new(self, new: list[bytes], index: Int) -> list[int]:
        """Number values at their first states."""
        return [
            self._value(key, self.lines + int(line))
            for key, line in zip(new, index.tolist(), strict=True)
        ]

    # --- a line alone: definitions of types and values, of which only names matter ---

    def _define_container_type(self, fields: Sequence[bytes]) -> None:
        del fields

    _define_state_type = _define_link_type = _define_container_type

    def _define_entity_value(self, fields: Sequence[bytes]) -> None:
        name, alias = fields
        if alias:
            self._texts[alias] = name
            if self._value_of.pop(alias, None) is not None:
                self._value_numbers = _WordNumbers()

    def _create_container(self, fields: Sequence[bytes]) -> None:
        time, name, alias, _ = fields
        self._time(time)
        if not (name or alias):
            raise ValueError("a container without a name")
        place = _Place((name or alias).decode("utf-8", "replace"), -1)
        # An alias takes precedence over the name of another container, so numbers found by name no
        # longer hold.
        if self._place_numbers.used:
            self._place_numbers = _WordNumbers()
        if alias:
            self._containers.setdefault(alias, place)
        if name:
            self._containers_by_name.setdefault(name, place)

    def _destroy_container(self, fields: Sequence[bytes]) -> None:
        self._time(fields[0])

    def _place(self, key: bytes) -> int:
        place = self._containers.get(key) or self._containers_by_name.get(key)
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
        time, place, value = (
            self._time(fields[0]),
            self._place(fields[1]),
            self._value(fields[2], self.lines),
        )
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
        """Store a link's key as words: its letters, or for a long key its number among the long
        keys.
        """
        match = _KEY.fullmatch(key)
        if len(key) <= 8 * KEY_WORDS and 0 not in key:
            words = [
                int.from_bytes(key[offset : offset + 8], "little")
                for offset in range(0, 8 * KEY_WORDS, 8)
            ]
        else:
            # No key of letters has zero words followed by this last word.
            words = [
                *[0] * (KEY_WORDS - 2),
                self._long_keys.setdefault(key, len(self._long_keys)),
                1 << 56,
            ]
        self.links.append(*words, int(match[1]) if match else 0, match is not None)


_More = Callable[[list[bytes], Int], list[int] | None]


class _WordNumbers:
    """Sorted table that numbers words of at most eight letters."""

    def __init__(self) -> None:
        self._words: Words = np.zeros(0, dtype=np.uint64)
        self._numbers = np.zeros(0, dtype=np.int32)

    @property
    def used(self) -> bool:
        """Return whether the table holds any words."""
        return len(self._words) > 0

    def of(self, words: Words, more: _More) -> NDArray[np.int32] | None:
        """Return the number of each word, and pass new words to `more` in the order in which they
        appear.

        Returns None where `more` does.
        """
        if len(self._words):
            positions = np.minimum(np.searchsorted(self._words, words), len(self._words) - 1)
            missing = np.flatnonzero(self._words[positions] != words)
            if not len(missing):
                return self._numbers[positions]
        else:
            missing = np.arange(len(words))
        new, first = np.unique(words[missing], return_index=True)
        order = np.argsort(first)
        texts = [int(word).to_bytes(8, "little").rstrip(b"\0") for word in new[order]]
        numbers = more(texts, missing[first[order]])
        if numbers is None:
            return None
        merged = np.concatenate([self._words, new[order]])
        sort = np.argsort(merged)
        self._words, self._numbers = (
            merged[sort],
            np.concatenate([self._numbers, np.array(numbers, dtype=np.int32)])[sort],
        )
        return self._numbers[np.searchsorted(self._words, words)]
