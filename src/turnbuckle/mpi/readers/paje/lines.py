"""Line-by-line parser of a Paje trace.

The header defines each kind of event and its fields, and every line is read by that definition.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of
from turnbuckle.trace.readers.parts.mpi_tables import LARGEST, LARGEST_NS, NO

_TOKENS: Final = re.compile(rb'"((?:[^"\\]|\\.)*+)"?|(\S+)')
#: The file is refused where more lines than this are unreadable and the unreadable lines outnumber
#: the others.
_MOST_BAD: Final = 1000
#: Largest number of event definitions, and of fields of one event, that a header can have.
_MOST_EVENTS, _MOST_FIELDS = 4096, 256
_FIELDS: Final = {
    "sourcecontainer": "startcontainer",
    "destcontainer": "endcontainer",
    "startcontainertype": "starttype",
    "endcontainertype": "endtype",
    **dict.fromkeys(("containertype", "entitytype"), "type"),
}
#: Events that are read: their required and their optional fields.
EVENTS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "PajeDefineContainerType": (("name",), ("alias",)),
    "PajeDefineStateType": (("name",), ("alias",)),
    "PajeDefineLinkType": (("name",), ("alias",)),
    "PajeDefineEntityValue": (("name",), ("alias",)),
    "PajeCreateContainer": (("time", "name"), ("alias", "type")),
    "PajeDestroyContainer": (("time",), ()),
    "PajeSetState": (("time", "container", "value"), ("type", "size")),
    "PajePushState": (("time", "container", "value"), ("type", "size")),
    "PajePopState": (("time", "container"), ("type",)),
    "PajeResetState": (("time", "container"), ("type",)),
    "PajeStartLink": (("time", "startcontainer", "key"), ("size",)),
    "PajeEndLink": (("time", "endcontainer", "key"), ()),
}
#: Events of the format that are irrelevant to MPI calls.
_VARIABLES: Final = (
    "PajeDefineVariableType",
    "PajeSetVariable",
    "PajeAddVariable",
    "PajeSubVariable",
)
_UNREAD: Final = (*_VARIABLES, "PajeDefineEventType", "PajeNewEvent")


class Layout(NamedTuple):
    """Definition of one event: its name, the method that takes its fields, their columns, and a
    fast getter for lines of `least` words.
    """

    name: str
    act: Callable[[Sequence[bytes]], None] | None
    columns: tuple[int, ...]
    least: int
    pick: Callable[[list[bytes]], Sequence[bytes]]


class Lines:
    """Reader of lines that hands each event's fields to the method named after the event, such as
    ``_push_state``, in the order of `EVENTS`.

    Attributes
    ----------
    bad, first_bad : indices of the unreadable event lines, and what is wrong with the first.
    last : latest time [ns].
    tool, private : the program that wrote the trace, if it is named, and whether the trace holds
        the command line too.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.layouts: dict[bytes, Layout] = {}
        self.defining: tuple[bytes, str, list[str]] | None = None
        self.counts: Counter[str] = Counter()
        self.lines = 0
        self.bad, self.first_bad = array("q"), ""
        self.last = 0
        self.tool = ""
        self.private = False

    def line(self, line: bytes) -> None:
        """Read one line of the file."""
        kind = line[:1]
        if kind == b"%":
            self._definition(line[1:].split())
            return
        if kind == b"#" or not kind.strip():
            if not self.tool and (
                made := re.search(rb"generated using (SimGrid-[\w.]{1,20})", line[:400])
            ):
                self.tool = made[1].decode().replace("-", " ")
            self.private = self.private or line.startswith(b"#[")
            return
        fields = line.split() if b'"' not in line else [a or b for a, b in _TOKENS.findall(line)]
        layout = self.layouts.get(fields[0]) if fields else None
        try:
            if layout is None:
                raise ValueError("an event that the header does not define")
            name, act, columns, least, pick = layout
            self.counts[name] += 1
            if act is not None:
                # A field that the header does not define, or that lies beyond the line's end, is
                # empty.
                act(
                    pick(fields)
                    if len(fields) >= least
                    else [fields[i] if 0 <= i < len(fields) else b"" for i in columns]
                )
        except (ValueError, KeyError, OverflowError) as error:
            self.bad.append(self.lines)
            self.first_bad = self.first_bad or str(error)
            self.refuse(len(self.bad), self.lines + 1)
        self.lines += 1

    def refuse(self, bad: int, lines: int) -> None:
        """Raise `ProfileError` P029 where more of the lines are unreadable than sound."""
        if bad > _MOST_BAD and bad > lines - bad:
            raise error_of(
                "P029.lines",
                where=self.where,
                found=(
                    f"{bad} lines that cannot be read, {lines - bad} that can; the first: "
                    f"{clipped(self.first_bad, 80)}"
                ),
            )

    def _definition(self, words: list[bytes]) -> None:
        """Read one line of the header."""
        first = words[0] if words else b""
        if first == b"EventDef":
            if len(words) < 3 or len(self.layouts) >= _MOST_EVENTS:
                raise self.unreadable(
                    "an event without a name or number"
                    if len(words) < 3
                    else f"more than {_MOST_EVENTS} kinds of events"
                )
            self.defining = (words[2], words[1].decode("latin-1"), [])
        elif first == b"EndEventDef":
            if self.defining is None:
                raise self.unreadable("an event that ends before it begins")
            self._defined(*self.defining)
            self.defining = None
        elif self.defining is not None and first:
            if len(self.defining[2]) >= _MOST_FIELDS:
                raise self.unreadable(f"an event of more than {_MOST_FIELDS} fields")
            name = first.decode("latin-1").lower()
            self.defining[2].append(_FIELDS.get(name, name))

    def _defined(self, number: bytes, name: str, fields: list[str]) -> None:
        """Store the layout of an event whose definition is complete."""
        required, optional = EVENTS.get(name, ((), ()))
        if missing := [f for f in required if f not in fields]:
            raise self.unreadable(f"{name} has no field {', '.join(missing)}")
        columns = tuple(fields.index(f) + 1 if f in fields else -1 for f in (*required, *optional))
        act = (
            getattr(self, "_" + re.sub(r"(?<!^)(?=[A-Z])", "_", name.removeprefix("Paje")).lower())
            if name in EVENTS
            else None
        )
        counted_name = name if name in EVENTS or name in _UNREAD else "others"
        complete = -1 not in columns and len(columns) > 1
        self.layouts[number] = Layout(
            counted_name,
            act,
            columns,
            max(columns) + 1 if complete else 1 << 30,
            itemgetter(*columns) if complete else tuple,
        )

    def unreadable(self, evidence: str) -> TurnbuckleError:
        """Return the error P027 for a damaged header."""
        return error_of("P027", where=self.where, found=clipped(evidence, 120))

    def _time(self, text: bytes) -> int:
        try:
            time = round(float(text) * 1e9)
        except ValueError:
            raise ValueError("a time that is no number") from None
        if not 0 <= time <= LARGEST_NS:
            raise ValueError("a time outside 0 to 104 days")
        if time > self.last:
            self.last = time
        return time


def _float(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number that is none") from None


def number(text: bytes) -> int:
    """Return a size or a count; `NO` where the field holds none."""
    if not text or text == b"NA":
        return NO
    value = _float(text)
    if not 0 <= value < LARGEST:
        raise ValueError("a size below 0 or beyond measure")
    return int(value)
