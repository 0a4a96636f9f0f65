"""Run a stream of jobs on a cluster, event by event, and say what it came to.

The native core places the jobs (``crates/turnbuckle-core/src/jobs.rs``): in the order of submission; behind a job that does not fit,
whoever does not delay it may start (EASY backfilling).  A part goes to the pool with the fewest free GPUs that has enough, there to the
host with the fewest free cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Result:
    """What one simulation came to.

    Attributes
    ----------
    start, end : of each job [s]; nan where it never started.
    utilisation, core_utilisation : share of GPUs and cores in use, over the window.
    stranded, stranded_cores : share of them that was free while a job for GPUs, or any job, waited.
    waiting, waiting_95 : mean and 95 % quantile of the time from submission to start [s].
    useful_gpus : GPUs that jobs would keep in use if they ran as on fixed nodes: throughput.
    unplaced : jobs that never started.
    events : submissions and ends.
    """

    start: Float
    end: Float
    utilisation: float
    core_utilisation: float
    stranded: float
    stranded_cores: float
    waiting: float
    waiting_95: float
    useful_gpus: float
    unplaced: int
    events: int


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
    trunk : bandwidth that the jobs of a pool have between them for each of its GPUs [B/s]; None where they never wait for it.
    window : time in which use is counted [s]; from the first submission to the last if left out.
    patience : what all jobs together may wait [s]; beyond it the simulation is given up, and waiting is infinite.
    """
    window = window or stream.window
    pools = np.full(len(fleet.gpus), np.inf) if trunk is None else np.maximum(fleet.gpus * trunk, 1e-9)
    jobs = {name: getattr(stream, name) for name in ("arrival", "work", "limit", "cores", "memory", "gpus")}
    jobs |= {name: getattr(stream, name).astype(np.uint32) for name in ("parts", "class_of")}
    hosts = {"host_cores": fleet.cores, "host_memory": fleet.memory, "pool": fleet.pool.astype(np.uint32), "trunk": pools}
    asked: dict[str, Any] = {"policy": policy, "depth": DEPTH, "window": window, "patience": patience}
    asked["classes"] = [(getattr(s, end), s.bandwidth, s.exposed, s.moving) for s in slowdowns]
    out = run_jobs(**jobs, **hosts, pool_gpus=fleet.gpus.astype(np.uint32), **asked)
    start, ended = out["start"], out["end"]
    length = window[1] - window[0]
    ran = np.isfinite(start)
    waited = (start - stream.arrival)[ran]
    gpus, cores = fleet.all_gpus * length, fleet.all_cores * length
    if not np.isfinite(stream.work).all():
        out |= _staying(stream, fleet, ran)
        gpus, cores = fleet.all_gpus, fleet.all_cores
    return Result(
        start=start,
        end=ended,
        utilisation=out["gpu_seconds"] / gpus if gpus else 0.0,
        core_utilisation=out["core_seconds"] / cores if cores else 0.0,
        stranded=out["stranded_gpu_seconds"] / gpus if gpus else 0.0,
        stranded_cores=out["stranded_core_seconds"] / cores if cores else 0.0,
        waiting=np.inf if out["given_up"] else float(waited.mean()) if waited.size else 0.0,
        waiting_95=float(np.quantile(waited, 0.95)) if waited.size else 0.0,
        useful_gpus=_useful(stream, start, ended, window) if np.isfinite(stream.work).all() else out["gpu_seconds"],
        unplaced=int((~ran).sum()),
        events=out["events"],
    )


def _staying(stream: Stream, fleet: Fleet, placed: Bool) -> dict[str, float]:
    """Return what is in use at last where jobs stay, and what is free while jobs are left over: GPUs and cores, not times seconds."""
    gpus, cores = ((stream.parts * each / MILLI)[placed].sum() for each in (stream.gpus, stream.cores))
    left, left_gpus = (~placed).any(), (~placed & (stream.gpus > 0)).any()
    return {
        "gpu_seconds": float(gpus),
        "core_seconds": float(cores),
        "stranded_gpu_seconds": float(fleet.all_gpus - gpus) if left_gpus else 0.0,
        "stranded_core_seconds": float(fleet.all_cores - cores) if left else 0.0,
    }


def _useful(stream: Stream, start: Float, end: Float, window: tuple[float, float]) -> float:
    """Return the work done in the window, in GPUs kept in use on fixed nodes."""
    length = window[1] - window[0]
    if not length > 0:
        return 0.0
    ran = np.isfinite(start) & np.isfinite(end) & (end > start)
    inside = np.clip(end[ran], *window) - np.clip(start[ran], *window)
    share = inside / (end[ran] - start[ran])
    gpus = (stream.parts * stream.gpus / MILLI)[ran]
    return float((gpus * stream.work[ran] * share).sum() / length)


def by_class(stream: Stream, result: Result) -> list[tuple[float, float]]:
    """Return the mean slowdown (run time over that on fixed nodes) and the mean waiting time [s] of each class."""
    out = []
    for k in range(len(stream.classes)):
        mine = (stream.class_of == k) & np.isfinite(result.end)
        took = (result.end - result.start)[mine]
        work, waited = stream.work[mine], (result.start - stream.arrival)[mine]
        out.append((float((took / work).mean()), float(waited.mean())) if mine.any() else (1.0, 0.0))
    return out
