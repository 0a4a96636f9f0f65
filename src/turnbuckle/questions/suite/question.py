"""``turnbuckle suite``: a workload of several recordings on several machines.

Each recording is asked what `project` is asked, with the same numbers as answer.  Draws are common:
a number of a machine has one draw, named by (seed, machine, parameter), for every application and
every target, so that what is unknown of a machine moves all applications at once, and P(A beats B)
compares like with like.

    mix(T) = sum of s_a seconds_a(T) / measured_a        node-hours on T for each node-hour of today (`mix`)

Where a recording is so long that it gets fewer draws, the mix is made of the first draws that all
have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import TurnbuckleError, error_of
from turnbuckle.foundation.findings import Finding
from turnbuckle.machine import Machine
from turnbuckle.projection.admission import DEFAULT_TARGETS
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.elsewhere.network import OnNetwork, on_other
from turnbuckle.projection.model import Model
from turnbuckle.projection.projection import NOISE, Projection, break_even_premium, chance_faster
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import LEVEL, SEED
from turnbuckle.questions.suite import mix
from turnbuckle.questions.suite.answer import (
    SELF,
    Application,
    Cell,
    Flip,
    Group,
    Mix,
    Ratio,
    Ssi,
    Suite,
    Versus,
)
from turnbuckle.questions.suite.portfolio import (
    Estimate,
    Member,
    Offer,
    Portfolio,
    of_recordings,
    read_portfolio,
)
from turnbuckle.questions.suite.recorded import recorded

_TAILS: Final = ((1.0 - LEVEL) / 2, (1.0 + LEVEL) / 2)


# --- asking ---------------------------------------------------------------------------------------


def of_files(
    workload: str | Path | Portfolio | Run | Sequence[str | Path | Run],
    on: Sequence[str | Machine] | str | Machine = (),
    *,
    model: Model | None = None,
    draws: int | None = None,
    seed: int = SEED,
    network: OnNetwork | str | None = None,
    part: str | None = None,
    rank: int | None = None,
    clean_seconds: float | None = None,
    minus: Path | None = None,
    use_cache: bool = True,
    command: str = "",
) -> Suite:
    """Ask what a workload takes on several machines: ``turnbuckle suite``.

    Parameters
    ----------
    workload : a portfolio, or its TOML file; or recordings or runs, each of which weighs the same.
    on : machines, or their names or files; left out, those of the portfolio, else those that
        `project` asks.
    model, draws, seed, network : as in `Run.project`; today's machine keeps the messages as
        recorded.
    part, rank : of each recording for which the portfolio names none: what is asked about, as
        `Run.read` takes it, and the only rank.
    clean_seconds : run time without profiler of the only recording for which the portfolio names
        none, as `Run.read` takes it [s].
    minus : run on one node of the only recording for which the portfolio names none, as `Run.minus`
        takes it.
    use_cache : keep and use the Parquet copy of a large recording.
    command : the command line that asks, for the provenance.

    Raises
    ------
    UsageError : A441, A442, A443; A056, a part of a run that was read already; A492, one run time
        for several recordings; A472, a network and no machine.  What `Run.read` and `Run.project`
        raise, with the file's name.
    """
    portfolio = (
        asked_of(workload)
        .on([on] if isinstance(on, str | Machine) else on)
        .parted(part, rank, clean_seconds, minus)
    )
    if not any(offer.name != SELF for offer in portfolio.offers):
        if network is not None:
            raise error_of("A472")
        portfolio = replace(
            portfolio, offers=(*portfolio.offers, *(Offer(name) for name in DEFAULT_TARGETS))
        )
    shares = mix.shares([member.weight for member in portfolio.members])
    targets = [offer.machine for offer in portfolio.offers if offer.name != SELF]

    def ask(run: Run) -> Answer:
        return run.project(targets, model=model, draws=draws, seed=seed, network=network)

    applications = tuple(
        _application(member, share, ask, use_cache, command)
        for member, share in zip(portfolio.members, shares, strict=True)
    )
    together = _Together(applications, portfolio, seed)
    groups = []
    for name in dict.fromkeys(a.group for a in applications if a.group):
        some = [a for a in applications if a.group == name]
        groups.append(
            Group(
                name,
                mix.total([a.share for a in some]),
                _Together(_alone(some), portfolio, seed).mixes(),
            )
        )
    mixes = together.mixes()
    carried_by = on_other(network)
    carrier = (
        "" if carried_by is None else ", ".join((Path(carried_by.name).name, *carried_by.settings))
    )
    compared = (together.versus(), together.flips(mixes), together.draws)
    accuracy = next((a.accuracy for a in applications if a.accuracy), "")
    return Suite(
        portfolio, applications, mixes, tuple(groups), *compared, seed, command, carrier, accuracy
    )


def asked_of(workload: str | Path | Portfolio | Run | Sequence[str | Path | Run]) -> Portfolio:
    """Return a workload as a portfolio, whatever it was given as."""
    if isinstance(workload, Portfolio):
        return workload
    if isinstance(workload, Run):
        return of_recordings([workload])
    if isinstance(workload, str | Path):
        return (
            read_portfolio(workload)
            if Path(workload).suffix == ".toml"
            else of_recordings([workload])
        )
    return (
        asked_of(workload[0])
        if len(workload) == 1 and not isinstance(workload[0], Run)
        else of_recordings(workload)
    )


def _application(
    member: Member, share: float, ask: Callable[[Run], Answer], use_cache: bool, command: str
) -> Application:
    try:
        run = member.run(use_cache, command)
        answer = ask(run)
    except TurnbuckleError as error:
        error.where = error.where or member.name
        raise
    cells = []
    for whole in answer.projections:
        both = (whole, whole.by_coupling)
        ratios = [_ratio(p.penalty, *(end / p.measured_seconds for end in p.ends)) for p in both]
        answers = [(p.seconds, ratio, p.verdict) for p, ratio in zip(both, ratios, strict=True)]
        cells.append(Cell(whole.target, whole.title, *answers[0], *answers[1], whole.unknown))
    seen: dict[str, Finding] = {}
    for f in (*run.findings, *(f for p in answer.projections for f in p.findings)):
        seen.setdefault(f.code, f)
    replays = ", ".join(dict.fromkeys(p.replay for p in answer.projections))
    about = (
        member.name,
        member.group,
        member.weight,
        share,
        member.capability,
        run.seconds,
        run.source.title,
        replays,
    )
    made = (tuple(cells), tuple(seen.values()), tuple(answer.projections), answer.provenance())
    return Application(*about, *made, recorded(run), answer.accuracy)


def _alone(some: Sequence[Application]) -> tuple[Application, ...]:
    """Return applications by themselves: their shares add up to 1."""
    shares = mix.shares([a.weight for a in some])
    return tuple(replace(a, share=share) for a, share in zip(some, shares, strict=True))


def _ratio(value: float, low: float, high: float) -> Ratio:
    return Ratio(value, min(low, value), max(high, value))


class _Together:
    """Applications together on each machine: node-hours as stated and drawn, today's machine
    first.
    """

    def __init__(
        self, applications: Sequence[Application], portfolio: Portfolio, seed: int
    ) -> None:
        self.applications, self.portfolio, self.seed = applications, portfolio, seed
        samples = [p.sample for a in applications for p in a.projections]
        self.draws = (
            min((len(s) for s in samples if s is not None), default=0)
            if all(s is not None for s in samples)
            else 0
        )
        self.names = [SELF, *(p.target for p in applications[0].projections)]
        self.titles = ["today's machine", *(p.title for p in applications[0].projections)]
        offers = {offer.name: offer for offer in portfolio.offers}
        in_order = [offer for offer in portfolio.offers if offer.name != SELF]
        self.offers = [offers.get(SELF, Offer(SELF)), *in_order]
        #: penalties of each application, by whole and by coupling alone, by machine: stated, and
        #: drawn
        self.stated = [self._stated(coupling) for coupling in (False, True)]
        self.drawn = [self._drawn(coupling) for coupling in (False, True)] if self.draws else []

    def _asked(self, k: int, coupling: bool) -> list[Projection]:
        projections = [a.projections[k - 1] for a in self.applications]
        return [p.by_coupling for p in projections] if coupling else projections

    def _stated(self, coupling: bool) -> list[list[float]]:
        today = [1.0] * len(self.applications)
        return [
            today,
            *([p.penalty for p in self._asked(k, coupling)] for k in range(1, len(self.names))),
        ]

    def _drawn(self, coupling: bool) -> list[list[Float]]:
        today = [np.ones(self.draws)] * len(self.applications)
        others = range(1, len(self.names))
        return [
            today,
            *(
                [
                    p.sample[: self.draws] / p.measured_seconds
                    for p in self._asked(k, coupling)
                    if p.sample is not None
                ]
                for k in others
            ),
        ]

    @property
    def shares(self) -> list[float]:
        return [a.share for a in self.applications]

    def hours(self, k: int, coupling: bool = False) -> float:
        """Return the node-hours on a machine for each of today."""
        return mix.total(
            [s * p for s, p in zip(self.shares, self.stated[coupling][k], strict=True)]
        )

    def hours_drawn(self, k: int, coupling: bool = False) -> Float:
        """Return draws of `hours`, shape (draws,)."""
        return mix.totals(
            [s * p for s, p in zip(self.shares, self.drawn[coupling][k], strict=True)]
        )

    def ranged(
        self, value: float, sample: Float | None, wider: tuple[float, float] = (0.0, 0.0)
    ) -> Ratio:
        """Return a number with the range of its draws, wider at both ends by so much."""
        if sample is None:
            return Ratio(value, value, value)
        low, high = np.quantile(sample, _TAILS).tolist()
        return _ratio(value, low - wider[0], high + wider[1])

    def _wider(self, k: int, coupling: bool) -> tuple[float, float]:
        """Return how far the applications' ranges reach below and above their draws because the
        order may be wrong, weighted by share.
        """
        lower, upper = [], []
        for share, p in zip(self.shares, self._asked(k, coupling), strict=True):
            if p.sample is None or p.interval is None:
                continue
            low, high = np.quantile(p.sample, _TAILS).tolist()
            lower.append(share * max(low - p.interval.low, 0.0) / p.measured_seconds)
            upper.append(share * max(p.interval.high - high, 0.0) / p.measured_seconds)
        return mix.total(lower), mix.total(upper)

    def mixes(self) -> tuple[Mix, ...]:
        """Return all applications together on each machine."""
        return tuple(self._mix(k) for k in range(len(self.names)))

    def _mix(self, k: int) -> Mix:
        offer = self.offers[k]
        hours, alone = (self._hours_ranged(k, coupling) for coupling in (False, True))
        cells = [(a.name, a.cells[k - 1].penalty) for a in self.applications] if k else []
        unknown = dict.fromkeys(
            a.cells[k - 1].unknown for a in self.applications if k and a.cells[k - 1].unknown
        )
        return Mix(
            target=self.names[k],
            title=self.titles[k],
            node_hours=hours,
            coupling_alone=alone,
            throughput=Ratio(1 / hours.value, 1 / hours.high, 1 / hours.low),
            ssi=self._ssi(k) if k else None,
            loses=tuple(name for name, penalty in cells if penalty.value > 1 + NOISE),
            surely=tuple(name for name, penalty in cells if penalty.low > 1 + NOISE),
            price=offer.price,
            power=offer.power,
            cost=self._of_work(k, offer.price, "price", 1.0),
            energy=self._of_work(k, offer.power, "power", 3600.0),
            unknown="; ".join(unknown),
        )

    def _hours_ranged(self, k: int, coupling: bool) -> Ratio:
        if not self.draws:
            return self.ranged(self.hours(k, coupling), None)
        return self.ranged(
            self.hours(k, coupling),
            self.hours_drawn(k, coupling),
            self._wider(k, coupling) if k else (0.0, 0.0),
        )

    def _each(self, k: int, estimate: Estimate, what: str, factor: float) -> Float:
        """Return draws of the price, or energy, of the work of one node-hour of today, from the
        price or power of a node.
        """
        return (
            self.hours_drawn(k)
            * estimate.drawn(f"{self.names[k]}/{what} of a node", self.draws, self.seed)
            * factor
        )

    def _of_work(self, k: int, estimate: Estimate | None, what: str, factor: float) -> Ratio | None:
        if estimate is None:
            return None
        return self.ranged(
            self.hours(k) * estimate.value * factor,
            self._each(k, estimate, what, factor) if self.draws else None,
        )

    def _ssi(self, k: int) -> Ssi:
        nodes = [offer.nodes for offer in (self.offers[k], self.offers[0])]
        utilisation = nodes[0] / nodes[1] if nodes[0] and nodes[1] else 1.0
        capability = [a.capability for a in self.applications]
        value = mix.geometric(capability, self.shares, self.stated[0][k], utilisation)
        below = tuple(
            a.name for a, p in zip(self.applications, self.stated[0][k], strict=True) if p > 1.0
        )
        sample = None
        likely = None
        if self.draws:
            drawn = self.drawn[0][k]
            terms = [
                s * np.log(c * utilisation / p)
                for c, s, p in zip(capability, self.shares, drawn, strict=True)
            ]
            sample = np.exp(mix.totals(terms))
            likely = (
                None
                if math.isnan(value)
                else float(np.mean(np.all(np.stack(drawn) <= 1.0, axis=0)))
            )
        return Ssi(self.ranged(value, sample), None if below else value, likely, below)

    def versus(self) -> tuple[Versus, ...]:
        """Return each machine against each other one."""
        return tuple(self._versus(a, b) for a, b in permutations(range(len(self.names)), 2))

    def _versus(self, a: int, b: int) -> Versus:
        (beats, premium), (alone, premium_alone) = (
            self._premium(a, b, coupling) for coupling in (False, True)
        )
        prices = [self.offers[k].price for k in (a, b)]
        cheaper = None
        if beats is not None and prices[0] and prices[1]:
            costs = [
                self._each(k, price, "price", 1.0)
                for k, price in zip((a, b), prices, strict=True)
                if price
            ]
            cheaper = float(np.mean(costs[0] < costs[1]) + 0.5 * np.mean(costs[0] == costs[1]))
        return Versus(self.names[a], self.names[b], beats, alone, premium, premium_alone, cheaper)

    def _premium(self, a: int, b: int, coupling: bool) -> tuple[float | None, Ratio]:
        """Return how likely the first needs fewer node-hours, and its break-even premium over the
        second.
        """
        stated = break_even_premium(self.hours(a, coupling), self.hours(b, coupling))
        if not self.draws or math.isnan(stated):
            return None, self.ranged(stated, None)
        first, second = (self.hours_drawn(k, coupling) for k in (a, b))
        return chance_faster(first, second), self.ranged(stated, break_even_premium(first, second))

    def flips(self, mixes: Sequence[Mix]) -> tuple[Flip, ...]:
        """Return at which share of each application the best machine and each other one come to the
        same.
        """
        out = []
        for by in ("node-hours", "cost"):
            each = [
                1.0 if by == "node-hours" else m.price.value if m.price else None for m in mixes
            ]
            asked = zip(range(len(mixes)), mixes, each, strict=True)
            priced = [
                (price * m.node_hours.value, k, price)
                for k, m, price in asked
                if price is not None and not m.unknown
            ]
            if len(priced) < 2 or len(self.applications) < 2:
                continue
            (least, best, price), *others = sorted(priced)
            for cost, k, other in others:
                for n, a in enumerate(self.applications):
                    more = other * self.stated[0][k][n] - price * self.stated[0][best][n]
                    flips_at = mix.flips_at(a.share, more, cost - least)
                    ends = self._turning(by, best, k, n, flips_at)
                    out.append(
                        Flip(by, self.names[best], self.names[k], a.name, a.share, flips_at, *ends)
                    )
        return tuple(out)

    def _turning(
        self, by: str, best: int, k: int, n: int, stated: float | None
    ) -> tuple[float | None, float | None, float | None]:
        """Return the range of the share at which the ranking turns, over the draws in which it
        does, and the share of those draws.
        """
        if not self.draws:
            return None, None, None
        (of_best, mix_of_best), (of_other, mix_of_other) = (
            self._worth_drawn(by, j, n) for j in (best, k)
        )
        sample = mix.flips_drawn(self.shares[n], of_other - of_best, mix_of_other - mix_of_best)
        turning = sample[~np.isnan(sample)]
        if not len(turning):
            return None, None, 0.0
        low, high = np.quantile(turning, _TAILS).tolist()
        ends = (low, high) if stated is None else (min(low, stated), max(high, stated))
        return *ends, len(turning) / self.draws

    def _worth_drawn(self, by: str, k: int, n: int) -> tuple[Float, Float]:
        """Return draws of what an application and the mix take on a machine, in node-hours or in
        money.
        """
        price = self.offers[k].price if by == "cost" else None
        worth = (
            price.drawn(f"{self.names[k]}/price of a node", self.draws, self.seed) if price else 1.0
        )
        return self.drawn[0][k][n] * worth, self.hours_drawn(k) * worth
