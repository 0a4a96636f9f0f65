"""How sure an answer is: draw every uncertain number, ask the same question again, take quantiles.

Draws are common: a number has the same draw wherever it occurs, in the source, in every target built on the source, and
in every projection of one call.  So the source's own error cancels where it should, and P(A faster than B) compares like
with like.  Each number is log-normal around its value; its generator is seeded by (seed, name), so adding a target never
changes another's draws.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.machine import Machine, Pair, Parameter
from turnbuckle.machine.parameter_names import HOST_WAYS, LINK_WAYS, LinkWay, ParameterName, link_parameter
from turnbuckle.profile.pieces import UNSIZED, Pieces
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.transfers import LinkFit
from turnbuckle.projection.anchor import Durations, anchored
from turnbuckle.projection.model import Model, kernel_rate
from turnbuckle.projection.order import Prepared, prepared, replayed
from turnbuckle.projection.priors import (
    COPY_LATENCY_SD,
    LATENCY,
    LAUNCH_ERROR,
    LAUNCHES,
    LINK,
    LINK_SHARE,
    NODE_SHARE,
    PEER,
    PEER_SHARE,
    STAGED,
    STAGED_SPREAD,
    VENDOR_ERROR,
    half_normal,
    of_pair,
    other_host,
    other_vendor,
)
from turnbuckle.projection.project import answered
from turnbuckle.projection.projection import Interval, Projection

DRAWS, SEED, LEVEL = 1000, 20261121, 0.90
#: Draws times instants of a timeline, for one target, unless the user says how many draws; never fewer draws than the second.
AFFORDABLE, FEWEST = 2_000_000_000, 100
#: Pieces are thinned to about this many (pieces x draws) before drawing.
CELLS = 1_000_000
#: Draws of each number alone, for its share of the variance.
DRIVER_DRAWS = 200
#: Relative error of the kernel ratio where it rests on peak rates alone (log-sd): from kernels bound by neither.
ALPHA_ERROR = 0.2
#: The same where nothing is known of the source's rates: the prior of a kernel model without measurement.
ALPHA_UNKNOWN = 0.5
#: Relative error (log-sd) of what another machine's host takes for the program's own work and for calls that nothing prices: no
#: machine file says it, processors of one time differ by about as much, and two runs of one configuration differ by 13 % (docs/accuracy).
HOST_ERROR = 0.15
#: Kinds of piece that cross the link between host and device.
_CROSSING = ("copy_h2d", "copy_d2h", "migration")
#: Names of the three unknowns of the model's form; `turnbuckle.projection.priors` names those of another machine.
KERNEL_ALPHA, COPIES_KEPT, HOST_SPEED = "kernel alpha", "copies kept in one memory", "host of the other machine"


def normals(name: str, draws: int, seed: int) -> Float:
    """Return the standard normal draws that belong to one name, shape (draws,); the same for the same (name, seed)."""
    key = int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:16], "little")
    return np.random.Generator(np.random.Philox(key=key)).standard_normal(draws)


@dataclass(frozen=True)
class DrawnMachine:
    """A machine whose parameters are arrays of draws, shape (draws, 1)."""

    values: Mapping[ParameterName, Float]
    copies_vanish: bool

    def value(self, name: ParameterName) -> Float | None:
        """Return the draws of one parameter [SI], or None."""
        return self.values.get(name)


def _drawn(default_name: str, parameter: Parameter, draws: int, seed: int, only: str | None) -> Float:
    """Draw one number, shape (draws, 1); only its value where it is certain, or where only another number is drawn."""
    name = parameter.unknown(default_name)
    if parameter.error <= 0 or (only is not None and only != name):
        return np.full((1, 1), parameter.value)
    return (parameter.value * np.exp(parameter.error * normals(name, draws, seed)))[:, None]


def drawn_source(machine: Machine, draws: int = DRAWS, seed: int = SEED, only: str | None = None) -> DrawnMachine:
    """Draw a machine that stands alone; the arrays' counterpart of `Machine.drawn`."""
    values = {n: _drawn(f"{machine.name}/{n}", p, draws, seed, only) for n, p in machine.parameters.items()}
    return DrawnMachine({n: _share(n, v) for n, v in values.items()}, machine.copies_vanish)


