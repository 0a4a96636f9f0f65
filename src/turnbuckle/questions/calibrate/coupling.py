"""The coupling between two probes of one machine: bare, and virtualised, confidential, or behind
another link.

Both probes are calibrated by themselves, without a base.  Each number of the coupling that both
have becomes a factor, which a relative machine applies to the machine of a recording:

    factor = behind / bare        error = sqrt(error of behind ^ 2 + error of bare ^ 2)

What the coupling does not change (the chip, the host's cores) is left out, whatever the probes say
of it.
"""

from __future__ import annotations

import math
from typing import Final

from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.units import show
from turnbuckle.machine import Machine, Parameter, ParameterName
from turnbuckle.machine.machine import SOURCE, Change, schema
from turnbuckle.machine.parameter_names import parameter_name
from turnbuckle.questions.calibrate.calibration import Calibration, Estimate

#: Begins of the parameters that a coupling sets.
_COUPLED: Final = ("link.", "launch.", "sync.", "alloc.", "bare.")


def factors(behind: Calibration, bare: Calibration) -> dict[ParameterName, Parameter]:
    """Return by how much each number of the coupling differs between two probes of one machine: 1
    for each where both are equal.

    Parameters
    ----------
    behind, bare : what the probes say, without a base: rates stand as rates, not as shares of a
        nominal one.

    Raises
    ------
    UsageError : A411 where the probes name different devices.
    CannotAnswer : A184 where no number of a coupling was measured by both.
    """
    if behind.devices and bare.devices and set(behind.devices) != set(bare.devices):
        raise error_of(
            "A411", found=f"{', '.join(behind.devices)}; {', '.join(bare.devices)}"[:200]
        )
    before = {e.name: e for e in bare.parameters if _coupled(e)}
    both = [(e, before[e.name]) for e in behind.parameters if _coupled(e) and e.name in before]
    if not both:
        raise error_of(
            "A184",
            where=", ".join(o.file for o in (*behind.origins, *bare.origins))[:120],
            found="no number of a coupling that both probes have",
            fix=(
                "measure copies, launches and waits in both, with the same tool: turnbuckle "
                "calibrate --run"
            ),
        )
    return {parameter_name(e.name): _factor(e, other) for e, other in both}


def coupling(behind: Calibration, bare: Calibration, name: str) -> Machine:
    """Return the relative machine that applies `factors` to the machine of a recording.  Raises as
    `factors`.
    """
    scales = factors(behind, bare)
    return Machine(
        name=name,
        title=title(behind),
        summary=(
            f"Multiplies {len(scales)} numbers of the link by what two probes of one machine "
            "differ in."
        ),
        year=0,
        coupling="relative",
        base=SOURCE,
        changes=tuple(
            Change(parameter, scale=scales[parameter])
            for parameter in schema()
            if parameter in scales
        ),
    )


def title(behind: Calibration) -> str:
    """Return the title of the machine: the probe of the coupling, and the device if it is named."""
    return f"Same GPU, coupled as in {behind.origins[0].file}" + (
        f" ({', '.join(behind.devices)})" if behind.devices else ""
    )


def _coupled(estimate: Estimate) -> bool:
    return estimate.nature == "measured" and estimate.keyed and estimate.name.startswith(_COUPLED)


def _factor(behind: Estimate, bare: Estimate) -> Parameter:
    source = f"{behind.source}; beside {bare.source}"
    note = f"{show(behind.value, behind.unit, 4)} in place of {show(bare.value, bare.unit, 4)}"
    return Parameter(
        behind.value / bare.value,
        min(math.hypot(behind.error, bare.error), 3.0),
        "1",
        "measured",
        source,
        note,
    )
