"""Charge for encryption by the host: each copy that leaves the chassis passes a core of the CPU
first.

Data that crosses a fabric or a network to a GPU elsewhere may have to be encrypted.  Where no
device does it, a core does, before or after the copy:

    T = n / R        [s], n in bytes, R the rate of one core [B/s]
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.profile.pieces import Pieces
from turnbuckle.projection.model import Charge, Priced

#: Rate of AES-256-GCM on one core [B/s]: ``openssl speed -evp aes-256-gcm -bytes 1048576`` of
#: OpenSSL 3.0.19, a server's x86-64 processor of 2023.  Measure your own.
RATE = 4.5e9
#: Parameters that only a machine has whose GPU stands outside the host's chassis.
OUTSIDE: Final[tuple[ParameterName, ...]] = ("slack.link", "slack.call", "remoting.round_trip")


def covers(pieces: Pieces) -> Bool:
    """Return the mask of the copies between host and device."""
    return np.isin(pieces.kind, ("copy_h2d", "copy_d2h"))


def seconds(pieces: Pieces, machine: Priced, source: Priced) -> Float:
    """Return the time of a core for each copy on a machine [s]; zero where the GPU stands in the
    host's chassis.
    """
    outside = any(machine.value(name) is not None for name in OUTSIDE)
    return pieces.size_bytes[covers(pieces)] / (RATE if outside else math.inf)


#: The difference of both machines' times is added to what was measured, so that a run projected on
#: its own machine stays as it is.
encryption = Charge("encryption", covers, seconds, "difference")
