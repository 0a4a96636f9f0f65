"""Machines whose numbers are drawn: each log-normal around its value, with the same draw wherever
it occurs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from turnbuckle.cost.slack import COMMAND_TRIPS
from turnbuckle.foundation.arrays import Float
from turnbuckle.machine import Machine, Parameter
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.projection.elsewhere.priors import Draws


@dataclass(frozen=True)
class DrawnMachine:
    """A machine whose parameters are arrays of draws, shape (draws, 1)."""

    values: Mapping[ParameterName, Float]
    copies_vanish: bool

    def value(self, name: ParameterName) -> Float | None:
        """Return the draws of one parameter [SI], or None."""
        return self.values.get(name)


def _drawn(default_name: str, parameter: Parameter, draws: Draws) -> Float:
    """Draw one number, shape (draws, 1); only its value where it is certain, or where only another
    number is drawn.

    The values of a certain number at many points have shape (points, 1, 1), and keep it.
    """
    name = parameter.unknown(default_name)
    if parameter.error <= 0 or (draws.alone and name not in draws.alone):
        return np.atleast_2d(parameter.value)
    return (parameter.value * np.exp(parameter.error * draws.normal(name)))[:, None]


def drawn_source(machine: Machine, draws: Draws) -> DrawnMachine:
    """Draw a machine that stands alone; the arrays' counterpart of `Machine.drawn`."""
    values = {n: _drawn(f"{machine.name}/{n}", p, draws) for n, p in machine.parameters.items()}
    return DrawnMachine({n: _share(n, v) for n, v in values.items()}, machine.copies_vanish)


def drawn_target(
    declared: Machine, resolved: Machine, source: DrawnMachine, draws: Draws
) -> DrawnMachine:
    """Draw a target: its own numbers if it stands alone, else its drawn changes on the drawn source
    (as `Change.apply`).
    """
    if not declared.relative:
        return drawn_source(declared, draws)
    values = dict(source.values)
    for change in declared.changes:
        parts = {
            w: _drawn(f"{declared.name}/{change.parameter}/{w}", p, draws)
            for w, p in change.parts().items()
        }
        value = parts.get("set", values.get(change.parameter, parts.get("assume")))
        if value is not None:
            value = value * parts.get("scale", 1.0) + parts.get("add", 0.0)
            values[change.parameter] = np.minimum(value, parts.get("limit", np.inf))
    return DrawnMachine({n: _share(n, v) for n, v in values.items()}, resolved.copies_vanish)


def _share(name: str, value: Float) -> Float:
    """Return draws within what is possible: no efficiency exceeds 1, and no command gets there
    without a trip.
    """
    if name == "link.command_trips":
        return np.maximum(value, COMMAND_TRIPS)
    return np.minimum(value, 1.0) if name.endswith(".efficiency") else value
