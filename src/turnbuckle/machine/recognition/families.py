"""Families of GPUs: what one multiprocessor does in a clock, by compute capability or gfx name
(``families.csv``).

peak = 2 x multiply-adds a clock and multiprocessor x multiprocessors x clock        [FLOP/s]
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from turnbuckle.foundation.schema import table_rows
from turnbuckle.machine.machine import Parameter
from turnbuckle.machine.parameter_names import ParameterName

#: Peak rates, by column.
RATES: Final[tuple[ParameterName, ...]] = (
    "gpu.fp64",
    "gpu.fp64_matrix",
    "gpu.fp32",
    "gpu.fp16",
    "gpu.tf32_matrix",
    "gpu.fp16_matrix",
    "gpu.fp8_matrix",
    "gpu.int8_matrix",
)
#: What a multiprocessor holds, by column.
_HELD: Final[Mapping[ParameterName, str]] = {
    "gpu.warp": "1",
    "gpu.threads": "1",
    "gpu.registers": "1",
    "gpu.blocks": "1",
    "gpu.shared_memory": "B",
    "gpu.shared_memory_block": "B",
}
#: Boards of one family differ from multiply-adds times clock by this much: of those with rates of
#: their own in the catalogue all but two, which `tests/machine/test_families.py` names.
RATE_ERROR: Final = 0.05
#: Highest clock of a board from the middle of its family: boards of one chip lie between 0.8 and
#: 1.2 of it (TechPowerUp GPU database).
CLOCK_ERROR: Final = 0.12
#: Boards for desktops, whose tensor units add up in FP32 at a lower rate; and those without tensor
#: units.
_DESKTOP: Final = re.compile(r"geforce|titan (?:rtx|x)", re.IGNORECASE)
_NO_TENSOR: Final = re.compile(r"\bgtx\b", re.IGNORECASE)


#: Families of AMD without units for TF32: those before CDNA 3, which brought XF32, and RDNA
#: (Tensile, `HasMFMA_xf32`).
_AMD_BEFORE_XF32: Final = ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030", "gfx1100", "gfx1151")


def without_tf32(family: str) -> bool:
    """Return whether a family has no units for TF32, so that its kernels run in FP32: those of
    NVIDIA have them from capability 8.0 on.

    >>> without_tf32("7.0"), without_tf32("8.0"), without_tf32("")
    (True, False, False)
    """
    capability = re.fullmatch(r"(\d+)\.\d+", family)
    return int(capability[1]) < 8 if capability else family in _AMD_BEFORE_XF32


@dataclass(frozen=True, slots=True)
class Family:
    """GPUs whose multiprocessors are alike.

    Attributes
    ----------
    name : compute capability (``8.6``) or gfx name (``gfx90a``).
    title : maker and architecture.
    chips : names of its chips, as profilers write them.
    integrated : whether CPU and GPU share one memory in every machine that has it.
    link : machine of the catalogue with the fastest link that its chips have; empty where they have
        none.
    clock : middle of the highest clocks of its boards [Hz]; None where the catalogue's boards tell
        it.
    desktop : share of the tensor rates that boards for desktops keep.
    rates : multiply-adds a clock and multiprocessor, by peak rate; a tensor rate that is stated at
        less than the highest clock counts by that share.
    held : what a multiprocessor holds.
    source : source of all of that.
    """

    name: str
    title: str
    chips: tuple[str, ...]
    integrated: bool
    link: str
    clock: float | None
    desktop: float
    rates: Mapping[ParameterName, float]
    held: Mapping[ParameterName, float]
    source: str

    def typical_clock(self) -> Parameter | None:
        """Return the clock of a board of which only the family is known [Hz]; None where no source
        tells one.
        """
        if self.clock is None:
            return None
        return Parameter(
            self.clock, CLOCK_ERROR, "Hz", "assumption", self.source, "middle of its boards"
        )

    def parameters(
        self, multiprocessors: Parameter, clock: Parameter | None, board: str
    ) -> dict[ParameterName, Parameter]:
        """Return the peak rates of a GPU of this family and what its multiprocessors hold.

        Parameters
        ----------
        multiprocessors, clock : of this GPU [1], [Hz]; without a clock there are no rates.
        board : names of the board, which tell what a desktop keeps of the tensor rates.
        """
        held = {
            name: Parameter(value, 0.0, _HELD[name], "spec", self.source)
            for name, value in self.held.items()
        }
        known: dict[ParameterName, Parameter] = {"gpu.multiprocessors": multiprocessors, **held}
        if clock is None:
            return known
        cycles = 2.0 * multiprocessors.value * clock.value
        error = math.hypot(RATE_ERROR, clock.error, multiprocessors.error)
        note = (
            "multiply-adds a clock and multiprocessor of its family, times its multiprocessors "
            "and clock"
        )
        shares = {name: self._share(name, board) for name in self.rates}
        peaks = {
            name: Parameter(
                cycles * per_clock * shares[name], error, "FLOP/s", clock.nature, self.source, note
            )
            for name, per_clock in self.rates.items()
            if shares[name]
        }
        return {"gpu.clock": clock, **peaks, **known}

    def _share(self, rate: ParameterName, board: str) -> float:
        """Return the share of a rate that a board keeps; 0 where it has no such units, or states
        that rate otherwise.
        """
        if not rate.endswith("_matrix") or rate == "gpu.fp64_matrix":
            return 1.0
        if _NO_TENSOR.search(board):
            return 0.0
        if self.desktop == 1.0 or not _DESKTOP.search(board):
            return 1.0
        # INT8 is not halved: four times FP16, where rates of half the bits count as at most twice
        # as high
        return 0.0 if rate == "gpu.int8_matrix" else self.desktop


@cache
def families() -> Mapping[str, Family]:
    """Return the families by name (``machine/recognition/families.csv``)."""
    out = {}
    for row in table_rows("machine/recognition/families.csv"):
        rates = {name: float(row[_column(name)]) for name in RATES if row[_column(name)]}
        held = {name: float(row[_column(name)]) for name in _HELD if row[_column(name)]}
        out[row["family"]] = Family(
            row["family"],
            row["title"],
            tuple(row["chips"].split()),
            row["integrated"] == "yes",
            row["link"],
            float(row["clock"]) if row["clock"] else None,
            float(row["desktop"] or 1.0),
            rates,
            held,
            f"family {row['family']}: {row['source']}",
        )
    return out


def _column(name: ParameterName) -> str:
    return name.removeprefix("gpu.")


def family_of(major: int | None, minor: int | None, chip: str | None, amd: bool) -> Family | None:
    """Return the family of a device by its compute capability, its gfx name or its chip; None where
    they tell none.

    A capability that the table lacks takes the nearest lower one of its generation, and else the
    nearest above.  A gfx name without its last figure is that of the one family that begins so.

    >>> family_of(8, 6, None, False).title, family_of(None, None, "gfx90a:sramecc+:xnack-", True).title
    ('NVIDIA Ampere', 'AMD CDNA 2')
    """
    known = families()
    if chip and (named := known.get(chip.split(":")[0])):
        return named
    if chip and (by_chip := _by_chip().get(chip.casefold().replace(" ", ""))):
        return by_chip
    if chip and chip.startswith("gfx"):
        begun = [family for name, family in known.items() if name.startswith(chip)]
        return begun[0] if len(begun) == 1 else None
    if major is None or amd:
        return None
    minor = minor if minor is not None and 0 <= minor <= 9 else 0
    if exact := known.get(f"{major}.{minor}"):
        return exact
    # an unknown integrated chip must not pass for a discrete one, nor the other way round
    alike = [
        f for name, f in known.items() if name.split(".")[0] == str(major) and not f.integrated
    ]
    lower = [f for f in alike if float(f.name) <= float(f"{major}.{minor}")]
    return lower[-1] if lower else next(iter(alike), None)


@cache
def _by_chip() -> Mapping[str, Family]:
    return {chip.casefold(): family for family in families().values() for chip in family.chips}
