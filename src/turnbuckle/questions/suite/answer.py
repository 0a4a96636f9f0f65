"""What a suite answers: applications by targets, all of them together, each machine against each
other one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, ClassVar, Final

import polars as pl

from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.findings import Finding, merge
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.projection import Projection
from turnbuckle.questions.suite.portfolio import Estimate, Portfolio
from turnbuckle.questions.suite.recorded import Recorded
from turnbuckle.show.text import NARROW, probability
from turnbuckle.show.verdict import ALONE, OWN

#: Name of the machines that the recordings were made on.
SELF: Final = "self"


@dataclass(frozen=True)
class Ratio(Declared):
    """A number with its 90 % range; both ends are the number itself without draws."""

    value: float
    low: float
    high: float

    def holds(self, other: Ratio) -> bool:
        """Return whether its range is wider than that of another and contains it."""
        return (
            self.low <= other.low
            and other.high <= self.high
            and (self.low, self.high) != (other.low, other.high)
        )


@dataclass(frozen=True)
class Cell(Declared):
    """An application on a target: what `project` answers, of the machine as it is and by its
    coupling alone.

    `unknown` is what decides the former and nothing states; its numbers are NaN then.
    """

    target: str
    title: str
    seconds: float
    penalty: Ratio
    verdict: str
    coupling_seconds: float
    coupling_alone: Ratio
    coupling_verdict: str
    unknown: str = ""


@dataclass(frozen=True)
class Application(Declared):
    """A recording of the workload.

    Attributes
    ----------
    machine : that it was recorded on, in words.
    replay : how its activities were added up.
    cells : on each target, in the order asked.
    projections : behind the cells.
    """

    name: str
    group: str
    weight: float
    share: float
    capability: float
    measured_seconds: float
    machine: str
    replay: str
    cells: tuple[Cell, ...]
    findings: tuple[Finding, ...]
    projections: tuple[Projection, ...] = field(repr=False)
    provenance: dict[str, Any] = field(repr=False)
    recorded: Recorded = field(repr=False)
    accuracy: str = ""


@dataclass(frozen=True)
class Ssi(Declared):
    """Scalable System Improvement over today's machine.

    Attributes
    ----------
    raw : weighted geometric mean, whatever the speedups.
    conformant : the same where every application is as fast as today or faster, as the rule wants;
        None where one is not.
    likely : probability that every application is; None without draws.
    below : names of those that are not.
    """

    raw: Ratio
    conformant: float | None
    likely: float | None
    below: tuple[str, ...]


@dataclass(frozen=True)
class Mix(Declared):
    """Several applications together on one target.

    Attributes
    ----------
    node_hours, coupling_alone : node-hours there for each node-hour of today, and by the coupling
        alone.
    ssi : None for today's machine.
    loses, surely : applications that take longer than today by more than two runs differ, and those
        whose whole range does.
    price, power : of a node-hour and of a node; None if unknown.
    cost : price of the work of one node-hour of today.
    energy : the same work's energy [J].
    unknown : what decides and nothing states, of any application: the numbers with the target's own
        GPU and host are then NaN.
    """

    target: str
    title: str
    node_hours: Ratio
    coupling_alone: Ratio
    throughput: Ratio
    ssi: Ssi | None
    loses: tuple[str, ...]
    surely: tuple[str, ...]
    price: Estimate | None
    power: Estimate | None
    cost: Ratio | None
    energy: Ratio | None
    unknown: str = ""

    @property
    def told(self) -> Ratio:
        """Return the node-hours that a headline speaks of: the answer whose range holds the other,
        else that of the machine as it is.
        """
        return (
            self.coupling_alone
            if self.coupling_alone.holds(self.node_hours) or self.unknown
            else self.node_hours
        )

    @property
    def which(self) -> str:
        """Say which of the two answers `told` is."""
        return (
            OWN[0]
            if self.told is self.node_hours and self.node_hours != self.coupling_alone
            else ALONE
        )


@dataclass(frozen=True)
class Group(Declared):
    """Applications of one group, together on each target."""

    name: str
    share: float
    mixes: tuple[Mix, ...]


@dataclass(frozen=True)
class Versus(Declared):
    """One target against another, for the mix.

    Attributes
    ----------
    beats, beats_by_coupling : probability that the first needs fewer node-hours; ties count half;
        None without draws.
    premium, premium_by_coupling : how much more its node may cost than the other's before the work
        costs more, as a share.
    cheaper : probability that the work costs less there; None without both prices, or draws.
    """

    target: str
    other: str
    beats: float | None
    beats_by_coupling: float | None
    premium: Ratio
    premium_by_coupling: Ratio
    cheaper: float | None


@dataclass(frozen=True)
class Flip(Declared):
    """How the ranking of two targets hangs on one application.

    Attributes
    ----------
    by : ``node-hours`` or ``cost``.
    better, worse : the targets, as they rank today.
    share, flips_at : of the application's node-hours today, and where both targets come to the
        same; None where no share does.
    low, high : 90 % range of `flips_at` over the draws in which some share turns the ranking; None
        where none does, or without draws.
    turns : share of the draws in which some share does; None without draws.
    """

    by: str
    better: str
    worse: str
    application: str
    share: float
    flips_at: float | None
    low: float | None
    high: float | None
    turns: float | None


@dataclass(frozen=True, repr=False)
class Suite(Shown):
    """A workload on several machines.

    Attributes
    ----------
    portfolio : what was asked.
    applications : in the order asked.
    mixes : all applications together: today's machine first, then each target.
    groups : the same for each group; empty without groups.
    versus : each ordered pair of machines.
    flips : the best target beside each other one, for each application.
    draws, seed : that the mix is made of; 0 for none.
    accuracy : how good such predictions were, in words; empty for a question that the card has no
        kind for.
    network : that messages between ranks go over on every target; empty where they keep their
        recorded time.
    """

    question: ClassVar[str] = "suite"

    portfolio: Portfolio
    applications: tuple[Application, ...]
    mixes: tuple[Mix, ...]
    groups: tuple[Group, ...]
    versus: tuple[Versus, ...]
    flips: tuple[Flip, ...]
    draws: int
    seed: int
    command: str = ""
    network: str = ""
    accuracy: str = ""

    @property
    def name(self) -> str:
        """Return what the workload is called."""
        return self.portfolio.name

    @property
    def currency(self) -> str | None:
        """Return the currency of prices; None where none is known."""
        return self.portfolio.currency if any(m.price for m in self.mixes) else None

    @property
    def ranked(self) -> list[Mix]:
        """Return the mixes, the fewest node-hours first, those without numbers last."""
        return sorted(self.mixes, key=lambda m: (bool(m.unknown), m.node_hours.value))

    @property
    def answered(self) -> list[Mix]:
        """Return the mixes that have numbers, the fewest node-hours first."""
        return [m for m in self.ranked if not m.unknown]

    @property
    def findings(self) -> list[Finding]:
        """Return the findings of all recordings; each application has its own."""
        return merge([f for a in self.applications for f in a.findings])

    def pair(self, target: str, other: str) -> Versus:
        """Return one target against another."""
        return next(v for v in self.versus if (v.target, v.other) == (target, other))

    def table(self) -> pl.DataFrame:
        """Return a row for each application, group and target, and for all together (``mix``)."""
        rows: list[dict[str, Any]] = []
        for a in self.applications:
            head = {
                "kind": "application",
                "name": a.name,
                "group": a.group,
                "share": a.share,
                "measured_seconds": a.measured_seconds,
            }
            for c in a.cells:
                said = {
                    "verdict": c.verdict,
                    "coupling_seconds": c.coupling_seconds,
                    "coupling_verdict": c.coupling_verdict,
                }
                rows.append(
                    {
                        **head,
                        "target": c.target,
                        "title": c.title,
                        "seconds": c.seconds,
                        **_flat(c),
                        **said,
                    }
                )
        together = [
            *((("group", g.name, g.share), m) for g in self.groups for m in g.mixes),
            *((("mix", "mix", 1.0), m) for m in self.mixes),
        ]
        for (kind, name, share), m in together:
            money = {
                "cost": m.cost.value if m.cost else None,
                "energy_joules": m.energy.value if m.energy else None,
            }
            ssi = {
                "ssi_raw": m.ssi.raw.value if m.ssi else None,
                "ssi_conformant": m.ssi.conformant if m.ssi else None,
            }
            rows.append(
                {
                    "kind": kind,
                    "name": name,
                    "share": share,
                    "target": m.target,
                    "title": m.title,
                    **_flat(m),
                    **ssi,
                    **money,
                }
            )
        return pl.DataFrame(rows, infer_schema_length=None)

    def headline(self) -> str:
        """Return the best machine for the mix, in one line."""
        best, *rest = self.ranked
        count = len(self.applications)
        words = f"Suite of {count} application{'s' * (count != 1)}: "
        if best.target == SELF:
            words += "no machine asked needs fewer node-hours than today's"
        else:
            hours = best.told
            words += f"{best.which}, {best.title} takes {hours.value:.3f} of today's node-hours"
            words += f" [{hours.low:.2f}, {hours.high:.2f}]" * bool(self.draws)
        beats = self.pair(best.target, rest[0].target).beats if rest else None
        if beats is None:
            return words
        return (
            f"{words}; {probability(beats).replace(NARROW, ' ')} likely fewer than on "
            f"{rest[0].title}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        inputs = [a.provenance["profile"] for a in self.applications]
        machines = {m["name"]: m for a in self.applications for m in a.provenance["targets"]}
        by = {
            "tool": "turnbuckle",
            "version": version("turnbuckle"),
            "profiles": inputs,
            "targets": list(machines.values()),
        }
        return {
            **super().as_dict(),
            "provenance": {**by, "seed": self.seed, "draws": self.draws, "command": self.command},
        }


def _flat(row: Cell | Mix) -> dict[str, float]:
    """Return penalty and range of a row of the table, and by the coupling alone."""
    ratio = row.penalty if isinstance(row, Cell) else row.node_hours
    alone = row.coupling_alone
    names = ("penalty", "low", "high", "coupling_penalty", "coupling_low", "coupling_high")
    return dict(
        zip(
            names,
            (ratio.value, ratio.low, ratio.high, alone.value, alone.low, alone.high),
            strict=True,
        )
    )
