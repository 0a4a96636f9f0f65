"""Tolerance of the network: run time against latency added to every message between nodes, and
against the cost of a byte, exactly.

The curve is the timeline's, as for the distance of the GPU: a maximum of straight lines.  The price
of a message grows by the added latency, that of a collective by the latencies along its algorithm,
which is a broken line of its own: its corners are found first, and each stretch between two is one
line of change.  The run at an added latency x is that of `turnbuckle project --network` on the same
network with a latency longer by x.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.findings import finding
from turnbuckle.projection.admission import trusted_timeline
from turnbuckle.projection.elsewhere.network import (
    OBSERVED,
    Carried,
    OnNetwork,
    Other,
    on_other,
    other_network,
)
from turnbuckle.projection.order import Prepared
from turnbuckle.projection.run import Run
from turnbuckle.projection.sensitivity import Curve, along, shares
from turnbuckle.questions.distance.distance import FARTHEST, MODEL
from turnbuckle.questions.distance.question import (
    STRETCHES,
    THRESHOLDS,
    Slack,
    Tolerance,
    breakpoints_affordable,
    sound_repeats,
)
from turnbuckle.replay.timeline import Change, no_change

#: Rounds in which corners of prices are looked for on a stretch.
_ROUNDS: Final = 6
#: How far a price may be off a straight line by rounding alone: prices are whole picoseconds, of a
#: few messages each [ns].
_ROUNDING_NS: Final = 0.05
#: Share of a stretch over which the slope at its ends is taken.
_NEAR: Final = 0.01
#: Share of the run time by which a curve that is replayed at points may be off a straight line, and
#: how often a stretch is halved at most.
_STRAIGHT: Final = 1e-3
_HALVINGS: Final = 4


@dataclass(frozen=True)
class Stretch:
    """Numbers of the network between which every price is a straight line, and what the network
    adds at either end, per edge [ns].
    """

    first: float
    last: float
    at_first: Float
    at_last: Float


def tolerate_network(
    seen: Run,
    network: OnNetwork | str | None = None,
    *,
    repeats: Sequence[float] = (),
    most: int | None = None,
    **others: Any,
) -> Slack:
    """Return the run time of an inspected profile against latency added to messages between nodes.

    Parameters
    ----------
    network : the network that messages are replayed on, by name or with settings; None is the
        recording's own.
    repeats, most : as in `turnbuckle.questions.distance.question.tolerate`.
    others : further settings of that function, which have no part in this one but for draws and
        seed: nothing is drawn.

    Raises
    ------
    CannotAnswer : A122, A164, A193; UsageError : A015 for classes, a machine or idle gaps, A050,
        A074, A081, A091, A092, A427, A570.
    """
    if given := [name for name, value in others.items() if value and name not in ("draws", "seed")]:
        raise error_of("A015.network", found=f"--mode network with {', '.join(given)}")
    sound_repeats(repeats)
    asked = on_other(network) or OnNetwork(OBSERVED)
    ready, other = _on(seen, asked)
    assert ready.trust is not None
    timeline, measured = trusted_timeline(ready), seen.profile.seconds
    curve = curve_of(
        other, [0.0, *STRETCHES, FARTHEST], "latency", most or breakpoints_affordable(timeline)
    )
    curve = replace(curve, seconds=curve.seconds + (measured - timeline.unchanged_seconds))
    tolerances = tuple(
        Tolerance(share, curve.reaches(measured * (1 + share)), None) for share in THRESHOLDS
    )
    beyond = measured - float(timeline.graph.time_ns.max()) * 1e-9
    carried_at = next((t.slack for t in reversed(tolerances) if t.slack), FARTHEST)
    attribution, runs = shares(timeline, beyond), (measured, *repeats) if repeats else ()
    slack = Slack(
        seen, "network", measured, curve, tolerances, (), carried_at, ready.trust, attribution, runs
    )
    return replace(
        slack,
        findings=[finding("A309", 1, ready.trust.words()), *other.carried.findings],
        network=other.carried,
    )


def bandwidth_curve(
    seen: Run, network: OnNetwork | str | None, ends: Sequence[float]
) -> tuple[Curve, Carried]:
    """Return the run time [s] against how many times as long a byte takes on the NICs of a network,
    and the two networks.

    Raises as `tolerate_network`; A195, the network has no known bandwidth.
    """
    ready, other = _on(seen, on_other(network) or OnNetwork(OBSERVED))
    timeline = trusted_timeline(ready)
    curve = curve_of(other, ends, "bandwidth", breakpoints_affordable(timeline))
    return replace(
        curve, seconds=curve.seconds + (seen.profile.seconds - timeline.unchanged_seconds)
    ), other.carried


def _on(seen: Run, asked: OnNetwork) -> tuple[Prepared, Other]:
    """Return a run with its order, and on another network; messages share nothing unless they are
    asked to.
    """
    if not asked.of("fidelity"):
        asked = replace(asked, settings=(*asked.settings, "fidelity=logp"))
    ready = seen.prepared(MODEL)
    return ready, other_network(seen.between, trusted_timeline(ready), asked)


def curve_of(
    other: Other, numbers: Sequence[float], over: Literal["latency", "bandwidth"], most: int
) -> Curve:
    """Return the run time of the graph [s] against added latency, or the cost of a byte, of its
    network.

    Parameters
    ----------
    numbers : first and last, and between them points to look from.
    most : breakpoints looked for on each stretch.

    By itself a message's price is a broken line in either number, and every breakpoint is found.
    Where messages share links, or ranks a GPU, the run is replayed at points, more of them where
    the curve bends; between two points it is taken to be a straight line.
    """
    if other.carried.target.alone:
        return exact_curve(
            other, other.added_ns if over == "latency" else other.slowed_ns, numbers, most
        )
    return sampled_curve(other.later if over == "latency" else other.slower, numbers)


def sampled_curve(at: Callable[[float], float], numbers: Sequence[float]) -> Curve:
    """Return a run time [s] at some numbers, and at the middle between two wherever a straight line
    is too far off there.

    Parameters
    ----------
    at : run time at a number [s].
    """
    seconds = {x: at(x) for x in numbers}
    gap = 0.0
    looked = [(a, b, _HALVINGS) for a, b in pairwise(numbers)]
    while looked:
        first, last, left = looked.pop()
        middle = (first + last) / 2
        straight = (seconds[first] + seconds[last]) / 2
        seconds[middle] = at(middle)
        off = abs(seconds[middle] - straight)
        if off <= _STRAIGHT * seconds[middle] or not left:
            gap = max(gap, off)
            continue
        looked += [(first, middle, left - 1), (middle, last, left - 1)]
    knots = np.array(sorted(seconds))
    # a longer way never helps: what a replay with shared links gains on it is an anomaly of sharing
    times = np.maximum.accumulate([seconds[x] for x in knots.tolist()])
    return Curve(knots, times, np.diff(times) / np.diff(knots), gap)


def exact_curve(
    other: Other, added: Callable[[float], Float], ends: Sequence[float], most: int
) -> Curve:
    """Return the run time of the graph [s] against one number of the network, with every
    breakpoint.

    Parameters
    ----------
    other : the run, and the network.
    added : what the network adds to each lag at that number [ns].
    ends : first and last number, and between them points to look from.
    most : breakpoints looked for on each stretch.
    """
    curves = []
    for first, last in pairwise(ends):
        for stretch in _stretches(added, first, added(first), last, added(last), _ROUNDS):
            curves.append(_curve(other, stretch, most))
    knots = np.concatenate([curves[0].at[:1], *(c.at[1:] for c in curves)])
    seconds = np.concatenate([curves[0].seconds[:1], *(c.seconds[1:] for c in curves)])
    slopes = np.concatenate([c.slopes for c in curves])
    # where two stretches meet there is a corner only if the slope changes
    bends = np.concatenate(
        [[True], np.abs(np.diff(slopes)) > 1e-9 * np.abs(slopes).max(initial=0.0), [True]]
    )
    return Curve(knots[bends], seconds[bends], slopes[bends[:-1]], max(c.gap for c in curves))


def _curve(other: Other, stretch: Stretch, most: int) -> Curve:
    """Return the run time along one stretch [s]."""
    length = stretch.last - stretch.first
    replay = other.timeline.on_latency(
        other.graph, stretch.at_first, (stretch.at_last - stretch.at_first) / length
    )
    none = no_change(len(replay.run))

    def change(points: Float) -> Change:
        return replace(none, network=np.concatenate([np.ones_like(points), points], axis=-1))

    curve = along(replay, change, [0.0, length], 0.0, most)
    return replace(curve, at=curve.at + stretch.first)


def _stretches(
    added: Callable[[float], Float],
    first: float,
    at_first: Float,
    last: float,
    at_last: Float,
    rounds: int,
) -> list[Stretch]:
    """Cut a stretch where a price has a corner."""
    middle = (first + last) / 2
    bent = np.abs(added(middle) - (at_first + at_last) / 2) > _ROUNDING_NS
    if not rounds or not bent.any():
        return [Stretch(first, last, at_first, at_last)]
    near = (last - first) * _NEAR
    rising = (added(first + near)[bent] - at_first[bent]) / near
    falling = (at_last[bent] - added(last - near)[bent]) / near
    apart = falling - rising
    ahead = at_first[bent] - at_last[bent] + falling * (last - first)
    crossing = np.divide(ahead, apart, out=np.full(len(apart), np.nan), where=apart != 0)
    corners = np.unique(np.round(crossing[np.isfinite(crossing)], 15)) + first
    corners = corners[(corners > first + near) & (corners < last - near)]
    corner = float(corners[len(corners) // 2]) if len(corners) else middle
    at_corner = added(corner)
    before = _stretches(added, first, at_first, corner, at_corner, rounds - 1)
    return [*before, *_stretches(added, corner, at_corner, last, at_last, rounds - 1)]
