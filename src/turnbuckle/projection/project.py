"""START HERE.  A run is activities in an order: price each on the new machine, anchor the price in what was measured,
put the activities back in order.

    price, anchor (`anchor`) -> replay (`order`) -> Projection

Everything else in Turnbuckle prepares these calls (reading, profiling, describing machines) or repeats them (`study`),
and shows what came out (`report`, `cli`).
"""

from __future__ import annotations

from turnbuckle.machine import Pair
from turnbuckle.profile.profile import Profile
from turnbuckle.projection.admission import require, require_order
from turnbuckle.projection.anchor import anchored
from turnbuckle.projection.assumptions import coupling_change, findings, kernel_ratio
from turnbuckle.projection.model import Model
from turnbuckle.projection.order import Prepared, prepared, replayed
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
    Projection without interval; `turnbuckle.projection.uncertainty` adds it by asking again with drawn machines.

    Raises
    ------
    CannotAnswer : A121, the profile has no host-device activity and the target is another machine; A122, its order cannot be trusted.
    """
    return answered(profile, prepared(profile, model), pair, model)


def answered(profile: Profile, ready: Prepared, pair: Pair, model: Model) -> Projection:
    """Do the same as `project` for a profile that is already prepared."""
    require(profile, pair)
    if pair.target is not pair.source:
        require_order(ready, "; --replay sum needs no order")
    durations = anchored(ready.run, pair.source, pair.target, model)
    result = replayed(ready, durations)
    # the window is that of kernels with rows of their own: a graph recorded as one names none
    windows = (None, None) if profile.trace.graphs.height else result.kernel_windows
    return Projection(
        target="self" if pair.target is pair.source else pair.target.name,
        title=pair.target.title,
        model=model.name,
        replay=ready.replay,
        seconds=float(result.seconds),
        measured_seconds=profile.seconds,
        breakdown=result.breakdown,
        measured_breakdown=result.measured_breakdown,
        envelope=(float(result.lower), float(result.upper)),
        coupling=coupling_change(pair.source, pair.target),
        alpha=kernel_ratio(pair, model),
        order=ready.trust.as_dict() if ready.trust is not None else {},
        findings=findings(profile, ready, pair, model, durations.missing),
        kernel_window_seconds=windows[0],
        measured_kernel_window_seconds=windows[1],
    )
