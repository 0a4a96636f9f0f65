"""Common part of PCI Express and NVLink: bytes on the link in each direction, of which the heavier
one binds (AHEAD eq 2).

    efficiency = n / max(sent, received)
    bandwidth  = efficiency x bandwidth that the link leaves for packets

Sizes are checked, and processed in pieces that stay in the processor's cache: tens of millions of
transfers per second on one core.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import TurnbuckleError, did_you_mean, error_of

#: What a device does over its link: read from the host (a copy to the device), write to it (a copy
#: to the host), both at once.
Way = Literal["read", "write", "both"]
WAYS: Final[tuple[Way, ...]] = ("read", "write", "both")
#: From here on a float no longer counts single bytes.
LARGEST: Final = 2.0**53
#: Sizes worked on at a time: input, result and intermediate arrays of 128 KiB each.
PIECE: Final = 1 << 14


def in_pieces(function: Callable[[Float], Float], size_bytes: ArrayLike) -> Float:
    """Evaluate an elementwise function of sizes, a piece at a time.

    Parameters
    ----------
    function : function from sizes [B], shape (k,) with k of at most `PIECE`, to as many numbers.
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
    for begin in range(0, flat.size, PIECE):
        piece = flat[begin : begin + PIECE]
        if not (piece.min() >= 0.0 and piece.max() <= LARGEST):  # false for nan too
            raise _no_size(f"{piece[~((piece >= 0.0) & (piece <= LARGEST))][0]:g}")
        out[begin : begin + PIECE] = function(piece)
    return out.reshape(sizes.shape)


def packets(size_bytes: Float | float, payload: float) -> Float:
    """Return the number of packets that carry n bytes: ceil(n / payload)."""
    return np.ceil(np.asarray(size_bytes) / payload)


def carried_bytes(size_bytes: Float | float, payload: float, header: float) -> Float:
    """Return the bytes on the link for n bytes of data: ceil(n/payload) header + n (AHEAD eqs 5 and
    7; likewise for answers to reads).

    Parameters
    ----------
    size_bytes : n [B].
    payload : largest data of a packet [B].
    header : bytes of a packet beyond its data [B].

    >>> float(carried_bytes(1024.0, 256, 24))
    1120.0
    """
    return np.asarray(packets(size_bytes, payload) * header + size_bytes)


def effective_bandwidth(
    size_bytes: Float | float, wire_bytes: Float | float, bandwidth: float
) -> Float:
    """Return the bandwidth that n bytes of data see [B/s]: n LinkBW / n^ (AHEAD eq 2).

    Parameters
    ----------
    size_bytes : n [B].
    wire_bytes : n^, bytes on the link for n bytes of data [B].
    bandwidth : bandwidth of the link [B/s].

    >>> float(effective_bandwidth(256.0, 272.0, 50e9))
    47058823529.411766
    """
    return np.asarray(size_bytes / wire_bytes * bandwidth)


class Wire(ABC):
    """A link that carries data in packets."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name as `packet.link` reads it."""

    @property
    @abstractmethod
    def raw_bandwidth(self) -> float:
        """Return the bandwidth one way, after the line code [B/s]."""

    @property
    @abstractmethod
    def packet_bandwidth(self) -> float:
        """Return the bandwidth that is left for packets, one way [B/s]."""

    @property
    @abstractmethod
    def request_bytes(self) -> int:
        """Return the most data that one read asks for [B]."""

    @abstractmethod
    def _sent(self, n: Float, direction: str) -> Float:
        """Return the bytes that the device sends."""

    @abstractmethod
    def _received(self, n: Float, direction: str) -> Float:
        """Return the bytes that the device receives."""

    def _heavier(self, n: Float, direction: str) -> Float:
        return (
            self._sent(n, direction)
            if direction == "write"
            else np.maximum(self._sent(n, direction), self._received(n, direction))
        )

    def wire_bytes(self, size_bytes: ArrayLike, direction: Way) -> tuple[Float, Float]:
        """Return the bytes that the device sends and receives for n bytes of data (``"both"``: n
        each way), in the shape of the sizes.
        """
        checked_way(direction)
        return in_pieces(lambda n: self._sent(n, direction), size_bytes), in_pieces(
            lambda n: self._received(n, direction), size_bytes
        )

    def wire_seconds(self, size_bytes: ArrayLike, direction: Way) -> Float:
        """Return the time the link is busy with n bytes of data [s]; 0 for none."""
        checked_way(direction)
        return in_pieces(lambda n: self._heavier(n, direction) / self.packet_bandwidth, size_bytes)

    def efficiency(self, size_bytes: ArrayLike, direction: Way) -> Float:
        """Return data over bytes on the heavier direction, n / n^: between 0 and 1; no bytes count
        as one.
        """
        checked_way(direction)

        def of(n: Float) -> Float:
            some = np.maximum(n, 1.0)
            return some / self._heavier(some, direction)

        return in_pieces(of, size_bytes)

    def bandwidth(self, size_bytes: ArrayLike, direction: Way) -> Float:
        """Return the bandwidth that n bytes of data see in each direction, without latency [B/s];
        no bytes count as one.
        """
        checked_way(direction)

        def of(n: Float) -> Float:
            some = np.maximum(n, 1.0)
            return effective_bandwidth(some, self._heavier(some, direction), self.packet_bandwidth)

        return in_pieces(of, size_bytes)


def checked_way(direction: str) -> None:
    """Refuse a word that is no direction of a link (`UsageError` A017)."""
    one_of("A017.way", direction, WAYS)


def one_of(
    name: str, value: object, allowed: tuple[object, ...], unit: str = "", /, **words: Any
) -> None:
    """Refuse a value that is not allowed with error `name`; the fix names the nearest allowed
    value.
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, int | str | np.integer)
        or value not in allowed
    ):
        choices = [f"{k}{unit}" for k in allowed]
        near = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise error_of(
            name, found=f"{value!r}"[:60], fix=near or None, choices=", ".join(choices), **words
        )


def _no_size(shown: str) -> TurnbuckleError:
    return error_of("A018", found=shown)
