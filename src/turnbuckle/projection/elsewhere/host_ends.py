"""What an answer is at both ends of what is known of the target's host, where it hangs on that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.projection.elsewhere.hosts import HostWork

#: Share of the run time by which the speed of a host must move an answer for both of its ends to be told: the line of a verdict.
HANGS: Final = 0.05
#: Ends of a range that lie about as far from 1 as each other: the slower one is told.
_ALIKE: Final = 0.9
_TAILS: Final = (0.05, 0.95)
_WORK: Final[Mapping[HostWork, str]] = {"framework": "a framework's work", "code": "compiled code", "driver": "calls"}


def hanging_on_host(
    seconds: Callable[[float, float], float], taken: float, hosts: tuple[Float, Float], name: str, work: HostWork
) -> list[Finding]:
    """Return finding A396 where the speed of the target's host moves the answer by more than `HANGS`: the run times at both of its ends.

    Parameters
    ----------
    seconds : projected over recorded run time, by how many times longer the host takes for the program's own work, and for calls.
    taken : how many times longer the answer takes it to be for the program's own work.
    hosts : draws of both.
    name, work : of the host, empty where none is named, and the kind of the program's own work.
    """
    far = [_farther(longer) for longer in hosts]
    ends = seconds(1.0, 1.0), seconds(*far)
    if abs(ends[1] - ends[0]) < HANGS:
        return []
    name = name or "the target's host"
    middle = f"{name} taken as {taken:.2f} times as long at {_WORK[work]}"
    slow = f"{ends[1]:.3f} if it took {far[0]:.2f} times as long, and {far[1]:.2f} at calls"
    return [finding("A396", 1, f"{middle}; {ends[0]:.3f} times the recorded run time if {name} were as fast, {slow}")]


def _farther(longer: Float) -> float:
    """Return the end of a 90 % range of ratios that lies farther from 1."""
    low, high = np.quantile(longer, _TAILS).tolist()
    return float(high if np.log(high) >= -_ALIKE * np.log(low) else low)
