"""Distance as a delay of calls: every host call that crosses to the device returns `s` later.

This is how Shorts and Grant (SC24-W) insert it and how API remoting behaves; a fabric that carries loads and stores
behaves otherwise (`loggp`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


def slack_seconds(crosses: NDArray[np.bool_], slack: Float | float) -> Float:
    """Delay of each call [s]: `slack` where it crosses the host-device boundary, else 0.

    >>> slack_seconds(np.array([True, False]), 1e-6).tolist()
    [1e-06, 0.0]
    """
    return np.where(crosses, slack, 0.0)
