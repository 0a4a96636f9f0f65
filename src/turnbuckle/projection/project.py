"""START HERE.  A run is activities in an order: price each on the new machine, anchor the price in
what was measured, put the activities back in order.

    price, anchor (`anchor`) -> replay (`order`) -> Projection

Everything else in Turnbuckle prepares these calls (reading, profiling, describing machines) or
repeats them (`study`), and shows what came out (`report`, `cli`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.findings import Finding
from turnbuckle.machine import Pair
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.profile.pieces import Pieces
from turnbuckle.profile.profile import Profile
from turnbuckle.projection.admission import require, require_order
from turnbuckle.projection.anchor import (
    Durations,
    Prices,
    anchored,
    kernels_longer_by,
    nic_kept,
    on_host,
)
from turnbuckle.projection.assumptions import both_ways, coupling_change, findings, kernel_ratio
from turnbuckle.projection.elsewhere.holes import hole
from turnbuckle.projection.elsewhere.host_reads import crosses, hanging_on_reads, read_again
from turnbuckle.projection.elsewhere.hosts import host_longer
from turnbuckle.projection.elsewhere.priors import Draws, elsewhere, unstated, zero_copy_longer
from turnbuckle.projection.elsewhere.staging import Staging, staging
from turnbuckle.projection.model import Model, Priced
from turnbuckle.projection.order import Prepared, changed, plain_sums, prepared, replayed, run_times
from turnbuckle.projection.projection import Projection


def project(profile: Profile, pair: Pair, model: Model) -> Projection:
    """Project `profile`, recorded on ``pair.source``, on ``pair.target``.

    Parameters
    ----------
    profile : the recorded run.
    pair : where it ran and where it might run; the target is resolved (no base left open).
    model : price list and replay.

    Returns
    -------
    Projection without interval; `turnbuckle.projection.uncertainty` adds it by asking again with
    drawn machines.

    Raises
    ------
    CannotAnswer : A121, the profile has no host-device activity and the target is another machine;
        A122, its order cannot be trusted.
    UsageError : A509, the machine or a charge makes a run time that is no number.
    """
    return answered(profile, prepared(profile, model), pair, model)


def answered(
    profile: Profile, ready: Prepared, pair: Pair, model: Model, durations: Durations | None = None
) -> Projection:
    """Do the same as `project` for a profile that is already prepared.

    Parameters
    ----------
    durations : its prices, where they are known.
    """
    require(profile, pair, model.port)
    if pair.target is not pair.source or ready.network is not None:
        require_order(ready, "; --replay sum needs no order")
    target = stated(ready, pair)
    durations = priced(ready, pair, model) if durations is None else durations
    result = replayed(ready, durations)
    if not np.isfinite(result.seconds):
        raise error_of("A509", where=pair.target.name, found=f"{float(result.seconds)} s")
    network_findings = [] if ready.network is None else ready.network.findings
    # the window is that of kernels with rows of their own: a graph recorded as one names none
    windows = (None, None) if profile.trace.graphs.height else result.kernel_windows
    longer = host_longer(pair, pair.target, pair.source, Draws(), model.host, ready.work)
    projection = Projection(
        target="self" if pair.target is pair.source else pair.target.name,
        title=pair.target.title,
        model=model.name,
        replay=ready.replay,
        nic_bound=dict(ready.nic_bound),
        network=ready.network,
        staging=_staging(profile, ready, durations, float(result.seconds)),
        kept_network_seconds=None
        if ready.network is None
        else float(replayed(replace(ready, network=None), durations).seconds),
        seconds=float(result.seconds),
        measured_seconds=profile.seconds,
        breakdown=result.breakdown,
        measured_breakdown=result.measured_breakdown,
        change=result.change,
        plain_sums=plain_sums(durations),
        measured_plain_sums=plain_sums(durations, recorded=True),
        envelope=(float(result.lower), float(result.upper)),
        coupling=coupling_change(pair, target, model.port),
        alpha=_kernel_ratio(durations, pair, model),
        host=None if longer is None else float(longer),
        order={} if ready.trust is None else ready.trust.as_dict(),
        findings=[
            *findings(profile, ready, pair, target, model, durations.missing),
            *both_ways(ready, durations, float(result.seconds)),
            *_reads(ready, pair, model, float(result.seconds)),
            *network_findings,
        ],
        kernel_window_seconds=windows[0],
        measured_kernel_window_seconds=windows[1],
    )
    unknown = hole(profile, ready.run, pair, model)
    return projection.unanswered(unknown) if unknown else projection


def _staging(
    profile: Profile, ready: Prepared, durations: Durations, seconds: float
) -> Staging | None:
    """Return what of the run stages messages, and what GPUDirect makes of it; None where nothing
    does, or without an order.
    """
    if ready.timeline is None or ready.staging is None or not len(ready.staging):
        return None
    return staging(
        ready.timeline,
        ready.staging,
        ready.direct,
        changed(ready, durations),
        profile.seconds,
        seconds,
    )


def _kernel_ratio(durations: Durations, pair: Pair, model: Model) -> float | None:
    """Return how much faster all kernels together run on the target; None where they keep their
    time.
    """
    if model.alpha != "auto" or pair.target is pair.source:
        return kernel_ratio(pair, model)
    rows = durations.run.kind == "kernel"
    before, after = float(durations.run.seconds[rows].sum()), float(durations.undelayed[rows].sum())
    return before / after if before > 0 and after > 0 and before != after else None


def priced(
    ready: Prepared,
    pair: Pair,
    model: Model,
    on_source: Prices | None = None,
    host: tuple[float, float] | None = None,
    reads: float = 0.0,
) -> Durations:
    """Return the durations of the pieces on the target as stated, with the middle of what no file
    says.

    `on_source` holds prices on the source that are known, and is filled in; None keeps none.
    `host` says how many times longer the host takes for the program's work and for calls; None as
    the machines state it.  `reads` says how far kernels go from reading host memory once to the
    most that their classes allow, from 0 to 1.
    """
    durations = anchored(ready.run, pair.source, stated(ready, pair), model, on_source)
    middles = (
        host_longer(pair, pair.target, pair.source, Draws(), model.host, kind)
        for kind in ready.works
    )
    work, calls = middles if host is None else (np.asarray(longer) for longer in host)
    durations = kernels_longer_by(durations, zero_copy_longer(pair, model.port, Draws()))
    if crosses(pair, model.port):
        again = read_again(durations, ready.copied_bytes, pair, model.kernels, reads)
        durations = kernels_longer_by(durations, again)
    return nic_kept(
        on_host(durations, work, calls, launches_kept(ready.run, pair)), ready.nic_bound
    )


def _reads(ready: Prepared, pair: Pair, model: Model, once: float) -> list[Finding]:
    """Return finding A399 where an answer hangs on how often kernels read host memory; `once` is
    the run time of the least [s].
    """
    if not crosses(pair, model.port):
        return []
    most = replayed(ready, priced(ready, pair, model, reads=1.0)).seconds
    return hanging_on_reads(once, float(most), ready.measured)


def host_penalty(ready: Prepared, pair: Pair, model: Model, work: float, calls: float) -> Float:
    """Return projected over recorded run time if the target's host took so many times longer for
    the program's work, and for calls.

    A number that differs between points of a sweep gives one of each.
    """
    return np.asarray(
        run_times(ready, priced(ready, pair, model, host=(work, calls))) / ready.measured
    )


def launches_kept(run: Pieces, pair: Pair) -> Bool:
    """Return the mask of launches that keep the source's price because the target's file states
    none; loading code has no such price.
    """
    return np.asarray(
        (run.kind == "launch")
        & ~run.one_off
        & np.where(run.idle_device, *(unstated(pair, n) for n in _LAUNCHES))
    )


_LAUNCHES: Final[tuple[ParameterName, ...]] = ("launch.latency", "launch.call")


def stated(ready: Prepared, pair: Pair) -> Priced:
    """Return the target as the answer takes it: what its file says, and the middle of what no file
    says.
    """
    return elsewhere(
        pair, pair.target, pair.source, Draws(), ready.sharers, ready.work == "framework"
    )
