"""Small transfers over CXL and over PCIe, and chains of accelerators (Austin et al. 2021,
ECP-HIHE01-35, eqs 9 to 13).

    (9)  t_pcie = n / b_n + t_s                  `loggp_seconds(n, t_s, b_n)`, b_n: `pcie.Pcie.bandwidth`, both directions at once
    (10) t_cxl1 = ceil(n / 64) 40 ns             one line after the other; with more in flight never less than n / b_n
    (11) t_cxl2 = n / (0.6 .. 0.9 b_n) + 40 ns   `loggp_seconds(n, 40 ns, 0.6 b_n)`, a stream after the access time of one line
    (12) t_app  = (d + n - 1) t_stage + s        balanced; unbalanced: sum t_j + (n - 1) max t_j + s
    (13) penalty = t_total / (t_1 + t_2 + ...)

A task is worth moving where it saves more than 2 d, with d the time of its data in one direction
(section 10.2). Equation 10 is printed without the ceil; a cache moves whole lines.  The report
takes t_s from a figure and does not print it: `start_ups` finds the values that its three printed
anchors allow (738 ns, decision D6).

These equations leave out contention and, except for `lines_in_flight` of equation 10, the number of
reads in flight; `loggp.read_limited_bandwidth` models that limit for PCIe (decision D12).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from turnbuckle.cost.pcie import Pcie
from turnbuckle.cost.wire import WAYS, Way
from turnbuckle.foundation.arrays import Float
from turnbuckle.papers.numbers import Interval

#: Seconds of transfers of n bytes over a wire that carries b_n, elementwise: a function of n [B]
#: and b_n [B/s].
Law = Callable[[Float, Float], Float]

#: Size of a cache line [B], and time of an access to it [s] (CXL 1.1, as the report has it).
LINE_BYTES: Final = 64
LINE_SECONDS: Final = 40e-9
#: Share of PCIe's bandwidth that CXL.cache and CXL.mem reach: the pessimistic end of the report,
#: whose optimistic one is 0.9.
LEAST_SHARE: Final = 0.6
#: Start-up of a PCIe transfer behind the report's figures [s] (decision D6).
START_UP: Final = 738e-9

#: Largest copy from whose time the start-up is inferred [B].
SMALL_BYTES: Final = 64 * 1024

_PIECE = 1 << 20


def cxl_line_seconds(
    size_bytes: ArrayLike,
    line_seconds: float = LINE_SECONDS,
    *,
    line_bytes: float = LINE_BYTES,
    lines_in_flight: float = 1.0,
    whole_lines: bool = True,
    bandwidth: ArrayLike = np.inf,
) -> Float:
    """Return the time to move n bytes by cache misses [s] (eq 10, CXL model 1).

    Parameters
    ----------
    size_bytes : n [B], any shape.
    line_seconds : time of one access [s].
    line_bytes : size of a cache line [B].
    lines_in_flight : number of misses that may be open at once; the report has one, which limits
        CXL to 1.6 GB/s (Little's law).
    whole_lines : whether a part of a line costs a line; False is the equation as printed.
    bandwidth : b_n of the wire below, which the lines cannot exceed [B/s].

    >>> [round(float(cxl_line_seconds(n)) * 1e9) for n in (1, 64, 65)]
    [40, 40, 80]
    >>> round(float(cxl_line_seconds(1e9, lines_in_flight=256, bandwidth=12.5e9)), 3)
    0.08
    """
    size = np.asarray(size_bytes, dtype=np.float64)
    turns = (
        np.ceil(np.ceil(size / line_bytes) / lines_in_flight)
        if whole_lines
        else size / line_bytes / lines_in_flight
    )
    return np.asarray(np.maximum(turns * line_seconds, size / np.asarray(bandwidth)))


def pipeline_seconds(
    stage_seconds: ArrayLike, items: ArrayLike, start_up: ArrayLike = 0.0
) -> Float:
    """Return the run time of a pipeline [s] (eq 12): sum t_j + (n - 1) max t_j + s; with equal
    stages (d + n - 1) t + s.

    Parameters
    ----------
    stage_seconds : time of each stage, shape (..., stages) [s].
    items : n, number of runs of each stage, 1 or more, shape (...).
    start_up : s [s].

    >>> float(pipeline_seconds([2.0, 2.0, 2.0], 4)), float(pipeline_seconds([1.0, 5.0, 2.0], 4))
    (12.0, 23.0)
    """
    stages = np.asarray(stage_seconds, dtype=np.float64)
    return np.asarray(stages.sum(-1) + (np.asarray(items) - 1) * stages.max(-1) + start_up)


@dataclass(frozen=True)
class Crossover:
    """Sizes at which one law stops being faster than another, in whole bytes."""

    first: int  #: smallest size at which the law is not faster [B]
    #: smallest size from which on it is never faster, up to the limit [B]; limit + 1 where it is
    #: faster at the limit.  Between the two the sawtooth of packets and lines decides.
    last: int


def crossovers(
    laws: Sequence[Law],
    slower: Law,
    bandwidth: Callable[[Float], Float],
    limit_bytes: int = 1 << 24,
) -> list[Crossover | None]:
    """Find where each law stops being faster than `slower`, among all sizes from 1 B to the limit;
    `bandwidth` is b_n [B/s] over n [B].

    A crossover is None where a law is faster at every size, and its `first` is 1 where it never is.

    >>> from turnbuckle.cost.loggp import loggp_seconds
    >>> link = Pcie(3, 16)
    >>> crossovers([lambda n, _: cxl_line_seconds(n)], lambda n, b: loggp_seconds(n, START_UP, b), lambda n: link.bandwidth(n, "both"))
    [Crossover(first=1345, last=1345)]
    """
    ends = [[0, 0] for _ in laws]
    for start in range(1, limit_bytes + 1, _PIECE):
        sizes = np.arange(start, min(start + _PIECE, limit_bytes + 1), dtype=np.float64)
        carried = bandwidth(sizes)
        base = slower(sizes, carried)
        for end, law in zip(ends, laws, strict=True):
            behind = np.asarray(law(sizes, carried) >= base)
            if not end[0] and behind.any():
                end[0] = start + int(behind.argmax())
            if not behind.all():
                end[1] = start + len(behind) - int(behind[::-1].argmin())
    return [Crossover(first, max(last, first)) if first else None for first, last in ends]


@dataclass(frozen=True)
class Anchor:
    """Printed number that depends on the start-up of PCIe."""

    #: ``"crossover"``: size [B] at which a CXL law stops being faster; ``"relative"``: its time
    #: over PCIe's at `size_bytes`
    kind: Literal["crossover", "relative"]
    #: low, high: interval of the printed digits [B], or a plain number
    low: float
    high: float
    cxl: Law
    size_bytes: float = 0.0  #: size of ``"relative"`` [B]


def start_ups(bandwidth: Callable[[Float], Float], anchor: Anchor) -> tuple[float, float] | None:
    """Return the start-ups of PCIe [s] that put an anchor inside its interval: above the first, up
    to the second; None if none does.

    Parameters
    ----------
    bandwidth : b_n [B/s] as a function of sizes [B].

    A crossover is the first size n with t_cxl(n) - n/b_n >= t_s: it lies in [low, high] for t_s
    between the largest difference below `low` and the largest up to `high`.  No scan is needed.
    """
    if anchor.kind == "relative":
        size = np.array([anchor.size_bytes])
        bare, cxl = size / bandwidth(size), anchor.cxl(size, bandwidth(size))
        low, high = float(cxl[0] / anchor.high - bare[0]), float(cxl[0] / anchor.low - bare[0])
    else:
        sizes = np.arange(1, np.floor(anchor.high) + 1)
        speed = bandwidth(sizes)
        behind = np.maximum.accumulate(anchor.cxl(sizes, speed) - sizes / speed)
        below = behind[sizes < anchor.low]
        low, high = float(below[-1]) if len(below) else -np.inf, float(behind[-1])
    return (max(low, 0.0), high) if high > max(low, 0.0) else None


class Identified(NamedTuple):
    """Setting of PCIe, and the range of start-ups [s] with which it explains all anchors."""

    direction: Way  #: direction of the bandwidth: ``"both"``, ``"write"`` or ``"read"``
    link: Pcie
    low: float
    high: float


def identified(settings: Iterable[tuple[Way, Pcie]], anchors: Iterable[Anchor]) -> list[Identified]:
    """Return the settings for which one start-up puts each anchor inside its printed interval, each
    with its range of start-ups.
    """
    printed_anchors, matches = tuple(anchors), []
    for direction, link in settings:
        ranges: list[tuple[float, float]] = []
        for anchor in printed_anchors:
            start_up_range = start_ups(
                lambda n, direction=direction, link=link: link.bandwidth(n, direction),  # type: ignore[misc]
                anchor,
            )
            if start_up_range is None:
                break
            ranges.append(start_up_range)
        else:
            low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
            if low < high:
                matches.append(Identified(direction, link, low, high))
    return matches


def measured_start_up(
    size_bytes: Float, seconds: Float, bandwidth: Float
) -> tuple[Interval, int] | None:
    """Return t_s of eq 9 [s], and the number of copies behind it: median and quartiles of t - n /
    b_n; None without copies up to 64 KiB.

    Parameters
    ----------
    size_bytes, seconds : sizes and times of measured copies, shape (copies,) [B], [s].
    bandwidth : b_n of the link at their sizes, shape (copies,) [B/s].

    >>> n = np.array([64.0, 4096.0])
    >>> start_up, count = measured_start_up(n, n / 1e10 + 2e-6, np.full(2, 1e10)) or ()
    >>> round(start_up.value * 1e6, 6), count
    (2.0, 2)
    """
    small = np.asarray(size_bytes) <= SMALL_BYTES
    if not small.any():
        return None
    beyond = np.maximum(seconds[small] - size_bytes[small] / bandwidth[small], 0.0)
    low, middle, high = (float(q) for q in np.quantile(beyond, (0.25, 0.5, 0.75)))
    return Interval(middle, low, high), int(small.sum())


def pcie_settings(generation: int, lanes: int) -> list[tuple[Way, Pcie]]:
    """Return the directions and settings in which a link is plausibly run: 144 of them, without
    ECRC.

    >>> len(pcie_settings(3, 16))
    144
    """
    completions: tuple[Literal["mps", "rcb"], ...] = ("mps", "rcb")
    return [
        (
            mode,
            Pcie(generation, lanes, mps=mps, mrrs=mrrs, address_bits=bits, completion=completion),
        )
        for mode, mps, mrrs, bits, completion in itertools.product(
            WAYS, (128, 256, 512), (256, 512, 1024, 2048), (32, 64), completions
        )
    ]
