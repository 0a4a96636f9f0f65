"""Source machine of a profile: observations of the profile itself, which replace values of a
catalogue machine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, get_args

import polars as pl

from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.machine import (
    Coupling,
    Device,
    Machine,
    Parameter,
    Recognised,
    fastest_link,
    machine_of,
)
from turnbuckle.machine.catalog import host_of
from turnbuckle.machine.parameter_names import (
    HOST_WAYS,
    HostWay,
    LinkTerm,
    ParameterName,
    link_parameter,
    observed_parameter,
)
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary.summary import alloc_call_s, launch, sync_return_s
from turnbuckle.profile.transfers import (
    LinkFit,
    fit_class,
    fit_links,
    known_links,
    link_findings,
    looks_like,
    reference_fit,
)
from turnbuckle.trace.bounds import DEVICE_TABLES

#: Stands for a link that only pageable copies crossed on an unknown machine: rate [B/s], share
#: reached, latency [s], all with wide errors.
ASSUMED_LINK = (31.5e9, 0.8, 2e-6)
ASSUMED_ERROR = 0.5
#: Error of a median over many calls of one run: run-to-run spread, not sampling error.
CALL_ERROR = 0.1


def observed_machine(
    profile: Profile, named: Machine | None = None
) -> tuple[Machine, dict[tuple[str, str], LinkFit], list[Finding]]:
    """Return the source machine as this profile shows it.

    Parameters
    ----------
    profile : profile of the run.
    named : machine that the user states; None recognises it by the device names in the profile.

    Returns
    -------
    machine : catalogue values, replaced by observed ones where the run shows them.
    fits : fitted links.
    findings : findings on facts that could not be recognised or fitted.
    """
    devices = _devices_at_work(profile)
    names = [device.name for device in devices if device.name]
    recognised = Recognised(named, "name") if named else machine_of(devices)
    base = recognised.machine
    launches = launch(profile)
    # without work on a device no answer asks for its machine
    worked = not profile.has.isdisjoint(DEVICE_TABLES)
    findings = _source_findings(recognised, devices) if worked else []
    fits = fit_links(profile)
    limit = fastest_link(base)
    parameters: dict[ParameterName, Parameter] = {}
    nominal: dict[str, float] = {}
    for direction in HOST_WAYS:
        stated = base.get(link_parameter(direction, "bandwidth")) if base else None
        if stated:
            nominal[direction] = stated.value
        parameters |= _link_parameters(fits, direction, base, names, limit)
    parameters |= _unseen_ways(parameters, base)
    parameters |= _peer_parameters(fits, base)
    parameters |= _call_parameters(profile, launches)
    if copied := _inside_fit(profile):
        parameters |= _inside_parameters(copied)
    described = _device_parameters(profile)
    # a GPU that is known keeps its data sheet; what it is built of, no sheet of it may say
    parameters |= (
        described
        if base is None
        else {n: p for n, p in described.items() if n in _BUILT and base.get(n) is None}
    )
    machine = (
        base.with_parameters(parameters)
        if base
        else Machine(
            name="observed",
            title=", ".join(dict.fromkeys(names)) or "the profiled machine",
            summary="what the profile shows of the machine it ran on",
            year=0,
            coupling=_coupling(fits, names),
            parameters=parameters,
            recognise=tuple(dict.fromkeys(names)),
        )
    )
    host = host_of(profile.trace.facts.get("processor", ""))
    if host is not None and not machine.host:
        machine = machine.with_host(host)
    if machine.copies_vanish and any(direction in HOST_WAYS for direction, _ in fits):
        # one memory, and yet this program copies: that copies vanish is what a target may assume,
        # not what was recorded
        machine = replace(machine, memory_shared=None)
    if launches["count"] and not launches["idle_count"]:
        findings.append(finding("P204", launches["count"]))
    return machine, fits, findings + link_findings(fits, nominal, machine.coupling == "apu")


def _devices_at_work(profile: Profile) -> list[Device]:
    """Return the described devices that the recording has work of; all of them where it does not
    tell.
    """
    devices = profile.trace.devices
    rows = [
        profile.trace.tables[name]["device"]
        for name in DEVICE_TABLES
        if name in profile.trace.tables
    ]
    worked = {number for column in rows for number in column.unique().to_list()}
    used = devices.filter(pl.col("device").is_in(list(worked))) if worked else devices
    return [Device.of(row) for row in (used if used.height else devices).rows(named=True)]


def _source_findings(recognised: Recognised, devices: Sequence[Device]) -> list[Finding]:
    """Return how the machine of the recording was recognised, where its name did not tell."""
    names = ", ".join(dict.fromkeys(device.name for device in devices if device.name))
    code = {"": "M101", "facts": "M110", "family": "M111"}.get(recognised.how)
    out = [finding(code, 1, recognised.words or names or "no device description")] if code else []
    if recognised.machine is not None and recognised.machine.coupling == "apu":
        out.append(finding("M113", 1, names))
    return out


def machine_of_copies(
    copies: pl.DataFrame, named: Machine | None = None, streamed: Collection[tuple[str, str]] = ()
) -> tuple[Machine, dict[tuple[str, str], LinkFit]]:
    """Return a machine from measured copies alone, and the fitted links.

    Parameters
    ----------
    copies : one row for each copy: direction, memory, size_bytes [B], seconds [s].
    named : machine of the measurements; None for an unknown machine.
    streamed : classes measured with many copies in flight, whose times include no fixed part.
    """
    fits = {
        (str(d), str(m)): fit_class(
            str(d), str(m), group["size_bytes"].to_numpy(), group["seconds"].to_numpy()
        )
        for (d, m), group in copies.group_by("direction", "memory", maintain_order=True)
    }
    fits = {
        which: replace(fit, latency_s=0.0) if which in streamed else fit
        for which, fit in fits.items()
    }
    parameters = _peer_parameters(fits, named)
    for direction in HOST_WAYS:
        parameters |= _link_parameters(fits, direction, named, ())
    parameters |= _unseen_ways(parameters, named)
    if inside := next((fit for (d, _), fit in fits.items() if d == "d2d"), None):
        parameters |= _inside_parameters(inside)
    base = named or Machine(
        name="measured",
        title="the measured machine",
        summary="what measured copies show",
        year=0,
        coupling="pcie",
    )
    return base.with_parameters(parameters), fits


def _coupling(fits: dict[tuple[str, str], LinkFit], devices: Sequence[str]) -> Coupling:
    """Return the kind of link whose rate fits the copies, for an unrecognised machine; PCIe where
    no single kind fits.
    """
    rate = next(
        (fit.bandwidth for d in HOST_WAYS if (fit := reference_fit(fits, d)) and fit.bandwidth),
        None,
    )
    kinds = {link.kind for link in looks_like(rate, devices)} if rate else set()
    return next((kind for kind in get_args(Coupling) if kinds == {kind}), "pcie")


def _measured(value: float, unit: str, error: float, what: str) -> Parameter:
    return Parameter(
        value=value,
        error=max(error, 0.01),
        unit=unit,
        nature="measured",
        source=f"this profile: {what}",
    )


def _rate_error(fit: LinkFit) -> float:
    """Return the relative error of a fitted bandwidth: that of the slope or that of the form,
    whichever is larger, but at most one half.
    """
    slope = (fit.bandwidth_error or 0.0) / fit.bandwidth if fit.bandwidth else 0.0
    return min(max(slope, fit.residual_spread), 0.5)


def _link_parameters(
    fits: dict[tuple[str, str], LinkFit],
    direction: HostWay,
    base: Machine | None,
    devices: Sequence[str],
    limit: float | None = None,
) -> dict[ParameterName, Parameter]:
    stated = base.get(link_parameter(direction, "bandwidth")) if base else None
    latency_known = base.get(link_parameter(direction, "latency")) if base else None
    out: dict[ParameterName, Parameter] = {}
    reference = reference_fit(fits, direction)
    # regions that are mapped on a device of the host's own memory are there at once, whatever their
    # size
    if (
        stated
        and reference
        and (reference.bandwidth or 0.0) > max(stated.value, known_links()[-1].bandwidth)
    ):
        reference = None
    if reference and reference.bandwidth and reference.bandwidth_error is not None:
        where = f"{reference.count} {reference.memory} copies {direction}"
        named = looks_like(reference.bandwidth, devices, base.coupling if base else "pcie", limit)
        rate = (
            stated.value
            if stated and stated.value >= reference.bandwidth
            else (named[0].bandwidth if named else reference.bandwidth)
        )
        if not stated or stated.value < reference.bandwidth:
            source = "; ".join(dict.fromkeys(n.source for n in named)) or f"this profile: {where}"
            out[link_parameter(direction, "bandwidth")] = Parameter(
                value=rate,
                error=0.0,
                unit="B/s",
                nature="spec" if named else "measured",
                source=source,
            )
        out[link_parameter(direction, "efficiency")] = _measured(
            min(reference.bandwidth / rate, 1.0), "1", _rate_error(reference), where
        )
        out |= _fixed_part(link_parameter(direction, "latency"), reference, where)
        if reference.latency_s <= 0 and latency_known is None:
            source = "assumed: no copy of this run is small enough to show the fixed part"
            out[link_parameter(direction, "latency")] = Parameter(
                value=ASSUMED_LINK[2],
                error=ASSUMED_ERROR,
                unit="s",
                nature="assumption",
                source=source,
            )
    staged = fits.get((direction, "pageable")) or fits.get((f"migration_{direction}", "unknown"))
    if not reference and not stated and staged:
        one_memory = base is not None and base.coupling == "apu"
        out |= (
            _inside_package(direction, staged) if one_memory else _assumed_link(direction, staged)
        )
    if not reference and stated and staged and latency_known is None:
        # the link is that of the name or of the chip; without a fixed part no copy could be priced
        name = link_parameter(direction, "latency")
        out[name] = _assumed_link(direction, staged)[name]
    for (d, memory), fit in fits.items():
        # the reference class is the link itself; the others carry what they cost beyond it
        matches = d == direction or d == f"migration_{direction}"
        if not matches or fit is reference or fit.bandwidth is None:
            continue
        word = "migration" if d.startswith("migration") else memory
        where = f"{fit.count} {word} copies {direction}"
        out[observed_parameter(direction, word, "bandwidth")] = _measured(
            fit.bandwidth, "B/s", _rate_error(fit), where
        )
        out |= _fixed_part(observed_parameter(direction, word, "latency"), fit, where)
    return out


def _unseen_ways(
    seen: dict[ParameterName, Parameter], base: Machine | None
) -> dict[ParameterName, Parameter]:
    """Return the unstated parameters of the link in a direction without copies, taken from the
    other direction.
    """
    out: dict[ParameterName, Parameter] = {}
    for direction, other in (HOST_WAYS, HOST_WAYS[::-1]):
        for term in get_args(LinkTerm):
            name, mirror = link_parameter(direction, term), link_parameter(other, term)
            like = seen.get(mirror) or (base.get(mirror) if base else None)
            if name in seen or (base and base.get(name)) or like is None:
                continue
            source = f"assumed: no copy {direction} was recorded; {other} stands for it"
            out[name] = replace(
                like,
                error=max(like.error, ASSUMED_ERROR) if term == "latency" else like.error,
                nature="assumption",
                source=source,
            )
    return out


def _peer_parameters(
    fits: dict[tuple[str, str], LinkFit], base: Machine | None
) -> dict[ParameterName, Parameter]:
    fit = max(
        (f for (d, _), f in fits.items() if d == "p2p" and f.bandwidth),
        key=lambda f: f.size_bytes,
        default=None,
    )
    if fit is None or not fit.bandwidth:
        return {}
    where = f"{fit.count} copies p2p"
    stated = base.value("link.p2p.bandwidth") if base else None
    nominal = stated if stated and stated >= fit.bandwidth else fit.bandwidth
    out = {
        link_parameter("p2p", "efficiency"): _measured(
            fit.bandwidth / nominal, "1", _rate_error(fit), where
        )
    }
    if nominal != stated:
        out[link_parameter("p2p", "bandwidth")] = replace(
            _measured(nominal, "B/s", 0.0, where), error=0.0
        )
    return out | _fixed_part(link_parameter("p2p", "latency"), fit, where)


def _inside_fit(profile: Profile) -> LinkFit | None:
    copies = profile.activities.filter(
        pl.col("kind") == "copy_d2d", pl.col("size_bytes") > 0
    ).select("size_bytes", "seconds")
    if not copies.height:
        return None
    return fit_class(
        "d2d",
        "device",
        copies["size_bytes"].cast(pl.Float64).to_numpy(),
        copies["seconds"].to_numpy(),
    )


def _inside_parameters(fit: LinkFit) -> dict[ParameterName, Parameter]:
    where = f"{fit.count} copies inside a device"
    out = _fixed_part("observed.d2d.latency", fit, where)
    if fit.bandwidth:
        out["observed.d2d.bandwidth"] = _measured(fit.bandwidth, "B/s", _rate_error(fit), where)
    return out


def _fixed_part(name: ParameterName, fit: LinkFit, where: str) -> dict[ParameterName, Parameter]:
    """Return the fixed part of a class of copies as a parameter; None where the recording does not
    show it.
    """
    if fit.latency_s <= 0:
        return {}
    return {
        name: _measured(
            fit.latency_s, "s", min(max(fit.latency_error / fit.latency_s, 0.02), 1.0), where
        )
    }


def _assumed_link(direction: HostWay, staged: LinkFit) -> dict[ParameterName, Parameter]:
    rate, share, latency = ASSUMED_LINK
    seen = staged.latency_s if 0 < staged.latency_s < latency else latency
    source = (
        "assumed: only pageable copies or migrations were recorded; where nothing states the "
        "link, PCIe 4 x16 stands for it"
    )

    def assumed(value: float, unit: str, error: float) -> Parameter:
        return Parameter(value=value, error=error, unit=unit, nature="assumption", source=source)

    return {
        link_parameter(direction, "bandwidth"): assumed(rate, "B/s", ASSUMED_ERROR),
        link_parameter(direction, "efficiency"): assumed(share, "1", 0.1),
        link_parameter(direction, "latency"): assumed(seen, "s", ASSUMED_ERROR),
    }


def _inside_package(direction: HostWay, staged: LinkFit) -> dict[ParameterName, Parameter]:
    """Return what stands for a link where CPU and GPU share one memory: the copies that the driver
    made inside it.
    """
    if not staged.bandwidth:
        return {}
    where = f"{staged.count} {staged.memory} copies {direction}"
    rate = _measured(staged.bandwidth, "B/s", _rate_error(staged), where)
    whole = _measured(1.0, "1", 0.01, where)
    fixed = _fixed_part(link_parameter(direction, "latency"), staged, where)
    return {
        link_parameter(direction, "bandwidth"): rate,
        link_parameter(direction, "efficiency"): whole,
    } | fixed


def _call_parameters(profile: Profile, launches: dict[str, Any]) -> dict[ParameterName, Parameter]:
    out: dict[ParameterName, Parameter] = {}
    pairs: dict[ParameterName, tuple[float | None, float, str]] = {
        "launch.call": (launches["call_median_ns"], 1e-9, "median launch call"),
        "launch.latency": (
            launches["latency_median_ns"],
            1e-9,
            "median call start to kernel start, device idle",
        ),
        "sync.return": (
            sync_return_s(profile),
            1.0,
            "median end of device work to return of the wait",
        ),
        "alloc.call": (alloc_call_s(profile), 1.0, "median allocation or release"),
    }
    for name, (value, scale, what) in pairs.items():
        if value:
            out[name] = _measured(value * scale, "s", CALL_ERROR, what)
    return out


def _device_parameters(profile: Profile) -> dict[ParameterName, Parameter]:
    """Return the facts of the first device that is described, as the profiler states them."""
    devices = profile.trace.devices.filter(
        pl.any_horizontal(pl.col("memory_bytes", "multiprocessors").is_not_null())
    )
    if not devices.height:
        return {}
    first = devices.row(0, named=True)

    def stated(value: float, unit: str) -> Parameter:
        return Parameter(
            value=float(value),
            error=0.0,
            unit=unit,
            nature="spec",
            source="this profile: device description",
        )

    return {
        name: stated(first[column], unit)
        for name, (column, unit) in _DESCRIBED.items()
        if first[column]
    }


#: Parameters that a profiler's description of a device states: its column, and the unit.
_DESCRIBED: Final[Mapping[ParameterName, tuple[str, str]]] = {
    "gpu.memory_bandwidth": ("memory_bandwidth", "B/s"),
    "gpu.memory_size": ("memory_bytes", "B"),
    "gpu.multiprocessors": ("multiprocessors", "1"),
    "gpu.clock": ("clock_hz", "Hz"),
}
_BUILT: Final[tuple[ParameterName, ...]] = ("gpu.multiprocessors", "gpu.clock")
