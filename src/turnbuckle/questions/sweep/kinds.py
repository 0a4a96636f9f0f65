"""The kinds of question that a sweep can ask.

`messages`  an MPI run with its messages taken one way, on one machine (`turnbuckle.mpi.questions.messages.exchanged`)
`project`   run time on another machine (`turnbuckle.projection.project`)
`slack`     run time at one added latency, and what a run tolerates (`turnbuckle.questions.distance.question`)
`sharing`   so many runs behind one host link (`turnbuckle.questions.sharing.question`)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Literal

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.foundation.settings import Setting
from turnbuckle.machine import Machine, Pair, Parameter, load, schema
from turnbuckle.machine.parameter_names import parameter_name
from turnbuckle.projection.admission import require_calls
from turnbuckle.projection.anchor import Prices
from turnbuckle.projection.model import Model, nething
from turnbuckle.projection.order import Prepared
from turnbuckle.projection.project import answered, priced
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import uncertain, with_interval
from turnbuckle.questions.distance.distance import FARTHEST
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.questions.sharing import question as sharing
from turnbuckle.questions.sweep.points import Held, Kind
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


def _prepared(seen: Run, asked: Projected) -> tuple[Model, Prepared, Prices]:
    """Return what all targets of a run share: the model, the run ready for its replay, and its prices on the source."""
    model = replace(nething(asked.alpha), replay=asked.replay)
    return model, seen.prepared(model), {}


def _projected(held: Held, asked: Projected) -> Mapping[str, Any]:
    seen = held.seen(asked.source, asked.part)
    target = seen.source if asked.on == "self" else load(asked.on)
    named = {parameter_name(n): v for n, v in asked.others}
    given = {n: Parameter(v, 0.0, schema()[n].unit, "assumption", "set by the study") for n, v in named.items()}
    if given:
        target = target.with_parameters(given)
    variant = (asked.part, asked.alpha, asked.replay)
    model, ready, on_source = held.once(("prepared", *variant, asked.source), lambda: _prepared(seen, asked))
    pair = Pair(seen.source, target)
    if target is not seen.source:
        require_calls(seen.profile)
    projection = answered(seen.profile, ready, pair, model, priced(ready, pair, model, on_source), brief=True)
    if asked.draws:
        drawn = ("drawn", *variant, asked.source, asked.draws, asked.seed)
        question = held.once(drawn, lambda: uncertain(ready, seen.source, seen.fits, asked.draws, asked.seed))
        projection = with_interval(projection, question, target, pair, model, drivers=False)
    interval = projection.interval
    return {
        "seconds": projection.seconds,
        "low_seconds": interval.low if interval else None,
        "high_seconds": interval.high if interval else None,
        "measured_seconds": projection.measured_seconds,
        "penalty": projection.penalty,
        **{f"{part}_seconds": value for part, value in projection.breakdown.items()},
        "replayed": projection.replay,
        "findings": " ".join(sorted({f.code for f in projection.findings})),
    }


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


PROJECT: Final = Kind("project", Projected, _projected, _parameters, _machines)
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