def drawn_target(
    declared: Machine, resolved: Machine, source: DrawnMachine, draws: int = DRAWS, seed: int = SEED, only: str | None = None
) -> DrawnMachine:
    """Draw a target: its own numbers if it stands alone, else its drawn changes on the drawn source (as `Change.apply`)."""
    if not declared.relative:
        return drawn_source(declared, draws, seed, only)
    values = dict(source.values)
    for change in declared.changes:
        parts = {w: _drawn(f"{declared.name}/{change.parameter}/{w}", p, draws, seed, only) for w, p in change.parts().items()}
        value = parts.get("set", values.get(change.parameter, parts.get("assume")))
        if value is not None:
            value = value * parts.get("scale", 1.0) + parts.get("add", 0.0)
            values[change.parameter] = np.minimum(value, parts.get("limit", np.inf))
    return DrawnMachine({n: _share(n, v) for n, v in values.items()}, resolved.copies_vanish)


def _share(name: str, value: Float) -> Float:
    return np.minimum(value, 1.0) if name.endswith(".efficiency") else value


@dataclass(frozen=True)
class Uncertain:
    """What a question about one profile needs to be asked many times."""

    ready: Prepared
    source: Machine
    form: Mapping[str, float]
    draws: int = DRAWS
    seed: int = SEED
    level: float = LEVEL

    @property
    def run(self) -> Pieces:
        """Return the pieces that are drawn."""
        return self.ready.run

    def sample(self, declared: Machine, pair: Pair, model: Model, only: str | None = None) -> Float:
        """Draw run times [s], shape (draws,); with `only`, every other number stays at its value."""
        source = drawn_source(self.source, self.draws, self.seed, only)
        target = source if pair.target is pair.source else drawn_target(declared, pair.target, source, self.draws, self.seed, only)
        durations = anchored(self.run, source, target, model)
        if pair.target is not pair.source:
            scaled = self._form(durations.scaled, pair, model, only)
            if other_host(pair):
                draws = Draws(self.draws, self.seed, only)
                scaled = on_other_machine(scaled, self.run, pair, draws)
                durations = replace(durations, host=np.exp(HOST_ERROR * draws.of(HOST_SPEED))[:, None])
                durations = replace(durations, falls={**durations.falls, "delivery": self._delivered(durations, pair, draws)})
            durations = replace(durations, scaled=scaled)
        seconds = replayed(self.ready, durations).seconds
        return np.broadcast_to(seconds, (self.draws,)).copy()

    def _form(self, seconds: Float, pair: Pair, model: Model, only: str | None) -> Float:
        """Draw the error of the model's form: one factor a class of copy and size decade, one for kernels.

        Where source and target are priced alike, what the form misses is the same on both and cancels; a copy's factor
        counts in full from a twofold change on, and in proportion to its logarithm below.
        """
        old = self.run.seconds
        changed = np.any(np.atleast_2d(seconds) != old, axis=0) & (old > 0)
        out = np.broadcast_to(seconds, (self.draws, len(self.run))).copy()
        kept = self._copies_kept(pair)
        for row, name in enumerate(self._form_names(pair, model)):
            if not name or (only is not None and only != name):
                continue
            draw = normals(name, self.draws, self.seed)
            if name == COPIES_KEPT:
                out[:, row] = ndtr(draw) * kept[row]
            elif name == KERNEL_ALPHA:
                out[:, row] *= np.exp(alpha_spread(pair, model) * draw)
            elif name == HOST_SPEED:
                out[:, row] *= 1.0 if changed[row] else np.exp(HOST_ERROR * draw)
            elif changed[row]:
                weight = np.minimum(np.abs(np.log2(np.maximum(out[:, row], 1e-300) / old[row])), 1.0)
                out[:, row] *= np.exp(self.form[f"{self.run.kind[row]}/{self.run.memory[row]}"] * weight * draw)
        return out

    def _form_names(self, pair: Pair, model: Model) -> list[str]:
        """Return for each piece the model-form unknown that touches it; empty where none does."""
        run = self.run
        decade = np.floor(np.log10(np.maximum(run.size_bytes, 1.0))).astype(int)
        kernels = alpha_spread(pair, model) > 0
        fitted = np.zeros(len(run), dtype=np.bool_)
        for charge in model.charges:
            if charge.fitted:
                fitted |= charge.covers(run)
        host = np.isin(run.category, ("api", "cpu")) & other_host(pair) & ~_launches_kept(run, pair)
        out = []
        for kind, memory, power, lined, hosts in zip(run.kind, run.memory, decade, fitted, host, strict=True):
            if hosts:
                out.append(HOST_SPEED)
            elif kind == "kernel":
                out.append(KERNEL_ALPHA if kernels else "")
            elif not lined:
                out.append("")
            elif pair.target.copies_vanish and not pair.source.copies_vanish and kind in ("copy_h2d", "copy_d2h", "migration"):
                out.append(COPIES_KEPT)
            else:
                out.append(f"form/{kind}/{memory}/1e{power}" if f"{kind}/{memory}" in self.form else "")
        return out

    def _delivered(self, durations: Durations, pair: Pair, draws: Draws) -> Float:
        """Return the time added before device work begins on the timeline [s]: what is known, and launches that the target does not say."""
        delay, latency = durations.falls["delivery"], pair.source.value("launch.latency")
        if latency is None or pair.target.value("launch.latency") is not None:
            return delay
        longer = latency * np.expm1(LAUNCH_ERROR * draws.of(LAUNCHES))[:, None]
        return delay + np.where(self.run.kind == "launch", longer, 0.0)

    def _copies_kept(self, pair: Pair) -> Float:
        """Return the seconds of each piece if the program keeps its copies in the one memory: read and written once at its bandwidth."""
        bandwidth = pair.target.value("gpu.memory_bandwidth")
        kept = self.run.count * 2.0 * self.run.size_bytes / bandwidth if bandwidth else self.run.seconds
        return np.where(self.run.memory == UNSIZED, self.run.seconds, np.minimum(kept, self.run.seconds))

    def names(self, declared: Machine, pair: Pair, model: Model) -> list[str]:
        """Return the names of all uncertain numbers in a question."""
        form = sorted({*self._form_names(pair, model)} - {""})
        if other_host(pair):
            form += [HOST_SPEED, *_names_of_other_machine(self.run, pair)]
        return [*dict.fromkeys([*self.source.unknowns(), *declared.unknowns(), *form])]


