"""A machine as a network, looked at: which way each message takes, how wide and how long it is, and what shares it.

Ways are the replay's own (`replay.contention.contention`): one message is replayed between each two parts, and the links that carried
it are read off.

Errors (`UsageError`): A050, a file that does not describe a network; A052, nodes that a question cannot be about.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.errors import UsageError
from turnbuckle.mpi.replay.program import laid_out
from turnbuckle.projection.run import SCHEMA_VERSION
from turnbuckle.replay.contention.contention import Leaves, Op, Program, replay
from turnbuckle.replay.contention.network import Dragonfly, FatTree, Network, Node, Torus
from turnbuckle.replay.contention.network_file import Described, Fact, places

#: Parts between which ways are shown; of larger nodes the first hosts, GPUs and cards.
MOST_ENDS: Final = 48
_SHOWN: Final = ("host", "gpu", "card")
_MOST_LINKS: Final = 1 << 26


@dataclass(frozen=True)
class Way:
    """From one part of a node to another.

    Attributes
    ----------
    source, target : names of the parts.
    wires : on the way, by the names of their ends.
    bandwidth : of the narrowest [B/s].
    seconds : latency of all [s].
    """

    source: str
    target: str
    wires: tuple[str, ...]
    bandwidth: float
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """By name, wires as a list."""
        return {**self.__dict__, "wires": list(self.wires)}


@dataclass(frozen=True)
class Together:
    """Messages that are on their way at once.

    Attributes
    ----------
    what : who sends to whom.
    alone : bandwidth of the worst placed, if it were alone [B/s].
    bandwidth : of the worst placed, beside the others, shared fairly [B/s].
    wire : that limits it.
    sharing : messages on that wire.
    """

    what: str
    alone: float
    bandwidth: float
    wire: str
    sharing: int


@dataclass(frozen=True)
class Fabric:
    """A machine as a network.

    Attributes
    ----------
    described : as its file has it.
    nodes : looked at.
    cards, links_between, links_inside : network cards; links between them, and wires of all nodes, both ways apart.
    diameter_links : links of the longest route between two cards.
    diameter_seconds : latency of it [s].
    bisection_bandwidth : from one half of the cards to the other, one way [B/s].
    injection_bandwidth : of that half's cards, one way [B/s].
    ways : between hosts, GPUs and cards of a node.
    together : what they do to each other.
    idle : wires that no way takes.
    left_out : hosts, GPUs and cards of a node that `ways` leaves out.
    """

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

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        d = self.described
        numbers = ("nodes", "cards", "links_between", "links_inside", "diameter_links", "diameter_seconds", "bisection_bandwidth",
                   "injection_bandwidth", "left_out")  # fmt: skip
        node = None
        if d.node is not None:
            ends = [(d.node.parts[w.source], d.node.parts[w.target]) for w in d.node.wires]
            wires = [
                {"source": a, "target": b, "bandwidth": w.bandwidth, "seconds": w.seconds, "shared": w.shared}
                for w, (a, b) in zip(d.node.wires, ends, strict=True)
                if not a.startswith("share ")
            ]
            node = {
                "parts": [p for p in d.node.parts if not p.startswith("share ")],
                "cards": [d.node.parts[c] for c in d.node.cards], "passes": [d.node.parts[p] for p in d.node.passes], "wires": wires,
            }  # fmt: skip
        return {
            "schema_version": SCHEMA_VERSION, "name": d.name, "title": d.title, "machine": d.machine, "bandwidth": d.bandwidth,
            "hop_seconds": d.hop_seconds, "shape": shape_dict(d.shape), **{k: getattr(self, k) for k in numbers}, "node": node,
            "facts": [fact_dict(f) for f in d.facts], "ways": [w.as_dict() for w in self.ways],
            "together": [t.__dict__ for t in self.together], "idle_wires": list(self.idle),
        }  # fmt: skip


def fact_dict(fact: Fact) -> dict[str, str]:
    """A number of a file with its nature and source."""
    return {**fact.__dict__, "nature": fact.nature}


def shape_dict(shape: FatTree | Torus | Dragonfly | None) -> dict[str, Any]:
    """A shape by name.

    >>> shape_dict(Torus((2, 2)))
    {'kind': 'torus', 'dims': [2, 2], 'cards': 1}
    """
    kind = {FatTree: "fat-tree", Torus: "torus", Dragonfly: "dragonfly", type(None): "switch"}[type(shape)]
    values = {} if shape is None else shape.__dict__
    return {"kind": kind, **{k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}}


def fabric(described: Described, nodes: int = 0) -> Fabric:
    """A machine as a network, of all its nodes or of some.

    Parameters
    ----------
    nodes : looked at; 0 for all, and for one where the file says any number.

    Raises
    ------
    UsageError : A052, more nodes than there are, or than links can be counted for.

    >>> from turnbuckle.replay.contention.network_file import read_network
    >>> found = fabric(read_network("lassen"))
    >>> found.cards, found.bisection_bandwidth / found.injection_bandwidth
    (810, 0.6666666666666666)
    """
    count = nodes or described.nodes or 1
    if described.nodes and count > described.nodes:
        raise UsageError("A052", "so many nodes are not there", found=f"{count:,} nodes", fix=f"at most {described.nodes:,}")
    network = Network(count, described.bandwidth, described.hop_seconds, described.shape, node=described.node)
    made = network.made_of
    cards = network.cards
    if described.shape is not None and cards > places(described.shape):
        raise UsageError(
            "A052", "the shape has no room for so many nodes", found=f"{cards:,} cards", fix=f"{places(described.shape):,} cards"
        )
    if count * len(made.wires) > _MOST_LINKS or cards > _MOST_LINKS:
        raise UsageError("A052", "too many nodes", found=f"{count:,} of {len(made.wires):,} wires", fix=f"{_MOST_LINKS:,} wires in all")
    ends = [k for kind in _SHOWN for k in made.parts_of(kind)] or list(range(len(made.parts)))
    kept = [k for k in ends if k in set(_some(made, ends))]
    pairs = [(a, b) for a in kept for b in kept]
    names = _wire_names(made)
    ways = tuple(_way(made, a, b, lanes, names) for (a, b), lanes in zip(pairs, routes(made, pairs), strict=True))
    taken = {wire for way in ways for wire in way.wires}
    outside = {wire for lanes in routes(made, [(k, k) for k in kept], apart=True) for wire in lanes if isinstance(wire, str)}
    idle = [n for n in names if n not in taken | outside and not n.startswith("share ")] if len(kept) == len(ends) else []
    links = _links(replace(network, hosts=cards, node=None))
    wires = sum(1 for w in made.wires if not made.parts[w.source].startswith("share "))
    longest = diameter(described.shape, cards)
    halves = bisection(described.shape, cards) * described.bandwidth
    return Fabric(
        described, count, cards, links, count * wires, longest, longest * described.hop_seconds, halves,
        cards / 2 * described.bandwidth, ways, together(made, described.bandwidth), tuple(dict.fromkeys(idle)), len(ends) - len(kept),
    )  # fmt: skip


def _links(network: Network) -> int:
    """Links between cards that a route may take: the replay lays out more of a dragonfly, and of sides of a torus of one or two routers."""
    laid = len(network.links()) - network.hosts
    match network.shape:
        case Dragonfly(groups, routers, _, channels):
            spare = routers * channels % (groups - 1) if groups > 1 else routers * channels
            return laid - groups * (routers + spare)
        case Torus(dims):
            return laid - math.prod(dims) * sum({1: 2, 2: 1}.get(size, 0) for size in dims)
        case _:
            return laid


def _some(made: Node, ends: Sequence[int]) -> list[int]:
    """Not more parts than are shown, of each kind alike."""
    if len(ends) <= MOST_ENDS:
        return list(ends)
    each = MOST_ENDS // len(_SHOWN)
    return [k for kind in _SHOWN for k in made.parts_of(kind)[:each]] or list(ends[:MOST_ENDS])


def routes(made: Node, pairs: Sequence[tuple[int, int]], *, apart: bool = False) -> list[list[int | str]]:
    """Wires, by number, that a message takes between two parts of a node; of two nodes where `apart`.

    Of two nodes they are given by name, with ``card k out`` and ``card k in`` for the link of the card taken.  One replay, in which
    each pair has a node, or two, for itself.
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
    program = Program(
        np.array([0, count, 2 * count]), np.repeat([Op.SEND, Op.AWAIT], count).astype(np.uint8), np.tile(message, 2), np.zeros(0), nothing,
        np.zeros(0), nothing, np.zeros(2, dtype=np.int64), np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64), np.ones(count),
        np.full(count, Leaves.EAGER, dtype=np.uint8), start=start, end=end,
    )  # fmt: skip
    carried = replay(program, Network(hosts, 1e9, 0.0, node=made)).carried_bytes
    cards = len(made.cards)
    inside = carried[2 * hosts * cards :].reshape(count, each, wires) > 0
    if not apart:
        return [[int(w) for w in np.flatnonzero(row)] for row in inside[:, 0]]
    out, into = (carried[k * hosts * cards :][: hosts * cards].reshape(count, 2, cards) > 0 for k in (0, 1))
    names = _wire_names(made)
    found: list[list[int | str]] = []
    for k in range(count):
        near, far = ([names[w] for w in np.flatnonzero(inside[k, side])] for side in (0, 1))
        leaves = [f"card {c} out" for c in np.flatnonzero(out[k, 0])]
        found.append([*near, *leaves, *(f"card {c} in" for c in np.flatnonzero(into[k, 1])), *far])
    return found


