"""Routes of a network link by link, as the native core uses them, and routes of an arbitrary graph
of switches.

A link is its number in `replay.contention.network.Network.links`.  Routes begin and end at NICs;
everything between is a switch.  A `Graph` is any network of switches with one NIC each; only
packets use it (`turnbuckle.mpi.networks.limppy`).

Errors: A090.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Int
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.replay.contention.contention import ways
from turnbuckle.replay.contention.network import Network

#: Largest number of switches of a graph.
MOST_SWITCHES: Final = 100_000
#: Largest product of packets and links that one replay holds in the memory of a small machine.
MOST_HOPS: Final = 5_000_000
#: Largest number of cables that the search for all routes of one replay may visit; it takes some
#: seconds.
_MOST_LOOKED: Final = 20_000_000
_COLUMNS: Final = tuple(
    Column(name, "1", whole=True, most=MOST_SWITCHES - 1) for name in ("from", "to")
)


@dataclass
class _Search:
    """State of the search for paths to one target: the distance of each switch met, the switches
    met last, and the number of cables visited.
    """

    target: int = -1
    far: dict[int, int] = field(default_factory=dict)
    wave: list[int] = field(default_factory=list)
    looked: int = 0


@dataclass(frozen=True)
class Graph:
    """Switches with one NIC each, joined by cables.

    A route takes the fewest possible links, and among equal choices leads to the lowest switch
    next.
    """

    hosts: int
    #: pairs of switches that a cable joins; each direction is a link of its own
    ends: tuple[tuple[int, int], ...]

    def links(self) -> list[str]:
        """Return the names of all links: NICs out, NICs in, then every cable in both directions.

        >>> Graph(2, ((0, 1),)).links()
        ['card 0 out', 'card 1 out', 'card 0 in', 'card 1 in', 'switch 0 to 1', 'switch 1 to 0']
        """
        nics = [f"card {k} {direction}" for direction in ("out", "in") for k in range(self.hosts)]
        return [*nics, *(f"switch {a} to {b}" for pair in self.ends for a, b in (pair, pair[::-1]))]

    @cached_property
    def _next(self) -> list[dict[int, int]]:
        """Return the neighbours of each switch, and the link to each neighbour."""
        out: list[dict[int, int]] = [{} for _ in range(self.hosts)]
        for k, (a, b) in enumerate(self.ends):
            out[a][b], out[b][a] = 2 * self.hosts + 2 * k, 2 * self.hosts + 2 * k + 1
        return [dict(sorted(each.items())) for each in out]

    @cached_property
    def _search(self) -> _Search:
        return _Search()

    def distance(self, source: int, target: int) -> int:
        """Return the number of cables from one switch to another, -1 where there is no path.

        The search goes out from the target until it meets the source, and is kept for the next
        source of the same target.
        """
        search = self._search
        if search.target != target:
            search.target, search.far, search.wave = target, {target: 0}, [target]
        far = search.far
        while source not in far and search.wave:
            steps = far[search.wave[0]] + 1
            search.looked += sum(len(self._next[switch]) for switch in search.wave)
            search.wave = list(
                dict.fromkeys(
                    neighbour
                    for switch in search.wave
                    for neighbour in self._next[switch]
                    if neighbour not in far
                )
            )
            far.update(dict.fromkeys(search.wave, steps))
        return far.get(source, -1)

    @property
    def looked(self) -> int:
        """Return the number of cables visited so far in the search for routes."""
        return self._search.looked

    def route(self, source: int, target: int) -> list[int]:
        """Return the links from the NIC of one switch to that of another."""
        steps, switch, out = self.distance(source, target), source, [source]
        far = self._search.far
        while switch != target:
            steps -= 1
            step = next(n for n in self._next[switch] if far.get(n) == steps)
            out.append(self._next[switch][step])
            switch = step
        return [*out, self.hosts + target]


def read(path: Path) -> Graph:
    """Read a graph from a table of its cables: from, to.

    Raises A061 to A063 (`foundation.table_file`); A090, a cable from a switch to itself, or
    switches without a way to the others.
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


def _refused(evidence: str, where: str) -> TurnbuckleError:
    return error_of("A090.switches", where=where, found=evidence)


def route(network: Network | Graph, source: int, target: int) -> list[int]:
    """Return the links from one NIC to another, in order; none where both are the same.

    >>> route(Network(4, 1e9, 0.0), 0, 2)
    [0, 6]
    """
    if source == target:
        return []
    if isinstance(network, Graph):
        return network.route(source, target)
    return _native(network, np.array([source]), np.array([target]))[0]


def _native(network: Network, source: Int, target: Int) -> list[list[int]]:
    """Return the links between pairs of NICs, without the wires inside nodes."""
    made = network.made_of
    place = np.array(made.cards)
    ends = [
        nic // len(place) * len(made.parts) + place[nic % len(place)] for nic in (source, target)
    ]
    first, links = ways(network, *ends)
    between = network.links_between
    return [
        [link for link in links[a:b].tolist() if link < between]
        for a, b in pairwise(first.tolist())
    ]


def routes(network: Network | Graph, source: Int, target: Int) -> tuple[list[list[int]], Int]:
    """Return the distinct routes of messages, and the index of each message's route.

    Raises A090, more links than one replay holds, or a graph too large to find so many routes on
    it.

    Parameters
    ----------
    source, target : NICs of each message, shape (messages,).

    >>> paths, which = routes(Network(4, 1e9, 0.0), np.array([0, 3, 0]), np.array([2, 1, 2]))
    >>> paths, which.tolist()
    ([[3, 5], [0, 6]], [1, 0, 1])
    """
    # Pairs are ordered by target, because the search on a graph is kept for each target.
    pairs, which = np.unique(target * network.hosts + source, return_inverse=True)
    if isinstance(network, Network):
        paths = _native(network, pairs % network.hosts, pairs // network.hosts)
        _bounded(sum(map(len, paths)), len(paths))
        return paths, which
    paths, hops, before = [], 0, network.looked
    for pair in pairs.tolist():
        paths.append(
            network.route(pair % network.hosts, pair // network.hosts)
            if pair % network.hosts != pair // network.hosts
            else []
        )
        hops += len(paths[-1])
        _bounded(hops, len(paths))
        if network.looked - before > _MOST_LOOKED:
            raise _too_many(f"{len(pairs):,} routes among {network.hosts:,} switches")
    return paths, which


def _bounded(hops: int, routes: int) -> None:
    """Refuse (A090) more links than one replay holds."""
    if hops > MOST_HOPS:
        raise _too_many(f"more than {routes:,} routes")


def _too_many(evidence: str) -> TurnbuckleError:
    return error_of("A090.routes", found=evidence, most_hops=MOST_HOPS)
