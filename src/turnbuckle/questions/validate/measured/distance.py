"""Runs whose calls were really delayed, and whose copies really slowed down, beside what
`turnbuckle slack` says of them.

Each prediction is made from one recording without delay.  A file of measurements is JSON, times in
seconds unless a name says otherwise::

    {"window_ns": [0, 91000000],              the stretch of the recording that was timed, after its first call
     "undelayed": [0.091, 0.094],             run times without delay; the recorded run is one of them
     "points": [{"classes": "all", "where": "after", "delay_ns": 30000, "waited_ns": 30200, "slower": 0, "seconds": [0.12, 0.13]}]}

A delay that was asked for is `delay_ns`, the mean of those that were really waited `waited_ns`: the
prediction is for the latter. `classes` names delayed calls: ``all`` that cross to the device,
``all-copy`` for all but one class, or one class.  `slower` divides the bandwidth of the machine's
link; 0 leaves it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.errors import error_of
from turnbuckle.profile.classify import BOUNDARY_CLASSES
from turnbuckle.projection.anchor import anchored
from turnbuckle.projection.elsewhere.drawn import DrawnMachine
from turnbuckle.projection.order import Prepared, run_times
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.distance import MODEL, Distance, delaying
from turnbuckle.questions.distance.question import around, tolerate
from turnbuckle.questions.distance.speeds import surface
from turnbuckle.questions.validate.cases import Ask, Case
from turnbuckle.questions.validate.measured.measurements import read_measurements
from turnbuckle.questions.validate.rows import Data, Row
from turnbuckle.trace.window import Part

#: Lengthening of the run at which a tolerance is held against the measured crossing.
SHARES: Final = (0.01, 0.05, 0.5, 1.0)
#: What predictions stand beside.
BASELINES: Final = ("sum", "nothing")
#: The form of a file of measurements.
FORM: Final = {
    "window_ns": (int, int),
    "undelayed": [float],
    "points": [
        {
            "classes": str,
            "where": str,
            "delay_ns": int,
            "waited_ns?": float,
            "slower": int,
            "seconds": [float],
        }
    ],
}


@dataclass(frozen=True)
class Point:
    """One setting of one program, measured and predicted.

    Attributes
    ----------
    classes, where, delay_ns, slower : the setting, as in the file.
    seconds : measured run times [s].
    predicted : run time by model [s]: ``timeline``, ``nothing``, and ``sum`` where no copy was
        slowed.
    low, high : 90 % interval of the median of the runs, by the timeline [s].
    """

    classes: str
    where: str
    delay_ns: int
    slower: int
    seconds: tuple[float, ...]
    predicted: Mapping[str, float]
    low: float
    high: float

    @property
    def measured(self) -> float:
        """Return the median of the run times [s]."""
        return statistics.median(self.seconds)

    def off(self, model: str = "timeline") -> float:
        """Return predicted over measured, less 1."""
        return self.predicted[model] / self.measured - 1.0

    @property
    def plain(self) -> bool:
        """Return whether every call was delayed after it returned, on the link at its full
        bandwidth.
        """
        return (self.classes, self.where, self.slower) == ("all", "after", 0)

    def words(self) -> str:
        """Return the setting in words."""
        parts = []
        if self.delay_ns:
            delay = (
                f"{self.delay_ns / 1e6:g} ms"
                if self.delay_ns >= 1_000_000
                else f"{self.delay_ns / 1e3:g} us"
            )
            calls = (
                "every call" if self.classes == "all" else self.classes.replace("all-", "all but ")
            )
            parts.append(
                f"{calls} {delay} later" + (", waited before it" if self.where == "before" else "")
            )
        if self.slower:
            parts.append(f"1/{self.slower} of the bandwidth")
        return ", ".join(parts)


@dataclass(frozen=True)
class Program:
    """Measurements of one program, with their predictions.

    Attributes
    ----------
    undelayed : run times without delay [s].
    recorded : run time of the recording [s].
    tolerances : per share of `SHARES`, the delay that lengthens the run by as much [s], predicted
        and measured; None beyond what was measured.
    """

    name: str
    undelayed: tuple[float, ...]
    recorded: float
    points: tuple[Point, ...]
    tolerances: tuple[tuple[float, float | None, float | None], ...]

    def shows(self, share: float) -> bool:
        """Return whether a run longer by a share lies beyond the 90 % interval of the undelayed
        runs' median.
        """
        middle = statistics.median(self.undelayed)
        return middle * (1 + share) > around(middle, middle, self.undelayed, len(self.undelayed))[1]


def chosen(classes: str) -> tuple[str, ...]:
    """Return the classes of calls that a point delays."""
    if classes == "all":
        return BOUNDARY_CLASSES
    if classes.startswith("all-"):
        return tuple(word for word in BOUNDARY_CLASSES if word != classes[4:])
    return tuple(classes.split(","))


def program(name: str, recording: Path, measurements: Path, source: str | None = None) -> Program:
    """Predict every point of a file of measurements from a recording, made on the machine `source`
    (a name or file; None recognises it).

    Raises
    ------
    CannotAnswer : A121, A122, and A192 for a file that holds no points.
    UsageError : A061, A417 for a file that is none of measurements.
    """
    seen, document, points = opened(recording, measurements, source)
    ready = seen.prepared(MODEL)
    predictions: dict[int, dict[str, float]] = {}
    for classes in dict.fromkeys(p["classes"] for p in points):
        indices = [i for i, p in enumerate(points) if p["classes"] == classes and not p["slower"]]
        delays = [waited(points[i]) for i in indices]
        for i, by_model in zip(indices, _delayed(seen, ready, classes, delays), strict=True):
            predictions[i] = by_model
    for i, p in enumerate(points):
        if p["slower"]:
            predictions[i] = {"timeline": _slower(seen, ready, waited(p), 1.0 / p["slower"])}
    measured = seen.profile.seconds
    undelayed = tuple(document["undelayed"])
    made = []
    for i, p in enumerate(points):
        predicted = {**predictions[i], "nothing": measured}
        low, high = around(predicted["timeline"], measured, undelayed, len(p["seconds"]))
        made.append(
            Point(
                p["classes"],
                p["where"],
                p["delay_ns"],
                p["slower"],
                tuple(p["seconds"]),
                predicted,
                low,
                high,
            )
        )
    return Program(
        name, undelayed, measured, tuple(made), _tolerances(seen, ready, undelayed, made)
    )


def opened(
    recording: Path, measurements: Path, source: str | None = None
) -> tuple[Run, dict[str, Any], list[dict[str, Any]]]:
    """Return the recorded stretch that was timed, the file of measurements, and its points that
    were measured.
    """
    document = read_measurements(measurements, FORM)
    begin, end = document["window_ns"]
    seen = Run.read(recording, source=source, use_cache=False, part=Part(window_ns=(begin, end)))
    points = [p for p in document["points"] if p["seconds"]]
    if not points:
        raise error_of("A192.points", where=measurements.name)
    return seen, document, points


def waited(point: Mapping[str, Any]) -> float:
    """Return the delay of a point [s]."""
    return float(point.get("waited_ns", point["delay_ns"])) * 1e-9


def _delayed(
    seen: Run, ready: Prepared, classes: str, delays: Sequence[float]
) -> Iterator[dict[str, float]]:
    """Yield run times [s] by model with every call of the classes delayed, at each delay."""
    distance = Distance.of(seen, "api", ready, () if classes == "all" else chosen(classes))
    slack = np.array([0.0, *delays])[:, None]
    added = {"timeline": distance.replay.seconds(distance.change(slack))}
    model = replace(delaying(chosen(classes)), replay="sum")
    plain = distance.plain()
    far = DrawnMachine({**plain.values, "slack.call": slack}, plain.copies_vanish)
    ready_sum = seen.prepared(model)
    added["sum"] = np.asarray(run_times(ready_sum, anchored(ready_sum.run, plain, far, model)))
    for k in range(1, len(slack)):
        yield {
            name: seen.profile.seconds + float(values[k] - values[0])
            for name, values in added.items()
        }


def _slower(seen: Run, ready: Prepared, delay: float, bandwidth: float) -> float:
    """Return the run time [s] over a link with a share of its bandwidth, with every call
    delayed.
    """
    answer = surface(
        seen,
        "api",
        np.array([0.0, delay]) if delay else np.array([0.0]),
        np.array([bandwidth, 1.0]),
        1,
        ready,
    )
    return float(answer.seconds[-1, 0])


def _tolerances(
    seen: Run, ready: Prepared, undelayed: Sequence[float], points: Sequence[Point]
) -> tuple[tuple[float, float | None, float | None], ...]:
    curve = tolerate(seen, "api", draws=0, ready=ready).curve
    base = statistics.median(undelayed)
    plain = sorted((p.delay_ns * 1e-9, p.measured) for p in points if p.plain)
    return tuple(
        (share, curve.reaches(seen.profile.seconds * (1 + share)), crossing(base, plain, share))
        for share in SHARES
    )


def crossing(base: float, points: Sequence[tuple[float, float]], share: float) -> float | None:
    """Return the delay [s] at which a run of `base` seconds is longer by a share, interpolated
    between measured points.

    Points are (delay, run time) [s] in order. The result is None beyond them.
    """
    before, wanted = (0.0, base), base * (1 + share)
    for point in points:
        if point[1] >= wanted:
            return before[0] + (wanted - before[1]) / (point[1] - before[1]) * (
                point[0] - before[0]
            )
        before = point
    return None


def moved_away(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Yield predicted and measured run times of a program whose calls were delayed or whose copies
    were slowed.

    One row for each setting by the timeline; one for all delays, and one for all slower copies, by
    each baseline (`BASELINES`); one for each tolerance that the measurements show.
    """
    measured_program = program(case.name, *places(case, question, data))
    for p in measured_program.points:
        kind = "bandwidth" if p.slower else "distance"
        yield Row(
            case.name,
            kind,
            "timeline",
            p.words(),
            "s",
            p.predicted["timeline"],
            p.measured,
            p.low,
            p.high,
            count=len(p.seconds),
        )
    for kind in ("distance", "bandwidth"):
        points = [p for p in measured_program.points if bool(p.slower) == (kind == "bandwidth")]
        for model in BASELINES:
            of_model = [p for p in points if model in p.predicted]
            if of_model:
                times = [(p.predicted[model], p.measured) for p in of_model]
                yield together(case.name, kind, model, "all points", times)
    for share, predicted, measured in measured_program.tolerances:
        if predicted is not None and measured is not None and measured_program.shows(share):
            yield Row(
                case.name,
                "tolerance",
                "timeline",
                f"delay that lengthens the run by {share:.0%}",
                "s",
                predicted,
                measured,
            )


def places(case: Case, question: Ask, data: Data) -> tuple[Path, Path, str | None]:
    """Return the recording of a case, its file of measurements, and its machine: a name, a file, or
    None.
    """
    source = case.a.machine
    if source.startswith("./"):
        source = str(data.path(case, source))
    return data.path(case, case.a.file), data.path(case, question.text("measured")), source or None


def together(
    case: str, kind: str, model: str, what: str, times: Sequence[tuple[float, float]]
) -> Row:
    """Return one row for many points, each predicted and measured [s]."""
    predicted, measured = (sum(column) for column in zip(*times, strict=True))
    off = sum(abs(there - seen) for there, seen in times) / measured
    return Row(case, kind, model, what, "s", predicted, measured, wmape=off, count=len(times))