@dataclass(frozen=True)
class Draws:
    """Standard normal draws by name; zeros for all but one name where only that is drawn."""

    draws: int
    seed: int
    only: str | None = None

    def of(self, name: str) -> Float:
        """Return the draws of one name, shape (draws,)."""
        return normals(name, self.draws, self.seed) if self.only in (None, name) else np.zeros(self.draws)


def _launches_kept(run: Pieces, pair: Pair) -> Bool:
    """Return the mask of launches that keep the source's price because the target's file states none."""
    stated = [pair.target.value("launch.latency") is not None, pair.target.value("launch.call") is not None]
    return np.asarray((run.kind == "launch") & ~np.where(run.idle_device, *stated))


def _carried(run: Pieces) -> dict[str, Bool]:
    """Return masks of pieces that another node's link or host carries, by the unknown that decides."""
    crossing = np.isin(run.kind, _CROSSING) & (run.memory != UNSIZED)
    staged = crossing & ((run.memory == "pageable") | (run.kind == "migration"))
    return {LINK: crossing & ~staged, STAGED: staged, PEER: (run.kind == "copy_p2p") & (run.memory != UNSIZED)}


def _names_of_other_machine(run: Pieces, pair: Pair) -> list[str]:
    carried = {} if pair.target.copies_vanish else _carried(run)
    out = [name for name, rows in carried.items() if rows.any()]
    if any(rows[run.direction == word].any() for rows in carried.values() for word in HOST_WAYS if _latency_kept(pair, word)):
        out.append(LATENCY)
    return out + ([LAUNCHES] if _launches_kept(run, pair).any() else [])


