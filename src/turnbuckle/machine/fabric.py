"""Fabrics between host and device: those that carry PCIe from end to end, and those that end it at
both sides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from turnbuckle.machine.machine import Change, Machine, Parameter, schema
from turnbuckle.machine.parameter_names import ParameterName

#: ``whole``: a packet of PCIe crosses the fabric, and so does each answer.  ``local``: an adapter
#: beside the host and one beside the device answer for the other side and carry the data in a
#: protocol of their own.
Pcie = Literal["whole", "local"]
_SOURCE: Final = "a fabric that ends PCIe at both sides (--pcie local)"
_DISTANCE: Final[ParameterName] = "slack.link"


def ended_locally(machine: Machine) -> Machine:
    """Return a machine at the end of a fabric, whose fabric ends PCIe at both sides; any other
    machine as it is.

    A command crosses once, with the ring entry and the push buffer that the device fetches, and no
    number of read requests limits what is on its way.
    """
    changed = {c.parameter for c in machine.changes}
    if _DISTANCE not in machine.parameters and not changed & {_DISTANCE, "link.command_trips"}:
        return machine
    ended: dict[ParameterName, Parameter] = {
        "link.command_trips": Parameter(1.0, 0.0, "1", "assumption", _SOURCE),
        "link.tags": Parameter(schema()["link.tags"].maximum, 0.0, "1", "assumption", _SOURCE),
    }
    if machine.relative:
        kept = tuple(c for c in machine.changes if c.parameter not in ended)
        return replace(machine, changes=(*kept, *(Change(n, set=p) for n, p in ended.items())))
    return machine.with_parameters(ended)
