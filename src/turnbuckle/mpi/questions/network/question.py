"""Comparison of networks: one set of messages on several topologies (LiMPPy, Austin et al. 2021,
4.5; PNNL FENATE).

Messages come from a recorded MPI run, from a graph of messages, or from a pattern.  Three
fidelities:

``limppy``   LiMPPy's own: packets hold links one after the other, first come first served (`turnbuckle.mpi.networks.limppy`)
``packet``   the same protocol in the packets of the contention replay: each packet arrives wholly before each link, in finite queues
``flow``     the same protocol message by message, links shared fairly

In the last two, latencies of routes longer than two links are those of eager packets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION, Declared
from turnbuckle.mpi.networks.limppy import Protocol, packed, sound, spoken
from turnbuckle.mpi.networks.message_graphs import MessageGraph, as_program
from turnbuckle.mpi.networks.routes import Graph, read
from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.mpi.replay.program import program as of_traffic
from turnbuckle.replay.contention.contention import Program, replay
from turnbuckle.replay.contention.network import Dragonfly, FatTree, Network, Torus, between

Fidelity = Literal["limppy", "packet", "flow"]
Shape = FatTree | Torus | Dragonfly | Graph | None
#: Default topologies.
USUAL: Final = ("switch", "fat-tree", "torus", "dragonfly")
#: Parameters of the original LiMPPy.
LIMPPY: Final = Protocol()
#: Largest number of nodes of a network.
MOST_NODES: Final = 100_000
#: Largest number of links between nodes and switches of a network.
MOST_LINKS: Final = 2_000_000
_NUMBERS: Final = re.compile(r"[0-9]{1,6}(x[0-9]{1,6}){0,7}", re.ASCII)
#: Smallest queue before a link in packets, so that one packet can arrive while another leaves.
_PACKETS_OF_ROOM: Final = 2


@dataclass(frozen=True)
class Row(Declared):
    """Result on one topology."""

    topology: str
    links: int
    used: int
    seconds: float
    alone_seconds: (
        float  #: run time if no message ever waited for another on a link (packets), else nan [s]
    )
    busiest: str
    busiest_share: float
    mean_share: float
    packets: int

    @property
    def unhindered_seconds(self) -> float | None:
        """Run time if no message ever waited for another on a link, None where it is not known
        [s].
        """
        return None if math.isnan(self.alone_seconds) else self.alone_seconds


@dataclass(frozen=True)
class Answered(Declared):
    """Results of the same messages on several topologies."""

    schema_version: ClassVar[int] = SCHEMA_VERSION

    nodes: int
    messages: int
    recorded_seconds: float
    compute: float
    fidelity: Fidelity
    protocol: Protocol
    rows: tuple[Row, ...]

    @property
    def best(self) -> Row:
        """Return the fastest topology; among equals the one with the fewest links."""
        return min(self.rows, key=lambda r: (r.seconds, r.links))

    @property
    def worst(self) -> Row:
        """Return the slowest topology."""
        return max(self.rows, key=lambda r: r.seconds)


@dataclass(frozen=True)
class Messages:
    """Messages to be sent: their program with one node per rank, and their source."""

    program: Program
    protocol: Protocol
    nodes: int
    count: int
    recorded_seconds: float = math.nan
    compute: float = math.nan


def of_run(traffic: Traffic, protocol: Protocol, compute: float = 1.0) -> Messages:
    """Return the messages of a recorded MPI run, with a node for each rank.  Raises A090, an
    invalid factor.

    Parameters
    ----------
    compute : factor on the compute between calls; 0, as in LiMPPy, leaves messages alone.
    """
    if not (math.isfinite(compute) and compute >= 0):
        raise error_of("A090.compute", found=f"{compute:g}")
    sound(protocol)
    if compute == 0:
        traffic = replace(traffic, kept_seconds=np.zeros_like(traffic.kept_seconds))
    program = of_traffic(traffic, eager_limit=protocol.eager_bytes, compute=compute)
    count = len(traffic.messages.send) + sum(len(r.block_bytes) for r in traffic.rounds)
    return Messages(program, protocol, traffic.ranks, count, traffic.seconds, compute)


def of_graph(graph: MessageGraph, protocol: Protocol) -> Messages:
    """Return the messages of a graph.  Raises A089, A090."""
    sound(protocol)
    return Messages(
        as_program(graph, protocol.eager_bytes, acknowledged=protocol.acknowledged),
        protocol,
        graph.nodes,
        len(graph.source),
    )


def topology(text: str, nodes: int) -> tuple[str, Shape]:
    """Return the full name and the shape of a topology, as large as the nodes need where the text
    has no numbers.  Raises A090.

    Parameters
    ----------
    text : ``switch``; ``fat-tree`` or ``fat-tree:4x4:1x2`` (children of each level, parents of
        each); ``torus`` or ``torus:4x4x2``; ``dragonfly`` or ``dragonfly:9x4x2x2`` (groups, routers
        of each, cards and channels of each router); or the name of a CSV table of cables, from and
        to, between switches with a node each.

    >>> topology("torus", 12), topology("fat-tree", 16)[0], topology("dragonfly", 30)[0]
    (('torus:3x2x2', Torus(dims=(3, 2, 2), cards=1)), 'fat-tree:4x4:1x4', 'dragonfly:9x4x2x2')
    """
    if text.strip().lower().endswith(".csv"):
        graph = read(Path(text.strip()))
        return _with_room(Path(text.strip()).name, graph, graph.hosts, nodes)
    name, *rest = text.strip().lower().split(":")
    numbers = [
        tuple(int(n) for n in part.split("x")) if _NUMBERS.fullmatch(part) else (0,)
        for part in rest
    ]
    default_numbers = _usual(name, nodes) if not rest else None
    if any(n < 1 for part in numbers for n in part):
        numbers = []
    match (name, default_numbers or numbers):
        case ("switch", []) if not rest:
            return "switch", None
        case ("fat-tree", [down, up]) if len(down) == len(up):
            shape: Shape = FatTree(down, up, (1,) * len(up))
            room = math.prod(down)
        case ("torus", [dims]):
            shape, room = Torus(dims), math.prod(dims)
        case ("dragonfly", [(groups, routers, cards, channels)]) if (
            routers * channels >= groups - 1
        ):
            shape, room = Dragonfly(groups, routers, cards, channels), groups * routers * cards
        case _:
            fix = (
                "switch, fat-tree, torus, dragonfly, or with numbers as fat-tree:4x4:1x2, "
                "torus:4x4x2, dragonfly:9x4x2x2; "
            )
            fix += "routers x channels of a dragonfly's group reach all other groups"
            raise error_of("A090.topology", found=text.strip()[:60], fix=fix)
    return _with_room(
        f"{name}:{':'.join('x'.join(map(str, part)) for part in default_numbers or numbers)}",
        shape,
        room,
        nodes,
    )


def _with_room(name: str, shape: Shape, room: int, nodes: int) -> tuple[str, Shape]:
    """Return the name and the shape; refuse (A090) too many links or too few nodes."""
    links = 2 * (room + len(shape.ends)) if isinstance(shape, Graph) else between(shape, room)
    if links > MOST_LINKS:
        raise error_of("A090.links", found=f"{name[:60]} has {links:.3g}", most_links=MOST_LINKS)
    if room < nodes:
        raise error_of("A090.nodes", found=f"{name[:60]} has {room:,}", nodes=nodes)
    return name, shape


def _usual(name: str, nodes: int) -> list[tuple[int, ...]]:
    """Return the numbers of the smallest usual shape: a full two-level tree, a near cube, or a
    balanced dragonfly.
    """
    if name == "fat-tree":
        leaf = max(math.isqrt(nodes - 1) + 1, 1)
        return [(leaf, -(-nodes // leaf)), (1, leaf)]
    if name == "torus":
        x = next(n for n in range(1, nodes + 1) if n**3 >= nodes)
        # Among near cubes the one with the fewest routers is the smallest.
        near = [
            (a, b, c)
            for a in (x, x + 1)
            for b in (x, x - 1)
            for c in (x, x - 1)
            if b and c and a * b * c >= nodes and a >= b >= c
        ]
        return [min(near, key=lambda d: (math.prod(d), d))]
    if name == "dragonfly":
        h = next(n for n in range(1, nodes + 1) if (2 * n * n + 1) * 2 * n * n >= nodes)
        return [(2 * h * h + 1, 2 * h, h, h)]
    return []


def networks(
    messages: Messages, topologies: Sequence[str] = USUAL, *, fidelity: Fidelity = "limppy"
) -> Answered:
    """Replay the same messages on several topologies.

    Raises A071, messages that wait for each other; A090, impossible topologies or parameters; A072
    from the replay.
    """
    if not topologies or not 2 <= messages.nodes <= MOST_NODES:
        what = f"{messages.nodes:,} nodes" if topologies else "no topology"
        raise error_of("A090.network", found=what, most_nodes=MOST_NODES)
    shapes = [topology(text, messages.nodes) for text in topologies]
    rows = tuple(
        _by_packets(messages, name, shape)
        if fidelity == "limppy"
        else _by_messages(messages, name, shape, fidelity)
        for name, shape in dict.fromkeys(shapes)
    )
    return Answered(
        messages.nodes,
        messages.count,
        messages.recorded_seconds,
        messages.compute,
        fidelity,
        messages.protocol,
        rows,
    )


def _by_packets(messages: Messages, name: str, shape: Shape) -> Row:
    """Return the row of a replay in LiMPPy's packets."""
    protocol = messages.protocol
    network = (
        shape
        if isinstance(shape, Graph)
        else Network(messages.nodes, protocol.remote_bandwidth, 0.0, shape)
    )
    # Packets are resources and delays, so the replay itself needs no links.
    bare = Network(messages.nodes, protocol.remote_bandwidth, 0.0)
    protocol_program = spoken(messages.program, protocol)
    packet_program = packed(protocol_program, network, protocol)
    seconds = replay(packet_program.program, bare).seconds
    alone = replay(packed(protocol_program, network, protocol, alone=True).program, bare).seconds
    busy = np.zeros(_between(network))
    busy[packet_program.link] = packet_program.busy_seconds / seconds if seconds else 0.0
    return _row(name, network, seconds, alone, busy, packet_program.packets)


