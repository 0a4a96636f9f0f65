"""Answer to how many cores a GPU needs: fitted laws, numbers of cores that can be run, and their
words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final

import polars as pl

from turnbuckle.foundation.fields import Declared, Ranged
from turnbuckle.foundation.findings import Finding
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.questions.cores.fits import Fit
from turnbuckle.questions.cores.oversubscription import Curve
from turnbuckle.questions.cores.runs import Runs

#: Laws whose criterion differs by less fit as well (Burnham and Anderson 2002).
TIE: Final = 2.0
#: From here on a law is excluded unless the correction for few runs alone sets it back: its weight
#: is below 5 %.
FAR: Final = 2.0 * math.log(20.0)
#: Efficiencies this close to the one asked for reach it.
EVEN: Final = 1e-9
#: Fewer core counts do not tell laws apart.
ENOUGH_COUNTS: Final = 6
#: Answers beyond this multiple of the most cores measured are refused, and ranges end there.
FARTHEST: Final = 2.0


@dataclass(frozen=True)
class Candidate(Ranged, Declared):
    """One fitted law and its answer.

    Attributes
    ----------
    fit : its parameters, criterion and residuals; `fit.missing` says why there are none.
    cores : cores per GPU for the efficiency; infinite where no number is enough, nan where it was
        not fitted.
    low, high : 90 % interval.
    """

    fit: Fit
    above: float | None = None
    cores: float = math.nan
    low: float = math.nan
    high: float = math.nan
    limit_seconds: float = math.nan

    @property
    def fitted(self) -> bool:
        """Return whether the runs allowed to fit the law."""
        return not self.fit.missing

    @property
    def parameters(self) -> dict[str, float] | None:
        """Return the fitted parameters by name; None where the law was not fitted."""
        if not self.fitted:
            return None
        return {
            name: value
            for (name, _), value in zip(
                self.fit.law.parameters, self.fit.values[0].tolist(), strict=True
            )
        }


@dataclass(frozen=True)
class Count(Declared):
    """A number of cores that can be run, and what it reaches.

    Attributes
    ----------
    reaches : probability that it reaches the efficiency asked for: draws of all laws not excluded,
        by their Akaike weights.
    """

    cores: float
    ranks: float | None
    threads: float | None
    seconds: float
    efficiency: float
    reaches: float
    measured_seconds: float | None


@dataclass(frozen=True)
class MeasuredStep(Declared):
    """The fewest measured cores beyond which more do not pay (ECP report, section 4.3.1).

    Attributes
    ----------
    cores, fastest_cores : cores per GPU, and those of the fastest runs.
    share : performance there over that of the fastest runs.
    """

    cores: float
    fastest_cores: float
    share: float

    def words(self, most: float) -> str:
        """Return it in words; `most` are the most cores measured."""
        if self.cores < self.fastest_cores:
            best = f"the best ({self.fastest_cores:g} cores)"
            return f"{self.cores:g} measured cores reach {percent(self.share)} of {best}"
        last = " (the most)" if self.cores == most else ""
        return f"{self.cores:g} measured cores{last} are the fastest"


@dataclass(frozen=True, repr=False)
class Cores(Shown):
    """The answer for one program.

    Attributes
    ----------
    runs : what it rests on.
    chosen : the law behind the answer; None where only `shared` could be answered.
    ties : other laws that the runs do not exclude.
    low, high : 90 % interval of the cores, laws that cannot be told apart included.
    step : the measured number of cores beyond which more gain too little.
    following : number of cores to measure next; None where the answer is known to a core.
    missed : how the law behind the answer misses the runs; empty where it does not.
    """

    question: ClassVar[str] = "cores"

    runs: Runs
    efficiency: float
    candidates: tuple[Candidate, ...]
    chosen: Candidate | None
    why: str
    ties: tuple[Candidate, ...]
    low: float
    high: float
    counts: tuple[Count, ...]
    whole: Count | None
    have: Count | None
    shared: tuple[Curve, ...]
    findings: tuple[Finding, ...]
    step: MeasuredStep
    following: float | None = None
    missed: str = ""

    @property
    def few(self) -> bool:
        """Return whether the runs have too few core counts to tell laws apart."""
        return self.runs.core_counts < ENOUGH_COUNTS

    @property
    def cores(self) -> float:
        """Return the cores per GPU for the efficiency, a real number; nan without a law."""
        return math.nan if self.chosen is None else self.chosen.cores

    @property
    def below(self) -> Count | None:
        """Return the most efficient of the numbers of cores smaller than `whole`."""
        enough = self.whole
        return (
            None
            if enough is None
            else max(
                (c for c in self.counts if c.cores < enough.cores),
                key=lambda c: c.efficiency,
                default=None,
            )
        )

    def sentence(self) -> str:
        """Return the answer in one sentence."""
        return _sentence(self)

    def table(self) -> pl.DataFrame:
        """Return a row for each whole number of cores: run time [s], share of what the GPU can
        do.
        """
        return pl.DataFrame([count.as_dict() for count in self.counts], infer_schema_length=None)

    def headline(self) -> str:
        """Return the answer in one sentence."""
        return f"Cores: {self.sentence()}"

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 90 % interval of the cores, including laws that cannot be told apart."""
        return self.low, self.high

    @property
    def measured_cores(self) -> tuple[float, float]:
        """Return the fewest and the most cores per GPU that were measured."""
        return float(self.runs.cores.min()), float(self.runs.cores.max())

    @property
    def not_excluded(self) -> list[str]:
        """Return the names of the laws in `ties`."""
        return [law.fit.law.name for law in self.ties]


