"""Answer of ``turnbuckle inspect`` about a profile.  Values that a recording does not show are
null, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from turnbuckle.machine import Machine, fastest_link
from turnbuckle.machine.parameter_names import HOST_WAYS, link_parameter
from turnbuckle.profile.messages.traffic import traffic
from turnbuckle.profile.profile import Profile
from turnbuckle.profile.summary import each, host_work, summary
from turnbuckle.profile.summary.coverage import coverage
from turnbuckle.profile.summary.offload import DEFAULT_ALPHA, offload_map
from turnbuckle.profile.summary.start_up import StartUp
from turnbuckle.profile.transfers import LinkFit, looks_like, reference_fit
from turnbuckle.trace.bounds import DEVICE_TABLES


def describe(
    profile: Profile,
    source: Machine,
    fits: Mapping[tuple[str, str], LinkFit],
    begun: StartUp | None,
) -> dict[str, Any]:
    """Return the complete answer of ``inspect`` about one profile, of which `begun` is the
    start-up.

    Returns
    -------
    Plain dictionaries; keys ending in ``_ns`` are integer nanoseconds, ``_s`` seconds, ``bytes``
    bytes, ``bandwidth`` and ``nominal`` B/s.
    """
    trace = profile.trace
    recorded = trace.facts["tables"]
    # a profiler that does not write its own overhead says nothing of it; work of a device without
    # any call means that calls were not noted
    has_overhead = trace.facts.get("format") in (None, "nsys")
    called = trace.api.height > 0 or not trace.has & set(DEVICE_TABLES)
    # a recorder that wrote what it was told to record says nothing of the rest
    recorded_tables = trace.facts.get("recorded")
    silent = (
        frozenset() if recorded_tables is None else {"copies", "memsets"} - set(recorded_tables)
    )
    unseen = untold(profile)
    gpu = any(recorded.get(t) for t in recorded if t.startswith("CUPTI_ACTIVITY_KIND")) or bool(
        trace.has & {"api", *DEVICE_TABLES}
    )
    return {
        "run_time_ns": profile.run_time_ns,
        "kernel_window_ns": summary.kernel_window_ns(profile),
        "start_up": None if begun is None else begun.as_dict(),
        "kernels": summary.kernels(profile) if gpu else None,
        "copies": summary.copies(profile) if gpu and "copies" not in silent else None,
        "memsets": {"count": trace.memsets.height} if gpu and "memsets" not in silent else None,
        "api": {"count": trace.api.height} if gpu and called else None,
        "coverage": coverage(profile) if gpu else None,
        "overlap": summary.overlap(profile) if gpu and "copies" not in silent else None,
        "categories_ns": {
            c: None if c in unseen and not ns else ns
            for c, ns in summary.categories_ns(profile).items()
        },
        "ranks": each.ranks(profile),
        "gpus": each.gpus(profile),
        "closure_defect_ns": summary.closure_defect_ns(profile),
        "launch": summary.launch(profile) if gpu and called else None,
        "links": links(source, fits),
        "offload": offload(profile, source),
        "host_work": host_work.described(profile),
        "cpu_activity": summary.cpu_activity(profile),
        "memory": memory(profile),
        "profiler_overhead_share": summary.overhead_share(profile)
        if has_overhead or trace.overheads.height
        else None,
        "mpi": traffic(trace),
        "devices": [
            {
                k: row[k]
                for k in (
                    "device",
                    "name",
                    "discrete",
                    "memory_bytes",
                    "multiprocessors",
                    "copy_engines",
                )
            }
            for row in trace.devices.to_dicts()
        ],
        "scope": scope(trace.facts.get("part", {})),
    }


#: What a part is called in ``facts["part"]``, and on a screen.
_PARTS = {
    "nvtx": "an NVTX range",
    "steps": "steps",
    "steady": "without start-up",
    "kernels": "first kernel to last",
}


def untold(profile: Profile) -> frozenset[str]:
    """Return the categories of the time line that were not recorded; their time is missing, not
    zero.

    Kernels were not recorded where calls launch them and none has a row.
    """
    trace = profile.trace
    out = set() if trace.api.height else {"api"}
    if (
        not trace.has & {"kernels", "graphs"}
        and (profile.activities["call_class"] == "launch").any()
    ):
        out.add("kernel")
    if not trace.has & set(DEVICE_TABLES):
        out |= {"kernel", "copy"}
    elif not trace.copies.height and "copies" not in trace.facts.get("recorded", ("copies",)):
        out.add("copy")
    return frozenset(out)


def scope(part: Mapping[str, Any]) -> str:
    """Describe how much of the recording the figures cover."""
    cuts = []
    if "rank" in part:
        cuts.append(f"rank {part['rank']}")
    if "bounds_ns" in part:
        bounds = (
            f"{part['begin_ns'] * 1e-9:.6g} s to {part['end_ns'] * 1e-9:.6g} s of "
            f"{part['of_ns'] * 1e-9:.6g} s"
        )
        cuts.append(
            bounds + next((f" ({words})" for key, words in _PARTS.items() if key in part), "")
        )
    if "clean_ns" in part:
        cuts.append(
            "host calls shortened to the run time without profiler, "
            f"{part['clean_ns'] * 1e-9:.6g} s"
        )
    return (
        f"a part of the recording: {'; '.join(cuts)}"
        if cuts
        else "the whole recording: all processes, devices and streams in the file"
    )


def links(source: Machine, fits: Mapping[tuple[str, str], LinkFit]) -> dict[str, Any]:
    """Describe the link in each direction: observed and nominal rate, share reached, links with
    this rate, every fitted class.
    """
    out: dict[str, Any] = {}
    limit = fastest_link(source)
    for direction in ("h2d", "d2h", "p2p", "migration_h2d", "migration_d2h"):
        reference = reference_fit(dict(fits), direction) or fits.get((direction, "pageable"))
        if reference is None:
            continue
        # the driver stages pageable copies: their rate says little of the link
        host_way = next(
            (
                candidate
                for candidate in HOST_WAYS
                if candidate == direction and reference.memory != "pageable"
            ),
            None,
        )
        nominal = None if host_way is None else source.value(link_parameter(host_way, "bandwidth"))
        bandwidth = reference.bandwidth
        named = (
            looks_like(bandwidth, source.recognise, source.coupling, limit)
            if bandwidth and host_way
            else ()
        )
        out[direction] = {
            "latency_s": reference.latency_s,
            "latency_error_s": reference.latency_error,
            "bandwidth": bandwidth,
            "bandwidth_error": reference.bandwidth_error,
            "efficiency": bandwidth / nominal if bandwidth and nominal else None,
            "nominal": nominal,
            "r2": reference.r2,
            "memory": reference.memory,
            "looks_like": [link.name for link in named],
            "classes": [fit.as_dict() for (d, _), fit in fits.items() if d == direction],
        }
    return out


def offload(profile: Profile, source: Machine, most: int = 50) -> dict[str, Any] | None:
    """Judge for the `most` costliest kernels whether moving them to the device paid, at an assumed
    acceleration; None without kernels.
    """
    rows = offload_map(profile, launch_cost(source))
    return (
        {
            "alpha": DEFAULT_ALPHA,
            "kernels": rows.head(most).to_dicts(),
            "distinct_kernels": rows.height,
        }
        if rows.height
        else None
    )


def launch_cost(source: Machine) -> float:
    """Return the cost of starting one kernel on the source [s]: the latency to an idle device, else
    that of the call, else 0.
    """
    return source.value("launch.latency") or source.value("launch.call") or 0.0


def memory(profile: Profile) -> dict[str, Any] | None:
    """Return the peak of the recorded device allocations [B] and their number; None where
    allocations were not recorded.
    """
    line = summary.memory_timeline(profile)
    if not line.height:
        return None
    return {
        "peak_bytes": summary.peak_memory_bytes(profile),
        "events": line.height,
        "final_bytes": int(line["size_bytes"][-1]),
    }


def transfer_distribution(profile: Profile) -> dict[str, dict[str, pl.DataFrame]]:
    """Return histograms per direction of copy sizes [B] and times [s] by factor of two, weighted by
    bytes and by seconds (AHEAD, Fig 1).
    """
    out = {}
    for kind in ("copy_h2d", "copy_d2h", "copy_d2d", "copy_p2p", "migration"):
        rows = profile.of(kind).filter(pl.col("size_bytes").is_not_null())
        if rows.height:
            size, seconds = (
                rows["size_bytes"].cast(pl.Float64).to_numpy(),
                rows["seconds"].to_numpy(),
            )
            out[kind.removeprefix("copy_")] = {
                "by_size": summary.distribution(size, size),
                "by_time": summary.distribution(size, seconds),
                "times": summary.distribution(seconds, seconds),
            }
    return out
