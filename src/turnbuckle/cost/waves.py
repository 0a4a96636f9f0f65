"""Kernels on another GPU of the same make, by the waves of their thread blocks (Yu et al., Habitat,
USENIX ATC 2021, eqs 1 and 2).

    T' = T (D/D' W'/W)^g (C/C')^(1-g) ceil(B/W') / ceil(B/W)          few waves
    T' = T (D/D')^g (W C / (W' C'))^(1-g)                              many

with B thread blocks, W blocks in a wave (multiprocessors x blocks that each holds at once), D
memory bandwidth, C clock and g the share of the time that memory decides.  A kernel whose blocks
fill no wave on either GPU scales with the clock alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from turnbuckle.foundation.arrays import Float

#: From this many waves on, the last one, which is not full, is left out of account (Habitat does so
#: for large launches).
MANY_WAVES = 16.0


def blocks_at_once(
    threads: ArrayLike, registers: ArrayLike, shared_bytes: ArrayLike, held: Sequence[float]
) -> Float:
    """Return the blocks that a multiprocessor holds at once; at least one.

    Parameters
    ----------
    threads, registers, shared_bytes : threads a block, registers a thread, shared memory a block
        [B]; 0 limits nothing.
    held : threads, 32-bit registers, shared memory [B] and blocks that a multiprocessor holds;
        infinite where not known.

    >>> blocks_at_once([256, 1024], [32, 128], [0, 49152], (2048, 65536, 167936, 32)).tolist()
    [8.0, 1.0]
    """
    t, r, s = (np.asarray(v, dtype=np.float64) for v in (threads, registers, shared_bytes))
    with np.errstate(divide="ignore"):
        fits = [
            np.floor(held[0] / t),
            np.floor(held[1] / (t * r)),
            np.floor(held[2] / s),
            np.full(t.shape, held[3]),
        ]
    return np.asarray(np.maximum(np.minimum.reduce(np.broadcast_arrays(*fits)), 1.0))


def longer(
    blocks: Float,
    wave: Float,
    other_wave: Float,
    memory: Float,
    clock: float,
    compute: Float,
    share: Float,
) -> Float:
    """Return the time on the other GPU over the time on this one.

    Parameters
    ----------
    blocks : thread blocks of the launch, shape (kernels,).
    wave, other_wave : blocks in a wave here and there.
    memory : memory bandwidth there over here.
    clock : clock there over here.
    compute : what a GPU that is full computes, there over here; multiprocessors times clock where
        nothing better is known.
    share : of the time that memory decides, in [0, 1]; shape (..., kernels).

    >>> one = np.ones(1)
    >>> float(longer(one * 50, one * 864, one * 1056, 1.6, 1.25, 1.5, one * 0.5)[0])
    0.8
    >>> float(longer(one * 1e6, one * 864, one * 1056, 1.6, 1.25, 1.5, one)[0])
    0.625
    """
    waves, other_waves = np.ceil(blocks / wave), np.ceil(blocks / other_wave)
    many = (memory**-share) * (compute ** (share - 1.0))
    step = (other_waves / waves) * (other_wave / wave)  # the last wave, not full, counts as one
    few = many * step
    unfilled = (blocks <= wave) & (blocks <= other_wave)
    return np.asarray(
        np.where(
            unfilled, 1.0 / clock, np.where(np.minimum(waves, other_waves) >= MANY_WAVES, many, few)
        )
    )


def memory_share(intensity: ArrayLike) -> Float:
    """Return the share of a kernel's time that memory decides, by how much it computes for each
    byte (Habitat, section 4.2).

    Parameters
    ----------
    intensity : operations a byte, over those at which a GPU of that peak and that memory bandwidth
        is held up by both alike.

    >>> memory_share([0.0, 1.0, 2.0, np.inf]).tolist()
    [1.0, 0.5, 0.25, 0.0]
    """
    x = np.asarray(intensity, dtype=np.float64)
    return np.where(x <= 1.0, 1.0 - 0.5 * x, 0.5 / np.maximum(x, 1.0))
