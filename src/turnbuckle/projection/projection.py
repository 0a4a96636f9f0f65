"""The answer: what the run would take on the target, what it is made of, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from turnbuckle.foundation import registry
from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.fields import Declared, Ranged, declared
from turnbuckle.foundation.findings import Finding, finding, merge
from turnbuckle.projection.elsewhere.priors import PAGES, SOURCE_GPU

if TYPE_CHECKING:
    from turnbuckle.projection.elsewhere.network import Carried
    from turnbuckle.projection.elsewhere.staging import Staging

#: Parts of a breakdown, as Groves et al. 2022 (Fig 10) have them; `other` is MPI, other host calls
#: and host work.
PARTS = ("launch", "kernel", "copy", "other")
PART_OF_CATEGORY = {
    "kernel": "kernel",
    "copy": "copy",
    "mpi": "other",
    "api": "other",
    "cpu": "other",
}
#: Keys that both answers of a target have: as the machine is, and by its coupling alone.
BOTH: Final = (
    "verdict seconds measured_seconds kernel_window_seconds penalty benefit interval median "
    "interval_level draws seed envelope "
    "breakdown measured_breakdown change plain_sums measured_plain_sums break_even drivers "
    "staging copies"
)
#: The finding of what decides without being a number of a machine file; of such a number it is
#: A394.
_FINDINGS: Final = {SOURCE_GPU: "M114", PAGES: "A530"}
#: Change that two runs of one configuration show.  Table IV of Shorts and Grant falls by 0.5 %
#: (1.014 to 1.009) where it should rise.
NOISE: Final = 0.005


@dataclass(frozen=True)
class Interval:
    """Quantiles of the projected run time [s] over the drawn parameters.

    `apart` are two ranges that it holds, by the timeline and by the sum, where these have nothing
    in common; None elsewhere.
    """

    low: float
    median: float
    high: float
    level: float
    draws: int
    seed: int
    apart: tuple[tuple[float, float], tuple[float, float]] | None = None

    def joined(self, low: float, high: float, measured: float) -> Interval:
        """Return the interval that holds the sum's range [s] too, if the two lie apart by more than
        `NOISE` and one is faster.

        Of delays alone the sum is the worst case by what it is: there the two differ by what
        overlap hides, and do not contradict.
        """
        gap = max(self.low, low) - min(self.high, high)
        faster = min(self.low, low) < measured * (1.0 - NOISE)
        if gap <= NOISE * max(self.low, low) or not faster:
            return self
        both = ((self.low, self.high), (low, high))
        return replace(self, low=min(self.low, low), high=max(self.high, high), apart=both)


@dataclass(frozen=True)
class CopyClass(Ranged, Declared):
    """Copies of one class, added up, whether other work hides them or not.

    Attributes
    ----------
    direction, memory : the class; ``all`` for the sum of all classes.
    count, size_bytes : copies, and bytes they move [B].
    measured_seconds : as recorded [s]; None where they were not recorded on the source.
    seconds, low, high : on the target, and its interval [s].
    basis : how it was priced, in words.
    """

    direction: str
    memory: str
    count: int
    size_bytes: int
    measured_seconds: float | None
    seconds: float
    low: float
    high: float
    basis: str = ""


@dataclass(frozen=True)
class Copies(CopyClass):
    """All copies of a run on a target: what every question says that is asked how long they take
    (decision D21).

    Attributes
    ----------
    classes : the sum's parts.
    drivers : share of the variance by unknown, largest first; empty where that was not asked for.
    """

    classes: tuple[CopyClass, ...] = ()
    drivers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class KernelClass(Ranged, Declared):
    """Kernels of one class, added up, whether other work hides them or not.

    Attributes
    ----------
    name : class by their names; ``all`` for the sum of all classes.
    basis : what their time on the target rests on (`turnbuckle.projection.elsewhere.kernels`).
    count : kernels.
    measured_seconds : as recorded [s].
    seconds, low, high : on the target, and its interval [s].
    """

    name: str
    basis: str
    count: int
    measured_seconds: float
    seconds: float
    low: float
    high: float

    @property
    def ratio(self) -> float | None:
        """Return how many times faster they run on the target; None where they take no time."""
        return self.measured_seconds / self.seconds if self.seconds else None


@dataclass(frozen=True)
class Kernels(KernelClass):
    """All kernels of a run on a target with another GPU.

    Attributes
    ----------
    classes : the sum's parts, the longest first.
    """

    classes: tuple[KernelClass, ...] = ()


def copy_class(direction: str, memory: str) -> tuple[str, str]:
    """Return the class that a copy is counted in: its direction and kind of host memory, or
    ``device`` where no host is part of it.
    """
    return direction, "device" if direction in ("d2d", "p2p") else memory or "unknown"


def copy_order(direction: str, memory: str) -> tuple[int, str, str]:
    """Return the place of a class of copies among others."""
    order = ("h2d", "d2h", "d2d", "p2p")
    return order.index(direction) if direction in order else len(order), direction, memory


@dataclass(frozen=True)
class Projection(Declared):
    """One run projected on one target.

    Attributes
    ----------
    target, title : the machine.
    model, replay : how the answer was made.
    seconds, measured_seconds : projected and recorded run time [s].
    measured_breakdown : exposed time by part [s], along the critical path by the timeline; the
        parts add up to the recorded run time.
    change : which parts the change of the run time comes from [s]; they add up to it.
    breakdown : their sum [s]; the parts add up to the run time, and none is below nothing.
    envelope : what no other order of the same activities could leave [s]: all savings exposed, all
        delays exposed.
    coupling : the change in link, latency and bandwidth that the ratio stands for (decision D17).
    order : how far the recorded order can be trusted: share of the critical path that rules
        explain, and where the rest is; empty where nobody asked for the timeline.
    interval : from the errors of all parameters; None where nothing was drawn.
    drivers : share of the interval's variance by parameter, largest first.
    host : how many times longer the target's host takes for the code between calls; None where it
        is the source's host.
    alone : the same target with the kernels and the host of the recording, where it has others:
        what the coupling changes.
    nic_bound : share of the bytes by direction that go on to the network card, so that their copies
        keep their time; empty where nothing tells.
    network : the networks that the messages were priced on; None where messages keep their recorded
        time.
    kept_network_seconds : projected run time on the network of the recording [s]; None as above.
    staging : the copies that stage messages, and the run without them by GPUDirect; None where
        nothing does, or by the sum.
    copies : the time of all copies, exposed or not; None where nobody asked for it or the run has
        none.
    kernels : the time of all kernels on another GPU, exposed or not; None where the target keeps
        the recording's, or nothing was drawn.
    sample : the drawn run times [s], common draws for all targets of one call.
    findings : what was assumed, missing or out of range.
    plain_sums, measured_plain_sums : launches, kernels and copies added up, hidden behind other
        work or not [s].
    unknown : what decides the answer and nothing states, as ``FP64 of gb300``; empty where the
        answer has its numbers.
    kernel_window_seconds, measured_kernel_window_seconds : projected and recorded time from the
        first kernel's start to the last kernel's end [s], as Groves et al. report a run; None by
        the sum, which has no instants, and without kernels of their own rows.
    """

    target: str
    title: str
    model: str
    replay: str
    seconds: float
    measured_seconds: float
    breakdown: dict[str, float]
    measured_breakdown: dict[str, float]
    envelope: tuple[float, float]
    coupling: dict[str, Any]
    alpha: float | None = None
    order: dict[str, Any] = field(default_factory=dict)
    change: dict[str, float] = field(default_factory=dict)
    interval: Interval | None = None
    drivers: dict[str, float] = field(default_factory=dict)
    host: float | None = None
    alone: Projection | None = field(default=None, repr=False)
    nic_bound: dict[str, float] = field(default_factory=dict)
    network: Carried | None = None
    kept_network_seconds: float | None = None
    staging: Staging | None = None
    copies: Copies | None = None
    kernels: Kernels | None = None
    sample: Float | None = field(default=None, repr=False)
    findings: list[Finding] = field(default_factory=list)
    kernel_window_seconds: float | None = None
    measured_kernel_window_seconds: float | None = None
    unknown: str = ""
    plain_sums: dict[str, float] = field(default_factory=dict)
    measured_plain_sums: dict[str, float] = field(default_factory=dict)

    def unanswered(self, unknown: str) -> Projection:
        """Return the same projection without its numbers, since `unknown` decides them; what the
        coupling alone changes stays.
        """
        return replace(
            self,
            unknown=unknown,
            seconds=math.nan,
            breakdown=dict.fromkeys(self.breakdown, math.nan),
            change=dict.fromkeys(self.change, math.nan),
            plain_sums=dict.fromkeys(self.plain_sums, math.nan),
            envelope=(math.nan, math.nan),
            alpha=None,
            interval=None,
            drivers={},
            staging=None,
            kept_network_seconds=None,
            kernels=None,
            sample=None,
            kernel_window_seconds=None,
            findings=merge([*self.findings, finding(_FINDINGS.get(unknown, "A394"), 1, unknown)]),
        )

    def drawn(self, draws: int) -> Projection:
        """Return a projection without numbers with as many draws of none, for what is made of
        several projections.
        """
        return replace(self, sample=np.full(draws, math.nan) if draws else None)

    @property
    def as_recorded(self) -> bool:
        """Return whether this is the recorded run: its own machine, on its own network."""
        return self.target == "self" and self.network is None

    @property
    def penalty(self) -> float:
        """Return the projected over measured run time; above 1 is slower."""
        return penalty(self.seconds, self.measured_seconds)

    @property
    def benefit(self) -> float:
        """Return the measured over projected run time; above 1 is faster."""
        return self.measured_seconds / self.seconds if self.seconds else float("inf")

    @property
    def by_coupling(self) -> Projection:
        """Return what the coupling alone changes: the projection itself where the target has the
        recording's kernels and host.
        """
        return self.alone or self

    @property
    def coupling_alone(self) -> dict[str, Any]:
        """Return the keys `BOTH` of what the coupling alone changes, for the JSON document."""
        return declared(self.by_coupling, BOTH.split())

    def as_row(self) -> dict[str, Any]:
        """Return the columns of a table of projections; those that begin with ``coupling_`` are of
        what the coupling alone changes.
        """
        about = {
            "cannot_say": self.unknown,
            "measured_seconds": self.measured_seconds,
            "kernel_alpha": self.alpha,
        }
        alone = {f"coupling_{name}": value for name, value in self.by_coupling._columns.items()}
        return {"target": self.target, "title": self.title, **self._columns, **about, **alone}

    @property
    def _columns(self) -> dict[str, Any]:
        """Return the columns that both answers have."""
        low, high = self.ends
        times = {
            "seconds": self.seconds,
            "low_seconds": low,
            "high_seconds": high,
            "kernel_window_seconds": self.kernel_window_seconds,
        }
        parts = {f"{part}_seconds": value for part, value in self.breakdown.items()}
        return {
            "verdict": self.verdict,
            **times,
            "penalty": self.penalty,
            "benefit": self.benefit,
            **parts,
        }

    @property
    def kernels_and_host(self) -> float:
        """Return how many times longer the run takes by the target's kernels and host; 1 where they
        are the recording's.
        """
        return self.seconds / self.by_coupling.seconds if self.by_coupling.seconds else 1.0

    @property
    def verdict(self) -> str:
        """Return what the target does to the run time, in the words of
        `turnbuckle.show.verdict`.
        """
        words: str = registry.load("services", "verdict in words")(self)
        return words

    @property
    def ends(self) -> tuple[float, float]:
        """Return the ends of the interval [s]; the answer itself where nothing was drawn."""
        return (
            (self.interval.low, self.interval.high)
            if self.interval
            else (self.seconds, self.seconds)
        )

    @property
    def median(self) -> float:
        """Return the median of the draws [s]; the answer itself where nothing was drawn."""
        return self.interval.median if self.interval else self.seconds

    @property
    def draws(self) -> int:
        """Return how many machines the interval was drawn from."""
        return self.interval.draws if self.interval else 0

    @property
    def utilisation_factor(self) -> float:
        """Return how much better used a pooled GPU must be to pay, at equal cost."""
        return break_even_utilisation(self.penalty)


def penalty(seconds: float, measured_seconds: float) -> float:
    """Return a projected over the measured run time [s]."""
    return seconds / measured_seconds if measured_seconds else 1.0


def break_even_utilisation(slowdown: float, cost_adder: float = 0.0) -> float:
    """Return how much better used a pooled GPU must be to pay: pooling pays when U_pooled > U_local
    x s x (1 + f).

    Parameters
    ----------
    slowdown : s = T_pooled / T_local.
    cost_adder : f, what the fabric adds to the cost of a GPU, as a fraction.

    >>> round(break_even_utilisation(1.05, 0.1), 3)
    1.155
    """
    return slowdown * (1.0 + cost_adder)


_Time = TypeVar("_Time", float, "Float")


def break_even_premium(time: _Time, other: _Time | float = 1.0, use: float = 1.0) -> _Time:
    """Return how much more a machine may cost than another before the same work costs more on it;
    -0.1 is 10 % less.

    It is the cost adder at which `break_even_utilisation` asks for `use`.

    Parameters
    ----------
    time, other : time for a unit of work on the machine and on the other one, in the same unit.
    use : how many times as much the machine is used as the other one.

    >>> round(break_even_premium(1.05), 4), round(break_even_premium(1.05, use=break_even_utilisation(1.05, 0.1)), 4)
    (-0.0476, 0.1)
    """
    return use * other / time - 1.0


def faster(projections: list[Projection]) -> dict[str, dict[str, float]]:
    """Return P(row is faster than column) over common draws.

    Empty for projections without draws.
    """
    drawn = [p for p in projections if p.sample is not None]
    out: dict[str, dict[str, float]] = {}
    for a in drawn:
        for b in drawn:
            if a is not b and a.sample is not None and b.sample is not None:
                out.setdefault(a.target, {})[b.target] = chance_faster(a.sample, b.sample)
    return out


def chance_faster(sample: Float, other: Float) -> float:
    """Return the probability that the first takes less time, from common draws of both, shapes
    (draws,).

    Draws that differ by less than two runs of one configuration (`NOISE`) are ties, which count
    half.
    """
    gain = other - sample
    least = NOISE * np.maximum(sample, other)
    return float(np.mean(gain > least) + 0.5 * np.mean(np.abs(gain) <= least))
