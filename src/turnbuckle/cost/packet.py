"""Time of one copy over a link that carries packets (Abdelhafez et al., AHEAD, eqs 9 and 10).

    pinned, peer      T = (o + L) + n / BW_eff                    eq 10
    pageable          T = (o + L) + 2 n / MemBW + n / BW_eff      eq 9, from a threshold of the driver on
    on the device     T = (o + L) + n / MemBW                     eq 10 with the device's memory

Times are those of the device's clock, as profilers record copies.  Below the driver's threshold it
stages a pageable copy before the device begins, so that the device sees eq 10; the paper has eq 9
for all sizes (threshold 0).

The papers leave out that a reading device has a limited number of requests in flight
(`read_limited`, decision D12).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from turnbuckle.cost.loggp import read_limited_bandwidth
from turnbuckle.cost.nvlink import VERSIONS, Nvlink
from turnbuckle.cost.pcie import LANES, RATE, Pcie
from turnbuckle.cost.wire import Way, checked_way, in_pieces
from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import TurnbuckleError, clipped, did_you_mean, error_of
from turnbuckle.foundation.schema.vocabulary import refuse_several

Link = Pcie | Nvlink
#: Where the driver begins to stage pageable copies piece by piece: the paper saw something between
#: 256 KiB and 1 MiB on every node.
PAGEABLE_THRESHOLD: Final = 512 * 1024.0

#: A link whose rate is so near a machine's is the machine's.
_ALIKE: Final = 0.015
#: A copy whose last packet no longer counts.
_LARGE_BYTES: Final = float(1 << 30)
_LONGEST = 40
#: Of times, bandwidths and counts, SI: nothing that a machine has lies beyond, and nothing within
#: overflows.
_LEAST, _MOST = 1e-15, 1e30
_NAME = re.compile(r"(pcie|nvlink)([0-9]{1,3})-x([0-9]{1,3})", re.ASCII)
#: How else people write it: none of these is taken, each is told the name.
_WRITTEN = re.compile(
    r"(pcie|nvlink)[ _-]?([0-9]{1,3})(?:\.0)?(?:[ _-]?x([0-9]{1,3}))?", re.ASCII | re.IGNORECASE
)


def link(text: str) -> Link:
    """Build a link from its name: ``pcie4-x16`` (generation, lanes), ``nvlink2-x2`` (version,
    links).

    Raises
    ------
    UsageError : A016, with the nearest name; A426 where several are named.

    >>> link("pcie4-x16").raw_bandwidth, link("pcie3-x8").lanes, link("nvlink2-x2").links
    (31507692307.69231, 8, 2)
    """
    refuse_several(text, "link")
    word = text.strip() if len(text) <= _LONGEST else ""
    match = _NAME.fullmatch(word)
    if match is None:
        shown = clipped(text, _LONGEST)
        raise error_of("A016.link", found=f'"{shown}"', fix=_meant(word))
    kind, version, count = match[1], int(match[2]), int(match[3])
    return Pcie(version, count) if kind == "pcie" else Nvlink(version, count)


def behind(coupling: str, bandwidth: float) -> Link | None:
    """Return the link of a coupling whose raw bandwidth is within 1.5 % of this [B/s]; None where
    its packets are unknown or no link fits.

    Of several that fit, it is the one with the most lanes.  A fabric carries the packets of PCIe.

    >>> behind("pcie", 31.5e9).name, behind("c2c", 450e9)
    ('pcie4-x16', None)
    """
    links: list[Link] = []
    if coupling in ("pcie", "fabric"):  # a composable fabric carries the same packets farther
        links = [Pcie(g, lanes) for lanes in (16, 8, 4, 2, 1) for g in RATE]
    elif coupling == "nvlink":
        links = [Nvlink(v, k) for v, (_, _, most) in VERSIONS.items() for k in range(1, most + 1)]
    return next(
        (each for each in links if abs(each.raw_bandwidth / bandwidth - 1.0) <= _ALIKE), None
    )


@cache
def large_share(coupling: str, bandwidth: float, direction: str) -> float:
    """Return the share of a link's nominal bandwidth that a large copy gets with packet headers; 1
    where the packets are unknown.

    Parameters
    ----------
    coupling, bandwidth : as in `behind`.
    direction : ``"h2d"`` (the device reads) or ``"d2h"`` (the device writes).

    >>> round(large_share("pcie", 63.015e9, "h2d"), 3), large_share("c2c", 450e9, "h2d")
    (0.837, 1.0)
    """
    wire = behind(coupling, bandwidth)
    return (
        1.0
        if wire is None
        else float(wire.bandwidth(_LARGE_BYTES, "read" if direction == "h2d" else "write"))
        / bandwidth
    )


def is_link(text: str) -> bool:
    """Return whether a text has the form of a link's name, whatever its numbers.

    >>> is_link("pcie4-x16"), is_link("pcie4x16")
    (True, False)
    """
    return _NAME.fullmatch(text) is not None


def _meant(word: str) -> str:
    """Return the nearest name of a link, or the form of such names."""
    written = _WRITTEN.fullmatch(word)
    if written is not None:
        kind, version, count = written[1].lower(), written[2], written[3]
        if count is not None:
            return f"it is called {kind}{version}-x{count}, as a machine with that link is"
        return (
            f"say how many {'lanes' if kind == 'pcie' else 'links'}, as in "
            f"{kind}{version}-x{16 if kind == 'pcie' else 2}"
        )
    if "c2c" in word:
        return (
            "the packets of NVLink-C2C are not published: take its bandwidth as it is "
            "(turnbuckle machines show nvlink-c2c)"
        )
    names = [f"pcie{g}-x{n}" for g in RATE for n in LANES] + [
        f"nvlink{v}-x{n}" for v in VERSIONS for n in (1, 2, 3, 4, 6, 12, 18)
    ]
    return (
        did_you_mean(word, names)
        or "write generation and lanes as in pcie4-x16, version and links as in nvlink2-x2"
    )


def copy_seconds(
    size_bytes: ArrayLike,
    link: Link,
    direction: Way,
    *,
    latency: float,
    host_memory_bandwidth: float | None = None,
    pageable_threshold: float = PAGEABLE_THRESHOLD,
) -> Float:
    """Return the time of one copy over a link [s]: pinned host memory or a peer (eq 10), pageable
    host memory (eq 9).

    Parameters
    ----------
    size_bytes : n [B], any shape; no bytes take the latency.
    link, direction : ``"read"`` is a copy to the device, ``"write"`` one to the host or to a peer,
        ``"both"`` n bytes each way at once.
    latency : o + L, the time of a one-byte copy [s].
    host_memory_bandwidth : bandwidth of the memory through which pageable copies are staged [B/s];
        None for pinned memory.  The rate at which one core copies is nearer to measurements than
        the data sheet's peak, which the paper takes.
    pageable_threshold : size from which the device waits for the staging [B]; 0 for the paper's eq
        9 at all sizes.

    Returns
    -------
    Seconds, in the shape of the sizes.

    Raises
    ------
    UsageError : A017, an invalid latency, bandwidth or threshold; A018, an invalid size.

    >>> round(float(copy_seconds(2**20, Pcie(3, 16), "read", latency=2e-6)) * 1e6, 1)
    81.5
    >>> round(float(copy_seconds(2**20, Pcie(3, 16), "read", latency=2e-6, host_memory_bandwidth=50e9)) * 1e6, 1)
    123.5
    """
    checked_way(direction)
    _at_least_zero(latency=latency, pageable_threshold=pageable_threshold)
    if host_memory_bandwidth is None:
        return in_pieces(lambda n: latency + link.wire_seconds(n, direction), size_bytes)
    staged = 2.0 / _above_zero(host_memory_bandwidth=host_memory_bandwidth)
    return in_pieces(
        lambda n: (
            latency
            + link.wire_seconds(n, direction)
            + np.where(n >= pageable_threshold, staged * n, 0.0)
        ),
        size_bytes,
    )


def pageable_log_sd(
    size_bytes: ArrayLike,
    link: Link,
    direction: Way,
    *,
    latency: float,
    host_memory_bandwidth: float,
    pageable_threshold: float = PAGEABLE_THRESHOLD,
) -> Float:
    """Return the standard deviation of the answer's logarithm that follows from the driver's
    unknown threshold.

    Below the threshold a copy may be staged piece by piece nevertheless: the log of eq 9 over eq
    10.  From the threshold on it is 0. Errors of latency and bandwidths are not included.

    >>> [round(float(s), 2) for s in pageable_log_sd([1, 2**18, 2**20], Pcie(3, 16), "read", latency=2e-6, host_memory_bandwidth=50e9)]
    [0.0, 0.39, 0.0]
    """
    pinned = copy_seconds(size_bytes, link, direction, latency=latency)
    staged = copy_seconds(
        size_bytes,
        link,
        direction,
        latency=latency,
        host_memory_bandwidth=host_memory_bandwidth,
        pageable_threshold=0.0,
    )
    _at_least_zero(pageable_threshold=pageable_threshold)
    ratio = np.divide(staged, pinned, out=np.ones(staged.shape), where=pinned > 0.0)
    return np.where(np.asarray(size_bytes) < pageable_threshold, np.log(ratio), 0.0)


def on_device_seconds(size_bytes: ArrayLike, memory_bandwidth: float, *, latency: float) -> Float:
    """Return the time of a copy inside one device [s]: eq 10 with its memory bandwidth (the paper
    counts n, not n read and n written).

    >>> float(on_device_seconds(9e6, 900e9, latency=2e-6))
    1.2e-05
    """
    _at_least_zero(latency=latency)
    each = 1.0 / _above_zero(memory_bandwidth=memory_bandwidth)
    return in_pieces(lambda n: latency + n * each, size_bytes)


def read_limited(
    size_bytes: ArrayLike, link: Link, direction: Way, *, tags: float, round_trip: float
) -> Float:
    """Return the bandwidth [B/s] with `tags` reads in flight: min(BW_eff, tags x request / round
    trip) (Little's law, D12).

    Writes are posted and wait for no answer, so they have the bandwidth of the link.  The law holds
    in the steady state: a copy of fewer requests than tags waits once.

    Parameters
    ----------
    size_bytes : n [B], any shape.
    tags : number of reads that may be in flight.
    round_trip : time from a request to its data, added distance included [s].

    >>> [round(float(read_limited(2**20, Pcie(4, 16), "read", tags=256, round_trip=r)) / 1e9, 1) for r in (1.2e-6, 5.2e-6, 101e-6)]
    [26.4, 25.2, 1.3]
    """
    free = link.bandwidth(size_bytes, direction)
    _above_zero(tags=tags), _above_zero(round_trip=round_trip)
    return (
        free
        if direction == "write"
        else read_limited_bandwidth(free, tags, link.request_bytes, round_trip)
    )


def _at_least_zero(**given: float) -> None:
    for name, value in given.items():
        if not 0.0 <= value <= _MOST:
            raise _outside(name, value, f"from 0 to {_MOST:g}")


def _above_zero(**given: float) -> float:
    ((name, value),) = given.items()
    if not _LEAST <= value <= _MOST:
        raise _outside(name, value, f"from {_LEAST:g} to {_MOST:g}")
    return value


def _outside(name: str, value: float, wanted: str) -> TurnbuckleError:
    return error_of(
        "A017.quantity", found=f"{value:g}", quantity=name.replace("_", " "), wanted=wanted
    )
