"""Axes that are ranges: sampled, by Sobol points or a Latin hypercube from SciPy, or refined where
the answer changes.

Samples are the same for the same seed.  The first points of a larger Sobol sample are those of a
smaller one, so that a larger sample goes on from the journal of a smaller.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from turnbuckle.foundation.errors import TurnbuckleError, clipped, error_of, require
from turnbuckle.foundation.settings import Scalar, Setting, spaced

if TYPE_CHECKING:
    from turnbuckle.foundation.arrays import Float

Spacing = Literal["linear", "log"]
Sampler = Literal["sobol", "latin"]
#: Points of one study: what a table of the machine's memory cannot hold is refused before it
#: begins.
MOST: Final = 1_000_000_000
#: Of a sample, as of draws.
SEED: Final = 20261121
#: Width to which a change is narrowed unless another is asked: 1 %.
WITHIN: Final = 0.01
#: Places on a range before the first interval is halved.
_FIRST: Final = 5
#: Seeds that generators take.
_MOST_SEED: Final = 2**63 - 1


@dataclass(frozen=True)
class Range:
    """All values of an axis between two ends.

    Attributes
    ----------
    first, last : ends, the smaller first [SI].
    spacing : linear, or log where factors count rather than differences.
    whole : whether values are whole numbers.
    """

    first: float
    last: float
    spacing: Spacing = "linear"
    whole: bool = False

    def values(self, shares: Float) -> list[Scalar]:
        """Return the values at shares of the way, rounded to 12 digits.

        >>> import numpy as np
        >>> Range(1e-6, 1e-4, "log").values(np.array([0.0, 0.5, 1.0])), Range(1, 4, whole=True).values(np.array([0.0, 0.3, 0.999]))
        ([1e-06, 1e-05, 0.0001], [1, 2, 4])
        """
        # each whole number has an equal part of the way, linear or of its logarithm
        last = self.last + 1.0 if self.whole else self.last
        log = self.spacing == "log"
        values = (
            self.first * (last / self.first) ** shares
            if log
            else self.first + (last - self.first) * shares
        )
        if self.whole:
            return [min(math.floor(v), int(self.last)) for v in values.tolist()]
        return [float(f"{v:.12g}") for v in values.tolist()]

    def between(self, low: float, high: float) -> Scalar:
        """Return the value in the middle of two."""
        middle = (low * high) ** 0.5 if self.spacing == "log" else (low + high) / 2.0
        return round(middle) if self.whole else float(f"{middle:.12g}")

    def width(self, low: float, high: float) -> float:
        """Return how far two values lie apart: their ratio less 1, or linear their difference over
        the whole range.
        """
        return (
            high / low - 1.0 if self.spacing == "log" else (high - low) / (self.last - self.first)
        )


@dataclass(frozen=True)
class Sample:
    """How many places are taken from the ranges of a study, and how.

    Attributes
    ----------
    count : places; each is asked with every combination of the other axes.
    sampler : sobol, or latin: a Latin hypercube.
    seed : of both.
    """

    count: int
    sampler: Sampler = "sobol"
    seed: int = SEED

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST:
            raise error_of("A084.count", found=f"{self.count:,}", most=MOST)
        if self.sampler not in get_args(Sampler):
            raise error_of(
                "A084.sampler",
                found=clipped(str(self.sampler), 40),
                samplers=" or ".join(get_args(Sampler)),
            )
        if not 0 <= self.seed <= _MOST_SEED:
            raise error_of("A084.seed", found=str(self.seed))
        require("scipy")

    def shares(self, axes: int) -> Float:
        """Return the places as shares of the way along each axis, shape (count, axes)."""
        # SciPy is heavy, and a sweep over lists does not need it
        from scipy.stats import qmc

        if self.sampler == "latin":
            places: Float = qmc.LatinHypercube(axes, seed=self.seed).random(self.count)
            return places
        with warnings.catch_warnings():
            # any number of points is taken; the manual says which numbers are balanced
            warnings.simplefilter("ignore", UserWarning)
            places = qmc.Sobol(axes, seed=self.seed).random(self.count)
            return places


@dataclass(frozen=True)
class Refine:
    """Where points are added, and how many.

    Attributes
    ----------
    axis, over : the axis that is refined, and its range.
    budget : points that are added at most.
    within : width of the interval of a change at which no more are added: a ratio less 1 on a
        logarithmic axis, else a share of the range.
    """

    axis: str
    over: Range
    budget: int
    within: float = WITHIN

    def __post_init__(self) -> None:
        if not 1 <= self.budget <= MOST:
            raise error_of("A084.budget", found=f"{self.budget:,}", most=MOST)
        if not 0 < self.within < 1:
            raise error_of("A084.within", found=f"{self.within:g}")

    def first(self) -> list[Scalar]:
        """Return the places that are asked before any interval is halved."""
        values = spaced(self.over.first, self.over.last, _FIRST, self.over.spacing)
        return sorted({round(v) for v in values}) if self.over.whole else list(values)

    def closed(self, low: float, high: float) -> bool:
        """Return whether an interval is narrow enough, or cannot be halved."""
        return (
            self.over.width(low, high) <= self.within
            or not low < float(self.over.between(low, high)) < high
        )


def numeric(values: Sequence[object]) -> bool:
    """Return whether the values of an axis are numbers."""
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def logarithmic(values: Sequence[float]) -> bool:
    """Return whether values are spaced by factors rather than by steps.

    >>> logarithmic([1, 2, 4, 8]), logarithmic([1, 2, 3, 4]), logarithmic([0, 1, 10])
    (True, False, False)
    """
    some = sorted(values)
    if some[0] <= 0 or len(some) < 2:
        return False
    if len(some) == 2:
        return some[1] / some[0] >= 8
    steps = [b - a for a, b in pairwise(some)]
    factors = [math.log(b / a) for a, b in pairwise(some)]
    return max(factors) / min(factors) < max(steps) / min(steps)


def planned(
    axes: Mapping[str, Sequence[Scalar] | Range],
    budget: int | None,
    within: float,
    sample: Sample | None,
) -> tuple[dict[str, Sequence[Scalar] | Range], Refine | None]:
    """Return the axes of a study with the first places of the one that is refined, and what is
    refined; None for no budget.

    It is the only range, or without a range the only list of two numbers or more; any other study
    is refused (A084).
    """
    if budget is None:
        return dict(axes), None
    lists = {
        n: v for n, v in axes.items() if not isinstance(v, Range) and len(v) > 1 and numeric(v)
    }
    ranges = {n: v for n, v in axes.items() if isinstance(v, Range)}
    names = list(ranges or lists)
    if len(names) != 1 or sample is not None:
        raise error_of("A084.refine", found=", ".join(names)[:60])
    name = names[0]
    if over := ranges.get(name):
        refine = Refine(name, over, budget, within)
        return {**axes, name: refine.first()}, refine
    values = [float(v) for v in lists[name]]
    over = Range(
        min(values),
        max(values),
        "log" if logarithmic(values) else "linear",
        all(isinstance(v, int) for v in lists[name]),
    )
    return dict(axes), Refine(name, over, budget, within)


def range_of(ends: tuple[Scalar, Scalar], spacing: Spacing, whole: bool) -> Range:
    """Return the range between two values of an axis; refuse what is none (A080)."""
    first, last = ends
    if (
        not isinstance(first, int | float)
        or not isinstance(last, int | float)
        or isinstance(first, bool)
        or first == last
    ):
        raise error_of("A080.range", found=clipped(f"{first} to {last}", 80))
    if spacing == "log" and not min(first, last) > 0:
        raise error_of("A080.logarithm", found=f"{first} to {last}")
    return Range(float(min(first, last)), float(max(first, last)), spacing, whole)


def read_range(name: str, text: str, setting: Setting) -> Range | None:
    """Return the range that a text names, as ``1us..100us log``; None for any other text.

    Raises
    ------
    UsageError : A080.  UnitError : U0xx.
    """
    first, dots, last = (part.strip() for part in text.partition(".."))
    if not (first and dots and last) or not setting.kinds & {"int", "float"}:
        return None
    # the last word is a spacing, or the unit of the number before it
    until, _, word = last.rpartition(" ")
    spaced = word in get_args(Spacing)
    spacing: Any = word if spaced else "linear"
    try:
        try:
            ends = setting.read(first), setting.read(until.strip() if spaced else last)
        except TurnbuckleError:
            if until and not spaced and word.isalpha():
                raise error_of("A080.spacing", found=clipped(word, 40)) from None
            raise
        return range_of(ends, spacing, "float" not in setting.kinds)
    except TurnbuckleError as error:
        error.where = error.where or f"--axis {name}"
        raise
