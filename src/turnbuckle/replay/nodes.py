"""Nodes that machines are made of: GPUs on host links, meshed or behind a switch, with a card a node or a GPU, and pools of them.

A node is data (`turnbuckle.replay.network.Node`); these build the usual ones.  A part is named by its kind and number: ``host 0``,
``gpu 3``, ``switch 1``; ``share 3`` is the time of GPU 3, for processes that share it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from turnbuckle.replay.network import Node, Wire

#: A wire that carries time: a byte a picosecond.
CLOCK = 1e12


def both_ways(one: int, other: int, bandwidth: float, seconds: float = 0.0) -> list[Wire]:
    """A full-duplex link: a wire each way."""
    return [Wire(one, other, bandwidth, seconds), Wire(other, one, bandwidth, seconds)]


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
) -> Node:
    """A node of hosts (sockets) with GPUs on links of their own.

    Parameters
    ----------
    gpus, hosts : how many; GPUs are dealt to hosts in order.
    link, link_seconds : between a host and each of its GPUs, one way [B/s], [s].
    memory, memory_seconds : between processes of a host, through its memory [B/s], [s].
    between_hosts : between neighbouring hosts, one way [B/s]; None for as fast as `memory`.
    peer, peer_seconds : between GPUs, one way [B/s], [s]: of each pair (``mesh``), or of each GPU into a ``switch``; None where they
        have no link of their own.
    cards : one at the first host, one at every host, or one beside every GPU on a switch of its own host link (``gpu``).

    >>> gpu_node(2, link=25e9, cards="gpu").parts
    ('host 0', 'gpu 0', 'share 0', 'switch 0', 'gpu 1', 'share 1', 'switch 1')
    """
    parts = [f"host {h}" for h in range(hosts)]
    wires = [Wire(h, h, memory, memory_seconds, shared=True) for h in range(hosts)]
    for h in range(hosts - 1):
        wires += both_ways(h, h + 1, between_hosts or memory)
    device: list[int] = []
    beside: list[int] = []
    for g in range(gpus):
        host = g * hosts // gpus
        device.append(len(parts))
        parts += [f"gpu {g}", f"share {g}"]
        wires += _clocked(device[-1])
        if cards == "gpu":
            beside.append(len(parts))
            parts.append(f"switch {g}")
            wires += both_ways(host, beside[-1], link, link_seconds) + both_ways(beside[-1], device[-1], link)
        else:
            wires += both_ways(host, device[-1], link, link_seconds)
    through = [*range(hosts), *beside]
    # of two ways as short and as wide the one named first is taken: from GPU to GPU that is their own
    if peer is not None and joined == "mesh":
        wires = [w for k, a in enumerate(device) for b in device[k + 1 :] for w in both_ways(a, b, peer, peer_seconds)] + wires
    elif peer is not None:
        through.append(len(parts))
        wires = [w for a in device for w in both_ways(a, len(parts), peer, peer_seconds / 2)] + wires
        parts.append("fabric 0")
    at = {"node": [0], "host": list(range(hosts)), "gpu": beside}[cards]
    return Node(tuple(parts), tuple(wires), tuple(at or [0]), tuple(through))


def pool(
    hosts: int, gpus: int, *, link: float, link_seconds: float = 0.0, uplinks: int = 1, per_switch: int = 8, memory: float = 100e9
) -> Node:
    """Hosts and a chassis of pooled GPUs: a tree of switches, GPUs at its leaves, hosts at its root.

    Parameters
    ----------
    link : of a host, and of a GPU, one way [B/s]; a leaf switch has `uplinks` of them to the root.
    link_seconds : latency of each wire [s].
    per_switch : GPUs of a leaf switch.

    >>> len(pool(2, 16, link=32e9).parts_of("switch"))
    3
    """
    parts = [*(f"host {h}" for h in range(hosts)), "switch 0"]
    root = hosts
    wires = [Wire(h, h, memory, 0.0, shared=True) for h in range(hosts)]
    wires += [w for h in range(hosts) for w in both_ways(h, root, link, link_seconds)]
    through, leaf = [root], root
    for g in range(gpus):
        if g % per_switch == 0:
            leaf = len(parts)
            through.append(leaf)
            parts.append(f"switch {len(through) - 1}")
            wires += both_ways(leaf, root, uplinks * link, link_seconds)
        wires += both_ways(leaf, len(parts), link, link_seconds) + _clocked(len(parts))
        parts += [f"gpu {g}", f"share {g}"]
    return Node(tuple(parts), tuple(wires), tuple(range(hosts)), tuple(through))


def graph(places: int, links: Iterable[tuple[int, int, float]], *, seconds: float = 0.0) -> Node:
    """GPUs joined directly, as by NVLink or xGMI; what has no link of its own goes over others.

    Parameters
    ----------
    links : pairs of GPUs, with the bandwidth one way [B/s].

    >>> graph(3, [(0, 1, 50e9), (1, 2, 50e9)]).passes
    (0, 1, 2)
    """
    wires = [w for a, b, bandwidth in links for w in both_ways(a, b, bandwidth, seconds)]
    return Node(tuple(f"gpu {g}" for g in range(places)), tuple(wires), (0,), tuple(range(places)))


def _clocked(gpu: int) -> list[Wire]:
    """The time of a GPU, at a part of its own that nothing leads to."""
    return [Wire(gpu + 1, gpu + 1, CLOCK, 0.0, shared=True)]
