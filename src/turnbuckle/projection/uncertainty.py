"""How sure an answer is: draw every uncertain number, ask the same question again, take quantiles.

Draws are common: a number has the same draw wherever it occurs, in the source, in every target
built on the source, and in every projection of one call.  So the source's own error cancels where
it should, and P(A faster than B) compares like with like.  Each number is log-normal around its
value; its generator is seeded by (seed, name), so adding a target never changes another's draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float, below
from turnbuckle.foundation.findings import finding, merge
from turnbuckle.machine import Machine, Pair
from turnbuckle.profile.kernels import KernelKind
from turnbuckle.profile.pieces import UNSIZED, Pieces, thinned
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.transfers import LinkFit
from turnbuckle.projection.admission import one_memory, with_link_of
from turnbuckle.projection.anchor import (
    Durations,
    Prices,
    anchored,
    in_every_draw,
    kernels_longer_by,
    nic_kept,
    on_host,
)
from turnbuckle.projection.assumptions import copy_basis, kernel_ratio, replays_apart
from turnbuckle.projection.elsewhere.drawn import DrawnMachine, drawn_source, drawn_target
from turnbuckle.projection.elsewhere.host_reads import crosses, read_again
from turnbuckle.projection.elsewhere.hosts import SPEEDS, hanging_on_host, host_longer
from turnbuckle.projection.elsewhere.kernels import basis_of, kernel_rate, rates_allow, scales
from turnbuckle.projection.elsewhere.priors import (
    LAUNCH_ERROR,
    LAUNCHES,
    NOTES,
    VENDOR_ERROR,
    Draws,
    elsewhere,
    other_gpu,
    other_vendor,
    unstated,
    zero_copy_longer,
)
from turnbuckle.projection.model import Model, coupling_alone
from turnbuckle.projection.order import (
    ASLEEP,
    OVERLAP,
    UNEXPLAINED,
    WAITING,
    Prepared,
    open_ends,
    prepared,
    run_times,
    sum_times,
    unsure,
    with_fewer_notes,
)
from turnbuckle.projection.project import answered, host_penalty, launches_kept, priced
from turnbuckle.projection.projection import (
    Copies,
    CopyClass,
    Interval,
    KernelClass,
    Kernels,
    Projection,
    copy_class,
    copy_order,
)
from turnbuckle.projection.sensitivity import variance_shares

DRAWS, SEED, LEVEL = 1000, 20261121, 0.90
#: Draws times instants of a timeline, for one target, unless the user says how many draws; never
#: fewer draws than the second, from which the shares of variance of some fifty numbers can be told:
#: to draw each number alone takes more replays than that.
AFFORDABLE, FEWEST = 2_000_000_000, 600
#: Pieces are thinned to about this many (pieces x draws) before drawing.
CELLS = 1_000_000
#: Relative error of the kernel ratio where it rests on peak rates alone (log-sd): from kernels
#: bound by neither.
ALPHA_ERROR = 0.2
#: The same where nothing is known of the source's rates: the prior of a kernel model without
#: measurement.
ALPHA_UNKNOWN = 0.5
#: Names of two unknowns of the model's form; `turnbuckle.projection.elsewhere.priors` names those
#: of another machine.
KERNEL_ALPHA, COPIES_KEPT = "kernel alpha", "copies kept in one memory"


@dataclass(frozen=True)
class Uncertain:
    """What a question about one profile needs to be asked many times.

    Attributes
    ----------
    ready, source : the run and the machine of the recording.
    form : log-sd of copies about their fitted line, by kind and memory.
    draws, seed, level : of the interval.
    recorded : whether the run was recorded on the source; if not, its copies are priced on the
        target alone.
    """

    ready: Prepared
    source: Machine
    form: Mapping[str, float]
    draws: int = DRAWS
    seed: int = SEED
    level: float = LEVEL
    recorded: bool = True

    @property
    def run(self) -> Pieces:
        """Return the pieces that are drawn."""
        return self.ready.run

    def sample(
        self, declared: Machine, pair: Pair, model: Model, alone: tuple[str, ...] = ()
    ) -> Float:
        """Draw run times [s], shape (draws,); of each of the names in `alone` so many, while every
        other number stays at its value.
        """
        return self.samples(declared, pair, model, alone)[1]

    def samples(
        self,
        declared: Machine,
        pair: Pair,
        model: Model,
        alone: tuple[str, ...] = (),
        drawn: tuple[Draws, Durations] | None = None,
    ) -> tuple[Float, Float, Float | None]:
        """Draw run times [s] at each end of what nothing decides, with what the rules do not derive
        of the order, and by the sum.

        The shapes are (ends, draws), of which the first is the replay's, (draws,) and (draws,).
        The last is None where the model asks for one replay, and on another network, which the sum
        does not know.  `drawn` are draws of every number and the durations that they make, where
        those are known.
        """
        draws = (
            Draws(self.draws * max(len(alone), 1), self.seed, alone) if drawn is None else drawn[0]
        )
        durations = self.durations(declared, pair, model, draws) if drawn is None else drawn[1]
        ready = self.ready.drawn(draws)
        seconds = run_times(ready, durations)
        if ready.noted and pair.target is not pair.source:
            seconds = with_fewer_notes(ready, durations, below(draws.of(NOTES)), seconds)
        seconds = np.broadcast_to(seconds, (*seconds.shape[:-1], draws.draws)).copy()
        by_sum = None
        if ready.timeline is not None and model.replay == "auto" and ready.network is None:
            by_sum = np.broadcast_to(sum_times(ready, durations), seconds.shape)
        doubted, ends = (
            unsure(ready, durations, seconds, draws, by_sum),
            open_ends(ready, durations, seconds),
        )
        return ends.all(doubted), ends.between(doubted, draws), by_sum

    def intervals(
        self, replays: Float, sample: Float, by_sum: Float | None, seconds: Sequence[float]
    ) -> list[Interval]:
        """Return the interval of each answer [s] from its `samples`, shapes (ends, answers, draws)
        and (answers, draws).

        Where the sum's lies apart from it, it holds both (`Interval.joined`, decision 57).
        """
        tail = (1.0 - self.level) / 2
        low, median, high = np.quantile(sample, [tail, 0.5, 1.0 - tail], axis=-1)
        ends = np.quantile(replays, [tail, 1.0 - tail], axis=-1)
        # an order that may be wrong only ever widens what the replay says; thinning moves it by a
        # hair, and the exact answer is inside
        low, high = np.minimum(low, ends[0].min(axis=0)), np.maximum(high, ends[1].max(axis=0))
        low, high = np.minimum(low, seconds), np.maximum(high, seconds)
        rows = zip(low.tolist(), median.tolist(), high.tolist(), strict=True)
        by_timeline = [Interval(*row, self.level, self.draws, self.seed) for row in rows]
        if by_sum is None:
            return by_timeline
        sums = np.quantile(by_sum, [tail, 1.0 - tail], axis=-1).T.tolist()
        return [
            interval.joined(low, high, self.ready.measured)
            for interval, (low, high) in zip(by_timeline, sums, strict=True)
        ]

    def durations(self, declared: Machine, pair: Pair, model: Model, draws: Draws) -> Durations:
        """Draw the durations of the pieces, shape (draws, pieces); as stated, with every unknown at
        its middle, for no draws.
        """
        same = pair.target is pair.source
        if not draws.draws:
            return priced(self.ready, pair, model)
        every = (draws.draws, draws.seed, draws.alone) == (self.draws, self.seed, ())
        source = self._drawn_source if every else drawn_source(self.source, draws)
        if same:
            return anchored(self.run, source, source, model)
        drawn = drawn_target(declared, pair.target, source, draws)
        prices = self._on_source if every else None
        durations = anchored(
            self.run,
            source,
            elsewhere(
                pair, drawn, source, draws, self.ready.sharers, self.ready.work == "framework"
            ),
            model,
            prices,
        )
        scaled = self._form(durations.scaled, pair, model, draws)
        kept = launches_kept(self.run, pair)
        if kept.any():
            scaled[..., kept] *= np.exp(LAUNCH_ERROR * draws.of(LAUNCHES))
        falls = {**durations.falls, "delivery": self._delivered(durations, pair, draws)}
        work, calls = (
            host_longer(pair, drawn, source, draws, model.host, kind) for kind in self.ready.works
        )
        durations = kernels_longer_by(
            replace(durations, scaled=scaled, falls=falls),
            zero_copy_longer(pair, model.port, draws),
        )
        if crosses(pair, model.port):
            again = read_again(durations, self.ready.copied_bytes, pair, model.kernels, draws)
            durations = kernels_longer_by(durations, again)
        return nic_kept(on_host(durations, work, calls, kept), self.ready.nic_bound)

    @cached_property
    def _drawn_source(self) -> DrawnMachine:
        return drawn_source(self.source, Draws(self.draws, self.seed))

    @cached_property
    def _on_source(self) -> Prices:
        """Return the prices on the drawn source that were asked for so far."""
        return {}

    def hosts(self, declared: Machine, pair: Pair, model: Model) -> tuple[Float, Float] | None:
        """Draw how many times longer the target's host takes for the program's work, and for calls;
        None where it is the source's host.
        """
        draws = Draws(self.draws, self.seed)
        target = drawn_target(declared, pair.target, self._drawn_source, draws)
        work, calls = (
            host_longer(pair, target, self._drawn_source, draws, model.host, kind)
            for kind in self.ready.works
        )
        return None if work is None or calls is None else (work, calls)

    def _form(self, seconds: Float, pair: Pair, model: Model, draws: Draws) -> Float:
        """Draw the error of the model's form: one factor a class of copy and size decade, one for
        kernels.

        Where source and target are priced alike, what the form misses is the same on both and
        cancels; a copy's factor counts in full from a twofold change on, and in proportion to its
        logarithm below.
        """
        old = self.run.seconds
        changed = ~in_every_draw(np.atleast_2d(seconds) == old) & ((old > 0) | (not self.recorded))
        out = np.broadcast_to(seconds, (*seconds.shape[:-2], draws.draws, len(self.run))).copy()
        kept = self._copies_kept(pair)
        for row, name in enumerate(self._form_names(pair, model)):
            if not name or (draws.alone and name not in draws.alone):
                continue
            draw = draws.normal(name)
            if name == COPIES_KEPT:
                drawn = draws.rows(name)
                out[..., drawn, row] = below(draw[drawn]) * kept[row]
            elif name == KERNEL_ALPHA:
                ends = [old[row] / ratio for ratio in rates_allow(pair)]
                out[..., row] = np.clip(
                    out[..., row] * np.exp(alpha_spread(pair, model) * draw), *ends[::-1]
                )
            elif changed[..., row].any():
                weight = (
                    np.minimum(np.abs(np.log2(np.maximum(out[..., row], 1e-300) / old[row])), 1.0)
                    if self.recorded
                    else 1.0
                )
                factor = np.exp(
                    self.form[f"{self.run.kind[row]}/{self.run.memory[row]}"] * weight * draw
                )
                out[..., row] *= np.where(changed[..., row], factor, 1.0)
        return out

    def _form_names(self, pair: Pair, model: Model) -> list[str]:
        """Return for each piece the model-form unknown that touches it; empty where none does."""
        run = self.run
        decade = np.floor(np.log10(np.maximum(run.size_bytes, 1.0))).astype(int)
        kernels = alpha_spread(pair, model) > 0
        fitted = np.zeros(len(run), dtype=np.bool_)
        for charge in model.charges:
            if charge.fitted:
                fitted |= run.rows(charge.covers)
        out = []
        dropped = not model.port and pair.target.copies_vanish and not pair.source.copies_vanish
        for kind, memory, power, lined in zip(run.kind, run.memory, decade, fitted, strict=True):
            if kind == "kernel":
                out.append(KERNEL_ALPHA if kernels else "")
            elif not lined:
                out.append("")
            elif dropped and kind in ("copy_h2d", "copy_d2h", "migration"):
                out.append(COPIES_KEPT)
            else:
                out.append(
                    f"form/{kind}/{memory}/1e{power}" if f"{kind}/{memory}" in self.form else ""
                )
        return out

    def _delivered(self, durations: Durations, pair: Pair, draws: Draws) -> Float:
        """Return the time added before device work begins on the timeline [s]: what is known, and
        launches that the target does not say.
        """
        delay, latency = durations.falls["delivery"], pair.source.value("launch.latency")
        if latency is None or not unstated(pair, "launch.latency"):
            return delay
        longer = latency * np.expm1(LAUNCH_ERROR * draws.of(LAUNCHES))
        return delay + np.where(self.run.kind == "launch", longer, 0.0)

    def _copies_kept(self, pair: Pair) -> Float:
        """Return the seconds of each piece if the program keeps its copies in the one memory: read
        and written once at its bandwidth.
        """
        bandwidth = pair.target.value("gpu.memory_bandwidth")
        kept = (
            self.run.count * 2.0 * self.run.size_bytes / bandwidth
            if bandwidth
            else self.run.seconds
        )
        return np.where(
            self.run.memory == UNSIZED, self.run.seconds, np.minimum(kept, self.run.seconds)
        )

    def names(
        self, declared: Machine, pair: Pair, model: Model, draws: Draws | None = None
    ) -> list[str]:
        """Return the names of all uncertain numbers in a question; `draws` are those that its
        durations were drawn with, if they were.
        """
        form = sorted({*self._form_names(pair, model)} - {""})
        if draws is None:
            draws = Draws(1, self.seed)
            self.durations(declared, pair, model, draws)
        order = (
            [OVERLAP, UNEXPLAINED]
            if self.ready.trust is not None and self.ready.timeline is not None
            else []
        )
        order += [WAITING] if self.ready.waiting is not None else []
        order += (
            [ASLEEP]
            if self.ready.timeline is not None and any(self.ready.timeline.graph.asleep_ns)
            else []
        )
        order += [NOTES] if self.ready.noted else []
        return [
            *dict.fromkeys(
                [
                    *self.source.unknowns(),
                    *declared.unknowns(),
                    *form,
                    *draws.asked,
                    *order,
                    *self.ready.network_unknowns,
                ]
            )
        ]


def alpha_spread(pair: Pair, model: Model) -> float:
    """Return the relative error (log-sd) of kernel times on the target.

    0 where kernels keep their machine (a changed coupling) or the user gave the ratio; at least
    `ALPHA_ERROR` for a ratio of peak rates (`VENDOR_ERROR` between GPUs known to be of two
    vendors), and wide enough that the 90 % interval reaches the ratio of memory bandwidths;
    `ALPHA_UNKNOWN` where the target has other GPUs but no ratio can be formed.
    """
    if model.alpha == "hold" or not isinstance(model.alpha, str) or pair.target is pair.source:
        return 0.0
    if model.alpha == "auto":  # drawn with the ratios, where there are any
        return (
            ALPHA_UNKNOWN
            if other_gpu(pair)
            and model.kernels is None
            and not pair.target.changes
            and not scales(pair)
            else 0.0
        )
    least = VENDOR_ERROR if other_vendor(pair) and not pair.target.changes else 0.0
    source_rate, target_rate = (kernel_rate(m, model.alpha) for m in (pair.source, pair.target))
    if source_rate is None or target_rate is None:
        return 0.0 if pair.target.changes else max(ALPHA_UNKNOWN, least)
    ratio = float(target_rate / source_rate)
    memory = [m.value("gpu.memory_bandwidth") for m in (pair.source, pair.target)]
    apart = abs(np.log(ratio * memory[0] / memory[1])) if memory[0] and memory[1] else 0.0
    if ratio == 1.0 and not least and not apart:
        return 0.0
    return max(ALPHA_ERROR, least, float(apart) / 1.645)


def uncertain(
    ready: Prepared,
    source: Machine,
    fits: Mapping[tuple[str, str], LinkFit],
    draws: int = DRAWS,
    seed: int = SEED,
    level: float = LEVEL,
) -> Uncertain:
    """Prepare a profile for many draws: model-form spreads from the fits; for the sum, fewer
    pieces.
    """
    form = {}
    for (direction, memory), fit in fits.items():
        kind = "migration" if direction.startswith("migration") else f"copy_{direction}"
        form[f"{kind}/{memory}"] = min(fit.residual_spread, 0.7)
    if ready.timeline is None:
        ready = replace(ready, run=thinned(ready.run, _most(draws)))
    return Uncertain(ready, source, form, draws, seed, level)


@dataclass(frozen=True)
class Made:
    """The durations of all pieces of a run on one target.

    Attributes
    ----------
    stated : at the stated values.
    draws, drawn : draws of every number, and the durations they make.
    """

    stated: Durations
    draws: Draws
    drawn: Durations

    def of(self, rows: Bool, count: int) -> tuple[Float, Float] | None:
        """Return what some pieces take themselves [s], stated and drawn, shapes (1, pieces) and
        (draws, pieces).

        None where they are not `count`: a question of them alone has them thinned.
        """
        if rows.sum() != count:
            return None
        stated, drawn = (durations.of(rows).undelayed for durations in (self.stated, self.drawn))
        return stated[None, :], np.broadcast_to(drawn, (self.draws.draws, stated.shape[-1]))


def made_of(
    question: Uncertain, declared: Machine, pair: Pair, model: Model, stated: Durations
) -> Made:
    """Return the durations of a question's pieces, whose stated ones are known."""
    draws = Draws(question.draws, question.seed)
    return Made(stated, draws, question.durations(declared, pair, model, draws))


