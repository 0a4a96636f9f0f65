"""Remoting: the calls of a program cross a network to a GPU on another host, each class of calls in
its own manner.

A layer of software sends commands; no link gets longer and no call sleeps.  The cost of a call
follows from its manner (decision D22).

`local`   answered on the program's host: nothing crosses.
`sent`    one way; the program continues once the software has sent the command.
`waits`   the program waits for the answer: a round trip.
`serial`  queued on the program's host, one in flight: a command leaves when the answer to the one before it is back.
`batched` recorded on the program's host and sent with the next call that waits; no news of it comes
back.

    call      waits: R + c + a    sent, batched: c    local, serial: 0
    start     R / 2 + c after the call (`batched`: c), and for `serial` R + c + a after the end of the work before it in its queue
    batch     R / 2 + c behind batched launches, for a read or a wait that sends them
    return    R / 2 + a after the end of the work that a call waits for, unless it is `batched`
    data      n / B + n g on top of the copy at the GPU's host

Calls that no profiler records (the last error after a launch, handles of libraries) wait too,
`remoting.calls_unrecorded` for each launch. R is the round trip, B the bandwidth of a direction, g
the software's time per byte.  c is the software's time per command and the time of its bytes on the
network, a that of an answer's.  `sent` and `waits` are the asynchronous and synchronous calls of
Wang et al., arXiv 2401.13354.  There an asynchronous call costs its start and its transfer, and a
synchronous one a round trip more.  PoCL's remote driver treats an in-order queue as `serial`,
GPUless keeps a batch.  Valid for one program on an idle network and an idle server: two streams do
not wait for each other on the network, nor two programs for a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.foundation.units import MANNERS
from turnbuckle.profile.pieces import Pieces

LOCAL, SENT, WAITS, SERIAL, BATCHED = (
    MANNERS.index(word) for word in ("local", "sent", "waits", "serial", "batched")
)


def call_seconds(
    manner: int, round_trip: Float | float, command: Float | float, answer: Float | float = 0.0
) -> Float:
    """Return the time that remoting adds to a call that waits for no work on the device [s].

    >>> [float(call_seconds(manner, 8e-6, 1e-6)) for manner in (LOCAL, SENT, WAITS, SERIAL, BATCHED)]
    [0.0, 1e-06, 9e-06, 0.0, 1e-06]
    """
    waits = (manner == WAITS) * (np.asarray(round_trip) + answer)
    return np.asarray(waits + (manner in (SENT, WAITS, BATCHED)) * np.asarray(command))


def start_seconds(
    manner: int, round_trip: Float | float, command: Float | float, answer: Float | float = 0.0
) -> Float:
    """Return the time that remoting adds between a call and the start of its work on an idle device
    [s].

    The call that sends a batch pays its way there, once for all.

    >>> [float(start_seconds(manner, 8e-6, 2e-6)) for manner in (LOCAL, SENT, WAITS, SERIAL, BATCHED)]
    [0.0, 6e-06, 6e-06, 6e-06, 2e-06]
    """
    one_way = (manner not in (LOCAL, BATCHED)) * np.asarray(round_trip) / 2.0
    return np.asarray(one_way + (manner != LOCAL) * np.asarray(command))


def queue_seconds(
    manner: int, round_trip: Float | float, command: Float | float, answer: Float | float = 0.0
) -> Float:
    """Return the time for which a queue is idle before the next command starts [s].

    >>> [float(queue_seconds(manner, 8e-6, 1e-6)) for manner in (LOCAL, SENT, WAITS, SERIAL, BATCHED)]
    [0.0, 0.0, 0.0, 9e-06, 0.0]
    """
    return np.asarray((manner == SERIAL) * (np.asarray(round_trip) + command + answer))


def news_seconds(
    manner: int, round_trip: Float | float, command: Float | float, answer: Float | float = 0.0
) -> Float:
    """Return the time from the end of work to the arrival of its notice at a waiting call [s]: one
    way, or nothing of a batch.

    >>> [float(news_seconds(manner, 8e-6, 1e-6)) for manner in (LOCAL, WAITS, BATCHED)]
    [4e-06, 4e-06, 0.0]
    """
    return np.asarray((manner != BATCHED) * (np.asarray(round_trip) / 2.0 + answer))


def return_seconds(
    manner: int, round_trip: Float | float, command: Float | float, answer: Float | float = 0.0
) -> Float:
    """Return the time that the notice of the end of work adds to a wait whose call is already
    charged [s].

    A wait returns when its answer and the notice have both arrived; its call is charged in either
    case.

    >>> [round(float(return_seconds(m, 8e-6, 1e-6) + call_seconds(m, 8e-6, 1e-6)), 9) for m in (LOCAL, WAITS)]
    [4e-06, 4e-06]
    """
    costs = round_trip, command, answer
    return news_seconds(manner, *costs) - call_seconds(manner, *costs)


def batch_seconds(
    launch: int, manner: int, round_trip: Float | float, command: Float | float
) -> Float:
    """Return the time of a batch on its way to work that a call waits for [s]: it leaves with that
    call, behind work that was kept.

    >>> round(float(batch_seconds(BATCHED, WAITS, 8e-6, 1e-6)), 9), float(batch_seconds(SENT, WAITS, 8e-6, 1e-6))
    (5e-06, 0.0)
    """
    return np.asarray(
        (launch == BATCHED and manner == WAITS) * start_seconds(WAITS, round_trip, command)
    )


def size_seconds(size: Float | float | None, bandwidth: Float | float | None) -> Float:
    """Return the time of a command's or an answer's bytes on the network [s]; None is no bytes, and
    unlimited bandwidth.

    >>> [float(size_seconds(size, 1e6)) for size in (None, 200)], float(size_seconds(200, None))
    ([0.0, 0.0002], 0.0)
    """
    if size is None or bandwidth is None:
        return np.zeros(())
    return np.asarray(np.asarray(size) / np.asarray(bandwidth))


def data_seconds(size: Float, bandwidth: Float | float | None, byte: Float | float) -> Float:
    """Return the network time of each copy's bytes [s]; a bandwidth of None is unlimited.

    >>> data_seconds(np.array([1e6]), 1e9, 1e-9).tolist()
    [0.002]
    """
    return np.asarray(
        size * ((0.0 if bandwidth is None else 1.0 / np.asarray(bandwidth)) + np.asarray(byte))
    )


# --- which pieces ---------------------------------------------------------------------------------

#: Which calls are of which class.  A copy's class follows from its direction, which its work says,
#: and its call where it does not wait.
CALLS: Final[Mapping[str, Callable[[Pieces], Bool]]] = {
    "launch": lambda p: (
        np.isin(p.call_class, ("launch", "memset"))
        | ((p.call_class == "copy") & ~np.isin(p.direction, ("h2d", "d2h")))
    ),
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


def blocking_writes(p: Pieces) -> Bool:
    """Return the mask of copies to the device that wait for their own work."""
    return np.asarray((p.kind == "sync") & (p.call_class == "copy") & (p.direction == "h2d"))


def blocking_copies(p: Pieces) -> Bool:
    """Return the mask of all other copies that wait for their own work."""
    return np.asarray((p.kind == "sync") & (p.call_class == "copy") & (p.direction != "h2d"))


def waiting(p: Pieces) -> Bool:
    """Return the mask of calls that wait for work on the device."""
    return np.asarray(p.kind == "sync")
