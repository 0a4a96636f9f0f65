"""Simulation of a stream of jobs on a cluster, event by event.

The native core places the jobs (``crates/turnbuckle-core/src/jobs.rs``): in the order of
submission; behind a job that does not fit, jobs that do not delay it may start (EASY backfilling).
A part goes to the pool with the fewest free GPUs that has enough, there to the host with the fewest
free cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np

from turnbuckle.foundation.arrays import Bool, Float
from turnbuckle.questions.pool.fleet import Fleet
from turnbuckle.questions.pool.slowdown import Slowdown
from turnbuckle.questions.pool.stream import MILLI, Stream
from turnbuckle.replay.jobs import run_jobs

Policy = Literal["order", "backfill", "any"]
#: Waiting jobs that are looked at behind the first.
DEPTH: Final = 100
#: The first step away from what the draw before needed is so small a part of it.
_STEPS: Final = 256


@dataclass(frozen=True)
class Result:
    """Outcome of one simulation.

    Attributes
    ----------
    stream, window : the jobs, and the time in which use is counted [s].
    start, end : of each job [s]; nan where it never started.
    utilisation, core_utilisation : share of GPUs and cores in use, over the window.
    stranded, stranded_cores : share of them that was free while a job for GPUs, or any job, waited.
    waiting : mean time from submission to start [s]; infinite where the simulation was given up.
    gpu_seconds : GPUs in use times seconds, in the window; of jobs that stay, GPUs in use at last.
    unplaced : jobs that never started.
    events : submissions and ends.
    """

    stream: Stream
    window: tuple[float, float]
    start: Float
    end: Float
    utilisation: float
    core_utilisation: float
    stranded: float
    stranded_cores: float
    waiting: float
    gpu_seconds: float
    unplaced: int
    events: int

    # a search asks hundreds of simulations for their mean waiting time alone
    @cached_property
    def waiting_95(self) -> float:
        """Return the 95 % quantile of the time from submission to start [s]."""
        waited = (self.start - self.stream.arrival)[np.isfinite(self.start)]
        return float(np.quantile(waited, 0.95)) if waited.size else 0.0

    @cached_property
    def useful_gpus(self) -> float:
        """Return the GPUs that jobs would keep in use if they ran as on fixed nodes: throughput."""
        if self.stream.stays:
            return self.gpu_seconds
        length = self.window[1] - self.window[0]
        if not length > 0:
            return 0.0
        ran = np.isfinite(self.start) & np.isfinite(self.end) & (self.end > self.start)
        inside = np.clip(self.end[ran], *self.window) - np.clip(self.start[ran], *self.window)
        share = inside / (self.end[ran] - self.start[ran])
        gpus = (self.stream.parts * self.stream.gpus / MILLI)[ran]
        return float((gpus * self.stream.work[ran] * share).sum() / length)


def simulate(
    stream: Stream,
    fleet: Fleet,
    slowdowns: Sequence[Slowdown],
    end: Literal["value", "low", "high"] = "value",
    policy: Policy = "backfill",
    trunk: float | None = None,
    window: tuple[float, float] | None = None,
    patience: float = np.inf,
) -> Result:
    """Run a stream of jobs on a cluster.

    Parameters
    ----------
    slowdowns : of each class.
    end : which end of their ranges holds.
    trunk : bandwidth that the jobs of a pool have between them for each of its GPUs [B/s]; None
        where they never wait for it.
    window : time in which use is counted [s]; from the first submission to the last if left out.
    patience : what all jobs together may wait [s]; beyond it the simulation is given up, and
        waiting is infinite.
    """
    window = window or stream.window
    pools = (
        np.full(len(fleet.gpus), np.inf) if trunk is None else np.maximum(fleet.gpus * trunk, 1e-9)
    )
    jobs = {
        name: getattr(stream, name)
        for name in ("arrival", "work", "limit", "cores", "memory", "gpus")
    }
    jobs |= {name: getattr(stream, name).astype(np.uint32) for name in ("parts", "class_of")}
    hosts = {
        "host_cores": fleet.cores,
        "host_memory": fleet.memory,
        "pool": fleet.pool.astype(np.uint32),
        "trunk": pools,
    }
    asked: dict[str, Any] = {
        "policy": policy,
        "depth": DEPTH,
        "window": window,
        "patience": patience,
    }
    asked["classes"] = [(getattr(s, end), s.bandwidth, s.exposed, s.moving) for s in slowdowns]
    out = run_jobs(**jobs, **hosts, pool_gpus=fleet.gpus.astype(np.uint32), **asked)
    start = out["start"]
    length = window[1] - window[0]
    ran = np.isfinite(start)
    waited = (start - stream.arrival)[ran]
    gpus, cores = fleet.all_gpus * length, fleet.all_cores * length
    if stream.stays:
        out |= _staying(stream, fleet, ran)
        gpus, cores = fleet.all_gpus, fleet.all_cores
    return Result(
        stream=stream,
        window=window,
        start=start,
        end=out["end"],
        utilisation=out["gpu_seconds"] / gpus if gpus else 0.0,
        core_utilisation=out["core_seconds"] / cores if cores else 0.0,
        stranded=out["stranded_gpu_seconds"] / gpus if gpus else 0.0,
        stranded_cores=out["stranded_core_seconds"] / cores if cores else 0.0,
        waiting=np.inf if out["given_up"] else float(waited.mean()) if waited.size else 0.0,
        gpu_seconds=out["gpu_seconds"],
        unplaced=int((~ran).sum()),
        events=out["events"],
    )


def _staying(stream: Stream, fleet: Fleet, placed: Bool) -> dict[str, float]:
    """Return the GPUs and cores that jobs which stay hold at last, and those still free if jobs
    found no place; not times seconds.
    """
    gpus, cores = (
        (stream.parts * each / MILLI)[placed].sum() for each in (stream.gpus, stream.cores)
    )
    left, left_gpus = (~placed).any(), (~placed & (stream.gpus > 0)).any()
    return {
        "gpu_seconds": float(gpus),
        "core_seconds": float(cores),
        "stranded_gpu_seconds": float(fleet.all_gpus - gpus) if left_gpus else 0.0,
        "stranded_core_seconds": float(fleet.all_cores - cores) if left else 0.0,
    }


def by_class(result: Result) -> list[tuple[float, float]]:
    """Return the mean slowdown (run time over that on fixed nodes) and the mean waiting time [s] of
    each class.
    """
    stream, out = result.stream, []
    for k in range(len(stream.classes)):
        ran = (stream.class_of == k) & np.isfinite(result.end)
        took = (result.end - result.start)[ran]
        work, waited = stream.work[ran], (result.start - stream.arrival)[ran]
        out.append((float((took / work).mean()), float(waited.mean())) if ran.any() else (1.0, 0.0))
    return out


def fewest_enough(most: int, enough: Callable[[int], bool], near: int | None = None) -> int:
    """Return the smallest count from 1 to `most` that is enough, by bisection; `most` is taken to
    be enough.

    Parameters
    ----------
    near : a count to begin at, from which steps double until they are past the answer.

    >>> [fewest_enough(100, lambda n: n >= 37, near) for near in (None, 40, 12)]
    [37, 37, 37]
    """
    low, high = 0, most
    if near is not None and low < near < high:
        step = max(1, near // _STEPS)
        falls = enough(near)
        low, high = (low, near) if falls else (near, high)
        while high - low > step:
            probe = high - step if falls else low + step
            if enough(probe) == falls:
                low, high, step = (low, probe, 2 * step) if falls else (probe, high, 2 * step)
            else:
                low, high = (probe, high) if falls else (low, probe)
                break
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high