def _wire_names(made: Node) -> list[str]:
    return [name.removeprefix("node 0: ") for name in Network(1, 1.0, 0.0, node=made).links() if name.startswith("node 0: ")]


def _way(made: Node, source: int, target: int, lanes: Sequence[int | str], names: Sequence[str]) -> Way:
    taken = [made.wires[int(w)] for w in lanes]
    width = min((w.bandwidth for w in taken), default=math.inf)
    return Way(made.parts[source], made.parts[target], tuple(names[int(w)] for w in lanes), width, sum(w.seconds for w in taken))


def together(made: Node, card_bandwidth: float) -> tuple[Together, ...]:
    """What GPUs of a node leave each other where all of them send at once."""
    gpus = made.parts_of("gpu") or made.parts_of("host") or (0,)
    hosts = made.parts_of("host")
    kind = "GPU" if made.parts_of("gpu") else "host"
    names = _wire_names(made)
    width = dict(zip(names, (w.bandwidth for w in made.wires), strict=True))
    width |= {f"card {c} {way}": card_bandwidth for c in range(len(made.cards)) for way in ("out", "in")}
    asked: list[tuple[str, list[tuple[int, int]], bool]] = []
    if hosts and made.parts_of("gpu"):
        near = [int(h) for h in laid_out(np.zeros(len(gpus), dtype=np.int64), made).host]
        asked.append(("every GPU to its host", list(zip(gpus, near, strict=True)), False))
        asked.append(("every host to its GPUs", list(zip(near, gpus, strict=True)), False))
    if len(gpus) > 1:
        asked.append((f"every {kind} to the next", [(g, gpus[(k + 1) % len(gpus)]) for k, g in enumerate(gpus)], False))
    if 1 < len(gpus) <= MOST_ENDS:
        asked.append((f"every {kind} to all others", [(a, b) for a in gpus for b in gpus if a != b], False))
    asked.append((f"every {kind} to another node", [(g, g) for g in gpus], True))
    found = []
    for what, pairs, apart in asked:
        taken = [[w if isinstance(w, str) else names[w] for w in lanes] for lanes in routes(made, pairs, apart=apart)]
        users = Counter(w for lanes in taken for w in lanes if not w.endswith(" in"))
        if not users:
            continue
        # what the narrowest share is worth: the first step of filling all links evenly
        wire = min(users, key=lambda w: (width[w] / users[w], w))
        alone = min(width[w] for lanes in taken for w in lanes if wire in lanes)
        found.append(Together(what, alone, width[wire] / users[wire], wire, users[wire]))
    return tuple(found)


