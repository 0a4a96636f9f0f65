"""Activities back in order: the same durations through the replay a model names, the sum or the
timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float, Int, returned
from turnbuckle.profile.dependencies.dependencies import both_orders
from turnbuckle.profile.dependencies.sides import activities
from turnbuckle.profile.messages.staging_pairs import StagingPairs, staging_pairs
from turnbuckle.profile.pieces import Pieces, grouped
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.noted import SEEN, noted
from turnbuckle.profile.transfers import sharers
from turnbuckle.projection.anchor import Durations, host_shorter, unchanged
from turnbuckle.projection.elsewhere.hosts import HostWork, work_between_calls
from turnbuckle.projection.elsewhere.network import (
    KERNEL_PRICE,
    Between,
    Carried,
    OnNetwork,
    other_network,
)
from turnbuckle.projection.elsewhere.priors import Draws
from turnbuckle.projection.elsewhere.staging import direct
from turnbuckle.projection.model import Model
from turnbuckle.projection.projection import PART_OF_CATEGORY, PARTS
from turnbuckle.replay.drawn import along_seconds, drawn_seconds
from turnbuckle.replay.sum import SumResult, replay_sum
from turnbuckle.replay.timeline import Change, TimelineReplay
from turnbuckle.replay.trust import Trust, trust
from turnbuckle.trace.window import COPIED_BEFORE

#: Points on the way to a changed run at which its critical path is looked at, and points times
#: instants for long runs.
_POINTS: Final = 8
_WALKED: Final = 5_000_000
#: Names of the unknowns of an order that the rules do not derive.
OVERLAP: Final = "overlap of what no dependency rule explains"
UNEXPLAINED: Final = "time that no dependency rule explains"
#: Name of the unknown whether work waits that meets other work and is not joined to it; the share
#: of draws at each of its ends.
WAITING: Final = "whether streams, threads and processes that meet wait for each other"
_AT_AN_END: Final = 0.08
#: Name of the unknown when a loop that sleeps between two queries looks.
ASLEEP: Final = "when loops that sleep between two queries look"


#: Notes of a profiler never make up more of the host's own work than this.
MOST_NOTED: Final = 0.9


@dataclass(frozen=True)
class Prepared:
    """A profile made ready to be replayed many times.

    Attributes
    ----------
    run : its pieces.
    measured : recorded run time [s].
    timeline : its compiled graph; None for the sum.
    waiting : the same run where work also waits for what it may have waited for (`both_orders`);
        None where nothing is in doubt.
    trust : how far its order can be trusted; None where nobody asked for the timeline.
    sharers : devices or ranks whose copies were on their way at once.
    nic_bound : share of the bytes by direction that go on to the network card, and keep its rate on
        every target.
    staging : copies that stage messages; None where nobody looked.
    noted : most of the host's own work that may be the profiler's notes, as a share
        (`turnbuckle.profile.summary.noted`).
    work : kind of the host's work between calls.
    copied_bytes : copied between host and device, before the part that is asked about too; copies
        of unknown size count nothing.
    network_factor : how much of the network's change applies, shape (1,) or (draws, 1).
    network : what goes over another network, which `timeline` is compiled for
        (`elsewhere.network`); None for the recording's.
    """

    run: Pieces
    measured: float
    timeline: TimelineReplay | None = None
    waiting: TimelineReplay | None = None
    trust: Trust | None = None
    sharers: int = 1
    nic_bound: Mapping[str, float] = field(default_factory=dict)
    network: Carried | None = None
    staging: StagingPairs | None = None
    noted: float = 0.0
    work: HostWork = "code"
    copied_bytes: float = 0.0
    network_factor: Float = field(default_factory=lambda: np.ones(1), repr=False)

    @property
    def works(self) -> tuple[HostWork, HostWork]:
        """Return the kinds of what a host does: the program's own work, and calls."""
        return self.work, "driver"

    @property
    def network_unknowns(self) -> list[str]:
        """Return the names of what is drawn of the network."""
        return [KERNEL_PRICE] if self.network is not None and self.network.error else []

    def drawn(self, draws: Draws) -> Prepared:
        """Return the same run with the prices of its network drawn."""
        if self.network is None or not self.network.error:
            return self
        return replace(self, network_factor=np.exp(self.network.error * draws.of(KERNEL_PRICE)))

    @cached_property
    def direct(self) -> Callable[[float], TimelineReplay]:
        """Return the function that gives the run without staging copies for a time of pinning [s],
        compiled once for each.
        """
        timeline, pairs = self.timeline, self.staging
        assert timeline is not None and pairs is not None
        return cache(lambda pin_seconds: direct(timeline, pairs, pin_seconds))

    @property
    def replay(self) -> str:
        """Return which replay it is ready for."""
        return "sum" if self.timeline is None else "timeline"

    def to(self, replay: str) -> Prepared:
        """Return the same run ready for a replay; ``auto`` takes the sum where the order cannot be
        trusted.
        """
        if replay == "sum":
            return replace(
                self, timeline=None, waiting=None, trust=None, network=None, staging=None
            )
        return (
            replace(self, timeline=None, waiting=None)
            if replay == "auto" and self.trust and self.trust.refused
            else self
        )


