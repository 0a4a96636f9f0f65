"""The kinds of question that a sweep can ask.

`messages`  an MPI run with its messages taken one way, on one machine (`turnbuckle.mpi.questions.messages.exchanged`)
`project`   run time on another machine (`turnbuckle.projection.project`)
`slack`     run time at one added latency, and what a run tolerates (`turnbuckle.questions.distance.question`)
`sharing`   so many runs behind one host link (`turnbuckle.questions.sharing.question`)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Literal

import numpy as np

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import TurnbuckleError, clipped, did_you_mean, error_of
from turnbuckle.foundation.settings import Setting
from turnbuckle.machine import Machine, Pair, Parameter, load, schema
from turnbuckle.machine.parameter_names import parameter_name
from turnbuckle.projection.admission import require, require_calls, require_order
from turnbuckle.projection.anchor import Prices
from turnbuckle.projection.assumptions import findings, reads_limited
from turnbuckle.projection.model import Model, nething
from turnbuckle.projection.order import Prepared, replayed_each
from turnbuckle.projection.project import priced, stated
from turnbuckle.projection.projection import Interval, penalty
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import uncertain
from turnbuckle.questions.distance.distance import FARTHEST
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.questions.sharing import question as sharing
from turnbuckle.questions.sweep.points import Held, Kind, Results
from turnbuckle.trace.window import Part

_MACHINE: Final = {"file": True}
#: Of a replay of several runs, on a small machine.
_MOST_PROCESSES: Final = 20_000_000


# --- on another machine -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Projected:
    """A recording on another machine.

    Attributes
    ----------
    on : machine, a name or a TOML file; ``self`` is the machine it ran on.
    source : machine it ran on; recognised if left out.
    alpha : how much faster kernels run: a number, auto, flop, memory or hold.
    replay : how activities add up.
    draws : parameter draws for the interval; 0 leaves it out.
    seed : of the draws.
    part : what is asked about: whole, steady, kernels, 2s..3s, step=5-9 or nvtx=NAME.
    others : parameters of the target machine, by name, as ``link.h2d.bandwidth``, in place of its own.
    """

    on: str | Machine = field(metadata=_MACHINE)
    source: str | Machine = field(default="", metadata=_MACHINE)
    alpha: float | Literal["auto", "flop", "memory", "hold"] = "auto"
    replay: Literal["auto", "sum", "timeline"] = "auto"
    draws: int = 200
    seed: int = 20261121
    part: str = "whole"
    others: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        Part.parse(self.part)
        if not isinstance(self.alpha, str) and not 1e-3 <= self.alpha <= 1e3:
            raise error_of("A081.alpha", found=f"{self.alpha:g}")
        if not 0 <= self.draws <= 100_000:
            raise error_of("A081.draws", found=str(self.draws))
        for name, value in self.others:
            if not 0 <= value < math.inf or (value == 0 and not name.startswith("slack.")):
                raise error_of("A081.number", found=f"{value:g}", name=name)


@cache
def _parameters() -> Mapping[str, Setting]:
    """Return the parameters of a machine that a study may set for its target."""
    rows = schema().values()
    target = [m for m in rows if not m.parameter.startswith("observed.")]
    return {m.parameter: Setting(m.parameter, m.unit, frozenset({"float"}), meaning=f"of the target: {m.meaning}") for m in target}


def _machines(made: Any) -> Mapping[str, Any]:
    """Return name and hash of the machines that a question names, and of the machines that they are based on."""
    named = {name: value for name in ("on", "source") if (value := getattr(made, name, "")) not in ("", "self")}
    return {
        name: [m.name, m.content if m is value else m.sha256, [digest for _, digest in m.lineage]]
        for name, value in named.items()
        for m in [load(value)]
    }


#: Parameters of which many values are priced at once; prices look at the others one value at a time.
_AT_ONCE: Final = ("slack.", "link.", "launch.", "sync.", "alloc.", "remoting.")
#: Points times draws times pieces that are priced at once: their arrays stay in the cache.
_CELLS: Final = 200_000


def _column(name: str, unit: str) -> bool:
    """Return whether prices take an array of values of a parameter."""
    return name.startswith(_AT_ONCE) and unit != "manner"


def _prepared(seen: Run, asked: Projected) -> tuple[Model, Prepared, Prices]:
    """Return what all targets of a run share: the model, the run ready for its replay, and its prices on the source."""
    model = replace(nething(asked.alpha), replay=asked.replay)
    return model, seen.prepared(model), {}


def _projected(held: Held, asked: Sequence[Projected]) -> list[Results | TurnbuckleError]:
    """Answer points of one recording: those that differ in numbers alone together, each as `project` does alone."""
    out: list[Results | TurnbuckleError] = [{}] * len(asked)
    groups: dict[object, list[int]] = {}
    for k, each in enumerate(asked):
        others = tuple((n, None if _column(n, schema()[parameter_name(n)].unit) else v) for n, v in each.others)
        groups.setdefault((replace(each, others=()), others), []).append(k)
    for group in groups.values():
        try:
            answers: Sequence[Results | TurnbuckleError] = _alike(held, [asked[k] for k in group])
        except TurnbuckleError as error:
            answers = [error] * len(group)
        for k, answer in zip(group, answers, strict=True):
            out[k] = answer
    return out


def _alone(held: Held, asked: Projected) -> Results:
    (answer,) = _projected(held, [asked])
    if isinstance(answer, TurnbuckleError):
        raise answer
    return answer


def _target(asked: Sequence[Projected], source: Machine) -> Machine:
    """Return the target of points that differ in numbers alone; a number that differs has shape (points, 1, 1)."""
    target = source if asked[0].on == "self" else load(asked[0].on)
    given = {}
    for k, (n, first) in enumerate(asked[0].others):
        name, values = parameter_name(n), [each.others[k][1] for each in asked]
        value: Any = first if values.count(first) == len(values) else np.array(values)[:, None, None]
        given[name] = Parameter(value, 0.0, schema()[name].unit, "assumption", "set by the study")
    return target.with_parameters(given) if given else target


def _alike(held: Held, asked: Sequence[Projected]) -> list[Results]:
    """Answer points that differ in numbers alone: all that one answer needs has a leading axis of points.

    What refuses one of them refuses all.
    """
    first = asked[0]
    seen = held.seen(first.source, first.part)
    variant = (first.part, first.alpha, first.replay)
    model, ready, on_source = held.once(("prepared", *variant, first.source), lambda: _prepared(seen, first))
    size = max(_CELLS // (max(first.draws, 1) * max(len(ready.run), 1)), 1)
    if len(asked) > size:
        return [each for k in range(0, len(asked), size) for each in _alike(held, asked[k : k + size])]
    target = _target(asked, seen.source)
    pair = Pair(seen.source, target)
    if target is not seen.source:
        require_calls(seen.profile)
    require(seen.profile, pair)
    if pair.target is not pair.source:
        require_order(ready, "; --replay sum needs no order")
    durations = priced(ready, pair, model, on_source)
    exact = replayed_each(ready, durations)
    exact *= len(asked) // len(exact)  # no price may depend on the number that differs
    intervals: list[Interval | None] = [None] * len(asked)
    if first.draws:
        drawn = ("drawn", *variant, first.source, first.draws, first.seed)
        question = held.once(drawn, lambda: uncertain(ready, seen.source, seen.fits, first.draws, first.seed))
        replay, sample = (np.broadcast_to(each, (len(asked), first.draws)) for each in question.samples(target, pair, model))
        intervals[:] = question.intervals(replay, sample, [seconds for seconds, _ in exact])
    limited = np.broadcast_to(reads_limited(pair, stated(ready, pair)).ravel(), len(asked)).tolist()
    codes = {}
    for cut in set(limited):  # of all that is found, only this depends on numbers
        alone = Pair(seen.source, _target([asked[limited.index(cut)]], seen.source))
        found = findings(seen.profile, ready, alone, stated(ready, alone), model, durations.missing)
        codes[cut] = " ".join(sorted({f.code for f in found}))
    return [
        {
            "seconds": seconds,
            "low_seconds": interval.low if interval else None,
            "high_seconds": interval.high if interval else None,
            "measured_seconds": seen.seconds,
            "penalty": penalty(seconds, seen.seconds),
            **{f"{part}_seconds": value for part, value in breakdown.items()},
            "replayed": ready.replay,
            "findings": codes[cut],
        }
        for (seconds, breakdown), interval, cut in zip(exact, intervals, limited, strict=True)
    ]


# --- farther away -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Distant:
    """A recording with its device farther away.

    Attributes
    ----------
    slack_seconds : added one-way latency [s].
    mode : link, the fabric is longer; api, every crossing call blocks.
    source : machine it ran on; recognised if left out.
    part : what is asked about: whole, steady, kernels, 2s..3s, step=5-9 or nvtx=NAME.
    """

    slack_seconds: float
    mode: Literal["link", "api"] = "link"
    source: str | Machine = field(default="", metadata=_MACHINE)
    part: str = "whole"

    def __post_init__(self) -> None:
        Part.parse(self.part)
        if not 0 <= self.slack_seconds <= FARTHEST:
            raise error_of("A081.slack", found=f"{self.slack_seconds:g} s", farthest=FARTHEST)


def _distant(held: Held, asked: Distant) -> Mapping[str, Any]:
    run = (asked.source, asked.part)
    answer = held.once((*run, asked.mode), lambda: tolerate(held.seen(*run), asked.mode, draws=0))
    return {
        "seconds": float(answer.curve(asked.slack_seconds)),
        "penalty": answer.penalty(asked.slack_seconds),
        "measured_seconds": answer.measured,
        **{f"tolerance_{t.share * 100:.0f}_percent_seconds": t.slack for t in answer.tolerances},
    }


# --- behind one link --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Together:
    """Several runs of a recording behind one host link, or one on a larger GPU.

    Attributes
    ----------
    runs : at once, or times as large.
    form : what is shared.
    bandwidth : of the link, one way [B/s]; the recorded one if left out.
    latency_seconds : initiation latency of copies and kernels [s]; as recorded if left out.
    hop_seconds : latency that a switch adds to each copy [s].
    cores : host cores that all runs have between them; as many as they ask for if left out.
    source : machine it ran on; recognised if left out.
    part : what is asked about: whole, steady, kernels, 2s..3s, step=5-9 or nvtx=NAME.
    """

    runs: int
    form: sharing.Form = "loose"
    bandwidth: float | None = None
    latency_seconds: float | None = None
    hop_seconds: float = 0.0
    cores: int = 0
    source: str | Machine = field(default="", metadata=_MACHINE)
    part: str = "whole"

    def __post_init__(self) -> None:
        Part.parse(self.part)
        sharing.core_count(self.cores)
        sharing.counted([self.runs])
        sharing.delay(self.hop_seconds)
        if self.bandwidth is not None:
            sharing.link_rate(self.bandwidth)
        if self.latency_seconds is not None:
            sharing.delay(self.latency_seconds)


def _together(held: Held, asked: Together) -> Mapping[str, Any]:
    run = held.once(("sharing", asked.source, asked.part), lambda: sharing.ready(held.seen(asked.source, asked.part)))
    sharing.require_work(run, [asked.form])
    if (size := run.processes(asked.form, asked.runs, asked.cores)) > _MOST_PROCESSES:
        raise error_of("A166.runs", found=f"{size:,}")
    together = run.together(
        asked.form, asked.runs, bandwidth=asked.bandwidth, latency=asked.latency_seconds, hop_seconds=asked.hop_seconds, cores=asked.cores
    )
    return {**together.__dict__, "measured_seconds": run.measured, "recorded_bandwidth": run.recorded_bandwidth}


PROJECT: Final = Kind("project", Projected, _alone, _parameters, _machines, together=_projected)
SLACK: Final = Kind("slack", Distant, _distant, inputs=_machines)
SHARING: Final = Kind("sharing", Together, _together, inputs=_machines)


def kind_named(name: object) -> Kind:
    """Return the kind of question of a name; refuse an unknown name (A081)."""
    if not isinstance(name, str) or name not in registry.entries("sweeps"):
        raise error_of(
            "A081.model",
            found=clipped(str(name), 40),
            fix=did_you_mean(str(name), names := registry.entries("sweeps")) or None,
            names=", ".join(names),
        )
    kind: Kind = registry.load("sweeps", name)
    return kind
