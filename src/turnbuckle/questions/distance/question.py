"""How much distance a run tolerates: run time against added one-way latency between host and device, exactly.

`network` asks how far the nodes may stand apart (`turnbuckle.questions.distance.network`).  Of the GPU there are three ways to be far away,
and they can differ by an order of magnitude on one profile:

`link`  the fabric is longer (a composable PCIe or CXL switch, an optical cable).  Asynchronous calls stay asynchronous; every
        one-way trip an operation waits for takes longer, and reads of host memory lose bandwidth once the requests in
        flight cannot cover the round trip (decision D12).
`api`   every crossing call blocks: it sleeps for the delay, as in Shorts and Grant.  A stand-in for a network, not a model of one.
`remoting`  a layer of software sends the calls over a network: what each class of calls waits for is the layer's, a machine of its own
        (decision D22).  What varies is the round trip; its software and its bandwidths stay.

The run time is the timeline's; see `turnbuckle.projection.sensitivity` for why a curve has corners and nothing between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np
import polars as pl

from turnbuckle.cost.slack import slack_seconds
from turnbuckle.foundation.arrays import Bool, Float, Int
from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.units import show
from turnbuckle.machine import Machine, Pair, Parameter, load
from turnbuckle.machine.hops import fibre_metres, hops
from turnbuckle.machine.parameter_names import READS_IN_FLIGHT, ParameterName
from turnbuckle.profile.classify import BOUNDARY_CLASSES
from turnbuckle.profile.pieces import Pieces
from turnbuckle.projection.admission import require_activity, require_calls, require_order
from turnbuckle.projection.anchor import anchored
from turnbuckle.projection.assumptions import uncalled
from turnbuckle.projection.elsewhere.network import Carried, OnNetwork
from turnbuckle.projection.model import Model, Priced, link_bandwidth, nething
from turnbuckle.projection.order import Prepared, changed, on_network
from turnbuckle.projection.projection import break_even_utilisation
from turnbuckle.projection.run import Run, on_other
from turnbuckle.projection.sensitivity import MOST, Curve, Share, along, shares
from turnbuckle.projection.shown import Shown
from turnbuckle.projection.uncertainty import SEED, DrawnMachine, drawn_source, drawn_target
from turnbuckle.questions.distance.carriers import Carrier, carriers
from turnbuckle.questions.distance.reads_in_flight import covered, covered_draws, window
from turnbuckle.questions.distance.starvation import Starvation, starved_seconds
from turnbuckle.replay.timeline import Change, TimelineReplay, no_change, parameters
from turnbuckle.replay.trust import Trust

Mode = Literal["link", "api", "remoting", "network"]

#: Those that need no machine.
MODES: Final[tuple[Mode, ...]] = ("link", "api")
#: Added one-way latencies asked about [s], and points shown a decade.
NEAREST, FARTHEST, PER_DECADE = 100e-9, 100e-3, 4
#: Lengthening of the run at which a tolerance is given.
THRESHOLDS: Final = (0.01, 0.02, 0.05, 0.10)
#: The machine whose assumptions on reads stand in where the source machine gives none.
_FABRIC: Final = "cdi-rack-link"
DRAWS: Final = 100
STRETCHES: Final = (1e-5, 1e-4, 1e-3, 1e-2)
#: Prices of a run whose kernels keep their recorded times.
MODEL: Final = replace(nething("hold"), replay="timeline")
_MEDIAN: Final = math.pi / 2
#: Points of the grid that tolerances of draws are read from.
_GRID: Final = 24
#: Instants times breakpoints of one stretch of a curve, unless the caller says how many; never fewer breakpoints than the second.
_PLACES, _FEWEST = 2_400_000_000, 64
#: Scenarios times instants of the spread of tolerances, at most.
_WORK: Final = 400_000_000
#: Scenarios times parameters of one replay of many.
_ROWS: Final = 4_000_000


@dataclass(frozen=True)
class Tolerance:
    """The added latency that lengthens the run by a given share.

    Attributes
    ----------
    share : lengthening as a share of the recorded run time, such as 0.05.
    slack : the largest added one-way latency (`remoting`: round trip) within it [s]; None where even the farthest distance stays within.
    interval : the same at the 5 % and 95 % quantile of what is not known of the fabric, None as above; None where nothing was drawn.
    """

    share: float
    slack: float | None
    interval: tuple[float | None, float | None] | None

    @property
    def low(self) -> float | None:
        """Return the lower end of the interval [s], or the tolerance itself where nothing was drawn."""
        return self.interval[0] if self.interval else self.slack

    @property
    def high(self) -> float | None:
        """Return the upper end of the interval [s], or the tolerance itself where nothing was drawn."""
        return self.interval[1] if self.interval else self.slack


@dataclass(frozen=True, repr=False)
class Slack(Shown):
    """Run time of one recorded run against added distance.

    Attributes
    ----------
    curve : run time [s] against added one-way latency (`remoting`: the round trip) [s], with every breakpoint.
    tolerances : per threshold.
    shares : classes of time on the recorded critical path, the largest first; they add up to the run time.
    repeats : run times of the recorded run and of others of its kind [s]; their spread gives `interval`.
    starved : run time with the cost of idle gaps on top, at the latencies shown; None where no such curve was given.
    assumed : the parameters of reads in flight that had to be assumed.
    network : the networks that the messages were priced on; None where messages keep their recorded time.
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

    @property
    def messages_on_path(self) -> float | None:
        """Return how many latencies of the network lie on the critical path at `carried_at`; None in the other modes."""
        if self.mode != "network":
            return None
        return float(self.curve.slopes[min(int(np.searchsorted(self.curve.at, self.carried_at, side="right")), len(self.curve.at) - 1) - 1])

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
            Tolerance(t.share, half(t.slack), t.interval and (half(t.interval[0]), half(t.interval[1]))) for t in self.tolerances
        )
        return replace(self, curve=curve, tolerances=tolerances, carried_at=self.carried_at / 2)

    def penalty(self, slack: float) -> float:
        """Return the run time at an added latency [s], relative to the recorded run time."""
        return float(self.curve(slack)) / self.measured if self.measured else 1.0

    def interval(self, slack: float, of: int = 1) -> tuple[float, float] | None:
        """Return the 90 % interval of another run's time at an added latency [s]; None without `repeats`.

        With `of` above 1, the interval is that of the median of so many runs.
        """
        if not self.repeats:
            return None
        return around(float(self.curve(slack)), self.measured, self.repeats, of)

    def tolerance(self, share: float) -> float | None:
        """Return the added one-way latency that lengthens the run by a share [s]; None where the farthest distance does not."""
        return self.curve.reaches(self.measured * (1 + share))

    def table(self) -> pl.DataFrame:
        """Return run time and penalty at the latencies shown, with the 90 % interval where there are `repeats`.

        Columns: ``slack_s``, ``seconds``, ``penalty``, ``low_seconds``, ``high_seconds``.
        """
        latencies = [0.0, *(float(s) for s in shown())]
        rows: dict[str, list[float]] = {
            "slack_s": latencies,
            "seconds": [float(self.curve(s)) for s in latencies],
            "penalty": [self.penalty(s) for s in latencies],
        }
        if self.repeats:
            rows["low_seconds"], rows["high_seconds"] = (
                list(side) for side in zip(*(self.interval(s) or () for s in latencies), strict=True)
            )
        return pl.DataFrame(rows)

    def headline(self) -> str:
        """Return the answer in one line."""
        tolerances = [f"{t.share:.0%} longer " + ("nowhere" if t.slack is None else f"at {show(t.slack, 's')}") for t in self.tolerances]
        mode = self.mode + (f" by {self.layer}" if self.layer else "")
        return f"Slack ({mode}): {self.run.trace.name}, recorded {show(self.measured, 's')}; {', '.join(tolerances)}"

    def shown(self) -> Float:
        """Return the latencies that a table shows [s]."""
        return shown()

    def points(self) -> list[dict[str, Any]]:
        """Return the curve at zero and at the latencies shown: run time [s], penalty, interval [s], run time with idle gaps [s]."""
        return [
            {
                "slack_s": slack,
                "seconds": float(self.curve(slack)),
                "penalty": self.penalty(slack),
                "interval": self.interval(slack),
                "starved_seconds": None if self.starved is None else float(self.starved(slack)),
            }
            for slack in (0.0, *(float(s) for s in shown()))
        ]

    def breakpoints(self) -> list[dict[str, float]]:
        """Return latency [s], run time [s] and the slope on either side at each corner of the curve."""
        curve = self.curve
        corners = zip(curve.at[1:-1], curve.seconds[1:-1], curve.slopes[:-1], curve.slopes[1:], strict=True)
        return [{"slack_s": float(s), "seconds": float(t), "slope_before": float(a), "slope_after": float(b)} for s, t, a, b in corners]

    def by_share(self) -> dict[str, Tolerance]:
        """Return the tolerances by their share in per cent."""
        return {f"{t.share:.0%}": t for t in self.tolerances}

    def hops(self) -> list[dict[str, Any]]:
        """Return the cost of well-known distances.

        Each row has the one-way latency [s], the run time [s], the penalty, and how much better used a GPU at that distance must be.
        """
        rows = []
        for hop in hops():
            added = hop.one_way * self.trips
            penalty = self.penalty(added)
            row = {"hop": hop.name, "one_way_s": hop.one_way, "seconds": float(self.curve(added)), "penalty": penalty}
            rows.append({**row, "utilisation_factor": break_even_utilisation(penalty), "source": hop.source})
        return rows

    def critical_path(self) -> list[dict[str, Any]]:
        """Return the classes of time on the recorded critical path.

        Each row has its seconds, the change of run time if the class gets faster or slower [s], and its elasticity.
        """
        return [
            {"what": s.what, "seconds": s.seconds, "left": s.left, "right": s.right, "elasticity": s.elasticity(self.measured)}
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
    draws: int = DRAWS,
    seed: int = SEED,
    ready: Prepared | None = None,
    most: int | None = None,
    starvation: Starvation | None = None,
    classes: Sequence[str] = (),
    repeats: Sequence[float] = (),
    machine: Machine | str | None = None,
    network: OnNetwork | str | None = None,
) -> Slack:
    """Return the run time of an inspected profile against added distance.

    Parameters
    ----------
    seen : the inspected profile, from `inspect`.
    mode : link, api, remoting, or network.
    draws, seed : of the interval of each tolerance; 0 draws leave it out.
    ready : the profile prepared for the timeline, if that has been done.
    starvation : measured cost of idle gaps, replayed at the latencies shown, on top of the curve; None leaves it out.
    most : breakpoints looked for on each stretch of the curve; None is as many as a run of its size affords.  `Curve.gap` says the error.
    classes : api: only calls of these classes are delayed; empty is every call that crosses to the device.
    repeats : run times of other runs of the same kind, over the same stretch [s]; empty leaves out the intervals of run times.
    machine : remoting: the machine, or its name or file, whose layer the calls go through; its round trip is what varies.

    network : the network that messages are replayed on, by name or with settings; None keeps their recorded time.

    Raises
    ------
    CannotAnswer : A164, A193, as `turnbuckle.projection.elsewhere.network` has them.
    UsageError : A015 for classes or a machine in another mode, or a machine without a remoting layer; A004 for an unknown class; A427 for a
        run time that is none.
    """
    sound_repeats(repeats)
    carried_by = on_other(network)
    if carried_by is not None:
        ready = on_network(seen.profile, ready or seen.prepared(MODEL), carried_by)
    distance = Distance.of(seen, mode, ready, classes, load(machine) if isinstance(machine, str) else machine)
    replay, measured = distance.replay, seen.profile.seconds
    beyond = measured - float(replay.graph.time_ns.max()) * 1e-9
    most = most or breakpoints_affordable(replay)
    # in several parts, so that short latencies are resolved as finely as long ones
    curve = along(replay, distance.change, [0.0, *distance.kinks(), *STRETCHES, FARTHEST], beyond, most)
    # no distance is the recorded run, to the nanosecond; a layer's software costs time without any
    unchanged = (
        curve.seconds[0] if mode != "remoting" and carried_by is None else float(replay.seconds(no_change(len(replay.run)))) + beyond
    )
    curve = replace(curve, seconds=curve.seconds + (measured - unchanged))
    reached = [curve.reaches(measured * (1 + share)) for share in THRESHOLDS]
    intervals = distance.spread(curve, measured, draws, seed)
    tolerances = tuple(Tolerance(*t) for t in zip(THRESHOLDS, reached, intervals, strict=True))
    carried_at = next((t.slack for t in reversed(tolerances) if t.slack), FARTHEST)
    carried = carriers(seen.profile, replay, curve, distance.change, carried_at)
    assert distance.ready.trust is not None
    findings = [finding("A309", 1, distance.ready.trust.words()), *uncalled(seen.profile), *distance.unpriced()]
    starved = None
    if starvation is not None:
        points = np.concatenate([[0.0], shown()])
        values = np.broadcast_to(distance.change(points[:, None]).values, (len(points), parameters(len(replay.run))))
        seconds = starved_seconds(seen.profile, replay, values, starvation)
        starved = Curve(points, seconds + (measured - seconds[0]), np.diff(seconds) / np.diff(points), 0.0)
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
    )


