"""START HERE.  A run is activities in an order: price each on the new machine, anchor the price in what was measured,
put the activities back in order.

    price, anchor (`anchor`) -> replay (`order`) -> Projection

Everything else in Turnbuckle prepares these calls (reading, profiling, describing machines) or repeats them (`study`),
and shows what came out (`report`, `cli`).
"""

from __future__ import annotations

from turnbuckle.anchor import anchored
from turnbuckle.assumptions import coupling_change, findings, kernel_ratio
from turnbuckle.errors import CannotAnswer
from turnbuckle.machine import Pair
from turnbuckle.model import Model
from turnbuckle.order import Prepared, prepared, replayed
from turnbuckle.profile.profile import Profile
from turnbuckle.projection import Projection

#: Tables of a trace of which at least one must hold rows for a coupling to matter.
DEVICE_ACTIVITY = frozenset({"kernels", "copies", "graphs", "memsets"})


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
    CannotAnswer : A121, the profile has no host-device activity and the target is another machine; A122, its order cannot be trusted.
    """
    return answered(profile, prepared(profile, model), pair, model)


def answered(profile: Profile, ready: Prepared, pair: Pair, model: Model) -> Projection:
    """`project` for a profile that is already prepared."""
    require(profile, pair)
    if pair.target is not pair.source:
        require_order(ready, "; --replay sum needs no order")
    durations = anchored(ready.run, pair.source, pair.target, model)
    result = replayed(ready, durations)
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
    )


def require_order(ready: Prepared, otherwise: str = "") -> None:
    """Refuse a timeline whose recorded order cannot be trusted (A122); `otherwise` names a way that needs no order."""
    if ready.timeline is not None and ready.trust is not None and ready.trust.refused:
        raise CannotAnswer(
            "A122", "the recorded order cannot be trusted, so the timeline cannot be replayed elsewhere",
            found=ready.trust.refused, fix=ready.trust.record + otherwise,
        )  # fmt: skip


def require(profile: Profile, pair: Pair) -> None:
    """Refuse before any work what the profile cannot answer."""
    if pair.target is not pair.source:
        require_activity(profile)


def require_activity(profile: Profile) -> None:
    """Refuse a profile without any GPU activity (A121)."""
    if not profile.has & DEVICE_ACTIVITY:
        raise CannotAnswer(
            "A121", "this profile holds no GPU activity, so another coupling changes nothing that can be said",
            found="no kernels, copies or memsets" + (", only MPI calls" if profile.trace.mpi.height else ""),
            cause=_OF_PART if _in_part(profile) else "recorded without GPU tracing, or a run without a GPU",
            fix=_other_part(profile) + "nsys profile --trace=cuda,nvtx,mpi ..." + (
                "; turnbuckle model messages FILE replays the messages of an MPI run" if profile.trace.mpi.height else ""
            ),
        )  # fmt: skip


_OF_PART = "the part of the recording that was asked for holds none"


def _in_part(profile: Profile) -> bool:
    part = profile.trace.facts.get("part") or {}
    return bool(part.keys() & {"bounds_ns", "rank"})


def _other_part(profile: Profile) -> str:
    return "name another part, or " if _in_part(profile) else ""


def require_calls(profile: Profile) -> None:
    """Refuse a recording of the device alone (A140): nothing would seem to depend on distance, as nothing of it was recorded."""
    if not profile.trace.api.height and profile.has & DEVICE_ACTIVITY:
        raise CannotAnswer(
            "A140", "this recording holds no host calls, and what another coupling changes is what they cost and wait for",
            found=f"{profile.trace.kernels.height:,} kernels and {profile.trace.copies.height:,} copies without the calls behind them",
            cause=_OF_PART if _in_part(profile) else "recorded on the device alone",
            fix=_other_part(profile) + "record host calls too: rocprof --hip-trace, rocprofv3 --sys-trace, nsys --trace=cuda, PyTorch with "
            "ProfilerActivity.CPU",
        )  # fmt: skip
