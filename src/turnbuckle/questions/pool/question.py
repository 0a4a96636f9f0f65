"""``turnbuckle pool``: how many GPUs to share.

The same jobs run on the fixed nodes and on composed ones: the hosts with their GPUs in pools, as
many hosts to a pool as a fabric reaches, the jobs slower by what its distance does to their class.
"Nothing changes" is the first row of every answer.

A log is one draw of what might have been submitted.  Its value is the log as it is; the range holds
90 % of what its days in a drawn order give (`Stream.again`), each at both ends of what is not known
of the slowdown.  All clusters see the same draws.

The fewest GPUs are those with which a pool keeps what the fixed nodes give, beside as many hosts as
the fewest fixed nodes, found by halving.  Pooling saves where the fixed nodes need more for the
same jobs: so many times as much may a pooled GPU cost.

    premium = (fewest GPUs of fixed nodes + price of a host x hosts saved) / fewest GPUs of a pool - 1

Without a price of hosts none are saved.  With one, the best of some numbers of hosts is taken, from
the fewest that are enough on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np
import polars as pl

from turnbuckle.foundation.errors import clipped, error_of
from turnbuckle.foundation.fields import Declared, Ranged
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.machine import Machine
from turnbuckle.machine import load as machine_of
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import SEED
from turnbuckle.questions.pool.fleet import Fleet, reaches, read_fleet
from turnbuckle.questions.pool.logs import read_log
from turnbuckle.questions.pool.mix import read_mix
from turnbuckle.questions.pool.simulation import Policy, Result, by_class, fewest_enough, simulate
from turnbuckle.questions.pool.slowdown import UNCHANGED, Slowdown, Tie, slowdowns
from turnbuckle.questions.pool.stream import Stream

Keep = Literal["waiting", "throughput"]
End = Literal["value", "low", "high"]

#: Asked when the user names no fabric.
DEFAULT_ON: Final = ("cdi-switch-hop-link", "cdi-rack-link", "cdi-row-link")
SEEDS, DRAWS, LEVEL = 8, 200, 0.90
#: What a smaller cluster may give away and keeps what the fixed nodes give: of throughput, and of
#: the mean run time as waiting.
TOLERANCE: Final = 0.01
#: Numbers of hosts that are looked at where hosts have a price.
_SPLITS: Final = 5
#: Numbers that a cluster has with a range.
_MEASURES: Final = (
    "utilisation",
    "core_utilisation",
    "stranded",
    "stranded_cores",
    "waiting",
    "waiting_95",
    "useful_gpus",
)


@dataclass(frozen=True)
class Measure(Ranged, Declared):
    """A number with its 90 % range over draws of the jobs and both ends of the slowdown."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class OfClass(Declared):
    """Slowdown and waiting of one class of jobs.

    Attributes
    ----------
    assumed : run time over that on fixed nodes, before links are shared.
    took : mean run time over that on fixed nodes, as simulated: links shared.
    waiting : mean waiting time [s].
    """

    name: str
    jobs: int
    assumed: Slowdown
    took: Measure
    waiting: float


@dataclass(frozen=True)
class Fewest(Declared):
    """The smallest cluster that keeps what the fixed nodes give.

    Attributes
    ----------
    gpus : of the jobs as they are, with the range over draws.
    hosts : of that cluster: as many as the fewest fixed nodes, unless hosts have a price.
    premium : what a pooled GPU may cost more than one of the fewest fixed nodes; None for these.
    """

    gpus: Measure
    hosts: Measure
    cores_per_gpu: float
    premium: Measure | None


@dataclass(frozen=True)
class Cluster(Declared):
    """The jobs on one cluster.

    Attributes
    ----------
    machine, title : the fabric; ``fixed`` for the nodes as they are.
    reach, reach_source : hosts that share a pool, and why so many.
    """

    machine: str
    title: str
    hosts: int
    gpus: int
    cores: float
    pools: int
    reach: int
    reach_source: str
    utilisation: Measure
    core_utilisation: Measure
    stranded: Measure
    stranded_cores: Measure
    waiting: Measure
    waiting_95: Measure
    useful_gpus: Measure
    unplaced: int
    classes: tuple[OfClass, ...]
    fewest: Fewest | None


