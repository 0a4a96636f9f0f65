"""Parameters of a machine that the models use: its link, a large copy, a launch and its GPU's
rate.
"""

from __future__ import annotations

from typing import Final

from turnbuckle.cost.packet import Link, behind, large_share
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.units import show
from turnbuckle.machine.machine import Machine
from turnbuckle.machine.parameter_names import ParameterName

#: Rates of the GPU [FLOP/s] by the bytes of an element.
RATES: Final[dict[int, tuple[ParameterName, ...]]] = {
    8: ("gpu.fp64", "gpu.fp64_matrix"),
    4: ("gpu.fp32",),
}


def stated(machine: Machine, name: ParameterName) -> float:
    """Return a parameter of a machine (A160 where it does not state it)."""
    value = machine.value(name)
    if value is None:
        raise error_of("A160.missing", machine=machine.name, name=name)
    return value


def wire(machine: Machine) -> Link:
    """Return the link with packets behind a machine's coupling (A019 where none is known, A160).

    >>> from turnbuckle.machine import load
    >>> wire(load("perlmutter")).name, wire(load("summit")).name
    ('pcie4-x16', 'nvlink2-x2')
    """
    bandwidth = stated(machine, "link.h2d.bandwidth")
    link = behind(machine.coupling, bandwidth)
    if link is None:
        raise error_of(
            "A019.packets",
            machine=machine.name,
            found=f"{machine.coupling}, {show(bandwidth, 'B/s')}",
        )
    return link


def large_copy(machine: Machine) -> float:
    """Return the bandwidth of a large copy to the device [B/s]: as measured, else what packets
    leave of the link (A160).

    >>> from turnbuckle.machine import load
    >>> round(large_copy(load("summit")) / 1e9, 1)
    46.4
    """
    nominal, measured = stated(machine, "link.h2d.bandwidth"), machine.value("link.h2d.efficiency")
    return nominal * (
        large_share(machine.coupling, nominal, "h2d") if measured is None else measured
    )


def peak(machine: Machine, element_bytes: int = 8) -> float:
    """Return the best rate of the machine's GPU for elements of so many bytes [FLOP/s] (A160 where
    it states none).
    """
    names = RATES.get(element_bytes, ())
    rates = [rate for name in names if (rate := machine.value(name)) is not None]
    if not rates:
        missing = " or ".join(names) or f"a rate for elements of {element_bytes} B"
        raise error_of("A160.missing", machine=machine.name, name=missing)
    return max(rates)