def prepared(profile: Profile, model: Model) -> Prepared:
    """Group a profile into pieces and, for the timeline, compile its graph; ``auto`` takes the sum
    where the order cannot be trusted.
    """
    run, piece = grouped(profile, None if model.kernels is None else model.kernels.row)
    if model.replay == "sum":
        return Prepared(
            run,
            profile.seconds,
            sharers=sharers(profile),
            noted=_noted(profile, run),
            work=work_between_calls(profile.trace),
            copied_bytes=_copied_bytes(profile, run),
        )
    # what is looked for before there is a graph does not add to the memory of one
    copying = sharers(profile)
    staged = (
        staging_pairs(activities(profile), profile.trace)
        if profile.trace.mpi.height and profile.trace.copies.height
        else None
    )
    graph, doubtful = both_orders(profile)
    returned(len(graph.time_ns))
    timeline = TimelineReplay.compiled(graph, run, piece)
    waiting = None if doubtful is None else TimelineReplay.compiled(doubtful, run, piece)
    returned(len(graph.time_ns))
    ready = Prepared(
        run,
        profile.seconds,
        timeline,
        waiting,
        trust(profile, timeline),
        copying,
        staging=staged,
        noted=_noted(profile, run),
        work=work_between_calls(profile.trace),
        copied_bytes=_copied_bytes(profile, run),
    )
    returned(len(graph.time_ns))
    return ready.to(model.replay)


def _copied_bytes(profile: Profile, run: Pieces) -> float:
    """Return the bytes copied between host and device up to the end of a profile."""
    copies = np.isin(run.kind, ("copy_h2d", "copy_d2h"))
    return float(
        (run.count * run.size_bytes)[copies].sum() + profile.trace.facts.get(COPIED_BEFORE, 0)
    )


def _noted(profile: Profile, run: Pieces) -> float:
    """Return the most of the host's own work that may be the profiler's notes of it, as a share."""
    notes = noted(profile.trace)
    own = float(run.seconds[run.category == "cpu"].sum())
    if notes.share(profile.run_time_ns) < SEEN or own <= 0:
        return 0.0
    return min(notes.most_seconds / own, MOST_NOTED)


def timeline_of(ready: Prepared) -> TimelineReplay:
    """Return the timeline that a run was prepared for, whether or not its order can be trusted."""
    assert ready.timeline is not None, "the run was prepared for the sum"
    return ready.timeline


def on_network(between: Between, ready: Prepared, asked: OnNetwork) -> Prepared:
    """Return a run made ready to be replayed on another network; raises as
    `elsewhere.network.other_network`.
    """
    other = other_network(between, ready.timeline, asked, ready.trust)
    timeline, moved = other.settled()
    return replace(
        ready, timeline=timeline, waiting=None, network=replace(other.carried, moved=moved)
    )


@dataclass(frozen=True)
class Replayed:
    """A single answer: run time and its envelope [s], breakdowns, which parts the change comes
    from, and kernel windows.
    """

    seconds: Float
    lower: Float
    upper: Float
    breakdown: dict[str, float]
    measured_breakdown: dict[str, float]
    change: dict[str, float]
    kernel_windows: tuple[float | None, float | None] = (None, None)


