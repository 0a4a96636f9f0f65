"""Programs that really ran at once on one device, beside what `turnbuckle model sharing --form
shared` says of them.

Each prediction is made from the recordings of the programs alone.  A file of measurements is JSON,
times in seconds unless a name says otherwise::

    {"alone": {"fft": {"window_ns": [0, 91000000], "seconds": [0.091, 0.094]}},    the stretch of its recording that was timed
     "points": [{"programs": ["fft", "fft"], "seconds": [[0.12, 0.13], [0.13, 0.12]]}]}    of each program, a list a run
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.projection.run import Run
from turnbuckle.questions.distance.question import around
from turnbuckle.questions.sharing.pairs import pair
from turnbuckle.questions.sharing.question import Sharer, ready
from turnbuckle.questions.validate.cases import Ask, Case
from turnbuckle.questions.validate.measured.measurements import read_measurements
from turnbuckle.questions.validate.rows import Data, Row
from turnbuckle.trace.window import Part

#: The form of a file of measurements.
_ALONE: Final = {"*": {"window_ns": (int, int), "seconds": [float]}}
FORM: Final = {"alone": _ALONE, "points": [{"programs": (str, str), "seconds": [(float, float)]}]}
_KIND: Final = "sharing"


def side_by_side(case: Case, question: Ask, data: Data) -> Iterator[Row]:
    """Yield a row for each program of each pair that ran at once, and the baselines in one row per
    model.

    Baseline ``nothing``: each program takes the time it takes alone. Baseline ``turns``: the
    programs alternate, so that each takes its own time and as much again until the shorter one is
    done.

    Raises
    ------
    CannotAnswer : A121, A122, and A192 for a file that holds no points, or a program that was not
        measured alone.
    UsageError : A061, A417 for a file that is none of measurements.
    """
    folder, source = data.path(case, case.a.file), case.a.machine
    if source.startswith("./"):
        source = str(data.path(case, source))
    measurements = data.path(case, question.text("measured"))
    document = read_measurements(measurements, FORM)
    if not document["points"] or not all(point["seconds"] for point in document["points"]):
        raise error_of("A192.points", where=measurements.name)
    if missing := [
        name
        for point in document["points"]
        for name in point["programs"]
        if name not in document["alone"]
    ]:
        raise error_of("A192.alone", where=measurements.name, found=clipped(missing[0]))
    # only names in the folder count, so that a name in the measurements cannot lead outside
    recordings = {place.name: place for place in folder.iterdir()}
    if missing := [name for name in document["alone"] if name not in recordings]:
        raise error_of("A192.recording", where=measurements.name, found=clipped(missing[0]))
    runs = {
        name: _run(recordings[name], alone, source or None)
        for name, alone in document["alone"].items()
    }
    beside: dict[str, list[tuple[float, float]]] = {"nothing": [], "turns": []}
    for point in document["points"]:
        names = point["programs"]
        predicted_times = pair(
            runs[names[0]], runs[names[1]], cores=int(question.number("cores") or 0)
        )
        for k, name in enumerate(names):
            times = [seconds[k] for seconds in point["seconds"]]
            measured, predicted = statistics.median(times), predicted_times.seconds[k]
            low, high = around(
                predicted, predicted_times.alone[k], document["alone"][name]["seconds"], len(times)
            )
            label = f"{name} beside {names[1 - k]}" + (
                ", the second of them" if k and names[0] == names[1] else ""
            )
            yield Row(
                case.name,
                _KIND,
                "shared",
                label,
                "s",
                predicted,
                measured,
                low,
                high,
                count=len(times),
            )
            beside["nothing"].append((predicted_times.alone[k], measured))
            beside["turns"].append(
                (predicted_times.alone[k] + min(predicted_times.alone), measured)
            )
    for model, pairs in beside.items():
        total = sum(measured for _, measured in pairs)
        off = sum(abs(predicted - measured) for predicted, measured in pairs) / total
        yield Row(
            case.name,
            _KIND,
            model,
            "all programs",
            "s",
            sum(p for p, _ in pairs),
            total,
            wmape=off,
            count=len(pairs),
        )


def _run(recording: Path, alone: Mapping[str, Any], source: str | None) -> Sharer:
    begin, end = alone["window_ns"]
    return ready(
        Run.read(recording, source=source, use_cache=False, part=Part(window_ns=(begin, end)))
    )
