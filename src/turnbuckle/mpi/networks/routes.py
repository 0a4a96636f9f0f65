"""Routes of a network link by link, as the native core takes them, and of any graph of switches.

A link is its number in `replay.contention.network.Network.links`.  Cards are the ends of a route, everything between is a switch.
A `Graph` is any network of switches with a card each; only packets know it (`turnbuckle.mpi.networks.limppy`).

Errors:

    A090  a graph that cannot be
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from turnbuckle.foundation.errors import UsageError
from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.replay.contention.contention import ways
from turnbuckle.replay.contention.network import Network

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
    UsageError : A061 to A063 (`foundation.table_file`); A090, a cable from a switch to itself, or switches without a way to the others.
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
    return _native(network, np.array([source]), np.array([target]))[0]


def _native(network: Network, source: Int, target: Int) -> list[list[int]]:
    """Links between pairs of cards, without the wires inside nodes."""
    made = network.made_of
    place = np.array(made.cards)
    at = [card // len(place) * len(made.parts) + place[card % len(place)] for card in (source, target)]
    first, links = ways(network, *at)
    return [links[a:b].tolist() for a, b in pairwise(first.tolist())]


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
    if isinstance(network, Network):
        found = _native(network, pairs % network.hosts, pairs // network.hosts)
        _bounded(sum(map(len, found)), len(found))
        return found, which
    found, hops, before = [], 0, network.looked
    for pair in pairs.tolist():
        found.append(network.route(pair % network.hosts, pair // network.hosts) if pair % network.hosts != pair // network.hosts else [])
        hops += len(found[-1])
        _bounded(hops, len(found))
        if network.looked - before > _MOST_LOOKED:
            raise _too_many(f"{len(pairs):,} routes among {network.hosts:,} switches")
    return found, which


def _bounded(hops: int, routes: int) -> None:
    if hops > MOST_HOPS:
        raise _too_many(f"more than {routes:,} routes")


def _too_many(found: str) -> UsageError:
    fix = f"at most {MOST_HOPS:,} links taken: fewer messages or nodes, or a smaller graph"
    return UsageError("A090", "too many or too long routes", found=found, fix=fix)
