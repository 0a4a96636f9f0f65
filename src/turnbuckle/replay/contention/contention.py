"""The contention replay: processes that share resources and links, event by event.

A process performs its operations in order: work of its own, work on a shared resource, messages
sent and awaited.  Processes interact by messages only.  A message without bytes and with a fixed
delay is an edge of a graph, so that with unlimited resources this replay equals the `timeline` (a
law).  The fidelity decides the cost of messages:

``logp``   LogGPS: overheads, latency, gap, time per byte; every NIC handles one message at a time; no congestion, and none inside nodes.
``flow``   flows over the links of a topology and of its nodes, max-min fair; latency is paid before the first byte.
``packet`` packets in finite queues before each link; a link sends when the next queue has room
(credits).

Times are whole picoseconds.  The same input gives the same answer, to the bit.  Unlike the sum and
the timeline this replay is not monotone: with first come, first served, or with fair shares, a
faster part can make a run slower (decision D18).

Errors:

    A071  processes wait for each other, with the circle
    A072  an impossible program, message or network
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from turnbuckle._native import contend
from turnbuckle._native import routes as native_routes
from turnbuckle.foundation.arrays import Bool, Float, Int, Whole
from turnbuckle.foundation.errors import TurnbuckleError, UsageError, error_of
from turnbuckle.replay.contention.network import Dragonfly, FatTree, Network, Torus
from turnbuckle.replay.tasks import Tasks

#: Whole numbers of any kind.
Fidelity = Literal["logp", "flow", "packet"]

PICOSECONDS: Final = 1e12
_LONGEST: Final = float(1 << 62)
#: Processes of a circle that are shown.
_SHOWN: Final = 12
#: Most bytes of a packet or a buffer.
_WIDEST: Final = float((1 << 32) - 1)
#: Columns of a program that the native core counts in 32 bits.
_COUNTED: Final = ("first", "arg", "resource", "capacity", "source", "target", "start", "end")


class Op(IntEnum):
    """Operation of a process.

    The argument of each is an index: of a piece of work, of a use of a resource, or of a message.
    ``USE`` holds the resource for the time of the use; ``TAKE`` holds it until ``GIVE``.
    """

    WORK = 0
    USE = 1
    SEND = 2
    POST = 3
    AWAIT = 4
    SENT = 5
    TAKE = 6
    GIVE = 7


class Leaves(IntEnum):
    """Departure of a message: after a fixed delay, as soon as it is sent (eager), or when both ends
    are ready (rendezvous).
    """

    EDGE = 0
    EAGER = 1
    READY = 2


@dataclass(frozen=True)
class Program:
    """Operations of all processes.

    Attributes
    ----------
    first : index of the first operation of each process, and the end of the last, shape (processes
        + 1,).
    code, arg : operations (`Op`) and their arguments, shape (operations,).
    work_seconds : durations of ``WORK`` [s].
    resource, use_seconds : resource of each use, and duration of a ``USE`` [s], shape (uses,).
    capacity : number of uses that a resource serves at once, shape (resources,).
    host : place of each process on the network, node x parts of a node + part, shape (processes,).
    source, target : processes of each message, shape (messages,); the same process for a copy
        between two places.
    size_bytes : size of each message [B]; for an ``EDGE`` its delay [s], in whole picoseconds where
        the array is uint64.
    leaves : `Leaves` of each message.
    rate_limit : upper limit of each message's rate, besides its links (flow, packet) [B/s]; empty
        for no limits.
    delay_seconds : time to pin the sender's memory before each message is offered, also while its
        receiver is late [s]; empty for none.
    start, end : places between which each message goes; empty where all go between the places of
        their processes.
    priority : priority of each use: the lowest is served first, then the first to come; empty where
        all are equal.
    works_for : process of the rank that each process is a part of, shape (processes,); empty where
        every process is a rank.
    overhead : mask of the work that is processor time of a message, not compute, shape (works,);
        empty where none is.
    processor : whether each resource is a processor of a rank, which is kept while it works, rather
        than a copy engine, which is kept while it copies; shape (resources,); empty where none is.
        The last three only change the parts that `critical` returns.

    Arrays of the types that the native core counts in (uint8, uint32, uint64) are taken as they
    are, and must not change while a replay runs; others are converted.
    """

    first: Whole
    code: NDArray[np.uint8]
    arg: Whole
    work_seconds: Float
    resource: Whole
    use_seconds: Float
    capacity: Whole
    host: Whole
    source: Whole
    target: Whole
    size_bytes: NDArray[Any]
    leaves: NDArray[np.uint8]
    rate_limit: Float = field(default_factory=lambda: np.zeros(0))
    delay_seconds: Float = field(default_factory=lambda: np.zeros(0))
    start: Whole = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    end: Whole = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    priority: Whole = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    works_for: Whole = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    overhead: Bool = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    processor: Bool = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    @property
    def processes(self) -> int:
        """Return how many processes there are."""
        return len(self.host)

    @property
    def copying(self) -> Bool:
        """Return a mask of the operations during which their process holds a copy engine, shape
        (operations,).
        """
        code = np.asarray(self.code)
        kept = (code == Op.TAKE).astype(np.int8) - (code == Op.GIVE)
        if len(self.processor):
            held = np.flatnonzero(kept)
            kept[held[self.processor[np.asarray(self.resource)[np.asarray(self.arg)[held]]]]] = 0
        return np.cumsum(kept, dtype=np.int8) > 0


@dataclass(frozen=True)
class Contended:
    """Result of a replay.

    Attributes
    ----------
    fidelity : model by which messages shared the network.
    ends : end time of every process [s].
    waited : time for which each process waited for messages or resources [s].
    began, arrived : departure and arrival time of every message [s]; empty unless traced.
    done : completion time of every operation [s]; empty unless traced.
    carried_bytes : bytes that each link carried (flow; packet, with headers) [B].
    events : number of events processed.
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
        """Return the run time [s]: the last end."""
        return float(self.ends.max(initial=0.0))


