"""Networks as data: what a node is made of, and what joins the nodes.

A place is a part of a node: a socket, a GPU.  Inside a node a message takes the path of fewest wires, of these the widest; to another
node it goes to the card nearest to its place, over the links of the shape, and from the card nearest to its end.

=============  ==================================================================================  ====================================
shape          links                                                                               routes
=============  ==================================================================================  ====================================
None           a link up and a link down from every card to one switch                             the only one
`FatTree`      XGFT(h; m; w), parallel cables                                                      D-mod-k (Rodriguez et al. 2009)
`Torus`        routers with two links a dimension                                                  dimension by dimension, shorter way
`Dragonfly`    groups of linked routers, linked by global channels (Kim et al. 2008)               minimal
=============  ==================================================================================  ====================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_AXES: Final = "xyzuvw"


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
class Torus:
    """A torus, routed dimension by dimension, the shorter way round.

    Attributes
    ----------
    dims : routers along each dimension.
    cards : of a router.
    """

    dims: tuple[int, ...]
    cards: int = 1


@dataclass(frozen=True)
class Dragonfly:
    """A dragonfly, routed minimally: one global channel between two groups, at most one local link before it and one after it.

    Attributes
    ----------
    groups : each with a channel to every other at least: routers x channels >= groups - 1.
    routers : of a group, all linked.
    cards, channels : of a router.
    """

    groups: int
    routers: int
    cards: int
    channels: int


@dataclass(frozen=True)
class Wire:
    """A wire inside a node.

    Attributes
    ----------
    source, target : parts at its ends; the same for traffic that stays at a part.
    bandwidth : [B/s].
    seconds : latency [s].
    shared : whether the way back shares its capacity; otherwise there is no way back by this wire.
    """

    source: int
    target: int
    bandwidth: float
    seconds: float = 0.0
    shared: bool = False


@dataclass(frozen=True)
class Node:
    """What a node is made of.

    Attributes
    ----------
    parts : their names.
    wires : between them.
    cards : parts at which a link of the network ends.
    passes : parts through which a path may lead; GPUs and cards are none.
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
    """Return a node of one part that is its own card; what stays on it shares one wire."""
    return Node(("host",), (Wire(0, 0, bandwidth, seconds, shared=True),), (0,), (0,))


@dataclass(frozen=True)
class Network:
    """Nodes, and a network of equal links between their cards.

    Attributes
    ----------
    hosts : nodes on it.
    bandwidth : of a link, one way [B/s].
    hop_seconds : latency of a link [s].
    shape : of the network between cards, or None for one switch.
    inside_bandwidth, inside_seconds : between processes of one node that is given by no more than that [B/s], [s].
    latency, send_overhead, receive_overhead, gap : L, o, o, g of `logp` [s]; the overheads hold for every fidelity.
    seconds_per_byte, overhead_per_byte : G, O [s/B].
    node : what nodes are made of, or None for one part each.
    handshake : whether a rendezvous pays for the request and for its answer, a latency each.
    packet_bytes, header_bytes : of `packet`: bytes of a message in a packet, at most, and bytes of a packet beside those [B].
    buffer_bytes : of `packet`: room for packets before each link; one packet at least [B].
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
    handshake: bool = False
    packet_bytes: float = 8192
    header_bytes: float = 0
    buffer_bytes: float = 65536

    @property
    def made_of(self) -> Node:
        """Return what a node is made of."""
        return self.node or plain(self.inside_bandwidth, self.inside_seconds)

    @property
    def cards(self) -> int:
        """Return the cards of all nodes."""
        return self.hosts * len(self.made_of.cards)

    def links(self) -> list[str]:
        """Return the names of all links, in the order of `turnbuckle.replay.contention.contention.Contended.carried_bytes`.

        >>> Network(2, 1e9, 0.0).links()
        ['card 0 out', 'card 1 out', 'card 0 in', 'card 1 in', 'node 0: host', 'node 1: host']
        """
        made = self.made_of
        wires = [_wire_name(made, w) for w in made.wires]
        return [*_between(self.shape, self.cards), *(f"node {n}: {w}" for n in range(self.hosts) for w in wires)]

    def capacities(self) -> list[float]:
        """Return the bandwidth of all links [B/s], in the same order."""
        made = self.made_of
        between = sum(1 for _ in _between(self.shape, self.cards))
        return [*[self.bandwidth] * between, *[w.bandwidth for w in made.wires] * self.hosts]


def _wire_name(made: Node, wire: Wire) -> str:
    if wire.source == wire.target:
        return made.parts[wire.source]
    return f"{made.parts[wire.source]} {'-' if wire.shared else '->'} {made.parts[wire.target]}"


def _between(shape: FatTree | Torus | Dragonfly | None, cards: int) -> Iterator[str]:
    """Yield names of links between nodes, as the native core orders them (crates/turnbuckle-core/src/contention/network/shape.rs)."""
    ends = [*(f"card {c} out" for c in range(cards)), *(f"card {c} in" for c in range(cards))]
    if shape is None:
        yield from ends
    elif isinstance(shape, FatTree):
        below, wide = 1, 1
        leaves = _product(shape.down)
        for level, (m, w, p) in enumerate(zip(shape.down, shape.up, shape.cables, strict=True)):
            count = leaves // below * wide
            what = "card" if level == 0 else f"level {level} switch"
            for direction in ("up", "down"):
                yield from (f"{what} {n} {direction}{f' {k}' if w * p > 1 else ''}" for n in range(count) for k in range(w * p))
            below, wide = below * m, wide * w
    elif isinstance(shape, Torus):
        yield from ends
        yield from (
            f"router {r} {'-' if back else '+'}{_AXES[k] if k < len(_AXES) else k}"
            for r in range(_product(shape.dims)) for k in range(len(shape.dims)) for back in (False, True)
        )  # fmt: skip
    else:
        yield from ends
        routers = shape.groups * shape.routers
        yield from (f"router {r} to {r // shape.routers * shape.routers + k}" for r in range(routers) for k in range(shape.routers))
        yield from (f"group {g} channel {c}" for g in range(shape.groups) for c in range(shape.routers * shape.channels))


def _product(numbers: tuple[int, ...]) -> int:
    out = 1
    for number in numbers:
        out *= number
    return out
