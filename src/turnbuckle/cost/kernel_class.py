"""Kernels of a class on another GPU: bandwidth and arithmetic rate in shares, how full the GPU is,
and what was measured of the class on both.

    ln T'/T = m ln D/D' + (1 - m) ln C/C' + f (u - u') + o'(w, a) - o(w, a)
    ln C    = ln P + h(w) ln min(1, E L / P)

with D the bandwidth of memory that is reached, P the peak of the kernel's precision, m the share
that memory decides, u the logarithm of the part of the multiprocessors that the blocks fill.  C is
the arithmetic rate that lasts: a board of power limit L sustains E operations a joule, and that
decides the share h of a kernel, none of a short and all of a long one.  o is what the class takes
longer on a GPU than these rates say, of second order in the logarithms of work w and output a (a
library takes other kernels for other shapes).
The work is the time that the same kernel takes on one GPU, a V100, by the first two terms and P.
Constants: `validation/kernels/fit.py`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from turnbuckle.foundation.arrays import Float

#: Offsets are stated about this work [s on a V100] and this output, and reach so many tenfolds.
MIDDLE_WORK: Final = 1e-3
MIDDLE_TILES: Final = 1000.0
_WORK_REACH: Final = (-0.7, 2.1)
_TILES_REACH: Final = (-1.5, 1.5)
#: Numbers of an offset: level, tenfold work, tenfold output, and the three of second order.
ORDERS: Final = ("level", "work", "tiles", "work work", "work tiles", "tiles tiles")
#: Farthest that an offset reaches (log), a factor of 2.2: where no shape was measured, what is of
#: second order runs away.
_FARTHEST: Final = 0.8
#: Elements of the tile that outputs are counted in: 64 by 64.
TILE: Final = 4096
#: Kernels a hundred times shorter than those that power decides are not held by it.
_POWER_FROM: Final = 100.0


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


def weights(work_seconds: ArrayLike, tiles: ArrayLike) -> Float:
    """Return the weights of the numbers of an offset, shape (kernels, 6).

    Parameters
    ----------
    work_seconds : as `work` gives it.
    tiles : output in tiles of `TILE` elements; 0 where it is not known.

    >>> weights([1e-3, 1e-2], [0.0, 100.0]).round(2).tolist()
    [[1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 1.0, -1.0, 1.0, -1.0, 1.0]]
    """
    longer_work = np.log10(np.maximum(work_seconds, 1e-9) / MIDDLE_WORK).clip(*_WORK_REACH)
    count = np.asarray(tiles, dtype=np.float64)
    more = np.log10(np.where(count > 0, count, MIDDLE_TILES) / MIDDLE_TILES).clip(*_TILES_REACH)
    first = (np.ones_like(more), longer_work, more)
    return np.stack([*first, longer_work**2, longer_work * more, more**2], axis=-1)


def offset(numbers: ArrayLike, at: Float) -> Float:
    """Return what kernels take longer on a GPU than its rates say (log).

    Parameters
    ----------
    numbers : of each by `ORDERS`, shape (kernels, 6).
    at : their `weights`.

    >>> offset([[0.1, 0.2, 0.0, 0.0, 0.0, 0.0]], weights([1e-2], [1000.0])).round(2).tolist()
    [0.3]
    """
    return np.asarray((np.asarray(numbers) * at).sum(axis=-1)).clip(-_FARTHEST, _FARTHEST)


def held_by_power(work_seconds: ArrayLike, whole: ArrayLike) -> Float:
    """Return the share of kernels that the power of the board decides; `whole` is the work from
    which on that is all [s], infinite for classes that power does not hold.

    >>> held_by_power([1e-5, 1e-3, 1.0], [1e-2, np.inf, 1e-2]).tolist()
    [0.0, 0.0, 1.0]
    """
    with np.errstate(divide="ignore"):
        far = np.log(np.maximum(work_seconds, 1e-9) / np.asarray(whole, dtype=np.float64))
    return np.asarray((1.0 + far / np.log(_POWER_FROM)).clip(0.0, 1.0))


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
