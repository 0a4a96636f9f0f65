"""Points where the answer changes: between two neighbours on an axis that differ in the answer,
more points are asked.

What is compared follows from what else varies, for each combination of the other numbers:

    both data paths        whether GPUDirect helps (`turnbuckle.questions.sweep.summary.gain_word`)
    words, or pairs        which of them is best (runs shortest), and in which order the others follow
    neither                whether the run is longer or shorter than recorded; of pools, whether they need more or fewer GPUs

A refusal counts as an answer of its own.  An interval whose ends differ is halved until it is as
narrow as asked, or no point is left. Two changes between two neighbours of the first points cancel,
and are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.settings import Scalar, Setting, unit_of
from turnbuckle.questions.sweep.grid import Study
from turnbuckle.questions.sweep.points import Best
from turnbuckle.questions.sweep.ranges import numeric
from turnbuckle.questions.sweep.summary import DIRECT, HOST, TALK, gain_word, valued, varying


@dataclass(frozen=True)
class Crossover(Declared):
    """An interval of an axis between whose ends the answer changes.

    Attributes
    ----------
    recording, settings : where else: the recording, and the values of the other settings that vary.
    axis, low, high : the interval.
    width : of it, as `Refine.within`.
    below, above : the answer at either end.
    """

    recording: str
    settings: Mapping[str, Scalar]
    axis: str
    low: float
    high: float
    width: float
    below: str
    above: str

    def sentence(self, legal: Mapping[str, Setting]) -> str:
        """Return the change in words; `legal` are the settings of the model."""
        low, high = (valued(v, unit_of(self.axis, legal)) for v in (self.low, self.high))
        where = ", ".join(f"{n} {valued(v, unit_of(n, legal))}" for n, v in self.settings.items())
        place = f"at {where}: " if where else ""
        return (
            f"{place}{self.below} up to {self.axis} {low}; {self.above} from {high} on (known to "
            f"{100 * self.width:.2g} %)"
        )


def crossovers(study: Study, rows: Sequence[Mapping[str, Any]]) -> list[Crossover]:
    """Return the intervals at whose ends a study that is refined has different answers, along the
    axis.
    """
    refine = study.refine
    if refine is None:
        return []
    out = []
    for (recording, settings), places in _answers(study, refine.axis, rows):
        ordered = sorted(places.items())
        for (low, below), (high, above) in pairwise(ordered):
            if below != above:
                width = refine.over.width(low, high)
                out.append(
                    Crossover(recording, settings, refine.axis, low, high, width, below, above)
                )
    return out


def further(study: Study, rows: Sequence[Mapping[str, Any]], spent: int) -> list[Scalar]:
    """Return the places to ask next, the widest intervals first, where `spent` points have been
    added already.
    """
    refine = study.refine
    assert refine is not None
    places = len(study.lists[refine.axis])
    room = (refine.budget - spent) // (len(study) // places)
    open_ones = [c for c in crossovers(study, rows) if not refine.closed(c.low, c.high)]
    wanted = (refine.over.between(c.low, c.high) for c in sorted(open_ones, key=lambda c: -c.width))
    return list(dict.fromkeys(wanted))[:room]


def _answers(
    study: Study, axis: str, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[tuple[str, dict[str, Scalar]], dict[float, str]]]:
    """Yield for each recording and combination of the other numbers the answer at each place of the
    axis, in words.
    """
    varied = varying(study)
    both = {HOST, DIRECT} <= {str(r.get("path")) for r in rows}
    compared = (
        ["path"]
        if both
        else [n for n in varied if n != axis and not (n in study.lists and numeric(study.lists[n]))]
    )
    others = [n for n in varied if n != axis and n not in compared]
    groups: dict[tuple[Any, ...], dict[float, list[Mapping[str, Any]]]] = {}
    for row in rows:
        key = (row["recording"], *(row[n] for n in others))
        groups.setdefault(key, {}).setdefault(float(row[axis]), []).append(row)
    for (recording, *values), places in groups.items():
        settings = dict(zip(others, values, strict=True))
        yield (
            (recording, settings),
            {place: _word(some, compared, study.kind.best) for place, some in places.items()},
        )


def _word(rows: Sequence[Mapping[str, Any]], compared: Sequence[str], by: Best) -> str:
    """Return the answer at one place."""
    if refused := sorted({str(r["code"]) for r in rows if r["code"]}):
        return f"no answer ({', '.join(refused)})"
    if compared == ["path"] and (
        times := {r["path"]: float(r[TALK]) for r in rows if r.get(TALK)}
    ).keys() >= {HOST, DIRECT}:
        gain = times[HOST] / times[DIRECT] - 1.0
        return f"GPUDirect {gain_word(gain, gain)}"
    if compared:
        ranked = sorted(rows, key=by.cost)
        return " before ".join(" ".join(str(r[n]) for n in compared) for r in ranked)
    return by.answer(rows[0])
