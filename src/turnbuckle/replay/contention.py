"""The contention replay: processes that share resources and links, event by event.

A process does things in order: work of its own, work on a resource that others use too, messages sent and awaited.  What
two processes have to do with each other is a message; one without bytes and with a fixed delay is an edge of a graph, so
that with unlimited resources this replay is the `timeline` (a law).  Messages cost what the fidelity says:

``logp``   LogGPS: overheads, latency, gap, time a byte; every host's card handles one message at a time; no congestion.
``flow``   flows over the links of a topology, max-min fair; latency is paid before the first byte.

Time is whole picoseconds.  The same input gives the same answer, to the bit.  Unlike the sum and the timeline it is not
monotone: with first come, first served, or with fair shares, a faster part can make a run slower (decision D18).

Errors:

    A071  processes wait for each other, with the circle
    A072  a program, a message or a network that cannot be
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from turnbuckle._native import contend
from turnbuckle.errors import UsageError
from turnbuckle.replay.tasks import Tasks

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Fidelity = Literal["logp", "flow"]

PICOSECONDS: Final = 1e12
_LONGEST: Final = float(1 << 62)


class Op(IntEnum):
    """What a process does next; the argument of each is an index."""

    WORK = 0
    USE = 1
    SEND = 2
    POST = 3
    AWAIT = 4
    SENT = 5


class Leaves(IntEnum):
    """How a message leaves: a fixed delay, as soon as it is sent (eager), or when both ends are ready (rendezvous)."""

    EDGE = 0
    EAGER = 1
    READY = 2


@dataclass(frozen=True)
class Program:
    """What processes do.

    Attributes
    ----------
    first : first operation of each process, and the end of the last, shape (processes + 1,).
    code, arg : operations (`Op`) and their arguments, shape (operations,).
    work_seconds : durations of ``WORK`` [s].
    resource, use_seconds : of ``USE``: which resource, for how long [s].
    capacity : how many a resource serves at once, shape (resources,).
    host : of each process on the network, shape (processes,).
    source, target : processes of each message, shape (messages,).
    size_bytes : of each message [B]; seconds of an ``EDGE``.
    leaves : `Leaves` of each message.
    rate_limit : most that each message goes at, whatever its links leave (flow) [B/s]; empty where nothing limits any.
    """

    first: Int
    code: NDArray[np.uint8]
    arg: Int
    work_seconds: Float
    resource: Int
    use_seconds: Float
    capacity: Int
    host: Int
    source: Int
    target: Int
    size_bytes: Float
    leaves: NDArray[np.uint8]
    rate_limit: Float = field(default_factory=lambda: np.zeros(0))

    @property
    def processes(self) -> int:
        """How many processes there are."""
        return len(self.host)


@dataclass(frozen=True)
class FatTree:
    """XGFT(h; down; up) with parallel cables at each level, routed D-mod-k.

    Attributes
    ----------
    down : children of a switch at each level, from the leaves up.
    up : parents of what stands below.
    cables : parallel cables to each.
    """

    down: tuple[int, ...]
    up: tuple[int, ...]
    cables: tuple[int, ...]


@dataclass(frozen=True)
class Network:
    """A network of equal links.

    Attributes
    ----------
    hosts : on it.
    bandwidth : of a link, one way [B/s].
    hop_seconds : latency of a link [s].
    shape : a `FatTree`, or None for one switch.
    inside_bandwidth, inside_seconds : between processes of one host [B/s], [s].
    latency, send_overhead, receive_overhead, gap : L, o, o, g of `logp` [s]; the overheads hold for `flow` too.
    seconds_per_byte, overhead_per_byte : G, O [s/B].
    """

    hosts: int
    bandwidth: float
    hop_seconds: float
    shape: FatTree | None = None
    inside_bandwidth: float = 100e9
    inside_seconds: float = 0.0
    latency: float = 0.0
    send_overhead: float = 0.0
    receive_overhead: float = 0.0
    gap: float = 0.0
    seconds_per_byte: float = 0.0
    overhead_per_byte: float = 0.0


@dataclass(frozen=True)
class Contended:
    """A program replayed.

    Attributes
    ----------
    fidelity : how messages shared the network.
    ends : of every process [s].
    waited : time each process waited for messages or resources [s].
    began, arrived : of every message [s], empty unless traced.
    done : when every operation was done [s], empty unless traced.
    carried_bytes : by each link (flow) [B].
    events : dealt with.
    """

    fidelity: Fidelity
    ends: Float
    waited: Float
    began: Float = field(repr=False)
    arrived: Float = field(repr=False)
    done: Float = field(repr=False)
    carried_bytes: Float = field(repr=False)
    events: int

    @property
    def seconds(self) -> float:
        """Run time [s]: the last end."""
        return float(self.ends.max(initial=0.0))


def replay(program: Program, network: Network, fidelity: Fidelity = "flow", *, traced: bool = False) -> Contended:
    """Replay a program on a network.

    Parameters
    ----------
    traced : keep the times of every message and operation.

    Raises
    ------
    UsageError : A071, A072 (see the module).
    """
    shape = network.shape or FatTree((), (), ())
    _sound(network)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.where(program.leaves == Leaves.EDGE, np.round(program.size_bytes * PICOSECONDS), np.round(program.size_bytes))
        done = contend(
            first=_as(program.first, np.uint32), code=_as(program.code, np.uint8), arg=_as(program.arg, np.uint32),
            durations=_ticks(program.work_seconds), resource=_as(program.resource, np.uint32), takes=_ticks(program.use_seconds),
            capacity=_as(program.capacity, np.uint32), host=_as(program.host, np.uint32), source=_as(program.source, np.uint32),
            target=_as(program.target, np.uint32), size=_whole(size), leaves=_as(program.leaves, np.uint8),
            limit=np.ascontiguousarray(program.rate_limit / PICOSECONDS), hosts=network.hosts,
            down=list(shape.down), up=list(shape.up), cables=list(shape.cables), bandwidth=network.bandwidth / PICOSECONDS,
            hop=_tick(network.hop_seconds), inside=network.inside_bandwidth / PICOSECONDS, inside_latency=_tick(network.inside_seconds),
            latency=_tick(network.latency), send_overhead=_tick(network.send_overhead), receive_overhead=_tick(network.receive_overhead),
            gap=_tick(network.gap), per_byte=network.seconds_per_byte * PICOSECONDS,
            overhead_per_byte=network.overhead_per_byte * PICOSECONDS, fidelity=fidelity, traced=traced,
        )  # fmt: skip
    except OverflowError:
        raise _refused("a number of hosts or cables that is negative or too large") from None
    except ValueError as error:
        raise _refused(str(error)) from None
    except RuntimeError as error:
        count, named = error.args
        raise _stuck(program, int(count), list(named)) from None
    times = {name: np.frombuffer(done[name], dtype=np.uint64) / PICOSECONDS for name in ("ends", "waited", "began", "arrived", "done")}
    return Contended(fidelity, **times, carried_bytes=np.frombuffer(done["carried"], dtype=np.float64), events=int(done["events"]))


def of_tasks(tasks: Tasks) -> Program:
    """A declared task graph as a program: a process for every track, and one for every task without; edges are messages.

    Replayed it equals `turnbuckle.replay.tasks.replay_tasks`, to the picosecond that lags and durations are rounded to.
    """
    count = len(tasks)
    track = np.full(count, -1) if tasks.track is None else tasks.track
    alone = track < 0
    key = np.where(alone, track.max(initial=-1) + 1 + np.arange(count), track)
    process = np.unique(key, return_inverse=True)[1]
    edges = len(tasks.source)
    # each task awaits its edges, works, and sends its own
    when = np.concatenate([3 * tasks.target, 3 * np.arange(count) + 1, 3 * tasks.source + 2])
    code = np.concatenate([np.full(edges, Op.AWAIT), np.full(count, Op.WORK), np.full(edges, Op.SEND)]).astype(np.uint8)
    arg = np.concatenate([np.arange(edges), np.arange(count), np.arange(edges)])
    owner = process[when // 3]
    order = np.lexsort((when, owner))
    processes = int(process.max(initial=-1)) + 1
    first = np.searchsorted(owner[order], np.arange(processes + 1))
    nothing = np.zeros(0, dtype=np.int64)
    return Program(
        first, code[order], arg[order], tasks.seconds, nothing, nothing.astype(np.float64), nothing, np.zeros(processes, dtype=np.int64),
        process[tasks.source], process[tasks.target], tasks.lag_seconds, np.full(edges, Leaves.EDGE, dtype=np.uint8),
    )  # fmt: skip


def _stuck(program: Program, count: int, named: list[tuple[int, int]]) -> UsageError:
    """Who waits for whom: the circle among the processes that cannot go on, if one is among those named."""
    waits = {p: int(program.target[m] if program.source[m] == p else program.source[m]) for p, m in named if m < len(program.source)}
    seen: list[int] = []
    at = next(iter(waits), None)
    while at is not None and at not in seen:
        seen.append(at)
        at = waits.get(at)
    circle = " -> ".join(str(p) for p in [*seen[seen.index(at) :], at]) if at is not None else ""
    found = f"process {circle}" if circle else f"process {named[0][0]} waits" if named else ""
    return UsageError(
        "A071", f"{count} processes wait for each other", found=found,
        cause="messages that are not sent, or rendezvous on both sides at once",
        fix="look at the calls of these ranks; an eager limit may hide it",
    )  # fmt: skip


def _sound(network: Network) -> None:
    """Refuse numbers that cannot be, by name."""
    times = ("hop_seconds", "inside_seconds", "latency", "send_overhead", "receive_overhead", "gap")
    for name in ("bandwidth", "inside_bandwidth", *times, "seconds_per_byte", "overhead_per_byte"):
        value = getattr(network, name)
        least_is_none = name not in ("bandwidth", "inside_bandwidth")
        if not (np.isfinite(value) and (value > 0 or (least_is_none and value == 0))):
            raise _refused(f"{name} of {value:g}")
        if name in times and value * PICOSECONDS > _LONGEST:
            raise _refused(f"{name} of {value:g} s: a replay is counted in picoseconds, up to {_LONGEST / PICOSECONDS:.3g} s")


def _refused(what: str) -> UsageError:
    return UsageError("A072", "the program or the network cannot be replayed", found=what)


def _tick(seconds: float) -> int:
    return round(seconds * PICOSECONDS)


def _ticks(seconds: Float) -> NDArray[np.uint64]:
    with np.errstate(over="ignore", invalid="ignore"):
        return _whole(np.round(np.asarray(seconds, dtype=np.float64) * PICOSECONDS))


def _whole(values: Float) -> NDArray[np.uint64]:
    if len(values) and not (values.min() >= 0 and values.max() <= _LONGEST):
        raise _refused("a time or size that is negative, none at all, or beyond what is counted in")
    return np.ascontiguousarray(values.astype(np.uint64))


def _as(values: NDArray[np.generic], kind: type[np.unsignedinteger]) -> NDArray[np.generic]:
    array = np.asarray(values)
    if len(array) and not (array.min() >= 0 and array.max() <= np.iinfo(kind).max):
        raise _refused("an index that is negative or too large")
    return np.ascontiguousarray(array.astype(kind))
