"""What another machine may do that no recording and no machine file says: priors, each with its sources (decision 0018).

A number of another machine of which nothing is known is drawn from how far such numbers lie apart on machines that were
measured.  None of the facts is a validation case, and no constant is fitted to one.

    share of the link        a node reaches at most `LINK_FASTEST` of what its data sheet leaves, less by a half-normal logarithm
    staging by the host      pageable copies run at a rate of the host's, never faster than its link
    fixed part of a copy     log-normal around that of A
    launches                 log-normal around those of A, where the machine does not say them
    GPUs of another vendor   log-normal around a ratio of peak rates
    copies at the same time  each gets between all of the link and an equal share of it
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from scipy.special import ndtr

from turnbuckle.foundation.arrays import Float
from turnbuckle.machine import Machine, Pair

#: Two machines differ by this much more (log-sd) than one differs from the middle of all.
_PAIR: Final = float(np.sqrt(2.0))
#: The share of a data sheet's link (after its packets, or its peak where no packets are known) that nodes reach: log-sd of the half-normal
#: below the best.  Root mean square of ln(measured / data sheet / 1.06) over 34 pinned copies on some 20 machines: PCIe 3 to 5, NVLink 2,
#: xGMI, NVLink-C2C; same and other socket, narrow slots (Siefert 2023, Pearson 2019 and 2023, nvbandwidth logs).
LINK_SHARE: Final = 0.47
#: The best of them over its data sheet: 55.2 GB/s where the packets of PCIe 5 leave 52.0.
LINK_FASTEST: Final = 1.06
#: The same below the share that a machine file states: other sockets, narrow slots, other tests of one kind of node (the same 34).
NODE_SHARE: Final = 0.31
#: The same of links between devices: root mean square over 11 facts, from 92 % of NVLink 3 to 19 % in a default environment.
PEER_SHARE: Final = 0.71
#: The same of device memory against its peak: 18 stream measurements between 74 and 96 %.
DEVICE_SHARE: Final = 0.17
#: Pageable copies [B/s], and log-sd between hosts: 4.0 (TITAN Black), 5.5 (a node of Dask's developers), 13.2 (RTX 4090) and 14.3 GB/s
#: (Khetawat et al., Table I).
STAGED_RATE: Final = 8.0e9
STAGED_SPREAD: Final = 0.64
#: Fixed part of a small copy between two machines (log-sd): root of 2 times 0.41, that of eight machines (Siefert 2023, 128 B).
COPY_LATENCY_SD: Final = 0.58
#: Launches between two machines (log-sd): root of 2 times 0.47, that of the launch call on eight machines (Siefert 2023, empty kernel).
LAUNCH_ERROR: Final = 0.67
#: Kernels on another vendor's GPU against a ratio of peak rates (log-sd): root of 2 times 0.59, that of the shares of its peak that a
#: GPU reaches: 42 and 38 % (FMA chains and DGEMM, Max 1550), 63 % (HPL, MI300A), 16 % (an SGEMM, A100).  One vendor's share mostly cancels.
VENDOR_ERROR: Final = 0.83
#: Devices of one node that can copy at once: the catalogue's nodes have at most eight GPUs.
MOST_SHARERS: Final = 8

#: Names among the drivers.
LINK: Final = "share of the link that the other node reaches"
PEER: Final = "share of the link between the other node's devices"
DEVICE: Final = "share of the other device's memory bandwidth"
STAGED: Final = "staging by the other machine's host"
STAGED_BELOW: Final = "whether small pageable copies are staged"
LATENCY: Final = "fixed part of a copy on the other machine"
LAUNCHES: Final = "launches on the other machine"
SHARING: Final = "copies of other ranks on the same link"

#: How a vendor is told: names of devices as profilers and people write them.
_VENDORS: Final = (
    ("amd", re.compile(r"\bAMD\b|Instinct|Radeon|\bMI ?\d{2,3}[AX]?\b|\bgfx\d", re.IGNORECASE)),
    ("intel", re.compile(r"\bIntel\b|Max 1550|\bPVC\b|Ponte Vecchio", re.IGNORECASE)),
    (
        "nvidia",
        re.compile(
            r"NVIDIA|Tesla|GeForce|Quadro|\b[RG]TX\b|\b(K20X?|K40|K80|P100|V100|T4|A10G?|A[34]0|A100|L4|L40S?|G?[BH][123]00)\b",
            re.IGNORECASE,
        ),
    ),
)


def half_normal(z: Float, spread: float) -> Float:
    """Return the factor exp(spread |z|), 1 or more, by which something that may only be slower takes longer."""
    return np.asarray(np.exp(spread * np.abs(z)))


def shared(z: Float, sharers: int) -> Float:
    """Return the factor by which a copy on a shared link takes longer: between 1 and `sharers`, uniform on a log scale."""
    return np.asarray(float(max(min(sharers, MOST_SHARERS), 1)) ** ndtr(z))


def other_host(pair: Pair) -> bool:
    """Return whether the target has a host of its own; a changed coupling keeps the source's host."""
    return pair.target is not pair.source and not pair.target.changes


def vendor(machine: Machine) -> str:
    """Return the vendor of a machine's GPUs: ``nvidia``, ``amd``, ``intel``, or empty where no name shows it."""
    text = " ".join((*machine.recognise, machine.title, machine.name.replace("-", " ")))
    return next((name for name, pattern in _VENDORS if pattern.search(text)), "")


def other_vendor(pair: Pair) -> bool:
    """Return whether the GPUs of source and target are known to be of two vendors."""
    source, target = vendor(pair.source), vendor(pair.target)
    return bool(source and target) and source != target


def of_pair(spread: float) -> float:
    """Return the log-sd between two machines of numbers that lie `spread` apart around their middle."""
    return _PAIR * spread
