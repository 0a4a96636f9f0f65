"""GPUDirect against host copies on declared patterns: by node shape, and by message size.

A pattern is no recording (`turnbuckle.mpi.replay.patterns`).  Every replay is of the same messages taken two ways; compute is the
same in both, communication is all that is not compute, so that

    gain = communication by host copies / communication by GPUDirect - 1
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from turnbuckle.mpi.questions.messages.question import replayed, shapes
from turnbuckle.mpi.questions.messages.setup import Path, Setup
from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.mpi.replay.patterns import Pattern, traffic_of

#: How near the share of communication comes to the one that is wanted, as a fraction of it.
SHARE_WITHIN: Final = 0.01
_MOST_TRIES: Final = 24
#: Times the communication without compute: beyond it the share is that of waiting.
_MOST_COMPUTE: Final = 1e4
#: The machine that Khetawat et al. simulate, with as many GPUs a node as ranks, and what they charge a message; no overheads are printed.
OF_THE_PAPER: Final = Setup(
    network="lassen", inside_bandwidth=75e9, link_bandwidth=75e9, peer_bandwidth=75e9, costs="seed_G", collectives="tracer",
    overhead_seconds=0.0,
)  # fmt: skip
#: One switch instead.
ON_ONE_SWITCH: Final = replace(OF_THE_PAPER, network="")


@dataclass(frozen=True)
class Gain:
    """One pattern on one node shape, both ways.

    Attributes
    ----------
    ranks, ranks_per_node : the shape.
    hostcopy_seconds, gpudirect_seconds : communication, mean over the ranks [s].
    hostcopy_run_seconds, gpudirect_run_seconds : run time [s].
    """

    ranks: int
    ranks_per_node: int
    hostcopy_seconds: float
    gpudirect_seconds: float
    hostcopy_run_seconds: float
    gpudirect_run_seconds: float

    @property
    def gain(self) -> float:
        """Of communication."""
        return self.hostcopy_seconds / self.gpudirect_seconds - 1.0 if self.gpudirect_seconds > 0 else 0.0

    @property
    def run_gain(self) -> float:
        """Of the run time."""
        return self.hostcopy_run_seconds / self.gpudirect_run_seconds - 1.0 if self.gpudirect_run_seconds > 0 else 0.0


def gains(traffic: Traffic, ranks_per_node: Sequence[int], setup: Setup) -> list[Gain]:
    """Host copies against GPUDirect for several node shapes; nan where a path gets stuck.

    Raises
    ------
    UsageError : A074, a number of ranks a node that is none, or what else `turnbuckle.mpi.questions.messages.question.replayed` refuses.
    """
    out = []
    for each in shapes(ranks_per_node):
        host, direct = (replayed(traffic, replace(setup, ranks_per_node=each, path=path)).row for path in ("hostcopy", "gpudirect"))
        out.append(Gain(traffic.ranks, each, host.communication_seconds, direct.communication_seconds, host.seconds, direct.seconds))
    return out


def with_share(pattern: Pattern, ranks: int, share: float, setup: Setup, *, ranks_per_node: int = 4, path: Path = "host") -> Pattern | None:
    """The pattern with as much compute as makes communication this share of the run; None where no compute does.

    Waiting for a neighbour that computes is communication too, so the share may stay above what is wanted: in a sweep over many
    ranks, or where ranks differ.

    Parameters
    ----------
    share : of communication in the time of a rank, above 0 and below 1.
    ranks_per_node, path : of the run whose share it is.
    """
    one = replace(setup, ranks_per_node=ranks_per_node, path=path)
    per_second = float(np.mean(traffic_of(replace(pattern, compute_seconds=1.0), ranks).compute_seconds))
    low, high, compute, most = 0.0, math.inf, 0.0, math.inf
    for _ in range(_MOST_TRIES):
        if compute > most:
            return None
        tried = replace(pattern, compute_seconds=compute)
        talk = replayed(traffic_of(tried, ranks), one).row.communication_seconds
        found = talk / (talk + compute * per_second) if talk > 0 else 0.0
        if abs(found - share) <= SHARE_WITHIN * share:
            return tried
        most = min(most, _MOST_COMPUTE * talk / per_second)
        low, high = (compute, high) if found > share else (low, compute)
        # what it would be if communication did not depend on it; halved or doubled where that leads nowhere
        compute = talk * (1.0 - share) / share / per_second
        if not low < compute < high:
            compute = 2.0 * low if math.isinf(high) else (low + high) / 2.0
    return None


def waited(pattern: Pattern, ranks: int, setup: Setup) -> float:
    """What a rank waits for slower ones, over its mean compute, for an imbalance of 1; 1 where all wait for the slowest of all.

    In a halo of few exchanges the slowest rank is not yet felt by all.
    """
    small = replace(pattern, sizes=(0.0,), sum_bytes=None if pattern.sum_bytes is None else 0.0, compute_seconds=1.0, imbalance=0.1)
    row = replayed(traffic_of(small, ranks), replace(setup, path="host", ranks_per_node=1)).row
    return row.communication_seconds / row.compute_seconds / small.imbalance


# --- by message size --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sized:
    """One message size.

    Attributes
    ----------
    what : of `SIZED`.
    size_bytes : of each message [B].
    found : the replays, one a node shape.
    """

    what: str
    size_bytes: float
    found: tuple[Gain, ...]


#: What is replayed by message size; a halo is over the six faces of a cube of ranks with open ends.
SIZED: Final[dict[str, Pattern]] = {
    "ping-pong": Pattern("pingpong", 1, (), 1),
    "halo, all messages at once": Pattern("halo", 3, (), 4),
    "halo, one direction after the other": Pattern("halo", 3, (), 4, order="one by one"),
}


def by_size(sizes: Sequence[float], ranks_per_node: Sequence[int], setup: Setup, *, ranks: int = 64) -> Iterator[Sized]:
    """A ping-pong between two ranks, and halos among `ranks`, at each size [B].

    Raises
    ------
    UsageError : A093, sizes or ranks that cannot be; A074.
    """
    for what, pattern in SIZED.items():
        many = 2 if pattern.form == "pingpong" else ranks
        for size in sizes:
            yield Sized(what, size, tuple(gains(traffic_of(replace(pattern, sizes=(size,)), many), ranks_per_node, setup)))


def crossover(found: Sequence[Sized], ranks_per_node: int) -> float:
    """The smallest size tried from which on GPUDirect is the faster way [B]; infinite where it is not at the largest."""
    best = math.inf
    for one in sorted(found, key=lambda s: -s.size_bytes):
        gain = next(g for g in one.found if g.ranks_per_node == ranks_per_node).gain
        # what gets stuck has no gain
        if not gain > 0:
            break
        best = one.size_bytes
    return best
