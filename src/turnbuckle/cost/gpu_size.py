"""Kernels on a larger GPU: the possible speed-up of each by its thread blocks (Austin et al. 2021,
4.7, 8.5).

AgoChart scales every kernel by the speed of the GPU, execution units x clock x efficiency:

    t' = t (EU f eta) / (EU' f' eta')

A kernel reaches this time if it fills both GPUs.  A block runs on one multiprocessor (EU).  So a
kernel of b blocks on M multiprocessors takes ceil(b / M) rounds, each as long as one block alone;
on k M multiprocessors it takes ceil(b / (k M)) rounds.  Its speed-up is

    s(k) = ceil(b / M) / ceil(b / (k M))  <=  k          s = 1 where b <= M: the kernel does not fill the recorded GPU

Several blocks on one multiprocessor hide each other's waiting, and a kernel whose blocks were all
resident at once may gain nothing. The other bound counts rounds of resident blocks, with R at a
time on each multiprocessor:

    s(k) = ceil(b / (R M)) / ceil(b / (R k M))

R is assumed to be as large as threads and registers allow on any GPU since 2016 (2,048 and 65,536
per multiprocessor, 32 blocks), whatever the shared memory.  This bound is mostly the lower one;
where one block more than R M needs a further round, it is the higher one.  The answer is the range
between the two.  The memory of a larger GPU is assumed to grow with it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from turnbuckle.foundation.arrays import Float

#: Most threads, registers and blocks of a multiprocessor (CUDA C++ Programming Guide, technical
#: specifications, 6.0 to 10.0).
_THREADS, _REGISTERS, _BLOCKS = 2048.0, 65536.0, 32.0


def gpu_ratio(
    units: float,
    clock: float,
    efficiency: float,
    other_units: float,
    other_clock: float,
    other_efficiency: float,
) -> float:
    """Return the speed-up of a kernel that fills both GPUs: the ratio of their (EU f eta).

    >>> gpu_ratio(108, 1.41e9, 1.0, 3 * 108, 1.41e9, 1.0)
    3.0
    """
    return (other_units * other_clock * other_efficiency) / (units * clock * efficiency)


def spread_speedup(blocks: ArrayLike, units: ArrayLike, times: ArrayLike) -> Float:
    """Return the largest speed-up of kernels on a GPU with `times` as many multiprocessors.

    Parameters
    ----------
    blocks : thread blocks of each kernel; 0 where unknown, which counts as filling any GPU.
    units : multiprocessors of the GPU that it ran on; 0 where unknown, likewise.
    times : factor on the number of multiprocessors, at least 1.  All parameters broadcast.

    >>> spread_speedup([40, 108, 109, 10_000, 0], 108, 4).tolist()
    [1.0, 1.0, 2.0, 3.875, 4.0]
    """
    blocks, units, times = (np.asarray(v, dtype=np.float64) for v in (blocks, units, times))
    mask = (blocks > 0) & (units > 0)
    b, m = np.where(mask, blocks, 1.0), np.where(mask, units, 1.0)
    # a hair less, so that k M comes out whole for the k that are no binary fractions
    rounds, fewer = np.ceil(b / m), np.ceil(b / (m * times) * (1 - 1e-12))
    return np.where(mask, np.minimum(rounds / fewer, times), times)


def resident_at_most(threads: ArrayLike, registers: ArrayLike) -> Float:
    """Return the largest number of resident blocks of a multiprocessor, by threads per block and
    registers per thread; 0 is unknown.

    >>> resident_at_most([32, 256, 1024, 256, 0], [16, 16, 32, 128, 0]).tolist()
    [32.0, 8.0, 2.0, 2.0, 32.0]
    """
    threads, registers = (np.asarray(v, dtype=np.float64) for v in (threads, registers))
    t, r = np.maximum(threads, 1.0), np.maximum(registers, 1.0)
    held = np.minimum(np.floor(_THREADS / t), np.floor(_REGISTERS / (r * t)))
    return np.asarray(np.where(threads > 0, np.clip(held, 1.0, _BLOCKS), _BLOCKS))


def unit_share(blocks: ArrayLike, units: ArrayLike) -> Float:
    """Return the share of a GPU's multiprocessors that a kernel keeps busy, mean over its rounds; 1
    where blocks or units are unknown (0).

    >>> unit_share([54, 108, 162, 0], 108).tolist()
    [0.5, 1.0, 0.75, 1.0]
    """
    blocks, units = (np.asarray(v, dtype=np.float64) for v in (blocks, units))
    mask = (blocks > 0) & (units > 0)
    b, m = np.where(mask, blocks, 1.0), np.where(mask, units, 1.0)
    return np.where(mask, b / (m * np.ceil(b / m)), 1.0)
