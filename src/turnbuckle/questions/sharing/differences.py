"""How a contended run time changes with a parameter: finite differences with common random numbers
(decision D18).

Runs that compete have no derivative: run time jumps where an order changes, and a faster part can
make the run longer.  What can be said is what a step does, and whether it does the same at other
steps and in runs a little different:

    forward   (T(x + h) - T(x)) / h          backward   (T(x) - T(x - h)) / h          central   (T(x + h) - T(x - h)) / (2 h)

Each run a little different (its compute scattered by a small log-normal) is asked on all sides, so
that what differs between the sides is the parameter alone.  The sign is stable if no step of any
run, to either side, goes the other way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.fields import Declared
from turnbuckle.replay.contention.contention import Program

Sign = Literal["rises", "falls", "no change", "not stable"]

#: Steps, as shares of where one stands.
STEPS: Final = (0.01, 0.03, 0.1)
#: Runs asked: the recorded one (0), and some a little different.
SEEDS: Final = (0, 1, 2, 3, 4)
#: Standard deviation of the logarithm of compute in those.
SPREAD: Final = 0.01
#: Change of run time, as a share of it, that is rounding: times are whole picoseconds, thousands of
#: them in a row.
_ROUNDING: Final = 1e-8


@dataclass(frozen=True)
class Difference(Declared):
    """Change of a run time with a parameter, at one value of it.

    Attributes
    ----------
    forward, backward, central : slopes [s a unit], shape (runs, steps); nan where the parameter
        cannot go.
    """

    at: float
    seconds: float
    steps: Float
    forward: Float
    backward: Float
    central: Float

    @property
    def slope(self) -> float:
        """Return the median of the central differences, or of the one-sided ones if one side cannot
        be [s a unit].
        """
        two = self.central[~np.isnan(self.central)]
        return float(np.median(two if len(two) else self.one_sided))

    @property
    def one_sided(self) -> Float:
        """Return all slopes to either side."""
        sides = np.concatenate([self.forward.reshape(-1), self.backward.reshape(-1)])
        slopes: Float = sides[~np.isnan(sides)]
        return slopes

    @property
    def interval(self) -> tuple[float, float]:
        """Return the smallest and the largest slope of any step to either side of any run [s a
        unit].
        """
        return float(self.one_sided.min()), float(self.one_sided.max())

    @property
    def elasticity(self) -> float:
        """Return per cent of run time for one per cent of the parameter; nan at 0."""
        return self.slope * self.at / self.seconds if self.at and self.seconds else math.nan

    @property
    def sign(self) -> Sign:
        """Return whether the run time rises or falls with the parameter, at every step and in every
        run.
        """
        rounding = (
            _ROUNDING
            * self.seconds
            / np.concatenate([np.broadcast_to(self.steps, self.forward.shape).reshape(-1)] * 2)
        )
        slopes = np.concatenate([self.forward.reshape(-1), self.backward.reshape(-1)])
        up, down = bool((slopes > rounding).any()), bool((slopes < -rounding).any())
        return "not stable" if up and down else "rises" if up else "falls" if down else "no change"


def differences(
    run: Callable[[float], float] | Sequence[Callable[[float], float]],
    at: float,
    steps: Sequence[float] = STEPS,
    *,
    unit: float | None = None,
    least: float = 0.0,
) -> Difference:
    """Return finite differences of a run time.

    Parameters
    ----------
    run : run time [s] at a value of the parameter; or several, the recorded run first and then runs
        a little different, each of which must give the same answer to the same value.
    at : where; `steps` to either side, as shares of `unit`, which is `at` unless said.
    least : the parameter cannot be below: what would be is left out.

    Raises
    ------
    UsageError : A095, steps that are none, or a value below the least.

    >>> found = differences(lambda x: x**2, 3.0)
    >>> round(found.slope, 6), found.sign
    (6.0, 'rises')
    >>> differences(lambda x: abs(x - 3.0), 3.0).sign
    'not stable'
    """
    asked = list(run) if isinstance(run, Sequence) else [run]
    size = abs(at) if unit is None else unit
    h = np.asarray(steps, dtype=np.float64) * size
    if (
        not len(h)
        or not len(asked)
        or not (np.isfinite(h).all() and (h > 0).all() and math.isfinite(at) and at >= least)
    ):
        raise error_of("A095", found=f"steps {list(steps)} of {size:g} at {at:g}"[:80])
    unchanged = np.array([replayed(at) for replayed in asked])[:, None]
    above = np.array([[replayed(at + float(d)) for d in h] for replayed in asked])
    below = np.array(
        [
            [replayed(at - float(d)) if at - float(d) >= least else math.nan for d in h]
            for replayed in asked
        ]
    )
    return Difference(
        at,
        float(unchanged[0, 0]),
        h,
        (above - unchanged) / h,
        (unchanged - below) / h,
        (above - below) / (2 * h),
    )


def scattered(program: Program, seed: int, spread: float = SPREAD) -> Program:
    """Return a program whose compute times are scattered: log-normal with median 1, the same for
    the same seed; 0 leaves it.
    """
    if seed == 0 or not len(program.work_seconds):
        return program
    factor = np.exp(spread * np.random.default_rng(seed).standard_normal(len(program.work_seconds)))
    factor[: len(program.overhead)][program.overhead] = 1.0
    return replace(program, work_seconds=program.work_seconds * factor)
