"""One collective between GPUs, alone: rings and trees of NCCL and RCCL over NVLink or PCIe inside
nodes, and a network between them.

    ring   T = b + s a + k L + v n / (e B)              s steps, k of them between nodes
    tree   T = b + 2 ((p - 1) a + log2(N) (a + L)) + 2 n / (e B)
    all to all  T = b + a + [N > 1] L + max(n (p - 1) / (P C), p n (P - p) / (P D))

n bytes, P ranks on N nodes, p = P / N on a node (rounded up); L the latency of a message between
nodes; C the bandwidth of a GPU inside its node, D that of a node's NICs, B the smaller of the two
where there are several nodes, else C.  Where GPUs reach each other through the memory of their host
alone, C is `THROUGH_HOST` of their link for what flows both ways at once: every byte is written
there and read there.

====================  ==========  =========  ==============
operation             s           k          v
====================  ==========  =========  ==============
allreduce             2 (P - 1)   2 (N - 1)  2 (P - 1) / P
allgather             P - 1       N - 1      (P - 1) / P
reducescatter         P - 1       N - 1      (P - 1) / P
broadcast, reduce     P - 1       N - 1      1
sendrecv (two ranks)  1           N - 1      1
====================  ==========  =========  ==============

The base time b, the time of a step a and the share e of the bandwidth belong to the algorithm and
its protocol (LL, LL128, Simple).  They are those by which NCCL chooses between them: NVIDIA/nccl,
src/graph/tuning.cc, commit 01afd20 (``baseLat``, ``hwLat`` of NVLink and PCI, the refinements of
``busBw``).  That file has a time for a step over "the network" too; here it is the step inside a
node and the latency of the network asked about.  Valid for rings and trees; not for reductions
inside switches (NVLS, CollNet).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

#: Operations that are priced, and those whose bytes n are of the whole buffer that every rank ends
#: or begins with.
OPERATIONS: Final = (
    "allreduce",
    "allgather",
    "reducescatter",
    "broadcast",
    "reduce",
    "alltoall",
    "sendrecv",
)
ALGORITHMS: Final = ("ring", "tree")
PROTOCOLS: Final = ("simple", "ll", "ll128")
#: Operations between two GPUs that flow one way: they keep the link's bandwidth through the host's
#: memory (NVIDIA/nccl issue 384).
ONE_WAY: Final = ("broadcast", "reduce")
#: Bus bandwidth of NCCL through the host's memory over what the packets of the link leave [B/s
#: each]: NVIDIA/nccl issue 384 (two GPUs, PCIe 3 x16, allreduce), issue 406 (NCCL's maintainer: 9
#: or 6 in place of 12 GB/s), and two public logs whose repository the index does not name:
#: nccl-tests with NCCL_P2P_DISABLE on four A100 SXM4 (PCIe 4 x16), and two A100 PCIe whose chipset
#: has no peer access.
HOST_PATHS: Final = (
    (3.9e9, 13.0e9),
    (9e9, 13.0e9),
    (6e9, 13.0e9),
    (5.2e9, 26.0e9),
    (2.29e9, 26.0e9),
)
#: Geometric mean of these shares, and their log-sd.
THROUGH_HOST: Final = 0.28
THROUGH_HOST_ERROR: Final = 0.79
#: Base time of each algorithm by protocol [s], in the order of `PROTOCOLS`; time of a step over
#: NVLink (True), and over PCIe [s].
_BASE: Final = {"tree": (0.0, 4.4e-6, 4.4e-6), "ring": (8.4e-6, 3.6e-6, 10.0e-6)}
_STEP: Final = {
    True: {"tree": (28e-6, 0.52e-6, 1.2e-6), "ring": (3.4e-6, 0.47e-6, 1.9e-6)},
    False: {"tree": (28e-6, 1.0e-6, 1.9e-6), "ring": (5.7e-6, 1.0e-6, 2.5e-6)},
}


@dataclass(frozen=True)
class Fabric:
    """What carries collectives between GPUs.

    Attributes
    ----------
    latency : of a message between nodes [s].
    card_bandwidth, cards : of a NIC, one way [B/s], and NICs of a node.
    gpu_wires : bandwidth of a GPU's wires to the others of its node, one way, the widest first
        [B/s]; one where a switch joins them.
    nvlink : whether GPUs of a node have wires of their own.
    ranks_per_node : GPUs of a node that take part, at most.
    through_host : whether GPUs of a node reach each other through the memory of their host alone,
        without NVLink or peer access.
    """

    latency: float
    card_bandwidth: float
    cards: int
    gpu_wires: tuple[float, ...]
    nvlink: bool
    ranks_per_node: int
    through_host: bool = False

    @property
    def gpu_bandwidth(self) -> float:
        """Return the bandwidth of a GPU to all others of its node [B/s]."""
        return sum(self.gpu_wires)

    def inside(self, each: int) -> float:
        """Return the bandwidth of a GPU to so many of its node, itself among them [B/s]: a direct
        wire leads to one of them.
        """
        return sum(self.gpu_wires[: max(each - 1, 1)])

    def carrying(self, operation: str) -> Fabric:
        """Return what carries an operation: through the host's memory a link has less bandwidth for
        what flows both ways.
        """
        if not self.through_host or operation in ONE_WAY:
            return self
        return replace(self, gpu_wires=tuple(THROUGH_HOST * wire for wire in self.gpu_wires))


def collective_seconds(
    operation: str,
    size_bytes: float,
    ranks: int,
    fabric: Fabric,
    *,
    stride: int = 1,
    first: int = 0,
    algorithm: str = "",
    protocol: str = "",
) -> float:
    """Return the time of one collective [s], as if alone and begun by all at once.

    Parameters
    ----------
    operation : one of `OPERATIONS`.
    size_bytes : n: the result of allreduce, allgather, broadcast and reduce; what each rank puts in
        otherwise [B].
    ranks : members.
    stride, first : members are the ranks first, first + stride, ... of the world, which fill nodes
        in order.
    algorithm, protocol : what runs; empty for what NCCL would choose, the fastest.

    A ring of 8 GPUs in one node, 1 GB at 200 GB/s: 8.4 us, 14 steps of 3.4 us, and 2 x 7/8 GB on
    the way.

    >>> node = Fabric(2e-6, 25e9, 4, (200e9,), True, 8)
    >>> round(1e6 * collective_seconds("allreduce", 1e9, 8, node, algorithm="ring", protocol="simple"), 3)
    8806.0
    """
    if ranks < 2:
        return 0.0
    return min(
        fixed + per_byte * size_bytes
        for fixed, per_byte in ways(operation, ranks, fabric, stride, first, algorithm, protocol)
    )


def ways(
    operation: str,
    ranks: int,
    fabric: Fabric,
    stride: int = 1,
    first: int = 0,
    algorithm: str = "",
    protocol: str = "",
) -> list[tuple[float, float]]:
    """Return the time without bytes [s] and the time of a byte [s/B] of every way in which a
    collective may run.

    Arguments as `collective_seconds`; what is not told is tried, rings first and their Simple
    protocol first of all.
    """
    nodes, each = spread(ranks, fabric.ranks_per_node, stride, first)
    fabric = fabric.carrying(operation)
    if operation == "alltoall":
        return [_all_to_all(ranks, nodes, each, fabric)]
    wide = fabric.card_bandwidth * min(each, fabric.cards)
    bandwidth = (
        fabric.inside(each) if nodes == 1 else wide if each == 1 else min(fabric.inside(each), wide)
    )
    algorithms = [algorithm] if algorithm else ALGORITHMS if operation == "allreduce" else ["ring"]
    protocols = [protocol] if protocol else [p for p in PROTOCOLS if p != "ll128" or fabric.nvlink]
    return [
        (_ring if by == "ring" else _tree)(
            operation, ranks, nodes, each, bandwidth, fabric, protocol
        )
        for by, protocol in product(algorithms, protocols)
    ]


def spread(ranks: int, ranks_per_node: int, stride: int = 1, first: int = 0) -> tuple[int, int]:
    """Return over how many nodes members are spread, and the most on one.

    >>> spread(8, 4), spread(8, 4, 4), spread(2, 4, 1, 3), spread(5, 4, 2, 1)
    ((2, 4), (8, 1), (2, 1), (3, 2))
    """
    begin, end = first // ranks_per_node, (first + stride * (ranks - 1)) // ranks_per_node
    if stride >= ranks_per_node:
        return ranks, 1

    def on(node: int) -> int:
        least = max(-((first - node * ranks_per_node) // stride), 0)
        return min(((node + 1) * ranks_per_node - 1 - first) // stride, ranks - 1) - least + 1

    # how members fall on nodes repeats after as many nodes as the stride
    return end - begin + 1, max(
        on(node) for node in (*range(begin, min(end, begin + min(stride, 512)) + 1), end)
    )


def _ring(
    operation: str,
    ranks: int,
    nodes: int,
    each: int,
    bandwidth: float,
    fabric: Fabric,
    protocol: str,
) -> tuple[float, float]:
    turns = 2 if operation == "allreduce" else 1
    steps, between = (
        (1, min(nodes - 1, 1))
        if operation == "sendrecv"
        else (turns * (ranks - 1), turns * (nodes - 1))
    )
    volume = (
        1.0 if operation in ("broadcast", "reduce", "sendrecv") else turns * (ranks - 1) / ranks
    )
    quarter = nodes > 1 or operation in ("allreduce", "reduce")
    share = {"simple": 1.0, "ll": 1 / 4 if quarter else 1 / 3, "ll128": 0.7 if each < 2 else 0.92}[
        protocol
    ]
    base, step = (of["ring"][PROTOCOLS.index(protocol)] for of in (_BASE, _STEP[fabric.nvlink]))
    return base + steps * step + between * fabric.latency, volume / (share * bandwidth)


def _tree(
    operation: str,
    ranks: int,
    nodes: int,
    each: int,
    bandwidth: float,
    fabric: Fabric,
    protocol: str,
) -> tuple[float, float]:
    share = 0.9 * {"simple": 1.0, "ll": 1 / 3.8, "ll128": 7 / 9 if nodes == 1 else 0.915}[protocol]
    base, step = (of["tree"][PROTOCOLS.index(protocol)] for of in (_BASE, _STEP[fabric.nvlink]))
    return base + 2 * ((each - 1) * step + math.log2(nodes) * (step + fabric.latency)), 2 / (
        share * bandwidth
    )


def _all_to_all(ranks: int, nodes: int, each: int, fabric: Fabric) -> tuple[float, float]:
    base, step = (of["ring"][PROTOCOLS.index("simple")] for of in (_BASE, _STEP[fabric.nvlink]))
    inside = (each - 1) / ranks / fabric.inside(each)
    between = (
        each * (ranks - each) / ranks / (fabric.card_bandwidth * min(each, fabric.cards))
        if nodes > 1
        else 0.0
    )
    return base + step + (fabric.latency if nodes > 1 else 0.0), max(inside, between)