def copy_times(
    question: Uncertain,
    declared: Machine,
    pair: Pair,
    model: Model,
    drivers: bool = False,
    made: Made | None = None,
) -> Copies | None:
    """Return how long the copies of a run take on a target, hidden or not; None where it has none.

    Every question about copies is answered here, so that two of them never differ (decision D21).

    Parameters
    ----------
    question : of the copies alone, prepared by `of_copies`.
    declared : the target as declared (a relative machine not yet resolved).
    drivers : also draw each number alone, for the shares of variance.
    made : durations of all pieces of the run, where they are known.
    """
    run = question.run
    if not len(run):
        return None

    def seconds(draws: Draws) -> Float:
        each = copy_seconds_of(question, declared, pair, model, draws)
        return np.broadcast_to(each, (max(draws.draws, 1), len(run)))

    picked = None if made is None else made.of(made.stated.run.category == "copy", len(run))
    stated, drawn = picked or (seconds(Draws()), seconds(Draws(question.draws, question.seed)))
    priced_rows = np.isfinite(stated[0])
    tails = ((1.0 - question.level) / 2, (1.0 + question.level) / 2)

    def added(which: tuple[str, str], rows: Bool) -> CopyClass:
        total, count = float(_sums(stated, rows)[0]), run.count[rows]
        low, high = (float(q) for q in np.quantile(_sums(drawn, rows), tails))
        measured = float(run.seconds[rows].sum()) if question.recorded else None
        moved = round(float((count * run.size_bytes[rows]).sum()))
        basis = "" if which == _EVERY else copy_basis(*which, pair, model.port)
        return CopyClass(
            *which,
            round(float(count.sum())),
            moved,
            measured,
            total,
            min(low, total),
            max(high, total),
            basis,
        )

    kinds = [copy_class(*c) for c in zip(run.direction.tolist(), run.memory.tolist(), strict=True)]
    masks = {
        which: priced_rows & np.array([kind == which for kind in kinds])
        for which in sorted(set(kinds), key=lambda c: copy_order(*c))
    }
    classes = tuple(added(which, rows) for which, rows in masks.items() if rows.any())
    shares = {}
    if drivers:
        names = question.names(declared, pair, model)
        sample = _sums(drawn, priced_rows)
        shares = variance_shares(
            sample,
            names,
            question.seed,
            lambda few, of: _sums(seconds(Draws(few * len(of), question.seed, of)), priced_rows),
            _most(len(run)),
        )
    return Copies(**vars(added(_EVERY, priced_rows)), classes=classes, drivers=shares)