@dataclass(frozen=True, repr=False)
class Pool(Shown):
    """How many GPUs to share: the fixed nodes, then each fabric.

    Attributes
    ----------
    load : GPUs that the jobs would keep in use on average.
    events : submissions and ends that were simulated for the answer.
    """

    question: ClassVar[str] = "pool"

    source: str
    jobs: int
    seconds: float
    load: float
    resident: bool
    policy: Policy
    keep: Keep
    host_price: float
    seeds: int
    seed: int
    events: int
    clusters: tuple[Cluster, ...]
    findings: tuple[Finding, ...]

    @property
    def fixed(self) -> Cluster:
        """Return the nodes as they are."""
        return self.clusters[0]

    def table(self) -> pl.DataFrame:
        """Return a row for each cluster: GPUs, utilisation, stranded, waiting [s], the fewest GPUs
        and the premium.
        """
        rows = []
        for c in self.clusters:
            fewest = c.fewest
            counts = {"machine": c.machine, "hosts": c.hosts, "gpus": c.gpus}
            measures = {
                name: getattr(c, name).value
                for name in ("utilisation", "stranded", "core_utilisation", "stranded_cores")
            }
            waits = {
                "waiting_seconds": c.waiting.value,
                "waiting_95_seconds": c.waiting_95.value,
                "useful_gpus": c.useful_gpus.value,
            }
            least = {
                f"fewest_{name}": None if fewest is None else getattr(fewest, name).value
                for name in ("gpus", "hosts")
            }
            premium = None if fewest is None or fewest.premium is None else fewest.premium.value
            rows.append({**counts, **measures, **waits, **least, "premium": premium})
        return pl.DataFrame(rows, infer_schema_length=None)

    def headline(self) -> str:
        """Return the answer in one line."""
        fixed = self.fixed.fewest
        pooled = [c for c in self.clusters[1:] if c.fewest is not None]
        if fixed is None or not pooled:
            return f"Pool: {self.jobs:,} jobs use {self.load:.4g} of {self.fixed.gpus:,} GPUs"
        best = min(pooled, key=lambda c: c.fewest.gpus.value if c.fewest else 0.0)
        assert best.fewest is not None
        few, need = best.fewest.gpus.value, fixed.gpus.value
        return f"Pool: {few:,.0f} shared GPUs do what {need:,.0f} in fixed nodes do ({best.title})"


@dataclass(frozen=True)
class _Variant:
    """The jobs as they are, or drawn again, at one end of the slowdown."""

    stream: Stream
    end: End


@dataclass
class _Asked:
    """What all clusters of one question share."""

    variants: list[_Variant]
    policy: Policy
    keep: Keep
    trunk: float | None
    mean: bool
    events: int = 0
    host_price: float = 0.0
    nearest: dict[str, int] = field(default_factory=dict)

    def run(
        self,
        fleet: Fleet,
        slow: Sequence[Slowdown],
        variant: _Variant,
        trunk: float | None = None,
        patience: float = np.inf,
    ) -> Result:
        """Simulate one variant, and count its events."""
        out = simulate(
            variant.stream, fleet, slow, variant.end, self.policy, trunk, patience=patience
        )
        self.events += out.events
        return out

    def spread(self, values: Sequence[float]) -> Measure:
        """Return the value of the jobs as they are, or the mean of drawn ones, with the range of
        all variants.
        """
        low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        value = float(np.mean(values)) if self.mean else values[0]
        return Measure(value, min(float(low), value), max(float(high), value))

    def keeps(self, now: Result, before: Result, stream: Stream) -> bool:
        """Return whether a cluster gives what the fixed nodes give."""
        if now.unplaced > before.unplaced:
            return False
        if self.by_throughput(stream):
            return now.useful_gpus >= before.useful_gpus * (1 - TOLERANCE)
        return now.waiting <= before.waiting + TOLERANCE * float(stream.work.mean())

    def by_throughput(self, stream: Stream) -> bool:
        """Return whether throughput is what has to be kept: jobs that stay do not wait."""
        return self.keep == "throughput" or stream.stays

    def least(self, what: str, most: int, enough: Callable[[int], bool]) -> int:
        """Return the smallest count that is enough, looked for near the one of the draw before."""
        self.nearest[what] = fewest_enough(most, enough, self.nearest.get(what))
        return self.nearest[what]

    def enough(
        self,
        fleet: Fleet,
        slow: Sequence[Slowdown],
        variant: _Variant,
        before: Result,
        trunk: float | None = None,
    ) -> bool:
        """Return whether a smaller cluster gives what the fixed nodes give; given up as soon as
        jobs have waited too long.
        """
        stream = variant.stream
        allowed = np.inf
        if not self.by_throughput(stream):
            allowed = (
                (before.waiting + TOLERANCE * float(stream.work.mean())) * len(stream) * (1 + 1e-9)
            )
        return self.keeps(self.run(fleet, slow, variant, trunk, allowed), before, stream)


