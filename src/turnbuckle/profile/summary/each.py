"""Where the time of each rank and of each GPU goes: a union over several hides that one waits while
another computes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import filled
from turnbuckle.profile.classify import CATEGORIES
from turnbuckle.profile.messages.nccl import collectives
from turnbuckle.profile.profile import Profile, device_busy
from turnbuckle.profile.summary import summary
from turnbuckle.trace.ids import MOST_THREADS, process_number, process_of
from turnbuckle.trace.intervals import covered_ns, merge, union_ns

_NONE: Final = -1
#: Categories in the order in which they claim an instant; the rest of a rank's time is its host's
#: own work.
_CLAIMS: Final = CATEGORIES[: CATEGORIES.index("cpu")]


def ranks(profile: Profile) -> list[dict[str, Any]]:
    """Return where the run time of each rank goes; empty where fewer than two processes use a
    device or MPI.

    Returns
    -------
    For each: ``process`` (its number), ``rank`` (None where it is not recorded), ``categories_ns``,
    which add up to the run time: each instant belongs to the first category of which the rank has
    an activity.
    """
    # asked for by tables, figures and sentences alike
    if "_ranks" not in profile.__dict__:
        profile.__dict__["_ranks"] = _ranks(profile)
    rows: list[dict[str, Any]] = profile.__dict__["_ranks"]
    return rows


def _ranks(profile: Profile) -> list[dict[str, Any]]:
    rows = profile.activities.filter(pl.col("kind") != "gap")
    process = filled(profile.tracks.sort("track")["process"], _NONE)[rows["track"].to_numpy()]
    category = rows["category"].cast(pl.String).to_numpy()
    at_work = np.unique(process[np.isin(category, ("kernel", "copy", "mpi")) & (process != _NONE)])
    if len(at_work) < 2:
        return []
    start = rows["start_ns"].to_numpy()
    # a call that finds its device idle lasts until its work begins
    reach = np.maximum(
        rows["end_ns"].to_numpy(), filled(rows["delivered_ns"], np.iinfo(np.int64).min)
    )
    order = np.argsort(process, kind="stable")
    bounds = np.searchsorted(process[order], [at_work, at_work + 1])
    of_process = _rank_numbers(profile)
    out = []
    for owner, first, last in zip(at_work.tolist(), *bounds, strict=True):
        own = order[first:last]
        spent, claimed = {}, np.zeros(len(own), dtype=np.bool_)
        before = 0
        for name in _CLAIMS:
            claimed |= category[own] == name
            covered = union_ns(start[own][claimed], reach[own][claimed])
            spent[name], before = covered - before, covered
        spent["cpu"] = profile.run_time_ns - before
        out.append({"process": _pid(owner), "rank": of_process.get(owner), "categories_ns": spent})
    return sorted(out, key=lambda row: (row["rank"] is None, row["rank"], row["process"]))


def categories_ns(profile: Profile) -> dict[str, float]:
    """Return the time of each category [ns], which add up to the run time: of one process, or the
    mean over the ranks.
    """
    each = ranks(profile)
    if not each:
        return {name: float(spent) for name, spent in summary.categories_ns(profile).items()}
    return {
        name: sum(row["categories_ns"][name] for row in each) / len(each) for name in CATEGORIES
    }


def gpus(profile: Profile) -> list[dict[str, Any]]:
    """Return what each GPU does during the run; empty without one.

    Returns
    -------
    For each: ``device``, ``name`` (None where it is not recorded), ``process`` and ``rank`` of
    merged recordings (else None), and the union of times [ns]: ``kernels_ns``, of it
    ``between_gpus_ns`` in which a kernel between GPUs runs and no other; ``copies_ns`` where no
    kernel runs; ``idle_ns``.
    """
    trace = profile.trace
    chosen = collectives(trace)
    apart = trace.kernels.filter(pl.Series(chosen)) if chosen.any() else trace.kernels.clear()
    names = dict(trace.devices.select("device", "name").iter_rows())
    of_process = _rank_numbers(profile)
    out = []
    for device, process in summary.devices(profile):
        computing = device_busy(trace, device, ("kernels", "graphs", "memsets"), process)
        copying = device_busy(trace, device, ("copies",), process)
        busy = int((computing[1] - computing[0]).sum())
        copies = int((copying[1] - copying[0]).sum() - covered_ns(*copying, *computing).sum())
        between = _between(
            trace.kernels.filter(~pl.Series(chosen)) if chosen.any() else trace.kernels,
            apart,
            device,
            process,
        )
        out.append(
            {
                "device": None if device == _NONE else device,
                "name": names.get(device),
                "process": None if process is None else _pid(process),
                "rank": None if process is None else of_process.get(process),
                "kernels_ns": busy,
                "between_gpus_ns": between,
                "copies_ns": copies,
                "idle_ns": profile.run_time_ns - busy - copies,
            }
        )
    return out


def _pid(process: int) -> int:
    """Return the number of a process on its machine."""
    return process_number(process) % MOST_THREADS


def _between(others: pl.DataFrame, apart: pl.DataFrame, device: int, process: int | None) -> int:
    """Return how long kernels between GPUs run alone on a device [ns]."""

    def busy(kernels: pl.DataFrame) -> tuple[Any, Any]:
        on = kernels.filter(pl.col("device").fill_null(_NONE) == device)
        own = on if process is None else on.filter(pl.col("process").fill_null(_NONE) == process)
        return merge(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())

    if not apart.height:
        return 0
    start, end = busy(apart)
    return int((end - start).sum() - covered_ns(start, end, *busy(others)).sum())


def _rank_numbers(profile: Profile) -> dict[int, int]:
    """Return the rank of each process that the recording numbers."""
    trace = profile.trace
    merged = trace.table("processes").drop_nulls("rank").select("process", "rank").iter_rows()
    return dict(merged) | {
        process_of(thread): rank
        for thread, rank in trace.mpi_ranks.select("thread", "rank").iter_rows()
    }
