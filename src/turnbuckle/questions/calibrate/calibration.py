"""Result of a calibration: numbers with interval and origin, fitted curves, and parameters that the
base gives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final

import polars as pl

from turnbuckle.foundation.fields import Declared
from turnbuckle.foundation.findings import Finding
from turnbuckle.machine import Machine, device_words
from turnbuckle.machine.machine import Nature
from turnbuckle.projection.answers.shown import Shown
from turnbuckle.questions.calibrate.curve_fit import CurveFit
from turnbuckle.show.text import terms

#: Half the width of a 90 % interval, in standard deviations.
NINETY: Final = 1.645
#: Quantities that are a parameter as they stand: quantity -> parameter.
DIRECT: Final = terms("parameter of a quantity")
#: Numbers that are counted or stated, not timed.
STATED: Final = ("host.cores", "kernel.concurrency", "memory.size", "memory.peak")
#: Single numbers that files give, in words; those that no parameter stands for are in the summary
#: alone.
QUANTITIES: Final = terms("quantity")


@dataclass(frozen=True)
class Origin:
    """Provenance of a file's numbers: its name, hash, date, tool, device and driver."""

    file: str
    sha256: str
    date: str
    tool: str
    device: str
    driver: str

    def words(self, where: str) -> str:
        parts = [f"{self.tool}: {where}", f"{self.file} of {self.date}", f"sha256 {self.sha256}"]
        parts += [f"device {self.device}"] if self.device else ["device not named"]
        parts += [f"driver {self.driver}"] if self.driver else ["driver not named"]
        return "; ".join(parts)


@dataclass(frozen=True)
class Estimate(Declared):
    """One measured number of the answer.

    Attributes
    ----------
    name : a parameter of the schema, or the word of a quantity that no parameter stands for.
    value, unit : in SI.
    nature : measured; spec where a device or a definition states it.
    keyed : whether it is a parameter of the schema.
    rank : which of several measurements is taken; the lowest.
    """

    name: str
    value: float
    unit: str
    error: float
    nature: Nature
    source: str
    where: str
    note: str = ""
    keyed: bool = True
    rank: float = 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 90 % interval of a log-normal around the value; that of a share ends at 1."""
        low, high = (self.value * math.exp(sign * NINETY * self.error) for sign in (-1, 1))
        return low, min(high, 1.0) if self.name.endswith(".efficiency") else high


@dataclass(frozen=True, repr=False)
class Calibration(Shown):
    """Result of a calibration: parameters, fits, findings and their provenance.

    Attributes
    ----------
    base : the machine that the rest is from, or None.
    """

    question: ClassVar[str] = "calibrate"

    parameters: tuple[Estimate, ...]
    others: tuple[Estimate, ...]
    fits: tuple[tuple[Origin, CurveFit], ...]
    inherited: tuple[str, ...]
    surface: tuple[dict[str, float], ...]
    findings: tuple[Finding, ...]
    base: Machine | None
    origins: tuple[Origin, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """Return the devices that the files name."""
        return tuple(dict.fromkeys(o.device for o in self.origins if o.device))

    @property
    def drivers(self) -> tuple[str, ...]:
        """Return the drivers that the files name."""
        return tuple(dict.fromkeys(o.driver for o in self.origins if o.driver))

    def table(self) -> pl.DataFrame:
        """Return a row for each number that was measured: name, value, 90 % range, unit, relative
        error, nature, where it is from.
        """
        return pl.DataFrame(
            [e.as_dict() for e in (*self.parameters, *self.others)], infer_schema_length=None
        )

    def headline(self) -> str:
        """Return how many numbers of which device were measured, in one line."""
        device = ", ".join(self.devices) or "device not named"
        return (
            f"Calibration: {len(self.parameters)} parameters of {device} from {len(self.origins)} "
            "files of measurements"
        )

    def beside(self, bare: Calibration, name: str = "coupling") -> Machine:
        """Return the coupling between this probe and a bare one of the same machine, as changes of
        the machine of a recording.

        Both are calibrated without a base.  Two equal probes change nothing.

        Raises
        ------
        UsageError : A411 where the probes name different devices.
        CannotAnswer : A184 where no number of a coupling was measured by both.
        """
        from turnbuckle.questions.calibrate.coupling import coupling  # which reads calibrations

        return coupling(self, bare, name)

    @property
    def stranger(self) -> str:
        """Return the device that the files name if the base is known by other names; empty
        otherwise.
        """
        base_names = (
            {device_words(r) for r in self.base.recognise} if self.base is not None else set()
        )
        return next(
            (d for d in self.devices if base_names and device_words(d) not in base_names), ""
        )

    def value(self, name: str) -> float | None:
        """Return the value of a parameter or of another quantity; None where it was not
        measured.
        """
        return next((e.value for e in (*self.parameters, *self.others) if e.name == name), None)
