"""Networks as data: the parts of a node, and the network between nodes.

A place is a part of a node: a socket, a GPU.  Inside a node a message takes the path of fewest
wires, and of these the widest.  To another node it goes to the NIC nearest to its place, over the
links of the shape, and from the NIC nearest to its end.

=============  ==================================================================================  ====================================
shape          links                                                                               routes
=============  ==================================================================================  ====================================
None           a link up and a link down from every NIC to one switch                              the only one
`FatTree`      XGFT(h; m; w), parallel cables                                                      D-mod-k (Rodriguez et al. 2009)
`Torus`        routers with two links a dimension                                                  dimension by dimension, shorter way
`Dragonfly`    groups of linked routers, linked by global channels (Kim et al. 2008)               minimal
=============  ==================================================================================  ====================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

_AXES: Final = "xyzuvw"


@dataclass(frozen=True)
class FatTree:
    """XGFT(h; down; up) with parallel cables at each level, routed D-mod-k.

    Attributes
    ----------
    down : number of children of a switch at each level, from the leaves up.
    up : number of parents of each child at each level.
    cables : number of parallel cables to each parent.
    """

    down: tuple[int, ...]
    up: tuple[int, ...]
    cables: tuple[int, ...]


@dataclass(frozen=True)
class Torus:
    """A torus, routed dimension by dimension in the shorter direction.

    Attributes
    ----------
    dims : number of routers along each dimension.
    cards : number of NICs of a router.
    """

    dims: tuple[int, ...]
    cards: int = 1


@dataclass(frozen=True)
class Dragonfly:
    """A dragonfly, routed minimally: one global channel between two groups, at most one local link
    before it and one after it.

    Attributes
    ----------
    groups : number of groups; each has at least one channel to every other: routers x channels >=
        groups - 1.
    routers : number of routers of a group, all linked with each other.
    cards, channels : numbers of NICs and of global channels of a router.
    """

    groups: int
    routers: int
    cards: int
    channels: int


@dataclass(frozen=True)
class Backbone:
    """A link inside the one switch that all messages between NICs cross, whichever way they go.

    Attributes
    ----------
    bandwidth : bandwidth of all messages together [B/s].
    seconds : latency [s].
    """

    bandwidth: float
    seconds: float = 0.0


@dataclass(frozen=True)
class Wire:
    """A wire inside a node.

    Attributes
    ----------
    source, target : indices of the parts at its ends; equal for traffic that stays at a part.
    bandwidth : bandwidth [B/s].
    seconds : latency [s].
    shared : whether both directions share its capacity; otherwise the wire has one direction only.
    """

    source: int
    target: int
    bandwidth: float
    seconds: float = 0.0
    shared: bool = False


@dataclass(frozen=True)
class Node:
    """Parts of a node, and the wires between them.

    Attributes
    ----------
    parts : names of the parts.
    wires : wires between the parts.
    cards : parts with a NIC, at which a link of the network ends.
    passes : parts through which a path may lead; GPUs and NICs are not among them.
    """

    parts: tuple[str, ...]
    wires: tuple[Wire, ...]
    cards: tuple[int, ...]
    passes: tuple[int, ...]

    def parts_of(self, kind: str) -> tuple[int, ...]:
        """Return the parts by the first word of their name: ``gpu``, ``host``, ``card``.

        >>> plain(1e9, 0.0).parts_of("host")
        (0,)
        """
        return tuple(k for k, name in enumerate(self.parts) if name.split()[0] == kind)


def plain(bandwidth: float, seconds: float) -> Node:
    """Return a node of one part that is also its NIC; traffic that stays on it shares one wire."""
    return Node(("host",), (Wire(0, 0, bandwidth, seconds, shared=True),), (0,), (0,))


@dataclass(frozen=True)
class Network:
    """Nodes, and a network of equal links between their NICs.

    Attributes
    ----------
    hosts : number of nodes.
    bandwidth : bandwidth of a link, one way [B/s].
    hop_seconds : latency of a link [s].
    shape : shape of the network between NICs, or None for one switch.
    inside_bandwidth, inside_seconds : bandwidth [B/s] and latency [s] between processes of a node,
        for nodes without parts.
    latency, send_overhead, receive_overhead, gap : L, o, o, g of `logp` [s]; the overheads hold for
        every fidelity.
    seconds_per_byte, overhead_per_byte : G, O [s/B].
    node : parts of each node, or None for nodes of one part.
    backbone : link that all messages through the one switch share, or None; only without a shape.
    handshake : whether a rendezvous pays for the request and for its answer, one latency each.
    packet_bytes, header_bytes : largest payload of a packet, and its header (`packet`) [B].
    buffer_bytes : room for packets before each link, at least one packet (`packet`) [B].
    """

    hosts: int
    bandwidth: float
    hop_seconds: float
    shape: FatTree | Torus | Dragonfly | None = None
    inside_bandwidth: float = 100e9
    inside_seconds: float = 0.0
    latency: float = 0.0
    send_overhead: float = 0.0
    receive_overhead: float = 0.0
    gap: float = 0.0
    seconds_per_byte: float = 0.0
    overhead_per_byte: float = 0.0
    node: Node | None = None
    backbone: Backbone | None = None
    handshake: bool = False
    packet_bytes: float = 8192
    header_bytes: float = 0
    buffer_bytes: float = 65536

    @property
    def made_of(self) -> Node:
        """Return the parts of a node."""
        return self.node or plain(self.inside_bandwidth, self.inside_seconds)

    @property
    def cards(self) -> int:
        """Return the number of NICs of all nodes."""
        return self.hosts * len(self.made_of.cards)

    def links(self) -> list[str]:
        """Return the names of all links, in the order of
        `turnbuckle.replay.contention.contention.Contended.carried_bytes`.

        >>> Network(2, 1e9, 0.0).links()
        ['card 0 out', 'card 1 out', 'card 0 in', 'card 1 in', 'node 0: host', 'node 1: host']
        """
        shared = ["backbone"] if self.backbone else []
        return [
            *_between(self.shape, self.cards),
            *shared,
            *(f"node {n}: {w}" for n in range(self.hosts) for w in self.wires),
        ]

    @property
    def wires(self) -> list[str]:
        """Return the names of the links inside a node."""
        made = self.made_of
        return [_wire_name(made, w) for w in made.wires]

    @property
    def links_between(self) -> int:
        """Return the number of links between nodes, which precede those inside nodes; a backbone is
        one of them.
        """
        return between(self.shape, self.cards) + (self.backbone is not None)

    def link(self, index: int) -> str:
        """Return the name of one link, without making those of all.

        >>> [Network(2, 1e9, 0.0).link(k) for k in (1, 5)]
        ['card 1 out', 'node 1: host']
        """
        inside = index - self.links_between
        if inside >= 0:
            node, wire = divmod(inside, len(self.made_of.wires))
            return f"node {node}: {self.wires[wire]}"
        return next(islice(_between(self.shape, self.cards), index, None), "backbone")

    def capacities(self) -> list[float]:
        """Return the bandwidth of all links [B/s], in the same order."""
        made = self.made_of
        shared = [self.backbone.bandwidth] if self.backbone else []
        return [
            *[self.bandwidth] * between(self.shape, self.cards),
            *shared,
            *[w.bandwidth for w in made.wires] * self.hosts,
        ]


def _wire_name(made: Node, wire: Wire) -> str:
    if wire.source == wire.target:
        return made.parts[wire.source]
    return f"{made.parts[wire.source]} {'-' if wire.shared else '->'} {made.parts[wire.target]}"


def between(shape: FatTree | Torus | Dragonfly | None, cards: int) -> int:
    """Return the number of links between the NICs of a shape; each direction counts.

    >>> shapes = (None, FatTree((4, 2), (1, 2), (1, 2)), Torus((2, 4)), Dragonfly(4, 2, 1, 2))
    >>> [between(shape, 8) == len(list(_between(shape, 8))) for shape in shapes]
    [True, True, True, True]
    """
    match shape:
        case None:
            return 2 * cards
        case FatTree(down, up, cables):
            return sum(
                2 * math.prod(down[k:]) * math.prod(up[: k + 1]) * cables[k]
                for k in range(len(down))
            )
        case Torus(dims, _):
            return 2 * cards + 2 * math.prod(dims) * len(dims)
        case Dragonfly(groups, routers, _, channels):
            return 2 * cards + groups * routers * (routers + channels)


def _between(shape: FatTree | Torus | Dragonfly | None, cards: int) -> Iterator[str]:
    """Yield names of links between nodes, as the native core orders them
    (crates/turnbuckle-core/src/contention/network/shape.rs).
    """
    ends = [*(f"card {c} out" for c in range(cards)), *(f"card {c} in" for c in range(cards))]
    if shape is None:
        yield from ends
    elif isinstance(shape, FatTree):
        below, wide = 1, 1
        leaves = math.prod(shape.down)
        for level, (m, w, p) in enumerate(zip(shape.down, shape.up, shape.cables, strict=True)):
            count = leaves // below * wide
            what = "card" if level == 0 else f"level {level} switch"
            for direction in ("up", "down"):
                yield from (
                    f"{what} {n} {direction}{f' {k}' if w * p > 1 else ''}"
                    for n in range(count)
                    for k in range(w * p)
                )
            below, wide = below * m, wide * w
    elif isinstance(shape, Torus):
        yield from ends
        lanes = [
            f"{sign}{_AXES[k] if k < len(_AXES) else k}"
            for k in range(len(shape.dims))
            for sign in "+-"
        ]
        yield from (f"router {r} {lane}" for r in range(math.prod(shape.dims)) for lane in lanes)
    else:
        yield from ends
        routers = shape.groups * shape.routers
        yield from (
            f"router {r} to {r // shape.routers * shape.routers + k}"
            for r in range(routers)
            for k in range(shape.routers)
        )
        yield from (
            f"group {g} channel {c}"
            for g in range(shape.groups)
            for c in range(shape.routers * shape.channels)
        )
