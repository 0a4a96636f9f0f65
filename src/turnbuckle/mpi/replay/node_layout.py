"""Where the ranks of a node sit: at which host, GPU and NIC, and over which routes they reach the
network.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Int
from turnbuckle.replay.contention.contention import ways
from turnbuckle.replay.contention.network import Network, Node, Wire, plain

#: Bandwidth of a wire that limits nothing [B/s].
_UNLIMITED: Final = 1e18


@dataclass(frozen=True)
class Layout:
    """Placement of the ranks on nodes, and the GPU of each rank.

    Attributes
    ----------
    node, host, device : node of each rank, place of its process, and place of its buffers in device
        memory, shape (ranks,).
    share : place behind each rank's GPU on which the GPU's time is shared; -1 for none.
    seat : place from which each rank's messages leave for other nodes.
    """

    node: Int
    host: Int
    device: Int
    share: Int
    seat: Int

    def sharing(self) -> Bool:
        """Return a mask of the ranks whose GPU also serves another rank, shape (ranks,)."""
        _, gpu, users = np.unique(self.device, return_inverse=True, return_counts=True)
        return np.asarray((users[gpu] > 1) & (self.share >= 0))


def laid_out(node: Int, made: Node | None = None, gpus_per_rank: int = 1) -> Layout:
    """Return the placement of ranks on the GPUs and hosts of their nodes.

    The ranks of each node are dealt to its GPUs in turn, and stand on the host nearest to their
    GPU.  A rank that drives several takes as many that follow each other; it stands at the first of
    them, from which its messages leave.

    Parameters
    ----------
    node : node of each rank, shape (ranks,).
    made : parts and wires of each node; a plain node if left out.
    gpus_per_rank : GPUs that each rank drives; their number on a node is a multiple of it.

    >>> laid_out(np.array([0, 0, 1, 1])).host.tolist()
    [0, 0, 1, 1]
    >>> four = Node(("host 0", "gpu 0", "gpu 1", "gpu 2", "gpu 3"), tuple(Wire(0, k, 1e9) for k in (1, 2, 3, 4)), (0,), (0,))
    >>> laid_out(np.array([0, 0, 0]), four, 2).device.tolist()
    [1, 3, 1]
    """
    made = made or plain(1.0, 0.0)
    gpus, hosts, shares = made.parts_of("gpu"), made.parts_of("host"), made.parts_of("share")
    taken = _before(node) * (gpus_per_rank if gpus else 1)
    device = np.array(gpus or hosts)[taken % len(gpus or hosts)]
    host = _nearest(made, hosts or gpus)[device]
    seats = _seats(made, host, device)
    share = (
        np.array(shares)[taken % len(gpus)]
        if len(shares) == len(gpus) > 0
        else np.full(len(node), -1)
    )
    first = node * len(made.parts)
    return Layout(
        np.asarray(node),
        first + host,
        first + device,
        np.where(share >= 0, first + share, -1),
        first + seats,
    )


def gpus_of(node: Int, made: Node, gpus_per_rank: int = 1) -> Int:
    """Return the place of each GPU that each rank drives, shape (ranks, `gpus_per_rank`), as
    `laid_out` deals them; -1 without GPUs.

    >>> two = Node(("host 0", "gpu 0", "gpu 1"), (Wire(0, 1, 1e9), Wire(0, 2, 1e9)), (0,), (0,))
    >>> gpus_of(np.array([0, 0, 0, 1]), two)[:, 0].tolist()
    [1, 2, 1, 4]
    """
    gpus = np.array(made.parts_of("gpu") or [-1])
    taken = _before(node)[:, None] * gpus_per_rank + np.arange(gpus_per_rank)
    place = gpus[taken % len(gpus)]
    return np.where(place >= 0, node[:, None] * len(made.parts) + place, -1)


def _before(node: Int) -> Int:
    """Return how many ranks of the same node come before each rank."""
    order = np.argsort(node, kind="stable")
    before = np.empty(len(node), dtype=np.int64)
    before[order] = np.arange(len(node)) - np.searchsorted(node[order], node[order])
    return before


def _nearest(made: Node, places: tuple[int, ...]) -> Int:
    """Return for every part the one of `places` that the fewest wires lead to, the first of
    equals.
    """
    nearest = np.full(len(made.parts), -1)
    nearest[list(places)] = places
    reached = list(places)
    while reached:
        further = []
        for wire in made.wires:
            for a, b in ((wire.source, wire.target), (wire.target, wire.source)):
                if a in reached and nearest[b] < 0:
                    nearest[b] = nearest[a]
                    further.append(b)
        reached = further
    return nearest


def seated(made: Node) -> Node:
    """Return a node with one seat per NIC beside each host that is equally near to several NICs.

    A place has one NIC.  A seat is a place beside its host, on a wire that limits nothing, from
    which a rank's messages leave for other nodes; the ranks of the host are dealt to its seats, so
    that all NICs are used.

    >>> seated(Node(("host 0",), (), (0, 0), (0,))).parts
    ('host 0', 'seat 0', 'seat 1')
    """
    hosts = [h for h in made.parts_of("host") if h in made.passes]
    if len(made.cards) < 2 or not hosts:
        return made
    with_all_seats = _with_seats(made, hosts)
    nics_of_seats = _nics(with_all_seats, np.array(with_all_seats.parts_of("seat"))).reshape(
        len(hosts), -1
    )
    return _with_seats(
        made, [h for h, nics in zip(hosts, nics_of_seats, strict=True) if len(np.unique(nics)) > 1]
    )


def _with_seats(made: Node, hosts: list[int]) -> Node:
    """Return a node with one seat per NIC beside each of the given hosts."""
    host_of_seat = [h for h in hosts for _ in made.cards]
    first = len(made.parts)
    wires = [
        w
        for k, h in enumerate(host_of_seat)
        for w in (Wire(h, first + k, _UNLIMITED), Wire(first + k, h, _UNLIMITED))
    ]
    return replace(
        made,
        parts=(*made.parts, *(f"seat {k}" for k in range(len(host_of_seat)))),
        wires=(*made.wires, *wires),
    )


def _nics(made: Node, parts: Int) -> Int:
    """Return the NIC of each part, by which its messages leave for other nodes."""
    first, links = ways(Network(2, 1.0, 0.0, node=made), parts, len(made.parts) + parts)
    return np.array(
        [next(k for k in links[a:b] if k < len(made.cards)) for a, b in pairwise(first.tolist())],
        dtype=np.int64,
    )


def _seats(made: Node, host: Int, device: Int) -> Int:
    """Return the seat of each rank at its host: the seat with the NIC of the rank's GPU if the host
    has one, else one of its seats in turn.

    A host without seats is returned itself.
    """
    seats = np.array(made.parts_of("seat"), dtype=np.int64)
    if not len(seats):
        return host
    host_of_seat = {w.target: w.source for w in made.wires}
    pairs, which = np.unique(np.stack([host, device]), axis=1, return_inverse=True)
    nics = _nics(made, np.append(seats, pairs[1]))
    chosen = []
    for n, (this_host, gpu_nic) in enumerate(
        zip(pairs[0].tolist(), nics[len(seats) :].tolist(), strict=True)
    ):
        host_seats = [k for k, s in enumerate(seats.tolist()) if host_of_seat[s] == this_host]
        candidates = [k for k in host_seats if nics[k] == gpu_nic] or host_seats[
            n % max(len(host_seats), 1) :
        ]
        chosen.append(int(seats[candidates[0]]) if candidates else this_host)
    return np.array(chosen, dtype=np.int64)[which.reshape(-1)]
