"""How much distance a run tolerates: run time against added one-way latency between host and
device, exactly.

`network` asks how far the nodes may stand apart (`turnbuckle.questions.distance.network`).  Of the
GPU there are three ways to be far away, and they can differ by an order of magnitude on one
profile:

`link`  the fabric is longer (a composable PCIe or CXL switch, an optical cable).  Asynchronous calls stay asynchronous; every
        one-way trip an operation waits for takes longer, and reads of host memory lose bandwidth once the requests in
        flight cannot cover the round trip (decision D12).
`api`   every crossing call blocks: it sleeps for the delay, as in Shorts and Grant.  A stand-in for a network, not a model of one.
`remoting`  a layer of software sends the calls over a network: what each class of calls waits for is the layer's, a machine of its own
        (decision D22).  What varies is the round trip; its software and its bandwidths stay.

The run time is the timeline's; see `turnbuckle.projection.sensitivity` for why a curve has corners
and nothing between them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np
import polars as pl

from turnbuckle._native import student_quantile
from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.units import show
from turnbuckle.machine import Machine, Parameter, load
from turnbuckle.machine.fabric import Pcie
from turnbuckle.machine.hops import fibre_metres, hops
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.projection.assumptions import uncalled
from turnbuckle.projection.elsewhere.network import Carried, OnNetwork, on_other
from turnbuckle.projection.order import Prepared, on_network
from turnbuckle.projection.projection import break_even_utilisation
from turnbuckle.projection.run import Run
from turnbuckle.projection.sensitivity import MOST, Curve, Share, along, shares
from turnbuckle.projection.uncertainty import SEED, affordable
from turnbuckle.questions.distance.carriers import Carrier, carriers
from turnbuckle.questions.distance.distance import FARTHEST, MODEL, NEAREST, Distance, Mode
from turnbuckle.questions.distance.starvation import Starvation, starved_seconds
from turnbuckle.replay.timeline import TimelineReplay, no_change, parameters
from turnbuckle.replay.trust import Trust

#: Points shown a decade.
PER_DECADE: Final = 4
#: Lengthening of the run at which a tolerance is given.
THRESHOLDS: Final = (0.01, 0.02, 0.05, 0.10)
STRETCHES: Final = (1e-5, 1e-4, 1e-3, 1e-2)
_MEDIAN: Final = math.pi / 2
#: Instants times breakpoints of one stretch of a curve, unless the caller says how many; never
#: fewer breakpoints than the second.
_PLACES, _FEWEST = 2_400_000_000, 64


@dataclass(frozen=True)
class Tolerance:
    """The added latency that lengthens the run by a given share.

    Attributes
    ----------
    share : lengthening as a share of the recorded run time, such as 0.05.
    slack : the largest added one-way latency (`remoting`: round trip) within it [s]; None where
        even the farthest distance stays within.
    interval : the same at the 5 % and 95 % quantile of what is not known of the fabric, None as
        above; None where nothing was drawn.
    """

    share: float
    slack: float | None
    interval: tuple[float | None, float | None] | None

    @property
    def low(self) -> float | None:
        """Return the lower end of the interval [s], or the tolerance itself where nothing was
        drawn.
        """
        return self.interval[0] if self.interval else self.slack

    @property
    def high(self) -> float | None:
        """Return the upper end of the interval [s], or the tolerance itself where nothing was
        drawn.
        """
        return self.interval[1] if self.interval else self.slack


@dataclass(frozen=True, repr=False)
class Slack(Shown):
    """Run time of one recorded run against added distance.

    Attributes
    ----------
    curve : run time [s] against added one-way latency (`remoting`: the round trip) [s], with every
        breakpoint.
    tolerances : per threshold.
    shares : classes of time on the recorded critical path, the largest first; they add up to the
        run time.
    repeats : run times of the recorded run and of others of its kind [s]; their spread gives
        `interval`.
    starved : run time with the cost of idle gaps on top, at the latencies shown; None where no such
        curve was given.
    assumed : the parameters of reads in flight that had to be assumed.
    network : the networks that the messages were priced on; None where messages keep their recorded
        time.
    band : range of the run time over all that is uncertain; None where nothing was drawn.
    """

    question: ClassVar[str] = "distance"

    run: Run
    mode: Mode
    measured: float
    curve: Curve
    tolerances: tuple[Tolerance, ...]
    carriers: tuple[Carrier, ...]
    carried_at: float
    trust: Trust
    shares: list[Share]
    repeats: tuple[float, ...] = ()
    starved: Curve | None = None
    assumed: Mapping[ParameterName, Parameter] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    layer: str = ""
    network: Carried | None = None
    band: Range | None = None
    pcie: Pcie = "whole"

    @property
    def messages_on_path(self) -> float | None:
        """Return how many latencies of the network lie on the critical path at `carried_at`; None
        in the other modes.
        """
        if self.mode != "network":
            return None
        return float(
            self.curve.slopes[
                min(
                    int(np.searchsorted(self.curve.at, self.carried_at, side="right")),
                    len(self.curve.at) - 1,
                )
                - 1
            ]
        )

    @property
    def trips(self) -> int:
        """Return how many one-way trips the curve counts as one: two in a round trip."""
        return 2 if self.mode == "remoting" else 1

    def one_way(self) -> Slack:
        """Return the same answer over one-way latency, as figures draw it."""
        if self.trips == 1:
            return self

        def half(value: float | None) -> float | None:
            return None if value is None else value / 2

        curve = replace(self.curve, at=self.curve.at / 2, slopes=self.curve.slopes * 2)
        tolerances = tuple(
            Tolerance(
                t.share, half(t.slack), t.interval and (half(t.interval[0]), half(t.interval[1]))
            )
            for t in self.tolerances
        )
        band = self.band and replace(
            self.band,
            latencies=self.band.latencies / 2,
            tolerated=tuple((half(a), half(b)) for a, b in self.band.tolerated),
        )
        return replace(
            self, curve=curve, tolerances=tolerances, carried_at=self.carried_at / 2, band=band
        )

    def penalty(self, slack: float) -> float:
        """Return the run time at an added latency [s], relative to the recorded run time."""
        return float(self.curve(slack)) / self.measured if self.measured else 1.0

    def interval(self, slack: float, of: int = 1) -> tuple[float, float] | None:
        """Return the 90 % interval of another run's time at an added latency [s]; None without
        `repeats`.

        With `of` above 1, the interval is that of the median of so many runs.
        """
        if not self.repeats:
            return None
        return around(float(self.curve(slack)), self.measured, self.repeats, of)

    def range(self, slack: float) -> tuple[float, float] | None:
        """Return the 90 % range of the run time at an added latency [s], over all that is
        uncertain; None where nothing was drawn.
        """
        return None if self.band is None else self.band(slack)

    def tolerance(self, share: float) -> float | None:
        """Return the added one-way latency that lengthens the run by a share [s]; None where the
        farthest distance does not.
        """
        return self.curve.reaches(self.measured * (1 + share))

    def table(self) -> pl.DataFrame:
        """Return run time and penalty at the latencies shown, with the range where it was drawn,
        and that of one more run with `repeats`.

        Columns: ``slack_s``, ``seconds``, ``penalty``, ``lower``, ``upper``, ``low_seconds``,
        ``high_seconds``.
        """
        latencies = [0.0, *(float(s) for s in shown())]
        rows: dict[str, list[float]] = {
            "slack_s": latencies,
            "seconds": [float(self.curve(s)) for s in latencies],
            "penalty": [self.penalty(s) for s in latencies],
        }
        if self.band is not None:
            rows["lower"], rows["upper"] = (
                list(side) for side in zip(*(self.band(s) for s in latencies), strict=True)
            )
        if self.repeats:
            rows["low_seconds"], rows["high_seconds"] = (
                list(side)
                for side in zip(*(self.interval(s) or () for s in latencies), strict=True)
            )
        return pl.DataFrame(rows)

    def headline(self) -> str:
        """Return the answer in one line."""
        tolerances = [
            f"{t.share:.0%} longer "
            + ("nowhere" if t.slack is None else f"at {show(t.slack, 's')}")
            for t in self.tolerances
        ]
        mode = self.mode + (f" by {self.layer}" if self.layer else "")
        return (
            f"Slack ({mode}): {self.run.trace.name}, recorded {show(self.measured, 's')}; "
            f"{', '.join(tolerances)}"
        )

    def shown(self) -> Float:
        """Return the latencies that a table shows [s]."""
        return shown()

    def points(self) -> list[dict[str, Any]]:
        """Return the curve at zero and at the latencies shown: run time with its range, penalty,
        interval of one more run, idle gaps.
        """
        return [
            {
                "slack_s": slack,
                "seconds": float(self.curve(slack)),
                "lower": None if self.band is None else self.band(slack)[0],
                "upper": None if self.band is None else self.band(slack)[1],
                "penalty": self.penalty(slack),
                "interval": self.interval(slack),
                "starved_seconds": None if self.starved is None else float(self.starved(slack)),
            }
            for slack in (0.0, *(float(s) for s in shown()))
        ]

    def breakpoints(self) -> list[dict[str, float]]:
        """Return latency [s], run time [s] and the slope on either side at each corner of the
        curve.
        """
        curve = self.curve
        corners = zip(
            curve.at[1:-1], curve.seconds[1:-1], curve.slopes[:-1], curve.slopes[1:], strict=True
        )
        return [
            {
                "slack_s": float(s),
                "seconds": float(t),
                "slope_before": float(a),
                "slope_after": float(b),
            }
            for s, t, a, b in corners
        ]

    def by_share(self) -> dict[str, Tolerance]:
        """Return the tolerances by their share in per cent."""
        return {f"{t.share:.0%}": t for t in self.tolerances}

    def hops(self) -> list[dict[str, Any]]:
        """Return the cost of well-known distances.

        Each row has the one-way latency [s], the run time [s], the penalty, and how much better
        used a GPU at that distance must be.
        """
        rows = []
        for hop in hops():
            added = hop.one_way * self.trips
            penalty = self.penalty(added)
            row = {
                "hop": hop.name,
                "one_way_s": hop.one_way,
                "seconds": float(self.curve(added)),
                "penalty": penalty,
            }
            rows.append(
                {**row, "utilisation_factor": break_even_utilisation(penalty), "source": hop.source}
            )
        return rows

    def critical_path(self) -> list[dict[str, Any]]:
        """Return the classes of time on the recorded critical path.

        Each row has its seconds, the change of run time if the class gets faster or slower [s], and
        its elasticity.
        """
        return [
            {
                "what": s.what,
                "seconds": s.seconds,
                "left": s.left,
                "right": s.right,
                "elasticity": s.elasticity(self.measured),
            }
            for s in self.shares
        ]

    @property
    def fibre_metres(self) -> float:
        """Return the length of fibre that delays a signal by one second [m/s]."""
        return fibre_metres(1.0)

    @property
    def all_findings(self) -> list[Finding]:
        """Return the findings of the run, then those of this answer."""
        return [*self.run.findings, *self.findings]


def tolerate(
    seen: Run,
    mode: Mode = "link",
    *,
    draws: int | None = None,
    seed: int = SEED,
    ready: Prepared | None = None,
    most: int | None = None,
    starvation: Starvation | None = None,
    classes: Sequence[str] = (),
    repeats: Sequence[float] = (),
    machine: Machine | str | None = None,
    network: OnNetwork | str | None = None,
    pcie: Pcie = "whole",
) -> Slack:
    """Return the run time of an inspected profile against added distance.

    Parameters
    ----------
    seen : the inspected profile, from `inspect`.
    mode : link, api, remoting, or network.
    draws, seed : of the range of the curve and of each tolerance; 0 draws leave them out, None is
        as many as `project` draws of this run.
    ready : the profile prepared for the timeline, if that has been done.
    starvation : measured cost of idle gaps, replayed at the latencies shown, on top of the curve;
        None leaves it out.
    most : breakpoints looked for on each stretch of the curve; None is as many as a run of its size
        affords.  `Curve.gap` says the error.
    classes : api: only calls of these classes are delayed; empty is every call that crosses to the
        device.
    repeats : run times of other runs of the same kind, over the same stretch [s]; empty leaves out
        the intervals of run times.
    machine : remoting: the machine, or its name or file, whose layer the calls go through; its
        round trip is what varies.
    pcie : link: ``whole`` for a fabric that carries PCIe from end to end, ``local`` for one that
        ends it at both sides.

    network : the network that messages are replayed on, by name or with settings; None keeps their
        recorded time.

    Raises
    ------
    CannotAnswer : A164, A193, as `turnbuckle.projection.elsewhere.network` has them.
    UsageError : A015 for classes, a machine or `pcie` in another mode, or a machine without a
        remoting layer; A004 for an unknown class; A427 for a run time that is none.
    """
    seen = seen.judged
    sound_repeats(repeats)
    carried_by = on_other(network)
    if carried_by is not None:
        ready = on_network(seen.between, ready or seen.prepared(MODEL), carried_by)
    distance = Distance.of(
        seen, mode, ready, classes, None if machine is None else load(machine), pcie
    )
    replay, measured = distance.replay, seen.profile.seconds
    beyond = measured - float(replay.graph.time_ns.max()) * 1e-9
    most = most or breakpoints_affordable(replay)
    # in several parts, so that short latencies are resolved as finely as long ones
    curve = along(
        replay, distance.change, [0.0, *distance.kinks(), *STRETCHES, FARTHEST], beyond, most
    )
    # no distance is the recorded run, to the nanosecond; a layer's software costs time without any
    unchanged = (
        curve.seconds[0]
        if mode != "remoting" and carried_by is None
        else float(replay.seconds(no_change(len(replay.run)))) + beyond
    )
    curve = replace(curve, seconds=curve.seconds + (measured - unchanged))
    reached = [curve.reaches(measured * (1 + share)) for share in THRESHOLDS]
    band = Range.of(
        distance, curve, measured, affordable(distance.ready) if draws is None else draws, seed
    )
    intervals = band.tolerated if band is not None else (None,) * len(THRESHOLDS)
    tolerances = tuple(Tolerance(*t) for t in zip(THRESHOLDS, reached, intervals, strict=True))
    carried_at = next((t.slack for t in reversed(tolerances) if t.slack), FARTHEST)
    carried = carriers(seen.profile, replay, curve, distance.change, carried_at)
    assert distance.ready.trust is not None
    findings = [
        finding("A309", 1, distance.ready.trust.words()),
        *uncalled(seen.profile),
        *distance.unpriced(),
    ]
    starved = None
    if starvation is not None:
        points = np.concatenate([[0.0], shown()])
        values = np.broadcast_to(
            distance.change(points[:, None]).values, (len(points), parameters(len(replay.run)))
        )
        seconds = starved_seconds(seen.profile, replay, values, starvation)
        starved = Curve(
            points, seconds + (measured - seconds[0]), np.diff(seconds) / np.diff(points), 0.0
        )
    return Slack(
        run=seen,
        mode=mode,
        measured=measured,
        curve=curve,
        tolerances=tolerances,
        carriers=tuple(carried),
        carried_at=carried_at,
        trust=distance.ready.trust,
        shares=shares(replay, beyond),
        repeats=(measured, *repeats) if repeats else (),
        starved=starved,
        assumed=distance.assumed,
        findings=findings,
        layer=distance.layer.name if distance.layer is not None else "",
        network=distance.ready.network,
        band=band,
        pcie=pcie,
    )


def sound_repeats(repeats: Sequence[float]) -> None:
    """Refuse run times of other runs that are none (A427)."""
    if any(not 0 < seconds < math.inf for seconds in repeats):
        raise error_of("A427", found=", ".join(f"{s:g} s" for s in repeats))


def breakpoints_affordable(replay: TimelineReplay) -> int:
    """Return how many breakpoints of one stretch a run of its size affords."""
    return min(max(_PLACES // len(replay.graph.time_ns), _FEWEST), MOST)


def around(
    seconds: float, measured: float, repeats: Sequence[float], of: int = 1
) -> tuple[float, float]:
    """Return the 90 % interval [s] of a predicted run time, from the spread of `repeats`.

    The prediction was replayed from a run of `measured` seconds. The logarithms of the repeats are
    taken as normally distributed. The interval is Student's t around their median, for one new run
    or for the median of `of` new runs. The added time does not vary.
    """
    logs = np.log(repeats)
    middle, count = float(np.median(logs)), len(repeats)
    # the variance of a median of n normal values is pi / 2 n, of one value 1 / n
    new = 1.0 if of == 1 else _MEDIAN / of
    reach = (
        student_quantile(count - 1, 0.95)
        * float(logs.std(ddof=1))
        * math.sqrt(new + _MEDIAN / count)
    )
    low, high = (math.exp(middle + sign * reach) - measured for sign in (-1, 1))
    return seconds + low, seconds + high


def shown() -> Float:
    """Return the latencies a table shows [s]: `PER_DECADE` in each decade from `NEAREST` to
    `FARTHEST`.
    """
    decades = np.log10(FARTHEST / NEAREST)
    return np.append(
        NEAREST * 10 ** (np.arange(round(decades * PER_DECADE)) / PER_DECADE), FARTHEST
    )


@dataclass(frozen=True)
class Range:
    """The 90 % range of the run time at added latencies, and of what is tolerated, over everything
    uncertain; all from the same draws.

    Attributes
    ----------
    latencies : those added [s], shape (latencies,).
    lower, upper : ends of the range of the run time there [s].
    tolerated : per threshold the range of the tolerance [s], None where even the farthest distance
        stays within.
    """

    latencies: Float
    lower: Float
    upper: Float
    tolerated: tuple[tuple[float | None, float | None], ...]

    def __call__(self, slack: float) -> tuple[float, float]:
        """Return the range at a latency [s]; between two latencies drawn it lies on straight
        lines.
        """
        return float(np.interp(slack, self.latencies, self.lower)), float(
            np.interp(slack, self.latencies, self.upper)
        )

    @classmethod
    def of(
        cls, distance: Distance, curve: Curve, measured: float, draws: int, seed: int
    ) -> Range | None:
        """Draw the range of a curve; None without draws."""
        if not draws:
            return None
        exact = [curve.reaches(measured * (1 + share)) for share in THRESHOLDS]
        trips = 2 if distance.mode == "remoting" else 1
        latencies = np.unique(
            [0.0, *shown(), *(hop.one_way * trips for hop in hops()), *(s for s in exact if s)]
        )
        drawn = distance.drawn(latencies, draws, seed)
        stated = curve(latencies)
        # an order that may be wrong only ever widens what the replay says, and the answer as stated
        # lies inside
        ends = [np.quantile(sample, [0.05, 0.95], axis=1) for sample in drawn]
        lower, upper = (
            np.minimum.reduce([stated, *(e[0] for e in ends)]),
            np.maximum.reduce([stated, *(e[1] for e in ends)]),
        )
        reached = (_reached(latencies, sample, measured) for sample in drawn)
        quantiles = [
            np.quantile(sample, [0.05, 0.95], axis=1, method="nearest") for sample in reached
        ]
        # the stated values are inside, whatever the draws and the latencies between make of the
        # edges
        inside = np.array([np.inf if s is None else s for s in exact])
        low, high = (
            np.minimum.reduce([inside, *(q[0] for q in quantiles)]),
            np.maximum.reduce([inside, *(q[1] for q in quantiles)]),
        )
        return cls(
            latencies,
            lower,
            upper,
            tuple(
                (_within(a), _within(b)) for a, b in zip(low.tolist(), high.tolist(), strict=True)
            ),
        )


def _reached(latencies: Float, seconds: Float, measured: float) -> Float:
    """Return where drawn curves, shape (latencies, draws), reach each threshold as `Curve.reaches`
    has it; infinite where none does.

    Shape (thresholds, draws).
    """
    out = np.full((len(THRESHOLDS), seconds.shape[1]), np.inf)
    draws = np.arange(seconds.shape[1])
    for row, share in zip(out, THRESHOLDS, strict=True):
        limit = measured * (1 + share)
        above = seconds > limit
        k = np.argmax(above, axis=0)
        before = np.maximum(k - 1, 0)
        rise = np.where(k > 0, seconds[k, draws] - seconds[before, draws], 1.0)
        on_line = (
            latencies[before]
            + (limit - seconds[before, draws]) * (latencies[k] - latencies[before]) / rise
        )
        row[:] = np.where(above.any(axis=0), np.where(k > 0, on_line, latencies[0]), np.inf)
    return out


def _within(slack: float) -> float | None:
    return None if math.isinf(slack) else slack
