"""START HERE.  A run is activities in an order: price each on the new machine, anchor the price in what was measured,
put the activities back in order.

    price -> anchor -> replay -> Projection

Everything else in Turnbuckle prepares these four lines (reading, profiling, describing machines) or repeats them
(`study`), and shows what came out (`report`, `cli`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnbuckle.errors import CannotAnswer
from turnbuckle.findings import Finding, finding, merge
from turnbuckle.machine import Machine, Pair
from turnbuckle.model import Model, Priced, kernel_rate, link_bandwidth
from turnbuckle.profile.dependencies import dependencies
from turnbuckle.profile.pieces import Pieces, grouped
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary import peak_memory_bytes
from turnbuckle.projection import PART_OF_CATEGORY, PARTS, Projection
from turnbuckle.replay.sum import replay_sum
from turnbuckle.replay.timeline import Change, TimelineReplay, no_change

Float = NDArray[np.float64]


#: Tables of a trace of which at least one must hold rows for a coupling to matter.
DEVICE_ACTIVITY = frozenset({"kernels", "copies", "graphs", "memsets"})


@dataclass(frozen=True)
class Durations:
    """What a model makes of a run's durations; arrays have shape (..., pieces).

    Attributes
    ----------
    scaled : new durations as far as prices scale them, counted together [s].
    delay : time added to each activity [s].
    adds : whether the piece changes by a delay.
    missing : charges that could not be priced.
    """

    run: Pieces
    scaled: Float
    delay: Float
    adds: NDArray[np.bool_]
    missing: tuple[str, ...]

    @property
    def seconds(self) -> Float:
        """New durations, counted together [s]."""
        return np.maximum(self.scaled + self.run.count * self.delay, 0.0)


@dataclass(frozen=True)
class Prepared:
    """A profile made ready to be replayed many times.

    Attributes
    ----------
    run : its pieces.
    measured : recorded run time [s].
    timeline : its compiled graph; None for the sum.
    """

    run: Pieces
    measured: float
    timeline: TimelineReplay | None = None


def prepared(profile: Profile, model: Model) -> Prepared:
    """Group a profile into pieces and, for the timeline, compile its graph."""
    run, piece = grouped(profile)
    graph = TimelineReplay.compiled(dependencies(profile), run, piece) if model.replay == "timeline" else None
    return Prepared(run, profile.seconds, graph)


def project(profile: Profile, pair: Pair, model: Model) -> Projection:
    """What `profile`, recorded on ``pair.source``, would take on ``pair.target``.

    Parameters
    ----------
    profile : the recorded run.
    pair : where it ran and where it might run; the target is resolved (no base left open).
    model : price list and replay.

    Returns
    -------
    Projection without interval; `turnbuckle.study.uncertainty` adds it by asking again with drawn machines.

    Raises
    ------
    CannotAnswer : A121, the profile has no host-device activity and the target is another machine.
    """
    return answered(profile, prepared(profile, model), pair, model)


def answered(profile: Profile, ready: Prepared, pair: Pair, model: Model) -> Projection:
    """`project` for a profile that is already prepared."""
    require(profile, pair)
    durations = anchored(ready.run, pair.source, pair.target, model)
    result = replayed(ready, durations, pair.source, pair.target, model)
    return Projection(
        target="self" if pair.target is pair.source else pair.target.name,
        title=pair.target.title,
        model=model.name,
        replay=model.replay,
        seconds=float(result.seconds),
        measured_seconds=profile.seconds,
        breakdown=result.breakdown,
        measured_breakdown=result.measured_breakdown,
        envelope=(float(result.lower), float(result.upper)),
        coupling=coupling_change(pair.source, pair.target),
        alpha=_alpha(pair, model),
        findings=_findings(profile, ready, pair, model, durations),
    )


def require(profile: Profile, pair: Pair) -> None:
    """Refuse before any work what the profile cannot answer."""
    if pair.target is not pair.source and not profile.has & DEVICE_ACTIVITY:
        raise CannotAnswer(
            "A121", "this profile holds no GPU activity, so another coupling changes nothing that can be said",
            found="no kernels, copies or memsets", cause="recorded without CUDA tracing", fix="nsys profile --trace=cuda,nvtx,mpi ...",
        )  # fmt: skip


def anchored(run: Pieces, source: Priced, target: Priced, model: Model) -> Durations:
    """Price every piece on both machines and anchor it in its measured duration.  Draws broadcast along leading axes."""
    scaled, delay = run.seconds.copy(), np.zeros(len(run))
    adds = np.zeros(len(run), dtype=np.bool_)
    missing: list[str] = []
    for charge in model.charges:
        covered = charge.covers(run)
        if not covered.any():
            continue
        before, after = charge.seconds(run, source, source), charge.seconds(run, target, source)
        if before is None or after is None:
            missing.append(charge.name)
            continue
        old = run.seconds[covered]
        if charge.anchor == "difference":
            delay = _raised(delay, covered, np.asarray(after - before))
            adds |= covered
        elif charge.anchor == "absolute":
            scaled = _raised(scaled, covered, run.count[covered] * after - old)
        else:
            ratio = np.divide(after, before, out=np.ones(np.broadcast_shapes(after.shape, before.shape)), where=before > 0)
            scaled = _raised(scaled, covered, old * (ratio - 1.0))
    return Durations(run, np.maximum(scaled, 0.0), delay, adds, tuple(missing))


def _raised(values: Float, covered: NDArray[np.bool_], change: Float) -> Float:
    """`values` plus `change` where covered, with the draws of either along the leading axes."""
    draws = np.broadcast_shapes(values.shape[:-1], change.shape[:-1])
    out = np.broadcast_to(values, (*draws, values.shape[-1])).copy()
    out[..., covered] += change
    return out


@dataclass(frozen=True)
class Replayed:
    """Run times [s], shape of the draws; breakdowns for a single answer only."""

    seconds: Float
    lower: Float
    upper: Float
    breakdown: dict[str, float]
    measured_breakdown: dict[str, float]


def replayed(ready: Prepared, durations: Durations, source: Priced, target: Priced, model: Model) -> Replayed:
    """Put the pieces back in order, by the replay the model names."""
    run = ready.run
    if ready.timeline is None:
        tail = np.divide(run.tail_count, run.count, out=np.zeros_like(run.count), where=run.count > 0)
        total = replay_sum(ready.measured, run.seconds, run.exposed_seconds, tail, durations.adds, durations.seconds)
        single = total.exposed_seconds.ndim == 1
        return Replayed(
            total.seconds,
            total.lower,
            total.upper,
            _breakdown(run, total.exposed_seconds) if single else {},
            _breakdown(run, run.exposed_seconds) if single else {},
        )
    return _on_timeline(ready.timeline, ready.measured, durations, source, target, model)


def _on_timeline(timeline: TimelineReplay, measured: float, durations: Durations, source: Priced, target: Priced, model: Model) -> Replayed:
    change = _change(durations, source, target, model)
    unchanged = no_change(len(durations.run))
    was = float(timeline.seconds(unchanged))
    # adding the difference keeps the identity exact
    seconds = measured + (timeline.seconds(change) - was)
    saved, delayed = timeline.budget(change)
    parts: list[dict[str, float]] = [{}, {}]
    if np.ndim(seconds) == 0:
        parts = [timeline.parts(c, PART_OF_CATEGORY, measured - was) for c in (change, unchanged)]
    return Replayed(seconds, np.maximum(measured + saved, 0.0), measured + delayed, *parts)


def _change(durations: Durations, source: Priced, target: Priced, model: Model) -> Change:
    """Durations as changes of edges.  On the graph every launch has both its call and its delivery, idle device or not."""
    run, charged = durations.run, {c.name for c in model.charges}

    def delay(charge: str, parameter: str, unstated: float | None = None) -> Float:
        """Added seconds, shape (1,) or (draws, 1); nothing where a machine does not give the parameter."""
        before, after = source.value(parameter), target.value(parameter)
        before, after = unstated if before is None else before, unstated if after is None else after
        if charge not in charged or before is None or after is None:
            return np.zeros(1)
        return np.atleast_1d(np.asarray(after - before, dtype=np.float64))

    ratio = np.divide(durations.scaled, run.seconds, out=np.ones(durations.scaled.shape), where=run.seconds > 0)
    call = (
        delay("launch call", "launch.call") * (run.kind == "launch")
        + delay("alloc", "alloc.call") * (run.kind == "alloc")
        + delay("slack", "slack.call", 0.0) * run.crosses
    )
    return Change(ratio, call, delay("launch", "launch.latency"), delay("sync", "sync.return"))


def _breakdown(run: Pieces, exposed: Float) -> dict[str, float]:
    part = np.array([PART_OF_CATEGORY[c] for c in run.category], dtype=object)
    part[run.kind == "launch"] = "launch"
    return {p: float(exposed[part == p].sum()) for p in PARTS}


def _alpha(pair: Pair, model: Model) -> float | None:
    """How much faster kernels run on the target; None where they keep their time."""
    if pair.target is pair.source or model.alpha == "hold":
        return None
    if not isinstance(model.alpha, str):
        return float(model.alpha)
    here, there = kernel_rate(pair.source, model.alpha), kernel_rate(pair.target, model.alpha)
    return None if here is None or there is None else float(there / here)


def coupling_change(source: Machine, target: Machine) -> dict[str, Any]:
    """Link, latency and bandwidth on both sides, per direction: no ratio stands without them (decision D17)."""
    out: dict[str, Any] = {"source": source.coupling, "target": target.coupling, "copies_vanish": target.copies_vanish}
    for direction in ("h2d", "d2h"):
        here, there = link_bandwidth(source, direction, source), link_bandwidth(target, direction, source)
        latency = source.value(f"link.{direction}.latency"), target.value(f"link.{direction}.latency")
        out[direction] = {
            "source_bandwidth": None if here is None else float(here),
            "target_bandwidth": None if there is None else float(there),
            "source_latency_s": latency[0],
            "target_latency_s": latency[1],
        }
    out["added_call_slack_s"] = (target.value("slack.call") or 0.0) - (source.value("slack.call") or 0.0)
    return out


def _findings(profile: Profile, ready: Prepared, pair: Pair, model: Model, durations: Durations) -> list[Finding]:
    if pair.target is pair.source:
        return []
    explained = None if ready.timeline is None else ready.timeline.explained()
    out = [finding("A308")] if explained is None else [finding("A309", 1, f"{explained:.1%} of the critical path")]
    out += _unpriced(pair, model, ready.run, durations.missing)
    alpha = _alpha(pair, model)
    if model.alpha == "hold" or alpha is None or alpha == 1.0:
        out.append(finding("A305"))
    elif isinstance(model.alpha, str):
        out.append(finding("A301", 1, f"alpha {alpha:.2f} by {model.alpha}"))
        here, there = (m.value("gpu.memory_bandwidth") for m in (pair.source, pair.target))
        if model.alpha == "flop" and here and there and abs(np.log(alpha * here / there)) > np.log(1.5):
            out.append(finding("A302", 1, f"{alpha:.2f} by FLOP, {there / here:.2f} by memory bandwidth"))
    if pair.target.changes:
        out.append(finding("M103"))
    if limited := _read_limited(pair):
        out.append(finding("A306", 1, limited))
    held = pair.target.value("gpu.memory_size")
    peak = peak_memory_bytes(profile)
    if held is not None and peak > held:
        out.append(finding("A307", 1, f"{peak / 1e9:.1f} of {held / 1e9:.1f} GB"))
    return merge(out)


def _unpriced(pair: Pair, model: Model, run: Pieces, missing: tuple[str, ...]) -> list[Finding]:
    """Parameters a charge wanted and one of the machines does not give.

    A target that only changes the coupling says nothing of what it leaves alone, and need not.
    """
    touched = {c.parameter for c in pair.target.changes}
    wanted: dict[str, None] = {}
    for charge in model.charges:
        if not charge.covers(run).any() or (pair.target.copies_vanish and charge.kept):
            continue
        if charge.name in missing or any(pair.target.value(n) is None for n in charge.kept):
            wanted |= dict.fromkeys(charge.needs)
    relevant = [n for n in wanted if not pair.target.changes or n in touched]
    unseen = [n for n in relevant if pair.source.value(n) is None]
    unstated = [n for n in relevant if pair.target.value(n) is None and n not in unseen]
    return [finding(code, len(names), ", ".join(names)) for code, names in (("M102", unstated), ("M104", unseen)) if names]


def _read_limited(pair: Pair) -> str:
    """How far reads in flight cut the target's host-to-device bandwidth below eta BW; empty where they do not."""
    reached, nominal = link_bandwidth(pair.target, "h2d", pair.source), pair.target.value("link.h2d.bandwidth")
    efficiency = pair.target.value("link.h2d.efficiency") or pair.source.value("link.h2d.efficiency") or 1.0
    if reached is None or nominal is None or float(reached) >= 0.999 * min(efficiency, 1.0) * nominal:
        return ""
    return f"{float(reached) / 1e9:.1f} instead of {efficiency * nominal / 1e9:.1f} GB/s"