def kernel_times(
    question: Uncertain, declared: Machine, pair: Pair, model: Model, made: Made | None = None
) -> Kernels | None:
    """Return how long the kernels of a run take on a target with another GPU; None where they keep
    their time.

    Arguments as `copy_times`, the question of the kernels alone.
    """
    run = question.run
    if (
        not len(run)
        or model.alpha == "hold"
        or (model.alpha == "auto" and model.kernels is None and not other_gpu(pair))
    ):
        return None

    def seconds(draws: Draws) -> Float:
        return np.broadcast_to(
            question.durations(declared, pair, model, draws).undelayed,
            (max(draws.draws, 1), len(run)),
        )

    picked = None if made is None else made.of(made.stated.run.kind == "kernel", len(run))
    drawing = Draws(question.draws, question.seed) if question.draws else Draws()
    stated, drawn = picked or (seconds(Draws()), seconds(drawing))
    tails = ((1.0 - question.level) / 2, (1.0 + question.level) / 2)

    def added(name: str, basis: str, rows: Bool) -> KernelClass:
        total, count = float(_sums(stated, rows)[0]), round(float(run.count[rows].sum()))
        low, high = (float(q) for q in np.quantile(_sums(drawn, rows), tails))
        return KernelClass(
            name,
            basis,
            count,
            float(run.seconds[rows].sum()),
            total,
            min(low, total),
            max(high, total),
        )

    kinds = [kind or KernelKind() for kind in run.kernel]
    asked = [
        (
            kind.name,
            basis_of(kind, pair, model.kernels) if model.alpha == "auto" else "one ratio for all",
        )
        for kind in kinds
    ]
    classes = [added(*of, np.array([a == of for a in asked])) for of in dict.fromkeys(asked)]
    bases = dict.fromkeys(c.basis for c in sorted(classes, key=lambda c: -c.measured_seconds))
    every = added("all", ", ".join(bases), np.ones(len(run), dtype=np.bool_))
    return Kernels(**vars(every), classes=tuple(sorted(classes, key=lambda c: -c.measured_seconds)))


