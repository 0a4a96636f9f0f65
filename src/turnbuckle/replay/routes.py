"""Routes of a network link by link, as the native core takes them (crates/turnbuckle-core/src/contention/network/shape.rs).

A link is its number in `turnbuckle.replay.network.Network.links`.  Cards are the ends of a route, everything between is a switch.
A `Graph` is any network of switches with a card each; only packets know it (`turnbuckle.replay.limppy`).

Errors:

    A090  a graph that cannot be
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.errors import UsageError
from turnbuckle.replay.network import Dragonfly, FatTree, Network, Torus
from turnbuckle.table_file import Column, read_table

Int = NDArray[np.int64]

#: Switches of a graph at most.
MOST_SWITCHES: Final = 100_000
#: Packets times links that one replay holds in memory on a small machine.
MOST_HOPS: Final = 5_000_000
#: Cables of a graph that are looked at for all routes of one replay, some seconds of them.
_MOST_LOOKED: Final = 20_000_000
_COLUMNS: Final = tuple(Column(name, "1", whole=True, most=MOST_SWITCHES - 1) for name in ("from", "to"))


@dataclass
class _Search:
    """Ways to one target, as far as they were looked for: cables from each switch met, the switches met last, and cables looked at."""

    target: int = -1
    far: dict[int, int] = field(default_factory=dict)
    wave: list[int] = field(default_factory=list)
    looked: int = 0


@dataclass(frozen=True)
class Graph:
    """Switches with a card each, joined as given; a route takes as few links as there can be, of these to the lowest switch next.

    Attributes
    ----------
    hosts : switches, counted from 0.
    ends : pairs of them that a cable joins, both ways apart.
    """

    hosts: int
    ends: tuple[tuple[int, int], ...]

    def links(self) -> list[str]:
        """Names of all links: cards out, cards in, then every cable both ways.

        >>> Graph(2, ((0, 1),)).links()
        ['card 0 out', 'card 1 out', 'card 0 in', 'card 1 in', 'switch 0 to 1', 'switch 1 to 0']
        """
        cards = [f"card {k} {way}" for way in ("out", "in") for k in range(self.hosts)]
        return [*cards, *(f"switch {a} to {b}" for pair in self.ends for a, b in (pair, pair[::-1]))]

    @cached_property
    def _next(self) -> list[dict[int, int]]:
        """Of each switch: its neighbours, and the link to each."""
        out: list[dict[int, int]] = [{} for _ in range(self.hosts)]
        for k, (a, b) in enumerate(self.ends):
            out[a][b], out[b][a] = 2 * self.hosts + 2 * k, 2 * self.hosts + 2 * k + 1
        return [dict(sorted(each.items())) for each in out]

    @cached_property
    def _search(self) -> _Search:
        return _Search()

    def distance(self, source: int, target: int) -> int:
        """Cables from one switch to another, -1 where there is no way.

        The search goes out from the target until it meets the source, and is kept for the next source of the same target.
        """
        search = self._search
        if search.target != target:
            search.target, search.far, search.wave = target, {target: 0}, [target]
        far = search.far
        while source not in far and search.wave:
            steps = far[search.wave[0]] + 1
            search.looked += sum(len(self._next[at]) for at in search.wave)
            search.wave = list(dict.fromkeys(n for at in search.wave for n in self._next[at] if n not in far))
            far.update(dict.fromkeys(search.wave, steps))
        return far.get(source, -1)

    @property
    def looked(self) -> int:
        """Cables looked at so far in search of routes."""
        return self._search.looked

    def route(self, source: int, target: int) -> list[int]:
        """Links from the card of one switch to that of another."""
        steps, at, out = self.distance(source, target), source, [source]
        far = self._search.far
        while at != target:
            steps -= 1
            step = next(n for n in self._next[at] if far.get(n) == steps)
            out.append(self._next[at][step])
            at = step
        return [*out, self.hosts + target]


def read(path: Path) -> Graph:
    """A graph from a table of its cables: from, to.

    Raises
    ------
    UsageError : A061 to A063 (`turnbuckle.table_file`); A090, a cable from a switch to itself, or switches without a way to the others.
    """
    table = read_table(path, _COLUMNS, "a graph of switches")
    ends = np.stack([table.numbers["from"], table.numbers["to"]], axis=1).astype(np.int64)
    for row in np.flatnonzero(ends[:, 0] == ends[:, 1]):
        raise _refused("a cable from a switch to itself", table.where(int(row)))
    pairs = tuple(dict.fromkeys((min(a, b), max(a, b)) for a, b in ends.tolist()))
    if not pairs:
        raise _refused("no cables", table.name)
    graph = Graph(max(b for _, b in pairs) + 1, pairs)
    for k in range(graph.hosts):
        if graph.distance(k, 0) < 0:
            raise _refused(f"no way from switch 0 to switch {k}", table.name)
    return graph


def _refused(found: str, where: str) -> UsageError:
    fix = "switches are whole numbers from 0; every one has a way to every other"
    return UsageError("A090", "the graph of switches cannot be", where=where, found=found, fix=fix)


def route(network: Network | Graph, source: int, target: int) -> list[int]:
    """Links from one card to another, in order; none where both are the same.

    >>> route(Network(4, 1e9, 0.0), 0, 2)
    [0, 6]
    """
    if source == target:
        return []
    if isinstance(network, Graph):
        return network.route(source, target)
    match network.shape:
        case None:
            return [source, network.cards + target]
        case FatTree():
            return _through_tree(network.shape, source, target)
        case Torus(dims, cards):
            between = _round_torus(dims, source // cards, target // cards, 2 * network.cards)
        case Dragonfly():
            between = _through_groups(network.shape, source, target, 2 * network.cards)
    return [source, *between, network.cards + target]


def routes(network: Network | Graph, source: Int, target: Int) -> tuple[list[list[int]], Int]:
    """The different routes that messages take, and which of them each takes.

    Parameters
    ----------
    source, target : cards of each message, shape (messages,).

    Raises
    ------
    UsageError : A090, more links than one replay holds, or a graph too large to find so many routes on it.

    >>> found, which = routes(Network(4, 1e9, 0.0), np.array([0, 3, 0]), np.array([2, 1, 2]))
    >>> found, which.tolist()
    ([[3, 5], [0, 6]], [1, 0, 1])
    """
    # by target, as a graph looks for them
    pairs, which = np.unique(target * network.hosts + source, return_inverse=True)
    found, hops, before = [], 0, network.looked if isinstance(network, Graph) else 0
    for pair in pairs.tolist():
        found.append(route(network, pair % network.hosts, pair // network.hosts))
        hops += len(found[-1])
        if hops > MOST_HOPS or (isinstance(network, Graph) and network.looked - before > _MOST_LOOKED):
            what = f"more than {len(found):,} routes" if hops > MOST_HOPS else f"{len(pairs):,} routes among {network.hosts:,} switches"
            fix = f"at most {MOST_HOPS:,} links taken: fewer messages or nodes, or a smaller graph"
            raise UsageError("A090", "too many or too long routes", found=what, fix=fix)
    return found, which


def _through_tree(tree: FatTree, source: int, target: int) -> list[int]:
    """Up until a switch stands above both, then down the only way there is; the destination chooses among parallel ways (D-mod-k)."""
    top, a, b = 0, source, target
    while a != b:
        a, b, top = a // tree.down[top], b // tree.down[top], top + 1
    leaves, out, across, first = math.prod(tree.down), [], 0, 0
    back: list[tuple[int, int, int, int]] = []
    for at in range(top):
        up, cables = tree.up[at], tree.cables[at]
        below, wide = math.prod(tree.down[:at]), math.prod(tree.up[:at])
        count = leaves // below * wide * up * cables
        port = target // wide % (up * cables)
        parent, cable = port % up, port // up
        lane = parent * cables + cable
        out.append(first + (source // below * wide + across) * up * cables + lane)
        back.append((first + count, target // below * wide + across, up * cables, lane))
        across = across * up + parent
        first += 2 * count
    return [*out, *(begin + node * ways + lane for begin, node, ways, lane in reversed(back))]


def _round_torus(dims: tuple[int, ...], source: int, target: int, first: int) -> list[int]:
    """One dimension after the other, the shorter way round, forwards where both are as long."""
    out, at, stride = [], source, 1
    for k, size in enumerate(dims):
        here, there = at // stride % size, target // stride % size
        ahead = (there - here) % size
        step = 1 if 2 * ahead <= size else -1
        while here != there:
            out.append(first + (at * len(dims) + k) * 2 + (step < 0))
            at += ((here + step) % size - here) * stride
            here = (here + step) % size
        stride *= size
    return out


def _through_groups(fly: Dragonfly, source: int, target: int, first: int) -> list[int]:
    """To the router with a channel to the other group, through it, and to the router of the card."""
    begin, end = source // fly.cards, target // fly.cards
    here, there = begin // fly.routers, end // fly.routers

    def local(a: int, b: int) -> list[int]:
        return [first + a * fly.routers + b % fly.routers] if a != b else []

    if here == there:
        return local(begin, end)
    others = fly.groups - 1
    pick = target % (fly.routers * fly.channels // others) * others
    ahead, back = pick + (there - here - 1) % fly.groups, pick + (here - there - 1) % fly.groups
    leaves, enters = here * fly.routers + ahead // fly.channels, there * fly.routers + back // fly.channels
    through = first + fly.groups * fly.routers**2 + here * fly.routers * fly.channels + ahead
    return [*local(begin, leaves), through, *local(enters, end)]
