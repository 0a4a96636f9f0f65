"""Remoting: the calls of a program cross a network to a GPU on another host, each class of calls in its own manner.

A layer of software sends commands; no link gets longer and no call sleeps.  The cost of a call follows from its manner (decision D22).

`local`   answered on the program's host: nothing crosses.
`sent`    one way; the program continues once the software has sent the command.
`waits`   the program waits for the answer: a round trip.
`serial`  queued on the program's host, one in flight: a command leaves when the answer to the one before it is back.

    call      waits: R + c    sent: c    local, serial: 0
    start     R / 2 + c after the call, and for `serial` R + c after the end of the work before it in its queue
    return    R / 2 after the end of the work that a call waits for
    data      n / B + n g on top of the copy at the GPU's host

Calls that no profiler records (the last error after a launch, handles of libraries) wait too, `remoting.calls_unrecorded` for each launch.
R is the round trip, B the bandwidth of a direction, c and g the software's time per command and per byte.  `sent` and `waits` are the
asynchronous and synchronous calls of Wang et al., arXiv 2401.13354.  There an asynchronous call costs its start and its transfer, and a
synchronous one a round trip more.  PoCL's remote driver treats an in-order queue as `serial`.  Valid for one program on an idle network and
an idle server: two streams do not wait for each other on the network, nor two programs for a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.foundation.units import MANNERS
from turnbuckle.profile.pieces import Pieces

LOCAL, SENT, WAITS, SERIAL = (MANNERS.index(word) for word in ("local", "sent", "waits", "serial"))


def call_seconds(manner: int, round_trip: Float | float, command: Float | float) -> Float:
    """Return the time that remoting adds to a call that waits for no work on the device [s].

    >>> [float(call_seconds(manner, 8e-6, 1e-6)) for manner in (LOCAL, SENT, WAITS, SERIAL)]
    [0.0, 1e-06, 9e-06, 0.0]
    """
    return np.asarray((manner == WAITS) * np.asarray(round_trip) + (manner in (SENT, WAITS)) * np.asarray(command))


def start_seconds(manner: int, round_trip: Float | float, command: Float | float) -> Float:
    """Return the time that remoting adds between a call and the start of its work on an idle device [s].

    >>> [float(start_seconds(manner, 8e-6, 2e-6)) for manner in (LOCAL, SENT, WAITS, SERIAL)]
    [0.0, 6e-06, 6e-06, 6e-06]
    """
    return np.asarray((manner != LOCAL) * (np.asarray(round_trip) / 2.0 + command))


def queue_seconds(manner: int, round_trip: Float | float, command: Float | float) -> Float:
    """Return the time for which a queue is idle before the next command starts [s].

    >>> [float(queue_seconds(manner, 8e-6, 1e-6)) for manner in (LOCAL, SENT, WAITS, SERIAL)]
    [0.0, 0.0, 0.0, 9e-06]
    """
    return np.asarray((manner == SERIAL) * (np.asarray(round_trip) + command))


def news_seconds(manner: int, round_trip: Float | float, command: Float | float) -> Float:
    """Return the time from the end of work to the arrival of its notice at a waiting call [s]: one way, whatever the manner.

    >>> float(news_seconds(WAITS, 8e-6, 1e-6))
    4e-06
    """
    return np.asarray(round_trip) / 2.0


def return_seconds(manner: int, round_trip: Float | float, command: Float | float) -> Float:
    """Return the time that the notice of the end of work adds to a wait whose call is already charged [s].

    A wait returns when its answer and the notice have both arrived; its call is charged in either case.

    >>> [round(float(return_seconds(m, 8e-6, 1e-6) + call_seconds(m, 8e-6, 1e-6)), 9) for m in (LOCAL, WAITS)]
    [4e-06, 4e-06]
    """
    return news_seconds(manner, round_trip, command) - call_seconds(manner, round_trip, command)


def data_seconds(size: Float, bandwidth: Float | float | None, byte: Float | float) -> Float:
    """Return the network time of each copy's bytes [s]; a bandwidth of None is unlimited.

    >>> data_seconds(np.array([1e6]), 1e9, 1e-9).tolist()
    [0.002]
    """
    return np.asarray(size * ((0.0 if bandwidth is None else 1.0 / np.asarray(bandwidth)) + np.asarray(byte)))


# --- which pieces ------------------------------------------------------------------------------------------------------

#: Which calls are of which class.  A copy's class follows from its direction, which its work says, and its call where it does not wait.
CALLS: Final[Mapping[str, Callable[[Pieces], Bool]]] = {
    "launch": lambda p: np.isin(p.call_class, ("launch", "memset")) | ((p.call_class == "copy") & ~np.isin(p.direction, ("h2d", "d2h"))),
    "write": lambda p: (p.call_class == "copy") & (p.direction == "h2d"),
    "read": lambda p: (p.call_class == "copy") & (p.direction == "d2h"),
    "wait": lambda p: p.call_class == "sync",
    "event": lambda p: p.call_class == "event",
    "allocation": lambda p: p.call_class == "alloc",
    "query": lambda p: p.call_class == "query",
}
#: Which work on the device is of which class.
WORK: Final[Mapping[str, Callable[[Pieces], Bool]]] = {
    "launch": lambda p: np.isin(p.kind, ("kernel", "memset", "copy_d2d", "copy_p2p")),
    "write": lambda p: p.kind == "copy_h2d",
    "read": lambda p: p.kind == "copy_d2h",
}


def nothing(p: Pieces) -> Bool:
    """Return a mask that selects no piece."""
    return np.zeros(len(p), dtype=np.bool_)


def launches(p: Pieces) -> Bool:
    """Return the mask of calls that launch kernels."""
    return np.asarray(p.call_class == "launch")


def blocking_copies(p: Pieces) -> Bool:
    """Return the mask of copies that wait for their own work."""
    return np.asarray((p.kind == "sync") & (p.call_class == "copy"))


def waiting(p: Pieces) -> Bool:
    """Return the mask of calls that wait for work on the device."""
    return np.asarray(p.kind == "sync")
