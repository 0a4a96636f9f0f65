"""Streams of jobs on hosts and pools of GPUs, placed one after the other by the native core."""

from __future__ import annotations

from typing import Any

import numpy as np

from turnbuckle._native import run_jobs as _run_jobs


def run_jobs(**given: Any) -> dict[str, Any]:
    """Run a stream of jobs, event by event.

    Parameters
    ----------
    given : of each job, shape (jobs,): arrival, work and limit [s] (float64), parts and class_of
        (uint32), and of each of its parts cores, gpus (thousandths) and memory (int64); of each
        host: pool (uint32), host_cores and host_memory (int64); of each pool: pool_gpus (uint32)
        and trunk [B/s] (float64); classes: slowdown, bandwidth [B/s], exposed and moving share of
        each; policy: order, backfill or any; depth: waiting jobs looked at behind the first; window
        [s] in which use is counted; patience: what all jobs together may wait [s].

    Returns
    -------
    start and end of each job [s]; gpu_seconds, core_seconds, stranded_gpu_seconds,
    stranded_core_seconds in the window; events, given_up.
    """
    out = _run_jobs(**given)
    return out | {name: np.frombuffer(out[name], dtype=np.float64) for name in ("start", "end")}
