"""Kernels of a class on another GPU: bandwidth and peak in shares, how full the GPU is, and what
was measured of the class on both.

    ln T'/T = m ln D/D' + (1 - m) ln P/P' + f (u - u') + o'(w) - o(w)

with D the bandwidth of memory that is reached, P the peak of the kernel's precision, m the share
that memory decides, u the logarithm of the part of the multiprocessors that the blocks fill, and o
what the class takes longer on a GPU than these rates say, by the work w and the number of blocks (a
library takes other kernels for other shapes).
The work is the time that the same kernel takes on one GPU, a V100, by the first two terms.
Constants: `validation/kernels/fit.py`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from turnbuckle.foundation.arrays import Float

#: Work at which offsets are stated [s on a V100]; between them they follow its logarithm, beyond
#: them they stay.
WORK: Final = (0.2e-3, 1e-3, 5e-3, 25e-3, 125e-3)
#: Blocks at which offsets are stated, and how many tenfolds from there they reach.
MIDDLE: Final = 1000.0
_FARTHEST: Final = 1.5


def work(seconds: ArrayLike, memory: ArrayLike, compute: ArrayLike, share: ArrayLike) -> Float:
    """Return the work of kernels [s on the reference].

    Parameters
    ----------
    seconds : their time here [s].
    memory, compute : bandwidth and peak here over the reference's.
    share : of the time that memory decides.
    """
    return np.asarray(
        np.asarray(seconds)
        * np.asarray(memory) ** np.asarray(share)
        * np.asarray(compute) ** (1.0 - np.asarray(share))
    )


def weights(work_seconds: ArrayLike, blocks: ArrayLike) -> Float:
    """Return the weights of the offsets at `WORK`, and of the one for tenfold blocks, shape
    (kernels, 6).

    >>> weights([1e-3, 50.0], [1000.0, 0.0]).round(2).tolist()
    [[0.0, 1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]]
    """
    at = np.log(np.maximum(work_seconds, 1e-9))
    count = np.asarray(blocks, dtype=np.float64)
    tenfold = np.clip(np.log10(np.where(count > 0, count, MIDDLE) / MIDDLE), -_FARTHEST, _FARTHEST)
    return np.stack(
        [*(np.interp(at, np.log(WORK), one) for one in np.eye(len(WORK))), tenfold], axis=-1
    )


def filled(blocks: ArrayLike, multiprocessors: ArrayLike) -> Float:
    """Return the logarithm of the part of the multiprocessors that blocks fill; blocks of 0 are not
    known, and fill them.

    >>> filled([80.0, 0.0], 80.0).round(3).tolist()
    [-0.693, 0.0]
    """
    count = np.asarray(blocks, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.where(count > 0, -np.log1p(np.asarray(multiprocessors) / count), 0.0)


def longer(seconds: ArrayLike, by_rates: ArrayLike, shortest: tuple[float, float]) -> Float:
    """Return the time on the other GPU over the time here, where only what exceeds the shortest
    kernel follows the rates.

    Parameters
    ----------
    seconds : time here [s], shape (kernels,).
    by_rates : the ratio of long kernels, shape (..., kernels).
    shortest : what a kernel that does nearly nothing takes here and there [s].

    >>> longer([2e-6, 1.0], [0.5, 0.5], (1e-6, 1e-6)).round(3).tolist()
    [0.75, 0.5]
    >>> longer([1e-6], [0.5], (2e-6, 4e-6)).tolist()
    [2.0]
    """
    here = np.asarray(seconds, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        fixed = np.where(here > 0, np.minimum(shortest[0] / here, 1.0), 0.0)
    return np.asarray(fixed * shortest[1] / shortest[0] + (1.0 - fixed) * np.asarray(by_rates))
