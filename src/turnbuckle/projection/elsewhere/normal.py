"""The normal distribution for arrays of draws.

SciPy has it as well, and takes longer to load than a small recording takes to project.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float

_ROOT_HALF: Final = math.sqrt(0.5)
_upper = np.frompyfunc(math.erfc, 1, 1)
_quantile = np.frompyfunc(NormalDist().inv_cdf, 1, 1)


def below(z: Float | float) -> Float:
    """Return the share of a standard normal distribution that lies below `z`.

    >>> below(np.array([-1.0, 0.0, 1.0])).round(4).tolist()
    [0.1587, 0.5, 0.8413]
    """
    return np.asarray(_upper(np.negative(z) * _ROOT_HALF), dtype=np.float64) * 0.5


def quantile(share: Float | float) -> Float:
    """Return the value below which a share of a standard normal distribution lies; the inverse of `below`, shares between 0 and 1.

    >>> quantile(np.array([0.5, 0.95])).round(3).tolist()
    [0.0, 1.645]
    """
    return np.asarray(_quantile(share), dtype=np.float64)
