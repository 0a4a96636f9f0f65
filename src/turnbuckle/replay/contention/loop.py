"""Calls in a closed loop as a program for the contention replay: send, kernel, receive, repeatedly
(SSI, Austin et al. 2021, 4.4).

A stream is four processes: the host sends, a worker computes, the device sends back, the host
receives.  Links and workers are resources that all streams share.  Each process signals the next by
a message with a fixed delay.  A queue of k entries is a message back (a credit): the sender awaits
the credit of the k-th call before.

``quantum`` is the unit that pays the propagation x (decision D9).  By the ``message`` a link is
busy for n / B, and is free again while the message is still on its way.  By the ``byte`` each byte
waits until the one before has arrived, and a link is busy for n (x + 1 / B).

Errors:

    A087  an impossible loop or link
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Final, Literal

import numpy as np

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.replay.contention.contention import Leaves, Op, Program, replay
from turnbuckle.replay.contention.network import Network

Quantum = Literal["message", "byte"]

#: Calls of all streams that one replay holds in memory on a small machine.
MOST_CALLS: Final = 5_000_000
#: A replay counts whole picoseconds; times are stretched until all of them fill this many seconds,
#: so that none is lost.
_FILLED: Final = 1e6
_DOWN, _UP, _WORKERS = range(3)
_COUNTS: Final = ("calls", "streams", "workers", "width")


@dataclass(frozen=True)
class Loop:
    """Calls of each stream.

    Attributes
    ----------
    calls : number of calls of each stream, N.
    to_device_bytes, to_host_bytes : bytes of one call in each direction [B].
    kernel_seconds : kernel time of one call on a worker [s].
    host_seconds : host time before each call [s].
    streams : number of concurrent loops; each has its own host thread, which keeps its calls in
        order.
    workers : number of kernels that run at once.
    in_flight : number of calls of a stream that may be under way before a result is back; 1 is a
        blocking call, 0 is no limit.
    queue : number of a stream's calls that fit at the device, running kernel included; 0 is no
        limit.
    """

    calls: int
    to_device_bytes: float
    to_host_bytes: float
    kernel_seconds: float
    host_seconds: float = 0.0
    streams: int = 1
    workers: int = 1
    in_flight: int = 1
    queue: int = 0


@dataclass(frozen=True)
class Link:
    """Link between host and device, with two equal and independent directions.

    Attributes
    ----------
    name : name that is printed beside every ratio.
    bandwidth : bandwidth of one of its parallel links, one way [B/s].
    width : number of parallel links; each carries one message at a time.
    """

    name: str
    bandwidth: float
    width: int = 1


@dataclass(frozen=True)
class Looped:
    """Result of a replayed loop.

    Attributes
    ----------
    seconds : run time [s].
    busy_to_device, busy_to_host, busy_workers : share of the run time in which links and workers
        were busy.
    """

    seconds: float
    busy_to_device: float
    busy_to_host: float
    busy_workers: float


def run(loop: Loop, link: Link, propagation_seconds: float, quantum: Quantum = "message") -> Looped:
    """Replay a loop over a link.

    Parameters
    ----------
    propagation_seconds : propagation of a message or of a byte, one way [s].

    Raises
    ------
    UsageError : A087.

    >>> run(Loop(10, 1e6, 1e6, 100e-6), Link("a link", 10e9), 1e-6).seconds
    0.00302
    """
    _sound(loop, link, propagation_seconds)
    takes = (*taken(loop, link, propagation_seconds, quantum), loop.kernel_seconds)
    most = loop.calls * (loop.streams * sum(takes) + loop.host_seconds + 3 * propagation_seconds)
    if not most < _FILLED:
        raise _refused(f"a loop of {most:.3g} s", "a shorter loop: fewer calls, or shorter ones")
    if most == 0.0:
        return Looped(0.0, 0.0, 0.0, 0.0)
    # a power of two changes no digit
    stretch = 2.0 ** math.floor(math.log2(_FILLED / most))
    seconds = (
        replay(
            program(loop, link, propagation_seconds, quantum, stretch), Network(1, 1.0, 0.0)
        ).seconds
        / stretch
    )
    every, room = loop.calls * loop.streams, (link.width, link.width, loop.workers)
    return Looped(
        seconds,
        *(every * t / (seconds * r) if seconds else 0.0 for t, r in zip(takes, room, strict=True)),
    )


def taken(
    loop: Loop, link: Link, propagation_seconds: float, quantum: Quantum
) -> tuple[float, float]:
    """Return how long one call occupies a link, to the device and to the host [s]: n / B, or n (x +
    1 / B) by the byte.

    >>> taken(Loop(1, 1e6, 0, 1e-6), Link("a link", 10e9), 1e-9, "byte")
    (0.0011, 0.0)
    """
    each = 1.0 / link.bandwidth + (propagation_seconds if quantum == "byte" else 0.0)
    return loop.to_device_bytes * each, loop.to_host_bytes * each


def program(
    loop: Loop,
    link: Link,
    propagation_seconds: float,
    quantum: Quantum = "message",
    stretch: float = 1.0,
) -> Program:
    """Convert a loop to a program; all its messages are edges.

    Parameters
    ----------
    propagation_seconds, quantum : as in `run`; a credit pays one propagation, whatever the quantum.
    stretch : factor on every time.
    """
    down, up = taken(loop, link, propagation_seconds, quantum)
    streams, calls = loop.streams, loop.calls
    number = np.arange(streams)[:, None] * calls + np.arange(calls)[None, :]
    every = streams * calls
    data, ready, result, back, slot = (number + k * every for k in range(5))
    nth = np.arange(calls)
    window, room = (min(k or calls, calls) for k in (loop.in_flight, loop.queue))
    whole = np.ones(calls, dtype=np.bool_)
    host = whole if loop.host_seconds > 0 else ~whole
    zero = np.zeros_like(number)
    windows = [
        (Op.AWAIT, back - window, nth >= window),
        (Op.AWAIT, slot - room, nth >= room),
        (Op.WORK, zero, host),
    ]
    lists = (
        [*windows, (Op.USE, zero + _DOWN, whole), (Op.SEND, data, whole)],
        [
            (Op.AWAIT, data, whole),
            (Op.USE, zero + _WORKERS, whole),
            (Op.SEND, ready, whole),
            (Op.SEND, slot, nth < calls - room),
        ],
        [(Op.AWAIT, ready, whole), (Op.USE, zero + _UP, whole), (Op.SEND, result, whole)],
        [(Op.AWAIT, result, whole), (Op.SEND, back, nth < calls - window)],
    )
    parts = [_flat(steps) for steps in lists]
    # streams one after the other in each kind of process
    code, arg = (np.concatenate([part[k].reshape(-1) for part in parts]) for k in range(2))
    lengths = np.repeat([part[0].shape[1] for part in parts], streams)
    sender, worker, device, receiver = (
        np.repeat(np.arange(streams) + k * streams, calls) for k in range(4)
    )
    arrives = propagation_seconds if quantum == "message" else 0.0
    delays = np.repeat([arrives, 0.0, arrives, 0.0, propagation_seconds], every) * stretch
    first, code, work = (
        np.append(0, np.cumsum(lengths)),
        code.astype(np.uint8),
        np.array([loop.host_seconds * stretch]),
    )
    uses, seconds = (
        np.array([_DOWN, _UP, _WORKERS]),
        np.array([down, up, loop.kernel_seconds]) * stretch,
    )
    capacity, hosts = (
        np.array([link.width, link.width, loop.workers]),
        np.zeros(4 * streams, dtype=np.int64),
    )
    source = np.concatenate([sender, worker, device, receiver, worker])
    target = np.concatenate([worker, device, receiver, sender, sender])
    leaves = np.full(5 * every, Leaves.EDGE, dtype=np.uint8)
    return Program(
        first, code, arg, work, uses, seconds, capacity, hosts, source, target, delays, leaves
    )


def _flat(steps: list[tuple[Op, Int, Bool]]) -> tuple[Int, Int]:
    """Return codes and arguments of one kind of process, shape (streams, operations): the steps
    that it has, call by call.
    """
    there = np.stack([mask for _, _, mask in steps], axis=1).reshape(-1)
    streams, calls = steps[0][1].shape
    code = np.tile(np.array([op for op, _, _ in steps]), calls)[there]
    arg = np.stack([arg for _, arg, _ in steps], axis=2).reshape(streams, -1)[:, there]
    return np.broadcast_to(code, (streams, len(code))), arg


def _sound(loop: Loop, link: Link, propagation_seconds: float) -> None:
    """Validate the loop; the error names the offending parameter."""
    for of in (loop, link):
        for name in (f.name for f in fields(of) if f.name != "name"):
            value = getattr(of, name)
            least = 1 if name in _COUNTS else 0
            if not (math.isfinite(value) and value >= least) or (
                name == "bandwidth" and value == 0
            ):
                raise _refused(f"{name} of {value:g}")
    if not (math.isfinite(propagation_seconds) and propagation_seconds >= 0):
        raise _refused(f"a propagation of {propagation_seconds:g} s")
    if loop.calls * loop.streams > MOST_CALLS:
        raise _refused(
            f"{loop.calls * loop.streams:,} calls",
            f"at most {MOST_CALLS:,} in all streams; a closed loop repeats itself",
        )
    if max(loop.workers, link.width) >= 1 << 32:
        raise _refused(f"{max(loop.workers, link.width):,} workers or links")


def _refused(problem: str, fix: str = "") -> TurnbuckleError:
    return error_of("A087.setup", found=problem, fix=fix)
