"""What a projection refuses before any work: recordings that cannot answer the question, each with
what would make them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from turnbuckle.foundation.errors import CannotAnswer, error_of
from turnbuckle.machine import Machine, Pair
from turnbuckle.machine.parameter_names import HOST_WAYS, link_parameter
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.coverage import time_with_call
from turnbuckle.projection.elsewhere.priors import COHERENT, PAGES, SOURCE_GPU
from turnbuckle.projection.model import Model, Port
from turnbuckle.projection.order import Prepared, timeline_of
from turnbuckle.projection.projection import Projection
from turnbuckle.replay.timeline import TimelineReplay
from turnbuckle.trace.recorders import with_calls

#: Tables of a trace of which at least one must hold rows for a coupling to matter.
DEVICE_ACTIVITY = frozenset({"kernels", "copies", "graphs", "memsets"})

LEAST_CALLED = 0.5
"""Share of the device's time that must name its host call: with less, most of what distance could change is not in the recording."""

#: Of fewer rows on devices a share says little: the answer stands, with finding A365.
_FEW = 32
_OF_PART: Final = "the part of the recording that was asked for holds none"
_OTHER_TIMES: Final = (
    "records were lost, or calls and device were recorded over different stretches of the run"
)


def require_order(ready: Prepared, otherwise: str = "") -> None:
    """Refuse a timeline whose recorded order cannot be trusted (A122); `otherwise` names a way that
    needs no order.
    """
    if ready.timeline is not None and ready.trust is not None and ready.trust.refused:
        raise error_of("A122", found=ready.trust.refused, fix=ready.trust.record + otherwise)


#: Asked when the user names no target: tighter, then farther and farther.
DEFAULT_TARGETS: Final = (
    "nvlink-c2c",
    "pcie5-x16",
    "cdi-switch-hop-link",
    "cdi-rack-link",
    "cdi-row-link",
    "cdi-row-api",
)
#: The same for a machine whose CPU and GPU share one memory: no link to replace, and no slot to be
#: far from.
DEFAULT_OF_ONE_MEMORY: Final = ("mapped-memory", "cdi-rack-link", "cdi-row-link", "cdi-row-api")


def require_numbers(projection: Projection) -> None:
    """Refuse a projection that has no numbers, because what decides it is not stated (A189,
    A190).
    """
    require_known(projection.unknown, projection.target)


def require_known(unknown: str, target: str) -> None:
    """Refuse an answer for a target that hangs on what nothing states (A189, A190); `unknown` is
    empty where nothing does.
    """
    if unknown == PAGES:
        raise error_of("A189", where=target)
    if unknown:
        fix = "name the machine it ran on, as with --source" if unknown == SOURCE_GPU else None
        raise error_of("A190", fix=fix, unknown=unknown, name=target)


def trusted_timeline(ready: Prepared, otherwise: str = "") -> TimelineReplay:
    """Return the timeline of a run, for a question that needs it; refuse an order that cannot be
    trusted (A122), as `require_order`.

    A run prepared as ``auto`` has none there, since the sum takes its place.
    """
    if ready.trust is not None and ready.trust.refused:
        raise error_of("A122", found=ready.trust.refused, fix=ready.trust.record + otherwise)
    return timeline_of(ready)


#: Couplings by a link between the memories of CPU and GPU.
LINKS: Final = ("c2c", "nvlink", "xgmi", "pcie")


def require(profile: Profile, pair: Pair, port: str = "") -> None:
    """Refuse before any work what the profile cannot answer, and a port that the target does not
    allow (A149).
    """
    if pair.target is not pair.source:
        require_activity(profile)
        _require_link(pair)
        allowed = ports(pair.target)
        if port and port not in allowed:
            raise error_of(
                "A149.memory" if port == "zero-copy" else "A149.managed",
                where=pair.target.file,
                name=pair.target.name,
                ports=" or --port ".join(allowed),
            )


def one_memory(machine: Machine) -> bool:
    """Return whether CPU and GPU of a machine share one memory, so that no link carries its
    copies.
    """
    return machine.coupling == "apu"


