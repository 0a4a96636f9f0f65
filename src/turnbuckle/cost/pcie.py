"""Bytes on a PCI Express link, and the bandwidth that is left for data.

    rate      lanes x GT/s x line code                             Abdelhafez et al. (AHEAD), eq 3
    write     tx = ceil(n/MPS) h + n                               eq 5; Neugebauer et al., SIGCOMM 2018
    read      tx = ceil(n/MRRS) h,  rx = ceil(n/completion) c + n
    both      tx = write + requests,  rx as read
    bandwidth rate x share x n / max(tx, rx)                       eq 2

A packet carries 8 bytes of framing, sequence number and LCRC, a header of 12 bytes (16 with a
64-bit address) and, if asked for, 4 bytes of ECRC: h is 20 or 24, c is 20.  The share is what
acknowledgements, flow control and SKP sets leave. `legacy_headers` gives the paper's eqs 3 to 5 as
they stand: 8 or 12 bytes a packet, the first request ahead of the data, no link layer (decision
D5).

Transfers are aligned and nothing waits: no latency, no credits, no tags
(`loggp.read_limited_bandwidth` has those). Generations 6 and 7 get the FLIT line code 242/256;
their packets are charged as before, which is an assumption.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from turnbuckle.cost.wire import Way, Wire, carried_bytes, one_of, packets
from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import error_of

#: Signalling rate of a lane [transfers/s] by generation.
RATE: Final[dict[int, float]] = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9, 7: 128e9}
#: Lanes a link may have.
LANES: Final = (1, 2, 4, 8, 12, 16, 32)
#: Bytes a packet, or a read request, may carry or ask for.
PAYLOADS: Final = (128, 256, 512, 1024, 2048, 4096)
#: Boundaries at which a host may cut its answers.
BOUNDARIES: Final = (64, 128, 256, 512)

_FRAMING, _HEADER, _COMPLETION, _ECRC = 8, 4, 8, 4
_ADDRESS: Final[dict[int, int]] = {32: 8, 64: 12}
_DLLP, _SKP = 8, 4 / 1538
_PACKET_EXTRA = 28  # bytes beyond the payload that the recommended acknowledgement interval counts


def line_code(generation: int) -> float:
    """Return the share of the signalling rate that carries bytes: 8b/10b, 128b/130b, or the FLIT's
    242 of 256 bytes.

    >>> [round(line_code(g), 4) for g in (2, 4, 6)]
    [0.8, 0.9846, 0.9453]
    """
    return 8 / 10 if generation <= 2 else 128 / 130 if generation <= 5 else 242 / 256


def link_bandwidth(lanes: float, rate: float, code: float) -> float:
    """Return the bandwidth one way [B/s]: lanes x rate x line code / 8 (AHEAD eq 3).

    Parameters
    ----------
    lanes : number of lanes of the link.
    rate : transfers per second of one lane [1/s]; not its bandwidth, which already includes the
        line code.
    code : share of the rate that carries bytes, as `line_code` returns it.

    >>> round(link_bandwidth(16, 8e9, line_code(3)) / 1e9, 2)
    15.75
    """
    return lanes * rate * code / 8


def acknowledgement_interval(generation: int, lanes: int, payload: int) -> int:
    """Return the advised interval between acknowledgements, as between flow-control updates (PCIe
    base 5.0, tables 3-7 to 3-9).

    In symbol times, one byte on each lane; Neugebauer et al. take it for bytes on the link (see
    `usable_share`).

    >>> [acknowledgement_interval(3, 16, mps) for mps in (128, 256, 512, 1024)]
    [144, 168, 182, 246]
    """
    few = payload <= 256
    factor = (
        (1.4 if lanes <= 4 else 2.5 if lanes == 8 else 3.0) if few else (1.0 if lanes <= 8 else 2.0)
    )
    delay = 19 if generation == 1 else 70 if generation == 2 else 115
    return math.floor((payload + _PACKET_EXTRA) * factor / lanes + delay)


def usable_share(interval_bytes: float) -> float:
    """Return the share of a link left for packets: an acknowledgement and a flow-control update of
    8 B each interval, and SKP sets.

    Parameters
    ----------
    interval_bytes : bytes on the link from one acknowledgement to the next.  Neugebauer et al.
        (pcie-model) put `acknowledgement_interval` here, which leaves 0.90 at 16 lanes and MPS 256.
        The specification multiplies it by the lanes, which leaves 0.99.

    >>> round(usable_share(168), 4)
    0.9022
    """
    return 1.0 - 2 * _DLLP / interval_bytes - _SKP


def published_read_bytes(
    size_bytes: Float | float,
    request: float,
    completion: float,
    header: float,
    request_payload: float = 0.0,
) -> Float:
    """Return the bytes of a read by AHEAD eq 4, with the first request ahead of the data.

    Parameters
    ----------
    size_bytes : n [B].
    request, header : bytes of a request, and of a completion beyond its data [B].
    completion : data in a completion (RCB) [B].
    request_payload : printed term MRRS [B]; 0 by default, because a request carries no data.

    >>> float(published_read_bytes(1.0, 12, 64, 12)), float(published_read_bytes(1.0, 12, 64, 12, request_payload=512))
    (25.0, 537.0)
    """
    return request + request_payload + carried_bytes(size_bytes, completion, header)


@dataclass(frozen=True)
class Pcie(Wire):
    """A PCI Express link and its settings.

    Attributes
    ----------
    generation : generation, 1 to 7.
    lanes : number of lanes: 1, 2, 4, 8, 12, 16 or 32.
    mps : largest data of a packet (Maximum Payload Size) [B].
    mrrs : most data that a request asks for (Maximum Read Request Size) [B].
    rcb : Read Completion Boundary [B].
    completion : data in an answer to a read: ``"mps"``, or ``"rcb"`` as older hosts and AHEAD have
        it.
    address_bits : width of addresses, 32 or 64.
    ecrc : whether packets end with an ECRC.
    interval : unit of the interval between acknowledgements: ``"bytes"`` on the link (Neugebauer et
        al.) or ``"symbols"`` on each lane (the specification), see `usable_share`.
    legacy_headers : whether AHEAD's eqs 3 to 5 apply as printed, without the MRRS term.
    legacy_mrrs : whether the MRRS term applies too: a request carries MRRS bytes.

    Raises
    ------
    UsageError : A016, no such link; A017, no such setting of a link.

    >>> link = Pcie(3, 16)
    >>> [round(float(link.bandwidth(64, way)) / 1e9, 2) for way in ("read", "write", "both")]
    [10.83, 10.34, 8.12]
    >>> [round(float(link.bandwidth(2**30, way)) / 1e9, 2) for way in ("read", "write", "both")]
    [13.18, 12.99, 12.46]
    """

    generation: int
    lanes: int = 16
    mps: int = 256
    mrrs: int = 512
    rcb: int = 64
    completion: Literal["mps", "rcb"] = "mps"
    address_bits: int = 64
    ecrc: bool = False
    interval: Literal["bytes", "symbols"] = "bytes"
    legacy_headers: bool = False
    legacy_mrrs: bool = False

    def __post_init__(self) -> None:
        one_of("A016.generation", self.generation, tuple(RATE))
        one_of("A016.lanes", self.lanes, LANES)
        one_of("A017.payload", self.mps, PAYLOADS, " B")
        one_of("A017.request", self.mrrs, PAYLOADS, " B")
        one_of("A017.completion-boundary", self.rcb, BOUNDARIES, " B")
        one_of("A017.completion", self.completion, ("mps", "rcb"))
        one_of("A017.address", self.address_bits, tuple(_ADDRESS), " bits")
        one_of("A017.interval", self.interval, ("bytes", "symbols"))
        if self.rcb > self.mps:
            raise error_of(
                "A017.boundary", found=f"RCB {self.rcb} B, MPS {self.mps} B", mps=min(self.mps, 64)
            )
        if self.legacy_mrrs and not self.legacy_headers:
            raise error_of("A017.mrrs")

    @property
    def name(self) -> str:
        """Return the name as `packet.link` reads it."""
        return f"pcie{self.generation}-x{self.lanes}"

    @property
    def raw_bandwidth(self) -> float:
        """Return the bandwidth after the line code, one way [B/s]."""
        return link_bandwidth(self.lanes, RATE[self.generation], line_code(self.generation))

    @property
    def share(self) -> float:
        """Return the share that acknowledgements, flow control and SKP sets leave; 1 with legacy
        headers.
        """
        if self.legacy_headers:
            return 1.0
        each = acknowledgement_interval(self.generation, self.lanes, self.mps)
        return usable_share(each if self.interval == "bytes" else each * self.lanes)

    @property
    def packet_bandwidth(self) -> float:
        """Return the bandwidth that is left for packets, one way [B/s]."""
        return self.raw_bandwidth * self.share

    @property
    def request_header(self) -> int:
        """Return the bytes of a read request, and of a write beyond its data."""
        if self.legacy_headers:
            return _ADDRESS[self.address_bits]
        return _FRAMING + _HEADER + _ADDRESS[self.address_bits] + _ECRC * self.ecrc

    @property
    def completion_header(self) -> int:
        """Return the bytes of a completion beyond its data; it has no address, but the paper
        charges one.
        """
        if self.legacy_headers:
            return _ADDRESS[self.address_bits]
        return _FRAMING + _HEADER + _COMPLETION + _ECRC * self.ecrc

    @property
    def completion_bytes(self) -> int:
        """Return the data in a completion [B]."""
        return self.mps if self.completion == "mps" else self.rcb

    @property
    def request_bytes(self) -> int:
        """Return the most data that one read asks for [B]."""
        return self.mrrs

    def _sent(self, n: Float, direction: str) -> Float:
        if direction == "write":
            return carried_bytes(n, self.mps, self.request_header)
        if direction == "read" and self.legacy_headers:
            return np.zeros(n.shape)  # the paper's one request travels with the data
        requests = packets(n, self.mrrs) * self.request_header
        return (
            requests
            if direction == "read"
            else requests + carried_bytes(n, self.mps, self.request_header)
        )

    def _received(self, n: Float, direction: str) -> Float:
        if direction == "write":
            return np.zeros(n.shape)
        if direction == "read" and self.legacy_headers:
            asked = self.mrrs if self.legacy_mrrs else 0
            answer_bytes = published_read_bytes(
                n, self.request_header, self.completion_bytes, self.completion_header, asked
            )
            return np.where(n > 0.0, answer_bytes, 0.0)
        return carried_bytes(n, self.completion_bytes, self.completion_header)


def efficiency(size_bytes: ArrayLike, link: Pcie, direction: Way) -> Float:
    """Return data over bytes on the heavier direction: n / n^ (AHEAD eq 2), without what the link
    layer takes (`usable_share`).

    Parameters
    ----------
    size_bytes : n [B], any shape; 0 counts as 1.
    link, direction : link, and direction of the transfer.

    Returns
    -------
    Between 0 and 1, in the shape of the sizes.

    Raises
    ------
    UsageError : A018, an invalid size; A017, an invalid direction.

    >>> [round(float(efficiency(2**20, Pcie(3, 16, mps=mps), "write")), 3) for mps in (128, 256)]
    [0.842, 0.914]
    """
    return link.efficiency(size_bytes, direction)
