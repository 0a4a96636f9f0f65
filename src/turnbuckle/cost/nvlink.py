"""Bytes on an NVLink, and the bandwidth that is left for data.

    bandwidth  lanes x lane bandwidth x links             AHEAD eq 8
    write      n^ = 16 ceil(n/256) + n                    eq 7
    read       n^ = 16 + 16 ceil(n/256) + n               eq 6
    both       as read: the packets of one way, and the request of the other

A packet is a header flit of 16 bytes, up to 16 flits of data, and, where asked for, an
address-extension flit (requests and writes) and a byte-enable flit (writes).  The packet is that of
versions 1 and 2 (P100, V100); later ones are taken to be alike, which is an assumption.  Data is
charged by the byte, as the paper does, not by the flit it fills.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from turnbuckle.cost.wire import Way, Wire, carried_bytes, one_of
from turnbuckle.foundation.arrays import Float

#: Bytes of a flit.  A header flit holds the CRC, the transaction and what the data link needs.
FLIT: Final = 16
#: Most data in a packet [B].
PAYLOAD: Final = 256
#: By version: lanes of a link, bandwidth of a lane one way [B/s], most links of a device.
VERSIONS: Final[dict[int, tuple[int, float, int]]] = {
    1: (8, 2.5e9, 4),
    2: (8, 3.125e9, 6),
    3: (4, 6.25e9, 12),
    4: (2, 12.5e9, 18),
    5: (2, 25e9, 18),
}


def link_bandwidth(lanes: float, lane_bandwidth: float, links: float) -> float:
    """Return the bandwidth one way [B/s]: lanes x lane bandwidth x links (AHEAD eq 8).

    Parameters
    ----------
    lanes : number of lanes of one link.
    lane_bandwidth : bandwidth of one lane, one way [B/s].
    links : number of parallel links (bricks).

    >>> link_bandwidth(8, 3.125e9, 2)
    50000000000.0
    """
    return lanes * lane_bandwidth * links


def write_bytes(size_bytes: Float | float, header: float = FLIT) -> Float:
    """Return the bytes on the link for writing n bytes (AHEAD eq 7).

    Parameters
    ----------
    size_bytes : n [B].
    header : bytes of a packet beyond its data: a flit, or more with address extension or byte
        enables [B].

    >>> float(write_bytes(256.0))
    272.0
    """
    return carried_bytes(size_bytes, PAYLOAD, header)


def read_bytes(size_bytes: Float | float, request: float = FLIT) -> Float:
    """Return the bytes on the link for reading n bytes: the first request and the answers (AHEAD eq
    6).

    >>> float(read_bytes(256.0))
    288.0
    """
    return request + carried_bytes(size_bytes, PAYLOAD, FLIT)


@dataclass(frozen=True)
class Nvlink(Wire):
    """Parallel NVLinks between two devices.

    Attributes
    ----------
    version : version of NVLink, 1 to 5.
    links : number of links, at most as many as a device of that version has.
    address_extension : whether requests and writes carry an address-extension flit.
    byte_enable : whether writes carry a byte-enable flit.

    Raises
    ------
    UsageError : A016, no such link.

    >>> link = Nvlink(2, 2)
    >>> link.raw_bandwidth / 1e9, round(float(link.efficiency(2**30, "write")), 4)
    (50.0, 0.9412)
    """

    version: int
    links: int = 1
    address_extension: bool = False
    byte_enable: bool = False

    def __post_init__(self) -> None:
        one_of("A016.version", self.version, tuple(VERSIONS))
        one_of(
            "A016.links",
            self.links,
            tuple(range(1, VERSIONS[self.version][2] + 1)),
            version=self.version,
        )

    @property
    def name(self) -> str:
        """Return the name as `packet.link` reads it."""
        return f"nvlink{self.version}-x{self.links}"

    @property
    def raw_bandwidth(self) -> float:
        """Return the bandwidth one way [B/s]."""
        lanes, lane_bandwidth, _ = VERSIONS[self.version]
        return link_bandwidth(lanes, lane_bandwidth, self.links)

    @property
    def packet_bandwidth(self) -> float:
        """Return the bandwidth that is left for packets, one way [B/s]: all of it, as link layer
        and checks are in the header flit.
        """
        return self.raw_bandwidth

    @property
    def request_bytes(self) -> int:
        """Return the most data that one read asks for [B]."""
        return PAYLOAD

    @property
    def request_header(self) -> int:
        """Return the bytes of a read request."""
        return FLIT * (1 + self.address_extension)

    @property
    def write_header(self) -> int:
        """Return the bytes of a write beyond its data."""
        return FLIT * (1 + self.address_extension + self.byte_enable)

    def _sent(self, n: Float, direction: str) -> Float:
        if direction == "read":
            # the others travel while data comes
            return np.where(n > 0.0, float(self.request_header), 0.0)
        first = np.where(n > 0.0, float(self.request_header), 0.0) if direction == "both" else 0.0
        return first + write_bytes(n, self.write_header)

    def _received(self, n: Float, direction: str) -> Float:
        if direction == "write":
            return np.zeros(n.shape)
        return np.where(n > 0.0, read_bytes(n, self.request_header), 0.0)


def efficiency(size_bytes: ArrayLike, link: Nvlink, direction: Way) -> Float:
    """Return data over bytes on the heavier direction: n / n^ (AHEAD eq 2); 0 bytes count as 1, in
    the shape of the sizes.

    >>> round(float(efficiency(2**30, Nvlink(2, 2), "read")), 4)
    0.9412
    """
    return link.efficiency(size_bytes, direction)
