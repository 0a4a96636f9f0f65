"""Machine as a network: the route of each message, its bandwidth and latency, and the messages that
share it.

Routes are those of the replay (`replay.contention.contention`): one message is replayed between
each pair of parts, and the links that carried it are recorded.

Errors (`UsageError`): A050, a file that does not describe a network; A052, an impossible number of
nodes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION, Declared
from turnbuckle.mpi.replay.node_layout import laid_out
from turnbuckle.replay.contention.contention import Leaves, Op, Program, replay
from turnbuckle.replay.contention.network import Dragonfly, FatTree, Network, Node, Torus
from turnbuckle.replay.contention.network_file import Described, places

#: Largest number of parts between which routes are shown; of larger nodes the first hosts, GPUs and
#: NICs.
MOST_ENDS: Final = 48
_SHOWN: Final = ("host", "gpu", "card")
_MOST_LINKS: Final = 1 << 26


@dataclass(frozen=True)
class Way(Declared):
    """Route from one part of a node to another."""

    source: str
    target: str
    wires: tuple[str, ...]
    bandwidth: float
    seconds: float


@dataclass(frozen=True)
class Together:
    """Concurrent messages."""

    what: str
    alone: float  #: bandwidth of the worst placed message without the others [B/s]
    bandwidth: float  #: fair share of bandwidth of the worst placed message among the others [B/s]
    wire: str
    sharing: int


@dataclass(frozen=True)
class Fabric(Declared):
    """Machine as a network."""

    schema_version: ClassVar[int] = SCHEMA_VERSION

    described: Described
    nodes: int
    cards: int
    links_between: int
    links_inside: int
    diameter_links: int
    diameter_seconds: float
    bisection_bandwidth: float
    injection_bandwidth: float
    ways: tuple[Way, ...]
    together: tuple[Together, ...]
    idle: tuple[str, ...]
    left_out: int

    def shape(self) -> dict[str, Any]:
        """Return the shape of the network between NICs by name, with its numbers."""
        shared = self.described.backbone
        return shape_dict(self.described.shape) | ({"backbone": asdict(shared)} if shared else {})

    def node(self) -> dict[str, Any] | None:
        """Return the names of the parts of a node; None where the file does not name them."""
        made = self.described.node
        if made is None:
            return None
        wires = [
            {
                "source": source,
                "target": made.parts[w.target],
                "bandwidth": w.bandwidth,
                "seconds": w.seconds,
                "shared": w.shared,
            }
            for w in made.wires
            if not (source := made.parts[w.source]).startswith("share ")
        ]
        return {
            "parts": [p for p in made.parts if not p.startswith("share ")],
            "cards": [made.parts[c] for c in made.cards],
            "passes": [made.parts[p] for p in made.passes],
            "wires": wires,
        }

    def remarks(self) -> list[str]:
        """Return remarks on doubtful facts in the file."""
        return remarks(self)


def shape_dict(shape: FatTree | Torus | Dragonfly | None) -> dict[str, Any]:
    """Return a shape by name.

    >>> shape_dict(Torus((2, 2)))
    {'kind': 'torus', 'dims': [2, 2], 'cards': 1}
    """
    kind = {FatTree: "fat-tree", Torus: "torus", Dragonfly: "dragonfly", type(None): "switch"}[
        type(shape)
    ]
    values = {} if shape is None else shape.__dict__
    return {"kind": kind, **{k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}}


def fabric(described: Described, nodes: int = 0) -> Fabric:
    """Return a machine as a network, with all its nodes or some.

    Raises A052, more nodes than the machine has, or than links can be counted for.

    Parameters
    ----------
    nodes : number of nodes; 0 for all, or for one where the file allows any number.

    >>> from turnbuckle.replay.contention.network_file import read_network
    >>> lassen = fabric(read_network("lassen"))
    >>> lassen.cards, lassen.bisection_bandwidth / lassen.injection_bandwidth
    (810, 0.6666666666666666)
    """
    count = nodes or described.nodes or 1
    if described.nodes and count > described.nodes:
        raise error_of("A052.many", found=f"{count:,} nodes", nodes=described.nodes)
    network = Network(
        count,
        described.bandwidth,
        described.hop_seconds,
        described.shape,
        node=described.node,
        backbone=described.backbone,
    )
    node = network.made_of
    cards = network.cards
    if described.shape is not None and cards > places(described.shape):
        raise error_of("A052.cards", found=f"{cards:,} NICs", places=places(described.shape))
    if count * len(node.wires) > _MOST_LINKS or cards > _MOST_LINKS:
        raise error_of(
            "A052.wires", found=f"{count:,} of {len(node.wires):,} wires", most_links=_MOST_LINKS
        )
    ends = [k for kind in _SHOWN for k in node.parts_of(kind)] or list(range(len(node.parts)))
    kept = [k for k in ends if k in set(_some(node, ends))]
    pairs = [(a, b) for a in kept for b in kept]
    names = network.wires
    ways = tuple(
        _route(node, a, b, lanes, names)
        for (a, b), lanes in zip(pairs, routes(node, pairs), strict=True)
    )
    taken = {wire for route in ways for wire in route.wires}
    outside = {
        wire
        for lanes in routes(node, [(k, k) for k in kept], apart=True)
        for wire in lanes
        if isinstance(wire, str)
    }
    idle = (
        [n for n in names if n not in taken | outside and not n.startswith("share ")]
        if len(kept) == len(ends)
        else []
    )
    links = _links(replace(network, hosts=cards, node=None))
    wires = sum(1 for w in node.wires if not node.parts[w.source].startswith("share "))
    longest = diameter(described.shape, cards)
    longest_seconds = longest * described.hop_seconds
    halves = bisection(described.shape, cards) * described.bandwidth
    if described.backbone and cards > 1:
        longest, longest_seconds = longest + 1, longest_seconds + described.backbone.seconds
        halves = min(halves, described.backbone.bandwidth)
    network_links = (
        links,
        count * wires,
        longest,
        longest_seconds,
        halves,
        cards / 2 * described.bandwidth,
    )
    inside = (
        ways,
        together(node, described.bandwidth),
        tuple(dict.fromkeys(idle)),
        len(ends) - len(kept),
    )
    return Fabric(described, count, cards, *network_links, *inside)


def _links(network: Network) -> int:
    """Return the number of links between NICs that a route may use.

    The replay lays out more links of a dragonfly, and of sides of a torus of one or two routers.
    """
    laid = network.links_between
    match network.shape:
        case Dragonfly(groups, routers, _, channels):
            spare = routers * channels % (groups - 1) if groups > 1 else routers * channels
            return laid - groups * (routers + spare)
        case Torus(dims):
            return laid - math.prod(dims) * sum({1: 2, 2: 1}.get(size, 0) for size in dims)
        case _:
            return laid


def _some(made: Node, ends: Sequence[int]) -> list[int]:
    """Return at most as many parts as are shown, equally many of each kind."""
    if len(ends) <= MOST_ENDS:
        return list(ends)
    each = MOST_ENDS // len(_SHOWN)
    return [k for kind in _SHOWN for k in made.parts_of(kind)[:each]] or list(ends[:MOST_ENDS])


def routes(
    made: Node, pairs: Sequence[tuple[int, int]], *, apart: bool = False
) -> list[list[int | str]]:
    """Return the wires, by number, that a message uses between two parts of a node.

    With `apart` the parts are in two nodes, and the wires are given by name, with ``card k out``
    and ``card k in`` for the links of the NIC used.  One replay answers for all pairs, each of
    which has a node, or two, of its own.
    """
    if not pairs:
        return []
    each = 2 if apart else 1
    hosts, count, wires = each * len(pairs), len(pairs), len(made.wires)
    first = np.arange(count) * each * len(made.parts)
    start = first + np.array([a for a, _ in pairs])
    end = first + (each - 1) * len(made.parts) + np.array([b for _, b in pairs])
    nothing = np.zeros(0, dtype=np.int64)
    message = np.arange(count)
    first_of, none, codes = (
        np.array([0, count, 2 * count]),
        np.zeros(0),
        np.repeat([Op.SEND, Op.AWAIT], count).astype(np.uint8),
    )
    sender, receiver, size = (
        np.zeros(count, dtype=np.int64),
        np.ones(count, dtype=np.int64),
        np.ones(count),
    )
    kinds, host = np.full(count, Leaves.EAGER, dtype=np.uint8), np.zeros(2, dtype=np.int64)
    arg = np.tile(message, 2)
    program = Program(
        first_of,
        codes,
        arg,
        none,
        nothing,
        none,
        nothing,
        host,
        sender,
        receiver,
        size,
        kinds,
        start=start,
        end=end,
    )
    carried = replay(program, Network(hosts, 1e9, 0.0, node=made)).carried_bytes
    cards = len(made.cards)
    inside = carried[2 * hosts * cards :].reshape(count, each, wires) > 0
    if not apart:
        return [[int(w) for w in np.flatnonzero(row)] for row in inside[:, 0]]
    out, into = (
        carried[k * hosts * cards :][: hosts * cards].reshape(count, 2, cards) > 0 for k in (0, 1)
    )
    names = Network(1, 1.0, 0.0, node=made).wires
    wires_of_pairs: list[list[int | str]] = []
    for k in range(count):
        near, far = ([names[w] for w in np.flatnonzero(inside[k, side])] for side in (0, 1))
        leaves = [f"card {c} out" for c in np.flatnonzero(out[k, 0])]
        wires_of_pairs.append(
            [*near, *leaves, *(f"card {c} in" for c in np.flatnonzero(into[k, 1])), *far]
        )
    return wires_of_pairs


def _route(
    made: Node, source: int, target: int, lanes: Sequence[int | str], names: Sequence[str]
) -> Way:
    """Return a route with its bandwidth and latency."""
    taken = [made.wires[int(w)] for w in lanes]
    width = min((w.bandwidth for w in taken), default=math.inf)
    return Way(
        made.parts[source],
        made.parts[target],
        tuple(names[int(w)] for w in lanes),
        width,
        sum(w.seconds for w in taken),
    )


def together(made: Node, card_bandwidth: float) -> tuple[Together, ...]:
    """Return the bandwidths of a node's GPUs when all of them send at once."""
    gpus = made.parts_of("gpu") or made.parts_of("host") or (0,)
    hosts = made.parts_of("host")
    kind = "GPU" if made.parts_of("gpu") else "host"
    names = Network(1, 1.0, 0.0, node=made).wires
    width = dict(zip(names, (w.bandwidth for w in made.wires), strict=True))
    width |= {
        f"card {c} {direction}": card_bandwidth
        for c in range(len(made.cards))
        for direction in ("out", "in")
    }
    patterns: list[tuple[str, list[tuple[int, int]], bool]] = []
    if hosts and made.parts_of("gpu"):
        near = [int(h) for h in laid_out(np.zeros(len(gpus), dtype=np.int64), made).host]
        patterns.append(("every GPU to its host", list(zip(gpus, near, strict=True)), False))
        patterns.append(("every host to its GPUs", list(zip(near, gpus, strict=True)), False))
    if len(gpus) > 1:
        patterns.append(
            (
                f"every {kind} to the next",
                [(g, gpus[(k + 1) % len(gpus)]) for k, g in enumerate(gpus)],
                False,
            )
        )
    if 1 < len(gpus) <= MOST_ENDS:
        patterns.append(
            (f"every {kind} to all others", [(a, b) for a in gpus for b in gpus if a != b], False)
        )
    patterns.append((f"every {kind} to another node", [(g, g) for g in gpus], True))
    results = []
    for what, pairs, apart in patterns:
        taken = [
            [w if isinstance(w, str) else names[w] for w in lanes]
            for lanes in routes(made, pairs, apart=apart)
        ]
        users = Counter(w for lanes in taken for w in lanes if not w.endswith(" in"))
        if not users:
            continue
        # The narrowest share is the first step of max-min fairness, which is the bandwidth of the
        # worst placed message.
        wire = min(users, key=lambda w: (width[w] / users[w], w))
        alone = min(width[w] for lanes in taken for w in lanes if wire in lanes)
        results.append(Together(what, alone, width[wire] / users[wire], wire, users[wire]))
    return tuple(results)


