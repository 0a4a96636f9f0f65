"""Routes are those that the native core takes: a single message loads exactly the links of its
route.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from programs import one_message
from refusals import refused

from turnbuckle.mpi.networks import routes as replay_routes
from turnbuckle.mpi.networks.routes import Graph, read, route, routes
from turnbuckle.replay.contention.contention import replay
from turnbuckle.replay.contention.network import Dragonfly, FatTree, Network, Torus

NETWORKS = [
    Network(6, 1e9, 1e-7),
    Network(24, 1e9, 1e-7, FatTree((4, 3, 2), (1, 2, 2), (1, 2, 1))),
    Network(18, 1e9, 1e-7, FatTree((3, 6), (2, 3), (1, 1))),
    Network(24, 1e9, 1e-7, Torus((4, 3, 2))),
    Network(30, 1e9, 1e-7, Torus((5, 3), 2)),
    Network(18, 1e9, 1e-7, Dragonfly(3, 3, 2, 1)),
    Network(16, 1e9, 1e-7, Dragonfly(2, 4, 2, 2)),
]


def loaded(network: Network, source: int, target: int) -> tuple[list[int], float]:
    """Links that carry something when one message goes from one card to another, and its time."""
    done = replay(one_message(source, target, 1000.0), network)
    return np.flatnonzero(done.carried_bytes).tolist(), done.seconds


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: str(n.shape))
def test_every_route_is_the_native_one(network: Network) -> None:
    names = network.links()
    for source in range(network.cards):
        for target in range(network.cards):
            if source == target:
                assert route(network, source, target) == []
                continue
            found = route(network, source, target)
            links, seconds = loaded(network, source, target)
            assert sorted(found) == links and len(set(found)) == len(found)
            assert seconds == pytest.approx(len(found) * 1e-7 + 1e-6, rel=1e-9)
            assert names[found[0]].startswith(f"card {source} ") and names[found[-1]].startswith(
                f"card {target} "
            )


def graph(tmp_path: Path, text: str) -> Graph:
    path = tmp_path / "cables.csv"
    path.write_text(text)
    return read(path)


def test_a_ring_as_a_graph_is_a_torus(tmp_path: Path) -> None:
    """Shortest ways, both ways of every cable; where both ways round are as long, the lower switch
    is next.
    """
    ring = graph(tmp_path, "from,to\n" + "".join(f"{k},{(k + 1) % 5}\n" for k in range(5)))
    torus = Network(5, 1e9, 0.0, Torus((5,)))
    names, same = ring.links(), torus.links()
    for source in range(5):
        for target in range(5):
            ours, theirs = route(ring, source, target), route(torus, source, target)
            assert len(ours) == len(theirs) and len(set(ours)) == len(ours)
            if source != target:
                assert (names[ours[0]], names[ours[-1]]) == (same[theirs[0]], same[theirs[-1]])
                hops = [names[k].removeprefix("switch ").split(" to ") for k in ours[1:-1]]
                assert hops[0][0] == str(source) and hops[-1][1] == str(target)
                assert all(a[1] == b[0] for a, b in pairwise(hops))


def test_cables_named_twice_are_one(tmp_path: Path) -> None:
    assert graph(tmp_path, "from,to\n0,1\n1,0\n0,1\n").ends == ((0, 1),)


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ("", "A090"),
        ("1,1\n", "A090"),
        ("0,1\n2,3\n", "A090"),
        ("1,2\n", "A090"),
        ("0,-1\n", "A063"),
        ("0,1.5\n", "A063"),
        ("0\n", "A063"),
    ],
)
def test_graphs_that_cannot_be(tmp_path: Path, rows: str, code: str) -> None:
    refused(code, graph, tmp_path, f"from,to\n{rows}")


def test_a_route_looks_no_further_than_it_goes() -> None:
    """Neighbours on a ring of thousands: the work is that of the routes, not of the ring for each
    of them.
    """
    count = 20_000
    ring = Graph(count, tuple((k, (k + 1) % count) for k in range(count)))
    m = np.arange(count)
    found, which = routes(ring, m, (m + 1) % count)
    assert sorted(which.tolist()) == m.tolist() and all(len(one) == 3 for one in found)
    assert found[which[5]] == route(ring, 5, 6)


@pytest.mark.parametrize(("limit", "most"), [("MOST_HOPS", 100_000), ("_MOST_LOOKED", 150_000)])
def test_routes_beyond_what_a_replay_holds_are_not_looked_for(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    assert getattr(replay_routes, limit) < 10_000 * 5_000, "a ring of 10,000 is beyond it"
    count = 600
    ring = Graph(count, tuple((k, (k + 1) % count) for k in range(count)))
    m = np.arange(count)
    few = m[::20]
    assert len(routes(ring, few, (few + count // 2) % count)[0]) == len(few)
    monkeypatch.setattr(replay_routes, limit, most)
    refused("A090", routes, ring, m, (m + count // 2) % count)


def test_routes_are_those_of_one_after_the_other() -> None:
    rng = np.random.default_rng(5)
    pairs = {(min(a, b), max(a, b)) for a, b in rng.integers(0, 40, (70, 2)).tolist() if a != b} | {
        (k, k + 1) for k in range(39)
    }
    graph = Graph(40, tuple(sorted(pairs)))
    source, target = rng.integers(0, 40, (2, 300))
    found, which = routes(graph, source, target)
    for s, t, k in zip(source.tolist(), target.tolist(), which.tolist(), strict=True):
        assert found[k] == route(graph, s, t) == (graph.route(s, t) if s != t else [])