def sound_repeats(repeats: Sequence[float]) -> None:
    """Refuse run times of other runs that are none (A427)."""
    if any(not 0 < seconds < math.inf for seconds in repeats):
        raise error_of("A427", found=", ".join(f"{s:g} s" for s in repeats))


def breakpoints_affordable(replay: TimelineReplay) -> int:
    """Return how many breakpoints of one stretch a run of its size affords."""
    return min(max(_PLACES // len(replay.graph.time_ns), _FEWEST), MOST)


def around(seconds: float, measured: float, repeats: Sequence[float], of: int = 1) -> tuple[float, float]:
    """Return the 90 % interval [s] of a predicted run time, from the spread of `repeats`.

    The prediction was replayed from a run of `measured` seconds. The logarithms of the repeats are taken as normally distributed. The
    interval is Student's t around their median, for one new run or for the median of `of` new runs. The added time does not vary.
    """
    logs = np.log(repeats)
    middle, count = float(np.median(logs)), len(repeats)
    # the variance of a median of n normal values is pi / 2 n, of one value 1 / n
    new = 1.0 if of == 1 else _MEDIAN / of
    from scipy.special import stdtrit  # takes longer to load than a curve takes

    reach = float(stdtrit(count - 1, 0.95)) * float(logs.std(ddof=1)) * math.sqrt(new + _MEDIAN / count)
    low, high = (math.exp(middle + sign * reach) - measured for sign in (-1, 1))
    return seconds + low, seconds + high


def shown() -> Float:
    """Return the latencies a table shows [s]: `PER_DECADE` in each decade from `NEAREST` to `FARTHEST`."""
    decades = np.log10(FARTHEST / NEAREST)
    return np.append(NEAREST * 10 ** (np.arange(round(decades * PER_DECADE)) / PER_DECADE), FARTHEST)


def delaying(classes: Sequence[str]) -> Model:
    """Return the prices of `MODEL` in which only calls of these classes are delayed."""

    def covers(p: Pieces) -> Bool:
        return np.isin(p.call_class, list(classes))

    def seconds(p: Pieces, machine: Priced, source: Priced) -> Float:
        value = machine.value("slack.call")
        return slack_seconds(np.ones(int(covers(p).sum()), dtype=np.bool_), 0.0 if value is None else value)

    charges = tuple(replace(c, covers=covers, seconds=seconds) if c.name == "slack" else c for c in MODEL.charges)
    return replace(MODEL, charges=charges)


@dataclass(frozen=True)
class Distance:
    """A profile prepared for replay at added distances.

    Attributes
    ----------
    source : the machine of the recording, with the assumptions on reads in flight.
    model : the prices of pieces.
    layer : the machine as declared whose remoting layer the calls go through.
    """

    mode: Mode
    ready: Prepared
    replay: TimelineReplay
    source: Machine
    assumed: Mapping[ParameterName, Parameter]
    model: Model = MODEL
    layer: Machine | None = None

    @classmethod
    def of(
        cls, seen: Run, mode: Mode, ready: Prepared | None = None, classes: Sequence[str] = (), layer: Machine | None = None
    ) -> Distance:
        """Prepare an inspected profile; if classes are given, only their calls are delayed (`tolerate`)."""
        if (mode == "remoting") != (layer is not None):
            raise error_of("A015.machine", found=f"--mode {mode}" + (f" --machine {layer.name}" if layer is not None else ""))
        if layer is not None and Pair(seen.source, layer).target.value("remoting.round_trip") is None:
            raise error_of("A015.layer", found=layer.name)
        if classes and mode != "api":
            raise error_of("A015.api", found=f"--mode {mode} --slack-class {','.join(classes)}")
        if strange := [word for word in classes if word not in BOUNDARY_CLASSES]:
            raise error_of(
                "A004.boundary",
                found=clipped(strange[0], 40),
                fix=did_you_mean(strange[0], BOUNDARY_CLASSES) or None,
                name=clipped(strange[0], 40),
                boundary_classes=", ".join(BOUNDARY_CLASSES),
            )
        require_activity(seen.profile)
        require_calls(seen.profile)
        ready = ready or seen.prepared(MODEL)
        require_order(ready)
        assert ready.timeline is not None
        fabric = {c.parameter: c.assume for c in load(_FABRIC).changes}
        missing = {n: p for n in READS_IN_FLIGHT if seen.source.value(n) is None and (p := fabric[n]) is not None}
        source = covered(seen.source.with_parameters(missing))
        return cls(mode, ready, ready.timeline, source, missing, delaying(classes) if classes else MODEL, layer)

    def change(self, slack: Float, drawn: DrawnMachine | None = None, layer: Mapping[ParameterName, Float] | None = None) -> Change:
        """Return the change that an added one-way latency, or the round trip of a layer, makes; `slack` of shape (points, 1) [s]."""
        source = drawn or self.plain()
        values = {**source.values, **(self.through(source) if layer is None else layer), _VARIED[self.mode]: slack}
        return changed(self.ready, anchored(self.ready.run, source, DrawnMachine(values, source.copies_vanish), self.model))

    def through(self, source: DrawnMachine, draws: int = 0, seed: int = SEED) -> dict[ParameterName, Float]:
        """Return the numbers of the layer, shape (draws, 1); as stated without draws, and none in the other modes."""
        if self.layer is None:
            return {}
        target = Pair(self.source, self.layer).target
        if not draws:
            return {n: np.full((1, 1), p.value) for n, p in target.parameters.items() if n.startswith("remoting.")}
        drawn = drawn_target(self.layer, target, source, draws, seed)
        return {n: v for n, v in drawn.values.items() if n.startswith("remoting.")}

    def unpriced(self) -> list[Finding]:
        """Return the finding on charges that lack a number of the source machine.

        Such a charge stays as recorded at every distance.
        """
        plain = self.plain()
        missing = anchored(self.ready.run, plain, plain, MODEL).missing
        names = [n for c in MODEL.charges if c.name in missing for n in c.needs if self.source.value(n) is None]
        return [finding("M104", len(set(names)), ", ".join(dict.fromkeys(names)))] if names else []

    def plain(self) -> DrawnMachine:
        """Return the source machine at its stated values, as arrays."""
        return DrawnMachine({n: np.full((1, 1), p.value) for n, p in self.source.parameters.items()}, self.source.copies_vanish)

    def kinks(self) -> list[float]:
        """Return the added latencies [s] beyond which reads in flight no longer cover the round trip."""
        reached = link_bandwidth(self.source, "h2d", self.source)
        in_flight, trip = window(self.source), self.source.value("link.round_trip")
        if self.mode != "link" or not reached or not in_flight or not trip:
            return []
        return [s for s in [(in_flight / float(reached) - trip) / 2] if 0 < s < FARTHEST]

    def spread(self, curve: Curve, measured: float, draws: int, seed: int) -> list[tuple[float | None, float | None] | None]:
        """Return the 5 % and 95 % quantile of each tolerance over the draws of reads in flight, or of the layer [s]; None without draws."""
        if not draws:
            return [None] * len(THRESHOLDS)
        exact = [curve.reaches(measured * (1 + share)) for share in THRESHOLDS]
        reads = bool(((self.ready.run.kind == "copy_h2d") | (self.ready.run.direction == "migration_h2d")).any())
        finite = [s for s in exact if s]
        draws = min(draws, max(_WORK // (len(self.replay.graph.time_ns) * _GRID), 20))
        if self.mode == "api" or not (reads or self.layer) or not finite:
            return [(s, s) for s in exact]
        grid = np.geomspace(min(finite) / 10, min(max(finite) * 10, FARTHEST), _GRID)
        at, longest = np.concatenate([[0.0], grid]), measured * (1 + np.array(THRESHOLDS))
        seconds = self._drawn_seconds(at, draws, seed, measured)
        # a longer distance is never faster: each threshold lies between two neighbours, first looked for around the stated tolerance
        guess = np.searchsorted(at, [FARTHEST if s is None else s for s in exact], side="right").clip(1, _GRID)
        below, above = np.full((draws, len(THRESHOLDS)), -1), np.full((draws, len(THRESHOLDS)), len(at))
        places = np.broadcast_to(np.stack([guess - 1, guess]), (draws, 2, len(THRESHOLDS)))
        while True:
            rows = np.repeat(np.arange(draws), places[0].size)
            reached = seconds(rows, places.reshape(-1)).reshape(places.shape) <= longest
            below = np.maximum(below, np.where(reached, places, -1).max(axis=1))
            above = np.minimum(above, np.where(reached, len(at), places).min(axis=1))
            if (above - below <= 1).all():
                break
            places = np.where(above - below > 1, (below + above) // 2, np.maximum(below, 0))[:, None, :]
        tolerances = [[_crossed(at, seconds, d, int(k), t) for k, t in zip(above[d], longest, strict=True)] for d in range(draws)]
        quantile = np.quantile(np.array(tolerances), [0.05, 0.95], axis=0, method="nearest")
        # the stated values are inside, whatever the draws and the grid make of the edges
        stated = [np.inf if s is None else s for s in exact]
        low, high = np.minimum(quantile[0], stated), np.maximum(quantile[1], stated)
        return [(None if np.isinf(a) else float(a), None if np.isinf(b) else float(b)) for a, b in zip(low, high, strict=True)]

    def _drawn_seconds(self, at: Float, draws: int, seed: int, measured: float) -> Callable[[Int, Int], Float]:
        """Return a function of draws and of places in `at` that gives their run times [s]; each pair is replayed once."""
        drawn = covered_draws(drawn_source(self.source, draws, seed))
        layers, unchanged = self.through(drawn, draws, seed), float(self.replay.seconds(no_change(len(self.replay.run))))
        known = np.full((draws, len(at)), np.nan)
        most = max(_ROWS // parameters(len(self.replay.run)), 1)

        def of(values: Mapping[ParameterName, Float], rows: Int) -> dict[ParameterName, Float]:
            return {n: v if len(v) == 1 else v[rows] for n, v in values.items()}

        def seconds(rows: Int, places: Int) -> Float:
            asked = np.unique(np.stack([rows, places], axis=1)[np.isnan(known[rows, places])], axis=0)
            for first in range(0, len(asked), most):
                row, place = asked[first : first + most].T
                change = self.change(at[place][:, None], DrawnMachine(of(drawn.values, row), drawn.copies_vanish), of(layers, row))
                known[row, place] = np.broadcast_to(self.replay.seconds(change), len(row)) - unchanged + measured
            return known[rows, places]

        return seconds


def _crossed(at: Float, seconds: Callable[[Int, Int], Float], draw: int, place: int, longest: float) -> float:
    """Return where a draw's run time, linear between the places looked at, exceeds `longest` [s]: between `place` and the one before it."""
    if place == len(at):
        return math.inf
    if place == 0:
        return float(at[0])
    low, high = seconds(np.array([draw, draw]), np.array([place - 1, place]))
    return float(at[place - 1] + (longest - low) * (at[place] - at[place - 1]) / (high - low))


#: What varies in each mode.
_VARIED: Final[Mapping[str, ParameterName]] = {"link": "slack.link", "api": "slack.call", "remoting": "remoting.round_trip"}
