"""Which calls of a Paraver trace are the ends of a message: they are found by the times of its record."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from turnbuckle.trace.readers.mpi_tables import NO


@dataclass(slots=True)
class Call:
    """One call of one thread."""

    start: int
    end: int
    name: int
    does: str
    sort: str
    #: of a collective: bytes sent, bytes received, whether this is the root, communicator
    told: tuple[int, ...] = ()
    #: of an Irecv: its request
    request: int = NO
    #: messages that begin here, the one that is received here, requests of receives that are done when it ends
    sent: list[Message] = field(default_factory=list)
    received: Message | None = None
    completed: list[int] = field(default_factory=list)


class Message(NamedTuple):
    """A communication record: ends as application, task, thread; times of the send, the receive, and of being there [ns]."""

    sender: tuple[int, int, int]
    receiver: tuple[int, int, int]
    sent: int
    posted: int
    there: int
    size: int
    tag: int


#: Which calls can be an end of a message, or complete one.
SORTS: Final = {"send": ("send", "both", "start"), "receive": ("receive", "both"), "wait": ("wait",)}
_MANY: Final = ("waitall", "waitsome", "testall", "testsome")
#: Calls of one thread at one instant that are looked at.
_MOST_TIED: Final = 512


class Ends:
    """The calls of one thread that can be one end of a message, found by time.

    A send is at its call's begin, a receive too (of an Irecv: at its return), and a message is there at the end of its wait.  Where the
    clock is coarse several calls fit: those that begin or end right then come first, and each has one message, in the order of both.
    """

    def __init__(self, end: str, calls: list[Call]) -> None:
        self.end, self.calls = end, calls
        self.starts = [call.start for call in calls]
        self.fitting: dict[int, deque[Call]] = {}

    def free_at(self, time: int) -> Call | None:
        """The first call that fits a time and has no message yet."""
        fitting = self.fitting.get(time)
        if fitting is None:
            first = last = bisect_right(self.starts, time)
            while first and last - first < _MOST_TIED and self.calls[first - 1].end >= time:
                first -= 1
            fits = self.calls[first:last]
            fitting = self.fitting[time] = deque(sorted(fits, key=lambda call: self._exact(call) != time) if len(fits) > 1 else fits)
        while fitting and self._taken(fitting[0]):
            fitting.popleft()
        return fitting[0] if fitting else None

    def _exact(self, call: Call) -> int:
        return call.end if self.end == "wait" or (self.end == "receive" and call.does.startswith("i")) else call.start

    def _taken(self, call: Call) -> bool:
        if self.end == "send":
            return bool(call.sent) and call.sort != "start"
        return call.received is not None if self.end == "receive" else bool(call.completed) and call.does not in _MANY
