"""Whether GPUDirect helps: one gain, and its range over what no recording and no network file
states.

The gain of communication is asked again with each cost that is not known at either end of what it
may be (decision D26).  What the user states is not varied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from turnbuckle.foundation.fields import Declared, Ranged
from turnbuckle.mpi.questions.gpudirect.cost import PHYSICS
from turnbuckle.mpi.questions.messages.setup import Setup
from turnbuckle.projection.elsewhere.priors import COPY_LATENCY_SD, NODE_SHARE, half_normal
from turnbuckle.questions.sweep.summary import gain_word

#: Ends of a 90 % range in standard deviations.
_REACH: Final = 1.6448536269514722
#: Largest messages that leave device memory at once by UCX, and the chunks in which libraries cut
#: copies (UCX, MVAPICH2: 64 KiB) [B].
EAGER_OF_DEVICES: Final = 8192.0
CHUNK: Final = 65536.0
#: Runs of more messages are answered as set, without the range.
MOST_MESSAGES: Final = 200_000


@dataclass(frozen=True)
class Point(Declared):
    """Gain of communication with one cost changed."""

    name: str
    gain: float


@dataclass(frozen=True)
class Verdict(Ranged, Declared):
    """Answer to whether GPUDirect helps."""

    word: str
    ranks_per_node: int
    gain: float
    low: float
    high: float
    points: tuple[Point, ...] = ()
    decides: str = ""
    sentence: str = ""

    @property
    def reach(self) -> str:
        """Return the range in words; empty where nothing was varied."""
        if not self.points:
            return ""
        return (
            f"; the gain of communication lies between {self.low:+.1%} and {self.high:+.1%} over "
            "costs that nothing states"
        )


def variants(setup: Setup) -> dict[str, Setup]:
    """Return the setups in which one unknown cost is at an end of its range, by name, with both
    presets among them.
    """
    if not setup.paid.copies:
        return {}
    plain = Setup()
    free = {name: getattr(setup, name) == getattr(plain, name) for name in setup.as_dict()}
    out: dict[str, Setup] = {}
    unpriced = all(
        free[name] for name in ("copy_seconds", "copy_bandwidth", "pin_seconds", "pinned")
    )
    for costs in ("physics", "seed_G"):
        if unpriced and costs != setup.costs:
            out[f"costs {costs}"] = replace(setup, costs=costs)
    paid = setup.paid
    if free["copy_seconds"] and free["copy_bandwidth"]:
        late, slow = (
            math.exp(_REACH * COPY_LATENCY_SD),
            float(half_normal(np.asarray(_REACH), NODE_SHARE)),
        )
        for word, factor, slower in (("dearer", late, slow), ("cheaper", 1.0 / late, 1.0)):
            changed: dict[str, Any] = {
                "copy_seconds": paid.copy_latency * factor,
                "copy_bandwidth": 1.0 / (paid.copy_per_byte * slower),
            }
            out[f"host copies {word}"] = replace(setup, **changed)
    if free["pinned"]:
        out["memory pinned for each message"] = replace(setup, pinned="each")
        out["memory never pinned"] = replace(setup, pinned="never")
    if free["device_eager_limit_bytes"]:
        out["small messages leave device memory at once"] = replace(
            setup, device_eager_limit_bytes=EAGER_OF_DEVICES
        )
    if free["chunk_bytes"]:
        out["copies in chunks of 64 KiB"] = replace(setup, chunk_bytes=CHUNK)
    return out


def points(setup: Setup, messages: int, gain: Callable[[Setup], float]) -> tuple[Point, ...]:
    """Return the gain with each unknown cost changed; nothing for a run of too many messages."""
    if messages > MOST_MESSAGES:
        return ()
    asked = ((name, gain(changed)) for name, changed in variants(setup).items())
    return tuple(Point(name, value) for name, value in asked if not math.isnan(value))


def of_run_times(host: float, direct: Callable[[float], float]) -> Verdict:
    """Return whether GPUDirect helps a run whose staging copies were recorded, by its run time.

    Parameters
    ----------
    host : run time with its copies [s].
    direct : run time without them, for a time of pinning memory for each message [s].

    What the copies cost is recorded.  Not stated is how often memory is pinned: never again once it
    was, as `physics` has it, or for each message.
    """

    def gain(pin_seconds: float) -> float:
        seconds = direct(pin_seconds)
        return host / seconds - 1.0 if seconds > 0 else 0.0

    plain, around = gain(0.0), (Point("memory pinned for each message", gain(PHYSICS.pin_seconds)),)
    word, low, high, decides = decided(plain, around)
    return Verdict(word, 0, plain, low, high, around, decides)


def decided(gain: float, around: Sequence[Point]) -> tuple[str, float, float, str]:
    """Return the word, the range of the gain, and the point that moves it most.

    >>> decided(0.2, [Point("copies cheaper", 0.05), Point("pinned", -0.3)])
    ('undecided', -0.3, 0.2, 'pinned')
    >>> decided(0.2, [])[0]
    'helps'
    """
    gains = [gain, *(p.gain for p in around)]
    low, high = min(gains), max(gains)
    farthest = max(around, key=lambda p: abs(p.gain - gain), default=None)
    decides = "" if farthest is None or farthest.gain == gain else farthest.name
    return gain_word(low, high), low, high, decides
