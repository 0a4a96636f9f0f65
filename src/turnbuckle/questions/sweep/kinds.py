"""The kinds of question that a sweep can ask.

`messages`  an MPI run with its messages taken one way, on one machine (`turnbuckle.mpi.questions.messages.exchanged`)
`project`   run time on another machine (`turnbuckle.projection.project`)
`slack`     run time at one added latency, and what a run tolerates (`turnbuckle.questions.distance.question`)
`sharing`   so many runs behind one host link (`turnbuckle.questions.sharing.question`)
`pool`      a stream of jobs on pools of GPUs (`turnbuckle.questions.pool.question`); what is asked about is a log of jobs, or a mix
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import TurnbuckleError, clipped, did_you_mean, error_of
from turnbuckle.foundation.settings import Setting
from turnbuckle.machine import Machine, Pair, load, schema
from turnbuckle.machine.check import plausible
from turnbuckle.machine.parameter_names import parameter_name
from turnbuckle.projection.admission import require, require_calls, require_known, require_order
from turnbuckle.projection.anchor import Prices
from turnbuckle.projection.assumptions import findings, reads_limited
from turnbuckle.projection.elsewhere.holes import hole
from turnbuckle.projection.elsewhere.hosts import ends_by_host
from turnbuckle.projection.elsewhere.priors import UNRECORDED
from turnbuckle.projection.model import Model, nething
from turnbuckle.projection.order import Prepared, replayed_each
from turnbuckle.projection.project import host_penalty, priced, stated
from turnbuckle.projection.projection import Interval, penalty
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import uncertain
from turnbuckle.questions.distance.distance import FARTHEST
from turnbuckle.questions.distance.question import tolerate
from turnbuckle.questions.pool import question as pool
from turnbuckle.questions.pool.fleet import Fleet
from turnbuckle.questions.pool.mix import named_files
from turnbuckle.questions.pool.simulation import Policy
from turnbuckle.questions.pool.slowdown import Tie, slowdowns
from turnbuckle.questions.pool.stream import Stream
from turnbuckle.questions.sharing import question as sharing
from turnbuckle.questions.sweep.grid import files_of
from turnbuckle.questions.sweep.points import Best, Held, Kind, Results, hashed
from turnbuckle.trace.window import Part

_MACHINE: Final = {"file": True}
#: Of a replay of several runs, on a small machine.
_MOST_PROCESSES: Final = 20_000_000


# --- on another machine ---------------------------------------------------------------------------


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
    part : what is asked about: auto, whole, steady, kernels, 2s..3s, step=5-9 or nvtx=NAME.
    minus : recording of the same program on one node: what is copied beyond it goes on to the
        network card; none if left out.
    others : parameters of the target machine, by name, as ``link.h2d.bandwidth``, in place of its
        own.
    """

    on: str | Machine = field(metadata=_MACHINE)
    source: str | Machine = field(default="", metadata=_MACHINE)
    alpha: float | Literal["auto", "flop", "memory", "hold"] = "auto"
    replay: Literal["auto", "sum", "timeline"] = "auto"
    draws: int = 200
    seed: int = 20261121
    part: str = "auto"
    minus: str = field(default="", metadata=_MACHINE)
    others: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        Part.parse(self.part)
        if not isinstance(self.alpha, str) and not 1e-3 <= self.alpha <= 1e3:
            raise error_of("A081.alpha", found=f"{self.alpha:g}")
        _check_draws(self.draws)
        _check_others(self.others)


def _check_draws(draws: int) -> None:
    if not 0 <= draws <= 100_000:
        raise error_of("A081.draws", found=str(draws))


#: Parameters of which a machine may have none at all: no added time, and a layer that answers
#: itself what no profiler records.
_MAY_BE_NONE: Final = (
    "slack.",
    UNRECORDED,
    "remoting.command_bytes",
    "remoting.answer_bytes",
    "remoting.commands_unrecorded",
)


def _check_others(others: Sequence[tuple[str, float]]) -> None:
    """Refuse values that no parameter of a machine can have (A081)."""
    for name, value in others:
        if not 0 <= value < math.inf or (value == 0 and not name.startswith(_MAY_BE_NONE)):
            raise error_of("A081.number", found=f"{value:g}", name=name)


@cache
def _parameters() -> Mapping[str, Setting]:
    """Return the parameters of a machine that a study may set for its target."""
    rows = schema().values()
    target = [m for m in rows if not m.parameter.startswith("observed.")]
    return {
        m.parameter: Setting(
            m.parameter, m.unit, frozenset({"float"}), meaning=f"of the target: {m.meaning}"
        )
        for m in target
    }