def replayed(ready: Prepared, durations: Durations) -> Replayed:
    """Put the pieces back in order, by the replay they were prepared for."""
    run = ready.run
    if ready.timeline is None:
        total = _summed(ready, durations)
        after, before = _breakdown(run, total.exposed_seconds), _breakdown(run, run.exposed_seconds)
        return Replayed(
            total.seconds, total.lower, total.upper, after, before, _difference(after, before)
        )
    return _on_timeline(ready.timeline, ready.measured, changed(ready, durations))


def replayed_each(ready: Prepared, durations: Durations) -> list[tuple[float, dict[str, float]]]:
    """Return run time and breakdown [s] of `replayed` for each point of durations of shape (points,
    1, pieces).
    """
    run, timeline = ready.run, ready.timeline
    if timeline is None:
        total = _summed(ready, durations)
        exposed = total.exposed_seconds.reshape(-1, len(run))
        return [
            (float(s), _breakdown(run, each))
            for s, each in zip(total.seconds.ravel(), exposed, strict=True)
        ]
    values = changed(ready, durations).values
    beyond = ready.measured - timeline.unchanged_seconds
    out = []
    for row in values.reshape(-1, values.shape[-1]):
        instants, path = timeline.replayed(row)
        seconds = ready.measured + (instants.max() - timeline.unchanged_seconds)
        out.append((float(seconds), projected_parts(timeline, row, instants, path, beyond)))
    return out


def run_times(ready: Prepared, durations: Durations) -> Float:
    """Return the run times of `replayed` alone [s], shape of the draws."""
    if ready.timeline is None:
        return _summed(ready, durations).seconds
    # adding the difference keeps the identity exact
    return ready.measured + (
        drawn_seconds(ready.timeline, changed(ready, durations)) - ready.timeline.unchanged_seconds
    )


def with_fewer_notes(ready: Prepared, durations: Durations, share: Float, seconds: Float) -> Float:
    """Return the run times [s] that hold the program whose host takes fewer notes for the profiler,
    too.

    Such a run is replayed here and on the source, and what was measured changes as the two differ.
    Of each draw counts what is farther from the recording: with all notes, or with fewer.

    Parameters
    ----------
    share : how much of the notes that may be there is there, 0 to 1, shape (draws, 1).
    seconds : run times with all notes [s].
    """
    left = 1.0 - ready.noted * share
    after, before = (
        run_times(ready, host_shorter(each, left)) for each in (durations, unchanged(durations.run))
    )
    fewer = np.asarray(ready.measured * after / before)
    farther = np.abs(fewer - ready.measured) > np.abs(seconds - ready.measured)
    return np.where(farther, fewer, seconds)


def _summed(ready: Prepared, durations: Durations) -> SumResult:
    run = ready.run
    tail = np.divide(run.tail_count, run.count, out=np.zeros_like(run.count), where=run.count > 0)
    return replay_sum(
        ready.measured,
        run.seconds,
        run.exposed_seconds,
        tail,
        durations.scaled,
        run.count * durations.delay,
    )


def curve_times(ready: Prepared, durations: Iterable[Durations]) -> list[Float]:
    """Return the run times [s] of the same draws at many points of a curve, which share what was
    replayed; shape (draws,) each.
    """
    timeline = ready.timeline
    assert timeline is not None
    curve = along_seconds(timeline, (changed(ready, each) for each in durations))
    return [ready.measured + (seconds - timeline.unchanged_seconds) for seconds in curve]


def sum_times(ready: Prepared, durations: Durations) -> Float:
    """Return the run times by the sum [s], whatever the order: shape of the draws."""
    return _summed(ready, durations).seconds


def unsure(
    ready: Prepared, durations: Durations, seconds: Float, draws: Draws, by_sum: Float | None = None
) -> Float:
    """Return `doubted` of some durations whose run times by the timeline are `seconds` [s], and by
    the sum `by_sum` where known.
    """
    if ready.timeline is None or ready.trust is None or ready.trust.explained >= 1.0:
        return seconds
    plain = (
        run_times(replace(ready, network=None), durations) if ready.network is not None else None
    )
    # what another host makes of the time between calls is priced already
    kept = replace(durations, host=np.ones_like(durations.host))
    around = seconds if (durations.host == 1.0).all() else run_times(ready, kept)
    by_sum = sum_times(ready, durations) if by_sum is None else by_sum
    return doubted(ready, seconds, draws, by_sum, around, plain)