def of_jobs(
    jobs: Stream | str | Path,
    nodes: Fleet | str | Path | None = None,
    on: Sequence[str | Machine] | str | Machine = DEFAULT_ON,
    *,
    classes: Mapping[str, Tie | Run | str | Path] | None = None,
    reach: Mapping[str, int] | int | None = None,
    load: float | None = None,
    resident: bool = False,
    keep: Keep = "waiting",
    policy: Policy = "backfill",
    trunk: float | None = None,
    cores_per_gpu: int = 1,
    host_price: float = 0.0,
    search: bool = True,
    seeds: int = SEEDS,
    draws: int = DRAWS,
    seed: int = SEED,
) -> Pool:
    """Run a stream of jobs on fixed nodes and on pools of their GPUs: ``turnbuckle pool``.

    Parameters
    ----------
    jobs : log of jobs, or a mix (``.toml``): a file, or a stream that was read.
    nodes : the fixed nodes: shapes such as ``64:4x100`` (cores, GPUs, how many), or a table.
    on : fabrics between host and pool.
    classes : recording, or what is declared, of each class of jobs that has one.
    reach : hosts that share a pool, for all fabrics or by machine; as ``reach.csv`` states if left
        out, and all hosts of other machines.
    load : as many draws of the log at once as would keep this share of the fixed GPUs in use.
    resident : all jobs stay: how many find a place, one after the other.
    keep : what the fewest GPUs have to keep.
    policy : who may start before a job that came earlier.
    trunk : bandwidth that the jobs of a pool have between them for each of its GPUs [B/s]; None
        where they never wait for it.
    cores_per_gpu : of a log without GPUs: processors that have one; 0 for none.
    host_price : price of a host over that of a GPU in a fixed node; at 0 as many hosts stand beside
        the pool as the fewest fixed nodes.
    search : whether the fewest GPUs are looked for.
    seeds, draws, seed : draws of the jobs, draws of each recording's range, and the seed of both.

    Raises
    ------
    ProfileError : P070, P071.  UsageError : A447 to A452, A526.  CannotAnswer : A206, A207.
    """
    in_range(load, trunk, seeds, cores_per_gpu, host_price)
    stream, nodes, ties = (
        (jobs, nodes, {})
        if isinstance(jobs, Stream)
        else read_jobs(Path(jobs), nodes, cores_per_gpu, resident, seed)
    )
    fleet = fleet_of(nodes)
    stream = asked_of(stream, fleet, load, resident, seed)
    named = [on] if isinstance(on, str | Machine) else on
    machines = [
        machine if isinstance(machine, Machine) else machine_of(machine) for machine in named
    ]
    ties |= {name: _tie(given) for name, given in (classes or {}).items()}
    slow = [
        slowdowns(stream.classes, stream.use_gpus, ties, machine, draws, seed)
        for machine in machines
    ]
    fixed = on_fixed_nodes(
        stream, fleet, keep=keep, policy=policy, search=search, seeds=seeds, seed=seed
    )
    return beside(fixed, machines, slow, reach=reach, trunk=trunk, host_price=host_price)


def read_jobs(
    jobs: Path, nodes: Fleet | str | Path | None, cores_per_gpu: int, resident: bool, seed: int
) -> tuple[Stream, Fleet | str | Path | None, dict[str, Tie]]:
    """Return the jobs of a log or a mix, the fixed nodes as asked for or as the mix names them, and
    what its classes slow down by.
    """
    if jobs.suffix.lower() != ".toml":
        return read_log(jobs, cores_per_gpu, resident), nodes, {}
    mix = read_mix(jobs, cores_per_gpu, resident, seed)
    return mix.stream, nodes or mix.nodes or None, dict(mix.ties)


