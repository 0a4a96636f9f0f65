"""The software of a remoting layer, from programs that ran without it and through it.

The cost of a command is that at which the replay of a program, through the layer as its file states it, takes as long as the program did.
Nothing else is fitted: the round trip of those runs is given, and manners are the layer's.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scipy.stats import t

from turnbuckle.foundation.errors import error_of
from turnbuckle.machine import Machine
from turnbuckle.projection.run import Run
from turnbuckle.questions.calibrate.calibration import NINETY
from turnbuckle.questions.distance.layer import Through

#: No software takes longer for a command [s].
MOST: Final = 1.0


@dataclass(frozen=True)
class Ping:
    """A program that ran through a layer.

    Attributes
    ----------
    name : of the program.
    run : its recording without the layer.
    round_trip : of the network it ran through [s].
    seconds : its run times through the layer [s].
    """

    name: str
    run: Run
    round_trip: float
    seconds: tuple[float, ...]


def command_seconds(pings: Sequence[Ping], layer: Machine) -> tuple[float, float]:
    """Return what the software of both ends takes for a command [s], and its relative error, one standard deviation.

    The value is the geometric mean over the programs.  The error says how far another program may lie from it: Student's t over those
    that there are, given as the normal of the same 90 %.

    Raises
    ------
    CannotAnswer : A192 where a program runs no longer through the layer, or hardly sends it a command.
    """
    logs = []
    for ping in pings:
        found = Through.of(ping.run, layer).at_which(
            "remoting.command", statistics.median(ping.seconds), MOST, {"remoting.round_trip": ping.round_trip}
        )
        if not found:
            raise error_of("A192.ping", where=ping.name)
        logs.append(math.log(found))
    count = len(logs)
    spread = statistics.stdev(logs) * math.sqrt(1 + 1 / count) * float(t.ppf(0.95, count - 1)) / NINETY if count > 1 else 1.0
    return math.exp(statistics.fmean(logs)), spread
