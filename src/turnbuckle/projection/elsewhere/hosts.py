"""How many times longer another host takes, by kind of work: what machines state of their hosts,
and priors for what they do not.

    framework   an interpreter and a framework between two calls      the host work of a run in which one is recognised
    driver      calls of the GPU's runtime that nothing else prices
    code        compiled code of the application                      the host work of every other run

Speeds are relative to one processor, an Intel Xeon Platinum 8480C.  A host of which nothing is
known is taken for an x86 server of its time, whatever the target is: one source has one ratio to
every machine with one host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.foundation.findings import Finding, finding
from turnbuckle.machine import Pair
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.projection.elsewhere.priors import Draws, half_normal, other_host
from turnbuckle.trace.trace import Trace

if TYPE_CHECKING:
    from turnbuckle.projection.model import Priced

HostWork = Literal["framework", "driver", "code"]

#: Relative error (log-sd) of what another host of the same instruction set takes for the program's
#: own work and for calls that nothing prices: processors of one time differ by about as much, and
#: two runs of one configuration differ by 13 % (docs/accuracy).
HOST_ERROR: Final = 0.15
#: Two nodes with one host (log-sd): a framework took 37.08 us on the Grace of a GB200 and 33.17 us
#: on that of a GH200 (the same issue).
SAME_HOST: Final = 0.11
#: Hosts of Arm and Power against x86 (log-sd of the half-normal by which they take longer): 95 of
#: 100 within 2.75, the larger of the two that were measured (a framework's CPU time on Grace, 2.46
#: and 2.75 times that of a Xeon 8480C: NVIDIA/TransformerEngine issue 2053); compiled codes were
#: about as fast (The Next Platform, 2024-02-06).
OTHER_SET: Final = 0.516

#: Share of the run time by which the speed of a host must move an answer for both of its ends to be
#: told: the line of a verdict.
HANGS: Final = 0.05
#: Ends of a range that lie about as far from 1 as each other: the slower one is told.
_ALIKE: Final = 0.9
_TAILS: Final = (0.05, 0.95)
_WORK: Final[Mapping[HostWork, str]] = {
    "framework": "a framework's work",
    "code": "compiled code",
    "driver": "calls",
}

#: Names among the drivers.
HOST_SPEED: Final = "host of the other machine"
HOST_LOOP: Final = "the program's work against the loop that both hosts were timed with"
INSTRUCTIONS: Final = "instruction set of the other machine's host"

#: Names of kernels, ranges and calls that a framework of Python leaves in a recording.
_FRAMEWORK: Final = r"(?i)at::native|aten::|\btorch|triton_|tensorflow|\bxla\b|jax_|cupy"
_SPEEDS: Final[dict[HostWork, ParameterName]] = {
    "framework": "host.framework",
    "driver": "host.driver",
    "code": "host.code",
}
SPEEDS: Final[tuple[ParameterName, ...]] = ("host.speed", *_SPEEDS.values())


def work_between_calls(trace: Trace) -> HostWork:
    """Return the kind of the host's work between calls: a framework's where the recording shows
    one, else the application's own code.
    """
    if trace.facts.get("format") in ("kineto", "chakra"):
        return "framework"
    return "framework" if trace.names.str.contains(_FRAMEWORK).any() else "code"


def host_longer(
    pair: Pair,
    target: Priced,
    source: Priced,
    draws: Draws,
    given: float | None = None,
    work: HostWork = "code",
) -> Float | None:
    """Return how many times longer the target's host takes for the same work; None where it is the
    source's host.

    Parameters
    ----------
    pair, target, source : as stated, and as values or draws.
    draws : of what neither machine states.
    given : how many times faster the target's host is, as the user states it; it has no error.
    work : its kind.
    """
    if given is not None:
        return np.asarray(1.0 / given)
    before, after = (_stated(machine, work) for machine in (source, target))
    if not other_host(pair):
        changed = any(change.parameter in SPEEDS for change in pair.target.changes)
        return (
            np.asarray(before / after)
            if changed and before is not None and after is not None
            else None
        )
    declared = source.value("host.speed") is not None and target.value("host.speed") is not None
    loops = source.value("host.loop"), target.value("host.loop")
    if not declared and loops[0] is not None and loops[1] is not None:
        return np.asarray(loops[1] / loops[0] * np.exp(HOST_ERROR * draws.of(HOST_LOOP)))
    if not declared and pair.source.host and pair.source.host == pair.target.host:
        return np.asarray(np.exp(SAME_HOST * draws.of(HOST_SPEED)))
    if before is not None and after is not None:
        return np.asarray(before / after)
    longer = np.exp(HOST_ERROR * draws.of(HOST_SPEED))
    sets = [machine.instruction_set for machine in (pair.source, pair.target)]
    if before is None and after is None and ("x86" not in sets or sets[0] == sets[1]):
        apart = len(set(sets)) > 1 and "" not in sets
        return np.asarray(longer * np.exp(OTHER_SET * draws.of(INSTRUCTIONS)) if apart else longer)
    speeds = [
        _prior(s, draws) if speed is None else speed
        for speed, s in zip((before, after), sets, strict=True)
    ]
    return np.asarray(longer * speeds[0] / speeds[1])


def _stated(machine: Priced, work: HostWork) -> Float | float | None:
    """Return the speed of a machine's host at a kind of work; of one that states a speed at any
    work, that.
    """
    speed = machine.value("host.speed")
    return machine.value(_SPEEDS[work]) if speed is None else speed


def _prior(instructions: str, draws: Draws) -> Float:
    """Return the speed of a host of which its instruction set alone is known: x86 runs the code
    between calls at least as fast.
    """
    if instructions in ("", "x86"):
        return np.ones(())
    return np.asarray(1.0 / half_normal(draws.of(INSTRUCTIONS), OTHER_SET))


def ends_by_host(
    seconds: Callable[[float, float], Float], hosts: tuple[Float, Float]
) -> tuple[Float, Float, Bool]:
    """Return the answers at both ends of the speed of the target's host, and whether they lie
    `HANGS` apart: as fast, and the far end.

    Parameters
    ----------
    seconds, hosts : as in `hanging_on_host`.
    """
    fast, far = seconds(1.0, 1.0), seconds(*(_farther(longer) for longer in hosts))
    return fast, far, np.asarray(np.abs(far - fast) >= HANGS)


def hanging_on_host(
    seconds: Callable[[float, float], Float],
    taken: float,
    hosts: tuple[Float, Float],
    name: str,
    work: HostWork,
) -> list[Finding]:
    """Return finding A396 where the speed of the target's host moves the answer by more than
    `HANGS`: the run times at both of its ends.

    Parameters
    ----------
    seconds : projected over recorded run time, by how many times longer the host takes for the
        program's own work, and for calls.
    taken : how many times longer the answer takes it to be for the program's own work.
    hosts : draws of both.
    name, work : of the host, empty where none is named, and the kind of the program's own work.
    """
    *both, hangs = ends_by_host(seconds, hosts)
    if not hangs.any():
        return []
    far = [_farther(longer) for longer in hosts]
    ends = [float(np.squeeze(end)) for end in both]
    name = name or "the target's host"
    middle = f"{name} taken as {taken:.2f} times as long at {_WORK[work]}"
    slow = f"{ends[1]:.3f} if it took {far[0]:.2f} times as long, and {far[1]:.2f} at calls"
    return [
        finding(
            "A396",
            1,
            f"{middle}; {ends[0]:.3f} times the recorded run time if {name} were as fast, {slow}",
        )
    ]


def _farther(longer: Float) -> float:
    """Return the end of a 90 % range of ratios that lies farther from 1."""
    low, high = np.quantile(longer, _TAILS).tolist()
    return float(high if np.log(high) >= -_ALIKE * np.log(low) else low)