def _by_messages(messages: Messages, name: str, shape: Shape, fidelity: Fidelity) -> Row:
    """Return the row of a replay of the protocol's messages, which share links in the engine of the
    contention replay.
    """
    p, hop = messages.protocol, messages.protocol.eager_switch_seconds
    if isinstance(shape, Graph):
        raise error_of("A090.graph", found=name[:60])
    header, packets = p.header_bytes * (2 if p.legacy_headers else 1), fidelity == "packet"
    network = Network(messages.nodes, p.remote_bandwidth, hop, shape)
    if packets:
        room = max(network.buffer_bytes, _PACKETS_OF_ROOM * (p.packet_bytes + header))
        network = replace(
            network, packet_bytes=p.packet_bytes, header_bytes=header, buffer_bytes=room
        )
    # A route of h links has h - 1 switches, so the surplus latency is taken from its ends; queues
    # add the headers themselves.
    eager_node = max(p.eager_node_seconds - hop / 2, 0.0)
    remote_node = max(p.remote_node_seconds + p.remote_switch_seconds - 2 * hop, 0.0)
    ends = replace(
        p,
        header_bytes=0 if packets else header,
        eager_node_seconds=eager_node,
        remote_node_seconds=remote_node,
    )
    protocol_program = spoken(messages.program, ends)
    # A limit equal to the link's bandwidth would add a queue; a message of a rank to itself has no
    # link that limits it.
    places = np.asarray(protocol_program.program.host)[
        np.stack(
            [
                protocol_program.program.source[protocol_program.begin :],
                protocol_program.program.target[protocol_program.begin :],
            ]
        )
    ]
    most = np.where(
        protocol_program.remote, p.remote_bandwidth, min(p.eager_bandwidth, p.remote_bandwidth)
    )
    limited = (most < p.remote_bandwidth) | (places[0] == places[1])
    limit = np.append(np.full(protocol_program.begin, math.inf), np.where(limited, most, math.inf))
    done = replay(
        replace(protocol_program.program, rate_limit=limit),
        network,
        "packet" if packets else "flow",
    )
    count = _between(network)
    busy = (
        done.carried_bytes[:count] / (p.remote_bandwidth * done.seconds)
        if done.seconds
        else np.zeros(count)
    )
    size = np.asarray(
        protocol_program.program.size_bytes[protocol_program.begin :], dtype=np.float64
    )
    count = int(np.maximum(np.ceil(size / p.packet_bytes), 1).sum()) if packets else 0
    return _row(name, network, done.seconds, math.nan, busy, count)


def _between(network: Network | Graph) -> int:
    """Return the number of links between nodes, which precede those inside nodes."""
    return network.links_between if isinstance(network, Network) else len(network.links())


def _row(
    name: str,
    network: Network | Graph,
    seconds: float,
    alone: float,
    busy: np.ndarray[Any, Any],
    packets: int,
) -> Row:
    """Return the row of a topology from the shares of its links."""
    most = int(busy.argmax())
    used = busy > 0
    mean = float(busy[used].mean()) if used.any() else 0.0
    return Row(
        name,
        len(busy),
        int(used.sum()),
        seconds,
        alone,
        network.links()[most] if used.any() else "",
        float(busy[most]),
        mean,
        packets,
    )