def percent(share: float) -> str:
    """Format a share in per cent.

    >>> percent(0.8979), percent(0.9)
    ('89.8 %', '90 %')
    """
    return f"{share * 100:.1f}".removesuffix(".0") + " %"


def reached(share: float, asked: float) -> str:
    """Format an efficiency; one below the efficiency asked for is never rounded up to it.

    >>> reached(0.89981, 0.9), reached(0.90001, 0.9), reached(0.8979, 0.9)
    ('89.98 %', '90 %', '89.8 %')
    """
    if share < asked - EVEN and round(share * 100, 1) >= round(asked * 100, 1):
        return f"{math.floor(share * 1e4) / 100:.2f} %"
    return percent(share)


def span(value: float, low: float, high: float) -> str:
    """Format a number of cores with its interval, in the decimals of the number.

    >>> span(3.0304, 2.871, 3.22), span(12.49, 11.4, math.inf), span(0.00304, 0.0029, 0.0032)
    ('3.03 (2.87 to 3.22)', '12.5 (11.4 or more)', '0.00304 (0.00290 to 0.00320)')
    """
    places = (
        0
        if value >= 100
        else 1
        if value >= 10
        else 2
        if value >= 0.1
        else min(12, 2 - math.floor(math.log10(max(value, 1e-12))))
    )
    upper = (
        f"{low:.{places}f} to {high:.{places}f}"
        if math.isfinite(high)
        else f"{low:.{places}f} or more"
    )
    return f"{value:.{places}f} ({upper})"


def between(low: float, high: float, most: float = math.inf) -> str:
    """Format a range of cores in three digits; one that ends beyond `most` is open.

    >>> between(2.93, 8.701), between(11.4, math.inf), between(2.93, 170.0, most=16)
    ('2.93 to 8.7', '11.4 or more', '2.93 or more')
    """
    return (
        f"{low:.3g} to {high:.3g}" if high <= most and math.isfinite(high) else f"{low:.3g} or more"
    )


def shape(count: Count) -> str:
    """Format a number of cores that can be run: ``"4 cores"``, ``"12 cores (4 ranks x 3
    threads)"``.
    """
    words = _cores(count.cores)
    if count.ranks is None or count.threads is None or min(count.ranks, count.threads) <= 1:
        return words
    return f"{words} ({count.ranks:g} ranks x {count.threads:g} threads)"


