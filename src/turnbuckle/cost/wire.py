"""What PCI Express and NVLink have in common: bytes on the link each way, of which the heavier direction binds (AHEAD eq 2).

    efficiency = n / max(sent, received)
    bandwidth  = efficiency x what the link leaves for packets

Sizes are checked, and worked on in pieces that stay in the processor's cache: tens of millions of transfers a second on one core.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnbuckle.foundation.errors import UsageError, did_you_mean

Float = NDArray[np.float64]
#: What a device does over its link: read from the host (a copy to the device), write to it (a copy to the host), both at once.
Way = Literal["read", "write", "both"]
WAYS: Final[tuple[Way, ...]] = ("read", "write", "both")
#: From here on a float no longer counts single bytes.
LARGEST: Final = 2.0**53
#: Sizes worked on at a time: input, result and intermediate arrays of 128 KiB each.
PIECE: Final = 1 << 14


def in_pieces(function: Callable[[Float], Float], size_bytes: ArrayLike) -> Float:
    """A function of sizes, elementwise, a piece at a time.

    Parameters
    ----------
    function : takes sizes [B] of shape (k,), at most `PIECE` of them, and gives as many numbers.
    size_bytes : n [B], any shape, 0 or more.

    Returns
    -------
    As many numbers, in the shape of the sizes.

    Raises
    ------
    UsageError : A018, a size that is negative, beyond 2^53 (9 PB) or not a number.

    >>> in_pieces(lambda n: n / 2, [2, 4]).tolist()
    [1.0, 2.0]
    """
    try:
        sizes = np.asarray(size_bytes, dtype=np.float64)
    except (TypeError, ValueError):
        raise _no_size(repr(size_bytes)[:60]) from None
    flat, out = sizes.ravel(), np.empty(sizes.size)
    for at in range(0, flat.size, PIECE):
        piece = flat[at : at + PIECE]
        if not (piece.min() >= 0.0 and piece.max() <= LARGEST):  # false for nan too
            raise _no_size(f"{piece[~((piece >= 0.0) & (piece <= LARGEST))][0]:g}")
        out[at : at + PIECE] = function(piece)
    return out.reshape(sizes.shape)


def packets(size_bytes: Float | float, payload: float) -> Float:
    """Packets that carry n bytes: ceil(n / payload)."""
    return np.ceil(np.asarray(size_bytes) / payload)


def carried_bytes(size_bytes: Float | float, payload: float, header: float) -> Float:
    """Bytes on the link for n bytes of data: ceil(n/payload) header + n (AHEAD eqs 5 and 7; what answers a read alike).

    Parameters
    ----------
    size_bytes : n [B].
    payload : most data in a packet [B].
    header : bytes of a packet beyond its data [B].

    >>> float(carried_bytes(1024.0, 256, 24))
    1120.0
    """
    return np.asarray(packets(size_bytes, payload) * header + size_bytes)


def effective_bandwidth(size_bytes: Float | float, wire_bytes: Float | float, bandwidth: float) -> Float:
    """Bandwidth that n bytes of data see [B/s]: n LinkBW / n^ (AHEAD eq 2).

    Parameters
    ----------
    size_bytes : n [B].
    wire_bytes : n^, what goes over the link for them [B].
    bandwidth : of the link [B/s].

    >>> float(effective_bandwidth(256.0, 272.0, 50e9))
    47058823529.411766
    """
    return np.asarray(size_bytes / wire_bytes * bandwidth)


class Wire(ABC):
    """A link that carries data in packets."""

    @property
    @abstractmethod
    def name(self) -> str:
        """As `packet.link` reads it."""

    @property
    @abstractmethod
    def raw_bandwidth(self) -> float:
        """One way, after the line code [B/s]."""

    @property
    @abstractmethod
    def packet_bandwidth(self) -> float:
        """What is left for packets, one way [B/s]."""

    @property
    @abstractmethod
    def request_bytes(self) -> int:
        """Most data that one read asks for [B]."""

    @abstractmethod
    def _sent(self, n: Float, way: str) -> Float:
        """Bytes that the device sends."""

    @abstractmethod
    def _received(self, n: Float, way: str) -> Float:
        """Bytes that the device receives."""

    def _heavier(self, n: Float, way: str) -> Float:
        return self._sent(n, way) if way == "write" else np.maximum(self._sent(n, way), self._received(n, way))

    def wire_bytes(self, size_bytes: ArrayLike, way: Way) -> tuple[Float, Float]:
        """Bytes that the device sends and receives for n bytes of data (``"both"``: n each way), in the shape of the sizes."""
        checked_way(way)
        return in_pieces(lambda n: self._sent(n, way), size_bytes), in_pieces(lambda n: self._received(n, way), size_bytes)

    def wire_seconds(self, size_bytes: ArrayLike, way: Way) -> Float:
        """Time the link is busy with n bytes of data [s]; 0 for none."""
        checked_way(way)
        return in_pieces(lambda n: self._heavier(n, way) / self.packet_bandwidth, size_bytes)

    def efficiency(self, size_bytes: ArrayLike, way: Way) -> Float:
        """Data over bytes on the heavier direction, n / n^: between 0 and 1; no bytes count as one."""
        checked_way(way)

        def of(n: Float) -> Float:
            some = np.maximum(n, 1.0)
            return some / self._heavier(some, way)

        return in_pieces(of, size_bytes)

    def bandwidth(self, size_bytes: ArrayLike, way: Way) -> Float:
        """What n bytes of data see, each way [B/s], latency apart; no bytes count as one."""
        checked_way(way)

        def of(n: Float) -> Float:
            some = np.maximum(n, 1.0)
            return effective_bandwidth(some, self._heavier(some, way), self.packet_bandwidth)

        return in_pieces(of, size_bytes)


def checked_way(way: str) -> None:
    """Raises `UsageError` A017 for a word that is no way of using a link."""
    one_of("A017", "way of using a link", way, WAYS)


def one_of(code: str, what: str, found: object, known: tuple[object, ...], unit: str = "") -> None:
    """Raises `UsageError` for what is not known, with the nearest that is."""
    if isinstance(found, bool) or not isinstance(found, int | str | np.integer) or found not in known:
        words = [f"{k}{unit}" for k in known]
        fix = did_you_mean(found, words) if isinstance(found, str) else ""
        raise UsageError(code, f"no such {what}", found=f"{found!r}"[:60], fix=fix or f"one of {', '.join(words)}")


def _no_size(found: str) -> UsageError:
    return UsageError(
        "A018", "no transfer has such a size", found=found, cause="sizes are bytes, from 0 to 2^53", fix='write for example "64 KiB"'
    )