def diameter(shape: FatTree | Torus | Dragonfly | None, cards: int) -> int:
    """Links of the longest route between two of the first `cards` cards.

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
    """Links from one half of the cards to the other, one way: of the first cards to the others, as even as the shape cuts.

    Of a fat tree the fewest links up of any level, halved; of a torus the cut across its longest side; of a dragonfly the channels between
    two halves of the groups, as minimal routes use them.  Never more than the cards of a half.

    >>> bisection(FatTree((18, 45), (1, 12), (1, 1)), 810), bisection(Torus((4, 4, 8)), 128), bisection(Dragonfly(9, 4, 2, 2), 72)
    (270.0, 32.0, 20.0)
    """
    half = cards / 2
    match shape:
        case FatTree(down, up, cables):
            leaves, below, wide, fewest = math.prod(down), 1, 1, math.inf
            for m, w, p in zip(down, up, cables, strict=True):
                # what stands below one switch of this level, and the share of the tree that the cards fill
                if below < cards:
                    fewest = min(fewest, leaves / below * wide * w * p * min(1.0, cards / leaves))
                below, wide = below * m, wide * w
            return min(half, fewest / 2)
        case Torus(dims, each):
            longest = max(dims)
            # between two routers both ways of one dimension lead to the same, and routes take the one
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


def remarks(found: Fabric) -> list[str]:
    """What is doubtful about a file: numbers without a source, wires that nothing takes, ways that differ there and back."""
    out = []
    assumed = [f.what for f in found.described.facts if f.nature == "assumed"]
    if assumed:
        out.append(f"{len(assumed)} of {len(found.described.facts)} numbers are assumed: {_listed(assumed)}")
    if found.idle:
        out.append(f"no way between hosts, GPUs and cards takes {_listed(list(found.idle))}")
    made = found.described.node
    joins = Counter((w.source, w.target) for w in made.wires) if made else Counter()
    if made and (twice := [f"{made.parts[a]} and {made.parts[b]}" for (a, b), times in joins.items() if times > 1]):
        out.append(f"wires given twice, of which one is taken: {_listed(twice)}; give the bandwidth of both together")
    back = {(w.source, w.target): w for w in found.ways}
    uneven = [
        f"{w.source} and {w.target}"
        for w in found.ways
        if w.source < w.target and not (_same(w.seconds, (b := back[w.target, w.source]).seconds) and _same(w.bandwidth, b.bandwidth))
    ]
    if uneven:
        out.append(f"there and back differ: {_listed(uneven)}")
    if made is None:
        out.append("the file does not say what its nodes are made of: one part each, whose bandwidth the replay is told")
    elif made.parts_of("gpu") and not made.parts_of("host"):
        out.append("no part is a host: what goes through host memory stays on the GPU, as on an APU")
    return out


def _same(one: float, other: float) -> bool:
    return one == other or math.isclose(one, other, rel_tol=1e-9)


def _listed(names: Sequence[str]) -> str:
    """A few names, and how many more."""
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return "; ".join(names[:4]) + more
