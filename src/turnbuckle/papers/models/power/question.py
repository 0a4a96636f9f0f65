"""Trend of the rate per watt, and design points of GPUs in a later year (Groves et al. 2022, Fig 4
and Table I).

    rate per watt   e(y) = e(y0) 2^((y - y0) / D)                   D: years in which it doubles
    design point    F = e(2026) P                                   0.19 TFLOP/s/W x 700 W = 133 TFLOP/s
    less power      F(P) = F0 (P / P0)^x                            x from two parts of one chip at two powers

D is fitted by least squares on log2 of the rate per watt over the year of launch.  Its interval is
Student's; where the parts do not show growth, its upper end is infinite.  The trend is one of peak
rates, not of what a program reaches.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from turnbuckle._native import student_quantile
from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import SCHEMA_VERSION, Declared
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.foundation.schema import table_rows
from turnbuckle.foundation.table_file import Column, read_table
from turnbuckle.foundation.units import parse
from turnbuckle.machine import load
from turnbuckle.machine.machine import Machine
from turnbuckle.papers.models.on_machine import stated
from turnbuckle.papers.numbers import Interval

Rate = Literal["best", "vector"]

#: Coverage of each interval.
COVERAGE: Final = 0.90
#: Fewest parts for which a line has an interval.
FEWEST: Final = 3
#: Word in a source that marks an unchecked number.
UNVERIFIED: Final = "unverified"
#: The paper's trend: the A100 of 2020, doubled every three years.
PAPER_BASE, PAPER_DOUBLING = "A100-SXM4-40GB", 3.0
#: Design points and their machine files, which hold Table I.
TABLE_ONE: Final = {
    "2026 on-board": "2026-onboard",
    "2026 discrete": "2026-discrete",
    "2026 disaggregated": "2026-disaggregated",
    "2026 APU": "2026-apu",
}
#: Two boards of one chip, from which the exponent of power follows.
FULL_POWER, HALF_POWER = "H100-SXM5-80GB", "H100-PCIe-80GB"

COLUMNS: Final = (
    Column("part", ""),
    Column("year", "1", least=1980, most=2100),
    Column("rate", "FLOP/s", least=1, most=1e24),
    Column("power", "W", least=1e-3, most=1e9),
    Column("source", "", needed=False),
)


@dataclass(frozen=True)
class Part:
    """GPU with the peak double precision rate of its vector and matrix units [FLOP/s], power limit
    [W] and year of launch.

    `form` is full or reduced: whether the board gives the chip its full power; it is empty for a
    user's own part.
    """

    name: str
    form: str
    year: float
    vector: float
    matrix: float | None
    power: float
    source: str

    def rate(self, which: Rate) -> float:
        """Return the rate of the vector units, or the best of vector and matrix units [FLOP/s]."""
        return self.vector if which == "vector" else max(self.vector, self.matrix or 0.0)


@dataclass(frozen=True)
class Trend:
    """Line through log2 of the rate per watt."""

    #: D with its interval [years]; its value or upper end is infinite where the parts do not show
    #: growth
    doubling_years: Interval
    #: year, log2: mean year of the parts, and mean log2 of FLOP/s/W
    year: float
    log2: float
    slope: float
    spread: (
        float  #: standard deviation of the parts about the line [log2]; 0 where the line is exact
    )
    spread_years: float  #: sum of squares of the years about their mean
    count: int

    def efficiency(self, year: float) -> Interval:
        """Return the rate per watt of one further part in a year [FLOP/s/W], with its prediction
        interval.
        """
        away = year - self.year
        value = self.log2 + self.slope * away
        reach = 0.0
        if self.spread:
            reach = (
                _student(self.count - 2)
                * self.spread
                * math.sqrt(1.0 + 1.0 / self.count + away**2 / self.spread_years)
            )
        return Interval(_two_to(value), _two_to(value - reach), _two_to(value + reach))


def _two_to(power: float) -> float:
    return 2.0**power if power < sys.float_info.max_exp else math.inf


def power_exponent(rate_ratio: float, power_ratio: float) -> float:
    """Return x of F ~ P^x from one chip at two powers.

    Parameters
    ----------
    rate_ratio, power_ratio : weaker part over stronger part, both above 0; powers must differ.

    >>> round(power_exponent(51 / 67, 350 / 700), 3)
    0.394
    """
    return math.log(rate_ratio) / math.log(power_ratio)


@cache
def shipped() -> tuple[Part, ...]:
    """Return the parts that ship with Turnbuckle (``parts.csv``), each with its source."""
    parts = []
    for r in table_rows("papers/models/power/parts.csv"):
        matrix = parse(r["matrix"], "FLOP/s") if r["matrix"] else None
        vector, power = parse(r["vector"], "FLOP/s"), parse(r["power"], "W")
        parts.append(
            Part(r["part"], r["form"], float(r["year"]), vector, matrix, power, r["source"])
        )
    return tuple(parts)


def read_parts(path: str | Path) -> tuple[Part, ...]:
    """Read parts from a table: part, year, rate [FLOP/s], power [W], source.  Raises A061 to A063,
    U0xx.
    """
    table = read_table(path, COLUMNS, "the table of parts")
    sources = table.texts.get("source", [""] * len(table))
    sources = [
        source or f"{table.name}:{line}" for source, line in zip(sources, table.lines, strict=True)
    ]
    columns = (
        table.texts["part"],
        *(table.numbers[name].tolist() for name in ("year", "rate", "power")),
        sources,
    )
    return tuple(
        Part(name, "", year, rate, None, power, source)
        for name, year, rate, power, source in zip(*columns, strict=True)
    )


def chosen(
    parts: Sequence[Part], first: float = -math.inf, last: float = math.inf, form: str = "full"
) -> tuple[Part, ...]:
    """Return the parts launched in a span of years. Of the shipped parts only boards of the given
    form are taken.
    """
    return tuple(p for p in parts if first <= p.year <= last and p.form in ("", form))


def fitted(parts: Sequence[Part], which: Rate = "best") -> Trend:
    """Fit the trend through some parts.  Raises A161 for fewer than three parts, or parts of a
    single year.
    """
    years = np.array([p.year for p in parts])
    log2 = np.log2([p.rate(which) / p.power for p in parts])
    if len(parts) < FEWEST or float(np.ptp(years)) == 0.0:
        description = f"{len(parts)} parts" + (
            f", all of {years[0]:g}" if len(parts) >= FEWEST else ""
        )
        raise error_of("A161", found=description)
    return trend_line(years, log2)


def trend_line(years: Float, log2: Float) -> Trend:
    """Fit least squares through log2 of the rate per watt, shape (n,) with n >= 3, over the year,
    shape (n,).

    >>> trend = trend_line(np.array([2016.0, 2018, 2020, 2022]), np.array([0.0, 0.5, 1.5, 2.0]))
    >>> round(trend.doubling_years.value, 2)
    2.86
    """
    middle = float(years.mean())
    away = years - middle
    spread_years = float((away**2).sum())
    slope = float((away * log2).sum()) / spread_years
    residual = log2 - log2.mean() - slope * away
    # rounding must not give an exact line a spread
    freedom = len(years) - 2
    spread = float(np.sqrt((residual**2).sum() / freedom))
    spread = spread if spread > 1e-9 * max(1.0, float(np.abs(log2).max())) else 0.0
    reach = _student(freedom) * spread / math.sqrt(spread_years)
    ends = [1.0 / s if s > 0 else math.inf for s in (slope + reach, slope, slope - reach)]
    return Trend(
        Interval(ends[1], ends[0], ends[2]),
        middle,
        float(log2.mean()),
        slope,
        spread,
        spread_years,
        len(years),
    )


def _student(freedom: int) -> float:
    return student_quantile(freedom, 0.5 + COVERAGE / 2)


@dataclass(frozen=True)
class DesignPoint:
    """Design point: a power and the rate at it [FLOP/s], with interval."""

    name: str
    power: float
    rate: Interval
    how: str

    @property
    def printed(self) -> float | None:
        """Return the rate that its machine file holds for a design point of the paper [FLOP/s];
        None for another point or power.
        """
        machine = load(TABLE_ONE[self.name]) if self.name in TABLE_ONE else None
        return (
            float(machine.value("gpu.fp64_matrix") or 0.0)
            if machine is not None and machine.value("gpu.power") == self.power
            else None
        )


def design_points(
    efficiency: Interval,
    package: float,
    share: float,
    card_power: float,
    exponent: float,
    year: float = 2026,
) -> tuple[DesignPoint, ...]:
    """Return the four couplings of Table I at a rate per watt, and an APU that gives all power to
    its GPU.

    Parameters
    ----------
    efficiency : rate per watt of a part at full power [FLOP/s/W].
    package : power of the part at full power, and of the APU with its CPU [W].
    share : share of the package's power that an APU gives to its GPU.
    card_power : power of the part on a PCIe card [W].
    """
    full = efficiency.times(package)

    def at_power(power: float) -> Interval:
        return full.times((power / package) ** exponent)

    less = f"of {package:g} W, to the power {exponent:.3f}"
    stem = f"{year:g}"
    return (
        DesignPoint(
            f"{stem} on-board",
            package,
            full,
            f"{efficiency.value / 1e12:.3f} TFLOP/s/W x {package:g} W",
        ),
        DesignPoint(
            f"{stem} discrete", card_power, at_power(card_power), f"{card_power:g} W {less}"
        ),
        DesignPoint(
            f"{stem} disaggregated", card_power, at_power(card_power), f"{card_power:g} W {less}"
        ),
        DesignPoint(
            f"{stem} APU",
            package * share,
            at_power(package * share),
            f"{share:.0%} of the package: {package * share:g} W {less}",
        ),
        DesignPoint(f"{stem} APU, all power to the GPU", package, full, "as on-board"),
    )


def part_named(name: str) -> Part:
    """Return a shipped part.  Raise `KeyError` for another name."""
    return {p.name: p for p in shipped()}[name]


def part_of(machine: Machine) -> Part:
    """Return the GPU of a machine as a part of its year (A160 where it states neither its rate nor
    its power).

    >>> part_of(load("h100-sxm5")).power
    700.0
    """
    vector, power = (stated(machine, name) for name in ("gpu.fp64", "gpu.power"))
    source = (
        f"machine {machine.name}: "
        f"{(machine.get('gpu.fp64') or machine.parameters['gpu.power']).source}"
    )
    return Part(
        machine.name, "", machine.year, vector, machine.value("gpu.fp64_matrix"), power, source
    )


def observed_exponent(which: Rate = "best") -> float:
    """Return x from the two shipped boards of one chip, H100 at 350 W and at 700 W.

    >>> 0.3 < observed_exponent() < 0.5
    True
    """
    weak, strong = part_named(HALF_POWER), part_named(FULL_POWER)
    return power_exponent(weak.rate(which) / strong.rate(which), weak.power / strong.power)


@dataclass(frozen=True)
class PowerStudy(Declared):
    """Trend, and the design points that follow from it."""

    schema_version: ClassVar[int] = SCHEMA_VERSION

    year: float
    which: Rate
    trend: Trend | None
    doubling_years: Interval
    efficiency: Interval
    basis: str
    exponent: float
    points: tuple[DesignPoint, ...]
    parts: tuple[Part, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def printed(self) -> dict[str, float]:
        """Return the rates [FLOP/s] that the machine files hold for the paper's design points, by
        the name of the point.

        The result is empty for another year.  A point of another power has no printed rate.
        """
        return {p.name: p.printed for p in self.points if p.printed is not None}

    def rated_parts(self) -> list[dict[str, Any]]:
        """Return the parts of the trend, each with its rate [FLOP/s] and rate per watt
        [FLOP/s/W].
        """
        rates = [(part, part.rate(self.which)) for part in self.parts]
        return [{"part": part, "rate": rate, "per_watt": rate / part.power} for part, rate in rates]


def preset(base: Part, year: float, doubling_years: float, which: Rate = "best") -> Interval:
    """Return the rate per watt of a part, doubled every so many years: a stated trend without an
    interval.

    >>> round(preset(part_named("A100-SXM4-40GB"), 2026, 3.0).value / 1e12, 3)
    0.195
    """
    value = base.rate(which) / base.power * 2.0 ** ((year - base.year) / doubling_years)
    return Interval(value, value, value)


def power_study(
    parts: Sequence[Part],
    *,
    which: Rate = "best",
    year: float = 2026,
    doubling_years: float | None = None,
    base: Part | None = None,
    package: float = 700.0,
    share: float = 0.5,
    card_power: float = 350.0,
    exponent: float | None = None,
) -> PowerStudy:
    """Return the design points of a year, from a trend through parts or from a stated doubling
    time.

    Raises A161; A048 for a number out of range.

    Parameters
    ----------
    parts : parts of the trend; unused with `doubling_years` and `base`.
    doubling_years : years in which the rate per watt of `base` doubles; None fits the trend through
        the parts.
    base : part at which the trend starts; None takes the line of the fitted trend.
    """
    x = observed_exponent(which) if exponent is None else exponent
    asked = {
        "year": (year, 1980, 2100),
        "package": (package, 1, 1e5),
        "card": (card_power, 1, 1e5),
        "share": (share, 0.01, 1),
        "exponent": (x, 0, 2),
    }
    if doubling_years is not None:
        asked["doubling"] = (doubling_years, 0.1, 100)
    for name, (value, least, most) in asked.items():
        if not least <= value <= most:
            raise error_of("A048.range", found=f"{value:g}", name=name, least=least, most=most)
    if doubling_years is not None and base is not None:
        trend, efficiency = None, preset(base, year, doubling_years, which)
        doubling = Interval(doubling_years, doubling_years, doubling_years)
        basis = f"{base.name} ({base.year:g}), doubled every {doubling_years:g} years"
        used: tuple[Part, ...] = (base,)
    else:
        used, trend = tuple(parts), fitted(parts, which)
        efficiency, doubling = trend.efficiency(year), trend.doubling_years
        basis = (
            f"least squares through {len(used)} parts of {min(p.year for p in used):g} to "
            f"{max(p.year for p in used):g}"
        )
        if base is not None:
            ends = [
                preset(base, year, years, which).value
                for years in (doubling.low, doubling.value, doubling.high)
            ]
            efficiency = Interval(ends[1], min(ends), max(ends))
            basis = f"{base.name} ({base.year:g}), doubled as {basis}"
    doubtful = [p.name for p in used if UNVERIFIED in p.source]
    flaws = (finding("A344", len(doubtful), ", ".join(doubtful)),) if doubtful else ()
    points = design_points(efficiency, package, share, card_power, x, year)
    return PowerStudy(year, which, trend, doubling, efficiency, basis, x, points, used, flaws)