@dataclass(frozen=True)
class OpenEnds:
    """Run times [s] at the ends of what nothing recorded decides, shape of the draws each.

    Attributes
    ----------
    seconds : by the timeline.
    waited : where work waits for all that it meets, in place of what it is joined to; None where
        nothing meets that is not joined.
    asleep : by how much loops that sleep between two queries may return earlier, and later, in a
        changed run.
    """

    seconds: Float
    waited: Float | None
    asleep: tuple[float, float]

    def between(self, seconds: Float, draws: Draws) -> Float:
        """Return run times [s] moved to where each draw lies between the ends, or at one of
        them.
        """
        if self.waited is not None:
            seconds = seconds + at_its_ends(draws, WAITING) * (self.waited - self.seconds)
        if any(self.asleep):
            seconds = seconds + at_its_ends(draws, ASLEEP) * sum(self.asleep) - self.asleep[0]
        return np.asarray(np.maximum(seconds, 0.0))

    def all(self, doubted: Float) -> Float:
        """Return every end, shape (ends, ...): by the timeline alone where nothing is open, else
        with what is `doubted` of it too.
        """
        earlier, later = self.asleep
        ends = [self.seconds]
        if self.waited is not None:
            ends += [doubted, self.waited]
        if earlier or later:
            ends += [np.maximum(doubted - earlier, 0.0), doubted + later]
        return np.stack(np.broadcast_arrays(*ends))


def open_ends(
    ready: Prepared, durations: Durations, seconds: Float, waited: Float | None = None
) -> OpenEnds:
    """Return the ends of some durations whose run times by the timeline are `seconds` [s]; `waited`
    where those are known.

    A recording does not say whether work that follows other work of another stream, thread or
    process waited for it, nor when a loop that sleeps would have looked.  Each end is a replay of
    its own, exact at the identity.
    """
    timeline = ready.timeline
    if timeline is None:
        return OpenEnds(seconds, None, (0.0, 0.0))
    if ready.waiting is not None and waited is None:
        waited = drawn_seconds(ready.waiting, changed(ready, durations))
        waited = np.asarray(ready.measured + (waited - ready.waiting.unchanged_seconds))
    earlier, later = (ns * 1e-9 for ns in timeline.graph.asleep_ns)
    if not (earlier or later) or not changed(ready, durations).values.any():
        earlier = later = 0.0
    return OpenEnds(seconds, waited, (earlier, later))


def waited_seconds(ready: Prepared, durations: Durations) -> float | None:
    """Return the run time [s] of single durations where work waits for all that it meets; None
    where nothing is in doubt.
    """
    waited = open_ends(ready, durations, np.zeros(())).waited
    return None if waited is None else float(np.squeeze(waited))


def at_its_ends(draws: Draws, name: str) -> Float:
    """Return draws of a number between 0 and 1, shape (draws,), which is at each of its ends in a
    share of them.
    """
    share = (draws.share(name) - _AT_AN_END) / (1.0 - 2 * _AT_AN_END)
    return np.asarray(np.clip(share, 0.0, 1.0))


def doubted(
    ready: Prepared, seconds: Float, draws: Draws, by_sum: Float, around: Float, plain: Float | None
) -> Float:
    """Return drawn run times [s] with what a wrong order can do: the rules derive only a share of
    the critical path (decision D20).

        t + (1 - explained) (a (sum - t) + b (u - measured))

    where t is the run time by the timeline, u the same with the host of the recording, and a and b
    lie between 0 and 1: the rest of the path overlaps as recorded or as the replay has it, and
    keeps its time or changes as the run around it.  No change has no width.

    Parameters
    ----------
    seconds, by_sum, around : run times t by the timeline, by the sum, and u [s], shape of the
        draws.
    plain : t without the other network; None where there is none.
    """
    if ready.timeline is None or ready.trust is None or ready.trust.explained >= 1.0:
        return seconds
    if plain is not None:  # the sum knows no network
        by_sum = by_sum + seconds - plain
    overlap, rest = (draws.share(name) for name in (OVERLAP, UNEXPLAINED))
    changes = overlap * (by_sum - seconds) + rest * (around - ready.measured)
    return np.asarray(np.maximum(seconds + (1.0 - ready.trust.explained) * changes, 0.0))