def with_link_of(source: Machine, declared: Machine) -> Machine:
    """Return a target whose copies take what they take in the one memory of the source: no link
    makes them faster.
    """
    ways = tuple(f"link.{way}." for way in HOST_WAYS)
    linked = declared.with_parameters(
        {name: value for name, value in source.parameters.items() if name.startswith(ways)}
    )
    # nor does what only a coherent link spares: staging, and the shares of a node
    return replace(linked, coupling="pcie") if declared.coupling in COHERENT else linked


def default_targets(source: Machine) -> tuple[str, ...]:
    """Return the machines asked when the user names none."""
    return DEFAULT_OF_ONE_MEMORY if one_memory(source) else DEFAULT_TARGETS


def _require_link(pair: Pair) -> None:
    """Refuse to replace the link of a machine that has none (M031)."""
    linked = (link_parameter(way, "bandwidth") for way in HOST_WAYS)
    replaced = {change.parameter for change in pair.target.changes if change.set is not None}
    if (
        one_memory(pair.source)
        and pair.target.coupling in LINKS
        and not replaced.isdisjoint(linked)
    ):
        raise error_of("M031", where=pair.target.name, found=pair.source.title)


def ports(target: Machine) -> tuple[Port, ...]:
    """Return the ways in which a program can be ported to the memory of a machine."""
    zero_copy = target.copies_vanish or target.coupling in COHERENT
    managed = target.value("package.managed_bandwidth") is not None
    return ("as-is", *(("zero-copy",) if zero_copy else ()), *(("managed",) if managed else ()))


def require_activity(profile: Profile) -> None:
    """Refuse a profile without any GPU activity (A121)."""
    if not profile.has & DEVICE_ACTIVITY:
        raise error_of(
            "A121",
            found="no kernels, copies or memsets"
            + (", only MPI calls" if profile.trace.mpi.height else ""),
            cause=_OF_PART
            if _in_part(profile)
            else "recorded without GPU tracing, or a run without a GPU",
            fix=_other_part(profile)
            + f"record the GPU too: {with_calls(profile.trace.facts)}"
            + (
                "; turnbuckle model messages FILE replays the messages of an MPI run"
                if profile.trace.mpi.height
                else ""
            ),
        )


def answers(profile: Profile) -> bool:
    """Return whether the profile holds work on a device and the calls behind it."""
    try:
        require_activity(profile)
        require_calls(profile)
    except CannotAnswer:
        return False
    return profile.trace.api.height > 0


def _in_part(profile: Profile) -> bool:
    part = profile.trace.facts.get("part") or {}
    return bool(part.keys() & {"bounds_ns", "rank"})


def _other_part(profile: Profile) -> str:
    return "name another part, or " if _in_part(profile) else ""


def require_calls(profile: Profile) -> None:
    """Refuse a recording of the device alone, or nearly so (A140): what is not recorded would seem
    not to depend on distance.

    In a part that was asked for the calls may lie before it, and few rows make no share: there A365
    says what is missing.
    """
    if not profile.has & DEVICE_ACTIVITY:
        return
    trace = profile.trace
    share = 0.0 if not trace.api.height else time_with_call(profile)
    if share is None or share >= LEAST_CALLED:
        return
    if trace.api.height and (
        _in_part(profile) or (profile.device_rows or {"count": 0})["count"] < _FEW
    ):
        return
    work = f"{trace.kernels.height:,} kernels and {trace.copies.height:,} copies"
    raise error_of(
        "A140",
        found=f"{work}, {share:.0%} of their time with a call"
        if trace.api.height
        else f"{work} without the calls behind them",
        cause=_OF_PART
        if _in_part(profile)
        else _OTHER_TIMES
        if trace.api.height
        else "recorded on the device alone",
        otherwise=_other_part(profile),
        advice=with_calls(trace.facts),
    )


def require_no_other(model: Model) -> None:
    """Raise A012 where the recording's own machine is asked about, and what another GPU or host
    would do is said.
    """
    said = {
        f"--alpha {model.alpha}": isinstance(model.alpha, float) and model.alpha != 1.0,
        f"--host {model.host}": model.host not in (None, 1.0),
        "--kernels": model.kernels is not None,
    }
    if told := [option for option, given in said.items() if given]:
        raise error_of("A012.self", found=told[0])
