"""Task graph of a sparse triangular solve on several GPUs, and its replay: run time, critical path,
messages on it.

    d_v  = bytes_v / bw_v                       a task reads its part of the matrix once
    bw_v = clamp(BW_peak / active, low, N high) active: supernodes of its level on its GPU
    edge = n' / BW_tier(n'), 0 on one GPU        n' = next power of two
    T    = longest path

Austin et al. 2021 (ECP report), section 4.1.  With columns distributed over GPUs, each supernode is
one task and each block below its diagonal is one edge.  On a grid of GPUs, the diagonal block is
one task and the blocks of the column on each GPU are another: solved values go down the column
(broadcast), partial sums go along the row (reduction).

One bound is added to the paper's model: no GPU can read its part of the matrix faster than its
memory allows, so the run time is at least that time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

import numpy as np

from turnbuckle.foundation.arrays import Float, Int
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import Declared
from turnbuckle.papers.models.dag.supernodes import INDEX_BYTES, LARGEST_GRAPH, Supernodes
from turnbuckle.papers.models.dag.tiers import (
    NETWORK,
    NODE,
    SAME,
    SOCKET,
    TIERS,
    Fabric,
    block_bandwidth,
    tier_between,
)
from turnbuckle.replay.tasks import Tasks, replay_tasks

Layout = Literal["2d", "columns", "rows"]
What = Literal["as is", "integrated", "disaggregated", "super-GPU"]
#: Where messages wait for each other.
Queue = Literal["receiver", "link"]

LAYOUTS: Final[tuple[Layout, ...]] = get_args(Layout)
VARIANTS: Final[tuple[What, ...]] = get_args(What)
#: GPU-initiated put of 6.5 us, host-initiated of 2 us, a tenth of the synchronisation between them
#: left (section 5.4).
INTEGRATED: Final = 6.5 / (2.0 + 0.5)
#: Messages inside a node, from NVLink to InfiniBand (section 7.4).
DISAGGREGATED: Final = 4.0


@dataclass(frozen=True)
class Dealt:
    """Distribution of blocks over GPUs."""

    gpus: int
    #: rows, columns: shape of the grid; block (I, K) lies on rank (I mod rows) x columns + K mod
    #: columns
    rows: int = 1
    columns: int = 1
    #: rank of the column of each supernode, shape (supernodes,); it replaces the grid
    owner: Int | None = field(default=None, repr=False)
    ranks: int = 1  #: number of ranks on each GPU; rank r is on GPU r // ranks

    @property
    def parts(self) -> int:
        """Return the number of ranks on all GPUs."""
        return self.gpus * self.ranks

    @classmethod
    def on_grid(cls, gpus: int, layout: Layout = "2d", ranks: int = 1) -> Dealt:
        """Distribute blocks cyclically over the squarest grid that has no more rows than columns,
        or over one row or column of ranks.

        >>> Dealt.on_grid(12).rows, Dealt.on_grid(12).columns, Dealt.on_grid(7).rows, Dealt.on_grid(6, ranks=2).rows
        (3, 4, 1, 3)
        """
        parts = gpus * ranks
        rows = {"columns": 1, "rows": parts}.get(layout) or next(
            r for r in range(math.isqrt(parts), 0, -1) if parts % r == 0
        )
        return cls(gpus, rows, parts // rows, ranks=ranks)

    def of(self, row: Int, column: Int) -> Int:
        """Return the rank of each block."""
        return (
            self.owner[column]
            if self.owner is not None
            else row % self.rows * self.columns + column % self.columns
        )


@dataclass(frozen=True)
class Work:
    """Task graph of a solve on some GPUs."""

    dealt: Dealt
    #: bytes, gpu, supernode: bytes read [B], GPU and supernode of each task, shape (tasks,)
    bytes: Float
    gpu: Int
    supernode: Int
    active: (
        Int  #: number of supernodes of the task's level that have work on its GPU, shape (tasks,)
    )
    #: source, target, message_bytes, tier: ends, bytes [B] and tier of each edge, shape (edges,); 0
    #: bytes and tier 0 on one GPU
    source: Int
    target: Int
    message_bytes: Float
    tier: Int
    seconds: Float | None = (
        #: time of each task besides its bytes, shape (tasks,) [s]; None where tasks take no such
        #: time
        None
    )

    @property
    def busiest_bytes(self) -> float:
        """Return the bytes that the busiest GPU reads [B]."""
        return float(np.bincount(self.gpu, weights=self.bytes).max())


def work(matrix: Supernodes, dealt: Dealt, fabric: Fabric) -> Work:
    """Build the task graph of a solve.  Raises A157, a graph too large to replay."""
    value = matrix.triangle.value_bytes
    column, row, height = matrix.blocks
    held = matrix.width[column] * height * value + height * INDEX_BYTES
    count = len(matrix)
    diagonal = np.arange(count)
    home = dealt.of(diagonal, diagonal)
    if dealt.rows == 1:
        amount = matrix.diagonal_bytes + np.bincount(column, weights=held, minlength=count)
        gpu, supernode, source, target, sent = home, diagonal, column, row, height * value
    else:
        # tasks are the diagonal blocks, then the blocks of each column on each GPU
        key = column * dealt.parts + dealt.of(row, column)
        parts, part = np.unique(key, return_inverse=True)
        below, owner = np.divmod(parts, dealt.parts)
        amount = np.concatenate(
            [matrix.diagonal_bytes, np.bincount(part, weights=held, minlength=len(parts))]
        )
        gpu, supernode = np.concatenate([home, owner]), np.concatenate([diagonal, below])
        source, target = (
            np.concatenate([below, count + part]),
            np.concatenate([count + np.arange(len(parts)), row]),
        )
        sent = np.concatenate([matrix.width[below], height]) * value
    if 2 * len(gpu) + len(source) >= LARGEST_GRAPH:
        asked = f"{len(gpu):,} tasks, {len(source):,} edges"
        raise error_of("A157.merged", where=matrix.triangle.name, found=asked)
    gpu = gpu // dealt.ranks
    tier = tier_between(gpu[source], gpu[target], fabric.gpus_per_socket, fabric.gpus_per_node)
    crossing: Float = sent.astype(np.float64) * (tier != SAME)
    return Work(
        dealt,
        amount.astype(np.float64),
        gpu,
        supernode,
        _active(matrix, gpu, supernode, dealt.gpus),
        source,
        target,
        crossing,
        tier,
    )


def _active(matrix: Supernodes, gpu: Int, supernode: Int, gpus: int) -> Int:
    """Return how many supernodes of each task's level have work on its GPU."""
    count = len(matrix)
    # a diagonal block and the blocks below it on the same GPU are one supernode's work
    home, parts = supernode[:count] * gpus + gpu[:count], supernode[count:] * gpus + gpu[count:]
    counted = np.ones(len(gpu), dtype=np.bool_)
    if len(parts):
        counted[:count] = parts[np.minimum(np.searchsorted(parts, home), len(parts) - 1)] != home
    place = matrix.level[supernode] * gpus + gpu
    active: Int
    if matrix.levels * gpus <= 4 * len(place):
        active = np.bincount(place[counted], minlength=matrix.levels * gpus)[place]
    else:
        places = np.sort(place[counted])
        active = np.searchsorted(places, place, side="right") - np.searchsorted(places, place)
    return active


