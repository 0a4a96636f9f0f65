"""Where measured meets modelled: every piece priced on both machines, the price anchored in what
was recorded.

    ratio        measured x target / source
    difference   measured + target - source
    absolute     target

With the first two, what a price gets wrong on both machines cancels, and a run on its own machine
keeps its durations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.profile.pieces import Pieces
from turnbuckle.projection.model import Falls, Model, Priced


@dataclass(frozen=True)
class Durations:
    """What a model makes of a run's durations; arrays have shape (..., pieces).

    Attributes
    ----------
    scaled : new durations as far as prices scale them, counted together [s].
    delay : time added to each activity [s].
    falls : the same delays as the timeline takes them: where each falls, added to every activity
        there [s].
    missing : charges that could not be priced.
    host : new over measured length of the application's own work between calls, shape (..., 1).
    """

    run: Pieces
    scaled: Float
    delay: Float
    falls: dict[Falls, Float]
    missing: tuple[str, ...]
    host: Float = field(default_factory=lambda: np.ones(1))

    @property
    def undelayed(self) -> Float:
        """Return the new durations of the activities themselves, counted together [s]: without what
        delays them before they begin.
        """
        return np.maximum(self.scaled + self.run.count * self.falls["activity"], 0.0)

    def of(self, rows: Bool) -> Durations:
        """Return the durations of some pieces."""
        falls: dict[Falls, Float] = {
            where: seconds[..., rows] for where, seconds in self.falls.items()
        }
        return replace(
            self,
            run=self.run.of(rows),
            scaled=self.scaled[..., rows],
            delay=self.delay[..., rows],
            falls=falls,
        )

    @property
    def seconds(self) -> Float:
        """Return the new durations, counted together [s]."""
        return np.maximum(self.scaled + self.run.count * self.delay, 0.0)


#: Prices on the source by the function that makes them: shape (..., pieces covered) [s], None where
#: a parameter is missing.  They hold for one run on one source, and one model object.
Prices = dict[Callable[[Pieces, Priced, Priced], Float | None], Float | None]


def anchored(
    run: Pieces, source: Priced, target: Priced, model: Model, on_source: Prices | None = None
) -> Durations:
    """Price every piece on both machines and anchor it in its measured duration.  Draws broadcast
    along leading axes.

    Parameters
    ----------
    run, source, target, model : what is priced, on which machines, by which price list.
    on_source : prices of the same pieces on the same source, filled in as they are asked for; None
        keeps none.
    """
    prices: Prices = {} if on_source is None else on_source
    scaled, delay = run.seconds.copy(), np.zeros(len(run))
    falls: dict[Falls, Float] = {where: np.zeros(len(run)) for where in get_args(Falls)}
    missing: list[str] = []
    for charge in model.charges:
        if (
            charge.only is not None
            and source.value(charge.only) is None
            and target.value(charge.only) is None
        ):
            continue
        covered = run.rows(charge.covers)
        replayed = covered if charge.replayed is None else run.rows(charge.replayed)
        if not (covered.any() or replayed.any()):
            continue
        if charge.seconds not in prices:
            prices[charge.seconds] = charge.seconds(run, source, source)
        before, after = prices[charge.seconds], charge.seconds(run, target, source)
        if after is None or (before is None and charge.anchor != "absolute"):
            missing.append(charge.name)
            continue
        old = run.seconds[covered]
        if charge.anchor == "absolute" or before is None:
            scaled = _raised(scaled, covered, run.count[covered] * after - old)
        elif charge.anchor == "difference":
            change = np.asarray(after - before)
            delay = _raised(delay, covered, change)
            falls[charge.falls] = _raised(falls[charge.falls], replayed, change)
        else:
            ratio = np.divide(
                after,
                before,
                out=np.ones(np.broadcast_shapes(after.shape, before.shape)),
                where=before > 0,
            )
            scaled = _raised(scaled, covered, old * (ratio - 1.0))
    return Durations(run, np.maximum(scaled, 0.0), delay, falls, tuple(missing))


def _raised(values: Float, covered: Bool, change: Float) -> Float:
    """Add `change` to `values` where covered, in place where they have its draws; draws of either
    stand along the leading axes.
    """
    draws = np.broadcast_shapes(values.shape[:-1], change.shape[:-1])
    if values.shape[:-1] != draws:
        values = np.broadcast_to(values, (*draws, values.shape[-1])).copy()
    values[..., covered] += change
    return values


def in_every_draw(mask: Bool) -> Bool:
    """Return whether a mask of shape (..., draws, pieces) holds in all draws, shape (..., 1,
    pieces); a mask without draws as it is.
    """
    return np.asarray(mask.all(axis=-2, keepdims=True) if mask.ndim > 1 else mask)


def on_host(
    durations: Durations, work: Float | None, calls: Float | None, untouched: Bool
) -> Durations:
    """Let another host do the program's own work, and the calls that nothing prices.

    Parameters
    ----------
    durations : as priced.
    work, calls : times that the host takes longer for the program's own work and for calls, a
        number or shape (draws, 1); None is the source's host.
    untouched : pieces that keep the source's price for another reason.

    Waiting is not work: calls that wait keep their length.
    """
    if work is None or calls is None:
        return durations
    run = durations.run
    kept = in_every_draw(durations.scaled == run.seconds) & in_every_draw(durations.delay == 0)
    rows = np.isin(run.category, ("api", "cpu")) & (run.kind != "sync") & kept & ~untouched
    factor = np.where(rows, np.where(run.category == "api", calls, work), 1.0)
    return replace(durations, scaled=durations.scaled * factor, host=np.atleast_1d(work))


def unchanged(run: Pieces) -> Durations:
    """Return the durations of a run as recorded."""
    nothing = np.zeros(len(run))
    return Durations(run, run.seconds.copy(), nothing, dict.fromkeys(get_args(Falls), nothing), ())


def host_shorter(durations: Durations, left: Float) -> Durations:
    """Let the application's own work between calls take this share of its time, shape (draws,
    1).
    """
    factor = np.where(durations.run.category == "cpu", left, 1.0)
    return replace(durations, scaled=durations.scaled * factor, host=durations.host * left)


def kernels_longer_by(durations: Durations, longer: Float | None) -> Durations:
    """Let kernels take so many times longer, a number or shape (draws, 1) or (draws, pieces); None
    leaves them.
    """
    if longer is None:
        return durations
    return replace(
        durations, scaled=durations.scaled * np.where(durations.run.kind == "kernel", longer, 1.0)
    )


def nic_kept(durations: Durations, nic_bound: Mapping[str, float]) -> Durations:
    """Let copies keep the share of their recorded time in which they carry what goes on to the
    network card.

    Parameters
    ----------
    durations : as priced.
    nic_bound : that share of the bytes by direction.
    """
    if not nic_bound:
        return durations
    run = durations.run
    share = np.where(
        run.category == "copy", [nic_bound.get(direction, 0.0) for direction in run.direction], 0.0
    )
    falls: dict[Falls, Float] = {
        **durations.falls,
        "activity": durations.falls["activity"] * (1.0 - share),
    }
    return replace(
        durations,
        scaled=share * run.seconds + (1.0 - share) * durations.scaled,
        delay=durations.delay * (1.0 - share),
        falls=falls,
    )
