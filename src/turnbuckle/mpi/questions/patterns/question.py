"""GPUDirect against host copies on declared patterns, by node shape and by message size.

A pattern is no recording (`turnbuckle.mpi.replay.patterns`).  Both replays have the same messages
and the same compute; communication is all time that is not compute, so that

    gain = communication by host copies / communication by GPUDirect - 1
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from turnbuckle.mpi.questions.messages.question import replayed, shapes
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.mpi.replay.messages import Traffic
from turnbuckle.mpi.replay.patterns import Pattern, traffic_of

#: Relative tolerance of the share of communication.
SHARE_WITHIN: Final = 0.01
_MOST_TRIES: Final = 24
#: Largest compute as a multiple of the communication; beyond it the share consists of waiting.
_MOST_COMPUTE: Final = 1e4
#: Machine and costs that Khetawat et al. simulate, with one GPU per rank; the paper states no
#: overheads.
_INSIDE: Final[dict[str, Any]] = dict.fromkeys(
    ("inside_bandwidth", "link_bandwidth", "peer_bandwidth"), 75e9
)
OF_THE_PAPER: Final = Setup(
    network="lassen", costs="seed_G", collectives="tracer", overhead_seconds=0.0, **_INSIDE
)
#: The same with one switch as the network.
ON_ONE_SWITCH: Final = replace(OF_THE_PAPER, network="")


@dataclass(frozen=True)
class Gain:
    """Result of one pattern on one node shape by both paths."""

    ranks: int
    ranks_per_node: int
    #: hostcopy_seconds, gpudirect_seconds: communication by each path, mean over the ranks [s]
    hostcopy_seconds: float
    gpudirect_seconds: float
    #: hostcopy_run_seconds, gpudirect_run_seconds: run time by each path [s]
    hostcopy_run_seconds: float
    gpudirect_run_seconds: float

    @property
    def gain(self) -> float:
        """Return the gain of communication."""
        return (
            self.hostcopy_seconds / self.gpudirect_seconds - 1.0
            if self.gpudirect_seconds > 0
            else 0.0
        )

    @property
    def run_gain(self) -> float:
        """Return the gain of the run time."""
        return (
            self.hostcopy_run_seconds / self.gpudirect_run_seconds - 1.0
            if self.gpudirect_run_seconds > 0
            else 0.0
        )


def gains(traffic: Traffic, ranks_per_node: Sequence[int], setup: Setup) -> list[Gain]:
    """Return the gain of GPUDirect over host copies for several node shapes; nan where a path gets
    stuck.

    Raises A074, an impossible number of ranks per node, or what else
    `turnbuckle.mpi.questions.messages.question.replayed` refuses.
    """
    out = []
    for each in shapes(ranks_per_node):
        host, direct = (
            replayed(traffic, replace(setup, ranks_per_node=each, path=p), followed=False).row
            for p in ("hostcopy", "gpudirect")
        )
        out.append(
            Gain(
                traffic.ranks,
                each,
                host.communication_seconds,
                direct.communication_seconds,
                host.seconds,
                direct.seconds,
            )
        )
    return out


def with_share(pattern: Pattern, ranks: int, share: float, setup: Setup) -> Pattern | None:
    """Return the pattern with the compute that makes communication this share of a run (host
    copies, 4 ranks a node); None where none does.

    The wait for a neighbour that computes counts as communication, so the share may stay above the
    target: in a sweep over many ranks, or where ranks differ.

    Parameters
    ----------
    share : target share of communication in the time of a rank, above 0 and below 1.
    """
    shape_setup = replace(setup, ranks_per_node=4, path="host")
    per_second = float(
        np.mean(traffic_of(replace(pattern, compute_seconds=1.0), ranks).compute_seconds)
    )
    low, high, compute, most = 0.0, math.inf, 0.0, math.inf
    for _ in range(_MOST_TRIES):
        if compute > most:
            return None
        candidate = replace(pattern, compute_seconds=compute)
        communication = replayed(
            traffic_of(candidate, ranks), shape_setup, followed=False
        ).row.communication_seconds
        current = (
            communication / (communication + compute * per_second) if communication > 0 else 0.0
        )
        if abs(current - share) <= SHARE_WITHIN * share:
            return candidate
        most = min(most, _MOST_COMPUTE * communication / per_second)
        low, high = (compute, high) if current > share else (low, compute)
        # The next compute assumes constant communication; the bracket is halved or doubled where
        # that leads outside it.
        compute = communication * (1.0 - share) / share / per_second
        if not low < compute < high:
            compute = 2.0 * low if math.isinf(high) else (low + high) / 2.0
    return None


def waited(pattern: Pattern, ranks: int, setup: Setup) -> float:
    """Return the time that a rank waits for slower ones, over its mean compute, for an imbalance of
    1; 1 where all wait for the slowest.

    In a halo of few exchanges the slowest rank does not yet delay all others.
    """
    small = replace(
        pattern,
        sizes=(0.0,),
        sum_bytes=None if pattern.sum_bytes is None else 0.0,
        compute_seconds=1.0,
        imbalance=0.1,
    )
    row = replayed(
        traffic_of(small, ranks), replace(setup, path="host", ranks_per_node=1), followed=False
    ).row
    return row.communication_seconds / row.compute_seconds / small.imbalance


# --- by message size ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sized:
    """Gains at one message size."""

    what: str
    size_bytes: float  #: size of each message [B]
    gains: tuple[Gain, ...]  #: gains, one for each node shape


#: Patterns that are replayed by message size; a halo is over the six faces of a cube of ranks with
#: open ends.
SIZED: Final[dict[str, Pattern]] = {
    "ping-pong": Pattern("pingpong", 1, (), 1),
    "halo, all messages at once": Pattern("halo", 3, (), 4),
    "halo, one direction after the other": Pattern("halo", 3, (), 4, order="one by one"),
}


def by_size(
    sizes: Sequence[float], ranks_per_node: Sequence[int], setup: Setup, *, ranks: int = 64
) -> Iterator[Sized]:
    """Yield the gains of a ping-pong between two ranks, and of halos among `ranks`, at each size
    [B].

    Raises A093, impossible sizes or ranks; A074.
    """
    for what, pattern in SIZED.items():
        many = 2 if pattern.form == "pingpong" else ranks
        for size in sizes:
            yield Sized(
                what,
                size,
                tuple(
                    gains(traffic_of(replace(pattern, sizes=(size,)), many), ranks_per_node, setup)
                ),
            )


def crossover(results: Sequence[Sized], ranks_per_node: int) -> float:
    """Return the smallest size tried from which on GPUDirect is faster [B]; infinite where it is
    not faster at the largest.
    """
    best = math.inf
    for result in sorted(results, key=lambda s: -s.size_bytes):
        gain = next(g for g in result.gains if g.ranks_per_node == ranks_per_node).gain
        # A pattern that gets stuck has a gain of nan, which ends the search too.
        if not gain > 0:
            break
        best = result.size_bytes
    return best
