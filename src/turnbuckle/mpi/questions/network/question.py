"""Which network suits a run's messages: one set of messages on several topologies (LiMPPy, Austin et al. 2021, 4.5; PNNL FENATE).

Messages come from a recorded MPI run, from a graph of messages, or from a pattern.  Three fidelities:

``limppy``   LiMPPy's own: packets hold links one after the other, first come first served (`turnbuckle.mpi.networks.limppy`)
``packet``   the same protocol in the packets of the contention replay: wholly there before each link, in queues of finite room
``flow``     the same protocol message by message, links shared fairly

In the last two, latencies of routes longer than two links are those of eager packets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from turnbuckle.foundation.errors import UsageError
from turnbuckle.mpi.networks.limppy import Protocol, packed, sound, spoken
from turnbuckle.mpi.networks.message_graphs import MessageGraph, as_program
from turnbuckle.mpi.networks.routes import Graph, read
from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.mpi.replay.program import program as of_traffic
from turnbuckle.projection.run import SCHEMA_VERSION
from turnbuckle.replay.contention.contention import Program, replay
from turnbuckle.replay.contention.network import Dragonfly, FatTree, Network, Torus

Fidelity = Literal["limppy", "packet", "flow"]
Shape = FatTree | Torus | Dragonfly | Graph | None
#: What is tried where nothing is asked for.
USUAL: Final = ("switch", "fat-tree", "torus", "dragonfly")
#: The original's parameters.
LIMPPY: Final = Protocol()
#: Nodes of one network at most.
MOST_NODES: Final = 100_000
#: Links between nodes and switches of one network at most.
MOST_LINKS: Final = 2_000_000
_NUMBERS: Final = re.compile(r"[0-9]{1,6}(x[0-9]{1,6}){0,7}", re.ASCII)
#: Packets that the queue before a link holds at least, so that one can come in while another goes out.
_PACKETS_OF_ROOM: Final = 2


@dataclass(frozen=True)
class Row:
    """One topology.

    Attributes
    ----------
    topology : as `topology` reads it, with all its numbers.
    links, used : directed links between nodes and switches, and how many of them carry something.
    seconds : run time [s].
    alone_seconds : run time if no message ever waited for another on a link (packets), else nan [s].
    busiest : name of the link that is taken longest.
    busiest_share : of the run time in which it is taken; for flows of its capacity.
    mean_share : the same, mean over the links used.
    packets : sent, 0 for flows.
    """

    topology: str
    links: int
    used: int
    seconds: float
    alone_seconds: float
    busiest: str
    busiest_share: float
    mean_share: float
    packets: int

    def as_dict(self) -> dict[str, Any]:
        """A row of the table; what is not known is None."""
        return {**self.__dict__, "alone_seconds": None if math.isnan(self.alone_seconds) else self.alone_seconds}


@dataclass(frozen=True)
class Answered:
    """The same messages on several topologies.

    Attributes
    ----------
    nodes, messages : of the run or graph.
    recorded_seconds : of a recorded run, else nan [s].
    compute : times the recorded compute, or nan where there is none.
    """

    nodes: int
    messages: int
    recorded_seconds: float
    compute: float
    fidelity: Fidelity
    protocol: Protocol
    rows: tuple[Row, ...]

    @property
    def best(self) -> Row:
        """The fastest; of equals the one with the fewest links."""
        return min(self.rows, key=lambda r: (r.seconds, r.links))

    @property
    def worst(self) -> Row:
        """The slowest."""
        return max(self.rows, key=lambda r: r.seconds)

    def as_dict(self) -> dict[str, Any]:
        """The JSON contract of ``model network``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "nodes": self.nodes,
            "messages": self.messages,
            "recorded_seconds": self.recorded_seconds,
            "compute": self.compute,
            "fidelity": self.fidelity,
            "protocol": asdict(self.protocol),
            "best": self.best.topology,
            "rows": [r.as_dict() for r in self.rows],
        }


@dataclass(frozen=True)
class Messages:
    """What is to be sent and how: a program, one node for each rank, and what it came from."""

    program: Program
    protocol: Protocol
    nodes: int
    count: int
    recorded_seconds: float = math.nan
    compute: float = math.nan


def of_run(traffic: Traffic, protocol: Protocol, compute: float = 1.0) -> Messages:
    """A recorded MPI run, a node for each rank.

    Parameters
    ----------
    compute : times what ranks do between their calls; 0, as in LiMPPy, leaves messages alone.

    Raises
    ------
    UsageError : A090, compute that is no factor.
    """
    if not (math.isfinite(compute) and compute >= 0):
        raise UsageError("A090", "compute is a factor of 0 or more", found=f"{compute:g}", fix="1 as recorded, 0 for messages alone")
    sound(protocol)
    if compute == 0:
        traffic = replace(traffic, kept_seconds=np.zeros_like(traffic.kept_seconds))
    program = of_traffic(traffic, eager_limit=protocol.eager_bytes, compute=compute)
    count = len(traffic.messages.send) + sum(len(r.block_bytes) for r in traffic.rounds)
    return Messages(program, protocol, traffic.ranks, count, traffic.seconds, compute)


