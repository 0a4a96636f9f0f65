"""Reads of host memory that a device has in flight: what the observed bandwidth says of numbers that nobody stated."""

from __future__ import annotations

from dataclasses import replace

from turnbuckle.machine import Machine
from turnbuckle.machine.parameter_names import READS_IN_FLIGHT


def window(machine: Machine) -> float:
    """Return the most bytes that a device can have requested and not yet received."""
    return (machine.value("link.tags") or 0.0) * (machine.value("link.read_request") or 0.0)


def covered(source: Machine) -> Machine:
    """Raise the assumed reads in flight to what the observed bandwidth needs.

    By Little's law, a link that reached B over a round trip R had B x R bytes in flight.
    """
    tags, request, trip = (source.parameters[n] for n in READS_IN_FLIGHT)
    bandwidth, efficiency = source.value("link.h2d.bandwidth"), source.value("link.h2d.efficiency")
    if bandwidth is None:
        return source
    needed = bandwidth * (1.0 if efficiency is None else min(efficiency, 1.0)) * trip.value / request.value
    if needed <= tags.value:
        return source
    note = f"at least what the observed bandwidth needs over the round trip; {tags.note}"
    return source.with_parameters({"link.tags": replace(tags, value=needed, note=note)})
