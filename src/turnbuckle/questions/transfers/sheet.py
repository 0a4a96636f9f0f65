"""Data sheet of a node: links with their bandwidths, and memories, by the name of a link or of a
machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from turnbuckle.cost.packet import Link, behind, is_link, link
from turnbuckle.cost.pcie import Pcie
from turnbuckle.foundation.errors import UsageError, clipped, did_you_mean, error_of
from turnbuckle.machine import Coupling, Machine, Parameter, load, names
from turnbuckle.machine.parameter_names import (
    DISTANCES,
    HOST_WAYS,
    LINK_WAYS,
    ParameterName,
    link_parameter,
)
from turnbuckle.questions.transfers.question import HOST

#: Links that transfers are priced on where none is named.
DEFAULT_LINKS: Final = ("pcie4-x16", "pcie5-x16", "pcie6-x16")


@dataclass(frozen=True)
class Sheet:
    """Data sheet of a node: nominal bandwidths one way, no measurement.

    Attributes
    ----------
    name : as the user named the link or the machine.
    machine : the node as other questions take it, as declared.
    links : packet model by direction; None where the link has none.
    peaks : nominal bandwidth by direction [B/s]; a direction that is not there has no packets.
    host_memory : bandwidth that pageable copies are staged through [B/s], or None.
    assumed : by direction, what was taken for granted, in words.
    """

    name: str
    machine: Machine
    links: Mapping[str, Link | None]
    peaks: Mapping[str, float]
    host_memory: float | None = None
    assumed: Mapping[str, str] | None = None

    @property
    def link_name(self) -> str:
        """Return the link between host and device in words."""
        host_link = self.links.get("h2d")
        return host_link.name if host_link is not None else "no packet model"


def sheet(
    on: str | Machine,
    *,
    source: Machine | None = None,
    host_memory: float | None = None,
    device_memory: float | None = None,
    peer: str | None = None,
    node: bool = False,
) -> Sheet:
    """Return the data sheet of a node by the name of its link (``pcie5-x16``), or a machine: an
    object, a name, a TOML file or self.

    Parameters
    ----------
    source : the machine of the recording: what ``self`` is, and for targets that are changes of it.
    host_memory, device_memory : bandwidth of the memories [B/s]; instead of the machine's.
    peer : link between devices.
    node : a link stands for another node that has it, not for the recorded node on that link.

    Raises
    ------
    UsageError : A016 no such link; A022 neither a link nor a machine.
    MachineError : the machine cannot be read.
    """
    assumed: dict[str, str] = {}
    peer_link = link(peer) if peer else None
    given: dict[ParameterName, Parameter] = {}
    if peer_link is not None:
        given[link_parameter("p2p", "bandwidth")] = _given(
            peer_link.raw_bandwidth, f"the peak of {peer_link.name}"
        )
    if device_memory is not None:
        given["gpu.memory_bandwidth"] = _given(device_memory, "as given")
    name = on if isinstance(on, str) else on.name
    if on == "self":
        if source is None:
            raise error_of("A022", found='"self", and measured copies name no machine')
        on = source
    if isinstance(on, str) and not _is_machine(on):
        host = _link(on)
        links: dict[str, Link | None] = {"h2d": host, "d2h": host, "p2p": peer_link or host}
        if peer_link is None:
            assumed["p2p"] = (
                "packets of copies between devices as over the host's link (--peer names their own)"
            )
        peaks = {
            direction: host_link.raw_bandwidth
            for direction, host_link in links.items()
            if host_link is not None
        }
        machine = _on_link(on, host, node).with_parameters(given)
        return Sheet(on, machine, links, _with_device(peaks, device_memory), host_memory, assumed)
    declared = load(on).with_parameters(given)
    machine = declared.resolved(source) if source is not None else declared
    links, peaks = {}, {}
    for direction in LINK_WAYS:
        rate = _value(machine, link_parameter(direction, "bandwidth"))
        if rate is None:
            continue
        peaks[direction] = rate
        links[direction] = peer_link if direction == "p2p" else behind(machine.coupling, rate)
        if links[direction] is None:
            what = (
                "copies between devices"
                if direction == "p2p"
                else f"{direction} over {machine.coupling}"
            )
            assumed[direction] = f"{what}: the peak, without packets" + (
                " (--peer names their link)" if direction == "p2p" else ""
            )
    if any((_value(machine, name) or 0.0) > 0 for name in DISTANCES):
        far = f"the distance of {machine.name} is not in the packets' times"
        assumed |= {
            direction: "; ".join(filter(None, [assumed.get(direction), far])) for direction in HOST
        }
    memory, staged = (
        _value(machine, "gpu.memory_bandwidth"),
        host_memory or _value(machine, "host.memory_bandwidth"),
    )
    return Sheet(name, declared, links, _with_device(peaks, memory), staged, assumed)


def _given(value: float, source: str) -> Parameter:
    return Parameter(value=value, error=0.0, unit="B/s", nature="spec", source=source)


def _on_link(name: str, host: Link, node: bool) -> Machine:
    """Return the recorded node on another link, or another node of which nothing but its link is
    known.
    """
    if not node and name in names():
        return load(name)
    coupling: Coupling = "pcie" if isinstance(host, Pcie) else "nvlink"
    machine = Machine(
        name=name,
        title=f"on {host.name}",
        summary="",
        year=0,
        coupling=coupling,
        base="" if node else "source",
    )
    peak = _given(host.raw_bandwidth, f"the peak of {host.name}")
    return machine.with_parameters(
        {
            link_parameter(direction, "bandwidth"): peak
            for direction in (LINK_WAYS if node else HOST_WAYS)
        }
    )


def _with_device(peaks: dict[str, float], device_memory: float | None) -> dict[str, float]:
    return peaks if device_memory is None else {**peaks, "d2d": device_memory}


def _is_machine(name: str) -> bool:
    """Return whether a machine is named, and no link: a machine of the catalogue that is called
    like a link has that link and no more.
    """
    return (name in names() and not is_link(name)) or name.endswith(".toml") or "/" in name


def _link(name: str) -> Link:
    try:
        return link(name)
    except UsageError as error:
        if re.match(r"\s*(pcie|nvlink)[ _-]?[0-9]", name, re.IGNORECASE):
            raise
        shown = clipped(name, 40)
        raise error_of(
            "A022", found=f'"{shown}"', fix=did_you_mean(name, names()) or None
        ) from error


def _value(machine: Machine, name: ParameterName) -> float | None:
    """Return a parameter of a machine, or what a relative machine sets it to."""
    if not machine.relative:
        return machine.value(name)
    return next(
        (c.set.value for c in machine.changes if c.parameter == name and c.set is not None), None
    )
