"""How often kernels read host memory over a coherent link (decision 67).

A GPU keeps no lines of its host's memory in its cache, so a read that its cache would have served
crosses the link again (a load takes 618 ns from a set of 130 kB as from one of 1 MB:
ntua-el20062/grace-hopper-benchmark, commit 505e82c).  Which kernels read what was copied is not
recorded.  At least each byte crosses once, in the place of its copy.  The most of one launch is,
by the class of its kernel:

    elementwise, copy, reduction    all that was copied, once
    products of matrices            flop / width, for the narrowest tile of measured products
    all others                      what the GPU's cache serves in the time of the kernel

and never more than each of its blocks reading all that was copied.  Data that was copied before
the recording began is taken to lie in device memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import ArrayLike

from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.machine import Machine, Pair
from turnbuckle.profile.kernels import KernelKind
from turnbuckle.projection.elsewhere.kernels import PEAKS
from turnbuckle.projection.elsewhere.priors import Draws

if TYPE_CHECKING:
    from turnbuckle.projection.anchor import Durations
    from turnbuckle.projection.elsewhere.given import KernelTable

#: The unknown among the drivers.
HOST_READS: Final = "how often kernels read host memory"
#: Ratio of both ends of the run time from which only counters settle an answer.
APART: Final = 2.0
#: Classes whose launches read each byte once.
STREAMING: Final = frozenset({"elementwise", "copy", "reduction"})
#: Classes that multiply tiles of matrices.
PRODUCTS: Final = frozenset({"matrix product", "convolution", "attention"})
#: Bytes of one element, by precision.
ELEMENT_BYTES: Final = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
#: Columns of a product that each fetched column of an operand serves, narrowest and widest, with
#: one operand in host memory and with both: 3 and 97 of 100 products of cuBLAS from n = 500 up on
#: GH200 (the same repository; validation/grace_hopper.py).  Other precisions take those of FP16.
WIDTHS: Final[dict[str, dict[int, tuple[float, float]]]] = {
    "fp64": {1: (28.5, 133.0), 2: (16.5, 45.0)},
    "fp32": {1: (18.5, 205.0), 2: (13.4, 45.0)},
    "tf32": {1: (22.5, 265.0), 2: (19.5, 125.0)},
    "fp16": {1: (26.5, 310.0), 2: (12.5, 130.0)},
}
#: Rate at which a GPU's cache serves reads, over the bandwidth of its memory: 5,120 B a clock at
#: 1.41 GHz over 1,555 GB/s of an A100 (NVIDIA A100 Tensor Core GPU Architecture, 2020), of which
#: reads reach 75 % on GH200: 7,601 of 10,100 GB/s (the same repository).  A V100 has 2.6 and a
#: GH200 2.0 by the same sum.
CACHE_OVER_MEMORY: Final = 3.5
#: Memory of a GPU whose machine states none [B/s]: the fastest of the catalogue.
FASTEST_MEMORY: Final = 8e12


def product_longer(
    rate: ArrayLike, precision: str, operands: int, link: float
) -> tuple[Float, Float]:
    """Return the least and most times that a product takes longer with operands in host memory.

    An operand of n x n elements crosses n / width times: flop x element / (2 width link) seconds.

    Parameters
    ----------
    rate : of the product in device memory [FLOP/s].
    precision : a word of `ELEMENT_BYTES`.
    operands : how many lie in host memory, 1 or 2.
    link : bandwidth at which kernels read host memory [B/s].

    >>> [float(end.round(1)) for end in product_longer(62e12, "fp64", 1, 393e9)]
    [4.7, 22.1]
    """
    narrowest, widest = WIDTHS.get(precision, WIDTHS["fp16"])[operands]
    width = np.asarray(rate) * ELEMENT_BYTES[precision] / (2.0 * link)
    return np.maximum(width / widest, 1.0), np.maximum(width / narrowest, 1.0)


def link_rate(machine: Machine) -> float | None:
    """Return the bandwidth at which kernels read host memory [B/s]: that of copies to the
    device.
    """
    nominal = machine.value("link.h2d.bandwidth")
    share = machine.value("link.h2d.efficiency")
    return None if nominal is None else nominal * min(1.0 if share is None else share, 1.0)


def crosses(pair: Pair, port: str) -> bool:
    """Return whether kernels of a port read over a link what the recorded program copied."""
    return port == "zero-copy" and pair.target is not pair.source and not pair.target.copies_vanish


def read_again(
    durations: Durations,
    copied_bytes: float,
    pair: Pair,
    table: KernelTable | None,
    share: Draws | float,
) -> Float | None:
    """Return how many times longer each piece takes for crossings beyond one a byte.

    Shape (..., pieces); None where no kernel can read more.

    Parameters
    ----------
    durations : as priced, with each byte crossing once.
    copied_bytes : copied between host and device, before the part that is asked about too.
    table : the model's table of kernels.
    share : of the way from the least to the most on a log scale; draws draw it.
    """
    link = link_rate(pair.target)
    if not link or copied_bytes <= 0:
        return None
    run = durations.run
    rows = run.kind == "kernel"
    kinds = [kind or KernelKind() for kind in run.kernel[rows]]
    count = run.count[rows]
    each = np.maximum(durations.scaled[..., rows] / np.maximum(count, 1.0), 1e-12)
    crossing = copied_bytes / link
    most = np.minimum(each * (_longest(kinds, pair.target, link) - 1.0), _reads(kinds) * crossing)
    read, known = _counted(kinds, table)
    certain = np.maximum(read / link - each, 0.0)
    least = _beyond_once(np.where(known, certain, 0.0 * most), count, crossing) / each
    most = _beyond_once(np.where(known, certain, most), count, crossing) / each
    if not (most > 0).any():
        return None
    way = _drawn(share) if isinstance(share, Draws) else share
    between = (1.0 - way) * np.log1p(least) + way * np.log1p(most)
    out = np.ones((*between.shape[:-1], len(run)))
    out[..., rows] = np.exp(between)
    return out


def _drawn(draws: Draws) -> Float:
    """Return draws between 0 and 1, shape (draws, 1): each as likely, and a tenth at either end."""
    return np.asarray(np.clip((draws.share(HOST_READS) - 0.1) / 0.8, 0.0, 1.0)[:, None])


def _beyond_once(longer: Float, count: Float, crossing: float) -> Float:
    """Return the seconds by which launches are longer, less the crossing in the place of copies."""
    total = (longer * count).sum(axis=-1, keepdims=True)
    return np.asarray(longer * np.maximum(1.0 - crossing / np.maximum(total, 1e-300), 0.0))


def _reads(kinds: Sequence[KernelKind]) -> Float:
    """Return how often a launch reads all that was copied: once, or once a block where known."""
    return np.array([1.0 if k.name in STREAMING else k.blocks or np.inf for k in kinds])


def _longest(kinds: Sequence[KernelKind], target: Machine, link: float) -> Float:
    """Return the most times that each kind takes longer if all that it reads crosses the link."""
    memory = (target.value("gpu.memory_bandwidth") or FASTEST_MEMORY) / link
    served = {True: memory, False: CACHE_OVER_MEMORY * memory}
    out = [_product(kind, target, link) or served[kind.name in STREAMING] for kind in kinds]
    return np.maximum(out, 1.0)


def _product(kind: KernelKind, target: Machine, link: float) -> float | None:
    """Return the most times that a product takes longer at its peak; None where that is unknown."""
    if kind.name not in PRODUCTS or kind.precision not in ELEMENT_BYTES:
        return None
    peaks = (target.value(name) for name in PEAKS[kind.precision])
    peak = next((value for value in peaks if value is not None), None)
    return None if peak is None else float(product_longer(peak, kind.precision, 2, link)[1])


def _counted(kinds: Sequence[KernelKind], table: KernelTable | None) -> tuple[Float, Bool]:
    """Return the bytes that launches read from host memory, and whether a table tells.

    A ratio that the user states for a kernel holds what it reads.
    """
    rows = [-1 if table is None else kind.given for kind in kinds]
    counters = [None if table is None else table.counters(row) for row in rows]
    read = np.array([np.nan if c is None else c.host_bytes for c in counters])
    stated = [row >= 0 and c is None for row, c in zip(rows, counters, strict=True)]
    return np.nan_to_num(read), np.array(stated, dtype=np.bool_) | ~np.isnan(read)


def hanging_on_reads(once: float, most: float, measured: float) -> list[Finding]:
    """Return finding A399 where crossings beyond one a byte move the run time by more than `APART`.

    Parameters
    ----------
    once, most : run time [s] at the least and at the most.
    measured : recorded run time [s].
    """
    if not measured or most <= APART * once:
        return []
    ends = f"{once / measured:.3g} times the recorded run time if each byte crosses once"
    detail = f"{ends}, {most / measured:.3g} times if kernels read as often as their classes allow"
    return [finding("A399", 1, detail)]
