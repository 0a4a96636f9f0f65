"""Coverage of a recording: the share of launches with rows on a device, and the share of the
device's time with a call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from turnbuckle.profile.classify import CALL_CLASS, by_name, call_classes
from turnbuckle.profile.profile import Profile
from turnbuckle.trace.check import nested_calls


def coverage(profile: Profile) -> dict[str, Any]:
    """Return the numbers of launches and of device rows that they caused, as far as the recording
    holds them.

    A driver call inside a runtime call is the same launch.  Calls that failed launched nothing.  A
    CUDA graph recorded as one row counts as rows of its launch.

    Returns
    -------
    ``launches``: calls that start kernels or graphs, ``with_rows`` of them that have a row on a
    device, and the ``share``; ``graph_launches``: the same of graphs alone; each None where no call
    is recorded.  ``device_rows``: ``count`` of kernels, copies, sets and graphs (but not
    migrations, which no call starts), ``with_call`` of them that name their call, and the
    ``time_share`` of those; None where none is recorded.
    """
    trace = profile.trace
    pairs = trace.launch_pairs
    launches, graphs = (_launches(profile, pairs, graphs=only) for only in (False, True))
    return {"launches": launches, "graph_launches": graphs, "device_rows": profile.device_rows}


def time_with_call(profile: Profile) -> float | None:
    """Return the share of the device's time in rows that name their call; None without device work
    that a call starts.
    """
    rows = profile.device_rows
    return None if rows is None else rows["time_share"]


def _launches(profile: Profile, pairs: pl.DataFrame, *, graphs: bool) -> dict[str, Any] | None:
    api = profile.trace.api
    if not api.height:
        return None
    meant = call_classes(api["name"], profile.trace.names) == CALL_CLASS["launch"]
    if graphs:
        meant &= by_name(
            api["name"], profile.trace.names, lambda text: "GraphLaunch" in text, False
        )
    calls = np.flatnonzero(meant & (api["result"].fill_null(0) == 0).to_numpy())
    if not len(calls):
        return {"count": 0, "with_rows": 0, "share": None}
    started = np.zeros(api.height, np.bool_)
    started[pairs["api_row"].to_numpy()] = True
    launches = (
        api[calls]
        .select("thread", "start_ns", "end_ns")
        .with_columns(started=started[calls], outer=~nested_calls(api[calls]))
    )
    order = launches.sort(
        "thread", "start_ns", "end_ns", descending=[False, False, True], maintain_order=True
    )
    by_launch = (
        order.with_columns(launch=pl.col("outer").cum_sum())
        .group_by("launch")
        .agg(pl.col("started").any())
    )
    with_rows = int(by_launch["started"].sum())
    return {
        "count": by_launch.height,
        "with_rows": with_rows,
        "share": with_rows / by_launch.height,
    }
