"""Plausibility of machines, which `turnbuckle machines check` tests for every file.

Loading already refuses malformed files.  This module finds well-formed numbers that cannot be
meant: a latency of a minute, a link wider than the memory behind it, a guess that claims to be
exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.findings import Severity
from turnbuckle.foundation.units import MANNER, show
from turnbuckle.machine.parameter_names import HOST_WAYS, ParameterName, link_parameter

from .machine import Machine, Parameter, schema

UNVERIFIED = "general knowledge"
#: The first is never larger than the second.
_ORDERED: Final[tuple[tuple[ParameterName, ParameterName], ...]] = (
    ("gpu.fp64", "gpu.fp64_matrix"),
    ("gpu.fp64", "gpu.fp32"),
    ("gpu.fp32", "gpu.fp16"),
    ("gpu.tf32_matrix", "gpu.fp16_matrix"),
    ("gpu.fp16_matrix", "gpu.fp8_matrix"),
    ("gpu.base_clock", "gpu.clock"),
    ("gpu.shared_memory_block", "gpu.shared_memory"),
    ("link.h2d.bandwidth", "gpu.memory_bandwidth"),
)
#: Half the bits are at most twice the rate; vendors print rates with sparsity, twice as high again,
#: beside dense ones.
_HALVED: Final[tuple[tuple[ParameterName, ParameterName], ...]] = (
    ("gpu.fp16_matrix", "gpu.tf32_matrix"),
    ("gpu.fp8_matrix", "gpu.fp16_matrix"),
    ("gpu.int8_matrix", "gpu.fp16_matrix"),
)


class Remark(NamedTuple):
    """One doubt about one parameter; an ``error`` makes the machine useless, a ``warning`` asks for
    a second look.
    """

    severity: Severity
    parameter: str
    message: str


def check(machine: Machine) -> list[Remark]:
    """Return the remarks on implausible facts of a machine, errors first."""
    remarks = [*_values(machine), *_consistency(machine)]
    return sorted(remarks, key=lambda r: r.severity != "error")


def believed(machine: Machine) -> Machine:
    """Return a machine without errors.  Raises M021 for the first of its numbers that cannot be
    meant.
    """
    errors = [remark for remark in check(machine) if remark.severity == "error"]
    if errors:
        first = errors[0]
        raise error_of(
            "M021",
            where=machine.file,
            found=f"{first.parameter}: {first.message}",
            count=len(errors),
        )
    return machine


def plausible(name: ParameterName, value: float, source: str) -> Parameter:
    """Return a number of a machine that the user states without error.  Raises M021 where it cannot
    be meant.
    """
    parameter = Parameter(value, 0.0, schema()[name].unit, "assumption", source)
    for remark in _value(name, parameter):
        if remark.severity == "error":
            raise error_of("M021", where=source, found=f"{name}: {remark.message}", count=1)
    return parameter


def _values(machine: Machine) -> Iterator[Remark]:
    """Check each number by itself: range, error, source."""
    for name, parameter in machine.parameters.items():
        yield from _value(name, parameter)
    for change in machine.changes:
        for word, part in change.parts().items():
            if word in ("set", "assume", "limit"):
                yield from _value(change.parameter, part)
                continue
            yield from _origin(change.parameter, part)
            most = 1e4 if word == "scale" else schema()[change.parameter].maximum
            least = 1e-4 if word == "scale" else 0.0
            if not least < part.value <= most:
                yield Remark(
                    "error",
                    change.parameter,
                    f"{word} of {show(part.value, part.unit)} is not plausible",
                )


def _value(name: ParameterName, parameter: Parameter) -> Iterator[Remark]:
    meaning = schema()[name]
    shown = show(parameter.value, parameter.unit)
    if name.endswith(".efficiency") and not 0 < parameter.value <= 1:
        yield Remark("error", name, f"{shown}: a measured bandwidth cannot pass the nominal one")
    elif not meaning.minimum <= parameter.value <= meaning.maximum:
        between = f"{show(meaning.minimum, meaning.unit)} to {show(meaning.maximum, meaning.unit)}"
        yield Remark("error", name, f"{shown} is not plausible: expected {between}")
    if parameter.unit != meaning.unit:
        yield Remark("error", name, f"has the unit {parameter.unit} instead of {meaning.unit}")
    yield from _origin(name, parameter)


def _origin(name: str, parameter: Parameter) -> Iterator[Remark]:
    if not parameter.source.strip():
        yield Remark("error", name, "has no source")
    if parameter.nature == "measured" and parameter.error == 0 and parameter.unit != MANNER:
        yield Remark("warning", name, "is measured, yet claims no error")
    if (
        parameter.nature != "assumption"
        and UNVERIFIED in f"{parameter.source} {parameter.note}".lower()
    ):
        yield Remark(
            "warning", name, "is general knowledge: call it an assumption until a source is found"
        )


def _consistency(machine: Machine) -> Iterator[Remark]:
    """Compare numbers with each other."""
    value = {n: p.value for n, p in machine.parameters.items()}
    for smaller, larger in _ORDERED:
        if smaller in value and larger in value and value[smaller] > 1.001 * value[larger]:
            yield Remark("warning", smaller, f"is larger than {larger}")
    for narrow, wide in _HALVED:
        if narrow in value and wide in value and value[narrow] > 2.1 * value[wide]:
            yield Remark("warning", narrow, f"is more than twice {wide}: a rate with sparsity?")
    for direction in HOST_WAYS:
        alone, both = (
            value.get(link_parameter(direction, "efficiency")),
            value.get("link.both.efficiency"),
        )
        if alone is not None and both is not None and both > 1.001 * alone:
            yield Remark(
                "warning",
                "link.both.efficiency",
                (
                    f"is larger than link.{direction}.efficiency: more with both directions busy "
                    "than with one"
                ),
            )
    linked = [n for n in value if n.startswith(("link.h2d.", "link.d2h."))]
    if machine.copies_vanish and linked:
        yield Remark("warning", linked[0], "has no meaning: copies vanish on this machine")
    if machine.coupling == "apu" and not machine.copies_vanish:
        yield Remark("warning", "copies_vanish", "is not set, although the coupling is apu")
    if not machine.relative and not machine.copies_vanish:
        for direction in HOST_WAYS:
            if link_parameter(direction, "bandwidth") not in value:
                yield Remark(
                    "warning",
                    link_parameter(direction, "bandwidth"),
                    "is missing: copies on this machine cannot be priced",
                )