def replay(
    program: Program,
    network: Network,
    fidelity: Fidelity = "flow",
    *,
    traced: bool = False,
    progress: Callable[[float], object] | None = None,
) -> Contended:
    """Replay a program on a network.

    Parameters
    ----------
    traced : keep the times of every message and operation.
    progress : function that receives the share of the operations done, from time to time.

    Raises
    ------
    UsageError : A071, A072 (see the module).
    """
    _sound(network)
    raised: list[BaseException] = []

    def report(share: float) -> None:
        try:
            if progress is not None:
                progress(share)
        except BaseException as error:
            raised.append(error)
            raise

    try:
        arrays: dict[str, Any] = {name: _as(getattr(program, name), np.uint32) for name in _COUNTED}
        arrays |= {
            "rank": _as(program.priority, np.uint32),
            "place": _as(program.host, np.uint32),
            "size": _sizes(program),
        }
        arrays |= {name: _as(getattr(program, name), np.uint8) for name in ("code", "leaves")}
        arrays |= {
            "durations": _ticks(program.work_seconds),
            "takes": _ticks(program.use_seconds),
            "delay": _ticks(program.delay_seconds),
        }
        done = contend(
            **arrays,
            limit=np.ascontiguousarray(program.rate_limit / PICOSECONDS),
            bandwidth=network.bandwidth / PICOSECONDS,
            hop=_tick(network.hop_seconds),
            logp=(
                _tick(network.latency),
                _tick(network.send_overhead),
                _tick(network.receive_overhead),
                _tick(network.gap),
            ),
            per_byte=(
                network.seconds_per_byte * PICOSECONDS,
                network.overhead_per_byte * PICOSECONDS,
            ),
            fidelity=fidelity,
            handshake=network.handshake,
            packing=_packing(network),
            traced=traced,
            tells=report if progress is not None else None,
            **_made_of(network),
        )
    except (OverflowError, ValueError, RuntimeError) as error:
        # what `progress` raises is its caller's
        if raised:
            raise raised[0] from None
        raise _translated(error) from error
    times = {
        name: np.frombuffer(done[name], dtype=np.uint64) / PICOSECONDS
        for name in ("ends", "waited", "began", "arrived", "done")
    }
    return Contended(
        fidelity,
        **times,
        carried_bytes=np.frombuffer(done["carried"], dtype=np.float64),
        events=int(done["events"]),
    )


def ways(
    network: Network, start: NDArray[np.integer[Any]], end: NDArray[np.integer[Any]]
) -> tuple[Int, Int]:
    """Return the links between places, as every message takes them.

    Parameters
    ----------
    start, end : places, shape (pairs,).

    Returns
    -------
    First link of each pair and the end of the last, shape (pairs + 1,), and the links, numbered as
    in `Network.links`.

    Raises
    ------
    UsageError : A072.

    >>> [a.tolist() for a in ways(Network(4, 1e9, 0.0), np.array([0, 1]), np.array([2, 1]))]
    [[0, 2, 3], [0, 6, 9]]
    """
    _sound(network)
    try:
        first, links = native_routes(
            _as(start, np.uint32), _as(end, np.uint32), **_made_of(network)
        )
    except (OverflowError, ValueError) as error:
        raise _translated(error) from None
    return np.frombuffer(first, dtype=np.uint64).astype(np.int64), np.frombuffer(
        links, dtype=np.uint32
    ).astype(np.int64)