@dataclass(frozen=True)
class Variant:
    """Change of the machine."""

    what: What
    words: str  #: link, latency and bandwidth that it changes, in words (decision D17)
    #: factor on the time of messages, by tier
    slower: dict[int, float] = field(default_factory=dict)
    #: whether messages between nodes become messages inside one, and the upper bound of a block
    #: grows with the nodes merged
    one_node: bool = False


def variants(
    integrated: float = INTEGRATED, disaggregated: float = DISAGGREGATED
) -> tuple[Variant, ...]:
    """Return the machine as it is and the three changes of the paper, for two factors on the time
    of messages.
    """
    for factor, words in ((integrated, "integration"), (disaggregated, "disaggregation")):
        if not 1.0 <= factor < math.inf:
            raise error_of("A043.delay", found=f"{factor:g}", words=words)
    return (
        Variant("as is", "as stated"),
        Variant(
            "integrated",
            (
                f"messages between nodes take {integrated:.3g} times less, latency and bandwidth "
                "alike; inside a node as before"
            ),
            {NETWORK: 1.0 / integrated},
        ),
        Variant(
            "disaggregated",
            (
                f"messages inside a node take {disaggregated:.3g} times longer, latency and "
                "bandwidth alike; between nodes as before"
            ),
            {SOCKET: disaggregated, NODE: disaggregated},
        ),
        Variant(
            "super-GPU",
            (
                "messages between nodes take as long as inside one; a block may draw as many "
                "times the bandwidth as nodes are merged"
            ),
            one_node=True,
        ),
    )


@dataclass(frozen=True)
class Run(Declared):
    """Result of one solve."""

    gpus: int
    nodes: int
    what: What
    #: run time [s]: the longest path, or the time to read the memory of the busiest GPU if that is
    #: longer
    seconds: float
    path_seconds: float
    memory_seconds: float
    compute_seconds: float
    #: messages, message_seconds: number and time [s] of the messages on the path, by tier
    messages: dict[str, int]
    message_seconds: dict[str, float]
    dependency_seconds: float
    message_bytes: float
    latency_seconds: float
    tasks: int
    all_messages: int
    all_bytes: float

    @property
    def latency_share(self) -> float:
        """Return the share of message latency in the longest path."""
        return self.latency_seconds / self.path_seconds if self.path_seconds else 0.0

    @property
    def path_messages(self) -> int:
        """Return the number of messages on the path, of all tiers."""
        return sum(self.messages.values())