def of_graph(graph: MessageGraph, protocol: Protocol) -> Messages:
    """A graph of messages.

    Raises
    ------
    UsageError : A089, A090.
    """
    sound(protocol)
    return Messages(as_program(graph, protocol.eager_bytes, acknowledged=protocol.acknowledged), protocol, graph.nodes, len(graph.source))


def topology(text: str, nodes: int) -> tuple[str, Shape]:
    """A topology by its name, as large as the nodes need where no numbers are given; its full name and shape.

    Parameters
    ----------
    text : ``switch``; ``fat-tree`` or ``fat-tree:4x4:1x2`` (children of each level, parents of each); ``torus`` or ``torus:4x4x2``;
        ``dragonfly`` or ``dragonfly:9x4x2x2`` (groups, routers of each, cards and channels of each router); or the name of a CSV
        table of cables, from and to, between switches with a node each.

    Raises
    ------
    UsageError : A090.

    >>> topology("torus", 12), topology("fat-tree", 16)[0], topology("dragonfly", 30)[0]
    (('torus:3x2x2', Torus(dims=(3, 2, 2), cards=1)), 'fat-tree:4x4:1x4', 'dragonfly:9x4x2x2')
    """
    if text.strip().lower().endswith(".csv"):
        graph = read(Path(text.strip()))
        return _with_room(Path(text.strip()).name, graph, graph.hosts, nodes)
    name, *rest = text.strip().lower().split(":")
    numbers = [tuple(int(n) for n in part.split("x")) if _NUMBERS.fullmatch(part) else (0,) for part in rest]
    usual = _usual(name, nodes) if not rest else None
    if any(n < 1 for part in numbers for n in part):
        numbers = []
    match (name, usual or numbers):
        case ("switch", []) if not rest:
            return "switch", None
        case ("fat-tree", [down, up]) if len(down) == len(up):
            shape: Shape = FatTree(down, up, (1,) * len(up))
            room = math.prod(down)
        case ("torus", [dims]):
            shape, room = Torus(dims), math.prod(dims)
        case ("dragonfly", [(groups, routers, cards, channels)]) if routers * channels >= groups - 1:
            shape, room = Dragonfly(groups, routers, cards, channels), groups * routers * cards
        case _:
            fix = "switch, fat-tree, torus, dragonfly, or with numbers as fat-tree:4x4:1x2, torus:4x4x2, dragonfly:9x4x2x2; "
            fix += "routers x channels of a dragonfly's group reach all other groups"
            raise UsageError("A090", "no such topology", found=text.strip()[:60], fix=fix)
    return _with_room(f"{name}:{':'.join('x'.join(map(str, part)) for part in usual or numbers)}", shape, room, nodes)


def _with_room(name: str, shape: Shape, room: int, nodes: int) -> tuple[str, Shape]:
    if (links := _links(shape, room)) > MOST_LINKS:
        raise UsageError("A090", "the topology has too many links", found=f"{name[:60]} has {links:.3g}", fix=f"at most {MOST_LINKS:,}")
    if room < nodes:
        raise UsageError("A090", "the topology has too few nodes", found=f"{name[:60]} has {room:,}", fix=f"room for {nodes:,}")
    return name, shape


def _links(shape: Shape, room: int) -> int:
    """Links between cards and switches, one way each, without a name for each."""
    match shape:
        case FatTree(down, up, cables):
            levels = range(len(down))
            return sum(2 * math.prod(down[k:]) * math.prod(up[: k + 1]) * cables[k] for k in levels)
        case Torus(dims, _):
            return 2 * room + 2 * math.prod(dims) * len(dims)
        case Dragonfly(groups, routers, _, channels):
            return 2 * room + groups * routers * (routers + channels)
        case Graph():
            return 2 * room + 2 * len(shape.ends)
        case None:
            return 2 * room


