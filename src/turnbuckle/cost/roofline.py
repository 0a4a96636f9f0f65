"""Kernel time as an extended roofline: arithmetic against memory, with copies on the memory's side
(Austin et al. 2021, eq 8).

    (8)  T = max( t_flop n_flop,  t_reg n_reg + t_irr n_irr + t_h2d n_h2d + t_d2h n_d2h )         overlap = full
         T = max( t_flop n_flop,  t_reg n_reg + t_irr n_irr ) + t_h2d n_h2d + t_d2h n_d2h         overlap = none

The printed form hides copies behind arithmetic; ``none`` adds them, so that its time is never less.
Every cost is in seconds per byte (the paper leaves open whether a copy costs by byte or by
transfer), each n in bytes.  Regular accesses have a stride of 128 B or less; their cost is the
inverse of a stream benchmark's bandwidth in that memory.  The cost of irregular accesses is the
inverse of the bandwidth of pointer chasing.  Valid for kernels long enough that latency and launch
are negligible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from turnbuckle.foundation.arrays import Float

Overlap = Literal["full", "none"]

OVERLAPS: Final[tuple[Overlap, ...]] = get_args(Overlap)


@dataclass(frozen=True)
class Work:
    """Work of kernels; all fields have shapes that broadcast.

    Attributes
    ----------
    flops : number of floating-point operations.
    regular_bytes, irregular_bytes : bytes read and written with small and with large strides [B].
    h2d_bytes, d2h_bytes : bytes copied or migrated to and from the device [B].
    """

    flops: Float | float
    regular_bytes: Float | float
    irregular_bytes: Float | float = 0.0
    h2d_bytes: Float | float = 0.0
    d2h_bytes: Float | float = 0.0


@dataclass(frozen=True)
class Costs:
    """Cost of a unit of work; all fields have shapes that broadcast.

    Attributes
    ----------
    flop : time of a floating-point operation [s].
    regular, irregular : time of a byte of memory access [s/B].
    h2d, d2h : time of a byte of a copy [s/B].
    """

    flop: Float | float
    regular: Float | float
    irregular: Float | float = 0.0
    h2d: Float | float = 0.0
    d2h: Float | float = 0.0


def roofline_parts(work: Work, costs: Costs) -> tuple[Float, Float, Float]:
    """Return the times of arithmetic, of memory and of copies, each by itself [s].

    >>> arithmetic, memory, copies = roofline_parts(Work(1e12, 9e9, h2d_bytes=50e9), Costs(1e-13, 1 / 900e9, h2d=1 / 50e9))
    >>> [round(float(x), 6) for x in (arithmetic, memory, copies)]
    [0.1, 0.01, 1.0]
    """
    memory = _price(costs.regular, work.regular_bytes) + _price(
        costs.irregular, work.irregular_bytes
    )
    return (
        _price(costs.flop, work.flops),
        memory,
        _price(costs.h2d, work.h2d_bytes) + _price(costs.d2h, work.d2h_bytes),
    )


def roofline_seconds(work: Work, costs: Costs, overlap: Overlap = "full") -> Float:
    """Return the time of kernels [s] (eq 8).

    Parameters
    ----------
    overlap : ``full`` as printed, with copies behind arithmetic; ``none`` with copies before and
        after.

    >>> work, costs = Work(1e12, 9e9, h2d_bytes=50e9), Costs(1e-13, 1 / 900e9, h2d=1 / 50e9)
    >>> [round(float(roofline_seconds(work, costs, o)), 6) for o in ("full", "none")]
    [1.01, 1.1]
    """
    arithmetic, memory, copies = roofline_parts(work, costs)
    if overlap == "full":
        return np.maximum(arithmetic, memory + copies)
    return np.maximum(arithmetic, memory) + copies


def _price(cost: Float | float, amount: Float | float) -> Float:
    """Multiply work by its price; no work costs nothing even where the price is unknown."""
    amount = np.asarray(amount, dtype=np.float64)
    return np.where(amount == 0.0, 0.0, cost) * amount
