"""The software and the network of a remoting layer, from programs that ran without it and through
it.

A number is that at which the replay of a program, through the layer as its file states it, takes as
long as the program did: the cost of a command from programs that launch, then the rate of a
direction from programs that copy that way, with the software's work on bytes in it. The round trip
of those runs is given, and manners are the layer's.  A file of pings is JSON, beside the recordings
that it names::

    {"pings": [{"class": "launch", "recording": "sync", "window_ns": [0, 91000000],    the stretch of its recording that was timed
                "round_trip_ns": 0, "seconds": [0.086, 0.091]}]}                       run times through the layer
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turnbuckle._native import student_quantile
from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.machine import Machine, Parameter
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.projection.run import Run
from turnbuckle.questions.calibrate.calibration import NINETY
from turnbuckle.questions.distance.layer import Through
from turnbuckle.questions.validate.measured.measurements import read_measurements
from turnbuckle.trace.window import Part

#: No software takes longer for a command [s], and no network for a byte [s/B].
MOST, SLOWEST = 1.0, 1e-3
#: The form of a file of pings.
FORM: Final = {
    "pings": [
        {
            "class": str,
            "recording": str,
            "window_ns": (int, int),
            "round_trip_ns": int,
            "seconds": [float],
        }
    ]
}
#: What pings of a class measure besides the cost of a command.
_RATES: Final[Mapping[str, ParameterName]] = {
    "write": "remoting.h2d.bandwidth",
    "read": "remoting.d2h.bandwidth",
}
_CLASSES: Final = ("launch", *_RATES)


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
    """Return what the software of both ends takes for a command [s], and its relative error, one
    standard deviation.

    The value is the geometric mean over the programs.  The error says how far another program may
    lie from it: Student's t over those that there are, given as the normal of the same 90 %.

    Raises
    ------
    CannotAnswer : A192 where a program runs no longer through the layer, or hardly sends it a
        command.
    """
    return _taken(pings, layer, "remoting.command", MOST, {})


def read_pings(path: Path, source: str | None = None) -> dict[str, list[Ping]]:
    """Read a file of pings -> pings by class.

    Parameters
    ----------
    path : the file; recordings lie beside it.
    source : the machine of the recordings.

    Raises
    ------
    UsageError : A061, A417 for a file that is none of pings.
    CannotAnswer : A192 for a ping without a recording, run times, or a class that tells a number.
    """
    pings = read_measurements(path, FORM)["pings"]
    # the folder says which recordings there are: a name in the file leads to no other
    there = {place.name: place for place in path.resolve().parent.iterdir()}
    if missing := [p["recording"] for p in pings if p["recording"] not in there]:
        raise error_of("A192.recording", where=path.name, found=clipped(missing[0]))
    if strange := [p["class"] for p in pings if p["class"] not in _CLASSES]:
        raise error_of(
            "A192.class", where=path.name, found=clipped(strange[0]), classes=", ".join(_CLASSES)
        )
    if not any(p["class"] == "launch" for p in pings) or not all(p["seconds"] for p in pings):
        raise error_of("A192.points", where=path.name)
    out: dict[str, list[Ping]] = {}
    for p in pings:
        begin, end = p["window_ns"]
        run = Run.read(
            there[p["recording"]], source=source, use_cache=False, part=Part(window_ns=(begin, end))
        )
        out.setdefault(p["class"], []).append(
            Ping(p["recording"], run, p["round_trip_ns"] * 1e-9, tuple(p["seconds"]))
        )
    return out


def calibrated(
    pings: Mapping[str, Sequence[Ping]], layer: Machine, source: str
) -> dict[ParameterName, Parameter]:
    """Return what pings say of a layer, by parameter.

    Parameters
    ----------
    pings : by class, launches among them.
    layer : the layer as far as it is known.
    source : where the pings stand, as a machine file is to say it.

    Raises
    ------
    CannotAnswer : A192 as `command_seconds`.
    """
    command, error = command_seconds(pings["launch"], layer)
    out: dict[ParameterName, Parameter] = {
        "remoting.command": Parameter(
            command, error, "s", "measured", source, f"from {_named(pings['launch'])}"
        )
    }
    free = {
        "remoting.h2d.bandwidth": math.inf,
        "remoting.d2h.bandwidth": math.inf,
        "remoting.command": command,
    }
    for word, name in _RATES.items():
        if of_class := pings.get(word):
            byte, error = _taken(of_class, layer, "remoting.byte", SLOWEST, free)
            note = f"from {_named(of_class)}; the software's work on bytes is in it"
            out[name] = Parameter(1.0 / byte, error, "B/s", "measured", source, note)
    return out


def _named(pings: Sequence[Ping]) -> str:
    return ", ".join(f"{p.name} at a round trip of {p.round_trip:g} s" for p in pings)


def _taken(
    pings: Sequence[Ping],
    layer: Machine,
    varied: ParameterName,
    most: float,
    numbers: Mapping[str, float],
) -> tuple[float, float]:
    """Return the value of a number at which the pings take as long as they did, and its relative
    error.
    """
    logs = []
    for ping in pings:
        value = Through.of(ping.run, layer).at_which(
            varied,
            statistics.median(ping.seconds),
            most,
            {**numbers, "remoting.round_trip": ping.round_trip},  # type: ignore[dict-item]
        )
        if not value:
            raise error_of("A192.ping", where=ping.name)
        logs.append(math.log(value))
    count = len(logs)
    spread = (
        statistics.stdev(logs)
        * math.sqrt(1 + 1 / count)
        * student_quantile(count - 1, 0.95)
        / NINETY
        if count > 1
        else 1.0
    )
    return math.exp(statistics.fmean(logs)), spread
