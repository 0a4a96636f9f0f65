"""Durations that scale: t / lambda, and work over a rate.

`lambda > 1` always means better hardware; `lambda = 0.1` is a tenfold disaggregation.

    scaled_seconds(seconds, improvement)                      t / lambda
    fraction_benefit(share, improvement)                      b = 1 / (1 - f (1 - 1/lambda)), from a share of run time alone
    fraction_penalty(share, worsening)                        p = 1 + f (w - 1), w = 1 / lambda
    tied_penalty(benefit, improvement)                        the penalty that a benefit implies: w and lambda the same number
    cpu_by_difference(total, gpu, control, data, mpi)         t_CPU as the report defines it
    AdditiveTotals(gpu, control, data, cpu, mpi, total)       eqs 3 and 4: summed, closure_defect, projected(...), projected_by(...),
                                                              benefit(lambdas, over=...), penalty(lambdas, over=...)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from turnbuckle.foundation.arrays import Float


def scaled_seconds(seconds: Float, improvement: Float | float) -> Float:
    """Return the time on hardware that is `improvement` (lambda or alpha) times better [s].

    >>> float(scaled_seconds(np.array([5.1]), 5.1)[0])
    1.0
    """
    return np.asarray(seconds / improvement)


def fraction_benefit(share: Float | float, improvement: Float | float) -> Float:
    """Return run time now over run time with a share of it `improvement` times faster: 1 / (1 - f
    (1 - 1/lambda)).

    The AMReX rows of Austin et al. 2021, Table 2, use this form, because they state shares of run
    time only.

    Parameters
    ----------
    share : f, share of the run time, in [0, 1]; shares of several classes with one lambda add up.
    improvement : lambda > 0; infinity leaves the other 1 - f.

    >>> round(float(fraction_benefit(0.53, 10)), 2)
    1.91
    """
    f = np.asarray(share, dtype=np.float64)
    with np.errstate(divide="ignore"):  # nothing is left of a whole run that is infinitely faster
        return np.asarray(1.0 / (1.0 - f + f / np.asarray(improvement, dtype=np.float64)))


def fraction_penalty(share: Float | float, worsening: Float | float) -> Float:
    """Return run time with a share of it `worsening` times slower, over run time now: 1 + f (w - 1)
    (Austin et al. 2021, Table 11).

    Parameters
    ----------
    share : f, share of the run time, in [0, 1].
    worsening : w = 1 / lambda, above 0.

    >>> round(float(fraction_penalty(0.2208, 10)), 2)
    2.99
    """
    return np.asarray(1.0 + np.asarray(share) * (np.asarray(worsening, dtype=np.float64) - 1.0))


def tied_penalty(benefit: Float | float, improvement: Float | float = 10.0) -> Float:
    """Return the penalty that goes with a benefit, where the same terms get lambda times better or
    worse: 1 + lambda (1 - 1/b).

    Both stay below lambda.  A table with both columns holds one independent number, not two.

    >>> round(float(tied_penalty(fraction_benefit(0.53, 10))), 2)
    5.77
    """
    return np.asarray(1.0 + improvement * (1.0 - 1.0 / np.asarray(benefit, dtype=np.float64)))


def cpu_by_difference(total: float, gpu: float, control: float, data: float, mpi: float) -> float:
    """Return t_CPU as Austin et al. 2021, section 4.2, define it: the run time that no other term
    explains [s].

    The result is negative where the other terms count waits twice.

    >>> round(cpu_by_difference(50.5, 16.79, 22.10, 5.05, 0.66), 2)
    5.9
    """
    return total - gpu - control - data - mpi


@dataclass(frozen=True)
class AdditiveTotals:
    """The five numbers of the additive model, as given (Austin et al. 2021, eqs 3 and 4) [s].

    The printed terms need not add up to the run time; `closure_defect` is the difference (they
    count waits twice).

    Attributes
    ----------
    gpu, control, data, cpu, mpi : the five terms [s].
    total : the stated run time [s]; None where none is stated.
    waits : part of `control` in which the host waits for the device [s].  It has no lambda.
        Because the device's work counts as `gpu` and `data`, waits are not part of the projected
        time.
    calls : other parts of `control` by class of host call, which may have their own lambdas [s].
    """

    gpu: float
    control: float
    data: float
    cpu: float
    mpi: float
    total: float | None = None
    waits: float = 0.0
    calls: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def by_difference(
        cls,
        *,
        gpu: float,
        control: float,
        data: float,
        mpi: float,
        total: float,
        waits: float = 0.0,
        calls: Mapping[str, float] | None = None,
        without_waits: bool = False,
    ) -> AdditiveTotals:
        """Return the terms with t_CPU as the run time that the others leave; 0 where they exceed
        it, which `closure_defect` then shows.

        Parameters
        ----------
        waits : part of `control` that waits for the device [s].  The report scales it like the rest
            of control.
        without_waits : whether waits are removed from `control`, so that they count once, as the
            work that they wait for.

        >>> AdditiveTotals.by_difference(gpu=6.0, control=5.0, data=1.0, mpi=0.0, total=10.0).closure_defect
        -2.0
        >>> AdditiveTotals.by_difference(gpu=6.0, control=5.0, data=1.0, mpi=0.0, total=10.0, waits=4.0, without_waits=True).cpu
        2.0
        """
        control -= waits if without_waits else 0.0
        cpu = max(cpu_by_difference(total, gpu, control, data, mpi), 0.0)
        return cls(gpu, control, data, cpu, mpi, total, calls=calls or {})

    @property
    def summed(self) -> float:
        """Return the sum of the five terms (eq 3) [s]."""
        return self.gpu + self.control + self.data + self.cpu + self.mpi

    @property
    def counted(self) -> float:
        """Return the sum with waits counted once, as the work that they wait for [s]; `summed`
        where no waits are known.
        """
        return self.summed - self.waits

    @property
    def closure_defect(self) -> float | None:
        """Return the stated total minus the sum [s]; None without a stated total."""
        return None if self.total is None else self.total - self.summed

    def projected(self, lambda_data: float, lambda_control: float) -> float:
        """Evaluate equation 4: t_CPU + t_GPU + t_MPI + t_data / lambda_data + t_control /
        lambda_control [s].

        >>> sigma = AdditiveTotals(gpu=12.48, control=13.52, data=0.90, cpu=0.19, mpi=0.12)
        >>> round(sigma.summed / sigma.projected(10, 10), 1)
        1.9
        """
        return self.projected_by({"data": lambda_data, "control": lambda_control})

    def projected_by(self, lambdas: Mapping[str, float]) -> float:
        """Evaluate equation 4 with a lambda for every class: ``data``, ``kernel``, ``control`` or
        any of `calls` [s].

        A class of `calls` without its own lambda takes that of ``control``; classes that are not
        named keep their time.
        """
        control = lambdas.get("control", 1.0)
        rest = self.control - self.waits - sum(self.calls.values())
        named = sum(t / lambdas.get(name, control) for name, t in self.calls.items())
        kernels = self.gpu / lambdas.get("kernel", 1.0)
        return (
            kernels
            + self.cpu
            + self.mpi
            + self.data / lambdas.get("data", 1.0)
            + rest / control
            + named
        )

    def benefit(
        self, lambdas: Mapping[str, float], over: Literal["sum", "stated"] = "sum"
    ) -> float:
        """Return run time now over run time then.

        Parameters
        ----------
        over : run time of now: ``"sum"`` takes the sum of the terms; ``"stated"`` takes the stated
            total, less the savings of the terms that scale: total / (total - saved).  Both agree
            where the terms add up.

        Returns
        -------
        The ratio; nan where there is no stated total or no time, infinity where nothing is left.

        >>> epsilon = AdditiveTotals(gpu=16.79, control=22.10, data=5.05, cpu=6.54, mpi=0.66, total=50.5)
        >>> ten = {"data": 10, "control": 10}
        >>> [round(epsilon.benefit(ten, over), 2) for over in ("sum", "stated")]
        [1.91, 1.94]
        """
        now, then = self._now_and_then(lambdas, over)
        if math.isnan(now) or not now:
            return math.nan
        return now / then if then > 0 else math.inf

    def penalty(
        self, lambdas: Mapping[str, float], over: Literal["sum", "stated"] = "sum"
    ) -> float:
        """Return run time then over run time now; see `benefit`.

        >>> epsilon = AdditiveTotals(gpu=16.79, control=22.10, data=5.05, cpu=6.54, mpi=0.66, total=50.5)
        >>> tenth = {"data": 0.1, "control": 0.1}
        >>> [round(epsilon.penalty(tenth, over), 2) for over in ("sum", "stated")]
        [5.78, 5.84]
        """
        now, then = self._now_and_then(lambdas, over)
        return then / now if now else math.nan

    def _now_and_then(
        self, lambdas: Mapping[str, float], over: Literal["sum", "stated"]
    ) -> tuple[float, float]:
        now = self.counted if over == "sum" else (math.nan if self.total is None else self.total)
        return now, now - (self.counted - self.projected_by(lambdas))