def _made_of(network: Network) -> dict[str, Any]:
    """Return the shape and nodes as the native core takes them."""
    shape, numbers = _laid(network)
    made = network.made_of
    backbone = network.backbone and (
        network.backbone.bandwidth / PICOSECONDS,
        _tick(network.backbone.seconds),
    )
    passes = [k in set(made.passes) for k in range(len(made.parts))]
    wires = [
        (w.source, w.target, w.bandwidth / PICOSECONDS, _tick(w.seconds), w.shared)
        for w in made.wires
    ]
    of_node = {
        "parts": len(made.parts),
        "cards": list(made.cards),
        "passes": passes,
        "wires": wires,
    }
    return {
        "shape": shape,
        "numbers": numbers,
        "nodes": network.hosts,
        "backbone": backbone,
        **of_node,
    }


def _translated(error: Exception) -> TurnbuckleError:
    """Translate a refusal of the native core to a coded error."""
    if isinstance(error, OverflowError):
        return _refused("a number of hosts, parts or cables that is negative or too large")
    if isinstance(error, RuntimeError):
        count, named = error.args
        return _stuck(int(count), list(named))
    return _refused(str(error))


def _laid(network: Network) -> tuple[str, list[list[int]]]:
    """Return a shape by its name and its numbers, as the native core takes it."""
    match network.shape:
        case None:
            return "switch", []
        case FatTree(down, up, cables):
            return "fat-tree", [list(down), list(up), list(cables)]
        case Torus(dims, cards):
            return "torus", [list(dims), [cards]]
        case Dragonfly(groups, routers, cards, channels):
            return "dragonfly", [[groups, routers, cards, channels]]


