"""Costs of a message between GPUs, through host memory or straight from device memory (Khetawat et
al., GPUDirect in TraceR-CODES).

    HostCopy    T = wire(n) + copies (d + c n)         each copy: latency d, c per byte
    GPUDirect   T = wire(n) + pins p                   each pinning of device memory costs p

The paper does not state how many copies and pins it charges for each message; its break-even and
its largest gain fit one of each (preset `SEED_G`).  By physics a message between two nodes needs a
copy at the sender and one at the receiver, and memory that stays pinned is pinned once (`PHYSICS`;
decision D8).  The wire time, which both paths share, is an argument: these forms have no protocol,
no contention and no overlap of copies with the wire.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.machine import Machine, load
from turnbuckle.machine.parameter_names import HOST_WAYS, link_parameter
from turnbuckle.projection.model import link_bandwidth


@dataclass(frozen=True)
class Paths:
    """Costs that the two paths add to the wire time of a message."""

    copies: float
    pins: float
    copy_latency: float  #: latency of one host copy [s]
    copy_per_byte: float  #: time per byte of one host copy [s/B]
    pin_seconds: float  #: time of pinning once [s]


#: One copy and one pin per message, with the paper's Table I.
SEED_G = Paths(copies=1, pins=1, copy_latency=2e-6, copy_per_byte=0.07e-9, pin_seconds=4e-6)
#: A copy at each end, and memory pinned once for all messages of a buffer.
PHYSICS = Paths(copies=2, pins=0, copy_latency=2e-6, copy_per_byte=0.07e-9, pin_seconds=4e-6)


def of_machine(name: str | Machine) -> Paths:
    """Return the costs of `PHYSICS` with the host copies of a machine of the catalogue: pinned
    copies on its links, none on one memory.

    What the machine does not state, and the name "", keep the values of `PHYSICS`.  Both directions
    count with their mean.

    >>> of_machine("mi300a").copies, round(1e-9 / of_machine("lassen").copy_per_byte, 1)
    (0.0, 65.4)
    """
    if not name:
        return PHYSICS
    machine = load(name)
    if machine.copies_vanish:
        return replace(PHYSICS, copies=0.0, copy_latency=0.0, copy_per_byte=0.0)
    latency = [
        v for link in HOST_WAYS if (v := machine.value(link_parameter(link, "latency"))) is not None
    ]
    rates = [link_bandwidth(machine, link, machine) for link in HOST_WAYS]
    per_byte = [1.0 / float(rate) for rate in rates if rate is not None]
    return replace(
        PHYSICS,
        copy_latency=sum(latency) / len(latency) if latency else PHYSICS.copy_latency,
        copy_per_byte=sum(per_byte) / len(per_byte) if per_byte else PHYSICS.copy_per_byte,
    )


def hostcopy_seconds(
    size_bytes: Float | float, wire_seconds: Float | float, paths: Paths = SEED_G
) -> Float:
    """Return the time of a message through host memory [s].

    Parameters
    ----------
    size_bytes : n [B].
    wire_seconds : time on the network [s].

    >>> float(hostcopy_seconds(32768, 32768 / 12.5e9).round(10))
    6.9152e-06
    """
    return np.asarray(
        wire_seconds
        + paths.copies * (paths.copy_latency + paths.copy_per_byte * np.asarray(size_bytes))
    )


def gpudirect_seconds(
    size_bytes: Float | float, wire_seconds: Float | float, paths: Paths = SEED_G
) -> Float:
    """Return the time of a message straight from device memory [s].

    >>> float(gpudirect_seconds(32768, 32768 / 12.5e9).round(10))
    6.6214e-06
    """
    return np.asarray(wire_seconds + paths.pins * paths.pin_seconds + 0.0 * np.asarray(size_bytes))


def break_even_bytes(paths: Paths = SEED_G) -> float:
    """Return the size from which GPUDirect is faster [B]; 0 where it always is, infinite where it
    never is.

    >>> round(break_even_bytes(SEED_G))
    28571
    """
    dearer = paths.pins * paths.pin_seconds - paths.copies * paths.copy_latency
    per_byte = paths.copies * paths.copy_per_byte
    if dearer <= 0:
        return 0.0
    return dearer / per_byte if per_byte > 0 else math.inf


def largest_gain(bandwidth: float, paths: Paths = SEED_G) -> float:
    """Return T_host / T_direct - 1 for messages so long that latency does not matter: copies c BW.

    >>> round(largest_gain(12.5e9), 3)
    0.875
    """
    return paths.copies * paths.copy_per_byte * bandwidth


def copy_bandwidth(paths: Paths = SEED_G) -> float:
    """Return the bandwidth of one host copy [B/s].

    >>> round(copy_bandwidth() * 1e-9, 1)
    14.3
    """
    return 1.0 / paths.copy_per_byte


def run_time_increase(share: float, communication_increase: float) -> float:
    """Return the relative increase of a run time whose communication, a `share` of it, grows by
    `communication_increase`.

    >>> run_time_increase(0.4, 0.5)
    0.2
    """
    return share * communication_increase
