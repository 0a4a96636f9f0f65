"""What a data sheet says of a node: the links, their bandwidths and the memories, from the name of a link or of a machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from turnbuckle.cost.nvlink import VERSIONS, Nvlink
from turnbuckle.cost.packet import Link, is_link, link
from turnbuckle.cost.pcie import RATE, Pcie
from turnbuckle.cost.slack import READ_TRIPS, trip_seconds
from turnbuckle.foundation.errors import UsageError, clipped, did_you_mean, error_of
from turnbuckle.machine import Machine, load, names
from turnbuckle.machine.parameter_names import DISTANCES, LINK_WAYS, READS_IN_FLIGHT, ParameterName, link_parameter
from turnbuckle.questions.transfers.question import HOST

#: A link whose rate is so near the machine's is the machine's.
_ALIKE: Final = 0.015

#: Links that transfers are priced on where none is named.
DEFAULT_LINKS: Final = ("pcie4-x16", "pcie5-x16", "pcie6-x16")


@dataclass(frozen=True)
class Sheet:
    """What a data sheet says of a node: bandwidths one way, no measurement.

    Attributes
    ----------
    name : as the user named the link or the machine.
    links : packet model by direction; None where the link has none.
    peaks : nominal bandwidth by direction [B/s]; a direction that is not there cannot be priced.
    host_memory : bandwidth that pageable copies are staged through [B/s], or None.
    reads : reads on their way, bytes of one, round trip [s]; where the machine says so.
    assumed : by direction, what was taken for granted, in words.
    """

    name: str
    links: Mapping[str, Link | None]
    peaks: Mapping[str, float]
    host_memory: float | None = None
    reads: tuple[float, float, float] | None = None
    assumed: Mapping[str, str] | None = None

    @property
    def link_name(self) -> str:
        """The link between host and device in words."""
        found = self.links.get("h2d")
        return found.name if found is not None else "no packet model"


def sheet(
    on: str | Machine,
    *,
    source: Machine | None = None,
    host_memory: float | None = None,
    device_memory: float | None = None,
    peer: str | None = None,
) -> Sheet:
    """The data sheet of a node by the name of its link (``pcie5-x16``), or a machine: an object, a name of the catalogue or a TOML file.

    Parameters
    ----------
    source : the machine of the recording, for targets that are changes of it.
    host_memory, device_memory : bandwidth of the memories [B/s]; instead of the machine's.
    peer : link between devices.

    Raises
    ------
    UsageError : A016 no such link; A022 neither a link nor a machine.
    MachineError : the machine cannot be read.
    CannotAnswer : A145 a machine that does not give its link's bandwidth.
    """
    assumed: dict[str, str] = {}
    peer_link = link(peer) if peer else None
    name = on if isinstance(on, str) else on.name
    if isinstance(on, str) and not _is_machine(on):
        host = _link(name)
        links: dict[str, Link | None] = {"h2d": host, "d2h": host, "p2p": peer_link or host}
        if peer_link is None:
            assumed["p2p"] = "copies between devices priced over the host's link (--peer names their own)"
        peaks = {way: found.raw_bandwidth for way, found in links.items() if found is not None}
        return Sheet(name, links, _with_device(peaks, device_memory), host_memory, None, assumed)
    declared = load(on) if isinstance(on, str) else on
    machine = declared.resolved(source) if source is not None else declared
    links, peaks = {}, {}
    for way in LINK_WAYS:
        rate = peer_link.raw_bandwidth if peer_link and way == "p2p" else _value(machine, link_parameter(way, "bandwidth"))
        if rate is None:
            continue
        peaks[way] = rate
        links[way] = peer_link if way == "p2p" else _behind(machine.coupling, rate)
        if links[way] is None:
            what = "copies between devices" if way == "p2p" else f"{way} over {machine.coupling}"
            assumed[way] = f"{what} priced at the peak, without packets" + (" (--peer names their link)" if way == "p2p" else "")
    if not set(HOST) & set(peaks):
        why = (
            ": it is a change of another machine" if machine.relative else ": CPU and GPU share one memory" if machine.copies_vanish else ""
        )
        raise error_of("A145.link", where=machine.file, found=f"no link.h2d.bandwidth{why}", machine=machine.name)
    if any((_value(machine, name) or 0.0) > 0 for name in DISTANCES):
        far = f"the distance of {machine.name} is not in these times (turnbuckle project and slack have it)"
        assumed |= {way: "; ".join(filter(None, [assumed.get(way), far])) for way in HOST}
    reads = tuple(_value(machine, n) for n in READS_IN_FLIGHT)
    found = None
    if all(r is not None for r in reads):
        tags, request, trip = (float(r) for r in reads if r is not None)
        found = (tags, request, trip + float(trip_seconds(READ_TRIPS, _value(machine, "slack.link") or 0.0)))
    memory = device_memory if device_memory is not None else _value(machine, "gpu.memory_bandwidth")
    staged = host_memory if host_memory is not None else _value(machine, "host.memory_bandwidth")
    return Sheet(name, links, _with_device(peaks, memory), staged, found, assumed)


def _with_device(peaks: dict[str, float], device_memory: float | None) -> dict[str, float]:
    return peaks if device_memory is None else {**peaks, "d2d": device_memory}


def _is_machine(name: str) -> bool:
    """Whether a machine is named, and no link: a machine of the catalogue that is called like a link has that link and no more."""
    return (name in names() and not is_link(name)) or name.endswith(".toml") or "/" in name


def _link(name: str) -> Link:
    try:
        return link(name)
    except UsageError as error:
        if re.match(r"\s*(pcie|nvlink)[ _-]?[0-9]", name, re.IGNORECASE):
            raise
        shown = clipped(name, 40)
        raise error_of("A022", found=f'"{shown}"', fix=did_you_mean(name, names()) or None) from error


def _value(machine: Machine, name: ParameterName) -> float | None:
    """A parameter of a machine, or what a relative machine sets it to."""
    if not machine.relative:
        return machine.value(name)
    return next((c.set.value for c in machine.changes if c.parameter == name and c.set is not None), None)


def _behind(coupling: str, rate: float) -> Link | None:
    """The link of a coupling that has this rate; None where no packet model is known or no link fits."""
    known: list[Link] = []
    if coupling in ("pcie", "fabric"):  # a composable fabric carries the same packets farther
        known = [Pcie(g, lanes) for lanes in (16, 8, 4, 2, 1) for g in RATE]
    elif coupling == "nvlink":
        known = [Nvlink(v, k) for v, (_, _, most) in VERSIONS.items() for k in range(1, most + 1)]
    near = [one for one in known if abs(one.raw_bandwidth / rate - 1.0) <= _ALIKE]
    return near[0] if near else None
