"""Usual nodes of machines: GPUs on host links, meshed or behind a switch, with one NIC per node or
per GPU, and pools of GPUs.

A node is data (`replay.contention.network.Node`); these build the usual ones.  A part is named by
its kind and number: ``host 0``, ``gpu 3``, ``switch 1``; ``share 3`` is the time of GPU 3, for
processes that share it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from turnbuckle.replay.contention.network import Node, Wire

#: A wire that carries time: a byte a picosecond.
CLOCK = 1e12


def both_ways(first: int, second: int, bandwidth: float, seconds: float = 0.0) -> list[Wire]:
    """Build a full-duplex link: one wire per direction."""
    return [Wire(first, second, bandwidth, seconds), Wire(second, first, bandwidth, seconds)]


def gpu_node(
    gpus: int,
    *,
    hosts: int = 1,
    link: float,
    link_seconds: float = 0.0,
    memory: float = 100e9,
    memory_seconds: float = 0.0,
    between_hosts: float | None = None,
    peer: float | None = None,
    peer_seconds: float = 0.0,
    joined: Literal["mesh", "switch"] = "mesh",
    cards: Literal["node", "host", "gpu"] = "node",
    per_switch: int = 1,
    switch_cards: int = 1,
) -> Node:
    """Build a node of hosts (sockets) with GPUs on links of their own.

    Parameters
    ----------
    gpus, hosts : numbers of GPUs and hosts; GPUs are dealt to hosts in order.
    link, link_seconds : bandwidth [B/s] and latency [s] between a host and each of its GPUs, one
        way.
    memory, memory_seconds : bandwidth [B/s] and latency [s] between processes of a host, through
        its memory.
    between_hosts : bandwidth between neighbouring hosts, one way [B/s]; None for that of `memory`.
    peer, peer_seconds : bandwidth [B/s] and latency [s] between GPUs, one way: of each pair
        (``mesh``), or of each GPU into a ``switch``; None where GPUs have no direct link.
    cards : place of NICs: one at the first host, one at every host, or beside the GPUs, on a switch
        with one link up to the host (``gpu``).
    per_switch, switch_cards : numbers of GPUs and of NICs on such a switch, which share its link
        up.

    >>> gpu_node(2, link=25e9, cards="gpu").parts
    ('host 0', 'gpu 0', 'gpu 1', 'share 0', 'share 1', 'switch 0', 'switch 1')
    """
    # GPUs in one row: of cards as near, part by part takes the next
    device = list(range(hosts, hosts + gpus))
    parts = (
        [f"host {h}" for h in range(hosts)]
        + [f"gpu {g}" for g in range(gpus)]
        + [f"share {g}" for g in range(gpus)]
    )
    wires = [Wire(h, h, memory, memory_seconds, shared=True) for h in range(hosts)]
    for h in range(hosts - 1):
        wires += both_ways(h, h + 1, between_hosts or memory)
    wires += _clocks(hosts + gpus, gpus)
    beside: list[int] = []
    for g, part in enumerate(device):
        host = g * hosts // gpus
        if cards != "gpu":
            wires += both_ways(host, part, link, link_seconds)
            continue
        if g % per_switch == 0:
            beside.append(len(parts))
            parts.append(f"switch {len(beside) - 1}")
            wires += both_ways(host, beside[-1], link, link_seconds)
        wires += both_ways(beside[-1], part, link)
    through = [*range(hosts), *beside]
    # of two ways as short and as wide the one named first is taken: from GPU to GPU that is their
    # own
    if peer is not None and joined == "mesh":
        wires = [
            w
            for k, a in enumerate(device)
            for b in device[k + 1 :]
            for w in both_ways(a, b, peer, peer_seconds)
        ] + wires
    elif peer is not None:
        through.append(len(parts))
        wires = [
            w for a in device for w in both_ways(a, len(parts), peer, peer_seconds / 2)
        ] + wires
        parts.append("fabric 0")
    at_cards = {
        "node": [0],
        "host": list(range(hosts)),
        "gpu": [s for s in beside for _ in range(switch_cards)],
    }[cards]
    return Node(tuple(parts), tuple(wires), tuple(at_cards or [0]), tuple(through))


def pool(
    hosts: int,
    gpus: int,
    *,
    link: float,
    link_seconds: float = 0.0,
    host_link: float | None = None,
    switch_seconds: float = 0.0,
    uplinks: int = 1,
    per_switch: int = 8,
    memory: float = 100e9,
) -> Node:
    """Build hosts and a chassis of pooled GPUs: a tree of switches, GPUs at its leaves, hosts at
    its root.

    Every host has its own NIC.  The distance from a host to a GPU is the same for all pairs.

    Parameters
    ----------
    link : bandwidth of a GPU's link, one way [B/s]; a leaf switch has `uplinks` such links to the
        root.
    link_seconds : latency of the cable between a host and the root [s].
    host_link : bandwidth of a host's link, one way [B/s]; None for that of `link`.
    switch_seconds : latency from one port of a switch to another [s].
    per_switch : number of GPUs of a leaf switch.

    >>> len(pool(2, 16, link=32e9).parts_of("switch"))
    3
    """
    leaves = -(-gpus // per_switch)
    root, first = hosts, hosts + 1 + leaves
    parts = [
        *(f"host {h}" for h in range(hosts)),
        *(f"switch {s}" for s in range(1 + leaves)),
        *(f"gpu {g}" for g in range(gpus)),
    ]
    parts += [f"share {g}" for g in range(gpus)]
    wires = [Wire(h, h, memory, 0.0, shared=True) for h in range(hosts)]

    def switched(
        below: int, switch: int, bandwidth: float, cable: float, passed: float = 0.0
    ) -> list[Wire]:
        # the time through a switch is paid on the way out of it: as often as there are switches on
        # the way, either way
        return [
            Wire(below, switch, bandwidth, cable + passed),
            Wire(switch, below, bandwidth, cable + switch_seconds),
        ]

    for h in range(hosts):
        wires += switched(h, root, host_link or link, link_seconds)
    for leaf in range(root + 1, first):
        wires += switched(leaf, root, uplinks * link, 0.0, switch_seconds)
    for g in range(gpus):
        wires += switched(first + g, root + 1 + g // per_switch, link, 0.0)
    wires += _clocks(first + gpus, gpus)
    return Node(tuple(parts), tuple(wires), tuple(range(hosts)), tuple(range(root, first)))


def graph(
    places: int, links: Iterable[tuple[int, int, float]], *, seconds: float = 0.0, cards: int = 1
) -> Node:
    """Build a node of GPUs joined directly (NVLink, xGMI); pairs without a link go over other GPUs.

    Parameters
    ----------
    links : pairs of GPUs, with the bandwidth one way [B/s].
    seconds : latency of each link [s].
    cards : number of NICs, one at each of the first GPUs.

    >>> graph(3, [(0, 1, 50e9), (1, 2, 50e9)]).passes
    (0, 1, 2)
    """
    wires = [w for a, b, bandwidth in links for w in both_ways(a, b, bandwidth, seconds)]
    return Node(
        tuple(f"gpu {g}" for g in range(places)),
        tuple(wires),
        tuple(range(cards)),
        tuple(range(places)),
    )


def reached(node: Node, start: int) -> set[int]:
    """Return the parts reachable from one over wires, through passing parts only.

    >>> sorted(reached(graph(3, [(0, 1, 50e9)]), 0))
    [0, 1]
    """
    leads: dict[int, list[int]] = {}
    for w in node.wires:
        leads.setdefault(w.source, []).append(w.target)
        if w.shared:
            leads.setdefault(w.target, []).append(w.source)
    through, seen, wave = set(node.passes), {start}, [start]
    while wave:
        part = wave.pop()
        if part == start or part in through:
            further = [p for p in leads.get(part, ()) if p not in seen]
            seen.update(further)
            wave += further
    return seen


def shared(node: Node) -> Node:
    """Return the node with a further part for each GPU, which stands for the GPU's time that
    processes share.

    >>> shared(Node(("gpu 0",), (), (0,), ())).parts
    ('gpu 0', 'share 0')
    """
    gpus = len(node.parts_of("gpu"))
    parts = (*node.parts, *(f"share {g}" for g in range(gpus)))
    return Node(parts, (*node.wires, *_clocks(len(node.parts), gpus)), node.cards, node.passes)


def _clocks(first: int, gpus: int) -> list[Wire]:
    """Return a wire for the time of each GPU, at a part of its own that no other wire reaches."""
    return [Wire(part, part, CLOCK, 0.0, shared=True) for part in range(first, first + gpus)]