def _latency_kept(pair: Pair, direction: LinkWay) -> bool:
    return pair.target.value(link_parameter(direction, "latency")) is None


def on_other_machine(seconds: Float, run: Pieces, pair: Pair, draws: Draws) -> Float:
    """Draw what no file states of another machine: its share of the link, host staging, fixed parts, launches.

    Parameters
    ----------
    seconds : of the pieces there, counted together [s], shape (..., pieces).
    run, pair : the pieces; source and target, which has a host of its own.
    draws : of the unknowns (decision 0018).

    Returns
    -------
    Seconds, shape (draws, pieces).  A part that moves bytes and a fixed part are told apart by the target's link; nothing becomes
    faster than that link.
    """
    out = np.broadcast_to(seconds, (draws.draws, len(run))).copy()
    kept = _launches_kept(run, pair)
    out[:, kept] *= np.exp(LAUNCH_ERROR * draws.of(LAUNCHES))[:, None]
    if pair.target.copies_vanish:
        return out
    for name, rows in _carried(run).items():
        for direction in LINK_WAYS:
            mask = rows & ((run.kind == f"copy_{direction}") | (run.direction == f"migration_{direction}"))
            bandwidth = pair.target.value(link_parameter(direction, "bandwidth"))
            if not mask.any() or bandwidth is None:
                continue
            stated = pair.target.value(link_parameter(direction, "efficiency"))
            least = (run.count * run.size_bytes)[mask] / bandwidth
            moved = np.minimum(least / (stated or 1.0), out[:, mask])
            fixed = out[:, mask] - moved
            if name == STAGED:
                out[:, mask] = np.maximum(out[:, mask] * np.exp(of_pair(STAGED_SPREAD) * draws.of(STAGED))[:, None], least)
                continue
            if _latency_kept(pair, direction):
                fixed *= np.exp(COPY_LATENCY_SD * draws.of(LATENCY))[:, None]
            z, spread = draws.of(name), PEER_SHARE if name == PEER else LINK_SHARE if stated is None else NODE_SHARE
            out[:, mask] = moved * half_normal(z, spread)[:, None] + fixed
    return out


def alpha_spread(pair: Pair, model: Model) -> float:
    """Return the relative error (log-sd) of kernel times on the target.

    0 where kernels keep their machine (a changed coupling) or the user gave the ratio; at least `ALPHA_ERROR` for a ratio
    of peak rates (`VENDOR_ERROR` between GPUs known to be of two vendors), and wide enough that the 90 % interval reaches the
    ratio of memory bandwidths; `ALPHA_UNKNOWN` where the target has other GPUs but no ratio can be formed.
    """
    if model.alpha == "hold" or not isinstance(model.alpha, str) or pair.target is pair.source:
        return 0.0
    least = VENDOR_ERROR if other_vendor(pair) and not pair.target.changes else 0.0
    source_rate, target_rate = (kernel_rate(m, model.alpha) for m in (pair.source, pair.target))
    if source_rate is None or target_rate is None:
        return 0.0 if pair.target.changes else max(ALPHA_UNKNOWN, least)
    ratio = float(target_rate / source_rate)
    if ratio == 1.0 and not least:
        return 0.0
    memory = [m.value("gpu.memory_bandwidth") for m in (pair.source, pair.target)]
    apart = abs(np.log(ratio * memory[0] / memory[1])) if memory[0] and memory[1] else 0.0
    return max(ALPHA_ERROR, least, float(apart) / 1.645)


