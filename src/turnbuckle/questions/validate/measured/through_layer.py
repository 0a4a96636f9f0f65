"""Programs that really ran through a remoting layer, at several distances, beside what their
recordings without it say.

The cost of a command is taken from a few of the programs at one distance
(`turnbuckle.questions.calibrate.layer`), and the other points are predicted with it.  A file of
measurements is JSON, times in seconds unless a name says otherwise::

    {"calibrated_on": {"programs": ["sync", "async"], "one_way_ns": 0},
     "programs": {"sync": {"window_ns": [0, 91000000],     the stretch of its recording that was timed
                           "undelayed": [0.091, 0.094],    run times without the layer; the recorded run is one of their kind
                           "points": [{"one_way_ns": 50000, "seconds": [0.12, 0.13]}]}}}
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.machine import Machine, load
from turnbuckle.projection.run import Run
from turnbuckle.questions.calibrate.calibration import NINETY
from turnbuckle.questions.calibrate.layer import Ping, command_seconds
from turnbuckle.questions.distance.layer import Through
from turnbuckle.questions.distance.question import around, tolerate
from turnbuckle.questions.validate.cases import Ask, Case
from turnbuckle.questions.validate.measured.measurements import read_measurements
from turnbuckle.questions.validate.rows import Data, Row
from turnbuckle.trace.window import Part

#: The form of a file of measurements.
_PROGRAM: Final = {
    "window_ns": (int, int),
    "undelayed": [float],
    "points": [{"one_way_ns": int, "seconds": [float]}],
}
FORM: Final = {"calibrated_on": {"programs": [str], "one_way_ns": int}, "programs": {"*": _PROGRAM}}
_KIND: Final = "remoting"
_MODES: Final = ("api", "link")


@dataclass(frozen=True)
class Point:
    """One program at one distance: one way [s], measured run times [s], predicted run time by model
    [s], its 90 % interval [s].
    """

    program: str
    one_way: float
    seconds: tuple[float, ...]
    predicted: Mapping[str, float]
    low: float
    high: float

    @property
    def measured(self) -> float:
        """Return the median of the run times [s]."""
        return statistics.median(self.seconds)


def points(
    recordings: Path, measurements: Path, layer: Machine, source: str | None = None
) -> tuple[float, float, list[Point]]:
    """Return the cost of a command [s], its relative error, and every point that it was not taken
    from.

    Parameters
    ----------
    recordings : the folder that holds a recording of each program, by its name.
    measurements : the file.
    layer : the machine whose layer it was, as far as it is known without its cost of a command.
    source : the machine of the recordings.

    Raises
    ------
    CannotAnswer : A121, A122, and A192 for a program without a recording or points.
    UsageError : A015 for a machine that has no layer; A061, A417 for a file that is none of
        measurements.
    """
    document = read_measurements(measurements, FORM)
    programs: Mapping[str, Any] = document["programs"]
    basis, base_ns = document["calibrated_on"]["programs"], document["calibrated_on"]["one_way_ns"]
    # the folder says which recordings there are: a name in the measurements leads to no other
    there = {place.name: place for place in recordings.iterdir()}
    if missing := [
        name for name in (*basis, *programs) if name not in there or name not in programs
    ]:
        raise error_of("A192.recording", where=measurements.name, found=clipped(missing[0]))
    if not basis or not all(
        p["points"] and all(point["seconds"] for point in p["points"]) for p in programs.values()
    ):
        raise error_of("A192.points", where=measurements.name)
    runs = {name: _run(there[name], p, source) for name, p in programs.items()}
    at_base = {
        name: next(
            (p["seconds"] for p in programs[name]["points"] if p["one_way_ns"] == base_ns), None
        )
        for name in basis
    }
    pings = [
        Ping(n, runs[n], 2e-9 * base_ns, tuple(s)) for n, s in at_base.items() if s is not None
    ]
    if len(pings) < len(basis):
        raise error_of("A192.points", where=measurements.name)
    command, error = command_seconds(pings, layer)
    predictions = []
    for name, p in programs.items():
        through = Through.of(runs[name], layer)
        others = {mode: tolerate(runs[name], mode, draws=0).curve for mode in _MODES}
        for point in p["points"]:
            if name in basis and point["one_way_ns"] == base_ns:
                continue
            one_way = point["one_way_ns"] * 1e-9
            reach = NINETY * error
            costs = [command * math.exp(x) for x in (0.0, -reach, reach)]
            middle, *ends = (
                float(
                    through.seconds({"remoting.round_trip": 2 * one_way, "remoting.command": c})[0]
                )
                for c in costs
            )
            spread = around(
                middle, runs[name].profile.seconds, p["undelayed"], len(point["seconds"])
            )
            # the program's own spread and the layer's are independent
            low, high = (
                middle + sign * math.hypot(a - middle, b - middle)
                for sign, a, b in zip((-1, 1), ends, spread, strict=True)
            )
            predicted = {"timeline": middle, "nothing": runs[name].profile.seconds} | {
                m: float(c(one_way)) for m, c in others.items()
            }
            predictions.append(
                Point(name, one_way, tuple(point["seconds"]), predicted, max(low, 0.0), high)
            )
    return command, error, predictions


def _run(recording: Path, program: Mapping[str, Any], source: str | None) -> Run:
    begin, end = program["window_ns"]
    return Run.read(recording, source=source, use_cache=False, part=Part(window_ns=(begin, end)))


def through_layer(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Yield a row for each of A's programs at each distance through a layer, and one row for each
    model that stands beside them.

    ``nothing``: the recorded run time.  ``api``: every crossing call blocks for one way.  ``link``:
    a longer link.
    """
    source, layer = (
        str(data.path(case, w)) if w.startswith("./") else w
        for w in (case.a.machine, question.text("layer"))
    )
    places = data.path(case, case.a.file), data.path(case, question.text("measured"))
    _, _, predictions = points(*places, load(layer), source or None)
    for p in predictions:
        what = f"{p.program}, {p.one_way * 1e6:g} us away"
        yield Row(
            case.name,
            _KIND,
            "timeline",
            what,
            "s",
            p.predicted["timeline"],
            p.measured,
            p.low,
            p.high,
            count=len(p.seconds),
        )
    total = sum(p.measured for p in predictions)
    for model in ("nothing", *_MODES):
        off = sum(abs(p.predicted[model] - p.measured) for p in predictions) / total
        predicted = sum(p.predicted[model] for p in predictions)
        yield Row(
            case.name,
            _KIND,
            model,
            "all points",
            "s",
            predicted,
            total,
            wmape=off,
            count=len(predictions),
        )
