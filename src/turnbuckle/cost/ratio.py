"""Durations that scale: t / lambda, and work over a rate.

`lambda > 1` always means better hardware; `lambda = 0.1` is a tenfold disaggregation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


def scaled_seconds(seconds: Float, improvement: Float | float) -> Float:
    """Time on hardware that is `improvement` (lambda or alpha) times better [s].

    >>> float(scaled_seconds(np.array([5.1]), 5.1)[0])
    1.0
    """
    return np.asarray(seconds / improvement)


@dataclass(frozen=True)
class AdditiveTotals:
    """The five numbers of the additive model, as given (Austin et al. 2021, eqs 3 and 4) [s].

    The printed terms need not add up to the run time; `closure_defect` says by how much (waits are
    counted twice there).
    """

    gpu: float
    control: float
    data: float
    cpu: float
    mpi: float
    total: float | None = None

    @property
    def summed(self) -> float:
        """Sum of the five terms [s]."""
        return self.gpu + self.control + self.data + self.cpu + self.mpi

    @property
    def closure_defect(self) -> float | None:
        """Stated total minus the sum [s]; None without a stated total."""
        return None if self.total is None else self.total - self.summed

    def projected(self, lambda_data: float, lambda_control: float) -> float:
        """Equation 4: t_CPU + t_GPU + t_MPI + t_data / lambda_data + t_control / lambda_control [s].

        >>> sigma = AdditiveTotals(gpu=12.48, control=13.52, data=0.90, cpu=0.19, mpi=0.12)
        >>> round(sigma.summed / sigma.projected(10, 10), 1)
        1.9
        """
        return self.gpu + self.cpu + self.mpi + self.data / lambda_data + self.control / lambda_control
