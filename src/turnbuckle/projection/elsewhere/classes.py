"""Classes of kernels on another GPU: the shares of bandwidth and peak of each, what was measured of
it, and how far that reaches.

``kernels/classes.csv`` has a row for each class, layout and precision: the share that memory
decides, and how far times scatter about the formula (log-sd) where both GPUs were measured, where
one was not, and between vendors. ``offsets.csv`` has what a class takes longer on a GPU that was
measured, ``power.csv`` what a board sustains per watt.  They lie in ``foundation/schema`` and come
from `validation/kernels/fit.py`, or say that they are assumptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from turnbuckle.cost.kernel_class import (
    ORDERS,
    TILE,
    filled,
    held_by_power,
    longer,
    offset,
    weights,
    work,
)
from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.schema import table_rows
from turnbuckle.machine import Machine, Pair
from turnbuckle.profile.kernels import KernelKind
from turnbuckle.projection.elsewhere.priors import other_vendor, vendor

if TYPE_CHECKING:
    from turnbuckle.projection.model import Priced

#: Share of its memory bandwidth that a GPU reaches where nobody measured it, and its log-sd: 19
#: GPUs of the catalogue reach 0.74 to 0.94.
REACHED: Final = 0.83
REACHED_ERROR: Final = 0.09
#: Largest ratio of memory bandwidths of two boards with one chip (A100 of 80 and of 40 GB: 1.31).
_ONE_CHIP: Final = 1.35
#: What a kernel takes that does nearly nothing [s], by vendor: 5 of 100 elementwise kernels of
#: PyTorch are shorter, on V100, A100 and H100 (1.5 to 2.2 us in five recordings with fractions of a
#: microsecond) and on MI210 and MI300X (3.4 to 4.5 us in three).
SHORTEST: Final = {"amd": 3.5e-6, "": 1.6e-6}
#: Between vendors libraries differ more than peaks: of the ratio of a class that arithmetic holds
#: up, the root is taken.
BETWEEN_VENDORS: Final = 0.5
_REFERENCE: Final = {"memory": 900e9 * 0.92, "compute": 15.7e12}
_TABLES: Final = "foundation/schema"


@dataclass(frozen=True)
class ClassRule:
    """Constants of a class.

    Attributes
    ----------
    memory : share of the time that memory decides.
    fill : exponent of the part of the GPU that blocks fill.
    power : work from which on the power of the board alone decides arithmetic [s]; infinite for a
        class that power does not hold.
    error, error_other, error_vendor : scatter of times (log-sd) between GPUs that were measured,
        with one that was not, and between vendors.
    nature : ``measured`` or ``assumption``.
    """

    memory: float
    fill: float
    power: float
    error: float
    error_other: float
    error_vendor: float
    nature: str


@cache
def _rules() -> dict[tuple[str, str, str], ClassRule]:
    rows = table_rows(f"{_TABLES}/kernels/classes.csv")
    return {(row["class"], row["layout"], row["precision"]): _constants(row) for row in rows}


def _constants(row: dict[str, str]) -> ClassRule:
    return ClassRule(
        memory=float(row["memory"]),
        fill=float(row["fill"]),
        power=float(row["power ms"] or np.inf) * 1e-3,
        error=float(row["error"]),
        error_other=float(row["error_other"]),
        error_vendor=float(row["error_vendor"]),
        nature=row["nature"],
    )


@cache
def _measured() -> tuple[tuple[tuple[str, str], str, float, float, Float], ...]:
    """Return class and layout, family, multiprocessors, bandwidth [B/s] and offset of each row."""
    return tuple(
        (
            (row["class"], row["layout"]),
            row["family"],
            float(row["multiprocessors"]),
            float(row["memory_bandwidth"]),
            np.array([float(row[order]) for order in ORDERS]),
        )
        for row in table_rows(f"{_TABLES}/kernels/offsets.csv")
    )


@cache
def _per_joule() -> dict[str, float]:
    """Return the FP32 operations a joule that boards sustain, by family."""
    rows = table_rows(f"{_TABLES}/kernels/power.csv")
    return {
        family: float(row["operations a joule"]) for row in rows for family in row["family"].split()
    }


def sustained(machine: Machine) -> float:
    """Return the share of its FP32 peak that the power of a machine's GPU sustains; 1 where that is
    not known.
    """
    peak, limit = machine.value("gpu.fp32"), machine.value("gpu.power")
    if machine.family not in _per_joule() or peak is None or limit is None:
        return 1.0
    return min(_per_joule()[machine.family] * limit / peak, 1.0)


def rule(kind: KernelKind) -> ClassRule | None:
    """Return the constants of a class: of its layout and precision, else of the class; None for a
    class that has none.
    """
    keys = (
        (kind.name, kind.layout, kind.precision),
        (kind.name, "", kind.precision),
        (kind.name, "", ""),
    )
    return next((_rules()[key] for key in keys if key in _rules()), None)


def offsets(kind: KernelKind, machine: Machine) -> Float | None:
    """Return what a class takes longer on a machine's GPU (log), by `ORDERS`; None where it was not
    measured there.

    A board counts as measured if another with its chip was: one family, as many multiprocessors,
    memory within a third.
    """
    constants = rule(kind)
    if constants is None or constants.nature != "measured":
        return None
    units, bandwidth = machine.value("gpu.multiprocessors"), machine.value("gpu.memory_bandwidth")
    if not machine.family or units is None or bandwidth is None:
        return None
    chip = (machine.family, units)
    apart = {
        abs(np.log(rate / bandwidth)): values
        for name, family, count, rate, values in _measured()
        if name == (kind.name, kind.layout) and (family, count) == chip
    }
    nearest = min(apart, default=np.inf)
    return apart[nearest] if nearest < np.log(_ONE_CHIP) else None


def measured(kind: KernelKind, pair: Pair) -> bool:
    """Return whether a class was measured on the GPUs of both machines; elementwise kernels, where
    both state what memory reaches.
    """
    constants = rule(kind)
    if constants is None or constants.nature != "measured":
        return False
    if not any(key == (kind.name, kind.layout) for key, *_ in _measured()):
        return all(
            machine.value("gpu.memory_efficiency") is not None
            for machine in (pair.source, pair.target)
        )
    return all(offsets(kind, machine) is not None for machine in (pair.source, pair.target))


def scatter(kind: KernelKind, pair: Pair) -> tuple[float, float]:
    """Return the scatter of a class about the formula (log-sd): its own, and what another GPU or
    vendor adds.
    """
    constants = rule(kind)
    assert constants is not None  # the caller has looked
    whole = constants.error_other
    if other_vendor(pair):
        whole = constants.error_vendor
    elif measured(kind, pair):
        whole = constants.error
    own = min(constants.error, whole)
    return own, float(np.sqrt(whole**2 - own**2))


def by_class(kinds: Sequence[KernelKind], pair: Pair, memory: Float, compute: Float) -> Float:
    """Return the time on the target over that on the source, without scatter; shape (draws, kinds).

    Parameters
    ----------
    kinds : all of classes that have a `rule`.
    memory : bandwidth of memory that is reached, there over here; shape (draws, 1).
    compute : the peak of each kind's precision, there over here; shape (draws, kinds).
    """
    constants = [constants for kind in kinds if (constants := rule(kind)) is not None]
    share, fill, power = (
        np.array([getattr(c, name) for c in constants]) for name in ("memory", "fill", "power")
    )
    amount = _work(kinds, pair.source, share)
    lasts = held_by_power(amount, power) * np.log(sustained(pair.target) / sustained(pair.source))
    logs = -share * np.log(memory) - (1.0 - share) * (np.log(compute) + lasts)
    logs = logs + fill * _less_filled(kinds, pair) + _apart(kinds, pair, amount)
    if other_vendor(pair):
        logs = logs * np.where([kind.bound == "pipe" for kind in kinds], BETWEEN_VENDORS, 1.0)
    shortest = (_shortest(pair.source), _shortest(pair.target))
    return longer([kind.seconds for kind in kinds], np.exp(logs), shortest)


def _shortest(machine: Machine) -> float:
    return SHORTEST.get(vendor(machine), SHORTEST[""])


def _less_filled(kinds: Sequence[KernelKind], pair: Pair) -> Float:
    units = [machine.value("gpu.multiprocessors") for machine in (pair.source, pair.target)]
    if None in units:
        return np.zeros(len(kinds))
    blocks = [kind.blocks if kind.launched else 0 for kind in kinds]
    here, there = (filled(blocks, count) for count in units if count is not None)
    return here - there


def _work(kinds: Sequence[KernelKind], source: Machine, share: Float) -> Float:
    memory = (source.value("gpu.memory_bandwidth") or _REFERENCE["memory"]) * (
        source.value("gpu.memory_efficiency") or REACHED
    )
    compute = source.value("gpu.fp32") or _REFERENCE["compute"]
    seconds = [kind.seconds for kind in kinds]
    return work(seconds, memory / _REFERENCE["memory"], compute / _REFERENCE["compute"], share)


def _apart(kinds: Sequence[KernelKind], pair: Pair, amount: Float) -> Float:
    """Return what the class takes longer on the target's GPU, less what it takes longer here.

    A GPU where it was not measured takes the mean of its vendor's, which is 0; between vendors
    the rates alone were nearer.
    """
    if other_vendor(pair):
        return np.zeros(len(kinds))
    tiles = [(kind.tile or TILE) / TILE * kind.blocks * kind.launched for kind in kinds]
    at, nothing = weights(amount, tiles), np.zeros(len(ORDERS))
    here, there = (
        [nothing if (own := offsets(kind, machine)) is None else own for kind in kinds]
        for machine in (pair.source, pair.target)
    )
    return offset(there, at) - offset(here, at)


def reached_bandwidth(pair: Pair, source: Priced, target: Priced, drawn: Float) -> Float | None:
    """Return the bandwidth of memory that is reached, there over here; None where a machine states
    no bandwidth.

    Parameters
    ----------
    drawn : normals of the share that a GPU reaches where nobody measured it, shape (draws, 1).
    """
    before, after = source.value("gpu.memory_bandwidth"), target.value("gpu.memory_bandwidth")
    if before is None or after is None:
        return None
    shares = [machine.value("gpu.memory_efficiency") for machine in (source, target)]
    unknown = sum(share is None for share in shares)
    here, there = (REACHED if share is None else share for share in shares)
    apart = (
        np.exp(REACHED_ERROR * np.sqrt(unknown) * drawn) if unknown and before is not after else 1.0
    )
    return np.asarray(after / before * there / here * apart)