@cache
def _of_fabrics() -> Mapping[str, Setting]:
    """Return the parameters of a machine that a fabric between hosts and pool has."""
    return {
        name: replace(each, meaning=each.meaning.replace("target", "fabric"))
        for name, each in _parameters().items()
        if name.startswith(_AT_ONCE)
    }


def _machines(made: Any) -> Mapping[str, Any]:
    """Return name and hash of the machines that a question names and are based on, and the hash of
    the recording of `minus`.
    """
    named = {
        name: value
        for name in ("on", "source")
        if (value := getattr(made, name, "")) not in ("", "self")
    }
    hashes: dict[str, Any] = {
        name: [m.name, m.content if m is value else m.sha256, [digest for _, digest in m.lineage]]
        for name, value in named.items()
        for m in [load(value)]
    }
    if packed := getattr(made, "minus", ""):
        hashes["minus"] = [hashed(file) for file in files_of(Path(packed))]
    return hashes


#: Parameters of which many values are priced at once; prices look at the others one value at a
#: time.
_AT_ONCE: Final = ("slack.", "link.", "launch.", "sync.", "alloc.", "remoting.")
#: Points times draws times pieces that are priced at once: their arrays stay in the cache.
_CELLS: Final = 200_000


def _column(name: str, unit: str) -> bool:
    """Return whether prices take an array of values of a parameter."""
    return name.startswith(_AT_ONCE) and unit != "manner"


def _prepared(seen: Run, asked: Projected) -> tuple[Model, Prepared, Prices]:
    """Return what all targets of a run share: the model, the run ready for its replay, and its
    prices on the source.
    """
    model = replace(nething(asked.alpha), replay=asked.replay)
    return model, seen.prepared(model), {}


def _projected(held: Held, asked: Sequence[Projected]) -> list[Results | TurnbuckleError]:
    """Answer points of one recording: those that differ in numbers alone together, each as
    `project` does alone.
    """
    out: list[Results | TurnbuckleError] = [{}] * len(asked)
    groups: dict[object, list[int]] = {}
    for k, each in enumerate(asked):
        others = tuple(
            (n, None if _column(n, schema()[parameter_name(n)].unit) else v) for n, v in each.others
        )
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


#: Source of a number that a study sets.
_STUDY: Final = "set by the study"


def _target(asked: Sequence[Projected], source: Machine) -> Machine:
    """Return the target of points that differ in numbers alone; a number that differs has shape
    (points, 1, 1).
    """
    target = source if asked[0].on == "self" else load(asked[0].on)
    given = {}
    for k, (n, first) in enumerate(asked[0].others):
        name, values = parameter_name(n), [each.others[k][1] for each in asked]
        value: Any = (
            first if values.count(first) == len(values) else np.array(values)[:, None, None]
        )
        _, most = (plausible(name, end(values), _STUDY) for end in (min, max))
        given[name] = replace(most, value=value)
    return target.with_parameters(given) if given else target