def diameter(shape: FatTree | Torus | Dragonfly | None, cards: int) -> int:
    """Return the number of links of the longest route between two of the first `cards` NICs.

    >>> diameter(FatTree((18, 45), (1, 12), (1, 1)), 810), diameter(Torus((4, 4)), 16), diameter(Dragonfly(9, 4, 2, 2), 72)
    (4, 6, 5)
    """
    if cards < 2:
        return 0
    match shape:
        case FatTree(down):
            levels, below = 0, 1
            while below < cards:
                below, levels = below * down[levels], levels + 1
            return 2 * levels
        case Torus(dims, each):
            routers = -(-cards // each)
            steps, stride = 0, 1
            for size in dims:
                steps += min(size // 2, max(0, -(-routers // stride) - 1))
                stride *= size
            return 2 + steps
        case Dragonfly(_, routers, each):
            taken = -(-cards // each)
            return 2 if taken == 1 else 3 if taken <= routers else 5
        case None:
            return 2


def bisection(shape: FatTree | Torus | Dragonfly | None, cards: int) -> float:
    """Return the number of links from one half of the NICs to the other, in one direction, cut as
    evenly as the shape allows.

    For a fat tree it is half of the fewest uplinks of any level.  For a torus it is the cut across
    the longest side.  For a dragonfly it is the number of channels between two halves of the groups
    that minimal routes use.  It never exceeds the number of NICs of a half.

    >>> bisection(FatTree((18, 45), (1, 12), (1, 1)), 810), bisection(Torus((4, 4, 8)), 128), bisection(Dragonfly(9, 4, 2, 2), 72)
    (270.0, 32.0, 20.0)
    """
    half = cards / 2
    match shape:
        case FatTree(down, up, cables):
            leaves, below, wide, fewest = math.prod(down), 1, 1, math.inf
            for m, w, p in zip(down, up, cables, strict=True):
                # A level counts only where its switches do not cover all NICs, scaled by the share
                # of the tree that the NICs fill.
                if below < cards:
                    fewest = min(fewest, leaves / below * wide * w * p * min(1.0, cards / leaves))
                below, wide = below * m, wide * w
            return min(half, fewest / 2)
        case Torus(dims, each):
            longest = max(dims)
            # On a side of two routers both directions lead to the same router, and routes use only
            # one of them.
            rings = {1: 0, 2: 1}.get(longest, 2)
            return float(min(half, rings * math.prod(dims) / longest)) if cards > each else half
        case Dragonfly(groups, routers, each, channels):
            used = -(-cards // (routers * each))
            if used == 1:
                taken = min(routers, -(-cards // each))
                return min(half, float((taken // 2) * (taken - taken // 2))) if taken > 1 else half
            parallel = routers * channels // (groups - 1)
            return min(half, float((used // 2) * (used - used // 2) * parallel))
        case None:
            return half


def remarks(result: Fabric) -> list[str]:
    """Return remarks on a file: numbers without a source, unused wires, routes that differ in the
    two directions.
    """
    out = []
    assumed = [f.what for f in result.described.facts if f.nature == "assumed"]
    if assumed:
        out.append(
            f"{len(assumed)} of {len(result.described.facts)} numbers are assumed: "
            f"{_listed(assumed)}"
        )
    if result.idle:
        out.append(f"no route between hosts, GPUs and NICs takes {_listed(list(result.idle))}")
    made = result.described.node
    joins = Counter((w.source, w.target) for w in made.wires) if made else Counter()
    if made and (
        twice := [
            f"{made.parts[a]} and {made.parts[b]}" for (a, b), times in joins.items() if times > 1
        ]
    ):
        out.append(
            f"wires given twice, of which one is taken: {_listed(twice)}; give the bandwidth "
            "of both together"
        )
    back = {(w.source, w.target): w for w in result.ways}
    uneven = [
        f"{w.source} and {w.target}"
        for w in result.ways
        if w.source < w.target
        and not (
            _same(w.seconds, (b := back[w.target, w.source]).seconds)
            and _same(w.bandwidth, b.bandwidth)
        )
    ]
    if uneven:
        out.append(f"there and back differ: {_listed(uneven)}")
    if made is None:
        out.append(
            "the file does not say what its nodes are made of: one part each, whose "
            "bandwidth the replay is told"
        )
    elif made.parts_of("gpu") and not made.parts_of("host"):
        out.append(
            "no part is a host: what goes through host memory stays on the GPU, as on an APU"
        )
    return out


def _same(first: float, second: float) -> bool:
    """Return whether two numbers are equal up to rounding."""
    return first == second or math.isclose(first, second, rel_tol=1e-9)


def _listed(names: Sequence[str]) -> str:
    """Return the first few names, and the number of the others."""
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return "; ".join(names[:4]) + more