def _on_timeline(timeline: TimelineReplay, measured: float, change: Change) -> Replayed:
    was = timeline.unchanged_seconds
    saved, delayed = timeline.budget(change)
    lower, upper = np.maximum(measured + saved, 0.0), measured + delayed
    instants, path = timeline.path(change)
    # the run ends with its last instant: what `seconds` would replay once more
    seconds = instants.max()
    recorded = timeline.unchanged_parts(PART_OF_CATEGORY, measured - was)
    projected = projected_parts(timeline, change.values, instants, path, measured - was)
    windows = (timeline.kernel_window(instants), timeline.unchanged_window)
    return Replayed(
        measured + (seconds - was),
        lower,
        upper,
        projected,
        recorded,
        _difference(projected, recorded),
        windows,
    )


def projected_parts(
    timeline: TimelineReplay, values: Float, instants: Float, path: Int, beyond: float
) -> dict[str, float]:
    """Return the recorded time of each part plus its change [s]; the parts add up to the run time
    on the target.

    The critical path on the target would show changes that did not happen: where paths tie, or
    nearly do, a small change sends it over to other work.  No part falls below nothing: what one
    saves beyond its recorded time is taken from the others, in proportion.

    Parameters
    ----------
    values : parameters of the target, as `Change.values` has them.
    instants, path : of the run with these parameters.
    beyond : run time outside the graph [s].
    """
    recorded = timeline.unchanged_parts(PART_OF_CATEGORY, beyond)
    points = int(np.clip(_WALKED // max(len(timeline.graph.time_ns), 1), 2, _POINTS))
    change = timeline.change_by_part(values, instants, path, PART_OF_CATEGORY, points)
    parts = {part: recorded[part] + change[part] for part in PARTS}
    kept = {part: max(seconds, 0.0) for part, seconds in parts.items()}
    if kept == parts:
        return parts
    share = max(sum(parts.values()), 0.0) / sum(kept.values())
    return {part: seconds * share for part, seconds in kept.items()}


def _difference(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {part: after[part] - before[part] for part in PARTS}


def changed(ready: Prepared, durations: Durations) -> Change:
    """Convert durations to changes of edges, with those of the network that the run is made ready
    for.
    """
    change = timeline_change(durations)
    return change if ready.network is None else replace(change, network=ready.network_factor)


def timeline_change(durations: Durations) -> Change:
    """Convert durations to changes of edges."""
    run = durations.run
    ratio = np.divide(
        durations.scaled, run.seconds, out=np.ones(durations.scaled.shape), where=run.seconds > 0
    )
    return Change(
        ratio,
        durations.falls["activity"],
        durations.falls["delivery"],
        durations.falls["return"],
        durations.host,
        queue=durations.falls["queue"],
    )


def plain_sums(durations: Durations, recorded: bool = False) -> dict[str, float]:
    """Return launches with what delays them, kernels and copies added up [s], hidden behind other
    work or not; or as `recorded`.

    Groves et al. 2022 draw these sums for a run (Fig 10).  Where work overlaps, they add up to more
    than the run time.
    """
    run = durations.run
    rows = {
        "launch": run.kind == "launch",
        "kernel": run.kind == "kernel",
        "copy": run.category == "copy",
    }
    there = {
        "launch": durations.seconds,
        "kernel": durations.undelayed,
        "copy": durations.undelayed,
    }
    return {
        part: float((run.seconds if recorded else there[part])[which].sum())
        for part, which in rows.items()
    }


def _breakdown(run: Pieces, exposed: Float) -> dict[str, float]:
    part = np.array([PART_OF_CATEGORY[c] for c in run.category], dtype=object)
    part[run.kind == "launch"] = "launch"
    return {p: float(exposed[part == p].sum()) for p in PARTS}