def uncertain(
    ready: Prepared, source: Machine, fits: Mapping[tuple[str, str], LinkFit], draws: int = DRAWS, seed: int = SEED, level: float = LEVEL
) -> Uncertain:
    """Prepare a profile for many draws: model-form spreads from the fits; for the sum, fewer pieces."""
    form = {}
    for (direction, memory), fit in fits.items():
        kind = "migration" if direction.startswith("migration") else f"copy_{direction}"
        form[f"{kind}/{memory}"] = min(fit.residual_spread, 0.7)
    if ready.timeline is None:
        ready = replace(ready, run=thinned(ready.run, max(CELLS // max(draws, 1), 100)))
    return Uncertain(ready, source, form, draws, seed, level)


def affordable(ready: Prepared) -> int:
    """Return how many draws a run of this size gets: `DRAWS`, or fewer where its timeline is very long."""
    if ready.timeline is None:
        return DRAWS
    return min(DRAWS, max(AFFORDABLE // len(ready.timeline.graph.time_ns), FEWEST))


def thinned(run: Pieces, most: int) -> Pieces:
    """Merge neighbouring sizes of one class to about `most` pieces: sums kept, size averaged by time."""
    if len(run) <= most:
        return run
    fine = np.round(np.log2(np.maximum(run.size_bytes, 1.0)) * 8).astype(int)
    keys = [*zip(run.kind, run.category, run.call_class, run.direction, run.memory, run.idle_device, fine, strict=True)]
    index = {k: i for i, k in enumerate(dict.fromkeys(keys))}
    group = np.array([index[k] for k in keys])
    first = np.full(len(index), -1)
    first[group[::-1]] = np.arange(len(run))[::-1]

    def total(values: Float) -> Float:
        return np.bincount(group, weights=values, minlength=len(index)).astype(np.float64)

    weight = run.seconds + 1e-30
    return Pieces(
        kind=run.kind[first],
        category=run.category[first],
        call_class=run.call_class[first],
        direction=run.direction[first],
        memory=run.memory[first],
        idle_device=run.idle_device[first],
        size_bytes=total(run.size_bytes * weight) / total(weight),
        count=total(run.count),
        seconds=total(run.seconds),
        exposed_seconds=total(run.exposed_seconds),
        tail_count=total(run.tail_count),
    )


def with_interval(
    projection: Projection, question: Uncertain, declared: Machine, pair: Pair, model: Model, drivers: bool = True
) -> Projection:
    """Return the same projection with its interval, its draws, and the share of variance by number.

    Parameters
    ----------
    projection : the answer at the stated values.
    question : the profile, prepared by `uncertain`.
    declared : the target as declared (a relative machine not yet resolved).
    drivers : also draw each number alone, for the shares of variance.
    """
    sample = question.sample(declared, pair, model)
    # thinning moves the answer by a hair; centre the draws on the exact answer
    tail = (1.0 - question.level) / 2
    low, median, high = (float(q) for q in np.quantile(sample, [tail, 0.5, 1.0 - tail]))
    interval = Interval(min(low, projection.seconds), median, max(high, projection.seconds), question.level, question.draws, question.seed)
    shares: dict[str, float] = {}
    if drivers and np.ptp(sample) > 0:
        few = replace(question, draws=min(question.draws, DRIVER_DRAWS, max(question.draws // 5, 30)))
        alone = {n: float(np.var(few.sample(declared, pair, model, only=n))) for n in few.names(declared, pair, model)}
        total = sum(alone.values())
        ranked = sorted(alone.items(), key=lambda kv: -kv[1])
        shares = {n: v / total for n, v in ranked[:12] if total > 0 and v / total > 0.005}
    return replace(projection, interval=interval, drivers=shares, sample=sample)


def project_many(
    profile: Profile, source: Machine, targets: Sequence[Machine], model: Model, fits: Mapping[tuple[str, str], LinkFit],
    draws: int | None = DRAWS, seed: int = SEED, ready: Prepared | None = None,
) -> list[Projection]:  # fmt: skip
    """Project one profile on several targets with common draws; None is as many as a run of its size affords.

    `ready` is the profile prepared for the model, if that has been done.
    """
    ready = ready or prepared(profile, model)
    draws = affordable(ready) if draws is None else draws
    question = uncertain(ready, source, fits, draws, seed)
    out = []
    for declared in targets:
        pair = Pair(source, declared)
        answer = answered(profile, ready, pair, model)
        out.append(with_interval(answer, question, declared, pair, model) if draws else answer)
    return out