_EVERY: Final = ("all", "all")


def _sums(values: Float, rows: Bool) -> Float:
    """Return the sum over some pieces for each draw; equal numbers in the same order have equal
    sums.
    """
    return np.asarray(np.ascontiguousarray(values[:, rows]).sum(axis=1))


def copy_seconds_of(
    question: Uncertain, declared: Machine, pair: Pair, model: Model, draws: Draws | None = None
) -> Float:
    """Return what each piece of copies takes on a target, counted together [s], shape (...,
    pieces).

    Copies that were not recorded on the source are priced on the target alone: nan where a machine
    lacks what their price needs.
    """
    if question.recorded:
        return question.durations(declared, pair, model, draws or Draws()).undelayed
    charges = tuple(
        replace(c, anchor="absolute") if c.anchor == "ratio" else c for c in model.charges
    )
    durations = question.durations(
        declared, pair, replace(model, charges=charges), draws or Draws()
    )
    lacking = np.ones(len(question.run), dtype=np.bool_)
    for charge in charges:
        if charge.anchor == "absolute" and charge.name not in durations.missing:
            lacking &= ~question.run.rows(charge.covers)
    return np.where(lacking, np.nan, durations.undelayed)


def copy_question(
    ready: Prepared,
    source: Machine,
    fits: Mapping[tuple[str, str], LinkFit],
    draws: int = DRAWS,
    seed: int = SEED,
    recorded: bool = True,
) -> Uncertain:
    """Prepare the copies of a run alone for many draws; arguments as `uncertain`, `recorded` as
    `Uncertain` has it.
    """
    return replace(
        uncertain(_part(ready, ready.run.category == "copy"), source, fits, draws, seed),
        recorded=recorded,
    )


