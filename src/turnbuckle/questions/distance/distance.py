"""A run made ready for distance: what a longer link, calls that block or a layer change in it, and
which machine is so far away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from turnbuckle.cost.slack import slack_seconds
from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.foundation.errors import clipped, did_you_mean, error_of
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.machine import Change as MachineChange
from turnbuckle.machine import Machine, Pair, Parameter, load
from turnbuckle.machine.fabric import Pcie, ended_locally
from turnbuckle.machine.parameter_names import FABRIC, READS_IN_FLIGHT, ParameterName
from turnbuckle.profile.classify import BOUNDARY_CLASSES
from turnbuckle.profile.pieces import Pieces
from turnbuckle.projection.admission import require_activity, require_calls, trusted_timeline
from turnbuckle.projection.anchor import Durations, anchored
from turnbuckle.projection.elsewhere.drawn import DrawnMachine
from turnbuckle.projection.elsewhere.holes import managed
from turnbuckle.projection.elsewhere.priors import Draws
from turnbuckle.projection.model import Model, Priced, link_bandwidth, nething
from turnbuckle.projection.order import (
    Prepared,
    changed,
    curve_times,
    doubted,
    open_ends,
    run_times,
    sum_times,
)
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import Uncertain, uncertain
from turnbuckle.replay.timeline import Change, TimelineReplay

Mode = Literal["link", "api", "remoting", "network"]

#: Those that need no machine.
MODES: Final[tuple[Mode, ...]] = ("link", "api")
#: Added one-way latencies asked about [s].
NEAREST, FARTHEST = 100e-9, 100e-3
#: The machine whose assumptions on a fabric stand in where the source machine gives none.
_FABRIC: Final = "cdi-rack-link"
#: Prices of a run whose kernels keep their recorded times.
MODEL: Final = replace(nething("hold"), replay="timeline")


def delaying(classes: Sequence[str]) -> Model:
    """Return the prices of `MODEL` in which only calls of these classes are delayed."""

    def covers(p: Pieces) -> Bool:
        return np.isin(p.call_class, list(classes))

    def seconds(p: Pieces, machine: Priced, source: Priced) -> Float:
        value = machine.value("slack.call")
        return slack_seconds(
            np.ones(int(covers(p).sum()), dtype=np.bool_), 0.0 if value is None else value
        )

    charges = tuple(
        replace(c, covers=covers, seconds=seconds) if c.name == "slack" else c
        for c in MODEL.charges
    )
    return replace(MODEL, charges=charges)


#: Instants times draws times latencies up to which each is replayed for itself.
_EXACT: Final = 100_000_000
#: Latencies times draws times pieces that are priced at once: their arrays stay in the cache.
_CELLS: Final = 30_000


@dataclass(frozen=True)
class Distance:
    """A profile prepared for replay at added distances.

    Attributes
    ----------
    seen : the inspected profile.
    source : the machine of the recording, with the assumptions on what distance does to a link.
    model : the prices of pieces.
    layer : the machine as declared whose remoting layer the calls go through.
    """

    mode: Mode
    seen: Run
    ready: Prepared
    replay: TimelineReplay
    source: Machine
    assumed: Mapping[ParameterName, Parameter]
    model: Model = MODEL
    layer: Machine | None = None
    pcie: Pcie = "whole"

    @classmethod
    def of(
        cls,
        seen: Run,
        mode: Mode,
        ready: Prepared | None = None,
        classes: Sequence[str] = (),
        layer: Machine | None = None,
        pcie: Pcie = "whole",
    ) -> Distance:
        """Prepare an inspected profile; if classes are given, only their calls are delayed
        (`tolerate`).
        """
        if (mode == "remoting") != (layer is not None):
            raise error_of(
                "A015.machine",
                found=f"--mode {mode}" + (f" --machine {layer.name}" if layer is not None else ""),
            )
        if (
            layer is not None
            and Pair(seen.source, layer).target.value("remoting.round_trip") is None
        ):
            raise error_of("A015.layer", found=layer.name)
        if layer is not None and managed(seen.profile):
            raise error_of("A189", where=layer.name)
        if pcie != "whole" and mode != "link":
            raise error_of("A015.pcie", found=f"--mode {mode} --pcie {pcie}")
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
        timeline = trusted_timeline(ready)
        fabric = {c.parameter: c.set or c.assume for c in _fabric(pcie).changes}
        missing = {
            n: p
            for n in FABRIC
            if (seen.source.value(n) is None or pcie == "local") and (p := fabric[n]) is not None
        }
        source = covered(seen.source.with_parameters(missing))
        return cls(
            mode,
            seen,
            ready,
            timeline,
            source,
            missing,
            delaying(classes) if classes else MODEL,
            layer,
            pcie,
        )

    def change(self, slack: Float) -> Change:
        """Return the change that an added one-way latency, or the round trip of a layer, makes;
        `slack` of shape (points, 1) [s].
        """
        source = self.plain()
        values = {**source.values, **self.through(), _VARIED[self.mode]: slack}
        return changed(
            self.ready,
            anchored(
                self.ready.run, source, DrawnMachine(values, source.copies_vanish), self.model
            ),
        )

    def through(self) -> dict[ParameterName, Float]:
        """Return the numbers of the layer as stated, shape (1, 1); none in the other modes."""
        if self.layer is None:
            return {}
        target = Pair(self.source, self.layer).target
        return {
            n: np.full((1, 1), p.value)
            for n, p in target.parameters.items()
            if n.startswith("remoting.")
        }

    def unpriced(self) -> list[Finding]:
        """Return the finding on charges that lack a number of the source machine.

        Such a charge stays as recorded at every distance.
        """
        plain = self.plain()
        missing = anchored(self.ready.run, plain, plain, MODEL).missing
        names = [
            n
            for c in MODEL.charges
            if c.name in missing
            for n in c.needs
            if self.source.value(n) is None
        ]
        return [finding("M104", len(set(names)), ", ".join(dict.fromkeys(names)))] if names else []

    def plain(self) -> DrawnMachine:
        """Return the source machine at its stated values, as arrays."""
        return DrawnMachine(
            {n: np.full((1, 1), p.value) for n, p in self.source.parameters.items()},
            self.source.copies_vanish,
        )

    def kinks(self) -> list[float]:
        """Return the added latencies [s] beyond which reads in flight no longer cover the round
        trip.
        """
        reached = link_bandwidth(self.source, "h2d", self.source)
        in_flight, trip = window(self.source), self.source.value("link.round_trip")
        if self.mode != "link" or not reached or not in_flight or not trip:
            return []
        return [s for s in [(in_flight / float(reached) - trip) / 2] if 0 < s < FARTHEST]

    def machine_at(self, slack: float | Float) -> Machine:
        """Return the machine that is so far away [s], as changes of the source: what `turnbuckle
        project` would be asked for.

        Many latencies have shape (latencies, 1, 1).
        """
        value: Any = slack
        away = MachineChange(
            _VARIED[self.mode], set=Parameter(value, 0.0, "s", "assumption", "what is asked for")
        )
        if self.layer is None:
            return (
                replace(_fabric(self.pcie), changes=(*_fabric(self.pcie).changes, away))
                if self.mode == "link"
                else _blocking(away)
            )
        ways = self.layer.changes or tuple(
            MachineChange(n, set=p) for n, p in self.layer.parameters.items()
        )
        return replace(
            self.layer,
            base="source",
            changes=(*(c for c in ways if c.parameter.startswith("remoting.")), away),
            parameters={},
        )

    def drawn(self, slack: Float, draws: int, seed: int) -> Float:
        """Draw run times [s] as `project` does, at each end of what nothing decides, the last with
        all of it; (ends, latencies, draws).
        """
        question = uncertain(self.ready, self.seen.source, self.seen.fits, draws, seed)
        if len(self.replay.graph.time_ns) * draws * len(slack) <= _EXACT:
            size = max(_CELLS // (draws * max(len(self.ready.run), 1)), 1)
            return np.concatenate(
                [self._at_once(question, slack[k : k + size]) for k in range(0, len(slack), size)],
                axis=1,
            )
        pairs = [
            (declared, Pair(self.seen.source, declared))
            for declared in map(self.machine_at, slack.tolist())
        ]
        return self._sampled(question, pairs, Draws(draws, seed))

    def _at_once(self, question: Uncertain, slack: Float) -> Float:
        """Draw the same with a leading axis of latencies."""
        declared = self.machine_at(slack[:, None, None])
        replays, unsure, _ = question.samples(
            declared, Pair(self.seen.source, declared), self.model
        )
        shape = len(slack), question.draws
        return np.stack([np.broadcast_to(end, shape) for end in (*replays, unsure)])

    def _sampled(
        self, question: Uncertain, pairs: Sequence[tuple[Machine, Pair]], draws: Draws
    ) -> Float:
        """Draw the same where latencies have to share what is replayed; durations are made anew
        rather than kept for all of them.
        """
        sums: list[Float] = []
        around: list[Float | None] = []

        def durations() -> Iterator[Durations]:
            return (
                question.durations(declared, pair, self.model, draws) for declared, pair in pairs
            )

        def summed() -> Iterator[Durations]:
            for each in durations():
                sums.append(sum_times(self.ready, each))
                kept = replace(each, host=np.ones_like(each.host))
                around.append(None if (each.host == 1.0).all() else run_times(self.ready, kept))
                yield each

        seconds = curve_times(self.ready, summed())
        plain = (
            [None] * len(seconds)
            if self.ready.network is None
            else curve_times(replace(self.ready, network=None), durations())
        )
        waited: Sequence[Float | None] = [None] * len(seconds)
        if self.ready.waiting is not None:
            waited = curve_times(replace(self.ready, timeline=self.ready.waiting), durations())
        out = []
        points = zip(durations(), seconds, sums, around, plain, waited, strict=True)
        for each, by_replay, by_sum, recorded, without, longer in points:
            replay = np.broadcast_to(by_replay, (draws.draws,))
            unsure = doubted(
                self.ready, replay, draws, by_sum, replay if recorded is None else recorded, without
            )
            ends = open_ends(self.ready, each, replay, longer)
            out.append(
                [
                    np.broadcast_to(end, (draws.draws,))
                    for end in (*ends.all(unsure), ends.between(unsure, draws))
                ]
            )
        # a run without any change has no loop that may look later: its ends are one
        count = max(map(len, out))
        return np.stack(
            [np.stack([*rows, *[rows[-1]] * (count - len(rows))]) for rows in out], axis=1
        )


def _fabric(pcie: Pcie) -> Machine:
    """Return what is assumed of a fabric of any length, as changes of the source."""
    fabric = load(_FABRIC)
    fabric = replace(
        fabric, name="distance", changes=tuple(c for c in fabric.changes if c.parameter in FABRIC)
    )
    return ended_locally(fabric) if pcie == "local" else fabric


def _blocking(away: MachineChange) -> Machine:
    """Return the source with every crossing call delayed."""
    return Machine(
        name="distance",
        title="",
        summary="",
        year=0,
        coupling="relative",
        base="source",
        changes=(away,),
    )


#: What varies in each mode.
_VARIED: Final[Mapping[Mode, ParameterName]] = {
    "link": "slack.link",
    "api": "slack.call",
    "remoting": "remoting.round_trip",
}


def window(machine: Machine) -> float:
    """Return the most bytes that a device can have requested and not yet received."""
    return (machine.value("link.tags") or 0.0) * (machine.value("link.read_request") or 0.0)


def covered(source: Machine) -> Machine:
    """Raise the assumed reads in flight to what the observed bandwidth needs.

    By Little's law, a link that reached B over a round trip R had B x R bytes in flight.
    """
    tags, request, trip = (source.parameters[n] for n in READS_IN_FLIGHT)
    bandwidth, efficiency = source.value("link.h2d.bandwidth"), source.value("link.h2d.efficiency")
    if bandwidth is None:
        return source
    needed = (
        bandwidth
        * (1.0 if efficiency is None else min(efficiency, 1.0))
        * trip.value
        / request.value
    )
    if needed <= tags.value:
        return source
    note = f"at least what the observed bandwidth needs over the round trip; {tags.note}"
    return source.with_parameters({"link.tags": replace(tags, value=needed, note=note)})
