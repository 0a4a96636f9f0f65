"""Reads of host memory that a device has in flight: what the observed bandwidth says of numbers that nobody stated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from turnbuckle.machine import Machine
from turnbuckle.machine.parameter_names import READS_IN_FLIGHT, ParameterName
from turnbuckle.projection.uncertainty import DrawnMachine


def window(machine: Machine) -> float:
    """Return the most bytes that a device can have requested and not yet received."""
    return (machine.value("link.tags") or 0.0) * (machine.value("link.read_request") or 0.0)


def covered(source: Machine) -> Machine:
    """Raise the assumed reads in flight to what the observed bandwidth needs.

    By Little's law, a link that reached B over a round trip R had B x R bytes in flight.
    """
    parts = {n: source.parameters[n] for n in READS_IN_FLIGHT}
    values = _at_least(
        {n: np.float64(p.value) for n, p in parts.items()}, source.value("link.h2d.bandwidth"), source.value("link.h2d.efficiency")
    )
    tags = parts["link.tags"]
    if values["link.tags"] > tags.value:
        note = f"at least what the observed bandwidth needs over the round trip; {tags.note}"
        tags = replace(tags, value=float(values["link.tags"]), note=note)
    return source.with_parameters({"link.tags": tags})


def covered_draws(drawn: DrawnMachine) -> DrawnMachine:
    """Raise the drawn reads in flight to what the drawn bandwidth needs."""
    values = dict(drawn.values)
    values |= _at_least({n: values[n] for n in READS_IN_FLIGHT}, values.get("link.h2d.bandwidth"), values.get("link.h2d.efficiency"))
    return DrawnMachine(values, drawn.copies_vanish)


def _at_least(reads: Mapping[ParameterName, Any], bandwidth: Any, efficiency: Any) -> dict[ParameterName, Any]:
    """Raise the number of tags to what the link needs to reach its bandwidth."""
    if bandwidth is None:
        return dict(reads)
    reached = bandwidth * (1.0 if efficiency is None else np.minimum(efficiency, 1.0))
    needed = reached * reads["link.round_trip"] / reads["link.read_request"]
    return {**reads, "link.tags": np.maximum(reads["link.tags"], needed)}