def of_tasks(tasks: Tasks) -> Program:
    """Convert a declared task graph to a program: a process for every track and for every task
    without; edges are messages.

    Replayed it equals `turnbuckle.replay.tasks.replay_tasks`, to the picosecond that lags and
    durations are rounded to.
    """
    count = len(tasks)
    track = np.full(count, -1) if tasks.track is None else tasks.track
    alone = track < 0
    key = np.where(alone, track.max(initial=-1) + 1 + np.arange(count), track)
    process = np.unique(key, return_inverse=True)[1]
    edges = len(tasks.source)
    # each task awaits its edges, works, and sends its own
    when = np.concatenate([3 * tasks.target, 3 * np.arange(count) + 1, 3 * tasks.source + 2])
    code = np.concatenate(
        [np.full(edges, Op.AWAIT), np.full(count, Op.WORK), np.full(edges, Op.SEND)]
    ).astype(np.uint8)
    arg = np.concatenate([np.arange(edges), np.arange(count), np.arange(edges)])
    owner = process[when // 3]
    order = np.lexsort((when, owner))
    processes = int(process.max(initial=-1)) + 1
    first = np.searchsorted(owner[order], np.arange(processes + 1))
    nothing = np.zeros(0, dtype=np.int64)
    none, host = np.zeros(0), np.zeros(processes, dtype=np.int64)
    source, target, leaves = (
        process[tasks.source],
        process[tasks.target],
        np.full(edges, Leaves.EDGE, dtype=np.uint8),
    )
    sizes, code, arg = tasks.lag_seconds, code[order], arg[order]
    return Program(
        first, code, arg, tasks.seconds, nothing, none, nothing, host, source, target, sizes, leaves
    )


def _stuck(count: int, named: list[tuple[int, int, int]]) -> TurnbuckleError:
    """Name the processes that wait in a circle, or the first that waits for what never comes."""
    waits = {process: other for process, other, _ in named}
    at_op = {process: op for process, _, op in named}
    first, other, _ = named[0]
    seen: dict[int, None] = {}
    member = first
    while member in waits and member not in seen:
        seen[member] = None
        member = waits[member]
    if member in seen:
        members = list(seen)[list(seen).index(member) :]
        circle = [str(p) for p in [*members, member]]
        if len(circle) > _SHOWN:
            circle[_SHOWN - 2 : -2] = [f"... ({len(circle) - 1} processes) ..."]
        error = error_of("A071.ring", found=f"process {' -> '.join(circle)}", count=count)
        stuck = tuple((p, at_op[p]) for p in members)
    else:
        error = error_of(
            "A071.lost", found=f"process {first} waits for process {other}", count=count
        )
        stuck = ((first, at_op[first]),)
    assert isinstance(error, UsageError)
    error.waiting = stuck
    return error


def _sound(network: Network) -> None:
    """Validate network parameters; A072 names the offending one."""
    times = ("hop_seconds", "inside_seconds", "latency", "send_overhead", "receive_overhead", "gap")
    for wire in network.made_of.wires:
        if not (
            np.isfinite(wire.bandwidth)
            and wire.bandwidth > 0
            and 0 <= wire.seconds * PICOSECONDS <= _LONGEST
        ):
            raise _refused(f"a wire of {wire.bandwidth:g} B/s and {wire.seconds:g} s")
    if (shared := network.backbone) and not (
        network.shape is None
        and np.isfinite(shared.bandwidth)
        and shared.bandwidth > 0
        and 0 <= shared.seconds * PICOSECONDS <= _LONGEST
    ):
        raise _refused(f"a backbone of {shared.bandwidth:g} B/s and {shared.seconds:g} s")
    for name in ("bandwidth", "inside_bandwidth", *times, "seconds_per_byte", "overhead_per_byte"):
        value = getattr(network, name)
        least_is_none = name not in ("bandwidth", "inside_bandwidth")
        if not (np.isfinite(value) and (value > 0 or (least_is_none and value == 0))):
            raise _refused(f"{name} of {value:g}")
        if name in times and value * PICOSECONDS > _LONGEST:
            raise _refused(
                f"{name} of {value:g} s: a replay is counted in picoseconds, up to "
                f"{_LONGEST / PICOSECONDS:.3g} s"
            )


def _packing(network: Network) -> tuple[int, int, int]:
    """Return the bytes of a packet's payload, header and link buffer; refuse values that are not
    whole or do not fit.
    """
    sizes = []
    for name in ("packet_bytes", "header_bytes", "buffer_bytes"):
        value = getattr(network, name)
        least = 1 if name == "packet_bytes" else 0
        if not (least <= value <= _WIDEST and value == int(value)):
            raise _refused(f"{name} of {value:g}: whole bytes, {least:g} to {_WIDEST:.0f}")
        sizes.append(int(value))
    payload, header, buffer = sizes
    if buffer < payload + header:
        raise _refused(
            f"buffer_bytes of {buffer}: a packet of {payload + header} bytes does not fit"
        )
    return payload, header, buffer


def _refused(what: str) -> TurnbuckleError:
    return error_of("A072", found=what)


def _tick(seconds: float) -> int:
    return round(seconds * PICOSECONDS)


def _ticks(seconds: Float) -> NDArray[np.uint64]:
    with np.errstate(over="ignore", invalid="ignore"):
        return _whole(np.round(np.asarray(seconds, dtype=np.float64) * PICOSECONDS))


def _sizes(program: Program) -> NDArray[np.uint64]:
    """Return the bytes of messages, picoseconds of edges."""
    size = np.asarray(program.size_bytes)
    if size.dtype == np.uint64:
        return np.ascontiguousarray(size)
    amount: Float = size.astype(np.float64)
    edges = np.asarray(program.leaves) == Leaves.EDGE
    if len(edges) != len(amount):
        raise _refused("arrays of different lengths")
    with np.errstate(over="ignore", invalid="ignore"):
        if edges.any():
            amount[edges] *= PICOSECONDS
        return _whole(np.round(amount))


def _whole(values: Float) -> NDArray[np.uint64]:
    if len(values) and not (values.min() >= 0 and values.max() <= _LONGEST):
        raise _refused("a time or size that is negative, none at all, or beyond what is counted in")
    return np.ascontiguousarray(values.astype(np.uint64))


def _as(values: NDArray[np.generic], kind: type[np.unsignedinteger]) -> NDArray[np.generic]:
    array = np.asarray(values)
    if array.dtype.kind == "f" and len(array):
        raise _refused("an index that is no whole number")
    if (
        array.dtype != kind
        and len(array)
        and not (array.min() >= 0 and array.max() <= np.iinfo(kind).max)
    ):
        raise _refused("an index that is negative or too large")
    return np.ascontiguousarray(array.astype(kind, copy=False))
