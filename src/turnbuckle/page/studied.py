"""Studies that a report needs beyond its projections: distance, classes of time, before and after,
the other replay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import CannotAnswer
from turnbuckle.machine import Pair
from turnbuckle.projection.answers.answer import Answer
from turnbuckle.projection.order import Prepared
from turnbuckle.projection.project import answered
from turnbuckle.projection.projection import Projection
from turnbuckle.projection.sensitivity import HOST_WORK, MOST, Share, classes, shares
from turnbuckle.projection.uncertainty import affordable
from turnbuckle.questions.before_after.question import Moved, Window, moved, window
from turnbuckle.questions.distance.distance import FARTHEST, MODEL, NEAREST
from turnbuckle.questions.distance.question import Slack, tolerate
from turnbuckle.questions.distance.speeds import Levers, Surface, host_change, levers, surface
from turnbuckle.replay.timeline import TimelineReplay, no_change

#: Activities that a before-and-after time line shows, at most.
SHOWN: Final = 100
#: Latencies of the map, nothing apart; it ends where the run takes twice as long, at a whole decade
#: between these [s].
COLUMNS: Final = 22
NEAR_END, FAR_END = 1e-5, FARTHEST
#: What the work of a host twice as fast costs, and of one half as fast.
HOSTS: Final = (0.5, 2.0)
#: Instants times breakpoints that a curve may take, and breakpoints of the largest runs: a report
#: is to be there in seconds.
PASSES: Final = 100_000_000
FEWEST: Final = 16
#: Changes of run time below this share move nothing worth a picture.
STILL: Final = 1e-6


@dataclass(frozen=True)
class Studies:
    """Answers of the timeline about one run.

    Attributes
    ----------
    link, api : run time against distance, both ways to be far away.
    host : run time [s] on hosts of other speeds, by how much their work and calls cost.
    surface : run time over added latency and bandwidth.
    shares : classes of time on the recorded critical path.
    without : run time [s] if a class of time took no time at all, where that can be asked.
    by_replay : for each projection of the answer, its projection through the timeline and through
        the sum.
    by_hand : the compiled graph, and what can be moved in it.
    moved, window : before and after on the target that changes most, and the stretch to show; None
        where nothing was projected.
    """

    link: Slack
    api: Slack
    host: dict[float, float]
    surface: Surface
    shares: list[Share]
    without: dict[str, float]
    by_replay: list[tuple[Projection, Projection]]
    by_hand: tuple[TimelineReplay, Levers]
    moved: Moved | None
    window: Window | None


def studied(answer: Answer) -> Studies | str:
    """Ask all studies on one compiled graph where possible, or return the reason why none can be
    asked in one sentence.
    """
    profile = answer.run.profile
    if not answer.run.projectable:
        lacks = "no host calls" if answer.run.on_device else "no GPU activity"
        return (
            f"The recording holds {lacks}, so there is no time line between host and device to "
            "replay."
        )
    try:
        ready = answer.run.prepared(
            replace(MODEL, kernels=answer.model.kernels if answer.model else None)
        )
        if ready.timeline is None or not len(ready.timeline.graph.activity) or not profile.seconds:
            return (
                "The recording holds no activity that could be ordered, so there is no time line "
                "to replay."
            )
        most = min(max(PASSES // len(ready.timeline.graph.time_ns), FEWEST), MOST)
        draws = min(answer.draws, affordable(ready))
        link, api = (
            tolerate(answer.run, mode, draws=draws, seed=answer.seed, ready=ready, most=most)
            for mode in ("link", "api")
        )
    except CannotAnswer as e:
        return f"{e.what[:1].upper()}{e.what[1:]}: {e.found}." + (
            f" What to do: {e.fix}." if e.fix else ""
        )
    beyond = profile.seconds - float(ready.timeline.graph.time_ns.max()) * 1e-9
    by_replay = _by_replay(answer, ready)
    run = _moved(answer, by_replay, ready)
    return Studies(
        link,
        api,
        _hosts(ready.timeline, beyond),
        surface(answer.run, slack=_latencies(link), ready=ready),
        shares(ready.timeline, beyond),
        _without(ready.timeline, beyond),
        by_replay,
        levers(answer.run, ready),
        run,
        window(run, SHOWN) if run else None,
    )


def _latencies(link: Slack) -> Float:
    """Return the added latencies of the map [s], up to where the run takes twice as long."""
    double = link.curve.reaches(2.0 * link.measured)
    end = (
        FAR_END
        if double is None
        else min(max(10.0 ** math.ceil(math.log10(max(double, NEAREST))), NEAR_END), FAR_END)
    )
    return np.concatenate([[0.0], np.geomspace(NEAREST, end, COLUMNS)])


def _by_replay(answer: Answer, ready: Prepared) -> list[tuple[Projection, Projection]]:
    """Project every target through both replays, at the stated values."""
    if answer.model is None or answer.model.machine_free:
        return []
    timed, summed = replace(answer.model, replay="timeline"), replace(answer.model, replay="sum")
    pairs = []
    for declared in answer.targets:
        pair, profile = Pair(answer.run.source, declared), answer.run.profile
        pairs.append(
            (
                answered(profile, ready, pair, timed),
                answered(profile, replace(ready, timeline=None), pair, summed),
            )
        )
    return pairs


def _moved(
    answer: Answer, by_replay: list[tuple[Projection, Projection]], ready: Prepared
) -> Moved | None:
    """Return the run before and after on the target that changes most on the timeline; None if none
    changes.
    """
    if not by_replay or answer.model is None:
        return None
    change = [0.0 if p.unknown else abs(p.penalty - 1.0) for p, _ in by_replay]
    most = int(np.argmax(change))
    return (
        moved(
            answer.run.profile, answer.run.source, answer.targets[most], answer.model, ready=ready
        )
        if change[most] > STILL
        else None
    )


def _hosts(replay: TimelineReplay, beyond: float) -> dict[float, float]:
    """Return the run time [s] with a host twice as fast and with one half as fast, as ``slack
    --over cpu`` has it.
    """
    seconds = replay.seconds(host_change(replay.run, np.array(HOSTS)[:, None]))
    return {cost: float(s) + beyond for cost, s in zip(HOSTS, seconds, strict=True)}


def _without(replay: TimelineReplay, beyond: float) -> dict[str, float]:
    """Return the run time [s] if a class of time took none: the time that the rest would still
    wait.
    """
    none = no_change(len(replay.run))
    of = classes(replay.run)
    names = [*dict.fromkeys(of.tolist()), *({HOST_WORK} - set(of.tolist()))]
    ratio = np.array([np.where(of == name, 0.0, 1.0) for name in names]).reshape(len(names), -1)
    host = np.array([[0.0 if name == HOST_WORK else 1.0] for name in names])
    seconds = replay.seconds(replace(none, ratio=ratio, host=host))
    return {str(n): float(s) + beyond for n, s in zip(names, seconds, strict=True)}