def fleet_of(nodes: Fleet | str | Path | None) -> Fleet:
    """Return the fixed nodes.  Raises A448."""
    if nodes is None:
        raise error_of("A448.missing")
    return nodes if isinstance(nodes, Fleet) else read_fleet(nodes)


def asked_of(stream: Stream, fleet: Fleet, load: float | None, resident: bool, seed: int) -> Stream:
    """Return the jobs as they are asked about: cut to the nodes, as dense as asked for, or all of
    them staying.

    Raises A206 where no job has a GPU: nothing is pooled then.
    """
    stream = stream.fitted(int(fleet.gpus.max()), int(fleet.cores.max()) // 1000)
    if load is not None:
        stream = stream.denser(load, fleet.all_gpus, seed)
    if not stream.gpus.any():
        raise error_of("A206.gpus", found=stream.source)
    return stream.staying() if resident else stream


@dataclass(frozen=True)
class Fixed:
    """The jobs on the fixed nodes: what all fabrics are held against.

    Attributes
    ----------
    streams : the jobs as they are, then drawn again.
    results : of each stream on all fixed nodes.
    fewest : the fewest fixed nodes of each stream that keep what all give; None where they are not
        looked for.
    events : that were simulated.
    """

    fleet: Fleet
    streams: tuple[Stream, ...]
    results: tuple[Result, ...]
    fewest: tuple[Fleet, ...] | None
    resident: bool
    policy: Policy
    keep: Keep
    seeds: int
    seed: int
    events: int


def on_fixed_nodes(
    stream: Stream, fleet: Fleet, *, keep: Keep, policy: Policy, search: bool, seeds: int, seed: int
) -> Fixed:
    """Simulate the jobs and their draws on the fixed nodes, and look for the fewest of these that
    are enough.
    """
    streams = (stream, *(() if stream.stays else (stream.again(seed + k) for k in range(seeds))))
    asked = _Asked(
        [_Variant(s, "value") for s in streams],
        "any" if stream.stays else policy,
        keep,
        None,
        stream.drawn is not None,
    )
    unchanged = [UNCHANGED] * len(stream.classes)
    results = [asked.run(fleet, unchanged, v) for v in asked.variants]
    if results[0].unplaced == len(stream):
        raise error_of("A206.fits", found=f"{fleet.hosts:,} nodes with {fleet.all_gpus:,} GPUs")
    fewest = tuple(_fewest_nodes(asked, fleet, unchanged, results)) if search else None
    return Fixed(
        fleet,
        streams,
        tuple(results),
        fewest,
        stream.stays,
        asked.policy,
        keep,
        seeds,
        seed,
        asked.events,
    )


def beside(
    fixed: Fixed,
    machines: Sequence[Machine],
    slow: Sequence[Sequence[Slowdown]],
    *,
    reach: Mapping[str, int] | int | None,
    trunk: float | None,
    host_price: float,
) -> Pool:
    """Return the same jobs on pools of each machine's reach beside those on the fixed nodes; `slow`
    has each class on each machine.
    """
    stream, fleet = fixed.streams[0], fixed.fleet
    ends: tuple[End, ...] = (
        ("low", "high") if any(s.low < s.high for each in slow for s in each) else ("value",)
    )
    # both ends of each draw; of the jobs as they are where none is drawn
    drawn = [
        (k, end)
        for k in (range(1, len(fixed.streams)) if len(fixed.streams) > 1 else [0])
        for end in ends
    ]
    of_stream = [0, *(k for k, _ in drawn)]
    variants = [_Variant(stream, "value"), *(_Variant(fixed.streams[k], end) for k, end in drawn)]
    before = [fixed.results[k] for k in of_stream]
    nodes = None if fixed.fewest is None else [fixed.fewest[k] for k in of_stream]
    asked = _Asked(
        variants,
        fixed.policy,
        fixed.keep,
        trunk,
        stream.drawn is not None,
        fixed.events,
        host_price,
    )
    unchanged = [UNCHANGED] * len(stream.classes)
    fewest = None if nodes is None else _of_nodes(asked, nodes)
    clusters = [
        _cluster(
            "fixed",
            "fixed nodes, nothing changes",
            fleet,
            (1, "a node"),
            asked,
            unchanged,
            before,
            fewest,
        )
    ]
    for machine, each in zip(machines, slow, strict=True):
        hosts, why = _reach(machine, reach, fleet)
        pooled = fleet.composed(hosts)
        asked.nearest.clear()  # what a fabric needs does not depend on those asked before
        results = [asked.run(pooled, each, v, trunk) for v in variants]
        fewest = (
            None if nodes is None else _of_pool(asked, fleet, hosts, each, before, results, nodes)
        )
        clusters.append(
            _cluster(
                machine.name, machine.title, pooled, (hosts, why), asked, each, results, fewest
            )
        )
    first, last = stream.window
    of_question = (
        fixed.resident,
        fixed.policy,
        fixed.keep,
        host_price,
        fixed.seeds,
        fixed.seed,
        asked.events,
    )
    load = 0.0 if fixed.resident else stream.gpu_load
    findings = tuple(merge([*stream.findings, *_findings(fixed, slow)]))
    return Pool(
        stream.source, len(stream), last - first, load, *of_question, tuple(clusters), findings
    )


def _findings(fixed: Fixed, slow: Sequence[Sequence[Slowdown]]) -> list[Finding]:
    """Return what limits an answer: the findings of the recordings behind it, and what was assumed
    in their place.
    """
    stream, unplaced = fixed.streams[0], fixed.results[0].unplaced
    by_class = list(zip(stream.classes, zip(*slow, strict=True), strict=True))
    out = []
    for name, of_class in by_class:
        every = dict.fromkeys(f for slowdown in of_class for f in slowdown.findings)
        out += [
            replace(f, detail=f"{clipped(name, 30)}: {f.detail}".removesuffix(": ")) for f in every
        ]
    assumed = [name for name, of_class in by_class if any(s.basis == "published" for s in of_class)]
    if assumed:
        out.append(
            finding("A525", len(assumed), ", ".join(clipped(name, 30) for name in assumed[:6]))
        )
    if unplaced and not fixed.resident:
        out.append(finding("A523", unplaced, f"{unplaced:,} of {len(stream):,} jobs"))
    if stream.days == 1 and len(fixed.streams) > 1 and stream.drawn is None:
        out.append(finding("A524"))
    return out


def in_range(
    load: float | None, trunk: float | None, seeds: int, cores_per_gpu: int, host_price: float
) -> None:
    """Refuse options outside their ranges (A451)."""
    given = (
        ("--load", load, 0.01, 10.0),
        ("--trunk", trunk, 1.0, 1e15),
        ("--seeds", seeds, 0, 1000),
        ("--cores-per-gpu", cores_per_gpu, 0, 10_000),
        ("--host-price", host_price, 0.0, 1000.0),
    )
    for option, value, least, most in given:
        if value is not None and not least <= value <= most:
            raise error_of(
                "A451.range",
                where=option,
                found=f"{value:g}",
                subject=option,
                least=least,
                most=most,
            )


def _tie(given: Tie | Run | str | Path) -> Tie:
    return (
        given
        if isinstance(given, Tie)
        else Tie(run=(given if isinstance(given, Run) else Run.read(given)).judged)
    )


def _reach(
    machine: Machine, given: Mapping[str, int] | int | None, fleet: Fleet
) -> tuple[int, str]:
    """Return how many hosts share a pool, and why.  Raises A451 for a number that is none."""
    asked = given if isinstance(given, int) or given is None else given.get(machine.name)
    if asked is not None:
        if asked < 1:
            raise error_of("A451.reach", found=str(asked))
        return min(asked, fleet.hosts), "as asked for"
    hosts, why = reaches().get(machine.name, (fleet.hosts, "assumption: all hosts"))
    return min(hosts, fleet.hosts), why


def _cluster(
    name: str,
    title: str,
    fleet: Fleet,
    reach: tuple[int, str],
    asked: _Asked,
    slow: Sequence[Slowdown],
    results: list[Result],
    fewest: Fewest | None,
) -> Cluster:
    stream = asked.variants[0].stream
    measures: dict[str, Any] = {
        name: asked.spread([float(getattr(r, name)) for r in results]) for name in _MEASURES
    }
    counts = np.bincount(stream.class_of, minlength=len(stream.classes)).tolist()
    by_variant = [by_class(result) for result in results]
    took = [asked.spread([of_class[k][0] for of_class in by_variant]) for k in range(len(counts))]
    waited = [waiting for _, waiting in by_variant[0]]
    classes = tuple(map(OfClass, stream.classes, counts, slow, took, waited))
    sizes = (fleet.hosts, fleet.all_gpus, fleet.all_cores, len(fleet.gpus))
    measures |= {"unplaced": results[0].unplaced, "classes": classes, "fewest": fewest}
    return Cluster(*(name, title, *sizes, *reach), **measures)


# --- the fewest GPUs ------------------------------------------------------------------------------


def _fewest_nodes(
    asked: _Asked, fleet: Fleet, slow: Sequence[Slowdown], before: Sequence[Result]
) -> list[Fleet]:
    """Return the fewest fixed nodes that keep what all of them give, of each variant."""
    out = []
    for variant, base in zip(asked.variants, before, strict=True):

        def enough(count: int, variant: _Variant = variant, base: Result = base) -> bool:
            return asked.enough(fleet.fewer(count), slow, variant, base)

        out.append(fleet.fewer(asked.least("nodes", fleet.hosts, enough)))
    return out


def _of_nodes(asked: _Asked, needed: Sequence[Fleet]) -> Fewest:
    gpus, cores = (
        asked.spread([float(getattr(nodes, name)) for nodes in needed])
        for name in ("all_gpus", "all_cores")
    )
    return Fewest(
        gpus,
        asked.spread([float(nodes.hosts) for nodes in needed]),
        cores.value / max(gpus.value, 1.0),
        None,
    )


def _of_pool(
    asked: _Asked,
    fleet: Fleet,
    reach: int,
    slow: Sequence[Slowdown],
    before: Sequence[Result],
    results: Sequence[Result],
    fixed: Sequence[Fleet],
) -> Fewest | None:
    """Return the fewest GPUs of a pool beside the hosts of the fewest fixed nodes; None where all
    do not keep what the fixed nodes give.

    `fixed` has the fewest fixed nodes, of each variant.  Where hosts have a price, fewer of them
    may stand beside more GPUs.
    """
    if not asked.keeps(results[0], before[0], asked.variants[0].stream):
        return None
    few, premiums = [], []
    for variant, base, nodes in zip(asked.variants, before, fixed, strict=True):

        def hosted(count: int, variant: _Variant = variant, base: Result = base) -> bool:
            return asked.enough(
                fleet.fewer(count).composed(reach), slow, variant, base, asked.trunk
            )

        def smallest(hosts: int, variant: _Variant = variant, base: Result = base) -> Fleet:
            pooled = fleet.fewer(hosts).composed(reach)

            def enough(count: int) -> bool:
                return asked.enough(pooled.with_gpus(count), slow, variant, base, asked.trunk)

            return pooled.with_gpus(asked.least("GPUs", pooled.all_gpus, enough))

        # jobs that are slower may need more hosts than fixed nodes
        most = (
            nodes.hosts if hosted(nodes.hosts) else asked.least("more hosts", fleet.hosts, hosted)
        )
        counts = [most]
        if asked.host_price:
            fewest = asked.least("hosts", most, hosted)
            counts += [
                int(n)
                for n in np.unique(np.linspace(fewest, most, _SPLITS).astype(np.int64))
                if n < most
            ]
        priced = [
            (_premium(nodes, pooled, asked.host_price), pooled) for pooled in map(smallest, counts)
        ]
        premium, pooled = max(priced, key=lambda pair: pair[0])
        few.append(pooled)
        premiums.append(premium)
    return replace(_of_nodes(asked, few), premium=asked.spread(premiums))


def _premium(fixed: Fleet, pooled: Fleet, host_price: float) -> float:
    """Return what a pooled GPU may cost more than one of the fixed nodes, at equal cost of hosts
    and GPUs.

    `host_price` is that of a host over that of a GPU in a fixed node.
    """
    return (fixed.all_gpus + host_price * (fixed.hosts - pooled.hosts)) / max(
        pooled.all_gpus, 1
    ) - 1.0