def _alike(held: Held, asked: Sequence[Projected]) -> list[Results]:
    """Answer points that differ in numbers alone: all that one answer needs has a leading axis of
    points.

    What refuses one of them refuses all.
    """
    first = asked[0]
    seen = held.seen(first.source, first.part, first.minus)
    variant = (first.part, first.minus, first.alpha, first.replay)
    model, ready, on_source = held.once(
        ("prepared", *variant, first.source), lambda: _prepared(seen, first)
    )
    size = max(_CELLS // (max(first.draws, 1) * max(len(ready.run), 1)), 1)
    if len(asked) > size:
        return [
            each for k in range(0, len(asked), size) for each in _alike(held, asked[k : k + size])
        ]
    target = _target(asked, seen.source)
    pair = Pair(seen.source, target)
    if target is not seen.source:
        require_calls(seen.profile)
    require(seen.profile, pair)
    if pair.target is not pair.source:
        require_order(ready, "; --replay sum needs no order")
    require_known(hole(seen.profile, ready.run, pair, model), pair.target.name)
    durations = priced(ready, pair, model, on_source)
    exact = replayed_each(ready, durations)
    exact *= len(asked) // len(exact)  # no price may depend on the number that differs
    intervals: list[Interval | None] = [None] * len(asked)
    hangs = [False] * len(asked)
    if first.draws:
        drawn = ("drawn", *variant, first.source, first.draws, first.seed)
        question = held.once(
            drawn, lambda: uncertain(ready, seen.source, seen.fits, first.draws, first.seed)
        )
        replays, sample, by_sum = question.samples(target, pair, model)
        shape = len(asked), first.draws
        # an end has a row for each point, or one for all
        replays = np.stack([np.broadcast_to(end, shape) for end in replays])
        by_sum = None if by_sum is None else np.broadcast_to(by_sum, shape)
        intervals[:] = question.intervals(
            replays, np.broadcast_to(sample, shape), by_sum, [seconds for seconds, _ in exact]
        )
        if seen.seconds and (longer := question.hosts(target, pair, model)) is not None:
            *_, apart = ends_by_host(partial(host_penalty, ready, pair, model), longer)
            hangs = np.broadcast_to(apart.ravel(), len(asked)).tolist()
    limited = np.broadcast_to(reads_limited(pair, stated(ready, pair)).ravel(), len(asked)).tolist()
    codes = {}
    for cut in set(limited):  # of all that is found, only this depends on numbers
        alone = Pair(seen.source, _target([asked[limited.index(cut)]], seen.source))
        of_pair = findings(
            seen.profile, ready, alone, stated(ready, alone), model, durations.missing
        )
        codes[cut] = {f.code for f in of_pair}
    return [
        {
            "seconds": seconds,
            "low_seconds": interval.low if interval else None,
            "high_seconds": interval.high if interval else None,
            "measured_seconds": seen.seconds,
            "penalty": penalty(seconds, seen.seconds),
            **{f"{part}_seconds": value for part, value in breakdown.items()},
            "replayed": ready.replay,
            "findings": " ".join(
                sorted(
                    {
                        *codes[cut],
                        *["A390"] * bool(interval and interval.apart),
                        *["A396"] * hanging,
                    }
                )
            ),
        }
        for (seconds, breakdown), interval, cut, hanging in zip(
            exact, intervals, limited, hangs, strict=True
        )
    ]


# --- farther away ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Distant:
    """A recording with its device farther away.

    Attributes
    ----------
    slack_seconds : added one-way latency [s].
    mode : link, the fabric is longer; api, every crossing call blocks.
    source : machine it ran on; recognised if left out.
    part : what is asked about: auto, whole, steady, kernels, 2s..3s, step=5-9 or nvtx=NAME.
    minus : recording of the same program on one node: what is copied beyond it goes on to the
        network card; none if left out.
    """

    slack_seconds: float
    mode: Literal["link", "api"] = "link"
    source: str | Machine = field(default="", metadata=_MACHINE)
    part: str = "auto"
    minus: str = field(default="", metadata=_MACHINE)

    def __post_init__(self) -> None:
        Part.parse(self.part)
        if not 0 <= self.slack_seconds <= FARTHEST:
            raise error_of("A081.slack", found=f"{self.slack_seconds:g} s", farthest=FARTHEST)


def _distant(held: Held, asked: Distant) -> Mapping[str, Any]:
    run = (asked.source, asked.part, asked.minus)
    answer = held.once((*run, asked.mode), lambda: tolerate(held.seen(*run), asked.mode, draws=0))
    return {
        "seconds": float(answer.curve(asked.slack_seconds)),
        "penalty": answer.penalty(asked.slack_seconds),
        "measured_seconds": answer.measured,
        **{f"tolerance_{t.share * 100:.0f}_percent_seconds": t.slack for t in answer.tolerances},
    }


# --- behind one link ------------------------------------------------------------------------------


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
    part : what is asked about: auto, whole, steady, kernels, 2s..3s, step=5-9 or nvtx=NAME.
    """

    runs: int
    form: sharing.Form = "loose"
    bandwidth: float | None = None
    latency_seconds: float | None = None
    hop_seconds: float = 0.0
    cores: int = 0
    source: str | Machine = field(default="", metadata=_MACHINE)
    part: str = "auto"

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
    run = held.once(
        ("sharing", asked.source, asked.part),
        lambda: sharing.ready(held.seen(asked.source, asked.part)),
    )
    sharing.require_work(run, [asked.form])
    if (size := run.processes(asked.form, asked.runs, asked.cores)) > _MOST_PROCESSES:
        raise error_of("A166.runs", found=f"{size:,}")
    together = run.together(
        asked.form,
        asked.runs,
        bandwidth=asked.bandwidth,
        latency=asked.latency_seconds,
        hop_seconds=asked.hop_seconds,
        cores=asked.cores,
    )
    return {
        **together.__dict__,
        "measured_seconds": run.measured,
        "recorded_bandwidth": run.recorded_bandwidth,
    }


# --- jobs on pools --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pooled:
    """A stream of jobs on pools of GPUs, beside the fixed nodes.

    Attributes
    ----------
    on : fabric between hosts and pool, a name or a TOML file.
    nodes : the fixed nodes: shapes as 64:4x100 (cores, GPUs, how many), or a table; those of the
        mix if left out.
    reach : hosts that share a pool; 8, 32 or 320 for a switch, a rack, a row if left out.
    load : as many draws of the log at once as would keep this share of the fixed GPUs in use; the
        log as it is if left out.
    resident : all jobs stay: how many find a place, one after the other.
    keep : what the fewest GPUs have to keep, up to 1 %.
    policy : who may start before a job that came earlier: nobody; who does not delay it (EASY);
        whoever fits.
    trunk : bandwidth that the jobs of a pool share, for each of its GPUs; enough if left out.
    cores_per_gpu : processors of a job that have one GPU, where the log has no GPUs (Standard
        Workload Format).
    host_price : price of a host over that of a GPU in a fixed node: then pools may have fewer
        hosts.
    fewest : look for the fewest GPUs that are enough.
    seeds : times that the days of the log are drawn again, for the 90 % ranges.
    draws : draws for the range of each recording.
    seed : of the draws.
    others : parameters of the fabric, by name, as ``slack.link``, in place of its own.
    """

    on: str | Machine = field(metadata=_MACHINE)
    nodes: str = field(default="", metadata=_MACHINE)
    reach: int | None = None
    load: float | None = None
    resident: bool = False
    keep: pool.Keep = "waiting"
    policy: Policy = "backfill"
    trunk: float | None = field(default=None, metadata={"unit": "B/s"})
    cores_per_gpu: int = 1
    host_price: float = 0.0
    fewest: bool = True
    seeds: int = pool.SEEDS
    draws: int = pool.DRAWS
    seed: int = 20261121
    others: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        pool.in_range(self.load, self.trunk, self.seeds, self.cores_per_gpu, self.host_price)
        if self.reach is not None and self.reach < 1:
            raise error_of("A451.reach", found=str(self.reach))
        _check_draws(self.draws)
        _check_others(self.others)

    @property
    def on_fixed_nodes(self) -> tuple[object, ...]:
        """Return the settings that decide the jobs on the fixed nodes; points that share these
        settings share the result.
        """
        of_jobs = (self.nodes, self.load, self.resident, self.cores_per_gpu)
        return (*of_jobs, self.keep, self.policy, self.fewest, self.seeds, self.seed)

    @property
    def machine(self) -> Machine:
        """Return the fabric with its parameters in place."""
        given = {
            name: plausible(name, value, _STUDY)
            for name, value in ((parameter_name(n), v) for n, v in self.others)
        }
        return load(self.on).with_parameters(given) if given else load(self.on)


class _Latest:
    """Last result that several points share, so that draws of a large log are held once."""

    def __init__(self) -> None:
        self.key: object = None
        self.made: Any = None

    def once(self, key: object, make: Callable[[], Any]) -> Any:
        """Return what `make` makes, kept until another key is asked for."""
        if self.made is None or key != self.key:
            self.made = None  # release it before the next is made
            self.made, self.key = make(), key
        return self.made


def _jobs(held: Held, asked: Pooled) -> tuple[Stream, Fleet, Mapping[str, Tie]]:
    """Return jobs, fixed nodes and ties of a point; the log is read once."""
    name = ("jobs", asked.cores_per_gpu, asked.resident)
    read = partial(pool.read_jobs, held.path, None, asked.cores_per_gpu, asked.resident, asked.seed)
    stream, nodes, ties = held.once(name, lambda: held.timed(read))
    if stream.drawn is not None:
        stream = stream.drawn(asked.seed)  # a mix has other jobs for each seed
    named = asked.nodes or nodes
    return stream, held.once(("nodes", named), lambda: pool.fleet_of(named)), ties


def _on_fixed(held: Held, asked: Pooled) -> tuple[pool.Fixed, Mapping[str, Tie]]:
    stream, fleet, ties = _jobs(held, asked)
    stream = pool.asked_of(stream, fleet, asked.load, asked.resident, asked.seed)
    fixed = pool.on_fixed_nodes(
        stream,
        fleet,
        keep=asked.keep,
        policy=asked.policy,
        search=asked.fewest,
        seeds=asked.seeds,
        seed=asked.seed,
    )
    return fixed, ties


def _pooled(held: Held, asked: Pooled) -> Mapping[str, Any]:
    machine = asked.machine
    fixed, ties = held.once("fixed nodes", _Latest).once(
        asked.on_fixed_nodes, lambda: _on_fixed(held, asked)
    )
    classes, uses = fixed.streams[0].classes, fixed.streams[0].use_gpus
    slow = held.once(
        ("slowdowns", machine, asked.draws, asked.seed, tuple(uses)),
        lambda: slowdowns(classes, uses, ties, machine, asked.draws, asked.seed),
    )
    answer = pool.beside(
        fixed, [machine], [slow], reach=asked.reach, trunk=asked.trunk, host_price=asked.host_price
    )
    (nodes, shared), few = answer.clusters, answer.clusters[1].fewest
    before = nodes.fewest
    premium = None if few is None else few.premium
    return {
        "fewest_gpus": few and few.gpus.value,
        "fixed_fewest_gpus": before and before.gpus.value,
        "premium": premium and premium.value,
        "low_premium": premium and premium.low,
        "high_premium": premium and premium.high,
        "waiting_seconds": shared.waiting.value,
        "fixed_waiting_seconds": nodes.waiting.value,
        "low_fewest_gpus": few and few.gpus.low,
        "high_fewest_gpus": few and few.gpus.high,
        "fewest_hosts": few and few.hosts.value,
        "fixed_fewest_hosts": before and before.hosts.value,
        "utilisation": shared.utilisation.value,
        "stranded": shared.stranded.value,
        "core_utilisation": shared.core_utilisation.value,
        "stranded_cores": shared.stranded_cores.value,
        "waiting_95_seconds": shared.waiting_95.value,
        "useful_gpus": shared.useful_gpus.value,
        "unplaced": shared.unplaced,
        "fixed_utilisation": nodes.utilisation.value,
        "fixed_stranded": nodes.stranded.value,
        "jobs": answer.jobs,
        "load_gpus": answer.load,
        "hosts": shared.hosts,
        "gpus": shared.gpus,
        "pools": shared.pools,
        "hosts_of_a_pool": shared.reach,
        "findings": " ".join(sorted({f.code for f in answer.findings})),
    }


def _pools(held: Held, asked: Sequence[Pooled]) -> list[Results | TurnbuckleError]:
    """Answer points of one stream of jobs, those with the same fixed nodes one after the other."""
    out: list[Results | TurnbuckleError] = [{}] * len(asked)
    for k in sorted(range(len(asked)), key=lambda k: repr(asked[k].on_fixed_nodes)):
        try:
            out[k] = _pooled(held, asked[k])
        except TurnbuckleError as error:
            out[k] = error
    return out


def _fleet_files(asked: Pooled) -> Mapping[str, Any]:
    """Return the machines of a point, and the hash of a table of nodes."""
    table = Path(asked.nodes)
    return {
        **_machines(asked),
        **({"nodes": hashed(table)} if asked.nodes and table.is_file() else {}),
    }


def _job_files(jobs: Path) -> list[Path]:
    """Return the files of a stream of jobs: a log, or a mix with the log and the recordings that it
    names.
    """
    if jobs.suffix.lower() != ".toml":
        return [jobs]
    return [jobs, *(file for named in named_files(jobs) for file in files_of(named))]


PROJECT: Final = Kind(
    "project",
    Projected,
    _alone,
    _parameters,
    _machines,
    together=_projected,
    penalty="of the machine as it is, with its own GPU and host",
)
SLACK: Final = Kind("slack", Distant, _distant, inputs=_machines, penalty="by the coupling alone")
SHARING: Final = Kind("sharing", Together, _together, inputs=_machines)
POOL: Final = Kind(
    "pool",
    Pooled,
    _pooled,
    _of_fabrics,
    _fleet_files,
    together=_pools,
    files=_job_files,
    best=Best(
        "premium",
        "largest premium",
        "premium of a pooled GPU",
        (
            "Premium: what a pooled GPU may cost more than one of the fewest fixed nodes, at "
            "equal cost."
        ),
        most=True,
        than="",
        answers=(
            "pools need more GPUs",
            "pools need as many GPUs",
            "pools need fewer GPUs",
            "no pool is enough",
        ),
    ),
)


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