def _part(ready: Prepared, rows: Bool) -> Prepared:
    """Return some pieces of a run, without an order."""
    return Prepared(
        ready.run.of(rows),
        0.0,
        sharers=ready.sharers,
        nic_bound=ready.nic_bound,
        work=ready.work,
        copied_bytes=ready.copied_bytes,
    )


def _most(draws: int) -> int:
    return max(CELLS // max(draws, 1), 100)


def affordable(ready: Prepared) -> int:
    """Return how many draws a run of this size gets: `DRAWS`, or fewer where its timeline is very
    long.
    """
    if ready.timeline is None:
        return DRAWS
    return min(DRAWS, max(AFFORDABLE // len(ready.timeline.graph.time_ns), FEWEST))


def with_interval(
    projection: Projection,
    question: Uncertain,
    declared: Machine,
    pair: Pair,
    model: Model,
    drivers: bool = True,
    made: Made | None = None,
) -> Projection:
    """Return the same projection with its interval, its draws, and the share of variance by number.

    Parameters
    ----------
    projection : the answer at the stated values.
    question : the profile, prepared by `uncertain`.
    declared : the target as declared (a relative machine not yet resolved).
    drivers : also draw each number alone, for the shares of variance.
    made : durations of all pieces, where they are known.
    """
    replays, sample, by_sum = question.samples(
        declared, pair, model, drawn=None if made is None else (made.draws, made.drawn)
    )
    sums = None if by_sum is None else by_sum[None]
    interval = question.intervals(replays[:, None], sample[None], sums, [projection.seconds])[0]
    findings = (
        projection.findings
        if interval.apart is None
        else merge([*projection.findings, replays_apart(projection, interval.apart)])
    )
    shares: dict[str, float] = {}
    if drivers and np.ptp(sample) > 0:
        names = question.names(declared, pair, model, None if made is None else made.draws)
        most = _most(len(question.run))
        shares = variance_shares(
            sample,
            names,
            question.seed,
            lambda few, of: replace(question, draws=few).sample(declared, pair, model, of),
            most,
        )
    return replace(projection, interval=interval, drivers=shares, sample=sample, findings=findings)


def project_many(
    profile: Profile,
    source: Machine,
    targets: Sequence[Machine],
    model: Model,
    fits: Mapping[tuple[str, str], LinkFit],
    draws: int | None = DRAWS,
    seed: int = SEED,
    ready: Prepared | None = None,
    details: bool = True,
) -> list[Projection]:
    """Project one profile on several targets with common draws; None is as many as a run of its
    size affords.

    `ready` is the profile prepared for the model, if that has been done.  `details` are what copies
    and kernels take, which numbers drive an answer, and the answer by the coupling alone.
    """
    ready = ready or prepared(profile, model)
    draws = affordable(ready) if draws is None else draws
    question = uncertain(ready, source, fits, draws, seed)
    copies = copy_question(ready, source, fits, DRAWS if draws else 0, seed)
    kernels = uncertain(
        _part(ready, ready.run.kind == "kernel"), source, fits, DRAWS if draws else 0, seed
    )
    out = []
    for declared in targets:
        pair = Pair(source, declared)
        asked = (
            {"": model}
            if not details or _of_recording(pair, model)
            else {"": model, "alone": coupling_alone(model)}
        )
        answers = {}
        linkless = one_memory(source) and not pair.target.copies_vanish
        for name, by in asked.items():
            if name == "alone" and linkless:
                declared = with_link_of(source, declared)
                pair = Pair(source, declared)
            stated = priced(ready, pair, by)
            answer = answered(profile, ready, pair, by, stated)
            if answer.unknown:
                copied = copy_times(copies, declared, pair, by) if details else None
                answers[name] = replace(answer, copies=copied).drawn(draws)
                continue
            # draws of all pieces are those of the copies and kernels among them, unless a run has
            # fewer draws or pieces of its own
            made = (
                made_of(question, declared, pair, by, stated)
                if draws == DRAWS and question.run is ready.run
                else None
            )
            if details:
                parts = (
                    copy_times(copies, declared, pair, by, made=made),
                    kernel_times(kernels, declared, pair, by, made=made),
                )
                answer = replace(answer, copies=parts[0], kernels=parts[1])
            if name == "alone" and linkless:
                answer = replace(
                    answer, findings=[*answer.findings, finding("M112", 1, source.title)]
                )
            answers[name] = (
                with_interval(answer, question, declared, pair, by, details, made)
                if draws
                else answer
            )
        whole = replace(answers[""], alone=answers.get("alone"))
        hosts = (
            question.hosts(declared, pair, model)
            if details and draws and profile.seconds and not whole.unknown
            else None
        )
        if hosts is not None and model.host is None:
            hangs = hanging_on_host(
                partial(host_penalty, ready, pair, model),
                whole.host or 1.0,
                hosts,
                pair.target.host,
                ready.work,
            )
            whole = replace(whole, findings=[*whole.findings, *hangs])
        out.append(whole)
    return out


def _of_recording(pair: Pair, model: Model) -> bool:
    """Return whether the target keeps the recording's kernels and host, so that its coupling is all
    that changes.
    """
    if model.machine_free or pair.target is pair.source:
        return True
    kept = (
        kernel_ratio(pair, model) in (None, 1.0)
        if model.alpha != "auto"
        else model.kernels is None and not other_gpu(pair)
    )
    host_kept = all(change.parameter not in SPEEDS for change in pair.target.changes)
    return bool(pair.target.changes) and model.host is None and kept and host_kept