def _sentence(answer: Cores) -> str:
    name = f"{answer.runs.program}: " if answer.runs.program else ""
    chosen, asked = answer.chosen, percent(answer.efficiency)
    if chosen is None and not answer.missed:
        return name + "; ".join(sharing(c) for c in answer.shared)
    step = answer.step.words(answer.measured_cores[1])
    if chosen is None:
        return f"{name}{step}; no law describes the runs: cores for {asked} cannot be said"
    after = "" if answer.following is None else f"; measure at {_cores(answer.following)} next"
    if answer.missed:
        found = (
            f"the {chosen.fit.law.name} law says {number(answer.cores)} for {asked}, but misses "
            "the runs"
        )
        return f"{name}{step}; {found}{after}"
    if answer.few:
        found = between(answer.low, answer.high, FARTHEST * answer.measured_cores[1])
        laws = "the laws fitted" if answer.ties else f"the {chosen.fit.law.name} law"
        counts = f"{answer.runs.core_counts} core counts are too few to choose a law"
        needed = f"{asked} of what any number of cores reaches takes {found} by {laws}"
        return f"{name}{step}; {needed}: {counts}{after}"
    enough, below = answer.whole, answer.below
    if enough is not None and below is None:
        verb = "is" if enough.cores == 1 else "are"
        likely = "" if enough.reaches >= 0.95 else f" ({enough.reaches:.0%} likely)"
        efficiency = reached(enough.efficiency, answer.efficiency)
        return f"{name}{shape(enough)} per GPU {verb} enough for {asked}: {efficiency}{likely}"
    head = f"{name}{span(answer.cores, answer.low, answer.high)} cores per GPU for {asked}"
    if enough is None:
        return f"{head}; no whole number that can be run reaches it"
    if any(_whole(c.cores) != _whole(answer.cores) for c in answer.ties):
        laws = ", ".join(f"{c.fit.law.name} {number(c.cores)}" for c in (chosen, *answer.ties))
        return (
            f"{name}{between(answer.low, answer.high)} cores per GPU for {asked}: the runs do not "
            f"decide between laws ({laws}){after}"
        )
    few = (
        ""
        if below is None
        else f"with {shape(below)} {reached(below.efficiency, answer.efficiency)}, "
    )
    return (
        f"{head}; {few}with {shape(enough)} {reached(enough.efficiency, answer.efficiency)}{after}"
    )


def _cores(count: float) -> str:
    """Format a number of cores with its noun: ``"1 core"``, ``"4 cores"``."""
    return f"{count:g} core{'' if count == 1 else 's'}"


def _whole(cores: float) -> float:
    """Return the next whole number of cores; infinite where no number is enough."""
    return float(math.ceil(cores - EVEN)) if math.isfinite(cores) else math.inf


def sharing(curve: Curve) -> str:
    """Return an oversubscription curve in one sentence."""
    first = curve.steps[0].ranks
    ranks = f"{curve.ranks:g} rank{'' if curve.ranks == 1 else 's'}"
    each = "" if curve.threads == 1 else f" of {curve.threads:g} threads"
    doubt = (
        "single runs, no range"
        if curve.low is None
        else f"90 % range {curve.low:g} to {curve.high:g}"
    )
    if curve.ranks == first:
        then = curve.steps[1]
        return (
            f"sharing a GPU does not pay: {then.ranks:g} ranks{each} gain "
            f"{percent(then.gain or 0.0)} over {first:g} ({doubt})"
        )
    last = ", the most measured" if curve.ranks == curve.steps[-1].ranks else ""
    return (
        f"sharing a GPU pays up to {ranks}{each}{last}: {percent(curve.gain)} faster than with "
        f"{first:g} ({doubt})"
    )


def number(cores: float) -> str:
    """Format a number of cores in three digits."""
    return f"{cores:.3g}" if math.isfinite(cores) else "no number of"


def how_many(count: float) -> str:
    """Format a number of cores with its noun: ``"1 core"``, ``"3.03 cores"``, ``"no number of
    cores"``.
    """
    words = number(count)
    return f"{words} core{'' if words == '1' else 's'}"


def how_it_fits(c: Candidate) -> str:
    """Compare a law that is not excluded with the chosen one, in words."""
    above = c.above or 0.0
    return (
        "fits as well"
        if above < TIE
        else "is not excluded"
        if above < FAR
        else "cannot be excluded by so few runs"
    )


def apart(c: Candidate) -> str:
    """Return how far the AICc of a law is above the lowest; a dash where it has none."""
    if c.fit.aicc is None or math.isinf(c.fit.aicc):
        return "-"
    return f"+{c.above:.1f}" if c.above else "lowest"


def node_sentence(answer: Cores) -> str:
    """Return the efficiency that the node asked about reaches, in one sentence; without a law it is
    unknown.
    """
    name = f"{answer.runs.program}: " if answer.runs.program else ""
    if answer.have is None:
        return f"{name}what this node reaches is not known: no law could be fitted"
    efficiency = reached(answer.have.efficiency, answer.efficiency)
    likely = answer.have.reaches
    if 0.05 < likely < 0.95:
        verdict = f"{likely:.0%} likely to be enough"
    else:
        verdict = "enough" if answer.have.efficiency >= answer.efficiency - EVEN else "not enough"
    given = f"this node's {answer.have.cores:.3g} cores per GPU give {efficiency}"
    return f"{name}{given}: {verdict} for {percent(answer.efficiency)}"
