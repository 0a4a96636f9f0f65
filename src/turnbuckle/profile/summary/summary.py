"""Questions about a profile, one free function each.  Counts, bytes and times are exact; scope is
the whole recording.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from turnbuckle.foundation.arrays import Float, Int, filled
from turnbuckle.foundation.errors import error_of
from turnbuckle.foundation.schema import words
from turnbuckle.profile.classify import CATEGORIES, by_name
from turnbuckle.profile.dependencies.sides import SCOPES, scope_of
from turnbuckle.profile.messages.nccl import collectives
from turnbuckle.profile.profile import Profile, device_busy
from turnbuckle.trace.bounds import DEVICE_TABLES
from turnbuckle.trace.intervals import covered_ns, merge, union_ns
from turnbuckle.trace.window import kernels_ns

#: Stands for a name the file does not hold.
UNNAMED = "(name not recorded)"
#: Classes of copies as the outside world names them.
COPY_CLASSES = ("h2d", "d2h", "d2d", "p2p", "migration_h2d", "migration_d2h")


def categories_ns(profile: Profile) -> dict[str, int]:
    """Return the exclusive time of each category [ns]; the values add up to the run time (decision
    D1).
    """
    shares = dict(
        profile.activities.group_by("category").agg(pl.col("exposed_ns").sum()).iter_rows()
    )
    return {c: int(shares.get(c, 0)) for c in CATEGORIES}


def closure_defect_ns(profile: Profile) -> int:
    """Return the run time minus the sum of the categories [ns]: zero unless the accounting is
    broken.
    """
    return profile.run_time_ns - sum(categories_ns(profile).values())


def kernel_window_ns(profile: Profile) -> int | None:
    """Return the first kernel start to last kernel end [ns]; None without kernels."""
    bounds = kernels_ns(profile.trace)
    return None if bounds is None else bounds[1] - bounds[0]


def kernels(profile: Profile) -> dict[str, Any]:
    """Return the kernels: count, plain sum of durations, union of intervals [ns]; graphs recorded
    whole and collectives apart.
    """
    table = profile.trace.kernels
    start, end = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    return {
        "count": table.height,
        "busy_ns": int((end - start).sum()),
        "union_ns": int(union_ns(start, end)),
        "graph_launches": profile.trace.graphs.height,
        "in_graphs": int(table["graph_node"].is_not_null().sum()),
        "collective": _collective_kernels(profile),
    }


def _collective_kernels(profile: Profile) -> dict[str, int] | None:
    """Return the kernels between GPUs: count, plain sum, union on each device, its part without
    other kernels [ns]; None if none.
    """
    trace = profile.trace
    chosen = collectives(trace)
    if not chosen.any():
        return None
    apart = replace(
        trace, tables={**trace.tables, "kernels": trace.kernels.filter(pl.Series(chosen))}
    )
    others = replace(
        trace, tables={**trace.tables, "kernels": trace.kernels.filter(pl.Series(~chosen))}
    )
    union = alone = 0
    for device, process in devices(profile):
        start, end = device_busy(apart, device, ("kernels",), process)
        union += int((end - start).sum())
        alone += int(
            (
                end
                - start
                - covered_ns(
                    start,
                    end,
                    *device_busy(others, device, ("kernels", "graphs", "memsets"), process),
                )
            ).sum()
        )
    busy = int((apart.kernels["end_ns"] - apart.kernels["start_ns"]).sum())
    return {"count": apart.kernels.height, "busy_ns": busy, "union_ns": union, "alone_ns": alone}


def copies(profile: Profile) -> dict[str, dict[str, Any]]:
    """Return the copies and migrations by class: count, bytes (None where no copy of the class has
    them), plain sum of durations [ns].
    """
    rows = (
        profile.of("copy_h2d", "copy_d2h", "copy_d2d", "copy_p2p", "migration")
        .group_by(pl.col("direction").cast(pl.String))
        .agg(
            pl.len().alias("count"),
            pl.when(pl.col("size_bytes").is_not_null().any())
            .then(pl.col("size_bytes").sum())
            .alias("bytes"),
            (pl.col("end_ns") - pl.col("start_ns")).sum().alias("busy_ns"),
        )
    )
    by_class = {
        r["direction"]: {
            k: r[k] if r[k] is None else int(r[k]) for k in ("count", "bytes", "busy_ns")
        }
        for r in rows.to_dicts()
    }
    return {c: by_class.get(c, {"count": 0, "bytes": 0, "busy_ns": 0}) for c in COPY_CLASSES}


def moved_bytes(profile: Profile, direction: str) -> int:
    """Return the bytes of one class of copies [B].  Raises `CannotAnswer` A139 where the recording
    does not hold them.
    """
    size: int | None = copies(profile)[direction]["bytes"]
    if size is None:
        raise error_of("A139", where=profile.trace.name, found=f"no {direction} copy has a size")
    return size


#: Share of the bytes that copies of no more than the burst's rate move.
BURST = 0.95


def link_rates(profile: Profile) -> tuple[float, float] | None:
    """Return the bytes that cross the link to the host over the run time, and the rate that all but
    a twentieth of them stay within while they are copied [B/s]; None where no copy has a size.
    """
    rows = profile.of("copy_h2d", "copy_d2h", "migration").filter(
        pl.col("direction").cast(pl.String).is_in(["h2d", "d2h", "migration_h2d", "migration_d2h"])
        & (pl.col("size_bytes") > 0)
        & (pl.col("end_ns") > pl.col("start_ns"))
    )
    if not rows.height or not profile.run_time_ns:
        return None
    size = rows["size_bytes"].to_numpy().astype(np.float64)
    rate = size / (rows["end_ns"] - rows["start_ns"]).to_numpy()
    order = np.argsort(rate)
    reached = np.cumsum(size[order])
    burst = rate[order][np.searchsorted(reached, BURST * reached[-1])]
    return float(size.sum()) / profile.run_time_ns * 1e9, float(burst) * 1e9


def overlap(profile: Profile) -> dict[str, Any]:
    """Return the copies hidden behind kernels of their own device [ns], and the share of copy time
    that is hidden (None without copies).
    """
    hidden = total = 0
    for device, process in devices(profile):
        computing = device_busy(profile.trace, device, ("kernels", "graphs", "memsets"), process)
        start, end = device_busy(profile.trace, device, ("copies",), process)
        total += int((end - start).sum())
        hidden += int(covered_ns(start, end, *computing).sum()) if len(computing[0]) else 0
    exposed = int(profile.activities.filter(pl.col("category") == "copy")["exposed_ns"].sum())
    return {
        "copy_union_ns": total,
        "copy_hidden_ns": hidden,
        "copy_exposed_ns": exposed,
        "copy_hidden_fraction": hidden / total if total else None,
    }


def devices(profile: Profile) -> list[tuple[int, int | None]]:
    """Return the devices by their numbers; for merged recordings also by process, because each
    process numbers the devices that it sees.
    """
    trace = profile.trace
    merged = trace.table("processes").height > 0
    devices: set[tuple[int, int | None]] = set()
    for frame in (trace.kernels, trace.graphs, trace.memsets, trace.copies):
        for device, process in (
            frame.select(pl.col("device", "process").fill_null(-1)).unique().iter_rows()
        ):
            devices.add((device, process if merged else None))
    return sorted(devices, key=lambda key: (key[0], key[1] or 0))


def launch(profile: Profile) -> dict[str, Any]:
    """Return both launch costs.

    ``call_median_ns``: time for which the launching call occupies the host.  ``latency_median_ns``:
    time from the call's start to the start of its work, over launches that found their device idle
    (None if there is none).
    """
    calls = profile.of("launch")
    call = (calls["end_ns"] - calls["start_ns"]).to_numpy()
    latency = (calls["delivered_ns"] - calls["start_ns"]).drop_nulls().to_numpy()
    return {
        "count": calls.height,
        "call_median_ns": int(np.median(call)) if len(call) else None,
        "call_p95_ns": int(np.quantile(call, 0.95)) if len(call) else None,
        "idle_count": len(latency),
        "latency_median_ns": int(np.median(latency)) if len(latency) else None,
    }


def synchronisations(profile: Profile) -> pl.DataFrame:
    """Return the calls whose purpose is to wait for a device, stream or event; blocking copies are
    not among them.
    """
    return profile.of("sync").filter(pl.col("call_class") == "sync")


def sync_return_s(profile: Profile) -> float | None:
    """Return the median time [s] from the end of the device's work to the return of a blocking
    wait; None if no work ended during a wait.

    The work is that of the wait's own process, and of the context and stream that it waits for
    where they are recorded.
    """
    if not synchronisations(profile).height:
        return None
    parts = [
        profile.trace.table(t).select("process", "context", "stream", "end_ns")
        for t in DEVICE_TABLES
    ]
    # what names no process may be anybody's
    work = pl.concat(parts).with_columns(pl.col("process").fill_null(_ANY))
    of_process, of_stream = (
        work.partition_by(keys, as_dict=True) for keys in (["process"], ["process", "stream"])
    )
    returns: list[Int] = []
    for (process, context, stream), waits in _waits(profile).group_by(
        "process", "context", "stream"
    ):
        owners = [_ANY, process] if process != _ANY else [owner for (owner,) in of_process]
        work_of, place = (of_process, ()) if stream is None else (of_stream, (stream,))
        candidates = pl.concat(
            [
                work.clear(),
                *(
                    work_of[owner, *place]
                    for owner in dict.fromkeys(owners)
                    if (owner, *place) in work_of
                ),
            ]
        )
        # old versions write context 0 for any
        candidates = (
            candidates.filter(pl.col("context").fill_null(0).is_in([0, context]))
            if context
            else candidates
        )
        ends = np.sort(candidates["end_ns"].to_numpy())
        if not len(ends):
            continue
        start, end = waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy()
        index = np.searchsorted(ends, end, side="right") - 1
        last = np.where(index >= 0, ends[np.maximum(index, 0)], np.iinfo(np.int64).min)
        waited = last > start
        returns.append(end[waited] - last[waited])
    seen = np.concatenate(returns) if returns else np.zeros(0, np.int64)
    return float(np.median(seen)) * 1e-9 if len(seen) else None


#: Stands for a process that is not recorded.
_ANY = -1
#: Kind of the legacy default stream: who waits for it waits for others too.
_NULL_STREAM = 3


def _waits(profile: Profile) -> pl.DataFrame:
    """Return synchronisations: start_ns, end_ns, process, context, and the stream that is waited
    for; null where not recorded.
    """
    trace, waits = profile.trace, synchronisations(profile)
    if not trace.syncs.height:
        process = filled(trace.api["process"], _ANY)[waits["row"].to_numpy()]
        return waits.select(
            "start_ns",
            "end_ns",
            process=pl.Series(process),
            context=pl.lit(None, pl.Int32),
            stream=pl.lit(None, pl.Int32),
        )
    calls = trace.api[waits["row"].to_numpy()].select(
        pl.col("process").fill_null(_ANY), "correlation"
    )
    of_stream = by_name(waits["name"], trace.names, scope_of, 0) == SCOPES.index("stream")
    keys, place = ["process", "correlation"], ["context", "stream"]
    default = (
        trace.streams.filter(pl.col("kind") == _NULL_STREAM).select(*place, default=True).unique()
    )
    named = (
        trace.syncs.select(*keys, *place)
        .drop_nulls(keys)
        .unique(keys, keep="first")
        .join(default, on=place, how="left")
    )
    joined = (
        waits.select("start_ns", "end_ns")
        .hstack(calls)
        .with_columns(of_stream=pl.Series(of_stream))
        .join(named, on=keys, how="left")
    )
    return joined.with_columns(
        stream=pl.when(pl.col("of_stream") & pl.col("default").is_null()).then("stream")
    )


def alloc_call_s(profile: Profile) -> float | None:
    """Return the median duration [s] of calls that allocate or free; None without any."""
    calls = profile.of("alloc")
    return float(calls["seconds"].median()) if calls.height else None  # type: ignore[arg-type]


def calls(profile: Profile) -> pl.DataFrame:
    """Return the host calls by name: call, call_class, count, seconds in all, median, share of run
    time that is exposed; longest first.
    """
    host = profile.activities.filter(pl.col("category") == "api")
    host = host.with_columns(call=profile.trace.text(host).fill_null(UNNAMED))
    run = max(profile.run_time_ns, 1)
    return (
        host.group_by("call", "call_class")
        .agg(
            pl.len().alias("count"),
            pl.col("seconds").sum(),
            pl.col("seconds").median().alias("median_seconds"),
            (pl.col("exposed_ns").sum() / run).alias("exposed_share"),
        )
        .sort("seconds", "call", "call_class", descending=[True, False, False])
    )


def kernel_names(profile: Profile, kernels: pl.DataFrame) -> pl.Series:
    """Return the names of kernel activities; graphs recorded as one activity, and kernels without a
    recorded name, get a placeholder.
    """
    graphs_only = profile.trace.kernels["name"].null_count() == 0
    return profile.trace.text(kernels).fill_null("(CUDA graph)" if graphs_only else UNNAMED)


def kernel_table(profile: Profile) -> pl.DataFrame:
    """Return the kernels by name: kernel, count, seconds in all, median and mean [s], share of
    kernel time; longest first.
    """
    rows = profile.of("kernel")
    total = max(float(rows["seconds"].sum()), 1e-300)
    return (
        rows.with_columns(kernel=kernel_names(profile, rows))
        .group_by("kernel")
        .agg(
            pl.len().alias("count"),
            pl.col("seconds").sum(),
            pl.col("seconds").median().alias("median_seconds"),
            pl.col("seconds").mean().alias("mean_seconds"),
        )
        .with_columns(share=pl.col("seconds") / total)
        .sort("seconds", "kernel", descending=[True, False])
    )


def distribution(values: Float, weights: Float | None = None) -> pl.DataFrame:
    """Return the histogram by factor of two: low, high (edges), count, weight; for sizes [B] and
    times [s].
    """
    positive = values > 0
    if not positive.any():
        return pl.DataFrame(
            schema={"low": pl.Float64, "high": pl.Float64, "count": pl.Int64, "weight": pl.Float64}
        )
    octave = np.floor(np.log2(values[positive])).astype(np.int64)
    weight = np.ones(int(positive.sum())) if weights is None else weights[positive]
    low = np.arange(octave.min(), octave.max() + 1)
    index = octave - octave.min()
    return pl.DataFrame(
        {
            "low": 2.0**low,
            "high": 2.0 ** (low + 1),
            "count": np.bincount(index, minlength=len(low)),
            "weight": np.bincount(index, weights=weight, minlength=len(low)),
        }
    )


def memory_timeline(profile: Profile) -> pl.DataFrame:
    """Return the live device memory over time from recorded allocations: seconds since the run's
    start, bytes; empty without records.

    A free is matched to the latest allocation at its address; frees of memory allocated before the
    recording count as 0 bytes.
    """
    rows = profile.trace.allocations.filter(pl.col("size_bytes").is_not_null())
    rows = rows.filter(
        pl.col("memory").is_in(
            [i for i, w in enumerate(words("memories")) if w in ("device", "managed", "unknown")]
        )
    )
    if not rows.height:
        return pl.DataFrame(schema={"seconds": pl.Float64, "size_bytes": pl.Int64})
    change = np.zeros(rows.height, dtype=np.int64)
    live: dict[tuple[int | None, int | None], int] = {}
    for i, (process, address, operation, size) in enumerate(
        rows.select("process", "address", "operation", "size_bytes").iter_rows()
    ):
        if operation == 0:
            live[process, address] = size
            change[i] = size
        else:
            change[i] = -live.pop((process, address), 0)
    return pl.DataFrame(
        {
            "seconds": (rows["time_ns"].to_numpy() - profile.first_ns) * 1e-9,
            "size_bytes": np.cumsum(change),
        }
    )


def peak_memory_bytes(profile: Profile) -> int:
    """Return the largest amount of device memory that the run held at once, by the recorded
    allocations [B]; 0 without records.
    """
    # the answer on every target asks for it: added up once a profile
    if "_peak_memory_bytes" not in profile.__dict__:
        line = memory_timeline(profile)
        profile.__dict__["_peak_memory_bytes"] = (
            int(line["size_bytes"].to_numpy().max()) if line.height else 0
        )
    peak: int = profile.__dict__["_peak_memory_bytes"]
    return peak


def cpu_activity(
    profile: Profile, within_ns: tuple[int, int] | None = None
) -> dict[str, Any] | None:
    """Return the serial and parallel CPU time of the profiled threads from scheduling records; None
    where there are none.

    serial: time in which exactly one of the run's threads is on a core; parallel: two or more [s].
    `within_ns` are the ends of the part of the run that is asked about [ns].
    """
    trace = profile.trace
    first, last = within_ns or (profile.first_ns, profile.last_ns)
    wanted = {
        t for f in (trace.api, trace.mpi, trace.os_calls) for t in f["thread"].unique().to_list()
    }
    rows = trace.scheduling.filter(pl.col("thread").is_in(list(wanted))).sort("thread", "time_ns")
    if not rows.height:
        return None
    spans = rows.with_columns(until=pl.col("time_ns").shift(-1).over("thread")).filter(
        (pl.col("running") == 1) & pl.col("until").is_not_null()
    )
    start = np.clip(spans["time_ns"].to_numpy(), first, last)
    end = np.clip(spans["until"].to_numpy(), first, last)
    times = np.concatenate([start, end])
    order = np.argsort(times, kind="stable")
    running = np.cumsum(np.concatenate([np.ones(len(start)), -np.ones(len(end))])[order])[:-1]
    width = np.diff(times[order]) * 1e-9
    return {
        "threads": int(spans["thread"].n_unique()),
        "serial_s": float(width[running == 1].sum()),
        "parallel_s": float(width[running >= 2].sum()),
        "core_seconds": float(((end - start).sum()) * 1e-9),
    }


def overhead_share(profile: Profile) -> float:
    """Return the share of the run in which the profiler itself worked on a recorded thread."""
    rows = profile.trace.overheads
    if not rows.height or not profile.run_time_ns:
        return 0.0
    start, end = merge(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())
    run = (np.array([profile.first_ns]), np.array([profile.last_ns]))
    return float(covered_ns(start, end, *run).sum()) / profile.run_time_ns