def _usual(name: str, nodes: int) -> list[tuple[int, ...]]:
    """Numbers of the smallest usual shape for so many nodes: a tree of two levels without taper, a near cube, a balanced dragonfly."""
    if name == "fat-tree":
        leaf = max(math.isqrt(nodes - 1) + 1, 1)
        return [(leaf, -(-nodes // leaf)), (1, leaf)]
    if name == "torus":
        x = next(n for n in range(1, nodes + 1) if n**3 >= nodes)
        # of the shapes that are near a cube, the one with the fewest routers
        near = [(a, b, c) for a in (x, x + 1) for b in (x, x - 1) for c in (x, x - 1) if b and c and a * b * c >= nodes and a >= b >= c]
        return [min(near, key=lambda d: (math.prod(d), d))]
    if name == "dragonfly":
        h = next(n for n in range(1, nodes + 1) if (2 * n * n + 1) * 2 * n * n >= nodes)
        return [(2 * h * h + 1, 2 * h, h, h)]
    return []


def networks(messages: Messages, topologies: Sequence[str] = USUAL, *, fidelity: Fidelity = "limppy") -> Answered:
    """Replay the same messages on several topologies.

    Raises
    ------
    UsageError : A071, messages that wait for each other; A090, topologies or parameters that cannot be; A072 from the replay.
    """
    if not topologies or not 2 <= messages.nodes <= MOST_NODES:
        what = f"{messages.nodes:,} nodes" if topologies else "no topology"
        fix = f"--topology switch,torus; at most {MOST_NODES:,} nodes"
        raise UsageError("A090", "a network needs a topology and 2 nodes or more", found=what, fix=fix)
    shapes = [topology(text, messages.nodes) for text in topologies]
    rows = tuple(
        _by_packets(messages, name, shape) if fidelity == "limppy" else _by_messages(messages, name, shape, fidelity)
        for name, shape in dict.fromkeys(shapes)
    )
    return Answered(messages.nodes, messages.count, messages.recorded_seconds, messages.compute, fidelity, messages.protocol, rows)


def _by_packets(messages: Messages, name: str, shape: Shape) -> Row:
    protocol = messages.protocol
    network = shape if isinstance(shape, Graph) else Network(messages.nodes, protocol.remote_bandwidth, 0.0, shape)
    # packets are resources and delays: the replay itself needs no links
    bare = Network(messages.nodes, protocol.remote_bandwidth, 0.0)
    said = spoken(messages.program, protocol)
    made = packed(said, network, protocol)
    seconds = replay(made.program, bare).seconds
    alone = replay(packed(said, network, protocol, alone=True).program, bare).seconds
    busy = np.zeros(_between(network))
    busy[made.link] = made.busy_seconds / seconds if seconds else 0.0
    return _row(name, network, seconds, alone, busy, made.packets)


def _by_messages(messages: Messages, name: str, shape: Shape, fidelity: Fidelity) -> Row:
    """What is said message by message: the engine of the contention replay shares the links."""
    p, hop = messages.protocol, messages.protocol.eager_switch_seconds
    if isinstance(shape, Graph):
        raise UsageError("A090", "only LiMPPy's packets know a graph of one's own", found=name[:60], fix="--fidelity limppy")
    header, packets = p.header_bytes * (2 if p.legacy_headers else 1), fidelity == "packet"
    network = Network(messages.nodes, p.remote_bandwidth, hop, shape)
    if packets:
        room = max(network.buffer_bytes, _PACKETS_OF_ROOM * (p.packet_bytes + header))
        network = replace(network, packet_bytes=p.packet_bytes, header_bytes=header, buffer_bytes=room)
    # a route of h links has h - 1 switches: what it has too much is taken from its ends; queues add the headers themselves
    said = spoken(
        messages.program,
        replace(
            p, header_bytes=0 if packets else header, eager_node_seconds=max(p.eager_node_seconds - hop / 2, 0.0),
            remote_node_seconds=max(p.remote_node_seconds + p.remote_switch_seconds - 2 * hop, 0.0),
        ),
    )  # fmt: skip
    # a limit that is the link's own would be one more queue; what a rank sends itself has no link of the network to limit it
    places = np.asarray(said.program.host)[np.stack([said.program.source[said.begin :], said.program.target[said.begin :]])]
    most = np.where(said.remote, p.remote_bandwidth, min(p.eager_bandwidth, p.remote_bandwidth))
    own = (most < p.remote_bandwidth) | (places[0] == places[1])
    limit = np.append(np.full(said.begin, math.inf), np.where(own, most, math.inf))
    done = replay(replace(said.program, rate_limit=limit), network, "packet" if packets else "flow")
    between = _between(network)
    busy = done.carried_bytes[:between] / (p.remote_bandwidth * done.seconds) if done.seconds else np.zeros(between)
    size = np.asarray(said.program.size_bytes[said.begin :], dtype=np.float64)
    count = int(np.maximum(np.ceil(size / p.packet_bytes), 1).sum()) if packets else 0
    return _row(name, network, done.seconds, math.nan, busy, count)


def _between(network: Network | Graph) -> int:
    """Links between nodes; those inside come last, one a node."""
    return len(network.links()) - (network.hosts if isinstance(network, Network) else 0)


def _row(name: str, network: Network | Graph, seconds: float, alone: float, busy: np.ndarray[Any, Any], packets: int) -> Row:
    most = int(busy.argmax())
    used = busy > 0
    mean = float(busy[used].mean()) if used.any() else 0.0
    return Row(
        name, len(busy), int(used.sum()), seconds, alone, network.links()[most] if used.any() else "", float(busy[most]), mean, packets
    )