def solve(
    done: Work,
    fabric: Fabric,
    variant: Variant | None = None,
    *,
    dependency: float = 0.0,
    merged: int | None = None,
    queue: Queue | None = None,
) -> Run:
    """Replay a solve.  Raises A156, messages cross a tier without latency and bandwidth.

    Parameters
    ----------
    variant : None is the machine as it is.
    dependency : time until a block notices that a supernode it needs is solved on the same GPU [s];
        the paper takes 0.
    merged : GPUs in a super-GPU, N; None is the number of nodes that become one.
    queue : place where messages wait for each other, in the order of their sending: None is
        nowhere, as in the paper; a ``receiver`` takes one message at a time for its whole time; the
        ``link`` of the sender's GPU carries the bytes of one message after the other, while
        latencies overlap.
    """
    variant = variant or variants()[0]
    nodes = -(-done.dealt.gpus // fabric.gpus_per_node)
    tier = np.where(done.tier == NETWORK, NODE, done.tier) if variant.one_node else done.tier
    times = float(merged or nodes) if variant.one_node else 1.0
    lags = fabric.message_seconds(tier, done.message_bytes, variant.slower)
    lags = np.where(
        (tier == SAME) & (done.supernode[done.source] != done.supernode[done.target]),
        dependency,
        lags,
    )
    took = done.bytes / block_bandwidth(fabric.peak, done.active, fabric.low, fabric.high, times)
    took = took if done.seconds is None else took + done.seconds
    late = fabric.latency_seconds(tier, done.message_bytes, variant.slower)
    path_tasks, path_edges, spent, longest = _longest(done, took, lags, queue, late)
    crosses = tier[path_edges] != SAME
    crossed = path_edges[crosses]
    by_tier = np.bincount(tier[crossed], minlength=len(TIERS))
    by_seconds = np.bincount(tier[crossed], weights=spent[crosses], minlength=len(TIERS))
    memory = done.busiest_bytes / fabric.peak
    latency = np.minimum(late[crossed], spent[crosses])
    return Run(
        gpus=done.dealt.gpus,
        nodes=1 if variant.one_node else nodes,
        what=variant.what,
        seconds=max(longest, memory),
        path_seconds=longest,
        memory_seconds=memory,
        compute_seconds=float(took[path_tasks].sum()),
        messages={name: int(n) for name, n in zip(TIERS[1:], by_tier[1:], strict=True)},
        message_seconds={name: float(s) for name, s in zip(TIERS[1:], by_seconds[1:], strict=True)},
        dependency_seconds=float(spent[~crosses].sum()),
        message_bytes=float(done.message_bytes[crossed].sum()),
        latency_seconds=float(latency.sum()),
        tasks=len(path_tasks),
        all_messages=int(np.count_nonzero(tier)),
        all_bytes=float(done.message_bytes.sum()),
    )


def _longest(
    done: Work, took: Float, lags: Float, queue: Queue | None, late: Float
) -> tuple[Int, Int, Float, float]:
    """Return the tasks and edges of the longest path, the time of the path in each of these edges,
    and its length [s].
    """
    replayed = replay_tasks(Tasks(took, None, done.source, done.target, lags))
    if queue is None:
        edges = _between(replayed.path, done.source, done.target, len(took))
        return replayed.path, edges, lags[edges], replayed.seconds
    # where messages wait for each other, each is a task on the track of what they wait for
    message = np.flatnonzero(done.tier != SAME)
    message = message[np.argsort(replayed.end_seconds[done.source[message]], kind="stable")]
    waiting_at, rest = (
        (done.target, np.zeros(len(message)))
        if queue == "receiver"
        else (done.source, late[message])
    )
    local = done.tier == SAME
    as_task = len(took) + np.arange(len(message))
    source = np.concatenate([done.source[local], done.source[message], as_task])
    target = np.concatenate([done.target[local], as_task, done.target[message]])
    track = np.concatenate([np.full(len(took), -1), done.gpu[waiting_at[message]]])
    waits = np.concatenate([lags[local], np.zeros(len(message)), rest])
    queued = replay_tasks(
        Tasks(np.concatenate([took, lags[message] - rest]), track, source, target, waits)
    )
    path = queued.path
    sent = path >= len(took)
    near, far = (
        _between(path, done.source, done.target, len(took) + len(message)),
        path[sent] - len(took),
    )
    # one that only holds up the next on its track does not arrive on the path
    arrives = np.append(~sent[1:], True)[sent]
    spent = np.concatenate([lags[near], lags[message[far]] - rest[far] * ~arrives])
    return path[~sent], np.concatenate([near, message[far]]), spent, queued.seconds


def _between(path: Int, source: Int, target: Int, count: int) -> Int:
    """Return the edges from each task of a path to the next one."""
    follows = np.full(count, -1)
    follows[path[:-1]] = path[1:]
    return np.flatnonzero(follows[source] == target)
